"""A log of the model as a run that left it: history and table log, which the checkers judge as those of a real run.

The model has files, positions and deletes; the values of the rows are what the operations of the workload mean (``writeset``), so the two
sides share the shape of the table and nothing of the judgement. Each operation has a process of its own, which begins when the version
that it scans is there, and ends when it has committed; afterwards somebody reads the table.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from checkers.conflicts.validations import OVERWRITING
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, RowChange
from checkers.formats.iceberg.model.logtree import Bound, Log, LogEntry
from checkers.formats.iceberg.model.operations import Work, committed, work
from checkers.formats.iceberg.model.scenario import argument, kind_of
from checkers.formats.iceberg.model.table import DataFile, EqualityDeleteFile, PositionDeletes, seeded
from checkers.formats.iceberg.model.table import TableVersion as Version
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from tests.support.simulator import WALL_MS, Place, Table, _measures, _operation, _summary
from workloads.engines.engines import SPARK
from workloads.file.modelled import COMPACTION, REWRITE_KINDS
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State, TableSpec

STEP = 1_000_000
"""ns between two events."""
SEED = "w99-0"


def evidence(bound: Bound, log: Log) -> Evidence:
    """What a run would have stored whose commits are those of the log."""
    spec = TableSpec(
        name="t",
        format_version=3 if bound.format_version == 3 else 2,
        mode="merge-on-read",
        isolation="serializable" if bound.serializable else "snapshot",
        partitions=bound.partitions,
        seed_rows=bound.keys + bound.partitions,
    )
    table = ModelledTable(spec)
    table.begin(bound)
    for n, entry in enumerate(log, 1):
        table.follow(n, entry)
    events = _events(log, table)
    capture = Capture(events[-1].time + STEP, table.metadata[-1].location)
    return Evidence(History({"format": 1, "writers": 100}, tuple(events)), {"t": table.log([capture])}, {"t": spec})


def _events(log: Log, table: ModelledTable) -> list[Event]:
    """Between commits n and n + 1: who commits n + 1 is not yet acknowledged, and who scans n begins."""
    said: list[tuple[str, int, str, Any, str]] = [
        ("invoke", 99, "insert", {"ids": [*range(table.spec.seed_rows)]}, SEED),
        ("ok", 99, "insert", None, SEED),
    ]
    for n in range(len(log) + 1):
        if n:
            said.append(("ok", n, kind_of(log[n - 1].operation), table.answers.get(n), f"w{n}-0"))
        for m, e in enumerate(log, 1):
            if e.scan == n:
                said.append(("invoke", m, kind_of(e.operation), table.arguments(e), f"w{m}-0"))
    rows = [list(r) for r in table.contents[table.current].values()]
    said += [("invoke", 98, "read", {}, "w98-0"), ("ok", 98, "read", rows, "w98-0")]
    return [
        Event(i, (i + 1) * STEP, kind, process, f, "t", value, op, extra=_by(kind, process, log))  # type: ignore[arg-type]
        for i, (kind, process, f, value, op) in enumerate(said)
    ]


def _by(kind: str, process: int, log: Log) -> dict[str, str]:
    engine = log[process - 1].operation.engine if kind == "invoke" and process <= len(log) else SPARK
    return {} if engine == SPARK else {"engine": engine}


class ModelledTable(Table):
    """A table of the simulator whose commits are told, not made: it writes what the model says into its log."""

    def __init__(self, spec: TableSpec) -> None:
        super().__init__(spec, Random(0))
        self.versions: list[Version] = []
        self.rows: dict[str, list[Row]] = {}
        """Data file → its rows, also of files that are gone."""
        self.entries: dict[str, FileEntry] = {}
        self.answers: dict[int, Any] = {}
        """Commit → what a procedure answers."""

    def begin(self, bound: Bound) -> None:
        """The rows that are there at the start."""
        start = seeded(bound.keys, bound.partitions)
        for name, f in start.files.items():
            ids = {"ids": [key for key, _, _ in f.rows]}
            self.rows[name] = KINDS["insert"].writeset(State(), ids, SEED, self.spec).added
        self._put(0, SEED, Version({}, {}, sequence=0), start, "append")

    def arguments(self, entry: LogEntry) -> dict[str, Any]:
        """As a workload draws them."""
        return argument(entry.operation, self.spec.partitions)

    def follow(self, n: int, entry: LogEntry) -> None:
        """Commit n of a log."""
        o, base = entry.operation, self.versions[-1]
        scanned = base if o.at_base else self.versions[entry.scan]
        done = work(o, scanned, n, self.spec.partitions)
        assert done is not None, "a log has only commits"
        if o.kind not in REWRITE_KINDS:
            state = State(self._visible(scanned).values())
            made = KINDS[kind_of(o)].writeset(state, self.arguments(entry), f"w{n}-0", self.spec).added
        for name, f in done.added.items():
            if o.kind == COMPACTION:
                self.rows[name] = self._carried(scanned, f.part, None)
            else:
                kept = [] if o.kind in OVERWRITING else self._kept(scanned, done, o.key)
                self.rows[name] = kept + made
            assert [r.id for r in self.rows[name]] == [key for key, _, _ in f.rows]
        self._put(
            n, f"w{n}-0", base, committed(base, done, vectors=self.format_version == 3), done.effect.operation, done
        )

    def _carried(self, v: Version, part: int, but: int | None) -> list[Row]:
        live = ((name, p) for name in v.files if v.files[name].part == part for p in sorted(v.live[name]))
        return [self.rows[name][p] for name, p in live if self.rows[name][p].id != but]

    def _kept(self, v: Version, done: Work, key: int) -> list[Row]:
        rows = (self.rows[name][p] for name in v.files if name in done.effect.removed for p in sorted(v.live[name]))
        return [r for r in rows if r.id != key]

    def _visible(self, v: Version) -> dict[Place, Row]:
        return {(name, p): self.rows[name][p] for name, live in v.live.items() for p in live}

    def _put(self, n: int, op: str, base: Version, after: Version, operation: str, done: Work | None = None) -> None:
        """The snapshot that leads from one version to the next."""
        snapshot, sequence = n + 1, n + 1
        self.versions.append(after)
        self._sequence = sequence
        first_row_id = self.next_row_id
        new = [
            *(self._data(name, f, snapshot, sequence) for name, f in after.files.items() if name not in base.files),
            *(self._delete(name, d, after, snapshot) for name, d in after.deletes.items() if name not in base.deletes),
            *(self._equality(n, e, snapshot) for e in after.equality if e not in base.equality),
        ]
        gone = [name for name in (*base.files, *base.deletes) if name not in after.files and name not in after.deletes]
        gone += [f"{e.sequence - 1}-equality" for e in base.equality if e not in after.equality]
        old = [self.entries[name] for name in gone]
        plus, minus = _measures(new), _measures(old)
        totals = Counter(self.totals[self.current])
        totals.update(plus)
        totals.subtract(minus)
        added, removed = self._changed(base, after, n)
        commit = Commit(
            snapshot_id=snapshot,
            parent_id=self.current,
            sequence_number=sequence,
            timestamp_ms=WALL_MS + n,
            operation=_operation(operation, plus, minus),
            summary={"icequake-op": op} | _summary(plus, minus, totals),
            op=op,
            attempt=1,
            manifest_list=f"metadata/snap-{snapshot}-1-x.avro",
            schema_id=0,
            metadata=len(self.metadata),
            added=added,
            removed=removed,
            added_files=tuple(new),
            removed_files=tuple(old),
            first_row_id=first_row_id,
            added_rows=None if self.next_row_id is None else self.next_row_id - (first_row_id or 0),
        )
        self.commits[snapshot], self.totals[snapshot] = commit, totals
        self.contents[snapshot] = self._visible(after)
        self.listed.append(snapshot)
        self.current = snapshot
        self._version(WALL_MS + n)
        if operation == "replace":
            self.answers[n] = _answer(old, new, data=any(f.role == "data" for f in old))

    def _data(self, name: str, f: DataFile, snapshot: int, sequence: int) -> FileEntry:
        path = f"data/part={f.part}/{name}.parquet" if self.partitioned else f"data/{name}.parquet"
        entry = self._entry(path, "data", len(f.rows), f.part, sequence, snapshot)
        entry = replace(entry, data_sequence_number=f.sequence, first_row_id=self.next_row_id)
        if self.next_row_id is not None:
            self.next_row_id += len(f.rows)
        self.entries[name] = entry
        return entry

    def _delete(self, name: str, d: PositionDeletes, after: Version, snapshot: int) -> FileEntry:
        of = self.entries[d.data_file]
        vector = self.format_version == 3
        path = f"data/{name}.{'puffin' if vector else 'parquet'}"
        content = "deletion-vector" if vector else "position-deletes"
        entry = self._entry(path, content, len(d.positions), 0, after.sequence, snapshot)
        entry = replace(entry, referenced=of.path, partition=of.partition)
        self.entries[name] = replace(entry, offset=4, length=40) if vector else entry
        return self.entries[name]

    def _equality(self, n: int, e: EqualityDeleteFile, snapshot: int) -> FileEntry:
        name = f"{n}-equality"
        self.entries[name] = self._entry(f"data/{name}.parquet", "equality-deletes", 1, e.part, e.sequence, snapshot)
        return self.entries[name]

    def _changed(self, base: Version, after: Version, n: int) -> tuple[tuple[RowChange, ...], tuple[RowChange, ...]]:
        """Net: equal rows that come and go did neither."""
        was, now = self._visible(base), self._visible(after)
        plus, minus = Counter(now.values()), Counter(was.values())
        plus, minus = plus - minus, minus - plus
        added, removed = [], []
        for (name, p), row in now.items():
            if (name, p) not in was and plus[row]:
                plus[row] -= 1
                added.append(RowChange(tuple(row), self.entries[name].path, p))
        for (name, p), row in was.items():
            if (name, p) not in now and minus[row]:
                minus[row] -= 1
                removed.append(RowChange(tuple(row), self.entries[name].path, p, self._by(name, p, base, after, n)))
        assert not plus.total() + minus.total(), "a row came back where it was"
        return tuple(added), tuple(removed)

    def _by(self, name: str, position: int, base: Version, after: Version, n: int) -> str | None:
        """The delete file that hides a row now; None: its data file is gone."""
        if name not in after.files:
            return None
        new = (d for d, found in after.deletes.items() if d not in base.deletes and found.data_file == name)
        hiding = [d for d in new if position in after.deletes[d].positions]
        return self.entries[hiding[0]].path if hiding else f"data/{n}-equality.parquet"


def _answer(old: list[FileEntry], new: list[FileEntry], data: bool) -> Any:
    """What the procedure answers of the files that it replaced: data files, or else delete files."""
    role = "data" if data else "deletes"
    gone, made = [f for f in old if f.role == role], [f for f in new if f.role == role]
    numbers = [len(gone), len(made), sum(f.size for f in gone)]
    return [[*numbers, 0, 0]] if data else [[*numbers, sum(f.size for f in made)]]
