"""Which tests run in one process, one after the other: those on one bench, those on one stack, and those of one file."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[2]
SHARED = {"bench": "bench", "stack": "stack", "spark": "stack"}
"""Fixture of the test session → the name of the tests that share it."""
LONGEST = (
    "bench",
    "stack",
    "tests/compose/test_stack.py",
    "tests/spark/test_nemesis.py",
    "tests/spark/test_external.py",
    "tests/spark/test_up.py",
    "tests/spark/test_check_on_spark.py",
    "tests/spark/test_failures.py",
    "tests/spark/test_prove.py",
    "tests/spark/test_sweep.py",
)
"""The groups that take longest, most first. All others take less than half a minute."""


class Sharing(LoadScopeScheduling):
    """A scheduler of pytest-xdist. The longest groups come first, so that no process is left with one when the others have ended."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(longest(self.workqueue), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """No group waits behind two tests: a process must know only the next one (the scheduler of xdist gives it two)."""
        if not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


def longest(groups: Iterable[str]) -> str:
    """The one that is to start first."""
    return min(groups, key=lambda one: LONGEST.index(one) if one in LONGEST else len(LONGEST))


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
