"""The plan of a run, before anything is started."""

from __future__ import annotations

from collections.abc import Mapping

from checkers.evidence.plan import FORMAT, Plan, PlannedCatalog
from compose.catalogs import user_file
from compose.catalogs.registry import CATALOGS
from compose.external.external import External
from compose.redaction import Redaction, masked
from harness.run.settings import Settings
from workloads.file.workload import Workload


def catalog_of_plan(name: str, external: External) -> PlannedCatalog:
    """What a plan says of the catalog ``name``, or of the user's own."""
    if external.catalog is not None:
        return PlannedCatalog(name=external.catalog.name)
    if user_file.is_file(name) or name not in CATALOGS:
        return PlannedCatalog(name=name)
    entry = CATALOGS[name]
    return PlannedCatalog(name=name, summary=entry.summary, guard=entry.guard, services=entry.services)


def plan_of(
    w: Workload, settings: Settings, external: External, namespace: str, versions: Mapping[str, str], hide: Redaction
) -> Plan:
    """The plan of a run of ``w``, without secrets."""
    return Plan.model_validate(
        {
            "format": FORMAT,
            "workload": w.workload,
            "description": w.description,
            "seed": settings.seed,
            "command": hide.text(settings.command),
            "catalog": catalog_of_plan(w.catalog, external).model_dump(exclude_none=True),
            "external": hide.value(external.plain),
            "catalog_properties": masked(w.catalog_properties),
            "namespace": namespace,
            "versions": dict(versions),
            "tables": [t.model_dump() for t in w.tables],
            "writers": w.writers,
            "keys": w.keys.model_dump(),
            "op_timeout": w.op_timeout,
            "clocks": dict(w.clocks),
            "nemesis": w.nemesis.model_dump(mode="json", exclude_defaults=True) if w.nemesis else {},
            "phases": [p.model_dump(exclude_none=True) for p in w.resolved_phases()],
            "expect": list(w.expect),
            "assert": dict(w.assertions),
        }
    )
