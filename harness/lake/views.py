"""Spark over the lake: its tables as views, and which statements a user may ask.

Spark reads a table by its current metadata file; the user's own catalog is reached as its file says (``spark``). ``runs`` is read first, and
the other views have only rows of runs in it. So a run that is being added is not seen in part.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkers.lake.tables import LAKE_TABLES, RUNS_TABLE, TableSchema
from compose.install.installation import Installation
from compose.servers import classdata
from compose.servers.spark import SMALL_JVM, join_class_path, spark_environment
from harness.lake.errors import LakeError, QueryError, full, full_at
from harness.lake.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCAL = "local[2]"
LAKE_CATALOG = "lake"
LAKE_HEAP_MB = 1024
BEHIND = "_all_"
"""Of the views with all rows, also those of runs that are not in ``runs``."""


# --- a session --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def session(installation: Installation, lake: Lake, master: str = LOCAL) -> Iterator[SparkSession]:
    """A Spark session with the lake's tables as views, for the time of ``with``.

    Args:
        installation: its Spark, and its Iceberg runtime, read the tables.
        master: ``local[2]``, or the address of a cluster, whose executors must be able to read the lake's files.

    Raises:
        LakeError: Spark cannot start, or cannot read the tables.
        OSError: the disk of its scratch files is full.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    scratch = Path(tempfile.mkdtemp(prefix="icequake-lake-"))
    kept = dict(os.environ)
    os.environ.update(
        spark_environment(java=installation.java, spark_home=installation.spark_home, python=Path(sys.executable))
    )
    try:
        builder = SparkSession.builder.appName("icequake lake")
        for key, value in conf(installation, lake, master, scratch).items():
            builder = builder.config(key, value)
        with _without_output():
            try:
                spark = builder.getOrCreate()
            except Exception as e:  # Py4J's, or that the gateway did not come up
                if full(e):
                    raise full_at(scratch) from None
                raise LakeError(f"--spark {master}: Spark did not start: {first_line(e)}") from None
        try:
            spark.sparkContext.setLogLevel("OFF")
            logging.getLogger("SQLQueryContextLogger").disabled = True  # writes the stack of every wrong statement
            try:
                views(spark, lake)
            except PySparkException as e:
                if full(e):
                    raise full_at(scratch) from None
                raise LakeError(f"{lake.place.name}: Spark cannot read its tables: {first_line(e)}") from None
            try:
                yield spark
            except (PySparkException, Py4JError) as e:  # of a task, which PySpark hands on as Py4J's
                if full(e):
                    raise full_at(scratch) from None
                raise
        finally:
            spark.stop()
    finally:
        os.environ.clear()
        os.environ.update(kept)
        shutil.rmtree(scratch, ignore_errors=True)


def conf(installation: Installation, lake: Lake, master: str, scratch: Path) -> dict[str, str]:
    """The properties of the session."""
    jars = [*installation.jars["spark"], *map(Path, lake.place.jars)]
    local = master.startswith("local")
    java = [*SMALL_JVM, "-Duser.timezone=UTC", *classdata.use(installation), f"-Dderby.system.home={scratch}"]
    return {
        "spark.master": master,
        "spark.driver.memory": f"{LAKE_HEAP_MB}m",
        "spark.driver.extraClassPath": join_class_path(jars),
        "spark.driver.extraJavaOptions": " ".join(java),
        **({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if local else {}),
        **({} if local else {"spark.jars": ",".join(map(str, jars))}),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",  # the data are small: to plan again costs more than it saves
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **_catalog(lake),
        **lake.place.session,
    }


def _catalog(lake: Lake) -> dict[str, str]:
    if not lake.place.spark:
        return {}
    name = f"spark.sql.catalog.{LAKE_CATALOG}"
    return {name: "org.apache.iceberg.spark.SparkCatalog", **{f"{name}.{k}": v for k, v in lake.place.spark.items()}}


@contextlib.contextmanager
def _without_output() -> Iterator[None]:
    """Spark's launcher writes its notes to this process's standard error; they help nobody here."""
    sys.stderr.flush()
    kept = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(null)
        os.close(kept)


def views(spark: SparkSession, lake: Lake) -> None:
    """Register every table of the lake as a view.

    Raises:
        LakeError: Spark cannot reach the tables' files.
    """
    for schema in (RUNS_TABLE, *LAKE_TABLES[:-1]):
        frame = _whole(_read(spark, lake, schema.name), schema)
        if schema is RUNS_TABLE:
            frame.createOrReplaceTempView(RUNS_TABLE.name)
            continue
        frame.createOrReplaceTempView(f"{BEHIND}{schema.name}")
        spark.sql(
            f"SELECT a.* FROM {BEHIND}{schema.name} a LEFT SEMI JOIN {RUNS_TABLE.name} r ON a.run = r.run AND a.day = r.day"
        ).createOrReplaceTempView(schema.name)


def _whole(frame: DataFrame, schema: TableSchema) -> DataFrame:
    """The rows with null in the columns that came after the lake was made, and that nothing has been written to since."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_type

    missing = {c.name: F.lit(None).cast(from_arrow_type(c.type)) for c in schema.columns if c.name not in frame.columns}
    return frame.withColumns(missing) if missing else frame


def _read(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    table = lake.table(name)
    if lake.place.spark:
        return spark.table(f"{LAKE_CATALOG}.{lake.place.namespace}.`{name}`")
    location = table.metadata_location
    if "://" in location and not location.startswith("file:"):
        raise LakeError(
            f"{lake.place.name}: Spark cannot read {location} by its path; say under spark: how it reaches the catalog (docs/lake.md)"
        )
    return spark.read.format("iceberg").load(location)


# --- statements -------------------------------------------------------------------------------------------------------

_COMMENT = re.compile(r"--[^\n]*(?:\n|$)|/\*.*?\*/", re.DOTALL)
ALLOWED = ("SELECT", "WITH", "SHOW", "DESCRIBE", "DESC")


def readable(sql: str) -> str:
    """A statement without the semicolon at its end.

    Raises:
        QueryError: its first word is none of :data:`ALLOWED`, or there are several statements.
    """
    plain = _COMMENT.sub(" ", sql).strip()
    text = sql.strip().rstrip(";").strip()
    first = re.match(r"\(*\s*([A-Za-z]+)", plain)
    if first is None or first[1].upper() not in ALLOWED:
        what = f"{first[1].upper()} …" if first is not None else repr(plain[:40])
        raise QueryError(f"query: {what} is not allowed; only {', '.join(ALLOWED[:-1])} are: the lake is read only")
    return text


def ask(spark: SparkSession, sql: str) -> DataFrame:
    """What a statement gives.

    Raises:
        QueryError: it would change something, or Spark does not understand it.
    """
    from pyspark.errors import PySparkException

    text = readable(sql)
    try:
        if (how := _changes(spark, text)) is not None:
            raise QueryError(f"query: the statement has {how}; it may only read: the lake is read only")
        return spark.sql(text)
    except PySparkException as e:
        raise failed(e) from None


def failed(error: Exception) -> QueryError | OSError:
    """Why Spark could not answer: the statement is wrong, or the disk of its scratch files is full."""
    return full_at(Path(tempfile.gettempdir())) if full(error) else QueryError(f"query: {first_line(error)}")


def _changes(spark: SparkSession, text: str) -> str | None:
    """The node of the parsed statement that changes something; None for one that only reads."""
    plan: Any = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    if re.match(r"(?i)\W*(show|desc|describe)\b", _COMMENT.sub(" ", text).strip()):
        return None
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        name = str(node.nodeName())
        kinds = str(node.getClass().getName())
        if "Command" in kinds or "Insert" in name or _CHANGING.fullmatch(name):
            return name
        children = node.children()
        waiting += [children.apply(i) for i in range(children.size())]
    return None


_CHANGING = re.compile(
    r"(?:Insert|Overwrite|Append|Delete|Update|Merge|Create|Drop|Alter|Replace|Truncate|Set|Cache|Uncache|Load|Refresh|Analyze).*"
)


def first_line(error: Exception) -> str:
    """The first line of an error's message, without Spark's position and stack; of Py4J's, that of the error in Java."""
    inside = getattr(error, "java_exception", None)
    text = str(error if inside is None else inside.getMessage()).strip().splitlines()
    return next((line.strip() for line in text if line.strip()), type(error).__name__)
