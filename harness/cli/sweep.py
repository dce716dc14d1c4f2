"""``icequake sweep``."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import estimates
from harness.cli.command import Options
from harness.cli.frame import framed
from harness.cli.lake import LakeOption, keeping, place_of
from harness.cli.options import (
    CATALOGS,
    DEFAULT_STORE,
    INTO,
    LAST_SEED,
    LENGTH,
    LONGEST_IN_OPS,
    PATH,
    BadArgument,
    ClusterOption,
    ForceOption,
    IcebergOption,
    NoNemesisOption,
    OperationsOption,
    QuietOption,
    SessionOption,
    StoreOption,
    Value,
    WritersOption,
    catalogs_of,
    listed,
    release_of,
    say_own_jar,
    warn,
    write_output,
)
from harness.cli.publish import publish
from harness.cli.services import reachable, user_services

if TYPE_CHECKING:
    from checkers.costs.comparison import Comparison, Contender, ContenderRun
    from checkers.costs.curves import Predicted
    from harness.experiments.compare import Compare, ComparisonPlan
    from harness.experiments.sweep import Sweep
    from harness.run.resolve import WorkloadFile
    from reports.drawing.page import Page
    from workloads.file.experiment import Experiment
    from workloads.file.workload import Workload

VaryOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A parameter and its values: writers=1,2,4; repeatable. It replaces the file's values of that parameter. "
        "`icequake list parameters` lists them.",
        show_default=False,
    ),
]


def varied_of(typed: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parameter → values, of ``--vary`` options.

    Raises:
        BadArgument: one is not ``parameter=value,…``, or a parameter is given twice.
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in typed:
        name, equals, values = text.partition("=")
        if not equals or not name.strip():
            raise BadArgument(f"--vary {text}: write a parameter and its values, such as writers=1,2,4")
        if name.strip() in found:
            raise BadArgument(f"--vary {text}: {name} is given twice; put all its values into one")
        found[name.strip()] = tuple(listed(f"--vary {name}", values))
    return found


def checked(workload: Workload, contenders: Sequence[Contender]) -> None:
    """Raises BadArgument: a parameter does not exist, or a value or a combination is not possible."""
    from harness.experiments.compare import engaged
    from workloads.file.parameters import ParameterError

    for contender in contenders:
        try:
            engaged(workload, contender)
        except ParameterError as e:
            raise BadArgument(f"--vary: {e}") from None


def first_of(seed: int | None, into: Path | None, spec: Workload) -> int:
    """The first seed: as typed, that of the folder that goes on, the workload's, or a new one."""
    from harness.experiments.compare import first_seed

    first = first_seed(into) if into is not None and seed is None else seed
    found = spec.seed if first is None else first
    return random.SystemRandom().randrange(2**31) if found is None else found


def so_far(whole: Compare, goes_on: str, page_of: Callable[[Comparison, str], Page]) -> str:
    """Write the page of a comparison that was stopped; how much of it is measured."""
    from reports.drawing import render

    measured = whole.comparison()
    if whole.path.exists():
        render.write(page_of(measured, goes_on), whole.into)
    return f"{len(measured.runs)} of {len(whole.order.turns())} runs are measured"


@dataclass(frozen=True)
class SweepOptions(Options):
    """Measure one workload with each combination of some parameters' values: writers, backoff, layout, retries, latency."""

    short = "Measure how load and settings change a run."

    experiment: Annotated[
        str, typer.Argument(help="An experiment or workload file, or the name of a built-in one (backoff)."), PATH
    ]
    vary: VaryOption = None
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Runs of each combination, each with its own seed.")
    ] = None
    seed: Annotated[
        int | None, typer.Option(min=0, max=LAST_SEED, help="First seed; the following runs count up from it.")
    ] = None
    catalog: Annotated[
        str | None, typer.Option(help="Catalogs, separated by commas: rest,jdbc; default: the file's."), CATALOGS
    ] = None
    iceberg: IcebergOption = None
    time: Annotated[
        str | None, typer.Option(help="Length of each run as a time (20s, 1m); overrides the file."), LENGTH
    ] = None
    ops: Annotated[
        int | None, typer.Option(min=1, max=LONGEST_IN_OPS, help="Length in operations; overrides the file.")
    ] = None
    writers: WritersOption = None
    operations: OperationsOption = None
    session: SessionOption = None
    cluster: ClusterOption = None
    no_nemesis: NoNemesisOption = False
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Predict the same points, and further ones, by a simulator.")
    ] = False
    store: StoreOption = DEFAULT_STORE
    lake: LakeOption = None
    into: Annotated[Path | None, typer.Option(help="Folder of the sweep; an unfinished one is continued."), INTO] = None
    output: Annotated[
        Path | None,
        typer.Option("--json", help="Another file for the results as JSON."),
        Value("never", written=("axis", "points")),
    ] = None
    force: ForceOption = False
    quiet: QuietOption = False

    def check(self) -> None:
        varied_of(self.vary or [])

    def prepare(self) -> None:
        place_of(self.lake, self.store)
        if not self._values:
            path = self._read[0].path
            raise BadArgument(f"sweep: {path} says nothing to vary; give --vary, such as --vary writers=1,2,4")
        for name in self._catalogs:
            reachable(self._spec.engines, name)
        checked(self._spec, self._contenders)

    @cached_property
    def _read(self) -> tuple[WorkloadFile, Experiment]:
        from harness.run.resolve import read_experiment
        from workloads.file import experiment

        return read_experiment(experiment.find(self.experiment), warn)

    @cached_property
    def _spec(self) -> Workload:
        return self.changed(self._read[0])

    @cached_property
    def _values(self) -> dict[str, tuple[str, ...]]:
        """Parameter → its values, of the file and the command line."""
        return {**self._read[1].vary, **varied_of(self.vary or [])}

    @cached_property
    def _catalogs(self) -> list[str]:
        return catalogs_of(self.catalog) or [*(self._read[1].catalogs or (self._spec.catalog,))]

    @cached_property
    def _release(self) -> Any:
        return release_of(self.iceberg)

    @cached_property
    def _contenders(self) -> tuple[Contender, ...]:
        from checkers.costs.comparison import Contender
        from workloads.file.experiment import combinations

        ones = combinations(self._values)
        return tuple(Contender(c, self._release.label, (), policy) for policy in ones for c in self._catalogs)

    def _once(self, c: Contender, seed: int) -> str:
        """The command that makes one run of a combination alone."""
        vary = [f"{k}={v}" for k, v in c.varied]
        return self.again(vary=vary, catalog=c.catalog, seed=seed, seeds=1, into=None, simulate=False)

    def takes(self) -> float:
        return estimates.swept_s(self._runs, estimates.load_s(self._spec), len(self._catalogs))

    @property
    def _runs(self) -> int:
        """How many runs there are."""
        return len(self._contenders) * (self.seeds or self._read[1].seeds)

    def execute(self) -> int:
        from harness.experiments import compare as comparing

        for name in self._catalogs:
            user_services(name, None, None)  # reports services that do not answer before hours are spent
        spec, count = self._spec, self.seeds or self._read[1].seeds
        into = self.into or self.store / "sweep" / comparing.new_folder(self.store, spec.workload).name
        seed = first_of(self.seed, self.into, spec)
        goes_on = self.again(
            vary=[f"{k}={','.join(v)}" for k, v in self._values.items()],
            catalog=",".join(self._catalogs),
            seed=seed,
            seeds=count,
            into=into,
            store=self.store,
        )
        seeds, releases = tuple(range(seed, seed + count)), {self._release.label: self._release}
        order = comparing.ComparisonPlan(spec, self._contenders, seeds, self._once, releases=releases)
        return self._show(self._measured(order, into, goes_on).comparison(), into, goes_on)

    def _measured(self, order: ComparisonPlan, into: Path, goes_on: str) -> Sweep:
        from harness.experiments.sweep import Sweep
        from reports.drawing.words import plural
        from reports.sweep import page

        count, seed, each = len(order.seeds), order.seeds[0], len(self._contenders)
        with framed(into, f"continue with: {goes_on}", quiet=self.quiet) as frame:
            voice = frame.voice
            varied = {**self._values, **({"catalog": self._catalogs} if len(self._catalogs) > 1 else {})}
            axes = " × ".join(f"{name} {', '.join(values)}" for name, values in varied.items())
            runs = (
                f"{plural(each, 'point')} ({axes}) × {plural(count, 'seed')} from {seed} = {plural(self._runs, 'run')}"
            )
            voice.keep(f"{self._spec.workload}, {runs}, {self.how_long}: {into}")
            say_own_jar(self._release, voice.say)
            kept_in = place_of(self.lake, self.store)
            kept = keeping(kept_in, publish, voice.keep)
            whole = Sweep(
                order,
                into,
                self.store,
                voice,
                kept,
                finished=self._once_measured(voice.keep, lambda: whole.comparison()),
            )
            frame.so_far = lambda: so_far(whole, goes_on, page.of)
            whole.measure()
        return whole

    def _once_measured(
        self, say: Callable[[str], object], measured: Callable[[], Comparison]
    ) -> Callable[[Sequence[ContenderRun]], object]:
        """Says, when the first run of this command is measured, how many are left and how long they take by that one."""
        from reports.drawing.words import plural

        untold = [say]

        def tell(lines: Sequence[ContenderRun]) -> None:
            loads = [r.measures.seconds for r in lines if r.measures is not None]
            left = self._runs - len(measured().runs)
            if loads and untold and left > 0:
                takes = estimates.words(estimates.swept_s(left, loads[0], len(self._catalogs) - 1))
                untold.pop()(f"time left: {takes} ({plural(left, 'run')}; the first one had {loads[0]:.0f} s of load)")

        return tell

    def _longer(self, seed: int, time: str) -> str:
        """The command that makes all runs of this sweep anew, each so long."""
        vary = [f"{k}={','.join(v)}" for k, v in self._values.items()]
        catalogs = ",".join(self._catalogs)
        return self.again(vary=vary, catalog=catalogs, seed=seed, time=time, ops=None, into=None, simulate=False)

    def _show(self, done: Comparison, into: Path, goes_on: str) -> int:
        from checkers.costs.simulated import sweeps
        from checkers.verdict import exit_code
        from harness.cli.terminal import show
        from harness.experiments.compare import engaged
        from reports.drawing import render
        from reports.sweep import page

        points: Sequence[Predicted] = ()
        notes: Sequence[str] = ()
        if self.simulate:
            found = sweeps.predict(done, into, lambda c: engaged(self._spec, c), cores=os.cpu_count() or 1)
            points, notes = found.points, found.notes
        made = page.of(done, goes_on, points, notes, partial(self._longer, done.seeds[0]))
        written = render.write(made, into)
        if self.output is not None:
            write_output(self.output, render.data(made))
        typer.echo()
        show(made, {"page": written, "json": written.with_suffix(".json"), "again": goes_on})
        return exit_code(done.verdict)
