"""Bugs that the ``reads`` checker must find: reads that equal no state of the table, or one that was no longer or not yet possible.

Only the results of reads change; the tables are good. Reads that need a special moment (two in a row while a write is under way) are
added to the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from checkers.evidence.history import Operation
from checkers.selftest import edits
from checkers.selftest.edits import values
from checkers.selftest.goodtable import GoodTable, acked, rows
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.sites import CommitSite, commits, minus, statements
from checkers.selftest.world import Planted, World
from checkers.selftest.wrongrows import long_lists, reversed_list
from workloads.operations.kinds import KINDS
from workloads.tables import Row

OLD = "stale-read read-your-writes non-monotonic-read"
"""Names of a read that is too old."""


@dataclass(frozen=True)
class ReadSite:
    """A completed read of a table or of a key."""

    w: World
    t: GoodTable
    o: Operation

    @property
    def got(self) -> list[Row]:
        """What it returned."""
        return [Row._make(r) for r in self.o.result]

    @cached_property
    def window(self) -> range:
        """The positions that it can have seen."""
        assert self.o.completed is not None
        return range(self.t.settled(self.o.invoked.index), self.t.reached(self.o.completed.index) + 1)

    @property
    def seen(self) -> int:
        """The lowest position whose state it returned."""
        return self.t.seen_by(self.o) or 0

    def expected(self, p: int) -> list[Row]:
        """Its result at a position."""
        return KINDS[self.o.f].expected(self.t.states[p], self.o.value) or []

    def of_its_key(self, r: Row) -> bool:
        """Whether it reads the row's key."""
        return bool(self.o.value.get("id", r.id) == r.id)

    def returns(self, found: Iterable[Row], *others: str) -> Planted:
        """The run in which it returned these rows."""
        return self.w.read_as(self.o, values(found), *others)

    def no_state(self, found: list[Row]) -> Planted | None:
        """The run in which it returned these rows, if they equal no state at all."""
        want = sorted(found)
        impossible = all(self.expected(p) != want for p in range(len(self.t.states)))
        return self.returns(found) if impossible else None


def reads(*kinds: str) -> Callable[[World], Iterator[ReadSite]]:
    """Completed reads, of these kinds if any are named, in random order."""

    def where(w: World) -> Iterator[ReadSite]:
        found = w.shuffled((t, o) for t in w.tables for o in t.reads if not kinds or o.f in kinds)
        return (ReadSite(w, t, o) for t, o in found)

    return where


# --- states that are too old, or too new --------------------------------------------------------------------------------


def stale(r: ReadSite) -> Planted | None:
    """A read returns a state older than a write acknowledged before it was invoked."""
    can = [r.expected(p) for p in range(r.window.start, len(r.t.states))]
    old = r.w.choose(p for p in range(r.window.start) if r.expected(p) not in can)
    return None if old is None else r.returns(r.expected(old))


def stale_by_one(r: ReadSite) -> Planted | None:
    """A read misses only the last write acknowledged before it."""
    first = r.window.start
    if not first or any(r.expected(p) == r.expected(first - 1) for p in range(first, len(r.t.states))):
        return None
    return r.returns(r.expected(first - 1))


def future(r: ReadSite) -> Planted | None:
    """A read returns the effects of an operation that is invoked after the read ended."""
    can = [r.expected(p) for p in range(r.window.stop)]
    late = r.w.choose(p for p in range(r.window.stop, len(r.t.states)) if r.expected(p) not in can)
    return None if late is None else r.returns(r.expected(late))


def is_alone(p: CommitSite) -> bool:
    """Whether the states before and after a write may be read just after its invocation, and no other.

    Neither state recurs later, and only this write is under way between the two.
    """
    index, t = p.o.invoked.index + 1, p.t
    return t.settled(index) <= p.k - 1 and t.reached(index - 1) >= p.k and t.states[p.k - 1] not in t.states[p.k :]


during = commits(statements, is_alone)
"""Writes during which the state before and the state after may be read."""


def seen_and_unseen(processes: int) -> Callable[[CommitSite], Planted]:
    """A read sees a commit that is under way, and the next one does not, by one process or by two."""

    def change(p: CommitSite) -> Planted:
        process = edits.fresh(p.w.events)
        a = edits.read(p.t.name, process, "read-a", p.t.states[p.k])
        b = edits.read(p.t.name, process + processes - 1, "read-b", p.t.states[p.k - 1])
        return p.w.planted("read-b", events=edits.inserted(p.w.events, p.o.invoked.index + 1, [*a, *b]))

    return change


def own_write(p: CommitSite) -> Planted | None:
    """A process does not see its own acknowledged write."""
    end, before = acked(p.o), p.t.states[p.k - 1]
    if end is None or before in p.t.states[p.k :] or not isinstance(p.o.process, int):
        return None
    read = edits.read(p.t.name, p.o.process, "read-a", before)
    return p.w.planted("read-a", p.o.op, events=edits.inserted(p.w.events, end + 1, read))


def final_misses(w: World) -> Planted | None:
    """The last read of a table lacks only the rows of one acknowledged write."""
    for t in w.tables:
        every = [ReadSite(w, t, o) for o in t.reads if o.f == "read"]
        for r in every[-1:]:
            k = w.choose(k for k in t.writes if any(x.val == t.op(k).op for x in r.got))
            found = [x for x in r.got if k is None or x.val != t.op(k).op]
            if k is not None and all(r.expected(p) != sorted(found) for p in r.window):
                return r.returns(found)
    return None


STALE: Plants = {
    "stale-read": Plant(stale),
    "stale-read-of-the-last-write": Plant(stale_by_one),
    "non-monotonic-read: A process reads a commit that is under way, and then no longer sees it.": Plant(
        seen_and_unseen(1),
        "non-monotonic-read",
        where=during,
        seen="apache/iceberg#17338: a stale table is cached again after a newer one",
    ),
    "read-undone-by-another-read: One process reads a commit that is under way, and then another does not see it.": Plant(
        seen_and_unseen(2),
        "stale-read",
        where=during,
        seen="two replicas behind one catalog: https://jepsen.io/consistency/models/linearizable",
    ),
    "read-your-writes": Plant(
        own_write,
        "read-your-writes",
        where=commits(statements),
        seen="apache/iceberg#10493: after its own commit a session reads the table from its cache",
    ),
    "final-read-misses-a-write": Plant(
        final_misses,
        f"{OLD} fractured-read",
        where=whole,
        seen="Jepsen's set-full: an element that was acknowledged and is not in the last read",
    ),
    "future-read": Plant(
        future, "future-read", seen="a clock, or a history whose events are misplaced: Elle's future-read"
    ),
}


# --- no state at all ------------------------------------------------------------------------------------------------------


def of_failed(*, replaced: bool) -> Callable[[ReadSite], Planted | None]:
    """A read sees what an operation wrote that failed; ``replaced``: and not the rows that it was to replace."""

    def change(r: ReadSite) -> Planted | None:
        assert r.o.completed is not None
        failed = [
            x
            for x in r.w.operations.values()
            if (x.table, x.type) == (r.t.name, "fail")
            and x.op not in r.t.position
            and KINDS[x.f].changes_rows
            and x.invoked.index < r.o.completed.index
        ]
        for x in r.w.shuffled(failed):
            removed, added = r.t.meaning(x, r.seen)
            own = [row for row in added if r.of_its_key(row)]
            if any(x.op in (row.val, *row.log.split(",")) for row in own):
                rest = [row for row in r.got if not replaced or row not in removed]
                return r.returns([*rest, *own], x.op)
        return None

    return change


def intermediate(r: ReadSite) -> Planted | None:
    """A read sees one half of a commit: its removals without its additions, or the reverse."""
    k = r.w.choose(k for k in r.t.writes if k <= r.seen and len(r.t.main[k - 1].added or ()) > 1)
    if k is None:
        return None
    own = rows(r.t.main[k - 1].added)
    left_out = r.w.rng.choice(own)
    half = [x for x in r.t.states[k] if x != left_out]
    return r.no_state(half) if any(x in half for x in own) else None


def fractured(r: ReadSite) -> Planted | None:
    """A read has some rows of one snapshot and some of another."""
    now = r.t.states[r.seen]
    for q in r.w.rng.sample(range(r.seen), min(r.seen, 8)):
        parity = r.w.rng.randrange(2)
        mixed = [x for x in now if x.id % 2 == parity] + [x for x in r.t.states[q] if x.id % 2 != parity]
        if (bug := r.no_state(mixed)) is not None:
            return bug
    return None


def misses_row(r: ReadSite) -> Planted | None:
    """A read lacks a row that was there all the time."""
    row = r.w.choose(r.got)
    return None if row is None else r.no_state([x for x in r.got if x != row])


def doubles_row(r: ReadSite) -> Planted | None:
    """A read returns a row twice that exists once."""
    row = r.w.choose(r.got)
    return None if row is None else r.no_state([*r.got, row])


def deleted_row(r: ReadSite) -> Planted | None:
    """A read returns a row together with its newer version, or a deleted one, as when a delete file is not applied."""
    written = sorted({row for c in r.t.main for row in rows(c.added)})
    earlier = r.t.states[: r.window.start]
    dead = [x for x in written if x not in r.got and r.of_its_key(x) and any(x in s.by_id(x.id) for s in earlier)]
    return r.w.choose(bug for x in dead if (bug := r.no_state([*r.got, x])) is not None)


def another_key(r: ReadSite) -> Planted | None:
    """A read of one key returns the rows of another."""
    row = r.w.choose(x for x in r.t.states[r.seen] if x.id != r.o.value["id"])
    return None if row is None else r.returns([row])


def one_row(change: Callable[[Row], Row]) -> Callable[[ReadSite], Planted | None]:
    """A read returns one of its rows with another value."""

    def changed(r: ReadSite) -> Planted | None:
        row = r.w.choose(r.got)
        return None if row is None else r.returns([*minus(r.got, row), change(row)])

    return changed


def torn_list(r: ReadSite) -> Planted | None:
    """A read returns a list in an order that it never had."""
    row = r.w.choose(long_lists(r.got))
    return None if row is None else r.returns([*minus(r.got, row), reversed_list(row)])


def vanished(p: CommitSite) -> Planted | None:
    """A read returns a commit of unknown outcome, and later main goes back below it."""
    t, o = p.t, p.o
    if o.completed is None or t.states[p.k] in t.states[: p.k] or any(c.added or c.removed for c in t.main[p.k :]):
        return None
    read = edits.read(t.name, edits.fresh(p.w.events) + 1, "read-a", t.states[p.k])
    # Reads after the commit see what remains once main has gone back.
    later = (ReadSite(p.w, t, x) for x in t.reads)
    before = {r.o.op: values(r.expected(p.k - 1)) for r in later if r.seen >= p.k}
    events = edits.returned(edits.completed(p.w.events, o.op, "info", [edits.NO_ANSWER]), before)
    log = t.set_back(len(t.versions) - 1, p.k - 1)
    return p.w.planted("read-a", log=log, events=edits.inserted(events, o.completed.index, read))


NO_STATE: Plants = {
    "dirty-read: A read sees the effect of an operation that failed.": Plant(
        of_failed(replaced=True), "dirty-read", seen="Adya's G1a: https://jepsen.io/consistency/phenomena/g1a"
    ),
    "dirty-read-beside: A read sees the rows that a failed operation wrote, and also the ones that it was to replace.": Plant(
        of_failed(replaced=False), "dirty-read", seen="files of an aborted commit that are listed instead of planned"
    ),
    "intermediate-read": Plant(
        intermediate, where=reads("read"), seen="Adya's G1b: https://jepsen.io/consistency/phenomena/g1b"
    ),
    "fractured-read": Plant(
        fractured, where=reads("read"), seen="read skew, Adya's A5A: https://jepsen.io/consistency/phenomena/a5a"
    ),
    "read-misses-a-row": Plant(misses_row, seen="apache/iceberg#9230 and every file that planning leaves out"),
    "read-doubles-a-row": Plant(doubles_row, seen="redpanda#4591: a file that is planned twice"),
    "read-of-a-deleted-row": Plant(
        deleted_row, seen="apache/iceberg#16146: position deletes that a reader does not apply"
    ),
    "read-of-another-key": Plant(
        another_key,
        "fractured-read phantom-value",
        where=reads("read-key"),
        seen="a filter that is pushed down and not applied: column statistics of another file",
    ),
    "phantom-value: A read returns a register's value that nobody ever wrote.": Plant(
        one_row(lambda x: x._replace(val="nobody-7")), "phantom-value"
    ),
    "phantom-count: A read returns a counter value that was never reached.": Plant(
        one_row(lambda x: x._replace(cnt=x.cnt + 1000)), "phantom-value fractured-read dirty-read"
    ),
    "phantom-element: A read returns a list with an element that nobody appended.": Plant(
        one_row(lambda x: x._replace(log=f"{x.log},nobody-7")), "phantom-value"
    ),
    "phantom-key: A read returns a row of a key that nobody wrote.": Plant(
        one_row(lambda x: x._replace(id=x.id + 10_000)), "phantom-value fractured-read"
    ),
    # If an increment of the row has failed, that may explain the strange row as well: ``dirty-read``.
    "torn-list": Plant(
        torn_list, "phantom-value dirty-read", seen="Elle's incompatible-order: https://github.com/jepsen-io/elle"
    ),
    "vanished-read": Plant(
        vanished,
        "vanished-read",
        where=commits(lambda t: list(statements(t))[-1:]),
        seen="as main-moved-back, where the lost commit's outcome was unknown and somebody had read it",
    ),
}


PLANTS = (
    *table(
        STALE,
        "reads",
        names=OLD,
        where=reads(),
        seen="apache/iceberg#14440: 841 stale reads in 300 s through CachingCatalog",
        neutral=True,
    ),
    *table(
        NO_STATE,
        "reads",
        names="fractured-read",
        where=reads(),
        seen="thin-air reads: https://jepsen.io/consistency/phenomena; reused buffers",
        neutral=True,
    ),
)
