"""Spark's processes in containers: master, workers, and, by ``harness.writers``, drivers.

They share this machine's network, bound to loopback, so their addresses are those of processes, and they reach the proxies of the run. What
they run lies in this machine's cache, mounted read-only at its own path: Spark, the jars, the class-data archive. The image gives the
operating system, Java and Python. The folders that a process writes are mounted at their own paths, too; the files in them have this user as
their owner.
"""

from __future__ import annotations

import contextlib
import os
import platform
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from compose.docker import composefile
from compose.docker.composefile import Spec
from compose.docker.services import SERVICES_REMEDY, WithDisk
from compose.install.installation import Installation
from compose.processes.container import engine, have
from compose.processes.ports import Ports
from compose.processes.process import base_environment
from compose.processes.service import ServiceError
from compose.processes.watchdog import RUN_VARIABLE
from compose.servers import classdata
from compose.servers.classdata import spark_class_path
from compose.servers.spark import SparkMaster, SparkWorker

JAVA, PYTHON = Path("java"), Path("python3")
"""Those of the image."""
MASTER, WORKER = "spark-master", "spark-worker"
"""The services of ``compose.yaml``; drivers have the image of a worker."""
WORKER_MEMORY, DRIVER_MEMORY = "ICEQUAKE_SPARK_WORKER_MEMORY", "ICEQUAKE_SPARK_DRIVER_MEMORY"
EXECUTOR_BYTES = 1024**3
"""What an executor takes at most: 512 MB of heap, and what lies outside of it."""
DRIVER_SIZE = "2g"
HOST_REMEDY = "leave Spark on this machine: --on-host spark"
_PASSWD = "passwd"
_NOT_IN_CONTAINERS = frozenset((*base_environment(), "JAVA_HOME"))


class InHostNetwork(WithDisk):
    """A process of Spark in a container that shares this machine's network. Its class also is the service as a local process."""

    service: ClassVar[str] = WORKER
    installation: Installation

    @abstractmethod
    def program(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """What the local process would run: its command and its environment."""

    @abstractmethod
    def reads(self) -> Iterable[Path]:
        """Files and folders that it reads, besides Spark and the class-data archive."""

    @abstractmethod
    def writes(self) -> Iterable[Path]:
        """Folders that it writes, which exist."""

    def memory(self, spec: Spec) -> int:
        """The limit of memory in bytes. Raises ServiceError."""
        return spec.memory

    def specification(self) -> Mapping[str, Any]:
        spec = specs()[self.service]
        command, environment = self.program()
        passed_on = {k: v for k, v in environment.items() if k not in _NOT_IN_CONTAINERS}
        how = {
            "image": spec.image,
            # It is not the container's first process, which can end itself by no signal.
            "entrypoint": ["/bin/sh", "-c", '"$@"; exit $?', "sh"] if self.ends_itself else [command[0]],
            "command": list(command if self.ends_itself else command[1:]),
            # The mark lets the watchdog end the process itself, so that it writes nothing while its folders are removed.
            "environment": {**passed_on, "HOME": "/tmp", "LANG": "C.UTF-8", RUN_VARIABLE: self._run_id},
            "network_mode": spec.network,
            "user": f"{os.getuid()}:{os.getgid()}",
            "working_dir": "/tmp",
            "volumes": self._volumes(),
            "mem_limit": self.memory(spec),
            "pids_limit": spec.pids,
        }
        return self.with_small_disk(how)

    ends_itself: ClassVar[bool] = False
    """Whether the process kills itself in place of ending in another way."""

    def _volumes(self) -> list[str]:
        home = self.installation.spark_home
        # Py4J lies beside pyspark; what else is there belongs to this machine's Python.
        own = (home, home.parent / "py4j", classdata.archive(self.installation), *self.installation.jars["spark"])
        read = [path for path in dict.fromkeys((*own, *self.reads())) if path.exists()]
        volumes = [f"{path}:{path}:ro" for path in read if not any(up in read for up in path.parents)]
        if os.getuid() != 0:  # Hadoop's login wants a name for every user
            names = self.folder / _PASSWD
            names.write_text(f"root:x:0:0::/root:/bin/sh\nspark:x:{os.getuid()}:{os.getgid()}::/tmp:/bin/sh\n")
            volumes.append(f"{names}:/etc/passwd:ro")
        return [*volumes, *(f"{path}:{path}" for path in self.writes())]

    def host_pid(self) -> int | None:
        """The process id, on this machine, of the container's first process; None if it does not run. Raises ServiceError."""
        from docker.errors import NotFound

        found: list[int] = []

        def act(client: Any) -> None:
            with contextlib.suppress(NotFound):
                found.append(int(client.containers.get(self.container).attrs["State"]["Pid"]))

        self._ask("look at", act)
        return found[0] or None if found else None


class SparkMasterContainer(InHostNetwork, SparkMaster):
    """The master in a container."""

    service: ClassVar[str] = MASTER

    def __init__(
        self,
        name: str,
        installation: Installation,
        *,
        jvm_options: Sequence[str],
        run_id: str,
        ports: Ports,
        data: Path,
        log: Path,
    ) -> None:
        SparkMaster.__init__(
            self,
            name,
            java=JAVA,
            spark_home=installation.spark_home,
            python=PYTHON,
            class_path=spark_class_path(installation),
            jvm_options=jvm_options,
            run_id=run_id,
            ports=ports,
            data=data,
            log=log,
        )
        self.installation = installation

    def program(self) -> tuple[Sequence[str], Mapping[str, str]]:
        return SparkMaster.argv(self), SparkMaster.environment(self)

    def reads(self) -> Iterable[Path]:
        return ()

    def writes(self) -> Iterable[Path]:
        return (self.folder,)


class SparkWorkerContainer(InHostNetwork, SparkWorker):
    """A worker and its executors in a container.

    Args:
        jars: what its executors have on their class path besides Spark; asked at every start.
        small_disk: whether its scratch folder is a small one in memory.
    """

    def __init__(
        self,
        name: str,
        installation: Installation,
        *,
        master: SparkMaster,
        cores: int,
        memory_mb: int,
        jvm_options: Sequence[str],
        run_id: str,
        ports: Ports,
        data: Path,
        log: Path,
        jars: Callable[[], Iterable[Path]],
        small_disk: bool = False,
    ) -> None:
        SparkWorker.__init__(
            self,
            name,
            master=master,
            cores=cores,
            memory_mb=memory_mb,
            java=JAVA,
            spark_home=installation.spark_home,
            python=PYTHON,
            class_path=spark_class_path(installation),
            jvm_options=jvm_options,
            run_id=run_id,
            ports=ports,
            data=data,
            log=log,
        )
        self.installation = installation
        self.disk = str(self.folder / "local")
        self.small_disk = small_disk
        self._jars = jars

    def prepare(self) -> None:
        SparkWorker.prepare(self)
        InHostNetwork.prepare(self)

    def program(self) -> tuple[Sequence[str], Mapping[str, str]]:
        return SparkWorker.argv(self), SparkWorker.environment(self)

    def memory(self, spec: Spec) -> int:
        if os.environ.get(WORKER_MEMORY):
            return spec.memory
        return max(
            spec.memory, (self._cores + 2) * EXECUTOR_BYTES
        )  # when it is the only worker, all executors are its own

    def reads(self) -> Iterable[Path]:
        return self._jars()

    def writes(self) -> Iterable[Path]:
        return self.folder, self.work_dir


def specs() -> Mapping[str, Spec]:
    """The services of ``compose.yaml``, as the variables of this process say."""
    return composefile.read(os.environ)


def driver_memory() -> int:
    """The limit of a driver's memory in bytes. Raises ServiceError."""
    given = os.environ.get(DRIVER_MEMORY) or DRIVER_SIZE
    if (found := composefile.size(given)) is None:
        raise ServiceError("docker", f"{DRIVER_MEMORY} is {given!r}, not a size such as {DRIVER_SIZE}")
    return found


def image() -> str:
    """The image of Spark's containers."""
    return specs()[WORKER].image


def check() -> None:
    """Look for the engine and the image. Raises ServiceError, in one line, if Spark cannot run in containers here."""
    client = engine("docker", SERVICES_REMEDY)
    try:
        info = client.info()
        rootless = any("rootless" in option for option in info.get("SecurityOptions") or ())
        if rootless or info.get("KernelVersion") != platform.release():
            why = "is rootless" if rootless else "runs on another machine, or in a virtual one"
            raise ServiceError(
                "docker", f"the engine {why}, so its containers do not share this machine's network", remedy=HOST_REMEDY
            )
        have(client, "spark", image(), SERVICES_REMEDY)
    finally:
        client.close()
