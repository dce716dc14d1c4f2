"""Names of anomalies in workload and scenario files, and options that a file does not go with."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkers.columns.screen import ANOMALY_AT_EVERY_LEVEL
from checkers.judge.check import ALL, ANOMALIES
from checkers.selftest import ALL as PLANTED
from checkers.verdict import Checker
from harness.run import resolve
from tests.support.runs import inside
from workloads.file import scenario, suite, workload
from workloads.file.workload import WorkloadError

FILE = """\
workload: small
tables: [{name: t}]
length: {ops: 3}
writers: 4
operations: {insert: 1}
expect: [undelete]
clocks: {"3": "-1h"}
nemesis: {faults: [{verb: delay, seconds: 1s, writers: [1, 2]}]}
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "w.yaml"
    file.write_text(text)
    return file


def test_a_misspelt_anomaly_is_an_error_beside_the_others(tmp_path: Path) -> None:
    file = written(tmp_path, FILE.replace("undelete", "undelte").replace("insert", "insrt"))
    with pytest.raises(WorkloadError) as error:
        resolve.read_workload(file)
    first, second = str(error.value).splitlines()
    assert first.startswith(f"{file}:5: unknown operation 'insrt'")
    assert second == f"{file}:6: expect: unknown anomaly 'undelte' (did you mean undelete?)", "not all 140 names"


def test_where_nothing_similar_is_known_all_anomalies_are_named(tmp_path: Path) -> None:
    file = written(tmp_path, FILE.replace("undelete", "qqqqq"))
    with pytest.raises(
        WorkloadError, match=r":6: expect: unknown anomaly 'qqqqq'; allowed: G-nonadjacent, .*wrong-time-travel"
    ):
        resolve.read_workload(file)


def test_a_misspelt_anomaly_that_is_allowed_is_an_error_too(tmp_path: Path) -> None:
    file = written(tmp_path, FILE + "allow: [stale-raed]\n")
    with pytest.raises(
        WorkloadError, match=r"w\.yaml:9: allow: unknown anomaly 'stale-raed' \(did you mean stale-read\?\)"
    ):
        resolve.read_workload(file)
    text = (scenario.LIBRARY / "undelete.yaml").read_text() + "allow: [stale-raed]\n"
    with pytest.raises(WorkloadError, match=r"allow: unknown anomaly 'stale-raed'"):
        resolve.read_scenario(written(tmp_path, text))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("pointr/lost-update", "allow: unknown checker 'pointr' (did you mean pointer?); allowed: replay, isolation, pointer"),
        ("pointer/lost-updat", "allow: unknown anomaly 'lost-updat' (did you mean lost-update?)"),
        ("pointer/undelete", "allow: pointer does not find undelete; allowed: replay/undelete"),
        ("{name: undelete, tables: [hott]}", "allow: unknown table 'hott'; allowed: t"),
        ("{name: undelete, tabels: [t]}", "unknown key 'tabels' (did you mean tables?); allowed: name, checker, tables"),
        ("{name: undelete, tables: []}", "tables: is empty; give at least one"),
        ("{tables: [t]}", "missing key 'name'"),
        ("a/b/c", "allow: must be a name, CHECKER/NAME, or {name: NAME, checker: CHECKER, tables: [TABLE]}, not 'a/b/c'"),
        ("5", "allow: must be a name, CHECKER/NAME, or {name: NAME, checker: CHECKER, tables: [TABLE]}, not 5"),
        ("{name: a/b, checker: c}", "allow: a/b names another checker than checker: does; leave one of them out"),
    ],
)  # fmt: skip
def test_an_entry_that_means_nothing_is_an_error_with_what_is_allowed(tmp_path: Path, entry: str, said: str) -> None:
    file = written(tmp_path, FILE + f"allow:\n  - stale-read\n  - {entry}\n")
    with pytest.raises(WorkloadError) as error:
        resolve.read_workload(file)
    assert str(error.value) == f"{file}:11: {said}"
    text = (scenario.LIBRARY / "undelete.yaml").read_text() + f"allow:\n  - stale-read\n  - {entry}\n"
    with pytest.raises(WorkloadError) as error:
        resolve.read_scenario(written(tmp_path, text))
    assert str(error.value) == f"{file}:{len(text.splitlines())}: {said}"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("pointr/lost-update", "anomaly: unknown checker 'pointr' (did you mean pointer?); allowed: replay, isolation, pointer"),
        ("{name: undelete, tables: [hott]}", "anomaly: unknown table 'hott' (did you mean hot?); allowed: hot"),
        ("a/b/c", "anomaly: must be a name, CHECKER/NAME, or {name: NAME, checker: CHECKER, tables: [TABLE]}, not 'a/b/c'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("listed", [True, False])
def test_an_entry_of_a_suite_that_means_nothing_is_an_error_too(
    tmp_path: Path, entry: str, said: str, listed: bool
) -> None:
    text = (suite.LIBRARY / "smoke.yaml").read_text()
    known = "[lost-commit, false-failure, replay/missing-file, metadata/missing-file]"
    (line, *_) = (n for n, x in enumerate(text.splitlines(), 1) if known in x)
    file = written(tmp_path, text.replace(known, f"[undelete, {entry}]" if listed else entry, 1))
    with pytest.raises(WorkloadError) as error:
        resolve.read_suite(file)
    assert str(error.value) == f"{file}:{line}: {said}"


def test_a_misspelt_anomaly_of_a_scenario_is_an_error(tmp_path: Path) -> None:
    text = (scenario.LIBRARY / "undelete.yaml").read_text()
    assert "anomalies: [undelete" in text
    with pytest.raises(WorkloadError, match=r"anomalies: unknown anomaly 'undelte' \(did you mean undelete\?\)"):
        resolve.read_scenario(written(tmp_path, text.replace("anomalies: [undelete", "anomalies: [undelte")))


def test_the_command_line_looks_the_anomalies_up(tmp_path: Path) -> None:
    done = inside("run", written(tmp_path, FILE.replace("undelete", "undelte, lost-swop")), cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert done.returncode == 254 and len(lines) == 2 and all(x.startswith("icequake: ") for x in lines), done.stderr
    assert "did you mean undelete?" in lines[0] and "did you mean lost-swap?" in lines[1]


def test_a_misspelt_catalog_is_an_error_beside_the_others(tmp_path: Path) -> None:
    file = written(tmp_path, FILE.replace("undelete", "undelte") + "catalog: nessi\n")
    with pytest.raises(WorkloadError) as error:
        resolve.read_workload(file)
    first, second = str(error.value).splitlines()
    assert first.startswith(f"{file}:6: expect: unknown anomaly 'undelte'")
    assert second.startswith(f"{file}:9: unknown catalog 'nessi' (did you mean nessie?); allowed: rest, ")
    assert second.endswith("or a file of your own, my.yaml")


def test_a_misspelt_catalog_of_a_scenario_is_an_error(tmp_path: Path) -> None:
    text = (scenario.LIBRARY / "undelete.yaml").read_text() + "catalog: nessi\n"
    with pytest.raises(
        WorkloadError,
        match=r"unknown catalog 'nessi' \(did you mean nessie\?\); allowed: [a-z, -]+, or a file of .*\.yaml$",
    ):
        resolve.read_scenario(written(tmp_path, text))


def test_a_workload_file_names_a_catalogs_file_from_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "catalogs").mkdir()
    (tmp_path / "catalogs" / "my.yaml").write_text("name: lake\n")
    found = resolve.read_workload(written(tmp_path, FILE + "catalog: catalogs/my.yaml\n"))
    assert found.workload.catalog == str(tmp_path / "catalogs" / "my.yaml")
    fewer = found.workload.model_copy(update={"engines": ("spark",) * 4})
    assert found.changed(fewer, "--writers 4").catalog == found.workload.catalog
    file = written(tmp_path, FILE + "catalog: my.yaml\n")
    with pytest.raises(WorkloadError, match=r"w\.yaml:9: catalog: .*my\.yaml does not exist; give the path"):
        resolve.read_workload(file)


def test_every_file_of_the_library_expects_anomalies_that_there_are() -> None:
    for path in workload.LIBRARY.glob("*.yaml"):
        resolve.read_workload(path)
    for path in scenario.paths([]):
        resolve.read_scenario(path)


def test_fewer_writers_than_a_file_speaks_of_are_refused(tmp_path: Path) -> None:
    done = inside("run", written(tmp_path, FILE), "--writers", "2", cwd=tmp_path)
    assert done.returncode == 254
    clocks, fault = done.stderr.splitlines()
    assert "w.yaml:7: with --writers 2: clocks: there is no writer 3; the workload has 2, from 0" in clocks
    assert "w.yaml:8: with --writers 2: writers: there is no writer 2; the workload has 2, from 0" in fault


def test_a_fault_that_is_left_out_needs_no_writer(tmp_path: Path) -> None:
    file = resolve.read_workload(written(tmp_path, FILE.replace('clocks: {"3": "-1h"}', "")))
    fewer = file.workload.model_copy(update={"engines": ("spark",) * 2})
    with pytest.raises(WorkloadError, match="there is no writer 2"):
        file.changed(fewer, "--writers 2")
    assert file.changed(fewer.model_copy(update={"nemesis": None}), "--writers 2").writers == 2


# --- are the names complete? ------------------------------------------------------------------------------------------

NAMING = {"Anomaly", "anomaly", "Finding", "_make", "make", "found", "changed", "vanished"}
"""Functions of the checkers whose first argument, or ``name``, is what an anomaly is called."""
NAMED_BY_A_TABLE = ("retries", "isolation", "linearizable", "metadata", "protocol")


def sources(checker: Checker) -> list[Path]:
    """The files that name a checker's anomalies: its own, and when it has a folder and no table of names, those beside it."""
    file = Path(inspect.getfile(type(checker)))
    alone = file.parent.name == "checkers" or checker.name in NAMED_BY_A_TABLE
    return [file] if alone else sorted(file.parent.glob("*.py"))


def strings(node: ast.expr) -> Iterator[str]:
    """The strings that an expression can be, as far as it says so."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from strings(node.body)
        yield from strings(node.orelse)


def assigned(function: ast.AST, name: str) -> Iterator[str]:
    """The strings that a function assigns to a variable, also side by side with others."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id == name:
                yield from strings(node.value)
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for one, value in zip(target.elts, node.value.elts, strict=True):
                    if isinstance(one, ast.Name) and one.id == name:
                        yield from strings(value)


def named_in(path: Path) -> set[str]:
    """The names that a checker's source gives to what it finds."""
    tree = ast.parse(path.read_text())
    out: set[str] = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in ast.walk(function):
            if not isinstance(call, ast.Call):
                continue
            called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            names = [k.value for k in call.keywords if k.arg == "name"]
            if called in NAMING:
                names += call.args[:1]
            elif called != "replace":
                continue
            for node in names:
                out |= {*strings(node)} | ({*assigned(function, node.id)} if isinstance(node, ast.Name) else set())
    return out - {""}


@pytest.mark.parametrize("checker", ALL, ids=lambda c: c.name)
def test_a_checker_declares_every_name_that_its_source_has(checker: Checker) -> None:
    found = set[str]().union(*map(named_in, sources(checker)))
    if checker.name not in NAMED_BY_A_TABLE:
        found |= {reason for reason, whose in ANOMALY_AT_EVERY_LEVEL.items() if whose == checker.name}
        assert checker.names <= found
    assert found & ANOMALIES <= checker.names
    assert bool(checker.names) == (checker.name not in ("retries", "load"))


@pytest.mark.parametrize("bug", PLANTED, ids=lambda b: b.name)
def test_a_checker_declares_every_name_that_a_planted_bug_is_found_by(bug: object) -> None:
    declared = {c.name: c.names for c in ALL}
    assert bug.finds <= declared[bug.checker]  # type: ignore[attr-defined]


def test_a_checker_declares_what_is_found_on_columns() -> None:
    declared = {c.name: c.names for c in ALL}
    assert not [reason for reason, whose in ANOMALY_AT_EVERY_LEVEL.items() if reason not in declared[whose]]


def test_what_says_that_an_anomaly_is_not_there_cannot_be_expected() -> None:
    assert "expected-not-found" not in ANOMALIES and "assertion-failed" in ANOMALIES


def test_wrong_types_and_unknown_names_are_said_together(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(
        "workload: w\nwriters: many\ncatalog: rst\ntables: [{name: t, properties: {gc.enabled: 'yes'}}]\nlength: {time: 90}\n"
        "operations:\n  merge: 6\nnemesis: {packages: [lost-ack]}\nexpect: [undelet]\nassert: {retry_rate: '<50'}\n"
    )
    with pytest.raises(WorkloadError) as error:
        resolve.read_workload(file)
    said = [line.removeprefix(f"{file}:") for line in str(error.value).splitlines()]
    assert [line.split(";")[0].partition(" not allowed")[0] for line in said] == [
        "2: writers: must be a whole number, not 'many'",
        "3: unknown catalog 'rst' (did you mean rest?)",
        '4: gc.enabled: must be "true" or "false", not \'yes\': Iceberg takes every other word for false',
        "5: time: 90 has no unit of time",
        "7: unknown operation 'merge' (did you mean merge-upsert or merge-insert or merge-update or merge-delete?)",
        "8: unknown package 'lost-ack' (did you mean lost-acks?)",
        "9: expect: unknown anomaly 'undelet' (did you mean undelete?)",
        '10: retry_rate is a share: write "<50%"',
    ]


def test_wrong_types_and_unknown_names_of_a_scenario_are_said_together(tmp_path: Path) -> None:
    text = (scenario.LIBRARY / "undelete.yaml").read_text()
    file = tmp_path / "s.yaml"
    file.write_text(text.replace("do: delete,", "do: merge,", 1).replace("seed_rows: ", "seed_rows: x", 1))
    with pytest.raises(WorkloadError) as error:
        resolve.read_scenario(file)
    said = str(error.value)
    assert (
        "seed_rows: must be a whole number" in said
        and "do: unknown operation 'merge' (did you mean merge-upsert" in said
    )
