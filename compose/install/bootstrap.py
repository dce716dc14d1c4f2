"""Make the Python environment that this checkout needs, then run one of its tools in place of this process.

    python3 compose/install/bootstrap.py icequake run workloads/quick.yaml
    python3 compose/install/bootstrap.py pytest -m "not spark"
    python3 compose/install/bootstrap.py setup            # everything else too: jars, MinIO, PostgreSQL

The environment is a venv below ``$ICEQUAKE_HOME`` (default: the platform's cache folder), named after its content:
the hash of ``requirements.lock``, the Python version and the platform. So a changed lock makes a new environment,
an unchanged one costs a file look-up, and several clones share it. It holds no path of a clone: the tool starts
with the clone's folder as its only ``PYTHONPATH``, so each clone runs its own code.

This file uses only the standard library, because it runs before anything is installed. Its syntax is valid in
Python 3.6, so that an old interpreter prints a clear message instead of a ``SyntaxError``.
"""

import sys

if sys.version_info < (3, 11):
    found = ".".join(map(str, sys.version_info[:2]))
    sys.stderr.write(
        f"icequake: needs Python 3.11 or newer, but {sys.executable} is {found}; try: make PYTHON=python3.11 setup\n"
    )
    sys.exit(255)

if __name__ == "__main__":
    # Running a file puts its folder first on the path, where history.py and its neighbours would shadow other modules.
    sys.path.pop(0)

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES_LOCK = CHECKOUT / "requirements.lock"
TOOLS = ("icequake", "setup", "python", "pytest", "ruff", "mypy", "lint-imports")
PACKAGES_SIZE = "1.2 GB"  # on disk, measured; most of it is Spark
EVERY = 15.0  # seconds between two lines about a long step
ICEQUAKE = "import sys; sys.argv[0] = 'icequake'; from harness.cli.app import main; sys.exit(main())"

# pip options that would install packages outside this venv. Index, proxy and certificate settings are kept.
MISLEADING = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIREMENT", "PIP_CONSTRAINT", "PYTHONHOME")


class BootstrapError(RuntimeError):
    """Set-up failed; the message is one line: what failed, and what to type."""


def cache_home() -> Path:
    """The folder for everything that icequake downloads or builds: ``$ICEQUAKE_HOME`` or the platform's cache folder."""
    if os.environ.get("ICEQUAKE_HOME"):
        return Path(os.environ["ICEQUAKE_HOME"]).expanduser().absolute()
    if sys.platform == "darwin":
        return Path("~/Library/Caches/icequake").expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME", "").strip()
    return Path(xdg if xdg else "~/.cache").expanduser() / "icequake"


def unusable(home: Path, error: OSError) -> str:
    """Why the cache cannot be used, which variable names it, and what to do."""
    where = "" if error.filename in (None, str(home)) else f" at {error.filename}"
    set_by = next((f" (set by {name})" for name in ("ICEQUAKE_HOME", "XDG_CACHE_HOME") if os.environ.get(name)), "")
    return f"the cache {home}{set_by} cannot be used: {error.strerror}{where}; set ICEQUAKE_HOME to a folder that can be written"


def venv_path(home: Path, lock: bytes) -> Path:
    """The venv for these pins under this interpreter; both determine its name."""
    key = hashlib.sha256(lock)
    key.update(repr((sys.version_info[:2], sys.implementation.name, sys.platform, platform.machine())).encode())
    return home / ("venv-" + key.hexdigest()[:12])


def ensure(home: Path, meanwhile: Callable[[Path], object] | None = None) -> Path:
    """Return the Python of a complete venv, which is made if it is missing. Parallel calls wait for each other.

    ``meanwhile`` is called before the venv is made, to start work that needs no package.
    """
    venv = venv_path(home, PACKAGES_LOCK.read_bytes())
    python = venv / "bin" / "python"
    complete = venv / ".complete"
    if complete.is_file() and python.exists():  # exists() follows the link: False if the base interpreter was removed
        return python
    with exclusive(venv.with_suffix(".lock")):
        if complete.is_file() and python.exists():
            return python
        # Every command needs them, doctor too, and each is silent until they are there.
        say(
            f"first, and only once: the Python packages that every command needs, {PACKAGES_SIZE}, minutes, into {venv}"
        )
        say("Ctrl-C stops it, and the same command goes on")
        if meanwhile:
            meanwhile(home)
        shutil.rmtree(venv, ignore_errors=True)  # remains of a killed attempt; pip's own cache keeps its downloads
        began = time.monotonic()
        create(venv)
        install(python)
        took = f"{time.monotonic() - began:.0f} s"
        complete.write_text(f"Python {sys.version}, installed in {took}\n")
        say(f"Python packages are ready ({took})")
    return python


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the file lock ``path``; the kernel releases it even if this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another icequake set-up is running, waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def create(venv: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "venv", str(venv)], env=pip_environment(), capture_output=True, text=True
    )
    if result.returncode != 0:
        shutil.rmtree(venv, ignore_errors=True)
        text = (result.stdout + result.stderr).strip()
        if "ensurepip" in text:
            version = "%d.%d" % sys.version_info[:2]  # noqa: UP031
            raise BootstrapError(
                f"this Python has no venv module; on Debian or Ubuntu: apt install python{version}-venv"
            )
        raise BootstrapError(f"cannot create the environment {venv}: {text or 'python -m venv failed'}")


def install(python: Path, lock: Path = PACKAGES_LOCK) -> None:
    """Install exactly the pins of ``lock``, each checked against its hash.

    pyspark and thrift come as source archives. Building them in isolation would download an unpinned setuptools, so
    the pinned one goes in first and builds them in place.
    """
    pins = re.split(r"\n(?=[A-Za-z0-9])", lock.read_text())
    say(f"installing the pinned Python packages into {python.parent.parent}")
    with tempfile.TemporaryDirectory() as scratch:
        builders = Path(scratch, "builders.lock")
        builders.write_text("\n".join(pin for pin in pins if re.match(r"(setuptools|wheel)==", pin)) + "\n")
        pip(python, "--quiet", "--requirement", str(builders))
        pip(python, "--no-build-isolation", "--requirement", str(lock))


def minio_log(home: Path) -> Path:
    """The log of the process that ``begin_minio`` started."""
    return home / "minio.log"


def begin_minio(home: Path) -> "subprocess.Popen[bytes]":
    """Start building MinIO, which needs no package, in a process that ends when this one ends.

    ``compose.install.minio_build.provide`` waits for it. If it failed, ``provide`` tries again and reports the reason.
    """
    home.mkdir(parents=True, exist_ok=True)
    say("building MinIO at the same time")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    with minio_log(home).open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "compose.install.minio_build", str(home)],
            env={**environment, "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def begin_first_minio(home: Path) -> "subprocess.Popen[bytes] | None":
    """``begin_minio``, unless a release of it is installed; ``compose.install.ensure`` checks whether that is the right one."""
    return None if any((home / "bin").glob("minio-*")) else begin_minio(home)


def pip(python: Path, *arguments: str) -> None:
    look = [] if sys.stderr.isatty() else ["--quiet", "--progress-bar", "off"]
    command = [
        str(python),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--require-hashes",
        *look,
        *arguments,
    ]
    # stdout belongs to the tool that replaces this process
    with subprocess.Popen(command, env=pip_environment(), stdout=sys.stderr) as process:
        began = time.monotonic()
        while True:
            try:
                code = process.wait(EVERY)
                break
            except subprocess.TimeoutExpired:
                if look:
                    say(f"installing Python packages: {time.monotonic() - began:.0f} s")
            except BaseException:
                process.kill()
                raise
    if code != 0:
        raise BootstrapError("pip could not install the pinned packages (see above); the same command tries again")


def pip_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in (*MISLEADING, "PYTHONPATH")}


def tool_command(python: Path, tool: str, arguments: list[str]) -> list[str]:
    """-P keeps the current folder off the path: a ``harness/`` or ``reports/`` there is not part of icequake."""
    if tool == "icequake":
        return [str(python), "-P", "-c", ICEQUAKE, *arguments]
    if tool == "setup":
        return [str(python), "-P", "-m", "compose.setup", *arguments]
    if tool == "lint-imports":
        return [str(python), "-P", str(python.with_name(tool)), *arguments]
    if tool == "python":
        return [str(python), *arguments]
    return [str(python), "-P", "-m", tool, *arguments]


def tool_environment(python: Path) -> dict[str, str]:
    # A foreign PYTHONPATH (common where Spark is installed) would put another pyspark before this one.
    # The user's original PYTHONPATH may hold operation kinds of a workload file (workloads/file/own_kinds.py).
    asked_for = os.environ.get("ICEQUAKE_PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    environment = {
        **os.environ,
        "ICEQUAKE_PYTHONPATH": asked_for,
        "PYTHONPATH": str(CHECKOUT),
        "VIRTUAL_ENV": str(python.parent.parent),
    }
    environment.pop("PYTHONHOME", None)
    # How the user can type the commands that icequake prints.
    launcher = CHECKOUT / "icequake"
    environment.setdefault("ICEQUAKE_COMMAND", "./icequake" if Path.cwd() == CHECKOUT else shlex.quote(str(launcher)))
    environment["PATH"] = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
    return environment


def say(text: str) -> None:
    print(f"icequake: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if not arguments or arguments[0] not in TOOLS:
        say(f"usage: python3 compose/install/bootstrap.py {'|'.join(TOOLS)} [arguments]")
        return 254
    runs = arguments[0] == "setup" or arguments[:2] == ["icequake", "run"]
    try:
        python = ensure(cache_home(), begin_first_minio if runs else None)
    except BootstrapError as error:
        say(str(error))
        return 255
    except OSError as error:
        say(unusable(cache_home(), error))
        return 255
    except KeyboardInterrupt:
        say("interrupted; run the same command again to continue")
        return 130
    command = tool_command(python, arguments[0], arguments[1:])
    sys.stdout.flush()
    os.execve(command[0], command, tool_environment(python))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
