"""What manifests and manifest lists say of the values in files, and what is in the files: the records of the table log.

A log has several values for each column of each file, and most of its readers need none of them. So the columns of a file are one text, which
is parsed when a rule asks for it (:func:`columns`): ``1i,8,0,,0,7;2t,8,1,,'a,'b`` says that the column with field id 1 has eight values, no
null, an unknown number of NaN, and the bounds 0 and 7. After the id comes how bounds are read, a letter of :data:`VALUE_KINDS`; none: not
known. The partition summaries of a manifest (:func:`fields`) are ``i,0,0,0,3``: the letter, whether there are nulls and NaN, and the bounds.

A bound is an integer (``i``, and ``d``: unscaled), a float, 0 or 1 (``o``), a text after ``'``, or else its bytes after ``x`` as hexadecimal
digits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

Kind = str
"""A letter of :data:`VALUE_KINDS`; empty: not known."""
VALUE_KINDS: Mapping[Kind, str] = {
    "i": "an integer, date or time",
    "f": "a float",
    "t": "a text",
    "b": "bytes",
    "d": "a decimal",
    "o": "a boolean",
}
Bound = int | float | str | bytes
"""The value of a bound; bytes also where they do not fit the kind."""


class ColumnStatistics(NamedTuple):
    """One column of a file: numbers of values (with nulls and NaN), of nulls and of NaN, and bounds; None: not said."""

    kind: Kind
    values: int | None
    nulls: int | None
    nans: int | None
    lower: Bound | None
    upper: Bound | None


class PartitionSummary(NamedTuple):
    """One field of a partition spec in all files of a manifest; None: not said."""

    kind: Kind
    nulls: bool | None
    nans: bool | None
    lower: Bound | None
    upper: Bound | None


class ManifestLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, array_like=True):
    """A line of a manifest list, and what its manifest has.

    Attributes:
        path: relative to the table's location, as those of files are.
        snapshot_id: of the snapshot that added the manifest.
        length: in bytes, as the line says; ``stored``: of the object in the store; None: it was not read.
        counts: what the line says of the numbers of added, existing and deleted files, then of their rows; None: not said.
        partitions: what the line says of each field of the partition spec; None: nothing.
        found: the same of the live entries of the manifest; None: it could not be read.
        key_metadata: as hexadecimal digits.
    """

    path: str
    deletes: bool
    spec_id: int
    sequence_number: int
    min_sequence_number: int
    snapshot_id: int | None = None
    first_row_id: int | None = None
    length: int | None = None
    stored: int | None = None
    counts: tuple[int | None, ...] = ()
    partitions: str | None = None
    found: str | None = None
    key_metadata: str | None = None


def columns(text: str) -> dict[int, ColumnStatistics]:
    """Field id → what a text says of the column.

    Raises:
        ValueError: it is none.
    """
    out: dict[int, ColumnStatistics] = {}
    for part in text.split(";") if text else ():
        head, values, nulls, nans, lower, upper = part.split(",")
        kind = head[-1:] if head[-1:] in VALUE_KINDS else ""
        id = int(head.removesuffix(kind))
        out[id] = ColumnStatistics(
            kind, _int(values), _int(nulls), _int(nans), _bound(lower, kind), _bound(upper, kind)
        )
    return out


def fields(text: str) -> list[PartitionSummary]:
    """What a text says of each field of a partition spec.

    Raises:
        ValueError: it is none.
    """
    out = []
    for part in text.split(";") if text else ():
        kind, nulls, nans, lower, upper = part.split(",")
        has = {"": None, "0": False, "1": True}
        out.append(PartitionSummary(kind, has.get(nulls), has.get(nans), _bound(lower, kind), _bound(upper, kind)))
    return out


def _int(text: str) -> int | None:
    return int(text) if text else None


def _bound(text: str, kind: Kind) -> Bound | None:
    if not text:
        return None
    if text[0] == "x":
        found = bytes.fromhex(text[1:])
        return _READ["t"](found) if kind == "t" else found
    if text[0] == "'":
        return text[1:]
    return float(text) if kind == "f" else int(text)


_READ: Mapping[Kind, Callable[[bytes], Bound]] = {
    "i": lambda b: int.from_bytes(b, "little", signed=True) if len(b) in (4, 8) else b,
    "f": lambda b: struct.unpack("<f" if len(b) == 4 else "<d", b)[0] if len(b) in (4, 8) else b,
    "t": lambda b: b.decode("utf-8", "surrogateescape"),
    "b": lambda b: b,
    "d": lambda b: int.from_bytes(b, "big", signed=True) if b else b,
    "o": lambda b: b[0] if b in (b"\0", b"\1") else b,
    "": lambda b: b,
}


def bound_of(serial: bytes, kind: Kind) -> Bound:
    """The value of a bound in the specification's single-value serialization (appendix D); the bytes themselves where they do not fit."""
    return _READ[kind](serial)


def bound_text(value: Bound | None) -> str:
    """A bound as a log has it."""
    if value is None:
        return ""
    if isinstance(value, str):
        if value.isprintable() and not {",", ";"} & {*value}:
            return f"'{value}"
        return f"x{value.encode('utf-8', 'surrogateescape').hex()}"
    if isinstance(value, bytes):
        return f"x{value.hex()}"
    return (
        repr(value)
        if isinstance(value, float) and math.isfinite(value)
        else str(int(value) if isinstance(value, bool) else value)
    )


def columns_text(statistics: Iterable[tuple[int, ColumnStatistics]]) -> str:
    """The inverse of :func:`columns`."""
    return ";".join(
        f"{id}{c.kind},{_numbers(c[1:4])},{bound_text(c.lower)},{bound_text(c.upper)}" for id, c in statistics
    )


def fields_text(summaries: Iterable[PartitionSummary]) -> str:
    """The inverse of :func:`fields`."""
    return ";".join(f"{s.kind},{_numbers(s[1:3])},{bound_text(s.lower)},{bound_text(s.upper)}" for s in summaries)


def _numbers(values: tuple[Any, ...]) -> str:
    return ",".join("" if n is None else str(int(n)) for n in values)
