"""Named packages of faults for schedules: faults that occur together in practice.

A fault of the catalog strikes every protocol that a catalog may speak: REST answers its HTTP ``status``, PostgreSQL its ``sqlstate``. Where a
protocol has no such error, the connection is reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nemesis.faults.fault import Fault


@dataclass(frozen=True)
class Package:
    """Faults that belong together.

    Attributes:
        summary: what goes wrong, one line.
    """

    name: str
    summary: str
    faults: tuple[Fault, ...]


def _package(name: str, summary: str, *faults: Fault) -> Package:
    return Package(name, summary, faults)


_PARTITION = _package(
    "partition",
    "a writer, or all, cannot reach the catalog or the store, in one direction or both",
    Fault(verb="partition", request="any", whose="one", weight=3),
    Fault(verb="partition", request="any"),
    Fault(verb="partition", request="any", direction="requests", whose="one"),
    Fault(verb="partition", request="commit", direction="replies", whose="one", weight=2),
    Fault(verb="partition", request="any", service="store", whose="one"),
)
_LOST_ACKS = _package(
    "lost-acks",
    "the catalog commits, and the writer gets no answer, or an error",
    Fault(verb="drop-reply", probability=0.5, weight=4),
    Fault(verb="cut", probability=0.5),
    Fault(verb="answer", status=503, retry_after=1, sqlstate="08006", probability=0.5, weight=2),
    Fault(verb="answer", status=429, retry_after=1, sqlstate="40001", probability=0.5),
    Fault(verb="answer", status=502, sqlstate="57P01", probability=0.5),
    Fault(verb="answer", status=504, sqlstate="08003", probability=0.5),
)
_FLAKY = _package(
    "flaky-catalog",
    "the catalog is slow, refuses, forgets or repeats requests, or gives old answers",
    Fault(verb="reject", request="any", status=503, retry_after=1, probability=0.3),
    Fault(verb="reject", request="commit", status=500, probability=0.5),
    Fault(verb="delay", request="any", seconds=0.3, jitter=0.3),
    Fault(verb="delay", request="commit", seconds=2.0, jitter=1.0, whose="one"),
    Fault(verb="drop-request", request="any", probability=0.2),
    Fault(verb="refuse", request="any", probability=0.2),
    Fault(verb="duplicate", request="commit", probability=0.5),
    Fault(verb="late", request="commit", status=504, seconds=2.0, probability=0.3),
    Fault(verb="stale", request="load", probability=0.5),
)
_CRASHES = _package(
    "crashes",
    "processes die, stop for a while, or restart",
    Fault(verb="kill", target="executor", weight=3),
    Fault(verb="kill", target="driver", weight=2),
    Fault(verb="kill", target="spark-worker"),
    Fault(verb="kill", target="spark-master"),
    Fault(verb="kill", target="catalog", weight=2),
    Fault(verb="kill", target="database"),
    Fault(verb="kill", target="store"),
    Fault(verb="pause", target="driver", weight=2),
    Fault(verb="pause", target="executor"),
    Fault(verb="pause", target="catalog"),
    Fault(verb="pause", target="database"),
    Fault(verb="pause", target="store"),
    Fault(verb="restart", target="catalog"),
)
_SLOW_STORE = _package(
    "slow-store",
    "the object store is slow, overloaded or full, or breaks connections",
    Fault(verb="delay", service="store", request="any", seconds=0.3, jitter=0.3),
    Fault(verb="delay", service="store", request="write", seconds=1.0, jitter=1.0, whose="one"),
    Fault(verb="throttle", service="store", request="any", rate=20_000),
    Fault(verb="reject", service="store", request="any", status=503, probability=0.3),
    Fault(verb="reject", service="store", request="write", status=507, probability=0.5),
    Fault(verb="cut", service="store", request="read", probability=0.2),
    Fault(verb="drop-reply", service="store", request="write", probability=0.2),
)
_MAINTENANCE = _package(
    "maintenance",
    "snapshots expire, files are rewritten, the schema changes, and the table is upgraded while writers work",
    Fault(verb="maintain", do="expire-snapshots", weight=2),
    Fault(verb="maintain", do="rewrite-data-files", weight=2),
    Fault(verb="maintain", do="rewrite-position-delete-files"),
    Fault(verb="maintain", do="rewrite-manifests"),
    Fault(verb="maintain", do="add-column"),
    Fault(verb="maintain", do="widen-column"),
    Fault(verb="maintain", do="set-property"),
    Fault(verb="maintain", do="upgrade", weight=0.5),
)
_RECKLESS = _package(
    "reckless",
    "what Iceberg's documentation warns of while writers work: removing young orphan files, rollbacks, replaced tables",
    Fault(verb="maintain", do="remove-orphan-files"),
    Fault(verb="maintain", do="rollback"),
    Fault(verb="maintain", do="replace-table"),
)

_EACH = (_PARTITION, _LOST_ACKS, _FLAKY, _CRASHES, _SLOW_STORE, _MAINTENANCE, _RECKLESS)
PACKAGES: Mapping[str, Package] = {p.name: p for p in _EACH} | {
    "all": Package("all", "all of them", tuple(f for p in _EACH for f in p.faults))
}


def with_fault(verb: str) -> list[str]:
    """The packages that have faults of a verb, without ``all``."""
    return [p.name for p in _EACH if any(f.verb == verb for f in p.faults)]
