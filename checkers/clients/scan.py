"""A scanner for the events that Jepsen itself writes: maps whose value is a number, nil, or micro-operations on whole numbers.

    {:type :invoke, :f :txn, :value [[:append 3 1] [:r 3 nil]], :process 0, :time 3291485317, :index 0}

It recognises a map only if the reader of :mod:`checkers.clients.edn` reads the same from it; every other form is the reader's, which is
many times slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

_FIELDS = {
    "type": r":(?P<type>invoke|ok|fail|info)",
    "f": r":(?P<f>[a-z]+(?:-[a-z]+)*)",
    "value": r"(?P<value>nil|0|-?[1-9][0-9]{0,17}|\[[^{}\"\n;,]*\])",
    "process": r"(?P<process>:nemesis|0|[1-9][0-9]{0,17})",
    "time": r"(?P<time>0|-?[1-9][0-9]{0,17})",
    "index": r"(?P<index>0|[1-9][0-9]{0,17})",
}
"""The fields of an event, and what each may have."""
_KEY = re.compile(r"(?:^\{|, ):([a-z]+) ")
INT = r"(?:0|-?[1-9][0-9]{0,17})"
"""A pattern of whole numbers that Jepsen writes."""
_MICRO = re.compile(rf"\[:(append|r|w) ({INT}) (nil|{INT}|\[[^\[\]]*\])\](?= |\Z)")
INTS = re.compile(rf"{INT}(?: {INT})*")
"""Several of them."""
_BESIDE = len("[: ") + len(" ]")
"""Characters of a micro-operation that are no part of its three forms."""


class Scanned(NamedTuple):
    """One event; ``begin`` and ``end`` are the offsets of its map, ``number`` is its ``:index``."""

    begin: int
    end: int
    type: str
    process: int | str
    f: str
    value: Any
    time: int | None
    number: int | None


@dataclass(slots=True)
class _Shape:
    """An order of the fields: the pattern of such a map, and the group of each field, 0 for one that is absent."""

    pattern: re.Pattern[str]
    groups: tuple[int, ...]

    @staticmethod
    def of(keys: tuple[str, ...]) -> _Shape | None:
        if not {"type", "value", "process", "f"} <= set(keys) <= _FIELDS.keys() or len(set(keys)) < len(keys):
            return None
        pattern = re.compile(r"\{" + ", ".join(f":{k} {_FIELDS[k]}" for k in keys) + r"\}")
        groups = (*(pattern.groupindex.get(k, 0) for k in ("type", "process", "f", "value", "time", "index")),)
        return _Shape(pattern, groups)


class Scanner:
    """Recognises events in a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._shapes: dict[tuple[str, ...], _Shape | None] = {}
        self._read: dict[str, tuple[str, list[int]]] = {}
        """A key's text → its longest list so far: its text but the closing bracket, and its elements."""

    def events(self, first: int) -> Iterator[Scanned]:
        """The events from an offset on, one on each line, up to the first that the reader must read."""
        for offset, end, type, process, f, text, time, index in self.texts(first):
            if text[0] != "[":
                value: Any = None if text == "nil" else int(text)
            elif (value := self._steps(text)) is None:
                return
            yield Scanned(
                offset,
                end,
                type,
                process[1:] if process[0] == ":" else int(process),
                f,
                value,
                None if time is None else int(time),
                None if index is None else int(index),
            )

    def texts(self, offset: int) -> Iterator[tuple[int, int, str, str, str, str, str | None, str | None]]:
        """The same without a look at what is in a value's brackets: ``offset``, ``end``, and the texts of type, process, function, value, time
        and index."""
        text = self._text
        shape = self._shape(offset)
        if shape is None:
            return
        match, groups = shape.pattern.match, shape.groups
        timed, numbered = groups[4] > 0, groups[5] > 0
        while True:
            m = match(text, offset)
            if m is None:
                if shape is (shape := self._shape(offset)) or shape is None:
                    return
                match, groups = shape.pattern.match, shape.groups
                timed, numbered = groups[4] > 0, groups[5] > 0
                continue
            type, process, f, form, time, index = m.group(*groups)
            end = m.end()
            yield offset, end, type, process, f, form, time if timed else None, index if numbered else None
            offset = end + 1
            if text[end:offset] != "\n":
                return

    def _steps(self, text: str) -> list[Any] | None:
        """The micro-operations of a text; None if it is anything else."""
        if text == "[]":
            return []
        found = _MICRO.findall(text, 1, len(text) - 1)
        size = 1
        out: list[Any] = []
        for f, k, v in found:
            size += _BESIDE + 1 + len(f) + len(k) + len(v)
            if v == "nil":
                out.append([f, int(k), None])
            elif v[0] != "[":
                out.append([f, int(k), int(v)])
            elif (elements := self._list(k, v)) is not None:
                out.append([f, int(k), elements])
            else:
                return None
        return out if found and size == len(text) else None

    def _list(self, key: str, form: str) -> list[int] | None:
        """The numbers of a list that is a key's; None if it has anything else.

        Lists of a key are mostly prefixes of one another, so only what is new is read; all lists have the same objects for numbers.
        """
        if form == "[]":
            return []
        last = self._read.get(key)
        if last is not None:
            text, elements = last
            n = len(text)
            if form.startswith(text):
                if len(form) == n + 1:
                    return elements[:]
                if form[n] == " " and INTS.fullmatch(form, n + 1, len(form) - 1):
                    elements = elements + [int(x) for x in form[n + 1 : -1].split(" ")]
                    self._read[key] = form[:-1], elements
                    return elements[:]
            elif n >= len(form) and text[len(form) - 1] == " " and text.startswith(form[:-1]):
                return elements[: form.count(" ") + 1]
        if INTS.fullmatch(form, 1, len(form) - 1) is None:
            return None
        elements = [int(x) for x in form[1:-1].split(" ")]
        self._read[key] = form[:-1], elements
        return elements[:]

    def _shape(self, offset: int) -> _Shape | None:
        """The order of the fields of the map at an offset; None if it has others."""
        if not self._text.startswith("{:", offset):
            return None
        end = self._text.find("\n", offset)
        keys = tuple(_KEY.findall(self._text[offset : end if end >= 0 else None]))
        if keys not in self._shapes:
            self._shapes[keys] = _Shape.of(keys)
        return self._shapes[keys]
