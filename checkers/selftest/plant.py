"""A planted bug: a known bug of a table format, a catalog or an engine, as a row of a table.

A row says where the bug can be planted, what it changes there, which checker must find it under which names, and where such a bug was seen.
Selectors (where) and edits (what) are functions that rows share: :mod:`checkers.selftest.sites`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from checkers.evidence.replace import replace
from checkers.selftest.world import Planted, World

S = TypeVar("S")
"""A site: where in a run a bug can be planted."""


@dataclass(frozen=True)
class Plant(Generic[S]):
    """A bug to plant.

    A column that is None is said by the row's table.

    Attributes:
        change: plants it at a site; None if it cannot be there.
        names: names of anomalies that count as found, with spaces between them; each is right for some placement. Empty: evidence is gone, and
            a verdict other than valid counts.
        where: the sites of a run, in random order.
        seen: where such a bug occurred, or who describes it; ``apache/iceberg#1`` is an issue or a pull request on GitHub.
        neutral: whether every table format can have it: it concerns the history, rows, the order of commits, files or the catalog's pointer,
            and its change touches nothing that only Iceberg has.
        checker: the checker that must find it.
        name: the bug, in hyphenated words.
        does: what the bug does, in one sentence; empty: the first paragraph of the change's docstring.
    """

    change: Callable[[S], Planted | None]
    names: str | None = None
    where: Callable[[World], Iterable[S]] | None = None
    seen: str | None = None
    neutral: bool | None = None
    checker: str = ""
    name: str = ""
    does: str = ""

    @property
    def finds(self) -> frozenset[str]:
        """The names that count as found."""
        return frozenset((self.names or "").split())

    @property
    def description(self) -> str:
        """What the bug does, in one sentence."""
        return self.does or inspect.cleandoc(self.change.__doc__ or "").split("\n\n")[0].replace("\n", " ")

    def plant(self, w: World) -> Planted | None:
        """The run with the bug at the first site, in an order that ``w.rng`` decides, that can have it; None if there is none."""
        assert self.where is not None
        return next((bug for site in self.where(w) if (bug := self.change(site)) is not None), None)


Plants = Mapping[str, Plant[Any]]
"""Rows by name, or by ``name: what the bug does``."""


def table(rows: Plants, checker: str, **columns: Any) -> tuple[Plant[Any], ...]:
    """The rows of bugs that a checker must find, which have these columns in common unless they say something else."""
    found = []
    for title, row in rows.items():
        name, _, does = title.partition(": ")
        common = {k: v for k, v in columns.items() if getattr(row, k) is None}
        found.append(replace(row, name=name, does=does or row.does, checker=row.checker or checker, **common))
    return tuple(found)


def whole(w: World) -> tuple[World]:
    """The run as the only site: the change itself chooses where."""
    return (w,)
