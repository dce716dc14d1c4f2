"""An Iceberg runtime jar of the user's: a branch that somebody built, or a release candidate.

    jar = own_jar.read(Path("spark/v4.1/spark-runtime/build/libs/iceberg-spark-runtime-4.1_2.13-1.13.0-SNAPSHOT.jar"))
    jar.iceberg, jar.commit, jar.sha256

Iceberg's build puts ``iceberg-build.properties`` into the jar (the Gradle plugin ``gradle-git-properties``): the version, and the git
commit. It puts Spark's and Scala's version only into the file's name. So the content is compared with a Spark too: every class of Spark
and of Scala that the jar's Spark module names must exist there (:func:`absent_classes`). The runtime for Spark 4.0, for example, names a
class that Spark 4.1 no longer has.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from compose.install.cache import SetupError, arriving, exclusive

__all__ = ["OwnJarError", "RuntimeJar", "absent_classes", "is_path", "keep", "read"]

FOLDER = "own-jars"
"""The folder in the cache that holds copies of such jars."""
KEPT_DAYS = 7
"""A copy that no run used for longer is removed when another one arrives."""

_NAME = re.compile(r"iceberg-spark-runtime-(?P<spark>\d+\.\d+)_(?P<scala>\d+\.\d+)-(?P<version>.+)\.jar")
_BUILD = "iceberg-build.properties"
_MANIFEST = "META-INF/MANIFEST.MF"
_MODULE = "org/apache/iceberg/spark/SparkCatalog.class"
_CORE = "org/apache/iceberg/rest/RESTCatalog.class"
_BUILT = "Iceberg's build writes it to spark/v4.1/spark-runtime/build/libs/iceberg-spark-runtime-4.1_2.13-<version>.jar"


class OwnJarError(SetupError):
    """The file is no Iceberg runtime that can be run here; one line with the remedy."""


@dataclass(frozen=True)
class RuntimeJar:
    """What a runtime jar says of itself.

    Attributes:
        path: as the user gave it.
        sha256: of the file.
        iceberg: the version of Iceberg, such as ``1.13.0-SNAPSHOT``.
        commit: the git commit that it was built from; empty if the jar does not say.
        tag: the newest tag of Iceberg before that commit; empty if the jar does not say.
        spark: ``4.1``, by the file's name; None if the name does not say.
        scala: ``2.13``, in the same way.
    """

    path: Path
    sha256: str
    iceberg: str
    commit: str = ""
    tag: str = ""
    spark: str | None = None
    scala: str | None = None

    @property
    def label(self) -> str:
        """The version and the beginning of the hash: two builds of one version differ."""
        return f"{self.iceberg} (jar sha256 {self.sha256[:8]}…)"


def is_path(text: str) -> bool:
    """Whether the value of ``--iceberg`` names a file, not a release."""
    return text.endswith(".jar") or "/" in text or os.sep in text


def read(path: Path) -> RuntimeJar:
    """What the jar at ``path`` says of itself. Raises OwnJarError if there is none, or if it is no Iceberg runtime for Spark."""
    if path.is_dir():
        raise OwnJarError(f"{path} is a folder; give the jar in it: {_BUILT}")
    if not path.exists():
        raise OwnJarError(f"{path} does not exist; {_BUILT}")
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            with zipfile.ZipFile(file) as jar:
                names = set(jar.namelist())
                build = _properties(jar.read(_BUILD).decode("utf-8", "replace")) if _BUILD in names else {}
                manifest = _manifest(jar.read(_MANIFEST).decode("utf-8", "replace")) if _MANIFEST in names else {}
    except zipfile.BadZipFile:
        raise OwnJarError(f"{path} is not a jar, or it is torn (no zip directory at its end); build it again") from None
    except (OSError, RuntimeError, NotImplementedError) as e:
        raise OwnJarError(f"{path} cannot be read: {getattr(e, 'strerror', None) or e}") from None
    if _MODULE not in names:
        raise OwnJarError(
            f"{path} is no Iceberg runtime for Spark: it lacks org.apache.iceberg.spark.SparkCatalog; {_BUILT}"
        )
    if _CORE not in names:
        raise OwnJarError(
            f"{path} is Iceberg's Spark module alone, without Iceberg's core: it lacks org.apache.iceberg.rest.RESTCatalog; {_BUILT}"
        )
    name = _NAME.fullmatch(path.name)
    version = (
        build.get("git.build.version") or manifest.get("Implementation-Version") or (name["version"] if name else "")
    )
    if not re.match(r"\d+\.\d+", version):
        raise OwnJarError(
            f"{path} does not say its version: {_BUILD} in it has no git.build.version, "
            "and its name is not iceberg-spark-runtime-<Spark>_<Scala>-<version>.jar; give it that name"
        )
    return RuntimeJar(
        path=path,
        sha256=sha256,
        iceberg=version,
        commit=build.get("git.commit.id", ""),
        tag=build.get("git.closest.tag.name", ""),
        spark=name["spark"] if name else None,
        scala=name["scala"] if name else None,
    )


def keep(jar: RuntimeJar, spark: str, scala: str, home: Path, now: float) -> Path:
    """A copy of the jar in the cache ``home``, under the name that Iceberg's build gives it: a run goes on while its jar is built again.

    Args:
        now: seconds since the epoch; copies that were not used for :data:`KEPT_DAYS` days before it are removed.

    Raises OwnJarError if the file has changed since it was read.
    """
    folder = home / FOLDER / f"{jar.sha256[:16]}-{spark}_{scala}"
    final = folder / f"iceberg-spark-runtime-{spark}_{scala}-{jar.iceberg}.jar"
    with exclusive(home / "install.lock"):
        if not final.exists():
            for other in folder.parent.glob("*"):
                if now - other.stat().st_mtime > KEPT_DAYS * 86_400:
                    shutil.rmtree(other, ignore_errors=True)
            with arriving(folder) as scratch:
                _copy(jar, scratch / final.name)
        os.utime(folder, (now, now))
    return final


def _copy(jar: RuntimeJar, to: Path) -> None:
    try:
        shutil.copyfile(jar.path, to)
    except OSError as e:
        raise OwnJarError(f"{jar.path} cannot be copied into the cache: {e.strerror}") from None
    with to.open("rb") as copied:
        if hashlib.file_digest(copied, "sha256").hexdigest() != jar.sha256:
            raise OwnJarError(f"{jar.path} changed while it was read; wait until its build has ended")


def absent_classes(jar: Path, spark_home: Path) -> list[str]:
    """The classes of Spark and of Scala that the jar's Spark module names and that neither the jar nor this Spark has, by name.

    Raises OwnJarError if a class of the jar cannot be read.
    """
    present: set[str] = set()
    for library in sorted((spark_home / "jars").glob("*.jar")):
        if library.name.startswith(("spark-", "scala-")):
            with zipfile.ZipFile(library) as archive:
                present.update(archive.namelist())
    named: set[str] = set()
    with zipfile.ZipFile(jar) as archive:
        present.update(archive.namelist())
        for name in archive.namelist():
            if name.endswith(".class") and name.startswith(("org/apache/iceberg/spark/", "org/apache/spark/")):
                try:
                    named.update(_classes(archive.read(name)))
                except (IndexError, KeyError, ValueError, struct.error, zipfile.BadZipFile) as e:
                    raise OwnJarError(f"{jar}: its class {name} cannot be read: {e}; build it again") from None
    needed = (c for c in named if c.startswith(("org/apache/spark/", "scala/")))
    return sorted(c.replace("/", ".") for c in needed if f"{c}.class" not in present)


_SIZES = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5, 18: 5, 19: 3, 20: 3}
"""Bytes of each constant, its tag included (Java Virtual Machine Specification, 4.4); a text (1) says its own length."""
_TEXT, _CLASS, _WIDE = 1, 7, (5, 6)


def _classes(content: bytes) -> Iterator[str]:
    """The classes that a class file names (its constants ``CONSTANT_Class``), such as ``scala/Serializable``; of arrays, their elements."""
    if content[:4] != b"\xca\xfe\xba\xbe":
        raise ValueError("it does not begin with CAFEBABE")
    texts: dict[int, bytes] = {}
    named: list[int] = []
    (count,) = struct.unpack_from(">H", content, 8)
    offset, index = 10, 1
    while index < count:
        tag = content[offset]
        if tag == _TEXT:
            (length,) = struct.unpack_from(">H", content, offset + 1)
            texts[index] = content[offset + 3 : offset + 3 + length]
            offset += 3 + length
        else:
            if tag == _CLASS:
                named.append(struct.unpack_from(">H", content, offset + 1)[0])
            offset += _SIZES[tag]
        index += 2 if tag in _WIDE else 1
    for part in named:
        name = texts[part].decode("utf-8", "replace")
        yield name.lstrip("[").removeprefix("L").removesuffix(";") if name.startswith("[") else name


def _properties(text: str) -> Mapping[str, str]:
    """A Java properties file: ``key=value``, with ``\\:`` for ``:``. Continued lines do not occur in it."""
    lines = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith(("#", "!")))
    return {key.strip(): re.sub(r"\\(.)", r"\1", value.strip()) for key, _, value in lines}


def _manifest(text: str) -> Mapping[str, str]:
    """The main attributes of a manifest; a line that begins with a space continues the one before."""
    main = re.split(r"\r?\n\r?\n", text)[0]
    whole = re.sub(r"\r?\n ", "", main)
    lines = (line.partition(":") for line in whole.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, _, value in lines}
