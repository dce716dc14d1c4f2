"""A table's files, fetched in parallel, decoded once, and cached by path up to a bound (files never change).

Beyond the bound the least recently used are dropped, and read again when needed; if they were deleted meanwhile, whatever needs them
is reported as unknown.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from checkers.evidence.problem import Code, Problem
from checkers.evidence.tablelog import Row
from compose.objectstore import ObjectStore
from harness.tablefiles.iceberg.manifests import (
    ADDED,
    Manifest,
    ManifestEntry,
    ManifestFile,
    Unsaid,
    read_manifest,
    read_manifest_list,
    read_parent,
)
from harness.tablefiles.iceberg.metadata_json import CorruptFile
from harness.tablefiles.iceberg.rows import DataRows, SchemaColumn, equality_keys, read_position_deletes, read_rows
from harness.tablefiles.iceberg.statistics import Columns, exact, exact_positions
from harness.tablefiles.iceberg.vectors import read_deletion_vector

_DATA_BYTES = 256 << 20
"""Bound of the cached data files (bytes of Arrow memory)."""
_ROWS = 1_000_000
"""Bound of the rows cached as Python tuples; the same for delete positions and for equality keys."""
_MANIFEST_ENTRIES = 1_000_000
"""Bound of the cached manifest entries."""

K = TypeVar("K")
V = TypeVar("V")


class Unknown(Exception):
    """Something that cannot be determined; the problem names the file and the reason."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.why)
        self.problem = problem


class _Cache(Generic[K, V]):
    """Cached values; the least recently used are dropped when the sum of weights exceeds the bound (the newest never is)."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._weight = 0
        self._items: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def get(self, key: K) -> V | None:
        found = self._items.get(key)
        if found is None:
            return None
        self._items.move_to_end(key)
        return found[0]

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def put(self, key: K, value: V, weight: int) -> None:
        if key in self._items:
            self._weight -= self._items.pop(key)[1]
        self._items[key] = (value, weight)
        self._weight += weight
        while self._weight > self._bound and len(self._items) > 1:
            self._weight -= self._items.popitem(last=False)[1][1]


class TableFiles:
    """A table's immutable files, decoded, by path. A file that was once missing or torn stays so.

    Args:
        store: holds the files.
        name: formats a path for messages.
        data_bytes: bound of the cached data files (bytes).
    """

    def __init__(self, store: ObjectStore, name: Callable[[str], str], *, data_bytes: int = _DATA_BYTES) -> None:
        self._store = store
        self.name = name
        self._raw: dict[str, bytes | None] = {}
        self.sizes: dict[str, int] = {}
        """Bytes of each object that was read."""
        self._lists: dict[str, list[ManifestFile]] = {}
        self._broken: dict[Any, Problem] = {}
        self._manifests: _Cache[ManifestFile, Manifest] = _Cache(_MANIFEST_ENTRIES)
        self._data: _Cache[str, DataRows] = _Cache(data_bytes)
        self._rows: _Cache[tuple[str, tuple[SchemaColumn, ...]], list[Row]] = _Cache(_ROWS)
        self._positions: _Cache[ManifestEntry, Mapping[str, tuple[int, ...]]] = _Cache(_ROWS)
        self._keys: _Cache[tuple[ManifestEntry, tuple[SchemaColumn, ...]], frozenset[tuple[Any, ...]]] = _Cache(_ROWS)

    def fetch(self, paths: Iterable[str]) -> None:
        """Fetch ``paths`` in parallel and hold their bytes until :meth:`release`; raises the store's errors."""
        read = self._store.read_many(p for p in paths if p not in self._raw)
        self.sizes |= {p: len(content) for p, content in read.items() if content is not None}
        self._raw |= read

    def fetch_snapshots(self, manifest_lists: Sequence[str]) -> None:
        """Fetch what these snapshots added, in three rounds: all manifest lists, then all manifests, then all files."""
        self.fetch(manifest_lists)
        manifests: dict[ManifestFile, None] = {}
        for path in manifest_lists:
            try:
                listed = self.manifest_list(path)
            except Unknown:
                continue
            manifests |= {m: None for m in listed if m not in self._manifests and m not in self._broken}
        self.fetch(m.path for m in manifests)
        contents: dict[str, None] = {}
        for m in manifests:
            try:
                entries = self.manifest(m).entries
            except Unknown:
                continue
            contents |= {e.path: None for e in entries if e.status == ADDED and not self._has(e)}
        self.fetch(contents)

    def release(self) -> None:
        """Drop the fetched bytes."""
        self._raw.clear()
        self._lists.clear()

    def _has(self, e: ManifestEntry) -> bool:
        return e.path in self._data or e in self._positions or e in self._broken

    def _decode(
        self, key: Any, path: str, what: str, decode: Callable[[bytes], V], owner: ManifestEntry | None = None
    ) -> V:
        if key not in self._broken:
            if path not in self._raw:
                self.fetch([path])
            content = self._raw[path]
            if content is None:
                self._broken[key] = self._problem("missing-file", what, path, owner)
            else:
                try:
                    return decode(content)
                except CorruptFile as e:
                    self._broken[key] = self._problem("corrupt-file", what, path, owner, str(e))
        raise Unknown(self._broken[key])

    def _problem(self, code: Code, kind: str, path: str, owner: ManifestEntry | None, cause: str = "") -> Problem:
        """The file ``path`` cannot be read; ``owner``: its entry in a manifest, which says whose it is."""
        what = f"{kind} {_of_snapshot(owner)}" if owner is not None else kind
        how = f"corrupt: {cause}" if cause else "missing"
        snapshot = None if owner is None else owner.snapshot_id
        return Problem(code, f"{what} {self.name(path)} is {how}", self.name(path), snapshot, kind, cause)

    def manifest_list(self, path: str) -> list[ManifestFile]:
        """A snapshot's manifests.

        Raises:
            Unknown: missing or corrupt; the other methods raise it too.
        """
        found = self._lists.get(path)
        if found is None:
            found = self._lists[path] = self._decode(path, path, "manifest list", read_manifest_list)
        return found

    def parent(self, path: str) -> int | Unsaid | None:
        """The parent of the snapshot of the manifest list ``path``, as stated in the list itself."""
        return self._decode((path, "parent"), path, "manifest list", read_parent)

    def manifest(self, m: ManifestFile) -> Manifest:
        """A manifest's entries."""
        found = self._manifests.get(m)
        if found is None:
            found = self._decode(m, m.path, "manifest", lambda content: read_manifest(content, m))
            self._manifests.put(m, found, found.weight)
        return found

    def data(self, e: ManifestEntry) -> DataRows:
        """A data file's or an equality delete file's columns."""
        found = self._data.get(e.path)
        if found is None:
            what = "data file" if e.content == "data" else "equality delete file"
            found = self._decode(e, e.path, what, lambda content: read_rows(content, e.format), owner=e)
            self._data.put(e.path, found, found.nbytes)
        return found

    def begin(self, e: ManifestEntry) -> int | None:
        """The byte at which the first row group of a data file begins; None: it has none, or the file is not kept."""
        found = self._data.get(e.path)
        return None if found is None else found.begin

    def rows(self, e: ManifestEntry, columns: tuple[SchemaColumn, ...]) -> list[Row]:
        """A data file's rows; the index is the position."""
        found = self._rows.get((e.path, columns))
        if found is None:
            found = self.data(e).rows(columns)
            self._rows.put((e.path, columns), found, len(found) + 1)
        return found

    def positions(self, e: ManifestEntry) -> Mapping[str, tuple[int, ...]]:
        """Data file path → positions that a position delete file or a deletion vector deletes."""
        found = self._positions.get(e)
        if found is None:
            if e.content == "deletion-vector":
                if e.referenced is None:
                    message = f"deletion vector {_of_snapshot(e)} {self.name(e.path)} names no data file"
                    raise Unknown(Problem("other", message, self.name(e.path), e.snapshot_id, "deletion vector"))
                positions = self._decode(
                    e, e.path, "deletion vector", lambda b: read_deletion_vector(b, e.offset, e.length), owner=e
                )
                found = {e.referenced: positions}
            else:
                kind = "position delete file"
                found = self._decode(e, e.path, kind, lambda b: read_position_deletes(b, e.format), owner=e)
            self._positions.put(e, found, sum(map(len, found.values())) + 1)
        return found

    def exact(self, e: ManifestEntry) -> Columns | None:
        """What the columns of a file have; None if it cannot be read, or has no columns."""
        if e.content == "deletion-vector":
            return None
        try:
            return exact_positions(self.positions(e)) if e.content == "position-deletes" else exact(self.data(e))
        except Unknown:
            return None

    def keys(self, e: ManifestEntry, columns: tuple[SchemaColumn, ...]) -> frozenset[tuple[Any, ...]]:
        """The keys that an equality delete file deletes."""
        found = self._keys.get((e, columns))
        if found is None:
            found = frozenset(equality_keys(self.data(e), columns))
            self._keys.put((e, columns), found, len(found) + 1)
        return found


def _of_snapshot(e: ManifestEntry) -> str:
    return f"(of snapshot {e.snapshot_id})"
