"""DuckDB: an embedded engine, which commits by ``POST /v1/transactions/commit`` of a REST catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from workloads.engines.engine import Access, Commit, Guest, Promise
from workloads.operations.kind import Arguments
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

if TYPE_CHECKING:
    pass

CATALOG = "c"
REFUSED = "branch main has changed"
"""What a REST catalog says of the requirement ``assert-ref-snapshot-id``; DuckDB repeats it."""
_CODE = "IcebergTransaction::GetTransactionRequest, IcebergTransaction::Commit (duckdb-iceberg, branch v1.5-variegata)"
EXTENSIONS = ("httpfs", "avro", "iceberg")
_LONG = re.compile(r"\b(\d+)L\b")
"""A BIGINT literal of Spark SQL."""


class _Client:
    def __init__(self, access: Access) -> None:
        import duckdb

        site = Path(duckdb.__file__).parents[1]
        self._duckdb = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for name in EXTENSIONS:
            found = next(site.glob(f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension"))
            self._duckdb.execute(f"LOAD '{found}'")
        host = access.s3.partition("://")[2]
        self._duckdb.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{access.access_key}', SECRET '{access.secret_key}', ENDPOINT '{host}', "
            f"USE_SSL {str(access.s3.startswith('https')).lower()}, URL_STYLE 'path', REGION '{access.region}')"
        )
        # DuckDB takes a URL for a file of somebody else's, and attaches it read-only.
        warehouse = access.properties.get("warehouse", "").rpartition("/")[2]
        self._duckdb.execute(
            f"ATTACH '{warehouse}' AS {CATALOG} (TYPE iceberg, ENDPOINT '{access.properties['uri']}', "
            "AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none')"
        )

    def execute(self, op: str, f: str, value: Arguments, table: TableSpec, identifier: tuple[str, str]) -> Any:
        result = None
        for s in KINDS[f].statements(value, op, table):
            sql = _LONG.sub(r"\1", s.sql.format_map({"table": f"{CATALOG}.{'.'.join(identifier)}"}))
            rows = self._duckdb.execute(sql).fetchall()
            if s.result:
                result = [list(r) for r in rows]
        return result

    def alive(self) -> bool:
        return True

    def close(self) -> None:
        self._duckdb.close()


class DuckDB(Guest):
    """DuckDB's Iceberg extension. A commit requires that main has not moved since the transaction began."""

    name = "duckdb"
    title = "DuckDB"
    needs = "duckdb"
    catalogs = frozenset({"rest"})
    promises: ClassVar[Mapping[str, Promise]] = {
        kind: Promise("serializable")
        for kind in (
            "insert",
            "update-register",
            "update-counter",
            "update-append",
            "delete",
            "merge-upsert",
            "read",
            "read-key",
        )
    }

    commits: ClassVar[Mapping[str, Commit]] = {
        "insert": Commit("appends", {"main": REFUSED}, retries=False, source=_CODE),
        **{
            kind: Commit("position deletes", {"main": REFUSED}, retries=False, source=_CODE)
            for kind in ("update-register", "update-counter", "update-append", "delete", "merge-upsert")
        },
    }

    def open(self, access: Access) -> _Client:
        return _Client(access)
