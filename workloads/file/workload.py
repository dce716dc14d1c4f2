"""The workload file: YAML in, validated objects out, and errors that name file, line, key and what is allowed.

A workload file says *what* the writers do, never where it runs. ``docs/workload-file.md`` is its reference. Seed and file together
determine every operation of every writer (``workloads.generator``).

Names of operations, tables, faults and metrics are looked up here. Those of catalogs and anomalies belong to parts that stand above this
one: whoever runs a file reads it by ``harness.run.resolve``, which looks these up, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_serializer, model_validator
from pydantic_core import PydanticKnownError

from nemesis.faults.fault import Fault
from nemesis.faults.fields import OF_A_CLUSTER
from nemesis.faults.lengths import Seconds, WholeSeconds
from nemesis.faults.packages import PACKAGES
from workloads.backoff import ICEBERGS_POLICY, POLICIES, Backoff, RetryLimits
from workloads.engines.engine import Pooled
from workloads.engines.engines import ENGINES, SPARK
from workloads.file import own_kinds, tableproperties
from workloads.file.anomalies import Entries, tables_problems
from workloads.file.assertions import METRICS, Threshold, wrong
from workloads.file.meant import suggest, unknown
from workloads.file.mode import QUICK, Cluster, Mode, Session
from workloads.file.order import OrderText
from workloads.file.yamlfile import (
    FileError,
    KeyPath,
    Lines,
    LookUp,
    Problem,
    entries,
    nothing,
    read_text,
    refuse,
    validated,
)
from workloads.operations.keys import Keys
from workloads.operations.kind import STAGES
from workloads.operations.kinds import KINDS, KindError
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
    def _one(self) -> Length:
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


MIN_WAIT = "commit.retry.min-wait-ms"


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
        said = RetryLimits.of(properties)
        if self.policy == ICEBERGS_POLICY:
            return Backoff(ICEBERGS_POLICY, said)
        own = RetryLimits()
        wait = own.min_wait_ms if self.base is None else self.base * 1000
        most = own.max_wait_ms if self.cap is None else self.cap * 1000
        return Backoff(self.policy, replace(said, min_wait_ms=wait, max_wait_ms=most))


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
        left = dict(phase.writers)
        found = []
        for n, name in enumerate(self.engines):
            if left.get(name, 0) > 0:
                left[name] -= 1
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


def _option_problems(kind: str, options: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each of ``options`` that operations of this kind do not take, and the message."""
    takes = ["weight", "keys", "tables", *KINDS[kind].options]
    for option in options:
        if option not in takes:
            yield option, f"{option}: {kind} has no such option{suggest(option, takes)}; allowed: {', '.join(takes)}"


def names_in(data: Any) -> Iterator[Problem]:
    """Names in the plain data of a workload file that mean nothing, whatever else is wrong with it."""
    for at, mix in (*entries(data, "operations"), *entries(data, "phases", "*", "operations")):
        for kind, spec in mix.items() if isinstance(mix, dict) else ():
            if kind in KINDS:
                for option, problem in _option_problems(kind, spec if isinstance(spec, dict) else ()):
                    yield ((*at, kind, option), problem)
            elif own_kinds.SEPARATOR not in kind:
                yield ((*at, kind), unknown("operation", kind, KINDS))
    for at, name in entries(data, "nemesis", "packages", "*"):
        if isinstance(name, str) and name not in PACKAGES:
            yield (at, unknown("package", name, PACKAGES))
    for _, thresholds in entries(data, "assert"):
        yield from _metric_problems(thresholds if isinstance(thresholds, dict) else {})
    yield from raw_property_problems(data)


def raw_property_problems(data: Any) -> Iterator[Problem]:
    """As :func:`property_problems`, of the plain data of a file; the format version is not compared."""
    for at, properties in entries(data, "tables", "*", "properties"):
        texts = {k: v for k, v in properties.items() if isinstance(v, str)} if isinstance(properties, dict) else {}
        for name, message in tableproperties.problems(texts, None):
            yield ((*at, name), message)


def _metric_problems(thresholds: Mapping[str, Any]) -> Iterator[Problem]:
    for metric, threshold in thresholds.items():
        if metric not in METRICS:
            yield (("assert", metric), unknown("metric", metric, METRICS))
        elif isinstance(threshold, str) and (problem := wrong(metric, threshold)) is not None:
            yield (("assert", metric), problem)


W = TypeVar("W", bound=Workload)


def shape(text: str, file: str = "<workload>", look_up: LookUp = nothing) -> tuple[Workload, Lines]:
    """:func:`shape_of` a workload file."""
    return shape_of(Workload, text, file, look_up)


def shape_of(root: type[W], text: str, file: str, look_up: LookUp = nothing) -> tuple[W, Lines]:
    """Parse the text of a workload file and check types but not names; also the line of each key.

    Args:
        root: what the file holds.
        look_up: finds further names that mean nothing if something is wrong with the types.

    Raises:
        WorkloadError: every problem, each with file, line and key.
    """
    found = validated(root, text, file, look_up=lambda data: (*names_in(data), *look_up(data)))
    return _with_own_kinds(*found, file)


def _with_own_kinds(w: W, lines: Lines, file: str) -> tuple[W, Lines]:
    """The workload with kinds given as ``module:Class`` imported, and called by their names.

    Raises:
        WorkloadError: one cannot be imported, or has another's name.
    """
    problems: list[Problem] = []
    names: dict[str, str] = {}
    by_name: dict[KeyPath, int] = {}

    def named(mix: Mix, at: KeyPath) -> Mix:
        out: Mix = {}
        for key, spec in mix.items():
            name = key
            if own_kinds.SEPARATOR in key:
                try:
                    name = own_kinds.load(key, Path(file).parent)
                    if names.setdefault(name, key) != key:
                        raise KindError(f"has the name {name}, which {names[name]} has; give it another")
                except KindError as e:
                    problems.append(((*at, key), f"{key}: {e}"))
                below = {p: n for p, n in lines.items() if p[: len(at) + 1] == (*at, key)}
                by_name.update({(*at, name, *p[len(at) + 1 :]): n for p, n in below.items()})
            if name in out:
                problems.append(((*at, key), f"{key}: operation {name} is there twice; keep one"))
            out[name] = spec
        return out

    operations = named(w.operations, ("operations",))
    phases = tuple(
        p
        if p.operations is None
        else p.model_copy(update={"operations": named(p.operations, ("phases", i, "operations"))})
        for i, p in enumerate(w.phases)
    )
    refuse(problems, lines, file)
    if not names:
        return w, lines
    return w.model_copy(update={"operations": operations, "phases": phases}), {**lines, **by_name}


def parse(text: str, file: str = "<workload>") -> Workload:
    """Parse the text of a workload file; ``file`` names it in errors.

    Raises:
        WorkloadError: every problem, each with file, line and key.
    """
    workload, lines = shape(text, file)
    refuse(problems(workload), lines, file)
    return workload


def problems(w: Workload) -> Iterator[Problem]:
    """Names in a workload that mean nothing, and numbers of writers that it has not. Catalogs and anomalies are not looked up."""
    names = [t.name for t in w.tables]
    for i, name in enumerate(names):
        if name in names[:i]:
            yield (("tables", i, "name"), f"table {name!r} is defined twice; give each its own name")
    yield from property_problems(w.tables)
    mixes: list[tuple[KeyPath, Mix, tuple[str, ...] | None]] = [(("operations",), w.operations, None)]
    mixes += [
        (("phases", i, "operations"), p.operations, p.tables)
        for i, p in enumerate(w.phases)
        if p.operations is not None
    ]
    for at, mix, of_phase in mixes:
        for kind, spec in mix.items():
            if kind not in KINDS:
                yield ((*at, kind), unknown("operation", kind, KINDS))
                continue
            known = {*(spec.tables or of_phase or ())} <= {*names}
            if (
                KINDS[kind].two_tables
                and known
                and (problem := _two_tables(w, kind, spec.tables or of_phase or tuple(names)))
            ):
                yield ((*at, kind), problem)
            for option, problem in _option_problems(kind, spec.options()):
                yield ((*at, kind, option), problem)
            if not spec.tables and spec.tables is not None:
                yield ((*at, kind, "tables"), "tables: names no table; leave the key out for all tables")
            for i, t in enumerate(spec.tables or ()):
                if t not in names:
                    yield ((*at, kind, "tables", i), f"tables: unknown table {t!r}; allowed: {', '.join(names)}")
        if not any(s.weight for s in mix.values()):
            yield (at, "operations: every weight is 0; give at least one operation a weight")
    for i, p in enumerate(w.phases):
        if p.name in ("setup", "final-reads") or p.name in [q.name for q in w.phases[:i]]:
            yield (("phases", i, "name"), f"name: phase {p.name!r} is defined twice; give each phase its own name")
        for j, t in enumerate(p.tables or ()):
            if t not in names:
                yield (("phases", i, "tables", j), f"tables: unknown table {t!r}; allowed: {', '.join(names)}")
        if p.tables == ():
            yield (("phases", i, "tables"), "tables: names no table; leave the key out for all tables")
        yield from _phase_writers(w, i, p)
    for n in w.clocks:
        if n < w.writers and isinstance(ENGINES.get(w.engines[n]), Pooled):
            yield (
                ("clocks", str(n)),
                f"clocks: writer {n} is a {w.engines[n]}, which shares a process, and its clock, with others; leave it out",
            )
        if n >= w.writers:
            yield (("clocks", str(n)), f"clocks: there is no writer {n}; the workload has {w.writers}, from 0")
    yield from tables_problems("expect", w.expect, names)
    yield from tables_problems("allow", w.allow, names)
    for i, entry in enumerate(w.allow):
        if entry in w.expect:
            yield (
                ("allow", i),
                f"allow: {entry} is in expect, too; keep it in expect if it must be found, in allow if it may be",
            )
    yield from _engine_problems(w)
    yield from _backoff_problems(w)
    yield from _nemesis_problems(w)
    yield from _cluster_problems(w)
    yield from _metric_problems(w.assertions)


def _phase_writers(w: Workload, i: int, p: Phase) -> Iterator[Problem]:
    """More writers in a phase than the workload has."""
    at: KeyPath = ("phases", i, "writers")
    if isinstance(p.writers, int) and p.writers > w.writers:
        yield (at, f"writers: the workload has only {w.writers}; raise writers at the top")
    elif isinstance(p.writers, dict):
        for name, n in p.writers.items():
            if n > (there := w.engines.count(name)):
                yield (
                    (*at, name),
                    f"writers: the workload has {f'only {there}' if there else 'no writer'} of {name}; raise writers at the top",
                )


def _engine_problems(w: Workload) -> Iterator[Problem]:
    """Engines that do not exist, and engines that can do none of the operations that they would be given."""
    for name in dict.fromkeys(w.engines):
        if name not in ENGINES:
            yield (("writers", name), f"writers: {unknown('engine', name, ENGINES)}")
    tables = {t.name: t for t in w.tables}
    for phase in w.resolved_phases():
        wanted = {
            k: spec.tables or phase.tables or tuple(tables)
            for k, spec in (phase.operations or {}).items()
            if spec.weight
        }
        if not wanted.keys() <= KINDS.keys() or not all({*among} <= {*tables} for among in wanted.values()):
            continue  # said elsewhere
        present = [name for name in dict.fromkeys(w.engines[n] for n in w.members(phase)) if name in ENGINES]
        idle = [k for k in wanted if present and not any(_can(name, k, wanted[k], tables) for name in present)]
        for kind in idle:
            others = [name for name in ENGINES if _can(name, kind, wanted[kind], tables)]
            formats = KINDS[kind].formats
            of_format = {tables[t].format for t in wanted[kind]} & formats
            other_format = "" if of_format else f"; it is for tables of format {' or '.join(sorted(formats))}"
            yield (
                ("operations", kind),
                f"operations: no writer of phase {phase.name} can do {kind} on {', '.join(wanted[kind])}; engines that can: "
                f"{', '.join(others) or 'none'}{other_format}",
            )
        for name in present:
            if len(idle) < len(wanted) and not any(_can(name, k, among, tables) for k, among in wanted.items()):
                can = [k for k in KINDS if any(ENGINES[name].can(k, t) for t in w.tables)]
                yield (
                    ("writers", name),
                    f"writers: {name} can do none of the operations of phase {phase.name}: {', '.join(wanted)}; it can do "
                    f"{', '.join(can) or 'nothing on these tables'}",
                )


def _can(engine: str, f: str, among: tuple[str, ...], tables: Mapping[str, TableSpec]) -> bool:
    """Whether an engine can do a kind of operation on one of the tables."""
    return any(ENGINES[engine].can(f, tables[t]) for t in among)


def _backoff_problems(w: Workload) -> Iterator[Problem]:
    """A policy that does not exist, or that would not be followed."""
    given = w.backoff
    if given.policy not in POLICIES:
        yield (("backoff",), f"backoff: {unknown('policy', given.policy, POLICIES)}")
        return
    if given.policy == ICEBERGS_POLICY:
        for key in ("base", "cap"):
            if getattr(given, key) is not None:
                yield (
                    ("backoff", key),
                    f"backoff: {key} is of the other policies; Iceberg's own waits are the table's properties commit.retry.*",
                )
        return
    others = [name for name in dict.fromkeys(w.engines) if name in ENGINES and not isinstance(ENGINES[name], Pooled)]
    if others:
        yield (
            ("backoff",),
            f"backoff: {', '.join(others)} cannot follow {given.policy}; leave it out, or give only committers",
        )
    for i, table in enumerate(w.tables):
        if table.properties.get(MIN_WAIT) != "0":
            yield (
                ("tables", i, "properties"),
                f'properties: with backoff {given.policy} the committers wait, so Iceberg must not: add {MIN_WAIT}: "0"',
            )


def property_problems(tables: tuple[TableSpec, ...]) -> Iterator[Problem]:
    """Values of table properties that Iceberg refuses, or takes for others; and a level that Delta refuses."""
    for i, table in enumerate(tables):
        if table.format == DELTA:
            if table.isolation != "serializable":
                yield (("tables", i, "isolation"), "isolation: Delta refuses every other level; write serializable")
            continue
        for name, message in tableproperties.problems(table.properties, table.format_version):
            yield (("tables", i, "properties", name), message)


def property_doubts(tables: tuple[TableSpec, ...]) -> Iterator[Problem]:
    """Table properties that Iceberg does not know. They are no errors: a table may have properties of its own."""
    for i, table in enumerate(tables):
        for name, message in () if table.format == DELTA else tableproperties.doubts(table.properties):
            yield (("tables", i, "properties", name), message)


def _two_tables(w: Workload, kind: str, among: tuple[str, ...]) -> str | None:
    """Why an operation on two tables cannot run; None when it can."""
    if len(set(among)) < 2:
        return f"{kind}: needs two tables, and has only {', '.join(among)}; give it two or more"
    staged = {t.name for t in w.tables if t.properties.get(STAGES) == "true"}
    missing = [t for t in among if t not in staged] if KINDS[kind].writes else []
    if missing:
        return f'{kind}: table {missing[0]} cannot stage a commit; give it properties: {{{STAGES}: "true"}}, or {kind} other tables'
    return None


def _nemesis_problems(w: Workload) -> Iterator[Problem]:
    if w.nemesis is None:
        return
    if not w.nemesis.packages and not w.nemesis.faults:
        yield (("nemesis",), "nemesis: names no fault; give packages, faults or both, or leave the key out")
    for i, name in enumerate(w.nemesis.packages):
        if name not in PACKAGES:
            yield (("nemesis", "packages", i), unknown("package", name, PACKAGES))
    for i, fault in enumerate(w.nemesis.faults):
        at: KeyPath = ("nemesis", "faults", i)
        for n in fault.writers or ():
            if n >= w.writers:
                yield ((*at, "writers"), f"writers: there is no writer {n}; the workload has {w.writers}, from 0")
        if fault.whose not in ("all", "one", *w.engines):
            allowed = ", ".join(("all", "one", *dict.fromkeys(w.engines)))
            yield ((*at, "whose"), f"whose: no writer is {fault.whose}'s; allowed: {allowed}")
        if fault.do is not None and fault.do not in KINDS:
            yield ((*at, "do"), f"do: {unknown('operation', fault.do, KINDS)}")
        elif fault.do is not None and not KINDS[fault.do].in_spark:
            yield ((*at, "do"), f"do: the nemesis's own writer is Spark's, which cannot do {fault.do}")


def _cluster_problems(w: Workload) -> Iterator[Problem]:
    """Faults of processes that a local cluster does not have."""
    if w.cluster != "local" or w.nemesis is None:
        return
    given: list[tuple[KeyPath, str, tuple[Fault, ...]]] = [
        (("packages", i), name, PACKAGES[name].faults) for i, name in enumerate(w.nemesis.packages) if name in PACKAGES
    ]
    given += [(("faults", i, "target"), fault.name, (fault,)) for i, fault in enumerate(w.nemesis.faults)]
    for at, name, faults in given:
        if struck := sorted({f.target for f in faults if f.target in OF_A_CLUSTER}):
            yield (
                ("nemesis", *at),
                f"{at[-1] if isinstance(at[-1], str) else at[0]}: {name} strikes {' and '.join(struck)}, and cluster: local has none; "
                "write cluster: standalone, or leave it out",
            )


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
    raise WorkloadError(f"{name}: no such workload file{suggest(name, library)}; in the library: {', '.join(library)}")


def load(path: Path) -> Workload:
    """Read and validate a workload file.

    Raises:
        WorkloadError: it cannot be read, or has problems.
    """
    return parse(read_text(path), str(path))
