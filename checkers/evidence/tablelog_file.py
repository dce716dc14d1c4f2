"""The file of a table log: newline-delimited JSON, one file per table, next to the history. Records, by ``type``:

========== ====================================================================================================
header     ``format``, ``table`` (name in the workload file), ``identifier``, ``location``, ``columns``
metadata   one per metadata.json, in the order of the metadata chain (``n`` from 0): what the table looked like
commit     one per snapshot, in the order in which the chain first shows it: a :class:`~checkers.evidence.tablelog.Commit`
capture    the reader followed the catalog's pointer to its end: everything acknowledged before ``time`` (ns since the
           start of the run) is in the records above; ``metadata`` is the location that the pointer had
problem    a :class:`~checkers.evidence.problem.Problem`: what the reader could not read and no other record can hold
end        the last capture, after the final reads: the log is complete; ``missing``: files that a snapshot of the last
           metadata needs and that are not in the store
========== ====================================================================================================

Metadata versions repeat each other, and in a long run a version has about as many snapshots as there are versions. So a
``metadata`` record holds only the difference from the record before it: ``snapshots`` as ``{"drop": [...], "add":
[...]}``, ``raw`` without the keys that are unchanged (``same`` names them), and a list of ``raw`` that only lost
entries at its start and gained some at its end as ``{"skip": n, "keep": n, "add": [...]}`` under ``grown``. The first
record is complete.

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
from checkers.evidence.record import UNREADABLE, RecordError
from checkers.evidence.runfolder import replace_file
from checkers.evidence.tablelog import (
    Capture,
    Commit,
    FileEntry,
    Metadata,
    MissingFile,
    RowChange,
    TableLog,
    TableLogError,
)
from workloads.file.opened import UnusableFile, lines

FORMAT = 2
READ = (1, 2)
"""Formats that can be read. In format 1 problems are sentences."""
_END = ord("\n")


class _Header(msgspec.Struct, frozen=True, tag_field="type", tag="header"):
    """The first line."""

    format: int
    table: str
    identifier: str
    location: str
    columns: tuple[str, ...]

    def log(self, **found: Any) -> TableLog:
        """The log with what was found in it."""
        return TableLog(self.table, self.identifier, self.location, self.columns, **found)


class _Difference(msgspec.Struct, frozen=True, gc=False):
    """Which snapshots a version lists no more, and which are new."""

    drop: list[int]
    add: list[int]


class _Growth(msgspec.Struct, frozen=True, gc=False):
    """How a list grew (:func:`_grown`)."""

    skip: int
    add: list[Any]


class _Version(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, tag_field="type", tag="metadata"):
    """A :class:`Metadata`, or how it differs from the one before it."""

    n: int
    location: str
    last_updated_ms: int
    format_version: int
    current: int | None
    snapshots: tuple[int, ...] | _Difference
    refs: dict[str, int]
    last_sequence_number: int
    next_row_id: int | None
    raw: dict[str, Any]
    problems: tuple[Problem, ...] = ()
    same: list[str] | msgspec.UnsetType = msgspec.UNSET
    grown: dict[str, _Growth] = {}

    def after(self, previous: Metadata | None) -> Metadata:
        """The version; ``previous``: the one before it.

        Raises:
            RecordError: it is a difference and there is no ``previous``, or that lacks what did not change, or grew.
        """
        listed, raw = self.snapshots, self.raw
        if previous is None:
            if isinstance(listed, _Difference) or self.same is not msgspec.UNSET:
                raise RecordError(
                    "a metadata record says only what differs from the record before it, and there is none"
                )
        else:
            raw = _raw_after(previous, raw, self.same or (), self.grown)
            if isinstance(listed, _Difference):
                listed = _listed_after(previous, listed)
        return Metadata(
            self.n,
            self.location,
            self.last_updated_ms,
            self.format_version,
            self.current,
            listed,
            self.refs,
            self.last_sequence_number,
            self.next_row_id,
            raw,
            self.problems,
        )


class _End(msgspec.Struct, frozen=True, tag_field="type", tag="end"):
    """The last line."""

    missing: tuple[MissingFile, ...] = ()


_Line = _Version | Commit | Capture | Problem | _End
_LINE: msgspec.json.Decoder[_Line] = msgspec.json.Decoder(_Line)
_RECORDS: Mapping[str, tuple[type[_Line], str]] = {
    "metadata": (_Version, "a metadata record"),
    "commit": (Commit, "a commit"),
    "capture": (Capture, "a capture"),
    "problem": (Problem, "a problem"),
    "end": (_End, "an end"),
}
"""The records after the header: type → what it is."""


def record_of(r: dict[str, Any], format: int = FORMAT) -> _Line:
    """The record that JSON values are.

    Raises:
        RecordError: they are none; says what is wrong.
    """
    record.needs(r, "a record", "type")
    kind = r["type"]
    if not isinstance(kind, str) or kind not in _RECORDS:
        record.must(False, "type", f"one of {', '.join(_RECORDS)}", kind)
    known, what = _RECORDS[kind]
    return record.converted(upgraded(r) if format == 1 else r, known, what)


def _decoded(line: bytes, format: int) -> _Line:
    """The record on a line of a log of a format."""
    record.shallow(line)
    try:
        return _LINE.decode(line)
    except UNREADABLE:
        return record_of(record.decoded(line), format)


def _change_to_json(c: RowChange) -> list[Any]:
    return [list(c.row), c.file, c.pos] if c.by is None else [list(c.row), c.file, c.pos, c.by]


def _file_to_json(f: FileEntry) -> dict[str, Any]:
    out = msgspec.structs.asdict(f)
    if f.spec_id is None:
        del out["spec_id"]
    return out


def commit_to_json(c: Commit) -> dict[str, Any]:
    """A ``commit`` record."""
    out = {
        k: getattr(c, k)
        for k in Commit.__struct_fields__
        if k not in ("added", "removed", "added_files", "removed_files")
    }
    for k in ("added", "removed"):
        rows: tuple[RowChange, ...] | None = getattr(c, k)
        out[k] = None if rows is None else [_change_to_json(r) for r in rows]
    out["added_files"] = [_file_to_json(f) for f in c.added_files]
    out["removed_files"] = [_file_to_json(f) for f in c.removed_files]
    out["problems"] = [p.to_json() for p in c.problems]
    return {"type": "commit", **out}


def _check_rows(c: Commit, columns: int) -> None:
    """Every row has as many values as there are columns."""
    if all(len(r.row) == columns for rows in (c.added, c.removed) if rows for r in rows):
        return
    for name in ("added", "removed"):
        for r in getattr(c, name) or ():
            count = f"the number of values in a row of {name}"
            record.must(len(r.row) == columns, count, f"{columns}, one for each column", len(r.row))


def _grown(old: Any, new: Any) -> dict[str, Any] | None:
    """``new`` as ``old`` without its first ``skip`` entries and with ``add`` at the end; None if ``new`` is not of that form."""
    if not isinstance(old, list) or not isinstance(new, list) or not old or not new:
        return None
    try:
        skip = old.index(new[0])
    except ValueError:
        return None
    keep = len(old) - skip
    if keep > len(new) or old[skip:] != new[:keep]:
        return None
    return {"skip": skip, "keep": keep, "add": new[keep:]}


def metadata_to_json(m: Metadata, previous: Metadata | None = None) -> dict[str, Any]:
    """A ``metadata`` record: all of it, or what differs from ``previous`` (the record before it in the file)."""
    out = {"type": "metadata", **{k: getattr(m, k) for k in Metadata.__struct_fields__}}
    out["problems"] = [p.to_json() for p in m.problems]
    if previous is None:
        return out
    before, now = set(previous.snapshots), set(m.snapshots)
    add = [s for s in m.snapshots if s not in before]
    if (*(s for s in previous.snapshots if s in now), *add) == m.snapshots:
        out["snapshots"] = {"drop": [s for s in previous.snapshots if s not in now], "add": add}
    same, grown, raw = [], {}, {}
    for k, v in m.raw.items():
        old = previous.raw.get(k)
        if k in previous.raw and (old is v or old == v):
            same.append(k)
        elif (g := _grown(old, v)) is not None:
            grown[k] = g
        else:
            raw[k] = v
    out |= {"raw": raw, "same": same, "grown": grown}
    return out


def _listed_after(previous: Metadata, change: _Difference) -> tuple[int, ...]:
    """The snapshots that a version lists."""
    gone = {*change.drop}
    left = [s for s in previous.snapshots if s not in gone] if gone else previous.snapshots
    return (*left, *change.add)


def _raw_after(
    previous: Metadata, raw: dict[str, Any], same: Sequence[str], grown: Mapping[str, _Growth]
) -> dict[str, Any]:
    """The unparsed part of a version.

    Raises:
        RecordError: the version before it lacks what did not change, or grew.
    """
    old = previous.raw
    try:
        out = {**raw, **{k: old[k] for k in same}}
        for k, growth in grown.items():
            before = old[k]
            if not isinstance(before, list):
                record.must(False, f"{record.shown(k)}, which grew,", "a list in the record before", before)
            out[k] = before[growth.skip :] + growth.add
    except KeyError as e:
        key = record.shown(e.args[0])
        raise RecordError(f"{key} is said to be that of the metadata record before it, which has none") from None
    return out


def end_to_json(missing: Iterable[MissingFile]) -> dict[str, Any]:
    """The ``end`` record."""
    return {"type": "end", "missing": [[m.path, list(m.snapshots)] for m in missing]}


def problem_record(problem: Problem) -> dict[str, Any]:
    """A ``problem`` record."""
    return {"type": "problem", **problem.to_json()}


def header_to_json(table: str, identifier: str, location: str, columns: Sequence[str]) -> dict[str, Any]:
    """The ``header`` record."""
    return {
        "type": "header",
        "format": FORMAT,
        "table": table,
        "identifier": identifier,
        "location": location,
        "columns": list(columns),
    }


def records(log: TableLog) -> Iterable[dict[str, Any]]:
    """All records of a log, in the order in which they are written."""
    yield header_to_json(log.table, log.identifier, log.location, log.columns)
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
        yield end_to_json(log.missing_files)


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
            if header is None:
                header = _header(line)
                continue
            r = _decoded(line, header.format)
            if isinstance(r, _Version):
                metadata.append(r.after(metadata[-1] if metadata else None))
            elif isinstance(r, Commit):
                _check_rows(r, len(header.columns))
                _share(r, words)
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
        raise TableLogError(f"{path}: empty: the header is missing")
    return header.log(
        metadata=tuple(metadata),
        commits=tuple(commits),
        captures=tuple(captures),
        complete=end is not None,
        problems=tuple(problems),
        missing_files=() if end is None else end.missing,
    )


def _share(c: Commit, words: dict[str, str]) -> None:
    """Make equal words of summaries one object, as in ``words``: they say the same numbers again and again."""
    summary = c.summary
    summary.update(zip(summary, map(words.setdefault, summary.values(), summary.values()), strict=True))


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
