"""The versions of everything that took part in a run, for its plan and its page."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from compose.catalogs import moto
from compose.catalogs.registry import CATALOGS
from compose.install.installation import Installation, spark_home
from compose.install.jars import of, read_lock
from compose.install.releases import Release
from workloads.file.workload import Workload

SERVERS = frozenset({"rest", "minio", "postgres", "hive", "nessie", "moto"})
EMBEDDED = frozenset({"rest", "minio", "postgres"})
"""Those of the stack when nothing else is said."""


def versions(installation: Installation, ours: frozenset[str] = EMBEDDED) -> dict[str, str]:
    """Name → version: icequake, spark, iceberg (the writers'), rest (the catalog server's Iceberg), java, python, minio, postgres,
    system. ``unknown`` where it does not say.

    ``ours``: those of the servers that are started here; of the others nothing is known.
    """
    jars = installation.jars
    found = {
        "icequake": _package("icequake"),
        "spark": _jar(r"spark-core_[\d.]+-([\w.]+)\.jar", (installation.spark_home / "jars").glob("spark-core_*.jar")),
        "iceberg": _jar(r"iceberg-spark-runtime-[\d.]+_[\d.]+-([\w.]+)\.jar", jars.get("spark", ())),
        "rest": _jar(r"iceberg-core-([\d.]+)\.jar", jars.get("rest", ())),
        "java": _first(r'version "([^"]+)"', [str(installation.java), "-version"]),
        "python": platform.python_version(),
        "minio": installation.minio.name.removeprefix("minio-"),
        "postgres": _first(r"(\d+[\d.]*)", [str(installation.postgres_bin / "postgres"), "--version"]),
        "hive": _jar(r"hive-metastore-([\d.]+)\.jar", (spark_home() / "jars").glob("hive-metastore-*.jar")),
        "nessie": next(j.version for j in of(["nessie"], read_lock())),
        "moto": _locked(moto.LOCK, "moto"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    return {name: version for name, version in found.items() if name in ours or name not in SERVERS}


def _jar(pattern: str, jars: Iterable[Path]) -> str:
    """The version in the name of the first jar that is called so."""
    return next((match[1] for jar in jars if (match := re.fullmatch(pattern, jar.name))), "unknown")


def _locked(lock: Path, package: str) -> str:
    """The version that a file of pins has of a package."""
    found = re.search(rf"^{package}==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else "unknown"


def cannot_run(release: Release, workload: Workload) -> str | None:
    """Why writers of a release cannot run a workload; None when they can."""
    beyond = [t.name for t in workload.tables if t.format_version > release.newest_format]
    if beyond:
        return f"it writes format version {release.newest_format} at most; the workload has a newer one in {', '.join(beyond)}"
    entry = CATALOGS.get(workload.catalog)
    if entry is not None and entry.releases and release.iceberg not in entry.releases:
        return f"the catalog {entry.name} needs jars that go with {', '.join(entry.releases)} only"
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
        return "unknown"
    match = re.search(pattern, answer.stdout + answer.stderr)
    return (match[1] if match.re.groups else match[0]) if match else "unknown"
