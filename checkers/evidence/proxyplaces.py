"""Where a run's ``proxy.jsonl`` has the requests for each table, for those who judge one table after another."""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterable, Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

import msgspec

from checkers.evidence.proxylog import MERGE, Proxied, ProxyLogFacts, wrong_line
from checkers.evidence.tablelog import TableLog
from workloads.file.opened import blocks, opened


class TableLines:
    """Where a log has the lines of each table, found without parsing them, so that :meth:`read` reads those of one table only.

    A line is a table's if all the tables that it names are this one, and its text is plain. All other lines are looked at for each table.

    Args:
        path: of the log; a log that is absent or empty has no lines.
        tables: names of the run's tables.

    Raises:
        OSError: the log cannot be read.
    """

    problem: str | None = None
    """As :attr:`Proxied.problem`."""

    def __init__(self, path: Path, tables: Iterable[str]) -> None:
        self._path = path
        self._places: dict[bytes, array[int]] = {_named(t): array("q") for t in tables}
        self._others = array("q")
        if not path.exists() or not path.stat().st_size:
            return
        begin = number = 0
        for block in blocks(path):
            self.problem = self.problem or wrong_line(block, number, path.name)
            plain = _plain(block)
            number += block.count(b"\n")
            for line in io.BytesIO(block):
                end = begin + len(line)
                if b'"commit"' in line:
                    start = line.find(b'"table":"')
                    name = line[start : line.find(b'"', start + 9) + 1]
                    usual = (plain or _plain(line)) and line.count(name) == line.count(b'"table"')
                    places = self._places.get(name) if usual else None
                    (self._others if places is None else places).extend((begin, end))
                elif b'"changes":' in line:
                    self._others.extend((begin, end))
                begin = end

    @property
    def others(self) -> int:
        """The number of lines that are looked at for each table."""
        return len(self._others) // 2

    def read(self, table: str, log: TableLog) -> Proxied:
        """As :func:`read_all`, of one table.

        Raises:
            Strayed: a line that names this table is about the metadata of another one.
            OSError: the log cannot be read.
        """
        found = ProxyLogFacts({table: log})
        places, others = self._places[_named(table)], self._others
        if not places and not others:
            return found.done()
        with opened(self._path) as file, mmap(file.fileno(), 0, access=ACCESS_READ) as text:
            own = [text[begin:end] for begin, end in _pairs(places)]
            rest = [(begin, text[begin:end]) for begin, end in _pairs(others)]
        if not rest:
            for line in own:
                found.look(line, plain=True, only=True)
            return found.done()
        lines = [(begin, line, True) for begin, line in zip(places[::2], own, strict=True)]
        for _, line, only in sorted([*lines, *((begin, line, False) for begin, line in rest)]):
            found.look(line, plain=only, only=only)
        return found.done()


def _named(table: str) -> bytes:
    """How a line names a table."""
    return b'"table":' + msgspec.json.encode(table)


def _pairs(places: array[int]) -> Iterator[tuple[int, int]]:
    ends = iter(places)
    return zip(ends, ends, strict=True)


def _plain(text: bytes) -> bool:
    """Whether lines have only ASCII characters, no escapes and no other ends, and tell of no merge of branches."""
    return text.isascii() and b"\\" not in text and b"\r" not in text and MERGE.encode() not in text
