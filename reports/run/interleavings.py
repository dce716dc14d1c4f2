"""Which interleavings the run exercised, in one line of its page."""

from __future__ import annotations

from checkers.coverage import requests
from checkers.coverage.coverage import Coverage, exercised
from checkers.coverage.possible import possible, scripted
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import History, HistoryError
from checkers.timeline import two_tables
from reports.drawing import words
from reports.run.stored import Stored

MOST_OPERATIONS = 5_000
"""Longer runs have no line on their page, because it is written after each run; ``icequake coverage`` counts them too."""
PAGE = "coverage.html"


def line(run: Stored) -> str | None:
    """How many of the possible pairs the run exercised; None for a script, one without proxies or with one writer, and a long run."""
    asked = {o.op: two_tables.tables_of(o) for o in run.operations}
    if scripted(run.plan) or len(asked) > MOST_OPERATIONS:
        return None
    every = possible(run.plan)
    found = requests.read(run.folder / "proxy.jsonl", asked) if every else {}
    if not found:
        return None
    told = Evidence(History(run.header, run.events), run.logs, {t.name: t for t in run.plan.tables or ()})
    try:
        seen, untold = exercised(told, found)
    except HistoryError:
        return None
    return words_of(Coverage(seen, untold, every, 1))


def words_of(c: Coverage) -> str:
    """The figure in a few words: ``48 of 210 possible pairs (22.9 %)``."""
    part, whole = len(c.covered), len(c.possible)
    return f"{words.grouped(part)} of {words.plural(whole, 'possible pair')} ({words.share(part, whole)})"


def href(run: Stored) -> str | None:
    """The page of ``icequake coverage`` in the run's folder, if it is there."""
    return PAGE if any(f.path == PAGE for f in run.files) else None
