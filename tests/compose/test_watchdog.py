"""Nothing of a run outlives its harness: the watchdog's promise, without any server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from compose.processes import watchdog as watchdog_module
from compose.processes.watchdog import Watchdog, marked_environment, of_run

ROOT = Path(__file__).parents[2]
SLEEP = "import time; time.sleep(120)"

# A harness with one process of every kind that is hard to end. It prints their pids, and waits to be told how to end.
HARNESS = r"""
import json, os, pathlib, signal, subprocess, sys, time
from compose.processes import watchdog as watchdog_module
from compose.processes.watchdog import Watchdog, marked_environment

run_id, folder, fork, stopped = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4] == "True"
dog = Watchdog(run_id, remove=[folder])
dog.start()
if stopped:
    os.kill(dog.pid, signal.SIGSTOP)  # its program has not begun
environment = marked_environment(os.environ, run_id)
pids = {"watchdog": dog.pid}


def child(name, code, **options):
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, **options)
    pids[name] = process.pid
    return process.stdout.readline()


READY = "import os, signal, subprocess, sys, time; "
SLEEP = "print('up', flush=True); time.sleep(120)"
GRANDCHILD = "; print(p.pid, flush=True); "
PARENT_OF = READY + "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)'], %s)" + GRANDCHILD
child("plain", READY + SLEEP)
child("stubborn", READY + "[signal.signal(n, signal.SIG_IGN) for n in (15, 2, 1)]; " + SLEEP)
child("stopped", READY + SLEEP)
os.kill(pids["stopped"], signal.SIGSTOP)
child("own session", READY + SLEEP, start_new_session=True)
# Its parent is gone: only the mark shows whose it is.
pids["orphan in its own session"] = int(child("short-lived", PARENT_OF % "start_new_session=True"))
del pids["short-lived"]
# It carries no mark: only its parent shows whose it is.
pids["without the mark"] = int(child("parent of the one without the mark", PARENT_OF % "env={}" + "time.sleep(120)"))
if fork:
    pids["fork"] = os.fork()
    if not pids["fork"] and fork == "calls exec late":
        while any(os.path.exists(f"/proc/{pid}") for name, pid in pids.items() if name not in ("fork", "watchdog")):
            time.sleep(0.05)  # it is still a copy of the harness when the watchdog looks for marked processes
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(120)"], environment)
    if not pids["fork"]:
        signal.pause()
print(json.dumps(pids), flush=True)
how = sys.stdin.readline().strip()
if how == "raise":
    raise SystemExit("a bug")
if how == "wait":
    while True:  # a signal just before signal.pause() would not end it
        time.sleep(0.1)
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Start HARNESS: its Popen object, and the pids of what it started by name."""
    started: list[tuple[subprocess.Popen[str], dict[str, int]]] = []

    def start(
        run_id: str, folder: Path, *, fork: str = "", stopped: bool = False
    ) -> tuple[subprocess.Popen[str], dict[str, int]]:
        process = subprocess.Popen(
            [sys.executable, "-c", HARNESS, run_id, str(folder), fork, str(stopped)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        pids = json.loads(process.stdout.readline())
        started.append((process, pids))
        return process, pids

    yield start
    for process, pids in started:
        for pid in (process.pid, *pids.values()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.communicate()


@pytest.fixture
def sleeper() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Start a process with the mark of a run."""
    started: list[subprocess.Popen[bytes]] = []

    def start(run_id: str) -> subprocess.Popen[bytes]:
        environment = marked_environment(os.environ, run_id)
        started.append(subprocess.Popen([sys.executable, "-c", SLEEP], env=environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "minio" / "drive").mkdir(parents=True)
    (folder / "minio" / "drive" / "part").write_text("data")
    return folder


def living(pids: dict[str, int]) -> list[str]:
    def lives(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return [name for name, pid in pids.items() if lives(pid)]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


@pytest.mark.parametrize("end", ["kill -9", "Ctrl-C", "exception", "return"])
def test_everything_is_gone_however_the_harness_ends(end: str, tmp_path: Path, harness: Callable[..., Any]) -> None:
    folder = run_folder(tmp_path)
    process, pids = harness(f"end {end}", folder)
    assert len(living(pids)) == len(pids), "all of them live before the end"

    process.stdin.write({"exception": "raise\n", "return": "return\n"}.get(end, "wait\n"))
    process.stdin.flush()
    if end in ("kill -9", "Ctrl-C"):
        process.send_signal(signal.SIGKILL if end == "kill -9" else signal.SIGINT)
    process.wait(300)

    wait_until(lambda: not living(pids) and not folder.exists())


def test_a_forked_copy_of_the_harness_that_holds_the_pipe_open_does_not_delay_it(
    tmp_path: Path, harness: Callable[..., Any]
) -> None:
    process, pids = harness("fork", run_folder(tmp_path), fork="never calls exec")
    fork = pids.pop("fork")
    process.kill()
    process.wait(300)
    wait_until(lambda: not living(pids))
    os.kill(fork, signal.SIGKILL)


@pytest.mark.parametrize("stopped", [False, True], ids=["the watchdog waits", "the watchdog has not begun"])
def test_a_process_that_was_between_fork_and_exec_when_the_harness_was_killed_is_ended(
    stopped: bool, tmp_path: Path, harness: Callable[..., Any]
) -> None:
    process, pids = harness("late", run_folder(tmp_path), fork="calls exec late", stopped=stopped)
    process.kill()
    process.wait(300)
    os.kill(pids["watchdog"], signal.SIGCONT)
    wait_until(lambda: not living({"watchdog": pids["watchdog"]}))
    assert living(pids) == []


def test_other_runs_are_left_alone(sleeper: Callable[[str], subprocess.Popen[bytes]]) -> None:
    other, similar = sleeper("run-2"), sleeper("run-1 ")
    with Watchdog("run-1"):
        pass
    assert other.poll() is None
    assert similar.poll() is None


def test_close_says_what_the_run_forgot_to_stop(sleeper: Callable[[str], subprocess.Popen[bytes]]) -> None:
    watchdog = Watchdog("forgetful")
    watchdog.start()
    forgotten = sleeper("forgetful")
    found = watchdog.close()
    assert [name.split()[-1] for name in found.terminated] == [f"({forgotten.pid})"]
    assert forgotten.wait(300) == -signal.SIGTERM
    assert not found.survivors


def test_close_is_silent_when_nothing_is_left(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    watchdog = Watchdog("tidy", remove=[folder])
    watchdog.start()
    found = watchdog.close()
    assert (found.terminated, found.survivors, found.folders) == ((), (), ())
    assert not folder.exists()


def test_it_does_not_follow_a_link_out_of_the_run(tmp_path: Path) -> None:
    folder, precious = run_folder(tmp_path), tmp_path / "precious"
    precious.mkdir()
    (precious / "work").write_text("of a year")
    (folder / "link").symlink_to(precious)
    with Watchdog("links", remove=[folder]):
        pass
    assert not folder.exists()
    assert (precious / "work").read_text() == "of a year"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_signals_meant_for_the_harness_do_not_end_it(number: signal.Signals) -> None:
    with Watchdog(f"signal {number}") as watchdog:
        assert watchdog.pid is not None
        # It listens to nothing else, so it must have set its signal handlers: wait for that.
        wait_until(lambda: _ignores(watchdog.pid, number))
        os.kill(watchdog.pid, number)
        time.sleep(0.2)
        assert watchdog.alive()


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "not noticed"])
def test_a_watchdog_that_was_killed_is_noticed_and_its_work_is_done_all_the_same(
    replaced: bool, tmp_path: Path, sleeper: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    folder = run_folder(tmp_path)
    watchdog = Watchdog("unlucky", remove=[folder])
    watchdog.start()
    first = watchdog.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not watchdog.alive())
    if replaced:
        watchdog.start()
        assert watchdog.alive()
        assert watchdog.pid != first
    forgotten = sleeper("unlucky")
    watchdog.close()
    assert forgotten.wait(300) == -signal.SIGTERM
    assert not folder.exists()


def test_a_slow_look_over_all_processes_does_not_skip_sigterm(
    monkeypatch: pytest.MonkeyPatch, sleeper: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    def slow(run_id: str) -> list[watchdog_module.ProcessIdentity]:
        time.sleep(watchdog_module.TERM_SECONDS + 0.1)
        return of_run(run_id)

    monkeypatch.setattr(watchdog_module, "of_run", slow)
    forgotten = sleeper("slow look")
    watchdog_module.clean_up("slow look")
    assert forgotten.wait(300) == -signal.SIGTERM


def test_the_watchdog_is_no_process_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in marked_environment({}, "nested").items():
        monkeypatch.setenv(name, value)
    with Watchdog("nested") as watchdog:
        assert watchdog.pid not in [process.pid for process in of_run("nested")]


def test_a_run_needs_an_id() -> None:
    with pytest.raises(ValueError, match="needs an id"):
        Watchdog("")


def _ignores(pid: int | None, number: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():  # not Linux
        time.sleep(1)
        return True
    mask = next(line for line in status.read_text().splitlines() if line.startswith("SigIgn:"))
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)
