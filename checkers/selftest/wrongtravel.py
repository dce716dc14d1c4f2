"""Bugs of reads that name a snapshot, which the ``reads`` checker must find: the snapshot, and not only its rows, must be possible.

The rows are always those of the snapshot that the read names, unless they are what is wrong. Time travels are added to the history, so
that there are places enough; reads of two tables are those of the recorded run with transfers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from checkers.evidence.history import Event, Operation
from checkers.selftest.mutation import Mutation, mutation
from checkers.selftest.world import Planted, Table, World, fresh, inserted, read_events, values
from checkers.selftest.wrongreads import during
from workloads.operations.kinds import KINDS

CACHED = "https://github.com/apache/iceberg/issues/14440: stale reads through CachingCatalog; the history is a table of it, too"
REPLICA = "two replicas behind one catalog: https://jepsen.io/consistency/models/linearizable"
BY_PLACE = "a snapshot that is looked up by its place in a list which a commit or an expiry has changed"
OLD = ("stale-read", "read-your-writes", "non-monotonic-read")


def answer(t: Table, n: int, back: int) -> int | None:
    """What the history answered at metadata version n; these runs have no rollback, so every entry is an ancestor."""
    entries = t.log.metadata[n].raw.get("snapshot-log") or []
    return entries[-1 - min(back, len(entries) - 1)]["snapshot-id"] if entries else None


def possible(t: Table, first: int, last: int, back: int) -> set[int | None]:
    """What it may answer to a client that asks between positions ``first`` and ``last``."""
    low = t.main[first - 1].metadata if first else 0
    high = t.main[last].metadata if last < len(t.main) else len(t.log.metadata)
    return {answer(t, n, back) for n in range(low, high)}


def travel_events(t: Table, process: int, op: str, back: int, snapshot: int) -> list[Event]:
    """A time travel from invocation to answer, with the rows of its snapshot; none for a snapshot that main has not."""
    at = next((k for k, c in enumerate(t.main, 1) if c.snapshot_id == snapshot), 0)
    result = {"snapshot": snapshot, "rows": values(t.states[at].rows())}
    return [
        Event(0, 0, "invoke", process, "read-snapshot", t.name, {"back": back}, op),
        Event(0, 0, "ok", process, "read-snapshot", t.name, result, op),
    ]


def _moments(w: World) -> Iterator[tuple[Table, int, int, int]]:
    """Places for a time travel, in random order: table, event index, and the positions that it can have seen."""
    found = [(t, e.index) for t in w.tables for e in w.events if e.table == t.name and e.type != "invoke"]
    for t, at in w.shuffled(found):
        first = t.settled(at + 1)
        if first > 1:
            yield t, at + 1, first, t.reached(at)


def _planted(w: World, t: Table, at: int, back: int, snapshot: int) -> Planted:
    return w.planted(
        "time-travel", events=inserted(w.events, at, travel_events(t, fresh(w.events), "time-travel", back, snapshot))
    )


def _wrong(w: World, positions: Any, backs: Sequence[int] = range(6)) -> Planted | None:
    """A time travel to one of the positions that ``positions(first, last, back)`` names and that the history did not answer."""
    for t, at, first, last in _moments(w):
        back = w.rng.choice(list(backs))
        good = possible(t, first, last, back)
        can = [p for p in positions(first, last, back) if 0 < p <= len(t.main)]
        snapshots = [s for p in can if (s := t.main[p - 1].snapshot_id) not in good]
        if None not in good and (s := w.choose(snapshots)) is not None:
            return _planted(w, t, at, back, s)
    return None


@mutation("time-travel-lacks-a-write", "reads", *OLD, seen=CACHED)
def lacks_write(w: World) -> Planted | None:
    """A time travel to the newest snapshot lacks the last acknowledged commit."""
    return _wrong(w, lambda first, last, back: [first - 1], [0])


@mutation("time-travel-too-far-back", "reads", *OLD, "wrong-time-travel", seen=CACHED)
def too_far(w: World) -> Planted | None:
    """A time travel gets a snapshot older than the one that it asked for."""
    return _wrong(w, lambda first, last, back: range(first - back - 3, first - back))


@mutation("time-travel-to-the-oldest", "reads", *OLD, "wrong-time-travel", seen=BY_PLACE)
def to_oldest(w: World) -> Planted | None:
    """A time travel gets the table's first snapshot, though the history is longer."""
    return _wrong(w, lambda first, last, back: [1])


@mutation("time-travel-not-far-enough", "reads", "future-read", "wrong-time-travel", seen=BY_PLACE)
def too_near(w: World) -> Planted | None:
    """A time travel gets a snapshot newer than the one that it asked for."""
    return _wrong(w, lambda first, last, back: range(last - back + 1, last + 1), range(1, 6))


@mutation("time-travel-to-an-expired-snapshot", "reads", *OLD, "wrong-time-travel", seen=CACHED)
def expired(w: World) -> Planted | None:
    """A time travel gets a snapshot whose expiry had been acknowledged before."""
    for t, at, first, last in _moments(w):
        versions = t.log.metadata
        for n in range(1, len(versions)):
            gone = [s for s in versions[n - 1].snapshots if s not in versions[n].snapshots]
            by = [o for o in w.operations.values() if o.f == "expire-snapshots" and o.table == t.name]
            if not gone or any(o.completed is None or o.type == "info" or o.completed.index >= at for o in by):
                continue  # one that is under way may have dropped them only later
            back = len(versions[n].snapshots) + w.rng.randrange(len(gone))
            s = answer(t, n - 1, back)
            if s is not None and s in gone and s not in possible(t, first, last, back):
                return _planted(w, t, at, back, s)
    return None


@mutation(
    "time-travel-to-no-snapshot", "reads", "wrong-time-travel", seen="an id that is read with the precision of a double"
)
def to_nothing(w: World) -> Planted | None:
    """A time travel names a snapshot that no table ever had."""
    for t, at, first, last in _moments(w):
        back = w.rng.randrange(6)
        s = w.choose(possible(t, first, last, back))
        wrong = None if s is None else int(float(s))
        if wrong is not None and all(c.snapshot_id != wrong for x in w.every for c in x.log.commits):
            return _planted(w, t, at, back, wrong)
    return None


@mutation(
    "time-travel-to-another-table", "reads", "wrong-time-travel", seen="a cache of tables by a name that is not unique"
)
def to_another(w: World) -> Planted | None:
    """A time travel names a snapshot of another table."""
    for t, at, _, _ in _moments(w):
        s = w.choose(c.snapshot_id for x in w.every if x.name != t.name for c in x.main)
        if s is not None:
            return _planted(w, t, at, w.rng.randrange(6), s)
    return None


def _one_after_another(w: World, first: str, second: str) -> Planted | None:
    """Two reads by two processes during a write: the first sees it, the second does not."""
    for t, k, _, at in during(w):
        process = fresh(w.events)
        events: list[Event] = []
        for n, (kind, p) in enumerate(((first, k), (second, k - 1))):
            op, by = f"read-{n}", process + n
            if kind == "travel":
                back = w.rng.randrange(min(4, p))
                events += travel_events(t, by, op, back, t.main[p - 1 - back].snapshot_id)
                snapshot = t.main[p - 1 - back].snapshot_id
                if answer(t, t.main[p - 1].metadata, back) != snapshot:
                    break  # an expiry had shortened the history
                if n == 0 and snapshot in possible(t, t.settled(at), k - 1, back):
                    break  # as the oldest of a short history: it does not prove that the commit was seen
            else:
                events += read_events(t.name, by, op, values(t.states[p].rows()))
        else:
            if second != "travel" or not _also_later(t, k, at, events[-1]):
                return w.planted("read-1", events=inserted(w.events, at, events))
    return None


def _also_later(t: Table, k: int, at: int, e: Event) -> bool:
    """Whether the history may have answered the same from position k on."""
    back = next(b for b in range(4) if t.main[k - 2 - b].snapshot_id == e.value["snapshot"])
    return e.value["snapshot"] in possible(t, k, t.reached(at), back)


@mutation("time-travel-undone-by-another", "reads", "stale-read", seen=REPLICA)
def travel_travel(w: World) -> Planted | None:
    """The history that one process asks has a commit that is under way, and then the history that another asks has it not."""
    return _one_after_another(w, "travel", "travel")


@mutation("time-travel-behind-a-read", "reads", "stale-read", seen=REPLICA)
def travel_read(w: World) -> Planted | None:
    """One process reads a commit that is under way, and then the history that another asks has it not."""
    return _one_after_another(w, "read", "travel")


@mutation("read-behind-a-time-travel", "reads", "stale-read", seen=REPLICA)
def read_travel(w: World) -> Planted | None:
    """The history that one process asks has a commit that is under way, and then another does not read it."""
    return _one_after_another(w, "travel", "read")


# --- reads of two tables ------------------------------------------------------------------------------------------------


def _both(w: World) -> Iterator[tuple[Operation, bool, Table]]:
    """Answered reads of two tables, and one of the tables: whether it is the second, and the table; in random order."""
    by_name = {t.name: t for t in w.every}
    found = []
    for o in w.operations.values():
        if o.f != "read-both" or o.type != "ok":
            continue
        second = KINDS[o.f].second(o.value)
        for is_second, name in ((False, o.table), (True, second)):
            if name in by_name:
                found.append((o, is_second, by_name[name]))
    yield from w.shuffled(found)


def _named(o: Operation, second: bool, snapshot: int, rows: Sequence[Any] | None = None) -> dict[str, Any]:
    """Its result with another snapshot, and other rows, of one of the tables."""
    result = dict(o.result)
    result |= {"second": snapshot} if second else {"first": snapshot, "again": snapshot}
    if rows is not None:
        other = [r for r in result["rows"] if r[0] != int(second)]
        result["rows"] = [*other, *([int(second), *r] for r in rows)]
    return result


def _stale(w: World, *, rows: bool) -> Planted | None:
    for o, second, t in _both(w):
        first = t.settled(o.invoked.index)
        mine = sorted(tuple(r[1:]) for r in o.result["rows"] if r[0] == int(second))
        old = [p for p in range(1, first) if sorted(map(tuple, t.states[p].rows())) != mine]
        if rows:
            old = [p for p in old if all(t.states[p] != s for s in t.states[first:])]
        if (p := w.choose(old)) is not None:
            there = values(t.states[p].rows()) if rows else None
            return w.read_as(o, _named(o, second, t.main[p - 1].snapshot_id, there))
    return None


@mutation("read-of-both-with-stale-ids", "reads", "wrong-time-travel", seen="ids from one replica, rows from another")
def stale_ids(w: World) -> Planted | None:
    """A read of two tables names an old snapshot of one of them, and returns newer rows."""
    return _stale(w, rows=False)


@mutation("stale-read-of-both", "reads", *OLD, seen=CACHED)
def stale_both(w: World) -> Planted | None:
    """A read of two tables finds an old snapshot of one of them current, and returns its rows."""
    return _stale(w, rows=True)


@mutation(
    "read-of-both-of-no-snapshot",
    "reads",
    "wrong-time-travel",
    seen="an id that is read with the precision of a double",
)
def both_nothing(w: World) -> Planted | None:
    """A read of two tables names a snapshot that a table never had, or that the other one has."""
    for o, second, t in _both(w):
        wrong = w.choose(
            [o.result["first" if second else "second"], int(float(o.result["second" if second else "first"]))]
        )
        if wrong is not None and all(c.snapshot_id != wrong for c in t.log.commits):
            return w.read_as(o, _named(o, second, wrong))
    return None


@mutation("read-of-both-goes-back", "reads", "non-monotonic-read", *OLD, seen=REPLICA)
def goes_back(w: World) -> Planted | None:
    """A read of two tables finds its first table at an older snapshot the second time."""
    for o, second, t in _both(w):
        at = next((k for k, c in enumerate(t.main, 1) if c.snapshot_id == o.result["first"]), 0)
        if not second and at > 1:
            again = t.main[w.rng.randrange(at - 1)].snapshot_id
            return w.read_as(o, {**o.result, "again": again})
    return None


MUTATIONS: tuple[Mutation, ...] = (
    lacks_write,
    too_far,
    to_oldest,
    too_near,
    expired,
    to_nothing,
    to_another,
    travel_travel,
    travel_read,
    read_travel,
    stale_ids,
    stale_both,
    both_nothing,
    goes_back,
)
"""In the order of the file."""
