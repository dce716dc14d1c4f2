"""Bugs that the ``metadata`` checker must find: tables that begin with another version than their creation asked for, or with one that is
not well formed.

A table begins once, so the place is a table of a run, and the change is drawn anew each time: which key, which column, and whether only the
first version has it or all that follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from checkers.evidence.replace import replace
from checkers.formats.iceberg.metadata.wellformed import REQUIRED_KEYS
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.selftest.goodtable import Change
from checkers.selftest.plant import Plant, Plants, table
from checkers.selftest.sites import VersionSite
from checkers.selftest.world import Planted, World

CREATED = "the run's set-up created the table, and no operation of the history did"
METADATA_SPEC = "https://iceberg.apache.org/spec/#table-metadata-fields"
ASKED = "https://iceberg.apache.org/docs/latest/spark-ddl/#create-table"

Raw = dict[str, Any]
Fields = list[dict[str, Any]]
Draw = Callable[[Random, Metadata], Change | None]
"""The change of a table's first version; None if it cannot be there."""


def begins(w: World) -> Iterator[VersionSite]:
    """The first version of each table that has some more, in random order."""
    tables = [t for t in w.tables if len(t.log.metadata) > 2 and t.log.metadata[0].raw.get("schemas")]
    return (VersionSite(w, t, 0) for t in w.rng.sample(tables, len(tables)))


def begun(draw: Draw) -> Callable[[VersionSite], Planted | None]:
    """The table begins with a changed version; often, the others have the change, too."""

    def plant(v: VersionSite) -> Planted | None:
        change = draw(v.w.rng, v.t.log.metadata[0])
        if change is None:
            return None
        last = 0 if v.w.rng.random() < 0.5 else len(v.t.log.metadata)
        return v.w.planted(log=v.t.with_versions(0, last, change), nobody=CREATED)

    plant.__doc__ = draw.__doc__
    return plant


def raw(change: Callable[[Raw], Mapping[str, Any]]) -> Change:
    """A change of some keys."""
    return lambda m: replace(m, raw={**m.raw, **change(m.raw)})


def columns(change: Callable[[Random, Fields], Fields]) -> Draw:
    """Every schema has other columns."""

    def draw(rng: Random, m: Metadata) -> Change:
        seed = rng.random()
        return raw(lambda r: {"schemas": [{**s, "fields": change(Random(seed), [*s["fields"]])} for s in r["schemas"]]})

    return draw


def always(change: Change) -> Draw:
    """The same change for every table."""
    return lambda rng, m: change


# --- other than asked for -------------------------------------------------------------------------------------------------


def property_other(rng: Random, m: Metadata) -> Change:
    """A property that the creation asked for has another value: an isolation level, a mode, or any other."""
    key = rng.choice(
        [k for k in sorted(m.raw["properties"]) if k.endswith(("isolation-level", "mode", "versions-max"))]
    )
    others = {"serializable": "snapshot", "snapshot": "serializable", "merge-on-read": "copy-on-write"}
    value = others.get(m.raw["properties"][key], "7" if key.endswith("max") else "merge-on-read")
    return raw(lambda r: {"properties": {**r["properties"], key: value}})


def property_missing(rng: Random, m: Metadata) -> Change:
    """A property that the creation asked for is not there."""
    key = rng.choice([k for k in sorted(m.raw["properties"]) if k.startswith("write.") and k.count(".") == 2])
    key = key if key.endswith(("isolation-level", "mode", "versions-max")) else "write.delete.mode"
    return raw(lambda r: {"properties": {k: x for k, x in r["properties"].items() if k != key}})


def exchanged(rng: Random, fields: Fields) -> Fields:
    """Two columns exchange their field ids."""
    a, b = sorted(rng.sample(range(5), 2))
    ids = [f["id"] for f in fields]
    ids[a], ids[b] = ids[b], ids[a]
    return [{**f, "id": i} for f, i in zip(fields, ids, strict=True)]


def without_one(rng: Random, fields: Fields) -> Fields:
    """One of the columns is not there."""
    n = rng.randrange(4)
    return [*fields[:n], *fields[n + 1 :]]


def other_column(**changes: Any) -> Callable[[Random, Fields], Fields]:
    """One of the first three columns says something else."""

    def change(rng: Random, fields: Fields) -> Fields:
        n = rng.randrange(3)
        return [{**f, **changes} if k == n else f for k, f in enumerate(fields)]

    return change


def partitioned_otherwise(rng: Random, m: Metadata) -> Change | None:
    """The table is not partitioned, or by another transform or column."""
    if not m.raw["partition-specs"][0]["fields"]:
        return None
    others: list[list[Raw]] = [[], [{"transform": "bucket[4]"}], [{"source-id": 1}], [{"name": "p"}]]
    other = rng.choice(others)
    return raw(
        lambda r: {
            "partition-specs": [
                {**s, "fields": [{**f, **x} for f in s["fields"] for x in other]} for s in r["partition-specs"]
            ]
        }
    )


def sorted_by(rng: Random, m: Metadata) -> Change:
    """The table is sorted."""
    field = {"transform": "identity", "source-id": rng.randrange(1, 6), "direction": "asc", "null-order": "nulls-first"}
    return raw(lambda r: {"sort-orders": [{"order-id": 1, "fields": [field]}], "default-sort-order-id": 1})


def counter_ahead(rng: Random, m: Metadata) -> Change | None:
    """A counter stands higher than what was assigned."""
    more, key = rng.randrange(1, 9), rng.choice(["last-column-id", "last-partition-id", "last-sequence-number"])
    if key == "last-partition-id" and not m.raw["partition-specs"][0]["fields"]:
        return None
    if key == "last-sequence-number":
        return lambda v: replace(v, last_sequence_number=v.last_sequence_number + more)
    return raw(lambda r: {key: r[key] + more})


OTHER: Plants = {
    "created-with-another-property": Plant(begun(property_other)),
    "created-without-a-property": Plant(begun(property_missing)),
    "created-without-a-column: A table begins without one of its columns.": Plant(begun(columns(without_one))),
    "created-with-another-column: A table begins with one more column than asked for.": Plant(
        begun(columns(lambda rng, f: [*f, {"id": len(f) + 1, "name": f"c{len(f)}", "required": False, "type": "int"}])),
        "not-as-created field-id",
    ),
    "created-with-exchanged-ids: Two columns of a table begin with each other's field ids.": Plant(
        begun(columns(exchanged))
    ),
    "created-with-another-type: A column of a table begins with another type.": Plant(
        begun(columns(other_column(type="binary")))
    ),
    "created-with-a-required-column: A column of a table begins as required.": Plant(
        begun(columns(other_column(required=True)))
    ),
    "created-with-a-default: A column of a table begins with a default that nobody gave it.": Plant(
        begun(columns(other_column(**{"initial-default": 7})))
    ),
    "created-with-another-partitioning": Plant(begun(partitioned_otherwise)),
    "created-sorted": Plant(begun(sorted_by)),
    "created-in-another-format-version: A table begins with another format version than asked for.": Plant(
        begun(always(lambda m: replace(m, format_version=5 - m.format_version)))
    ),
    "created-elsewhere: A table begins with a location below which its metadata does not lie.": Plant(
        begun(always(raw(lambda r: {"location": r["location"] + "-elsewhere"})))
    ),
    "created-with-a-counter-ahead": Plant(begun(counter_ahead)),
}


# --- not well formed ------------------------------------------------------------------------------------------------------


def lacking(rng: Random, m: Metadata) -> Change:
    """A key that the specification requires is missing, or null."""
    key, null = rng.choice(REQUIRED_KEYS[2]), rng.random() < 0.5
    return lambda v: replace(v, raw={**v.raw, key: None} if null else {k: x for k, x in v.raw.items() if k != key})


def twice(rng: Random, m: Metadata) -> Change:
    """A schema, spec or sort order is listed twice."""
    key = rng.choice(["schemas", "partition-specs", "sort-orders"])
    return raw(lambda r: {key: [*r[key], r[key][0]]})


def of_nothing(rng: Random, m: Metadata) -> Change:
    """The schema, spec or sort order in use is none of those that are listed."""
    key = rng.choice(["current-schema-id", "default-spec-id", "default-sort-order-id"])
    return raw(lambda r: {key: 99})


def source_of_nothing(rng: Random, m: Metadata) -> Change | None:
    """A partition or sort field's source is no column."""
    if rng.random() < 0.5:
        field = {"transform": "identity", "source-id": 77, "direction": "asc", "null-order": "nulls-first"}
        return raw(lambda r: {"sort-orders": [{**o, "fields": [field]} for o in r["sort-orders"]]})
    if not m.raw["partition-specs"][0]["fields"]:
        return None
    return raw(
        lambda r: {
            "partition-specs": [
                {**s, "fields": [{**f, "source-id": 77} for f in s["fields"]]} for s in r["partition-specs"]
            ]
        }
    )


def partition_id_twice(rng: Random, m: Metadata) -> Change | None:
    """Two partition fields have the same field id."""
    if not m.raw["partition-specs"][0]["fields"]:
        return None
    return raw(
        lambda r: {
            "partition-specs": [
                {**s, "fields": [*s["fields"], {**s["fields"][0], "name": "more", "transform": "bucket[4]"}]}
                for s in r["partition-specs"]
            ]
        }
    )


def counter_behind(rng: Random, m: Metadata) -> Change | None:
    """last-column-id or last-partition-id is lower than an id that is in use."""
    key = rng.choice(["last-column-id", "last-partition-id"])
    if key == "last-partition-id" and not m.raw["partition-specs"][0]["fields"]:
        return None
    return raw(lambda r: {key: r[key] - 1})


ILL_FORMED: Plants = {
    "created-without-a-required-field": Plant(begun(lacking), "missing-field"),
    "created-with-an-entry-twice": Plant(begun(twice), "listed-twice"),
    "created-with-an-id-of-nothing": Plant(begun(of_nothing), "dangling-id"),
    "created-with-a-source-of-nothing": Plant(begun(source_of_nothing), "dangling-id"),
    "created-with-a-partition-id-twice": Plant(begun(partition_id_twice), "field-id"),
    "created-with-a-column-name-twice: Two columns of a table begin with one name.": Plant(
        begun(columns(lambda rng, f: [*f[:-2], {**f[-2], "name": f[0]["name"]}, f[-1]])), "field-id"
    ),
    "created-with-an-unknown-type: A column of a table begins with a type that does not exist.": Plant(
        begun(columns(other_column(type="varchar"))), "unknown-type"
    ),
    "created-with-a-counter-behind": Plant(begun(counter_behind), "field-id"),
    "created-in-format-version-4: A table begins in a format version that the specification does not have.": Plant(
        begun(always(lambda m: replace(m, format_version=4))), "unknown-format-version"
    ),
}


PLANTS = (
    *table(OTHER, "metadata", names="not-as-created", where=begins, seen=ASKED),
    *table(ILL_FORMED, "metadata", where=begins, seen=METADATA_SPEC),
)
