"""Install everything that a run needs on this machine; later calls only look it up.

    installation = install.ensure()
    installation.jars["spark"], installation.minio, installation.postgres_bin, ...

From a machine with Python, make and a JDK: the jars of ``jars.lock`` (``compose.install.jars``), icequake's few Java classes
(``java/``: a REST catalog server) compiled against them, MinIO built from source (``compose.install.minio_build``) and the
programs of PostgreSQL (``compose.install.postgres_files``). All of it is below ``home()`` and verified before it gets its final name.

``python -m compose.setup`` does this from a shell.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from compose.install import jars, jdk, minio_build, postgres_files
from compose.install.bootstrap import begin_minio
from compose.install.cache import SetupError, arriving, exclusive, home, sweep
from compose.install.installation import Installation, spark_home
from compose.install.progress import Progress, for_stream

__all__ = ["REST_MAIN", "Installation", "SetupError", "ensure", "home"]

CONFS = ("spark", "rest")
REST_MAIN = "RestCatalogServer"
JAVA = Path(__file__).with_name("java")


def ensure(*, confs: Sequence[str] = CONFS, progress: Progress | None = None) -> Installation:
    """Install the missing parts and return the paths of all. Raises SetupError.

    Costs a few file look-ups if nothing is missing. Otherwise a lock makes parallel calls wait for each other, and
    the finished parts of an interrupted call are kept.
    """
    confs = (*dict.fromkeys((*confs, "rest")),)  # the server is compiled against its jars
    place = home()
    kit = jdk.pick()
    if (other := jdk.ignored(kit)) is not None:
        print(f"icequake: warning: {other}", file=sys.stderr)
    locked = jars.read_lock()
    needed = jars.of(confs, locked)
    paths = {conf: class_path(conf, locked, place) for conf in confs}
    classes = rest_classes(place, paths["rest"])
    installation = Installation(
        home=place,
        java=kit.java,
        jars=paths,
        rest_classes=classes,
        minio=minio_build.binary(place),
        postgres_bin=postgres_files.find() or Path(),
        spark_home=spark_home(),
        python=Path(sys.executable),
    )
    if (
        all(jars.in_place(jar, place) for jar in needed)
        and classes.is_dir()
        and installation.minio.is_file()
        and installation.postgres_bin.name
    ):
        return installation

    progress = progress or for_stream()
    with exclusive(place / "install.lock"):
        for folder in (place, place / "jars", place / "bin"):
            sweep(folder)
        # It takes longest and needs no other part.
        beside = None if installation.minio.is_file() else begin_minio(place)
        jars.provide(needed, place, jars.Ivy(kit.java, installation.spark_home, place), progress)
        compile_java(kit.javac, paths["rest"], classes)
        postgres_files.provide()
        minio_build.provide(place, progress)
        if beside:
            beside.wait()
    return ensure(confs=confs, progress=progress)


def provide(ready: Installation, confs: Sequence[str], *, progress: Progress | None = None) -> None:
    """Install the jars of more configurations. Raises SetupError."""
    needed = jars.of(confs, jars.read_lock()) if confs else ()
    if not all(jars.in_place(jar, ready.home) for jar in needed):
        with exclusive(ready.home / "install.lock"):
            jars.provide(needed, ready.home, jars.Ivy(ready.java, spark_home(), ready.home), progress or for_stream())


def paths(ready: Installation, conf: str) -> tuple[Path, ...]:
    """The paths of a configuration's jars, which must be installed."""
    return class_path(conf, jars.read_lock(), ready.home)


def class_path(conf: str, locked: Iterable[jars.Jar], place: Path) -> tuple[Path, ...]:
    """A configuration's jars in the lock's order; the REST server also takes Hadoop's client from pyspark."""
    paths = [jar.path(place) for jar in jars.of([conf], locked)]
    if conf == "rest":
        paths += sorted((spark_home() / "jars").glob("hadoop-client-*.jar"))
    return tuple(paths)


def rest_classes(place: Path, libraries: Iterable[Path]) -> Path:
    """The folder of the compiled ``java/``."""
    return classes_folder(place, "classes", JAVA, libraries)


def own_classes(ready: Installation) -> Path:
    """The classes of ``java/`` as a jar, which Spark can send to executors on other machines; made at the first call."""
    final = ready.rest_classes.with_suffix(".jar")
    if not final.is_file():
        with tempfile.TemporaryDirectory(prefix=".arriving-", dir=ready.home) as scratch:
            made = Path(scratch) / final.name
            with zipfile.ZipFile(made, "w") as jar:
                for file in sorted(ready.rest_classes.rglob("*.class")):
                    jar.write(file, file.relative_to(ready.rest_classes))
            made.replace(final)
    return final


def classes_folder(place: Path, name: str, sources: Path, libraries: Iterable[Path]) -> Path:
    """The folder of the compiled ``*.java`` of a folder, named after them and the jars that they are compiled against."""
    key = hashlib.sha256()
    for source in sorted(sources.glob("*.java")):
        key.update(source.read_bytes())
    for library in libraries:
        key.update(f"{library.parent.name}/{library.name}\n".encode())
    return place / f"{name}-{key.hexdigest()[:12]}"


def compile_java(javac: Path, libraries: Sequence[Path], classes: Path) -> None:
    """Compile ``java/`` against the REST server's jars, then pyspark's (which hold Hadoop and the Hive metastore)."""
    compile_folder(JAVA, javac, [*libraries, spark_home() / "jars" / "*"], classes)


def compile_folder(folder: Path, javac: Path, libraries: Sequence[Path], classes: Path) -> None:
    """Compile the ``*.java`` of a folder, unless the classes are there. Raises SetupError."""
    if classes.is_dir():
        return
    with arriving(classes) as scratch:
        sources = [str(source) for source in sorted(folder.glob("*.java"))]
        class_path = os.pathsep.join(map(str, libraries))
        command = [str(javac), "--release", "17", "-proc:none", "-d", str(scratch), "-cp", class_path, *sources]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise SetupError(f"cannot compile {folder} with {javac}: {result.stderr.strip() or result.stdout}")
