"""The Iceberg releases that writers can run, each with a Spark that it was made for.

    installation = releases.ensure(releases.find("1.10.1"))

A run's drivers, executors, Spark master and workers are then of that release; the REST catalog server, PostgreSQL and
MinIO stay what they are. Everything that a release needs and the default does not have comes at its first use: its jars
(a configuration of ``jars.lock``), and, where it wants another Spark, an environment with that pyspark alone
(``pyspark-<version>.lock``), in which nothing but the writers run (``harness.writers.session`` imports nothing else).
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
    """A release that is not in the table; the message lists those that are."""


@dataclass(frozen=True)
class Release:
    """One row of the table.

    Attributes:
        iceberg: its number.
        spark: the pyspark that its writers run on.
        scala: that pyspark's Scala, as in the runtime jar's name.
        conf: its jars, a configuration of ``jars.lock``.
        newest_format: of tables that it can write. 1.8 knows version 3 without row lineage, which the catalog server refuses.
    """

    iceberg: str
    spark: str
    scala: str
    conf: str
    newest_format: int = 3

    @property
    def lock(self) -> Path | None:
        """The pins of its environment; None when it runs in the one that icequake itself runs in."""
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
    """The release of that number; the default one for None. Raises UnknownRelease."""
    if iceberg is None:
        return DEFAULT
    for release in RELEASES:
        if release.iceberg == iceberg:
            return release
    raise UnknownRelease(f"no Iceberg release {iceberg!r}; allowed: {', '.join(r.iceberg for r in RELEASES)}")


def ensure(release: Release, *, progress: Progress | None = None) -> Installation:
    """``install.ensure`` for writers of a release: their jars are ``jars["spark"]``, their Spark is ``spark_home``.

    Its first use takes one or two minutes: it fetches about 110 MB of jars, and with another Spark 320 to 430 MB more.
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
    """Whether a run with it would fetch nothing: its jars and its environment are there."""
    there = all(jars.in_place(jar, home()) for jar in jars.of([release.conf], jars.read_lock()))
    return there and (release.lock is None or _python(environment_path(home(), release.lock)).exists())


def environment_path(place: Path, lock: Path) -> Path:
    """The environment for these pins under this interpreter; its name is a function of both."""
    key = hashlib.sha256(lock.read_bytes())
    key.update(repr((sys.version_info[:2], sys.implementation.name, sys.platform, platform.machine())).encode())
    return place / f"{lock.stem}-{key.hexdigest()[:12]}"


def environment(place: Path, lock: Path) -> Path:
    """The Python of the environment for ``lock``, made first if need be. Raises SetupError.

    It is made under another name and renamed when it is whole. Its interpreter works under any name; its console
    scripts do not, and nobody uses them.
    """
    final = environment_path(place, lock)
    if _python(final).exists():  # exists() follows the link: false once the base interpreter is gone
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
