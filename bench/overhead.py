"""The cost of the harness: operations/s of a run, against a bare loop of the same statements in the same writers.

Both sides use the same warm drivers on one stack, the same seed, fresh tables with the same rows. The run records its history
(fsynced), follows the table logs and talks to each driver operation by operation; the bare side hands each driver its whole
list of statements at once and waits. Rounds alternate which side comes first. Only the main phase counts on both sides, from
the first operation's start to the last one's end. Each writer has its own table: with conflicts the two sides would do different
work (chance decides who aborts whom). ``expire-snapshots`` is left out: its statement depends on the run.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.silent import Silent
from checkers.evidence import history, runfolder
from checkers.evidence.replace import replace
from compose.endpoints import Endpoints
from compose.install.ensure import ensure
from compose.install.installation import Installation
from compose.processes.watchdog import Watchdog
from compose.stack.stack import Stack
from harness.run.resolve import read_workload
from harness.run.run import Run
from harness.run.settings import Settings, StandingStack
from harness.run.tables import CREATE_NAMESPACE, create_table
from harness.writers.driver import CATALOG, launcher
from harness.writers.slot import Writer, request
from workloads import generator
from workloads.engines.engines import SPARK
from workloads.file import workload as schema
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation
from workloads.operations.kinds import KINDS

WRITERS, OPERATIONS, ROUNDS = 2, 120, 8
CALL_S = 600.0


def workload() -> Workload:
    """``quick`` without expiry, and with one table a writer."""
    quick = read_workload(schema.find("quick")).workload
    return quick.model_copy(
        update={
            "tables": quick.tables[:WRITERS],
            "operations": {
                k: v.model_copy(update={"tables": None}) for k, v in quick.operations.items() if k != "expire-snapshots"
            },
            "engines": (SPARK,) * WRITERS,
            "length": schema.Length(ops=OPERATIONS),
        }
    )


def operations(spec: Workload, phase: Phase, writer: int, seed: int) -> Iterator[PlannedOperation]:
    """What the generator draws, on the writer's own table."""
    for p in generator.operations(spec, phase, writer, seed):
        yield replace(p, table=spec.tables[writer])


@contextlib.contextmanager
def warm(installation: Installation) -> Iterator[tuple[Endpoints, tuple[Path, ...]]]:
    """A stack with warm drivers: its endpoints, and the drivers' sockets."""
    data = Path(tempfile.mkdtemp(prefix="icequake-bench-"))
    data.chmod(0o755)
    run_id = data.name
    with contextlib.ExitStack() as up:
        up.callback(shutil.rmtree, data, ignore_errors=True)
        up.enter_context(Watchdog(run_id, remove=[data]))
        stack = up.enter_context(Stack(installation, run_id=run_id, data=data / "s", logs=data / "logs"))
        launch = launcher(installation, stack.endpoints, run_id=run_id, data=data, logs=data / "logs")
        writers = [launch(f"w{n}", 0) for n in range(WRITERS)]
        for w in writers:
            up.callback(w.kill)
            w.connect(240)
            w.close()
        yield stack.endpoints, tuple(data / f"w{n}.sock" for n in range(WRITERS))


def harness_rate(
    spec: Workload, seed: int, installation: Installation, endpoints: Endpoints, sockets: tuple[Path, ...], into: Path
) -> float:
    """Operations/s of the main phase of a run."""
    folder = runfolder.create(into, spec.workload)
    settings = Settings(seed=seed, command="bench", operations=operations)
    Run(spec, folder, installation, settings, standing=StandingStack(endpoints, sockets), watcher=Silent()).execute()
    main = [o for o in history.read(folder.history).operations() if o.invoked.extra.get("phase") == "main"]
    ends = [o.completed.time for o in main if o.completed is not None]
    return len(ends) / ((max(ends) - min(o.start for o in main)) / 1e9)


def requests(spec: Workload, writer: int, seed: int, namespace: str) -> list[dict[str, Any]]:
    """A writer's operations on its own table, as its driver gets them."""
    (phase,) = spec.resolved_phases()
    return [
        request(
            op := f"w{writer}-{seed}-{i}",
            KINDS[p.f].statements(p.value, op, p.table),
            catalog=CATALOG,
            namespace=namespace,
            table=p.table.name,
        )
        for i, p in enumerate(operations(spec, phase, writer, seed))
    ]


def fill(writer: Writer, spec: Workload, namespace: str) -> None:
    """Make the namespace, the tables and their first rows."""
    todo = [("", CREATE_NAMESPACE), *((t.name, create_table(t)) for t in spec.tables)]
    todo += [(p.table.name, KINDS[p.f].statements(p.value, "seed", p.table)) for p in generator.seed_rows(spec)]
    for table, statements in todo:
        made = request("setup", statements, catalog=CATALOG, namespace=namespace, table=table)
        assert writer.call(made, CALL_S)["ok"]


def bare_rate(spec: Workload, seed: int, sockets: tuple[Path, ...]) -> float:
    """Operations/s of the same statements in a bare loop in the same drivers."""
    namespace = f"bare_{secrets.token_hex(4)}"
    writers = [Writer(f"w{n}", None, path) for n, path in enumerate(sockets)]
    loops = []
    for n, w in enumerate(writers):
        w.connect(60)
        loops.append(requests(spec, n, seed, namespace))
    try:
        fill(writers[0], spec, namespace)
        began = time.monotonic()
        with ThreadPoolExecutor(len(writers)) as pool:
            answers = list(
                pool.map(lambda pair: pair[0].call({"loop": pair[1]}, CALL_S), zip(writers, loops, strict=True))
            )
        assert not any(a["failed"] for a in answers), "these operations do not conflict"
        return sum(map(len, loops)) / (time.monotonic() - began)
    finally:
        for w in writers:
            w.close()


def main() -> None:
    """Measure, and print each round and the ratio."""
    installation, spec = ensure(), workload()
    into = Path(tempfile.mkdtemp(prefix="icequake-bench-store-"))
    print(f"harness overhead: {WRITERS} writers, {OPERATIONS} operations a side, {ROUNDS} rounds, after one to warm up")
    pairs = []
    try:
        with warm(installation) as (endpoints, sockets):
            for n in range(-1, ROUNDS):
                seed = 100 + n
                if n % 2:
                    bare = bare_rate(spec, seed, sockets)
                    run = harness_rate(spec, seed, installation, endpoints, sockets, into)
                else:
                    run = harness_rate(spec, seed, installation, endpoints, sockets, into)
                    bare = bare_rate(spec, seed, sockets)
                if n >= 0:
                    pairs.append((run, bare))
                    print(
                        f"  round {n + 1}: run {run:.2f} ops/s, bare {bare:.2f} ops/s, ratio {run / bare:.3f}",
                        flush=True,
                    )
    finally:
        shutil.rmtree(into, ignore_errors=True)
    ratios = sorted(r / b for r, b in pairs)
    total = statistics.harmonic_mean([r for r, _ in pairs]) / statistics.harmonic_mean([b for _, b in pairs])
    print(
        f"run / bare: {total:.3f} over all rounds; per round median {statistics.median(ratios):.3f}, "
        f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
    )
