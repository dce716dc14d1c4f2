"""The first line of a run's page: its verdict in a word and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from checkers.evidence.lenient import mapping, strings
from checkers.verdict import Anomaly
from reports.drawing import words
from reports.drawing.page import Banner
from reports.run import load_view, stored, stories_view
from reports.run.plan_view import table_specs
from reports.run.results import is_unmet
from reports.run.stored import Stored


def _listing(names: Mapping[str, int], most: int = 6) -> str:
    more = f" and {words.plural(len(names) - most, 'other kind')}" if len(names) > most else ""
    return words.tally(dict(list(names.items())[:most])) + more


def _first(happened: Sequence[str], most: int = 3) -> str:
    """The gravest of what happened to data, and how much else did; what is one too many is said."""
    most += len(happened) == most + 1
    more = len(happened) - most
    return "; ".join(happened[:most]) + (f"; and {more} lesser kinds of harm" if more > 0 else "")


def banner(run: Stored) -> Banner:
    """The headline, one sentence, the commonest errors, also for a run without a verdict, and what a valid run did not test."""
    found = _banner(run)
    untested = (
        [("not tested", text) for text in load_view.untested(run.verdicts, run.valid)]
        if found.status == "valid"
        else []
    )
    return replace(found, errors=(*load_view.errors(run), *untested))


def _banner(run: Stored) -> Banner:
    unmet = run.unmet
    found = stories_view.counted_anomalies(run)
    names = stored.anomaly_names(found)
    confirmed = [
        f"{name} is also found by {who}" for name in names if (who := stored.confirmed_by(name, run.anomalies))
    ]
    confirmation = f" {'; '.join(confirmed[:3])}." if confirmed else ""
    checkers = words.plural(len(run.verdicts), "checker")
    scope = words.plural(len(run.operations), "operation")
    tables = max(len(run.logs), len(table_specs(run)))
    if tables:
        scope += f" on {words.plural(tables, 'table')}"
    early = "" if run.complete else f" {_ended(run)} Later anomalies may be missing."
    if run.complete and run.scenario and run.reproduced in _SCENARIOS:
        return _scenario(run, scope)
    happened = stories_view.headline(run) or (f"{words.plural(len(found), 'anomaly', 'anomalies')} found",)
    if run.valid is False and unmet:
        others = "" if not found else f"; {_first(happened, 1)}"
        seen = f" They found {_listing(names)}." if names else ""
        sentence = (
            f"The workload expects {', '.join(unmet)}, and {checkers} did not find it in {scope}.{seen} What happens only by chance "
            f"belongs under allow.{early}"
        )
        return Banner("invalid", f"expected {', '.join(unmet)}, not seen{others}", sentence)
    if run.valid is False:
        return _broken(run, found, _finders(run, scope), happened, early)
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
        return _undecided(run)
    if found:
        marks = {run.mark(a) for a in found}
        what = {
            frozenset({"allowed"}): "only what is allowed",
            frozenset({"allowed", "expected"}): "what was expected, and only what is allowed besides",
        }.get(frozenset(marks), "exactly what was expected")
        return Banner("valid", "Valid", f"{_finders(run, scope)} {what}: {_listing(names)}.{confirmation}")
    return Banner("valid", "Valid", f"{checkers} found no broken promise in {scope}.")


def _broken(run: Stored, found: Sequence[Anomaly], lead: str, happened: Sequence[str], early: str) -> Banner:
    """What was found, and how much of it is documented as possible."""
    if not found:
        failed = ", ".join(v.checker for v in run.verdicts if v.valid is False) or "the run"
        return Banner("invalid", "Not valid", f"No anomaly is listed, yet this failed: {failed}.{early}")
    documented = sum(a.documented is not None for a in found)
    tail = ""
    if documented:
        which = "All of them are" if documented == len(found) else f"{words.grouped(documented)} of them are"
        tail = f" {which} documented as possible." if len(found) > 1 else " It is documented as possible."
    count = f"{words.grouped(len(found))} anomalies: " if len(found) > 1 else "one anomaly, "
    return Banner("invalid", _first(happened), f"{lead} {count}{_listing(stored.anomaly_names(found))}.{tail}{early}")


def _finders(run: Stored, scope: str) -> str:
    """``11 checkers judged 35 operations on 1 table; 2 of them found``: what they found comes behind it."""
    one = len(run.verdicts) == 1
    by = sum(any(not is_unmet(a) for a in v.anomalies) for v in run.verdicts)
    judged = f"{words.plural(len(run.verdicts), 'checker')} judged {scope}"
    return f"{judged} and found" if one else f"{judged}; {words.grouped(by)} of them found"


def _undecided(run: Stored) -> Banner:
    """Which checkers could not decide, and why the first could not."""
    undecided = [v for v in run.verdicts if v.valid == "unknown"]
    which = ", ".join(v.checker for v in undecided)
    which = f"the checker{'s' if len(undecided) > 1 else ''} {which}" if undecided else "the checkers"
    lead = ": " if len(undecided) == 1 else f". {undecided[0].checker}: " if undecided else ""
    why = f"{lead}{words.shorten(undecided[0].notes[0], 240)}" if undecided and undecided[0].notes else "."
    return Banner("unknown", "Unknown", f"No anomaly was proven, but {which} could not decide{why}")


_SCENARIOS = {
    "reproduced": "Reproduced",
    "fixed": "Fixed in this version, not reproduced",
    "later": "Not reproduced, this version is too old",
    "back": "Reproduced, although it was fixed before",
    "not reproduced": "Not reproduced",
}
"""The state of a scenario → the first word of its headline."""


def _scenario(run: Stored, scope: str) -> Banner:
    """The headline of a scenario: what it shows, and its description."""
    told = run.scenario
    shows = str(told.get("headline") or "").rstrip(".") or str(told.get("description") or "").partition(". ")[0].rstrip(
        "."
    )
    state = run.reproduced
    if state == "reproduced":
        status = "reproduced" if told.get("anomalies") else "valid"
        lead = (
            "A demonstration on a table of its own: the known defect appeared, as expected. "
            if told.get("anomalies")
            else ""
        )
        return Banner(status, f"Reproduced: {shows}", words.shorten(f"{lead}{told.get('description') or ''}", 700))
    why = strings(mapping((run.results or {}).get("scenario")).get("why"))
    differs = f" Different from the scenario: {'; '.join(why[:4])}." if why else ""
    status = "valid" if run.excused else "invalid"
    said = f"{run.did_not_come} It ran {scope}.{differs}".lstrip()
    return Banner(status, f"{_SCENARIOS[state]}: {shows}", words.shorten(said, 1200))


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
