"""All checkers over a run's folder: the worst verdict, expectations, the same bytes again, and broken folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from checkers.commits import Commits
from checkers.evidence import tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, HistoryError
from checkers.evidence.makers import named_by
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import StoreError
from checkers.evidence.tablelog import Commit, TableLog, TableLogError
from checkers.judge.check import ALL, check
from checkers.judge.runfolder import Promises, load_evidence, load_promises, write_results
from checkers.reads.checker import Reads
from checkers.replay.walk import Replay
from checkers.selftest import recorded
from checkers.verdict import Anomaly, Checker, Validity, Verdict
from reports.run import stored as shown_run
from tests.support.drawing import Drawing, row
from tests.support.judging import UNREDUCED
from tests.support.simulator import Defects, Simulation, simulate
from workloads.file.anomalies import entries_of
from workloads.tables import TableSpec

SPECS = [
    TableSpec(name="a", mode="merge-on-read", isolation="snapshot", partitions=2, seed_rows=4),
    TableSpec(name="b", format_version=3, isolation="snapshot", partitioned=False, partitions=2, seed_rows=4),
]


@dataclass(frozen=True)
class Says(Checker):
    """A checker that says what it is told to say."""

    name: str
    valid: Validity = True
    anomalies: tuple[Anomaly, ...] = ()
    second_opinion: bool = False

    def check(self, evidence: Evidence) -> Verdict:
        return Verdict(self.name, self.valid, self.anomalies)


@dataclass(frozen=True)
class Breaks(Checker):
    """A checker with a bug."""

    name: str = "broken"

    def check(self, evidence: Evidence) -> Verdict:
        raise ZeroDivisionError("oops")


def good() -> Evidence:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    return d.evidence()


def saying(*names: str) -> Says:
    return Says("says", not names, tuple(Anomaly(n, "says", None, f"{n}.") for n in names))


def as_the_reader_writes(log: TableLog) -> bytes:
    """The log's file with every capture where the reader wrote it: behind the version that it came to."""
    out: list[dict[str, Any]] = []
    due: list[dict[str, Any]] = []
    captures = [r for r in tablelog_file.records(log) if r["type"] == "capture"]
    for r in tablelog_file.records(log):
        if r["type"] == "capture":
            continue
        if r["type"] in ("metadata", "end"):
            out += due
        if r["type"] == "metadata":
            due = [c for c in captures if c["metadata"] == r["location"]]
        out.append(r)
    return b"".join(map(tablelog_file.dump, out))


def stored(
    run: Simulation | Evidence, folder: Path, *, state: str = "complete", plan: Mapping[str, object] | None = None
) -> Path:
    """The run as the harness stores it."""
    (folder / "tablelog").mkdir(parents=True)
    events = [json.dumps(e.to_json()) for e in run.history.events]
    (folder / "history.jsonl").write_text("\n".join([json.dumps(run.history.header), *events]) + "\n")
    for name, log in run.logs.items():
        tablelog_file.write(log, folder / "tablelog" / f"{name}.jsonl")
    tables = [t.model_dump() for t in run.tables.values()]
    (folder / "plan.yaml").write_text(yaml.safe_dump({"workload": "simulated", "tables": tables, **(plan or {})}))
    (folder / "run.json").write_text(json.dumps({"state": state}))
    return folder


def test_a_stored_run_is_shown_with_the_makers_of_its_snapshots_that_its_verdict_knows(tmp_path: Path) -> None:
    folder = stored(simulate(5, SPECS, ops=15, engines=("spark", "duckdb", "spark", "duckdb")), tmp_path / "r")
    judged, shown = load_evidence(folder), shown_run.load(folder)
    assert any(named_by(c) == "rows" for log in judged.logs.values() for c in log.commits)
    assert shown.logs == judged.logs


# --- the run's verdict --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "valid"),
    [
        ((), True),
        ((True, True), True),
        ((True, "unknown"), "unknown"),
        (("unknown", False, True), False),
    ],
)
def test_the_worst_verdict_is_the_runs(said: tuple[Validity, ...], valid: Validity) -> None:
    assert check(good(), [Says(f"c{n}", v) for n, v in enumerate(said)]).valid == valid


def test_a_checker_that_raises_is_unknown_and_hides_nothing() -> None:
    results = check(good(), [Breaks(), saying("lost-commit")])
    assert [v.valid for v in results.verdicts] == ["unknown", False] and results.valid is False
    assert results.verdicts[0].notes == ("the checker failed: ZeroDivisionError: oops",)
    assert check(good(), [Breaks(), saying()]).valid == "unknown"


def test_a_history_that_is_none_is_unknown_to_every_checker() -> None:
    e = good()
    twice = replace(e.history, events=(*e.history.events, replace(e.history.events[0], index=2)))
    results = check(replace(e, history=twice))
    assert [v.valid for v in results.verdicts if v.checker != "history"] == ["unknown"] * len(ALL)
    notes = [note for v in results.verdicts for note in v.notes]
    assert sum("was invoked before" in note for note in notes) == 1, "said once"
    (said,) = (n for v in results.verdicts if v.checker == "history" for n in v.notes if "pair" in n)
    assert said.startswith("1 event of the history does not pair: event 2: op ")
    assert not results.told.problem and not any("Error" in note for note in notes)


def test_a_history_that_contradicts_itself_is_unknown_and_said_once() -> None:
    """A completion stamped before its place, or with another table or kind than its invocation, at many places of a real run."""
    e = recorded.load("quick-120")
    rng = Random(12)
    for change in ("1 ms", "3 s", "table", "kind"):
        for _ in range(50):
            n = rng.choice([x.index for x in e.history.events if x.type == "ok" and x.index > 40])
            x, before = e.history.events[n], e.history.events[n - 1]
            others: dict[str, dict[str, Any]] = {
                "1 ms": {"time": before.time - 1_000_000},
                "3 s": {"time": before.time - 3_000_000_000},
                "table": {"table": "orders" if x.table != "orders" else "events"},
                "kind": {"f": "read" if x.f != "read" else "insert"},
            }
            events = (*e.history.events[:n], replace(x, **others[change]), *e.history.events[n + 1 :])
            results = check(replace(e, history=replace(e.history, events=events)), [saying()])
            (said,) = [v for v in results.verdicts if v.checker == "history"]
            assert results.valid == "unknown" and len(said.notes) == 1, change
            assert said.notes[0].startswith(f"event {n} (ok of {x.op})")
    assert all(v.checker != "history" for v in check(e, [saying()]).verdicts)


def test_a_run_that_ended_early_is_unknown_at_best() -> None:
    e = replace(good(), complete=False)
    assert check(e, [saying()]).valid == "unknown"
    assert check(e, [saying("lost-commit")]).valid is False
    assert check(e, [saying("undelete")], Promises(entries_of("undelete"))).valid == "unknown"


@pytest.mark.parametrize(
    ("found", "expected", "valid"),
    [
        (["undelete"], ["undelete"], True),
        (["undelete", "undelete"], ["undelete"], True),
        (["undelete", "stale-read"], ["stale-read", "undelete"], True),
        (["undelete"], [], False),
        ([], ["undelete"], False),
        (["stale-read"], ["undelete"], False),
        (["undelete", "stale-read"], ["undelete"], False),
        (["undelete"], ["undelete", "stale-read"], False),
    ],
)
def test_what_is_expected_must_be_found_and_nothing_else(
    found: list[str], expected: list[str], valid: Validity
) -> None:
    assert check(good(), [saying(*found)], Promises(entries_of(*expected))).valid is valid


@pytest.mark.parametrize(
    ("found", "expected", "allowed", "valid"),
    [
        ([], [], ["undelete"], True),
        (["undelete"], [], ["undelete"], True),
        (["undelete", "undelete"], [], ["undelete"], True),
        (["undelete", "stale-read"], [], ["undelete"], False),
        (["undelete", "stale-read"], ["stale-read"], ["undelete"], True),
        (["stale-read"], ["stale-read"], ["undelete"], True),
        (["undelete"], ["stale-read"], ["undelete"], False),
    ],
)
def test_what_is_allowed_may_be_found_and_fails_nothing(
    found: list[str], expected: list[str], allowed: list[str], valid: Validity
) -> None:
    results = check(good(), [saying(*found)], Promises(entries_of(*expected), allow=entries_of(*allowed)))
    assert results.valid is valid and results.accepted.allow == entries_of(*allowed)
    assert results.to_json()["allowed"] == allowed


def test_what_is_allowed_does_not_make_an_undecided_or_early_ended_run_valid() -> None:
    may = Promises(allow=entries_of("undelete"))
    assert check(good(), [saying("undelete"), Says("c", "unknown")], may).valid == "unknown"
    assert check(replace(good(), complete=False), [saying("undelete")], may).valid == "unknown"
    assert check(good(), [Says("c", False)], may).valid is False, "a checker that fails without an anomaly"


@pytest.mark.parametrize("format_version", [2, 3])
def test_second_opinions_say_what_they_confirm_and_are_expected_with_it(format_version: int) -> None:
    d = Drawing("snapshot", mode="merge-on-read", format_version=format_version)
    one = row(1, "seed")
    d.did("seed", "insert", ids=[1], add=[one])
    d.invoke("d", "delete", ids=[1])
    changed = one._replace(val="u")
    d.did("u", "update-register", ids=[1], remove=[one], add=[changed])
    d.commit("d")
    d.ok("d")
    d.read("r", [changed])
    checkers = [c for c in ALL if c.name in ("commits", "replay", "reads", "isolation", "linearizable")]
    results = check(d.evidence(), checkers)
    found = {a.name: a for v in results.verdicts for a in v.anomalies}
    assert set(found) == {"undelete", "lost-update", "nonlinearizable"}
    assert {a.documented for a in found.values()} == {found["undelete"].documented}
    assert (found["undelete"].documented is not None) is (format_version == 2)
    assert found["lost-update"].same_as == found["nonlinearizable"].same_as == "undelete"
    assert check(d.evidence(), checkers, Promises(entries_of("undelete"))).valid is True
    assert check(d.evidence(), checkers, Promises(entries_of("stale-read"))).valid is False


def test_a_second_opinion_on_other_rows_is_a_surprise() -> None:
    def of(checker: str, name: str, key: int, op: str) -> Says:
        said = Anomaly(name, checker, "t", "", ops=(op,), keys=(key,))
        return Says(checker, False, (said,), second_opinion=checker in ("isolation", "linearizable"))

    expecting = Promises(entries_of("undelete"))
    undelete = of("replay", "undelete", 1, "d")
    for other, valid in (
        (of("isolation", "G-single", 1, "d"), True),
        (of("isolation", "G-single", 2, "d"), False),
        (of("isolation", "G-single", 1, "e"), False),
        (of("linearizable", "nonlinearizable", 1, "r"), True),
        (of("linearizable", "nonlinearizable", 2, "r"), False),
        (of("reads", "stale-read", 1, "d"), False),
    ):
        assert check(good(), [undelete, other], expecting).valid is valid, other
        assert check(good(), [undelete, other], Promises(allow=entries_of("undelete"))).valid is valid, other


def test_an_expected_anomaly_that_is_not_found_is_named() -> None:
    results = check(good(), [saying()], Promises(entries_of("undelete", "write-skew")))
    assert [a.name for v in results.verdicts for a in v.anomalies] == ["expected-not-found"] * 2
    assert [a.evidence for a in results.verdicts[-1].anomalies] == [
        {"expected": "undelete"},
        {"expected": "write-skew"},
    ]


def test_what_is_asserted_is_judged_too() -> None:
    results = check(good(), [saying()], Promises(thresholds={"operations": ">=2"}))
    assert results.valid is False
    assert [a.name for a in results.verdicts[-1].anomalies] == ["assertion-failed"]


ODD: tuple[Any, ...] = (
    None,
    3,
    "x",
    [],
    {},
    [[1]],
    [[None] * 5],
    [[[1], "a", 0, "a", 1]],
    {"ids": "a"},
    {"ids": [None]},
    {"ids": []},
    {"id": "x"},
    {"part": None, "parity": "x"},
    {"from": 1},
    {"snapshot": "x", "rows": []},
)
"""Values that no operation has."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_evidence_of_any_form_is_judged(seed: int) -> None:
    """Damaged tables and imported histories: every checker says something, and none of them crashes."""
    rng = Random(f"odd {seed}")
    for _ in range(25):
        run = simulate(rng.randrange(1000), SPECS, ops=8, defects=Defects(lose=0.1, overwrite=0.5, dirty_read=0.5))
        e = run.evidence()

        def odd_event(x: Event) -> Event:
            return replace(x, value=rng.choice(ODD)) if rng.random() < 0.1 else x

        def odd_commit(c: Commit, log: TableLog) -> Commit:
            choice = rng.randrange(60)
            if choice == 0:
                return replace(c, added=None, removed=None)
            if choice == 1 and c.added:
                return replace(c, added=tuple(replace(x, row=(x.row[0], None, "x", None, None)) for x in c.added))
            if choice == 2 and c.removed:
                return replace(c, removed=tuple(replace(x, row=("x", *x.row[1:])) for x in c.removed))
            if choice == 3:
                return replace(c, parent_id=rng.choice(log.commits).snapshot_id)
            if choice == 4:
                return replace(c, op=rng.choice(["ghost", None, rng.choice(log.commits).op]))
            return c

        def odd_log(log: TableLog) -> TableLog:
            commits = [odd_commit(c, log) for c in log.commits if rng.random() > 0.02]
            metadata = [
                replace(m, current=rng.choice([None, 7, m.current])) if rng.random() < 0.02 else m for m in log.metadata
            ]
            return replace(log, commits=tuple(commits), metadata=tuple(metadata), complete=rng.random() < 0.5)

        history = replace(e.history, events=tuple(map(odd_event, e.history.events)))
        results = check(replace(e, history=history, logs={name: odd_log(log) for name, log in e.logs.items()}))
        assert not any(n.startswith("the checker failed") for v in results.verdicts for n in v.notes), results.verdicts
        assert json.dumps([v.to_json() for v in results.verdicts])


# --- a run's folder -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stored_run_is_judged_as_it_was_in_memory(tmp_path: Path) -> None:
    for seed in range(10):
        run = simulate(seed, SPECS, defects=Defects(lose=0.2, overwrite=0.5, stale_read=0.1))
        checkers = ALL if seed == 0 else UNREDUCED
        assert check(load_evidence(stored(run, tmp_path / str(seed))), checkers) == check(run.evidence(), checkers)


def test_judging_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    run = simulate(7, SPECS, ops=30, defects=Defects(lose=0.2, overwrite=0.5, stale_read=0.3, false_failure=0.1))
    folder = stored(run, tmp_path / "run", plan={"expect": ["lost-commit"], "assert": {"ok_rate": ">1%"}})
    for name in ("first.json", "second.json"):
        write_results(check(load_evidence(folder), ALL, load_promises(folder)), tmp_path / name)
    first = (tmp_path / "first.json").read_bytes()
    assert first == (tmp_path / "second.json").read_bytes()
    assert b"lost-commit" in first and str(tmp_path).encode() not in first
    said = json.loads(first)
    assert said["valid"] is False and said["complete"] is True
    judged = [c.name for c in ALL if c.of_format is None]
    assert [c["checker"] for c in said["checkers"]] == [*judged, "assert", "expect"]


def test_a_clean_stored_run_is_valid(tmp_path: Path) -> None:
    assert check(load_evidence(stored(simulate(3, SPECS), tmp_path / "run"))).valid is True


def test_the_proxy_log_of_another_run_is_not_used(tmp_path: Path) -> None:
    """The same tables and operations in it, and other snapshots: they are not missing from this run."""
    run = simulate(3, SPECS)
    folder = stored(run, tmp_path / "run")
    (name, log) = next((n, log) for n, log in run.logs.items() if log.commits)
    own = log.commits[0]
    (maker,) = (o for o in run.history.operations() if o.op == own.op)

    def lines(*snapshots: int) -> str:
        return "".join(
            json.dumps(
                {
                    "time": maker.start,
                    "ms": 0.0,
                    "writer": 0,
                    "service": "catalog",
                    "kind": "commit",
                    "what": f"POST /v1/tables/{name}",
                }
                | {
                    "op": own.op,
                    "status": "200",
                    "changes": [{"table": name, "adds": [str(s)], "refs": {"main": str(s)}}],
                }
            )
            + "\n"
            for s in snapshots
        )

    (folder / "proxy.jsonl").write_text(lines(1, 2))
    results = check(load_evidence(folder), UNREDUCED)
    assert results.valid == "unknown" and not any(v.anomalies for v in results.verdicts)
    (said,) = (v for v in results.verdicts if v.checker == "history")
    assert said.notes == (
        "proxy.jsonl: none of the 2 snapshots in its requests is in a table log, so it is another run's and is not used",
    )
    (folder / "proxy.jsonl").write_text(lines(own.snapshot_id, 2))
    found = [a.name for v in check(load_evidence(folder), UNREDUCED).verdicts for a in v.anomalies]
    assert found == ["lost-swap"], "one of its snapshots is this run's, so the other is missing"


@pytest.mark.parametrize("state", ["running", "failed", "interrupted"])
def test_a_run_that_did_not_come_to_its_end_is_unknown(tmp_path: Path, state: str) -> None:
    assert check(load_evidence(stored(simulate(3, SPECS), tmp_path / "run", state=state))).valid == "unknown"


def test_a_run_without_table_logs_is_unknown(tmp_path: Path) -> None:
    folder = stored(simulate(3, SPECS), tmp_path / "run")
    for log in (folder / "tablelog").iterdir():
        log.unlink()
    results = check(load_evidence(folder))
    by_history_alone = (
        "linearizable",
        "liveness",
        "atomicity",
        "pointer",
        "retries",
        "load",
    )  # there are no transfers, no proxies
    assert {v.valid for v in results.verdicts if v.checker not in by_history_alone} == {"unknown"}
    assert results.verdicts[0].notes == (
        "a: there is no table log to check against",
        "b: there is no table log to check against",
    )


def test_a_killed_runs_log_is_judged_up_to_its_last_capture(tmp_path: Path) -> None:
    """Whatever byte it was killed at: no anomaly that was not there, and never a crash."""
    run = simulate(5, SPECS, ops=20)
    folder = stored(run, tmp_path / "run", state="running")
    history = (folder / "history.jsonl").read_bytes()
    logs = {folder / "tablelog" / f"{name}.jsonl": as_the_reader_writes(log) for name, log in run.logs.items()}
    rng = Random("killed")
    judged = 0
    for _ in range(100):
        (folder / "history.jsonl").write_bytes(history[: rng.randrange(len(history) // 2, len(history))])
        for path, content in logs.items():
            path.write_bytes(content[: rng.randrange(1000, len(content) // 2)])
        results = check(load_evidence(folder))
        assert results.valid == "unknown", results
        assert not any(n.startswith("the checker failed") for v in results.verdicts for n in v.notes), results
        reads = next(v for v in results.verdicts if v.checker == "reads")
        judged += sum(t["judged"] for t in reads.stats["tables"].values())
    assert judged > 300


def test_a_commit_lost_before_the_kill_is_lost(tmp_path: Path) -> None:
    lost = 0
    for seed in range(10):
        run = simulate(seed, SPECS, ops=20, defects=Defects(lose=0.3))
        folder = stored(run, tmp_path / str(seed), state="running")
        for name, log in run.logs.items():
            content = as_the_reader_writes(log)
            (folder / "tablelog" / f"{name}.jsonl").write_bytes(content[: len(content) * 3 // 4])
        results = check(load_evidence(folder), (Commits(), Replay(), Reads()))
        assert results.valid in (False, "unknown")
        assert {a.name for v in results.verdicts for a in v.anomalies} <= {"lost-commit"}
        lost += results.valid is False
    assert lost >= 5


@pytest.mark.parametrize(
    ("file", "content", "error", "says"),
    [
        ("plan.yaml", "[", StoreError, ":1: not YAML from here on"),
        ("plan.yaml", "a: 1\nb: {\n", StoreError, ":3: not YAML from here on"),
        ("plan.yaml", "a: \0", StoreError, ": not YAML: it has a character that YAML does not allow"),
        ("plan.yaml", "a: 2026-13-01", StoreError, ": it has a value that cannot be read"),
        ("plan.yaml", "3", StoreError, ": must be a mapping, the plan of a run"),
        ("plan.yaml", "tables: [{name: A B}]", StoreError, ": tables.0"),
        ("plan.yaml", "tables: [{}]", StoreError, ": tables.0 needs name"),
        ("plan.yaml", "tables: 3", StoreError, ": tables: must be a list, not 3"),
        ("plan.yaml", "writers: 0", StoreError, ": writers: must be at least 1, not 0"),
        ("plan.yaml", "writers: many", StoreError, ': writers: must be a whole number, not "many"'),
        ("plan.yaml", "external: [a]", StoreError, ": external: must be a mapping, not a list"),
        ("history.jsonl", "", HistoryError, ": empty: the header line is missing"),
        (
            "history.jsonl",
            '{"format":1}\n{"index":0,\n',
            HistoryError,
            ":2: the line is torn: its JSON ends in column 11, in the middle",
        ),
        ("history.jsonl", '{"format":1}}\n', HistoryError, ":1: not JSON: column 13 has }"),
        ("history.jsonl", '{"format":[]}\n', HistoryError, ":1: format [] is not known; this version reads format 1"),
        ("tablelog/a.jsonl", "{}\n", TableLogError, ":1: a record needs type"),
        ("tablelog/a.jsonl", "\n", TableLogError, ":1: the line is empty"),
        ("tablelog/a.jsonl", "[1]\n", TableLogError, ":1: must be a JSON object, not a list"),
        ("tablelog/a.jsonl", '{"type":"end"}\n', TableLogError, ":1: type must be header in the first line"),
    ],
)
def test_a_folder_that_is_no_runs_says_which_file_is_wrong(
    tmp_path: Path, file: str, content: str, error: type[Exception], says: str
) -> None:
    folder = stored(simulate(3, SPECS), tmp_path / "run")
    (folder / file).write_text(content)
    with pytest.raises(error) as raised:
        load_evidence(folder)
    said = str(raised.value)
    assert f"{folder / file}{says}" in said and "\n" not in said and "Error" not in said, said


def test_a_commit_without_a_key_is_named_with_its_file_and_line(tmp_path: Path) -> None:
    folder = stored(simulate(3, SPECS), tmp_path / "run")
    path = folder / "tablelog" / "a.jsonl"
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    at = next(n for n, r in enumerate(lines) if r["type"] == "commit")
    del lines[at]["sequence_number"]
    path.write_text("".join(json.dumps(r) + "\n" for r in lines))
    with pytest.raises(TableLogError, match=rf"tablelog/a\.jsonl:{at + 1}: a commit needs sequence_number$"):
        load_evidence(folder)


def test_expectations_of_another_form_are_refused(tmp_path: Path) -> None:
    folder = stored(simulate(3, SPECS), tmp_path / "run", plan={"expect": "undelete"})
    with pytest.raises(StoreError, match=r"plan\.yaml"):
        load_promises(folder)
