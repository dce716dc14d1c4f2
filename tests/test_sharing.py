"""The tests on Spark are told apart by what they share."""

from __future__ import annotations

import re

import pytest

from tests.support.sharing import LONGEST, ROOT, SHARED, arguments, fixtures, group, longest

SPARK = "tests/spark"


@pytest.mark.parametrize(
    ("test", "shared"),
    [
        (f"{SPARK}/test_failures.py::test_a_set_up_write_that_fails_ends_the_run_with_the_exception", "bench"),
        (f"{SPARK}/test_failures.py::test_a_chosen_port_that_is_in_use_names_service_port_and_holder", None),
        (f"{SPARK}/test_run.py::test_the_recorded_run_is_good", "bench"),
        (f"{SPARK}/test_tablelog.py::test_every_operation[2-copy-on-write-partitioned]", "stack"),
        (f"{SPARK}/test_engine_duckdb.py::test_a_transfer_of_duckdb_is_one_transaction", "stack"),
        ("tests/compose/test_stack.py::TestRealStack::test_everything_listens_on_loopback_only", None),
    ],
    ids=["argument", "neither", "fixture of the file", "fixture of fixtures", "stack below", "class"],
)
def test_a_test_is_with_those_that_use_the_same_bench_or_stack_or_else_with_its_file(
    test: str, shared: str | None
) -> None:
    assert group(test) == (shared or test.partition("::")[0])


@pytest.mark.parametrize("path", [str(p.relative_to(ROOT)) for p in sorted((ROOT / SPARK).glob("test_*.py"))])
def test_nobody_looks_into_the_stack_for_what_was_written_on_the_bench(path: str) -> None:
    """They are two: ``bench.endpoints`` has the bench's catalog, and each of its writers can run SQL."""
    for name in arguments(path):
        if name.startswith("test_"):
            used = fixtures(path, name)
            assert not ("bench" in used and used & {"stack", "spark"}), name


def test_the_longest_group_starts_first_and_every_one_that_is_named_exists() -> None:
    assert longest(["tests/spark/test_lake.py", "tests/spark/test_up.py", "stack"]) == "stack"
    assert longest(["tests/spark/test_lake.py", "tests/spark/test_compare.py"]) == "tests/spark/test_lake.py"
    assert all(name in SHARED.values() or (ROOT / name).is_file() for name in LONGEST)


def test_make_looks_for_tests_on_spark_in_every_folder_that_has_one() -> None:
    (given,) = re.findall(
        r'^ON_SPARK = -m "spark [^"]*" (.*?) -n ', (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    files = [path for path in (ROOT / "tests").rglob("*.py") if "mark." + "spark" in path.read_text(encoding="utf-8")]
    assert {"/".join(path.relative_to(ROOT).parts[:2]) for path in files} == {*given.split()}
