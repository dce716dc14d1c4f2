"""Reads JSON values of files that any program may have written: what is well-formed, and nothing or None for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def strings(value: object) -> tuple[str, ...]:
    """The texts of a list; empty if it is not a list."""
    return tuple(str(v) for v in value) if isinstance(value, list | tuple) else ()


def mapping(value: object) -> dict[str, Any]:
    """A mapping with text keys; empty if it is not a mapping."""
    return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {}


def mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """The mappings of a list; none if it is not a list."""
    for v in value if isinstance(value, list) else ():
        if isinstance(v, Mapping):
            yield v


def integer(value: object) -> int | None:
    """A whole number; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def integers(value: object) -> tuple[int, ...]:
    """The whole numbers of a list; empty if it is not a list."""
    items = value if isinstance(value, list | tuple) else ()
    return tuple(v for v in items if isinstance(v, int) and not isinstance(v, bool))


def number(value: object) -> float | None:
    """A number; None for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
