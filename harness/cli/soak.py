"""``icequake soak``."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import stopping
from harness.cli.check import publish
from harness.cli.crash import details_in
from harness.cli.lake import LakeOption, keeping, place_of
from harness.cli.options import (
    BadArgument,
    StoreOption,
    anywhere,
    path_anywhere,
    store_words,
    warn,
)

if TYPE_CHECKING:
    from checkers.nights.night import Night
    from checkers.nights.record import Line
    from harness.experiments.soak import Soak
    from harness.run.resolve import SuiteFile
    from workloads.file.suite import Cell, Suite

SHORT = "it must be at least as long as one run"
PAGE_AGAIN = 300.0
"""Seconds after which the page of a night that goes on is written anew."""


def repeating(file: SuiteFile, shared: Sequence[str] = (), *, records: bool = False) -> Callable[[Cell, int], str]:
    """(cell, seed) → the command that repeats that run; ``shared``: further words of each; ``records``: each records its order."""
    from harness.experiments import soakfinds
    from workloads.engines.engines import SPARK
    from workloads.file.suite import AND, NONE, OWN
    from workloads.file.workload import LIBRARY

    def again(cell: Cell, seed: int) -> str:
        path = file.files[cell.workload]
        words = ["run", cell.workload if path.parent == LIBRARY else os.path.abspath(path), "--seed", str(seed)]
        catalog = file.catalogs.get(cell.catalog)
        words += [
            "--catalog",
            cell.catalog if catalog is None else os.path.abspath(catalog),
            "--iceberg",
            cell.iceberg,
            "--time",
            f"{file.suite.length:g}s",
        ]
        words += {NONE: ["--no-nemesis"], OWN: []}.get(cell.faults, ["--faults", cell.faults.replace(AND, ",")])
        if cell.writers:
            engines = file.workloads[cell].engines
            counts = ",".join(f"{name}={engines.count(name)}" for name in dict.fromkeys(engines))
            words += ["--writers", counts if {*engines} != {SPARK} else str(len(engines))]
        order = soakfinds.recordable(file.workloads[cell]).order if records else cell.order
        words += ["--order", order] if order else []
        words += [w for k, v in file.workloads[cell].mode.given.items() for w in (f"--{k}", v)]
        return shlex.join([anywhere(), *words, *shared])

    return again


def soak(
    suite: Annotated[str, typer.Argument(help="A suite file, or the name of a built-in suite (nightly, smoke).")],
    lasts: Annotated[
        str | None,
        typer.Option("--for", help="How long (6h, 30m), with the time of earlier sessions; default: the file's."),
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, max=1_000_000, help="Number of runs; instead of a time.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the night: which cells come when, and the seed of each run.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="How large the night's folder may become (20GB); overrides the file.")
    ] = None,
    stop_on_anomaly: Annotated[
        bool, typer.Option("--stop-on-anomaly", help="End the night with the first new anomaly.")
    ] = False,
    shrink: Annotated[
        bool | None,
        typer.Option(
            "--shrink/--no-shrink",
            help="Replay and shrink each new anomaly in the night itself; default: as the file says, which is yes.",
        ),
    ] = None,
    keep_up: Annotated[
        bool, typer.Option("--keep-up", help="With --stop-on-anomaly: keep the stack up for a look, until Ctrl-C.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the cells and run nothing.")] = False,
    store: StoreOption = Path("store"),
    lake: LakeOption = None,
    into: Annotated[Path | None, typer.Option(help="Folder of the night; an unfinished one is continued.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the last lines.")] = False,
) -> int:
    """Run workloads × catalogs × faults × releases with fresh seeds for a night, and keep what fails."""
    from checkers.evidence.runfolder import FULL
    from checkers.nights import record, trend
    from compose.redaction import SecretsLeft
    from harness.cli.terminal import Voice
    from harness.cli.terminal import show as show_page
    from harness.experiments import soak as soaking
    from harness.run.resolve import read_suite
    from reports.drawing import render
    from reports.soak import page
    from reports.soak import words as soakwords
    from workloads.file import suite as suites

    file = read_suite(suites.locate(suite), warn)
    changed = _changed(file.suite, keep, stop_on_anomaly, shrink)
    budget = _budget(changed, lasts, runs)
    if keep_up and not changed.stop_on_anomaly:
        raise BadArgument("--keep-up: give --stop-on-anomaly, too; otherwise no stack stays")
    if dry_run:
        return _show(file, budget, runs)
    if into is not None and seed is None:
        seed = soaking.seed_of(into)
    if seed is None:
        seed = random.SystemRandom().randrange(2**31)
    into = into or soaking.new_folder(store, changed.suite)
    kept_in = place_of(lake, store)
    words = ["soak", path_anywhere(suite)]
    words += ["--for", f"{budget:g}s"] if lasts is not None and budget is not None else []
    words += ["--runs", str(runs)] if runs is not None else []
    words += ["--keep", keep] if keep is not None else []
    words += ["--stop-on-anomaly"] if stop_on_anomaly else []
    words += ["--keep-up"] if keep_up else []
    words += [] if shrink is None else ["--shrink" if shrink else "--no-shrink"]
    words += ["--lake", path_anywhere(lake)] if lake is not None else []
    words += ["--seed", str(seed), "--into", str(into), "--store", str(store)]
    goes_on = shlex.join([anywhere(), *words])
    shared = store_words(store)
    again = repeating(file, shared, records=changed.shrink is not None)
    order = soaking.Order(file, changed, seed, again, budget, runs, icequake=anywhere())

    written_at = time.monotonic()

    def write(night: Night) -> Path:
        nonlocal written_at
        written_at = time.monotonic()
        return render.write(page.of(night, goes_on, *trend.earlier(night.folder)), night.folder)

    def meanwhile(night: Night) -> None:
        with contextlib.suppress(OSError):
            write(night)

    def tell(line: Line) -> None:
        if time.monotonic() - written_at > PAGE_AGAIN:
            meanwhile(whole.night)
        text = soakwords.line_of(whole.night, line)
        if text is not None:
            show(text)

    def show(text: str) -> None:
        if sys.stdout.isatty() and not quiet:
            voice.keep(text)  # above the progress bar
        else:
            typer.echo(text)

    with Voice(quiet=quiet) as voice, details_in(into):
        voice.keep(f"{changed.suite}, {len(file.cells)} cells, seed {seed}: {into}")
        voice.keep(f"go on at any time with: {goes_on}")
        for cell, why in file.left_out.items():
            voice.say(f"left out: {cell.name}: {why}")
        stopping.current().way_on = lambda: f"continue with: {goes_on}"
        whole = soaking.Soak(order, into, voice, keeping(kept_in, publish, voice.say), said=tell, stopping=meanwhile)
        whole.told = lambda found: show(f"  {soakwords.find_of(found)}")
        left: SecretsLeft | None = None
        try:
            with whole:
                night = whole.go()
                if keep_up and night.verdict is False and whole.up is not None:
                    write(night)
                    _stay_up(whole, night)
        except KeyboardInterrupt as e:
            if (
                not whole.stopped and (into / record.RUNS).exists()
            ):  # it was stopped before its first run, or after the last one
                meanwhile(whole.night)
            done = f"{len(whole.night.runs)} runs are done"
            raise stopping.Stopped(f"{done}; continue with: {goes_on}") from e
        except SecretsLeft as e:  # what the night found is shown first
            left = e
    night = whole.night
    try:
        written = write(night)
    except OSError as e:
        if e.errno not in FULL:
            raise
        warn(f"the page is not written, because the disk is full; write it later with: {goes_on}")
        written = into / f"{page.FILE}.html"
    typer.echo()
    cover = f"{anywhere()} coverage {shlex.quote(str(into))}"
    ends = {"page": written, "junit": into / render.JUNIT, "cover": cover, "again": goes_on}
    show_page(page.of(night, goes_on), ends, tables=not quiet)
    if left is not None:
        raise left
    return night.code


def _changed(suite: Suite, keep: str | None, stop_on_anomaly: bool, shrink: bool | None) -> Suite:
    """The suite as the options change it."""
    from workloads.file.sizes import size
    from workloads.file.suite import Shrinking

    update: dict[str, object] = {"stop_on_anomaly": True} if stop_on_anomaly else {}
    if shrink is not None:
        update["shrink"] = (suite.shrink or Shrinking()) if shrink else None
    if keep is not None:
        try:
            update["keep"] = size(keep)
        except ValueError as e:
            raise BadArgument(f"--keep {keep}: {e}") from None
    return suite.model_copy(update=update)


def _budget(suite: Suite, lasts: str | None, runs: int | None) -> float | None:
    """Seconds of the night; None if only the number of runs limits it."""
    from nemesis.faults.lengths import seconds

    if lasts is not None:
        try:
            found = seconds(lasts)
        except ValueError as e:
            raise BadArgument(f"--for {lasts}: {e}") from None
        if found < suite.length:
            raise BadArgument(f"--for {lasts}: {SHORT}, {suite.length:g}s (length in {suite.suite})")
        return found
    if runs is not None:
        return None
    if suite.lasts is None:
        raise BadArgument(f"soak {suite.suite}: say how long: --for 6h, --runs 100, or for: in the file")
    return suite.lasts


def _show(file: SuiteFile, budget: float | None, runs: int | None) -> int:
    """Print the cells of a suite and what a night of them is; run nothing."""
    from rich.table import Table

    from compose.install.progress import clock
    from harness.cli.terminal import console
    from harness.experiments.soakstacks import sparks
    from workloads.file.suite import DIMENSIONS

    table = Table(*DIMENSIONS, "Spark writers", box=None, pad_edge=False)
    for cell, workload in file.workloads.items():
        table.add_row(*(v or "–" for v in cell.values()), str(sparks(workload)))
    console(highlight=False).print(table)
    for cell, why in file.left_out.items():
        typer.echo(f"left out: {cell.name}: {why}")
    stacks = len({c.stack for c in file.cells})
    load = len(file.cells) * file.suite.length
    ends = f"{runs} runs" if runs is not None else f"{clock(budget or 0)} in all"
    typer.echo(
        f"\n{len(file.cells)} cells on {stacks} stacks, {file.suite.length:g} s of load each: a round has {clock(load)} of load; {ends}"
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
