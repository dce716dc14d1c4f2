"""The ``linearizable`` checker: does any order of commits explain what a table's clients saw?

Every other checker takes the order of commits from the table's own log. This one ignores the log: it knows what clients asked, what
they were told, and when, and searches for *any* order that explains it, id by id (see ``rows``). So it is an independent second
opinion: a broken log cannot mislead it. It cannot see what no client saw: an update that was lost and never read.

Left out are reads of older snapshots by name, which promise nothing about time, and groups of ids connected by INSERT … SELECT that are
too large to judge together. Each operation is held to its own level: its engine's, or the table's. Under ``serializable`` every statement
and read takes effect at one moment; under ``snapshot`` a statement scans at one moment and commits at a later one. Anomalies that
Iceberg documents beyond that (the undelete of ``RowDelta``, unvalidated appends: apache/iceberg#12653) are reported and marked as documented.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.linearizable.blackbox import searched
from checkers.linearizable.calls import Call, UnfitHistory
from checkers.linearizable.result import KeyResult
from checkers.linearizable.rows import STRICT, IdGroup, Leniency, SeenRows, TableRows, UnknownMeaning
from checkers.linearizable.search import Limits, SearchResult, search
from checkers.linearizable.sidetables import judge_names
from checkers.timeline import explain
from checkers.timeline.makers import by_strangers
from checkers.timeline.promise import BLIND_APPEND, ROW_DELTA, isolation, not_known, promise, source_of_blind_append
from checkers.timeline.timeline import Timeline
from checkers.unit import Part, TableChecker, Unit
from checkers.verdict import Anomaly
from workloads.tables import COLUMNS, TableSpec

NONLINEARIZABLE = "nonlinearizable"
"""The anomaly's name."""
LIMITS = Limits(steps=300_000, configurations=150_000, total=3_000_000)
"""Search limits for one id, and for a table."""
GUIDED = Limits(steps=60_000, configurations=60_000)
"""Limits of the guided search that comes first."""
JOINED = Limits(steps=20_000, configurations=20_000)
"""Limits of each search of ids that INSERT … SELECT connects."""
MOST_OF_A_TABLE = 100
"""Anomalies reported for each table, at most."""


class LinearizableTable(TypedDict, total=False):
    """What the search over one table's ids did; of a table that needed none (``Unit.explained``) only the first two."""

    engine: Literal["columns"]
    """What found the order; absent if it was the search."""
    level: str
    """The table's isolation level: ``serializable`` or ``snapshot``."""
    ids: int
    """Row ids judged."""
    calls: int
    """Calls of clients on these."""
    guided: int
    """Ids that the guided search, which comes first, found an order for."""
    undecided: list[int]
    """Ids that a limit left undecided."""
    left_out: list[int]
    """Ids that INSERT … SELECT connects with too many others."""
    reads_left_out: int
    """Reads of older snapshots by name."""


class LinearizableStats(TypedDict):
    """What the checker counted."""

    tables: dict[str, LinearizableTable]


class Linearizable(TableChecker):
    """Answers that no order of the operations explains."""

    name = "linearizable"
    stats_type = LinearizableStats
    reducible = True
    second_opinion = True
    names = frozenset({NONLINEARIZABLE})

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits

    def part(self, unit: Unit) -> Part | None:
        """Anomaly ``nonlinearizable``: the operation whose answer has no explanation, and the possible states before it.

        ``stats``: :class:`LinearizableStats`.
        """
        name, spec = unit.name, unit.spec
        if spec is None:
            note = f"{name}: the plan does not describe this table, so its promises are unknown"
            return Part(name, notes=(note,), undecided=True) if unit.ops else None
        found, said = self._names(unit)
        if unit.explained:
            stats = LinearizableTable(engine="columns", level=spec.isolation)
            return Part(name, found, said, bool(said), stats)
        table = _Table(spec, unit.ops, self._limits, self.name, *_by_others(unit.timeline))
        table.run()
        notes = tuple(f"{name}: {n}" for n in (*table.notes, *table.remarks))
        anomalies = (*found, *table.anomalies[:MOST_OF_A_TABLE])
        return Part(name, anomalies, (*said, *notes), bool(said or table.notes), table.stats())

    def _names(self, unit: Unit) -> tuple[tuple[Anomaly, ...], tuple[str, ...]]:
        """Of the side tables beside a table: answers that have no order, and what could not be decided."""
        try:
            result = judge_names(unit.ops, self._limits)
        except UnfitHistory as e:
            return (), (f"{unit.name}: {e}",)
        if result is None:
            return (), ()
        by_op = {o.op: o for o in unit.ops}
        found = []
        for k in result.failures:
            events = sorted({i for op in k.involved for i in by_op[op].indices})
            found.append(Anomaly(NONLINEARIZABLE, self.name, unit.name, k.explanation, k.involved, tuple(events)))
        said = tuple(f"{unit.name}: of the side tables: {k.explanation}" for k in result.undecided)
        return tuple(found), said


def _by_others(t: Timeline | None) -> tuple[tuple[int, ...], frozenset[int] | None]:
    """The snapshots of clients that are no writers of the run, and the ids of their rows; None where these are not known."""
    found = [] if t is None else by_strangers(t.log.commits, t.ops)
    ids: set[int] = set()
    for c in found:
        changes = t.changes(c) if t is not None else None
        if changes is None:
            return tuple(c.snapshot_id for c in found), None
        ids |= {r.id for rows in changes for r in rows}
    return tuple(c.snapshot_id for c in found), frozenset(ids)


def _ids(part: IdGroup) -> str:
    """``id 3``, ``ids 3, 4``."""
    ids = sorted(part.ids)
    return f"id {ids[0]}" if len(ids) == 1 else f"ids {', '.join(map(str, ids))}"


class _Table:
    """One table."""

    def __init__(
        self,
        spec: TableSpec,
        operations: Sequence[Operation],
        limits: Limits,
        checker: str,
        others: Sequence[int] = (),
        foreign: frozenset[int] | None = frozenset(),
    ) -> None:
        """``others``: snapshots of clients that are no writers of the run; ``foreign``: the ids of their rows, None: any."""
        self.spec = spec
        self.operations = {o.op: o for o in operations}
        self.seen = SeenRows.of(spec, operations)
        self.limits = limits
        self.checker = checker
        self.others, self.foreign = others, foreign
        self.anomalies: list[Anomaly] = []
        self.notes: list[str] = []
        """What could not be decided."""
        self.remarks: list[str] = []
        """What was left out."""
        self.calls = 0
        self.steps = 0
        self.guided = 0
        self.judged = 0
        self.undecided: list[int] = []
        self.left_out: list[int] = []

    def stats(self) -> LinearizableTable:
        return {
            "level": self.spec.isolation,
            "ids": self.judged,
            "calls": self.calls,
            "guided": self.guided,
            "undecided": self.undecided,
            "left_out": self.left_out,
            "reads_left_out": self.seen.travels,
        }

    def run(self) -> None:
        """Judge every id."""
        if self.seen.strange:
            self.notes.append(
                f"{len(self.seen.strange)} operations have an unknown kind or form ({', '.join(self.seen.strange[:4])}): "
                "their effect is unknown"
            )
            return
        if self.seen.engines:
            self.notes.append(not_known(self.seen.engines))
            return
        if self.seen.set_back:
            self.remarks.append(
                f"left out: {', '.join(self.seen.set_back[:4])} rolled the table back to a state that clients did not choose"
            )
            return
        for part in self.seen.parts():
            if len(self.anomalies) >= MOST_OF_A_TABLE:
                self.remarks.append(f"not all ids were judged: {MOST_OF_A_TABLE} anomalies are reported, at most")
                break
            self.judged += len(part.ids)
            self.calls += len(part.calls)
            try:
                self._judge(part)
            except UnknownMeaning as e:
                self.undecided += sorted(part.ids)
                self.notes.append(str(e))
        if self.left_out:
            self.remarks.append(
                f"{len(self.left_out)} ids were left out: INSERT … SELECT connects too many of them to be judged together"
            )

    def _judge(self, part: IdGroup) -> None:
        found = self._decide(part, STRICT)
        if found is None:
            self.guided += len(part.ids)
        elif found.valid is False and (self.foreign is None or part.ids & self.foreign):
            self.undecided += sorted(part.ids)
            self.notes.append(
                f"{_ids(part)}: no order of the operations explains what clients saw, but others wrote it too, who are no writers of the "
                f"run: snapshot {explain.listing(self.others)}"
            )
        elif found.valid is False:
            self.anomalies.append(self._anomaly(part, found))
        elif found.valid == "unknown" and len(part.ids) > 1:
            alone = list(part.alone(self.spec))
            self.left_out += sorted(part.ids.difference(*(p.ids for p in alone)))
            for p in alone:
                self._judge(p)
        elif found.valid == "unknown":
            self.undecided += sorted(part.ids)
            self.notes.append(f"{_ids(part)}: {self._told(part, found).explanation}")

    def _decide(self, part: IdGroup, leniency: Leniency) -> SearchResult | None:
        """None if there is an order in which unknown outcomes take effect only where a read shows them."""
        joined = len(part.ids) > 1
        for guide in (all, any):
            guided = TableRows(self.spec, part, leniency, guide)
            calls = [c for c in part.calls if guided.worthwhile(c)]
            if self._search(calls, guided, JOINED if joined else GUIDED).valid is True:
                return None
        return self._search(part.calls, TableRows(self.spec, part, leniency), JOINED if joined else self.limits)

    def _told(self, part: IdGroup, s: SearchResult) -> KeyResult:
        key = sorted(part.ids) if len(part.ids) > 1 else min(part.ids)
        return searched(key, part.calls, TableRows(self.spec, part), s)

    def _search(self, calls: Sequence[Call], model: TableRows, limits: Limits) -> SearchResult:
        found = search(calls, model, replace(limits, total=self.limits.total).after(self.steps))
        self.steps += found.steps
        return found

    def _anomaly(self, part: IdGroup, s: SearchResult) -> Anomaly:
        found = self._told(part, s)
        ops = [self.operations[op] for op in dict.fromkeys(found.involved) if op in self.operations]
        documented, why = self._documented(part)
        text = f"{_ids(part)}: {found.explanation} {self._promised(part)}"
        return Anomaly(
            NONLINEARIZABLE,
            self.checker,
            self.spec.name,
            text + (f" {why}" if why else ""),
            ops=tuple(o.op for o in ops),
            events=tuple(dict.fromkeys(i for o in ops for i in o.indices)),
            keys=tuple(sorted(part.ids)[:100]),
            documented=documented,
            evidence={
                "level": self.spec.isolation,
                "failing": found.failing,
                "answered": found.answered,
                "of": found.of,
                "columns": self._columns(part, s),
                "configurations": [
                    {"state": c.state, "order": list(c.order), "pending": list(c.pending)} for c in found.configurations
                ],
            },
        )

    def _promised(self, part: IdGroup) -> str:
        """What the table, or each engine, promises."""
        words = {"serializable": "serializable", "snapshot": "snapshot isolation"}
        writes = [self.operations[c.op] for c in part.calls if not c.reads and c.op in self.operations]
        if not any(o.mixed for o in writes):
            return f"The table promises {words.get(self.spec.isolation, self.spec.isolation)}."
        promised = {(explain.engine(o), isolation(self.spec, o)) for o in writes}
        return f"Promised: {', '.join(f'{words.get(level, level)} by {who}' for who, level in sorted(promised))}."

    def _documented(self, part: IdGroup) -> tuple[str | None, str]:
        """A link and a sentence if documented behaviour explains the failure."""
        blind = [c.value.operation for c in part.calls if not c.reads and c.value.blind and not c.value.loose]
        has_blind = bool(blind)
        source = source_of_blind_append(self.spec, blind[0]) if blind else None
        mode = self.spec.properties.get("write.delete.mode", self.spec.mode).lower()
        has_undelete = (
            self.spec.format_version == 2
            and mode == "merge-on-read"
            and any(
                not c.reads
                and c.value.loose
                and c.value.deletes
                and promise(self.spec, c.value.operation).level is None
                for c in part.calls
            )
        )
        for possible, leniency, link, why in (
            (has_undelete, Leniency(undelete=True), ROW_DELTA, _UNDELETE),
            (has_blind, Leniency(blind=True), source or BLIND_APPEND, _BLIND),
            (
                has_undelete and has_blind,
                Leniency(undelete=True, blind=True),
                source or BLIND_APPEND,
                f"{_UNDELETE} {_BLIND}",
            ),
        ):
            if possible:
                found = self._decide(part.lenient(leniency), leniency)
                if found is None or found.valid is True:
                    return link, why
        return None, ""

    def _columns(self, part: IdGroup, s: SearchResult) -> list[str]:
        """The columns in which the rows read differ from every possible state; ``existence`` if other rows were read."""
        assert s.stuck is not None
        call = part.calls[s.stuck]
        if not call.reads:
            return []
        out: set[str] = set()
        for f in s.finals:
            here = [r for r in f.state.rows if call.value is None or r.id == call.value]
            if len(here) != len(call.result):
                out.add("existence")
                continue
            out |= {
                column
                for a, b in zip(here, call.result, strict=True)
                for column, x, y in zip(COLUMNS, a, b, strict=True)
                if x != y
            }
        return sorted(out)


_UNDELETE = (
    "Iceberg documents that a DELETE can miss a row that a concurrent statement changes; that explains the answer."
)
_BLIND = "INSERT … SELECT and MERGE with only an insert clause commit as appends that validate nothing; that explains the answer."
