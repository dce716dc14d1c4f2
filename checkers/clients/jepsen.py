"""Jepsen's histories in EDN, read and written. Its logs, and files whose format is not known: :mod:`checkers.clients.history_files`.

**Jepsen EDN** (``history.edn``): one map for each event, one on each line or all in one vector::

    {:index 0, :time 3291485317, :type :invoke, :process 0, :f :txn, :value [[:append 1 2] [:r 1 nil]]}
    {:index 1, :time 3296209422, :type :ok, :process 0, :f :txn, :value [[:append 1 2] [:r 1 [2]]]}

For every workload (register, cas-register, list-append, rw-register, bank, set, counter), an event is converted field by field:

========================= ==================================================================================================
``:type``                 ``invoke``, ``ok``, ``fail`` or ``info``
``:process``              a number; ``:nemesis`` is ``"nemesis"``; 0 if absent (the example of Elle's paper)
``:f``                    the name; ``txn`` if absent
``:index``                renumbered from 0 if numbers are missing; the old one is kept as ``jepsen-index``
``:time``                 ns; if absent, the event's index. Where the lines are not in its order, it counts
                          (:mod:`checkers.clients.in_time`)
``:value``                as JSON
``:error``                ``[[name, text]]``; a list of pairs of strings stays as it is
``:op``                   the operation's id; if absent, ``<process>-<n>``
``:table``, anything else as it is
========================= ==================================================================================================

Values become JSON (:mod:`checkers.clients.values`). So one of our histories returns from EDN unchanged; a Jepsen history returns with
strings for the keywords in its values, except where checkers need them: the functions of micro-operations, ``[:append 1 2]``.

A history of completions alone (the examples of Elle's paper and README) does not show what came before what: every operation counts as
concurrent with all others and as a process of its own, and the header says so (:data:`CONCURRENT`). Levels with real time or
sessions then require no more than those without.

The first line of the output is a comment with the header, ``; icequake {…}``; other tools skip it.

Every defect of a file is a ``HistoryError`` that names file, line and column, what was expected and what was found.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from checkers.clients import edn
from checkers.clients.edn import EdnError, Keyword
from checkers.clients.in_time import Placed, in_order, in_time
from checkers.clients.scan import Scanner
from checkers.clients.times import TimeForms, as_ns, ns_of, same_form
from checkers.clients.values import NAME, from_json, to_json, transaction
from checkers.evidence.history import FORMAT, NEMESIS, ErrorChain, Event, EventType, History, HistoryError
from checkers.evidence.record import RecordError, decoded, shown
from workloads.file.meant import suggest

HEADER = "; icequake "
"""The start of the comment with the header."""
CONCURRENT = "without-invocations"
"""Header key of a history without invocations."""
GUESSED = "guessed"
"""Header key: what was guessed of a history that does not say it, a sentence each."""
CLOCK = "clock"
"""Header key of a history whose times were written as moments in ISO 8601: they are nanoseconds since 1970, UTC."""
EVENT_TYPES: tuple[str, ...] = get_args(EventType)
TRANSACTIONS = ("txn",)
"""Functions whose values are lists of micro-operations."""


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class HistoryBuilder:
    """Collects events and checks the rules of a history as they come."""

    where: Callable[[int, str], HistoryError]
    own: bool = False
    named: bool = False
    events: list[Event] = field(default_factory=list)
    open: dict[int | str, str] = field(default_factory=dict)
    ended: set[int | str] = field(default_factory=set)
    count: dict[int | str, int] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    alone: int = 0
    """The number of events if all are completions."""
    invoked: list[Event] = field(default_factory=list)
    """Their invented invocations."""
    latest: int | None = None
    """The time of the event before, if it has one."""
    places: list[int] | None = None
    """The offsets of the events, in their order, are added to it."""
    nameless: list[int] = field(default_factory=list)
    """The offsets of events without a process."""
    aimless: list[int] = field(default_factory=list)
    """The offsets of invocations without a function."""

    def all_events(self) -> list[Event]:
        """The events; if there are only completions, an invocation precedes each."""
        return self.invoked + self.events

    def all_places(self) -> list[int]:
        """The offsets of :meth:`all_events`."""
        return (self.places or []) * (2 if self.alone else 1)

    def add(
        self,
        offset: int,
        *,
        type: str,
        process: int | str | None,
        f: str | None,
        value: Any,
        error: ErrorChain | None = None,
        op: str | None = None,
        table: str | None = None,
        time: int | None = None,
        index: int | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        """Append an event; ``offset`` is its offset in the text.

        Raises:
            HistoryError: it breaks a rule of histories, or it is not in the order of time (:func:`in_time` mends that).
        """
        n = self.alone + len(self.events)
        if self.places is not None:
            self.places.append(offset)
        if process is None:
            self.nameless.append(offset)
            process = 0
        if f is None:
            if type == "invoke" or self.alone:
                self.aimless.append(offset)
            f = TRANSACTIONS[0]
        latest, self.latest = self.latest, time
        early = time is None or latest is None or time < latest  # not so in most histories
        if early and self.events and not (self.own or self.alone or in_order(latest, time)):
            raise self.where(offset, "the events are not in the order of their times")
        extra = dict(extra or {})
        if self.own and index != n:
            raise self.where(offset, f"expected :index {n}, found {index}: events are missing or out of order")
        if index is not None and index != n:
            extra["jepsen-index"] = index
        kind: EventType = type  # type: ignore[assignment]
        if (
            self.alone
        ):  # without invocations, processes do not show the order, so each operation is a process of its own
            extra |= {} if process == 0 else {"jepsen-process": process}
            k = len(self.invoked)
            process, op = (NEMESIS, None) if process == NEMESIS else (k, str(k))
            self.invoked.append(Event(k, k, "invoke" if op else kind, process, f, table, value, op))
            time = n
        elif process != NEMESIS and not (self.own and op is None):
            op = self._operation(offset, type, process, op)
        self.events.append(Event(n, n if time is None else time, kind, process, f, table, value, op, error, extra))

    def finish(self, says: Notation) -> None:
        """Refuse a history in which some events name their process, or what is invoked, and others do not: a guess would be of both.

        Raises:
            HistoryError: it is one.
        """
        asked = self.events if self.alone else [e for e in self.events if e.type == "invoke" and e.process != NEMESIS]
        if 0 < len(self.aimless) < len(asked):
            raise self.where(self.aimless[0], f"expected {says('f')} here too, since others have it; name the function")
        if 0 < len(self.nameless) < len(self.events) and not self.alone:
            raise self.where(
                self.nameless[0], f"expected {says('process')} here too, since others have it; name the client"
            )

    def _why(self, process: int | str) -> str:
        """Why a process must not invoke, and what to do."""
        if process in self.ended:
            return (
                "ended in info, so it may still take effect at any time: after info a process must not go on; "
                "give the client a new process number there"
            )
        return (
            "has not ended: a process does one operation at a time; give each thread or connection a process number of its own, or, if "
            "the answer never came (a timeout), a new process number from here on"
        )

    def _operation(self, offset: int, type: str, process: int | str, op: str | None) -> str:
        if type == "invoke":
            if process in self.open:
                raise self.where(
                    offset, f"process {process} invokes, but its operation {self.open[process]} {self._why(process)}"
                )
            if op is None:
                self.count[process] = self.count.get(process, -1) + 1
                op = f"{process}-{self.count[process]}"
            if op in self.ids:
                raise self.where(offset, f"the operation {op} was invoked before")
            self.ids.add(op)
            self.open[process] = op
            return op
        pending = self.open.get(process)
        if pending is None or process in self.ended:
            raise self.where(
                offset,
                f"expected an invoke of process {process} before its {type}: without invocations nothing is known of what was concurrent; "
                "a line is left out above, or this one is there twice",
            )
        if op is not None and op != pending:
            raise self.where(offset, f"expected the end of the operation {pending} of process {process}, found {op}")
        if type == "info":
            self.ended.add(process)
        else:
            del self.open[process]
        return pending


@dataclass(frozen=True, slots=True)
class EventList:
    """Collects events in the order of the text, whatever their times are."""

    where: Callable[[int, str], HistoryError]
    events: list[Placed] = field(default_factory=list)

    def add(self, offset: int, **fields: Any) -> None:
        self.events.append((offset, fields))


def from_edn(text: str, file: str = "<edn>", *, scan: bool = True, lines: list[int] | None = None) -> History:
    """A Jepsen history, as one vector of maps or one map after the other.

    Args:
        scan: let :mod:`checkers.clients.scan` read what it can. The result is the same without.
        lines: the line of each event is added to it.

    Raises:
        HistoryError: it is not EDN, or not a history.
    """
    header: dict[str, Any] = {"format": FORMAT}
    own = text.startswith(HEADER)
    if own:
        line = text[len(HEADER) :].partition("\n")[0]
        try:
            record = decoded(line.encode("utf-8", "replace"))
        except RecordError as e:
            raise HistoryError(f"{file}:1:{len(HEADER) + 1}: the header: {e}") from None
        if record.get("format") != FORMAT:
            raise HistoryError(f"{file}:1:{len(HEADER) + 1}: expected a header of format {FORMAT}, found {line[:60]}")
        header = record

    def where(offset: int, message: str) -> HistoryError:
        return HistoryError(str(edn.error_at(text, file, offset, message)))

    times: TimeForms = {}

    def read(into: HistoryBuilder | EventList) -> None:
        times.clear()
        if scan and (own or "invoke" in text):
            _scan(into, text, file, times)
        else:
            for offset, form in events_of(edn.read_all(text, file)):
                into.add(offset, **read_event(where, offset, form, forms=times))

    builder = HistoryBuilder(where, own, places=None if lines is None else [])
    try:
        if not own and "invoke" not in text:
            forms = [form for _, form in events_of(edn.read_all(text, file))]
            if _only_completions(forms):
                builder.alone = len(forms)
                header = {**header, CONCURRENT: True}
        try:
            read(builder)
        except HistoryError:
            if own or builder.alone:
                raise
            unordered = EventList(where)
            read(unordered)
            ordered = in_time(unordered.events, where)
            if ordered is None:
                raise
            builder = HistoryBuilder(where, places=None if lines is None else [])
            events, notes = ordered
            for offset, fields in events:
                builder.add(offset, **fields)
            header = {**header, GUESSED: list(notes)}
        builder.finish(EDN)
        if True in times and not own and not builder.alone:
            header = {**header, CLOCK: True}
    except EdnError as e:
        raise HistoryError(str(e)) from None
    if lines is not None:
        ends = [n for n, c in enumerate(text) if c == "\n"]
        lines += [bisect.bisect_left(ends, place) + 1 for place in builder.all_places()]
    history = History(header, tuple(builder.all_events()))
    return History(header, history.events, history.contradictions) if own else history


def _only_completions(forms: Iterable[edn.Value]) -> bool:
    """Whether there are completions and no invocation."""
    types = set()
    for form in forms:
        bare = form.value if isinstance(form, edn.Tagged) else form
        if isinstance(bare, edn.Map):
            types |= {
                _plain(v) for k, v in bare.entries if k in (Keyword("type"), "type") and not isinstance(v, edn.Map)
            }
    return "ok" in types and "invoke" not in types


def _scan(builder: HistoryBuilder | EventList, text: str, file: str, times: TimeForms) -> None:
    """Add the events of a text: the scanner's as long as it knows them, and one form at a time of the reader's."""
    reader, scanner = edn.Reader(text, file), Scanner(text)
    offset = 0
    while True:
        for e in scanner.events(offset):
            offset = e.end
            if e.time is not None and False not in times:
                same_form(times, False, e.begin, builder.where)
            builder.add(e.begin, type=e.type, process=e.process, f=e.f, value=e.value, time=e.time, index=e.number)
        form = next(reader.forms(offset), None)
        if form is None:
            return
        for place, event in events_of((form,)):
            builder.add(place, **read_event(builder.where, place, event, forms=times))
        offset = reader.space(reader.end)


def events_of(forms: Iterable[tuple[int, edn.Value]]) -> Iterator[tuple[int, edn.Value]]:
    """The events of a text's forms, in a vector or not."""
    for offset, form in forms:
        if isinstance(form, tuple | edn.List):
            for item in form if isinstance(form, tuple) else form.items:
                bare = item.value if isinstance(item, edn.Tagged) else item
                yield (bare.offset if isinstance(bare, edn.Map) else offset), item
        else:
            yield offset, form


@dataclass(frozen=True, slots=True)
class Notation:
    """How errors write a file's own form.

    Attributes:
        event: an event.
        mark: how a name stands there, with ``{}`` for it.
        show: a value.
    """

    event: str
    mark: str
    show: Callable[[Any], str]

    def __call__(self, *names: str) -> str:
        return ", ".join(map(self.mark.format, names[:-1])) + " or " * (len(names) > 1) + self.mark.format(names[-1])


def read_event(
    fail: Callable[[int, str], HistoryError],
    offset: int,
    form: edn.Value,
    says: Notation | None = None,
    forms: TimeForms | None = None,
) -> dict[str, Any]:
    """The event that a form is: the arguments of a builder's ``add``, but the offset.

    Args:
        fail: makes the error for an offset and a message.
        says: how errors write an event; None: as EDN.
        forms: of the times of the events before; this one's is added.

    Raises:
        HistoryError: it is none, or its time is of another form than theirs: see :func:`same_form`.
    """
    says = says or EDN
    bare = form.value if isinstance(form, edn.Tagged) else form
    if not isinstance(bare, edn.Map):
        raise fail(offset, f"expected {says.event}, found {says.show(form)}")
    fields: dict[str, Any] = {}
    for k, v in bare.entries:
        if not isinstance(k, Keyword | str):
            raise fail(offset, f"expected keywords as keys of an event, found {cut(k)}")
        name = k.name if isinstance(k, Keyword) else k
        if name in fields:
            raise fail(offset, f"the key {name!r} is there twice, as a keyword and as a string")
        fields[name] = v
    if "type" not in fields:
        raise fail(offset, f"expected an event with {says('type')}, found {says.show(form)}")
    type = _plain(fields.pop("type"))
    absent = {n for n in ("process", "f") if n not in fields}
    process, f = _plain(fields.pop("process", 0)), _plain(fields.pop("f", TRANSACTIONS[0]))
    if type not in EVENT_TYPES:
        raise fail(
            offset, f"expected {says('type')} {says(*EVENT_TYPES)}, found {says.show(type)}{suggest(type, EVENT_TYPES)}"
        )
    if isinstance(process, bool) or not isinstance(process, int | str):
        raise fail(offset, f"expected {says('process')} to be a number or {says(NEMESIS)}, found {says.show(process)}")
    if not isinstance(f, str):
        raise fail(offset, f"expected {says('f')} to be a name, found {says.show(f)}")
    time, index, op, table = (fields.pop(n, None) for n in ("time", "index", "op", "table"))
    written = time.value if isinstance(time, edn.Tagged) and time.tag == "inst" else time
    time = written if not isinstance(written, str) or (ns := ns_of(written)) is None else ns
    for name, number in (("time", time), ("index", index)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number >= 1 << 63):
            unit = " of nanoseconds" if name == "time" else ""
            found = says.show(_plain(number))
            raise fail(offset, f"expected {says(name)} to be a whole number{unit}, found {found}{as_ns(name, number)}")
    if forms is not None and time is not None:
        same_form(forms, time is not written, offset, fail)
    op, table = _plain(op), _plain(table)
    for name, text in (("op", op), ("table", table)):
        if text is not None and not isinstance(text, str):
            raise fail(offset, f"expected {says(name)} to be a string, found {says.show(text)}")
    try:
        value = to_json(fields.pop("value", None))
        error = fields.pop("error", None)
        extra = {k: to_json(v) for k, v in fields.items()}
        chain = error_chain_of(error)
    except EdnError as e:
        raise fail(offset, str(e)) from None
    return {
        "type": type,
        "process": None if "process" in absent else process,
        "f": None if "f" in absent else f,
        "value": value,
        "error": chain,
        "op": op,
        "table": table,
        "time": time,
        "index": index,
        "extra": extra,
    }


def _plain(v: edn.Value) -> Any:
    return v.name if isinstance(v, edn.Keyword | edn.Symbol) else v


def cut(v: Any) -> str:
    try:
        text = edn.write(v)
    except EdnError:
        text = shown(v)
    return text if len(text) <= 40 else text[:37] + "..."


EDN = Notation("a map such as {:type :invoke, :process 0, :f :read, :value nil}", ":{}", cut)


def error_chain_of(error: edn.Value) -> ErrorChain | None:
    """``:error`` as ``[[name, text], ...]``."""
    if error is None:
        return None
    chain = to_json(error)
    if (
        isinstance(chain, list)
        and chain
        and all(isinstance(e, list) and all(isinstance(x, str) for x in e) for e in chain)
    ):
        return chain
    if isinstance(error, str):
        return [["error", error]]
    if isinstance(chain, list) and chain and isinstance(chain[0], str):
        return [[chain[0], " ".join(x if isinstance(x, str) else json.dumps(x) for x in chain[1:])]]
    return [[chain if isinstance(chain, str) else "error", "" if isinstance(chain, str) else edn.write(error)]]


# --- writing ----------------------------------------------------------------------------------------------------------


def to_edn(h: History, *, header: bool = True) -> str:
    """A history as EDN, one map on each line, after a comment with its header. Without ``header`` it returns as another tool's history.

    Raises:
        HistoryError: an event that EDN cannot express, such as one with values nested too deeply.
    """
    lines = []
    if header:
        lines.append(HEADER + json.dumps({"format": FORMAT, **h.header}, separators=(",", ":"), ensure_ascii=True))
    for e in h.events:
        try:
            lines.append(edn.write(_map(e)))
        except (EdnError, RecursionError) as why:
            raise HistoryError(f"event {e.index}: {why}") from None
    return "\n".join(lines) + "\n"


def _map(e: Event) -> edn.Map:
    process: Any = Keyword(NEMESIS) if e.process == NEMESIS else e.process
    out: list[tuple[str, Any]] = [
        ("index", e.index),
        ("time", e.time),
        ("type", Keyword(e.type)),
        ("process", process),
        ("f", Keyword(e.f) if NAME.match(e.f) else e.f),
        ("value", transaction(e.value) if e.f in TRANSACTIONS else from_json(e.value)),
    ]
    out += [(k, v) for k, v in (("table", e.table), ("op", e.op)) if v is not None]
    if e.error:
        out.append(("error", from_json(e.error)))
    out += [(k, from_json(v)) for k, v in e.extra.items()]
    return edn.Map(tuple((Keyword(k) if NAME.match(k) else k, v) for k, v in out))
