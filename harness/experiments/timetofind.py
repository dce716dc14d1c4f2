"""``icequake time-to-find``: how fast random workloads find the defects that are known, on warm stacks.

A *search* is one defect, one order of requests and one seed: runs of the defect's workload with fresh seeds, until the checkers report one of
its anomalies or the budget is used up. Searches of one catalog and release share a stack. The seeds of a search's runs do not depend on the
order, so each order gets the same operations. A search's line is in ``searches.jsonl`` before the next one begins, so a measurement that was
stopped goes on; a search that was cut short is made again. The folder of the run that found a defect is kept, the others are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from checkers.costs import timetofind
from checkers.costs.timetofind import Search
from checkers.coverage.coverage import of_folder
from checkers.coverage.pair import Pair
from checkers.evidence import runfolder
from checkers.evidence.evidence import Evidence
from checkers.evidence.runfolder import RunFolder
from checkers.verdict import own_findings
from compose import setup
from compose.catalogs.registry import CATALOGS
from compose.install import releases
from compose.install.installation import Installation
from harness.experiments.compare import CANNOT
from harness.experiments.soak import STACK_RUNS, Judge
from harness.experiments.soakfolder import remove
from harness.experiments.soakstacks import new_logs, sparks, strikes_processes
from harness.run.bench import Bench, Quietly
from harness.run.judged import Publish, judge_run
from harness.run.run import Run
from harness.run.settings import Settings, StandingStack, Watcher
from workloads import generator
from workloads.file.defect import Defect
from workloads.file.workload import Workload
from workloads.operations.kinds import KINDS

FORMAT = 1
SEARCHES = "searches.jsonl"
RUNS, LOGS = "runs", "logs"
Seen = Mapping[Pair, int]
FAILS = (*CANNOT, runfolder.StoreError)
"""Errors that end one search and not the others."""


class FindError(ValueError):
    """A measurement cannot be continued or read; the message is one line with a remedy."""


class Warm(Protocol):
    """A stack that is up."""

    def run(self, workload: Workload, folder: RunFolder, *, seed: int, command: str, seen: Seen) -> None:
        """One run of the workload into the folder. Raises what :meth:`harness.run.run.Run.execute` does."""

    def close(self) -> None:
        """End the stack."""


Stack = tuple[str, str]
"""Catalog and release."""
Start = Callable[[Stack, int, Path, Watcher], Warm]
"""(catalog and release, number of Spark writers, folder of its logs, watcher) → a stack that is up. Raises one of
:data:`harness.experiments.compare.CANNOT`."""


def stack_of(d: Defect) -> Stack:
    """The catalog and the release on which a defect is looked for."""
    return d.catalog, d.iceberg or releases.DEFAULT.iceberg


@dataclass(frozen=True)
class Order:
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
        return {"format": FORMAT, "budget": self.budget}

    def searches(self) -> list[tuple[Defect, str, int]]:
        """All searches: those of one stack together, and in it all defects with all orders for one seed after the other."""
        out = []
        for stack in dict.fromkeys(map(stack_of, self.defects)):
            mine = [d for d in self.defects if stack_of(d) == stack]
            for n, seed in enumerate(self.seeds):
                out += [(d, o, seed) for d in mine for o in (self.orders if n % 2 == 0 else reversed(self.orders))]
        return out


def facts_of(d: Defect) -> str:
    """A short hash of what a defect's file says: another one is measured anew."""
    said = d.model_dump(mode="json", by_alias=True, exclude={"description", "scenarios"}, exclude_defaults=True)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]


def seed_of(defect: str, seed: int, number: int) -> int:
    """The seed of a search's run; ``number`` counts from 0."""
    digest = hashlib.sha256(f"{seed}/{defect}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 2**31


def new_folder(store: Path) -> Path:
    """The folder of a new measurement."""
    return store / "time-to-find" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def read(path: Path) -> tuple[dict[str, Any], list[tuple[str, Search]]]:
    """Header and searches of a ``searches.jsonl``, each with the hash of its definition; of a search that was made again, the last one; a
    torn last line is left out.

    Raises:
        FindError: the file is not one.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        header = json.loads(lines[0])
        if header.get("format") != FORMAT:
            raise ValueError(f"format {header.get('format')!r} is not known")
        found = [(str(r["of"]), Search.from_json(r)) for r in map(json.loads, filter(None, lines[1:-1]))]
    except OSError as e:
        raise FindError(f"{path}: cannot be read: {e.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as e:
        raise FindError(f"{path}: not the searches of a measurement: {type(e).__name__}: {e}") from None
    return header, list({(s.defect, s.order, s.seed): (of, s) for of, s in found}.values())


class OnBench:
    """A warm stack of real servers and Spark writers."""

    def __init__(self, bench: Bench, installation: Installation, inside: contextlib.ExitStack) -> None:
        self._bench = bench
        self._installation = installation
        self._inside = inside

    def run(self, workload: Workload, folder: RunFolder, *, seed: int, command: str, seen: Seen) -> None:
        """As :meth:`Warm.run`. The writers' files do not pass through this process unless faults need it."""
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
        """As :meth:`Warm.close`."""
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


def start_bench(stack: Stack, writers: int, logs: Path, watcher: Watcher) -> OnBench:
    """As :data:`Start`.

    Raises:
        SetupError, ServiceError, WriterError: something cannot be installed, or does not come up.
    """
    catalog, release = stack
    CATALOGS[catalog].check()
    installation = setup.ensure_release(releases.find(release))
    with contextlib.ExitStack() as opening:
        bench = opening.enter_context(Bench(installation, writers, logs, watcher, catalog=catalog))
        return OnBench(bench, installation, opening.pop_all())


@dataclass
class TimeToFind:
    """Makes the searches of an order into a folder; use in ``with``, which ends the stack that is up.

    Args:
        into: the measurement's folder.
        publish: writes what people read, such as the page, into the folder of a run that found a defect.
        start: starts a stack; ``judge``: checks a run's folder.
        clock: seconds.
        said: called with each search that is over.
    """

    order: Order
    into: Path
    watcher: Watcher
    publish: Publish[object]
    start: Start = start_bench
    judge: Judge = judge_run
    clock: Callable[[], float] = time.monotonic
    said: Callable[[Search], None] = lambda _: None
    _done: dict[tuple[str, str, int], Search] = field(default_factory=dict)
    _absent: dict[Stack, str] = field(default_factory=dict)
    """Stacks that do not come up, and why; each is tried once in a session."""
    _up: tuple[Stack, Warm] | None = None
    _runs: int = 0

    def __enter__(self) -> TimeToFind:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def path(self) -> Path:
        """The file of the searches."""
        return self.into / SEARCHES

    def searches(self) -> list[Search]:
        """The searches that are over, in the order in which they are to be made."""
        return [s for d, o, seed in self.order.searches() if (s := self._done.get((d.defect, o, seed))) is not None]

    def measure(self) -> list[Search]:
        """Make the searches that have not been made.

        Raises:
            FindError: the folder has another measurement, or cannot be made.
            KeyboardInterrupt: the user stopped it; finished searches are kept.
        """
        self._begin()
        every = self.order.searches()
        left = [x for x in every if (done := self._done.get((x[0].defect, x[1], x[2]))) is None or done.reason]
        if len(left) < len(every):
            self.watcher.say(f"{len(every) - len(left)} of {len(every)} searches are made already")
        self._absent.clear()
        for n, (defect, order, seed) in enumerate(left, 1):
            self.watcher.say(f"{n}/{len(left)} {defect.defect}, {order}, seed {seed}")
            stack = stack_of(defect)
            if (reason := self._absent.get(stack)) is not None:
                self._add(defect, Search(defect.defect, order, seed, False, 0, 0, 0.0, 0.0, reason=reason))
            else:
                self._add(defect, self._search(defect, order, seed))
        self._close()
        return self.searches()

    def _begin(self) -> None:
        header = self.order.header()
        try:
            self.into.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            if e.errno in runfolder.FULL:
                raise
            raise FindError(f"{self.into}: cannot be made: {e.strerror}; give another --into") from None
        if not self.path.exists():
            runfolder.replace_file(self.path, json.dumps(header) + "\n")
            return
        found, lines = read(self.path)
        if found != header:
            raise FindError(
                f"{self.path}: measured with a budget of {found.get('budget')} s; give another --into, or that budget"
            )
        facts = {d.defect: facts_of(d) for d in self.order.defects}
        mine = [(of, s) for of, s in lines if s.defect not in facts or facts[s.defect] == of]
        self._done = {(s.defect, s.order, s.seed): s for _, s in mine}
        told = [json.dumps(header), *(json.dumps({"of": of, **s.to_json()}) for of, s in mine)]
        runfolder.replace_file(self.path, "\n".join(told) + "\n")  # without a torn last line

    def _add(self, defect: Defect, search: Search) -> None:
        self._done[search.defect, search.order, search.seed] = search
        runfolder.append(self.path, json.dumps({"of": facts_of(defect), **search.to_json()}) + "\n")
        self.said(search)

    # --- one search ---------------------------------------------------------------------------------------------------

    def _search(self, defect: Defect, order: str, seed: int) -> Search:
        """Runs with fresh seeds until one of them finds the defect, or the budget is used up."""
        s = Search(defect.defect, order, seed, False, 0, 0, 0.0, 0.0)
        seen: Counter[Pair] = Counter()
        workload = defect.plain().model_copy(update={"order": order, "catalog": stack_of(defect)[0]})
        while s.seconds < self.order.budget:
            number = seed_of(defect.defect, seed, s.runs)
            command = self.order.command(defect, seed, order)
            try:
                warm = self._ready(defect)
            except CANNOT as e:
                self._absent[stack_of(defect)] = " ".join(str(e).split())
                return replace(s, reason=self._absent[stack_of(defect)])
            began = self.clock()
            folder = runfolder.create(self.into / RUNS, defect.defect)
            try:
                warm.run(workload, folder, seed=number, command=command, seen=dict(seen))
                judged = self.judge(folder, lambda *_: None)
            except FAILS as e:
                self._close()
                said = f"{folder.path}: {' '.join(str(e).split())}"
                return replace(s, wall=round(s.wall + self.clock() - began, 3), reason=said)
            except BaseException:
                remove(folder.path)  # it was cut short
                raise
            if strikes_processes(workload):
                self._close()
            anomalies = own_findings([a for v in judged.results.verdicts for a in v.anomalies])
            at = timetofind.found_in(judged.evidence, anomalies, defect.found, defect.tables_of)
            took = timetofind.spent(judged.evidence) if at is None else at
            seen.update(self._exercised(folder, judged.evidence))
            s = replace(
                s,
                found=at is not None,
                runs=s.runs + 1,
                operations=s.operations + took.operations,
                seconds=round(s.seconds + max(took.seconds, 0.001), 3),
                wall=round(s.wall + self.clock() - began, 3),
                pairs=len(seen),
                anomalies=dict(Counter(s.anomalies) + Counter(a.name for a in anomalies)),
            )
            if s.found:
                self.publish(folder, judged.evidence)
                return replace(s, folder=folder.path.relative_to(self.into).as_posix(), command=command)
            remove(folder.path)
        return s

    def _exercised(self, folder: RunFolder, evidence: Evidence) -> Seen:
        """The pairs of a run; without them nothing is missing but a figure, and what guides the next run."""
        try:
            return of_folder(folder.path, evidence).seen
        except FAILS as e:
            self.watcher.say(f"the coverage of {folder.path.name} is not known: {e}")
            return {}

    # --- stacks -------------------------------------------------------------------------------------------------------

    def _ready(self, defect: Defect) -> Warm:
        """The stack of a defect, which is up."""
        stack = stack_of(defect)
        if self._up is not None and (self._up[0] != stack or self._runs >= STACK_RUNS):
            self._close()
        if self._up is None:
            name = " ".join(stack)
            self.watcher.say(f"starting the stack of {name}")
            writers = max(1, *(sparks(d.plain()) for d in self.order.defects if stack_of(d) == stack))
            self._up = (stack, self.start(stack, writers, new_logs(self.into / LOGS, stack), self.watcher))
            self._runs = 0
        self._runs += 1
        return self._up[1]

    def _close(self) -> None:
        up, self._up = self._up, None
        if up is None:
            return
        try:
            up[1].close()
        except CANNOT as e:
            self.watcher.say(f"the stack of {' '.join(up[0])} did not end in order: {e}")


def together(folders: Iterable[Path], defects: Sequence[Defect]) -> tuple[list[Search], float]:
    """The searches of several measurements of the same budget, for these defects; and that budget in seconds.

    Raises:
        FindError: one cannot be read, or has another budget.
    """
    facts = {d.defect: facts_of(d) for d in defects}
    place = {d.defect: n for n, d in enumerate(defects)}
    found: dict[tuple[str, str, int], Search] = {}
    budgets: dict[float, Path] = {}
    for folder in folders:
        header, lines = read(folder / SEARCHES)
        budgets.setdefault(float(header["budget"]), folder)
        found |= {(s.defect, s.order, s.seed): s for of, s in lines if facts.get(s.defect) == of}
    if len(budgets) > 1:
        raise FindError(
            f"the budgets differ: {', '.join(f'{b:g} s in {p}' for b, p in budgets.items())}; give folders of one"
        )
    return sorted(found.values(), key=lambda s: place[s.defect]), next(iter(budgets), 0.0)
