"""A real Iceberg catalog with its object store and database in containers, for other people's tests. Needs ``testcontainers`` and pytest.

In a test file or in ``conftest.py``::

    from compose.docker.fixtures import iceberg


    def test_mine(iceberg):
        catalog = load_catalog("lake", **iceberg.pyiceberg())

or without pytest::

    with IcebergContainers("rest") as lake:
        ...

The services are those of ``compose.yaml``: images (also by their variables), limits and health checks are the same. Ports are free ones on
loopback. ``TESTCONTAINERS_RYUK_DISABLED=true`` is needed where the image of the reaper cannot be pulled, as everywhere with testcontainers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from compose.catalogs.catalog import Catalog
from compose.catalogs.registry import CATALOGS
from compose.docker import composefile
from compose.docker.composefile import Spec
from compose.endpoints import Endpoints
from compose.processes.ports import LOOPBACK
from compose.processes.service import ServiceError
from compose.servers.minio import ACCESS_KEY, BUCKET, REGION, SECRET_KEY
from compose.servers.postgres import DATABASE

FIXTURE_SECONDS = 180.0
_URI = {
    "rest": ("rest", 8181, "http://{address}"),
    "jdbc": ("postgres", 5432, "jdbc:postgresql://{address}/" + DATABASE),
    "hive": ("hive", 9083, "thrift://{address}"),
}
"""Catalog → its service, the port inside the container, and the address for its clients."""


class IcebergContainers:
    """Object store, database and catalog server of one catalog, each in a container of a network of their own.

    Args:
        catalog: ``rest``, ``jdbc`` or ``hive``.
        variables: of ``compose.yaml``, such as ``ICEQUAKE_REST_IMAGE``; those of the environment when not given.

    Attributes:
        containers: by service, once it has started; a test may ``kill``, ``pause`` or ``restart`` what ``get_wrapped_container`` returns.
    """

    def __init__(self, catalog: str = "rest", variables: Mapping[str, str] | None = None) -> None:
        if catalog not in _URI:
            raise ValueError(f"no containers for the catalog {catalog!r}; there are some for {', '.join(_URI)}")
        self._entry: Catalog = CATALOGS[catalog]
        known = composefile.read(os.environ if variables is None else variables)
        self._specs = {name: known[name] for name in ("minio", *self._entry.services)}
        self._network: Any = None
        self.containers: dict[str, Any] = {}

    def start(self) -> Self:
        """Start the services one after another, each when the earlier ones are healthy.

        Raises:
            ServiceError: a service does not become healthy; the message has its last line. Everything is removed then.
            docker.errors.DockerException: no engine answers, or it cannot have an image.
        """
        try:
            self._network = Network().create()
            for name, spec in self._specs.items():
                self.containers[name] = self._container(spec).start()
                self._wait(name)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Remove containers, volumes and network."""
        for container in reversed(self.containers.values()):
            container.stop()
        self.containers.clear()
        if self._network is not None:
            self._network.remove()
            self._network = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def address(self, service: str, port: int) -> str:
        """``host:port`` at which this machine reaches a service; ``port`` is the one inside the container."""
        inspected = self.containers[service].get_wrapped_container()
        inspected.reload()
        return f"{LOOPBACK}:{inspected.ports[f'{port}/tcp'][0]['HostPort']}"

    @property
    def endpoints(self) -> Endpoints:
        """The addresses as icequake itself knows them."""
        name = self._entry.name
        service, port, uri = _URI[name]
        return Endpoints(
            s3=f"http://{self.address('minio', 9000)}",
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            region=REGION,
            bucket=BUCKET,
            catalog=name,
            catalog_uri=uri.format(address=self.address(service, port)),
            warehouse=f"s3://{BUCKET}/{name}",
            spark_master="local[1]",
        )

    def pyiceberg(self) -> dict[str, str]:
        """The properties of ``pyiceberg.catalog.load_catalog``."""
        endpoints = self.endpoints
        assert self._entry.pyiceberg is not None
        return {
            **self._entry.pyiceberg(endpoints),
            "warehouse": endpoints.warehouse,
            "s3.endpoint": endpoints.s3,
            "s3.access-key-id": endpoints.access_key,
            "s3.secret-access-key": endpoints.secret_key,
            "s3.region": endpoints.region,
        }

    def spark(self, name: str = "lake") -> dict[str, str]:
        """The configuration of a Spark session that has Iceberg's runtime and its AWS bundle: the catalog has the name ``name``."""
        endpoints, prefix = self.endpoints, f"spark.sql.catalog.{name}"
        properties = {
            **self._entry.properties(endpoints),
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": endpoints.s3,
            "s3.path-style-access": "true",
            "s3.access-key-id": endpoints.access_key,
            "s3.secret-access-key": endpoints.secret_key,
            "client.region": endpoints.region,
        }
        return {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            **{f"{prefix}.{key}": value for key, value in properties.items()},
            **self._entry.session(endpoints),
        }

    def _container(self, spec: Spec) -> Any:
        given = {"mem_limit": spec.memory, "pids_limit": spec.pids, "healthcheck": dict(spec.healthcheck)}
        if spec.entrypoint is not None:
            given["entrypoint"] = list(spec.entrypoint)
        if spec.stop_signal is not None:
            given["stop_signal"] = spec.stop_signal
        made = DockerContainer(spec.image).with_network(self._network).with_network_aliases(spec.name)
        made = made.with_kwargs(**given)
        for key, value in spec.environment.items():
            made = made.with_env(key, value)
        for source, target in spec.volumes:
            made = made.with_volume_mapping(source, target, "ro")
        if spec.command is not None:
            made = made.with_command(list(spec.command))
        for inside in spec.ports:
            made.ports[f"{inside}/tcp"] = (LOOPBACK, 0)  # a free one
        return made

    def _wait(self, name: str) -> None:
        container = self.containers[name].get_wrapped_container()
        deadline = time.monotonic() + FIXTURE_SECONDS
        while time.monotonic() < deadline:
            container.reload()
            state = container.attrs["State"]
            if state.get("Health", {}).get("Status") == "healthy":
                return
            if state["Status"] in ("exited", "dead"):
                break
            time.sleep(0.2)  # the engine tells nobody that a check has passed
        lines = container.logs(tail=1).decode("utf-8", "replace").strip()
        how = f"exited with code {state['ExitCode']}" if state["Status"] == "exited" else "does not become healthy"
        raise ServiceError(name, how, last_line=lines or None)


@pytest.fixture(scope="session")
def iceberg() -> Iterator[IcebergContainers]:
    """The catalog ``rest`` in containers, for all tests of a session."""
    with IcebergContainers() as running:
        yield running
