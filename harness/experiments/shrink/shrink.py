"""``icequake shrink``: a failed run becomes a recording with few operations, and that a scenario file.

1. :mod:`.guess`: parts of the run that may be enough. The first one that shows the anomaly, when it is replayed, is what is reduced.
2. :mod:`.reduction`, :mod:`.candidates`: delta debugging over tables, writers, operations, faults, rows; each candidate is replayed.
3. :mod:`.translate`: the smallest one as a scenario file, run by the code of ``prove``; then the waits that it does not need are taken away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkers.evidence import error_chain
from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder, replace_file
from checkers.judge.accepted import least, stricter
from checkers.judge.check import ALL, check
from checkers.judge.known import KnownDefect, of_scenario
from checkers.judge.runfolder import Results, load_evidence, load_promises, load_ran
from checkers.judge.stories import Stories, Story, anomalies_of
from checkers.verdict import Anomaly, own_findings
from harness.experiments.shrink.candidates import PASSES, PHASE, measure, only, plain
from harness.experiments.shrink.guess import guesses
from harness.experiments.shrink.log import Trial
from harness.experiments.shrink.rare import Rare, search, settled
from harness.experiments.shrink.reduction import BudgetSpent, Reduced, Tries, reduced
from harness.experiments.shrink.translate import (
    CONDITIONS,
    About,
    Translation,
    Untranslatable,
    conditions,
    described,
    opposite,
    translate,
)
from harness.experiments.shrink.trials import Trials
from harness.run.errors import RunError
from harness.run.hidden import revealed
from harness.run.recorded import recording_of
from harness.run.settings import Watcher
from reports.drawing.words import plural
from reports.reproduction.issue import NOWHERE, seen_of
from reports.shrunk import ShrinkStep
from workloads.engines.engine import Engine
from workloads.engines.engines import ENGINES
from workloads.file.recording import FILE as RECORDING
from workloads.file.recording import RecordedOperation, Recording
from workloads.file.scenario import ExpectedEnd, Scenario
from workloads.operations.kinds import KINDS

NOT_AGAIN = "no part of the run showed it again when it was replayed"
TOO_SHORT = "the time ended before anything smaller showed it"
NOT_RUN = "its scenario was not run as a whole: the time ended first"


ANOTHER = "run the workload again, with another seed or for longer, or take a run that failed (icequake list runs)"
"""What to do with a run in which nothing was broken."""


class NothingToShrink(ValueError):
    """The run does not show what is to be shrunk; one line with what it shows."""


@dataclass(frozen=True)
class Failed:
    """A failed run, judged.

    Attributes:
        found: the anomalies of the name that is looked for.
        recording: of the run.
        new: whether they are in no known story: then what a known defect alone shows is not what is looked for.
    """

    folder: RunFolder
    evidence: Evidence
    results: Results
    name: str
    found: tuple[Anomaly, ...]
    recording: Recording
    versions: Mapping[str, str]
    new: bool = False


def told_of(results: Results) -> dict[int, Story]:
    """The ``id`` of each anomaly of a run → the story that it is in."""
    return {id(a): s for s in results.told.stories for a in anomalies_of(s, results.verdicts)}


def failed(folder: RunFolder, name: str | None, op: str | None = None) -> Failed:
    """Judge a run and choose what is looked for: ``name``, or its first own finding that its workload does not allow. Of one name, what is
    in no known story comes first.

    Args:
        op: an operation of the story that is meant, such as its card shows; None: any.

    Raises:
        NothingToShrink: it found nothing of that name, or nothing at all, or nothing that the operation has to do with.
        StoreError, HistoryError, TableLogError, RunError: a file of the run cannot be read, or its order or a secret of it is not known.
    """
    evidence = load_evidence(folder.path)
    results = check(evidence, ALL, load_promises(folder.path), ran=load_ran(folder.path))
    found = own_findings([a for v in results.verdicts for a in v.anomalies if v.checker not in ("expect", "assert")])
    told = told_of(results)
    if op is not None:
        found = _of_operation(found, told, op)
        if not found:
            raise NothingToShrink(
                f"{folder.path}: nothing to shrink, no anomaly that it found is about operation {op}; the cards of its page name those that are"
            )
    of_op = "" if op is None else f" of {op}"
    names = list(dict.fromkeys(a.name for a in sorted(found, key=lambda a: bool(results.accepted.mark(a)))))
    if name is None:
        surprising = [a.name for a in found if not results.accepted.mark(a)]
        if not surprising:
            more = f"; it found {', '.join(names)}, which its workload allows: name it with --anomaly"
            none = f"; no promise was broken, so there is nothing to reproduce either: {ANOTHER}"
            raise NothingToShrink(
                f"{folder.path}: nothing to shrink, no checker found an anomaly that may not be{more if names else none}"
            )
        name = surprising[0]
    own = tuple(a for a in found if a.name == name)
    if not own:
        has = f"it found {', '.join(names)}" if names else "it found no anomaly"
        raise NothingToShrink(f"{folder.path}: nothing to shrink, it did not find {name}{of_op}; {has}")
    new = tuple(a for a in own if (s := told.get(id(a))) is None or not s.known)
    if not folder.proxy.exists():
        raise RunError(
            f"{folder.path}: the run has no proxy log, so the order of its requests is not known; make it again with --order free"
        )
    recording = recording_of(folder)
    revealed(recording.workload.catalog_properties, str(folder.plan))
    # Of a run of the library's own scenarios nothing is called known.
    is_new = bool(new) and of_scenario(recording.workload.workload) is None
    return Failed(folder, evidence, results, name, new or own, recording, folder.read_plan().versions, is_new)


def _of_operation(found: list[Anomaly], told: Mapping[int, Story], op: str) -> list[Anomaly]:
    """The anomalies of the stories that an operation is in: of those that are told by it (``Story.concerned``), if there are some."""
    stories = list(told.values())
    meant = {id(s) for s in stories if op in s.concerned} or {id(s) for s in stories if op in s.ops}
    named = [a for a in found if op in a.ops]
    return [a for a in found if id(told.get(id(a))) in meant] or named


def stand_in(run: Failed) -> frozenset[str]:
    """What is repeated if the anomaly names operations of the set-up alone, which no recording has: a commit on its table, best an insert."""
    tables = {a.table for a in run.found}
    commits = [o for o in run.recording.operations if (k := KINDS.get(o.f)) is not None and k.commits]
    ranked = sorted(commits, key=lambda o: (o.table not in tables, o.f != "insert"))
    return frozenset(o.op for o in ranked[:1])


def on_catalog(run: Failed, catalog: str) -> Failed:
    """The same run to be shrunk on this catalog; of a user's own one the path of its file."""
    recording = run.recording
    workload = recording.workload.model_copy(update={"catalog": catalog})
    return replace(run, recording=replace(recording, workload=workload, catalog=catalog))


def recording_of_one(r: Recording, s: Scenario) -> Recording:
    """One repetition of a scenario as a recording that asks for no order."""
    operations = tuple(
        RecordedOperation(f"w{o.writer}-{n}", o.writer, o.do, s.table(o).name, dict(o.value), PHASE)
        for n, o in enumerate(s.operations)
    )
    return replace(r, workload=s.workload(), operations=operations, order=(), faults=())


class Shrink:
    """One shrink. The folder has, when it ends or is stopped, the smallest recording so far.

    Args:
        into: its folder.
        tries: runs of a candidate until it counts as one that does not show it.
        times: runs in which the result must show it.
        rare: whether it shows rarely, as far as anybody knows: then operations are repeated before more of them are tried.

    Attributes:
        spent: whether the budget ended before anything showed it.
    """

    def __init__(
        self,
        run: Failed,
        into: Path,
        trials: Trials,
        watcher: Watcher,
        *,
        tries: int,
        times: int,
        rare: bool = False,
    ) -> None:
        self.run = run
        self.into = into
        self._trials = trials
        self._watcher = watcher
        self._tries = tries
        self._times = times
        self._often = not rare
        self.rare: Rare | None = None
        self.spent = False
        self.smallest: Recording | None = None
        self._steps: list[ShrinkStep] = []

    def shrink(self) -> tuple[Recording | None, bool | None, RecordedScenario]:
        """The smallest recording that shows it, whether nothing more can be taken away, and its scenario."""
        start = self._first()
        if start is None and self.rare is not None:
            return self._repeated(self.rare)
        if start is None:
            return None, None, RecordedScenario(not_said=(TOO_SHORT if self.spent else NOT_AGAIN,))
        self._keep(start)
        done: Reduced[Recording] = reduced(start, PASSES, self._tried, self._keep)
        self._watcher.say(f"{self.run.name} is left with {measure(done.candidate)}")
        found = self._scenario(done.candidate)
        if not self._often and not self._always(done.candidate, found) and self._repeats_in_time():
            assert self.rare is not None
            return self._repeated(self.rare)
        return done.candidate, done.minimal, found

    def _always(self, r: Recording, found: RecordedScenario) -> bool:
        """Whether what is left shows it each time: else chance, which made it rare in the whole run, may have led the reduction."""
        tries = found.tries if found.translation is not None else self.replayed(r)
        return tries.fails and tries.failed == tries.runs

    def _repeats_in_time(self) -> bool:
        with contextlib.suppress(BudgetSpent):
            return self._repeats(next(guesses(self.run.evidence, self.run.found)).ops)
        return False

    # -- the recording ---------------------------------------------------------------------------------------------------

    def _tried(self, r: Recording) -> Tries:
        return self._trials.tried(r, self._tries)

    def _first(self) -> Recording | None:
        """The first guess that shows the anomaly; None if none does within the budget, or only when it is repeated (:attr:`rare`)."""
        whole = self.run.recording
        ops = {o.op for o in whole.operations}
        every = [*guesses(self.run.evidence, self.run.found)]
        try:
            for n, guess in enumerate(every):
                candidate = only(whole, guess.ops & ops) if guess.ops & ops != ops else plain(whole)
                if candidate is not None:
                    self._watcher.say(f"guess: {plural(len(candidate.operations), 'operation')}: {guess.why}")
                    if self._tried(candidate).fails:
                        return candidate
                if n == (len(every) - 1 if self._often else 0) and self._repeats(every[0].ops):
                    return None
        except BudgetSpent:
            self.spent = True
        return None

    def _repeats(self, ops: Collection[str]) -> bool:
        """Whether operations show it when they are repeated. Raises BudgetSpent."""
        if not {o.op for o in self.run.recording.operations} & {*ops}:
            ops = stand_in(self.run)
        release = self.run.versions.get("iceberg", "unknown")
        affected = f"seen with Iceberg {release}; other versions were not tried"
        self.rare = search(
            ops, self.run.recording, self.run.name, self._undiscussed(), affected, self._trials, self._watcher
        )
        return self.rare is not None

    def _repeated(self, found: Rare) -> tuple[Recording | None, bool | None, RecordedScenario]:
        """The recording of one repetition, and its scenario."""
        with self._trials.without_limit():
            found = self.rare = settled(found, self._trials, self._times)
        recording = recording_of_one(self.run.recording, found.scenario)
        self._steps.append(ShrinkStep(len(self.trials), f"{measure(recording)}, {found.rate}", found.shown.folder))
        self.smallest = recording
        replace_file(self.into / RECORDING, recording.to_json())
        names = {o.op: s.name for o, s in zip(recording.operations, found.scenario.operations, strict=True)}
        untried = () if found.tries.runs else (NOT_RUN,)
        return (
            recording,
            found.minimal,
            RecordedScenario(Translation(found.scenario, names, untried), recording, found.tries),
        )

    def _keep(self, r: Recording) -> None:
        """Write the smallest recording so far."""
        self.smallest = r
        replace_file(self.into / RECORDING, r.to_json())
        trial = self.shown(r)
        number = next(n for n, t in enumerate(self.trials, 1) if t is trial)
        self._steps.append(ShrinkStep(number, str(measure(r)), trial.folder))

    def shown(self, r: Recording) -> Trial:
        """The run in which a recording showed it."""
        return next(t for n in range(self._tries) if (t := self._trials.once(r, n)).failed)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All runs, also those of commands before."""
        return tuple(self._trials.lines)

    @property
    def steps(self) -> tuple[ShrinkStep, ...]:
        """The candidates that showed it, each smaller than the one before it."""
        return tuple(self._steps)

    def replayed(self, r: Recording) -> Tries:
        """How often the recording shows it, in so many runs as the result must; the budget does not count."""
        shown = made = 0
        with self._trials.without_limit(), contextlib.suppress(BudgetSpent):  # its runner may have no more time, either
            for n in range(self._times):
                shown += self._trials.once(r, n).failed
                made += 1
        return Tries(shown, made)

    def so_far(self) -> RecordedScenario | None:
        """The scenario of the smallest recording so far; None if nothing showed it, or only repeated. Its runner has no more time."""
        return None if self.smallest is None or self.rare is not None else self._scenario(self.smallest)

    # -- the scenario ----------------------------------------------------------------------------------------------------

    def _scenario(self, r: Recording) -> RecordedScenario:
        """The recording as a scenario that is reproduced, with as few waits as it needs."""
        not_said: list[str] = []
        for source in self._sources(r):
            try:
                with self._trials.without_limit():
                    found = self._translated(source)
            except Untranslatable as e:
                return RecordedScenario(not_said=(f"there is no scenario file: {e}",))
            if not found.tries.runs:
                return found
            if found.tries.fails:
                return self._fewer(found, source)
            not_said = [f"the scenario file was not reproduced: {found.why}"]
        return RecordedScenario(not_said=tuple(not_said))

    def _sources(self, r: Recording) -> Iterator[Recording]:
        """The recording with the order that its replay had, which is what showed the anomaly; then as it is."""
        folder = self.shown(r).folder
        if folder is not None:
            with contextlib.suppress(RunError):
                replayed = as_replayed(r, recording_of(RunFolder(self.into / folder)))
                if replayed is not None and replayed.order != r.order:
                    yield replayed
        yield r

    def _translated(self, r: Recording) -> RecordedScenario:
        """A recording as a scenario, run as often as it must be; not at all if its runner has no time. What it expects is taken from a run
        that showed the anomaly."""
        shown = self._shown_by(r)
        translation = first = translate(r, self._about(r, shown))
        try:
            trial = self._trials.scenario_once(first.scenario)
            if not trial.failed and self.run.name in trial.found and trial.folder is not None:
                # The anomaly is there, and something else is not as in the replay: the file says what this run showed.
                translation = translate(r, self._about(r, RunFolder(self.into / trial.folder), first))
                trial = self._trials.scenario_once(translation.scenario)
            if not trial.failed:
                return RecordedScenario(translation, r, Tries(0, 1), why=trial.problem)
            return RecordedScenario(translation, r, self._trials.reproduces(translation.scenario, self._times))
        except BudgetSpent:
            return RecordedScenario(replace(translation, inexact=(*translation.inexact, NOT_RUN)), r)

    def _shown_by(self, r: Recording) -> RunFolder:
        assert self.smallest is not None
        folder = self.shown(self.smallest).folder
        if folder is None:
            raise Untranslatable("the run that showed it was not kept")
        return RunFolder(self.into / folder)

    def _fewer(self, found: RecordedScenario, r: Recording) -> RecordedScenario:
        """The scenario without the waits that it does not need; as it is if it is not reproduced each time."""
        assert found.translation is not None
        whole = found.translation.scenario
        if found.tries.failed < found.tries.runs:
            return found
        every = conditions(whole)

        def tried(s: Scenario) -> Tries:
            """Not even the opposite order may matter: without a wait, chance often keeps the order."""
            for condition in (c for c in every if c not in conditions(s)):
                turned = opposite(s, condition)
                if turned is not None and not self._trials.always(turned, 1).fails:
                    return Tries(0, 1)
            return self._trials.always(s, self._times)

        rest = reduced(whole, [CONDITIONS], tried)
        fewer: Scenario = rest.candidate
        translation = replace(found.translation, scenario=described(fewer, r))
        waits = (len(conditions(whole)), len(conditions(fewer)))
        return replace(found, translation=translation, waits=waits, waits_needed=rest.minimal)

    def _about(self, r: Recording, shown: RunFolder, first: Translation | None = None) -> About:
        """What the scenario says beside its steps, from a run that showed the anomaly."""
        evidence = load_evidence(shown.path)
        results = check(evidence, ALL, load_promises(shown.path), ran=load_ran(shown.path))
        found = own_findings([a for v in results.verdicts for a in v.anomalies if v.checker != "expect"])
        strict = stricter(evidence.tables.values())
        entries = {least(a, a.table in strict) for a in found}
        version = shown.read_plan().versions
        known = self._known(results.told)
        return About(
            name=scenario_name(self.run.name, r.workload.workload),
            headline=f"{self.run.name} with {plural(len(r.operations), 'operation')}"[:100],
            link=known.link if known else self._undiscussed(),
            affected=f"seen with Iceberg {version.get('iceberg', 'unknown')}; other versions were not tried",
            anomalies=tuple(sorted(entries, key=str)),
            allow=(),
            final=final_rows(evidence),
            ends=ends_of(evidence, r),
            remedy=known.remedy if known else "",
            seen=seen_of(found),
        )

    def _known(self, stories: Stories) -> KnownDefect | None:
        """The known defect that it looks like, if there is one."""
        known = (k for found in (self.run.results.told, stories) for k in found.known)
        return next((k for k in known if self.run.name in k.anomalies), None)

    def _undiscussed(self) -> str:
        """The link of an anomaly that nobody is known to have discussed: as the checker says, or where defects of its engine are reported."""
        first = self.run.found[0]
        writer = next((int(n) for op in first.ops if (n := op[1:].split("-")[0]).isdigit()), 0)
        engine = ENGINES[self.run.recording.workload.engines[writer]]
        return first.documented or (NOWHERE if engine.tracker == Engine.tracker else engine.tracker)


NOT_TRIED = Tries()
"""Not tried."""


@dataclass(frozen=True)
class RecordedScenario:
    """The scenario of a recording, if there is one.

    Attributes:
        source: the recording that it says.
        tries: in how many runs it was reproduced.
        waits: how many it had, and how many it has; ``waits_needed``: whether each of these was tried, and is needed.
        why: why it was not reproduced.
        not_said: why there is none.
    """

    translation: Translation | None = None
    source: Recording | None = None
    tries: Tries = NOT_TRIED
    waits: tuple[int, int] | None = None
    waits_needed: bool = False
    why: str = ""
    not_said: tuple[str, ...] = ()


def as_replayed(r: Recording, seen: Recording) -> Recording | None:
    """A recording with the order that a replay of it had; None if the replay had other operations."""
    labels: dict[str, str] = {}
    for writer in {o.writer for o in r.operations}:
        own = [o for o in r.operations if o.writer == writer]
        replayed = [o for o in seen.operations if o.writer == writer]
        if [o.f for o in own] != [o.f for o in replayed]:
            return None
        labels |= {b.op: a.op for a, b in zip(own, replayed, strict=True)}
    order = tuple(replace(m, op=labels[m.op]) for m in seen.order if m.op in labels)
    present = {*order}
    if any(m.ordered and m not in present for f in r.faults for m in f.struck):
        return None
    return replace(r, order=order)


def scenario_name(anomaly: str, workload: str) -> str:
    """A name for the scenario, of the anomaly and the workload."""
    word = "".join(c if c.isascii() and c.isalnum() else "-" for c in f"{anomaly}-{workload}".lower()).strip("-")
    word = word if word[:1].isalpha() else f"s-{word}"
    return word[:40].rstrip("-")


def final_rows(evidence: Evidence) -> dict[str, Any]:
    """Table → the ids of its rows at the end, or that nobody could read it, or that its readers saw different rows."""
    out: dict[str, Any] = {}
    for o in evidence.history.operations():
        if o.invoked.extra.get("phase") != "final-reads" or o.table is None:
            continue
        rows = tuple(sorted(row[0] for row in o.result)) if o.type == "ok" else "unreadable"
        out[o.table] = rows if out.get(o.table, rows) == rows else "unchecked"
    return {t: out.get(t, "unchecked") for t in evidence.tables}


def ends_of(evidence: Evidence, r: Recording) -> dict[str, ExpectedEnd]:
    """How the operations of a recording ended in a run of it, or of its scenario."""
    by_writer: dict[int, list[Any]] = {}
    for o in evidence.history.operations():
        if o.invoked.extra.get("phase") not in ("setup", "final-reads"):
            by_writer.setdefault(int(o.op[1:].split("-")[0]), []).append(o)
    out = {}
    for writer in {o.writer for o in r.operations}:
        own = [o for o in r.operations if o.writer == writer]
        for a, b in zip(own, by_writer.get(writer, ()), strict=False):
            name = error_chain.deciding_error(b.error)[0].rsplit(".", 1)[-1] if b.error else None
            out[a.op] = ExpectedEnd(type=b.type, error=name)
    return out
