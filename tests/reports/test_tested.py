"""A script tests what it is about: each name that it can show is tested by the script, or there is no script and the reason is said."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from importlib import resources
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from reports.names import names
from reports.reproduction.exportable import why_not
from reports.reproduction.script import script
from reports.reproduction.tested import IN_METADATA
from workloads.file.anomalies import entries_of
from workloads.file.scenario import LIBRARY, Scenario, load

RIGHT = load(LIBRARY / "undelete-serializable.yaml")
"""A scenario after which the rows are right."""
WRONG = load(LIBRARY / "undelete.yaml")


def about(scenario: Scenario, *anomalies: str) -> Scenario:
    return scenario.model_copy(update={"anomalies": entries_of(*anomalies)})


@pytest.mark.parametrize("name", names())
def test_a_script_whose_rows_are_right_tests_its_anomaly_or_there_is_none(name: str) -> None:
    """What compares rows alone would say “reproduced” of a table without the defect."""
    scenario = about(RIGHT, name)
    if (why := why_not(scenario)) is not None:
        assert name in why and why.startswith("it shows "), why
        return
    text = script(scenario)
    ast.parse(text)
    assert name in IN_METADATA or name == "kept-row-id"
    assert (
        f"({name})" in text and f"{IN_METADATA[name]}, tables))" in text if name in IN_METADATA else "BEFORE[i]" in text
    )


def test_the_reasons_say_what_a_script_does_not_see() -> None:
    for name, why in (
        (
            "lost-swap",
            "it shows lost-swap, which is seen in what the catalog answered to each request, and a script does not keep that",
        ),
        (
            "lost-update",
            "it shows lost-update, but leaves the ids of a table without it, and a script compares ids alone",
        ),
        ("missing-file", "it shows missing-file, and a script can only try to read the table, which succeeds"),
        ("no-progress", "it shows no-progress, which is a matter of time, and a script measures none"),
        ("manifest-count", "it shows manifest-count, which no script tests"),
        ("vanished-schema", "it shows vanished-schema, and a script only looks for columns that were added"),
    ):
        assert why_not(about(RIGHT, name)) == why


def test_what_clients_saw_follows_from_what_is_tested() -> None:
    assert why_not(about(WRONG, "undelete", "nonlinearizable", "isolation/lost-update")) is None
    assert why_not(about(RIGHT, "summary-count", "nonlinearizable")) is None
    assert "manifest-count" in (why_not(about(WRONG, "undelete", "manifest-count")) or "")


def test_a_test_of_rows_says_what_was_expected_and_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert 'check("ids in t", came := ids(after, "t"), [0, 1, 2, 3], [[0, 2, 3]])' in script(WRONG)
    check = part("run")["check"]
    assert check("ids in t", [0, 1], [0, 1], [[0]]) and not check("ids in t", [0], [0, 1], [[0]])
    came, absent = capsys.readouterr().out.splitlines()
    assert came == "ok    ids in t: expected [0], found [0, 1]"
    assert absent == "right ids in t: expected [0], found [0]; the defect is [0, 1]"
    assert not check("delete", "fails", "acknowledged")
    assert capsys.readouterr().out == "WRONG delete: fails, expected acknowledged\n"


def test_a_signal_that_came_in_a_block_that_fails_is_not_lost() -> None:
    """Java ends by the signal that the script waits with, so the block fails."""
    run = part("run")
    run["signal"] = signal
    with pytest.raises(KeyboardInterrupt), run["undisturbed"]():
        signal.raise_signal(signal.SIGINT)
        raise ConnectionRefusedError


def played(
    scenario: Scenario, ids: list[int], differ: bool = False, held: bool = True, **errors: str | None
) -> tuple[str, dict[str, Any]]:
    """How a script ends whose statements end with these errors, and which finds these rows, and whether numbers differ; and what it defines."""
    text = script(scenario)
    run, end = part("run"), text[text.index("def software") :].removesuffix("main()\n")
    event = SimpleNamespace(is_set=lambda: True)
    moments = {"completed": event, "held": SimpleNamespace(is_set=lambda: held)}
    told = {"problem": None, "fails": None, "reads": None, **moments}
    steps = [
        SimpleNamespace(
            name=s.name, writer=s.writer, hold=s.hold, fault=s.fault, at=s.at, error=errors.get(s.name), **told
        )
        for s in scenario.operations
    ]
    spark = SimpleNamespace(_jvm=MagicMock(), sql=lambda _: None)
    spark._jvm.org.apache.iceberg.IcebergBuild.fullVersion.return_value = "Apache Iceberg 1.13.0 (commit f1x)"
    fakes = dict.fromkeys(
        ("catalog_server", "start_spark", "session", "properties", "in_files", "tell"), lambda *_: spark
    )
    names = {
        "STEPS": steps,
        "WRITERS": [],
        "TABLES": [],
        "RUNTIME": ["a:b:1.12.0"],
        "CATALOG": "SQLite",
        "ids": lambda *_: ids,
        "LONGEST": 0,
    }
    names |= {
        "differs": lambda *_: differ,
        "pyspark": SimpleNamespace(__version__="4.1.4"),
        "os": os,
        "importlib": importlib,
    }
    names |= {"EXPECT": ["written", "fixed"], "summary_count": None}
    exec(end, found := {**run, **fakes, **names})
    outcome, tested = found["reproduce"]("", None)
    assert tested == "Apache Iceberg 1.13.0 (commit f1x), Spark 4.1.4, catalog: SQLite"
    return outcome, found


@pytest.mark.parametrize(
    ("why", "scenario", "ends", "codes"),
    [
        ("as written", WRONG, {"ids": [0, 1, 2, 3]}, (0, 1)),
        ("right rows", WRONG, {"ids": [0, 2, 3]}, (1, 0)),
        ("a refusal, after which the same rows are right", WRONG, {"ids": [0, 1, 2, 3], "delete": "x.ValidationException: y"}, (1, 0)),
        ("other wrong rows", WRONG, {"ids": [3]}, (1, 1)),
        ("a jar that does not fit", WRONG, {"ids": [0, 1, 2, 3], "delete": "java.lang.NoSuchMethodError"}, (1, 2)),
        ("another order", WRONG, {"ids": [0, 2, 3], "held": False}, (1, 2)),
        ("numbers that differ", about(RIGHT, "summary-count"), {"ids": [0, 1, 2, 3], "differ": True, "delete": "ValidationException"}, (1, 1)),
        ("numbers that agree", about(RIGHT, "summary-count"), {"ids": [0, 1, 2, 3], "delete": "ValidationException"}, (1, 0)),
    ],
)  # fmt: skip
def test_a_fix_is_one_only_if_the_order_came_and_the_defect_did_not(
    why: str, scenario: Scenario, ends: dict[str, Any], codes: tuple[int, int]
) -> None:
    outcome, found = played(scenario, **ends)
    assert found["OUTCOMES"][outcome][:2] == codes, (why, outcome)


@pytest.mark.parametrize(
    ("options", "ids", "last"),
    [
        ((), [0, 1, 2, 3], "exit code 0: it came as written"),
        ((), [0, 2, 3], "exit code 1: it did not come as written"),
        (("--expect", "fixed"), [0, 2, 3], "exit code 0: the defect is gone"),
        (("--expect", "fixed"), [0, 1, 2, 3], "exit code 1: the defect is not gone"),
    ],
)
def test_the_last_line_says_what_the_exit_code_means(
    options: tuple[str, ...],
    ids: list[int],
    last: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, found = played(WRONG, ids)
    ended: list[int] = []
    capsys.readouterr()
    monkeypatch.setattr("sys.argv", ["undelete.py", *options])
    found |= {"PYSPARK": "4.1.9", "HEADLINE": "x", "argparse": argparse, "sys": sys, "tempfile": tempfile}
    found |= {"shutil": shutil, "signal": SimpleNamespace(SIGTERM=15, SIGINT=2, signal=lambda *_: None), "re": re}
    found |= {"threading": SimpleNamespace(), "os": SimpleNamespace(environ={}, path=os.path, _exit=ended.append)}
    found["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].strip() == last and ended == [int(last[10])]
    assert not any(line.startswith("WRONG") for line in lines) or not options


@pytest.mark.parametrize(
    ("jar", "pyspark", "says"),
    [
        ("", "4.0.5", "this is for pyspark 4.1.4, not 4.0.5: pip install pyspark==4.1.4"),
        (
            "iceberg-spark-runtime-4.0_2.13-1.13.0-SNAPSHOT.jar",
            "4.1.4",
            "ICEBERG_JAR is for pyspark 4.0, not 4.1.4: pip install 'pyspark==4.0.*'",
        ),
        ("iceberg-spark-runtime-4.0_2.13-1.13.0-SNAPSHOT.jar", "4.0.5", ""),
        ("my.jar", "4.1.4", ""),
    ],
)
def test_a_jar_for_another_spark_says_what_must_be_installed(
    jar: str, pyspark: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(WRONG)
    exec(text[text.index("def wrong_spark") : text.index("def main")], found := {"re": re, "PYSPARK": "4.1.4"})
    found |= {"os": SimpleNamespace(environ={"ICEBERG_JAR": f"/x/{jar}"} if jar else {}, path=os.path)}
    found["pyspark"] = SimpleNamespace(__version__=pyspark)
    assert found["wrong_spark"]() == says


def test_a_promise_has_no_fix_to_expect() -> None:
    assert 'EXPECT = ["written"]' in script(load(LIBRARY / "undelete-v3.yaml"))
    assert 'EXPECT = ["written", "fixed"]' in script(WRONG)


# --- the tests of metadata, on tables drawn by hand -------------------------------------------------------------------


def part(name: str) -> dict[str, Any]:
    """What a part of a script defines."""
    found: dict[str, Any] = {
        "contextlib": contextlib,
        "json": json,
        "SimpleNamespace": SimpleNamespace,
        "SHOWN": "ok   ",
    }
    exec(resources.files("reports").joinpath(f"templates/reproduction/{name}.txt").read_text(), found)
    return found


def data(path: str, by: int, first: int | None, rows: int = 2, status: int = 1) -> dict[str, Any]:
    """An entry of a data file."""
    size = {"record_count": rows, "file_size_in_bytes": 100, "first_row_id": first}
    return {"content": 0, "file_format": "PARQUET", "file_path": path, "snapshot": by, "status": status, **size}


def vector(path: str, of: str, by: int, status: int = 1, kind: str = "PUFFIN") -> dict[str, Any]:
    """An entry of a deletion vector, or of a file of position deletes."""
    size = {"record_count": 1, "file_size_in_bytes": 50, "content_offset": 4, "content_size_in_bytes": 10}
    where = {"content": 1, "file_format": kind, "file_path": path, "referenced_data_file": of}
    return {**where, **size, "snapshot": by, "status": status}


def drawn() -> Any:
    """Two snapshots of a right table: the first adds two files, the second a vector for one and a file."""
    added = {"added-data-files": "2", "added-records": "4", "added-files-size": "200", "total-records": "4"}
    later = {"added-data-files": "1", "added-dvs": "1", "added-delete-files": "1", "added-files-size": "110"}
    later |= {
        "total-delete-files": "1",
        "total-position-deletes": "1",
        "total-data-files": "3",
        "total-files-size": "310",
    }
    one = {"snapshot-id": 1, "sequence-number": 1, "first-row-id": 0, "added-rows": 4, "summary": added}
    two = {
        "snapshot-id": 2,
        "sequence-number": 2,
        "first-row-id": 4,
        "added-rows": 2,
        "parent-snapshot-id": 1,
        "summary": later,
    }
    versions = [
        {"format-version": 3, "next-row-id": 0, "current-snapshot-id": -1, "snapshots": []},
        {"next-row-id": 4, "current-snapshot-id": 1, "snapshots": [one], "snapshot-log": [{"snapshot-id": 1}]},
        {"next-row-id": 6, "current-snapshot-id": 2, "snapshots": [one, two]},
    ]
    versions[2]["snapshot-log"] = [{"snapshot-id": 1}, {"snapshot-id": 2}]
    a, b = data("a", 1, 0), data("b", 1, 2)
    old = [{**f, "status": 0} for f in (a, b)]
    files = {1: [a, b], 2: [*old, data("c", 2, 4), vector("v", "a", 2)]}
    return SimpleNamespace(
        name="t", versions=[{"format-version": 3, **v} for v in versions], files=files.__getitem__, every=files
    )


def summary(key: str, value: str) -> Callable[[Any], None]:
    return lambda t: t.versions[2]["snapshots"][1]["summary"].update({key: value})


def file(n: int, **changed: Any) -> Callable[[Any], None]:
    """One entry of the second snapshot says something else."""
    return lambda t: t.every[2][n].update(changed)


def version(n: int, **changed: Any) -> Callable[[Any], None]:
    return lambda t: t.versions[n].update(changed)


def second(**changed: Any) -> Callable[[Any], None]:
    """The second snapshot says something else of itself."""
    return lambda t: t.versions[2]["snapshots"][1].update({k.replace("_", "-"): v for k, v in changed.items()})


def also(entry: dict[str, Any]) -> Callable[[Any], None]:
    return lambda t: t.every[2].append(entry)


PLANTED = [
    (
        "summary-count",
        summary("added-delete-files", "0"),
        "snapshot 2, added-delete-files of its summary",
        "1, found 0",
    ),
    ("summary-count", summary("removed-dvs", "1"), "snapshot 2, removed-dvs of its summary", "0, found 1"),
    ("summary-count", summary("deleted-data-files", "1"), "deleted-data-files", "0, found 1"),
    ("summary-count", summary("total-files-size", "350"), "total-files-size", "310, found 350"),
    ("file-row-id", file(2, first_row_id=None), "first row id of c", "4, found None"),
    ("file-row-id", file(2, first_row_id=5), "first row id of c", "4, found 5"),
    ("file-row-id", file(2, first_row_id=1), "first row id of c", "4, found 1"),
    ("row-id-overlap", second(first_row_id=3), "first row id of snapshot 2, at least", "4, found 3"),
    ("row-id-overlap", also(data("d", 2, 5)), "snapshot 2, first row id of d, at least", "6, found 5"),
    ("next-row-id", version(2, **{"next-row-id": 5}), "next-row-id with snapshot 2, at least", "6, found 5"),
    ("first-row-id", second(first_row_id=None), "first-row-id of snapshot 2, at least", "4, found None"),
    ("first-row-id", second(first_row_id=3), "first-row-id of snapshot 2, at least", "4, found 3"),
    (
        "removed-not-live",
        also(data("z", 2, 9, status=2)),
        "z, removed by snapshot 2, in its parent",
        "live, found not there",
    ),
    (
        "snapshot-log",
        version(2, **{"snapshot-log": [{"snapshot-id": n} for n in (1, 7, 2)]}),
        "snapshot-log when main is at 2",
        "[1, 2], found [1, 7, 2]",
    ),
    ("several-dvs", also(vector("w", "a", 2)), "snapshot 2, deletion vectors of a", "1, found 2"),
    ("duplicate-path", also(data("a", 2, 6)), "snapshot 2, entries of a", "1, found 2"),
    ("dangling-dv", file(3, referenced_data_file="gone"), "whose data file is not there", "0, found 1"),
    (
        "position-deletes-in-v3",
        also(vector("p", "a", 2, kind="PARQUET")),
        "snapshot 2, files of position deletes",
        "0, found 1",
    ),
]


@pytest.mark.parametrize("name", IN_METADATA)
def test_a_right_table_does_not_show_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    defined, t = part("metadata"), drawn()
    assert not defined["differs"](name, defined[IN_METADATA[name]], [t])
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(f"right {name}: in none of ") and told[0].endswith(" places, expected and found agree")
    assert name == "removed-not-live" or (" of 0" not in told[0] and "expected" in told[1])
    assert {p[0] for p in PLANTED} == {*IN_METADATA}, "each has a planted defect"


@pytest.mark.parametrize(("name", "plant", "place", "numbers"), PLANTED)
def test_a_planted_defect_is_shown_with_its_numbers(
    name: str, plant: Callable[[Any], None], place: str, numbers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    defined, t = part("metadata"), drawn()
    plant(t)
    assert defined["differs"](name, defined[IN_METADATA[name]], [t])
    told = capsys.readouterr().out.splitlines()
    assert (
        told[0].startswith(f"ok    {name}: in 1 of ") and place in told[1] and told[1].endswith(f": expected {numbers}")
    )


def test_a_removed_file_of_the_parent_and_expired_entries_are_right() -> None:
    defined, t = part("metadata"), drawn()
    t.every[2][0]["status"], t.every[2][0]["snapshot"] = 2, 2
    assert not defined["differs"]("removed-not-live", defined["removed_not_live"], [t])
    t.versions.append(
        {**t.versions[2], "snapshots": t.versions[2]["snapshots"][1:], "snapshot-log": [{"snapshot-id": 2}]}
    )
    assert not defined["differs"]("snapshot-log", defined["snapshot_log"], [t])
