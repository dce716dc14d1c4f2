"""``icequake compare``: the same workload, seeds and faults on several catalogs and releases of Iceberg, one run after the other.

All contenders run for each seed; the order is reversed from seed to seed, so that a machine that gets slower affects all alike. Each run is
like one of ``icequake run``: a folder in the store, judged by all checkers, with its page; but every service has a proxy in front even without
faults, because the proxies count the requests. A run's figures are appended to ``runs.jsonl`` once it is judged, so a stopped comparison
continues where it was, and one that is called again with more seeds or contenders measures only the new ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from checkers.costs import measures
from checkers.costs.comparison import Comparison, Contender, Ran, engines_label, varied_label
from checkers.evidence import runfolder
from checkers.evidence.history import HistoryError
from checkers.evidence.runfolder import RunFolder
from checkers.evidence.tablelog import TableLogError
from compose import setup
from compose.catalogs import user_file
from compose.external.external import External, ExternalError, external
from compose.external.preflight import preflight
from compose.install import releases
from compose.install.cache import SetupError
from compose.install.installation import Installation
from compose.install.releases import Release
from compose.objectstore import TableReadError
from compose.processes.service import ServiceError
from compose.redaction import Redaction, masked, secrets_of
from harness.run.judged import Publish, judge_run
from harness.run.plan import catalog_of_plan
from harness.run.reach import unreachable
from harness.run.run import Run
from harness.run.settings import RunError, Settings, Watcher
from harness.run.versions import cannot_commit, cannot_run
from harness.writers.slot import WriterError
from workloads.file.parameters import applied
from workloads.file.workload import Workload
from workloads.file.yamlfile import FileError

FORMAT = 1
RUNS = "runs.jsonl"
CANNOT = (
    SetupError,
    ServiceError,
    ExternalError,
    FileError,
    RunError,
    WriterError,
    TableReadError,
    HistoryError,
    TableLogError,
)
"""Errors that stop the runs of one contender but not of the others."""


class CompareError(ValueError):
    """A comparison cannot be continued or read; the message is one line with a remedy."""


@dataclass(frozen=True)
class Order:
    """What is to be compared.

    Attributes:
        workload: its ``catalog`` is ignored.
        command: (contender, seed) → the command that repeats that run.
        parallel: number of runs at the same time.
        clean: whether to drop tables in a user-supplied catalog.
        releases: ``Contender.iceberg`` → the release, for those that the table of releases does not have: runtime jars of the user's.
    """

    workload: Workload
    contenders: tuple[Contender, ...]
    seeds: tuple[int, ...]
    command: Callable[[Contender, int], str]
    parallel: int = 1
    clean: bool = False
    releases: Mapping[str, Release] = field(default_factory=dict)

    def header(self) -> dict[str, Any]:
        """The facts that all runs of one comparison share."""
        spec = self.workload.model_dump(mode="json", by_alias=True, exclude={"catalog", "seed"}, exclude_defaults=True)
        return {"format": FORMAT, "workload": _written_down(spec), "parallel": self.parallel}

    def turns(self) -> list[tuple[Contender, int]]:
        """All runs in their order: forward for the first seed, backward for the second, and so on."""
        out = []
        for n, seed in enumerate(self.seeds):
            out += [(c, seed) for c in (self.contenders if n % 2 == 0 else reversed(self.contenders))]
        return out


def read(path: Path) -> tuple[dict[str, Any], list[Ran]]:
    """Header and runs of a ``runs.jsonl``; for a run that was repeated, the last one counts; a torn last line is left out.

    Raises:
        CompareError: the file is not one.
    """
    try:
        lines = path.read_text().split("\n")
        header = json.loads(lines[0])
        if header.get("format") != FORMAT:
            raise ValueError(f"format {header.get('format')!r} is not known")
        found = [Ran.from_json(json.loads(line)) for line in lines[1:-1] if line]
    except OSError as e:
        raise CompareError(f"{path}: cannot be read: {e.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as e:
        raise CompareError(f"{path}: not the runs of a comparison: {type(e).__name__}: {e}") from None
    return header, list({(r.contender, r.seed): r for r in found}.values())


def first_seed(into: Path) -> int | None:
    """The first seed of the comparison in a folder; None if there is none."""
    path = into / RUNS
    return min((r.seed for r in read(path)[1]), default=None) if path.exists() else None


def new_folder(runs: Path, workload: str) -> Path:
    """The folder of a new comparison; apart from the runs, whose folder names are only a time."""
    return runs / "compare" / f"{workload}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def judge(folder: RunFolder, publish: Publish[object]) -> measures.Measures:
    """Check a run's folder as ``icequake run`` does, write its results and publish them; return its figures."""
    judged = judge_run(folder, publish)
    return measures.measure(judged.evidence, judged.results, measures.requests(folder.proxy))


@dataclass
class _Said:
    """Prefixes messages with the run; the progress bar shows one run, so several runs at a time show none."""

    watcher: Watcher
    lead: str
    alone: bool

    def say(self, text: str) -> None:
        self.watcher.say(f"{self.lead}: {text}")

    def progress(self, done: int, total: int | None) -> None:
        if self.alone:
            self.watcher.progress(done, total)

    def lasts(self, seconds: float | None) -> None:
        if self.alone:
            self.watcher.lasts(seconds)


@dataclass
class Compare:
    """Runs an :class:`Order` into a folder.

    Args:
        into: the comparison's folder.
        runs: the store of the runs.
        publish: writes what people read, such as the page, into the folder of a judged run.
    """

    order: Order
    into: Path
    runs: Path
    watcher: Watcher
    publish: Publish[object]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _stops: set[threading.Event] = field(default_factory=set)
    """One per active run: a failed run sets its own, which does not affect the others."""
    _installed: dict[str, Installation | str] = field(default_factory=dict)
    _header: dict[str, Any] = field(default_factory=dict)
    _done: dict[tuple[Contender, int], Ran] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file of the runs."""
        return self.into / RUNS

    def measure(self) -> Comparison:
        """Run what has not been run yet.

        Raises:
            CompareError: the folder has another comparison, or cannot be made.
            KeyboardInterrupt: the user stopped it; finished runs are kept.
        """
        self._begin()
        turns = self.order.turns()
        left = deque((n, c, seed) for n, (c, seed) in enumerate(turns) if not self._measured(c, seed))
        if len(left) < len(turns):
            self.watcher.say(f"{len(turns) - len(left)} of {len(turns)} runs are already measured")
        if self.order.parallel == 1:
            self._work(left)
        else:
            with ThreadPoolExecutor(self.order.parallel) as pool:
                try:
                    working = [pool.submit(self._work, left) for _ in range(self.order.parallel)]
                    done, _ = wait(working, return_when=FIRST_EXCEPTION)
                finally:
                    self._halt()
                for future in done:
                    future.result()
        return self.comparison()

    def comparison(self) -> Comparison:
        """The comparison of the runs so far."""
        wanted = set(self.order.turns())
        runs = [r for key, r in self._done.items() if key in wanted]
        return Comparison(self._header, self.order.contenders, self.order.seeds, tuple(runs))

    def _measured(self, c: Contender, seed: int) -> bool:
        ran = self._done.get((c, seed))
        return ran is not None and ran.measures is not None

    def _begin(self) -> None:
        self._header = self.order.header()
        try:
            self.into.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise CompareError(f"{self.into}: cannot be made: {e.strerror}; give another --into") from None
        if not self.path.exists():
            runfolder.replace_file(self.path, json.dumps(self._header) + "\n")
            return
        found, runs = read(self.path)
        found["workload"] = _written_down(found.get("workload"))
        if differing := [k for k in self._header if found.get(k) != self._header[k]]:
            what = ", ".join(_differing(found.get("workload"), self._header["workload"]) or differing)
            raise CompareError(f"{self.path}: measured with another {what}; give another --into")
        self._done = {(r.contender, r.seed): r for r in runs}
        lines = [json.dumps(found), *(json.dumps(r.to_json()) for r in runs)]
        runfolder.replace_file(self.path, "\n".join(lines) + "\n")  # without a torn last line

    def _work(self, left: deque[tuple[int, Contender, int]]) -> None:
        while not self._stopped.is_set():
            try:
                turn, contender, seed = left.popleft()
            except IndexError:
                return
            stop = threading.Event()
            self._stops.add(stop)
            if self._stopped.is_set():  # stopped after the loop's check: the stopper may not have seen this run
                return
            try:
                ran = self._one(turn, contender, seed, stop)
            finally:
                self._stops.discard(stop)
            if self._stopped.is_set():  # the run was cut short
                return
            with self._lock:
                self._done[contender, seed] = ran
                runfolder.append(self.path, json.dumps(ran.to_json()) + "\n")

    def _halt(self) -> None:
        """Start no further run; active runs end soon."""
        self._stopped.set()
        for stop in list(self._stops):
            stop.set()

    def _one(self, turn: int, contender: Contender, seed: int, stop: threading.Event) -> Ran:
        total = len(self.order.contenders) * len(self.order.seeds)
        who = " ".join(
            filter(None, (contender.catalog, engines_label(contender.engines), varied_label(contender.varied)))
        )
        said = _Said(self.watcher, f"{turn + 1}/{total} {who}", self.order.parallel == 1)
        command = self.order.command(contender, seed)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        folder: RunFolder | None = None
        known = secrets_of(self.order.workload.catalog_properties)
        hide = Redaction(known)
        try:
            theirs = external(
                user_file.load(Path(contender.catalog)) if user_file.is_file(contender.catalog) else None, None, None
            )
            hide = Redaction((*theirs.secrets, *known))
            installation = self._installation(contender)
            preflight(theirs)
            with self._lock:  # the links to the newest are one file
                folder = runfolder.create(self.runs, self.order.workload.workload)
            workload = engaged(self.order.workload, contender).model_copy(update={"catalog": contender.catalog})
            if (reason := unreachable(workload.engines, contender.catalog)) is not None:
                raise RunError(reason)
            said.say(f"seed {seed}, Iceberg {contender.iceberg}: {folder.path}")
            settings = Settings(
                seed=seed, command=command, proxied=True, stop=stop, external=theirs, clean=self.order.clean
            )
            self._execute(workload, folder, installation, settings, said)
            if self._stopped.is_set():
                folder.write_state({**folder.state(), "state": "interrupted"})
                return Ran(contender, seed)
            said.say("checking")
            measured = judge(folder, self.publish)
        except CANNOT as e:
            reason = hide.text(" ".join(str(e).split()))
            said.say(f"cannot be run: {reason}")
            told = catalog_of_plan(contender.catalog, External())
            return Ran(contender, seed, started, self._relative(folder), reason=reason, command=command, catalog=told)
        plan = folder.read_plan()
        return Ran(
            contender, seed, started, self._relative(folder), measured, None, plan.versions, command, plan.catalog
        )

    def _execute(
        self, workload: Workload, folder: RunFolder, installation: Installation, settings: Settings, said: Watcher
    ) -> None:
        """One run, with a stack of its own. Raises one of :data:`CANNOT`."""
        run = Run(workload, folder, installation, settings, watcher=said)
        try:
            run.execute()
        finally:
            for statement in run.left:
                said.say(f"left as evidence (--clean drops it): {statement}")

    def _installation(self, contender: Contender) -> Installation:
        """The installation of a contender; a release that failed to download is not tried again."""
        release = self.order.releases.get(contender.iceberg) or releases.find(contender.iceberg)
        workload = self.order.workload.model_copy(update={"catalog": contender.catalog})
        if (reason := cannot_run(release, workload)) is not None:
            raise RunError(f"Iceberg {release.label}: {reason}")
        if (reason := cannot_commit(workload)) is not None:
            raise RunError(reason)
        with self._lock:
            known = self._installed.get(release.label)
            if known is None:
                try:
                    known = setup.ensure_release(release)
                except SetupError as e:
                    known = str(e)
                self._installed[release.label] = known
        if isinstance(known, str):
            raise SetupError(known)
        return known

    def _relative(self, folder: RunFolder | None) -> str | None:
        if folder is None:
            return None
        with contextlib.suppress(ValueError):  # on another drive
            return os.path.relpath(folder.path, self.into)
        return str(folder.path)


def engaged(workload: Workload, contender: Contender) -> Workload:
    """The workload with a contender's values of parameters, and with as many writers, which are those of its engines in turn.

    Raises:
        ParameterError: a value does not fit.
    """
    if not contender.engines:
        return applied(workload, contender.varied)
    engines = tuple(islice(cycle(contender.engines), workload.writers))
    phases = (
        p.model_copy(update={"writers": sum(p.writers.values())}) if isinstance(p.writers, dict) else p
        for p in workload.phases
    )
    workload = workload.model_copy(update={"engines": engines, "phases": tuple(phases)})
    return applied(workload, contender.varied)


def _written_down(spec: Any) -> Any:
    """A workload, as JSON, without the secrets among its catalog's properties."""
    properties = spec.get("catalog_properties") if isinstance(spec, dict) else None
    if not isinstance(properties, dict):
        return spec
    return {**spec, "catalog_properties": masked({str(k): str(v) for k, v in properties.items()})}


def _differing(found: object, wanted: dict[str, Any]) -> Sequence[str]:
    """Keys of the workload in which two headers differ."""
    if not isinstance(found, dict):
        return []
    return [k for k in dict.fromkeys([*wanted, *found]) if found.get(k) != wanted.get(k)]
