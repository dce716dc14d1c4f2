"""Phrases for explanations: how every checker names an operation, a snapshot, a row or a moment.

A reader believes an anomaly if he can trace it to the history and to the table's files. So every phrase carries the identifiers used
there: operation id and process, snapshot id and sequence number, file and position, seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from checkers.evidence.history import Operation
from checkers.evidence.makers import named_by
from checkers.evidence.tablelog import Commit, RowChange
from workloads.engines.engines import ENGINES
from workloads.tables import COLUMNS

MOST_IN_A_SENTENCE = 4
"""Rows, operations or files that a sentence lists before it counts the rest."""

LONGEST_VALUE = 10_000
"""Characters of a value that a sentence shows. The log of a row that was updated a thousand times has fewer."""
MOST_KEYS = 100
"""Keys that an anomaly carries, at most."""


def s(ns: int) -> str:
    """A moment or a duration: ``8312000000`` ns is ``8.312 s``, as pages write it."""
    return f"{ns / 1e9:.3f} s"


def after(k: int) -> str:
    """A state of main by the number of its commits: ``after commit 16 of main``. (A position is a row's place in a file.)"""
    return f"after commit {k} of main" if k else "before the first commit of main"


def count(n: int, singular: str, many: str | None = None) -> str:
    """``1 file``, ``2 files``, ``2 anomalies`` (``many`` if it is not ``singular`` with an s)."""
    return f"{n} {singular if n == 1 else many or singular + 's'}"


def listing(items: Iterable[Any], most: int = MOST_IN_A_SENTENCE, word: Callable[[Any], str] = str) -> str:
    """``a, b, c and 7 more``; ``word`` is called for those that are shown."""
    found = items if isinstance(items, Sequence) else [*items]
    shown = ", ".join(map(word, found[:most]))
    return shown if len(found) <= most else f"{shown} and {len(found) - most} more"


def arguments(value: Any) -> str:
    """An operation's arguments: ``id 7``, ``ids 1, 2``, ``where part = 2 and cnt % 2 = 1``; empty for none."""
    if not isinstance(value, Mapping) or not value:
        return "" if not value else _cut(json.dumps(value, sort_keys=True))
    names = set(value)
    if names == {"ids"} and isinstance(value["ids"], list) and value["ids"]:
        ids = value["ids"]
        return f"of id {ids[0]}" if len(ids) == 1 else f"of ids {listing(ids, 8)}"
    if names == {"id"}:
        return f"of id {value['id']}"
    if names == {"part", "parity"}:
        return f"where part = {value['part']} and cnt % 2 = {value['parity']}"
    if names == {"part"}:
        return f"of partition {value['part']}"
    if names == {"from", "to"}:
        return f"from id {value['from']} to id {value['to']}"
    if names == {"ids", "into", "amount"} and isinstance(value["ids"], list):
        return f"of {value['amount']} from ids {listing(value['ids'], 8)} into {value['into']}"
    if names == {"and"}:
        return f"with {value['and']}"
    return "with " + ", ".join(f"{k} = {_argument(value[k])}" for k in sorted(value, key=str))


def _argument(v: Any) -> str:
    return _cut(v if isinstance(v, str) else json.dumps(v, sort_keys=True, ensure_ascii=False, default=str))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def operation(o: Operation) -> str:
    """``delete of id 7 (w1-12, process 1)``; of several engines ``DuckDB delete of id 7 (w1-12, process 1)``."""
    what = arguments(o.value)
    who = f"{engine(o)} " if o.mixed else ""
    return f"{who}{o.f}{' ' + what if what else ''} ({o.op}, {process(o)})"


def engine(o: Operation) -> str:
    """The engine that executed an operation, as in sentences."""
    return title(o.engine)


def title(engine: str) -> str:
    """An engine as in sentences."""
    return ENGINES[engine].title if engine in ENGINES else engine


_OF_A_WRITER = re.compile(r"w(\d+)-\d+")


def writer(o: Operation) -> int | None:
    """The number of the writer that executed an operation, by its id (``w1-12``); None for a history of another system."""
    found = _OF_A_WRITER.fullmatch(o.op)
    return int(found[1]) if found is not None and isinstance(o.process, int) else None


def process(o: Operation) -> str:
    """``process 1``; after an operation of unknown outcome a writer goes on as a new process: ``process 13: writer 1, restarted``."""
    n = writer(o)
    return f"process {o.process}" if n is None or n == o.process else f"process {o.process}: writer {n}, restarted"


def outcome(o: Operation) -> str:
    """``acknowledged at 8.312 s``, ``failed at …``, ``of unknown outcome``."""
    if o.completed is None:
        return "never completed"
    when = s(o.completed.time)
    return {
        "ok": f"acknowledged at {when}",
        "fail": f"reported as failed at {when}",
        "info": f"left unknown at {when}",
    }[o.type]


def snapshot(c: Commit) -> str:
    """``snapshot 493602037959022462 (sequence number 11)``, and how its operation is known if it does not name it."""
    how = {"proxy": "; whose it is, the proxy log says", "rows": "; whose it is, its rows say"}.get(
        named_by(c) or "", ""
    )
    return f"snapshot {c.snapshot_id} ({c.label}{how})"


def maker(c: Commit, ops: Mapping[str, Operation]) -> str:
    """Who made a snapshot: the operation, or that it names none."""
    if c.op is None:
        return "an unnamed operation"
    return f"the {operation(ops[c.op])}" if c.op in ops else f"operation {c.op}"


def row(r: Sequence[Any]) -> str:
    """``(id 7, val 'w1-3', cnt 0, log 'w1-3', part 3)``."""
    return "(" + ", ".join(f"{c} {value(v, nothing='NULL')}" for c, v in zip(COLUMNS, r, strict=False)) + ")"


def value(v: Any, *, nothing: str = "nil") -> str:
    """A value that a client wrote or read, in Jepsen's words: ``nil``, ``true``, ``3``, ``'x'``, ``[1, nil]``; ``nothing`` stands for nil.

    An object is written as in JSON, with all that is in it: ``{"a": 10, "b": null}``.
    """
    if v is None:
        return nothing
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, Mapping):
        return json.dumps(v, ensure_ascii=False, default=str)
    if isinstance(v, list | tuple):
        return "[" + ", ".join(map(value, v)) + "]"
    return _cut(repr(v))


def rows(found: Iterable[Sequence[Any]]) -> str:
    """Rows, shortened; ``no row`` for none."""
    return listing(found, word=row) or "no row"


def place(change: RowChange) -> str:
    """``data/part=3/00012.parquet position 3``."""
    return f"{change.file} position {change.pos}"


def keys(found: Iterable[Sequence[Any]]) -> tuple[int, ...]:
    """The ids of rows, ascending, for an anomaly's ``keys``; a corrupted row may have another value as its id."""
    return tuple(sorted({r[0] for r in found if isinstance(r[0], int)}))[:MOST_KEYS]
