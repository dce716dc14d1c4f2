"""The catalogs' database: PostgreSQL on loopback, with minimal resources."""

from __future__ import annotations

import os
import pwd
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2.extensions import POLL_OK, POLL_READ

from compose.install.installation import UNKNOWN_VERSION, Installation
from compose.processes.ports import LOOPBACK, Ports
from compose.processes.process import LocalProcess, NotReady, base_environment

USER, DATABASE = "iceberg", "iceberg"
_INITDB_SECONDS = 60

# No fsync: a run's data need not survive a power failure. Everything else that protects committed data stays on: a
# fault may SIGKILL the server at any point, so the log of a commit must have left the process (synchronous_commit) and
# a torn page write must be repairable (full_page_writes).
_SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "16MB",
    "max_connections": "100",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: nothing stays in /dev/shm after a SIGKILL
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "128MB",
    "checkpoint_timeout": "30min",
    "autovacuum_max_workers": "1",
    "max_parallel_workers": "0",
    "jit": "off",
    "log_line_prefix": "%m [%p] ",
}


class Postgres(LocalProcess):
    """PostgreSQL with the superuser and database ``iceberg`` and no password, for loopback only.

    Root cannot run it, so under root it runs as the user ``nobody``.
    """

    role = "database"
    stop_signal = signal.SIGINT  # "fast": end the sessions, write a checkpoint, exit

    def __init__(self, binaries: Path, *, run_id: str, ports: Ports, data: Path, log: Path):
        """``binaries``: the folder with ``initdb`` and ``postgres``."""
        super().__init__("postgres", run_id=run_id, ports=ports, port_names=["postgres"], folder=data, log=log)
        self._binaries = binaries

    @property
    def address(self) -> str:
        """``host:port``"""
        return f"{LOOPBACK}:{self.port()}"

    def jdbc_url(self, database: str = DATABASE) -> str:
        return f"jdbc:postgresql://{self.address}/{database}"

    def user(self) -> int | None:
        return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None

    def prepare(self) -> None:
        if (self._cluster / "PG_VERSION").exists():
            return
        user = self.user()
        if user is not None:
            os.chown(self.folder, user, pwd.getpwuid(user).pw_gid)
            closed = next((folder for folder in self.folder.parents if not folder.stat().st_mode & 0o001), None)
            if closed:
                raise self.error(
                    f"runs as the user nobody, which cannot enter {closed}",
                    remedy=f"chmod o+x {closed}, or put the run's data below the system's temporary folder",
                )
        command = [
            *(str(self._binaries / "initdb"), "-D", str(self._cluster), "-U", USER, "-A", "trust"),
            *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        ]
        identity = {} if user is None else {"user": user, "group": pwd.getpwuid(user).pw_gid, "extra_groups": []}
        with self.logs().open("ab") as log:
            try:
                code = subprocess.run(
                    command,
                    env=dict(self.environment()),
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=_INITDB_SECONDS,
                    check=False,
                    **identity,  # type: ignore[call-overload]
                ).returncode
            except (OSError, subprocess.TimeoutExpired) as error:
                raise self.error(f"initdb failed: {error}") from error
        if code != 0:
            raise self.error(f"initdb exited with code {code}")

    def argv(self) -> Sequence[str]:
        settings = {**_SETTINGS, "port": str(self.port())}
        if self._major() >= 18:
            settings["io_method"] = "sync"  # saves three processes
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self._binaries / "postgres"), "-D", str(self._cluster), *arguments]

    def environment(self) -> Mapping[str, str]:
        return {**base_environment(), "HOME": str(self.folder), "LC_ALL": "C", "TZ": "UTC"}

    def probe(self, timeout: float) -> None:
        # The run's database (DATABASE) exists only after the first start; "postgres" always.
        self.execute("SELECT 1", database="postgres", timeout=timeout)

    def after_first_ready(self) -> None:
        self.create_database(DATABASE)

    def create_database(self, name: str) -> None:
        """Raises ServiceError if the server refuses, also if the database exists."""
        try:
            self.execute(f'CREATE DATABASE "{name}"', database="postgres", timeout=30)
        except (NotReady, OSError) as error:
            raise self.error(f"cannot create the database {name}: {error}") from error

    def execute(
        self, sql: str, parameters: Sequence[Any] = (), *, database: str = DATABASE, timeout: float = 10.0
    ) -> list[tuple[Any, ...]]:
        """Run ``query`` on this server."""
        return query(LOOPBACK, self.port(), database, sql, parameters, timeout=timeout)

    @property
    def _cluster(self) -> Path:
        return self.folder / "cluster"

    def _major(self) -> int:
        version = re.match(r"\d+", (self._cluster / "PG_VERSION").read_text())
        return int(version.group()) if version else 0


def version(installation: Installation) -> str:
    """What ``postgres --version`` prints."""
    try:
        done = subprocess.run(
            [str(installation.postgres_bin / "postgres"), "--version"], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN_VERSION
    found = re.search(r"\d+[\d.]*", done.stdout)
    return found[0] if found else UNKNOWN_VERSION


def query(
    host: str, port: int, database: str, sql: str, parameters: Sequence[Any] = (), *, timeout: float
) -> list[tuple[Any, ...]]:
    """Run one statement in a new connection, each ``%s`` bound to one of ``parameters``, and return its rows.

    The connection is asynchronous, because libpq itself waits forever for a paused server.
    Raises NotReady with the server's message if it refuses, TimeoutError if there is no answer in ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    connection = None
    try:
        connection = psycopg2.connect(
            host=host, port=port, user=USER, dbname=database, sslmode="disable", gssencmode="disable", async_=True
        )
        _wait(connection, deadline)
        cursor = connection.cursor()
        cursor.execute(sql, parameters or None)
        _wait(connection, deadline)
        return cursor.fetchall() if cursor.description else []
    except psycopg2.Error as error:
        raise NotReady(" ".join(str(error).split()) or type(error).__name__) from error
    finally:
        if connection is not None:
            connection.close()


def _wait(connection: Any, deadline: float) -> None:
    """Wait until the connection has completed its request."""
    while (state := connection.poll()) != POLL_OK:
        seconds = deadline - time.monotonic()
        ready = select.poll()  # takes any file descriptor; select() refuses those from 1024 on
        ready.register(connection, select.POLLIN if state == POLL_READ else select.POLLOUT)
        if seconds <= 0 or not ready.poll(1000 * seconds):
            raise TimeoutError("PostgreSQL gave no answer in time")
