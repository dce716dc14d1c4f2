"""The Iceberg releases that writers can run, each with a Spark version that it supports.

    installation = releases.ensure(releases.find("1.10.1"))

A run's drivers, executors, Spark master and workers then use that release; the REST catalog server, PostgreSQL and
MinIO stay the same. What a release needs beyond the default is downloaded at its first use: its jars (a configuration
of ``jars.lock``) and, if it needs another Spark, an environment with only that pyspark (``pyspark-<version>.lock``),
in which only the writers run (``harness.writers.session`` imports nothing else).

The place of a release can be taken by a runtime jar of the user's (``find("build/…/iceberg-spark-runtime-….jar")``). It runs on the Spark
that it was built for, with the other jars of the table's nearest release of that Spark.
"""

import hashlib
import platform
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from compose.install import bootstrap, jars, own_jar
from compose.install import ensure as install
from compose.install.cache import SetupError, arriving, exclusive, home, sweep
from compose.install.installation import Installation
from compose.install.progress import Progress
from workloads.file.meant import suggest

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
        own: a runtime jar of the user's, which takes the place of the release's runtime.
    """

    iceberg: str
    spark: str
    scala: str
    conf: str
    newest_format: int = 3
    own: own_jar.RuntimeJar | None = None

    @property
    def label(self) -> str:
        """A name that no other release or jar has: the number; of a user's jar, the version and the beginning of its hash."""
        return self.own.label if self.own else self.iceberg

    @property
    def beside(self) -> str:
        """The release whose other jars, such as the AWS bundle, the writers get: of a user's jar the nearest one in the table."""
        return next(r.iceberg for r in RELEASES if r.conf == self.conf)

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
    """The release with that number, or of the user's runtime jar at that path; the default one for None.

    Raises UnknownRelease, or OwnJarError if the jar cannot be run here.
    """
    if iceberg is None:
        return DEFAULT
    if own_jar.is_path(iceberg):
        return of_jar(own_jar.read(Path(iceberg)))
    for release in RELEASES:
        if release.iceberg == iceberg:
            return release
    known = [r.iceberg for r in RELEASES]
    raise UnknownRelease(
        f"no Iceberg release {iceberg!r}{_meant(iceberg, known)}; allowed: {', '.join(known)}, or the path of a runtime jar"
    )


def _meant(iceberg: str, known: Sequence[str]) -> str:
    """The newest release of a series (``1.10``), or the nearest one of a number; of another word the one that is written alike."""
    series = next((r for r in known if r.startswith(f"{iceberg}.")), None)
    if series is None and re.fullmatch(r"\d+(\.\d+)*", iceberg):
        series = min(known, key=lambda r: _distance(iceberg, r))
    return suggest(iceberg, known) if series is None else f" (did you mean {series}?)"


def _distance(one: str, other: str) -> tuple[int, ...]:
    """How far two releases are from each other, by the first number in which they differ."""
    pairs = zip_longest(map(int, one.split(".")), map(int, other.split(".")), fillvalue=0)
    return tuple(abs(a - b) for a, b in pairs)


def of_jar(jar: own_jar.RuntimeJar) -> Release:
    """The release that a user's jar stands for: the table's newest one for the same Spark that is not newer than the jar, or the oldest one.

    A jar whose name does not say its Spark is taken for one of the default Spark; :func:`ensure` compares its content with that Spark.
    Raises OwnJarError if no Spark fits.
    """
    spark, scala = jar.spark or _minor(DEFAULT.spark), jar.scala or DEFAULT.scala
    same = [r for r in RELEASES if (_minor(r.spark), r.scala) == (spark, scala)]
    if not same:
        known = dict.fromkeys(f"{_minor(r.spark)}_{r.scala}" for r in RELEASES)
        raise own_jar.OwnJarError(
            f"{jar.path} is built for Spark {spark} with Scala {scala}; icequake has a Spark for {', '.join(known)}: "
            f"build one of these (for {next(iter(known))}: ./gradlew -DsparkVersions={_minor(DEFAULT.spark)} "
            f"-DscalaVersion={DEFAULT.scala} :iceberg-spark:iceberg-spark-runtime-{next(iter(known))}:shadowJar)"
        )
    near = next((r for r in same if _number(r.iceberg) <= _number(jar.iceberg)), same[-1])
    return replace(near, iceberg=jar.iceberg, own=jar)


def _minor(spark: str) -> str:
    return spark.rpartition(".")[0]


def _number(version: str) -> tuple[int, ...]:
    """The numbers at the beginning of a version: a pre-release (1.10.1-rc2, 1.13.0-SNAPSHOT) counts as its release."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def ensure(release: Release, *, progress: Progress | None = None) -> Installation:
    """``install.ensure`` for writers of a release: their jars are ``jars["spark"]``, their Spark is ``spark_home``.

    Its first use takes one or two minutes: it fetches about 110 MB of jars, plus 320 to 430 MB if it needs another Spark.
    Raises SetupError; OwnJarError if the user's jar needs classes that its Spark lacks.
    """
    if release == DEFAULT:
        return install.ensure(progress=progress)
    ready = install.ensure(confs=(release.conf,), progress=progress)
    python, spark_home = ready.python, ready.spark_home
    if release.lock is not None:
        python = environment(ready.home, release.lock)
        spark_home = spark_of(python)
    ready = replace(ready, jars={**ready.jars, "spark": ready.jars[release.conf]}, python=python, spark_home=spark_home)
    return ready if release.own is None else _with(release, release.own, ready)


def _with(release: Release, own: own_jar.RuntimeJar, ready: Installation) -> Installation:
    """The installation with the user's runtime jar in the place of the release's. Raises OwnJarError."""
    copy = own_jar.keep(own, _minor(release.spark), release.scala, ready.home, time.time())
    if absent := own_jar.absent_classes(copy, ready.spark_home):
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        raise own_jar.OwnJarError(
            f"{own.path} is built for another Spark: it uses {', '.join(absent[:3])}{more}, which Spark {release.spark} with Scala "
            f"{release.scala} lacks; its file name must say for which, as Iceberg's build does: "
            "iceberg-spark-runtime-<Spark>_<Scala>-<version>.jar"
        )
    runtime = f"iceberg-spark-runtime-{_minor(release.spark)}_{release.scala}-{release.beside}.jar"
    replaced = tuple(copy if path.name == runtime else path for path in ready.jars["spark"])
    if copy not in replaced:
        raise SetupError(f"the jars of {release.conf} contain no {runtime}; see compose/install/jars.lock")
    return replace(ready, jars={**ready.jars, "spark": replaced}, own_jar=own)


def in_place(release: Release) -> bool:
    """Whether its jars and its environment are installed, so that a run downloads nothing."""
    present = all(jars.in_place(jar, home()) for jar in jars.of([release.conf], jars.read_lock()))
    return present and (release.lock is None or _python(environment_path(home(), release.lock)).exists())


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
