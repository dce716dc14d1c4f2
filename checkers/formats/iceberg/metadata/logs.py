"""A table's ``metadata-log`` and ``snapshot-log``: each version has its predecessor's, and one line more.

* **metadata-log** (``TableMetadata.addPreviousFile``): the predecessor's entries and the predecessor. The oldest are left out, but only as
  many as ``write.metadata.previous-versions-max`` (100 if it is not set) demands.
* **snapshot-log** (``TableMetadata.Builder.setRef``, ``updateSnapshotLog``): the predecessor's entries, and one for main if it moved.
  A snapshot that was main's only within one commit leaves no entry. When snapshots are expired, the entries up to the last one of an
  expired snapshot are left out; other writers leave out only the entries of expired snapshots, which is accepted too.
* **times**. Entries are copied with their times. ``TableMetadata`` refuses a file whose logs are not sorted by time, or whose
  ``last-updated-ms`` is before the last entry of a log, by more than a minute each (the clocks of writers differ).

A table whose writers keep no such log is not judged, nor is a version that a replacement can have made, because it begins anew.
After a wrong version, the next one may go on with either log: with the wrong one, or with the one that was due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain
from checkers.timeline.version_order import place

PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"
PREVIOUS_VERSIONS_DEFAULT = 100
ONE_MINUTE = 60_000
"""What clocks may differ by, in ms (``TableMetadata.ONE_MINUTE``)."""


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
        self._in_order(step)
        if step.before is None or step.gap:
            return
        if not self._lists_one:
            self._same_times("metadata-log", step, step.before, _place)
            self._same_times("snapshot-log", step, step.before, _snapshot)
        if "metadata-log" in self._kept and not step.after.problems:
            self._metadata_log(step, step.before)
        if "snapshot-log" in self._kept and not self._lists_one:
            self._snapshot_log(step, step.before, longer)

    @cached_property
    def _lists_one(self) -> bool:
        """Whether the catalog shows only the current snapshot, and the log of that one."""
        return all(len(m.snapshots) <= 1 for m in self.chain.log.metadata)

    def _metadata_log(self, step: Step, before: Metadata) -> None:
        m, log = step.after, "metadata-log"
        due = self.due.get((log, before.n))
        old, new = _entries(before, log), _entries(m, log)
        most = previous_versions(m)
        usual = due is None and 0 < len(new) <= len(old) + 1 and len(new) >= min(most, len(old) + 1)
        if usual and new[:-1] == old[len(old) + 1 - len(new) :] and _place(new[-1]) == place(before.location):
            return  # without a look into the older entries
        has = [_place(x) for x in new]
        meant = [[*map(_place, old), place(before.location)]]
        if due is not None:
            meant.append([*due, place(before.location)])
        if any(_is_end_of(has, whole, min(most, len(whole))) for whole in meant):
            return
        self._wrong("metadata-log-mismatch", log, step, before, has, meant[-1][-most:])

    def _snapshot_log(self, step: Step, before: Metadata, longer: bool) -> None:
        m, log = step.after, "snapshot-log"
        due = self.due.get((log, before.n))
        old, new = _entries(before, log), _entries(m, log)
        moved = [m.current] if m.current is not None and m.current != before.current else []
        if longer and due is None and new[: len(old)] == old and [_snapshot(x) for x in new[len(old) :]] == moved:
            return
        has = [_snapshot(x) for x in new]
        gone = set(before.snapshots) - set(m.snapshots)
        meant: list[list[Any]] = []
        for known in ([_snapshot(x) for x in old], due):
            if known is None:
                continue
            cut = max((n for n, s in enumerate(known) if s in gone), default=-1) + 1
            meant += [[s for s in known if s not in gone] + moved, known[cut:] + moved]
        # Setting main to where it is writes an entry as well, if anything else of the branch changes.
        if has in meant or (not moved and has[-1:] == [m.current] and has[:-1] in meant):
            return
        self._wrong("snapshot-log", log, step, before, has, meant[-1])

    # --- times

    @cached_property
    def _strange(self) -> set[tuple[str, Any, int]]:
        """(log, what an entry names, its time) of entries whose time was found changed, and that time and the one before."""
        return set()

    @cached_property
    def _updated(self) -> dict[str, int]:
        """Place of a version → its ``last-updated-ms``, which its entry in ``metadata-log`` repeats."""
        return {place(m.location): m.last_updated_ms for m in self.chain.log.metadata}

    def _same_times(self, log: str, step: Step, before: Metadata, name: Callable[[Any], Any]) -> None:
        """An entry that the predecessor has says the same time."""
        old, new = _entries(before, log), _entries(step.after, log)
        skip = max(0, len(old) + 1 - len(new)) if log == "metadata-log" else 0
        if new[: len(old) - skip] == old[skip:] or (new and new == old[-len(new) :]):
            return  # nothing but the oldest entries is gone
        times: dict[Any, set[int]] = {}
        for x in old:
            if (time := _time(x)) is not None:
                times.setdefault(name(x), set()).add(time)
        seen: set[Any] = set()
        for x in new:
            known, time = times.get(name(x)), _time(x)
            again = name(x) in seen or (
                x is new[-1] and step.after.current != before.current
            )  # main's again: an entry of its own
            seen.add(name(x))
            if known is None or time is None or time in known or again or (log, name(x), time) in self._strange:
                continue
            if time == self._updated.get(name(x)):
                continue  # the entry was wrong before, and is right now
            self._strange |= {(log, name(x), t) for t in (*known, time)}
            if self.by.explained(step, "logs"):
                continue
            m, was = step.after, max(known)
            self.found(
                "timestamp-order",
                f"version {m.n} ({m.location}), {self.by.made_by(m)}, says in its {log} that {name(x)} is of {time} (ms since 1970). Version "
                f"{before.n} ({before.location}), from which it was made, says {was}, and entries are copied as they are.",
                ops=self.by.accused(step),
                files=(before.location, m.location),
            )

    def _in_order(self, step: Step) -> None:
        """The last entries of the logs, and the version itself, are not older than what came before."""
        m, before = step.after, step.before
        for log in ("snapshot-log", "metadata-log"):
            entries = _entries(m, log)
            last = _time(entries[-1]) if entries else None
            if last is None or (before is not None and entries == _entries(before, log)):
                continue
            earlier = _time(entries[-2]) if len(entries) > 1 else None
            for what, time, than, words in (
                (f"the last entry of its {log}", last, earlier, "the one before it"),
                (
                    "the version itself, by its last-updated-ms,",
                    m.last_updated_ms,
                    last,
                    f"the last entry of its {log}",
                ),
            ):
                if than is not None and time and time < than - ONE_MINUTE:
                    self.found(
                        "timestamp-order",
                        f"in version {m.n} ({m.location}), {self.by.made_by(m)}, {what} is of {time} (ms since 1970), "
                        f"{(than - time) / 1000:,.3f} s before {words}: a reader refuses the file.",
                        ops=self.by.accused(step),
                        files=(m.location,),
                    )

    def _wrong(self, name: str, log: str, step: Step, before: Metadata, has: list[Any], due: list[Any]) -> None:
        m = step.after
        if self.by.explained(step, "logs"):
            return
        self.due[log, m.n] = due
        at = next((k for k, (a, b) in enumerate(zip(has, due, strict=False)) if a != b), min(len(has), len(due)))
        here = f"has {has[at]}" if at < len(has) else "ends"
        there = f"{due[at]} is due" if at < len(due) else "it should end"
        self.found(
            name,
            f"version {m.n} ({m.location}), {self.by.made_by(m)}, has {len(has)} entries in its {log}; {len(due)} are due, which are those of "
            f"version {before.n} ({before.location}), from which it was made, and what it changed itself. At entry {at} (from 0) it {here}, "
            f"where {there}.",
            ops=self.by.accused(step),
            snapshots=tuple(c.snapshot_id for c in self.chain.commits_of.get(m.n, ()))[: explain.MOST],
            files=(before.location, m.location),
        )


def _entries(m: Metadata, log: str) -> list[Any]:
    """A log's entries; empty for a log that is not there."""
    entries = m.raw.get(log)
    return entries if isinstance(entries, list) else []


def _place(entry: Any) -> str:
    return place(str(entry.get("metadata-file"))) if isinstance(entry, Mapping) else "?"


def _snapshot(entry: Any) -> Any:
    return entry.get("snapshot-id") if isinstance(entry, Mapping) else None


def _time(entry: Any) -> int | None:
    said = entry.get("timestamp-ms") if isinstance(entry, Mapping) else None
    return said if isinstance(said, int) else None


def previous_versions(m: Metadata) -> int:
    """How many entries a version's ``metadata-log`` may have, which are at least 1."""
    properties = m.raw.get("properties")
    said = properties.get(PREVIOUS_VERSIONS) if isinstance(properties, Mapping) else None
    try:
        return max(1, PREVIOUS_VERSIONS_DEFAULT if said is None else int(said))
    except (TypeError, ValueError):
        return PREVIOUS_VERSIONS_DEFAULT


def _is_end_of(some: list[Any], whole: list[Any], least: int) -> bool:
    """Whether ``some`` are the last entries of ``whole``, and at least so many."""
    return least <= len(some) <= len(whole) and whole[len(whole) - len(some) :] == some
