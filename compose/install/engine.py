"""A Docker engine for a machine that has none: Debian's packages, unpacked in the cache and run from there.

Nothing is installed on the machine: ``apt-get`` downloads the packages with lists and a cache of their own, and ``dpkg-deb`` unpacks them.
The engine keeps its data in the cache. It listens on a socket of its own, so it does not get in the way of an engine that is installed later.
It needs Linux, root, and a Debian or a system made from it; elsewhere the message says to start an engine by other means.

The same packages bring ``mmdebstrap``, which makes the base of the stand-in images, and the plugin ``docker compose`` of Debian 13, which
runs on Debian 12 as well.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from compose.install.cache import SetupError, arriving, exclusive, home, sweep
from compose.install.progress import Progress, for_stream
from compose.processes.container import OWN_SOCKET, answers

PACKAGES = ("docker.io", "containerd", "runc", "iptables", "mmdebstrap")
PLUGIN = "docker-compose"
PLUGIN_SUITE = "trixie"
RECIPE = "1"
"""Part of the folder's name: raise it when what is unpacked changes."""
START_SECONDS, STOP_SECONDS, APT_SECONDS = 60.0, 30.0, 300.0
ENGINE_REMEDY = "start a Docker engine by other means, or name one by DOCKER_HOST"
_INST = re.compile(r"^Inst (\S+) ", re.M)


@dataclass(frozen=True)
class DockerEngine:
    """A running engine.

    Attributes:
        address: what ``DOCKER_HOST`` says: ``unix:///…`` or ``tcp://…``.
        started: whether this call started it.
    """

    address: str
    started: bool


def folder(place: Path | None = None) -> Path:
    """Where everything of the engine is: ``packages-…``, ``data``, ``engine.log``."""
    return (place or home()) / "docker"


def programs(place: Path | None = None) -> Path:
    """The root folder of the unpacked packages."""
    return folder(place) / f"packages-{RECIPE}"


def environment(place: Path | None = None) -> dict[str, str]:
    """What the unpacked programs need to find one another; for ``docker``, ``docker compose`` and ``mmdebstrap``, too."""
    root = programs(place)
    libraries = sorted({str(file.parent) for file in root.glob("usr/lib/*-linux-*/*.so*")})
    path = [str(root / "icequake"), str(root / "usr/sbin"), str(root / "usr/bin"), os.environ.get("PATH", os.defpath)]
    return {
        **os.environ,
        "PATH": os.pathsep.join([*path, "/usr/sbin", "/sbin"]),
        "LD_LIBRARY_PATH": os.pathsep.join(libraries),
        "XTABLES_LIBDIR": next((f"{folder}/xtables" for folder in libraries), ""),
        "DOCKER_CONFIG": str(root / "icequake" / "config"),
    }


def typed(*words: str) -> str:
    """A command of ``compose.docker.local`` as it is typed in any folder: in a checkout by ``bootstrap.py``, which gives it its packages."""
    bootstrap = Path(__file__).with_name("bootstrap.py")
    checkout = (bootstrap.parents[2] / "icequake").is_file()
    python = ["python3", str(bootstrap), "python"] if checkout else [sys.executable]
    return shlex.join([*python, "-m", "compose.docker.local", *words])


def start(*, place: Path | None = None, progress: Progress | None = None) -> DockerEngine:
    """The engine that answers, else one that is started here. Raises SetupError in one line."""
    found = answers()
    if found is not None:
        return DockerEngine(found, started=False)
    if "DOCKER_HOST" in os.environ:
        raise SetupError(
            f"no Docker engine answers at DOCKER_HOST={os.environ['DOCKER_HOST']}: unset it, or start one there"
        )
    place = place or home()
    with exclusive(folder(place) / "engine.lock"):
        found = answers()
        if found is not None:
            return DockerEngine(found, started=False)
        provide(place, progress or for_stream())
        _launch(place)
    return DockerEngine(f"unix://{OWN_SOCKET}", started=True)


def provide(place: Path, progress: Progress) -> None:
    """Download and unpack the packages, unless they are there. Raises SetupError."""
    if programs(place).is_dir():
        return
    reason = impossible()
    if reason:
        raise SetupError(f"icequake cannot start a Docker engine here: {reason}; {ENGINE_REMEDY}")
    sweep(folder(place))
    with arriving(programs(place)) as scratch, progress.step("Docker engine from Debian's packages", None):
        apt = scratch / "apt"
        debs = [*_download(apt / "own", None, PACKAGES), *_download(apt / "plugin", PLUGIN_SUITE, [PLUGIN])]
        for deb in debs:
            _run(["dpkg-deb", "-x", str(deb), str(scratch)], 120)
        shutil.rmtree(apt)
        own = scratch / "icequake"
        (own / "config").mkdir(parents=True)
        for name in ("iptables", "ip6tables"):  # links that the package's installation would have made
            (own / name).symlink_to(f"../usr/sbin/{name}-nft")
        plugins = own / "config" / "cli-plugins"
        plugins.mkdir()
        found = next(scratch.glob(f"usr/lib*/docker/cli-plugins/{PLUGIN}"), None)
        if found is None:
            raise SetupError(f"Debian's package {PLUGIN} has no plugin of this name")
        (plugins / PLUGIN).symlink_to(os.path.relpath(found, plugins))


def impossible() -> str | None:
    """Why no engine can be started from Debian's packages on this machine; None if it can be tried."""
    if not sys.platform.startswith("linux"):
        return "that needs Linux"
    if os.geteuid() != 0:
        return "that needs root"
    if lacking := [name for name, bit in _RIGHTS.items() if not _capabilities() >> bit & 1]:
        return f"that needs the capabilities {' and '.join(lacking)}, which a container has only if it is given them"
    missing = [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
    if missing:
        return f"that needs Debian's {' and '.join(missing)}"
    return None


_RIGHTS = {"NET_ADMIN": 12, "SYS_ADMIN": 21}
"""What ``dockerd`` needs for networks and for file systems: name → number in capability.h of Linux."""


def _capabilities() -> int:
    """The capabilities of this process, as bits."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.M)
    return int(found[1], 16) if found else 0


def stop(place: Path | None = None) -> bool:
    """End the engine that ``start`` started, with its containers; False if none runs. Raises SetupError if it does not end."""
    process = _process()
    if process is None:
        return False
    children = process.children(recursive=True)
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except psutil.TimeoutExpired:
        raise SetupError(
            f"the Docker engine (process {process.pid}) does not end; see {folder(place) / 'engine.log'}"
        ) from None
    psutil.wait_procs(children, STOP_SECONDS)
    Path(OWN_SOCKET).unlink(missing_ok=True)
    return True


def _process() -> psutil.Process | None:
    """The engine that was started here, if it lives."""
    try:
        process = psutil.Process(int(_pid_file().read_text()))
        return process if process.name() == "dockerd" else None
    except (OSError, ValueError, psutil.Error):
        return None


def _pid_file() -> Path:
    return Path(OWN_SOCKET).with_name("docker.pid")


def _launch(place: Path) -> None:
    """Start ``dockerd`` and wait until it answers. Raises SetupError with the last line of its log."""
    run = Path(OWN_SOCKET).parent
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = folder(place) / "engine.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                *("dockerd", "--host", f"unix://{OWN_SOCKET}", "--data-root", str(folder(place) / "data")),
                *("--exec-root", str(run / "exec"), "--pidfile", str(_pid_file())),
            ],
            env=environment(place),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # it outlives this process; `stop` ends it
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if answers(f"unix://{OWN_SOCKET}"):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)  # the engine tells nobody that it is ready
    ended = process.poll()
    if ended is None:
        process.terminate()
        process.wait(STOP_SECONDS)
    lines = log.read_text(errors="replace").strip().splitlines()
    how = f"ended with code {ended}" if ended is not None else f"does not answer after {START_SECONDS:.0f} s"
    raise SetupError(
        f"the Docker engine {how}: {lines[-1][:300] if lines else 'it printed nothing'}; see {log}; {ENGINE_REMEDY}"
    )


# --- Debian's packages ------------------------------------------------------------------------------------------------


def _download(scratch: Path, suite: str | None, names: Sequence[str]) -> list[Path]:
    """The packages and what they need beside the installed ones, as files; ``suite``: of another Debian release, without what they need."""
    lists, cache = scratch / "lists", scratch / "cache"
    for part in (lists / "partial", cache / "archives" / "partial"):
        part.mkdir(parents=True)
    scratch.chmod(0o755)
    options = [f"Dir::State::lists={lists}", f"Dir::Cache={cache}", "APT::Sandbox::User=root", "Acquire::Retries=2"]
    if suite is not None:
        options += [f"Dir::Etc::sourcelist={sources_of(suite, scratch)}", "Dir::Etc::sourceparts=/dev/null"]
    apt = ["apt-get", "-q", *(part for option in options for part in ("-o", option))]
    _run([*apt, "update"], APT_SECONDS)
    if suite is None:
        plan = _run([*apt, "install", "--simulate", "--no-install-recommends", *names], 60)
        # A package that is installed already is not in the plan, but its programs are on the machine.
        names = list(dict.fromkeys(_INST.findall(plan)))
    if names:
        _run([*apt, "download", *names], APT_SECONDS, cwd=scratch)
    return sorted(scratch.glob("*.deb"))


def sources_of(suite: str, scratch: Path) -> Path:
    """This machine's list of sources, with its release replaced by another. Raises SetupError."""
    own = host_sources()
    release = re.search(r"^VERSION_CODENAME=(\S+)", Path("/etc/os-release").read_text(), re.M)
    if release is None:
        raise SetupError("/etc/os-release names no release of Debian")
    written = scratch / f"{suite}{own.suffix}"
    written.write_text(own.read_text().replace(release[1], suite))
    return written


def host_sources() -> Path:
    """The file with this machine's sources of packages. Raises SetupError."""
    parts = Path("/etc/apt/sources.list.d")
    for file in (parts / "debian.sources", Path("/etc/apt/sources.list"), *sorted(parts.glob("*.sources"))):
        if file.is_file() and "deb" in file.read_text():
            return file
    raise SetupError("this machine has no list of package sources in /etc/apt")


def _run(
    command: Sequence[str], seconds: float, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """What a command prints. Raises SetupError with its last line."""
    try:
        done = subprocess.run(
            list(command), capture_output=True, text=True, timeout=seconds, cwd=cwd, env=env, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise SetupError(f"{command[0]} failed: {e}") from e
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise SetupError(
            f"{command[0]} failed with code {done.returncode}: {lines[-1][:300] if lines else 'no reason'}"
        )
    return done.stdout
