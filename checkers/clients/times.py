"""Times of events: numbers of nanoseconds, or moments in ISO 8601."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from checkers.evidence.history import HistoryError

TimeForms = dict[bool, int]
"""Whether times are in ISO form → where the first one is."""


def same_form(forms: TimeForms, iso: bool, offset: int, fail: Callable[[int, str], HistoryError]) -> None:
    """Add the form of a time. Raises HistoryError: those before have another one, and may count from another moment."""
    forms.setdefault(iso, offset)
    if len(forms) > 1:
        raise fail(offset, "its time is a number and others are in ISO form, or the reverse; write all in one form")


def ns_of(text: str) -> int | None:
    """Nanoseconds since 1970 of a time in ISO 8601 with its zone, such as ``2026-11-28T09:30:00.123456789Z``; None if it is none.

    Without a zone nobody knows which moment it is, and two clients may mean different ones.
    """
    if (found := _ISO.fullmatch(text)) is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{found['seconds']}{found['zone']}")
    except ValueError:
        return None
    seconds = (moment - datetime.fromtimestamp(0, UTC)) // timedelta(seconds=1)
    return seconds * 1_000_000_000 + int((found["fraction"] or "").ljust(9, "0")[:9])


_ISO = re.compile(
    r"(?P<seconds>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d+))?(?P<zone>Z|[+-]\d\d(?::?\d\d)?)", re.ASCII
)


def as_ns(name: str, found: Any) -> str:
    """How a time in another form is written, if that is known."""
    if name != "time":
        return ""
    if isinstance(found, float | Decimal):
        return "; if it counts seconds, write round(seconds * 1_000_000_000)"
    if isinstance(found, str) and found.strip().isdigit():
        return "; write it without quotes"
    if isinstance(found, int) and not isinstance(found, bool):
        return f"; it must be below {1 << 63}"
    try:
        datetime.fromisoformat(found)
    except (ValueError, TypeError):
        if isinstance(found, str) and _ISO.fullmatch(found):
            return "; it has the form of a time in ISO 8601, but there is no such date or time of day"
        return ""
    return f"; a time in ISO form needs date, time and zone, such as {_SAMPLE}"


_SAMPLE = "2026-11-28T09:30:00.123Z"
