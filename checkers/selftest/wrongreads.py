"""Bugs that the ``reads`` checker must find: reads that equal no state of the table, or one that was no longer or not yet possible.

Only the results of reads change; the tables are good. Reads that need a special moment (two in a row while a write is under way) are
added to the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.selftest.lostcommits import NO_ANSWER, statements
from checkers.selftest.mutation import Mutation, mutation
from checkers.selftest.world import (
    Planted,
    Table,
    Version,
    World,
    acked,
    completed,
    fresh,
    inserted,
    read_events,
    returned,
    values,
)
from workloads.operations.kinds import KINDS
from workloads.tables import Row


def reads(w: World, *kinds: str) -> Iterator[tuple[Table, Operation]]:
    """Completed reads in random order."""
    found = [(t, o) for t in w.tables for o in t.reads if not kinds or o.f in kinds]
    w.rng.shuffle(found)
    yield from found


def expected(t: Table, o: Operation, p: int) -> list[Row]:
    """The result of a read at a position."""
    return KINDS[o.f].expected(t.states[p], o.value) or []


def got(o: Operation) -> list[Row]:
    """What a read returned."""
    return [Row._make(r) for r in o.result]


def window(t: Table, o: Operation) -> range:
    """The positions that a read can have seen."""
    assert o.completed is not None
    return range(t.settled(o.invoked.index), t.reached(o.completed.index) + 1)


def equals_none(t: Table, o: Operation, found: Iterable[Row]) -> bool:
    """Whether rows equal no state at all."""
    want = sorted(found)
    return all(expected(t, o, p) != want for p in range(len(t.states)))


def written(t: Table) -> list[Row]:
    """Every row that some commit made, once."""
    return sorted({Row._make(x.row) for c in t.main for x in c.added or ()})


# --- states that are too old --------------------------------------------------------------------------------------------

STALE = "https://github.com/apache/iceberg/issues/14440: 841 stale reads in 300 s through CachingCatalog"


@mutation("stale-read", "reads", "stale-read", "read-your-writes", "non-monotonic-read", seen=STALE)
def stale_read(w: World) -> Planted | None:
    """A read returns a state older than a write acknowledged before it was invoked."""
    for t, o in reads(w):
        can = [expected(t, o, p) for p in range(t.settled(o.invoked.index), len(t.states))]
        old = [p for p in range(window(t, o).start) if expected(t, o, p) not in can]
        if old:
            return w.read_as(o, values(expected(t, o, w.rng.choice(old))))
    return None


@mutation("stale-read-of-the-last-write", "reads", "stale-read", "read-your-writes", "non-monotonic-read", seen=STALE)
def stale_by_one(w: World) -> Planted | None:
    """A read misses only the last write acknowledged before it."""
    for t, o in reads(w):
        first = window(t, o).start
        can = [expected(t, o, p) for p in range(first, len(t.states))]
        if first and expected(t, o, first - 1) not in can:
            return w.read_as(o, values(expected(t, o, first - 1)))
    return None


def during(w: World) -> Iterator[tuple[Table, int, Operation, int]]:
    """Writes during which the state before and the state after may be read: table, position, operation, event index to read at.

    Neither state recurs later, and only this write is under way between the two.
    """
    for t, k in w.each(statements):
        o = t.op(k)
        at = o.invoked.index + 1
        if t.settled(at) <= k - 1 and t.reached(at - 1) >= k and t.states[k - 1] not in t.states[k:]:
            yield t, k, o, at


def _two_reads(w: World, first: int, second: int, name: str, *, same_process: bool) -> Planted | None:
    for t, k, _, at in during(w):
        process = fresh(w.events)
        a = read_events(t.name, process, "read-a", values(t.states[k - 1 + first].rows()))
        b = read_events(t.name, process if same_process else process + 1, name, values(t.states[k - 1 + second].rows()))
        return w.planted(name, events=inserted(w.events, at, [*a, *b]))
    return None


@mutation(
    "non-monotonic-read",
    "reads",
    "non-monotonic-read",
    seen="https://github.com/apache/iceberg/issues/17338: a stale table is cached again after a newer one",
)
def non_monotonic(w: World) -> Planted | None:
    """A process reads a commit that is under way, and then no longer sees it."""
    return _two_reads(w, 1, 0, "read-b", same_process=True)


@mutation(
    "read-undone-by-another-read",
    "reads",
    "stale-read",
    seen="two replicas behind one catalog: https://jepsen.io/consistency/models/linearizable",
)
def stale_by_read(w: World) -> Planted | None:
    """One process reads a commit that is under way, and then another does not see it."""
    return _two_reads(w, 1, 0, "read-b", same_process=False)


@mutation(
    "read-your-writes",
    "reads",
    "read-your-writes",
    seen="https://github.com/apache/iceberg/issues/10493: after its own commit a session reads the table from its cache",
)
def own_write(w: World) -> Planted | None:
    """A process does not see its own acknowledged write."""
    for t, k in w.each(statements):
        o = t.op(k)
        end = acked(o)
        if end is not None and t.states[k - 1] not in t.states[k:] and isinstance(o.process, int):
            read = read_events(t.name, o.process, "read-a", values(t.states[k - 1].rows()))
            return w.planted("read-a", o.op, events=inserted(w.events, end + 1, read))
    return None


@mutation(
    "final-read-misses-a-write",
    "reads",
    "stale-read",
    "read-your-writes",
    "non-monotonic-read",
    "fractured-read",
    seen="Jepsen's set-full: an element that was acknowledged and is not in the last read",
)
def final_misses(w: World) -> Planted | None:
    """The last read of a table lacks only the rows of one acknowledged write."""
    for t in w.tables:
        whole = [o for o in t.reads if o.f == "read"]
        if not whole:
            continue
        last = whole[-1]
        mine = [k for k in t.writes if any(r.val == t.op(k).op for r in got(last))]
        if (k := w.choose(mine)) is not None:
            found = [r for r in got(last) if r.val != t.op(k).op]
            if not any(expected(t, last, p) == sorted(found) for p in window(t, last)):
                return w.read_as(last, values(found))
    return None


# --- states that are too new --------------------------------------------------------------------------------------------


@mutation(
    "future-read",
    "reads",
    "future-read",
    seen="a clock, or a history whose events are misplaced: Elle's future-read",
)
def future_read(w: World) -> Planted | None:
    """A read returns the effects of an operation that is invoked after the read ended."""
    for t, o in reads(w):
        can = [expected(t, o, p) for p in range(window(t, o).stop)]
        late = [p for p in range(window(t, o).stop, len(t.states)) if expected(t, o, p) not in can]
        if late:
            return w.read_as(o, values(expected(t, o, w.rng.choice(late))))
    return None


# --- no state at all ------------------------------------------------------------------------------------------------------


def _of_failed(w: World, *, part: bool) -> Planted | None:
    for t, o in reads(w):
        assert o.completed is not None
        failed = [
            x
            for x in w.operations.values()
            if x.table == t.name
            and x.type == "fail"
            and x.op not in t.position
            and KINDS[x.f].changes_rows
            and x.invoked.index < o.completed.index
        ]
        w.rng.shuffle(failed)
        p = t.seen_by(o)
        assert p is not None
        for x in failed:
            removed, added = t.meaning(x, p)
            mine = [r for r in added if "id" not in o.value or r.id == o.value["id"]]
            if not any(x.op in (r.val, *r.log.split(",")) for r in mine):
                continue
            left = got(o)
            for r in removed if not part else ():
                if r in left:
                    left.remove(r)
            return w.read_as(o, values([*left, *mine]), x.op)
    return None


@mutation("dirty-read", "reads", "dirty-read", seen="Adya's G1a: https://jepsen.io/consistency/phenomena/g1a")
def dirty_read(w: World) -> Planted | None:
    """A read sees the effect of an operation that failed."""
    return _of_failed(w, part=False)


@mutation(
    "dirty-read-beside", "reads", "dirty-read", seen="files of an aborted commit that are listed instead of planned"
)
def dirty_beside(w: World) -> Planted | None:
    """A read sees the rows that a failed operation wrote, and also the ones that it was to replace."""
    return _of_failed(w, part=True)


@mutation(
    "intermediate-read", "reads", "fractured-read", seen="Adya's G1b: https://jepsen.io/consistency/phenomena/g1b"
)
def intermediate(w: World) -> Planted | None:
    """A read sees one half of a commit: its removals without its additions, or the reverse."""
    for t, o in reads(w, "read"):
        p = t.seen_by(o)
        k = w.choose(k for k in t.writes if p is not None and k <= p and len(t.main[k - 1].added or ()) > 1)
        if k is None:
            continue
        mine = [Row._make(x.row) for x in t.main[k - 1].added or ()]
        left_out = w.rng.choice(mine)
        half = [r for r in t.states[k] if r != left_out]
        if any(r in half for r in mine) and equals_none(t, o, half):
            return w.read_as(o, values(half))
    return None


@mutation(
    "fractured-read",
    "reads",
    "fractured-read",
    seen="read skew, Adya's A5A: https://jepsen.io/consistency/phenomena/a5a",
)
def fractured(w: World) -> Planted | None:
    """A read has some rows of one snapshot and some of another."""
    for t, o in reads(w, "read"):
        p = t.seen_by(o)
        for q in w.rng.sample(range(p or 0), min(p or 0, 8)):
            parity = w.rng.randrange(2)
            mixed = [r for r in t.states[p or 0] if r.id % 2 == parity]
            mixed += [r for r in t.states[q] if r.id % 2 != parity]
            if equals_none(t, o, mixed):
                return w.read_as(o, values(mixed))
    return None


@mutation(
    "read-misses-a-row",
    "reads",
    "fractured-read",
    seen="https://github.com/apache/iceberg/issues/9230 and every file that planning leaves out",
)
def misses_row(w: World) -> Planted | None:
    """A read lacks a row that was there all the time."""
    for t, o in reads(w):
        row = w.choose(got(o))
        left = [r for r in got(o) if r != row]
        if row is not None and equals_none(t, o, left):
            return w.read_as(o, values(left))
    return None


@mutation("read-doubles-a-row", "reads", "fractured-read", seen="redpanda#4591: a file that is planned twice")
def doubles_row(w: World) -> Planted | None:
    """A read returns a row twice that exists once."""
    for t, o in reads(w):
        row = w.choose(got(o))
        if row is not None and equals_none(t, o, [*got(o), row]):
            return w.read_as(o, values([*got(o), row]))
    return None


@mutation(
    "read-of-a-deleted-row",
    "reads",
    "fractured-read",
    seen="https://github.com/apache/iceberg/issues/16146: position deletes that a reader does not apply",
)
def deleted_row(w: World) -> Planted | None:
    """A read returns a row together with its newer version, or a deleted one, as when a delete file is not applied."""
    for t, o in reads(w):
        dead = [r for r in written(t) if r not in got(o) and ("id" not in o.value or r.id == o.value["id"])]
        first = window(t, o).start
        dead = [r for r in dead if any(r in t.states[p].by_id(r.id) for p in range(first))]
        row = w.choose(r for r in dead if equals_none(t, o, [*got(o), r]))
        if row is not None:
            return w.read_as(o, values([*got(o), row]))
    return None


@mutation(
    "read-of-another-key",
    "reads",
    "fractured-read",
    "phantom-value",
    seen="a filter that is pushed down and not applied: column statistics of another file",
)
def another_key(w: World) -> Planted | None:
    """A read of one key returns the rows of another."""
    for t, o in reads(w, "read-key"):
        p = t.seen_by(o)
        others = [r for r in t.states[p or 0] if r.id != o.value["id"]]
        if others:
            return w.read_as(o, values([w.rng.choice(others)]))
    return None


PHANTOM = "thin-air reads: https://jepsen.io/consistency/phenomena; reused buffers"


def _changed(w: World, change: str) -> Planted | None:
    for _, o in reads(w):
        row = w.choose(got(o))
        if row is None:
            continue
        new = {
            "value": row._replace(val="nobody-7"),
            "counter": row._replace(cnt=row.cnt + 1000),
            "list": row._replace(log=f"{row.log},nobody-7"),
            "key": row._replace(id=row.id + 10_000),
        }[change]
        left = got(o)
        left.remove(row)
        return w.read_as(o, values([*left, new]))
    return None


@mutation("phantom-value", "reads", "phantom-value", seen=PHANTOM)
def phantom_value(w: World) -> Planted | None:
    """A read returns a register's value that nobody ever wrote."""
    return _changed(w, "value")


@mutation("phantom-count", "reads", "phantom-value", "fractured-read", "dirty-read", seen=PHANTOM)
def phantom_count(w: World) -> Planted | None:
    """A read returns a counter value that was never reached."""
    return _changed(w, "counter")


@mutation("phantom-element", "reads", "phantom-value", seen=PHANTOM)
def phantom_element(w: World) -> Planted | None:
    """A read returns a list with an element that nobody appended."""
    return _changed(w, "list")


@mutation("phantom-key", "reads", "phantom-value", "fractured-read", seen=PHANTOM)
def phantom_key(w: World) -> Planted | None:
    """A read returns a row of a key that nobody wrote."""
    return _changed(w, "key")


@mutation(
    "torn-list",
    "reads",
    "phantom-value",
    "dirty-read",
    seen="Elle's incompatible-order: https://github.com/jepsen-io/elle",
)
def torn_list(w: World) -> Planted | None:
    """A read returns a list in an order that it never had.

    If an increment of the row has failed, that may explain the strange row as well: ``dirty-read``.
    """
    for _, o in reads(w):
        long = [r for r in got(o) if len(set(r.log.split(","))) > 1]
        row = w.choose(long)
        if row is not None:
            left = got(o)
            left.remove(row)
            new = row._replace(log=",".join(reversed(row.log.split(","))))
            return w.read_as(o, values([*left, new]))
    return None


@mutation(
    "vanished-read",
    "reads",
    "vanished-read",
    seen="as main-moved-back, where the lost commit's outcome was unknown and somebody had read it",
)
def vanished_read(w: World) -> Planted | None:
    """A read returns a commit of unknown outcome, and later main goes back below it."""
    for t, k in w.each(lambda t: list(statements(t))[-1:]):
        o = t.op(k)
        later = t.main[k:]
        if o.completed is None or t.states[k] in t.states[:k] or any(c.added or c.removed for c in later):
            continue
        process = fresh(w.events) + 1
        read = read_events(t.name, process, "read-a", values(t.states[k].rows()))
        # Reads after the commit see what remains once main has gone back.
        before = {
            x.op: values(expected(t, x, k - 1)) for x in t.reads if x.completed is not None and (t.seen_by(x) or 0) >= k
        }
        events = returned(completed(w.events, o.op, "info", NO_ANSWER), before)
        m = t.log.metadata[-1]
        back = Version(replace(m, location=f"{m.location}.again"), main=t.main[k - 2].snapshot_id)
        return w.planted("read-a", log=t.rebuilt([*t.versions, back]), events=inserted(events, o.completed.index, read))
    return None


# --- time travel ----------------------------------------------------------------------------------------------------------


def _travel(w: World, *, newest: bool) -> Planted | None:
    for t in w.rng.sample(w.tables, len(w.tables)):
        at = {c.snapshot_id: k for k, c in enumerate(t.main, 1)}
        mine = [o for o in w.operations.values() if o.f == "read-snapshot" and o.table == t.name and o.type == "ok"]
        w.rng.shuffle(mine)
        for o in mine:
            asked = at.get(o.result["snapshot"])
            if asked is None:
                continue
            latest = t.settled(o.invoked.index)
            others = [latest] if newest else list(range(1, len(t.states)))
            p = w.choose(p for p in others if t.states[p] != t.states[asked])
            if p is not None:
                return w.read_as(o, {"snapshot": o.result["snapshot"], "rows": values(t.states[p].rows())})
    return None


@mutation(
    "time-travel-to-another-snapshot",
    "reads",
    "wrong-time-travel",
    seen="a snapshot id that is looked up by position in a list that expiry has shortened",
)
def travel_elsewhere(w: World) -> Planted | None:
    """Time travel returns the rows of a snapshot other than the requested one."""
    return _travel(w, newest=False)


@mutation("time-travel-that-stays", "reads", "wrong-time-travel", seen="VERSION AS OF that a cached plan ignores")
def travel_nowhere(w: World) -> Planted | None:
    """Time travel returns the newest rows."""
    return _travel(w, newest=True)


@mutation(
    "time-travel-misses-a-row",
    "reads",
    "wrong-time-travel",
    seen="expiry or orphan removal that deletes a file which an old snapshot needs",
)
def travel_misses(w: World) -> Planted | None:
    """Time travel returns a snapshot without one of its rows."""
    mine = [o for o in w.operations.values() if o.f == "read-snapshot" and o.type == "ok" and o.result["rows"]]
    o = w.choose(mine)
    if o is None:
        return None
    left = list(o.result["rows"])
    left.pop(w.rng.randrange(len(left)))
    return w.read_as(o, {"snapshot": o.result["snapshot"], "rows": left})


MUTATIONS: tuple[Mutation, ...] = (
    stale_read,
    stale_by_one,
    non_monotonic,
    stale_by_read,
    own_write,
    final_misses,
    future_read,
    dirty_read,
    dirty_beside,
    intermediate,
    fractured,
    misses_row,
    doubles_row,
    deleted_row,
    another_key,
    phantom_value,
    phantom_count,
    phantom_element,
    phantom_key,
    torn_list,
    vanished_read,
    travel_elsewhere,
    travel_nowhere,
    travel_misses,
)
"""In the order of the file."""
