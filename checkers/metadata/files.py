"""The rules within a snapshot: its files, and what its manifests and its summary state about them.

For every commit, the table log has the files that it added and removed relative to its parent, and the violations of the spec that the
reader found when it first read a manifest (``Commit.violations``). Here the commits are walked as a tree from the root; each commit's
difference is applied on the way down and undone on the way up, so that the live files of each snapshot are known. That shows a path
that is live twice, a second deletion vector of a data file, a deletion vector of a file that is not live, and wrong totals.

**The log does not show everything.** It has no manifests: only the reader, once, when it reads them, judges the manifest list's counts,
EXISTING entries, and what a rewritten manifest states about carried-over files. A wrong ``first_row_id`` of a file that the snapshot did
not add does not show. ``changed-partition-count`` and counts of manifests are not compared. The walk stops at a commit whose manifests
could not be read (``unwalked`` counts the snapshots below).

Position deletes (version 2) of a data file that is not live are legal and normal: compaction leaves them. They are only counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from checkers.evidence.history import Operation
from checkers.evidence.problem import FILES, Problem
from checkers.evidence.tablelog import Commit, FileEntry
from checkers.metadata.rules import RULES, BrokenRule
from checkers.metadata.seen import VersionSeen
from checkers.timeline import explain
from checkers.timeline.timeline import kind_of
from checkers.timeline.version_order import Chain

MOST_FILES = 50


def check_files(chain: Chain, *, complete: bool) -> VersionSeen:
    """All rules about snapshots' files; ``complete``: the log was read to its end, so it knows which files are missing."""
    seen = VersionSeen()
    _unreadable(chain, seen, complete)
    told = _violations(chain, seen)
    _entries(chain, seen)
    _summaries(chain, seen)
    _FileWalk(chain, seen, told).run()
    return seen


# --- files that cannot be read ----------------------------------------------------------------------------------------


@dataclass
class _Lost:
    """Missing files of one commit, the snapshots that need them, and other findings on them."""

    files: dict[str, None] = field(default_factory=dict)
    snapshots: dict[int, None] = field(default_factory=dict)


def _unreadable(chain: Chain, seen: VersionSeen, complete: bool) -> None:
    log = chain.log
    listed = set(log.metadata[-1].snapshots) if log.metadata else set()
    added_by = {f.path: c.snapshot_id for c in log.commits for f in c.added_files} | {
        c.manifest_list: c.snapshot_id for c in log.commits
    }
    lost: dict[int | None, _Lost] = {}

    def miss(file: str, snapshots: tuple[int, ...], maker: int | None) -> None:
        entry = lost.setdefault(added_by.get(file, maker), _Lost())
        entry.files[file] = None
        entry.snapshots |= dict.fromkeys(snapshots)

    for f in log.missing_files:
        miss(
            f.path,
            f.snapshots,
            min(f.snapshots, key=lambda s: chain.snapshots[s].metadata if s in chain.snapshots else 0),
        )
    for c in log.commits:
        for problem in c.problems:
            if problem.code not in FILES or problem.file is None:
                continue
            maker = problem.snapshot if problem.snapshot is not None else c.snapshot_id
            if problem.code == "corrupt-file":
                owner = chain.snapshots.get(maker)
                seen.findings.append(
                    BrokenRule(
                        "corrupt-file",
                        f"the {problem.kind} {problem.file}, which {explain.snapshot(c)} of {explain.maker(c, chain.by_op)} needs, "
                        f"is corrupt: {problem.cause}.",
                        ops=tuple(dict.fromkeys(x.op for x in (owner, c) if x is not None and x.op is not None)),
                        snapshots=tuple(dict.fromkeys((maker, c.snapshot_id))),
                        files=(problem.file,),
                    )
                )
            elif c.snapshot_id in listed:
                miss(problem.file, (c.snapshot_id,), maker)
            else:
                seen.count("read_too_late")
        other = [
            p for p in c.problems if p.code not in FILES and p.code != "parent"
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


def _of_a_manifest(p: Problem) -> bool:
    """Whether it leaves unknown which files a snapshot has."""
    return p.code == "unreadable-manifest" or (p.code in FILES and p.kind.startswith("manifest"))


def _missing(chain: Chain, maker: int | None, lost: _Lost) -> BrokenRule:
    c = chain.snapshots.get(maker) if maker is not None else None
    files, users = list(lost.files), list(lost.snapshots)
    many = len(files) > 1
    text = f"{explain.listing(files)} {'are' if many else 'is'} not in the store"
    ops: list[str] = []
    if c is not None:
        text += f", but {explain.snapshot(c)} of {explain.maker(c, chain.by_op)} added {'them' if many else 'it'}"
        ops += [c.op] if c.op is not None else []
    text += f", and {len(users)} listed snapshot{'s' if len(users) > 1 else ''} ({explain.listing(users)}) cannot be read without "
    text += "them." if many else "it."
    text += _suspects(chain, c)
    return BrokenRule("missing-file", text, tuple(ops), tuple(users[:MOST_FILES]), tuple(files[:MOST_FILES]))


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
    told: set[tuple[str, int]] = set()
    for c in chain.log.commits:
        for violation in c.violations:
            code, _, words = violation.partition(": ")
            name = code if code in RULES else ""
            if not name:
                seen.doubt(f"{explain.snapshot(c)}: {violation}")
                continue
            told.add((name, c.snapshot_id))
            seen.findings.append(
                BrokenRule(
                    name,
                    f"in {explain.snapshot(c)} of {explain.maker(c, chain.by_op)}, {words}.",
                    ops=() if c.op is None else (c.op,),
                    snapshots=(c.snapshot_id,),
                    files=tuple(dict.fromkeys(w.strip("(),") for w in words.split() if "/" in w)),
                )
            )
    return told


# --- a commit's entries -----------------------------------------------------------------------------------------------


def _entries(chain: Chain, seen: VersionSeen) -> None:
    for c in chain.log.commits:
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
                    files=tuple(f.path for f in wrong[:MOST_FILES]),
                )
            )


def _size(f: FileEntry) -> int:
    """The size that the summary counts (``ScanTaskUtil.contentSizeInBytes``): for a deletion vector only its blob."""
    return f.length if f.content == "deletion-vector" and f.length is not None else f.size


def measures(files: tuple[FileEntry, ...]) -> dict[str, int]:
    """Numbers of files, records and bytes, named as in the summary's metrics."""
    data = [f for f in files if f.content == "data"]
    deletes = [f for f in files if f.content != "data"]
    by = Counter(f.content for f in files)
    return {
        "data-files": len(data),
        "delete-files": len(deletes),
        "records": sum(f.records for f in data),
        "files-size": sum(map(_size, files)),
        "dvs": by["deletion-vector"],
        "position-delete-files": by["position-deletes"],
        "equality-delete-files": by["equality-deletes"],
        "position-deletes": sum(f.records for f in deletes if f.content != "equality-deletes"),
        "equality-deletes": sum(f.records for f in deletes if f.content == "equality-deletes"),
    }


_REMOVED = {"data-files": "deleted-data-files", "records": "deleted-records"}
"""Metrics whose removals are called ``deleted-…``; all others ``removed-…``."""

TOTALS = ("data-files", "delete-files", "records", "files-size", "position-deletes", "equality-deletes")
"""Metrics that have a ``total-…``."""


def _number(summary: Mapping[str, str], key: str) -> int | None:
    text = summary.get(key)
    return int(text) if isinstance(text, str) and re.fullmatch(r"-?\d{1,18}", text) else None


def _summaries(chain: Chain, seen: VersionSeen) -> None:
    compared = 0
    for c in chain.log.commits:
        if not c.readable or c.problems:
            continue
        added, removed = measures(c.added_files), measures(c.removed_files)
        wrong: list[str] = []
        for metric in added:
            for key, real in (
                (f"added-{metric}", added[metric]),
                (_REMOVED.get(metric, f"removed-{metric}"), removed[metric]),
            ):
                said = _number(c.summary, key)
                compared += said is not None
                if said is not None and said != real:
                    wrong.append(f"{key} is {said}, its manifests have {real}")
        if wrong:
            seen.findings.append(_summary(chain, c, wrong))
        operation = _contradiction(c, added, removed)
        if operation:
            seen.findings.append(
                BrokenRule(
                    "wrong-operation",
                    f"{explain.snapshot(c)} of {explain.maker(c, chain.by_op)} calls itself {c.operation}, yet it {operation}.",
                    ops=() if c.op is None else (c.op,),
                    snapshots=(c.snapshot_id,),
                    files=tuple(f.path for f in (*c.added_files, *c.removed_files))[:MOST_FILES],
                )
            )
    seen.count("summary_metrics_compared", compared)


def _summary(chain: Chain, c: Commit, wrong: list[str]) -> BrokenRule:
    return BrokenRule(
        "summary-count",
        f"the summary of {explain.snapshot(c)} of {explain.maker(c, chain.by_op)} does not match what the snapshot did: {'; '.join(wrong)}.",
        ops=() if c.op is None else (c.op,),
        snapshots=(c.snapshot_id,),
    )


def _contradiction(c: Commit, added: Mapping[str, int], removed: Mapping[str, int]) -> str | None:
    if c.operation == "append" and (removed["data-files"] or added["delete-files"]):
        return f"removed {removed['data-files']} data files and added {added['delete-files']} delete files"
    if c.operation == "delete" and added["data-files"] and _number(c.summary, "added-data-files"):
        return f"added {added['data-files']} data files"
    return None


# --- live files -------------------------------------------------------------------------------------------------------

_Vector = tuple[str, int | None]


class _FileWalk:
    """The live files of the snapshot at the cursor; one step for each commit, undone on the way back."""

    def __init__(self, chain: Chain, seen: VersionSeen, told: set[tuple[str, int]]) -> None:
        self._chain = chain
        self._seen = seen
        self._told = told
        self._data: Counter[str] = Counter()
        self._vectors: dict[str, Counter[_Vector]] = {}
        self._targeted: Counter[str] = Counter()  # data files that position deletes of one file reference
        self._totals: Counter[str] = Counter()
        self._said: set[tuple[str, str]] = set()

    def run(self) -> None:
        children: dict[int | None, list[Commit]] = {}
        for c in self._chain.log.commits:
            children.setdefault(c.parent_id, []).append(c)
        walked, stack = 0, [(c, False) for c in reversed(children.get(None, []))]
        last = self._chain.log.metadata[-1].current if self._chain.log.metadata else None
        while stack:
            c, back = stack.pop()
            if back:
                self._do(c, -1)
                continue
            if not c.readable or any(_of_a_manifest(p) for p in c.problems):
                continue
            walked += 1
            self._do(c, 1)
            self._judge(c)
            if c.snapshot_id == last:
                self._seen.count(
                    "dangling_position_delete_files", sum(n for p, n in self._targeted.items() if not self._data[p])
                )
                self._seen.count("live_data_files", self._data.total())
                self._seen.count("live_delete_files", self._totals["delete-files"])
            stack.append((c, True))
            stack += [(child, False) for child in reversed(children.get(c.snapshot_id, []))]
        unwalked = len(self._chain.log.commits) - walked
        self._seen.count("unwalked", unwalked)
        if unwalked:
            self._seen.notes.append(
                f"the live files of {unwalked} snapshots are not known, so paths, vectors and totals were not judged there"
            )

    def _do(self, c: Commit, sign: int) -> None:
        for files, n in ((c.removed_files, -sign), (c.added_files, sign)):
            for f in files:
                if f.content == "data":
                    self._data[f.path] += n
                    if not self._data[f.path]:
                        del self._data[f.path]
                elif f.content == "deletion-vector" and f.referenced is not None:
                    vectors = self._vectors.setdefault(f.referenced, Counter())
                    vectors[(f.path, f.offset)] += n
                    if not vectors[(f.path, f.offset)]:
                        del vectors[(f.path, f.offset)]
                        if not vectors:
                            del self._vectors[f.referenced]
                elif f.content == "position-deletes" and f.referenced is not None:
                    self._targeted[f.referenced] += n
            for metric, amount in measures(files).items():
                self._totals[metric] += n * amount

    def _judge(self, c: Commit) -> None:
        touched = {f.path for f in (*c.added_files, *c.removed_files) if f.content == "data"}
        touched |= {f.referenced for f in c.added_files if f.content == "deletion-vector" and f.referenced is not None}
        for path in sorted(touched):
            for name, words, files in self._file(path):
                if (name, c.snapshot_id) in self._told or (name, path) in self._said:
                    continue
                self._said.add((name, path))
                self._seen.findings.append(
                    BrokenRule(
                        name,
                        f"in {explain.snapshot(c)} of {explain.maker(c, self._chain.by_op)}, {words}.",
                        ops=() if c.op is None else (c.op,),
                        snapshots=(c.snapshot_id,),
                        files=files,
                    )
                )
        wrong = [
            f"total-{metric} is {said}, its live files have {self._totals[metric]}"
            for metric in TOTALS
            if (said := _number(c.summary, f"total-{metric}")) is not None and said != self._totals[metric]
        ]
        if wrong and not self._wrong_before(c):
            self._seen.findings.append(_summary(self._chain, c, wrong))

    def _wrong_before(self, c: Commit) -> bool:
        """Whether the parent's totals were wrong already: totals carry over, and only the first wrong one is reported."""
        key = ("total", str(c.parent_id))
        self._said.add(("total", str(c.snapshot_id)))
        return key in self._said

    def _file(self, path: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        vectors = self._vectors.get(path, Counter())
        live = self._data[path]
        if live > 1:
            yield "duplicate-path", f"{path} is live {live} times", (path,)
        if vectors.total() > 1:
            where = sorted({p for p, _ in vectors})
            yield (
                "several-dvs",
                f"{path} has {vectors.total()} deletion vectors, in {explain.listing(where)}: a scan cannot tell which rows are deleted",
                (path, *where),
            )
        if vectors and not live:
            where = sorted({p for p, _ in vectors})
            yield (
                "dangling-dv",
                f"{explain.listing(where)} has a deletion vector of {path}, which is not live",
                (*where, path),
            )
