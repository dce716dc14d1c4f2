"""What each version says besides its snapshots: schemas, specs, sort orders, properties, refs, location, format version, statistics.

A version says what its predecessor says, except for what the operation that made it may change (``metadata.responsible``): a
commit builds its metadata from the current one (``TableMetadata.buildFrom``) and adds its own changes. An entry with an id is never
changed in place: a changed schema, spec or sort order gets the next id (``TableMetadata.Builder.addSchemaInternal``,
``addPartitionSpecInternal``, ``addSortOrderInternal``).

**Equal** means equal in meaning. A key that is null and one that is absent are equal (Iceberg's releases differ in what they write), and
so are the two forms of a spec's source (``source-id``, ``source-ids``). A new schema rewrites the properties that speak of columns
(``SchemaUpdate.applyChangesToMapping``). Nessie names its own commit in each version (``nessie.*``, ``NessieUtil``): that is no property of the
table.

After a version that nothing explains, the next one may go on with what it says, or return to what was due: that is told once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain
from checkers.timeline.timeline import kind_of
from checkers.timeline.version_order import place
from workloads.operations.kind import Lost, Part

STATISTICS = ("statistics", "partition-statistics")
OF_COLUMNS = (
    "schema.name-mapping.default",
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
)
"""Beginnings of properties that a change of the schema rewrites."""
OF_CATALOGS = ("nessie.",)
"""Beginnings of properties that a catalog writes into each version."""
SET_PROPERTY = "set-property"
"""The kind that sets one property, which its argument ``property`` names, and no other."""
PROMOTED = {
    "int": ("long",),
    "float": ("double",),
    "date": ("timestamp", "timestamp_ns"),
}
"""Type → what it may become (spec, "Schema Evolution"); a ``decimal`` may become wider, ``unknown`` anything."""
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
REQUIRED = (
    "table-uuid",
    "location",
    "last-column-id",
    "schemas",
    "current-schema-id",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
    "sort-orders",
    "default-sort-order-id",
)
"""Fields that the specification requires since version 2, as far as the log keeps them unparsed."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of entries with ids, and the id of the one in use."""

    key: str
    id: str
    default: str
    part: Part
    lost: Lost | None
    vanished: str
    changed: str
    words: str


SCHEMAS = Listed(
    "schemas", "schema-id", "current-schema-id", "schema", "schema", "vanished-schema", "schema-changed", "schema"
)
LISTS = (
    SCHEMAS,
    Listed(
        "partition-specs",
        "spec-id",
        "default-spec-id",
        "spec",
        "spec",
        "vanished-partition-spec",
        "partition-spec-changed",
        "partition spec",
    ),
    Listed(
        "sort-orders",
        "order-id",
        "default-sort-order-id",
        "sort-order",
        None,
        "sort-order-changed",
        "sort-order-changed",
        "sort order",
    ),
)


_SELDOM = tuple(key for x in LISTS for key in (x.key, x.default))
"""Keys that few versions change."""
_ONCE = ("properties", "location", *STATISTICS)
"""Others."""
_MAIN = {"main"}


class Contents(Judging):
    """What the versions of one table say."""

    _last: tuple[Any, frozenset[int]] | None = None

    @cached_property
    def due(self) -> dict[tuple[str, int], Any]:
        """(part, version) → what was due, of versions that say something else."""
        return {}

    @cached_property
    def _held(self) -> dict[str, set[str]]:
        """Property → all its values so far."""
        return {}

    def step(self, step: Step) -> None:
        """Judge one version."""
        self._ids_of_nothing(step)
        self._field_ids(step)
        self._row_ids(step)
        before = step.before
        if before is None:
            return
        self._missing_fields(step, before)
        old, new = before.raw.get, step.after.raw.get
        if not self.due and all(old(k) is new(k) for k in _SELDOM):
            if (
                before.format_version == step.after.format_version
                and before.refs.keys() == step.after.refs.keys() == _MAIN
                and all(old(k) is new(k) for k in _ONCE)
            ):
                return
            lists: Sequence[Listed] = ()  # the log's reader makes equal parts the same object
        else:
            lists = LISTS
        for listed in lists:
            self._compare(listed.key, step, before, _said(listed.key, listed.default), self._list_judge(listed))
        self._compare("properties", step, before, properties_of, self._properties)
        self._compare("refs", step, before, _refs, self._refs)
        self._compare("location", step, before, _said("location"), self._location)
        self._compare("format-version", step, before, lambda m: m.format_version, self._format_version)
        self._compare("statistics", step, before, _said(*STATISTICS), self._statistics)

    def _compare(
        self,
        part: str,
        step: Step,
        before: Metadata,
        said: Callable[[Metadata], Any],
        judge: Callable[[Step, Metadata], bool],
    ) -> None:
        """Judge a part that differs from the predecessor's; ``judge`` says whether it may."""
        old, new = said(before), said(step.after)
        due = self.due.get((part, before.n))
        if old is new or old == new:
            if due is not None:
                self.due[part, step.after.n] = due
        elif due is not None and due[0] == new:
            return
        elif not judge(step, before):
            self.due[part, step.after.n] = due or (old,)

    # --- schemas, specs, sort orders

    def _list_judge(self, x: Listed) -> Callable[[Step, Metadata], bool]:
        def judge(step: Step, before: Metadata) -> bool:
            if step.after.raw.get(x.key) is None:
                return False  # told as a missing field
            (old, in_use), (new, now_in_use) = _listed(before, x), _listed(step.after, x)
            well = True
            gone = sorted(old.keys() - new.keys())
            if gone and not self.by.taken_away(step, x.lost):
                self.vanished(x.vanished, step, before, f"{x.words} {explain.listing(gone)}")
                well = False
            if x is SCHEMAS:
                well &= self._lost_columns(step, before)
            other = [n for n in old if n in new and old[n] != new[n] and _meaning(old[n]) != _meaning(new[n])]
            if other and not self.by.unknown_kind(step):
                never = [
                    f"{x.words} {n}, which never changes: {_difference(_meaning(old[n]), _meaning(new[n]))}"
                    for n in other
                ]
                self.changed(x.changed, step, before, explain.listing(never))
                well = False
            more = sorted(new.keys() - old.keys())
            moved = in_use != now_in_use and in_use not in gone
            if (more or moved) and not self.by.explained(step, x.part):
                words = [f"{x.words} {n}, which is new" for n in more]
                words += [f"{x.default} from {in_use} to {now_in_use}"] if moved else []
                self.changed(x.changed, step, before, explain.listing(words))
                well = False
            elif moved and x is SCHEMAS:
                well &= self._evolved(step, before, old.get(in_use), new.get(now_in_use))
            return well

        return judge

    def _evolved(
        self, step: Step, before: Metadata, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
    ) -> bool:
        """Whether a schema change left each column readable: files keep the type with which they were written."""
        if old is None or new is None or self.by.explained(step, "logs"):
            return True
        columns = {f.get("id"): f for f in _dicts(old.get("fields"))}
        wrong = [
            f"the column {f.get('name')} from {was} to {now}"
            for f in _dicts(new.get("fields"))
            if (had := columns.get(f.get("id"))) is not None
            for was, now in [(_column(had), _column(f))]
            if not _readable(had, f)
        ]
        if wrong:
            self.changed("schema-evolution", step, before, explain.listing(wrong))
        return not wrong

    def _lost_columns(self, step: Step, before: Metadata) -> bool:
        columns = _columns(step.after.raw)
        lost = [name for id, name in _columns(before.raw).items() if id not in columns]
        lost = [name for name in lost if name not in self.by.dropped(step)]
        if not columns or not lost or self.by.taken_away(step, "schema"):
            return True
        self.vanished(
            "vanished-schema", step, before, f"the column{'s' if len(lost) > 1 else ''} {explain.listing(lost)}"
        )
        return False

    # --- properties, refs, location, format version, statistics

    def _properties(self, step: Step, before: Metadata) -> bool:
        old, new = properties_of(before), properties_of(step.after)
        gone = sorted(old.keys() - new.keys())
        back = sorted(k for k in old.keys() & new.keys() if old[k] != new[k] and new[k] in self._held.get(k, ()))
        for k in (*old, *new):
            self._held.setdefault(k, set()).update(p[k] for p in (old, new) if k in p)
        well = True
        by_schema = self.by.explained(step, "schema")
        if by_schema:
            gone, back = ([k for k in keys if not k.startswith(OF_COLUMNS)] for keys in (gone, back))
        if (gone or back) and not self.by.taken_away(step, "property"):
            words = [f"the property {k} = {old[k]}" for k in (*gone, *back)]
            self.vanished("vanished-property", step, before, explain.listing(words))
            well = False
        other = [k for k in sorted(new) if new[k] != old.get(k) and k not in back]
        if by_schema:
            other = [k for k in other if not k.startswith(OF_COLUMNS)]
        may = self._may_set(step)
        other = [k for k in other if may is not None and k not in may]
        if other:
            words = [f"the property {k} from {old.get(k, 'nothing')} to {new[k]}" for k in other]
            self.changed("property-changed", step, before, explain.listing(words))
            well = False
        return well

    def _may_set(self, step: Step) -> frozenset[str] | None:
        """The properties that the operations that can have made a version may set; None: any."""
        if self.by.unknown_kind(step):
            return None
        names: set[str] = set()
        for o in self.by.candidates(step):
            kind = kind_of(o)
            if kind is None or "property" not in kind.changes:
                continue
            name = o.value.get("property") if o.f == SET_PROPERTY and isinstance(o.value, Mapping) else None
            if not isinstance(name, str):
                return None
            names.add(name)
        return frozenset(names)

    def _refs(self, step: Step, before: Metadata) -> bool:
        old, new = before.refs, step.after.refs
        well = True
        for name in sorted(old.keys() - new.keys()):
            if not self.by.taken_away(step, None if name == "main" else "ref"):
                self.vanished("vanished-ref", step, before, f"the ref {name}", (old[name],))
                well = False
        other = [k for k in sorted(new) if k != "main" and new[k] != old.get(k)]
        if other and not self.by.explained(step, "ref"):
            words = [f"the ref {k} from {old.get(k, 'nothing')} to snapshot {new[k]}" for k in other]
            self.changed("ref-changed", step, before, explain.listing(words), tuple(new[k] for k in other))
            well = False
        return well

    def _location(self, step: Step, before: Metadata) -> bool:
        old, new = before.raw.get("location"), step.after.raw.get("location")
        if not isinstance(old, str) or not isinstance(new, str) or place(old).rstrip("/") == place(new).rstrip("/"):
            return True
        if self.by.explained(step, "location"):
            return True
        self.changed("location-changed", step, before, f"the table's location from {old} to {new}")
        return False

    def _format_version(self, step: Step, before: Metadata) -> bool:
        old, new = before.format_version, step.after.format_version
        if new < old:
            return False  # told as such
        if self.by.explained(step, "format-version"):
            return True
        self.changed("format-version-changed", step, before, f"the format version from {old} to {new}")
        return False

    def _statistics(self, step: Step, before: Metadata) -> bool:
        """Statistics leave with their snapshot (``TableMetadata.Builder.removeSnapshots``)."""
        listed = set(step.after.snapshots)
        old = {k: v for k, v in _statistics(before).items() if k[1] in listed}
        new = _statistics(step.after)
        other = sorted({k for k in (*old, *new) if old.get(k) != new.get(k)}, key=str)
        if not other or self.by.explained(step, "statistics"):
            return True
        words = (f"the {kind} of snapshot {s}" for kind, s, _ in other)
        self.changed("statistics-changed", step, before, explain.listing(words))
        return False

    # --- one version

    def _missing_fields(self, step: Step, before: Metadata) -> None:
        m = step.after
        gone = [k for k in REQUIRED if before.raw.get(k) is not None and m.raw.get(k) is None]
        if gone and m.format_version > 1 and not self.by.unknown_kind(step):
            self.found(
                "missing-field",
                f"version {m.n} ({m.location}), {self.by.made_by(m)}, lacks {explain.listing(gone)}; version {before.n} "
                f"({before.location}), from which it was made, has it.",
                ops=self.by.accused(step),
                files=(m.location,),
            )

    def _ids_of_nothing(self, step: Step) -> None:
        m, before = step.after, step.before
        for x in LISTS:
            said = m.raw.get(x.default)
            same = (
                before is not None and before.raw.get(x.default) == said and before.raw.get(x.key) is m.raw.get(x.key)
            )
            if same and x is not SCHEMAS:
                continue
            ids = self._ids_of(m, x) if x is SCHEMAS else ids_of(m.raw, x)
            if ids and said is not None and said not in ids and not same:
                self._dangling(step, f"{x.default} is {said}", x, ids, self.by.accused(step))
            if x is SCHEMAS and ids and before is not None:
                for c in self.chain.commits_of.get(m.n, ()):
                    if c.schema_id is not None and c.schema_id != said:
                        self.seen.count("of_an_older_schema")
                    if c.schema_id is not None and c.schema_id not in ids:
                        what = f"{explain.snapshot(c)}{self.by.of(c)} is of schema {c.schema_id}"
                        self._dangling(step, what, x, ids, () if c.op is None else (c.op,), (c.snapshot_id,))

    def _ids_of(self, m: Metadata, x: Listed) -> frozenset[int]:
        """As :func:`ids_of`; the answer for the last version is kept."""
        listed = m.raw.get(x.key)
        if self._last is None or self._last[0] is not listed:
            self._last = listed, ids_of(m.raw, x)
        return self._last[1]

    def _dangling(
        self,
        step: Step,
        what: str,
        x: Listed,
        ids: frozenset[int],
        ops: tuple[str, ...],
        snapshots: tuple[int, ...] = (),
    ) -> None:
        m = step.after
        self.found(
            "dangling-id",
            f"in version {m.n} ({m.location}), {self.by.made_by(m)}, {what}, but its {x.key} are {explain.listing(sorted(ids))}.",
            ops=ops,
            snapshots=snapshots,
            files=(m.location,),
        )

    def _field_ids(self, step: Step) -> None:
        m, before = step.after, step.before
        last = m.raw.get("last-column-id")
        if before is not None and before.raw.get("schemas") is m.raw.get("schemas"):
            return
        known = set() if before is None else {repr(s) for s in _dicts(before.raw.get("schemas"))}
        for schema in _dicts(m.raw.get("schemas")):
            if repr(schema) in known:
                continue
            ids = [f["id"] for f in _dicts(schema.get("fields")) if isinstance(f.get("id"), int)]
            twice = sorted({i for i in ids if ids.count(i) > 1})
            high = sorted(i for i in ids if isinstance(last, int) and i > last)
            where = f"schema {schema.get('schema-id')} of version {m.n} ({m.location}), {self.by.made_by(m)},"
            for wrong, why in ((twice, "more than once"), (high, f"above last-column-id, which is {last}")):
                if wrong:
                    self.found(
                        "field-id",
                        f"{where} has the field id{'s' if len(wrong) > 1 else ''} {explain.listing(wrong)} {why}.",
                        ops=self.by.accused(step),
                        files=(m.location,),
                    )

    def _row_ids(self, step: Step) -> None:
        m, before = step.after, step.before
        if m.format_version < 3 or m.next_row_id is not None or before is None:
            return
        if before.next_row_id is not None:  # a release before 1.9 writes none at all
            self.found(
                "next-row-id",
                f"version {m.n} ({m.location}), {self.by.made_by(m)}, is of format version {m.format_version} and has no next-row-id: the "
                "next snapshot cannot know which row ids are free.",
                ops=self.by.accused(step),
                files=(m.location,),
            )


# --- what a version says ----------------------------------------------------------------------------------------------


def _said(*keys: str) -> Callable[[Metadata], Any]:
    """What the log keeps of some fields, which is the same object as long as nothing changes."""
    return lambda m: [m.raw.get(k) for k in keys]


def _dicts(items: Any) -> list[Mapping[str, Any]]:
    return [x for x in items if isinstance(x, Mapping)] if isinstance(items, list) else []


def ids_of(raw: Mapping[str, Any], x: Listed) -> frozenset[int]:
    return frozenset(e[x.id] for e in _dicts(raw.get(x.key)) if isinstance(e.get(x.id), int))


def _listed(m: Metadata, x: Listed) -> tuple[dict[int, Mapping[str, Any]], Any]:
    """Id → entry, and the id of the one in use."""
    entries = {e[x.id]: e for e in _dicts(m.raw.get(x.key)) if isinstance(e.get(x.id), int)}
    return entries, m.raw.get(x.default)


def _meaning(value: Any) -> Any:
    """A JSON value without what is null or empty, and with one form of what has two."""
    if isinstance(value, Mapping):
        out = {k: _meaning(v) for k, v in value.items() if v is not None and (v != [] or k == "fields")}
        sources = out.pop("source-ids", None)
        if sources is not None:
            out.setdefault("source-id", sources[0] if isinstance(sources, list) and len(sources) == 1 else sources)
        return out
    if isinstance(value, list):
        return [_meaning(v) for v in value]
    return value.replace(" ", "") if isinstance(value, str) and value.startswith(("decimal", "fixed")) else value


def _difference(old: Any, new: Any) -> str:
    """The first place where two entries differ, in words."""
    before, after = old, new
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for k in sorted({*old, *new}):
            if old.get(k) == new.get(k):
                continue
            before, after = old.get(k), new.get(k)
            if isinstance(before, list) and isinstance(after, list):
                if len(before) != len(after):
                    return f"{len(before)} {k} became {len(after)}"
                before, after = next((a, b) for a, b in zip(before, after, strict=True) if a != b)
            break
    return f"{before} became {after}"


def _column(f: Mapping[str, Any]) -> str:
    return f"{'required' if f.get('required') else 'optional'} {f.get('type')}"


def _readable(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether values written for one column can be read as the other: only types that are words are compared."""
    if new.get("required") is True and old.get("required") is False:
        return False
    was, now = _meaning(old.get("type")), _meaning(new.get("type"))
    if not isinstance(was, str) or not isinstance(now, str) or was == now or was == "unknown":
        return True
    a, b = DECIMAL.fullmatch(was), DECIMAL.fullmatch(now)
    if a is not None and b is not None:
        return int(b[1]) >= int(a[1]) and a[2] == b[2]
    return now in PROMOTED.get(was, ())


def properties_of(m: Metadata) -> dict[str, Any]:
    """A version's properties without those that a catalog writes into each version."""
    said = m.raw.get("properties")
    if not isinstance(said, Mapping):
        return {}
    return {k: v for k, v in said.items() if not k.startswith(OF_CATALOGS)}


def _refs(m: Metadata) -> dict[str, int | None]:
    """Main only by its presence: where it is, is another matter."""
    return {k: None if k == "main" else v for k, v in m.refs.items()}


def _statistics(m: Metadata) -> dict[tuple[str, Any, Any], Any]:
    """(kind, snapshot, file) → what is said of it."""
    return {
        (key, x.get("snapshot-id"), x.get("statistics-path")): _meaning(x)
        for key in STATISTICS
        for x in _dicts(m.raw.get(key))
    }


def _columns(raw: Mapping[str, Any]) -> dict[int, str]:
    """Field id → name of the current schema's columns; empty when there is none."""
    for schema in _dicts(raw.get("schemas")):
        if schema.get("schema-id") == raw.get("current-schema-id"):
            return {f["id"]: f["name"] for f in _dicts(schema.get("fields")) if "id" in f and "name" in f}
    return {}
