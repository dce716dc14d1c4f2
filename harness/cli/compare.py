"""``icequake compare``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
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
    ENGINES,
    INTO,
    LAST_SEED,
    LENGTH,
    LONGEST_IN_OPS,
    PATH,
    BadArgument,
    ClusterOption,
    ForceOption,
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
from harness.cli.run import RunOptions
from harness.cli.services import reachable, user_services
from harness.cli.sweep import SweepOptions, VaryOption, checked, first_of, so_far, varied_of

if TYPE_CHECKING:
    from checkers.costs.comparison import Comparison, Contender
    from harness.experiments.compare import Compare, ComparisonPlan
    from harness.run.resolve import WorkloadFile
    from workloads.file.workload import Workload


@dataclass(frozen=True)
class CompareOptions(Options):
    """Run one workload with the same seeds and faults on several catalogs, releases or engines, and report what differs."""

    short = "Compare catalogs, releases or engines."

    workload: Annotated[str, typer.Argument(help="A workload file, or the name of a built-in workload (mixed)."), PATH]
    catalog: Annotated[
        str | None,
        typer.Option(help="Catalogs, separated by commas: rest,jdbc,my.yaml; default: the workload's."),
        CATALOGS,
    ] = None
    iceberg: Annotated[
        str | None,
        typer.Option(help="Iceberg releases of the writers, or runtime jars, separated by commas: 1.10.1,1.12.0."),
        Value("path", several=True),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            help="Engines, separated by commas: spark,duckdb; each alone, then all of them mixed, with the operations that all can do."
        ),
        ENGINES,
    ] = None
    formats: Annotated[
        str | None,
        typer.Option(
            "--format", help="Table formats, separated by commas: iceberg,delta; with the operations that both can do."
        ),
        Value(choices=("iceberg", "delta"), several=True),
    ] = None
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="Runs of each catalog or release, each with its own seed.")
    ] = 1
    seed: Annotated[
        int | None, typer.Option(min=0, max=LAST_SEED, help="First seed; the following runs count up from it.")
    ] = None
    time: Annotated[
        str | None, typer.Option(help="Length of each run as a time (90s, 5m); overrides the file."), LENGTH
    ] = None
    ops: Annotated[
        int | None, typer.Option(min=1, max=LONGEST_IN_OPS, help="Length in operations; overrides the file.")
    ] = None
    writers: WritersOption = None
    operations: OperationsOption = None
    vary: VaryOption = None
    session: SessionOption = None
    cluster: ClusterOption = None
    no_nemesis: NoNemesisOption = False
    clean: Annotated[bool, typer.Option("--clean", help="Drop the tables that the runs made in your own catalogs.")] = (
        False
    )
    store: StoreOption = DEFAULT_STORE
    lake: LakeOption = None
    into: Annotated[
        Path | None, typer.Option(help="Folder of the comparison; an unfinished one is continued."), INTO
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--json", help="Another file for the results as JSON."),
        Value("never", written=("contenders", "differences")),
    ] = None
    force: ForceOption = False
    parallel: Annotated[int, typer.Option(min=1, max=32, help="Runs at the same time.")] = 1
    quiet: QuietOption = False

    def check(self) -> None:
        if self.engine is not None and self.writers is not None and "=" in self.writers:
            raise BadArgument(f"--writers {self.writers}: --engine says whose the writers are; give their number")
        self._varied()

    def _varied(self) -> dict[str, tuple[str, ...]]:
        """Parameter → values, of ``--format`` and ``--vary``. Raises BadArgument."""
        given = [] if self.formats is None else [f"format={self.formats}"]
        return varied_of([*given, *(self.vary or [])])

    def prepare(self) -> None:
        place_of(self.lake, self.store)
        checked(self._spec, self._contenders)
        for c in self._catalogs:
            reachable((name for team in self._teams for name in team or self._spec.engines), c)
        if len(self._contenders) < 2:
            raise BadArgument(
                "compare: give at least two catalogs, releases, engines, formats or values of a parameter, such as --catalog rest,jdbc, "
                "--engine spark,duckdb or --vary isolation=snapshot,serializable"
            )

    @cached_property
    def _file(self) -> WorkloadFile:
        from harness.run.resolve import read_workload
        from workloads.file import workload as schema

        return read_workload(schema.find(self.workload), warn)

    @cached_property
    def _teams(self) -> list[tuple[str, ...]]:
        """The contenders' engines: each alone, then all mixed; those of the workload file if none is named."""
        engines = listed("--engine", self.engine)
        return [*((name,) for name in engines), *([tuple(engines)] if len(engines) > 1 else [])] or [()]

    @cached_property
    def _common(self) -> list[str] | None:
        """The kinds of operations that all engines can do; None: no engine is named."""
        return None if self.engine is None else _common(self.changed(self._file), self._teams)

    @cached_property
    def _spec(self) -> Workload:
        return self.changed(self._file, **({} if self._common is None else {"operations": ",".join(self._common)}))

    @cached_property
    def _catalogs(self) -> list[str]:
        return catalogs_of(self.catalog) or [self._spec.catalog]

    @cached_property
    def _releases(self) -> dict[str, tuple[str, Any]]:
        """Label → the release as it was typed, the release. Raises BadArgument."""
        typed = listed("--iceberg", self.iceberg)
        chosen = {r.label: (v, r) for v, r in ((v, release_of(v)) for v in typed)}
        if len(chosen) < len(typed):
            raise BadArgument(f"--iceberg {self.iceberg}: two of these jars are the same file by their sha256")
        return chosen or {(default := release_of(None)).label: (default.iceberg, default)}

    @cached_property
    def _contenders(self) -> tuple[Contender, ...]:
        from checkers.costs.comparison import Contender
        from workloads.file.experiment import combinations

        ones = list(combinations(self._varied()))
        each = (
            (c, v, team, mode) for c in self._catalogs for v in self._releases for team in self._teams for mode in ones
        )
        return tuple(Contender(*facts) for facts in each)

    def _once(self, c: Contender, seed: int) -> str:
        """The command that makes one run of a contender alone."""
        from harness.experiments.compare import engaged
        from workloads.file.changes import counted

        changes: dict[str, Any] = {"seed": seed, "catalog": c.catalog, "iceberg": self._releases[c.iceberg][0]}
        if c.engines:
            engines = engaged(self._spec, replace(c, varied=())).engines
            changes |= {"writers": counted(engines), "operations": ",".join(self._common or [])}
        if not c.varied:
            return self.like(RunOptions, **changes).again()
        changes |= {"experiment": self.workload, "vary": [f"{k}={v}" for k, v in c.varied], "seeds": 1, "into": None}
        return self.like(SweepOptions, **changes).again()

    def takes(self) -> float:
        return (
            len(self._contenders) * self.seeds * (estimates.COLD_RUN_S + estimates.load_s(self._spec)) / self.parallel
        )

    def execute(self) -> int:
        from harness.experiments import compare as comparing

        for name in self._catalogs:
            user_services(name, None, None)  # reports services that do not answer before hours are spent
        into = self.into or comparing.new_folder(self.store, self._spec.workload)
        seed = first_of(self.seed, self.into, self._spec)
        goes_on = self.again(
            catalog=",".join(self._catalogs),
            iceberg=",".join(typed for typed, _ in self._releases.values()),
            seed=seed,
            seeds=self.seeds,
            into=into,
            store=self.store,
        )
        releases = {label: release for label, (_, release) in self._releases.items()}
        seeds = tuple(range(seed, seed + self.seeds))
        order = comparing.ComparisonPlan(
            self._spec, self._contenders, seeds, self._once, self.parallel, self.clean, releases
        )
        return self._show(self._measured(order, into, goes_on).comparison(), into, goes_on)

    def _measured(self, order: ComparisonPlan, into: Path, goes_on: str) -> Compare:
        from compose.redaction import secrets_of
        from harness.experiments.compare import Compare
        from reports.compare import page

        spec, seed = self._spec, order.seeds[0]
        hidden = secrets_of(spec.catalog_properties)
        with framed(into, f"continue with: {goes_on}", quiet=self.quiet, secrets=hidden) as frame:
            voice = frame.voice
            which = f"seed {seed}" if self.seeds == 1 else f"seeds {seed} to {order.seeds[-1]}"
            voice.keep(f"{spec.workload}, {len(self._contenders)} contenders, {which}, {self.how_long}: {into}")
            for _, release in self._releases.values():
                say_own_jar(release, voice.say)
            kept_in = place_of(self.lake, self.store)
            whole = Compare(order, into, self.store, voice, keeping(kept_in, publish, voice.keep))
            frame.so_far = lambda: so_far(whole, goes_on, page.of)
            whole.measure()
        return whole

    def _show(self, done: Comparison, into: Path, goes_on: str) -> int:
        from checkers.verdict import exit_code
        from harness.cli.terminal import show
        from reports.compare import page
        from reports.drawing import render

        made = page.of(done, goes_on)
        written = render.write(made, into)
        if self.output is not None:
            write_output(self.output, render.data(made))
        typer.echo()
        ends = {"page": written, "json": written.with_suffix(".json"), "again": goes_on}
        show(made, ends, least=render.NARROWEST)
        return exit_code(done.verdict)


def _common(spec: Workload, teams: list[tuple[str, ...]]) -> list[str]:
    """The kinds of operations of a workload that all these engines can do on all its tables; warns of the others.

    Raises:
        BadArgument: there is none.
    """
    from workloads.engines.engines import ENGINES

    engines = list(dict.fromkeys(name for team in teams for name in team))
    kinds = dict.fromkeys(k for p in spec.resolved_phases() for k in p.operations or ())
    can = {e: [k for k in kinds if all(ENGINES[e].can(k, t) for t in spec.tables)] for e in engines}
    common = [k for k in kinds if all(k in own for own in can.values())]
    if not common:
        each = "; ".join(f"{e}: {', '.join(own) or 'none'}" for e, own in can.items())
        raise BadArgument(
            f"--engine {','.join(engines)}: no operation of {spec.workload} that all of them can do ({each})"
        )
    without = {k: [e for e in engines if k not in can[e]] for k in kinds if k not in common}
    if without:
        each = ", ".join(f"{k} ({', '.join(unable)})" for k, unable in without.items())
        warn(f"left out, because these engines cannot do it on every table of {spec.workload}: {each}")
    return common
