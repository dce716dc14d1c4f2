"""What was seen when a requirement was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from checkers.certificate import Absent, Exchange


class NotApplicable(Exception):
    """The server has not what a requirement is about."""

    def __init__(self, why: Absent) -> None:
        super().__init__(why.value)
        self.why = why


class Exchanges:
    """All that was seen when a requirement was asked once: exchanges in the order of their answers, and notes."""

    def __init__(self, exchanges: Iterable[Exchange] = (), notes: Mapping[str, Any] | None = None) -> None:
        self.exchanges = list(exchanges)
        self.notes = dict(notes or {})

    def __getitem__(self, label: str) -> Exchange:
        found = self.all(label)
        if len(found) != 1:
            raise LookupError(f"{len(found)} exchanges are labelled {label}")
        return found[0]

    def all(self, label: str) -> list[Exchange]:
        """The exchanges of a label, or whose label begins with it and a colon."""
        return [e for e in self.exchanges if e.label == label or e.label.startswith(f"{label}:")]
