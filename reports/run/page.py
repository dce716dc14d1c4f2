"""The page of a run as a value: the verdict on its first screen, and the evidence below.

Its size is bounded: plots are sampled, tables and texts are cut, and each cut is marked in place.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from checkers.costs import figures
from checkers.evidence.runfolder import replace_file
from checkers.judge.stories import ROWS_COUNTED
from checkers.names import Harm, meaning
from checkers.timeline.fault_windows import windows
from reports.drawing import render as renderer
from reports.drawing import words
from reports.drawing.page import Block, Fold, Page, Section, Text, joined, link, muted, tag
from reports.run import (
    answers,
    card,
    cards,
    checks_view,
    conflicts_view,
    faulted,
    over_time,
    plan_view,
    stored,
    stories_view,
    tallies,
    timeline,
)
from reports.run.banner import banner
from reports.run.card import CardSubject
from reports.run.operations import Shown
from reports.run.stored import Stored

MOST_FILES = 60
MOST_NAMES = 12
MOST_PROBLEMS = 20


def of(run: Stored) -> Page:
    """The page of a run; anything missing or broken in it is said there."""
    found = cards.found(run)
    commits = run.commits_by_op()
    marked = {op for f in found for op in f.ops[: card.MOST_OPS]}
    lanes = timeline.timeline(run.operations, run.writers, marked, commits, run.scans)
    shown = Shown.of(run, commits, {b.op for b in lanes.boxes} if lanes else ())
    return Page(
        "report",
        run.workload,
        replace(banner(run), mark=answers.mark(run, found)),
        [
            Section("Anomalies", "anomalies", cards.blocks(shown, found)),
            Section("What ran", "plan", plan_view.blocks(run)),
            Section("Operations", "operations", tallies.blocks(shown)),
            Section("Over time", "time", over_time.blocks(shown)),
            Section("Attempts and conflicts", "retries", conflicts_view.blocks(run)),
            Section("Commits", "commits", over_time.commits(shown)),
            Section("Checkers", "checkers", [*checks_view.blocks(run), *_covered(run, found)]),
            Section("Timeline", "timeline", timeline.blocks(lanes)),
        ],
        facts=_facts(run),
        command=("Run it again", run.command) if run.command else None,
        footer=f"icequake{_version()} · this page needs no network and no other file",
        place=run.folder.name,
        told=_told(run, found),
        below=stories_view.blocks(run),
        rest=[*_files(run), *_problems(run)],
    )


def _told(run: Stored, found: list[CardSubject]) -> list[Block]:
    """Notes, the answers, and the names of the anomalies."""
    out: list[Block] = [Text([tag("span", note, "wrap") for note in run.notes], "note")] if run.notes else []
    out += answers.blocks(run, found)
    names = stored.anomaly_names(stories_view.counted_anomalies(run))
    shown = list(names.items())[:MOST_NAMES]
    harms = {name: means.harm if (means := meaning(name)) is not None else None for name, _ in shown}
    for harm in (*Harm, None):
        chips = [_chip(run, name, n, found) for name, n in shown if harms[name] is harm]
        out += [Text([muted(f"{harm}:" if harm is not None else "others:"), *chips], "chips")] if chips else []
    more = len(names) - MOST_NAMES
    return out + ([Text([f"and {words.plural(more, 'more name')}"], "note")] if more > 0 else [])


def _covered(run: Stored, found: list[CardSubject]) -> list[Block]:
    """What checkers say in other words, and which anomalies each entry of the workload covers."""
    names = stored.anomaly_names(stories_view.counted_anomalies(run))
    again = Counter(a.name for a in run.anomalies if a.name not in names)
    said = [
        joined((link(n, cards.first_of(n, found)), f" {words.grouped(k)}")) for n, k in again.most_common(MOST_NAMES)
    ]
    out: list[str] = [joined(("The same events, in the words of other checkers: ", joined(said, ", ")))] if said else []
    out += [f"{a.key}: {a}" for a in run.accepted.swallowed(run.anomalies)]
    return [Text(out, "note")] if out else []


def _chip(run: Stored, name: str, count: int, cards_of: list[CardSubject]) -> Markup:
    found = [a for a in run.anomalies if a.name == name]
    parts: list[str] = [link(stories_view.term(name), cards.first_of(name, cards_of)), tag("b", words.grouped(count))]
    rows = sum(step.most for s in stories_view.unmarked(run) for step in s.steps if step.name == name)
    parts += (
        [joined((" ", tag("small", f"in {words.plural(rows, 'row')}")))]
        if rows > count and name in ROWS_COUNTED
        else []
    )
    parts += [joined((" ", tag("small", "documented")))] if all(a.documented for a in found) else []
    marks = {run.mark(a) for a in found}
    parts += [joined((" ", tag("small", mark))) for mark in marks if mark and len(marks) == 1]
    return joined(parts)


def _facts(run: Stored) -> list[tuple[str, str]]:
    total = figures.tally("all", run.operations)
    seed = run.plan.seed if run.plan.seed is not None else run.header.get("seed")
    ended = words.outcomes(total.ok, total.fail, total.info, " · ")
    tables = words.plural(max(len(plan_view.table_specs(run)), len(run.logs)), "table")
    engines = plan_view.engines_of(run)
    commits = sum(len(log.commits) for log in run.logs.values())

    def both(what: str, more: str) -> str:
        return joined((what, " ", tag("small", more))) if more else what

    return [
        ("Started", words.when(run.started) or "not recorded"),
        ("Lasted", words.duration(figures.ms(run.end_ns)) if run.events else "–"),
        ("Catalog", run.plan.catalog.name if run.plan.catalog else "not recorded"),
        ("Operations", both(words.grouped(total.count), ended)),
        ("Commits", both(words.grouped(commits), f"on {tables}")),
        ("Writers", both(words.grouped(run.writers), words.shorten(engines, 80))),
        ("Seed", "not recorded" if seed is None else str(seed)),
        ("Faults injected", both(*_faults(run))),
    ]


def _faults(run: Stored) -> tuple[str, str]:
    """How many faults were injected, and which, the most frequent first."""
    found = Counter([*(w.name for w in windows(run.events)), *run.scenario_faults])
    if not found:
        held = sum(r.held for requests in run.change_requests.values() for r in requests)
        return "none", f"{words.plural(held, 'request')} held, so that operations overlap" if held else ""
    said = [
        joined((faulted.named(name), f" ×{words.grouped(n)}" if n > 1 else ""))
        for name, n in found.most_common(MOST_NAMES)
    ]
    return words.grouped(found.total()), joined(said, ", ")


def _files(run: Stored) -> list[Block]:
    """Links to the files of the run's folder."""
    top: list[str] = []
    rest: list[str] = []
    for f in run.files[:MOST_FILES]:
        said = joined((link(words.shorten(f.path, 100), quote(f.path)), " ", tag("small", words.size(f.size))))
        (rest if "/" in f.path else top).append(said)
    more = len(run.files) - MOST_FILES
    others = [muted(f"and {words.plural(more, 'other file')}")] if more > 0 else []
    out: list[Block] = [Text(top, "figures")] if top else []
    if rest:
        out.append(Fold(f"{len(rest)} more in tablelog/, logs/ and others", [Text([*rest, *others], "figures")]))
    return out


def _problems(run: Stored) -> list[Block]:
    if not run.problems:
        return []
    more = len(run.problems) - MOST_PROBLEMS
    rest = [f"and {words.plural(more, 'more problem')}"] if more > 0 else []
    return [Text([*run.problems[:MOST_PROBLEMS], *rest], "problems", most=600)]


def _version() -> str:
    try:
        return f" {version('icequake')}"
    except PackageNotFoundError:
        return ""


def render(run_folder: Path | Stored) -> str:
    """The page of the run in ``run_folder`` (or of one that was loaded by :func:`reports.run.stored.load`) as HTML.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    return renderer.html(of(stored.of(run_folder)))


def write(run_folder: Path | Stored) -> Path:
    """Save the page as ``report.html`` in the folder; return its path.

    Raises:
        FileNotFoundError: as :func:`render`.
    """
    run = stored.of(run_folder)
    path = run.folder / "report.html"
    replace_file(path, render(run))
    return path
