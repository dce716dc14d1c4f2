"""The check during a run: it tells only what the full check of the whole run finds, and in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import pairwise
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.commits import Commits
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import NEMESIS, Event
from checkers.evidence.problem import Problem
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Growth, TableLog
from checkers.online import Online, OnlineFinding
from checkers.online.certain import AFTER
from checkers.online.found import Name
from checkers.online.window import TOO_LONG, StateWindow
from checkers.reads import Reads
from checkers.replay import Replay
from checkers.selftest import ALL as PLANTED
from checkers.selftest import recorded
from checkers.selftest.plant import Plant
from checkers.selftest.world import World
from checkers.timeline.netrows import NetRows
from checkers.verdict import Anomaly, Checker
from tests.support.amount import many
from tests.support.damages import DAMAGES
from tests.support.drawing import Drawing, row
from tests.support.going_on import growths, told
from tests.support.long_run import SPEC, evidence, long_run
from tests.support.simulator import ALTERING, CLEAN, MIX, UPSERTING, WITH_EQUALITY, Defects, simulate
from workloads.tables import Row, TableSpec

CHECKERS: tuple[Checker, ...] = (Commits(), Replay(), Reads())
DEFECTS = [f.name for f in fields(Defects) if f.name != "answered"]
SAID: dict[tuple[str, str], str] = {
    **{("commits", name): name for name in ("lost-commit", "duplicate-commit", "false-failure")},
    **{("replay", name): "wrong-rows" for name in Replay.names - {"missing-file"}},
    **{("reads", name): "stale-read" for name in ("stale-read", "non-monotonic-read", "read-your-writes")},
}
"""The anomalies of the full check that can be told during a run → how they are told."""
TOLD = ["forget", "false_failure", "stale_overwrite", "overwrite", "stale_read", "drop_rows", "idle"]
"""Defects of which nothing is left to the full check that could be told."""
PLACEMENTS = 2
MINE = [m for m in PLANTED if any((m.checker, name) in SAID for name in m.finds)]


def full(e: Evidence) -> list[Anomaly]:
    """What the full check finds."""
    return [a for c in CHECKERS for a in c.check(e).anomalies]


def tellable(anomalies: Iterable[Anomaly]) -> set[tuple[str, str | None, str]]:
    """Those that can be told during a run, as they are told: name, table, operation."""
    return {(said, a.table, a.ops[0]) for a in anomalies if (said := SAID.get((a.checker, a.name))) is not None}


def alone(online: Online, anomalies: Iterable[Anomaly]) -> list[str]:
    """What was told, still holds, and the full check does not say. That may name who passed over a commit before the one that is lost."""
    said = {(SAID.get((a.checker, a.name)), a.table, op) for a in anomalies for op in a.ops}
    return [str(f) for f in online.found if as_told(f) not in said and not online.overtaken(f)]


def as_told(f: OnlineFinding) -> tuple[str, str, str]:
    """Name, table, operation."""
    return f.name, f.table, f.op


def set_back(log: TableLog) -> Iterator[int]:
    """The versions whose main is neither that of the version before nor a child of it."""
    parents = {c.snapshot_id: c.parent_id for c in log.commits}
    for a, b in pairwise(log.metadata):
        if b.current != a.current and (b.current is None or parents[b.current] != a.current):
            yield b.n


def came_late(e: Evidence, f: OnlineFinding) -> bool:
    """Whether an operation on the table of an anomaly was acknowledged before its commit was made."""
    acknowledged = {
        o.op: o.completed.index for o in e.history.operations() if o.type == "ok" and o.completed is not None
    }
    invoked = -1
    for c in e.logs[f.table].main():
        o = next(o for o in e.history.operations() if o.op == c.op)
        if acknowledged.get(o.op, invoked) < invoked:
            return True
        invoked = max(invoked, o.invoked.index)
    return False


def feed(online: Online, x: Event | Growth) -> None:
    """What comes next."""
    if isinstance(x, Event):
        online.event(x)
    else:
        online.grew(x)


def went_on(e: Evidence, stream: Iterable[Event | Growth], **bounds: int) -> Online:
    """A run as it went on, to its end."""
    online = Online(e.tables.values(), {x.f for x in e.history.events if x.op is not None}, **bounds)
    for x in stream:
        feed(online, x)
    online.finish()
    return online


def broken(rules: Iterable[str], share: float) -> Defects:
    """Each of these rules is broken so often."""
    shares: dict[str, Any] = dict.fromkeys(rules, share)
    return replace(CLEAN, **shares)


def made(seed: int, defects: Defects = CLEAN, ops: int = 12) -> Evidence:
    """A simulated run of one or two tables."""
    rng = Random(f"online/{seed}")
    level = rng.choice(["serializable", "snapshot"])
    specs = [
        TableSpec.model_validate(
            {
                "name": name,
                "isolation": level,
                "mode": rng.choice(["copy-on-write", "merge-on-read"]),
                "partitions": 2,
                "partitioned": rng.random() < 0.5,
                "seed_rows": rng.randrange(6),
            }
        )
        for name in ("a", "b")[: rng.choice([1, 2])]
    ]
    run = simulate(
        seed,
        specs,
        ops=ops,
        keys=rng.randint(1, 6),
        mix=rng.choice([MIX, ALTERING, UPSERTING, WITH_EQUALITY]),
        unknown=rng.choice([0.0, 0.05, 0.3]),
        spurious=rng.choice([0.0, 0.1]),
        defects=defects,
        captured=rng.choice([0.02, 0.1, 0.5]),
    )
    return run.evidence()


def stream(e: Evidence, seed: int) -> list[Event | Growth]:
    """The run as it was told, with captures that come late, are cut short, or begin again."""
    rng = Random(seed)
    return told(e, rng, late=rng.choice([0, 2, 9]), tear=rng.random() < 0.5, restart=rng.choice([0.0, 0.3]))


@settings(max_examples=many(40))
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_run_in_which_nothing_went_wrong_shows_no_anomaly_at_any_moment(seed: int, order: int) -> None:
    e = made(seed)
    online = went_on(e, stream(e, order))
    assert online.found == [] and online.counts.anomalies == 0
    assert online.counts.judged == sum(len(log.main()) for log in e.logs.values()), "every commit was judged"


@settings(max_examples=many(40))
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from(DEFECTS), st.sampled_from([0.05, 0.3]))
def test_what_is_told_is_found_by_the_full_check(seed: int, order: int, defect: str, share: float) -> None:
    e = made(seed, broken([defect], share))
    online, found = went_on(e, stream(e, order)), full(e)
    assert alone(online, found) == []
    missing = tellable(found) - {as_told(f) for f in online.found}
    assert not missing or online.counts.not_judged, missing


@settings(max_examples=many(40))
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_is_told_of_several_defects_at_once_is_found_by_the_full_check(seed: int, order: int) -> None:
    rng = Random(seed)
    chosen = rng.sample(DEFECTS, 5)
    e = made(seed, broken(chosen, 0.15))
    online, found = went_on(e, stream(e, order)), full(e)
    assert alone(online, found) == []
    back = [t for t in e.tables if any(set_back(e.logs[t]))]
    assert all(f.table in back or came_late(e, f) for f in online.found if online.overtaken(f))


@settings(max_examples=many(40))
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from(DEFECTS))
def test_with_little_memory_it_tells_less_and_nothing_else(seed: int, order: int, defect: str) -> None:
    e = made(seed, broken([defect], 0.2))
    online = went_on(e, stream(e, order), kept=3, remembered=8)
    assert alone(online, full(e)) == []


@pytest.mark.slow
@pytest.mark.parametrize("defect", ["", *DEFECTS])
def test_the_same_of_longer_runs(defect: str) -> None:
    wrong: list[tuple[int, str]] = []
    for seed in range(many(12)):
        e = made(seed, broken([defect] if defect else [], 0.3), ops=30)
        online, found = went_on(e, stream(e, seed)), full(e)
        wrong += [(seed, f) for f in alone(online, found)]
        missing = tellable(found) - {as_told(f) for f in online.found}
        wrong += [(seed, f"not told: {m}") for m in missing if not online.counts.not_judged]
    assert wrong == []


def test_of_a_clean_stretch_nothing_is_left_to_the_full_check() -> None:
    e = evidence(long_run(600))
    online = went_on(e, long_run(600))
    assert full(e) == [] and online.found == []
    counts = online.counts
    assert counts.completed == 600 and counts.judged == counts.commits > 400 and counts.reads > 50
    assert counts.judged + counts.reads == 600 and dict(counts.not_judged) == {}


@pytest.mark.slow
@pytest.mark.parametrize("bug", MINE, ids=lambda m: m.name)
def test_a_planted_bug_is_told_or_counted_as_not_judged(bug: Plant[Any], worlds: list[World]) -> None:
    turns = [(n, bug.plant(worlds[n].with_rng(Random(f"online/{bug.name}/{n}")))) for n in range(len(worlds))]
    placed = [(n, p.evidence, p.ops) for n, p in turns if p is not None][:PLACEMENTS]
    if not placed:
        pytest.skip("no run has a place for it")
    for n, e, ops in placed:
        found = full(e)
        mine = tellable(a for a in found if a.name in bug.finds and (not ops or ops & {*a.ops}))
        online = went_on(e, stream(e, n))
        assert alone(online, found) == []
        assert not mine or mine & {as_told(f) for f in online.found} or online.counts.not_judged, mine


@pytest.mark.parametrize("defect", TOLD)
def test_of_these_defects_everything_is_told_by_the_end(defect: str) -> None:
    several = 0
    for seed in range(many(12)):
        e = made(seed, broken([defect], 0.4), ops=15)
        online, found = went_on(e, stream(e, seed)), full(e)
        assert alone(online, found) == []
        missing = tellable(found) - {as_told(f) for f in online.found}
        assert not missing or online.counts.not_judged.keys() == {"time travel"}, "which proves what was certain, too"
        several += len(online.found)
    assert several, "the defect showed"


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    specs = [
        TableSpec(name="a", mode="copy-on-write", partitioned=False, seed_rows=8),
        TableSpec(name="b", mode="merge-on-read", seed_rows=8),
    ]
    runs = [simulate(s, specs, ops=30, keys=5, unknown=0.0, captured=0.2).evidence() for s in range(2)]
    runs += [recorded.load(name) for name in recorded.names()]
    return [World(e, Random(0)) for e in runs]


@pytest.mark.parametrize("name", recorded.names())
def test_a_recorded_run_shows_no_anomaly(name: str) -> None:
    e = recorded.load(name)
    online = went_on(e, stream(e, 1))
    assert online.found == []
    assert online.counts.commits == sum(len(log.commits) for log in e.logs.values())


# --- the moment at which something is certain


def moments(e: Evidence) -> list[tuple[str, str]]:
    """For each anomaly: its name, and the last event or the capture before it was told."""
    online = Online(e.tables.values())
    out: list[tuple[str, str]] = []
    for x in told(e, Random(0)):
        before = len(online.found)
        feed(online, x)
        at = f"{x.type} {x.op}" if isinstance(x, Event) else f"capture {[c.op for c in x.commits]}"
        out += [(f.name, at) for f in online.found[before:]]
    return out


def lost(*, acknowledged: bool) -> Drawing:
    """An insert whose snapshot main is set back below, before or after it is acknowledged."""
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.capture()
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.set_main(a)
    if acknowledged:
        d.capture()
    return d


def test_a_lost_commit_is_told_at_the_capture_that_shows_main_set_back() -> None:
    e = lost(acknowledged=True).evidence()
    assert [m for m in moments(e) if m[0] == "lost-commit"] == [("lost-commit", "capture ['b']")]


def test_after_main_was_set_back_the_table_is_not_judged_and_says_so() -> None:
    d = lost(acknowledged=True)
    d.did("c", "insert", ids=[3], add=[row(3, "c")])
    d.capture()
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert [f.name for f in online.found] == ["lost-commit"]
    assert online.counts.not_judged["main was set back"] >= 2


@pytest.mark.parametrize("seen", [True, False])
def test_of_a_table_that_is_set_back_only_what_the_next_capture_lacks_is_told(seen: bool) -> None:
    """As on the JDBC catalog, where one operation retried its commit twice, perhaps between two captures."""
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.set_main(a)
    if seen:
        d.capture()
    d.did("c", "insert", ids=[3], add=[row(99, "c")])
    d.set_main(a)
    d.did("d", "insert", ids=[4], add=[row(4, "d")])
    d.capture()
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert tellable(full(e)) == {("lost-commit", "t", "b"), ("lost-commit", "t", "c")}
    assert [as_told(f) for f in online.found] == [("lost-commit", "t", op) for op in ("b" if seen else "bc")]
    assert online.counts.closed == {"t": "main was set back"}


@pytest.mark.parametrize("seen", [True, False])
def test_a_lost_commit_that_main_has_again_is_overtaken_or_not_told_at_all(seen: bool) -> None:
    """As on a catalog without compare-and-swap: a writer replaces the version that set main back by one on the version before."""
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    b = d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.set_main(a)
    if seen:
        d.capture()
    d.invoke("c", "insert", ids=[3])
    d.commit("c", [row(3, "c")], parent=b)
    d.ok("c")
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert [a.name for a in full(e)] == []
    assert [(f.name, f.op, online.overtaken(f)) for f in online.found] == [("lost-commit", "b", True)] * seen


def test_a_commit_beside_main_in_the_version_that_sets_main_back_hides_no_lost_commit() -> None:
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    b = d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.invoke("c", "insert", ids=[3])
    d.commit("c", add=[row(3, "c")], parent=b, shown=False)
    d.set_main(a)
    d.info("c")
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert [as_told(f) for f in online.found] == [("lost-commit", "t", "b")] and alone(online, full(e)) == []


def stale_at_the_end() -> Drawing:
    """A stale read after the last capture, and a write after it that the log has: the catalog was slow to answer the capture."""
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.capture()
    d.read("r", [row(1, "a")])
    d.did("c", "insert", ids=[3], add=[row(3, "c")])
    return d


@pytest.mark.parametrize(("capture", "names"), [(True, ["stale-read"]), (False, [])])
def test_a_read_is_judged_when_a_capture_was_asked_for_after_its_end(capture: bool, names: list[str]) -> None:
    e = stale_at_the_end().evidence(capture=capture)
    online = went_on(e, told(e, Random(0)))
    assert [a.name for a in full(e)] == names == [f.name for f in online.found]
    assert online.counts.not_judged.get(AFTER, 0) == 1 - len(names)


# --- damaged evidence


@settings(max_examples=many(40))
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.lists(st.sampled_from(sorted(DAMAGES)), min_size=1, max_size=3))
def test_what_is_told_of_damaged_evidence_is_found_by_the_full_check(seed: int, order: int, kinds: list[str]) -> None:
    rng = Random(order)
    e = made(seed, broken(rng.sample(DEFECTS, rng.choice([0, 1, 3])), 0.2))
    for kind in kinds:
        e = DAMAGES[kind](e, rng) or e
    bounds = rng.choice([{}, {"kept": 3, "remembered": 8}])
    fed = stream(e, order)
    while fed and not e.complete and isinstance(fed[-1], Growth):
        fed.pop()  # the check ends with the history of a run that was stopped
    online, found = went_on(e, fed, **bounds), full(e)
    assert alone(online, found) == []


def test_an_anomaly_of_a_table_whose_main_is_not_known_any_more_is_overtaken() -> None:
    """As where Nessie, which lists only the current snapshot, commits one id twice: the full check then says nothing of the table."""
    d = Drawing()
    d.invoke("a", "insert", ids=[1])
    a = d.commit("a", [row(1, "a")])
    d.fail("a")
    d.capture()
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    again = Problem("snapshot-changed", "a snapshot was committed again", snapshot=a)
    d.metadata[:] = [replace(m, snapshots=m.snapshots[-1:]) for m in d.metadata]
    d.metadata[-1] = replace(d.metadata[-1], problems=(again,))
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert full(e) == [] and [(f.name, online.overtaken(f)) for f in online.found] == [("false-failure", True)]


def test_an_anomaly_of_a_commit_that_main_loses_later_is_overtaken() -> None:
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "insert", ids=[2], add=[row(3, "b")])
    d.capture()
    before = went_on(d.evidence(), told(d.evidence(), Random(0)))
    assert [(f.name, before.overtaken(f)) for f in before.found] == [("wrong-rows", False)]
    d.set_main(a)
    d.capture()
    after = went_on(d.evidence(), told(d.evidence(), Random(0)))
    assert [(f.name, after.overtaken(f)) for f in after.found] == [("wrong-rows", True), ("lost-commit", False)]


def test_a_write_that_never_shows_is_told_when_a_later_one_is_there() -> None:
    """Until then, an operation under way may empty the state, or the commit may still be read."""
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.capture()
    d.invoke("b", "insert", ids=[2])
    d.ok("b")
    d.capture()
    d.did("c", "insert", ids=[3], add=[row(3, "c")])
    d.capture()
    e = d.evidence()
    assert moments(e) == [("lost-commit", "capture ['c']")]
    assert [a.name for a in full(e)] == ["lost-commit"]


def test_a_stale_read_is_told_when_a_later_write_is_there() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.invoke("r", "read")
    d.ok("r", [list(row(1, "a"))])
    d.capture()
    d.did("c", "insert", ids=[3], add=[row(3, "c")])
    d.capture()
    e = d.evidence()
    assert moments(e) == [("stale-read", "capture ['c']")]


@pytest.mark.parametrize(("f", "why"), [("rollback", "rollbacks (rollback)"), ("transfer", "two tables")])
def test_a_workload_with_kinds_that_are_not_understood_is_not_judged_from_its_start(f: str, why: str) -> None:
    e = evidence(long_run(60))
    online = Online([SPEC], {f})
    for x in long_run(60):
        feed(online, x)
    online.finish()
    assert online.counts.judged == 0 and online.found == []
    assert any(why in reason for reason in online.counts.not_judged), dict(online.counts.not_judged)
    assert sum(online.counts.not_judged.values()) >= len(e.logs["t"].commits)


# --- what it costs


def most(operations: int) -> int:
    """The most things that are kept at once during a run."""
    online, size = Online([SPEC], kept=32, remembered=64), 0
    for n, x in enumerate(long_run(operations)):
        feed(online, x)
        size = max(size, len(online)) if n % 50 == 0 else size
    assert online.counts.anomalies == 0 and online.counts.judged == online.counts.commits
    return size


def test_memory_does_not_grow_with_the_number_of_operations() -> None:
    assert most(4000) <= 1.1 * most(1000)


def test_memory_does_not_grow_with_writes_that_are_lost() -> None:
    """Their operations are forgotten, and reads that may have seen them are then left to the full check."""
    online, sizes = Online([SPEC], kept=32, remembered=64), []
    for n, x in enumerate(long_run(3000)):
        if isinstance(x, Event):
            online.event(x)
        if n % 1000 == 999:
            sizes.append(len(online))
    assert sizes[2] <= 1.1 * sizes[0]


# --- rules that random runs seldom touch


def test_retries_and_the_faults_that_are_on_are_counted() -> None:
    d = Drawing()
    for n, attempt in enumerate((1, 2, 3, None)):
        d.invoke(f"a{n}", "insert", ids=[n])
        d.commit(f"a{n}", [row(n, f"a{n}")], attempt=attempt)
        d.ok(f"a{n}")
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert (online.counts.commits, online.counts.retried, online.counts.faults) == (4, 2, 0)
    faults = []
    for n, (f, name) in enumerate(
        (
            ("start-delay", "delay"),
            ("start-kill", "kill"),
            ("missed-kill", "kill"),
            ("stop-delay", "delay"),
            ("start-cut", "cut"),
            ("heal", None),
        )
    ):
        value = None if name is None else {"name": name}
        online.event(Event(100 + n, 10**12, "info", NEMESIS, f, None, value, None, None, {}))
        faults.append(online.counts.faults)
    assert faults == [1, 2, 2, 1, 2, 0]


def test_a_log_without_a_column_is_left_to_the_full_check() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    e = d.evidence(columns=("id", "val"))
    online = went_on(e, told(e, Random(0)))
    assert online.found == [] and online.counts.judged == 0
    assert dict(online.counts.not_judged).keys() == {"the table log lacks columns"}


def test_a_lost_operation_whose_commit_comes_again_is_not_told_as_lost() -> None:
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("b", "insert", ids=[2])
    d.commit("b", [row(2, "b")])
    d.set_main(a)
    d.commit("b", [row(2, "b")])
    d.ok("b")
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert "lost-commit" not in [f.name for f in online.found] and "lost-commit" not in [x.name for x in full(e)]


def test_a_read_whose_rows_no_state_has_together_is_left_to_the_full_check() -> None:
    """Whether it is dirty, fractured, of the future or of nobody depends on what comes later."""
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "delete", ids=[1], remove=[row(1, "a")])
    d.did("c", "insert", ids=[2], add=[row(2, "c")])
    d.read("r", [row(1, "a"), row(2, "c")])
    d.capture()
    d.did("d", "insert", ids=[3], add=[row(3, "d")])
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert [x.name for x in full(e)] == ["fractured-read"]
    assert online.found == [] and dict(online.counts.not_judged) == {"reads of rows that no state has had so far": 1}


def test_a_table_that_the_catalog_has_no_more_is_closed() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.capture()
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.capture()
    d.captures.append(replace(d.captures[-1], time=d.captures[-1].time + 1, metadata=None))
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert [x.name for x in full(e)] == ["lost-table"] and online.found == []
    assert online.counts.closed == {"t": "the catalog has no table any more"}


def by_growths(d: Drawing, **more: Any) -> tuple[list[Event], list[Growth], Evidence]:
    """The events of a drawing and what its captures added, to be told in an order of one's own; and all of it."""
    e = d.evidence(**more)
    (log,) = e.logs.values()
    return list(e.history.events), list(growths(log)), e


def test_a_commit_that_main_lost_is_told_only_if_a_capture_was_asked_for_after_its_acknowledgement() -> None:
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("b", "insert", ids=[2])
    d.commit("b", [row(2, "b")])
    d.set_main(a)
    d.capture()  # before the acknowledgement
    d.ok("b")
    events, (grown,), e = by_growths(d, capture=False)
    assert [x.name for x in full(e)] == ["lost-commit"]
    online = went_on(e, [*events, grown])
    assert online.found == [] and online.counts.closed == {"t": "main was set back"}


def test_a_write_that_was_acknowledged_after_the_last_capture_is_not_told_as_lost() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.capture()
    d.invoke("b", "insert", ids=[2])
    d.ok("b")
    e = d.evidence(capture=False)
    online = went_on(e, told(e, Random(0)))
    assert online.found == [] == full(e)


@pytest.mark.parametrize(("problem", "judged"), [(Problem("fork", "a fork"), 2), (Problem("torn", "a torn line"), 1)])
def test_only_a_chain_of_metadata_that_is_broken_is_left_to_the_full_check(problem: Problem, judged: int) -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.metadata[-1] = replace(d.metadata[-1], problems=(problem,))
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert online.counts.judged == judged
    assert ("the chain of metadata is broken" in online.counts.not_judged) is (judged == 1)


def test_a_false_failure_whose_rows_cannot_be_read_is_told_before_the_table_is_closed() -> None:
    """A writer that is told that it failed deletes its files, though main has them."""
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("b", "insert", ids=[2])
    d.commit("b", added=None, removed=None)
    d.fail("b")
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert [as_told(f) for f in online.found] == [("false-failure", "t", "b")] and alone(online, full(e)) == []
    assert online.counts.closed == {"t": "rows that could not be read"}


def test_a_failed_operation_that_landed_twice_is_a_false_failure_once() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("b", "insert", ids=[2])
    d.fail("b")
    d.commit("b", [row(2, "b")])
    d.commit("b", [row(2, "b")])
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert sorted(f.name for f in online.found) == ["duplicate-commit", "false-failure"]
    assert alone(online, full(e)) == []


@pytest.mark.parametrize(("between", "kept", "remembered"), [(8, 3, 64), (8, 64, 4), (2, 64, 64)])
def test_a_wrong_commit_of_an_operation_that_was_under_way_for_too_long_is_left_to_the_full_check(
    between: int, kept: int, remembered: int
) -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.capture()
    d.invoke("b", "insert", ids=[2])
    for n in range(between):
        d.did(f"c{n}", "insert", ids=[10 + n], add=[row(10 + n, f"c{n}")])
        d.capture()
    d.commit("b", [row(99, "b")])
    d.ok("b")
    e = d.evidence()
    online = went_on(e, told(e, Random(0)), kept=kept, remembered=remembered)
    if between == 8:
        assert online.found == [] and online.counts.not_judged[TOO_LONG] == 1
    else:
        assert [f.name for f in online.found] == ["wrong-rows"] and alone(online, full(e)) == []


def test_every_commit_and_completion_of_a_table_that_is_not_judged_counts_once() -> None:
    e = evidence(long_run(60))
    online = Online([SPEC], {"rollback"})
    for x in long_run(60):
        feed(online, x)
    online.finish()
    assert (
        sum(online.counts.not_judged.values())
        == online.counts.completed + online.counts.commits
        == 60 + len(e.logs["t"].commits)
    )


@settings(max_examples=many(100))
@given(st.integers(0, 10**6), st.sampled_from([1, 3, 64]))
def test_a_window_knows_each_kept_state_as_if_it_had_copied_it(seed: int, kept: int) -> None:
    rng = Random(seed)
    d = Drawing()
    c = d.commits[d.commit("a")]
    window, states, now = StateWindow(kept), [Counter[Row]()], Counter[Row]()
    for _ in range(rng.randrange(12)):
        removed = [r for r in now.elements() if rng.random() < 0.3]
        added = [row(rng.randrange(3), f"v{rng.randrange(3)}") for _ in range(rng.randrange(3))]
        window.step(c, NetRows(tuple(removed), tuple(added)))
        now = now - Counter(removed) + Counter(added)
        states.append(now)
    assert (window.top, window.base) == (len(states) - 1, max(0, len(states) - 1 - kept))
    low = rng.randint(window.base, window.top)
    assert [Counter(s.rows()) for s in window.back(low)] == [states[p] for p in range(window.top, low - 1, -1)]
    assert Counter(window.state.rows()) == now
    for key in (None, 0, 1, 2, 9):

        def of(p: int, key: int | None = key) -> Counter[Row]:
            return Counter(r for r in states[p].elements() if key is None or r.id == key)

        wanted = of(rng.randrange(len(states)))
        there = [p for p in range(window.top, low - 1, -1) if of(p) == wanted]
        assert [*window.equal([*wanted.elements()], key, low)] == there


def test_a_table_on_which_an_operation_landed_twice_is_left_to_the_full_check_from_then_on() -> None:
    d = Drawing()
    d.invoke("a", "insert", ids=[1])
    d.commit("a", [row(1, "a")])
    d.commit("a", [row(1, "a")])
    d.ok("a")
    d.did("b", "insert", ids=[2], add=[row(9, "b")])
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert [f.name for f in online.found] == ["duplicate-commit"] and alone(online, full(e)) == []
    assert online.counts.not_judged["a commit that landed twice"] >= 2


def test_two_snapshots_that_one_version_brings_are_left_to_the_full_check() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("b", "insert", ids=[2])
    d.invoke("c", "insert", ids=[3])
    b = d.commit("b", [row(2, "b")], shown=False)
    d.commit("c", [row(3, "c")], parent=b)
    d.ok("b")
    d.ok("c")
    e = d.evidence()
    online = went_on(e, told(e, Random(0)))
    assert (
        online.found == [] and online.counts.not_judged["a version with snapshots other than the next one of main"] >= 2
    )


def test_a_name_that_the_full_check_may_replace_is_told_as_such() -> None:
    later = "(the check after the run gives it its final name)"
    lines = {name: str(OnlineFinding(name, "t", "w1-4", "why")) for name in get_args(Name)}
    assert {name for name, line in lines.items() if line.endswith(later)} == {"wrong-rows", "stale-read"}
