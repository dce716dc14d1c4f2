"""Committers: icequake's own Java classes that commit by Iceberg's client (``java/committers``), compiled at the first use.

Nothing is downloaded: Iceberg and its client of the object store are those of Spark's writers, Hadoop's client and Jackson come from pyspark.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compose.install import ensure as install
from compose.install import jars, jdk
from compose.install.cache import exclusive
from compose.install.installation import spark_home
from compose.install.progress import for_stream

COMMITTER_SOURCES = install.JAVA / "committers"
MAIN_CLASS = "CommitterServer"
JAR_CONF = "spark"
"""The configuration of ``jars.lock`` that they are compiled against."""


@dataclass(frozen=True)
class Committers:
    """The compiled classes, and the class path that follows Iceberg's jars."""

    classes: Path
    class_path: str


def _classes(place: Path) -> tuple[Path, tuple[Path, ...]]:
    libraries = install.class_path(JAR_CONF, jars.read_lock(), place)
    return install.classes_folder(place, "committer-classes", COMMITTER_SOURCES, libraries), libraries


def in_place(place: Path) -> bool:
    """Whether they are compiled."""
    return _classes(place)[0].is_dir()


def ensure(place: Path) -> Committers:
    """Compile them if that was not done yet; it takes some seconds. Raises SetupError."""
    classes, libraries = _classes(place)
    spark = spark_home() / "jars" / "*"
    if not classes.is_dir():
        with exclusive(place / "install.lock"):
            jars.provide(
                jars.of([JAR_CONF], jars.read_lock()),
                place,
                jars.Ivy(jdk.pick().java, spark_home(), place),
                for_stream(),
            )
            install.compile_folder(COMMITTER_SOURCES, jdk.pick().javac, [*libraries, spark], classes)
    return Committers(classes, str(spark))
