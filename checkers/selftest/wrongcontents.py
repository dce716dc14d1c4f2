"""Bugs that the ``metadata`` checker must find: what versions say is changed by operations that must not change it.

Each is planted at the commit of an ordinary write, the culprit: from its version on, or in that version only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from checkers.evidence.history import Event
from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.selftest import edits
from checkers.selftest.goodtable import Change
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.sites import CommitSite, has, later, raw, undisturbed, with_ref
from checkers.selftest.world import Planted, World

STALE = "apache/iceberg#14093: a stale schema overwrites a newer one"
REPLACED = "apache/iceberg#15090: replace commits a stale table"
METADATA_SPEC = "https://iceberg.apache.org/spec/#table-metadata-fields"

Fields = list[dict[str, Any]]
Raw = dict[str, Any]


def by_a_write(change: Change) -> Callable[[CommitSite], Planted]:
    """The change from the version of a write on, or in that version only."""
    return lambda p: p.versions(change, until=p.often())


# --- schemas: the same id, another content ----------------------------------------------------------------------------------


def in_place(change: Callable[[Fields], Fields]) -> Callable[[CommitSite], Planted]:
    """Every schema has other fields, under the same id."""

    def changed(r: Raw) -> Mapping[str, Any]:
        return {"schemas": [{**s, "fields": change([dict(f) for f in s["fields"]])} for s in r["schemas"]]}

    return by_a_write(raw(changed))


def typed(fields: Fields, old: str, new: str) -> Fields:
    """The fields, with the first of a type of another type."""
    n = next(n for n, f in enumerate(fields) if f["type"] == old)
    return [{**f, "type": new} if k == n else f for k, f in enumerate(fields)]


def exchanged(fields: Fields) -> Fields:
    """The fields, with two ids exchanged."""
    a, b = fields[1], fields[3]
    return [fields[0], {**a, "id": b["id"]}, fields[2], {**b, "id": a["id"]}, *fields[4:]]


def with_column(fields: Fields, id: int) -> Fields:
    """The fields, and one more."""
    return [*fields, {"id": id, "name": "more", "required": False, "type": "int"}]


SCHEMAS: Plants = {
    "column-narrowed-in-place: The schema's long column becomes an int, under the same schema id.": Plant(
        in_place(lambda f: typed(f, "long", "int"))
    ),
    "column-retyped-in-place: The schema's string column becomes binary, under the same schema id.": Plant(
        in_place(lambda f: typed(f, "string", "binary"))
    ),
    "column-renamed-in-place: A column gets another name, under the same schema id.": Plant(
        in_place(lambda f: [*f[:-1], {**f[-1], "name": "renamed"}])
    ),
    "column-required-in-place: A column becomes required, under the same schema id.": Plant(
        in_place(lambda f: [{**f[0], "required": True}, *f[1:]])
    ),
    "field-ids-exchanged: Two columns exchange their field ids, so that each reads the other's values.": Plant(
        in_place(exchanged)
    ),
    "column-added-in-place: The schema gets a column more, under the same schema id.": Plant(
        in_place(lambda f: with_column(f, len(f) + 1))
    ),
    "field-id-given-twice: Two columns have the same field id.": Plant(in_place(lambda f: with_column(f, f[0]["id"]))),
    "field-id-too-high: A column has a field id above last-column-id.": Plant(in_place(lambda f: with_column(f, 900))),
}


# --- ids of nothing ---------------------------------------------------------------------------------------------------------

OF_NOTHING: Plants = {
    "current-schema-of-nothing: current-schema-id is the id of no entry.": Plant(
        by_a_write(raw(lambda r: {"current-schema-id": 99})),
        "dangling-id schema-changed",
        where=later(has("current-schema-id", "schemas")),
    ),
    "default-spec-of-nothing: default-spec-id is the id of no entry.": Plant(
        by_a_write(raw(lambda r: {"default-spec-id": 99})),
        "dangling-id partition-spec-changed",
        where=later(has("default-spec-id", "partition-specs")),
    ),
    "default-sort-order-of-nothing: default-sort-order-id is the id of no entry.": Plant(
        by_a_write(raw(lambda r: {"default-sort-order-id": 99})),
        "dangling-id sort-order-changed",
        where=later(has("default-sort-order-id", "sort-orders")),
    ),
    "snapshot-schema-of-nothing: A snapshot's schema-id is the id of no schema.": Plant(
        lambda p: p.changed(schema_id=99), "dangling-id", where=later(lambda p: p.m.raw.get("schemas")), seen=STALE
    ),
}


# --- specs, sort orders, properties and the rest ----------------------------------------------------------------------------

REQUIRED = ("table-uuid", "location", "last-column-id", "schemas", "partition-specs", "last-partition-id")
PROPERTIES = {
    "write.delete.isolation-level": "snapshot",
    "write.update.isolation-level": "snapshot",
    "write.merge.mode": "none",
    "commit.retry.num-retries": "0",
    "gc.enabled": "never",
}


def bucketed(id: int) -> Raw:
    """A partition field that no recorded table has."""
    return {"name": "b", "transform": "bucket[4]", "source-id": 1, "field-id": id}


def new_spec(r: Raw) -> Raw:
    """A new default partition spec."""
    spec = {"spec-id": 7, "fields": [bucketed(1001)]}
    return {"partition-specs": [*r["partition-specs"], spec], "default-spec-id": 7}


def new_order(r: Raw) -> Raw:
    """A new default sort order."""
    field = {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}
    return {"sort-orders": [*r["sort-orders"], {"order-id": 7, "fields": [field]}], "default-sort-order-id": 7}


def property_set(p: CommitSite) -> Planted:
    """A property, such as an isolation level, has a value that nobody set."""
    key, value = p.w.rng.choice([*PROPERTIES.items()])
    return by_a_write(raw(lambda r: {"properties": {**r["properties"], key: value}}))(p)


def lacking(p: CommitSite) -> Planted:
    """A version lacks a field that the specification requires."""
    key = p.w.rng.choice(REQUIRED)
    return by_a_write(lambda m: replace(m, raw={k: v for k, v in m.raw.items() if k != key}))(p)


def with_statistics(m: Metadata) -> Metadata:
    """A version with statistics of its snapshot."""
    statistics = {"snapshot-id": m.current, "statistics-path": "metadata/x.stats", "file-size-in-bytes": 9}
    return replace(m, raw={**m.raw, "statistics": [*(m.raw.get("statistics") or ()), statistics]})


def sequence_raised(p: CommitSite) -> Planted:
    """From a version on, last-sequence-number is higher than any snapshot's number."""
    more = p.w.rng.randrange(1, 9)
    return p.versions(lambda m: replace(m, last_sequence_number=m.last_sequence_number + more))


def narrowed(w: World) -> Planted | None:
    """An operation that adds a column, the last to change the table, narrows one that is there: its schema reads long values as int."""
    op, process = "narrow", edits.fresh(w.events)
    for t in w.shuffled(w.tables):
        last = t.log.metadata[-1]
        old = next(s for s in last.raw["schemas"] if s["schema-id"] == last.raw["current-schema-id"])
        if not last.raw.get("metadata-log") or not any(f["type"] == "long" for f in old["fields"]):
            continue
        column = 1 + last.raw["last-column-id"]
        new = {**old, "schema-id": 1 + max(s["schema-id"] for s in last.raw["schemas"])}
        new["fields"] = with_column(typed(old["fields"], "long", "int"), column)
        entry = {"timestamp-ms": last.last_updated_ms, "metadata-file": last.location}
        changes = {
            "schemas": [*last.raw["schemas"], new],
            "current-schema-id": new["schema-id"],
            "last-column-id": column,
            "metadata-log": [*last.raw["metadata-log"], entry],
        }
        location = f"{last.location.rpartition('/')[0]}/{last.n + 1:05d}-{op}.metadata.json"
        version = replace(last, n=last.n + 1, location=location, raw={**last.raw, **changes})
        log = replace(t.with_capture(-1, location), metadata=(*t.log.metadata, version))
        # nobody knows how it ended: it is under way from here to the end
        index = w.rng.randrange(t.op(1).invoked.index + 2, len(w.events))
        asked = Event(0, 0, "invoke", process, "add-column", t.name, {"column": "more"}, op)
        return w.planted(op, log=log, events=edits.inserted(w.events, index, [asked]))
    return None


CONTENTS: Plants = {
    "spec-changed-in-place: The partition spec has other fields, under the same spec id.": Plant(
        by_a_write(
            raw(lambda r: {"partition-specs": [{**s, "fields": [bucketed(1000)]} for s in r["partition-specs"]]})
        ),
        "partition-spec-changed",
        where=later(has("partition-specs")),
        seen=REPLACED,
    ),
    "spec-of-nobody: The table has a new default partition spec that nobody made.": Plant(
        by_a_write(raw(new_spec)),
        "partition-spec-changed",
        where=later(has("partition-specs", "default-spec-id")),
        seen=REPLACED,
    ),
    "sort-order-of-nobody: The table has a new default sort order that nobody made.": Plant(
        by_a_write(raw(new_order)), "sort-order-changed", where=later(has("sort-orders")), seen=REPLACED
    ),
    "property-set-by-nobody": Plant(
        property_set,
        "property-changed",
        where=later(has("properties")),
        seen="apache/iceberg#16942: properties set while a table was replaced",
    ),
    "location-moved: The table's location is another one, and nobody moved it.": Plant(
        by_a_write(raw(lambda r: {"location": r["location"] + "-elsewhere"})),
        "location-changed",
        where=later(has("location")),
    ),
    "format-version-raised: The format version is one higher, and nobody upgraded the table.": Plant(
        by_a_write(lambda m: replace(m, format_version=m.format_version + 1)),
        "format-version-changed",
        seen="apache/iceberg#16146: commits around an upgrade",
    ),
    "next-row-id-null: A version of a version 3 table has no next-row-id.": Plant(
        by_a_write(lambda m: replace(m, next_row_id=None)),
        "next-row-id",
        where=later(lambda p: p.m.next_row_id is not None),
        seen="apache/iceberg#16263",
    ),
    "required-field-missing": Plant(lacking, "missing-field vanished-schema", where=later(has(*REQUIRED))),
    "statistics-of-nobody: A version lists statistics that nobody computed.": Plant(
        by_a_write(with_statistics), "statistics-changed", where=later(lambda p: p.m.current is not None)
    ),
    "column-narrowed-beside-a-new-one": Plant(narrowed, "schema-evolution", where=whole, seen=STALE),
    "last-sequence-number-of-nobody": Plant(sequence_raised, "last-sequence-number"),
}


# --- refs -------------------------------------------------------------------------------------------------------------------


def quiet(w: World) -> Iterator[CommitSite]:
    """Commits after the second, of tables without expiry."""
    return (CommitSite(w, t, k) for t, k in w.shuffled((t, k) for t in undisturbed(w) for k in t.positions[2:]))


def tag_moved(p: CommitSite) -> Planted:
    """A tag points to another snapshot than before."""
    before, now = (with_ref("keep", c.snapshot_id) for c in p.t.main[:2])
    return p.planted(log=p.t.with_versions(0, len(p.t.log.metadata), lambda m: (before if m.n < p.n else now)(m)))


REFS: Plants = {
    "tag-moved": Plant(tag_moved, seen="apache/iceberg-go#716"),
    "branch-of-nobody: A branch appears that nobody made.": Plant(
        lambda p: p.versions(with_ref("audit", p.parent.snapshot_id)), seen="apache/iceberg#15001"
    ),
}


PLANTS = (
    *table(SCHEMAS, "metadata", names="schema-changed field-id", where=later(has("schemas")), seen=STALE),
    *table(OF_NOTHING, "metadata", seen=REPLACED),
    *table(CONTENTS, "metadata", where=later(), seen=METADATA_SPEC),
    *table(REFS, "metadata", names="ref-changed", where=quiet),
)
