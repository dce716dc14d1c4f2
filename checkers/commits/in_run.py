"""What becomes of an operation, and whom what proxies did not see blames, is decided by all tables of a run together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.timeline import explain
from checkers.timeline.timeline import Resolution
from checkers.timeline.timelines import Whole, fates, whole_of
from checkers.timeline.version_order import place
from checkers.unit import Part, Unit
from workloads.engines.engines import SPARK


@dataclass(frozen=True)
class InRun:
    """What the whole run decides of one table.

    Attributes:
        saw_all: whether proxies saw a request for every snapshot of the table that another engine than Spark made, or that names nobody.
        silent: number of an anomaly → the operation whose commit no proxy saw a request for. If they saw all, its engine sent none.
        fates: operation of unknown outcome → each of its tables → what became of it there, as far as this table tells.
        counts: whether the table's operations of unknown outcome are told of; not if ``checkers.columns`` decided it.
    """

    saw_all: bool
    silent: Mapping[int, Operation] = field(default_factory=dict)
    fates: Mapping[str, Mapping[str, Resolution]] = field(default_factory=dict)
    counts: bool = True


def in_run(unit: Unit, silent: Mapping[int, Operation]) -> InRun:
    """That of a table with a timeline."""
    t = unit.timeline
    assert t is not None
    unknown = [unit.everything[o.op] for o in t.ops if o.type == "info"]
    return InRun(saw_all(unit), silent, fates([t], unknown))


def resolved(in_run: Mapping[str, InRun]) -> dict[str, Whole]:
    """Operation of unknown outcome → what became of it in all its tables together."""

    def fate(op: str, table: str) -> Resolution:
        known = in_run.get(table)
        return "unknown" if known is None or op not in known.fates else known.fates[op][table]

    counted = {op: m.fates[op] for m in in_run.values() if m.counts for op in m.fates}
    return {op: whole_of(frozenset(fate(op, table) for table in tables)) for op, tables in counted.items()}


def with_silence(p: Part) -> Part:
    """The part whose anomalies say that an engine reported success without asking the catalog."""
    found = list(p.anomalies)
    for n, o in p.more.silent.items() if p.more is not None else ():
        words = (
            f" Proxies saw no request for its commit: {explain.engine(o)} reported success without asking the catalog."
        )
        blamed = {**found[n].evidence, "culprit": "engine", "engine": o.engine}
        found[n] = replace(found[n], explanation=found[n].explanation + words, evidence=blamed)
    return replace(p, anomalies=tuple(found))


def saw_all(unit: Unit) -> bool:
    """See :class:`InRun`."""
    requests, log = unit.requests, unit.log
    if log is None:
        return True
    asked = {s for c in requests.carried for s in c.adds} | {s for a in requests.accepted for s in a.adds}
    placed = {place(s.new) for s in requests.swaps}
    for c in log.commits:
        o = unit.everything.get(c.op) if c.op is not None else None
        foreign = c.op is None or (o is not None and o.engine != SPARK)
        if not foreign or c.snapshot_id in asked:
            continue
        if not 0 <= c.metadata < len(log.metadata) or place(log.metadata[c.metadata].location) not in placed:
            return False
    return True
