"""The file of a table log: newline-delimited JSON, one file per table, next to the history. Records, by ``type``:

========== ====================================================================================================
header     ``format``, ``table_format``, ``table`` (name in the workload file), ``identifier``, ``location``, ``columns``
metadata   one per metadata.json, in the order of the metadata chain (``n`` from 0): what the table looked like
commit     one per snapshot, in the order in which the chain first shows it: a :class:`~checkers.evidence.tablelog.Commit`
capture    the reader followed the catalog's pointer to its end: everything acknowledged before ``time`` (ns since the
           start of the run) is in the records above; ``metadata`` is the location that the pointer had
problem    a :class:`~checkers.evidence.problem.Problem`: what the reader could not read and no other record can hold
end        the last capture, after the final reads: the log is complete; ``missing``: files that a snapshot of the last
           metadata needs and that are not in the store; ``sizes``: objects whose size the listing of the end tells
========== ====================================================================================================

Versions repeat each other, and in a long run a version has about as many snapshots as there are versions. So a ``metadata`` record holds only
the difference from the record before it: ``snapshots`` as ``{"drop": [...], "add": [...]}``. The first record is complete.

``table_format`` names the table's format, by default Iceberg. It may add facts to commits, files and versions
(:class:`checkers.evidence.tableformat.TableFormat`).

During a run the reader appends to the file from time to time (and before operations that delete files), so a killed run
leaves a log up to its last ``capture``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from checkers.evidence import record
from checkers.evidence.problem import Problem, upgraded
from checkers.evidence.record import DECODE_ERRORS, RecordError, learned
from checkers.evidence.runfolder import replace_file
from checkers.evidence.tableformat import MetadataRecord, Records, SnapshotDifference, find
from checkers.evidence.tablelog import (
    ICEBERG,
    Capture,
    Commit,
    Metadata,
    MissingFile,
    ObjectSize,
    RowChange,
    TableLog,
    TableLogError,
)
from workloads.file.opened import UnusableFile, lines

FORMAT = 3
READ = (1, 2, 3)
"""Formats that can be read. In format 1 problems are sentences; formats 1 and 2 have neither statistics nor sizes of objects."""
_END = ord("\n")


class _Header(msgspec.Struct, frozen=True, tag_field="type", tag="header"):
    """The first line."""

    format: int
    table: str
    identifier: str
    location: str
    columns: tuple[str, ...]
    table_format: str = ICEBERG

    def log(self, **found: Any) -> TableLog:
        """The log with what was found in it."""
        return TableLog(
            self.table, self.identifier, self.location, self.columns, table_format=self.table_format, **found
        )


class _End(msgspec.Struct, frozen=True, tag_field="type", tag="end"):
    """The last line."""

    missing: tuple[MissingFile, ...] = ()
    sizes: tuple[ObjectSize, ...] = ()


Line = MetadataRecord | Commit | Capture | Problem | _End
"""A record after the header."""


class LogLines:
    """The lines of a log after its header, of which these are facts."""

    def __init__(self, table_format: str = ICEBERG, format: int = FORMAT) -> None:
        commit, metadata = _records_of(table_format)
        self._format = format
        lines = learned(metadata | commit | Capture | Problem | _End)
        self.decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(lines)
        self._known: Mapping[str, tuple[type[Line], str]] = {
            "metadata": (metadata, "a metadata record"),
            "commit": (commit, "a commit"),
            "capture": (Capture, "a capture"),
            "problem": (Problem, "a problem"),
            "end": (_End, "an end"),
        }

    def record(self, line: bytes) -> Line:
        """The record on a line.

        Raises:
            RecordError: it is none; says what is wrong.
        """
        record.shallow(line)
        try:
            return self.decoder.decode(line)
        except DECODE_ERRORS:
            return self.explained(record.decoded(line))

    def explained(self, r: dict[str, Any]) -> Line:
        """The record that JSON values are, as :meth:`record`."""
        record.needs(r, "a record", "type")
        kind = r["type"]
        if not isinstance(kind, str) or kind not in self._known:
            record.must(False, "type", f"one of {', '.join(self._known)}", kind)
        known, what = self._known[kind]
        return record.converted(upgraded(r) if self._format == 1 else r, known, what)


def _records_of(table_format: str) -> Records:
    try:
        found = find(table_format).records
    except LookupError as e:
        raise RecordError(f"a header: table_format: {e}") from None
    return found


def _change_to_json(c: RowChange) -> list[Any]:
    return [list(c.row), c.file, c.pos] if c.by is None else [list(c.row), c.file, c.pos, c.by]


def commit_to_json(c: Commit) -> dict[str, Any]:
    """A ``commit`` record."""
    other = {
        "added",
        "removed",
        "added_files",
        "removed_files",
        "named_by",
    }  # the last one is no file's: proxies or rows tell it
    out = {k: msgspec.to_builtins(getattr(c, k)) for k in c.__struct_fields__ if k not in other}
    for k in ("added", "removed"):
        rows: tuple[RowChange, ...] | None = getattr(c, k)
        out[k] = None if rows is None else [_change_to_json(r) for r in rows]
    out["added_files"] = [f.to_json() for f in c.added_files]
    out["removed_files"] = [f.to_json() for f in c.removed_files]
    out["problems"] = [p.to_json() for p in c.problems]
    return {"type": "commit", **out}


def _check_rows(c: Commit, columns: int) -> None:
    """A commit says nothing twice and differently, and every row has as many values as there are columns."""
    if (why := c.contradiction) is not None:
        raise RecordError(f"a commit: {why}; {_NOT_A_LOG}")
    for name in ("added", "removed"):
        for r in getattr(c, name) or ():
            if len(r.row) != columns:
                count = f"the number of values in a row of {name}"
                record.must(False, count, f"{columns}, one for each column", len(r.row))


_NOT_A_LOG = "no reader writes another, so something else has changed the file: take the log as the run left it"


def _check_number(n: int, due: int) -> None:
    """Versions are numbered from 0 without a gap."""
    if n != due:
        record.must(False, "a metadata record: n", f"{due}, the number of such records before it ({_NOT_A_LOG})", n)


def _check_version(n: int, versions: int) -> None:
    """A commit comes after the version that is the first to show it."""
    if 0 <= n < versions:
        return
    due = (
        f"the n of a metadata record before it, from 0 to {versions - 1}" if versions else "that of a version before it"
    )
    record.must(False, "a commit: metadata", f"{due} ({_NOT_A_LOG})", n)


def metadata_to_json(m: Metadata, previous: Metadata | None = None) -> dict[str, Any]:
    """A ``metadata`` record: all of it, or what differs from ``previous`` (the record before it in the file)."""
    out = {"type": "metadata", **m.values(previous)}
    out["problems"] = [p.to_json() for p in m.problems]
    if previous is not None and (change := SnapshotDifference.between(previous.snapshots, m.snapshots)) is not None:
        out["snapshots"] = msgspec.structs.asdict(change)
    return out


def end_to_json(missing: Iterable[MissingFile], sizes: Iterable[ObjectSize] = ()) -> dict[str, Any]:
    """The ``end`` record."""
    return {
        "type": "end",
        "missing": [[m.path, list(m.snapshots)] for m in missing],
        "sizes": [[o.path, o.size] for o in sizes],
    }


def problem_record(problem: Problem) -> dict[str, Any]:
    """A ``problem`` record."""
    return {"type": "problem", **problem.to_json()}


def header_to_json(
    table: str, identifier: str, location: str, columns: Sequence[str], table_format: str = ICEBERG
) -> dict[str, Any]:
    """The ``header`` record."""
    return {
        "type": "header",
        "format": FORMAT,
        "table_format": table_format,
        "table": table,
        "identifier": identifier,
        "location": location,
        "columns": list(columns),
    }


def records(log: TableLog) -> Iterable[dict[str, Any]]:
    """All records of a log, in the order in which they are written."""
    yield header_to_json(log.table, log.identifier, log.location, log.columns, log.table_format)
    commits = iter(log.commits)
    pending = next(commits, None)
    previous: Metadata | None = None
    for m in log.metadata:
        yield metadata_to_json(m, previous)
        previous = m
        while pending is not None and pending.metadata <= m.n:
            yield commit_to_json(pending)
            pending = next(commits, None)
    while pending is not None:
        yield commit_to_json(pending)
        pending = next(commits, None)
    for c in log.captures:
        yield {"type": "capture", "time": c.time, "metadata": c.metadata}
    for problem in log.problems:
        yield problem_record(problem)
    if log.complete:
        yield end_to_json(log.missing_files, log.sizes)


def dump(record: Mapping[str, Any]) -> bytes:
    """One record as a line of the file."""
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def write(log: TableLog, path: Path) -> None:
    """Write a whole log to ``path``, replacing it."""
    replace_file(path, b"".join(dump(r) for r in records(log)))


def read(path: Path) -> TableLog:
    """Read one table's log. A torn last line is dropped and named in ``problems``.

    Raises:
        TableLogError: no header, an unknown format, a broken line that is not the last, or no regular file.
    """
    header: _Header | None = None
    decoded: LogLines | None = None
    metadata: list[Metadata] = []
    commits: list[Commit] = []
    captures: list[Capture] = []
    end: _End | None = None
    words: dict[str, str] = {}
    problems: list[Problem] = []
    number = 0
    try:
        for line in lines(path):
            number += 1
            if line[-1] != _END:
                problems.insert(0, Problem("torn", f"{path.name}: the last line is torn ({len(line)} bytes)"))
                break
            if header is None or decoded is None:
                header = _header(line)
                decoded = LogLines(header.table_format, header.format)
                continue
            r = decoded.record(line)
            if isinstance(r, MetadataRecord):
                _check_number(r.n, len(metadata))
                metadata.append(r.after(metadata[-1] if metadata else None))
            elif isinstance(r, Commit):
                _check_rows(r, len(header.columns))
                _check_version(r.metadata, len(metadata))
                r.share(words)
                commits.append(r)
            elif isinstance(r, Capture):
                captures.append(r)
            elif isinstance(r, Problem):
                problems.append(r)
            else:
                end = r
    except RecordError as e:
        raise TableLogError(f"{path}:{number}: {e}") from None
    except UnusableFile as e:
        raise TableLogError(str(e)) from None
    except OSError as e:
        raise TableLogError(f"{path}: cannot be read: {e.strerror}") from None
    if header is None:
        torn = path.stat().st_size > 0
        raise TableLogError(f"{path}:1: torn: its end is missing" if torn else f"{path}: empty: the header is missing")
    return header.log(
        metadata=tuple(metadata),
        commits=tuple(commits),
        captures=tuple(captures),
        complete=end is not None,
        problems=tuple(problems),
        missing_files=() if end is None else end.missing,
        sizes=() if end is None else end.sizes,
    )


def header_of(path: Path) -> TableLog:
    """A log without its records.

    Raises:
        TableLogError: as :func:`read`, of the first line.
    """
    try:
        header = _header(next(lines(path), b""))
    except OSError as e:
        raise TableLogError(f"{path}: cannot be read: {e.strerror}") from None
    except RecordError as e:
        raise TableLogError(f"{path}:1: {e}") from None
    return header.log(metadata=(), commits=(), captures=(), complete=False)


def _header(line: bytes) -> _Header:
    r = record.decoded(line)
    record.needs(r, "a record", "type")
    formats = " or ".join(map(str, READ))
    first = f"header in the first line of a table log of format {formats}"
    record.must(r["type"] == "header", "type", first, r["type"])
    if r.get("format") not in READ:
        raise RecordError(f"format {record.shown(r.get('format'))} is not known; this version reads format {formats}")
    header = record.converted(r, _Header, "a header")
    record.must(len({*header.columns}) == len(header.columns), "a header: columns", "each name once", r["columns"])
    return header


def read_all(folder: Path) -> dict[str, TableLog]:
    """Every table's log in a run's ``tablelog/`` folder, by table name; empty for an absent folder.

    Raises:
        TableLogError: as :func:`read`.
    """
    logs = (read(p) for p in sorted(folder.glob("*.jsonl")))
    return {log.table: log for log in logs}
