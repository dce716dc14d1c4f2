"""The first line of a run's page: its verdict in a word and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from checkers.verdict import own_findings
from reports.drawing import words
from reports.run import load_view, stored
from reports.run.plan_view import table_specs
from reports.run.stored import Stored

SYMBOLS = {"valid": "✓", "invalid": "✕", "unknown": "?", "incomplete": "…"}


@dataclass(frozen=True, slots=True)
class Banner:
    """The answer: ``status`` is valid, invalid, unknown or incomplete (the style sheet's classes).

    ``errors``: why operations failed or are of unknown outcome, a line for each of the two (:func:`reports.run.load_view.errors`).
    """

    status: str
    headline: str
    sentence: str
    errors: tuple[tuple[str, str], ...] = ()


def _listing(names: Mapping[str, int], most: int = 6) -> str:
    parts = [name + (f" ×{words.grouped(n)}" if n > 1 else "") for name, n in list(names.items())[:most]]
    return ", ".join(parts) + (f" and {words.plural(len(names) - most, 'other kind')}" if len(names) > most else "")


def banner(run: Stored) -> Banner:
    """The headline, one sentence, and the commonest errors, also for a run without a verdict."""
    return replace(_banner(run), errors=load_view.errors(run))


def _banner(run: Stored) -> Banner:
    found = own_findings(run.anomalies)
    names = stored.anomaly_names(found)
    confirmed = [f"{name} is confirmed by {who}" for name in names if (who := stored.confirmed_by(name, run.anomalies))]
    confirmation = f" {'; '.join(confirmed[:3])}." if confirmed else ""
    checkers = words.plural(len(run.verdicts), "checker")
    scope = words.plural(len(run.operations), "operation")
    tables = max(len(run.logs), len(table_specs(run)))
    if tables:
        scope += f" on {words.plural(tables, 'table')}"
    early = "" if run.complete else f" {_ended(run)} Later anomalies may be missing."
    if run.valid is False:
        if not found:
            failed = ", ".join(v.checker for v in run.verdicts if v.valid is False) or "the run"
            return Banner("invalid", "Not valid", f"No anomaly is listed, yet this failed: {failed}.{early}")
        count = words.plural(len(found), "anomaly", "anomalies")
        documented = sum(a.documented is not None for a in found)
        tail = ""
        if documented:
            which = "All of them are" if documented == len(found) else f"{words.grouped(documented)} of them are"
            tail = f" {which} documented as possible." if len(found) > 1 else " It is documented as possible."
        sentence = f"In {scope}, {checkers} found {_listing(names)}.{confirmation}{tail}{early}"
        return Banner("invalid", f"{count} found", sentence)
    if not run.complete:
        checked = (
            "It was not checked."
            if run.results is None
            else "What was recorded before that was checked; absence proves little."
        )
        return Banner("incomplete", "Incomplete", f"{_ended(run)} It recorded {scope}. {checked}")
    if run.results is None:
        return Banner("incomplete", "Not checked", f"There is no results.json yet; {scope} are recorded.")
    if run.valid == "unknown":
        open_ = [v for v in run.verdicts if v.valid == "unknown"]
        why = f" {open_[0].checker}: {words.shorten(open_[0].notes[0], 240)}" if open_ and open_[0].notes else ""
        which = ", ".join(v.checker for v in open_) or "the checkers"
        return Banner("unknown", "Unknown", f"No anomaly was proven, but {which} could not decide.{why}")
    if found:
        return Banner(
            "valid",
            "Valid",
            f"{checkers} over {scope} found exactly what was expected: {_listing(names)}.{confirmation}",
        )
    return Banner("valid", "Valid", f"{checkers} found no broken promise in {scope}.")


_ENDS = {
    "failed": "The run failed",
    "interrupted": "The run was interrupted",
    "incomplete": "The run ended before it was done",
    "running": "The run is still in progress",
}


def _ended(run: Stored) -> str:
    """A sentence on how a run that is not complete ended."""
    end = _ENDS.get(run.state, f"The run's state is {words.shorten(run.state, 80)}")
    reason = str(run.run.get("error") or "").rstrip(". ")
    return end + (f": {words.shorten(reason, 300)}." if reason else ".")
