"""Parameters that a sweep varies: what each changes in a workload, and the values that it takes.

A value is kept as it was typed (``50ms``), because that is how it is shown, stored and repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, get_args

from nemesis.faults.lengths import seconds
from workloads.backoff import ICEBERGS_POLICY, POLICIES
from workloads.engines.committer import Committer, MergingCommitter
from workloads.file import tableproperties
from workloads.file.changes import ChangeError, of_format, only
from workloads.file.meant import unknown
from workloads.file.mode import Cluster, Session
from workloads.file.workload import MOST_WRITERS, KeySpec, Workload
from workloads.file.workload_text import MIN_WAIT, problems
from workloads.operations.kinds import KINDS
from workloads.tables import TableFormatName, TableSpec

MAX_WAIT = "commit.retry.max-wait-ms"
WAITS = {MIN_WAIT: "base", MAX_WAIT: "cap"}
"""Table property → what says the same of a policy that committers follow."""
MOST_PARTITIONS = 1000
LONGEST_S = 60.0


class ParameterError(ValueError):
    """A parameter that does not exist, or a value that it does not take; the message says what is allowed."""


def _among(value: str, allowed: Iterable[str]) -> str:
    if value not in (names := list(allowed)):
        raise ParameterError(unknown("value", value, names))
    return value


def _whole(value: str, least: int, most: int) -> int:
    if not value.isdecimal() or not least <= int(value) <= most:
        raise ParameterError(f"must be a whole number from {least} to {most}, not {value!r}")
    return int(value)


def _time(value: str) -> float:
    if re.fullmatch(r"0+(\.0+)?(ms|s|m|h)?", value):
        return 0.0
    try:
        found = seconds(value)
    except ValueError as e:
        raise ParameterError(str(e)) from None
    if not found <= LONGEST_S:
        raise ParameterError(f"must be a time from 0s to {LONGEST_S:g}s, such as 100ms, not {value!r}")
    return float(found)


def _tables(w: Workload, **update: Any) -> Workload:
    return w.model_copy(update={"tables": tuple(t.model_copy(update=update) for t in w.tables)})


def _properties(w: Workload, properties_of: Callable[[TableSpec], Mapping[str, str]]) -> Workload:
    tables = tuple(t.model_copy(update={"properties": {**t.properties, **properties_of(t)}}) for t in w.tables)
    return w.model_copy(update={"tables": tables})


def _own(w: Workload, own: bool) -> Workload:
    """With own keys the rows that operations change must be there: those of each writer's keys are inserted before."""
    keys = "own" if own else "shared"
    mix = {k: spec.model_copy(update={"keys": keys}) for k, spec in w.operations.items()}
    changes = any(KINDS[k].verb in ("update", "delete", "merge") for k in mix)
    return w.model_copy(update={"operations": mix, "seed_own_keys": own and changes})


def _writers(w: Workload, value: str) -> Workload:
    n = _whole(value, 1, MOST_WRITERS)
    pause = None if w.rate is None else w.writers / w.rate
    engines = tuple(islice(cycle(dict.fromkeys(w.engines)), n))
    phases = tuple(p.model_copy(update={"writers": None}) for p in w.phases)
    rate = None if pause is None else n / pause  # each writer keeps its own pace
    return w.model_copy(update={"engines": engines, "phases": phases, "rate": rate})


def _format(w: Workload, value: str) -> Workload:
    """All formats get the same tables, partitioned and serializable, and the operations that each of them can do, or has another kind for."""
    formats = get_args(TableFormatName)
    kinds = {k for p in w.resolved_phases() for k in p.operations or ()}
    shared = [k for k in kinds if all(f in KINDS[k].formats or f in KINDS[k].instead for f in formats)]
    try:
        w = _tables(w.model_copy(update=only(w, shared, "format")), partitioned=True, isolation="serializable")
        return of_format(w, _among(value, formats))
    except ChangeError as e:
        raise ParameterError(str(e)) from None


def _append(w: Workload, value: str) -> Workload:
    names = {"fast": Committer.name, "merge": MergingCommitter.name}
    wanted = names[_among(value, names)]
    others = [e for e in dict.fromkeys(w.engines) if e not in names.values()]
    if others:
        raise ParameterError(f"is for committers; {others[0]} appends in its own way")
    return w.model_copy(update={"engines": tuple(wanted for _ in w.engines)})


def _interval(w: Workload, value: str) -> Workload:
    pause = _time(value)
    return w.model_copy(update={"rate": w.writers / pause if pause else None})


def _one_partition(w: Workload) -> Workload:
    return _own(_tables(w, partitioned=True, partitions=1), False)


def _own_partition(w: Workload) -> Workload:
    return _own(_tables(w, partitioned=True), True)


def _one_row(w: Workload) -> Workload:
    mix = {
        k: spec.model_copy(update={"rows": None if spec.rows is None else 1, "keys": "shared"})
        for k, spec in w.operations.items()
    }
    return _tables(w, partitioned=True, partitions=1).model_copy(update={"operations": mix, "keys": KeySpec(space=1)})


def _sorted(w: Workload) -> Workload:
    return _own(_tables(w, partitioned=False), True)


def _bucketed(w: Workload) -> Workload:
    return _own(_tables(w, partitioned=True, partitions=16), False)


LAYOUTS: Mapping[str, Callable[[Workload], Workload]] = {
    "one-partition": _one_partition,
    "own-partition": _own_partition,
    "one-row": _one_row,
    "sorted": _sorted,
    "bucketed": _bucketed,
}
"""``own-partition``: each writer has keys of its own, in a partition of its own. ``one-row``: one shared key. ``sorted``: no partitions,
and each writer's keys are a range of their own, so that files of different writers do not overlap. ``bucketed``: shared keys in 16
partitions by ``id mod 16``."""


def _backoff(w: Workload, value: str) -> Workload:
    """Number of retries, base and cap stay what they are, whoever waits: Iceberg by the table's properties, or the committer."""
    name = _among(value, POLICIES)
    given = w.backoff
    if given.policy == ICEBERGS_POLICY and name != ICEBERGS_POLICY:
        first = w.tables[0].properties
        update: dict[str, Any] = {"policy": name}
        update |= {k: int(first[p]) / 1000 for p, k in WAITS.items() if p in first}
        w = w.model_copy(update={"backoff": given.model_copy(update=update)})
        return _properties(w, lambda t: {MIN_WAIT: "0"})
    if name != ICEBERGS_POLICY or given.policy == ICEBERGS_POLICY:
        return w.model_copy(update={"backoff": given.model_copy(update={"policy": name})})
    own = given.of({}).retries
    w = w.model_copy(update={"backoff": type(given)()})
    return _properties(w, lambda t: {MIN_WAIT: str(int(own.min_wait_ms)), MAX_WAIT: str(int(own.max_wait_ms))})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    Attributes:
        change: (workload, value as typed) → the workload with that value. Raises ParameterError.
        values: the values that it takes, for a person.
        what: what it is, for a person.
    """

    name: str
    change: Callable[[Workload, str], Workload]
    values: str
    what: str


def _dimension(name: str, field: str, allowed: Sequence[str], what: str) -> Parameter:
    return Parameter(name, lambda w, v: _tables(w, **{field: _among(v, allowed)}), ", ".join(allowed), what)


def _field(name: str, values: Any) -> Callable[[Workload, str], Workload]:
    return lambda w, v: w.model_copy(update={name: _among(v, get_args(values))})


PARAMETERS: Mapping[str, Parameter] = {
    p.name: p
    for p in (
        Parameter(
            "format",
            _format,
            ", ".join(get_args(TableFormatName)),
            "table format, with the operations that both can do",
        ),
        Parameter("layout", lambda w, v: LAYOUTS[_among(v, LAYOUTS)](w), ", ".join(LAYOUTS), "where the rows lie"),
        Parameter(
            "partitions",
            lambda w, v: _tables(w, partitioned=True, partitions=_whole(v, 1, MOST_PARTITIONS)),
            f"1 to {MOST_PARTITIONS}",
            "partitions of shared keys",
        ),
        Parameter(
            "keys",
            lambda w, v: w.model_copy(update={"keys": w.keys.model_copy(update={"space": _whole(v, 1, 1_000_000)})}),
            "1 to 1000000",
            "number of shared keys",
        ),
        _dimension("isolation", "isolation", ("serializable", "snapshot"), "isolation level of the tables"),
        _dimension("mode", "mode", ("copy-on-write", "merge-on-read"), "write mode of the tables"),
        Parameter(
            "format-version",
            lambda w, v: _tables(w, format_version=int(_among(v, ("2", "3")))),
            "2, 3",
            "format version of the tables",
        ),
        Parameter("session", _field("session", Session), ", ".join(get_args(Session)), "settings of Spark's sessions"),
        Parameter("cluster", _field("cluster", Cluster), ", ".join(get_args(Cluster)), "where Spark's tasks run"),
        Parameter("append", _append, "fast, merge", "newFastAppend or newAppend; of committers"),
        Parameter("writers", _writers, f"1 to {MOST_WRITERS}", "number of writers, of the same engines in turn"),
        Parameter("interval", _interval, "0s to 60s", "mean time between two operations of a writer"),
        Parameter(
            "swap-latency",
            lambda w, v: w.model_copy(update={"swap_latency": _time(v)}),
            "0ms to 60s",
            "by how much each commit request reaches the catalog later",
        ),
        Parameter("backoff", _backoff, ", ".join(POLICIES), "how a refused commit waits; of committers"),
    )
}
"""Name → parameter, in the order in which they are applied; a table's properties (``commit.retry.num-retries``) come before ``backoff``."""


def _property(w: Workload, name: str, value: str) -> Workload:
    if wrong := [message for _, message in tableproperties.problems({name: value}, None)]:
        raise ParameterError(wrong[0].removeprefix(f"{name}: "))
    if name in WAITS and w.backoff.policy != ICEBERGS_POLICY:
        return w.model_copy(update={"backoff": w.backoff.model_copy(update={WAITS[name]: int(value) / 1000})})
    return _properties(w, lambda t: {name: value})


def known(name: str) -> bool:
    """Whether it is a parameter; any name with a dot is that of a table property, unless it is one of Iceberg's misspelt."""
    return name in PARAMETERS or ("." in name and tableproperties.misspelt(name) is None)


def applied(workload: Workload, varied: Sequence[tuple[str, str]]) -> Workload:
    """The workload with these values of parameters.

    Raises:
        ParameterError: a parameter does not exist, does not take a value, or the values do not go together.
    """
    wanted = dict(varied)
    if unknowns := [name for name in wanted if not known(name)]:
        allowed = [*PARAMETERS, "a table property such as commit.retry.num-retries"]
        misspelt = tableproperties.misspelt(unknowns[0]) if "." in unknowns[0] else None
        raise ParameterError(misspelt or unknown("parameter", unknowns[0], allowed))
    properties = [name for name in wanted if name not in PARAMETERS]
    order = [name for name in PARAMETERS if name in wanted]
    order = [*(n for n in order if n != "backoff"), *properties, *(n for n in order if n == "backoff")]
    for name in order:
        try:
            if name in PARAMETERS:
                workload = PARAMETERS[name].change(workload, wanted[name])
            else:
                workload = _property(workload, name, wanted[name])
        except ParameterError as e:
            raise ParameterError(f"{name}={wanted[name]}: {e}") from None
    words = " ".join(f"{k}={v}" for k, v in varied)
    if found := [message for _, message in problems(workload)]:
        raise ParameterError(f"{words}: {found[0]}")
    return workload
