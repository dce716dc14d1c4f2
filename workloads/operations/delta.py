"""Operations that only Delta tables have."""

from __future__ import annotations

from typing import ClassVar

from workloads.operations.alterations import AddColumn, DropColumn, RenameColumn, SetProperty
from workloads.operations.inserts import Insert
from workloads.operations.kind import (
    EVERYTHING,
    NOTHING,
    ROWS,
    Arguments,
    Draw,
    Kind,
    Statement,
    Touches,
    WriteSet,
    net,
    new_rows,
    row_values,
)
from workloads.operations.overwrites import OverwriteWhere
from workloads.operations.reads import ReadSnapshot
from workloads.tables import DELTA, Row, State, TableSpec


class DeltaAddColumn(AddColumn):
    """``ALTER TABLE … ADD COLUMN`` of a Delta table. It is a version, and every statement that began before it fails."""

    formats = frozenset((DELTA,))
    name = "delta-add-column"
    writes = True
    instead: ClassVar = {}


class DeltaRenameColumn(RenameColumn):
    """``ALTER TABLE … RENAME COLUMN`` of a Delta table, which needs the property ``delta.columnMapping.mode`` = ``name``."""

    formats = frozenset((DELTA,))
    name = "delta-rename-column"
    writes = True


class DeltaDropColumn(DropColumn):
    """``ALTER TABLE … DROP COLUMN`` of a Delta table, which needs the same property. Data files keep the column."""

    formats = frozenset((DELTA,))
    name = "delta-drop-column"
    writes = True


class DeltaSetProperty(SetProperty):
    """``ALTER TABLE … SET TBLPROPERTIES`` of a Delta table. It is a version, too."""

    formats = frozenset((DELTA,))
    name = "delta-set-property"
    writes = True
    instead: ClassVar = {}


class ReplaceWhere(OverwriteWhere):
    """An overwrite with the option ``replaceWhere`` (``part = …``): new rows replace one partition, or all rows of an unpartitioned table.

    ``ids`` may be empty; then the partition is left without rows. Delta checks at its commit that nobody changed the partition meanwhile.
    """

    formats = frozenset((DELTA,))
    instead: ClassVar = {}
    name = "replace-where"
    by_facts = True
    options = ("rows",)

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        rows, part = new_rows(value, op, table), int(value["part"])
        if any(r.part != part for r in rows):
            raise ValueError(f"ids must be in partition {part}")
        source = f"VALUES {row_values(rows or [Row(0, op, 0, op, part)])} AS v({ROWS}){'' if rows else ' WHERE false'}"
        where = f"part = {part}" if table.partitioned else None
        action = {"name": "replace-where", "rows": f"SELECT {ROWS} FROM {source}", "where": where}
        return [Statement("{table}", action=action)]


class StreamAppend(Insert):
    """An append by a stream (``writeStream``): new rows, also for existing keys, in one batch of a new stream.

    With ``again`` the stream loses its note that the batch is done and is started once more, as after a crash: it sends the batch again, and
    Delta must see by the version's ``txn`` that the batch is there.
    """

    formats = frozenset((DELTA,))
    name = "stream-append"
    by_facts = True
    options = ("rows", "again")

    def arguments(self, draw: Draw) -> Arguments:
        again = draw.options.get("again")
        return {**super().arguments(draw), "again": draw.rng.random() < 0.5 if again is None else bool(again)}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        rows = f"SELECT {ROWS} FROM VALUES {row_values(new_rows(value, op, table))} AS v({ROWS})"
        action = {"name": "stream-append", "op": op, "rows": rows, "starts": 2 if value["again"] else 1}
        return [Statement("{table}", action=action)]


class Restore(Kind):
    """``RESTORE … TO VERSION AS OF``: a new version with the rows of the ``back``-th version before the newest one that its writer can see,
    or of the first one with rows.

    With ``by: time`` it names that version by its time: ``RESTORE … TO TIMESTAMP AS OF`` the one that DESCRIBE HISTORY shows of it. On S3
    that time has whole seconds, and Delta may restore the version before, so which one it was is not known. Delta tries its commit once, so
    any commit meanwhile makes it fail. The result is ``{"snapshot": version, "rows": [...]}``: the version (with ``by: time`` as ``near``)
    and what the statement returned. What it means follows from the rows of that version: the argument ``rows``, which only the table log
    knows.
    """

    name = "restore"
    verb = "maintenance"
    formats = frozenset((DELTA,))
    restores = True
    options = ("back", "by")

    def arguments(self, draw: Draw) -> Arguments:
        back = draw.rng.randint(1, max(1, int(draw.options.get("back", 3))))
        return {"back": back, "by": draw.options.get("by", "version")}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        version = {"name": "earlier-version", "most": int(value["back"]) + 1}
        if value.get("by") != "time":
            found = Statement("{table}", bind="snapshot", action=version)
            return [found, Statement("RESTORE TABLE {table} TO VERSION AS OF {snapshot}", result=True)]
        return [
            Statement("{table}", bind="near", action=version),
            Statement("{table}", bind="time", action={"name": "time-of-version", "version": "near"}),
            Statement("RESTORE TABLE {table} TO TIMESTAMP AS OF '{time}'", result=True),
        ]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return EVERYTHING

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return net(state, value.get("rows", state))


class ReadChanges(ReadSnapshot):
    """Reads an older version by the change feed: the rows of a version ``since`` commits before it, with the changes from there on.

    So it must show what :class:`ReadSnapshot` shows. The table needs the property ``delta.enableChangeDataFeed`` from its creation on.
    """

    formats = frozenset((DELTA,))
    name = "read-changes"
    by_facts = True
    options = ("back", "exactly", "since")

    def arguments(self, draw: Draw) -> Arguments:
        return {**super().arguments(draw), "since": draw.rng.randint(1, max(1, int(draw.options.get("since", 3))))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        back, since = int(value["back"]) + 1, int(value["since"])
        feed = (
            f"SELECT {ROWS} FROM table_changes('{{table}}', {{since}}, {{snapshot}}) WHERE _commit_version > {{since}}"
        )
        after = f"{feed} AND _change_type IN ('insert', 'update_postimage')"
        before = f"{feed} AND _change_type IN ('delete', 'update_preimage')"
        first = f"SELECT {ROWS} FROM {{table}} VERSION AS OF {{since}}"
        return [
            Statement("{table}", bind="since", action={"name": "earlier-version", "most": back + since}),
            Statement("{table}", bind="snapshot", action={"name": "earlier-version", "most": back}),
            Statement(f"({first} UNION ALL {after}) EXCEPT ALL {before}", result=True),
        ]


class _Maintenance(Kind):
    """A statement that must not change any row."""

    verb = "maintenance"
    formats = frozenset((DELTA,))
    changes_rows = False

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return NOTHING

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])


class Optimize(_Maintenance):
    """``OPTIMIZE``: compaction of the small files of each partition, by bin-packing or in Z-order. One that finds nothing makes no version.

    It runs at snapshot isolation: only a concurrent rewrite or delete of its files makes it give up.
    """

    name = "optimize"
    options = ("strategy",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"strategy": draw.options.get("strategy") or draw.rng.choice(["binpack", "zorder"])}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        order = " ZORDER BY (id, cnt)" if value["strategy"] == "zorder" else ""
        return [Statement(f"OPTIMIZE {{table}}{order}")]


class ReorgPurge(_Maintenance):
    """``REORG … APPLY (PURGE)``: writes the files anew of which a deletion vector hides rows. One that finds none makes no version.

    In Delta 4.4.0 it needs ``cluster: local``: its tasks ask for the Spark session, which an executor does not have
    (https://github.com/delta-io/delta/pull/5697, a comment of 2026-01-15), so with executors it always fails.
    """

    name = "reorg-purge"

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement("REORG TABLE {table} APPLY (PURGE)")]


class Vacuum(_Maintenance):
    """``VACUUM``: deletes files that no version of the last ``hours`` needs, by default a week, as Delta has it. It makes no version.

    With ``hours: 0`` it deletes, by design, files that a running operation has written but not committed; the commit then leaves a table whose
    files are missing. Delta refuses less than a week unless its check is off, as it is here.
    """

    name = "vacuum"
    writes = False
    deletes_files = True
    options = ("hours",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"hours": int(draw.options.get("hours", 168))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        unchecked = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
        return [Statement(f"VACUUM {{table}} RETAIN {int(value['hours'])} HOURS", settings=unchecked)]
