"""What a model found, as the history of a run that did it: operations with a begin and an end, which a page draws as lanes.

One commit or one step is a millisecond. In a log, an operation begins when the version that it scans is there and ends with its commit; in
a way, it lasts from its first step to its last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.evidence.history import Event, History
from checkers.formats.iceberg.model.logtree import Log
from checkers.formats.iceberg.model.operations import ModelOperation
from checkers.formats.iceberg.model.scenario import steps_text
from checkers.formats.iceberg.model.ways import BY_CATALOG, Way
from checkers.verdict import Anomaly, Verdict

MS = 1_000_000
"""ns: one step."""
APART = 2
"""Steps between two counterexamples, so that none is drawn beside the other."""


@dataclass(frozen=True)
class Lane:
    """An operation: when it begins and ends (in steps), what it asks, what it did, and how it ended."""

    f: str
    begins: int
    ends: int
    asks: Mapping[str, Any]
    did: str
    outcome: str = "ok"


Found = tuple[str, str, Sequence[Lane]]
"""Name of a broken promise, the shortest way to it in words, and its operations."""


def of_log(name: str, log: Log) -> Found:
    """A log of the tree."""
    words = steps_text(log)
    lanes = [
        Lane(e.operation.name, 2 * e.scan + 1, 2 * n, _asks(e.operation), text)
        for n, (e, text) in enumerate(zip(log, words, strict=True), 1)
    ]
    return name, "; ".join(words), lanes


def of_way(name: str, way: Way, operations: Sequence[ModelOperation]) -> Found:
    """A way of the search step by step. What the catalog does by itself is one, too."""
    lanes = []
    for n in sorted({m.op for m in way}):
        own = [(place, m) for place, m in enumerate(way, 1) if m.op == n]
        did = "; ".join(m.words for _, m in own)
        if n == BY_CATALOG:
            lanes.append(Lane("catalog", own[0][0], own[-1][0] + 1, {}, did))
            continue
        o, last = operations[own[0][1].operation], own[-1][1].words
        failed, done = "refused" in last, any(word in last for word in ("acknowledged", "found", "nothing to do"))
        unknown = "unknown" in last or "late" in last or not done  # one that stops on its way never ended
        outcome = "fail" if failed else "info" if unknown else "ok"
        lanes.append(Lane(o.name, own[0][0], own[-1][0] + 1, _asks(o), did, outcome))
    return name, "; ".join(map(str, way)), lanes


def _asks(o: ModelOperation) -> dict[str, Any]:
    return ({} if o.whole else {"key": o.key}) | ({"mode": o.mode} if o.mode else {})


def told(model: str, level: str, found: Sequence[Found], notes: Sequence[str]) -> tuple[Verdict, History]:
    """A verdict with an anomaly for each of them, and the history that shows all, one after the other."""
    events: list[tuple[int, str, int, Lane, str]] = []
    anomalies, base = [], 0
    for k, (name, words, lanes) in enumerate(found, 1):
        ops = [f"{k}.{n}" for n in range(1, len(lanes) + 1)]
        for process, (lane, op) in enumerate(zip(lanes, ops, strict=True)):
            events.append((base + lane.begins, "invoke", process, lane, op))
            events.append((base + lane.ends, lane.outcome, process, lane, op))
        base += APART + max(lane.ends for lane in lanes)
        anomalies.append(Anomaly(name, "model", None, f"{words}.", tuple(reversed(ops))))
    history = History({"format": 1}, tuple(_events(sorted(events, key=lambda e: (e[0], e[1] == "invoke", e[4])))))
    stats = {
        "model": model,
        "level": level,
        "operations": len(events) // 2,
        "found": {name: 1 for name, _, _ in found},
    }
    return Verdict("model", not found, tuple(anomalies), stats, tuple(notes)), history


def _events(events: Sequence[tuple[int, str, int, Lane, str]]) -> Iterator[Event]:
    for index, (step, kind, process, lane, op) in enumerate(events):
        value = dict(lane.asks) if kind == "invoke" else lane.did
        yield Event(index, step * MS, kind, process, lane.f, None, value, op)  # type: ignore[arg-type]
