"""The results of a conflict matrix in few lines: dimensions that make no difference are left out.

For each pair of kinds, the smallest set of dimensions is found that decides the measured result; then values with the same result are
put together, and conditions are left out that no measured cell needs. What remains are rules such as *merge-on-read, v2, snapshot, same
row: commits, undelete*, which hold of every measured cell of the pair, and one result for all other cells of it. A combination that was
not measured is said nothing of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from checkers.conflicts import plan, validations
from checkers.conflicts.measured import MeasuredResult
from checkers.conflicts.predicted import MatrixCell

Pair = tuple[str, str]
"""Kinds of the first and of the second operation."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """What a reader wants to know of a cell.

    Attributes:
        ends: ``commits``, ``aborts`` or ``unknown``: of the first operation.
        anomalies, allowed: as in :class:`checkers.conflicts.measured.MeasuredResult`.
        second: how the second operation ended, if it did not commit.
    """

    ends: str
    anomalies: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    second: str = ""


def result(m: MeasuredResult) -> CellResult:
    """The result of a cell; at which attempt the first operation committed, and by which validation it aborted, is no part of it."""
    ends = {"committed": "commits", "retried": "commits", "aborted": "aborts"}.get(m.first.outcome, "unknown")
    second = "" if m.second.outcome == "committed" else m.second.outcome
    return CellResult(ends, m.anomalies, m.allowed if ends == "commits" else (), second)


def reason(m: MeasuredResult) -> str:
    """The beginning of the message with which the first operation ended; empty if it was acknowledged."""
    message = m.first.message or m.first.error or ""
    return next((words for words in validations.MESSAGE_SOURCES if words in message), message)


def value(cell: MatrixCell, dimension: str) -> str:
    """The value of a dimension in a cell; of mixed modes, which one came first."""
    return cell.said_mode if dimension == "mode" else plan.value(cell, dimension)


def _order(dimension: str, values: Iterable[str]) -> tuple[str, ...]:
    known = (*plan.DIMENSIONS[dimension], *sorted(values))
    return tuple(dict.fromkeys(v for v in known if v in values))


@dataclass(frozen=True, slots=True)
class CellRule:
    """What holds of some cells of a pair.

    Attributes:
        where: dimension → the values of the cells; without the dimensions that make no difference. None: all cells of which no other rule
            says anything.
        cells: the measured cells of which it says the result.
        every: dimension → all values of the pair's cells.
    """

    where: Mapping[str, tuple[str, ...]] | None
    result: CellResult
    cells: tuple[MeasuredResult, ...]
    every: Mapping[str, tuple[str, ...]]

    @property
    def reasons(self) -> list[str]:
        """The beginnings of the messages of the aborts, the most frequent first."""
        return [words for words, _ in Counter(map(reason, self.cells)).most_common() if words]


def _fits(where: Mapping[str, tuple[str, ...]], m: MeasuredResult) -> bool:
    return all(value(m.cell, d) in values for d, values in where.items())


def _deciding(cells: Sequence[MeasuredResult], dimensions: Sequence[str]) -> tuple[str, ...]:
    """The smallest set of dimensions that decides the result; all of them if not even they do."""
    for size in range(len(dimensions) + 1):
        for some in combinations(dimensions, size):
            found: dict[tuple[str, ...], CellResult] = {}
            if all(found.setdefault(tuple(value(m.cell, d) for d in some), result(m)) == result(m) for m in cells):
                return some
    return tuple(dimensions)


Row = tuple[dict[str, tuple[str, ...]], CellResult]


def _joined(rows: list[Row]) -> list[Row]:
    """Rows with the same result that differ in the values of one dimension are put together, until there are none."""
    for i, (where, ends) in enumerate(rows):
        for j in range(i + 1, len(rows)):
            other, same = rows[j]
            differ = [d for d in where if where[d] != other.get(d)]
            if same == ends and where.keys() == other.keys() and len(differ) <= 1:
                d = differ[0] if differ else next(iter(where), None)
                if d is None:  # both say it of every cell
                    return _joined([*rows[:j], *rows[j + 1 :]])
                values = _order(d, {*where[d], *other[d]})
                return _joined([*rows[:i], (where | {d: values}, ends), *rows[i + 1 : j], *rows[j + 1 :]])
    return rows


def _needed(
    where: Mapping[str, tuple[str, ...]], ends: CellResult, cells: Sequence[MeasuredResult]
) -> dict[str, tuple[str, ...]]:
    """The conditions without which a measured cell with another result would fit."""
    needed = dict(where)
    for d in reversed(list(where)):
        fewer = {k: v for k, v in needed.items() if k != d}
        if all(result(m) == ends for m in cells if _fits(fewer, m)):
            needed = fewer
    return needed


def fold(cells: Sequence[MeasuredResult]) -> list[CellRule]:
    """The rules of the cells of one pair: anomalies first, then those of the most cells; the rule for all other cells last."""
    every = {d: _order(d, {value(m.cell, d) for m in cells}) for d in plan.DIMENSIONS}
    varied = [d for d in every if len(every[d]) > 1]
    some = _deciding(cells, varied)
    groups = {(tuple(value(m.cell, d) for d in some), result(m)): None for m in cells}
    rows = _joined([({d: (v,) for d, v in zip(some, values, strict=True)}, ends) for values, ends in groups])
    for _ in range(2):
        rows = _joined([(_needed(where, ends, cells), ends) for where, ends in rows])
    rules = [
        CellRule(where, ends, tuple(m for m in cells if _fits(where, m) and result(m) == ends), every)
        for where, ends in rows
    ]
    kept = rules
    for rule in sorted(rules, key=lambda r: len(r.cells)):  # what other rules say needs no rule of its own
        others = [r for r in kept if r is not rule]
        if {m.cell for m in rule.cells} <= {m.cell for r in others if r.result == rule.result for m in r.cells}:
            kept = others
    # One ordinary result needs no rules, because it is that of all other cells: that of the most rules. The rules of aborts say more than
    # those of commits, because they have reasons.
    many = Counter(r.result for r in kept)
    weight = {"commits": 2, "aborts": 1, "unknown": 0}
    rest = max(many, key=lambda r: (not r.anomalies and not r.allowed, many[r] * weight[r.ends]))
    first = sorted(
        (r for r in kept if r.result != rest),
        key=lambda r: (not r.result.anomalies, not r.result.allowed, -len(r.cells)),
    )
    return [*first, CellRule(None if first else {}, rest, tuple(m for m in cells if result(m) == rest), every)]


def by_pair(measured: Iterable[MeasuredResult]) -> dict[Pair, list[MeasuredResult]]:
    """The cells of each pair of kinds."""
    out: dict[Pair, list[MeasuredResult]] = {}
    for m in measured:
        out.setdefault((m.cell.first, m.cell.second), []).append(m)
    return out


@dataclass(frozen=True, slots=True)
class DimensionEffect:
    """What a dimension does to the results.

    Attributes:
        compared: sets of at least two cells that differ in this dimension alone.
        differing: those of them with different results.
        pairs: the pairs of kinds of those.
    """

    dimension: str
    compared: int
    differing: int
    pairs: tuple[Pair, ...]


def differences(measured: Sequence[MeasuredResult]) -> list[DimensionEffect]:
    """For each dimension with at least two values."""
    out = []
    for d in plan.DIMENSIONS:
        others = [k for k in (*plan.PAIR, *plan.DIMENSIONS) if k != d]
        sets: dict[tuple[str, ...], list[MeasuredResult]] = {}
        for m in measured:
            sets.setdefault(tuple(value(m.cell, k) for k in others), []).append(m)
        compared = [found for found in sets.values() if len({value(m.cell, d) for m in found}) > 1]
        differing = [found for found in compared if len({result(m) for m in found}) > 1]
        pairs = dict.fromkeys((found[0].cell.first, found[0].cell.second) for found in differing)
        if compared:
            out.append(DimensionEffect(d, len(compared), len(differing), tuple(pairs)))
    return out
