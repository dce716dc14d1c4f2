"""Whether a version is well formed by itself: the keys that its format version requires, ids that are unique, references that resolve.

What a version takes over from its predecessor is judged once, where it first appears: in the log's first version all of it, in any other
what that one adds. A log that keeps nothing of what versions say besides snapshots (``raw`` is empty) is not judged.

* **Keys.** :data:`REQUIRED_KEYS`, by format version. What a later version lacks and its predecessor had is judged by
  ``metadata.contents``.
* **Ids.** A schema, spec or sort order is found by its id, a column by its id and by its name, a partition field by its id. An id of a
  partition field may come again in another spec for the same source and transform, or as ``void``, which stands for a field that version 1
  dropped; in tables that were of version 1 each spec counts from 1000, so only one spec is looked at.
* **References.** A partition or sort field names a source column, an ``identifier-field-id`` a column of its schema. A spec may outlive its
  column and even the schema that had it, so any schema up to this version will do, and where the log begins late, only the default spec
  and order are looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.listed import LISTED_PARTS, REQUIRED, Listed
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain

REQUIRED_KEYS: Mapping[int, tuple[str, ...]] = {
    1: ("location", "last-column-id", "schema", "partition-spec"),
    2: REQUIRED,
}
"""Format version → the fields that the specification requires, as far as the log keeps them as they are; version 3 requires those of version
2 and ``next-row-id``. ``last-updated-ms`` is required in each, ``last-sequence-number`` since version 2; the log has 0 for none."""
LAST_VERSION = 3
"""The highest format version that the specification describes as complete."""

_WORDS = "boolean int long float double date time timestamp timestamptz string uuid binary"
_WORDS_OF_3 = "timestamp_ns timestamptz_ns unknown variant geometry geography"
_PRIMITIVES = frozenset(_WORDS.split())
_PRIMITIVES_OF_3 = frozenset(_WORDS_OF_3.split())
_SIZED = re.compile(r"fixed\[[1-9]\d*\]|decimal\((\d+),(\d+)\)")
MOST_DIGITS = 38
"""Of a decimal (spec, "Primitive Types")."""
NESTED = {"struct": "fields", "list": "element", "map": "value"}
"""Nested type → a key that it has."""


class WellFormed(Judging):
    """The versions of one table, each by itself."""

    def step(self, step: Step) -> None:
        """Judge what a version says and its predecessor does not."""
        m, before = step.after, step.before
        if not m.raw:
            return
        old = {} if before is None else before.raw
        if before is None:
            self._required(step)
            self._described(step)
        new = [x for x in LISTED_PARTS if m.raw.get(x.key) is not old.get(x.key)]
        for x in new:
            self._twice(step, x, old)
        if m.raw.get("schemas") is not old.get("schemas"):
            known = _texts(old.get("schemas"))
            for schema in dicts(m.raw.get("schemas")):
                self._ids.update(nested_ids(schema))
                if repr(schema) not in known:
                    self._schema(step, schema)
        if new or m.raw.get("last-partition-id") != old.get("last-partition-id"):
            self._partition_ids(step, old)
            self._sources(step, old)

    # --- keys

    def _required(self, step: Step) -> None:
        """The log's first version, or one whose predecessor is not known: only what is nowhere in it can be missed."""
        m = step.after
        keys = REQUIRED_KEYS[min(m.format_version, 2)] if m.format_version >= 1 else ()
        missing = [k for k in keys if m.raw.get(k) in (None, [])]
        if m.format_version > 1:
            missing += [
                f"a {x.id} in {x.key}"
                for x in LISTED_PARTS
                for e in dicts(m.raw.get(x.key))
                if not isinstance(e.get(x.id), int)
            ]
        if missing:
            self._tell(
                "missing-field",
                step,
                f"lacks {explain.listing(missing)}, which format version {m.format_version} requires",
            )

    def _described(self, step: Step) -> None:
        m = step.after
        if not 1 <= m.format_version <= LAST_VERSION:
            self._tell("unknown-format-version", step, f"is of format version {m.format_version}")

    # --- ids

    def _twice(self, step: Step, x: Listed, old: Mapping[str, Any]) -> None:
        before, now = (
            Counter(e[x.id] for e in dicts(r.get(x.key)) if isinstance(e.get(x.id), int)) for r in (old, step.after.raw)
        )
        twice = sorted(n for n, times in now.items() if times > max(1, before[n]))
        if twice:
            self._tell("listed-twice", step, f"lists the {x.words} {explain.listing(twice)} more than once")

    def _schema(self, step: Step, schema: Mapping[str, Any]) -> None:
        which = f"schema {schema.get('schema-id')}"
        names = Counter(f.get("name") for f in dicts(schema.get("fields")))
        twice = sorted(str(n) for n, times in names.items() if times > 1)
        if twice:
            self._tell("field-id", step, f"has more than one column {explain.listing(twice)} in {which}")
        wrong = [
            f"{f.get('name')} {why}"
            for f in dicts(schema.get("fields"))
            if (why := _untyped(f.get("type"), step.after))
        ]
        if wrong:
            self._tell(
                "unknown-type", step, f"has columns in {which} of types that it cannot have: {explain.listing(wrong)}"
            )
        keys = schema.get("identifier-field-ids")
        lost = sorted({*keys} - {*nested_ids(schema)}, key=str) if isinstance(keys, list) else []
        if lost:
            self._tell(
                "dangling-id",
                step,
                f"names the identifier-field-id {explain.listing(lost)} in {which}, which has no such column",
            )

    def _partition_ids(self, step: Step, old: Mapping[str, Any]) -> None:
        m, known = step.after, _texts(old.get("partition-specs"))
        last = m.raw.get("last-partition-id")
        lower = isinstance(last, int) and last != old.get("last-partition-id")
        meaning: dict[int, tuple[Any, Any]] = {}
        for spec in dicts(m.raw.get("partition-specs")):
            fields = [f for f in dicts(spec.get("fields")) if isinstance(f.get("field-id"), int)]
            new = repr(spec) not in known
            which = f"partition spec {spec.get('spec-id')}"
            times = Counter(f["field-id"] for f in fields)
            twice = sorted(i for i, n in times.items() if n > 1)
            if twice and new:
                self._tell("field-id", step, f"has the field id {explain.listing(twice)} more than once in {which}")
            high = sorted(i for i in times if isinstance(last, int) and i > last)
            if high and (new or lower):
                self._tell(
                    "field-id",
                    step,
                    f"has the field id {explain.listing(high)} in {which}, above last-partition-id, which is {last}",
                )
            for f in fields if not self._was_of_version_1 else ():
                says = f.get("transform"), _sources_of(f)
                first = meaning.setdefault(f["field-id"], says)
                if new and first != says and f["field-id"] not in twice and "void" not in (first[0], says[0]):
                    self._tell(
                        "field-id",
                        step,
                        f"gives the field id {f['field-id']} in {which} to {says[0]} of column {ids_text(says[1])}, which is "
                        f"{first[0]} of column {ids_text(first[1])} in another spec",
                    )

    @cached_property
    def _was_of_version_1(self) -> bool:
        first = self.chain.log.metadata[0]
        return first.format_version < 2 or first.predecessor is not None

    # --- references

    @cached_property
    def _ids(self) -> set[int]:
        """The ids of all columns so far."""
        return set()

    def _sources(self, step: Step, old: Mapping[str, Any]) -> None:
        if not self._ids:
            return
        m, late = step.after, step.before is None and bool(step.after.snapshots or step.after.predecessor)
        for x in LISTED_PARTS[1:]:
            known = _texts(old.get(x.key))
            for entry in dicts(m.raw.get(x.key)):
                if repr(entry) in known or (late and entry.get(x.id) != m.raw.get(x.default)):
                    continue
                named = {i for f in dicts(entry.get("fields")) for i in _sources_of(f) if isinstance(i, int)}
                lost = sorted(named - self._ids)
                if lost:
                    self._tell(
                        "dangling-id",
                        step,
                        f"names the source-id {explain.listing(lost)} in {x.words} {entry.get(x.id)}, which is no column of any schema",
                    )

    def _tell(self, name: str, step: Step, what: str) -> None:
        m = step.after
        self.found(
            name,
            f"version {m.n} ({m.location}), {self.makers.made_by(m)}, {what}.",
            ops=self.makers.accused(step),
            files=(m.location,),
        )


def dicts(items: Any) -> list[Mapping[str, Any]]:
    """The objects in a list; none if it is no list."""
    return [x for x in items if isinstance(x, Mapping)] if isinstance(items, list) else []


def ids_text(ids: tuple[Any, ...]) -> str:
    """Ids in words."""
    return explain.listing(map(str, ids)) or "nothing"


def _texts(entries: Any) -> set[str]:
    return {repr(e) for e in dicts(entries)}


def _sources_of(field: Mapping[str, Any]) -> tuple[Any, ...]:
    """The source columns of a partition or sort field, in either of its two forms."""
    several = field.get("source-ids")
    return tuple(several) if isinstance(several, list) and several else (field.get("source-id"),)


def nested_ids(type: Any) -> Iterator[int]:
    """The ids of all fields of a type, a schema's included."""
    if not isinstance(type, Mapping):
        return
    for f in dicts(type.get("fields")):
        if isinstance(f.get("id"), int):
            yield f["id"]
        yield from nested_ids(f.get("type"))
    for part in ("element", "key", "value"):
        if isinstance(type.get(f"{part}-id"), int):
            yield type[f"{part}-id"]
        yield from nested_ids(type.get(part))


def _untyped(type: Any, m: Metadata) -> str | None:
    """Why a column cannot have a type, as the end of a sentence; None if it can. A nested type is looked at as a whole."""
    if isinstance(type, Mapping):
        word = type.get("type")
        return None if word in NESTED and type.get(NESTED[word]) is not None else f"is of the nested type {word}"
    if not isinstance(type, str):
        return None if type is None else f"is of {type!r}"
    word = type.replace(" ", "").lower()
    base = word.partition("(")[0]
    if word in _PRIMITIVES or ((sized := _SIZED.fullmatch(word)) is not None and int(sized[1] or 0) <= MOST_DIGITS):
        return None
    if (word if base not in ("geometry", "geography") else base) in _PRIMITIVES_OF_3:
        return None if m.format_version >= 3 else f"is of {type}, which format version {m.format_version} does not have"
    return f"is of {type}"
