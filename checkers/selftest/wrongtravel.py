"""Bugs of reads that name a snapshot, which the ``reads`` checker must find: the snapshot, and not only its rows, must be possible.

The rows are always those of the snapshot that the read names, unless they are what is wrong. Most time travels are added to the history, so
that there are places enough; reads of two tables are those of the recorded run with transfers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from checkers.evidence.history import Event, Operation
from checkers.evidence.replace import replace
from checkers.selftest import edits
from checkers.selftest.edits import values
from checkers.selftest.goodtable import GoodTable
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.sites import CommitSite
from checkers.selftest.world import GONE, Planted, World
from checkers.selftest.wrongreads import OLD, during
from workloads.operations.kinds import KINDS

CACHED = "apache/iceberg#14440: stale reads through CachingCatalog; the history is a table of it, too"
REPLICA = "two replicas behind one catalog: https://jepsen.io/consistency/models/linearizable"
BY_PLACE = "a snapshot that is looked up by its place in a list which a commit or an expiry has changed"
DOUBLE = "an id that is read with the precision of a double"

# --- time travels of the run ----------------------------------------------------------------------------------------------


def elsewhere(w: World, *, newest: bool) -> Planted | None:
    """A time travel returns the rows of another snapshot than it names."""
    for t in w.rng.sample(w.tables, len(w.tables)):
        positions = {c.snapshot_id: k for k, c in enumerate(t.main, 1)}
        for o in w.shuffled(o for o in w.operations.values() if o.table == t.name and _travelled(o)):
            asked = positions.get(o.result["snapshot"])
            if asked is None:
                continue
            others = [t.settled(o.invoked.index)] if newest else range(1, len(t.states))
            p = w.choose(p for p in others if t.states[p] != t.states[asked])
            if p is not None:
                return w.read_as(o, {**o.result, "rows": values(t.states[p].rows())})
    return None


def misses_row(w: World) -> Planted | None:
    """Time travel returns a snapshot without one of its rows."""
    o = w.choose(o for o in w.operations.values() if _travelled(o) and o.result["rows"])
    if o is None:
        return None
    rest = list(o.result["rows"])
    rest.pop(w.rng.randrange(len(rest)))
    return w.read_as(o, {**o.result, "rows": rest})


def _travelled(o: Operation) -> bool:
    return o.f == "read-snapshot" and o.type == "ok"


RECORDED: Plants = {
    "time-travel-to-another-snapshot: Time travel returns the rows of a snapshot other than the requested one.": Plant(
        lambda w: elsewhere(w, newest=False),
        seen="a snapshot id that is looked up by position in a list that expiry has shortened",
    ),
    "time-travel-that-stays: Time travel returns the newest rows.": Plant(
        lambda w: elsewhere(w, newest=True), seen="VERSION AS OF that a cached plan ignores"
    ),
    "time-travel-misses-a-row": Plant(
        misses_row, seen="expiry or orphan removal that deletes a file which an old snapshot needs"
    ),
}


# --- time travels beside them -----------------------------------------------------------------------------------------------


def answer(t: GoodTable, n: int, back: int) -> int | None:
    """What the history answered at metadata version n; these runs have no rollback, so every entry is an ancestor."""
    entries = t.log.metadata[n].raw.get("snapshot-log") or []
    return entries[-1 - min(back, len(entries) - 1)]["snapshot-id"] if entries else None


def possible(t: GoodTable, first: int, last: int, back: int) -> set[int | None]:
    """What it may answer to a client that asks between positions ``first`` and ``last``."""
    low = t.main[first - 1].metadata if first else 0
    high = t.main[last].metadata if last < len(t.main) else len(t.log.metadata)
    return {answer(t, n, back) for n in range(low, high)}


def travel(t: GoodTable, process: int, op: str, back: int, snapshot: int) -> list[Event]:
    """A time travel from invocation to answer, with the rows of its snapshot; none for a snapshot that main has not."""
    position = next((k for k, c in enumerate(t.main, 1) if c.snapshot_id == snapshot), 0)
    result = {"snapshot": snapshot, "rows": values(t.states[position].rows())}
    return edits.answered(process, "read-snapshot", t.name, {"back": back}, op, result)


@dataclass(frozen=True)
class TravelSite:
    """A moment for a time travel to a table: the index of the event before which it is, and the positions that it can have seen."""

    w: World
    t: GoodTable
    before: int
    first: int
    last: int

    def gets(self, back: int, snapshot: int) -> Planted:
        """The run in which it asks for what was current so many snapshots ago, and gets this one."""
        more = travel(self.t, edits.fresh(self.w.events), "time-travel", back, snapshot)
        return self.w.planted("time-travel", events=edits.inserted(self.w.events, self.before, more))

    def possible(self, back: int) -> set[int | None]:
        """What it may get."""
        return possible(self.t, self.first, self.last, back)


def moments(w: World) -> Iterator[TravelSite]:
    """Moments for a time travel, in random order."""
    found = [(t, e.index) for t in w.tables for e in w.events if e.table == t.name and e.type != "invoke"]
    for t, n in w.shuffled(found):
        first = t.settled(n + 1)
        if first > 1:
            yield TravelSite(w, t, n + 1, first, t.reached(n))


def to_one_of(
    positions: Callable[[int, int, int], Iterable[int]], backs: Sequence[int] = range(6)
) -> Callable[[TravelSite], Planted | None]:
    """It gets one of the positions that ``positions(first, last, back)`` names and that the history did not answer."""

    def change(s: TravelSite) -> Planted | None:
        back = s.w.rng.choice(backs)
        good = s.possible(back)
        can = (p for p in positions(s.first, s.last, back) if 0 < p <= len(s.t.main))
        snapshots = [x for p in can if (x := s.t.main[p - 1].snapshot_id) not in good]
        snapshot = None if None in good else s.w.choose(snapshots)
        return None if snapshot is None else s.gets(back, snapshot)

    return change


def expired(s: TravelSite) -> Planted | None:
    """A time travel gets a snapshot whose expiry had been acknowledged before."""
    if any(o.completed is None or o.type == "info" or o.completed.index >= s.before for o in s.t.expiries):
        return None  # one that is under way may have dropped them only later
    versions = s.t.log.metadata
    for n in range(1, len(versions)):
        dropped = [x for x in versions[n - 1].snapshots if x not in versions[n].snapshots]
        if dropped:
            back = len(versions[n].snapshots) + s.w.rng.randrange(len(dropped))
            snapshot = answer(s.t, n - 1, back)
            if snapshot is not None and snapshot in dropped and snapshot not in s.possible(back):
                return s.gets(back, snapshot)
    return None


def to_nothing(s: TravelSite) -> Planted | None:
    """A time travel names a snapshot that no table ever had."""
    back = s.w.rng.randrange(6)
    snapshot = s.w.choose(s.possible(back))
    wrong = None if snapshot is None else int(float(snapshot))
    if wrong is None or any(c.snapshot_id == wrong for x in s.w.every for c in x.log.commits):
        return None
    return s.gets(back, wrong)


def to_another(s: TravelSite) -> Planted | None:
    """A time travel names a snapshot of another table."""
    snapshot = s.w.choose(c.snapshot_id for x in s.w.every if x.name != s.t.name for c in x.main)
    return None if snapshot is None else s.gets(s.w.rng.randrange(6), snapshot)


How = Literal["read", "travel"]


def one_after_another(first: How, second: How) -> Callable[[CommitSite], Planted | None]:
    """Two reads by two processes during a write: the first sees it, the second does not."""

    def change(p: CommitSite) -> Planted | None:
        t, index, process = p.t, p.o.invoked.index + 1, edits.fresh(p.w.events)
        events: list[Event] = []
        for n, (how, k) in enumerate(((first, p.k), (second, p.k - 1))):
            if how == "read":
                events += edits.read(t.name, process + n, f"read-{n}", t.states[k])
                continue
            back = p.w.rng.randrange(min(4, k))
            snapshot = t.main[k - 1 - back].snapshot_id
            if answer(t, t.version_of(k), back) != snapshot:
                return None  # an expiry had shortened the history
            if n == 0 and snapshot in possible(t, t.settled(index), p.k - 1, back):
                return None  # as the oldest of a short history: it does not prove that the commit was seen
            if n == 1 and snapshot in possible(t, p.k, t.reached(index), back):
                return None  # the history may have answered the same later
            events += travel(t, process + n, f"read-{n}", back, snapshot)
        return p.w.planted("read-1", events=edits.inserted(p.w.events, index, events))

    return change


TRAVELS: Plants = {
    "time-travel-lacks-a-write: A time travel to the newest snapshot lacks the last acknowledged commit.": Plant(
        to_one_of(lambda first, last, back: [first - 1], [0]), OLD
    ),
    "time-travel-too-far-back: A time travel gets a snapshot older than the one that it asked for.": Plant(
        to_one_of(lambda first, last, back: range(first - back - 3, first - back))
    ),
    "time-travel-to-the-oldest: A time travel gets the table's first snapshot, though the history is longer.": Plant(
        to_one_of(lambda first, last, back: [1]), seen=BY_PLACE
    ),
    "time-travel-not-far-enough: A time travel gets a snapshot newer than the one that it asked for.": Plant(
        to_one_of(lambda first, last, back: range(last - back + 1, last + 1), range(1, 6)),
        "future-read wrong-time-travel",
        seen=BY_PLACE,
    ),
    "time-travel-to-an-expired-snapshot": Plant(expired),
    "time-travel-to-no-snapshot": Plant(to_nothing, "wrong-time-travel", seen=DOUBLE),
    "time-travel-to-another-table": Plant(
        to_another, "wrong-time-travel", seen="a cache of tables by a name that is not unique"
    ),
}

ONE_AFTER_ANOTHER: Plants = {
    "time-travel-undone-by-another": Plant(
        one_after_another("travel", "travel"),
        does="The history that one process asks has a commit that is under way, and then the history that another asks has it not.",
    ),
    "time-travel-behind-a-read: One process reads a commit that is under way, and then the history that another asks has it not.": Plant(
        one_after_another("read", "travel")
    ),
    "read-behind-a-time-travel: The history that one process asks has a commit that is under way, and then another does not read it.": Plant(
        one_after_another("travel", "read")
    ),
}


# --- reads of two tables ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BothSite:
    """An answered read of two tables, and one of the tables."""

    w: World
    o: Operation
    second: bool
    t: GoodTable

    def names(self, snapshot: int, rows: Sequence[Any] | None = None) -> Planted:
        """The run in which its result has another snapshot, and other rows, of the table."""
        result = dict(self.o.result)
        result |= {"second": snapshot} if self.second else {"first": snapshot, "again": snapshot}
        if rows is not None:
            other = [r for r in result["rows"] if r[0] != int(self.second)]
            result["rows"] = [*other, *([int(self.second), *r] for r in rows)]
        return self.w.read_as(self.o, result)


def both(w: World) -> Iterator[BothSite]:
    """Answered reads of two tables, and one of the tables, in random order."""
    by_name = {t.name: t for t in w.every}
    found = []
    for o in w.operations.values():
        if o.f == "read-both" and o.type == "ok":
            names = ((False, o.table), (True, KINDS[o.f].second(o.value)))
            found += [BothSite(w, o, second, by_name[name]) for second, name in names if name in by_name]
    yield from w.shuffled(found)


def stale(s: BothSite, *, rows: bool) -> Planted | None:
    """It names an old snapshot; ``rows``: and returns its rows."""
    first = s.t.settled(s.o.invoked.index)
    own = sorted(tuple(r[1:]) for r in s.o.result["rows"] if r[0] == int(s.second))
    old = [p for p in range(1, first) if sorted(map(tuple, s.t.states[p].rows())) != own]
    p = s.w.choose(p for p in old if not rows or s.t.states[p] not in s.t.states[first:])
    return None if p is None else s.names(s.t.main[p - 1].snapshot_id, values(s.t.states[p].rows()) if rows else None)


def both_nothing(s: BothSite) -> Planted | None:
    """A read of two tables names a snapshot that a table never had, or that the other one has."""
    own, other = ("second", "first") if s.second else ("first", "second")
    wrong = s.w.choose([s.o.result[other], int(float(s.o.result[own]))])
    return s.names(wrong) if wrong is not None and all(c.snapshot_id != wrong for c in s.t.log.commits) else None


def goes_back(s: BothSite) -> Planted | None:
    """A read of two tables finds its first table at an older snapshot the second time."""
    position = next((k for k, c in enumerate(s.t.main, 1) if c.snapshot_id == s.o.result["first"]), 0)
    if s.second or position <= 1:
        return None
    return s.w.read_as(s.o, {**s.o.result, "again": s.t.main[s.w.rng.randrange(position - 1)].snapshot_id})


def of_a_third(s: BothSite) -> Planted:
    """A read of two tables returns a row of neither of them."""
    rows = [*s.o.result["rows"], [7, 999, "w9-9", 1, "w9-9", 3]]
    seen = s.w.read_as(s.o, {**s.o.result, "rows": rows})
    return replace(seen, culprit=None, nobody=GONE)


BOTH: Plants = {
    "read-of-both-with-stale-ids: A read of two tables names an old snapshot of one of them, and returns newer rows.": Plant(
        lambda s: stale(s, rows=False), seen="ids from one replica, rows from another"
    ),
    "stale-read-of-both: A read of two tables finds an old snapshot of one of them current, and returns its rows.": Plant(
        lambda s: stale(s, rows=True), OLD, seen=CACHED
    ),
    "read-of-both-of-no-snapshot": Plant(both_nothing, seen=DOUBLE),
    "read-of-both-goes-back": Plant(goes_back, OLD, seen=REPLICA),
    "read-of-both-of-a-third-table": Plant(of_a_third, "", seen="a union whose sides are numbered wrongly"),
}


PLANTS = (
    *table(RECORDED, "reads", names="wrong-time-travel", where=whole, neutral=True),
    *table(TRAVELS, "reads", names=f"{OLD} wrong-time-travel", where=moments, seen=CACHED),
    *table(ONE_AFTER_ANOTHER, "reads", names="stale-read", where=during, seen=REPLICA),
    *table(BOTH, "reads", names="wrong-time-travel", where=both, neutral=True),
)
