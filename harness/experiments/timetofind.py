"""``icequake time-to-find``: how fast random workloads find the defects that are known, on warm stacks.

A *search* is one defect, one order of requests and one seed: runs of the defect's workload with fresh seeds, until the checkers report one of
its anomalies or the budget is used up. Searches of one catalog and release share a stack. The seeds of a search's runs do not depend on the
order, so each order gets the same operations. A search's line is in ``searches.jsonl`` before the next one begins, so a measurement that was
stopped goes on; a search that was cut short is made again. The folder of the run that found a defect is kept, the others are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from checkers.costs import defectsearch
from checkers.costs.defectsearch import DefectSearch
from checkers.coverage.coverage import of_folder
from checkers.coverage.pair import Pair
from checkers.evidence import journal, runfolder
from checkers.evidence.evidence import Evidence
from checkers.evidence.journal import Journal, JournalFormat
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.verdict import own_findings
from compose import setup
from compose.catalogs.registry import CATALOGS
from compose.install import releases
from compose.install.installation import Installation
from compose.redaction import secrets_of
from harness.campaign.campaign import Campaign, Done, JobAttempt, fingerprint
from harness.campaign.errors import dispensable
from harness.campaign.stacks import Key, Lease, WarmStacks
from harness.experiments.soakfolder import remove
from harness.experiments.soakstacks import sparks, strikes_processes
from harness.run.bench import Bench, Quietly
from harness.run.judged import Judge, Publish, judge_run
from harness.run.run import Run
from harness.run.settings import Settings, StandingStack, Watcher
from workloads import generator
from workloads.file.defect import Defect
from workloads.file.mode import Mode
from workloads.file.workload import Workload
from workloads.operations.kinds import KINDS

SEARCHES = "searches.jsonl"
RUNS, LOGS = "runs", "logs"
Seen = Mapping[Pair, int]


class FindError(ValueError):
    """A measurement cannot be continued or read; the message is one line with a remedy."""


class WarmSearch(Protocol):
    """A stack that is up."""

    def run(self, workload: Workload, folder: RunFolder, *, seed: int, command: str, seen: Seen) -> None:
        """One run of the workload into the folder. Raises what :meth:`harness.run.run.Run.execute` does."""

    def close(self) -> None:
        """End the stack."""


Job = tuple[Defect, str, int]
"""A search to be made: its defect, its order and its seed."""
Stack = tuple[str, ...]
"""Catalog, release and mode."""
Start = Callable[[Stack, int, Path, Watcher], WarmSearch]
"""(catalog and release, number of Spark writers, folder of its logs, watcher) → a stack that is up."""


def stack_of(d: Defect) -> Stack:
    """The catalog, the release and the mode in which a defect is looked for."""
    return d.catalog, d.iceberg or releases.DEFAULT.iceberg, *d.mode.given.values()


@dataclass(frozen=True)
class SearchPlan:
    """What is to be measured.

    Attributes:
        orders: who decides the order of requests, as a workload file has it.
        seeds: one search each.
        budget: seconds of load of one search.
        command: (defect, seed, order) → the command that repeats that search.
    """

    defects: tuple[Defect, ...]
    orders: tuple[str, ...]
    seeds: tuple[int, ...]
    budget: float
    command: Callable[[Defect, int, str], str]

    def header(self) -> dict[str, Any]:
        """The facts that all searches of one measurement share."""
        return {"budget": self.budget}

    def searches(self) -> list[Job]:
        """All searches: those of one stack together, and in it all defects with all orders for one seed after the other."""
        out = []
        for stack in dict.fromkeys(map(stack_of, self.defects)):
            own = [d for d in self.defects if stack_of(d) == stack]
            for n, seed in enumerate(self.seeds):
                out += [(d, o, seed) for d in own for o in (self.orders if n % 2 == 0 else reversed(self.orders))]
        return out


def facts_of(d: Defect) -> str:
    """A short hash of what a defect's file says: another one is measured anew."""
    facts = d.model_dump(mode="json", by_alias=True, exclude={"description", "scenarios"}, exclude_defaults=True)
    return fingerprint(facts)


def seed_of(defect: str, seed: int, number: int) -> int:
    """The seed of a search's run; ``number`` counts from 0."""
    digest = hashlib.sha256(f"{seed}/{defect}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 2**31


def new_folder(store: Path) -> Path:
    """The folder of a new measurement."""
    return store / "time-to-find" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


FORM = JournalFormat("a measurement", "a search", journal.as_type(DefectSearch), asdict, FindError)
"""``searches.jsonl``."""


def read(path: Path) -> tuple[dict[str, Any], list[DefectSearch]]:
    """Header and searches of a ``searches.jsonl``; of a search that was made again, the last one.

    Raises:
        FindError: the file is not one, or a line of it cannot be read.
    """
    header, found = journal.read(path, FORM)
    return header, list(last(found).values())


def last(lines: Iterable[DefectSearch]) -> dict[tuple[str, str, int], DefectSearch]:
    """The last line of each search: defect, order and seed → what it came to."""
    return {(s.defect, s.order, s.seed): s for s in lines}


class SearchBench:
    """A warm stack of real servers and Spark writers."""

    def __init__(self, bench: Bench, installation: Installation, inside: contextlib.ExitStack) -> None:
        self._bench = bench
        self._installation = installation
        self._inside = inside

    def run(self, workload: Workload, folder: RunFolder, *, seed: int, command: str, seen: Seen) -> None:
        """As :meth:`WarmSearch.run`. The writers' files do not pass through this process unless faults need it."""
        if not _only_catalog(workload):
            self._bench.run(
                workload,
                folder,
                generator.operations,
                command=command,
                seed=seed,
                share_final_reads=True,
                progress=False,
                capture_interval=_capture(workload),
                seen=seen,
            )
            return
        settings = Settings(
            seed=seed,
            command=command,
            proxied=True,
            store_too=False,
            warm=self._bench.sockets(),
            share_final_reads=True,
            capture_interval=_capture(workload),
            seen=seen,
        )
        standing = StandingStack(self._bench.endpoints, services=dict(self._bench.groups[0].services))
        Run(workload, folder, self._installation, settings, standing=standing, watcher=Quietly(None)).execute()

    def close(self) -> None:
        """As :meth:`WarmSearch.close`."""
        self._inside.close()


def _only_catalog(workload: Workload) -> bool:
    """Whether its faults strike requests to the catalog only, and the catalog is not the object store."""
    faults = () if workload.nemesis is None else workload.nemesis.all()
    by_requests = not strikes_processes(workload) and all(f.service == "catalog" for f in faults)
    return by_requests and CATALOGS[workload.catalog].wire != "s3"


def _capture(workload: Workload) -> float | None:
    """Seconds between two captures of the table log, where an expiry needs them."""
    faults = () if workload.nemesis is None else workload.nemesis.all()
    kinds = {*workload.operations, *(f.do for f in faults if f.do is not None)}
    return 5.0 if any(KINDS[k].needs_captured_log for k in kinds) else None


def start_bench(stack: Stack, writers: int, logs: Path, watcher: Watcher) -> SearchBench:
    """As :data:`Start`.

    Raises:
        SetupError, ServiceError, WriterError: something cannot be installed, or does not come up.
    """
    catalog, release, *mode = stack
    CATALOGS[catalog].check()
    installation = setup.ensure_release(releases.find(release))
    with contextlib.ExitStack() as opening:
        bench = opening.enter_context(Bench(installation, writers, logs, watcher, catalog=catalog, mode=Mode.of(mode)))
        return SearchBench(bench, installation, opening.pop_all())


@dataclass
class TimeToFind:
    """Makes the searches of an order into a folder.

    Args:
        into: the measurement's folder.
        publish: writes what people read, such as the page, into the folder of a run that found a defect.
        start: starts a stack; ``judge``: checks a run's folder.
        clock: seconds.
        finished: called with each search that is over.
    """

    order: SearchPlan
    into: Path
    watcher: Watcher
    publish: Publish[object]
    start: Start = start_bench
    judge: Judge = judge_run
    clock: Callable[[], float] = time.monotonic
    finished: Callable[[DefectSearch], None] = lambda _: None
    _going: DefectSearch | None = None
    """What is known of the search that goes on."""
    _journal: Journal[DefectSearch] = field(init=False)
    _stacks: WarmStacks[WarmSearch] = field(init=False)

    def __post_init__(self) -> None:
        self._journal = Journal(self.path, FORM, self.order.header())
        hidden = [s for d in self.order.defects for s in secrets_of(d.plain().catalog_properties)]
        self._stacks = WarmStacks(self._start, self.into / LOGS, self.watcher.say, tries=1, secrets=hidden)

    @property
    def path(self) -> Path:
        """The file of the searches."""
        return self.into / SEARCHES

    def searches(self) -> list[DefectSearch]:
        """The searches that are over, in the order in which they are to be made."""
        done = self._done
        return [s for d, o, seed in self.order.searches() if (s := done.get((d.defect, o, seed))) is not None]

    @property
    def _done(self) -> dict[tuple[str, str, int], DefectSearch]:
        facts = {d.defect: facts_of(d) for d in self.order.defects}
        return last(s for s in self._journal.lines if facts.get(s.defect, s.of) == s.of)

    def measure(self) -> list[DefectSearch]:
        """Make the searches that have not been made. One that could not be made has a line with the reason, and the others go on.

        Raises:
            FindError: the folder has another measurement, cannot be made, or somebody else writes there.
            OSError: the disk is full.
            KeyboardInterrupt: the user stopped it; finished searches are kept.
        """
        with self._journal:
            done = {key for key, s in self._done.items() if s.reason is None}
            Campaign(
                self.order.searches(),
                self._journal,
                self._stacks,
                self._search,
                self._could_not,
                self.watcher,
                name=lambda job: f"{job[0].defect}, {job[1]}, seed {job[2]}",
                made=lambda job: (job[0].defect, *job[1:]) in done,
                unit="searches",
                finished=self._tell,
            ).go()
        return self.searches()

    def _tell(self, lines: Sequence[DefectSearch]) -> None:
        for search in lines:
            self.finished(search)

    def _start(self, key: Key, logs: Path, _: WarmSearch | None) -> contextlib.closing[WarmSearch]:
        own = [d for d in self.order.defects if stack_of(d) == key]
        writers = max(1, *(sparks(d.plain()) for d in own))
        return contextlib.closing(self.start(stack_of(own[0]), writers, logs, self.watcher))

    # --- one search ---------------------------------------------------------------------------------------------------

    def _search(self, job: Job, attempt: JobAttempt) -> Done[DefectSearch]:
        """Runs with fresh seeds until one of them finds the defect, or the budget is used up."""
        defect, order, seed = job
        s = self._going = DefectSearch(defect.defect, order, seed, False, 0, 0, 0.0, 0.0, of=facts_of(defect))
        seen: Counter[Pair] = Counter()
        attempt.watcher.say("searching")
        while s.seconds < self.order.budget and not s.found:
            began, attempt.folder = self.clock(), None
            try:
                with self._stacks.lease(stack_of(defect)) as lease:
                    began = self.clock()
                    folder = attempt.folder = runfolder.create(self.into / RUNS, defect.defect)
                    attempt.scratch = folder.path
                    s = self._run(lease, folder, defect, s, seen)
            finally:
                s = self._going = replace(s, wall=round(s.wall + self.clock() - began, 3))
            if not s.found:
                remove(folder.path)
        return Done((s,))

    def _could_not(self, job: Job, attempt: JobAttempt, reason: str) -> list[DefectSearch]:
        assert self._going is not None
        where = "" if attempt.folder is None else f"{attempt.folder.path}: "
        return [replace(self._going, reason=f"{where}{reason}")]

    def _run(
        self, lease: Lease[WarmSearch], folder: RunFolder, defect: Defect, s: DefectSearch, seen: Counter[Pair]
    ) -> DefectSearch:
        """One run, judged; the search with it."""
        workload = defect.plain().model_copy(update={"order": s.order, "catalog": stack_of(defect)[0]})
        command = self.order.command(defect, s.seed, s.order)
        number = seed_of(defect.defect, s.seed, s.runs)
        lease.stack.run(workload, folder, seed=number, command=command, seen=dict(seen))
        if strikes_processes(workload):
            lease.spoil()
        judged = self.judge(folder, lambda *_: None)
        anomalies = own_findings([a for v in judged.results.verdicts for a in v.anomalies])
        moment = defectsearch.found_in(judged.evidence, anomalies, defect.found, defect.tables_of)
        took = defectsearch.spent(judged.evidence) if moment is None else moment
        seen.update(self._exercised(folder, judged.evidence))
        if moment is not None:
            self.publish(folder, judged.evidence)
        return replace(
            s,
            found=moment is not None,
            runs=s.runs + 1,
            operations=s.operations + took.operations,
            seconds=round(s.seconds + max(took.seconds, 0.001), 3),
            pairs=len(seen),
            anomalies=dict(Counter(s.anomalies) + Counter(a.name for a in anomalies)),
            folder=None if moment is None else folder.path.relative_to(self.into).as_posix(),
            command=None if moment is None else command,
        )

    def _exercised(self, folder: RunFolder, evidence: Evidence) -> Seen:
        """The pairs of a run; without them nothing is missing but a figure, and what guides the next run."""
        exercised: Seen = {}
        with dispensable(f"the coverage of {folder.path.name} is not known", self.watcher.say):
            exercised = of_folder(folder.path, evidence).seen
        return exercised


def together(folders: Iterable[Path], defects: Sequence[Defect]) -> tuple[list[DefectSearch], float]:
    """The searches of several measurements of the same budget, for these defects; and that budget in seconds.

    Raises:
        FindError: one cannot be read, or has another budget.
    """
    facts = {d.defect: facts_of(d) for d in defects}
    place = {d.defect: n for n, d in enumerate(defects)}
    found: dict[tuple[str, str, int], DefectSearch] = {}
    budgets: dict[float, Path] = {}
    for folder in folders:
        header, lines = read(folder / SEARCHES)
        budgets.setdefault(float(header["budget"]), folder)
        found |= last(s for s in lines if facts.get(s.defect) == s.of)
    if len(budgets) > 1:
        raise FindError(
            f"the budgets differ: {', '.join(f'{b:g} s in {p}' for b, p in budgets.items())}; give folders of one"
        )
    return sorted(found.values(), key=lambda s: place[s.defect]), next(iter(budgets), 0.0)
