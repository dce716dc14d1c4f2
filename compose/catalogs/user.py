"""The entry of a user-supplied catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from compose.catalogs import hadoop
from compose.catalogs.catalog import Catalog
from compose.catalogs.probe import Probe
from compose.catalogs.user_file import UserCatalogFile
from compose.endpoints import Endpoints

SPARK_NAME = "c"
"""The catalog's name in the writers' sessions; a JDBC catalog stores its tables under that name."""


@dataclass(frozen=True)
class UserCatalog(Catalog):
    """The entry of a catalog that the user described."""

    front: str | None = None
    """``host:port`` to which a proxy connects, if that is not the address that writers use."""

    @property
    def page(self) -> str:
        return "docs/own-catalog.md"

    def address(self, endpoints: Endpoints) -> tuple[str, int]:
        if self.front is None:
            return super().address(endpoints)
        host, _, port = self.front.rpartition(":")
        return host, int(port)

    def through(self, endpoints: Endpoints, host: str, port: int) -> Endpoints:
        seen = super().through(endpoints, host, port)
        return replace(seen, catalog_uri=re.sub(r"^https:", "http:", seen.catalog_uri))


def entry(own: UserCatalogFile) -> Catalog:
    """An entry like those of ``compose.catalogs.registry``."""

    def properties(endpoints: Endpoints) -> Mapping[str, str]:
        found = dict(own.of_type.limits(own.spark))
        if own.warehouse or own.of_type.needs_warehouse:
            found["warehouse"] = endpoints.warehouse
        found |= own.spark
        if own.wire not in (None, "s3"):
            found[own.key] = endpoints.catalog_uri
        return found

    def pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
        if own.of_type.files:
            return hadoop.pointer(endpoints, namespace, table, timeout)
        with probe(own) as asked:
            return asked.pointer(namespace, table, timeout)

    files = own.of_type.files
    return UserCatalog(
        name=own.name,
        summary=own.summary or f"from {own.file}",
        promise=f"what its server decides; {own.guard}",
        wire=own.wire or ("s3" if files else None),
        uri=lambda *_: own.uri,
        properties=properties,
        pointer=pointer,
        guard=own.guard,
        session=lambda e: {**(hadoop.s3a(e) if files else {}), **own.session},
        jars=hadoop.HADOOP.jars if files else (),
        scheme="s3a" if files else "s3",
        own_io=files,
        overwrites=files,
        front=own.address,
    )


def probe(own: UserCatalogFile, run_id: str = "") -> Probe:
    """A process that asks the catalog for its tables' pointers. A Hadoop catalog has none to ask."""
    return Probe(own.name, {SPARK_NAME: own.pyiceberg}, file=own.file, run_id=run_id)
