"""Tables of Delta Lake that Spark wrote by many kinds of operations, two at a time, and what others read of each version.

``python -m tests.support.delta_versions spark FOLDER FIRST COUNT`` makes the tables ``FOLDER/<seed>`` in one Spark session with the jars of
``$DELTA_JARS``, and writes ``FOLDER/<seed>.json``: version → its rows, as Spark reads them (``VERSION AS OF``). With ``duckdb`` in place of
``spark`` it writes ``FOLDER/<seed>.duckdb.json``: the same as DuckDB's ``delta_scan`` reads them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

LATER = "SELECT id, val, cnt, log, part FROM"
OPS_OF_EACH = 12
WRITERS = 2


def by_spark(folder: Path, seeds: range) -> None:
    """Make the tables, and read their versions."""
    from pyspark.sql import SparkSession

    from compose.stack.sparkconf import FAST
    from tests.support.simulator import OF_DELTA
    from workloads.operations.kinds import KINDS

    spark = SparkSession.builder.master("local[2]")
    for key, value in {
        "spark.driver.extraClassPath": os.environ["DELTA_JARS"],
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        **FAST,
    }.items():
        spark = spark.config(key, value)
    session = spark.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    mix = {f: weight for f, weight in OF_DELTA.items() if KINDS[f].commits and f != "vacuum"}
    for seed in seeds:
        place = (folder / str(seed)).as_uri()
        _made(session, place, mix, seed)
        last = session.sql(f"DESCRIBE HISTORY delta.`{place}` LIMIT 1").collect()[0][0]
        rows = {v: session.sql(f"{LATER} delta.`{place}` VERSION AS OF {v}").collect() for v in range(1, last + 1)}
        (folder / f"{seed}.json").write_text(json.dumps(rows))


def _made(spark: Any, place: str, mix: dict[str, float], seed: int) -> None:
    """One table, by several writers at once; what is refused has failed."""
    from harness.writers.session import Session
    from harness.writers.slot import request
    from workloads.ddl import definition
    from workloads.operations.keys import Keys
    from workloads.operations.kind import Draw
    from workloads.operations.kinds import KINDS
    from workloads.tables import SQL_COLUMNS, TableSpec

    rng = Random(seed)
    table = TableSpec(
        name="t",
        format="delta",
        mode=rng.choice(["copy-on-write", "merge-on-read"]),
        partitioned=rng.random() < 0.7,
        partitions=2,
        properties={
            "delta.enableChangeDataFeed": rng.choice(["true", "false"]),
            "delta.columnMapping.mode": ("name", "none", "id")[seed % 3],
        },
    )
    spark.sql(f"CREATE TABLE delta.`{place}` ({SQL_COLUMNS}) {definition(table)}")

    def write(writer: int) -> None:
        own, session = Random(f"{seed}/{writer}"), Session(spark.newSession())
        for n in range(OPS_OF_EACH):
            kind = KINDS["insert" if n < 2 else own.choices(list(mix), list(mix.values()))[0]]
            value = kind.arguments(Draw(own, Keys(6), writer, table, False, {}))
            op = f"w{writer}-{n}"
            session.execute(
                request(op, kind.statements(value, op, table), catalog="c", namespace="n", table="t", place=place)
            )

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_duckdb(folder: Path, seeds: range) -> None:
    """Read the versions that Spark has read."""
    import duckdb
    import duckdb_extension_delta

    found = next(Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension"))
    db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    db.execute(f"LOAD '{found}'")
    for seed in seeds:
        place, versions = (folder / str(seed)).as_uri(), json.loads((folder / f"{seed}.json").read_text())
        rows = {v: db.execute(f"{LATER} delta_scan('{place}', version={v})").fetchall() for v in versions}
        (folder / f"{seed}.duckdb.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    made, first, count = Path(sys.argv[2]), *map(int, sys.argv[3:])
    {"spark": by_spark, "duckdb": by_duckdb}[sys.argv[1]](made, range(first, first + count))
