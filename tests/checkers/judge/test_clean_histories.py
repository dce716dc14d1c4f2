"""No false alarm: every checker over thousands of runs in which nothing went wrong.

An alarm on a clean run costs a person a night, and a few of them cost the tool its reader. So this is the other half of the
self-test (``checkers.selftest`` plants anomalies, here there are none): runs of an ideal Iceberg of every make and size, with
conflicts, unknown outcomes and late effects, judged by all checkers. A run that was read to its end is *valid*, not just not wrong;
a run that was cut off anywhere, in its history or in its table logs, is never *false*.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Literal

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import History
from checkers.evidence.problem import problem_of
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, TableLog
from checkers.judge.check import ALL, check
from checkers.judge.runfolder import Results
from checkers.replay.walk import Replay
from checkers.selftest.recorded import as_seen
from tests.support.amount import many
from tests.support.judging import UNREDUCED
from tests.support.simulator import ALTERING, MIX, RESHAPING, WITH_EQUALITY, simulate
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

pytestmark = pytest.mark.slow

Level = Literal["serializable", "snapshot"]
LEVELS: tuple[Level, ...] = ("serializable", "snapshot")
RUNS = many(500)
BATCHES = 10


def tables(rng: Random, level: Level) -> list[TableSpec]:
    """One to three tables, of any make."""
    return [
        TableSpec(
            name=name,
            isolation=level,
            mode=rng.choice(["copy-on-write", "merge-on-read"]),
            format_version=rng.choice([2, 3]),
            partitioned=rng.random() < 0.5,
            partitions=rng.choice([1, 2, 4]),
            seed_rows=rng.randrange(9),
        )
        for name in ("a", "b", "c")[: rng.choice([1, 1, 1, 2, 3])]
    ]


ROLLED = (
    {**ALTERING, "rollback": 2, "read-snapshot": 4},
    {**RESHAPING, "rollback": 2, "read-snapshot": 4},
    {**MIX, "rollback": 4, "insert-select": 8, "merge-insert": 6},  # what reads and is validated against nothing
    {**WITH_EQUALITY, "rollback": 3},
)
"""Rollbacks, too: whether one of unknown outcome set main back cannot always be told, so such a run may be unknown."""


def clean(
    seed: int, level: Level, mixes: Sequence[Mapping[str, float]] = (MIX, ALTERING, RESHAPING, WITH_EQUALITY)
) -> Evidence:
    """A run of 5 to 80 operations."""
    rng = Random(f"{seed}/{level}")
    size, writers = rng.randint(5, 80), rng.randint(1, 6)
    run = simulate(
        seed,
        tables(rng, level),
        writers=writers,
        ops=max(1, size // writers),
        keys=rng.randint(1, 8),
        unknown=rng.choice([0.0, 0.05, 0.3]),
        spurious=rng.choice([0.0, 0.05, 0.2]),
        mix=rng.choice(mixes),
    )
    return run.evidence()


def told(results: Results) -> list[str]:
    """What the checkers have to say."""
    return [f"{a.checker}: {a.name}: {a.explanation}" for v in results.verdicts for a in v.anomalies] + [
        f"{v.checker}: {v.valid}: {n}" for v in results.verdicts if v.valid is not True for n in v.notes
    ]


def cut(e: Evidence, rng: Random) -> Iterator[Evidence]:
    """What is left of a run that ended early, in every way a run can end."""
    n = rng.randrange(len(e.history.events) + 1)
    yield killed(e, n, rng)
    yield replace(killed(e, n, rng), logs={}) if rng.random() < 0.2 else only_history(e, n)
    yield replace(e, logs={name: unreadable(log, rng) for name, log in e.logs.items()})
    yield replace(e, logs={name: rootless(log, rng) for name, log in e.logs.items()})


def killed(e: Evidence, n: int, rng: Random) -> Evidence:
    """The harness is killed before the n-th event; the table logs were being read meanwhile."""
    events = e.history.events[:n]
    time = e.history.events[n].time if n < len(e.history.events) else events[-1].time
    logs = {}
    for name, log in e.logs.items():
        captures = tuple(c for c in log.captures if c.time < time)
        sure = max((m.n for m in log.metadata for c in captures if m.location == c.metadata), default=0)
        newest = newest_by(log, e.history, time)
        last = rng.randint(sure, max(sure, newest))
        logs[name] = ended(log, last, captures)
    return Evidence(replace(e.history, events=events), logs, e.tables, complete=False)


def newest_by(log: TableLog, history: History, time: int) -> int:
    """The newest metadata version whose commit cannot have been made after ``time``: its wall clock says so."""
    wall = [m.last_updated_ms for m in log.metadata]
    zero = min(wall)
    return max(0, bisect_left(wall, zero + time // 1_000_000) - 1)


def only_history(e: Evidence, n: int) -> Evidence:
    """The history was cut off; the logs were read to the end by a later command."""
    return replace(e, history=replace(e.history, events=e.history.events[:n]), complete=False)


def ended(log: TableLog, last: int, captures: tuple[Capture, ...]) -> TableLog:
    """A log with the metadata versions up to ``last`` only."""
    commits = tuple(c for c in log.commits if c.metadata <= last)
    return replace(log, metadata=log.metadata[: last + 1], commits=commits, captures=captures, complete=False)


def unreadable(log: TableLog, rng: Random) -> TableLog:
    """Some snapshots' rows could not be read."""
    return replace(
        log,
        commits=tuple(
            replace(c, added=None, removed=None, problems=(problem_of("a manifest cannot be read: connection reset"),))
            if rng.random() < 0.1
            else c
            for c in log.commits
        ),
    )


def rootless(log: TableLog, rng: Random) -> TableLog:
    """The first metadata versions were gone before the log was read, and the snapshots that only they list."""
    first = rng.randrange(len(log.metadata))
    listed = {s for m in log.metadata[first:] for s in m.snapshots}
    # A snapshot that an older version showed is first shown by the oldest version there is.
    return replace(
        log,
        metadata=tuple(replace(m, n=m.n - first) for m in log.metadata[first:]),
        commits=tuple(replace(c, metadata=max(0, c.metadata - first)) for c in log.commits if c.snapshot_id in listed),
    )


def unlabelled(e: Evidence, rng: Random) -> Evidence:
    """Some snapshots of procedures name no operation."""
    procedures = {o.op for o in e.history.operations() if not KINDS[o.f].changes_rows}
    share = rng.choice([0.3, 1.0])
    logs = {}
    for name, log in e.logs.items():
        commits = tuple(
            replace(c, op=None, summary={k: v for k, v in c.summary.items() if k != "icequake-op"})
            if c.op in procedures and rng.random() < share
            else c
            for c in log.commits
        )
        logs[name] = replace(log, commits=commits)
    return replace(e, logs=logs)


ENOUGH = tuple(c for c in ALL if c.name != "load")
"""All checkers but ``load``: in so short a run all writes on a table may be refused, and then it says rightly that nothing was tested."""


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("level", LEVELS)
def test_a_clean_run_is_valid(level: Level, batch: int) -> None:
    for seed in range(batch * RUNS // BATCHES, (batch + 1) * RUNS // BATCHES):
        results = check(clean(seed, level), ENOUGH)
        assert results.valid is True, (seed, level, told(results))


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_left_of_a_clean_run_is_never_false(level: Level) -> None:
    for seed in range(RUNS // 4):
        rng = Random(f"cut/{seed}/{level}")
        for n, evidence in enumerate(cut(clean(seed, level), rng)):
            results = check(evidence, ALL)
            assert results.valid is not False, (seed, level, n, told(results))


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_left_of_a_clean_run_with_rollbacks_and_seen_swaps_is_never_false(level: Level) -> None:
    for seed in range(RUNS // 10):
        rng = Random(f"rolled/{seed}/{level}")
        e = as_seen(clean(seed, level, ROLLED))
        for n, evidence in enumerate([e, *cut(e, rng), unlabelled(e, rng)]):
            results = check(evidence, UNREDUCED)
            assert results.valid is not False, (seed, level, n, told(results))


@pytest.mark.parametrize("level", LEVELS)
def test_the_clean_runs_are_worth_judging(level: Level) -> None:
    """They have conflicts, retries, unknown outcomes, compactions, and at snapshot isolation legal write skew."""
    kinds: set[tuple[str, str]] = set()
    skewed = retried = expired = 0
    for seed in range(200):
        evidence = clean(seed, level)
        kinds |= {(o.f, o.type) for o in evidence.history.operations()}
        logs = evidence.logs.values()
        retried += sum((c.attempt or 0) > 1 for log in logs for c in log.commits)
        expired += sum(len(log.metadata[-1].snapshots) < len(log.commits) for log in logs)
        skewed += sum(t["write_skew"] for t in Replay().check(evidence).stats["tables"].values())
    assert {("update-counter", t) for t in ("ok", "fail", "info")} <= kinds
    assert {("rewrite-data-files", "ok"), ("delete-partition", "ok"), ("read-snapshot", "ok")} <= kinds
    assert retried > 100 and expired > 10
    assert (skewed > 5) == (level == "snapshot")
