"""Manifests of data files that do not exist: a server that plans a scan reads the manifests alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record


def write_scan(io: FileIO, schema: Schema, snapshot: Mapping[str, Any], files: Iterable[str]) -> None:
    """Write the manifest list of a snapshot, and one manifest with these data files of one row each, in format version 2."""
    made, place = snapshot["snapshot-id"], snapshot["manifest-list"]
    with write_manifest(
        2, UNPARTITIONED_PARTITION_SPEC, schema, io.new_output(f"{place}.m0.avro"), made, "null"
    ) as manifest:
        for path in files:
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=path,
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=1,
                file_size_in_bytes=1000,
            )
            file.spec_id = 0
            manifest.add_entry(
                ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=made, data_file=file)
            )
    parent, number = snapshot.get("parent-snapshot-id"), snapshot["sequence-number"]
    with write_manifest_list(2, io.new_output(place), made, parent, number, "null") as whole:
        whole.add_manifests([manifest.to_manifest_file()])
