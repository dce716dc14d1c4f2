"""What to do now, in the words of a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from markupsafe import Markup

from checkers.judge.repairsteps import THIS_CARD, RepairStep, branches
from reports.drawing import words
from reports.drawing.page import joined, tag
from reports.run.operations import shortened


def with_code(text: str) -> Markup:
    """A text with its words between backticks as code, and short ids of snapshots elsewhere."""
    return joined(tag("code", part) if n % 2 else shortened(part) for n, part in enumerate(text.split("`")))


def repair_steps(
    steps: Sequence[RepairStep],
    card: Callable[[RepairStep], str] = lambda _: THIS_CARD,
    asked: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """What to do now, step by step; what only one does who has no backup is one step with steps of its own.

    Args:
        card: where the statements of a step are, with a link or without.
        asked: operation → its statements, to be shown in the steps that need them.
    """
    said: list[str] = []
    for lead, these in branches(steps):
        told = [repair_step(s, card(s), asked) for s in these]
        said += [joined((lead, tag("ol", joined(tag("li", t) for t in told), type="a")))] if lead else told
    return said


def repair_step(s: RepairStep, card: str = THIS_CARD, asked: Mapping[str, str] = MappingProxyType({})) -> Markup:
    """A step of what to do now; ``card``: where the statements are, with a link or without.

    Below it are its statements if ``asked`` has them, each with its note, else its notes.
    """
    if _STATED.search(s.text) and any(op in asked for op in s.ops):
        text = _STATED.sub("", s.text)
        said = replace(s, text=text if len(s.ops) == 1 else text.replace("{ops}", "these")).sentence()
        return joined((with_code(said), _listed(s, asked)))
    notes = tag("ul", joined(tag("li", n) for n in s.notes)) if len(s.notes) > 1 else joined((" ", *s.notes))
    return joined((with_code(s.sentence("{card}")).replace("{card}", card), notes if s.notes else ""))


_STATED = re.compile(r"[,;:]?( and)? \{statements\} on \{card\}")
"""What a step says of its statements where they do not stand below it."""
MOST_STATED = 3
"""Statements of a step that stand there whole; the others are folded."""
_MOST_IN_A_LINE = 500
"""Characters of such a statement; a longer one is folded."""


def _listed(s: RepairStep, asked: Mapping[str, str]) -> Markup:
    """The operations of a step in their order, each with its statements and what to know before."""
    notes = {op: note for op, _, note in (n.partition(": ") for n in s.notes)}
    told = [joined((_whole(asked.get(op, "")), _after(notes.get(op, "")))) for op in s.ops]
    if len(told) == 1:
        return joined((" ", *told))
    items = [tag("li", joined((f"{op}: ", said))) for op, said in zip(s.ops, told, strict=True)]
    few, more = items[:MOST_STATED], items[MOST_STATED:]
    others = tag("ol", joined(more), type="a", start=MOST_STATED + 1)
    named = tag("summary", words.plural(len(more), "more statement"))
    folded = tag("details", joined((named, others)), "more") if more else ""
    return joined((tag("ol", joined(few), type="a"), folded))


def _whole(statement: str) -> str:
    if len(statement) <= _MOST_IN_A_LINE:
        return tag("code", f"{statement};") if statement else "its statement is not known"
    short = tag("summary", tag("code", words.shorten(statement, _MOST_IN_A_LINE)))
    return tag("details", joined((short, tag("pre", f"{statement};"))), "more")


def _after(note: str) -> str:
    return f" {note[:1].upper()}{note[1:]}" if note else ""
