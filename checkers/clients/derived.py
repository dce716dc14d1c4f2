"""A run as Elle and Knossos read it: transactions over lists or registers, or operations on registers.

icequake's own kinds (``merge-upsert``, ``update-append``, …) mean nothing to other tools. :func:`derive` translates a run into the forms
that they document: Elle's ``list-append`` (``[:append k v]``, ``[:r k [v …]]``) and ``rw-register`` (``[:w k v]``, ``[:r k v]``), and
Knossos' ``:read``, ``:write`` and ``:cas``.

**Keys.** Every row says who made it: its column ``log`` begins with the id of the operation that inserted it. So a key is a row's life,
``<table>/<id>/<inserting operation>``. A row that is deleted and inserted again is another key; two rows with one id are two keys.

**Lists** are the column ``log``, **registers** the column ``val``; the elements and values are operation ids, so each is written once.

**Writes** come from the table log: an operation wrote a key if a commit of it added a row whose ``log`` ends with (whose ``val`` is) its
id. The statement made the new row from the row that it scanned. So the list before the new element, and the value of the row that the
commit removed, is what it read. An acknowledged INSERT without a commit wrote its keys too: it says so itself. **Reads** show the rows
that they returned. That a key is not shown means an empty list, or nil, only if the log is complete, all of it can be read, and no commit
ever ended the row's life.

**What is left out** makes the derived history weaker, never wrong: an operation or a read less can hide a contradiction, and cannot make
one. Left out are

* deletes, counters, partitions, and which rows a predicate selected;
* operations that failed, or whose outcome is unknown, and that have no commit; reads of older snapshots; operations on two tables;
* keys of which anything is not explained: a value that no commit of the table log attributes to an operation, a copy (INSERT … SELECT),
  a row of an operation whose meaning is not known here;
* tables that were rolled back, and tables without a log.

Outcomes are kept: ``ok``, ``fail`` and ``info`` are those of the run. An operation without an end ends in ``info`` at the end of the
history, because Elle takes the writes of unknown outcome from completions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History, Operation
from checkers.evidence.replace import replace
from checkers.linearizable.rows import Rows, SeenRows
from checkers.timeline.netrows import NetRows
from checkers.timeline.timeline import Timeline, kind_of
from checkers.timeline.timelines import timelines
from workloads.operations.kinds import KINDS
from workloads.tables import Row

LIST_APPEND, RW_REGISTER, REGISTER = HISTORY_FORMS = ("list-append", "rw-register", "register")


class DerivedError(ValueError):
    """The run has nothing of the wanted form, or not the wanted key; one line with the remedy."""


class Key(NamedTuple):
    """A row's life."""

    table: str
    id: int
    born: str
    """The operation that inserted it."""

    def __str__(self) -> str:
        return f"{self.table}/{self.id}/{self.born}"


@dataclass(frozen=True, slots=True)
class TranslatedRun:
    """A translated run.

    Attributes:
        history: with dense indices; times are those of the run.
        keys: the names of its keys.
        operations: how many of the run's operations it shows, and of how many.
        left_out: sentences about tables, keys and operations that it does not show.
        level: the weakest promise of its tables, by Elle's name.
    """

    history: History
    keys: tuple[str, ...]
    operations: tuple[int, int]
    left_out: tuple[str, ...]
    level: str


class _Step(NamedTuple):
    """What an operation did to a key: it read ``seen`` (None: unknown) if ``reads``, and wrote ``wrote`` (None: nothing)."""

    key: Key
    reads: bool
    seen: Any
    wrote: str | None


@dataclass
class _Table:
    """The steps of one table's operations."""

    timeline: Timeline
    lists: bool
    two_tables: frozenset[str]
    steps: dict[str, list[_Step]] = field(default_factory=dict)
    """Operation → its steps on all keys, the unexplained ones too."""
    written: dict[Key, set[str]] = field(default_factory=dict)
    unexplained: set[Key] = field(default_factory=set)
    ended: set[Key] = field(default_factory=set)
    whole: bool = True
    """Whether the log is complete and all rows in it can be read."""

    def derive(self, seen: SeenRows) -> None:
        self.whole = self.timeline.log.complete and self.timeline.rooted
        shown: list[Row] = [row for _, _, rows in seen.reads for row in rows]
        for commit in self.timeline.log.commits:
            changes = self.timeline.changes(commit)
            if changes is None:
                self.whole = False
            else:
                shown += changes.added
                self._commit(commit.op, changes)
        if self.whole:
            self._without_commit()
        for row in shown:
            key = self._key(row)
            if key is not None and not set(self._values(row)) <= self.written.get(key, set()):
                self.unexplained.add(key)
        for o, id, rows in seen.reads:
            if o.op not in self.two_tables:
                self.steps[o.op] = list(self._read(id, rows))

    def _commit(self, op: str | None, changes: NetRows) -> None:
        removed, added = self._by_key(changes.removed), self._by_key(changes.added)
        self.ended |= {k for k in removed if len(removed[k]) > len(added.get(k, ()))}
        o = None if op is None or op in self.two_tables else self.timeline.everything.get(op)
        kind = None if o is None else kind_of(o)
        for key, rows in added.items():
            for row in rows:
                own = op is not None and self._values(row)[-1] == op
                if op is None or kind is None or kind.inserts == "copies" or not own:
                    # What the row shows beyond what known operations wrote makes its key unexplained.
                    self.unexplained |= {key} if own else set()
                elif key.born == op and row.log == op:
                    self._write(op, _Step(key, False, None, op))
                elif kind.by_facts:
                    self._write(op, self._update(key, row, removed.get(key, []), len(rows)))
                else:
                    self.unexplained.add(key)

    def _update(self, key: Key, row: Row, removed: Sequence[Row], made: int) -> _Step:
        """The step of an operation that made ``row`` of a row of the same key."""
        if self.lists:
            return _Step(key, made == 1, self._values(row)[:-1] if made == 1 else None, row.log.rpartition(",")[2])
        known = made == 1 and len(removed) == 1
        return _Step(key, known, removed[0].val if known else None, row.val)

    def _write(self, op: str, step: _Step) -> None:
        steps = self.steps.setdefault(op, [])
        if all(s.key != step.key for s in steps):
            steps.append(step)
        self.written.setdefault(step.key, set()).add(step.wrote or "")

    def _without_commit(self) -> None:
        """Acknowledged INSERTs that the log does not have: their rows are known all the same."""
        for o in self.timeline.ops:
            kind = kind_of(o)
            new = kind is not None and kind.by_facts and kind.inserts == "new" and kind.means_the_same_everywhere
            if new and o.type == "ok" and o.op not in self.timeline.commits and o.op not in self.two_tables:
                for id in dict.fromkeys(o.value["ids"]):
                    self._write(o.op, _Step(Key(self.timeline.name, id, o.op), False, None, o.op))

    def _read(self, id: int | None, rows: Rows) -> Iterator[_Step]:
        shown = set()
        for row in rows:
            if (key := self._key(row)) is not None:
                shown.add(key)
                yield _Step(key, True, self._values(row) if self.lists else row.val, None)
        if self.whole:
            for key in self.written:
                if key not in shown and key not in self.ended and id in (None, key.id):
                    yield _Step(key, True, [] if self.lists else None, None)

    def _key(self, row: Row) -> Key | None:
        """The key of a row; None for a corrupted one."""
        born = str(row.log).partition(",")[0]
        return Key(self.timeline.name, row.id, born) if born else None

    def _values(self, row: Row) -> list[str]:
        """What a row of a key shows: the elements of its list, or its register's value."""
        return str(row.log).split(",") if self.lists else [row.val]

    def _by_key(self, rows: Sequence[Row]) -> dict[Key, list[Row]]:
        out: dict[Key, list[Row]] = {}
        for row in rows:
            if (key := self._key(row)) is not None:
                out.setdefault(key, []).append(row)
        return out


def derive(evidence: Evidence, form: str, key: str | None = None) -> TranslatedRun:
    """The run in one of :data:`HISTORY_FORMS`.

    Args:
        key: for ``register``: the only key, whose values stand alone; None: all keys, and values are pairs ``[key value]``,
            as of ``jepsen.independent``.

    Raises:
        DerivedError: there is no such key, or nothing of this form.
    """
    found, left_out = timelines(evidence)
    operations = evidence.history.operations()
    two = frozenset(o.op for o in operations if (kind := KINDS.get(o.f)) is not None and kind.two_tables)
    tables = []
    for timeline in found:
        seen = SeenRows.of(timeline.spec, timeline.ops)
        if seen.set_back:
            left_out.append(f"{timeline.name}: {seen.set_back[0]} rolled it back, after which earlier values return")
            continue
        tables.append(table := _Table(timeline, form == LIST_APPEND, two))
        table.derive(seen)
    unexplained = {k for t in tables for k in t.unexplained}
    if unexplained:
        which = ", ".join(sorted(map(str, unexplained))[:3])
        which += ", …" if len(unexplained) > 3 else ""
        show = "1 key shows" if len(unexplained) == 1 else f"{len(unexplained)} keys show"
        left_out.append(f"{show} copies, or values that no commit explains ({which})")
    steps: dict[str, list[_Step]] = {}
    for t in tables:
        for op, changes in t.steps.items():
            steps.setdefault(op, []).extend(s for s in changes if s.key not in unexplained)
    keys = tuple(str(k) for t in tables for k in t.written if k not in unexplained)
    if key is not None:
        if form != REGISTER:
            raise DerivedError(f"a key can be chosen for {REGISTER} only")
        if key not in keys:
            raise DerivedError(f"no key {key!r}; there are {len(keys)}, such as {', '.join(keys[:3]) or 'none'}")
        steps = {op: [s for s in changes if str(s.key) == key] for op, changes in steps.items()}
    events = _registers(operations, steps, key) if form == REGISTER else _transactions(operations, steps, form)
    shown = sum(bool(steps.get(o.op)) for o in operations)
    if not shown:
        why = f" ({'; '.join(left_out)})" if left_out else ""
        raise DerivedError(
            f"the run shows nothing of {form}: it needs operations that write {'log' if form == LIST_APPEND else 'val'}{why}"
        )
    hidden = Counter(o.f for o in operations if not steps.get(o.op))
    if hidden and key is None:
        what = ", ".join(f"{count} {kind}" for kind, count in sorted(hidden.items(), key=lambda x: (-x[1], x[0])))
        left_out.append(f"operations that show nothing of {form}: {what}")
    serializable = all(t.timeline.spec.isolation == "serializable" for t in tables)
    level = "strict-serializable" if serializable else "strong-session-snapshot-isolation"
    return TranslatedRun(History({}, _numbered(events)), keys, (shown, len(operations)), tuple(left_out), level)


class _Stamped(NamedTuple):
    """An event, and where it belongs: the index of the run's event that it shows."""

    place: float
    event: Event


def _transactions(operations: Sequence[Operation], steps: dict[str, list[_Step]], form: str) -> Iterator[_Stamped]:
    write = "append" if form == LIST_APPEND else "w"
    for o in operations:
        own_steps = steps.get(o.op)
        if not own_steps:
            continue
        asked: list[Any] = []
        results: list[Any] = []
        for s in own_steps:
            if s.reads:
                asked.append(["r", str(s.key), None])
                results.append(["r", str(s.key), s.seen])
            if s.wrote is not None:
                asked.append([write, str(s.key), s.wrote])
                results.append([write, str(s.key), s.wrote])
        yield from _both(o, o.process, o.op, "txn", asked, results)


def _registers(operations: Sequence[Operation], steps: dict[str, list[_Step]], key: str | None) -> Iterator[_Stamped]:
    """An operation on several keys is one on each, of a process of its own, because a process does one thing at a time."""
    processes: dict[tuple[int | str, int], int | str] = {}
    free = 1 + max((o.process for o in operations if isinstance(o.process, int)), default=0)
    for o in operations:
        for n, s in enumerate(steps.get(o.op, ())):
            asked: Any
            result: Any
            process = processes.setdefault((o.process, n), o.process if n == 0 else free)
            free += process == free
            if s.wrote is None:
                f, asked, result = "read", None, s.seen
            elif s.reads:
                f, asked = "cas", [s.seen, s.wrote]
                result = asked
            else:
                f, asked, result = "write", s.wrote, s.wrote
            if key is None:
                asked, result = [str(s.key), asked], [str(s.key), result]
            yield from _both(o, process, f"{o.op}/{n}" if n else o.op, f, asked, result)


def _both(o: Operation, process: int | str, op: str, f: str, asked: Any, result: Any) -> Iterator[_Stamped]:
    """Invocation and completion; an operation that has no end ends in ``info`` after everything else."""
    yield _Stamped(o.invoked.index, Event(0, o.invoked.time, "invoke", process, f, o.table, asked, op))
    value, e = result if o.type == "ok" else asked, o.completed
    if e is None:
        yield _Stamped(float("inf"), Event(0, -1, "info", process, f, o.table, value, op))
    else:
        yield _Stamped(e.index, Event(0, e.time, e.type, process, f, o.table, value, op, e.error))


def _numbered(events: Iterator[_Stamped]) -> tuple[Event, ...]:
    out: list[Event] = []
    for _, e in sorted(events, key=lambda x: x.place):
        time = e.time if e.time >= 0 else out[-1].time
        out.append(replace(e, index=len(out), time=time))
    return tuple(out)
