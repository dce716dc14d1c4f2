"""The timelines of a run's tables, made once from its evidence, and what became of an operation in all its tables.

A timeline is made in four steps: the log without a last version that its killed writer left half read; commits that replaced the table
placed on the version they were made from; snapshots that name no operation given one (:mod:`checkers.timeline.makers`,
:mod:`checkers.timeline.labels`); a snapshot of several operations taken apart (:mod:`checkers.timeline.several`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.makers import NONE, Labels, labelled
from checkers.evidence.problem import Problem
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit, RowChange, TableLog
from checkers.timeline import two_tables
from checkers.timeline.labels import labels
from checkers.timeline.makers import told_by_proxies_and_rows
from checkers.timeline.several import one_each
from checkers.timeline.timeline import Resolution, Timeline, kind_of, meaning
from checkers.timeline.version_order import Chain
from workloads.tables import COLUMNS

TIMELINES = "timelines"
"""Key of the timelines in what is known of evidence."""
Whole = Literal[Resolution, "half-applied"]
"""What became of an operation in all its tables together: ``half-applied`` (main of one table has it, main of the other does not),
``dropped`` (main of at least one table had it, none has it any more), ``unknown`` (the log of at least one table cannot tell)."""


def timelines(evidence: Evidence) -> tuple[list[Timeline], list[str]]:
    """The tables that can be judged, by name, and notes on those that cannot. The same evidence always has the same tables."""
    found = timelines_by_name(evidence).values()
    return [t for t in found if isinstance(t, Timeline)], [why for why in found if isinstance(why, str)]


def timelines_by_name(evidence: Evidence) -> Mapping[str, Timeline | str]:
    """The same for each table, by name: its timeline, or the note on why it cannot be judged."""
    if TIMELINES not in evidence.known:
        evidence.known[TIMELINES] = _timelines(evidence)
    found: Mapping[str, Timeline | str] = evidence.known[TIMELINES]
    return found


def _timelines(evidence: Evidence) -> dict[str, Timeline | str]:
    everything = {o.op: o for o in evidence.history.operations()}
    by_table = two_tables.tables_in(evidence)
    shared = any(len(two_tables.tables_of(o)) > 1 for o in everything.values())
    found: dict[str, Timeline | str] = {}
    for name in sorted({*evidence.tables, *evidence.logs, *by_table}):
        spec, log = evidence.tables.get(name), evidence.logs.get(name)
        if spec is None:
            found[name] = f"{name}: the plan does not describe this table, so its promises are unknown"
        elif log is None or not log.metadata:
            found[name] = f"{name}: there is no table log to check against"
        elif log.committed_again:
            which = ", ".join(map(str, sorted(log.committed_again)))
            found[name] = (
                f"{name}: snapshot {which} was committed more than once, so main's ancestry since then is unknown (see snapshot-changed)"
            )
        elif not set(COLUMNS) <= set(log.columns):
            found[name] = f"{name}: the table log has the columns {', '.join(log.columns)}, not {', '.join(COLUMNS)}"
        else:
            ops = tuple(by_table.get(name, ()))
            seen = everything | {o.op: o for o in ops} if shared else everything
            whole = _whole(log)
            joined = _joined(whole, ops, seen)
            replaced = frozenset(c.snapshot_id for c, was in _changed(joined, whole) if was.parent_id is None)
            t = _named(Timeline(spec, joined, seen, ops, evidence.complete, replaced=replaced), evidence)
            once = one_each(t.log, seen)  # by names, so snapshots have theirs first
            found[name] = t if once is t.log else replace(t, log=once, full_log=t.log)
    return found


def named(evidence: Evidence) -> Evidence:
    """The evidence whose snapshots name the operations that made them, as far as that is known."""
    found, _ = timelines(evidence)
    new = {t.name: t.labels for t in found if t.labels is not NONE and t.name not in evidence.labels}
    logs = {name: labelled(log, new[name]) if name in new else log for name, log in evidence.logs.items()}
    return replace(evidence, logs=logs, labels={**evidence.labels, **new}) if new else evidence


def _named(t: Timeline, evidence: Evidence) -> Timeline:
    """A timeline whose snapshots name the operations that made them."""
    if t.name in evidence.labels:
        return replace(t, labels=evidence.labels[t.name])
    carried = evidence.carried.get(t.name, ())
    if all(c.op is not None and (c.attempt or not carried) for c in t.log.commits):
        return t
    makers = told_by_proxies_and_rows(t, carried, evidence.swaps.get(t.name, ()))
    first = Labels(makers.made, makers.how, makers.shared)
    t = replace(t, log=labelled(t.log, first), labels=first)
    found = labels(t, makers, meaning, Counter(request.op for request in carried))
    return replace(t, log=labelled(t.log, found), labels=found)


def _whole(log: TableLog) -> TableLog:
    """A log without a last version whose snapshots are missing because the log's writer was killed."""
    if log.complete:
        return log
    known = log.by_snapshot()
    metadata = list(log.metadata)
    while len(metadata) > 1 and metadata[-1].current is not None and metadata[-1].current not in known:
        metadata.pop()
    if len(metadata) == len(log.metadata):
        return log
    last = metadata[-1].n
    return replace(log, metadata=tuple(metadata), commits=tuple(c for c in log.commits if c.metadata <= last))


def _joined(log: TableLog, ops: Sequence[Operation], everything: Mapping[str, Operation]) -> TableLog:
    """A log in which a snapshot that replaced the table (and has no parent) follows the current snapshot of the version it was made from.

    So main's ancestry continues below it, and its changes are the rows that differ.
    """

    def replaces(c: Commit) -> bool:
        o = everything.get(c.op or "")
        kind = kind_of(o) if o is not None else None
        return c.parent_id is None and kind is not None and kind.replaces

    if not any(map(replaces, log.commits)):
        return log
    made_from = {s.after.n: s.before for s in Chain(log, ops, everything).steps if not s.repeated}
    joined: dict[int, Commit] = {}
    for c in log.commits:
        before = made_from.get(c.metadata) if replaces(c) else None
        joined[c.snapshot_id] = c if before is None or before.current is None else _after(c, before.current, joined)
    return replace(log, commits=tuple(joined.values()))


def _changed(log: TableLog, before: TableLog) -> Iterator[tuple[Commit, Commit]]:
    """The commits that :func:`_joined` placed elsewhere, and as they were."""
    if log is not before:
        yield from ((c, was) for c, was in zip(log.commits, before.commits, strict=True) if c is not was)


def _after(c: Commit, base: int, known: Mapping[int, Commit]) -> Commit:
    """A commit without a parent, placed on ``base``."""
    line: list[Commit] = []
    snapshot: int | None = base
    while snapshot is not None and snapshot in known and len(line) <= len(known):
        line.append(known[snapshot])
        snapshot = known[snapshot].parent_id
    rows: dict[tuple[object, ...], list[RowChange]] = {}
    whole = snapshot is None and all(x.readable for x in line) and c.readable
    for x in reversed(line) if whole else ():
        for r in x.removed or ():
            present = rows.get(r.row)
            if present:
                present.pop()
        for r in x.added or ():
            rows.setdefault(r.row, []).append(r)
    if not whole:
        why = (*c.problems, Problem("other", "the rows of the table that it replaced are not known"))
        return replace(c, parent_id=base, added=None, removed=None, problems=why)
    added = []
    for r in c.added or ():
        same = rows.get(r.row)
        if same:
            same.pop()
        else:
            added.append(r)
    return replace(c, parent_id=base, added=tuple(added), removed=tuple(r for rest in rows.values() for r in rest))


def fates(found: Iterable[Timeline], operations: Iterable[Operation]) -> dict[str, dict[str, Resolution]]:
    """Operation id → table → what became of the operation there, for every operation that can leave a snapshot.

    Args:
        found: the tables that can be judged. Operations on none of them are left out; in other tables the fate is ``unknown``.
        operations: of the history.
    """
    judged = {t.name: t for t in found}
    out: dict[str, dict[str, Resolution]] = {}
    for o in operations:
        kind, tables = kind_of(o), two_tables.tables_of(o)
        if kind is not None and kind.writes and not judged.keys().isdisjoint(tables):
            out[o.op] = {name: judged[name].resolve(o) if name in judged else "unknown" for name in tables}
    return out


def whole_of(by_table: frozenset[Resolution]) -> Whole:
    """What became of an operation in all its tables together, from what became of it in each."""
    if "unknown" in by_table:
        return "unknown"
    if "applied" in by_table:
        return "applied" if len(by_table) == 1 else "half-applied"
    return "dropped" if "dropped" in by_table else "not-applied"
