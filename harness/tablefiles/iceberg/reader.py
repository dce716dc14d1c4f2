"""The table reader: follows a table's metadata through the object store and writes the table log.

The catalog gives it the pointer; it reads everything else from the store itself: never through Spark, never through a catalog
client. ``harness.tablefiles.iceberg.snapshot_tree`` computes what each snapshot changed; this module decides *which* snapshots existed, in
which order.

**The chain of metadata.** Every commit writes a new metadata.json and swings the catalog's pointer to it. A
metadata.json lists its predecessors (``metadata-log``, at most ``write.metadata.previous-versions-max`` of them), and
the oldest of these lists its own. The reader walks back until it reaches a known version, then records the new ones,
oldest first::

    known                          new
    v1 ◄── v2 ◄── v3 (captured) ◄── v4 ◄── v5 ◄── pointer
              └── v4'   a second writer that swung the pointer from v2 as well: v3 is lost

If the pointer's chain does not contain the version captured last (v4' above), the catalog lost a commit, or was set back. The log
then has both chains, and ``problems`` of the version where it happened says so; the checkers judge. A metadata.json in the folder that
no chain names lost its race: it is not part of the log (:meth:`TableReader.unreferenced_metadata` lists such files).

**Snapshots come and go.** Expiry, rollback, and replacing a table drop snapshots from the list, and some catalogs list only the
current one; so the snapshots of *every* version of the chain count, each at its first appearance. Only if a snapshot's parent was
in no version at all, the other metadata files of the folder are searched for it.

**When to capture.** The rows of a commit can be read while its files exist, so capture before anything deletes files.
A capture costs only what is new. Each version with its commits is appended to the file in one write: if the run is killed, or the
store stops answering, the file holds whole versions, and the next capture continues after them.

**Broken tables are findings, not errors**: ``problems`` names what is missing or torn, by file and commit. Only a store that does
not answer raises :class:`TableReadError`.
"""

from __future__ import annotations

import contextlib
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from checkers.evidence import tablelog_file
from checkers.evidence.paths import normalise
from checkers.evidence.problem import Problem
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, Growth, MissingFile, ObjectSize, TableLog
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from compose.objectstore import ObjectStore, TableReadError
from harness.tablefiles.iceberg.commits import CommitReader
from harness.tablefiles.iceberg.decoded import TableFiles, Unknown
from harness.tablefiles.iceberg.manifests import UNSAID
from harness.tablefiles.iceberg.pointer_chain import (
    LONGEST_CHAIN,
    OutsideTheChain,
    Snapshot,
    Trace,
    folder,
    metadata_files,
    parse,
    predecessors,
    recorded,
    trace,
)
from harness.tablefiles.log_file import LogFile
from harness.tablefiles.mark import FROM_THE_START, RecordMark

__all__ = ["ObjectStore", "TableReadError", "TableReader"]

_BATCH = 32
"""Metadata versions read and recorded together."""
_SNAPSHOT_BATCH = 128
"""Snapshots whose files are fetched together."""
_SAID = frozenset(
    {
        "format-version",
        "last-updated-ms",
        "current-snapshot-id",
        "snapshots",
        "last-sequence-number",
        "next-row-id",
    }
)
"""Keys of metadata.json that have fields in a :class:`Metadata` record. Of ``refs`` only the snapshots have."""


@dataclass(frozen=True, slots=True)
class _Version:
    """A metadata.json to record."""

    location: str
    content: dict[str, Any]
    problems: tuple[Problem, ...]


class TableReader:
    """Reads one table's log from the store, incrementally. Thread-safe: captures wait for each other.

    Args:
        store: holds the table's files.
        table: the table's name in the workload file.
        identifier: the table's name in the catalog.
        columns: the columns of a row in the log, by name; one that a snapshot's schema lacks reads as None.
        path: the log file, created (replacing what is there) at the first capture that finds a table; None: keep the
            log in memory only.
        lists_one: the catalog's metadata lists only the current snapshot and names no parent (Nessie over REST): the
            parent comes from the snapshot's manifest list, where its writer put it.
        overwrites: another commit can overwrite a metadata file (the Hadoop catalog): its content is compared with what
            was captured.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        table: str,
        identifier: str,
        columns: Sequence[str],
        path: Path | None,
        lists_one: bool = False,
        overwrites: bool = False,
    ) -> None:
        self._store = store
        self._table = table
        self._identifier = identifier
        self._columns = tuple(columns)
        self._file = LogFile(path)
        self._lists_one = lists_one
        self._overwrites = overwrites
        self._lock = RLock()
        self._location: str | None = None
        self._metadata: list[Metadata] = []
        self._known: dict[str, int] = {}  # normalised location of a recorded version → its n (the newest)
        self._commits: dict[int, Commit] = {}
        self._in_order: list[Commit] = []
        self._first_listed: dict[int, Snapshot] = {}  # a snapshot as first listed in the chain
        self._captures: list[Capture] = []
        self._problems: list[Problem] = []
        self._missing: tuple[MissingFile, ...] = ()
        self._sizes: tuple[ObjectSize, ...] = ()
        self._complete = False
        self._written = (0, 0)  # captures and problems that are in the file
        self._files = TableFiles(store, self._relative)
        self._snapshots = CommitReader(self._files, self._columns, self._relative)
        self._outside = OutsideTheChain(store)

    @property
    def newest_timestamp_ms(self) -> int | None:
        """The newest snapshot timestamp captured (ms since the epoch, writers' clocks); None: no snapshot yet."""
        with self._lock:
            return max((c.timestamp_ms for c in self._commits.values()), default=None)

    def capture(self, pointer: str | None, time: int, history: Sequence[str] | None = None) -> Capture:
        """Record every version behind the catalog's pointer that is not recorded yet.

        Args:
            pointer: location of the current metadata.json; None: the catalog has no such table.
            time: the clock (ns since the start of the run), read *before* asking the catalog for the pointer.
            history: every location that the pointer had, oldest first, from the catalog's own log; None: read it from the files.

        Raises:
            TableReadError: the store cannot be read, or the log file cannot be written.
        """
        with self._lock:
            if pointer is not None:
                self._outside.look_again()
                try:
                    self._follow(pointer, history)
                finally:
                    self._files.release()
            done = Capture(time, pointer)
            self._captures.append(done)
            self._write_rest()
            return done

    def finish(self, pointer: str | None, time: int, history: Sequence[str] | None = None) -> TableLog:
        """Capture a last time, check that every file of every snapshot still listed exists, and end the log.

        Raises:
            TableReadError: as :meth:`capture`.
        """
        with self._lock:
            self.capture(pointer, time, history)
            if self._location is None:
                self._begin("")
                self._write_rest()
            sizes = self._store.sizes(self._location) if pointer is not None and self._location else {}
            self._missing = self._missing_files(sizes) if pointer is not None else ()
            self._sizes = self._other_sizes(sizes)
            self._complete = True
            self._file.append([tablelog_file.end_to_json(self._missing, self._sizes)])
            return self.log()

    def log(self) -> TableLog:
        """The log so far."""
        with self._lock:
            return TableLog(
                self._table,
                self._identifier,
                self._location or "",
                self._columns,
                tuple(self._metadata),
                tuple(self._commits.values()),
                tuple(self._captures),
                self._complete,
                tuple(self._problems),
                self._missing,
                sizes=self._sizes,
            )

    def grown(self, since: RecordMark = FROM_THE_START) -> tuple[Growth, RecordMark]:
        """What the log gained since a mark, and the next mark. Costs only what is new."""
        with self._lock:
            metadata, commits, captures = self._metadata, self._in_order, self._captures
            new = Growth(
                self._table,
                self._columns,
                tuple(metadata[since.metadata :]),
                tuple(commits[since.commits :]),
                tuple(captures[since.captures :]),
            )
            return new, RecordMark(len(metadata), len(commits), len(captures))

    def unreferenced_metadata(self) -> list[str]:
        """Locations of metadata.json files beside the recorded ones that are in no recorded chain: lost races and orphans.

        Raises:
            TableReadError: the store cannot be read.
        """
        with self._lock:
            folders = dict.fromkeys(folder(m.location) for m in self._metadata)
            return [p for f in folders for p in metadata_files(self._store, f) if normalise(p) not in self._known]

    # --- the log file

    def _begin(self, location: str) -> None:
        self._location = location
        self._file.begin(tablelog_file.header_to_json(self._table, self._identifier, location, self._columns))

    def _write_rest(self) -> None:
        """Write the captures and problems that are not in the file; those from before the table existed wait for its header."""
        if self._location is None:
            return
        captures, problems = self._written
        self._file.append(map(tablelog_file.problem_record, self._problems[problems:]))
        self._file.append(
            {"type": "capture", "time": c.time, "metadata": c.metadata} for c in self._captures[captures:]
        )
        self._written = (len(self._captures), len(self._problems))

    def _problem(self, problem: Problem) -> None:
        if problem not in self._problems:
            self._problems.append(problem)

    def _relative(self, path: str) -> str:
        if not self._location:
            return path
        full, root = normalise(path), normalise(self._location).rstrip("/") + "/"
        return full[len(root) :] if full.startswith(root) else path

    # --- the chain of metadata

    def _follow(self, pointer: str, history: Sequence[str] | None) -> None:
        last = self._metadata[-1] if self._metadata else None
        problems: list[Problem] = []
        if last is not None and normalise(last.location) == normalise(pointer):
            if not self._overwrites or (content := self._written_over(last, problems)) is None:
                return
            traced = Trace([pointer], last.n - 1 if last.n else None, {pointer: content})
        else:
            traced = recorded(pointer, history or (), self._known) or trace(self._store, pointer, self._known)
        base, read = traced.base, traced.contents
        if not read and traced.problems and normalise(pointer) not in self._known:
            for p in traced.problems:
                self._problem(replace(p, why=f"the pointer leads nowhere: {p.why}"))
            return
        if last is not None and base != last.n:
            origin = "no version seen before" if base is None else f"{self._metadata[base].location} (metadata {base})"
            message = f"the pointer was at {last.location} (metadata {last.n}); this version does not descend from it, but from {origin}"
            problems.append(Problem("fork", message, last.location))
        previous = self._metadata[base].location if base is not None else None
        current = self._metadata[base].current if base is not None else None
        listed = set(self._commits)
        for start in range(0, len(traced.locations), _BATCH):
            batch = traced.locations[start : start + _BATCH]
            raw = self._store.read_many(p for p in batch if p not in read)
            versions: list[_Version] = []
            for location in batch:
                content = read.pop(location, None) or parse(location, raw.get(location), problems)
                if content is None:
                    current = None
                else:
                    if self._lists_one:
                        self._tell_parents(content, current, listed)
                        current = content.get("current-snapshot-id")
                        listed.update(s["snapshot-id"] for s in content.get("snapshots") or ())
                    log = predecessors(content)
                    if log and previous is not None and normalise(log[-1]) != normalise(previous):
                        message = f"its metadata-log says that it follows {log[-1]}, the chain says {previous}"
                        problems.append(Problem("metadata-log", message, log[-1]))
                    versions.append(_Version(location, content, tuple(problems)))
                    problems.clear()
                previous = location
            self._record_all(versions)
        for p in problems:
            self._problem(replace(p, why=f"pointer at {pointer}: {p.why}"))

    def _written_over(self, last: Metadata, problems: list[Problem]) -> dict[str, Any] | None:
        """The present content of the last version's file, if it is not what was recorded; adds a problem then."""
        content = parse(last.location, self._store.read_many([last.location])[last.location], problems)
        if content is None:
            return None
        state = (content.get("last-updated-ms") or 0, tuple(s["snapshot-id"] for s in content.get("snapshots") or ()))
        if state == (last.last_updated_ms, last.snapshots):
            return None
        message = f"{last.location} was written over: metadata {last.n} is what was in it before"
        problems.append(Problem("written-over", message, last.location))
        return content

    def _tell_parents(self, content: dict[str, Any], before: int | None, listed: Collection[int]) -> None:
        """Put the parents that their writers named into a version's snapshots.

        An operation can add several snapshots in one commit (``workloads.engines.engine.Engine.several``), of which such a catalog lists only
        the last. Its parent is then in no version; it was made from the snapshot before it. The same holds for a snapshot whose writer
        names no parent.

        Args:
            before: the current snapshot of the version before; None if that is not known.
            listed: the snapshots of all versions before.
        """
        for s in content.get("snapshots") or ():
            if s.get("parent-snapshot-id") is None and "manifest-list" in s:
                with contextlib.suppress(Unknown):  # reported when its manifests are read
                    parent = self._files.parent(s["manifest-list"])
                    known = None if parent == UNSAID else parent
                    lost = parent == UNSAID or (known is not None and known not in listed)
                    if lost and before is not None:
                        known = before
                        self._snapshots.between.add(s["snapshot-id"])
                    s["parent-snapshot-id"] = known

    # --- versions

    def _record_all(self, versions: Sequence[_Version]) -> None:
        new = {s["snapshot-id"]: s for v in versions for s in self._new_snapshots(v.content)}
        fetched: set[int] = set()
        for v in versions:
            due = [s["snapshot-id"] for s in self._new_snapshots(v.content)]
            if any(id not in fetched for id in due):
                self._files.release()
                ahead = [id for id in new if id not in fetched][: max(_SNAPSHOT_BATCH, len(due))]
                self._files.fetch_snapshots([new[id]["manifest-list"] for id in ahead if "manifest-list" in new[id]])
                fetched.update(ahead)
            self._record(v)

    def _new_snapshots(self, content: Mapping[str, Any]) -> list[Snapshot]:
        """A version's unrecorded snapshots, by sequence number, then as listed; parents before children."""
        listed = {s["snapshot-id"]: s for s in content.get("snapshots") or () if s["snapshot-id"] not in self._commits}
        out: dict[int, Snapshot] = {}
        for s in sorted(listed.values(), key=lambda s: s.get("sequence-number") or 0):
            line: dict[int, Snapshot] = {}
            ancestor: Snapshot | None = s
            while ancestor is not None and ancestor["snapshot-id"] not in out and ancestor["snapshot-id"] not in line:
                line[ancestor["snapshot-id"]] = ancestor
                ancestor = listed.get(ancestor.get("parent-snapshot-id"))
            out |= reversed(line.items())
        return list(out.values())

    def _record(self, v: _Version) -> None:
        """Record one version and its new snapshots, in memory and in the file: all or nothing."""
        c = v.content
        if self._location is None:
            self._begin(c["location"])
        n = len(self._metadata)
        problems = list(v.problems)
        listed: list[Snapshot] = c.get("snapshots") or []
        for s in listed:
            before = self._first_listed.get(s["snapshot-id"])
            if before is not None and before != s and _identity(before) != _identity(s):
                message = f"tells snapshot {s['snapshot-id']} differently than the version that first showed it"
                problems.append(Problem("snapshot-changed", message, snapshot=s["snapshot-id"]))
        last = self._metadata[-1] if self._metadata else None
        raw = {k: x for k, x in c.items() if k not in _SAID}
        if raw.get("refs") is not None:
            raw["refs"] = {n: {k: x for k, x in r.items() if k != "snapshot-id"} for n, r in raw["refs"].items()}
        if last is not None:  # versions share equal values
            raw = {k: last.raw[k] if k in last.raw and last.raw[k] == x else x for k, x in raw.items()}
        current = c.get("current-snapshot-id")
        metadata = Metadata(
            n=n,
            location=v.location,
            last_updated_ms=c.get("last-updated-ms") or 0,
            format_version=c["format-version"],
            current=None if current == -1 else current,
            snapshots=tuple(s["snapshot-id"] for s in listed),
            refs={name: ref["snapshot-id"] for name, ref in (c.get("refs") or {}).items()},
            last_sequence_number=c.get("last-sequence-number") or 0,
            next_row_id=c.get("next-row-id"),
            raw=raw,
            problems=tuple(problems),
        )
        commits: dict[int, Commit] = {}
        first: dict[int, Snapshot] = {}
        seen = ChainMap[int, Any](self._commits, first)  # a copy for each snapshot would cost their square
        self._snapshots.begin(c)
        for s in self._new_snapshots(c):
            for snapshot, found_in in self._with_lost_parents(s, v.location, commits):
                commits[snapshot["snapshot-id"]] = self._snapshots.commit(snapshot, c, n, found_in, seen)
                first[snapshot["snapshot-id"]] = snapshot
        self._file.append(
            [tablelog_file.metadata_to_json(metadata, last), *map(tablelog_file.commit_to_json, commits.values())]
        )
        self._metadata.append(metadata)
        self._known[normalise(v.location)] = n
        self._commits |= commits
        self._in_order += commits.values()
        self._first_listed |= first
        self._snapshots.recorded()

    def _with_lost_parents(
        self, s: Snapshot, beside: str, recording: Mapping[int, Commit]
    ) -> list[tuple[Snapshot, str | None]]:
        """``s`` after those of its ancestors that only metadata files outside the chain list, with these files."""
        line: list[tuple[Snapshot, str | None]] = [(s, None)]
        seen = {s["snapshot-id"]}
        for _ in range(LONGEST_CHAIN):
            parent = line[-1][0].get("parent-snapshot-id")
            if parent is None or parent in self._commits or parent in recording or parent in seen:
                break
            found = self._outside.find(parent, beside, self._known)
            if found is None:
                break
            line.append(found)
            seen.add(parent)
        return line[::-1]

    # --- the store at the end

    def _other_sizes(self, listed: Mapping[str, int]) -> tuple[ObjectSize, ...]:
        """Objects that the listing of the end tells with another size than they had when they were read, and unread ones that the last
        version names: its statistics."""
        read = {normalise(p): n for p, n in self._files.sizes.items()}
        last = self._metadata[-1].raw if self._metadata else {}
        named = {
            normalise(x["statistics-path"])
            for key in ("statistics", "partition-statistics")
            for x in last.get(key) or ()
            if isinstance(x, dict) and isinstance(x.get("statistics-path"), str)
        }
        here = {p: (n, size) for p, size in listed.items() if (n := normalise(p)) in read or n in named}
        return tuple(
            ObjectSize(self._relative(p), size) for p, (n, size) in sorted(here.items()) if read.get(n) != size
        )

    def _missing_files(self, listing: Iterable[str]) -> tuple[MissingFile, ...]:
        """Missing files that a snapshot of the last metadata needs."""
        listed = [id for id in (self._metadata[-1].snapshots if self._metadata else ()) if id in self._first_listed]
        present = {normalise(p) for p in listing}
        needed = {s["manifest-list"] for s in map(self._first_listed.__getitem__, listed) if "manifest-list" in s}
        suspects = {p for p in self._snapshots.tree.paths(listed) | needed if normalise(p) not in present}
        missing = {p for p in sorted(suspects) if not self._store.exists(p)}
        if not missing:
            return ()
        users = self._snapshots.tree.snapshots_with(listed, missing)
        for id in listed:
            manifest_list = self._first_listed[id].get("manifest-list")
            if manifest_list in missing:
                users.setdefault(manifest_list, []).append(id)
        return tuple(MissingFile(self._relative(p), tuple(ids)) for p, ids in sorted(users.items()))


def _identity(s: Snapshot) -> tuple[Any, ...]:
    """The fields of a snapshot that must never change."""
    return s.get("parent-snapshot-id"), s.get("sequence-number") or 0, s.get("manifest-list"), s.get("timestamp-ms")
