"""Durations as people write them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, SerializationInfo, ValidationInfo

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

WRITTEN = "written"
"""The key of pydantic's context that says that a person writes or reads the values: a length of time then has a unit. Histories and plans
have seconds, as numbers."""


def seconds(text: object) -> float:
    """The seconds of a duration: ``"500ms"``, ``"90s"``, ``"2m"``, ``"1.5h"``, or a number (not as text) of seconds.

    Raises:
        ValueError: it is not a duration, has no unit, or is not positive.
    """
    value = _at_least_0(text)
    if not 0 < value < 1e7:
        raise ValueError("must be more than 0 and less than 100 days")
    return value


def whole_seconds(text: object) -> int:
    """The seconds of a duration that is a whole number of seconds, or 0; see :func:`seconds`.

    Raises:
        ValueError: it is not such a duration.
    """
    value = _at_least_0(text)
    if value != int(value):
        raise ValueError("must be a whole number of seconds, such as 1s or 2m")
    return int(value)


def _at_least_0(text: object) -> float:
    if isinstance(text, bool) or not isinstance(text, int | float | str):
        raise ValueError("must be a length of time such as 90s, 2m or 1h")
    if not isinstance(text, str):
        value = float(text)
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)?\s*", text)
        if match is None:
            raise ValueError("must be a length of time such as 500ms, 90s, 2m or 1h")
        if match[2] is None:
            raise ValueError(_without_unit(match[1]))
        value = float(match[1]) * _UNITS[match[2]]
    if not 0 <= value < 1e7:
        raise ValueError("must be more than 0 and less than 100 days")
    return value


def _without_unit(number: object) -> str:
    return f"{number} has no unit of time; write {number}s, {number}ms, {number}m or {number}h"


def _checked_unit(value: object, info: ValidationInfo) -> object:
    written = isinstance(info.context, dict) and info.context.get(WRITTEN)
    if written and isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(_without_unit(value))
    return value


def _written(value: float, info: SerializationInfo) -> int | float | str:
    """The same way back: with a unit in what a person reads."""
    written = isinstance(info.context, dict) and info.context.get(WRITTEN) and value is not None
    return f"{f'{value:.6f}'.rstrip('0').rstrip('.')}s" if written else value


Seconds = Annotated[float, BeforeValidator(seconds), BeforeValidator(_checked_unit), PlainSerializer(_written)]
"""Seconds; in a file with a unit."""
WholeSeconds = Annotated[int, BeforeValidator(whole_seconds), BeforeValidator(_checked_unit), PlainSerializer(_written)]
"""A whole number of seconds, or 0; in a file with a unit."""
