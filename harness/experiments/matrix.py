"""``icequake matrix``: the conflict matrix, measured. The second operation commits while the first is held before its commit.

Every cell (``checkers.conflicts.predicted``) has its own table. The first operation scans and writes its files; its commit is held
until the second has committed, then released. In some cells its refresh is held instead, the load of the table before its first check.
One run measures several cells, two runs go on at the same time, and all checkers judge every run. The outcome of each cell is appended to
``cells.jsonl`` once its run is judged, so a matrix that was stopped continues where it was.

The engine matrix measures the same of operations of several engines. One run then has two writers of each engine, the one for first
operations, the other for second ones, so that cells of other engines go on meanwhile; its runs are kept, with their pages.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from checkers.conflicts.measured import CELLS, MeasuredCells, MeasuredResult, NotMeasured, OperationEnd, known
from checkers.conflicts.predicted import MatrixCell
from checkers.evidence import history, runfolder
from checkers.evidence.change_requests import change_requests
from checkers.evidence.error_chain import deciding_error, message_pattern, short_class
from checkers.evidence.journal import Journal
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.isolation import Isolation, IsolationStats
from checkers.judge.check import ALL, check
from checkers.judge.runfolder import Results, load_evidence, load_promises
from checkers.judge.undecided import left_open_by
from compose.catalogs.registry import DEFAULT
from compose.install.installation import Installation
from harness.campaign.campaign import Campaign, CouldNotRun, Done, JobAttempt
from harness.campaign.stacks import Key, Lease, WarmStacks
from harness.experiments.matrixruns import ENGINES_WORD, CellScript, every_file, table_name, without_b, workload
from harness.run.bench import Bench
from harness.run.errors import RunError
from harness.run.judged import Publish, judge_run
from harness.run.settings import Watcher
from harness.run.versions import versions
from reports.drawing.words import plural
from workloads.engines.engines import SPARK
from workloads.file.mode import QUICK, Mode

CELLS_PER_RUN = 12
"""Cells of one run."""
ENGINE_BATCH = 32
"""Cells of one run of the engine matrix: more, because each run starts writers that are not warm."""
MATRIX_GROUPS = 2
RUNS_FOLDER = "runs"
"""Folder of the kept runs, in that of an engine matrix."""


# --- one run of several cells -----------------------------------------------------------------------------------------


def judge(
    cells: Sequence[MatrixCell], script: CellScript, folder: RunFolder, publish: Publish[object] | None
) -> list[MeasuredResult]:
    """The outcome of each cell of the run in ``folder``; ``publish``: writes the page of a run that is kept."""
    if publish is None:
        evidence = load_evidence(folder.path)
        results = check(evidence, ALL, load_promises(folder.path))
    else:
        judged = judge_run(folder, publish)
        evidence, results = judged.evidence, judged.results
    operations = {o.op: o for o in evidence.history.operations()}
    asked = {op: len([r for r in all_ if r.kind == "commit"]) for op, all_ in change_requests(folder.proxy).items()}
    out = []
    for n, cell in enumerate(cells):
        log = evidence.logs[table_name(n)]
        attempts = {op: commits[-1].attempt for op, commits in log.by_op().items()}
        ends = []
        for op, engine in zip(script.ops(n), (cell.first_engine, cell.second_engine), strict=True):
            # A snapshot's file tells Spark's attempts; the proxy those of engines that name the file otherwise.
            ends.append(_ended(operations[op], (attempts if engine == SPARK else asked).get(op)))
        requests = asked.get(script.ops(n)[0], 0)
        out.append(
            MeasuredResult(cell, ends[0], ends[1], script.held(n), *_found(results, table_name(n)), requests=requests)
        )
    found = [a for v in results.verdicts for a in v.anomalies]
    undecided = [v for v in results.verdicts if v.valid == "unknown" and not left_open_by(v, found)]
    if undecided and publish is None:
        raise RunError(f"matrix: {undecided[0].checker} could not decide: {'; '.join(undecided[0].notes)}")
    return [replace(m, undecided=tuple(v.checker for v in undecided)) for m in out]


def _ended(o: history.Operation, attempts: int | None) -> OperationEnd:
    if o.type == "ok":
        return OperationEnd("committed" if attempts in (None, 1) else "retried", attempts)
    name, message = deciding_error(o.error)
    return OperationEnd(
        "aborted" if o.type == "fail" else "unknown", attempts, short_class(name), message_pattern(message)
    )


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
        publish: writes the page of a run; given for the engine matrix, whose runs are kept.
        show: writes the page of a run of Spark's matrix that is kept: one that has a cell with an anomaly or with another outcome than the
            predicted one.
        keep: whether all runs are kept.
        mode: how Spark runs, unless ``on`` says it.
    """

    def __init__(
        self,
        cells: Sequence[MatrixCell],
        folder: Path,
        installation: Installation,
        watcher: Watcher,
        catalog: str = DEFAULT,
        *,
        on: Bench | None = None,
        publish: Publish[object] | None = None,
        show: Publish[object] | None = None,
        keep: bool = False,
        mode: Mode = QUICK,
    ) -> None:
        self._mode = mode
        self._show = show
        self._keep = keep
        self._cells = cells
        self._publish = publish
        self._folder = folder
        self._installation = installation
        self._watcher = watcher
        self._catalog = catalog
        self._on = on
        self._lock = threading.Lock()
        self._key: Key = (catalog,)
        self._lines: list[MeasuredResult | NotMeasured] = []
        self._stacks: WarmStacks[Bench] = WarmStacks(
            self._start, folder / "logs", watcher.say, seats=lambda b: len(b.groups), runs=None
        )

    @property
    def path(self) -> Path:
        """The file that stores the measured cells."""
        return self._folder / "cells.jsonl"

    @property
    def known(self) -> MeasuredCells:
        """What is known of the cells so far."""
        chosen = {*self._cells}
        return known(x for x in self._lines if x.cell in chosen)

    @property
    def measured(self) -> int:
        """How many of the cells are measured so far."""
        return len(self.known.measured)

    def measure(self) -> MeasuredCells:
        """Measure the cells that have not been measured yet; start nothing if all have.

        A cell that could not be measured has a line with the reason, the others go on, and the next call tries it again.

        Returns:
            What is known of the cells, measured now or before.

        Raises:
            MatrixError: the folder holds another matrix, or somebody else writes there.
            OSError: the disk is full.
            SetupError, ServiceError, WriterError: the first stack does not come up; the cells measured so far are kept.
        """
        size = CELLS_PER_RUN if self._publish is None else ENGINE_BATCH
        ran = versions(self._installation)
        header = {
            "catalog": self._catalog,
            "versions": ran,
            "of": None if self._publish is None else ENGINES_WORD,
            **{k: self._mode.given.get(k) for k in ("session", "cluster")},
        }
        with Journal(self.path, CELLS, header) as journal:
            self._key, self._lines = (self._catalog, ran["iceberg"]), journal.lines
            done = {m.cell for m in self.known.measured}
            remaining = [c for c in self._cells if c not in done]
            if not remaining:
                return self.known
            with self._stacks:
                bench = self._stacks.ready(self._key)  # in this thread, so that Ctrl-C ends it at once
                self._show_progress()
                Campaign(
                    [remaining[n : n + size] for n in range(0, len(remaining), size)],
                    journal,
                    None,
                    self._run,
                    lambda cells, _, reason: [NotMeasured(c, reason) for c in cells],
                    self._watcher,
                    name=lambda cells: plural(len(cells), "cell"),
                    at_once=len(bench.groups),
                    finished=self._show_progress,
                ).go()
        return self.known

    def _show_progress(self, _: object = None) -> None:
        self._watcher.progress(self.measured, len(self._cells))

    def _start(self, key: Key, logs: Path, below: Bench | None) -> Bench:
        groups = MATRIX_GROUPS if self._publish is None else 1
        return Bench(
            self._installation,
            2,
            logs,
            self._watcher,
            catalog=self._catalog,
            groups=groups,
            on=self._on or below,
            mode=None if self._on or below else self._mode,
        )

    def _run(
        self, cells: Sequence[MatrixCell], attempt: JobAttempt
    ) -> Done[MeasuredResult | NotMeasured] | CouldNotRun:
        """One run. Its folder is kept only when it failed, or when it is published or has something to see."""
        kept = self._publish is not None
        place = self._folder / RUNS_FOLDER if kept else Path(tempfile.mkdtemp(prefix="run-", dir=self._folder))
        folder = attempt.folder = runfolder.create(place, "matrix")
        attempt.scratch = folder.path if kept else place
        with self._stacks.lease(self._key) as lease:
            script = self._scripted(lease, folder, cells, attempt.stop)
        if attempt.cut_short:
            return CouldNotRun("it was cut short")
        measured = judge(cells, script, folder, self._publish)
        if kept:
            return Done([replace(m, run=str(folder.path.relative_to(self._folder))) for m in measured])
        seen = self._keep or any(m.anomalies or m.undecided or not m.as_predicted for m in measured)
        if self._show is not None and seen:
            judge_run(folder, self._show)
            run = str(self._moved(folder.path).relative_to(self._folder))
            measured = [replace(m, run=run) for m in measured]
        shutil.rmtree(place, ignore_errors=True)
        return Done(measured)

    def _scripted(
        self, lease: Lease[Bench], folder: RunFolder, cells: Sequence[MatrixCell], stop: threading.Event
    ) -> CellScript:
        board = lease.stack.groups[lease.seat].board
        script = CellScript(cells, board, stop, every_file if self._publish is None else without_b)
        try:
            lease.stack.run(
                workload(cells),
                folder,
                script.operations,
                command="icequake matrix",
                group=lease.seat,
                share_final_reads=True,
                progress=False,
                stop=stop,
                capture_interval=None,
            )
        finally:
            board.heal()
        return script

    def _moved(self, run: Path) -> Path:
        """Move the folder of a run to the kept ones."""
        with self._lock:
            runs = self._folder / RUNS_FOLDER / run.parent.name
            runs.mkdir(parents=True, exist_ok=True)
            name = run.name if not (runs / run.name).exists() else f"{run.name}-{len(list(runs.iterdir()))}"
            return run.rename(runs / name)
