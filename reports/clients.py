"""What ``icequake check FILE`` shows in a browser: the verdict on a history of any system, and each contradiction as a picture and a table."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from checkers.clients.jepsen import CLOCK, CONCURRENT, TRANSACTIONS
from checkers.clients.stats import ClientStats
from checkers.costs.figures import ms
from checkers.evidence.history import History, Operation
from checkers.evidence.replace import replace
from checkers.names import in_history
from checkers.timeline import explain
from checkers.verdict import Anomaly, Verdict
from reports.drawing import words
from reports.drawing.page import Banner, Block, FileText, Page, Pairs, Section, Table, TableColumn, TableRow, Text
from reports.run import picture

FILE = "report"
_READS = ("read", "r")
MOST_CARDS = 20
"""Anomalies that have a section; the JSON has all."""
NOT_RECORDED = "No arrows: a history does not record which version an operation read, only what it got."
IN_WORDS = "No arrows are drawn: the explanation above says which operation comes before which, and why."
HEADLINES = {True: ("valid", "Valid"), False: ("invalid", "Anomalies found"), "unknown": ("unknown", "Unknown")}


def of(
    name: str, verdict: Verdict, history: History | None, path: Path | None = None, places: Sequence[int] = ()
) -> Page:
    """The page of a history.

    Args:
        name: what the history is called.
        verdict: as :func:`checkers.clients.models.judge` returns it.
        history: None: it is too long to be drawn.
        path: its file, if it has one.
        places: the line of that file, from 1, on which each event is.
    """
    stats = verdict.stats_as(ClientStats)
    status, headline = HEADLINES[verdict.valid]
    found = words.tally(stats.get("found") or {}) or "no contradiction"
    operations = () if history is None else tuple(history.operations())
    judged, recorded = stats["operations"], stats.get("recorded", stats["operations"])
    rest = f" of {recorded} (the others failed, or are reads without an answer)" if recorded > judged else ""
    summary = f"{words.plural(judged, 'operation')}{rest}, model {stats['model']}, {stats['level']}: {found}."
    timed = history is not None and not history.header.get(CONCURRENT)
    clock: int | None = None
    if operations and history is not None and history.header.get(CLOCK):
        # Whole seconds: a float has not the digits for ns since 1970.
        clock = min(o.start for o in operations) // 1_000_000_000 * 1_000_000_000
        operations = tuple(_since(o, clock) for o in operations)
    cards = _together(verdict.anomalies)
    sections = [_card(n, own, operations, timed, clock, places) for n, own in enumerate(cards[:MOST_CARDS], 1)]
    if not sections and timed and operations:
        sections = [Section("The beginning", "beginning", _picture(operations[: picture.MOST_BARS], clock))]
    model, level = str(stats["model"]), str(stats["level"])
    file = "" if path is None else str(path.resolve())
    pairs = [] if (keyed := stats.get("keyed")) is None else ["--keyed" if keyed else "--plain"]
    facts = [
        ("file", file),
        (
            "command",
            shlex.join(["icequake", "check", file, "--model", model, "--level", level, *pairs]) if file else "",
        ),
        ("model", f"{model}{' (guessed)' if stats.get('guessed') else ''}"),
        ("level", level),
        ("weakest violated", ", ".join(stats.get("weakest_violated") or ())),
        ("strongest kept", ", ".join(stats.get("strongest_standing") or ())),
        (
            "operations",
            "" if places == () or not timed else "1-0 is the first operation of process 1, 1-1 its second one",
        ),
        ("lines", "of the file, from 1; of a packed file, as it is when unpacked" if places else ""),
        (
            "times",
            "" if clock is None else f"UTC; the first is of {datetime.fromtimestamp(clock // 10**9, UTC):%Y-%m-%d}",
        ),
    ]
    about: list[Block] = [Pairs([(key, value) for key, value in facts if value])]
    about += [Text(verdict.notes, "list")] if verdict.notes else []
    sections.append(Section("How it was judged", "judged", about))
    return Page(FILE, name, Banner(status, headline, summary), sections, data=verdict.to_json())


def _together(anomalies: Iterable[Anomaly]) -> list[list[Anomaly]]:
    """The anomalies by their operations: one event that has several names is one card."""
    cards: dict[frozenset[str] | int, list[Anomaly]] = {}
    for n, a in enumerate(anomalies):
        cards.setdefault(frozenset(a.ops) or n, []).append(a)
    return list(cards.values())


def _card(
    n: int,
    own: Sequence[Anomaly],
    operations: Sequence[Operation],
    timed: bool,
    clock: int | None,
    places: Sequence[int],
) -> Section:
    """What some operations contradict: in plain words, why, the operations among those that ran beside them, what they asked and got."""
    involved = [o for o in operations if o.op in own[0].ops]
    names = list(dict.fromkeys(a.name for a in own))
    told = {name: said for name in names if (said := in_history(name)) is not None}
    step = next((remedy for _, remedy in told.values()), "")
    blocks: list[Block] = [Text([f"{sentence} (icequake explain {name})" for name, (sentence, _) in told.items()])]
    blocks += [*(FileText(a.explanation) for a in own), *([Text([f"What to do: {step}"])] if step else [])]
    if involved and timed:
        blocks += [
            *_picture(_beside(involved, operations), clock),
            Text([IN_WORDS if "cycle" in own[0].evidence else NOT_RECORDED]),
        ]
    if involved:
        blocks.append(_table(involved, timed, clock, places))
    return Section(", ".join(names), f"anomaly-{n}", blocks)


def _since(o: Operation, moment: int) -> Operation:
    """The operation with its times counted from that moment."""
    done = o.completed
    return replace(
        o,
        invoked=replace(o.invoked, time=o.invoked.time - moment),
        completed=None if done is None else replace(done, time=done.time - moment),
    )


def _table(involved: Sequence[Operation], timed: bool, clock: int | None, places: Sequence[int]) -> Table:
    times = ("began", "ended") if timed else ()
    columns = [
        TableColumn(c)
        for c in (
            "operation",
            "process",
            "lines" if places else "events",
            *times,
            "function",
            "asked",
            "answered",
            "outcome",
        )
    ]
    ends = [o.completed.time for o in involved if o.completed is not None]
    span = ms(max([*ends, *(o.start for o in involved)]) - min(o.start for o in involved))
    rows = []
    for o in involved:
        began, ended = (
            "" if ns is None else words.moment(ms(ns), span) if clock is None else words.time_of_day(clock + ns)
            for ns in (o.start, None if o.completed is None else o.completed.time)
        )
        when = (began, ended) if timed else ()
        events = ", ".join(str(places[i] if places else i) for i in o.indices)
        rows.append(TableRow((o.op, str(o.process), events, *when, o.f, _asked(o), _answer(o), o.type)))
    return Table(columns, rows, form="wide")


def _asked(o: Operation, most: int = 160) -> str:
    return _value(o, o.value, most) if o.value is not None else ""


def _answer(o: Operation, most: int = 160) -> str:
    """What a read got, nil too; a write that got nothing is just ok."""
    return _value(o, o.result, most) if o.type == "ok" and (o.result is not None or o.f in _READS) else ""


def _value(o: Operation, v: Any, most: int) -> str:
    """As the history has it: ``['x', [0, 1]]``; a transaction as ``r 'x' []; append 'x' 1``; arguments and rows of tables in words."""
    if o.table is not None:
        return words.result(v, most)
    steps = v if o.f in TRANSACTIONS and isinstance(v, list) and all(isinstance(m, list) and m for m in v) else None
    if steps is None:
        return words.shorten(explain.value(v), most)
    return words.shorten("; ".join(" ".join([str(m[0]), *map(explain.value, m[1:])]) for m in steps), most)


def _beside(involved: Sequence[Operation], operations: Sequence[Operation]) -> list[Operation]:
    """The operations of an anomaly and, as far as there is room, those that ran at the same time."""
    begin, end = min(o.start for o in involved), max(o.start if o.end is None else o.end for o in involved)
    others = (o for o in operations if o not in involved and o.start <= end and (o.end is None or o.end >= begin))
    return [*involved, *(o for o, _ in zip(others, range(picture.MOST_BARS - len(involved)), strict=False))]


def _picture(operations: Sequence[Operation], clock: int | None) -> list[Block]:
    rows = tuple(sorted(_labelled(operations), key=lambda o: o.start))
    return (
        picture.blocks(picture.Interleaving(rows, (), (), (), (), clock=clock), "operations in real time")
        if rows
        else []
    )


def _labelled(operations: Sequence[Operation]) -> Iterator[Operation]:
    """The operations with what they asked and got behind their function."""
    for o in operations:
        asked, got = _asked(o, 30), _answer(o, 30)
        label = " ".join(part for part in (o.f, asked, f"→ {got}" if got and got != asked else "") if part)
        yield replace(o, f=label)
