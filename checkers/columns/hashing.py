"""Rows and operation ids as 64-bit hashes of which only equality matters (:mod:`checkers.columns.frames` says why that is enough)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.tables import Row

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

NEVER_CAME = np.iinfo(np.int64).max
"""Event index of an event that never came."""
LEAST_INT64 = np.iinfo(np.int64).min
_ALL = (1 << 64) - 1
_LONGEST = 900
"""Commas of the longest list that columns represent."""
_NO_TEXT = "a row whose val or log is no text, or a long one"

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Unordinary(Exception):
    """A table that columns cannot represent; the message says why."""


def mix(x: U64) -> U64:
    """Scatters 64 bits (the finalizer of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014)."""
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def appended(log: U64, name: U64) -> U64:
    """The hashes of lists after appending one element to each."""
    return mix(log * _GOLDEN + name)


def hash_rows(id: I64, val: U64, cnt: I64, log: U64, part: I64) -> U64:
    """A hash of each row."""
    h = mix(id.view(np.uint64))
    h = mix(h + val)
    h = mix(h + cnt.view(np.uint64))
    h = mix(h + log)
    return mix(h + part.view(np.uint64))


def _appended_to(log: int, name: int) -> int:
    """As :func:`appended`, of one list: an array for one number costs ten times as much."""
    x = (log * int(_GOLDEN) + name + int(_GOLDEN)) & _ALL
    x = ((x ^ (x >> 30)) * int(_MIX_1)) & _ALL
    x = ((x ^ (x >> 27)) * int(_MIX_2)) & _ALL
    return x ^ (x >> 31)


def hash_name(text: str) -> int:
    """The hash of an operation's id."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


ROW_TYPES = frozenset({list, tuple, Row})


class Rows:
    """Collects rows."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.logs: dict[str, int] = {}
        self.id: list[int] = []
        self.val: list[int] = []
        self.cnt: list[int] = []
        self.log: list[int] = []
        self.part: list[int] = []

    def name(self, text: str) -> int:
        found = self.names.get(text)
        if found is None:
            found = self.names[text] = hash_name(text)
        return found

    def list(self, text: str) -> int:
        """The hash of a list, from its hash before the last append (mostly known already) and that append."""
        found = self.logs.get(text)
        if found is None:
            before, comma, last = text.rpartition(",")
            found = self.logs[text] = _appended_to(self.list(before) if comma else 0, self.name(last))
        return found

    def add(self, row: Sequence[Any]) -> None:
        id, val, cnt, log, part = row
        whole = type(id) is int and type(cnt) is int and type(part) is int
        if not (
            whole and LEAST_INT64 <= id <= NEVER_CAME and 0 <= cnt <= NEVER_CAME and LEAST_INT64 <= part <= NEVER_CAME
        ):
            raise Unordinary(f"a row with {(id, cnt, part)} for id, cnt and part")
        if not (isinstance(val, str) and isinstance(log, str)) or log.count(",") > _LONGEST:
            raise Unordinary(_NO_TEXT)
        self.id.append(id)
        self.val.append(self.name(val))
        self.cnt.append(cnt)
        self.log.append(self.list(log))
        self.part.append(part)

    def add_all(self, rows: Sequence[Sequence[Any]]) -> None:
        """As :meth:`add`, of rows with as many values as there are columns: usual rows column by column."""
        if not rows:
            return
        id, val, cnt, log, part = zip(*rows, strict=True)
        usual = {*map(type, id), *map(type, cnt), *map(type, part)} == {int} and {*map(type, val), *map(type, log)} == {
            str
        }
        if not (
            usual
            and LEAST_INT64 <= min(id) <= max(id) <= NEVER_CAME
            and 0 <= min(cnt) <= max(cnt) <= NEVER_CAME
            and LEAST_INT64 <= min(part) <= max(part) <= NEVER_CAME
        ):
            for row in rows:
                self.add(row)
            return
        for text in {*log}.difference(self.logs):
            if text.count(",") > _LONGEST:
                raise Unordinary(_NO_TEXT)
            self.list(text)
        for text in {*val}.difference(self.names):
            self.name(text)
        self.id += id
        self.val += map(self.names.__getitem__, val)
        self.cnt += cnt
        self.log += map(self.logs.__getitem__, log)
        self.part += part

    def hashes(self) -> U64:
        return hash_rows(i64(self.id), u64(self.val), i64(self.cnt), u64(self.log), i64(self.part))


def i64(values: Sequence[int]) -> I64:
    return np.array(values, np.int64)


def u64(values: Sequence[int]) -> U64:
    return np.array(values, np.uint64)
