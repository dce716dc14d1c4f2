"""The Iceberg releases that writers can run, each with a Spark version that it supports.

    installation = releases.ensure(releases.find("1.10.1"))

A run's drivers, executors, Spark master and workers then use that release; the REST catalog server, PostgreSQL and
MinIO stay the same. What a release needs beyond the default is downloaded at its first use: its jars (a configuration
of ``jars.lock``) and, if it needs another Spark, an environment with only that pyspark (``pyspark-<version>.lock``),
in which only the writers run (``harness.writers.session`` imports nothing else).
"""

import hashlib
import platform
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from compose.install import bootstrap, jars
from compose.install import ensure as install
from compose.install.cache import SetupError, arriving, exclusive, home, sweep
from compose.install.installation import Installation
from compose.install.progress import Progress

__all__ = ["DEFAULT", "RELEASES", "Release", "UnknownRelease", "ensure", "find", "in_place"]


class UnknownRelease(ValueError):
    """The release is not in the table; the message lists the known ones."""


@dataclass(frozen=True)
class Release:
    """One row of the table.

    Attributes:
        iceberg: the release number.
        spark: the pyspark that its writers run on.
        scala: that pyspark's Scala, as in the runtime jar's name.
        conf: its jars, a configuration of ``jars.lock``.
        newest_format: newest table format that it can write. 1.8 has version 3 without row lineage, which the catalog server refuses.
    """

    iceberg: str
    spark: str
    scala: str
    conf: str
    newest_format: int = 3

    @property
    def lock(self) -> Path | None:
        """The pins of its environment; None if it runs in icequake's own environment."""
        return None if self.spark == DEFAULT.spark else Path(__file__).with_name(f"pyspark-{self.spark}.lock")


RELEASES = (
    Release("1.12.0", "4.1.4", "2.13", "spark"),
    Release("1.11.0", "4.1.4", "2.13", "spark-1.11"),
    Release("1.10.2", "4.0.5", "2.13", "spark-1.10.2"),
    Release("1.10.1", "4.0.5", "2.13", "spark-1.10.1"),
    Release("1.10.0", "4.0.5", "2.13", "spark-1.10.0"),
    Release("1.9.2", "3.5.9", "2.12", "spark-1.9.2"),
    Release("1.8.1", "3.5.9", "2.12", "spark-1.8.1", newest_format=2),
)
DEFAULT = RELEASES[0]


def find(iceberg: str | None) -> Release:
    """The release with that number; the default one for None. Raises UnknownRelease."""
    if iceberg is None:
        return DEFAULT
    for release in RELEASES:
        if release.iceberg == iceberg:
            return release
    raise UnknownRelease(f"no Iceberg release {iceberg!r}; allowed: {', '.join(r.iceberg for r in RELEASES)}")


def ensure(release: Release, *, progress: Progress | None = None) -> Installation:
    """``install.ensure`` for writers of a release: their jars are ``jars["spark"]``, their Spark is ``spark_home``.

    Its first use takes one or two minutes: it fetches about 110 MB of jars, plus 320 to 430 MB if it needs another Spark.
    Raises SetupError.
    """
    if release == DEFAULT:
        return install.ensure(progress=progress)
    ready = install.ensure(confs=(release.conf,), progress=progress)
    python, spark_home = ready.python, ready.spark_home
    if release.lock is not None:
        python = environment(ready.home, release.lock)
        spark_home = spark_of(python)
    ready = replace(ready, jars={**ready.jars, "spark": ready.jars[release.conf]}, python=python, spark_home=spark_home)
    return ready


def in_place(release: Release) -> bool:
    """Whether its jars and its environment are installed, so that a run downloads nothing."""
    there = all(jars.in_place(jar, home()) for jar in jars.of([release.conf], jars.read_lock()))
    return there and (release.lock is None or _python(environment_path(home(), release.lock)).exists())


def environment_path(place: Path, lock: Path) -> Path:
    """The environment for these pins under this interpreter; both determine its name."""
    key = hashlib.sha256(lock.read_bytes())
    key.update(repr((sys.version_info[:2], sys.implementation.name, sys.platform, platform.machine())).encode())
    return place / f"{lock.stem}-{key.hexdigest()[:12]}"


def environment(place: Path, lock: Path) -> Path:
    """The Python of the environment for ``lock``, which is made if it is missing. Raises SetupError.

    It is made under a temporary name and renamed when complete. Its interpreter works under any name; its console
    scripts do not, but they are not used.
    """
    final = environment_path(place, lock)
    if _python(final).exists():  # exists() follows the link: False if the base interpreter was removed
        return _python(final)
    with exclusive(place / "install.lock"):
        if _python(final).exists():
            return _python(final)
        sweep(place)
        shutil.rmtree(final, ignore_errors=True)
        with arriving(final) as scratch:
            try:
                bootstrap.create(scratch)
                bootstrap.install(_python(scratch), lock)
            except bootstrap.BootstrapError as error:
                raise SetupError(str(error)) from error
    return _python(final)


def spark_of(python: Path) -> Path:
    """The Spark inside the pyspark of an environment."""
    for package in sorted(python.parent.parent.glob("lib/python*/site-packages/pyspark")):
        return package
    raise SetupError(f"no pyspark in {python.parent.parent}; remove that folder and run the same command again")


def _python(environment: Path) -> Path:
    return environment / "bin" / "python"
