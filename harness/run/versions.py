"""The versions of all software in a run, for its plan and its page."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from importlib import metadata
from types import MappingProxyType

from compose.catalogs.registry import CATALOGS, DEFAULT
from compose.install import delta
from compose.install.cache import home
from compose.install.engines import EXTRAS
from compose.install.installation import UNKNOWN_VERSION, Installation, version_in_names
from compose.install.releases import Release
from compose.servers import minio
from workloads.engines.engine import Foreign
from workloads.engines.engines import ENGINES
from workloads.file.workload import Workload
from workloads.operations.kinds import KINDS
from workloads.tables import DELTA

OBJECT_STORE = "minio"
EMBEDDED = frozenset({OBJECT_STORE, *CATALOGS[DEFAULT].services})
"""The servers of a stack on the default catalog."""


def versions(
    installation: Installation,
    own: frozenset[str] = EMBEDDED,
    images: Mapping[str, str] | None = None,
    engines: Iterable[str] = (),
    properties: Mapping[str, str] = MappingProxyType({}),
    formats: Iterable[str] = (),
) -> dict[str, str]:
    """Name → version: icequake, spark, iceberg (of the writers), java, python, system, and each server of ``own``; ``unknown`` if it
    cannot be determined. Of a user's runtime jar also ``iceberg-commit``, if the jar says it, and ``iceberg-jar``: its SHA-256.

    ``engines``: of the writers; what theirs consists of, by the names in their ``software``. ``properties``: of the catalog.
    ``formats``: of the tables; Delta's version is there, too, if a release of it was chosen, and Iceberg's version is there whatever they are.
    ``own``: names of the servers that are started here; the versions of others are not known. ``images``: of those in containers, whose
    version is the image's name.
    """
    images = images or {}
    servers = {server.name: server.version for catalog in CATALOGS.values() for server in catalog.servers}
    jars = installation.jars
    return {
        "icequake": _package("icequake"),
        "spark": version_in_names(
            r"spark-core_[\d.]+-([\w.]+)\.jar", (installation.spark_home / "jars").glob("spark-core_*.jar")
        ),
        "iceberg": version_in_names(r"iceberg-spark-runtime-[\d.]+_[\d.]+-([\w.+-]+)\.jar", jars.get("spark", ())),
        **_own_jar(installation),
        **of_engines(engines, properties),
        **({DELTA: delta.version(installation)} if DELTA in formats or installation.delta is not None else {}),
        "java": _first(r'version "([^"]+)"', [str(installation.java), "-version"]),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        **({OBJECT_STORE: minio.version(installation)} if OBJECT_STORE in own and OBJECT_STORE not in images else {}),
        **{name: version(installation) for name, version in servers.items() if name in own and name not in images},
        **{name: image for name, image in images.items() if name in own},
    }


def _own_jar(installation: Installation) -> dict[str, str]:
    own = installation.own_jar
    if own is None:
        return {}
    commit = (
        {"iceberg-commit": f"{own.commit} (newest tag before it: {own.tag})" if own.tag else own.commit}
        if own.commit
        else {}
    )
    return {**commit, "iceberg-jar": f"sha256:{own.sha256}"}


def of_engines(names: Iterable[str], properties: Mapping[str, str]) -> dict[str, str]:
    """What engines consist of, besides what every run has; ``properties``: of the catalog."""
    found: dict[str, str] = {}
    for engine in {ENGINES[n] for n in names}:
        needs = engine.needs_with(properties) if isinstance(engine, Foreign) else None
        found |= EXTRAS[needs].versions(home()) if needs is not None else {}
        found |= {name: _package(name) for name in engine.packages}
    return dict(sorted(found.items()))


def cannot_run(release: Release, workload: Workload) -> str | None:
    """Why writers of a release cannot run a workload; None when they can."""
    beyond = [t.name for t in workload.tables if t.format_version > release.newest_format]
    if beyond:
        return f"it writes format version {release.newest_format} at most; the workload uses a newer one in {', '.join(beyond)}"
    entry = CATALOGS.get(workload.catalog)
    if entry is not None and entry.releases and release.beside not in entry.releases:
        return f"the catalog {entry.name} needs jars that exist for {', '.join(entry.releases)} only"
    return None


def cannot_commit(workload: Workload) -> str | None:
    """Why operations of a workload cannot commit to its catalog; None when they can. A user's own catalog is not known here."""
    entry = CATALOGS.get(workload.catalog)
    used = {kind for phase in workload.resolved_phases() for kind in phase.operations or ()}
    by_transaction = sorted(k for k in used if KINDS[k].by_transaction)
    if entry is not None and by_transaction and not entry.rest:
        able = ", ".join(c.name for c in CATALOGS.values() if c.rest)
        return (
            f"{', '.join(by_transaction)} commit by an endpoint of REST catalogs, and {entry.name} is none; use {able}, the file of a REST "
            "catalog of yours, or the kinds without -by-transaction"
        )
    return None


def _package(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "source checkout"


def _first(pattern: str, command: list[str]) -> str:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN_VERSION
    match = re.search(pattern, answer.stdout + answer.stderr)
    return (match[1] if match.re.groups else match[0]) if match else UNKNOWN_VERSION
