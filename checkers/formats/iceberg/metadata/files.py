"""The rules within a snapshot: its files, and what its manifests and its summary state about them.

For every commit, the table log has the files that it added and removed relative to its parent, and the violations of the spec that the
reader found when it first read a manifest (``Commit.violations``). ``metadata.entries`` judges what a snapshot says of each file
that it adds, ``metadata.summaries`` what it counts, ``metadata.walk`` which files are live, ``metadata.statistics`` what planners prune by.

**The log does not show everything.** Of entries of manifests it has those of files that a snapshot adds, removes, or tells otherwise: only the
reader, once, when it reads them, judges the manifest list's counts and EXISTING entries. A wrong ``first_row_id`` of a file that the snapshot
did not add does not show. The walk stops at a commit whose manifests could not be read (``unwalked`` counts the snapshots below).

Position deletes (version 2) of a data file that is not live are legal and normal: compaction leaves them. They are only counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from checkers.evidence.history import Operation
from checkers.evidence.paths import commit_uuid
from checkers.evidence.problem import FILE_PROBLEMS, Problem
from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.entries import MOST_FILES_LISTED, Entries, renumbered
from checkers.formats.iceberg.metadata.rules import SPEC_RULES, BrokenRule
from checkers.formats.iceberg.metadata.seen import VersionSeen
from checkers.formats.iceberg.metadata.sizes import check_sizes
from checkers.formats.iceberg.metadata.statistics import check_statistics
from checkers.formats.iceberg.metadata.summaries import FileMeasures, check_summaries
from checkers.formats.iceberg.metadata.walk import FileWalk
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.timeline import explain
from checkers.timeline.timeline import kind_of


def check_files(chain: Chain, *, complete: bool) -> VersionSeen:
    """All rules about snapshots' files; ``complete``: the log was read to its end, so it knows which files are missing."""
    seen = VersionSeen()
    _unreadable(chain, seen, complete)
    reported = _violations(chain, seen)
    others = renumbered(chain.log.commits)
    _entries(chain, seen, others)
    entries = Entries(chain, seen.findings.append, reported, others)
    entries.judge()
    seen.findings += check_sizes(chain)
    measured = FileMeasures()
    check_statistics(chain, seen)
    miscounted = check_summaries(chain, seen, entries, measured)
    FileWalk(chain, seen, reported, entries, miscounted, measured).run()
    return seen


# --- files that cannot be read ----------------------------------------------------------------------------------------


@dataclass
class _Lost:
    """Missing files of one commit, the snapshots that need them, and other findings on them."""

    files: dict[str, None] = field(default_factory=dict)
    snapshots: dict[int, None] = field(default_factory=dict)


def _unreadable(chain: Chain, seen: VersionSeen, complete: bool) -> None:
    log = chain.log
    commits = log.commits if log.missing_files or any(c.problems for c in log.commits) else ()
    listed = set(log.metadata[-1].snapshots) if log.metadata else set()
    added_by = {f.path: c.snapshot_id for c in commits for f in c.added_files} | {
        c.manifest_list: c.snapshot_id for c in commits
    }
    writers = {uuid: c.snapshot_id for c in commits if (uuid := commit_uuid(c.manifest_list)) is not None}
    lost: dict[int | None, _Lost] = {}

    def miss(file: str, snapshots: tuple[int, ...], maker: int | None) -> None:
        wrote = writers.get(commit_uuid(file) or "", maker)  # a manifest may be older than every snapshot that needs it
        entry = lost.setdefault(added_by.get(file, wrote), _Lost())
        entry.files[file] = None
        entry.snapshots |= dict.fromkeys(snapshots)

    for f in log.missing_files:
        miss(f.path, f.snapshots, None)
    for c in commits:
        for problem in c.problems:
            if problem.code not in FILE_PROBLEMS or problem.file is None:
                continue
            wrote = writers.get(commit_uuid(problem.file) or "", problem.snapshot)
            maker = c.snapshot_id if wrote is None else wrote
            if problem.code == "corrupt-file":
                owner = chain.snapshots.get(maker)
                seen.findings.append(
                    BrokenRule(
                        "corrupt-file",
                        _corrupt(chain, problem, owner, c),
                        ops=tuple(dict.fromkeys(x.op for x in (owner, c) if x is not None and x.op is not None)),
                        snapshots=tuple(dict.fromkeys((maker, c.snapshot_id))),
                        files=(problem.file,),
                    )
                )
            elif c.snapshot_id in listed:
                miss(problem.file, (c.snapshot_id,), wrote)
            else:
                seen.count("read_too_late")
        other = [
            p for p in c.problems if p.code not in FILE_PROBLEMS and p.code != "parent"
        ]  # a parent is judged where it is missing
        if len(other) == len(c.problems) and other and not c.readable:
            seen.doubt(f"{explain.snapshot(c)} could not be read whole: {other[0].why}")
    for who, entry in lost.items():
        seen.findings.append(_missing(chain, who, entry))
    if seen.stats.get("read_too_late"):
        seen.notes.append(
            f"{seen.stats['read_too_late']} files of snapshots that are no longer listed were gone before the log was read; that is legal"
        )
    if not complete:
        seen.doubt("the table log was not read to its end, so missing files may not have been noticed")


def _corrupt(chain: Chain, problem: Problem, writer: Commit | None, user: Commit) -> str:
    """A sentence on a corrupt file, its writer and the snapshot that needs it."""
    wrote = ""
    if writer is not None and writer is not user:
        wrote = f"which {explain.snapshot(writer)} of {explain.maker(writer, chain.by_op)} wrote and "
    return (
        f"the {problem.kind} {problem.file}, {wrote or 'which '}{explain.snapshot(user)} of {explain.maker(user, chain.by_op)} needs, "
        f"is corrupt: {problem.cause}."
    )


def _missing(chain: Chain, maker: int | None, lost: _Lost) -> BrokenRule:
    c = chain.snapshots.get(maker) if maker is not None else None
    files, users = list(lost.files), list(lost.snapshots)
    many = len(files) > 1
    text = f"{explain.listing(files)} {'are' if many else 'is'} not in the store"
    ops: list[str] = []
    if c is not None:
        text += f", but {explain.snapshot(c)} of {explain.maker(c, chain.by_op)} wrote {'them' if many else 'it'}"
        ops += [c.op] if c.op is not None else []
    text += f", and {len(users)} listed snapshot{'s' if len(users) > 1 else ''} ({explain.listing(users)}) cannot be read without "
    text += "them." if many else "it."
    if c is None:
        text += f" No commit of the log wrote {'them' if many else 'it'}, so no operation is named."
    text += _suspects(chain, c)
    return BrokenRule(
        "missing-file", text, tuple(ops), tuple(users[:MOST_FILES_LISTED]), tuple(files[:MOST_FILES_LISTED])
    )


def _suspects(chain: Chain, c: Commit | None) -> str:
    """Operations that may have deleted a snapshot's files."""
    o: Operation | None = chain.by_op.get(c.op or "") if c is not None else None
    if o is not None and o.type == "fail":
        return (
            f" The operation was {explain.outcome(o)}: an engine that considers its commit failed deletes the files that it wrote "
            "(SnapshotProducer.cleanAll, Spark's abort)."
        )
    cleaners = [
        x
        for x in chain.of_table
        if (kind := kind_of(x)) is not None and kind.deletes_files and (o is None or x.start >= o.start)
    ]
    return f" Files were deleted by {explain.listing(explain.operation(x) for x in cleaners)}." if cleaners else ""


# --- what the reader found --------------------------------------------------------------------------------------------


def _violations(chain: Chain, seen: VersionSeen) -> set[tuple[str, int]]:
    """The reader's findings, by code; returns (name, snapshot) of each."""
    reported: set[tuple[str, int]] = set()
    for c in chain.log.commits:
        for violation in c.violations:
            code, _, words = violation.partition(": ")
            name = code if code in SPEC_RULES else ""
            if not name:
                seen.doubt(f"{explain.snapshot(c)}: {violation}")
                continue
            reported.add((name, c.snapshot_id))
            seen.findings.append(
                BrokenRule(
                    name,
                    f"in {explain.snapshot(c)} of {explain.maker(c, chain.by_op)}, {words}.",
                    ops=() if c.op is None else (c.op,),
                    snapshots=(c.snapshot_id,),
                    files=tuple(dict.fromkeys(w.strip("(),") for w in words.split() if "/" in w)),
                )
            )
    return reported


# --- a commit's entries -----------------------------------------------------------------------------------------------


def _entries(chain: Chain, seen: VersionSeen, renumbered: Iterable[Commit]) -> None:
    for c in renumbered:
        wrong = [
            f
            for f in c.added_files
            if f.snapshot_id == c.snapshot_id
            and f.file_sequence_number is not None
            and f.file_sequence_number != c.sequence_number
        ]
        if wrong:
            seen.findings.append(
                BrokenRule(
                    "file-sequence-number",
                    f"{explain.snapshot(c)} of {explain.maker(c, chain.by_op)} added "
                    f"{explain.listing(f'{f.path} (file sequence number {f.file_sequence_number})' for f in wrong)}.",
                    ops=() if c.op is None else (c.op,),
                    snapshots=(c.snapshot_id,),
                    files=tuple(f.path for f in wrong[:MOST_FILES_LISTED]),
                )
            )
