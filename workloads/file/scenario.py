"""The scenario file: one known defect, or the promise beside it, as operations in a fixed order and the outcome that they must show.

A workload file says what the writers do and leaves the order to luck. A scenario names every operation, who invokes it, after
what, and at which moment its commit is let through or answered wrongly (``nemesis.proxy.board``). Operations are the kinds of
``workloads.operations.kind``, never plain SQL: a statement without a meaning could not be judged by the checkers.
``docs/scenarios.md`` is its reference. Names of catalogs and anomalies are looked up by ``harness.run.resolve``, by which whoever runs
a scenario reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nemesis.faults.fault import Fault
from nemesis.faults.fields import RequestKind, Service
from nemesis.faults.lengths import Seconds
from nemesis.faults.registry import VERBS
from nemesis.faults.verb import RequestVerb
from workloads.engines.delta_rs import RELEASE_PROPERTY, DeltaRs
from workloads.engines.engines import ENGINES, SPARK
from workloads.file import engineproperties, filekinds, workload_text
from workloads.file import workload as schema
from workloads.file.anomalies import Entries, tables_problems
from workloads.file.meant import suggest, unknown
from workloads.file.mode import QUICK, Cluster, Mode, Session
from workloads.file.workload import Length, OperationSpec, Workload, WorkloadError
from workloads.file.yamlfile import KeyPath, Lines, LookUp, Problem, entries, nothing, read_text, refuse, validated
from workloads.operations.kinds import KINDS
from workloads.tables import DELTA, ICEBERG, GuardName, TableSpec

Moment = Literal["held", "completed"]
"""Moments of an operation: its commit is at the gate (or was applied there, when a fault answers it), its writer has the outcome."""

SoftwareName = Literal["iceberg", "delta", "deltalake"]
DELTALAKE: SoftwareName = "deltalake"
"""The package of delta-rs."""
SOFTWARE_TITLES: Mapping[str, str] = {ICEBERG: "Iceberg", DELTA: "Delta Lake", DELTALAKE: DELTALAKE}
"""Software whose releases a scenario may be about → its name."""

MOST_REPEATED = 100_000

MOST_NAME = 40
"""Characters of a name."""
NAME = rf"^[a-z][a-z0-9-]{{0,{MOST_NAME - 1}}}$"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExpectedEnd(_Model):
    """How an operation must end: its type, and for an error a class in its chain (last part) and a part of its message."""

    type: Literal["ok", "fail", "info"] = "ok"
    error: str | None = None
    message: str = ""


def _outcome(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


def _fault(value: object) -> object:
    return {"verb": "answer"} | value if isinstance(value, dict) else value


AT_A_GATE = frozenset(name for name, verb in VERBS.items() if verb.one_request)
"""Verbs that strike one request."""

When = Annotated[dict[str, Moment], Field(min_length=1)]


class ScenarioStep(_Model):
    """One operation. A writer invokes its operations in the order of the file.

    Attributes:
        name: how the other steps refer to it.
        writer: 0 … 7.
        do: its kind of operation.
        table: the first table by default.
        value: its arguments, as in the history.
        after: steps and moments that it waits for before it is invoked.
        hold: steps and moments until which its first commit is held.
        fault: what happens to its first commit (``answer`` when no verb is given: it is applied, then answered with an error).
        kill: whether its writer's process is killed at the end of ``hold``, before the commit goes on or the fault is told; the writer is
            replaced before its next operation.
        at: the kind of request to hold or fault, if not the commit.
        nth: which of its requests of that kind, from 1. A transfer first stages two commits, then publishes them.
        service: the service that the request goes to; ``database``: the catalog server's own.
        expect: how it must end.
    """

    name: Annotated[str, Field(pattern=NAME)]
    writer: Annotated[int, Field(ge=0, le=7)]
    do: str
    table: str | None = None
    value: dict[str, Any] = {}
    after: When | None = None
    hold: When | None = None
    fault: Annotated[Fault, BeforeValidator(_fault)] | None = None
    kill: bool = False
    at: RequestKind = "commit"
    nth: Annotated[int, Field(ge=1, le=100)] = 1
    service: Service = "catalog"
    expect: Annotated[ExpectedEnd, BeforeValidator(_outcome)] = ExpectedEnd()

    @property
    def gated(self) -> bool:
        """Whether the gate stops its commit."""
        return self.hold is not None or self.fault is not None or self.kill

    @property
    def late(self) -> bool:
        """Whether its writer has the answer before the catalog has the commit."""
        verb = None if self.fault is None else self.fault.action
        return isinstance(verb, RequestVerb) and verb.answers_first


class Scenario(_Model):
    """A whole scenario file. See ``docs/scenarios.md``.

    Attributes:
        headline: what it shows, as one short sentence of plain words that can follow “Reproduced:”; see :attr:`shows`.
        state: what has become of the defect since, in a few words, such as ``open``; None: nobody looked, or ``fixed`` says it.
        remedy: what a user can do about the defect, one sentence; empty if nothing is known, or nothing is needed.
        anomalies: that must be found; ``allow``: that may be found, too.
        catalog: the catalog that it is about.
        catalog_properties: more catalog properties for every writer, such as ``cache-enabled``.
        guard: what guards the commits of its Delta tables.
        software: whose versions ``since`` and ``fixed`` are.
        since: the first version that has the defect or keeps the promise; none when all do.
        fixed: the first version without the defect; none while all have it.
        engines: writer → its engine; the others are Spark's.
        session, cluster: how Spark runs its operations (:mod:`workloads.file.mode`).
        final: table → ids of its final rows, one for each row; or that nobody can read it, or that its content does not matter.
        repeat: how often each writer does its operations, one after the other, each time with other ids (:mod:`workloads.file.repeated`):
            for a defect that shows rarely. It is reproduced if its anomalies show at all; how an operation ends does not matter.
        showed: how often it showed when the file was written, in words.
        seen: name of an anomaly → what was seen of it when the file was written.
    """

    scenario: Annotated[str, Field(pattern=NAME)]
    headline: Annotated[str, Field(max_length=100)] = ""
    description: Annotated[str, Field(min_length=1)]
    link: Annotated[str, Field(pattern=r"^https://\S+$")]
    affected: Annotated[str, Field(min_length=1)]
    state: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    remedy: str = ""
    catalog: str = "rest"
    catalog_properties: dict[str, str] = {}
    guard: GuardName = "s3-conditional"
    software: SoftwareName = ICEBERG
    since: Annotated[str, Field(pattern=r"^\d+(\.\d+)*$")] | None = None
    fixed: Annotated[str, Field(pattern=r"^\d+(\.\d+)*$")] | None = None
    tables: Annotated[tuple[TableSpec, ...], Field(min_length=1, max_length=8)]
    engines: dict[Annotated[int, Field(ge=0, le=7)], str] = {}
    operations: Annotated[tuple[ScenarioStep, ...], Field(min_length=1, max_length=50)]
    anomalies: Entries = ()
    allow: Entries = ()
    final: Annotated[dict[str, tuple[int, ...] | Literal["unreadable", "unchecked"]], Field(min_length=1)]
    op_timeout: Seconds = 90.0
    session: Session = QUICK.session
    cluster: Cluster = QUICK.cluster
    repeat: Annotated[int, Field(ge=1, le=MOST_REPEATED)] = 1
    showed: str = ""
    seen: dict[str, str] = {}

    @property
    def writers(self) -> int:
        """How many writers it needs."""
        return 1 + max(s.writer for s in self.operations)

    @property
    def mode(self) -> Mode:
        """Session and cluster."""
        return Mode(self.session, self.cluster)

    @property
    def by_writer(self) -> tuple[str, ...]:
        """The engine of each writer."""
        return tuple(self.engines.get(n, SPARK) for n in range(self.writers))

    @property
    def shows(self) -> str:
        """Its headline; the first sentence of its description if it has none."""
        return self.headline or self.description.partition(". ")[0].rstrip(".")

    def runs_on(self, software: str) -> bool:
        """Whether its operations run on the release of this software that a command names. Iceberg is in every session."""
        if software == DELTALAKE:
            return DeltaRs.name in self.by_writer and RELEASE_PROPERTY not in self.catalog_properties
        return software != DELTA or (SPARK in self.by_writer and any(t.format == DELTA for t in self.tables))

    def table(self, step: ScenarioStep) -> TableSpec:
        """The table of a step."""
        return next((t for t in self.tables if t.name == step.table), self.tables[0])

    def op(self, name: str) -> str:
        """The operation id of a step: a writer's seeding inserts come first (``workloads.generator.seed_rows``)."""
        step = next(s for s in self.operations if s.name == name)
        spark = [n for n, name in enumerate(self.by_writer) if name == SPARK]
        seeded = [t for t in self.tables if t.seed_rows]
        seeding = len(seeded[spark.index(step.writer) :: len(spark)]) if step.writer in spark else 0
        own = [s.name for s in self.operations if s.writer == step.writer]
        return f"w{step.writer}-{seeding + own.index(name)}"

    def workload(self) -> Workload:
        """The scenario as a workload; the caller puts its operations in order."""
        return Workload.model_validate(
            {
                "workload": self.scenario,
                "description": self.description,
                "catalog": self.catalog,
                "catalog_properties": self.catalog_properties,
                "guard": self.guard,
                "tables": self.tables,
                "writers": self.by_writer,
                "length": Length(ops=len(self.operations) * self.repeat),
                "op_timeout": self.op_timeout,
                "session": self.session,
                "cluster": self.cluster,
                "operations": {s.do: OperationSpec() for s in self.operations},
                "expect": self.anomalies,
                "allow": self.allow,
            }
        )


def names_in(data: Any) -> Iterator[Problem]:
    """Names in the plain data of a scenario file that mean nothing, whatever else is wrong with it."""
    for key, kind in entries(data, "operations", "*", "do"):
        if isinstance(kind, str) and kind not in KINDS:
            yield (key, f"do: {unknown('operation', kind, KINDS)}")
    yield from workload_text.raw_property_problems(data)


def shape(text: str, file: str = "<scenario>", look_up: LookUp = nothing) -> tuple[Scenario, Lines]:
    """Parse the text of a scenario file and check types but not names; also the line of each key.

    Args:
        look_up: finds further names that mean nothing if something is wrong with the types.

    Raises:
        WorkloadError: every problem, each with file, line and key.
    """
    return validated(Scenario, text, file, look_up=lambda data: (*names_in(data), *look_up(data)))


def parse(text: str, file: str = "<scenario>") -> Scenario:
    """Parse the text of a scenario file; ``file`` names it in errors.

    Raises:
        WorkloadError: every problem, each with file, line and key.
    """
    scenario, lines = shape(text, file)
    refuse(problems(scenario), lines, file)
    return scenario


def problems(s: Scenario) -> Iterator[Problem]:
    """Names in a scenario that mean nothing, and steps that wait for what never comes. Catalogs and anomalies are not looked up."""
    tables = [t.name for t in s.tables]
    names = [o.name for o in s.operations]
    for i, name in enumerate(names):
        if name in names[:i]:
            yield (("operations", i, "name"), f"operation {name!r} is defined twice; give each its own name")
    yield from workload_text.property_problems(s.tables)
    yield from engineproperties.property_problems(s.catalog_properties)
    for i, o in enumerate(s.operations):
        yield from _step_problems(s, ("operations", i), o, tables)
    for n, name in s.engines.items():
        if name not in ENGINES:
            yield (("engines", str(n)), f"engines: {unknown('engine', name, ENGINES)}")
        elif n >= s.writers:
            yield (("engines", str(n)), f"engines: no operation is writer {n}'s; the writers are 0 to {s.writers - 1}")
    if s.repeat > 1:
        yield from _repeat_problems(s)
    yield from tables_problems("anomalies", s.anomalies, tables)
    yield from tables_problems("allow", s.allow, tables)
    for table in s.final:
        if table not in tables:
            yield (("final", table), f"final: unknown table {table!r}; allowed: {', '.join(tables)}")
    if len(names) == len(set(names)):
        waits = list(_wait_problems(s))
        yield from waits
        if not waits and (stuck := _stuck(s)):
            yield (("operations",), f"operations: {', '.join(stuck)} can never end: they wait for each other")


def _step_problems(s: Scenario, key: KeyPath, o: ScenarioStep, tables: Sequence[str]) -> Iterator[Problem]:
    """What is wrong with one operation, beside what it waits for."""
    if o.do not in KINDS:
        yield ((*key, "do"), f"do: {unknown('operation', o.do, KINDS)}")
        return
    name = s.by_writer[o.writer]
    if name in ENGINES and not ENGINES[name].can(o.do, s.table(o)):
        can = ", ".join(k for k in KINDS if ENGINES[name].can(k, s.table(o)))
        yield ((*key, "do"), f"do: {name} cannot do {o.do} on {s.table(o).name}; it can do {can or 'nothing there'}")
    if o.table is not None and o.table not in tables:
        yield ((*key, "table"), f"table: unknown table {o.table!r}; allowed: {', '.join(tables)}")
    if (wrong := workload_text.arguments_problem(o.do, o.value, s.table(o))) is not None:
        yield ((*key, "value"), wrong)
    if o.fault is not None and o.fault.verb not in AT_A_GATE:
        yield (
            (*key, "fault", "verb"),
            f"verb: {o.fault.verb} does not fault a single request; allowed: {', '.join(sorted(AT_A_GATE))}",
        )
    if o.fault is not None and o.late and o.hold is None:
        yield (
            (*key, "fault", "verb"),
            f"{o.fault.verb}: needs hold, such as {{{o.name}: completed}}: until when the commit is late",
        )
    if o.kill and o.late:
        verb = o.fault.verb if o.fault else ""
        yield (
            (*key, "kill"),
            f"kill: {verb} answers {o.name} before it is held, so its writer may be further by then",
        )


def _repeat_problems(s: Scenario) -> Iterator[Problem]:
    """What a scenario that is repeated cannot have."""
    for i, o in enumerate(s.operations):
        for key in ("after", "hold", "fault", "kill"):
            if getattr(o, key):
                yield (("operations", i, key), f"{key}: does not go with repeat; leave out one of them")
    for table, rows in s.final.items():
        if rows not in ("unchecked", "unreadable"):
            yield (("final", table), "final: does not go with repeat; write unchecked")


def _wait_problems(s: Scenario) -> Iterator[Problem]:
    names = [o.name for o in s.operations]
    gated = [o.name for o in s.operations if o.gated]
    for i, o in enumerate(s.operations):
        place: KeyPath = ("operations", i)
        for key, when in (("after", o.after), ("hold", o.hold)):
            for other, moment in (when or {}).items():
                itself = other == o.name and not (key == "hold" and o.late)
                if itself or other not in names:
                    others = ", ".join(n for n in names if n != o.name) or "none"
                    yield ((*place, key, other), f"{key}: no other operation {other!r}; allowed: {others}")
                elif moment == "held" and other not in gated:
                    yield (
                        (*place, key, other),
                        f"{key}: {other} has no hold, fault or kill, so it never waits at the gate",
                    )


def _stuck(s: Scenario) -> list[str]:
    """Names of the steps that never complete, because ``after``, ``hold`` and the writers' order form a cycle."""
    reached: set[tuple[str, str]] = set()

    def happened(when: Mapping[str, str] | None) -> bool:
        return all((name, moment) in reached for name, moment in (when or {}).items())

    for _ in range(2 * len(s.operations)):
        free: dict[int, bool] = {}
        for o in s.operations:
            begun = free.get(o.writer, True) and happened(o.after)
            if begun and o.gated:
                reached.add((o.name, "held"))
            # A late commit is answered at once: only its effect in the catalog is held.
            if begun and (happened(o.hold) or o.late):
                reached.add((o.name, "completed"))
            free[o.writer] = (o.name, "completed") in reached
    return [o.name for o in s.operations if (o.name, "completed") not in reached]


LIBRARY = schema.LIBRARY / "scenarios"
"""The folder of the scenario files that come with icequake."""


def load(path: Path) -> Scenario:
    """Read and validate a scenario file.

    Raises:
        WorkloadError: it cannot be read, or has problems.
    """
    return parse(read_text(path), str(path))


def paths(names: list[str]) -> list[Path]:
    """The files of these scenarios, given by name or path; the whole library, by name, when none is given.

    Raises:
        WorkloadError: a scenario does not exist.
    """
    library = {p.stem: p for p in sorted(LIBRARY.glob("*.yaml"))}
    found = []
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise WorkloadError(f"{', '.join(dict.fromkeys(twice))}: named twice; once is enough, and --times repeats all")
    for name in names or list(library):
        path = library.get(name, Path(name))
        if not path.is_file():
            if (schema.LIBRARY / f"{name}.yaml").is_file():
                raise WorkloadError(f"{name} is a workload, not a scenario; `icequake run {name}` runs it")
            if of_it := [s.scenario for s in of_issue(name)]:
                raise WorkloadError(f"{name} is no scenario but an issue: icequake prove {' '.join(of_it)}")
            if (other := filekinds.refused(path, "a scenario")) is not None:
                raise WorkloadError(other)
            if "/" in name or path.suffix == ".yaml":
                raise WorkloadError(f"{name}: no such file; `icequake list scenarios` has the names of the library")
            raise WorkloadError(
                f"{name}: no such scenario{suggest(name, list(library))}; `icequake list scenarios` has all"
            )
        found.append(path)
    return found


def is_name(name: str) -> bool:
    """Whether this is a scenario of the library, or a file."""
    return (LIBRARY / f"{name}.yaml").is_file() or Path(name).is_file()


_ISSUE = re.compile(
    r"(https?://)?((www\.)?github\.com/)?((?P<where>.+?)(/issues/|/pull/|/browse/|#)|#)?(?P<number>([A-Z]+-)?\d+)([/?#](\D.*)?)?"
)


def of_issue(typed: str) -> list[Scenario]:
    """The library's scenarios whose link is this issue or pull request.

    ``typed``: its address, or its number alone (``15511``, ``#15511``) or with its repository (``iceberg#15511``, ``apache/iceberg#15511``).
    """
    if (wanted := _ISSUE.fullmatch(typed)) is None:
        return []
    where, number = wanted["where"], wanted["number"]
    links = [(s, m) for s in find([]) if (m := _ISSUE.fullmatch(s.link)) is not None and m["number"] == number]
    return [s for s, m in links if where is None or f"/{m['where']}".endswith(f"/{where}")]


def find(names: list[str]) -> list[Scenario]:
    """These scenarios, given by name or path; the whole library, by name, when none is given.

    Raises:
        WorkloadError: a scenario does not exist or has problems.
    """
    return [load(p) for p in paths(names)] if names else [*_library(tuple(paths([])))]


@cache
def _library(files: tuple[Path, ...]) -> tuple[Scenario, ...]:
    """Read once: it takes a second, and an explanation of each of 300 names asks for it."""
    return tuple(map(load, files))
