"""The embedded stack: object store, database, catalog and Spark cluster as local processes on loopback.

Ready means that every service has answered a real request. Services that do not need one another start in
parallel::

    minio ───────────────────────►
    postgres ──► catalog ────────►
    spark-master ──► workers ────►

User-supplied services (``compose.external.external``) are neither started nor stopped here.

Start the run's watchdog (compose.processes.watchdog) first: it ends these processes if the harness cannot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from compose.catalogs import user
from compose.catalogs.catalog import CatalogServer, Site
from compose.catalogs.registry import CATALOGS, DEFAULT
from compose.docker import services as containers
from compose.docker import spark as spark_containers
from compose.endpoints import Endpoints, is_local
from compose.external.external import External, driver_host
from compose.install import ensure
from compose.install.installation import Installation
from compose.processes.ports import LOOPBACK, Ports
from compose.processes.process import LocalProcess
from compose.processes.service import Service, ServiceError
from compose.servers import classdata
from compose.servers.classdata import spark_class_path
from compose.servers.minio import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, Minio
from compose.servers.postgres import Postgres
from compose.servers.spark import SparkMaster, SparkWorker
from compose.stack.sparkconf import jars_of
from workloads.file.mode import AS_USERS, Mode

IN_DRIVER = "local[1]"
"""Spark's master where the tasks run in the driver: a writer has one task at a time, as with its executor of one core."""
START_SECONDS = 90.0
CONTAINER_START_SECONDS = 180.0
"""In a container, whose limits and file system make a server start more slowly."""


class Stack:
    """All services of one run. They write only below ``data``, which may be deleted after the run, and ``logs``.

    Under root PostgreSQL runs as the user nobody, so ``data`` must be in a folder that every user may enter: below
    the system's temporary folder.

    Args:
        ports: fixed ones by name (``port_names``), free ones for the rest.
        on_event: gets a message when a service is ready, with the time that took; it may be called from other threads, one call at a time.
        catalog: its name (``compose.catalogs.registry``); only the services that it needs are started.
        before_database: maps host and port of the database to those that a catalog server uses (a proxy's). Called once, when the
            database is ready.
        before_store: the same for the object store, for a catalog server that sends its clients the store's address.
        jvm_options: more options for Spark's master and workers, by service name. Without it they use the class-data archive, if
            there is one.
        external: services that the user supplies, which are never started here; its catalog replaces ``catalog``.
        docker: whether object store, database and catalog run in containers (``compose.docker``).
        contained_spark: whether Spark's master and workers do.
        small_disks: which of ``store``, ``database`` and ``spark-worker`` (its scratch folder) has a small disk in memory in its
            container, which a fault can fill.
        mode: how the writers' sessions are made, and whether there are a master and workers. A user's own master decides the latter.

    Raises:
        ValueError: fewer than one worker, a port of a service that does not exist, or a catalog that has no container.
    """

    def __init__(
        self,
        installation: Installation,
        *,
        run_id: str,
        data: Path,
        logs: Path,
        workers: int = 2,
        worker_cores: int = 8,
        worker_memory_mb: int = 8192,
        ports: Mapping[str, int] | None = None,
        on_event: Callable[[str], None] | None = None,
        catalog: str = DEFAULT,
        before_database: Callable[[str, int], tuple[str, int]] | None = None,
        before_store: Callable[[str, int], tuple[str, int]] | None = None,
        jvm_options: Callable[[str], Sequence[str]] | None = None,
        external: External | None = None,
        docker: bool = False,
        contained_spark: bool = False,
        small_disks: Collection[str] = (),
        mode: Mode = AS_USERS,
    ):
        if workers < 1:
            raise ValueError(f"a Spark cluster needs at least one worker, not {workers}")
        self._external = external or External()
        if mode.cluster == "local" and self._external.master is None:
            self._external = replace(self._external, master=IN_DRIVER)
        self._session = mode.session
        supplied = self._external.catalog
        self._catalog = CATALOGS[catalog] if supplied is None else user.entry(supplied)
        self._before_database = before_database
        self._before_store = before_store
        self._database_front: str | None = None
        self._store_front: str | None = None
        self._installation = installation
        known = port_names(workers)
        for name in ports or {}:
            if name not in known:
                raise ValueError(f"no service {name!r} has a port; those that have one: {', '.join(known)}")
        self._data = data
        self._on_event = on_event or (lambda _: None)
        self._event_lock = Lock()
        self._given_up = Event()
        self._ports = Ports(ports)
        self._project = self._make_project(run_id) if docker else None
        self._minio, self._postgres = self._make_store_and_database(run_id, logs, small_disks)
        self._servers = self._make_servers(run_id, logs, catalog)
        self._contained_spark = contained_spark and self._external.master is None
        options = jvm_options or (lambda _: classdata.use(installation))
        place: dict[str, Any] = {"run_id": run_id, "logs": logs, "jvm_options": options}
        self._master = self._make_master(contained_spark, **place)
        worker: dict[str, Any] = {
            "cores": worker_cores,
            "memory_mb": worker_memory_mb,
            "small_disk": "spark-worker" in small_disks,
        }
        self._workers = [
            self._make_worker(f"spark-worker-{number}", contained_spark, **worker, **place)
            for number in range(1, workers + 1)
        ]

    def _jars(self) -> list[Path]:
        """What a session of this stack has on its class path besides Spark."""
        supplied = self._external.catalog
        return jars_of(self._installation, self._catalog, () if supplied is None else supplied.jars)

    def _make_project(self, run_id: str) -> containers.Project:
        """The containers of this run. Raises ValueError if the catalog has none."""
        reason = None if self._external.catalog else containers.cannot(self._catalog)
        if reason:
            raise ValueError(reason)
        return containers.Project(run_id, self._installation, self._ports, self._client_store)

    def _make_store_and_database(self, run_id: str, logs: Path, small_disks: Collection[str]) -> tuple[Minio, Postgres]:
        minio: dict[str, Any] = {"ports": self._ports, "data": self._data / "minio", "log": logs / "minio.log"}
        postgres: dict[str, Any] = {"ports": self._ports, "data": self._data / "postgres", "log": logs / "postgres.log"}
        if self._project is None:
            return (
                Minio(self._installation.minio, run_id=run_id, **minio),
                Postgres(self._installation.postgres_bin, run_id=run_id, **postgres),
            )
        return (
            containers.MinioContainer(self._project, **minio, small_disk="store" in small_disks),
            containers.PostgresContainer(self._project, **postgres, small_disk="database" in small_disks),
        )

    def _make_servers(self, run_id: str, logs: Path, catalog: str) -> list[LocalProcess]:
        """The catalog's servers, in the order in which they start."""
        self._site = Site(
            installation=self._installation,
            run_id=run_id,
            ports=self._ports,
            data=self._data,
            logs=logs,
            postgres=self._postgres,
            database=self._database,
            store=self._store_endpoint,
            client_store=self._client_store,
            warehouse=f"s3://{self._bucket_and_prefix()}/{catalog}",
            catalog=self._catalog,
            **self._store_keys(),
        )
        return [self._make_server(server, self._site) for server in self._catalog.servers]

    def twin(self, name: str) -> LocalProcess:
        """Another server like the catalog's of this name, on the same database and store; who asked for it starts and stops it."""
        server = next(s for s in self._catalog.servers if s.name == name)
        site = replace(self._site, ports=Ports(), data=self._data / "twin", logs=self._site.logs / "twin")
        return self._make_server(server, site)

    def _make_server(self, server: CatalogServer, site: Site) -> LocalProcess:
        contained = containers.CONTAINER_SERVERS.get(server.name)
        return server.make(site) if self._project is None or contained is None else contained(site, self._project)

    def _make_master(self, contained: bool, **place: Any) -> SparkMaster:
        own = self._daemon("spark-master", **place)
        if contained:
            return spark_containers.SparkMasterContainer("spark-master", self._installation, **own)
        return SparkMaster("spark-master", **self._programs(), **own)

    def _make_worker(
        self, name: str, contained: bool, *, cores: int, memory_mb: int, small_disk: bool, **place: Any
    ) -> SparkWorker:
        own = self._daemon(name, **place) | {"master": self._master, "cores": cores, "memory_mb": memory_mb}
        if contained:
            return spark_containers.SparkWorkerContainer(
                name, self._installation, jars=self._jars, small_disk=small_disk, **own
            )
        return SparkWorker(name, **self._programs(), **own)

    def _daemon(
        self, name: str, *, run_id: str, logs: Path, jvm_options: Callable[[str], Sequence[str]]
    ) -> dict[str, Any]:
        """What a daemon of Spark's is given, in a container or not."""
        place = {"data": self._data / name, "log": logs / f"{name}.log"}
        return {"run_id": run_id, "ports": self._ports, **place, "jvm_options": jvm_options(name)}

    def _programs(self) -> dict[str, Any]:
        """What a daemon of Spark's is given besides, if it is a process of this machine."""
        installation = self._installation
        programs = {"java": installation.java, "spark_home": installation.spark_home, "python": installation.python}
        return programs | {"class_path": spark_class_path(installation)}

    @property
    def services(self) -> Mapping[str, Service]:
        """The services by name, in an order in which they can be started one after another."""
        return {service.name: service for service in self._all()}

    @property
    def endpoints(self) -> Endpoints:
        """Valid once the stack has started."""
        supplied, store, master = self._external.catalog, self._external.store, self._external.master
        files = self._catalog.wire == "s3" and not self._catalog.servers
        keys = self._store_keys()
        return Endpoints(
            s3=self._store_endpoint(),
            access_key=keys["access_key"],
            secret_key=keys["secret_key"],
            region=keys["region"],
            bucket=BUCKET if store is None else store.bucket,
            catalog=self._catalog.name,
            catalog_uri=self._store_endpoint()
            if files
            else self._catalog.uri({s.name: s for s in self._all()}, self._data),
            warehouse=self._warehouse(),
            spark_master=self._master.url if master is None else master,
            own=None if supplied is None else supplied.plain(),
            driver_host=LOOPBACK if master is None else driver_host(master),
            ship_jars=master is not None and not is_local(master),
            session=self._session,
        )

    def start(self) -> None:
        """Start all services and wait until they are ready.

        Raises ServiceError if a service fails, PortInUse if a chosen port is taken. After any error, everything that it
        started is stopped.
        """
        self._given_up.clear()
        begin = time.monotonic()
        if not any(service.running for service in self._all()):
            self._ports.check_chosen()  # before anything is started
        try:
            self._data.mkdir(parents=True, exist_ok=True)
            self._data.chmod(0o711)  # PostgreSQL's user must be able to enter
            if self._project is None:
                self._catalog.check()
            own_servers = () if self._project else self._catalog.server_jars
            ensure.provide(self._installation, (*self._catalog.jars, *own_servers))
            if self._contained_spark:
                spark_containers.check()
            if self._project is not None:
                self._project.open({service.name: service for service in self._all()})
            for service in self._all():
                service.provide()
            self._start_all()
        except BaseException as error:
            self._given_up.set()
            self.stop()
            if isinstance(error, OSError):
                raise ServiceError("stack", f"cannot be started: {error}") from error
            raise
        if not self._all():
            return self._say("every service is user-supplied: only the writers are started")
        self._say(f"stack ready in {time.monotonic() - begin:.1f} s")

    def stop(self) -> None:
        """Stop everything, each service after those that need it. Raises the first ServiceError after trying all."""
        self._given_up.set()
        # Clients of the store and the database first, so that no log complains about a lost server.
        errors: list[ServiceError] = []
        servers = [s for s in self._servers if s is not self._postgres]
        own = self._all()
        for group in ([*self._workers, *servers], [self._master, self._postgres, self._minio]):
            group = [service for service in group if service in own]
            if not group:
                continue
            with ThreadPoolExecutor(len(group)) as pool:
                for future in [pool.submit(service.stop) for service in group]:
                    error = future.exception()
                    if isinstance(error, ServiceError):
                        errors.append(error)
                    elif error is not None:
                        raise error
        if self._project is not None:
            try:
                self._project.close()
            except ServiceError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _all(self) -> list[LocalProcess]:
        """The services that this stack starts."""
        store = [] if self._external.store else [self._minio]
        spark = [] if self._external.master else [self._master, *self._workers]
        return [*store, *self._servers, *spark]

    def _start_all(self) -> None:
        own = self._all()
        with ThreadPoolExecutor(3 + len(self._workers)) as pool:
            try:
                store = [s for s in own if s is self._minio]
                started: list[Future[None]] = [
                    pool.submit(self._start_catalog),
                    pool.submit(self._start_in_turn, store),
                ]
                if self._external.master is None:
                    master = pool.submit(self._start_in_turn, [self._master])
                    wait([master])
                    started.append(master)
                    if master.exception() is None:
                        started += [pool.submit(self._start_in_turn, [worker]) for worker in self._workers]
                done, _ = wait(started, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                # Their processes die, so the threads that wait for them end at once.
                self._given_up.set()
                for service in own:
                    service.kill()
                raise

    def _start_catalog(self) -> None:
        self._start_in_turn(self._servers)
        if not self._given_up.is_set():
            self._catalog.prepare({server.name: server for server in self._servers}, self._data)

    def _start_in_turn(self, services: Sequence[LocalProcess]) -> None:
        for service in services:
            if self._given_up.is_set():
                return
            begin = time.monotonic()
            service.start()
            service.ready(CONTAINER_START_SECONDS if self._project is not None else START_SECONDS)
            self._say(f"{service.name} ready in {time.monotonic() - begin:.1f} s")

    def _database(self) -> str:
        """The address at which a catalog server reaches its database."""
        if self._before_database is None:
            return self._postgres.jdbc_url()
        if self._database_front is None:
            host, port = self._before_database(LOOPBACK, self._postgres.port())
            self._database_front = self._postgres.jdbc_url().replace(self._postgres.address, f"{host}:{port}")
        return self._database_front

    def _client_store(self) -> str:
        """The object store's address that a catalog server sends to its clients."""
        url = urlsplit(self._store_endpoint())
        if self._before_store is None or url.scheme != "http":
            return url.geturl()
        if self._store_front is None:
            host, port = self._before_store(url.hostname or LOOPBACK, url.port or 80)
            self._store_front = f"http://{host}:{port}"
        return self._store_front

    def _store_endpoint(self) -> str:
        store = self._external.store
        return self._minio.endpoint if store is None else store.endpoint

    def _store_keys(self) -> dict[str, str]:
        store = self._external.store
        if store is None:
            return {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "region": REGION}
        return {"access_key": store.access_key, "secret_key": store.secret_key, "region": store.region}

    def _bucket_and_prefix(self) -> str:
        return BUCKET if self._external.store is None else self._external.store.warehouse

    def _warehouse(self) -> str:
        supplied = self._external.catalog
        if supplied is not None and supplied.warehouse:
            return supplied.warehouse
        return f"{self._catalog.scheme}://{self._bucket_and_prefix()}/{self._catalog.name}"

    def _say(self, event: str) -> None:
        with self._event_lock:
            self._on_event(event)


def port_names(workers: int = 2) -> tuple[str, ...]:
    """Every name that ``Stack(ports=...)`` accepts."""
    daemons = ["spark-master", *(f"spark-worker-{number}" for number in range(1, workers + 1))]
    servers = dict.fromkeys(port for c in CATALOGS.values() for server in c.servers for port in server.ports)
    return ("minio", *servers, *(name for daemon in daemons for name in (daemon, f"{daemon}-ui")))
