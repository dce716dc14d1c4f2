"""What a shrink leaves: its page, for a browser and a terminal, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from reports.drawing import words
from reports.drawing.page import (
    Banner,
    Block,
    FileText,
    Page,
    Pairs,
    Section,
    Table,
    TableColumn,
    TableRow,
    Text,
    joined,
    link,
    tag,
)

FILE = "shrink"
PAGE = f"{FILE}.html"


@dataclass(frozen=True, slots=True)
class Size:
    """How much a recording is."""

    operations: int
    writers: int
    tables: int
    faults: int
    rows: int
    """Rows that fill the tables, and ids that operations name."""

    def __str__(self) -> str:
        counts = [words.plural(self.operations, "operation"), words.plural(self.writers, "writer")]
        counts += [words.plural(self.tables, "table"), words.plural(self.rows, "row")]
        return ", ".join(counts + ([words.plural(self.faults, "fault")] if self.faults else []))


@dataclass(frozen=True, slots=True)
class RemainingOperation:
    """An operation that is left.

    Attributes:
        name: in the scenario; in the recording ``op``.
        waits: what it waits for and what strikes it, in words.
        outcome: how it ended.
    """

    op: str
    name: str
    writer: int
    kind: str
    table: str
    arguments: Mapping[str, Any]
    waits: str
    outcome: str


@dataclass(frozen=True, slots=True)
class ShrinkStep:
    """A smaller candidate that showed the anomaly; ``run``: the number of the run that showed it."""

    run: int
    what: str
    folder: str | None


@dataclass(frozen=True, slots=True)
class WhatIsLeft:
    """The anomaly in the smallest run: why it is one, and the scenarios of the library that describe it; None: nobody looked."""

    explanation: str
    known: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What came of a shrink. Paths of runs are relative to its folder.

    Attributes:
        run: the run that was shrunk.
        minimal: whether nothing more can be taken away; None if there was nothing to reduce, as no guess showed the anomaly.
        runs: all runs, also those of commands before; ``seconds``: how long they took together.
        replayed: how often the smallest recording showed the anomaly, as ``3 of 3``; None if it was not tried for that.
        scenario: the scenario file; None if there is none.
        reproduced: how often the scenario was reproduced, as ``3 of 3``.
        waits: the waits of the scenario, before and after those that are not needed were taken away; ``waits_needed``: whether it was tried
            without each of those that are left.
        not_said: what the scenario does not say of the recording, or why there is none.
        best: the run whose page shows the anomaly.
        rate: how often it shows when the operations are repeated, as ``2 of 900 repetitions``; None: it is not rare.
        command: what a person types to see it again; ``goes_on``: to shrink on.
        known: the scenarios of the library that describe what is left, by name; None: nobody looked.
    """

    run: str
    workload: str
    catalog: str
    versions: Mapping[str, str]
    anomaly: str
    explanation: str
    documented: str | None
    before: Size
    after: Size | None
    operations: tuple[RemainingOperation, ...]
    steps: tuple[ShrinkStep, ...]
    minimal: bool | None
    runs: int
    seconds: float
    replayed: str | None
    scenario: str | None
    reproduced: str | None
    waits: tuple[int, int] | None
    waits_needed: bool
    not_said: tuple[str, ...]
    recording: str | None
    best: str | None
    command: str
    goes_on: str
    text: str = field(default="", repr=False)
    """The text of the scenario file."""
    rate: str | None = None
    known: tuple[str, ...] | None = None

    @property
    def shown(self) -> bool:
        """Whether something smaller shows the anomaly."""
        return self.after is not None and not (
            self.replayed is not None and self.replayed.startswith("0 ") and self.reproduced is None
        )


def headline(s: Shrunk) -> str:
    """What came of it, one line."""
    if s.after is None:
        return f"{s.anomaly} did not show again"
    return f"{s.anomaly}: from {s.before.operations:,} operations to {s.after.operations:,}"


def often(s: Shrunk) -> str:
    """How often it showed, in a sentence."""
    if s.after is None:
        return "No part of the run showed it again when it was replayed, not all of its operations either."
    if s.rate is not None:
        repeats = (
            "" if s.reproduced is None else f" The scenario file repeats them; it was reproduced {s.reproduced} times."
        )
        return f"It shows rarely: in {s.rate} of these operations.{repeats}"
    if s.reproduced is not None and s.scenario is not None:
        return f"The scenario file was reproduced {s.reproduced} times."
    if s.replayed is not None:
        return f"The recording showed it {s.replayed} times; there is no scenario file."
    return "The recording showed it; it was not tried how often."


def ends(s: Shrunk) -> str:
    """Whether more can be taken away, in a sentence."""
    if s.minimal is None:
        return ""
    if s.minimal:
        return "Without any one of these operations, faults or rows it no longer shows."
    return "The budget ended before it was seen whether more can be taken away."


def known_words(s: Shrunk) -> str:
    """Whether what is left is known, in a sentence; empty if nothing is left, or nobody looked."""
    if s.after is None or s.known is None:
        return ""
    if not s.known:
        return "What is left is new: no scenario of the library describes it."
    return f"What is left is known: the library has it as {' and '.join(s.known)}."


def of(s: Shrunk) -> Page:
    """The page."""
    sections = []
    if s.after is not None:
        sections += [
            Section("What is left", "left", _remaining(s, s.after), terminal=""),
            Section("Why it is an anomaly", "why", [Text(_why(s), most=4000)], terminal=""),
            *([Section("The scenario", "file", [FileText(s.text)])] if s.text else []),
        ]
    if s.not_said:
        remarks = [Text(s.not_said, "list", 1000)]
        sections.append(Section("What is not said", "not-said", remarks, terminal="Not said:"))
    sections.append(Section("The search", "search", _search(s)))
    made_with = [(name.capitalize(), s.versions[name]) for name in ("iceberg", "spark") if s.versions.get(name)]
    return Page(
        FILE,
        f"{s.workload}, shrunk",
        Banner(
            "reproduced" if s.shown else "unknown",
            headline(s),
            " ".join(filter(None, (often(s), ends(s), known_words(s)))),
        ),
        sections,
        asdict(s),
        facts=[("Run", s.run), ("Catalog", s.catalog), *made_with, ("Runs", ran(s))],
        command=("See it again", s.command) if s.after is not None else ("Try on", s.goes_on),
    )


def ran(s: Shrunk) -> str:
    """How many runs it took, and how long: ``12, 3 min``."""
    return f"{words.grouped(s.runs)}, {words.duration(s.seconds * 1000)}"


def _remaining(s: Shrunk, after: Size) -> list[Block]:
    pairs = [("before", str(s.before)), ("left", str(after))]
    if s.waits:
        needed = "are needed" if s.waits_needed else "are left; the time ended before it was tried without each of them"
        pairs.append(("waits", f"{words.grouped(s.waits[1])} of {words.grouped(s.waits[0])} {needed}"))
    columns = [
        TableColumn("operation", terminal="operation", mark="name mono"),
        TableColumn("writer", right=True, terminal="writer"),
        TableColumn("kind", terminal="kind", mark="nowrap"),
        TableColumn("table"),
        TableColumn("arguments", terminal="arguments", mark="mono wrap"),
        TableColumn("what it waits for, and what strikes it", terminal="what it waits for", most=400, mark="wrap"),
        TableColumn("ended"),
        TableColumn("in the run", mark="mono"),
    ]
    rows = [
        TableRow(
            [
                o.name,
                str(o.writer),
                o.kind,
                o.table,
                words.arguments(dict(o.arguments)),
                o.waits or "–",
                o.outcome,
                o.op,
            ]
        )
        for o in s.operations
    ]
    note = "A writer invokes its operations in this order. The tables are filled before the first and read after the last of them."
    best = link("The page of a run that shows it", f"{s.best}/report.html") if s.best else ""
    return [Pairs(pairs), Table(columns, rows), Text([joined((note, best), " ")], "note")]


def _why(s: Shrunk) -> list[str]:
    out: list[str] = [joined((tag("b", s.anomaly), words.shorten(s.explanation, 4000)), ": ")]
    if s.documented:
        out.append(link(f"Iceberg documents it as possible: {words.link_label(s.documented)}", s.documented))
    return out


def _search(s: Shrunk) -> list[Block]:
    columns = [TableColumn("run", right=True), TableColumn("showed it with"), TableColumn("page")]
    rows = [
        TableRow([words.grouped(t.run), t.what, link("run", f"{t.folder}/report.html") if t.folder else "–"])
        for t in s.steps
    ]
    note = f"Each row is a smaller candidate. The runs in between did not show it; all of them are in {FILE}.jsonl."
    return [Table(columns, rows, "Nothing showed it."), Text([note] if rows else [], "note")]
