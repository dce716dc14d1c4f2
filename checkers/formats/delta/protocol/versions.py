"""Rules about versions, their times, their row ids, and what ``commitInfo`` says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from checkers.evidence.history import Operation
from checkers.formats.delta.protocol.rules import BrokenProtocol
from checkers.formats.delta.records import MAPPING, MODES, DeltaCommit, DeltaLog, DeltaMetadata, mapped_columns
from checkers.timeline.timeline import set_back_to
from workloads.operations.kind import Verb
from workloads.operations.kinds import KINDS

SAYS: Mapping[Verb | str, frozenset[str]] = {
    "insert": frozenset({"WRITE"}),
    "update": frozenset({"UPDATE"}),
    "delete": frozenset({"DELETE"}),
    "merge": frozenset({"MERGE"}),
    "overwrite": frozenset({"WRITE"}),
    "stream-append": frozenset({"STREAMING UPDATE"}),
    "restore": frozenset({"RESTORE"}),
    "optimize": frozenset({"OPTIMIZE"}),
    "reorg-purge": frozenset({"REORG"}),
    "delta-add-column": frozenset({"ADD COLUMNS"}),
    "delta-rename-column": frozenset({"RENAME COLUMN"}),
    "delta-drop-column": frozenset({"DROP COLUMNS"}),
    "delta-set-property": frozenset({"SET TBLPROPERTIES"}),
}
"""What ``commitInfo.operation`` says of a kind of operation, or of all that have a verb."""
NEEDS: Mapping[str, str] = {
    "delta.enableDeletionVectors": "deletionVectors",
    "delta.enableRowTracking": "rowTracking",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
    "delta.enableChangeDataFeed": "changeDataFeed",
    MAPPING: "columnMapping",
}
"""Property of a table → the feature that it needs."""
WITH_FEATURES = 7
"""The writer version from which a protocol names its features."""
OPERATION_NOT_NAMED = "UNKNOWN"
"""What ``commitInfo.operation`` says if a client of delta-kernel-rs does not name it (``CommitInfo`` there)."""
WATERMARK = "rowIdHighWaterMark"
LARGEST_COLUMN = "delta.columnMapping.maxColumnId"


def numbered(log: DeltaLog) -> Iterator[BrokenProtocol]:
    """Versions that are not there, and those whose file was another one before, or cannot be read."""
    if log.metadata and log.metadata[0].version != 0:
        first = log.metadata[0].version
        yield BrokenProtocol("version-gap", f"the first version is {first}", (first,))
    for a, b in pairwise(log.metadata):
        if b.version != a.version + 1:
            text = f"version {b.version} follows version {a.version}"
            yield BrokenProtocol("version-gap", text, (a.version, b.version))
    for p in log.problems:
        if p.code == "written-over" and p.snapshot is not None:
            yield BrokenProtocol("version-replaced", p.why, (p.snapshot,), (p.file,) if p.file else ())
    for c in log.commits:
        for p in c.problems:
            if p.kind == "version":
                yield BrokenProtocol("version-unreadable", p.why, (c.snapshot_id,), (p.file,) if p.file else ())


def protocol(versions: Sequence[DeltaMetadata]) -> Iterator[BrokenProtocol]:
    """Actions that a version must have, or may have once only, and features that a table uses and does not name."""
    now: Mapping[str, Any] = {}
    ids: str | None = None
    for n, m in enumerate(versions):
        for name in ("protocol", "metaData", "commitInfo"):
            actions = [*m.of(name)]
            if len(actions) > 1:
                yield BrokenProtocol(
                    "protocol-twice", f"version {m.version} has {len(actions)} actions {name}", (m.version,)
                )
            if n == 0 and m.version == 0 and not actions and name != "commitInfo":
                yield BrokenProtocol("protocol-absent", f"version 0 has no action {name}", (0,))
        now = next(m.of("protocol"), now)
        metadata = next(m.of("metaData"), None)
        if metadata is not None:
            if ids is not None and metadata.get("id") != ids:
                text = f"version {m.version} gives the table the id {metadata.get('id')}, which was {ids}"
                yield BrokenProtocol("table-id-changed", text, (m.version,))
            ids = metadata.get("id")
        for text in _absent_features(m, now):
            yield BrokenProtocol("feature-absent", text, (m.version,))


def _absent_features(m: DeltaMetadata, now: Mapping[str, Any]) -> Iterator[str]:
    features = now.get("writerFeatures") or ()
    if any(f.get("deletionVector") for f in m.of("add")) and "deletionVectors" not in features:
        yield f"version {m.version} has a deletion vector, and the protocol's features are {', '.join(features) or 'none'}"
    if not [*m.of("metaData")]:
        return
    for name, feature in NEEDS.items():
        on = m.configuration.get(name) in ("true", *MODES)
        if on and (now.get("minWriterVersion") or 0) >= WITH_FEATURES and feature not in features:
            yield f"version {m.version} sets {name}, and the protocol does not name the feature {feature}"


def columns(versions: Sequence[DeltaMetadata]) -> Iterator[BrokenProtocol]:
    """With column mapping: columns without an id, and ids and physical names that another column has or had. A dropped column comes back with
    its own only by a RESTORE."""
    largest, had, ever = 0, set[int](), dict[int, str]()
    for m in versions:
        metadata = next(m.of("metaData"), None)
        if metadata is None:
            continue
        if m.configuration.get(MAPPING) not in MODES:
            largest, had, ever = 0, set(), {}
            continue
        now: dict[int, str] = {}
        for c in mapped_columns(metadata):
            text = ""
            if c.id is None:
                text = f"gives the column {c.name} no id"
            elif c.id in now or c.physical in now.values():
                text = (
                    f"gives the column {c.name} the id {c.id} and the physical name {c.physical}, which another one has"
                )
            elif ever.get(c.id, c.physical) != c.physical:
                text = f"gives the column {c.name} the physical name {c.physical}, and the id {c.id} was that of {ever[c.id]}"
            elif c.id not in ever and (c.id <= largest or c.physical in ever.values()):
                text = f"gives the new column {c.name} the id {c.id} and the physical name {c.physical}, and ids up to {largest} were given"
            elif c.id in ever and c.id not in had and m.info.get("operation") != "RESTORE":
                text = f"gives the column {c.name} the id {c.id} of a column that was dropped"
            if text:
                yield BrokenProtocol("column-mapping", f"version {m.version} {text}", (m.version,))
            if c.id is not None:
                now[c.id] = c.physical
        said = m.configuration.get(LARGEST_COLUMN, "")
        mark = int(said) if said.isascii() and said.isdecimal() else 0
        if mark < max([largest, *now]):
            text = f"version {m.version} says {LARGEST_COLUMN} {said or 'nothing'}, and ids up to {max([largest, *now])} were given"
            yield BrokenProtocol("column-mapping", text, (m.version,))
        largest, had, ever = max([largest, mark, *now]), {*now}, {**now, **ever}


def times(versions: Sequence[DeltaMetadata]) -> Iterator[BrokenProtocol]:
    """In-commit timestamps that are absent or do not increase."""
    before: tuple[int, int] | None = None
    for m in versions:
        if m.configuration.get("delta.enableInCommitTimestamps") != "true":
            before = None
            continue
        time = m.info.get("inCommitTimestamp")
        first = bool(m.actions) and "commitInfo" in m.actions[0]
        if not isinstance(time, int) or not first:
            text = (
                f"version {m.version} says no time"
                if not isinstance(time, int)
                else "its first action is no commitInfo"
            )
            yield BrokenProtocol("commit-time-absent", text, (m.version,))
            continue
        if before is not None and time <= before[1]:
            text = f"version {m.version} is of {time} ms, and version {before[0]} of {before[1]} ms"
            yield BrokenProtocol("commit-time-order", text, (before[0], m.version))
        before = m.version, time


def row_ids(log: DeltaLog) -> Iterator[BrokenProtocol]:
    """Row ids that files share, that are above the watermark, or that are not there."""
    mark, given = -1, dict[str, tuple[int, int, int]]()
    rows = {f.path: f.records for c in log.commits for f in c.added_files if f.role == "data"}
    for m in log.metadata:
        before = mark
        for domain in m.of("domainMetadata"):
            if domain.get("domain") == "delta.rowTracking":
                mark = _watermark(domain, mark)
        if mark < before:
            text = f"version {m.version} sets the high water mark of row ids to {mark}, and it was {before}"
            yield BrokenProtocol("row-id-watermark", text, (m.version,))
        if m.configuration.get("delta.enableRowTracking") != "true":
            continue
        for fields in m.of("add"):
            path, base = str(fields.get("path")), fields.get("baseRowId")
            if not isinstance(base, int) or not isinstance(fields.get("defaultRowCommitVersion"), int):
                yield BrokenProtocol(
                    "row-ids-absent", f"version {m.version} adds {path} without row ids", (m.version,), (path,)
                )
                continue
            last = base + rows.get(path, 1) - 1
            if last > mark:
                text = f"{path} of version {m.version} has row ids up to {last}, above the high water mark {mark}"
                yield BrokenProtocol("row-id-watermark", text, (m.version,), (path,))
            shared = next((p for p, (b, e, _) in given.items() if p != path and base <= e and b <= last), None)
            if shared is not None:
                text = f"{path} of version {m.version} has row ids from {base} to {last}, and {shared} from {given[shared][0]}"
                yield BrokenProtocol("row-ids-shared", text, (given[shared][2], m.version), (path, shared))
            given.setdefault(path, (base, last, m.version))


def _watermark(domain: Mapping[str, Any], otherwise: int) -> int:
    try:
        return int(json.loads(domain["configuration"])[WATERMARK])
    except (KeyError, TypeError, ValueError):
        return otherwise


def transactions(versions: Sequence[DeltaMetadata]) -> Iterator[BrokenProtocol]:
    """Transactions that made two versions, and applications whose version went back."""
    made: dict[str, int] = {}
    applications: dict[str, tuple[int, int]] = {}
    for m in versions:
        id = m.info.get("txnId")
        if isinstance(id, str):
            if id in made:
                text = f"versions {made[id]} and {m.version} are of the transaction {id}"
                yield BrokenProtocol("transaction-twice", text, (made[id], m.version))
            made[id] = m.version
        for txn in m.of("txn"):
            app, number = str(txn.get("appId")), txn.get("version")
            if not isinstance(number, int):
                continue
            if app in applications and number <= applications[app][0]:
                last, before = applications[app]
                text = f"version {m.version} says {number} of the application {app}, and version {before} said {last}"
                yield BrokenProtocol("application-version", text, (before, m.version))
            applications[app] = number, m.version


def provenance(log: DeltaLog, operations: Mapping[str, Operation]) -> Iterator[BrokenProtocol]:
    """``commitInfo`` against the operation that it names, and against the version."""
    commits = {c.metadata: c for c in log.commits}
    for m in log.metadata:
        info, c = m.info, commits.get(m.n)
        read = info.get("readVersion")
        if isinstance(read, int) and read >= m.version:
            yield BrokenProtocol("read-version", f"version {m.version} says that it read version {read}", (m.version,))
        if info.get("isBlindAppend") is True and (removed := [str(f.get("path")) for f in m.of("remove")]):
            text = f"version {m.version} says that it is a blind append, and removes {removed[0]}"
            yield BrokenProtocol("blind-append", text, (m.version,), tuple(removed[:1]))
        if c is None:
            continue
        back = next((r for r in c.added or () if r.by is not None), None)
        if back is not None and info.get("operation") != "RESTORE":
            text = f"version {m.version} makes the row at {back.pos} of {back.file} visible again, which {back.by} hid"
            yield BrokenProtocol("vector-grows-back", text, (m.version,), (back.file,))
        o = operations.get(c.op) if c.op is not None else None
        kind = KINDS.get(o.f) if o is not None else None
        said_operation = info.get("operation")
        says = None if kind is None else SAYS.get(kind.name) or SAYS.get(kind.verb)
        if o is not None and says is not None and said_operation not in (*says, OPERATION_NOT_NAMED):
            text = f"version {m.version} says {said_operation}, and {c.op} is {o.f}"
            yield BrokenProtocol("operation-unlike", text, (m.version,))
        asked = set_back_to(o) if o is not None and kind is not None and kind.restores else None
        restored = (info.get("operationParameters") or {}).get("version")
        if asked is not None and restored not in (None, asked, str(asked)):
            text = f"version {m.version} says that it restored version {restored}, and {c.op} asked for version {asked}"
            yield BrokenProtocol("operation-unlike", text, (m.version,))
        yield from _metrics(m, c)


COUNTED: Mapping[str, tuple[str, str]] = {"WRITE": ("numOutputRows", "added"), "DELETE": ("numDeletedRows", "removed")}
"""Operation → the metric that counts its rows, and which of a commit's rows these are."""


def _metrics(m: DeltaMetadata, c: DeltaCommit) -> Iterator[BrokenProtocol]:
    metric, which = COUNTED.get(str(m.info.get("operation")), ("", ""))
    counted = str((m.info.get("operationMetrics") or {}).get(metric, ""))
    rows = getattr(c, which, None) if which else None
    if counted.isdecimal() and rows is not None and int(counted) != len(rows) and not (which == "added" and c.removed):
        text = f"version {m.version} says {metric} {counted}, and {len(rows)} rows were {which}"
        yield BrokenProtocol("metrics-unlike", text, (m.version,))
