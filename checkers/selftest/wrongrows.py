"""Bugs that the ``replay`` checker must find: commits whose rows are not what their operation means.

After the planted commit, later operations do what they mean on the rows that are there, and readers see them: the commit is the only
defect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from checkers.evidence.replace import replace
from checkers.selftest.goodtable import rows
from checkers.selftest.plant import Plant, Plants, table
from checkers.selftest.sites import UPDATES, CommitSite, Where, commits, maintenance, minus, of_kinds
from checkers.selftest.world import Planted
from nemesis.operation_key import OPERATION_KEY
from workloads.tables import Row

APPENDS = ("update-append", "update-append-where", "merge-update")
"""Kinds that append to a list."""

# --- maintenance --------------------------------------------------------------------------------------------------------


def any_row(p: CommitSite) -> Row:
    """A row of the table before the commit."""
    return p.w.rng.choice(p.t.states[p.k - 1].rows())


def compaction_resurrects(p: CommitSite) -> Planted | None:
    """A compaction brings back a row that was deleted."""
    dead = {r for c in p.t.main[: p.k - 1] for r in rows(c.removed)} - set(p.t.states[p.k - 1])
    return p.did([], [p.w.rng.choice(sorted(dead))]) if dead else None


def compaction_changes(p: CommitSite) -> Planted | None:
    """A compaction writes a row with another value."""
    r = any_row(p)
    return p.did([r], [p.w.rng.choice([r._replace(cnt=r.cnt + 1), r._replace(val=f"{r.val}?")])])


def compaction_swaps(p: CommitSite) -> Planted | None:
    """A compaction exchanges the values of two rows."""
    found = p.t.states[p.k - 1].rows()
    pair = p.w.choose((a, b) for a in found for b in found if a.id < b.id and a.val != b.val)
    if pair is None:
        return None
    a, b = pair
    return p.did([a, b], [a._replace(val=b.val), b._replace(val=a.val)])


COMPACTIONS: Plants = {
    "compaction-resurrects-a-row": Plant(
        compaction_resurrects,
        "resurrected-row",
        seen="apache/iceberg#10312: compaction at the starting sequence number drops newer equality deletes",
    ),
    "compaction-drops-a-row: A compaction leaves a row out.": Plant(
        lambda p: p.did([any_row(p)], []), seen="apache/iceberg#9230: files are missing after a transaction's retry"
    ),
    "compaction-doubles-a-row: A compaction writes a row twice.": Plant(
        lambda p: p.did([], [any_row(p)]),
        "compaction-changed-rows resurrected-row",
        seen="redpanda-data/redpanda#4591: a file is in the table twice",
    ),
    "compaction-changes-a-row": Plant(
        compaction_changes, seen="apache/iceberg#10312: a compaction that restores an old version of a row"
    ),
    "compaction-swaps-two-rows": Plant(compaction_swaps, seen="columns read by position instead of by field id"),
}


# --- one operation ------------------------------------------------------------------------------------------------------


def changing(*kinds: str) -> Where:
    """Statements of these kinds that change rows."""
    return commits(of_kinds(*kinds), lambda p: p.now != ([], []))


def one_more(p: CommitSite, among: Iterable[Row]) -> Planted | None:
    """One of these rows is written in addition."""
    r = p.w.choose(among)
    return None if r is None else p.did(p.now.removed, [*p.now.added, r])


def one_less(p: CommitSite, among: Iterable[Row]) -> Planted | None:
    """One of these rows is not written."""
    r = p.w.choose(among)
    return None if r is None else p.did(p.now.removed, minus(p.now.added, r))


def another(p: CommitSite, change: Callable[[Row], Row], among: Iterable[Row] | None = None) -> Planted | None:
    """One of the rows is written with another value."""
    r = p.w.choose(p.now.added if among is None else among)
    return None if r is None else p.did(p.now.removed, [*minus(p.now.added, r), change(r)])


def takes(p: CommitSite, among: Iterable[Row]) -> Planted | None:
    """One of these rows is removed in addition."""
    r = p.w.choose(among)
    return None if r is None else p.did([*p.now.removed, r], [])


def misses(p: CommitSite) -> Planted | None:
    """An update by predicate leaves one of the matching rows unchanged."""
    r = p.w.rng.choice(p.now.removed)
    return p.did(minus(p.now.removed, r), minus(p.now.added, next(x for x in p.now.added if x.id == r.id)))


def touches(p: CommitSite) -> Planted | None:
    """An update by key also changes a row of another key."""
    ids = set(p.o.value["ids"])
    other = p.w.choose(r for r in p.t.states[p.k - 1] if r.id not in ids)
    if other is None:
        return None
    return p.did([*p.now.removed, other], [*p.now.added, other._replace(val=p.o.op)])


def merge_blind(p: CommitSite) -> Planted | None:
    """A merge inserts a key that already exists."""
    before = p.t.states[p.k - 1]
    i = p.w.choose(i for i in p.o.value["ids"] if i in before)
    if i is None:
        return None
    new = Row(i, p.o.op, 0, p.o.op, before.by_id(i)[0].part)
    return p.did([r for r in p.now.removed if r.id != i], [*(r for r in p.now.added if r.id != i), new])


def nulled(p: CommitSite) -> Planted:
    """A commit replaces a value with null."""
    r = p.w.rng.choice(p.now.added)
    null = r._replace(val=None)  # type: ignore[arg-type]
    log, _ = p.w.with_rows(p.t, p.k, p.now.removed, [*minus(p.now.added, r), null], follow=False)
    return p.planted(log=log)


def reversed_list(r: Row) -> Row:
    """The row with its list in the opposite order."""
    return r._replace(log=",".join(reversed(r.log.split(","))))


def long_lists(among: Iterable[Row]) -> list[Row]:
    """Rows whose lists have different elements."""
    return [r for r in among if len(set(r.log.split(","))) > 1]


def exchanged(p: CommitSite) -> Planted | None:
    """Two operations at work at the same time have each other's id in their snapshots."""
    for j in range(p.k + 1, len(p.t.main) + 1):
        a, b, d = p.o, p.t.op(j), p.t.main[j - 1]
        together = a.end is not None and b.end is not None and b.start < a.end and a.start < b.end
        if a.op == b.op or a.f != b.f or not together or not p.c.added or not d.added:
            continue
        names = {p.c.snapshot_id: b.op, d.snapshot_id: a.op}
        commits = (
            replace(c, op=op, summary={**c.summary, OPERATION_KEY: op}) if (op := names.get(c.snapshot_id)) else c
            for c in p.t.log.commits
        )
        return p.w.planted(a.op, b.op, log=replace(p.t.log, commits=tuple(commits)))
    return None


WRONG_ROW_PLANTS: Plants = {
    "operations-exchanged": Plant(
        exchanged,
        where=changing("insert", "update-register", "update-append"),
        neutral=False,
        seen="EnvironmentContext is one map a JVM: an operation's id on another's snapshot",
    ),
    "predicate-update-misses-a-row": Plant(
        misses,
        "wrong-rows undelete stale-scan",
        where=changing("update-register-where", "update-counter-where", "update-append-where"),
        seen="apache/iceberg#11765: MERGE and UPDATE that plan their files twice",
    ),
    "update-touches-another-row": Plant(
        touches,
        "wrong-rows lost-update",
        where=changing(*UPDATES),
        seen="positions of a delete file applied to the wrong data file",
    ),
    "update-without-effect: An acknowledged update of an existing row changes nothing.": Plant(
        lambda p: p.did([], []) if p.now.removed else None,
        "wrong-rows stale-scan undelete",
        where=changing("update-register", "update-counter", "update-append", "merge-update"),
        seen="a statement whose filter was pushed down wrongly commits an empty snapshot",
    ),
    "update-moves-partition: An update moves a row to another partition.": Plant(
        lambda p: another(p, lambda r: r._replace(part=r.part + 1)),
        where=changing(*UPDATES),
        seen="a partition value of the wrong spec in the file's metadata",
    ),
    "counter-counts-twice: An increment adds two.": Plant(
        lambda p: p.did(p.now.removed, [r._replace(cnt=r.cnt + 1) for r in p.now.added]),
        where=changing("update-counter", "update-counter-where", "merge-update"),
        seen="a task attempt that is committed twice (Spark speculation)",
    ),
    "list-appends-twice: An append adds its element twice.": Plant(
        lambda p: p.did(p.now.removed, [r._replace(log=f"{r.log},{p.o.op}") for r in p.now.added]),
        where=changing(*APPENDS),
        seen="Elle's duplicate-elements",
    ),
    "list-in-another-order: An append changes the order of the list.": Plant(
        lambda p: another(p, reversed_list, long_lists(p.now.added)),
        where=changing(*APPENDS),
        seen="Elle's incompatible-order",
    ),
    "delete-removes-too-much: A delete removes a row that it does not select.": Plant(
        lambda p: takes(p, Counter(p.t.states[p.k - 1]) - Counter(p.now.removed)),
        "wrong-rows lost-update",
        where=commits(of_kinds("delete*")),
        seen="apache/iceberg#16978: ManifestFilterManager's data race removes files that do not match",
    ),
    "delete-leaves-a-row: A delete of several rows leaves one of them.": Plant(
        lambda p: p.did(minus(p.now.removed, p.w.rng.choice(p.now.removed)), []),
        "wrong-rows write-skew undelete stale-scan",
        where=changing("delete", "delete-where", "delete-partition", "merge-delete"),
        seen="apache/iceberg#16263 and other manifests that lose an entry",
    ),
    "delete-partition-takes-a-neighbour: A delete of a partition removes a row of another.": Plant(
        lambda p: takes(p, (r for r in p.t.states[p.k - 1] if r.part != p.o.value["part"])),
        "wrong-rows lost-update",
        where=commits(of_kinds("delete-partition")),
        seen="a metadata delete that trusts truncated column statistics",
    ),
    "merge-inserts-twice: A merge inserts a row twice.": Plant(
        lambda p: one_more(p, (r for r in p.now.added if r.id not in p.t.states[p.k - 1])),
        "duplicate-row wrong-rows",
        where=changing("merge-upsert", "merge-insert"),
        seen="apache/iceberg#11787: MERGE reads its source twice",
    ),
    "merge-inserts-what-is-there": Plant(
        merge_blind,
        "duplicate-row wrong-rows write-skew stale-scan",
        where=commits(of_kinds("merge-upsert", "merge-insert")),
        seen="apache/iceberg#12653: MERGE with only an insert clause validates nothing",
    ),
    "merge-loses-a-row: A merge removes a row's old version and does not write the new one.": Plant(
        lambda p: one_less(p, (r for r in p.now.added if r.id in p.t.states[p.k - 1])),
        "wrong-rows lost-update",
        where=changing("merge-upsert", "merge-update"),
        seen="apache/iceberg#11765: MERGE whose source changes between its two scans loses rows",
    ),
    "insert-loses-a-row: An insert leaves one of its rows out.": Plant(
        lambda p: one_less(p, p.now.added), seen="apache/iceberg#9354: rows lost with a retry"
    ),
    "insert-doubles-a-row: An insert writes one of its rows twice.": Plant(
        lambda p: one_more(p, p.now.added),
        "wrong-rows duplicate-row",
        where=changing("insert", "insert-select"),
        seen="apache/iceberg#16008; two attempts of one task",
    ),
    "insert-of-another-value: An insert writes a value that another operation writes.": Plant(
        lambda p: another(p, lambda r: r._replace(val=f"{p.t.op(1).op}-other")),
        seen="rows of another task's file in the commit",
    ),
    "column-nulled": Plant(
        nulled,
        where=changing("update-counter", "update-append", "merge-upsert"),
        seen="a field id that changed (apache/iceberg#14093): the column is read as null",
    ),
}


PLANTS = (
    *table(
        COMPACTIONS,
        "replay",
        names="compaction-changed-rows",
        where=commits(maintenance, lambda p: len(p.t.states[p.k - 1])),
        neutral=True,
    ),
    *table(WRONG_ROW_PLANTS, "replay", names="wrong-rows", where=changing("insert"), neutral=True),
)
