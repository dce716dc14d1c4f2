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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from checkers.conflicts import predicted, validations
from checkers.conflicts.measured import CELLS, MeasuredCells, MeasuredResult, NotMeasured, OperationEnd, known
from checkers.conflicts.predicted import KEYS_OF_FILE, Compares, MatrixCell
from checkers.evidence import history, runfolder
from checkers.evidence.change_requests import change_requests
from checkers.evidence.error_chain import message_pattern, most_specific, short_class
from checkers.evidence.journal import Journal
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.isolation import Isolation, IsolationStats
from checkers.judge.check import ALL, check
from checkers.judge.runfolder import Results, load_evidence, load_promises
from checkers.judge.undecided import left_open_by
from compose.catalogs.registry import CATALOGS, DEFAULT
from compose.install.installation import Installation
from harness.campaign.campaign import Campaign, CouldNotRun, Done, JobAttempt
from harness.campaign.stacks import Key, Lease, WarmStacks
from harness.run.bench import Bench
from harness.run.judged import Publish, judge_run
from harness.run.settings import RunError, Watcher
from harness.run.versions import versions
from nemesis.proxy.board import Board, Hold
from reports.drawing.words import plural
from workloads.engines.engines import SPARK
from workloads.file.mode import QUICK, Mode
from workloads.file.workload import Length, Phase, Workload
from workloads.generator import PlannedOperation
from workloads.operations.kinds import KINDS as OPERATIONS
from workloads.tables import TableSpec

CELLS_PER_RUN = 12
"""Cells of one run."""
ENGINE_BATCH = 32
"""Cells of one run of the engine matrix: more, because each run starts writers that are not warm."""
MATRIX_GROUPS = 2
OP_TIMEOUT = 60.0
ENGINE_TIMEOUT = 120.0
"""Of an operation if there are other engines: Flink starts a job for each table, while the commit of another engine is held."""
PATIENT_CLIENT = {"rest.client.socket-timeout-ms": "115000", "duckdb.set.http_timeout": "115"}
"""Catalog properties by which a client waits as long for the answer to a held commit; PyIceberg waits for ever."""
ENGINES_WORD = "engines"
"""What the header of an engine matrix says it is of."""
RUNS_FOLDER = "runs"
"""Folder of the kept runs, in that of an engine matrix."""


def compared(catalog: str) -> Compares:
    """What a catalog compares at a commit."""
    return "requirements" if CATALOGS[catalog].rest else "location"


# --- one run of several cells -----------------------------------------------------------------------------------------


def _table(n: int) -> str:
    return f"c{n}"


def seats(cells: Sequence[MatrixCell]) -> tuple[str, ...]:
    """The engine of each writer: for each engine one writer of first operations and one of second ones, Spark's first."""
    others = {name for c in cells for name in (c.first_engine, c.second_engine)} - {SPARK}
    return tuple(name for name in (SPARK, *sorted(others)) for _ in range(2))


def _timeout(cells: Sequence[MatrixCell]) -> float:
    return OP_TIMEOUT if {*seats(cells)} == {SPARK} else ENGINE_TIMEOUT


def _properties(cell: MatrixCell) -> dict[str, str]:
    """Table properties of a cell, besides its mode and its isolation level. Each command has a mode of its own."""
    out = {"commit.retry.min-wait-ms": "10"}
    if cell.second_mode is not None:
        out[f"write.{OPERATIONS[cell.second].verb}.mode"] = cell.second_mode
    if cell.granularity != "file":
        out["write.delete.granularity"] = cell.granularity
    return out


def workload(cells: Sequence[MatrixCell]) -> Workload:
    """The tables of a run, one empty table for each cell, and its two phases. If there are other engines, another table in which each
    writer of theirs does its first operation, which takes longest."""
    mixed = {*seats(cells)} != {SPARK}
    tables = [
        TableSpec(
            name=_table(n),
            format_version=c.format_version,
            mode=c.mode,
            isolation=c.isolation,
            partitions=predicted.PARTITIONS,
            seed_rows=0,
            properties=_properties(c),
        )
        for n, c in enumerate(cells)
    ]
    if mixed:
        tables.append(TableSpec(name="warmup", mode="merge-on-read", partitions=predicted.PARTITIONS, seed_rows=0))
    fill, main = Length(ops=sum(len(c.files) - 1 for c in cells)), Length(ops=2 * len(cells))
    return Workload.model_validate(
        {
            "workload": "matrix",
            "description": "Cells of the conflict matrix.",
            "catalog_properties": PATIENT_CLIENT if mixed else {},
            "tables": tuple(tables),
            "writers": seats(cells),
            "op_timeout": _timeout(cells),
            "operations": {"insert": {}},
            "phases": (Phase(name="fill", length=fill), Phase(name="main", length=main)),
        }
    )


def planned(
    kind: str, keys: int | tuple[int, ...], table: TableSpec, with_part: bool = False, *, second: bool = False
) -> PlannedOperation:
    """An operation of a kind on a key, or on several; a schema change on the column of that key.

    Args:
        with_part: its condition names the partition, too.
        second: of two changes of one column they differ.
    """
    ids = [keys] if isinstance(keys, int) else list(keys)
    key, f = ids[0], kind.removesuffix(validations.VALIDATED)
    value: dict[str, Any] = {"ids": ids} | ({"with_part": True} if with_part else {})
    if kind == "delete-partition":
        value = {"part": table.part(key)}
    elif kind == "delete-where":
        value = {"part": table.part(key), "parity": 0}
    elif f in validations.OVERWRITES:
        value |= {"part": table.part(key)} if f == "overwrite-where" else {}
        value |= {"validated": True} if f != kind else {}
    elif kind in validations.COMPACTIONS:
        f, _, strategy = kind.partition("rewrite-data-files-")
        f, value = validations.COMPACTIONS[0], {"strategy": strategy or "binpack", "all": True}
    elif kind in ("rewrite-manifests", validations.POSITION_DELETES):
        value = {}
    elif kind in predicted.SCHEMA_KINDS:
        value = {"column": column(kind, key)}
        value |= {"type": "string" if second else "int"} if kind == "add-column" else {}
        value |= {"to": f"extra_{key + (200 if second else 100)}"} if kind == "rename-column" else {}
    return PlannedOperation(f, table, value)


def column(kind: str, key: int) -> str:
    """The column that a schema change is about: one that is there before, or a new one."""
    return f"extra_{key + predicted.FRESH if kind == 'add-column' else key}"


Fills = tuple[list[PlannedOperation], ...]
"""For each writer that fills tables: the operations by which it does so, in their order."""


def _filled(table: TableSpec, *files: tuple[int, ...]) -> PlannedOperation:
    return PlannedOperation("insert", table, {"ids": [key for keys in files for key in keys]})


def every_file(cells: Sequence[MatrixCell], tables: Sequence[TableSpec]) -> Fills:
    """One writer makes files A and C, the other B and, if there is one, D; each starts at a different table, so that they rarely conflict.

    A table that must have more than its files before the operations begin is filled by the first writer alone.
    """
    first: list[PlannedOperation] = []
    second: list[list[PlannedOperation]] = []
    for cell, table in zip(cells, tables, strict=True):
        files, more = cell.files, _more(cell, table)
        others = [_filled(table, files[name]) for name in ("B", "D") if name in files]
        first += [_filled(table, files["A"], files["C"]), *([*others, *more] if more else [])]
        second.append([] if more else others)
    half = len(cells) // 2
    return first, [o for all_ in second[half:] + second[:half] for o in all_]


def _more(cell: MatrixCell, table: TableSpec) -> list[PlannedOperation]:
    """What a table of a cell has besides its files: the columns that schema changes are about, a delete file for each data file."""
    changed = (
        column(k, i) for k, i in zip((cell.first, cell.second), predicted.keys(cell), strict=True) if _changes(k)
    )
    columns = [PlannedOperation("add-column", table, {"column": name}) for name in dict.fromkeys(changed)]
    gone = [ids[-1] for ids in cell.files.values()] if cell.has_deletes else []
    return [*columns, *(PlannedOperation("delete", table, {"ids": [key]}) for key in gone)]


def _changes(kind: str) -> bool:
    """Whether it needs a column that is there before."""
    return kind in predicted.SCHEMA_KINDS and kind != "add-column"


def without_b(cells: Sequence[MatrixCell], tables: Sequence[TableSpec]) -> Fills:
    """Files A and C only, in one commit of one of Spark's writers: no cell of the engine matrix has a key in B. The others warm up."""
    others = ([PlannedOperation("insert", tables[-1], {"ids": [w]})] for w in range(2, len(seats(cells))))
    by_two = (
        [_filled(table, KEYS_OF_FILE["A"], KEYS_OF_FILE["C"]) for table in tables[of : len(cells) : 2]] for of in (0, 1)
    )
    return *by_two, *others


class CellScript:
    """The order of operations and commits in a run of several cells.

    Args:
        fills: how the tables are filled.
    """

    def __init__(
        self,
        cells: Sequence[MatrixCell],
        board: Board,
        stop: threading.Event,
        fills: Callable[[Sequence[MatrixCell], Sequence[TableSpec]], Fills] = every_file,
    ) -> None:
        self._cells = cells
        self._stop = stop
        self._fills = fills(cells, workload(cells).tables)
        self._longest = _timeout(cells)
        engines = seats(cells)
        self._seats = [(engines.index(c.first_engine), engines.index(c.second_engine) + 1) for c in cells]
        self._ready = [threading.Event() for _ in cells]
        self._first_over = [threading.Event() for _ in cells]
        self._holds = [self._hold(board, n) for n in range(len(cells))]

    def _hold(self, board: Board, n: int) -> Hold:
        first, longest = self.ops(n)[0], self._longest
        if self._cells[n].held == "commit":
            return board.hold(first, longest=longest)
        # SnapshotProducer.apply loads the table when the operation has written its files.
        return board.hold(first, kind="load", since=("store", "write"), longest=longest)

    def ops(self, n: int) -> tuple[str, str]:
        """The ids of the first and of the second operation of the n-th cell. The writers filled tables before."""
        first, second = self._seats[n]
        before = [len(self._fills[w]) + sum(w in seats for seats in self._seats[:n]) for w in (first, second)]
        return f"w{first}-{before[0]}", f"w{second}-{before[1]}"

    def held(self, n: int) -> bool:
        """Whether the first operation in a cell was held, at its commit or its refresh, until the second's commit."""
        return self._holds[n].reached.is_set() and self._holds[n].problem is None

    def operations(self, workload: Workload, phase: Phase, writer: int, seed: int) -> Iterator[PlannedOperation]:
        """As :attr:`harness.run.settings.Settings.operations`."""
        if phase.name == "fill":
            yield from self._fills[writer]
            return
        for n, cell in enumerate(self._cells):
            table = workload.tables[n]
            key, others = predicted.keys(cell)[0], predicted.other_keys(cell)
            first, second = self._seats[n]
            if writer == first:
                self._until(self._ready[n], len(self._cells) * self._longest)
                yield planned(cell.first, key, table, cell.predicate == "id and part")
                self._first_over[n].set()
            elif writer == second:
                self._ready[n].set()
                self._wait(n)
                yield planned(cell.second, others, table, second=True)
                self._holds[n].release()

    def _until(self, ready: threading.Event, longest: float) -> None:
        """Wait until the writer of the second operation has none before it. All writers take the cells in the same order, so it comes."""
        for _ in range(int(longest * 100)):
            if ready.wait(0.01) or self._stop.is_set():
                return

    def _wait(self, n: int) -> None:
        """Wait until the first operation's commit is held, or the operation ended without one."""
        for _ in range(int(len(self._cells) * self._longest * 100)):
            if self._holds[n].reached.wait(0.01) or self._first_over[n].is_set() or self._stop.is_set():
                return
        raise RunError(f"matrix: {self._cells[n].name}: its first operation neither commits nor ends")


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
    told = {o.op: o for o in evidence.history.operations()}
    asked = {op: len([r for r in all_ if r.kind == "commit"]) for op, all_ in change_requests(folder.proxy).items()}
    out = []
    for n, cell in enumerate(cells):
        log = evidence.logs[_table(n)]
        attempts = {op: commits[-1].attempt for op, commits in log.by_op().items()}
        ends = []
        for op, engine in zip(script.ops(n), (cell.first_engine, cell.second_engine), strict=True):
            # A snapshot's file tells Spark's attempts; the proxy those of engines that name the file otherwise.
            ends.append(_ended(told[op], (attempts if engine == SPARK else asked).get(op)))
        requests = asked.get(script.ops(n)[0], 0)
        out.append(
            MeasuredResult(cell, ends[0], ends[1], script.held(n), *_found(results, _table(n)), requests=requests)
        )
    found = [a for v in results.verdicts for a in v.anomalies]
    undecided = [v for v in results.verdicts if v.valid == "unknown" and not left_open_by(v, found)]
    if undecided and publish is None:
        raise RunError(f"matrix: {undecided[0].checker} could not decide: {'; '.join(undecided[0].notes)}")
    return [replace(m, undecided=tuple(v.checker for v in undecided)) for m in out]


def _ended(o: history.Operation, attempts: int | None) -> OperationEnd:
    if o.type == "ok":
        return OperationEnd("committed" if attempts in (None, 1) else "retried", attempts)
    name, message = most_specific(o.error)
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
            left = [c for c in self._cells if c not in done]
            if not left:
                return self.known
            with self._stacks:
                bench = self._stacks.ready(self._key)  # in this thread, so that Ctrl-C ends it at once
                self._told()
                Campaign(
                    [left[n : n + size] for n in range(0, len(left), size)],
                    journal,
                    None,
                    self._run,
                    lambda cells, _, reason: [NotMeasured(c, reason) for c in cells],
                    self._watcher,
                    name=lambda cells: plural(len(cells), "cell"),
                    at_once=len(bench.groups),
                    finished=self._told,
                ).go()
        return self.known

    def _told(self, _: object = None) -> None:
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
