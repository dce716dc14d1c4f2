"""The command line. Exit codes: 0 valid, 1 anomaly found, 2 unknown, 254 bad arguments or workload file, 255 the harness failed."""

from __future__ import annotations

import errno
import os
import random
import shlex
import signal
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import __version__
from harness.cli.crash import Crash, details_in

BAD_INPUT, HARNESS_FAILED = 254, 255

_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.EEXIST)
"""A file or folder of ours is not to be had: something else is there, or it belongs to somebody else."""

TYPER_INTERRUPTED = 130
"""What Typer returns in place of a KeyboardInterrupt."""

_TyperError = typer.BadParameter.__mro__[2]
"""Click's ClickException, which newer Typers carry inside and do not export."""


class BadArgument(ValueError):
    """An argument that Typer cannot know to be wrong."""


app = typer.Typer(
    name="icequake",
    help="Breaks Apache Iceberg tables on purpose, with real Spark, and proves what survived.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"icequake {__version__}")
        raise typer.Exit


@app.callback()
def _all_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass


IcebergOption = Annotated[
    str | None, typer.Option("--iceberg", help="Release that the writers run (`list versions`), instead of the newest.")
]

StoreOption = Annotated[Path, typer.Option("--store", help="Folder of all runs.", show_default=True)]


def command() -> str:
    """How this program was called, for the commands that it prints."""
    return os.environ.get("ICEQUAKE_COMMAND", "icequake")


def _ports(pairs: list[str]) -> dict[str, int]:
    from compose.stack.stack import port_names

    allowed = port_names()
    ports = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        if name not in allowed or not number.isdecimal() or not 1 <= int(number) <= 65535:
            raise BadArgument(f"--port {pair}: give SERVICE=PORT; services: {', '.join(allowed)}")
        ports[name] = int(number)
    return ports


def _release(iceberg: str | None, workload: Any = None) -> Any:
    from compose.install import releases
    from harness.run.versions import cannot_run

    try:
        release = releases.find(iceberg)
    except releases.UnknownRelease as e:
        raise BadArgument(f"--iceberg: {e}") from None
    reason = None if workload is None else cannot_run(release, workload)
    if reason is not None:
        raise BadArgument(f"--iceberg {release.iceberg}: {reason}")
    return release


def _catalog(name: str, *, own_file: bool = True) -> str:
    from compose.catalogs import user_file
    from compose.catalogs.registry import CATALOGS
    from workloads.file.yamlfile import suggest

    if own_file and user_file.is_file(name):
        user_file.load(Path(name))
        return name
    if name not in CATALOGS:
        allowed = ", ".join(CATALOGS) + (", or the file of your own, my.yaml" if own_file else "")
        raise BadArgument(f"--catalog {name}: unknown{suggest(name, CATALOGS)}; allowed: {allowed}")
    return name


def _external(catalog: str, s3: str | None, spark: str | None) -> Any:
    """The parts of a run that are not ours, all of which have answered."""
    from compose.catalogs import user_file
    from compose.catalogs.registry import CATALOGS
    from compose.external.external import ExternalError, external
    from compose.external.preflight import preflight

    try:
        found = external(user_file.load(Path(catalog)) if user_file.is_file(catalog) else None, s3, spark)
    except ExternalError as e:
        raise BadArgument(str(e)) from None
    preflight(found)
    if found.catalog is None:
        CATALOGS[catalog].check()
    return found


def _overridden(file: Any, writers: int | None, ops: int | None, time: str | None, *, no_nemesis: bool) -> Any:
    """The workload of a file as the options have it."""
    from nemesis.faults.lengths import seconds
    from workloads.file.workload import Length

    if ops is not None and time is not None:
        raise BadArgument("--ops and --time: give one of them")
    workload = file.workload
    update: dict[str, Any] = {"nemesis": None} if no_nemesis else {}
    if writers is not None:
        update["writers"] = writers
        update["phases"] = tuple(
            p.model_copy(update={"writers": min(p.writers, writers)}) if p.writers else p for p in workload.phases
        )
    if ops is not None or time is not None:
        try:
            length = Length(ops=ops) if ops is not None else Length(time=seconds(time))
        except ValueError as e:
            raise BadArgument(f"--time {time}: {e}") from None
        update |= {"length": length, "phases": ()}
    given = (("--writers", writers), ("--ops", ops), ("--time", time))
    options = " ".join(f"{option} {value}" for option, value in given if value is not None)
    return file.changed(workload.model_copy(update=update), options)


@app.command()
def run(
    workload: Annotated[str, typer.Argument(help="A workload file, or the name of one of the library (quick).")],
    seed: Annotated[int | None, typer.Option(min=0, help="Of the operations; the file's, else a new one.")] = None,
    store: StoreOption = Path("store"),
    writers: Annotated[int | None, typer.Option(min=1, max=64, help="Instead of the file's.")] = None,
    ops: Annotated[int | None, typer.Option(min=1, help="Length in operations, instead of the file's.")] = None,
    time: Annotated[str | None, typer.Option(help="Length as a time (90s, 5m), instead of the file's.")] = None,
    catalog: Annotated[
        str | None, typer.Option(help="Instead of the file's: of `icequake list catalogs`, or your own, my.yaml.")
    ] = None,
    spark: Annotated[str | None, typer.Option(help="A Spark master of yours: spark://host:7077, local[4].")] = None,
    s3: Annotated[
        str | None, typer.Option(help="An object store of yours: http://host:9000/bucket\\[/prefix].")
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Drop the tables at the end, also in your own catalog.")
    ] = False,
    iceberg: IcebergOption = None,
    no_nemesis: Annotated[bool, typer.Option("--no-nemesis", help="Without the file's faults: the control.")] = False,
    port: Annotated[list[str] | None, typer.Option(help="SERVICE=PORT of the embedded stack.")] = None,
    fresh: Annotated[bool, typer.Option(help="Do not use the stack that is up.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the last lines.")] = False,
) -> int:
    """Run one workload, check it, write its page."""
    from checkers.evidence import runfolder as runs
    from compose.install import releases
    from compose.redaction import secrets_of
    from harness.cli.terminal import Voice
    from harness.run import standing as kept_stack
    from harness.run.resolve import read_workload
    from harness.run.run import Run, Settings
    from workloads.file import workload as schema

    spec = _overridden(read_workload(schema.find(workload)), writers, ops, time, no_nemesis=no_nemesis)
    if catalog is not None:
        spec = spec.model_copy(update={"catalog": _catalog(catalog)})
    ports = _ports(port or [])
    release = _release(iceberg, spec)
    if seed is None:
        seed = spec.seed if spec.seed is not None else random.SystemRandom().randrange(2**31)
    external = _external(spec.catalog, s3, spark)
    words = ["run", workload, "--seed", str(seed)]
    overrides = {"--writers": writers, "--ops": ops, "--time": time, "--catalog": catalog, "--iceberg": iceberg}
    overrides |= {"--spark": spark, "--s3": s3}
    for option, value in overrides.items():
        words += [option, str(value)] if value is not None else []
    words += ["--no-nemesis"] if no_nemesis else []
    words += ["--clean"] if clean else []
    words += ["--store", str(store)] if store != Path("store") else []
    words += [w for pair in port or () for w in ("--port", pair)]
    settings = Settings(
        seed=seed, command=f"{command()} {shlex.join(words)}", ports=ports, external=external, clean=clean
    )
    known = (*external.secrets, *secrets_of(spec.catalog_properties))
    with Voice(quiet=quiet) as voice, details_in(store, known):
        installation = releases.ensure(release)
        folder = runs.create(store, spec.workload)
        voice.say(f"{spec.workload}, seed {seed}: {folder.path}")
        own_stack = fresh or ports or release != releases.DEFAULT or spec.catalog != "rest" or external
        with nullcontext() if own_stack else kept_stack.use(installation.home) as standing, details_in(folder.path):
            one = Run(spec, folder, installation, settings, kept=standing, watcher=voice)
            try:
                one.execute()
            except BaseException:
                _say_left(external, one.left, error=True)
                raise
        voice.say("checking")
        code = _judge(folder)
        _say_left(external, one.left)
        return code


def _say_left(external: Any, left: tuple[str, ...], *, error: bool = False) -> None:
    """What a run leaves in a catalog that is not ours, and how it goes away."""
    if left:
        typer.echo(f"  left        in {external.catalog.name}, as evidence (--clean drops it); by SQL:", err=error)
        for statement in left:
            typer.echo(f"              {statement};", err=error)


def _judge(folder: Any, engine: str = "auto") -> int:
    """Check a run's folder, write results, page and JUnit file, print the last lines; the exit code."""
    from checkers.judge.check import ALL, check, load_evidence, load_promises, write_results
    from checkers.verdict import exit_code
    from reports.run import junit, page, summary
    from reports.run.stored import load

    with details_in(folder.path):
        results = check(load_evidence(folder.path), ALL, load_promises(folder.path), engine=engine)  # type: ignore[arg-type]
        write_results(results, folder.results)
        junit.write(folder.path)
        stored = load(folder.path)
        page.write(stored)
    for line in summary.lines(stored):
        typer.echo(line)
    return exit_code(results.valid)


RunArgument = Annotated[Path, typer.Argument(help="A run's folder, or a `latest` link.")]


@app.command()
def check(
    what: Annotated[
        Path, typer.Argument(help="A run's folder, a `latest` link, or a history (EDN, JSON lines, log).")
    ] = Path("store/latest"),
    model: Annotated[str | None, typer.Option(help="What a history is about: list-append, register, bank, …")] = None,
    level: Annotated[str | None, typer.Option(help="What it is held to: serializable, snapshot-isolation, …")] = None,
    output: Annotated[Path | None, typer.Option("--json", help="Where to write a history's verdict.")] = None,
    engine: Annotated[str, typer.Option(help="For a run: exact, columns (long runs), or auto.")] = "auto",
) -> int:
    """Judge a stored run again, from its folder alone, or the history of any other system: no Spark, no services."""
    from checkers.evidence import runfolder as runs
    from harness.cli import clienthistory

    file = clienthistory.history_of(what, model)
    if file is not None:
        return clienthistory.show(file, model, level, output, typer.echo)
    for option, value in (("--model", model), ("--level", level), ("--json", output)):
        if value is not None:
            raise BadArgument(
                f"{option} is for the file of a history: the run {what} is judged by what its tables promise"
            )
    if engine not in ("auto", "exact", "columns"):
        raise BadArgument(f"--engine {engine}: allowed: auto, exact, columns")
    return _judge(runs.find(what.parent if what.is_file() else what), engine)


@app.command()
def export(
    run: RunArgument = Path("store/latest"),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to; else standard output.")] = None,
) -> int:
    """Write a run's history as Jepsen's EDN, for a second opinion by other tools."""
    from checkers.clients import jepsen
    from checkers.evidence import history
    from checkers.evidence import runfolder as runs

    text = jepsen.to_edn(history.read(runs.find(run).history))
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
        typer.echo(str(output))
    return 0


@app.command()
def prove(
    names: Annotated[
        list[str] | None, typer.Argument(help="Scenarios, by name or file; all when none is given.")
    ] = None,
    times: Annotated[int, typer.Option(min=1, max=1000, help="How often each.")] = 1,
    iceberg: IcebergOption = None,
    output: Annotated[Path | None, typer.Option("--json", help="Where to write what came of each.")] = None,
    store: StoreOption = Path("store"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the table.")] = False,
) -> int:
    """Show known defects again, each as a scenario on real Spark; 0 when all is as they say for this version."""
    from rich.table import Table

    from compose.install import releases
    from harness.cli.terminal import Voice, console
    from harness.experiments import prove as proving
    from harness.run.resolve import read_scenario
    from workloads.file import scenario

    scenarios = [read_scenario(p) for p in scenario.paths(names or [])]
    release = _release(iceberg)
    again = f"{command()} prove" + (f" --iceberg {iceberg}" if iceberg is not None else "")
    with Voice(quiet=quiet) as voice, details_in(store):
        installation = releases.ensure(release)
        proofs, found = proving.prove(scenarios, installation, store, voice, times=times, command=again)
    if output is not None:
        output.write_text(proving.to_json(proofs, found), encoding="utf-8")
    table = Table("scenario", "", "as said", "what was seen, or why not", box=None, pad_edge=False)
    for row in proving.rows(scenarios, proofs):
        table.add_row(*row)
    console().print(table)
    if len(scenarios) <= 3:
        last = {p.scenario: p for p in proofs}
        for s in scenarios:
            for n, paragraph in enumerate(proving.story(s, last[s.scenario])):
                lead = f"{s.scenario}: " if n == 0 else ""
                typer.echo("\n" + textwrap.fill(lead + paragraph, 100, initial_indent="  ", subsequent_indent="  "))
            typer.echo(f"\n  page  {last[s.scenario].folder}/report.html\n")
    typer.echo(f"Spark {found['spark']}, Iceberg {found['iceberg']}; the runs are in {store}")
    return 0 if all(p.as_said for p in proofs) else 1


@app.command()
def matrix(
    only: Annotated[
        list[str] | None, typer.Option(help="A kind of operation; again for more. All when not given.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Measure so many cells and stop.")] = None,
    into: Annotated[Path, typer.Option(help="Folder; a matrix that is there goes on.")] = Path("store/matrix"),
    catalog: Annotated[str, typer.Option(help="`icequake list catalogs`.")] = "rest",
    iceberg: IcebergOption = None,
    against: Annotated[Path | None, typer.Option(help="Folder of another matrix to compare with.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the last lines.")] = False,
) -> int:
    """Measure which operation aborts, retries or breaks which: every pair, through the gate, on every make of table."""
    from checkers.conflicts import predicted
    from compose.install import releases
    from harness.cli.terminal import Voice
    from harness.experiments import matrix as measuring
    from reports.matrix import page

    for kind in only or []:
        if kind not in predicted.KINDS:
            raise BadArgument(f"--only {kind}: allowed: {', '.join(predicted.KINDS)}")
    cells = list(predicted.cells(tuple(k for k in predicted.KINDS if not only or k in only)))[:limit]
    other = None if against is None else _other_matrix(against)
    release = _release(iceberg)
    with Voice(quiet=quiet) as voice, details_in(into):
        installation = releases.ensure(release)
        whole = measuring.Matrix(cells, into, installation, voice, _catalog(catalog, own_file=False))
        measured = whole.measure()
    found = [] if other is None else measuring.differences(measured, other)
    for line in page.lines(measured, found, None if other is None else len(other)):
        typer.echo(line)
    typer.echo(f"page  {page.write(into)}")
    return 1 if found else 0


def _other_matrix(folder: Path) -> Any:
    from harness.experiments import matrix as measuring

    try:
        return measuring.read(folder / "cells.jsonl")[1]
    except measuring.MatrixError as e:
        raise BadArgument(
            f"--against {folder}: no matrix to compare with: {e}; give the folder of `matrix --into`"
        ) from None


@app.command()
def compare(
    workload: Annotated[str, typer.Argument(help="A workload file, or the name of one of the library (mixed).")],
    catalog: Annotated[str | None, typer.Option(help="Several, by commas: rest,jdbc,my.yaml; else the file's.")] = None,
    iceberg: Annotated[str | None, typer.Option(help="Releases of the writers, by commas: 1.10.1,1.12.0.")] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="How many runs of each, each with a seed of its own.")
    ] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="The first of them; the next ones follow.")] = None,
    time: Annotated[str | None, typer.Option(help="Length of each run (90s, 5m), instead of the file's.")] = None,
    ops: Annotated[int | None, typer.Option(min=1, help="Length in operations, instead of the file's.")] = None,
    writers: Annotated[int | None, typer.Option(min=1, max=64, help="Instead of the file's.")] = None,
    no_nemesis: Annotated[bool, typer.Option("--no-nemesis", help="Without the file's faults.")] = False,
    clean: Annotated[bool, typer.Option("--clean", help="Drop the tables in catalogs of your own.")] = False,
    store: StoreOption = Path("store"),
    into: Annotated[Path | None, typer.Option(help="Folder; a comparison that is there goes on.")] = None,
    output: Annotated[Path | None, typer.Option("--json", help="Where else to write all of it as JSON.")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=32, help="Runs at the same time.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the last lines.")] = False,
) -> int:
    """Run one workload with the same seeds and faults on several catalogs or releases, and say what differs."""
    from checkers.costs.comparison import Contender
    from checkers.verdict import exit_code
    from compose.redaction import secrets_of
    from harness.cli.terminal import Voice, console
    from harness.experiments import compare as comparing
    from harness.run.resolve import read_workload
    from reports.compare import page
    from workloads.file import workload as schema

    spec = _overridden(read_workload(schema.find(workload)), writers, ops, time, no_nemesis=no_nemesis)
    catalogs = [_catalog(c) for c in _several("--catalog", catalog)] or [spec.catalog]
    for name in catalogs:
        _external(name, None, None)  # what does not answer is said before hours are spent
    found = [_release(v).iceberg for v in _several("--iceberg", iceberg)] or [_release(None).iceberg]
    contenders = tuple(Contender(c, v) for c in catalogs for v in found)
    if len(contenders) < 2:
        raise BadArgument("compare: give two catalogs or releases at least, such as --catalog rest,jdbc")
    if into is not None and seed is None:
        seed = comparing.first_seed(into)
    if seed is None:
        seed = spec.seed if spec.seed is not None else random.SystemRandom().randrange(2**31)
    shared = [f"--{k}={v}" for k, v in (("writers", writers), ("ops", ops), ("time", time)) if v is not None]
    shared += ["--no-nemesis"] if no_nemesis else []
    shared += ["--clean"] if clean else []
    shared += ["--store", str(store)] if store != Path("store") else []

    def again(c: Contender, seed: int) -> str:
        words = ["run", workload, "--seed", str(seed), "--catalog", c.catalog, "--iceberg", c.iceberg, *shared]
        return f"{command()} {shlex.join(words)}"

    into = into or comparing.new_folder(store, spec.workload)
    words = ["compare", workload, "--catalog", ",".join(catalogs), "--iceberg", ",".join(found), *shared]
    words += ["--seed", str(seed), "--seeds", str(seeds), "--into", str(into)]
    words += ["--parallel", str(parallel)] if parallel > 1 else []
    goes_on = f"{command()} {shlex.join(words)}"
    order = comparing.Order(spec, contenders, tuple(range(seed, seed + seeds)), again, parallel, clean)
    with Voice(quiet=quiet) as voice, details_in(into, secrets_of(spec.catalog_properties)):
        which = f"seed {seed}" if seeds == 1 else f"seeds {seed} to {seed + seeds - 1}"
        voice.say(f"{spec.workload}, {len(contenders)} contenders, {which}: {into}")
        whole = comparing.Compare(order, into, store, voice)
        try:
            whole.measure()
        except KeyboardInterrupt:
            if whole.path.exists():
                page.write(whole.comparison(), into, goes_on)
            voice.say(f"go on by: {goes_on}")
            raise
    done = whole.comparison()
    written = page.write(done, into, goes_on)
    if output is not None:
        output.write_text(page.dumped(done), encoding="utf-8")
    typer.echo()
    console(highlight=False, least=page.NARROWEST).print(page.table(done))
    for line in page.lines(done):
        typer.echo(line)
    typer.echo(f"\n  page   {written}\n  json   {into / page.JSON}\n  again  {goes_on}")
    return exit_code(done.verdict)


def _several(option: str, text: str | None) -> list[str]:
    """The names that an option lists by commas. Raises BadArgument for one that is there twice, or none."""
    if text is None:
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise BadArgument(f"{option} {text!r}: give names by commas, such as a,b")
    if twice := [n for n in dict.fromkeys(names) if names.count(n) > 1]:
        raise BadArgument(f"{option} {text}: {', '.join(twice)} is there twice")
    return names


@app.command()
def selftest(
    placements: Annotated[int, typer.Option(min=1, help="How often each bug is planted.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Of the places.")] = 0,
    only: Annotated[list[str] | None, typer.Option(help="A bug's name, or a checker's; again for more.")] = None,
) -> int:
    """Plant known bugs in good runs and see whether every checker finds its own."""
    from harness.cli.selftest import selftest as show

    try:
        return show(placements=placements, seed=seed, only=only or [])
    except LookupError as e:
        raise BadArgument(f"--only {e.args[0]}") from None


@app.command()
def report(run: RunArgument = Path("store/latest")) -> int:
    """Write a stored run's page again and say where it is."""
    from checkers.evidence import runfolder as runs
    from reports.run import page

    typer.echo(str(page.write(runs.find(run).path)))
    return 0


@app.command("list")
def list_(
    what: Annotated[
        str, typer.Argument(help="workloads, scenarios, operations, faults, checks, catalogs, versions or runs.")
    ] = "workloads",
    store: StoreOption = Path("store"),
) -> int:
    """Show what there is: workloads, scenarios, operations, faults, checks, catalogs, versions, runs."""
    from rich.table import Table

    from harness.cli.terminal import console

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    if what == "workloads":
        from workloads.file import workload as schema

        loaded = [(p, schema.load(p)) for p in sorted(schema.LIBRARY.glob("*.yaml"))]
        columns = ("workload", "what it does")
        rows = [(p.stem, w.description) for p, w in loaded]
    elif what == "scenarios":
        from workloads.file import scenario

        columns = ("scenario", "what it shows")
        rows = [(x.scenario, x.description) for x in scenario.find([])]
    elif what == "operations":
        from workloads.operations.kind import KINDS

        columns, rows = ("operation", "what it does"), [(n, (k.__doc__ or "").split("\n")[0]) for n, k in KINDS.items()]
    elif what == "checks":
        from checkers.judge.check import ALL

        columns = ("check", "what it finds")
        rows = [(c.name, (type(c).__doc__ or "").strip().split("\n")[0]) for c in ALL]
    elif what == "faults":
        from nemesis.faults.packages import PACKAGES

        columns = ("package", "what it stands for", "its faults")
        rows = [(p.name, p.summary, ", ".join(dict.fromkeys(f.name for f in p.faults))) for p in PACKAGES.values()]
    elif what == "catalogs":
        from compose.catalogs.registry import CATALOGS

        columns, rows = (
            ("catalog", "what it is", "a commit"),
            [(c.name, c.summary, c.promise) for c in CATALOGS.values()],
        )
    elif what == "versions":
        from compose.install import releases

        columns, rows = ("iceberg", "spark", ""), [_version_row(r) for r in releases.RELEASES]
    elif what == "runs":
        from checkers.evidence import runfolder as stored

        columns, rows = ("run", "state", "verdict"), [_run_row(r) for r in stored.runs(store)]
    else:
        raise BadArgument(
            f"list {what}: allowed: workloads, scenarios, operations, faults, checks, catalogs, versions, runs"
        )
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console().print(table)
    return 0


def _version_row(release: Any) -> tuple[str, str, str]:
    from compose.install import releases

    there = "in the cache" if releases.in_place(release) else "comes at its first use"
    return release.iceberg, release.spark, f"the default; {there}" if release == releases.DEFAULT else there


def _run_row(folder: Any) -> tuple[str, str, str]:
    import json

    try:
        valid = json.loads(folder.results.read_text())["valid"]
    except (OSError, ValueError, KeyError, TypeError):
        valid = None
    words = {True: "valid", False: "anomalies found", "unknown": "unknown"}
    return str(folder.path), str(folder.state().get("state")), words.get(valid, "not checked")


@app.command()
def doctor() -> int:
    """Say what is installed, what is missing, and what to type."""
    from rich.console import Console

    from compose.install.doctor import examine

    console = Console(highlight=False)
    findings = examine()
    marks = {"ok": "[green]ok     [/]", "missing": "[yellow]missing[/]", "wrong": "[red]wrong  [/]"}
    for f in findings:
        mark = marks[f.state] if f.required or f.state == "ok" else "[dim]absent [/]"
        console.print(f"{mark} {f.name:<12} {f.detail}{'' if f.required else ' (optional)'}", soft_wrap=True)
        if f.state != "ok" and f.remedy:
            console.print(f"        {'':<12} → {f.remedy}", soft_wrap=True)
    return HARNESS_FAILED if any(f.state == "wrong" for f in findings) else 0


@app.command()
def setup(iceberg: IcebergOption = None) -> int:
    """Get everything that a run needs into the cache; `run` does the same by itself."""
    from compose.install import ensure, releases

    if (release := _release(iceberg)) == releases.DEFAULT:
        return ensure.main([])
    ready = releases.ensure(release)
    ensure.share_class_data(ready)
    typer.echo(f"icequake: everything for Iceberg {release.iceberg} on Spark {release.spark} is ready in {ready.home}")
    return 0


@app.command()
def up(
    writers: Annotated[int, typer.Option(min=0, max=64, help="Warm writers to keep.")] = 4,
) -> int:
    """Start a stack with warm writers and keep it for the next runs."""
    from compose.endpoints import Endpoints
    from compose.install import ensure
    from harness.run import standing

    installation = ensure.ensure(progress=None)
    record = standing.up(installation.home, writers)
    endpoints = Endpoints.from_json(record["endpoints"])
    typer.echo(f"up: catalog {endpoints.catalog_uri}, S3 {endpoints.s3}, Spark {endpoints.spark_master}")
    typer.echo(f"{writers} warm writers; the next `{command()} run` uses them; logs in {record['logs']}")
    typer.echo(f"`{command()} down` ends it")
    return 0


@app.command()
def down() -> int:
    """End the stack that `up` started."""
    from compose.install import ensure
    from harness.run import standing

    typer.echo("down" if standing.down(ensure.home()) else "nothing was up")
    return 0


def _terminated(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Entry point: every error becomes one line and an exit code, never a stack trace."""
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(_main())


def _fail(message: str, code: int) -> int:
    print(f"icequake: {message}", file=sys.stderr)
    return code


def _main() -> int:
    try:
        code = app(standalone_mode=False)
        if code == TYPER_INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return _fail("stopped; the run's folder keeps what there is", HARNESS_FAILED)
    except Exception as e:
        if isinstance(e, _TyperError):
            text = str(e.format_message()).rstrip(".")  # type: ignore[attr-defined]
            if not text:  # no command: Typer has shown the help
                return BAD_INPUT
            return _fail(f"{text}; see `{command()} --help`", BAD_INPUT)
        return _explain(e if isinstance(e, Crash) else Crash(e))


def _explain(crash: Any) -> int:
    """Say why a command ended (``harness.cli.crash.Crash``), without secrets; the exit code."""
    from checkers.clients.models import ModelError
    from checkers.evidence.history import HistoryError
    from checkers.evidence.runfolder import StoreError
    from checkers.evidence.tablelog import TableLogError
    from compose.external.external import ExternalError
    from compose.processes.ports import PortInUse
    from harness.experiments.compare import CompareError
    from harness.experiments.matrix import MatrixError
    from workloads.file.workload import WorkloadError

    error = crash.error

    def fail(message: str, code: int) -> int:
        return _fail(crash.redacted(message), code)

    bad_input = (
        ExternalError | StoreError | HistoryError | TableLogError | ModelError | CompareError | MatrixError | PortInUse
    )
    if isinstance(error, BadArgument):
        return fail(f"{error}; see `{command()} --help`", BAD_INPUT)
    if isinstance(error, WorkloadError):
        for line in str(error).splitlines():
            fail(line, BAD_INPUT)
        return BAD_INPUT
    if isinstance(error, bad_input):
        return fail(str(error), BAD_INPUT)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        where = f" ({error.filename})" if error.filename else ""
        return fail(f"the disk of the store is full{where}; free some space or give another --store", HARNESS_FAILED)
    if isinstance(error, OSError) and error.errno in _ACCESS and error.filename:
        return fail(f"{error.filename}: {error.strerror}; what is there must be ours to write", HARNESS_FAILED)
    from compose.install.ensure import SetupError
    from compose.objectstore import TableReadError
    from compose.processes.service import ServiceError
    from harness.run.run import RunError
    from harness.run.standing import KeptError
    from harness.writers.slot import WriterError

    if isinstance(error, SetupError | ServiceError | KeptError | RunError | WriterError | TableReadError):
        return fail(str(error), HARNESS_FAILED)
    try:
        hint = f"the details are in {crash.write()}"
    except OSError as e:
        hint = f"the details could not be written: {e}"
    return fail(f"internal error: {type(error).__name__}: {error}; {hint}; please report it", HARNESS_FAILED)


if __name__ == "__main__":
    main()
