"""A statement whose commit goes to one table by ``POST /v1/transactions/commit``, on the writer's side.

Iceberg's client commits to one table by that table's own path, and by ``/v1/transactions/commit`` only to several. Other clients, such
as DuckDB, use it for one table, too. To ask any REST catalog what it does with such a commit, the session gets a second catalog,
``<name>_by_transaction``, with the properties of the first. Its client is Iceberg's, wrapped so that commits take the other way
(``compose/install/java/TransactionCatalog.java``). Nothing is staged: the request has the same requirements and updates as an ordinary
commit.

The class need not be on the class path of Spark: this driver loads it, and no executor uses it. Like ``harness.writers.session``, this
module imports only the standard library.
"""

from __future__ import annotations

from typing import Any

CLASSES_PROPERTY = "spark.icequake.classes"
"""Property of the session: the folder of icequake's own Java classes."""
IMPLEMENTATION = "TransactionCatalog"
REST = "org.apache.iceberg.rest.RESTCatalog"


class NotRest(Exception):
    """The catalog is no REST catalog, so it has no such endpoint. Nothing was sent."""


def catalog(spark: Any, name: str) -> str:
    """The name of the session's catalog that commits by transaction to the tables of the catalog ``name``; it is made if it is not there.

    Raises:
        NotRest: ``name`` is not Iceberg's REST catalog.
        Py4JJavaError: it cannot be made; nothing was committed.
    """
    prefix, twin = f"spark.sql.catalog.{name}", f"{name}_by_transaction"
    state = spark._jsparkSession.sessionState()
    if spark.conf.get(f"spark.sql.catalog.{twin}", None) is None:
        for key, value in _twin(_settings(spark, state, prefix), name).items():
            spark.conf.set(f"spark.sql.catalog.{twin}{key}", value)
    _load(spark, state, twin)
    return twin


def _settings(spark: Any, state: Any, prefix: str) -> dict[str, str]:
    """What follows ``prefix`` in the names of the session's properties."""
    every = spark._jvm.scala.collection.JavaConverters.mapAsJavaMapConverter(state.conf().getAllConfs()).asJava()
    return {k.removeprefix(prefix): v for k, v in dict(every).items() if k == prefix or k.startswith(f"{prefix}.")}


def _twin(settings: dict[str, str], name: str) -> dict[str, str]:
    kind = settings.get(".catalog-impl") or settings.get(".type", "hive")
    if kind not in (REST, "rest"):
        raise NotRest(
            f"the catalog {name} is {kind}, and POST /v1/transactions/commit is an endpoint of REST catalogs; "
            "use operations by transaction with a REST catalog, or the ordinary kinds"
        )
    kept = {k: v for k, v in settings.items() if k not in (".type", ".catalog-impl")}
    return kept | {".catalog-impl": IMPLEMENTATION}


def _load(spark: Any, state: Any, twin: str) -> None:
    """Make Spark load the catalog, unless it has done so, with a class loader that finds its class."""
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(spark.conf.get(CLASSES_PROPERTY)).toURI().toURL()
    thread, sessions = jvm.java.lang.Thread.currentThread(), jvm.org.apache.spark.sql.SparkSession
    loader, active = thread.getContextClassLoader(), sessions.getActiveSession()
    thread.setContextClassLoader(jvm.java.net.URLClassLoader(urls, loader))
    sessions.setActiveSession(spark._jsparkSession)  # whose properties Spark looks at
    try:
        state.catalogManager().catalog(twin)
    finally:
        thread.setContextClassLoader(loader)
        if active.isDefined():
            sessions.setActiveSession(active.get())
        else:
            sessions.clearActiveSession()
