"""Which snapshot a query of the table's history answered, at every metadata version.

A time travel asks ``{table}.history`` for the snapshot ``back`` entries before the newest that is an ancestor of the current one
(``ReadSnapshot``). Iceberg's ``HistoryTable`` shows the metadata's ``snapshot-log``: one entry for each time that main changed, with its
time; an expiry removes the entries of the snapshots that it drops and those before them (``TableMetadata.Builder.updateSnapshotLog``).
A metadata file may lack the log; then the ancestors that it still lists are what a reader can know.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice, pairwise

from checkers.evidence.history import Operation
from checkers.evidence.problem import METADATA
from checkers.evidence.tablelog import Metadata
from checkers.timeline.makers import by_strangers
from checkers.timeline.timeline import Timeline


class TableHistory:
    """The history of one table at each of its metadata versions; versions are given by their number in the log."""

    def __init__(self, t: Timeline) -> None:
        self._t = t
        self._entries: dict[int, list[tuple[int, int]] | None] = {}

    def answers(self, n: int, back: int) -> frozenset[int] | None:
        """The snapshots that version n has ``back`` entries before its newest (or as its oldest); several where times are equal.

        None if the version's history is not known. Empty for an empty table.
        """
        plain = self._plain(self._t.log.metadata[n], back)
        if plain is not None:
            return frozenset((plain,))
        if n not in self._entries:
            self._entries[n] = self._history(self._t.log.metadata[n])
        entries = self._entries[n]
        if entries is None:
            return None
        if not entries:
            return frozenset()
        time = entries[min(back, len(entries) - 1)][0]
        return frozenset(s for moment, s in entries if moment == time)

    def _plain(self, m: Metadata, back: int) -> int | None:
        """The answer where the newest entries are main's newest snapshots, one after the other; None where more must be looked at."""
        log = m.as_of
        if m.problems or log is None or len(log) <= back + 1:
            return None
        newest = log[: -back - 2 : -1]
        ids = [s for _, s in newest]
        try:
            older = max(moment for moment, _ in log[: -back - 1])
            if not all(b < a for a, b in pairwise([*(moment for moment, _ in newest), older])):
                return None
        except TypeError:
            return None
        line = [*islice(self._ancestors(m.current), back + 1)]
        return ids[-1] if ids == line and set(line) <= set(m.snapshots) else None

    def _history(self, m: Metadata) -> list[tuple[int, int]] | None:
        """Time and snapshot of each entry, newest first."""
        if any(p.code in METADATA for p in m.problems):
            return None
        if m.current is None:
            return []
        line = self._line(m)
        log = m.as_of
        if log is None:
            return None
        if not log:
            return [(-k, s) for k, s in enumerate(line)]
        try:
            entries = [(int(moment), int(s)) for moment, s in log]
        except (TypeError, ValueError):
            return None
        if entries[-1][1] != m.current:
            return None  # it contradicts the rest of the file
        ancestors = set(line)
        return sorted((e for e in entries if e[1] in ancestors), key=lambda e: -e[0])

    def _line(self, m: Metadata) -> list[int]:
        """The current snapshot and its ancestors, of those that the version lists."""
        listed = set(m.snapshots)
        line: list[int] = []
        for s in self._ancestors(m.current):
            if len(line) == len(listed):
                break  # mostly few are listed, and the table is old
            if s in listed:
                line.append(s)
        return line

    def _ancestors(self, snapshot: int | None) -> Iterator[int]:
        """A snapshot and its ancestors by the table's files: they end where the table was replaced."""
        for c in self._t.of_every_snapshot.ancestors(snapshot):
            yield c.snapshot_id
            if c.snapshot_id in self._t.replaced:
                return

    def position(self, n: int) -> int:
        """The last position of :attr:`Timeline.versions` that version n or an earlier one made."""
        return self._positions[n]

    @cached_property
    def _positions(self) -> list[int]:
        out = [0] * len(self._t.log.metadata)
        for p, v in enumerate(self._t.versions):
            out[v.metadata] = p
        for n in range(1, len(out)):
            out[n] = max(out[n], out[n - 1])
        return out

    def last_at(self, p: int) -> int:
        """The last metadata version of a position."""
        versions = self._t.versions
        last = versions[p + 1].metadata - 1 if p + 1 < len(versions) else len(self._t.log.metadata) - 1
        return max(last, versions[p].metadata)

    @cached_property
    def expiries(self) -> list[tuple[int, int, Operation]]:
        """Versions that are the first to lack snapshots, each with the event and the operation that prove it was there by then.

        All operations that can have made it were acknowledged; the last of them proves it. None is certain where strangers write: they may
        expire snapshots, too, at any time.
        """
        out: list[tuple[int, int, Operation]] = []
        if self._t.out_of_order:
            return out  # then the times of the versions are not certain
        if by_strangers(self._t.log.commits, self._t.ops):
            return out
        for s, _, able in self._t.drops:
            if s.repeated or s.gap:
                continue
            if able and all(o.type == "ok" and o.completed is not None for o in able):
                last = max(able, key=lambda o: o.indices[-1])
                out.append((s.after.n, last.indices[-1], last))
        return out
