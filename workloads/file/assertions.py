"""What ``assert:`` in a workload file may say."""

from __future__ import annotations

import re


def assertion(text: str) -> tuple[str, float, bool]:
    """Parse a threshold such as ``"<5%"`` or ``">=200"``.

    Returns:
        The comparison (``<``, ``<=``, ``>``, ``>=``, ``==``), the number (0.05 for 5 %), and whether it was a percentage.

    Raises:
        ValueError: the text has another form.
    """
    match = re.fullmatch(r"\s*(<=|>=|==|<|>)\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    if match is None:
        raise ValueError('must be a comparison such as "<5%" or ">=200"')
    return match[1], float(match[2]) / (100 if match[3] else 1), bool(match[3])


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
"""What ``assert:`` may compare."""
