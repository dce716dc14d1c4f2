"""Judge a run that ended, then write and publish its results. Its evidence is read once for all three."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.judge.by_table import judged as judged_by_table
from checkers.judge.check import ALL, Engine, check
from checkers.judge.proof import proof_of
from checkers.judge.runfolder import Results, load_evidence, load_promises, load_ran, write_results

T = TypeVar("T")
Publish = Callable[[RunFolder, Evidence], T]
"""Writes what people read, such as the page, into the folder of a judged run."""


@dataclass(frozen=True, slots=True)
class JudgedRun(Generic[T]):
    """The evidence of a run, the checkers' results, and what publishing returned."""

    evidence: Evidence
    results: Results
    published: T


Judge = Callable[[RunFolder, Publish[object]], JudgedRun[object]]
"""As :func:`judge_run`."""


def judge_run(folder: RunFolder, publish: Publish[T], engine: Engine = "auto") -> JudgedRun[T]:
    """Check a run's folder, write its results and publish them.

    Raises:
        StoreError, HistoryError, TableLogError: a file in the folder cannot be read.
        OSError: a file cannot be written.
    """
    evidence = load_evidence(folder.path)
    results = check(evidence, ALL, load_promises(folder.path), engine=engine, ran=load_ran(folder.path))
    if (
        outcome := proof_of(folder, evidence.history, results)
    ) is not None:  # which says what the notes say, with the keys of its file
        results = replace(results, scenario=outcome, notes=())
    write_results(results, folder.results)
    return JudgedRun(evidence, results, publish(folder, evidence))


def results_of(folder: RunFolder, engine: Engine = "auto") -> Results:
    """Check a run's folder and write its results, and nothing else: a long run is judged table by table, so that it need not fit into memory.

    Raises: as :func:`judge_run`.
    """
    results = judged_by_table(folder.path, engine)
    if results is None:
        return judge_run(folder, _nothing, engine).results
    write_results(results, folder.results)
    return results


def _nothing(folder: RunFolder, evidence: Evidence) -> None:
    """No page."""
