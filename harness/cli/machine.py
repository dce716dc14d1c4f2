"""``icequake doctor``, ``setup``, ``up`` and ``down``: what is installed on this machine, and which stack runs on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.command import Options
from harness.cli.failures import HARNESS_FAILED
from harness.cli.options import (
    ENGINE,
    NEVER,
    OUR_CATALOG,
    BadArgument,
    ClusterOption,
    IcebergOption,
    SessionOption,
    command,
    release_of,
    warn,
)


@dataclass(frozen=True)
class DoctorOptions(Options):
    """Show what is installed, what is missing, and how to get it."""

    short = "Show what is missing here."

    def execute(self) -> int:
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


@dataclass(frozen=True)
class SetupOptions(Options):
    """Download everything that a run needs into the cache; `run` does this by itself."""

    short = "Download what a run needs."

    catalogs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Catalogs that are wanted, too (hadoop, nessie, sqlite, dynamodb), or a suite: all of its catalogs (nightly).",
            show_default=False,
        ),
    ] = None
    iceberg: IcebergOption = None
    engine: Annotated[
        list[str] | None,
        typer.Option(help="Another engine than Spark, as in `list engines`; repeatable.", show_default=False),
        ENGINE,
    ] = None

    def prepare(self) -> None:
        from compose.catalogs.registry import CATALOGS
        from compose.install import ensure, flink, jars, releases
        from workloads.engines.engines import ENGINES
        from workloads.file import suite
        from workloads.file.meant import unknown

        others = {*ensure.CONFS, flink.JAR_CONF, *(r.conf for r in releases.RELEASES)}
        known = [c for c in dict.fromkeys(c for jar in jars.read_lock() for c in jar.confs) if c not in others]
        known = list(dict.fromkeys([*known, *CATALOGS, *suite.library()]))
        for name in self.catalogs or ():
            if name not in known and not Path(name).is_file():
                if name in ENGINES:
                    raise BadArgument(f"setup {name}: that is an engine; give --engine {name}")
                raise BadArgument(f"setup {name}: {unknown('catalog or suite', name, known)}")
        _ = self._release

    @cached_property
    def _release(self) -> Any:
        return release_of(self.iceberg)

    def execute(self) -> int:
        from compose import setup as complete
        from compose.install import engines, releases

        needed = [(name, _needs_of(name)) for name in self.engine or ()]
        if (release := self._release) == releases.DEFAULT or self.catalogs:
            code = complete.main(self.catalogs or [])
            if code:
                return code
        for name, need in needed:
            engines.installed(need)
            typer.echo(
                f"icequake: {engines.EXTRAS[need].title}: installed"
                if need
                else f"icequake: {name}: nothing more is needed"
            )
        if release == releases.DEFAULT:
            return 0
        ready = releases.ensure(release)
        complete.share_class_data(ready)
        typer.echo(
            f"icequake: everything for Iceberg {release.iceberg} on Spark {release.spark} is ready in {ready.home}"
        )
        return 0


def _needs_of(name: str) -> str | None:
    """What is to be installed for an engine; None if every run has it."""
    from workloads.engines.engine import Foreign
    from workloads.engines.engines import ENGINES

    engine = ENGINES[name]
    return engine.needs if isinstance(engine, Foreign) else None


@dataclass(frozen=True)
class UpOptions(Options):
    """Start a stack with warm writers and keep it running for the next runs."""

    short = "Keep a stack for the next runs."

    writers: Annotated[int, typer.Option(min=0, max=64, help="Number of warm writers.")] = 4
    catalog: Annotated[
        str | None,
        typer.Option(help="A catalog of `icequake list catalogs`; default: rest, or that of the stack that is up."),
        OUR_CATALOG,
    ] = None
    session: SessionOption = None
    cluster: ClusterOption = None
    docker: Annotated[bool, typer.Option("--docker", hidden=True), NEVER] = False

    def check(self) -> None:
        if self.docker:
            raise BadArgument(
                "--docker: `up` keeps processes of this machine. A catalog in containers is kept by `docker compose -f "
                "compose/docker/compose.yaml --profile nessie up --wait`; a run uses it by `--catalog compose/docker/catalogs/nessie.yaml`"
            )

    def execute(self) -> int:
        from compose.catalogs.registry import CATALOGS, DEFAULT
        from compose.endpoints import Endpoints
        from compose.install import ensure
        from harness.run import standing
        from workloads.file.mode import Mode

        wanted = self.catalog or DEFAULT
        CATALOGS[wanted].check()
        installation = ensure.ensure(progress=None)
        given, mode = self.mode, Mode(**self.mode)
        record, started = standing.up(installation.home, self.writers, wanted, mode)
        endpoints = Endpoints.from_json(record["endpoints"])
        has = endpoints.catalog
        if self.catalog is not None and has != self.catalog:
            raise BadArgument(
                f"--catalog {self.catalog}: a stack with the catalog {has} is up; {standing.replacing(self.catalog, mode)}"
            )
        if given and endpoints.mode != mode:
            words = " ".join(f"--{k} {v}" for k, v in given.items())
            raise BadArgument(f"{words}: the stack that is up has {endpoints.mode}; {standing.replacing(has, mode)}")
        state, warm = "up" if started else "up already", len(record["sockets"])
        typer.echo(
            f"{state}: catalog {has} at {endpoints.catalog_uri}, S3 {endpoints.s3}, Spark {endpoints.spark_master}"
        )
        uses = (
            f"{warm} warm writers; the next `{command()} run` on the catalog {has} uses them"
            if warm
            else "no warm writers"
        )
        typer.echo(f"{uses}; logs in {record['logs']}")
        typer.echo(f"`{command()} down` stops it")
        return 0


@dataclass(frozen=True)
class DownOptions(Options):
    """Stop the stack that `up` started, and remove what crashed runs of this machine left in a Docker engine."""

    short = "Stop the stack of `up`."

    run: Annotated[
        list[str] | None,
        typer.Option(
            help="Remove everything of this run from the Docker engine, wherever it was made; repeatable.",
            show_default=False,
        ),
    ] = None

    def execute(self) -> int:
        from compose.install import ensure
        from compose.processes.container import answers, engine, others, sweep
        from harness.run import standing

        typer.echo("down" if standing.down(ensure.home(), typer.echo) else "nothing was up")
        if self.run or answers() is not None:
            client = engine("docker")
            try:
                of_runs = {run: sweep(client, run) for run in (*(self.run or ()), None)}
                remaining = others(client)
            finally:
                client.close()
            for run, names in of_runs.items():
                if run and not names:
                    warn(f"--run {run}: the Docker engine has nothing of this run")
            if removed := [name for names in of_runs.values() for name in names]:
                typer.echo(f"removed from the Docker engine: {', '.join(removed)}")
            if remaining:
                each = ", ".join(f"{number} of run {run}" for run, number in remaining.items())
                typer.echo(
                    f"left in the Docker engine, because another machine, an earlier start of this one or an older release made it: {each}; "
                    f"remove a run that has ended by `{command()} down --run RUN`"
                )
        return 0
