"""``shrink.jsonl``: every run of a shrink and what came of it, so that the same command goes on where another one ended.

The first line says what is shrunk. The search asks the same questions again (:class:`harness.campaign.campaign.Questions`) and gets the answers
from here, so nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from checkers.evidence import journal
from checkers.evidence.journal import Journal, JournalFormat

FILE = "shrink.jsonl"


class ShrinkError(ValueError):
    """The folder of a shrink cannot be used; one line with the remedy."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a candidate.

    Attributes:
        key: of the candidate.
        what: the candidate in words.
        failed: whether the run showed what is looked for.
        found: names of the anomalies that it showed.
        folder: the run's folder, relative to that of the shrink; None if there is none, or it was not kept.
        seconds: how long it took.
        problem: why the run could not show it, or was not as it should have been; empty if there is nothing to say.
        shown: how many anomalies of the name that is looked for; 0 if nobody counted.
        could_not: why it could not be run, which says nothing of the candidate; empty if it could.
        answers: the key of the candidate of which it says something; None if of none.
    """

    key: str
    what: str
    failed: bool
    found: tuple[str, ...] = ()
    folder: str | None = None
    seconds: float = 0.0
    problem: str = ""
    shown: int = 0
    could_not: str = ""

    @property
    def answers(self) -> str | None:
        return None if self.could_not else self.key


def _with_could_not(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A line of an earlier release, which took a run that could not be made for one that shows nothing."""
    problem = str(values.get("problem", ""))
    if "could_not" in values or not problem.startswith(COULD_NOT):
        return values
    return {**values, "problem": "", "could_not": problem.removeprefix(COULD_NOT)}


COULD_NOT = "could not run: "
FORM = JournalFormat("a shrink", "a run", journal.as_type(Trial), asdict, ShrinkError, upgrade=_with_could_not)
"""``shrink.jsonl``."""


def trials(folder: Path) -> list[Trial]:
    """The runs of the shrink in a folder; none if there is none. Raises ShrinkError."""
    path = folder / FILE
    return journal.read(path, FORM)[1] if path.exists() else []


def journal_of(folder: Path, about: Mapping[str, Any]) -> Journal[Trial]:
    """The journal of a shrink in a folder, to write to.

    Args:
        about: what is shrunk; a folder with another is refused.
    """
    return Journal(folder / FILE, FORM, about)
