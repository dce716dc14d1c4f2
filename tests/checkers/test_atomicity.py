"""The atomicity checker: transfers drawn by hand, and every small history against brute force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.atomicity import Atomicity
from checkers.columns import check_columns
from checkers.commits import Commits
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import History
from checkers.evidence.replace import replace
from checkers.isolation import Isolation
from checkers.judge.check import ALL, check
from checkers.linearizable import Linearizable
from checkers.liveness import Liveness
from checkers.reads.checker import Reads
from checkers.replay.walk import Replay
from checkers.retries import Retries
from checkers.timeline import two_tables
from checkers.timeline.timelines import fates, timelines
from tests.support.drawing import Drawing, names, row, verdict
from workloads.tables import Row

OTHERS = (Commits(), Replay(), Reads(), Isolation(), Linearizable(), Liveness(), Retries())


class Two:
    """Two tables, t and u, that begin with the rows 0, 1, 2; one history."""

    def __init__(self, ids: Sequence[int] = (0, 1, 2)) -> None:
        self.of = {"t": Drawing(), "u": Drawing()}
        self.t, self.u = self.of.values()
        self.u.events, self.u._processes = self.t.events, self.t._processes
        self.rows: dict[str, dict[int | None, list[Row]]] = {"t": {None: []}, "u": {None: []}}
        for name in self.of:
            self.insert(name, f"seed-{name}", ids)

    def insert(self, table: str, op: str, ids: Sequence[int]) -> None:
        """An acknowledged insert."""
        d = self.of[table]
        added = [row(i, op) for i in ids]
        d.invoke(op, "insert", table=table, ids=list(ids))
        self.rows[table][len(d.commits) + 1] = [*self.rows[table][d.main], *added]
        d.commit(op, added)
        d.ok(op)

    def transfer(self, op: str, source: str = "t", amount: int = 5, id: int = 0, process: int | None = None) -> None:
        """Its invocation."""
        into = "u" if source == "t" else "t"
        self.of[source].invoke(op, "transfer", process, source, ids=[id], into=into, amount=amount)

    def moves(self, table: str, op: str, *, visible: bool = True, **more: Any) -> int:
        """Its part in one table; its snapshot."""
        d = self.of[table]
        value = next(e.value for e in d.events if e.op == op)
        change = value["amount"] if table == value["into"] else -value["amount"]
        before = self.rows[table][d.main]
        old = [r for r in before if r.id in value["ids"]]
        new = [r._replace(cnt=r.cnt + change, log=f"{r.log},{op}") for r in old]
        self.rows[table][len(d.commits) + 1] = [*(r for r in before if r not in old), *new]
        return d.commit(op, new, old, visible=visible, **more)

    def did(self, op: str, source: str = "t", **more: Any) -> None:
        """A whole transfer with nothing in between."""
        self.transfer(op, source, **more)
        self.moves("t", op)
        self.moves("u", op)
        self.t.ok(op, [["one transaction"]])

    def reader(self, op: str, own: str = "t", process: int | None = None) -> None:
        """A read of both begins."""
        self.of[own].invoke(op, "read-both", process, own, **{"and": "u" if own == "t" else "t"})

    def saw(self, op: str, first: int | None, second: int | None, again: int | None) -> None:
        """And ends, with what the tables had at these snapshots."""
        own = next(e.table for e in self.t.events if e.op == op)
        other = "u" if own == "t" else "t"
        assert own is not None
        rows = [[0, *r] for r in self.rows[own][first]] + [[1, *r] for r in self.rows[other][second]]
        self.t.ok(op, {"first": first, "second": second, "again": again, "rows": rows})

    def read(self, op: str, own: str = "t") -> None:
        """A read of both with nothing in between."""
        self.reader(op, own)
        here, there = self.of[own].main, self.of["u" if own == "t" else "t"].main
        self.saw(op, here, there, here)

    def evidence(self, *, complete: bool = True, capture: bool = True) -> Evidence:
        """All that was drawn."""
        each = {name: d.evidence(complete=complete, capture=capture) for name, d in self.of.items()}
        logs = {name: replace(e.logs["t"], table=name, location=f"s3://w/{name}") for name, e in each.items()}
        specs = {name: e.tables["t"].model_copy(update={"name": name}) for name, e in each.items()}
        return Evidence(History({"format": 1, "writers": 4}, tuple(self.t.events)), logs, specs, complete)


def test_whole_transfers_are_right_for_every_checker() -> None:
    d = Two()
    d.read("before")
    d.did("a")
    d.read("between")
    d.did("b", "u", id=1, amount=2)
    d.read("after", "u")
    e = d.evidence()
    said = verdict(Atomicity(), e)
    assert said.valid is True and not said.notes
    assert said.stats["transfers"] == {"both": 2}
    assert said.stats["committed"] == {"one transaction": 2}
    assert said.stats["reads"] == {"judged": 3, "stable": 3, "undecided": 0, "saw_half": 0}
    for checker in OTHERS:
        assert verdict(checker, e).valid is True, verdict(checker, e)
    for engine in ("exact", "columns"):
        results = check(e, OTHERS, engine=engine)  # type: ignore[arg-type]
        assert results.valid is True, results


def test_there_is_nothing_to_say_of_a_run_without_transfers() -> None:
    d = Two()
    said = verdict(Atomicity(), d.evidence())
    assert said.valid is True and not said.notes


@pytest.mark.parametrize("has", ["t", "u"])
@pytest.mark.parametrize(("outcome", "commits"), [("ok", ["lost-commit"]), ("info", []), ("fail", ["false-failure"])])
def test_half_of_a_transfer_is_one_whatever_its_writer_was_told(has: str, outcome: str, commits: list[str]) -> None:
    d = Two()
    d.transfer("x")
    d.moves(has, "x")
    getattr(d.t, outcome)("x")
    e = d.evidence()
    [a] = verdict(Atomicity(), e).anomalies
    lacks = "u" if has == "t" else "t"
    assert (a.name, a.table, a.ops, a.keys) == ("half-transaction", lacks, ("x",), (0,))
    assert a.evidence == {"has": has, "lacks": lacks, "seen_by": 0}
    assert (
        f"Main of {has} has its snapshot 2" in a.explanation and f"main of {lacks} has nothing of it" in a.explanation
    )
    assert names(Commits(), e) == commits
    assert names(Replay(), e) == names(Linearizable(), e) == []


@pytest.mark.parametrize("outcome", ["info", "fail"])
@pytest.mark.parametrize("staged", [True, False])
def test_neither_part_of_a_transfer_is_right(outcome: str, staged: bool) -> None:
    d = Two()
    d.transfer("x")
    if staged:
        d.moves("t", "x", visible=False)
        d.moves("u", "x", visible=False)
    getattr(d.t, outcome)("x")
    d.read("r")
    e = d.evidence()
    assert verdict(Atomicity(), e).stats["transfers"] == {"neither": 1}
    for checker in (Atomicity(), *OTHERS):
        assert verdict(checker, e).valid is True, verdict(checker, e)


@pytest.mark.parametrize("source", ["t", "u"])
@pytest.mark.parametrize(
    ("applied", "lost", "judged", "became"),
    [
        ("tu", "", "tu", "applied"),
        ("t", "", "tu", "half-applied"),
        ("u", "", "tu", "half-applied"),
        ("tu", "t", "tu", "half-applied"),
        ("tu", "u", "tu", "half-applied"),
        ("tu", "tu", "tu", "dropped"),
        ("t", "t", "tu", "dropped"),
        ("u", "u", "tu", "dropped"),
        ("", "", "tu", "not-applied"),
        ("tu", "", "t", "unknown"),
        ("tu", "", "u", "unknown"),
        ("", "", "t", "unknown"),
        ("", "", "u", "unknown"),
    ],
)
def test_what_became_of_a_transfer_is_told_of_both_tables_together(
    source: str, applied: str, lost: str, judged: str, became: str
) -> None:
    d = Two()
    d.transfer("x", source)
    for name in applied:
        d.moves(name, "x")
    for name in lost:
        d.of[name].set_main(1)
    d.t.info("x")
    e = d.evidence()
    e = replace(e, logs={n: log for n, log in e.logs.items() if n in judged})
    found, _ = timelines(e)
    assert Commits().check(e).stats["resolutions"] == {"x": became}
    assert check_columns(e)[0].stats["resolutions"] == {"x": became}
    each = fates(found, e.history.operations())["x"]
    assert list(each) == sorted("tu", key=lambda n: n != source)
    assert {n for n, fate in each.items() if fate == "unknown"} == {n for n in "tu" if n not in judged}


@pytest.mark.parametrize("has", ["t", "u"])
def test_an_unanswered_transfer_that_one_table_has_is_no_stuck_operation(has: str) -> None:
    d = Two()
    d.transfer("x")
    d.moves(has, "x")
    d.transfer("y")
    for n in range(3):
        d.did(f"after-{n}", id=1)
    strict = Liveness(op_timeout=0.001, slack=0.004, witnesses=2)
    stuck = [a.ops[0] for a in strict.check(d.evidence()).anomalies if a.name == "stuck-operation"]
    assert stuck == ["y"]
    assert [a.ops[0] for a in Atomicity().check(d.evidence()).anomalies] == ["x"]


def test_both_parts_of_a_transfer_of_unknown_outcome_are_right() -> None:
    d = Two()
    d.transfer("x")
    d.moves("t", "x")
    d.moves("u", "x")
    d.t.info("x")
    d.read("r")
    e = d.evidence()
    for checker in (Atomicity(), *OTHERS):
        assert verdict(checker, e).valid is True, verdict(checker, e)


def test_a_part_that_is_only_staged_is_none() -> None:
    d = Two()
    d.transfer("x")
    d.moves("t", "x")
    d.moves("u", "x", visible=False)
    d.t.ok("x", [["one transaction"]])
    [a] = verdict(Atomicity(), d.evidence()).anomalies
    assert "was staged there and never became main" in a.explanation and "committed as one transaction" in a.explanation
    assert a.snapshots == (2,)  # both tables number theirs from 1


def test_a_part_that_main_has_lost_is_a_half() -> None:
    d = Two()
    d.did("x")
    d.u.set_main(1)
    e = d.evidence()
    [a] = verdict(Atomicity(), e).anomalies
    assert a.name == "half-transaction" and "and lost it" in a.explanation
    assert names(Commits(), e) == ["lost-commit"]


def test_a_part_that_a_rollback_took_was_meant() -> None:
    d = Two()
    d.did("x")
    d.u.invoke("back", "rollback", table="u", back=1)
    d.u.set_main(1)
    d.u.ok("back", {"snapshot": 1, "rows": [[2, 1]]})
    d.read("r")
    said = verdict(Atomicity(), d.evidence())
    assert not said.anomalies
    assert said.stats["transfers"] == {"rolled_back": 1}


@pytest.mark.parametrize("own", ["t", "u"])
@pytest.mark.parametrize("early", ["t", "u"])
def test_a_reader_between_the_halves_sees_a_fractured_state(own: str, early: str) -> None:
    d = Two()
    d.transfer("x")
    d.moves(early, "x")
    d.read("r", own)
    late = "u" if early == "t" else "t"
    d.moves(late, "x")
    d.t.ok("x", [["one after the other"]])
    d.read("after", own)
    e = d.evidence()
    [a] = verdict(Atomicity(), e).anomalies
    assert (a.name, a.ops, a.keys) == ("fractured-read", ("r", "x"), (0,))
    assert a.evidence == {"has": early, "lacks": late, "transfers": 1, "stable": True}
    assert "so both were current at one moment" in a.explanation
    for checker in OTHERS:  # each table by itself is right
        assert verdict(checker, e).valid is True, verdict(checker, e)


def test_readers_of_a_half_that_stays_are_told_with_it() -> None:
    d = Two()
    d.transfer("x")
    d.moves("t", "x")
    d.t.info("x")
    for n in range(5):
        d.read(f"r{n}", "tu"[n % 2])
    said = verdict(Atomicity(), d.evidence())
    [a] = said.anomalies
    assert a.ops == ("x", "r0", "r1", "r2") and a.evidence["seen_by"] == 5
    assert "5 reads of both tables saw half of it" in a.explanation
    assert said.stats["reads"]["saw_half"] == 5


def test_an_unstable_read_is_explained_by_a_state_in_between() -> None:
    d = Two()
    d.reader("r")
    d.did("x")
    d.insert("t", "more", [3])
    d.saw("r", 1, 2, 3)
    said = verdict(Atomicity(), d.evidence())
    assert said.valid is True
    assert said.stats["reads"] == {"judged": 1, "stable": 0, "undecided": 0, "saw_half": 0}


def test_an_unstable_read_that_nothing_explains_is_fractured() -> None:
    d = Two()
    d.transfer("x")
    d.moves("u", "x")
    d.reader("r")
    d.insert("t", "more", [3])
    d.saw("r", 1, 2, 2)
    d.moves("t", "x")
    d.t.ok("x")
    [a] = verdict(Atomicity(), d.evidence()).anomalies
    assert a.name == "fractured-read" and a.evidence["stable"] is False
    assert "of the 2 snapshots that t had from the one to the other" in a.explanation


def test_two_reads_of_one_table_each_prove_nothing() -> None:
    d = Two()
    d.transfer("x")
    d.moves("t", "x")
    for name in ("t", "u"):
        d.of[name].invoke(f"r-{name}", "read", table=name)
        d.of[name].ok(f"r-{name}", [list(r) for r in d.rows[name][d.of[name].main]])
    d.moves("u", "x")
    d.t.ok("x")
    assert verdict(Atomicity(), d.evidence()).valid is True


def test_reads_around_which_main_came_back_are_not_judged() -> None:
    d = Two()
    d.transfer("x")
    d.moves("u", "x")
    d.moves("t", "x")
    d.t.ok("x")
    d.reader("r")
    d.t.set_main(1)
    d.t.set_main(2)
    d.saw("r", 1, 2, 1)
    said = verdict(Atomicity(), d.evidence())
    assert said.valid is True and said.stats["reads"]["judged"] == 0
    d.reader("s")
    d.saw("s", 2, 1, 2)
    said = verdict(Atomicity(), d.evidence())
    assert said.stats["reads"]["judged"] == 0 and "came back" in " ".join(said.notes)


def test_a_log_that_does_not_tell_is_unknown() -> None:
    d = Two()
    d.transfer("x")
    d.moves("t", "x")
    d.t.ok("x")
    d.u.capture()
    e = d.evidence(complete=False, capture=False)
    first = replace(e.logs["u"].captures[0], time=0)
    e = replace(e, logs={**e.logs, "u": replace(e.logs["u"], captures=(first,))})
    said = verdict(Atomicity(), e)
    assert said.valid == "unknown" and "does not tell" in " ".join(said.notes)


def test_a_snapshot_that_the_log_does_not_have_is_unknown() -> None:
    d = Two()
    d.reader("r")
    d.t.ok("r", {"first": 99, "second": 1, "again": 99, "rows": []})
    said = verdict(Atomicity(), d.evidence())
    assert said.valid == "unknown" and "does not have" in " ".join(said.notes)


@pytest.mark.parametrize("result", [None, [], {"first": 1}, {"first": "a", "second": 1, "again": "a", "rows": 3}])
def test_results_of_another_form_are_unknown(result: Any) -> None:
    d = Two()
    d.did("x")
    d.reader("r")
    d.t.ok("r", result)
    assert verdict(Atomicity(), d.evidence()).valid == "unknown"


def test_a_part_with_nothing_to_change_may_leave_nothing() -> None:
    d = Two()
    d.transfer("x", id=7)
    d.moves("t", "x")
    d.t.ok("x")
    said = verdict(Atomicity(), d.evidence())
    assert not said.anomalies


@pytest.mark.parametrize("value", [None, 3, {}, {"ids": [0]}, {"into": "u"}, {"into": 3, "ids": "x", "amount": None}])
def test_transfers_of_another_form_raise_nothing(value: Any) -> None:
    d = Two()
    d.transfer("x")
    d.t.events[-1] = replace(d.t.events[-1], value=value)
    d.t.info("x")
    for checker in ALL:
        verdict(checker, d.evidence())


def test_each_table_sees_its_own_part() -> None:
    d = Two()
    d.did("x")
    d.read("r", "u")
    operations = d.evidence().history.operations()
    seen = {t: {o.op: o for o in two_tables.of_table(operations, t)} for t in ("t", "u")}
    assert {t: sorted(ops) for t, ops in seen.items()} == {
        "t": ["r", "seed-t", "x"],
        "u": ["r", "seed-u", "x"],
    }
    assert [(seen[t]["x"].table, seen[t]["x"].f) for t in "tu"] == [("t", "transfer"), ("u", "transfer")]
    assert [(seen[t]["r"].table, seen[t]["r"].f) for t in "tu"] == [("t", "read"), ("u", "read")]
    assert sorted(map(tuple, seen["t"]["r"].result)) == sorted(d.rows["t"][2])
    assert sorted(map(tuple, seen["u"]["r"].result)) == sorted(d.rows["u"][2])
    assert seen["t"]["x"].indices == seen["u"]["x"].indices
    for t in "tu":
        alone = two_tables.alone(d.evidence(), t).history.operations()
        assert {o.op: (o.f, o.result) for o in alone if o.table == t} == {
            op: (o.f, o.result) for op, o in seen[t].items()
        }


def test_a_wrong_part_is_found_on_its_own_table() -> None:
    d = Two()
    d.transfer("x")
    d.moves("t", "x")
    value = next(e.value for e in d.t.events if e.op == "x")
    value["amount"] += 1  # what was asked for is not what u's commit adds
    d.moves("u", "x")
    value["amount"] -= 1
    d.t.ok("x")
    found = verdict(Replay(), d.evidence()).anomalies
    assert found and {a.table for a in found} == {"u"}
    assert names(Atomicity(), d.evidence()) == []


def test_the_trail_leads_into_both_tables() -> None:
    d = Two()
    d.did("x")
    d.u.set_main(1)
    found = check(d.evidence(), [Atomicity()])
    [a] = found.verdicts[0].anomalies
    [entry] = a.trail
    assert [(s["snapshot"], s["on_main"], [r["row"][2] for r in s["rows"]]) for s in entry["snapshots"]] == [
        (2, True, [0, -5]),
        (2, False, [0, 5]),
    ]


# --- every small history ----------------------------------------------------------------------------------------------


@dataclass
class Sim:
    """Transfers and readers whose steps are mixed; remembers what was really true at each moment."""

    rng: Random
    two: Two = field(default_factory=Two)
    now: dict[str, set[str]] = field(default_factory=lambda: {"t": set(), "u": set()})
    truths: dict[str, tuple[set[str], bool]] = field(default_factory=dict)
    """Reader → the transfers that were in one table and not in the other when it asked the second, and whether it was stable."""

    def transfer(self, op: str) -> Any:
        whole = self.rng.random() < 0.3
        order = self.rng.sample("tu", 2)[: self.rng.choice([1, 2, 2, 2, 0])]
        self.two.transfer(op, self.rng.choice("tu"), id=self.rng.randrange(3))
        yield
        for table in order:
            self.two.moves(table, op)
            self.now[table].add(op)
            if not whole:
                yield
        if len(order) == 2 and self.rng.random() < 0.7:
            self.two.t.ok(op)
        else:
            self.two.t.info(op)

    def noise(self, op: str) -> Any:
        yield
        self.two.insert(self.rng.choice("tu"), op, [3])

    def reader(self, op: str) -> Any:
        own, other = self.rng.sample("tu", 2)
        self.two.reader(op, own)
        yield
        first = self.two.of[own].main
        yield
        second = self.two.of[other].main
        apart = self.now["t"] ^ self.now["u"]
        yield
        again = self.two.of[own].main
        self.two.saw(op, first, second, again)
        self.truths[op] = apart, first == again

    def run(self) -> None:
        """Everybody, in an order that the seed says."""
        rng = self.rng
        going = [self.transfer(f"x{n}") for n in range(rng.randint(1, 4))]
        going += [self.reader(f"r{n}") for n in range(rng.randint(1, 4))]
        going += [self.noise(f"n{n}") for n in range(rng.randint(0, 2))]
        while going:
            one = rng.choice(going)
            if next(one, "ended") == "ended":
                going.remove(one)


def brute_force(evidence: Evidence, halves: set[str]) -> set[str]:
    """Readers that no snapshot of their own table between the two they saw explains, by walking every ancestry."""

    def past(table: str, snapshot: int | None) -> set[str | None]:
        by_id = {c.snapshot_id: c for c in evidence.logs[table].commits}
        out: set[str | None] = set()
        while snapshot is not None:
            out.add(by_id[snapshot].op)
            snapshot = by_id[snapshot].parent_id
        return {op for op in out if op is not None and op.startswith("x")}

    found = set()
    for o in evidence.history.operations():
        if o.f == "read-both":
            own, other = str(o.table), o.value["and"]
            between = range(o.result["first"], o.result["again"] + 1)  # main's snapshots are numbered in their order
            if all((past(own, s) ^ past(other, o.result["second"])) - halves for s in between):
                found.add(o.op)
    return found


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_said_is_what_brute_force_says_and_what_was_true(seed: int) -> None:
    sim = Sim(Random(seed))
    sim.run()
    evidence = sim.two.evidence()
    said = verdict(Atomicity(), evidence)
    halves = sim.now["t"] ^ sim.now["u"]
    assert {a.ops[0] for a in said.anomalies if a.name == "half-transaction"} == halves
    fractured = {a.ops[0] for a in said.anomalies if a.name == "fractured-read"}
    assert fractured == brute_force(evidence, halves)
    for reader, (apart, stable) in sim.truths.items():
        if reader in fractured:
            assert apart - halves, "a false alarm"
        if stable and apart - halves:
            assert reader in fractured, "missed"
    for checker in (Replay(), Reads(), Isolation(), Linearizable()):  # a table at a time there is nothing wrong
        assert verdict(checker, evidence).valid is True, verdict(checker, evidence)
