"""What procedures answered, compared with what the table log shows of them.

A procedure counts what it did after its last commit. So its answer cannot say more than the log has, and mostly not less:

* ``rewrite_data_files`` commits by ``RewriteFiles``, which removes and adds exactly the files of its groups
  (``RewriteDataFilesCommitManager``). With partial progress its answer leaves out a commit that failed, also one whose outcome it does
  not know (``BaseCommitService``).
* ``rewrite_position_delete_files`` adds exactly what it says; a commit may remove more delete files, because Iceberg drops those that apply to
  no data file any more (``MergingSnapshotProducer.apply``).
* ``rewrite_manifests`` says what the snapshot's summary says (``BaseRewriteManifests.summary``).
* ``expire_snapshots`` counts the manifest lists and files of the snapshots that the table listed before it and no longer lists afterwards
  (``ExpireSnapshotsSparkAction.expireFiles``). Another expiry may have dropped some of them, and a file may fail to be deleted. So it says
  at most what disappeared while it ran.

No count is negative, whatever the log shows. An answer of another form than the kind's (:meth:`Kind.understands`) says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit, FileEntry
from checkers.timeline.timeline import Timeline, kind_of
from workloads.operations.kind import Kind, ProcedureResult, whole_numbers


def claims_of(o: Operation) -> ProcedureResult | None:
    """What an acknowledged procedure says that it did; None if it says nothing."""
    kind = kind_of(o)
    if kind is None or o.type != "ok" or not _claims(kind) or not isinstance(o.value, dict):
        return None
    return kind.claims(o.value, o.result)


def understood(o: Operation) -> bool:
    """Whether an answer has the form that the operation's kind returns."""
    kind = kind_of(o)
    return kind is None or o.type != "ok" or kind.understands(o.result)


def answering(operations: Iterable[Operation]) -> Iterator[Operation]:
    """The acknowledged operations whose kind says what an answer of it looks like, or means."""
    may: dict[str, bool] = {}
    for o in operations:
        if o.f not in may:
            kind = kind_of(o)
            may[o.f] = kind is not None and bool(
                kind.counts or _claims(kind) or type(kind).understands is not Kind.understands
            )
        if may[o.f] and o.type == "ok":
            yield o


def _claims(kind: Kind) -> bool:
    return type(kind).claims is not Kind.claims


def contradictions(t: Timeline, o: Operation) -> list[str]:
    """Where an answer differs from the log, in words: ``7 replaced data files, but the log has 5``; empty where nothing contradicts it.

    An operation without a snapshot in the log, or with one that main has lost, is not compared, nor is one that a log with gaps may lack,
    nor one that may have made a snapshot that names no operation. A negative count contradicts every log.
    """
    if negative := _negative(o):
        return [f"{n}, but no number of files or snapshots and no size is negative" for n in negative]
    claims = claims_of(o)
    if claims is None or o.end is None or o.end >= t.seen_until or not t.rooted or not t.unbroken:
        return []
    if claims.dropped_snapshots is not None and not t.out_of_order:
        return _of_expiry(t, o, claims)
    commits = [] if claims.dropped_snapshots is not None else t.commits.get(o.op, [])
    if not commits or any(c.snapshot_id not in t.position or not c.readable for c in commits):
        return []
    if any(_perhaps_of(t, c, o) for c in t.unnamed):
        return []
    return [
        f"{n} {what}, but the log has {real}"
        for what, n, real, exact in _counted(claims, commits)
        if n > real or (exact and not claims.at_least and n != real)
    ]


def _negative(o: Operation) -> list[int]:
    """The negative numbers in the answer of a procedure that counts."""
    kind = kind_of(o)
    if kind is None or o.type != "ok" or not kind.counts:
        return []
    return [n for n in whole_numbers(o.result, least=kind.counts) or () if n < 0]


def _perhaps_of(t: Timeline, c: Commit, o: Operation) -> bool:
    """Whether a snapshot that names no operation may be one of a procedure's: it changes no row, and the procedure was under way."""
    if c.added or c.removed or c.metadata >= len(t.chain.steps):
        return False
    return bool(t.chain.under_way(t.chain.steps[c.metadata], [o]))


def _counted(claims: ProcedureResult, commits: list[Commit]) -> Iterator[tuple[str, int, int, bool]]:
    """What was counted: its name, the answer's number, the log's, and whether they must be equal."""
    removed = [f for c in commits for f in c.removed_files]
    added = [f for c in commits for f in c.added_files]
    gone_deletes, came_deletes = _deletes(removed), _deletes(added)
    found: list[tuple[str, int | None, int, bool]] = [
        ("replaced data files", claims.removed_data, len(removed) - len(gone_deletes), True),
        ("added data files", claims.added_data, len(added) - len(came_deletes), True),
        ("bytes of replaced data files", claims.removed_bytes, sum(f.size for f in removed if f.role == "data"), True),
        ("removed delete files", claims.removed_deletes, len(gone_deletes), False),
        ("added delete files", claims.added_deletes, len(came_deletes), True),
    ]
    counts = [c.procedure_counts for c in commits]
    for what, n, of_several in (
        ("bytes of added delete files", claims.added_delete_bytes, True),
        ("replaced manifests", claims.replaced_manifests, False),
        ("added manifests", claims.created_manifests, False),
    ):
        if (of_several or len(counts) == 1) and all(what in x for x in counts):
            found.append((what, n, sum(x[what] for x in counts), True))
    yield from ((what, n, real, exact) for what, n, real, exact in found if n is not None)


def _deletes(files: Iterable[FileEntry]) -> list[FileEntry]:
    return [f for f in files if f.role == "deletes"]


def _of_expiry(t: Timeline, o: Operation, claims: ProcedureResult) -> list[str]:
    """An expiry's answer, compared with the snapshots that disappeared while it ran."""
    end = o.start if o.end is None else o.end
    vanished: set[int] = set()
    for s, dropped, able in t.drops:
        if not able:
            return []  # nobody can have dropped them then: an acknowledgement that came too early makes the times wrong
        if s.earliest <= end and s.latest >= o.start:
            vanished |= dropped
    if (claims.dropped_snapshots or 0) > len(vanished):
        return [
            f"{claims.dropped_snapshots} deleted manifest lists, but {len(vanished)} snapshots were dropped while it ran"
        ]
    if claims.deleted_files and not vanished:
        return [f"{claims.deleted_files} deleted files, but no snapshot was dropped while it ran"]
    return []
