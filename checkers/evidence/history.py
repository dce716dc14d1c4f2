"""The history: every invocation and completion, in one total order of events.

A history is newline-delimited JSON. The first line is the header (``{"format": 1, ...}``), every other line one event:

====== =====================================================================================================
index  dense, from 0, in the order in which the orchestrator stamped the events
time   nanoseconds since the start of the run, one monotonic clock (the orchestrator's)
type   ``invoke``, or the completion ``ok`` (it took effect), ``fail`` (it certainly did not), ``info`` (unknown)
process an int (one logical, single-threaded client) or ``"nemesis"``
f      the operation's kind (workloads.operations.kind) or the fault's name
table  the table's name in the workload file; null for events without one. For an operation on two tables the first: its
       arguments name the second (``checkers.timeline.two_tables``)
value  arguments on ``invoke``; the result on ``ok``
op     the operation's id, the same on invoke and completion; every snapshot it makes carries it
error  on ``fail``/``info``: ``[[class, message], ...]``, outermost first
engine on ``invoke``: which engine executes it, if it is not Spark (``workloads.engines``)
attempts on a completion of a committer's: each attempt of its commit, as ``Attempts.java`` measures it: ``[{"wait_ms", "refresh_ms",
       "validate_ms", "manifests_ms", "metadata_ms", "swap_ms", "reads", "read_bytes", "writes", "written_bytes", "parent",
       "outcome"}, ...]``; the first one has ``data_ms`` before it
====== =====================================================================================================

A process whose operation ended ``info`` (or never ended) is never used again: its writer continues as a new process, ``old +
number of writers``. The rules are Jepsen's (https://github.com/jepsen-io/history). The file is written during the run and must be
readable after a ``kill -9`` at any byte: a torn last line is reported, not raised.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from sys import intern
from typing import Annotated, Any, Literal, get_args

import msgspec

from checkers.evidence.record import DECODE_ERRORS, RecordError, decoded, must, needs, shallow, shown
from checkers.evidence.replace import replace
from workloads.engines.engines import SPARK
from workloads.file.opened import UnusableFile, lines

FORMAT = 1
_WRITER = re.compile(r"w(\d+)-\d+$")
NEMESIS = "nemesis"
NS_PER_S = 1_000_000_000
"""The unit of :attr:`Event.time`."""
_END = ord("\n")
PLACES = 3
"""Events without a partner that a message names."""

LATEST = (1 << 62) - 1
"""Nanoseconds since the start of the run, at most: 146 years. Numbers of 64 bits hold it and its sum with a length of time."""

LONGEST_NAME = 1_000
"""Characters of a name: of a process, an operation, its kind or its table. Sentences and pages repeat them."""
Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]

EventType = Literal["invoke", "ok", "fail", "info"]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)
Process = int | str
ErrorChain = list[list[str]]
"""``[[class name, message], ...]``, outermost exception first."""


class HistoryError(ValueError):
    """A history file cannot be read; the message names the file, the line and the problem."""


class EventError(HistoryError):
    """An event that does not fit; ``event``: its number in the history, ``why``: what was expected and what was found."""

    def __init__(self, event: int, why: str) -> None:
        super().__init__(f"event {event}: {why}")
        self.event, self.why = event, why


class UnpairedError(HistoryError):
    """Invocations and completions do not pair; the message has the number of such events and the first places."""

    def __init__(self, places: Sequence[str]) -> None:
        many = len(places) > 1
        more = f"; and {len(places) - PLACES} more" if len(places) > PLACES else ""
        super().__init__(
            f"{len(places)} {'events of the history do' if many else 'event of the history does'} not pair: "
            f"{'; '.join(places[:PLACES])}{more}"
        )


class Event(msgspec.Struct, frozen=True, gc=False):
    """One line of the history; see the module's table for the meaning and unit of each field."""

    index: int
    time: int
    type: EventType
    process: Process
    f: str
    table: str | None = None
    value: Any = None
    op: str | None = None
    error: ErrorChain | None = None
    extra: dict[str, Any] = {}

    def to_json(self) -> dict[str, Any]:
        """The event as the mapping for the file; empty ``error`` and ``extra`` are left out."""
        out: dict[str, Any] = {
            "index": self.index,
            "time": self.time,
            "type": self.type,
            "process": self.process,
            "f": self.f,
            "table": self.table,
            "value": self.value,
            "op": self.op,
        }
        if self.error:
            out["error"] = self.error
        out.update(self.extra)
        return out

    @staticmethod
    def from_json(record: dict[str, Any]) -> Event:
        """The inverse of :meth:`to_json`; unknown keys are kept in ``extra``.

        Raises:
            HistoryError: a key is missing or has the wrong type.
        """
        try:
            return _event(record)
        except RecordError as e:
            raise HistoryError(str(e)) from None


class _Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An event as most lines have it: the parser itself refuses what :func:`_check` would, and any other key."""

    index: Annotated[int, msgspec.Meta(ge=0)]
    time: Annotated[int, msgspec.Meta(ge=-LATEST, le=LATEST)]
    type: EventType
    process: int | Name
    f: Name
    table: Name | None = None
    value: Any = None
    op: Name | None = None
    error: list[Annotated[list[str], msgspec.Meta(min_length=2, max_length=2)]] | None = None
    phase: Any = msgspec.UNSET
    engine: Any = msgspec.UNSET
    attempts: Any = msgspec.UNSET

    def event(self) -> Event:
        """The event; the same few words in all events are one object for each."""
        extra = {}
        for key in _EXTRA:
            if (given := getattr(self, key)) is not msgspec.UNSET:
                extra[key] = given
        f, table = intern(self.f), self.table
        return Event(
            self.index,
            self.time,
            self.type,
            self.process,
            f,
            intern(table) if table else table,
            self.value,
            self.op,
            self.error,
            extra,
        )


_OWN = ("index", "time", "type", "process", "f", "table", "value", "op", "error")
_EXTRA = ("phase", "engine", "attempts")
_LINE = msgspec.json.Decoder(_Line)


def _event(record: dict[str, Any]) -> Event:
    _check(record)
    own: list[Any] = [record.get(key) for key in _OWN]
    index, time, kind, process, f, table, value, op, error = own
    extra = {key: given for key, given in record.items() if key not in _OWN}
    return Event(index, time, kind, process, intern(f), intern(table) if table else table, value, op, error, extra)


def _check(record: dict[str, Any]) -> None:
    """Refuse a record that is no event.

    Raises:
        RecordError: a key is missing or has the wrong type.
    """
    needs(record, "an event", "index", "time", "type", "process", "f")
    index, time, kind, process, f = (record[k] for k in ("index", "time", "type", "process", "f"))
    must(type(index) is int and index >= 0, "index", "a whole number from 0", index)
    must(type(time) is int and abs(time) <= LATEST, "time", "whole nanoseconds, fewer than 2^62", time)
    must(kind in EVENT_TYPES, "type", "invoke, ok, fail or info", kind)
    must(type(process) in (int, str), "process", "a number or a name", process)
    must(isinstance(f, str), "f", "a string", f)
    op, table, error = (record.get(k) for k in ("op", "table", "error"))
    must(isinstance(op, str | None), "op", "a string", op)
    must(isinstance(table, str | None), "table", "a string", table)
    for key, name in (("process", process), ("f", f), ("op", op), ("table", table)):
        short = not isinstance(name, str) or len(name) <= LONGEST_NAME
        must(short, key, f"a string of at most {LONGEST_NAME:,} characters", name)
    must(error is None or _is_chain(error), "error", "[[class, message], ...]", error)


class Operation(msgspec.Struct, frozen=True, gc=False):
    """An invocation and its completion.

    ``type`` is ``info`` and ``completed`` is None when no completion was recorded: the run ended first. ``mixed``: whether several engines
    executed the history's operations, so that words must say which one.
    """

    op: str
    process: Process
    f: str
    table: str | None
    type: Literal["ok", "fail", "info"]
    value: Any
    result: Any
    error: ErrorChain | None
    invoked: Event
    completed: Event | None
    mixed: bool = False

    @property
    def engine(self) -> str:
        """Which engine executed it (``workloads.engines``)."""
        return str(self.invoked.extra.get("engine", SPARK))

    @property
    def start(self) -> int:
        """When it was invoked: ns since the start of the run."""
        return self.invoked.time

    @property
    def end(self) -> int | None:
        """When an ``ok`` or ``fail`` came back, ns; None while it may still take effect (``info``)."""
        return self.completed.time if self.completed is not None and self.type != "info" else None

    @property
    def indices(self) -> tuple[int, ...]:
        """The history indices of its events."""
        return (self.invoked.index,) if self.completed is None else (self.invoked.index, self.completed.index)


@dataclass(frozen=True)
class History:
    """A whole history: header, events in index order, and problems of the file (empty when there are none)."""

    header: dict[str, Any]
    events: tuple[Event, ...]
    problems: tuple[str, ...] = ()

    def operations(self) -> list[Operation]:
        """Invocations paired with their completions, in invocation order; nemesis events are not operations.

        Raises:
            HistoryError: a completion without an invocation, a second completion, an op id used twice, or a process that
                invokes while an operation of its own is still open.
        """
        return list(self._paired)

    @cached_property
    def mixed(self) -> bool:
        """Whether other engines than Spark executed operations, or were to."""
        return bool(self.header.get("engines")) or any("engine" in e.extra for e in self.events)

    @cached_property
    def _paired(self) -> tuple[Operation, ...]:
        named = isinstance(self.header.get("engines"), list)
        return tuple(pair(map(self._with_engine, self.events) if named else self.events, mixed=self.mixed))

    def _with_engine(self, e: Event) -> Event:
        """An invocation that lost its engine's name, with the one that the header gives its writer."""
        engine = self._planned(e)
        return e if engine is None or "engine" in e.extra else replace(e, extra={**e.extra, "engine": engine})

    def _planned(self, e: Event) -> str | None:
        """The engine of an invocation's writer by the header, if that is not Spark; None if the header does not say."""
        engines, writer = self.header.get("engines"), _WRITER.match(e.op or "")
        if e.type != "invoke" or not isinstance(engines, list) or writer is None or int(writer[1]) >= len(engines):
            return None
        return None if engines[int(writer[1])] == SPARK else str(engines[int(writer[1])])

    @cached_property
    def contradictions(self) -> tuple[str, ...]:
        """As :func:`contradictions`, of its events."""
        return contradictions(self.events)

    def engine_contradictions(self) -> tuple[str, ...]:
        """Where events name no engine, or another one than the header or their invocation; one sentence, or none."""
        wrong: list[tuple[Event, str]] = []
        named: dict[str, str] = {}
        for e in self.events:
            if e.op is None or e.process == NEMESIS:
                continue
            engine, planned = e.extra.get("engine"), self._planned(e)
            if e.type == "invoke":
                named[e.op] = str(engine or planned or SPARK)
                if planned is not None and engine != planned:
                    wrong.append((e, f"{engine or 'none'}, and the header {planned} for its writer"))
            elif engine is not None and engine != named.get(e.op, engine):
                wrong.append((e, f"{engine}, and its invocation {named[e.op]}"))
        if not wrong:
            return ()
        e, words = wrong[0]
        return (
            f"event {e.index} ({e.type} of {e.op}) names as its engine {words}{_more(wrong)}; "
            "what that operation was promised is not certain",
        )


def _is_chain(error: object) -> bool:
    return isinstance(error, list) and all(
        isinstance(e, list) and len(e) == 2 and all(isinstance(s, str) for s in e) for e in error
    )


def contradictions(events: Sequence[Event]) -> tuple[str, ...]:
    """Where the events break what a recorder promises, one sentence for each promise; empty where they do not.

    One monotonic clock stamps all events in the order of their indices, and a completion repeats its invocation's table and kind
    (:class:`~checkers.evidence.recorder.Recorder`; docs/history.md).
    """
    times = [e.time for e in events]
    known = {(e.op, e.table, e.f) for e in events if e.op is not None and e.process != NEMESIS}
    if times == sorted(times) and len({op for op, _, _ in known}) == len(known):
        return ()  # as in most histories
    early: list[tuple[Event, Event]] = []
    other: list[tuple[Event, str]] = []
    last: Event | None = None
    invoked: dict[str, Event] = {}
    for e in events:
        if last is not None and e.time < last.time:
            early.append((e, last))
        else:
            last = e
        if e.op is None or e.process == NEMESIS:
            continue
        first = invoked.setdefault(e.op, e)
        if e.type == "invoke":
            continue
        wrong = [
            f"{k} {b!r}, not {a!r}" for k, a, b in (("table", first.table, e.table), ("f", first.f, e.f)) if a != b
        ]
        if wrong:
            other.append((e, " and ".join(wrong)))
    out = []
    if early:
        e, before = early[0]
        out.append(
            f"event {e.index} ({e.type} of {e.op or e.f}) is stamped {(before.time - e.time) / 1e6:,.3f} ms before event {before.index}, "
            f"which stands before it{_more(early)}; one monotonic clock stamps all events, so what was concurrent is not known"
        )
    if other:
        e, wrong_ = other[0]
        out.append(
            f"event {e.index} ({e.type} of {e.op}) has {wrong_}, as its invocation (event {invoked[e.op or ''].index}) has{_more(other)}; "
            "what that operation did is not known"
        )
    return tuple(out)


def _more(found: Sequence[object]) -> str:
    return f" (and {len(found) - 1} more such events)" if len(found) > 1 else ""


def pair(events: Iterable[Event], *, mixed: bool = False) -> Iterator[Operation]:
    """Pair each invocation with its completion, yielding operations in invocation order; see :meth:`History.operations`.

    ``mixed``: see :class:`Operation`.
    """
    invoked: dict[str, Event] = {}
    completed: dict[str, Event] = {}
    busy: dict[Process, str] = {}
    unpaired: list[str] = []
    for e in events:
        if e.process == NEMESIS or e.op is None:
            continue
        if e.type == "invoke":
            if e.op in invoked:
                unpaired.append(f"event {e.index}: op {e.op!r} was invoked before, at event {invoked[e.op].index}")
                continue
            if e.process in busy:
                unpaired.append(
                    f"event {e.index}: process {e.process} invokes {e.op!r} while its {busy[e.process]!r} has not ended in "
                    "ok or fail (after info a writer must go on as a new process)"
                )
            invoked[e.op] = e
            busy[e.process] = e.op
        elif e.op not in invoked:
            unpaired.append(f"event {e.index}: {e.type} of op {e.op!r}, which was never invoked")
        elif e.op in completed:
            unpaired.append(f"event {e.index}: op {e.op!r} completed before, at event {completed[e.op].index}")
        elif e.process != invoked[e.op].process:
            unpaired.append(f"event {e.index}: op {e.op!r} completed by process {e.process}, not by its own")
        else:
            completed[e.op] = e
            if e.type != "info":
                busy.pop(e.process, None)
    if unpaired:
        raise UnpairedError(unpaired)
    for op, i in invoked.items():
        c = completed.get(op)
        kind: Literal["ok", "fail", "info"] = "info" if c is None or c.type == "invoke" else c.type
        yield Operation(
            op,
            i.process,
            i.f,
            i.table,
            kind,
            i.value,
            None if c is None else c.value,
            None if c is None else c.error,
            i,
            c,
            mixed,
        )


def read(path: Path, content: bytes | None = None) -> History:
    """Read a history file, or its ``content`` if somebody has unpacked it.

    A torn last line (the run was killed during a write) is dropped and named in ``problems``.

    Raises:
        HistoryError: no header, an unknown format, a broken line that is not the last, indices that are not dense, or a file that is not
            opened (``workloads.file.opened``).
    """
    events: list[Event] = []
    problems: list[str] = []
    header: dict[str, Any] | None = None
    words: dict[str, str] = {}
    number = 0
    try:
        for line in lines(path) if content is None else io.BytesIO(content):
            number += 1
            if line[-1] != _END:
                problems.append(
                    f"{path.name}: the last line is torn ({len(line)} bytes); the run was killed while writing it"
                )
            elif not line.strip():
                continue
            elif header is None:
                header = header_of(line)
            else:
                event = event_of(line, words)
                if event.index != len(events):
                    raise RecordError(
                        f"expected index {len(events)}, found {event.index}: events are missing or out of order"
                    )
                events.append(event)
    except RecordError as e:
        raise HistoryError(f"{path}:{number}: {e}") from None
    except FileNotFoundError:
        raise HistoryError(f"{path}: no such history; is this the folder of a run?") from None
    except UnusableFile as e:
        raise HistoryError(str(e)) from None
    except OSError as e:
        raise HistoryError(f"{path}: cannot be read: {e.strerror}") from None
    if header is None:
        raise HistoryError(f"{path}: empty: the header line is missing")
    return History(header, tuple(events), tuple(problems))


def header_of(line: bytes) -> dict[str, Any]:
    """The header on a file's first line.

    Raises:
        RecordError: it is none, or of another format.
    """
    record = decoded(line)
    if "format" not in record:
        raise RecordError(
            'neither the header of a history, with "format", nor an event, with "type", "process" and "f"; docs/history.md has both'
        )
    if record["format"] != FORMAT:
        raise RecordError(f"format {shown(record['format'])} is not known; this version reads format {FORMAT}")
    return record


def event_of(line: bytes, words: dict[str, str] | None = None) -> Event:
    """The event on a line of a file.

    Args:
        line: with or without its end.
        words: texts of rows that were read before; equal ones become one object.

    Raises:
        RecordError: it is none.
    """
    shallow(line)
    try:
        event = _LINE.decode(line).event()
    except DECODE_ERRORS:
        event = _event(decoded(line))
    if words is not None and event.type == "ok":
        _share(event.value, words)
    return event


def _share(rows: Any, words: dict[str, str]) -> None:
    """Make equal texts of the rows that reads returned one object: they are most of a history, and the same again and again."""
    if type(rows) is not list:
        return
    shared = words.setdefault
    for row in rows:
        if type(row) is list:
            row[:] = [shared(v, v) if type(v) is str else v for v in row]
