"""The catalogs: how Spark reaches each, where a proxy in front of its commit stands, and how to ask it for a table's pointer.

A catalog is one entry of ``CATALOGS`` (``compose.catalogs.catalog.Catalog``); nothing else knows what a catalog is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compose.catalogs import user, user_file
from compose.catalogs.catalog import Catalog, Site
from compose.catalogs.hadoop import HADOOP
from compose.catalogs.hive import HIVE, HIVE_CAS, HIVE_NOLOCK, Metastore
from compose.catalogs.jdbc import JDBC
from compose.catalogs.moto import DYNAMODB, GLUE, GLUE_CAS, Moto
from compose.catalogs.nessie import NESSIE, NESSIE_NATIVE, Nessie
from compose.catalogs.polaris import POLARIS, Polaris
from compose.catalogs.rest import REST, RestCatalog
from compose.catalogs.sqlite import JDBC_SQLITE
from compose.endpoints import Endpoints
from compose.processes.process import LocalProcess

__all__ = ["CATALOGS", "SERVERS", "Catalog", "catalog_of"]


SERVERS: Mapping[str, Callable[[Site], LocalProcess]] = {
    "rest": lambda site: RestCatalog(site),
    "hive": lambda site: Metastore(site),
    "nessie": lambda site: Nessie(site),
    "moto": lambda site: Moto(site),
    "polaris": lambda site: Polaris(site),
}
"""The servers of catalogs, by the name of their service; ``postgres`` is the stack's own."""

SERVER_PORTS = ("rest", "hive", "nessie", "nessie-management", "moto", "polaris", "polaris-management")


# --- REST -------------------------------------------------------------------------------------------------------------


# --- JDBC -------------------------------------------------------------------------------------------------------------


CATALOGS: Mapping[str, Catalog] = {
    c.name: c
    for c in (
        REST,
        JDBC,
        JDBC_SQLITE,
        HIVE,
        HIVE_CAS,
        HIVE_NOLOCK,
        NESSIE,
        NESSIE_NATIVE,
        HADOOP,
        GLUE,
        GLUE_CAS,
        DYNAMODB,
        POLARIS,
    )
}
"""By name: the allowed values of ``catalog:`` in a workload file."""


def catalog_of(endpoints: Endpoints) -> Catalog:
    """The entry of the catalog that the endpoints lead to: one of ``CATALOGS``, or the user's own."""
    return (
        CATALOGS[endpoints.catalog]
        if endpoints.own is None
        else user.entry(user_file.UserCatalogFile.of(endpoints.own))
    )
