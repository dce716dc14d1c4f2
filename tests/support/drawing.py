"""Histories and table logs drawn by hand: one line an event, one line a snapshot.

Example: an acknowledged insert whose snapshot main is set back below::

    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.set_main(a)
    d.evidence()

An event takes a millisecond. Every operation is a process of its own unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, EventType, History
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, FileContent, RowChange, TableLog
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.verdict import Checker, Verdict
from workloads.tables import COLUMNS, Row, TableSpec

MS = 1_000_000


def row(id: int, val: str, cnt: int = 0, log: str | None = None, part: int | None = None) -> Row:
    """A row as an insert by ``val`` makes it, where not said otherwise."""
    return Row(id, val, cnt, val if log is None else log, id % 4 if part is None else part)


class Drawing:
    """One table's history and log."""

    def __init__(
        self,
        isolation: Literal["serializable", "snapshot"] = "serializable",
        mode: Literal["copy-on-write", "merge-on-read"] = "merge-on-read",
        format_version: Literal[2, 3] = 2,
        **spec: Any,
    ) -> None:
        self.spec = TableSpec(name="t", isolation=isolation, mode=mode, format_version=format_version, **spec)
        self.events: list[Event] = []
        self.commits: dict[int, Commit] = {}
        self.metadata: list[Metadata] = []
        self.captures: list[Capture] = []
        self.main: int | None = None
        self._rows: dict[int | None, dict[tuple[str, int], Row]] = {None: {}}
        self._processes: dict[str, int] = {}
        self.engines: dict[str, str] = {}
        """Operation → engine, of those that are not Spark's."""
        self.set_main(None)

    # --- events

    def invoke(
        self, op: str, f: str, process: int | None = None, table: str = "t", engine: str | None = None, **value: Any
    ) -> None:
        """An invocation; ``engine``: which executes it, if it is not Spark."""
        self._processes[op] = len(self._processes) + 100 if process is None else process
        self._event("invoke", op, f, table, value)
        if engine is not None:
            self.events[-1].extra["engine"] = engine

    def ok(self, op: str, result: Any = None) -> None:
        """Its acknowledgement."""
        self._complete("ok", op, result)

    def fail(self, op: str) -> None:
        """Its definite failure."""
        self._complete("fail", op, None, [["org.apache.iceberg.exceptions.ValidationException", "conflict"]])

    def info(self, op: str) -> None:
        """Its outcome is unknown."""
        self._complete("info", op, None)

    def read(self, op: str, rows: Sequence[Row], process: int | None = None, key: int | None = None) -> None:
        """A whole read, of the table or of a key."""
        if key is None:
            self.invoke(op, "read", process)
        else:
            self.invoke(op, "read-key", process, id=key)
        self.ok(op, [list(r) for r in rows])

    def _complete(self, type: EventType, op: str, value: Any, error: Any = None) -> None:
        invoked = next(e for e in self.events if e.op == op)
        self._event(type, op, invoked.f, invoked.table, value, error)

    def _event(self, type: EventType, op: str, f: str, table: str | None, value: Any, error: Any = None) -> None:
        n = len(self.events)
        extra = {"engine": self.engines[op]} if type == "invoke" and op in self.engines else {}
        self.events.append(Event(n, n * MS, type, self._processes[op], f, table, value, op, error, extra))

    # --- the log

    def commit(
        self,
        op: str | None,
        add: Sequence[Row] = (),
        remove: Sequence[Row] = (),
        parent: int | Literal["main"] | None = "main",
        *,
        rewrites: Sequence[str] = (),
        visible: bool = True,
        shown: bool = True,
        **more: Any,
    ) -> int:
        """A snapshot, whose id is its number from 1.

        Args:
            parent: the parent; main's by default.
            rewrites: data files that it replaces by new ones without changing a row.
            visible: whether it becomes main's.
            shown: whether a metadata version shows it at once; if not, the next one shows it together with the next snapshot.
            more: fields of the commit that are not as usual.
        """
        snapshot = 1 + len(self.commits)
        base = self.main if parent == "main" else parent
        rows = dict(self._rows[base])
        removed = []
        for r in remove:
            place = next((p for p in sorted(rows) if rows[p] == r), ("data/unknown.parquet", 0))
            rows.pop(place, None)
            removed.append(RowChange(tuple(r), *place, f"data/{snapshot}-deletes.parquet"))
        path, deletes = f"data/{snapshot}.parquet", f"data/{snapshot}-deletes.parquet"
        for n, r in enumerate(add):
            rows[(path, n)] = r
        old_files = [p for p in rows if p[0] in rewrites]
        for n, p in enumerate(old_files):
            rows[(f"data/{snapshot}-rewritten.parquet", n)] = rows.pop(p)
        self._rows[snapshot] = rows
        fields: dict[str, Any] = {
            "snapshot_id": snapshot,
            "parent_id": base,
            "sequence_number": snapshot,
            "timestamp_ms": 1_700_000_000_000 + len(self.events),
            "operation": "overwrite",
            "summary": {} if op is None else {"icequake-op": op},
            "op": op,
            "attempt": 1,
            "manifest_list": f"metadata/snap-{snapshot}-1-x.avro",
            "schema_id": 0,
            "metadata": len(self.metadata),
            "added": tuple(RowChange(tuple(r), path, n) for n, r in enumerate(add)),
            "removed": tuple(removed),
            "added_files": (
                *((_file(path, snapshot, records=len(add)),) if add else ()),
                *((_file(deletes, snapshot, "position-deletes", len(remove)),) if remove else ()),
            ),
            "removed_files": tuple(_file(p, snapshot) for p in rewrites),
        }
        self.commits[snapshot] = Commit(**(fields | more))
        if shown:
            self.set_main(snapshot if visible else self.main)
        return snapshot

    def did(
        self,
        op: str,
        f: str,
        add: Sequence[Row] = (),
        remove: Sequence[Row] = (),
        process: int | None = None,
        **value: Any,
    ) -> int:
        """An operation from invocation to acknowledgement, with nothing else meanwhile; its snapshot."""
        self.invoke(op, f, process, **value)
        snapshot = self.commit(op, add, remove)
        self.ok(op)
        return snapshot

    def set_main(self, snapshot: int | None, **more: Any) -> None:
        """A metadata version with this as main's snapshot."""
        self.main = snapshot
        n = len(self.metadata)
        fields: dict[str, Any] = {
            "n": n,
            "location": f"s3://w/t/metadata/{n:05d}.metadata.json",
            "last_updated_ms": 1_700_000_000_000,
            "format_version": self.spec.format_version,
            "current": snapshot,
            "snapshots": tuple(self.commits),
            "refs": {} if snapshot is None else {"main": snapshot},
            "last_sequence_number": len(self.commits),
            "next_row_id": None,
            "raw": {},
        }
        self.metadata.append(Metadata(**(fields | more)))

    def capture(self) -> None:
        """The log was read to here."""
        self.captures.append(Capture(len(self.events) * MS, self.metadata[-1].location))

    def evidence(self, *, complete: bool = True, capture: bool = True, **log: Any) -> Evidence:
        """All that was drawn; ``capture``: the log was read once more at the end; ``log``: fields of it that are not as usual."""
        if capture:
            self.capture()
        drawn = TableLog(
            "t",
            "c.n.t",
            "s3://w/t",
            COLUMNS,
            tuple(self.metadata),
            tuple(self.commits.values()),
            tuple(self.captures),
            complete,
        )
        history = History({"format": 1}, tuple(self.events))
        return Evidence(history, {"t": replace(drawn, **log)}, {"t": self.spec}, complete)


def _file(path: str, snapshot: int, content: FileContent = "data", records: int = 1) -> FileEntry:
    return FileEntry(
        path,
        content,
        records,
        500,
        {},
        format="parquet",
        data_sequence_number=snapshot,
        file_sequence_number=snapshot,
        snapshot_id=snapshot,
    )


def names(checker: Checker, evidence: Evidence) -> list[str]:
    """The anomalies that a checker finds, by name, in its order."""
    return [a.name for a in verdict(checker, evidence).anomalies]


def verdict(checker: Checker, evidence: Evidence) -> Verdict:
    """What a checker says, and that it says the same again."""
    said = checker.check(evidence)
    assert checker.check(evidence) == said
    assert (said.valid is False) == bool(said.anomalies)
    events = {e.index for e in evidence.history.events}
    ops = {e.op for e in evidence.history.events}
    snapshots = {c.snapshot_id for log in evidence.logs.values() for c in log.commits}
    for a in said.anomalies:  # an anomaly can be followed back
        assert a.explanation and a.explanation[-1] in ".)"
        assert set(a.events) <= events and len(set(a.events)) == len(a.events)
        assert set(a.snapshots) <= snapshots and len(set(a.snapshots)) == len(a.snapshots)
        assert set(a.ops) <= ops or a.name == "unknown-commit"
        assert len(set(a.files)) == len(a.files) and list(a.keys) == sorted(set(a.keys))
    return said
