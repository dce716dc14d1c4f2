"""The engine matrix: what each engine's facts predict, in which order a run takes its cells, and what is kept and shown."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from checkers.conflicts.measured import CELLS, MatrixError, MeasuredCells, MeasuredResult, OperationEnd, read
from checkers.conflicts.predicted import (
    ENGINE_KINDS,
    MatrixCell,
    engine_cells,
    engine_kinds,
    predict,
)
from checkers.conflicts.validations import (
    CONFLICTING_DELETES,
    CONFLICTING_FILES,
    NEW_DELETE,
)
from checkers.evidence.journal import Journal
from harness.experiments.matrixruns import ENGINES_WORD, CellScript, seats, without_b, workload
from nemesis.proxy.board import Board
from nemesis.wires.wire import Message, Request
from reports.drawing import render
from reports.matrix import engines as engines_page
from reports.matrix import page
from workloads.engines import engines
from workloads.engines.duckdb import MOVED
from workloads.engines.engine import CommitRules, Engine, Promise, Rule
from workloads.engines.engines import ENGINES

MOR = "merge-on-read"
WAIT = 60.0
"""Seconds after which a test gives up on what never comes."""


def cell(first: str, second: str, placement: str = "same row", mode: str = MOR) -> MatrixCell:
    """``first`` and ``second`` are such as ``duckdb delete``."""
    (engine, kind), (other, other_kind) = first.split(), second.split()
    return MatrixCell(kind, other_kind, mode, 2, "serializable", placement, engine, other)  # type: ignore[arg-type]


# --- what the code says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pair", "placement", "outcome", "reasons"),
    [
        # DuckDB requires that main has not moved, wherever that was.
        (("duckdb insert", "spark insert"), "other partition", "aborted", [MOVED]),
        (("duckdb delete", "duckdb update-counter"), "same row", "aborted", [MOVED]),
        (("duckdb insert", "spark rewrite-data-files"), "same row", "aborted", [MOVED]),
        # Spark validates what DuckDB wrote as if Spark had written it: data files, and position deletes without bounds of the key.
        (("spark insert", "duckdb delete"), "same row", "retried", []),
        (("spark delete", "duckdb insert"), "same row", "aborted", [CONFLICTING_FILES]),
        (("spark delete", "duckdb insert"), "other partition", "retried", []),
        (("spark update-counter", "duckdb delete"), "other partition", "aborted", [CONFLICTING_DELETES]),
    ],
)
def test_what_the_code_says(pair: tuple[str, str], placement: str, outcome: str, reasons: list[str]) -> None:
    said = predict(cell(*pair, placement))
    assert (said.outcome, said.reasons) == (outcome, reasons)
    assert said.source


class Drawn(Engine):
    """An engine with the facts of a test."""

    name = "drawn"
    title = "Drawn"


def drawn(monkeypatch: pytest.MonkeyPatch, commits: Mapping[str, CommitRules]) -> None:
    """Make it the engine ``drawn``."""
    own = type("Own", (Drawn,), {"commits": commits, "promises": dict.fromkeys(commits, Promise())})
    both = {**ENGINES, "drawn": own()}
    monkeypatch.setattr(engines, "ENGINES", both)
    monkeypatch.setattr("checkers.conflicts.predicted.ENGINES", both)


RULES: dict[Rule, str] = {
    "added data": "a",
    "removed data": "r",
    "new deletes": "d",
    "replaced files": "f",
    "deletes of replaced files": "x",
}


@pytest.mark.parametrize(
    ("second", "placement", "mode", "broken"),
    [
        ("spark insert", "same row", MOR, ["a"]),
        ("spark insert", "other partition", MOR, []),
        ("spark delete", "same row", MOR, ["d", "x"]),
        ("spark delete", "other partition", MOR, ["d"]),
        ("spark update-counter", "same row", MOR, ["a", "d", "x"]),
        ("spark delete", "same row", "copy-on-write", ["r", "f"]),  # key 2 alone is left of the file
        ("spark update-counter", "same row", "copy-on-write", ["a", "r", "f"]),
        ("spark update-counter", "same file", "copy-on-write", ["a", "r", "f"]),
        ("spark update-counter", "same partition", "copy-on-write", []),
        ("spark rewrite-data-files", "same row", MOR, ["r", "f"]),
    ],
)
def test_each_rule_is_broken_by_what_it_names(
    second: str, placement: str, mode: str, broken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn(monkeypatch, {"delete": CommitRules("rewritten files", RULES, source="s")})
    said = predict(cell("drawn delete", second, placement, mode))
    assert (said.reasons, said.outcome) == (broken, "aborted" if broken else "retried")


def test_an_engine_that_validates_nothing_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn(monkeypatch, {"upsert": CommitRules("equality deletes", source="s")})
    assert predict(cell("drawn upsert", "spark update-counter")).outcome == "retried"


def test_equality_deletes_have_bounds_of_the_key_and_a_compaction_ignores_them(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn(monkeypatch, {"upsert": CommitRules("equality deletes")})
    update, upsert = "spark update-counter", "drawn upsert"
    assert predict(cell(update, upsert)).reasons == [CONFLICTING_FILES, CONFLICTING_DELETES]
    assert predict(cell(update, upsert, "other partition")).outcome == "retried"
    assert NEW_DELETE in predict(cell(update, upsert, mode="copy-on-write")).reasons
    assert predict(cell("spark rewrite-data-files", upsert)).outcome == "retried"


def test_what_an_engine_does_not_say_is_not_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn(monkeypatch, {})
    for pair in (("drawn insert", "spark insert"), ("spark insert", "drawn insert")):
        assert predict(cell(*pair)).outcome == "open"
        assert MeasuredResult(cell(*pair), OperationEnd("aborted"), OperationEnd("committed"), True).as_predicted


def test_every_engine_says_how_it_commits_what_the_matrix_measures() -> None:
    for name, engine in ENGINES.items():
        assert name == "spark" or set(engine_kinds(name)) <= set(engine.commits)
        assert all(c.source for c in engine.commits.values())


def test_the_matrix_has_every_pair_of_what_the_engines_can_do_once() -> None:
    every = list(engine_cells(("spark", "duckdb")))
    assert len({c.name for c in every}) == len(every) == len(set(every))
    ops = {(e, k) for e in ("spark", "duckdb") for k in engine_kinds(e)}
    assert {((c.first_engine, c.first), (c.second_engine, c.second)) for c in every} == {
        (x, y) for x in ops for y in ops
    }
    assert {k for _, k in ops} <= set(ENGINE_KINDS) and ("duckdb", "rewrite-data-files") not in ops


def test_a_level_is_measured_where_the_first_operation_heeds_it() -> None:
    every = engine_cells(("spark", "duckdb", "pyiceberg", "flink"))
    heeding = {(c.first_engine, c.first) for c in every if c.isolation == "snapshot"}
    assert heeding == {
        *(("spark", k) for k in ("update-counter", "delete")),
        *(("pyiceberg", k) for k in ("update-counter", "upsert", "delete")),
    }


# --- the order of a run -----------------------------------------------------------------------------------------------


def test_a_run_has_two_writers_of_each_engine_sparks_first() -> None:
    assert seats([cell("duckdb insert", "duckdb delete")]) == ("spark", "spark", "duckdb", "duckdb")
    assert (
        seats([cell("spark insert", "spark delete")])
        == ("spark", "spark")
        == workload([cell("spark insert", "spark delete")]).engines
    )


def test_with_other_engines_a_client_waits_longer_than_a_held_commit_may_take() -> None:
    alone, mixed = workload([cell("spark insert", "spark delete")]), workload([cell("spark insert", "duckdb delete")])
    assert not alone.catalog_properties and [t.name for t in alone.tables] == ["c0"]
    assert [t.name for t in mixed.tables] == ["c0", "warmup"]
    waits = float(mixed.catalog_properties["rest.client.socket-timeout-ms"]) / 1000
    assert alone.op_timeout < waits < mixed.op_timeout


def test_any_stretch_of_the_cells_has_all_engines_on_both_sides() -> None:
    every = (c for c in engine_cells(("spark", "duckdb", "pyiceberg")) if c.isolation == "serializable")
    for stretch in zip(*([every] * 32), strict=False):
        assert (
            {c.first_engine for c in stretch} == {c.second_engine for c in stretch} == {"spark", "duckdb", "pyiceberg"}
        )


def test_each_first_commit_is_held_until_the_second_operation_is_done() -> None:
    cells = [
        *(cell(f"{x} insert", f"{y} delete") for x in ("spark", "duckdb") for y in ("spark", "duckdb")),
        *(cell(f"{x} delete", f"{y} insert") for y in ("duckdb", "spark") for x in ("duckdb", "spark")),
    ]
    board = Board()
    script = CellScript(cells, board, threading.Event(), without_b)
    planned = workload(cells)
    order: list[tuple[str, str]] = []
    names: dict[str, int] = dict.fromkeys(map(str, range(len(planned.engines))), 0)

    def perform(writer: int, phase_number: int) -> None:
        phase = planned.phases[phase_number]
        for _ in script.operations(planned, phase, writer, 0):
            op = f"w{writer}-{names[str(writer)]}"
            names[str(writer)] += 1
            board.invoked(writer, op)
            plan = board.plan("catalog", writer, Request("commit", "POST /x", Message(b"")))
            order.append(("asks", op))
            if plan.hold is not None:
                plan.hold.reached.set()
                asyncio.run(plan.hold.until_released())
            order.append(("done", op))

    for phase_number in (0, 1):
        with ThreadPoolExecutor(len(planned.engines)) as pool:
            for future in [pool.submit(perform, w, phase_number) for w in range(len(planned.engines))]:
                future.result(WAIT)
    for n in range(len(cells)):
        first, second = script.ops(n)
        assert script.held(n)
        assert order.index(("asks", first)) < order.index(("done", second)) < order.index(("done", first))
    # each table is filled once, then it has two operations; each writer of DuckDB warms up
    assert len(order) == 2 * (len(cells) + 2 * len(cells) + 2)


# --- what was measured ------------------------------------------------------------------------------------------------

RUN = "runs/matrix/20260101T000000.000Z"
MEASURED = [
    MeasuredResult(
        cell("duckdb insert", "spark insert"),
        OperationEnd("aborted", None, "TransactionException", f"Failed to commit … {MOVED}4…): <&>"),
        OperationEnd("committed", 1),
        True,
        run=RUN,
    ),
    MeasuredResult(
        cell("spark insert", "duckdb insert"),
        OperationEnd("retried", 2),
        OperationEnd("committed", 1),
        True,
        ("lost-commit",),
        run=RUN,
    ),
    MeasuredResult(
        cell("duckdb delete", "duckdb delete"),
        OperationEnd("retried", 2),
        OperationEnd("committed", 1),
        True,
        (),
        (),
        RUN,
        ("isolation",),
    ),
]


def lines() -> Iterator[str]:
    header = {"format": 1, "catalog": "rest", "versions": {"iceberg": "1.12.0"}, "of": "engines"}
    yield from (json.dumps(x) for x in (header, *(m.to_json() for m in MEASURED)))


def written(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cells.jsonl").write_text("".join(f"{line}\n" for line in lines()))
    return folder


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert read(written(tmp_path) / "cells.jsonl")[1].measured == MEASURED
    records = [json.loads(line) for line in lines()][1:]
    assert records[0]["cell"]["first_engine"] == "duckdb" and "second_engine" not in records[0]["cell"]
    assert records[0]["predicted"]["outcome"] == "aborted" and records[0]["predicted"]["source"]
    assert records[0]["run"] == RUN


def test_as_predicted_is_outcome_and_words() -> None:
    assert [m.as_predicted for m in MEASURED] == [True, True, False]


def test_the_page_has_outcome_prediction_code_and_run_of_each_cell(tmp_path: Path) -> None:
    html = render.html(page.of(*read(written(tmp_path) / "cells.jsonl")))
    assert html.count(f'href="{RUN}/report.html"') >= 2 * len(MEASURED)
    assert "serializable, same row: DuckDB insert aborted: TransactionException" in html and "&lt;&amp;&gt;" in html
    assert 'class="sq as-retried differs"' in html and 'class="sq as-anomaly"' in html
    assert f"predicted: aborted ({MOVED}" in html
    assert "undecided: isolation" in html
    url, label = engines_page.code(ENGINES["duckdb"].commits["insert"].source)
    assert f'<a href="{url}">{label}</a>' in html and url.startswith("https://github.com/duckdb/")
    assert engines_page.code("SnapshotProducer.commit") == ("", "SnapshotProducer.commit")
    said = str(render.terminal(page.of({"of": "engines"}, MeasuredCells(MEASURED, {})))[0])
    assert "3 cells: 1 retried, 1 aborted, 1 anomaly" in said and "1 cell not as the engines' code says" in said


def test_a_matrix_of_spark_alone_is_not_continued_as_one_of_engines(tmp_path: Path) -> None:
    header = {"format": 1, "catalog": "rest", "versions": {}}
    (tmp_path / "cells.jsonl").write_text(json.dumps(header) + "\n")
    journal = Journal(tmp_path / "cells.jsonl", CELLS, {"catalog": "rest", "versions": {}, "of": ENGINES_WORD})
    with (
        pytest.raises(MatrixError, match=r'another of \(none there, "engines" here\); give another one with --into'),
        journal,
    ):
        raise AssertionError("it was opened")
