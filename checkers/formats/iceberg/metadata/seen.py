"""What the parts of the ``metadata`` checker found and counted on one table, and what they judge it with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypedDict

from checkers.evidence.history import Operation
from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.responsible import Responsible
from checkers.formats.iceberg.metadata.rules import BrokenRule
from checkers.formats.iceberg.records import IcebergMetadata as Metadata


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
    of_an_older_schema: int
    """Snapshots whose ``schema-id`` is not the current schema of the version that brings them: they were made before a schema change and
    committed after it. Legal."""
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
    loose_statistics: int
    """Bounds of columns and partitions that are wider than the values, but for truncation: scans read more than they must."""


Counted = Literal[
    "versions",
    "snapshots",
    "gaps",
    "metadata_files_deleted_after_commit",
    "dropped_snapshots",
    "lost_changes",
    "of_an_older_schema",
    "reused_by_replace",
    "reused_after_drop",
    "parents_before_the_log",
    "read_too_late",
    "summary_metrics_compared",
    "dangling_position_delete_files",
    "live_data_files",
    "live_delete_files",
    "unwalked",
    "loose_statistics",
]
"""The keys of :class:`MetadataCounts`."""


@dataclass
class VersionSeen:
    """The findings of one part of the checker on one table."""

    findings: list[BrokenRule] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    undecided: bool = False
    stats: MetadataCounts = field(default_factory=MetadataCounts)
    makers: Responsible | None = None
    """Who made the versions, as the parts found out so far."""

    def doubt(self, note: str) -> None:
        """Note what cannot be decided, and why."""
        self.undecided = True
        if note not in self.notes:
            self.notes.append(note)

    def count(self, name: Counted, n: int = 1) -> None:
        """Add to a statistic."""
        self.stats[name] = self.stats.get(name, 0) + n


@dataclass
class Judging:
    """A part of the checker, on one table; ``torn``: the history may lack its end, and with it the explanation of a change."""

    chain: Chain
    seen: VersionSeen
    torn: bool

    @cached_property
    def makers(self) -> Responsible:
        """Who made the versions."""
        self.seen.makers = self.seen.makers or Responsible(self.chain)
        return self.seen.makers

    @cached_property
    def lists_one(self) -> bool:
        """Whether the catalog shows only the current snapshot, and the log of that one."""
        return all(len(m.snapshots) <= 1 for m in self.chain.log.metadata)

    def found(self, name: str, text: str, **more: Any) -> None:
        """A broken rule."""
        self.seen.findings.append(BrokenRule(name, text, **more))

    def changed(
        self,
        name: str,
        step: Step,
        before: Metadata,
        what: str,
        snapshots: tuple[int, ...] = (),
        asked: tuple[Operation, ...] = (),
    ) -> None:
        """``what`` changed, and no operation of the history explains it; ``asked``: the one that asked for another such change."""
        m = step.after
        if self._torn(m, f"changed {what}"):
            return
        if self.makers.strangers:
            self.seen.doubt(
                f"version {m.n} changed {what}; others write to the table, and the history does not have what they did"
            )
            return
        self.found(
            name,
            f"version {m.n} ({m.location}), {self.makers.made_by(m)}, was made from version {before.n} ({before.location}) and changed "
            f"{what}. {self.makers.around(step, 'changes', asked)}",
            ops=self.makers.accused(step),
            snapshots=snapshots,
            files=(before.location, m.location),
        )

    def vanished(
        self,
        name: str,
        step: Step,
        before: Metadata,
        what: str,
        snapshots: tuple[int, ...] = (),
        asked: tuple[Operation, ...] = (),
    ) -> None:
        """``what`` is gone, and no operation of the history explains it; ``asked``: the one that removes something else."""
        m = step.after
        if self._torn(m, f"no longer has {what}"):
            return
        if self.makers.certain_strangers:
            self.seen.doubt(
                f"version {m.n} no longer has {what}; others write to the table, and the history does not have what they did"
            )
            return
        self.found(
            name,
            f"version {before.n} ({before.location}) has {what}; version {m.n} ({m.location}), {self.makers.made_by(m)}, was made from it and "
            f"no longer has it. {self.makers.around(step, 'removes', asked)}",
            ops=self.makers.accused(step),
            snapshots=snapshots,
            files=(before.location, m.location),
        )

    def _torn(self, m: Metadata, what: str) -> bool:
        if self.torn:
            self.seen.doubt(
                f"version {m.n} {what}; the history may lack its end, so an operation that explains it may not be in it"
            )
        return self.torn
