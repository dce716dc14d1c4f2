"""What a run is going to do: its ``plan.yaml``, and how many operations it will invoke."""

from __future__ import annotations

from typing import Any

from compose.catalogs.registry import CATALOGS
from compose.redaction import masked
from harness.run.context import RunContext
from harness.run.versions import versions
from workloads import generator
from workloads.file.workload import Workload


def count(workload: Workload) -> int | None:
    """Operations that the whole run will invoke; None when a phase goes by time."""
    lengths = [p.length.ops for p in workload.resolved_phases()]
    around = len(generator.seed_rows(workload)) + len(generator.final_reads(workload)) * workload.writers
    return around + sum(n for n in lengths if n is not None) if None not in lengths else None


def plan_of(run: RunContext) -> dict[str, Any]:
    """The content of ``plan.yaml``."""
    w = run.workload
    return {
        "workload": w.workload,
        "description": w.description,
        "seed": run.settings.seed,
        "command": run.hide.text(run.settings.command),
        "catalog": run.external.catalog.name if run.external.catalog else w.catalog,
        **({"external": run.hide.value(run.external.plain)} if run.external else {}),
        **({"catalog_properties": masked(w.catalog_properties)} if w.catalog_properties else {}),
        "namespace": run.namespace,
        "versions": versions(run.installation, our_servers(run)),
        "tables": [t.model_dump() for t in w.tables],
        "writers": w.writers,
        "keys": w.keys.model_dump(),
        "op_timeout": w.op_timeout,
        **({"clocks": dict(w.clocks)} if w.clocks else {}),
        **({"nemesis": w.nemesis.model_dump(mode="json", exclude_defaults=True)} if w.nemesis else {}),
        "phases": [p.model_dump(exclude_none=True) for p in w.resolved_phases()],
        "expect": list(w.expect),
        "assert": dict(w.assertions),
    }


def our_servers(run: RunContext) -> frozenset[str]:
    """Those of the servers that a plan gives the versions of that are started here."""
    servers = () if run.external.catalog else CATALOGS[run.workload.catalog].services
    return frozenset((*servers, *(() if run.external.store else ("minio",))))
