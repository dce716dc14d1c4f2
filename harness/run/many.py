"""Judge many stored runs, in this process. One that cannot be judged is one line of the result and stops no other.

:mod:`harness.run.judging_on_spark` has the same done by the workers of a Spark.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from checkers.columns import cluster as columns
from checkers.columns import dataset
from checkers.evidence import runfolder
from checkers.evidence.history import HistoryError
from checkers.evidence.runfolder import FULL, RunFolder, StoreError
from checkers.evidence.tablelog import TableLogError
from checkers.judge.check import Engine
from checkers.judge.runfolder import Results, write_results
from checkers.verdict import Validity, Verdict, exit_code, own_findings, worst
from harness.run import disk
from harness.run.judged import Publish, judge_run, results_of
from reports.run.results import verdict_words

UNJUDGED: Literal["unjudged"] = "unjudged"
"""The validity of a run that could not be judged."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of one run.

    Attributes:
        run: its folder; of a dataset, its name there.
        sentence: the verdict in words; of a run that could not be judged, why.
        anomalies: name → number of those against the run or expected of it.
    """

    run: str
    valid: Validity | Literal["unjudged"]
    sentence: str
    anomalies: dict[str, int]

    @property
    def mark(self) -> str:
        """One character that says the same as ``valid``."""
        return {True: "✓", False: "✕", "unknown": "?"}.get(self.valid, "!")

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        return {"run": self.run, "valid": self.valid, "said": self.sentence, "anomalies": self.anomalies}


def judged(run: str, publish: Publish[object] | None = None, engine: Engine = "auto") -> RunResult:
    """Judge the run in a folder as ``icequake check`` does, and write its ``results.json``.

    Args:
        publish: what writes the page and the JUnit file; None: they are not written.
        engine: of the checkers.
    """
    folder = RunFolder(Path(run))
    return or_why(
        run, lambda: results_of(folder, engine) if publish is None else judge_run(folder, publish, engine).results
    )


def or_why(run: str, results: Callable[[], Results]) -> RunResult:
    """What came of a run, or why it was not judged: whatever ``results`` raises must not stop the others."""
    try:
        return result_of(run, results())
    except (StoreError, HistoryError, TableLogError) as e:
        return unjudged(run, str(e))
    except OSError as e:
        if e.errno in FULL:
            return unjudged(run, disk.words(e))
        return unjudged(run, f"{e.filename or run}: {e.strerror or e}")
    except MemoryError:
        return unjudged(run, "the memory is not enough for it")
    except Exception as e:
        return unjudged(run, f"internal error: {type(e).__name__}: {e}")


def result_of(run: str, results: Results) -> RunResult:
    """What came of a run that was judged."""
    words, found = verdict_words(results.to_json()), counted(results.verdicts)
    if results.valid is False and found:
        words += f": {', '.join(f'{name} ×{n}' for name, n in sorted(found.items(), key=lambda f: (-f[1], f[0])))}"
    notes = [n for v in results.verdicts if v.valid == "unknown" for n in v.notes]
    if results.valid == "unknown":
        why = notes[0] if notes else "" if results.complete else "the run did not come to its end"
        words += f": {why}" * bool(why)
    return RunResult(run, results.valid, words, found)


def counted(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Name → number of anomalies, without second opinions."""
    return dict(Counter(a.name for a in own_findings([a for v in verdicts for a in v.anomalies])))


def unjudged(run: str, why: str) -> RunResult:
    """Of a run that could not be judged: why, in one line."""
    plain = " ".join(why.split()).replace(f"{run}/", "")  # the line begins with it
    return RunResult(run, UNJUDGED, f"not judged: {plain}", {})


def one_by_one(
    runs: Iterable[str], publish: Publish[object] | None = None, engine: Engine = "auto"
) -> Iterator[RunResult]:
    """Judge runs in this process, in their order."""
    return (judged(run, publish, engine) for run in runs)


def worst_code(found: Iterable[RunResult]) -> int:
    """The exit code of many runs: 1 if one has an anomaly, else 2 if one is unknown or was not judged, else 0."""
    codes = {2 if t.valid == "unjudged" else exit_code(t.valid) for t in found}
    return next(code for code in (1, 2, 0) if code in codes or code == 0)


# --- which runs -------------------------------------------------------------------------------------------------------


def runs_below(what: Path, warn: Callable[[str], object]) -> list[str]:
    """The folders of all runs of a store, a part of one, or a run's own; those of a store are sorted by path. Links are not followed.

    Args:
        warn: told of a folder that cannot be listed.

    Raises:
        StoreError: there is none.
    """
    if not what.exists():
        raise StoreError(f"{what}: no such run or store")
    if what.is_symlink() or not what.is_dir():
        return [str(runfolder.find(what).path)]
    found: list[str] = []
    top = what.resolve()
    known = {
        str(r.path) for r in runfolder.runs(top)
    }  # a run's name makes a folder one, even if all else of it is lost
    for folder, inner, files in os.walk(top, onerror=lambda e: warn(f"{e.filename}: {e.strerror}; left out")):
        if "plan.yaml" in files or "history.jsonl" in files or folder in known:
            found.append(folder)
            inner.clear()
        else:
            inner.sort()
    if not found:
        raise StoreError(f"{what}: no run in it (a run's folder has a plan.yaml and a history.jsonl)")
    return found


def size(run: str) -> int:
    """Bytes of the evidence of a run, which tell how long it takes to judge."""
    folder = RunFolder(Path(run))
    total = 0
    for path in (folder.history, *folder.tablelog.glob("*.jsonl")):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


# --- runs as columns --------------------------------------------------------------------------------------------------


def of_dataset(folder: Path) -> Iterator[RunResult]:
    """Judge the runs of a dataset of columns in this process, one at a time, and write their results.

    Raises:
        StoreError: it is no dataset.
        OSError: the results cannot be written.
    """
    shards = dataset.parts_of(folder)
    for run in dict.fromkeys(s.run for s in shards):
        try:
            verdicts = columns.judge_run(folder, [(n, s) for n, s in enumerate(shards) if s.run == run])
        except StoreError as e:
            yield unjudged(run, str(e))
            continue
        yield of_columns(folder, run, verdicts)


def of_columns(folder: Path, run: str, verdicts: Sequence[Verdict]) -> RunResult:
    """Write the verdicts on a run of a dataset into its folder ``results``, and tell what came of it."""
    results = Results(tuple(verdicts), worst([v.valid for v in verdicts]))
    into = folder / dataset.RESULTS
    into.mkdir(exist_ok=True)
    write_results(results, into / f"{quote(run, safe='')}.json")
    return result_of(run, results)
