"""Durations as people write them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: object) -> float:
    """The seconds of a duration: a number of seconds, or ``"500ms"``, ``"90s"``, ``"2m"``, ``"1.5h"``.

    Raises:
        ValueError: it is not a duration, or not positive.
    """
    if isinstance(text, bool) or not isinstance(text, int | float | str):
        raise ValueError("must be a length of time such as 90s, 2m or 1h")
    if isinstance(text, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)?\s*", text)
        if match is None:
            raise ValueError("must be a length of time such as 500ms, 90s, 2m or 1h")
        value = float(match[1]) * _UNITS[match[2] or "s"]
    else:
        value = float(text)
    if not 0 < value < 1e7:
        raise ValueError("must be more than 0 and less than 100 days")
    return value


Seconds = Annotated[float, BeforeValidator(seconds)]
