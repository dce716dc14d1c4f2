"""Who reads which table at the end of a run: every writer that can read what the table may hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkers.evidence import history
from checkers.evidence.recorder import Recorder
from checkers.evidence.runfolder import RunFolder
from compose.install.installation import Installation
from compose.processes.watchdog import Watchdog
from harness.run.context import RunContext, context_of
from harness.run.phases import PhaseProgress, Phases
from harness.run.settings import Settings
from harness.tablefiles.follower import Follower
from tests.harness.run.test_stop_when import Heard, slots
from workloads.engines.engines import ENGINES, SPARK
from workloads.file import workload_text
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation
from workloads.operations.kinds import KINDS
from workloads.tables import ICEBERG, TableSpec

TEXT = """\
workload: w
tables:
  - {{name: t, mode: merge-on-read}}
  - {{name: other, mode: merge-on-read}}
  - {{name: plain, mode: merge-on-read, partitioned: false}}
writers: {writers}
length: {{ops: 1}}
operations: {{insert: 1}}
"""
REFUSED = [["org.apache.iceberg.exceptions.ValidationException", "no"]]
UNKNOWN = [["org.apache.iceberg.exceptions.CommitStateUnknownException", "who knows"]]


def run_of(folder: Path, writers: str, f: str) -> RunContext:
    """A run in which the first writer invokes one operation on each table but ``other``."""

    def operations(w: Workload, phase: Phase, writer: int, seed: int) -> Iterator[PlannedOperation]:
        if writer == 0:
            yield from (PlannedOperation(f, t, {"ids": [1]}) for t in w.tables if t.name != "other")

    nowhere = folder / "nowhere"
    parts = Installation(nowhere, nowhere, {}, nowhere, nowhere, nowhere, nowhere, nowhere)
    settings = Settings(seed=1, command="w", operations=operations)
    return context_of(workload_text.parse(TEXT.format(writers=writers)), RunFolder(folder), parts, settings, Heard())


def readers(folder: Path, writers: str, f: str, error: list[list[str]] | None = None) -> dict[str, list[str]]:
    """The engines of the writers that read each table at the end; ``error``: how every operation ends."""
    run = run_of(folder, writers, f)
    watchdog = Watchdog(run.run_id, remove=[])
    good = 99 if error is None else 0
    with slots(folder, good, json.dumps(error), run.writers) as all_, Recorder(run.folder.history, {}) as told:
        follower = Follower({}, lambda table: None, told.now, None)
        phases = Phases(run, told, follower, all_, None, watchdog, PhaseProgress(Heard(), run.workload))
        try:
            for phase in run.workload.resolved_phases():
                phases.phase(phase)
            phases.final_reads()
        finally:
            watchdog.close()
    found: dict[str, list[str]] = {t.name: [] for t in run.workload.tables}
    for o in history.read(run.folder.history).operations():
        if o.invoked.extra.get("phase") == "final-reads":
            assert o.table is not None
            found[o.table].append(run.engines[int(o.op.partition("-")[0][1:])])
    return {table: sorted(engines) for table, engines in found.items()}


@pytest.mark.parametrize(
    ("writers", "f", "error", "of_t", "of_plain"),
    [
        ("[spark, pyiceberg]", "equality-delete", None, "spark", "spark"),
        ("[spark, pyiceberg]", "equality-upsert", None, "spark", "spark"),
        ("[spark, pyiceberg]", "equality-delete", UNKNOWN, "spark", "spark"),
        ("[spark, pyiceberg]", "equality-delete", REFUSED, "pyiceberg spark", "pyiceberg spark"),
        ("[flink, pyiceberg]", "upsert", None, "spark", "spark"),
        ("[spark, pyiceberg]", "delete", None, "pyiceberg spark", "pyiceberg spark"),
        ("[spark, duckdb]", "equality-delete", None, "spark", "duckdb spark"),
        ("[spark, committer]", "equality-delete", None, "committer spark", "committer spark"),
    ],
)
def test_a_table_with_equality_deletes_is_read_at_the_end_by_the_writers_that_can_read_them(
    tmp_path: Path, writers: str, f: str, error: list[list[str]] | None, of_t: str, of_plain: str
) -> None:
    found = readers(tmp_path, writers, f, error)
    assert (found["t"], found["plain"]) == (of_t.split(), of_plain.split())
    assert len(found["other"]) == 2, "the other table has none"


@pytest.mark.parametrize("name", [n for n, e in ENGINES.items() if n != SPARK and ICEBERG in e.formats])
def test_a_writer_of_every_run_reads_whatever_a_table_holds(tmp_path: Path, name: str) -> None:
    run = run_of(tmp_path, f"[{name}]", "insert")
    (spark,) = (n for n in run.able("read", besides=True) if run.engines[n] == SPARK)
    assert spark == 1 and all(ENGINES[SPARK].reads_equality_deletes(t) for t in run.workload.tables)


def test_equality_deletes_are_known_whoever_writes_them() -> None:
    table = TableSpec(name="t", mode="merge-on-read")
    can = ((e, f) for e in ENGINES.values() for f in KINDS if e.can(f, table))
    writes = {(e.name, f) for e, f in can if e.writes_equality_deletes(f)}
    flinks = {(name, "upsert") for name in ENGINES if name.startswith("flink")}
    assert writes == flinks | {(SPARK, "equality-delete"), (SPARK, "equality-upsert")}
