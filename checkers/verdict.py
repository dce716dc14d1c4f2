"""What a checker returns: a verdict with anomalies that explain themselves.

``valid`` is True, False or ``"unknown"``; verdicts combine to the worst of them, false > unknown > true (Jepsen's
``valid-priorities``). A checker that raises becomes ``unknown`` with the reason, never a crash and never a ``false``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, TypedDict, TypeVar, cast

from checkers.evidence.evidence import Evidence
from checkers.evidence.lenient import integer, integers, mapping, mappings, number, strings

Validity = Literal[True, False, "unknown"]
Stats = TypeVar("Stats")


@dataclass(frozen=True, slots=True)
class MinimalHistory:
    """The smallest part of the history that still shows an anomaly.

    Attributes:
        ops: ids of the remaining operations, by invocation.
        ids: ids of the rows considered; empty for all.
        complete: whether no operation can be removed; False if the search was cut short.
    """

    ops: tuple[str, ...]
    ids: tuple[int, ...]
    complete: bool


class TrailRow(TypedDict):
    """One row that a snapshot added (``sign`` ``+``) or removed (``-``): in which file, at which position.

    ``by`` is the delete file that hides the row; None if the data file itself was added or removed.
    """

    sign: Literal["+", "-"]
    row: list[Any]
    file: str
    position: int
    by: str | None


class TrailSnapshot(TypedDict):
    """One snapshot of an operation and the rows that it changed."""

    attempt: int | None
    snapshot: int
    sequence_number: int
    parent: int | None
    on_main: bool
    manifest_list: str
    rows: list[TrailRow]


class TrailStep(TypedDict):
    """One operation of an anomaly with its snapshots. ``ended_ms`` is None if the end is unknown."""

    op: str
    kind: str
    process: int | str
    invoked_ms: float
    ended_ms: float | None
    outcome: str
    snapshots: list[TrailSnapshot]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One broken promise.

    Attributes:
        name: in the field's terms, e.g. ``lost-update``, ``undelete``, ``stale-read``.
        checker: name of the checker that found it.
        table: table name in the workload file, None if it concerns none or all.
        explanation: one paragraph that shows why the observation is a contradiction, naming ops, snapshots, files and rows.
        ops: ids of the operations involved, the offender first.
        events: history indices of those operations.
        snapshots: snapshot ids, in commit order.
        files: data, delete or metadata files involved.
        keys: ids (column ``id``) of the rows involved.
        documented: a link if Iceberg documents the behaviour as possible, else None. It is an anomaly in both cases.
        evidence: further evidence, JSON values only.
        same_as: for a second opinion, the name of the other checker's anomaly that it confirms; else None.
        minimal: the smallest part of the history that shows the anomaly; None if none was searched or found.
        trail: from each operation down to its rows, the offender first; empty if it was not traced.
    """

    name: str
    checker: str
    table: str | None
    explanation: str
    ops: tuple[str, ...] = ()
    events: tuple[int, ...] = ()
    snapshots: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    keys: tuple[int, ...] = ()
    documented: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    same_as: str | None = None
    minimal: MinimalHistory | None = None
    trail: tuple[TrailStep, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The anomaly as JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(r: Mapping[str, Any], checker: str) -> Anomaly:
        """An anomaly as :meth:`to_json` wrote it; missing fields are empty. ``checker``: whose verdict it is in.

        An older icequake wrote ``same_as``, ``minimal`` and ``trail`` (as ``chain``) into the evidence; they are read from there.
        """
        table, documented = r.get("table"), r.get("documented")
        evidence = mapping(r.get("evidence"))
        older = {k: evidence.pop(k, None) for k in ("same_as", "minimal", "chain")}
        same_as = r.get("same_as") or older["same_as"]
        return Anomaly(
            name=str(r.get("name") or "unnamed"),
            checker=str(r.get("checker") or checker),
            table=None if table is None else str(table),
            explanation=str(r.get("explanation") or ""),
            ops=strings(r.get("ops")),
            events=integers(r.get("events")),
            snapshots=integers(r.get("snapshots")),
            files=strings(r.get("files")),
            keys=integers(r.get("keys")),
            documented=str(documented) if documented else None,
            evidence=evidence,
            same_as=str(same_as) if same_as else None,
            minimal=_minimal(mapping(r.get("minimal") or older["minimal"])),
            trail=tuple(_step(step) for step in mappings(r.get("trail") or older["chain"])),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one checker says of one run.

    Attributes:
        checker: the checker's name.
        stats: what it counted, JSON values only. Its keys and their units are those of the checker's ``stats_type``.
        notes: what it could not check, or checked against a weaker promise, and why.
    """

    checker: str
    valid: Validity
    anomalies: tuple[Anomaly, ...] = ()
    stats: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def stats_as(self, form: type[Stats]) -> Stats:
        """The same ``stats``, typed as a checker's ``stats_type``. Nothing is checked: the caller knows whose verdict it is, and that it
        counted (the ``stats`` of a checker that raised are empty)."""
        return cast(Stats, self.stats)

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        return {
            "checker": self.checker,
            "valid": self.valid,
            "anomalies": [a.to_json() for a in self.anomalies],
            "stats": dict(self.stats),
            "notes": list(self.notes),
        }

    @staticmethod
    def from_json(r: Mapping[str, Any]) -> Verdict:
        """A verdict as :meth:`to_json` wrote it; anything but true and false is ``unknown``."""
        name = str(r.get("checker") or "unnamed")
        valid = r.get("valid")
        return Verdict(
            checker=name,
            valid=valid if isinstance(valid, bool) else "unknown",
            anomalies=tuple(Anomaly.from_json(a, name) for a in mappings(r.get("anomalies"))),
            stats=mapping(r.get("stats")),
            notes=strings(r.get("notes")),
        )


class Checker(Protocol):
    """A checker is a pure function of the evidence. ``checkers.judge.registry`` finds every class that inherits from this one.

    Attributes:
        name: its name in verdicts and on the command line.
        names: names of all anomalies that it can report.
        reducible: whether its anomalies are reduced to a minimal history. It must find the anomaly again in a part of the history.
        by_level: names that snapshot isolation allows and serializable does not.
        second_opinion: whether it finds by other means what other checkers find, so that an anomaly of it can be ``same_as`` one of theirs.
        of_format: the only table format that it judges; a run without such a table has no verdict of it. None: of every format.
        stats_type: the ``TypedDict`` of its verdicts' ``stats``, with the meaning and the unit of each key; ``dict`` when it declares none.
    """

    name: str
    names: frozenset[str]
    by_level: frozenset[str] = frozenset()
    reducible: bool = False
    second_opinion: bool = False
    of_format: str | None = None
    stats_type: type[Any] = dict

    def check(self, evidence: Evidence) -> Verdict:
        """Judge the evidence. Deterministic; no clock, no randomness, no input or output."""


def worst(validities: Iterable[Validity]) -> Validity:
    """The worst of several: false > unknown > true; True for none."""
    found = list(validities)
    if any(v is False for v in found):
        return False
    return "unknown" if "unknown" in found else True


def exit_code(v: Validity) -> int:
    """Exit code of a run's validity: 0 valid, 1 anomaly found, 2 unknown."""
    return {True: 0, False: 1, "unknown": 2}[v]


def own_findings(anomalies: Sequence[Anomaly]) -> list[Anomaly]:
    """The anomalies, without those that only confirm another one in the list (``same_as``)."""
    names = {a.name for a in anomalies if a.same_as is None}
    return [a for a in anomalies if a.same_as not in names]


def _minimal(r: Mapping[str, Any]) -> MinimalHistory | None:
    if not r:
        return None
    return MinimalHistory(strings(r.get("ops")), integers(r.get("ids")), r.get("complete") is True)


def _step(r: Mapping[str, Any]) -> TrailStep:
    process, ended = r.get("process"), r.get("ended_ms")
    return TrailStep(
        op=str(r.get("op")),
        kind=str(r.get("kind")),
        process=process if isinstance(process, int) else str(process),
        invoked_ms=number(r.get("invoked_ms")) or 0.0,
        ended_ms=number(ended),
        outcome=str(r.get("outcome")),
        snapshots=[_snapshot(s) for s in mappings(r.get("snapshots"))],
    )


def _snapshot(r: Mapping[str, Any]) -> TrailSnapshot:
    return TrailSnapshot(
        attempt=integer(r.get("attempt")),
        snapshot=integer(r.get("snapshot")) or 0,
        sequence_number=integer(r.get("sequence_number")) or 0,
        parent=integer(r.get("parent")),
        on_main=r.get("on_main") is True,
        manifest_list=str(r.get("manifest_list")),
        rows=[_row(row) for row in mappings(r.get("rows"))],
    )


def _row(r: Mapping[str, Any]) -> TrailRow:
    row, delete_file = r.get("row"), r.get("by")
    return TrailRow(
        sign="-" if r.get("sign") == "-" else "+",
        row=row if isinstance(row, list) else [],
        file=str(r.get("file")),
        position=integer(r.get("position")) or 0,
        by=str(delete_file) if delete_file else None,
    )
