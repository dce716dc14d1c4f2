"""The addresses and credentials of a stack."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from workloads.file.mode import Cluster, Mode, Session


def is_local(master: str) -> bool:
    """Whether the executors of a Spark with this master run in the driver's process."""
    return master.startswith("local")


def cluster_of(master: str) -> Cluster:
    """Where the tasks of a Spark with this master run."""
    return "local" if is_local(master) else "standalone"


@dataclass(frozen=True)
class Endpoints:
    """Where a stack is, in plain values: all that a writer, a proxy or a reader of the store needs.

    Attributes:
        catalog: its name (``compose.catalogs.registry``).
        catalog_uri: of the place where commits are decided.
        catalog_properties: more properties of the catalog, which come last and win, such as ``cache-enabled``.
        own: a user-supplied catalog (``compose.catalogs.user_file.UserCatalogFile.plain``); None:
            ``catalog`` is one of ``compose.catalogs.registry``.
        driver_host: where Spark's executors reach the drivers: an address of this machine.
        ship_jars: whether the executors are on other machines, and get the jars from their driver.
        guard: what guards the commits of Delta tables (:mod:`compose.catalogs.delta`); empty: the sessions have no Delta.
        session: how the drivers' sessions are made (:mod:`workloads.file.mode`).
    """

    s3: str
    access_key: str
    secret_key: str
    region: str
    bucket: str
    catalog: str
    catalog_uri: str
    warehouse: str
    spark_master: str
    catalog_properties: dict[str, str] = field(default_factory=dict)
    own: dict[str, Any] | None = None
    driver_host: str = "127.0.0.1"
    ship_jars: bool = False
    session: Session = "spark"
    guard: str = ""

    @property
    def near(self) -> bool:
        """Whether the executors are on this machine, as far as can be known: they reach its loopback."""
        return self.driver_host.startswith("127.") or self.driver_host in ("::1", "localhost")

    @property
    def mode(self) -> Mode:
        """Session and cluster of the writers' drivers."""
        return Mode(self.session, cluster_of(self.spark_master))

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises ValueError if ``text`` is not what ``to_json`` wrote."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"these are no endpoints of a stack: {error}") from error
