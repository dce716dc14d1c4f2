"""The plan of a run: its ``plan.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkers.evidence.plan import FORMAT, Plan, PlannedCatalog
from compose.catalogs import user_file
from compose.catalogs.registry import CATALOGS
from compose.docker import services as containers
from compose.docker import spark
from compose.external.external import External
from compose.redaction import masked
from harness.run.context import RunContext
from harness.run.versions import versions
from workloads.engines.engines import SPARK
from workloads.file.workload import Phase, Workload


def catalog_of_plan(name: str, external: External) -> PlannedCatalog:
    """The catalog ``name``, or the user's own, as a plan describes it."""
    if external.catalog is not None:
        return PlannedCatalog(name=external.catalog.name, type=external.catalog.kind, guard=external.catalog.guard)
    if user_file.is_file(name) or name not in CATALOGS:
        return PlannedCatalog(name=name)
    entry = CATALOGS[name]
    return PlannedCatalog(name=name, summary=entry.summary, guard=entry.guard, services=entry.services)


def plan_of(run: RunContext, more: Mapping[str, Any]) -> Plan:
    """The plan of a run, without secrets; ``more``: keys in addition to those of every plan."""
    w, images = run.workload, images_of(run)
    return Plan.model_validate(
        {
            "format": FORMAT,
            "workload": w.workload,
            "description": w.description,
            "seed": run.settings.seed,
            "command": run.hide.text(run.settings.command),
            "catalog": catalog_of_plan(w.catalog, run.external).model_dump(exclude_none=True),
            "external": run.hide.value(run.external.plain),
            "catalog_properties": masked(w.catalog_properties),
            "namespace": run.namespace,
            "versions": versions(
                run.installation,
                our_servers(run) | images.keys(),
                images,
                w.engines,
                w.catalog_properties,
                [t.format for t in w.tables],
            ),
            "tables": [t.model_dump() for t in w.tables],
            "writers": w.writers,
            "engines": list(w.engines) if {*w.engines} != {SPARK} else [],
            "session": w.session,
            "cluster": w.cluster,
            "keys": w.keys.model_dump(),
            "op_timeout": w.op_timeout,
            "clocks": dict(w.clocks),
            "nemesis": w.nemesis.model_dump(mode="json", exclude_defaults=True) if w.nemesis else {},
            "phases": [_phase(w, p) for p in w.resolved_phases()],
            "expect": list(w.expect),
            "allow": list(w.allow),
            **_only_if_given(w),
            "assert": dict(w.assertions),
            **run.settings.about,
            **more,
        }
    )


def _only_if_given(w: Workload) -> dict[str, Any]:
    """The keys of a workload that few have."""
    keys = ("stop_when", "order", "seed_own_keys", "backoff", "swap_latency")
    guard = {} if w.delta_guard is None else {"guard": w.delta_guard}
    return w.model_dump(mode="json", include={*keys}, exclude_defaults=True) | guard


def _phase(w: Workload, phase: Phase) -> dict[str, Any]:
    """A phase as a plan has it: with the number of its writers."""
    return phase.model_dump(exclude_none=True) | {"writers": len(w.members(phase))}


def our_servers(run: RunContext) -> frozenset[str]:
    """The servers that the run itself starts and whose versions go into the plan."""
    servers = () if run.external.catalog else CATALOGS[run.workload.catalog].services
    return frozenset((*servers, *(() if run.external.store else ("minio",))))


def images_of(run: RunContext) -> Mapping[str, str]:
    """The images of what the run starts in containers; of Spark, which is this machine's, that of master, workers and drivers."""
    if not run.settings.docker:
        return {}
    of_cluster = run.external.master is None and run.workload.cluster == "standalone"
    inside = run.settings.contained_drivers or (run.settings.contained_spark and of_cluster)
    return {**containers.images(dict.fromkeys(our_servers(run))), **({"spark-image": spark.image()} if inside else {})}
