"""A table's rows as an object: what its clients asked and saw, split into independent groups of ids.

The state is the rows of one id, as many as there are; a statement's effect on it is its meaning (``Kind.writeset``). A statement on
several ids, and one that selects the rows of a partition by the parity of their counter, is one call on each id: each row alone
decides whether the statement touches it. INSERT … SELECT copies the row of one id to another, so these two form one object. A read of
the whole table is a read of each id. If the whole is linearizable, so is each group: a group that is not refutes the whole.

If the table promises serializability, a statement scans and commits at one moment. Under snapshot isolation these are two moments: it
may commit what it meant at any state since its invocation, if the rows that it removes still exist (first committer wins); a DELETE
that finds some of them already deleted removes the others. So a state also holds, for each statement under way, what it may have
scanned::

    rows          {a}            {b}             {b'}
    events         ├ invoked: delete             ├ answered
    may commit     {-a}          {-b}            {-b'}              -a is void once an update removed a; with the
                                                                    documented undelete it is nothing, and b' stays
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.linearizable.calls import NEVER, Call, bounds
from checkers.linearizable.models import Model
from checkers.timeline import explain
from checkers.timeline.promise import blind_append, isolation, known
from checkers.timeline.timeline import kind_of
from checkers.timeline.touched import reads_rows, touches
from workloads.operations.keys import part_of
from workloads.operations.kind import Kind, Touches
from workloads.tables import COLUMNS, Row, State, TableSpec

Guide = Callable[[Iterable[object]], bool]
Rows = tuple[Row, ...]
"""Sorted, with repetitions."""


class RowEffect(NamedTuple):
    """The rows that a commit removes and adds."""

    removed: Rows
    added: Rows


@dataclass(frozen=True, slots=True)
class ObjectWrite:
    """A statement on one object.

    Attributes:
        value: its arguments, as far as they concern the object: a statement on 100,000 ids is one call on each of them.
        loose: it may have scanned before it committed.
        deletes: a DELETE in Iceberg's sense.
        blind: it commits as an append that validates nothing.
    """

    operation: Operation
    value: Any
    kind: Kind
    touches: Touches
    loose: bool
    deletes: bool
    blind: bool = False

    def __hash__(self) -> int:
        return hash(self.operation.op)


class At(NamedTuple):
    """A state: the rows, and what each loose statement under way (by id) may commit."""

    rows: Rows
    scanned: tuple[tuple[str, tuple[RowEffect, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Leniency:
    """Behaviour that Iceberg documents as possible beyond a table's promise."""

    undelete: bool = False
    blind: bool = False


STRICT = Leniency()


class IdGroup(NamedTuple):
    """Ids that belong together, and the calls on them."""

    ids: frozenset[int]
    calls: tuple[Call, ...]

    def lenient(self, leniency: Leniency) -> IdGroup:
        """The same calls, with unvalidated appends where the leniency forgives them."""
        if not leniency.blind:
            return self
        calls = (
            replace(c, value=replace(c.value, loose=True)) if not c.reads and c.value.blind else c for c in self.calls
        )
        return IdGroup(self.ids, tuple(calls))

    def alone(self, spec: TableSpec) -> Iterator[IdGroup]:
        """Each id by itself that no INSERT … SELECT made a row of: for what reads it, it is as if that had never been."""
        writes = [c.value.touches for c in self.calls if not c.reads]
        for id in sorted(self.ids - {to for t in writes if t.copied_from is not None for to in t.ids}):
            calls = []
            for c in self.calls:
                if c.reads and c.value in (None, id):
                    rows = tuple(r for r in c.result if r.id == id)
                    calls.append(Call(c.op, c.process, c.f, c.value, rows, True, c.start, c.end))
                elif not c.reads and c.value.touches.copied_from is None and _concerns(c.value.touches, id, spec):
                    calls.append(c)
            yield IdGroup(frozenset((id,)), tuple(calls))


class UnknownMeaning(ValueError):
    """An operation whose meaning is unknown here."""


# --- from operations to calls -----------------------------------------------------------------------------------------


def rows_of(result: Any) -> Rows | None:
    """A read's rows; None when its result has another form."""
    if not isinstance(result, list) or any(not isinstance(r, list | tuple) or len(r) != len(COLUMNS) for r in result):
        return None
    if any(type(r[0]) is not int or any(isinstance(x, list | Mapping) for x in r) for r in result):
        return None
    rows = [Row(*r) for r in result]
    try:
        return tuple(sorted(rows))
    except TypeError:  # a corrupted row, which equals no possible row
        return tuple(sorted(rows, key=repr))


@dataclass(frozen=True)
class SeenRows:
    """What clients asked of a table and were told; ``strange``: operations whose arguments or results have another form."""

    spec: TableSpec
    reads: tuple[tuple[Operation, int | None, Rows], ...]
    writes: tuple[tuple[Operation, Kind, Touches], ...]
    travels: int
    strange: tuple[str, ...]
    set_back: tuple[str, ...] = ()
    """Rollbacks that may have taken effect: the state does not determine what they mean."""
    engines: tuple[str, ...] = ()
    """Engines of writes of which it is not known what they promise."""

    @staticmethod
    def of(spec: TableSpec, operations: Iterable[Operation]) -> SeenRows:
        """Sort a table's operations. Those that failed never took effect; maintenance must not change a row."""
        reads: list[tuple[Operation, int | None, Rows]] = []
        writes: list[tuple[Operation, Kind, Touches]] = []
        strange: list[str] = []
        travels = 0
        set_back: list[str] = []
        engines: set[str] = set()
        for o in operations:
            kind = kind_of(o)
            if o.type == "fail":
                continue
            if kind is None:
                strange.append(o.op)
            elif kind.goes_back:
                set_back.append(o.op)
            elif kind.travels:
                travels += 1
            elif reads_rows(o):
                if o.type != "ok":
                    continue
                rows, about = rows_of(o.result), touches(o, spec)
                key = None if about is None or about.whole else about.ids[0]
                if rows is None or about is None or (key is not None and any(r.id != key for r in rows)):
                    strange.append(o.op)
                else:
                    reads.append((o, key, rows))
            elif kind.changes_rows:
                about = touches(o, spec)
                if about is None:
                    strange.append(o.op)
                else:
                    writes.append((o, kind, about))
                    engines |= set() if known(o) else {o.engine}
        return SeenRows(
            spec, tuple(reads), tuple(writes), travels, tuple(strange), tuple(set_back), tuple(sorted(engines))
        )

    def parts(self) -> Iterator[IdGroup]:
        """The ids that any operation names or any read shows, in independent groups."""
        groups = _Groups()
        for _, _, about in self.writes:
            groups.join(about.named, together=about.copied_from is not None)
        for _, key, rows in self.reads:
            groups.join([*(() if key is None else (key,)), *(r.id for r in rows)], together=False)
        group_of = groups.sets()
        calls: dict[frozenset[int], list[Call]] = {g: [] for g in group_of.values()}
        by_part: dict[int, set[frozenset[int]]] = {}
        for id, g in group_of.items():
            by_part.setdefault(part_of(id, self.spec), set()).add(g)
        for o, kind, about in self.writes:
            named = {group_of[i] for i in about.named}
            for part in by_part if about.among is None else about.among:
                named |= by_part.get(part, set())
            whole = ObjectWrite(
                o, o.value, kind, about, self._loose(o, kind), kind.verb == "delete", blind_append(self.spec, o)
            )
            own = _by_group(o.value, about, group_of)
            for g in named:
                write = replace(whole, value={**o.value, "ids": own[g]}) if g in own else whole
                calls[g].append(Call(o.op, o.process, o.f, write, None, False, *bounds(o)))
        for o, key, rows in self.reads:
            rows_of: dict[frozenset[int], list[Row]] = {}
            for r in rows:
                rows_of.setdefault(group_of[r.id], []).append(r)
            for g in calls if key is None else (group_of[key],):
                calls[g].append(Call(o.op, o.process, o.f, key, tuple(rows_of.get(g, ())), True, *bounds(o)))
        for g in sorted(calls, key=min):
            yield IdGroup(g, tuple(calls[g]))

    def _loose(self, o: Operation, kind: Kind) -> bool:
        return not kind.means_the_same_everywhere and isolation(self.spec, o) == "snapshot"


def _by_group(value: Any, about: Touches, group_of: Mapping[int, frozenset[int]]) -> dict[frozenset[int], list[int]]:
    """The ids of a statement in each group; empty if there is only one, or if it is about more than the rows of its argument ``ids``."""
    if len(about.ids) < 2 or about.among != frozenset() or about.copied_from is not None:
        return {}
    if not isinstance(value, Mapping) or list(value.get("ids", ())) != list(about.ids):
        return {}
    own: dict[frozenset[int], list[int]] = {}
    for i in about.ids:
        own.setdefault(group_of[i], []).append(i)
    return own


def _concerns(about: Touches, id: int, spec: TableSpec) -> bool:
    """Whether a statement may change or make rows of an id."""
    return id in about.named or about.among is None or part_of(id, spec) in about.among


class _Groups:
    """Ids, grouped by what belongs together."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def join(self, ids: Collection[int], *, together: bool) -> None:
        for i in ids:
            self._above.setdefault(i, i)
        if together:
            first = next(iter(ids))
            for i in ids:
                self._above[self._top(i)] = self._top(first)

    def _top(self, i: int) -> int:
        while self._above[i] != i:
            i = self._above[i]
        return i

    def sets(self) -> dict[int, frozenset[int]]:
        members: dict[int, list[int]] = {}
        for i in self._above:
            members.setdefault(self._top(i), []).append(i)
        return {i: frozenset(members[self._top(i)]) for i in self._above}


# --- the model --------------------------------------------------------------------------------------------------------


class TableRows(Model):
    """The rows of ids that belong together.

    With a ``guide``, calls of unknown outcome, and calls whose name a read shows, take effect only where ``all`` or ``any`` of their rows
    can become a row that was read. An order found this way is valid; finding none proves nothing.
    """

    name = "rows"

    def __init__(self, spec: TableSpec, part: IdGroup, leniency: Leniency = STRICT, guide: Guide | None = None) -> None:
        super().__init__(At(()))
        self.spec = spec
        self.ids = part.ids
        self.leniency = leniency
        self.guide = guide
        self._known: dict[tuple[str, Rows], RowEffect] = {}
        self._writes = {c.op: c.value for c in part.calls if not c.reads}
        self._counts: dict[str, int] = {}
        """Prefix of a row's log → the highest counter of a row that was read with such a log."""
        self.names: set[str] = set()
        for r in {r for c in part.calls if c.reads for r in c.result}:
            elements = str(r.log).split(",")
            self.names |= {str(r.val), *elements}
            for n in range(1, len(elements) + 1):
                log = ",".join(elements[:n])
                self._counts[log] = max(r.cnt if type(r.cnt) is int else 0, self._counts.get(log, 0))

    def call(self, o: Operation, value: Any, result: Any) -> Call:
        raise NotImplementedError("SeenRows.parts makes the calls on rows")

    def worthwhile(self, call: Call) -> bool:
        """Whether a call can be on the way to anything that was read: it is ok, or its name was seen, or it leaves none."""
        return call.end != NEVER or call.op in self.names or call.reads or not call.value.kind.signs

    def outcome(self, rows: Rows, write: ObjectWrite) -> RowEffect:
        """What a statement means for these rows."""
        key = write.operation.op, rows
        found = self._known.get(key)
        if found is None:
            try:
                out, put = write.kind.writeset(State(rows), write.value, write.operation.op, self.spec)
            except (TypeError, AttributeError, KeyError, IndexError, ValueError) as e:
                raise UnknownMeaning(f"{explain.operation(write.operation)} has no meaning: {e}") from None
            found = RowEffect(tuple(sorted(out)), tuple(sorted(r for r in put if r.id in self.ids)))
            self._known[key] = found
        return found

    def invoked(self, state: At, call: Call) -> At:
        if call.reads or not call.value.loose:
            return state
        scans = (*state.scanned, (call.op, (self.outcome(state.rows, call.value),)))
        return At(state.rows, tuple(sorted(scans)))

    def step(self, state: At, call: Call) -> Sequence[At]:
        if call.reads:
            return (state,) if call.result == self._shown(state, call) else ()
        write: ObjectWrite = call.value
        if write.loose:
            outcomes: Sequence[RowEffect] = dict(state.scanned)[call.op]
        else:
            outcomes = (self.outcome(state.rows, write),)
        out = []
        guide = self.guide if self.guide is not None and (call.end == NEVER or call.op in self.names) else None
        for o in outcomes:
            if guide is not None and o.added and not guide(r.cnt <= self._counts.get(r.log, -1) for r in o.added):
                continue
            after = self._commit(state, call, o)
            if after is not None:
                out.append(after)
        return out

    def _commit(self, state: At, call: Call, o: RowEffect) -> At | None:
        rows = _without(state.rows, o.removed)
        if rows is None:
            return None
        if o.added:
            rows = tuple(sorted((*rows, *o.added)))
        if not state.scanned:
            return At(rows)
        removed = frozenset(o.removed)
        by_delete = not o.added or self.leniency.undelete
        scanned = []
        for op, options in state.scanned:
            if op == call.op:
                continue
            other = self._writes[op]
            kept = dict.fromkeys(
                rest for x in options if (rest := _still(x, removed, other.deletes and by_delete)) is not None
            )
            kept[self.outcome(rows, other)] = None
            scanned.append((op, tuple(sorted(kept))))
        return At(rows, tuple(scanned))

    def size(self, state: At) -> int:
        return 1 + len(state.rows) // 16

    def far(self, state: At, call: Call) -> int:
        """Number of rows to remove or add before a read can return."""
        if not call.reads:
            return 0
        here, answered = self._shown(state, call), list(call.result)
        for r in here:
            if r in answered:
                answered.remove(r)
        return len(here) - len(call.result) + 2 * len(answered)

    def _shown(self, state: At, call: Call) -> Rows:
        """What a read returns."""
        if call.value is None or len(self.ids) == 1:
            return state.rows
        return tuple(r for r in state.rows if r.id == call.value)

    def kind(self, call: Call) -> Hashable | None:
        write: ObjectWrite = call.value
        if write.loose and self.guide is None:
            return None  # one that began earlier may have scanned what another cannot have
        kind, about = write.kind, write.touches
        if not kind.by_facts or kind.signs or kind.inserts != "nothing":
            return None
        if kind.deletes and about.predicate is None:
            return ("delete", self._named(write))
        return (call.f, about.predicate and about.predicate[1], self._named(write))

    def _named(self, write: ObjectWrite) -> Hashable:
        """Which of the object's ids a statement is about."""
        return frozenset(i for i in self.ids if _concerns(write.touches, i, self.spec))

    def describe(self, state: Any) -> str:
        rows = state.rows if isinstance(state, At) else state
        if not rows:
            return "no row"
        return ", ".join(f"(id {r.id}, val {r.val}, cnt {r.cnt}, log {r.log})" for r in rows)

    def words(self, call: Call) -> str:
        if call.reads:
            what = "read" if call.value is None else f"read-key of id {call.value}"
            return f"{what} that returned {self.describe(call.result)}"
        what = explain.arguments(call.value.operation.value)
        return f"{call.f} {what}".strip()


def _without(rows: Rows, removed: Rows) -> Rows | None:
    """The rows minus some; None when one of these does not exist."""
    if not removed:
        return rows
    rest = list(rows)  # only a few: an index does not pay
    for r in removed:
        if r not in rest:
            return None
        rest.remove(r)
    return tuple(rest)


def _still(x: RowEffect, removed: frozenset[Row], forgiven: bool) -> RowEffect | None:
    """What remains of a scan's outcome after rows were removed; None when it can no longer be committed."""
    if removed.isdisjoint(x.removed):
        return x
    return RowEffect(tuple(r for r in x.removed if r not in removed), x.added) if forgiven else None
