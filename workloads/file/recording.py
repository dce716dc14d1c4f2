"""A recording: what a run did, as data: its operations, the order of their requests, and what its faults struck. A replay forces it again.

As a file, ``recording.json``, it is JSON that people may read and shorten. A request is written as ``w3-17 commit 2``: the second commit of
operation ``w3-17`` (:class:`nemesis.order.moment.Moment`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from nemesis.faults.fault import Fault
from nemesis.order.moment import Moment
from workloads.file.opened import too_deep
from workloads.file.workload import Workload
from workloads.file.workload_text import problems
from workloads.file.yamlfile import FileError, KeyPath, Problem, read_text, refuse, validated

FORMAT = 1
FILE = "recording.json"


@dataclass(frozen=True, slots=True)
class RecordedOperation:
    """An operation as it was invoked.

    Attributes:
        op: its id in the recorded run.
        writer: who invoked it; the one after the workload's last is the nemesis's own (phase ``nemesis``).
        f: its kind. ``value``: its arguments, as the history has them.
        after: of each other writer, the last operation that had completed when this one was invoked, if there was one.
    """

    op: str
    writer: int
    f: str
    table: str
    value: Mapping[str, Any]
    phase: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedFault:
    """A fault and what it struck.

    Attributes:
        struck: of a fault of requests: those that it struck; a replay strikes the same ones. Empty for other faults.
        after: of any other fault: the last request that had passed when it began; None: none had. ``fault.duration`` is how long it lasted.
        target: the process that it struck, or for maintenance the operation that it invoked; None: nothing.
    """

    fault: Fault
    struck: tuple[Moment, ...] = ()
    after: Moment | None = None
    target: str | None = None

    @property
    def of_requests(self) -> bool:
        """Whether it strikes the requests of ``struck``, and not a process, a connection or the table."""
        return bool(self.struck)


@dataclass(frozen=True, slots=True)
class Recording:
    """A run as data.

    Attributes:
        workload: resolved; it says the seed rows, too.
        seed: of the run.
        catalog: the name of its catalog.
        operations: in the order of their invocations; each writer invokes its own in this order. Without the seed rows and the final reads.
        order: the order in which loads, commits and locks were answered. A request that a fault sent later (``late``) stands there twice:
            where its writer was answered, and where the service got it.
        faults: in the order in which they began.
    """

    workload: Workload
    seed: int
    catalog: str
    operations: tuple[RecordedOperation, ...]
    order: tuple[Moment, ...]
    faults: tuple[RecordedFault, ...] = ()

    def only(self, ops: Collection[str]) -> Recording:
        """The recording of these operations: without the others, their moments, and faults of requests that would strike nothing.

        An operation or a fault that came after something that goes comes after what was before that.
        """
        kept = {*ops}
        writers = {o.op: o.writer for o in self.operations}
        before: dict[str, str | None] = {}  # an operation that goes → the last one of its writer that stays
        last: dict[int, str] = {}
        for o in self.operations:
            if o.op in kept:
                last[o.writer] = o.op
            else:
                before[o.op] = last.get(o.writer)
        operations = tuple(
            replace(o, after=tuple(a for name in o.after if (a := before.get(name, name)) is not None))
            for o in self.operations
            if o.op in kept
        )
        order = tuple(m for m in self.order if m.op in kept)
        passed: dict[Moment, Moment | None] = {}  # a moment that goes → the last one before it that stays
        so_far: Moment | None = None
        for m in self.order:
            if m.op in kept:
                so_far = m
            else:
                passed[m] = so_far
        faults = []
        for fault in self.faults:
            struck = tuple(m for m in fault.struck if m.op in kept)
            dropped = fault.target in writers and fault.target not in kept  # the operation of the nemesis
            if dropped or (fault.of_requests and not struck):
                continue
            after = fault.after if fault.after is None else passed.get(fault.after, fault.after)
            faults.append(replace(fault, struck=struck, after=after))
        return replace(self, operations=operations, order=order, faults=tuple(faults))

    def to_json(self) -> str:
        """The text of ``recording.json``: one operation, moment or fault a line."""
        operations = [_without_empty(_operation(o), "after") for o in self.operations]
        faults = [
            _without_empty(
                {
                    "fault": f.fault.plain(),
                    "struck": [str(m) for m in f.struck],
                    "after": None if f.after is None else str(f.after),
                    "target": f.target,
                },
                "struck",
                "after",
                "target",
            )
            for f in self.faults
        ]
        workload = self.workload.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return (
            f'{{"format": {FORMAT}, "seed": {self.seed}, "catalog": {json.dumps(self.catalog)},\n'
            f'"workload": {json.dumps(workload, ensure_ascii=False)},\n'
            f'"operations": {_lines(operations)},\n'
            f'"order": {_lines([str(m) for m in self.order])},\n'
            f'"faults": {_lines(faults)}}}\n'
        )

    @staticmethod
    def from_json(text: str, file: str = FILE) -> Recording:
        """The inverse of ``to_json``; ``file`` names it in errors.

        Raises:
            FileError: every problem, each with file, line, key and what is allowed.
        """
        try:  # JSON is read much faster than YAML, which knows the lines
            parsed = _File.model_validate(json.loads("" if too_deep(text.encode()) else text))
            found: list[Problem] = [*_problems(parsed)]
        except (ValidationError, ValueError, RecursionError):
            found = [((), "")]
        if found:
            parsed, lines = validated(_File, text, file, example="a recording that icequake wrote", written=False)
            refuse(_problems(parsed), lines, file)
        return Recording(
            parsed.workload,
            parsed.seed,
            parsed.catalog,
            tuple(RecordedOperation(**{name: getattr(o, name) for name in _NAMES}) for o in parsed.operations),
            parsed.order,
            tuple(RecordedFault(f.fault, f.struck, f.after, f.target) for f in parsed.faults),
        )


def read(path: Path) -> Recording:
    """Read a ``recording.json``.

    Raises:
        FileError: it cannot be read, or something in it is wrong.
    """
    return Recording.from_json(read_text(path), str(path))


def _operation(o: RecordedOperation) -> dict[str, Any]:
    return {name: getattr(o, name) for name in _NAMES}


def _without_empty(record: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {k: v for k, v in record.items() if k not in keys or v}


def _lines(items: Iterable[Any]) -> str:
    inside = ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    return f"[\n{inside}]" if inside else "[]"


# -- the file ------------------------------------------------------------------------------------------------------------


def _moment(value: object) -> Moment:
    if isinstance(value, Moment):
        return value
    if not isinstance(value, str):
        raise ValueError(f"must be a request such as 'w3-17 commit 2', not {value!r}")
    return Moment.parse(value)


_Moment = Annotated[Moment, BeforeValidator(_moment)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _OperationLine(_Part):
    op: Annotated[str, Field(pattern=r"^\S+$")]
    writer: Annotated[int, Field(ge=0, le=64)]
    f: str
    table: str
    value: dict[str, Any]
    phase: str
    after: tuple[str, ...] = ()


_NAMES = tuple(_OperationLine.model_fields)


class _FaultLine(_Part):
    fault: Fault
    struck: tuple[_Moment, ...] = ()
    after: _Moment | None = None
    target: str | None = None


class _File(_Part):
    format: Literal[1]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    catalog: str
    workload: Workload
    operations: tuple[_OperationLine, ...]
    order: tuple[_Moment, ...]
    faults: tuple[_FaultLine, ...] = ()


def _problems(file: _File) -> Iterable[Problem]:
    """Names in a recording that mean nothing, and operations that nobody can invoke."""
    for inside, message in problems(file.workload):
        yield (("workload", *inside), message)
    yield from _of_operations(file)
    yield from _of_unknown_operations(file)


def _of_operations(file: _File) -> Iterable[Problem]:
    """Operations that nobody can invoke."""
    tables = {t.name for t in file.workload.tables}
    phases = {p.name for p in file.workload.resolved_phases()}
    known: set[str] = set()
    for i, o in enumerate(file.operations):
        key: KeyPath = ("operations", i)
        if o.op in known:
            yield ((*key, "op"), f"op: operation {o.op} is there twice; keep one")
        known.add(o.op)
        if o.table not in tables:
            yield ((*key, "table"), f"table: unknown table {o.table!r}; allowed: {', '.join(sorted(tables))}")
        if o.phase not in (*phases, "nemesis"):
            yield ((*key, "phase"), f"phase: unknown phase {o.phase!r}; allowed: {', '.join(sorted(phases))}, nemesis")
        if o.writer > file.workload.writers or (o.writer == file.workload.writers and o.phase != "nemesis"):
            yield (
                (*key, "writer"),
                f"writer: there is no writer {o.writer}; the workload has {file.workload.writers}, from 0",
            )


def _of_unknown_operations(file: _File) -> Iterable[Problem]:
    """Places that name an operation that the recording lacks, and requests that cannot be ordered."""
    known = {o.op for o in file.operations}
    for i, o in enumerate(file.operations):
        for j, op in enumerate(o.after):
            if op not in known:
                yield (("operations", i, "after", j), f"after: there is no operation {op}")
    for i, moment in enumerate(file.order):
        if moment.op not in known:
            yield (("order", i), f"order: there is no operation {moment.op}")
        elif not moment.can_be_ordered:
            what = "loads, commits and locks of the catalog, reads and deletes of the store"
            yield (("order", i), f"order: {moment}: only {what} have an order")
    for i, fault in enumerate(file.faults):
        for j, moment in enumerate(fault.struck):
            if moment.op not in known:
                yield (("faults", i, "struck", j), f"struck: there is no operation {moment.op}")


__all__ = ["FILE", "FORMAT", "FileError", "Moment", "RecordedFault", "RecordedOperation", "Recording", "read"]
