"""A record with other values, and its fields, whichever of the two ways it is made: frozen dataclass or ``msgspec.Struct``."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def replace(record: T, **changes: Any) -> T:
    """A copy of ``record`` with these fields changed.

    Raises:
        TypeError: it has no such field, or is no record.
    """
    if isinstance(record, msgspec.Struct):
        return msgspec.structs.replace(record, **changes)
    return dataclasses.replace(record, **changes)  # type: ignore[type-var]
