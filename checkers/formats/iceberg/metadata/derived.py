"""The version that is due: what its predecessor says, with exactly the change that one operation's arguments ask for.

A version has one maker. So a :class:`Maker` must explain everything in which a version differs from its predecessor, alone. What the
operations of the kinds in :data:`COLUMNS_AFTER` ask of a schema is derived and compared, field by field; of any other kind only is known
which parts of the metadata it may change. The fields that engines and catalogs fill as they like are in ``docs/evidence.md``, and in
:data:`OF_COLUMNS`, :data:`OF_CATALOGS` and :func:`meaning`.

In Iceberg a new column gets the next id and is the last one (``SchemaUpdate.addColumn``, ``internalAddColumn``); no other column changes
(``SchemaUpdate.apply``). A schema that was there before is used again (``TableMetadata.Builder.reuseOrCreateNewSchemaId``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from checkers.evidence.history import Operation
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline.timeline import kind_of
from workloads.operations.kind import Kind, Lost, Part

OF_COLUMNS = (
    "schema.name-mapping.default",
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
)
"""Beginnings of properties that a change of the schema rewrites."""
OF_CATALOGS = ("nessie.",)
"""Beginnings of properties that a catalog writes into each version."""
SET_PROPERTY = "set-property"
"""The kind that sets one property, which its argument ``property`` names, to its id, and no other."""
UPGRADE = "upgrade"
"""The kind that makes the format version 3."""
TYPE_NAMES = {"bigint": "long"}
"""Type in SQL → in a schema, where the words differ."""

Fields = list[dict[str, Any]]


def _added(fields: Fields, value: Mapping[str, Any], op: str, last: int) -> Fields:
    type = str(value.get("type", "int"))
    new = {"id": last + 1, "name": value["column"], "required": False, "type": TYPE_NAMES.get(type, type), "doc": op}
    return [*fields, new]


def _changed(fields: Fields, value: Mapping[str, Any], **changes: Any) -> Fields:
    return [{**f, **changes} if f.get("name") == value["column"] else f for f in fields]


COLUMNS_AFTER: Mapping[str, Callable[[Fields, Mapping[str, Any], str, int], Fields]] = {
    "add-column": _added,
    "widen-column": lambda fields, value, op, last: _changed(fields, value, type="long"),
    "rename-column": lambda fields, value, op, last: _changed(fields, value, name=value["to"]),
    "drop-column": lambda fields, value, op, last: [f for f in fields if f.get("name") != value["column"]],
}
"""Kind → the columns that it leaves of those that it finds; given its arguments, its id, and the last id that a column has."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Who may have made a version: one operation; several where versions may be missing; none: nobody who changes metadata."""

    ops: tuple[Operation, ...]

    def may(self, part: Part) -> bool:
        """Whether it may change a part, or nobody knows what it changes."""
        return any((k := kind_of(o)) is None or part in k.changes for o in self.ops)

    def takes(self, lost: Lost | None) -> bool:
        """Whether it may take something away, or nobody knows what it takes."""
        return any((k := kind_of(o)) is None or lost in k.takes_away for o in self.ops)

    def dropped(self) -> frozenset[str]:
        """The columns that it drops."""
        dropping = (o for o in self.ops if (k := kind_of(o)) is not None and "column" in k.takes_away)
        return frozenset(str(o.value.get("column")) for o in dropping if isinstance(o.value, Mapping))

    def sets_main(self, snapshot: int | None) -> bool:
        """Whether it may set main to this snapshot, or nobody knows where to; None: to any."""
        return any(
            (k := kind_of(o)) is None or k.replaces or (k.sets_back and snapshot in (None, asked_for(o, snapshot)))
            for o in self.ops
        )

    def named(self) -> set[Any]:
        """The columns that its arguments name."""
        return {o.value.get(k) for o in self.ops if isinstance(o.value, Mapping) for k in ("column", "to")} - {None}

    def schema(self, before: Metadata) -> dict[str, Any] | None:
        """The current schema that is due; None: any may be, or nothing is known of it."""
        old, last = current_schema(before.raw), before.raw.get("last-column-id")
        if len(self.ops) != 1 or old is None or not isinstance(last, int):
            return None
        (o,) = self.ops
        change, value = COLUMNS_AFTER.get(o.f), o.value
        if change is None or not isinstance(value, Mapping) or not self._fits(o.f, value):
            return None
        fields = [dict(f) for f in dicts(old.get("fields"))]
        return {**old, "fields": change(fields, value, o.op, last) if self.can(before) else fields}

    def can(self, before: Metadata) -> bool:
        """Whether the column that it changes is there, and none of the name that it gives; it fails otherwise."""
        (o,) = self.ops
        names = {f.get("name") for f in columns(current_schema(before.raw)).values()}
        return (o.value["column"] in names) != (o.f == "add-column") and o.value.get("to") not in names

    @staticmethod
    def _fits(f: str, value: Mapping[str, Any]) -> bool:
        needs = ("column", "to") if f == "rename-column" else ("column",)
        return all(isinstance(value.get(k), str) for k in needs)

    def properties(self, before: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The properties that are due; None: any may be."""
        if not self.may("property"):
            return before
        if len(self.ops) != 1 or (o := self.ops[0]).f != SET_PROPERTY or not isinstance(o.value, Mapping):
            return None
        key = o.value.get("property")
        return {**before, key: o.op} if isinstance(key, str) else None

    def format_version(self, before: int) -> int | None:
        """The format version that is due; None: any may be."""
        if not self.may("format-version"):
            return before
        return max(before, 3) if len(self.ops) == 1 and self.ops[0].f == UPGRADE else None


def alters(kind: Kind) -> bool:
    """Whether operations of a kind may change more of the metadata than what their snapshot brings."""
    return bool(kind.changes or kind.takes_away or kind.sets_back or kind.replaces)


def asked_for(o: Operation, otherwise: int | None) -> int | None:
    """The snapshot to which a rollback was told to set main; without an answer that says so: ``otherwise``."""
    snapshot = o.result.get("snapshot") if o.type == "ok" and isinstance(o.result, Mapping) else None
    return snapshot if isinstance(snapshot, int) else otherwise


# --- what a version says ----------------------------------------------------------------------------------------------


def dicts(items: Any) -> list[Mapping[str, Any]]:
    """The JSON objects of a list."""
    return [x for x in items if isinstance(x, Mapping)] if isinstance(items, list) else []


def meaning(value: Any) -> Any:
    """A JSON value without what is null or empty, and with one form of what has two."""
    if isinstance(value, Mapping):
        out = {k: meaning(v) for k, v in value.items() if v is not None and (v != [] or k == "fields")}
        sources = out.pop("source-ids", None)
        if sources is not None:
            out.setdefault("source-id", sources[0] if isinstance(sources, list) and len(sources) == 1 else sources)
        return out
    if isinstance(value, list):
        return [meaning(v) for v in value]
    return value.replace(" ", "") if isinstance(value, str) and value.startswith(("decimal", "fixed")) else value


def current_schema(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The current schema; None where there is none."""
    found = (s for s in dicts(raw.get("schemas")) if s.get("schema-id") == raw.get("current-schema-id"))
    return next(found, None)


def columns(schema: Mapping[str, Any] | None) -> dict[Any, Mapping[str, Any]]:
    """Field id → column."""
    return {f.get("id"): f for f in dicts((schema or {}).get("fields"))}


def properties(m: Metadata) -> dict[str, Any]:
    """The properties that are the table's, and not a catalog's."""
    given = m.raw.get("properties")
    if not isinstance(given, Mapping):
        return {}
    return {k: v for k, v in given.items() if not k.startswith(OF_CATALOGS)}


def signs(m: Metadata) -> set[Any]:
    """The ids of operations that a version's comments and properties name: these made it or one before it, and no later one."""
    comments = {f.get("doc") for s in dicts(m.raw.get("schemas")) for f in dicts(s.get("fields"))}
    return comments.union(v for v in properties(m).values() if isinstance(v, str))


def schema_differences(due: Mapping[str, Any], has: Mapping[str, Any] | None) -> list[str]:
    """In what a schema is not the one that is due, in words; a comment that is missing is no difference, because some engines keep none."""
    meant, found = columns(due), columns(has)
    words: list[str] = []
    for id in (*meant, *(i for i in found if i not in meant)):
        a, b = meaning(meant.get(id)), meaning(found.get(id))
        if a is None or b is None:
            f = a or b
            word = "should not be there" if a is None else "should be there, and is missing"
            words.append(f"the column {f.get('name')} ({f.get('type')}, field id {id}) {word}")
            continue
        other = [k for k in sorted({*a, *b}) if a.get(k) != b.get(k) and not (k == "doc" and k not in b)]
        words += [
            f"the {k} of column {b.get('name') if k != 'name' else a.get('name')} (field id {id}) is {b.get(k, 'nothing')}, "
            f"and should be {a.get(k, 'nothing')}"
            for k in other
        ]
    if not words and [*meant] != [*found]:
        words.append(f"its columns are in the order {[*found]}, and should be in {[*meant]}")
    rest = ({k: meaning(v) for k, v in (s or {}).items() if k not in ("fields", "schema-id")} for s in (due, has))
    a, b = ({k: v for k, v in s.items() if v is not None and v != []} for s in rest)
    words += [
        f"its {k} is {b.get(k, 'nothing')}, and should be {a.get(k, 'nothing')}"
        for k in sorted({*a, *b})
        if a.get(k) != b.get(k)
    ]
    return words
