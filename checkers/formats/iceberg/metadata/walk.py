"""The rules about the live files of a snapshot: paths, deletion vectors, removed files, totals.

The commits are walked as a tree from the root; each commit's difference is applied on the way down and undone on the way up. That shows a
path that is live twice, a second deletion vector of a data file, a deletion vector of a file that is not live, a removed file that was
not live or was told differently, and wrong totals.

**Who did it.** Totals carry over from summary to summary. If they are first wrong at a snapshot, its writer counted wrong, or a snapshot
before it is in no version: then files of that snapshot are removed later, or a rewrite was acknowledged with just these numbers and left
no snapshot. That rewrite is named, not the writer who came after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

from checkers.evidence.history import Operation
from checkers.evidence.problem import FILE_PROBLEMS, Problem
from checkers.evidence.replace import replace
from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.entries import MOST_FILES_LISTED, Entries, File, LiveEntries, changed, of
from checkers.formats.iceberg.metadata.rules import BrokenRule
from checkers.formats.iceberg.metadata.seen import VersionSeen
from checkers.formats.iceberg.metadata.summaries import FILE_METRICS, TOTALS, FileMeasures, number, wrong_summary
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.timeline import explain

REWRITES = {"rewrite-data-files": "data-files", "rewrite-position-delete-files": "delete-files"}
"""Procedures whose result begins with the number of files that they rewrote and of those that they wrote → which files."""

_TOTALS = tuple((metric, f"total-{metric}") for metric in TOTALS)
_TOTAL_KEYS = tuple(key for _, key in _TOTALS)
_Vector = tuple[str, int | None]


def _of_a_manifest(p: Problem) -> bool:
    """Whether it leaves unknown which files a snapshot has."""
    return p.code == "unreadable-manifest" or (p.code in FILE_PROBLEMS and p.kind.startswith("manifest"))


class FileWalk:
    """The live files of the snapshot at the cursor; one step for each commit, undone on the way back."""

    def __init__(
        self,
        chain: Chain,
        seen: VersionSeen,
        reported: set[tuple[str, int]],
        entries: Entries,
        miscounted: set[int],
        measured: FileMeasures,
    ) -> None:
        self._chain = chain
        self._seen = seen
        self._reported = reported
        self._entries = entries
        self._miscounted = miscounted
        self._live = LiveEntries()
        self._data: Counter[str] = Counter()
        self._vectors: dict[str, Counter[_Vector]] = {}
        self._targeted: Counter[str] = Counter()  # data files that position deletes of one file reference
        self._measured = measured
        self._totals = dict.fromkeys(FILE_METRICS, 0)
        self._words = ["0" for _ in TOTALS]  # what a summary says of the totals, if it says all and is right
        self._found: set[tuple[str, str]] = set()

    def run(self) -> None:
        walked = self._line() if self._is_line() else self._tree()
        unwalked = len(self._chain.log.commits) - walked
        self._seen.count("unwalked", unwalked)
        if unwalked:
            self._seen.notes.append(
                f"the live files of {unwalked} snapshots are not known, so paths, vectors and totals were not judged there"
            )

    def _is_line(self) -> bool:
        """Whether each commit is the child of the one before it, as mostly: then there is no way back."""
        commits = self._chain.log.commits
        line = [None, *(c.snapshot_id for c in commits)]
        return len(line) == len({*line}) and [c.parent_id for c in commits] == line[:-1]

    def _line(self) -> int:
        walked = 0
        for c in self._chain.log.commits:
            if not self._readable(c):
                break
            self._down(c)
            walked += 1
        return walked

    def _tree(self) -> int:
        children: dict[int | None, list[Commit]] = {}
        for c in self._chain.log.commits:
            children.setdefault(c.parent_id, []).append(c)
        walked, stack = 0, [(c, False) for c in reversed(children.get(None, []))]
        ahead = len(stack)
        entered: set[int] = set()  # records, not ids: two may have one id, and then the parents can form a circle
        while ahead:  # what comes then is only the way back
            c, back = stack.pop()
            ahead -= not back
            if back:
                self._do(c, -1)
                self._live.undo()
                continue
            if id(c) in entered or not self._readable(c):
                continue
            entered.add(id(c))
            walked += 1
            self._down(c)
            after = children.get(c.snapshot_id, [])
            ahead += len(after)
            stack.append((c, True))
            stack += [(child, False) for child in reversed(after)]
        return walked

    @staticmethod
    def _readable(c: Commit) -> bool:
        """Whether it is known which files a snapshot has."""
        return c.readable and not (c.problems and any(map(_of_a_manifest, c.problems)))

    def _down(self, c: Commit) -> None:
        """Go to a child and judge it."""
        if self._plain(c):
            self._live.do_plain(c)
            self._do(c, 1)
        else:
            self._do(c, 1)
            self._removed(c, self._live.do(c))
            self._judge(c)
        self._judge_totals(c)
        if c.snapshot_id == self._last:
            self._seen.count(
                "dangling_position_delete_files", sum(n for p, n in self._targeted.items() if not self._data[p])
            )
            self._seen.count("live_data_files", self._data.total())
            self._seen.count("live_delete_files", self._totals["delete-files"])

    @cached_property
    def _last(self) -> int | None:
        """The last current snapshot."""
        versions = self._chain.log.metadata
        return versions[-1].current if versions else None

    def _do(self, c: Commit, sign: int) -> None:
        if not c.added_files and not c.removed_files:
            return
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
            if files:
                for metric, amount in self._measured(files).items():
                    self._totals[metric] += n * amount
        self._words = [str(self._totals[metric]) for metric in TOTALS]

    def _plain(self, c: Commit) -> bool:
        """Whether a commit only removes live files, as they were told, and adds new ones; a deletion vector as the only one of a live file.

        Then no path is live twice, no vector is of a file that is not live, and nothing was removed that was not there or was told differently.
        """
        live, data, vectors = self._live.live, self._data, self._vectors
        files: set[File] = set()
        removed: set[str] = set()
        bare: set[str | None] = set()  # data files that lose their deletion vector
        for f in c.removed_files:
            file = f.path, f.offset
            if live.get(file) != [f]:
                return False
            files.add(file)
            if f.content == "data":
                if data[f.path] != 1:
                    return False
                removed.add(f.path)
            elif f.content == "deletion-vector":
                if f.referenced is None or [*vectors.get(f.referenced, {}).items()] != [(file, 1)]:
                    return False
                bare.add(f.referenced)
        if not removed.isdisjoint(vectors.keys() - bare if bare else vectors):
            return False
        hidden: set[str | None] = set()
        for f in c.added_files:
            file = f.path, f.offset
            if file in live:
                return False
            files.add(file)
            if f.content == "data":
                if f.path in data or f.path in vectors:
                    return False
            elif f.content == "deletion-vector":
                of_file = f.referenced
                if of_file is None or of_file in hidden or of_file in removed or data.get(of_file) != 1:
                    return False
                if of_file in vectors and of_file not in bare:
                    return False
                hidden.add(of_file)
        return len(files) == len(c.added_files) + len(c.removed_files)

    def _judge(self, c: Commit) -> None:
        touched = {f.path for f in (*c.added_files, *c.removed_files) if f.content == "data"}
        touched |= {f.referenced for f in c.added_files if f.content == "deletion-vector" and f.referenced is not None}
        new = {f.path for f in c.added_files}
        for path in sorted(touched):
            for name, words, files in self._file(path):
                if (name, c.snapshot_id) in self._reported or (name, path) in self._found:
                    continue
                if name == "dangling-dv" and not new & {*files} and self._wrong_vector(path):
                    continue  # who removes the data file need not know of it
                if (
                    name == "several-dvs"
                    and self._wrong_vector(path)
                    and not self._wrong_vector(path) & self._vectors_of(c)
                ):
                    continue  # the vector that is one too many was told when it came
                self._found.add((name, path))
                self._seen.findings.append(
                    BrokenRule(
                        name,
                        f"in {explain.snapshot(c)} of {explain.maker(c, self._chain.by_op)}, {words}.",
                        ops=() if c.op is None else (c.op,),
                        snapshots=(c.snapshot_id,),
                        files=files,
                    )
                )

    def _judge_totals(self, c: Commit) -> None:
        if [*map(c.summary.get, _TOTAL_KEYS)] == self._words:
            return
        wrong = [
            f"{key} is {c.summary[key]}, its live files have {self._totals[metric]}"
            for metric, key in _TOTALS
            if key in c.summary and number(c.summary, key) != self._totals[metric]
        ]
        if wrong and not self._wrong_before(c):
            self._seen.findings.append(self._total(c, wrong))

    def _wrong_vector(self, path: str) -> set[File]:
        """The deletion vectors of a data file that were found wrong before, or that are one too many."""
        vectors = {*self._vectors.get(path, ())}
        return vectors if ("several-dvs", path) in self._found else vectors & self._entries.wrong

    @staticmethod
    def _vectors_of(c: Commit) -> set[File]:
        return {of(f) for f in c.added_files if f.content == "deletion-vector"}

    # --- removed files

    def _removed(self, c: Commit, removed: list[tuple[FileEntry, FileEntry | None]]) -> None:
        """The files that a snapshot removed were live in its parent, and are told as they were there."""
        absent = [f for f, was in removed if was is None and ("removed-not-live", f.path) not in self._found]
        if ("removed-not-live", c.snapshot_id) in self._reported:
            absent = []
        strange = [f for f in absent if f.snapshot_id in self._unseen]
        for files, unseen in (([f for f in absent if f not in strange], False), (strange, True)):
            if not files:
                continue
            self._found |= {("removed-not-live", f.path) for f in files}
            text = f"{explain.snapshot(c)} of {explain.maker(c, self._chain.by_op)} removed {explain.listing(f.path for f in files)}, "
            ops: tuple[str, ...] = () if c.op is None else (c.op,)
            if unseen:
                who = self._lost_rewrite(c, {})
                makers = explain.listing(dict.fromkeys(f"snapshot {f.snapshot_id}" for f in files))
                text += f"which {makers} added: no version shows that snapshot."
                if who is not None:
                    text = f"the {explain.operation(who)} was {explain.outcome(who)} and left no snapshot; {text}"
                ops = () if who is None else (who.op, *ops)
            else:
                text += "which its parent did not have."
                past = self._passed_over(c, files)
                if past is not None:
                    text = (
                        f"{explain.snapshot(past[1])} of {explain.maker(past[1], self._chain.by_op)} came after "
                        f"{explain.snapshot(past[0])} and "
                        f"does not descend from that, which added {'files' if len(files) > 1 else 'a file'} that a descendant removed: {text}"
                    )
                    ops = tuple(dict.fromkeys(x.op for x in (past[1], c) if x.op is not None))
            snapshots = (
                c.snapshot_id,
                *dict.fromkeys(f.snapshot_id for f in files if unseen and f.snapshot_id is not None),
            )
            paths = tuple(f.path for f in files[:MOST_FILES_LISTED])
            self._seen.findings.append(BrokenRule("removed-not-live", text, ops, snapshots, paths))
        for f, was in removed:
            if was is None or of(f) in self._entries.wrong or ("entry-changed", f.path) in self._found:
                continue
            wrong = changed(was, f)
            if not wrong or was.snapshot_id in self._miscounted or ("entry-changed", c.snapshot_id) in self._reported:
                continue
            self._found.add(("entry-changed", f.path))
            self._seen.findings.append(
                BrokenRule(
                    "entry-changed",
                    f"{explain.snapshot(c)} of {explain.maker(c, self._chain.by_op)} removed {f.path} and says of it {'; '.join(wrong)}: "
                    f"what {'the snapshot' if was.snapshot_id is None else f'snapshot {was.snapshot_id}'} that added it said.",
                    ops=() if c.op is None else (c.op,),
                    snapshots=(c.snapshot_id,),
                    files=(f.path,),
                )
            )

    def _passed_over(self, c: Commit, files: list[FileEntry]) -> tuple[Commit, Commit] | None:
        """The snapshot that added the files, if it is no ancestor, and the first ancestor that came after it and passed it over."""
        known, line = self._chain.snapshots, [*self._chain.ancestors(c.snapshot_id)]
        maker = next((known[f.snapshot_id] for f in files if f.snapshot_id in known), None)
        if maker is None or maker.snapshot_id in line:
            return None
        later = [known[s] for s in line if known[s].metadata > maker.metadata]
        return (maker, later[-1]) if later else None

    @cached_property
    def _unseen(self) -> frozenset[int]:
        """Snapshots that added removed files and that no version shows, of a log that begins with the table."""
        log = self._chain.log
        if not log.metadata or log.metadata[0].predecessor is not None or log.metadata[0].snapshots:
            return frozenset()
        named = {f.snapshot_id for c in log.commits for f in c.removed_files if f.snapshot_id is not None}
        return frozenset(named - self._chain.snapshots.keys())

    def _lost_rewrite(self, c: Commit, shift: Mapping[str, int]) -> Operation | None:
        """A rewrite that was acknowledged with files, left no snapshot, and may have come before a commit.

        Args:
            shift: metric → by how much the commit's totals differ from its live files: what the rewrite says must equal it; empty: any rewrite.
        """
        end = o.end if (o := self._chain.by_op.get(c.op or "")) is not None else None
        rest = self._made
        found: list[Operation] = []
        for x in self._chain.of_table:
            metric = REWRITES.get(x.f)
            numbers = x.result[0] if x.type == "ok" and isinstance(x.result, list) and x.result else None
            if metric is None or x.op in rest or not isinstance(numbers, list | tuple) or len(numbers) < 2:
                continue
            took, wrote = numbers[:2]
            if not isinstance(took, int) or not isinstance(wrote, int) or not (took or wrote):
                continue
            if (end is None or x.start <= end) and (not shift or shift.get(metric, 0) == wrote - took):
                found.append(x)
        return max(found, key=lambda x: x.start, default=None)

    @cached_property
    def _made(self) -> frozenset[str]:
        """Operations that left a snapshot."""
        return frozenset(c.op for c in self._chain.log.commits if c.op is not None)

    # --- totals

    def _total(self, c: Commit, wrong: list[str]) -> BrokenRule:
        """Wrong totals, by their writer or by a rewrite that no version shows."""
        found = wrong_summary(self._chain, c, wrong)
        shift = {
            metric: total - self._totals[metric]
            for metric in TOTALS
            if (total := number(c.summary, f"total-{metric}")) is not None and total != self._totals[metric]
        }
        who = self._lost_rewrite(c, shift)
        if who is not None:
            return replace(
                found,
                text=f"the {explain.operation(who)} was {explain.outcome(who)}, and no version has a snapshot of it; what came after counts "
                f"just the files that it said: {found.text}",
                ops=(who.op, *found.ops),
            )
        if self._unseen:
            several = len(self._unseen) > 1
            return replace(
                found,
                text=f"{found.text} Files that {explain.listing(f'snapshot {s}' for s in sorted(self._unseen))} added are removed later, "
                f"and no version shows {'these snapshots' if several else 'that snapshot'}, so its own writer may have counted right.",
                ops=(),
            )
        return found

    def _wrong_before(self, c: Commit) -> bool:
        """Whether the parent's totals were wrong already: totals carry over, and only the first wrong one is reported."""
        key = ("total", str(c.parent_id))
        self._found.add(("total", str(c.snapshot_id)))
        return key in self._found

    def _file(self, path: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        vectors = +self._vectors.get(path, Counter())
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
