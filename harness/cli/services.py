"""Which services a run uses: those that the user supplies, containers, ports; and what a workload needs of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import BadArgument

if TYPE_CHECKING:
    from compose.external.external import External
    from harness.run.resolve import WorkloadFile
    from nemesis.faults.fault import Fault
    from workloads.file.workload import Workload


def ports_of(pairs: list[str]) -> dict[str, int]:
    from compose.stack.stack import port_names
    from workloads.file.meant import unknown

    allowed = port_names()
    ports = {}
    for pair in pairs:
        name, equals, number = pair.partition("=")
        if not equals:
            raise BadArgument(f"--port {pair}: give SERVICE=PORT; services: {', '.join(allowed)}")
        if name not in allowed:
            raise BadArgument(f"--port {pair}: {unknown('service', name, allowed)}")
        if not number.isdecimal() or not 1 <= int(number) <= 65535:
            raise BadArgument(f"--port {pair}: {number or 'nothing'} is no port; give a number from 1 to 65535")
        ports[name] = int(number)
    return ports


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


def for_containers(spec: Workload, external: External, on_host: str | None = None) -> None:
    """Raises BadArgument if a run with ``--docker`` cannot be made so, ServiceError if no Docker engine answers.

    ``on_host``: what of Spark stays on this machine.
    """
    from compose.catalogs.registry import CATALOGS
    from compose.docker import services
    from compose.docker import spark as spark_containers

    if on_host == "spark" and external.master is not None:
        raise BadArgument(
            "--on-host spark: --spark names a master of your own; --on-host drivers keeps the drivers on this machine"
        )
    if external.catalog is not None or external.store is not None:
        raise BadArgument("--docker starts object store and catalog itself: leave out --s3 and a catalog of your own")
    if (reason := services.cannot(CATALOGS[spec.catalog])) is not None:
        raise BadArgument(reason)
    faults = () if spec.nemesis is None else spec.nemesis.all()
    if any(fault.service == "database" for fault in faults):
        raise BadArgument(
            "--docker: a fault has `service: database`, and no proxy stands between a catalog and a database in containers; use drop-packets, "
            "reset-connections or lose-packets with `target: database`, which both know, leave that fault out, or run without --docker"
        )
    _keeps_disks(spec, faults)
    scratch = next((fault for fault in faults if fault.verb == "fill" and fault.target == "spark-worker"), None)
    if scratch is not None and (on_host == "spark" or external.master is not None):
        option = "--on-host spark" if external.master is None else "--spark"
        raise BadArgument(f"the fault {scratch.name} strikes containers only: leave out {option}, or the fault")
    if spec.clocks and on_host is None:
        raise BadArgument(
            "--docker: `clocks` shifts the clocks of processes: keep the drivers on this machine by --on-host drivers"
        )
    if on_host is None or (on_host == "drivers" and external.master is None):
        spark_containers.check()
    _engine_answers(faults)


def _engine_answers(faults: Sequence[Fault]) -> None:
    """Raises ServiceError if no Docker engine answers, or one without the image that faults of packets need."""
    from compose.docker import packets, services
    from compose.processes.container import engine, have
    from nemesis.faults.verb import PacketVerb

    client = engine("docker", services.SERVICES_REMEDY)
    try:
        if any(isinstance(fault.action, PacketVerb) for fault in faults):
            have(client, "network", packets.image(), services.SERVICES_REMEDY)
    finally:
        client.close()


def _keeps_disks(spec: Workload, faults: Sequence[Fault]) -> None:
    """Raises BadArgument if one fault fills a disk that another one loses."""
    from compose.catalogs.registry import CATALOGS

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


def without_containers(spec: Workload) -> None:
    """Raises BadArgument if a run without ``--docker`` has a fault that strikes containers."""
    from nemesis.faults.verb import ProcessVerb

    faults = () if spec.nemesis is None else spec.nemesis.all()
    for fault in faults:
        if isinstance(fault.action, ProcessVerb) and fault.action.contained:
            raise BadArgument(f"the fault {fault.name} strikes containers only: run with --docker, or leave it out")


def on_cluster(file: WorkloadFile, spec: Workload, external: External, ports: Iterable[str]) -> Workload:
    """The workload on a user's own Spark, if there is one, which decides its cluster. Raises BadArgument, WorkloadError.

    Args:
        ports: the services that have a port of the user's.
    """
    from compose.endpoints import cluster_of

    if external.master is not None:
        master = cluster_of(external.master)
        if spec.cluster == "local" and master != "local":
            raise BadArgument(
                f"--spark {external.master}: with cluster: local the tasks run in the drivers, and not there; give --cluster standalone, or "
                "leave --spark out"
            )
        spec = file.changed(spec.model_copy(update={"cluster": master}), f"--spark {external.master}")
    elif spec.cluster == "local" and (absent := [p for p in ports if p.startswith("spark-")]):
        raise BadArgument(f"--port {absent[0]}: cluster: local starts no {absent[0].removesuffix('-ui')}; leave it out")
    return spec
