"""Deletion vectors of Delta: where a descriptor says that the bytes are. The bytes are those of Iceberg's vectors, frame and all."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from harness.tablefiles.iceberg.metadata_json import CorruptFile
from harness.tablefiles.iceberg.vectors import DV_MAGIC, bitmap, decode_deletion_vector

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_LENGTH = 20
FRAME = 8
"""Bytes around a vector in its file: its length before it, its checksum behind it."""


def z85(text: str) -> bytes:
    """The bytes of a Z85 text (ZeroMQ RFC 32): five characters are four bytes.

    Raises:
        CorruptFile: it is none.
    """
    if len(text) % 5 or not all(c in _Z85 for c in text):
        raise CorruptFile(f"{text!r} is no Z85 text")
    out = bytearray()
    for i in range(0, len(text), 5):
        n = 0
        for c in text[i : i + 5]:
            n = n * 85 + _Z85.index(c)
        if n >> 32:
            raise CorruptFile(f"{text!r} is no Z85 text")
        out += n.to_bytes(4, "big")
    return bytes(out)


def file_of(vector: Mapping[str, Any]) -> str | None:
    """The path of the file that holds a vector, relative to the table, or absolute; None if its descriptor holds the bytes.

    Raises:
        CorruptFile: the descriptor is of no known form.
    """
    storage, path = vector.get("storageType"), str(vector.get("pathOrInlineDv"))
    if storage == "i":
        return None
    if storage == "p":
        return unquote(path)
    if storage == "u" and len(path) >= _UUID_LENGTH:
        folder, name = path[:-_UUID_LENGTH], uuid.UUID(bytes=z85(path[-_UUID_LENGTH:]))
        return f"{folder}/deletion_vector_{name}.bin" if folder else f"deletion_vector_{name}.bin"
    raise CorruptFile(f"a deletion vector of storage type {storage!r} at {path!r}")


def positions(vector: Mapping[str, Any], content: bytes | None) -> frozenset[int]:
    """The deleted positions; ``content``: the bytes of :func:`file_of`, None if there is none.

    Raises:
        CorruptFile: they cannot be read, or are not as many as the descriptor says.
    """
    if content is None:
        inline = z85(str(vector.get("pathOrInlineDv")))
        if inline[:4] != DV_MAGIC:
            raise CorruptFile(f"a deletion vector with magic {inline[:4].hex()} instead of {DV_MAGIC.hex()}")
        found = bitmap(inline[4:])
    else:
        begin, size = int(vector.get("offset") or 0), int(vector.get("sizeInBytes") or 0)
        found = decode_deletion_vector(content[begin : begin + size + FRAME])
    if len(found) != vector.get("cardinality"):
        raise CorruptFile(
            f"a deletion vector of {len(found)} positions whose descriptor says {vector.get('cardinality')}"
        )
    return frozenset(found)
