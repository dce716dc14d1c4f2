"""Transactions over append lists in Jepsen's own shape, judged without an object for each event.

A short cut of :func:`checkers.clients.history_files.load` and :func:`checkers.clients.models.judge` for histories in which nothing is
found, with the same verdict. Of a read of a list only its length is kept: all reads of a key must be prefixes of the longest one, which a
comparison of their texts shows. The dependencies are those of :mod:`checkers.isolation.listappend`, as arrays.

Whatever is not as usual ends it, and the history is read and judged as any other: another form or another model, a defect of the file,
any anomaly and any doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from checkers.clients import edn
from checkers.clients.edn import EdnError
from checkers.clients.in_time import in_order
from checkers.clients.jepsen import events_of, read_event
from checkers.clients.models import of_transactions, with_model
from checkers.clients.scan import INT, INTS, Scanner
from checkers.evidence.history import NEMESIS, HistoryError
from checkers.evidence.uncollected import uncollected
from checkers.isolation.graph import GraphBuilder, is_acyclic
from checkers.isolation.levels import LEVELS
from checkers.isolation.listappend import KeyDependencies, list_edges
from checkers.isolation.transactions import IsolationResult
from checkers.verdict import Verdict
from workloads.file.opened import unpacked

MODEL = "list-append"
_WHOLE = re.compile(INT)
_STEP = rf"\[:(?:append {INT} {INT}|r {INT} nil)\]"
_ASKED = re.compile(rf"\[(?:{_STEP}(?: {_STEP})*)?\]")
"""The value of an invocation."""
_START = "{:"


class NotAppendLists(Exception):
    """The history must be judged as any other."""


def judged(path: Path, model: str | None = None, level: str | None = None) -> Verdict | None:
    """The verdict on a history's file; None if it must be read and judged as any other.

    Args:
        model, level: as for :func:`checkers.clients.models.judge`.
    """
    if model not in (None, MODEL) or (level is not None and level not in LEVELS):
        return None
    with uncollected():
        try:
            text = unpacked(path).decode("utf-8-sig")
            return _judged(_read(text, str(path)), model, LEVELS[-1] if level is None else level)
        except (NotAppendLists, OSError, UnicodeDecodeError, HistoryError, EdnError):
            return None


def _must(usual: bool) -> None:
    if not usual:
        raise NotAppendLists


@dataclass(slots=True, eq=False)
class _Key:
    """One key.

    Attributes:
        text: its longest list without the brackets; ``count``: elements of it.
        writers: element → the transaction that appended it.
        readers, lengths: who read it before any operation of its own on it, and how many elements.
        intermediate: elements that their transaction followed by another one.
        own_lists: the elements that a reader must have seen from an offset on: its own; as (offset, elements).
        later: what a transaction appended after it had read so many elements, which cannot be among these.
        followed: (length, transaction that read so many and appended another element).
        updated: how many elements a transaction had read that appended another one then.
    """

    text: str = ""
    count: int = 0
    writers: dict[str, int] = field(default_factory=dict)
    readers: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    intermediate: set[str] = field(default_factory=set)
    own_lists: list[tuple[int, list[str]]] = field(default_factory=list)
    later: list[tuple[int, str]] = field(default_factory=list)
    followed: list[tuple[int, int]] = field(default_factory=list)
    updated: list[int] = field(default_factory=list)

    def length(self, form: str) -> int:
        """How many elements a list has; all lists of the key are prefixes of one another."""
        if form == "[]" or form == "nil":
            return 0
        _must(form[0] == "[" and form[-1] == "]")
        text = self.text
        n, new = len(text), len(form) - 2
        if new < n:
            _must(text[new] == " " and text.startswith(form[1:-1]))
            return form.count(" ") + 1
        _must(form.startswith(text, 1))
        if new > n:
            _must(not n or form[n + 1] == " ")
            _must(INTS.fullmatch(form, n + 2 if n else 1, new + 1) is not None)
            self.text = form[1:-1]
            self.count = form.count(" ") + 1
        return self.count

    def append(self, element: str, n: int) -> None:
        _must(element not in self.writers and _WHOLE.fullmatch(element) is not None)
        self.writers[element] = n


class _Transactions:
    """The transactions of a history, by invocation: when each began and ended (the number of the event; None for never), whose, how."""

    def __init__(self) -> None:
        self.keys: dict[str, _Key] = {}
        self.starts: list[int] = []
        self.ends: list[int | None] = []
        self.processes: list[str] = []
        self.failed: list[bool] = []
        self.appends = False
        self._open: dict[str, tuple[int, str]] = {}
        self._ended: set[str] = set()
        self._crashed: list[tuple[int, str]] = []

    def invoke(self, process: str, text: str, event: int) -> None:
        _must(process not in self._open and process not in self._ended and _ASKED.fullmatch(text) is not None)
        self._open[process] = len(self.starts), text
        self.starts.append(event)
        self.ends.append(None)
        self.processes.append(process)
        self.failed.append(False)
        self.appends = self.appends or "[:append" in text

    def complete(self, process: str, type: str, text: str, event: int) -> None:
        _must(process in self._open)
        n, asked = self._open.pop(process)
        if type == "ok":
            self.ends[n] = event
            self._ok(n, text)
            return
        _must(text[0] != "[" or _ASKED.fullmatch(text) is not None)
        self.failed[n] = type == "fail"
        if type == "info":
            self._ended.add(process)
        self._crashed.append((n, asked))

    def done(self) -> None:
        """Nothing follows: what did not come back wrote what it asked for, or nothing."""
        self._crashed += self._open.values()
        for n, asked in self._crashed:
            last: dict[str, str] = {}
            for f, k, v in _steps(asked):
                if f == ":append":
                    key = self._key(k)
                    key.append(v, n)
                    if k in last:
                        key.intermediate.add(last[k])
                    last[k] = v

    def _key(self, name: str) -> _Key:
        key = self.keys.get(name)
        if key is None:
            _must(_WHOLE.fullmatch(name) is not None)
            key = self.keys[name] = _Key()
        return key

    def _ok(self, n: int, text: str) -> None:
        steps = _steps(text)
        if len(steps) > 1 and len({k for _, k, _ in steps}) < len(steps):
            self._repeated(n, steps)
            return
        keys = self.keys
        for f, k, v in steps:
            key = keys.get(k) or self._key(k)
            if f == ":r":
                key.readers.append(n)
                key.lengths.append(key.length(v))
            else:
                _must(f == ":append")
                key.append(v, n)

    def _repeated(self, n: int, steps: list[list[str]]) -> None:
        """A transaction that touches a key several times."""
        state: dict[
            str, tuple[int | None, list[str], bool]
        ] = {}  # the length that it read; what it appended since; the first read
        seen: set[str] = set()
        for f, k, v in steps:
            key = self._key(k)
            was = state.get(k)
            if f == ":r":
                now = key.length(v)
                if was is None:
                    key.readers.append(n)
                    key.lengths.append(now)
                else:
                    base, elements, _ = was
                    start = now - len(elements)
                    _must(start == base if base is not None else start >= 0)
                    key.own_lists.append((start, elements))
                state[k] = now, [], k not in seen
                seen.add(k)
                continue
            _must(f == ":append")
            key.append(v, n)
            if was is None:
                state[k] = None, [v], False
                continue
            base, elements, first = was
            if elements:
                key.intermediate.add(elements[-1])
            elif base:
                key.followed.append((base, n))
            if base is not None:
                key.later.append((base, v))
                if first and not elements:
                    key.updated.append(base)
            state[k] = base, [*elements, v], first


def _steps(text: str) -> list[list[str]]:
    """The micro-operations of a text: function, key and value."""
    if text == "[]":
        return []
    _must(text.startswith("[[") and text.endswith("]]"))
    steps = [step.split(" ", 2) for step in text[2:-2].split("] [")]
    _must({*map(len, steps)} == {3})
    return steps


def _read(text: str, file: str) -> _Transactions:
    """The transactions of a text.

    Raises:
        NotAppendLists, HistoryError, EdnError: it must be read as any other.
    """
    _must(text.startswith(_START))
    out = _Transactions()
    invoke, complete = out.invoke, out.complete
    reader, scanner = edn.Reader(text, file), Scanner(text)
    offset = event = 0
    latest: int | None = None
    while True:
        for _, end, type, process, f, words, time, _ in scanner.texts(offset):
            offset = end
            now = None if time is None else int(time)
            _must(not event or in_order(latest, now))
            latest = now
            if process != ":nemesis":
                _must(f == "txn")
                if type == "invoke":
                    invoke(process, words, event)
                else:
                    complete(process, type, words, event)
            else:
                _must(words[0] != "[")
            event += 1
        form = next(reader.forms(offset), None)
        if form is None:
            break
        for client, type, now in _odd(form):
            _must(not event or in_order(latest, now))
            latest = now
            if client is not None:
                complete(client, type, "nil", event)
            event += 1
        offset = reader.space(reader.end)
    out.done()
    return out


def _odd(form: tuple[int, edn.Value]) -> Iterator[tuple[str | None, str, int | None]]:
    """Process, type and time of each failure or crash in a form of the reader; None for another process than a client."""
    for offset, value in events_of((form,)):
        e = read_event(
            lambda _, message: HistoryError(message), offset, value, forms={False: offset}
        )  # the scanner's are numbers
        if e["process"] == NEMESIS:
            yield None, e["type"], e["time"]
            continue
        _must(type(e["process"]) is int and e["type"] in ("fail", "info") and e["f"] == "txn")
        _must(e["op"] is None and e["table"] is None and "engine" not in e["extra"])
        yield str(e["process"]), e["type"], e["time"]


def _judged(t: _Transactions, model: str | None, level: str) -> Verdict:
    """The verdict on transactions without an anomaly.

    Raises:
        NotAppendLists: there may be one.
    """
    count = len(t.starts)
    _must(count > 0 and (model is not None or t.appends))
    g = GraphBuilder(count)
    _edges(t, g)
    failed = np.array(t.failed)
    nodes = np.flatnonzero(~failed)
    present = nodes.tolist()
    g.in_time(nodes, [t.processes[n] for n in present], [t.starts[n] for n in present], [t.ends[n] for n in present])
    graph = g.graph()
    _must(is_acyclic(graph))
    verdict = of_transactions(IsolationResult(level, (), {}, (), count, graph.edges), {})
    return with_model(verdict, MODEL, level, model is None, count)


def _edges(t: _Transactions, g: GraphBuilder) -> None:
    """The dependencies.

    Raises:
        NotAppendLists: there may be an anomaly.
    """
    committed = [end is not None for end in t.ends]
    orders = {key: key.text.split(" ") if key.text else [] for key in t.keys.values()}
    made = {key: [key.writers.get(x, -1) for x in order] for key, order in orders.items()}
    seen = {w for makers in made.values() for w in makers if not committed[w]}
    keys: list[KeyDependencies] = []
    for key, order in orders.items():
        makers = made[key]
        _must(-1 not in makers and not any(t.failed[w] for w in seen.intersection(makers)))
        _as_usual(key, order, makers)
        elements = frozenset(order) if len(key.writers) > len(order) else key.writers
        unread = dict.fromkeys(w for x, w in key.writers.items() if x not in elements and (committed[w] or w in seen))
        keys.append(KeyDependencies(makers, key.readers, key.lengths, [*unread]))
    list_edges(g, keys)


def _as_usual(key: _Key, order: list[str], makers: list[int]) -> None:
    """No list has an element twice, and transactions that touched the key several times agree with themselves.

    Raises:
        NotAppendLists: that is not so.
    """
    _must(len(set(order)) == len(order) and len(set(key.updated)) == len(key.updated))
    for offset, elements in key.own_lists:
        _must(order[offset : offset + len(elements)] == elements)
    if key.later:
        places = {x: p for p, x in enumerate(order)}
        _must(all(places.get(x, n) >= n for n, x in key.later))
    key.intermediate.update(order[n - 1] for n, w in key.followed if makers[n - 1] == w)
    if key.intermediate:
        ends = {p for p, x in enumerate(order, 1) if x in key.intermediate}
        _must(all(n not in ends or makers[n - 1] == r for r, n in zip(key.readers, key.lengths, strict=True)))
