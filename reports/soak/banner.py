"""The answer of a night: what was lost, whether that is new, and who did it."""

from __future__ import annotations

from collections.abc import Sequence

from checkers.nights.night import Night
from reports.drawing import words
from reports.drawing.page import Banner, Block, Text, joined, link, tag
from reports.soak import kinds as lostkinds
from reports.soak import places
from reports.soak.kinds import FailureKind, with_code
from reports.soak.words import counted

MOST_PLACES = 3
"""Combinations that the first sentence names."""


def banner(night: Night) -> Banner:
    """The headline, and some sentences. Its colour is that of the harm: a lost row is none the less lost if the defect is known."""
    found = lostkinds.kinds(night)
    sentence = f"{counted(night)[:1].upper()}{counted(night)[1:]}."
    if night.stopped is not None:
        sentence += f" The night stopped: {night.stopped}."
    for reason in night.given_up.values():
        sentence += f" {reason[:1].upper()}{reason[1:]}."
    if found:
        status = "invalid" if night.verdict is False or lostkinds.is_grave(found) else "known"
        return Banner(status, _headline(night, found), f"{_newness(night, found)} {_who(night, found)} {sentence}")
    if not night.runs:
        return Banner("incomplete", "No run", sentence)
    if night.code not in (0, 1, 2):
        return Banner("incomplete", "The night could not do what it was to do", sentence)
    if night.verdict == "unknown":
        return Banner("unknown", "Nothing was found lost, but not everything was decided", sentence)
    return Banner("valid", "Nothing was lost", sentence)


def _headline(night: Night, found: Sequence[FailureKind]) -> str:
    runs = f"in {words.grouped(len(night.failures))} of {words.plural(len(night.runs), 'run')}"
    return f"{lostkinds.lost(found)}: {runs}"


def _newness(night: Night, found: Sequence[FailureKind]) -> str:
    """Whether it is known, in a sentence or two."""
    new = [k for k in found if k.link is None]
    undecided = "" if night.verdict != "unknown" else " Not everything was decided."
    if not new:
        return f"All of it is known; nothing is new.{undecided}"
    runs = words.plural(len({id(line) for k in new for line, _ in k.runs}), "run")
    if len(new) == len(found):
        return f"All of it is new, in {runs}: nobody has described it yet."
    return f"{len(new)} of {words.plural(len(found), 'kind')} of failure {'is' if len(new) == 1 else 'are'} new, in {runs}; the rest is known."


def first_step(found: Sequence[FailureKind]) -> list[Block]:
    """What to do about the gravest kind of failure, below the answer; nothing if nothing failed."""
    if not found:
        return []
    remedy = with_code(found[0].first.remedy or lostkinds.NO_REMEDY)
    what = lostkinds.gravest(found[0])
    where = link("its card", f"#{lostkinds.anchor(1)}")
    return [Text([joined((tag("b", "What to do"), f" about what is gravest ({what}): ", remedy, " ", where))])]


def _who(night: Night, found: Sequence[FailureKind]) -> str:
    names = list(dict.fromkeys(places.of(night, line.cell) for line in night.failures))
    more = f", and {words.plural(len(names) - MOST_PLACES, 'other')}" if len(names) > MOST_PLACES else ""
    return f"Who did it: {lostkinds.who(found)}. Where: {'; '.join(names[:MOST_PLACES])}{more}."
