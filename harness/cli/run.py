"""``icequake run``."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from harness.cli import estimates
from harness.cli.check import judge, verdict_if_stopped, way_on
from harness.cli.command import Options
from harness.cli.crash import details_in
from harness.cli.lake import LakeOption, place_of
from harness.cli.options import (
    CATALOG,
    DEFAULT_STORE,
    LAST_SEED,
    LENGTH,
    LONGEST_IN_OPS,
    MASTER,
    NEVER,
    PATH,
    BadArgument,
    ClusterOption,
    FaultsOption,
    FormatOption,
    GuardOption,
    IcebergOption,
    OperationsOption,
    QuietOption,
    SessionOption,
    StoreOption,
    Value,
    WritersOption,
    release_of,
    say_own_jar,
    warn,
)
from harness.cli.ordered import not_recorded, order_words, ordered, recorded
from harness.cli.services import (
    for_containers,
    on_cluster,
    ports_of,
    reachable,
    user_services,
    without_containers,
)

if TYPE_CHECKING:
    from checkers.evidence.runfolder import RunFolder
    from compose.external.external import External
    from harness.cli.terminal import Voice
    from harness.run.ordering import Replaying
    from harness.run.resolve import WorkloadFile
    from harness.run.run import Run
    from harness.run.settings import OnHost, Settings, StandingStack
    from workloads.file.workload import Workload


RECORDED = (
    "seed",
    "format",
    "guard",
    "writers",
    "operations",
    "faults",
    "ops",
    "time",
    "catalog_property",
    "no_nemesis",
)
"""What the recording decides in a replay."""


@dataclass(frozen=True)
class RunOptions(Options):
    """Run one workload, check it, and write its page."""

    short = "Run one workload and judge it."

    workload: Annotated[str, typer.Argument(help="A workload file, or the name of a built-in workload (quick)."), PATH]
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=LAST_SEED, help="Seed of the operations; default: the file's, else a new one."),
    ] = None
    store: StoreOption = DEFAULT_STORE
    writers: WritersOption = None
    operations: OperationsOption = None
    ops: Annotated[
        int | None, typer.Option(min=1, max=LONGEST_IN_OPS, help="Length in operations; overrides the file.")
    ] = None
    time: Annotated[str | None, typer.Option(help="Length as a time (90s, 5m); overrides the file."), LENGTH] = None
    catalog: Annotated[
        str | None,
        typer.Option(help="A catalog of `icequake list catalogs`, or your own, my.yaml; overrides the file."),
        CATALOG,
    ] = None
    catalog_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A property of the catalog for every writer, such as cache-enabled=false; repeatable; besides the file's "
            "`catalog_properties`.",
        ),
    ] = None
    spark: Annotated[str | None, typer.Option(help="Your own Spark master: spark://host:7077, local[4]."), MASTER] = (
        None
    )
    s3: Annotated[str | None, typer.Option(help="Your own object store: http://host:9000/bucket[/prefix].")] = None
    clean: Annotated[bool, typer.Option("--clean", help="Drop the tables at the end, even in your own catalog.")] = (
        False
    )
    format: FormatOption = None
    guard: GuardOption = None
    iceberg: IcebergOption = None
    session: SessionOption = None
    cluster: ClusterOption = None
    faults: FaultsOption = None
    no_nemesis: Annotated[bool, typer.Option("--no-nemesis", help="Inject no faults (control run).")] = False
    order: Annotated[
        str | None,
        typer.Option(
            help="Who decides the order of the writers' requests: free (nobody; it is recorded), priority(D), or 'replay RUN'."
        ),
    ] = None
    proxies: Annotated[
        bool,
        typer.Option("--proxies", help="Log every request to catalog and store, also without faults (for `coverage`)."),
    ] = False
    port: Annotated[
        list[str] | None, typer.Option(help="SERVICE=PORT: port of a service of the embedded stack; repeatable.")
    ] = None
    docker: Annotated[
        bool,
        typer.Option("--docker", help="Run all services and Spark's writers in containers; needs a Docker engine."),
    ] = False
    on_host: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="What of Spark is no container with --docker: 'drivers' (of the writers), or 'spark' (master, workers and drivers).",
        ),
        Value(choices=("drivers", "spark")),
    ] = None
    lake: LakeOption = None
    fresh: Annotated[bool, typer.Option("--fresh", help="Start a new stack even if one is up."), NEVER] = False
    online: Annotated[
        bool, typer.Option(help="Check while the run goes on, and show a live line. The verdict is made afterwards.")
    ] = True
    stop_on_anomaly: Annotated[
        bool,
        typer.Option(
            "--stop-on-anomaly", help="End the load at the first of five anomalies that is certain (docs/online.md)."
        ),
    ] = False
    quiet: QuietOption = False

    def check(self) -> None:
        if self.stop_on_anomaly and not self.online:
            raise BadArgument("--stop-on-anomaly needs the check during the run; leave --no-online out")
        if self.on_host is not None and not self.docker:
            raise BadArgument(
                f"--on-host {self.on_host}: without --docker all of Spark runs on this machine; add --docker, or leave it out"
            )
        ports_of(self.port or [])
        self._no_secret()

    def _no_secret(self) -> None:
        """Raises BadArgument: a property is or has a secret. Others see a command line, and the run's folder has it."""
        from compose.redaction import secrets_of

        for key, _, value in (text.partition("=") for text in self.catalog_property or ()):
            if secrets_of({key.strip(): value.strip()}):
                raise BadArgument(
                    f"--catalog-property {key.strip()}: a command line is no place for a secret; write it into a catalog file as ${{NAME}} "
                    "(docs/own-catalog.md)"
                )

    def prepare(self) -> None:
        place_of(self.lake, self.store)
        spec, _ = self._ordered
        reachable(spec.engines, spec.catalog)
        release_of(self.iceberg, spec)

    @cached_property
    def _file(self) -> WorkloadFile:
        from harness.run.resolve import read_workload
        from workloads.file import workload as schema

        return read_workload(schema.find(self.workload), warn)

    @cached_property
    def _stop(self) -> threading.Event:
        """Set, it ends the run."""
        return threading.Event()

    @cached_property
    def _ordered(self) -> tuple[Workload, Replaying | None]:
        """The workload with the options; of a replay, that of the recording, and what forces it."""
        from workloads.file.changes import Changes

        given = [
            f"--{k.replace('_', '-')}"
            for k in RECORDED
            if (v := getattr(self, k)) is not None and v is not False and v != []
        ]
        spec = self._on_catalog(self.changed(self._file))
        spec, replaying = ordered(self._file, spec, self.order, self.store, self._stop, given)
        if replaying is not None and self.mode:
            mode = Changes(**self.mode)
            spec = self._file.changed(mode.on(spec), str(mode))
        return self._on_catalog(spec), replaying

    def _on_catalog(self, spec: Workload) -> Workload:
        return spec if self.catalog is None else spec.model_copy(update={"catalog": self.catalog})

    def takes(self) -> float:
        return estimates.COLD_RUN_S + estimates.load_s(self._ordered[0])

    def execute(self) -> int:
        from compose import setup
        from compose.redaction import secrets_of
        from harness.cli.terminal import Voice
        from harness.run.hidden import revealed

        spec, _ = self._ordered
        external = user_services(spec.catalog, self.s3, self.spark, docker=self.docker)
        spec = on_cluster(self._file, spec, external, ports_of(self.port or []))
        if self.docker:
            for_containers(spec, external, self.on_host)
        else:
            without_containers(spec)
        release = release_of(self.iceberg, spec)
        known = (*external.secrets, *secrets_of(revealed(spec.catalog_properties)))
        with Voice(quiet=self.quiet) as voice, details_in(self.store, known):
            settings = self._settings(spec, external, voice)
            installation = setup.ensure_release(release)
            say_own_jar(release, voice.say)
            return self._run(spec, settings, installation, release, voice)

    def _settings(self, spec: Workload, external: External, voice: Voice) -> Settings:
        from harness.run.settings import OnlineSettings, Settings

        _, replaying = self._ordered
        seed = spec.seed if self.seed is None else self.seed
        if seed is None:
            seed = random.SystemRandom().randrange(2**31)
        order = {} if self.order is None else {"order": spec.order}
        settings = Settings(
            seed=seed if replaying is None else replaying.recording.seed,
            command=self.again(**order, seed=seed if replaying is None else None),
            ports=ports_of(self.port or []),
            proxied=self.proxies,
            external=external,
            docker=self.docker,
            on_host=cast("OnHost | None", self.on_host),
            clean=self.clean,
            stop=self._stop,
            online=OnlineSettings(voice.live, voice.keep, voice.live_every, self.stop_on_anomaly)
            if self.online
            else None,
        )
        return settings if replaying is None else replace(settings, order=replaying, operations=replaying.operations)

    def _folder(self, spec: Workload, settings: Settings, voice: Voice) -> RunFolder:
        """A new folder of the store, with the recording in it if that is replayed."""
        from checkers.evidence import runfolder as runs
        from workloads.file.recording import FILE as RECORDING

        _, replaying = self._ordered
        folder = runs.create(self.store, spec.workload)
        if replaying is not None:
            runs.replace_file(folder.path / RECORDING, replaying.recording.to_json())
        voice.keep(f"{spec.workload}, seed {settings.seed}: {folder.path}")
        return folder

    def _run(self, spec: Workload, settings: Settings, installation: Any, release: Any, voice: Voice) -> int:
        from harness.run import standing as kept_stack
        from harness.run.run import Run

        folder = self._folder(spec, settings, voice)
        own_stack = self.fresh or self.docker or self.port or settings.external
        kept = nullcontext() if own_stack else kept_stack.use(installation.home, spec, release, voice.keep)
        with verdict_if_stopped(folder):
            with kept as standing, details_in(folder.path):
                spec = recorded(spec, settings, standing)
                run = Run(spec, folder, installation, settings, standing=standing, watcher=voice)
                _executed(run, folder, settings.external, standing)
            voice.say("checking")
            code = judge(folder, lake=place_of(self.lake, self.store))
        for sentence in (*order_words(folder), *(not_recorded(folder) if code == 1 else ())):
            typer.echo(f"  order       {sentence}")
        _say_left(settings.external, run.leftovers)
        _say_notes(run.notes)
        return code


def _executed(run: Run, folder: RunFolder, external: External, standing: StandingStack | None) -> None:
    """Execute a run; if it does not come to its end, say what it leaves."""
    try:
        run.execute()
    except BaseException as e:
        _say_left(external, run.leftovers, error=True)
        _say_notes(run.notes, error=True)
        if isinstance(e, Exception) and folder.began:
            typer.echo(f"icequake: the run did not come to its end; {way_on(folder)}", err=True)
        if isinstance(e, Exception) and standing is not None and standing.keeper:
            typer.echo(f"icequake: it used {standing.way_round}", err=True)
        raise


def _say_notes(notes: Iterable[str], *, error: bool = False) -> None:
    """Print what the user should know of the secrets of a run."""
    for note in notes:
        typer.echo(f"  secrets     {note}", err=error)


def _say_left(external: Any, commands: tuple[str, ...], *, error: bool = False) -> None:
    """Print what a run left in a user-supplied catalog, and the SQL that drops it."""
    if commands:
        typer.echo(
            f"  left        in {external.catalog.name}, as evidence (--clean drops it); SQL to drop it:", err=error
        )
        for statement in commands:
            typer.echo(f"              {statement};", err=error)
