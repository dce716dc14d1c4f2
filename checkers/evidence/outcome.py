"""What an operation's error says about its effect: certainly none (``fail``) or unknown (``info``).

Only the class names in the Java exception chain decide. Unknown is the default: only classes that are known to be thrown
before, or instead of, a commit are ``fail``, and one class anywhere in the chain that leaves the commit's outcome open overrules
them. Iceberg itself errs here (it can report a landed commit as failed); the ``commits`` checker finds such cases.
"""

from __future__ import annotations

import re
from typing import Literal

from checkers.evidence.history import ErrorChain, Operation
from workloads.engines.engines import ENGINES, SPARK

UNKNOWN_OUTCOME = frozenset(
    {
        "org.apache.iceberg.exceptions.CommitStateUnknownException",
        "org.apache.iceberg.exceptions.RESTException",
        "org.apache.iceberg.exceptions.ServiceFailureException",
        "org.apache.iceberg.jdbc.UncheckedSQLException",
        "org.apache.iceberg.jdbc.UncheckedInterruptedException",
    }
)
"""The commit's outcome is unknown, whatever else is in the chain (core/rest/ErrorHandlers, core/jdbc, core/rest/HTTPClient)."""

DELTA_CONFLICTS = frozenset(
    f"io.delta.exceptions.{name}Exception"
    for name in (
        "ConcurrentAppend",
        "ConcurrentDeleteDelete",
        "ConcurrentDeleteRead",
        "ConcurrentTransaction",
        "ConcurrentWrite",
        "MetadataChanged",
        "ProtocolChanged",
    )
)
"""Classes by which Delta aborts a statement because of a concurrent commit. The log stores that icequake uses never take a writer's own
version for another's: the conditional one reads it back, and the others write the same bytes again."""

NOT_COMMITTED = frozenset(
    {
        "org.apache.iceberg.exceptions.CommitFailedException",
        "org.apache.iceberg.exceptions.ValidationException",
        "org.apache.iceberg.exceptions.BadRequestException",
        "org.apache.iceberg.exceptions.NotAuthorizedException",
        "org.apache.iceberg.exceptions.ForbiddenException",
        "org.apache.iceberg.exceptions.NoSuchTableException",
        "org.apache.iceberg.exceptions.NoSuchNamespaceException",
        "org.apache.iceberg.exceptions.AlreadyExistsException",
        "org.apache.iceberg.exceptions.ServiceUnavailableException",
        *DELTA_CONFLICTS,
        "org.apache.spark.sql.AnalysisException",
        "org.apache.spark.sql.catalyst.ExtendedAnalysisException",
        "org.apache.spark.sql.catalyst.analysis.NoSuchTableException",
        "org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException",
        "org.apache.spark.sql.catalyst.parser.ParseException",
        "org.apache.spark.SparkUnsupportedOperationException",
        "TransactionCatalog$NoSuchEndpoint",
        "harness.writers.by_transaction.NotRest",
    }
)
"""Thrown before a commit attempt, or because the commit was refused (``CleanableFailure``, Spark's analysis, and what
``harness.writers.by_transaction`` raises if the catalog does not have its endpoint)."""

STOPPED = "icequake.RunStopped"
"""The class of an operation that was still going on when the run was stopped, by the user or by an error; nobody knows its outcome."""

FAILED_JOB = ("org.apache.spark.SparkException", "Job aborted due to stage failure")

NO_ANCESTOR = re.compile(r"Snapshot \d+ is not an ancestor of \d+")
"""Where a catalog lists only the current snapshot (Nessie over REST), a writer's validation cannot walk back to its own
(``SnapshotUtil.ancestorsBetween``, before each attempt to commit)."""

DEFINITE_MESSAGES: tuple[tuple[str, str | re.Pattern[str]], ...] = (
    ("java.lang.IllegalStateException", "Runtime file filtering is not possible"),
    ("java.lang.RuntimeException", "Cannot commit rewrite because of a ValidationException or CommitFailedException"),
    ("java.lang.IllegalArgumentException", NO_ANCESTOR),
    FAILED_JOB,
)
"""Class and beginning of the message: runtime filtering (Spark ≤ 4.0), a refused compaction, a validation that does not find its starting
snapshot, tasks that failed before any commit."""

CONFLICTS = frozenset(
    {
        "org.apache.iceberg.exceptions.CommitFailedException",
        "org.apache.iceberg.exceptions.ValidationException",
    }
    | DELTA_CONFLICTS
)
"""Classes by which Iceberg or Delta aborts an operation because of a concurrent commit."""


def classify(error: ErrorChain, *, writes: bool, job_first: bool = True) -> Literal["fail", "info"]:
    """The type, ``fail`` or ``info``, recorded for an operation that raised ``error``.

    Args:
        error: ``[[class, message], ...]``, outermost first; causes and suppressed exceptions.
        writes: whether the operation can change anything. If it cannot, any error is a ``fail``.
        job_first: whether its Spark jobs come before its commit, so that a failed job means that it did not commit.
    """
    if not writes:
        return "fail"
    classes = {c for c, _ in error}
    if classes & UNKNOWN_OUTCOME:
        return "info"
    if classes & NOT_COMMITTED:
        return "fail"
    known = [k for k in DEFINITE_MESSAGES if job_first or k is not FAILED_JOB]
    if any(c == name and _begins(m, start) for c, m in error for name, start in known):
        return "fail"
    return "info"


def conflict(error: ErrorChain | None) -> str | None:
    """The class (last part of its name) by which a concurrent commit aborted the operation; None for any other error."""
    found = [c for c, _ in error or () if c in CONFLICTS]
    if found:
        return found[-1].rsplit(".", 1)[-1]
    refused = [DEFINITE_MESSAGES[1], DEFINITE_MESSAGES[2]]
    if any(c == name and _begins(m, start) for c, m in error or () for name, start in refused):
        return "ValidationException"
    return None


def conflict_of(o: Operation) -> str | None:
    """The class by which a concurrent commit made an operation's engine give it up; None for any other end. Of an engine that this version
    does not know, Iceberg's own classes count: its Java library may have thrown them."""
    if o.type != "fail" or not o.error:
        return None
    error = [link for link in o.error if len(link) == 2]
    own = ENGINES[o.engine].conflict(error) if o.engine in ENGINES else None
    return own or (conflict(error) if o.engine == SPARK or o.engine not in ENGINES else None)


def _begins(message: str, start: str | re.Pattern[str]) -> bool:
    return message.startswith(start) if isinstance(start, str) else start.match(message) is not None
