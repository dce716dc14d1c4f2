"""Histories of one table drawn by hand, with the requests that proxies saw: what each write loaded and asked for, and when.

    d = Drawing()
    d.write("A", "update-register", [0], 0, loads=[10, 20, 40], asked=[(30, False), (50, True)], end=60)
    d.write("B", "insert", [99], 0, loads=[1, 2], asked=[(25, True)], end=26)
    exercised(d.evidence(), d.requests())

Times are milliseconds: those of loads and requests are of the answer; a request comes half a millisecond before. Rows 0 … 11 are there from the
beginning: three to a partition (``id mod 4``), in one data file for each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.coverage.phases import MetadataLoad
from checkers.coverage.requests import CommitRequest, CommitRequests
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History
from checkers.evidence.tablelog import Capture, RowChange, TableLog
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from workloads.operations.kinds import KINDS
from workloads.tables import COLUMNS, Row, State, TableSpec

MS = 1_000_000
HALF = MS // 2
CONFLICT = [["org.apache.iceberg.exceptions.ValidationException", "Missing required files to delete"]]


@dataclass
class Drawing:
    """One table and its writes; those that commit are committed in the order of their accepted requests."""

    spec: TableSpec = field(default_factory=lambda: TableSpec(name="t"))
    proxied: bool = True
    writes: list[dict[str, Any]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    """Without proxies: the operations that commit, in the order of their commits."""

    def write(
        self,
        op: str,
        f: str,
        value: Any,
        start: float,
        *,
        end: float | None,
        loads: Iterable[float] = (),
        asked: Iterable[tuple[float, bool]] = (),
        type: str = "",
        phase: str = "main",
        engine: str | None = None,
    ) -> Drawing:
        """Add a write; ``value``: its arguments, or the ids. It is ok if a request was accepted, else a conflict aborted it."""
        answers = sorted(asked)
        done = any(ok for _, ok in answers) or op in self.order
        arguments = {"ids": value} if isinstance(value, list) else value
        said = type or ("info" if end is None else "ok" if done else "fail")
        self.writes.append(
            {
                "op": op, "f": f, "value": arguments, "start": start, "end": end, "loads": sorted(loads),
                "asked": answers, "type": said, "phase": phase, "engine": engine,
            }
        )  # fmt: skip
        return self

    def evidence(self) -> Evidence:
        """What a run would have stored."""
        lines: list[tuple[float, int, dict[str, Any]]] = []
        for process, w in enumerate(self.writes):
            lines.append((w["start"], process, {"type": "invoke", **w}))
            if w["end"] is not None:
                lines.append((w["end"], process, w))
        events = []
        for n, (at, process, w) in enumerate(sorted(lines, key=lambda x: x[:2])):
            first = w is not self.writes[process]
            extra = {"phase": w["phase"]} | ({"engine": w["engine"]} if w["engine"] else {}) if first else {}
            kind: Any = "invoke" if first else w["type"]
            error = CONFLICT if kind == "fail" else None
            told = w["value"] if first else None
            events.append(Event(n, int(at * MS), kind, process, w["f"], "t", told, w["op"], error, extra))
        log = self._log(int((max(x[0] for x in lines) + 1) * MS) if lines else 0)
        return Evidence(History({"writers": 64}, tuple(events)), {"t": log}, {"t": self.spec})

    def requests(self) -> dict[str, CommitRequests]:
        """What proxies saw."""
        if not self.proxied:
            return {}
        versions = {op: n for n, op in enumerate(self._committed(), 2)}
        loads = {w["op"]: [MetadataLoad(int(t * MS) - HALF, int(t * MS)) for t in w["loads"]] for w in self.writes}
        asked = {
            w["op"]: [
                CommitRequest(int(t * MS) - HALF, int(t * MS), ok, f"{versions[w['op']]}.metadata.json" if ok else None)
                for t, ok in w["asked"]
            ]
            for w in self.writes
            if w["asked"]
        }
        return {"t": CommitRequests(loads, asked)}

    def _committed(self) -> list[str]:
        at = {w["op"]: t for w in self.writes for t, ok in w["asked"] if ok}
        return self.order or sorted(at, key=lambda op: at[op])

    def _log(self, end: int) -> TableLog:
        state, where = State(), dict[Row, str]()
        first = [Row(i, "s", 0, "s", self.spec.part(i)) for i in range(12)]
        commits = [self._commit("seed", 1, first, [], where)]
        state.apply([], first)
        by_op = {w["op"]: w for w in self.writes}
        for n, op in enumerate(self._committed(), 2):
            w = by_op[op]
            kind = KINDS[w["f"]]
            want = kind.writeset(state, w["value"], op, self.spec) if kind.changes_rows else None
            removed, added = (want.removed, want.added) if want else ([], [])
            state.apply(removed, added)
            commits.append(self._commit(op, n, added, removed, where))
        ids = tuple(c.snapshot_id for c in commits)
        versions = [
            Metadata(
                0,
                "0.metadata.json",
                0,
                None,
                (),
                {},
                format_version=2,
                last_sequence_number=0,
                next_row_id=None,
                raw={},
            )
        ]
        versions += [
            Metadata(
                n,
                f"{n}.metadata.json",
                0,
                n,
                ids[:n],
                {"main": n},
                format_version=2,
                last_sequence_number=n,
                next_row_id=None,
                raw={},
            )
            for n in ids
        ]
        last = versions[-1].location
        return TableLog("t", "c.t", "", COLUMNS, tuple(versions), tuple(commits), (Capture(end, last),), True)

    def _commit(self, op: str, n: int, added: Sequence[Row], removed: Sequence[Row], where: dict[Row, str]) -> Commit:
        """Copy-on-write: the files of the removed rows are replaced, each by one of its partition."""
        gone = {where[r] for r in removed}
        carried = [r for r, f in where.items() if f in gone and r not in removed]
        old = [RowChange(tuple(r), where[r], 0) for r in removed]
        before = {f: r.part for r, f in where.items() if f in gone}
        for r in removed:
            del where[r]
        for r in (*carried, *added):
            where[r] = f"data/{op}-{r.part}.parquet"
        new = sorted({(where[r], r.part) for r in (*carried, *added)})
        return Commit(
            n,
            n - 1 or None,
            n,
            0,
            "overwrite",
            op,
            1,
            n,
            tuple(RowChange(tuple(r), where[r], 0) for r in added),
            tuple(old),
            summary={},
            manifest_list=f"snap-{n}-1-x.avro",
            schema_id=0,
            added_files=tuple(
                FileEntry(
                    f,
                    "data",
                    1,
                    100,
                    {"part": part} if self.spec.partitioned else {},
                    format="parquet",
                    data_sequence_number=n,
                )
                for f, part in new
            ),
            removed_files=tuple(
                FileEntry(
                    f,
                    "data",
                    1,
                    100,
                    {"part": part} if self.spec.partitioned else {},
                    format="parquet",
                    data_sequence_number=n,
                )
                for f, part in before.items()
            ),
        )
