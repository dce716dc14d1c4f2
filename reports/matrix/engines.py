"""The page of the engine matrix: engine × operation beside engine × operation, measured and predicted, with the code and the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checkers.conflicts import predicted as conflicts
from checkers.conflicts.measured import Measured
from checkers.conflicts.predicted import ENGINE_KINDS, ENGINE_PLACEMENTS, Cell
from reports.drawing import words
from reports.drawing.templates import environment
from reports.matrix import page as ordinary
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


@dataclass(frozen=True, slots=True)
class Square:
    """One drawn cell. ``run``: the address of its run's page, relative to the matrix's; empty if there is none."""

    state: str
    letter: str
    title: str
    differs: bool
    run: str


def _square(cell: Cell, m: Measured | None) -> Square:
    if m is None:
        return Square("unmeasured", "", f"{cell.placement}: not measured", False, "")
    first, second = title((cell.first_engine, cell.first)), title((cell.second_engine, cell.second))
    text = f"{cell.isolation}, {cell.placement}: {first} {ordinary.told(m.first)}"
    if m.second.outcome != "committed":
        text += f"; {second} {ordinary.told(m.second)}"
    for name, found in (("anomaly", m.anomalies), ("allowed", m.allowed)):
        if found:
            text += f"; {name}: {', '.join(found)}"
    said = conflicts.predict(cell)
    text += f"; predicted: {ordinary.predicted(cell)}" + (f" by {said.source}" if said.source else "")
    state = ordinary.state(m)
    return Square(state, LETTERS[state], text, not m.as_predicted, _address(m))


def _address(m: Measured) -> str:
    return "" if m.run is None else f"{m.run}/{ordinary.PAGE}"


def operations(measured: Sequence[Measured]) -> list[Operation]:
    """The operations of a matrix, in its order."""
    found = {
        op for m in measured for op in ((m.cell.first_engine, m.cell.first), (m.cell.second_engine, m.cell.second))
    }
    engines, kinds = list(ENGINES), list(ENGINE_KINDS)
    return sorted(found, key=lambda o: (engines.index(o[0]) if o[0] in engines else len(engines), kinds.index(o[1])))


def _grids(measured: Sequence[Measured], ops: Sequence[Operation]) -> list[dict[str, Any]]:
    """A grid for each isolation level: a row for each first operation that it concerns."""
    by_cell = {m.cell: m for m in measured}
    every: dict[tuple[str, Operation, Operation], list[Cell]] = {}
    for c in conflicts.engine_cells(tuple(dict.fromkeys(engine for engine, _ in ops))):
        pair = ((c.first_engine, c.first), (c.second_engine, c.second))
        every.setdefault((c.isolation, *pair), []).append(c)
    out = []
    for level in dict.fromkeys(level for level, _, _ in every):
        concerned = [x for x in ops if any((level, x, y) in every for y in ops)]
        rows = [
            (x, [[_square(c, by_cell.get(c)) for c in every.get((level, x, y), ())] for y in ops]) for x in concerned
        ]
        if rows:
            out.append({"name": level, "rows": rows})
    return out


def _validations(ops: Sequence[Operation]) -> list[tuple[str, str, str, str]]:
    """What each engine's file says of its commits: operation, how it writes, what it validates, source."""
    out: list[tuple[str, str, str, str]] = []
    for engine, kind in ops:
        commit = ENGINES[engine].commits.get(kind) if engine in ENGINES else None
        if commit is not None:
            rules = ", ".join(commit.validates) or "nothing"
            again = "" if commit.retries else "; it does not try again"
            out.append((title((engine, kind)), commit.writes, rules + again, commit.source))
    return out


def tallies(measured: Sequence[Measured]) -> list[tuple[str, Counter[str]]]:
    """Engine of the first operation → how often each state came out."""
    out: dict[str, Counter[str]] = {}
    for m in measured:
        out.setdefault(m.cell.first_engine, Counter())[ordinary.state(m)] += 1
    return sorted(out.items(), key=lambda item: list(ENGINES).index(item[0]) if item[0] in ENGINES else len(ENGINES))


def render(header: dict[str, Any], measured: Sequence[Measured], could_not: Sequence[tuple[str, list[str]]]) -> str:
    """The page of an engine matrix."""
    ops = operations(measured)
    return words.printable(
        environment(title=title, code=code)
        .get_template("engine_matrix.html")
        .render(
            header=header,
            count=len(measured),
            states=ordinary.STATES,
            letters=LETTERS,
            tally=Counter(ordinary.state(m) for m in measured),
            by_engine=[(ENGINES[e].title if e in ENGINES else e, found) for e, found in tallies(measured)],
            placements=list(ENGINE_PLACEMENTS),
            operations=ops,
            grids=_grids(measured, ops),
            validations=_validations(ops),
            cells=[
                {
                    "m": m,
                    "first": title((m.cell.first_engine, m.cell.first)),
                    "second": title((m.cell.second_engine, m.cell.second)),
                    "told": ordinary.told(m.first),
                    "other": "" if m.second.outcome == "committed" else ordinary.told(m.second),
                    "predicted": ordinary.predicted(m.cell),
                    "source": conflicts.predict(m.cell).source,
                    "state": ordinary.state(m),
                    "run": _address(m),
                }
                for m in measured
            ],
            differing_count=sum(not m.as_predicted for m in measured),
            could_not=could_not,
        )
    )
