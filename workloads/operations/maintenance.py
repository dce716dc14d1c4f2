"""Maintenance: compaction, expiry, removal of orphan files, replacement, rollback."""

from __future__ import annotations

from typing import Any, ClassVar

from workloads.ddl import definition
from workloads.operations.kind import (
    EVERYTHING,
    NOTHING,
    PARTS,
    Arguments,
    Draw,
    Kind,
    ProcedureResult,
    Statement,
    Touches,
    WriteSet,
    ancestor,
    numbers_of,
    whole_numbers,
)
from workloads.tables import DELTA, State, TableSpec


class _Maintenance(Kind):
    """A procedure that must not change any row."""

    verb = "maintenance"
    changes_rows = False

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return NOTHING

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])


class RewriteDataFiles(_Maintenance):
    """Compaction by the ``rewrite_data_files`` procedure: bin-pack, sort or Z-order (only if it is asked for), all files or only the
    qualifying ones.

    Its files keep the data sequence number that the table had at its start, so that equality deletes that are committed meanwhile apply to
    them; with ``starting_sequence: false`` they get a new one, and Iceberg refuses the commit after any new delete of their rows.
    """

    name = "rewrite-data-files"
    instead: ClassVar = {DELTA: "optimize"}
    counts = 3
    options = ("strategy", "partial_progress", "starting_sequence")

    def arguments(self, draw: Draw) -> Arguments:
        strategy = draw.options.get("strategy") or draw.rng.choice(["binpack", "sort"])
        value: Arguments = {"strategy": strategy, "all": draw.rng.random() < 0.5}
        if draw.options.get("partial_progress"):
            value["partial_progress"] = True
        if draw.options.get("starting_sequence") is False:
            value["starting_sequence"] = False
        return value

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        options = {"rewrite-all": "true"} if value["all"] else {"min-input-files": "2", "delete-file-threshold": "1"}
        if value.get("partial_progress"):
            options |= {"partial-progress.enabled": "true", "partial-progress.max-commits": "3"}
        if value.get("starting_sequence") is False:
            options |= {"use-starting-sequence-number": "false"}
        pairs = ", ".join(f"'{k}', '{v}'" for k, v in options.items())
        order = {"sort": "id ASC NULLS LAST", "zorder": "zorder(id, cnt)"}.get(value["strategy"])
        sort = f", strategy => 'sort', sort_order => '{order}'" if order else ""
        return [
            Statement(
                f"CALL {{catalog}}.system.rewrite_data_files(table => '{{identifier}}', options => map({pairs}){sort})",
                result=True,
            )
        ]

    def claims(self, value: Arguments, result: Any) -> ProcedureResult | None:
        """https://iceberg.apache.org/docs/latest/spark-procedures/#rewrite_data_files, table *Output*.

        With partial progress a commit that failed is ignored, also one of unknown outcome (``BaseCommitService``).
        """
        row = numbers_of(result, least=self.counts)
        if row is None:
            return None
        deletes = row[4] if len(row) > 4 else None
        return ProcedureResult(
            row[0], row[1], row[2], removed_deletes=deletes, at_least=bool(value.get("partial_progress"))
        )


class RewritePositionDeleteFiles(_Maintenance):
    """Compaction of position delete files by ``rewrite_position_delete_files``."""

    name = "rewrite-position-delete-files"
    counts = 4

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [
            Statement(
                "CALL {catalog}.system.rewrite_position_delete_files(table => '{identifier}', "
                "options => map('rewrite-all', 'true'))",
                result=True,
            )
        ]

    def claims(self, value: Arguments, result: Any) -> ProcedureResult | None:
        """https://iceberg.apache.org/docs/latest/spark-procedures/#rewrite_position_delete_files, table *Output*."""
        row = numbers_of(result, least=self.counts)
        return (
            None
            if row is None
            else ProcedureResult(removed_deletes=row[0], added_deletes=row[1], added_delete_bytes=row[3])
        )


class RewriteManifests(_Maintenance):
    """Regroups manifests by the procedure ``rewrite_manifests``."""

    name = "rewrite-manifests"
    counts = 2

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement("CALL {catalog}.system.rewrite_manifests(table => '{identifier}')", result=True)]

    def claims(self, value: Arguments, result: Any) -> ProcedureResult | None:
        """https://iceberg.apache.org/docs/latest/spark-procedures/#rewrite_manifests, table *Output*."""
        row = numbers_of(result, least=self.counts)
        return None if row is None else ProcedureResult(replaced_manifests=row[0], created_manifests=row[1])


class ExpireSnapshots(_Maintenance):
    """Drops old snapshots and deletes the files that only they need. Leaves no snapshot of its own."""

    name = "expire-snapshots"
    counts = 6
    writes = False
    takes_away = frozenset({"snapshot", "aged ref"})
    deletes_files = True
    needs_captured_log = True
    options = ("retain_last",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"retain_last": int(draw.options.get("retain_last", 10))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [
            Statement(
                "CALL {catalog}.system.expire_snapshots(table => '{identifier}', "
                f"older_than => TIMESTAMP '{{older_than}}', retain_last => {int(value['retain_last'])})",
                result=True,
            )
        ]

    def claims(self, value: Arguments, result: Any) -> ProcedureResult | None:
        """https://iceberg.apache.org/docs/latest/spark-procedures/#expire_snapshots, table *Output*.

        Every snapshot has one manifest list, so the lists that it deleted are the snapshots that it dropped.
        """
        row = numbers_of(result, least=self.counts)
        return None if row is None else ProcedureResult(dropped_snapshots=row[4], deleted_files=sum(row))


class ReplaceTable(_Maintenance):
    """``CREATE OR REPLACE TABLE … AS SELECT``: the same rows in a table with the same definition; its snapshot has no parent.

    At its commit, Iceberg replaces the whole content by what the statement read: rows that others committed meanwhile are lost. A catalog
    that stores a client's metadata as a whole (JDBC) loses their snapshots, too (apache/iceberg#16232).
    """

    name = "replace-table"
    by_facts = True
    replaces = True
    may_change = PARTS

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return EVERYTHING

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        made = definition(table, without=["format-version"])  # the table's version may be higher by now
        return [Statement(f"CREATE OR REPLACE TABLE {{table}} {made} AS SELECT * FROM {{table}}")]


class RemoveOrphanFiles(_Maintenance):
    """Deletes files that no snapshot needs and that are older than ``older_than`` (a minute if it is not given).

    Uses Iceberg's Java action, because the procedure refuses less than a day. With a short age it deletes, by design, files that a running
    operation has written but not committed; the commit then leaves a table whose files are missing.
    """

    name = "remove-orphan-files"
    writes = False
    deletes_files = True
    options = ("older_than",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"older_than": int(draw.options.get("older_than", 60))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        action = {"name": "remove-orphan-files", "older_than_s": int(value["older_than"])}
        return [Statement("{table}", result=True, action=action)]

    def understands(self, result: Any) -> bool:
        """One row with a path for each file."""
        return isinstance(result, list) and all(
            isinstance(r, list | tuple) and [*map(type, r)] == [str] for r in result
        )


class Rollback(_Maintenance):
    """``rollback_to_snapshot``: main goes back to its ``back``-th ancestor, or the oldest one; by at least one snapshot if there is one.

    Iceberg validates only that the snapshot is still an ancestor: commits made meanwhile are discarded too. The result is
    ``{"snapshot": id, "rows": [...]}``: the requested snapshot and what the procedure returned.
    """

    name = "rollback"
    writes = False
    sets_back = True
    options = ("back",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"back": draw.rng.randint(1, max(1, int(draw.options.get("back", 3))))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [
            ancestor(int(value["back"])),
            Statement(
                "CALL {catalog}.system.rollback_to_snapshot(table => '{identifier}', snapshot_id => {snapshot})",
                result=True,
            ),
        ]

    def understands(self, result: Any) -> bool:
        """https://iceberg.apache.org/docs/latest/spark-procedures/#rollback_to_snapshot, table *Output*: previous and current snapshot."""
        fields = result if isinstance(result, dict) else {}
        return type(fields.get("snapshot")) is int and whole_numbers(fields.get("rows"), least=2) is not None
