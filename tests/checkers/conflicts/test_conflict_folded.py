"""The folding of a conflict matrix: rules that hold of every measured cell and say no more than they need."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from checkers.conflicts import folded, plan, predicted, validations
from checkers.conflicts.folded import CellRule, fold
from checkers.conflicts.measured import MeasuredResult, OperationEnd
from checkers.conflicts.predicted import MatrixCell
from checkers.evidence.replace import replace
from reports.matrix import rules

COMMITS = OperationEnd("retried", 2)
ABORTS = OperationEnd("aborted", None, "ValidationException", f"{validations.MISSING_TO_DELETE}: …")


def measured(ends: Callable[[MatrixCell], OperationEnd], cells: list[MatrixCell]) -> list[MeasuredResult]:
    return [MeasuredResult(c, ends(c), OperationEnd("committed", 1), True) for c in cells]


def pair(first: str, second: str) -> list[MatrixCell]:
    return [c for c in plan.default() if (c.first, c.second) == (first, second)]


def where(found: list[CellRule]) -> list[tuple[dict[str, tuple[str, ...]] | None, str]]:
    return [(None if r.where is None else dict(r.where), r.result.ends) for r in found]


def holds(rule: CellRule, m: MeasuredResult) -> bool:
    return rule.where is not None and all(folded.value(m.cell, d) in values for d, values in rule.where.items())


def test_what_never_matters_is_one_rule_without_conditions() -> None:
    found = measured(lambda _: COMMITS, pair("insert", "insert"))
    assert where(fold(found)) == [({}, "commits")] and len(fold(found)[0].cells) == len(found)


def test_the_attempt_and_the_validation_are_no_difference() -> None:
    cells = pair("delete", "update-register")
    other = replace(ABORTS, message=f"{validations.CONFLICTING_FILES} …")
    found = measured(lambda c: ABORTS if c.isolation == "snapshot" else other, cells)
    (rule,) = fold(found)
    assert rule.reasons == [validations.MISSING_TO_DELETE, validations.CONFLICTING_FILES] or len(rule.reasons) == 2
    found = measured(lambda c: OperationEnd("committed", 1) if c.held == "refresh" else COMMITS, cells)
    assert where(fold(found)) == [({}, "commits")]
    assert next(d for d in folded.differences(found) if d.dimension == "held").differing == 0


def test_values_with_the_same_result_are_put_together() -> None:
    found = measured(
        lambda c: ABORTS if c.placement in ("same row", "same file") and c.mode == "copy-on-write" else COMMITS,
        [c for c in predicted.cells(("delete", "update-register")) if (c.first, c.second) == ("delete", "delete")],
    )
    assert where(fold(found)) == [
        ({"mode": ("copy-on-write",), "placement": ("same row", "same file")}, "aborts"),
        (None, "commits"),
    ]


def test_a_condition_that_no_measured_cell_needs_is_left_out() -> None:
    """Overlapping ranges were measured at one placement only, so the placement need not be said."""
    found = measured(lambda c: ABORTS if c.ranges == "overlapping" else COMMITS, pair("delete", "update-register"))
    assert where(fold(found)) == [({"ranges": ("overlapping",)}, "aborts"), (None, "commits")]


def test_an_anomaly_is_a_result_of_its_own_and_comes_first() -> None:
    cells = pair("delete", "update-register")
    found = measured(lambda c: ABORTS if c.isolation == "serializable" else COMMITS, cells)
    found[-1] = replace(found[-1], anomalies=("undelete",))
    folds = fold(found)
    assert folds[0].result.anomalies == ("undelete",) and [m.cell for m in folds[0].cells] == [found[-1].cell]


def test_modes_tell_which_operation_came_first() -> None:
    found = measured(
        lambda c: ABORTS if c.modes == ("copy-on-write", "merge-on-read") else COMMITS,
        pair("delete", "update-register"),
    )
    assert where(fold(found))[0] == ({"mode": ("copy-on-write then merge-on-read",)}, "aborts")


def test_most_values_are_said_by_what_they_are_not() -> None:
    found = measured(
        lambda c: (
            replace(ABORTS, outcome="unknown") if c.placement != "same row" and c.isolation == "snapshot" else COMMITS
        ),
        pair("delete", "update-register"),
    )
    assert [rules.words(r) for r in fold(found)] == ["snapshot, not same row", "otherwise"]


@pytest.mark.parametrize("seed", range(12))
def test_rules_say_the_result_of_every_cell_whatever_decides_it(seed: int) -> None:
    rng = Random(seed)
    cells = pair("delete", "update-register")
    some = rng.sample([*plan.DIMENSIONS], 3)
    ends: dict[tuple[str, ...], OperationEnd] = {}
    for c in cells:
        ends.setdefault(tuple(folded.value(c, d) for d in some), rng.choice((COMMITS, ABORTS)))
    found = measured(lambda c: ends[tuple(folded.value(c, d) for d in some)], cells)
    if rng.random() < 0.3:
        found = rng.sample(found, 40)  # a matrix that was stopped
    folds = fold(found)
    for m in found:
        said = {r.result for r in folds if holds(r, m)} or {r.result for r in folds if r.where is None}
        assert said == {folded.result(m)}, m.cell.name
    assert all(any(m in r.cells for r in folds) for m in found)
    for d in {d for r in folds for d in r.where or ()}:
        assert d in some or len({r.result for r in folds}) > 1


def test_differences_compare_cells_that_differ_in_one_dimension_alone() -> None:
    found = measured(
        lambda c: ABORTS if (c.isolation, c.placement) == ("serializable", "same row") else COMMITS,
        [c for c in plan.default() if c.first == "insert"],
    )
    by = {d.dimension: d for d in folded.differences(found)}
    assert by["isolation"].differing == sum(c.cell.isolation == "serializable" and c.first == ABORTS for c in found)
    assert by["version"].differing == 0 and by["version"].compared == len(found) / 2
    assert set(by["placement"].pairs) == {("insert", m.cell.second) for m in found if m.cell.second}
    assert "ranges" not in by
