"""``icequake check``, ``export`` and ``report``: what can be done with a stored run; ``selftest``: how far to trust its checkers."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from harness.cli.crash import details_in
from harness.cli.options import BadArgument, RunArgument

if TYPE_CHECKING:
    from checkers.evidence.evidence import Evidence
    from checkers.evidence.runfolder import RunFolder
    from checkers.judge.check import Engine
    from reports.run.stored import Stored


def publish(folder: RunFolder, evidence: Evidence) -> Stored:
    """Write the JUnit file and the page of a run that was judged; what they show."""
    from reports.run import junit, page, stored

    shown = stored.load(folder.path, evidence)
    junit.write(shown)
    shown = replace(shown, files=stored.files_of(folder.path))  # the JUnit file is one of them now
    page.write(shown)
    return shown


def judge(folder: RunFolder, engine: Engine = "auto") -> int:
    """Check a run's folder, write results, page and JUnit file, print the last lines; the exit code."""
    from checkers.verdict import exit_code
    from harness.run.judged import judge_run
    from reports.run import summary

    with details_in(folder.path):
        judged = judge_run(folder, publish, engine)
    for line in summary.lines(judged.published):
        typer.echo(line)
    return exit_code(judged.results.valid)


def check(
    what: Annotated[
        Path, typer.Argument(help="A run's folder, a `latest` link, or a history (EDN, JSON lines, log).")
    ] = Path("store/latest"),
    model: Annotated[str | None, typer.Option(help="What a history is about: list-append, register, bank, …")] = None,
    level: Annotated[str | None, typer.Option(help="What it is held to: serializable, snapshot-isolation, …")] = None,
    output: Annotated[Path | None, typer.Option("--json", help="Where to write a history's verdict.")] = None,
    engine: Annotated[str, typer.Option(help="For a run: exact, columns (long runs), or auto.")] = "auto",
) -> int:
    """Judge a stored run again, from its folder alone, or the history of any other system: no Spark, no services."""
    from checkers.evidence import runfolder as runs
    from harness.cli import clienthistory

    file = clienthistory.history_of(what, model)
    if file is not None:
        return clienthistory.show(file, model, level, output, typer.echo)
    for option, value in (("--model", model), ("--level", level), ("--json", output)):
        if value is not None:
            raise BadArgument(
                f"{option} is for the file of a history: the run {what} is judged by what its tables promise"
            )
    if engine not in ("auto", "exact", "columns"):
        raise BadArgument(f"--engine {engine}: allowed: auto, exact, columns")
    return judge(runs.find(what.parent if what.is_file() else what), cast("Engine", engine))


def export(
    run: RunArgument = Path("store/latest"),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to; else standard output.")] = None,
) -> int:
    """Write a run's history as Jepsen's EDN, for a second opinion by other tools."""
    from checkers.clients import jepsen
    from checkers.evidence import history
    from checkers.evidence import runfolder as runs

    text = jepsen.to_edn(history.read(runs.find(run).history))
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
        typer.echo(str(output))
    return 0


def report(run: RunArgument = Path("store/latest")) -> int:
    """Write a stored run's page again and say where it is."""
    from checkers.evidence import runfolder as runs
    from reports.run import page

    typer.echo(str(page.write(runs.find(run).path)))
    return 0


def selftest(
    placements: Annotated[int, typer.Option(min=1, help="How often each bug is planted.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Of the places.")] = 0,
    only: Annotated[list[str] | None, typer.Option(help="A bug's name, or a checker's; repeatable.")] = None,
) -> int:
    """Plant known bugs in good runs and see whether every checker finds its own."""
    from harness.cli.selftest import show

    try:
        return show(placements=placements, seed=seed, only=only or [])
    except LookupError as e:
        raise BadArgument(f"--only {e.args[0]}") from None
