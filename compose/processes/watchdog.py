"""The process that cleans up after a run, no matter how the run ended.

The harness starts it before anything else and holds the only write end of a pipe that the watchdog reads. When the
harness is gone for whatever reason (normal end, exception, Ctrl-C, ``kill -9``) the kernel closes the pipe. Then the
watchdog ends every process that carries the run's mark in its environment, and removes the run's temporary folders.
The mark ``ICEQUAKE_RUN=<run id>`` is inherited by all descendants, so a process that left its group and its session (a
Spark executor, a PostgreSQL backend) is found as well; some (PostgreSQL again) overwrite their environment to show a
title in ``ps``, so children of a marked process count as marked.

A child that was forked from the harness without an exec would hold a copy of the write end, so the watchdog also checks
that the harness is still its parent; which one that is it is told, because a harness may be killed before this program begins.
A harness that was killed may have left a child between fork and exec, which has no mark yet: the watchdog cleans up again when
the pipe is closed, because exec closes it.

This file imports only the standard library (and psutil where there is no /proc), and runs as a script::

    python watchdog.py <run id> <file descriptor to read> <pid of the harness> [folder to remove...]
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RUN_VARIABLE = "ICEQUAKE_RUN"

TERM_SECONDS = 1.5  # after SIGTERM; then SIGINT, which makes PostgreSQL drop its clients instead of waiting for them
GRACE_SECONDS = 3.0  # after SIGTERM; then SIGKILL
KILL_SECONDS = 4.0  # of repeated SIGKILL
FOLDER_SECONDS = 2.0  # of repeated removal of folders
_POLL_SECONDS = 0.05
_PARENT_POLL_SECONDS = 0.5
FORK_SECONDS = 10.0  # after the harness was killed, for what it forked to call exec; some never do
_EXEC_SECONDS = 2.0  # exec closes the pipe a moment before /proc shows the new environment; longer on a busy machine


def marked_environment(environment: Mapping[str, str], run_id: str) -> dict[str, str]:
    """``environment`` with the mark by which the watchdog of ``run_id`` finds a process and all its descendants."""
    return {**environment, RUN_VARIABLE: run_id}


@dataclass(frozen=True)
class Cleanup:
    """What the watchdog found when the run ended, as ``name (pid)``.

    Attributes:
        terminated: Processes that were still running and that it ended; none after a run that stopped its services itself.
        survivors: Processes that did not end even after SIGKILL (in an uninterruptible system call).
        folders: Folders that could not be removed.
    """

    terminated: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class Watchdog:
    """The harness's handle of one run's watchdog."""

    def __init__(self, run_id: str, *, remove: Iterable[Path] = ()):
        """``remove``: folders that belong to this run only; removed when the run has ended."""
        if not run_id:
            raise ValueError("a run needs an id, because the watchdog finds its processes by it")
        self._run_id = run_id
        self._folders = [str(folder.absolute()) for folder in remove]
        self._process: subprocess.Popen[bytes] | None = None
        self._write_end: int | None = None

    def start(self) -> None:
        """Start it, or a new one if it died. No effect while it is alive."""
        if self.alive():
            return
        self._forget()
        read_end, self._write_end = os.pipe()  # child programs do not inherit either end unless asked to
        environment = {name: value for name, value in os.environ.items() if name != RUN_VARIABLE}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", __file__, self._run_id, str(read_end), str(os.getpid()), *self._folders],
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(read_end,),
                start_new_session=True,  # so that it gets neither Ctrl-C nor hang-up of the terminal
            )
        finally:
            os.close(read_end)

    def alive(self) -> bool:
        """Whether it is running. False before ``start`` and after it was killed; then call ``start`` again."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def close(self, timeout: float = 15.0) -> Cleanup:
        """Have it clean up now, wait for it, and return what it had to end. Call this after the services were stopped.

        If it was killed before, this method cleans up instead.
        """
        died = self._process is not None and not self.alive()
        if self._process is None or died:
            self._forget()
            return clean_up(self._run_id, self._folders) if died else Cleanup()
        self._close_write_end()
        try:
            answer, _ = self._process.communicate(timeout=timeout)
            found = json.loads(answer)
        except (subprocess.TimeoutExpired, ValueError):
            self._forget()
            return clean_up(self._run_id, self._folders)
        self._forget()
        return Cleanup(**{key: tuple(values) for key, values in found.items()})

    def __enter__(self) -> Watchdog:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_write_end(self) -> None:
        if self._write_end is not None:
            os.close(self._write_end)
            self._write_end = None

    def _forget(self) -> None:
        self._close_write_end()
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            if self._process.stdout:
                self._process.stdout.close()
            self._process.wait()
            self._process = None


# ---------------------------------------------------------------------------------------------------------------------
# The watchdog's own process.


@dataclass(frozen=True)
class ProcessIdentity:
    """A process; ``started`` distinguishes it from a later one with the same pid."""

    pid: int
    started: float
    parent: int
    name: str
    marked: bool


def clean_up(run_id: str, folders: Iterable[str] = ()) -> Cleanup:
    """End every process of the run and remove its folders: SIGTERM, 3 s of grace, SIGKILL. Takes 9 s at most
    after the first scan of all processes, which may itself take seconds on a loaded machine."""
    seen: dict[tuple[int, float], str] = {}
    sent: dict[tuple[int, float], int] = {}
    remaining = of_run(run_id)
    begin = time.monotonic()
    deadline = begin + GRACE_SECONDS + KILL_SECONDS
    polite = ((TERM_SECONDS, signal.SIGTERM), (GRACE_SECONDS, signal.SIGINT))
    while remaining and (now := time.monotonic()) < deadline:
        waited = now - begin
        stage = next((number for limit, number in polite if waited < limit), signal.SIGKILL)
        for process in remaining:
            key = (process.pid, process.started)
            # Even past the deadline, a process gets SIGTERM first.
            wanted = signal.SIGTERM if key not in sent and stage != signal.SIGKILL else stage
            seen[key] = f"{process.name} ({process.pid})"
            if wanted == signal.SIGKILL or sent.get(key) != wanted:
                sent[key] = wanted
                _send(process.pid, wanted)
                _send(process.pid, signal.SIGCONT)  # a stopped process reacts only to SIGKILL
        time.sleep(_POLL_SECONDS)
        remaining = of_run(run_id)
    return Cleanup(
        terminated=tuple(name for key, name in seen.items() if key not in {(p.pid, p.started) for p in remaining}),
        survivors=tuple(f"{process.name} ({process.pid})" for process in remaining),
        folders=tuple(_remove(folders)),
    )


def of_run(run_id: str) -> list[ProcessIdentity]:
    """Every living process of the run except this one: those that carry the mark, and their descendants."""
    everyone = list(
        _processes_of_proc(run_id) if os.path.exists("/proc/self/environ") else _processes_of_psutil(run_id)
    )
    children: dict[int, list[ProcessIdentity]] = {}
    for process in everyone:
        children.setdefault(process.parent, []).append(process)
    todo = [process for process in everyone if process.marked]
    found: dict[int, ProcessIdentity] = {}
    while todo:
        process = todo.pop()
        if process.pid not in found:
            found[process.pid] = process
            todo += children.get(process.pid, [])
    found.pop(os.getpid(), None)
    return list(found.values())


def _processes_of_proc(run_id: str) -> Iterable[ProcessIdentity]:
    mark = f"{RUN_VARIABLE}={run_id}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as handle:
                name, _, rest = handle.read().partition(b"(")[2].rpartition(b")")
            fields = rest.split()  # from field 3 (state) of proc(5) on
            if fields[0] in (b"Z", b"X"):
                continue
            marked = False
            try:
                with open(f"/proc/{entry}/environ", "rb") as handle:
                    marked = mark in handle.read().split(b"\0")
            except PermissionError:  # a process of another user is not part of the run
                pass
            yield ProcessIdentity(
                int(entry), float(fields[19]), int(fields[1]), name.decode("utf-8", "replace"), marked
            )
        except (OSError, IndexError, ValueError):  # it ended during the scan
            continue


def _processes_of_psutil(run_id: str) -> Iterable[ProcessIdentity]:
    import psutil

    for process in psutil.process_iter():
        try:
            with process.oneshot():
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                try:
                    marked = process.environ().get(RUN_VARIABLE) == run_id
                except psutil.AccessDenied:
                    marked = False
                yield ProcessIdentity(process.pid, process.create_time(), process.ppid(), process.name(), marked)
        except (psutil.Error, OSError):
            continue


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _remove(folders: Iterable[str]) -> list[str]:
    """Remove folders with everything in them (a symbolic link is left alone), and return those that remain."""
    remaining = [folder for folder in folders if os.path.isdir(folder) and not os.path.islink(folder)]
    deadline = time.monotonic() + FOLDER_SECONDS
    while remaining:
        for folder in remaining:
            shutil.rmtree(folder, ignore_errors=True)
        remaining = [folder for folder in remaining if os.path.exists(folder)]
        if time.monotonic() > deadline:
            break
        if remaining:
            time.sleep(_POLL_SECONDS)
    return remaining


def _wait_for_end_of(read_end: int, parent: int, getppid: Callable[[], int] = os.getppid) -> None:
    while getppid() == parent:
        if _closed(read_end, _PARENT_POLL_SECONDS):
            return


def _closed(read_end: int, seconds: float) -> bool:
    """Whether everybody closes the pipe within these seconds: nobody writes to it."""
    ready = select.poll()  # takes any file descriptor; select() refuses those from 1024 on
    ready.register(read_end, select.POLLIN)
    return bool(ready.poll(1000 * seconds)) and not os.read(read_end, 1)


def main(arguments: Sequence[str]) -> int:
    """Wait for the end of the parent, clean up, and print the Cleanup as one line of JSON."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    run_id, read_end, harness, *folders = arguments
    parent = int(harness)
    _wait_for_end_of(int(read_end), parent)
    done = clean_up(run_id, folders)
    if os.getppid() != parent:  # it was killed, perhaps while it started a process
        _closed(int(read_end), FORK_SECONDS)
        deadline = time.monotonic() + _EXEC_SECONDS
        while time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            done = clean_up(run_id, folders)
    try:
        print(json.dumps(asdict(done)), flush=True)
    except OSError:  # the reader is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 1 if done.survivors or done.folders else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
