"""The page of the conflict matrix: what makes a difference, the rules of each pair, and what is not as Iceberg's code predicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from checkers.conflicts import folded
from checkers.conflicts.folded import CellRule
from checkers.conflicts.measured import MeasuredCells, MeasuredResult
from checkers.conflicts.predicted import MATRIX_KINDS, ON_REQUEST, SCHEMA_KINDS, MatrixCell
from reports.drawing import words
from reports.drawing.page import (
    Block,
    Fold,
    Heading,
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
from reports.matrix import engines, rules, states
from reports.matrix.states import end_text, link_of, not_held, predicted

SHOWN_PAIRS, SHOWN_UNLIKE = 12, 12
"""Most pairs of kinds whose rules are printed on the terminal, and cells of a disagreement that it names."""


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
    rules: list[CellRule]
    cells: list[MeasuredResult]
    shares: list[tuple[str, float]]
    letters: str
    title: str
    differs: bool


LETTERS = {"retried": "C", "aborted": "A", "allowed": "C", "anomaly": "!", "unknown": "?"}


def _pair(first: str, second: str, cells: list[MeasuredResult]) -> PairShown:
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


def of(
    header: Mapping[str, Any],
    found: MeasuredCells,
    unlike: Sequence[tuple[MatrixCell, Any, Any]] = (),
    compared: int | None = None,
) -> Page:
    """The page of a matrix, of Spark's operations or of several engines'.

    Args:
        unlike: what differs from another matrix.
        compared: cells that the other matrix has too; None: there is no other.
    """
    more = states.against(unlike, compared)
    if "of" in header:
        return engines.of(header, found, more)
    measured = found.measured
    pairs = {pair: _pair(*pair, cells) for pair, cells in folded.by_pair(measured).items()}
    code = _Code(str(header.get("versions", {}).get("iceberg", "")))
    return Page(
        states.FILE,
        "conflict matrix",
        states.banner(measured, "Iceberg's"),
        [
            *states.could_not(found),
            Section("What makes a difference", "differences", _differences(measured), terminal=""),
            Section("All pairs", "pairs", _squares(measured, pairs)),
            Section("Not as the code says", "differing", _differing(measured, code), terminal=""),
            Section("Anomalies", "anomalies", [_anomalous(measured)]),
            *more,
            Section(
                "Pair by pair",
                "rules",
                [_about_rules(pairs), *(b for p in pairs.values() for b in _of_pair(p, code))],
                terminal="" if len(pairs) <= SHOWN_PAIRS else None,
            ),
            Section("How operations were aborted", "aborts", [_aborts(measured)], "Aborts"),
        ],
        facts=states.facts(header),
        lead="A cell is a pair of operations on one kind of table (mode, format version, isolation level and so on), measured once. "
        "The first operation (row) reads the table and writes its files; then the second (column) commits; then the first one goes on: "
        "it was held at its commit, or before at its refresh. How a pair ends may depend on the dimensions below. A rule says what holds of "
        "every measured cell that it describes; dimensions that make no difference are left out of it. A frame marks what is not as Iceberg's "
        "code says." + _schemas(measured),
    )


def _schemas(measured: Sequence[MeasuredResult]) -> str:
    """What a schema change and a snapshot make of each other, if the matrix has any."""
    asked = [m.cell.compares for m in measured if {m.cell.first, m.cell.second} & {*SCHEMA_KINDS}]
    if not asked:
        return ""
    if asked[0] == "requirements":
        how = (
            "This catalog compares what each commit requires: of a snapshot that main has not moved, of a schema change that the schema has "
            "not changed. So neither refuses the other."
        )
    else:
        how = "This catalog compares the location of the metadata, so that a schema change and a snapshot refuse each other."
    return f" Some operations change the schema. {how}"


@dataclass(frozen=True, slots=True)
class _Code:
    """Where Iceberg's code of a release is."""

    iceberg: str

    def links(self, sources: Iterable[str]) -> str:
        """Methods of Iceberg's core, each with its address."""
        return states.links((source, rules.address(source, self.iceberg)) for source in sources)


def _differences(measured: Sequence[MeasuredResult]) -> list[Block]:
    columns = [
        TableColumn("dimension", terminal="differ in one dimension alone", most=400),
        TableColumn("compared", right=True, terminal="compared"),
        TableColumn("differ", right=True, terminal="differ"),
        TableColumn("pairs (first after second)", terminal="pairs"),
    ]
    rows = []
    for d in folded.differences(measured):
        pairs = joined((link(f"{a} after {b}", f"#{a}-after-{b}") for a, b in d.pairs), ", ")
        counts = (words.grouped(d.compared), words.grouped(d.differing))
        rows.append(TableRow([rules.dimension(d), *counts, TableCell(pairs, plain=words.grouped(len(d.pairs)))]))
    note = (
        "Cells that differ in one dimension alone, and how often their results differ. Neither the attempt at which the first operation "
        "committed nor the validation that aborted it counts as a difference."
    )
    return [Text([note], "muted"), Table(columns, rows, "No two cells differ in one dimension alone.")]


def _squares(measured: Sequence[MeasuredResult], pairs: Mapping[tuple[str, str], PairShown]) -> list[Block]:
    kinds = [k for k in every_kind(measured) if any(k in (m.cell.first, m.cell.second) for m in measured)]
    rows = [TableRow([first, *(_square(pairs.get((first, second))) for second in kinds)]) for first in kinds]
    note = (
        "C: the first operation commits; A: it aborts; !: it commits with an anomaly. The width of a colour is its share of the cells. Click "
        "for the rules."
    )
    columns = [TableColumn("first ↓ · second →"), *map(TableColumn, kinds)]
    return [states.legend(measured, {}), Text([note], "muted"), Table(columns, rows, form="squares")]


def _square(p: PairShown | None) -> Markup:
    if p is None:
        return tag("span", "", "pair as-unmeasured")
    parts = [tag("i", "", f"as-{colour}", style=f"width:{share:.2f}%") for colour, share in p.shares]
    mark = "pair differs" if p.differs else "pair"
    return tag("a", joined((*parts, tag("b", p.letters))), mark, href=f"#{p.anchor}", title=p.title)


def _differing(measured: Sequence[MeasuredResult], code: _Code) -> list[Block]:
    """Cells that are not as predicted, by what was measured and predicted."""
    by_outcomes: dict[tuple[str, str], list[MeasuredResult]] = {}
    for m in measured:
        if not m.as_predicted:
            found = end_text(m.first) + (
                f"; the second {end_text(m.second)}" if m.second.outcome != "committed" else ""
            )
            requests = "" if m.requests is None else f" ({words.plural(m.requests, 'commit request')})"
            by_outcomes.setdefault((found + requests, predicted(m.cell)), []).append(m)
    columns = [
        *(TableColumn(name, terminal=name, most=400) for name in ("measured", "the code says")),
        *(TableColumn("code"), TableColumn("cells", terminal="cells")),
    ]
    rows = []
    for (found, predicted_state), cells in by_outcomes.items():
        named = [joined((f"{_name(m)}: {_table(m)}, {m.cell.placement}", *not_held(m), link_of(m)), " ") for m in cells]
        few = ", ".join(m.cell.name for m in cells[:SHOWN_UNLIKE]) + (" …" if len(cells) > SHOWN_UNLIKE else "")
        each = TableCell(joined(named, Markup("<br>")), plain=few)
        rows.append(TableRow([found, predicted_state, code.links(rules.sources(cells)), each]))
    why = "Each line is one disagreement: either the prediction reads the code wrongly, or Iceberg does not do what its code seems to say."
    return [Text([why] if rows else [], "muted"), Table(columns, rows, "None: every cell agrees with the code.")]


def _name(m: MeasuredResult) -> str:
    return f"{m.cell.first} after {m.cell.second}"


def _table(m: MeasuredResult) -> str:
    return ", ".join((m.cell.said_mode, f"v{m.cell.format_version}", m.cell.isolation, *m.cell.more))


def _anomalous(measured: Sequence[MeasuredResult]) -> Table:
    names = ("first", "second", "table", "place", "anomaly", "the first", "run")
    rows = [
        TableRow(
            [
                *(m.cell.first, m.cell.second, _table(m), m.cell.placement),
                *(tag("b", ", ".join(m.anomalies)), end_text(m.first), link_of(m)),
            ]
        )
        for m in measured
        if m.anomalies
    ]
    return Table([TableColumn(name, most=400) for name in names], rows)


def _about_rules(pairs: Mapping[tuple[str, str], PairShown]) -> Text:
    return Text(
        [
            "Code: what decides it, according to the prediction. A run is kept if a cell of it has an anomaly or is not as the code says; "
            f"--keep-runs keeps all. A terminal has the rules of at most {SHOWN_PAIRS} pairs, and these are {len(pairs)}; --only chooses some."
        ],
        "muted",
    )


def _of_pair(p: PairShown, code: _Code) -> list[Block]:
    """The rules of a pair, and its cells."""
    columns = [
        TableColumn("when", terminal="when", most=1000),
        TableColumn("the first", terminal="the first", most=400),
        *(TableColumn("message", most=1000), TableColumn("code"), TableColumn("cells", right=True, terminal="cells")),
    ]
    found = [
        TableRow(
            [
                *(rules.words(r), tag("span", rules.ends(r.result), f"chip as-{rules.colour(r.result)}")),
                *("; or ".join(r.reasons), code.links(rules.sources(r.cells)), words.grouped(len(r.cells))),
            ]
        )
        for r in p.rules
    ]
    names = ("table", "place", "the first", "the code says", "code", "run")
    cells = [TableRow(_of_cell(m, code)) for m in p.cells]
    fold = Fold(
        f"its {words.plural(len(p.cells), 'cell')}", [Table([TableColumn(name, most=400) for name in names], cells)]
    )
    return [Heading(f"{p.first} after {p.second}", p.anchor), Table(columns, found), fold]


def _of_cell(m: MeasuredResult, code: _Code) -> list[str | TableCell]:
    other = f"; the second {end_text(m.second)}" if m.second.outcome != "committed" else ""
    parts = [end_text(m.first) + other, *([tag("b", ", ".join(m.anomalies))] if m.anomalies else [])]
    parts += [muted(f"allowed: {', '.join(m.allowed)}")] if m.allowed else []
    prediction = TableCell(predicted(m.cell), mark="" if m.as_predicted else "differs")
    ended = joined((*parts, *not_held(m)), " ")
    return [_table(m), m.cell.placement, ended, prediction, code.links(rules.sources([m])), link_of(m)]


def _aborts(measured: Iterable[MeasuredResult]) -> Table:
    found = Counter((m.first.error or "", m.first.message or "") for m in measured if m.first.outcome == "aborted")
    rows = [TableRow([error, message, words.grouped(n)]) for (error, message), n in found.most_common(40)]
    columns = [TableColumn("exception"), TableColumn("message", most=1000), TableColumn("cells", right=True)]
    return Table(columns, rows, "None was.")


def every_kind(measured: Iterable[MeasuredResult]) -> list[str]:
    """The kinds of a matrix in its order; those that this version does not know last."""
    return list(
        dict.fromkeys((*MATRIX_KINDS, *ON_REQUEST, *(k for m in measured for k in (m.cell.first, m.cell.second))))
    )
