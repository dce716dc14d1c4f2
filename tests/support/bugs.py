"""Recorded runs with planted bugs, as a harness stores them: a sample of all kinds of damage, for every way in which a run is judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from checkers.evidence.evidence import Evidence
from checkers.evidence.tablelog import TableLogError
from checkers.judge.runfolder import load_evidence
from checkers.selftest import PLANT_TABLES, recorded
from checkers.selftest.world import World
from tests.checkers.judge.test_check import stored


def broken_runs(folder: Path, *, each: int = 1) -> Iterator[tuple[Path, Evidence]]:
    """A run with a bug of each table of planted bugs, ``each`` times another one; what a bug did to the proxies' log is not in it.

    A run whose files the reader refuses is left out: no way judges it.
    """
    world = World(recorded.load("quick-120"), Random(0))
    for n, subject in enumerate(PLANT_TABLES):
        rng = Random(f"ways/{n}")
        for plant in rng.sample(subject.PLANTS, min(each, len(subject.PLANTS))):
            bug = plant.plant(world.with_rng(rng))
            if bug is None:
                continue
            run = stored(bug.evidence, folder / "planted" / f"20260102T000{n:03}.{rng.randrange(1000):03}Z")
            try:
                yield run, load_evidence(run)
            except TableLogError:
                continue
