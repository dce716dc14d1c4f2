"""Changes to tables in a run's ``proxy.jsonl``: the requests, and the commits that a catalog accepted."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from checkers.evidence.paths import normalise
from checkers.evidence.record import DECODE_ERRORS, RecordError, decoded, needs
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import TableLog
from workloads.file.opened import UnusableFile, blocks

ACCEPTED = re.compile(r"(UPDATE [1-9]\d*|2\d\d|ok)( \(nemesis: not told\)|, told .*)?")
"""A service's answer to an accepted commit, even if the proxy gave the writer another answer: PostgreSQL's command tag, HTTP's
status, Thrift's reply."""


@lru_cache(1 << 10)
def _accepts(answer: str) -> bool:
    return ACCEPTED.fullmatch(answer) is not None


_VERSION = re.compile(r"(?:\.metadata\.json(\.gz)?|/_delta_log/\d{20}\.json)$")
_REFERENCE = re.compile(r"/trees/([^/]+?)(?:@|%40)[^/]*/history/|/tables/[^/?]+?(?:@|%40)([^/?@%]+)$")
"""Nessie's branch that a request names: in its own API, and as a REST catalog in the table's name (``table@branch``)."""
MERGE = "/history/merge"
"""End of the path by which Nessie merges a branch."""


class PointerSwap(msgspec.Struct, frozen=True, gc=False):
    """One accepted commit.

    Attributes:
        time: when the request came, ns since the start of the run.
        end: when the answer came.
        writer: None: a catalog server's own request to its database.
        op: the operation that the writer was executing.
        base: the metadata file that it replaces; None if the request does not name it.
        new: the metadata file that it puts in its place.
        answer: as in the log.
        names_place: writers compete for the new file's name itself (a rename to the next version); otherwise the name is the writer's own.
    """

    time: int
    end: int
    writer: int | None
    op: str | None
    base: str | None
    new: str
    answer: str
    names_place: bool = False


TRANSACTIONS = "/transactions/commit"
"""End of the path of the REST catalog's endpoint for transactions."""


class AcceptedChange(msgspec.Struct, frozen=True, gc=False):
    """What one accepted request to a REST catalog asked of one table, by snapshots: the catalog makes the metadata file itself.

    Attributes:
        time: when the request came, ns since the start of the run.
        end: when the answer came.
        op: the operation that the writer was executing.
        base: the snapshot that a branch must have; None if the request does not say.
        adds: the snapshots that it adds.
        main: the snapshot that main gets; None if it leaves main alone.
        what: method and path.
        answer: as in the log.
        refs: the branches and tags other than main that it sets, and the snapshots that they get.
    """

    time: int
    end: int
    writer: int | None
    op: str | None
    base: int | None
    adds: tuple[int, ...]
    main: int | None
    what: str
    answer: str
    refs: tuple[tuple[str, int], ...] = ()

    @property
    def by_transaction(self) -> bool:
        """Whether it came by the endpoint for transactions, whose answer is empty."""
        return self.what.endswith(TRANSACTIONS)


class Carried(msgspec.Struct, frozen=True, gc=False):
    """One request to a REST catalog that asked for new snapshots of one table, whatever came of it.

    Attributes:
        time: when it came, ns since the start of the run.
        op: the operation that the writer was executing.
        adds: the snapshots that it adds.
        accepted: whether the catalog accepted it.
        answer: as in the log.
        ms: how long it took; None if the log does not say.
    """

    time: int
    writer: int | None
    op: str
    adds: tuple[int, ...]
    accepted: bool
    answer: str
    ms: float | None = None


@dataclass(frozen=True, slots=True)
class Proxied:
    """What the log says of each table, by time; see :func:`read`, :func:`accepted` and :func:`carried`.

    ``answered``: operation → the answer to its accepted commit of no snapshot, such as ``204 to POST /v1/transactions/commit``; empty if it has
    several accepted commits, or one of a snapshot.
    ``problem``: why some of it is not known: the log cannot be read, or it has a line, the first of which is named, that is no request.
    """

    swaps: dict[str, tuple[PointerSwap, ...]]
    accepted: dict[str, tuple[AcceptedChange, ...]]
    carried: dict[str, tuple[Carried, ...]]
    answered: dict[str, str] = field(default_factory=dict)
    problem: str | None = None


def read(path: Path, logs: Mapping[str, TableLog]) -> dict[str, tuple[PointerSwap, ...]]:
    """Table → its accepted commits, by time; empty without a proxy log. Lines that are torn are left out.

    A catalog server's request to its database and the writer's request to the server describe the same commit and become one swap. A commit
    to another branch of Nessie than main moves main's pointer only if its operation merges the branch.
    """
    return read_all(path, logs).swaps


def accepted(path: Path, logs: Mapping[str, TableLog]) -> dict[str, tuple[AcceptedChange, ...]]:
    """Table → what REST requests asked of it that the catalog accepted, by time; empty without a proxy log. Torn lines are left out."""
    return read_all(path, logs).accepted


def carried(path: Path, logs: Mapping[str, TableLog]) -> dict[str, tuple[Carried, ...]]:
    """Table → the requests of operations that carried new snapshots of it, by time; empty without a proxy log. Torn lines are left out."""
    return read_all(path, logs).carried


def read_all(path: Path, logs: Mapping[str, TableLog]) -> Proxied:
    """All that :func:`read`, :func:`accepted` and :func:`carried` find, in one pass over the file."""
    found, problem, number = ProxyLogFacts(logs), None, 0
    try:
        for block in blocks(path):
            problem = problem or wrong_line(block, number, path.name)
            for line in io.BytesIO(block):
                number += 1
                if b'"commit"' in line or b'"changes":' in line:
                    found.look(line, plain=False)
    except FileNotFoundError:
        return Proxied({}, {}, {})
    except OSError as e:
        where = f"{path.name}{f':{e.line}' if isinstance(e, UnusableFile) and e.line else ''}"
        return Proxied({}, {}, {}, {}, f"{where}: cannot be read: {e.strerror}; what it says of commits is not known")
    return replace(found.done(), problem=problem)


class _Object(msgspec.Struct, gc=False):
    """Any JSON object: to decode one that is not looked at is the fastest way to see that it is one."""


_OBJECTS = msgspec.json.Decoder(_Object)
REQUEST = ("time", "service", "kind", "status")
"""Keys of every request."""


def wrong_line(block: bytes, before: int, file: str) -> str | None:
    """What is wrong with the first line of some that is no request; None if all are. A log of another sort shows in its first line.

    Args:
        before: the number of lines before these.
        file: its name.
    """
    try:
        _OBJECTS.decode_lines(block)
        sound = block.endswith(b"\n")
    except DECODE_ERRORS:
        sound = False
    for number, line in enumerate(io.BytesIO(block), before + 1):
        if sound and number > 1:
            return None
        if not line.strip():
            continue
        try:
            if not line.endswith(b"\n"):
                raise RecordError(f"the last line is torn ({len(line)} bytes)")
            request = decoded(line)
            if number == 1:
                needs(request, "a request", *REQUEST)
        except RecordError as e:
            return f"{file}:{number}: {e}; what it says of commits is not known"
    return None


class Strayed(ValueError):
    """A line that names one table is about the metadata of another one."""


class _Line(msgspec.Struct, gc=False):
    """What is asked of a line, of whatever types; a line that does not say it has the default."""

    kind: Any = None
    status: Any = None
    what: Any = msgspec.UNSET  # a change without it is none, and one whose ``what`` is null is
    op: Any = None
    writer: Any = None
    time: Any = None
    ms: Any = None
    base: Any = None
    new: Any = None
    location: Any = None
    changes: Any = None


_LINE = msgspec.json.Decoder(_Line)


class ProxyLogFacts:
    """Collects all that lines say of tables."""

    def __init__(self, logs: Mapping[str, TableLog]) -> None:
        self._swaps, self._changes, self._requests = _Swaps(logs), _Changes(logs), _Requests(logs)

    def look(self, line: bytes, *, plain: bool, only: bool = False) -> None:
        """Look at a line with the word ``commit`` or with changes.

        Args:
            plain: it is known to be of ASCII characters and to end as usual.
            only: a commit that it tells of must be one to the tables that are looked for.

        Raises:
            Strayed: it is not.
        """
        try:
            usual = _LINE.decode(line) if plain or (line.isascii() and b"\r" not in line) else None
        except DECODE_ERRORS:
            usual = None
        if usual is None:
            _unusual(line, self._swaps, self._changes, self._requests)
            return
        if b'"commit"' in line:
            self._swaps.add(usual, only=only)
        if b'"changes":' in line:
            self._changes.add(usual)
            self._requests.add(usual)

    def done(self) -> Proxied:
        """What was found."""
        return Proxied(self._swaps.done(), self._changes.done(), self._requests.done(), self._swaps.answered)


def _unusual(raw: bytes, swaps: _Swaps, changes: _Changes, requests: _Requests) -> None:
    """Look at a line of other text than the proxies write: as text, whatever its characters and ends of lines."""
    for line in io.StringIO(raw.decode(errors="replace"), newline=None):
        record = _record(line)
        parts = line.splitlines()  # at other characters, too
        for part in parts:
            if '"commit"' in part and (found := record if len(parts) == 1 else _record(part)) is not None:
                swaps.add(found)
        if '"changes":' in line and record is not None:
            changes.add(record)
            requests.add(record)


def _record(line: str) -> _Line | None:
    try:
        r = decoded(line.encode())
    except RecordError:
        return None
    return _Line(**{key: r[key] for key in _Line.__struct_fields__ if key in r})


class _Swaps:
    """Collects accepted commits."""

    def __init__(self, logs: Mapping[str, TableLog]) -> None:
        self._found: dict[str, dict[tuple[str, int | None], PointerSwap]] = {name: {} for name in logs}
        self._roots: dict[str, str] = {}
        for name, log in logs.items():
            if log.location:
                self._roots.setdefault(normalise(log.location).rstrip("/") + "/", name)
        self._lengths = {len(root) for root in self._roots}
        self._only = next(iter(self._roots.items())) if len(self._roots) == 1 else None
        self._ops: dict[str, str] = {}
        self._merged: dict[str, tuple[int, int]] = {}
        self._on_branches: list[tuple[str, tuple[str, int | None], PointerSwap]] = []
        self.answered: dict[str, str] = {}

    def add(self, record: _Line, *, only: bool = False) -> None:
        """Look at one record; ``only`` as for :meth:`ProxyLogFacts.look`."""
        what, asked = str(record.what), record.op
        accepted_merge = what.endswith(MERGE) and _accepts(str(record.status))
        if accepted_merge and isinstance(asked, str) and (times := _times(record)) is not None:
            self._merged[asked] = times
        if (
            record.kind == "commit"
            and isinstance(asked, str)
            and what.startswith("POST /")
            and _accepts(str(record.status))
        ):
            alone = asked not in self.answered and record.new is None and record.changes is None
            self.answered[asked] = f"{record.status} to {what}" if alone else ""
        pointer = record.location or record.new
        if not only and type(pointer) is str and self._table(normalise(pointer)) is None:
            return  # most lines are about other tables
        swap = _swap(record)
        if swap is None:
            return
        new = normalise(swap.new)
        table = self._table(new)
        if table is None:
            if only:
                raise Strayed(f"{asked}: {what} names another table than {new}")
            return
        if swap.op is not None and swap.writer is not None:
            self._ops.setdefault(new, swap.op)
        key = (new, swap.writer if swap.names_place else None)
        named = _REFERENCE.search(what) if "@" in what or "%40" in what or "/trees/" in what else None
        if named and (named[1] or named[2]) != "main":
            self._on_branches.append((table, key, swap))
            return
        known = self._found[table].get(key)
        # Keep the one that names its base: the request to the database.
        if known is None or (known.base is None and swap.base is not None):
            self._found[table][key] = swap

    def _table(self, new: str) -> str | None:
        """The first table below whose location a file lies."""
        if self._only is not None:
            return self._only[1] if new.startswith(self._only[0]) else None
        found = {self._roots[root] for n in self._lengths if (root := new[:n]) in self._roots}
        return next((t for t in self._found if t in found), None) if len(found) > 1 else next(iter(found), None)

    def done(self) -> dict[str, tuple[PointerSwap, ...]]:
        """What was found."""
        for table, key, swap in self._on_branches:
            if swap.op is not None and swap.op in self._merged:
                sent, answered = self._merged[swap.op]
                self._found[table].setdefault(key, replace(swap, time=sent, end=answered))
        out: dict[str, tuple[PointerSwap, ...]] = {}
        for table, swaps in self._found.items():
            labelled = [
                s if s.op is not None else replace(s, op=self._ops.get(normalise(s.new))) for s in swaps.values()
            ]
            if labelled:
                out[table] = tuple(sorted(labelled, key=lambda s: (s.time, s.new)))
        return out


_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError)
"""What a record of another form raises."""


class _Changes:
    """Collects what accepted REST requests asked of tables."""

    def __init__(self, logs: Mapping[str, TableLog]) -> None:
        self._logs = logs
        self._found: dict[str, list[AcceptedChange]] = {}

    def add(self, r: _Line) -> None:
        """Look at one record."""
        try:
            if r.kind != "commit" or not _accepts(str(r.status)):
                return
            for change in r.changes:
                if change.get("table") in self._logs:
                    self._found.setdefault(change["table"], []).append(_accepted(r, change))
        except _UNREADABLE:
            return

    def done(self) -> dict[str, tuple[AcceptedChange, ...]]:
        """What was found."""
        return {table: tuple(sorted(cs, key=lambda c: (c.time, c.adds))) for table, cs in self._found.items()}


class _Requests:
    """Collects the REST requests that carried new snapshots."""

    def __init__(self, logs: Mapping[str, TableLog]) -> None:
        self._logs = logs
        self._found: dict[str, list[Carried]] = {}

    def add(self, r: _Line) -> None:
        """Look at one record."""
        try:
            if r.kind != "commit" or not isinstance(r.op, str):
                return
            writer, answer = r.writer, str(r.status)
            accepted = _accepts(answer)
            for change in r.changes:
                adds = tuple(int(snapshot) for snapshot in change.get("adds") or ())
                if change.get("table") in self._logs and adds:
                    request = Carried(
                        int(r.time),
                        None if writer is None else int(writer),
                        r.op,
                        adds,
                        accepted,
                        answer,
                        float(r.ms),
                    )
                    self._found.setdefault(change["table"], []).append(request)
        except _UNREADABLE:
            return

    def done(self) -> dict[str, tuple[Carried, ...]]:
        """What was found."""
        return {table: tuple(sorted(rs, key=lambda c: (c.time, c.adds))) for table, rs in self._found.items()}


def _accepted(r: _Line, change: Mapping[str, Any]) -> AcceptedChange:
    refs, base, time = change.get("refs") or {}, change.get("base"), int(r.time)
    main = refs.get("main")
    if r.what is msgspec.UNSET:
        raise KeyError("what")
    return AcceptedChange(
        time,
        time + int(float(r.ms) * 1e6),
        None if r.writer is None else int(r.writer),
        None if r.op is None else str(r.op),
        None if base is None else int(base),
        tuple([int(snapshot) for snapshot in change.get("adds") or ()]),
        None if main is None else int(main),
        str(r.what),
        str(r.status),
        tuple([(str(name), int(snapshot)) for name, snapshot in refs.items() if name != "main"])
        if len(refs) > (main is not None)
        else (),
    )


def _swap(record: _Line) -> PointerSwap | None:
    """A record of an accepted commit that names a metadata file; None for any other."""
    if record.kind != "commit" or not _accepts(str(record.status)):
        return None
    new, names_place = record.location or record.new, False
    if new is None and (what := str(record.what)).startswith("PUT /") and _VERSION.search(what):
        new, names_place = "s3://" + what.removeprefix("PUT /"), True
    if not isinstance(new, str) or not _VERSION.search(new):
        return None
    base, op = record.base, record.op
    times = _times(record)
    if times is None:
        return None
    return PointerSwap(
        *times,
        record.writer,
        op if isinstance(op, str) else None,
        base if isinstance(base, str) and _VERSION.search(base) else None,
        new,
        str(record.status),
        names_place,
    )


def _times(record: _Line) -> tuple[int, int] | None:
    """When a request came and when its answer came, ns; None if the record does not say."""
    time, ms = record.time, record.ms
    if not isinstance(time, int) or not isinstance(ms, int | float) or not math.isfinite(ms):
        return None
    return time, time + int(ms * 1e6)
