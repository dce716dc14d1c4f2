"""What ``assert:`` in a workload file may say."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_MS = {"ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}


def assertion(text: str) -> tuple[str, float, bool]:
    """Parse a threshold such as ``"<5%"``, ``"<500ms"`` or ``">=200"``.

    Returns:
        The comparison (``<``, ``<=``, ``>``, ``>=``, ``==``), the number (0.05 for 5 %, milliseconds of a time), and whether it was a
        percentage.

    Raises:
        ValueError: the text has another form.
    """
    symbol, number, unit = _parts(text)
    return symbol, number / 100 if unit == "%" else number * _MS.get(unit, 1.0), unit == "%"


def _parts(text: str) -> tuple[str, float, str]:
    match = re.fullmatch(r"\s*(<=|>=|==|<|>)\s*(\d+(?:\.\d+)?)\s*(%|ms|s|m|h|)\s*", text)
    if match is None:
        raise ValueError('must be a comparison such as "<5%" or ">=200"')
    return match[1], float(match[2]), match[3]


METRICS = {
    "operations": "operations of the writers that completed, whatever their outcome",
    "kinds": "operation kinds that completed at least once",
    "ok_rate": "operations acknowledged / operations",
    "abort_rate": "writes that certainly failed / writes",
    "unknown_rate": "operations whose outcome is unknown / operations",
    "retried": "commits that needed more than one attempt",
    "aborted": "writes aborted by a conflict (CommitFailedException or ValidationException)",
    "retry_rate": "commits that needed more than one attempt / commits",
    "latency_p50_ms": "median time from invocation to acknowledgement, ms",
    "latency_p99_ms": "99th percentile of the time from invocation to acknowledgement, ms",
}
"""What ``assert:`` may compare. A metric whose name ends with ``_rate`` is a share, with ``_ms`` a time; the others are counts."""


def is_share(metric: str) -> bool:
    """Whether the metric lies between 0 and 1."""
    return metric.endswith("_rate")


def is_time(metric: str) -> bool:
    """Whether the metric is in milliseconds."""
    return metric.endswith("_ms")


def wrong(metric: str, text: str) -> str | None:
    """Why a file may not compare this metric with this threshold: it has another form, no unit, or another one. None if it may.

    A stored plan of an older icequake may lack the unit; :func:`assertion` reads it.
    """
    example = '"<5%"' if is_share(metric) else '"<500ms"' if is_time(metric) else '">=200"'
    try:
        symbol, number, unit = _parts(text)
    except ValueError:
        return f"{metric}: must be a comparison such as {example}, not {text!r}"
    if is_share(metric):
        if unit == "":
            percent = 100 * number if number < 1 else number
            return f'{metric} is a share: write "{symbol}{percent:g}%"'
        if unit != "%":
            return f"{metric} is a share: write a percentage such as {example}, not {text!r}"
        if number > 100:
            return f"{metric} is a share and lies between 0% and 100%, so {text!r} says nothing"
    elif is_time(metric):
        if unit == "":
            return f'{metric} is a time: write "{symbol}{number:g}ms"'
        if unit == "%":
            return f"{metric} is a time: write one such as {example}, not {text!r}"
    elif unit:
        return f'{metric} is a count: write "{symbol}{number:g}"'
    return None


def _as_text(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError('must be a comparison such as "<5%" or ">=200", in quotes')
    return value


Threshold = Annotated[str, BeforeValidator(_as_text)]
"""The text of a threshold."""
