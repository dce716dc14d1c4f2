"""What is installed, what is missing, and the command that installs it. Nothing is downloaded or changed here."""

import importlib.metadata
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
from packaging.requirements import Requirement

from compose.install import flink, jars, jdk, minio_build, postgres_files, releases
from compose.install.cache import SetupError, home
from compose.install.engines import EXTRAS
from compose.install.ensure import CONFS

State = Literal["ok", "missing", "wrong"]

CHECKOUT = Path(__file__).parents[2]
GIB = 2**30
SETUP_SPACE = 6 * GIB  # packages 1.2, jars 0.2, the rest for a few minutes while MinIO is built
STORE_SPACE = 1 * GIB
RUN_MEMORY = 4 * GIB  # master, worker, services and three writers (760 MB each)
OPEN_FILES = 1024


@dataclass(frozen=True)
class Examined:
    """One part of the machine. ``required`` is False if a run with default settings works without it."""

    name: str
    state: State
    detail: str
    remedy: str = ""
    required: bool = True


def examine(*, store: Path = Path("store")) -> list[Examined]:
    """Examine every part. A part whose examination fails is ``wrong``; this never raises."""
    place = home()
    looks: list[tuple[str, Callable[[], Iterable[Examined]]]] = [
        ("python", python),
        ("packages", packages),
        ("jdk", java),
        ("make", make),
        ("jars", lambda: jar_configurations(place)),
        ("minio", lambda: minio(place)),
        ("postgres", postgres),
        ("engines", lambda: engines(place)),
        ("disk: cache", lambda: disk("disk: cache", place, 0 if minio_build.binary(place).exists() else SETUP_SPACE)),
        ("disk: store", lambda: disk("disk: store", store, STORE_SPACE)),
        ("memory", memory),
        ("open files", open_files),
        ("loopback", loopback),
        ("docker", docker),
    ]
    findings: list[Examined] = []
    for name, look in looks:
        try:
            findings += look()
        except Exception as error:
            findings.append(Examined(name, "wrong", f"could not be examined: {type(error).__name__}: {error}"))
    return findings


IN_IMAGE = "/opt/icequake/app/icequake"
"""The command in the image of ``compose/docker/harness``."""


def setup_command(*confs: str) -> str:
    """The command that installs the parts that every run needs, or the jars of a configuration of ``jars.lock``."""
    called, words = os.environ.get("ICEQUAKE_COMMAND", "icequake"), ["setup"]
    for conf in confs:
        release = next((r.iceberg for r in releases.RELEASES if r.conf == conf), None)
        words += [conf] if release is None else ["--iceberg", release]
    if called.startswith("docker run --rm "):  # what it downloads would go with the container
        return f"an image of your own with `RUN {IN_IMAGE} {' '.join(words)}` (docs/docker.md)"
    return " ".join([called, *words])


def python() -> Iterator[Examined]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Examined("python", "ok", f"{version} ({sys.executable})")


def _pins(lock: str) -> dict[str, str]:
    """The packages that a lock has for this machine, with their versions; a pin for another system or Python is left out."""
    pins = map(Requirement, re.findall(r"^(\w.*?) \\?$", lock, re.MULTILINE))
    return {p.name: str(p.specifier).removeprefix("==") for p in pins if p.marker is None or p.marker.evaluate()}


def packages() -> Iterator[Examined]:
    """In a checkout, compare every installed version with its pin; elsewhere, check that the three main packages are installed."""
    lock = CHECKOUT / "requirements.lock"
    pins = _pins(lock.read_text()) if lock.is_file() else {}
    differing = []
    for name in pins or ("pyspark", "pyiceberg", "pyarrow"):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            differing.append(f"{name} is missing")
            continue
        if pins and version != pins[name]:
            differing.append(f"{name} is {version}, pinned {pins[name]}")
    where = sys.prefix if sys.prefix != sys.base_prefix else f"{sys.prefix}, not a venv"
    if differing:
        yield Examined("packages", "wrong", f"{where}: {'; '.join(differing[:3])}", setup_command())
    else:
        yield Examined("packages", "ok", f"{len(pins) or 3} as pinned in {where}" if pins else where)


def java() -> Iterator[Examined]:
    try:
        kit = jdk.pick()
    except SetupError as error:
        yield Examined("jdk", "missing", str(error).split("; get one")[0], jdk.remedy())
        return
    if _runs([str(kit.java), "-version"]):
        other = jdk.ignored(kit)
        yield Examined("jdk", "ok", f"{kit.major} in {kit.home}" + (f" ({other})" if other else ""))
    else:
        yield Examined("jdk", "wrong", f"{kit.java} does not run", jdk.remedy(kit.major))


def make() -> Iterator[Examined]:
    found = shutil.which("make")
    yield Examined("make", "ok" if found else "missing", found or "only the Makefile needs it", required=False)


def jar_configurations(place: Path) -> Iterator[Examined]:
    """One finding for each configuration of the lock but those of :func:`engines`; every jar present is read and its SHA-256 compared."""
    locked = jars.read_lock()
    for conf in dict.fromkeys(conf for jar in locked for conf in jar.confs if conf != flink.JAR_CONF):
        wanted = jars.of([conf], locked)
        present = [jar for jar in wanted if jar.path(place).is_file()]
        wrong = [jar for jar in present if jars.sha256(jar.path(place)) != jar.sha256]
        size = f"{sum(jar.size for jar in wanted) / 1e6:.0f} MB"
        required = conf in CONFS
        remedy = setup_command(*(() if required else (conf,)))
        name = f"jars: {conf}"
        release = next((f"Iceberg {r.iceberg}: " for r in releases.RELEASES if r.conf == conf), "")
        if conf == releases.DEFAULT.conf:
            release = f"Iceberg {releases.DEFAULT.iceberg} on Spark {releases.DEFAULT.spark}, the default release: "
        if wrong:
            detail = f"{', '.join(jar.name for jar in wrong[:3])}: not the SHA-256 of compose/install/jars.lock"
            yield Examined(name, "wrong", release + detail, remedy, required)
        elif len(present) < len(wanted):
            detail = f"{len(wanted) - len(present)} of {len(wanted)} are missing ({size} in all)"
            yield Examined(name, "missing", release + detail, remedy, required)
        else:
            yield Examined(name, "ok", f"{release}{len(wanted)} verified ({size})", required=required)


def engines(place: Path) -> Iterator[Examined]:
    """One finding for each engine that is installed when a run first uses it; the files of one that is there are compared with its lock."""
    for name, extra in EXTRAS.items():
        remedy = f"{setup_command()} --engine {name}"
        state: State = "ok" if extra.in_place(place) else "missing"
        detail = extra.title if state == "ok" else f"{extra.title} ({extra.megabytes} MB)"
        if state == "ok" and (wrong := extra.damaged(place)):
            state, detail = "wrong", f"not the files of its lock: {', '.join(map(str, wrong[:3]))}"
            remedy = f"rm -r {' '.join(sorted({str(path.parent) for path in wrong}))} && {remedy}"
        yield Examined(f"engine: {name}", state, detail, remedy, required=False)


def minio(place: Path) -> Iterator[Examined]:
    binary = minio_build.binary(place)
    go = minio_build.go_tool()
    builder = f"with {go}" if go else "with Go from its wheel (no Go 1.24 or newer on PATH)"
    if not binary.is_file():
        yield Examined("minio", "missing", f"{minio_build.MINIO_RELEASE} would be built {builder}", setup_command())
    elif not _runs([str(binary), "--version"]):
        yield Examined("minio", "wrong", f"{binary} does not run", f"rm {binary} && {setup_command()}")
    else:
        yield Examined("minio", "ok", str(binary))
    yield Examined("go", "ok" if go else "missing", str(go) if go else "its wheel is used instead", required=False)


def postgres() -> Iterator[Examined]:
    folder = postgres_files.find()
    user = postgres_files.run_as()
    if folder is None:
        yield Examined("postgres", "missing", "no programs that this user can run", setup_command())
    elif not all(_runs([str(folder / name), "--version"], user) for name in ("postgres", "initdb")):
        yield Examined("postgres", "wrong", f"{folder}: postgres does not run", f"rm -r {folder} && {setup_command()}")
    else:
        yield Examined("postgres", "ok", f"{folder}" + (f", run as uid {user[0]}" if user else ""))


def disk(name: str, folder: Path, needed: int) -> Iterator[Examined]:
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{free / GIB:.1f} GiB free in {folder}"
    if not os.access(existing, os.W_OK):
        yield Examined(name, "wrong", f"{existing} cannot be written", "choose another with ICEQUAKE_HOME or --store")
    elif free < needed:
        yield Examined(name, "wrong", f"{detail}, needs {needed / GIB:.0f}", "free some space or choose another folder")
    else:
        yield Examined(name, "ok", detail)


def memory() -> Iterator[Examined]:
    available = psutil.virtual_memory().available
    limit, used = (_number(Path("/sys/fs/cgroup", name)) for name in ("memory.max", "memory.current"))
    if limit is not None:  # a container's own limit
        available = min(available, max(0, limit - (used or 0)))
    detail = f"{available / GIB:.1f} GiB available"
    if available < RUN_MEMORY:
        fewer = "run with fewer writers (--writers 2) or free some memory"
        yield Examined("memory", "wrong", f"{detail}, a run with three writers takes {RUN_MEMORY / GIB:.0f}", fewer)
    else:
        yield Examined("memory", "ok", detail)


def open_files() -> Iterator[Examined]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    good = soft == resource.RLIM_INFINITY or soft >= OPEN_FILES
    detail = "no limit" if soft == resource.RLIM_INFINITY else f"at most {soft} a process"
    yield Examined("open files", "ok" if good else "wrong", detail, "" if good else f"ulimit -n {4 * OPEN_FILES}")


def loopback() -> Iterator[Examined]:
    """Check that 127.0.0.1 works: every service started here listens there."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname(), timeout=2), server.accept()[0]:
                pass
    except OSError as error:
        yield Examined("loopback", "wrong", f"cannot listen and connect on 127.0.0.1: {error}", "check the firewall")
        return
    yield Examined("loopback", "ok", "127.0.0.1 listens and connects")


def docker() -> Iterator[Examined]:
    """Check the engine, because a client alone cannot run a container."""
    from docker.errors import DockerException

    from compose.processes import container

    address = container.address()
    try:
        client = container.client_of(address, timeout=3)
        try:
            version = client.version()["Version"]
        finally:
            client.close()
    except (DockerException, OSError) as error:
        reason = f"{address}: {getattr(error, 'strerror', None) or error}"
        detail = f"no engine answers ({reason}); only stacks in containers need one"
        yield Examined("docker", "missing", detail, required=False)
        return
    yield Examined("docker", "ok", f"engine {version}", required=False)


def _runs(command: list[str], user: tuple[int, int] | None = None) -> bool:
    uid, gid = user or (None, None)
    try:
        result = subprocess.run(command, user=uid, group=gid, cwd="/", capture_output=True, timeout=20)
        return result.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
