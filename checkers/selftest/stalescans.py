"""Bugs that the ``replay`` checker must find: operations that commit what they meant at an older state than the one they change.

Such a bug needs two concurrent operations: the second is moved to begin before the first ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from checkers.selftest.goodtable import rows
from checkers.selftest.plant import Plant, Plants, table
from checkers.selftest.sites import UPDATES, CommitSite, commits, minus, of_kinds, statements
from checkers.selftest.world import Planted
from workloads.engines.engines import engine_of
from workloads.operations.kind import WriteSet

MOST_COMMITS_BACK = 12
"""How many commits back a stale scan may be."""


def scans(p: CommitSite) -> list[tuple[int, WriteSet]]:
    """Older positions where the operation means something else than at its parent, with that meaning; in random order."""
    found = [(j, old) for j in range(max(1, p.k - MOST_COMMITS_BACK), p.k - 1) if (old := p.t.meaning(p.o, j)) != p.now]
    p.w.rng.shuffle(found)
    return found


Stale = Callable[[CommitSite, int, WriteSet], Planted | None]
"""What an operation does that scanned an older position, where it meant something else."""


def from_a_scan(change: Stale) -> Callable[[CommitSite], Planted | None]:
    """The change, at the first older position where it can be."""

    def changed(p: CommitSite) -> Planted | None:
        return next((bug for j, old in scans(p) if (bug := change(p, j, old)) is not None), None)

    changed.__doc__ = change.__doc__
    return changed


def lost_update(column: str) -> Callable[[CommitSite], Planted | None]:
    """An update computed from an old scan replaces a row that has changed since."""

    @from_a_scan
    def change(p: CommitSite, j: int, old: WriteSet) -> Planted | None:
        pairs = list(zip(old.added, p.now.added, strict=False))
        whole = len(old.removed) == len(old.added) == len(p.now.added) == len(p.now.removed)
        if not whole or any(a.id != b.id for a, b in pairs):
            return None
        differs = any(getattr(a, column) != getattr(b, column) for a, b in pairs)
        return p.did(p.now.removed, old.added, since=j) if differs else None

    return change


@from_a_scan
def doubled(p: CommitSite, j: int, old: WriteSet) -> Planted | None:
    """Two concurrent updates of one row both commit, each with its own version: one row becomes two."""
    now = p.now
    changed = {r.id for r in old.removed} == {r.id for r in now.removed} and not set(old.removed) & set(now.removed)
    # updated, not deleted and inserted again
    present = all(r.id in p.t.states[i] for r in old.removed for i in range(j, p.k))
    if old.removed and changed and present and len(old.removed) == len(old.added) == len(now.removed):
        return p.did([], old.added, since=j)
    return None


@from_a_scan
def resurrects(p: CommitSite, j: int, old: WriteSet) -> Planted | None:
    """An update commits a row that a concurrent delete had removed."""
    return p.did([], old.added, since=j) if old.removed and len(old.removed) == len(old.added) else None


@from_a_scan
def undelete(p: CommitSite, j: int, old: WriteSet) -> Planted | None:
    """A delete leaves a row because a concurrent update had moved it to another file."""
    now = p.now.removed
    present = [r for r in old.removed if r in now]
    absent = [r for r in old.removed if r not in now]
    alive = {r.id for r in absent} & {r.id for r in now}
    single = all(len(p.t.states[i].by_id(r.id)) == 1 for r in absent for i in range(j, p.k))
    if absent and alive and single and not any(p.t.kind(i).overwrites for i in range(j + 1, p.k)):
        return p.did(present, [], since=j)
    return None


def compaction_undeletes(p: CommitSite) -> Planted | None:
    """A delete removes rows of files that a concurrent compaction had replaced: the rows live on in the new files."""
    now = p.now
    position = p.w.choose(m for m in p.t.maintenance if p.k - MOST_COMMITS_BACK <= m < p.k)
    if position is None or not now.removed or p.t.meaning(p.o, position - 1) != now:
        return None
    replaced = [f.partition.get("part") for f in p.t.main[position - 1].removed_files if f.content == "data"]
    every = all(None in replaced or r.part in replaced for r in now.removed)
    return p.did([], [], since=position - 1) if every else None


def at_scan(*, concurrent: bool, any_level: bool = False) -> Callable[[CommitSite], Planted | None]:
    """An operation commits what it meant at an older state; ``any_level``: not only where the table promises serializability."""

    def change(p: CommitSite) -> Planted | None:
        promise = engine_of(p.o.engine).promise(p.o.f, p.t.spec)
        level = promise.level or ("serializable" if any_level else p.t.spec.isolation)
        if level != "serializable" or promise.at_commit:
            return None
        settled = p.t.settled(p.o.invoked.index)
        window = [p.t.meaning(p.o, j) for j in range(settled, p.k)]
        here = Counter(p.t.states[p.k - 1])
        for j, old in scans(p):
            if Counter(old.removed) - here or old == ([], []) or (not concurrent and (j >= settled or old in window)):
                continue
            bug = p.did(*old, since=j if concurrent else None)
            if bug is not None:
                return bug
        return None

    return change


def insert_select(p: CommitSite) -> Planted | None:
    """INSERT … SELECT copies a row that has changed since."""
    if not p.now.added:
        return None
    r = p.w.rng.choice(p.now.added)
    return p.did([], [r._replace(cnt=r.cnt + 1, log=f"{p.t.op(1).op},{r.log}"), *minus(p.now.added, r)])


def from_lost(p: CommitSite) -> Planted | None:
    """Main goes back below a commit, and the next operation commits what it had read there."""
    if not set(rows(p.c.added)) & set(rows(p.t.main[p.k].removed)):
        return None
    return p.w.planted(p.t.op(p.k + 1).op, log=p.t.set_back(p.n, p.k - 1))


STALE_PLANTS: Plants = {
    "lost-update-register: Of two concurrent updates of a row, the second restores the register's value from before the first.": Plant(
        lost_update("val")
    ),
    # If the two increments are equal, the second leaves the row unchanged, so its commit shows no change at all.
    "lost-update-counter": Plant(
        lost_update("cnt"),
        "lost-update wrong-rows",
        does="Of two concurrent updates of a row, the second restores the counter from before the first: an increment is lost.",
    ),
    "lost-update-list: Of two concurrent updates of a row, the second restores the list from before the first: an element is lost.": Plant(
        lost_update("log")
    ),
    "update-beside-update": Plant(
        doubled, "duplicate-row", seen="trinodb/trino#31072: a filter of conflicts that is too narrow doubles keys"
    ),
    "update-of-a-deleted-row": Plant(
        resurrects,
        "resurrected-row",
        where=commits(of_kinds(*UPDATES), lambda p: not p.now.removed and not p.now.added),
        seen="Vanlightly, table-formats-tlaplus: UPDATE after DELETE without validateNoConflictingDeleteFiles",
    ),
    "undelete": Plant(
        undelete,
        "undelete",
        where=commits(of_kinds("delete", "delete-where", "merge-delete")),
        seen="Vanlightly, table-formats-tlaplus, and real Spark on v2 merge-on-read under snapshot isolation: MOR UPDATE first, DELETE second",
    ),
    "delete-lost-to-compaction": Plant(
        compaction_undeletes,
        "undelete wrong-rows",
        where=commits(of_kinds("delete*")),
        seen="trinodb/trino#18393: a delete and OPTIMIZE at the same time",
    ),
    "write-skew: On a serializable table, an operation commits what it meant at its scan, though what it read has changed since.": Plant(
        at_scan(concurrent=True),
        "write-skew",
        where=commits(statements),
        seen="Adya's G2-item: https://jepsen.io/consistency/phenomena/a5b; apache/iceberg#12653",
    ),
    "stale-scan: An operation commits what it means at a state older than a write acknowledged before it was invoked.": Plant(
        at_scan(concurrent=False),
        "stale-scan",
        where=commits(statements),
        seen="apache/iceberg#14440: CachingCatalog serves a table that is long outdated",
    ),
    "insert-select-from-the-wrong-state": Plant(
        insert_select,
        "write-skew stale-scan wrong-rows",
        where=commits(of_kinds("insert-select")),
        seen="apache/iceberg#12653: an append validates nothing, whatever its query has read",
    ),
    "computed-from-what-main-lost": Plant(
        from_lost,
        "vanished-read",
        where=commits(lambda t: t.positions[1:-1]),
        seen="as main-moved-back: an operation that had read the lost commit builds on it",
    ),
}

PLANTS = table(
    STALE_PLANTS,
    "replay",
    names="lost-update",
    where=commits(of_kinds(*UPDATES)),
    seen="Adya's P4; https://jepsen.io/consistency/phenomena/p4",
    neutral=True,
)
