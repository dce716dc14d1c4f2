"""The ``metadata`` checker, on table logs drawn by hand: each rule kept, and each rule broken alone.

A drawing is a chain of versions; ``commit`` adds a snapshot and the version that shows it, ``version`` one without a snapshot. Then one
thing is bent, and exactly the rule that it breaks must be named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History
from checkers.evidence.problem import Problem, problem_of
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, MissingFile, ObjectSize, RowChange, TableLog
from checkers.formats.iceberg.metadata.checker import MOST_OF_A_NAME
from checkers.formats.iceberg.metadata.checker import MetadataRules as Checker
from checkers.formats.iceberg.metadata.rules import SPEC_RULES
from checkers.formats.iceberg.metadata.summaries import measures
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.judge.runfolder import load_evidence
from checkers.verdict import Verdict
from compose.objectstore import ObjectStore
from harness.tablefiles.iceberg.manifests import ADDED
from harness.tablefiles.iceberg.reader import TableReader
from tests.support.icebergtable import COLUMNS, HandMadeTable
from tests.support.simulator import ALTERING, Defects, simulate
from workloads.tables import TableSpec

SCHEMA: dict[str, Any] = {
    "schema-id": 0,
    "type": "struct",
    "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
}
PART = {"name": "part", "transform": "day", "source-id": 1, "field-id": 1000}
"""Of a transform that the checker does not compute: the log has no values of the partition column."""
S = 1_000_000_000


def data(path: str, records: int = 2, **more: Any) -> FileEntry:
    return FileEntry(
        path, "data", records, 100 * records, {"part": 0}, format="parquet", data_sequence_number=None, **more
    )


def vector(path: str, of: str, records: int = 1, offset: int = 4) -> FileEntry:
    return FileEntry(
        path,
        "deletion-vector",
        records,
        500,
        {"part": 0},
        of,
        format="puffin",
        data_sequence_number=None,
        offset=offset,
        length=40,
    )


def positions(path: str, of: str | None, records: int = 1) -> FileEntry:
    return FileEntry(
        path, "position-deletes", records, 300, {"part": 0}, of, format="parquet", data_sequence_number=None
    )


@dataclass
class Drawing:
    """A table log and a history, drawn. Times are seconds; every commit takes one, and is captured at once."""

    format_version: int = 3
    properties: Mapping[str, str] = field(default_factory=lambda: {"a": "1", "b": "2"})
    versions: list[Metadata] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    captures: list[Capture] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    missing: tuple[MissingFile, ...] = ()
    sizes: tuple[ObjectSize, ...] = ()
    problems: tuple[Problem, ...] = ()
    complete: bool = True
    torn: tuple[str, ...] = ()
    time: int = 0

    def __post_init__(self) -> None:
        raw = {
            "table-uuid": "u-1",
            "location": "s3://w/t",
            "last-column-id": 1,
            "last-partition-id": 1000,
            "current-schema-id": 0,
            "schemas": [SCHEMA],
            "partition-specs": [{"spec-id": 0, "fields": [PART]}],
            "default-spec-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": dict(self.properties),
            "metadata-log": [],
            **({"schema": SCHEMA, "partition-spec": [PART]} if self.format_version == 1 else {}),
        }
        self._put(
            Metadata(
                0,
                "s3://w/t/metadata/0.json",
                0,
                None,
                (),
                {},
                format_version=self.format_version,
                last_sequence_number=0,
                next_row_id=self._ids(0),
                raw=raw,
            )
        )

    def _ids(self, n: int) -> int | None:
        return n if self.format_version >= 3 else None

    def _put(self, m: Metadata) -> Metadata:
        self.versions.append(m)
        self.time += S
        self.captures.append(Capture(self.time, m.location))
        return m

    def event(
        self, type: Any, f: str, op: str, *, value: Any = None, process: int = 0, time: int | None = None
    ) -> None:
        self.events.append(
            Event(len(self.events), self.time if time is None else time, type, process, f, "t", value, op)
        )

    def op(self, f: str, op: str, *, value: Any = None, type: str = "ok") -> None:
        """An operation that is under way now."""
        self.event("invoke", f, op, value=value)
        self.time += S // 10
        self.event(type, f, op)

    def expiry(self, op: str, *, older_than: str, retain_last: int) -> None:
        """An expiry that is under way now, with its age."""
        self.event("invoke", "expire-snapshots", op, value={"retain_last": retain_last})
        self.events[-1] = replace(self.events[-1], extra={"older_than": older_than})
        self.time += S // 10
        self.event("ok", "expire-snapshots", op)

    def version(self, base: Metadata | None = None, **changes: Any) -> Metadata:
        """The next version: ``base`` (the newest) with ``changes``; keys of ``raw`` may be given as such, None drops one."""
        base = base or self.versions[-1]
        n = len(self.versions)
        fields = {k: v for k, v in changes.items() if k in Metadata.__struct_fields__}
        raw = {
            **base.raw,
            "metadata-log": [
                *base.raw["metadata-log"],
                {"timestamp-ms": base.last_updated_ms, "metadata-file": base.location},
            ],
        }
        for k, v in changes.items():
            if k not in Metadata.__struct_fields__:
                raw[k.replace("_", "-")] = v
        return self._put(
            replace(base, **{"n": n, "location": f"s3://w/t/metadata/{n}.json", "problems": (), "raw": raw, **fields})
        )

    def commit(
        self,
        id: int,
        *,
        add: Sequence[FileEntry] = (),
        remove: Sequence[FileEntry] = (),
        base: Metadata | None = None,
        drop: Sequence[int] = (),
        change: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Commit:
        """A snapshot on main by an operation of its own, and its version; ``fields`` override the commit's, ``change`` the version's."""
        base = base or self.versions[-1]
        op = f"op-{id}"
        seq = fields.pop("sequence_number", base.last_sequence_number + 1)
        rows = sum(f.records for f in add if f.content == "data")
        first = base.next_row_id or 0
        entries, at = [], first
        for f in add:
            own = replace(f, data_sequence_number=seq, file_sequence_number=seq, snapshot_id=id)
            if f.content == "data" and self.format_version >= 3:
                own, at = replace(own, first_row_id=at), at + f.records
            entries.append(own)
        c = Commit(
            id,
            fields.pop("parent_id", base.current),
            seq,
            1000 * seq,
            fields.pop(
                "operation",
                "overwrite" if remove or len(entries) != len([e for e in entries if e.content == "data"]) else "append",
            ),
            op,
            1,
            len(self.versions),
            (),
            (),
            summary=fields.pop("summary", {}),
            manifest_list=f"metadata/snap-{id}-1-x.avro",
            schema_id=0,
            added_files=tuple(fields.pop("added_files", entries)),
            removed_files=tuple(remove),
            first_row_id=fields.pop("first_row_id", self._ids(first)),
            added_rows=fields.pop("added_rows", self._ids(rows)),
        )
        c = replace(c, **fields)
        self.event("invoke", "insert", op, value={"ids": [id]})
        self.commits.append(c)
        new: dict[str, Any] = {
            "current": id,
            "snapshots": (*(s for s in base.snapshots if s not in drop), id),
            "refs": {**base.refs, "main": id},
            "last_sequence_number": seq,
            "next_row_id": self._ids(first + rows),
        }
        self.version(base, **{**new, **(change or {})})
        self.event("ok", "insert", op)
        return c

    def log(self) -> TableLog:
        return TableLog(
            "t",
            "c.n.t",
            "s3://w/t",
            ("id",),
            tuple(self.versions),
            tuple(self.commits),
            tuple(self.captures),
            self.complete,
            self.problems,
            self.missing,
            sizes=self.sizes,
        )

    def check(self) -> Verdict:
        history = History({"format": 1}, tuple(self.events), self.torn)
        return Checker().check(Evidence(history, {"t": self.log()}, {}))

    def names(self) -> list[str]:
        return sorted({a.name for a in self.check().anomalies})


A, B, C = data("data/a"), data("data/b"), data("data/c", 3)


def three(**more: Any) -> Drawing:
    """Three commits, all well."""
    d = Drawing(**more)
    d.commit(1, add=[A])
    d.commit(2, add=[B])
    d.commit(3, add=[C], remove=[A])
    return d


def bend(d: Drawing, n: int, **changes: Any) -> None:
    d.versions[n] = replace(d.versions[n], **changes)


def bend_commit(d: Drawing, n: int, **changes: Any) -> None:
    d.commits[n] = replace(d.commits[n], **changes)


# --- what is well is silent -------------------------------------------------------------------------------------------


def expired() -> Drawing:
    d = three()
    d.op("expire-snapshots", "e", value={"retain_last": 1})
    d.version(snapshots=(3,))
    d.commit(4, add=[data("data/d")])
    return d


def expired_by_an_unanswered_operation() -> Drawing:
    d = three()
    d.event("invoke", "expire-snapshots", "e", value={"retain_last": 1}, process=1)
    d.time += S
    d.version(snapshots=(3,))
    return d


def expired_by_an_operation_that_was_told_it_failed() -> Drawing:
    d = three()
    d.op("expire-snapshots", "e", value={"retain_last": 2}, type="fail")
    d.time += 50 * S
    d.version(snapshots=(2, 3))
    return d


def replaced_by_a_kind_that_is_not_known() -> Drawing:
    d = three()
    d.event("invoke", "create-or-replace", "r", process=1)
    d.commit(
        4,
        parent_id=None,
        schema_id=1,
        add=[data("data/d")],
        change={"properties": {}, "schemas": [{**SCHEMA, "schema-id": 1}], "current_schema_id": 1, "snapshots": (4,)},
    )
    d.event("ok", "create-or-replace", "r", process=1)
    return d


def rolled_back() -> Drawing:
    d = three()
    d.version(current=1, refs={"main": 1})
    d.commit(4, add=[data("data/d")])
    return d


def replace_reuses_a_sequence_number() -> Drawing:
    d = three()
    d.commit(4, parent_id=None, sequence_number=3, add=[data("data/d")], change={"last_sequence_number": 3})
    return d


def version_one() -> Drawing:
    d = Drawing(format_version=1)
    for id in (1, 2, 3):
        d.commit(id, add=[data(f"data/{id}")], sequence_number=0)
    return d


def upgraded() -> Drawing:
    d = Drawing(format_version=2)
    d.commit(1, add=[A])
    d.format_version = 3
    d.event("invoke", "upgrade", "u", value={})
    d.version(format_version=3, next_row_id=0)
    d.event("ok", "upgrade", "u")
    d.commit(2, add=[B], added_rows=4, change={"next_row_id": 4})  # the rows of the file from before get their ids now
    return d


def begins_late() -> Drawing:
    d = Drawing()
    d.versions.clear()
    d.captures.clear()
    first = Metadata(
        0,
        "s3://w/t/metadata/7.json",
        0,
        9,
        (8, 9),
        {"main": 9},
        (problem_of("metadata file s3://w/t/metadata/6.json is missing"),),
        format_version=3,
        last_sequence_number=9,
        next_row_id=40,
        raw={**Drawing().versions[0].raw, "metadata-log": [{"metadata-file": "s3://w/t/metadata/6.json"}]},
    )
    first.raw["properties"] = {"write.metadata.delete-after-commit.enabled": "true"}
    d._put(first)
    base = Commit(
        8,
        7,
        8,
        8,
        "append",
        None,
        1,
        0,
        None,
        None,
        (problem_of("its parent 7 was never seen"),),
        summary={},
        manifest_list="l8",
        schema_id=0,
        added_files=(),
        removed_files=(),
        first_row_id=30,
        added_rows=5,
    )
    d.commits += [
        replace(base),
        replace(base, snapshot_id=9, parent_id=8, sequence_number=9, first_row_id=35, manifest_list="l9"),
    ]
    d.commit(10, add=[A], problems=(problem_of("its parent 9 could not be read"),), added=None, removed=None)
    return d


def dvs() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A, B])
    one, two = vector("data/v1", A.path), vector("data/v2", A.path, 2)
    d.commit(2, add=[one])
    d.commit(3, add=[two], remove=[one])
    d.commit(4, remove=[A, two], operation="delete")
    return d


def dangling_position_deletes() -> Drawing:
    d = Drawing(format_version=2)
    d.commit(1, add=[A, B])
    d.commit(2, add=[positions("data/p", A.path)])
    d.commit(3, add=[C], remove=[A])
    return d


def summaries() -> Drawing:
    d = Drawing()
    d.commit(
        1,
        add=[A, B],
        summary={"added-data-files": "2", "added-records": "4", "total-records": "4", "total-data-files": "2"},
    )
    v = vector("data/v", A.path)
    d.commit(
        2,
        add=[v],
        summary={"added-dvs": "1", "added-files-size": "40", "total-position-deletes": "1", "total-files-size": "440"},
    )
    d.commit(
        3,
        remove=[A, v],
        operation="delete",
        summary={"deleted-data-files": "1", "removed-dvs": "1", "total-records": "2", "changed-partition-count": "9"},
    )
    return d


def only_the_current_snapshot_is_listed() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[B], drop=[1])
    d.commit(3, add=[C], drop=[2])
    return d


def no_metadata_log() -> Drawing:
    d = three()
    for n, m in enumerate(d.versions):
        bend(d, n, raw={k: v for k, v in m.raw.items() if k != "metadata-log"})
    return d


def schemes_differ() -> Drawing:
    d = three()
    for n, m in enumerate(d.versions):
        if n % 2:
            bend(d, n, location=m.location.replace("s3://", "s3a://"))
    return d


def with_column(d: Drawing, op: str, *, type: str = "int") -> dict[str, Any]:
    """The current schemas and one with a column that the operation added."""
    schemas = d.versions[-1].raw["schemas"]
    column = {"id": 2, "name": "extra_1", "type": type, "doc": op, "required": False}
    new = {**SCHEMA, "schema-id": len(schemas), "fields": [*SCHEMA["fields"], column]}
    return {"schemas": [*schemas, new], "current-schema-id": len(schemas), "last-column-id": 2}


def altered() -> Drawing:
    """Every change of the metadata, each acknowledged, and a commit after them."""
    d = three()
    d.event("invoke", "add-column", "c", value={"column": "extra_1"})
    d.version(**with_column(d, "c"))
    d.event("ok", "add-column", "c")
    d.event("invoke", "widen-column", "w", value={"column": "extra_1"})
    d.version(**with_column(d, "c", type="long"))
    d.event("ok", "widen-column", "w")
    for op in ("p", "q"):
        d.event("invoke", "set-property", op, value={"property": "icequake.p0"})
        d.version(properties={"a": "1", "b": "2", "icequake.p0": op})
        d.event("ok", "set-property", op)
    d.op("upgrade", "u", value={})  # changes nothing
    d.commit(4, add=[data("data/d")])
    return d


def with_columns(d: Drawing, **ids: int) -> dict[str, Any]:
    """The current schemas and one with the columns of the first one and these."""
    schemas, last = d.versions[-1].raw["schemas"], d.versions[-1].raw["last-column-id"]
    more = [{"id": id, "name": name, "type": "int", "required": False} for name, id in ids.items()]
    new = {**SCHEMA, "schema-id": len(schemas), "fields": [*SCHEMA["fields"], *more]}
    last = max(last, *ids.values(), 1)
    return {"schemas": [*schemas, new], "current-schema-id": len(schemas), "last-column-id": last}


def reshaped() -> Drawing:
    """A column is added, dropped, added again, and gets another name."""
    d = three()
    for f, op, value, columns in (
        ("add-column", "a", {"column": "extra_1"}, {"extra_1": 2}),
        ("drop-column", "b", {"column": "extra_1"}, {}),
        ("add-column", "c", {"column": "extra_1"}, {"extra_1": 3}),
        ("rename-column", "d", {"column": "extra_1", "to": "extra_2"}, {"extra_2": 3}),
        ("add-column", "e", {"column": "extra_1"}, {"extra_2": 3, "extra_1": 4}),
    ):
        d.event("invoke", f, op, value=value)
        d.version(**with_columns(d, **columns))
        d.event("ok", f, op)
    d.commit(4, add=[data("data/d")])
    return d


def upgraded_by_an_operation() -> Drawing:
    d = three(format_version=2)
    d.event("invoke", "upgrade", "u", value={})
    d.version(format_version=3, next_row_id=0)
    d.event("ok", "upgrade", "u")
    return d


def expired_young_because_its_child_is_old() -> Drawing:
    """The clock of snapshot 3's writer is behind: the walk over main ends there (``RemoveSnapshots``)."""
    d = three()
    d.commit(4, add=[data("data/d")])
    bend_commit(d, 2, timestamp_ms=1)
    d.expiry("e", older_than="1970-01-01 00:00:01.500", retain_last=1)
    d.version(snapshots=(4,))
    return d


def expired_by_age() -> Drawing:
    d = three()
    d.expiry("e", older_than="1970-01-01 00:00:02.000", retain_last=1)
    d.version(snapshots=(2, 3))
    return d


def with_logs(**more: Any) -> Drawing:
    """Three commits with a snapshot log; the log of metadata has two lines at most."""
    d = Drawing(properties={"write.metadata.previous-versions-max": "2"}, **more)
    bend(d, 0, raw={**d.versions[0].raw, "snapshot-log": []})
    for id, f in ((1, A), (2, B), (3, C)):
        d.commit(id, add=[f], change=next_logs(d, id))
    return d


def next_logs(d: Drawing, *current: int, gone: int = 0) -> dict[str, Any]:
    """The logs of the next version: the newest's, without the first ``gone`` snapshots, and one line more."""
    last = d.versions[-1]
    return {
        "metadata-log": [*last.raw["metadata-log"], {"timestamp-ms": 0, "metadata-file": last.location}][-2:],
        "snapshot-log": [*last.raw["snapshot-log"], *({"timestamp-ms": 0, "snapshot-id": s} for s in current)][gone:],
    }


def logs_after_expiry_and_rollback() -> Drawing:
    d = with_logs()
    d.event("invoke", "rollback", "b", value={"back": 1})
    d.version(current=2, refs={"main": 2}, **next_logs(d, 2))
    d.event("ok", "rollback", "b")
    d.expiry("e", older_than="1970-01-01 00:00:09.000", retain_last=1)
    d.version(snapshots=(2,), **next_logs(d, gone=3))
    d.op("property", "of a kind that is not known")
    return d


def staged_then_published() -> Drawing:
    d = with_logs()
    d.commit(
        4, add=[data("data/d")], summary={"wap.id": "op-4"}, change={"current": 3, "refs": {"main": 3}, **next_logs(d)}
    )
    d.version(current=4, refs={"main": 4}, **next_logs(d, 4))
    return d


def on_a_branch() -> Drawing:
    d = three()
    d.op("create-branch", "b")  # of a kind that is not known
    d.version(refs={"main": 3, "audit": 3})
    d.event("invoke", "fast-forward", "f", process=1)
    d.commit(4, add=[data("data/d")], change={"current": 3, "refs": {"main": 3, "audit": 4}})
    d.event("ok", "fast-forward", "f", process=1)
    return d


def nessie_says_its_commit() -> Drawing:
    d = three()
    for n in range(4):
        said = {**d.versions[n].raw["properties"], "nessie.commit.id": f"hash-{n}"}
        bend(d, n, raw={**d.versions[n].raw, "properties": said})
    return d


def releases_differ_in_what_they_write() -> Drawing:
    """Null or absent, an empty list or none, one source or a list of one, a space in a type's name."""
    d = three()
    first = {**SCHEMA, "identifier-field-ids": [], "fields": [{**SCHEMA["fields"][0], "type": "decimal(9, 2)"}]}
    other = {**SCHEMA, "fields": [{**SCHEMA["fields"][0], "type": "decimal(9,2)", "doc": None}]}
    spec = {"name": "part", "transform": "identity", "field-id": 1000}
    forms: list[tuple[Any, Any]] = [(first, {**spec, "source-id": 1}), (other, {**spec, "source-ids": [1]})]
    for n in range(4):
        schema, field = forms[n % 2]
        raw = {**d.versions[n].raw, "schemas": [schema], "partition-specs": [{"spec-id": 0, "fields": [field]}]}
        bend(d, n, raw=raw | ({"statistics": []} if n % 2 else {}))
    return d


def statistics_leave_with_their_snapshot() -> Drawing:
    d = three()
    d.op("analyze", "s")  # of a kind that is not known
    d.version(statistics=[{"snapshot-id": 1, "statistics-path": "x"}, {"snapshot-id": 3, "statistics-path": "y"}])
    d.expiry("e", older_than="1970-01-01 00:00:09.000", retain_last=1)
    d.version(snapshots=(3,), statistics=[{"snapshot-id": 3, "statistics-path": "y"}])
    return d


def a_schema_change_rewrites_the_name_mapping() -> Drawing:
    d = Drawing(properties={"schema.name-mapping.default": "[id]"})
    d.event("invoke", "add-column", "c", value={"column": "extra_1"})
    d.version(**with_column(d, "c"), properties={"schema.name-mapping.default": "[id, extra_1]"})
    d.event("ok", "add-column", "c")
    return d


WELL: list[Callable[[], Drawing]] = [
    three,
    expired,
    expired_by_an_unanswered_operation,
    expired_by_an_operation_that_was_told_it_failed,
    replaced_by_a_kind_that_is_not_known,
    rolled_back,
    replace_reuses_a_sequence_number,
    version_one,
    upgraded,
    upgraded_by_an_operation,
    altered,
    reshaped,
    begins_late,
    dvs,
    dangling_position_deletes,
    summaries,
    only_the_current_snapshot_is_listed,
    no_metadata_log,
    schemes_differ,
    expired_young_because_its_child_is_old,
    expired_by_age,
    with_logs,
    logs_after_expiry_and_rollback,
    staged_then_published,
    on_a_branch,
    nessie_says_its_commit,
    releases_differ_in_what_they_write,
    statistics_leave_with_their_snapshot,
    a_schema_change_rewrites_the_name_mapping,
]


@pytest.mark.parametrize("drawing", WELL, ids=lambda d: str(d.__name__))
def test_what_keeps_the_rules_is_silent(drawing: Callable[[], Drawing]) -> None:
    v = drawing().check()
    assert [(a.name, a.explanation) for a in v.anomalies] == []
    assert v.valid is True, v.notes


def test_dangling_position_deletes_are_counted() -> None:
    assert dangling_position_deletes().check().stats["tables"]["t"]["dangling_position_delete_files"] == 1


@pytest.mark.parametrize(("schema", "count"), [(0, 1), (1, 0)])
def test_a_snapshot_that_was_made_before_a_schema_change_and_committed_after_it_is_counted(
    schema: int, count: int
) -> None:
    """A REST catalog compares main only, so the commit of such a snapshot is not refused."""
    d = three()
    d.event("invoke", "add-column", "c", value={"column": "extra_1"})
    d.version(**with_column(d, "c"))
    d.event("ok", "add-column", "c")
    d.commit(4, add=[data("data/d")], schema_id=schema)
    v = d.check()
    assert not v.anomalies
    assert v.stats["tables"]["t"].get("of_an_older_schema", 0) == count


# --- each rule, broken ------------------------------------------------------------------------------------------------


def fork() -> Drawing:
    d = three()
    base = d.versions[1]
    d.commit(4, base=base, add=[data("data/d")])
    return d


LOOSE = "the pointer was at s3://w/t/metadata/3.json (metadata 3); this version does not descend from it, but from no version seen before"


def fork_seen_by_the_reader_only() -> Drawing:
    d = three()
    d.commit(4, add=[data("data/d")])
    for n, m in enumerate(d.versions):
        bend(d, n, raw={k: v for k, v in m.raw.items() if k != "metadata-log"})
    bend(d, 4, problems=(problem_of(LOOSE),))
    return d


def set_back() -> Drawing:
    d = three()
    d._put(
        replace(
            d.versions[2],
            n=4,
            problems=(problem_of("the pointer was at … this version does not descend from it, but …"),),
        )
    )
    return d


def missing_metadata_file() -> Drawing:
    d = three()
    d.version(problems=(problem_of("metadata file s3://w/t/metadata/3b.json is missing"),))
    return d


def pointer_leads_nowhere() -> Drawing:
    return three(problems=(problem_of("the pointer leads nowhere: metadata file s3://w/t/metadata/9.json is missing"),))


def corrupt_metadata_file() -> Drawing:
    d = three()
    d.version(problems=(problem_of("metadata file s3://w/t/metadata/3b.json is corrupt: not JSON"),))
    return d


def metadata_log_mismatch() -> Drawing:
    d = three()
    bend(
        d,
        3,
        problems=(
            problem_of(
                "its metadata-log says that it follows s3://w/t/x.json, the chain says s3://w/t/metadata/2.json"
            ),
        ),
    )
    return d


def snapshot_changed() -> Drawing:
    d = three()
    bend(d, 3, problems=(problem_of("tells snapshot 2 differently than the version that first showed it"),))
    return d


def table_uuid_changed() -> Drawing:
    d = three()
    d.version(table_uuid="u-2")
    return d


def format_version_decreased() -> Drawing:
    d = three()
    d.version(format_version=2)
    return d


def last_column_id_decreased() -> Drawing:
    d = three()
    d.version(last_column_id=0)
    return d


def last_sequence_number_too_low() -> Drawing:
    d = three()
    d.commit(4, add=[data("data/d")], sequence_number=5, change={"last_sequence_number": 4})
    return d


def duplicate_snapshot() -> Drawing:
    d = three()
    d.version(snapshots=(1, 2, 3, 3))
    return d


def sequence_number_of_its_parent() -> Drawing:
    d = three()
    d.commit(4, add=[data("data/d")], sequence_number=3, change={"last_sequence_number": 4})
    return d


def duplicate_sequence_number() -> Drawing:
    d = three()
    d.commit(4, add=[data("data/d")], parent_id=2, sequence_number=3)
    return d


def dangling_main() -> Drawing:
    d = three()
    bend(d, 2, current=77, refs={"main": 77})
    return d


def main_is_not_current() -> Drawing:
    d = three()
    bend(d, 3, refs={"main": 2})
    return d


def unknown_parent() -> Drawing:
    d = three()
    d.commit(
        4,
        parent_id=99,
        added=None,
        removed=None,
        problems=(problem_of("its parent 99 was never seen; needed by snapshot 4 (op op-4)"),),
    )
    return d


def parent_outside_the_chain() -> Drawing:
    d = three()
    d.commit(4, add=[data("data/d")], parent_id=3)
    ghost = replace(
        d.commits[3],
        snapshot_id=50,
        op="op-50",
        added_files=(),
        added_rows=0,
        sequence_number=4,
        manifest_list="metadata/snap-50-1-x.avro",
        problems=(
            problem_of(
                "snapshot 50 (op op-50) is in no version of the metadata chain, only in s3://w/t/metadata/x.json"
            ),
        ),
    )
    d.commits[3:] = [ghost, replace(d.commits[3], parent_id=50, sequence_number=5)]
    bend(d, 4, last_sequence_number=5)
    bend_commit(d, 4, added_files=())
    return d


def vanished_snapshot() -> Drawing:
    d = three()
    d.commit(4, add=[data("data/d")], drop=[2])
    return d


def vanished_before_the_expiry() -> Drawing:
    d = three()
    d.commit(4, add=[data("data/d")], drop=[1])
    d.commit(5, add=[data("data/e")])
    d.time += S
    d.op("expire-snapshots", "late", value={"retain_last": 1})
    return d


def retention() -> Drawing:
    d = three()
    d.op("expire-snapshots", "e", value={"retain_last": 2})
    d.version(snapshots=(3,))
    return d


def vanished_ref() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.op("create-tag", "tag")
    d.version(refs={"main": 1, "tag": 1})
    d.commit(2, add=[B])
    d.commit(3, add=[C])
    d.commit(4, add=[data("data/d")], change={"refs": {"main": 4}})
    return d


def vanished_schema() -> Drawing:
    d = three()
    more = {**SCHEMA, "schema-id": 1, "fields": [*SCHEMA["fields"], {"id": 2, "name": "val", "type": "string"}]}
    for n in range(4):
        bend(d, n, raw={**d.versions[n].raw, "last-column-id": 2})
    for n in range(3):
        bend(d, n, raw={**d.versions[n].raw, "schemas": [SCHEMA, more], "current-schema-id": 1})
    return d


def vanished_partition_spec() -> Drawing:
    d = three()
    d.version(partition_specs=[])
    return d


def vanished_property() -> Drawing:
    d = three()
    d.version(properties={"a": "1"})
    return d


def property_that_is_what_it_was() -> Drawing:
    d = three()
    d.event("invoke", "set-property", "p", process=1)
    d.version(properties={"a": "9", "b": "2"})
    d.event("ok", "set-property", "p", process=1)
    d.commit(4, add=[data("data/d")])
    d.commit(5, add=[data("data/e")], change={"properties": {"a": "1", "b": "2"}})
    return d


def column_that_never_was() -> Drawing:
    d = altered()
    d.op("add-column", "lost", value={"column": "extra_2"})
    d.version()
    return d


def column_of_somebody_else() -> Drawing:
    """The column was lost on the way and added a second time: two acknowledged statements added one column."""
    d = altered()
    d.op("add-column", "lost", value={"column": "extra_1"})
    d.version()
    return d


def type_that_never_was() -> Drawing:
    d = three()
    d.op("add-column", "c", value={"column": "extra_1"})
    d.version(**with_column(d, "c"))
    d.op("widen-column", "lost", value={"column": "extra_1"})
    d.version()
    return d


def renaming_that_never_was() -> Drawing:
    d = altered()
    d.op("rename-column", "lost", value={"column": "extra_1", "to": "extra_2"})
    d.version()
    return d


def end_of_a_column_that_never_was() -> Drawing:
    d = altered()
    d.op("drop-column", "lost", value={"column": "extra_1"})
    d.version()
    return d


def column_that_never_was_and_could_have_been_dropped() -> Drawing:
    """It is not there at the end, as it would be after the DROP; but no version has it with the comment of the statement that added it."""
    d = altered()
    d.op("add-column", "lost", value={"column": "extra_3"})
    d.op("drop-column", "x", value={"column": "extra_3"})
    d.version()
    return d


def another_column_than_the_dropped_one_vanished() -> Drawing:
    d = three()
    for n, columns in ((1, {"extra_1": 2}), (2, {"extra_1": 2, "extra_2": 3})):
        d.event("invoke", "add-column", f"a{n}", value={"column": f"extra_{n}"})
        d.version(**with_columns(d, **columns))
        d.event("ok", "add-column", f"a{n}")
    d.event("invoke", "drop-column", "x", value={"column": "extra_1"})
    d.version(**with_columns(d))
    d.event("ok", "drop-column", "x")
    return d


def property_that_never_was() -> Drawing:
    d = altered()
    d.op("set-property", "lost", value={"property": "icequake.p1"})
    d.version()
    return d


def property_that_an_older_one_overwrote() -> Drawing:
    d = three()
    for op, held in (("p", "p"), ("lost", "p")):
        d.event("invoke", "set-property", op, value={"property": "icequake.p0"})
        d.version(properties={"a": "1", "b": "2", "icequake.p0": held})
        d.event("ok", "set-property", op)
    d.version()
    return d


def upgrade_that_never_was() -> Drawing:
    d = three(format_version=2)
    d.op("upgrade", "lost", value={})
    d.version()
    return d


def missing_data_file() -> Drawing:
    return three(missing=(MissingFile("data/b", (2, 3)),))


def missing_when_it_was_read() -> Drawing:
    d = three()
    bend_commit(
        d,
        2,
        added=None,
        problems=(problem_of("data file (of snapshot 2) data/b is missing; needed by snapshot 3 (op op-3)"),),
    )
    return d


def corrupt_file() -> Drawing:
    d = three()
    bend_commit(
        d,
        2,
        added=None,
        problems=(problem_of("manifest metadata/m.avro is corrupt: torn; needed by snapshot 3 (op op-3)"),),
    )
    return d


def path_twice() -> Drawing:
    d = three()
    d.commit(4, add=[B])
    return d


def path_twice_told_by_the_reader() -> Drawing:
    d = three()
    bend_commit(d, 1, violations=("duplicate-path: data/a is live twice (manifest metadata/m.avro)",))
    return d


def two_vectors() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[vector("data/v1", A.path)])
    d.commit(3, add=[vector("data/v2", A.path)])
    return d


def two_vectors_in_one_file() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[vector("data/v", A.path, offset=4), vector("data/v", A.path, offset=44)])
    return d


def vector_of_a_dead_file() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[vector("data/v1", A.path)])
    d.commit(3, add=[B], remove=[A])
    return d


def position_deletes_in_v3() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[positions("data/p", A.path)])
    return d


def vector_added_to_a_dead_file() -> Drawing:
    d = three()
    d.commit(4, add=[vector("data/v1", A.path)])
    return d


def summary_says_more() -> Drawing:
    d = summaries()
    bend_commit(d, 0, summary={"added-records": "5"})
    return d


def wrong_total_is_told_once() -> Drawing:
    d = summaries()
    for n in range(3):
        bend_commit(d, n, summary={"total-data-files": "77"})
    return d


def append_that_removes() -> Drawing:
    d = three()
    bend_commit(d, 2, operation="append")
    return d


def delete_that_adds() -> Drawing:
    d = three()
    bend_commit(d, 2, operation="delete", summary={"added-data-files": "1"})
    return d


def file_sequence_number() -> Drawing:
    d = three()
    bend_commit(d, 1, added_files=(replace(d.commits[1].added_files[0], file_sequence_number=1),))
    return d


def no_first_row_id() -> Drawing:
    d = three()
    bend_commit(d, 2, first_row_id=None)
    return d


def stale_first_row_id() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, first_row_id=1, added_rows=0)
    return d


def row_ids_overlap() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, first_row_id=2, added_rows=5, change={"next_row_id": 9})
    own = {"snapshot_id": 3, "parent_id": 2, "sequence_number": 3, "manifest_list": "metadata/snap-3-1-x.avro"}
    both = replace(d.commits[1], **own, first_row_id=5, added_rows=4)
    d.commits.append(both)  # one version shows both
    bend(d, 2, snapshots=(1, 2, 3), current=3, refs={"main": 3}, last_sequence_number=3)
    return d


def told_a_row_id_in_use() -> Drawing:
    """The second snapshot assigns ids that its version's next-row-id does not count; the third begins there, as it has to."""
    d = Drawing()
    d.commit(1, add=[A])
    n = d.versions[-1].next_row_id or 0
    d.commit(2, first_row_id=n + 1, added_rows=1, change={"next_row_id": n})
    d.commit(3, first_row_id=n, added_rows=3, change={"next_row_id": n + 3})
    return d


def next_row_id_too_low() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A], change={"next_row_id": 1})
    return d


def next_row_id_decreased() -> Drawing:
    d = three()
    d.version(next_row_id=1)
    return d


def file_outside_the_range() -> Drawing:
    d = three()
    bend_commit(d, 1, added_files=(replace(d.commits[1].added_files[0], first_row_id=0),))
    return d


def retention_by_age() -> Drawing:
    d = three()
    d.expiry("e", older_than="1970-01-01 00:00:02.000", retain_last=1)
    d.version(snapshots=(3,))
    return d


def retention_of_an_unreferenced_one() -> Drawing:
    d = three()
    d.version(current=2, refs={"main": 2})
    d.expiry("e", older_than="1970-01-01 00:00:03.000", retain_last=2)
    d.version(snapshots=(1, 2))
    return d


def main_left_at_the_parent() -> Drawing:
    d = three()
    d.commit(4, add=[data("data/d")], change={"current": 3, "refs": {"main": 3}})
    d.commit(5, add=[data("data/e")], parent_id=4)
    return d


def bent(part: str, name: str, **raw: Any) -> tuple[str, Callable[[], Drawing]]:
    """Version 2 says something else, and so do the later ones: told once."""

    def drawing() -> Drawing:
        d = three()
        for n in (2, 3):
            bend(d, n, raw={**d.versions[n].raw, **{k.replace("_", "-"): v for k, v in raw.items()}})
        return d

    drawing.__name__ = part
    return name, drawing


def column(**changes: Any) -> list[Any]:
    return [{**SCHEMA, "fields": [{**SCHEMA["fields"][0], **changes}]}]


CONTENTS = [
    bent("a_type_changed_in_place", "schema-changed", schemas=column(type="int")),
    bent("a_column_renamed_in_place", "schema-changed", schemas=column(name="ident")),
    bent("a_column_required_in_place", "schema-changed", schemas=column(required=True)),
    bent("a_schema_by_nobody", "schema-changed", schemas=[SCHEMA, {**SCHEMA, "schema-id": 1}]),
    bent("a_spec_in_place", "partition-spec-changed", partition_specs=[{"spec-id": 0, "fields": [{"name": "x"}]}]),
    bent(
        "a_default_spec_by_nobody",
        "partition-spec-changed",
        partition_specs=[{"spec-id": 0, "fields": [PART]}, {"spec-id": 1, "fields": [{"name": "x"}]}],
        default_spec_id=1,
    ),
    bent("a_sort_order_by_nobody", "sort-order-changed", sort_orders=[{"order-id": n, "fields": []} for n in (0, 1)]),
    bent("a_property_by_nobody", "property-changed", properties={"a": "1", "b": "2", "c": "3"}),
    bent("another_value", "property-changed", properties={"a": "9", "b": "2"}),
    bent("no_properties", "vanished-property", properties=None),
    bent("moved_by_nobody", "location-changed", location="s3://w/elsewhere"),
    bent("statistics_by_nobody", "statistics-changed", statistics=[{"snapshot-id": 1, "statistics-path": "x"}]),
    bent("no_uuid", "missing-field", table_uuid=None),
    bent("no_schemas", "missing-field", schemas=None),
]


def format_version_by_nobody() -> Drawing:
    d = three()
    d.version(format_version=4)
    return d


def no_next_row_id() -> Drawing:
    d = three()
    d.version(next_row_id=None)
    return d


def tag_that_moved() -> Drawing:
    d = vanished_ref()
    bend(d, 3, refs={"main": 2, "tag": 2})
    bend(d, 4, refs={"main": 3, "tag": 2})
    bend(d, 5, refs={"main": 4, "tag": 2})
    return d


def schema_id_of_nothing() -> Drawing:
    d = three()
    bend_commit(d, 1, schema_id=7)
    return d


def current_schema_of_nothing() -> Drawing:
    d = three()
    for n in range(4):
        bend(d, n, raw={**d.versions[n].raw, "current-schema-id": 7})
    return d


def field_id_twice() -> Drawing:
    d = three()
    for n in range(4):
        bend(d, n, raw={**d.versions[n].raw, "schemas": [{**SCHEMA, "fields": [*SCHEMA["fields"], *SCHEMA["fields"]]}]})
    return d


def field_id_too_high() -> Drawing:
    d = three()
    for n in range(4):
        bend(
            d,
            n,
            raw={
                **d.versions[n].raw,
                "schemas": [{**SCHEMA, "fields": [*SCHEMA["fields"], {"id": 2, "name": "more"}]}],
            },
        )
    return d


def log_bent(name: str, log: str, change: Callable[[list[Any]], list[Any]]) -> Callable[[], Drawing]:
    """The log of version 3 alone is bent; version 4 goes on with the right one."""

    def drawing() -> Drawing:
        d = with_logs()
        d.commit(4, add=[data("data/d")], change=next_logs(d, 4))
        bend(d, 3, raw={**d.versions[3].raw, log: change(d.versions[3].raw[log])})
        return d

    drawing.__name__ = name
    return drawing


LOGS = [
    ("metadata-log-mismatch", log_bent("metadata_log_empty", "metadata-log", lambda x: [])),
    ("metadata-log-mismatch", log_bent("metadata_log_cut", "metadata-log", lambda x: x[1:])),
    ("metadata-log-mismatch", log_bent("metadata_log_doubled", "metadata-log", lambda x: [x[-1], *x])),
    ("snapshot-log", log_bent("snapshot_log_empty", "snapshot-log", lambda x: [])),
    ("snapshot-log", log_bent("snapshot_log_without_its_last", "snapshot-log", lambda x: x[:-1])),
    ("snapshot-log", log_bent("snapshot_log_with_a_hole", "snapshot-log", lambda x: [x[0], x[2]])),
    ("snapshot-log", log_bent("snapshot_log_reversed", "snapshot-log", lambda x: x[::-1])),
    (
        "snapshot-log",
        log_bent("snapshot_log_of_strangers", "snapshot-log", lambda x: [{**x[0], "snapshot-id": 9}, *x[1:]]),
    ),
]


# --- what comes back, evolves, and has a time ----------------------------------------------------------------------------


def expired_snapshot_that_is_back() -> Drawing:
    d = expired()
    d.commit(5, add=[data("data/e")], change={"snapshots": (1, 3, 4, 5)})
    d.commit(6, add=[data("data/f")], change={"snapshots": (3, 4, 5, 6)})  # gone again, as is due
    return d


def _altered(f: str, value: Any, **changes: Any) -> Drawing:
    d = three()
    d.event("invoke", f, "alter", value=value, process=1)
    d.version(**changes)
    d.event("ok", f, "alter", process=1)
    d.commit(4, add=[data("data/d")])
    return d


def _evolved(type: str, required: bool) -> Drawing:
    column = {**SCHEMA["fields"][0], "type": type, "required": required}
    more = {"id": 2, "name": "extra", "type": "int", "required": False, "doc": "alter"}
    schemas = [SCHEMA, {**SCHEMA, "schema-id": 1, "fields": [column, more]}]
    return _altered("add-column", {"column": "extra"}, schemas=schemas, current_schema_id=1, last_column_id=2)


def column_narrowed() -> Drawing:
    return _evolved("int", False)


def column_required() -> Drawing:
    return _evolved("long", True)


def property_that_it_does_not_set() -> Drawing:
    properties = {"a": "1", "b": "other", "icequake.p0": "alter"}
    return _altered("set-property", {"property": "icequake.p0"}, properties=properties)


def last_sequence_number_of_nobody() -> Drawing:
    d = three()
    d.commit(4, add=[data("data/d")], change={"last_sequence_number": 9})
    d.commit(5, add=[data("data/e")])
    return d


def partition_of_no_spec() -> Drawing:
    d = three()
    d.commit(4, add=[replace(data("data/d"), partition={})])
    return d


YEAR = 365 * 24 * 3600 * 1000
"""In ms."""


def _timed(
    time: Callable[[int, int], int],
    updated: Callable[[int], int] = lambda n: 1000 * n,
    stamped: Callable[[int], int] | None = None,
) -> Drawing:
    """Five commits with a snapshot-log.

    Args:
        time: (version, entry from 1) → what the version says of the entry, in ms.
        updated: version → its ``last-updated-ms``.
        stamped: version → its snapshot's ``timestamp-ms``, by default that of its entry.
    """
    d = Drawing()
    for n in range(1, 6):
        entries = [{"timestamp-ms": time(n, k), "snapshot-id": k} for k in range(1, n + 1)]
        change = {"snapshot_log": entries, "last_updated_ms": updated(n)}
        d.commit(n, add=[data(f"data/{n}")], change=change, timestamp_ms=time(n, n) if stamped is None else stamped(n))
    return d


def entry_of_another_time() -> Drawing:
    return _timed(lambda n, k: 1000 * k + (5 if (n, k) == (3, 1) else 0))


def version_before_its_log() -> Drawing:
    return _timed(lambda n, k: 100_000 * k, lambda n: 100_000 * n - (60_001 if n == 3 else 0))


def snapshot_a_year_before_its_entry() -> Drawing:
    return _timed(lambda n, k: YEAR * 50 + k, lambda n: YEAR * 50 + n, lambda n: YEAR * (49 if n == 3 else 50) + n)


def snapshot_a_year_after_its_entry() -> Drawing:
    return _timed(lambda n, k: YEAR * 50 + k, lambda n: YEAR * 50 + n, lambda n: YEAR * (51 if n == 3 else 50) + n)


def entry_half_a_minute_early(copied: bool = True) -> Drawing:
    """Of version 3; the versions after it copy the entry, or do not."""

    def time(n: int, k: int) -> int:
        return 100_000 * k - (30_000 if k == 3 and (copied or n == 3) else 0)

    return _timed(time, lambda n: 100_000 * n, lambda n: 100_000 * n)


def entry_half_a_minute_early_in_its_own_version_only() -> Drawing:
    return entry_half_a_minute_early(copied=False)


def entry_a_year_ahead() -> Drawing:
    return _timed(lambda n, k: 1000 * k + (YEAR if k == 3 else 0), stamped=lambda n: 1000 * n)


def version_a_year_ahead() -> Drawing:
    d = _timed(lambda n, k: 1000 * k)
    bend(d, 3, last_updated_ms=3000 + YEAR)
    return d


def entry_of_the_version_before_of_another_time() -> Drawing:
    d = _timed(lambda n, k: 1000 * k)
    log = d.versions[4].raw["metadata-log"]
    entry = {**log[-1], "timestamp-ms": log[-1]["timestamp-ms"] + 5}
    for n in (4, 5):
        log = d.versions[n].raw["metadata-log"]
        bend(d, n, raw={**d.versions[n].raw, "metadata-log": [*log[:3], entry, *log[4:]]})
    return d


def well_timed() -> Drawing:
    """Clocks that differ by less than a minute."""
    return _timed(lambda n, k: 100_000 - 59_000 * (k % 2), lambda n: 100_000 - 59_000 * (n % 2))


def server_an_hour_ahead() -> Drawing:
    """The catalog's clock stamps versions, those of writers snapshots."""
    return _timed(lambda n, k: 1000 * k, lambda n: 1000 * n + 3_600_000)


def server_that_stamps_entries() -> Drawing:
    """As the specification says: the time of the version, which its own clock makes."""
    return _timed(lambda n, k: 1000 * k + 7, lambda n: 1000 * n + 7, lambda n: 1000 * n)


def server_that_stamps_the_metadata_log() -> Drawing:
    """With the time at which it adds the entry."""
    d = _timed(lambda n, k: 1000 * k)
    for n in range(1, 6):
        log = [{**x, "timestamp-ms": 1000 * k + 7} for k, x in enumerate(d.versions[n].raw["metadata-log"], 1)]
        bend(d, n, raw={**d.versions[n].raw, "metadata-log": log})
    return d


def column_added_well() -> Drawing:
    return _evolved("long", False)


def property_set_well() -> Drawing:
    return _altered(
        "set-property", {"property": "icequake.p0"}, properties={"a": "1", "b": "2", "icequake.p0": "alter"}
    )


@pytest.mark.parametrize(
    "drawing",
    [
        well_timed,
        server_an_hour_ahead,
        server_that_stamps_entries,
        server_that_stamps_the_metadata_log,
        column_added_well,
        property_set_well,
    ],
)
def test_what_clocks_schemas_and_properties_may_do_is_silent(drawing: Callable[[], Drawing]) -> None:
    assert drawing().check().valid is True


@pytest.mark.parametrize(
    ("drawing", "who"),
    [
        (expired_snapshot_that_is_back, "op-5"),
        (column_narrowed, "alter"),
        (property_that_it_does_not_set, "alter"),
        (last_sequence_number_of_nobody, "op-4"),
        (partition_of_no_spec, "op-4"),
        (entry_of_another_time, "op-3"),
        (version_before_its_log, "op-3"),
        (snapshot_a_year_before_its_entry, "op-3"),
        (snapshot_a_year_after_its_entry, "op-3"),
        (entry_half_a_minute_early, "op-3"),
        (entry_half_a_minute_early_in_its_own_version_only, "op-3"),
        (entry_a_year_ahead, "op-3"),
        (version_a_year_ahead, "op-3"),
        (entry_of_the_version_before_of_another_time, "op-4"),
    ],
)
def test_who_broke_it_is_named_and_it_is_told_once(drawing: Callable[[], Drawing], who: str) -> None:
    assert [a.ops[:1] for a in drawing().check().anomalies] == [(who,)]


BROKEN: list[tuple[str, Callable[[], Drawing]]] = [
    ("metadata-fork", fork),
    ("metadata-fork", fork_seen_by_the_reader_only),
    ("metadata-fork", set_back),
    ("missing-metadata-file", missing_metadata_file),
    ("missing-metadata-file", pointer_leads_nowhere),
    ("corrupt-metadata-file", corrupt_metadata_file),
    ("metadata-log-mismatch", metadata_log_mismatch),
    ("snapshot-changed", snapshot_changed),
    ("table-uuid-changed", table_uuid_changed),
    ("format-version-decreased", format_version_decreased),
    ("counter-decreased", last_column_id_decreased),
    ("counter-decreased", next_row_id_decreased),
    ("last-sequence-number", last_sequence_number_too_low),
    ("duplicate-snapshot", duplicate_snapshot),
    ("sequence-number-order", sequence_number_of_its_parent),
    ("duplicate-sequence-number", duplicate_sequence_number),
    ("dangling-ref", dangling_main),
    ("main-ref", main_is_not_current),
    ("unknown-parent", unknown_parent),
    ("unknown-parent", parent_outside_the_chain),
    ("vanished-snapshot", vanished_snapshot),
    ("vanished-snapshot", vanished_before_the_expiry),
    ("retention", retention),
    ("vanished-ref", vanished_ref),
    ("vanished-schema", vanished_schema),
    ("vanished-partition-spec", vanished_partition_spec),
    ("vanished-property", vanished_property),
    ("vanished-property", property_that_is_what_it_was),
    ("lost-metadata-change", column_that_never_was),
    ("lost-metadata-change", column_of_somebody_else),
    ("lost-metadata-change", type_that_never_was),
    ("vanished-schema", another_column_than_the_dropped_one_vanished),
    ("lost-metadata-change", renaming_that_never_was),
    ("lost-metadata-change", end_of_a_column_that_never_was),
    ("lost-metadata-change", column_that_never_was_and_could_have_been_dropped),
    ("lost-metadata-change", property_that_never_was),
    ("lost-metadata-change", property_that_an_older_one_overwrote),
    ("lost-metadata-change", upgrade_that_never_was),
    ("missing-file", missing_data_file),
    ("missing-file", missing_when_it_was_read),
    ("corrupt-file", corrupt_file),
    ("duplicate-path", path_twice),
    ("duplicate-path", path_twice_told_by_the_reader),
    ("several-dvs", two_vectors),
    ("several-dvs", two_vectors_in_one_file),
    ("dangling-dv", vector_of_a_dead_file),
    ("dangling-dv", vector_added_to_a_dead_file),
    ("position-deletes-in-v3", position_deletes_in_v3),
    ("summary-count", summary_says_more),
    ("summary-count", wrong_total_is_told_once),
    ("wrong-operation", append_that_removes),
    ("wrong-operation", delete_that_adds),
    ("file-sequence-number", file_sequence_number),
    ("first-row-id", no_first_row_id),
    ("first-row-id", stale_first_row_id),
    ("row-id-overlap", row_ids_overlap),
    ("next-row-id", next_row_id_too_low),
    ("file-row-id", file_outside_the_range),
    ("retention", retention_by_age),
    ("retention", retention_of_an_unreferenced_one),
    ("main-not-moved", main_left_at_the_parent),
    ("returned-snapshot", expired_snapshot_that_is_back),
    ("schema-evolution", column_narrowed),
    ("schema-evolution", column_required),
    ("property-changed", property_that_it_does_not_set),
    ("last-sequence-number", last_sequence_number_of_nobody),
    ("file-partition", partition_of_no_spec),
    ("timestamp-order", entry_of_another_time),
    ("timestamp-order", version_before_its_log),
    ("timestamp-order", snapshot_a_year_before_its_entry),
    ("timestamp-order", entry_half_a_minute_early),
    ("timestamp-order", version_a_year_ahead),
    ("timestamp-order", entry_of_the_version_before_of_another_time),
    *CONTENTS,
    ("format-version-changed", format_version_by_nobody),
    ("next-row-id", no_next_row_id),
    ("ref-changed", tag_that_moved),
    ("dangling-id", schema_id_of_nothing),
    ("dangling-id", current_schema_of_nothing),
    ("field-id", field_id_twice),
    ("field-id", field_id_too_high),
    *LOGS,
]
ALSO = {
    "sequence_number_of_its_parent": {"duplicate-sequence-number"},
}
"""What else a drawing cannot help but break."""


@pytest.mark.parametrize(("name", "drawing"), BROKEN, ids=[f"{n}-{d.__name__}" for n, d in BROKEN])
def test_a_broken_rule_is_named_and_no_other(name: str, drawing: Callable[[], Drawing]) -> None:
    d = drawing()
    v = d.check()
    assert v.valid is False
    assert set(d.names()) - ALSO.get(drawing.__name__, set()) == {name}
    a = next(a for a in v.anomalies if a.name == name)
    assert a.checker == "metadata" and a.table == "t"
    assert SPEC_RULES[name].promise in a.explanation and SPEC_RULES[name].section in a.explanation
    assert a.snapshots or a.files
    assert set(a.ops) <= {e.op for e in d.events} | {"op-50"}


def test_an_id_that_two_rows_have_is_laid_on_who_wrote_the_wrong_next_row_id() -> None:
    by_name = {a.name: a for a in told_a_row_id_in_use().check().anomalies}
    assert {*by_name} == {"next-row-id", "row-id-overlap"}
    a = by_name["row-id-overlap"]
    assert a.ops == ("op-2", "op-3") and "begins where it was told" in a.explanation
    (own,) = row_ids_overlap().check().anomalies
    assert "begins where it was told" not in own.explanation


def test_every_rule_has_a_test() -> None:
    read_by_the_reader = {
        "foreign-file",
        "manifest-count",
        "min-sequence-number",
        "sequence-number",
        "null-sequence-number",
        "record-count",
        "delete-position",
        "kept-row-id",
    }  # in test_reader
    of_entries = {
        "data-sequence-number",
        "file-partition",
        "delete-partition",
        "referenced-file",
        "dv-in-v2",
        "removed-not-live",
        "entry-changed",
        "equality-ids",
        "split-offsets",
    }  # in test_file_entries
    said_twice = {
        "delete-sequence-number",
        "misplaced-row",
        "file-format",
        "file-size",
        "vector-place",
        "shared-manifest-list",
    }  # in test_said_twice
    of_tables = {"shared-file", "shared-uuid"}  # in test_shared_files
    of_creation = {"not-as-created", "listed-twice", "unknown-type", "unknown-format-version"}  # in test_creation
    of_statistics = {"pruned-rows", "column-count"}  # in test_statistics
    elsewhere = read_by_the_reader | of_entries | said_twice | of_tables | of_creation | of_statistics
    assert {n for n, _ in BROKEN} | elsewhere == set(SPEC_RULES)


@pytest.mark.parametrize(("name", "drawing"), [*CONTENTS, *LOGS], ids=lambda d: getattr(d, "__name__", d))
def test_a_change_by_nobody_accuses_the_operation_that_made_the_version_and_is_told_once(
    name: str, drawing: Callable[[], Drawing]
) -> None:
    found = [a for a in drawing().check().anomalies if a.name == name]
    assert [a.ops for a in found] == [("op-3" if "log" in name else "op-2",)]


def test_a_commit_that_main_did_not_move_to_accuses_its_operation() -> None:
    (a,) = main_left_at_the_parent().check().anomalies
    assert a.ops == ("op-4",) and a.snapshots == (4, 3)


def test_what_the_log_lacks_is_unknown() -> None:
    d = three()
    bend(d, 2, snapshots=(1, 99, 2))
    bend(d, 3, snapshots=(1, 99, 2, 3))
    v = d.check()
    assert v.valid == "unknown" and "99, of which the log has no commit" in v.notes[0]
    d = three()
    d.version()
    del d.versions[4:], d.captures[4:]
    d.version(base=d.versions[3])
    d.versions[4] = replace(
        d.versions[4], raw={**d.versions[4].raw, "metadata-log": [{"metadata-file": "s3://w/t/x.json"}]}
    )
    v = d.check()
    assert v.valid == "unknown" and "says that it follows s3://w/t/x.json, which the log does not have" in v.notes[0]


def test_a_change_is_undecided_where_others_write() -> None:
    d = CONTENTS[7][1]()
    bend_commit(d, 0, op=None)
    v = d.check()
    assert v.valid == "unknown" and not v.anomalies and "others write" in v.notes[0]


def test_one_operation_explains_all_that_a_version_changes_and_never_two_together() -> None:
    d = three()
    for f, op, value in (("widen-column", "w", {"column": "id"}), ("set-property", "p", {"property": "icequake.p0"})):
        d.event("invoke", f, op, value=value, process=len(d.events))
    schema = {**SCHEMA, "schema-id": 1, "fields": [{**SCHEMA["fields"][0], "type": "long"}]}
    d.version(
        schemas=[SCHEMA, schema],
        current_schema_id=1,
        properties={**d.versions[-1].raw["properties"], "icequake.p0": "p"},
    )
    v = d.check()
    assert [(a.name, a.ops[0]) for a in v.anomalies] == [("schema-changed", "p")]


@pytest.mark.parametrize("counter", ["last-column-id", "last-partition-id"])
def test_a_counter_that_nobody_is_known_to_raise_is_unknown_with_its_name(counter: str) -> None:
    d = three()
    bend(d, 3, raw={**d.versions[3].raw, counter: 2000})
    v = d.check()
    assert v.valid == "unknown" and not v.anomalies and f"says {counter} 2000, where" in v.notes[0]


def test_a_version_that_says_again_what_was_due_is_silent_and_the_wrong_one_is_told() -> None:
    d = three()
    d.event("invoke", "add-column", "a", value={"column": "extra_1"})
    right = with_column(d, "a")
    d.version(**with_column(d, "a", type="string"))
    d.event("ok", "add-column", "a")
    d.version(**right)
    assert [(a.name, a.ops) for a in d.check().anomalies] == [("schema-changed", ("a",))]


def test_a_fork_names_what_it_lost() -> None:
    (a,) = fork().check().anomalies
    assert a.snapshots == (2, 3)
    assert a.ops == ("op-4", "op-2", "op-3")
    assert "was made from version 1" in a.explanation


def skips_an_entry(made: Drawing, *, seen_by_reader: bool = False) -> Drawing:
    """The last version's log lacks the entry of the one before it."""
    m = made.versions[-1]
    said = made.versions[-2].location
    entries = [x for x in m.raw["metadata-log"] if x["metadata-file"] != said]
    problem = problem_of(
        f"the pointer was at {said} (metadata {m.n - 1}); this version does not descend from it, but from an older one"
    )
    bend(made, -1, raw={**m.raw, "metadata-log": entries}, problems=(problem,) if seen_by_reader else ())
    return made


def without_a_change(d: Drawing) -> Drawing:
    """As SeaweedFS's catalog does: what was committed, stored once more under the next name."""
    d.version(last_updated_ms=d.versions[-1].last_updated_ms + 6)
    return d


def with_a_commit_more(d: Drawing) -> Drawing:
    d.commit(4, add=[data("data/d")])
    return d


def with_a_property_before(d: Drawing) -> Drawing:
    d.op("set-property", "p", value={"property": "c"})
    d.version(properties={**d.properties, "c": "p"})
    d.commit(4, add=[data("data/d")])
    return d


@pytest.mark.parametrize("seen_by_reader", [False, True])
@pytest.mark.parametrize("made", [without_a_change, with_a_commit_more, with_a_property_before])
def test_a_version_whose_content_is_in_the_next_one_is_not_passed_over(
    made: Callable[[Drawing], Drawing], seen_by_reader: bool
) -> None:
    d = skips_an_entry(made(three()), seen_by_reader=seen_by_reader)
    (a,) = d.check().anomalies
    assert a.name == "metadata-log-mismatch" and d.versions[-1].location in a.files
    assert f"All that version {d.versions[-2].n} says is in it, too: no change is lost" in a.explanation


def passed_over_property(d: Drawing) -> Drawing:
    d.op("set-property", "p", value={"property": "c"})
    d.version(properties={**d.properties, "c": "p"})
    d.commit(4, add=[data("data/d")], base=d.versions[-2])
    return d


def passed_over_expiry(d: Drawing) -> Drawing:
    d.expiry("e", older_than="1970-01-01 00:00:09.000", retain_last=1)
    d.version(snapshots=(3,))
    d.commit(4, add=[data("data/d")], base=d.versions[-2])
    return d


def passed_over_tag(d: Drawing) -> Drawing:
    d.version(refs={"main": 3, "audit": 3})
    d.commit(4, add=[data("data/d")], base=d.versions[-2])
    return d


def passed_over_rollback(d: Drawing) -> Drawing:
    d.op("rollback", "b", value={"back": 1})
    d.version(current=2, refs={"main": 2})
    d.commit(4, add=[data("data/d")], base=d.versions[-2])
    return d


@pytest.mark.parametrize("made", [passed_over_property, passed_over_expiry, passed_over_tag, passed_over_rollback])
def test_a_version_whose_content_the_next_one_lacks_is_passed_over(made: Callable[[Drawing], Drawing]) -> None:
    d = made(three())
    assert "metadata-fork" in d.names()


@pytest.mark.parametrize(("age", "valid"), [({}, False), ({"max-ref-age-ms": 1}, True)])
def test_an_expiry_takes_a_tag_only_if_it_has_an_age(age: dict[str, int], valid: bool) -> None:
    d = three()
    main = {"type": "branch", "snapshot-id": 3}
    d.op("create-tag", "tag", value={"tag": "eoy", "back": 0})
    d.version(refs={"main": 3, "eoy": 3})
    bend(d, -1, raw={**d.versions[-1].raw, "refs": {"main": main, "eoy": {"type": "tag", "snapshot-id": 3, **age}}})
    d.op("expire-snapshots", "e", value={"retain_last": 9})
    d.version(refs={"main": 3})
    bend(d, -1, raw={**d.versions[-1].raw, "refs": {"main": main}})
    v = d.check()
    assert ("vanished-ref" not in {a.name for a in v.anomalies}) == valid, v.anomalies


def test_what_is_gone_where_others_write_is_undecided() -> None:
    for what, gone in (("expire", {"snapshots": (2, 3)}), ("drop a tag", {"refs": {"main": 3}})):
        d = three()
        d.version(refs={"main": 3, "eoy": 3})
        d.version(**gone)
        assert not d.check().valid, what
        bend_commit(d, 1, op=None, added=(RowChange((7,), "data/b", 0), RowChange((8,), "data/b", 1)))
        v = d.check()
        assert v.valid == "unknown" and not v.anomalies and any("others write" in n for n in v.notes), what


def test_a_missing_file_names_who_needs_it_and_who_may_have_deleted_it() -> None:
    d = missing_data_file()
    d.events = [replace(e, type="fail") if e.op == "op-2" and e.type == "ok" else e for e in d.events]
    (a,) = d.check().anomalies
    assert a.snapshots == (2, 3) and a.files == ("data/b",) and a.ops == ("op-2",)
    assert "deletes the files that it wrote" in a.explanation


def test_files_that_went_with_expired_snapshots_are_legal() -> None:
    d = expired()
    bend_commit(
        d,
        1,
        added=None,
        problems=(problem_of("data file (of snapshot 1) data/a is missing; needed by snapshot 2 (op op-2)"),),
    )
    v = d.check()
    assert v.valid is True and "legal" in v.notes[0]


@pytest.mark.parametrize("why", ["torn", "incomplete", "no log", "unreadable"])
def test_what_cannot_be_decided_is_unknown_never_false(why: str) -> None:
    if why == "torn":
        d = vanished_snapshot()
        d.torn = ("history.jsonl: the last line is torn",)
    elif why == "incomplete":
        d = three(complete=False)
    elif why == "unreadable":
        d = three()
        bend_commit(
            d, 2, added=None, problems=(problem_of("deletion vector (of snapshot 3) data/v names no data file"),)
        )
    else:
        v = Checker().check(Evidence(History({}, ()), {}, {"t": TableSpec(name="t")}))
        assert v.valid == "unknown" and "no table log" in v.notes[0]
        return
    v = d.check()
    assert v.valid == "unknown" and v.notes and not v.anomalies


def test_many_anomalies_of_one_name_are_cut_and_counted() -> None:
    d = Drawing()
    for id in range(1, MOST_OF_A_NAME + 11):
        d.commit(id, add=[data(f"data/{id}")], operation="append", summary={"added-records": "9"})
    v = d.check()
    assert len(v.anomalies) == MOST_OF_A_NAME
    assert any("10 more summary-count" in n for n in v.notes)


def test_the_summary_counts_of_a_vector_only_its_blob() -> None:
    assert measures((vector("data/v", "data/a", 3), A))["files-size"] == 40 + A.size


# --- from the files themselves ----------------------------------------------------------------------------------------


def from_files(t: HandMadeTable) -> Verdict:
    reader = TableReader(ObjectStore(), table="t", identifier="c.t", columns=COLUMNS, path=None)
    return Checker().check(Evidence(History({}, ()), {"t": reader.finish(t.pointer, 0)}, {}))


def test_a_hand_made_table_is_well(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    a, b = t.data([(1, "a", 0), (2, "b", 0)]), t.data([(3, "c", 1)])
    t.commit(add=[a])
    t.commit(add=[b])
    v = from_files(t)
    assert [a.explanation for a in v.anomalies] == [] and v.valid is True


@pytest.mark.parametrize(
    "name", ["duplicate-path", "several-dvs", "dangling-dv", "record-count", "missing-file", "manifest-count"]
)
def test_broken_files_are_named(tmp_path: Path, name: str) -> None:
    t = HandMadeTable(tmp_path, version=3 if "dv" in name else 2)
    a, b = t.data([(1, "a", 0), (2, "b", 0)]), t.data([(3, "c", 0)])
    t.commit(add=[a], op="w0-1")
    if name == "duplicate-path":
        t.commit(add=[a])
    elif name == "several-dvs":
        t.commit(add=[*t.vectors({a: [0]}), *t.vectors({a: [0]})])
    elif name == "dangling-dv":
        t.commit(add=t.vectors({b: [0]}))
    elif name == "record-count":
        t.commit(add=[replace(b, records=5)])
    elif name == "manifest-count":
        entry = (ADDED, replace(b, seq=2, snapshot_id=77))
        t.commit(
            manifests=[t.manifest([entry], snapshot_id=77, seq=2, deletes=False, line={"added_files_count": 9})],
            parent=None,
        )
    else:
        Path(a.path).unlink()
    v = from_files(t)
    beside = {"wrong-operation", "foreign-file"}  # a hand-made table calls all an append, and numbers snapshots itself
    assert {x.name for x in v.anomalies} - beside == {name}


# --- whole runs -------------------------------------------------------------------------------------------------------


def test_simulated_runs_are_silent() -> None:
    tables = [
        TableSpec(name="a", mode="merge-on-read"),
        TableSpec(name="b", format_version=3, mode="merge-on-read", isolation="snapshot"),
        TableSpec(name="c", partitioned=False),
    ]
    for seed in range(20):
        v = Checker().check(simulate(seed, tables).evidence())
        assert [a.explanation for a in v.anomalies] == [] and v.valid is True, v.notes


def test_recorded_runs_are_silent(recorded_run: Path) -> None:
    v = Checker().check(load_evidence(recorded_run))
    assert [a.explanation for a in v.anomalies] == []


def test_simulated_changes_are_silent_and_lost_ones_are_found() -> None:
    specs = [TableSpec(name="a", partitions=2), TableSpec(name="b", format_version=3, mode="merge-on-read")]
    lost = 0
    for seed in range(30):
        clean = Checker().check(simulate(seed, specs, mix=ALTERING, ops=20).evidence())
        assert clean.valid is True, (seed, clean)
        run = simulate(seed, specs, mix=ALTERING, ops=20, defects=Defects(lose_change=1.0))
        v = Checker().check(run.evidence())
        told = {a.name for a in v.anomalies}
        at_all = {"vanished-schema", "vanished-property", "counter-decreased", "lost-metadata-change", "schema-changed"}
        assert told <= at_all, (seed, v)
        assert v.valid is (not any(d == "lose_change" for d, _ in run.injected)), (seed, run.injected, v)
        lost += v.valid is False
    assert lost > 5
