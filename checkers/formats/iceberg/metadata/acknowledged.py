"""What was acknowledged of the changes of schema, property and format version is in the last version of a table's metadata.

No kind takes away what ``set-property`` and ``upgrade`` did (``Kind.takes_away``); a property is as somebody set it since. Columns are
added, widened, renamed and dropped: of a column name that two kinds of operations use, only a log of all versions tells what was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checkers.evidence.history import Operation
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain
from checkers.timeline.timeline import kind_of
from checkers.timeline.version_order import place


def _may_undo_changes(o: Operation) -> bool:
    """Whether it may take away what others did to schema or properties, or nobody knows."""
    kind = kind_of(o)
    return kind is None or not kind.takes_away.isdisjoint({"schema", "property"})


RESHAPING = ("rename-column", "drop-column")
"""Kinds after which a column's name may be gone."""


class Acknowledged(Judging):
    """The changes of one table that were acknowledged."""

    def acknowledged_changes(self) -> None:
        """The last version has every acknowledged change of schema, property or format version, if it must show it.

        A change already reported as vanished or passed over by a fork is not reported again.
        """
        chain = self.chain
        versions = chain.log.metadata
        checks = {
            "add-column": self._added_column,
            "widen-column": self._widened_column,
            "rename-column": self._renamed_column,
            "drop-column": self._dropped_column,
            "set-property": self._set_property,
            "upgrade": self._upgraded,
        }
        changes = [o for o in chain.of_table if o.f in checks]
        reported = {f.name for f in self.seen.findings} & {
            "vanished-schema",
            "vanished-property",
            "format-version-decreased",
        }
        if not changes or self.torn or not versions or any(map(_may_undo_changes, chain.of_table)):
            return
        read = {place(m.location) for m in versions}
        until = max((c.time for c in chain.log.captures if c.metadata and place(c.metadata) in read), default=-1)
        whole = versions[0].predecessor is None and not any(s.gap for s in chain.steps[1:])
        for o in changes:
            if o.type != "ok" or o.end is None or o.end >= until or not isinstance(o.value, Mapping):
                continue
            lost = checks[o.f](o, versions, whole)
            if lost is None or reported:
                continue
            what, has = lost
            showing = [m for m in versions if has(m)]
            self.seen.count("lost_changes")
            self.found(
                "lost-metadata-change",
                f"the {explain.operation(o)} was invoked at {explain.s(o.start)} and {explain.outcome(o)}, yet "
                + (
                    f"none of the {len(versions)} versions of the log has {what}."
                    if not showing
                    else f"version {versions[-1].n} ({versions[-1].location}), the last, lacks {what}; version {showing[-1].n} "
                    f"({showing[-1].location}) was the last one with it."
                ),
                ops=(o.op,),
                files=(*(m.location for m in showing[-1:]), versions[-1].location),
            )

    def _added_column(
        self, o: Operation, versions: Sequence[Metadata], whole: bool
    ) -> tuple[str, Callable[[Metadata], bool]] | None:
        name = o.value.get("column")

        def has(m: Metadata) -> bool:
            field = _field(m.raw, name)
            return field is not None and field.get("doc", o.op) == o.op

        stays = not self._may_go(o, name)
        present = (not stays or _field(versions[-1].raw, name) is not None) and (not whole or any(map(has, versions)))
        return None if present else (f"the column {name} that it added", has)

    def _widened_column(
        self, o: Operation, versions: Sequence[Metadata], whole: bool
    ) -> tuple[str, Callable[[Metadata], bool]] | None:
        name = o.value.get("column")

        def has(m: Metadata) -> bool:
            field = _field(m.raw, name)
            return field is not None and field.get("type") == "long"

        present = has(versions[-1]) or (self._may_go(o, name) and (not whole or any(map(has, versions))))
        return None if present else (f"the column {name} as long", has)

    def _renamed_column(
        self, o: Operation, versions: Sequence[Metadata], whole: bool
    ) -> tuple[str, Callable[[Metadata], bool]] | None:
        name, to = o.value.get("column"), o.value.get("to")

        def has(m: Metadata) -> bool:
            return _field(m.raw, to) is not None

        present = (self._may_go(o, to) or has(versions[-1])) and (not whole or any(map(has, versions)))
        absent = self._may_come(o, name) or _field(versions[-1].raw, name) is None
        return None if present and absent else (f"the column {name} under the name {to}", has)

    def _dropped_column(
        self, o: Operation, versions: Sequence[Metadata], whole: bool
    ) -> tuple[str, Callable[[Metadata], bool]] | None:
        name = o.value.get("column")

        def has(m: Metadata) -> bool:
            return _field(m.raw, name) is None

        return None if self._may_come(o, name) or has(versions[-1]) else (f"a schema without the column {name}", has)

    def _may_go(self, o: Operation, name: Any) -> bool:
        """Whether another operation may have dropped a column of that name, or given it another one."""
        return any(p is not o and _may_have(p, RESHAPING, "column", name) for p in self._all())

    def _may_come(self, o: Operation, name: Any) -> bool:
        """Whether another operation may have made a column of that name since this one was invoked."""
        made = (("add-column", "column"), ("rename-column", "to"))
        return any(
            p is not o and (p.end is None or p.end >= o.start) and _may_have(p, (f,), key, name)
            for p in self._all()
            for f, key in made
        )

    def _all(self) -> Sequence[Operation]:
        return self.chain.of_table

    def _set_property(
        self, o: Operation, versions: Sequence[Metadata], whole: bool
    ) -> tuple[str, Callable[[Metadata], bool]] | None:
        key = o.value.get("property")

        def value(m: Metadata) -> Any:
            return (m.raw.get("properties") or {}).get(key)

        last = self.chain.by_op.get(value(versions[-1]))
        before = last is None or (
            last.type == "ok" and last.completed is not None and last.completed.index < o.invoked.index
        )
        present = any(value(m) == o.op for m in versions) or not whole
        lost = not present or (before and value(versions[-1]) != o.op)
        return (f"{key} = {o.op}", lambda m: value(m) == o.op) if lost and key is not None else None

    def _upgraded(
        self, o: Operation, versions: Sequence[Metadata], whole: bool
    ) -> tuple[str, Callable[[Metadata], bool]] | None:
        def has(m: Metadata) -> bool:
            return m.format_version >= 3

        return None if has(versions[-1]) else ("format version 3", has)


def _may_have(o: Operation, kinds: tuple[str, ...], key: str, name: Any) -> bool:
    """Whether an operation is of one of these kinds, names that column, and may have taken effect."""
    return o.f in kinds and o.type != "fail" and isinstance(o.value, Mapping) and o.value.get(key) == name


def _field(raw: Mapping[str, Any], name: Any) -> Mapping[str, Any] | None:
    """The current schema's column of that name."""
    for schema in raw.get("schemas") or ():
        if isinstance(schema, Mapping) and schema.get("schema-id") == raw.get("current-schema-id"):
            for f in schema.get("fields") or ():
                if isinstance(f, Mapping) and f.get("name") == name:
                    return f
    return None
