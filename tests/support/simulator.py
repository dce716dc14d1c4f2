"""An ideal Iceberg, and processes that work on it: what a real run leaves (history, table logs), without Spark and in milliseconds.

The checkers are tested against it, so it shares nothing with them: it has its own idea of files, scans, validation and commits, and takes
only the operations' meanings from ``workloads.operations.kind``. Everything follows from the seed.

**Scheduling.** Every process is a generator that yields wherever another may run: after the invocation, after the scan, before each try to
commit, before the acknowledgement. A seeded scheduler picks who goes on, so operations overlap in every way, a nanosecond or more a step.

**Commits.** An operation scans a snapshot, works out its meaning there, and commits on whatever is current then, if the table's level
allows it. Serializable: its meaning at the base must be the same. Snapshot: the rows it removes must still be there, where they were;
a DELETE may find that another DELETE had them (``RowDelta.validateNoConflictingDeleteFiles``). INSERT … SELECT and MERGE with only an
insert clause validate nothing; a metadata DELETE, an INSERT OVERWRITE and an equality delete take their meaning at the base. Who is refused
fails with a ValidationException.

**Engines.** Each writer is one engine's (``workloads.engines``), and its operations are validated as that engine promises: at its own level
or the table's. Snapshots of an engine that does not name its operations do not either; proxies may have seen the requests that carried them.

**Defects** (:class:`Defects`) break one rule at a time, so that a checker can be asked to name just that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, EventType, History, Process
from checkers.evidence.proxylog import AcceptedChange, Carried
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, RowChange, TableLog
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from workloads.ddl import table_properties
from workloads.engines.engine import Engine
from workloads.engines.engines import ENGINES, SPARK
from workloads.operations.keys import Keys, part_of
from workloads.operations.kind import Arguments, Draw, Kind
from workloads.operations.kinds import KINDS
from workloads.tables import COLUMNS, DELTA, Row, State, TableSpec

Place = tuple[str, int]
"""Data file and position in it."""
Contents = Mapping[Place, Row]
"""The rows of a snapshot, by where they are."""
Steps = Generator[None, None, Any]

WALL_MS = 1_700_000_000_000
"""The wall clock at time 0 of a run."""
ONE_MINUTE = 60_000
"""What clocks may differ by, in ms."""

MIX: Mapping[str, float] = {
    "insert": 5,
    "insert-select": 2,
    "update-register": 6,
    "update-counter": 6,
    "update-append": 6,
    "update-register-where": 1,
    "update-counter-where": 2,
    "update-append-where": 1,
    "delete": 5,
    "delete-where": 1,
    "delete-partition": 1,
    "overwrite-partitions": 0.5,
    "overwrite-where": 0.5,
    "merge-upsert": 6,
    "merge-insert": 3,
    "merge-update": 3,
    "merge-delete": 3,
    "read": 6,
    "read-key": 6,
    "read-snapshot": 2,
    "rewrite-data-files": 2,
    "rewrite-position-delete-files": 1,
    "rewrite-manifests": 1,
    "expire-snapshots": 1,
}
"""Every kind of Spark's statements that changes rows or files, most of them on hot keys."""
WITH_EQUALITY: Mapping[str, float] = {**MIX, "equality-delete": 3, "equality-upsert": 3}
"""These, and equality deletes."""
ROW_BY_ROW: Mapping[str, float] = {f: weight for f, weight in MIX.items() if KINDS[f].verb != "overwrite"}
"""Without what takes many rows away before anybody sees them."""
UPSERTING: Mapping[str, float] = {
    "insert": 4,
    "update-counter": 4,
    "delete": 3,
    "equality-delete": 6,
    "equality-upsert": 6,
    "rewrite-data-files": 8,
    "read": 4,
}
"""Mostly equality deletes, and compactions beside them."""
ALTERING: Mapping[str, float] = {**MIX, "add-column": 2, "widen-column": 2, "set-property": 3, "upgrade": 1}
"""These, and changes of the metadata."""
RESHAPING: Mapping[str, float] = {**ALTERING, "add-column": 4, "rename-column": 2, "drop-column": 2}
"""These, and columns that go or get another name."""

OF_DELTA: Mapping[str, float] = {
    **{f: weight for f, weight in MIX.items() if DELTA in KINDS[f].formats},
    "replace-where": 1,
    "restore": 2,
    "stream-append": 3,
    "optimize": 2,
    "reorg-purge": 1,
    "vacuum": 1,
    "delta-add-column": 1,
    "delta-rename-column": 1,
    "delta-drop-column": 1,
    "delta-set-property": 1,
    "read-changes": 3,
}
"""Every kind of Delta's statements."""


OF_DELTA_ALONE = ("wrong_restore",)
"""Defects of kinds that Iceberg's tables do not have (``OF_DELTA``); ``test_restore`` holds that they are found."""


@dataclass(frozen=True)
class Defects:
    """How often (0 … 1) a rule is broken where it could be; none by default."""

    lose: float = 0.0
    """A commit is made on its base's parent: the base is no longer main's."""
    forget: float = 0.0
    """An operation is acknowledged that never committed."""
    early: float = 0.0
    """An operation is acknowledged before it commits."""
    answered: bool = False
    """A forgotten operation's commit was sent, and the catalog accepted it."""
    double: float = 0.0
    """A commit is applied twice."""
    false_failure: float = 0.0
    """A commit that took effect is reported as failed."""
    undelete: float = 0.0
    """A DELETE is not refused although a row it scanned has been changed."""
    overwrite: float = 0.0
    """An UPDATE or MERGE is not refused although its rows have been changed: it puts its own in their place, and theirs beside it."""
    skew: float = 0.0
    """A serializable table validates as under snapshot isolation."""
    stale_overwrite: float = 0.0
    """A DELETE of a whole partition, an INSERT OVERWRITE or an equality delete takes the rows that there were at its start, not those that
    are there."""
    lose_equality: float = 0.0
    """A compaction drops an equality delete that came while it ran: the rows are back (apache/iceberg#10312)."""
    younger: float = 0.0
    """An equality delete also takes rows that the next INSERT adds."""
    blind: float = 0.0
    """Blind appends draw shared keys."""
    resurrect: float = 0.0
    """A compaction writes rows back that were removed after it had scanned them."""
    drop_rows: float = 0.0
    """A compaction leaves a row out."""
    stale_read: float = 0.0
    """A read sees an older snapshot than the current one."""
    dirty_read: float = 0.0
    """A read sees rows of an operation that then fails."""
    fractured_read: float = 0.0
    """A read sees some rows of one snapshot and some of another."""
    lose_change: float = 0.0
    """A change of schema, property or format version is made on the metadata of before, and those that came between are gone."""
    wrong_travel: float = 0.0
    """Time travel reads another snapshot than it asked for."""
    stale_travel: float = 0.0
    """Time travel asks an older version of the history than the current one."""
    wrong_restore: float = 0.0
    """A RESTORE brings back another version than it says."""
    idle: float = 0.0
    """A procedure answers that it replaced files, and did nothing."""
    miscount: float = 0.0
    """A procedure answers with more than it did."""


CLEAN = Defects()


@dataclass(frozen=True)
class Simulation:
    """What a run left, as the harness would have saved it, and which defects showed (name, operation)."""

    history: History
    logs: dict[str, TableLog]
    tables: dict[str, TableSpec]
    injected: tuple[tuple[str, str], ...] = ()
    carried: dict[str, tuple[Carried, ...]] | None = None
    """What proxies saw; None without proxies."""
    accepted: dict[str, tuple[AcceptedChange, ...]] = field(default_factory=dict)

    def evidence(self) -> Evidence:
        """For a checker."""
        return Evidence(
            self.history,
            self.logs,
            self.tables,
            accepted=self.accepted,
            carried=self.carried or {},
            proxied=self.carried is not None,
        )


class Refused(Exception):
    """A commit that validation refuses."""


class Table:
    """One ideal table: snapshots, their contents, and the metadata versions that showed them."""

    def __init__(self, spec: TableSpec, rng: Random, overwrites: bool = False) -> None:
        self.spec = spec
        self.current: int | None = None
        self.commits: dict[int, Commit] = {}
        self.contents: dict[int | None, Contents] = {None: {}}
        self.files: dict[int | None, dict[str, FileEntry]] = {None: {}}
        """Live data files."""
        self.vectors: dict[int | None, dict[str, FileEntry]] = {None: {}}
        """Deletion vectors by their data file (version 3)."""
        self.totals: dict[int | None, Counter[str]] = {None: Counter()}
        """Metrics of all live files."""
        self.next_row_id = 0 if spec.format_version == 3 else None
        self.overwritten = overwrites and rng.random() < 0.3
        """Whether a table without partitions is overwritten as a whole now and then."""
        self.raw = _first_raw(spec)
        """What the next version says of schemas, specs and properties."""
        self.format_version: int = spec.format_version
        self.metadata: list[Metadata] = []
        self.listed: list[int] = []
        self.deleted: set[Place] = set()
        """Places whose row a DELETE took, as opposed to an update, or a compaction that put it elsewhere."""
        self.by_equality: set[Place] = set()
        """Those that an equality delete took: a compaction that began before goes on without them."""
        self.just_deleted: dict[int | None, Sequence[int]] = {}
        """Snapshot → the ids that its equality deletes name."""
        self.partitioned = spec.partitioned
        """Whether new files belong to a partition."""
        self.refs: dict[str, int] = {}
        """Branches and tags other than main."""
        self.server: Callable[[], int] | None = None
        """The clock of the catalog's server, if that stamps the versions; None: who commits does."""
        self.watch: Callable[[Metadata, Metadata], None] = lambda before, after: None
        """Called with each version that replaces another one."""
        self._rng = rng
        self._names = 0
        self._sequence = 0
        self._version(WALL_MS)

    def state(self, snapshot: int | None) -> State:
        """A snapshot's rows."""
        return State(self.contents[snapshot].values())

    def ancestry(self) -> list[int]:
        """Main's snapshots that are still listed, newest first."""
        out: list[int] = []
        at = self.current
        while at is not None and at in self.listed:
            out.append(at)
            at = self.commits[at].parent_id
        return out

    def history(self) -> list[int]:
        """What ``{table}.history`` says of main's snapshots, newest first by its times. One that a rollback went back to comes twice."""
        line = set(self.ancestry())
        log = sorted(self.metadata[-1].raw["snapshot-log"], key=lambda e: -e["timestamp-ms"])
        return [e["snapshot-id"] for e in log if e["snapshot-id"] in line]

    def is_ancestor(self, snapshot: int | None) -> bool:
        """Whether main still has a snapshot."""
        at = self.current
        while at is not None and at != snapshot:
            at = self.commits[at].parent_id
        return at == snapshot

    def expire(self, keep: int, now_ms: int) -> None:
        """List only the last ``keep`` snapshots of main."""
        self.admit(now_ms)
        kept = set(self.ancestry()[: max(1, keep)]).union(self.refs.values())
        self.listed = [s for s in self.listed if s in kept]
        self._version(now_ms)

    def set_main(self, snapshot: int, now_ms: int) -> None:
        """Put main at a snapshot that the table lists."""
        self.admit(now_ms)
        self.current = snapshot
        self._version(now_ms)

    def admit(self, now_ms: int, *, adds: bool = False) -> None:
        """Hold a commit's clock against those of the commits before, as ``TableMetadata`` does.

        Args:
            adds: whether the commit adds a snapshot, which has the time of its maker's clock, whoever stamps the version.

        Raises:
            Refused: it is behind by more than a minute.
        """
        last = self.metadata[-1]
        stamped = now_ms if self.server is None else self.server()
        became = max((e["timestamp-ms"] for e in last.raw["snapshot-log"][-1:]), default=0)
        if stamped < max(last.last_updated_ms, became) - ONE_MINUTE or (adds and now_ms < became - ONE_MINUTE):
            raise Refused("Invalid timestamp: before the last entry of a log")
        if adds and stamped < now_ms - ONE_MINUTE:
            raise Refused("Invalid update timestamp: before the last snapshot log entry")

    def alter(self, op: str, f: str, value: Arguments, now_ms: int) -> None:
        """Change the metadata.

        Raises:
            Refused: there is no such column, or one already; or there is such a tag.
        """
        f = f.removeprefix("delta-")
        schemas = self.raw["schemas"]
        fields = next(s["fields"] for s in schemas if s["schema-id"] == self.raw["current-schema-id"])
        names = [x["name"] for x in fields]
        self.admit(now_ms)
        if f == "upgrade":
            self.format_version = 3
            self.next_row_id = self.next_row_id or 0
        elif f == "set-property":
            self.raw["properties"] = {**self.raw["properties"], value["property"]: op}
        elif f == "create-tag":
            main = self.ancestry()
            if value["tag"] in self.refs or not main:
                raise Refused("the tag is there already, or main has no snapshot")
            self.refs = {**self.refs, value["tag"]: main[min(value["back"], len(main) - 1)]}
        elif f == "drop-tag":
            if value["tag"] not in self.refs:
                return  # IF EXISTS: there is nothing to commit
            self.refs = {name: s for name, s in self.refs.items() if name != value["tag"]}
        elif (value["column"] in names) == (f == "add-column") or value.get("to") in names:
            raise Refused("the column is there already, or is not")
        else:
            if f == "add-column":
                self.raw["last-column-id"] += 1
                new = {"id": self.raw["last-column-id"], "name": value["column"], "type": "int", "doc": op}
                fields = [*fields, {**new, "required": False}]
            elif f == "drop-column":
                fields = [x for x in fields if x["name"] != value["column"]]
            else:
                new = {"name": value["to"]} if f == "rename-column" else {"type": "long"}
                fields = [{**x, **new} if x["name"] == value["column"] else x for x in fields]
            n = len(schemas)
            self.raw["schemas"] = [*schemas, {"type": "struct", "schema-id": n, "fields": fields}]
            self.raw["current-schema-id"] = n
        self._version(now_ms)

    def commit(
        self,
        *,
        op: str,
        parent: int | None,
        remove: Sequence[Place],
        add: Iterable[tuple[Row, Place | None]],
        now_ms: int,
        attempt: int,
        copy_on_write: bool,
        operation: str,
        equality: Sequence[int] = (),
        staged: bool = False,
        picks: Commit | None = None,
    ) -> Commit:
        """Make a snapshot and make it current.

        Args:
            remove: rows to take out of the parent.
            add: rows to put in, and where each was before when it is only carried over.
            copy_on_write: rewrite the files of removed rows, instead of writing a delete file.
            equality: ids whose rows equality delete files remove; then there are no other deletes.
            staged: list it, and leave main where it is (``write.wap.enabled``).
            picks: the staged snapshot whose files it puts on main (``cherrypick_snapshot``).

        Raises:
            Refused: the clock of its maker is behind.
        """
        self.admit(now_ms, adds=True)
        before = dict(self.contents[parent])
        files, vectors = dict(self.files[parent]), dict(self.vectors[parent])
        self._sequence += 1
        sequence = self._sequence
        snapshot = self._rng.randrange(1, 2**63)
        first_row_id = self.next_row_id
        incoming = list(add)
        taken = [(p, before.pop(p)) for p in remove]
        added_files: list[FileEntry] = []
        removed_files: list[FileEntry] = []
        hidden_by: dict[str, str] = {}
        if equality:
            # A delete applies to files of its spec and partition only, so after a change of the spec there is one for each.
            at = {place[0]: (files[place[0]].spec_id, files[place[0]].partition.get("part", 0)) for place, _ in taken}
            homes: dict[tuple[int, int], set[int]] = {}
            for place, row in taken:
                homes.setdefault(at[place[0]], set()).add(row.id)
            for i in {*equality} - {row.id for _, row in taken}:
                here = part_of(i, self.spec) if self.partitioned else 0
                homes.setdefault((self.raw["default-spec-id"], here), set()).add(i)
            names = {home: self._name("equality.parquet", home[1]) for home in sorted(homes)}
            for (spec_id, part), path in names.items():
                entry = self._entry(path, "equality-deletes", len(homes[spec_id, part]), part, sequence, snapshot)
                of = next((files[p].partition for p, home in at.items() if home == (spec_id, part)), entry.partition)
                added_files.append(replace(entry, spec_id=spec_id, partition=of))
            hidden_by = {path: names[home] for path, home in at.items()}
        elif copy_on_write:
            for path in sorted({f for f, _ in remove}):
                incoming += [(before.pop(p), p) for p in sorted(before) if p[0] == path]
                removed_files.append(files.pop(path))
                if path in vectors:
                    removed_files.append(vectors.pop(path))
        elif taken and self.format_version == 3:
            puffin = self._name("deletes.puffin")
            hit = sorted(Counter(f for f, _ in remove).items())
            for n, (path, gone) in enumerate(hit):
                old = vectors.get(path)
                removed_files += [] if old is None else [old]
                records = gone + (0 if old is None else old.records)
                vector = self._entry(puffin, "deletion-vector", records, taken[0][1].part, sequence, snapshot)
                at = files[path].partition
                spec_id, size = files[path].spec_id, 40 * len(hit) + 400
                vectors[path] = replace(
                    vector,
                    referenced=path,
                    partition=at,
                    spec_id=spec_id,
                    offset=4 + 40 * n,
                    length=40,
                    size=size,
                )
                added_files.append(vectors[path])
                hidden_by[path] = puffin
        elif taken:
            for path, gone in sorted(Counter(f for f, _ in remove).items()):
                hidden_by[path] = self._name("deletes.parquet")
                entry = self._entry(hidden_by[path], "position-deletes", gone, taken[0][1].part, sequence, snapshot)
                file = files[path]
                added_files.append(replace(entry, referenced=path, partition=file.partition, spec_id=file.spec_id))
        changes: list[tuple[Row, Place, Place | None]] = []
        by_part: dict[int, list[tuple[Row, Place | None]]] = {}
        for row, came_from in incoming:
            by_part.setdefault(row.part if self.partitioned else 0, []).append((row, came_from))
        for n, (part, rows) in enumerate(sorted(by_part.items())):
            path = self._name("parquet", part) if picks is None else picks.added_files[n].path
            entry = self._entry(path, "data", len(rows), part, sequence, snapshot)
            if operation == "replace":  # use-starting-sequence-number
                entry = replace(entry, data_sequence_number=max(1, sequence - 1))
            if self.next_row_id is not None:
                entry = replace(entry, first_row_id=self.next_row_id)
                self.next_row_id += len(rows)
            files[path] = entry
            added_files.append(entry)
            for at_row, (row, came_from) in enumerate(rows):
                before[(path, at_row)] = row
                changes.append((row, (path, at_row), came_from))
        added, removed = self._net(changes, taken, hidden_by)
        plus, minus = _measures(added_files), _measures(removed_files)
        totals = self.totals[parent] + plus  # not yet without what is removed: a Counter forgets what is not positive
        totals.subtract(minus)
        c = Commit(
            snapshot_id=snapshot,
            parent_id=parent,
            sequence_number=sequence,
            timestamp_ms=now_ms,
            operation=_operation(operation, plus, minus),
            summary={"icequake-op": op, **({"wap.id": op} if staged else {})} | _summary(plus, minus, totals),
            op=op,
            attempt=attempt,
            manifest_list=f"metadata/snap-{snapshot}-{attempt}-x.avro",
            schema_id=0,
            metadata=len(self.metadata),
            added=added,
            removed=removed,
            added_files=tuple(added_files),
            removed_files=tuple(removed_files),
            first_row_id=first_row_id,
            added_rows=None if self.next_row_id is None else self.next_row_id - (first_row_id or 0),
        )
        self.commits[snapshot] = c
        self.contents[snapshot] = before
        self.files[snapshot], self.vectors[snapshot] = files, vectors
        self.totals[snapshot] = totals
        self.listed.append(snapshot)
        self.current = self.current if staged else snapshot
        self._version(now_ms)
        return c

    def _net(
        self, changes: list[tuple[Row, Place, Place | None]], taken: list[tuple[Place, Row]], by: Mapping[str, str]
    ) -> tuple[tuple[RowChange, ...], tuple[RowChange, ...]]:
        """Rows that came and went; a row that went in one file and came, equal, in another did neither."""
        plus = Counter(row for row, _, came_from in changes if came_from is None)
        minus = Counter(row for _, row in taken)
        both = plus & minus
        skip_plus, skip_minus = Counter(both), Counter(both)
        added, removed = [], []
        for row, (file, pos), came_from in changes:
            if came_from is not None:
                continue
            if skip_plus[row] > 0:
                skip_plus[row] -= 1
                continue
            added.append(RowChange(tuple(row), file, pos))
        for (file, pos), row in taken:
            if skip_minus[row] > 0:
                skip_minus[row] -= 1
                continue
            removed.append(RowChange(tuple(row), file, pos, by.get(file)))
        return tuple(added), tuple(removed)

    def _name(self, ending: str, part: int | None = None) -> str:
        self._names += 1
        folder = f"part={part}/" if part is not None and self.partitioned else ""
        return f"data/{folder}{self._names:05d}.{ending}"

    def _entry(self, path: str, content: Any, records: int, part: int, sequence: int, snapshot: int) -> FileEntry:
        return FileEntry(
            path=path,
            content=content,
            format="puffin" if content == "deletion-vector" else "parquet",
            records=records,
            size=100 * records + 400,
            partition={"part": part} if self.partitioned else {},
            spec_id=self.raw["default-spec-id"],
            data_sequence_number=sequence,
            file_sequence_number=sequence,
            snapshot_id=snapshot,
        )

    def _version(self, now_ms: int) -> None:
        n = len(self.metadata)
        last = self.metadata[-1] if self.metadata else None
        # Of a snapshot that just came, the log has its own time.
        new = None if last is None or self.current in last.snapshots else self.commits.get(self.current or 0)
        stamp = now_ms if self.server is None else self.server()
        self.metadata.append(
            Metadata(
                n=n,
                location=f"s3://warehouse/{self.spec.name}/metadata/{n:05d}.metadata.json",
                last_updated_ms=stamp,
                format_version=self.format_version,
                current=self.current,
                snapshots=tuple(self.listed),
                refs=self.refs if self.current is None else {"main": self.current, **self.refs},
                last_sequence_number=self._sequence,
                next_row_id=self.next_row_id,
                raw=dict(self.raw) if last is None else self._raw(last, stamp if new is None else new.timestamp_ms),
            )
        )
        if last is not None:
            self.watch(last, self.metadata[-1])

    def _raw(self, last: Metadata, moved_ms: int) -> dict[str, Any]:
        """What a version says that the log keeps as it is: like the version before it, but for the logs; ``moved_ms``: when main moved."""
        previous = {"timestamp-ms": last.last_updated_ms, "metadata-file": last.location}
        snapshots = last.raw["snapshot-log"]
        gone = set(last.snapshots).difference(self.listed)
        expired = [n for n, entry in enumerate(snapshots) if entry["snapshot-id"] in gone]
        if expired:  # what was before the last expired one goes too
            snapshots = snapshots[expired[-1] + 1 :]
        if last.current != self.current:
            snapshots = [*snapshots, {"timestamp-ms": moved_ms, "snapshot-id": self.current}]
        return {**self.raw, "metadata-log": [*last.raw["metadata-log"], previous], "snapshot-log": snapshots}

    def log(self, captures: Sequence[Capture]) -> TableLog:
        """The table's log, read to its end."""
        return TableLog(
            self.spec.name,
            f"c.sim.{self.spec.name}",
            f"s3://warehouse/{self.spec.name}",
            COLUMNS,
            tuple(self.metadata),
            tuple(self.commits.values()),
            tuple(captures),
            True,
        )


def _first_raw(spec: TableSpec) -> dict[str, Any]:
    """The rest of a new table's metadata.json."""
    types = {"id": "long", "val": "string", "cnt": "long", "log": "string", "part": "int"}
    fields = [{"id": n, "name": c, "required": False, "type": types[c]} for n, c in enumerate(COLUMNS, 1)]
    part = [{"name": "part", "transform": "identity", "source-id": 5, "field-id": 1000}] if spec.partitioned else []
    return {
        "table-uuid": f"00000000-0000-4000-8000-{sum(map(ord, spec.name)):012d}",
        "location": f"s3://warehouse/{spec.name}",
        "last-column-id": len(COLUMNS),
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": part}],
        "last-partition-id": 1000 if part else 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "root", **{k: v for k, v in table_properties(spec).items() if k != "format-version"}},
        "snapshot-log": [],
        "metadata-log": [],
    }


def _measures(files: Iterable[FileEntry]) -> Counter[str]:
    """What a summary counts of files, by the words of its metrics."""
    out: Counter[str] = Counter()
    for f in files:
        out["files-size"] += f.length if f.content == "deletion-vector" and f.length is not None else f.size
        if f.content == "data":
            out += Counter({"data-files": 1, "records": f.records})
        else:
            kinds = {"deletion-vector": "dvs", "equality-deletes": "equality-delete-files"}
            deletes = "equality-deletes" if f.content == "equality-deletes" else "position-deletes"
            out += Counter({"delete-files": 1, kinds.get(f.content, "position-delete-files"): 1, deletes: f.records})
    return out


def _summary(plus: Counter[str], minus: Counter[str], totals: Counter[str]) -> dict[str, str]:
    """A summary's metrics; of what was added and removed only those that are not 0, as Iceberg writes them."""
    gone = {"data-files": "deleted-data-files", "records": "deleted-records"}
    whole = ("data-files", "delete-files", "records", "files-size", "position-deletes", "equality-deletes")
    return {
        **{f"added-{k}": str(n) for k, n in plus.items() if n},
        **{gone.get(k, f"removed-{k}"): str(n) for k, n in minus.items() if n},
        **{f"total-{k}": str(totals[k]) for k in whole},
    }


def _operation(meant: str, plus: Counter[str], minus: Counter[str]) -> str:
    """A snapshot's ``operation``: by its files (``SnapshotProducer``), where it changes any."""
    if meant == "replace" or not (plus or minus):
        return meant
    if not minus["data-files"] and not plus["delete-files"]:
        return "append"
    return "overwrite" if plus["data-files"] else "delete"


@dataclass
class Run:
    """One simulated run."""

    rng: Random
    specs: Sequence[TableSpec]
    keys: int
    mix: Mapping[str, float]
    unknown: float
    spurious: float
    defects: Defects
    tables: dict[str, Table] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    captures: dict[str, list[Capture]] = field(default_factory=dict)
    late: list[Steps] = field(default_factory=list)
    injected: list[tuple[str, str]] = field(default_factory=list)
    engines: Sequence[str] = ()
    """Each writer's engine; none: all are Spark's."""
    faulty: str | None = None
    """The engine whose operations break rules; None: any."""
    by: dict[str, str] = field(default_factory=dict)
    """Operation → engine."""
    made_by: dict[int, str] = field(default_factory=dict)
    """Snapshot → operation."""
    accepted: list[tuple[str, AcceptedChange]] = field(default_factory=list)
    """Tables and the requests that the catalog accepted of them."""
    doomed: dict[str, list[Sequence[Row]]] = field(default_factory=dict)
    """Table → rows of operations that scanned and will fail: what a dirty read may see."""
    captured: float = 0.05
    """Share of operations after which the follower reads the table log."""
    time: int = 0

    def __post_init__(self) -> None:
        overwrites = any(KINDS[f].verb == "overwrite" for f in self.mix)
        self.tables = {s.name: Table(s, self.rng, overwrites) for s in self.specs}
        self.captures = {s.name: [] for s in self.specs}

    # --- time and the record

    def tick(self) -> int:
        """Let some time pass; the time now, ns."""
        self.time += self.rng.randrange(1, 2_000_000)
        return self.time

    def wall_ms(self, op: str) -> int:
        """The wall clock of the host that executes an operation, at its commit."""
        return WALL_MS + self.time // 1_000_000

    def chance(self, p: float) -> bool:
        """True with probability ``p``; draws nothing when it is 0, so that a defect does not change the rest of a run."""
        return p > 0 and self.rng.random() < p

    def record(
        self, type: EventType, process: Process, f: str, table: str, value: Any, op: str, error: Any = None
    ) -> None:
        """Append an event."""
        extra = {"engine": self.engine(op).name} if type == "invoke" and self.engine(op).name != SPARK else {}
        self.events.append(Event(len(self.events), self.tick(), type, process, f, table, value, op, error, extra))

    def engine(self, op: str) -> Engine:
        """The engine that executes an operation."""
        return ENGINES[self.by.get(op, SPARK)]

    def level(self, op: str, kind: Kind, table: Table) -> str:
        """The level at which an operation is validated."""
        return self.engine(op).promise(kind.name, table.spec).level or table.spec.isolation

    def breaks(self, op: str, p: float) -> bool:
        """Whether an operation breaks a rule now."""
        return self.faulty in (None, self.engine(op).name) and self.chance(p)

    def capture(self, name: str) -> None:
        """The follower reads the table log to the pointer."""
        self.captures[name].append(Capture(self.tick(), self.tables[name].metadata[-1].location))

    # --- processes

    def client(self, writer: int, writers: int, ops: int) -> Steps:
        """One writer: its operations one after the other; after one of unknown outcome it goes on as a new process."""
        process = writer
        kinds, weights = list(self.mix), list(self.mix.values())
        for n in range(ops):
            f = self.rng.choices(kinds, weights)[0]
            table = self.tables[self.rng.choice([s.name for s in self.specs])]
            kind = KINDS[f]
            # Whole-table overwrites take own keys, too: a table has either these or what is only safe on own keys.
            if not table.spec.partitioned and table.spec.isolation == "serializable":
                if kind.verb == "overwrite" and not table.overwritten:
                    kind = KINDS["insert"]
                elif kind.blind_append and table.overwritten and not self.defects.blind:
                    kind = KINDS["overwrite-where"] if self.rng.random() < 0.2 else KINDS["insert"]
            op = f"w{writer}-{n}"
            if self.engines:
                self.by[op] = self.engines[writer]
                if not self.engine(op).can(kind.name, table.spec):
                    able = [k for k in kinds if self.engine(op).can(k, table.spec)]
                    kind = KINDS[self.rng.choice(able or ["read"])]
            blind = self.engine(op).promise(kind.name, table.spec).blind_append
            own = blind and table.spec.isolation == "serializable" and not self.chance(self.defects.blind)
            # Own keys of the process, not of the writer: an operation of unknown outcome may still be under way.
            others = tuple(name for name in self.tables if name != table.spec.name)
            options = {"back": 4, "retain_last": 3}
            draw = Draw(self.rng, Keys(self.keys), process, table.spec, own, options, others)
            last = n == ops - 1
            if (yield from self.operation(process, op, kind, table, kind.arguments(draw), last=last)) == "info":
                process += writers
            if self.chance(self.captured):
                self.capture(table.spec.name)
            yield

    def seed(self, table: Table) -> None:
        """The inserts before everything else, as the harness makes them."""
        value = {"ids": list(range(table.spec.seed_rows))}
        for _ in self.operation(1000, f"seed-{table.spec.name}", KINDS["insert"], table, value, certain=True):
            pass

    def final_reads(self, process: int) -> Steps:
        """Every table, whole."""
        for table in self.tables.values():
            op = f"final-{process}-{table.spec.name}"
            yield from self.operation(process, op, KINDS["read"], table, {}, certain=True)

    def operation(
        self,
        process: int,
        op: str,
        kind: Kind,
        table: Table,
        value: Arguments,
        *,
        certain: bool = False,
        last: bool = False,
    ) -> Steps:
        """One operation from invocation to completion; returns the completion's type. The ``last`` may never complete."""
        self.record("invoke", process, kind.name, table.spec.name, value, op)
        yield
        if not kind.commits:
            if not certain and self.chance(self.spurious / 2):
                return self._complete("fail", process, kind, table, op, error=[["java.io.IOException", "read"]])
            result = yield from self.read(op, kind, table, value)
            if result is None:
                error = [["org.apache.spark.sql.AnalysisException", "no snapshot to travel to"]]
                return self._complete("fail", process, kind, table, op, error=error)
            return self._complete("ok", process, kind, table, op, result)
        if not certain and self.chance(self.unknown):
            fate = self.rng.choice(["never", "before", "after"])
            if fate == "before":
                try:
                    yield from self.write(op, kind, table, value)
                except Refused:
                    pass
            elif fate == "after":
                self.late.append(self._late(op, kind, table, value))
            if last:
                return "info"
            return self._complete("info", process, kind, table, op, error=[["icequake.WriterTimeout", "no answer"]])
        if not certain and self.chance(self.spurious):
            scanned = table.current
            rows = kind.writeset(table.state(scanned), value, op, table.spec).added
            self.doomed.setdefault(table.spec.name, []).append(rows)
            yield
            yield
            self.doomed[table.spec.name].remove(rows)
            return self._complete(
                "fail", process, kind, table, op, error=[["org.apache.spark.SparkException", "Job aborted"]]
            )
        if kind.changes_rows and not certain and self.breaks(op, self.defects.forget):
            want = kind.writeset(table.state(table.current), value, op, table.spec)
            yield
            if want.removed or want.added:
                self.injected.append(("forget", op))
                if self.defects.answered:
                    self.sent(op, table, self.rng.randrange(1, 2**63))
            return self._complete("ok", process, kind, table, op, [])
        done = {"rewrite-data-files": [[4, 1, 5996, 0, 0]], "rewrite-manifests": [[7, 1]]}.get(kind.name)
        if done is not None and self.chance(self.defects.idle):
            yield
            self.injected.append(("idle", op))
            return self._complete("ok", process, kind, table, op, done)
        if kind.name == "insert" and not certain and self.chance(self.defects.early):
            self.late.append(self._late(op, kind, table, value))
            self.injected.append(("early", op))
            return self._complete("ok", process, kind, table, op, [])
        try:
            made = yield from self.write(op, kind, table, value)
        except Refused as e:
            error = [["org.apache.iceberg.exceptions.ValidationException", str(e)]]
            return self._complete("fail", process, kind, table, op, error=error)
        yield
        if made is True and not certain and self.chance(self.defects.false_failure):
            self.injected.append(("false_failure", op))
            error = [["org.apache.iceberg.exceptions.CommitFailedException", "conflict"]]
            return self._complete("fail", process, kind, table, op, error=error)
        answer = made if isinstance(made, dict | str) else self._answer(op, kind, table, made)
        return self._complete("ok", process, kind, table, op, answer)

    def _answer(self, op: str, kind: Kind, table: Table, made: Any) -> list[list[int]]:
        """What a procedure says of itself: one row, as Iceberg's procedures do; nothing for other operations."""
        commits = [c for c in table.commits.values() if c.op == op]
        gone = [f for c in commits for f in c.removed_files if f.content == "data"]
        came = [f for c in commits for f in c.added_files if f.content == "data"]
        rows = {
            "rewrite-data-files": [len(gone), len(came), sum(f.size for f in gone), 0, 0],
            "rewrite-position-delete-files": [0, 0, 0, 0],
            "rewrite-manifests": [2 * len(commits), len(commits)],
            "expire-snapshots": [0, 0, 0, 0, made if kind.name == "expire-snapshots" else 0, 0],
        }
        if kind.name not in rows:
            return []
        row = rows[kind.name]
        more = {"rewrite-data-files": 1, "expire-snapshots": 4}.get(kind.name)
        if more is not None and self.chance(self.defects.miscount) and (commits or not kind.writes):
            row[more] += 1000
            self.injected.append(("miscount", op))
        return [row]

    def _late(self, op: str, kind: Kind, table: Table, value: Arguments) -> Steps:
        """A request that takes effect after its client gave up."""
        for _ in range(self.rng.randrange(12)):
            yield
        try:
            yield from self.write(op, kind, table, value)
        except Refused:
            pass

    def _complete(
        self, type: EventType, process: int, kind: Kind, table: Table, op: str, value: Any = None, *, error: Any = None
    ) -> EventType:
        self.record(type, process, kind.name, table.spec.name, value, op, error)
        return type

    # --- reads

    def read(self, op: str, kind: Kind, table: Table, value: Arguments) -> Steps:
        """A read: its rows, in an order of its own; None for time travel in a table that has no snapshot."""
        snapshot = table.current
        yield
        if kind.travels:
            line = table.history()
            if not line:
                return None
            if self.chance(self.defects.stale_travel):
                line = line[min(self.rng.randrange(1, 6), len(line) - 1) :]
            asked = line[min(value["back"], len(line) - 1)]
            seen = asked
            if self.chance(self.defects.wrong_travel):
                seen = self.rng.choice(line)
                if table.state(seen) != table.state(asked):
                    self.injected.append(("wrong_travel", op))
            return {"snapshot": asked, "rows": self._shuffled(table.contents[seen].values())}

        def rows_of(s: int | None) -> list[Row]:
            expected = kind.expected(table.state(s), value)
            assert expected is not None
            return expected

        rows = rows_of(snapshot)
        line = table.ancestry()
        if self.chance(self.defects.stale_read) and len(line) > 1:
            rows = rows_of(line[min(self.rng.randrange(1, 6), len(line) - 1)])
        elif self.chance(self.defects.dirty_read) and self.doomed.get(table.spec.name):
            more = [r for r in self.doomed[table.spec.name][0] if "id" not in value or r.id == value["id"]]
            rows = rows + more
            if more:
                self.injected.append(("dirty_read", op))
        elif self.chance(self.defects.fractured_read) and len(line) > 3:
            new, old = rows_of(line[0]), rows_of(line[3])
            mixed = [r for r in new if r.id % 2] + [r for r in old if not r.id % 2]
            if all(sorted(mixed) != rows_of(s) for s in table.contents):
                rows = mixed
                self.injected.append(("fractured_read", op))
        return self._shuffled(rows)

    def _shuffled(self, rows: Iterable[Row]) -> list[list[Any]]:
        out = [list(r) for r in rows]
        self.rng.shuffle(out)
        return out

    # --- writes

    def write(self, op: str, kind: Kind, table: Table, value: Arguments) -> Steps:
        """Scan and commit; returns whether a snapshot was made, of a rollback its result.

        Raises:
            Refused: validation refused it.
        """
        if "snapshot" in kind.takes_away:
            yield
            listed = len(table.listed)
            if table.current is not None:
                table.expire(value["retain_last"], self.wall_ms(op))
            return listed - len(table.listed)
        if kind.sets_back:
            line = list(dict.fromkeys(table.history()))
            if not line:
                raise Refused("no snapshot to go back to")
            target = line[min(value["back"], len(line) - 1)]
            yield
            if not table.is_ancestor(target) or target not in table.listed:
                raise Refused("Cannot roll back to snapshot, not an ancestor of the current state")
            previous = table.current
            if previous != target:
                table.set_main(target, self.wall_ms(op))
            return {"snapshot": target, "rows": [[previous, target]]}
        if kind.restores:
            return (yield from self._restore(op, kind, table, value))
        if kind.verb == "alter":
            before = table.metadata[-1]
            yield
            last = table.metadata[-1]
            if last is not before and before.raw is not last.raw and self.chance(self.defects.lose_change):
                gone = {k for k in ("schemas", "properties") if before.raw[k] != last.raw[k]}
                self.injected += [("lose_change", op)] if gone else []
                table.raw |= {
                    k: before.raw[k] for k in ("schemas", "current-schema-id", "properties", "last-column-id")
                }
            table.alter(op, kind.name, value, self.wall_ms(op))
            return False
        if not kind.changes_rows:
            return (yield from self._maintain(op, kind, table, value))
        scanned = table.current
        want = kind.writeset(table.state(scanned), value, op, table.spec)
        places = self._find(table.contents[scanned], want.removed)
        yield
        attempt = 1
        if table.current != scanned or self.chance(0.1):
            attempt += 1
            yield
        promise = self.engine(op).promise(kind.name, table.spec)
        at_commit = promise.at_commit
        blind = promise.blind_append or kind.means_the_same_everywhere
        if at_commit and not self.chance(self.defects.stale_overwrite):
            want = kind.writeset(table.state(table.current), value, op, table.spec)
            places = self._find(table.contents[table.current], want.removed)
        elif at_commit:
            now = kind.writeset(table.state(table.current), value, op, table.spec)
            here = table.contents[table.current]
            places = [p for p in places if p in here]
            wrong = sorted(here[p] for p in places) != sorted(now.removed)
            self.injected += [("stale_overwrite", op)] if wrong else []
        elif (places or not blind) and table.current != scanned:
            places = self._validate(op, kind, table, value, scanned, want.removed, want.added, places)
        elif promise.blind_append and table.current != scanned and self.level(op, kind, table) == "serializable":
            skewed = kind.writeset(table.state(table.current), value, op, table.spec) != want
            if skewed and not self.defects.blind:  # Iceberg would commit it: own keys are safe but from rollbacks
                raise Refused("a rollback took out what it has read")
            self.injected += [("blind", op)] if skewed else []
        equality = value["ids"] if kind.equality_deletes else ()
        self._commit(op, kind, table, places, want.added, attempt, whole_files=at_commit, equality=equality)
        if kind.name == "insert" and self.breaks(op, self.defects.double):
            yield
            self.injected.append(("double", op))
            self._commit(op, kind, table, [], want.added, attempt)
        return True

    def _restore(self, op: str, kind: Kind, table: Table, value: Arguments) -> Steps:
        """A new version with the rows of an earlier one; its only try is refused after any other commit."""
        scanned, line = table.current, table.history()
        if len(line) < 2:
            raise Refused("no earlier version")
        target = found = line[min(value["back"], len(line) - 1)]
        if self.chance(self.defects.wrong_restore):
            found = self.rng.choice(line)
        rows = list(table.state(found))
        yield
        if table.current != scanned:
            raise Refused("ConcurrentWriteException")
        if sorted(rows) != sorted(table.state(target)):
            self.injected.append(("wrong_restore", op))
        want = kind.writeset(table.state(scanned), {**value, "rows": rows}, op, table.spec)
        self._commit(op, kind, table, self._find(table.contents[scanned], want.removed), want.added, 1)
        return {"snapshot": target, "rows": [[0] * 6]}

    def _commit(
        self,
        op: str,
        kind: Kind,
        table: Table,
        places: Sequence[Place],
        rows: Sequence[Row],
        attempt: int,
        *,
        whole_files: bool = False,
        equality: Sequence[int] = (),
    ) -> None:
        table.admit(self.wall_ms(op), adds=True)
        parent = table.current
        if parent is not None and self.chance(self.defects.lose):
            below = table.commits[parent].parent_id
            if below is not None and kind.name == "insert":  # which read nothing that can have been in the lost commit
                self.injected.append(("lose", str(table.commits[parent].op)))
                parent = below
        if kind.deletes and (kind.inserts == "nothing" or equality):
            table.deleted.update(places)
        else:
            table.deleted.difference_update(places)
        if equality:
            table.by_equality.update(places)
        doomed = {i for i in table.just_deleted.get(parent, ()) if any(r.id == i for r in rows)}
        if kind.name == "insert" and doomed and self.chance(self.defects.younger):
            self.injected.append(("younger", op))
            rows = [r for r in rows if r.id not in doomed]
        made = table.commit(
            op=op,
            parent=parent,
            remove=places,
            add=[(r, None) for r in rows],
            now_ms=self.wall_ms(op),
            attempt=attempt,
            copy_on_write=whole_files or table.spec.mode == "copy-on-write",
            operation="append" if not places else "delete" if not rows else "overwrite",
            equality=equality,
        )
        self.made_by[made.snapshot_id] = op
        if equality:
            table.just_deleted[made.snapshot_id] = equality
        self.sent(op, table, made.snapshot_id)

    def sent(self, op: str, table: Table, snapshot: int) -> None:
        """A request for a commit that the catalog accepted."""
        what, base = "POST /v1/transactions/commit", table.current if table.current != snapshot else None
        change = AcceptedChange(self.time, self.time, None, op, base, (snapshot,), snapshot, what, "204")
        self.accepted.append((table.spec.name, change))

    @staticmethod
    def _find(contents: Contents, rows: Iterable[Row]) -> list[Place]:
        """Where rows are; equal rows at as many places."""
        wanted = Counter(rows)
        out: list[Place] = []
        for place in sorted(contents):
            if wanted[contents[place]] > 0:
                wanted[contents[place]] -= 1
                out.append(place)
        return out

    def _validate(
        self,
        op: str,
        kind: Kind,
        table: Table,
        value: Arguments,
        scanned: int | None,
        removed: Sequence[Row],
        added: Sequence[Row],
        places: list[Place],
    ) -> list[Place]:
        """The places that the commit may remove on the current base.

        Raises:
            Refused: a concurrent commit is in conflict.
        """
        if not table.is_ancestor(scanned):
            raise Refused("Cannot determine history between starting snapshot and the last known ancestor")
        here = table.contents[table.current]
        left = [p for p in places if p in here]
        gone = [p for p in places if p not in here]
        level = self.level(op, kind, table)
        if level == "serializable":
            now = kind.writeset(table.state(table.current), value, op, table.spec)
            if (now.removed, now.added) != (removed, added):
                if gone or not self.breaks(op, self.defects.skew):
                    raise Refused("Found conflicting files that can contain records matching the condition")
                self.injected.append(("skew", op))
        if not gone:
            return left
        is_delete = kind.verb == "delete"
        if level == "snapshot" and is_delete:
            if all(p in table.deleted for p in gone):
                return left
            if self.chance(self.defects.undelete):
                self.injected.append(("undelete", op))
                return left
        if not is_delete and not kind.deletes and self.chance(self.defects.overwrite):
            self.injected.append(("overwrite", op))
            return left
        raise Refused("Missing required files to delete, or found new conflicting delete files")

    def _maintain(self, op: str, kind: Kind, table: Table, value: Arguments) -> Steps:
        """A procedure: none, one or several snapshots, and no row is changed."""
        scanned = table.contents[table.current]
        groups: dict[int, list[Place]] = {}
        for place in sorted(scanned):
            groups.setdefault(scanned[place].part if table.partitioned else 0, []).append(place)
        yield
        if kind.name in ("rewrite-data-files", "optimize") and table.current is not None:
            whole = [places for places in groups.values() if len({f for f, _ in places}) > 1]
            if not value.get("partial_progress") and not self.chance(0.3):
                whole = [[p for places in whole for p in places]] if whole else []
            made = False
            for places in whole:
                try:
                    self._rewrite(op, table, scanned, places)
                    made = True
                except Refused:
                    if len(whole) == 1:
                        raise
                yield  # partial progress: a group that is refused is left as it is
            return made
        if table.current is None or not kind.writes or self.chance(0.3):
            return False
        c = table.commit(
            op=op,
            parent=table.current,
            remove=[],
            add=[],
            now_ms=self.wall_ms(op),
            attempt=1,
            copy_on_write=False,
            operation="replace",
        )
        if kind.name == "rewrite-manifests":
            manifests = {"manifests-created": "1", "manifests-replaced": "2", "manifests-kept": "0"}
            table.commits[c.snapshot_id] = replace(c, summary=c.summary | manifests)
        return True

    def _rewrite(self, op: str, table: Table, scanned: Contents, places: Sequence[Place]) -> None:
        here = table.contents[table.current]
        files = {f for f, _ in places}
        lost_deletes = [p for p in places if p not in here and p in table.by_equality]
        gone = [p for p in places if p not in here and p not in table.by_equality]
        back: list[Row] = []
        if gone:
            back = [scanned[p] for p in gone if p in table.deleted]
            if not back or not self.chance(self.defects.resurrect):
                raise Refused("Cannot commit, found new delete for replaced data file")
            self.injected.append(("resurrect", op))
        if lost_deletes and self.chance(self.defects.lose_equality):
            self.injected.append(("lose_equality", op))
            back += [scanned[p] for p in lost_deletes]
        there = [p for p in sorted(here) if p[0] in files]
        carried: list[tuple[Row, Place | None]] = [(here[p], p) for p in there]
        lost: list[Place] = []
        if len(carried) > 1 and self.chance(self.defects.drop_rows):
            self.injected.append(("drop_rows", op))
            lost = [there[0]]
            carried = carried[1:]
        moved = _Moving(table, there, lost)
        moved.commit(op=op, carried=carried, back=back, now_ms=self.wall_ms(op))

    # --- the whole

    def execute(self, writers: int, ops: int) -> None:
        """Run it all."""
        for table in self.tables.values():
            if table.spec.seed_rows:
                self.seed(table)
        clients: list[Steps] = [self.client(n, writers, ops) for n in range(writers)]
        self._interleave(clients)
        self._interleave([self.final_reads(2000 + n) for n in range(2)])
        for name in self.tables:
            self.capture(name)

    def _interleave(self, running: list[Steps]) -> None:
        while running or self.late:
            running += self.late
            self.late = []
            chosen = running[self.rng.randrange(len(running))]
            self.tick()
            try:
                next(chosen)
            except StopIteration:
                running.remove(chosen)


@dataclass
class _Moving:
    """A compaction's commit: the rows of some places go to new files; ``lost`` are left out."""

    table: Table
    places: Sequence[Place]
    lost: Sequence[Place]

    def commit(self, *, op: str, carried: list[tuple[Row, Place | None]], back: Sequence[Row], now_ms: int) -> None:
        """Make the snapshot, and say of its log only what changed."""
        t = self.table
        parent = t.current
        rows = t.contents[parent]
        gone = [(p, rows[p]) for p in self.lost]
        c = t.commit(
            op=op,
            parent=parent,
            remove=[*self.places],
            add=[*carried, *((r, None) for r in back)],
            now_ms=now_ms,
            attempt=1,
            copy_on_write=True,
            operation="replace",
        )
        removed = tuple(RowChange(tuple(r), f, n) for (f, n), r in gone)
        fixed = replace(c, removed=removed)
        t.commits[c.snapshot_id] = fixed


def simulate(
    seed: int,
    tables: Sequence[TableSpec],
    *,
    writers: int = 4,
    ops: int = 12,
    keys: int = 4,
    mix: Mapping[str, float] = MIX,
    unknown: float = 0.05,
    spurious: float = 0.05,
    defects: Defects = CLEAN,
    engines: Sequence[str] = (),
    faulty: str | None = None,
    proxied: bool = True,
    captured: float = 0.05,
) -> Simulation:
    """One run.

    Args:
        writers: concurrent processes.
        ops: operations of each.
        keys: shared keys.
        mix: kind → weight.
        unknown: share of writes whose outcome is never known; a third of them never happens, a third did, a third still will.
        spurious: share of operations that fail without a reason in the table.
        defects: rules to break.
        engines: of each writer; none: all are Spark's.
        faulty: the only engine whose operations break rules.
        proxied: whether proxies saw the requests of runs of several engines.
        captured: share of operations after which the follower reads the table log.
    """
    run = Run(Random(f"simulation/{seed}"), tables, keys, mix, unknown, spurious, defects)
    run.engines, run.faulty, run.captured = engines, faulty, captured
    run.execute(writers, ops)
    return left(run, {"format": 1, "workload": "simulated", "seed": seed, "writers": writers}, proxied=proxied)


def left(run: Run, header: Mapping[str, Any], *, proxied: bool) -> Simulation:
    """What a run that was executed left; ``header``: the first line of its history."""
    logs = {name: t.log(run.captures[name]) for name, t in run.tables.items()}
    specs, injected = {s.name: s for s in run.specs}, tuple(run.injected)
    if not run.engines:
        return Simulation(History(dict(header), tuple(run.events)), logs, specs, injected)
    accepted = {n: tuple(a for table, a in run.accepted if table == n) for n in logs}
    carried = {
        n: tuple(Carried(a.time, a.writer, a.op, a.adds, True, a.answer) for a in seen if a.op is not None)
        for n, seen in accepted.items()
    }
    return Simulation(
        History({**header, "engines": list(run.engines)}, tuple(run.events)),
        {name: _anonymous(log, run) for name, log in logs.items()},
        specs,
        injected,
        carried if proxied else None,
        accepted if proxied else {},
    )


def _anonymous(log: TableLog, run: Run) -> TableLog:
    """The log, in which snapshots of engines that do not name their operations name none."""
    commits = (
        replace(c, op=None, attempt=None, summary={k: v for k, v in c.summary.items() if k != "icequake-op"})
        if c.op is not None and not run.engine(c.op).marks
        else c
        for c in log.commits
    )
    return replace(log, commits=tuple(commits))
