"""What a shrink leaves: its page, its JSON, and its lines on the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from checkers.evidence.runfolder import replace_file
from reports.drawing import words
from reports.drawing.templates import TEMPLATES, environment

PAGE, JSON = "shrink.html", "shrink.json"


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
        said = [words.plural(self.operations, "operation"), words.plural(self.writers, "writer")]
        said += [words.plural(self.tables, "table"), words.plural(self.rows, "row")]
        return ", ".join(said + ([words.plural(self.faults, "fault")] if self.faults else []))


@dataclass(frozen=True, slots=True)
class Left:
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
class Step:
    """A smaller candidate that showed the anomaly; ``run``: the number of the run that showed it."""

    run: int
    what: str
    folder: str | None


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
        waits: the waits of the scenario, before and after those that are not needed were taken away.
        not_said: what the scenario does not say of the recording, or why there is none.
        best: the run whose page shows the anomaly.
        rate: how often it shows when the operations are repeated, as ``2 of 900 repetitions``; None: it is not rare.
        command: what a person types to see it again; ``goes_on``: to shrink on.
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
    operations: tuple[Left, ...]
    steps: tuple[Step, ...]
    minimal: bool | None
    runs: int
    seconds: float
    replayed: str | None
    scenario: str | None
    reproduced: str | None
    waits: tuple[int, int] | None
    not_said: tuple[str, ...]
    recording: str | None
    best: str | None
    command: str
    goes_on: str
    text: str = field(default="", repr=False)
    """The text of the scenario file."""
    rate: str | None = None

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
        again = (
            "" if s.reproduced is None else f" The scenario file repeats them; it was reproduced {s.reproduced} times."
        )
        return f"It shows rarely: in {s.rate} of these operations.{again}"
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


def to_json(s: Shrunk) -> str:
    """All of it as JSON."""
    return json.dumps(asdict(s), indent=1, ensure_ascii=False, default=str) + "\n"


def lines(s: Shrunk, folder: Path) -> list[str]:
    """The last lines on the terminal."""
    out = ["", headline(s), f"  {often(s)}"]
    if s.after is not None:
        out += [f"  {ends(s)}", f"  before      {s.before}", f"  left        {s.after}"]
        out += [f"              {o.name}: writer {o.writer}: {o.kind}{_arguments(o)}{_waits(o)}" for o in s.operations]
        out.append(f"  why         {words.shorten(s.explanation, 900)}")
    out += [f"  not said    {text}" for text in s.not_said]
    out.append(f"  runs        {s.runs}, {words.duration(s.seconds * 1000)}")
    if s.scenario is not None:
        out.append(f"  scenario    {folder / s.scenario}")
    if s.recording is not None:
        out.append(f"  recording   {folder / s.recording}")
    out.append(f"  page        {folder / PAGE}")
    out.append(f"  again       {s.command if s.after is not None else s.goes_on}")
    return out


def _arguments(o: Left) -> str:
    return f" {words.arguments(dict(o.arguments))}" if o.arguments else ""


def _waits(o: Left) -> str:
    return f"; {o.waits}" if o.waits else ""


def render(s: Shrunk) -> str:
    """The page as HTML."""
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    page = environment(arguments=words.arguments).get_template("shrink.html")
    return words.printable(page.render(s=s, style=Markup(style), headline=headline(s), often=often(s), ends=ends(s)))


def write(s: Shrunk, folder: Path, more: Sequence[Path] = ()) -> Path:
    """Write page and JSON into the folder, and the JSON to ``more`` files, too. Returns the path of the page.

    Raises:
        OSError: one cannot be written.
    """
    for path in (folder / JSON, *more):
        replace_file(path, to_json(s))
    replace_file(folder / PAGE, render(s))
    return folder / PAGE
