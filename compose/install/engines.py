"""What other engines than Spark need, installed when a run first uses one (``workloads.engines``): ``make run`` needs none of it.

Python packages come from a lock file with hashes into an environment of their own, as for the other Spark versions
(``compose.install.releases``); a writer's process sees them beside icequake's own packages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compose.install import committers, flink, releases
from compose.install.cache import SetupError, home


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
        damaged: its files that are not those of its lock; it reads all of them.
    """

    title: str
    megabytes: int
    install: Callable[[Path], Files]
    in_place: Callable[[Path], bool]
    damaged: Callable[[Path], Sequence[Path]] = field(default=lambda place: ())


def _packages(name: str) -> tuple[Callable[[Path], Files], Callable[[Path], bool]]:
    """How the packages of a lock file are installed, and how to see that they are."""
    lock = Path(__file__).with_name(f"engine-{name}.lock")

    def install(place: Path) -> Files:
        python = releases.environment(place, lock)
        folders = tuple(str(p) for p in sorted(python.parent.parent.glob("lib/python*/site-packages")))
        if not folders:
            raise SetupError(
                f"no packages in {python.parent.parent}; remove that folder and run the same command again"
            )
        return Files(python_path=folders)

    return install, lambda place: (releases.environment_path(place, lock) / "bin" / "python").exists()


def _flink(place: Path) -> Files:
    found = flink.ensure(place)
    return Files(plain={"java": str(found.java), "class_path": found.class_path, "main": flink.MAIN})


def _committer(place: Path) -> Files:
    found = committers.ensure(place)
    return Files(plain={"classes": str(found.classes), "class_path": found.class_path, "main": committers.MAIN})


EXTRAS: Mapping[str, Extra] = {
    "committer": Extra("Iceberg's Java client as a writer", 0, _committer, committers.in_place),
    "duckdb": Extra("DuckDB with its Iceberg extension", 51, *_packages("duckdb")),
    "flink": Extra("Flink with its Iceberg runtime", 350, _flink, flink.in_place, flink.damaged),
}
"""Name → what can be installed; an engine names it in ``Guest.needs``."""


def installed(needs: str | None) -> Files:
    """What an engine needs, installed now if it is missing.

    Raises:
        SetupError: it cannot be installed here; the message says what to type where it can.
    """
    if needs is None:
        return Files()
    extra = EXTRAS[needs]
    try:
        return extra.install(home())
    except SetupError as error:
        raise SetupError(
            f"{extra.title} is not installed: {error}; icequake setup --engine {needs} installs it"
        ) from error
