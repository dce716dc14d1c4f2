"""The suite file: which cells it means, and what is said of every key that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.run.resolve import SuiteFile, read_suite, read_workload
from nemesis.faults.packages import PACKAGES
from workloads.file import sizes, suite
from workloads.file.changes import with_faults
from workloads.file.mode import QUICK, Mode
from workloads.file.suite import Cell, workload_of
from workloads.file.workload import LIBRARY, WorkloadError

FILE = """\
suite: tiny
description: A few cells.
for: 1h
length: 30s
turns: drawn
keep: 2GB
free: 500MB
stop_on_anomaly: false
cells:
  workloads: [contention, quick]
  catalogs: [rest, polaris]
  faults: [none, lost-acks]
  iceberg: [1.12.0, 1.11.0]
  writers: [2, {spark: 1, duckdb: 1}]
  only:
    - {catalog: rest}
    - {workload: quick}
  exclude:
    - {workload: contention, faults: lost-acks}
known:
  - anomaly: lost-commit
    workload: quick
    catalog: rest
    faults: lost-acks
    iceberg: 1.12.0
    link: https://github.com/apache/iceberg/pull/13352
    note: a note
    runs: 4
"""


def read(folder: Path, text: str = FILE) -> SuiteFile:
    path = folder / "tiny.yaml"
    path.write_text(text)
    return read_suite(path)


def test_each_value_goes_with_each_but_for_what_only_and_exclude_leave_out(tmp_path: Path) -> None:
    file = read(tmp_path)
    names = {c.name for c in file.cells}
    assert (
        len(names) == len(file.cells) == 2 * 2 * (1 + 2 + 2)
    )  # releases, writers; contention/rest, quick/rest, quick/polaris
    assert "contention/rest/none/1.12.0/2" in names and "quick/polaris/lost-acks/1.11.0/spark=1,duckdb=1" in names
    assert not any(
        c.workload == "contention" and (c.catalog == "polaris" or c.faults == "lost-acks") for c in file.cells
    )
    assert {c.stack for c in file.cells} == {(c, r) for c in ("rest", "polaris") for r in ("1.12.0", "1.11.0")}


def test_a_cell_is_its_workload_with_its_faults_writers_and_length(tmp_path: Path) -> None:
    file = read(tmp_path)
    cell = next(c for c in file.cells if c.name == "quick/polaris/lost-acks/1.12.0/spark=1,duckdb=1")
    found = file.workloads[cell]
    assert found.engines == ("spark", "duckdb") and found.catalog == "polaris"
    assert found.nemesis is not None and found.nemesis.packages == ("lost-acks",)
    assert [(p.length.time, p.length.ops) for p in found.resolved_phases()] == [(30.0, None)]


def test_a_cell_may_say_who_decides_the_order(tmp_path: Path) -> None:
    text = FILE.replace("  only:\n", "  order: [free, priority]\n  only:\n", 1)
    file = read(
        tmp_path, text.replace("faults: lost-acks}\n", "faults: lost-acks}\n    - {order: free, catalog: polaris}\n", 1)
    )
    orders = {c.order for c in file.cells}
    assert orders == {"free", "priority(3)"} and len(file.cells) == 2 * len(read(tmp_path).cells) - 2 * 2 * 2
    assert not any(c.order == "free" and c.catalog == "polaris" for c in file.cells)
    cell = next(c for c in file.cells if c.name == "quick/rest/none/1.12.0/2/priority(3)")
    assert file.workloads[cell].order == "priority(3)"


def test_a_cell_may_say_how_spark_runs_and_only_alike_cells_share_a_stack(tmp_path: Path) -> None:
    mode = "session: [spark, fast], cluster: [standalone, local], exclude: [{session: fast, cluster: standalone}]"
    text = f"suite: s\ncells: {{workloads: [quick, lost-acks], catalogs: rest, faults: [none, crashes], {mode}}}\n"
    file = read(tmp_path, text)
    stacks = {("rest", "1.12.0", s, c) for s, c in (("spark", "standalone"), ("spark", "local"), ("fast", "local"))}
    assert {c.stack for c in file.cells} == stacks
    assert {w.mode for w in file.workloads.values()} == {Mode.of(s[2:]) for s in stacks}
    (cell,) = (c for c in file.cells if c.name == "quick/rest/none/1.12.0/fast/local")
    assert file.workloads[cell].mode == QUICK and Cell.from_json(cell.to_json()) == cell
    assert {c.cluster for c in file.left_out} == {"local"} and all(
        "cluster: local" in w for w in file.left_out.values()
    )


def test_a_cell_whose_workload_file_says_how_spark_runs_has_a_stack_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text((LIBRARY / "quick.yaml").read_text() + "session: fast\ncluster: local\n")
    file = read(tmp_path, "suite: s\ncells: {workloads: [mine.yaml, quick], catalogs: [rest]}\n")
    assert [c.stack for c in file.cells] == [("rest", "1.12.0", "fast", "local"), ("rest", "1.12.0")]


def test_what_a_file_leaves_out_has_a_default(tmp_path: Path) -> None:
    file = read(tmp_path, "suite: s\ncells: {workloads: lost-acks, catalogs: rest}\n")
    (cell,) = file.cells
    assert cell.name == "lost-acks/rest/own/1.12.0" and file.suite.length == 60 and file.suite.lasts is None
    own = read_workload(LIBRARY / "lost-acks.yaml").workload
    assert file.workloads[cell].nemesis == own.nemesis and file.workloads[cell].engines == own.engines


def test_a_workload_beside_the_suite_is_found(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text((LIBRARY / "quick.yaml").read_text())
    file = read(tmp_path, "suite: s\ncells: {workloads: [mine.yaml, quick], catalogs: [rest]}\n")
    assert [c.workload for c in file.cells] == ["mine", "quick"] and file.files["mine"] == tmp_path / "mine.yaml"


def test_a_cell_that_cannot_run_is_left_out_with_the_reason(tmp_path: Path) -> None:
    cells = "catalogs: [rest, glue], faults: none, iceberg: [1.12.0, 1.8.1], writers: [{spark: 1, duckdb: 1}]"
    text = f"suite: s\ncells: {{workloads: [quick], {cells}}}\n"
    file = read(tmp_path, text)
    assert [c.name for c in file.cells] == ["quick/rest/none/1.12.0/spark=1,duckdb=1"]
    why = {c.name: reason for c, reason in file.left_out.items()}
    assert "format version 2 at most" in why["quick/rest/none/1.8.1/spark=1,duckdb=1"]
    assert "cannot reach the catalog glue" in why["quick/glue/none/1.12.0/spark=1,duckdb=1"]


WRONG = [
    ("suite: tiny", "suite: Tiny!", 1, "suite: 'Tiny!' must be a name of a-z"),
    ("suite: tiny", "suit: tiny", 1, "unknown key 'suit' (did you mean suite?)"),
    ("for: 1h", "for: 60", 3, "for: 60 has no unit of time; write 60s"),
    ("length: 30s", "length: soon", 4, "length: must be a length of time"),
    ("turns: drawn", "turns: random", 5, "turns: "),
    ("keep: 2GB", "keep: 2", 6, "keep: 2 has no unit; write 2MB or 2GB"),
    ("free: 500MB", "free: lots", 7, "free: must be an amount of storage such as 500MB or 20GB"),
    ("stop_on_anomaly: false", "at_least: 0", 8, "at_least: "),
    ("stop_on_anomaly: false", "stop_on_anomaly: maybe", 8, "stop_on_anomaly: must be"),
    ("[contention, quick]", "[contention, quik]", 10, "workloads: quik: no such workload file (did you mean quick?)"),
    ("[contention, quick]", "[undelete]", 10, "workloads: undelete is a scenario"),
    ("[contention, quick]", "[quick, quick]", 10, "workloads: quick is given twice; keep one"),
    ("[contention, quick]", "[]", 10, "workloads: is empty; give at least one"),
    (
        "[rest, polaris]",
        "[rest, polarsi]",
        11,
        "catalogs: unknown catalog 'polarsi' (did you mean polaris?); allowed: rest",
    ),
    ("[none, lost-acks]", "[none, lost-ack]", 12, "faults: unknown package 'lost-ack' (did you mean lost-acks?)"),
    ("[none, lost-acks]", "[none+crashes, lost-acks]", 12, "faults: none goes with no package; write it alone"),
    (
        "[none, lost-acks]",
        "[crashes+crashes, lost-acks, none]",
        12,
        "faults: crashes+crashes: a package is given twice",
    ),
    (
        "[1.12.0, 1.11.0]",
        "[1.12.0, 1.11.9]",
        13,
        "iceberg: no Iceberg release '1.11.9' (did you mean 1.11.0?); allowed: 1.12.0",
    ),
    ("[2, {spark", "[0, {spark", 14, "must be a number from 1 to 64"),
    ("duckdb: 1}]", "dukdb: 1}]", 14, "unknown engine 'dukdb' (did you mean duckdb?)"),
    ("duckdb: 1}]", "duckdb: none}]", 14, "duckdb: must be a whole number from 1 to 64"),
    ("  only:", "  order: replay x\n  only:", 15, "order: must be free, priority(D)"),
    ("  only:", "  order: [free, sorted]\n  only:", 15, "must be free, priority(D) with D from 1"),
    ("- {catalog: rest}", "- {order: free}", 16, "order: cells: has no order; list them there, or leave this out"),
    ("- {catalog: rest}", "- {catalogue: rest}", 16, "unknown key 'catalogue' (did you mean catalog?)"),
    ("- {catalog: rest}", "- {catalog: hive}", 16, "catalog: no cell has 'hive'; allowed: rest, polaris"),
    ("- {catalog: rest}", "- {}", 16, "needs at least one of: workload, catalog, faults, iceberg, writers"),
    ("faults: lost-acks}\n", "faults: crashes}\n", 19, "faults: no cell has 'crashes'; allowed: none, lost-acks"),
    (
        "anomaly: lost-commit",
        "anomaly: lost-comit",
        21,
        "anomaly: unknown anomaly 'lost-comit' (did you mean lost-commit?)",
    ),
    ("anomaly: lost-commit", "anomaly: []", 21, "anomaly: is empty; give at least one"),
    ("    workload: quick", "    workload: mixed", 22, "workload: no cell has 'mixed'; allowed: contention, quick"),
    ("    catalog: rest\n", "    catalog: hive\n", 23, "catalog: no cell has 'hive'; allowed: rest, polaris"),
    ("    faults: lost-acks\n", "    faults: all\n", 24, "faults: no cell has 'all'; allowed: none, lost-acks"),
    ("link: https", "link: htps", 26, "must be an address that begins with https://"),
    ("    note: a note", "    note: [a]", 27, "note: must"),
    ("    runs: 4", "    runs: 0", 28, "runs: must be at least 1"),
]


@pytest.mark.parametrize(("right", "wrong", "line", "says"), WRONG, ids=[f"{w[1].strip()}" for w in WRONG])
def test_what_is_wrong_with_a_file_names_its_line_and_what_is_allowed(
    tmp_path: Path, right: str, wrong: str, line: int, says: str
) -> None:
    assert right in FILE
    with pytest.raises(WorkloadError) as error:
        read(tmp_path, FILE.replace(right, wrong, 1))
    lines = str(error.value).replace(str(tmp_path / "tiny.yaml"), "tiny.yaml").splitlines()
    assert any(x.startswith(f"tiny.yaml:{line}: ") and says in x for x in lines), "\n".join(lines)


def test_all_problems_are_said_together(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError) as error:
        read(
            tmp_path,
            FILE.replace("polaris]", "polarsi]").replace("lost-commit", "lost-comit").replace("quick]", "quik]"),
        )
    assert len({line.split(":")[1] for line in str(error.value).splitlines()}) >= 3
    with pytest.raises(WorkloadError, match=r"unknown key 'surprise'") as error:
        read(tmp_path, FILE.replace("polaris]", "polarsi]").replace("quick]", "quik]") + "surprise: 1\n")
    assert "unknown catalog 'polarsi'" in str(error.value) and "quik: no such workload" in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cells: {workloads: [quick], catalogs: [rest]}\n", "missing key 'suite'"),
        ("suite: s\n", "missing key 'cells'"),
        ("suite: s\ncells: {workloads: [quick]}\n", "missing key 'catalogs'"),
        ("suite: s\ncells: {workloads: [quick], catalogs: [rest], exclude: [{catalog: rest}]}\n", "leave none"),
        (
            "suite: s\ncells: {workloads: [quick], catalogs: [glue], writers: [{duckdb: 1}]}\n",
            "none can run; quick/glue/own",
        ),
        ("", "the file is empty; start from workloads/suites/nightly.yaml"),
        ("- a\n", "must be a mapping with the keys suite, description, for"),
        (
            "suite: s\ncells: {workloads: [quick], catalogs: [rest], exclude: [{iceberg: 1.11.0}]}\n",
            "iceberg: cells: has no iceberg; list them there",
        ),
    ],
)
def test_a_file_that_says_too_little_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(WorkloadError) as error:
        read(tmp_path, text)
    assert says in str(error.value)


def test_a_workload_file_that_is_wrong_is_said_where_the_suite_names_it(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text((LIBRARY / "quick.yaml").read_text().replace("insert: 5", "inzert: 5"))
    with pytest.raises(WorkloadError) as error:
        read(tmp_path, "suite: s\ncells:\n  workloads: [mine.yaml]\n  catalogs: [rest]\n")
    said = str(error.value)
    assert said.startswith(f"{tmp_path / 'tiny.yaml'}:3: workloads: {tmp_path / 'mine.yaml'}:") and "'inzert'" in said


@pytest.mark.parametrize(
    ("listed", "warned"),
    [
        ("false-failure", True),
        ("[false-failure, missing-file]", False),
        ("lost-commit", False),
        ("missing-file", False),
    ],
)
def test_an_entry_of_known_that_lacks_what_its_defect_also_shows_is_said_before_the_night(
    tmp_path: Path, listed: str, warned: bool
) -> None:
    text = FILE.replace("- anomaly: lost-commit", f"- anomaly: {listed}")
    (tmp_path / "tiny.yaml").write_text(text)
    said: list[str] = []
    read_suite(tmp_path / "tiny.yaml", said.append)
    assert len(said) == warned
    for sentence in said:
        assert sentence.startswith(f"{tmp_path}/tiny.yaml: known.0: false-failure: the scenario rest-503-")
        assert "also shows missing-file; an event that shows what no entry names is new" in sentence


@pytest.mark.parametrize("path", sorted(suite.LIBRARY.glob("*.yaml")), ids=lambda p: p.stem)
def test_suites_of_the_library_can_run(path: Path) -> None:
    said: list[str] = []
    file = read_suite(path, said.append)
    assert said == []
    assert file.suite.suite == path.stem and file.suite.description and file.suite.lasts and not file.left_out
    assert suite.locate(path.stem) == suite.locate(f"suites/{path.name}") == suite.locate(str(path)) == path
    assert max(w.writers for w in file.workloads.values()) <= 3, "two cores have no more"


def test_the_nightly_suite_covers_many_catalogs_and_packages() -> None:
    cells = read_suite(suite.locate("nightly")).cells
    packages = {c.faults for c in cells} & {*PACKAGES}
    assert len({c.catalog for c in cells}) >= 5 and len(packages) >= 3
    for catalog in {c.catalog for c in cells}:
        assert {c.faults for c in cells if c.catalog == catalog} >= packages


def test_a_suite_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(
        WorkloadError, match=r"nightyl: no such suite \(did you mean nightly\?\); in the library: nightly, smoke"
    ):
        suite.locate("nightyl")


def test_faults_keep_the_pace_of_the_file() -> None:
    own = read_workload(LIBRARY / "lost-acks.yaml").workload
    found = with_faults(own, "crashes+partition").nemesis
    assert found is not None and (found.packages, found.faults) == (("crashes", "partition"), ())
    assert own.nemesis is not None and (found.interval, found.duration) == (own.nemesis.interval, own.nemesis.duration)
    assert with_faults(own, "none").nemesis is None and with_faults(own, "own") == own


def test_a_number_of_writers_keeps_the_engines_in_turn() -> None:
    engines = read_workload(LIBRARY / "engines.yaml").workload
    cell = Cell("engines", "rest", "own", "1.12.0", "")
    of = {w: workload_of(engines, replace(cell, writers=w), 10.0).engines for w in ("", "3", "spark=2,pyiceberg=1")}
    assert of["3"] == ("spark", "duckdb", "pyiceberg") and of[""] == engines.engines
    assert of["spark=2,pyiceberg=1"] == ("spark", "spark", "pyiceberg")


def test_values_that_do_not_go_together_are_one_line() -> None:
    file = read_workload(LIBRARY / "upserts.yaml").workload
    with pytest.raises(ValueError, match=r"writers:|operations:") as error:
        workload_of(file, Cell("upserts", "rest", "none", "1.12.0", "duckdb=1"), 10.0)
    assert "\n" not in str(error.value)


@given(st.integers(1, 10**15))
def test_a_size_is_read_as_it_is_written(count: int) -> None:
    assert sizes.size(sizes.written(count)) == count


@pytest.mark.parametrize(
    ("text", "found"), [("20GB", 20 * 10**9), ("1.5GB", 1_500_000_000), (" 3 kB ", 3000), ("3KB", 3000), ("7B", 7)]
)
def test_sizes_are_in_units_of_1000(text: str, found: int) -> None:
    assert sizes.size(text) == found


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0GB", "1 PB", "2000TB", 5, True, None, [1]])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError):
        sizes.size(text)


def test_a_cell_is_stored_as_it_is() -> None:
    cell = Cell("quick", "rest", "none", "1.12.0", "")
    assert Cell.from_json(cell.to_json()) == cell and cell.name == "quick/rest/none/1.12.0"
    ordered = Cell("quick", "rest", "none", "1.12.0", "3", "priority(2)")
    assert Cell.from_json(ordered.to_json()) == ordered and ordered.name == "quick/rest/none/1.12.0/3/priority(2)"
    assert Cell.from_json({k: v for k, v in cell.to_json().items() if k != "order"}) == cell
