"""Steps of what to do now: their words, and their order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby

from checkers.timeline import explain

THIS_CARD = "this card"
"""Where the statements of the operations are."""


ALONE = "while nothing else writes"
"""In a step whose operation did harm only because another one ran at once."""


class Repair(IntEnum):
    """What a step does, in the order in which a table is mended.

    Nobody may write meanwhile, nor make the harm again. A table's rows can be mended only where somebody can read it; a commit is brought back
    where its snapshot is, and statements that build on it run later; then what is wrong is rewritten, so that nothing is written on wrong
    metadata; and rows that should not be there go before statements write them again. What going back loses is done again in the order of its
    commits (``REDO``), before all of that; the rest in the order of the history. The numbers are those of ``results.json``.
    """

    STOP = 0
    RESTORE = 1
    SET_BACK = 2
    MOVE = 3
    BRING_BACK = 4
    REWRITE = 9
    REMOVE = 5
    LEAVE = 6
    REDO = 7
    RUN_AGAIN = 8


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One thing to do now.

    Attributes:
        text: what to do, in sentences. ``{ops}``, ``{ids}`` and ``{tables}`` stand for these, ``{table}`` for the first of them, ``{card}``
            for where the statements are, ``{it}`` and ``{its}`` for the operations again, ``{sql}`` for the statements. Steps of one text are
            one step (:func:`merged`).
        does: its place among the steps.
        ops: operations whose statements a person needs, or must not run; in the order of the history.
        keys: rows, each with its table (empty: nobody knows it) and id.
        tables: names of the tables.
        notes: what to know before of each operation: its id, a colon, and a sentence.
        sql: statements that do it, as a person types them.
        back: only who has no backup of the files does it, and goes back to an older state of the table (:func:`branches`).
    """

    text: str
    does: Repair = Repair.REWRITE
    ops: tuple[str, ...] = ()
    keys: tuple[tuple[str, int], ...] = ()
    tables: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sql: tuple[str, ...] = ()
    back: bool = False

    def words(self, card: str = THIS_CARD) -> str:
        """What to do, with the notes."""
        return " ".join((self.sentence(card), *self.notes))

    def sentence(self, card: str = THIS_CARD) -> str:
        """What to do."""
        one = len(self.ops) == 1
        stands = {
            "{ops}": explain.listing(self.ops, _MOST_AGAIN if self.does is Repair.REDO else MOST_NAMED),
            "{ids}": f" ({'; '.join(self._ids())})" if self.keys else "",
            "{tables}": explain.listing(self.tables, MOST_NAMED) or "the table",
            "{table}": next(iter(self.tables), "t"),
            "{card}": card,
            "{it}": "it" if one else "them",
            "{its}": "its" if one else "their",
            "{was}": "was" if one else "were",
            "{is}": "is" if one else "are",
            "{order}": "" if one else ", in this order",
            "{statements}": "its statement is" if one else "their statements are",
            "{sql}": explain.listing((f"`{x};`" for x in self.sql), MOST_NAMED),
        }
        text = self.text
        for name, said in stands.items():
            text = text.replace(name, said)
        return text

    def _ids(self) -> Iterator[str]:
        """``orders: ids 0, 12``, for each table."""
        for table in dict.fromkeys(t for t, _ in self.keys):
            ids = [k for t, k in self.keys if t == table]
            named = f"{'id' if len(ids) == 1 else 'ids'} {explain.listing(ids, MOST_NAMED)}"
            yield f"{table}: {named}" if table else named


MOST_NAMED, _MOST_AGAIN = 12, 200
"""Operations or rows that a step names; of those that going back loses nobody finds the others."""


def merged(steps: Iterable[RepairStep], order: Mapping[str, int] | None = None) -> list[RepairStep]:
    """The steps of several stories in the order in which they mend, each text once.

    Args:
        order: operation → its place in the history, or when it began; None: the operations stay as they are.
    """
    found: dict[str, list[RepairStep]] = {}
    for s in sorted(steps, key=lambda s: (s.does > Repair.RESTORE and not s.back, [*Repair].index(s.does))):
        found.setdefault(s.text, []).append(s)
    return [_together(these, order or {}) for these in found.values()]


def _together(these: Sequence[RepairStep], order: Mapping[str, int]) -> RepairStep:
    def place(text: str) -> float:
        return order.get(text.partition(":")[0], math.inf)

    ops = dict.fromkeys(op for s in these for op in s.ops)
    return replace(
        these[0],
        ops=tuple(ops) if these[0].does is Repair.REDO else tuple(sorted(ops, key=place)),
        keys=tuple(dict.fromkeys(k for s in these for k in s.keys)),
        tables=tuple(dict.fromkeys(t for s in these for t in s.tables)),
        notes=tuple(sorted(dict.fromkeys(n for s in these for n in s.notes), key=place)),
        sql=tuple(dict.fromkeys(x for s in these for x in s.sql)),
    )


NO_BACKUP = "If you have none:"
"""Before the steps of who goes back, behind that of who has a backup."""


def branches(steps: Sequence[RepairStep]) -> Iterator[tuple[str, Sequence[RepairStep]]]:
    """The steps, each alone but those of who goes back because there is no backup: they stand together, behind :data:`NO_BACKUP`."""
    before: RepairStep | None = None
    for back, these in groupby(steps, key=lambda s: s.back):
        found = [*these]
        if back and before is not None and before.does is Repair.RESTORE:
            yield NO_BACKUP, found
        else:
            yield from (("", [s]) for s in found)
        before = found[-1]


def repair_words(steps: Iterable[RepairStep], card: str = THIS_CARD) -> str:
    """What to do, the steps behind each other; empty for none."""
    said = ((lead, " ".join(s.words(card) for s in these)) for lead, these in branches([*steps]))
    return " ".join(f"{lead} {text}".lstrip() for lead, text in said)
