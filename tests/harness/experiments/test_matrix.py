"""The conflict matrix: what the code says of a pair, and what is kept, compared and shown of what was measured."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from rich.console import Console

from checkers.conflicts import plan
from checkers.conflicts.measured import (
    MatrixError,
    MeasuredCells,
    MeasuredResult,
    NotMeasured,
    OperationEnd,
    differences,
    read,
)
from checkers.conflicts.predicted import (
    KEYS_OF_FILE,
    MATRIX_KINDS,
    ON_REQUEST,
    SCHEMA_KINDS,
    Compares,
    MatrixCell,
    cells,
    effect,
    keys,
    on,
    predict,
)
from checkers.conflicts.validations import (
    COMPACTIONS,
    CONCURRENT_DV,
    CONFLICTING_DELETES,
    CONFLICTING_FILES,
    DELETED_FILES,
    MISSING_DATA,
    MISSING_MANIFEST,
    MISSING_TO_DELETE,
    NEW_DELETE,
    NEW_POSITION_DELETE,
    POSITION_DELETES,
    REFRESH,
)
from harness.experiments.matrixruns import CellScript, compared, every_file, planned, workload
from nemesis.proxy.board import Board, Hold
from reports.drawing.page import Page
from reports.drawing.render import html, terminal
from reports.matrix import page
from workloads.engines.engine import Writes
from workloads.operations.kinds import KINDS as OPERATIONS

COW, MOR = "copy-on-write", "merge-on-read"


def cell(first: str, second: str, make: str, placement: str = "same row") -> MatrixCell:
    """``make`` is such as ``cow2-ser``, ``mor3-snap``."""
    mode = COW if make.startswith("cow") else MOR
    isolation = "serializable" if make.endswith("-ser") else "snapshot"
    return MatrixCell(first, second, mode, int(make[3]), isolation, placement)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pair", "make", "placement", "reasons"),
    [
        # The undelete of v2 merge-on-read under snapshot isolation, and what stops it elsewhere.
        (("delete", "update-register"), "mor2-snap", "same row", []),
        (("delete", "update-register"), "mor2-ser", "same row", [CONFLICTING_FILES]),
        (("delete", "update-register"), "mor3-snap", "same row", [CONCURRENT_DV]),
        (("delete", "update-register"), "cow2-snap", "same row", [MISSING_TO_DELETE]),
        (("update-register", "delete"), "mor2-snap", "same row", [CONFLICTING_DELETES]),
        # Keys have no bounds in position deletes: an update aborts for a delete in another partition.
        (("update-register", "delete"), "mor2-snap", "other partition", [CONFLICTING_DELETES]),
        (("update-register", "update-register"), "cow2-snap", "same partition", []),
        (("merge-upsert", "insert"), "cow2-ser", "other partition", [CONFLICTING_FILES]),
        (("merge-upsert", "insert"), "cow2-snap", "other partition", []),
        (("merge-insert", "merge-insert"), "cow2-ser", "same row", []),
        (("insert", "delete-partition"), "mor3-ser", "same row", []),
        (("delete-partition", "insert"), "mor3-ser", "same row", []),
        (("delete", "delete-partition"), "mor2-snap", "same row", []),
        (("update-register", "delete-partition"), "mor2-snap", "same row", [MISSING_DATA]),
        (("rewrite-data-files", "update-register"), "cow2-snap", "same row", [MISSING_TO_DELETE]),
        (("rewrite-data-files", "update-register"), "mor2-snap", "same row", [NEW_POSITION_DELETE]),
        (("rewrite-data-files", "insert"), "mor2-ser", "same row", []),
        (("update-register", "rewrite-data-files"), "mor2-ser", "same row", [MISSING_DATA]),
        (("update-register", "rewrite-manifests"), "cow3-ser", "same row", []),
        (("rewrite-manifests", "rewrite-manifests"), "cow3-ser", "same row", [MISSING_MANIFEST]),
        (("rewrite-manifests", "insert"), "cow3-ser", "same row", []),
        (("update-register", "equality-delete"), "cow2-ser", "same row", [NEW_DELETE]),
        (("update-register", "equality-delete"), "cow2-ser", "same file", []),  # and the row is back
        (("merge-upsert", "equality-delete"), "cow2-ser", "same file", [NEW_DELETE]),
        (("merge-upsert", "equality-delete"), "cow2-ser", "same partition", []),
        (("update-register", "equality-delete"), "mor3-snap", "same row", [CONFLICTING_DELETES]),
        (("update-register", "equality-delete"), "mor3-snap", "same file", []),
        (("merge-upsert", "equality-delete"), "mor2-snap", "other partition", [CONFLICTING_DELETES]),
        (("delete", "equality-delete"), "mor3-ser", "same row", []),
        (("delete", "equality-upsert"), "mor3-ser", "same row", [CONFLICTING_FILES]),
        (("delete", "equality-upsert"), "mor3-snap", "same row", []),
        (("rewrite-data-files", "equality-delete"), "mor2-ser", "same row", []),
        (("equality-delete", "update-register"), "cow2-ser", "same row", []),
        (("equality-upsert", "rewrite-data-files"), "mor3-ser", "same row", []),
        # An INSERT OVERWRITE validates nothing by default, and what it replaces is what there is at its commit.
        (("overwrite-partitions", "overwrite-partitions"), "cow2-ser", "same row", []),
        (("overwrite-where", "insert"), "cow2-ser", "same row", []),
        (("insert", "overwrite-partitions"), "cow2-ser", "same row", []),
        (("overwrite-partitions-validated", "insert"), "cow2-ser", "same partition", [CONFLICTING_FILES]),
        (("overwrite-partitions-validated", "insert"), "cow2-ser", "other partition", []),
        (("overwrite-partitions-validated", "insert"), "cow2-snap", "same row", []),
        (
            ("overwrite-partitions-validated", "overwrite-where"),
            "cow2-ser",
            "same file",
            [CONFLICTING_FILES, DELETED_FILES],
        ),
        (("overwrite-where-validated", "delete"), "mor2-snap", "same file", [CONFLICTING_DELETES]),
        (("overwrite-where-validated", "delete"), "mor2-snap", "other partition", []),
        (("overwrite-where-validated", "rewrite-data-files"), "mor2-snap", "same row", [DELETED_FILES]),
        (("update-register", "overwrite-partitions"), "mor2-snap", "same partition", [MISSING_DATA]),
        # A condition that Iceberg does not know filters nothing.
        (("update-counter-by-expression", "insert"), "cow2-ser", "other partition", [CONFLICTING_FILES]),
        (("update-counter-by-expression", "insert"), "cow2-snap", "other partition", []),
        (("delete-by-expression", "insert"), "mor2-ser", "other partition", [CONFLICTING_FILES]),
        (("delete-by-expression", "update-register"), "mor2-snap", "same row", []),
        (("delete-where", "insert"), "cow2-ser", "same partition", [CONFLICTING_FILES]),
        (("delete-where", "insert"), "cow2-ser", "other partition", []),
        (("rewrite-data-files-zorder", "delete"), "mor2-ser", "same row", [NEW_POSITION_DELETE]),
        (("delete", "rewrite-data-files-sort"), "cow2-ser", "same row", [MISSING_TO_DELETE]),
        (("rewrite-position-delete-files", "delete"), "mor2-ser", "same row", [MISSING_TO_DELETE]),
        (("rewrite-position-delete-files", "insert"), "mor2-ser", "same row", []),
        (("rewrite-position-delete-files", "rewrite-data-files"), "mor2-ser", "same row", [MISSING_TO_DELETE]),
        (("rewrite-data-files", "rewrite-position-delete-files"), "mor2-ser", "same row", [MISSING_TO_DELETE]),
        (("overwrite-where-validated", "rewrite-position-delete-files"), "mor2-ser", "same row", [MISSING_TO_DELETE]),
        (("overwrite-partitions-validated", "rewrite-position-delete-files"), "mor2-ser", "same row", []),
        (("delete-partition", "rewrite-position-delete-files"), "mor2-ser", "same row", []),
        (("update-register", "rewrite-position-delete-files"), "mor2-snap", "same row", [MISSING_TO_DELETE]),
        (("delete", "rewrite-position-delete-files"), "mor2-ser", "same row", []),
    ],
)
def test_what_the_code_says(pair: tuple[str, str], make: str, placement: str, reasons: list[str]) -> None:
    said = predict(cell(*pair, make, placement))
    assert said.reasons == reasons
    assert said.outcome == ("aborted" if reasons else "retried")


@pytest.mark.parametrize(
    ("pair", "placement", "requirements", "location"),
    [
        (("insert", "add-column"), "same row", "committed", "retried"),
        (("update-register", "drop-column"), "same row", "committed", "retried"),
        (("add-column", "insert"), "same row", "committed", "aborted"),
        (("add-column", "add-column"), "same row", "aborted", "aborted"),
        (("widen-column", "rename-column"), "other partition", "aborted", "aborted"),
    ],
)
def test_a_schema_change_hinders_what_the_catalog_compares(
    pair: tuple[str, str], placement: str, requirements: str, location: str
) -> None:
    at = cell(*pair, "cow2-ser", placement)
    both: tuple[tuple[Compares, str], ...] = (("requirements", requirements), ("location", location))
    for asks, outcome in both:
        said = predict(replace(at, compares=asks))
        assert said.outcome == outcome
        assert said.reasons == ([REFRESH] if outcome == "aborted" else [])
        assert said.requests == (2 if outcome == "retried" else 1)
    assert replace(at, compares="location").name != at.name


def test_what_is_measured_on_request_is_drawn_and_written_as_it_is(tmp_path: Path) -> None:
    at = replace(cell("insert", "add-column", "cow2-ser"), compares="location")
    measured = MeasuredResult(at, OperationEnd("retried", 2), OperationEnd("committed"), True)
    assert MeasuredResult.from_json(measured.to_json()) == measured
    text = shown(written(tmp_path / "jdbc", [measured]))
    assert 'id="insert-after-add-column"' in text and "compares the location of the metadata" in text
    elsewhere = replace(measured, cell=replace(at, compares="requirements", held="refresh"))
    text = shown(written(tmp_path / "rest", [elsewhere]))
    assert "compares what each commit requires" in text and "serializable, held at refresh" in text
    assert "This catalog compares" not in shown(written(tmp_path / "rows", MEASURED))


def test_a_schema_change_is_compared_with_that_on_another_catalog() -> None:
    at = cell("add-column", "insert", "cow2-ser")
    rest = MeasuredResult(at, OperationEnd("committed", 1), OperationEnd("committed", 1), True)
    jdbc = MeasuredResult(replace(at, compares="location"), OperationEnd("aborted"), OperationEnd("committed", 1), True)
    assert [(c, other["first"]["outcome"]) for c, _, other in differences([rest], [jdbc])] == [(at, "aborted")]
    assert differences([rest], [replace(rest, cell=jdbc.cell)]) == []


REQUESTED = ("insert", "merge-insert", "update-register", *ON_REQUEST)


@pytest.mark.parametrize(
    ("pair", "make", "placement", "more", "reasons"),
    [
        # The first check sees what the second one would have seen.
        (("delete", "update-register"), "mor2-snap", "same row", {"held": "refresh"}, []),
        (("delete", "update-register"), "cow2-snap", "same row", {"held": "refresh"}, [MISSING_TO_DELETE]),
        (("insert", "insert"), "cow2-ser", "same row", {"held": "refresh"}, []),
        # Each command in a mode of its own.
        (("update-register", "delete"), "mor2-snap", "same row", {"second_mode": COW}, [MISSING_DATA]),
        (("update-register", "delete"), "mor2-snap", "same partition", {"second_mode": COW}, []),
        (("update-register", "delete"), "mor2-snap", "other partition", {"second_mode": COW}, []),
        (("delete", "update-register"), "cow2-snap", "same row", {"second_mode": MOR}, [NEW_DELETE]),
        (("delete", "update-register"), "cow3-snap", "same file", {"second_mode": MOR}, [NEW_DELETE]),
        (("delete", "update-register"), "cow2-snap", "other partition", {"second_mode": MOR}, []),
        (("delete", "update-register"), "mor2-snap", "same row", {"second_mode": COW}, [MISSING_DATA]),  # no undelete
        # A condition on the partition leaves the delete files and the new files of other partitions out.
        (("update-register", "delete"), "mor2-snap", "other partition", {"predicate": "id and part"}, []),
        (
            ("update-register", "delete"),
            "mor2-snap",
            "same partition",
            {"predicate": "id and part"},
            [CONFLICTING_DELETES],
        ),
        (("merge-upsert", "insert"), "cow2-ser", "other partition", {"predicate": "id and part"}, []),
        (("merge-upsert", "insert"), "cow2-ser", "same partition", {"predicate": "id and part"}, [CONFLICTING_FILES]),
        (("merge-upsert", "delete"), "mor3-ser", "other partition", {"predicate": "id and part"}, []),
        # The range of a rewritten file includes a key that is not in it.
        (("update-register", "delete"), "cow2-ser", "same partition", {"ranges": "overlapping"}, [CONFLICTING_FILES]),
        (("update-register", "delete"), "cow2-snap", "same partition", {"ranges": "overlapping"}, []),
        (("delete", "update-register"), "mor2-ser", "same partition", {"ranges": "overlapping"}, []),
        # A delete file of two data files is looked up by its partition.
        (("delete", "update-register"), "cow2-snap", "two other files", {"second_mode": MOR}, []),
        (
            ("delete", "update-register"),
            "cow2-snap",
            "two other files",
            {"second_mode": MOR, "granularity": "partition"},
            [NEW_DELETE],
        ),
        (("delete", "update-register"), "mor2-snap", "two other files", {"granularity": "partition"}, []),
        (("update-register", "update-register"), "mor2-snap", "two other files", {}, [CONFLICTING_DELETES]),
    ],
)
def test_what_the_code_says_of_the_further_dimensions(
    pair: tuple[str, str], make: str, placement: str, more: dict[str, Any], reasons: list[str]
) -> None:
    found = replace(cell(*pair, make, placement), **more)
    said = predict(found)
    first_check = found.held == "refresh"
    assert said.reasons == reasons
    assert said.outcome == ("aborted" if reasons else "committed" if first_check else "retried")
    # The catalog is asked once more if it refuses the first commit, and never by what the first check aborts.
    assert said.requests == (not first_check) + (not reasons)


def test_a_refresh_makes_no_other_difference_to_any_cell_but_where_an_attempt_before_dropped_delete_files() -> None:
    for c in plan.chosen(["held=refresh", *MATRIX_KINDS, *ON_REQUEST]).cells():
        here, there = predict(c), predict(replace(c, held="commit"))
        assert here.requests == (0 if here.reasons else 1)
        if c.second == POSITION_DELETES and c.first in (*COMPACTIONS, "overwrite-where-validated"):
            assert (here.reasons, there.reasons) == ([], [MISSING_TO_DELETE])
        else:
            assert here.reasons == there.reasons


def test_an_abort_at_another_check_is_not_as_predicted() -> None:
    early = replace(MEASURED[1], cell=replace(MEASURED[1].cell, held="refresh"))
    assert replace(early, requests=0).as_predicted and replace(MEASURED[1], requests=1).as_predicted
    assert not replace(early, requests=1).as_predicted and not replace(MEASURED[1], requests=0).as_predicted


def test_cells_from_before_the_further_dimensions_are_read() -> None:
    known = MEASURED[1].to_json()
    assert set(known["cell"]) == {"first", "second", "mode", "format_version", "isolation", "placement"}
    assert MeasuredResult.from_json(known) == MEASURED[1]
    more = replace(MEASURED[1], cell=replace(MEASURED[1].cell, held="refresh", second_mode="merge-on-read"), requests=0)
    assert MeasuredResult.from_json(more.to_json()) == more


class Nobody:
    """A board that remembers what it was asked to hold."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def hold(self, op: str, **how: Any) -> Hold:
        self.asked.append({"op": op, **how})
        return Board().hold(op, **how)


def test_a_cell_is_held_at_its_commit_or_at_its_first_load_after_a_write() -> None:
    ordinary = cell("delete", "update-register", "mor2-snap")
    board = Nobody()
    script = CellScript([ordinary, replace(ordinary, held="refresh")], board, threading.Event())  # type: ignore[arg-type]
    one, two = board.asked
    assert (one["op"], two["op"]) == (script.ops(0)[0], script.ops(1)[0])
    assert "kind" not in one and (two["kind"], two["since"]) == ("load", ("store", "write"))


def test_the_matrix_has_every_pair_on_every_make_of_table_once() -> None:
    every = list(cells())
    assert len(every) == len(set(every)) > 1000
    assert {(c.first, c.second) for c in every} == {(a, b) for a in MATRIX_KINDS for b in MATRIX_KINDS}
    assert len({(c.mode, c.format_version, c.isolation) for c in every}) == 8
    assert len({c.name for c in every}) == len(every)


def test_every_cell_is_operations_that_exist_on_keys_that_are_where_they_should_be() -> None:
    in_files = {k for ids in KEYS_OF_FILE.values() for k in ids}
    for c in [*cells(), *cells(REQUESTED)]:
        (table,) = workload([c]).tables
        for kind, key in zip((c.first, c.second), keys(c), strict=True):
            operation = planned(kind, key, table)
            assert OPERATIONS[operation.f].statements(operation.value, "w0-0", table)
            if kind == "merge-insert":
                assert key not in in_files  # else it would do nothing
        if "merge-insert" not in (c.first, c.second):
            assert set(keys(c)) <= in_files


def test_effects_stay_within_the_table() -> None:
    for kind in (*MATRIX_KINDS, *ON_REQUEST):
        for writes in get_args(Writes):
            done = effect(kind, 0, writes, has_deletes=True)
            assert (
                done.removed <= set(KEYS_OF_FILE)
                and done.deletes <= set(KEYS_OF_FILE)
                and done.merged <= set(KEYS_OF_FILE)
            )
            assert not effect(kind, 0, writes).merged


def test_cells_on_request_are_those_in_which_the_operations_have_something_to_do() -> None:
    """Delete files are compacted on version 2 merge-on-read; a schema change has no rows that could be near or far."""
    for only in ([POSITION_DELETES, "insert"], [f"first={POSITION_DELETES}", "second=delete", "placement=same row"]):
        found = [c for c in plan.chosen(only).cells() if c.has_deletes]
        assert {(c.mode, c.second_mode, c.format_version) for c in found} == {(MOR, None, 2)}
    changes = plan.chosen(["first=add-column", "second=insert", "second=drop-column", "version=2"]).cells()
    assert {(c.second, c.placement) for c in changes} == {
        ("insert", "same row"),
        ("drop-column", "same row"),
        ("drop-column", "other partition"),
    }
    assert {c.compares for c in on("location", changes)} == {"location"}
    assert on("location", [UNDELETE]) == [UNDELETE]
    seen = predict(replace(cell("rewrite-data-files", POSITION_DELETES, "mor2-ser"), held="refresh"))
    assert (seen.outcome, seen.reasons) == ("committed", [])  # no attempt before has dropped anything


def test_a_table_has_what_its_operations_need_before_they_begin() -> None:
    """Each operation that works on a column finds it, unless it adds it; a compaction of delete files finds one for each data file."""
    of = [c for c in cells(REQUESTED) if {c.first, c.second} & {*SCHEMA_KINDS, POSITION_DELETES}]
    chosen = of[:: len(of) // 60]
    tables = workload(chosen).tables
    fills = every_file(chosen, tables)
    for c, table in zip(chosen, tables, strict=True):
        made = [o for of_writer in fills for o in of_writer if o.table is table]
        assert {k for o in made if o.f == "insert" for k in o.value["ids"]} == {
            k for ids in KEYS_OF_FILE.values() for k in ids
        }
        there = {o.value["column"] for o in made if o.f == "add-column"}
        for kind, key in zip((c.first, c.second), keys(c), strict=True):
            value = planned(kind, key, table).value
            assert kind not in SCHEMA_KINDS or (value["column"] in there) == (kind != "add-column")
            assert kind != "rename-column" or value["to"] not in there
        gone = [o.value["ids"][0] for o in made if o.f == "delete"]
        assert gone == ([2, 6, 11] if c.has_deletes else [])


# --- what was measured ------------------------------------------------------------------------------------------------

UNDELETE = cell("delete", "update-register", "mor2-snap")
UNTRIED = cell("insert", "insert", "mor2-ser")
MEASURED = [
    MeasuredResult(UNDELETE, OperationEnd("retried", 2), OperationEnd("committed", 1), True, ("undelete",)),
    MeasuredResult(
        cell("delete", "update-register", "mor2-ser"),
        OperationEnd(
            "aborted", None, "ValidationException", "Found conflicting files that can contain records matching … <&>"
        ),
        OperationEnd("committed", 1),
        True,
    ),
    MeasuredResult(
        cell("insert", "insert", "cow3-ser"), OperationEnd("committed", 1), OperationEnd("committed", 1), False
    ),
]


def written(folder: Path, measured: Sequence[MeasuredResult | NotMeasured], tail: str = "") -> Path:
    import json

    folder.mkdir(parents=True, exist_ok=True)
    lines = [{"format": 1, "catalog": "rest", "versions": {"iceberg": "1.12.0"}}, *(m.to_json() for m in measured)]
    (folder / "cells.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines) + tail)
    return folder


def shown(folder: Path) -> str:
    return html(page.of(*read(folder / "cells.jsonl")))


def on_terminal(made: Page) -> str:
    console = Console(width=400, record=True)
    for part in terminal(made):
        console.print(part, highlight=False, markup=False)
    return console.export_text()


def test_what_is_written_is_read_again_but_for_a_torn_line(tmp_path: Path) -> None:
    header, found = read(written(tmp_path, MEASURED, '{"cell": {"fir') / "cells.jsonl")
    assert header["catalog"] == "rest" and found.measured == MEASURED and not found.could_not


def test_a_cell_that_could_not_be_measured_is_on_the_page_until_it_is(tmp_path: Path) -> None:
    failed = [NotMeasured(MEASURED[0].cell, "replay could not decide"), NotMeasured(UNTRIED, "no stack <1>")]
    folder = written(tmp_path, [failed[0], MEASURED[1], failed[1], MEASURED[0]])
    _, found = read(folder / "cells.jsonl")
    assert found.measured == MEASURED[:2] and found.could_not == {UNTRIED: "no stack <1>"}
    text = shown(folder)
    assert "no stack &lt;1&gt;" in text and UNTRIED.name in text and "could not decide" not in text
    assert "1 cell could not be measured: no stack <1>" in on_terminal(page.of({}, found))


@pytest.mark.parametrize("text", ["", "[]\n", '{"format": 2}\n', '{"format": 1}\n{"cell": 3}\n', "no\n"])
def test_what_is_no_matrix_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cells.jsonl"
    path.write_text(text)
    with pytest.raises(MatrixError, match="cells"):
        read(path)
    with pytest.raises(MatrixError, match="nothing"):
        read(tmp_path / "nothing.jsonl")


def test_as_predicted_means_outcome_and_reason() -> None:
    undelete, aborted, early = MEASURED
    assert undelete.as_predicted and aborted.as_predicted and not early.as_predicted
    other_reason = replace(aborted, first=replace(aborted.first, message="Missing required files to delete: …"))
    assert not other_reason.as_predicted
    assert not replace(undelete, second=OperationEnd("unknown")).as_predicted


@pytest.mark.parametrize(
    "change",
    [
        {"first": OperationEnd("retried", 3)},
        {"second": OperationEnd("retried", 2)},
        {"anomalies": ()},
        {"allowed": ("G2-item",)},
    ],
)
def test_two_matrices_differ_where_an_outcome_does(change: dict[str, Any]) -> None:
    assert differences(MEASURED, MEASURED) == []
    assert differences(MEASURED, MEASURED[1:]) == []
    other = [replace(MEASURED[0], **change), *MEASURED[1:]]
    assert [c for c, _, _ in differences(MEASURED, other)] == [UNDELETE]


def test_the_page_shows_rules_results_code_and_runs_escaped(tmp_path: Path) -> None:
    kept = [replace(MEASURED[0], run="runs/matrix/1"), *MEASURED[1:]]
    text = shown(written(tmp_path, kept))
    assert "merge-on-read, v2, snapshot</td><td>same row" in text and "commits, undelete" in text
    assert "Found conflicting files that can contain records matching … &lt;&amp;&gt;" in text
    assert 'href="runs/matrix/1/report.html"' in text
    core = "https://github.com/apache/iceberg/blob/apache-iceberg-1.12.0/core/src/main/java/org/apache/iceberg/"
    assert f'href="{core}MergingSnapshotProducer.java">MergingSnapshotProducer.validateAddedDataFiles' in text
    assert 'class="pair differs" href="#insert-after-insert"' in text  # it was not held
    assert "isolation (serializable, snapshot)" in text
    lines = on_terminal(page.of({}, MeasuredCells(MEASURED, {}), differences(MEASURED, MEASURED), 3))
    assert "3 cells: 1 committed, 1 aborted, 1 anomaly" in lines
    assert re.search(r"isolation \(serializable, snapshot\) +1 +1 +1 *\n", lines), lines
    rules = r"delete after update-register *\n\nwhen +the first +cells *\nsnapshot +commits, undelete +1 *\notherwise +aborts +1 *\n"
    assert re.search(rules, lines), lines
    assert "compared with 3 cells of another matrix: 0 differ" in lines


def test_the_rules_of_many_pairs_are_left_to_the_page() -> None:
    chosen = [c for c in cells() if c.placement == "same row"]
    found = [MeasuredResult(c, OperationEnd("retried", 2), OperationEnd("committed", 1), True) for c in chosen]
    made = page.of({}, MeasuredCells(found, {}))
    assert "and these are 64; --only chooses some" in html(made) and "insert after insert" not in on_terminal(made)


def test_a_catalog_compares_requirements_if_its_clients_send_them() -> None:
    assert [compared(c) for c in ("rest", "nessie", "jdbc", "hive", "nessie-native")] == [
        *["requirements"] * 2,
        *["location"] * 3,
    ]
