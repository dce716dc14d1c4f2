"""``icequake shrink``."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import estimates
from harness.cli.command import Options
from harness.cli.crash import details_in
from harness.cli.experiments import ProveOptions
from harness.cli.frame import RunningCommand, framed
from harness.cli.options import (
    CATALOG,
    DEFAULT_STORE,
    INTO,
    LENGTH,
    PATH,
    BadArgument,
    ClusterOption,
    ForceOption,
    QuietOption,
    RunArgument,
    SessionOption,
    StoreOption,
    Value,
    catalog_name,
    length,
    release_of,
    run_in,
    say_own_jar,
    write_output,
)
from harness.cli.publish import publish
from harness.cli.run import RunOptions
from harness.cli.services import reachable, user_services

if TYPE_CHECKING:
    from checkers.evidence.journal import Journal
    from checkers.evidence.runfolder import RunFolder
    from compose.external.external import External
    from harness.cli.terminal import Voice
    from harness.experiments.shrink.log import Trial
    from harness.experiments.shrink.shrink import Failed, Shrink
    from harness.experiments.shrink.trials import TrialBench
    from reports.shrunk import Shrunk

NOT_REPRODUCED = 2
FEW_WRITERS = 4
"""Writers that are started at once, if the run had so many: another start takes longer than they cost."""


def _anomalies() -> Iterable[str]:
    from checkers.judge.check import ANOMALIES

    return sorted(ANOMALIES)


@dataclass(frozen=True)
class ShrinkOptions(Options):
    """Make a failed run small: the fewest operations that show its anomaly again, as a scenario file."""

    short = "Make a failed run small."

    run: RunArgument = None
    anomaly: Annotated[
        str | None,
        typer.Option(help="Name of the anomaly; default: the first one that the workload does not allow."),
        Value(choices=_anomalies, what="anomaly"),
    ] = None
    op: Annotated[
        str | None,
        typer.Option(
            help="Operation of the event that is meant, as its card shows it, such as w2-14; default: any, new ones first."
        ),
    ] = None
    catalog: Annotated[
        str | None,
        typer.Option(help="A catalog of `icequake list catalogs`, or your own, my.yaml; default: the run's."),
        CATALOG,
    ] = None
    iceberg: Annotated[
        str | None,
        typer.Option(help="Release of Iceberg, or the path of a runtime jar that you built; default: the run's."),
        PATH,
    ] = None
    session: SessionOption = None
    cluster: ClusterOption = None
    budget: Annotated[str, typer.Option(help="Time for the search: 10m, 90s."), LENGTH] = "10m"
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs for the search, at most; default: as the time allows.")
    ] = None
    tries: Annotated[
        int, typer.Option(min=1, max=100, help="Runs of a candidate until it counts as one that does not show it.")
    ] = 2
    times: Annotated[int, typer.Option(min=1, max=100, help="Runs in which the result must show it.")] = 3
    into: Annotated[
        Path | None,
        typer.Option(help="Folder of the shrink; an unfinished one is continued. Default: shrink/NAME of the store."),
        INTO,
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--json", help="Another file for the result as JSON."),
        Value("never", written=("anomaly", "minimal")),
    ] = None
    force: ForceOption = False
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Keep every run, not only those that show the anomaly.")
    ] = False
    store: StoreOption = DEFAULT_STORE
    quiet: QuietOption = False

    def prepare(self) -> None:
        reachable(self._failed.recording.workload.engines, self._catalog)
        _ = self._release

    def takes(self) -> float:
        return estimates.STACK_S + length(self.budget)

    @cached_property
    def _failed(self) -> Failed:
        """The run that failed, as it is stored. Raises BadArgument: there is nothing to shrink."""
        from checkers.evidence import runfolder
        from harness.experiments.shrink.shrink import NothingToShrink, failed
        from harness.run.errors import RunError

        folder = runfolder.find(run_in(self.store, self.run))
        with details_in(folder.path):
            try:
                return failed(folder, self.anomaly, self.op)
            except (NothingToShrink, RunError) as e:
                raise BadArgument(str(e)) from None

    @cached_property
    def _catalog(self) -> str:
        return catalog_of(self._failed, self.catalog)

    @cached_property
    def _version(self) -> str | None:
        """The release of Iceberg, or a jar, on which the search runs; None: the newest release."""
        return self.iceberg if self.iceberg is not None else recorded_release(self._failed)

    @cached_property
    def _release(self) -> Any:
        return release_of(self._version, self._failed.recording.workload)

    @cached_property
    def _into(self) -> Path:
        if self.into is not None:
            return self.into
        path = self._failed.folder.path
        of_op = "" if self.op is None else re.sub(r"[^\w.-]+", "-", f"-{self.op}")  # a name of anybody's history
        return self.store / "shrink" / f"{self._failed.name}-{path.parent.name}-{path.name}{of_op}".lower()

    @cached_property
    def _proves(self) -> str:
        """The command that proves the result."""
        from harness.experiments.shrink.shown import SCENARIO

        return ProveOptions(names=[str(self._into / SCENARIO)], iceberg=self._version, store=self.store).again()

    def _replays(self, recording: Path) -> str:
        """The command that replays a recording of the search."""
        return replay_command(self._failed.folder, recording, self._catalog, self._version, self.store)

    def execute(self) -> int:
        from compose.redaction import secrets_of
        from harness.experiments.shrink import trials
        from harness.experiments.shrink.candidates import measure
        from harness.experiments.shrink.log import journal_of
        from harness.experiments.shrink.shrink import on_catalog
        from harness.experiments.soakfinds import in_night
        from harness.run.hidden import revealed
        from reports.drawing.words import plural

        external = user_services(self._catalog, None, None)
        found, into = on_catalog(self._failed, self._catalog), self._into
        about = trials.about(in_night(found.folder.path, into), found.name, self._catalog, self._release.label, self.op)
        log = journal_of(into, about)
        hidden = (*external.secrets, *secrets_of(revealed(found.recording.workload.catalog_properties)))
        with log, framed(into, f"go on with: {self._goes_on}", quiet=self.quiet, unit="runs", secrets=hidden) as frame:
            voice = frame.voice
            runner = self._runner(found, external, hidden, voice)
            search = f"at most {self.how_long}, then {plural(self.times, 'run')} of the result"
            voice.keep(f"{found.name} of {found.folder.path}, {measure(found.recording)}, {search}: {into}")
            say_own_jar(self._release, voice.say)
            with runner:
                result = self._shrunk(found, runner, log, frame)
            return self._show(result)

    def _runner(self, found: Failed, external: External, hidden: tuple[str, ...], voice: Voice) -> TrialBench:
        """What makes the runs of the search."""
        from compose import setup
        from harness.experiments.shrink import trials

        workload = found.recording.workload
        return trials.TrialBench(
            self._into / trials.RUNS,
            self._into / "logs",
            setup.ensure_release(self._release),
            voice,
            publish,
            catalog=self._catalog,
            external=external,
            secrets=hidden,
            mode=replace(workload.quick_mode, **self.mode),
            writers=min(FEW_WRITERS, workload.writers),
            replays=self._replays,
            proves=self._proves,
        )

    @cached_property
    def _goes_on(self) -> str:
        """The command that shrinks on."""
        return self.again(
            run=self._failed.folder.path,
            anomaly=self._failed.name,
            op=self.op,
            catalog=self._catalog,
            budget=self.budget,
            tries=self.tries,
            times=self.times,
            into=self._into,
        )

    def _shrunk(self, found: Failed, runner: TrialBench, log: Journal[Trial], frame: RunningCommand) -> Shrunk:
        from harness.experiments.shrink import trials
        from harness.experiments.shrink.shown import shrunk
        from harness.experiments.shrink.shrink import Shrink
        from harness.experiments.soakfinds import Until
        from workloads.file.recording import FILE

        voice, stop = frame.voice, threading.Event()
        budget = trials.Budget(length(self.budget), self.runs)
        until = Until(runner, stop.is_set)
        asked = trials.Trials(until, log, self._into, found.name, budget, voice, keep=self.keep_runs, new=found.new)
        shrink = Shrink(found, self._into, asked, voice, tries=self.tries, times=self.times)
        ways = {"proves": self._proves, "replays": self._replays(self._into / FILE), "goes_on": self._goes_on}

        def so_far() -> str:
            stop.set()
            scenario = shrink.so_far()
            if scenario is not None:
                self._write(shrunk(shrink, shrink.smallest, False, scenario, **ways))
            return _so_far(shrink)

        frame.so_far, frame.way_on = so_far, lambda: f"go on with: {self._goes_on}"
        rest, minimal, scenario = shrink.shrink()
        return shrunk(shrink, rest, minimal, scenario, **ways)

    def _write(self, result: Shrunk) -> Path:
        from reports import shrunk as shown
        from reports.drawing import render

        return render.write(shown.of(result), self._into)

    def _show(self, result: Shrunk) -> int:
        from harness.cli.exported import export_command
        from harness.cli.terminal import show
        from reports import shrunk as shown
        from reports.drawing import render
        from workloads.file import scenario

        page = shown.of(result)
        written = self._write(result)
        if self.output is not None:
            write_output(self.output, render.data(page))
        files = {"scenario": result.scenario, "recording": result.recording}
        kept = {name: self._into / file for name, file in files.items() if file is not None}
        export = {"export": export_command(scenario.load(file), str(file))} if (file := kept.get("scenario")) else {}
        command = result.command if result.after is not None else result.goes_on
        typer.echo()
        show(page, {"runs": shown.ran(result), **kept, "page": written, **export, "again": command})
        return 0 if result.shown else NOT_REPRODUCED


def _so_far(shrink: Shrink) -> str:
    """What a shrink that was stopped leaves, in words."""
    from harness.experiments.shrink.candidates import measure
    from harness.experiments.shrink.shown import SCENARIO
    from reports.drawing.words import plural
    from workloads.file.recording import FILE

    tries = f"{plural(len(shrink.trials), 'run')} so far"
    if shrink.smallest is None:
        return f"{tries}; nothing showed it"
    file = next((p for name in (SCENARIO, FILE) if (p := shrink.into / name).exists()), shrink.into)
    return f"{tries}; the smallest has {measure(shrink.smallest)}: {file}"


def replay_command(
    run: RunFolder, recording: Path, catalog: str, iceberg: str | None, store: Path = DEFAULT_STORE
) -> str:
    """The command that replays a recording of a run; it takes the run's workload file."""
    words = words_of(run.read_plan().command)
    file = words[words.index("run") + 1] if "run" in words[:-1] else run.path.parent.name
    again = RunOptions(workload=file, catalog=catalog, iceberg=iceberg, order=f"replay {recording}", store=store)
    return again.again()


def catalog_of(found: Failed, typed: str | None) -> str:
    """The catalog that the run had, or that was typed; of the user's own the path of its file.

    Raises:
        BadArgument: the file of the user's own catalog is not known, or not there.
    """
    from compose.catalogs import user_file
    from compose.catalogs.registry import CATALOGS

    if typed is not None:
        return catalog_name(typed)
    plan = found.folder.read_plan()
    name = "" if plan.catalog is None else plan.catalog.name
    path = option_of(plan.command, "--catalog")
    if name in CATALOGS and not (path is not None and user_file.is_file(path)):
        return name
    if path is None or not user_file.is_file(path):
        raise BadArgument(f"{found.folder.plan}: catalog {name} is your own; give its file with --catalog my.yaml")
    if not Path(path).is_file():
        raise BadArgument(
            f"{found.folder.plan}: the catalog's file {path} is not there any more; give it with --catalog"
        )
    return catalog_name(path)


def words_of(command: str) -> list[str]:
    """The words of a command line; none if it cannot be read."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def option_of(command: str, option: str) -> str | None:
    """The value of an option in a command line; None if it does not have it."""
    words = words_of(command)
    for i, word in enumerate(words):
        if word == option:
            return next(iter(words[i + 1 :]), None)
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def recorded_release(found: Failed) -> str | None:
    """The release of Iceberg that the run had; the newest one if the plan does not say.

    Raises:
        BadArgument: it was a jar of the user's.
    """
    if "iceberg-jar" in found.versions:
        raise BadArgument(
            f"{found.folder.plan}: the run had a runtime jar of your own; give its path, or a release, with --iceberg"
        )
    release = found.versions.get("iceberg", "unknown")
    return release if release[:1].isdigit() else None
