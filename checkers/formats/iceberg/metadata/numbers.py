"""The numbers that a table assigns: sequence numbers, row ids, and the parents of its snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from operator import lt

from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain


class Numbers(Judging):
    """The snapshots of one table."""

    def sequence_numbers(self) -> None:
        """Sequence numbers increase along every parent chain, and snapshots that are listed together have different ones."""
        if self._ascending():
            self.seen.count("reused_by_replace", 0)
            self.seen.count("reused_after_drop", 0)
            return
        known = self.chain.snapshots
        taken: dict[int, list[Commit]] = {}
        looped = self._cycles()
        for c in self.chain.log.commits:
            parent = known.get(c.parent_id) if c.parent_id is not None else None
            if c.snapshot_id == c.parent_id:
                self.found("unknown-parent", f"{explain.snapshot(c)} is its own parent.", snapshots=(c.snapshot_id,))
            elif (
                parent is not None
                and c.snapshot_id not in looped
                and c.sequence_number <= parent.sequence_number
                and (c.sequence_number or self._v2(c))
            ):
                self.found(
                    "sequence-number-order",
                    f"{explain.snapshot(c)}{self.makers.of(c)} has the parent {explain.snapshot(parent)}{self.makers.of(parent)}, whose "
                    "sequence "
                    "number is not less: delete files of the one can apply to data files of the other that they were never meant for.",
                    ops=tuple(x.op for x in (c, parent) if x.op is not None),
                    snapshots=(parent.snapshot_id, c.snapshot_id),
                )
            if c.sequence_number:
                taken.setdefault(c.sequence_number, []).append(c)
        for number, commits in sorted(taken.items()):
            rooted = [c for c in commits if c.parent_id is not None]
            self.seen.count("reused_by_replace", len(commits) - len(rooted) if rooted and len(commits) > 1 else 0)
            clash = self._listed_together(rooted)
            if clash is None:
                self.seen.count("reused_after_drop", max(0, len(rooted) - 1))
                continue
            m, pair = clash
            self.found(
                "duplicate-sequence-number",
                f"version {m.n} ({m.location}) lists {' and '.join(f'snapshot {c.snapshot_id}{self.makers.of(c)}' for c in pair)}, both with "
                f"sequence number {number}: neither is older than the other.",
                ops=_newest_first(pair),
                snapshots=tuple(c.snapshot_id for c in pair),
                files=(m.location,),
            )

    def _ascending(self) -> bool:
        """Whether each snapshot has a higher sequence number than the one before it, and a parent that is before it or not known.

        Then no parent has as high a number, and no number is taken twice.
        """
        commits = self.chain.log.commits
        numbers = [c.sequence_number for c in commits]
        places: dict[int | None, int] = {c.snapshot_id: n for n, c in enumerate(commits)}
        parents = [places.get(c.parent_id, -1) for c in commits]
        return (
            bool(commits)
            and len(places) == len(commits)
            and numbers[0] > 0
            and all(map(lt, numbers, numbers[1:]))
            and all(map(lt, parents, range(len(commits))))
        )

    @cached_property
    def _steps(self) -> dict[int, Step]:
        """Version → the step to it."""
        return {s.after.n: s for s in self.chain.steps if not s.repeated}

    @cached_property
    def _version_3(self) -> bool:
        """Whether some version is of format version 3."""
        return any(m.format_version >= 3 for m in self.chain.log.metadata)

    def _cycles(self) -> set[int]:
        """Snapshots that are their own ancestors by way of others; each cycle is told once.

        A parent exists before its child, so the link that is wrong is the one to a parent that a later version shows first.
        """
        known = self.chain.snapshots
        done: set[int] = set()
        for s, c in known.items():  # mostly each has a parent that stands before it, and then there is none
            if c.parent_id in known and c.parent_id not in done:
                break
            done.add(s)
        else:
            return set()
        done.clear()
        looped: set[int] = set()
        for start in known:
            line: dict[int, None] = {}
            id: int | None = start
            while id is not None and id in known and id not in done and id not in line:
                line[id] = None
                id = known[id].parent_id
            done |= line.keys()
            if id not in line:
                continue
            path = list(line)
            cycle = [known[s] for s in path[path.index(id) :]]
            if len(cycle) < 2:
                continue
            looped |= {c.snapshot_id for c in cycle}
            c = max(cycle, key=lambda c: (known[c.parent_id or 0].metadata - c.metadata, -c.sequence_number))
            parent = known[c.parent_id or 0]
            self.found(
                "unknown-parent",
                f"{explain.snapshot(c)}{self.makers.of(c)} has the parent {explain.snapshot(parent)}{self.makers.of(parent)}, which descends "
                "from it "
                f"over {len(cycle)} snapshots, so none of them has a first ancestor. Version {parent.metadata} is the first to show that "
                f"parent, version {c.metadata} its child.",
                ops=tuple(x.op for x in (c, parent) if x.op is not None),
                snapshots=(c.snapshot_id, parent.snapshot_id),
            )
        return looped

    def _v2(self, c: Commit) -> bool:
        versions = self.chain.log.metadata
        return not 0 <= c.metadata < len(versions) or versions[c.metadata].format_version > 1

    def _listed_together(self, commits: Sequence[Commit]) -> tuple[Metadata, tuple[Commit, Commit]] | None:
        """Two of the commits that one version lists, and that version."""
        for k, b in enumerate(commits):
            for a in commits[:k]:
                n = max(a.metadata, b.metadata)
                if 0 <= n < len(self.chain.log.metadata):
                    m = self.chain.log.metadata[n]
                    if a.snapshot_id in m.snapshots and b.snapshot_id in m.snapshots:
                        return m, (a, b)
        return None

    def row_ids(self) -> None:
        """Version 3: each snapshot's range of row ids begins at the table's next id, is above its parent's, and overlaps no other."""
        if not self._version_3:
            return
        ranges: list[tuple[int, int, Commit]] = []
        for c in self.chain.log.commits:
            step = self._steps.get(c.metadata)
            if step is None or step.after.format_version < 3:
                continue
            if c.first_row_id is None or c.added_rows is None:
                self._without_row_ids(c, step)
                continue
            end = c.first_row_id + c.added_rows
            self._first_row_id(c, c.first_row_id, step)
            m = step.after
            if m.next_row_id is not None and end > m.next_row_id:
                self.found(
                    "next-row-id",
                    f"{explain.snapshot(c)}{self.makers.of(c)} assigns the row ids {c.first_row_id} to {end - 1}, but version {m.n} "
                    f"({m.location}), which adds it, says next-row-id {m.next_row_id}: the next snapshot assigns some of them again.",
                    **self.makers.named(c, m),
                )
            if c.added_rows:
                ranges.append((c.first_row_id, end, c))
            self._row_ids_of_files(c, c.first_row_id, end)
        self._overlaps(ranges)

    def _without_row_ids(self, c: Commit, step: Step) -> None:
        """A snapshot that says no range of row ids, though the version before it numbered its rows."""
        m, before = step.after, step.before
        lineage = before is not None and before.format_version >= 3 and before.next_row_id is not None
        if lineage and len(self.chain.commits_of[c.metadata]) == 1 and not step.gap:
            self.found(
                "first-row-id",
                f"{explain.snapshot(c)}{self.makers.of(c)} was added to a table of version {m.format_version} and has no "
                f"{'first-row-id' if c.first_row_id is None else 'added-rows'}.",
                **self.makers.named(c, m),
            )

    def _first_row_id(self, c: Commit, first: int, step: Step) -> None:
        """A range that begins below the next row id of the version on which the snapshot was committed."""
        before = step.before
        if before is None or before.next_row_id is None or first >= before.next_row_id:
            return
        due = jumped(self.chain, before)
        if due is None or due > first:
            self.found(
                "first-row-id",
                f"{explain.snapshot(c)}{self.makers.of(c)} begins at first-row-id {first}, but the version that it was committed "
                f"on (version {before.n}) had already assigned all below next-row-id {before.next_row_id}.",
                **self.makers.named(c, step.after),
            )
            return
        makers = (*self.makers.accused(self._steps[before.n]), *(() if c.op is None else (c.op,)))
        self.found(
            "first-row-id",
            f"version {before.n} ({before.location}), {self.makers.made_by(before)}, says next-row-id {before.next_row_id}, though "
            f"only the row ids below {due} are assigned. {explain.snapshot(c)}{self.makers.of(c)}, committed on it, begins at "
            f"first-row-id {first}.",
            ops=tuple(dict.fromkeys(makers)),
            snapshots=(c.snapshot_id,),
            files=(before.location,),
        )

    def _row_ids_of_files(self, c: Commit, first: int, end: int) -> None:
        """Data files that a snapshot adds with row ids that are not in its range."""
        for f in c.added_files:
            if f.content != "data" or f.first_row_id is None or f.snapshot_id != c.snapshot_id:
                continue
            last = f.first_row_id + f.records
            if not first <= f.first_row_id <= last <= end:
                self.found(
                    "file-row-id",
                    f"{explain.snapshot(c)}{self.makers.of(c)} assigns the row ids from {first} up to {end}, but gives the file "
                    f"{f.path} that it adds those from {f.first_row_id} up to {last}.",
                    ops=() if c.op is None else (c.op,),
                    snapshots=(c.snapshot_id,),
                    files=(f.path,),
                )

    def _overlaps(self, ranges: list[tuple[int, int, Commit]]) -> None:
        """Two snapshots that a version lists together, whose ranges share row ids."""
        ranges.sort(key=lambda r: (r[0], r[1], r[2].sequence_number))
        for (_, end, a), (first, until, b) in pairwise(ranges):
            if first < end and (clash := self._listed_together((a, b))) is not None:
                m = clash[0]
                ops, why = _newest_first((a, b)), ""
                if (led := self._misled((a, end), (b, until))) is not None:
                    makers, why = led
                    ops = tuple(dict.fromkeys((*makers, *ops)))
                self.found(
                    "row-id-overlap",
                    f"version {m.n} ({m.location}) lists {explain.snapshot(a)}{self.makers.of(a)} with the row ids {a.first_row_id} to "
                    f"{end - 1}, "
                    f"and {explain.snapshot(b)}{self.makers.of(b)} whose row ids begin at {first}: rows of both have the same _row_id.{why}",
                    ops=ops,
                    snapshots=(a.snapshot_id, b.snapshot_id),
                    files=(m.location,),
                )

    def _misled(self, *ranges: tuple[Commit, int]) -> tuple[tuple[str, ...], str] | None:
        """Of two commits, with the ends of their row ids, that share some: who made the version that led the newer one to ids in use, and a
        sentence on it. None if the newer one began below the next row id that it was told."""
        (older, end), (newer, _) = sorted(ranges, key=lambda r: (r[0].metadata, r[0].sequence_number))
        before = self._steps[newer.metadata].before
        told = None if before is None else before.next_row_id
        if told is None or newer.first_row_id is None or newer.first_row_id < told:
            return None
        between = self.chain.log.metadata[older.metadata : newer.metadata]
        wrong = next((m for m in between if m.next_row_id is not None and m.next_row_id < end), None)
        if wrong is None:
            return None
        why = (
            f" Version {wrong.n} ({wrong.location}), {self.makers.made_by(wrong)}, says next-row-id {wrong.next_row_id}, though row ids up to "
            f"{end - 1} were assigned; {explain.snapshot(newer)} begins where it was told."
        )
        return self.makers.accused(self._steps[wrong.n]), why

    def position_deletes(self) -> None:
        """A version 3 table gets no new position delete files; those from before its upgrade may stay."""
        if not self._version_3:
            return
        steps = self._steps
        for c in self.chain.log.commits:
            step = steps.get(c.metadata)
            if step is None or step.gap or step.before is None or step.before.format_version < 3:
                continue
            new = [f.path for f in c.added_files if f.content == "position-deletes" and f.snapshot_id == c.snapshot_id]
            if new:
                self.found(
                    "position-deletes-in-v3",
                    f"{explain.snapshot(c)}{self.makers.of(c)} adds {explain.listing(sorted(new))}, position deletes, to a table that was of "
                    f"format version {step.before.format_version} already (metadata version {step.before.n}, {step.before.location}).",
                    ops=() if c.op is None else (c.op,),
                    snapshots=(c.snapshot_id,),
                    files=tuple(sorted(new)),
                )

    def parents(self) -> None:
        """A snapshot's parent was in some earlier version, or is older than the first version that could be read."""
        log, known = self.chain.log, self.chain.snapshots
        if {c.parent_id for c in log.commits} <= {None, *known} and not any(c.problems for c in log.commits):
            return
        steps = self._steps
        for c in log.commits:
            step = steps.get(c.metadata)
            outside = next((p.why for p in c.problems if p.code == "outside-chain"), None)
            lost = c.parent_id is not None and c.parent_id not in known
            if outside is None and not lost:
                continue
            several = len(self.chain.commits_of[c.metadata]) > 1
            if step is None or step.gap or step.before is None or (outside is None and several):
                self.seen.count("parents_before_the_log")
                continue
            m = step.after
            text = (
                f"version {m.n} ({m.location}) adds {explain.snapshot(c)}{self.makers.of(c)}, whose parent {c.parent_id} was in no version "
                "before it, not even in the one that it was made from."
                if outside is None
                else f"{outside}: the catalog's pointer never led to it, and yet version {m.n} ({m.location}) builds on it."
            )
            self.found(
                "unknown-parent",
                text,
                ops=() if c.op is None else (c.op,),
                snapshots=tuple(s for s in (c.parent_id, c.snapshot_id) if s is not None),
                files=(m.location,),
            )


def jumped(chain: Chain, m: Metadata) -> int | None:
    """The ``next-row-id`` that is due in a version that says a higher one; None: it says none, or that cannot be told."""
    step = chain.steps[m.n]
    before = step.before
    if before is None or step.gap or before.next_row_id is None or m.next_row_id is None:
        return None
    due = before.next_row_id + sum(c.added_rows or 0 for c in chain.commits_of.get(m.n, ()))
    return due if m.next_row_id > due else None


def _newest_first(pair: Sequence[Commit]) -> tuple[str, ...]:
    """The makers of two snapshots: who came later took what the other had."""
    return tuple(c.op for c in sorted(pair, key=lambda c: -c.metadata) if c.op is not None)
