"""A whole run on a real cluster: what it leaves, that it can be judged again elsewhere, and that the checkers speak."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from checkers.evidence import history, tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History
from checkers.evidence.outcome import conflict
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import EVIDENCE, RunFolder
from checkers.evidence.tablelog import Commit, TableLog
from checkers.judge.check import check
from checkers.judge.runfolder import load_evidence
from compose.install.installation import Installation
from harness.run.bench import Bench
from tests.support.runs import ROOT, environment, execute, icequake
from workloads.file import workload, workload_text

pytestmark = pytest.mark.spark

OPERATIONS = 200


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, installation: Installation, bench: Bench) -> RunFolder:
    """A good run of the quick workload, judged by the command line."""
    quick = workload_text.load(workload.find("quick")).model_copy(update={"length": workload.Length(ops=OPERATIONS)})
    into = tmp_path_factory.mktemp("store")
    folder = execute(quick, into, installation, bench.endpoints, warm=bench.sockets(), seed=5)
    judged = icequake("check", folder.path)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    return folder


def evidence(folder: RunFolder) -> Evidence:
    return load_evidence(folder.path)


# --- what a run leaves ------------------------------------------------------------------------------------------------


def test_a_run_leaves_history_table_logs_results_and_page(recorded: RunFolder) -> None:
    ops = history.read(recorded.history).operations()
    assert len(ops) == OPERATIONS + 3 + 4 * 3  # the seed rows of three tables, and each writer's final reads of them
    assert len({o.f for o in ops if o.type == "ok"}) >= 10
    assert {o.process for o in ops} >= {0, 1, 2, 3}
    for log in tablelog_file.read_all(recorded.tablelog).values():
        assert log.complete and log.problems == () and len(log.main()) > 5
        assert all(c.readable and c.op for c in log.commits)
    assert json.loads(recorded.results.read_text())["valid"] is True
    assert "<html" in recorded.report.read_text()
    assert recorded.state()["state"] == "complete" and recorded.state()["peak_memory_bytes"] > 1e9
    assert recorded.state()[EVIDENCE] == recorded.evidence and len(recorded.evidence) >= 3, "the logs of its tables"


def test_it_meets_conflicts_and_knows_how_every_operation_ended(recorded: RunFolder) -> None:
    ops = history.read(recorded.history).operations()
    assert any(o.type == "fail" and conflict(o.error) for o in ops)
    assert not any(o.type == "info" for o in ops)


def test_check_needs_no_spark_and_gives_the_same_bytes_again(recorded: RunFolder, tmp_path: Path) -> None:
    before = recorded.results.read_bytes()
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(recorded.path, elsewhere)
    script = (
        "import sys; sys.argv = ['icequake', 'check', sys.argv[1]]\n"
        "from harness.cli.app import _main\n"
        "code = _main()\n"
        "assert not {'pyspark', 'py4j', 'aiohttp', 'pyiceberg'} & set(sys.modules), 'a check needs none of these'\n"
        "sys.exit(code)\n"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script, str(elsewhere)],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment(JAVA_HOME="/nonexistent"),
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert (elsewhere / "results.json").read_bytes() == before


def test_two_runs_of_a_seed_invoke_the_same_operations(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    quick = workload_text.load(workload.find("quick")).model_copy(
        update={"length": workload.Length(ops=24), "engines": ("spark",) * 2}
    )

    def invoked(n: int) -> dict[str, list[object]]:
        folder = execute(quick, tmp_path / str(n), installation, bench.endpoints, warm=bench.sockets(), seed=77)
        by_writer: dict[str, list[object]] = {}
        for e in history.read(folder.history).events:
            if e.type == "invoke" and e.op is not None:
                by_writer.setdefault(e.op.split("-")[0], []).append((e.op, e.f, e.table, e.value))
        return by_writer

    first, second = invoked(1), invoked(2)
    assert first == second
    assert sum(map(len, first.values())) == 24 + 3 + 2 * 3


# --- the checkers speak -----------------------------------------------------------------------------------------------


def anomalies(e: Evidence) -> dict[str, set[str]]:
    """Checker → names of what it found."""
    return {v.checker: {a.name for a in v.anomalies} for v in check(e).verdicts if v.anomalies}


def with_log(e: Evidence, table: str, change: Callable[[TableLog], TableLog]) -> Evidence:
    return replace(e, logs={**e.logs, table: change(e.logs[table])})


def changing(log: TableLog) -> list[Commit]:
    """Main's commits of writers that changed rows, without the first (the seed's)."""
    return [c for c in log.main()[1:] if c.added or c.removed]


def test_the_recorded_run_is_good(recorded: RunFolder) -> None:
    assert anomalies(evidence(recorded)) == {}


@pytest.mark.parametrize("table", ["orders", "events", "accounts"])
def test_a_removed_acknowledged_commit_is_a_lost_commit(recorded: RunFolder, table: str) -> None:
    def remove(log: TableLog) -> TableLog:
        victim = changing(log)[len(changing(log)) // 2]
        rest = [
            replace(c, parent_id=victim.parent_id) if c.parent_id == victim.snapshot_id else c
            for c in log.commits
            if c is not victim
        ]
        return replace(log, commits=tuple(rest))

    assert "lost-commit" in anomalies(with_log(evidence(recorded), table, remove))["commits"]


@pytest.mark.parametrize("table", ["orders", "events", "accounts"])
def test_a_repeated_commit_is_a_duplicate_commit(recorded: RunFolder, table: str) -> None:
    def repeat(log: TableLog) -> TableLog:
        victim = next(c for c in changing(log) if c.added)
        twin = replace(victim, snapshot_id=1, parent_id=victim.snapshot_id, removed=())
        commits: list[Commit] = []
        for c in log.commits:
            commits.append(replace(c, parent_id=1) if c.parent_id == victim.snapshot_id else c)
            if c is victim:
                commits.append(twin)
        return replace(log, commits=tuple(commits))

    assert "duplicate-commit" in anomalies(with_log(evidence(recorded), table, repeat))["commits"]


@pytest.mark.parametrize("table", ["orders", "events", "accounts"])
def test_two_rows_with_each_others_values_are_wrong_rows(recorded: RunFolder, table: str) -> None:
    def swap(log: TableLog) -> TableLog:
        victim, a, b = next(
            (c, a, b)
            for c in log.main()
            for a, b in combinations(c.added or (), 2)
            if a.row[1:] != b.row[1:] and a.row[0] != b.row[0]
        )
        swapped = {a: replace(a, row=(a.row[0], *b.row[1:])), b: replace(b, row=(b.row[0], *a.row[1:]))}
        rows = tuple(swapped.get(c, c) for c in victim.added or ())
        commits = tuple(replace(c, added=rows) if c is victim else c for c in log.commits)
        return replace(log, commits=commits)

    assert anomalies(with_log(evidence(recorded), table, swap)).get("replay")


def test_a_read_that_returns_an_older_state_is_a_stale_read(recorded: RunFolder) -> None:
    e = evidence(recorded)
    done = {o.op: o for o in e.history.operations()}
    final = next(
        o for o in done.values() if o.f == "read" and o.table == "orders" and o.invoked.extra["phase"] == "final-reads"
    )
    seed = next(
        o for o in done.values() if o.f == "insert" and o.table == "orders" and o.invoked.extra["phase"] == "setup"
    )
    old = sorted([c.row for c in e.logs["orders"].main()[0].added or ()])
    assert seed.op == e.logs["orders"].main()[0].op

    def edit(event: Event) -> Event:
        return replace(event, value=[list(r) for r in old]) if event == final.completed else event

    edited = History(e.history.header, tuple(edit(x) for x in e.history.events))
    found = anomalies(replace(e, history=edited))
    assert found["reads"] & {"stale-read", "non-monotonic-read", "read-your-writes"}
