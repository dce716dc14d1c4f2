"""Who watches the runs of a benchmark: nobody."""

from __future__ import annotations


class Silent:
    """A watcher that shows nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def progress(self, done: int, total: int | None) -> None:
        """Show nothing."""

    def lasts(self, seconds: float | None) -> None:
        """Show nothing."""
