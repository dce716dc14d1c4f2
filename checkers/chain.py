"""From the operation down to the row: what an anomaly's operations did, in the files where anybody can look it up.

    operation → attempt → snapshot → manifest list → file → row

The chain is as long as the log knows it: an operation that never committed ends after the first step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from checkers.verdict import Anomaly, Evidence
from harness.history import Operation
from harness.tablelog import Commit, RowChange, TableLog
from workloads.tables import COLUMNS

KEY = "chain"
"""Where it is in an anomaly's evidence."""
MOST_OPERATIONS = 8
MOST_SNAPSHOTS = 4
MOST_ROWS = 6


def chain(evidence: Evidence, anomaly: Anomaly) -> list[dict[str, Any]]:
    """One entry an operation of the anomaly, the offender first.

    Each has ``op``, ``kind``, ``process``, ``invoked_ms``, ``ended_ms`` (None: never), ``outcome``, and ``snapshots``, each of these with
    ``attempt``, ``snapshot``, ``sequence_number``, ``parent``, ``on_main``, ``manifest_list``, and ``rows``: ``sign``, ``row``, ``file``,
    ``position`` in it and ``by``, the delete file that hides it (None: the data file itself came or went). Rows are those of the
    anomaly's ids where it names any.
    """
    by_id = {o.op: o for o in evidence.history.operations()}
    log = evidence.logs.get(anomaly.table or "")
    commits = log.by_op() if log is not None else {}
    main = {c.snapshot_id for c in log.main()} if log is not None else set()
    ops = [by_id[op] for op in anomaly.ops if op in by_id][:MOST_OPERATIONS]
    return [_entry(o, commits.get(o.op, [])[:MOST_SNAPSHOTS], main, log, frozenset(anomaly.keys)) for o in ops]


def _entry(
    o: Operation, commits: Iterable[Commit], main: set[int], log: TableLog | None, keys: frozenset[int]
) -> dict[str, Any]:
    snapshots = [
        {
            "attempt": c.attempt,
            "snapshot": c.snapshot_id,
            "sequence_number": c.sequence_number,
            "parent": c.parent_id,
            "on_main": c.snapshot_id in main,
            "manifest_list": c.manifest_list,
            "rows": [*_rows("-", c.removed, log, keys), *_rows("+", c.added, log, keys)],
        }
        for c in commits
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
    sign: str, changes: Iterable[RowChange] | None, log: TableLog | None, keys: frozenset[int]
) -> list[dict[str, Any]]:
    assert log is not None  # there are no commits without one
    at = log.columns.index(COLUMNS[0]) if COLUMNS[0] in log.columns else 0
    found = [x for x in changes or () if not keys or x.row[at] in keys]
    return [
        {"sign": sign, "row": list(x.row), "file": x.file, "position": x.pos, "by": x.by} for x in found[:MOST_ROWS]
    ]
