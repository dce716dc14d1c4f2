"""The page of the engine matrix: engine × operation beside engine × operation, measured and predicted, with the code and the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from checkers.conflicts import predicted as conflicts
from checkers.conflicts.measured import MeasuredCells, MeasuredResult
from checkers.conflicts.predicted import ENGINE_KINDS, ENGINE_PLACEMENTS, MatrixCell
from reports.drawing import words
from reports.drawing.page import (
    Block,
    Page,
    Section,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Text,
    joined,
    link,
    muted,
    tag,
)
from reports.matrix import states
from reports.matrix.states import STATES, end_text, link_of, not_held, predicted, run_of, state
from workloads.engines.engines import ENGINES

LETTERS = {
    "committed": "C",
    "retried": "R",
    "aborted": "A",
    "allowed": "R",
    "anomaly": "!",
    "unknown": "?",
    "unmeasured": "",
}
"""State → what stands in its square."""
Operation = tuple[str, str]
"""Engine and kind."""


def title(operation: Operation) -> str:
    """``DuckDB insert``."""
    engine, kind = operation
    return f"{ENGINES[engine].title if engine in ENGINES else engine} {kind}"


def code(source: str) -> tuple[str, str]:
    """The address of a source and how it is shown; no address if it is only named."""
    url = source.partition(" ")[0]
    if not url.startswith("https://"):
        return "", source
    return url, source.rpartition("/")[
        2
    ] if " " not in source else f"{url.rpartition('/')[2]} {source.partition(' ')[2]}"


def _square(cell: MatrixCell, m: MeasuredResult | None) -> Markup:
    """A drawn cell, which links to its run."""
    if m is None:
        return tag("i", "", "sq as-unmeasured", title=f"{cell.placement}: not measured")
    first, second = title((cell.first_engine, cell.first)), title((cell.second_engine, cell.second))
    text = f"{cell.isolation}, {cell.placement}: {first} {end_text(m.first)}"
    if m.second.outcome != "committed":
        text += f"; {second} {end_text(m.second)}"
    for name, found in (("anomaly", m.anomalies), ("allowed", m.allowed)):
        if found:
            text += f"; {name}: {', '.join(found)}"
    prediction = conflicts.predict(cell)
    text += f"; predicted: {predicted(cell)}" + (f" by {prediction.source}" if prediction.source else "")
    mark = f"sq as-{state(m)}" + ("" if m.as_predicted else " differs")
    href = run_of(m)
    return tag("i" if href is None else "a", LETTERS[state(m)], mark, href=href, title=text)


def operations(measured: Sequence[MeasuredResult]) -> list[Operation]:
    """The operations of a matrix, in its order."""
    found = {
        op for m in measured for op in ((m.cell.first_engine, m.cell.first), (m.cell.second_engine, m.cell.second))
    }
    engines, kinds = list(ENGINES), list(ENGINE_KINDS)
    return sorted(found, key=lambda o: (engines.index(o[0]) if o[0] in engines else len(engines), kinds.index(o[1])))


def _grids(measured: Sequence[MeasuredResult], ops: Sequence[Operation]) -> list[Section]:
    """A grid for each isolation level: a row for each first operation that it concerns."""
    by_cell = {m.cell: m for m in measured}
    every: dict[tuple[str, Operation, Operation], list[MatrixCell]] = {}
    for c in conflicts.engine_cells(tuple(dict.fromkeys(engine for engine, _ in ops))):
        pair = ((c.first_engine, c.first), (c.second_engine, c.second))
        every.setdefault((c.isolation, *pair), []).append(c)
    columns = [TableColumn("first ↓ · second →"), *(TableColumn(title(o)) for o in ops)]
    out: list[Section] = []
    for level in dict.fromkeys(level for level, _, _ in every):
        rows: list[TableRow] = []
        last = ""
        for x in (x for x in ops if any((level, x, y) in every for y in ops)):
            cells = [
                TableCell(
                    joined(_square(c, by_cell.get(c)) for c in every.get((level, x, y), ())),
                    mark="left" if n and ops[n - 1][0] != y[0] else "",
                )
                for n, y in enumerate(ops)
            ]
            rows.append(TableRow([title(x), *cells], mark="new" if last not in ("", x[0]) else ""))
            last = x[0]
        if rows:
            lead: Block = states.legend(measured, LETTERS)
            if out:
                lead = Text(["Only first operations whose validations differ from those above."], "muted")
            name = f"Tables whose isolation level is {level}"
            out.append(Section(name, f"level-{level}", [lead, Table(columns, rows, form="squares")], f"Level {level}"))
    return out


def _validations(ops: Sequence[Operation]) -> list[Section]:
    """What each engine's file says of its commits: how an operation writes, what it validates, source."""
    rows = []
    for engine, kind in ops:
        commit = ENGINES[engine].commits.get(kind) if engine in ENGINES else None
        if commit is not None:
            rules = ", ".join(commit.validates) or "nothing"
            without_retry = "" if commit.retries else "; it does not try again"
            url, label = code(commit.source)
            rows.append(
                TableRow([title((engine, kind)), commit.writes, rules + without_retry, link(label, url or None)])
            )
    if not rows:
        return []
    why = (
        "The predictions follow from this; those of Spark follow from its table's properties and Iceberg's validations."
    )
    table = Table([*map(TableColumn, ("operation", "writes", "validates", "code"))], rows)
    return [Section("What engines validate", "validations", [Text([why], "muted"), table], "Validations")]


def tallies(measured: Sequence[MeasuredResult]) -> list[tuple[str, Counter[str]]]:
    """Engine of the first operation → how often each state came out."""
    out: dict[str, Counter[str]] = {}
    for m in measured:
        out.setdefault(m.cell.first_engine, Counter())[state(m)] += 1
    return sorted(out.items(), key=lambda item: list(ENGINES).index(item[0]) if item[0] in ENGINES else len(ENGINES))


def of(header: Mapping[str, Any], found: MeasuredCells, more: Sequence[Section]) -> Page:
    """The page of an engine matrix; ``more``: sections before the cells."""
    measured = found.measured
    ops = operations(measured)
    return Page(
        states.FILE,
        "engine matrix",
        states.banner(measured, "the engines'"),
        [
            *_grids(measured, ops),
            *states.could_not(found),
            Section("Engines", "engines", [_by_engine(measured)]),
            *_validations(ops),
            *more,
            *(_cells(title, anchor, chosen) for title, anchor, chosen in _lists(measured)),
        ],
        facts=states.facts(header),
        lead="The first operation (row) has read the table and written its files; then the second (column) commits; then the first one tries "
        "to commit. The square shows the outcome of the first. A cell has a square for each place of the second one's key beside the first "
        f"one's: {', '.join(ENGINE_PLACEMENTS)} (left to right). A frame marks what is not as the engine's code says. Point at a square for "
        "the error, the prediction and the code; click it for the run.",
    )


def _by_engine(measured: Sequence[MeasuredResult]) -> Table:
    """How often each state came out, by the engine of the first operation."""
    tally = Counter(map(state, measured))
    shown_states = [s for s in STATES if tally[s]]
    rows = [
        TableRow([ENGINES[e].title if e in ENGINES else e, *(words.grouped(n[s]) for s in shown_states)])
        for e, n in tallies(measured)
    ]
    return Table([TableColumn("the first operation is of"), *(TableColumn(s, right=True) for s in shown_states)], rows)


def _lists(measured: Sequence[MeasuredResult]) -> list[tuple[str, str, list[MeasuredResult]]]:
    return [
        ("Anomalies", "anomalies", [m for m in measured if m.anomalies]),
        ("Not as the code says", "differing", [m for m in measured if not m.as_predicted]),
        ("All cells", "cells", list(measured)),
    ]


def _cells(title_of: str, anchor: str, chosen: Sequence[MeasuredResult]) -> Section:
    """A row for each cell; a terminal has those that are not as the code says."""
    unlike = anchor == "differing"
    heads = ("first", "second", "level", "place", "the first", "anomaly", "predicted", "code", "run")
    named = {"first", "second", "place", "the first", "predicted"} if unlike else set()
    columns = [TableColumn(name, most=400, terminal=name if name in named else None) for name in heads]
    rows = []
    for m in chosen:
        second = [title((m.cell.second_engine, m.cell.second))]
        second += [muted(f"({end_text(m.second)})")] if m.second.outcome != "committed" else []
        seen = [", ".join(m.anomalies)]
        seen += [
            muted(f"{name}: {', '.join(v)}") for name, v in (("allowed", m.allowed), ("undecided", m.undecided)) if v
        ]
        url, label = code(conflicts.predict(m.cell).source)
        rows.append(
            TableRow(
                [
                    *(title((m.cell.first_engine, m.cell.first)), joined(second, " ")),
                    *(m.cell.isolation, m.cell.placement, joined((end_text(m.first), *not_held(m)), " ")),
                    *(joined(seen, " "), predicted(m.cell), link(label, url or None), link_of(m)),
                ]
            )
        )
    return Section(title_of, anchor, [Table(columns, rows)], terminal="" if unlike else None)
