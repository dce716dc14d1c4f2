"""A store of many runs as columns, judged by ``icequake check`` in process and on Spark: times, memory, answers.

``python -m bench.bigstore [OPERATIONS [FOLDER [ENGINE …]]]``: the operations are in runs of :data:`EACH`, each of one table. Engines are
``process`` and ``spark`` (on :data:`MASTER`). Every measurement is a command of its own. Its memory is the most that each of its
processes had resident, sampled :data:`SAMPLES` times a second: the driver (the command itself), the JVM, and the largest of the Python
workers.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench import columns
from checkers.columns import dataset
from compose.install import jdk

OPERATIONS = 10_000_000
EACH = 25_000
MASTER = "local[2]"
SAMPLES = 5
HOURS = 2.0
"""The longest that a command may take."""


@dataclass
class Measured:
    """A command.

    Attributes:
        seconds: until it ended.
        cpu: seconds of all of its processes.
        mb: kind of process → the most memory that one of the kind had resident.
        code: exit code.
    """

    seconds: float = 0.0
    cpu: float = 0.0
    mb: dict[str, float] = field(default_factory=dict)
    code: int = 0


def make(folder: Path, operations: int) -> None:
    """Write the store."""
    writer = dataset.DatasetWriter(folder)
    for n in range(operations // EACH):
        writer.add(f"run-{n:05}", columns.frame(EACH, f"t{n}", seed=n))
    writer.close()


def measured(command: list[str], log: Path) -> Measured:
    """Run a command to its end."""
    out = Measured()
    began = time.monotonic()
    cpu: dict[int, float] = {}
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            top = psutil.Process(process.pid)
            while process.poll() is None and time.monotonic() - began < HOURS * 3600:
                _sample(top, out, cpu)
                time.sleep(1 / SAMPLES)
        finally:
            if process.poll() is None:
                process.terminate()
        out.code = process.wait()
    out.seconds = time.monotonic() - began
    out.cpu = sum(cpu.values())
    return out


def _sample(top: psutil.Process, out: Measured, cpu: dict[int, float]) -> None:
    try:
        family = [top, *top.children(recursive=True)]
    except psutil.Error:
        return
    for p in family:
        try:
            with p.oneshot():
                words = " ".join(p.cmdline())
                kind = "driver" if p.pid == top.pid else "JVM" if p.name() == "java" else "worker"
                if "watchdog" in words:
                    continue
                out.mb[kind] = max(out.mb.get(kind, 0.0), p.memory_info().rss / 1e6)
                times = p.cpu_times()
                cpu[p.pid] = times.user + times.system
        except psutil.Error:  # it ended meanwhile
            continue


def verdicts(folder: Path) -> dict[str, object]:
    """Run → its results."""
    return {p.name: json.loads(p.read_text()) for p in sorted((folder / dataset.RESULTS).glob("*.json"))}


def check(folder: Path, engine: str, log: Path) -> Measured:
    """``icequake check --engine`` over the store."""
    command = [sys.executable, "-m", "harness.cli.app", "check", "--engine", engine, str(folder)]
    return measured(command + ["--spark", MASTER] * (engine == "spark"), log)


def compare(operations: int, folder: Path, engines: list[str]) -> None:
    """Make the store if it is not there, have each engine judge it, and print what that took."""
    data = folder / f"store-{operations}"
    if not dataset.is_dataset(data):
        began = time.monotonic()
        make(data, operations)
        size = sum(p.stat().st_size for p in data.rglob("*.parquet"))
        print(
            f"{operations:,} operations written in {time.monotonic() - began:.0f} s, {size / 1e6:,.0f} MB", flush=True
        )
    found = {}
    for engine in engines:
        shutil.rmtree(data / dataset.RESULTS, ignore_errors=True)
        log = folder / f"{engine}-{operations}.log"
        m = check(data, engine, log)
        found[engine] = verdicts(data)
        mb = ", ".join(f"{kind} {most:,.0f} MB" for kind, most in sorted(m.mb.items()))
        said = log.read_text().strip().splitlines()
        line = next((x for x in reversed(said) if x), "")
        print(f"{engine}: {m.seconds:.0f} s, {m.cpu:.0f} s of CPU, {mb}; exit code {m.code}; {line}", flush=True)
    if len(found) > 1:
        first, *others = found.values()
        print(f"the same results of {len(first)} runs: {all(first == other for other in others)}", flush=True)


def main(*told: str) -> None:
    """Measure, and print."""
    operations = int(told[0]) if told else OPERATIONS
    jdk.pick()
    with tempfile.TemporaryDirectory(prefix="icequake-bench-") as name:
        folder = Path(told[1]) if len(told) > 1 else Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        compare(operations, folder, list(told[2:]) or ["process", "spark"])


if __name__ == "__main__":
    main(*sys.argv[1:])
