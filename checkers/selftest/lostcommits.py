"""Bugs that the ``commits`` checker must find: writes that are lost, duplicated, of unknown origin, or in an impossible order.

Most of them are traces of a lost acknowledgement, a retry or a commit without compare-and-swap in the chain of snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable

from checkers.evidence.history import Event, Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit, RowChange, TableLog
from checkers.selftest.mutation import Mutation, mutation
from checkers.selftest.world import (
    CATALOG,
    Planted,
    Table,
    Version,
    World,
    acked,
    alone,
    completed,
    fresh,
    inserted,
)
from checkers.timeline.two_tables import tables_of
from workloads.operations.kinds import KINDS
from workloads.tables import Row

CONFLICT = [("org.apache.iceberg.exceptions.CommitFailedException", "Commit failed: branch main has changed")]
REFUSED = [("org.apache.iceberg.exceptions.ValidationException", "Missing required files to delete")]
NO_ANSWER = [("org.apache.iceberg.exceptions.CommitStateUnknownException", "Service failed: 504")]


def statements(t: Table) -> Iterable[int]:
    """Positions of acknowledged statements of the main phase."""
    return (k for k in t.positions if k > 1 and t.kind(k).changes_rows and t.op(k).type == "ok")


def certain(t: Table) -> Iterable[int]:
    """Those of them that had something to change at every state that they can have seen."""
    return (k for k in statements(t) if always_changes(t, t.op(k)))


def always_changes(t: Table, o: Operation) -> bool:
    """Whether an operation changes something at every state that it can have seen."""
    assert o.completed is not None
    window = range(t.settled(o.invoked.index), t.reached(o.completed.index) + 1)
    return all(t.meaning(o, j) != ([], []) for j in window)


def without(t: Table, k: int) -> TableLog:
    """The log as if the commit at position k had never been made."""
    gone = t.main[k - 1].snapshot_id
    versions = [
        replace(v, dropped=tuple(s for s in v.dropped if s != gone)) for n, v in enumerate(t.versions) if n != t.at(k)
    ]
    return t.rebuilt(versions)


def twin(w: World, c: Commit, **changes: object) -> Commit:
    """A copy of a snapshot, with its own id and files."""
    snapshot = w.rng.randrange(1, 2**63)
    files = {f.path: f"{f.path}.{snapshot % 1000}" for f in c.added_files}

    def placed(x: RowChange) -> RowChange:
        return replace(x, file=files.get(x.file, x.file), by=None if x.by is None else files.get(x.by, x.by))

    again = replace(
        c,
        snapshot_id=snapshot,
        manifest_list=f"metadata/snap-{snapshot}-1-x.avro",
        added=tuple(map(placed, c.added or ())),
        removed=tuple(map(placed, c.removed or ())),
        added_files=tuple(replace(f, path=files[f.path], snapshot_id=snapshot) for f in c.added_files),
    )
    return replace(again, **changes)


def version_of(t: Table, n: int, c: Commit) -> Version:
    """A metadata version that shows a new commit, after the n-th."""
    m = t.versions[n].metadata
    return Version(replace(m, location=m.location.replace(".metadata.json", f"-{c.snapshot_id}.metadata.json")), c)


def after(t: Table, n: int, *more: Version) -> TableLog:
    """The log with versions inserted after the n-th."""
    return t.rebuilt([*t.versions[: n + 1], *more, *t.versions[n + 1 :]])


def made_by(w: World, c: Commit, o: Operation, removed: Iterable[Row], added: Iterable[Row]) -> Commit:
    """A snapshot like ``c``, of another operation and with other rows."""
    again = twin(w, c)
    path = f"data/{again.snapshot_id}.parquet"
    return replace(
        again,
        op=o.op,
        summary={**c.summary, "icequake-op": o.op},
        added=tuple(RowChange(tuple(r), path, n) for n, r in enumerate(added)),
        removed=tuple(RowChange(tuple(r), path, n, f"{path}.deletes") for n, r in enumerate(removed)),
        added_files=(),
        removed_files=(),
        added_rows=None if c.added_rows is None else 0,
    )


# --- lost -------------------------------------------------------------------------------------------------------------


@mutation(
    "lost-commit-overtaken",
    "commits",
    "lost-commit",
    seen="https://github.com/projectnessie/nessie/issues/10062; HMS without HIVE-26882 and without locks",
)
def overtaken(w: World) -> Planted | None:
    """A commit is made on the parent of an acknowledged one, which stays listed but is no longer an ancestor of main."""
    for t, k in w.each(statements):
        if k < len(t.main):
            n = t.at(k + 1)
            parent = t.main[k - 2].snapshot_id
            versions = [*t.versions[:n], replace(t.versions[n], parent=parent), *t.versions[n + 1 :]]
            return w.planted(t.op(k).op, log=t.rebuilt(versions))
    return None


@mutation(
    "lost-commit-vanished",
    "commits",
    "lost-commit",
    seen="https://github.com/apache/iceberg/issues/16232 (CREATE OR REPLACE commits a stale list of snapshots)",
)
def vanished(w: World) -> Planted | None:
    """An acknowledged write is in no snapshot of any metadata version."""
    for t, k in w.each(certain):
        return w.planted(t.op(k).op, log=without(t, k))
    return None


@mutation(
    "main-moved-back",
    "commits",
    "lost-commit",
    seen="JDBC catalog with a cut connection, REST catalog with 503 + Retry-After after apply: SnapshotProducer.apply re-applies its own "
    "snapshot as if it were a rollback",
)
def moved_back(w: World) -> Planted | None:
    """After a lost acknowledgement a commit is applied a second time: main goes back to it, below a commit acknowledged since then."""
    return _set_back(w, 1, 1)


@mutation(
    "main-moved-back-far",
    "commits",
    "lost-commit",
    seen="https://github.com/apache/polaris (rollback.compaction.on-conflicts.enabled, polaris#1285); a late rollback_to_snapshot",
)
def moved_back_far(w: World) -> Planted | None:
    """Main goes back below several acknowledged commits."""
    return _set_back(w, 2, 5)


@mutation(
    "main-moved-back-at-the-end",
    "commits",
    "lost-commit",
    seen="as main-moved-back, without a later writer",
)
def moved_back_last(w: World) -> Planted | None:
    """Finally, main goes back below an acknowledged commit."""
    for t, k in w.each(lambda t: list(statements(t))[-1:]):
        last = t.versions[-1].metadata
        again = Version(replace(last, location=f"{last.location}.again"), main=t.main[k - 2].snapshot_id)
        return w.planted(t.op(k).op, log=t.rebuilt([*t.versions, again]))
    return None


def _set_back(w: World, least: int, most: int) -> Planted | None:
    for t, k in w.each(statements):
        lost = w.rng.randint(least, most)
        if k - lost >= 1:
            n = t.at(k)
            m = t.versions[n].metadata
            back = Version(replace(m, location=f"{m.location}.again"), main=t.main[k - lost - 1].snapshot_id)
            return w.planted(t.op(k).op, log=after(t, n, back))
    return None


@mutation(
    "compaction-lost",
    "commits",
    "lost-commit",
    seen="polaris#1285: a compaction that was acknowledged is rolled back on conflict",
)
def compaction_lost(w: World) -> Planted | None:
    """An acknowledged procedure's snapshot is not in main's ancestry."""
    for t, k in w.each(lambda t: t.maintenance):
        if k < len(t.main):
            n = t.at(k + 1)
            parent = t.main[k - 2].snapshot_id
            versions = [*t.versions[:n], replace(t.versions[n], parent=parent), *t.versions[n + 1 :]]
            return w.planted(t.op(k).op, log=t.rebuilt(versions))
    return None


@mutation(
    "acknowledged-but-never-applied",
    "commits",
    "lost-commit",
    seen="https://github.com/apache/amoro/issues/4290: the catalog swallowed a failed commit and answered 200",
)
def never_applied(w: World) -> Planted | None:
    """A refused commit is acknowledged."""
    tables = {t.name: t for t in w.tables}
    o = w.first(
        (o for o in w.operations.values() if o.type == "fail" and KINDS[o.f].writes and KINDS[o.f].changes_rows),
        lambda o: o.table in tables and o.op not in tables[o.table].position and always_changes(tables[o.table], o),
    )
    return None if o is None else w.planted(o.op, events=completed(w.events, o.op, "ok"))


@mutation(
    "first-commit-lost",
    "commits",
    "lost-commit",
    seen="https://github.com/projectnessie/nessie/issues/10062: two first commits to an empty table overwrite each other",
)
def first_lost(w: World) -> Planted | None:
    """The second commit has no parent: the table starts anew."""
    t = w.choose(t for t in w.tables if len(t.main) > 1 and t.op(1).type == "ok")
    if t is None:
        return None
    log = t.log
    second = replace(t.main[1], parent_id=None)
    return w.planted(
        t.op(1).op,
        log=replace(log, commits=tuple(second if c.snapshot_id == second.snapshot_id else c for c in log.commits)),
    )


# --- twice ------------------------------------------------------------------------------------------------------------


@mutation(
    "double-apply",
    "commits",
    "duplicate-commit",
    seen="a load balancer that sends the POST again; redpanda#4591: the same files in two snapshots",
)
def double_apply(w: World) -> Planted | None:
    """One statement's commit is applied twice in a row."""
    for t, k in w.each(statements):
        n = t.at(k)
        return w.planted(t.op(k).op, log=after(t, n, version_of(t, n, twin(w, t.main[k - 1]))))
    return None


@mutation(
    "duplicate-commit-later",
    "commits",
    "duplicate-commit",
    seen="https://github.com/apache/iceberg/issues/16008: a restarted committer commits again what it had committed",
)
def duplicate_later(w: World) -> Planted | None:
    """One operation has two snapshots, with others between them."""
    for t, k in w.each(statements):
        if k + 2 <= len(t.main):
            n = t.at(w.rng.randint(k + 1, len(t.main)))
            return w.planted(t.op(k).op, log=after(t, n, version_of(t, n, twin(w, t.main[k - 1]))))
    return None


@mutation(
    "unknown-outcome-applied-twice",
    "commits",
    "duplicate-commit",
    seen="CommitStateUnknownException, then the late request and its retry both take effect",
)
def unknown_twice(w: World) -> Planted | None:
    """An operation of unknown outcome takes effect, and then a second time."""
    for t, k in w.each(statements):
        o, n = t.op(k), t.at(w.rng.randint(k, len(t.main)))
        events = completed(w.events, o.op, "info", NO_ANSWER)
        return w.planted(o.op, log=after(t, n, version_of(t, n, twin(w, t.main[k - 1]))), events=events)
    return None


# --- failed, but committed --------------------------------------------------------------------------------------------


@mutation(
    "false-failure",
    "commits",
    "false-failure",
    seen="JDBC catalog, connection cut after UPDATE 1: the retry meets its own snapshot and fails (apache/polaris#5459 is another)",
)
def false_failure(w: World) -> Planted | None:
    """A commit that took effect is reported as a definite conflict."""
    for t, k in w.each(statements):
        events = completed(w.events, t.op(k).op, "fail", w.rng.choice([CONFLICT, REFUSED]))
        return w.planted(t.op(k).op, events=events)
    return None


@mutation(
    "aborted-operation-visible",
    "commits",
    "false-failure",
    seen="https://github.com/apache/iceberg/issues/16971: a procedure that reports failure although it committed; zombie requests",
)
def aborted_visible(w: World) -> Planted | None:
    """A refused operation has a snapshot on main nevertheless, with the rows that it means there."""
    for t, k in w.each(lambda t: t.positions):
        failed = [
            o
            for o in w.operations.values()
            if o.table == t.name
            and o.type == "fail"
            and KINDS[o.f].changes_rows
            and o.completed is not None
            and t.settled(o.invoked.index) <= k <= t.reached(o.completed.index)
            and o.op not in t.position
        ]
        if (o := w.choose(failed)) is not None:
            n = t.at(k)
            late = made_by(w, t.main[k - 1], o, *t.meaning(o, k))
            return w.planted(o.op, log=after(t, n, version_of(t, n, late)))
    return None


# --- of unknown origin ------------------------------------------------------------------------------------------------


@mutation(
    "snapshot-of-nobody",
    "commits",
    "unknown-commit",
    seen="two clusters on one catalog; remains of an older run of the same table",
)
def of_nobody(w: World) -> Planted | None:
    """Main has a snapshot of an operation that nobody invoked."""
    for t, k in w.each(statements):
        n = t.at(k)
        nobody = replace(t.op(k), op=f"{t.op(k).op}-nobody")
        return w.planted(nobody.op, log=after(t, n, version_of(t, n, made_by(w, t.main[k - 1], nobody, [], []))))
    return None


@mutation(
    "commit-in-the-wrong-table",
    "commits",
    "unknown-commit",
    seen="https://github.com/apache/iceberg/issues/17213: tables that share a location",
)
def wrong_table(w: World) -> Planted | None:
    """A table's main has a snapshot of an operation on another table."""
    for t, k in w.each(statements):
        other = w.choose(x for x in w.tables if x.name != t.name)
        if other is None:
            return None
        n = t.at(k)
        strangers = [j for j in other.positions if t.name not in tables_of(other.op(j))]
        o = other.op(w.rng.choice(strangers))
        return w.planted(o.op, log=after(t, n, version_of(t, n, made_by(w, t.main[k - 1], o, [], []))))
    return None


@mutation(
    "read-that-commits",
    "commits",
    "unknown-commit",
    seen="EnvironmentContext is one map a JVM: an operation's id on another's snapshot",
)
def read_commits(w: World) -> Planted | None:
    """A snapshot on main says that a read made it."""
    for t, k in w.each(statements):
        if (o := w.choose(t.reads)) is not None:
            n = t.at(k)
            return w.planted(o.op, log=after(t, n, version_of(t, n, made_by(w, t.main[k - 1], o, [], []))))
    return None


# --- in an impossible order -------------------------------------------------------------------------------------------


@mutation(
    "commits-swapped",
    "commits",
    "commit-order",
    seen="Jepsen's real-time anomalies (strict serializability): https://jepsen.io/consistency/models/strict-serializable",
)
def swapped(w: World) -> Planted | None:
    """Two neighbours on main are in the opposite of their real-time order."""

    def pairs(t: Table) -> Iterable[int]:
        for k in t.positions[:-1]:
            a, b = t.op(k), t.op(k + 1)
            if (end := acked(a)) is not None and end < b.invoked.index and k > 1:
                yield k

    for t, k in w.each(pairs):
        a, b = t.at(k), t.at(k + 1)
        versions = list(t.versions)
        versions[a], versions[b] = (
            replace(versions[a], commit=t.main[k]),
            replace(versions[b], commit=t.main[k - 1]),
        )
        return w.planted(t.op(k + 1).op, t.op(k).op, log=t.rebuilt(versions))
    return None


@mutation(
    "commit-before-its-invocation",
    "commits",
    "commit-order",
    seen="a clock, or a stale base: a commit takes effect below commits that others have built on",
)
def too_early(w: World) -> Planted | None:
    """A commit is on main below one that was acknowledged before the operation was invoked."""
    for t, k in w.each(lambda t: t.positions[2:]):
        settled = t.settled(t.op(k).invoked.index)
        if settled < 1:
            continue
        to = w.rng.randint(1, settled)
        n, c = t.at(to), t.versions[t.at(k)]
        versions = [v for m, v in enumerate(t.versions) if m != t.at(k)]
        late = [t.op(j).op for j in range(to, k) if (end := acked(t.op(j))) is not None and end < t.op(k).invoked.index]
        return w.planted(t.op(k).op, *late, log=t.rebuilt([*versions[:n], c, *versions[n:]]))
    return None


@mutation(
    "completed-out-of-order",
    "commits",
    "commit-order",
    seen="an acknowledgement before the commit: write-behind catalogs, https://github.com/seaweedfs/seaweedfs/issues/10775",
)
def out_of_order(w: World) -> Planted | None:
    """An operation ran after another was acknowledged, yet its commit is the earlier of the two."""
    for t, k in w.each(lambda t: t.positions[1:-1]):
        a, b = t.op(k), t.op(k + 1)
        end = acked(b)
        if end is None or a.completed is None or a.type != "ok" or not t.kind(k).changes_rows:
            continue
        later = end + 1  # a is invoked and ends after b's acknowledgement
        events = [e for e in alone(w.events, a.op) if e.op != a.op]
        at = later - sum(i < later for i in a.indices)
        mine = [e for e in alone(w.events, a.op) if e.op == a.op]
        return w.planted(b.op, a.op, events=inserted(events, at, mine))
    return None


@mutation(
    "table-lost",
    "commits",
    "lost-table",
    seen="https://github.com/projectnessie/nessie/issues/8413; a create-or-replace that failed half way",
)
def table_lost(w: World) -> Planted | None:
    """The catalog no longer has a pointer for the table."""
    t = w.choose(w.tables)
    if t is None or not t.log.captures:
        return None
    captures = (*t.log.captures[:-1], replace(t.log.captures[-1], metadata=None))
    return w.planted(log=replace(t.log, captures=captures), nobody=CATALOG)


@mutation(
    "rollback-forgotten",
    "commits",
    "lost-rollback",
    seen="rollback_to_snapshot and another commit: the last writer wins (SetSnapshotOperation)",
)
def rollback_forgotten(w: World) -> Planted | None:
    """A rollback to an old snapshot is acknowledged, and main never goes there."""
    for t, k in w.each(lambda t: range(2, len(t.main) // 4)):
        late = [e for j in range(len(t.main) * 3 // 4, len(t.main)) if (e := acked(t.op(j))) is not None]
        if not late:
            continue
        who, target, end = fresh(w.events), t.main[k - 1].snapshot_id, t.main[-1].snapshot_id
        said = {"snapshot": target, "rows": [[end, target]]}
        more = [
            Event(0, 0, "invoke", who, "rollback", t.name, {"back": 9}, "back"),
            Event(0, 0, "ok", who, "rollback", t.name, said, "back"),
        ]
        return w.planted("back", events=inserted(w.events, min(late), more))
    return None


MUTATIONS: tuple[Mutation, ...] = (
    overtaken,
    vanished,
    moved_back,
    moved_back_far,
    moved_back_last,
    compaction_lost,
    never_applied,
    first_lost,
    double_apply,
    duplicate_later,
    unknown_twice,
    false_failure,
    aborted_visible,
    of_nobody,
    wrong_table,
    read_commits,
    swapped,
    too_early,
    out_of_order,
    table_lost,
    rollback_forgotten,
)
"""In the order of the file."""
