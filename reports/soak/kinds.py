"""The kinds of failure of a night: what was lost, who did it, in which runs, what to do now, and what to type to see it again."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from checkers.judge.known import KnownDefect, asks, needs_fault, of_scenario
from checkers.judge.repairsteps import RepairStep, merged
from checkers.judge.stories import GRAVEST, UNREADABLE_STEP, counted
from checkers.names import Harm, meaning
from checkers.nights.happened import Happened, harm_of
from checkers.nights.night import Night, Showed
from checkers.nights.record import NightRun
from reports.drawing import words
from reports.drawing.page import (
    Block,
    Card,
    Cards,
    FileText,
    Pairs,
    Text,
    badge,
    in_numbers,
    joined,
    link,
    outside,
    tag,
)
from reports.reproduction.exportable import export_line, form_of
from reports.run import stories_view
from reports.run.repairs import repair_steps
from reports.run.statements import asked_as, statement
from reports.soak import places
from reports.soak import words as soakwords
from reports.soak.words import CLASSES
from workloads.file.scenario import LIBRARY, load
from workloads.file.workload import WorkloadError

SOUND = len(Harm)
"""The gravity of what nobody explains."""
NEW_OR_KNOWN_SAYS = (
    "New: no scenario of the library and no entry of the suite's file describes it; it fails the night. Known: one does; it does not fail the "
    "night."
)
NEW_OR_KNOWN = f"A card for each kind of harm: the new ones first, of these the gravest first. {NEW_OR_KNOWN_SAYS}"
OPEN = 10
"""Kinds whose cards are open; those of new ones all are."""
MOST_NOW = 3
"""Runs of a kind of which is said what to do now."""
MOST = 40
"""Kinds that have a card."""
NO_REMEDY = "No remedy is known; keep the run, and make it small by the command on its card."
MOST_LOSSES = 8
"""Names of what was lost that one sentence has."""
MOST_RUNS = 6
"""Runs that a card links to."""
GRAVE = (Harm.ROWS, Harm.UNREADABLE)
"""What makes a night's answer red, whether it is known or not."""


@dataclass(frozen=True)
class Program:
    """How a person calls icequake; ``store``: where what is typed puts its folders, None: in the store of the folder in which it is typed."""

    name: str = "icequake"
    store: Path | None = None

    def line(self, *parts: str) -> str:
        """A command that makes runs."""
        return f"{self.name} {shlex.join([*parts, *([] if self.store is None else ['--store', str(self.store)])])}"


PROGRAM = Program()


@dataclass(frozen=True)
class FailureKind:
    """What happened in the same way in some runs of a night.

    Attributes:
        runs: with what happened in each of them, in their order.
        link: where the known defect is discussed; None: nobody knows it.
    """

    runs: tuple[tuple[NightRun, Happened], ...]
    link: str | None

    @property
    def first(self) -> Happened:
        """What happened in the first run."""
        return self.runs[0][1]

    @cached_property
    def counts(self) -> Counter[str]:
        """What is counted → how often, over all runs."""
        return _summed(h for _, h in self.runs)

    @cached_property
    def harmed(self) -> Counter[str]:
        """What a person counts of it, over all runs."""
        return harmed(h for _, h in self.runs)

    @property
    def gravity(self) -> tuple[int, int]:
        """The least for the gravest."""
        return min(map(gravity, (self.first.name, *self.counts)))

    @property
    def showed(self) -> Showed:
        """``new`` or ``known``."""
        return "known" if self.link is not None else "new"


def _summed(every: Iterable[Happened]) -> Counter[str]:
    out: Counter[str] = Counter()
    for h in every:
        out.update(h.counts)
    return out


def harmed(every: Iterable[Happened]) -> Counter[str]:
    """What a person counts of some kinds of failure: name → how often."""
    out: Counter[str] = Counter()
    for h in every:
        out.update(h.harmed)
    return out


def kinds(night: Night) -> list[FailureKind]:
    """The kinds of failure, those that nobody knows first; of these, and of the others, the gravest first."""
    found: dict[tuple[object, ...], list[tuple[NightRun, Happened]]] = {}
    links: dict[tuple[object, ...], str | None] = {}
    for line in night.failures:
        for h in line.by_kind:
            known = night.known_kind(h, line)
            key = (h.name, h.who, h.remedy, known, h.unreadable)
            found.setdefault(key, []).append((line, h))
            links[key] = known
    made = [FailureKind(tuple(runs), links[key]) for key, runs in found.items()]
    return sorted(made, key=lambda k: (k.link is not None, k.gravity))


def gravity(name: str) -> tuple[int, int]:
    """How grave what is counted by a name is, the least for the gravest: a table that nobody can read comes first, as in a run's headline."""
    harm = harm_of(name)
    rank = GRAVEST.index(name) if name in GRAVEST else len(GRAVEST)
    return (SOUND if harm is None else -1 if name == UNREADABLE_STEP else harm.gravity), rank


def losses(counts: Mapping[str, int]) -> str:
    """``2 acknowledged commits lost, 1 table that nobody can read``: the gravest first."""
    ordered = sorted(counts.items(), key=lambda kv: gravity(kv[0]))
    few = [_counted(name, n) for name, n in ordered[:MOST_LOSSES]]
    more = len(ordered) - len(few)
    return ", ".join(few) + (f", and {words.plural(more, 'other name')} below" if more > 0 else "")


def _counted(name: str, n: int) -> str:
    """What a headline says of a name: its count, or its sentence if it is not counted."""
    means = meaning(name)
    if means is None or means.counted[0] or n == 0:
        return counted(name, n)
    sentence = f"{means.sentence[:1].lower()}{means.sentence[1:].rstrip('.')}"
    return sentence if n == 1 else f"{sentence} ({n} times)"


def lost(found: Iterable[FailureKind]) -> str:
    """What happened to data in some kinds of failure, counted over all their runs."""
    return losses(harmed(h for k in found for _, h in k.runs))


def runs_of(found: Iterable[FailureKind]) -> int:
    """In how many runs they are."""
    return len({id(line) for k in found for line, _ in k.runs})


def is_grave(found: Iterable[FailureKind]) -> bool:
    """Whether rows are lost or wrong, or a table cannot be read; also if nobody knows what it means."""
    return any(k.first.harm is None or k.first.harm in GRAVE for k in found)


def who(found: Iterable[FailureKind]) -> str:
    """Who did it, in how many runs, the most first."""
    runs: dict[str, set[int]] = {}
    for k in found:
        for line, h in k.runs:
            runs.setdefault(h.by or h.who or "nobody knows who", set()).add(id(line))
    ordered = sorted(runs.items(), key=lambda kv: -len(kv[1]))
    return ", ".join(f"{writer} in {words.plural(len(n), 'run')}" for writer, n in ordered)


# --- the cards --------------------------------------------------------------------------------------------------------


def blocks(night: Night, found: Sequence[FailureKind], program: Program) -> list[Block]:
    """A card for each kind of failure."""
    if not found:
        return [Text(["Nothing: every run that was judged kept all promises."], "muted")]
    now = recipes(found)
    cards = Cards([_card(night, found, n, program, now[n - 1]) for n in range(1, min(len(found), MOST) + 1)])
    remaining = len(found) - MOST
    more = [Text([f"and {words.plural(remaining, 'more kind')}, in soak.json"], "note")] if remaining > 0 else []
    return [Text([NEW_OR_KNOWN], "note"), cards, *more]


def anchor(n: int) -> str:
    """By which the page links to the card of the n-th kind, from 1."""
    return f"kind-{n}"


def _card(night: Night, found: Sequence[FailureKind], n: int, program: Program, now: Recipe) -> Card:
    """The card of the n-th kind, from 1."""
    k = found[n - 1]
    first = k.first
    places_ = _where(night, k)
    runs = f"{f'{places_[0]} · ' if len(places_) == 1 else ''}in {words.plural(len(k.runs), 'run')} of {words.grouped(len(night.runs))}"
    names = (tag("span", name, "tag") for name in dict.fromkeys(x for _, h in k.runs for x in h.names[:MOST_LOSSES]))
    head = joined(
        (f"{n}.", badge(CLASSES[k.showed], k.showed), tag("b", losses(k.harmed)), *names, tag("span", runs, "where")),
        " ",
    )
    about = [
        (
            "who did it",
            joined((tag("b", words.shorten(first.who, 200)), words.shorten(first.how, 400)), " " * bool(first.how)),
        ),
        (asked_as(first.name), stated(k)),
        ("how", words.shorten(first.steps, 600)),
        ("where", words.shorten("; ".join(places_), 400) if len(places_) > 1 else ""),
        ("provoked by", provoked(k)),
        ("known?", _known(night, k)),
        ("do now", do_now(night, now) if now else same_table(found, k)),
        ("avoid it", with_code(first.remedy or NO_REMEDY)),
        ("not smaller", words.shorten(not_small(night, k), 600)),
        ("runs", joined(_runs(night, k), " · ") if len(k.runs) > 1 else ""),
    ]
    facts = Pairs([(name, text) for name, text in about if text], "about")
    typed = "\n".join(f"# {what}\n{command}" for what, command in commands(night, k, program))
    return Card(
        head,
        [Text([_consequence(k)], "consequence"), facts, FileText(typed)],
        anchor(n),
        "documented" if not is_grave([k]) else "",
        k.link is None or n <= OPEN,
    )


def _consequence(k: FailureKind) -> str:
    """What it means for those who query the table: one harm, the gravest."""
    extent = _of(k)
    if k.first.unreadable:
        return f"Nobody can read {extent.removeprefix(' of ') or 'the table'} any more."
    if k.first.name == "lost-commit":
        lost = "rows that were written are missing, or rows that were deleted are still there"
        return f"Acknowledged changes are not in the rows{extent}: {lost}."
    means, harm = meaning(k.first.name), k.first.harm
    if harm is None:
        return "Nobody explains what it means."
    line, first = k.runs[0]
    others = [h for h in line.by_kind if h.harm in GRAVE and {*h.tables} & {*first.tables}]
    if harm not in GRAVE and others:  # it must not say that the rows are right
        return f"By itself it changes no row{extent}; what else happened in its run did."
    return ((means.rows if means is not None else "") or harm.rows).format(of=extent)


Recipe = Sequence[tuple[NightRun, Happened, Sequence[RepairStep]]]
"""What to do now, run by run."""


def same_table(found: Sequence[FailureKind], k: FailureKind) -> str:
    """What to do of a kind without steps of its own: where its are."""
    n = mended_by(found)[found.index(k)][0] + 1
    there = link(f"number {n}", f"#{anchor(n)}")
    return joined(("It is the same table of the same run as ", there, ", and mended by the steps there."))


def mended_with(found: Sequence[FailureKind], k: FailureKind) -> list[FailureKind]:
    """The kinds before one that harmed the same tables of the same runs, and those that have the steps."""
    harmed = {(id(line), t) for line, h in k.runs for t in h.tables}
    leads = mended_by(found)[found.index(k)]
    before = enumerate(found[: found.index(k)])
    return [x for n, x in before if n in leads or any((id(line), t) in harmed for line, h in x.runs for t in h.tables)]


def mended_by(found: Sequence[FailureKind]) -> list[list[int]]:
    """For each kind, run by run, the place of the kind whose steps mend its tables: its own, unless a kind before it harmed one of them, or
    a table that is mended with one of them."""
    leads: dict[tuple[int, str], int] = {}
    out: list[list[int]] = []
    for n, k in enumerate(found):
        out.append([])
        for line, h in k.runs:
            tables = [(id(line), t) for t in h.tables]
            lead = next((leads[t] for t in tables if t in leads), n)
            leads |= {t: lead for t in tables if t not in leads}
            out[n].append(lead)
    return out


def recipes(found: Sequence[FailureKind]) -> list[Recipe]:
    """For each kind, its runs with all that mends their tables; without those whose steps another kind has (:func:`mended_by`)."""
    steps: dict[tuple[int, int], list[RepairStep]] = {}
    starts: dict[int, dict[str, int]] = {}
    for k, leads in zip(found, mended_by(found), strict=True):
        for (line, h), lead in zip(k.runs, leads, strict=True):
            steps.setdefault((lead, id(line)), []).extend(h.now)
            starts.setdefault(id(line), {}).update(h.starts)
    return [
        [(line, h, merged(steps[n, id(line)], starts[id(line)])) for line, h in k.runs if (n, id(line)) in steps]
        for n, k in enumerate(found)
    ]


def stated(k: FailureKind) -> str:
    """The statements of the first operations that are lost, or did it, in its first run, and how many more there are in all its runs."""
    line, first = k.runs[0]
    said: list[str] = [joined((f"{op}: ", statement(sql))) for op, sql in first.statements if sql]
    more = sum(h.concerned for _, h in k.runs) - len(said)
    if said and len(k.runs) > 1:
        said[-1] = joined((said[-1], f" (in {_run_name(line)})"))
    said += [f"and {words.grouped(more)} more, on the run's cards"] if said and more > 0 else []
    return tag("ul", joined(tag("li", x) for x in said)) if len(said) > 1 else joined(said)


def known_words(k: FailureKind) -> str:
    """Where a known defect is discussed, what has become of it, and which releases have it; empty if nobody knows it."""
    if k.link is None:
        return ""
    own = next((d for name in k.first.scenarios if (d := of_scenario(name)) is not None and d.link == k.link), None)
    line = replace(stories_view.known_line(own or KnownDefect("", k.link, ())), headline="", command="")
    return stories_view.known_words(line, stories_view.release(k.first.who))


def do_now(night: Night, found: Recipe, most: int = MOST_NOW, rest: str | None = None) -> str:
    """What to do with the tables of some runs that harmed them alike, with a link to each run's cards.

    Args:
        most: runs of which it is said.
        rest: the link to where it is said of more.
    """
    if len(found) == 1:
        return _in_run(night, *found[0])
    told = [
        tag("div", joined((f"In {_run_name(line)}: ", _in_run(night, line, h, steps))))
        for line, h, steps in found[:most]
    ]
    more = len(found) - most
    return joined((*told, *([link(f"and in {words.plural(more, 'more run')}", rest)] if more > 0 else [])))


def _in_run(night: Night, line: NightRun, h: Happened, steps: Sequence[RepairStep]) -> str:
    card, name = card_of(night, line, h), "card" if h.card else "cards"
    if steps:
        done = in_numbers(repair_steps(steps, lambda _: f"the run's {name}"))
        return done if card is None else joined((done, " ", link(f"Open the run's {name}", card), "."))
    if card is None:
        return ""
    return joined((link(f"Open the run's {name}", card), " for the statements and what the proxies saw of them."))


def _run_name(line: NightRun) -> str:
    return "the run" if line.seed is None else f"the run of seed {line.seed}"


def provoked(k: FailureKind) -> str:
    """What provoked it: the faults that icequake injected, or nothing but the operations if the known defect needs no fault."""
    on = with_faults(k)
    if k.first.scenarios and not any(map(needs_fault, k.first.scenarios)):
        return f"operations at once, no fault is needed{f' (in these runs there were some: {on})' if on else ''}"
    return on


def with_faults(k: FailureKind) -> str:
    """The faults that icequake injected in the runs of a kind."""
    return words.shorten("; ".join(places.disturbs(line.cell for line, _ in k.runs)), 400)


def with_code(text: str) -> str:
    """A text of a run's card, whose parts between backticks are code."""
    parts = _CARD.sub("on the run's card", text).split("`")
    return joined(tag("code", part) if n % 2 else part for n, part in enumerate(parts))


_CARD = re.compile("on (this|the) card")
"""What a run's page says of a card of its own."""


def _of(k: FailureKind) -> str:
    tables = list(dict.fromkeys(t for _, h in k.runs for t in h.tables))
    return f" of {' and '.join(tables[:3])}" if tables and len(tables) <= 3 else ""


def _where(night: Night, k: FailureKind) -> list[str]:
    """The combinations that showed it, with the number of their runs."""
    counts = Counter(line.cell for line, _ in k.runs)
    named = ((places.of(night, cell), n) for cell, n in counts.items())
    return [f"{name}{f' ({n} runs)' if n > 1 else ''}" for name, n in named]


def _known(night: Night, k: FailureKind) -> str:
    """Why a kind of failure is known, or why it is not: what the rule asks, and what of it was there."""
    line, first = k.runs[0]
    if k.link is not None:
        where = outside(words.link_label(k.link), words.safe(k.link))
        rules = [f"{asks(name)} (scenario {name})" for name in first.scenarios if asks(name)]
        of_suite = next((x for x in night.suite.known if x.link == k.link and x.of(line.cell)), None)
        if of_suite is not None and not rules:
            rules = [f"{soakwords.where(of_suite) or 'everywhere'}, as the suite's file says"]
        return joined(("yes, ", where, f": known for {'; '.join(rules)}, as here" if rules else ""))
    others = [x for x in night.suite.known if any(e.name in first.names for e in x.anomaly) and not x.of(line.cell)]
    reasons = [first.unlike or "nothing in the library or in the suite says so"]
    reasons += [f"the suite's file has {x.name} for {soakwords.where(x)} only" for x in others]
    return words.shorten(f"no: {'; '.join(reasons)}", 900)


def _runs(night: Night, k: FailureKind) -> list[str]:
    """Links to the runs' pages, each to the card that tells it."""
    out: list[str] = []
    for line, h in k.runs[:MOST_RUNS]:
        name = "the run" if line.seed is None else f"seed {line.seed}"
        card = card_of(night, line, h)
        out.append(f"{name} (not kept)" if card is None else link(f"open {name}", card))
    more = len(k.runs) - MOST_RUNS
    return [*out, *([f"and {words.grouped(more)} more, below"] if more > 0 else [])]


def card_of(night: Night, line: NightRun, h: Happened) -> str | None:
    """The link to the card of a run's page, or to all of them if it has several; None if the page is gone."""
    page = href_of(night, line)
    return None if page is None else f"{page}#anomaly-{h.card}" if h.card else f"{page}#anomalies"


def href_of(night: Night, line: NightRun) -> str | None:
    """The link to a run's page; None if its folder, or its page, is gone."""
    if line.folder is None or not (night.folder / line.folder / "report.html").exists():
        return None
    return quote(f"{line.folder}/report.html")


def commands(night: Night, k: FailureKind, program: Program) -> list[tuple[str, str]]:
    """What each command does, and the command: in a fixed order, with the same seed, smaller, and for others."""
    out: list[tuple[str, str]] = []

    for name in k.first.scenarios[:1]:
        out.append(("shows the defect in a few statements, in a fixed order", program.line("prove", name)))
        if (form := _form(LIBRARY / f"{name}.yaml")) is not None:
            out.append((FOR_OTHERS[form[0]], export_line(program.name, name, form[0], f"{name}.{form[1]}")))
    shrunk = [f for f in night.finds if f.scenario and (f.anomaly in k.first.names)]
    for f in [] if k.link is not None else shrunk[:1]:
        scenario = night.folder / str(f.scenario)
        shows = f.command or program.line("prove", str(scenario))
        out.append(("shows it in a few statements, in a fixed order", shows))
        if (form := _form(scenario)) is not None:
            line = export_line(program.name, str(scenario), form[0], f"{f.anomaly}.{form[1]}")
            out.append((FOR_OTHERS[form[0]], line))
    kept = [(x.folder, h) for x, h in k.runs if x.folder is not None and h.names and (night.folder / x.folder).is_dir()]
    if kept:
        tried = {f.run for f in night.finds}  # its issue says what came of that
        run, h = min(kept, key=lambda one: one[0] not in tried)
        folder = str(night.folder.resolve() / run)
        name = h.name if h.name in h.names else h.names[0]
        of_op = [word for op, _ in h.statements[:1] for word in ("--op", op)]
        shrink = program.line("shrink", folder, "--anomaly", name, *of_op)
        smaller = [("replays the run, and leaves out what it does not need to show this", shrink)]
        whole = [] if out else [(OF_THE_RUN, issue_line(night, folder, name, program))]
        out += [*whole, *smaller] if not_small(night, k) else [*smaller, *whole]
    return out


def mailed(night: Night, found: Sequence[FailureKind], program: Program) -> list[str]:
    """Each kind of failure without the page: what, where it is discussed and seen, what avoids it; below it the command that shows it again."""
    out: list[str] = []
    for k in found[:MOST]:
        known = "new" if k.link is None else f"known: {words.link_label(k.link)}"
        avoid = _CARD.sub("on the run's card", k.first.remedy) or "no remedy is known"
        seen = words.shorten("; ".join(_where(night, k)), 300)
        show = next((c for does, c in commands(night, k, program) if does.startswith("shows")), k.runs[0][0].command)
        out += [f"{k.first.name} ({known}) in {seen}; avoid: {avoid}", *([f"  show {show}"] if show else [])]
    more = len(found) - MOST
    out += [f"and {words.plural(more, 'more kind')}, in soak.json"] if more > 0 else []
    return [words.printable(x) for x in (*out, *([NEW_OR_KNOWN_SAYS] if found else []))]


def issue_line(night: Night, run: str, name: str, program: Program) -> str:
    """The command that writes the text of an issue from a run itself; ``run``: its folder."""
    return export_line(program.name, str(night.folder.resolve() / run), "issue", f"{name}.md")


FOR_OTHERS = {
    "script": "writes that as a file for the maintainers, who need no icequake for it",
    "issue": "writes the text of an issue for the maintainers (no script can show it; `icequake prove` does)",
}
"""What the export of a scenario does, by its form."""
OF_THE_RUN = "writes the text of an issue for the maintainers from the run itself, with its workload and its seed"


def not_small(night: Night, k: FailureKind) -> str:
    """Why the night has no scenario file of a new kind of failure, though it tried to make one; empty if it has one, or did not try."""
    runs = {line.folder for line, _ in k.runs}
    tried = [f for f in night.finds if f.anomaly in k.first.names and (f.run in runs or f.scenario is not None)]
    return "" if k.link is not None or any(f.scenario for f in tried) else next((f.why_no_scenario for f in tried), "")


def _form(scenario: Path) -> tuple[str, str] | None:
    """How a scenario is exported; None if it cannot be read."""
    try:
        return form_of(load(scenario))
    except (WorkloadError, OSError):
        return None
