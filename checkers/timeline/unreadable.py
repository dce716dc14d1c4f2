"""From when on nobody could read a table, because the store has lost a file that it needs.

An error says so by its class and names the file: Iceberg throws ``NotFoundException`` (``Location does not exist: …``: ``S3InputStream``,
``BaseS3File``; ``Failed to open input stream for file: …``: ``HadoopInputFile``) where a metadata file, manifest list, manifest, data or
delete file is not there; the message of a failed Spark job quotes it. Only where ``S3InputFile`` asks for the length of a file first, as
of a manifest list, S3's own ``NoSuchKeyException`` comes through, which names none. One such error proves little: a reader whose
snapshot was expired gets it, too. So a table counts as unreadable only if afterwards no operation succeeded that has to read data files of
its current state (:func:`reads_rows`), and

* the complete table log says that main's last snapshot (or the pointer) needs that file, or one if none is named, and the store does not
  have it; or,
* where no complete log tells, two writers (or the only one) got such an error from operations that were invoked after the first error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import ErrorChain, Operation
from checkers.evidence.paths import normalise
from checkers.evidence.tablelog import TableLog
from checkers.timeline.two_tables import tables_of
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

NOT_THERE = (
    "org.apache.iceberg.exceptions.NotFoundException",
    "java.io.FileNotFoundException",
    "java.nio.file.NoSuchFileException",
)
"""Classes that say that a file is not there."""

NO_SUCH_KEY = "software.amazon.awssdk.services.s3.model.NoSuchKeyException"
"""Says that a file is not there, without its name."""

_BELOW = re.compile(r"://.*/((?:metadata|data)/.*)$")

WITNESSES = 2
"""Number of writers that must get the error, where no complete table log tells."""

_QUOTED = re.compile(rf"(?:{'|'.join(map(re.escape, NOT_THERE))}): ([^\n]*)")
_FILE = re.compile(r"(?:\b[a-z][a-z0-9+.-]*:/+|(?<![\w/])/)[^\s,;'\"()\[\]]+")


def missing_file(error: ErrorChain | None) -> str | None:
    """The file that is not there according to an error chain; empty if it names none, None if it does not say that a file is missing."""
    found_none = None
    for link in error or ():
        if not link:
            continue
        name, message = link[0], link[1] if len(link) > 1 else ""
        if name == NO_SUCH_KEY or f"{NO_SUCH_KEY}: " in message:
            found_none = ""
        quoted = [message] if name in NOT_THERE else _QUOTED.findall(message)
        for text in quoted:
            if (found := _FILE.search(text)) is not None:
                return found[0].rstrip(".:")
    return found_none


@dataclass(frozen=True, slots=True)
class UnreadableTable:
    """A table that nobody could read any more.

    Attributes:
        since: when the first operation failed because of it, ns since the start of the run.
        file: that is not there, as the errors name it, else as the table log does; empty if neither does.
        op: the first operation that failed because of it.
        later: number of operations that were invoked on the table from then on and did not succeed; none of them read it.
    """

    table: str
    since: int
    file: str
    op: str
    later: int

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "table": self.table,
            "since": self.since,
            "file": self.file,
            "op": self.op,
            "later": self.later,
        }


@dataclass
class _Suspicion:
    since: int
    op: str
    files: dict[str, None] = field(default_factory=dict)
    writers: set[str] = field(default_factory=set)


def writer_of(op: str) -> str:
    """The writer of an operation, by its id: ``w3`` of ``w3-17``."""
    return op.rpartition("-")[0] or op


SCANS = frozenset(("read", "update", "delete", "merge"))
"""The verbs of operations that look at rows of the table; an insert and an overwrite need none, and what ALTER or maintenance reads depends
on what there is to do."""


def reads_rows(kind: str, table: TableSpec | None) -> bool:
    """Whether a success of a kind says that the table can be read: it has to read data files of the table's current state.

    A read of an older snapshot does not, nor does what deletes without a scan; of an unknown kind nobody knows.
    """
    k = KINDS.get(kind)
    return k is None or (k.verb in SCANS and not k.travels and not (table is not None and k.at_commit(table)))


class Watch:
    """Follows completed operations, in the order of their completion, and says when a table has become unreadable.

    Args:
        writers: number of writers of the workload.
    """

    def __init__(self, writers: int) -> None:
        self._writers = max(1, writers)
        self._suspicions: dict[str, _Suspicion] = {}

    def completed(
        self, table: str, op: str, invoked: int, index: int, outcome: str, error: ErrorChain | None, *, reads: bool
    ) -> bool:
        """Count one operation; times in ns. Returns whether its table is unreadable for certain, without a table log.

        ``reads``: whether its success says that the table can be read (:func:`reads_rows`).
        """
        if outcome == "ok":
            if reads:
                self._suspicions.pop(table, None)
            return False
        file = missing_file(error)
        if file is None:
            return False
        suspicion = self._suspicions.setdefault(table, _Suspicion(index, op))
        suspicion.files[file] = None
        if invoked >= suspicion.since:
            suspicion.writers.add(writer_of(op))
        return self.witnessed(table)

    def witnessed(self, table: str) -> bool:
        """Whether enough writers got the error."""
        suspicion = self._suspicions.get(table)
        return suspicion is not None and len(suspicion.writers) >= min(WITNESSES, self._writers)

    def suspicion(self, table: str) -> tuple[int, tuple[str, ...], str] | None:
        """Since when, which files (empty: one that is not named) and which operation, if a table may be unreadable now."""
        found = self._suspicions.get(table)
        return None if found is None else (found.since, tuple(found.files), found.op)


def unreadable(evidence: Evidence) -> tuple[UnreadableTable, ...]:
    """The tables of a run that were unreadable at its end, by time."""
    operations = evidence.history.operations()
    if all(o.error is None or missing_file(o.error) is None for o in operations):
        return ()
    watch = Watch(len({writer_of(o.op) for o in operations}))
    done = [(o.completed.index, o.completed.time, o) for o in operations if o.completed is not None]
    for _, index, o in sorted(done, key=lambda d: d[0]):
        for table in tables_of(o):
            error = o.error if _concerns(o.error, evidence.logs.get(table), len(tables_of(o))) else None
            watch.completed(
                table, o.op, o.start, index, o.type, error, reads=reads_rows(o.f, evidence.tables.get(table))
            )
    return tuple(sorted(_certain(evidence, operations, watch), key=lambda u: (u.since, u.table)))


def _certain(evidence: Evidence, operations: list[Operation], watch: Watch) -> Iterator[UnreadableTable]:
    for table in sorted({t for o in operations for t in tables_of(o)}):
        suspicion = watch.suspicion(table)
        if suspicion is None:
            continue
        since, files, op = suspicion
        file = next(filter(None, files), "")
        log = evidence.logs.get(table)
        if log is not None and log.complete:
            # A writer that failed may have deleted other files, too, which only its neighbours name: each error counts.
            missing = _needed(log, files)
            if missing is None:
                continue
            file = missing[0] or missing[1]
        elif not watch.witnessed(table):
            continue
        later = sum(table in tables_of(o) and o.start >= since and o.type != "ok" for o in operations)
        yield UnreadableTable(table, since, file, op, later)


def _concerns(error: ErrorChain | None, log: TableLog | None, tables: int) -> bool:
    """Whether the missing file is one of the table; without its name or location, whether the operation has no other table."""
    file = missing_file(error)
    if file is None:
        return False
    if not file or log is None or not log.location:
        return tables == 1
    return normalise(file).startswith(normalise(log.location).rstrip("/") + "/")


def same_file(path: str, file: str) -> bool:
    """Whether a path of a table log, which may be relative to the table's location, is the file that an error names."""
    a, b = normalise(path), normalise(file)
    return a == b or ("://" not in a and not a.startswith("/") and b.endswith("/" + a))


def _needed(log: TableLog, files: Sequence[str]) -> tuple[str, str] | None:
    """The first of some files (empty: any) that main's last snapshot or the pointer needs and the store does not have, as the errors name it
    and as the log does; None if there is none."""
    current = log.metadata[-1].current if log.metadata else None
    missing = [p.file for p in log.problems if p.code == "missing-metadata" and p.file is not None]
    missing += [f.path for f in log.missing_files if current in f.snapshots]
    problems = (p for c in log.commits if c.snapshot_id == current for p in c.problems)
    missing += [p.file for p in problems if p.code == "missing-file" and p.file is not None]
    named = ((file, path) for file in filter(None, files) for path in missing if same_file(path, file))
    return next(named, ("", missing[0]) if missing and "" in files else None)


def file_words(file: str) -> str:
    """``file metadata/snap-….avro``, below the table's location, for a sentence."""
    short = _BELOW.search(file)
    return f"file {short[1] if short is not None else file}" if file else "a file that no error names"
