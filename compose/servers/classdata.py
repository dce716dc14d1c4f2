"""The class-data archive: with it, Spark's JVMs start in half the time.

A Spark driver loads some 20 000 classes before it has run its first statements. Parsing and verifying them takes most of the processor time
until then. HotSpot can map them from a file instead (JEP 310, "application class-data sharing"). Measured on two cores with JDK 17, in
seconds of processor time: driver 12 to 8, executor 6 to 4, master and worker 2.2 to 1.3. The JVMs also share the mapped memory.

One archive serves the driver, the executors, the master and the workers, so the class path of each must begin with the one that it was made
for. ``compose.setup`` makes the archive. The JVM checks that jars and options still match the archive and otherwise starts without it: an
absent or outdated archive costs time, but never causes errors.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from compose.install.installation import Installation


def spark_class_path(installation: Installation) -> str:
    """The class path of every Spark JVM, as Spark's own launcher makes it from ``extraClassPath``."""
    jars = installation.spark_home / "jars"
    return os.pathsep.join(
        [
            *map(str, installation.jars["spark"]),
            str(installation.spark_home / "conf"),
            *map(str, sorted(jars.glob("slf4j-api-*.jar"))),
            str(jars / "*"),
        ]
    )


def extended(installation: Installation, jars: Sequence[Path]) -> str:
    """What comes before Spark's own class path so that ``jars`` are in it, and the archive is still valid.

    The archive is valid if the class path begins with the one that it was made for. So what a catalog or a table format needs besides
    the jars of every session stands behind Spark's own jars. (None of these jars has a class that Spark's have.)
    """
    every = installation.jars["spark"]
    more = [str(jar) for jar in jars if jar not in every]
    return os.pathsep.join([spark_class_path(installation), *more] if more else map(str, every))


def archive(installation: Installation) -> Path:
    """The path of the archive for exactly these jars and this JDK; it need not exist."""
    key = hashlib.sha256(str(installation.java.resolve()).encode())
    release = installation.java.parent.parent / "release"
    key.update(release.read_bytes() if release.exists() else b"")
    for jar in [*installation.jars["spark"], *sorted((installation.spark_home / "jars").glob("*.jar"))]:
        if jar.exists():
            stat = jar.stat()
            key.update(f"{jar} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return installation.home / f"spark-{key.hexdigest()[:12]}.jsa"


def use(installation: Installation) -> tuple[str, ...]:
    """The options that make a Spark JVM use the archive; empty if there is none."""
    file = archive(installation)
    if not file.exists():
        return ()
    # Mapped at the address that it was made for, its pages are shared; elsewhere the JVM must rewrite, and so copy, most of them.
    return (
        "-Xshare:auto",
        f"-XX:SharedArchiveFile={file}",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:ArchiveRelocationMode=0",
    )
