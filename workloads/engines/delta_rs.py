"""delta-rs: the Python package deltalake, a client of Delta tables in Rust, with DataFusion's SQL.

What is said here was seen of release 1.6.6 of the package; docs/engines/delta-rs.md says more. A commit is a PUT of the next version's file
with ``If-None-Match: *``. If the store refuses it, the client reads the versions that it does not know, compares them with what it read and
wrote (``ConflictChecker``), and takes the next number. It does not look whether the version that is there is its own: after a lost reply
it takes that for somebody else's.

Each operation opens the table anew, so it reads the newest version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from workloads.engines.engine import Access, ErrorChain, Guest, Promise
from workloads.operations.kind import ROWS, Arguments, and_part, new_rows
from workloads.operations.kinds import KINDS
from workloads.tables import DELTA, TableSpec

CODE = "https://github.com/delta-io/delta-rs/blob/006a9e232c3af8f1c549d944d7d6e2ea9c4a7bcd/crates/core/src"
CHECKS = f"{CODE}/kernel/transaction/conflict_checker.rs (ConflictChecker)"
USER_METADATA = "userMetadata"
"""The key of ``commitInfo`` by which Delta's own clients name an operation, too."""

RELEASES = ("1.6.6", "1.6.3")
"""The releases of deltalake that can be installed, the default first."""
RELEASE_PROPERTY = "delta-rs.release"
"""The catalog property that chooses one."""


def needed(release: str) -> str:
    """What ``compose.install.engines`` calls a release."""
    return "delta-rs" if release == RELEASES[0] else f"delta-rs-{release}"


UPDATES = tuple(f"update-{c}{where}" for c in ("register", "counter", "append") for where in ("", "-where"))
DELETES = ("delete", "delete-where", "delete-partition")
MERGES = ("merge-upsert", "merge-insert", "merge-update", "merge-delete")
READS = ("read", "read-key", "read-snapshot")
_UPDATE = re.compile(r"UPDATE \{table\} SET (?P<column>\w+) = (?P<value>.+?) WHERE (?P<where>.+)")
_DELETE = re.compile(r"DELETE FROM \{table\} WHERE (?P<where>.+)")
_PMOD = re.compile(r"\bpmod\((\w+), (\d+)\)")
CONFLICT_MESSAGE = re.compile(
    r"Commit failed: a concurrent|Metadata changed since|Protocol changed since|Concurrent transaction failed"
)
"""How the messages of ``CommitConflictError`` begin."""
DEFINITE = frozenset({"DeltaProtocolError", "SchemaMismatchError", "TableNotFoundError"})


class DeltaTables:
    """The tables of a run, as deltalake opens them."""

    def __init__(self, access: Access) -> None:
        import deltalake

        self._library = deltalake
        self._root = access.delta
        self._options = {
            "AWS_ENDPOINT_URL": access.s3,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": access.access_key,
            "AWS_SECRET_ACCESS_KEY": access.secret_key,
            "AWS_REGION": access.region,
        }

    def execute(self, op: str, f: str, value: Arguments, table: TableSpec, identifier: tuple[str, str]) -> Any:
        place = f"{self._root}/{identifier[0]}/{table.name}"
        opened = self._library.DeltaTable(place, storage_options=self._options)
        if f in READS:
            return self._read(opened, f, value)
        named = self._library.CommitProperties(custom_metadata={USER_METADATA: op})
        if f == "insert":
            self._library.write_deltalake(opened, _frame(value, op, table), mode="append", commit_properties=named)
        elif f == "optimize":
            _optimize(opened, value, named)
        elif f in MERGES:
            _merge(opened, f, value, op, table, named)
        else:
            _change(opened, f, value, op, table, named)
        return None

    def _read(self, opened: Any, f: str, value: Arguments) -> Any:
        if f == "read-snapshot":
            version = max(1, opened.version() - int(value["back"]))  # version 0 makes the table
            opened.load_as_version(version)
            return {"snapshot": version, "rows": self._rows(opened, "")}
        return self._rows(opened, f" WHERE id = {int(value['id'])}" if f == "read-key" else "")

    def _rows(self, opened: Any, where: str) -> list[list[Any]]:
        import pyarrow as pa

        asked = self._library.QueryBuilder().register("t", opened).execute(f"SELECT {ROWS} FROM t{where}")
        rows = pa.table(asked)
        return [list(row) for row in zip(*(c.to_pylist() for c in rows.columns), strict=True)]

    def alive(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing stays open between two operations."""


def _frame(value: Arguments, op: str, table: TableSpec) -> Any:
    import pyarrow as pa

    types = {"id": pa.int64(), "val": pa.string(), "cnt": pa.int64(), "log": pa.string(), "part": pa.int32()}
    return pa.Table.from_pylist([r._asdict() for r in new_rows(value, op, table)], schema=pa.schema(types.items()))


def _optimize(opened: Any, value: Arguments, named: Any) -> None:
    if value["strategy"] == "zorder":
        opened.optimize.z_order(["id", "cnt"], commit_properties=named)
    else:
        opened.optimize.compact(commit_properties=named)


def translated(sql: str) -> str:
    """A condition of Spark's SQL, as kinds of operations have it, in DataFusion's, which has no ``pmod``."""
    return _PMOD.sub(r"((\1 % \2) + \2) % \2", sql)


def _change(opened: Any, f: str, value: Arguments, op: str, table: TableSpec, named: Any) -> None:
    """An UPDATE or a DELETE: the parts of its statement are what deltalake's methods take."""
    [statement] = KINDS[f].statements(value, op, table)
    if found := _UPDATE.fullmatch(statement.sql):
        updates = {found["column"]: found["value"]}
        opened.update(predicate=translated(found["where"]), updates=updates, commit_properties=named)
    elif found := _DELETE.fullmatch(statement.sql):
        opened.delete(translated(found["where"]), commit_properties=named)
    else:
        raise ValueError(f"{f}: no UPDATE or DELETE: {statement.sql}")


def _merge(opened: Any, f: str, value: Arguments, op: str, table: TableSpec, named: Any) -> None:
    kind, rows = KINDS[f], _frame(value, op, table).select(["id", "part"])
    condition = f"t.id = s.id{and_part(value, table, 't.part')}"
    merge = opened.merge(rows, condition, source_alias="s", target_alias="t", commit_properties=named)
    if kind.sets:
        merge = merge.when_matched_update({"val": f"'{op}'", "cnt": "t.cnt + 1", "log": f"concat(t.log, ',{op}')"})
    if kind.deletes:
        merge = merge.when_matched_delete()
    if kind.inserts == "absent":
        new = {"id": "s.id", "val": f"'{op}'", "cnt": "0", "log": f"'{op}'", "part": "s.part"}
        merge = merge.when_not_matched_insert(new)
    merge.execute()


class DeltaRs(Guest):
    """delta-rs, by its Python package. It has no INSERT … SELECT of its own."""

    name = "delta-rs"
    title = "delta-rs"
    tracker = "https://github.com/delta-io/delta-rs/issues"
    software: ClassVar[Mapping[str, str]] = {"deltalake": "deltalake"}
    properties = frozenset({RELEASE_PROPERTY})
    needs = "delta-rs"
    marks = True
    formats = frozenset({DELTA})
    promises: ClassVar[Mapping[str, Promise]] = {
        **{kind: Promise("serializable", source=CHECKS) for kind in ("insert", *UPDATES, *DELETES, *MERGES, *READS)},
        "optimize": Promise("snapshot", source=CHECKS),
    }
    conflicts = frozenset({"CommitFailedError"})

    def needs_with(self, properties: Mapping[str, str]) -> str:
        return needed(properties.get(RELEASE_PROPERTY, RELEASES[0]))

    def open(self, access: Access) -> DeltaTables:
        return DeltaTables(access)

    def outcome(self, f: str, error: ErrorChain) -> Literal["fail", "info"]:
        """By a conflict it says that it did not commit. Any other error may come after a commit of which it got no answer."""
        refused = any(CONFLICT_MESSAGE.search(text) for _, text in error)
        early = error[0][0].rpartition(".")[2] in DEFINITE
        return "fail" if refused or early else super().outcome(f, error)

    def conflict(self, error: ErrorChain) -> str | None:
        return next((name.rpartition(".")[2] for name, text in error if CONFLICT_MESSAGE.search(text)), None)
