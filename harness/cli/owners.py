"""Whose folder is it? A command goes on in a folder of its own, which it knows by the journal there, and leaves that of another one alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

JOURNALS: Mapping[str, str] = {
    "proofs.jsonl": "prove",
    "cells.jsonl": "matrix",
    "searches.jsonl": "time-to-find",
    "shrink.jsonl": "shrink",
    "requirements.jsonl": "certify",
    "history.jsonl": "run",
    "plan.yaml": "run",
}
"""A file that one command alone writes → that command."""
SHARED = "runs.jsonl"
"""The journal of a night, of a comparison and of a sweep; its header says whose it is."""


def owners(folder: Path) -> dict[str, tuple[str, ...]]:
    """The files of a folder that say whose it is → the commands that may have written them; none: it is nobody's."""
    found: dict[str, tuple[str, ...]] = {
        name: (command,) for name, command in JOURNALS.items() if (folder / name).is_file()
    }
    if (shared := folder / SHARED).is_file() and (those := _of_header(shared)):
        found[SHARED] = those
    return found


def _of_header(path: Path) -> tuple[str, ...]:
    """Whose journal it is; none for a file that is no journal, of which the command says what is wrong."""
    try:
        with path.open("rb") as f:
            header: Any = json.loads(f.readline(10_000_000))
    except (OSError, ValueError, RecursionError):
        return ()
    if not isinstance(header, dict):
        return ()
    if isinstance(made_by := header.get("command"), str):
        return (made_by,)
    # A release that wrote no command wrote the suite of a night, and the workload of a comparison as of a sweep.
    return ("soak",) if "suite" in header else ("compare", "sweep") if "workload" in header else ()
