"""``icequake soak``."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import estimates
from harness.cli.command import Options
from harness.cli.experiments import ProveOptions
from harness.cli.frame import framed
from harness.cli.lake import LakeOption, keeping, place_of
from harness.cli.options import (
    DEFAULT_STORE,
    INTO,
    LAST_SEED,
    LENGTH,
    NEVER,
    PATH,
    BadArgument,
    QuietOption,
    StoreOption,
    Value,
    absolute,
    anywhere,
    length,
    warn,
)
from harness.cli.publish import publish
from harness.cli.run import RunOptions
from harness.cli.shrink import ShrinkOptions, replay_command

if TYPE_CHECKING:
    from checkers.nights.night import Night
    from checkers.nights.record import NightRun
    from harness.cli.terminal import Voice
    from harness.experiments.soak import Soak
    from harness.experiments.soakfinds import Commands, Job
    from harness.experiments.soakorder import SoakPlan
    from harness.run.resolve import SuiteFile
    from reports.drawing.page import Page
    from reports.soak.kinds import Program
    from workloads.file.suite import Cell, Suite

TOO_SHORT = "it must be at least as long as one run"
PAGE_AGAIN = 300.0
"""Seconds after which the page of a night that goes on is written anew."""


def repeating(file: SuiteFile, store: Path = DEFAULT_STORE, *, records: bool = False) -> Callable[[Cell, int], str]:
    """(cell, seed) → the command that repeats that run; ``store``: where its folder goes; ``records``: each records its order."""
    from harness.run.recorded import recordable
    from workloads.engines.engines import SPARK
    from workloads.file.changes import AND, NONE, OWN, counted
    from workloads.file.workload import LIBRARY

    def repeat_command(cell: Cell, seed: int) -> str:
        path, workload = file.files[cell.workload], file.workloads[cell]
        catalog, engines = file.catalogs.get(cell.catalog), workload.engines
        mode: dict[str, Any] = {**workload.mode.given}
        writers = counted(engines) if {*engines} != {SPARK} else str(len(engines))
        run = RunOptions(
            workload=cell.workload if path.parent == LIBRARY else os.path.abspath(path),
            seed=seed,
            store=store,
            writers=writers if cell.writers else None,
            time=f"{file.suite.length:g}s",
            catalog=cell.catalog if catalog is None else os.path.abspath(catalog),
            iceberg=cell.iceberg,
            faults=None if cell.faults in (NONE, OWN) else cell.faults.replace(AND, ","),
            no_nemesis=cell.faults == NONE,
            order=(recordable(workload).order if records else cell.order) or None,
            **mode,
        )
        return run.again()

    return repeat_command


def after_shrink(store: Path = DEFAULT_STORE) -> Commands:
    """What a person types after a shrink of the night itself; ``store``: where the folders of it go."""
    from harness.experiments.soakfinds import Commands

    def shrink(job: Job) -> str:
        return ShrinkOptions(
            run=job.run.path, anomaly=job.anomaly, catalog=job.catalog, store=store, into=job.into
        ).again()

    return Commands(
        lambda job, scenario: ProveOptions(names=[str(scenario)], iceberg=job.line.cell.iceberg, store=store).again(),
        lambda job, recording: replay_command(job.run, recording, job.catalog, job.line.cell.iceberg, store),
        shrink,
    )


def _size(text: str) -> int:
    from workloads.file.sizes import size

    return size(text)


@dataclass(frozen=True)
class SoakOptions(Options):
    """Run workloads × catalogs × faults × releases with fresh seeds for a night, and keep what fails."""

    short = "Run a suite for a night."

    suite: Annotated[str, typer.Argument(help="A suite file, or the name of a built-in suite (nightly, smoke)."), PATH]
    lasts: Annotated[
        str | None,
        typer.Option("--for", help="How long (6h, 30m), with the time of earlier sessions; default: the file's."),
        LENGTH,
    ] = None
    runs: Annotated[int | None, typer.Option(min=1, max=1_000_000, help="Number of runs; instead of a time.")] = None
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=LAST_SEED, help="Seed of the night: which combinations come when, and the seed of each run."
        ),
    ] = None
    keep: Annotated[
        str | None,
        typer.Option(help="How large the night's folder may become (20GB); overrides the file."),
        Value(unit=_size),
    ] = None
    at_least: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1_000_000_000,
            help="Operations that each combination must have made, or the night is not green but exits with 2; default: the file's.",
        ),
    ] = None
    stop_on_anomaly: Annotated[
        bool, typer.Option("--stop-on-anomaly", help="End the night with the first new anomaly.")
    ] = False
    shrink: Annotated[
        bool | None,
        typer.Option(
            "--shrink/--no-shrink",
            help="Replay and shrink each new anomaly in the night itself; default: as the file says, which is yes.",
        ),
    ] = None
    keep_up: Annotated[
        bool, typer.Option("--keep-up", help="With --stop-on-anomaly: keep the stack up for a look, until Ctrl-C.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the combinations and run nothing."), NEVER] = False
    store: StoreOption = DEFAULT_STORE
    lake: LakeOption = None
    into: Annotated[Path | None, typer.Option(help="Folder of the night; an unfinished one is continued."), INTO] = None
    quiet: QuietOption = False

    def check(self) -> None:
        if self.lasts is not None and self.runs is not None:
            raise BadArgument(
                f"--for {self.lasts} and --runs {self.runs}: a night ends by its time or by its number of runs; give one of them"
            )

    def prepare(self) -> None:
        place_of(self.lake, self.store)
        if self.keep_up and not self._suite.stop_on_anomaly:
            raise BadArgument("--keep-up: give --stop-on-anomaly, too; otherwise no stack stays")
        if self._budget is not None and self.lasts is not None and self._budget < self._suite.length:
            raise BadArgument(
                f"--for {self.lasts}: {TOO_SHORT}, {self._suite.length:g}s (length in {self._suite.suite})"
            )

    @cached_property
    def _file(self) -> SuiteFile:
        from harness.run.resolve import read_suite
        from workloads.file import suite as suites

        return read_suite(suites.locate(self.suite), warn)

    @cached_property
    def _suite(self) -> Suite:
        """The suite as the options change it."""
        from workloads.file.suite import Shrinking

        suite = self._file.suite
        update: dict[str, object] = {"stop_on_anomaly": True} if self.stop_on_anomaly else {}
        if self.shrink is not None:
            update["shrink"] = (suite.shrink or Shrinking()) if self.shrink else None
        if self.keep is not None:
            update["keep"] = _size(self.keep)
        if self.at_least is not None:
            update["at_least"] = self.at_least
        return suite.model_copy(update=update)

    @cached_property
    def _budget(self) -> float | None:
        """Seconds of the night; None if only the number of runs limits it."""
        if self.lasts is not None:
            return length(self.lasts)
        if self.runs is None and self._suite.lasts is None and not self.dry_run:
            raise BadArgument(f"soak {self._suite.suite}: say how long: --for 6h, --runs 100, or for: in the file")
        return self._suite.lasts if self.runs is None else None

    def takes(self) -> float:
        each = estimates.WARM_RUN_S + self._suite.length
        return self._budget if self._budget is not None else estimates.STACK_S + (self.runs or 0) * each

    @cached_property
    def how_long(self) -> str:
        """The time, and that of what is shrunk, which comes on top where the number of runs ends the night."""
        shrink = self._suite.shrink
        if self._budget is not None or shrink is None:
            return estimates.words(self.takes())
        from reports.drawing.words import duration

        more = duration(shrink.budget * 1000)
        return f"{estimates.words(self.takes())}, and up to {more} more to replay and shrink what is new (--no-shrink leaves it out)"

    def _seed(self) -> int:
        """The night's seed: as typed, that of the folder that goes on, or a new one."""
        from harness.experiments.soakorder import seed_of

        found = seed_of(self.into) if self.into is not None and self.seed is None else self.seed
        return random.SystemRandom().randrange(2**31) if found is None else found

    def _unusable_lake(self, into: Path) -> str | None:
        """What the user should know before the night of a lake that takes no run; None if it does, or none is wanted."""
        from harness.lake.folders import adding, unusable

        place = place_of(self.lake, self.store)
        if place is None or (why := unusable(place)) is None:
            return None
        return f"the lake takes no run: {why}. This night keeps what a lake needs; once it works: {adding(place, into)}"

    def _without_lake(self) -> str | None:
        """What the user should know of a store without a lake; None if there is one, or none is wanted."""
        if self.lake is not None or place_of(None, self.store) is not None:
            return None
        return "no lake: for `trend`, put this night into one afterwards by `icequake lake add`, or make one now by --lake yes"

    def execute(self) -> int:
        from harness.experiments.soakorder import SoakPlan, new_folder
        from reports.drawing.words import plural
        from reports.soak import kinds

        if self.dry_run:
            code = _show(self._file, self._budget, self.runs)
            if (missing := self._without_lake()) is not None:
                typer.echo(missing)
            return code
        seed = self._seed()
        into = self.into or new_folder(self.store, self._suite.suite)
        goes_on = self.again(seed=seed, into=into, store=self.store)
        repeat_command = repeating(self._file, self.store, records=self._suite.shrink is not None)
        order = SoakPlan(
            self._file, self._suite, seed, repeat_command, self._budget, self.runs, commands=after_shrink(self.store)
        )
        with framed(into, f"continue with: {goes_on}", quiet=self.quiet) as frame:
            voice = frame.voice
            voice.keep(
                f"{self._suite.suite}, {plural(len(self._file.cells), 'combination')}, seed {seed}, {self.how_long}: {into}"
            )
            voice.keep(f"go on at any time with: {goes_on}")
            if (missing := self._without_lake() or self._unusable_lake(into)) is not None:
                voice.keep(missing)
            for cell, why in self._file.left_out.items():
                voice.say(f"left out: {cell.name}: {why}")
            shown = _Shown(voice, self._page(goes_on), quiet=self.quiet)
            whole = self._whole(order, into, voice, shown)
            frame.so_far = lambda: _so_far(whole, shown)
            unrecorded = self._go(whole, shown)
        ends = self._ends(whole.night, seed, into)
        over = ends.get("more", ends.get("again"))
        mailed = kinds.mailed(whole.night, kinds.kinds(whole.night), self._program()) if self.quiet else None
        code = _end(whole.night, self._page(goes_on, over)(whole.night), into, ends, goes_on, mailed)
        if unrecorded is not None:
            raise unrecorded
        return code

    def _page(self, goes_on: str, more: str | None = None) -> Callable[[Night], Page]:
        """What makes the page of a night; ``more``: the command that adds to it, once it is over."""
        from checkers.nights import trend
        from reports.soak import page

        program = self._program()
        return lambda night: page.of(night, goes_on, *trend.earlier(night.folder), program=program, more=more)

    def _program(self) -> Program:
        """How the user calls icequake, and where what is typed after the night goes."""
        from reports.soak.kinds import Program

        return Program(anywhere(), None if absolute(self.store) == absolute(DEFAULT_STORE) else absolute(self.store))

    def _ends(self, night: Night, seed: int, into: Path) -> dict[str, str]:
        """What to type after the night: once it is over, to do it again in a folder of its own, or to give it as much time again."""
        if night.stopped is not None or night.given_up:
            return {"go on": self.again(seed=seed, into=into, store=self.store)}
        another = {"again": self.again(seed=seed, into=None, store=self.store)}
        if self._suite.stop_on_anomaly and night.verdict is False:
            return another  # more time would end at once
        longer = {
            "lasts": None if self._budget is None else f"{2 * self._budget:g}s",
            "runs": self.runs and 2 * self.runs,
        }
        return {"more": self.again(seed=seed, into=into, store=self.store, **longer), **another}

    def _whole(self, order: SoakPlan, into: Path, voice: Voice, shown: _Shown) -> Soak:
        from checkers.nights import record
        from harness.experiments.soak import Soak
        from reports.soak import words as soakwords

        def tell(line: NightRun) -> None:
            shown.line(whole.night, line)

        kept_in = place_of(self.lake, self.store)
        rows = None if self.lake == "no" else into / record.ROWS
        publishing = keeping(kept_in, publish, voice.say, rows)
        whole = Soak(order, into, voice, publishing, run_finished=tell, stopping=shown.meanwhile)
        whole.find_finished = lambda found: shown.show(f"  {soakwords.find_of(found)}")
        return whole

    def _go(self, whole: Soak, shown: _Shown) -> Exception | None:
        """Run the night. Returns the error that the caller raises after it showed what the night found."""
        from compose.redaction import SecretsLeft

        try:
            with whole:
                night = whole.go()
                if self.keep_up and night.verdict is False and whole.up is not None:
                    shown.write(night)
                    _stay_up(whole, night)
        except SecretsLeft as e:
            return e
        return None


def _so_far(whole: Soak, shown: _Shown) -> str:
    from checkers.nights import record
    from reports.drawing.words import plural
    from reports.soak.page import FILE as PAGE

    # it may have been stopped before its first run, or after the last one
    if not whole.stopped and (whole.into / record.RUNS).exists():
        shown.meanwhile(whole.night)
    runs, page = len(whole.night.runs), whole.into / f"{PAGE}.html"
    done = f"{plural(runs, 'run')} {'is' if runs == 1 else 'are'} done"
    return f"{done}; page: {page}" if page.exists() else done


class _Shown:
    """What a night shows while it goes on: a line for each run, and its page, which is written anew now and then."""

    def __init__(self, voice: Voice, page: Callable[[Night], Page], *, quiet: bool) -> None:
        self._page = page
        self._voice = voice
        self._quiet = quiet
        self._written_at = time.monotonic()

    def write(self, night: Night) -> Path:
        from reports.drawing import render

        self._written_at = time.monotonic()
        return render.write(self._page(night), night.folder)

    def meanwhile(self, night: Night) -> None:
        with contextlib.suppress(OSError):
            self.write(night)

    def line(self, night: Night, line: NightRun) -> None:
        from reports.soak.words import line_of

        if time.monotonic() - self._written_at > PAGE_AGAIN:
            self.meanwhile(night)
        text = line_of(night, line)
        if text is not None:
            self.show(text)

    def show(self, text: str) -> None:
        if sys.stdout.isatty() and not self._quiet:
            self._voice.keep(text)  # above the progress bar
        else:
            typer.echo(text)


def _end(night: Night, page: Page, into: Path, typed: dict[str, str], goes_on: str, mailed: list[str] | None) -> int:
    """Show what the night found, and what to type then; return the exit code.

    ``mailed``: the last lines instead of the tables; None: the tables are shown.
    """
    from checkers.evidence.runfolder import FULL
    from harness.cli.terminal import show
    from reports.drawing import render

    try:
        written = render.write(page, into)
    except OSError as e:
        if e.errno not in FULL:
            raise
        warn(f"the page is not written, because the disk is full; write it later with: {goes_on}")
        written = into / f"{page.file}.html"
    typer.echo()
    cover = f"{anywhere()} coverage {shlex.quote(str(into))}"
    ends = {"page": written, "junit": into / render.JUNIT, "cover": cover, **typed}
    show(page, ends, tables=mailed is None)
    if mailed:
        typer.echo("\n" + "\n".join(mailed))
    return night.code


def _show(file: SuiteFile, budget: float | None, runs: int | None) -> int:
    """Print the cells of a suite and what a night of them is; run nothing."""
    from rich.table import Table

    from compose.install.progress import clock
    from harness.cli.terminal import console
    from harness.experiments.soakstacks import sparks
    from reports.drawing.words import plural
    from workloads.file.suite import DIMENSIONS

    table = Table(*DIMENSIONS, "Spark writers", box=None, pad_edge=False)
    for cell, workload in file.workloads.items():
        table.add_row(*(v or "–" for v in cell.values()), str(sparks(workload)))
    console(highlight=False).print(table)
    for cell, why in file.left_out.items():
        typer.echo(f"left out: {cell.name}: {why}")
    stacks = len({c.stack for c in file.cells})
    load = len(file.cells) * file.suite.length
    ends = "say how long by --for or --runs" if budget is None else f"{clock(budget)} in all"
    ends = ends if runs is None else plural(runs, "run")
    typer.echo(
        f"\n{plural(len(file.cells), 'combination')} on {plural(stacks, 'stack')}, {file.suite.length:g} s of load each: "
        f"a round has {clock(load)} of load; {ends}"
    )
    return 0


def _stay_up(whole: Soak, night: Night) -> None:
    """Keep the stack of the last run up until the user ends it, and say where it is."""
    from checkers.evidence.runfolder import RunFolder
    from compose.install import releases
    from compose.install.cache import home
    from harness.run import standing

    assert whole.up is not None
    (catalog, release), stack = whole.up
    ends = stack.endpoints
    last = next(x for x in reversed(night.lines) if night.showed(x) == "new")
    namespace = RunFolder(whole.into / last.folder).read_plan().namespace if last.folder else "?"
    default = release == releases.DEFAULT.iceberg  # runs take a stack that is up for one of this release
    try:
        with standing.lent(home(), ends, whole.into, typer.echo) if default else contextlib.nullcontext():
            typer.echo(f"the stack of {catalog}, Iceberg {release}, stays up until Ctrl-C or `icequake down`:")
            typer.echo(f"  catalog     {ends.catalog_uri}, warehouse {ends.warehouse}")
            typer.echo(f"  store       {ends.s3}, Spark {ends.spark_master}")
            typer.echo(f"  tables      in the namespace {namespace}, as {last.cell.name} seed {last.seed} left them")
            threading.Event().wait()
    except KeyboardInterrupt:
        typer.echo("ending the stack")
