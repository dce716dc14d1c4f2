"""A workload from the text of its file: YAML in, a workload out, and errors that name file, line, key and what is allowed.

Names of operations, tables, faults and metrics are looked up here. Those of catalogs and anomalies belong to parts that stand above this
one: whoever runs a file reads it by ``harness.run.resolve``, which looks these up, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import yaml

from nemesis.faults.fault import Fault
from nemesis.faults.fields import OF_A_CLUSTER
from nemesis.faults.packages import PACKAGES
from workloads.backoff import ICEBERGS_POLICY, POLICIES
from workloads.engines.engine import Pooled
from workloads.engines.engines import ENGINES, SPARK
from workloads.file import engineproperties, own_kinds, tableproperties
from workloads.file.anomalies import tables_problems
from workloads.file.assertions import METRICS, wrong
from workloads.file.meant import suggest, unknown, unknown_package
from workloads.file.workload import KeySpec, Mix, Phase, Workload
from workloads.file.yamlfile import (
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
from workloads.operations.kind import STAGES, Arguments, Draw
from workloads.operations.kinds import KINDS, KindError
from workloads.tables import DELTA, TableSpec

MIN_WAIT = "commit.retry.min-wait-ms"


def _option_problems(kind: str, options: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each of ``options`` that operations of this kind do not take, and the message."""
    takes = ["weight", "keys", "tables", *KINDS[kind].options]
    for option in options:
        if option not in takes:
            yield option, f"{option}: {kind} has no such option{suggest(option, takes)}; allowed: {', '.join(takes)}"


def names_in(data: Any) -> Iterator[Problem]:
    """Names in the plain data of a workload file that mean nothing, whatever else is wrong with it."""
    for key, mix in (*entries(data, "operations"), *entries(data, "phases", "*", "operations")):
        for kind, spec in mix.items() if isinstance(mix, dict) else ():
            if kind in KINDS:
                for option, problem in _option_problems(kind, spec if isinstance(spec, dict) else ()):
                    yield ((*key, kind, option), problem)
            elif own_kinds.SEPARATOR not in kind:
                yield ((*key, kind), unknown("operation", kind, KINDS))
    for key, name in entries(data, "nemesis", "packages", "*"):
        if isinstance(name, str) and name not in PACKAGES:
            yield (key, unknown_package(name))
    for _, thresholds in entries(data, "assert"):
        yield from _metric_problems(thresholds if isinstance(thresholds, dict) else {})
    yield from raw_property_problems(data)


def arguments_problem(kind: str, value: Arguments, table: TableSpec) -> str | None:
    """Why an operation of this kind cannot run with these arguments, with an example of some that do; None when it can."""
    try:
        KINDS[kind].touches(value, table)
        KINDS[kind].statements(value, "w0-0", table)
    except (KeyError, IndexError, TypeError, ValueError) as e:
        wrong = f"{e.args[0]} is missing" if isinstance(e, KeyError) else f"{type(e).__name__}: {e}"
        draw = Draw(random.Random(0), KeySpec().keys(), 0, table, False, {}, (table.name,))
        example = yaml.safe_dump(dict(KINDS[kind].arguments(draw)), default_flow_style=True, width=1000).strip()
        return f"value: not the arguments of {kind}: {wrong}; write such as value: {example}"
    return None


def raw_property_problems(data: Any) -> Iterator[Problem]:
    """As :func:`property_problems`, of the plain data of a file; the format version is not compared."""
    for key, properties in entries(data, "tables", "*", "properties"):
        texts = {k: v for k, v in properties.items() if isinstance(v, str)} if isinstance(properties, dict) else {}
        for name, message in tableproperties.problems(texts, None):
            yield ((*key, name), message)


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

    def named(mix: Mix, key_path: KeyPath) -> Mix:
        out: Mix = {}
        for key, spec in mix.items():
            name = key
            if own_kinds.SEPARATOR in key:
                try:
                    name = own_kinds.load(key, Path(file).parent)
                    if names.setdefault(name, key) != key:
                        raise KindError(f"has the name {name}, which {names[name]} has; give it another")
                except KindError as e:
                    problems.append(((*key_path, key), f"{key}: {e}"))
                below = {p: n for p, n in lines.items() if p[: len(key_path) + 1] == (*key_path, key)}
                by_name.update({(*key_path, name, *p[len(key_path) + 1 :]): n for p, n in below.items()})
            if name in out:
                problems.append(((*key_path, key), f"{key}: operation {name} is there twice; keep one"))
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
    yield from _mix_problems(w, ("operations",), w.operations, None)
    for i, p in enumerate(w.phases):
        if p.operations is not None:
            yield from _mix_problems(w, ("phases", i, "operations"), p.operations, p.tables)
    for i, p in enumerate(w.phases):
        yield from _phase_problems(w, i, p)
    yield from _clock_problems(w)
    yield from tables_problems("expect", w.expect, names)
    yield from tables_problems("allow", w.allow, names)
    for i, entry in enumerate(w.allow):
        if entry in w.expect:
            yield (
                ("allow", i),
                f"allow: {entry} is in expect, too; keep it in expect if it must be found, in allow if it may be",
            )
    yield from engineproperties.property_problems(w.catalog_properties)
    # The points of an experiment are made with all fields, so one that is the default may not be the file's.
    if w.guard != Workload.model_fields["guard"].default and w.delta_guard is None:
        yield (
            ("guard",),
            f"guard: no table is a Delta table, whose commits {w.guard} could guard; leave it out, or write format: delta at a table "
            f"(for this run only: --format delta --guard {w.guard})",
        )
    yield from _engine_problems(w)
    yield from _backoff_problems(w)
    yield from _nemesis_problems(w)
    yield from _cluster_problems(w)
    yield from _metric_problems(w.assertions)


def _mix_problems(w: Workload, key: KeyPath, mix: Mix, of_phase: tuple[str, ...] | None) -> Iterator[Problem]:
    """Operations, options and tables that do not exist in a mix. ``of_phase``: the tables of its phase, if that names some."""
    names = [t.name for t in w.tables]
    for kind, spec in mix.items():
        if kind not in KINDS:
            yield ((*key, kind), unknown("operation", kind, KINDS))
            continue
        known = {*(spec.tables or of_phase or ())} <= {*names}
        if (
            KINDS[kind].two_tables
            and known
            and (problem := _two_tables(w, kind, spec.tables or of_phase or tuple(names)))
        ):
            yield ((*key, kind), problem)
        for option, problem in _option_problems(kind, spec.options()):
            yield ((*key, kind, option), problem)
        if not spec.tables and spec.tables is not None:
            yield ((*key, kind, "tables"), "tables: names no table; leave the key out for all tables")
        for i, t in enumerate(spec.tables or ()):
            if t not in names:
                yield ((*key, kind, "tables", i), f"tables: unknown table {t!r}; allowed: {', '.join(names)}")
    if not any(s.weight for s in mix.values()):
        yield (key, "operations: every weight is 0; give at least one operation a weight")


def _phase_problems(w: Workload, i: int, p: Phase) -> Iterator[Problem]:
    """What is wrong with the i-th phase besides its mix."""
    names = [t.name for t in w.tables]
    if p.name in ("setup", "final-reads") or p.name in [q.name for q in w.phases[:i]]:
        yield (("phases", i, "name"), f"name: phase {p.name!r} is defined twice; give each phase its own name")
    for j, t in enumerate(p.tables or ()):
        if t not in names:
            yield (("phases", i, "tables", j), f"tables: unknown table {t!r}; allowed: {', '.join(names)}")
    if p.tables == ():
        yield (("phases", i, "tables"), "tables: names no table; leave the key out for all tables")
    yield from _phase_writers(w, i, p)


def _clock_problems(w: Workload) -> Iterator[Problem]:
    """Clocks of writers that do not exist or that have none of their own."""
    for n in w.clocks:
        if n < w.writers and isinstance(ENGINES.get(w.engines[n]), Pooled):
            yield (
                ("clocks", str(n)),
                f"clocks: writer {n} is a {w.engines[n]}, which shares a process, and its clock, with others; leave it out",
            )
        if n >= w.writers:
            yield (("clocks", str(n)), f"clocks: there is no writer {n}; the workload has {w.writers}, from 0")


def _phase_writers(w: Workload, i: int, p: Phase) -> Iterator[Problem]:
    """More writers in a phase than the workload has."""
    key: KeyPath = ("phases", i, "writers")
    if isinstance(p.writers, int) and p.writers > w.writers:
        yield (key, f"writers: the workload has only {w.writers}; raise writers at the top")
    elif isinstance(p.writers, dict):
        for name, n in p.writers.items():
            if n > (count := w.engines.count(name)):
                yield (
                    (*key, name),
                    f"writers: the workload has {f'only {count}' if count else 'no writer'} of {name}; raise writers at the top",
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
            yield (("nemesis", "packages", i), unknown_package(name))
    for i, fault in enumerate(w.nemesis.faults):
        key: KeyPath = ("nemesis", "faults", i)
        for n in fault.writers or ():
            if n >= w.writers:
                yield ((*key, "writers"), f"writers: there is no writer {n}; the workload has {w.writers}, from 0")
        if fault.whose not in ("all", "one", *w.engines):
            allowed = ", ".join(("all", "one", *dict.fromkeys(w.engines)))
            yield ((*key, "whose"), f"whose: no writer is {fault.whose}'s; allowed: {allowed}")
        if fault.do is not None and fault.do not in KINDS:
            yield ((*key, "do"), f"do: {unknown('operation', fault.do, KINDS)}")
        elif fault.do is not None and not KINDS[fault.do].in_spark:
            yield ((*key, "do"), f"do: the nemesis's own writer is Spark's, which cannot do {fault.do}")
        elif fault.do is not None and fault.value:  # without one it is drawn
            able = [t for t in w.tables if ENGINES[SPARK].can(fault.do, t)]
            refused = filter(None, (arguments_problem(fault.do, fault.value, t) for t in able))
            yield from (((*key, "value"), message) for message in islice(refused, 1))


def _cluster_problems(w: Workload) -> Iterator[Problem]:
    """Faults of processes that a local cluster does not have."""
    if w.cluster != "local" or w.nemesis is None:
        return
    given: list[tuple[KeyPath, str, tuple[Fault, ...]]] = [
        (("packages", i), name, PACKAGES[name].faults) for i, name in enumerate(w.nemesis.packages) if name in PACKAGES
    ]
    given += [(("faults", i, "target"), fault.name, (fault,)) for i, fault in enumerate(w.nemesis.faults)]
    for key, name, faults in given:
        if struck := sorted({f.target for f in faults if f.target in OF_A_CLUSTER}):
            yield (
                ("nemesis", *key),
                f"{key[-1] if isinstance(key[-1], str) else key[0]}: {name} strikes {' and '.join(struck)}, and cluster: local has none; "
                "write cluster: standalone, or leave it out",
            )


def load(path: Path) -> Workload:
    """Read and validate a workload file.

    Raises:
        WorkloadError: it cannot be read, or has problems.
    """
    return parse(read_text(path), str(path))
