"""Which cells a conflict matrix has, and what ``--only`` selects."""

from __future__ import annotations

import re
import shlex
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from checkers.conflicts import plan, predicted
from checkers.conflicts.plan import chosen, value
from checkers.conflicts.predicted import MATRIX_KINDS, TWO_FILES, MatrixCell
from harness.experiments.matrixruns import CellScript, planned, workload
from nemesis.proxy.board import Board
from workloads.ddl import table_properties
from workloads.operations.kinds import KINDS as OPERATIONS


def test_the_default_matrix_has_the_ordinary_cells_first_and_every_further_dimension() -> None:
    cells = plan.default()
    ordinary = list(predicted.cells())
    assert cells[: len(ordinary)] == ordinary
    assert len({c.name for c in cells}) == len(set(cells)) == len(cells)
    for d, values in plan.DIMENSIONS.items():
        assert {value(c, d) for c in cells} == set(values), d


def test_further_dimensions_do_not_grow_with_the_kinds_that_are_added() -> None:
    more = len(list(plan.further()))
    assert len(list(plan.further((*MATRIX_KINDS, "update-counter", "delete-where")))) == more
    assert more < len(list(predicted.cells(plan.CORE_KINDS)))


def test_every_further_cell_can_be_executed_on_rows_that_are_where_it_says() -> None:
    for c in plan.further():
        whole = workload([c])
        (table,), fill = whole.tables, whole.resolved_phases()[0]
        in_files = [k for ids in c.files.values() for k in ids]
        assert len(in_files) == len(set(in_files))
        x, ys = predicted.keys(c)[0], predicted.other_keys(c)
        script = CellScript([c], Board(), threading.Event())
        filled = [o.value["ids"] for writer in (0, 1) for o in script.operations(whole, fill, writer, 0)]
        assert sorted(k for ids in filled for k in ids) == sorted(in_files)
        one = planned(c.first, x, table, c.predicate == "id and part")
        two = planned(c.second, ys, table)
        for operation in (one, two):
            assert OPERATIONS[operation.f].statements(operation.value, "w0-0", table)
        if "merge-insert" in (c.first, c.second):
            continue
        home = {k: name for name, ids in c.files.items() for k in ids}
        assert (x in ys) == (c.placement == "same row")
        assert all((home[y] == home[x]) == (c.placement in ("same row", "same file")) for y in ys)
        assert all((y % 2 == x % 2) == (c.placement != "other partition") for y in ys)
        if c.placement == TWO_FILES:
            assert len({home[y] for y in ys}) == 2


def test_each_command_has_its_mode_and_the_table_its_granularity() -> None:
    (mixed,) = (
        c
        for c in plan.default()
        if (c.first, c.second, c.mode, c.isolation) == ("delete", "update-register", "copy-on-write", "snapshot")
        and c.granularity == "partition"
    )
    properties = table_properties(workload([mixed]).tables[0])
    assert properties["write.delete.mode"] == "copy-on-write" and properties["write.update.mode"] == "merge-on-read"
    assert properties["write.delete.granularity"] == "partition"
    assert all(
        OPERATIONS[c.first].verb != OPERATIONS[c.second].verb for c in plan.default() if value(c, "mode") == "mixed"
    )


def test_overlapping_ranges_have_no_row_in_common_and_their_rest_still_overlaps() -> None:
    x = predicted.OVERLAPPING_PLACEMENTS["same row"]
    y = predicted.OVERLAPPING_PLACEMENTS["same partition"]
    left = [k for k in predicted.OVERLAPPING["B"] if k != y]
    assert x not in predicted.OVERLAPPING["B"] and min(left) < x < max(left)


def names(*only: str) -> set[MatrixCell]:
    return set(chosen(only).cells())


def test_kinds_alone_select_the_default_cells_of_their_pairs() -> None:
    kinds = ("delete", "merge-upsert")
    assert names(*kinds) == {c for c in plan.default() if {c.first, c.second} <= set(kinds)}
    assert names() == set(plan.default())


@pytest.mark.parametrize(
    "only",
    [
        ("held=refresh",),
        ("mode=mixed",),
        ("held=refresh", "mode=mixed", "delete", "update-register"),
        ("predicate=id and part", "first=delete", "isolation=snapshot"),
        ("ranges=overlapping", "placement=same partition", "version=v3"),
        ("granularity=partition",),
        ("placement=same row", "placement=same file", "second=insert"),
        ("granularity=file", "granularity=partition", "mode=merge-on-read"),
    ],
)
def test_dimensions_select_every_sensible_cell_with_their_values(only: tuple[str, ...]) -> None:
    cells = chosen(only).cells()
    assert cells and len(set(cells)) == len(cells) and all(map(plan.sensible, cells))
    wanted: dict[str, set[str]] = {}
    for word in only:
        dimension, equals, v = word.partition("=")
        if equals:
            wanted.setdefault(dimension, set()).add(v.removeprefix("v") if dimension == "version" else v)
    for d, values in wanted.items():
        assert {value(c, d) for c in cells} == values
    for d in set(plan.FURTHER) - {*wanted}:
        assert {value(c, d) for c in cells} == {plan.DIMENSIONS[d][0]}


def test_a_further_cell_of_the_default_matrix_can_be_asked_for_by_its_values() -> None:
    for c in list(plan.further())[::37]:
        words = [f"{d}={value(c, d)}" for d in (*plan.PAIR, *plan.DIMENSIONS)]
        assert c in names(*words)


def test_what_writes_nothing_before_its_refresh_is_not_held_there() -> None:
    for kind in ("delete-partition", *predicted.SCHEMA_KINDS):
        assert names(f"first={kind}", "held=refresh") == set()
        assert names(f"second={kind}", "held=refresh")
    assert {c.mode for c in names("first=delete-where", "held=refresh")} == {"merge-on-read"}


def test_kinds_on_request_have_the_dimensions_that_can_matter_to_them() -> None:
    every = (*MATRIX_KINDS, *predicted.ON_REQUEST)
    held = {(c.first, c.second) for c in names("held=refresh", "version=2", "isolation=snapshot", *every)}
    mixed = {c.first for c in names("mode=mixed", *every)}
    overlapping = {c.first for c in names("ranges=overlapping", *every)}
    for kind in predicted.ON_REQUEST:
        assert {y for x, y in held if x == kind} == (set() if kind in predicted.SCHEMA_KINDS else {*every}), kind
        assert (kind in mixed) == (kind in plan.BY_COMMAND) and kind not in overlapping
    assert names("second=add-column", "predicate=id and part") == set()


def test_a_cell_of_a_kind_on_request_in_a_further_dimension_can_be_executed() -> None:
    every = (*MATRIX_KINDS, *predicted.ON_REQUEST)
    for further in ("held=refresh", "mode=mixed", "predicate=id and part"):
        cells = [c for c in chosen([further, *every]).cells() if {c.first, c.second} & {*predicted.ON_REQUEST}]
        for c in cells[:: len(cells) // 40]:
            (table,) = workload([c]).tables
            for kind, key in zip((c.first, c.second), predicted.keys(c), strict=True):
                operation = planned(kind, key, table, c.predicate == "id and part" and kind == c.first)
                assert OPERATIONS[operation.f].statements(operation.value, "w0-0", table)
            said = predicted.predict(c)
            assert bool(said.reasons) == (said.outcome == "aborted") and said.requests is not None


def test_a_matrix_of_kinds_on_request_has_their_ordinary_cells_only() -> None:
    cells = chosen(["add-column", "insert", "overwrite-where"]).cells()
    assert {c for c in cells if {c.first, c.second} & {*predicted.ON_REQUEST}} == {
        c for c in predicted.cells(("insert", "overwrite-where", "add-column")) if {c.first, c.second} != {"insert"}
    }


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("helt=refresh", "unknown dimension 'helt' (did you mean held?)"),
        ("held=refesh", "unknown value of held 'refesh' (did you mean refresh?)"),
        ("mode=cow", "unknown value of mode 'cow' (did you mean copy-on-write?)"),
        ("version=4", "allowed: 2, 3"),
        ("first=merge", "unknown value of first 'merge'"),
        ("merge", "unknown operation 'merge'"),
        ("granularity=", "allowed: file, partition"),
    ],
)
def test_a_bad_selection_is_told_what_is_allowed(word: str, says: str) -> None:
    with pytest.raises(ValueError, match="--only") as error:
        chosen([word])
    assert says in str(error.value) and word in str(error.value)


def test_the_page_of_the_matrix_says_how_many_cells_there_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "matrix.md").read_text(encoding="utf-8")
    further = list(plan.further())
    numbers = {
        "held": sum(c.held != "commit" for c in further),
        "mode": sum(value(c, "mode") == "mixed" and c.placement != TWO_FILES for c in further),
        "predicate": sum(c.predicate != "id" for c in further),
        "ranges": sum(c.ranges != "apart" for c in further),
        "placement": sum(c.placement == TWO_FILES for c in further),
        "granularity": sum(c.granularity != "file" for c in further),
    }
    for dimension, number in numbers.items():
        (row,) = (x for x in page.splitlines() if x.startswith(f"| `{dimension}` |") and x.count("|") == 5)
        assert re.match(rf"{number}\b", row.split("|")[4].strip()), row
    assert f"**{len(plan.default()):,} cells**" in page and f"{len(list(predicted.cells())):,}" in page
    requested = len(list(predicted.cells((*MATRIX_KINDS, *predicted.ON_REQUEST)))) - len(list(predicted.cells()))
    assert f"All pairs with these kinds would be {requested:,} cells" in page


def test_the_commands_of_the_page_select_as_many_cells_as_it_says() -> None:
    page = (Path(__file__).parents[3] / "docs" / "matrix.md").read_text(encoding="utf-8")
    commands = re.findall(r"^(icequake matrix .*--into store/matrix) +(\d+)$", page, re.MULTILINE)
    found: set[MatrixCell] = set()
    for command, number in commands:
        words = shlex.split(command)
        cells = chosen([value for option, value in pairwise(words) if option == "--only"]).cells()
        assert len(cells) == int(number), command
        found |= {*cells}
    assert found == {*plan.further()}
