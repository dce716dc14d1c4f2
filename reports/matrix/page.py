"""The page of the conflict matrix: a grid for each make of table, and the differences from what Iceberg's code predicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkers.conflicts import predicted as conflicts
from checkers.conflicts.measured import Ended, Measured, read
from checkers.conflicts.predicted import KINDS, ON_REQUEST, PLACEMENTS, Cell
from checkers.evidence.runfolder import replace_file
from reports.drawing import words
from reports.drawing.templates import environment
from workloads.engines.engines import SPARK

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


def state(m: Measured | None) -> str:
    """The state that determines a cell's colour."""
    if m is None:
        return "unmeasured"
    if m.anomalies:
        return "anomaly"
    if m.allowed and m.first.outcome in ("committed", "retried"):
        return "allowed"
    return m.first.outcome


def told(e: Ended) -> str:
    """How an operation ended, in a few words."""
    attempts = f" at attempt {e.attempts}" if e.outcome == "retried" else ""
    return f"{e.outcome}{attempts}" + (f": {e.error}: {e.message}" if e.error else "")


@dataclass(frozen=True, slots=True)
class Square:
    """One drawn cell."""

    state: str
    title: str
    differs: bool


def _square(cell: Cell, m: Measured | None) -> Square:
    if m is None:
        return Square("unmeasured", f"{cell.placement}: not measured", False)
    title = f"{cell.placement}: {cell.first} {told(m.first)}"
    if m.second.outcome != "committed":
        title += f"; {cell.second} {told(m.second)}"
    for name, found in (("anomaly", m.anomalies), ("allowed", m.allowed)):
        if found:
            title += f"; {name}: {', '.join(found)}"
    if not m.as_predicted:
        title += f"; the code says {predicted(cell)}"
    return Square(state(m), title, not m.as_predicted)


def predicted(cell: Cell) -> str:
    """The code's prediction, in a few words."""
    said = conflicts.predict(cell)
    outcome = {"open": "not predicted"}.get(said.outcome, said.outcome)
    return outcome + (f" ({'; or '.join(said.reasons)} …)" if said.reasons else "")


def _grids(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    by_cell = {m.cell: m for m in measured}
    kinds = [k for k in (*KINDS, *ON_REQUEST) if any(k in (m.cell.first, m.cell.second) for m in measured)]
    asks = next((m.cell.compares for m in measured if m.cell.compares != "requirements"), "requirements")
    every = list(conflicts.cells(tuple(kinds), asks))
    makes = dict.fromkeys((c.mode, c.format_version, c.isolation) for c in every)
    out = []
    for mode, version, isolation in makes:
        rows = []
        for first in kinds:
            row = []
            for second in kinds:
                cells = [
                    c
                    for c in every
                    if (c.first, c.second, c.mode, c.format_version, c.isolation)
                    == (first, second, mode, version, isolation)
                ]
                row.append([_square(c, by_cell.get(c)) for c in cells])
            rows.append((first, row))
        out.append({"name": f"v{version}, {mode}, {isolation}", "kinds": kinds, "rows": rows})
    return out


def _aborts(measured: Iterable[Measured]) -> list[tuple[str, str, int]]:
    found = Counter((m.first.error or "", m.first.message or "") for m in measured if m.first.outcome == "aborted")
    return [(error, message, n) for (error, message), n in found.most_common(40)]


def render(folder: Path) -> str:
    """The page of the matrix in ``folder``. Raises :class:`checkers.conflicts.measured.MatrixError`."""
    header, measured = read(folder / "cells.jsonl")
    if "of" in header:
        from reports.matrix import engines  # it uses this file's words

        return engines.render(header, measured)
    differing = [m for m in measured if not m.as_predicted]
    anomalous = [m for m in measured if m.anomalies]
    return words.printable(
        environment()
        .get_template("matrix.html")
        .render(
            header=header,
            count=len(measured),
            states=STATES,
            tally=Counter(state(m) for m in measured),
            placements=list(PLACEMENTS),
            grids=_grids(measured),
            differing=[(m, told(m.first), predicted(m.cell)) for m in differing[:400]],
            differing_count=len(differing),
            anomalous=[(m, told(m.first), ", ".join(m.anomalies)) for m in anomalous[:400]],
            aborts=_aborts(measured),
        )
    )


def write(folder: Path) -> Path:
    """Write the page to ``matrix.html`` in the folder and return its path."""
    path = folder / "matrix.html"
    replace_file(path, render(folder))
    return path


def lines(measured: Sequence[Measured], found: Sequence[tuple[Cell, Any, Any]], compared: int | None) -> list[str]:
    """The last lines on the terminal."""
    tally = Counter(state(m) for m in measured)
    out = [
        "",
        f"{words.plural(len(measured), 'cell')}: {', '.join(f'{words.grouped(tally[s])} {s}' for s in STATES if tally[s])}",
    ]
    names = Counter(name for m in measured for name in m.anomalies)
    if names:
        out.append(f"anomalies: {', '.join(f'{n} ×{words.grouped(k)}' for n, k in names.most_common())}")
    unlike = [m for m in measured if not m.as_predicted]
    whose = (
        "Iceberg's" if all(SPARK == m.cell.first_engine == m.cell.second_engine for m in measured) else "the engines'"
    )
    out.append(f"{words.plural(len(unlike), 'cell')} not as {whose} code says")
    out += [f"  {m.cell.name}: {told(m.first)[:150]}; the code says {predicted(m.cell)[:100]}" for m in unlike[:12]]
    if compared is not None:
        out.append(f"compared with {words.plural(compared, 'cell')} of another matrix: {len(found)} differ")
        out += [
            f"  {cell.name}: {one['first']['outcome']}, there {other['first']['outcome']}"
            for cell, one, other in found[:12]
        ]
    return out
