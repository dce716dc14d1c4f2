"""What a command line changes of a workload: writers, operations, faults, length and mode. The one place that applies them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, get_args

from nemesis.faults.lengths import seconds
from nemesis.faults.packages import PACKAGES
from workloads.engines.engines import ENGINES
from workloads.file.meant import unknown, unknown_package
from workloads.file.workload import MOST_WRITERS, Length, Mix, Nemesis, OperationSpec, Phase, Workload
from workloads.operations.kinds import KINDS
from workloads.tables import TableFormatName

P = TypeVar("P", bound=Phase)

NONE, OWN = "none", "own"
"""Faults of a cell: none at all; those of the workload file."""
AND = "+"
"""Joins packages that are on together: ``lost-acks+crashes``."""


class ChangeError(ValueError):
    """An option that does not fit the workload; the message begins with the option."""


@dataclass(frozen=True)
class Changes:
    """Options that change a workload, as they are typed; None: the file's.

    Attributes:
        writers: their number, or how many of each engine: ``spark=3,duckdb=1``.
        operations: the only kinds of operations, separated by commas.
        faults: packages of faults in place of the file's, separated by commas.
        ops: the length in operations.
        time: the length as a time, ``90s``.
        session, cluster: the mode.
        format: the format of all tables; operations that it does not have are left out.
        guard: what guards the commits of Delta tables.
        catalog_property: properties of the catalog for every writer, each ``KEY=VALUE``, besides the file's or in place of them.
        no_nemesis: no faults at all.
    """

    writers: str | None = None
    operations: str | None = None
    faults: str | None = None
    ops: int | None = None
    time: str | None = None
    session: str | None = None
    cluster: str | None = None
    format: str | None = None
    guard: str | None = None
    catalog_property: Sequence[str] | None = None
    no_nemesis: bool = False

    def __str__(self) -> str:
        """The options with values, as they are typed."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "no_nemesis"}
        each = ((name, [value] if isinstance(value, str | int) else value or ()) for name, value in given.items())
        return " ".join(f"--{name.replace('_', '-')} {value}" for name, values in each for value in values)

    def on(self, workload: Workload) -> Workload:
        """The workload with these changes; whether they fit the rest of it is not looked at.

        Raises:
            ChangeError: an option is wrong, or two of them exclude each other.
        """
        if self.ops is not None and self.time is not None:
            raise ChangeError("--ops and --time: give one of them")
        if self.format is not None:
            workload = of_format(workload, self.format)
        if self.operations is not None:
            workload = workload.model_copy(update=only(workload, names(self.operations)))
        if self.faults is not None:
            workload = with_faults(workload, AND.join(self._packages(names(self.faults))))
        update: dict[str, Any] = {"nemesis": None} if self.no_nemesis else {}
        update |= {k: v for k in ("session", "cluster", "guard") if (v := getattr(self, k)) is not None}
        if self.catalog_property:
            update["catalog_properties"] = {**workload.catalog_properties, **_properties(self.catalog_property)}
        if self.writers is not None:
            engines = _engines(self.writers, workload.engines)
            update |= {"engines": engines, "phases": tuple(_fewer(p, engines) for p in workload.phases)}
        if (length := self._length()) is not None:
            update |= {"length": length, "phases": ()}
        if self.guard is not None and workload.delta_guard is None:
            raise ChangeError(
                f"--guard {self.guard}: {workload.workload} has no Delta table whose commits it could guard; leave it out, or "
                "give --format delta"
            )
        return workload.model_copy(update=update)

    def _length(self) -> Length | None:
        if self.time is None:
            return None if self.ops is None else Length(ops=self.ops)
        try:
            return Length(time=seconds(self.time))
        except ValueError as e:
            raise ChangeError(f"--time {self.time}: {e}") from None

    def _packages(self, packages: Sequence[str]) -> Sequence[str]:
        if self.no_nemesis:
            raise ChangeError("--faults and --no-nemesis: give one of them")
        for name in packages:
            if name not in PACKAGES:
                raise ChangeError(f"--faults {name}: {unknown_package(name)}")
        return packages


def with_faults(workload: Workload, faults: str) -> Workload:
    """The workload with the faults of packages (``lost-acks+crashes``), without any (``none``), or as it is (``own``).

    How long faults take and how often they come stays as the file says.
    """
    if faults == OWN:
        return workload
    if faults == NONE:
        return workload.model_copy(update={"nemesis": None})
    paces = {} if workload.nemesis is None else {k: getattr(workload.nemesis, k) for k in ("interval", "duration")}
    return workload.model_copy(update={"nemesis": Nemesis(packages=tuple(faults.split(AND)), **paces)})


def of_format(workload: Workload, name: str) -> Workload:
    """The workload on tables of another format, partitioned, with the operations that can be done there. The table properties of a file are
    those of its own format.

    Raises:
        ChangeError: there is no such format, or an operation that is left has none of the tables.
    """
    known: tuple[TableFormatName, ...] = get_args(TableFormatName)
    if (format := next((k for k in known if k == name), None)) is None:
        raise ChangeError(f"--format {name}: {unknown('table format', name, known)}")
    given: dict[str, Any] = {"format": format, "partitioned": True, "isolation": "serializable", "properties": {}}
    tables = tuple(t if t.format == format else t.model_copy(update=given) for t in workload.tables)
    changed = tuple(p.model_copy(update={"operations": _instead(p.operations, format)}) for p in workload.phases)
    mix = _instead(workload.operations, format) or workload.operations
    workload = workload.model_copy(update={"operations": mix, "phases": changed})
    able = [k for p in workload.resolved_phases() for k in p.operations or () if format in KINDS[k].formats]
    return workload.model_copy(update={"tables": tables, **only(workload, able, f"--format {name}")})


def _instead(mix: Mix | None, format: TableFormatName) -> Mix | None:
    """A mix in which other kinds of the same purpose stand for those that a format does not have."""
    if mix is None:
        return None
    out: Mix = {}
    for kind, spec in mix.items():
        other = KINDS[kind].instead.get(format, kind)
        plain = OperationSpec(weight=spec.weight, keys=spec.keys, tables=spec.tables)
        out.setdefault(other, spec if other == kind else plain)
    return out


def names(text: str) -> list[str]:
    """The names in a text that separates them by commas."""
    return [name.strip() for name in text.split(",")]


def counted(engines: Sequence[str]) -> str:
    """Writers with these engines as ``--writers`` gives them: ``spark=3,duckdb=1``."""
    return ",".join(f"{name}={engines.count(name)}" for name in dict.fromkeys(engines))


def _engines(text: str, now: Sequence[str]) -> tuple[str, ...]:
    """The engine of each writer as ``--writers`` gives them; a plain number keeps the one engine that the file has (``now``)."""
    found: list[str] = []
    given: set[str] = set()
    parts = text.split(",")
    for part in parts:
        name, equals, number = part.strip().rpartition("=")
        if not number.isdecimal() or (len(parts) > 1 and not equals):
            raise ChangeError(f"--writers {text}: give a number, or how many of each engine: spark=3,duckdb=1")
        if not equals and len({*now}) > 1:
            raise ChangeError(
                f"--writers {text}: the file has several engines; say how many of each, such as {counted(now)}"
            )
        if equals and name not in ENGINES:
            raise ChangeError(f"--writers {text}: {unknown('engine', name, ENGINES)}")
        if name in given:
            raise ChangeError(f"--writers {text}: {name} is given twice")
        given.add(name)
        found += [name if equals else now[0]] * min(int(number), MOST_WRITERS + 1)
    if not 1 <= len(found) <= MOST_WRITERS:
        raise ChangeError(f"--writers {text}: must be 1 to {MOST_WRITERS} in all")
    return tuple(found)


def _properties(texts: Sequence[str]) -> dict[str, str]:
    """The properties that ``--catalog-property`` gives."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise ChangeError(f"--catalog-property {text}: give KEY=VALUE, such as cache-enabled=false")
        if key in found:
            raise ChangeError(f"--catalog-property {key}: is given twice")
        found[key] = value
    return found


def _fewer(phase: P, engines: Sequence[str]) -> P:
    """A phase with no more writers than there are, as far as it has a number of its own."""
    if isinstance(phase.writers, dict):
        remaining = {name: min(n, engines.count(name)) for name, n in phase.writers.items()}
        return phase.model_copy(update={"writers": {k: n for k, n in remaining.items() if n} or None})
    return phase.model_copy(update={"writers": min(phase.writers, len(engines))}) if phase.writers else phase


def only(workload: Workload, kinds: Sequence[str], option: str = "") -> dict[str, Any]:
    """The changes to a workload that leave only some of its kinds of operations; ``option``: what asks for it, as it is typed.

    Raises:
        ChangeError: it has none of them, or not all.
    """
    phases = workload.resolved_phases()
    have = list(dict.fromkeys(k for p in phases for k in p.operations or ()))
    for kind in kinds:
        if kind not in have:
            raise ChangeError(f"--operations {kind}: {unknown('operation of this file', kind, have)}")

    def remaining(mix: Mix | None) -> Mix | None:
        return mix and {k: spec for k, spec in mix.items() if k in kinds}

    for p in phases:
        if not any(spec.weight for spec in (remaining(p.operations) or {}).values()):
            raise ChangeError(
                f"{option or '--operations ' + ','.join(kinds)}: leaves phase {p.name} without any operation"
            )
    changed = tuple(p.model_copy(update={"operations": remaining(p.operations)}) for p in workload.phases)
    return {"operations": remaining(workload.operations) or workload.operations, "phases": changed}
