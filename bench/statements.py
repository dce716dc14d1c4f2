"""What a small statement costs, by session and cluster: statements/s and seconds of processor time a statement, warm.

The reference is Spark as users run it, which is also how icequake ran before it knew sessions. Each other mode runs the same operations
beside it, in turn: first the mix of ``quick`` by one, two and four writers, then each kind by one writer. Each writer has its own table.
Processor time is that of all processes that the benchmark started, services included; the drivers of the other side idle meanwhile. A ratio
is the geometric mean over the pairs, with its 95 % interval.

``python -m bench statements`` takes about half an hour. ``STATEMENTS_MODE=fast,local`` measures one mode only.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from bench.overhead import CALL_S, fill, requests, workload
from compose.endpoints import Endpoints
from compose.install.ensure import ensure
from compose.install.installation import Installation
from compose.processes.watchdog import Watchdog
from compose.stack.stack import IN_DRIVER, Stack
from harness.writers.driver import launcher
from harness.writers.slot import Writer
from workloads.engines.engines import SPARK
from workloads.file.mode import AS_USERS, QUICK, Mode
from workloads.file.workload import Length, Workload

OTHERS = (Mode("fast"), Mode("spark", "local"), QUICK)
WRITERS = (1, 2, 4)
PAIRS, MIX, OF_A_KIND = 8, 12, 3
"""Pairs of each measurement; operations of a writer, of the mix and of one kind, in each."""
T_95 = 2.365
"""Student's t for the 95 % interval, of so many pairs."""


@dataclass(frozen=True)
class Side:
    """The warm writers of one mode, and a namespace with a table for each.

    Attributes:
        spec: the mix, with a table for each writer.
    """

    mode: Mode
    writers: Sequence[Writer]
    spec: Workload
    namespace: str

    def measure(self, spec: Workload, writers: int, seed: int) -> tuple[float, float]:
        """Statements/s, and seconds of processor time a statement."""
        loops = [requests(spec, n, seed, self.namespace) for n in range(writers)]
        cpu, began = processor(), time.monotonic()
        with ThreadPoolExecutor(writers) as pool:
            answers = [*pool.map(_run, self.writers[:writers], loops)]
        took, used = time.monotonic() - began, processor() - cpu
        assert not any(a["failed"] for a in answers), "these operations do not conflict"
        count = sum(map(len, loops))
        return count / took, used / count


def _run(writer: Writer, loop: list[dict[str, Any]]) -> dict[str, Any]:
    return writer.call({"loop": loop}, CALL_S)


def processor() -> float:
    """Seconds of processor time of all processes below this one."""
    total = 0.0
    for p in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            used = p.cpu_times()
            total += used.user + used.system
    return total


def memory() -> float:
    """MB of all processes below this one; a page that several have mapped counts once."""
    total = 0
    for p in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += p.memory_full_info().pss
    return total / 1e6


def mix(writers: int) -> Workload:
    """``quick`` without expiry, with a table for each writer."""
    spec = workload()
    tables = tuple(spec.tables[n % len(spec.tables)].model_copy(update={"name": f"t{n}"}) for n in range(writers))
    length = Length(ops=MIX * writers)
    return spec.model_copy(update={"tables": tables, "engines": (SPARK,) * writers, "length": length})


def of_kind(spec: Workload, kind: str) -> Workload:
    """The mix with one kind only."""
    length = Length(ops=OF_A_KIND * spec.writers)
    return spec.model_copy(update={"operations": {kind: spec.operations[kind]}, "length": length})


@contextlib.contextmanager
def side(mode: Mode, installation: Installation, endpoints: Endpoints, run_id: str, place: Path) -> Iterator[Side]:
    """Warm writers in a mode, on a running stack."""
    seen = replace(endpoints, session=mode.session)
    if mode.cluster == "local":
        seen = replace(seen, spark_master=IN_DRIVER)
    place.mkdir()
    launch = launcher(installation, seen, run_id=run_id, data=place, logs=place)
    with contextlib.ExitStack() as up:
        before = memory()
        writers = [launch(f"w{n}", 0) for n in range(max(WRITERS))]
        for w in writers:
            up.callback(w.kill)
        for w in writers:
            w.connect(240)
        found = Side(mode, writers, mix(len(writers)), f"n{secrets.token_hex(4)}")
        fill(writers[0], found.spec, found.namespace)
        found.measure(found.spec, len(writers), 0)  # warms up
        print(f"{mode}: four writers have {memory() - before:.0f} MB, warm", flush=True)
        yield found


def ratio(pairs: Sequence[tuple[float, float]]) -> str:
    """The geometric mean of the second values by the first ones, with its 95 % interval."""
    logs = [math.log(b / a) for a, b in pairs]
    mean, wide = statistics.mean(logs), T_95 * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.2f} ({math.exp(mean - wide):.2f} to {math.exp(mean + wide):.2f})"


def compare(reference: Side, other: Side, spec: Workload, writers: int, what: str) -> None:
    """Run both in turn, and print what each reached."""
    found: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for n in range(PAIRS):
        first = reference.measure(spec, writers, n + 1) if n % 2 else None
        second = other.measure(spec, writers, n + 1)
        found.append((first or reference.measure(spec, writers, n + 1), second))
    rate, cost = (ratio([(a[i], b[i]) for a, b in found]) for i in (0, 1))
    a, b = ([statistics.median(x[side][i] for x in found) for i in (0, 1)] for side in (0, 1))
    print(
        f"  {what:<32} {a[0]:6.2f} → {b[0]:6.2f} statements/s, × {rate};  {a[1]:.3f} → {b[1]:.3f} s of processor time, × {cost}",
        flush=True,
    )


def main() -> None:
    """Measure, and print a line for each comparison."""
    chosen = os.environ.get("STATEMENTS_MODE")
    others = OTHERS if chosen is None else (Mode.of(chosen.split(",")),)
    installation, into = ensure(), Path(tempfile.mkdtemp(prefix="icequake-bench-"))
    into.chmod(0o755)
    try:
        with contextlib.ExitStack() as up:
            up.enter_context(Watchdog(into.name, remove=[into]))
            stack = Stack(
                installation, run_id=into.name, data=into / "s", logs=into / "logs", workers=1, worker_cores=16
            )
            up.enter_context(stack)
            sides = (
                side(m, installation, stack.endpoints, into.name, into / "-".join(m.given.values() or "r"))
                for m in (AS_USERS, *others)
            )
            reference = up.enter_context(next(sides))
            for one in sides:
                with one as other:
                    print(f"{AS_USERS} → {other.mode}, {PAIRS} pairs each")
                    for n in WRITERS:
                        compare(
                            reference,
                            other,
                            reference.spec,
                            n,
                            f"the mix, {n} writers" if n > 1 else "the mix, 1 writer",
                        )
                    for kind in reference.spec.operations:
                        compare(reference, other, of_kind(reference.spec, kind), 1, kind)
    finally:
        shutil.rmtree(into, ignore_errors=True)
