"""The stories of a run: findings that have one cause, the cause first; and what a scenario is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from checkers.costs import figures
from checkers.judge.known import Known
from checkers.judge.stories import UNREADABLE, Step, Story, unreadable_words
from reports.drawing import words
from reports.drawing.page import Block, Group, Pairs, Text, joined, link, outside, tag
from reports.run.anomalies import Named, safe
from reports.run.plan_view import table_specs
from reports.run.stored import Stored

MOST_STRUCK = 4
MOST_TABLES = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One step of a story: its name, how often it was found, a sentence, and the anchor of its first card (empty: none)."""

    name: str
    count: int
    text: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class KnownLine:
    """A known defect: the command that shows it, and where it is discussed (``href`` only if it is safe to follow)."""

    command: str
    href: str | None
    label: str


@dataclass(frozen=True, slots=True)
class StoryView:
    """A story, for page and terminal; ``struck``: what faults did to the requests of the operation at fault, before everything else."""

    table: str
    struck: tuple[str, ...]
    lines: tuple[Line, ...]
    known: tuple[KnownLine, ...]


def stories(run: Stored, cards: Iterable[Named] = ()) -> list[StoryView]:
    """The stories of a run; an unreadable table without one is a story of its own."""
    shown = list(cards)
    told = run.told
    out = [
        StoryView(
            s.table,
            tuple(_struck(run, s)),
            tuple(_line(s.table, step, shown) for step in s.steps),
            tuple(map(_known, s.known)),
        )
        for s in told.stories
    ]
    ended = {s.table for s in told.stories if any(step.name == UNREADABLE for step in s.steps)}
    for u in told.unreadable:
        if u.table not in ended:
            out.append(StoryView(u.table, (), (Line(UNREADABLE, 1, f"{u.table}: {unreadable_words(u)}"),), ()))
    return out


def known(run: Stored) -> list[KnownLine]:
    """The known defects that anomalies outside the stories look like."""
    return [_known(k) for k in run.told.known]


def _line(table: str, step: Step, cards: Iterable[Named]) -> Line:
    if step.name == UNREADABLE:
        return Line(UNREADABLE, step.count, f"{table}: {step.text}")
    mine = [c for c in cards if (c.anomaly.name, c.anomaly.table) == (step.name, table)]
    card = next((c for c in mine if {*c.anomaly.ops} & {*step.ops}), mine[0] if mine else None)
    return Line(step.name, step.count, step.text, f"#{card.anchor}" if card is not None else "")


def _struck(run: Stored, story: Story) -> list[str]:
    """What faults did to the requests of the operations at fault."""
    ops = dict.fromkeys(op for step in story.steps if step.name != UNREADABLE for op in step.ops)
    found = [r for op in ops for r in run.change_requests.get(op, ()) if r.faults]
    return [
        f"the {r.kind} of {words.shorten(r.op, 40)} at {words.moment(figures.ms(r.time))} was struck by "
        f"{words.shorten(', '.join(r.faults), 100)}: {words.shorten(r.status, 60)}"
        for r in sorted(found, key=lambda r: r.time)[:MOST_STRUCK]
    ]


def _known(k: Known) -> KnownLine:
    return KnownLine(f"icequake prove {words.shorten(k.scenario, 60)}", safe(k.link), words.link_label(k.link))


def blocks(run: Stored, cards: Iterable[Named]) -> list[Block]:
    """What a scenario is about, the stories, and the known defects, for the page."""
    facts = [(name, outside(text, href)) for name, text, href in scenario_facts(run)]
    out: list[Block] = [Pairs(facts, "about")] if facts else []
    for s in stories(run, cards):
        head = Text([tag("b", f"One story on table {words.shorten(s.table, 60)}")])
        steps = Text([*s.struck, *map(_step, s.lines)], "steps")
        out.append(Group([[head, steps, *_known_text(s.known)]], "story"))
    return out + _known_text(known(run))


def _step(line: Line) -> Markup:
    name = words.shorten(line.name, 60)
    times = f" ×{words.grouped(line.count)}" if line.count > 1 else ""
    said = tag("span", words.shorten(line.text, 500), "wrap")
    return joined((link(name, line.href) if line.href else tag("b", name), times, " ", said))


def _known_text(found: Sequence[KnownLine]) -> list[Block]:
    lines = [joined(("known: ", tag("code", k.command), ", ", outside(k.label, k.href))) for k in found]
    return [Text(lines, "note")] if lines else []


def scenario_facts(run: Stored) -> list[tuple[str, str, str | None]]:
    """What the scenario of a run is about: name, text, and link (None: no link); empty for the run of a workload."""
    told = run.scenario
    if not told:
        return []
    specs = table_specs(run)[:MOST_TABLES]
    out: list[tuple[str, str, str | None]] = [("table", _make(s, len(specs)), None) for s in specs]
    isolation = dict.fromkeys(str(s["isolation"]) for s in specs if s.get("isolation"))
    out += [("isolation", ", ".join(isolation), None)] if isolation else []
    ran = run.plan.versions.get("iceberg")
    out += [("affected releases", str(told.get("affected") or "not recorded"), None)]
    out += [("this release", f"Iceberg {ran}", None)] if ran else []
    if isinstance(told.get("link"), str):
        out += [("discussion", words.link_label(told["link"]), safe(told["link"]))]
    without = "none known" if told.get("anomalies") else "none needed"
    out += [("remedy", str(told.get("remedy") or without), None)]
    return [(name, words.shorten(text, 400), href) for name, text, href in out]


def _make(spec: Mapping[str, Any], tables: int) -> str:
    parts = [
        f"format version {spec.get('format_version', 2)}",
        str(spec.get("mode") or ""),
        "partitioned" if spec.get("partitioned") else "not partitioned",
    ]
    name = f"{spec.get('name')}: " if tables > 1 else ""
    return name + ", ".join(p for p in parts if p)
