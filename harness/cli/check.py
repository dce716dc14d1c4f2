"""``icequake check``, ``export`` and ``report``: commands on a stored run; ``selftest``: how reliable the checkers are."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from harness.cli import stopping
from harness.cli.command import Options
from harness.cli.crash import details_in
from harness.cli.lake import LakeOption, place_of
from harness.cli.options import (
    DEFAULT_STORE,
    BadArgument,
    ForceOption,
    RunArgument,
    StoreOption,
    Value,
    command,
    run_in,
    warn,
    write_output,
)
from harness.cli.publish import publish as publish  # users' experiments import it from here

if TYPE_CHECKING:
    from checkers.evidence.runfolder import RunFolder
    from checkers.judge.check import Engine
    from harness.lake.place import Place


def judge(folder: RunFolder, engine: Engine = "auto", lake: Place | None = None) -> int:
    """Check a run's folder, write results, page and JUnit file, print the summary, and put the run into a lake; return the exit code."""
    from checkers.verdict import exit_code
    from harness.run.judged import judge_run
    from reports.run import summary

    with details_in(folder.path):
        judged = judge_run(folder, publish, engine)
    for line in summary.lines(judged.published):
        typer.echo(line)
    if lake is not None:
        from harness.lake.folders import kept

        kept(lake, folder, judged.evidence, warn)
    return exit_code(judged.results.valid)


@contextlib.contextmanager
def verdict_if_stopped(folder: RunFolder) -> Iterator[None]:
    """When the user stops what is inside, print the verdict on what was recorded, and end with the command that judges it again.

    Raises:
        Stopped: in place of what the interruption raised.
    """
    stop = stopping.current()
    stop.way_on = partial(way_on, folder)
    try:
        yield
    except BaseException as e:
        if not isinstance(e, KeyboardInterrupt) and stop.number is None:
            raise
        told = False
        if folder.began and folder.state().get("state") != "complete":  # complete: it was stopped while it was judged
            with contextlib.suppress(Exception):  # the last line's command says what it is
                judge(folder)
                told = True
        raise stopping.Stopped(way_on(folder, told=told)) from e


def way_on(folder: RunFolder, *, told: bool = False) -> str:
    """How a run that did not come to its end is judged, in words; ``told``: the verdict on what was recorded stands above."""
    if not folder.began:
        return f"before the first operation, so there is nothing to judge in {folder.path}"
    first = "what it recorded is judged above; to see that again" if told else "judge the run with"
    return f"{first}: {command()} check {shlex.quote(str(folder.path))}"


CHECK_ENGINES = ("auto", "exact", "columns", "process", "spark")
"""Values of ``check --engine``."""
STORE_ENGINES = ("process", "spark")
"""Those that judge every run of a store."""


@dataclass(frozen=True)
class CheckOptions(Options):
    """Judge stored runs again from their folders, or the history of another system (docs/history.md has its forms); needs no services.

    Several runs, or a store with --engine process or spark, give a line for each run.
    """

    short = "Judge a stored run or a history."

    what: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Runs' folders, stores, `latest` links, or one history (EDN, JSON lines, log); default: the store's latest run.",
            show_default=False,
        ),
    ] = None
    model: Annotated[
        str | None, typer.Option(help="Data model of a history: list-append, register, bank (`icequake list levels`).")
    ] = None
    level: Annotated[
        str | None,
        typer.Option(
            help="Isolation level to check a history against: serializable, snapshot-isolation (`icequake list levels`)."
        ),
    ] = None
    keyed: Annotated[
        bool | None,
        typer.Option(
            "--keyed/--plain",
            help="Whether values of a history that are pairs are keys with values.",
            show_default="as their form shows",
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--json", help="File for the verdict of a history, or of many runs."),
        Value(written=("written_by=icequake check", "valid")),
    ] = None
    force: ForceOption = False
    engine: Annotated[
        str,
        typer.Option(
            help="Checker engine: exact, columns (long runs), or auto. Of all runs of stores: process (here), spark."
        ),
        Value(choices=CHECK_ENGINES, what="engine"),
    ] = "auto"
    spark: Annotated[
        str | None,
        typer.Option(help="With --engine spark: its master URL.", show_default="local[*], the cores of this machine"),
    ] = None
    pages: Annotated[bool, typer.Option("--pages", help="Write the pages of many runs, too.")] = False
    store: StoreOption = DEFAULT_STORE
    lake: LakeOption = None

    def check(self) -> None:
        if self.spark is not None and self.engine != "spark":
            raise BadArgument(f"--spark {self.spark}: give --engine spark with it")

    @cached_property
    def _given(self) -> list[Path]:
        """What is judged."""
        if not self.what and self.engine in STORE_ENGINES:
            return [self.store]
        return [run_in(self.store, w) for w in self.what] if self.what else [run_in(self.store, None)]

    def prepare(self) -> None:
        if self._history is not None:
            if self.engine != "auto":
                raise BadArgument(f"--engine {self.engine} applies to runs only: {self._history} is judged in one way")
            return
        pairs = "--keyed" if self.keyed else "--plain"
        for option, value in (("--model", self.model), ("--level", self.level), (pairs, self.keyed)):
            if value is not None:
                raise BadArgument(
                    f"{option} applies to history files only: the run {self._given[0]} is judged by what its tables promise"
                )
        if not self._many:
            _ = self._run, self._place
        elif (single := next((w for w in self._given if w.is_file()), None)) is not None:
            raise BadArgument(
                f"{single} is a file, and of several only runs and stores are judged; check each history alone"
            )

    def look(self) -> None:
        from checkers.judge.runfolder import load_evidence
        from harness.cli import checkmany, clienthistory

        if self._history is not None:
            clienthistory.judged(self._history, self.model, self.level, self.keyed)
        elif self._many:
            checkmany.look(self._given, self.engine, self.spark)
        else:
            load_evidence(self._run.path)

    def execute(self) -> int:
        from harness.cli import checkmany, clienthistory

        if self._history is not None:
            of = self._history, self.model, self.level
            return clienthistory.show(*of, self.output, typer.echo, self.store, self.keyed)
        if self._many:
            return checkmany.show(self._given, self.engine, self.spark, self.output, pages=self.pages)
        return judge(self._run, cast("Engine", self.engine), self._place)

    @cached_property
    def _history(self) -> Path | None:
        """The history of another system; None: what is judged is a run, or several."""
        from harness.cli import clienthistory

        return clienthistory.history_of(self._given[0], self.model) if len(self._given) == 1 else None

    @cached_property
    def _many(self) -> bool:
        """Whether each run gets a line."""
        from checkers.columns import dataset

        return len(self._given) > 1 or self.engine in STORE_ENGINES or dataset.is_dataset(self._given[0])

    @cached_property
    def _place(self) -> Place | None:
        return place_of(self.lake, self.store)

    @cached_property
    def _run(self) -> RunFolder:
        """The one run."""
        from checkers.evidence import runfolder as runs

        path = self._given[0]
        if self.pages:
            raise BadArgument("--pages: the page of a single run is always written")
        if self.output is not None:
            raise BadArgument(
                f"--json applies to history files and to many runs: the verdict of the run is in {path}/results.json"
            )
        if path.suffix and not path.exists():
            raise BadArgument(f"{path}: no such file; give a history (EDN, JSON lines, log), or a run's folder")
        try:
            return runs.find(path.parent if path.is_file() else path)
        except runs.StoreError as e:
            if next(runs.below(path), None) is None:
                raise
            raise BadArgument(f"{e}; judge all runs in it with --engine process") from None


def _forms() -> tuple[str, ...]:
    from checkers.clients.derived import HISTORY_FORMS
    from harness.cli.exported import SCENARIOS

    return (*HISTORY_FORMS, *SCENARIOS)


@dataclass(frozen=True)
class ExportOptions(Options):
    """Write a run's history as Jepsen's EDN, so that other tools can check it; or a scenario as a script that runs without icequake."""

    short = "Write a run's history, or a script that shows its defect, for others."

    run: Annotated[
        Path | None,
        typer.Argument(
            help="A run's folder, or a `latest` link; default: the store's latest run. With --as script or issue a scenario, too.",
            show_default=False,
        ),
    ] = None
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file; default: standard output."), Value(written=())
    ] = None
    force: ForceOption = False
    store: StoreOption = DEFAULT_STORE
    form: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="For Elle: list-append, rw-register; for Knossos: register; for a project's maintainers: script (runs without "
            "icequake; its own --help has its exit codes, also for a fix), issue (text for a tracker); default: icequake's own "
            "operations.",
        ),
        Value(choices=_forms, what="form"),
    ] = None
    key: Annotated[str | None, typer.Option(help="The only key of --as register: TABLE/ID/OPERATION.")] = None

    def look(self) -> None:
        self._text(lambda _: None)

    def _text(self, say: Callable[[str], object]) -> str:
        """The file's; what it leaves out is said. Raises BadArgument: there is no such form or key."""
        from checkers.clients.derived import DerivedError
        from checkers.evidence import runfolder as runs
        from harness.cli.exported import SCENARIOS, exported, is_scenario, reproduction
        from reports.reproduction.script import NotExportable

        try:
            if self.form in SCENARIOS and self.key is None:
                return reproduction(self.store, self.run, self.form, say, self.output.stem if self.output else "")
            if self.run is not None and not self.run.exists() and is_scenario(self.run):
                raise BadArgument(f"{self.run} is a scenario; give --as script or --as issue, or the folder of a run")
            return exported(runs.find(run_in(self.store, self.run)), self.form, self.key, say)
        except (DerivedError, NotExportable) as e:
            raise BadArgument(str(e)) from None

    def execute(self) -> int:
        text = self._text(lambda line: typer.echo(f"icequake: {line}", err=True))
        if self.output is None:
            sys.stdout.write(text)
        else:
            write_output(self.output, text)
            typer.echo(str(self.output))
        return 0


@dataclass(frozen=True)
class ReportOptions(Options):
    """Write a stored run's page again and print its path. What could not be read of the run is said, and the exit code is then 2."""

    short = "Write a run's page again."

    run: RunArgument = None
    store: StoreOption = DEFAULT_STORE

    def prepare(self) -> None:
        self._run.require_history()

    @cached_property
    def _run(self) -> RunFolder:
        from checkers.evidence import runfolder as runs

        return runs.find(run_in(self.store, self.run))

    def look(self) -> None:
        from reports.run import stored

        stored.load(self._run.path)

    def execute(self) -> int:
        from checkers.verdict import exit_code
        from reports.run import page, stored

        run = stored.load(self._run.path)
        typer.echo(str(page.write(run)))
        for problem in run.problems[: run.unread]:
            typer.echo(f"icequake: {problem}", err=True)
        return exit_code("unknown") if run.unread else 0


PLACEMENTS, FIELD_PLACEMENTS = 50, 3
"""Placements of each bug, and of each field, unless the user says otherwise."""


@dataclass(frozen=True)
class SelftestOptions(Options):
    """Plant known bugs in the records of good runs and test whether the checkers find them."""

    short = "Check the checkers."

    placements: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Times that each bug is planted, or places at which each field is changed.",
            show_default="50; 3 with --fields",
        ),
    ] = None
    seed: Annotated[int, typer.Option(min=0, help="Seed that picks where bugs are planted.")] = 0
    only: Annotated[
        list[str] | None, typer.Option(help="Name of a bug or a checker, or (with --fields) of a field; repeatable.")
    ] = None
    fields: Annotated[
        bool, typer.Option("--fields", help="Change every field of the records instead, one at a time.")
    ] = False

    def execute(self) -> int:
        from harness.cli.selftest import show, show_fields

        shown, usual = (show_fields, FIELD_PLACEMENTS) if self.fields else (show, PLACEMENTS)
        try:
            return shown(placements=self.placements or usual, seed=self.seed, only=self.only or [])
        except LookupError as e:
            raise BadArgument(f"--only {e.args[0]}") from None
