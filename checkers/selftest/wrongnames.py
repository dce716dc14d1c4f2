"""Bugs of a catalog's names that the ``linearizable`` checker must find.

Operations on side tables are added to a run, one after the other, of which the last one got an answer that it cannot get.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.selftest import edits
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.world import Planted, World

Step = tuple[str, int, tuple[int, ...] | None]
"""What an operation does, to which side table (a rename: to the other one), and which operations it was shown, by their positions."""


def _story(*steps: Step) -> Callable[[World], Planted | None]:
    """Adds the operations of one writer, one after the other; the last one's answer has no explanation."""

    def change(w: World) -> Planted | None:
        t = w.choose(w.tables)
        if t is None:
            return None
        process = edits.fresh(w.events)
        ops = [f"w{process}-{n}" for n in range(len(steps))]
        more = []
        for op, (what, n, shown) in zip(ops, steps, strict=True):
            value = {"n": n, "to": 1 - n} if what == "rename" else {"n": n}
            result: Any = None if shown is None else [[ops[i] for i in shown]] if shown else []
            more += edits.answered(process, f"side-{what}", t.name, value, op, result)
        return w.planted(ops[-1], events=edits.inserted(w.events, w.rng.randrange(len(w.events)), more))

    return change


NAME_PLANTS: Plants = {
    "table-forgotten: A name that was created is not there.": Plant(_story(("create", 0, None), ("read", 0, ()))),
    "table-back: A table that was dropped is there again.": Plant(
        _story(("create", 0, None), ("drop", 0, None), ("read", 0, (0,)))
    ),
    "table-made-twice: Two CREATE TABLE of one name succeed.": Plant(_story(("create", 0, None), ("create", 0, None))),
    "append-to-a-dropped-table: A commit is acknowledged after the table was dropped.": Plant(
        _story(("create", 0, None), ("drop", 0, None), ("append", 0, (0,)))
    ),
    "append-to-a-table-made-anew: A commit of a dropped table lands in the new one of its name.": Plant(
        _story(("create", 0, None), ("drop", 0, None), ("create", 0, None), ("append", 0, (0,)))
    ),
    "append-lost-by-rename: A rename puts the table's state from before a commit under the new name.": Plant(
        _story(("create", 0, None), ("append", 0, (0,)), ("rename", 0, None), ("read", 1, (0,)))
    ),
    "renamed-to-two-names: A renamed table is there under both names.": Plant(
        _story(("create", 0, None), ("rename", 0, None), ("read", 0, (0,)))
    ),
    "renamed-over: A rename replaces a table of the new name.": Plant(
        _story(("create", 0, None), ("create", 1, None), ("rename", 0, None))
    ),
}

PLANTS = table(
    NAME_PLANTS, "linearizable", names="nonlinearizable", where=whole, seen="apache/iceberg#18059", neutral=False
)
