"""The lists of entries with ids in a metadata file: schemas, partition specs and sort orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkers.formats.iceberg.metadata.derived import (
    dicts,
)
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from workloads.operations.kind import Lost, Part

STATISTICS = ("statistics", "partition-statistics")
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
    counter: str | None = None
    """The highest id that was assigned."""


SCHEMAS = Listed(
    "schemas",
    "schema-id",
    "current-schema-id",
    "schema",
    "schema",
    "vanished-schema",
    "schema-changed",
    "schema",
    "last-column-id",
)
LISTED_PARTS = (
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
        "last-partition-id",
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


def keys_of(x: Listed) -> tuple[str, ...]:
    """The keys of a metadata file that say a list, which of it is in use, and the counter of its ids."""
    return (x.key, x.default) if x.counter is None else (x.key, x.default, x.counter)


def ids_of(raw: Mapping[str, Any], x: Listed) -> frozenset[int]:
    return frozenset(e[x.id] for e in dicts(raw.get(x.key)) if isinstance(e.get(x.id), int))


def entries_of(m: Metadata, x: Listed) -> tuple[dict[int, Mapping[str, Any]], Any]:
    """Id → entry, and the id of the one in use."""
    entries = {e[x.id]: e for e in dicts(m.raw.get(x.key)) if isinstance(e.get(x.id), int)}
    return entries, m.raw.get(x.default)
