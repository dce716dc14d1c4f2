"""The page of the conflict matrix: what makes a difference, the rules of each pair, and what is not as Iceberg's code predicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkers.conflicts import folded
from checkers.conflicts import predicted as conflicts
from checkers.conflicts.folded import Rule
from checkers.conflicts.measured import Cells, Ended, Measured, read
from checkers.conflicts.predicted import COLUMNS, KINDS, ON_REQUEST, Cell
from checkers.evidence.runfolder import replace_file
from reports.drawing import words
from reports.drawing.templates import environment
from reports.matrix import rules
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
PAGE = "report.html"
"""The page of a run, in its folder."""


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


def predicted(cell: Cell) -> str:
    """The code's prediction, in a few words."""
    said = conflicts.predict(cell)
    outcome = {"open": "not predicted"}.get(said.outcome, said.outcome)
    return outcome + (f" ({'; or '.join(said.reasons)} …)" if said.reasons else "")


@dataclass(frozen=True, slots=True)
class PairShown:
    """A pair of kinds on the page.

    Attributes:
        anchor: id of its part of the page.
        shares: colour and percentage of the cells of each result, for its square.
        letters: beginnings of the results, in the square.
    """

    first: str
    second: str
    anchor: str
    rules: list[Rule]
    cells: list[Measured]
    shares: list[tuple[str, float]]
    letters: str
    title: str
    differs: bool


LETTERS = {"retried": "C", "aborted": "A", "allowed": "C", "anomaly": "!", "unknown": "?"}


def _pair(first: str, second: str, cells: list[Measured]) -> PairShown:
    found = folded.fold(cells)
    tally = Counter(rules.colour(folded.result(m)) for m in cells)
    shares = [(colour, 100 * tally[colour] / len(cells)) for colour in LETTERS if tally[colour]]
    return PairShown(
        first,
        second,
        f"{first}-after-{second}",
        found,
        cells,
        shares,
        "".join(dict.fromkeys(LETTERS[colour] for colour, _ in shares)),
        "; ".join(f"{rules.words(r)}: {rules.ends(r.result)}" for r in found),
        any(not m.as_predicted for m in cells),
    )


def _differing(measured: Sequence[Measured]) -> list[tuple[str, str, list[str], list[Measured]]]:
    """Cells that are not as predicted: measured, predicted, the code, the cells."""
    out: dict[tuple[str, str], list[Measured]] = {}
    for m in measured:
        if not m.as_predicted:
            found = told(m.first) + (f"; the second {told(m.second)}" if m.second.outcome != "committed" else "")
            requests = "" if m.requests is None else f" ({words.plural(m.requests, 'commit request')})"
            out.setdefault((found + requests, predicted(m.cell)), []).append(m)
    return [(found, said, rules.sources(cells), cells) for (found, said), cells in out.items()]


def _aborts(measured: Iterable[Measured]) -> list[tuple[str, str, int]]:
    found = Counter((m.first.error or "", m.first.message or "") for m in measured if m.first.outcome == "aborted")
    return [(error, message, n) for (error, message), n in found.most_common(40)]


def render(folder: Path) -> str:
    """The page of the matrix in ``folder``. Raises :class:`checkers.conflicts.measured.MatrixError`."""
    header, found = read(folder / "cells.jsonl")
    measured = found.measured
    if "of" in header:
        from reports.matrix import engines  # it uses this file's words

        return engines.render(header, measured, could_not(found))
    kinds = [k for k in every_kind(measured) if any(k in (m.cell.first, m.cell.second) for m in measured)]
    pairs = {pair: _pair(*pair, cells) for pair, cells in folded.by_pair(measured).items()}
    iceberg = str(header.get("versions", {}).get("iceberg", ""))
    return words.printable(
        environment(
            told=told,
            predicted=predicted,
            words_of=rules.words,
            ends=rules.ends,
            colour=rules.colour,
            sources=rules.sources,
            dimension=rules.dimension,
            address=lambda source: rules.address(source, iceberg),
        )
        .get_template("matrix.html")
        .render(
            header=header,
            count=len(measured),
            states=STATES,
            tally=Counter(state(m) for m in measured),
            kinds=kinds,
            compares=[m.cell.compares for m in measured if {m.cell.first, m.cell.second} & {*COLUMNS}][:1],
            pairs=pairs,
            differences=folded.differences(measured),
            differing=_differing(measured),
            differing_count=sum(not m.as_predicted for m in measured),
            anomalous=[(m, told(m.first), ", ".join(m.anomalies)) for m in measured if m.anomalies],
            aborts=_aborts(measured),
            could_not=could_not(found),
            page=PAGE,
        )
    )


def could_not(cells: Cells) -> list[tuple[str, list[str]]]:
    """Why cells could not be measured → their names."""
    out: dict[str, list[str]] = {}
    for cell, why in cells.could_not.items():
        out.setdefault(why, []).append(cell.name)
    return list(out.items())


def every_kind(measured: Iterable[Measured]) -> list[str]:
    """The kinds of a matrix in its order; those that this version does not know last."""
    return list(dict.fromkeys((*KINDS, *ON_REQUEST, *(k for m in measured for k in (m.cell.first, m.cell.second)))))


def write(folder: Path) -> Path:
    """Write the page to ``matrix.html`` in the folder and return its path."""
    path = folder / "matrix.html"
    replace_file(path, render(folder))
    return path


def lines(cells: Cells, found: Sequence[tuple[Cell, Any, Any]], compared: int | None) -> list[str]:
    """The last lines on the terminal."""
    measured = cells.measured
    tally = Counter(state(m) for m in measured)
    out = [
        "",
        f"{words.plural(len(measured), 'cell')}: {', '.join(f'{words.grouped(tally[s])} {s}' for s in STATES if tally[s])}",
    ]
    names = Counter(name for m in measured for name in m.anomalies)
    if names:
        out.append(f"anomalies: {', '.join(f'{n} ×{words.grouped(k)}' for n, k in names.most_common())}")
    spark = all(SPARK == m.cell.first_engine == m.cell.second_engine for m in measured)
    out += rules.lines(measured) if spark else []
    unlike = [m for m in measured if not m.as_predicted]
    whose = "Iceberg's" if spark else "the engines'"
    out.append(f"{words.plural(len(unlike), 'cell')} not as {whose} code says")
    out += [f"  {m.cell.name}: {told(m.first)[:150]}; the code says {predicted(m.cell)[:100]}" for m in unlike[:12]]
    out += [f"{words.plural(len(names), 'cell')} could not be measured: {why}" for why, names in could_not(cells)]
    if compared is not None:
        out.append(f"compared with {words.plural(compared, 'cell')} of another matrix: {len(found)} differ")
        out += [
            f"  {cell.name}: {one['first']['outcome']}, there {other['first']['outcome']}"
            for cell, one, other in found[:12]
        ]
    return out
