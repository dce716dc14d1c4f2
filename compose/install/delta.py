"""Delta Lake for Spark's writers: its jars, and icequake's own log store (``java/delta``), compiled at the first use."""

from __future__ import annotations

from pathlib import Path

from compose.install import ensure as install
from compose.install import jars, jdk
from compose.install.cache import exclusive
from compose.install.installation import Installation, spark_home, version_in_names

DELTA_SOURCES = install.JAVA / "delta"
CONFS = ("hadoop", "delta")
"""The configurations of ``jars.lock`` that a session with Delta tables needs on top of ``spark``."""


def paths(ready: Installation) -> tuple[Path, ...]:
    """The jars, and the folder of the log store's class; they must be installed."""
    found = tuple(dict.fromkeys(path for conf in CONFS for path in install.paths(ready, conf)))
    return (*found, _classes(ready.home))


def ensure(ready: Installation) -> None:
    """Install the jars, and compile the log store, unless that was done. Raises SetupError."""
    install.provide(ready, CONFS)
    classes = _classes(ready.home)
    if not classes.is_dir():
        with exclusive(ready.home / "install.lock"):
            libraries = [*_storage(ready.home), spark_home() / "jars" / "*"]
            install.compile_folder(DELTA_SOURCES, jdk.pick().javac, libraries, classes)


def version(ready: Installation) -> str:
    """The release of Delta Lake, as the name of its jar says it; ``unknown`` if that does not."""
    return version_in_names(r"delta-spark_[\d.]+_[\d.]+-([\w.]+)\.jar", _storage(ready.home))


def _storage(place: Path) -> tuple[Path, ...]:
    return install.class_path("delta", jars.read_lock(), place)


def _classes(place: Path) -> Path:
    return install.classes_folder(place, "delta-classes", DELTA_SOURCES, _storage(place))
