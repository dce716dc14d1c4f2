"""DuckDB: an embedded engine, whose Iceberg extension reaches every catalog by its REST interface; its Delta extension appends to Delta tables.

What is said here of its code is true of release 1.5.5, whose Iceberg extension is commit 45163a28 of duckdb/duckdb-iceberg;
docs/engines/duckdb.md says more. On an Iceberg table it validates nothing: a commit requires that main of each changed table is still at the
snapshot with which the transaction began. After errors of the connection, 408, 418, 429, 500, 503 and 504 it sends a request again, a POST
too: if the catalog had applied the first one, it is answered 409, and the transaction fails. Then it deletes the files of the transaction.
It reads by its clock: main as of the beginning of the transaction.

A Delta table needs no catalog: each is attached by its place. An INSERT is a PUT of the next version's file with ``If-None-Match: *``. If the
store refuses it, the statement fails: nothing is compared, and nothing is tried again. It does not look whether the version that is there is
its own.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.request import urlopen

from workloads.engines.engine import Access, CommitRules, ErrorChain, Guest, Promise
from workloads.operations.kind import ROWS, Arguments
from workloads.operations.kinds import KINDS
from workloads.tables import DELTA, ICEBERG, TableSpec

CATALOG = "c"
ATTACH, SET = "duckdb.attach.", "duckdb.set."
"""Catalog properties that are options of ATTACH, or settings."""
ATTACH_OPTIONS = (
    "access_delegation_mode",
    "authorization_type",
    "client_id",
    "client_secret",
    "default_region",
    "default_schema",
    "disable_multi_table_commit",
    "encode_entire_prefix",
    "endpoint",
    "endpoint_type",
    "extra_http_headers",
    "max_table_staleness",
    "oauth2_grant_type",
    "oauth2_scope",
    "oauth2_server_uri",
    "purge_requested",
    "read_only",
    "remove_files_on_delete",
    "secret",
    "skip_create_table_metadata_updates",
    "stage_create_tables",
    "support_nested_namespaces",
    "token",
)
"""Those that the extension of DuckDB 1.5.5 takes ("Unhandled options found" refuses any other); its page of options has most of them
(https://duckdb.org/docs/1.5/core_extensions/iceberg/iceberg_options.html). Its settings are DuckDB's own and its extensions', hundreds."""
_CODE = "https://github.com/duckdb/duckdb-iceberg/blob/45163a28/src/catalog/rest"
COMMIT_CODE = f"{_CODE}/transaction/iceberg_transaction.cpp (IcebergTransaction::GetTransactionRequest)"
READ_CODE = f"{_CODE}/catalog_entry/table/iceberg_table_information.cpp (IcebergTableInformation::GetSnapshotLookup)"

CAN = (
    *("insert", "insert-select", "update-register", "update-counter", "update-append"),
    *("update-register-where", "update-counter-where", "update-append-where", "transfer"),
    *("delete", "delete-where", "delete-partition", "merge-upsert", "merge-insert", "merge-update", "merge-delete"),
    *("read", "read-key", "read-snapshot", "read-both", "add-column", "widen-column", "set-property", "upgrade"),
)
ON_DELTA = ("insert", "insert-select", "read", "read-key", "read-snapshot")
"""What it can do on a Delta table: UPDATE, DELETE and ALTER are refused ("Can only update base table")."""
DELTA_CODE = (
    "https://github.com/delta-io/delta-kernel-rs/blob/0010228d/ffi/src/transaction/mod.rs (transaction, commit)"
)
APPENDS = ("insert", "insert-select", "merge-insert")
TRANSLATIONS = (
    (re.compile(r"\b(\d+)L\b"), r"\1"),
    (re.compile(r"\bpmod\((\w+), (\d+)\)"), r"((\1 % \2) + \2) % \2"),
    (re.compile(r"\bFROM VALUES (\(.*?\)) AS\b"), r"FROM (VALUES \1) AS"),
    (re.compile(r"(\bADD COLUMN .*) COMMENT '[^']*'$"), r"\1"),
    (re.compile(r"\bSET TBLPROPERTIES\b"), "SET"),
)
"""What Spark's SQL has and DuckDB's has not: BIGINT literals, ``pmod``, VALUES as a table, a comment in ADD COLUMN, the name of SET."""
COMMITTING, MOVED = "Failed to commit", "status code (Conflict_"
"""In every error of a COMMIT (``TransactionContext::Commit``); in those of a refused requirement ``assert-ref-snapshot-id``."""
REFUSED, JOINT = re.compile(r"status code \(\w+_4\d\d\)"), "/transactions/commit' "
DELTA_CONFLICT = re.compile(r"commit conflict at version \d+")
"""In the error of a COMMIT to a Delta table whose next version is there already."""
CONFLICT = re.compile(rf"status code \(Conflict_409\)|is already outdated\. Please restart|{DELTA_CONFLICT.pattern}")
ANY_TIME = frozenset({"FatalException", "InternalException", "InterruptException", "OutOfMemoryException"})
"""Classes of errors that can come at any moment, so that they leave a commit open."""


def translated(sql: str) -> str:
    """A statement of Spark SQL, as the kinds of ``workloads.operations`` make them, in DuckDB's SQL."""
    for pattern, replacement in TRANSLATIONS:
        sql = pattern.sub(replacement, sql)
    return sql


class Connected:
    """A connection to the catalog, which DuckDB calls :data:`CATALOG`."""

    def __init__(self, access: Access) -> None:
        import duckdb

        properties = access.properties
        site = Path(duckdb.__file__).parents[1]
        self._duckdb = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for name in ("httpfs", "avro", "iceberg", "delta"):
            found = next(site.glob(f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension"))
            self._duckdb.execute(f"LOAD {_quoted(str(found))}")
        for key in (k for k in properties if k.startswith(SET)):
            self._duckdb.execute(f"SET {key.removeprefix(SET)} = {_quoted(properties[key])}")
        scheme, _, host = access.s3.partition("://")
        store = {"endpoint": host, "region": access.region, "use_ssl": str(scheme == "https"), "url_style": "path"}
        store |= {"key_id": access.access_key, "secret": access.secret_key}
        self._duckdb.execute(f"CREATE SECRET (TYPE s3, {_options(store)})")
        user, _, password = properties.get("credential", "").rpartition(":")
        given = {"token": "token", "oauth2-server-uri": "oauth2_server_uri", "scope": "oauth2_scope"}
        login = {"client_id": user, "client_secret": password} | {v: properties.get(k, "") for k, v in given.items()}
        login = {k: v for k, v in login.items() if v} or {"authorization_type": "none"}
        login |= {"endpoint": _served(properties["uri"].rstrip("/")), "access_delegation_mode": "none"}
        # DuckDB takes a URL for a file of somebody else's, and attaches it read-only.
        warehouse = _quoted(properties.get("warehouse", "").rpartition("/")[2])
        login |= {k.removeprefix(ATTACH): v for k, v in properties.items() if k.startswith(ATTACH)}
        self._duckdb.execute(f"ATTACH {warehouse} AS {CATALOG} (TYPE iceberg, {_options(login)})")
        self._delta = re.sub("^s3a:", "s3:", access.delta)

    def execute(self, op: str, f: str, value: Arguments, table: TableSpec, identifier: tuple[str, str]) -> Any:
        if table.format == DELTA:
            return self._on_delta(op, f, value, table, f"{self._delta}/{identifier[0]}/{table.name}")
        kind, place = KINDS[f], f"{CATALOG}.{identifier[0]}"
        own, other = f"{place}.{table.name}", f"{place}.{kind.second(value)}"
        statements = kind.statements(value, op, table)
        if f == "transfer":
            parts = zip((statements[0].action or {})["parts"], (own, other), strict=True)
            joint = self._at_once([sql.format().format(at=t) for (_, sql), t in parts])
            return [["one transaction" if joint else "one after the other"]]  # the words of harness.writers.two_tables
        if f == "read-both":
            first, second, last = (self._history(t)[0] for t in (own, other, own))
            sides = (f"{n}, {ROWS} FROM {t} AT (VERSION => {s})" for n, t, s in ((0, own, first), (1, other, second)))
            rows = self.sql(" UNION ALL ".join(f"SELECT {side}" for side in sides))
            return {"first": first, "second": second, "again": last, "rows": rows}
        if f == "read-snapshot":
            snapshot = self._history(own)[: int(value["back"]) + 1][-1]
            return {"snapshot": snapshot, "rows": self.sql(f"SELECT {ROWS} FROM {own} AT (VERSION => {snapshot})")}
        done = [(s, self.sql(translated(s.sql).format(table=own))) for s in statements]
        return next((rows for s, rows in done if s.result), None)

    def _on_delta(self, op: str, f: str, value: Arguments, table: TableSpec, place: str) -> Any:
        own = f"delta_{table.name}"
        self._duckdb.execute(f"ATTACH IF NOT EXISTS {_quoted(place)} AS {own} (TYPE delta, READ_WRITE)")
        if f == "read-snapshot":
            [[last]] = self.sql(f"SELECT max(file) FROM glob({_quoted(f'{place}/_delta_log/*.json')})")
            version = max(1, int(Path(last).stem) - int(value["back"]))  # version 0 makes the table
            return {"snapshot": version, "rows": self.sql(f"SELECT {ROWS} FROM {own} AT (VERSION => {version})")}
        # Rows of several partitions in one INSERT end the database ("expects a single row"); INSERTs of one transaction are one version.
        parts: dict[int, list[int]] = {}
        for id in value["ids"] if f == "insert" else ():
            parts.setdefault(table.part(id) if table.partitioned else 0, []).append(id)
        values = [{**value, "ids": ids} for ids in parts.values()] or [value]
        statements = [s for v in values for s in KINDS[f].statements(v, op, table)]
        self._duckdb.execute("BEGIN")
        try:
            done = [(s, self.sql(translated(s.sql).format(table=own))) for s in statements]
            self._duckdb.execute("COMMIT")
        except Exception:
            with contextlib.suppress(
                Exception
            ):  # a COMMIT that fails, or a database that has ended, leaves nothing to roll back
                self._duckdb.execute("ROLLBACK")
            raise
        return next((rows for s, rows in done if s.result), None)

    def sql(self, sql: str) -> list[list[Any]]:
        return [list(row) for row in self._duckdb.execute(sql).fetchall()]

    def _at_once(self, statements: list[str]) -> bool:
        """Run statements as one transaction; whether that was one request, by DuckDB's log of them."""
        self._duckdb.execute("CALL enable_logging('HTTP')")
        try:
            for sql in ("BEGIN", *statements, "COMMIT"):
                self._duckdb.execute(sql)
            try:
                sent = self.sql("SELECT request.url FROM duckdb_logs_parsed('HTTP') WHERE request.type = 'POST'")
            except Exception as e:  # not as an error of DuckDB: those outside a COMMIT mean that nothing was committed
                raise RuntimeError("committed, but DuckDB's log of its requests cannot be read") from e
            return all(url.endswith("/transactions/commit") for (url,) in sent)
        finally:
            for sql in ("ROLLBACK", "CALL disable_logging()", "CALL truncate_duckdb_logs()"):
                with contextlib.suppress(Exception):  # after a COMMIT there is nothing to roll back
                    self._duckdb.execute(sql)

    def _history(self, table: str) -> list[int]:
        """The snapshots that main was at, of its ancestors, as the catalog has it now, newest first. Raises ValueError if there is none."""
        metadata = json.loads(self.sql(f"SELECT metadata::JSON FROM iceberg_load_table_response('{table}')")[0][0])
        parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in metadata.get("snapshots", ())}
        line = [current := metadata.get("current-snapshot-id")]
        while line[-1] in parents:
            line.append(parents[line[-1]])
        if len(line) == 1:
            raise ValueError(f"{table} has no snapshot yet; give it seed_rows")
        was = [entry["snapshot-id"] for entry in metadata.get("snapshot-log", ())]
        return [s for s in reversed(was) if s in line] or [
            current
        ]  # a MERGE adds two snapshots, of which main was only at the last

    def alive(self) -> bool:
        with contextlib.suppress(Exception):  # after a fatal error the database answers nothing any more
            return self.sql("SELECT 1") == [[1]]
        return False

    def close(self) -> None:
        self._duckdb.close()


def _served(uri: str) -> str:
    """The address at which a catalog says that it is to be asked (``uri`` in ``/v1/config``), which DuckDB does not heed: Nessie's."""
    with contextlib.suppress(OSError, ValueError), urlopen(f"{uri}/v1/config", timeout=30) as answer:
        reply = json.load(answer)
        return str({"uri": uri, **reply.get("defaults", {}), **reply.get("overrides", {})}["uri"]).rstrip("/")
    return uri


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {_quoted(value)}" for name, value in options.items())


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


class DuckDB(Guest):
    """DuckDB with its extensions for Iceberg and Delta. It has no INSERT OVERWRITE, no procedure, and no way to set a snapshot's properties."""

    name = "duckdb"
    title = "DuckDB"
    tracker = "https://github.com/duckdb/duckdb-iceberg/issues"
    software: ClassVar[Mapping[str, str]] = {
        "DuckDB": "duckdb",
        "iceberg extension": "duckdb-iceberg",
        "delta extension": "duckdb-delta",
    }
    properties = frozenset({SET, *(f"{ATTACH}{option}" for option in ATTACH_OPTIONS)})
    needs = "duckdb"
    several = True
    formats = frozenset({ICEBERG, DELTA})
    catalogs = frozenset({"rest"})
    promises: ClassVar[Mapping[str, Promise]] = {
        name: Promise("serializable", source=COMMIT_CODE if KINDS[name].commits else READ_CODE) for name in CAN
    }
    commits: ClassVar[Mapping[str, CommitRules]] = {
        name: CommitRules(
            "appends" if name in APPENDS else "position deletes", {"main": MOVED}, False, source=COMMIT_CODE
        )
        for name in CAN
        if KINDS[name].writes and not KINDS[name].two_tables
    }

    def can(self, f: str, table: TableSpec) -> bool:
        """To an Iceberg table it writes position deletes, in version 3 deletion vectors. Only a DELETE asks a property first,
        ``write.delete.mode``."""
        if table.format == DELTA:
            return f in ON_DELTA
        mode = table.properties.get("write.delete.mode", table.mode)
        return super().can(f, table) and (mode == "merge-on-read" or not KINDS[f].deletes)

    def promise(self, f: str, table: TableSpec) -> Promise:
        """Of a Delta table its commit accepts no other base than the newest version when it began to write, but that need not be the version
        that an INSERT … SELECT read."""
        if table.format != DELTA:
            return super().promise(f, table)
        blind = KINDS[f].blind_append
        return Promise("snapshot" if blind else "serializable", blind_append=blind, source=DELTA_CODE)

    def reads_equality_deletes(self, table: TableSpec) -> bool:
        """Delete files by key and partition end it with an internal error: https://github.com/duckdb/duckdb-iceberg/pull/1217."""
        return not table.partitioned

    def outcome(self, f: str, error: ErrorChain) -> Literal["fail", "info"]:
        """No effect have errors before a COMMIT, and a COMMIT answered with 4xx or a conflict. But a transfer of several requests may be in one
        table."""
        name, text = error[0]
        early = name.startswith("_duckdb.") and name.rpartition(".")[2] not in ANY_TIME and COMMITTING not in text
        refused = REFUSED.search(text) is not None and (f != "transfer" or JOINT in text)
        refused = refused or DELTA_CONFLICT.search(text) is not None
        return "fail" if early or refused or (f in KINDS and not KINDS[f].commits) else "info"

    def conflict(self, error: ErrorChain) -> str | None:
        return next((name.rpartition(".")[2] for name, text in error if CONFLICT.search(text)), None)

    def open(self, access: Access) -> Connected:
        return Connected(access)
