"""The trail of an anomaly: what its operations did, from the operation down to the files and rows.

    operation → attempt → snapshot → manifest list → file → row

The trail goes as far as the log does: for an operation that never committed it ends after the first step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit, RowChange, TableLog
from checkers.timeline.two_tables import tables_of
from checkers.verdict import Anomaly, TrailRow, TrailSnapshot, TrailStep
from workloads.tables import COLUMNS

MOST_IN_A_TRAIL = 8
"""Operations of one anomaly, the offender first; the anomaly itself names all."""
MOST_SNAPSHOTS = 4
MOST_ROWS_OF_A_TRAIL = 6


def trail(evidence: Evidence, anomaly: Anomaly) -> tuple[TrailStep, ...]:
    """One step per operation of the anomaly, the offender first; rows are limited to the anomaly's ids if it names any."""
    return Trails(evidence).of(anomaly)


class Trails:
    """The trails of one run's anomalies; what they need of the run is looked up once."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._by_id = {o.op: o for o in evidence.history.operations()}
        self._known: dict[str, _Known] = {}

    def of(self, anomaly: Anomaly) -> tuple[TrailStep, ...]:
        """As :func:`trail`."""
        ops = [self._by_id[op] for op in anomaly.ops if op in self._by_id][:MOST_IN_A_TRAIL]
        keys = frozenset(anomaly.keys)
        return tuple(_step(o, [k for t in _tables(o, anomaly) if (k := self._of_table(t))], keys) for o in ops)

    def _of_table(self, name: str) -> _Known | None:
        if name not in self._known and (log := self._evidence.logs.get(name)) is not None:
            self._known[name] = _Known(log, log.by_op(), frozenset(c.snapshot_id for c in log.main()))
        return self._known.get(name)


class _Known(NamedTuple):
    """A table's log, its commits by operation, and main's snapshots."""

    log: TableLog
    commits: Mapping[str, Sequence[Commit]]
    main: frozenset[int]


def _tables(o: Operation, anomaly: Anomaly) -> tuple[str, ...]:
    """The tables of an operation's commits: the anomaly's, or both for an operation on two tables."""
    both = tables_of(o)
    return both if len(both) > 1 else (anomaly.table or "",)


def _step(o: Operation, tables: Iterable[_Known], keys: frozenset[int]) -> TrailStep:
    snapshots: list[TrailSnapshot] = [
        {
            "attempt": c.attempt,
            "snapshot": c.snapshot_id,
            "sequence_number": c.sequence_number,
            "parent": c.parent_id,
            "on_main": c.snapshot_id in t.main,
            "manifest_list": "".join(c.own_files[:1]),
            "rows": [*_rows("-", c.removed, t.log, keys), *_rows("+", c.added, t.log, keys)],
        }
        for t in tables
        for c in t.commits.get(o.op, ())[:MOST_SNAPSHOTS]
    ]
    return {
        "op": o.op,
        "kind": o.f,
        "process": o.process,
        "invoked_ms": round(o.start / 1e6, 1),
        "ended_ms": None if o.completed is None else round(o.completed.time / 1e6, 1),
        "outcome": o.type,
        "snapshots": snapshots,
    }


def _rows(
    sign: Literal["+", "-"], changes: Iterable[RowChange] | None, log: TableLog, keys: frozenset[int]
) -> list[TrailRow]:
    id_column = log.columns.index(COLUMNS[0]) if COLUMNS[0] in log.columns else 0
    found = [x for x in changes or () if not keys or x.row[id_column] in keys]
    return [
        {"sign": sign, "row": list(x.row), "file": x.file, "position": x.pos, "by": x.by}
        for x in found[:MOST_ROWS_OF_A_TRAIL]
    ]
