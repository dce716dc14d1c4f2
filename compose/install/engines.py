"""What other engines than Spark need, installed when a run first uses one (``workloads.engines``): ``make run`` needs none of it.

Python packages come from a lock file with hashes into an environment of their own, as for the other Spark versions
(``compose.install.releases``); a writer's process sees them beside icequake's own packages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from compose.install import committers, flink, releases
from compose.install.cache import SetupError, home
from workloads.engines.delta_rs import RELEASES as DELTA_RS
from workloads.engines.delta_rs import needed


@dataclass(frozen=True)
class Files:
    """What is installed for one engine.

    Attributes:
        plain: what its process is told, by name (``workloads.engines.engine.Access.files``).
        python_path: folders of Python packages.
    """

    plain: Mapping[str, Any] = field(default_factory=dict)
    python_path: tuple[str, ...] = ()


@dataclass(frozen=True)
class Extra:
    """One part that can be installed.

    Attributes:
        title: what it is, for a person.
        megabytes: how much it downloads.
        install: puts it into the cache (the argument), unless it is there, and says where. Raises SetupError.
        in_place: whether it is there.
        versions: of its software, if it is installed, by their names in a run's plan.
        damaged: its files that are not those of its lock; it reads all of them.
    """

    title: str
    megabytes: int
    install: Callable[[Path], Files]
    in_place: Callable[[Path], bool]
    versions: Callable[[Path], Mapping[str, str]] = field(default=lambda place: {})
    damaged: Callable[[Path], Sequence[Path]] = field(default=lambda place: ())


DUCKDB = Path(__file__).with_name("engine-duckdb.lock")
_SITE = "lib/python*/site-packages"


def _packages(lock: Path, place: Path) -> Files:
    """The packages of a lock file, in an environment of their own."""
    python = releases.environment(place, lock)
    folders = tuple(str(p) for p in sorted(python.parent.parent.glob(_SITE)))
    if not folders:
        raise SetupError(f"no packages in {python.parent.parent}; remove that folder and run the same command again")
    return Files(python_path=folders)


def _packages_in_place(lock: Path, place: Path) -> bool:
    return (releases.environment_path(place, lock) / "bin" / "python").exists()


def _pinned(lock: Path, package: str) -> Mapping[str, str]:
    found = re.search(rf"^{package}==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    return {package: found[1]} if found else {}


def _duckdb_versions(place: Path) -> Mapping[str, str]:
    """DuckDB's release, and the commits that its extensions for table formats were built of."""
    site, found = releases.environment_path(place, DUCKDB), dict(_pinned(DUCKDB, "duckdb"))
    for name in ("iceberg", "delta"):
        built = map(_built_of, site.glob(f"{_SITE}/duckdb_extension_{name}/extensions/*/{name}.duckdb_extension"))
        found |= {f"duckdb-{name}": commit for commit in built if commit}
    return found


def _built_of(extension: Path) -> str:
    """The version that a DuckDB extension says of itself: the fifth of the eight fields before its signature, which ends the file."""
    field, signature = 32, 256
    with extension.open("rb") as f:
        f.seek(-(signature + 8 * field), os.SEEK_END)
        fields = f.read(8 * field)
    return fields[4 * field : 5 * field].rstrip(b"\0").decode("ascii", "replace")


def _flink(place: Path) -> Files:
    found = flink.ensure(place)
    return Files(plain={"java": str(found.java), "class_path": found.class_path, "main": flink.MAIN_CLASS})


def _flink_versions(place: Path) -> Mapping[str, str]:
    return {"flink": flink.read_lock().version, "flink-iceberg": flink.runtime().version}


def _committer(place: Path) -> Files:
    found = committers.ensure(place)
    return Files(plain={"classes": str(found.classes), "class_path": found.class_path, "main": committers.MAIN_CLASS})


def _delta_rs(release: str) -> Extra:
    lock = Path(__file__).with_name(f"engine-delta-rs{'' if release == DELTA_RS[0] else f'-{release}'}.lock")
    title = f"delta-rs {release}"
    installing, in_place = partial(_packages, lock), partial(_packages_in_place, lock)
    return Extra(title, 47, installing, in_place, lambda place: _pinned(lock, "deltalake"))


EXTRAS: Mapping[str, Extra] = {
    "committer": Extra("Iceberg's Java client as a writer", 0, _committer, committers.in_place),
    **{needed(release): _delta_rs(release) for release in DELTA_RS},
    "duckdb": Extra(
        "DuckDB with its extensions for Iceberg and Delta",
        77,
        partial(_packages, DUCKDB),
        partial(_packages_in_place, DUCKDB),
        _duckdb_versions,
    ),
    "flink": Extra("Flink with its Iceberg runtime", 350, _flink, flink.in_place, _flink_versions, flink.damaged),
}
"""Name → what can be installed; an engine names it in ``Guest.needs``."""


def installed(needs: str | None) -> Files:
    """What an engine needs, installed now if it is missing.

    Raises:
        SetupError: it cannot be installed here; the message says what to type where it can.
    """
    if needs is None:
        return Files()
    if needs not in EXTRAS:
        raise SetupError(f"{needs} is not known; what can be installed: {', '.join(EXTRAS)}")
    extra = EXTRAS[needs]
    try:
        return extra.install(home())
    except SetupError as error:
        raise SetupError(
            f"{extra.title} is not installed: {error}; icequake setup --engine {needs} installs it"
        ) from error
