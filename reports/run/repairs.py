"""What to do now, in the words of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from checkers.judge.repair import THIS_CARD, RepairStep, branches
from reports.drawing.page import joined, tag
from reports.run.operations import shortened


def with_code(text: str) -> Markup:
    """A text with its words between backticks as code, and short ids of snapshots elsewhere."""
    return joined(tag("code", part) if n % 2 else shortened(part) for n, part in enumerate(text.split("`")))


def repair_steps(steps: Sequence[RepairStep], card: Callable[[RepairStep], str] = lambda _: THIS_CARD) -> list[str]:
    """What to do now, step by step; what only one does who has no backup is one step with steps of its own.

    Args:
        card: where the statements of a step are, with a link or without.
    """
    said: list[str] = []
    for lead, these in branches(steps):
        told = [repair_step(s, card(s)) for s in these]
        said += [joined((lead, tag("ol", joined(tag("li", t) for t in told), type="a")))] if lead else told
    return said


def repair_step(s: RepairStep, card: str = THIS_CARD) -> Markup:
    """A step of what to do now, its notes as a list below it; ``card``: where the statements are, with a link or without."""
    notes = tag("ul", joined(tag("li", n) for n in s.notes)) if len(s.notes) > 1 else joined((" ", *s.notes))
    return joined((with_code(s.sentence("{card}")).replace("{card}", card), notes if s.notes else ""))
