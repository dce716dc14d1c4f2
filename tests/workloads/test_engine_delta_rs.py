"""delta-rs: what it can do, where, and what its errors mean. Its statements run in a folder if deltalake is installed."""

from __future__ import annotations

import pytest

from compose.install.engines import EXTRAS
from workloads.engines.delta_rs import RELEASE_PROPERTY, RELEASES, DeltaRs, translated
from workloads.engines.engines import ENGINES
from workloads.tables import TableSpec

DELTA = TableSpec(name="t", format="delta")
ICEBERG = TableSpec(name="t", mode="merge-on-read")
CONFLICT = "Failed to commit transaction: Commit failed: a concurrent transaction deleted the same data your transaction deletes."


def test_an_engine_beside_spark_knows_only_tables_of_its_formats() -> None:
    for name in ("pyiceberg", "committer"):
        assert ENGINES[name].can("read", ICEBERG) or ENGINES[name].can("insert", ICEBERG)
        assert not any(ENGINES[name].can(kind, DELTA) for kind in ("insert", "read", "update-counter"))
    assert ENGINES["delta-rs"].can("insert", DELTA) and not ENGINES["delta-rs"].can("insert", ICEBERG)


def test_each_release_can_be_installed_and_no_other() -> None:
    engine = DeltaRs()
    assert [EXTRAS[engine.needs_with({RELEASE_PROPERTY: r})].title for r in RELEASES] == [
        f"delta-rs {r}" for r in RELEASES
    ]
    assert engine.needs_with({}) == engine.needs
    assert engine.needs_with({RELEASE_PROPERTY: "0.1"}) not in EXTRAS


@pytest.mark.parametrize(
    ("error", "outcome", "conflict"),
    [
        (["deltalake.exceptions.CommitFailedError", CONFLICT], "fail", "CommitFailedError"),
        (["deltalake.exceptions.TableNotFoundError", "no log files"], "fail", None),
        (["deltalake.exceptions.CommitFailedError", "Failed to commit transaction: timed out"], "info", None),
        (["builtins.OSError", "Generic S3 error"], "info", None),
    ],
)
def test_only_a_conflict_says_that_nothing_was_committed(error: list[str], outcome: str, conflict: str | None) -> None:
    assert DeltaRs().outcome("insert", [error]) == outcome
    assert DeltaRs().conflict([error]) == conflict


def test_a_read_that_fails_had_no_effect() -> None:
    assert DeltaRs().outcome("read", [["builtins.OSError", "Generic S3 error"]]) == "fail"


def test_conditions_are_those_of_datafusion() -> None:
    assert translated("part = 1 AND pmod(cnt, 2) = 0") == "part = 1 AND ((cnt % 2) + 2) % 2 = 0"
