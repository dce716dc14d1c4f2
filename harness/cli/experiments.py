"""``icequake prove`` and ``matrix``."""

from __future__ import annotations

import os
import shlex
import textwrap
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import stopping
from harness.cli.check import publish
from harness.cli.crash import details_in
from harness.cli.lake import LakeOption, keeping, place_of
from harness.cli.options import (
    STORE,
    BadArgument,
    ClusterOption,
    IcebergOption,
    SessionOption,
    StoreOption,
    absolute,
    anywhere,
    known_catalog,
    known_engines,
    listed,
    mode_of,
    path_anywhere,
    reachable,
    release_of,
    say_own_jar,
    store_words,
    warn,
    write_output,
)

if TYPE_CHECKING:
    from checkers.conflicts.measured import Measured
    from checkers.judge.proof import Proof


def prove(
    names: Annotated[list[str] | None, typer.Argument(help="Scenarios, by name or file; default: all.")] = None,
    times: Annotated[int, typer.Option(min=1, max=1000, help="Repetitions of each scenario.")] = 1,
    iceberg: IcebergOption = None,
    session: SessionOption = None,
    cluster: ClusterOption = None,
    output: Annotated[Path | None, typer.Option("--json", help="File for the results as JSON.")] = None,
    store: StoreOption = Path("store"),
    lake: LakeOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the table only.")] = False,
) -> int:
    """Reproduce known defects, each as a scenario on real Spark; exit code 0 if every result is as expected for this version."""
    from compose import setup
    from compose.redaction import SecretsLeft
    from harness.cli.terminal import Voice, console
    from harness.experiments import prove as proving
    from harness.run import disk
    from harness.run.resolve import read_scenario
    from harness.run.settings import RunError
    from harness.run.versions import versions
    from reports import proofs as shown
    from reports.drawing import render
    from workloads.file import scenario

    paths = scenario.paths(names or [])
    scenarios = [read_scenario(p, warn).model_copy(update=mode_of(session, cluster)) for p in paths]
    release = release_of(iceberg)
    kept_in = place_of(lake, store)
    said = [("--iceberg", iceberg), ("--session", session), ("--cluster", cluster), ("--lake", lake)]
    again = shlex.join([anywhere(), "prove", *(w for k, v in said if v is not None for w in (k, path_anywhere(v)))])
    named = {s.scenario: path_anywhere(n) for s, n in zip(scenarios, names or [], strict=False)}
    with Voice(quiet=quiet) as voice, details_in(store):
        installation = setup.ensure_release(release)
        say_own_jar(release, voice.say)
        finished: list[Proof] = []
        ended: Exception | None = None
        stopping.current().way_on = lambda: f"the runs so far are in {store}"
        try:
            proofs, found = proving.prove(
                scenarios,
                installation,
                store,
                voice,
                keeping(kept_in, publish, voice.keep),
                times=times,
                command=again,
                named=named,
                finished=finished.append,
            )
        except (OSError, SecretsLeft) as e:  # what was proven is shown first
            ended, proofs, found = e, finished, versions(installation)
        except KeyboardInterrupt as e:
            ran = Counter(p.scenario for p in finished)
            console().print(render.table(shown.table([s for s in scenarios if ran[s.scenario]], finished)))
            left = [_typed(p) for p, s in zip(paths, scenarios, strict=True) if ran[s.scenario] < times]
            words = [again, *left] if len(left) < len(scenarios) or names else [again]
            words += ["--times", str(times)] if times > 1 else []
            words += map(shlex.quote, store_words(store))
            done = f"{len(finished)} of {times * len(scenarios)} scenarios are done, their runs are in {store}"
            raise stopping.Stopped(f"{done}; run the others with: {' '.join(words)}") from e
    if output is not None:
        write_output(output, shown.to_json(proofs, found))
    ran = Counter(p.scenario for p in proofs)
    console().print(render.table(shown.table([s for s in scenarios if ran[s.scenario]], proofs)))
    if ended is not None:
        raise ended
    if len(scenarios) <= 3:
        last = {p.scenario: p for p in proofs}
        for s in scenarios:
            for n, paragraph in enumerate(shown.story(s, last[s.scenario])):
                lead = f"{s.scenario}: " if n == 0 else ""
                typer.echo("\n" + _wrapped(lead + paragraph))
            folder = last[s.scenario].folder
            typer.echo("" if folder is None else f"\n  page  {folder}/report.html\n")
    typer.echo(f"Spark {found['spark']}, Iceberg {release.label}; the runs are in {store}")
    if (full := next((w for p in proofs if p.state == "not run" for w in p.why if disk.said(w)), None)) is not None:
        raise RunError(f"the disk is full; {disk.remedy(None)} ({full})")
    return 0 if all(p.as_said for p in proofs) else 1


def _wrapped(paragraph: str) -> str:
    """A paragraph in lines of 100 columns; a path or an address stays whole."""
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(paragraph, 100, initial_indent="  ", subsequent_indent="  ", **options)


def _typed(path: Path) -> str:
    """A scenario as it is typed in any folder: one of the library by its name, another by the absolute path of its file."""
    from workloads.file import scenario

    return path.stem if path.parent == scenario.LIBRARY else shlex.quote(os.path.abspath(path))


def matrix(
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="A kind of operation, or a dimension and its value, such as held=refresh; repeatable. "
            "Default: the eight kinds of docs/matrix.md."
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Engines, separated by commas: spark,duckdb. Measures their operations beside each other instead of Spark's."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many cells.")] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the matrix; an unfinished one is continued. Default: store/matrix, with --engine store/engine-matrix."
        ),
    ] = None,
    catalog: Annotated[str, typer.Option(help="A catalog of `icequake list catalogs`.")] = "rest",
    iceberg: IcebergOption = None,
    session: SessionOption = None,
    cluster: ClusterOption = None,
    against: Annotated[Path | None, typer.Option(help="Folder of another matrix to compare with.")] = None,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Keep every run, not only those with something to see.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the last lines.")] = False,
) -> int:
    """Measure which operation aborts, retries or breaks which: every pair of operations, on every kind of table."""
    from checkers.conflicts import plan, predicted
    from checkers.conflicts.measured import differences, read
    from checkers.verdict import exit_code
    from compose import setup
    from harness.cli.terminal import Voice, show
    from harness.experiments import matrix as measuring
    from reports.drawing import render
    from reports.matrix import page
    from workloads.file.meant import unknown
    from workloads.file.mode import QUICK

    engines, named = _engines(engine), known_catalog(catalog, own_file=False)
    reachable(engines, named)
    if engines:
        known = predicted.ENGINE_KINDS
        for kind in only or []:
            if kind not in known:
                raise BadArgument(f"--only {kind}: {unknown('operation', kind, known)}")
        cells = list(predicted.engine_cells(engines, tuple(k for k in known if k in (only or known))))[:limit]
    else:
        try:
            cells = predicted.on(measuring.compared(named), plan.chosen(only or ()).cells())[:limit]
        except ValueError as e:
            raise BadArgument(str(e)) from None
    if not cells:
        why = (
            f"none of {', '.join(engines)} can do that"
            if engines
            else "no cell has all of this; docs/matrix.md says which have"
        )
        raise BadArgument(f"--only {' --only '.join(only or ())}: {why}")
    into = into or absolute(STORE) / ("engine-matrix" if engines else "matrix")
    other = None if against is None else _other_matrix(against)
    release = release_of(iceberg)
    words = ["matrix", *(w for k in only or () for w in ("--only", k))]
    words += [*(["--engine", ",".join(engines)] if engines else []), "--into", str(into)]
    words += ["--catalog", catalog]
    words += ["--limit", str(limit)] if limit else []
    words += ["--keep-runs"] if keep_runs else []
    words += ["--iceberg", path_anywhere(iceberg)] if iceberg else []
    given = mode_of(session, cluster)
    words += [w for k, v in given.items() for w in (f"--{k}", v)]
    words += ["--against", str(against)] if against else []
    goes_on = f"the same command continues: {shlex.join([anywhere(), *words])}"
    stopping.current().way_on = lambda: goes_on
    with Voice(quiet=quiet, unit="cells") as voice, details_in(into):
        installation = setup.ensure_release(release)
        voice.keep(f"matrix of {len(cells)} cells: {into}")
        say_own_jar(release, voice.say)
        whole = measuring.Matrix(
            cells,
            into,
            installation,
            voice,
            named,
            publish=publish if engines else None,
            show=None if engines else publish,
            keep=keep_runs,
            mode=replace(QUICK, **given),
        )
        try:
            done = whole.measure()
        except KeyboardInterrupt as e:
            raise stopping.Stopped(f"{whole.measured} of {len(cells)} cells are measured; {goes_on}") from e
    found = [] if other is None else differences(done.measured, other)
    header, _ = read(into / "cells.jsonl")
    made = page.of(header, done, found, None if other is None else len(other))
    typer.echo()
    show(made, {"page": render.write(made, into)})
    return exit_code(False if found else "unknown" if done.could_not else True)


def _engines(typed: str | None) -> tuple[str, ...]:
    """The engines that were named, Spark first; none if the option was not given."""
    from workloads.engines.engines import ENGINES

    names = known_engines(listed("--engine", typed))
    return tuple(name for name in ENGINES if name in names)


def _other_matrix(folder: Path) -> list[Measured]:
    from checkers.conflicts.measured import MatrixError, read

    try:
        return list(read(folder / "cells.jsonl")[1].measured)
    except MatrixError as e:
        raise BadArgument(
            f"--against {folder}: no matrix to compare with: {e}; give the folder of `matrix --into`"
        ) from None
