"""Writers of several engines: what a file may say of them, and which operations they get."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from workloads import generator
from workloads.engines.engine import Guest, Promise
from workloads.engines.engines import ENGINES, SPARK, in_words
from workloads.file import scenario
from workloads.file.workload import Workload, WorkloadError
from workloads.file.workload_text import parse
from workloads.operations.kinds import KINDS

FILE = """\
workload: w
writers: {spark: 2, duckdb: 1}
length: {ops: 90}
tables: [{name: a, mode: merge-on-read, partitioned: false}]
operations: {insert: 1, update-counter: 1, rewrite-data-files: 1}
"""
SCENARIO = """\
scenario: s
description: DuckDB inserts beside Spark.
link: https://example.org
affected: all
engines: {"0": duckdb}
tables: [{name: t, mode: merge-on-read, partitioned: false, seed_rows: 2}]
operations:
  - {name: first, writer: 0, do: insert, value: {ids: [7]}}
  - {name: second, writer: 1, do: insert, value: {ids: [8]}}
final: {t: [0, 1, 7, 8]}
"""


@pytest.mark.parametrize(
    ("text", "engines"),
    [
        ("3", ("spark",) * 3),
        ("{spark: 2, duckdb: 1}", ("spark", "spark", "duckdb")),
        ("{duckdb: 1, spark: 0}", ("duckdb",)),
        ("[duckdb, spark, duckdb]", ("duckdb", "spark", "duckdb")),
    ],
)
def test_writers_are_a_number_or_engines(text: str, engines: tuple[str, ...]) -> None:
    assert parse(FILE.replace("{spark: 2, duckdb: 1}", text).replace("rewrite-data-files", "delete")).engines == engines


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("duckdb: 1", "dukdb: 1"), "w.yaml:2: writers: unknown engine 'dukdb' (did you mean duckdb?)"),
        (("duckdb: 1", "duckdb: -1"), "w.yaml:2: writers: duckdb: must be a whole number from 0 to 64, not -1"),
        (("duckdb: 1", "duckdb: yes"), "w.yaml:2: writers: duckdb: must be a number, not true"),
        (("spark: 2, duckdb: 1", "spark: 0"), "w.yaml:2: writers: must be 1 to 64 in all, not 0"),
        (("spark: 2, duckdb: 1", "spark: 40, duckdb: 40"), "w.yaml:2: writers: must be 1 to 64 in all, not 80"),
        (("{spark: 2, duckdb: 1}", "[]"), "w.yaml:2: writers: must be 1 to 64 names of engines"),
        (
            ("insert: 1, update-counter: 1, ", ""),
            "w.yaml:2: writers: duckdb can do none of the operations of phase main: rewrite-data-files; it can do insert",
        ),
        (
            ("length: {ops: 90}", "phases: [{name: a, length: {ops: 3}, writers: {spark: 1, duckdb: 2}}]"),
            "w.yaml:3: writers: the workload has only 1 of duckdb; raise writers at the top",
        ),
        (
            ("length: {ops: 90}", "phases: [{name: a, length: {ops: 3}, writers: {flink: 1}}]"),
            "w.yaml:3: writers: the workload has no writer of flink; raise writers at the top",
        ),
        (
            ("length: {ops: 90}", "length: {ops: 9}\nclocks: {1: -2h}"),
            'w.yaml:4: key 1 must be a word; write it in quotes: "1"',
        ),
        (
            ("length: {ops: 90}", "length: {ops: 9}\nnemesis: {faults: [{verb: delay, seconds: 1s, whose: flnk}]}"),
            "w.yaml:4: whose: no writer is flnk's; allowed: all, one, spark, duckdb",
        ),
    ],
)
def test_what_is_wrong_with_engines_is_said_in_one_line(change: tuple[str, str], says: str) -> None:
    with pytest.raises(WorkloadError) as error:
        parse(FILE.replace(*change), "w.yaml")
    assert str(error.value).startswith(says) and "\n" not in str(error.value)


def test_a_phase_takes_the_first_writers_of_each_engine() -> None:
    w = parse(
        FILE.replace("{spark: 2, duckdb: 1}", "[spark, duckdb, spark, duckdb]").replace(
            "length: {ops: 90}",
            "phases: [{name: one, length: {ops: 4}, writers: {duckdb: 2, spark: 1}}, {name: two, length: {ops: 4}, writers: 2}]",
        )
    )
    one, two = w.resolved_phases()
    assert w.members(one) == (0, 1, 3)
    assert w.members(two) == (0, 1)


def drawn(w: Workload, writer: int) -> Counter[str]:
    [phase] = w.resolved_phases()
    return Counter(o.f for o in generator.operations(w, phase, writer, 7))


def test_a_writer_draws_what_its_engine_can_do_and_its_share() -> None:
    w = parse(FILE)
    spark, duckdb = drawn(w, 0), drawn(w, 2)
    assert spark.total() == duckdb.total() == 30
    assert {*spark} == {"insert", "update-counter", "rewrite-data-files"}
    assert {*duckdb} == {"insert", "update-counter"}


def test_other_engines_do_not_change_what_sparks_writers_draw() -> None:
    alone = parse(FILE.replace("{spark: 2, duckdb: 1}", "3"))
    mixed = parse(FILE)
    for writer in (0, 1):
        [a], [m] = alone.resolved_phases(), mixed.resolved_phases()
        assert list(islice(generator.operations(alone, a, writer, 3), 20)) == list(
            islice(generator.operations(mixed, m, writer, 3), 20)
        )


def test_a_table_that_an_engine_cannot_write_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(ENGINES["duckdb"]), "can", lambda self, f, table: f == "insert" and table.name == "b")
    w = parse(FILE.replace("[{name: a,", "[{name: b}, {name: a,"))
    [phase] = w.resolved_phases()
    assert {(o.f, o.table.name) for o in generator.operations(w, phase, 2, 7)} == {("insert", "b")}


def test_in_words() -> None:
    assert in_words(("spark",) * 4) == "4 writers"
    assert in_words(("duckdb",)) == "1 writer (1 duckdb)"
    assert in_words(("spark", "duckdb", "spark")) == "3 writers (2 spark, 1 duckdb)"


def test_a_scenario_says_which_writer_is_whose() -> None:
    s = scenario.parse(SCENARIO)
    assert s.by_writer == ("duckdb", "spark")
    assert s.workload().engines == ("duckdb", "spark")
    assert s.op("first") == "w0-0"  # Spark's writers fill the tables
    assert s.op("second") == "w1-1"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("duckdb}", "duck}"), "engines: unknown engine 'duck' (did you mean duckdb?)"),
        (('"0": duckdb', '"5": duckdb'), "engines: no operation is writer 5's; the writers are 0 to 1"),
        (
            ("writer: 0, do: insert, value: {ids: [7]}", "writer: 0, do: rewrite-manifests"),
            "do: duckdb cannot do rewrite-manifests on t; it can do insert",
        ),
    ],
)
def test_what_is_wrong_with_a_scenarios_engines_is_said(change: tuple[str, str], says: str) -> None:
    with pytest.raises(WorkloadError) as error:
        scenario.parse(SCENARIO.replace(*change), "s.yaml")
    assert says in str(error.value)


def test_every_engine_promises_something_of_kinds_that_there_are() -> None:
    assert next(iter(ENGINES)) == SPARK
    for name, engine in ENGINES.items():
        assert engine.name == name and engine.title
        if isinstance(engine, Guest):
            assert engine.promises and {*engine.promises} <= {*KINDS}
            for promise in engine.promises.values():
                assert isinstance(promise, Promise)


def test_an_unknown_error_leaves_the_outcome_open_and_a_read_changes_nothing() -> None:
    for engine in ENGINES.values():
        if isinstance(engine, Guest):
            assert engine.outcome("insert", [["x.NeverHeardOf", "boom"]]) == "info"
            assert engine.outcome("read", [["x.NeverHeardOf", "boom"]]) == "fail"
            assert engine.conflict([["x.NeverHeardOf", "boom"]]) is None
