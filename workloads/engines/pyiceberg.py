"""PyIceberg: Iceberg's Python client, which plans, writes and commits in the writer's own process.

It copies on write, whatever the table's mode. A change of rows is an ``overwrite`` with a filter: PyIceberg has no UPDATE, so an update
reads the rows that the filter selects and overwrites them in one transaction, which validates that filter against later commits. One
transaction can add two or three snapshots (rows dropped, rows rewritten, rows added) in one metadata version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from nemesis.operation_key import OPERATION_KEY
from workloads.engines.engine import Access, CommitRules, ErrorChain, Guest, Level, Promise, Rule
from workloads.operations.kind import Arguments, id_list, new_rows
from workloads.operations.kinds import KINDS
from workloads.tables import COLUMNS, Row, State, TableSpec

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction

RELEASE_CODE = "https://github.com/apache/iceberg-python/blob/pyiceberg-0.12.0/pyiceberg/"
VALIDATES = f"{RELEASE_CODE}table/update/snapshot.py#L462"
"""``_SnapshotProducer._validate_concurrency``."""
RULES: Mapping[Rule, str] = {
    "added data": "Added data files were found matching the filter",
    "new deletes": "Found new conflicting delete files that can apply to records matching",
    "removed data": "Deleted data files were found matching the filter",
    "replaced files": "Data files were concurrently deleted",
    "deletes of replaced files": "Cannot commit, found new delete for replace data file",
}
DELETES = ("delete", "delete-partition")
READS = ("read", "read-key", "read-snapshot")
CHANGES = (
    "delete-where",
    *(f"update-{column}{where}" for column in ("register", "counter", "append") for where in ("", "-where")),
)
"""PyIceberg's filters have no arithmetic, so a DELETE by parity is a change like an UPDATE."""
NO_CONNECTION = re.compile(r"connection to server at .* failed|Failed to establish a new connection")
"""psycopg2, urllib3: there was no connection on which a commit could have gone."""
OWN_PREFIX = "pyiceberg."
"""Catalog properties that begin so are for PyIceberg alone: the rest of the name is a property of ``load_catalog``."""
REFUSED = tuple(f"pyiceberg.exceptions.{name}" for name in ("CommitFailedException", "ValidationException"))
"""By these it says that the commit was not made."""
DEFINITE = tuple(f"pyiceberg.exceptions.{n}Error" for n in ("NoSuchTable", "BadRequest", "Unauthorized", "Forbidden"))


class Unstaged(Exception):
    """The operation failed before its commit: the innermost cause of its error."""


class _Client:
    def __init__(self, access: Access) -> None:
        from pyiceberg.catalog import load_catalog

        own = (k.split(".")[3] for k in access.spark if k.startswith("spark.sql.catalog."))
        store = {"endpoint": access.s3, "region": access.region}
        store |= {"access-key-id": access.access_key, "secret-access-key": access.secret_key}
        # A row of the JDBC catalog names its catalog.
        properties = {**{f"s3.{k}": v for k, v in store.items()}, **(access.pyiceberg or {})}
        properties |= {k.removeprefix(OWN_PREFIX): v for k, v in access.properties.items() if k.startswith(OWN_PREFIX)}
        self._catalog = load_catalog(next(own, access.catalog), **properties)

    def execute(self, op: str, f: str, value: Arguments, table: TableSpec, identifier: tuple[str, str]) -> Any:
        try:
            loaded = self._catalog.load_table(identifier)
            if f in READS:
                return _read(loaded, f, value)
            change = loaded.transaction()
            _stage(loaded, change, op, f, value, table)
        except Exception as e:
            _innermost(e).__cause__ = Unstaged("it was not committed yet")
            raise
        change.commit_transaction()
        return None

    def alive(self) -> bool:
        return True

    def close(self) -> None:
        self._catalog.close()


def _innermost(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _rows(table: Table, **scan: Any) -> list[Row]:
    arrow = table.scan(selected_fields=COLUMNS, **scan).to_arrow()
    return [Row(*r) for r in zip(*(arrow[c].to_pylist() for c in COLUMNS), strict=True)]


def _read(table: Table, f: str, value: Arguments) -> Any:
    if f == "read-snapshot":
        entries = [e for e in table.inspect.history().to_pylist() if e["is_current_ancestor"]]
        entries.sort(key=lambda e: e["made_current_at"], reverse=True)
        snapshot = entries[: int(value["back"]) + 1][-1]["snapshot_id"]
        return {"snapshot": snapshot, "rows": [list(r) for r in _rows(table, snapshot_id=snapshot)]}
    where = f"id = {int(value['id'])}" if f == "read-key" else "true"
    return [list(r) for r in _rows(table, row_filter=where)]


def _frame(rows: Iterable[Row]) -> Any:
    import pyarrow as pa

    types = {"id": pa.int64(), "val": pa.string(), "cnt": pa.int64(), "log": pa.string(), "part": pa.int32()}
    return pa.Table.from_pylist([r._asdict() for r in rows], schema=pa.schema(types.items()))


def selected(f: str, value: Arguments, table: TableSpec) -> str:
    """What an operation selects, as far as PyIceberg has words for it: its keys, its partition, or everything."""
    taken = KINDS[f].touches(value, table)
    if taken.whole:
        return "true"
    if taken.predicate is not None:
        return f"part = {taken.predicate[0]}"
    return f"part = {min(taken.parts)}" if taken.parts else f"id IN ({id_list(taken.ids)})"


def _stage(loaded: Table, change: Transaction, op: str, f: str, value: Arguments, table: TableSpec) -> None:
    """Write the files of an operation's snapshots, and put these into the transaction."""
    marks = {OPERATION_KEY: op}
    if f == "insert":
        change.append(_frame(new_rows(value, op, table)), snapshot_properties=marks)
    elif f == "upsert":
        change.upsert(_frame(new_rows(value, op, table)), join_cols=["id"], snapshot_properties=marks)
    elif f == "overwrite-partitions":
        change.dynamic_partition_overwrite(_frame(new_rows(value, op, table)), snapshot_properties=marks)
    elif f == "overwrite-where":
        change.overwrite(_frame(new_rows(value, op, table)), selected(f, value, table), snapshot_properties=marks)
    elif f in DELETES:
        change.delete(selected(f, value, table), snapshot_properties=marks)
    else:
        where = selected(f, value, table)
        state = State(_rows(loaded, row_filter=where))
        removed, added = KINDS[f].writeset(state, value, op, table)
        if removed or added:
            state.apply(removed, added)
            change.overwrite(_frame(state), where, snapshot_properties=marks)


class PyIceberg(Guest):
    """PyIceberg with its Arrow reader and writer.

    It validates only when its first commit was refused because the base had moved; before that, the catalog compares the base.
    """

    name = "pyiceberg"
    title = "PyIceberg"
    tracker = "https://github.com/apache/iceberg-python/issues"
    software: ClassVar[Mapping[str, str]] = {"PyIceberg": "pyiceberg"}
    packages = ("pyiceberg",)
    marks = True
    several = True
    catalogs = frozenset({"rest", "jdbc", "hive"})
    promises: ClassVar[Mapping[str, Promise]] = {
        "insert": Promise("serializable", source=f"{RELEASE_CODE}table/update/snapshot.py#L683"),
        **{kind: Promise(source=VALIDATES) for kind in (*DELETES, *CHANGES, "overwrite-where", "overwrite-partitions")},
        "upsert": Promise(blind_append=True, source=f"{RELEASE_CODE}table/__init__.py#L842"),
        **{kind: Promise("serializable", source=f"{RELEASE_CODE}table/__init__.py#L2397") for kind in READS},
    }
    commits: ClassVar[Mapping[str, CommitRules]] = {
        "insert": CommitRules("appends", source=f"{RELEASE_CODE}table/update/snapshot.py#L683"),
        **{kind: CommitRules("rewritten files", RULES, source=VALIDATES) for kind in ("delete", "upsert", *CHANGES)},
    }
    definite = frozenset({f"{__name__}.{Unstaged.__qualname__}", *REFUSED, *DEFINITE})
    conflicts = frozenset(REFUSED)

    def open(self, access: Access) -> _Client:
        return _Client(access)

    def can(self, f: str, table: TableSpec) -> bool:
        """It reads version 3 and cannot write it (``write_manifest_list``); nothing is dynamic where there are no partitions."""
        able = table.format_version < 3 and (f != "overwrite-partitions" or table.partitioned)
        return super().can(f, table) and (able or f in READS)

    def reads_equality_deletes(self, table: TableSpec) -> bool:
        """It refuses: https://github.com/apache/iceberg/issues/6568."""
        return False

    def promise(self, f: str, table: TableSpec) -> Promise:
        """``delete()`` asks for the level of DELETE, ``overwrite()`` and what is built on it for that of UPDATE
        (``TableMetadata.isolation_level``); the plan of a delete is kept for its retries, so nothing is evaluated at the commit."""
        promise = super().promise(f, table)
        if promise.level is not None:
            return promise
        command = "delete" if f in DELETES else "update"
        named = table.properties.get(f"write.{command}.isolation-level", table.isolation)
        level: Level = "snapshot" if named == "snapshot" else "serializable"
        return replace(promise, level=level)

    def outcome(self, f: str, error: ErrorChain) -> Literal["fail", "info"]:
        """Whatever goes wrong before the commit has no effect. What the commit raises leaves open what became of it, unless the
        catalog refused it (409, 400, 401, 403) or PyIceberg did (a validation), or no connection to the catalog came about. If PyIceberg
        cannot load the table after a refusal, it cannot look for its snapshot: that error leaves the outcome open again."""
        names = [name for name, _ in error]
        looked = names[0] in REFUSED or REFUSED[0] not in names
        if not looked or any(name.endswith("CommitStateUnknownException") for name in names):
            return super().outcome(f, ())
        if any(NO_CONNECTION.search(text) for _, text in error):
            return "fail"
        return super().outcome(f, error)

    def conflict(self, error: ErrorChain) -> str | None:
        """The outermost class: a validation fails while PyIceberg handles the ``CommitFailedException`` before it."""
        return super().conflict(error[:1]) or super().conflict(error)
