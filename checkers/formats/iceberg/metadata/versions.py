"""The rules within one version of a table's metadata, and from one version to the next.

Counters never go down, the current snapshot is main's, and a snapshot's description never changes. What else a version lists and says
is judged by ``metadata.snapshots`` (which snapshots), ``metadata.contents`` (schemas, specs, properties and the like),
``metadata.logs`` (the two logs) and ``metadata.times``. Each version is compared with its *predecessor* (``checkers.timeline.version_order``),
not with the one before it in the log: after a fork, only the fork is reported, not everything that it lost.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from checkers.evidence.problem import METADATA, Problem
from checkers.formats.iceberg.metadata.acknowledged import Acknowledged
from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.contents import Contents
from checkers.formats.iceberg.metadata.creation import FORMAT_VERSION, Creation
from checkers.formats.iceberg.metadata.logs import Logs
from checkers.formats.iceberg.metadata.numbers import Numbers, jumped
from checkers.formats.iceberg.metadata.plain import PlainVersions
from checkers.formats.iceberg.metadata.refs import Refs
from checkers.formats.iceberg.metadata.responsible import created
from checkers.formats.iceberg.metadata.seen import Judging, VersionSeen
from checkers.formats.iceberg.metadata.snapshots import Snapshots
from checkers.formats.iceberg.metadata.times import Times
from checkers.formats.iceberg.metadata.wellformed import WellFormed
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain
from workloads.tables import TableSpec


def check_versions(chain: Chain, *, torn: bool, spec: TableSpec | None = None) -> VersionSeen:
    """All rules about versions.

    Args:
        torn: the history may lack its end, and with it the explanation of a change.
        spec: what the table was created as; None if no plan says it.
    """
    seen = VersionSeen()
    check = _Versions(chain, seen, torn)
    snapshots, contents, logs = Snapshots(chain, seen, torn), Contents(chain, seen, torn), Logs(chain, seen, torn)
    times, formed, refs = Times(chain, seen, torn), WellFormed(chain, seen, torn), Refs(chain, seen, torn)
    creation = Creation(chain, seen, torn, spec)
    contents.due.update(creation.judge())
    check.wrong_at_first = creation.wrong
    plain = PlainVersions(chain)
    for step in chain.steps:
        if not contents.due and not logs.due and plain(step):
            continue
        check.step(step)
        if not step.repeated:
            old, new = () if step.before is None else step.before.snapshots, step.after.snapshots
            longer = new[: len(old)] == old
            contents.step(step)  # it finds out more of who made the version
            snapshots.step(step, longer)
            formed.step(step)
            times.step(step)
            logs.step(step, longer)
            refs.step(step)
    times.last()
    times.of_snapshots()
    check.log_problems()
    Acknowledged(chain, seen, torn).acknowledged_changes()
    numbers = Numbers(chain, seen, torn)
    numbers.sequence_numbers()
    numbers.row_ids()
    numbers.position_deletes()
    numbers.parents()
    seen.count("versions", len(chain.log.metadata))
    seen.count("snapshots", len(chain.log.commits))
    return seen


class _Versions(Judging):
    wrong_at_first: frozenset[str] = frozenset()
    """Counters and the format version, if they are told to be wrong in the version with which the table begins."""

    def step(self, step: Step) -> None:
        m = step.after
        self._fork(step)
        self._problems(m, step)
        if step.repeated:
            return
        self._one_version(m, step)
        if step.before is not None:
            self._counters(step, step.before)
            self._too_high(step, step.before)
            self._identity(step, step.before)
        elif m.n and not step.passed:
            self.seen.count("gaps")

    def _fork(self, step: Step) -> None:
        m = step.after
        if not step.passed or self.makers.taken_away(step, None):
            return
        lost = [
            s
            for p in step.passed
            for c in self.chain.commits_of.get(p.n, ())
            if (s := c.snapshot_id) not in m.snapshots
        ]
        ops = (
            [] if step.repeated else list(self.chain.makers(m))
        )  # the version that it went back to was made right, long before
        ops += [c.op for s in lost if (c := self.chain.snapshots[s]).op is not None]
        last = step.passed[-1]
        if step.repeated:
            how = f"the catalog's pointer went back to it: version {m.n} of the log is {m.location}, which had been current before"
        elif step.before is None:
            how = f"version {m.n} of the log ({m.location}) does not descend from it, nor from any version that was seen before"
        else:
            how = (
                f"version {m.n} of the log ({m.location}), {self.makers.made_by(m)}, was made from version {step.before.n} "
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

    def _problems(self, m: Metadata, step: Step) -> None:
        if not m.problems:
            return
        made = {"ops": self.makers.accused(step), "files": (m.location,)}
        for p in m.problems:
            if p.code == "fork":
                continue  # judged by what the versions say themselves
            if p.code == "metadata-log":
                self.found(
                    "metadata-log-mismatch",
                    f"version {m.n} ({m.location}), {self.makers.made_by(m)}: {p.why}.",
                    **made,
                )
            elif p.code == "snapshot-changed":
                self.found(
                    "snapshot-changed",
                    f"version {m.n} ({m.location}), {self.makers.made_by(m)}, {p.why}: parent, sequence number, manifest list or "
                    "timestamp are not what they were.",
                    snapshots=() if p.snapshot is None else (p.snapshot,),
                    **made,
                )
            else:
                self._metadata_file(p, m)

    def _metadata_file(self, problem: Problem, version: Metadata | None) -> None:
        if problem.code not in METADATA or problem.file is None:
            self.seen.doubt(problem.why)
            return
        file = problem.file
        where = (
            f"version {version.n} ({version.location}) descends from"
            if version is not None
            else "the catalog's pointer leads to"
        )
        if problem.code == "corrupt-metadata":
            self.found("corrupt-metadata-file", f"{where} {file}, which is corrupt: {problem.cause}.", files=(file,))
            return
        properties = (version.raw.get("properties") if version is not None else None) or {}
        if version is not None and properties.get("write.metadata.delete-after-commit.enabled") == "true":
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
                f"version {m.n} ({m.location}), {self.makers.made_by(m)}, lists snapshot {explain.listing(twice)} more than once.",
                ops=self.makers.accused(step),
                snapshots=tuple(twice),
                files=(m.location,),
            )
        for name, target in sorted({**m.refs, **({} if m.current is None else {"(current)": m.current})}.items()):
            if target not in listed:
                what = "current-snapshot-id" if name == "(current)" else f"ref {name}"
                self.found(
                    "dangling-ref",
                    f"in version {m.n} ({m.location}), {self.makers.made_by(m)}, {what} is snapshot {target}, which the version does not list.",
                    ops=self.makers.accused(step),
                    snapshots=(target,),
                    files=(m.location,),
                )
        if "main" in m.refs and m.refs["main"] != m.current:
            self.found(
                "main-ref",
                f"in version {m.n} ({m.location}), {self.makers.made_by(m)}, current-snapshot-id is {m.current} and the main branch is at "
                f"{m.refs['main']}.",
                ops=self.makers.accused(step),
                snapshots=tuple(s for s in (m.current, m.refs["main"]) if s is not None),
                files=(m.location,),
            )
        before = step.before
        if m.last_sequence_number < 0:
            self.found(
                "last-sequence-number",
                f"version {m.n} ({m.location}), {self.makers.made_by(m)}, says last-sequence-number {m.last_sequence_number}: they begin at 0.",
                ops=self.makers.accused(step),
                files=(m.location,),
            )
        known = (
            set() if before is None or m.last_sequence_number < before.last_sequence_number else set(before.snapshots)
        )
        for s in m.snapshots:
            c = None if s in known else self.chain.snapshots.get(s)
            if c is not None and c.sequence_number > m.last_sequence_number:
                self.found(
                    "last-sequence-number",
                    f"version {m.n} ({m.location}) says last-sequence-number {m.last_sequence_number}, but lists {explain.snapshot(c)}"
                    f"{self.makers.of(c)}: the next commit can be given a number that is taken.",
                    ops=() if c.op is None else (c.op,),
                    snapshots=(s,),
                    files=(m.location,),
                )

    def _too_high(self, step: Step, before: Metadata) -> None:
        """A last sequence number that no snapshot was given."""
        m = step.after
        added = [c.sequence_number for c in self.chain.commits_of.get(m.n, ())]
        last = max([before.last_sequence_number, *added])
        due = max(last, before.last_sequence_number + len(added))  # a snapshot with a wrong number is told as such
        unknown = step.gap or any(s not in self.chain.snapshots for s in m.snapshots[-len(added) - 1 :])
        if m.last_sequence_number <= due or unknown or self._lists_one or self.makers.explained(step, "logs"):
            return
        self.found(
            "last-sequence-number",
            f"version {m.n} ({m.location}), {self.makers.made_by(m)}, says last-sequence-number {m.last_sequence_number}, but version "
            f"{before.n}, from which it was made, said {before.last_sequence_number}, and the highest that was assigned is {last}.",
            ops=self.makers.accused(step),
            snapshots=tuple(c.snapshot_id for c in self.chain.commits_of.get(m.n, ())),
            files=(before.location, m.location),
        )

    @cached_property
    def _lists_one(self) -> bool:
        """Whether the catalog shows only the current snapshot."""
        return all(len(m.snapshots) <= 1 for m in self.chain.log.metadata)

    def _counters(self, step: Step, before: Metadata) -> None:
        m = step.after
        pairs: list[tuple[str, Any, Any]] = [
            ("last-sequence-number", before.last_sequence_number, m.last_sequence_number),
            ("next-row-id", before.next_row_id, m.next_row_id),
        ]
        pairs += [(k, before.raw.get(k), m.raw.get(k)) for k in ("last-column-id", "last-partition-id")]
        for name, old, new in pairs:
            if name in self.wrong_at_first and created(before):
                continue
            if isinstance(old, int) and isinstance(new, int) and new < old:
                due, ops = jumped(self.chain, before) if name == "next-row-id" else None, self.makers.accused(step)
                if due is not None and due <= new:
                    text = (
                        f"version {before.n} ({before.location}), {self.makers.made_by(before)}, says {name} {old}, though only what is below "
                        f"{due} was assigned; version {m.n} ({m.location}), {self.makers.made_by(m)}, made from it, says {new}."
                    )
                    ops = tuple(dict.fromkeys((*self.makers.accused(self.chain.steps[before.n]), *ops)))
                else:
                    text = (
                        f"version {m.n} ({m.location}), {self.makers.made_by(m)}, says {name} {new}, but version {before.n}, from which it was "
                        f"made, said {old}: what was assigned in between can be assigned again."
                    )
                self.found("counter-decreased", text, ops=ops, files=(before.location, m.location))

    def _identity(self, step: Step, before: Metadata) -> None:
        m = step.after
        old, new = before.raw.get("table-uuid"), m.raw.get("table-uuid")
        if isinstance(old, str) and isinstance(new, str) and old.lower() != new.lower():
            self.found(
                "table-uuid-changed",
                f"version {m.n} ({m.location}), {self.makers.made_by(m)}, has table-uuid {new}, but version {before.n}, from which it was "
                f"made, has {old}.",
                ops=self.makers.accused(step),
                files=(before.location, m.location),
            )
        if FORMAT_VERSION in self.wrong_at_first and created(before):
            return
        if m.format_version < before.format_version:
            self.found(
                "format-version-decreased",
                f"version {m.n} ({m.location}), {self.makers.made_by(m)}, is of format version {m.format_version}, but version {before.n}, "
                f"from which it was made, of {before.format_version}.",
                ops=self.makers.accused(step),
                files=(before.location, m.location),
            )
