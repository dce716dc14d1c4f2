"""Delta Lake for Spark's writers: its jars, and icequake's own log store (``java/delta``), compiled at the first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from compose.install import ensure as install
from compose.install import jars, jdk
from compose.install.cache import exclusive
from compose.install.installation import Installation, spark_home, version_in_names

DELTA_SOURCES = install.JAVA / "delta"
DELTA_CONF = "delta"
"""The configuration of ``jars.lock`` with Delta Lake's default release."""
DELTA_RELEASES: Mapping[str, str] = {
    "4.4.0": DELTA_CONF,
    **{release: f"{DELTA_CONF}-{release}" for release in ("4.3.1", "4.3.0", "4.2.0", "4.1.0")},
}
"""Release of Delta Lake, all for Spark 4.1 → its configuration; the default one first."""


def with_release(ready: Installation, release: str | None) -> Installation:
    """The installation for writers of a release of :data:`DELTA_RELEASES`; the default one for None."""
    return ready if release is None else replace(ready, delta=DELTA_RELEASES[release])


def _confs(ready: Installation) -> tuple[str, str]:
    """The configurations of ``jars.lock`` that a session with Delta tables needs on top of ``spark``."""
    return "hadoop", ready.delta or DELTA_CONF


def paths(ready: Installation) -> tuple[Path, ...]:
    """The jars, and the folder of the log store's class; they must be installed."""
    found = tuple(dict.fromkeys(path for conf in _confs(ready) for path in install.paths(ready, conf)))
    return (*found, _classes(ready))


def ensure(ready: Installation) -> None:
    """Install the jars, and compile the log store, unless that was done. Raises SetupError."""
    install.provide(ready, _confs(ready))
    classes = _classes(ready)
    if not classes.is_dir():
        with exclusive(ready.home / "install.lock"):
            libraries = [*_storage(ready), spark_home() / "jars" / "*"]
            install.compile_folder(DELTA_SOURCES, jdk.pick().javac, libraries, classes)


def version(ready: Installation) -> str:
    """The release of Delta Lake, as the name of its jar says it; ``unknown`` if that does not."""
    return version_in_names(r"delta-spark_[\d.]+_[\d.]+-([\w.]+)\.jar", _storage(ready))


def _storage(ready: Installation) -> tuple[Path, ...]:
    return install.class_path(ready.delta or DELTA_CONF, jars.read_lock(), ready.home)


def _classes(ready: Installation) -> Path:
    return install.classes_folder(ready.home, "delta-classes", DELTA_SOURCES, _storage(ready))
