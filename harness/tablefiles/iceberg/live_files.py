"""The live files of a snapshot, and which delete files apply to which data files.

A snapshot's contents are its live data files and its live delete files. A row is *visible* when its data file is live
and no live delete file hides it. Which deletes apply (spec, "Scan Planning"; d and f are the data sequence numbers of
the delete file and of the data file)::

    deletion vector    f ≤ d, same partition, and it references this data file; then position deletes do not count
    position delete    f ≤ d, same partition, and it names this file's path and the row's position
    equality delete    f < d, same partition, or the delete file's spec is unpartitioned (then it is global)

"Same partition" means the same spec and the same values. The reader does not guess: a delete file whose targets are unknown, or an
unreadable manifest, makes the files that it may concern unknown, and only those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain

from checkers.evidence.problem import Problem
from harness.tablefiles.iceberg.decoded import TableFiles, Unknown
from harness.tablefiles.iceberg.manifests import ManifestEntry, ManifestFile
from harness.tablefiles.iceberg.rows import SchemaColumn, equality_keys


@dataclass(slots=True)
class Live:
    """The live files of one snapshot, according to its manifests.

    Attributes:
        data: path → entries; more than one breaks the spec, but readers then do read the file twice.
        opaque: unreadable manifests, with the reason.
        changed: entries that this snapshot added or deleted, by their status (no parent needed).
        kept: files carried over from earlier snapshots in manifests that are new with this one.
        judged, violations: the manifests that are new with this snapshot, and what in them breaks the spec.
    """

    data: dict[str, tuple[ManifestEntry, ...]] = field(default_factory=dict)
    deletes: dict[ManifestEntry, None] = field(default_factory=dict)
    opaque: dict[ManifestFile, Problem] = field(default_factory=dict)
    changed: list[ManifestEntry] = field(default_factory=list)
    kept: list[ManifestEntry] = field(default_factory=list)
    manifests: tuple[str, ...] = ()
    judged: list[ManifestFile] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LiveFileChange:
    """The live files that a snapshot has and its tree parent lacks, and the reverse."""

    added: tuple[ManifestEntry, ...]
    removed: tuple[ManifestEntry, ...]
    added_opaque: tuple[ManifestFile, ...] = ()
    removed_opaque: tuple[ManifestFile, ...] = ()


def in_scope(d: ManifestEntry, f: ManifestEntry) -> bool:
    """Whether delete file ``d`` may apply to data file ``f``, by age and partition (spec, "Scan Planning")."""
    if d.content == "equality-deletes":
        return f.data_sequence_number < d.data_sequence_number and (d.unpartitioned or d.scope == f.scope)
    return f.data_sequence_number <= d.data_sequence_number and d.scope == f.scope


class LiveFiles:
    """The live files of the snapshot at the cursor, indexed so that the deletes for a file are found. Mutable."""

    def __init__(self, files: TableFiles) -> None:
        self._files = files
        self.data: dict[str, tuple[ManifestEntry, ...]] = {}
        self.deletes: dict[ManifestEntry, ManifestEntry] = {}
        self.opaque: dict[ManifestFile, None] = {}
        self.vectors: dict[str, list[ManifestEntry]] = {}  # by the data file that they reference
        self._by_target: dict[str, list[ManifestEntry]] = {}  # position deletes, by every data file that they name
        self._equality: list[ManifestEntry] = []
        self._blind: list[ManifestEntry] = []  # deletes whose targets cannot be read
        self._targets: dict[ManifestEntry, tuple[str, ...] | None] = {}

    def targets(self, d: ManifestEntry) -> tuple[str, ...] | None:
        """The data files that a position delete or deletion vector names; None: unreadable. The answer never changes."""
        if d not in self._targets:
            if d.content == "deletion-vector" and d.referenced is not None:
                self._targets[d] = (d.referenced,)
            else:
                try:
                    self._targets[d] = tuple(self._files.positions(d))
                except Unknown:
                    self._targets[d] = None
        return self._targets[d]

    def _index(self, d: ManifestEntry) -> tuple[dict[str, list[ManifestEntry]], tuple[str, ...]] | list[ManifestEntry]:
        if d.content == "equality-deletes":
            return self._equality
        targets = self.targets(d)
        if targets is None:
            return self._blind
        return (self.vectors if d.content == "deletion-vector" else self._by_target), targets

    def _put(self, e: ManifestEntry) -> None:
        if e.content == "data":
            self.data[e.path] = ordered((*self.data.get(e.path, ()), e))
            return
        self.deletes[e] = e
        where = self._index(e)
        if isinstance(where, list):
            where.append(e)
        else:
            for path in where[1]:
                where[0].setdefault(path, []).append(e)

    def _take(self, e: ManifestEntry) -> None:
        if e.content == "data":
            rest = list(self.data.pop(e.path))
            rest.remove(e)
            if rest:
                self.data[e.path] = tuple(rest)
            return
        del self.deletes[e]
        where = self._index(e)
        if isinstance(where, list):
            where.remove(e)
        else:
            for path in where[1]:
                where[0][path].remove(e)
                if not where[0][path]:
                    del where[0][path]

    def prepare(self, d: LiveFileChange) -> None:
        """Read what :meth:`do` needs for a new difference; afterwards, doing and undoing read nothing."""
        for e in d.added:
            if e.content not in ("data", "equality-deletes"):
                self.targets(e)

    def do(self, d: LiveFileChange) -> None:
        """Go from a snapshot to its child."""
        for e in d.removed:
            self._take(e)
        for e in d.added:
            self._put(e)
        for m in d.removed_opaque:
            del self.opaque[m]
        for m in d.added_opaque:
            self.opaque[m] = None

    def undo(self, d: LiveFileChange) -> None:
        """Go from a child back to its parent."""
        self.do(LiveFileChange(d.removed, d.added, d.removed_opaque, d.added_opaque))

    def delta_to(self, live: Live) -> LiveFileChange:
        """The difference from this state to one with exactly the live files ``live``."""
        added: list[ManifestEntry] = []
        removed: list[ManifestEntry] = []
        for path, entries in live.data.items():
            old = self.data.get(path, ())
            if old != entries:
                added += (Counter(entries) - Counter(old)).elements()
                removed += (Counter(old) - Counter(entries)).elements()
        removed += chain.from_iterable(es for path, es in self.data.items() if path not in live.data)
        added += (e for e in live.deletes if e not in self.deletes)
        removed += (e for e in self.deletes if e not in live.deletes)
        return LiveFileChange(
            tuple(added),
            tuple(removed),
            tuple(m for m in live.opaque if m not in self.opaque),
            tuple(m for m in self.opaque if m not in live.opaque),
        )

    def affected(self, d: LiveFileChange) -> set[str]:
        """The data files whose visible rows ``d`` may change; call it before :meth:`do`.

        Raises:
            Unknown: a delete file of ``d`` may apply to data files of an unreadable manifest.
        """
        paths: set[str] = set()
        hiding = next((m for m in self.opaque if not m.deletes), None)
        for e in chain(d.added, d.removed):
            if e.content == "data":
                paths.add(e.path)
                continue
            targets = None if e.content == "equality-deletes" else self.targets(e)
            if targets is None:
                paths.update(p for p, fs in self.data.items() if any(in_scope(e, f) for f in fs))
                lost = True
            else:
                paths.update(p for p in targets if p in self.data)
                lost = any(p not in self.data for p in targets)
            if lost and hiding is not None:
                name = self._files.name
                message = f"{name(e.path)} may apply to files of the unreadable manifest {name(hiding.path)}"
                raise Unknown(Problem("unreadable-manifest", message, name(hiding.path)))
        return paths

    def hidden(self, f: ManifestEntry, column_of: Callable[[int], SchemaColumn]) -> dict[int, ManifestEntry]:
        """Position → the delete file that hides it, for one live data file.

        Raises:
            Unknown: a delete file that may apply cannot be read.
        """
        for m in self.opaque:
            if m.deletes and m.sequence_number >= f.data_sequence_number:
                name = self._files.name
                message = f"deletes in the unreadable manifest {name(m.path)} may apply to {name(f.path)}"
                raise Unknown(Problem("unreadable-manifest", message, name(m.path)))
        for d in self._blind:
            if in_scope(d, f):
                self._files.positions(d)  # raises with the reason
        out: dict[int, ManifestEntry] = {}
        vectors = [d for d in self.vectors.get(f.path, ()) if in_scope(d, f)]
        for d in vectors or [d for d in self._by_target.get(f.path, ()) if in_scope(d, f)]:
            for pos in self._files.positions(d).get(f.path, ()):
                out.setdefault(pos, d)
        for d in self._equality:
            if in_scope(d, f):
                columns = tuple(column_of(id) for id in d.equality_ids)
                keys = self._files.keys(d, columns)
                for pos, key in enumerate(equality_keys(self._files.data(f), columns)):
                    if key in keys:
                        out.setdefault(pos, d)
        return out


def ordered(entries: Iterable[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """Entries of one path in an order independent of their manifests' order."""
    return tuple(sorted(entries, key=lambda e: (e.data_sequence_number, e.spec_id, repr(e.partition))))
