"""``icequake sweep``."""

from __future__ import annotations

import os
import random
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import stopping
from harness.cli.check import publish
from harness.cli.crash import details_in
from harness.cli.lake import LakeOption, keeping, place_of
from harness.cli.options import (
    BadArgument,
    ClusterOption,
    IcebergOption,
    OperationsOption,
    SessionOption,
    StoreOption,
    WritersOption,
    anywhere,
    known_catalog,
    listed,
    mode_of,
    overridden,
    path_anywhere,
    reachable,
    release_of,
    say_own_jar,
    user_services,
    warn,
    write_output,
)

if TYPE_CHECKING:
    from checkers.costs.comparison import Contender
    from checkers.costs.curves import Predicted
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


def sweep(
    experiment: Annotated[
        str, typer.Argument(help="An experiment or workload file, or the name of a built-in one (backoff).")
    ],
    vary: VaryOption = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Runs of each combination, each with its own seed.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="First seed; the following runs count up from it.")] = None,
    catalog: Annotated[
        str | None, typer.Option(help="Catalogs, separated by commas: rest,jdbc; default: the file's.")
    ] = None,
    iceberg: IcebergOption = None,
    time: Annotated[
        str | None, typer.Option(help="Length of each run as a time (20s, 1m); overrides the file.")
    ] = None,
    ops: Annotated[int | None, typer.Option(min=1, help="Length in operations; overrides the file.")] = None,
    writers: WritersOption = None,
    operations: OperationsOption = None,
    session: SessionOption = None,
    cluster: ClusterOption = None,
    no_nemesis: Annotated[bool, typer.Option("--no-nemesis", help="Inject no faults.")] = False,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Predict the same points, and further ones, by a simulator.")
    ] = False,
    store: StoreOption = Path("store"),
    lake: LakeOption = None,
    into: Annotated[Path | None, typer.Option(help="Folder of the sweep; an unfinished one is continued.")] = None,
    output: Annotated[Path | None, typer.Option("--json", help="Another file for the results as JSON.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the last lines.")] = False,
) -> int:
    """Measure one workload with each combination of some parameters' values: writers, backoff, layout, retries, latency."""
    from checkers.costs.comparison import Contender
    from checkers.costs.simulated import sweeps
    from checkers.verdict import exit_code
    from harness.cli.terminal import Voice, show
    from harness.experiments import compare as comparing
    from harness.experiments.sweep import Sweep
    from harness.run.resolve import read_experiment
    from reports.drawing import render
    from reports.sweep import page
    from workloads.file import experiment as experiments
    from workloads.file.experiment import combinations

    path = experiments.find(experiment)
    read, said = read_experiment(path, warn)
    mode = mode_of(session, cluster)
    spec = overridden(read, writers, ops, time, no_nemesis=no_nemesis, operations=operations, **mode)
    kept_in = place_of(lake, store)
    values = {**said.vary, **varied_of(vary or [])}
    if not values:
        raise BadArgument(f"sweep: {path} says nothing to vary; give --vary, such as --vary writers=1,2,4")
    catalogs = [known_catalog(c) for c in listed("--catalog", catalog)] or [*(said.catalogs or (spec.catalog,))]
    for name in catalogs:
        user_services(name, None, None)
        reachable(spec.engines, name)
    release = release_of(iceberg)
    contenders = tuple(Contender(c, release.label, (), one) for one in combinations(values) for c in catalogs)
    checked(spec, contenders)
    count = seeds or said.seeds
    if into is not None and seed is None:
        seed = comparing.first_seed(into)
    if seed is None:
        seed = spec.seed if spec.seed is not None else random.SystemRandom().randrange(2**31)
    given: tuple[tuple[str, Any], ...] = (
        ("writers", writers),
        ("operations", operations),
        ("ops", ops),
        ("time", time),
        ("iceberg", iceberg and path_anywhere(iceberg)),
        *mode.items(),
    )
    shared = [f"--{k}={v}" for k, v in given if v is not None] + (["--no-nemesis"] if no_nemesis else [])
    shared += [f"--lake={path_anywhere(lake)}"] if lake is not None else []

    def words(which: Sequence[str], varied: dict[str, tuple[str, ...]], first: int, n: int) -> list[str]:
        each = [f"--vary={k}={','.join(v)}" for k, v in varied.items()]
        ends = ["--catalog", ",".join(map(path_anywhere, which)), "--seed", str(first), "--seeds", str(n)]
        return ["sweep", path_anywhere(experiment), *each, *shared, *ends]

    def again(c: Contender, seed: int) -> str:
        return shlex.join([anywhere(), *words([c.catalog], {k: (v,) for k, v in c.varied}, seed, 1)])

    into = into or store / "sweep" / comparing.new_folder(store, spec.workload).name
    ends = ["--into", str(into), "--store", str(store), *(["--simulate"] if simulate else [])]
    goes_on = shlex.join([anywhere(), *words(catalogs, values, seed, count), *ends])
    order = comparing.Order(
        spec, contenders, tuple(range(seed, seed + count)), again, releases={release.label: release}
    )
    with Voice(quiet=quiet) as voice, details_in(into):
        voice.keep(f"{spec.workload}, {len(contenders)} combinations, {count} seeds from {seed}: {into}")
        say_own_jar(release, voice.say)
        stopping.current().way_on = lambda: f"continue with: {goes_on}"
        whole = Sweep(order, into, store, voice, keeping(kept_in, publish, voice.keep))
        try:
            whole.measure()
        except KeyboardInterrupt as e:
            measured = whole.comparison()
            if whole.path.exists():
                render.write(page.of(measured, goes_on), into)
            so_far = f"{len(measured.runs)} of {len(contenders) * count} runs are measured"
            raise stopping.Stopped(f"{so_far}; continue with: {goes_on}") from e
    done = whole.comparison()
    points: Sequence[Predicted] = ()
    notes: Sequence[str] = ()
    if simulate:
        found = sweeps.predict(done, into, lambda c: comparing.engaged(spec, c), cores=os.cpu_count() or 1)
        points, notes = found.points, found.notes
    made = page.of(done, goes_on, points, notes)
    written = render.write(made, into)
    if output is not None:
        write_output(output, render.data(made))
    typer.echo()
    show(made, {"page": written, "json": written.with_suffix(".json"), "again": goes_on})
    return exit_code(done.verdict)
