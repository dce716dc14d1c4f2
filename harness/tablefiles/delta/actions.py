"""The files of ``_delta_log``: their names, and the actions in them (Delta's protocol, "Delta Log Entries", "Checkpoints")."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.formats.delta.records import (
    MAPPING,
    MODES,
    Action,
    LogicalFile,
    MappedColumn,
    logical_file,
    mapped_columns,
)
from harness.tablefiles.iceberg.metadata_json import CorruptFile

LOG = "_delta_log"
VERSION = re.compile(r"(\d{20})\.json")
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.([0-9a-f-]{36}))?\.(parquet|json)")
COMPACTED = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json")
CHECKSUM = re.compile(r"(\d{20})\.crc")
_STATISTICS = ("stats", "stats_parsed", "partitionValues_parsed")
"""Fields of an ``add`` that say what its file has anyway."""


def name(version: int) -> str:
    """The name of a version's file."""
    return f"{version:020}.json"


def actions(content: bytes) -> list[Action]:
    """The actions of a version's file, or of another file of lines.

    Raises:
        CorruptFile: a line is no action.
    """
    found = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            action = json.loads(line)
        except ValueError as e:
            raise CorruptFile(f"line {number} is no JSON: {e}") from None
        if not isinstance(action, dict) or not all(isinstance(v, dict) for v in action.values()):
            raise CorruptFile(f"line {number} is no action")
        found.append(action)
    return found


def without_statistics(action: Action) -> Action:
    """An action as the table log keeps it."""
    if (add := action.get("add")) is None:
        return action
    return {**action, "add": {k: v for k, v in add.items() if k not in _STATISTICS}}


def actions_of_parquet(content: bytes) -> list[Action]:
    """The actions of a checkpoint: a row has one column that is not null.

    Raises:
        CorruptFile: it is no readable Parquet file.
    """
    try:
        rows = pq.read_table(io.BytesIO(content), use_threads=False).to_pylist(maps_as_pydicts="lossy")
    except (pa.ArrowException, OSError, ValueError) as e:
        raise CorruptFile(f"not a readable checkpoint: {' '.join(str(e).split())[:200]}") from None
    return [{k: _known_fields(v) for k, v in row.items() if v is not None} for row in rows]


def _known_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are there: a checkpoint has a column for each that a row may lack."""
    return {k: v for k, v in fields.items() if v is not None}


@dataclass
class LogState:
    """What a series of actions leaves (protocol, "Action Reconciliation").

    Attributes:
        live: the files of the table: path → id of the deletion vector → the ``add`` that put it there.
        transactions: application → version.
    """

    live: dict[str, dict[str | None, Mapping[str, Any]]] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)

    def apply(self, found: Iterable[Action]) -> None:
        """Take the actions of one version, or of all versions up to one. Those that remove files come first: an entry has no file in both."""
        found = list(found)
        for fields in _named(found, "remove"):
            path, vector = logical_file(fields)
            if (entries := self.live.get(path)) is not None and entries.pop(vector, None) is not None and not entries:
                del self.live[path]
        for fields in _named(found, "add"):
            path, vector = logical_file(fields)
            self.live.setdefault(path, {})[vector] = fields
        for fields in _named(found, "metaData"):
            self.metadata = fields
        for fields in _named(found, "protocol"):
            self.protocol = fields
        for fields in _named(found, "txn"):
            self.transactions[str(fields.get("appId"))] = int(fields.get("version", 0))

    @property
    def files(self) -> list[LogicalFile]:
        """What names the files of the table, sorted."""
        return sorted(((path, vector) for path, entries in self.live.items() for vector in entries), key=str)

    def of(self, path: str) -> list[Mapping[str, Any]]:
        """The entries of a data file: one, or none, unless the log is wrong."""
        return [*self.live.get(path, {}).values()]

    @property
    def configuration(self) -> dict[str, str]:
        """The table's properties."""
        return {str(k): str(v) for k, v in (self.metadata.get("configuration") or {}).items()}

    @property
    def columns(self) -> dict[str, MappedColumn]:
        """The columns, by the names that readers see (protocol, "Column Mapping")."""
        return {c.name: c for c in mapped_columns(self.metadata)}

    @property
    def mapped(self) -> bool:
        """Whether the table has column mapping."""
        return self.configuration.get(MAPPING) in MODES

    @property
    def by_field_id(self) -> bool:
        """Whether a data file's columns are found by their field ids, not by their names."""
        return self.configuration.get(MAPPING) == "id"

    @property
    def partition_types(self) -> dict[str, str]:
        """The type of each partition column."""
        columns = self.columns
        names = self.metadata.get("partitionColumns") or ()
        return {c: str(columns[c].type) if c in columns else "string" for c in names}


def _named(found: Sequence[Action], name: str) -> Iterator[Mapping[str, Any]]:
    return (a[name] for a in found if a.get(name) is not None)
