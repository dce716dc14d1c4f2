"""The last lines on the terminal: the verdict, the anomalies by name, where the page is, and the command that repeats the run."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from checkers.costs import figures
from checkers.costs.measures import NOT_THE_WORKLOADS
from checkers.judge import stories
from checkers.judge.repairsteps import Repair, RepairStep, merged
from checkers.judge.stories import UNREADABLE_STEP
from checkers.timeline import explain
from checkers.verdict import Anomaly
from reports.drawing import words
from reports.drawing.page import BANNER_SYMBOLS
from reports.run import answers, bands, banner, faulted, load_view, stored, stories_view
from reports.run.stored import Stored

_CODES = {"bold": "1", "muted": "2", "valid": "1;32", "invalid": "1;31", "unknown": "1;33", "incomplete": "1;33"}

RECORD = "history"
"""The verdict on the record itself. It comes first: whoever reads of a loss must know whether the record of it is whole."""
MOST_NOTES = 3
MOST_NAMES = 12
MOST_SHAPES = 6
"""Kinds of stories that are told; each name is counted below them."""
MOST_SHORT, MOST_DAMAGED = 240, 330
"""Characters of what to do about one of several kinds of harm, and of what it damaged; the page has all."""
MOST_BESIDES = 4
"""Lesser kinds of harm that have a line."""
MOST_STOPPED = 6
"""Tables that are named whose writers are to stop."""
MOST_FAULTS = 4
MOST_OPS = 12
MOST_EXPLAINED = 900


def wants_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether to colour the output on ``stream``: a capable terminal, and not disabled (https://no-color.org, CI)."""
    if environment.get("NO_COLOR") or environment.get("CI") or environment.get("TERM") == "dumb":
        return False
    return stream.isatty()


def lines(run_folder: Path | Stored, *, width: int | None = None, colour: bool | None = None) -> list[str]:
    """The summary of the run in ``run_folder``, one string for each line, without line ends.

    Args:
        run_folder: the summary reports missing files instead of raising.
        width: columns to wrap explanations at; the terminal's (at most 110) when None. Commands and paths are never wrapped.
        colour: whether to use terminal colours; decided by standard output and the environment when None.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    if colour is None:
        colour = wants_colour(sys.stdout, os.environ)
    if width is None:
        width = min(110, shutil.get_terminal_size((100, 24)).columns)
    to = _Terminal(max(40, width), colour)
    run = stored.of(run_folder)
    verdict = banner.banner(run)
    out = ["", to.paint(f"{BANNER_SYMBOLS[verdict.status]} {run.workload}: {verdict.headline}", verdict.status)]
    for why in (
        why for v in run.verdicts if v.checker == RECORD for why in v.notes[:MOST_NOTES] if why not in verdict.sentence
    ):
        out += to.wrap(f"Not all of the record can be used: {why}.", "  ")
    out += to.wrap(verdict.sentence, "  ")
    for note in run.notes:
        out += to.wrap(note, "  ")
    for name, text, href in stories_view.scenario_facts(run):
        out += to.wrap(f"{name}: {text}" + (f", {href}" if href else ""), "  ")
    several = answers.answers(run, ())
    if len({(s.name, s.who) for a in several for s in a.stories}) > 1:
        out += _several(run, several, to)
    else:
        out += _shapes(stories_view.shapes(run), to)
        if own := stories_view.counted_anomalies(run):
            out += ["", *_names(run, own, to), *_first(run, own, to)]
    out += _unknown(run, verdict.sentence, to)
    out.append("")
    rows = _rows(run, load_view.errors(run))
    label_width = max(len(label) for label, _ in rows)
    out += [f"  {to.paint(label.ljust(label_width), 'muted')}  {text}" for label, text in rows]
    return [words.printable(line) if not colour else _printable(line) for line in out]


@dataclass(frozen=True)
class _Terminal:
    """Where the summary is read."""

    width: int
    colour: bool

    def paint(self, text: str, style: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour else text

    def wrap(self, text: str, indent: str) -> list[str]:
        # A line at a time: explanations may be arranged in lines ("Let: … Then: …").
        out: list[str] = []
        for line in text.splitlines():
            lead = indent + " " * (len(line) - len(line.lstrip()))
            out += textwrap.wrap(
                line.strip(),
                self.width,
                initial_indent=lead,
                subsequent_indent=lead,
                break_long_words=False,
                break_on_hyphens=False,
            )
        return out


def _shapes(shapes: Sequence[stories_view.ShapeView], to: _Terminal) -> list[str]:
    out: list[str] = []
    told: dict[tuple[str, str], int] = {}
    for n, shape in enumerate(shapes[:MOST_SHAPES], 1):
        out += ["", *_shape(shape, n if len(shapes) > 1 else None, told, to)]
    if len(shapes) > MOST_SHAPES:
        out += ["", f"  and {words.plural(len(shapes) - MOST_SHAPES, 'more kind')} of such events"]
    return out


def _several(run: Stored, every: Sequence[answers.RunAnswer], to: _Terminal) -> list[str]:
    """A block for each kind of harm: what is damaged, who did it and how bad it is, what to do; what is the same for several, once."""
    out: list[str] = []
    order = {o.op: n for n, o in enumerate(run.operations)}
    steps = merged((step for a in every for s in a.stories for step in s.repairs), order)
    told: dict[str, int] = {}
    for n, a in enumerate(every[: answers.MOST_ANSWERS], 1):
        out += ["", *(f"  {to.paint(x.strip(), 'bold')}" for x in to.wrap(f"{n}. {a.title(run)}", "  "))]
        out += to.wrap(words.shorten(answers.damaged(run, a), MOST_DAMAGED), "    ")
        out += to.wrap(f"{stories_view.by_whom(a.views[0])}; {answers.standing(run, a)}.", "    ")
        wanted = {s.text for story in a.stories for s in story.repairs}
        known = dict.fromkeys(k for v in a.views for k in v.known)
        for label, said in (
            ("do now", {s.text: _step(s) for s in steps if s.text in wanted}),
            ("avoid it", {x: x for x in answers.remedies(a)}),
            ("known", {k.command: k.command + (f", {k.href}" if k.href else "") for k in known}),
        ):
            new = [key for key in said if key not in told]
            if new and label == "known":
                out += to.wrap(f"{label}: {'; '.join(said[key] for key in new)}".replace("`", ""), "    ")
            elif new:
                # That the writers stop says nothing without the step behind it.
                least = 2 if any(s.does is Repair.STOP and s.text in new for s in steps) else 1
                out += to.wrap(f"{label}: {_few([said[key] for key in new], least)}".replace("`", ""), "    ")
            elif said and label != "known":
                out.append(f"    {label}: as for {min(told[key] for key in said)}")
            told |= {key: n for key in said if key not in told}
    besides = [f"{a.title(run)}, by {a.views[0].who}" for a in every[answers.MOST_ANSWERS :]]
    out += [line for x in besides[:MOST_BESIDES] for line in to.wrap(f"besides: {words.shorten(x, MOST_SHORT)}", "  ")]
    if (more := len(besides) - MOST_BESIDES) > 0:
        out += [f"  and {words.plural(more, 'more kind')} of harm"]
    return [*out, "", *to.wrap(_REST, "  ")]


_REST = "The page has the rest: each event, its statements, and all that is to be done, in its order."


def _few(texts: Sequence[str], least: int = 1) -> str:
    """The first texts, whole, and whether there are more; ``least``: so many of them, whatever their length."""
    few, length = list[str](), 0
    for text in texts:
        length += len(text)
        if len(few) >= least and length > MOST_SHORT:
            break
        few.append(text)
    return " ".join(few) + (" The page has more." if len(few) < len(texts) else "")


def _step(s: RepairStep) -> str:
    """A step of what to do now, in its first sentences; ``stop`` in few words, as all others stand behind it."""
    if s.does is Repair.STOP:
        return f"Stop the writers and the maintenance of {explain.listing(s.tables, MOST_STOPPED) or 'the table'}."
    return _few(words.sentences(s.words("its card")))


def _names(run: Stored, own: Sequence[Anomaly], to: _Terminal) -> list[str]:
    """A line for each name of an anomaly: how often, on which tables, and which checkers found it."""
    names = stored.anomaly_names(own)
    count_width = max(len(words.grouped(n)) for n in names.values())
    out = []
    for name, n in list(names.items())[:MOST_NAMES]:
        of_name = [a for a in own if a.name == name]
        where = ", ".join(sorted({a.table for a in of_name if a.table})[:4])
        by = ", ".join(sorted({a.checker for a in of_name})[:4])
        who = stored.confirmed_by(name, run.anomalies)
        details = (
            f"on {where}" if where else "",
            f"found by {by}",
            f"also found by {who}" if who else "",
            "documented" if all(a.documented for a in of_name) else "",
            *sorted({run.mark(a) for a in of_name}),
        )
        label = to.paint(words.shorten(name, 60), "bold")
        out.append(
            f"  {words.grouped(n):>{count_width}} {label}  {to.paint(', '.join(filter(None, details)), 'muted')}"
        )
    if len(names) > MOST_NAMES:
        out.append(f"  {'':>{count_width}} and {words.plural(len(names) - MOST_NAMES, 'more name')}")
    return out


def _first(run: Stored, own: Sequence[Anomaly], to: _Terminal) -> list[str]:
    """The explanation of the gravest anomaly, the faults that it met, and its minimal history."""
    gravest = [
        a for s in stories_view.unmarked(run)[:1] for a in stories.anomalies_of(s, run.verdicts) if a.name == s.name
    ]
    first = (gravest or sorted(own, key=lambda a: bool(run.mark(a))))[0]
    if not first.explanation:
        return []
    out = ["", to.paint(f"  {words.shorten(first.name, 60)}, the first one:", "muted")]
    out += to.wrap(words.shorten(first.explanation, MOST_EXPLAINED), "    ")
    for p in [p for p in run.requests(first) if p.faults][:MOST_FAULTS]:
        out += to.wrap(faulted.happened(p), "    ")
    if first.minimal is not None and len(ops := first.minimal.ops) > 1:
        count = words.plural(len(ops), "operation")
        show = "show it, and no fewer" if first.minimal.complete else "show it"
        out += to.wrap(f"{count} {show}: {', '.join(words.shorten(o, 40) for o in ops[:MOST_OPS])}", "    ")
    return out


def _unknown(run: Stored, sentence: str, to: _Terminal) -> list[str]:
    """The checkers that cannot say, and why, but those of which the banner's sentence says it."""
    said = [v for v in run.verdicts if v.checker == RECORD or (v.notes and v.notes[0] in sentence)]
    unknown = [v for v in run.verdicts if v.valid == "unknown" and v not in said]
    out = [""] if unknown else []
    for v in unknown[:6]:
        out += to.wrap(f"{v.checker}: unknown" + (f": {words.shorten(v.notes[0], 300)}" if v.notes else ""), "  ")
    return out


def _rows(run: Stored, errors: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The facts below the findings: label and text."""
    total = figures.tally("all", run.operations)
    took = f", in {words.duration(figures.ms(run.end_ns))}" if run.events else ""
    outcomes = words.outcomes(total.ok, total.fail, total.info)
    load = sum(o.invoked.extra.get("phase") not in NOT_THE_WORKLOADS for o in run.operations)
    of_load = f"; {words.grouped(load)} of them of the load" if 0 < load < total.count else ""
    rows = [("operations", f"{words.grouped(total.count)}: {outcomes}{took}{of_load}"), *errors, *load_view.lines(run)]
    if faults := bands.faults(run.events):
        rows.append(("faults", _struck(faults)))
    if legal := stored.allowed(run.verdicts):
        listed = ", ".join(f"{words.shorten(name, 40)} ×{words.grouped(n)}" for name, n in list(legal.items())[:8])
        rows.append(("allowed", f"{listed}: legal at the level of their table"))
    rows += [(a.key, str(a)) for a in run.accepted.swallowed(run.anomalies)]
    rows += [("problem", words.shorten(" ".join(p.split()), 300)) for p in run.problems[:3]]
    report = run.folder / "report.html"
    rows.append(("page", str(report)) if report.exists() else ("folder", str(run.folder)))
    rows += [("again", run.command)] if run.command else []
    rows += [("who", who)] if (who := stories_view.who(run)) else []
    return rows


def _struck(faults: Sequence[bands.FaultTally]) -> str:
    struck, never = sum(t.commits for t in faults), [t.name for t in faults if not t.hits.total()]
    text = f"{words.plural(sum(t.times for t in faults), 'fault')} of {words.plural(len(faults), 'kind')}, "
    text += f"{words.plural(struck, 'commit')} struck"
    if never:
        text += f"; never struck: {', '.join(words.shorten(n, 60) for n in never[:8])}"
        text += f" and {len(never) - 8} more" if len(never) > 8 else ""
    return text


def _shape(
    shape: stories_view.ShapeView, number: int | None, told: dict[tuple[str, str], int], to: _Terminal
) -> list[str]:
    """The first story of a shape, and where others like it are.

    Args:
        number: which of several it is.
        told: what to do, by label and text → the number of the shape that said it first: it is said once.
    """
    first, *rest = (*shape.told, *shape.more)
    s = first.story
    lead = "" if number is None else f"{number}. "
    said = "".join(f", {part}" for part in (f"on {s.table}" if s.table else "", first.mark) if part)
    out = [f"  {to.paint(line.strip(), 'bold')}" for line in to.wrap(f"{lead}{words.shorten(s.headline, 300)}", "  ")]
    out += to.wrap(f"{s.consequence} By {first.who}{f', which {s.how}' if s.how else ''}{said}.", "    ")
    out += [line for text in first.struck for line in to.wrap(text, "    ")]
    for step in first.lines if len(first.lines) > 1 else ():
        times = f" ×{words.grouped(step.count)}" if step.count > 1 else ""
        name = "" if step.name == UNREADABLE_STEP else f"{words.shorten(step.name, 60)}{times}: "
        out += to.wrap(name + words.shorten(step.text, 600), "    ")
    for label, text in (
        ("also named", ", ".join(first.also)),
        ("do now", s.repair),
        ("avoid it", s.remedy),
        ("until then", s.meanwhile),
    ):
        if text:
            before = told.setdefault((label, text), number or 1)
            here = (
                before == (number or 1) or label == "also named"
            )  # a few words, which are shorter than where they stand
            said_here = text.replace("`", "") if here else f"as for {before}"
            out += to.wrap(f"{label}: {said_here}", "    ")
    out += [line for k in first.known for line in _known(k, "    ")]
    if rest:
        tables = dict.fromkeys(v.story.table for v in rest if v.story.table)
        out += to.wrap(
            f"and {len(rest)} more like this" + (f", on {explain.listing(tables)}" if tables else ""), "    "
        )
    return out


def _known(k: stories_view.KnownLine, indent: str) -> list[str]:
    return [f"{indent}known: {k.command}" + (f", {k.href}" if k.href else "") + (f" ({k.state})" if k.state else "")]


def _printable(line: str) -> str:
    """The same as :func:`words.printable`, but icequake's own colour codes stay."""
    parts = []
    rest = line
    for code in ("\x1b[0m", *(f"\x1b[{c}m" for c in _CODES.values())):
        rest = rest.replace(code, f"\ue000{code[2:-1]}\ue001")
    parts.append(words.printable(rest))
    return "".join(parts).replace("\ue000", "\x1b[").replace("\ue001", "m")
