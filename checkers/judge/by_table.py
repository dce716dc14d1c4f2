"""A long run judged from its files table by table, in several processes or by tasks of Spark, which forget a table before they read the next.

It is a short cut of :func:`checkers.judge.runfolder.load_evidence` and :func:`checkers.judge.check.check` for runs in which nothing is found,
with the same results. The lines of the history are sorted by table, without being parsed. Each process reads the lines and the log
of a table, as the evidence of a run on that table alone, and each checker says its part of it (:mod:`checkers.unit`). Checkers of the
whole run get counts and a few columns of numbers (:mod:`checkers.timeline.operation_columns`) from each table. A checker that has only
``check(evidence)`` (docs/extending.md) gets the evidence of the whole run when all tables are done: it needs the memory for
that, and whatever it says is told.

That is the whole run's verdict only if its tables have nothing to do with each other, and no words of an explanation are needed. So whatever
is not as usual ends it, and the run is judged as any other: :class:`NotByTable` says why. Among that is

* a file that is broken, torn or of another form, a run that ended early, an operation on two tables, one of an unknown kind or engine, a
  snapshot of no operation, a snapshot or a request of another table's operation, an id that occurs twice, a clock that runs backwards;
* a verdict that is not ``true``: any anomaly, and any doubt.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from mmap import ACCESS_READ, mmap
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.columns.engine import CHECKERS, JudgedTable, judge_unit, merge
from checkers.evidence import proxyplaces, tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import (
    NEMESIS,
    Event,
    History,
    event_of,
    header_of,
)
from checkers.evidence.own_retries import attempts_by_op, counted
from checkers.evidence.paths import normalise
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import UNREADABLE, RunFolder, load_kinds
from checkers.evidence.tablelog import TableLog
from checkers.evidence.uncollected import uncollected
from checkers.judge.accepted import AcceptedAnomalies
from checkers.judge.assertions import Assertions
from checkers.judge.check import ALL, LONG, Engine, concluded, of_formats, verdict_of
from checkers.judge.proof import PLANNED
from checkers.judge.runfolder import Promises, Results, load_evidence, load_ran
from checkers.timeline import fault_windows
from checkers.timeline.operation_columns import OperationColumns
from checkers.timeline.timelines import named
from checkers.timeline.unreadable import unreadable
from checkers.unit import RunChecker, RunColumns, TableChecker, units
from checkers.verdict import Checker
from workloads.file.opened import opened
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROCESSES = 4
"""Processes that judge a run, at most."""
LEAST_BYTES = 60
"""Of an event's line: a shorter history has fewer events than a long run."""
MOST_COMMON = 10_000
"""Events without a table, such as faults, and requests of no table or several, at most: each table is judged with all of them."""
MOST_LEFT = 40_000
"""Objects that a table may leave behind before they are searched for garbage: what it adds to the verdicts is fewer."""


class NotByTable(Exception):
    """The run must be judged as a whole; the message says why."""


def judged(
    folder: Path, engine: Engine = "auto", processes: int | None = None, judge: Driver | None = None
) -> Results | None:
    """The results of a run's folder; None if it must be judged as a whole: also if it is short, or only one process may judge it.

    Args:
        folder: of the run.
        engine: as for :func:`checkers.judge.check.check`.
        processes: that may judge it; None: one for each processor, at most :data:`PROCESSES`. They are forked, so there is only one if
            this process has several threads.
        judge: who judges the tables; None: those processes.
    """
    many = _processes() if processes is None else processes
    if engine == "exact" or (processes is None and many < 2):
        return None
    try:
        if engine == "auto" and RunFolder(folder).history.stat().st_size < 2 * LONG * LEAST_BYTES:
            return None
        with uncollected():
            return _Run(folder, engine).results(many, judge)
    except Exception:  # whatever it is, the exact reader and the checkers say it better
        return None


def _processes() -> int:
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return 1
    return min(PROCESSES, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _must(usual: bool, why: str) -> None:
    if not usual:
        raise NotByTable(why)


@dataclass(frozen=True)
class _Part:
    """What one table adds to the verdicts.

    Attributes:
        judged: what the checkers say of it that columns replace.
        parts: checker → what each of the others says of it, or adds of it to the run.
        columns: of its operations.
        snapshots: whether the proxies saw requests for snapshots, and whether the table has one of these.
    """

    table: str
    judged: JudgedTable
    parts: dict[str, Any]
    columns: OperationColumns
    snapshots: tuple[bool, bool]


class _Run:
    """A run's folder, and where the lines of each table are in its history."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.run = RunFolder(folder)
        plan = self.run.read_plan()
        load_kinds(self.run, plan.model_extra or {})
        _must(plan.tables is not None, "the plan has no tables")
        _must(PLANNED not in (plan.model_extra or {}), "the run of a scenario")
        self.specs: dict[str, TableSpec] = plan.promised
        self.promises = Promises(plan.expect, plan.assertions, plan.allow)
        self.of_tables = [c for c in ALL if isinstance(c, TableChecker) and c.name not in CHECKERS]
        thresholds = [Assertions(self.promises.thresholds)] if self.promises.thresholds else []
        self.of_run: list[RunChecker] = [*(c for c in ALL if isinstance(c, RunChecker)), *thresholds]
        _must(not plan.expect and len(self.specs) > 0, "anomalies are expected, or there are no tables")
        self.state = self.run.state()
        _must(self.state.get("state") == "complete", "the run ended early")
        _must(UNREADABLE not in self.state, "files of evidence that are gone")
        with opened(self.run.history) as file:
            self.text = mmap(file.fileno(), 0, access=ACCESS_READ)
        self.header, self.places, self.events = self._sorted_by_table()
        _must(engine == "columns" or self.events > 2 * LONG, "a short run")
        _must("engines" not in self.header and self.text.find(b'"engine') < 0, "other engines than Spark")
        _must({*self.places} <= {None, *self.specs}, "events of a table that the plan does not describe")
        self.common = self._common()
        self.paths = self._logs()
        self.requests = proxyplaces.TableLines(self.run.proxy, self.specs)
        _must(self.requests.problem is None, "a broken log of requests")
        _must(self.requests.others <= MOST_COMMON, "many requests of no table")

    def _sorted_by_table(self) -> tuple[dict[str, Any], dict[str | None, np.ndarray[Any, np.dtype[np.int64]]], int]:
        """The header; table → index, begin and end of each of its lines; the number of events."""
        text, size = self.text, len(self.text)
        offset = text.find(b"\n") + 1
        _must(offset > 1 and text[size - 1 :] == b"\n", "a torn history")
        header = header_of(text[: offset - 1])
        found: dict[bytes, array[int]] = {}
        find = text.find
        n = 0
        while offset < size:
            end = find(b"\n", offset)
            key = find(b'"table":', offset, end)
            _must(key >= 0, "a line without a table")
            value = text[key + 8 : find(b",", key, end)]
            place = found.get(value)
            if place is None:
                place = found[value] = array("q")
            place.extend((n, offset, end))
            offset = end + 1
            n += 1
        return header, {_table(v): np.frombuffer(p, np.int64).reshape(-1, 3) for v, p in found.items()}, n

    def _common(self) -> tuple[Event, ...]:
        """The events without a table."""
        places = self.places.get(None)
        _must(places is None or len(places) <= MOST_COMMON, "many events without a table")
        events = () if places is None else self._read(places, None)
        _must(all(e.op is None or e.process == NEMESIS for e in events), "an operation without a table")
        return events

    def _read(self, places: np.ndarray[Any, np.dtype[np.int64]], table: str | None) -> tuple[Event, ...]:
        lines = [self.text[a:b] for _, a, b in places.tolist()]
        events = tuple([event_of(line) for line in lines])
        _must(all(e.table == table for e in events), "an event of another table than its line seems to be of")
        _must([e.index for e in events] == places[:, 0].tolist(), "events are missing, or out of order")
        return events

    def _logs(self) -> dict[str, tuple[Path, TableLog]]:
        """Table → the file of its log, and the log's header without records."""
        found = [(p, tablelog_file.header_of(p)) for p in sorted(self.run.tablelog.glob("*.jsonl"))]
        logs = {log.table: (p, log) for p, log in found}
        _must(len(logs) == len(found) and logs.keys() == self.specs.keys(), "not one log for each table")
        roots = sorted(normalise(log.location).rstrip("/") + "/" for _, log in found)
        apart = all(not b.startswith(a) for a, b in pairwise(roots))
        _must(apart and all(len(r) > 1 for r in roots), "a table in another one's folder")
        return logs

    # --- the tables

    def results(self, shares: int, judge: Driver | None = None) -> Results:
        """The results of the whole run.

        Args:
            shares: into which the tables are parted.
            judge: who judges them; None: :func:`forked`.

        Raises:
            NotByTable: it must be judged as a whole.
        """
        parts = (judge or forked)(self, self._shares(shares))
        return self._together(sorted(parts, key=lambda p: p.table))

    def _shares(self, number: int) -> list[list[str]]:
        """The tables, in at most so many shares: about the same number of bytes."""
        sizes = {
            name: path.stat().st_size + sum((p[:, 2] - p[:, 1]).tolist())
            for name, (path, _) in self.paths.items()
            for p in [self.places.get(name, np.zeros((0, 3), np.int64))]
        }
        shares: list[list[str]] = [[] for _ in range(max(1, min(number, len(sizes))))]
        full = [0] * len(shares)
        for name in sorted(sizes, key=lambda n: (-sizes[n], n)):
            least = full.index(min(full))
            shares[least].append(name)
            full[least] += sizes[name]
        return shares

    def parts(self, tables: Sequence[str]) -> Iterator[_Part]:
        """What these tables add.

        Raises:
            NotByTable: something is not as usual.
        """
        gc.freeze()  # what is there stays; what is found of a table goes before the next one
        try:
            for name in tables:
                yield self._part(name)
                if gc.get_count()[0] > MOST_LEFT:
                    gc.collect()
                gc.freeze()
        finally:
            gc.unfreeze()

    def _part(self, name: str) -> _Part:
        proxied = self.requests.read(name, self.paths[name][1])
        own = self._read(self.places.get(name, np.zeros((0, 3), np.int64)), name)
        events = tuple(sorted((*own, *self.common), key=lambda e: e.index)) if self.common else own
        log = counted(tablelog_file.read(self.paths[name][0]), attempts_by_op(own))
        _must(log.table == name and log.complete, "a log without an end")
        alone = Evidence(
            History(self.header, events),
            {name: log},
            {name: self.specs[name]},
            swaps=proxied.swaps,
            accepted=proxied.accepted,
            carried=proxied.carried,
            proxied=self.run.proxy.exists(),
            answered=proxied.answered,
        )
        evidence = named(alone)
        operations = evidence.history.operations()
        ids = {o.op for o in operations}
        columns = OperationColumns.of(operations)
        log = evidence.logs[name]
        _must(
            all((k := KINDS.get(f)) is not None and not k.two_tables for f in {o.f for o in operations}),
            "two tables, or an unknown kind",
        )
        _must(len(own) == len(operations) + int((columns.completed >= 0).sum()), "an event of no operation")
        _must(not evidence.history.contradictions, "the history contradicts itself")
        swaps, accepted = evidence.swaps.get(name, ()), evidence.accepted.get(name, ())
        carried = evidence.carried.get(name, ())
        made = {c.op for c in log.commits}
        _must(None not in made and not evidence.labels, "a snapshot that names no operation")
        made |= {s.op for s in swaps} | {a.op for a in accepted} | {r.op for r in carried}
        _must(made <= {None, *ids}, "a snapshot or a request of another table's operation")
        _must(not unreadable(evidence), "the table became unreadable")
        found = units(evidence)
        _must(len(found) == 1 and found[0].timeline is not None, "a table that cannot be judged")
        judged = judge_unit(found[0])
        unit = replace(found[0], explained=judged.explained)
        verdicts = {c.name: c.part(unit) for c in self.of_tables}
        parts = {**verdicts, **{c.name: c.part(unit) for c in self.of_run}}
        statements = [*judged.parts.values(), *verdicts.values()]
        _must(all(p is None or p.valid is True for p in statements), "a verdict that is not true")
        sent = {s for a in accepted for s in a.adds} | {s for r in carried for s in r.adds}
        asked = bool(sent), not sent.isdisjoint(c.snapshot_id for c in log.commits)
        return _Part(name, judged, parts, columns, asked)

    # --- the run

    def _together(self, parts: Sequence[_Part]) -> Results:
        """The results of the run from those of its tables."""
        columns = OperationColumns.all([p.columns for p in parts])
        end = self._in_order(columns)
        _must(columns.pair_up(), "operations that do not pair")
        seen, logged = (any(p.snapshots[n] for p in parts) for n in (0, 1))
        _must(logged or not seen, "the proxies' log seems to be another run's")
        run = RunColumns(self.header, columns, fault_windows.windows(self.common), end)
        found = {v.checker: v for v in merge(p.judged for p in parts)}
        for t in self.of_tables:
            found[t.name] = t.fold([p.parts[t.name] for p in parts if p.parts[t.name] is not None])
        for r in self.of_run:
            verdict = r.whole(run, [p.parts[r.name] for p in parts])
            _must(verdict is not None, f"{r.name} must see the evidence")
            assert verdict is not None
            found[r.name] = verdict
        _must(all(v.valid is True and not v.anomalies for v in found.values()), "a verdict that is not true")
        if guests():
            evidence = load_evidence(self.run.path)
            found |= {c.name: verdict_of(c, evidence) for c in guests()}
            return concluded(
                of_formats([found[c.name] for c in ALL]), evidence, ALL, self.promises, load_ran(self.run.path)
            )
        verdicts = of_formats([found.pop(c.name) for c in ALL])
        accepted = AcceptedAnomalies.of((), self.promises.allow, self.specs.values())
        return Results((*verdicts, *found.values()), True, accepted=accepted)

    def _in_order(self, columns: OperationColumns) -> int:
        """The time of the last event; all events are there, and their times go up with their indices."""
        events = [(columns.invoked, columns.start), (columns.completed, columns.ended)]
        events += [
            (np.array([e.index for e in self.common], np.int64), np.array([e.time for e in self.common], np.int64))
        ]
        index, time = (np.concatenate([pair[n] for pair in events]) for n in (0, 1))
        index, time = index[index >= 0], time[index >= 0]
        _must(len(index) == self.events and len(np.unique(index)) == self.events, "an event of no operation")
        in_order = time[np.argsort(index)]
        _must(bool((np.diff(in_order) >= 0).all()), "a clock that runs backwards")
        promised, completed = self.state.get("operations"), int((columns.completed >= 0).sum())
        completed += sum(e.op is not None and e.type != "invoke" for e in self.common)
        _must(not isinstance(promised, int) or completed >= promised, "the history's end is missing")
        return int(in_order[-1])


def _table(value: bytes) -> str | None:
    """A table's name from a line; its events tell whether it is right."""
    if value == b"null":
        return None
    _must(len(value) > 2 and value[:1] == value[-1:] == b'"' and b"\\" not in value, "a table's name of another form")
    return value[1:-1].decode()


def guests() -> list[Checker]:
    """The checkers that must see a run's whole evidence."""
    return [c for c in ALL if not isinstance(c, TableChecker | RunChecker)]


# --- who judges the tables ----------------------------------------------------------------------------------------------

Driver = Callable[[_Run, list[list[str]]], list[_Part]]
"""Judges shares of a run's tables, wherever it likes: what each table adds, in any order. It raises :class:`NotByTable` as
:meth:`_Run.parts`."""


def forked(run: _Run, shares: list[list[str]]) -> list[_Part]:
    """This process judges the first share, and for each other one a process is forked."""
    own_share, others = shares[0], [_Helper(run, share) for share in shares[1:]]
    try:
        parts = []
        for part in run.parts(own_share):
            parts.append(part)
            _must(not any(h.gave_up() for h in others), "another process found something unusual")
        for h in others:
            parts += h.parts()
    finally:
        for h in others:
            h.end()
    return parts


def on_spark(spark: SparkSession) -> Driver:
    """A task of Spark judges each share. Driver and workers must see the run's folder under the same path."""

    def judge(run: _Run, shares: list[list[str]]) -> list[_Part]:
        tasks = spark.sparkContext.parallelize(shares, len(shares)).map(partial(_share_of, folder=run.run.path))
        return _of_shares(tasks.collect())

    return judge


def _of_shares(results: Iterable[tuple[int, list[_Part]] | str]) -> list[_Part]:
    """The parts from what tasks told (:func:`_share_of`)."""
    parts: list[_Part] = []
    hashes: set[int] = set()
    for result in results:
        if isinstance(result, str):
            raise NotByTable(result)
        hashes.add(result[0])
        parts += result[1]
    _must(len(hashes) <= 1, "the workers hash equal texts differently (PYTHONHASHSEED)")
    return parts


def _share_of(tables: Sequence[str], folder: Path) -> tuple[int, list[_Part]] | str:
    """What a task does: the parts of tables, with how its process hashes a text, or why the run must be judged as a whole."""
    try:
        return hash(__name__), list(_Run(folder, "columns").parts(tables))  # the driver has seen that it is long
    except Exception as e:
        return f"{type(e).__name__}: {e}"


class _Helper:
    """Another process, which judges some of the tables."""

    def __init__(self, run: _Run, tables: Sequence[str]) -> None:
        context = multiprocessing.get_context("fork")
        self._answer, asked = context.Pipe(duplex=False)
        self._process = context.Process(target=_help, args=(run, tables, asked), daemon=True)
        self._process.start()
        asked.close()

    def gave_up(self) -> bool:
        """Whether it found something unusual, or died. Does not wait."""
        return self._process.exitcode not in (None, 0)

    def parts(self) -> list[_Part]:
        """What it found; waits for it.

        Raises:
            NotByTable: something is not as usual, or it died.
        """
        try:
            found: list[_Part] = self._answer.recv()
        except EOFError:
            raise NotByTable("another process found something unusual") from None
        return found

    def end(self) -> None:
        """End it, if it has not ended."""
        with suppress(ValueError):
            self._process.terminate()
        self._process.join()
        self._answer.close()


def _help(run: _Run, tables: Sequence[str], answer: Connection) -> None:
    """Judge tables and send what they add; send nothing, and end with exit code 1, if something is not as usual."""
    try:
        answer.send(list(run.parts(tables)))
    except Exception:
        raise SystemExit(1) from None
