"""Bugs that the ``commits`` checker must find: writes that are lost, duplicated, of unknown origin, or in an impossible order.

Most of them are traces of a lost acknowledgement, a retry or a commit without compare-and-swap in the chain of snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import ICEBERG, RowChange
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import iceberg_log
from checkers.selftest import edits
from checkers.selftest.goodtable import Edit, GoodTable, GoodVersion, acked, native, totals
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.sites import CommitSite, commits, maintenance, pick, statements
from checkers.selftest.world import CATALOG_DID_IT, Planted, World
from checkers.timeline.two_tables import tables_of
from nemesis.operation_key import OPERATION_KEY
from workloads.operations.kinds import KINDS


def certain(t: GoodTable) -> Iterable[int]:
    """Positions of acknowledged statements that had something to change at every state that they can have seen."""
    return (k for k in statements(t) if always_changes(t, t.op(k)))


def always_changes(t: GoodTable, o: Operation) -> bool:
    """Whether an operation changes something at every state that it can have seen."""
    assert o.completed is not None
    window = range(t.settled(o.invoked.index), t.reached(o.completed.index) + 1)
    return all(t.meaning(o, j) != ([], []) for j in window)


def ends_before(t: GoodTable, a: int, b: int) -> bool:
    """Whether the operation at position a was acknowledged before that at position b was invoked."""
    end = acked(t.op(a))
    return end is not None and end < t.op(b).invoked.index


# --- lost -------------------------------------------------------------------------------------------------------------


def overtaken(p: CommitSite) -> Planted:
    """The next commit is made on the parent of this one."""
    versions = list(p.t.versions)
    n = p.t.version_of(p.k + 1)
    versions[n] = replace(versions[n], parent=p.parent.snapshot_id)
    return p.planted(log=p.t.counted_from(p.t.rebuilt(versions), p.k + 1, p.k - 1))


def set_back(least: int, most: int) -> Callable[[CommitSite], Planted | None]:
    """After the commit, main goes back by so many."""

    def change(p: CommitSite) -> Planted | None:
        to = p.k - p.w.rng.randint(least, most)
        return p.planted(log=p.t.set_back(p.n, to)) if to >= 1 else None

    return change


def set_back_last(p: CommitSite) -> Planted:
    """Finally, main goes back below an acknowledged commit."""
    n = len(p.t.versions) - 1
    return p.planted(log=p.t.set_back(n, p.k - 1))


def never_applied(w: World) -> Planted | None:
    """A refused commit is acknowledged."""
    tables = {t.name: t for t in w.tables}
    refused = (o for o in w.operations.values() if o.type == "fail" and KINDS[o.f].writes and KINDS[o.f].changes_rows)
    for o in w.shuffled(refused):
        t = tables.get(o.table or "")
        if t is not None and o.op not in t.position and always_changes(t, o):
            return w.planted(o.op, events=edits.completed(w.events, o.op, "ok"))
    return None


def first_lost(w: World) -> Planted | None:
    """The second commit has no parent: the table starts anew."""
    t = w.choose(t for t in w.tables if len(t.main) > 1 and t.op(1).type == "ok")
    if t is None:
        return None
    return w.planted(t.op(1).op, log=t.counted_from(t.with_commit(2, parent_id=None), 2, 0))


def of_another_parent(p: CommitSite) -> Planted | None:
    """A snapshot names the parent of its parent, or none, though it was made on its parent: the totals of its summary say so."""
    passed, before = p.w.rng.choice([p.t.main[p.k - 3], None]) if p.k > 2 else None, p.t.op(p.k - 1)
    same = totals(p.parent.summary) == totals(passed.summary if passed is not None else {})
    if before.type != "ok" or before.op == p.o.op or same or not totals(p.c.summary):
        return None
    log = p.t.with_commit(p.k, parent_id=None if passed is None else passed.snapshot_id)
    return p.planted(before.op, log=log)


LOST_PLANTS: Plants = {
    "lost-commit-overtaken": Plant(
        overtaken,
        where=commits(statements, lambda p: not p.last),
        seen="projectnessie/nessie#10062; HMS without HIVE-26882 and without locks",
        does="A commit is made on the parent of an acknowledged one, which stays listed but is no longer an ancestor of main.",
    ),
    "lost-commit-vanished: An acknowledged write is in no snapshot of any metadata version.": Plant(
        lambda p: p.planted(log=p.t.without(p.k)),
        where=commits(certain),
        seen="apache/iceberg#16232 (CREATE OR REPLACE commits a stale list of snapshots)",
    ),
    "main-moved-back": Plant(
        set_back(1, 1),
        where=commits(statements),
        seen="JDBC catalog with a cut connection, REST catalog with 503 + Retry-After after apply: SnapshotProducer.apply re-applies its own "
        "snapshot as if it were a rollback",
        does="After a lost acknowledgement a commit is applied a second time: main goes back to it, below a commit acknowledged since then.",
    ),
    "main-moved-back-far: Main goes back below several acknowledged commits.": Plant(
        set_back(2, 5),
        where=commits(statements),
        seen="https://github.com/apache/polaris (rollback.compaction.on-conflicts.enabled, polaris#1285); a late rollback_to_snapshot",
    ),
    "main-moved-back-at-the-end": Plant(
        set_back_last,
        where=commits(lambda t: list(statements(t))[-1:]),
        seen="as main-moved-back, without a later writer",
    ),
    "compaction-lost: An acknowledged procedure's snapshot is not in main's ancestry.": Plant(
        overtaken,
        where=commits(maintenance, lambda p: not p.last),
        seen="polaris#1285: a compaction that was acknowledged is rolled back on conflict",
    ),
    "acknowledged-but-never-applied": Plant(
        never_applied, where=whole, seen="apache/amoro#4290: the catalog swallowed a failed commit and answered 200"
    ),
    "parent-passed-over": Plant(
        of_another_parent,
        where=commits(lambda t: t.positions[1:]),
        seen="SnapshotProducer.apply takes the parent from the base that it just refreshed; a retry that keeps files and totals of another",
        neutral=False,
    ),
    "first-commit-lost": Plant(
        first_lost,
        where=whole,
        seen="projectnessie/nessie#10062: two first commits to an empty table overwrite each other",
    ),
}


# --- twice ------------------------------------------------------------------------------------------------------------


def twin(w: World, c: Commit) -> Commit:
    """A copy of a snapshot, with its own id and files."""
    snapshot = w.rng.randrange(1, 2**63)
    files = {f.path: f"{f.path}.{snapshot % 1000}" for f in c.added_files}

    def placed(x: RowChange) -> RowChange:
        return replace(x, file=files.get(x.file, x.file), by=None if x.by is None else files.get(x.by, x.by))

    copy = replace(
        c,
        snapshot_id=snapshot,
        added=tuple(map(placed, c.added or ())),
        removed=tuple(map(placed, c.removed or ())),
        added_files=tuple(native(replace(f, path=files[f.path]), snapshot_id=snapshot) for f in c.added_files),
    )
    return native(copy, manifest_list=f"metadata/snap-{snapshot}-1-x.avro")


def version_of(t: GoodTable, n: int, c: Commit) -> GoodVersion:
    """A metadata version that shows a new commit, after the n-th."""
    m = t.versions[n].metadata
    return GoodVersion(replace(m, location=m.location.replace(".metadata.json", f"-{c.snapshot_id}.metadata.json")), c)


def committed_again(p: CommitSite, k: int) -> Planted:
    """The commit is there a second time, after position k."""
    n = p.t.version_of(k)
    return p.planted(log=p.t.after(n, version_of(p.t, n, twin(p.w, p.c))))


def unknown_twice(p: CommitSite) -> Planted:
    """An operation of unknown outcome takes effect, and then a second time."""
    bug = committed_again(p, p.w.rng.randint(p.k, len(p.t.main)))
    events = edits.completed(p.w.events, p.o.op, "info", [edits.NO_ANSWER])
    return p.planted(log=iceberg_log(bug.evidence.logs[p.t.name]), events=events)


TWICE: Plants = {
    "double-apply: One statement's commit is applied twice in a row.": Plant(
        lambda p: committed_again(p, p.k),
        seen="a load balancer that sends the POST again; redpanda#4591: the same files in two snapshots",
    ),
    "duplicate-commit-later: One operation has two snapshots, with others between them.": Plant(
        lambda p: committed_again(p, p.w.rng.randint(p.k + 1, len(p.t.main))),
        where=commits(statements, lambda p: p.k + 2 <= len(p.t.main)),
        seen="apache/iceberg#16008: a restarted committer commits again what it had committed",
    ),
    "unknown-outcome-applied-twice": Plant(
        unknown_twice, seen="CommitStateUnknownException, then the late request and its retry both take effect"
    ),
}


# --- failed, but committed; of unknown origin -------------------------------------------------------------------------


def foreign(p: CommitSite, o: Operation, rows: Edit = ((), ())) -> Planted:
    """After the commit there is one like it, of another operation and with other rows."""
    own = twin(p.w, p.c)
    path = f"data/{own.snapshot_id}.parquet"
    removed, added = rows
    made = replace(
        own,
        op=o.op,
        added=tuple(RowChange(tuple(r), path, n) for n, r in enumerate(added)),
        removed=tuple(RowChange(tuple(r), path, n, f"{path}.deletes") for n, r in enumerate(removed)),
        added_files=(),
        removed_files=(),
    )
    if p.t.log.table_format == ICEBERG:
        summary = {**own.summary, OPERATION_KEY: o.op}
        made = replace(made, summary=summary, added_rows=None if own.added_rows is None else 0)
    return p.w.planted(o.op, log=p.t.after(p.n, version_of(p.t, p.n, made)))


def aborted_visible(p: CommitSite) -> Planted | None:
    """A refused operation has a snapshot on main nevertheless, with the rows that it means there."""
    failed = [
        o
        for o in p.w.operations.values()
        if (o.table, o.type) == (p.t.name, "fail")
        and KINDS[o.f].changes_rows
        and o.completed is not None
        and p.t.settled(o.invoked.index) <= p.k <= p.t.reached(o.completed.index)
        and o.op not in p.t.position
    ]
    o = p.w.choose(failed)
    return None if o is None else foreign(p, o, p.t.meaning(o, p.k))


def wrong_table(p: CommitSite) -> Planted | None:
    """A table's main has a snapshot of an operation on another table."""
    other = p.w.choose(x for x in p.w.tables if x.name != p.t.name)
    if other is None:
        return None
    strangers = [j for j in other.positions if p.t.name not in tables_of(other.op(j))]
    return foreign(p, other.op(p.w.rng.choice(strangers)))


FOREIGN: Plants = {
    "false-failure: A commit that took effect is reported as a definite conflict.": Plant(
        lambda p: p.planted(
            events=edits.completed(
                p.w.events, p.o.op, "fail", [p.w.rng.choice([edits.CONFLICT_ERROR, edits.REFUSED_ERROR])]
            )
        ),
        "false-failure",
        seen="JDBC catalog, connection cut after UPDATE 1: the retry meets its own snapshot and fails (apache/polaris#5459 is another)",
    ),
    "aborted-operation-visible": Plant(
        aborted_visible,
        "false-failure",
        where=commits(lambda t: t.positions),
        seen="apache/iceberg#16971: a procedure that reports failure although it committed; zombie requests",
    ),
    "snapshot-of-nobody: Main has a snapshot of an operation that nobody invoked.": Plant(
        lambda p: foreign(p, replace(p.o, op=f"{p.o.op}-nobody")),
        seen="two clusters on one catalog; remains of an older run of the same table",
    ),
    "commit-in-the-wrong-table": Plant(wrong_table, seen="apache/iceberg#17213: tables that share a location"),
    "read-that-commits: A snapshot on main says that a read made it.": Plant(
        pick(lambda p: p.t.reads, foreign),
        seen="EnvironmentContext is one map a JVM: an operation's id on another's snapshot",
    ),
}


# --- in an impossible order, or back ----------------------------------------------------------------------------------


def swapped(p: CommitSite) -> Planted:
    """Two neighbours on main are in the opposite of their real-time order."""
    a, b = p.n, p.t.version_of(p.k + 1)
    versions = list(p.t.versions)
    versions[a], versions[b] = replace(versions[a], commit=p.t.main[p.k]), replace(versions[b], commit=p.c)
    return p.w.planted(p.t.op(p.k + 1).op, p.o.op, log=p.t.rebuilt(versions))


def too_early(p: CommitSite) -> Planted | None:
    """A commit is on main below one that was acknowledged before the operation was invoked."""
    settled = p.t.settled(p.o.invoked.index)
    if settled < 1:
        return None
    to = p.w.rng.randint(1, settled)
    n = p.t.version_of(to)
    versions = [v for m, v in enumerate(p.t.versions) if m != p.n]
    late = [p.t.op(j).op for j in range(to, p.k) if ends_before(p.t, j, p.k)]
    return p.planted(*late, log=p.t.rebuilt([*versions[:n], p.t.versions[p.n], *versions[n:]]))


def out_of_order(p: CommitSite) -> Planted | None:
    """An operation ran after another was acknowledged, yet its commit is the earlier of the two."""
    a, b = p.o, p.t.op(p.k + 1)
    end = acked(b)
    if end is None or a.type != "ok" or not p.t.kind(p.k).changes_rows:
        return None
    events = edits.alone(p.w.events, a.op)  # it is invoked and ends after b's acknowledgement
    first, rest = ([e for e in events if (e.op == a.op) is own] for own in (True, False))
    return p.w.planted(b.op, a.op, events=edits.inserted(rest, end + 1 - sum(i <= end for i in a.indices), first))


def table_lost(w: World) -> Planted | None:
    """The catalog no longer has a pointer for the table."""
    t = w.choose(w.tables)
    return w.planted(log=t.with_capture(-1, None), nobody=CATALOG_DID_IT) if t is not None and t.log.captures else None


def rollback_forgotten(p: CommitSite) -> Planted | None:
    """A rollback to an old snapshot is acknowledged, and main never goes there."""
    t = p.t
    late = [e for j in range(len(t.main) * 3 // 4, len(t.main)) if (e := acked(t.op(j))) is not None]
    answer = {"snapshot": p.c.snapshot_id, "rows": [[t.main[-1].snapshot_id, p.c.snapshot_id]]}
    more = edits.answered(edits.fresh(p.w.events), "rollback", t.name, {"back": 9}, "back", answer)
    return p.w.planted("back", events=edits.inserted(p.w.events, min(late), more)) if late else None


ORDER_PLANTS: Plants = {
    "commits-swapped": Plant(
        swapped,
        where=commits(lambda t: (k for k in t.positions[1:-1] if ends_before(t, k, k + 1))),
        seen="Jepsen's real-time anomalies (strict serializability): https://jepsen.io/consistency/models/strict-serializable",
    ),
    "commit-before-its-invocation": Plant(
        too_early,
        where=commits(lambda t: t.positions[2:]),
        seen="a clock, or a stale base: a commit takes effect below commits that others have built on",
    ),
    "completed-out-of-order": Plant(
        out_of_order,
        where=commits(lambda t: t.positions[1:-1]),
        seen="an acknowledgement before the commit: write-behind catalogs, seaweedfs/seaweedfs#10775",
    ),
    "table-lost": Plant(
        table_lost,
        "lost-table",
        where=whole,
        seen="projectnessie/nessie#8413; a create-or-replace that failed half way",
    ),
    "rollback-forgotten": Plant(
        rollback_forgotten,
        "lost-rollback",
        where=commits(lambda t: range(2, len(t.main) // 4)),
        seen="rollback_to_snapshot and another commit: the last writer wins (SetSnapshotOperation)",
    ),
}


PLANTS = (
    *table(LOST_PLANTS, "commits", names="lost-commit", neutral=True),
    *table(TWICE, "commits", names="duplicate-commit", where=commits(statements), neutral=True),
    *table(FOREIGN, "commits", names="unknown-commit", where=commits(statements), neutral=True),
    *table(ORDER_PLANTS, "commits", names="commit-order", neutral=True),
)
