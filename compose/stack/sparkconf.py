"""How a Spark session reaches the stack: its configuration and its environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from compose.catalogs import delta, user_file
from compose.catalogs.catalog import Catalog
from compose.catalogs.registry import catalog_of
from compose.endpoints import Endpoints
from compose.install import delta as delta_files
from compose.install import ensure
from compose.install.installation import Installation
from compose.redaction import SECRET_NAMES
from compose.servers import classdata
from compose.servers.spark import SMALL_JVM, join_class_path, spark_environment


def writer_environment(installation: Installation, endpoints: Endpoints) -> dict[str, str]:
    """The whole environment of a PySpark driver process (add the run's mark: compose.processes.watchdog.marked_environment)."""
    return {
        **spark_environment(java=installation.java, spark_home=installation.spark_home, python=installation.python),
        "SPARK_LOCAL_IP": endpoints.driver_host,
        "AWS_REGION": endpoints.region,  # also that of a user-supplied object store
        "AWS_ACCESS_KEY_ID": endpoints.access_key,  # for other clients than the object store's: Glue's, DynamoDB's
        "AWS_SECRET_ACCESS_KEY": endpoints.secret_key,
    }


EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def jars_of(
    installation: Installation, catalog: Catalog, supplied: Iterable[str | Path] = (), *, with_delta: bool = False
) -> list[Path]:
    """The jars, and the folder of icequake's own classes, that a session needs besides Spark; ``supplied``: those of a user's own catalog."""
    jars = [*installation.jars["spark"], *(path for conf in catalog.jars for path in ensure.paths(installation, conf))]
    jars += [ensure.own_classes(installation)] if catalog.own_classes else []
    jars += [path for path in delta_files.paths(installation) if path not in jars] if with_delta else []
    return [*jars, *map(Path, supplied)]


_STORE_KEYS = ("io-impl", "s3.path-style-access", "client.region")
"""How files are read and written: the file of a user's catalog may override these."""


FAST = {
    "spark.sql.codegen.wholeStage": "false",  # with the next one × 0.93 (0.89 to 0.96)
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # alone × 0.99 (0.95 to 1.02)
    "spark.sql.adaptive.enabled": "false",  # × 0.97 (0.94 to 1.01)
    "spark.locality.wait": "0",  # an executor is anywhere as near as anywhere else
}
"""What ``session: fast`` adds. A plan of a few rows is run as it is: to compile it, or to plan it again, takes longer than to run it.

The numbers are what a setting does to the processor time of a warm statement where the tasks run in the driver, with 95 % intervals, over 5
pairs of 12 statements; all together × 0.90 (0.88 to 0.92). What did nothing to it is not here: more heap, or more of it young; a second task at
a time; fewer updates for a user interface; broadcasts without compression; plans without validation. With the JVM's second compiler each of
the first 100 statements took × 1.6 (1.2 to 2.2), with later compilation × 1.07 (1.04 to 1.09). Hadoop's default files, which Iceberg reads anew
for each file that it writes, cost 4 %; S3A does not work without them."""


_ALWAYS = {
    "spark.executor.cores": "1",
    "spark.cores.max": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.extensions": EXTENSIONS,
    "spark.sql.iceberg.aggregate-push-down.enabled": "false",
    "spark.redaction.regex": f"(?i){SECRET_NAMES}",
}
"""What every session has, whatever the stack is."""


def spark_conf(
    installation: Installation,
    endpoints: Endpoints,
    *,
    scratch: Path,
    catalog_name: str = "c",
    driver_memory_mb: int = 512,
    executor_memory_mb: int = 512,
    cache_enabled: bool = False,
    jvm_options: Callable[[str], Sequence[str]] | None = None,
) -> dict[str, str]:
    """All Spark properties of one writer's driver: one executor of one core on the stack's cluster, or one task at a time in the driver.

    Args:
        installation: For the class path.
        endpoints: The stack.
        scratch: A folder for this writer only, inside the run's data folder; it need not exist.
        catalog_name: The catalog's name in SQL.
        driver_memory_mb: Heap of the driver; Spark refuses less than 450. If the tasks run in it, it has also that of the executor.
        executor_memory_mb: Heap of the executor; Spark refuses less than 450.
        cache_enabled: Whether Iceberg may use tables that it loaded before; reads may then be stale, by design.
        jvm_options: More options for the JVMs, called with ``driver`` and ``executor``. Without it they use the
            class-data archive, if there is one.
    """
    supplied = user_file.UserCatalogFile.of(endpoints.own).jars if endpoints.own else ()
    jars = jars_of(installation, catalog_of(endpoints), supplied, with_delta=bool(endpoints.guard))
    if endpoints.mode.cluster == "local":
        driver_memory_mb += executor_memory_mb
    return {
        **_ALWAYS,
        "spark.master": endpoints.spark_master,
        "spark.driver.memory": f"{driver_memory_mb}m",
        "spark.executor.memory": f"{executor_memory_mb}m",
        **_jvm_conf(
            endpoints,
            jars,
            join_class_path(jars) if supplied else classdata.extended(installation, jars),
            scratch,
            jvm_options or (lambda _: classdata.use(installation)),
        ),
        "spark.executorEnv.AWS_REGION": endpoints.region,
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        "spark.icequake.classes": str(installation.rest_classes),  # harness.writers.by_transaction
        **(FAST if endpoints.session == "fast" else {}),
        **_catalog_conf(endpoints, catalog_name, cache_enabled),
    }


def _jvm_conf(
    endpoints: Endpoints, jars: Sequence[Path], class_path: str, scratch: Path, options: Callable[[str], Sequence[str]]
) -> dict[str, str]:
    """The driver's address, and the class path and the options of both JVMs."""
    small = [*SMALL_JVM, "-Duser.timezone=UTC"]
    conf = {
        "spark.driver.host": endpoints.driver_host,
        "spark.driver.bindAddress": endpoints.driver_host,
        "spark.driver.extraClassPath": class_path,
        "spark.driver.extraJavaOptions": " ".join([*small, *options("driver"), f"-Dderby.system.home={scratch}"]),
    }
    if (
        endpoints.ship_jars
    ):  # executors on other machines cannot read paths of this one: they get the jars from their driver
        return conf | {
            "spark.jars": ",".join(map(str, jars)),
            "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        }
    return conf | {
        "spark.executor.extraClassPath": class_path,
        "spark.executor.extraJavaOptions": " ".join([*small, *options("executor")]),
    }


def _catalog_conf(endpoints: Endpoints, catalog_name: str, cache_enabled: bool) -> dict[str, str]:
    """The catalog under its name in SQL, and what it needs of the session."""
    catalog, entry = f"spark.sql.catalog.{catalog_name}", catalog_of(endpoints)
    properties = {**entry.properties(endpoints), "cache-enabled": str(cache_enabled).lower()}
    if endpoints.session == "fast":
        # Without a report of each scan and each commit to a REST server: × 0.97 (0.96 to 0.99), 11 pairs of 12 statements.
        properties["rest-metrics-reporting-enabled"] = "false"
    if not entry.own_io:
        properties |= {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": endpoints.s3,
            "s3.path-style-access": "true",
            "s3.access-key-id": endpoints.access_key,
            "s3.secret-access-key": endpoints.secret_key,
            "client.region": endpoints.region,
        }
    if endpoints.own:
        properties |= {k: v for k, v in endpoints.own["spark"].items() if k in _STORE_KEYS}
    properties |= endpoints.catalog_properties
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        **(delta.session(endpoints, EXTENSIONS) if endpoints.guard else {}),
        **entry.session(endpoints),
        **{f"{catalog}.{name}": value for name, value in properties.items()},
    }
