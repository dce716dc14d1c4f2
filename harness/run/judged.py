"""A run after it ended: judged, its results written and published. Its evidence is read once for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from checkers.evidence.evidence import Evidence
from checkers.evidence.runfolder import RunFolder
from checkers.judge.check import ALL, Engine, check
from checkers.judge.runfolder import Results, load_evidence, load_promises, write_results

T = TypeVar("T")
Publish = Callable[[RunFolder, Evidence], T]
"""Writes what a person looks at, such as the page, into the folder of a run that was judged."""


@dataclass(frozen=True, slots=True)
class Judged(Generic[T]):
    """What a run left, what the checkers say of it, and what publishing it returned."""

    evidence: Evidence
    results: Results
    published: T


def judge_run(folder: RunFolder, publish: Publish[T], engine: Engine = "auto") -> Judged[T]:
    """Check a run's folder, write its results and publish them.

    Raises:
        StoreError, HistoryError, TableLogError: something in it cannot be read.
        OSError: something cannot be written.
    """
    evidence = load_evidence(folder.path)
    results = check(evidence, ALL, load_promises(folder.path), engine=engine)
    write_results(results, folder.results)
    return Judged(evidence, results, publish(folder, evidence))
