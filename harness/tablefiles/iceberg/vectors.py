"""Deletion vectors: their bytes, decoded and encoded (Iceberg's Puffin blob ``deletion-vector-v1``)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from pyroaring import BitMap64

from harness.tablefiles.iceberg.metadata_json import CorruptFile

DV_MAGIC = b"\xd1\xd3\x39\x64"


def decode_deletion_vector(blob: bytes) -> tuple[int, ...]:
    """The deleted positions, ascending, of one ``deletion-vector-v1`` blob (Puffin spec).

    Raises:
        CorruptFile: torn, wrong magic, wrong CRC, or no bitmap.
    """
    if len(blob) < 12:
        raise CorruptFile(f"a deletion vector of {len(blob)} bytes is too short")
    (length,) = struct.unpack(">I", blob[:4])
    if length != len(blob) - 8:
        raise CorruptFile(f"a deletion vector that says {length} bytes but has {len(blob) - 8}")
    if blob[4:8] != DV_MAGIC:
        raise CorruptFile(f"a deletion vector with magic {blob[4:8].hex()} instead of {DV_MAGIC.hex()}")
    (crc,) = struct.unpack(">I", blob[-4:])
    if crc != zlib.crc32(blob[4:-4]):
        raise CorruptFile("a deletion vector whose CRC is wrong")
    return bitmap(blob[8:-4])


def bitmap(body: bytes) -> tuple[int, ...]:
    """The positions, ascending, of a vector's portable Roaring bitmap, which follows the magic bytes. Raises CorruptFile."""
    try:
        return tuple(BitMap64.deserialize(body))
    except (ValueError, RuntimeError, MemoryError) as e:
        raise CorruptFile(f"a deletion vector without a bitmap: {e}") from None


def encode_deletion_vector(positions: Sequence[int]) -> bytes:
    """The inverse of :func:`decode_deletion_vector`."""
    body = DV_MAGIC + BitMap64(positions).serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def read_deletion_vector(content: bytes, offset: int | None, length: int | None) -> tuple[int, ...]:
    """The positions of the vector at ``offset`` (bytes) of a Puffin file.

    Raises:
        CorruptFile: outside the file, or as :func:`decode_deletion_vector`.
    """
    if offset is None or length is None:
        raise CorruptFile("a deletion vector whose entry says no content_offset and content_size_in_bytes")
    if offset < 0 or length < 0 or offset + length > len(content):
        raise CorruptFile(f"a deletion vector at {offset}+{length}, outside its file of {len(content)} bytes")
    return decode_deletion_vector(content[offset : offset + length])
