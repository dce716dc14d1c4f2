"""The catalogs that ``--catalog`` and ``catalog:`` can name. A catalog is a file with its entry, a line here, and its page in docs/catalogs."""

from __future__ import annotations

from collections.abc import Mapping

from compose.catalogs import user, user_file
from compose.catalogs.catalog import Catalog
from compose.catalogs.hadoop import HADOOP, HADOOP_CONDITIONAL, HADOOP_LOCKED
from compose.catalogs.hive import HIVE, HIVE_CAS, HIVE_NOLOCK
from compose.catalogs.jdbc import JDBC
from compose.catalogs.moto import DYNAMODB, GLUE, GLUE_CAS
from compose.catalogs.nessie import NESSIE, NESSIE_NATIVE
from compose.catalogs.polaris import POLARIS
from compose.catalogs.rest import REST
from compose.catalogs.sqlite import JDBC_SQLITE
from compose.endpoints import Endpoints

DEFAULT = REST.name
"""The catalog of a workload that names none."""

_ENTRIES = (
    *(REST, JDBC, JDBC_SQLITE),
    *(HIVE, HIVE_CAS, HIVE_NOLOCK),
    *(NESSIE, NESSIE_NATIVE),
    *(HADOOP, HADOOP_LOCKED, HADOOP_CONDITIONAL),
    *(GLUE, GLUE_CAS, DYNAMODB),
    POLARIS,
)

CATALOGS: Mapping[str, Catalog] = {entry.name: entry for entry in _ENTRIES}
"""By name."""


def catalog_of(endpoints: Endpoints) -> Catalog:
    """The entry of the catalog that the endpoints lead to: one of ``CATALOGS``, or the user's."""
    if endpoints.own is None:
        return CATALOGS[endpoints.catalog]
    return user.entry(user_file.UserCatalogFile.of(endpoints.own))
