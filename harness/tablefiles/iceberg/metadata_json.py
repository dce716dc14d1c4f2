"""``metadata.json``, read and checked for its shape."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from checkers.evidence.record import DECODE_ERRORS


class CorruptFile(ValueError):
    """A file of the table that exists but cannot be decoded; the message states the defect, without the path."""


_SNAPSHOT_TYPES: dict[str, type | tuple[type, ...]] = {
    "snapshot-id": int,
    "parent-snapshot-id": (int, type(None)),
    "sequence-number": (int, type(None)),
    "timestamp-ms": (int, type(None)),
    "manifest-list": (str, type(None)),
    "summary": (dict, type(None)),
}


_FIELD_TYPES: dict[str, type | tuple[type, ...]] = {"id": int, "name": str, "type": object}


def _check_shape(m: Mapping[str, Any]) -> None:
    """Raises CorruptFile when a value that is read from a metadata.json does not have the spec's type."""

    def each(what: str, items: Any, types: Mapping[str, type | tuple[type, ...]]) -> None:
        if not isinstance(items, list):
            raise CorruptFile(f"not a table's metadata.json: {what} is no list")
        for item in items:
            for key, type in types.items():
                if (
                    not isinstance(item, dict)
                    or not isinstance(item.get(key), type)
                    or (type is object and key not in item)
                ):
                    raise CorruptFile(f"not a table's metadata.json: {what} has an entry with a wrong {key}")

    schemas = [*(m.get("schemas") or ()), *([m["schema"]] if "schema" in m else ())]
    refs = m.get("refs") or {}
    if not isinstance(refs, dict):
        raise CorruptFile("not a table's metadata.json: refs is no object")
    each("snapshots", m.get("snapshots") or [], _SNAPSHOT_TYPES)
    each("metadata-log", m.get("metadata-log") or [], {"metadata-file": str})
    each("refs", list(refs.values()), {"snapshot-id": int})
    each("schemas", schemas, {"fields": list})
    for schema in schemas:
        each("a schema", schema["fields"], _FIELD_TYPES)


def read_metadata(content: bytes) -> dict[str, Any]:
    """A metadata.json, plain or gzipped.

    Raises:
        CorruptFile: not a table's metadata.
    """
    try:
        parsed = msgspec.json.decode(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    except (*DECODE_ERRORS, OSError, EOFError, zlib.error) as e:
        raise CorruptFile(f"not a metadata.json: {e}") from None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("location"), str) or "format-version" not in parsed:
        raise CorruptFile("not a table's metadata.json: format-version or location is missing")
    _check_shape(parsed)
    return parsed
