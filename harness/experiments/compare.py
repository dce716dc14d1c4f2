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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from typing import Any, ClassVar

from checkers.costs import measures
from checkers.costs.comparison import Comparison, Contender, ContenderRun, engines_label, varied_label
from checkers.evidence import journal, runfolder
from checkers.evidence.journal import Journal, JournalFormat
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
from harness.campaign.campaign import Campaign, CouldNotRun, Done, JobAttempt
from harness.campaign.stacks import WarmStacks
from harness.run.errors import RunError
from harness.run.judged import Judge, Publish, judge_run
from harness.run.plan import catalog_of_plan
from harness.run.reach import unreachable
from harness.run.run import Run
from harness.run.settings import Settings, Watcher
from harness.run.versions import cannot_commit, cannot_run
from workloads.file.parameters import applied
from workloads.file.workload import Workload

RUNS_FILE = "runs.jsonl"
Job = tuple[Contender, int]
"""A run to be made: its contender and its seed."""


class CompareError(ValueError):
    """A comparison cannot be continued or read; the message is one line with a remedy."""


@dataclass(frozen=True)
class ComparisonPlan:
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

    def turns(self) -> list[Job]:
        """All runs in their order: forward for the first seed, backward for the second, and so on."""
        out = []
        for n, seed in enumerate(self.seeds):
            out += [(c, seed) for c in (self.contenders if n % 2 == 0 else reversed(self.contenders))]
        return out


def _without_secrets(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A header without the secrets that earlier releases wrote down."""
    return {**values, "workload": _written_down(values["workload"])} if "workload" in values else values


FORM = JournalFormat(
    "a comparison",
    "a run",
    ContenderRun.from_json,
    ContenderRun.to_json,
    CompareError,
    options={"parallel": "--parallel"},
    upgrade=_without_secrets,
)
"""``runs.jsonl``."""


def read(path: Path) -> tuple[dict[str, Any], list[ContenderRun]]:
    """Header and runs of a ``runs.jsonl``; for a run that was repeated, the last one counts.

    Raises:
        CompareError: the file is not one, or a line of it cannot be read.
    """
    header, found = journal.read(path, FORM)
    return header, list(last(found).values())


def last(lines: Iterable[ContenderRun]) -> dict[Job, ContenderRun]:
    """The last line of each run."""
    return {(r.contender, r.seed): r for r in lines}


def first_seed(into: Path) -> int | None:
    """The first seed of the comparison in a folder; None if there is none."""
    path = into / RUNS_FILE
    return min((r.seed for r in read(path)[1]), default=None) if path.exists() else None


def new_folder(runs: Path, workload: str) -> Path:
    """The folder of a new comparison; apart from the runs, whose folder names are only a time."""
    return runs / "compare" / f"{workload}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


@dataclass
class Compare:
    """Runs an :class:`ComparisonPlan` into a folder.

    Args:
        into: the comparison's folder.
        runs: the store of the runs.
        publish: writes what people read, such as the page, into the folder of a judged run.
        judge: checks a run's folder and publishes what it found.
        finished: called with the line of each run.
    """

    order: ComparisonPlan
    into: Path
    runs: Path
    watcher: Watcher
    publish: Publish[object]
    judge: Judge = judge_run
    finished: Callable[[Sequence[ContenderRun]], object] = lambda _: None
    command: ClassVar[str] = "compare"
    """Whose folder it is, as it is typed."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _installed: dict[str, Installation | str] = field(default_factory=dict)
    _journal: Journal[ContenderRun] = field(init=False)
    _stacks: WarmStacks[Any] | None = None

    def __post_init__(self) -> None:
        self._journal = Journal(self.path, FORM, self.order.header(), also={"command": self.command})

    @property
    def path(self) -> Path:
        """The file of the runs."""
        return self.into / RUNS_FILE

    def measure(self) -> Comparison:
        """Run what has not been run yet. A run that could not be made has a line with the reason, and the others go on.

        Raises:
            CompareError: the folder has another comparison, cannot be made, or somebody else writes there.
            OSError: the disk is full.
            KeyboardInterrupt: the user stopped it; finished runs are kept.
        """
        with self._journal:
            done = {key for key, r in last(self._journal.lines).items() if r.measures is not None}
            Campaign(
                self.order.turns(),
                self._journal,
                self._stacks,
                self._run,
                self._could_not,
                self.watcher,
                name=_words,
                made=lambda job: job in done,
                unit="runs",
                at_once=self.order.parallel,
                hide=Redaction(secrets_of(self.order.workload.catalog_properties)),
                finished=self.finished,
            ).go()
        return self.comparison()

    def comparison(self) -> Comparison:
        """The comparison of the runs so far."""
        wanted = set(self.order.turns())
        runs = [r for key, r in last(self._journal.lines).items() if key in wanted]
        return Comparison(self._journal.header, self.order.contenders, self.order.seeds, tuple(runs))

    def _run(self, job: Job, attempt: JobAttempt) -> Done[ContenderRun] | CouldNotRun:
        """One run, judged and measured."""
        (contender, seed), watcher = job, attempt.watcher
        own = user_file.load(Path(contender.catalog)) if user_file.is_file(contender.catalog) else None
        supplied = external(own, None, None)
        attempt.hide = Redaction((*supplied.secrets, *secrets_of(self.order.workload.catalog_properties)))
        installation = self._installation(contender)
        preflight(supplied)
        with self._lock:  # the links to the newest are one file
            folder = attempt.folder = runfolder.create(self.runs, self.order.workload.workload)
        workload = engaged(self.order.workload, contender).model_copy(update={"catalog": contender.catalog})
        if (reason := unreachable(workload.engines, contender.catalog)) is not None:
            raise RunError(reason)
        watcher.say(f"seed {seed}, Iceberg {contender.iceberg}: {folder.path}")
        command, clean = self.order.command(contender, seed), self.order.clean
        settings = Settings(seed=seed, command=command, proxied=True, stop=attempt.stop, external=supplied, clean=clean)
        self._execute(contender, workload, folder, installation, settings, watcher)
        if attempt.cut_short:
            folder.write_state({**folder.state(), "state": "interrupted"})
            return CouldNotRun("it was cut short")
        watcher.say("checking")
        judged = self.judge(folder, self.publish)
        measured = measures.measure(judged.evidence, judged.results, measures.requests(folder.proxy))
        plan, where = folder.read_plan(), self._relative(folder)
        return Done(
            (
                ContenderRun(
                    contender, seed, attempt.started, where, measured, None, plan.versions, command, plan.catalog
                ),
            )
        )

    def _could_not(self, job: Job, attempt: JobAttempt, reason: str) -> list[ContenderRun]:
        where, catalog = self._relative(attempt.folder), catalog_of_plan(job[0].catalog, External())
        command = self.order.command(*job)
        return [ContenderRun(*job, attempt.started, where, reason=reason, command=command, catalog=catalog)]

    def _execute(
        self,
        contender: Contender,
        workload: Workload,
        folder: RunFolder,
        installation: Installation,
        settings: Settings,
        watcher: Watcher,
    ) -> None:
        """One run, with a stack of its own."""
        run = Run(workload, folder, installation, settings, watcher=watcher)
        try:
            run.execute()
        finally:
            for statement in run.leftovers:
                watcher.say(f"left as evidence (--clean drops it): {statement}")

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


def _words(job: Job) -> str:
    """A run, where it is said."""
    contender, _ = job
    return " ".join(filter(None, (contender.catalog, engines_label(contender.engines), varied_label(contender.varied))))


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
