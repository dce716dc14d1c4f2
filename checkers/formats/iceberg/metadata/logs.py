"""A table's ``metadata-log`` and ``snapshot-log``: each version has its predecessor's, and one line more.

* **metadata-log** (``TableMetadata.addPreviousFile``): the predecessor's entries and the predecessor. The oldest are left out, but only as
  many as ``write.metadata.previous-versions-max`` (100 if it is not set) demands.
* **snapshot-log** (``TableMetadata.Builder.setRef``, ``updateSnapshotLog``): the predecessor's entries, and one for main if it moved.
  A snapshot that was main's only within one commit leaves no entry. When snapshots are expired, the entries up to the last one of an
  expired snapshot are left out; other writers leave out only the entries of expired snapshots, which is accepted too.

What the entries say of times is judged by ``metadata.times``.

A table whose writers keep no such log is not judged, nor is a version that a replacement can have made, because it begins anew.
After a wrong version, the next one may go on with either log: with the wrong one, or with the one that was due.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain
from checkers.timeline.version_order import place

PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"
PREVIOUS_VERSIONS_DEFAULT = 100
"""Of ``write.metadata.previous-versions-max`` (``TableProperties.METADATA_PREVIOUS_VERSIONS_MAX_DEFAULT``)."""


class Logs(Judging):
    """The two logs of one table."""

    @cached_property
    def due(self) -> dict[tuple[str, int], list[Any]]:
        """(log, version) → the entries that were due, of versions that have others."""
        return {}

    @cached_property
    def _kept(self) -> frozenset[str]:
        """The logs that the table's writers keep."""
        return frozenset(
            k for k in ("metadata-log", "snapshot-log") if any(m.raw.get(k) for m in self.chain.log.metadata)
        )

    def step(self, step: Step, longer: bool) -> None:
        """Judge one version; ``longer``: it lists the snapshots that its predecessor lists, and perhaps more."""
        if step.before is None or step.gap:
            return
        if "metadata-log" in self._kept and (not step.after.problems or _only_lacks_entries(step, step.before)):
            self._metadata_log(step, step.before)
        if "snapshot-log" in self._kept and not self.lists_one:
            self._snapshot_log(step, step.before, longer)

    def _metadata_log(self, step: Step, before: Metadata) -> None:
        m, log = step.after, "metadata-log"
        due = self.due.get((log, before.n))
        old, new = entries_of(before, log), entries_of(m, log)
        most = previous_versions(m)
        usual = due is None and 0 < len(new) <= len(old) + 1 and len(new) >= min(most, len(old) + 1)
        if usual and new[:-1] == old[len(old) + 1 - len(new) :] and place_in(new[-1]) == place(before.location):
            return  # without a look into the older entries
        has = [place_in(x) for x in new]
        meant = [[*map(place_in, old), place(before.location)]]
        if due is not None:
            meant.append([*due, place(before.location)])
        if any(_is_end_of(has, whole, min(most, len(whole))) for whole in meant):
            return
        self._wrong("metadata-log-mismatch", log, step, before, has, meant[-1][-most:])

    def _snapshot_log(self, step: Step, before: Metadata, longer: bool) -> None:
        m, log = step.after, "snapshot-log"
        due = self.due.get((log, before.n))
        old, new = entries_of(before, log), entries_of(m, log)
        moved = [m.current] if m.current is not None and m.current != before.current else []
        if longer and due is None and new[: len(old)] == old and [snapshot_in(x) for x in new[len(old) :]] == moved:
            return
        has = [snapshot_in(x) for x in new]
        dropped = set(before.snapshots) - set(m.snapshots)
        meant: list[list[Any]] = []
        for known in ([snapshot_in(x) for x in old], due):
            if known is None:
                continue
            cut = max((n for n, s in enumerate(known) if s in dropped), default=-1) + 1
            meant += [[s for s in known if s not in dropped] + moved, known[cut:] + moved]
        # Setting main to where it is writes an entry as well, if anything else of the branch changes.
        if has in meant or (not moved and has[-1:] == [m.current] and has[:-1] in meant):
            return
        self._wrong("snapshot-log", log, step, before, has, meant[-1])

    def _wrong(self, name: str, log: str, step: Step, before: Metadata, has: list[Any], due: list[Any]) -> None:
        m = step.after
        if self.makers.explained(step, "logs"):
            return
        self.due[log, m.n] = due
        place = next((k for k, (a, b) in enumerate(zip(has, due, strict=False)) if a != b), min(len(has), len(due)))
        here = f"has {has[place]}" if place < len(has) else "ends"
        expected = f"{due[place]} is due" if place < len(due) else "it should end"
        self.found(
            name,
            f"version {m.n} ({m.location}), {self.makers.made_by(m)}, has {len(has)} entries in its {log}; {len(due)} are due, which are "
            "those of "
            f"version {before.n} ({before.location}), from which it was made, and what it changed itself. At entry {place} (from 0) it {here}, "
            f"where {expected}."
            + (
                f" All that version {before.n} says is in it, too: no change is lost, only entries of the log."
                if _names_another(step, before)
                else ""
            ),
            ops=self.makers.accused(step),
            snapshots=tuple(c.snapshot_id for c in self.chain.commits_of.get(m.n, ()))[: explain.MOST_IN_A_SENTENCE],
            files=(before.location, m.location),
        )


def _names_another(step: Step, before: Metadata) -> bool:
    """Whether a version names as its predecessor another than the one that it was made from by its content."""
    predecessor = step.after.predecessor
    return predecessor is not None and place(predecessor) != place(before.location)


def _only_lacks_entries(step: Step, before: Metadata) -> bool:
    """Whether the reader took it for a fork, and by its content it is none."""
    return not step.repeated and all(p.code == "fork" for p in step.after.problems) and _names_another(step, before)


def entries_of(m: Metadata, log: str) -> list[Any]:
    """A log's entries; empty for a log that is not there."""
    entries = m.raw.get(log)
    return entries if isinstance(entries, list) else []


def place_in(entry: Any) -> str:
    """The place of the version that an entry of the ``metadata-log`` names."""
    return place(str(entry.get("metadata-file"))) if isinstance(entry, Mapping) else "?"


def snapshot_in(entry: Any) -> Any:
    """The snapshot that an entry of the ``snapshot-log`` names."""
    return entry.get("snapshot-id") if isinstance(entry, Mapping) else None


def previous_versions(m: Metadata) -> int:
    """How many entries a version's ``metadata-log`` may have, which are at least 1."""
    properties = m.raw.get("properties")
    number = properties.get(PREVIOUS_VERSIONS) if isinstance(properties, Mapping) else None
    try:
        return max(1, PREVIOUS_VERSIONS_DEFAULT if number is None else int(number))
    except (TypeError, ValueError):
        return PREVIOUS_VERSIONS_DEFAULT


def _is_end_of(some: list[Any], whole: list[Any], least: int) -> bool:
    """Whether ``some`` are the last entries of ``whole``, and at least so many."""
    return least <= len(some) <= len(whole) and whole[len(whole) - len(some) :] == some
