"""What a file is that somebody gave to a command, and which command takes it: :func:`what`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from workloads.file.opened import opened

FILE_KINDS: Mapping[str, tuple[str, str]] = {
    "workload": ("a workload file", "`icequake run {}` runs it"),
    "suite": ("a suite file", "`icequake soak {}` runs it"),
    "scenario": ("a scenario file", "`icequake prove {}` runs it"),
    "model": ("a model file", "`icequake model {}` explores it"),
    "defect": ("a defect file", "`icequake time-to-find` looks for the defects of the library"),
    "spark": (
        "the file of a catalog",
        "`icequake run WORKLOAD --catalog {0}` and `icequake certify --catalog {0}` use it",
    ),
}
"""The key by which a file of each kind is known → what such a file is called, and what one does with it."""
HISTORY = ("a history", "`icequake check {}` judges it")
EXPERIMENT = ("an experiment", "`icequake sweep {}` runs it")
RUN = ("the folder of a run", "`icequake check {}` judges it")
_RECORDS = (
    (
        r'\s*\{\s*"format"\s*:\s*1\s*,\s*"servers"',
        ("a certificate", "`icequake certify --against {}` compares with it"),
    ),
    (r'\s*\{\s*"allowed"|\s*\{\s*"checkers"', ("a verdict", "`icequake check RUN` judges a run again, by its folder")),
    (r'\s*\{\s*"format"\s*:\s*\d+\s*,\s*"workload"', HISTORY),
    (r'\s*\[?\s*\{[^\n]*"type"\s*:\s*"(?:invoke|ok|fail|info)"', HISTORY),
    (r"\s*\[?\s*(?:;[^\n]*\s+)?\{[^\n]*:type\s+:(?:invoke|ok|fail|info)", HISTORY),
)
"""How a file of another kind begins; what it is called, and what one does with it."""
_SEEN = 1 << 16
"""Bytes of a file that are looked at: an experiment says what varies behind a comment of a page."""


def of_records(text: str) -> tuple[str, str] | None:
    """As :func:`of_text`, of files that programs write."""
    return next((found for begin, found in _RECORDS if re.match(begin, text)), None)


def of_text(text: str) -> tuple[str, str] | None:
    """What a text of this kind is called, and what one does with it (``{}`` stands for its file). None: nobody knows."""
    if (known := of_records(text)) is not None:
        return known
    if re.search(r"^vary:", text, re.MULTILINE):
        return EXPERIMENT
    keys = re.findall(r"^(\w+):", text, re.MULTILINE)
    return next((found for key, found in FILE_KINDS.items() if key in keys), None)


def what(path: Path) -> str | None:
    """What a file or folder is and which command takes it, in words. None: it is not there, or nobody knows."""
    if path.is_dir():
        found = RUN if (path / "plan.yaml").is_file() and (path / "history.jsonl").is_file() else None
    else:
        try:
            with opened(path) as file:
                found = of_text(file.read(_SEEN).decode("utf-8-sig", "replace"))
        except OSError:
            return None
    return None if found is None else f"{found[0]}; {found[1].format(path)}"


def refused(path: Path, wanted: str) -> str | None:
    """That a file or folder is not what a command takes, in words, with the command that takes it. None: nobody knows what it is."""
    title, _, use = (what(path) or "").partition("; ")
    return f"{path}: this is {title}, not {wanted}; {use}" if use else None
