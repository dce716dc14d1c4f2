"""The workload file as validated objects. :mod:`workloads.file.workload_text` makes them of YAML.

A workload file says *what* the writers do, never where it runs. ``docs/workload-file.md`` is its reference. Seed and file together
determine every operation of every writer (``workloads.generator``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_serializer, model_validator
from pydantic_core import PydanticKnownError

from nemesis.faults.fault import Fault
from nemesis.faults.fields import OF_A_CLUSTER
from nemesis.faults.lengths import Seconds, WholeSeconds
from nemesis.faults.packages import PACKAGES
from workloads.backoff import ICEBERGS_POLICY, Backoff, RetryLimits
from workloads.engines.engines import ENGINES, SPARK
from workloads.file.anomalies import Entries
from workloads.file.assertions import Threshold
from workloads.file.meant import suggest
from workloads.file.mode import QUICK, Cluster, Mode, Session
from workloads.file.order import OrderText
from workloads.file.yamlfile import (
    FileError,
)
from workloads.operations.keys import Keys
from workloads.tables import DELTA, GuardName, TableSpec

WorkloadError = FileError
"""A workload file that cannot be used. One line for each problem: file, line, key, what is wrong and what is allowed."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KeySpec(_Model):
    """How shared keys are drawn: from ``space`` keys, with a Zipf exponent of ``skew`` (0: uniformly)."""

    space: Annotated[int, Field(ge=1, le=1_000_000)] = 16
    skew: Annotated[float, Field(ge=0, le=5)] = 0.0

    def keys(self) -> Keys:
        """The key source for the operations."""
        return Keys(self.space, self.skew)


class Length(_Model):
    """How long a phase lasts: until all writers together invoked ``ops`` operations, or for ``time``; exactly one of the two."""

    ops: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    time: Seconds | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Length:
        if (self.ops is None) == (self.time is None):
            raise ValueError("needs exactly one of: ops, time")
        return self


class OperationSpec(_Model):
    """One line of the mix: a kind's share, whose keys it draws, and its tables (all by default)."""

    weight: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    keys: Literal["shared", "own"] = "shared"
    tables: tuple[str, ...] | None = None
    rows: Annotated[int, Field(ge=1, le=1000)] | None = None
    back: Annotated[int, Field(ge=0, le=1000)] | None = None
    strategy: Literal["binpack", "sort", "zorder"] | None = None
    partial_progress: bool | None = None
    starting_sequence: bool | None = None
    validated: bool | None = None
    retain_last: Annotated[int, Field(ge=1, le=100_000)] | None = None
    columns: Annotated[int, Field(ge=1, le=1000)] | None = None
    types: Annotated[tuple[Literal["int", "bigint", "string", "double"], ...], Field(min_length=1)] | None = None
    properties: Annotated[int, Field(ge=1, le=1000)] | None = None
    older_than: Annotated[WholeSeconds, Field(ge=0, le=1_000_000)] | None = None

    model_config = ConfigDict(extra="allow", frozen=True)  # options of kinds from elsewhere

    def options(self) -> dict[str, Any]:
        """The kind's own options that were given."""
        return {k: v for k, v in self if k not in ("weight", "keys", "tables") and v is not None}


def _weight(value: object) -> object:
    return {"weight": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


MOST_WRITERS = 64


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticKnownError("int_type")
    if value < 1:
        raise PydanticKnownError("greater_than_equal", {"ge": 1})
    if value > MOST_WRITERS:
        raise PydanticKnownError("less_than_equal", {"le": MOST_WRITERS})
    return value


def _of_engine(name: str, value: object) -> int:
    """How many writers one engine has."""
    if isinstance(value, bool):
        raise ValueError(f"{name}: must be a number, not {str(value).lower()}")
    if not isinstance(value, int) or not 0 <= value <= MOST_WRITERS:
        raise ValueError(f"{name}: must be a whole number from 0 to {MOST_WRITERS}, not {value!r}")
    return value


def _head_count(value: object) -> int | dict[str, int]:
    """How many writers: a number, or a number for each engine. It is checked here, for one message instead of one for each form."""
    if not isinstance(value, Mapping):
        return _count(value)
    counts = {str(name): _of_engine(str(name), n) for name, n in value.items()}
    if not 1 <= (total := sum(counts.values())) <= MOST_WRITERS:
        raise ValueError(f"must be 1 to {MOST_WRITERS} in all, not {total}")
    return counts


def _each_engine(value: object) -> object:
    """``4``, ``{spark: 3, duckdb: 1}``, or a list of engines, as the engine of each writer."""
    if isinstance(value, list | tuple):
        if not 1 <= len(value) <= MOST_WRITERS or not all(isinstance(name, str) for name in value):
            raise ValueError(f"must be 1 to {MOST_WRITERS} names of engines, such as [spark, duckdb]")
        return tuple(value)
    counted = _head_count(value)
    counts = counted if isinstance(counted, dict) else {SPARK: counted}
    return tuple(name for name, n in counts.items() for _ in range(n))


HeadCount = Annotated[int | dict[str, int], BeforeValidator(_head_count)]

Mix = dict[str, Annotated[OperationSpec, BeforeValidator(_weight)]]


class Phase(_Model):
    """A stretch of the run. ``operations``, ``rate`` and ``writers`` default to the workload's; ``tables``: for operations that name no
    table, all by default. ``writers``: the first so many, or how many of each engine (:meth:`Workload.members`).
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
    length: Length
    operations: Mix | None = None
    rate: Annotated[float, Field(gt=0, le=1e6)] | None = None
    writers: HeadCount | None = None
    tables: tuple[str, ...] | None = None


class Nemesis(_Model):
    """What goes wrong while the writers work. See ``docs/nemesis.md``.

    Attributes:
        packages: names in ``nemesis.faults.packages``.
        faults: further faults.
        interval: mean seconds from the end of a fault to the start of the next; drawn from half to one and a half times it.
        duration: seconds that a fault lasts, unless the fault gives its own.
    """

    packages: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    interval: Seconds = 5.0
    duration: Seconds = 5.0

    def all(self) -> tuple[Fault, ...]:
        """The packages' faults, then the further faults."""
        return (*(f for p in self.packages for f in PACKAGES[p].faults), *self.faults)

    @property
    def strikes_cluster(self) -> bool:
        """Whether a fault strikes a process of Spark's cluster."""
        return any(f.target in OF_A_CLUSTER for f in self.all())


class BackoffSpec(_Model):
    """How committers wait after a refused commit (``workloads.backoff``).

    Attributes:
        policy: ``iceberg``: Iceberg's client waits as the table's properties ``commit.retry.*`` say. With any other policy the committer
            waits, and the table's ``commit.retry.min-wait-ms`` must be 0. In any case the table says how often.
        base, cap: seconds; as ``commit.retry.min-wait-ms`` and ``max-wait-ms``.
    """

    policy: str = ICEBERGS_POLICY
    base: Seconds | None = None
    cap: Seconds | None = None

    def of(self, properties: Mapping[str, str]) -> Backoff:
        """The policy on a table with these properties."""
        limits = RetryLimits.of(properties)
        if self.policy == ICEBERGS_POLICY:
            return Backoff(ICEBERGS_POLICY, limits)
        own = RetryLimits()
        wait = own.min_wait_ms if self.base is None else self.base * 1000
        most = own.max_wait_ms if self.cap is None else self.cap * 1000
        return Backoff(self.policy, replace(limits, min_wait_ms=wait, max_wait_ms=most))


def _policy(value: object) -> object:
    return {"policy": value} if isinstance(value, str) else value


def _shift(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("must be a shift of the clock with a unit, such as +1h or -30s")
    return value


class Workload(_Model):
    """A whole workload file. See ``docs/workload-file.md``.

    Attributes:
        backoff: of committers.
        seed_own_keys: whether each table gets a row for each own key of each writer before the first phase.
        guard: what guards the commits of its Delta tables.
        swap_latency: seconds by which each request that moves a table's pointer reaches the catalog later.
        order: who decides the order of the writers' requests (:mod:`workloads.file.order`); None: nobody.
        engines: the engine of each writer; in a file ``writers: 4`` (of Spark's) or ``writers: {spark: 3, duckdb: 1}``.
        session, cluster: how Spark runs the statements of its writers (:mod:`workloads.file.mode`).
    """

    workload: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
    description: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    catalog: str = "rest"
    catalog_properties: dict[str, str] = {}
    tables: Annotated[tuple[TableSpec, ...], Field(min_length=1, max_length=64)]
    engines: Annotated[tuple[str, ...], Field(alias="writers"), BeforeValidator(_each_engine)] = (SPARK,) * 4
    session: Session = "spark"
    cluster: Cluster = "standalone"
    keys: KeySpec = KeySpec()
    length: Length | None = None
    rate: Annotated[float, Field(gt=0, le=1e6)] | None = None
    op_timeout: Seconds = 120.0
    seed_own_keys: bool = False
    backoff: Annotated[BackoffSpec, BeforeValidator(_policy)] = BackoffSpec()
    guard: GuardName = "s3-conditional"
    swap_latency: Annotated[Seconds, Field(ge=0, le=60)] = 0.0
    operations: Annotated[Mix, Field(min_length=1)]
    phases: Annotated[tuple[Phase, ...], Field(max_length=100)] = ()
    nemesis: Nemesis | None = None
    clocks: dict[
        Annotated[int, Field(ge=0, le=63)], Annotated[str, Field(pattern=r"^[+-]\d+[smhd]$"), BeforeValidator(_shift)]
    ] = {}
    expect: Entries = ()
    allow: Entries = ()
    stop_when: Literal["unreadable"] | None = None
    order: OrderText | None = None
    assertions: Annotated[dict[str, Threshold], Field(alias="assert")] = {}

    @field_serializer("engines")
    def _as_written(self, engines: tuple[str, ...]) -> int | list[str]:
        return len(engines) if {*engines} <= {SPARK} else list(engines)

    @property
    def writers(self) -> int:
        """How many writers there are, of all engines."""
        return len(self.engines)

    @property
    def delta_guard(self) -> GuardName | None:
        """What guards the commits of its Delta tables; None if it has none."""
        return self.guard if any(t.format == DELTA for t in self.tables) else None

    @property
    def mode(self) -> Mode:
        """Session and cluster."""
        return Mode(self.session, self.cluster)

    @property
    def quick_mode(self) -> Mode:
        """The quickest mode that its faults allow."""
        return replace(QUICK, cluster="standalone") if self.nemesis and self.nemesis.strikes_cluster else QUICK

    def in_mode(self, mode: Mode) -> Self:
        """The workload with another session and cluster."""
        return self.model_copy(update={"session": mode.session, "cluster": mode.cluster})

    def members(self, phase: Phase) -> tuple[int, ...]:
        """The writers that take part in a phase: the first so many of all, or of each engine."""
        if not isinstance(phase.writers, dict):
            return tuple(range(phase.writers or self.writers))
        wanted = dict(phase.writers)
        found = []
        for n, name in enumerate(self.engines):
            if wanted.get(name, 0) > 0:
                wanted[name] -= 1
                found.append(n)
        return tuple(found)

    def resolved_phases(self) -> tuple[Phase, ...]:
        """The phases with every value filled in; one called ``main`` when the file has only ``length``."""
        phases = self.phases or (Phase(name="main", length=self.length or Length(ops=1)),)
        return tuple(
            p.model_copy(
                update={
                    "operations": p.operations or self.operations,
                    "rate": p.rate or self.rate,
                    "writers": p.writers or self.writers,
                }
            )
            for p in phases
        )

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        if self.length is not None and self.phases:
            raise ValueError("give either length or phases (each phase has its own length), not both")
        if self.length is None and not self.phases:
            raise ValueError("needs length, such as {ops: 200} or {time: 2m}, or phases")
        return self


LIBRARY = Path(__file__).parents[1]
"""The folder of the workload files that come with icequake."""


def find(name: str) -> Path:
    """The file that ``name`` means: a path, or the name of a workload in the library (``quick``).

    Raises:
        WorkloadError: neither exists; the message lists the library.
    """
    path = Path(name)
    if path.is_file():
        return path
    for candidate in (LIBRARY / f"{name}.yaml", LIBRARY / path.name):
        if candidate.is_file() and (path.parent == Path() or path.parent.name == "workloads"):
            return candidate
    if (LIBRARY / "scenarios" / f"{name}.yaml").is_file():
        raise WorkloadError(f"{name} is a scenario, not a workload; `icequake prove {name}` runs it")
    if name in ENGINES:
        writers = "spark=2" if name == SPARK else f"spark=1,{name}=1"
        raise WorkloadError(
            f"{name} is an engine, not a workload; `icequake run quick --writers {writers}` lets it write"
        )
    library = sorted(p.stem for p in LIBRARY.glob("*.yaml"))
    if not name:
        raise WorkloadError(f"the name of the workload is empty; in the library: {', '.join(library)}")
    if path.is_dir():
        raise WorkloadError(
            f"{name} is a folder; give a workload file, or one of the library ({', '.join(library)}); "
            f"`icequake check {name}` judges a stored run"
        )
    raise WorkloadError(f"{name}: no such workload file{suggest(name, library)}; in the library: {', '.join(library)}")
