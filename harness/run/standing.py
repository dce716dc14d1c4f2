"""``icequake up`` and ``down``: a stack with warm writers that the next runs use.

A keeper process owns the services and the drivers (and a watchdog of its own, so a killed keeper leaves nothing behind). Their
addresses are in ``<cache>/stack/stack.json``. A driver executes one operation at a time, so a run that uses the warm writers holds
``<cache>/stack.in-use``, and a second run at the same time starts its own stack. A driver that ended because its run was stopped in the
middle of an operation is replaced. The keeper holds ``<cache>/stack.lock`` while it lives, so there is only one keeper.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from checkers.evidence.runfolder import replace_file
from compose.catalogs import user_file
from compose.catalogs.registry import CATALOGS, DEFAULT
from compose.endpoints import Endpoints
from compose.install import releases
from compose.install.ensure import ensure
from compose.install.releases import Release
from compose.processes.watchdog import Watchdog
from compose.stack.stack import Stack
from harness.run.settings import WRITER_START_S, StandingStack
from harness.writers.driver import launcher
from harness.writers.slot import WriterError, WriterSlot, renew
from workloads.file.mode import AS_USERS, Mode
from workloads.file.workload import Workload

UP_S = 420.0
"""Longer than WRITER_START_S, which only its last part may take: before it, the services start."""
DOWN_S = 30.0
"""Seconds for the keeper to stop what it started; then its watchdog does."""
DOWN_MOST_S = 300.0
"""Seconds that the keeper may take on a busy machine, of which `down` says every DOWN_S that it waits."""
RENEW_S = 0.5
"""Seconds between checks whether a driver has ended."""


class StandingError(RuntimeError):
    """A standing stack cannot be started, used or stopped; the message is one line with a remedy."""


def _file(home: Path) -> Path:
    """The path of the standing stack's record. It holds the object store's keys, so only the user can read its folder."""
    return home / "stack" / "stack.json"


def _read(home: Path) -> dict[str, Any] | None:
    """The record of the standing stack; None if there is none or its keeper is gone."""
    try:
        record = json.loads(_file(home).read_text())
        alive = psutil.Process(record["pid"]).create_time() == record["pid_started"]
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None
    return record if alive else None


@contextlib.contextmanager
def use(home: Path, workload: Workload, release: Release, say: Callable[[str], None]) -> Iterator[StandingStack | None]:
    """The standing stack, reserved for a run of the workload; None if there is none that this run can use, after saying why."""
    record = _read(home)
    if record is None or record.get("state") != "up":
        yield None
        return
    if (reason := _why_unusable(record, workload, release)) is not None:
        say(f"this run starts a stack of its own: {reason}")
        yield None
        return
    with (home / "stack.in-use").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("this run starts a stack of its own: another run uses the one that is up")
            yield None
            return
        record = _read(home)  # a driver may have been replaced after the previous run
        if record is None or record.get("state") != "up":
            yield None
            return
        sockets = tuple(Path(s) for s in record["sockets"])
        yield StandingStack(Endpoints.from_json(record["endpoints"]), sockets, keeper=_keeper(record))


def _keeper(record: Mapping[str, Any]) -> str:
    """Whose the standing stack is, and where it logs."""
    return f"which {record.get('by', '`icequake up`')} keeps (process {record['pid']}, logs in {record['logs']}, ended by `icequake down`)"


def _why_unusable(record: Mapping[str, Any], workload: Workload, release: Release) -> str | None:
    """Why a run cannot use the standing stack, with the remedy; None if it can."""
    endpoints = Endpoints.from_json(record["endpoints"])
    has = endpoints.catalog
    if workload.catalog != has:
        remedy = "" if user_file.is_file(workload.catalog) else f"; {replacing(workload.catalog, workload.mode)}"
        return f"the one that is up has the catalog {has}, not {workload.catalog}{remedy}"
    if workload.mode != endpoints.mode:
        return f"the one that is up has {endpoints.mode}, not {workload.mode}; {replacing(has, workload.mode)}"
    if release != releases.DEFAULT:
        return f"the one that is up has Iceberg {releases.DEFAULT.iceberg}, not {release.label}"
    if workload.nemesis is not None and CATALOGS[has].hands_out_store:
        return f"faults strike the store only if the server of {has} starts behind the proxies"
    return None


def replacing(catalog: str, mode: Mode) -> str:
    """The commands that replace the standing stack by one with another catalog or mode."""
    options = "".join(f" --{k} {v}" for k, v in mode.given.items())
    return f"`icequake down`, then `icequake up --catalog {catalog}{options}`, keeps such a one"


def up(home: Path, writers: int, catalog: str = DEFAULT, mode: Mode = AS_USERS) -> tuple[dict[str, Any], bool]:
    """Start a keeper and wait until its stack and writers are ready, unless a stack is up already.

    Returns:
        Its record: ``endpoints``, ``sockets``, ``pid``, ``logs``; and whether it was started now.

    Raises:
        StandingError: another one is starting, or this one did not come up.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / "stack.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            record = _read(home) or {}
            if record.get("state") == "up":
                return record, False
            raise StandingError(
                "another `icequake up` is starting a stack; wait for it, or stop it with `icequake down`"
            ) from None
        return _start(home, writers, catalog, mode, lock.fileno()), True


def _start(home: Path, writers: int, catalog: str, mode: Mode, lock: int) -> dict[str, Any]:
    """Start a keeper, which inherits the locked file, and wait until it is up."""
    logs = home / "stack-logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    with (logs / "keeper.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.run.standing", str(writers), str(logs), catalog, *mode.given.values()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock,),
        )
    deadline = time.monotonic() + UP_S
    try:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                text = (logs / "keeper.log").read_text(errors="replace").strip().splitlines()
                raise StandingError(f"the stack did not come up: {text[-1] if text else 'no reason given'}; see {logs}")
            record = _read(home)
            if record is not None and record.get("state") == "up":
                return record
            time.sleep(0.2)  # polling a file that the keeper writes when its services have answered
        raise StandingError(f"the stack is not up after {UP_S:.0f} s; see {logs}")
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(DOWN_S)
        raise


@contextlib.contextmanager
def lent(home: Path, endpoints: Endpoints, logs: Path, say: Callable[[str], None]) -> Iterator[None]:
    """A stack of this process as the one that is up: runs use its services, and ``icequake down`` sends this process SIGTERM.

    Runs start writers of their own, because the writers of the stack have a session of another run. If a stack is up already, this one
    is not offered to runs, after saying so.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / "stack.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("`icequake up` keeps another stack, so runs use that one, and `icequake down` ends that one")
            yield
            return
        me = psutil.Process()
        record = {"pid": me.pid, "pid_started": me.create_time(), "state": "up", "logs": str(logs), "sockets": []}
        record["by"] = "`icequake soak`"
        _write(_file(home), record | {"endpoints": endpoints.to_json()})
        try:
            yield
        finally:
            _file(home).unlink(missing_ok=True)


def down(home: Path, say: Callable[[str], object]) -> bool:
    """Stop the standing stack; False if there was none. ``say`` hears that it takes long.

    Raises:
        StandingError: it does not end.
    """
    record = _read(home)
    if record is None:
        _file(home).unlink(missing_ok=True)
        return False
    keeper = psutil.Process(record["pid"])
    keeper.send_signal(signal.SIGTERM)
    waited = 0.0
    while True:
        try:
            keeper.wait(DOWN_S)
        except psutil.TimeoutExpired:
            waited += DOWN_S
        else:
            return True
        if waited >= DOWN_MOST_S:
            raise StandingError(
                f"process {record['pid']} has not ended after {waited:.0f} s; kill it with kill -9, its watchdog then stops the rest"
            )
        say(f"still waits for process {record['pid']} to stop its services ({waited:.0f} s)")


def keep(writers: int, logs: Path, catalog: str, mode: Mode) -> None:
    """The keeper process: start everything, write the record, wait for SIGTERM, stop everything."""

    def end(*_: object) -> None:
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    installation = ensure()
    run_id = secrets.token_hex(6)
    file = _file(installation.home)
    me = psutil.Process()
    with contextlib.ExitStack() as stack:
        data = Path(tempfile.mkdtemp(prefix="icequake-"))
        data.chmod(0o755)
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        watchdog = Watchdog(run_id, remove=[data])
        stack.callback(watchdog.close)  # before it starts: an interrupt may come at any moment
        watchdog.start()
        stack.callback(file.unlink, missing_ok=True)
        record: dict[str, Any] = {"pid": os.getpid(), "pid_started": me.create_time(), "state": "starting"}
        _write(file, record)
        services = Stack(
            installation,
            run_id=run_id,
            data=data / "services",
            logs=logs,
            worker_cores=max(8, 2 * writers),
            catalog=catalog,
            mode=mode,
        )
        services.start()
        stack.callback(services.stop)
        launch = launcher(installation, services.endpoints, run_id=run_id, data=data, logs=logs)
        slots = [WriterSlot(f"w{n}", launch, WRITER_START_S) for n in range(writers)]
        for slot in slots:
            slot.connect()
            slot.close()
        record |= {"state": "up", "endpoints": services.endpoints.to_json(), "logs": str(logs)}
        tend(slots, lambda: _write(file, record | {"sockets": [str(s.socket_path) for s in slots]}), threading.Event())


def tend(slots: Sequence[WriterSlot], publish: Callable[[], None], stop: threading.Event) -> None:
    """Publish the drivers' sockets, and again whenever an ended driver was replaced, until ``stop`` is set."""
    publish()
    while not stop.wait(RENEW_S):
        try:
            if renew(slots):
                publish()
        except WriterError as e:  # try again later; until then a run starts its own driver
            print(e, file=sys.stderr)


def _write(file: Path, record: dict[str, Any]) -> None:
    """Write the record so that no other user can read it at any moment."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.parent.chmod(0o700)  # the folder may have existed before
    replace_file(file, json.dumps(record, indent=1), mode=0o600)


def main() -> None:
    """Entry point of the keeper process: its last line of output is the reason when it fails."""
    try:
        keep(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Mode.of(sys.argv[4:]))
    except Exception as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        sys.exit(255)


if __name__ == "__main__":
    main()
