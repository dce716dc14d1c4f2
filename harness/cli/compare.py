"""``icequake compare``."""

from __future__ import annotations

import random
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import stopping
from harness.cli.check import publish
from harness.cli.crash import details_in
from harness.cli.lake import LakeOption, keeping, place_of
from harness.cli.options import (
    BadArgument,
    ClusterOption,
    OperationsOption,
    SessionOption,
    StoreOption,
    WritersOption,
    anywhere,
    known_catalog,
    known_engines,
    listed,
    mode_of,
    overridden,
    path_anywhere,
    reachable,
    release_of,
    say_own_jar,
    store_words,
    user_services,
    warn,
    write_output,
)
from harness.cli.sweep import VaryOption, checked, varied_of

if TYPE_CHECKING:
    from workloads.file.workload import Workload


def compare(
    workload: Annotated[str, typer.Argument(help="A workload file, or the name of a built-in workload (mixed).")],
    catalog: Annotated[
        str | None, typer.Option(help="Catalogs, separated by commas: rest,jdbc,my.yaml; default: the workload's.")
    ] = None,
    iceberg: Annotated[
        str | None,
        typer.Option(help="Iceberg releases of the writers, or runtime jars, separated by commas: 1.10.1,1.12.0."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Engines, separated by commas: spark,duckdb; each alone, then all of them mixed, with the operations that all can do."
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="Runs of each catalog or release, each with its own seed.")
    ] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="First seed; the following runs count up from it.")] = None,
    time: Annotated[
        str | None, typer.Option(help="Length of each run as a time (90s, 5m); overrides the file.")
    ] = None,
    ops: Annotated[int | None, typer.Option(min=1, help="Length in operations; overrides the file.")] = None,
    writers: WritersOption = None,
    operations: OperationsOption = None,
    vary: VaryOption = None,
    session: SessionOption = None,
    cluster: ClusterOption = None,
    no_nemesis: Annotated[bool, typer.Option("--no-nemesis", help="Inject no faults.")] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Drop the tables that the runs made in your own catalogs.")
    ] = False,
    store: StoreOption = Path("store"),
    lake: LakeOption = None,
    into: Annotated[Path | None, typer.Option(help="Folder of the comparison; an unfinished one is continued.")] = None,
    output: Annotated[Path | None, typer.Option("--json", help="Another file for the results as JSON.")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=32, help="Runs at the same time.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the last lines.")] = False,
) -> int:
    """Run one workload with the same seeds and faults on several catalogs, releases or engines, and report what differs."""
    from checkers.costs.comparison import Contender
    from checkers.verdict import exit_code
    from compose.redaction import secrets_of
    from harness.cli.terminal import Voice, show
    from harness.experiments import compare as comparing
    from harness.run.resolve import read_workload
    from reports.compare import page
    from reports.drawing import render
    from workloads.file import workload as schema
    from workloads.file.experiment import combinations

    mode = mode_of(session, cluster)
    read = read_workload(schema.find(workload), warn)
    spec = overridden(read, writers, ops, time, no_nemesis=no_nemesis, operations=operations, **mode)
    kept_in = place_of(lake, store)
    teams = _teams(listed("--engine", engine))
    if engine is not None and writers is not None and "=" in writers:
        raise BadArgument(f"--writers {writers}: --engine says whose the writers are; give their number")
    common = _common(spec, teams) if teams != [()] else None
    if common is not None:
        spec = overridden(read, writers, ops, time, no_nemesis=no_nemesis, operations=",".join(common), **mode)
    catalogs = [known_catalog(c) for c in listed("--catalog", catalog)] or [spec.catalog]
    for name in catalogs:
        user_services(name, None, None)  # reports services that do not answer before hours are spent
    typed = listed("--iceberg", iceberg)
    chosen = {r.label: (v, r) for v, r in ((v, release_of(v)) for v in typed)}
    chosen = chosen or {(default := release_of(None)).label: (default.iceberg, default)}
    if len(chosen) < len(typed):
        raise BadArgument(f"--iceberg {iceberg}: two of these jars are the same file by their sha256")
    values = varied_of(vary or [])
    contenders = tuple(
        Contender(c, v, team, one) for c in catalogs for v in chosen for team in teams for one in combinations(values)
    )
    checked(spec, contenders)
    for c in catalogs:
        reachable((name for team in teams for name in team or spec.engines), c)
    if len(contenders) < 2:
        raise BadArgument(
            "compare: give at least two catalogs, releases, engines or values of a parameter, such as --catalog rest,jdbc, "
            "--engine spark,duckdb or --vary isolation=snapshot,serializable"
        )
    if into is not None and seed is None:
        seed = comparing.first_seed(into)
    if seed is None:
        seed = spec.seed if spec.seed is not None else random.SystemRandom().randrange(2**31)
    file = path_anywhere(workload)
    given = (("writers", writers), ("operations", operations), ("ops", ops), ("time", time), *mode.items())
    shared = [f"--{k}={v}" for k, v in given if v is not None]
    shared += ["--no-nemesis"] if no_nemesis else []
    shared += ["--clean"] if clean else []
    shared += store_words(store)
    shared += [f"--lake={path_anywhere(lake)}"] if lake is not None else []

    def once(c: Contender) -> list[str]:
        engines = comparing.engaged(spec, replace(c, varied=())).engines
        options = _as_run(shared, engines, common or []) if c.engines else shared
        return [w for w in options if not c.varied or w != "--clean"]

    def again(c: Contender, seed: int) -> str:
        words = [
            *(
                ("sweep", file, *(f"--vary={k}={v}" for k, v in c.varied), "--seeds", "1")
                if c.varied
                else ("run", file)
            ),
            "--seed",
            str(seed),
            "--catalog",
            path_anywhere(c.catalog),
            "--iceberg",
            path_anywhere(chosen[c.iceberg][0]),
            *once(c),
        ]
        return shlex.join([anywhere(), *words])

    into = into or comparing.new_folder(store, spec.workload)
    words = [
        "compare",
        file,
        "--catalog",
        ",".join(map(path_anywhere, catalogs)),
        "--iceberg",
        ",".join(path_anywhere(v) for v, _ in chosen.values()),
        *(["--engine", engine] if engine else []),
        *(f"--vary={text}" for text in vary or []),
        *shared,
    ]
    words += ["--seed", str(seed), "--seeds", str(seeds), "--into", str(into)]
    words += ["--parallel", str(parallel)] if parallel > 1 else []
    words += ["--store", str(store)] if "--store" not in words else []
    goes_on = shlex.join([anywhere(), *words])
    releases = {label: release for label, (_, release) in chosen.items()}
    order = comparing.Order(spec, contenders, tuple(range(seed, seed + seeds)), again, parallel, clean, releases)
    with Voice(quiet=quiet) as voice, details_in(into, secrets_of(spec.catalog_properties)):
        which = f"seed {seed}" if seeds == 1 else f"seeds {seed} to {seed + seeds - 1}"
        voice.keep(f"{spec.workload}, {len(contenders)} contenders, {which}: {into}")
        for release in releases.values():
            say_own_jar(release, voice.say)
        stopping.current().way_on = lambda: f"continue with: {goes_on}"
        whole = comparing.Compare(order, into, store, voice, keeping(kept_in, publish, voice.keep))
        try:
            whole.measure()
        except KeyboardInterrupt as e:
            compared = whole.comparison()
            if whole.path.exists():
                render.write(page.of(compared, goes_on), into)
            said = f"{len(compared.runs)} of {len(contenders) * seeds} runs are measured"
            raise stopping.Stopped(f"{said}; continue with: {goes_on}") from e
    done = whole.comparison()
    made = page.of(done, goes_on)
    written = render.write(made, into)
    if output is not None:
        write_output(output, render.data(made))
    typer.echo()
    ends = {"page": written, "json": written.with_suffix(".json"), "again": goes_on}
    show(made, ends, least=render.NARROWEST)
    return exit_code(done.verdict)


def _teams(engines: list[str]) -> list[tuple[str, ...]]:
    """The contenders' engines: each alone, then all mixed; those of the workload file if none is named.

    Raises:
        BadArgument: there is no such engine.
    """
    teams: list[tuple[str, ...]] = [(name,) for name in known_engines(engines)]
    return [*teams, *([tuple(engines)] if len(engines) > 1 else [])] or [()]


def _common(spec: Workload, teams: list[tuple[str, ...]]) -> list[str]:
    """The kinds of operations of a workload that all these engines can do on all its tables; warns of the others.

    Raises:
        BadArgument: there is none.
    """
    from workloads.engines.engines import ENGINES

    engines = list(dict.fromkeys(name for team in teams for name in team))
    kinds = dict.fromkeys(k for p in spec.resolved_phases() for k in p.operations or ())
    can = {e: [k for k in kinds if all(ENGINES[e].can(k, t) for t in spec.tables)] for e in engines}
    common = [k for k in kinds if all(k in of for of in can.values())]
    if not common:
        each = "; ".join(f"{e}: {', '.join(of) or 'none'}" for e, of in can.items())
        raise BadArgument(
            f"--engine {','.join(engines)}: no operation of {spec.workload} that all of them can do ({each})"
        )
    without = {k: [e for e in engines if k not in can[e]] for k in kinds if k not in common}
    if without:
        each = ", ".join(f"{k} ({', '.join(unable)})" for k, unable in without.items())
        warn(f"left out, because these engines cannot do it on every table of {spec.workload}: {each}")
    return common


def _as_run(shared: list[str], engines: tuple[str, ...], kinds: list[str]) -> list[str]:
    """The options of a comparison as those of a single run with these writers."""
    counts = ",".join(f"{name}={engines.count(name)}" for name in dict.fromkeys(engines))
    kept = [word for word in shared if not word.startswith(("--writers=", "--operations="))]
    return [f"--writers={counts}", f"--operations={','.join(kinds)}", *kept]
