"""The generator: seed and workload in, each writer's operations out.

Every writer has its own random stream, seeded by (seed, phase, writer). What it draws never depends on earlier outcomes, on time, or
on the other writers. So two runs of one seed invoke the same operations, writer by writer, whatever the interleaving and the
outcomes; a phase limited by time invokes a prefix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from workloads.engines.engines import ENGINES
from workloads.file.workload import Phase, Workload
from workloads.operations.alterations import Upgrade
from workloads.operations.keys import OWN_KEYS, own_key
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
    """The operations of one writer in one resolved phase, in order; infinite when the phase's length is a time.

    It draws from what its engine can do, and nothing if that is nothing.
    """
    assert phase.operations is not None
    members, engine = workload.members(phase), ENGINES[workload.engines[writer]]
    rng = Random(f"{seed}/{phase.name}/{writer}")
    tables = {t.name: t for t in workload.tables}
    later = _upgraded(workload, phase)
    able = {
        k: tuple(
            t
            for t in spec.tables or phase.tables or tuple(tables)
            if engine.can(k, tables[t]) and (t not in later or engine.can(k, later[t]))
        )
        for k, spec in phase.operations.items()
        if spec.weight > 0
    }
    kinds = [k for k, among in able.items() if among]
    weights = [phase.operations[k].weight for k in kinds]
    keys = workload.keys.keys()
    n = 0
    while kinds and (phase.length.ops is None or n < share(phase.length.ops, len(members), members.index(writer))):
        kind = rng.choices(kinds, weights)[0]
        spec, among = phase.operations[kind], able[kind]
        table = tables[rng.choice(among)]
        others = tuple(t for t in among if t != table.name)
        draw = Draw(rng, keys, writer, table, spec.keys == "own", spec.options(), others)
        yield PlannedOperation(kind, table, KINDS[kind].arguments(draw))
        n += 1


def _upgraded(workload: Workload, phase: Phase) -> dict[str, TableSpec]:
    """The tables that this phase or one before it upgrades, by name, as they are then: what an engine cannot do on such a table would fail from
    some moment on, each time."""
    tables, found = {t.name: t for t in workload.tables}, dict[str, TableSpec]()
    for p in workload.resolved_phases():
        spec = (p.operations or {}).get(Upgrade.name)
        for t in (spec.tables or p.tables or tuple(tables)) if spec is not None and spec.weight > 0 else ():
            found[t] = tables[t].model_copy(update={"format_version": 3})
        if p.name == phase.name:
            break
    return found


def seed_rows(workload: Workload) -> list[PlannedOperation]:
    """The inserts that fill the tables before the first phase: one for each table that has ``seed_rows``.

    Rows of own keys come with them, or, in a table without partitions, by an insert for each writer: so each writer has files of its own.
    """
    planned = []
    for t in workload.tables:
        own = [[own_key(w, n) for n in range(OWN_KEYS)] for w in range(workload.writers) if workload.seed_own_keys]
        together = [*range(t.seed_rows), *(k for keys in own for k in keys if t.partitioned)]
        apart = [] if t.partitioned else own
        planned += [PlannedOperation("insert", t, {"ids": ids}) for ids in (together, *apart) if ids]
    return planned


def final_reads(workload: Workload) -> list[PlannedOperation]:
    """The reads that end the run: one of each whole table."""
    return [PlannedOperation("read", t, {}) for t in workload.tables]
