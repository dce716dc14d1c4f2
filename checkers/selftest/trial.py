"""The trial: every planted bug, many times, at different places; does its checker find it, name it, and name the operation?

A placement counts as *detected* when the bug's checker says ``False`` with an anomaly that has one of the names of its row and
points at one of the operations of the bug. The seed determines everything: placement n of a plant does not depend on the other
plants.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from checkers.evidence.evidence import Evidence
from checkers.selftest import unchanged
from checkers.selftest.plant import Plant
from checkers.selftest.world import Planted, World
from checkers.verdict import Anomaly, Checker, Verdict

UNKNOWN = "unknown"
"""What is counted among the names where the evidence is gone and the verdict says so."""
MISSES_KEPT = 5
"""Misses of a plant that are described, at most."""


@dataclass(frozen=True)
class PlantScore:
    """The result of one plant.

    Attributes:
        planted: number of placements; 0 when no run has a place for it.
        detected: how many of these its checker detected.
        names: the reported names → how often.
        misses: for the first misses, the placement number and the checker's verdict.
        guilty: how many placements have a culprit and were detected.
        accused: in how many of these the first anomaly that reports the bug names the culprit first (:func:`accuses`).
        nobody: why a placement has no culprit → how often.
        innocents: for the first placements in which another is named first, the placement number, the culprit and who is named.
    """

    plant: Plant[Any]
    planted: int
    detected: int
    names: Mapping[str, int] = field(default_factory=dict)
    misses: tuple[str, ...] = ()
    guilty: int = 0
    accused: int = 0
    nobody: Mapping[str, int] = field(default_factory=dict)
    innocents: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there was a placement and every placement was detected."""
        return self.planted > 0 and self.detected == self.planted


@dataclass(frozen=True)
class Alarm:
    """An anomaly in a good run, or a verdict on it other than ``True``."""

    run: str
    verdict: Verdict


@dataclass(frozen=True)
class Report:
    """The result of a trial."""

    scores: tuple[PlantScore, ...]
    alarms: tuple[Alarm, ...]

    @property
    def passed(self) -> bool:
        """Whether every planted bug was detected, and there was no false alarm."""
        return not self.alarms and all(s.passed for s in self.scores)


def detects(plant: Plant[Any], planted: Planted, verdict: Verdict) -> frozenset[str]:
    """The names under which a verdict reports the planted bug; empty when it does not.

    A bug without names to find takes evidence away: ``unknown`` is right, and stands for a name.
    """
    if not plant.finds:
        return frozenset() if verdict.valid is True else frozenset({UNKNOWN})
    return frozenset(a.name for a in _reports(plant, planted, verdict))


def accuses(plant: Plant[Any], planted: Planted, verdict: Verdict) -> bool:
    """Whether the first anomaly that reports the planted bug names the culprit first, in ``ops`` and in its explanation."""
    first = next(iter(_reports(plant, planted, verdict)), None)
    return first is not None and first.ops[:1] == (planted.culprit,) == (said_first(first, _ids(planted)),)


def _ids(planted: Planted) -> set[str]:
    return {e.op for e in planted.evidence.history.events if e.op is not None}


def said_first(a: Anomaly, operations: Iterable[str]) -> str | None:
    """The first operation in an anomaly's explanation; None if it names none.

    ``(w1-3, process 1)`` names an operation; a bare ``w1-3`` does if there is no such name: rows have ids as their values.

    Args:
        operations: ids of the run's operations.
    """
    ids = {*operations, *a.ops}
    for form in (r"\(([\w-]+), process ", r"[\w-]+"):
        named: list[str] = [word for word in re.findall(form, a.explanation) if word in ids]
        if named:
            return named[0]
    return None


def _reports(plant: Plant[Any], planted: Planted, verdict: Verdict) -> list[Anomaly]:
    if verdict.valid is not False:
        return []
    return [a for a in verdict.anomalies if a.name in plant.finds and (not planted.ops or planted.ops & set(a.ops))]


def try_plant(plant: Plant[Any], checker: Checker, runs: Sequence[World], *, placements: int, seed: int) -> PlantScore:
    """Plant a bug ``placements`` times, in the runs in turn (in the next one if a run has no place for it)."""
    names: Counter[str] = Counter()
    nobody: Counter[str] = Counter()
    innocents = []
    planted = guilty = accused = 0
    misses = []
    for n in range(placements):
        rng = Random(f"selftest/{seed}/{plant.name}/{n}")
        turn = [*runs[n % len(runs) :], *runs[: n % len(runs)]] if runs else []
        good, bug = next(((w, b) for w in turn if (b := plant.plant(w.with_rng(rng))) is not None), (None, None))
        if good is None or bug is None:
            continue
        planted += 1
        verdict = unchanged.check(checker, bug.evidence, good.evidence)
        found = detects(plant, bug, verdict)
        names.update(found)
        if found and bug.culprit is not None:
            guilty += 1
            right = accuses(plant, bug, verdict)
            accused += right
            if not right:
                first = _reports(plant, bug, verdict)[0]
                innocents.append(
                    f"placement {n} ({bug.culprit}): {first.name} of {'/'.join(first.ops)}: {first.explanation}"
                )
        if bug.nobody:
            nobody[bug.nobody] += 1
        if not found:
            words = ", ".join(f"{a.name} of {'/'.join(a.ops)}" for a in verdict.anomalies[:6]) or str(verdict.valid)
            misses.append(f"placement {n} ({', '.join(sorted(bug.ops))}): {words}")
    return PlantScore(
        plant,
        planted,
        planted - len(misses),
        dict(sorted(names.items())),
        tuple(misses[:MISSES_KEPT]),
        guilty,
        accused,
        dict(sorted(nobody.items())),
        tuple(innocents[:MISSES_KEPT]),
    )


def alarms(checkers: Iterable[Checker], runs: Mapping[str, Evidence]) -> tuple[Alarm, ...]:
    """Verdicts on good runs other than ``True``."""
    return tuple(
        Alarm(name, verdict)
        for name, evidence in runs.items()
        for checker in checkers
        if (verdict := checker.check(evidence)).valid is not True
    )


def both(first: Report, other: Report) -> Report:
    """Two trials as one. A bug that found no place in the runs of the other is left out, if it had one in the first."""
    planted = {s.plant.name for s in first.scores if s.planted}
    more = (s for s in other.scores if s.planted or s.plant.name not in planted)
    return Report((*first.scores, *more), (*first.alarms, *other.alarms))


def run(
    plants: Sequence[Plant[Any]],
    checkers: Sequence[Checker],
    runs: Mapping[str, Evidence],
    *,
    placements: int = 50,
    seed: int = 0,
    done: Callable[[PlantScore], None] = lambda _: None,
) -> Report:
    """The whole trial.

    Args:
        plants: those whose checker is not among ``checkers`` are left out.
        runs: good runs by name.
        done: called with each score.
    """
    by_name = {c.name: c for c in checkers}
    worlds = [World(e, Random(0)) for e in runs.values()]
    found = alarms(checkers, runs)
    scores = []
    for m in plants:
        if m.checker in by_name:
            scores.append(try_plant(m, by_name[m.checker], worlds, placements=placements, seed=seed))
            done(scores[-1])
    return Report(tuple(scores), found)
