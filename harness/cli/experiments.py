"""``icequake prove`` and ``matrix``."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import estimates, stopping
from harness.cli.command import Options
from harness.cli.crash import details_in
from harness.cli.frame import framed
from harness.cli.lake import LakeOption, keeping, place_of
from harness.cli.options import (
    DEFAULT_STORE,
    ENGINES,
    INTO,
    NEVER,
    OUR_CATALOG,
    PATH,
    BadArgument,
    ClusterOption,
    ForceOption,
    IcebergOption,
    QuietOption,
    SessionOption,
    StoreOption,
    Value,
    absolute,
    command,
    delta_releases,
    deltalake_releases,
    engine_names,
    listed,
    path_anywhere,
    release_of,
    say_own_jar,
    warn,
    write_output,
)
from harness.cli.publish import publish
from harness.cli.services import reachable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from checkers.conflicts.measured import MeasuredCells, MeasuredResult
    from checkers.judge.proof import Proof
    from harness.cli.terminal import Voice
    from workloads.file.scenario import Scenario

ENOUGH_RUNS = 20
"""Runs of a release, of fewer of which is said that they can miss a defect."""


@dataclass(frozen=True)
class ProveOptions(Options):
    """Reproduce known defects, each as a scenario on real Spark; exit code 0 if every result is as expected for this version, or with
    `--expect fixed` if every defect is gone."""

    short = "Reproduce known defects."

    names: Annotated[list[str] | None, typer.Argument(help="Scenarios, by name or file; default: all."), PATH] = None
    times: Annotated[int, typer.Option(min=1, max=1000, help="Repetitions of each scenario.")] = 1
    expect: Annotated[
        str,
        typer.Option(
            help="What exit code 0 means: every result is as its file has it for this version (written), or every defect is gone (fixed)."
        ),
        Value(choices=("written", "fixed")),
    ] = "written"
    iceberg: Annotated[
        str | None,
        typer.Option(
            "--iceberg",
            help="Iceberg of the writers: a release (`list versions`), or the path of a runtime jar that you built; several with commas, "
            "for a table of them; default: the newest release.",
        ),
        PATH,
    ] = None
    delta: Annotated[
        str | None,
        typer.Option(
            help="Delta Lake of Spark's writers, a release; several with commas, for a table of them; default: the newest."
        ),
        Value(choices=delta_releases, what="release of Delta Lake", several=True),
    ] = None
    deltalake: Annotated[
        str | None,
        typer.Option(
            help="deltalake of delta-rs's writers, a release; several with commas, for a table of them; default: the scenario's, or the "
            "newest."
        ),
        Value(choices=deltalake_releases, what="release of deltalake", several=True),
    ] = None
    session: SessionOption = None
    cluster: ClusterOption = None
    output: Annotated[
        Path | None,
        typer.Option("--json", help="File for the results as JSON."),
        Value("never", written=("versions", "proofs")),
    ] = None
    force: ForceOption = False
    store: StoreOption = DEFAULT_STORE
    lake: LakeOption = None
    into: Annotated[Path | None, typer.Option(help="Folder of the proofs; unfinished ones are continued."), INTO] = None
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the table only."), NEVER] = False

    def prepare(self) -> None:
        place_of(self.lake, self.store)
        _ = self._scenarios, [one._release for one in self._each]
        promises = [s.scenario for s in self._scenarios if not s.anomalies]
        if self._fixed and promises:
            raise BadArgument(
                f"--expect fixed: {', '.join(promises)}: a promise, not a defect that a fix could keep away; name scenarios of defects "
                f"alone: {command()} list scenarios"
                if self.names
                else "--expect fixed: name the scenarios of the defects that your fix is for"
            )

    @property
    def _fixed(self) -> bool:
        """Whether exit code 0 means that the defects are gone."""
        return self.expect == "fixed"

    @cached_property
    def _varied(self) -> str:
        """Whose releases are several: a key of ``SOFTWARE_TITLES``; empty: nothing's. Raises BadArgument: those of two are."""
        from workloads.file.scenario import SOFTWARE_TITLES

        several = [of for of in SOFTWARE_TITLES if len(self._releases(of)) > 1]
        if len(several) > 1:
            typed = " ".join(f"--{of} {getattr(self, of)}" for of in several)
            raise BadArgument(f"{typed}: give several releases to one of these options, and one release to the other")
        return "".join(several)

    def _releases(self, software: str) -> list[str]:
        return listed(f"--{software}", getattr(self, software))

    @cached_property
    def _chosen(self) -> list[tuple[Path, Scenario]]:
        """The scenarios with their files; of several releases of Delta's software those alone that run on it. Raises BadArgument."""
        from harness.run.resolve import read_scenario
        from workloads.file import scenario

        # The line has the other options, too: a release that was typed is not lost.
        shown = {n: [s.scenario for s in scenario.of_issue(n)] for n in self.names or [] if not scenario.is_name(n)}
        if issues := [n for n, of_it in shown.items() if of_it]:
            names = dict.fromkeys(s for n in self.names or [] for s in shown.get(n) or [n])
            raise BadArgument(
                f"{', '.join(issues)}: no scenario but an issue; for what shows it: {self.again(names=[*names])}"
            )
        every = [(p, read_scenario(p, warn)) for p in scenario.paths(self.names or [])]
        same = [s.scenario for _, s in every if not s.runs_on(self._varied)]
        if same and self.names:
            typed = f"--{self._varied} {getattr(self, self._varied)}"
            raise BadArgument(f"{typed}: with each of these it would be the same run; leave out: {', '.join(same)}")
        return [(p, self._changed(s)) for p, s in every if s.scenario not in same]

    @cached_property
    def _paths(self) -> list[Path]:
        return [p for p, _ in self._chosen]

    @cached_property
    def _scenarios(self) -> list[Scenario]:
        return [s for _, s in self._chosen]

    def _changed(self, s: Scenario) -> Scenario:
        """The scenario as the options want it."""
        from workloads.engines.delta_rs import RELEASE_PROPERTY
        from workloads.file.scenario import DELTALAKE

        properties = {RELEASE_PROPERTY: self.deltalake} if self.deltalake and s.runs_on(DELTALAKE) else {}
        return s.model_copy(update={**self.mode, "catalog_properties": {**properties, **s.catalog_properties}})

    @cached_property
    def _release(self) -> Any:
        return release_of(self.iceberg)

    @cached_property
    def _each(self) -> list[ProveOptions]:
        """The command with each of its releases alone."""
        if not self._varied:
            return [self]
        names = self._releases(self._varied)
        folders = [Path(n).name for n in names]
        if len(set(folders)) < len(folders):  # jars of one name
            folders = [f"{k}-{folder}" for k, folder in enumerate(folders, 1)]
        return [
            self._with(n, output=None, into=None if self.into is None else self.into / folder)
            for n, folder in zip(names, folders, strict=True)
        ]

    def _with(self, releases: str, **changes: Any) -> ProveOptions:
        """The command with others of the releases that vary, and for the same scenarios."""
        whole = self._varied == "iceberg" or self.names
        names = self.names if whole else [_typed(p) for p in self._paths]
        return replace(self, **{self._varied: releases, "names": names, **changes})

    def takes(self) -> float:
        from harness.experiments.prove import guard_of

        guards = [guard_of(s) for s in self._scenarios]
        each = sum(estimates.DELTA_SCENARIO_S if guard else estimates.SCENARIO_S for guard in guards)
        stacks = len({*guards})  # writers with Delta are started for each guard
        return len(self._each) * (stacks * estimates.STACK_S + self.times * each)

    def execute(self) -> int:
        from workloads.file.scenario import SOFTWARE_TITLES

        if len(self._each) == 1:
            return self._alone()[0]
        codes: list[int] = []
        proven: dict[str, Sequence[Proof]] = {}
        found: dict[str, dict[str, str]] = {}
        for n, one in enumerate(self._each):
            label = one._release.label if self._varied == "iceberg" else getattr(one, self._varied)
            typer.echo(f"\n{SOFTWARE_TITLES[self._varied]} {label}:")
            try:
                code, proven[label], found[label] = one._alone()
            except stopping.Stopped as e:
                later = ",".join(self._releases(self._varied)[n + 1 :])
                # A folder of proofs is gone on with by the same command: fewer releases could have other folders in it.
                way_on = self._with(later) if self.into is None else self
                others = f"; then the other releases with: {way_on.again()}" if later else ""
                raise stopping.Stopped(f"{e.line}{others}") from e
            found[label].setdefault(self._varied, label)
            codes.append(code)
        self._compare(proven, found)
        code = 1 if 1 in codes else max(codes)  # with --expect fixed, 2 says that a run does not tell
        if not self.quiet:
            typer.echo(f"\nexit code {code}: that of the releases together, each of which is told above")
        return code

    def _compare(self, proven: Mapping[str, Sequence[Proof]], found: Mapping[str, dict[str, str]]) -> None:
        """Show which release shows what."""
        from harness.cli.terminal import console
        from reports import proofs as shown
        from reports.drawing import render
        from reports.drawing.words import plural

        if self.output is not None:
            write_output(self.output, shown.releases_json(proven, found))
        typer.echo()
        console().print(render.table(shown.releases(self._scenarios, proven)))
        for s in self._scenarios:
            typer.echo("\n" + _wrapped(shown.occurs(s, proven)))
        if self.times < ENOUGH_RUNS:
            few = f"{plural(self.times, 'run')} of each: so few can miss it; more with --times {ENOUGH_RUNS}."
            typer.echo("\n" + _wrapped(few))

    def _alone(self) -> tuple[int, Sequence[Proof], dict[str, str]]:
        """Prove with one release: exit code, proofs, versions."""
        from compose import setup
        from compose.install import delta as delta_files
        from compose.redaction import SecretsLeft
        from harness.cli.terminal import Voice
        from harness.run.versions import versions

        finished: list[Proof] = []
        ended: Exception | None = None
        with Voice(quiet=self.quiet) as voice, details_in(self.store):
            installation = delta_files.with_release(setup.ensure_release(self._release), self.delta)
            say_own_jar(self._release, voice.say)
            if (total := self.times * len(self._scenarios)) > 3:
                voice.keep(f"{total} runs of {len(self._scenarios)} scenarios, {self.how_long}: {self.store}")
            stopping.current().way_on = lambda: f"the runs so far are in {self.store}"
            try:
                proofs, found = self._proven(installation, voice, finished)
            except (OSError, SecretsLeft) as e:  # what was proven is shown first
                ended, proofs, found = e, finished, versions(installation)
            except KeyboardInterrupt as e:
                raise self._stopped(finished) from e
        self._show(proofs, found)
        if ended is not None:
            raise ended
        return self._end(proofs, found), proofs, found

    def _proven(self, installation: Any, voice: Voice, finished: list[Proof]) -> tuple[Sequence[Proof], dict[str, str]]:
        from harness.experiments import prove as proving

        typed = zip(self._scenarios, self.names or [], strict=False)
        return proving.prove(
            self._scenarios,
            installation,
            self.store,
            voice,
            keeping(place_of(self.lake, self.store), publish, voice.keep),
            times=self.times,
            command=replace(self, names=None, times=1, store=DEFAULT_STORE, into=None).again(),
            named={s.scenario: path_anywhere(n) for s, n in typed},
            finished=finished.append,
            into=self.into,
        )

    def _stopped(self, finished: Sequence[Proof]) -> stopping.Stopped:
        """What was proven is shown; the last line runs the other scenarios."""
        from harness.cli.terminal import console
        from reports import proofs as shown
        from reports.drawing import render

        ran = Counter(p.scenario for p in finished)
        console().print(render.table(shown.table([s for s in self._scenarios if ran[s.scenario]], finished)))
        each = zip(self._paths, self._scenarios, strict=True)
        remaining = [_typed(p) for p, s in each if ran[s.scenario] < self.times]
        all_of_them = len(remaining) == len(self._scenarios) and not self.names
        done = (
            f"{len(finished)} of {self.times * len(self._scenarios)} scenarios are done, their runs are in {self.store}"
        )
        others = replace(self, names=None if all_of_them else remaining).again()
        return stopping.Stopped(f"{done}; run the others with: {others}")

    def _show(self, proofs: Sequence[Proof], found: dict[str, str]) -> None:
        from harness.cli.terminal import console
        from reports import proofs as shown
        from reports.drawing import render

        if self.output is not None:
            write_output(self.output, shown.to_json(proofs, found))
        ran = Counter(p.scenario for p in proofs)
        console().print(render.table(shown.table([s for s in self._scenarios if ran[s.scenario]], proofs)))

    def _end(self, proofs: Sequence[Proof], found: dict[str, str]) -> int:
        """Tell what a few scenarios show; return the exit code."""
        from checkers.judge.proof import shows
        from harness.cli.exported import export_command
        from harness.run import disk
        from harness.run.errors import RunError
        from reports import proofs as shown

        if len(self._scenarios) <= 3 and not self.quiet:
            last = {p.scenario: p for p in proofs}
            for s, path in zip(self._scenarios, self._paths, strict=True):
                for n, paragraph in enumerate(shown.story(s, last[s.scenario])):
                    lead = f"{s.scenario}: " if n == 0 else ""
                    typer.echo("\n" + _wrapped(lead + paragraph))
                folder = last[s.scenario].folder
                page = "" if folder is None else f"  page    {folder}/report.html\n"
                typed = _typed(path) if self.iceberg is None or folder is None else os.path.abspath(folder)
                exports = shows(s, last[s.scenario].state, last[s.scenario].found)
                export = f"  export  {export_command(s, typed, self._release.spark)}\n" if exports else ""
                typer.echo(f"\n{page}{export}" if page or export else "")
        if not self.quiet:
            typer.echo(f"Spark {found['spark']}, Iceberg {self._release.label}; the runs are in {self.store}")
        if (
            full := next((w for p in proofs if p.state == "not run" for w in p.why if disk.says_full(w)), None)
        ) is not None:
            raise RunError(f"the disk is full; {disk.remedy(None)} ({full})")
        code, why = shown.exit_code(self._scenarios, proofs, fixed=self._fixed)
        if not self.quiet:
            typer.echo(f"exit code {code}: {why}")
        return code


def _wrapped(paragraph: str) -> str:
    """A paragraph in lines of 100 columns; a path or an address stays whole."""
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(paragraph, 100, initial_indent="  ", subsequent_indent="  ", **options)


def _typed(path: Path) -> str:
    """A scenario as it is typed in any folder: one of the library by its name, another by the absolute path of its file."""
    from workloads.file import scenario

    return path.stem if path.parent == scenario.LIBRARY else os.path.abspath(path)


@dataclass(frozen=True)
class MatrixOptions(Options):
    """Measure which operation aborts, retries or breaks which: every pair of operations, on every kind of table."""

    short = "Measure which operations conflict."

    only: Annotated[
        list[str] | None,
        typer.Option(
            help="A kind of operation, or a dimension and its value, such as held=refresh; repeatable. "
            "Default: the eight kinds of docs/matrix.md."
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            help="Engines, separated by commas: spark,duckdb. Measures their operations beside each other instead of Spark's."
        ),
        ENGINES,
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after this many cells: a pair of operations on one kind of table each."),
    ] = None
    into: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the matrix; an unfinished one is continued. Default: store/matrix, with --engine store/engine-matrix."
        ),
        INTO,
    ] = None
    catalog: Annotated[str, typer.Option(help="A catalog of `icequake list catalogs`."), OUR_CATALOG] = "rest"
    iceberg: IcebergOption = None
    session: SessionOption = None
    cluster: ClusterOption = None
    against: Annotated[Path | None, typer.Option(help="Folder of another matrix to compare with.")] = None
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Keep every run, not only those with something to see.")
    ] = False
    quiet: QuietOption = False

    def prepare(self) -> None:
        reachable(self._engines, self.catalog)
        _ = self._cells, self._other, self._release

    @cached_property
    def _engines(self) -> tuple[str, ...]:
        """The engines that were named, Spark first; none if the option was not given."""
        names = listed("--engine", self.engine)
        return tuple(name for name in engine_names() if name in names)

    @cached_property
    def _cells(self) -> Sequence[Any]:
        """The cells to measure. Raises BadArgument."""
        from checkers.conflicts import plan, predicted
        from harness.experiments import matrixruns

        if self._engines:
            cells = list(predicted.engine_cells(self._engines, self._kinds()))
        else:
            try:
                cells = predicted.on(matrixruns.compared(self.catalog), plan.chosen(self.only or ()).cells())
            except ValueError as e:
                raise BadArgument(str(e)) from None
        if not cells:
            why = "no cell has all of this; docs/matrix.md says which have"
            if self._engines:
                why = f"none of {', '.join(self._engines)} can do that"
            raise BadArgument(f"--only {' --only '.join(self.only or ())}: {why}")
        return cells[: self.limit]

    def _kinds(self) -> tuple[str, ...]:
        from checkers.conflicts.predicted import ENGINE_KINDS
        from workloads.file.meant import unknown

        for kind in self.only or []:
            if kind not in ENGINE_KINDS:
                raise BadArgument(f"--only {kind}: {unknown('operation', kind, ENGINE_KINDS)}")
        return tuple(k for k in ENGINE_KINDS if k in (self.only or ENGINE_KINDS))

    @cached_property
    def _other(self) -> list[MeasuredResult] | None:
        return None if self.against is None else _other_matrix(self.against)

    @cached_property
    def _release(self) -> Any:
        return release_of(self.iceberg)

    def takes(self) -> float:
        each = estimates.ENGINES_CELL_S if self._engines else estimates.CELL_S
        return estimates.STACK_S + len(self._cells) * each

    def execute(self) -> int:
        from checkers.conflicts.measured import differences, read
        from checkers.verdict import exit_code
        from harness.cli.terminal import show
        from reports.drawing import render
        from reports.matrix import page

        into = self.into or absolute(DEFAULT_STORE) / ("engine-matrix" if self._engines else "matrix")
        done = self._measured(into)
        other = self._other
        found = [] if other is None else differences(done.measured, other)
        header, _ = read(into / "cells.jsonl")
        made = page.of(header, done, found, None if other is None else len(other))
        typer.echo()
        show(made, {"page": render.write(made, into)})
        return exit_code(False if found else "unknown" if done.could_not else True)

    def _measured(self, into: Path) -> MeasuredCells:
        from compose import setup
        from harness.experiments.matrix import Matrix
        from reports.drawing.words import plural
        from workloads.file.mode import QUICK

        cells, engines = self._cells, ",".join(self._engines) or None
        goes_on = f"the same command continues: {self.again(engine=engines, into=into, catalog=self.catalog)}"
        with framed(into, goes_on, quiet=self.quiet, unit="cells") as frame:
            voice = frame.voice
            installation = setup.ensure_release(self._release)
            voice.keep(f"matrix of {plural(len(cells), 'cell')}, {self.how_long}: {into}")
            say_own_jar(self._release, voice.say)
            whole = Matrix(
                cells,
                into,
                installation,
                voice,
                self.catalog,
                publish=publish if engines else None,
                show=None if engines else publish,
                keep=self.keep_runs,
                mode=replace(QUICK, **self.mode),
            )
            frame.so_far = lambda: f"{whole.measured} of {len(cells)} cells are measured"
            return whole.measure()


def _other_matrix(folder: Path) -> list[MeasuredResult]:
    from checkers.conflicts.measured import MatrixError, read

    try:
        return list(read(folder / "cells.jsonl")[1].measured)
    except MatrixError as e:
        raise BadArgument(
            f"--against {folder}: no matrix to compare with: {e}; give the folder of `matrix --into`"
        ) from None
