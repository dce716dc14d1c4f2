"""Stand-in images, built on this machine where the public ones cannot be pulled.

Each image is a folder of ``compose/docker/images`` with a Dockerfile, and what icequake has in its cache anyway: the MinIO that it built, the
jars of Iceberg's REST server. Only the image of Hive 4.0 has an archive that nothing else needs. The Dockerfiles start from
``debian:bookworm-slim``, or from the base that is made here by Debian's ``mmdebstrap`` out of this machine's package sources. A stand-in
understands the same variables and listens on the same port as the public image that it stands for.

An image's tag is a hash of everything that it is made of, so a second call only looks it up.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from compose.catalogs import nessie
from compose.docker import packets
from compose.install import engine, ensure, jdk
from compose.install.cache import SetupError, exclusive
from compose.install.installation import Installation, spark_home
from compose.install.progress import Progress, for_stream
from compose.processes.container import client_of

HERE = Path(__file__).with_name("images")
IMAGE_LABEL = "icequake.stand-in"
"""Label of every image that is made here; its value is the image's name."""
REPOSITORY = "icequake-stand-in"
BUILD_SECONDS = 1800
KEPT_DAYS = 2
CERTIFICATES = Path("/usr/local/share/ca-certificates")


@dataclass(frozen=True)
class StandIn:
    """One image.

    Attributes:
        name: its folder, and in most cases the service of ``compose.yaml`` for which it is.
        variable: of ``compose.yaml``, which names the service's image.
        files: (installation) → path in the build context → file on this machine.
        optional: it is left out where this machine lacks what it is made of, unless it is asked for by name.
    """

    name: str
    variable: str
    files: Callable[[Installation], Mapping[str, Path]] = lambda _: {}
    optional: bool = False


def _rest_jars(installation: Installation) -> Mapping[str, Path]:
    return {f"jars/{jar.name}": jar for jar in ensure.paths(installation, "rest")}


def _hive_files(installation: Installation) -> Mapping[str, Path]:
    """Spark's jars without those that the metastore has no use for, and icequake's classes."""
    jars = (jar for jar in sorted((spark_home() / "jars").glob("*.jar")) if not jar.name.startswith(NOT_FOR_HIVE))
    classes = sorted(installation.rest_classes.rglob("*.class"))
    own = {f"classes/{path.relative_to(installation.rest_classes)}": path for path in classes}
    return {**{f"jars/{jar.name}": jar for jar in jars}, **own}


NOT_FOR_HIVE = (
    *(
        "spark-",
        "scala-",
        "breeze",
        "spire",
        "cats-",
        "algebra",
        "rocksdbjni",
        "kubernetes-",
        "netty-",
        "arrow-",
        "parquet-",
    ),
    *(
        "orc-",
        "icu4j",
        "arpack",
        "lapack",
        "blas",
        "vertx-",
        "jersey-",
        "jackson-module-scala",
        "zstd-jni",
        "tink",
        "ivy",
    ),
)
"""How the names of jars begin that Spark has for itself."""


def _hive4_files(installation: Installation) -> Mapping[str, Path]:
    """The metastore's archive, what it leaves to an installed Hadoop (``lib``), S3A (``tools``), and a class that neither has."""
    needed = ("hive4", "hadoop")
    ensure.provide(installation, needed)
    archive, *others = ensure.paths(installation, "hive4")
    installed = spark_home() / "jars"
    lib = [*others, *(jar for jar in sorted(installed.glob("*.jar")) if jar.name.startswith(FOR_HIVE4))]
    bundle = [jar for jar in installation.jars["spark"] if jar.name.startswith("iceberg-aws-bundle-")]
    tools = [*bundle, *ensure.paths(installation, "hadoop")]
    classes = ensure.classes_folder(installation.home, "hive4-classes", HIVE4_JAVA, ())
    ensure.compile_folder(HIVE4_JAVA, jdk.pick().javac, (), classes)
    return {
        "metastore.tar.gz": archive,
        **{f"lib/{jar.name}": jar for jar in lib},
        **{f"tools/{jar.name}": jar for jar in tools},
        **{f"classes/{path.relative_to(classes)}": path for path in sorted(classes.rglob("*.class"))},
    }


FOR_HIVE4 = ("hadoop-client-", "httpclient-", "gson-", "commons-io-", "javax.servlet-api-")
"""How the names of Spark's jars begin that the archive of the Hive Metastore 4.0 lacks."""
HIVE4_JAVA = ensure.JAVA / "hive4"


def _nessie_files(installation: Installation) -> Mapping[str, Path]:
    """Nessie's jar, and the Java of this machine on which it runs: Debian 12 has none that is new enough."""
    needed = ("nessie",)
    ensure.provide(installation, needed)
    runtime = _java(jdk.pick(nessie.JAVA, purpose="Nessie").home)
    return {"nessie.jar": ensure.paths(installation, "nessie")[0], **runtime}


def _spark_files(installation: Installation) -> Mapping[str, Path]:
    """Spark, and this machine's Java: a run's class-data archive (:mod:`compose.servers.classdata`) fits no other one."""
    home = spark_home()
    parts = [path for part in ("bin", "sbin", "jars") for path in sorted((home / part).rglob("*")) if path.is_file()]
    return {f"spark/{path.relative_to(home)}": path for path in parts} | _java(installation.java.resolve().parents[1])


def _java(home: Path) -> dict[str, Path]:
    """The files of a Java that programs need at run time, in the folder ``java`` of a build context."""
    home = home.resolve()
    without = ("jmods", "include", "man", "demo", "lib/src.zip", "lib/ct.sym")
    kept = {str(path.relative_to(home)): path for path in sorted(home.rglob("*")) if path.is_file()}
    return {f"java/{name}": path for name, path in kept.items() if not name.startswith(without)}


STAND_INS = (
    StandIn("postgres", "ICEQUAKE_POSTGRES_IMAGE"),
    StandIn("minio", "ICEQUAKE_MINIO_IMAGE", lambda installation: {"minio": installation.minio}),
    StandIn("rest", "ICEQUAKE_REST_IMAGE", _rest_jars),
    StandIn("hive", "ICEQUAKE_HIVE_IMAGE", _hive_files),
    StandIn("hive4", "ICEQUAKE_HIVE4_IMAGE", _hive4_files, optional=True),
    StandIn("nessie", "ICEQUAKE_NESSIE_IMAGE", _nessie_files, optional=True),
    StandIn("spark", "ICEQUAKE_SPARK_IMAGE", _spark_files),
    StandIn("python", "ICEQUAKE_PYTHON_IMAGE"),
    StandIn("network", packets.VARIABLE),
)


def build(
    address: str, installation: Installation, *, progress: Progress | None = None, names: tuple[str, ...] = ()
) -> dict[str, str]:
    """Build the missing images; older versions of them are removed.

    Args:
        address: of the engine.
        names: of the wanted ones; empty: all.

    Returns:
        The variables of ``compose.yaml`` → the images.

    Raises:
        SetupError: one line.
    """
    from docker.errors import DockerException

    progress = progress or for_stream()
    try:
        client = client_of(address, BUILD_SECONDS)
    except (DockerException, OSError) as e:
        raise SetupError(f"no Docker engine answers at {address}: {e}") from e
    try:
        with exclusive(engine.folder(installation.home) / "images.lock"):
            base = _base(client, installation, progress)
            made = {}
            for stand_in in STAND_INS:
                if names and stand_in.name not in names:
                    continue
                try:
                    files = stand_in.files(installation)
                except SetupError as e:
                    if stand_in.optional and not names:
                        print(f"icequake: no stand-in image {stand_in.name}: {e}", file=sys.stderr)
                        continue
                    raise
                made[stand_in.variable] = _image(client, stand_in, files, base, progress)
            return made
    except (DockerException, OSError) as e:
        raise SetupError(f"the stand-in images cannot be built: {_reason(e)}") from e
    finally:
        client.close()


def _reason(error: BaseException) -> str:
    """The last line of what the engine said."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


def _base(client: Any, installation: Installation, progress: Progress) -> str:
    """The image from which the others start, made if it is missing."""
    sources, script = engine.host_sources(), HERE / "base.sh"
    release = _release()
    parts = [sources.read_bytes(), script.read_bytes(), release.encode()]
    if CERTIFICATES.is_dir():
        parts += [file.read_bytes() for file in sorted(CERTIFICATES.rglob("*.crt"))]
    tag = f"{REPOSITORY}/base:{_hash(parts)}"
    if _has(client, tag):
        return tag
    engine.provide(installation.home, progress)  # it brings mmdebstrap, also where another engine runs
    with progress.step("base of the stand-in images", None):
        command = [str(script), str(sources), str(CERTIFICATES), release]
        try:
            made = subprocess.run(
                command, env=engine.environment(installation.home), capture_output=True, timeout=BUILD_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as e:
            raise SetupError(f"the base of the stand-in images cannot be made: {e}") from e
        if made.returncode != 0:
            lines = made.stderr.decode("utf-8", "replace").strip().splitlines()
            raise SetupError(
                f"the base of the stand-in images cannot be made: {lines[-1] if lines else 'no reason given'}"
            )
        bundle = "/etc/ssl/certs/ca-certificates.crt"
        changes = [
            f"LABEL {IMAGE_LABEL}=base",
            f"ENV PIP_CERT={bundle} SSL_CERT_FILE={bundle} LANG=C.UTF-8",
            'CMD ["/bin/bash"]',
        ]
        repository, _, version = tag.rpartition(":")
        client.api.import_image_from_data(made.stdout, repository, version, changes=changes)
    _forget(client, "base", tag)
    return tag


def _image(client: Any, stand_in: StandIn, extra: Mapping[str, Path], base: str, progress: Progress) -> str:
    """One image, built if it is missing. ``extra``: what its context has besides the files of its folder."""
    from docker.errors import BuildError

    own = {file.name: file for file in sorted((HERE / stand_in.name).iterdir())}
    files = {**own, **extra}
    absent = next((file for file in files.values() if not file.is_file()), None)
    if absent is not None:
        raise SetupError(f"the image {stand_in.name} needs {absent}, which is missing: icequake setup")
    # The folder of the checkout must not matter. A jar's name and a program's name have their versions; their content was verified when they
    # came. icequake's classes lie in a folder that is named by a hash of them.
    parts = [
        base.encode(),
        *(name.encode() + b"\n" + file.read_bytes() for name, file in own.items()),
        *(f"{name}={file}".encode() for name, file in sorted(files.items()) if name not in own),
    ]
    tag = f"{REPOSITORY}/{stand_in.name}:{_hash(parts)}"
    if _has(client, tag):
        return tag
    with progress.step(f"stand-in image {stand_in.name}", None), tempfile.TemporaryFile() as context:
        _context(files, context)
        try:
            client.images.build(
                fileobj=context,
                custom_context=True,
                tag=tag,
                buildargs={"BASE": base},
                labels={IMAGE_LABEL: stand_in.name},
                rm=True,
                forcerm=True,
                timeout=BUILD_SECONDS,
            )
        except BuildError as e:
            lines = [str(part.get("stream", "")).strip() for part in e.build_log]
            last = next((line for line in reversed(lines) if line), "")
            raise SetupError(
                f"the image {stand_in.name} cannot be built: {_reason(e)}; its last line: {last[:300]}"
            ) from e
    _forget(client, stand_in.name, tag)
    return tag


def _context(files: Mapping[str, Path], into: IO[bytes]) -> None:
    """Write a build context: a tar archive."""
    with tarfile.open(fileobj=into, mode="w") as tar:
        for name, file in files.items():
            tar.add(file.resolve(), name)
    into.seek(0)


def _has(client: Any, tag: str) -> bool:
    from docker.errors import ImageNotFound

    try:
        client.images.get(tag)
    except ImageNotFound:
        return False
    return True


def _forget(client: Any, name: str, current: str) -> None:
    """Remove versions of an image that are older than KEPT_DAYS; another checkout may use a younger one."""
    from docker.errors import APIError

    limit = datetime.now(UTC) - timedelta(days=KEPT_DAYS)
    for image in client.images.list(filters={"label": f"{IMAGE_LABEL}={name}"}):
        made = datetime.fromisoformat(image.attrs["Created"][:19]).replace(tzinfo=UTC)
        for tag in image.tags:
            if tag != current and tag.startswith(f"{REPOSITORY}/{name}:") and made < limit:
                try:
                    client.images.remove(tag)
                except APIError:
                    pass  # another image or a container needs it
    client.images.prune(filters={"dangling": True, "label": f"{IMAGE_LABEL}={name}"})


def _hash(parts: list[bytes]) -> str:
    key = hashlib.sha256()
    for part in parts:
        key.update(hashlib.sha256(part).digest())
    return key.hexdigest()[:12]


def _release() -> str:
    found = re.search(r"^VERSION_CODENAME=(\S+)", Path("/etc/os-release").read_text(), re.M)
    if found is None:
        raise SetupError("/etc/os-release names no release of Debian")
    return found[1]


def variables(images: Mapping[str, str]) -> Iterator[str]:
    """The images as lines of a file for ``docker compose --env-file``."""
    for name, image in sorted(images.items()):
        yield f"{name}={image}{os.linesep}"
