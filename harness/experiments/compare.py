"""``icequake compare``: the same workload, seeds and faults on several catalogs and releases of Iceberg, one run after the other.

All contenders run for each seed; the order is reversed from seed to seed, so that a machine that gets slower affects all alike. Each run is
like one of ``icequake run``: a folder in the store, judged by all checkers, with its page; but every service has a proxy in front even without
faults, because the proxies count the requests. A run's figures are appended to ``runs.jsonl`` once it is judged, so a stopped comparison
continues where it was, and one that is called again with more seeds or contenders measures only the new ones.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from checkers.costs import measures
from checkers.costs.comparison import Comparison, Contender, Ran, engines_label, varied_label
from checkers.evidence import journal, runfolder
from checkers.evidence.journal import Form, Journal
from checkers.evidence.runfolder import RunFolder
from compose import setup
from compose.catalogs import user_file
from compose.external.external import External, external
from compose.external.preflight import preflight
from compose.install import releases
from compose.install.cache import SetupError
from compose.install.installation import Installation
from compose.install.releases import Release
from compose.redaction import Redaction, masked, secrets_of
from harness.campaign.errors import is_full, keep_details, why
from harness.run.judged import Judge, Publish, judge_run
from harness.run.plan import catalog_of_plan
from harness.run.reach import unreachable
from harness.run.run import Run
from harness.run.settings import RunError, Settings, Watcher
from harness.run.versions import cannot_commit, cannot_run
from workloads.file.parameters import applied
from workloads.file.workload import Workload

RUNS = "runs.jsonl"


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
        return {"workload": _written_down(spec), "parallel": self.parallel}

    def turns(self) -> list[tuple[Contender, int]]:
        """All runs in their order: forward for the first seed, backward for the second, and so on."""
        out = []
        for n, seed in enumerate(self.seeds):
            out += [(c, seed) for c in (self.contenders if n % 2 == 0 else reversed(self.contenders))]
        return out


def _without_secrets(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A header without the secrets that earlier releases wrote down."""
    return {**values, "workload": _written_down(values["workload"])} if "workload" in values else values


FORM = Form("a comparison", "a run", Ran.from_json, Ran.to_json, CompareError, upgrade=_without_secrets)
"""``runs.jsonl``."""


def read(path: Path) -> tuple[dict[str, Any], list[Ran]]:
    """Header and runs of a ``runs.jsonl``; for a run that was repeated, the last one counts.

    Raises:
        CompareError: the file is not one, or a line of it cannot be read.
    """
    header, found = journal.read(path, FORM)
    return header, list({(r.contender, r.seed): r for r in found}.values())


def first_seed(into: Path) -> int | None:
    """The first seed of the comparison in a folder; None if there is none."""
    path = into / RUNS
    return min((r.seed for r in read(path)[1]), default=None) if path.exists() else None


def new_folder(runs: Path, workload: str) -> Path:
    """The folder of a new comparison; apart from the runs, whose folder names are only a time."""
    return runs / "compare" / f"{workload}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


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
        judge: checks a run's folder and publishes what it found.
    """

    order: Order
    into: Path
    runs: Path
    watcher: Watcher
    publish: Publish[object]
    judge: Judge = judge_run
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _stops: set[threading.Event] = field(default_factory=set)
    """One per active run: a failed run sets its own, which does not affect the others."""
    _installed: dict[str, Installation | str] = field(default_factory=dict)
    _journal: Journal[Ran] | None = None
    _done: dict[tuple[Contender, int], Ran] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file of the runs."""
        return self.into / RUNS

    def measure(self) -> Comparison:
        """Run what has not been run yet. A run that could not be made has a line with the reason, and the others go on.

        Raises:
            CompareError: the folder has another comparison, cannot be made, or somebody else writes there.
            OSError: the disk is full.
            KeyboardInterrupt: the user stopped it; finished runs are kept.
        """
        with Journal(self.path, FORM, self.order.header()) as self._journal:
            self._done = {(r.contender, r.seed): r for r in self._journal.lines}
            return self._measure()

    def _measure(self) -> Comparison:
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
        header = {} if self._journal is None else self._journal.header
        return Comparison(header, self.order.contenders, self.order.seeds, tuple(runs))

    def _measured(self, c: Contender, seed: int) -> bool:
        ran = self._done.get((c, seed))
        return ran is not None and ran.measures is not None

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
            assert self._journal is not None
            self._journal.append(ran)

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
            self._execute(contender, workload, folder, installation, settings, said)
            if self._stopped.is_set():
                folder.write_state({**folder.state(), "state": "interrupted"})
                return Ran(contender, seed)
            said.say("checking")
            judged = self.judge(folder, self.publish)
            measured = measures.measure(judged.evidence, judged.results, measures.requests(folder.proxy))
        except Exception as e:  # whatever it is, the other runs go on
            if is_full(e):
                raise
            reason = why(e, hide)
            if folder is not None:
                keep_details(e, folder.logs, hide)
            said.say(f"cannot be run: {reason}")
            told = catalog_of_plan(contender.catalog, External())
            return Ran(contender, seed, started, self._relative(folder), reason=reason, command=command, catalog=told)
        plan = folder.read_plan()
        return Ran(
            contender, seed, started, self._relative(folder), measured, None, plan.versions, command, plan.catalog
        )

    def _execute(
        self,
        contender: Contender,
        workload: Workload,
        folder: RunFolder,
        installation: Installation,
        settings: Settings,
        said: Watcher,
    ) -> None:
        """One run, with a stack of its own."""
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
