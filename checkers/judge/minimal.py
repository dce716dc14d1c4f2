"""The smallest part of a history that shows an anomaly: take away any operation of it, and the anomaly is gone.

Two reductions; each leaves a history that a correct system could have, apart from the anomaly:

*Rows.* Keep only rows of the anomaly's ids: every statement works row by row, so its effect on some ids is its meaning on
those ids alone. (INSERT … SELECT ties its source to its target.)

*Operations.* Remove an operation with its snapshots; its successors then descend from its predecessor. The rest must stay
consistent: no operation removes an absent row (the checker would then report something else), and an operation whose writes a read
shows is not removed without the read (the read would then show rows out of nowhere). Delta debugging finds the operations to remove
(:mod:`checkers.judge.ddmin`).

Each time, the same checker judges the one table again: does it still find an anomaly with that name and that offender?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, Operation
from checkers.evidence.replace import replace
from checkers.evidence.tableformat import TableFormat, format_of
from checkers.evidence.tablelog import Commit, Metadata, TableLog
from checkers.judge.ddmin import ddmin
from checkers.timeline import two_tables
from checkers.timeline.touched import touches
from checkers.verdict import Anomaly, Checker, MinimalHistory, Verdict
from workloads.operations.kind import Touches
from workloads.operations.kinds import KINDS
from workloads.tables import COLUMNS

QUESTIONS = 400
"""How often a checker is run for the anomalies of one name in a verdict."""
MOST_QUESTIONED = 10_000
"""How many operations a checker judges in these questions. A checker judges between 2,000 and 10,000 a second, so this is between 1 and 5
seconds. Work is counted and not timed, so that the same run's folder always gives the same bytes."""
LARGEST = 2_500
"""Operations of a part that is reduced, at most: to judge much of a long run again and again takes long."""
MOST_REDUCED = 3
"""Anomalies of one name that are reduced, in each verdict."""


@dataclass
class WorkBudget:
    """The work left for the minimal histories of one name.

    Attributes:
        questions: how often the checker may still be run.
        operations: how many operations it may still judge.
        short: whether a question was not asked because the rest was too small for it.
    """

    questions: int = QUESTIONS
    operations: int = MOST_QUESTIONED
    short: bool = False

    def take(self, operations: int) -> bool:
        """Whether a question of so many operations may be asked; if so, it is counted."""
        if self.questions < 1 or self.operations < operations:
            self.short = True
            return False
        self.questions -= 1
        self.operations -= operations
        return True


def with_minimal(
    verdict: Verdict, checker: Checker, evidence: Evidence, budget: Callable[[], WorkBudget] = WorkBudget
) -> Verdict:
    """The verdict; the first anomalies of each name get their minimal history. A note says for which it was not searched to the end.

    ``budget`` makes the budget of a name.
    """
    budgets: dict[str, WorkBudget] = {}
    count: Counter[str] = Counter()
    unfinished: Counter[str] = Counter()
    out = []
    wholes: dict[str, _Whole] = {}
    for a in verdict.anomalies:
        count[a.name] += 1
        if a.table is None or a.table not in evidence.tables or not a.ops:
            out.append(a)
            continue
        budget_left = budgets.setdefault(a.name, budget())
        budget_left.short = False
        found = None
        if count[a.name] <= MOST_REDUCED:
            if a.table not in wholes:
                wholes[a.table] = _Whole(two_tables.alone(evidence, a.table), a.table)
            found = _minimal(wholes[a.table], checker, a, budget_left)
        unfinished[a.name] += count[a.name] > MOST_REDUCED or budget_left.short
        out.append(a if found is None else replace(a, minimal=found))
    notes = [f"{n} of {count[name]} {name}" for name, n in unfinished.items() if n]
    note = (
        f"smallest histories were not searched to the end for {', '.join(notes)}: for each name the first {MOST_REDUCED} anomalies are "
        f"reduced, with at most {QUESTIONS} questions to the checker about {MOST_QUESTIONED} operations in all"
    )
    return replace(verdict, anomalies=tuple(out), notes=(*verdict.notes, note) if notes else verdict.notes)


def minimal(
    evidence: Evidence, checker: Checker, anomaly: Anomaly, budget: WorkBudget | None = None
) -> MinimalHistory | None:
    """A minimal history that shows an anomaly; None if there is nothing to reduce (no table, no operations, or the checker does
    not report the anomaly for the table alone) or if the budget does not suffice to see that."""
    if anomaly.table is None or anomaly.table not in evidence.tables or not anomaly.ops:
        return None
    whole = _Whole(two_tables.alone(evidence, anomaly.table), anomaly.table)
    return _minimal(whole, checker, anomaly, budget or WorkBudget())


class _Whole:
    """One table's whole history, before anything is taken away."""

    def __init__(self, evidence: Evidence, table: str) -> None:
        self.evidence = evidence
        self.table = table
        self.spec = evidence.tables[table]
        self.operations = [o for o in evidence.history.operations() if o.table == table]

    @cached_property
    def touched(self) -> dict[str, Touches | None]:
        """Operation → what it touches."""
        return {o.op: touches(o, self.spec) for o in self.operations}

    @cached_property
    def changed(self) -> dict[str, frozenset[int]]:
        """Operation → ids of the rows that its snapshots added or removed."""
        log = self.evidence.logs.get(self.table)
        if log is None or "id" not in log.columns:
            return {}
        id_column = log.columns.index("id")
        out: dict[str, set[int]] = {}
        for c in log.commits:
            if c.op is not None:
                out.setdefault(c.op, set()).update(x.row[id_column] for x in (*(c.added or ()), *(c.removed or ())))
        return {op: frozenset(ids) for op, ids in out.items()}

    def parts(self, anomaly: Anomaly) -> Iterator[tuple[list[Operation], frozenset[int]]]:
        """Parts of the history that may show an anomaly, the smallest first: operations, and ids to look at (none: all).

        First the operations that the anomaly names and what these have read; then these and the operations that changed rows of its
        ids; then all that may have touched such a row; then all.
        """
        ids = _tied(self.touched.values(), anomaly.keys)
        if ids:
            named = set(anomaly.ops)
            shown = {op for o in self.operations if o.op in named for op in _shown(o, ids)}
            near = named | shown
            yield [o for o in self.operations if o.op in near], ids
            changed = {op for op, changed in self.changed.items() if not ids.isdisjoint(changed)}
            yield [o for o in self.operations if o.op in near or o.op in changed], ids
            yield [o for o in self.operations if _concerns(o, self.touched[o.op], ids)], ids
        yield self.operations, frozenset()


def _minimal(whole: _Whole, checker: Checker, anomaly: Anomaly, budget: WorkBudget) -> MinimalHistory | None:
    for operations, ids in whole.parts(anomaly):
        kept = {o.op for o in operations}
        if len(kept) > LARGEST:
            budget.short = True
            continue
        ops = [o.op for o in operations]
        search = _Search(reduced(whole.evidence, whole.table, kept, ids), checker, anomaly, budget)
        search.shown = {o.op: shown for o in operations if (shown := _shown(o, ids) & kept)}
        needed = search.reduce(ops)
        if needed is not None:
            return MinimalHistory(tuple(needed), tuple(sorted(ids)), not budget.short)
    return None


class _Search:
    """Runs the checker on parts of the history. A part that shows the anomaly is the whole of which later parts are taken."""

    def __init__(self, evidence: Evidence, checker: Checker, anomaly: Anomaly, budget: WorkBudget) -> None:
        self.evidence = evidence
        self.checker = checker
        self.anomaly = anomaly
        self.budget = budget
        self.shown: dict[str, set[str]] = {}
        """Read → operations whose writes it shows."""

    def shows(self, ops: Sequence[str]) -> bool:
        """Whether these operations alone show the anomaly; False also if the budget does not suffice to ask."""
        kept = set(ops)
        if any(not self.shown[op] <= kept for op in ops if op in self.shown):
            return False
        if not self.budget.take(len(ops)):
            return False
        a = self.anomaly
        assert a.table is not None
        part = reduced(self.evidence, a.table, kept, ())
        try:
            verdict = self.checker.check(part)
        except Exception:  # the rest is no valid history
            return False
        if any(b.name == a.name and b.table == a.table and b.ops[:1] == a.ops[:1] for b in verdict.anomalies):
            self.evidence = part
            return True
        return False

    def reduce(self, whole: list[str]) -> list[str] | None:
        """A 1-minimal part of the operations that shows the anomaly, or what is left when the budget ends; None if they do not show it."""
        return ddmin(whole, self.shows, lambda: self.budget.short) if self.shows(whole) else None


# --- less of a history ------------------------------------------------------------------------------------------------


def reduced(evidence: Evidence, table: str, ops: Collection[str], ids: Collection[int]) -> Evidence:
    """The evidence of one table with some of its operations, and of rows of some ids only (all, when there are none)."""
    events = tuple(_projected(e, ids) for e in evidence.history.events if e.op in ops)
    logs = {table: _log(evidence.logs[table], ops, ids)} if table in evidence.logs else {}
    labels = {table: evidence.labels[table]} if table in evidence.labels else {}
    history = replace(evidence.history, events=events)
    return Evidence(history, logs, {table: evidence.tables[table]}, evidence.complete, labels=labels)


def _log(log: TableLog, ops: Collection[str], ids: Collection[int]) -> TableLog:
    """The log without the snapshots of other operations and without other rows."""
    by_snapshot = log.by_snapshot()
    kept: dict[int | None, int | None] = {None: None}

    def nearest(snapshot: int | None) -> int | None:
        """The snapshot if it stays, else its nearest ancestor that does."""
        line: dict[int | None, None] = {}
        while snapshot not in kept and snapshot not in line:
            c = by_snapshot.get(snapshot) if snapshot is not None else None
            if c is None or (c.op is None or c.op in ops):
                kept[snapshot] = snapshot
                break
            line[snapshot] = None
            snapshot = c.parent_id
        end = kept.get(snapshot)  # None also if the parents form a cycle
        kept.update(dict.fromkeys(line, end))
        return end

    id_column = log.columns.index("id") if "id" in log.columns else 0
    commits = tuple(
        replace(_rows(c, id_column, ids), parent_id=nearest(c.parent_id))
        for c in log.commits
        if nearest(c.snapshot_id) == c.snapshot_id
    )
    stays = {c.snapshot_id for c in commits}
    known = {c.snapshot_id for c in log.commits}

    def version(m: Metadata) -> Metadata:
        refs = {name: found for name, s in m.refs.items() if (found := nearest(s)) is not None}
        snapshots = tuple(s for s in m.snapshots if s in stays or s not in known)
        return replace(m, current=nearest(m.current), snapshots=snapshots, refs=refs)

    return _thinned(replace(log, commits=commits, metadata=tuple(map(version, log.metadata))))


def _thinned(log: TableLog) -> TableLog:
    """The log without the versions that differ from the one before them in nothing but time, so that a question costs what it asks about.

    The next version descends from the one before, and a capture shows it.
    """
    table_format = format_of(log)
    made = {c.metadata for c in log.commits}
    kept: list[Metadata] = []
    number: dict[int, int] = {}
    moved: dict[str, str] = {}
    stays: set[str] = set()
    for k, m in enumerate(log.metadata):
        last = k + 1 == len(log.metadata)
        if kept and not last and m.n not in made and _same(kept[-1], m, table_format) and m.location not in stays:
            moved[m.location] = kept[-1].location
        else:
            number[m.n] = len(kept)
            stays.add(m.location)
            kept.append(m)
    if not moved:
        return log
    return replace(
        log,
        metadata=tuple(_descends(m, n, moved, table_format) for n, m in enumerate(kept)),
        commits=tuple(replace(c, metadata=number.get(c.metadata, c.metadata)) for c in log.commits),
        captures=tuple(replace(c, metadata=moved.get(c.metadata or "", c.metadata)) for c in log.captures),
    )


def _same(a: Metadata, b: Metadata, table_format: TableFormat[Any, Any]) -> bool:
    if a.problems or b.problems or (a.current, a.snapshots, a.refs) != (b.current, b.snapshots, b.refs):
        return False
    return table_format.same_but_time(a, b)


def _descends(m: Metadata, n: int, moved: Mapping[str, str], table_format: TableFormat[Any, Any]) -> Metadata:
    """The version with number ``n``; the predecessor that it names is one that stays."""
    before = m.predecessor
    return replace(m if before is None or before not in moved else table_format.follows(m, moved[before]), n=n)


def _rows(c: Commit, id_column: int, ids: Collection[int]) -> Commit:
    if not ids or c.added is None or c.removed is None:
        return c
    added = tuple(x for x in c.added if not _other(x.row[id_column], ids))
    return replace(c, added=added, removed=tuple(x for x in c.removed if not _other(x.row[id_column], ids)))


def _projected(e: Event, ids: Collection[int]) -> Event:
    """The event with only the ids and rows in ``ids``."""
    if not ids:
        return e
    value = e.value
    if isinstance(value, dict) and isinstance(value.get("ids"), list):
        return replace(e, value={**value, "ids": [i for i in value["ids"] if isinstance(i, int) and i in ids]})
    if isinstance(value, dict) and isinstance(value.get("rows"), list):
        return replace(e, value={**value, "rows": _of(value["rows"], ids)})
    if isinstance(value, list):
        return replace(e, value=_of(value, ids))
    return e


def _of(rows: list[Any], ids: Collection[int]) -> list[Any]:
    id_column = COLUMNS.index("id")
    return [
        r for r in rows if not isinstance(r, list | tuple) or len(r) != len(COLUMNS) or not _other(r[id_column], ids)
    ]


def _other(id: object, ids: Collection[int]) -> bool:
    return isinstance(id, int) and id not in ids


def _shown(o: Operation, ids: Collection[int]) -> set[str]:
    """The operations whose ids the rows of a read contain."""
    result = o.result["rows"] if isinstance(o.result, dict) and "rows" in o.result else o.result
    if o.type != "ok" or not isinstance(result, list) or (kind := KINDS.get(o.f)) is None or kind.verb != "read":
        return set()
    out: set[str] = set()
    for r in _of(result, ids) if ids else result:
        if isinstance(r, list | tuple) and len(r) == len(COLUMNS):
            out |= {str(r[COLUMNS.index("val")]), *str(r[COLUMNS.index("log")]).split(",")}
    return out


def _concerns(o: Operation, about: Touches | None, ids: frozenset[int]) -> bool:
    """Whether an operation that touches this may read or change rows of these ids, or move them."""
    kind = KINDS.get(o.f)
    maintenance = kind is not None and not kind.changes_rows and (kind.writes or kind.sets_back)
    if about is None or maintenance:
        return True
    return about.among is None or bool(about.among) or not ids.isdisjoint(about.named)


def _tied(touched: Iterable[Touches | None], keys: Iterable[int]) -> frozenset[int]:
    """The ids, and those from which INSERT … SELECT copied rows to them."""
    pairs = [
        (about.copied_from, to) for about in touched if about and about.copied_from is not None for to in about.ids
    ]
    found = set(keys)
    while more := {a for a, b in pairs if b in found and a not in found}:
        found |= more
    return frozenset(found)
