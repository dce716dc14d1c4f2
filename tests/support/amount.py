"""How many made runs a test judges."""

from __future__ import annotations

import os

LONGER = 10


def many(n: int) -> int:
    """``n``; with ``ICEQUAKE_EXPLORE=1`` ten times as many, to look for what one run in a thousand would show."""
    return n * LONGER if os.environ.get("ICEQUAKE_EXPLORE") else n
