"""Checkpoints, compacted logs and checksums: what each says of the table, to be held against the versions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from checkers.formats.delta.records import Action, DerivedFile
from compose.objectstore import ObjectStore
from harness.tablefiles.delta import actions as files
from harness.tablefiles.delta.actions import LogState
from harness.tablefiles.iceberg.metadata_json import CorruptFile

SIDECARS, LAST = "_sidecars", "_last_checkpoint"


def read(store: ObjectStore, folder: str, names: Collection[str]) -> Iterator[tuple[int, DerivedFile]]:
    """Each file of that kind with its version; ``names``: those of all files below ``folder``.

    Raises:
        TableReadError: the store cannot be read.
    """
    parts: dict[tuple[int, str], list[str]] = {}
    for name in sorted(names):
        if m := files.CHECKPOINT.fullmatch(name):
            parts.setdefault((int(m[1]), m[3] or m[4] or ""), []).append(name)
        elif m := files.COMPACTED.fullmatch(name):
            yield int(m[2]), _compacted(store, folder, name, int(m[1]))
        elif m := files.CHECKSUM.fullmatch(name):
            yield int(m[1]), _checksum(store, folder, name)
        elif name == LAST:
            yield from _last(store, folder, {int(m[1]) for n in names if (m := files.CHECKPOINT.fullmatch(n))})
    for (version, _), found in parts.items():
        yield version, _checkpoint(store, folder, found)


def _last(store: ObjectStore, folder: str, checkpoints: Collection[int]) -> Iterator[tuple[int, DerivedFile]]:
    """The file that names the newest checkpoint; only if it leads nowhere, since a reader may do without it."""
    try:
        version = int(json.loads(store.read(f"{folder}/{LAST}"))["version"])
        why = None if version in checkpoints else f"it names version {version}, of which there is no checkpoint"
    except (FileNotFoundError, ValueError, KeyError, TypeError) as e:
        version, why = 0, f"{type(e).__name__}: {e}"
    if why is not None:
        yield version, DerivedFile("checkpoint", LAST, problem=why)


def _checkpoint(store: ObjectStore, folder: str, names: list[str]) -> DerivedFile:
    """A checkpoint, whose parts or sidecars together have all actions."""
    try:
        multi = files.CHECKPOINT.fullmatch(names[0])
        if multi and multi[3] and len(names) != int(multi[3]):
            raise CorruptFile(f"{len(names)} of its {int(multi[3])} parts are there")
        found = [a for name in names for a in _actions(store, f"{folder}/{name}")]
        for sidecar in [a["sidecar"]["path"] for a in found if a.get("sidecar")]:
            found += _actions(store, f"{folder}/{SIDECARS}/{sidecar}")
    except (CorruptFile, FileNotFoundError) as e:
        return DerivedFile("checkpoint", names[0], problem=str(e))
    return _derived_file("checkpoint", names[0], found)


def _compacted(store: ObjectStore, folder: str, name: str, since: int) -> DerivedFile:
    try:
        return _derived_file("compacted", name, _actions(store, f"{folder}/{name}"), since)
    except (CorruptFile, FileNotFoundError) as e:
        return DerivedFile("compacted", name, since, problem=str(e))


def _actions(store: ObjectStore, path: str) -> list[Action]:
    content = store.read(path)
    return files.actions_of_parquet(content) if path.endswith(".parquet") else files.actions(content)


def _derived_file(kind: str, name: str, found: list[Action], since: int | None = None) -> DerivedFile:
    state = LogState()
    state.apply(found)
    return DerivedFile(
        kind=kind,
        file=name,
        since=since,
        live=tuple(state.files),
        metadata=_metadata(state.metadata),
        protocol=_protocol(state.protocol),
        transactions=state.transactions,
    )


def _checksum(store: ObjectStore, folder: str, name: str) -> DerivedFile:
    """A version's ``.crc``: counts, and perhaps metadata and protocol."""
    try:
        fields = json.loads(store.read(f"{folder}/{name}"))
        return DerivedFile(
            kind="checksum",
            file=name,
            files=int(fields["numFiles"]),
            bytes=int(fields["tableSizeBytes"]),
            metadata=_metadata(fields.get("metadata") or {}),
            protocol=_protocol(fields.get("protocol") or {}),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError) as e:
        return DerivedFile("checksum", name, problem=f"{type(e).__name__}: {e}")


def _metadata(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """What of a ``metaData`` action can be compared: a checkpoint writes empty fields that a version leaves out."""
    if not fields:
        return None
    kept = ("id", "schemaString", "partitionColumns", "configuration")
    return {k: fields.get(k) or ([] if k == "partitionColumns" else {} if k == "configuration" else "") for k in kept}


def _protocol(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """What of a ``protocol`` action can be compared: features are sets."""
    if not fields:
        return None
    numbers = {k: fields.get(k) for k in ("minReaderVersion", "minWriterVersion")}
    features = {k: sorted(fields.get(k) or ()) for k in ("readerFeatures", "writerFeatures")}
    return {**numbers, **features}
