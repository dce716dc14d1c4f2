"""Which tests run in one process, one after the other: those on one bench, those on one stack, and those of one file."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[2]
SHARED = {"bench": "bench", "stack": "stack", "spark": "stack"}
"""Fixture of the test session → the name of the tests that share it."""


class Sharing(LoadScopeScheduling):
    """A scheduler of pytest-xdist. Groups with many tests come first."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def group(nodeid: str) -> str:
    """The name of a test's group, from the text of its file: the process that hands out tests collects none.

    A fixture that is not an argument is overlooked; the test then runs in another process, which starts a bench of its own.
    """
    path, _, rest = nodeid.partition("::")
    used = fixtures(path, rest.partition("[")[0].rpartition("::")[2])
    return next((shared for fixture, shared in SHARED.items() if fixture in used), path)


def fixtures(path: str, name: str) -> set[str]:
    """What a test needs, and what the fixtures in its file need, by name."""
    needs, seen = [name], set[str]()
    while needs:
        if (one := needs.pop()) not in seen:
            seen.add(one)
            needs += arguments(path).get(one, ())
    return seen - {name}


@cache
def arguments(path: str) -> dict[str, list[str]]:
    """The arguments of a file's functions: tests and fixtures."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {f.name: [a.arg for a in f.args.args] for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)}
