"""Which pairs a workload can exercise, and how rare those of a workload still are.

The pairs follow from the plan: the kinds of operations of each phase, the tables and engines that can do them, and how the tables are made. A
pair needs two writers. Left out is what cannot be:

* no second attempt of a schema change, of an engine that does not retry, of Spark on a table whose ``commit.retry.num-retries`` is 0;
* no ``same file`` of two operations that only add files, no ``same row`` of operations on own keys of a writer, no partition of an
  unpartitioned table;
* rows and files of operations that have none (``whole table``).

It is an upper bound. Some pairs of it need a moment that no run may meet, so it is a measure to compare nights by, and no goal of 100 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from checkers.coverage.footprint import only_adds, rewrites_files
from checkers.coverage.pair import PHASES, PLACEMENTS, Pair, Phase, Placement, TableSetup, label
from checkers.evidence.plan import Plan, PlannedPhase
from workloads.engines.engines import SPARK, engine_of
from workloads.file.workload import Workload
from workloads.operations.kind import Kind
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

NUM_RETRIES = "commit.retry.num-retries"


@dataclass(frozen=True, slots=True)
class KindByEngine:
    """A kind of operation that writers of an engine do; ``own``: on keys that each writer has for itself; ``writers``: how many do it."""

    kind: Kind
    engine: str
    own: bool = False
    writers: int = 1

    @property
    def label(self) -> str:
        """As in a :class:`Pair`."""
        return label(self.kind.name, self.engine)


def scripted(plan: Plan) -> bool:
    """Whether a scenario or a cell of the matrix says which operations run, and when. Such a run can exercise what it did exercise."""
    return bool((plan.model_extra or {}).get("scenario")) or plan.workload == "matrix"


def possible(plan: Plan) -> frozenset[Pair]:
    """The pairs that the workload of a plan can exercise; empty if it has one writer, or names no tables."""
    engines = Counter(plan.engines) or Counter({SPARK: plan.writers or 0})
    out: set[Pair] = set()
    for phase in plan.phases:
        for table in plan.tables or ():
            if phase.tables is None or table.name in phase.tables:
                out.update(of_table(table, list(_actors(phase, table, engines))))
    return frozenset(out)


def of_workload(workload: Workload) -> frozenset[Pair]:
    """The pairs that a workload can exercise, as :func:`possible` says of its plan."""
    phases = [p.model_dump(exclude_none=True, exclude={"writers"}) for p in workload.resolved_phases()]
    tables = [t.model_dump() for t in workload.tables]
    fields = {"tables": tables, "writers": workload.writers, "engines": list(workload.engines), "phases": phases}
    return possible(Plan.model_validate(fields))


def _actors(phase: PlannedPhase, table: TableSpec, engines: Mapping[str, int]) -> Iterator[KindByEngine]:
    for name, options in phase.operations.items():
        kind, only = KINDS.get(name), options.get("tables")
        if kind is None or not kind.commits or options.get("weight") == 0:
            continue
        if isinstance(only, list | tuple) and table.name not in only and not kind.two_tables:
            continue
        for engine, writers in engines.items():
            if engine_of(engine).can(name, table):
                yield KindByEngine(kind, engine, options.get("keys") == "own", writers)


def of_table(table: TableSpec, actors: Collection[KindByEngine]) -> frozenset[Pair]:
    """The pairs that these operations can make on a table."""
    setup = TableSetup.of(table)
    out = set()
    for first, second in product(actors, actors):
        if first.engine == second.engine and first.writers < 2:
            continue
        for phase, where in product(phases(first, table), placements(first, second, table)):
            out.add(Pair(first.label, phase, second.label, where, setup))
    return frozenset(out)


def phases(actor: KindByEngine, table: TableSpec) -> tuple[Phase, ...]:
    """The phases that a write can be in."""
    return PHASES if _retries(actor, table) else tuple(p for p in PHASES if p not in ("refused", "retry"))


def _retries(actor: KindByEngine, table: TableSpec) -> bool:
    if actor.engine == SPARK:
        return actor.kind.verb != "alter" and table.properties.get(NUM_RETRIES) != "0"
    commit = engine_of(actor.engine).commits.get(actor.kind.name)
    return commit is None or commit.retries


def placements(first: KindByEngine, second: KindByEngine, table: TableSpec) -> tuple[Placement, ...]:
    """Where the second can work, seen from the first."""
    both = (first.kind, second.kind)
    if not all(k.changes_rows or rewrites_files(k) for k in both):
        return ("whole table",)
    remaining: set[Placement] = {*PLACEMENTS} - {"whole table"}
    rows = all(k.changes_rows for k in both)
    if not rows or first.own or second.own:
        remaining.discard("same row")
    if all(map(only_adds, both)):
        remaining.discard("same file")
    if not table.partitioned:
        remaining.discard("other partition")
    elif rows and (first.own or second.own):
        return ("other partition",)  # own keys have partitions of their own
    return tuple(p for p in PLACEMENTS if p in remaining)


def rarity(cell: Iterable[Pair], seen: Mapping[Pair, int]) -> float:
    """How much a run of a cell would add to what was seen: a weight to draw cells by.

    The mean over the cell's pairs of ``1 / (1 + how often the pair was seen)``: 1 if none was ever seen, near 0 if all were seen often. A
    cell without pairs, such as one with one writer, has 0.

    Args:
        cell: what it can exercise, as :func:`possible` says of a plan.
        seen: pair → how often, in all runs so far (:attr:`checkers.coverage.coverage.Coverage.seen`).
    """
    pairs = list(cell)
    return sum(1 / (1 + seen.get(p, 0)) for p in pairs) / len(pairs) if pairs else 0.0


def rarity_of_kinds(cell: Iterable[Pair], seen: Mapping[Pair, int]) -> dict[str, float]:
    """Operation → the rarity of those pairs of a cell in which it is one of the two: a weight to draw kinds by."""
    found: dict[str, list[float]] = {}
    for p in cell:
        for name in {p.first, p.second}:
            found.setdefault(name, []).append(1 / (1 + seen.get(p, 0)))
    return {name: sum(values) / len(values) for name, values in sorted(found.items())}
