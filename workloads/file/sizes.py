"""Amounts of storage as people write them: ``20GB``, in units of 1000."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|kB|KB|MB|GB|TB)\s*")


def size(text: object) -> int:
    """The bytes of an amount: ``"500MB"``, ``"1.5GB"``.

    Raises:
        ValueError: it is no amount, has no unit, or is not positive.
    """
    if isinstance(text, int | float) and not isinstance(text, bool):
        raise ValueError(f"{text} has no unit; write {text}MB or {text}GB")
    match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("must be an amount of storage such as 500MB or 20GB")
    unit = "kB" if match[2] == "KB" else match[2]
    found = int(float(match[1]) * _UNITS[unit])
    if not 0 < found <= 10**15:
        raise ValueError("must be more than 0 and at most 1000TB")
    return found


def written(count: int) -> str:
    """An amount as :func:`size` reads it: ``20GB``."""
    unit = next((u for u in reversed(_UNITS) if count % _UNITS[u] == 0 and count >= _UNITS[u]), "B")
    return f"{count // _UNITS[unit]}{unit}"


Bytes = Annotated[int, BeforeValidator(size)]
"""Bytes; in a file with a unit."""
