"""What both matrices show of a cell: its state with its colour, how operations ended, what the code predicts, what could not be measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkers.conflicts import predicted as conflicts
from checkers.conflicts.measured import MeasuredCells, MeasuredResult, OperationEnd
from checkers.conflicts.predicted import MatrixCell
from reports.drawing import words
from reports.drawing.page import (
    Banner,
    Block,
    Legend,
    Section,
    Table,
    TableColumn,
    TableRow,
    Text,
    joined,
    link,
    muted,
    tag,
)

FILE = "matrix"
STATES = {
    "committed": "committed at the first attempt",
    "retried": "committed at a later attempt",
    "aborted": "aborted",
    "allowed": "committed, with an anomaly that the table's level allows",
    "anomaly": "committed, with an anomaly",
    "unknown": "outcome unknown",
    "unmeasured": "not measured",
}
"""State of a cell → its meaning, in the order of the legend."""


def state(m: MeasuredResult | None) -> str:
    """The state that determines a cell's colour."""
    if m is None:
        return "unmeasured"
    if m.anomalies:
        return "anomaly"
    if m.allowed and m.first.outcome in ("committed", "retried"):
        return "allowed"
    return m.first.outcome


def end_text(e: OperationEnd) -> str:
    """How an operation ended, in a few words."""
    attempts = f" at attempt {e.attempts}" if e.outcome == "retried" else ""
    return f"{e.outcome}{attempts}" + (f": {e.error}: {e.message}" if e.error else "")


def predicted(cell: MatrixCell) -> str:
    """The code's prediction, in a few words."""
    prediction = conflicts.predict(cell)
    outcome = {"open": "not predicted"}.get(prediction.outcome, prediction.outcome)
    return outcome + (f" ({'; or '.join(prediction.reasons)} …)" if prediction.reasons else "")


def run_of(m: MeasuredResult) -> str | None:
    """The address of its run's page, relative to the matrix's; None if no run was kept."""
    return None if m.run is None else f"{m.run}/report.html"


def link_of(m: MeasuredResult) -> str:
    """A link to its run, if one was kept."""
    return "" if m.run is None else link("run", run_of(m))


def not_held(m: MeasuredResult) -> list[str]:
    """A word for a first operation that went on before the second one committed."""
    return [] if m.held else [muted("(not held)")]


def banner(measured: Sequence[MeasuredResult], subject: str) -> Banner:
    """How many cells are in which state, the anomalies, and what is not as the code says. ``subject``: ``Iceberg's``."""
    tally = Counter(map(state, measured))
    states = ", ".join(f"{words.grouped(tally[s])} {s}" for s in STATES if tally[s])
    names = Counter(name for m in measured for name in m.anomalies)
    unlike = words.plural(sum(not m.as_predicted for m in measured), "cell")
    found = f"Anomalies: {words.tally(dict(names.most_common()))}. " if names else ""
    headline = words.plural(len(measured), "cell") + (f": {states}" if states else "")
    return Banner("measured", headline, f"{found}{unlike} not as {subject} code says.")


def facts(header: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The catalog and the versions."""
    return [("Catalog", str(header.get("catalog"))), *((k, str(v)) for k, v in header.get("versions", {}).items())]


def legend(measured: Sequence[MeasuredResult], letters: Mapping[str, str]) -> Legend:
    """The states with their colours and numbers; ``letters``: what stands in a square."""
    tally = Counter(map(state, measured))
    keys = [(tag("i", letters.get(s, ""), f"sq as-{s}"), f"{text} {tally[s]}") for s, text in STATES.items()]
    return Legend(
        [*keys, (tag("i", "", "sq differs"), f"not as the code says {sum(not m.as_predicted for m in measured)}")]
    )


def could_not(cells: MeasuredCells) -> list[Section]:
    """Why cells could not be measured, and their names; nothing if all could."""
    by_reason: dict[str, list[str]] = {}
    for cell, why in cells.could_not.items():
        by_reason.setdefault(why, []).append(cell.name)
    if not by_reason:
        return []
    sentences = [f"{words.plural(len(names), 'cell')} could not be measured: {why}" for why, names in by_reason.items()]
    rows = [TableRow([why, ", ".join(names)]) for why, names in by_reason.items()]
    table = Table([TableColumn("why", most=2000), TableColumn("cells", most=1 << 20)], rows)
    blocks: list[Block] = [Text(["The same command tries these cells again."], "muted"), Text(sentences, "list"), table]
    return [Section("Could not be measured", "could-not", blocks, terminal="Could not be measured:")]


def against(found: Sequence[tuple[MatrixCell, Any, Any]], compared: int | None) -> list[Section]:
    """What differs from another matrix; nothing if there is none. ``compared``: its cells that are in both."""
    if compared is None:
        return []
    sentences = [f"compared with {words.plural(compared, 'cell')} of another matrix: {len(found)} differ"]
    sentences += [
        f"{cell.name}: {here['first']['outcome']}, there {elsewhere['first']['outcome']}"
        for cell, here, elsewhere in found
    ]
    return [Section("Beside another matrix", "against", [Text(sentences, "list")], terminal="Beside another matrix:")]


def links(sources: Iterable[tuple[str, str | None]]) -> str:
    """Sources of the code, each with its address."""
    return joined((link(label, url) for label, url in sources), ", ")
