"""The orchestrator's side of a writer: launch its driver process, hand it operations, notice its death, replace it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import psutil

from checkers.evidence.outcome import classify
from compose.catalogs.delta import USER_METADATA_CONF
from workloads.engines.engine import Engine, Foreign
from workloads.engines.engines import ENGINES, SPARK
from workloads.generator import PlannedOperation
from workloads.operations.kind import Arguments, Statement
from workloads.operations.kinds import KINDS

HELLO_S = 5.0
"""Seconds within which a free warm driver answers."""
SESSION_S = 60.0
"""Seconds within which it makes a new session."""
END_S = 10.0
"""Seconds within which a killed driver is gone."""


class WriterError(RuntimeError):
    """A writer cannot be started; the message is one line with its log file."""


class KilledWhileStarting(WriterError):
    """The driver was killed from here, as a fault does, before it was ready."""


class WriterDied(Exception):
    """The driver process or its connection is gone; the outcome of its operation is unknown."""


class WriterTimeout(Exception):
    """No answer within the operation's time limit: the outcome is unknown and the driver must be replaced."""


class DriverProcess(Protocol):
    """The driver process, as far as a writer uses it."""

    def alive(self) -> bool:
        """Whether the process runs."""

    @property
    def killed(self) -> bool:
        """Whether it ended by :meth:`kill`, and not by itself."""

    def kill(self) -> None:
        """Kill it and its child processes."""

    def pause(self) -> None:
        """Pause it and its child processes (SIGSTOP); connections stay open."""

    def resume(self) -> None:
        """Resume it after :meth:`pause`."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    def logs(self) -> Path:
        """Its log file."""


SETUP = "setup"
"""What a request is called that makes a namespace or a table: no operation of the history, so no commit is to name it."""


def request(
    op: str,
    statements: list[Statement],
    *,
    catalog: str,
    namespace: str,
    table: str,
    older_than: str | None = None,
    place: str | None = None,
) -> dict[str, Any]:
    """The request for one operation, as ``harness.writers.session`` expects it.

    Args:
        place: the location of a Delta table, whose commits name the operation by a property of the session; None: an Iceberg table.
    """
    identifier = f"{namespace}.{table}"
    names = {
        "catalog": catalog,
        "namespace": namespace,
        "identifier": identifier,
        "table": f"{catalog}.{identifier}" if place is None else f"delta.`{place}`",
    }
    mark = {} if place is None or op == SETUP else {USER_METADATA_CONF: op}
    if older_than is not None:
        names["older_than"] = older_than
    return {
        "op": op,
        "statements": [asdict(replace(s, settings={**s.settings, **mark})) for s in statements],
        "names": names,
    }


def guest_request(op: str, planned: PlannedOperation, namespace: str) -> dict[str, Any]:
    """The request for one operation of an engine with a process for each writer, as ``harness.writers.engine_session`` expects it."""
    table = planned.table.model_dump(mode="json")
    return {"op": op, "f": planned.f, "value": planned.value, "table": table, "namespace": namespace}


class Writer:
    """A connection to one driver process. One request at a time.

    Args:
        name: such as ``w0``.
        process: the driver process; None for a warm driver, which another process started and later runs use.
        socket_path: where the driver listens once its session is ready.
        session: properties of the session that it first gets; None: the driver has one.
        shared: whether other writers use the process, too, or later runs: it ends only by a fault, or if an operation is unanswered.
    """

    def __init__(
        self,
        name: str,
        process: DriverProcess | None,
        socket_path: Path,
        *,
        session: Mapping[str, str] | None = None,
        shared: bool = False,
    ) -> None:
        self.name = name
        self._process = process
        self._path = socket_path
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._warm: psutil.Process | None = None
        self._unanswered = False
        self._session = session
        self._shared = shared

    @property
    def socket_path(self) -> Path:
        """The socket of its driver."""
        return self._path

    @property
    def process(self) -> DriverProcess | None:
        """The driver process; None for a warm one."""
        return self._process

    def take(self, session: Mapping[str, str] | None = None) -> bool:
        """Connect to a warm driver; False if it is gone, or busy with an abandoned operation.

        Args:
            session: properties of the catalogs of a new session; None: the driver keeps its session.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(HELLO_S)
        try:
            connection.connect(str(self._path))
        except OSError:
            connection.close()
            return False
        self._socket = connection
        try:
            answer = self.call({"hello": True}, HELLO_S)
            self._warm = psutil.Process(answer["pid"])
            if session is not None:
                self.call({"session": dict(session)}, SESSION_S)
        except (WriterDied, WriterTimeout, KeyError, psutil.Error):
            self.kill()
            return False
        return True

    def connect(self, timeout: float, stopped: Callable[[], bool] = lambda: False) -> None:
        """Wait for the driver's session and connect, unless already connected.

        Args:
            timeout: seconds.
            stopped: asked between tries; true ends the wait.

        Raises:
            KilledWhileStarting: the driver was killed by this process.
            WriterError: the driver died or took too long.
        """
        if self._socket is not None:
            return
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not stopped():
            if self._process is not None and not self._process.alive():
                if self._process.killed:
                    raise KilledWhileStarting(f"writer {self.name} was killed while starting")
                raise WriterError(f"writer {self.name} died while starting; see {self._process.logs()}")
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(self._path))
            except OSError:
                connection.close()
                time.sleep(0.05)  # poll: another process makes the file, and nothing signals it
                continue
            self._socket = connection
            if self._session is not None:
                self._begin(self._session, max(deadline - time.monotonic(), 1.0))
            return
        log = f"; see {self._process.logs()}" if self._process is not None else f" at {self._path}"
        raise WriterError(f"writer {self.name} is not ready after {timeout:.0f} s{log}")

    def _begin(self, session: Mapping[str, str], timeout: float) -> None:
        """Open the session. Raises :class:`WriterError`."""
        log = f"; see {self._process.logs()}" if self._process is not None else ""
        try:
            answer = self.call({"session": dict(session)}, timeout)
        except (WriterDied, WriterTimeout) as e:
            raise WriterError(f"writer {self.name} got no session: {e}{log}") from None
        if not answer["ok"]:
            name, text = answer["error"][0]
            raise WriterError(f"writer {self.name} got no session: {name.rsplit('.', 1)[-1]}: {text}{log}")

    def call(self, message: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Send one request and wait for its answer.

        Args:
            message: see ``harness.writers.session``.
            timeout: seconds.

        Raises:
            WriterDied: the process or the connection is gone.
            WriterTimeout: no answer in time.
        """
        if self._socket is None:
            raise WriterDied(self.name)
        deadline = time.monotonic() + timeout
        self._unanswered = True
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            while b"\n" not in self._buffer:
                seconds = deadline - time.monotonic()
                if seconds <= 0:
                    raise TimeoutError
                self._socket.settimeout(seconds)
                data = self._socket.recv(1 << 20)
                if not data:
                    raise WriterDied(self.name)
                self._buffer += data
        except TimeoutError:
            raise WriterTimeout(f"{self.name}: no answer within {timeout:.0f} s") from None
        except OSError as e:
            raise WriterDied(f"{self.name}: {e}") from None
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer = json.loads(line)
        if not isinstance(answer, dict):
            raise WriterDied(f"{self.name}: answered {answer!r}")
        self._unanswered = False
        return answer

    def interrupt(self) -> None:
        """Make a ``call`` in another thread end with :class:`WriterDied`."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the process keeps running."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def kill_process(self) -> None:
        """Kill the process, also a warm one, and wait until it is gone; a ``call`` in another thread then ends with :class:`WriterDied`.

        Raises:
            WriterError: a warm driver does not end.
        """
        if self._process is not None:
            self._process.kill()
        elif self._warm is not None:
            _end(self._warm)

    def kill(self) -> None:
        """Close the connection and kill the process; a warm one only if an answer is outstanding, as its operation may still commit.

        Raises:
            WriterError: a warm driver does not end.
        """
        try:
            if self._process is None and self._warm is not None and self._unanswered:
                _end(self._warm)
            if self._process is not None and (not self._shared or self._unanswered):
                self._process.kill()
        finally:
            self.close()


def _group(driver: psutil.Process) -> list[psutil.Process]:
    """The processes of the driver's process group, also when the driver itself is gone."""
    if psutil.pid_exists(driver.pid) and not driver.is_running():
        return []  # the number belongs to another process now
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == driver.pid:
                found.append(process)
    return found


def _end(driver: psutil.Process) -> None:
    """Kill a driver process that another process started, with its JVM, and wait until both are gone.

    A driver whose client hangs up ends itself with its process group. Its JVM can outlive it by a moment, so the group is waited for, too.
    """
    tree = [driver, *_group(driver)]
    with contextlib.suppress(psutil.Error):
        tree += driver.children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        if driver.is_running() and os.getpgid(driver.pid) == driver.pid:
            os.killpg(driver.pid, signal.SIGKILL)
    for process in tree:
        with contextlib.suppress(psutil.Error):
            process.kill()
    deadline = time.monotonic() + END_S
    while any(_lives(process) for process in tree):
        if time.monotonic() > deadline:
            raise WriterError(f"the warm writer's process {driver.pid} does not end; kill it, then use the stack again")
        time.sleep(0.01)  # poll: it is not a child of this process, so it cannot be waited for


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


Launch = Callable[[str, int], Writer]
"""Name and generation (0, then 1 for the first replacement …) → a writer whose driver is starting."""


class WriterSlot:
    """One writer of the run and its replacements. Used by one thread, except where a method says otherwise."""

    def __init__(self, name: str, launch: Launch, start_timeout: float) -> None:
        self.name = name
        self._launch = launch
        self._timeout = start_timeout
        self._generation = 0
        self._stopped = threading.Event()
        self._writer = launch(name, 0)

    @property
    def replacements(self) -> int:
        """How often the driver was replaced."""
        return self._generation

    @property
    def socket_path(self) -> Path:
        """The socket of the current driver."""
        return self._writer.socket_path

    def driver(self) -> DriverProcess | None:
        """The current driver process; None for a warm one. Callable from any thread."""
        return self._writer.process

    def connect(self) -> None:
        """Wait until the driver has its session. Raises :class:`WriterError`."""
        self._writer.connect(self._timeout, self._stopped.is_set)

    def call(self, message: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """As :meth:`Writer.call`."""
        return self._writer.call(message, timeout)

    def replace(self) -> None:
        """Kill the driver and start another; and one more for each that a fault kills while it starts. Raises :class:`WriterError`."""
        ready = False
        while not ready:
            self._writer.kill()
            if self._stopped.is_set():
                raise WriterError(f"writer {self.name} was stopped")
            self._generation += 1
            self._writer = self._launch(self.name, self._generation)
            with contextlib.suppress(KilledWhileStarting):
                self.connect()
                ready = True

    def kill_driver(self) -> None:
        """Kill the current driver as a crash does; its thread replaces it. Callable from any thread. Raises :class:`WriterError`."""
        self._writer.kill_process()

    def interrupt(self) -> None:
        """End its thread's waiting soon. Callable from any thread."""
        self._stopped.set()
        self._writer.interrupt()

    def close(self) -> None:
        """Close the connection; the driver keeps running for later runs."""
        self._writer.close()

    def kill(self) -> None:
        """Close the connection and kill the driver; a warm one keeps running if no answer is outstanding. Raises :class:`WriterError`."""
        self._stopped.set()
        self._writer.kill()


def renew(slots: Iterable[WriterSlot]) -> int:
    """Replace the drivers that have ended and close the connections to the new ones; return how many.

    Raises:
        WriterError: a driver does not come up.
    """
    count = 0
    for slot in slots:
        process = slot.driver()
        if process is not None and not process.alive():
            slot.replace()
            slot.close()
            count += 1
    return count


def outcome(
    f: str, value: Arguments, answer: Mapping[str, Any], engine: Engine = ENGINES[SPARK]
) -> Literal["ok", "fail", "info"]:
    """``ok``, ``fail`` or ``info`` for a writer's answer. Of another engine than Spark, the engine says what its errors mean.

    A compaction with partial progress that raised may have made some of its commits, so its outcome is never ``fail``. The same holds for
    an expiry whose Spark job failed: the job deletes files after the commit (``ExpireSnapshotsSparkAction``).
    """
    if answer["ok"]:
        return "ok"
    if isinstance(engine, Foreign):
        return engine.outcome(f, answer["error"])
    if value.get("partial_progress"):
        return "info"
    return classify(answer["error"], writes=KINDS[f].commits, job_first=not KINDS[f].deletes_files)
