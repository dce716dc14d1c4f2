"""The reader of a Delta table: it lists ``_delta_log`` in the object store and writes the table log, version by version.

It reads nothing through Spark or through a library of Delta's. The rows of a version are those that its actions bring into the table or take
out of it, as whoever reads the table then sees it: an ``add`` of a file that is there already, or a ``remove`` of one that is not, changes
nothing. A deletion vector hides rows of its data file, so a version that gives a file another vector changes the rows in which the two differ.

A log store without put-if-absent lets a writer replace a version's file. So at the end all of them are read again, and the log is made anew if
one has changed: it tells what a reader of the table is told at the end. Checkpoints, compacted logs and checksums are written after their
version; they are read at the end, too, and each is recorded with its version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any
from urllib.parse import unquote

from checkers.evidence import tablelog_file
from checkers.evidence.problem import Problem
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, Growth, MissingFile, RowChange, TableLog
from checkers.formats.delta.records import (
    Action,
    DeltaCommit,
    DeltaFile,
    DeltaMetadata,
    DerivedFile,
    vector_id,
)
from checkers.formats.delta.tableformat import Delta
from compose.objectstore import ObjectStore
from harness.tablefiles.delta import actions as files
from harness.tablefiles.delta import derived, vectors
from harness.tablefiles.delta.actions import LogState
from harness.tablefiles.iceberg.metadata_json import CorruptFile
from harness.tablefiles.iceberg.rows import read_rows
from harness.tablefiles.iceberg.snapshot_tree import net
from harness.tablefiles.log_file import LogFile
from harness.tablefiles.mark import FROM_THE_START, RecordMark

Vector = Mapping[str, Any] | None


class DeltaReader:
    """Reads one table's log from the store, incrementally. Thread-safe: captures wait for each other.

    Args:
        table: the table's name in the workload file.
        location: the table's folder.
        columns: the columns of a row in the log, by name.
        path: the log file; None: keep the log in memory only.
    """

    def __init__(
        self, store: ObjectStore, *, table: str, location: str, columns: Sequence[str], path: Path | None
    ) -> None:
        self._table, self._location, self._columns = table, location.rstrip("/"), tuple(columns)
        self._file = LogFile(path)
        self._files = _TableFiles(store, self._location, self._columns)
        self._store = store
        self._lock = RLock()
        self._captures: list[Capture] = []
        self._written = False
        self._complete = False
        self._missing: tuple[MissingFile, ...] = ()
        self._problems: list[Problem] = []
        self._begin()

    def _begin(self) -> None:
        """Know no version."""
        self._state = LogState()
        self._metadata: list[DeltaMetadata] = []
        self._commits: list[DeltaCommit] = []
        self._versions: dict[int, bytes] = {}
        """Each recorded version with the hash of its content."""

    @property
    def newest_timestamp_ms(self) -> int | None:
        """The newest time that a version says (ms since the epoch, writers' clocks); None: no version yet."""
        with self._lock:
            return max((c.timestamp_ms for c in self._commits), default=None)

    def capture(self, pointer: str | None, time: int, history: Sequence[str] | None = None) -> Capture:
        """Record every version that is not recorded yet. ``pointer`` and ``history`` are a catalog's, and a Delta table needs none.

        Raises:
            TableReadError: the store cannot be read, or the log file cannot be written.
        """
        with self._lock:
            before = len(self._metadata)
            done = self._read_new(time)
            self._append(before, done)
            return done

    def finish(self, pointer: str | None, time: int, history: Sequence[str] | None = None) -> TableLog:
        """Capture a last time, read again what can have been replaced, and end the log. Raises TableReadError."""
        with self._lock:
            self._read_new(time)
            self._look_again()
            names = [p.rpartition(f"/{files.LOG}/")[2] for p in self._store.list(self._place(""))]
            by_version: dict[int, list[DerivedFile]] = {}
            for version, found in derived.read(self._store, self._place(""), names):
                by_version.setdefault(version, []).append(found)
            self._metadata = [replace(m, derived=tuple(by_version.get(m.version, ()))) for m in self._metadata]
            self._missing = self._missing_files()
            self._complete = True
            log = self.log()
            self._file.replace(log)
            return log

    def log(self) -> TableLog:
        """The log so far."""
        with self._lock:
            return TableLog(
                self._table,
                self._location,
                self._location,
                self._columns,
                tuple(self._metadata),
                tuple(self._commits),
                tuple(self._captures),
                self._complete,
                tuple(self._problems),
                self._missing,
                Delta.name,
            )

    def grown(self, since: RecordMark = FROM_THE_START) -> tuple[Growth, RecordMark]:
        """What the log gained since a mark, and the next mark; of a log that was made anew at the end, only later versions."""
        with self._lock:
            new = Growth(
                self._table,
                self._columns,
                tuple(self._metadata[since.metadata :]),
                tuple(self._commits[since.commits :]),
                tuple(self._captures[since.captures :]),
            )
            return new, RecordMark(len(self._metadata), len(self._commits), len(self._captures))

    # --- the store

    def _read_new(self, time: int) -> Capture:
        new = [v for v in self._listed(files.VERSION) if v not in self._versions]
        contents = self._store.read_many(self._place(files.name(v)) for v in new)
        for version in new:
            if (content := contents[self._place(files.name(version))]) is not None:
                self._record(version, content)
        done = Capture(time, self._metadata[-1].location if self._metadata else None)
        self._captures.append(done)
        return done

    def _place(self, name: str) -> str:
        return f"{self._location}/{files.LOG}/{name}".rstrip("/")

    def _listed(self, pattern: Any) -> list[int]:
        names = (p.rpartition("/")[2] for p in self._store.list(self._place("")))
        return sorted(int(m[1]) for n in names if (m := pattern.fullmatch(n)))

    def _look_again(self) -> None:
        """Make the log anew if the file of a version is another one now."""
        paths = {v: self._place(files.name(v)) for v in self._versions}
        contents = self._store.read_many(paths.values())
        present = {v: content for v, path in paths.items() if (content := contents[path]) is not None}
        other = [v for v, content in present.items() if _hash(content) != self._versions[v]]
        if not other:
            return
        before = {c.snapshot_id: c for c in self._commits}
        self._begin()
        for version, content in sorted(present.items()):
            self._record(version, content)
        for c in self._commits:
            if c.snapshot_id in other:
                was = before[c.snapshot_id]
                message = f"{files.name(c.snapshot_id)} has another content than when it was read first: it was of {was.op}, and is of {c.op}"
                path = f"{files.LOG}/{files.name(c.snapshot_id)}"
                self._problems.append(Problem("written-over", message, path, c.snapshot_id))

    def _missing_files(self) -> tuple[MissingFile, ...]:
        """Files of the last version that are not in the store."""
        if not self._commits:
            return ()
        last = self._commits[-1].snapshot_id
        live = (fields for entries in self._state.live.values() for fields in entries.values())
        needed = {p for fields in live for p in self._files.paths(fields)}
        present = set(self._store.list(self._location))
        missing = [
            p
            for p in sorted(needed)
            if self._files.place(p) not in present and not self._store.exists(self._files.place(p))
        ]
        return tuple(MissingFile(p, (last,)) for p in missing)

    # --- the log file

    def _append(self, before: int, capture: Capture) -> None:
        """Write the versions from the ``before``-th on, and a capture."""
        if not self._metadata:
            return
        if not self._written:
            self._file.begin(
                tablelog_file.header_to_json(self._table, self._location, self._location, self._columns, Delta.name)
            )
            self._written = True
        made = {c.metadata: c for c in self._commits}
        lines: list[Mapping[str, Any]] = []
        for n in range(before, len(self._metadata)):
            previous = self._metadata[n - 1] if n else None
            lines.append(tablelog_file.metadata_to_json(self._metadata[n], previous))
            lines += [tablelog_file.commit_to_json(made[n])] if n in made else []
        lines.append({"type": "capture", "time": capture.time, "metadata": capture.metadata})
        self._file.append(lines)

    # --- versions

    def _record(self, version: int, content: bytes) -> None:
        """Record one version: what it says, and which rows it changed."""
        problems: list[Problem] = []
        path = f"{files.LOG}/{files.name(version)}"
        try:
            found = files.actions(content)
        except CorruptFile as e:
            found = []
            problems.append(Problem("corrupt-file", f"{path}: {e}", path, version, "version", str(e)))
        before = {path: self._state.of(path) for path in _touched(found)}
        self._state.apply(found)
        changes = self._files.changes(before, self._state)
        problems += [replace(p, snapshot=version) for p in changes.problems]
        self._versions[version] = _hash(content)
        creates = not self._commits and not problems and not any(a.get("add") or a.get("remove") for a in found)
        if not creates:
            self._commits.append(self._commit(version, _info(found), changes, tuple(problems)))
        self._metadata.append(
            DeltaMetadata(
                n=len(self._metadata),
                location=self._place(files.name(version)),
                last_updated_ms=_time_ms(_info(found)),
                current=None if creates else version,
                snapshots=tuple(c.snapshot_id for c in self._commits),
                refs={} if creates else {"main": version},
                version=version,
                actions=tuple(map(files.without_statistics, found)),
                configuration=self._state.configuration,
            )
        )

    def _commit(
        self, version: int, info: Mapping[str, Any], changes: _Changes, problems: tuple[Problem, ...]
    ) -> DeltaCommit:
        """The commit of the version that is recorded next; its rows are not known if there are problems."""
        read = info.get("readVersion")
        return DeltaCommit(
            snapshot_id=version,
            parent_id=self._commits[-1].snapshot_id if self._commits else None,
            sequence_number=version,
            timestamp_ms=_time_ms(info),
            operation=str(info.get("operation") or ""),
            op=info.get("userMetadata"),
            attempt=version - read if isinstance(read, int) and read < version else None,
            metadata=len(self._metadata),
            added=None if problems else changes.added,
            removed=None if problems else changes.removed,
            added_files=changes.added_files,
            removed_files=changes.removed_files,
            problems=problems,
        )


def _time_ms(info: Mapping[str, Any]) -> int:
    """When a version was made, as it says (ms since the epoch, the writer's clock)."""
    return int(info.get("inCommitTimestamp") or info.get("timestamp") or 0)


def _info(found: Iterable[Action]) -> Mapping[str, Any]:
    return next((a["commitInfo"] for a in found if a.get("commitInfo")), {})


def _touched(found: Iterable[Action]) -> list[str]:
    """The paths of the data files that actions are about, in their order."""
    named = (a[k]["path"] for a in found for k in ("remove", "add") if a.get(k))
    return list(dict.fromkeys(named))


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


class _Changes:
    """What a version changed."""

    def __init__(self) -> None:
        self.added: tuple[RowChange, ...] = ()
        self.removed: tuple[RowChange, ...] = ()
        self.added_files: tuple[DeltaFile, ...] = ()
        self.removed_files: tuple[DeltaFile, ...] = ()
        self.problems: list[Problem] = []


class _TableFiles:
    """The data files and the vectors of a table."""

    def __init__(self, store: ObjectStore, location: str, columns: Sequence[str]) -> None:
        self._store, self._location, self._columns = store, location, tuple(columns)
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        """The rows of files that are in the table, or were until now."""

    def place(self, path: str) -> str:
        """The location of a file that the log names as ``path``, which is absolute or relative to the table."""
        return path if "://" in path or path.startswith(("/", "file:")) else f"{self._location}/{path}"

    def paths(self, fields: Mapping[str, Any]) -> list[str]:
        """The files that an ``add`` needs: its data file, and that of its vector."""
        vector = fields.get("deletionVector")
        try:
            own = vectors.file_of(vector) if vector else None
        except CorruptFile:
            own = None
        return [unquote(str(fields["path"])), *([own] if own else [])]

    def changes(self, before: Mapping[str, Sequence[Mapping[str, Any]]], state: LogState) -> _Changes:
        """What changed between the entries of some data files before and those of a state; ``before``: by their paths."""
        out = _Changes()
        removed: list[RowChange] = []
        added: list[RowChange] = []
        for path, was in before.items():
            now = state.of(path)
            try:
                taken, brought = self._rows_changed(path, was, now, state)
                removed += taken
                added += brought
                old, new = self._entries(path, was, now, state)
                out.removed_files += old
                out.added_files += new
            except FileNotFoundError as e:
                out.problems.append(Problem("missing-file", f"{e} is not in the store", path, kind="data file"))
            except CorruptFile as e:
                out.problems.append(Problem("corrupt-file", f"{path}: {e}", path, kind="data file", cause=str(e)))
            if not now:
                self._rows.pop(path, None)
        out.removed, out.added = net(removed, added)
        return out

    def _rows_changed(
        self, path: str, was: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]], state: LogState
    ) -> tuple[list[RowChange], list[RowChange]]:
        """The rows of a data file that a version took out and brought. A file is twice in a table only if its log is wrong."""
        same = {vector_id(f.get("deletionVector")) for f in was} & {vector_id(f.get("deletionVector")) for f in now}
        olds = [f for f in was if vector_id(f.get("deletionVector")) not in same]
        news = [f for f in now if vector_id(f.get("deletionVector")) not in same]
        if not olds and not news:
            return [], []
        rows, name = self.rows(path, (olds + news)[0], state), unquote(path)
        if len(olds) == len(news) == 1:
            old, new = (self._hidden(f.get("deletionVector")) for f in (olds[0], news[0]))
            hides, hid = (self._vector_path(f.get("deletionVector")) for f in (news[0], olds[0]))
            return (
                [RowChange(rows[p], name, p, hides) for p in sorted(new - old)],
                [RowChange(rows[p], name, p, hid) for p in sorted(old - new)],
            )

        def visible(entries: Sequence[Mapping[str, Any]]) -> list[RowChange]:
            hidden = [self._hidden(f.get("deletionVector")) for f in entries]
            return [RowChange(row, name, p) for h in hidden for p, row in enumerate(rows) if p not in h]

        return visible(olds), visible(news)

    def _entries(
        self, path: str, was: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]], state: LogState
    ) -> tuple[tuple[DeltaFile, ...], tuple[DeltaFile, ...]]:
        """The files that a version took out and brought: the data file, and its vectors."""
        removed = [self._data(path, was[0], state)] if was and not now else []
        added = [self._data(path, now[0], state)] if now and not was else []
        old = {vector_id(v): v for f in was if (v := f.get("deletionVector"))}
        new = {vector_id(v): v for f in now if (v := f.get("deletionVector"))}
        removed += [self._vector(path, v) for id, v in old.items() if id not in new]
        added += [self._vector(path, v) for id, v in new.items() if id not in old]
        return tuple(removed), tuple(added)

    def _data(self, path: str, fields: Mapping[str, Any], state: LogState) -> DeltaFile:
        values = _partition(fields, state)
        return DeltaFile(
            unquote(path), "data", len(self.rows(path, fields, state)), int(fields.get("size") or 0), values
        )

    def _vector(self, path: str, vector: Mapping[str, Any]) -> DeltaFile:
        return DeltaFile(
            path=self._vector_path(vector) or "",
            content="deletion-vector",
            records=int(vector.get("cardinality") or 0),
            size=int(vector.get("sizeInBytes") or 0),
            partition={},
            referenced=unquote(path),
            offset=vector.get("offset"),
        )

    def _vector_path(self, vector: Vector) -> str | None:
        """The path of a vector's file; for one that is inline, its id."""
        return None if vector is None else vectors.file_of(vector) or vector_id(vector)

    def _hidden(self, vector: Vector) -> frozenset[int]:
        if vector is None:
            return frozenset()
        path = vectors.file_of(vector)
        return vectors.positions(vector, None if path is None else self._store.read(self.place(path)))

    def rows(self, path: str, fields: Mapping[str, Any], state: LogState) -> list[tuple[Any, ...]]:
        """All rows of a data file, those that a vector hides, too."""
        if path not in self._rows:
            content = self._store.read(self.place(unquote(path)))
            found = read_rows(content, "parquet")
            partition = _partition(fields, state)
            schema = state.columns

            def values(name: str) -> list[Any]:
                if name in partition:
                    return [partition[name]] * found.count
                column = schema.get(name)
                id = column.id if column is not None and state.by_field_id else None
                if id is not None:
                    inside = found.by_id.get(id)
                elif column is not None or not state.mapped:
                    inside = found.by_name(name if column is None else column.physical)
                else:  # dropped, though the file may still have it
                    inside = None
                return [None] * found.count if inside is None else inside.to_pylist()

            self._rows[path] = list(zip(*map(values, self._columns), strict=True))
        return self._rows[path]


_WHOLE = ("byte", "short", "integer", "long")


def _partition(fields: Mapping[str, Any], state: LogState) -> dict[str, Any]:
    """The partition values of a file, of their own types, by the columns' names; Delta writes them as texts, by physical names."""
    values: Mapping[str, Any] = fields.get("partitionValues") or {}
    types, names = state.partition_types, {c.physical: c.name for c in state.columns.values()}
    named = {names.get(physical, physical): v for physical, v in values.items()}
    return {c: int(v) if v is not None and types.get(c) in _WHOLE else v for c, v in named.items()}
