"""The ``linearizable`` checker over tables: drawn histories, an oracle that tries every order, and what a simulated Iceberg breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from typing import Any, Literal

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History
from checkers.evidence.replace import replace
from checkers.judge.check import check
from checkers.judge.runfolder import Promises
from checkers.linearizable import Limits, Linearizable, checker
from checkers.linearizable.calls import Call
from checkers.linearizable.checker import MOST_OF_A_TABLE
from checkers.linearizable.rows import SeenRows, TableRows, rows_of
from checkers.linearizable.search import SearchResult, search
from checkers.selftest import recorded
from checkers.verdict import Anomaly, Checker, Verdict
from tests.checkers.judge.test_clean_histories import tables
from tests.support.drawing import Drawing
from tests.support.judging import UNREDUCED
from tests.support.simulator import ROW_BY_ROW, Defects, simulate
from workloads.file.anomalies import entries_of
from workloads.operations.kind import WriteSet
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State, TableSpec

Level = Literal["serializable", "snapshot"]
OTHERS = [c for c in UNREDUCED if c.name != "linearizable"]


class Told:
    """A history of one table drawn by hand; every operation is a process of its own."""

    def __init__(self, isolation: Level = "serializable", **spec: Any) -> None:
        self.spec = TableSpec(name="t", isolation=isolation, mode=spec.pop("mode", "merge-on-read"), **spec)
        self.events: list[Event] = []
        self.process: dict[str, tuple[int, str]] = {}

    def invoke(self, op: str, f: str, **value: Any) -> None:
        self.process[op] = len(self.process), f
        self._event("invoke", op, value)

    def ok(self, op: str, result: Any = None) -> None:
        self._event("ok", op, result)

    def fail(self, op: str) -> None:
        self._event("fail", op, None)

    def info(self, op: str) -> None:
        self._event("info", op, None)

    def did(self, op: str, f: str, **value: Any) -> None:
        self.invoke(op, f, **value)
        self.ok(op)

    def read(self, op: str, *rows: Row, id: int | None = None) -> None:
        self.invoke(op, "read") if id is None else self.invoke(op, "read-key", id=id)
        self.ok(op, [list(r) for r in rows])

    def _event(self, kind: Any, op: str, value: Any) -> None:
        process, f = self.process[op]
        n = len(self.events)
        self.events.append(Event(n, n * 1_000_000, kind, process, f, "t", value, op))

    def verdict(self, **options: Any) -> Verdict:
        evidence = Evidence(History({"format": 1}, tuple(self.events)), {}, {"t": self.spec})
        return Linearizable(**options).check(evidence)

    def anomaly(self) -> Anomaly:
        v = self.verdict()
        assert v.valid is False and len(v.anomalies) == 1, v
        return v.anomalies[0]


def row(id: int, val: str, cnt: int = 0, log: str | None = None) -> Row:
    return Row(id, val, cnt, val if log is None else log, id % 4)


def seeded(isolation: Level = "serializable", **spec: Any) -> Told:
    t = Told(isolation, **spec)
    t.did("s", "insert", ids=[1, 2])
    return t


def race(t: Told, a: tuple[str, dict[str, Any]], b: tuple[str, dict[str, Any]]) -> Told:
    """Two operations at the same time, both acknowledged."""
    t.invoke("a", a[0], **a[1])
    t.invoke("b", b[0], **b[1])
    t.ok("a")
    t.ok("b")
    return t


# --- what must be found -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_a_lost_update_of_a_counter_is_found(level: Level) -> None:
    t = race(seeded(level), ("update-counter", {"ids": [1]}), ("update-counter", {"ids": [1]}))
    t.read("r", row(1, "s", 1), row(2, "s"))
    a = t.anomaly()
    assert (a.name, a.checker, a.table, a.ops[0], a.keys) == ("nonlinearizable", "linearizable", "t", "r", (1,))
    assert a.evidence["columns"] == ["cnt"] and a.documented is None
    assert "id 1: no order explains the read that returned (id 1, val s, cnt 1, log s) (r, process 3" in a.explanation
    assert "the state is then (id 1, val s, cnt 2, log s)" in a.explanation


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_a_lost_append_and_a_lost_value_are_found(level: Level) -> None:
    t = race(seeded(level), ("update-append", {"ids": [1]}), ("update-append", {"ids": [1]}))
    t.read("r", row(1, "s", 0, "s,b"), row(2, "s"))
    assert t.anomaly().evidence["columns"] == ["log"]
    t = seeded(level)
    t.did("a", "update-register", ids=[2])
    t.read("r", row(1, "s"), row(2, "s"))
    assert t.anomaly().evidence["columns"] == ["val"]
    assert t.anomaly().ops == ("r", "a", "s")


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.parametrize(
    ("seen", "columns"),
    [
        ([], ["existence"]),  # an acknowledged row is missing
        ([row(1, "s"), row(1, "s")], ["existence"]),  # a row twice
        ([row(1, "x")], ["log", "val"]),  # a value that nobody wrote
    ],
)
def test_rows_that_no_order_makes_are_found(level: Level, seen: list[Row], columns: list[str]) -> None:
    t = seeded(level)
    t.read("r", *seen, row(2, "s"))
    assert t.anomaly().evidence["columns"] == columns


def test_a_stale_read_is_found_by_key_too() -> None:
    t = seeded()
    t.did("a", "delete", ids=[1])
    t.read("r", row(1, "s"), id=1)
    assert "returned (id 1, val s, cnt 0, log s)" in t.anomaly().explanation
    assert (
        "the state is then no row, in an order that ends with insert of ids 1, 2 (s), delete of id 1 (a)."
        in t.anomaly().explanation
    )


def test_what_failed_is_not_there() -> None:
    t = seeded()
    t.invoke("a", "insert", ids=[3])
    t.fail("a")
    t.read("r", row(1, "s"), row(2, "s"), row(3, "a"))
    assert t.anomaly().keys == (3,)


def test_a_value_that_comes_back_is_found_without_any_commit_order() -> None:
    t = race(seeded(), ("update-register", {"ids": [1]}), ("update-register", {"ids": [1]}))
    for n, val in enumerate(["a", "b", "a"]):
        t.read(f"r{n}", row(1, val, log="s"), row(2, "s"))
    assert t.anomaly().ops[0] == "r1"


def test_a_predicate_takes_the_rows_that_it_selects() -> None:
    t = seeded()
    t.did("a", "update-counter", ids=[1])
    t.did("b", "update-append-where", part=1, parity=1)
    t.did("c", "delete-where", part=2, parity=0)
    t.read("r", row(1, "s", 1, "s,b"))
    assert t.verdict().valid is True
    t.read("q", row(1, "s", 1, "s,b"), row(2, "s"))
    assert t.anomaly().keys == (2,)


# --- what must not be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
def test_what_ran_at_the_same_time_is_in_any_order(order: list[str]) -> None:
    t = race(seeded(), ("update-append", {"ids": [1]}), ("update-append", {"ids": [1]}))
    t.read("r", row(1, "s", 0, ",".join(["s", *order])), row(2, "s"))
    assert t.verdict().valid is True


@pytest.mark.parametrize("seen", [[], [1], [1, 1]])
def test_what_is_unknown_takes_effect_late_or_never(seen: list[int]) -> None:
    t = seeded()
    t.invoke("a", "delete", ids=[1])
    t.info("a")
    t.read("r", row(1, "s"), row(2, "s"))
    for n in seen:
        t.read(f"q{n}{len(t.events)}", row(1, "s"), row(2, "s"))
    t.read("z", row(2, "s"))
    assert t.verdict().valid is True
    t.read("back", row(1, "s"), row(2, "s"))
    assert t.anomaly().ops[0] == "back"


def test_reads_of_older_snapshots_promise_no_time() -> None:
    t = seeded()
    t.did("a", "delete", ids=[1])
    t.invoke("r", "read-snapshot", back=1)
    t.ok("r", {"snapshot": 7, "rows": [list(row(1, "s")), list(row(2, "s"))]})
    v = t.verdict()
    assert v.valid is True and v.stats["tables"]["t"]["reads_left_out"] == 1


# --- levels -----------------------------------------------------------------------------------------------------------


def test_two_upserts_of_a_missing_key_may_both_insert_only_under_snapshot_isolation() -> None:
    for level, valid in (("serializable", False), ("snapshot", True)):
        t = race(Told(level), ("merge-upsert", {"ids": [1]}), ("merge-upsert", {"ids": [1]}))  # type: ignore[arg-type]
        t.read("r", row(1, "a"), row(1, "b"))
        assert t.verdict().valid is valid


def test_a_scan_is_not_older_than_its_statement() -> None:
    t = seeded("snapshot")
    t.did("a", "update-counter", ids=[1])
    t.did("b", "update-append-where", part=1, parity=0)  # at any scan since its invocation, cnt is 1
    t.read("r", row(1, "s", 1, "s,b"), row(2, "s"))
    assert t.anomaly().keys == (1,)


def test_an_appends_base_may_be_old_under_snapshot_isolation_and_its_rows_may_not_be_gone() -> None:
    t = race(seeded("snapshot"), ("update-counter", {"ids": [1]}), ("update-append-where", {"part": 1, "parity": 1}))
    t.read("r", row(1, "s", 1), row(2, "s"))
    assert t.verdict().valid is True  # it scanned when nothing matched
    t = race(seeded("snapshot"), ("delete", {"ids": [1]}), ("update-append", {"ids": [1]}))
    t.read("r", row(1, "s", 0, "s,b"), row(2, "s"))
    assert t.anomaly().evidence["columns"] == ["existence"]


@pytest.mark.parametrize(
    ("level", "spec", "documented"),
    [
        ("snapshot", {"format_version": 2}, True),
        ("snapshot", {"format_version": 3}, False),
        ("snapshot", {"format_version": 2, "mode": "copy-on-write"}, False),
        ("serializable", {"format_version": 2}, False),
    ],
)
def test_the_undelete_is_an_anomaly_and_documented_where_iceberg_says_so(
    level: Level, spec: dict[str, Any], documented: bool
) -> None:
    t = seeded(level, **spec)
    t.invoke("d", "delete", ids=[1])
    t.invoke("u", "update-append", ids=[1])
    t.ok("u")
    t.read("r1", row(1, "s", 0, "s,u"), row(2, "s"))
    t.ok("d")
    t.read("r2", row(1, "s", 0, "s,u"), row(2, "s"))
    a = t.anomaly()
    assert (a.documented is not None) is documented
    assert ("Iceberg documents that a DELETE can miss a row" in a.explanation) is documented


def test_two_deletes_may_take_the_same_row() -> None:
    t = race(seeded("snapshot"), ("delete", {"ids": [1]}), ("delete-where", {"part": 1, "parity": 0}))
    t.read("r", row(2, "s"))
    assert t.verdict().valid is True


def test_blind_appends_are_documented_on_a_serializable_table() -> None:
    t = race(Told(), ("merge-insert", {"ids": [1]}), ("merge-insert", {"ids": [1]}))
    t.read("r", row(1, "a"), row(1, "b"))
    a = t.anomaly()
    assert a.documented is not None and a.documented.endswith("/12653")


def test_what_a_workload_expects_may_be_seen_by_clients() -> None:
    """An expected anomaly is seen by the black box, too; what it sees of other rows is a surprise."""

    class Says(Checker):
        name = "replay"

        def check(self, evidence: Evidence) -> Verdict:
            return Verdict("replay", False, (Anomaly("undelete", "replay", "t", "it is back", keys=(1,)),))

    t = seeded()
    t.did("d", "delete", ids=[1])
    t.read("r", row(1, "s"), row(2, "s"))
    evidence = Evidence(History({"format": 1}, tuple(t.events)), {}, {"t": t.spec})
    assert check(evidence, [Says(), Linearizable()], Promises(entries_of("undelete"))).valid is True
    t.read("q", row(1, "s"))
    evidence = replace(evidence, history=History({"format": 1}, tuple(t.events)))
    assert check(evidence, [Says(), Linearizable()], Promises(entries_of("undelete"))).valid is False


# --- what cannot be judged --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "value", "result"),
    [
        ("compare-and-hope", {"ids": [1]}, None),
        ("update-counter", {"id": 1}, None),
        ("delete", None, None),
        ("read", {}, "rows"),
        ("read", {}, [[1, 2]]),
        ("read-key", {"id": 1}, [[2, "s", 0, "s", 2]]),
        ("read-key", {}, []),
    ],
)
def test_what_is_not_understood_is_unknown(f: str, value: Any, result: Any) -> None:
    t = seeded()
    t.process["x"] = 99, f
    t._event("invoke", "x", value)
    t.ok("x", result)
    v = t.verdict()
    assert v.valid == "unknown" and "(x)" in v.notes[0]


def test_a_table_that_the_plan_does_not_describe_is_unknown() -> None:
    t = seeded()
    evidence = Evidence(History({"format": 1}, tuple(t.events)), {}, {})
    v = Linearizable().check(evidence)
    assert v.valid == "unknown" and v.notes[0].startswith("t: the plan does not describe this table")


def test_beyond_its_limits_an_id_is_unknown() -> None:
    t = seeded()
    for n in range(12):
        t.invoke(f"u{n}", "update-append", ids=[1])
        t.info(f"u{n}")
    t.read("r", row(1, "s", 0, "s," + ",".join(f"u{n}" for n in (*range(11), 10))), row(2, "s"))
    v = t.verdict(limits=Limits(steps=1000))
    assert v.valid == "unknown" and v.stats["tables"]["t"]["undecided"] == [1]
    assert "the search was given up" in v.notes[0]


def test_a_statement_on_many_ids_is_one_call_on_each_with_that_id_alone() -> None:
    t, ids = Told(partitions=4), [*range(1_000)]
    t.did("s", "insert", ids=ids)
    t.did("o", "overwrite-partitions", ids=[3, 7])
    history = History({"format": 1}, tuple(t.events))
    parts = [*SeenRows.of(t.spec, history.operations()).parts()]
    inserted = [(p.ids, c.value.value["ids"]) for p in parts for c in p.calls if c.op == "s"]
    assert inserted == [({i}, [i]) for i in ids]
    # What replaces partitions names these by its ids, so it keeps them where it replaces rows of others.
    assert [c.value.value["ids"] for p in parts for c in p.calls if c.op == "o"] == [[3, 7]] * 250


def test_beyond_the_anomalies_that_are_reported_no_id_is_judged() -> None:
    t = Told()
    t.did("s", "insert", ids=[*range(300)])
    t.read("r")
    v = t.verdict()
    assert len(v.anomalies) == MOST_OF_A_TABLE == v.stats["tables"]["t"]["ids"]
    assert v.notes == ("t: not all ids were judged: 100 anomalies are reported, at most",)


def test_rows_are_sorted_and_of_a_form() -> None:
    assert rows_of([[2, "a", 0, "a", 2], [1, "a", 0, "a", 1]]) == (row(1, "a"), row(2, "a"))
    assert rows_of([["x", "a", 0, "a", 2]]) is None and rows_of([[1, [], 0, "a", 1]]) is None


def test_a_corrupted_row_is_found() -> None:
    t = seeded()
    t.read("r", Row(1, None, "x", 3, None), row(1, "s"), row(2, "s"))  # type: ignore[arg-type]
    assert t.anomaly().keys == (1,)


# --- an oracle --------------------------------------------------------------------------------------------------------

Step = tuple[Event, Event | None]


def steps_of(told: Told) -> list[Step]:
    """Invocation and answer (None when there is none) of what did not fail."""
    ends = {e.op: e for e in told.events if e.type != "invoke"}
    return [
        (e, end if end.type == "ok" else None)
        for e in told.events
        if e.type == "invoke" and (end := ends[e.op]).type != "fail" and (end.type == "ok" or e.f != "read")
    ]


def explained(told: Told, levels: Mapping[str, str] | None = None) -> bool:
    """Whether some order of scans and commits of the whole table explains every answer, as its level has it; by trying them all.

    ``levels``: operation → its own level; the others have the table's.
    """
    steps = steps_of(told)
    spec = told.spec
    loose = [(levels or {}).get(str(e.op), spec.isolation) == "snapshot" for e, _ in steps]

    def means(n: int, state: State) -> WriteSet:
        invoked = steps[n][0]
        return KINDS[invoked.f].writeset(state, invoked.value, str(invoked.op), spec)

    def go(state: State, left: frozenset[int], scanned: dict[int, WriteSet]) -> bool:
        bound = min((e.index for n in left if (e := steps[n][1]) is not None), default=None)
        if bound is None:
            return True
        for n in left:
            invoked, answer = steps[n]
            if invoked.index > bound:
                continue
            if not KINDS[invoked.f].changes_rows:
                if state.rows() == sorted(Row(*r) for r in answer.value) and go(state, left - {n}, scanned):  # type: ignore[union-attr]
                    return True
                continue
            if loose[n] and n not in scanned:
                if go(state, left, {**scanned, n: means(n, state)}):
                    return True
                continue
            what = scanned[n] if loose[n] else means(n, state)
            after = state.copy()
            try:
                after.apply(what.removed, what.added)
            except KeyError:
                continue
            rest = {k: v for k, v in scanned.items() if k != n}
            if not what.added:  # a DELETE that scanned a row that was deleted has less to remove
                rest = {
                    k: WriteSet([r for r in v.removed if r not in what.removed], v.added)
                    if steps[k][0].f in ("delete", "delete-where")
                    else v
                    for k, v in rest.items()
                }
            if go(after, left - {n}, rest):
                return True
        return False

    return go(State(), frozenset(range(len(steps))), {})


SMALL = (
    "insert",
    "update-counter",
    "update-append",
    "delete",
    "merge-upsert",
    "merge-update",
    "merge-delete",
    "delete-where",
    "read",
)


def small(level: Level, seed: int, older: float = 0.0, kinds: tuple[str, ...] = SMALL, first: str = "insert") -> Told:
    """Up to six operations on one id, made by one order of commits; then one answer may be changed.

    ``older``: share of the writes that commit what they meant when they were invoked, if the rows are still there.
    """
    rng = Random(f"small/{level}/{seed}")
    t = Told(level, partitions=1)
    state, running, todo = State(), dict[str, list[Any]](), rng.randint(2, 6)
    answers: list[tuple[int, list[Row]]] = []
    before: dict[str, State] = {}
    n = 0
    while n < todo or running:
        if n < todo and len(running) < 3 and (not running or rng.random() < 0.5):
            f = first if n == 0 else rng.choice(kinds) if rng.random() < 0.7 else "read"
            value: dict[str, Any] = (
                {} if f == "read" else {"part": 0, "parity": 0} if f == "delete-where" else {"ids": [4]}
            )
            op = f"o{n}"
            t.invoke(op, f, **value)
            running[op] = [KINDS[f], value, None, False]
            before[op] = state.copy()
            n += 1
            continue
        op = rng.choice(sorted(running))
        kind, value, result, done = running[op]
        if not done:
            running[op][3] = True
            if kind.writes:
                scanned = before[op] if older and rng.random() < older else state
                try:
                    state.apply(*kind.writeset(scanned, value, op, t.spec))
                except KeyError:
                    state.apply(*kind.writeset(state, value, op, t.spec))
            else:
                running[op][2] = state.rows()
            continue
        del running[op]
        if kind.writes and rng.random() < 0.2:
            t.info(op)
        else:
            if not kind.writes:
                answers.append((len(t.events), result))
            t.ok(op, None if kind.writes else [list(r) for r in result])
    if answers and rng.random() < 0.6:
        at, rows = rng.choice(answers)
        seen = [r for _, other in answers for r in other]
        changed = rng.choice(
            [rows[1:], [*rows, *rows[:1]], [r._replace(cnt=max(0, r.cnt + rng.choice([-1, 1]))) for r in rows]]
        )
        if seen and rng.random() < 0.5:
            changed = [rng.choice(seen)]
        t.events[at] = replace(t.events[at], value=[list(r) for r in changed])
    return t


@pytest.mark.slow
@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_small_histories_of_one_id_are_judged_as_the_oracle_does(level: Level) -> None:
    count = {True: 0, False: 0}
    for seed in range(2500):
        t = small(level, seed)
        expected = explained(t)
        count[expected] += 1
        assert t.verdict().valid is expected, (seed, t.events)
    assert min(count.values()) > 250


# --- a simulated Iceberg -----------------------------------------------------------------------------------------------


def broken(seed: int, level: Level, defects: Defects) -> tuple[Evidence, tuple[tuple[str, str], ...]]:
    rng = Random(f"{seed}/{level}")
    run = simulate(seed, tables(rng, level), writers=4, ops=12, keys=rng.randint(1, 6), mix=ROW_BY_ROW, defects=defects)
    return run.evidence(), run.injected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defect", "least"),
    [
        ("lose", 0.4),
        ("forget", 0.8),
        ("early", 0.3),
        ("double", 0.9),
        ("false_failure", 0.8),
        ("overwrite", 0.5),
        ("drop_rows", 0.6),
        ("fractured_read", 0.7),
    ],
)
def test_what_clients_could_see_of_a_defect_is_found(defect: str, least: float) -> None:
    """And nothing is found that the checkers which know the order of commits do not find: they see more."""
    runs = found = 0
    for seed, level in product(range(12), ("serializable", "snapshot")):
        evidence, injected = broken(seed, level, Defects(**{defect: 0.3}))  # type: ignore[arg-type]
        if not injected:
            continue
        runs += 1
        if Linearizable().check(evidence).valid is False:
            found += 1
            assert check(evidence, OTHERS).valid is False, (defect, seed, level)
    assert runs >= 5 and found / runs >= least, (runs, found)


@pytest.mark.parametrize("name", recorded.names())
def test_a_real_run_is_valid_and_one_wrong_row_in_it_is_found(name: str) -> None:
    """Runs recorded on Spark: any read of theirs that returns a row too few, a row twice, or another value has no explanation."""
    evidence = recorded.load(name)
    assert Linearizable().check(evidence).valid is True
    events = evidence.history.events
    reads = [e.index for e in events if e.type == "ok" and e.f in ("read", "read-key") and e.value]
    rng = Random(name)
    for n in rng.sample(reads, 12):
        rows = [list(r) for r in events[n].value]
        k = rng.randrange(len(rows))
        id, val, cnt, log, part = rows[k]
        wrong = rng.choice(
            [
                [],
                [rows[k], rows[k]],
                [[id, "nobody", cnt, log, part]],
                [[id, val, cnt + 7, log, part]],
                [[id, val, cnt, f"{log},x", part]],
            ]
        )
        changed = replace(events[n], value=[*rows[:k], *wrong, *rows[k + 1 :]])
        told = replace(evidence.history, events=(*events[:n], changed, *events[n + 1 :]))
        verdict = Linearizable().check(replace(evidence, history=told))
        assert len(verdict.anomalies) == 1 and id in verdict.anomalies[0].keys, (n, wrong)


def test_the_verdict_is_the_same_again() -> None:
    evidence, _ = broken(3, "serializable", Defects(forget=0.3))
    first, second = Linearizable().check(evidence), Linearizable().check(evidence)
    assert first.to_json() == second.to_json() and first.valid is False


def test_no_search_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence, _ = broken(3, "serializable", Defects(forget=0.3))
    made: list[tuple[object, ...]] = []

    def searched(calls: Sequence[Call], model: TableRows, limits: Limits) -> SearchResult:
        made.append((model.ids, tuple(c.op for c in calls), model.leniency, model.guide))
        return search(calls, model, limits)

    monkeypatch.setattr(checker, "search", searched)
    found = Linearizable().check(evidence).anomalies
    assert any(a.evidence["columns"] for a in found), "columns come from what the search left"
    assert [n for _, n in Counter(made).items() if n > 1] == []


def test_ids_that_copies_join_are_judged_together_or_left_out() -> None:
    t = Told("snapshot")
    t.did("s", "insert", ids=[1, 2, 3])
    t.did("c", "insert-select", **{"from": 1, "to": 2})
    t.read("r", row(1, "s"), row(2, "s"), row(2, "c", 0, "s,c"), row(3, "s"))
    assert t.verdict().valid is True
    parts = list(SeenRows.of(t.spec, History({}, tuple(t.events)).operations()).parts())
    assert [sorted(p.ids) for p in parts] == [[1, 2], [3]]
    assert [sorted(p.ids) for p in parts[0].alone(t.spec)] == [[1]]


def drawn_with_another_client(named: str | None, engine: str | None = None) -> Drawing:
    """A row of nobody's, and a read that returns it."""
    d = Drawing()
    theirs = Row(7, "theirs", 0, "theirs", 3)
    d.invoke("a", "insert", ids=[1], engine=engine)
    d.commit("a", add=[Row(1, "a", 0, "a", 1)])
    d.ok("a")
    d.commit(named, add=[theirs])
    d.read("r", [Row(1, "a", 0, "a", 1), theirs])
    return d


def test_rows_of_a_client_that_is_no_writer_of_the_run_accuse_nobody() -> None:
    said = Linearizable().check(drawn_with_another_client(None).evidence())
    assert said.valid == "unknown" and not said.anomalies
    assert "others wrote it too, who are no writers of the run: snapshot 2" in said.notes[0]


def test_rows_whose_snapshot_names_an_operation_or_may_be_one_of_the_runs_are_judged() -> None:
    for d in (drawn_with_another_client("x"), drawn_with_another_client(None, "duckdb")):
        assert [a.name for a in Linearizable().check(d.evidence()).anomalies] == ["nonlinearizable"]


def test_what_others_did_to_an_id_explains_no_answer_on_another_id() -> None:
    d = drawn_with_another_client(None)
    d.read("s", [Row(1, "zzz", 0, "zzz", 1)], key=1)
    (a,) = Linearizable().check(d.evidence()).anomalies
    assert a.name == "nonlinearizable" and a.keys == (1,)
