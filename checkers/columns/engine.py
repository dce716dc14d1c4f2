"""Verdicts from columns: what the screen proves is valid; everything else goes to the exact checkers.

If a table is not ordinary, or anything in it is suspect, the exact checkers judge all of it if it has at most :data:`EXACT` operations;
they report all its anomalies with explanations. For a suspect table that is too long for them, only certain results are
reported: an anomaly without explanation if the screen's reason proves one, ``unknown`` otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from checkers.columns.frames import TableFrame, Unplaced, frame_of, frame_without_travels
from checkers.columns.hashing import NEVER_CAME, Unordinary
from checkers.columns.screen import ANOMALY_AT_EVERY_LEVEL, Screen, screen
from checkers.commits import Commits
from checkers.commits.in_run import in_run
from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.isolation import Isolation
from checkers.reads.checker import Reads
from checkers.replay.walk import Replay
from checkers.timeline.promise import known
from checkers.timeline.timeline import Timeline
from checkers.unit import EXPLAINED, Part, Unit, units
from checkers.verdict import Anomaly, Validity, Verdict, worst
from workloads.tables import TableSpec

EXACT = 200_000
"""The largest number of operations of a table that the exact checkers judge instead of the screen."""
MOST_OF_A_REASON = 10
"""Anomalies of one reason listed for a table that is too long for explanations."""

_EXACT: tuple[Commits, Replay, Reads, Isolation] = (Commits(), Replay(), Reads(), Isolation())
CHECKERS: tuple[str, ...] = tuple(c.name for c in _EXACT)
"""The checkers that columns can replace."""


class ColumnsTable(TypedDict, total=False):
    """What is told of a table that the screen decided, in place of what the exact checker counts there."""

    engine: Literal["columns"]
    operations: int
    commits: int
    rows: int
    """Rows that commits changed."""
    reads: int
    suspects: str
    """Of a table that is too long for the exact checkers: what was not proven, and for how many operations."""


class TablesOfEngines(TypedDict):
    """How many tables each engine decided."""

    columns: int
    exact: int


class ColumnsStats(TypedDict, total=False):
    """What the columns add to the ``stats`` of the checkers that they replace."""

    tables: dict[str, ColumnsTable]
    engine: TablesOfEngines


@dataclass(frozen=True)
class JudgedTable:
    """The result of one table.

    Attributes:
        parts: checker → what it says of this table.
        judged_by: ``columns`` if the screen decided, ``exact`` if the exact checkers did.
        why: why the exact checkers judged it; empty if the screen did.
        explained: whether the screen proved all of it, and what every operation was promised is known.
    """

    table: str
    parts: Mapping[str, Part]
    judged_by: str
    why: str = ""
    explained: bool = False


def check_columns(evidence: Evidence) -> list[Verdict]:
    """The verdicts of :data:`CHECKERS`, in their order. What is proven of a table is noted for the checker ``linearizable``, too.

    ``stats`` are those of the exact checker, with what :class:`ColumnsStats` adds: of a table that the screen decided, its
    :class:`ColumnsTable`.
    """
    tables = units(evidence)
    judged = [judge_unit(u) for u in tables if u.timeline is not None]
    evidence.known[EXPLAINED] = frozenset(j.table for j in judged if j.explained)
    return merge(judged, unjudged=[u for u in tables if u.timeline is None])


def judge_unit(unit: Unit) -> JudgedTable:
    """Judge one table that has a timeline."""
    t = unit.timeline
    assert t is not None
    try:
        f = frame_of(t)
        s = screen(f)
        judged = _judged(f, s, unit)
    except Unplaced as e:  # it is ordinary
        return _without_travels(unit, t, str(e))
    except Unordinary as e:
        return _exact(unit, str(e))
    return _with_evidence(judged, s, unit)


def _with_evidence(judged: JudgedTable, s: Screen, unit: Unit) -> JudgedTable:
    """What the screen decided, with what only a run's evidence tells."""
    found = replace(judged, explained=s.proven and all(map(known, unit.ops)))
    if judged.judged_by != "columns":
        return found
    commits = replace(judged.parts[Commits.name], more=replace(in_run(unit, {}), counts=False))
    return replace(found, parts={**judged.parts, Commits.name: commits})


def _without_travels(unit: Unit, t: Timeline, why: str) -> JudgedTable:
    """Judge a table with time travels that columns cannot represent: only the checker ``reads`` judges these."""
    try:
        f = frame_without_travels(t)
    except Unordinary as e:
        return _exact(unit, str(e))
    found = screen(f)
    if not found.proven:
        return _exact(unit, f"{why}, {_why(_suspects(f, found))}")
    judged = _with_evidence(proven(f.spec, f.operations, found), found, unit)
    return replace(judged, parts={**judged.parts, Reads.name: Reads().part(unit)}, why=why)


def judge_frame(f: TableFrame) -> JudgedTable:
    """Judge one table of which there are only columns."""
    return _judged(f, screen(f), None)


def _judged(f: TableFrame, s: Screen, unit: Unit | None) -> JudgedTable:
    """Judge one table's columns.

    Args:
        unit: the columns' source, for the exact checkers; None if there are only columns.
    """
    if s.proven:
        return proven(f.spec, f.operations, s)
    suspects = _suspects(f, s)
    if unit is not None and f.operations <= EXACT:
        return _exact(unit, _why(suspects))
    return certain(f.spec, f.operations, suspects)


def _suspects(f: TableFrame, s: Screen) -> dict[str, Suspects]:
    """Reason → what the screen did not prove."""
    return {
        reason: Suspects(len(ops), tuple((n, _events(f, n)) for n in ops[:MOST_OF_A_REASON].tolist()))
        for reason, ops in s.suspects.items()
    }


def _events(f: TableFrame, n: int) -> tuple[int, ...]:
    """The events of an operation."""
    return () if n < 0 else tuple(int(x) for x in (f.invoked[n], f.completed[n]) if x != NEVER_CAME)


@dataclass(frozen=True)
class Suspects:
    """What was not proven for one reason.

    Attributes:
        count: number of operations.
        first: the first :data:`MOST_OF_A_REASON` of them: number and events. Of a commit that is no operation's: its negative position, no
        events.
    """

    count: int
    first: tuple[tuple[int, tuple[int, ...]], ...]


def proven(spec: TableSpec, operations: int, s: Screen) -> JudgedTable:
    """The result of a table in which the screen found nothing."""
    seen: ColumnsTable = {
        "engine": "columns",
        "operations": operations,
        "commits": s.commits,
        "rows": s.rows,
        "reads": s.reads,
    }
    return JudgedTable(spec.name, {c: Part(spec.name, stats=seen) for c in CHECKERS}, "columns")


def _why(suspects: Mapping[str, Suspects]) -> str:
    return ", ".join(f"{reason} ×{s.count}" for reason, s in sorted(suspects.items()))


def _exact(unit: Unit, why: str) -> JudgedTable:
    return JudgedTable(unit.name, {c.name: c.part(unit) for c in _EXACT}, "exact", why)


def certain(spec: TableSpec, operations: int, suspects: Mapping[str, Suspects]) -> JudgedTable:
    """The certain results for a table that exists only as columns, and in which something was not proven."""
    anomalies: dict[str, list[Anomaly]] = {c: [] for c in CHECKERS}
    doubtful: list[str] = []
    why = _why(suspects)
    for reason, found in sorted(suspects.items()):
        checker = ANOMALY_AT_EVERY_LEVEL.get(reason)
        if reason == "wrong-rows" and spec.isolation == "serializable" and not _own_level(spec):
            checker = "replay"
        if checker is None:
            doubtful.append(reason)
            continue
        for n, events in found.first:
            where = f"operation {n} of the table" if n >= 0 else f"the commit at position {-n}"
            text = (
                f"{where} (of {operations}): {reason}. There are {found.count} such operations. The table is too long for the exact "
                "checkers, which explain anomalies: cut the history down to the rows concerned."
            )
            anomalies[checker].append(Anomaly(reason, checker, spec.name, text, events=events))
    note = f"{spec.name}: {why}: not proven, and the table is too long for the exact checkers"
    stats: ColumnsTable = {"engine": "columns", "operations": operations, "suspects": why}
    parts = {
        c: Part(spec.name, tuple(found), () if found and not doubtful else (note,), not found, stats)
        for c, found in anomalies.items()
    }
    return JudgedTable(spec.name, parts, "columns", why)


def _own_level(spec: TableSpec) -> bool:
    return any(p.endswith(".isolation-level") for p in spec.properties)


def merge(tables: Iterable[JudgedTable], notes: Sequence[str] = (), unjudged: Sequence[Unit] = ()) -> list[Verdict]:
    """One verdict for each checker from what it says of the tables.

    Args:
        notes: why something of the run could not be judged.
        unjudged: tables without a timeline.
    """
    judged = sorted(tables, key=lambda j: j.table)
    deciders = Counter(j.judged_by for j in judged)
    engines: TablesOfEngines = {"columns": deciders["columns"], "exact": deciders["exact"]}
    out = []
    for c in _EXACT:
        parts = [*(j.parts[c.name] for j in judged), *map(c.part, unjudged)]
        v = c.fold(sorted(parts, key=lambda p: p.table))
        valid: Validity = worst([v.valid, "unknown"]) if notes else v.valid
        out.append(replace(v, valid=valid, stats={**v.stats, "engine": engines}, notes=(*notes, *v.notes)))
    return out
