"""Bugs that the ``metadata`` checker must find: what versions say is changed by operations that must not change it.

Each is planted at the commit of an ordinary write, the culprit: from its version on, or in that version only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checkers.evidence.history import Event
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Metadata
from checkers.selftest.mutation import Mutation, Plant, mutation
from checkers.selftest.world import Planted, Table, World, fresh, inserted
from checkers.selftest.wrongmetadata import Change, positions, raw, undisturbed, with_commit, with_versions

STALE = "https://github.com/apache/iceberg/issues/14093: a stale schema overwrites a newer one"
REPLACED = "https://github.com/apache/iceberg/issues/15090: replace commits a stale table"
SPEC = "https://iceberg.apache.org/spec/#table-metadata-fields"

Fields = list[dict[str, Any]]


def by_a_write(w: World, change: Change, wanted: Callable[[Metadata], object] = lambda m: True) -> Planted | None:
    """The change from the version of a write on, or in that version only."""
    for t, k in positions(w):
        n = t.at(k)
        if wanted(t.log.metadata[n]):
            last = n if w.rng.random() < 0.5 else len(t.log.metadata)
            return w.planted(t.op(k).op, log=with_versions(t, n, last, change))
    return None


def _plant(does: str, change: Callable[[World], Change], wanted: Callable[[Metadata], object]) -> Plant:
    def plant(w: World) -> Planted | None:
        return by_a_write(w, change(w), wanted)

    plant.__doc__ = does
    return plant


def _has(*keys: str) -> Callable[[Metadata], object]:
    return lambda m: all(m.raw.get(k) is not None for k in keys)


# --- schemas: the same id, another content ----------------------------------------------------------------------------------


def _typed(fields: Fields, old: str, new: str) -> Fields:
    n = next(n for n, f in enumerate(fields) if f["type"] == old)
    return [{**f, "type": new} if k == n else f for k, f in enumerate(fields)]


def _exchanged(fields: Fields) -> Fields:
    a, b = fields[1], fields[3]
    return [fields[0], {**a, "id": b["id"]}, fields[2], {**b, "id": a["id"]}, *fields[4:]]


def _with_column(fields: Fields, id: int) -> Fields:
    return [*fields, {"id": id, "name": "more", "required": False, "type": "int"}]


IN_PLACE: tuple[tuple[str, str, Callable[[Fields], Fields]], ...] = (
    (
        "column-narrowed-in-place",
        "The schema's long column becomes an int, under the same schema id.",
        lambda f: _typed(f, "long", "int"),
    ),
    (
        "column-retyped-in-place",
        "The schema's string column becomes binary, under the same schema id.",
        lambda f: _typed(f, "string", "binary"),
    ),
    (
        "column-renamed-in-place",
        "A column gets another name, under the same schema id.",
        lambda f: [*f[:-1], {**f[-1], "name": "renamed"}],
    ),
    (
        "column-required-in-place",
        "A column becomes required, under the same schema id.",
        lambda f: [{**f[0], "required": True}, *f[1:]],
    ),
    ("field-ids-exchanged", "Two columns exchange their field ids, so that each reads the other's values.", _exchanged),
    (
        "column-added-in-place",
        "The schema gets a column more, under the same schema id.",
        lambda f: _with_column(f, len(f) + 1),
    ),
    ("field-id-given-twice", "Two columns have the same field id.", lambda f: _with_column(f, f[0]["id"])),
    ("field-id-too-high", "A column has a field id above last-column-id.", lambda f: _with_column(f, 900)),
)


def _schemas(change: Callable[[Fields], Fields]) -> Change:
    def changed(r: dict[str, Any]) -> Mapping[str, Any]:
        return {"schemas": [{**s, "fields": change([dict(f) for f in s["fields"]])} for s in r["schemas"]]}

    return raw(changed)


SCHEMAS = tuple(
    mutation(name, "metadata", "schema-changed", "field-id", seen=STALE)(
        _plant(does, lambda w, c=change: _schemas(c), _has("schemas"))  # type: ignore[misc]
    )
    for name, does, change in IN_PLACE
)


# --- ids of nothing ---------------------------------------------------------------------------------------------------------

OF_NOTHING = tuple(
    mutation(f"{words}-of-nothing", "metadata", "dangling-id", changed, seen=REPLACED)(
        _plant(f"{key} is the id of no entry.", lambda w, k=key: raw(lambda r: {k: 99}), _has(key, listed))  # type: ignore[misc]
    )
    for words, key, listed, changed in (
        ("current-schema", "current-schema-id", "schemas", "schema-changed"),
        ("default-spec", "default-spec-id", "partition-specs", "partition-spec-changed"),
        ("default-sort-order", "default-sort-order-id", "sort-orders", "sort-order-changed"),
    )
)


@mutation("snapshot-schema-of-nothing", "metadata", "dangling-id", seen=STALE)
def snapshot_schema(w: World) -> Planted | None:
    """A snapshot's schema-id is the id of no schema."""
    for t, k in positions(w, lambda t, c: t.log.metadata[c.metadata].raw.get("schemas")):
        return w.planted(t.op(k).op, log=with_commit(t, k, schema_id=99))
    return None


# --- specs, sort orders, properties and the rest ----------------------------------------------------------------------------


def _other_spec(r: dict[str, Any]) -> Mapping[str, Any]:
    field = {"name": "b", "transform": "bucket[4]", "source-id": 1, "field-id": 1000}
    return {"partition-specs": [{**s, "fields": [field]} for s in r["partition-specs"]]}


def _new_spec(r: dict[str, Any]) -> Mapping[str, Any]:
    field = {"name": "b", "transform": "bucket[4]", "source-id": 1, "field-id": 1001}
    return {"partition-specs": [*r["partition-specs"], {"spec-id": 7, "fields": [field]}], "default-spec-id": 7}


def _new_order(r: dict[str, Any]) -> Mapping[str, Any]:
    field = {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}
    return {"sort-orders": [*r["sort-orders"], {"order-id": 7, "fields": [field]}], "default-sort-order-id": 7}


def _property(w: World) -> Change:
    key, value = w.rng.choice(
        [
            ("write.delete.isolation-level", "snapshot"),
            ("write.update.isolation-level", "snapshot"),
            ("write.merge.mode", "none"),
            ("commit.retry.num-retries", "0"),
            ("gc.enabled", "never"),
        ]
    )
    return raw(lambda r: {"properties": {**r["properties"], key: value}})


def _lacking(w: World) -> Change:
    key = w.rng.choice(["table-uuid", "location", "last-column-id", "schemas", "partition-specs", "last-partition-id"])
    return lambda m: replace(m, raw={k: v for k, v in m.raw.items() if k != key})


def _statistics(w: World) -> Change:
    def change(m: Metadata) -> Metadata:
        said = {"snapshot-id": m.current, "statistics-path": "metadata/x.stats", "file-size-in-bytes": 9}
        return replace(m, raw={**m.raw, "statistics": [*(m.raw.get("statistics") or ()), said]})

    return change


SAID: Sequence[tuple[str, tuple[str, ...], str, Callable[[World], Change], Callable[[Metadata], object], str]] = (
    (
        "spec-changed-in-place",
        ("partition-spec-changed",),
        "The partition spec has other fields, under the same spec id.",
        lambda w: raw(_other_spec),
        _has("partition-specs"),
        REPLACED,
    ),
    (
        "spec-of-nobody",
        ("partition-spec-changed",),
        "The table has a new default partition spec that nobody made.",
        lambda w: raw(_new_spec),
        _has("partition-specs", "default-spec-id"),
        REPLACED,
    ),
    (
        "sort-order-of-nobody",
        ("sort-order-changed",),
        "The table has a new default sort order that nobody made.",
        lambda w: raw(_new_order),
        _has("sort-orders"),
        REPLACED,
    ),
    (
        "property-set-by-nobody",
        ("property-changed",),
        "A property, such as an isolation level, has a value that nobody set.",
        _property,
        _has("properties"),
        "https://github.com/apache/iceberg/issues/16942: properties set while a table was replaced",
    ),
    (
        "location-moved",
        ("location-changed",),
        "The table's location is another one, and nobody moved it.",
        lambda w: raw(lambda r: {"location": r["location"] + "-elsewhere"}),
        _has("location"),
        SPEC,
    ),
    (
        "format-version-raised",
        ("format-version-changed",),
        "The format version is one higher, and nobody upgraded the table.",
        lambda w: lambda m: replace(m, format_version=m.format_version + 1),
        lambda m: True,
        "https://github.com/apache/iceberg/issues/16146: commits around an upgrade",
    ),
    (
        "next-row-id-null",
        ("next-row-id",),
        "A version of a version 3 table has no next-row-id.",
        lambda w: lambda m: replace(m, next_row_id=None),
        lambda m: m.next_row_id is not None,
        "https://github.com/apache/iceberg/issues/16263",
    ),
    (
        "required-field-missing",
        ("missing-field", "vanished-schema"),
        "A version lacks a field that the specification requires.",
        _lacking,
        _has("table-uuid", "location", "last-column-id", "schemas", "partition-specs", "last-partition-id"),
        SPEC,
    ),
    (
        "statistics-of-nobody",
        ("statistics-changed",),
        "A version lists statistics that nobody computed.",
        _statistics,
        lambda m: m.current is not None,
        SPEC,
    ),
)
CONTENTS = tuple(
    mutation(name, "metadata", *finds, seen=seen)(_plant(does, change, wanted))
    for name, finds, does, change, wanted, seen in SAID
)


@mutation("column-narrowed-beside-a-new-one", "metadata", "schema-evolution", seen=STALE)
def narrowed(w: World) -> Planted | None:
    """An operation that adds a column, the last to change the table, narrows one that is there: its schema reads long values as int."""
    op, process = "narrow", fresh(w.events)
    for t in w.shuffled(w.tables):
        last = t.log.metadata[-1]
        old = next(s for s in last.raw["schemas"] if s["schema-id"] == last.raw["current-schema-id"])
        if not last.raw.get("metadata-log") or not any(f["type"] == "long" for f in old["fields"]):
            continue
        column = 1 + last.raw["last-column-id"]
        new = {**old, "schema-id": 1 + max(s["schema-id"] for s in last.raw["schemas"])}
        new["fields"] = _with_column(_typed(old["fields"], "long", "int"), column)
        entry = {"timestamp-ms": last.last_updated_ms, "metadata-file": last.location}
        changes = {
            "schemas": [*last.raw["schemas"], new],
            "current-schema-id": new["schema-id"],
            "last-column-id": column,
            "metadata-log": [*last.raw["metadata-log"], entry],
        }
        location = f"{last.location.rpartition('/')[0]}/{last.n + 1:05d}-{op}.metadata.json"
        version = replace(last, n=last.n + 1, location=location, raw={**last.raw, **changes})
        captures = (*t.log.captures[:-1], replace(t.log.captures[-1], metadata=location))
        log = replace(t.log, metadata=(*t.log.metadata, version), captures=captures)
        # nobody knows how it ended: it is under way from here to the end
        at = w.rng.randrange(t.op(1).invoked.index + 2, len(w.events))
        asked = Event(0, 0, "invoke", process, "add-column", t.name, {"column": "more"}, op)
        return w.planted(op, log=log, events=inserted(w.events, at, [asked]))
    return None


@mutation("last-sequence-number-of-nobody", "metadata", "last-sequence-number", seen=SPEC)
def last_sequence_number(w: World) -> Planted | None:
    """From a version on, last-sequence-number is higher than any snapshot's number."""
    for t, k in positions(w):
        more = w.rng.randrange(1, 9)
        change = lambda m, n=more: replace(m, last_sequence_number=m.last_sequence_number + n)  # noqa: E731
        return w.planted(t.op(k).op, log=with_versions(t, t.at(k), len(t.log.metadata), change))
    return None


# --- refs -------------------------------------------------------------------------------------------------------------------


def _quiet(w: World) -> list[tuple[Table, int]]:
    """Positions after the second, on tables without expiry."""
    return w.shuffled((t, k) for t in undisturbed(w) for k in t.positions[2:])


@mutation("tag-moved", "metadata", "ref-changed", seen="https://github.com/apache/iceberg-go/pull/716")
def tag_moved(w: World) -> Planted | None:
    """A tag points to another snapshot than before."""
    for t, k in _quiet(w):
        n = t.at(k)
        a, b = t.main[0].snapshot_id, t.main[1].snapshot_id
        log = with_versions(t, 0, n - 1, lambda m: replace(m, refs={**m.refs, "keep": a}))  # noqa: B023
        log = with_versions(
            Table(t.spec, log, t.operations),
            n,
            len(log.metadata),
            lambda m: replace(m, refs={**m.refs, "keep": b}),  # noqa: B023
        )
        return w.planted(t.op(k).op, log=log)
    return None


@mutation("branch-of-nobody", "metadata", "ref-changed", seen="https://github.com/apache/iceberg/issues/15001")
def branch_of_nobody(w: World) -> Planted | None:
    """A branch appears that nobody made."""
    for t, k in _quiet(w):
        at = t.main[k - 2].snapshot_id
        change = lambda m, at=at: replace(m, refs={**m.refs, "audit": at})  # noqa: E731
        return w.planted(t.op(k).op, log=with_versions(t, t.at(k), len(t.log.metadata), change))
    return None


MUTATIONS: tuple[Mutation, ...] = (
    *SCHEMAS,
    *OF_NOTHING,
    snapshot_schema,
    *CONTENTS,
    narrowed,
    last_sequence_number,
    tag_moved,
    branch_of_nobody,
)
