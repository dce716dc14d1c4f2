"""A run after it ended: judged, with its results, page and JUnit file written. Its evidence is read once for all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from checkers.evidence.evidence import Evidence
from checkers.evidence.runfolder import RunFolder
from checkers.judge.check import ALL, Engine, check
from checkers.judge.runfolder import Results, load_evidence, load_promises, write_results
from reports.run import junit, page, stored
from reports.run.stored import Stored


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run left, what the checkers say of it, and what its page shows."""

    evidence: Evidence
    results: Results
    stored: Stored


def judge_run(folder: RunFolder, engine: Engine = "auto") -> Judged:
    """Check a run's folder and write its results, JUnit file and page.

    Raises:
        StoreError, HistoryError, TableLogError: something in it cannot be read.
        OSError: something cannot be written.
    """
    evidence = load_evidence(folder.path)
    results = check(evidence, ALL, load_promises(folder.path), engine=engine)
    write_results(results, folder.results)
    shown = stored.load(folder.path, evidence)
    junit.write(shown)
    shown = replace(shown, files=stored.files_of(folder.path))  # the JUnit file is one of them now
    page.write(shown)
    return Judged(evidence, results, shown)
