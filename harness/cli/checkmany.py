"""``icequake check`` of many runs: a line for each on the terminal, a summary, and the same as JSON."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import typer

from checkers.columns import dataset
from checkers.verdict import Validity
from harness.cli import stopping
from harness.cli.options import WRITTEN_BY, BadArgument, command, warn, write_output
from harness.cli.publish import publish
from harness.run import many
from harness.run.many import RunResult
from reports.drawing.words import plural

if TYPE_CHECKING:
    from checkers.judge.check import Engine
    from harness.run.judging_on_spark import Cluster


def show(
    what: Sequence[Path],
    engine: str,
    master: str | None,
    output: Path | None,
    *,
    pages: bool,
) -> int:
    """Judge all runs of stores, print what came of each, write it to ``output``; return the exit code: the worst of all.

    Args:
        engine: ``spark``, ``process``, or an engine of the checkers in this process.
        master: of Spark; None: this machine.

    Raises:
        StoreError: something is no store and no run.
        SparkError, PreflightError: Spark cannot judge.
    """
    datasets, runs = _given(what)
    began = time.monotonic()
    total, found = len(runs), list[RunResult]()
    _say_way_on(found, total)
    for t in _judged_lines(runs, datasets, engine, master, pages=pages):
        found.append(t)
        typer.echo(f"{t.mark} {t.run}: {t.sentence}")
    place = {run: n for n, run in enumerate(runs)}
    found.sort(key=lambda t: (place.get(t.run, total), t.run))
    for line in summary(found, time.monotonic() - began):
        typer.echo(line)
    if output is not None:
        fields = {**WRITTEN_BY, "valid": worst(found), "runs": [t.to_json() for t in found]}
        write_output(output, json.dumps(fields, indent=1, ensure_ascii=False) + "\n")
    return many.worst_code(found)


def look(what: Sequence[Path], engine: str, master: str | None) -> None:
    """Find the runs and judge none. Raises StoreError: something is no store and no run; BadArgument: no Spark is called so."""
    _given(what)
    if engine == "spark":
        _cluster(master)


def _given(what: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The data sets, and the folders of the runs."""
    datasets = [w for w in what if dataset.is_dataset(w)]
    return datasets, list(dict.fromkeys(r for w in what if w not in datasets for r in many.runs_below(w, warn)))


def _cluster(master: str | None) -> Cluster:
    """The Spark at an address, not started. Raises BadArgument: it is none."""
    from harness.run.judging_on_spark import MASTER, Cluster, MasterError

    try:
        return Cluster(master or MASTER)
    except MasterError as e:
        raise BadArgument(str(e)) from None


def _judged_lines(
    runs: Sequence[str], datasets: Sequence[Path], engine: str, master: str | None, *, pages: bool
) -> Iterator[RunResult]:
    publisher = publish if pages else None
    if engine != "spark":
        inner = cast("Engine", "auto" if engine == "process" else engine)
        yield from many.one_by_one(runs, publisher, inner)
        for folder in datasets:
            yield from many.of_dataset(folder)
        return
    with _cluster(master) as cluster:
        with contextlib.closing(cluster.judge(runs, publisher)) as lines:
            yield from lines
        for folder in datasets:
            yield from cluster.judge_dataset(folder)


def worst(found: Sequence[RunResult]) -> Validity:
    """The worst validity: false before unknown and unjudged before true."""
    codes: dict[int, Validity] = {0: True, 1: False, 2: "unknown"}
    return codes[many.worst_code(found)]


def summary(found: Sequence[RunResult], seconds: float) -> list[str]:
    """The last lines: how many runs came to what, the anomalies of all, and how long it took."""
    count = Counter(t.valid for t in found)
    anomalies = Counter[str]()
    for t in found:
        anomalies.update(t.anomalies)
    words: dict[Validity | Literal["unjudged"], str] = {
        False: "with anomalies",
        "unknown": "unknown",
        many.UNJUDGED: "not judged",
        True: "valid",
    }
    parts = [f"{count[v]} {word}" for v, word in words.items() if count[v]]
    lines = ["", f"{plural(len(found), 'run')} in {seconds:.1f} s: {', '.join(parts)}"]
    if anomalies:
        lines.append("  anomalies: " + ", ".join(f"{name} ×{n}" for name, n in anomalies.most_common()))
    return lines


def _say_way_on(found: Sequence[RunResult], total: int) -> None:
    """What the last line says after Ctrl-C."""
    stopping.current().way_on = lambda: (
        f"the results of at least {len(found)} of {plural(total, 'run')} are written; run the same command again, "
        f"or `{command()} check RUN` for one"
    )
