"""To which partition a row belongs: the partition specs of a table, applied to the rows that the table log has.

A partition spec has fields, each a transform of a source column (spec, "Partitioning"): ``identity``, ``bucket[N]``, ``truncate[W]``,
``void``, and those of dates and times. A data file says the values of its partition, and scans decide by them alone whether they read it.

The log has the rows of some files only: those that a commit added or removed, net. Whatever is not certain is not judged: a column that
the log does not have, or that had two field ids or two names; a type or a transform that is not computed here; a file whose spec is not
known, if its values fit under one of the specs that have its fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergLog as TableLog

Field = Mapping[str, Any]
"""One field of a spec, as metadata.json has it: ``name``, ``transform``, ``source-id``."""

NOT_COMPUTED = object()
"""A value that cannot be computed here."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MASK = 0xFFFFFFFF
_COMPARABLE = frozenset({"int", "long", "string", "boolean"})
"""Types whose values are the same in a log's rows and in its partition values."""


def murmur3(data: bytes) -> int:
    """The 32-bit Murmur3 hash, x86 variant, seed 0, unsigned (spec, "Appendix B: 32-bit Hash Requirements")."""
    h = 0
    whole = len(data) & ~3
    for offset in range(0, whole, 4):
        h ^= _scrambled(int.from_bytes(data[offset : offset + 4], "little"))
        h = (((h << 13) | (h >> 19)) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        h ^= _scrambled(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    return h ^ (h >> 16)


def _scrambled(k: int) -> int:
    k = (k * 0xCC9E2D51) & _MASK
    return (((k << 15) | (k >> 17)) * 0x1B873593) & _MASK


def transformed(transform: str, type: str, value: Any) -> Any:
    """A value under a transform; :data:`NOT_COMPUTED` if that is not computed here.

    Args:
        transform: as a spec names it, such as ``bucket[8]``.
        type: of the source column, as a schema names it.
        value: of the row; None is null, which every transform keeps.
    """
    if transform == "void" or value is None:
        return None
    if type not in _COMPARABLE or not isinstance(value, int | str):
        return NOT_COMPUTED
    if transform == "identity":
        return value
    sized = re.fullmatch(r"(bucket|truncate)\[([1-9][0-9]*)\]", transform)
    if sized is None or isinstance(value, bool):
        return NOT_COMPUTED
    size = int(sized[2])
    if sized[1] == "truncate":
        return value[:size] if isinstance(value, str) else value - value % size
    if not isinstance(value, str) and not -(1 << 63) <= value < 1 << 63:
        return NOT_COMPUTED
    return _hash(value) % size


@lru_cache(1 << 14)
def _hash(value: int | str) -> int:
    """What a bucket transform divides."""
    data = value.encode() if isinstance(value, str) else value.to_bytes(8, "little", signed=True)
    return murmur3(data) & 0x7FFFFFFF


class Partitions:
    """The partition specs of a table, and the columns of its log by field id."""

    def __init__(self, log: TableLog) -> None:
        self._log = log
        self._misfits: dict[tuple[str | int | None, ...], str | None] = {}
        self._copies: dict[tuple[str | int | None, ...], dict[str, int] | None] = {}

    @cached_property
    def _specs(self) -> dict[int, list[Sequence[Field]]]:
        """Spec id → its fields; more than one if versions tell it differently."""
        found: dict[int, list[Sequence[Field]]] = {}
        last: Any = None
        for m in self._log.metadata:
            specs = m.raw.get("partition-specs")
            if specs is None and "partition-spec" in m.raw:  # version 1
                specs = [{"spec-id": 0, "fields": m.raw["partition-spec"]}]
            if specs is last or not isinstance(specs, list):
                continue
            last = specs
            for s in specs:
                if not isinstance(s, Mapping) or not isinstance(s.get("spec-id"), int):
                    continue
                fields = s.get("fields")
                readings = found.setdefault(s["spec-id"], [])
                if isinstance(fields, list) and all(isinstance(f, Mapping) for f in fields) and fields not in readings:
                    readings.append(fields)
        return found

    @cached_property
    def _columns(self) -> dict[int, tuple[int, str]]:
        """Field id → its place in the log's rows and its type, if both never changed but for a promotion of int to long."""
        names: dict[str, set[int]] = {}
        types: dict[int, set[tuple[str, str]]] = {}
        last: Any = None
        for m in self._log.metadata:
            schemas = m.raw.get("schemas") or ([m.raw["schema"]] if "schema" in m.raw else [])
            if schemas is last or not isinstance(schemas, list):
                continue
            last = schemas
            for f in (f for s in schemas if isinstance(s, Mapping) for f in s.get("fields") or ()):
                if isinstance(f, Mapping) and isinstance(f.get("id"), int) and isinstance(f.get("name"), str):
                    names.setdefault(f["name"], set()).add(f["id"])
                    kind = f.get("type")
                    types.setdefault(f["id"], set()).add(
                        (f["name"], "long" if kind in ("int", "long") else str(kind) if isinstance(kind, str) else "")
                    )
        out: dict[int, tuple[int, str]] = {}
        for id, readings in types.items():
            if len(readings) == 1:
                name, kind = next(iter(readings))
                if name in self._log.columns and len(names[name]) == 1:
                    out[id] = self._log.columns.index(name), kind
        return out

    def _candidates(self, f: FileEntry) -> list[Sequence[Field]]:
        if f.spec_id is not None:
            return self._specs.get(f.spec_id, [])
        return [
            fields
            for specs in self._specs.values()
            for fields in specs
            if {x.get("name") for x in fields} == {*f.partition}
        ]

    def misfit(self, f: FileEntry) -> str | None:
        """Why a file's partition is one of no spec of the table, in words; None if a spec has its fields, or the specs are not known.

        Names that Avro cannot write as they are (a manifest has others for them) are not compared.
        """
        shape = f.spec_id, *f.partition
        if shape not in self._misfits:
            self._misfits[shape] = self._misfit(f)
        return self._misfits[shape]

    def _misfit(self, f: FileEntry) -> str | None:
        if not self._specs or not all(self._specs.values()):
            return None
        specs = (
            self._specs.get(f.spec_id, []) if f.spec_id is not None else [x for t in self._specs.values() for x in t]
        )
        known = [[str(x.get("name")) for x in fields] for fields in specs]
        if any(not _PLAIN.fullmatch(n) for names in known for n in names) or any({*n} == {*f.partition} for n in known):
            return None
        if not known:
            return f"the table has no partition spec {f.spec_id}"
        fields = " or ".join(", ".join(n) or "no field" for n in known)
        return f"a partition of {'the table' if f.spec_id is None else f'spec {f.spec_id}'} has {fields}"

    def copied(self, f: FileEntry) -> tuple[list[int], list[Any]] | None:
        """The columns of rows whose values a file's partition copies, and these values; None if a field is something else.

        A row that has these values does not contradict the partition.
        """
        if not f.partition:
            return [], []
        shape = f.spec_id, *f.partition
        if shape not in self._copies:
            self._copies[shape] = self._copied_columns(f)
        columns = self._copies[shape]
        return None if columns is None else ([*columns.values()], [f.partition[name] for name in columns])

    def _copied_columns(self, f: FileEntry) -> dict[str, int] | None:
        """Each field of the one spec that a file can be of → its column in rows."""
        specs = self._candidates(f)
        if len(specs) != 1 or any(x.get("transform") != "identity" for x in specs[0]):
            return None
        found = [(str(x.get("name")), self._columns.get(x.get("source-id", -1))) for x in specs[0]]
        columns = {name: column[0] for name, column in found if column is not None and name in f.partition}
        return columns if len(columns) == len(found) else None

    def contradictions(self, f: FileEntry, row: Sequence[Any]) -> list[str]:
        """Why a row cannot be in a file of that partition, one sentence part a field: ``part is 3, not 2``; empty if it can be."""
        found: list[str] = []
        for fields in self._candidates(f):
            wrong = list(self._wrong(fields, f, row))
            if not wrong:
                return []
            found = found or wrong
        return found

    def _wrong(self, fields: Sequence[Field], f: FileEntry, row: Sequence[Any]) -> Iterator[str]:
        for x in fields:
            column, name = self._columns.get(x.get("source-id", -1)), x.get("name")
            if name not in f.partition or not isinstance(x.get("transform"), str):
                continue
            if x["transform"] == "void":
                due: Any = None
            elif column is None or column[0] >= len(row):
                continue
            else:
                due = transformed(x["transform"], column[1], row[column[0]])
            if due is not NOT_COMPUTED and f.partition[name] != due:
                yield f"{name} is {'null' if due is None else due}, not {f.partition[name]}"
