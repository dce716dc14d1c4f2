"""Why a run cannot go on."""

from __future__ import annotations


class RunError(RuntimeError):
    """The harness could not do its work; the message is one line with a remedy."""
