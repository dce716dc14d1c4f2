"""An anomaly that the same operations show once in many times: they are repeated until it shows, and the scenario says how often it did.

The order of requests does not make such an anomaly; a catalog that forgets each 300th commit is an example. So a candidate is a scenario
without waits whose operations are done again and again (``repeat``), on other rows each time. If Iceberg's own client can do them, it
takes the place of the run's engines at first: it commits many times in the time that Spark commits once.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from checkers.judge.accepted import everything_named
from harness.experiments.shrink.candidates import tables_of
from harness.experiments.shrink.log import Trial
from harness.experiments.shrink.reduction import BudgetSpent, Pass, Reduced, Tries, reduced
from harness.experiments.shrink.translate import catalog_of, step_names
from harness.experiments.shrink.trials import Trials, scenario_key
from harness.run.reach import unreachable
from harness.run.settings import Watcher
from reports.drawing.words import plural
from workloads.engines.engines import ENGINES, SPARK
from workloads.file.anomalies import AnomalyEntry
from workloads.file.recording import RecordedOperation, Recording
from workloads.file.repeated import repeatable
from workloads.file.scenario import MOST_REPEATED, Scenario, ScenarioStep, problems
from workloads.operations.kinds import KINDS

COMMITTER = "committer"
CHEAP, DEAR = 150, 30
"""Repetitions in a run by committers, and by other engines."""
RUNS_UNTIL_ABSENT = {True: 5, False: 4}
"""Runs of repetitions until a candidate counts as one that does not show it: cheap ones, others."""
MOST_FILLERS = 4
SURE = 3.0
"""A candidate is repeated so many times as often as the anomaly took to show: at random it is then missed once in twenty times."""
SEED_ROWS = 8
"""Rows for operations that change rows of a table without any."""


NOT_TRIED = Tries()


@dataclass(frozen=True)
class Rare:
    """What repetitions showed.

    Attributes:
        scenario: as small as it is; ``minimal``: whether nothing more can be taken away.
        seen: anomalies in the repetitions of all candidates, and how many these were.
        shown: a run that showed it.
    """

    scenario: Scenario
    minimal: bool
    seen: tuple[int, int]
    shown: Trial
    tries: Tries = NOT_TRIED

    @property
    def rate(self) -> str:
        """``2 of 900 repetitions``."""
        shown, total = self.seen
        return f"{shown} of {plural(total, 'repetition')}"


def search(
    ops: Collection[str], run: Recording, name: str, link: str, affected: str, asked: Trials, watcher: Watcher
) -> Rare | None:
    """Repeat these operations of a run, or an insert in their place, until the anomaly shows; then make what shows it small.

    Raises:
        BudgetSpent: the budget ended before it showed.
    """
    seen = Sightings()
    for scenario in _candidates(ops, run, name, link, affected):
        watcher.say(
            f"repeats {plural(len(scenario.operations), 'operation')} {scenario.repeat} times: it may show rarely"
        )
        trial = _tried(scenario, asked, RUNS_UNTIL_ABSENT[_cheap(scenario)], seen)
        if trial is not None:
            watcher.say(f"{name} showed {seen.shown} times in {seen.repetitions} repetitions")
            return _smaller(scenario, seen, trial, asked)
    return None


def settled(rare: Rare, asked: Trials, times: int) -> Rare:
    """The same, run as often as the result must show it, or as the time allows; what else these runs found may be found."""
    s = rare.scenario
    entries = (e for name in rare.shown.found for e in everything_named(name, s.tables))
    s = s.model_copy(update={"allow": tuple(e for e in entries if e not in s.anomalies)})
    shown, total = rare.seen
    done = made = 0
    for n in range(times):
        try:
            trial = asked.scenario_once(s, n)
        except BudgetSpent:
            break
        made += 1
        done += trial.failed
        shown, total = shown + trial.shown, total + s.repeat
    text = f"{shown} of {plural(total, 'repetition')}"
    return Rare(s.model_copy(update={"showed": text}), rare.minimal, (shown, total), rare.shown, Tries(done, made))


@dataclass
class Sightings:
    """Anomalies in so many repetitions."""

    shown: int = 0
    repetitions: int = 0

    def enough(self) -> int:
        """Repetitions in which it should show."""
        return min(MOST_REPEATED, ceil(SURE * self.repetitions / max(1, self.shown)))


def _tried(s: Scenario, asked: Trials, runs: int, seen: Sightings) -> Trial | None:
    """The first run of repetitions that shows it; None if none does."""
    for n in range(runs):
        trial = asked.repeated_once(s, n)
        seen.repetitions += s.repeat
        seen.shown += max(int(trial.failed), trial.shown)
        if trial.failed:
            return trial
    return None


def _smaller(start: Scenario, seen: Sightings, trial: Trial, asked: Trials) -> Rare:
    """The scenario without what it does not need."""
    shown = {scenario_key(start): trial}

    def tried(s: Scenario) -> Tries:
        runs = max(1, ceil(seen.enough() / s.repeat))
        found = _tried(s, asked, runs, seen)
        if found is None:
            return Tries(0, runs)
        shown[scenario_key(s)] = found
        return Tries(1, 1)

    done: Reduced[Scenario] = reduced(start, PASSES, tried)
    last, most = done.candidate, max(done.candidate.repeat, seen.enough())
    final = last.model_copy(update={"repeat": most, "description": _story(last, most)})
    return Rare(final, done.minimal, (seen.shown, seen.repetitions), shown[scenario_key(last)])


# -- candidates --------------------------------------------------------------------------------------------------------


def _candidates(ops: Collection[str], run: Recording, name: str, link: str, affected: str) -> Iterator[Scenario]:
    """The operations themselves, then an insert into the same table; each by committers if they can, then by the run's engines."""
    own = [o for o in run.operations if o.op in ops and o.f in KINDS and KINDS[o.f].commits]
    sets: list[list[RecordedOperation]] = []
    if 0 < len(own) <= MOST_FILLERS and repeatable(o.value for o in own):
        sets.append(own[:1] if len({(o.f, o.table) for o in own}) == 1 else own)
    if own and not (len(own) == 1 and own[0].f == "insert"):
        first = own[0]
        sets.append([RecordedOperation(first.op, first.writer, "insert", first.table, {"ids": [1_000]}, first.phase)])
    made = [s for team in (True, False) for pair in sets if (s := _scenario(pair, run, name, link, affected, team))]
    yield from {scenario_key(s): s for s in made}.values()


def _scenario(
    ops: Sequence[RecordedOperation], run: Recording, name: str, link: str, affected: str, committers: bool
) -> Scenario | None:
    """The operations as a scenario that repeats them; None if these writers cannot do them."""
    used = {t for o in ops for t in tables_of(o)}
    tables = {t.name: t for t in run.workload.tables if t.name in used}
    number = {w: i for i, w in enumerate(dict.fromkeys(o.writer for o in ops))}
    engines = {
        i: COMMITTER if committers else run.workload.engines[w] for w, i in number.items() if w < run.workload.writers
    }
    if len(engines) < len(number):
        return None  # an operation of the nemesis
    names = step_names(Recording(run.workload, run.seed, run.catalog, tuple(ops), ()))
    steps = []
    for o in ops:
        spec, kind = tables[o.table], KINDS[o.f]
        value = {k: v for k, v in o.value.items() if k == "ids"}
        if "ids" in value:
            value["ids"] = sorted(value["ids"])[:1]  # a run of repetitions takes long: the smallest comes first
        if kind.verb != "insert" and "ids" in value:
            spec = tables[o.table] = spec if spec.seed_rows else spec.model_copy(update={"seed_rows": SEED_ROWS})
            value["ids"] = sorted({int(i) % spec.seed_rows for i in value["ids"]})
        if not ENGINES[engines[number[o.writer]]].can(o.f, spec):
            return None
        steps.append(ScenarioStep(name=names[o.op], writer=number[o.writer], do=o.f, table=o.table, value=value))
    for table in tables:
        if all(o.f == "insert" for o in ops if o.table == table):
            tables[table] = tables[table].model_copy(update={"seed_rows": 0})
    catalog = catalog_of(run)
    if unreachable(engines.values(), catalog) is not None:
        return None
    found = Scenario(
        scenario=_name(name, run.workload.workload),
        headline=f"{name}, rarely, with {plural(len(steps), 'operation')}"[:100],
        description="-",
        link=link,
        affected=affected,
        catalog=catalog,
        tables=tuple(tables.values()),
        engines={i: e for i, e in engines.items() if e != SPARK},
        operations=tuple(steps),
        anomalies=(AnomalyEntry(name=name),),
        final=dict.fromkeys(tables, "unchecked"),
        op_timeout=run.workload.op_timeout,
        repeat=CHEAP if committers else DEAR,
    )
    return None if any(problems(found)) else found


def _name(anomaly: str, workload: str) -> str:
    word = "".join(c if c.isascii() and c.isalnum() else "-" for c in f"{anomaly}-{workload}".lower()).strip("-")
    return word[:40].rstrip("-") if word[:1].isalpha() else f"s-{word}"[:40].rstrip("-")


def _cheap(s: Scenario) -> bool:
    return {*s.by_writer} == {COMMITTER}


def _story(s: Scenario, times: int) -> str:
    """What it does, in words."""
    who = [f"writer {o.writer} ({s.by_writer[o.writer]}) does {o.do}" for o in s.operations]
    return f"{'; '.join(who)[:1].upper()}{'; '.join(who)[1:]}; again and again, {times} times, on other rows each time. Nothing waits."


# -- the passes --------------------------------------------------------------------------------------------------------


def _steps(s: Scenario) -> Sequence[Hashable]:
    return [o.name for o in s.operations]


def _without_steps(s: Scenario, removed: Collection[Hashable]) -> Scenario | None:
    rest = [o for o in s.operations if o.name not in removed]
    if not rest:
        return None
    number = {w: i for i, w in enumerate(dict.fromkeys(o.writer for o in rest))}
    used = {s.table(o).name for o in rest}
    return _sound(
        s.model_copy(
            update={
                "operations": tuple(o.model_copy(update={"writer": number[o.writer]}) for o in rest),
                "engines": {number[w]: e for w, e in s.engines.items() if w in number},
                "tables": tuple(t for t in s.tables if t.name in used),
                "final": {t: rows for t, rows in s.final.items() if t in used},
            }
        )
    )


def _sound(s: Scenario) -> Scenario | None:
    return None if any(problems(s)) else s


PASSES: tuple[Pass[Scenario], ...] = (Pass("operation", _steps, _without_steps, least=1),)
