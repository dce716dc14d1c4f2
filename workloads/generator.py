"""The generator: seed and workload in, each writer's operations out.

Every writer has its own random stream, seeded by (seed, phase, writer). What it draws never depends on earlier outcomes, on time, or
on the other writers. So two runs of one seed invoke the same operations, writer by writer, whatever the interleaving and the
outcomes; a phase limited by time invokes a prefix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from workloads.file.workload import Phase, Workload
from workloads.operations.kind import Arguments, Draw
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec


@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """An operation for a writer to invoke: its kind's name, its table and its arguments."""

    f: str
    table: TableSpec
    value: Arguments


def share(total: int, writers: int, writer: int) -> int:
    """How many of ``total`` operations ``writer`` (0 … writers-1) gets: equal shares, and the first writers take the remainder."""
    return total // writers + (writer < total % writers)


def operations(workload: Workload, phase: Phase, writer: int, seed: int) -> Iterator[PlannedOperation]:
    """The operations of one writer in one resolved phase, in order; infinite when the phase's length is a time."""
    assert phase.operations is not None and phase.writers is not None
    rng = Random(f"{seed}/{phase.name}/{writer}")
    kinds = [k for k, spec in phase.operations.items() if spec.weight > 0]
    weights = [phase.operations[k].weight for k in kinds]
    tables = {t.name: t for t in workload.tables}
    keys = workload.keys.keys()
    n = 0
    while phase.length.ops is None or n < share(phase.length.ops, phase.writers, writer):
        kind = rng.choices(kinds, weights)[0]
        spec = phase.operations[kind]
        among = spec.tables or phase.tables or tuple(tables)
        table = tables[rng.choice(among)]
        others = tuple(t for t in among if t != table.name)
        draw = Draw(rng, keys, writer, table, spec.keys == "own", spec.options(), others)
        yield PlannedOperation(kind, table, KINDS[kind].arguments(draw))
        n += 1


def seed_rows(workload: Workload) -> list[PlannedOperation]:
    """The inserts that fill the tables before the first phase: one for each table that has ``seed_rows``."""
    return [PlannedOperation("insert", t, {"ids": list(range(t.seed_rows))}) for t in workload.tables if t.seed_rows]


def final_reads(workload: Workload) -> list[PlannedOperation]:
    """The reads that end the run: one of each whole table."""
    return [PlannedOperation("read", t, {}) for t in workload.tables]
