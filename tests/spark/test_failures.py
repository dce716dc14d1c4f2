"""What goes wrong around a run is said in one line with a remedy, and leaves nothing running."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from checkers.judge.check import ALL, check
from checkers.judge.runfolder import load_evidence, load_promises
from compose.install.installation import Installation
from compose.processes.watchdog import RUN_VARIABLE
from harness.run.bench import Bench
from harness.run.errors import RunError
from tests.support.runs import ROOT, command, environment, execute, icequake
from workloads.file import workload, workload_text

pytestmark = pytest.mark.spark

ENOUGH = 300.0
"""Seconds after which a test gives up on what never comes."""
DRIVERS_ALONE = ("--session", "fast", "--cluster", "local")
"""For runs that are about their end, and not about Spark's cluster: it has three more processes, which start before the writers."""


def ours(mark: str) -> list[str]:
    """Command lines of the living processes that carry the mark of a run, or have it as an argument (the watchdog)."""
    found = []
    for p in psutil.process_iter():
        try:
            if p.status() != psutil.STATUS_ZOMBIE and (p.environ().get(RUN_VARIABLE) == mark or mark in p.cmdline()):
                found.append(" ".join(p.cmdline())[:120])
        except psutil.Error:
            continue
    return found


def run_id(folder: Path) -> str:
    """The id of a run, from the namespace in its plan."""
    line = next(x for x in (folder / "plan.yaml").read_text().splitlines() if x.startswith("namespace: "))
    return line.removeprefix("namespace: iq_").strip()


def left_at_last(mark: str) -> list[str]:
    """Those that still live when a watchdog had the time to end them, itself included."""
    deadline = time.monotonic() + ENOUGH
    while (left := ours(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The error a command ended with: one line, no stack trace."""
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("icequake: "), done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    return last


def wait_for(path: Path, text: str, goes_on: Callable[[], object]) -> None:
    """Wait until a file says something; whoever writes it must go on meanwhile."""
    deadline = time.monotonic() + ENOUGH
    while time.monotonic() < deadline:
        assert goes_on(), f"ended before {path} said {text!r}"
        if path.exists() and text in path.read_text(errors="replace"):
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} never said {text!r}")


def lives(process: subprocess.Popen[str]) -> Callable[[], bool]:
    """Whether it does; if it does not, what it said is the error."""

    def look() -> bool:
        assert process.poll() is None, process.communicate()
        return True

    return look


def start(store: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("run", "quick", "--seed", "3", "--fresh", "--store", store, *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(ICEQUAKE_COMMAND="icequake"),
        cwd=ROOT,
        start_new_session=True,
    )


def mistyped(seed_rows: int) -> workload.Workload:
    """A workload on a table with a mistyped property, which Spark notices when it writes a file, and on a healthy one."""
    codec = {"write.parquet.compression-codec": "zstdd"}
    tables = [{"name": "typo", "seed_rows": seed_rows, "properties": codec}, {"name": "healthy", "seed_rows": 1}]
    mix = {"insert": 1, "update-register": 1}
    told = {"workload": "typo", "description": "x", "writers": 2, "length": {"ops": 12}, "operations": mix}
    return workload.Workload.model_validate({**told, "tables": tables})


def test_a_set_up_write_that_fails_ends_the_run_with_the_exception(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    why = "table typo could not be filled .*: IllegalArgumentException: .*zstdd"
    with pytest.raises(RunError, match=why):
        execute(mistyped(3), tmp_path, installation, bench.endpoints, warm=bench.sockets())
    history = (tmp_path / "latest" / "history.jsonl").read_text()
    assert '"phase":"main"' not in history, "no writer has begun"
    state = json.loads((tmp_path / "latest" / "run.json").read_text())
    assert state["state"] == "failed" and "zstdd" in state["error"]


def test_a_table_that_nobody_could_write_is_unknown_though_the_one_beside_it_is_healthy(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    folder = execute(mistyped(0), tmp_path, installation, bench.endpoints, warm=bench.sockets())
    checked = icequake("check", folder.path)
    assert checked.returncode == 2, checked.stdout + checked.stderr
    text = " ".join(checked.stdout.split())
    assert re.search(r"the checker load could not decide: typo: none of .*IllegalArgumentException: .*zstdd", text), (
        text
    )
    verdicts = json.loads(folder.results.read_text())["checkers"]
    assert [c["checker"] for c in verdicts if c["valid"] is not True] == ["load"]
    counted = next(c["stats"]["tables"] for c in verdicts if c["checker"] == "load")
    assert counted["typo"]["committed"] == 0 < counted["healthy"]["committed"]


def test_a_killed_run_leaves_no_process_and_what_it_recorded_is_judged_as_incomplete(tmp_path: Path) -> None:
    process = start(tmp_path, "--writers", "1")
    try:
        wait_for(tmp_path / "latest" / "history.jsonl", '"op":"w0-9"', lives(process))
        folder = (tmp_path / "latest").resolve()
        mark = run_id(folder)
        assert len(ours(mark)) >= 8  # services, drivers, executors
        process.kill()
        process.wait(ENOUGH)
        assert left_at_last(mark) == []
    finally:
        process.kill()
        process.communicate(timeout=ENOUGH)
    assert json.loads((folder / "run.json").read_text())["state"] == "running"  # nobody was left to change it

    checked = icequake("check", folder)
    assert checked.returncode == 2, checked.stdout + checked.stderr
    assert "incomplete" in checked.stdout.lower()
    results = json.loads((folder / "results.json").read_text())
    assert results["valid"] == "unknown" and results["complete"] is False
    assert {c["checker"] for c in results["checkers"]} >= {"commits", "replay", "reads"}
    listed = icequake("list", "runs", "--store", tmp_path)
    assert "incomplete" in listed.stdout


KILLED = """
import sys
from pathlib import Path
from checkers.evidence import runfolder
from compose.endpoints import Endpoints
from compose.install.ensure import ensure
from harness.run.run import Run
from harness.run.settings import Settings, StandingStack
from tests.support.runs import Silent
from workloads.file import workload, workload_text

quick = workload_text.load(workload.find("quick")).model_copy(update={"engines": ("spark",)})
folder = runfolder.create(Path(sys.argv[1]), "quick")
settings = Settings(seed=3, command="icequake run", capture_interval=3600.0)
stack = StandingStack(Endpoints.from_json(sys.argv[2]))
Run(quick, folder, ensure(), settings, standing=stack, watcher=Silent()).execute()
"""
"""A run that captures its tables an hour after its start for the second time."""


def test_a_killed_run_has_the_log_of_a_table_from_its_first_acknowledged_commit_on(
    tmp_path: Path, bench: Bench
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), bench.endpoints.to_json()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        wait_for(tmp_path / "latest" / "history.jsonl", '"type":"ok"', lives(process))
        folder = (tmp_path / "latest").resolve()
        events = [json.loads(x) for x in (folder / "history.jsonl").read_text().splitlines()[1:]]
        first = next(e for e in events if e["type"] == "ok")
        wait_for(folder / "tablelog" / f"{first['table']}.jsonl", first["op"], lives(process))
        mark = run_id(folder)
        process.kill()
        process.wait(ENOUGH)
        assert left_at_last(mark) == []
    finally:
        process.kill()
        process.communicate(timeout=ENOUGH)

    checked = icequake("check", folder)
    assert checked.returncode == 2, checked.stdout + checked.stderr
    evidence = load_evidence(folder)
    assert not evidence.complete and first["op"] in evidence.logs[first["table"]].by_op()
    results = json.loads((folder / "results.json").read_text())
    assert results["valid"] == "unknown" and not [a for c in results["checkers"] for a in c["anomalies"]]
    notes = [n for c in results["checkers"] for n in c["notes"]]
    assert not [n for n in notes if f"{first['table']}: there is no table log" in n], notes


def test_ctrl_c_ends_a_run_in_order_with_its_verdict_so_far(tmp_path: Path) -> None:
    process = start(tmp_path, "--writers", "2", *DRIVERS_ALONE)
    wait_for(tmp_path / "latest" / "history.jsonl", '"op":"w0-3"', lives(process))
    folder = next(p for p in (tmp_path / "quick").iterdir() if not p.is_symlink())
    mark = run_id(folder)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=ENOUGH)
    assert process.returncode == 130
    assert "Traceback" not in out + err and "quick: Incomplete" in out
    assert "quick, seed 3: " in err.splitlines()[0] and str(folder) in err.splitlines()[0]
    assert err.splitlines()[-1] == (
        f"icequake: stopped by Ctrl-C; what it recorded is judged above; to see that again: icequake check {folder}"
    )
    assert ours(mark) == []
    assert json.loads((folder / "run.json").read_text())["state"] == "interrupted"
    results = json.loads((folder / "results.json").read_text())
    assert results["valid"] == "unknown" and results["complete"] is False
    acknowledged = {o.table for o in load_evidence(folder).history.operations() if o.type == "ok" and o.f == "insert"}
    assert acknowledged <= {p.stem for p in (folder / "tablelog").iterdir()}


def test_sigterm_while_the_services_start_ends_all_that_was_started(tmp_path: Path) -> None:
    process = start(tmp_path, "--writers", "2")
    wait_for(tmp_path / "latest" / "plan.yaml", "namespace: ", lives(process))
    mark = run_id(tmp_path / "latest")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=ENOUGH)
    assert process.returncode == 143
    assert "stopped by SIGTERM; before the first operation, so there is nothing to judge in " in err.splitlines()[-1]
    assert left_at_last(mark) == []  # it may have come before the watchdog was known
    assert json.loads((tmp_path / "latest" / "run.json").read_text())["state"] == "interrupted"


def test_a_chosen_port_that_is_in_use_names_service_port_and_holder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = icequake("run", "quick", "--port", f"rest={port}", "--store", tmp_path)
    assert done.returncode == 254
    message = one_line(done)
    assert "rest" in message and str(port) in message and str(os.getpid()) in message
    assert ours(run_id(tmp_path / "latest")) == []


def test_a_full_disk_for_the_store_is_said_and_nothing_is_left_running(tmp_path: Path) -> None:
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root on Linux: the full disk is a small tmpfs in a mount namespace of the test's own")
    store = tmp_path / "full"
    store.mkdir()
    script = f'mount -t tmpfs -o size=96k icequake "{store}" && exec "$@"'
    run = command("run", "quick", "--seed", "3", "--fresh", "--writers", "1", *DRIVERS_ALONE, "--store", store)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *run],
        capture_output=True,
        text=True,
        timeout=400,
        env=environment(),
        cwd=ROOT,
    )
    assert done.returncode == 255, done.stdout + done.stderr
    message = one_line(done)
    assert "full" in message and "--store" in message
    assert not [p for p in psutil.process_iter() if str(store) in " ".join(_arguments(p))]


def _arguments(p: psutil.Process) -> list[str]:
    try:
        return p.cmdline()
    except psutil.Error:
        return []


def test_a_writer_that_dies_is_noticed_recorded_as_unknown_and_replaced(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    quick = workload_text.load(workload.find("quick"))
    small = quick.model_copy(update={"length": workload.Length(ops=24), "engines": ("spark",) * 2})
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(execute, small, tmp_path, installation, bench.endpoints, seed=3)
        wait_for(tmp_path / "latest" / "history.jsonl", '"op":"w1-3"', lambda: not run.done() or run.result())
        mark = run_id(tmp_path / "latest")
        (driver,) = [
            p
            for p in psutil.process_iter()
            if "harness.writers.session" in _arguments(p)
            and "/w1/" in " ".join(_arguments(p))
            and mark in (p.environ().get(RUN_VARIABLE) or "")
        ]
        for p in [driver, *driver.children(recursive=True)]:
            p.kill()
        folder = run.result()
    assert check(load_evidence(folder.path), ALL, load_promises(folder.path)).valid is True
    events = [json.loads(x) for x in folder.history.read_text().splitlines()[1:]]
    (died,) = [e for e in events if e["type"] == "info"]
    assert died["error"][0][0] == "icequake.WriterDied" and died["process"] == 1
    after = [e for e in events if e["type"] == "invoke" and e["op"].startswith("w1-") and e["index"] > died["index"]]
    assert after and {e["process"] for e in after} == {3}
    assert json.loads(folder.run.read_text())["writer_replacements"] == 1
