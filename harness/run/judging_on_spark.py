"""Judge many stored runs on Spark: each of a few tasks judges a group of runs, and tells one line for each.

The tables of a long run that is a group of its own are parted among tasks (:mod:`checkers.judge.by_table`).

A worker reads a run's folder and writes its ``results.json`` there, so driver and workers must see the runs under the same path; nothing but
paths and lines goes through the driver. A group is a Spark job of its own, submitted by a thread: lines come as groups end, and
if a worker process dies, only its group is judged again, run by run, so that the run that ended it is known.

The JVM that PySpark starts is this process's child and carries the mark of a watchdog (:mod:`compose.processes.watchdog`): however this
process ends, the JVM and its Python workers end, and the scratch folder is removed.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkers.columns import cluster as columns
from checkers.evidence.runfolder import RunFolder, StoreError
from checkers.judge import by_table
from checkers.judge.runfolder import Results, write_results
from compose.catalogs.addresses import AddressError, spark_master
from compose.endpoints import is_local
from compose.external.external import External, driver_host
from compose.external.preflight import preflight
from compose.install import jdk
from compose.install.installation import spark_home
from compose.processes.watchdog import RUN_VARIABLE, Watchdog
from harness import __version__
from harness.run.judged import Publish
from harness.run.many import RunResult, judged, of_columns, or_why, size, unjudged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[*]"
"""Spark in this machine, with a task for each core."""
GROUP = 8
"""Runs of a group, unless there are too few groups for all cores; a job's overhead of some 30 ms is divided by it."""
GROUPS_A_CORE = 4
"""Groups that a core has at least, so that a long one at the end keeps only one core waiting."""
MOST_JOBS = 256
"""Jobs that the driver has submitted at a time."""
PROBE_SECONDS = 90.0
"""Until a worker of the cluster has answered; it may have to start an executor for it."""
END_SECONDS = 10.0
"""For Spark to stop, before its JVM is killed."""

UNRESPONSIVE = "All masters are unresponsive"
"""What Spark's log says when it gives up to reach a master, after a minute (``StandaloneAppClient``)."""


class SparkError(RuntimeError):
    """Spark cannot judge; one line with the remedy."""


class MasterError(ValueError):
    """A value of ``--spark`` that names no Spark."""


class Cluster:
    """A Spark session for as long as the ``with`` lasts.

    Attributes:
        scratch: folder of this machine for what Spark's shuffles write, gone at the end.
    """

    def __init__(self, master: str = MASTER) -> None:
        """No effect yet.

        Raises:
            MasterError: there is no such kind of address.
        """
        try:
            spark_master(master)
        except AddressError as e:
            raise MasterError(f"--spark {master}: {e}") from None
        self.master = master
        self.scratch = Path()
        self._spark: SparkSession | None = None
        self._stack = contextlib.ExitStack()

    @property
    def spark(self) -> SparkSession:
        """The session. Raises AssertionError outside of the ``with``."""
        assert self._spark is not None, "the cluster is not entered"
        return self._spark

    @property
    def cores(self) -> int:
        """Tasks that run at a time."""
        return int(self.spark.sparkContext.defaultParallelism)

    def __enter__(self) -> Cluster:
        """Start the JVM and have a worker answer.

        Raises:
            SetupError: pyspark or Java is missing.
            PreflightError: nothing listens at the master's address.
            SparkError: the cluster does not take this application, or gives it no worker within :data:`PROBE_SECONDS`.
        """
        spark_home()
        java = jdk.pick()
        if (other := jdk.ignored(java)) is not None:
            print(f"icequake: warning: {other}", file=sys.stderr)
        preflight(External(master=self.master))
        with contextlib.ExitStack() as stack:
            self.scratch = Path(tempfile.mkdtemp(prefix="icequake-check-"))
            stack.callback(shutil.rmtree, self.scratch, ignore_errors=True)
            mark = f"check-{secrets.token_hex(6)}"
            watchdog = Watchdog(mark, remove=[self.scratch])
            stack.callback(watchdog.close)
            watchdog.start()
            stack.enter_context(_environment({RUN_VARIABLE: mark, "JAVA_HOME": str(java.home)}))
            stack.enter_context(_quiet("py4j"))
            stack.push(self._end)
            self._start()
            self._probe()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def _start(self) -> None:
        more = {"spark.local.dir": str(self.scratch)}
        if not is_local(self.master):
            more |= {"spark.driver.host": driver_host(self.master), "spark.driver.bindAddress": "0.0.0.0"}
        on_ctrl_c = signal.getsignal(signal.SIGINT)
        try:
            with _stderr_into(self.scratch / "spark.log"):
                self._spark = columns.session(self.master, **more)
            # Its thread would print a stack trace when the JVM ends; no task of ours counts anything.
            self._spark.sparkContext._accumulatorServer.handle_error = lambda *_: None
        except Exception as e:
            raise SparkError(f"--spark {self.master}: Spark does not start: {self._why(e)}") from None
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, on_ctrl_c)  # PySpark sets its own

    def _why(self, error: Exception) -> str:
        """Why the session did not start; Spark tells some of it only to its log."""
        with contextlib.suppress(OSError):
            if UNRESPONSIVE in (self.scratch / "spark.log").read_text(errors="replace"):
                return "what listens there does not answer as a Spark master; is the address right?"
        return reason(error)

    def _probe(self) -> None:
        """Have a worker say which icequake it has; how long it takes to start one is not counted later."""
        context = self.spark.sparkContext
        late = threading.Timer(PROBE_SECONDS, context.cancelAllJobs)
        late.daemon = True
        late.start()
        try:
            (version,) = context.parallelize([0], 1).map(_version).collect()
        except Exception as e:
            if not late.is_alive():
                why = f"no worker took a task within {PROBE_SECONDS:.0f} s; has the cluster free workers?"
            elif "No module named" in str(e):
                why = (
                    "its workers cannot import icequake; install it there, in the Python that PYSPARK_PYTHON names, "
                    f"or put it under the same path as here, {Path(columns.__file__).parents[2]}"
                )
            else:
                why = reason(e)
            raise SparkError(f"--spark {self.master}: {why}") from None
        finally:
            late.cancel()
        if version != __version__:
            raise SparkError(f"--spark {self.master}: its workers have icequake {version}, and this is {__version__}")

    def _end(self, kind: Any, error: Any, trace: Any) -> None:
        """Stop Spark and its JVM. After an error the JVM is ended first: a thread may still wait for its answer."""
        from pyspark import SparkContext

        jvm = getattr(getattr(SparkContext, "_gateway", None), "proc", None)
        session, self._spark = self._spark, None
        if session is not None and kind is None and jvm is not None and jvm.poll() is None:
            stopping = threading.Thread(target=session.stop, daemon=True)
            stopping.start()
            stopping.join(END_SECONDS)
        if jvm is not None:
            jvm.terminate()
            try:
                jvm.wait(END_SECONDS)
            except Exception:  # the watchdog would do it, too, after some more seconds
                jvm.kill()
                jvm.wait()
            if jvm.stdin is not None:
                jvm.stdin.close()
        _forget()

    def lives(self) -> bool:
        """Whether the JVM is there."""
        from pyspark import SparkContext

        jvm = getattr(getattr(SparkContext, "_gateway", None), "proc", None)
        return jvm is not None and jvm.poll() is None

    # --- runs -----------------------------------------------------------------------------------------------------------

    def judge(self, runs: Sequence[str], publish: Publish[object] | None = None) -> Generator[RunResult, None, None]:
        """Judge runs, and tell each as soon as its group is judged.

        Args:
            publish: as for :func:`harness.run.many.judged`; a function of a module.

        Raises:
            SparkError: Spark ended, or its scratch is full; what was told is written.
        """
        groups = grouped([(r, size(r)) for r in runs], self.cores)
        jobs = min(max(1, len(groups)), max(GROUPS_A_CORE, 2 * self.cores), MOST_JOBS)
        pool = ThreadPoolExecutor(jobs, "spark-job")
        try:
            pending = {pool.submit(self._job, group, publish): group for group in groups}
            while pending:
                for done in as_completed(list(pending)):
                    group = pending.pop(done)
                    error = done.exception()
                    if error is None:
                        yield from done.result()
                    elif full(error) or not self.lives():
                        raise self._failed(error, "not all runs were judged")
                    elif len(group) == 1:
                        yield unjudged(group[0], f"the worker that judged it ended: {reason(error)}")
                    else:  # one of them ended the worker
                        retried: dict[Future[list[RunResult]], list[str]] = {
                            pool.submit(self._job, [run], publish): [run] for run in group
                        }
                        pending |= retried
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def judge_dataset(self, folder: Path) -> Iterator[RunResult]:
        """Judge the runs of a dataset of columns, and write the results of each as soon as it is judged.

        Raises:
            StoreError: the dataset cannot be read.
            SparkError: Spark ended, or its scratch is full.
        """
        found = columns.judge_dataset(self.spark, folder.resolve())
        while True:
            try:
                run, verdicts = next(found)
            except StopIteration:
                return
            except StoreError:
                raise
            except Exception as e:
                raise self._failed(e, f"{folder}: not all runs were judged") from None
            yield unjudged(run, verdicts) if isinstance(verdicts, str) else of_columns(folder, run, verdicts)

    def _failed(self, error: BaseException, what: str) -> SparkError:
        if full(error):
            return SparkError(f"{self.scratch}: the disk is full; free some space, or set TMPDIR to another")
        return SparkError(f"{what}: {reason(error)}" if self.lives() else f"{what}: Spark ended: {reason(error)}")

    def _table_by_table(self, run: str) -> RunResult | None:
        """What came of a long run whose tables Spark's tasks judged; None if a task must judge it as a whole."""
        folder = RunFolder(Path(run))
        if folder.kinds.exists() or by_table.guests():  # only a worker imports what comes with a run, or reads it whole
            return None
        results = by_table.judged(folder.path, processes=self.cores, judge=by_table.on_spark(self.spark))
        if results is None:
            return None

        def written() -> Results:
            write_results(results, folder.results)
            return results

        return or_why(run, written)

    def _job(self, group: Sequence[str], publish: Publish[object] | None) -> list[RunResult]:
        if publish is None and len(group) == 1 and (results := self._table_by_table(group[0])) is not None:
            return [results]
        task = partial(_judge_group, publish=publish)
        return list(self.spark.sparkContext.parallelize(group, 1).mapPartitions(task).collect())


def grouped(runs: Sequence[tuple[str, int]], cores: int) -> list[list[str]]:
    """Runs in groups of about the same size, the largest runs first.

    Args:
        runs: run and its size, in any unit.
        cores: tasks that run at a time.
    """
    number = min(len(runs), max(GROUPS_A_CORE * cores, -(-len(runs) // GROUP)))
    groups: list[list[str]] = [[] for _ in range(number)]
    room = [(0, n) for n in range(number)]
    for run, much in sorted(runs, key=lambda r: (-r[1], r[0])):
        total, n = heapq.heappop(room)
        groups[n].append(run)
        heapq.heappush(room, (total + much + 1, n))
    return groups


def _judge_group(runs: Iterator[str], publish: Publish[object] | None) -> Iterator[RunResult]:
    """What a task does."""
    for run in runs:
        if not os.path.isdir(run):
            yield unjudged(run, f"the Spark worker on {socket.gethostname()} does not see this path")
        else:
            yield judged(run, publish)


def _version(_: int) -> str:
    import checkers.judge.check  # noqa: F401 the worker has all that a checker needs
    from harness import __version__ as here

    return here


# --- what went wrong --------------------------------------------------------------------------------------------------


def full(error: BaseException) -> bool:
    """Whether an error of Spark is a full disk."""
    return "No space left on device" in str(error)


def reason(error: BaseException) -> str:
    """An error of Spark in one line: the innermost cause that it tells, without stack traces."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    causes = [line for line in lines if re.match(r"(Caused by: )?[\w.$]+(Exception|Error|SparkExit\w*)\b.*: ", line)]
    text = causes[-1] if causes else next((line for line in lines if line), type(error).__name__)
    text = re.sub(r"^Caused by: ", "", text)
    return re.sub(r"^([a-z]\w*\.)+", "", text)[:300]


@contextlib.contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """py4j logs every connection that an ended JVM leaves."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _stderr_into(file: Path) -> Iterator[None]:
    """What processes that start here write to standard output and error goes into a file: Spark's log is not the command's output."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    try:
        with file.open("ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        yield
    finally:
        for old, standard in zip(kept, (1, 2), strict=True):
            os.dup2(old, standard)
            os.close(old)


def _forget() -> None:
    """Let PySpark start another JVM in this process."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
