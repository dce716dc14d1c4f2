"""Options and arguments that several commands take, and the checks of their values."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from compose.external.external import External
    from harness.run.resolve import WorkloadFile
    from harness.run.settings import OnHost
    from workloads.file.workload import Workload


class BadArgument(ValueError):
    """An invalid argument that Typer itself cannot detect."""


INTERRUPTED = 130
"""The exit code that Typer returns in place of a KeyboardInterrupt."""

TyperError = cast("type[Exception]", typer.BadParameter.__mro__[2])
"""Click's ClickException, which newer Typers carry inside and do not export."""


IcebergOption = Annotated[
    str | None,
    typer.Option(
        "--iceberg",
        help="Iceberg of the writers: a release (`list versions`), or the path of a runtime jar that you built; default: the newest release.",
    ),
]


WritersOption = Annotated[
    str | None,
    typer.Option(
        "--writers",
        help="Number of writers, or how many of each engine: 4, spark=3,duckdb=1 (`list engines`); overrides the file.",
    ),
]


FaultsOption = Annotated[
    str | None,
    typer.Option(
        "--faults", help="The faults of these packages (`list packages`) in place of the file's: lost-acks,crashes."
    ),
]


OperationsOption = Annotated[
    str | None,
    typer.Option("--operations", help="Only these kinds of operations of the file: insert,delete."),
]


SessionOption = Annotated[
    str | None,
    typer.Option(
        "--session", help="Settings of Spark's sessions: 'spark', as users have them, or 'fast' (docs/commands.md)."
    ),
]


ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Where Spark's tasks run: 'standalone', in executors of a cluster, or 'local', in the writers' drivers (docs/commands.md).",
    ),
]


StoreOption = Annotated[Path, typer.Option("--store", help="Folder of all runs.", show_default=True)]
STORE = Path("store")
"""The default of ``--store``: a folder of the one in which the command is typed."""


class Command(TyperCommand):
    """A command whose options hold absolute paths: a container, a later command and a process in another folder need them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        left = super().parse_args(ctx, args)
        for param in self.params:
            if param.param_type_name == "option" and param.name in ctx.params:
                ctx.params[param.name] = absolute(ctx.params[param.name])
        return left


def absolute(value: Any) -> Any:
    """The value of an option, in which paths, also those of a list, are absolute."""
    if isinstance(value, list):
        return [absolute(one) for one in value]
    return Path(os.path.abspath(value)) if isinstance(value, Path) else value


def store_words(store: Path) -> list[str]:
    """The option that names a store in a command that is printed; none for the default."""
    return [] if store == absolute(STORE) else ["--store", str(store)]


WITHOUT_END = 10_000
"""Width in columns where output is not a terminal, such as a log; nothing is cut there."""


def command() -> str:
    """How this program was called; used in the commands that it prints."""
    return os.environ.get("ICEQUAKE_COMMAND", "icequake")


def anywhere() -> str:
    """How this program can be called from any folder: by its name if it is on the PATH, else by its absolute path."""
    program = command()
    return os.path.abspath(program) if os.sep in program else program


def path_anywhere(name: str) -> str:
    """The absolute path of the file that ``name`` means; a name that is no file's stays."""
    return os.path.abspath(name) if Path(name).is_file() else name


def help_command(commands: Iterable[str]) -> str:
    """The command that shows the help of the one of ``commands`` that was typed; of the whole program if there is none."""
    typed = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    return f"{command()} {typed} --help" if typed in commands else f"{command()} --help"


def warn(line: str) -> None:
    """Print one line about input that is used nevertheless."""
    typer.echo(f"icequake: warning: {line}", err=True)


def ports_of(pairs: list[str]) -> dict[str, int]:
    from compose.stack.stack import port_names

    allowed = port_names()
    ports = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        if name not in allowed or not number.isdecimal() or not 1 <= int(number) <= 65535:
            raise BadArgument(f"--port {pair}: give SERVICE=PORT; services: {', '.join(allowed)}")
        ports[name] = int(number)
    return ports


def release_of(iceberg: str | None, workload: Any = None) -> Any:
    from compose.install import own_jar, releases
    from harness.run.versions import cannot_commit, cannot_run

    try:
        release = releases.find(iceberg)
    except (releases.UnknownRelease, own_jar.OwnJarError) as e:
        raise BadArgument(f"--iceberg: {e}") from None
    reason = None if workload is None else cannot_run(release, workload)
    if reason is not None:
        raise BadArgument(f"--iceberg {release.label}: {reason}")
    if workload is not None and (reason := cannot_commit(workload)) is not None:
        raise BadArgument(f"--catalog {workload.catalog}: {reason}")
    return release


def say_own_jar(release: Any, say: Callable[[str], object]) -> None:
    """Say what a user's runtime jar is, and which other jars the writers get beside it; nothing for a release."""
    own = release.own
    if own is None:
        return
    built = f", commit {own.commit[:12]}" if own.commit else ""
    built += f" (after {own.tag})" if own.tag else ""
    say(f"Iceberg {own.iceberg}{built}: {own.path}, sha256 {own.sha256}")
    say(
        f"  on Spark {release.spark}, Scala {release.scala}; beside it iceberg-aws-bundle of {release.beside}; "
        "the catalog's server keeps its own Iceberg"
    )


def known_catalog(name: str, *, own_file: bool = True) -> str:
    from compose.catalogs import user_file
    from compose.catalogs.registry import CATALOGS
    from workloads.file.meant import suggest

    if own_file and user_file.is_file(name):
        user_file.load(Path(name))
        return name
    if name not in CATALOGS:
        allowed = ", ".join(CATALOGS) + (", or a file of your own, my.yaml" if own_file else "")
        raise BadArgument(f"--catalog {name}: unknown{suggest(name, CATALOGS)}; allowed: {allowed}")
    return name


def known_engines(names: Iterable[str]) -> list[str]:
    """The names that ``--engine`` gives. Raises BadArgument if there is no such engine."""
    from workloads.engines.engines import ENGINES
    from workloads.file.meant import unknown

    found = list(names)
    for name in found:
        if name not in ENGINES:
            raise BadArgument(f"--engine {name}: {unknown('engine', name, ENGINES)}")
    return found


def reachable(engines: Iterable[str], catalog: str) -> None:
    """Raises BadArgument if one of these engines cannot write to the catalog."""
    from harness.run.reach import unreachable

    if (reason := unreachable(engines, catalog)) is not None:
        raise BadArgument(f"writers: {reason}")


def user_services(catalog: str, s3: str | None, spark: str | None, *, docker: bool = False) -> Any:
    """The user-supplied services of a run; each of them has answered. ``docker``: the others run in containers."""
    from compose.catalogs import user_file
    from compose.catalogs.registry import CATALOGS
    from compose.external.external import ExternalError, external
    from compose.external.preflight import preflight

    try:
        found = external(user_file.load(Path(catalog)) if user_file.is_file(catalog) else None, s3, spark)
    except ExternalError as e:
        raise BadArgument(str(e)) from None
    preflight(found)
    if found.catalog is None and not docker:
        CATALOGS[catalog].check()
    return found


def on_host_of(text: str | None, external: External, *, docker: bool) -> OnHost | None:
    """What of Spark runs as processes of this machine in a run with ``--docker``. Raises BadArgument."""
    from harness.run.settings import OnHost
    from workloads.file.meant import unknown

    if text is None:
        return None
    allowed = get_args(OnHost)
    if text not in allowed:
        raise BadArgument(f"--on-host {text}: {unknown('value', text, allowed)}")
    if not docker:
        raise BadArgument(
            f"--on-host {text}: without --docker all of Spark runs on this machine; add --docker, or leave it out"
        )
    if text == "spark" and external.master is not None:
        raise BadArgument(
            "--on-host spark: --spark names a master of your own; --on-host drivers keeps the drivers on this machine"
        )
    return cast("OnHost", text)


def for_containers(spec: Workload, external: External, on_host: OnHost | None = None) -> None:
    """Raises BadArgument if a run with ``--docker`` cannot be made so, ServiceError if no Docker engine answers.

    ``on_host``: what of Spark stays on this machine.
    """
    from compose.catalogs.registry import CATALOGS
    from compose.docker import packets, services
    from compose.docker import spark as spark_containers
    from compose.processes.container import engine, have
    from nemesis.faults.verb import PacketVerb

    if external.catalog is not None or external.store is not None:
        raise BadArgument("--docker starts object store and catalog itself: leave out --s3 and a catalog of your own")
    if (reason := services.cannot(CATALOGS[spec.catalog])) is not None:
        raise BadArgument(reason)
    if spec.nemesis is not None and any(fault.service == "database" for fault in spec.nemesis.all()):
        raise BadArgument(
            "--docker: a fault has `service: database`, and no proxy stands between a catalog and a database in containers; use drop-packets, "
            "reset-connections or lose-packets with `target: database`, which both know, leave that fault out, or run without --docker"
        )
    faults = () if spec.nemesis is None else spec.nemesis.all()
    of_its_own = any(server.name != "postgres" for server in CATALOGS[spec.catalog].servers)
    for target in ("store", "database"):
        # A catalog without a server of its own is its database.
        struck = {target} if target == "store" or of_its_own else {target, "catalog"}
        lost = sorted({f.verb for f in faults if f.target in struck and f.verb in ("kill", "stop", "restart")})
        if lost and any(fault.verb == "fill" and fault.target == target for fault in faults):
            raise BadArgument(
                f"--docker: a disk that `fill` fills is in memory, and would be lost by {' and '.join(lost)} of the {target}: "
                "leave one of them out"
            )
    scratch = next((fault for fault in faults if fault.verb == "fill" and fault.target == "spark-worker"), None)
    if scratch is not None and (on_host == "spark" or external.master is not None):
        theirs = "--on-host spark" if external.master is None else "--spark"
        raise BadArgument(f"the fault {scratch.name} strikes containers only: leave out {theirs}, or the fault")
    if spec.clocks and on_host is None:
        raise BadArgument(
            "--docker: `clocks` shifts the clocks of processes: keep the drivers on this machine by --on-host drivers"
        )
    if on_host is None or (on_host == "drivers" and external.master is None):
        spark_containers.check()
    client = engine("docker", services.REMEDY)
    try:
        if any(isinstance(fault.action, PacketVerb) for fault in faults):
            have(client, "network", packets.image(), services.REMEDY)
    finally:
        client.close()


def without_containers(spec: Workload) -> None:
    """Raises BadArgument if a run without ``--docker`` has a fault that strikes containers."""
    from nemesis.faults.verb import ProcessVerb

    faults = () if spec.nemesis is None else spec.nemesis.all()
    for fault in faults:
        if isinstance(fault.action, ProcessVerb) and fault.action.contained:
            raise BadArgument(f"the fault {fault.name} strikes containers only: run with --docker, or leave it out")


def writers_of(text: str, now: Sequence[str]) -> tuple[str, ...]:
    """The engine of each writer as ``--writers`` gives them; a plain number keeps the one engine that the file has (``now``)."""
    from workloads.engines.engines import ENGINES
    from workloads.file.meant import unknown
    from workloads.file.workload import MOST_WRITERS

    found: list[str] = []
    given: set[str] = set()
    parts = text.split(",")
    for part in parts:
        name, equals, number = part.strip().rpartition("=")
        if not number.isdecimal() or (len(parts) > 1 and not equals):
            raise BadArgument(f"--writers {text}: give a number, or how many of each engine: spark=3,duckdb=1")
        if not equals and len({*now}) > 1:
            have = ",".join(f"{e}={now.count(e)}" for e in dict.fromkeys(now))
            raise BadArgument(f"--writers {text}: the file has several engines; say how many of each, such as {have}")
        if equals and name not in ENGINES:
            raise BadArgument(f"--writers {text}: {unknown('engine', name, ENGINES)}")
        if name in given:
            raise BadArgument(f"--writers {text}: {name} is given twice")
        given.add(name)
        found += [name if equals else now[0]] * min(int(number), MOST_WRITERS + 1)
    if not 1 <= len(found) <= MOST_WRITERS:
        raise BadArgument(f"--writers {text}: must be 1 to {MOST_WRITERS} in all")
    return tuple(found)


def fewer(phase: Any, engines: Sequence[str]) -> Any:
    """A phase with no more writers than there are, as far as it has a number of its own."""
    if isinstance(phase.writers, dict):
        left = {name: min(n, engines.count(name)) for name, n in phase.writers.items()}
        return phase.model_copy(update={"writers": {k: n for k, n in left.items() if n} or None})
    return phase.model_copy(update={"writers": min(phase.writers, len(engines))}) if phase.writers else phase


def only(workload: Any, kinds: Sequence[str]) -> dict[str, Any]:
    """The changes to a workload that leave only some of its kinds of operations.

    Raises:
        BadArgument: it has none of them, or not all.
    """
    from workloads.file.meant import unknown

    phases = workload.resolved_phases()
    have = list(dict.fromkeys(k for p in phases for k in p.operations))
    for kind in kinds:
        if kind not in have:
            raise BadArgument(f"--operations {kind}: {unknown('operation of this file', kind, have)}")

    def left(mix: Any) -> Any:
        return mix and {k: spec for k, spec in mix.items() if k in kinds}

    for p in phases:
        if not any(spec.weight for spec in left(p.operations).values()):
            raise BadArgument(f"--operations {','.join(kinds)}: leaves phase {p.name} without any operation")
    changed = tuple(p.model_copy(update={"operations": left(p.operations)}) for p in workload.phases)
    return {"operations": left(workload.operations) or workload.operations, "phases": changed}


def with_packages(workload: Any, packages: Sequence[str], *, no_nemesis: bool) -> Any:
    """The workload with the faults of these packages. Raises BadArgument."""
    from nemesis.faults.packages import PACKAGES
    from workloads.file.meant import unknown
    from workloads.file.suite import AND, with_faults

    if no_nemesis:
        raise BadArgument("--faults and --no-nemesis: give one of them")
    for name in packages:
        if name not in PACKAGES:
            raise BadArgument(f"--faults {name}: {unknown('package', name, PACKAGES)}")
    return with_faults(workload, AND.join(packages))


def mode_of(session: str | None, cluster: str | None) -> dict[str, Any]:
    """What ``--session`` and ``--cluster`` give. Raises BadArgument."""
    from workloads.file.meant import unknown
    from workloads.file.mode import Cluster, Session

    found: dict[str, Any] = {}
    for name, value, allowed in (("session", session, get_args(Session)), ("cluster", cluster, get_args(Cluster))):
        if value is not None:
            if value not in allowed:
                raise BadArgument(f"--{name} {value}: {unknown('value', value, allowed)}")
            found[name] = value
    return found


def on_cluster(file: WorkloadFile, spec: Workload, external: External, ports: Iterable[str]) -> Workload:
    """The workload on a user's own Spark, if there is one, which decides its cluster. Raises BadArgument, WorkloadError.

    Args:
        ports: the services that have a port of the user's.
    """
    from compose.endpoints import cluster_of

    if external.master is not None:
        theirs = cluster_of(external.master)
        if spec.cluster == "local" and theirs != "local":
            raise BadArgument(
                f"--spark {external.master}: with cluster: local the tasks run in the drivers, and not there; give --cluster standalone, or "
                "leave --spark out"
            )
        spec = file.changed(spec.model_copy(update={"cluster": theirs}), f"--spark {external.master}")
    elif spec.cluster == "local" and (absent := [p for p in ports if p.startswith("spark-")]):
        raise BadArgument(f"--port {absent[0]}: cluster: local starts no {absent[0].removesuffix('-ui')}; leave it out")
    return spec


def overridden(
    file: Any,
    writers: str | None,
    ops: int | None,
    time: str | None,
    *,
    no_nemesis: bool,
    operations: str | None = None,
    faults: str | None = None,
    session: str | None = None,
    cluster: str | None = None,
) -> Any:
    """The workload of a file, changed by the options."""
    from nemesis.faults.lengths import seconds
    from workloads.file.workload import Length

    if ops is not None and time is not None:
        raise BadArgument("--ops and --time: give one of them")
    workload = file.workload
    if operations is not None:
        workload = workload.model_copy(update=only(workload, listed("--operations", operations)))
    if faults is not None:
        workload = with_packages(workload, listed("--faults", faults), no_nemesis=no_nemesis)
    update: dict[str, Any] = {"nemesis": None} if no_nemesis else {}
    update |= mode_of(session, cluster)
    if writers is not None:
        engines = writers_of(writers, workload.engines)
        update["engines"] = engines
        update["phases"] = tuple(fewer(p, engines) for p in workload.phases)
    if ops is not None or time is not None:
        try:
            length = Length(ops=ops) if ops is not None else Length(time=seconds(time))
        except ValueError as e:
            raise BadArgument(f"--time {time}: {e}") from None
        update |= {"length": length, "phases": ()}
    given = (
        ("--writers", writers),
        ("--operations", operations),
        ("--faults", faults),
        ("--ops", ops),
        ("--time", time),
        ("--session", session),
        ("--cluster", cluster),
    )
    options = " ".join(f"{option} {value}" for option, value in given if value is not None)
    return file.changed(workload.model_copy(update=update), options)


def write_output(path: Path, text: str) -> None:
    """Write a file that the user named, as UTF-8; a pipe or a device, too. Raises OSError, which names it."""
    from checkers.evidence.runfolder import replace_file

    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            replace_file(path.resolve(), text)  # never half of it
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(path)) from e


RunArgument = Annotated[
    Path | None,
    typer.Argument(help="A run's folder, or a `latest` link; default: the store's latest run.", show_default=False),
]


def run_in(store: Path, run: Path | None) -> Path:
    """The run that a command means: the store's latest one for None; a path that does not exist is looked for in the store, too.

    Raises:
        BadArgument: no run is named, and there is no store.
    """
    if run is None:
        if not store.is_dir():
            raise BadArgument(
                f"there is no store {store}; name a run's folder, or give the folder of the runs with --store"
            )
        return store / "latest"
    return run if run.exists() or not (store / run).exists() else store / run


def listed(option: str, text: str | None) -> list[str]:
    """The comma-separated names of an option. Raises BadArgument for an empty list or a repeated name."""
    if text is None:
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise BadArgument(f"{option} {text!r}: give names separated by commas, such as a,b")
    if twice := [n for n in dict.fromkeys(names) if names.count(n) > 1]:
        raise BadArgument(f"{option} {text}: {', '.join(twice)} is given twice")
    return names
