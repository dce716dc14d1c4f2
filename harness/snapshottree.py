"""What every snapshot changed, row by row: a table's snapshots as a tree, and one full state that walks in it.

**The question.** A commit says which *files* it added and removed. Checkers need to know which *rows* appeared and
disappeared, exactly, for every snapshot there ever was. Scanning each snapshot would answer it (≈200 ms a snapshot)
and would trust the engine under test. Here the rows are derived from the files that a commit touched, and from
nothing else.

**State.** A snapshot's contents are its live data files and its live delete files. A row is *visible* when its data
file is live and no live delete file hides it. Which deletes apply to which file (spec, "Scan Planning"; d and f are
the data sequence numbers of the delete file and of the data file)::

    deletion vector    f ≤ d, same partition, its referenced data file is this one; then position deletes do not count
    position delete    f ≤ d, same partition, and it names this file's path and the row's position
    equality delete    f < d, same partition, or the delete file's spec is unpartitioned (then it is global)

**Change.** Only the rows of *affected* data files can change: those that came or went, and those that a delete file
that came or went may apply to. For these, the visible rows before and after are compared; equal rows that went in one
file and came in another (a copy-on-write carry-over, a compaction) cancel. What is left is what the snapshot removed
and added.

**The tree.** "Before" is the *parent*, and a parent may be any older snapshot: branches, a rollback, or a commit
request that was held for minutes and then wins. Keeping every snapshot's set of files costs files × snapshots.
Instead each snapshot keeps its difference from its parent, for ever (the log has it anyway), and one full state
stands at one snapshot, the *cursor*. To look at another snapshot the cursor walks the tree to it, undoing and doing
differences (Baker's version trees)::

    root ── s1 ── s2 ── s3 ── s4        the cursor stands at s4 when s5 comes, whose parent is s2:
                   └── s5               undo s4, undo s3, then compare s5 with what is there

A child of the newest snapshot costs its own files, a late child of an old parent the commits between; nothing is
forgotten, so no child comes too late. Decoded data files are cached by path (files never change) up to a bound in
bytes. Past it the least recently used are forgotten, and read again when a late child needs them; if they were
deleted meanwhile, that commit's rows are unknown and it says so.

**What cannot be read** makes the commits that need it unknown, and only those. An unreadable manifest that parent and
child share cancels like any other shared manifest, as long as nothing that it may contain matters to the change.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, TypeVar

from harness.icebergfiles import (
    ADDED,
    DELETED,
    EXISTING,
    Column,
    CorruptFile,
    DataRows,
    Entry,
    Manifest,
    ManifestFile,
    equality_keys,
    read_deletion_vector,
    read_manifest,
    read_manifest_list,
    read_position_deletes,
    read_rows,
)
from harness.objectstore import ObjectStore
from harness.tablelog import Row, RowChange

_DATA_BYTES = 256 << 20
"""Bound of the decoded data files that are kept (bytes of Arrow memory)."""
_ROWS = 1_000_000
"""Bound of the rows that are kept as Python tuples; of delete positions and equality keys each."""
_MANIFEST_ENTRIES = 1_000_000
"""Bound of the manifest entries that are kept."""

K = TypeVar("K")
V = TypeVar("V")


class Unknown(Exception):
    """Something that cannot be known; the text says which file is why."""


class _Cache(Generic[K, V]):
    """Values; the least recently used are forgotten when the sum of weights passes the bound (the newest never is)."""

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


# --- the files, cached ------------------------------------------------------------------------------------------------


class TableFiles:
    """A table's immutable files, decoded, by path. A file that was missing or torn once stays so.

    Args:
        store: where they are.
        name: how a path is written in words.
        data_bytes: bound of the decoded data files that are kept (bytes).
    """

    def __init__(self, store: ObjectStore, name: Callable[[str], str], *, data_bytes: int = _DATA_BYTES) -> None:
        self._store = store
        self.name = name
        self._raw: dict[str, bytes | None] = {}
        self._lists: dict[str, list[ManifestFile]] = {}
        self._broken: dict[Any, str] = {}
        self._manifests: _Cache[ManifestFile, Manifest] = _Cache(_MANIFEST_ENTRIES)
        self._data: _Cache[str, DataRows] = _Cache(data_bytes)
        self._rows: _Cache[tuple[str, tuple[Column, ...]], list[Row]] = _Cache(_ROWS)
        self._positions: _Cache[Entry, Mapping[str, tuple[int, ...]]] = _Cache(_ROWS)
        self._keys: _Cache[tuple[Entry, tuple[Column, ...]], frozenset[tuple[Any, ...]]] = _Cache(_ROWS)

    def fetch(self, paths: Iterable[str]) -> None:
        """Fetch ``paths`` in parallel and hold their bytes until :meth:`release`; raises what the store raises."""
        self._raw |= self._store.read_many(p for p in paths if p not in self._raw)

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
        """Forget the bytes that were fetched."""
        self._raw.clear()
        self._lists.clear()

    def _has(self, e: Entry) -> bool:
        return e.path in self._data or e in self._positions or e in self._broken

    def _decode(self, key: Any, path: str, what: str, decode: Callable[[bytes], V]) -> V:
        if key not in self._broken:
            if path not in self._raw:
                self.fetch([path])
            content = self._raw[path]
            if content is None:
                self._broken[key] = f"{what} {self.name(path)} is missing"
            else:
                try:
                    return decode(content)
                except CorruptFile as e:
                    self._broken[key] = f"{what} {self.name(path)} is corrupt: {e}"
        raise Unknown(self._broken[key])

    def manifest_list(self, path: str) -> list[ManifestFile]:
        """A snapshot's manifests.

        Raises:
            Unknown: missing or corrupt; so do the other methods.
        """
        found = self._lists.get(path)
        if found is None:
            found = self._lists[path] = self._decode(path, path, "manifest list", read_manifest_list)
        return found

    def manifest(self, m: ManifestFile) -> Manifest:
        """A manifest's entries."""
        found = self._manifests.get(m)
        if found is None:
            found = self._decode(m, m.path, "manifest", lambda content: read_manifest(content, m))
            self._manifests.put(m, found, len(found.entries) + 1)
        return found

    def data(self, e: Entry) -> DataRows:
        """A data file's or an equality delete file's columns."""
        found = self._data.get(e.path)
        if found is None:
            what = "data file" if e.content == "data" else "equality delete file"
            found = self._decode(e, e.path, f"{what} {_by(e)}", lambda content: read_rows(content, e.format))
            self._data.put(e.path, found, found.nbytes)
        return found

    def rows(self, e: Entry, columns: tuple[Column, ...]) -> list[Row]:
        """A data file's rows; the index is the position."""
        found = self._rows.get((e.path, columns))
        if found is None:
            found = self.data(e).rows(columns)
            self._rows.put((e.path, columns), found, len(found) + 1)
        return found

    def positions(self, e: Entry) -> Mapping[str, tuple[int, ...]]:
        """Data file path → positions that a position delete file or a deletion vector deletes."""
        found = self._positions.get(e)
        if found is None:
            if e.content == "deletion-vector":
                if e.referenced is None:
                    raise Unknown(f"deletion vector {_by(e)} {self.name(e.path)} names no data file")
                what = f"deletion vector {_by(e)}"
                positions = self._decode(e, e.path, what, lambda b: read_deletion_vector(b, e.offset, e.length))
                found = {e.referenced: positions}
            else:
                what = f"position delete file {_by(e)}"
                found = self._decode(e, e.path, what, lambda b: read_position_deletes(b, e.format))
            self._positions.put(e, found, sum(map(len, found.values())) + 1)
        return found

    def keys(self, e: Entry, columns: tuple[Column, ...]) -> frozenset[tuple[Any, ...]]:
        """The keys that an equality delete file deletes."""
        found = self._keys.get((e, columns))
        if found is None:
            found = frozenset(equality_keys(self.data(e), columns))
            self._keys.put((e, columns), found, len(found) + 1)
        return found


def _by(e: Entry) -> str:
    return f"(of snapshot {e.snapshot_id})"


# --- one snapshot's live files ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Live:
    """The live files of one snapshot, as its manifests say.

    Attributes:
        data: path → entries; more than one breaks the spec, but then readers do read the file twice.
        opaque: unreadable manifests, and why.
        changed: entries that this snapshot added or deleted, as their status says (needs no parent to know).
        judged, violations: the manifests that no snapshot showed before, and what in them breaks the spec.
    """

    data: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    deletes: dict[Entry, None] = field(default_factory=dict)
    opaque: dict[ManifestFile, str] = field(default_factory=dict)
    changed: list[Entry] = field(default_factory=list)
    manifests: tuple[str, ...] = ()
    judged: list[ManifestFile] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Delta:
    """What a snapshot's live files have that its tree parent's do not, and the other way round."""

    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]
    added_opaque: tuple[ManifestFile, ...] = ()
    removed_opaque: tuple[ManifestFile, ...] = ()


def in_scope(d: Entry, f: Entry) -> bool:
    """Whether delete file ``d`` may apply to data file ``f``, by age and partition (spec, "Scan Planning")."""
    if d.content == "equality-deletes":
        return f.data_sequence_number < d.data_sequence_number and (d.unpartitioned or d.scope == f.scope)
    return f.data_sequence_number <= d.data_sequence_number and d.scope == f.scope


class _State:
    """The live files of the snapshot at the cursor, indexed by what deletes apply to what. Mutable."""

    def __init__(self, files: TableFiles) -> None:
        self._files = files
        self.data: dict[str, tuple[Entry, ...]] = {}
        self.deletes: dict[Entry, None] = {}
        self.opaque: dict[ManifestFile, None] = {}
        self.vectors: dict[str, list[Entry]] = {}  # by the data file that they reference
        self._by_target: dict[str, list[Entry]] = {}  # position deletes, by every data file that they name
        self._equality: list[Entry] = []
        self._blind: list[Entry] = []  # deletes whose targets cannot be read
        self._targets: dict[Entry, tuple[str, ...] | None] = {}

    def targets(self, d: Entry) -> tuple[str, ...] | None:
        """The data files that a position delete or deletion vector names; None: unreadable. Never changes its mind."""
        if d not in self._targets:
            if d.content == "deletion-vector" and d.referenced is not None:
                self._targets[d] = (d.referenced,)
            else:
                try:
                    self._targets[d] = tuple(self._files.positions(d))
                except Unknown:
                    self._targets[d] = None
        return self._targets[d]

    def _index(self, d: Entry) -> tuple[dict[str, list[Entry]], tuple[str, ...]] | list[Entry]:
        if d.content == "equality-deletes":
            return self._equality
        targets = self.targets(d)
        if targets is None:
            return self._blind
        return (self.vectors if d.content == "deletion-vector" else self._by_target), targets

    def _put(self, e: Entry) -> None:
        if e.content == "data":
            self.data[e.path] = _sorted((*self.data.get(e.path, ()), e))
            return
        self.deletes[e] = None
        where = self._index(e)
        if isinstance(where, list):
            where.append(e)
        else:
            for path in where[1]:
                where[0].setdefault(path, []).append(e)

    def _take(self, e: Entry) -> None:
        if e.content == "data":
            left = list(self.data.pop(e.path))
            left.remove(e)
            if left:
                self.data[e.path] = tuple(left)
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

    def prepare(self, d: _Delta) -> None:
        """Read what :meth:`do` needs for a difference that is new; after it, doing and undoing read nothing."""
        for e in d.added:
            if e.content not in ("data", "equality-deletes"):
                self.targets(e)

    def do(self, d: _Delta) -> None:
        """Go from a snapshot to its child."""
        for e in d.removed:
            self._take(e)
        for e in d.added:
            self._put(e)
        for m in d.removed_opaque:
            del self.opaque[m]
        for m in d.added_opaque:
            self.opaque[m] = None

    def undo(self, d: _Delta) -> None:
        """Go from a child back to its parent."""
        self.do(_Delta(d.removed, d.added, d.removed_opaque, d.added_opaque))

    def delta_to(self, live: Live) -> _Delta:
        """What must change for this state to have exactly the live files ``live``."""
        added: list[Entry] = []
        removed: list[Entry] = []
        for path, entries in live.data.items():
            old = self.data.get(path, ())
            if old != entries:
                added += (Counter(entries) - Counter(old)).elements()
                removed += (Counter(old) - Counter(entries)).elements()
        removed += chain.from_iterable(es for path, es in self.data.items() if path not in live.data)
        added += (e for e in live.deletes if e not in self.deletes)
        removed += (e for e in self.deletes if e not in live.deletes)
        return _Delta(
            tuple(added),
            tuple(removed),
            tuple(m for m in live.opaque if m not in self.opaque),
            tuple(m for m in self.opaque if m not in live.opaque),
        )

    def affected(self, d: _Delta) -> set[str]:
        """The data files whose visible rows ``d`` may change; to be asked before it is done.

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
                raise Unknown(f"{name(e.path)} may apply to files of the unreadable manifest {name(hiding.path)}")
        return paths

    def hidden(self, f: Entry, column_of: Callable[[int], Column]) -> dict[int, Entry]:
        """Position → the delete file that hides it, for one live data file.

        Raises:
            Unknown: a delete file that may apply cannot be read.
        """
        for m in self.opaque:
            if m.deletes and m.sequence_number >= f.data_sequence_number:
                name = self._files.name
                raise Unknown(f"deletes in the unreadable manifest {name(m.path)} may apply to {name(f.path)}")
        for d in self._blind:
            if in_scope(d, f):
                self._files.positions(d)  # raises and says why
        out: dict[int, Entry] = {}
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


def _sorted(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda e: (e.data_sequence_number, e.spec_id, repr(e.partition))))


# --- the tree ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Node:
    """A snapshot in the tree: ``base`` is its tree parent (None: the root, the empty table)."""

    base: int | None
    depth: int
    delta: _Delta
    columns: tuple[Column, ...]
    manifests: tuple[str, ...]


@dataclass(slots=True)
class Change:
    """What a snapshot did. ``added`` and ``removed`` are net rows, None when unknown; ``problems`` says why."""

    added: tuple[RowChange, ...] | None = None
    removed: tuple[RowChange, ...] | None = None
    added_files: tuple[Entry, ...] = ()
    removed_files: tuple[Entry, ...] = ()
    problems: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


_Visible = dict[str, list[tuple[Entry, dict[int, Entry]]]]
"""Path → its entries, each with the positions that are hidden and by what."""


class SnapshotTree:
    """Every snapshot of a table that could be read, each as its difference from its parent.

    Args:
        files: the table's files.
        column_of: field id → column, for equality deletes.
    """

    def __init__(self, files: TableFiles, column_of: Callable[[int], Column]) -> None:
        self._files = files
        self._column_of = column_of
        self._state = _State(files)
        self._nodes: dict[int, _Node] = {}
        self._cursor: int | None = None
        self._judged: set[ManifestFile] = set()

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self._nodes

    def live(self, snapshot_id: int, manifests: Sequence[ManifestFile]) -> Live:
        """A snapshot's live files, from its manifests."""
        live = Live(manifests=tuple(m.path for m in manifests))
        for m in manifests:
            try:
                manifest = self._files.manifest(m)
            except Unknown as why:
                live.opaque[m] = str(why)
                continue
            for e in manifest.entries:
                if e.snapshot_id == snapshot_id and e.status != EXISTING:
                    live.changed.append(e)
                if e.status == DELETED:
                    continue
                if e.content == "data":
                    same = live.data.get(e.path)
                    live.data[e.path] = (e,) if same is None else _sorted((*same, e))
                else:
                    if e in live.deletes and m not in self._judged:
                        live.violations.append(f"duplicate-path: {self._files.name(e.path)} is live twice")
                    live.deletes[e] = None
            if m not in self._judged:
                live.judged.append(m)
                live.violations += (f"{v} (manifest {self._files.name(m.path)})" for v in manifest.violations)
        return live

    def orphan(self, snapshot_id: int, live: Live, columns: tuple[Column, ...]) -> Change:
        """Put in a snapshot whose parent cannot be known: its rows' change is unknown, its children's will not be."""
        self._move(None)
        delta = self._state.delta_to(live)
        self._state.prepare(delta)
        self._enter(snapshot_id, None, delta, columns, live)
        return Change(
            added_files=tuple(e for e in live.changed if e.status == ADDED),
            removed_files=tuple(e for e in live.changed if e.status != ADDED),
            violations=live.violations,
        )

    def child(self, snapshot_id: int, parent: int | None, live: Live, columns: tuple[Column, ...]) -> Change:
        """Put in a snapshot below its parent (which is in the tree; None: the empty table) and compare the two.

        Where the projection differs too (a schema change gave one of the columns another field), every row is compared.
        """
        self._move(parent)
        before_columns = self._nodes[parent].columns if parent is not None else columns
        delta = self._state.delta_to(live)
        out = Change(added_files=delta.added, removed_files=delta.removed)
        try:
            affected = self._state.affected(delta)
        except Unknown as e:
            affected = {e.path for e in chain(delta.added, delta.removed) if e.content == "data"}
            out.problems.append(str(e))
        if before_columns != columns:
            affected |= self._state.data.keys()
        self._state.prepare(delta)
        before = self._visible(affected, out.problems)
        self._enter(snapshot_id, parent, delta, columns, live)
        try:
            self._differ(before, self._visible(affected, out.problems), before_columns, columns, out)
        except BaseException:  # the store stopped answering: as if the snapshot had never been shown
            self._move(parent)
            del self._nodes[snapshot_id]
            self._judged.difference_update(live.judged)
            raise
        for m in delta.added_opaque:
            out.problems.append(live.opaque[m])
        for m in delta.removed_opaque:
            out.problems.append(f"the parent's manifest {self._files.name(m.path)} is unreadable")
        if out.problems:
            out.removed = out.added = None
        out.violations = [*live.violations, *self._violations(snapshot_id, delta, affected), *out.violations]
        return out

    def snapshots_with(self, snapshots: Iterable[int], gone: set[str]) -> dict[str, list[int]]:
        """Which of these snapshots need which of the files ``gone`` (data, delete files and manifests)."""
        out: dict[str, list[int]] = {}
        for id in snapshots:
            if id not in self._nodes:
                continue
            self._move(id)
            files = chain(self._state.data, (e.path for e in self._state.deletes), self._nodes[id].manifests)
            for path in dict.fromkeys(p for p in files if p in gone):
                out.setdefault(path, []).append(id)
        return out

    def paths(self, snapshots: Iterable[int]) -> set[str]:
        """Every data, delete and manifest file on the way from the root to these snapshots."""
        out: set[str] = set()
        seen: set[int] = set()
        for id in snapshots:
            at: int | None = id
            while at is not None and at not in seen and at in self._nodes:
                seen.add(at)
                node = self._nodes[at]
                out.update(e.path for e in node.delta.added)
                at = node.base
            if id in self._nodes:
                out.update(self._nodes[id].manifests)
        return out

    # --- walking

    def _enter(self, id: int, base: int | None, delta: _Delta, columns: tuple[Column, ...], live: Live) -> None:
        depth = self._nodes[base].depth + 1 if base is not None else 1
        self._state.do(delta)
        self._nodes[id] = _Node(base, depth, delta, columns, live.manifests)
        self._judged.update(live.judged)
        self._cursor = id

    def _move(self, to: int | None) -> None:
        """Walk the cursor over the lowest common ancestor: up by undoing, down by doing."""
        at, goal = self._cursor, to
        down: list[_Delta] = []
        while at != goal:  # each step takes the deeper end one level up: bounded by the depths of both
            if goal is None or (at is not None and self._nodes[at].depth >= self._nodes[goal].depth):
                assert at is not None
                node = self._nodes[at]
                self._state.undo(node.delta)
                at = node.base
            else:
                node = self._nodes[goal]
                down.append(node.delta)
                goal = node.base
            self._cursor = at
        for delta in reversed(down):
            self._state.do(delta)
        self._cursor = to

    # --- comparing

    def _visible(self, paths: set[str], problems: list[str]) -> _Visible:
        out: _Visible = {}
        for path in paths:
            out[path] = []
            for f in self._state.data.get(path, ()):
                try:
                    out[path].append((f, self._state.hidden(f, self._column_of)))
                except Unknown as e:
                    problems.append(str(e))
        return out

    def _differ(
        self,
        before: _Visible,
        after: _Visible,
        before_columns: tuple[Column, ...],
        columns: tuple[Column, ...],
        out: Change,
    ) -> None:
        """The net rows that went and came, into ``out``; what cannot be read goes to ``out.problems``."""
        removed: list[RowChange] = []
        added: list[RowChange] = []
        name = self._files.name

        def read(f: Entry, columns: tuple[Column, ...], hidden: Mapping[int, Entry]) -> list[Row]:
            rows = self._files.rows(f, columns)
            if f.records != len(rows):
                out.violations.append(
                    f"record-count: {name(f.path)} has {len(rows)} rows, its manifest entry says {f.records}"
                )
            for p, d in hidden.items():
                if not 0 <= p < len(rows):
                    out.violations.append(
                        f"delete-position: {name(d.path)} deletes position {p} of {name(f.path)}, of {len(rows)} rows"
                    )
                    break
            return rows

        def some(f: Entry, columns: tuple[Column, ...], at: Mapping[int, Entry]) -> Iterator[RowChange]:
            if at:
                rows = read(f, columns, at)
                yield from (RowChange(rows[p], name(f.path), p, name(at[p].path)) for p in sorted(at) if p < len(rows))

        def whole(f: Entry, columns: tuple[Column, ...], hidden: Mapping[int, Entry]) -> Iterator[RowChange]:
            rows = read(f, columns, hidden)
            yield from (RowChange(row, name(f.path), p) for p, row in enumerate(rows) if p not in hidden)

        for path in sorted(before):
            old, new = before[path], after[path]
            try:
                if [f for f, _ in old] == [f for f, _ in new] and before_columns == columns:
                    for (f, was), (_, now) in zip(old, new, strict=True):
                        removed += some(f, columns, {p: d for p, d in now.items() if p not in was})
                        added += some(f, columns, {p: d for p, d in was.items() if p not in now})
                else:
                    for f, was in old:
                        removed += whole(f, before_columns, was)
                    for f, now in new:
                        added += whole(f, columns, now)
            except Unknown as e:
                out.problems.append(str(e))
        out.removed, out.added = net(removed, added)

    def _violations(self, snapshot_id: int, delta: _Delta, affected: set[str]) -> Iterator[str]:
        """What the spec forbids in the state at the cursor, where ``delta`` touched it."""
        name = self._files.name
        for path in sorted(affected | {p for e in delta.added for p in _referenced(e)}):
            entries, vectors = self._state.data.get(path, ()), self._state.vectors.get(path, ())
            if len(entries) > 1:
                yield f"duplicate-path: {name(path)} is live {len(entries)} times"
            if len(vectors) > 1:
                yield f"several-dvs: {name(path)} has {len(vectors)} deletion vectors"
            if vectors and not entries:
                yield f"dangling-dv: {name(vectors[0].path)} has a deletion vector of {name(path)}, which is not live"
        for e in delta.added:
            if e.snapshot_id != snapshot_id:
                yield (
                    f"foreign-file: {name(e.path)} is live but was not in the parent, and its entry says that snapshot "
                    f"{e.snapshot_id} added it"
                )


def _referenced(e: Entry) -> tuple[str, ...]:
    return (e.referenced,) if e.content == "deletion-vector" and e.referenced is not None else ()


def net(
    removed: Sequence[RowChange], added: Sequence[RowChange]
) -> tuple[tuple[RowChange, ...], tuple[RowChange, ...]]:
    """Cancel equal rows, one removed against one added: what is left, as ``(removed, added)``, has no row in common."""
    common = Counter(c.row for c in removed) & Counter(c.row for c in added)
    if not common:
        return tuple(removed), tuple(added)

    def left(changes: Sequence[RowChange]) -> tuple[RowChange, ...]:
        cancel = common.copy()
        out = []
        for c in changes:
            if cancel[c.row] > 0:
                cancel[c.row] -= 1
            else:
                out.append(c)
        return tuple(out)

    return left(removed), left(added)
