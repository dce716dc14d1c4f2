"""The lake of runs: a run is in it once and whole, whatever ends when; what cannot be read is said."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from time import time
from typing import Any

import pytest
from pyiceberg.table import Table
from typer.testing import CliRunner

from checkers.costs import measures
from checkers.evidence.evidence import Evidence
from checkers.evidence.runfolder import RunFolder, StoreError
from checkers.judge.runfolder import load_evidence
from checkers.lake import rows as lakerows
from checkers.lake.requests import requests_of
from checkers.lake.rows import NotARun, night_of
from checkers.lake.tables import BY_NAME, LAKE_TABLES, LAKE_VERSION, RUNS_TABLE, documented
from checkers.nights.record import NightRun, _encoded
from compose.install.installation import Installation
from compose.processes.ports import Ports
from compose.servers.minio import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, Minio
from harness.cli.app import app
from harness.cli.crash import Crash
from harness.cli.lake import keeping
from harness.cli.options import BadArgument
from harness.lake import place, upkeep
from harness.lake.errors import Collision, LakeError, QueryError
from harness.lake.folders import add_all, folders_in, keep, kept, read, unusable
from harness.lake.lake import VERSION_KEY, Lake, opened, summary, within
from harness.lake.place import Place, embedded
from harness.lake.views import readable
from tests.support.lakes import adding, content, copied, files_on_disk
from tests.support.peers import PATIENCE
from tests.support.refusing import refusing
from tests.support.runs import ROOT
from workloads.file.suite import Cell
from workloads.file.yamlfile import FileError

DAY = date(2026, 11, 20)
STAMPS = [f"20261120T2240{n:02}.000Z" for n in range(30)]


@pytest.fixture(scope="session")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the shortest recorded run, for tests that need any run."""
    import zipfile

    from checkers.selftest import recorded

    folder = tmp_path_factory.mktemp("one-run")
    with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / "atomicity-75.zip") as z:
        z.extractall(folder)
    return folder


# --- what is in it ----------------------------------------------------------------------------------------------------


def test_a_run_comes_back_as_it_was_recorded(recorded_run: Path, tmp_path: Path) -> None:
    folder = copied(recorded_run, tmp_path)
    evidence = load_evidence(folder.path)
    keep(embedded(tmp_path), folder)
    with opened(embedded(tmp_path)) as lake:
        (run,) = content(lake, "runs")
        operations, commits = content(lake, "operations"), content(lake, "commits")
        figures = {m["name"]: m["value"] for m in content(lake, "metrics") if m["kind"] is None}
    assert run["run"] == "quick/20261120T223951.000Z" and run["day"] == DAY and run["night"] == DAY
    assert run["started"] == datetime(2026, 11, 20, 22, 39, 51, tzinfo=UTC)
    assert (run["verdict"], run["anomalies"], run["state"], run["seed"]) == (
        None,
        None,
        "complete",
        folder.read_plan().seed,
    )
    recorded = {o.op: o for o in evidence.history.operations()}
    assert {o["op"] for o in operations} == {*recorded}
    for o in operations:
        was = recorded[str(o["op"])]
        assert (o["f"], o["table"], o["outcome"], o["invoke_ns"]) == (was.f, was.table, was.type, was.start)
        assert o["complete_ns"] == (None if was.completed is None else was.completed.time)
    logged = {(t, c.snapshot_id): c for t, log in evidence.logs.items() for c in log.commits}
    assert {(c["table"], c["snapshot"]) for c in commits} == {*logged}
    for c in commits:
        log = logged[str(c["table"]), int(str(c["snapshot"]))]
        assert (c["op"], c["attempts"], c["sequence_number"]) == (log.op, log.attempt, log.sequence_number)
        assert c["added_rows"] == (None if log.added is None else len(log.added))
    from checkers.judge.runfolder import Results

    measured = measures.measure(evidence, Results((), "unknown"), ())
    assert figures == {k: v for k, v in measured.figures.items() if v is not None}


def test_a_judged_run_has_its_verdict_and_its_anomalies(one_run: Path, tmp_path: Path) -> None:
    folder = copied(one_run, tmp_path)
    found = {
        "name": "lost-commit",
        "checker": "commits",
        "table": "checking",
        "explanation": "gone",
        "ops": ["w0-1"],
        "keys": [3],
    }
    confirmed = found | {"checker": "replay", "same_as": "lost-commit", "documented": None}
    results = {
        "valid": False,
        "complete": True,
        "allowed": ["lost-commit"],
        "expected": [],
        "checkers": [
            {"checker": "commits", "valid": False, "anomalies": [found]},
            {"checker": "replay", "valid": False, "anomalies": [confirmed]},
        ],
    }
    folder.results.write_text(json.dumps(results))
    keep(embedded(tmp_path), folder)
    with opened(embedded(tmp_path)) as lake:
        (run,) = content(lake, "runs")
        rows = content(lake, "anomalies")
    assert (run["verdict"], run["anomalies"], run["undocumented"]) == ("invalid", 1, 1)
    assert [(r["checker"], r["allowed"], r["ops"], r["keys"], r["same_as"]) for r in rows] == [
        ("commits", True, ["w0-1"], [3], None),
        ("replay", True, ["w0-1"], [3], "lost-commit"),
    ]


def test_an_anomaly_is_known_by_the_rule_of_its_night(one_run: Path, tmp_path: Path) -> None:
    """By an entry of the suite that covers it, else by its story; what the entry does not cover is new, as the night says."""
    folder = copied(one_run, tmp_path)
    swap, cycle, gone, other = (
        {"name": name, "checker": checker, "table": "checking", "explanation": "x"}
        for name, checker in (
            ("lost-update", "pointer"),
            ("lost-update", "isolation"),
            ("missing-file", "replay"),
            ("missing-file", "replay"),
        )
    )
    of_suite, of_story = "https://example.org/1", "https://example.org/2"
    results = {
        "valid": False,
        "checkers": [
            {"checker": "pointer", "valid": False, "anomalies": [swap]},
            {"checker": "isolation", "valid": False, "anomalies": [cycle]},
            {"checker": "replay", "valid": False, "anomalies": [gone, other]},
        ],
        "stories": [
            {"anomalies": [["isolation", 0]], "known": []},
            {"anomalies": [["replay", 1]], "known": [{"scenario": "a", "link": of_story, "anomalies": []}]},
        ],
    }
    folder.results.write_text(json.dumps(results))
    entry = {"anomaly": ["pointer/lost-update"], "link": of_suite, "runs": 5}
    with folder.plan.open("a") as plan:
        plan.write(f"known: {json.dumps([entry, {'of': 'another form'}])}\n")
    keep(embedded(tmp_path), folder)
    with opened(embedded(tmp_path)) as lake:
        assert lake.table("anomalies").scan(selected_fields=("known",)).to_arrow()["known"].to_pylist() == [
            of_suite,
            None,
            None,
            of_story,
        ]


def test_a_lake_that_was_made_before_a_column_was_known_takes_it(one_run: Path, tmp_path: Path) -> None:
    folders = [copied(one_run, tmp_path, stamp) for stamp in STAMPS[:2]]
    found = {"name": "lost-commit", "checker": "commits", "explanation": "gone"}
    for folder in folders:
        results = {"valid": False, "checkers": [{"checker": "commits", "valid": False, "anomalies": [found]}]}
        folder.results.write_text(json.dumps(results))
    with opened(embedded(tmp_path), make=True) as lake:
        lake.add([read(folders[0])])
        with lake.table("anomalies").update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("known")
        assert "known" not in lake.table("anomalies").schema().column_names
        lake.add([read(folders[1])])
        assert [row["known"] for row in content(lake, "anomalies")] == [None, None]


def test_requests_are_read_whatever_is_in_a_line(tmp_path: Path) -> None:
    good = {
        "time": 5,
        "writer": 1,
        "service": "catalog",
        "kind": "commit",
        "what": "POST /t",
        "op": "w1-0",
        "status": "200",
        "ms": 1.5,
    }
    lines = [good, good | {"time": 6, "faults": ["delay"], "changes": [{"table": "t"}]}]
    path = tmp_path / "proxy.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in lines) + '{"time": 7, "wri')
    clean = requests_of(path)
    assert (
        clean is not None
        and clean["time_ns"].to_pylist() == [5, 6]
        and clean["faults"].to_pylist() == [None, ["delay"]]
    )
    path.write_text(
        "".join(json.dumps(x) + "\n" for x in [good | {"base": 17}, *lines]) + "no json\n" + '{"time": "soon"}\n'
    )
    mixed = requests_of(path)
    assert mixed is not None and mixed["base"].to_pylist() == ["17", None, None] and mixed.slice(1) == clean
    assert requests_of(tmp_path / "none.jsonl") is None


GOOD = {"time": 5, "writer": 1, "service": "catalog", "kind": "commit", "what": "POST /t", "op": "w1-0", "ms": 1.5}


@pytest.mark.parametrize("part", [1, 100, 1000, 1 << 26])
def test_a_log_is_read_in_parts_of_any_size_as_it_is_in_one(tmp_path: Path, part: int) -> None:
    """Arrow takes no part of 2 GiB; so a log of that size is read in parts, and one line that is broken spoils no other part."""
    path = tmp_path / "proxy.jsonl"
    lines = [json.dumps(GOOD | {"time": n, "op": f"w1-{n}"}) for n in range(50)]
    path.write_text("\n".join([*lines[:20], "no json", "", *lines[20:], '{"time": 50, "op": "w1']))
    found = requests_of(path, part)
    assert found is not None
    assert found["time_ns"].to_pylist() == [*range(50)]
    assert found["op"].to_pylist() == [f"w1-{n}" for n in range(50)]


@pytest.mark.parametrize(
    ("line", "op"),
    [
        (json.dumps(GOOD | {"op": "\ud800"}), "?"),  # half a character
        ('{"time": 5, "op": ' + "[" * 100_000 + "]" * 100_000 + "}", None),
    ],
    ids=["half a character", "nested"],
)
def test_a_line_that_arrow_does_not_take_keeps_no_run_out_of_the_lake(
    one_run: Path, tmp_path: Path, line: str, op: str | None
) -> None:
    folder = copied(one_run, tmp_path)
    folder.proxy.write_text(f"{line}\n{json.dumps(GOOD)}\n")
    keep(embedded(tmp_path), folder)
    with opened(embedded(tmp_path)) as lake:
        assert {r["op"] for r in content(lake, "requests")} == {"w1-0", op} - {None}


@pytest.mark.parametrize("name", ["proxy.jsonl", "results.json"])
def test_a_file_that_is_there_and_cannot_be_read_is_not_taken_for_none(
    one_run: Path, tmp_path: Path, name: str
) -> None:
    folder = copied(one_run, tmp_path)
    (folder.path / name).mkdir()  # whoever opens it gets an OSError
    said: list[str] = []
    assert not kept(embedded(tmp_path), folder, load_evidence(one_run), said.append)
    assert name in said[0] and "is not in the lake" in said[0]
    with opened(embedded(tmp_path), make=True) as lake:
        assert [*add_all(lake, [folder], say=said.append).skipped] == [folder.path] and name in said[1]


@pytest.mark.parametrize(
    ("started", "given", "night"),
    [
        ("2026-11-20T22:39:51", None, "2026-11-20"),
        ("2026-11-21T05:00:00", None, "2026-11-20"),
        ("2026-11-21T11:59:59", None, "2026-11-20"),
        ("2026-11-21T12:00:00", None, "2026-11-21"),
        ("2026-11-21T12:00:00", "2026-11-19", "2026-11-19"),
    ],
)
def test_the_runs_of_one_night_have_one_date(started: str, given: str | None, night: str) -> None:
    assert night_of(datetime.fromisoformat(started).replace(tzinfo=UTC), given) == date.fromisoformat(night)


def test_a_night_that_is_no_date_is_refused() -> None:
    with pytest.raises(NotARun, match="night: must be a date, such as 2026-11-22, not 'soon'"):
        night_of(datetime(2026, 11, 20, tzinfo=UTC), "soon")


def test_runs_that_differ_in_seed_and_versions_only_have_one_setup(one_run: Path, tmp_path: Path) -> None:
    plan = RunFolder(one_run).read_plan()
    same = plan.model_copy(
        update={"seed": 99, "versions": {"iceberg": "9.9"}, "namespace": "iq_other", "command": "again"}
    )
    other = plan.model_copy(update={"writers": 17})
    assert lakerows.setup_of(plan) == lakerows.setup_of(same) != lakerows.setup_of(other)


# --- once and whole ---------------------------------------------------------------------------------------------------


def test_a_run_that_is_added_again_is_there_once(one_run: Path, tmp_path: Path) -> None:
    folder = copied(one_run, tmp_path)
    keep(embedded(tmp_path), folder)
    with opened(embedded(tmp_path)) as lake:
        before = {t.name: content(lake, t.name, "added") for t in LAKE_TABLES}
        lake.add([read(folder)])
        assert {t.name: content(lake, t.name, "added") for t in LAKE_TABLES} == before
        assert [r["run"] for r in before["runs"]] == ["quick/20261120T223951.000Z"]


def test_a_crash_between_two_tables_leaves_no_run_and_is_repaired_by_adding_it_again(
    one_run: Path, tmp_path: Path
) -> None:
    """Whichever table is the last that was written."""

    class Crash(Exception):
        pass

    class Dying(Lake):
        def change(self, name: str, how: Callable[[Table], Any]) -> Any:
            done = super().change(name, how)
            if name == dying_after[0]:
                raise Crash
            return done

    folder = copied(one_run, tmp_path)
    rows = read(folder)
    with opened(embedded(tmp_path), make=True) as lake:
        lake.add([rows])
        whole = {t.name: content(lake, t.name) for t in LAKE_TABLES}
        for table in (RUNS_TABLE.name, LAKE_TABLES[0].name, LAKE_TABLES[-2].name):  # runs: after its row is removed
            dying_after = [table]
            with pytest.raises(Crash):
                Dying(lake.place, lake.catalog).add([rows])
            assert lake.held() == {}
            lake.add([rows])
            assert {t.name: content(lake, t.name) for t in LAKE_TABLES} == whole


def test_processes_that_add_runs_at_once_lose_none_and_double_none(one_run: Path, tmp_path: Path) -> None:
    """Both add the same run, too, and make the lake."""
    folders = [copied(one_run, tmp_path, stamp).path for stamp in STAMPS[:7]]
    shared, mine, theirs = folders[0], folders[1:4], folders[4:]
    processes = [adding(tmp_path, [shared, *mine]), adding(tmp_path, [*theirs, shared])]
    try:
        for p in processes:
            assert p.stdout is not None and p.stdout.readline() == "ready\n"
        for p in processes:
            assert p.stdin is not None
            p.stdin.write("\n")
            p.stdin.flush()
        for p in processes:
            _, errors = p.communicate(timeout=300)
            assert p.returncode == 0, errors
    finally:
        for p in processes:
            p.kill()
            p.communicate()
    expected = read(RunFolder(shared))
    with opened(embedded(tmp_path)) as lake:
        assert {*lake.held()} == {f"quick/{s}" for s in STAMPS[:7]}
        for t in LAKE_TABLES:
            rows = content(lake, t.name)
            assert len(rows) == 7 * expected[t.name].num_rows, t.name


def test_another_run_of_the_same_name_is_refused_and_changes_nothing(one_run: Path, tmp_path: Path) -> None:
    folder = copied(one_run, tmp_path)
    other = copied(one_run, tmp_path / "elsewhere")
    plan = other.plan.read_text()
    other.plan.write_text(plan.replace("namespace: iq_", "namespace: iq_other_"))
    with opened(embedded(tmp_path), make=True) as lake:
        lake.add([read(folder)])
        with pytest.raises(Collision, match="has another run of that name"):
            lake.add([read(other)])
        said: list[str] = []
        out = add_all(lake, folders_in([tmp_path / "elsewhere"]), say=said.append)
        assert (out.added, out.present, [*out.skipped]) == ([], [], [other.path.resolve()])
        assert len(content(lake, "runs")) == 1


# --- small ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def several(one_run: Path, tmp_path: Path) -> tuple[Path, list[RunFolder]]:
    """A store with a lake that has five runs, each added by a commit of its own; and their folders."""
    folders = [copied(one_run, tmp_path, stamp) for stamp in STAMPS[:5]]
    with opened(embedded(tmp_path), make=True) as lake:
        for folder in folders:
            lake.add([read(folder)])
    return tmp_path, folders


def test_compaction_keeps_every_row(several: tuple[Path, list[RunFolder]]) -> None:
    store, _ = several
    with opened(embedded(store)) as lake:
        before = {t.name: content(lake, t.name) for t in LAKE_TABLES}
        assert [summary(lake)[name][1] for name in ("operations", "runs")] == [5, 5]
        assert upkeep.tend(lake, {DAY}, most_files=5).days == 0
        assert upkeep.tend(lake, upkeep.every_day(lake), most_files=4).days == sum(
            bool(rows) for rows in before.values()
        )
        assert [summary(lake)[name][1] for name in ("operations", "runs")] == [1, 1]
        assert {t.name: content(lake, t.name) for t in LAKE_TABLES} == before


def test_a_day_that_is_too_big_for_memory_is_left_alone(
    several: tuple[Path, list[RunFolder]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of many like rows are small, and huge in memory."""
    with opened(embedded(several[0])) as lake:
        rows = {t.name: len(content(lake, t.name)) for t in LAKE_TABLES}
        monkeypatch.setattr(upkeep, "MOST_ROWS", max(rows.values()) - 1)
        small = sum(0 < n < max(rows.values()) for n in rows.values())
        assert upkeep.tend(lake, {DAY}, most_files=1).days == small
        monkeypatch.undo()
        assert upkeep.tend(lake, {DAY}, most_files=1).days == 1


def test_compaction_gives_way_to_a_run_that_is_added_meanwhile(
    several: tuple[Path, list[RunFolder]], one_run: Path
) -> None:
    store, _ = several
    late = copied(one_run, store, STAMPS[9])
    with opened(embedded(store)) as lake:
        stale = lake.table("operations")
        lake.add([read(late)])
        before = content(lake, "operations")
        assert not upkeep.rewritten(stale, BY_NAME["operations"], DAY)
        assert content(lake, "operations") == before


COMMITS = BY_NAME["commits"]
LATER = upkeep.KEEP_S + 60
"""Seconds after which the snapshots of a test are old."""


def needed(table: Table) -> set[str]:
    """The files that a table's snapshots need: manifest lists, manifests, data."""
    lists = {s.manifest_list for s in table.metadata.snapshots}
    manifests = {m.manifest_path: m for s in table.metadata.snapshots for m in s.manifests(table.io)}
    entries = [e for m in manifests.values() for e in m.fetch_manifest_entry(table.io)]
    return lists | {*manifests} | {e.data_file.file_path for e in entries}


def test_old_snapshots_expire_and_leave_no_files(one_run: Path, tmp_path: Path) -> None:
    rows = read(copied(one_run, tmp_path))
    name = COMMITS.name
    with opened(embedded(tmp_path), make=True) as lake:
        for _ in range(12):  # each is two snapshots: what was there goes, what is new comes
            lake.change(name, lambda t: t.overwrite(rows[name], overwrite_filter=within("day", {DAY})))
        before, snapshots = content(lake, name), len(lake.table(name).metadata.snapshots)
        assert snapshots >= upkeep.KEEP + upkeep.SLACK
        assert not upkeep.expire(lake, COMMITS, time())  # a reader may use them
        assert upkeep.expire(lake, COMMITS, time() + LATER)
        table = lake.table(name)
        assert len(table.metadata.snapshots) == upkeep.KEEP
        assert files_on_disk(lake, name) == needed(table)
        assert content(lake, name) == before


def test_a_transaction_applies_its_changes_once_and_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    with opened(embedded(tmp_path), make=True) as lake:
        table = lake.table(COMMITS.name)
        change = table.transaction()
        assert change.table_metadata is change.table_metadata
        change.set_properties(a="1")
        assert change.table_metadata is change.table_metadata and change.table_metadata.properties["a"] == "1"
        change.set_properties(a="2")
        assert change.table_metadata.properties["a"] == "2"
        assert "a" not in table.metadata.properties
        change.commit_transaction()
        assert lake.table(COMMITS.name).metadata.properties["a"] == table.metadata.properties["a"] == "2"


def aged(lake: Lake, folder: RunFolder) -> list[dict[str, object]]:
    """Let ``commits`` have as many snapshots as expire, some of whose files the newest ones need by another manifest; all its rows."""
    rows = read(folder)[COMMITS.name]
    lake.change(COMMITS.name, lambda t: t.append(rows))
    lake.change(COMMITS.name, lambda t: t.overwrite(rows, overwrite_filter=within("day", {DAY})))
    for n in range(32):  # the twentieth merges the manifests of the others
        lake.change(COMMITS.name, lambda t, n=n: t.append(rows.slice(n % rows.num_rows, 1)))
    assert len(lake.table(COMMITS.name).metadata.snapshots) >= upkeep.KEEP + upkeep.SLACK
    return content(lake, COMMITS.name)


def test_two_upkeeps_at_once_do_not_meet(one_run: Path, tmp_path: Path) -> None:
    """One has read the table before the other removed the files of its old snapshots."""

    class Behind(Lake):
        def table(self, name: str) -> Table:
            return stale.pop() if stale else super().table(name)

    with opened(embedded(tmp_path), make=True) as lake:
        before = aged(lake, copied(one_run, tmp_path))
        stale = [lake.table(COMMITS.name)]
        assert upkeep.expire(lake, COMMITS, time() + LATER)
        files = files_on_disk(lake, COMMITS.name)
        assert upkeep.expire(Behind(lake.place, lake.catalog), COMMITS, time() + LATER)
        assert files_on_disk(lake, COMMITS.name) == files and content(lake, COMMITS.name) == before


def test_a_file_that_cannot_be_removed_is_said(one_run: Path, tmp_path: Path) -> None:
    with opened(embedded(tmp_path), make=True) as lake:
        before = aged(lake, copied(one_run, tmp_path))
        first = lake.table(COMMITS.name).metadata.snapshots[0].snapshot_id
        (task,) = lake.table(COMMITS.name).scan(snapshot_id=first).plan_files()  # what it names was replaced
        with folders_in_place_of([Path(task.file.file_path)]):
            (line,) = upkeep.tend(lake, (), now=time() + LATER).ended
        assert "commits: cannot be written: " in line and "files that nothing needs may stay" in line
        assert content(lake, COMMITS.name) == before


def test_a_snapshot_that_has_a_name_stays_with_its_files(one_run: Path, tmp_path: Path) -> None:
    with opened(embedded(tmp_path), make=True) as lake:
        aged(lake, copied(one_run, tmp_path))
        table = lake.table(COMMITS.name)
        named = table.metadata.snapshots[0].snapshot_id
        then = table.scan(snapshot_id=named).to_arrow().sort_by("snapshot")
        table.manage_snapshots().create_tag(named, "before").commit()
        assert upkeep.tend(lake, (), now=time() + LATER).ended == []
        table = lake.table(COMMITS.name)
        assert len(table.metadata.snapshots) == upkeep.KEEP + 1
        assert table.scan(snapshot_id=named).to_arrow().sort_by("snapshot") == then


def unreadable(table: Table) -> dict[str, list[str]]:
    """Files that upkeep reads: of the snapshots that stay, and of one that expires."""
    snapshots = sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0)
    stay, old = snapshots[-upkeep.KEEP :], snapshots[1]
    kept = {m.manifest_path: m for s in stay for m in s.manifests(table.io)}
    merged = max(kept.values(), key=lambda m: m.existing_files_count or 0)
    assert merged.existing_files_count
    return {
        "kept manifest list": [stay[-1].manifest_list],
        "kept manifest lists": [s.manifest_list for s in stay],
        "kept manifest": [merged.manifest_path],
        "expired manifest list": [old.manifest_list],
        "expired manifest": [m.manifest_path for m in old.manifests(table.io) if m.manifest_path not in kept][:1],
    }


@contextlib.contextmanager
def folders_in_place_of(paths: Iterable[Path]) -> Iterator[None]:
    """Folders with the names of files, which come back afterwards."""
    aside = {path: path.rename(path.with_suffix(".aside")) for path in paths}
    for path in aside:
        path.mkdir()
    yield
    for path, there in aside.items():
        path.rmdir()
        there.rename(path)


ANY = ("kept manifest list", "kept manifest lists", "kept manifest", "expired manifest list", "expired manifest")


@pytest.mark.parametrize("which", ANY)
def test_upkeep_that_cannot_read_a_file_keeps_all_of_its_table_and_says_so(
    one_run: Path, tmp_path: Path, which: str
) -> None:
    folder = copied(one_run, tmp_path)
    with opened(embedded(tmp_path), make=True) as lake:
        before = aged(lake, folder)
        table, files = lake.table(COMMITS.name), files_on_disk(lake, COMMITS.name)
        paths, before_that = unreadable(table)[which], needed(table)
        with folders_in_place_of(map(Path, paths)):  # whoever opens one gets an OSError that is no FileNotFoundError
            tended = upkeep.tend(lake, (), now=time() + LATER)
        (line,) = tended.ended
        assert line.startswith(f"{tmp_path / 'lake'}: commits: cannot be read: ")
        assert any(Path(p).name in line for p in paths)
        assert files_on_disk(lake, COMMITS.name) == files and content(lake, COMMITS.name) == before
        assert upkeep.tend(lake, (), now=time() + LATER).ended == []
        assert files_on_disk(lake, COMMITS.name) & before_that == needed(lake.table(COMMITS.name)) < before_that
        assert content(lake, COMMITS.name) == before


@pytest.mark.slow
def test_upkeep_on_a_store_that_answers_503_loses_no_row(
    installation: Installation, one_run: Path, tmp_path: Path
) -> None:
    """Whatever it is asked for: a manifest list or a manifest, of a snapshot that stays or of one that expires."""
    folder = copied(one_run, tmp_path)
    own = ("s3.access-key-id", ACCESS_KEY), ("s3.secret-access-key", SECRET_KEY), ("s3.region", REGION)
    minio = Minio(installation.minio, run_id=tmp_path.name, ports=Ports(), data=tmp_path / "m", log=tmp_path / "m.log")
    minio.start()
    try:
        with refusing(minio.port()) as store:
            # The default of a second is short where two cores have other tests to run.
            slow = {"s3.connect-timeout": "60"}
            properties = {**dict(own), **slow, "s3.endpoint": store.address, "warehouse": f"s3://{BUCKET}/lake"}
            mine = place.Place("my.yaml", None, {"type": "sql", "uri": f"sqlite:///{tmp_path}/own.db", **properties})
            with opened(mine, make=True) as lake:
                before = aged(lake, folder)
                table = lake.table(COMMITS.name)
                files = needed(table)
                for paths in unreadable(table).values():
                    store.refused, store.asked = tuple(p.rpartition("/")[2] for p in paths), 0
                    (line,) = upkeep.tend(lake, (), now=time() + LATER).ended
                    assert line.startswith("my.yaml: commits: cannot be read: OSError: ") and store.asked
                    store.refused = ()
                    assert content(lake, COMMITS.name) == before
                assert needed(lake.table(COMMITS.name)) == files
                assert upkeep.tend(lake, (), now=time() + LATER).ended == []
                assert len(lake.table(COMMITS.name).metadata.snapshots) == upkeep.KEEP
                assert content(lake, COMMITS.name) == before
                left = {path for path in files if table.io.new_input(path).exists()}
                assert left == needed(lake.table(COMMITS.name)) < files
    finally:
        minio.stop()


# --- what is said -----------------------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_said_and_skipped(one_run: Path, tmp_path: Path) -> None:
    good, torn, unplanned, unpaired, unjudged = (copied(one_run, tmp_path, stamp) for stamp in STAMPS[:5])
    torn.history.write_bytes(torn.history.read_bytes() + b'{"index": 99')
    unplanned.plan.unlink()
    lines = unpaired.history.read_text().splitlines()
    again = json.loads(next(x for x in lines[1:] if '"invoke"' in x)) | {"index": len(lines) - 1}
    unpaired.history.write_text("\n".join([*lines, json.dumps(again)]) + "\n")
    unjudged.results.write_text("{")
    (tmp_path / "quick" / STAMPS[5]).mkdir()
    said: list[str] = []
    with opened(embedded(tmp_path), make=True) as lake:
        out = add_all(lake, folders_in([tmp_path]), say=said.append)
        assert out.added == [f"quick/{f.path.name}" for f in (good, torn, unjudged)]
        assert [p.name for p in out.skipped] == [STAMPS[2], STAMPS[3], STAMPS[5]]
        assert [x.split(": ")[0] for x in said] == [f"skipped {p}" for p in out.skipped]
        assert "plan.yaml: cannot be read" in said[0] and "does not pair" in said[1].replace("do not", "does not")
        again_out = add_all(lake, folders_in([tmp_path]))
        assert again_out.present == out.added and again_out.added == []


def test_a_path_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such folder; give stores, nights, or folders of runs"):
        folders_in([tmp_path / "none"])


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (str(LAKE_VERSION + 1), "made by a newer icequake; this one knows version"),
        ("0", "made by an older icequake; this one knows version"),
        (None, "icequake.runs is no table of a lake"),
    ],
)
def test_a_lake_of_another_version_is_refused(tmp_path: Path, found: str | None, says: str) -> None:
    with opened(embedded(tmp_path), make=True) as lake:
        with lake.table("runs").transaction() as t:
            t.set_properties({VERSION_KEY: found}) if found is not None else t.remove_properties(VERSION_KEY)
    for make in (False, True):
        with pytest.raises(LakeError, match=says), opened(embedded(tmp_path), make=make):
            pass


def test_a_lake_that_was_moved_is_refused(tmp_path: Path) -> None:
    with opened(embedded(tmp_path / "a"), make=True):
        pass
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(LakeError, match="where the lake was made; move it back"), opened(embedded(tmp_path / "b")):
        pass


def test_without_a_lake_the_remedy_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(LakeError, match="no lake is there; make one with `icequake lake init`"),
        opened(embedded(tmp_path)),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pyiceberg: {uri: x}\nnamespac: a\n", ":2: unknown key 'namespac'"),
        ("pyiceberg:\n  warehouse: x\n", ":1: pyiceberg: needs type"),
        ("pyiceberg:\n  type: rest\n  headers: [a]\n", ":3: pyiceberg: headers: must be a word"),
        ("pyiceberg: {type: rest}\nspark:\n  spark.master: x\n", ":3: spark.master: give what follows"),
        ("pyiceberg: {type: rest}\nsession:\n  master: x\n", ":3: master: Spark's properties begin with spark."),
        ("pyiceberg: {type: rest}\njars: [a.jar]\n", "a.jar is not there"),
        (
            "pyiceberg:\n  type: rest\n  token: ${ICEQUAKE_NO_SUCH}\n",
            ":3: token: the environment variable ICEQUAKE_NO_SUCH",
        ),
        ("pyiceberg: {type: rest}\nnamespace: a b\n", ":2: namespace"),
        ("", ":1: the file is empty; start from docs/lake.md"),
    ],
)
def test_a_wrong_file_is_named_with_line_and_key(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(text)
    with pytest.raises(FileError) as e:
        place.load(path)
    assert str(path) in str(e.value) and says in str(e.value)


def test_a_file_names_a_catalog_of_the_users(one_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(
        f"pyiceberg: {{type: sql, uri: 'sqlite:///{tmp_path}/own.db', warehouse: '${{WAREHOUSE}}'}}\nnamespace: runs_of_all\n"
    )
    mine = place.load(path, {"WAREHOUSE": str(tmp_path / "files")})
    keep(mine, copied(one_run, tmp_path))
    with opened(mine) as lake:
        assert [*lake.held()] == ["quick/20261120T223951.000Z"]
        assert lake.table("runs").location().startswith(str(tmp_path / "files" / "runs_of_all"))


@contextlib.contextmanager
def silent(answer: bytes) -> Iterator[int]:
    """A port whose server takes connections and answers the first request, if it has an answer, and no other one."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        server.settimeout(PATIENCE)

        def serve() -> None:
            with server.accept()[0] as end:
                end.recv(1 << 16)
                end.sendall(answer)

        done = pool.submit(serve) if answer else None
        yield server.getsockname()[1]
        if done is not None:
            done.result()


CONFIG = b'{"defaults": {}, "overrides": {}}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"


@pytest.mark.parametrize(
    ("uri", "answer", "says"),
    [
        ("http://{}", b"", "its catalog cannot be opened: ReadTimeout"),
        ("http://{}", ANSWER % (len(CONFIG), CONFIG), "its tables cannot be made: ReadTimeout"),
        ("postgresql+psycopg2://u:p@{}/db", b"", "its catalog cannot be opened: .*timeout expired"),
    ],
    ids=["rest", "rest, later", "postgresql"],
)
def test_a_catalog_that_does_not_answer_is_said_and_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, uri: str, answer: bytes, says: str
) -> None:
    monkeypatch.setattr("harness.lake.rest.ANSWER_S", 0.2)
    monkeypatch.setattr("harness.lake.lake.CONNECT_S", 1)
    with silent(answer) as port:
        mine = place.Place("my.yaml", None, {"uri": uri.format(f"127.0.0.1:{port}"), "warehouse": "w"})
        with pytest.raises(LakeError, match=f"my.yaml: {says}"), opened(mine, make=True):
            pass


def test_the_option_says_where_runs_are_kept(tmp_path: Path) -> None:
    assert place.chosen(None, tmp_path) is None
    assert place.chosen("yes", tmp_path) == embedded(tmp_path)
    with opened(embedded(tmp_path), make=True):
        pass
    assert place.chosen(None, tmp_path) == embedded(tmp_path)
    assert place.chosen("no", tmp_path) is None
    with pytest.raises(FileError, match="--lake yess: unknown"):
        place.chosen("yess", tmp_path)


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE runs",
        "insert into runs select 1",
        "-- SELECT\nDELETE FROM runs",
        "/* SELECT */ CREATE VIEW a AS SELECT 1",
        "",
        "EXPLAIN SELECT 1",
        "FROM runs INSERT INTO b SELECT *",
        "SET a=b",
    ],
)
def test_a_statement_that_does_not_only_read_is_refused_before_spark_starts(sql: str) -> None:
    with pytest.raises(QueryError, match="only SELECT, WITH, SHOW, DESCRIBE are: the lake is read only"):
        readable(sql)


@pytest.mark.parametrize(
    "sql", ["select 1;", " (SELECT 1)", "-- what\nWITH a AS (SELECT 1) SELECT * FROM a", "describe runs", "SHOW VIEWS"]
)
def test_a_statement_that_reads_is_asked(sql: str) -> None:
    assert readable(sql) == sql.strip().rstrip(";")


# --- what is typed ----------------------------------------------------------------------------------------------------


def typed(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, words, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value), result.output


def test_a_store_is_added_by_one_command_and_shown_by_another(one_run: Path, tmp_path: Path) -> None:
    copied(one_run, tmp_path)
    code, said = typed("lake", "add", "--store", str(tmp_path), "--quiet")
    assert (code, said.strip()) == (0, f"{tmp_path / 'lake'}: 1 added, 0 already there, 0 skipped")
    code, said = typed("lake", "show", "--store", str(tmp_path))
    assert code == 0 and f"version {LAKE_VERSION}" in said
    code, said = typed("lake", "compact", "--store", str(tmp_path))
    assert (code, said.strip()) == (0, f"0 days of tables rewritten in {tmp_path / 'lake'}")


def test_a_night_that_was_made_without_a_lake_is_added_and_what_it_kept_no_folder_of_is_said(
    one_run: Path, tmp_path: Path
) -> None:
    night = tmp_path / "soak" / "night"
    copied(one_run, night / "runs")
    cell = Cell("quick", "rest", "none", "1.12.0", "2")
    lines = [_encoded(NightRun(cell, n, n, "2026-11-22T01:00:00Z", "valid")) for n in range(3)]
    header = {"format": 1, "suite": "night", "seed": 1, "length": 30.0, "cells": [cell.to_json()]}
    (night / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [header, *lines]))
    with pytest.MonkeyPatch.context() as patch:
        warned: list[str] = []
        patch.setattr("harness.cli.lake.warn", warned.append)
        code, said = typed("lake", "add", str(night), "--store", str(tmp_path), "--quiet")
    assert (code, said.strip()) == (0, f"{tmp_path / 'lake'}: 1 added, 0 already there, 0 skipped")
    assert [w.partition(",")[0] for w in warned] == [f"{night}: the folders of 2 of its 3 runs are gone"]
    assert "the night kept the others in a lake of its own, or " in warned[0]


def test_a_night_is_added_whole_with_the_runs_whose_folders_it_removed(one_run: Path, tmp_path: Path) -> None:
    """Its rows of a removed run are those that the lake would have had of the folder, but for the moment at which they came in."""
    night, said = tmp_path / "soak" / "night", list[str]()
    here, gone = (copied(one_run, night / "runs", stamp) for stamp in STAMPS[:2])
    shrunk = copied(one_run, night / "shrinks" / "1" / "runs", STAMPS[2])
    for folder in (here, gone, shrunk):
        publish = keeping(None, lambda folder, _: folder.path.name, said.append, night / "rows")
        assert publish(folder, load_evidence(folder.path)) == folder.path.name
    typed("lake", "init", "--store", str(tmp_path / "direct"))
    typed("lake", "add", str(gone.path), "--store", str(tmp_path / "direct"), "--quiet")
    shutil.rmtree(gone.path)
    cell = Cell("quick", "rest", "none", "1.12.0", "2")
    lines = [_encoded(NightRun(cell, n, n, "2026-11-22T01:00:00Z", "valid")) for n in range(2)]
    header = {"format": 1, "suite": "night", "seed": 1, "length": 30.0, "cells": [cell.to_json()]}
    (night / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [header, *lines]))
    for added, there in ((2, 0), (0, 2)):
        code, told = typed("lake", "add", str(night), "--store", str(tmp_path), "--quiet")
        assert (code, told.strip()) == (0, f"{tmp_path / 'lake'}: {added} added, {there} already there, 0 skipped")
    assert said == []
    with opened(embedded(tmp_path)) as lake, opened(embedded(tmp_path / "direct")) as direct:
        for name in BY_NAME:
            mine = [r for r in content(lake, name, "added") if r["run"] == f"quick/{STAMPS[1]}"]
            assert mine == content(direct, name, "added")
        assert all(r["added"] is not None for r in content(lake, "runs"))


@pytest.fixture
def moved_lake(tmp_path: Path) -> Place:
    """A lake that was made elsewhere, so that it takes no run."""
    typed("lake", "init", "--store", str(tmp_path / "before"))
    shutil.copytree(tmp_path / "before" / "lake", tmp_path / "lake")
    return embedded(tmp_path)


def test_a_night_keeps_the_rows_of_a_run_that_its_lake_did_not_take(
    one_run: Path, tmp_path: Path, moved_lake: Place
) -> None:
    """The folder of a valid run is removed: the command that is named must work without it."""
    night, said = tmp_path / "soak" / "night", list[str]()
    folder = copied(one_run, night / "runs", STAMPS[0])
    shrunk = copied(one_run, night / "shrinks" / "1" / "runs", STAMPS[1])
    for run in (folder, shrunk):
        publish = keeping(moved_lake, lambda folder, _: "a page", said.append, night / "rows")
        assert publish(run, load_evidence(run.path)) == "a page"
    shutil.rmtree(folder.path)
    cell = Cell("quick", "rest", "none", "1.12.0", "2")
    header = {"format": 1, "suite": "night", "seed": 1, "length": 30.0, "cells": [cell.to_json()]}
    line = _encoded(NightRun(cell, 0, 0, "2026-11-22T01:00:00Z", "valid"))
    (night / "runs.jsonl").write_text(f"{json.dumps(header)}\n{json.dumps(line)}\n")
    named = [line.partition("; add it with: icequake ")[2].split() for line in said]
    assert named == [["lake", "add", str(path), "--store", str(tmp_path)] for path in (night, shrunk.path)]
    shutil.rmtree(tmp_path / "lake")
    code, told = typed(*named[0], "--quiet")
    assert (code, told.strip()) == (0, f"{tmp_path / 'lake'}: 1 added, 0 already there, 0 skipped")


def test_a_lake_that_was_moved_is_known_before_a_run(tmp_path: Path, moved_lake: Place) -> None:
    why = unusable(moved_lake)
    assert (
        why is not None and "move it back, or remove it and make it again from the runs with `icequake lake add`" in why
    )
    assert unusable(embedded(tmp_path / "another")) is None


def test_rows_that_cannot_be_kept_take_nothing_from_a_run(one_run: Path, tmp_path: Path) -> None:
    folder, said = copied(one_run, tmp_path / "runs"), list[str]()
    (tmp_path / "rows").write_text("a file")
    publish = keeping(None, lambda folder, _: "a page", said.append, tmp_path / "rows")
    assert publish(folder, load_evidence(folder.path)) == "a page"
    (line,) = said
    assert line.startswith(f"no lake can have {folder.path.parent.name}/{folder.path.name} once its folder is gone: ")


def test_a_run_that_is_judged_again_is_replaced_in_the_lake(one_run: Path, tmp_path: Path) -> None:
    folder = copied(one_run, tmp_path)
    typed("lake", "add", "--store", str(tmp_path), "--quiet")
    code, _ = typed("check", str(folder.path), "--store", str(tmp_path))
    with opened(embedded(tmp_path)) as lake:
        (run,) = content(lake, "runs")
        assert run["verdict"] == {0: "valid", 1: "invalid", 2: "unknown"}[code]


def test_an_experiment_puts_each_run_that_it_publishes_into_the_lake(one_run: Path, tmp_path: Path) -> None:
    folder = copied(one_run, tmp_path)
    said: list[str] = []

    def publish(folder: RunFolder, _: Evidence) -> str:
        return f"shown: {folder.path.name}"

    assert keeping(None, publish, said.append) is publish
    shown = keeping(embedded(tmp_path), publish, said.append)(folder, load_evidence(folder.path))
    assert (shown, said) == (f"shown: {folder.path.name}", [])
    with opened(embedded(tmp_path)) as lake:
        assert [*lake.held()] == [f"quick/{folder.path.name}"]


def test_a_lake_that_cannot_be_written_takes_nothing_from_the_verdict(one_run: Path, tmp_path: Path) -> None:
    folder = copied(one_run, tmp_path)
    without, _ = typed("check", str(folder.path), "--store", str(tmp_path), "--lake", "no")
    (tmp_path / "lake").write_text("a file where the folder should be")
    result = CliRunner().invoke(
        app, ["check", str(folder.path), "--store", str(tmp_path), "--lake", "yes"], standalone_mode=False
    )
    assert result.return_value == without
    assert (
        "quick/20261120T223951.000Z is not in the lake" in result.stderr
        and f"icequake lake add {folder.path}" in result.stderr
    )


def test_the_tables_have_the_columns_that_they_say() -> None:
    for t in LAKE_TABLES:
        assert [c.name for c in t.columns[:2]] == ["run", "day"] and t.schema.names == [c.name for c in t.columns]
        assert len({*t.schema.names}) == len(t.columns)
    assert LAKE_TABLES[-1] is RUNS_TABLE


def test_the_document_has_every_table_as_the_code_has_it() -> None:
    text = (ROOT / "docs" / "lake.md").read_text(encoding="utf-8")
    assert text.endswith(documented())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lake", "ad"], "lake ad: unknown action 'ad' (did you mean add?); allowed: init, add, show, compact"),
        (["lake", "show", "elsewhere"], "lake show: takes no folders and no --again"),
        (["lake", "show", "--lake", "yes"], "--lake yes: give your own catalog, my.yaml"),
        (["query", "SELECT 1", "--json", "--csv"], "--json and --csv: give one of them"),
        (["query", "DROP TABLE runs"], "DROP … is not allowed"),
        (["trend", "--night", "soon"], "--night soon: must be a date, such as 2026-11-22"),
        (["trend"], "no lake is there; make one with `icequake lake init`"),
        (["check", "--lake", "maybe"], "--lake maybe: unknown; allowed: yes, no, or a file of your own, my.yaml"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_starts(
    one_run: Path, tmp_path: Path, words: list[str], says: str
) -> None:
    folder = copied(one_run, tmp_path)
    where = [str(folder.path), "--store", str(tmp_path)] if words[0] == "check" else ["--store", str(tmp_path)]
    with pytest.raises((ValueError, Crash)) as e:
        typed(words[0], *where[:-2], *words[1:], *where[-2:])
    assert says in str(e.value)
    assert {p.name for p in tmp_path.iterdir()} == {"quick"}


def test_a_mistyped_store_gets_no_lake(tmp_path: Path) -> None:
    typed = str(tmp_path / "stoer")
    for words in (["--store", typed], [typed, "--store", str(tmp_path)]):
        done = CliRunner().invoke(app, ["lake", "add", *words])
        assert isinstance(done.exception, BadArgument | StoreError) and "stoer" in str(done.exception)
        assert not list(tmp_path.iterdir()), "nothing was made"


def test_a_run_that_is_in_the_lake_is_said_to_be_there_when_only_the_upkeep_failed(
    one_run: Path, tmp_path: Path
) -> None:
    mine, last = embedded(tmp_path), copied(one_run, tmp_path)
    said: list[str] = []
    with opened(mine, make=True) as lake:
        for stamp in STAMPS[: upkeep.MOST_SMALL_FILES + 1]:
            lake.add([read(copied(one_run, tmp_path, stamp))])
        (oldest, *_) = [task.file.file_path for task in lake.table(COMMITS.name).scan().plan_files()]
        with folders_in_place_of([Path(oldest)]):  # the upkeep reads it, because there are many small files
            assert kept(mine, last, load_evidence(last.path), said.append)
            (line,) = said
            assert line.startswith(
                f"quick/{last.path.name} is in the lake, but {tmp_path / 'lake'}: commits: cannot be "
            )
            assert line.endswith("`icequake lake compact`, goes on")
            done = CliRunner().invoke(app, ["lake", "compact", "--store", str(tmp_path)], standalone_mode=False)
            assert done.return_value == 255 and "commits: cannot be " in done.stderr
            out = add_all(lake, [copied(one_run, tmp_path, STAMPS[-1])], say=said.append)
            assert out.added == [f"quick/{STAMPS[-1]}"] and len(said) == 2
        assert f"quick/{last.path.name}" in lake.held()
    done = CliRunner().invoke(app, ["lake", "compact", "--store", str(tmp_path)], standalone_mode=False)
    assert done.return_value == 0 and not done.stderr


@pytest.mark.parametrize("files", ["*.avro", "*.metadata.json", "*.parquet"])
@pytest.mark.parametrize("content", [b"", bytes(range(255, 0, -1)) * 20], ids=["empty", "garbage"])
def test_a_broken_file_of_the_lake_is_said_and_takes_nothing_from_a_run(
    one_run: Path, tmp_path: Path, files: str, content: bytes
) -> None:
    """A machine that loses power can leave such files."""
    folder, mine = copied(one_run, tmp_path), embedded(tmp_path)
    keep(mine, folder)
    for path in (tmp_path / "lake").rglob(files):
        path.write_bytes(content)
    said: list[str] = []
    assert not kept(mine, folder, None, said.append) and "add it with: icequake lake add" in said[0]
    with (
        pytest.raises(LakeError, match=r"cannot be read: .*; if it stays so, move that folder away, and make it again"),
        opened(mine) as lake,
    ):
        add_all(lake, folders_in([tmp_path]), replace_rows=True)
