"""The version with which a table begins: is it what ``CREATE TABLE`` asked for?

Versions are only compared with each other, so a first version that is wrong makes all others wrong and none suspicious. The plan says what
is due (:class:`TableSpec`, :mod:`workloads.ddl`): columns, partitioning, properties, format version. The library says the rest
(``TableMetadata.newTableMetadata``): columns have the ids 1, 2, … in their order, nothing is sorted, and the counters stand at what was
assigned.

The run's set-up creates the tables by no operation of the history, so no operation is accused: it was the creation, and the catalog that
carried it out.

**What is not judged.** Properties beyond those asked for: engines and catalogs add their own (``owner``, ``write.parquet.compression-codec``,
``gc.enabled``, ``created-at``). Ids of columns that are not 1, 2, … in another order: the verdict is unknown. A table whose log begins
later. A table that is created in two steps, of which the second brings what the first lacks, before any operation can have done it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checkers.evidence.paths import normalise
from checkers.formats.iceberg.metadata.derived import properties as properties_of
from checkers.formats.iceberg.metadata.listed import LISTED_PARTS, SCHEMAS, Listed, keys_of
from checkers.formats.iceberg.metadata.responsible import created
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.metadata.wellformed import dicts
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain
from workloads.ddl import table_properties
from workloads.engines.engines import SPARK
from workloads.tables import SQL_COLUMNS, TableSpec

ICEBERG_TYPES = {"BIGINT": "long", "INT": "int", "STRING": "string"}
"""SQL type → the type of the column that Spark makes of it."""
CREATED_COLUMNS = {name: ICEBERG_TYPES[sql] for name, sql in (c.split() for c in SQL_COLUMNS.split(", "))}
"""Column → its type, in their order."""
PARTITION = "part"
"""The column by which a partitioned table is partitioned."""
FORMAT_VERSION = "format-version"
NOT_KEPT = frozenset(
    {
        *(FORMAT_VERSION, "uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary"),
        *("current-snapshot-timestamp-ms", "current-schema", "default-partition-spec", "default-sort-order"),
        *("location", "provider"),
    }
)
"""Properties that ``CREATE TABLE`` may name and no table keeps (``TableProperties.RESERVED_TABLE_PROPERTIES``; Spark's own)."""
METADATA_PATH = "write.metadata.path"
_SPECS, _ORDERS = LISTED_PARTS[1:]
COMPARED_PARTS = (*(x.key for x in LISTED_PARTS), "properties", "location", FORMAT_VERSION)
"""The parts that ``metadata.contents`` compares, by its names."""
PartDifference = tuple[str, str]
"""A part or a counter that differs, and how, in words."""


@dataclass
class Creation(Judging):
    """The first version of one table."""

    spec: TableSpec | None = None
    wrong: frozenset[str] = frozenset()
    """The parts and counters that are wrong there."""

    def judge(self) -> dict[tuple[str, int], Any]:
        """Judge it. Returns the expected value of each wrong part, taken from the next version if that one is right."""
        steps = self.chain.steps
        if (
            self.spec is None
            or not steps
            or not steps[0].after.raw
            or steps[0].after.problems
            or not created(steps[0].after)
        ):
            return {}
        step = steps[0]
        wrong = [*self._wrong(step.after, self.spec)]
        self._column_ids(step.after)
        self._row_ids(step.after)
        self._time(step.after)
        self.wrong = frozenset(part for part, _ in wrong)
        following = steps[1] if len(steps) > 1 and steps[1].before is step.after else None
        right = set() if following is None else self._right(following.after, self.spec)
        broken = {x.key for x in LISTED_PARTS if _in_use(step.after, x) is None}
        due: dict[tuple[str, int], Any] = {}
        if following is not None:
            due = {
                (part, step.after.n): (_value(part, following.after),)
                for part in {*broken, *(p for p, _ in wrong)} & right
            }
            if not following.after.snapshots and not self.makers.accused(following):
                wrong = [(part, words) for part, words in wrong if part not in right]  # created in two steps
        reported = [words for _, words in wrong]
        if reported:
            m = step.after
            self.found(
                "not-as-created",
                f"version {m.n} ({m.location}), with which the table begins, is not what its creation asked for: {'; '.join(reported)}. No "
                "operation of the history made it: the run's set-up did, and the catalog that carried it out.",
                files=(m.location,),
            )
        return due

    def _right(self, m: Metadata, spec: TableSpec) -> set[str]:
        """The parts in which a version is what the creation asked for."""
        return (
            {*COMPARED_PARTS}
            - {part for part, _ in self._wrong(m, spec)}
            - {x.key for x in LISTED_PARTS if _in_use(m, x) is None}
        )

    def _wrong(self, m: Metadata, spec: TableSpec) -> Iterator[PartDifference]:
        planned = table_properties(spec)
        version = planned.get(FORMAT_VERSION, "")
        if version.isdecimal() and int(version) != m.format_version:
            yield FORMAT_VERSION, f"its format version is {m.format_version}, not {version}"
        yield from ((SCHEMAS.key, words) for words in _wrong_columns(m))
        yield from ((_SPECS.key, words) for words in _wrong_partitioning(m, spec))
        order = _in_use(m, _ORDERS)
        if order is not None and order.get("fields"):
            yield _ORDERS.key, "its rows are to be sorted, which nobody asked for"
        properties = m.raw.get("properties")
        has: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        for key, value in planned.items():
            if key not in NOT_KEPT and has.get(key) != value:
                yield "properties", f"the property {key} is {has.get(key, 'not there')}, not {value}"
        yield from _wrong_location(m, has)
        if not m.snapshots:
            yield from _wrong_counters(m)

    def _column_ids(self, m: Metadata) -> None:
        schema = _schema(m)
        ids = [] if schema is None else [f.get("id") for f in dicts(schema.get("fields"))]
        due = list(range(1, len(ids) + 1))
        if ids != due and sorted(map(str, ids)) != sorted(map(str, due)) and len({*map(str, ids)}) == len(ids):
            self.seen.doubt(
                f"version {m.n} gives its columns the ids {explain.listing(ids)}: why not {explain.listing(due)} is not known"
            )

    def _time(self, m: Metadata) -> None:
        if not m.last_updated_ms and any(v.last_updated_ms for v in self.chain.log.metadata):
            text = f"version {m.n} ({m.location}), {self.makers.made_by(m)}, lacks last-updated-ms, which every format version requires."
            self.found("missing-field", text, files=(m.location,))

    def _row_ids(self, m: Metadata) -> None:
        """No ``next-row-id``, as releases before 1.9 leave it; but Spark, which created the table, wrote one later."""
        if m.format_version < 3 or m.next_row_id is not None:
            return
        engines = {
            v.n: [o.engine for op in self.chain.makers(v) if (o := self.chain.by_op.get(op))]
            for v in self.chain.log.metadata
        }
        version = next(
            (v for v in self.chain.log.metadata if v.next_row_id is not None and SPARK in engines[v.n]), None
        )
        if version is not None:
            self.found(
                "next-row-id",
                f"version {m.n} ({m.location}), {self.makers.made_by(m)}, is of format version {m.format_version} and has no next-row-id; "
                f"version {version.n} ({version.location}) has one.",
                files=(m.location,),
            )


def _value(part: str, m: Metadata) -> Any:
    """What ``metadata.contents`` compares of a part."""
    if part == FORMAT_VERSION:
        return m.format_version
    if part == "properties":
        return properties_of(m)
    listed = next((x for x in LISTED_PARTS if x.key == part), None)
    return [m.raw.get(k) for k in ((part,) if listed is None else keys_of(listed))]


def _in_use(m: Metadata, x: Listed) -> Mapping[str, Any] | None:
    """The entry of a list that the version says is in use; None if there is none, or several."""
    found = [e for e in dicts(m.raw.get(x.key)) if e.get(x.id) == m.raw.get(x.default)]
    return found[0] if len(found) == 1 else None


def _schema(m: Metadata) -> Mapping[str, Any] | None:
    return _in_use(m, SCHEMAS)


def _wrong_columns(m: Metadata) -> Iterator[str]:
    schema = _schema(m)
    if schema is None:
        return
    fields = dicts(schema.get("fields"))
    names = [f.get("name") for f in fields]
    if names != [*CREATED_COLUMNS]:
        yield f"its columns are {', '.join(map(str, names))}, not {', '.join(CREATED_COLUMNS)}"
        return
    for f, (name, type) in zip(fields, CREATED_COLUMNS.items(), strict=True):
        if f.get("type") != type:
            yield f"the column {name} is of type {f.get('type')}, not {type}"
        if f.get("required") is True:
            yield f"the column {name} is required, not optional"
        defaults = [k for k in ("initial-default", "write-default") if f.get(k) is not None]
        if defaults:
            yield f"the column {name} has the {defaults[0]} {f[defaults[0]]}, which nobody gave it"
    ids, due = [f.get("id") for f in fields], list(range(1, len(fields) + 1))
    if ids != due and sorted(map(str, ids)) == list(map(str, due)):
        yield f"the ids of its columns {', '.join(CREATED_COLUMNS)} are {', '.join(map(str, ids))}, not {', '.join(map(str, due))}"


def _wrong_partitioning(m: Metadata, spec: TableSpec) -> Iterator[str]:
    schema, used = _schema(m), _in_use(m, _SPECS)
    if schema is None or used is None:
        return
    columns = {f.get("id"): f.get("name") for f in dicts(schema.get("fields"))}
    has = [
        (str(f.get("transform")), str(columns.get(_source(f), f"of id {_source(f)}")), str(f.get("name")))
        for f in dicts(used.get("fields"))
    ]
    due = [("identity", PARTITION, PARTITION)] if spec.partitioned else []
    if has != due:
        yield f"it is partitioned by {_fields(has)}, not by {_fields(due)}"


def _source(f: Mapping[str, Any]) -> Any:
    several = f.get("source-ids")
    return several[0] if isinstance(several, list) and len(several) == 1 else f.get("source-id")


def _fields(fields: list[tuple[str, str, str]]) -> str:
    return ", ".join(f"{transform} of the column {column} as {name}" for transform, column, name in fields) or "nothing"


def _wrong_location(m: Metadata, properties: Mapping[str, Any]) -> Iterator[PartDifference]:
    location, elsewhere = m.raw.get("location"), properties.get(METADATA_PATH)
    if not isinstance(location, str):
        return
    roots = [elsewhere] if isinstance(elsewhere, str) else [location]
    if not any(normalise(m.location).startswith(normalise(r).rstrip("/") + "/") for r in roots):
        yield "location", f"its location is {location}, and the version's own file is not below {roots[0]}"


def _wrong_counters(m: Metadata) -> Iterator[PartDifference]:
    """Counters that stand higher than what was assigned; those that stand lower break a rule of any version."""
    schema = _schema(m)
    columns = (
        [i for f in dicts(schema.get("fields")) if isinstance(i := f.get("id"), int)] if schema is not None else []
    )
    fields = [
        i
        for s in dicts(m.raw.get(_SPECS.key))
        for f in dicts(s.get("fields"))
        if isinstance(i := f.get("field-id"), int)
    ]
    for name, has, used in (
        ("last-column-id", m.raw.get("last-column-id"), columns),
        ("last-partition-id", m.raw.get("last-partition-id"), fields),
        ("last-sequence-number", m.last_sequence_number, [0]),
    ):
        if isinstance(has, int) and used and (has > max(used) or has < 0):
            yield name, f"its {name} is {has}, and the highest that was assigned is {max(used)}"
