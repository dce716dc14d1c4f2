"""What an exception says about a commit: certainly nothing happened, or nobody knows."""

from __future__ import annotations

import pytest

from checkers.evidence.outcome import classify, conflict
from harness.writers.slot import outcome

ICEBERG = "org.apache.iceberg.exceptions."


@pytest.mark.parametrize(
    ("chain", "kind"),
    [
        ([[ICEBERG + "CommitFailedException", "requirement"]], "fail"),
        ([["org.apache.spark.SparkException", "Writing job failed"], [ICEBERG + "ValidationException", "x"]], "fail"),
        ([[ICEBERG + "CommitStateUnknownException", "503"]], "info"),
        ([[ICEBERG + "CommitStateUnknownException", "x"], [ICEBERG + "CommitFailedException", "x"]], "info"),
        ([["org.apache.spark.SparkException", "Job aborted due to stage failure: Task 0"]], "fail"),
        ([["org.apache.spark.SparkException", "Writing job failed"]], "info"),
        ([[ICEBERG + "RESTException", "Error occurred while processing POST request"]], "info"),
        (
            [["java.lang.RuntimeException", "Cannot commit rewrite because of a ValidationException or CommitFailed"]],
            "info",
        ),
        (
            [
                [
                    "java.lang.RuntimeException",
                    "Cannot commit rewrite because of a ValidationException or CommitFailedException. This usually means",
                ]
            ],
            "fail",
        ),
        ([["java.lang.IllegalStateException", "Runtime file filtering is not possible: the table"]], "fail"),
        ([["java.lang.IllegalStateException", "something else"]], "info"),
        ([["org.apache.spark.sql.AnalysisException", "no such column"]], "fail"),
        ([["icequake.WriterDied", "w0"]], "info"),
        ([], "info"),
    ],
)
def test_unknown_is_the_default_and_one_open_fate_overrules(chain: list[list[str]], kind: str) -> None:
    assert classify(chain, writes=True) == kind


def test_what_cannot_change_anything_has_failed() -> None:
    assert classify([["icequake.WriterDied", ""]], writes=False) == "fail"


def test_a_compaction_with_partial_progress_never_failed_for_certain() -> None:
    answer = {"ok": False, "error": [[ICEBERG + "CommitFailedException", ""]]}
    assert outcome("rewrite-data-files", {}, answer) == "fail"
    assert outcome("rewrite-data-files", {"partial_progress": True}, answer) == "info"


def test_an_expiry_whose_job_died_may_have_expired_snapshots() -> None:
    answer = {"ok": False, "error": [["org.apache.spark.SparkException", "Job aborted due to stage failure: lost"]]}
    assert outcome("expire-snapshots", {}, answer) == "info"
    assert outcome("rewrite-manifests", {}, answer) == "fail"
    refused = {"ok": False, "error": [["org.apache.iceberg.exceptions.CommitFailedException", "Requirement failed"]]}
    assert outcome("expire-snapshots", {}, refused) == "fail"


def test_a_conflict_is_named_by_the_class_that_iceberg_threw() -> None:
    assert conflict([["x.SparkException", ""], [ICEBERG + "ValidationException", ""]]) == "ValidationException"
    assert conflict([["org.apache.spark.sql.AnalysisException", ""]]) is None
    assert conflict(None) is None


@pytest.mark.parametrize("lacking", ["TransactionCatalog$NoSuchEndpoint", "harness.writers.by_transaction.NotRest"])
def test_a_catalog_without_the_endpoint_has_not_committed(lacking: str) -> None:
    assert classify([["org.apache.spark.SparkException", "Job aborted"], [lacking, "no"]], writes=True) == "fail"
    assert conflict([[lacking, "no"]]) is None, "nobody was in the way"


def test_an_operation_that_committed_to_one_of_its_tables_is_of_unknown_outcome() -> None:
    from harness.writers.session import error_chain
    from harness.writers.two_tables import PartlyCommitted

    error = PartlyCommitted("c.n.t committed, then c.n.u did not: ValidationException: Found conflicting files")
    assert classify(error_chain(error), writes=True) == "info"
