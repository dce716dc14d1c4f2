"""Spark Structured Streaming: each writer is a driver with one standing query for each table, which appends to it (``writeStream``).

An operation is one file of rows in the folder that the query reads; ``maxFilesPerTrigger=1`` makes it one micro-batch, an *epoch*. The
operation is acknowledged when the query is through with the folder (``StreamingQuery.processAllAvailable``): Iceberg has committed the
epoch, and after that Spark has written it into the commit log of its checkpoint. Input and checkpoint outlive the writer. A driver that
takes over starts the queries that it finds there; an epoch that is not in the commit log is executed again, with the same number and the
same file, and Iceberg's sink must recognise it by ``spark.sql.streaming.queryId`` and ``epochId`` in the summaries of main's snapshots.

So an operation whose rows were given to its query is never known to have failed: the next start of the query commits it. The rows of
an operation are given to its query only when the epochs before it are done, so that each epoch is one operation's.

The tasks run in the driver (``local[1]``), because the rows are files on the driver's disk, which executors elsewhere could not read.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from nemesis.operation_key import OPERATION_KEY
from workloads.engines.engine import Access, CommitRules, Guest, Promise
from workloads.operations.kind import Arguments, new_rows
from workloads.tables import SQL_COLUMNS, TableSpec

SINK = "org.apache.iceberg.spark.source.SparkWrite"
"""It logs each epoch that it commits or skips, at level INFO."""

SET = "stream.set."
"""Catalog properties that begin so are properties of a stream's Spark session: ``stream.set.spark.wap.branch``."""

RECOVERY_S = 60.0
"""Seconds that a driver spends on what the one before it left, before it says that it is ready; if that is not enough it goes on meanwhile."""

_SESSION = {
    "spark.master": "local[1]",
    "spark.sql.streaming.pollingDelay": "50ms",  # between looks into an empty folder; the default, 10 ms, keeps a core busy
}


class NotFed(Exception):
    """The query of a table does not run, or cannot finish what it had to do before; the operation's rows were not given to it."""


class _Client:
    def __init__(self, access: Access) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder
        own = {k.removeprefix(SET): v for k, v in access.properties.items() if k.startswith(SET)}
        for key, value in {**access.spark, **_SESSION, **own}.items():
            builder = builder.config(key, value)
        self._spark: Any = builder.getOrCreate()
        for key in own:
            print(f"the session has {key}={self._spark.conf.get(key)}", flush=True)
        self._spark.sparkContext.setLogLevel("WARN")
        log4j = self._spark._jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel(SINK, log4j.Level.INFO)
        self._context = self._spark._jvm.org.apache.iceberg.EnvironmentContext
        self._catalog = _catalog_of(access.spark)
        self._scratch = Path(access.scratch)
        self._queries: dict[str, Any] = {}
        self._recovery: threading.Thread | None = None
        self._recover()

    def execute(self, op: str, f: str, value: Arguments, table: TableSpec, identifier: tuple[str, str]) -> None:
        if self._recovery is not None:
            self._recovery.join()
        name = ".".join(identifier)
        try:
            query = self._running(name)
        except Exception as e:
            raise NotFed(f"the query of {name} did not get to these rows") from e
        self._context.put(OPERATION_KEY, op)
        draft = self._scratch / name / "draft"
        draft.write_text("".join(json.dumps(row._asdict()) + "\n" for row in new_rows(value, op, table)))
        draft.rename(self._input(name) / f"{op}.json")
        self._finish(name, query)

    def _recover(self) -> None:
        """Start the queries that the driver before this one had, one after the other, and let them commit what it left.

        A proxy takes the requests of this time for those of the operation before.
        """
        for name in sorted(p.name for p in self._scratch.iterdir()):
            try:
                query = self._start(name)
            except Exception as e:  # such as a catalog that is down: the next operation starts it
                print(f"the query of {name} was not started: {e}", flush=True)
                continue
            self._recovery = threading.Thread(target=self._recovered, args=(name, query), name=name, daemon=True)
            self._recovery.start()
            self._recovery.join(RECOVERY_S)
            if self._recovery.is_alive():
                return

    def _recovered(self, name: str, query: Any) -> None:
        try:
            self._finish(name, query)
        except Exception as e:
            print(f"the query of {name} ended: {e}", flush=True)

    def _running(self, name: str) -> Any:
        """The standing query of a table; if it has to be started, it first commits the epoch that its checkpoint lacks."""
        query = self._queries.get(name)
        if query is None or not query.isActive:
            query = self._start(name)
            self._finish(name, query)
        return query

    def _start(self, name: str) -> Any:
        self._input(name).mkdir(parents=True, exist_ok=True)
        for path in self._input(name).iterdir():  # one at most: rows are given to a query that has none left
            self._context.put(OPERATION_KEY, path.stem)
        place = (self._scratch / name).as_uri()
        rows = self._spark.readStream.schema(SQL_COLUMNS).option("maxFilesPerTrigger", 1).json(f"{place}/input")
        query = (
            rows.writeStream.format("iceberg")
            .outputMode("append")
            .option("fanout-enabled", "true")
            .option("checkpointLocation", f"{place}/checkpoint")
            .toTable(f"{self._catalog}.{name}")
        )
        self._queries[name] = query
        return query

    def _finish(self, name: str, query: Any) -> None:
        """Wait until the query is through with its input, and remove that."""
        query.processAllAvailable()
        for done in self._input(name).iterdir():
            done.unlink()

    def _input(self, name: str) -> Path:
        return self._scratch / name / "input"

    def alive(self) -> bool:
        try:
            return not self._spark.sparkContext._jsc.sc().isStopped()
        except Exception:
            return False

    def close(self) -> None:
        self._spark.stop()


def _catalog_of(session: Mapping[str, str]) -> str:
    """The catalog's name in the session."""
    prefix = "spark.sql.catalog."
    return next(k.removeprefix(prefix) for k in session if k.startswith(prefix) and "." not in k.removeprefix(prefix))


class Stream(Guest):
    """Spark Structured Streaming: each operation is one epoch of Iceberg's streaming sink.

    A snapshot property of a query is the same for all its epochs, so the operation's id comes from
    ``EnvironmentContext``, in which it is put before an epoch may begin.
    """

    name = "stream"
    title = "Spark Structured Streaming"
    software: ClassVar[Mapping[str, str]] = {"Spark": "spark", "Iceberg": "iceberg"}
    marks = True
    imports_pyspark = True
    definite = frozenset({f"{__name__}.{NotFed.__qualname__}"})
    conflicts = frozenset({"org.apache.iceberg.exceptions.CommitFailedException"})
    promises: ClassVar[Mapping[str, Promise]] = {
        "insert": Promise(
            "serializable", source=f"{SINK}$BaseStreamingWrite.commit at apache-iceberg-1.12.0: an epoch once"
        ),
    }

    commits: ClassVar[Mapping[str, CommitRules]] = {
        "insert": CommitRules(
            "appends", source="apache-iceberg-1.12.0, SparkWrite$StreamingAppend.doCommit: newFastAppend"
        ),
    }

    def open(self, access: Access) -> _Client:
        return _Client(access)
