"""Flink for writers of that engine: its jars out of a package of PyPI, Iceberg's runtime for it, and icequake's own Java classes.

    found = flink.ensure(home())
    [found.java, "-cp", found.class_path, flink.MAIN]

No run needs it except one with Flink writers, so it is installed at the first use. Flink publishes its jars as the source archive of a
package, which pip fetches and compares with ``flink.lock``; only the jars named there are kept. Hadoop's client, which Iceberg's catalogs
for Flink load, comes from pyspark.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from compose.install import ensure as install
from compose.install import jars, jdk
from compose.install.bootstrap import pip_environment
from compose.install.cache import SetupError, arriving, exclusive, sweep
from compose.install.installation import spark_home
from compose.install.progress import Progress, for_stream, sizes

FLINK_LOCK = Path(__file__).with_name("flink.lock")
JAR_CONF = "flink"
"""Its configuration of ``jars.lock``."""
FLINK_SOURCES = install.JAVA / "flink"
MAIN_CLASS = "FlinkWorker"
FROM_PYSPARK = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "jcl-over-slf4j-*.jar")
_POLL_S = 0.3


@dataclass(frozen=True)
class Member:
    """A file of the lock; ``size`` is in bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Lock:
    """``flink.lock``: the package, which is a source archive, and the jars in it that are kept."""

    package: str
    version: str
    archive: Member
    jars: tuple[Member, ...]

    def folder(self, home: Path) -> Path:
        """Where its jars are kept; named after what they are."""
        key = hashlib.sha256("\n".join(m.sha256 for m in (self.archive, *self.jars)).encode())
        return home / f"flink-{self.version}-{key.hexdigest()[:12]}"


@dataclass(frozen=True)
class FlinkInstall:
    """An installed Flink: its class path, the java that runs it, its version and Iceberg's."""

    java: Path
    class_path: str
    version: str
    iceberg: str


def read_lock(path: Path = FLINK_LOCK) -> Lock:
    """Parse the lock. Raises SetupError."""
    found: list[Member] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+)\s+(\d+)\s+([0-9a-f]{64})", line.strip())
        if not match:
            raise SetupError(f"{path}:{number}: expected 'name bytes sha256'")
        found.append(Member(match[1], int(match[2]), match[3]))
    package, pinned, version = found[0].name.partition("==") if found else ("", "", "")
    if not pinned or len(found) < 2:
        raise SetupError(f"{path}: expected a line 'package==version bytes sha256', then lines of jars")
    return Lock(package, version, found[0], tuple(found[1:]))


def in_place(home: Path) -> bool:
    """Whether its jars and Iceberg's are installed, so that a run downloads nothing."""
    present = all(jars.in_place(jar, home) for jar in jars.of([JAR_CONF], jars.read_lock()))
    return present and read_lock().folder(home).is_dir()


def ensure(place: Path, *, progress: Progress | None = None) -> FlinkInstall:
    """Install what is missing in the cache folder and return it. Raises SetupError.

    The first call downloads 350 MB and keeps 250 MB of them; it takes about a minute. Later calls cost some file look-ups.
    """
    kit, spark, lock, iceberg = jdk.pick(), spark_home(), read_lock(), jars.of([JAR_CONF], jars.read_lock())
    folder = lock.folder(place)
    libraries = [*(folder / jar.name for jar in lock.jars), *(jar.path(place) for jar in iceberg)]
    for pattern in FROM_PYSPARK:
        libraries += sorted((spark / "jars").glob(pattern))
    classes = install.classes_folder(place, "flink-classes", FLINK_SOURCES, libraries)
    if not (in_place(place) and classes.is_dir()):
        progress = progress or for_stream()
        with exclusive(place / "install.lock"):
            sweep(place)
            jars.provide(iceberg, place, jars.Ivy(kit.java, spark, place), progress)
            if not folder.is_dir():
                _fetch(lock, folder, progress)
            install.compile_folder(FLINK_SOURCES, kit.javac, libraries, classes)
    return FlinkInstall(kit.java, os.pathsep.join(map(str, (classes, *libraries))), lock.version, runtime().version)


def runtime() -> jars.Jar:
    """Iceberg's runtime for it."""
    return next(j for j in jars.of([JAR_CONF], jars.read_lock()) if j.artifact.startswith("iceberg-flink-runtime"))


def damaged(place: Path) -> list[Path]:
    """The kept jars, and Iceberg's, that are missing or are not those of the locks. It reads all of them: 310 MB."""
    lock = read_lock()
    expected = [(lock.folder(place) / jar.name, jar.sha256) for jar in lock.jars]
    expected += [(jar.path(place), jar.sha256) for jar in jars.of([JAR_CONF], jars.read_lock())]
    return [path for path, digest in expected if not path.is_file() or jars.sha256(path) != digest]


def _fetch(lock: Lock, folder: Path, progress: Progress) -> None:
    """Download the archive with pip, which compares its hash, and keep the jars. Raises SetupError."""
    with arriving(folder) as kept, tempfile.TemporaryDirectory(prefix=".arriving-", dir=folder.parent) as scratch:
        with progress.step(f"Flink {lock.version}", lock.archive.size, "bytes") as step:
            pins, log = Path(scratch, "pins"), Path(scratch, "pip.log")
            pins.write_text(f"{lock.package}=={lock.version} --hash=sha256:{lock.archive.sha256}\n")
            command = [
                *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--quiet"),
                *("--no-binary", ":all:", "--no-build-isolation", "--require-hashes", "--no-cache-dir"),
                *("--dest", scratch, "--requirement", str(pins)),
            ]
            with log.open("w") as output:
                process = subprocess.Popen(
                    command, stdout=output, stderr=output, env={**pip_environment(), "TMPDIR": scratch}
                )
                try:
                    while process.poll() is None:
                        step.move_to(min(max(sizes(scratch, ".tar.gz"), default=0), lock.archive.size))
                        try:
                            process.wait(_POLL_S)
                        except subprocess.TimeoutExpired:
                            continue
                finally:
                    process.kill()
                    process.wait()
            if process.returncode != 0:
                raise SetupError(_reason(lock, log.read_text(errors="replace")))
            archives = list(Path(scratch).glob("*.tar.gz"))
            if len(archives) != 1:
                raise SetupError(f"{lock.package}=={lock.version} was not delivered; run the same command again")
            _unpack(archives[0], lock, kept)


def _unpack(archive: Path, lock: Lock, into: Path) -> None:
    """Copy the lock's jars out of the archive. Raises SetupError if one is missing or differs."""
    wanted = {jar.name: jar for jar in lock.jars}
    with tarfile.open(archive) as tar:
        for member in tar:
            path = Path(member.name)
            jar = wanted.get(path.name)
            source = (
                tar.extractfile(member) if jar and path.parts[1:-1] == ("deps", "lib") and member.isfile() else None
            )
            if jar is None or source is None:
                continue
            target = into / jar.name
            with source, target.open("wb") as out:
                while block := source.read(1 << 20):
                    out.write(block)
            if jars.sha256(target) != jar.sha256:
                raise SetupError(f"{jar.name} of {lock.package} is not the file that compose/install/flink.lock names")
            del wanted[jar.name]
    if wanted:
        raise SetupError(f"{lock.package}=={lock.version} lacks {', '.join(wanted)}; see compose/install/flink.lock")


def _reason(lock: Lock, text: str) -> str:
    """One line of what pip said, and what to do."""
    last = next((line for line in text.splitlines() if line.startswith("ERROR:")), "") or text.strip()[-200:]
    pinned = f"{lock.package}=={lock.version}"
    if "DO NOT MATCH" in text:
        return f"the {pinned} that pip's index serves is not the file that compose/install/flink.lock names: {last}"
    return (
        f"cannot download {pinned}, which Flink writers need: {last.removeprefix('ERROR: ')}; connect this machine to a Python "
        "package index (pip's own settings choose it), then run the same command again"
    )
