"""The kinds of failure of a night: what was lost, who did it, in which runs, what to do now, and what to type to see it again."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from checkers.judge.stories import GRAVEST, UNREADABLE_STEP, counted
from checkers.names import Harm, meaning
from checkers.nights.happened import Happened, harm_of
from checkers.nights.night import Night, Showed
from checkers.nights.record import NightRun
from reports.drawing import words
from reports.drawing.page import Block, Card, Cards, FileText, Pairs, Text, badge, joined, link, outside, tag
from reports.reproduction.exportable import form_of
from reports.soak import places
from reports.soak.words import CLASSES
from workloads.file.scenario import LIBRARY, load
from workloads.file.workload import WorkloadError

SOUND = len(Harm)
"""The gravity of what nobody explains."""
NEW_OR_KNOWN = (
    "A card for each kind of failure, the gravest first: what to do now with such a table, and how to avoid it. Known: a scenario of the "
    "library shows it on such a catalog, or the suite's file names it; it does not fail the night. New: nobody has described it yet."
)
OPEN = 3
"""Kinds whose cards are open."""
MOST = 40
"""Kinds that have a card."""
NO_REMEDY = "No remedy is known; keep the run, and make it small by the command on its card."
MOST_RUNS = 6
"""Runs that a card links to."""
GRAVE = (Harm.ROWS, Harm.UNREADABLE)
"""What makes a night's answer red, whether it is known or not."""


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


def kinds(night: Night) -> list[FailureKind]:
    """The kinds of failure, the gravest first; of the same harm those that nobody knows first."""
    found: dict[tuple[object, ...], list[tuple[NightRun, Happened]]] = {}
    links: dict[tuple[object, ...], str | None] = {}
    for line in night.failures:
        for h in line.told:
            known = night.known_kind(h, line)
            key = (h.name, h.who, h.remedy, known)
            found.setdefault(key, []).append((line, h))
            links[key] = known
    made = [FailureKind(tuple(runs), links[key]) for key, runs in found.items()]
    return sorted(made, key=lambda k: (k.gravity, k.link is not None))


def gravity(name: str) -> tuple[int, int]:
    """How grave what is counted by a name is, the least for the gravest: a table that nobody can read comes first, as in a run's headline."""
    harm = harm_of(name)
    rank = GRAVEST.index(name) if name in GRAVEST else len(GRAVEST)
    return (SOUND if harm is None else -1 if name == UNREADABLE_STEP else harm.gravity), rank


def said(counts: Counter[str], most: int) -> str:
    """``2 acknowledged commits lost, 1 table that nobody can read``: the gravest first, and how many other kinds of harm there are."""
    ordered = sorted(counts.items(), key=lambda kv: gravity(kv[0]))
    few = [_counted(name, n) for name, n in ordered[:most]]
    more = len(ordered) - most
    return ", ".join(few) + (f", and {words.plural(more, 'other kind')} of harm" if more > 0 else "")


def _counted(name: str, n: int) -> str:
    """What a headline says of a name: its count, or its sentence if it is not counted."""
    means = meaning(name)
    if means is None or means.counted[0] or n == 0:
        return counted(name, n)
    sentence = means.sentence.rstrip(".")
    return sentence if n == 1 else f"{sentence} ({n} times)"


def gravest(k: FailureKind) -> str:
    """What is gravest of a kind of failure, counted."""
    name = min(k.counts, key=gravity)
    return _counted(name, k.counts[name])


def lost(found: Sequence[FailureKind]) -> str:
    """What happened to data in a night, counted over all its runs."""
    return said(_summed(h for k in found for _, h in k.runs), 2)


def is_grave(found: Iterable[FailureKind]) -> bool:
    """Whether rows are lost or wrong, or a table cannot be read; also if nobody knows what it means."""
    return any(k.first.harm is None or k.first.harm in GRAVE for k in found)


def who(found: Iterable[FailureKind]) -> str:
    """Who did it, in how many runs, the most first."""
    runs: dict[str, set[int]] = {}
    for k in found:
        for line, h in k.runs:
            runs.setdefault(h.who or "nobody knows who", set()).add(id(line))
    ordered = sorted(runs.items(), key=lambda kv: -len(kv[1]))
    return ", ".join(f"{by} in {words.plural(len(n), 'run')}" for by, n in ordered)


# --- the cards --------------------------------------------------------------------------------------------------------


def blocks(night: Night, found: Sequence[FailureKind], program: str) -> list[Block]:
    """A card for each kind of failure."""
    if not found:
        return [Text(["Nothing: every run that was judged kept all promises."], "muted")]
    cards = Cards([_card(night, k, n, program) for n, k in enumerate(found[:MOST], 1)])
    left = len(found) - MOST
    more = [Text([f"and {words.plural(left, 'more kind')}, in soak.json"], "note")] if left > 0 else []
    return [Text([NEW_OR_KNOWN], "note"), cards, *more]


def anchor(n: int) -> str:
    """By which the page links to the card of the n-th kind, from 1."""
    return f"kind-{n}"


def _card(night: Night, k: FailureKind, n: int, program: str) -> Card:
    first = k.first
    runs = f"in {words.plural(len(k.runs), 'run')} of {words.grouped(len(night.runs))}"
    head = joined((badge(CLASSES[k.showed], k.showed), tag("b", said(k.counts, 2)), tag("span", runs, "where")), " ")
    about = [
        ("who did it", words.shorten(first.who, 200) or "–"),
        ("where", words.shorten("; ".join(_where(night, k)), 380)),
        ("its names", words.shorten(", ".join(dict.fromkeys(x for _, h in k.runs for x in h.names)), 300)),
        ("known?", _known(k)),
        ("runs", joined(_runs(night, k), " · ")),
    ]
    remedy = first.remedy or NO_REMEDY
    repair = first.repair.replace("on this card", "on the run's card")
    todo = [("Do now: ", f"{repair} (So in the first of the runs.)")] if repair else []
    todo += [("Avoid it: " if repair else "What to do: ", remedy)]
    told = Text([joined((tag("b", what), with_code(text))) for what, text in todo])
    commands = "\n".join(f"# {what}\n{command}" for what, command in _commands(night, k, program))
    return Card(
        head,
        [Text([_consequence(k)], "consequence"), told, Pairs(about, "about"), FileText(commands)],
        anchor(n),
        "documented" if not is_grave([k]) else "",
        n <= OPEN,
    )


def _consequence(k: FailureKind) -> str:
    """What it means for those who query the table."""
    gone = sum(UNREADABLE_STEP in h.counts for _, h in k.runs)
    harm = "Nobody explains what it means." if k.first.harm is None else k.first.harm.rows.format(of=_of(k))
    if not gone:
        return harm
    unread = f"Nobody can read {_of(k).removeprefix(' of ') or 'the table'} any more"
    return f"{unread}." if gone == len(k.runs) else f"{unread} in {gone} of these runs. {harm}"


def with_code(text: str) -> str:
    """A text whose parts between backticks are code."""
    return joined(tag("code", part) if n % 2 else part for n, part in enumerate(text.split("`")))


def _of(k: FailureKind) -> str:
    tables = list(dict.fromkeys(t for _, h in k.runs for t in h.tables))
    return f" of {' and '.join(tables[:3])}" if tables and len(tables) <= 3 else ""


def _where(night: Night, k: FailureKind) -> list[str]:
    """The combinations that showed it, with the number of their runs."""
    counts = Counter(places.of(night, line.cell) for line, _ in k.runs)
    return [f"{name}{f' ({n} runs)' if n > 1 else ''}" for name, n in counts.items()]


def _known(k: FailureKind) -> str:
    if k.link is None:
        return "no: nothing in the library or in the suite says so"
    return joined(("yes: ", outside(words.link_label(k.link), words.safe(k.link))))


def _runs(night: Night, k: FailureKind) -> list[str]:
    """Links to the runs' pages, each to the card that tells it."""
    out: list[str] = []
    for line, h in k.runs[:MOST_RUNS]:
        name = "the run" if line.seed is None else f"seed {line.seed}"
        there = card_of(night, line, h)
        out.append(f"{name} (not kept)" if there is None else link(f"open {name}", there))
    more = len(k.runs) - MOST_RUNS
    return [*out, *([f"and {words.grouped(more)} more, below"] if more > 0 else [])]


def card_of(night: Night, line: NightRun, h: Happened) -> str | None:
    """The link to a card of a run's page; None if the page is gone."""
    page = href_of(night, line)
    return None if page is None else f"{page}#anomaly-{h.card}" if h.card else page


def href_of(night: Night, line: NightRun) -> str | None:
    """The link to a run's page; None if its folder, or its page, is gone."""
    if line.folder is None or not (night.folder / line.folder / "report.html").exists():
        return None
    return quote(f"{line.folder}/report.html")


def _commands(night: Night, k: FailureKind, program: str) -> list[tuple[str, str]]:
    """What each command does, and the command: in a fixed order, with the same seed, smaller, and for others."""
    out: list[tuple[str, str]] = []

    def typed(what: str, *parts: str) -> None:
        out.append((what, shlex.join([program, *parts])))

    for name in k.first.scenarios[:1]:
        typed("shows it in a fixed order", "prove", name)
        if (form := _form(LIBRARY / f"{name}.yaml")) is not None:
            typed("for its maker, without icequake", "export", name, "--as", form[0], "-o", f"{name}.{form[1]}")
    shrunk = [f for f in night.finds if f.became == "shrunk" and f.scenario and (f.anomaly in k.first.names)]
    for f in [] if k.link is not None else shrunk[:1]:
        scenario = night.folder / str(f.scenario)
        out.append(("shows it in a fixed order", f.command or shlex.join([program, "prove", str(scenario)])))
        if (form := _form(scenario)) is not None:
            typed(
                "for its maker, without icequake",
                "export",
                str(scenario),
                "--as",
                form[0],
                "-o",
                f"{f.anomaly}.{form[1]}",
            )
    kept = next((x for x, _ in k.runs if x.folder is not None and (night.folder / x.folder).is_dir()), None)
    if kept is not None and k.first.names:
        folder = str(night.folder.resolve() / str(kept.folder))
        name = k.first.name if k.first.name in k.first.names else k.first.names[0]
        typed("replays that run, and makes it small", "shrink", folder, "--anomaly", name)
    again = next((x.command for x, _ in k.runs if x.command), None)
    return [*out, *([("the same seed and faults again", again)] if again else [])]


def _form(scenario: Path) -> tuple[str, str] | None:
    """How a scenario is exported; None if it cannot be read."""
    try:
        return form_of(load(scenario))
    except (WorkloadError, OSError):
        return None
