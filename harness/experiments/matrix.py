"""``icequake matrix``: the conflict matrix, measured. The second operation commits while the first is held before its commit.

Every cell (``checkers.conflicts.predicted``) has its own table. The first operation scans and writes its files; its commit is held
until the second has committed, then released. One run measures several cells, two runs go on at the same time, and all checkers
judge every run. The outcome of each cell is appended to ``cells.jsonl`` once its run is judged, so a matrix that was stopped
continues where it was.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from checkers.conflicts import predicted
from checkers.conflicts.measured import FORMAT, Ended, MatrixError, Measured, read
from checkers.conflicts.predicted import FILES, Cell
from checkers.evidence import history, runfolder
from checkers.evidence.error_chain import message_pattern, most_specific, short_class
from checkers.isolation import Isolation, IsolationStats
from checkers.judge.check import ALL, check
from checkers.judge.runfolder import Results, load_evidence, load_promises
from checkers.judge.undecided import left_open_by
from compose.catalogs.registry import DEFAULT
from compose.install.installation import Installation
from harness.run.bench import Bench
from harness.run.settings import RunError, Watcher
from harness.run.versions import versions
from nemesis.proxy.board import Board, Hold
from workloads.file.workload import Length, Phase, Workload
from workloads.generator import PlannedOperation
from workloads.tables import TableSpec

BATCH = 12
"""Cells of one run."""
GROUPS = 2
OP_TIMEOUT = 60.0


# --- one run of several cells -----------------------------------------------------------------------------------------


def _table(n: int) -> str:
    return f"c{n}"


def workload(cells: Sequence[Cell]) -> Workload:
    """The tables of a run, one empty table for each cell, and its two phases."""
    tables = tuple(
        TableSpec(
            name=_table(n),
            format_version=c.format_version,
            mode=c.mode,
            isolation=c.isolation,
            partitions=predicted.PARTITIONS,
            seed_rows=0,
            properties={"commit.retry.min-wait-ms": "10"},
        )
        for n, c in enumerate(cells)
    )
    length = Length(ops=2 * len(cells))
    return Workload.model_validate(
        {
            "workload": "matrix",
            "description": "Cells of the conflict matrix.",
            "tables": tables,
            "writers": 2,
            "op_timeout": OP_TIMEOUT,
            "operations": {"insert": {}},
            "phases": (Phase(name="fill", length=length), Phase(name="main", length=length)),
        }
    )


def planned(kind: str, key: int, table: TableSpec) -> PlannedOperation:
    """An operation of a kind on a key."""
    value: dict[str, Any] = {"ids": [key]}
    if kind == "delete-partition":
        value = {"part": table.part(key)}
    elif kind == "rewrite-data-files":
        value = {"strategy": "binpack", "all": True}
    elif kind == "rewrite-manifests":
        value = {}
    return PlannedOperation(kind, table, value)


class CellScript:
    """The order of operations and commits in a run of several cells."""

    def __init__(self, cells: Sequence[Cell], board: Board, stop: threading.Event) -> None:
        self._cells = cells
        self._stop = stop
        self._first_over = [threading.Event() for _ in cells]
        self._holds: list[Hold] = [board.hold(self.op(0, n), longest=OP_TIMEOUT) for n in range(len(cells))]

    def op(self, writer: int, n: int) -> str:
        """The id of a writer's operation in the n-th cell: the operations of the first phase come before it."""
        return f"w{writer}-{len(self._cells) + n}"

    def held(self, n: int) -> bool:
        """Whether the first operation's commit in a cell was held until the second's commit."""
        return self._holds[n].reached.is_set() and self._holds[n].problem is None

    def operations(self, workload: Workload, phase: Phase, writer: int, seed: int) -> Iterator[PlannedOperation]:
        """As :attr:`harness.run.settings.Settings.operations`."""
        if phase.name == "fill":
            yield from self._fill(workload, writer)
            return
        for n, cell in enumerate(self._cells):
            table = workload.tables[n]
            key, other = predicted.keys(cell)
            if writer == 0:
                yield planned(cell.first, key, table)
                self._first_over[n].set()
                continue
            self._wait(n)
            yield planned(cell.second, other, table)
            self._holds[n].release()

    def _fill(self, workload: Workload, writer: int) -> Iterator[PlannedOperation]:
        """One writer makes files A and C, the other B; each starts at a different table, so that they rarely conflict."""
        tables = list(workload.tables)
        half = len(tables) // 2
        if writer == 1:
            tables = tables[half:] + tables[:half]
        ids = [*FILES["A"], *FILES["C"]] if writer == 0 else [*FILES["B"]]
        for table in tables:
            yield PlannedOperation("insert", table, {"ids": ids})

    def _wait(self, n: int) -> None:
        """Wait until the first operation's commit is held, or the operation ended without one."""
        for _ in range(int(OP_TIMEOUT * 100)):
            if self._holds[n].reached.wait(0.01) or self._first_over[n].is_set() or self._stop.is_set():
                return
        raise RunError(f"matrix: {self._cells[n].name}: its first operation neither commits nor ends")


def judge(cells: Sequence[Cell], script: CellScript, folder: Path) -> list[Measured]:
    """The outcome of each cell of the run in ``folder``."""
    evidence = load_evidence(folder)
    results = check(evidence, ALL, load_promises(folder))
    told = {o.op: o for o in evidence.history.operations()}
    out = []
    for n, cell in enumerate(cells):
        log = evidence.logs[_table(n)]
        attempts = {op: commits[-1].attempt for op, commits in log.by_op().items()}
        ends = [_ended(told[script.op(w, n)], attempts.get(script.op(w, n))) for w in (0, 1)]
        out.append(Measured(cell, ends[0], ends[1], script.held(n), *_found(results, _table(n))))
    found = [a for v in results.verdicts for a in v.anomalies]
    undecided = [v for v in results.verdicts if v.valid == "unknown" and not left_open_by(v, found)]
    if undecided:
        raise RunError(f"matrix: {undecided[0].checker} could not decide: {'; '.join(undecided[0].notes)}")
    return out


def _ended(o: history.Operation, attempts: int | None) -> Ended:
    if o.type == "ok":
        return Ended("committed" if attempts in (None, 1) else "retried", attempts)
    name, message = most_specific(o.error)
    return Ended("aborted" if o.type == "fail" else "unknown", attempts, short_class(name), message_pattern(message))


def _found(results: Results, table: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    anomalies = {a.name for v in results.verdicts for a in v.anomalies if a.table == table and a.same_as is None}
    allowed: set[str] = set()
    for v in results.verdicts:
        if v.checker == Isolation.name:
            of_table = v.stats_as(IsolationStats).get("tables", {}).get(table)
            allowed |= set(of_table.get("allowed", ()) if of_table is not None else ())
    return tuple(sorted(anomalies)), tuple(sorted(allowed))


# --- the whole matrix -------------------------------------------------------------------------------------------------


class Matrix:
    """Measures cells into a folder.

    Args:
        cells: in the order in which they are measured.
        on: a bench whose object store, Spark cluster and writers are used.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        folder: Path,
        installation: Installation,
        watcher: Watcher,
        catalog: str = DEFAULT,
        *,
        on: Bench | None = None,
    ) -> None:
        self._cells = cells
        self._folder = folder
        self._installation = installation
        self._watcher = watcher
        self._catalog = catalog
        self._on = on
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._done: list[Measured] = []

    @property
    def path(self) -> Path:
        """The file that stores the measured cells."""
        return self._folder / "cells.jsonl"

    @property
    def measured(self) -> int:
        """How many of the cells are measured so far."""
        return len({m.cell for m in self._done} & set(self._cells))

    def measure(self) -> list[Measured]:
        """Measure the cells that have not been measured yet; start nothing if all have.

        Returns:
            All cells, measured now or before.

        Raises:
            MatrixError: the folder holds another matrix.
            RunError, ServiceError, WriterError, TableReadError: a run failed; the cells measured so far are kept.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._begin(versions(self._installation))
        known = {m.cell for m in self._done}
        left = [c for c in self._cells if c not in known]
        if not left:
            return self._done
        with Bench(
            self._installation,
            2,
            self._folder / "logs",
            self._watcher,
            catalog=self._catalog,
            groups=GROUPS,
            on=self._on,
        ) as bench:
            batches = [left[n : n + BATCH] for n in range(0, len(left), BATCH)]
            turn = iter(batches)
            self._watcher.progress(len(self._done), len(self._cells))
            with ThreadPoolExecutor(GROUPS) as pool:
                working = [pool.submit(self._work, bench, g, turn) for g in range(GROUPS)]
                try:
                    done, _ = wait(working, return_when=FIRST_EXCEPTION)
                finally:
                    self._stop.set()
            for future in done:
                future.result()
        return self._done

    def _begin(self, versions: dict[str, str]) -> None:
        header = {"format": FORMAT, "catalog": self._catalog, "versions": versions}
        if not self.path.exists():
            runfolder.replace_file(self.path, json.dumps(header) + "\n")
            return
        found, self._done = read(self.path)
        if (found.get("catalog"), found.get("versions")) != (self._catalog, versions):
            raise MatrixError(
                f"{self.path}: measured on another catalog or with other versions; give another folder with --into"
            )
        lines = [json.dumps(found), *(json.dumps(m.to_json()) for m in self._done)]
        runfolder.replace_file(self.path, "\n".join(lines) + "\n")  # drops a torn last line

    def _work(self, bench: Bench, group: int, turn: Iterator[list[Cell]]) -> None:
        while not self._stop.is_set():
            with self._lock:
                cells = next(turn, None)
            if cells is None:
                return
            try:
                found = self._batch(bench, group, cells)
            except BaseException:
                self._stop.set()
                raise
            with self._lock:
                self._done += found
                with self.path.open("a") as file:
                    file.writelines(json.dumps(m.to_json()) + "\n" for m in found)
                self._watcher.progress(len(self._done), len(self._cells))

    def _batch(self, bench: Bench, group: int, cells: Sequence[Cell]) -> list[Measured]:
        """One run. Its folder is kept only when it failed."""
        place = Path(tempfile.mkdtemp(prefix=f"run-{group}-", dir=self._folder))
        folder = runfolder.create(place, "matrix")
        board = bench.groups[group].board
        script = CellScript(cells, board, self._stop)
        try:
            bench.run(
                workload(cells),
                folder,
                script.operations,
                command="icequake matrix",
                group=group,
                share_final_reads=True,
                progress=False,
                stop=self._stop,
                capture_interval=None,
            )
        finally:
            board.heal()
            if self._stop.is_set():
                shutil.rmtree(place, ignore_errors=True)
        if self._stop.is_set():
            return []  # the run was interrupted
        measured = judge(cells, script, folder.path)
        shutil.rmtree(place, ignore_errors=True)
        return measured
