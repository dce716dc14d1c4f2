"""The end of each log file that a failure names: the folder of a test is often gone before a person reads the failure."""

from __future__ import annotations

import re
from pathlib import Path

LINES = 60
"""Enough for a Java stack trace with its cause, and few enough to read in a list of failures."""

_LOG = re.compile(r"(/[^\s'\"]+\.log)\b")


def ends_of_logs(failure: str) -> list[tuple[str, str]]:
    """The path and the last :data:`LINES` lines of each readable log file whose absolute path the text of a failure has, each once."""
    ends = []
    for name in dict.fromkeys(_LOG.findall(failure)):
        try:
            lines = Path(name).read_text(errors="replace").splitlines()
        except OSError:
            continue  # the failure names a file that never was, or is gone: its own text still says so
        ends.append((name, "\n".join(lines[-LINES:])))
    return ends
