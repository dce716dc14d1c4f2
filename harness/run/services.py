"""The proxies and services of a run; the services are a new stack or the one that is up."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from compose.catalogs.delta import GUARDS
from compose.catalogs.registry import CATALOGS
from compose.endpoints import Endpoints
from compose.install import delta
from compose.processes.service import Service
from compose.stack.stack import Stack
from harness.run.context import RunContext
from harness.run.settings import StandingStack
from harness.run.writer_proxies import WriterProxies
from nemesis.proxy.board import Board
from nemesis.proxy.listener import Proxies
from workloads.engines.engines import ENGINES
from workloads.operations.kinds import KINDS


def proxies_of(run: RunContext, stack: contextlib.ExitStack) -> WriterProxies | None:
    """The proxies between the writers and the services: those of the settings, else new ones; None if the run needs none.

    A run needs them for faults. To record what the catalog did, it needs them for a catalog or a log store without guarantees, and for
    commits by the endpoint for transactions, whose answer says nothing about the table. To record who sent a commit, beside engines whose
    snapshots do not name their operation, to delay commits, and to record or decide the order of requests, it needs none before the
    object store.
    """
    nemesis, supplied = run.workload.nemesis, run.external.catalog
    guard = CATALOGS[run.workload.catalog].guard if supplied is None else supplied.guard
    phases = run.workload.resolved_phases()
    delta_guard = run.workload.delta_guard
    unguarded = "none" in (guard, delta_guard and GUARDS[delta_guard].guard)
    recorded = unguarded or any(KINDS[k].by_transaction for p in phases for k in p.operations or ())
    everything = nemesis is not None or run.settings.proxied or recorded
    ordered = run.workload.order is not None or run.settings.order is not None
    catalog_only = ordered or run.workload.swap_latency > 0 or any(not ENGINES[name].marks for name in run.engines)
    if run.settings.writer_proxies is not None or not (everything or catalog_only):
        return run.settings.writer_proxies
    board = Board(run.settings.seed)
    stack.callback(board.close)
    board.remembers = nemesis is not None and any(f.action.remembers_loads for f in nemesis.all())
    return WriterProxies(stack.enter_context(Proxies(board)), store=everything and run.settings.store_too)


def services_of(
    run: RunContext,
    stack: contextlib.ExitStack,
    data: Path,
    proxies: WriterProxies | None,
    standing: StandingStack | None,
) -> tuple[Endpoints, Mapping[str, Service]]:
    """The services' endpoints, and the services that were started here, by name.

    Raises:
        ServiceError: a service does not come up.
    """
    properties, guard = run.workload.catalog_properties, run.workload.delta_guard or ""
    if guard:
        delta.ensure(run.installation)
    if standing is not None:
        run.say(f"using {standing.way_round}" if standing.keeper else "using the stack that is up")
        return replace(standing.endpoints, catalog_properties=properties, guard=guard), standing.services
    faults = () if run.workload.nemesis is None else run.workload.nemesis.all()
    own = Stack(
        run.installation,
        run_id=run.run_id,
        data=data / "services",
        logs=run.folder.logs,
        workers=run.settings.spark_workers,
        worker_cores=max(2, run.writers),
        ports=run.settings.ports,
        on_event=run.say,
        catalog=run.workload.catalog,
        before_database=None if proxies is None or run.settings.docker else proxies.database,
        before_store=None if proxies is None else proxies.store,
        external=run.external,
        docker=run.settings.docker,
        contained_spark=run.settings.contained_spark,
        mode=run.workload.mode,
        small_disks={fault.target or "" for fault in faults if fault.verb == "fill"},
    )
    stack.callback(own.stop)
    own.start()
    return replace(own.endpoints, catalog_properties=properties, guard=guard), own.services
