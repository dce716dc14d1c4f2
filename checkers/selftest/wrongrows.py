"""Bugs that the ``replay`` checker must find: commits whose rows are not what their operation means, and missing files.

After the planted commit, later operations do what they mean on the rows that are there, and readers see them: the commit is the only
defect. If the bug needs two concurrent operations, the second is moved to begin before the first ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from checkers.evidence.history import Event
from checkers.evidence.paths import commit_uuid
from checkers.evidence.problem import Problem
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit, FileEntry, MissingFile
from checkers.selftest.lostcommits import statements
from checkers.selftest.mutation import Mutation, mutation
from checkers.selftest.world import Planted, Table, Version, World, acked, moved
from workloads.engines.engines import engine_of
from workloads.operations.kind import WriteSet
from workloads.tables import Row

FAR = 12
"""How many commits back a stale scan may be."""

UPDATES = ("update-register", "update-counter", "update-append", "merge-update", "merge-upsert")
"""Kinds that change rows by key."""


def net(removed: Iterable[Row], added: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """The changes without the rows on both sides."""
    minus, plus = Counter(removed), Counter(added)
    return sorted((minus - plus).elements(), key=str), sorted((plus - minus).elements(), key=str)


def planted(
    w: World,
    t: Table,
    k: int,
    removed: Iterable[Row],
    added: Iterable[Row],
    *others: str,
    events: Sequence[Event] | None = None,
) -> Planted | None:
    """The run in which the commit at position k did this; None when that is correct, or impossible."""
    minus, plus = net(removed, added)
    want = net(*t.meaning(t.op(k), k - 1))
    here = Counter(t.states[k - 1])
    if (minus, plus) == (sorted(want[0], key=str), sorted(want[1], key=str)) or Counter(minus) - here:
        return None
    log, after = w.with_rows(t, k, minus, plus, events)
    return w.planted(t.op(k).op, *others, log=log, events=after)


def under_way_since(w: World, t: Table, k: int, j: int) -> Sequence[Event]:
    """The operation at position k was invoked before anything after position j was acknowledged."""
    ends = [end for i in t.positions if i > j and i != k and (end := acked(t.op(i))) is not None]
    o = t.op(k)
    return moved(w.events, o.op, invoked_before=min(ends)) if ends and min(ends) < o.invoked.index else w.events


def by_key(t: Table) -> Iterator[int]:
    """Positions of acknowledged updates by key."""
    return (k for k in statements(t) if t.op(k).f in UPDATES)


def scans(w: World, t: Table, k: int) -> list[tuple[int, WriteSet]]:
    """Older positions where the operation at k means something else than at its parent, with that meaning; in random order."""
    o = t.op(k)
    now = t.meaning(o, k - 1)
    found = [(j, old) for j in range(max(1, k - FAR), k - 1) if (old := t.meaning(o, j)) != now]
    w.rng.shuffle(found)
    return found


# --- two concurrent operations ------------------------------------------------------------------------------------------


def _lost_update(w: World, column: str) -> Planted | None:
    """An update computed from an old scan replaces a row that has changed since."""
    for t, k in w.each(by_key):
        now = t.meaning(t.op(k), k - 1)
        for j, old in scans(w, t, k):
            pairs = list(zip(old.added, now.added, strict=False))
            same = len(old.added) == len(now.added) == len(now.removed) and all(a.id == b.id for a, b in pairs)
            if (
                same
                and len(old.removed) == len(old.added)
                and any(getattr(a, column) != getattr(b, column) for a, b in pairs)
            ):
                bug = planted(w, t, k, now.removed, old.added, events=under_way_since(w, t, k, j))
                if bug is not None:
                    return bug
    return None


LOST_UPDATE = "Adya's P4; https://jepsen.io/consistency/phenomena/p4"


@mutation("lost-update-register", "replay", "lost-update", seen=LOST_UPDATE)
def lost_update_register(w: World) -> Planted | None:
    """Of two concurrent updates of a row, the second restores the register's value from before the first."""
    return _lost_update(w, "val")


@mutation("lost-update-counter", "replay", "lost-update", "wrong-rows", seen=LOST_UPDATE)
def lost_update_counter(w: World) -> Planted | None:
    """Of two concurrent updates of a row, the second restores the counter from before the first: an increment is lost.

    If the two increments are equal, the second leaves the row unchanged, so its commit shows no change at all: ``wrong-rows``.
    """
    return _lost_update(w, "cnt")


@mutation("lost-update-list", "replay", "lost-update", seen=LOST_UPDATE)
def lost_update_list(w: World) -> Planted | None:
    """Of two concurrent updates of a row, the second restores the list from before the first: an element is lost."""
    return _lost_update(w, "log")


@mutation(
    "update-beside-update",
    "replay",
    "duplicate-row",
    seen="https://github.com/trinodb/trino/issues/31072: a filter of conflicts that is too narrow doubles keys",
)
def duplicated(w: World) -> Planted | None:
    """Two concurrent updates of one row both commit, each with its own version: one row becomes two."""
    for t, k in w.each(by_key):
        now = t.meaning(t.op(k), k - 1)
        for j, old in scans(w, t, k):
            changed = {r.id for r in old.removed} == {r.id for r in now.removed} and not set(old.removed) & set(
                now.removed
            )
            there = all(
                r.id in t.states[i] for r in old.removed for i in range(j, k)
            )  # updated, not deleted and inserted again
            if old.removed and changed and there and len(old.removed) == len(old.added) == len(now.removed):
                bug = planted(w, t, k, [], old.added, events=under_way_since(w, t, k, j))
                if bug is not None:
                    return bug
    return None


@mutation(
    "update-of-a-deleted-row",
    "replay",
    "resurrected-row",
    seen="Vanlightly, table-formats-tlaplus: UPDATE after DELETE without validateNoConflictingDeleteFiles",
)
def update_resurrects(w: World) -> Planted | None:
    """An update commits a row that a concurrent delete had removed."""
    for t, k in w.each(by_key):
        now = t.meaning(t.op(k), k - 1)
        if now.removed or now.added:
            continue
        for j, old in scans(w, t, k):
            if old.removed and len(old.removed) == len(old.added):
                bug = planted(w, t, k, [], old.added, events=under_way_since(w, t, k, j))
                if bug is not None:
                    return bug
    return None


@mutation(
    "undelete",
    "replay",
    "undelete",
    seen="Vanlightly, table-formats-tlaplus, and real Spark on v2 merge-on-read under snapshot isolation: MOR UPDATE first, DELETE second",
)
def undelete(w: World) -> Planted | None:
    """A delete leaves a row because a concurrent update had moved it to another file."""
    for t, k in w.each(lambda t: (n for n in statements(t) if t.op(n).f in ("delete", "delete-where", "merge-delete"))):
        now = t.meaning(t.op(k), k - 1)
        for j, old in scans(w, t, k):
            left = [r for r in old.removed if r in now.removed]
            gone = [r for r in old.removed if r not in now.removed]
            alive = {r.id for r in gone} & {r.id for r in now.removed}
            single = all(len(t.states[i].by_id(r.id)) == 1 for r in gone for i in range(j, k))
            if gone and alive and single and not any(t.kind(i).overwrites for i in range(j + 1, k)):
                bug = planted(w, t, k, left, [], events=under_way_since(w, t, k, j))
                if bug is not None:
                    return bug
    return None


@mutation(
    "delete-lost-to-compaction",
    "replay",
    "undelete",
    "wrong-rows",
    seen="https://github.com/trinodb/trino/issues/18393: a delete and OPTIMIZE at the same time",
)
def compaction_undeletes(w: World) -> Planted | None:
    """A delete removes rows of files that a concurrent compaction had replaced: the rows live on in the new files."""
    for t, k in w.each(lambda t: (n for n in statements(t) if t.op(n).f.startswith("delete"))):
        now = t.meaning(t.op(k), k - 1)
        at = w.choose(m for m in t.maintenance if k - FAR <= m < k)
        if at is None or not now.removed or t.meaning(t.op(k), at - 1) != now:
            continue
        replaced = [f.partition.get("part") for f in t.main[at - 1].removed_files if f.content == "data"]
        if all(None in replaced or r.part in replaced for r in now.removed):
            return planted(w, t, k, [], [], events=under_way_since(w, t, k, at - 1))
    return None


@mutation(
    "write-skew",
    "replay",
    "write-skew",
    seen="Adya's G2-item: https://jepsen.io/consistency/phenomena/a5b; https://github.com/apache/iceberg/issues/12653",
)
def write_skew(w: World) -> Planted | None:
    """On a serializable table, an operation commits what it meant at its scan, though what it read has changed since."""
    return at_scan(w, concurrent=True)


@mutation(
    "stale-scan",
    "replay",
    "stale-scan",
    seen="https://github.com/apache/iceberg/issues/14440: CachingCatalog serves a table that is long outdated",
)
def stale_scan(w: World) -> Planted | None:
    """An operation commits what it means at a state older than a write acknowledged before it was invoked."""
    return at_scan(w, concurrent=False)


def at_scan(w: World, *, concurrent: bool, any_level: bool = False) -> Planted | None:
    """An operation commits what it meant at an older state; ``any_level``: not only where the table promises serializability."""
    for t, k in w.each(statements):
        o = t.op(k)
        level = engine_of(o.engine).promise(o.f, t.spec).level or ("serializable" if any_level else t.spec.isolation)
        if level != "serializable" or engine_of(o.engine).promise(o.f, t.spec).at_commit:
            continue
        settled = t.settled(o.invoked.index)
        window = [t.meaning(o, j) for j in range(settled, k)]
        here = Counter(t.states[k - 1])
        for j, old in scans(w, t, k):
            there = not Counter(old.removed) - here
            if not there or old == ([], []) or (not concurrent and (j >= settled or old in window)):
                continue
            bug = planted(w, t, k, *old, events=under_way_since(w, t, k, j) if concurrent else None)
            if bug is not None:
                return bug
    return None


@mutation(
    "insert-select-from-the-wrong-state",
    "replay",
    "write-skew",
    "stale-scan",
    "wrong-rows",
    seen="https://github.com/apache/iceberg/issues/12653: an append validates nothing, whatever its query has read",
)
def insert_select(w: World) -> Planted | None:
    """INSERT … SELECT copies a row that has changed since."""
    for t, k in w.each(lambda t: (n for n in statements(t) if t.op(n).f == "insert-select")):
        now = t.meaning(t.op(k), k - 1)
        if now.added:
            r = w.rng.choice(now.added)
            before = r._replace(cnt=r.cnt + 1, log=f"{t.op(1).op},{r.log}")
            return planted(w, t, k, [], [before, *_minus(now.added, r)])
    return None


@mutation(
    "computed-from-what-main-lost",
    "replay",
    "vanished-read",
    seen="as main-moved-back: an operation that had read the lost commit builds on it",
)
def from_lost(w: World) -> Planted | None:
    """Main goes back below a commit, and the next operation commits what it had read there."""
    for t, k in w.each(lambda t: t.positions[1:-1]):
        made = {tuple(x.row) for x in t.main[k - 1].added or ()}
        if made & {tuple(x.row) for x in t.main[k].removed or ()}:
            m = t.versions[t.at(k)].metadata
            back = Version(replace(m, location=f"{m.location}.again"), main=t.main[k - 2].snapshot_id)
            n = t.at(k)
            return w.planted(t.op(k + 1).op, log=t.rebuilt([*t.versions[: n + 1], back, *t.versions[n + 1 :]]))
    return None


# --- maintenance --------------------------------------------------------------------------------------------------------


def _compactions(t: Table) -> Iterator[int]:
    return (k for k in t.maintenance if len(t.states[k - 1]))


@mutation(
    "compaction-resurrects-a-row",
    "replay",
    "resurrected-row",
    seen="https://github.com/apache/iceberg/issues/10312: compaction at the starting sequence number drops newer equality deletes",
)
def compaction_resurrects(w: World) -> Planted | None:
    """A compaction brings back a row that was deleted."""
    for t, k in w.each(_compactions):
        dead = {Row._make(x.row) for c in t.main[: k - 1] for x in c.removed or ()} - set(t.states[k - 1])
        if dead:
            return planted(w, t, k, [], [w.rng.choice(sorted(dead))])
    return None


@mutation(
    "compaction-drops-a-row",
    "replay",
    "compaction-changed-rows",
    seen="https://github.com/apache/iceberg/issues/9230: files are missing after a transaction's retry",
)
def compaction_drops(w: World) -> Planted | None:
    """A compaction leaves a row out."""
    for t, k in w.each(_compactions):
        return planted(w, t, k, [w.rng.choice(t.states[k - 1].rows())], [])
    return None


@mutation(
    "compaction-doubles-a-row",
    "replay",
    "compaction-changed-rows",
    "resurrected-row",
    seen="https://github.com/redpanda-data/redpanda/issues/4591: a file is in the table twice",
)
def compaction_doubles(w: World) -> Planted | None:
    """A compaction writes a row twice."""
    for t, k in w.each(_compactions):
        return planted(w, t, k, [], [w.rng.choice(t.states[k - 1].rows())])
    return None


@mutation(
    "compaction-changes-a-row",
    "replay",
    "compaction-changed-rows",
    seen="https://github.com/apache/iceberg/issues/10312: a compaction that restores an old version of a row",
)
def compaction_changes(w: World) -> Planted | None:
    """A compaction writes a row with another value."""
    for t, k in w.each(_compactions):
        r = w.rng.choice(t.states[k - 1].rows())
        return planted(w, t, k, [r], [w.rng.choice([r._replace(cnt=r.cnt + 1), r._replace(val=f"{r.val}?")])])
    return None


@mutation(
    "compaction-swaps-two-rows",
    "replay",
    "compaction-changed-rows",
    seen="columns read by position instead of by field id",
)
def compaction_swaps(w: World) -> Planted | None:
    """A compaction exchanges the values of two rows."""
    for t, k in w.each(_compactions):
        found = t.states[k - 1].rows()
        pairs = [(a, b) for a in found for b in found if a.id < b.id and a.val != b.val]
        if pairs:
            a, b = w.rng.choice(pairs)
            return planted(w, t, k, [a, b], [a._replace(val=b.val), b._replace(val=a.val)])
    return None


# --- one operation ------------------------------------------------------------------------------------------------------


def _minus(found: Iterable[Row], row: Row) -> list[Row]:
    left = list(found)
    left.remove(row)
    return left


def _operations(w: World, *kinds: str) -> Iterator[tuple[Table, int, WriteSet]]:
    """Statements of these kinds that change rows: table, position, meaning at the parent."""
    for t, k in w.each(lambda t: (n for n in statements(t) if t.op(n).f in kinds)):
        now = t.meaning(t.op(k), k - 1)
        if now != ([], []):
            yield t, k, now


@mutation(
    "predicate-update-misses-a-row",
    "replay",
    "wrong-rows",
    "undelete",
    "stale-scan",
    seen="https://github.com/apache/iceberg/issues/11765: MERGE and UPDATE that plan their files twice",
)
def predicate_misses(w: World) -> Planted | None:
    """An update by predicate leaves one of the matching rows unchanged."""
    for t, k, now in _operations(w, "update-register-where", "update-counter-where", "update-append-where"):
        r = w.rng.choice(now.removed)
        changed = next(x for x in now.added if x.id == r.id)
        return planted(w, t, k, _minus(now.removed, r), _minus(now.added, changed))
    return None


@mutation(
    "update-touches-another-row",
    "replay",
    "wrong-rows",
    "lost-update",
    seen="positions of a delete file applied to the wrong data file",
)
def update_too_much(w: World) -> Planted | None:
    """An update by key also changes a row of another key."""
    for t, k, now in _operations(w, *UPDATES):
        ids = set(t.op(k).value["ids"])
        other = w.choose(r for r in t.states[k - 1] if r.id not in ids)
        if other is not None:
            return planted(w, t, k, [*now.removed, other], [*now.added, other._replace(val=t.op(k).op)])
    return None


@mutation(
    "update-without-effect",
    "replay",
    "wrong-rows",
    "stale-scan",
    "undelete",
    seen="a statement whose filter was pushed down wrongly commits an empty snapshot",
)
def update_nothing(w: World) -> Planted | None:
    """An acknowledged update of an existing row changes nothing."""
    for t, k, now in _operations(w, "update-register", "update-counter", "update-append", "merge-update"):
        if now.removed:
            return planted(w, t, k, [], [])
    return None


@mutation(
    "update-moves-partition",
    "replay",
    "wrong-rows",
    seen="a partition value of the wrong spec in the file's metadata",
)
def update_moves(w: World) -> Planted | None:
    """An update moves a row to another partition."""
    for t, k, now in _operations(w, *UPDATES):
        r = w.rng.choice(now.added)
        return planted(w, t, k, now.removed, [*_minus(now.added, r), r._replace(part=r.part + 1)])
    return None


@mutation(
    "counter-counts-twice", "replay", "wrong-rows", seen="a task attempt that is committed twice (Spark speculation)"
)
def counts_twice(w: World) -> Planted | None:
    """An increment adds two."""
    for t, k, now in _operations(w, "update-counter", "update-counter-where", "merge-update"):
        return planted(w, t, k, now.removed, [r._replace(cnt=r.cnt + 1) for r in now.added])
    return None


@mutation("list-appends-twice", "replay", "wrong-rows", seen="Elle's duplicate-elements")
def appends_twice(w: World) -> Planted | None:
    """An append adds its element twice."""
    for t, k, now in _operations(w, "update-append", "update-append-where", "merge-update"):
        return planted(w, t, k, now.removed, [r._replace(log=f"{r.log},{t.op(k).op}") for r in now.added])
    return None


@mutation("list-in-another-order", "replay", "wrong-rows", seen="Elle's incompatible-order")
def list_order(w: World) -> Planted | None:
    """An append changes the order of the list."""
    for t, k, now in _operations(w, "update-append", "update-append-where", "merge-update"):
        long = [r for r in now.added if "," in r.log and len(set(r.log.split(","))) > 1]
        if long:
            r = w.rng.choice(long)
            shuffled = ",".join(reversed(r.log.split(",")))
            return planted(w, t, k, now.removed, [*_minus(now.added, r), r._replace(log=shuffled)])
    return None


@mutation(
    "delete-removes-too-much",
    "replay",
    "wrong-rows",
    "lost-update",
    seen="https://github.com/apache/iceberg/issues/16978: ManifestFilterManager's data race removes files that do not match",
)
def delete_too_much(w: World) -> Planted | None:
    """A delete removes a row that it does not select."""
    for t, k in w.each(lambda t: (n for n in statements(t) if t.op(n).f.startswith("delete"))):
        now = t.meaning(t.op(k), k - 1)
        other = w.choose(Counter(t.states[k - 1]) - Counter(now.removed))
        if other is not None:
            return planted(w, t, k, [*now.removed, other], [])
    return None


@mutation(
    "delete-leaves-a-row",
    "replay",
    "wrong-rows",
    "write-skew",
    "undelete",
    "stale-scan",
    seen="https://github.com/apache/iceberg/issues/16263 and other manifests that lose an entry",
)
def delete_too_little(w: World) -> Planted | None:
    """A delete of several rows leaves one of them."""
    for t, k, now in _operations(w, "delete", "delete-where", "delete-partition", "merge-delete"):
        return planted(w, t, k, _minus(now.removed, w.rng.choice(now.removed)), [])
    return None


@mutation(
    "delete-partition-takes-a-neighbour",
    "replay",
    "wrong-rows",
    "lost-update",
    seen="a metadata delete that trusts truncated column statistics",
)
def delete_neighbour(w: World) -> Planted | None:
    """A delete of a partition removes a row of another."""
    for t, k in w.each(lambda t: (n for n in statements(t) if t.op(n).f == "delete-partition")):
        now = t.meaning(t.op(k), k - 1)
        other = w.choose(r for r in t.states[k - 1] if r.part != t.op(k).value["part"])
        if other is not None:
            return planted(w, t, k, [*now.removed, other], [])
    return None


@mutation(
    "merge-inserts-twice",
    "replay",
    "duplicate-row",
    "wrong-rows",
    seen="https://github.com/apache/iceberg/issues/11787: MERGE reads its source twice",
)
def merge_twice(w: World) -> Planted | None:
    """A merge inserts a row twice."""
    for t, k, now in _operations(w, "merge-upsert", "merge-insert"):
        new = [r for r in now.added if r.id not in t.states[k - 1]]
        if new:
            return planted(w, t, k, now.removed, [*now.added, w.rng.choice(new)])
    return None


@mutation(
    "merge-inserts-what-is-there",
    "replay",
    "duplicate-row",
    "wrong-rows",
    "write-skew",
    "stale-scan",
    seen="https://github.com/apache/iceberg/issues/12653: MERGE with only an insert clause validates nothing",
)
def merge_blind(w: World) -> Planted | None:
    """A merge inserts a key that already exists."""
    for t, k in w.each(lambda t: (n for n in statements(t) if t.op(n).f in ("merge-upsert", "merge-insert"))):
        o, now = t.op(k), t.meaning(t.op(k), k - 1)
        there = [i for i in o.value["ids"] if i in t.states[k - 1]]
        if there:
            i = w.rng.choice(there)
            new = Row(i, o.op, 0, o.op, t.states[k - 1].by_id(i)[0].part)
            removed = [r for r in now.removed if r.id != i]
            return planted(w, t, k, removed, [*(r for r in now.added if r.id != i), new])
    return None


@mutation(
    "merge-loses-a-row",
    "replay",
    "wrong-rows",
    "lost-update",
    seen="https://github.com/apache/iceberg/issues/11765: MERGE whose source changes between its two scans loses rows",
)
def merge_loses(w: World) -> Planted | None:
    """A merge removes a row's old version and does not write the new one."""
    for t, k, now in _operations(w, "merge-upsert", "merge-update"):
        changed = [r for r in now.added if r.id in t.states[k - 1]]
        if changed:
            return planted(w, t, k, now.removed, _minus(now.added, w.rng.choice(changed)))
    return None


@mutation(
    "insert-loses-a-row",
    "replay",
    "wrong-rows",
    seen="https://github.com/apache/iceberg/issues/9354: rows lost with a retry",
)
def insert_loses(w: World) -> Planted | None:
    """An insert leaves one of its rows out."""
    for t, k, now in _operations(w, "insert"):
        return planted(w, t, k, [], _minus(now.added, w.rng.choice(now.added)))
    return None


@mutation(
    "insert-doubles-a-row",
    "replay",
    "wrong-rows",
    "duplicate-row",
    seen="https://github.com/apache/iceberg/issues/16008; two attempts of one task",
)
def insert_doubles(w: World) -> Planted | None:
    """An insert writes one of its rows twice."""
    for t, k, now in _operations(w, "insert", "insert-select"):
        return planted(w, t, k, [], [*now.added, w.rng.choice(now.added)])
    return None


@mutation("insert-of-another-value", "replay", "wrong-rows", seen="rows of another task's file in the commit")
def insert_wrong(w: World) -> Planted | None:
    """An insert writes a value that another operation writes."""
    for t, k, now in _operations(w, "insert"):
        r = w.rng.choice(now.added)
        return planted(w, t, k, [], [*_minus(now.added, r), r._replace(val=t.op(1).op + "-other")])
    return None


@mutation(
    "column-nulled",
    "replay",
    "wrong-rows",
    seen="a field id that changed (https://github.com/apache/iceberg/issues/14093): the column is read as null",
)
def nulled(w: World) -> Planted | None:
    """A commit replaces a value with null."""
    for t, k, now in _operations(w, "update-counter", "update-append", "merge-upsert"):
        r = w.rng.choice(now.added)
        null = r._replace(val=None)  # type: ignore[arg-type]
        log, _ = w.with_rows(t, k, now.removed, [*_minus(now.added, r), null], follow=False)
        return w.planted(t.op(k).op, log=log)
    return None


# --- missing files ------------------------------------------------------------------------------------------------------


def live(commits: Iterable[Commit]) -> dict[tuple[str, str | None], FileEntry]:
    """The files of a table after these commits, by path and by what they reference (a Puffin file holds several vectors)."""
    out: dict[tuple[str, str | None], FileEntry] = {}
    for c in commits:
        for f in c.removed_files:
            out.pop((f.path, f.referenced), None)
        out |= {(f.path, f.referenced): f for f in c.added_files}
    return out


def plant_missing(w: World, content: str) -> Planted | None:
    """A live file is not in the store: a data file, or (``deletes``) a delete file or vector."""
    found = []
    for t in w.tables:
        listed = set(t.log.metadata[-1].snapshots)
        for f in live(t.main).values():
            if (f.content == "data") == (content == "data"):
                found.append((t, f.path, f.snapshot_id, listed))
    if not found:
        return None
    t, path, snapshot, listed = w.rng.choice(sorted(found, key=lambda x: (x[0].name, x[1])))
    holders = [c.snapshot_id for k, c in enumerate(t.main, 1) if any(p == path for p, _ in live(t.main[:k]))]
    needed = tuple(s for s in holders if s in listed)
    makers = {c.op for c in t.main if c.snapshot_id == snapshot and c.op is not None}
    return w.planted(*makers, log=replace(t.log, missing_files=(MissingFile(path, needed),)))


DELETED_LIVE = (
    "JDBC catalog, connection cut after UPDATE 1: the client considers its commit failed and deletes its files"
)


@mutation("data-file-missing", "replay", "missing-file", seen=DELETED_LIVE)
def data_missing(w: World) -> Planted | None:
    """A data file of the current snapshot is not in the store."""
    return plant_missing(w, "data")


@mutation("delete-file-missing", "replay", "missing-file", seen=DELETED_LIVE)
def deletes_missing(w: World) -> Planted | None:
    """A delete file or deletion vector of the current snapshot is not in the store."""
    return plant_missing(w, "deletes")


@mutation(
    "manifest-list-missing",
    "replay",
    "missing-file",
    seen="https://github.com/apache/iceberg/issues/14583: a retry that finds nothing to do deletes the live snapshot's manifest list",
)
def manifest_list_missing(w: World) -> Planted | None:
    """The manifest list of a listed snapshot is not in the store."""
    for t, k in w.each(lambda t: (n for n in t.positions if t.main[n - 1].snapshot_id in t.log.metadata[-1].snapshots)):
        c = t.main[k - 1]
        return w.planted(
            t.op(k).op, log=replace(t.log, missing_files=(MissingFile(c.manifest_list, (c.snapshot_id,)),))
        )
    return None


@mutation(
    "manifest-missing",
    "replay",
    "missing-file",
    seen="https://github.com/apache/iceberg/issues/9230: manifests that a retry had merged are deleted",
)
def manifest_missing(w: World) -> Planted | None:
    """A manifest that several snapshots share is not in the store."""
    t = w.choose(w.tables)
    if t is None:
        return None
    listed = [k for k in t.positions if t.main[k - 1].snapshot_id in t.log.metadata[-1].snapshots]
    first = w.rng.choice(listed)
    writer = w.rng.randint(1, first)  # a manifest may be older than the snapshots that still need it
    wrote = commit_uuid(t.main[writer - 1].manifest_list)
    if wrote is None:
        return None
    needed = tuple(t.main[k - 1].snapshot_id for k in listed if k >= first)
    file = f"metadata/{wrote}-m{w.rng.randrange(3)}.avro"
    return w.planted(t.op(writer).op, log=replace(t.log, missing_files=(MissingFile(file, needed),)))


@mutation(
    "metadata-file-missing",
    "replay",
    "missing-file",
    seen="https://github.com/apache/iceberg/issues/11814: Hive Metastore's client retries, and the metadata is deleted as after a failure",
)
def metadata_missing(w: World) -> Planted | None:
    """The catalog's pointer names a metadata file that is not in the store."""
    t = w.choose(t for t in w.tables if t.log.captures)
    if t is None:
        return None
    location = f"{t.log.location}/metadata/99999-gone.metadata.json"
    captures = (*t.log.captures[:-1], replace(t.log.captures[-1], metadata=location))
    said = Problem("missing-metadata", f"metadata file {location} is missing", location)
    log = replace(t.log, captures=captures, problems=(*t.log.problems, said))
    return w.planted(log=log, nobody="the file is in no version, so nothing says who wrote it")


MUTATIONS: tuple[Mutation, ...] = (
    lost_update_register,
    lost_update_counter,
    lost_update_list,
    duplicated,
    update_resurrects,
    undelete,
    compaction_undeletes,
    write_skew,
    stale_scan,
    insert_select,
    from_lost,
    compaction_resurrects,
    compaction_drops,
    compaction_doubles,
    compaction_changes,
    compaction_swaps,
    predicate_misses,
    update_too_much,
    update_nothing,
    update_moves,
    counts_twice,
    appends_twice,
    list_order,
    delete_too_much,
    delete_too_little,
    delete_neighbour,
    merge_twice,
    merge_blind,
    merge_loses,
    insert_loses,
    insert_doubles,
    insert_wrong,
    nulled,
    data_missing,
    deletes_missing,
    manifest_list_missing,
    manifest_missing,
    metadata_missing,
)
"""In the order of the file."""
