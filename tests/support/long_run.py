"""A run of any length on one table with a few keys, made while it is asked for: events, and captures at regular intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History
from checkers.evidence.tablelog import Capture, Growth, RowChange, TableLog
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from workloads.operations.kinds import KINDS
from workloads.tables import COLUMNS, State, TableSpec

SPEC = TableSpec(name="t", partitions=4, seed_rows=0)
LISTED = 3
"""Snapshots that a version lists: the others are expired, as in a long run."""


def long_run(operations: int, *, keys: int = 64, writers: int = 4, every: int = 50) -> Iterator[Event | Growth]:
    """Inserts of all keys, then register and counter updates, deletes, upserts and reads of single keys, one in ten of them by each.

    Every operation overlaps those of the other writers. Row versions do not grow.

    Args:
        every: operations between two captures.
    """
    rng, state = Random("long run"), State()
    table = _Table()
    mix = ("update-register", "update-counter", "merge-upsert", "delete", "read-key")
    under_way: list[tuple[Event, dict[str, object]]] = []
    index = 0

    def event(type: str, process: int, f: str, value: object, op: str) -> Event:
        nonlocal index
        index += 1
        return Event(index - 1, index * 1_000_000, type, process, f, SPEC.name, value, op)  # type: ignore[arg-type]

    for n in range(operations + writers):
        if n < operations:
            f = "insert" if n < keys else rng.choice(mix)
            key = n if n < keys else rng.randrange(keys)
            value: dict[str, object] = {"id": key} if f == "read-key" else {"ids": [key]}
            begun = event("invoke", n % writers, f, value, f"w{n % writers}-{n // writers}")
            yield begun
            under_way.append((begun, value))
        if not under_way or (len(under_way) < writers and n < operations):
            continue
        begun, value = under_way.pop(0)
        assert begun.op is not None
        kind, result = KINDS[begun.f], None
        if kind.writes:
            removed, added = kind.writeset(state, value, begun.op, SPEC)
            state.apply(removed, added)
            table.commit(begun.op, removed, added)
        else:
            result = [list(r) for r in kind.expected(state, value) or ()]
        yield event("ok", int(begun.process), begun.f, result, begun.op)
        if n % every == 0:
            yield table.grown(index * 1_000_000 + 1)
    yield table.grown(index * 1_000_000 + 1)


class _Table:
    """What the reader has not passed on yet."""

    def __init__(self) -> None:
        self._n = 0
        self._listed: tuple[int, ...] = ()
        self._metadata: list[Metadata] = []
        self._commits: list[Commit] = []
        self._location = ""
        self._version(None)

    def _version(self, current: int | None) -> None:
        self._location = f"s3://w/t/metadata/{self._n:05d}.json"
        m = Metadata(
            self._n,
            self._location,
            self._n,
            current,
            self._listed,
            {},
            format_version=2,
            last_sequence_number=self._n,
            next_row_id=None,
            raw={},
        )
        self._metadata.append(m)
        self._n += 1

    def commit(self, op: str, removed: Iterable[tuple[object, ...]], added: Iterable[tuple[object, ...]]) -> None:
        """A snapshot on main."""
        snapshot, parent = self._n, self._listed[-1] if self._listed else None
        plus = tuple(RowChange(tuple(r), f"data/{snapshot}.parquet", n) for n, r in enumerate(added))
        minus = tuple(RowChange(tuple(r), "data/old.parquet", n) for n, r in enumerate(removed))
        at = (snapshot, parent, self._n, self._n, "overwrite", op, 1, self._n, plus, minus)
        own = {"icequake-op": op}
        self._commits.append(Commit(*at, added_files=(), removed_files=(), summary=own, manifest_list="", schema_id=0))
        self._listed = (*self._listed, snapshot)[-LISTED:]
        self._version(snapshot)

    def grown(self, time: int) -> Growth:
        """What is new, and a capture."""
        new = Growth(SPEC.name, COLUMNS, tuple(self._metadata), tuple(self._commits), (Capture(time, self._location),))
        self._metadata, self._commits = [], []
        return new


def evidence(told: Iterable[Event | Growth]) -> Evidence:
    """The same run, for the full check."""
    events: list[Event] = []
    parts: list[Growth] = []
    for x in told:
        if isinstance(x, Event):
            events.append(x)
        else:
            parts.append(x)
    metadata = tuple(m for g in parts for m in g.metadata)
    commits = tuple(c for g in parts for c in g.commits)
    captures = tuple(c for g in parts for c in g.captures)
    log = TableLog(SPEC.name, "c.n.t", "s3://w/t", COLUMNS, metadata, commits, captures, True)
    return Evidence(History({"format": 1}, tuple(events)), {SPEC.name: log}, {SPEC.name: SPEC})
