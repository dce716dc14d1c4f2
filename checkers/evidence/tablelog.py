"""The table log: the commits according to the table's own files, in commit order, with the exact rows of every commit.

It is read from the object store by ``harness.tablefiles.reader`` (never through Spark) and saved next to the history as one
newline-delimited JSON file per table, so that checkers work later, offline, on any machine. Records, by ``type``:

========== ====================================================================================================
header     ``format``, ``table`` (name in the workload file), ``identifier``, ``location``, ``columns``
metadata   one per metadata.json, in the order of the metadata chain (``n`` from 0): what the table looked like
commit     one per snapshot, in the order in which the chain first shows it: a :class:`Commit`
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

A commit's rows are **net**: a copy-on-write rewrite carries unchanged rows into new files; those are neither added nor
removed. Rows are multisets (a key may occur twice), so equal rows are repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from checkers.evidence import record
from checkers.evidence.problem import Problem, upgraded
from checkers.evidence.record import UNREADABLE, RecordError
from checkers.evidence.runfolder import replace_file
from workloads.file.opened import UnusableFile, lines

FORMAT = 2
READ = (1, 2)
"""Formats that can be read. In format 1 problems are sentences."""
Row = tuple[Any, ...]
"""A row's values in the order of the header's ``columns``."""

FileContent = Literal["data", "position-deletes", "equality-deletes", "deletion-vector"]


_END = ord("\n")


class TableLogError(ValueError):
    """A table log file cannot be read; the message names the file, the line and the problem."""


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One file that a commit added to or removed from the table (Iceberg spec, manifest entries).

    ``path`` is relative to the table's location where it lies below it. ``referenced`` is the data file a deletion
    vector (or a file-scoped position delete file) belongs to; ``offset``/``length`` (bytes) locate a deletion
    vector's blob. Sequence numbers and ``first_row_id`` include what the manifest entry inherits;
    ``snapshot_id`` is the snapshot that the manifest says added the file (of a removed file: as its parent's
    manifests said). A file from before version 3 gets its row ids at a later commit, which does not list it.
    ``spec_id`` is the partition spec of ``partition``; logs of earlier releases do not have it.
    """

    path: str
    content: FileContent
    format: str
    records: int
    size: int
    partition: dict[str, Any]
    data_sequence_number: int | None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None
    first_row_id: int | None = None
    file_sequence_number: int | None = None
    snapshot_id: int | None = None
    spec_id: int | None = None


class RowChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, array_like=True):
    """A row that a commit made appear or disappear, and where: data file and position (from 0) in it.

    ``by`` is the delete file that hides (or no longer hides) the row; None if the data file itself was added or removed.
    """

    row: Row
    file: str
    pos: int
    by: str | None = None


class Commit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, tag_field="type", tag="commit"):
    """One snapshot.

    Attributes:
        op: id of the operation that made it (summary key ``icequake-op``), None if the snapshot has none.
        attempt: number of tries its producer made, the winning one included (from ``snap-<id>-<attempt>-<uuid>.avro``).
        metadata: ``n`` of the metadata version that first shows the snapshot.
        added, removed: net rows relative to the parent snapshot; None if they are unknown (see ``problems``).
        problems: what could not be read, in words: a missing file, a parent that was never seen.
        violations: what was read and breaks the spec, as ``code: words``, seen where the snapshot's manifests were
            first read: ``duplicate-path``, ``several-dvs``, ``dangling-dv``, ``foreign-file`` (live, not in the
            parent, and not added by this snapshot), ``manifest-count``, ``min-sequence-number``, ``sequence-number``,
            ``null-sequence-number``, ``record-count``, ``delete-position`` (beyond the end of the data file),
            ``file-partition`` (not that of its rows), ``delete-partition`` (not that of the data file),
            ``removed-not-live``, ``entry-changed`` (a removed file is told differently than it was live).
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str
    summary: dict[str, str]
    op: str | None
    attempt: int | None
    manifest_list: str
    schema_id: int | None
    metadata: int
    added: tuple[RowChange, ...] | None
    removed: tuple[RowChange, ...] | None
    added_files: tuple[FileEntry, ...]
    removed_files: tuple[FileEntry, ...]
    first_row_id: int | None = None
    added_rows: int | None = None
    problems: tuple[Problem, ...] = ()
    violations: tuple[str, ...] = ()

    @property
    def readable(self) -> bool:
        """Whether its rows are known."""
        return self.added is not None and self.removed is not None


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """One metadata.json of the chain, without the facts that the commits have.

    ``current`` is main's snapshot (None: empty table), ``snapshots`` the ids listed, ``refs`` name → snapshot id,
    ``raw`` the rest of the file (schemas, specs, properties, snapshot log), for the ``metadata`` checker; versions
    share equal parts, so do not change it. ``problems``: where the chain is broken at this version, in words (it does
    not descend from the version before it, its predecessor is missing, it describes a snapshot differently than
    an earlier version).
    """

    n: int
    location: str
    last_updated_ms: int
    format_version: int
    current: int | None
    snapshots: tuple[int, ...]
    refs: dict[str, int]
    last_sequence_number: int
    next_row_id: int | None
    raw: dict[str, Any]
    problems: tuple[Problem, ...] = ()


class Capture(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, tag_field="type", tag="capture"):
    """The reader saw everything up to ``time`` (ns since the start of the run); ``metadata``: where the pointer was."""

    time: int
    metadata: str | None


@dataclass(frozen=True, slots=True)
class Growth:
    """What a table log gained: whole versions with the commits that they are the first to show, and captures.

    A capture that the store cut short leaves versions without a capture; those after the last one need not be all that there are.
    """

    table: str
    columns: tuple[str, ...]
    metadata: tuple[Metadata, ...]
    commits: tuple[Commit, ...]
    captures: tuple[Capture, ...]


class MissingFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, array_like=True):
    """A file that is not in the store although ``snapshots`` (ids, all listed by the last metadata) need it."""

    path: str
    snapshots: tuple[int, ...]


@dataclass(frozen=True)
class TableLog:
    """A table's whole log. ``complete`` is False for a run that ended before the final reading.

    ``missing_files`` is determined once, at the end: it has files that were read earlier and are gone now.
    """

    table: str
    identifier: str
    location: str
    columns: tuple[str, ...]
    metadata: tuple[Metadata, ...]
    commits: tuple[Commit, ...]
    captures: tuple[Capture, ...]
    complete: bool
    problems: tuple[Problem, ...] = ()
    missing_files: tuple[MissingFile, ...] = ()

    @property
    def captured_until(self) -> int | None:
        """What was acknowledged before this (ns since the start of the run) must be in the log; None: nothing yet."""
        return self.captures[-1].time if self.captures else None

    @property
    def committed_again(self) -> frozenset[int]:
        """Ids that were committed again as different snapshots, where the catalog lists only the current snapshot (Nessie over REST).

        A client whose acknowledgement was lost then commits its snapshot again, on another parent; with other catalogs it, or the
        server, sees that the id is taken. The log has the first one, so main's ancestry since then is unknown.
        """
        if len(self.commits) < 2 or any(len(m.snapshots) > 1 for m in self.metadata):
            return frozenset()
        said = (p for m in self.metadata for p in m.problems if p.code == "snapshot-changed")
        return frozenset(p.snapshot for p in said if p.snapshot is not None)

    def by_snapshot(self) -> dict[int, Commit]:
        """Snapshot id → commit."""
        return {c.snapshot_id: c for c in self.commits}

    def by_op(self) -> dict[str, list[Commit]]:
        """Operation id → its commits, in the order of the chain."""
        out: dict[str, list[Commit]] = {}
        for c in self.commits:
            if c.op is not None:
                out.setdefault(c.op, []).append(c)
        return out

    def main(self) -> list[Commit]:
        """Main's final ancestry, oldest first, as far back as the log has parents.

        Ancestry, not presence in ``commits``, decides whether a snapshot took effect: after a lost acknowledgement
        main can be moved back below a snapshot that stays listed.
        """
        current = self.metadata[-1].current if self.metadata else None
        known = self.by_snapshot()
        chain: list[Commit] = []
        seen: set[int] = set()
        while current is not None and current in known and current not in seen:
            seen.add(current)
            chain.append(known[current])
            current = known[current].parent_id
        chain.reverse()
        return chain


# --- the file ---------------------------------------------------------------------------------------------------------


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
            record.must(
                isinstance(old[k], list), f"{record.shown(k)}, which grew,", "a list in the record before", old[k]
            )
            out[k] = old[k][growth.skip :] + growth.add
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
