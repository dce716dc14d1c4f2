"""A service that is a local process: how it starts and ends, and the error if it does not."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import psutil

from compose.processes.ports import PortInUse, Ports
from compose.processes.service import Role, ServiceError, last_meaningful_line, tail
from compose.processes.watchdog import marked_environment

READY_SECONDS = 60.0
STOP_SECONDS = 5.0
_BIND_TRIES = 4
_FIRST_POLL, _SLOWEST_POLL = 0.02, 0.2  # s between two probes
_FIRST_PATIENCE, _MOST_PATIENCE = 0.5, 5.0  # s for one probe; short at first, to notice an early death soon
_CANNOT_BIND = re.compile(
    r"address already in use|BindException|could not bind|Failed to bind|port is already in use|port is already allocated",
    re.I,
)

# The variables of the user's shell that a server gets. Anything else (SPARK_CONF_DIR, AWS_PROFILE, JAVA_TOOL_OPTIONS, PYTHONPATH,
# HTTP_PROXY, which the AWS SDK obeys even for loopback) would make a run depend on the user's machine.
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")


class NotReady(Exception):
    """It does not answer yet, or answers wrongly; the text says what it did instead."""


def base_environment() -> dict[str, str]:
    """The part of this process's environment that a run's programs get."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


class LocalProcess(ABC):
    """A service that icequake runs as a local process. Subclasses say what to run and what a real request to it is.

    Ports are claimed at the first start. If one is taken by then, and the user did not choose it, the server gets
    another. Once the server has been ready it keeps its ports.
    """

    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = STOP_SECONDS
    role: Role | None = None

    def __init__(self, name: str, *, run_id: str, ports: Ports, port_names: Sequence[str], folder: Path, log: Path):
        """``port_names``: names of its ports in ``ports``; ``folder``: its data and working directory."""
        self._name = name
        self._run_id = run_id
        self._ports = ports
        self._port_names = tuple(port_names)
        self._folder = folder
        self._log = log
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._was_ready = False
        self._paused = False
        self._killed = False
        self._lock = RLock()  # start and stop may come from different threads

    # What a subclass defines.

    @abstractmethod
    def argv(self) -> Sequence[str]:
        """The command. Called at every start, after the ports of the services that it needs are known."""

    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """Its whole environment except the run's mark."""

    @abstractmethod
    def probe(self, timeout: float) -> None:
        """Make one real request. Raises NotReady or OSError if it is not answered within ``timeout`` seconds."""

    def provide(self) -> None:
        """Download what it needs if it is missing on this machine; may take minutes. Raises SetupError."""
        return

    def prepare(self) -> None:
        """Create what it needs before a start. Called at every start, when ``folder`` exists."""
        return

    def after_first_ready(self) -> None:
        """Called once, when it has answered for the first time."""
        return

    def user(self) -> int | None:
        """The user id to run under; None for this process's own."""
        return None

    # What callers use.

    @property
    def name(self) -> str:
        return self._name

    @property
    def pid(self) -> int | None:
        """The server's process id, None if it is not running."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def host_pid(self) -> int | None:
        """The process on this machine whose children are the server's; None if it does not run."""
        return self.pid

    @property
    def running(self) -> bool:
        return self.pid is not None

    @property
    def killed(self) -> bool:
        """Whether it ended by :meth:`kill`, and not by itself."""
        return self._killed

    @property
    def folder(self) -> Path:
        return self._folder

    def logs(self) -> Path:
        return self._log

    def port(self, name: str | None = None) -> int:
        """The port it listens on, by its name in ``ports``; default: its first port."""
        return self._ports.claim(name or self._port_names[0])

    def start(self) -> None:
        with self._lock:
            if self.running:
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            self._log.parent.mkdir(parents=True, exist_ok=True)
            if not self._was_ready:
                for name in self._port_names:
                    self._claim(name)
            self.prepare()
            self._killed = False
            self._spawn()

    def ready(self, timeout: float = READY_SECONDS) -> None:
        deadline = time.monotonic() + timeout
        pause, patience = _FIRST_POLL, _FIRST_PATIENCE
        for attempt in range(1, _BIND_TRIES + 1):
            problem = "no answer yet"
            process = self._process
            if process is None:
                raise self.error("it is not running")
            while process.poll() is None:
                seconds = deadline - time.monotonic()
                if seconds <= 0:
                    raise self.error(f"not ready after {timeout:.0f} s: {problem}")
                try:
                    self.probe(min(seconds, patience))
                    self._check_ports_are_its_own(process)
                except (NotReady, OSError, http.client.HTTPException) as error:
                    problem = str(error) or type(error).__name__
                    time.sleep(min(pause, max(seconds, 0)))
                    pause, patience = min(pause * 1.5, _SLOWEST_POLL), min(patience * 1.5, _MOST_PATIENCE)
                    continue
                if not self._was_ready:
                    self.after_first_ready()
                    self._was_ready = True
                return
            if attempt == _BIND_TRIES or not self._rebind():
                raise self.error(f"{_how_it_ended(process.returncode)} before it was ready")
        raise AssertionError("unreachable: the last attempt returns or raises")

    def stop(self) -> None:
        with self._lock:
            process = self._process
            if process is None:
                return
            tree = self._tree()
            if process.poll() is None:
                process.send_signal(self.stop_signal)
                _signal(tree, signal.SIGCONT)
                try:
                    process.wait(self.stop_seconds)
                except subprocess.TimeoutExpired:
                    pass
            self._destroy(tree)

    def kill(self) -> None:
        with self._lock:
            if self._process is not None:
                self._killed = self._killed or self.running
                self._destroy([])

    def pause(self) -> None:
        with self._lock:
            if not self.running:
                raise self.error("cannot be paused: it does not run")
            # The parent first, so that it starts no process while its children are looked up.
            _signal(self._tree()[:1], signal.SIGSTOP)
            tree = self._tree()
            _signal(tree, signal.SIGSTOP)
            self._paused = True
            _wait_while(lambda: any(_acts(process) for process in tree))

    def resume(self) -> None:
        with self._lock:
            if self.running and self._paused:
                _signal(reversed(self._tree()), signal.SIGCONT)
            self._paused = False

    def restart(self) -> None:
        self.stop()
        self.start()
        self.ready()

    def __enter__(self) -> Self:
        self.start()
        try:
            self.ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def error(self, problem: str, *, remedy: str = "") -> ServiceError:
        """A ServiceError about this service, with its log's last meaningful line since its latest start."""
        line = last_meaningful_line(self._log, since=self._log_start)
        log = self._log if self._log.exists() else None
        return ServiceError(self._name, problem, log=log, last_line=line, remedy=remedy)

    # Internals.

    def _claim(self, name: str) -> None:
        if self._ports.is_chosen(name):
            self._ports.check(name)
        else:
            self._ports.claim(name)

    def _spawn(self) -> None:
        user = self.user()
        identity = {} if user is None else {"user": user, "group": _group_of(user), "extra_groups": []}
        with self._log.open("ab") as log:
            self._log_start = log.seek(0, os.SEEK_END)
            try:
                self._process = subprocess.Popen(
                    [str(part) for part in self.argv()],
                    env=marked_environment(self.environment(), self._run_id),
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # a separate group, so that the terminal's Ctrl-C reaches the harness only
                    **identity,  # type: ignore[call-overload]
                )
            except OSError as error:
                raise self.error(f"cannot be started: {error}") from error
        self._paused = False

    def _rebind(self) -> bool:
        """Start it on other ports if it died before it was ready because a port was taken."""
        if not _CANNOT_BIND.search(tail(self._log, since=self._log_start)):
            return False
        taken_by_choice = next((name for name in self._port_names if self._ports.is_chosen(name)), None)
        if self._was_ready or taken_by_choice:
            name = taken_by_choice or self._port_names[0]
            raise PortInUse(self._name, self._ports.claim(name))
        with self._lock:
            for name in self._port_names:
                self._ports.draw_again(name)
            self.prepare()
            self._spawn()
        return True

    def _check_ports_are_its_own(self, process: subprocess.Popen[bytes]) -> None:
        """Raises NotReady when another process listens on one of its ports: a server of another run may have won the race for the port."""
        if not self._port_names:
            return
        try:
            connections = psutil.Process(process.pid).net_connections(kind="tcp")
        except psutil.Error:  # it ended (the caller notices that next), or access is denied
            return
        listens = {connection.laddr.port for connection in connections if connection.status == psutil.CONN_LISTEN}
        for name in self._port_names:
            if self._ports.claim(name) not in listens:
                raise NotReady(f"another process answers on port {self._ports.claim(name)}")

    def _tree(self) -> list[psutil.Process]:
        """The server (first, if it lives), all its descendants, and the rest of its session if it died."""
        leader = self._process
        if leader is None:
            return []
        roots = [leader.pid] if leader.poll() is None else []
        for pid in psutil.pids():
            try:
                if (
                    os.getsid(pid) == leader.pid and pid != leader.pid
                ):  # a pid is not reused while a session has it as its id
                    roots.append(pid)
            except OSError:
                pass
        found: dict[int, psutil.Process] = {}
        for pid in roots:
            try:
                root = psutil.Process(pid)
                for process in [root, *root.children(recursive=True)]:
                    found.setdefault(process.pid, process)
            except psutil.NoSuchProcess:
                pass
        return list(found.values())

    def _destroy(self, known: Iterable[psutil.Process]) -> None:
        """SIGKILL the remaining processes of the tree and the ``known`` ones; wait until they end."""
        if self.running:
            _signal(self._tree()[:1], signal.SIGSTOP)  # so that it starts no process while the tree is read
        victims = {process.pid: process for process in [*known, *self._tree()]}
        _signal(victims.values(), signal.SIGKILL)
        process, self._process, self._paused = self._process, None, False
        if process is not None:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process = process
                raise self.error(f"process {process.pid} did not end after SIGKILL") from None
        _wait_while(lambda: any(_lives(victim) for victim in victims.values()))


def _signal(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        try:
            process.send_signal(number)  # psutil checks that the pid is still the same process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            pass


def _wait_while(condition: Callable[[], bool]) -> None:
    """Wait for the kernel to deliver a signal that cannot be ignored; ``STOP_SECONDS`` at most."""
    deadline = time.monotonic() + STOP_SECONDS
    while condition() and time.monotonic() < deadline:
        time.sleep(0.005)


def _acts(process: psutil.Process) -> bool:
    return _lives(process) and process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


def _lives(process: psutil.Process) -> bool:
    """False for a zombie too: it no longer runs and only waits to be reaped."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _group_of(user: int) -> int:
    import pwd

    return pwd.getpwuid(user).pw_gid


def http_get(url: str, timeout: float, *, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """GET without proxies: the status and the body. Raises OSError or http.client.HTTPException."""
    parts = urlsplit(url)
    kind: Callable[..., http.client.HTTPConnection] = (
        http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    )
    connection = kind(parts.hostname or "", parts.port, timeout=max(timeout, 0.05))
    try:
        connection.request(
            "GET",
            f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/",
            headers=dict(headers or {}),
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
