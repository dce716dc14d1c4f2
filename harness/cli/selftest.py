"""What ``icequake selftest`` shows: which planted bug is found by which checker, how often, and under which names.

A table on a terminal, one line per bug elsewhere. Exit code 0 if every bug was detected at every place and the good runs raised no
alarm, else 1. With ``--fields``: what came of wrong values in each field; exit code 0 if it was what the field's entry says, else 1.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from checkers.judge.check import ALL as CHECKERS
from checkers.selftest import ALL, OF_DELTA, fieldtrial, recorded, trial
from checkers.selftest.fields import FAILED, FIELD_OUTCOMES
from checkers.selftest.fieldtrial import FieldPlaces, FieldScore
from checkers.selftest.plant import Plant
from checkers.selftest.trial import PlantScore, Report
from workloads.file.meant import suggest


def chosen(only: Sequence[str]) -> list[list[Plant[Any]]]:
    """The plants with these names or checkers, for runs on Iceberg and for those on Delta Lake; all if ``only`` is empty.

    Raises:
        LookupError: no bug and no checker has such a name.
    """
    known = (*ALL, *OF_DELTA)
    names, checkers = {m.name for m in known}, sorted({m.checker for m in known})
    for name in {*only} - names - {*checkers}:
        meant = suggest(name, (*checkers, *sorted(names)))
        raise LookupError(f"{name}: no bug or checker has that name{meant}; checkers: {', '.join(checkers)}")
    return [[m for m in plants if not only or m.name in only or m.checker in only] for plants in (ALL, OF_DELTA)]


def show(*, placements: int, seed: int, only: Sequence[str]) -> int:
    """Run the trial and show its result; return the exit code.

    Raises:
        LookupError: no bug and no checker has a name in ``only``.
    """
    plants = chosen(only)
    runs = [{name: recorded.load(name) for name in recorded.names(folder)} for folder in ("", recorded.DELTA_RUNS)]
    began = time.monotonic()
    console = Console(highlight=False)

    def tried(done: Callable[[PlantScore], None]) -> Report:
        given: dict[str, Any] = {"placements": placements, "seed": seed}
        iceberg = trial.run(plants[0], CHECKERS, runs[0], done=done, **given)
        placed = {s.plant.name for s in iceberg.scores if s.planted}

        def show_score(s: PlantScore) -> None:
            if s.planted or s.plant.name not in placed:
                done(s)

        delta = trial.run(plants[1], CHECKERS, runs[1], done=show_score, **given)
        return trial.both(iceberg, delta)

    if console.is_terminal:
        with Progress(transient=True, console=console) as bar:
            task = bar.add_task("planting", total=sum(map(len, plants)))
            report = tried(lambda _: bar.advance(task))
        console.print(_table(report))
    else:
        report = tried(_line)
    for line in _end(report, runs=sum(map(len, runs)), seconds=time.monotonic() - began):
        print(line)
    return 0 if report.passed else 1


def show_fields(*, placements: int, seed: int, only: Sequence[str]) -> int:
    """Run the trial of the fields and print a line for each, then the figures; return the exit code.

    Raises:
        LookupError: no field has a name or first word in ``only``.
    """
    runs = {name: recorded.load(name) for name in recorded.names()}
    began = time.monotonic()
    places = FieldPlaces.of(runs)
    scores = fieldtrial.run(CHECKERS, places, placements=placements, seed=seed, only=only, done=_field_line)
    total: Counter[str] = Counter()
    for s in scores:
        total.update(s.outcomes)
        for miss in s.misses:
            print(f"{s.field}: {miss}")
    outcomes = ", ".join(f"{total[o]} {o}{' with reason' if o == 'harmless' else ''}" for o in FIELD_OUTCOMES)
    print(f"{len(scores)} fields, {total.total()} values: {outcomes}; {time.monotonic() - began:.0f} s")
    return 0 if all(s.passed for s in scores) else 1


def _field_line(s: FieldScore) -> None:
    mark = "ok   " if s.passed else "WRONG" if s.tried else "NONE "
    outcomes = ", ".join(f"{s.outcomes[o]} {o}" for o in (*FIELD_OUTCOMES, FAILED) if s.outcomes.get(o))
    print(f"{mark} {s.field:<36} {s.tried:>3}  {outcomes}")
    sys.stdout.flush()


def _names(s: PlantScore) -> str:
    return ", ".join(name if n == s.planted else f"{name} {n}" for name, n in s.names.items())


def _line(s: PlantScore) -> None:
    mark = "ok    " if s.passed else "MISSED" if s.planted else "NOWHERE"
    print(f"{mark} {s.plant.checker:<12} {s.plant.name:<36} {s.detected}/{s.planted}  {_names(s)}")
    sys.stdout.flush()


def _table(report: Report) -> Table:
    table = Table("bug", "checker", "detected", "as", box=None, pad_edge=False)
    for s in report.scores:
        share = f"{100 * s.detected // s.planted} % of {s.planted}" if s.planted else "no place"
        table.add_row(s.plant.name, s.plant.checker, f"[{'green' if s.passed else 'red'}]{share}[/]", _names(s))
    return table


def _rates(report: Report) -> list[tuple[str, str]]:
    """Checker → share of the detected placements with a culprit in which it is named first."""
    found = []
    for checker in dict.fromkeys(s.plant.checker for s in report.scores):
        own = [s for s in report.scores if s.plant.checker == checker]
        guilty, accused = sum(s.guilty for s in own), sum(s.accused for s in own)
        if guilty:
            found.append((checker, f"{accused} of {guilty} placements ({100 * accused / guilty:.1f} %)"))
    return found


def _without_culprit(report: Report) -> list[str]:
    """A line for each checker and reason for which a planted bug has no culprit."""
    found: Counter[tuple[str, str]] = Counter()
    for s in report.scores:
        for why, n in s.nobody.items():
            found[s.plant.checker, why] += n
    return [f"{checker}: no operation is the culprit in {n} placements: {why}" for (checker, why), n in found.items()]


def _end(report: Report, *, runs: int, seconds: float) -> list[str]:
    lines = []
    for s in report.scores:
        if not s.passed:
            lines += [f"{s.plant.name}: {s.plant.description}"]
            lines += [f"  {m}" for m in s.misses] or ["  no run has a place where it can be planted"]
    for a in report.alarms:
        lines.append(f"false alarm in {a.run}: {a.verdict.checker} says {a.verdict.valid}")
        lines += [f"  {x.name}: {x.explanation}" for x in a.verdict.anomalies[:3]]
        lines += [f"  {n}" for n in a.verdict.notes[:3]]
    lines += [f"{checker}: the operation named first is the culprit in {rate}" for checker, rate in _rates(report)]
    lines += _without_culprit(report)
    planted = sum(s.planted for s in report.scores)
    detected = sum(s.detected for s in report.scores)
    lines.append(
        f"{len(report.scores)} bugs, {planted} placements in {runs} runs: {detected} detected, "
        f"{len(report.alarms)} false alarms; {seconds:.0f} s"
    )
    return lines
