"""Keeps the tests away from the store of this checkout: what a developer has run must not decide whether they pass."""

from __future__ import annotations

import os
import sys
from pathlib import Path

STORE = Path(__file__).parents[2] / "store"
"""Where ``icequake`` puts its runs when it is started in this folder."""

OPENS = ("open", "os.listdir", "os.scandir", "os.mkdir")
"""The audit events of whatever reads a file, lists a folder or makes one; their first argument is a path."""


def forbid(store: Path = STORE) -> None:
    """Let everything in this process that opens the store, or anything in it, fail from now on."""
    within = (str(store) + os.sep,)

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event not in OPENS or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.fsdecode(arguments[0])
        if event == "open" and arguments[1] is None and not os.path.isabs(path):
            return  # os.open, with which shutil.rmtree opens names relative to a folder that the event does not tell
        path = os.path.abspath(path)
        if (path + os.sep).startswith(within):
            raise AssertionError(  # no OSError: Path.glob takes one for a folder that is not there
                f"a test opens {path}: a test must not depend on the runs of this checkout; take a recorded one "
                "(the fixture recorded_run), or give the command --store"
            )

    sys.addaudithook(look)
