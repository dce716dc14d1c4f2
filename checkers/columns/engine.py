"""Verdicts from columns: what the screen proves is valid; everything else goes to the exact checkers.

If a table is not ordinary, or anything in it is suspect, the exact checkers judge all of it if it has at most :data:`EXACT` operations;
they report all its anomalies with explanations. For a suspect table that is too long for them, only certain results are
reported: an anomaly without explanation if the screen's reason proves one, ``unknown`` otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, Literal, TypedDict

from checkers.columns.frames import NEVER, Frame, Unordinary, Unplaced, frame_of, frame_without_travels
from checkers.columns.screen import DEFINITE, Screen, screen
from checkers.commits import Commits
from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.isolation import Isolation
from checkers.linearizable.checker import EXPLAINED
from checkers.reads.judge import Reads
from checkers.replay.walk import Replay
from checkers.timeline import two_tables
from checkers.timeline.promise import known
from checkers.timeline.timeline import Timeline, resolutions, timelines
from checkers.verdict import Anomaly, Checker, Validity, Verdict, worst
from workloads.tables import TableSpec

EXACT = 200_000
"""The largest number of operations of a table that the exact checkers judge instead of the screen."""
MOST = 10
"""Anomalies of one reason listed for a table that is too long for explanations."""

RESOLUTIONS = "resolutions"
"""Key in the statistics of ``commits`` for the resolution of operations of unknown outcome."""

_EXACT: tuple[Checker, ...] = (Commits(), Replay(), Reads(), Isolation())
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


@dataclass
class Judged:
    """The result of one table.

    Attributes:
        verdicts: checker → its verdict on this table only.
        by: ``columns`` if the screen decided, ``exact`` if the exact checkers did.
        why: why the exact checkers judged it; empty if the screen did.
    """

    table: str
    verdicts: Mapping[str, Verdict]
    by: str
    why: str = ""
    screen: Screen | None = field(default=None, repr=False)


def check_columns(evidence: Evidence) -> list[Verdict]:
    """The verdicts of :data:`CHECKERS`, in their order. What is proven of a table is noted for the checker ``linearizable``, too.

    ``stats`` are those of the exact checker, with what :class:`ColumnsStats` adds: of a table that the screen decided, its
    :class:`ColumnsTable`.
    """
    found, notes = timelines(evidence)
    judged = [_judge(t.name, evidence, t) for t in found]
    evidence.known[EXPLAINED] = frozenset(
        t.name
        for t, j in zip(found, judged, strict=True)
        if j.screen is not None and j.screen.proven and all(map(known, t.ops))
    )
    verdicts = merge(judged, notes)
    return [_resolved(v, found, evidence) if RESOLUTIONS in v.stats else v for v in verdicts]


def _resolved(v: Verdict, found: Sequence[Timeline], evidence: Evidence) -> Verdict:
    """The verdict, with operations resolved over all their tables together instead of the last one judged."""
    told = v.stats[RESOLUTIONS]
    whole = resolutions(found, (o for o in evidence.history.operations() if o.op in told))
    return replace(v, stats={**v.stats, RESOLUTIONS: whole})


def _judge(name: str, evidence: Evidence, t: Timeline) -> Judged:
    try:
        return judge_frame(frame_of(t), evidence)
    except Unplaced as e:  # it is ordinary
        return _without_travels(t, evidence, str(e))
    except Unordinary as e:
        return _exact(name, evidence, str(e))


def _without_travels(t: Timeline, evidence: Evidence, why: str) -> Judged:
    """Judge a table with time travels that columns cannot represent: only the checker ``reads`` judges these."""
    try:
        f = frame_without_travels(t)
    except Unordinary as e:
        return _exact(t.name, evidence, str(e))
    found = screen(f)
    if not found.proven:
        return replace(_exact(t.name, evidence, f"{why}, {_why(_suspects(f, found))}"), screen=found)
    judged = proven(f.spec, f.operations, found)
    reads = _exact(t.name, evidence, why, (Reads(),)).verdicts[Reads.name]
    return replace(judged, verdicts={**judged.verdicts, Reads.name: reads}, why=why, screen=found)


def judge_frame(f: Frame, evidence: Evidence | None = None) -> Judged:
    """Judge one table's columns.

    Args:
        f: the columns.
        evidence: the columns' source, for the exact checkers; None if there are only columns.
    """
    s = screen(f)
    if s.proven:
        return replace(proven(f.spec, f.operations, s), screen=s)
    suspects = _suspects(f, s)
    if evidence is not None and f.operations <= EXACT:
        return replace(_exact(f.spec.name, evidence, _why(suspects)), screen=s)
    return replace(certain(f.spec, f.operations, suspects), screen=s)


def _suspects(f: Frame, s: Screen) -> dict[str, Suspects]:
    """Reason → what the screen did not prove."""
    return {
        reason: Suspects(len(ops), tuple((n, _events(f, n)) for n in ops[:MOST].tolist()))
        for reason, ops in s.suspects.items()
    }


def _events(f: Frame, n: int) -> tuple[int, ...]:
    """The events of an operation."""
    return () if n < 0 else tuple(int(x) for x in (f.invoked[n], f.completed[n]) if x != NEVER)


@dataclass(frozen=True)
class Suspects:
    """What was not proven for one reason.

    Attributes:
        count: number of operations.
        first: the first :data:`MOST` of them: number and events. Of a commit that is no operation's: its negative position, no events.
    """

    count: int
    first: tuple[tuple[int, tuple[int, ...]], ...]


def proven(spec: TableSpec, operations: int, s: Screen) -> Judged:
    """The result of a table in which the screen found nothing."""
    seen: ColumnsTable = {
        "engine": "columns",
        "operations": operations,
        "commits": s.commits,
        "rows": s.rows,
        "reads": s.reads,
    }
    stats: ColumnsStats = {"tables": {spec.name: seen}}
    return Judged(spec.name, {c: Verdict(c, True, stats=stats) for c in CHECKERS}, "columns")


def _why(suspects: Mapping[str, Suspects]) -> str:
    return ", ".join(f"{reason} ×{s.count}" for reason, s in sorted(suspects.items()))


def _exact(name: str, evidence: Evidence, why: str, checkers: Sequence[Checker] = _EXACT) -> Judged:
    seen = two_tables.alone(evidence, name)
    if not all(map(is_, seen.history.events, evidence.history.events)):
        evidence = seen  # else what is known of it already stays so
    logs = {n: log for n, log in evidence.logs.items() if n == name}
    events = tuple(e for e in evidence.history.events if e.table in (None, name))
    made_here = {c.op for log in logs.values() for c in log.commits}
    foreign = {e.op for e in evidence.history.events if e.table not in (None, name)} & made_here
    if foreign:  # an operation of another table left a snapshot here: the exact checkers need it
        events = tuple(e for e in evidence.history.events if e.table in (None, name) or e.op in foreign)
    alone = evidence
    if len(events) < len(evidence.history.events) or {*evidence.logs, *evidence.tables} != {name}:
        alone = replace(
            evidence, history=replace(evidence.history, events=events), logs=logs, tables={name: evidence.tables[name]}
        )
    return Judged(name, {c.name: _one_table(c.check(alone), name) for c in checkers}, "exact", why)


def _one_table(v: Verdict, name: str) -> Verdict:
    """The verdict without notes on other tables, whose operations were only context."""
    tables = {n: s for n, s in v.stats.get("tables", {}).items() if n == name}
    notes = tuple(n for n in v.notes if n.startswith(f"{name}: "))
    anomalies = tuple(a for a in v.anomalies if a.table == name)
    undecided: Validity = "unknown" if v.valid == "unknown" and notes else True
    return replace(
        v,
        stats={**v.stats, "tables": tables},
        notes=notes,
        anomalies=anomalies,
        valid=False if anomalies else undecided,
    )


def certain(spec: TableSpec, operations: int, suspects: Mapping[str, Suspects]) -> Judged:
    """The certain results for a table that exists only as columns, and in which something was not proven."""
    anomalies: dict[str, list[Anomaly]] = {c: [] for c in CHECKERS}
    doubtful: list[str] = []
    why = _why(suspects)
    for reason, found in sorted(suspects.items()):
        checker = DEFINITE.get(reason)
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
    stats: ColumnsStats = {"tables": {spec.name: {"engine": "columns", "operations": operations, "suspects": why}}}
    verdicts = {
        c: Verdict(c, False if found else "unknown", tuple(found), stats, () if found and not doubtful else (note,))
        for c, found in anomalies.items()
    }
    return Judged(spec.name, verdicts, "columns", why)


def _own_level(spec: TableSpec) -> bool:
    return any(p.endswith(".isolation-level") for p in spec.properties)


def merge(tables: Iterable[Judged], notes: Sequence[str] = ()) -> list[Verdict]:
    """One verdict for each checker, merged from the tables; ``notes`` name tables that could not be judged."""
    judged = sorted(tables, key=lambda j: j.table)
    out = []
    for c in CHECKERS:
        each = [j.verdicts[c] for j in judged]
        stats: dict[str, Any] = {}
        for v in each:
            for key, value in v.stats.items():
                stats[key] = {**stats.get(key, {}), **value} if isinstance(value, dict) else value
        deciders = Counter(j.by for j in judged)
        engines: TablesOfEngines = {"columns": deciders["columns"], "exact": deciders["exact"]}
        stats["engine"] = engines
        valid = worst([*(v.valid for v in each), *(["unknown"] if notes else [])])  # type: ignore[list-item]
        anomalies = tuple(a for v in each for a in v.anomalies)
        out.append(Verdict(c, valid, anomalies, stats, (*notes, *(n for v in each for n in v.notes))))
    return out
