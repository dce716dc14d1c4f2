"""What happened in a run of a night, by kind: all that a person needs who has the night's page, and maybe no folder of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from checkers.judge.by_engine import named
from checkers.judge.repairsteps import RepairStep, merged
from checkers.judge.stories import UNREADABLE_STEP, Story, countable, shapes, tally
from checkers.names import Harm, meaning


@dataclass(frozen=True, slots=True)
class Happened:
    """The stories of a run that are of one kind: of one name, by one who did it, with one remedy, known alike, and all or none of a table
    that nobody can read.

    Attributes:
        name: of the gravest anomaly, or ``unreadable``.
        who: who did it, with its version if it has one; ``by``: without it.
        counts: what is counted → how often: ``{"false-failure": 2, "unreadable": 1}``.
        names: of all its anomalies.
        tables: on which it happened.
        now: what to do with their tables; ``starts``: operation of it → when it began, ns.
        remedy: what to do that it does not happen again.
        scenarios: of the library, that show it; ``link``: where it is discussed. Both are empty if it is not known.
        card: number of its card on the run's page, from 1; 0: it has several, or none.
        statements: its first operations (``Story.concerned``), each with its SQL; ``concerned``: how many there are.
        how: what the one who did it did in the first of them, in a sentence that begins with a verb; empty if nobody knows.
        steps: what happened in them, step by step, as the run's page says it; of some more only how many there are.
        unlike: why the first of them is not known; empty if it is.
    """

    name: str
    who: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    remedy: str = ""
    scenarios: tuple[str, ...] = ()
    link: str | None = None
    card: int = 0
    now: tuple[RepairStep, ...] = ()
    starts: Mapping[str, int] = field(default_factory=dict)
    how: str = ""
    steps: str = ""
    by: str = ""
    unlike: str = ""
    statements: tuple[tuple[str, str], ...] = ()
    concerned: int = 0

    @property
    def unreadable(self) -> bool:
        """Whether nobody can read its tables any more."""
        return UNREADABLE_STEP in self.counts

    @property
    def did(self) -> str:
        """Who did it and how, in a sentence; empty if nobody knows who."""
        culprit = self.by or self.who
        return f"{culprit[:1].upper()}{culprit[1:]} {self.how or 'did it'}." if culprit else ""

    @property
    def harmed(self) -> Mapping[str, int]:
        """What a person counts of it: tables that nobody can read alone, if there are some, because the rest is how that came about."""
        unreadable = self.counts.get(UNREADABLE_STEP, 0)
        return {UNREADABLE_STEP: unreadable} if unreadable else self.counts

    @property
    def harm(self) -> Harm | None:
        """How bad it is; None if nobody explains its names."""
        if self.unreadable:
            return Harm.UNREADABLE
        return min(
            (h for name in (self.name, *self.counts) if (h := harm_of(name)) is not None), default=None, key=_bad
        )


def _bad(harm: Harm) -> int:
    return harm.gravity


def harm_of(name: str) -> Harm | None:
    """How bad what is counted by a name is; None if nobody explains it."""
    means = meaning(name)
    return Harm.UNREADABLE if name == UNREADABLE_STEP else None if means is None else means.harm


def happened(
    stories: Sequence[Story],
    every: Sequence[Story],
    versions: Mapping[str, str],
    catalog: str,
    unlike: Callable[[Story], str],
    order: Mapping[str, int] | None = None,
    asked: Callable[[str], str] = lambda _: "",
) -> tuple[Happened, ...]:
    """The kinds of a run's stories, the gravest first.

    Args:
        stories: the stories that fail the run.
        every: all of its stories, which have cards on its page.
        versions: of its plan.
        catalog: its name.
        unlike: why a story is not known.
        order: operation → when it began, ns.
        asked: the SQL of an operation; empty if it is not known.
    """
    cards = {id(s): n for n, s in enumerate((s for shape in shapes(every) for s in shape.told), 1)}
    kinds: dict[tuple[object, ...], list[Story]] = {}
    for s in countable(stories):
        kinds.setdefault((s.name, s.who, s.remedy, s.known, s.unreadable), []).append(s)
    return tuple(_kind(these, cards, versions, catalog, unlike, order, asked) for these in kinds.values())


def _kind(
    these: Sequence[Story],
    cards: Mapping[int, int],
    versions: Mapping[str, str],
    catalog: str,
    unlike: Callable[[Story], str],
    order: Mapping[str, int] | None,
    asked: Callable[[str], str],
) -> Happened:
    ops = list(dict.fromkeys(op for s in these for op in s.concerned))
    first, now = these[0], tuple(merged((step for s in these for step in s.repairs), order))
    return Happened(
        first.name,
        named(first.who, first.engine, versions, catalog),
        tally(these) or {first.name: len(these)},
        tuple(dict.fromkeys(step.name for s in these for step in s.steps if step.name != UNREADABLE_STEP)),
        tuple(dict.fromkeys(s.table for s in these if s.table is not None)),
        first.remedy,
        tuple(k.scenario for k in first.known),
        first.known[0].link if first.known else None,
        cards.get(id(first), 0) if len(these) == 1 else 0,
        now,
        {op: (order or {})[op] for step in now for op in step.ops if op in (order or {})},
        first.how,
        _steps(these),
        named(first.who, "", {}, catalog),
        "" if first.known else unlike(first),
        tuple((op, asked(op)[:MOST_OF_SQL]) for op in ops[:MOST_TOLD]),
        len(ops),
    )


MOST_TOLD = 3
"""Stories of a kind whose steps are told, and operations whose statements are."""
MOST_OF_SQL = 1000
"""Characters of the statements of an operation."""


def _steps(these: Sequence[Story]) -> str:
    """The steps of stories that say something of their own, a sentence each."""
    sentences = (step.text for s in these[:MOST_TOLD] for step in s.steps if step.most and step.name != UNREADABLE_STEP)
    more = [f"And {len(these) - MOST_TOLD} more like these."] if len(these) > MOST_TOLD else []
    return " ".join((*(f"{text[:1].upper()}{text[1:]}." for text in dict.fromkeys(sentences)), *more))
