"""The tables of a run: how they are created, followed and dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checkers.evidence.tablelog import Growth
from compose.catalogs import delta
from compose.catalogs.registry import catalog_of
from compose.endpoints import Endpoints
from compose.stack.pointers import table_history
from harness.run.context import RunContext
from harness.run.errors import RunError
from harness.tablefiles.delta.reader import DeltaReader
from harness.tablefiles.follower import Follower, LogReader
from harness.tablefiles.iceberg.reader import ObjectStore, TableReader
from harness.writers.driver import CATALOG
from harness.writers.slot import SETUP, WriterDied, WriterSlot, WriterTimeout, request
from workloads.ddl import definition
from workloads.file.workload import Workload
from workloads.operations.kind import Statement
from workloads.operations.side_tables import SideCreate, side_names
from workloads.tables import COLUMNS, DELTA, SQL_COLUMNS, TableSpec

Pointer = Callable[[str, str, float], str | None]
"""(namespace, table, timeout in s) → location of the current metadata.json."""

POINTER_S = 10.0
"""Seconds; the next capture asks again, so a catalog that is struck only makes this one fail."""

CREATE_NAMESPACE = [Statement("CREATE NAMESPACE IF NOT EXISTS {catalog}.{namespace}")]


def create_table(table: TableSpec) -> list[Statement]:
    """The DDL of one table under test, in an existing namespace."""
    return [Statement(f"CREATE TABLE {{table}} ({SQL_COLUMNS}) {definition(table)}")]


def drop_commands(catalog: str, namespace: str, workload: Workload) -> tuple[str, ...]:
    """The statements that drop the tables and the namespace of a run."""
    catalog = catalog if catalog.isidentifier() else f"`{catalog}`"
    tables = [f"DROP TABLE {catalog}.{namespace}.{t.name} PURGE" for t in workload.tables]
    asides = [f"DROP TABLE IF EXISTS {catalog}.{namespace}.{name} PURGE" for name in beside(workload)]
    return (*tables, *asides, f"DROP NAMESPACE {catalog}.{namespace}")


def beside(workload: Workload) -> list[str]:
    """The names that side tables of a run can have; none if no operation makes any."""
    makes = any(SideCreate.name in (phase.operations or ()) for phase in workload.resolved_phases())
    return [name for t in workload.tables if makes for name in side_names(t.name)]


class RunTables:
    """The namespace and the tables of one run, in its catalog."""

    def __init__(self, run: RunContext, endpoints: Endpoints, data: Path) -> None:
        self._run = run
        self._endpoints = endpoints
        self._delta = delta.location(endpoints, data, run.namespace) if endpoints.guard else None

    def place(self, table: TableSpec) -> str | None:
        """The location of a table that has no name in the catalog, as a Delta table has none; None for others."""
        return self._delta(table.name) if self._delta is not None and table.format == DELTA else None

    def create_namespace(self, slot: WriterSlot) -> None:
        """Raises RunError, as :meth:`create` does."""
        self._define(slot, "namespace " + self._run.namespace, CREATE_NAMESPACE, table="")

    def create(self, slots: Sequence[WriterSlot]) -> None:
        """Create all tables, divided among Spark's writers: a driver's first statements are slow, so all drivers warm up together.

        Raises:
            RunError: a table could not be created.
        """
        with ThreadPoolExecutor(len(slots)) as pool:
            shares = self._run.shares(self._run.workload.tables, self._run.able("insert"))
            for done in [pool.submit(self._create, slot, tables) for slot, tables in zip(slots, shares, strict=True)]:
                done.result()

    def follower(
        self,
        asked: Pointer,
        now: Callable[[], int],
        grown: Callable[[Growth], None] | None = None,
    ) -> Follower:
        """The follower that reads the table logs during the run.

        Args:
            asked: reads the current metadata location from the catalog.
            now: ns since the start of the run.
            grown: gets what each capture added to a log.
        """
        endpoints = self._endpoints
        store = ObjectStore(
            endpoint=endpoints.s3,
            access_key=endpoints.access_key,
            secret_key=endpoints.secret_key,
            region=endpoints.region,
        )
        catalog = catalog_of(endpoints)
        places = {t.name: self.place(t) for t in self._run.workload.tables}

        def reader(t: TableSpec) -> LogReader:
            path, place = self._run.folder.tablelog / f"{t.name}.jsonl", places[t.name]
            if place is not None:
                return DeltaReader(store, table=t.name, location=place, columns=COLUMNS, path=path)
            return TableReader(
                store,
                table=t.name,
                identifier=f"{CATALOG}.{self._run.namespace}.{t.name}",
                columns=COLUMNS,
                path=path,
                lists_one=catalog.lists_one,
                overwrites=catalog.overwrites,
            )

        readers = {t.name: reader(t) for t in self._run.workload.tables}

        def pointer(name: str) -> tuple[str | None, Sequence[str] | None]:
            if places[name] is not None:
                return None, None  # the log itself says which version is the newest
            where = asked(self._run.namespace, name, POINTER_S)
            return where, None if where is None else table_history(endpoints, self._run.namespace, name)

        return Follower(readers, pointer, now, self._run.settings.capture_interval, grown)

    def drop(self, slot: WriterSlot) -> bool:
        """Drop the tables with their files, and the namespace; True if the namespace is gone. A failed drop is reported."""
        for table in self._run.workload.tables:
            if self.place(table) is None:
                self._dropped(slot, "DROP TABLE {table} PURGE", table.name)
        for name in beside(self._run.workload):
            self._dropped(slot, "DROP TABLE IF EXISTS {table} PURGE", name)
        return self._dropped(slot, "DROP NAMESPACE {catalog}.{namespace}", "")

    def _dropped(self, slot: WriterSlot, sql: str, table: str) -> bool:
        message = request("clean", [Statement(sql)], catalog=CATALOG, namespace=self._run.namespace, table=table)
        try:
            answer = slot.call(message, self._run.workload.op_timeout)
        except (WriterDied, WriterTimeout) as e:
            answer = {"ok": False, "error": [["", str(e)]]}
        if not answer["ok"]:
            self._run.say(f"{sql.split(' {')[0].lower()} {table}: {answer['error'][0][1]}")
        return bool(answer["ok"])

    def _create(self, slot: WriterSlot, tables: list[TableSpec]) -> None:
        for table in tables:
            made = create_table(table)
            self._define(slot, f"table {table.name}", made, table=table.name, place=self.place(table))

    def _define(
        self, slot: WriterSlot, what: str, statements: list[Statement], *, table: str, place: str | None = None
    ) -> None:
        where = {"catalog": CATALOG, "namespace": self._run.namespace, "table": table}
        message = request(SETUP, statements, **where, place=place)
        try:
            answer = slot.call(message, self._run.workload.op_timeout)
        except (WriterDied, WriterTimeout) as e:
            raise RunError(f"{what} could not be created: {e}; see {self._run.folder.logs}") from None
        if not answer["ok"]:
            kind, text = answer["error"][0]
            reason = self._run.hide.text(f"{kind.rsplit('.', 1)[-1]}: {text}")
            raise RunError(f"{what} could not be created: {reason}; see {self._run.folder.logs}")
