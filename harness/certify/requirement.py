"""A requirement of a catalog: how it is asked, and how what was seen is judged.

``ask`` talks to the server and judges nothing; ``judge`` is a pure function of what was seen, so a test can plant an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from checkers.certificate import Absent, Conclusion, Exchange, Level, Question, Severity
from harness.certify import rest
from harness.certify.exchanges import Exchanges, NotApplicable
from harness.certify.kit import Kit

__all__ = [
    "Absent",
    "Exchange",
    "Exchanges",
    "Level",
    "NotApplicable",
    "Severity",
]  # what each requirement's file needs comes from here


@dataclass(frozen=True)
class Judgement:
    """What was concluded.

    Attributes:
        expected, actual: of what decided it; both empty for a pass without anything to add.
        wire: the exchanges that show it.
        effect: what this failure costs, if less than the requirement's.
    """

    conclusion: Conclusion
    expected: str = ""
    actual: str = ""
    wire: Sequence[Exchange] = ()
    effect: Severity | None = None


def passed(actual: str = "") -> Judgement:
    """It holds; ``actual``: how far that was looked at."""
    return Judgement(Conclusion.PASS, "", actual)


def failed(expected: str, actual: str, *wire: Exchange) -> Judgement:
    """It does not hold."""
    return Judgement(Conclusion.FAIL, expected, actual, wire)


def soft(expected: str, actual: str, *wire: Exchange) -> Judgement:
    """What is only recommended does not hold."""
    return Judgement(Conclusion.SOFT, expected, actual, wire)


def informed(actual: str, *wire: Exchange) -> Judgement:
    """Nobody requires it, but it is so."""
    return Judgement(Conclusion.INFO, "", actual, wire)


def first_failure(*found: Judgement | None) -> Judgement:
    """The first of these that is one, or a pass."""
    return next((j for j in found if j is not None), passed())


MOST_LOSSES_NAMED = 8
"""Of many lost things so many are named: a line that a terminal shows whole."""


def named(names: Sequence[object]) -> str:
    """The first of some things by name, and how many more there are."""
    more = len(names) - MOST_LOSSES_NAMED
    return ", ".join(map(str, names[:MOST_LOSSES_NAMED])) + (f" and {more} more" if more > 0 else "")


def keeps_acknowledged(seen: Exchanges, label: str) -> Judgement:
    """Whether main is built on the snapshot of each acknowledged commit of a label.

    Args:
        seen: its exchange ``end`` loads the table.
        label: of commits of one table, by its endpoint or in a transaction; each adds a snapshot first.
    """

    def snapshot(e: Exchange) -> dict[str, Any]:
        change = e.sent["table-changes"][0] if "table-changes" in e.sent else e.sent
        found: dict[str, Any] = change["updates"][0]["snapshot"]
        return found

    sent = seen.all(label)
    main = rest.main_of(seen["end"].metadata, map(snapshot, sent))
    made = [e for e in sent if e.ok]
    lost = [e for e in made if snapshot(e)["snapshot-id"] not in main]
    if lost:
        ids = named([snapshot(e)["snapshot-id"] for e in lost])
        text = f"{len(lost)} of {len(made)} acknowledged snapshots are not in main's history: {ids}"
        return failed("main is built on each acknowledged snapshot", text, lost[0], seen["end"])
    if not made:
        return replace(failed("some commits are made", "none was", *sent[:1]), effect=Severity.BREAKS)
    return passed(f"{len(made)} of {len(sent)} commits were acknowledged, and are in the table")


def misleads(seen: Iterable[Exchange]) -> Judgement | None:
    """None if no answer is 5xx; else the failure: what came of the request is unknown to its client, although the server knows it."""
    wrong = next((e for e in seen if e.status >= 500), None)
    return None if wrong is None else replace(failed("no 5xx", wrong.words(), wrong), effect=Severity.BREAKS)


def expect(seen: Exchange, wanted: str, *statuses: int) -> Judgement | None:
    """None if the answer has one of these statuses (2 stands for 2xx); else the failure, which misleads writers.

    Args:
        wanted: the sentence that holds then.
    """
    if seen.status in statuses or seen.status // 100 in statuses:
        return None
    codes = " or ".join(f"{s}xx" if s < 10 else str(s) for s in statuses)
    failure = failed(f"{codes}: {wanted}", f"{seen.method} {seen.path} ({seen.label}): {seen.words()}", seen)
    return replace(failure, effect=Severity.BREAKS)


@dataclass(frozen=True, kw_only=True)
class Requirement(Question):
    """What is asked of a catalog.

    Attributes:
        ask: does it once; what it sends is recorded.
        judge: says what was seen.
        endpoints: those that the server must serve, as it declares them.
        tries: how often it is asked; one failure counts.
        any_catalog: whether it can be asked of a catalog without a REST server, too.
    """

    ask: Callable[[Kit], None]
    judge: Callable[[Exchanges], Judgement]
    endpoints: tuple[str, ...] = ()
    tries: int = 3
    any_catalog: bool = False

    @property
    def question(self) -> Question:
        """What it says, without how it is asked."""
        return Question(*(getattr(self, f.name) for f in fields(Question)))
