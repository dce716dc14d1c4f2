"""The services of a stack as containers in a network of the run, made from ``compose.yaml``.

Each is the service that runs as a local process otherwise, with the same name, role and probe; only what is run differs. A container that was
killed or stopped stays, with its data, until the run ends; then :meth:`Project.close` removes everything that has the run's label. If the
harness cannot do it, the keepers do (``compose.processes.container``), and ``icequake down`` after them.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from compose.catalogs.catalog import DATABASE, Catalog, Site
from compose.catalogs.hive import Metastore
from compose.catalogs.nessie import Nessie
from compose.catalogs.polaris import Polaris
from compose.catalogs.rest import RestCatalog
from compose.docker import composefile, packets
from compose.docker.composefile import Spec
from compose.install.engine import impossible, typed
from compose.install.installation import Installation
from compose.processes.container import CONTAINER_LABEL, KeptContainer, engine, have, owned, sweep
from compose.processes.ports import Ports
from compose.processes.process import LocalProcess
from compose.processes.service import ServiceError
from compose.servers.minio import Minio
from compose.servers.postgres import Postgres
from nemesis.faults.packets import Packets

SERVICES_REMEDY = (
    "start a Docker engine that has or gets the images, or name other images by the variables of compose/docker/compose.yaml"
    + (f", or have it done, with stand-in images, by `{typed('run', '--', 'COMMAND')}`" if impossible() is None else "")
    + " (docs/docker.md)"
)
DRIVER = "postgresql-"
CHECK_NS = 60 * 10**9
FILLING = ".icequake-fill"
DISK_BYTES = 512 * 1024**2
"""Of a service whose disk a fault may fill."""


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
        self.netem: bool | None = None
        """Whether the kernel has ``tc netem``; None: nobody has looked."""
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
        own = {"ICEQUAKE_JDBC_DRIVER": self._driver}
        own |= {variable: str(self._ports.claim(port)) for variable, port in published.items()}
        if asks_for_store:
            own["ICEQUAKE_CLIENT_STORE"] = self._client_store()
        return composefile.read({**os.environ, **own})[service]

    def open(self, services: Mapping[str, LocalProcess]) -> None:
        """Look for the engine and the images of the services, and make the network. Raises ServiceError."""
        from docker.errors import DockerException

        client = engine("docker", SERVICES_REMEDY)
        try:
            sweep(client)
            known = composefile.read(os.environ)
            for name in services:
                if name in known:
                    have(client, name, known[name].image, SERVICES_REMEDY)
            if not client.networks.list(names=[f"^{self.network}$"]):
                client.networks.create(self.network, driver="bridge", labels=owned(self.run_id))
        except (DockerException, OSError) as e:
            raise ServiceError(
                "docker", f"the network of the run cannot be made: {' '.join(str(e).split())[:300]}"
            ) from e
        finally:
            client.close()

    def close(self) -> None:
        """Remove the run's containers, volumes and network. Raises ServiceError when the engine does not answer."""
        from docker.errors import DockerException

        client = engine("docker", "its containers have the label " + f"{CONTAINER_LABEL}={self.run_id}")
        try:
            sweep(client, self.run_id)
        except (DockerException, OSError) as e:
            raise ServiceError("docker", f"what the run left in the engine cannot be removed: {e}") from e
        finally:
            client.close()


class WithDisk(KeptContainer):
    """A service in a container, of which a disk can be filled."""

    remedy = SERVICES_REMEDY
    keeps_container = True
    disk: str | None = None
    """The folder in the container that a fault may fill; None if there is none."""
    small_disk = False
    """Whether ``disk`` is DISK_BYTES of memory, so that it can be filled. What is on it is lost when the container stops."""

    def with_small_disk(self, how: dict[str, Any]) -> dict[str, Any]:
        """Arguments of the engine's API, with the disk in memory if the service is to have one."""
        if not self.small_disk:
            return how
        assert self.disk is not None
        # Its pages count as memory of the container.
        return {**how, "tmpfs": {self.disk: f"size={DISK_BYTES}"}, "mem_limit": how["mem_limit"] + DISK_BYTES}

    def fill(self) -> None:
        """Fill the disk to the last byte. Raises ServiceError."""
        if not self.small_disk:
            raise self.error("its disk is that of the machine, which is not filled")
        # dd ends with an error: the disk is full.
        file = f"{self.disk}/{FILLING}"
        free = self._run(f"dd if=/dev/zero of={file} bs=64k 2>/dev/null; df -P -k {self.disk} | tail -n 1").split()
        if len(free) < 4 or free[3] != "0":
            raise self.error(f"its disk cannot be filled: df says {' '.join(free)[:200]!r}")

    def empty(self) -> None:
        """Remove what filled the disk. Raises ServiceError."""
        if self.small_disk:
            self._run(f"rm -f {self.disk}/{FILLING}")

    def _run(self, script: str) -> str:
        lines: list[str] = []

        def act(client: Any) -> None:
            done = client.containers.get(self.container).exec_run(["/bin/sh", "-c", script], user="0")
            if done.exit_code != 0:
                raise OSError(f"{script!r} ends with code {done.exit_code}")
            lines.append(done.output.decode("utf-8", "replace"))

        self._ask("run a command in", act)
        return lines[0]

    def _ask(self, what: str, act: Callable[[Any], None]) -> None:
        from docker.errors import DockerException

        client = engine(self.name, self.remedy)
        try:
            act(client)
        except (DockerException, OSError) as e:
            raise self.error(
                f"the Docker engine does not {what} its container: {' '.join(str(e).split())[:300]}"
            ) from e
        finally:
            client.close()


class _InProject(WithDisk):
    """A service of ``compose.yaml``. Its class also is the service as a local process, whose name, role and probe it has."""

    published: ClassVar[Mapping[str, str]] = {}
    """Variable of the file with the published port → name of the port in the stack."""
    hands_out_store = False
    project: Project

    def specification(self) -> Mapping[str, Any]:
        spec = self.project.spec(self.name, self.published, asks_for_store=self.hands_out_store)
        return self.with_small_disk(arguments(spec, self.project.network))

    def user(self) -> int | None:
        return None  # of the keeper

    def disconnect(self) -> None:
        """Take it out of the run's network. Raises ServiceError."""

        def act(client: Any) -> None:
            client.networks.get(self.project.network).disconnect(self.container, force=True)

        self._ask("disconnect", act)

    def reconnect(self) -> None:
        """Put it back; it may have another address then, and has its name. No effect if it is there. Raises ServiceError."""

        def act(client: Any) -> None:
            network = client.networks.get(self.project.network)
            if network.name not in client.containers.get(self.container).attrs["NetworkSettings"]["Networks"]:
                network.connect(self.container, aliases=[self.name])

        self._ask("reconnect", act)

    def delays_packets(self) -> bool:
        """Whether the kernel has ``tc netem``. Raises ServiceError."""
        if self.project.netem is None:
            self.project.netem = self._in_its_network(packets.PROBE) == 0
        return self.project.netem

    def hamper(self, wanted: Packets) -> None:
        """Drop, reset or delay packets between its ports and its clients until ``let_pass``. Raises ServiceError."""
        if wanted.seconds and not self.delays_packets():
            raise self.error("this kernel has no netem to delay its packets")
        self._in_its_network(packets.script(wanted, composefile.read(os.environ)[self.name].ports))

    def let_pass(self) -> None:
        """Let all packets pass again. Raises ServiceError."""
        self._in_its_network(packets.LET_PASS)

    def _in_its_network(self, commands: str) -> int:
        codes: list[int] = []

        def act(client: Any) -> None:
            codes.append(packets.run(client, self.container, commands, owned(self.project.run_id)))

        self._ask("strike the packets of", act)
        return codes[0]


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
        # A run asks its services itself. Each check starts a process in the container, which a busy machine feels.
        "healthcheck": {**spec.healthcheck, "interval": max(CHECK_NS, spec.healthcheck.get("interval", 0))},
        "stop_signal": spec.stop_signal,
    }
    return {key: value for key, value in given.items() if value not in (None, [], {})}


class MinioContainer(_InProject, Minio):
    """MinIO in a container."""

    published: ClassVar[Mapping[str, str]] = {"ICEQUAKE_MINIO_PORT": "minio"}
    disk = "/data"

    def __init__(self, project: Project, *, ports: Ports, data: Path, log: Path, small_disk: bool = False) -> None:
        Minio.__init__(self, Path("minio"), run_id=project.run_id, ports=ports, data=data, log=log)
        self.project = project
        self.small_disk = small_disk


class PostgresContainer(_InProject, Postgres):
    """PostgreSQL in a container; the image makes the user and the database."""

    published: ClassVar[Mapping[str, str]] = {"ICEQUAKE_POSTGRES_PORT": "postgres"}
    stop_signal = KeptContainer.stop_signal  # to the keeper
    disk = "/var/lib/postgresql/data"

    def __init__(self, project: Project, *, ports: Ports, data: Path, log: Path, small_disk: bool = False) -> None:
        Postgres.__init__(self, Path("postgres"), run_id=project.run_id, ports=ports, data=data, log=log)
        self.project = project
        self.small_disk = small_disk

    def probe(self, timeout: float) -> None:
        self.execute("SELECT 1", timeout=timeout)

    def after_first_ready(self) -> None:
        """Nothing: the database is there."""


class CatalogContainer(_InProject):
    """A catalog's server in a container of the run."""

    @abc.abstractmethod
    def __init__(self, site: Site, project: Project) -> None: ...

    @classmethod
    def stands_for(cls, catalog: Catalog) -> bool:
        """Whether it can be the server of a catalog's entry."""
        return True


class RestContainer(CatalogContainer, RestCatalog):
    """Iceberg's REST catalog server in a container."""

    published: ClassVar[Mapping[str, str]] = {"ICEQUAKE_REST_PORT": "rest"}

    def __init__(self, site: Site, project: Project) -> None:
        RestCatalog.__init__(self, site)
        self.project = project


class NessieContainer(CatalogContainer, Nessie):
    """Nessie in a container."""

    published: ClassVar[Mapping[str, str]] = {"ICEQUAKE_NESSIE_PORT": "nessie"}
    hands_out_store = True

    def __init__(self, site: Site, project: Project) -> None:
        KeptContainer.__init__(
            self,
            "nessie",
            run_id=site.run_id,
            ports=site.ports,
            port_names=["nessie"],
            folder=site.data / "nessie",
            log=site.logs / "nessie.log",
        )
        self.project = project


class HiveContainer(CatalogContainer, Metastore):
    """The Hive Metastore in a container, as ``compose/docker/hive`` configures it: with its locks."""

    published: ClassVar[Mapping[str, str]] = {"ICEQUAKE_HIVE_PORT": "hive"}

    def __init__(self, site: Site, project: Project) -> None:
        Metastore.__init__(self, site)
        self.project = project

    @classmethod
    def stands_for(cls, catalog: Catalog) -> bool:
        return catalog.guard == "lock"


class PolarisContainer(CatalogContainer, Polaris):
    """Polaris in a container of the run's network."""

    published: ClassVar[Mapping[str, str]] = {
        "ICEQUAKE_POLARIS_PORT": "polaris",
        "ICEQUAKE_POLARIS_MANAGEMENT_PORT": "polaris-management",
    }
    inner_store = "http://minio:9000"

    def __init__(self, site: Site, project: Project) -> None:
        Polaris.__init__(self, site)
        self.project = project


CONTAINER_SERVERS: Mapping[str, type[CatalogContainer]] = {
    "rest": RestContainer,
    "nessie": NessieContainer,
    "hive": HiveContainer,
    "polaris": PolarisContainer,
}
"""The catalogs' servers, besides PostgreSQL, that can run in a container of a project."""


def cannot(catalog: Catalog) -> str | None:
    """Why the services of a catalog cannot run in containers; None if they can."""
    missing = _missing(catalog)
    if not missing:
        return None
    from compose.catalogs.registry import CATALOGS

    able = ", ".join(c.name for c in CATALOGS.values() if not _missing(c))
    lacking = f"{', '.join(missing)} of the catalog {catalog.name}"
    return f"--docker has no container for {lacking}; leave out --docker, or name a catalog that has them: {able}"


def _missing(catalog: Catalog) -> list[str]:
    """The servers that no container stands for."""
    return [
        s.name
        for s in catalog.servers
        if s.name != DATABASE.name and not ((c := CONTAINER_SERVERS.get(s.name)) and c.stands_for(catalog))
    ]


def images(services: Mapping[str, object]) -> dict[str, str]:
    """The images of services by name, as the variables of this process say."""
    return {name: spec.image for name, spec in composefile.read(os.environ).items() if name in services}
