"""Committers: Iceberg's own Java client without an engine, so cheap that fifty writers fit on two cores.

All committers of a run are threads of one JVM (``compose/install/java/committers``). Each has its own catalog client and table handles,
writes its data files itself and commits them by Iceberg's API: ``newFastAppend``, ``newAppend``, ``newRowDelta``, ``newOverwrite``,
``newRewrite``, with the validations that Spark's writers ask for. After a refused commit Iceberg tries again by itself. It waits as the
table's properties say, or the committer waits as the workload's ``backoff`` says. The completion of each operation says what every attempt
of its commit took (``attempts``).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar, Literal

from workloads.backoff import ICEBERGS_POLICY, Backoff
from workloads.engines.engine import CommitRules, ErrorChain, Pooled, Promise
from workloads.operations.kind import Arguments, new_rows
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

ICEBERG_PACKAGE = "org.apache.iceberg."
OPEN = frozenset(
    {
        f"{ICEBERG_PACKAGE}exceptions.CommitStateUnknownException",
        f"{ICEBERG_PACKAGE}exceptions.RESTException",
        f"{ICEBERG_PACKAGE}exceptions.ServiceFailureException",
        f"{ICEBERG_PACKAGE}jdbc.UncheckedSQLException",
        f"{ICEBERG_PACKAGE}jdbc.UncheckedInterruptedException",
    }
)
"""Classes anywhere in a chain that leave the commit's outcome open, whatever else is there."""


class Committer(Pooled):
    """Iceberg's Java client; appends are fast appends, as those of Spark's streams."""

    name = "committer"
    title = "Iceberg's Java client"
    software: ClassVar[Mapping[str, str]] = {"Iceberg": "iceberg"}
    needs = "committer"
    marks = True
    merges: ClassVar[bool] = False
    catalogs = frozenset({"rest", "jdbc", "hive", "nessie"})
    promises: ClassVar[Mapping[str, Promise]] = {
        **dict.fromkeys(
            ("insert", "update-register", "update-counter", "update-append", "delete", "rewrite-data-files"),
            Promise(source="validates as SparkWrite and SparkPositionDeltaWrite of Iceberg 1.12.0 do"),
        ),
        **dict.fromkeys(("read", "read-key"), Promise(source="reads one snapshot: IcebergGenerics")),
    }
    commits: ClassVar[Mapping[str, CommitRules]] = {
        "insert": CommitRules("appends", source="iceberg-core, FastAppend and MergeAppend: no validation"),
        "update-counter": CommitRules(
            "position deletes",
            {
                "added data": "Found conflicting files that can contain records matching",
                "removed data": "Cannot commit, missing data files",
                "new deletes": "Found new conflicting delete files that can apply to records matching",
            },
            source="Committer.java, change: newRowDelta with the validations of SparkPositionDeltaWrite",
        ),
        "delete": CommitRules(
            "position deletes",
            {
                "added data": "Found conflicting files that can contain records matching",
                "removed data": "Cannot commit, missing data files",
            },
            source="Committer.java, change: newRowDelta with the validations of SparkPositionDeltaWrite for a DELETE",
        ),
        "rewrite-data-files": CommitRules(
            "rewritten files",
            {
                "replaced files": "Missing required files to delete",
                "deletes of replaced files": "Cannot commit, found new position delete for replaced data file",
            },
            source="Committer.java, rewrite: newRewrite; BaseRewriteFiles.validate",
        ),
    }
    """On the merge-on-read tables of the engine matrix."""
    definite = frozenset(
        f"{ICEBERG_PACKAGE}exceptions.{name}"
        for name in (
            "CommitFailedException",
            "ValidationException",
            "BadRequestException",
            "NotAuthorizedException",
            "ForbiddenException",
            "NoSuchTableException",
            "AlreadyExistsException",
            "ServiceUnavailableException",
        )
    )
    conflicts = frozenset(
        {f"{ICEBERG_PACKAGE}exceptions.CommitFailedException", f"{ICEBERG_PACKAGE}exceptions.ValidationException"}
    )

    def can(self, f: str, table: TableSpec) -> bool:
        """It writes no deletion vectors, so it changes rows of version-3 tables by copy-on-write only."""
        if not super().can(f, table):
            return False
        changes = KINDS[f].verb in ("update", "delete")
        return not (changes and table.mode == "merge-on-read" and table.format_version > 2)

    def outcome(self, f: str, error: ErrorChain) -> Literal["fail", "info"]:
        return "info" if KINDS[f].commits and any(name in OPEN for name, _ in error) else super().outcome(f, error)

    def request(
        self,
        op: str,
        f: str,
        value: Arguments,
        table: TableSpec,
        identifier: tuple[str, str],
        backoff: Backoff,
        rng: Random,
    ) -> dict[str, Any]:
        """As ``Committer.java`` reads it."""
        message: dict[str, Any] = {"op": op, "table": ".".join(identifier)}
        if f in ("read", "read-key"):
            return {**message, "do": "read", "ids": [value["id"]] if f == "read-key" else None}
        message["waits_ms"] = None if backoff.policy == ICEBERGS_POLICY else [w * 1000 for w in backoff.waits(rng)]
        if f == "insert":
            rows = [row._asdict() for row in new_rows(value, op, table)]
            return {**message, "do": "append", "rows": rows, "merges": self.merges}
        if f == "rewrite-data-files":
            return {**message, "do": "rewrite"}
        changes: dict[str, dict[str, Any]] = {
            "update-register": {"set": {"val": op}},
            "update-counter": {"add": {"cnt": 1}},
            "update-append": {"append": {"log": f",{op}"}},
        }
        return {
            **message,
            "do": "change",
            "ids": value["ids"],
            "copy_on_write": table.mode == "copy-on-write",
            "serializable": table.isolation == "serializable",
            **changes.get(f, {}),
        }


class MergingCommitter(Committer):
    """Iceberg's Java client; appends are merge appends, as those of Spark's INSERT."""

    name = "merging-committer"
    title = "Iceberg's Java client (MergeAppend)"
    merges = True
