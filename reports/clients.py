"""What ``icequake check FILE`` shows in a browser: the verdict on a history of any system, and each contradiction as a picture and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from checkers.clients.jepsen import CONCURRENT
from checkers.clients.models import ClientStats
from checkers.evidence.history import History, Operation
from checkers.evidence.replace import replace
from checkers.verdict import Anomaly, Verdict
from reports.drawing import words
from reports.drawing.page import Banner, Block, FileText, Page, Pairs, Section, Table, TableColumn, TableRow, Text
from reports.run import picture

FILE = "report"
MOST_CARDS = 20
"""Anomalies that have a section; the JSON has all."""
HEADLINES = {True: ("valid", "Valid"), False: ("invalid", "Anomalies found"), "unknown": ("unknown", "Unknown")}


def of(name: str, verdict: Verdict, history: History | None) -> Page:
    """The page of a history.

    Args:
        name: what the history is called: its file.
        verdict: as :func:`checkers.clients.models.judge` returns it.
        history: None: it is too long to be drawn.
    """
    stats = verdict.stats_as(ClientStats)
    status, headline = HEADLINES[verdict.valid]
    found = words.tally(stats.get("found") or {}) or "no contradiction"
    summary = f"{words.plural(stats['operations'], 'operation')}, model {stats['model']}, {stats['level']}: {found}."
    operations = () if history is None else tuple(history.operations())
    timed = history is not None and not history.header.get(CONCURRENT)
    sections = [_card(n, a, operations, timed) for n, a in enumerate(verdict.anomalies[:MOST_CARDS], 1)]
    if not sections and timed and operations:
        sections = [Section("The beginning", "beginning", _picture(operations[: picture.MOST_BARS]))]
    facts = [
        ("model", f"{stats['model']}{' (guessed)' if stats.get('guessed') else ''}"),
        ("level", str(stats["level"])),
    ]
    facts += [("weakest violated", ", ".join(stats.get("weakest_violated") or ()))]
    facts += [("strongest standing", ", ".join(stats.get("strongest_standing") or ()))]
    about: list[Block] = [Pairs([(key, value) for key, value in facts if value])]
    about += [Text(verdict.notes, "list")] if verdict.notes else []
    sections.append(Section("How it was judged", "judged", about))
    return Page(FILE, name, Banner(status, headline, summary), sections, data=verdict.to_json())


def _card(n: int, a: Anomaly, operations: Sequence[Operation], timed: bool) -> Section:
    """An anomaly: why it is a contradiction, its operations among those that ran beside them, and what they asked and got."""
    involved = [o for o in operations if o.op in a.ops]
    blocks: list[Block] = [FileText(a.explanation)]
    if involved and timed:
        blocks += _picture(_beside(involved, operations))
    if involved:
        columns = [TableColumn(c) for c in ("operation", "process", "function", "asked", "answered", "outcome")]
        rows = [(o.op, str(o.process), o.f, words.arguments(o.value), words.result(o.result), o.type) for o in involved]
        blocks.append(Table(columns, [TableRow(row) for row in rows], form="wide"))
    return Section(a.name, f"anomaly-{n}", blocks)


def _beside(involved: Sequence[Operation], operations: Sequence[Operation]) -> list[Operation]:
    """The operations of an anomaly and, as far as there is room, those that ran at the same time."""
    begin, end = min(o.start for o in involved), max(o.start if o.end is None else o.end for o in involved)
    others = (o for o in operations if o not in involved and o.start <= end and (o.end is None or o.end >= begin))
    return [*involved, *(o for o, _ in zip(others, range(picture.MOST_BARS - len(involved)), strict=False))]


def _picture(operations: Sequence[Operation]) -> list[Block]:
    rows = tuple(sorted(_labelled(operations), key=lambda o: o.start))
    return picture.blocks(picture.Interleaving(rows, (), (), (), ()), "operations in real time") if rows else []


def _labelled(operations: Sequence[Operation]) -> Iterator[Operation]:
    """The operations with what they asked and got behind their function."""
    for o in operations:
        asked, got = words.arguments(o.value, 30), words.result(o.result, 30)
        label = " ".join(part for part in (o.f, asked, f"→ {got}" if got and got != asked else "") if part)
        yield replace(o, f=label)
