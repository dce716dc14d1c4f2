"""``icequake run``."""

from __future__ import annotations

import random
import shlex
import threading
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.check import judge, verdict_if_stopped, way_on
from harness.cli.crash import details_in
from harness.cli.lake import LakeOption, place_of
from harness.cli.options import (
    ClusterOption,
    FaultsOption,
    IcebergOption,
    OperationsOption,
    SessionOption,
    StoreOption,
    WritersOption,
    anywhere,
    for_containers,
    known_catalog,
    mode_of,
    on_cluster,
    on_host_of,
    overridden,
    path_anywhere,
    ports_of,
    reachable,
    release_of,
    say_own_jar,
    store_words,
    user_services,
    warn,
    without_containers,
)
from harness.cli.ordered import order_words, ordered


def run(
    workload: Annotated[str, typer.Argument(help="A workload file, or the name of a built-in workload (quick).")],
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the operations; default: the file's, else a new one.")
    ] = None,
    store: StoreOption = Path("store"),
    writers: WritersOption = None,
    operations: OperationsOption = None,
    ops: Annotated[int | None, typer.Option(min=1, help="Length in operations; overrides the file.")] = None,
    time: Annotated[str | None, typer.Option(help="Length as a time (90s, 5m); overrides the file.")] = None,
    catalog: Annotated[
        str | None,
        typer.Option(help="A catalog of `icequake list catalogs`, or your own, my.yaml; overrides the file."),
    ] = None,
    spark: Annotated[str | None, typer.Option(help="Your own Spark master: spark://host:7077, local[4].")] = None,
    s3: Annotated[str | None, typer.Option(help="Your own object store: http://host:9000/bucket[/prefix].")] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Drop the tables at the end, even in your own catalog.")
    ] = False,
    iceberg: IcebergOption = None,
    session: SessionOption = None,
    cluster: ClusterOption = None,
    faults: FaultsOption = None,
    no_nemesis: Annotated[bool, typer.Option("--no-nemesis", help="Inject no faults (control run).")] = False,
    order: Annotated[
        str | None,
        typer.Option(
            help="Who decides the order of the writers' requests: free (nobody; it is recorded), priority(D), or 'replay RUN'."
        ),
    ] = None,
    proxies: Annotated[
        bool,
        typer.Option("--proxies", help="Log every request to catalog and store, also without faults (for `coverage`)."),
    ] = False,
    port: Annotated[
        list[str] | None, typer.Option(help="SERVICE=PORT: port of a service of the embedded stack; repeatable.")
    ] = None,
    docker: Annotated[
        bool,
        typer.Option("--docker", help="Run all services and Spark's writers in containers; needs a Docker engine."),
    ] = False,
    on_host: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="What of Spark is no container with --docker: 'drivers' (of the writers), or 'spark' (master, workers and drivers).",
        ),
    ] = None,
    lake: LakeOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start a new stack even if one is up.")] = False,
    online: Annotated[
        bool, typer.Option(help="Check while the run goes on, and show a live line. The verdict is made afterwards.")
    ] = True,
    stop_on_anomaly: Annotated[
        bool,
        typer.Option(
            "--stop-on-anomaly", help="End the load at the first of five anomalies that is certain (docs/online.md)."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the last lines.")] = False,
) -> int:
    """Run one workload, check it, and write its page."""
    from checkers.evidence import runfolder as runs
    from compose import setup
    from compose.redaction import secrets_of
    from harness.cli.terminal import Voice
    from harness.run import standing as kept_stack
    from harness.run.hidden import revealed
    from harness.run.resolve import read_workload
    from harness.run.run import Run
    from harness.run.settings import OnlineSettings, Settings
    from workloads.file import workload as schema
    from workloads.file.recording import FILE as RECORDING

    if stop_on_anomaly and not online:
        raise typer.BadParameter("--stop-on-anomaly needs the check during the run; leave --no-online out")
    file = read_workload(schema.find(workload), warn)
    kept_in = place_of(lake, store)
    spec = overridden(
        file,
        writers,
        ops,
        time,
        no_nemesis=no_nemesis,
        operations=operations,
        faults=faults,
        session=session,
        cluster=cluster,
    )
    if catalog is not None:
        spec = spec.model_copy(update={"catalog": known_catalog(catalog)})
    stop = threading.Event()
    spec, replaying = ordered(
        file,
        spec,
        order,
        store,
        stop,
        {
            "--seed": seed,
            "--writers": writers,
            "--operations": operations,
            "--faults": faults,
            "--ops": ops,
            "--time": time,
            "--no-nemesis": no_nemesis or None,
        },
    )
    if replaying is not None:
        seed = replaying.recording.seed
        if catalog is not None:
            spec = spec.model_copy(update={"catalog": known_catalog(catalog)})
        if given := mode_of(session, cluster):
            spec = file.changed(spec.model_copy(update=given), " ".join(f"--{k} {v}" for k, v in given.items()))
    reachable(spec.engines, spec.catalog)
    ports = ports_of(port or [])
    release = release_of(iceberg, spec)
    if seed is None:
        seed = spec.seed if spec.seed is not None else random.SystemRandom().randrange(2**31)
    external = user_services(spec.catalog, s3, spark, docker=docker)
    spec = on_cluster(file, spec, external, ports)
    stays = on_host_of(on_host, external, docker=docker)
    if docker:
        for_containers(spec, external, stays)
    else:
        without_containers(spec)
    words = ["run", path_anywhere(workload), *(["--seed", str(seed)] if replaying is None else [])]
    overrides = {
        "--writers": writers,
        "--operations": operations,
        "--faults": faults,
        "--ops": ops,
        "--time": time,
        "--iceberg": iceberg and path_anywhere(iceberg),
        "--session": session,
        "--cluster": cluster,
        "--order": order and spec.order,
    }
    overrides |= {"--catalog": catalog and path_anywhere(catalog)}
    overrides |= {"--spark": spark, "--s3": s3}
    for option, value in overrides.items():
        words += [option, str(value)] if value is not None else []
    words += ["--no-nemesis"] if no_nemesis else []
    words += ["--proxies"] if proxies else []
    words += ["--docker"] if docker else []
    words += ["--on-host", stays] if stays is not None else []
    words += ["--clean"] if clean else []
    words += ["--lake", path_anywhere(lake)] if lake is not None else []
    words += ["--stop-on-anomaly"] if stop_on_anomaly else [] if online else ["--no-online"]
    words += store_words(store)
    words += [w for pair in port or () for w in ("--port", pair)]
    known = (*external.secrets, *secrets_of(revealed(spec.catalog_properties)))
    with Voice(quiet=quiet) as voice, details_in(store, known):
        settings = Settings(
            seed=seed,
            command=shlex.join([anywhere(), *words]),
            ports=ports,
            proxied=proxies,
            external=external,
            docker=docker,
            on_host=stays,
            clean=clean,
            stop=stop,
            online=OnlineSettings(voice.live, voice.keep, voice.live_every, stop_on_anomaly) if online else None,
        )
        if replaying is not None:
            settings = replace(settings, order=replaying, operations=replaying.operations)
        installation = setup.ensure_release(release)
        say_own_jar(release, voice.say)
        folder = runs.create(store, spec.workload)
        if replaying is not None:
            runs.replace_file(folder.path / RECORDING, replaying.recording.to_json())
        voice.keep(f"{spec.workload}, seed {seed}: {folder.path}")
        own_stack = fresh or docker or ports or external
        kept = nullcontext() if own_stack else kept_stack.use(installation.home, spec, release, voice.keep)
        with verdict_if_stopped(folder):
            with kept as standing, details_in(folder.path):
                one = Run(spec, folder, installation, settings, standing=standing, watcher=voice)
                try:
                    one.execute()
                except BaseException as e:
                    _say_left(external, one.left, error=True)
                    _say_notes(one.notes, error=True)
                    if isinstance(e, Exception) and folder.began:
                        typer.echo(f"icequake: the run did not come to its end; {way_on(folder)}", err=True)
                    raise
            voice.say("checking")
            code = judge(folder, lake=kept_in)
        for sentence in order_words(folder):
            typer.echo(f"  order       {sentence}")
        _say_left(external, one.left)
        _say_notes(one.notes)
        return code


def _say_notes(notes: Iterable[str], *, error: bool = False) -> None:
    """Print what the user should know of the secrets of a run."""
    for note in notes:
        typer.echo(f"  secrets     {note}", err=error)


def _say_left(external: Any, left: tuple[str, ...], *, error: bool = False) -> None:
    """Print what a run left in a user-supplied catalog, and the SQL that drops it."""
    if left:
        typer.echo(
            f"  left        in {external.catalog.name}, as evidence (--clean drops it); SQL to drop it:", err=error
        )
        for statement in left:
            typer.echo(f"              {statement};", err=error)
