"""The driver process of a writer: a separate PySpark program on the cluster, started and stopped by the orchestrator."""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from compose.catalogs import delta
from compose.catalogs.registry import catalog_of
from compose.docker.composefile import Spec
from compose.docker.spark import JAVA, PYTHON, InHostNetwork, driver_memory
from compose.endpoints import Endpoints
from compose.install import ensure
from compose.install.engines import Files, installed
from compose.install.installation import Installation
from compose.processes.ports import Ports
from compose.processes.process import LocalProcess, NotReady
from compose.processes.service import ServiceError
from compose.stack.sparkconf import spark_conf, writer_environment
from harness.writers.committers import CommitterPool, Pools
from harness.writers.slot import Launch, Writer
from workloads.engines.engine import Access, Foreign, Guest, Pooled
from workloads.engines.engines import ENGINES


def direct(_: str, endpoints: Endpoints) -> Endpoints:
    """No proxies: every writer sees the endpoints as they are."""
    return endpoints


CATALOG = "c"
"""The catalog's name in the writers' Spark sessions."""


class Driver(LocalProcess):
    """``python -m harness.writers.session``; it is ready when its socket exists.

    Args:
        name: such as ``w0``, or ``w0.1`` for the first replacement.
        conf: the Spark properties of its session.
        environment: its whole environment except the run's mark.
        folder: for its properties file; ``socket`` lies beside it.
    """

    def __init__(
        self,
        name: str,
        *,
        run_id: str,
        python: Path,
        conf: Mapping[str, str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
    ) -> None:
        super().__init__(name, run_id=run_id, ports=Ports(), port_names=(), folder=folder, log=log)
        self._python = python
        self._conf = dict(conf)
        self._environment = dict(environment)
        self.socket = folder.with_name(f"{folder.name}.sock")

    def argv(self) -> Sequence[str]:
        return [str(self._python), "-m", "harness.writers.session", str(self.folder / "conf.json"), str(self.socket)]

    def environment(self) -> Mapping[str, str]:
        return self._environment | {"PYTHONPATH": str(_ROOT)}

    def prepare(self) -> None:
        conf = self.folder / "conf.json"
        conf.touch(mode=0o600)  # it holds a catalog's credentials
        conf.write_text(json.dumps(self._conf))

    def probe(self, timeout: float) -> None:
        if not self.socket.exists():
            raise NotReady("its Spark session is not there yet")

    def alive(self) -> bool:
        """Whether the process runs."""
        return self.running


class DriverContainer(InHostNetwork, Driver):
    """The same in a container. Its socket, properties and scratch files are in the run's folder of this machine.

    Arguments as for :class:`Driver`, without ``python``: the image has one.
    """

    keeps_container = False
    ends_itself = True

    def __init__(
        self,
        name: str,
        installation: Installation,
        *,
        run_id: str,
        conf: Mapping[str, str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
    ) -> None:
        Driver.__init__(
            self, name, run_id=run_id, python=PYTHON, conf=conf, environment=environment, folder=folder, log=log
        )
        self.installation = installation

    def prepare(self) -> None:
        Driver.prepare(self)
        InHostNetwork.prepare(self)

    def program(self) -> tuple[Sequence[str], Mapping[str, str]]:
        # Beside pyspark only Py4J is mounted, so the container's Python sees no packages of this machine's.
        path = os.pathsep.join((str(_ROOT), str(self.installation.spark_home.parent)))
        return Driver.argv(self), {**Driver.environment(self), "PYTHONPATH": path}

    def memory(self, spec: Spec) -> int:
        return driver_memory()

    def reads(self) -> Iterable[Path]:
        paths = [self._conf[key].split(mark) for key, mark in _PATHS.items() if key in self._conf]
        return (*SESSION_PACKAGES, *(Path(path) for found in paths for path in found if path.startswith("/")))

    def writes(self) -> Iterable[Path]:
        return (self.folder.parent,)


_ROOT = Path(__file__).parents[2]
SESSION_PACKAGES = (_ROOT / "harness", _ROOT / "nemesis")
"""The packages that a session imports from."""
_PATHS = {
    "spark.driver.extraClassPath": os.pathsep,
    "spark.executor.extraClassPath": os.pathsep,
    "spark.jars": ",",
    "spark.icequake.classes": os.pathsep,
}
"""Properties that name files → what separates them."""


class GuestDriver(LocalProcess):
    """``python -m harness.writers.engine_session``: a writer of another engine than Spark; it is ready when its socket exists.

    Args:
        name: such as ``w3``, or ``w3.1`` for the first replacement.
        path: folders of Python packages that this engine needs; they come before icequake's own.
        environment, folder, log: as for :class:`Driver`.
    """

    def __init__(
        self,
        name: str,
        engine: str,
        access: Access,
        *,
        run_id: str,
        environment: Mapping[str, str],
        path: Sequence[str],
        folder: Path,
        log: Path,
    ) -> None:
        super().__init__(name, run_id=run_id, ports=Ports(), port_names=(), folder=folder, log=log)
        self._engine = engine
        self._access = access
        self._environment = dict(environment)
        self._path = tuple(path)
        self.socket = folder.with_name(f"{folder.name}.sock")

    def argv(self) -> Sequence[str]:
        conf = str(self.folder / "conf.json")
        return [sys.executable, "-m", "harness.writers.engine_session", self._engine, conf, str(self.socket)]

    def environment(self) -> Mapping[str, str]:
        return self._environment | {"PYTHONPATH": os.pathsep.join((str(_ROOT), *self._path))}

    def prepare(self) -> None:
        Path(self._access.scratch).mkdir(exist_ok=True)
        conf = self.folder / "conf.json"
        conf.touch(mode=0o600)  # it holds a catalog's credentials
        conf.write_text(json.dumps(asdict(self._access)))

    def probe(self, timeout: float) -> None:
        if not self.socket.exists():
            raise NotReady(f"its {self._engine} client is not there yet")

    def alive(self) -> bool:
        """Whether the process runs."""
        return self.running


def access(endpoints: Endpoints, conf: Mapping[str, str], *, scratch: Path, files: Files) -> Access:
    """How an engine beside Spark reaches the stack.

    Args:
        endpoints: as the writer sees them.
        conf: the properties of a Spark session that reaches the stack.
        scratch: a folder for this writer and its replacements, in the run's own.
        files: what was installed for the engine.
    """
    catalog, prefix = catalog_of(endpoints), f"spark.sql.catalog.{CATALOG}."
    return Access(
        catalog=catalog.name,
        properties={k.removeprefix(prefix): v for k, v in conf.items() if k.startswith(prefix)},
        pyiceberg=None if catalog.pyiceberg is None else dict(catalog.pyiceberg(endpoints)),
        s3=endpoints.s3,
        access_key=endpoints.access_key,
        secret_key=endpoints.secret_key,
        region=endpoints.region,
        warehouse=endpoints.warehouse,
        spark=dict(conf),
        scratch=str(scratch),
        files=files.plain,
        delta=delta.root(endpoints, scratch.parent) if endpoints.guard else "",
    )


def _pyspark(engine: Guest, installation: Installation) -> tuple[str, ...]:
    """The folder of the pyspark that an engine must import: another one than icequake's own with another Spark's Iceberg release."""
    return (str(installation.spark_home.parent),) if engine.imports_pyspark else ()


def session_properties(conf: Mapping[str, str]) -> dict[str, str]:
    """The Spark properties with which a driver reaches its catalog; a session of another driver can use them too."""
    hadoop, catalogs = "spark.hadoop.", "spark.sql.catalog."
    own = {f"{catalogs}{CATALOG}.hadoop.{k.removeprefix(hadoop)}": v for k, v in conf.items() if k.startswith(hadoop)}
    return own | {k: v for k, v in conf.items() if k.startswith(catalogs)}


FAKETIME = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib*/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)


def skewed(offset: str | None) -> dict[str, str]:
    """The environment that shifts a process's clock by ``offset`` (``-2h``) with libfaketime, which works with a JVM.

    Raises:
        ServiceError: libfaketime is not installed.
    """
    if offset is None:
        return {}
    found = [path for pattern in FAKETIME for path in glob.glob(pattern)]
    if not found:
        raise ServiceError(
            "clocks", "needs libfaketime", remedy="install it (Debian, Ubuntu: libfaketime) or leave clocks out"
        )
    return {"LD_PRELOAD": found[0], "FAKETIME": offset}


def pools(
    installation: Installation,
    endpoints: Endpoints,
    *,
    run_id: str,
    data: Path,
    logs: Path,
) -> Pools:
    """The process that committers share. It starts, and what it needs is installed, when the first of them is launched.

    Arguments as for :func:`launcher`. Starting it raises SetupError or ServiceError.
    """
    more = (path for conf in catalog_of(endpoints).jars for path in ensure.paths(installation, conf))
    jars = (*installation.jars["spark"], *more)

    def start(tag: str) -> CommitterPool:
        [needs] = {e.needs for e in ENGINES.values() if isinstance(e, Pooled)}
        pool = CommitterPool(
            tag,
            run_id=run_id,
            java=installation.java,
            jars=jars,
            files=installed(needs),
            environment=writer_environment(installation, endpoints),
            folder=data / tag,
            log=logs / f"{tag}.log",
        )
        pool.start()
        return pool

    return Pools(start)


def launcher(
    installation: Installation,
    endpoints: Endpoints,
    *,
    run_id: str,
    data: Path,
    logs: Path,
    front: Callable[[str, Endpoints], Endpoints] = direct,
    warm: tuple[Path, ...] = (),
    new_sessions: bool = False,
    clocks: Mapping[int, str] | None = None,
    engines: Sequence[str] = (),
    shared: Pools | None = None,
    docker: bool = False,
) -> Launch:
    """A function that launches the driver process of a writer (or, first, returns a warm one).

    Args:
        run_id: marks the process, so that the watchdog kills it with the run.
        data: folder for sockets and Spark's scratch files; short, since a Unix socket's path is limited to ~100 bytes. ``logs``: for logs.
        front: returns the endpoints that the named writer sees, such as proxies.
        clocks: writer → offset of its clock, such as ``-2h``; raises ServiceError where that is impossible.
        engines: the engine of each writer; Spark for those beyond. Raises SetupError if one cannot be installed.
        shared: the process of the committers among them.
        docker: whether Spark's drivers run in containers; those of other engines are processes.
        warm: sockets of running writers; the n-th belongs to the n-th writer of Spark's. One that is gone or busy is not used.
        new_sessions: whether a warm writer first gets a new session with these endpoints; False: its session has them already.
    """
    guests = {name: engine for name in {*engines} if isinstance(engine := ENGINES[name], Guest)}
    files = {n: installed(engine.needs_with(endpoints.catalog_properties)) for n, engine in guests.items()}

    def place(tag: str) -> dict[str, Any]:
        return {"run_id": run_id, "folder": data / tag, "log": logs / f"writer-{tag}.log"}

    def launch(name: str, generation: int) -> Writer:
        n = int(name.removeprefix("w"))
        tag = name if generation == 0 else f"{name}.{generation}"
        seen = front(name, endpoints)
        environment = writer_environment(installation, endpoints) | skewed((clocks or {}).get(n))
        conf = spark_conf(installation, seen, scratch=data / tag, catalog_name=CATALOG)
        if n < len(engines) and engines[n] in guests:
            engine, own = engines[n], files[engines[n]]
            path = (*_pyspark(guests[engine], installation), *own.python_path)
            reach = access(seen, conf, scratch=data / f"{name}-state", files=own)
            guest = GuestDriver(tag, engine, reach, path=path, environment=environment, **place(tag))
            guest.start()
            return Writer(name, guest, guest.socket)
        if n < len(engines) and isinstance(ENGINES[engines[n]], Pooled):
            assert shared is not None
            pool, plain = shared.current(), access(seen, conf, scratch=data / f"{name}-state", files=Files()).properties
            return Writer(name, pool, pool.socket, session=plain, shared=True)
        if generation == 0 and (writer := _take_warm(name, n, engines, warm, conf if new_sessions else None)):
            return writer
        conf |= {"spark.app.name": f"icequake {tag}"}
        contained = writer_environment(replace(installation, java=JAVA, python=PYTHON), endpoints) if docker else None
        driver = _spark_driver(tag, installation, contained, environment, conf=conf, **place(tag))
        driver.start()
        return Writer(name, driver, driver.socket)

    return launch


def _spark_driver(
    tag: str, installation: Installation, contained: dict[str, str] | None, environment: dict[str, str], **own: Any
) -> Driver:
    """Spark's driver as a process, or, if there is an environment ``contained`` for it, in a container."""
    if contained is not None:
        return DriverContainer(tag, installation, environment=contained, **own)
    return Driver(tag, python=installation.python, environment=environment, **own)


def _take_warm(
    name: str, n: int, engines: Sequence[str], warm: Sequence[Path], conf: Mapping[str, str] | None
) -> Writer | None:
    """The running writer that belongs to this one of Spark's, with a new session if ``conf`` is given; None if it is gone or busy."""
    rank = sum(not isinstance(ENGINES[e], Foreign) for e in engines[:n]) + max(0, n - len(engines))
    if rank >= len(warm):
        return None
    writer = Writer(name, None, warm[rank])
    return writer if writer.take(None if conf is None else session_properties(conf)) else None
