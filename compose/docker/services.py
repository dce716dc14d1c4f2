"""The services of a stack as containers in a network of the run, made from ``compose.yaml``.

Each is the service that runs as a local process otherwise, with the same name, role and probe; only what is run differs. A container that was
killed or stopped stays, with its data, until the run ends; then :meth:`Project.close` removes everything that has the run's label. If the
harness cannot do it, the keepers do (``compose.processes.container``), and ``icequake down`` after them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import psutil

from compose.catalogs.catalog import Catalog, Site
from compose.catalogs.nessie import Nessie
from compose.catalogs.rest import RestCatalog
from compose.docker import composefile
from compose.docker.composefile import Spec
from compose.install.installation import Installation
from compose.processes.container import HARNESS, LABEL, Kept, engine, have, identity, sweep
from compose.processes.ports import Ports
from compose.processes.process import LocalProcess
from compose.processes.service import ServiceError
from compose.servers.minio import Minio
from compose.servers.postgres import Postgres

REMEDY = (
    "start a Docker engine that has or gets the images, name other images by the variables of compose/docker/compose.yaml, or make "
    "stand-ins by `python -m compose.docker.local run -- COMMAND` (docs/docker.md)"
)
DRIVER = "postgresql-"


class Project:
    """The network of a run and everything in it.

    Args:
        client_store: the object store's URL as a catalog server hands it out to its clients.
    """

    def __init__(
        self, run_id: str, installation: Installation, ports: Ports, client_store: Callable[[], str] = lambda: ""
    ) -> None:
        self.run_id = run_id
        self.network = f"icequake-{run_id}"
        self._ports = ports
        self._client_store = client_store
        self._driver = next(
            (str(jar.parent) for jar in installation.jars["spark"] if jar.name.startswith(DRIVER)), "./drivers"
        )

    def spec(self, service: str, published: Mapping[str, str], *, asks_for_store: bool = False) -> Spec:
        """A service of ``compose.yaml`` as this run starts it.

        Args:
            published: variable of the file → name of the port in the stack.
            asks_for_store: whether it hands out the store's address, which must be known then.
        """
        ours = {"ICEQUAKE_JDBC_DRIVER": self._driver}
        ours |= {variable: str(self._ports.claim(port)) for variable, port in published.items()}
        if asks_for_store:
            ours["ICEQUAKE_CLIENT_STORE"] = self._client_store()
        return composefile.read({**os.environ, **ours})[service]

    def open(self, services: Mapping[str, LocalProcess]) -> None:
        """Look for the engine and the images of the services, and make the network. Raises ServiceError."""
        from docker.errors import DockerException

        client = engine("docker", REMEDY)
        try:
            sweep(client)
            known = composefile.read(os.environ)
            for name in services:
                if name in known:
                    have(client, name, known[name].image, REMEDY)
            labels = {LABEL: self.run_id, HARNESS: identity(psutil.Process())}
            if not client.networks.list(names=[f"^{self.network}$"]):
                client.networks.create(self.network, driver="bridge", labels=labels)
        except (DockerException, OSError) as e:
            raise ServiceError(
                "docker", f"the network of the run cannot be made: {' '.join(str(e).split())[:300]}"
            ) from e
        finally:
            client.close()

    def close(self) -> None:
        """Remove the run's containers, volumes and network. Raises ServiceError when the engine does not answer."""
        from docker.errors import DockerException

        client = engine("docker", "its containers have the label " + f"{LABEL}={self.run_id}")
        try:
            sweep(client, self.run_id)
        except (DockerException, OSError) as e:
            raise ServiceError("docker", f"what the run left in the engine cannot be removed: {e}") from e
        finally:
            client.close()


class _InProject(Kept):
    """A service of ``compose.yaml``. Its class also is the service as a local process, whose name, role and probe it has."""

    remedy = REMEDY
    keeps_container = True
    published: ClassVar[Mapping[str, str]] = {}
    """Variable of the file with the published port → name of the port in the stack."""
    hands_out_store = False
    project: Project

    def specification(self) -> Mapping[str, Any]:
        return arguments(
            self.project.spec(self.name, self.published, asks_for_store=self.hands_out_store), self.project.network
        )

    def user(self) -> int | None:
        return None  # of the keeper


def arguments(spec: Spec, network: str) -> dict[str, Any]:
    """What the engine's API needs to make a container of a service."""
    given = {
        "image": spec.image,
        "environment": dict(spec.environment),
        "ports": {f"{inside}/tcp": [host, port] for inside, (host, port) in spec.ports.items()},
        "network": network,
        "aliases": [spec.name],
        "command": None if spec.command is None else list(spec.command),
        "entrypoint": None if spec.entrypoint is None else list(spec.entrypoint),
        "volumes": [f"{source}:{target}:ro" for source, target in spec.volumes],
        "tmpfs": dict(spec.tmpfs),
        "mem_limit": spec.memory,
        "pids_limit": spec.pids,
        "healthcheck": dict(spec.healthcheck),
        "stop_signal": spec.stop_signal,
    }
    return {key: value for key, value in given.items() if value not in (None, [], {})}


class MinioContainer(_InProject, Minio):
    """MinIO in a container."""

    published: ClassVar[Mapping[str, str]] = {"ICEQUAKE_MINIO_PORT": "minio"}

    def __init__(self, project: Project, *, ports: Ports, data: Path, log: Path) -> None:
        Minio.__init__(self, Path("minio"), run_id=project.run_id, ports=ports, data=data, log=log)
        self.project = project


class PostgresContainer(_InProject, Postgres):
    """PostgreSQL in a container; the image makes the user and the database."""

    published: ClassVar[Mapping[str, str]] = {"ICEQUAKE_POSTGRES_PORT": "postgres"}
    stop_signal = Kept.stop_signal  # to the keeper

    def __init__(self, project: Project, *, ports: Ports, data: Path, log: Path) -> None:
        Postgres.__init__(self, Path("postgres"), run_id=project.run_id, ports=ports, data=data, log=log)
        self.project = project

    def probe(self, timeout: float) -> None:
        self.execute("SELECT 1", timeout=timeout)

    def after_first_ready(self) -> None:
        """Nothing: the database is there."""


class RestContainer(_InProject, RestCatalog):
    """Iceberg's REST catalog server in a container."""

    published: ClassVar[Mapping[str, str]] = {"ICEQUAKE_REST_PORT": "rest"}

    def __init__(self, site: Site, project: Project) -> None:
        RestCatalog.__init__(self, site)
        self.project = project


class NessieContainer(_InProject, Nessie):
    """Nessie in a container."""

    published: ClassVar[Mapping[str, str]] = {"ICEQUAKE_NESSIE_PORT": "nessie"}
    hands_out_store = True

    def __init__(self, site: Site, project: Project) -> None:
        Kept.__init__(
            self,
            "nessie",
            run_id=site.run_id,
            ports=site.ports,
            port_names=["nessie"],
            folder=site.data / "nessie",
            log=site.logs / "nessie.log",
        )
        self.project = project


SERVERS: Mapping[str, Callable[[Site, Project], LocalProcess]] = {"rest": RestContainer, "nessie": NessieContainer}
"""The catalogs' servers, besides PostgreSQL, that can run in a container of a project."""


def cannot(catalog: Catalog) -> str | None:
    """Why the services of a catalog cannot run in containers; None if they can."""
    missing = [s.name for s in catalog.servers if s.name not in (*SERVERS, "postgres")]
    if not missing:
        return None
    from compose.catalogs.registry import CATALOGS

    able = ", ".join(c.name for c in CATALOGS.values() if not _missing(c))
    return f"--docker has no container for {', '.join(missing)} of the catalog {catalog.name}; it has them for {able}"


def _missing(catalog: Catalog) -> bool:
    return any(s.name not in (*SERVERS, "postgres") for s in catalog.servers)


def images(services: Mapping[str, object]) -> dict[str, str]:
    """The images of services by name, as the variables of this process say."""
    return {name: spec.image for name, spec in composefile.read(os.environ).items() if name in services}
