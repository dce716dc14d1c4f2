"""The rules within one version of a table's metadata, and from one version to the next.

Counters never go down; what is listed stays listed unless an operation of the history can have removed it; the current snapshot is
main's; and a snapshot's description never changes. Each version is compared with its *predecessor* (``checkers.timeline.version_order``),
not with the one before it in the log: after a fork, only the fork is reported, not everything that it lost.

**What explains what.** Expiry removes snapshots, and refs that are too old. The statements and procedures of today's workloads take no
schema, no partition spec, no property away (``Kind.takes_away``); an operation of an unknown kind is taken to explain whatever changed while it
was under way. So that can hide a loss, but never make a false alarm. And as no kind takes away what ``add-column``, ``widen-column``,
``set-property`` and ``upgrade`` did, what was acknowledged of these is in the last version: a property as somebody set it since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypedDict

from checkers.evidence.history import Operation
from checkers.evidence.problem import METADATA, Problem
from checkers.evidence.tablelog import Commit, Metadata
from checkers.metadata.rules import BrokenRule
from checkers.timeline import explain
from checkers.timeline.timeline import kind_of
from checkers.timeline.version_order import FOREVER, Chain, Step, place, predecessor
from workloads.operations.kind import Lost


def _may_undo_changes(o: Operation) -> bool:
    """Whether it may take away what others did to schema or properties, or nobody knows."""
    kind = kind_of(o)
    return kind is None or not kind.takes_away.isdisjoint({"schema", "property"})


class MetadataCounts(TypedDict, total=False):
    """What was seen of one table's metadata; a number that is 0 can be absent."""

    versions: int
    """Versions of the metadata in the table log."""
    snapshots: int
    """Snapshots in the table log."""
    gaps: int
    """Versions whose predecessor is not known."""
    metadata_files_deleted_after_commit: int
    """Versions whose file the table's own cleaning deleted before the log was read."""
    dropped_snapshots: int
    """Snapshots that a version no longer lists and its predecessor listed."""
    lost_changes: int
    """Acknowledged changes of schema, property or format version that are not in the last version."""
    reused_by_replace: int
    """Snapshots without a parent that share their sequence number with others: the table was replaced."""
    reused_after_drop: int
    """Sequence numbers given again after their snapshot was no longer listed."""
    parents_before_the_log: int
    """Snapshots whose parent is older than what the log could read."""
    read_too_late: int
    """Files, of snapshots no longer listed, that were gone before the log was read."""
    summary_metrics_compared: int
    """Metrics of snapshot summaries that were compared with the files."""
    dangling_position_delete_files: int
    """Live position delete files for data files that are no longer live: legal."""
    live_data_files: int
    """Data files of the last current snapshot."""
    live_delete_files: int
    """Delete files of the last current snapshot."""
    unwalked: int
    """Snapshots whose live files are not known."""


Counted = Literal[
    "versions",
    "snapshots",
    "gaps",
    "metadata_files_deleted_after_commit",
    "dropped_snapshots",
    "lost_changes",
    "reused_by_replace",
    "reused_after_drop",
    "parents_before_the_log",
    "read_too_late",
    "summary_metrics_compared",
    "dangling_position_delete_files",
    "live_data_files",
    "live_delete_files",
    "unwalked",
]
"""The keys of :class:`MetadataCounts`."""


@dataclass
class VersionSeen:
    """The findings of one part of the checker on one table."""

    findings: list[BrokenRule] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    undecided: bool = False
    stats: MetadataCounts = field(default_factory=MetadataCounts)

    def doubt(self, note: str) -> None:
        """Note what cannot be decided, and why."""
        self.undecided = True
        if note not in self.notes:
            self.notes.append(note)

    def count(self, name: Counted, n: int = 1) -> None:
        """Add to a statistic."""
        self.stats[name] = self.stats.get(name, 0) + n


def check_versions(chain: Chain, *, torn: bool) -> VersionSeen:
    """All rules about versions; ``torn``: the history may lack its end, and with it the explanation of a loss."""
    seen = VersionSeen()
    check = _Versions(chain, seen, torn)
    for step in chain.steps:
        check.step(step)
    check.log_problems()
    check.acknowledged_changes()
    check.sequence_numbers()
    check.row_ids()
    check.position_deletes()
    check.parents()
    seen.count("versions", len(chain.log.metadata))
    seen.count("snapshots", len(chain.log.commits))
    return seen


@dataclass
class _Versions:
    chain: Chain
    seen: VersionSeen
    torn: bool
    held: dict[str, set[str]] = field(default_factory=dict)
    """Property → all its values so far."""

    def found(self, name: str, text: str, **more: Any) -> None:
        self.seen.findings.append(BrokenRule(name, text, **more))

    # --- one step

    def step(self, step: Step) -> None:
        m = step.after
        self._fork(step)
        self._problems(m)
        if step.again:
            return
        self._one_version(m, step)
        if step.before is not None:
            self._counters(step.before, m)
            self._identity(step.before, m)
            self._vanished_snapshots(step, step.before)
            self._vanished_refs(step, step.before)
            self._vanished_schemas(step, step.before)
            self._vanished_properties(step, step.before)
        elif m.n and not step.passed:
            self.seen.count("gaps")

    def _made_by(self, m: Metadata) -> str:
        makers = self.chain.makers(m)
        if not makers:
            return "a commit that added no snapshot"
        return "the commit of " + explain.listing(
            explain.operation(self.chain.by_op[o]) if o in self.chain.by_op else f"operation {o}" for o in makers
        )

    def _fork(self, step: Step) -> None:
        m = step.after
        if not step.passed or self._explained(step, None):
            return
        lost = [
            s
            for p in step.passed
            for c in self.chain.commits_of.get(p.n, ())
            if (s := c.snapshot_id) not in m.snapshots
        ]
        ops = list(self.chain.makers(m))
        ops += [c.op for s in lost if (c := self.chain.snapshots[s]).op is not None]
        last = step.passed[-1]
        if step.again:
            how = f"the catalog's pointer went back to it: version {m.n} of the log is {m.location}, which had been current before"
        elif step.before is None:
            how = f"version {m.n} of the log ({m.location}) does not descend from it, nor from any version that was seen before"
        else:
            how = (
                f"version {m.n} of the log ({m.location}), {self._made_by(m)}, was made from version {step.before.n} "
                f"({step.before.location})"
            )
        made = "version" if len(step.passed) == 1 else "versions"
        text = (
            f"{last.location} was the table's current metadata, made from what was current before it; then {how}. The {len(step.passed)} "
            f"{made} in between, each of which had won its swap, {'is' if len(step.passed) == 1 else 'are'} passed over"
        )
        text += (
            f", and with them {'snapshot' if len(lost) == 1 else 'snapshots'} {explain.listing(lost)}." if lost else "."
        )
        self.found(
            "metadata-fork",
            text,
            ops=tuple(dict.fromkeys(ops)),
            snapshots=tuple(lost),
            files=(*(p.location for p in step.passed), m.location),
        )

    def _problems(self, m: Metadata) -> None:
        for p in m.problems:
            if p.code == "fork":
                continue  # judged by what the versions say themselves
            if p.code == "metadata-log":
                self.found("metadata-log-mismatch", f"version {m.n}, {m.location}: {p.why}.", files=(m.location,))
            elif p.code == "snapshot-changed":
                self.found(
                    "snapshot-changed",
                    f"version {m.n}, {m.location}, {p.why}: parent, sequence number, manifest list or timestamp are not what they were.",
                    snapshots=() if p.snapshot is None else (p.snapshot,),
                    files=(m.location,),
                )
            else:
                self._metadata_file(p, m)

    def _metadata_file(self, problem: Problem, by: Metadata | None) -> None:
        if problem.code not in METADATA or problem.file is None:
            self.seen.doubt(problem.why)
            return
        file = problem.file
        where = f"version {by.n} ({by.location}) descends from" if by is not None else "the catalog's pointer leads to"
        if problem.code == "corrupt-metadata":
            self.found("corrupt-metadata-file", f"{where} {file}, which is corrupt: {problem.cause}.", files=(file,))
            return
        properties = (by.raw.get("properties") if by is not None else None) or {}
        if by is not None and properties.get("write.metadata.delete-after-commit.enabled") == "true":
            self.seen.count("metadata_files_deleted_after_commit")
            return
        self.found("missing-metadata-file", f"{where} {file}, which is not in the store.", files=(file,))

    def log_problems(self) -> None:
        """What the log says of itself."""
        for problem in self.chain.log.problems:
            self._metadata_file(problem, None)

    def _one_version(self, m: Metadata, step: Step) -> None:
        listed = set(m.snapshots)
        if len(m.snapshots) != len(listed):
            twice = sorted({s for s in m.snapshots if m.snapshots.count(s) > 1})
            self.found(
                "duplicate-snapshot",
                f"version {m.n} ({m.location}) lists snapshot {explain.listing(twice)} more than once.",
                snapshots=tuple(twice),
                files=(m.location,),
            )
        for name, target in sorted({**m.refs, **({} if m.current is None else {"(current)": m.current})}.items()):
            if target not in listed:
                what = "current-snapshot-id" if name == "(current)" else f"ref {name}"
                self.found(
                    "dangling-ref",
                    f"in version {m.n} ({m.location}), {what} is snapshot {target}, which the version does not list.",
                    ops=tuple(self.chain.makers(m)),
                    snapshots=(target,),
                    files=(m.location,),
                )
        if "main" in m.refs and m.refs["main"] != m.current:
            self.found(
                "main-ref",
                f"in version {m.n} ({m.location}), current-snapshot-id is {m.current} and the main branch is at {m.refs['main']}.",
                snapshots=tuple(s for s in (m.current, m.refs["main"]) if s is not None),
                files=(m.location,),
            )
        before = step.before
        known = (
            set() if before is None or m.last_sequence_number < before.last_sequence_number else set(before.snapshots)
        )
        for s in m.snapshots:
            c = self.chain.snapshots.get(s)
            if s not in known and c is not None and c.sequence_number > m.last_sequence_number:
                self.found(
                    "last-sequence-number",
                    f"version {m.n} ({m.location}) says last-sequence-number {m.last_sequence_number}, but lists {explain.snapshot(c)}"
                    f"{self._of(c)}: the next commit can be given a number that is taken.",
                    ops=() if c.op is None else (c.op,),
                    snapshots=(s,),
                    files=(m.location,),
                )

    def _of(self, c: Commit) -> str:
        return "" if c.op is None else f" of {explain.maker(c, self.chain.by_op)}"

    def _counters(self, before: Metadata, m: Metadata) -> None:
        pairs: list[tuple[str, Any, Any]] = [
            ("last-sequence-number", before.last_sequence_number, m.last_sequence_number),
            ("next-row-id", before.next_row_id, m.next_row_id),
        ]
        pairs += [(k, before.raw.get(k), m.raw.get(k)) for k in ("last-column-id", "last-partition-id")]
        for name, old, new in pairs:
            if isinstance(old, int) and isinstance(new, int) and new < old:
                self.found(
                    "counter-decreased",
                    f"version {m.n} ({m.location}), {self._made_by(m)}, says {name} {new}, but version {before.n}, from which it was "
                    f"made, said {old}: what was assigned in between can be assigned again.",
                    ops=tuple(self.chain.makers(m)),
                    files=(before.location, m.location),
                )

    def _identity(self, before: Metadata, m: Metadata) -> None:
        old, new = before.raw.get("table-uuid"), m.raw.get("table-uuid")
        if isinstance(old, str) and isinstance(new, str) and old.lower() != new.lower():
            self.found(
                "table-uuid-changed",
                f"version {m.n} ({m.location}) has table-uuid {new}, but version {before.n}, from which it was made, has {old}.",
                files=(before.location, m.location),
            )
        if m.format_version < before.format_version:
            self.found(
                "format-version-decreased",
                f"version {m.n} ({m.location}) is of format version {m.format_version}, but version {before.n}, from which it was made, "
                f"of {before.format_version}.",
                files=(before.location, m.location),
            )

    # --- what is gone

    def _explained(self, step: Step, lost: Lost | None) -> bool:
        """Whether an operation that can have made the version explains a loss: by its kind, or as one of an unknown kind.

        ``lost``: what is gone; None for what no known kind takes away.
        """
        return any((k := kind_of(o)) is None or lost in k.takes_away for o in self.chain.under_way(step))

    def _vanished(self, name: str, step: Step, before: Metadata, what: str, snapshots: tuple[int, ...] = ()) -> None:
        m = step.after
        if self.torn:
            self.seen.doubt(
                f"version {m.n} no longer has {what}; the history may lack its end, so an operation that explains it may not be in it"
            )
            return
        # a failed operation may explain a loss for ever, but who had failed before did not do this
        around = [
            o.op for o in self.chain.under_way(step) if o.type != "fail" or o.end is None or o.end >= step.earliest
        ]
        end = explain.ms(step.latest) if step.latest < FOREVER else "the end of the run"
        self.found(
            name,
            f"version {before.n} ({before.location}) has {what}; version {m.n} ({m.location}), {self._made_by(m)}, was made from it and "
            f"no longer has it. No operation that can remove it was under way between {explain.ms(step.earliest)} and "
            f"{end}; under way were {explain.listing(around) or 'none'}.",
            ops=tuple(dict.fromkeys((*self.chain.makers(m), *around[: explain.MOST]))),
            snapshots=snapshots,
            files=(before.location, m.location),
        )

    def _only_current(self) -> bool:
        return len(self.chain.log.commits) > 1 and all(len(m.snapshots) <= 1 for m in self.chain.log.metadata)

    def _vanished_snapshots(self, step: Step, before: Metadata) -> None:
        m = step.after
        if m.snapshots[: len(before.snapshots)] == before.snapshots:
            return
        listed = set(m.snapshots)
        gone = tuple(s for s in before.snapshots if s not in listed)
        if not gone:
            return
        self.seen.count("dropped_snapshots", len(gone))
        if self._only_current():
            if not any("only the current" in n for n in self.seen.notes):
                self.seen.notes.append(
                    "the catalog's metadata lists only the current snapshot, so missing older ones were not judged"
                )
            return
        if not self._explained(step, "snapshot"):
            words = f"snapshot{'s' if len(gone) > 1 else ''} {explain.listing(gone)}"
            self._vanished("vanished-snapshot", step, before, words, gone)
            return
        expiries = [
            o for o in self.chain.under_way(step) if (k := kind_of(o)) is not None and "snapshot" in k.takes_away
        ]
        if self._explained(step, None) or not expiries:
            return
        asked = [o.value.get("retain_last") if isinstance(o.value, Mapping) else None for o in expiries]
        numbers = [n for n in asked if isinstance(n, int)]
        if len(numbers) != len(asked):
            return
        retain = max(1, min(numbers))
        had = sum(1 for _ in self.chain.ancestors(m.current, listed.union(before.snapshots)))
        kept = sum(1 for _ in self.chain.ancestors(m.current, listed))
        if kept < min(retain, had):
            self.found(
                "retention",
                f"version {before.n} lists {had} snapshots of main's ancestry, version {m.n} ({m.location}) only {kept}, though "
                f"{explain.listing(explain.operation(o) for o in expiries)} asked to retain the last {retain}; gone: {explain.listing(gone)}.",
                ops=tuple(o.op for o in expiries),
                snapshots=gone,
                files=(before.location, m.location),
            )

    def _vanished_refs(self, step: Step, before: Metadata) -> None:
        for name in sorted(before.refs.keys() - step.after.refs.keys()):
            if not self._explained(step, None if name == "main" else "ref"):
                self._vanished("vanished-ref", step, before, f"the ref {name}", (before.refs[name],))

    def _vanished_schemas(self, step: Step, before: Metadata) -> None:
        old, new = before.raw, step.after.raw

        listed: tuple[tuple[str, str, str, str, Lost], ...] = (
            ("vanished-schema", "schemas", "schema-id", "schema", "schema"),
            ("vanished-partition-spec", "partition-specs", "spec-id", "partition spec", "spec"),
        )
        for name, key, id, what, lost_part in listed:
            if old.get(key) is new.get(key) or key not in new:
                continue
            gone = sorted(_ids(old, key, id) - _ids(new, key, id))
            if gone and not self._explained(step, lost_part):
                self._vanished(name, step, before, f"{what} {explain.listing(gone)}")
        same = old.get("schemas") is new.get("schemas") and old.get("current-schema-id") == new.get("current-schema-id")
        if not same:
            columns = _columns(new)
            lost = [name for id, name in _columns(old).items() if id not in columns]
            if columns and lost and not self._explained(step, "schema"):
                self._vanished(
                    "vanished-schema", step, before, f"the column{'s' if len(lost) > 1 else ''} {explain.listing(lost)}"
                )

    def _vanished_properties(self, step: Step, before: Metadata) -> None:
        old, new = before.raw.get("properties"), step.after.raw.get("properties")
        if old is new or not isinstance(old, Mapping) or not isinstance(new, Mapping):
            return
        gone = sorted(old.keys() - new.keys())
        back = sorted(k for k in old.keys() & new.keys() if old[k] != new[k] and new[k] in self.held.get(k, ()))
        for k in (*old, *new):
            self.held.setdefault(k, set()).update(p[k] for p in (old, new) if k in p)
        if (gone or back) and not self._explained(step, "property"):
            words = [f"the property {k} = {old[k]}" for k in (*gone, *back)]
            self._vanished("vanished-property", step, before, explain.listing(words))

    # --- what was acknowledged

    def acknowledged_changes(self) -> None:
        """The last version has every acknowledged change of schema, property or format version, if it must show it.

        A change already reported as vanished or passed over by a fork is not reported again.
        """
        chain = self.chain
        versions = chain.log.metadata
        told = {f.name for f in self.seen.findings} & {
            "vanished-schema",
            "vanished-property",
            "format-version-decreased",
        }
        read = {place(m.location) for m in versions}
        until = max((c.time for c in chain.log.captures if c.metadata and place(c.metadata) in read), default=-1)
        if self.torn or not versions or any(map(_may_undo_changes, chain.of_table)):
            return
        whole = predecessor(versions[0]) is None and not any(s.gap for s in chain.steps[1:])
        for o in chain.of_table:
            if o.type != "ok" or o.end is None or o.end >= until or not isinstance(o.value, Mapping):
                continue
            check = {
                "add-column": self._added_column,
                "widen-column": self._widened_column,
                "set-property": self._set_property,
                "upgrade": self._upgraded,
            }.get(o.f)
            lost = check(o, versions, whole) if check is not None else None
            if lost is None or told:
                continue
            what, has = lost
            had = [m for m in versions if has(m)]
            self.seen.count("lost_changes")
            self.found(
                "lost-metadata-change",
                f"the {explain.operation(o)} was invoked at {explain.ms(o.start)} and {explain.outcome(o)}, yet "
                + (
                    f"none of the {len(versions)} versions of the log has {what}."
                    if not had
                    else f"version {versions[-1].n} ({versions[-1].location}), the last, lacks {what}; version {had[-1].n} "
                    f"({had[-1].location}) was the last one with it."
                ),
                ops=(o.op,),
                files=(*(m.location for m in had[-1:]), versions[-1].location),
            )

    def _added_column(
        self, o: Operation, versions: Sequence[Metadata], whole: bool
    ) -> tuple[str, Callable[[Metadata], bool]] | None:
        name = o.value.get("column")

        def has(m: Metadata) -> bool:
            field = _field(m.raw, name)
            return field is not None and field.get("doc", o.op) == o.op

        there = _field(versions[-1].raw, name) is not None and (not whole or any(map(has, versions)))
        return None if there else (f"the column {name} that it added", has)

    def _widened_column(
        self, o: Operation, versions: Sequence[Metadata], whole: bool
    ) -> tuple[str, Callable[[Metadata], bool]] | None:
        name = o.value.get("column")

        def has(m: Metadata) -> bool:
            field = _field(m.raw, name)
            return field is not None and field.get("type") == "long"

        return None if has(versions[-1]) else (f"the column {name} as long", has)

    def _set_property(
        self, o: Operation, versions: Sequence[Metadata], whole: bool
    ) -> tuple[str, Callable[[Metadata], bool]] | None:
        key = o.value.get("property")

        def value(m: Metadata) -> Any:
            return (m.raw.get("properties") or {}).get(key)

        last = self.chain.by_op.get(value(versions[-1]))
        before = last is None or (
            last.type == "ok" and last.completed is not None and last.completed.index < o.invoked.index
        )
        there = any(value(m) == o.op for m in versions) or not whole
        lost = not there or (before and value(versions[-1]) != o.op)
        return (f"{key} = {o.op}", lambda m: value(m) == o.op) if lost and key is not None else None

    def _upgraded(
        self, o: Operation, versions: Sequence[Metadata], whole: bool
    ) -> tuple[str, Callable[[Metadata], bool]] | None:
        def has(m: Metadata) -> bool:
            return m.format_version >= 3

        return None if has(versions[-1]) else ("format version 3", has)

    # --- assigned numbers

    def sequence_numbers(self) -> None:
        """Sequence numbers increase along every parent chain, and snapshots that are listed together have different ones."""
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
                    f"{explain.snapshot(c)}{self._of(c)} has the parent {explain.snapshot(parent)}{self._of(parent)}, whose sequence number "
                    "is not less: delete files of the one can apply to data files of the other that they were never meant for.",
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
                f"version {m.n} ({m.location}) lists {' and '.join(f'snapshot {c.snapshot_id}{self._of(c)}' for c in pair)}, both with "
                f"sequence number {number}: neither is older than the other.",
                ops=_newest_first(pair),
                snapshots=tuple(c.snapshot_id for c in pair),
                files=(m.location,),
            )

    def _cycles(self) -> set[int]:
        """Snapshots that are their own ancestors by way of others; each cycle is told once.

        A parent exists before its child, so the link that is wrong is the one to a parent that a later version shows first.
        """
        known = self.chain.snapshots
        done: set[int] = set()
        looped: set[int] = set()
        for start in known:
            line: dict[int, None] = {}
            at: int | None = start
            while at is not None and at in known and at not in done and at not in line:
                line[at] = None
                at = known[at].parent_id
            done |= line.keys()
            if at not in line:
                continue
            path = list(line)
            cycle = [known[s] for s in path[path.index(at) :]]
            if len(cycle) < 2:
                continue
            looped |= {c.snapshot_id for c in cycle}
            c = max(cycle, key=lambda c: (known[c.parent_id or 0].metadata - c.metadata, -c.sequence_number))
            parent = known[c.parent_id or 0]
            self.found(
                "unknown-parent",
                f"{explain.snapshot(c)}{self._of(c)} has the parent {explain.snapshot(parent)}{self._of(parent)}, which descends from it, over "
                f"{len(cycle)} snapshots: none of them has a first ancestor, and version {parent.metadata} is the first to show that parent, "
                f"version {c.metadata} its child.",
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
        steps = {s.after.n: s for s in self.chain.steps if not s.again}
        ranges: list[tuple[int, int, Commit]] = []
        for c in self.chain.log.commits:
            step = steps.get(c.metadata)
            if step is None or step.after.format_version < 3:
                continue
            m, before = step.after, step.before
            alone = len(self.chain.commits_of[c.metadata]) == 1
            if c.first_row_id is None or c.added_rows is None:
                lineage = before is not None and before.format_version >= 3 and before.next_row_id is not None
                if lineage and alone and not step.gap:
                    self.found(
                        "first-row-id",
                        f"{explain.snapshot(c)}{self._of(c)} was added to a table of version {m.format_version} and has no "
                        f"{'first-row-id' if c.first_row_id is None else 'added-rows'}.",
                        **self._one(c, m),
                    )
                continue
            end = c.first_row_id + c.added_rows
            if before is not None and before.next_row_id is not None and c.first_row_id < before.next_row_id:
                self.found(
                    "first-row-id",
                    f"{explain.snapshot(c)}{self._of(c)} begins at first-row-id {c.first_row_id}, but the version that it was committed "
                    f"on (version {before.n}) had already assigned all below next-row-id {before.next_row_id}.",
                    **self._one(c, m),
                )
            if m.next_row_id is not None and end > m.next_row_id:
                self.found(
                    "next-row-id",
                    f"{explain.snapshot(c)}{self._of(c)} assigns the row ids {c.first_row_id} to {end - 1}, but version {m.n} "
                    f"({m.location}), which adds it, says next-row-id {m.next_row_id}: the next snapshot assigns some of them again.",
                    **self._one(c, m),
                )
            if c.added_rows:
                ranges.append((c.first_row_id, end, c))
            for f in c.added_files:
                if f.content != "data" or f.first_row_id is None or f.snapshot_id != c.snapshot_id:
                    continue
                last = f.first_row_id + f.records
                if not c.first_row_id <= f.first_row_id <= last <= end:
                    self.found(
                        "file-row-id",
                        f"{explain.snapshot(c)}{self._of(c)} assigns the row ids from {c.first_row_id} up to {end}, but gives the file "
                        f"{f.path} that it adds those from {f.first_row_id} up to {last}.",
                        ops=() if c.op is None else (c.op,),
                        snapshots=(c.snapshot_id,),
                        files=(f.path,),
                    )
        ranges.sort(key=lambda r: (r[0], r[1], r[2].sequence_number))
        for (_, end, a), (first, _, b) in pairwise(ranges):
            if first < end and (clash := self._listed_together((a, b))) is not None:
                m = clash[0]
                self.found(
                    "row-id-overlap",
                    f"version {m.n} ({m.location}) lists {explain.snapshot(a)}{self._of(a)} with the row ids {a.first_row_id} to {end - 1}, "
                    f"and {explain.snapshot(b)}{self._of(b)} whose row ids begin at {first}: rows of both have the same _row_id.",
                    ops=_newest_first((a, b)),
                    snapshots=(a.snapshot_id, b.snapshot_id),
                    files=(m.location,),
                )

    @staticmethod
    def _one(c: Commit, m: Metadata) -> dict[str, Any]:
        return {"ops": () if c.op is None else (c.op,), "snapshots": (c.snapshot_id,), "files": (m.location,)}

    def position_deletes(self) -> None:
        """A version 3 table gets no new position delete files; those from before its upgrade may stay."""
        steps = {s.after.n: s for s in self.chain.steps if not s.again}
        for c in self.chain.log.commits:
            step = steps.get(c.metadata)
            if step is None or step.gap or step.before is None or step.before.format_version < 3:
                continue
            new = [f.path for f in c.added_files if f.content == "position-deletes" and f.snapshot_id == c.snapshot_id]
            if new:
                self.found(
                    "position-deletes-in-v3",
                    f"{explain.snapshot(c)}{self._of(c)} adds {explain.listing(sorted(new))}, position deletes, to a table that was of "
                    f"format version {step.before.format_version} already (metadata version {step.before.n}, {step.before.location}).",
                    ops=() if c.op is None else (c.op,),
                    snapshots=(c.snapshot_id,),
                    files=tuple(sorted(new)),
                )

    def parents(self) -> None:
        """A snapshot's parent was in some earlier version, or is older than the first version that could be read."""
        steps = {s.after.n: s for s in self.chain.steps if not s.again}
        for c in self.chain.log.commits:
            step = steps.get(c.metadata)
            outside = next((p.why for p in c.problems if p.code == "outside-chain"), None)
            lost = c.parent_id is not None and c.parent_id not in self.chain.snapshots
            if outside is None and not lost:
                continue
            several = len(self.chain.commits_of[c.metadata]) > 1
            if step is None or step.gap or step.before is None or (outside is None and several):
                self.seen.count("parents_before_the_log")
                continue
            m = step.after
            text = (
                f"version {m.n} ({m.location}) adds {explain.snapshot(c)}{self._of(c)}, whose parent {c.parent_id} was in no version "
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


def _newest_first(pair: Sequence[Commit]) -> tuple[str, ...]:
    """The makers of two snapshots: who came later took what the other had."""
    return tuple(c.op for c in sorted(pair, key=lambda c: -c.metadata) if c.op is not None)


def _ids(raw: Mapping[str, Any], key: str, id: str) -> set[int]:
    items = raw.get(key)
    return (
        {x[id] for x in items if isinstance(x, Mapping) and isinstance(x.get(id), int)}
        if isinstance(items, list)
        else set()
    )


def _field(raw: Mapping[str, Any], name: Any) -> Mapping[str, Any] | None:
    """The current schema's column of that name."""
    for schema in raw.get("schemas") or ():
        if isinstance(schema, Mapping) and schema.get("schema-id") == raw.get("current-schema-id"):
            for f in schema.get("fields") or ():
                if isinstance(f, Mapping) and f.get("name") == name:
                    return f
    return None


def _columns(raw: Mapping[str, Any]) -> dict[int, str]:
    """Field id → name of the current schema's columns; empty when there is none."""
    for schema in raw.get("schemas") or ():
        if isinstance(schema, Mapping) and schema.get("schema-id") == raw.get("current-schema-id"):
            return {
                f["id"]: f["name"]
                for f in schema.get("fields") or ()
                if isinstance(f, Mapping) and "id" in f and "name" in f
            }
    return {}
