"""A Docker engine and stand-in images on this machine, for tests and for runs where neither is there::

    python -m compose.docker.local run -- icequake run quick --docker     an engine for one command; ended afterwards
    python -m compose.docker.local start                                  an engine that stays, and the images
    python -m compose.docker.local stop                                   end the engine that was started here
    python -m compose.docker.local test -m docker tests/docker            pytest beside an engine; skipped where none can be had
    python -m compose.docker.local compose --profile rest up --wait       `docker compose` with this engine, the images and compose.yaml
    python -m compose.docker.local driver                                 PostgreSQL's JDBC driver, where an image has none

An engine that answers already is used as it is, and never stopped. With ICEQUAKE_DOCKER_TESTS=required `test` fails where no engine can be had.
With ICEQUAKE_DOCKER_TESTS=where-possible it does so on a machine that names an engine, or has the system and the rights to start one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from compose.docker import composefile, images
from compose.install import engine
from compose.install.cache import SetupError
from compose.install.ensure import ensure
from compose.install.installation import Installation
from compose.processes.container import DEFAULT_SOCKET, answers, client_of, others, sweep

USAGE = 254
SIGNALLED = 128
"""What shells add to the number of the signal that ended a command."""
DRIVERS = composefile.COMPOSE_FILE.with_name("drivers")
"""The folder of PostgreSQL's JDBC driver for ``docker compose`` by hand."""
ENV_FILE = "images.env"
PROMISE = "ICEQUAKE_DOCKER_TESTS"
"""The variable by which CI promises an engine."""


def prepare_environment(installation: Installation, address: str, names: tuple[str, ...] = ()) -> dict[str, str]:
    """What a program needs in its environment to use the engine and the stand-in images, which are built if they are missing.

    ``names``: of the images that it uses; empty: all.

    Variables that are set already keep their value. The images' part is also written to the file ``docker/images.env`` of the cache.
    """
    made = images.build(address, installation, names=names)
    made |= {"ICEQUAKE_JDBC_DRIVER": str(driver(installation).parent), "ICEQUAKE_PULL_POLICY": "never"}
    file = engine.folder(installation.home) / ENV_FILE
    file.write_text("".join(images.variables(made)))
    return {**made, "DOCKER_HOST": address, **{name: os.environ[name] for name in made if os.environ.get(name)}}


def driver(installation: Installation) -> Path:
    """The jar of PostgreSQL's JDBC driver."""
    return next(jar for jar in installation.jars["spark"] if jar.name.startswith("postgresql-"))


def used_by(words: Sequence[str]) -> tuple[str, ...]:
    """The images that a command uses, by the option ``--catalog`` or ``--profile`` in it; empty if neither names a profile."""
    specs = composefile.read({})
    for option, value in pairwise(words):
        if option in ("--catalog", "--profile"):
            members = {name for name, spec in specs.items() if value in spec.profiles}
            if any(name.endswith("-setup") for name in members):
                members.add("python")
            if any(name.startswith("spark-") for name in members):
                members.add("spark")
            if option == "--catalog" and members:
                members |= {"network", "spark"}  # a run's faults may strike packets
            return tuple(image.name for image in images.STAND_INS if image.name in members)
    return ()


@contextmanager
def running(
    installation: Installation, names: tuple[str, ...] = (), found: engine.DockerEngine | None = None
) -> Iterator[Mapping[str, str]]:
    """An engine with the images, for the time of a block, as environment variables; ended if it was started for it. Raises SetupError.

    ``found``: the engine, if it runs already.
    """
    found = found or engine.start(place=installation.home)
    try:
        yield prepare_environment(installation, found.address, names)
    finally:
        if found.started:
            client = client_of(found.address)
            try:
                for run_id in (None, *others(client)):  # none outlives its engine
                    sweep(client, run_id)
            finally:
                client.close()
            engine.stop(installation.home)


def _command(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command; Ctrl-C reaches it too, and this process waits for its end."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = subprocess.run(words, env=dict(environment), check=False, preexec_fn=_default_interrupt).returncode
        return code if code >= 0 else SIGNALLED - code
    except OSError as e:
        raise SetupError(f"{words[0]}: {e.strerror}") from e
    finally:
        signal.signal(signal.SIGINT, before)


def _called(words: Sequence[str]) -> dict[str, str]:
    """How icequake, if it is the command, is called again: by this one, which brings the engine."""
    program = words[0]
    if Path(program).name != "icequake":
        return {}
    return {"ICEQUAKE_COMMAND": engine.typed("run", "--", os.path.abspath(program) if os.sep in program else program)}


def _default_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def compose_command(place: Path | None = None) -> list[str]:
    """``docker compose`` on ``compose.yaml``."""
    docker = engine.programs(place) / "usr" / "bin" / "docker"
    return [str(docker) if docker.is_file() else "docker", "compose", "-f", str(composefile.COMPOSE_FILE)]


def promised() -> bool:
    """Whether an engine must be there for the tests. Raises SetupError if the variable has another value than it may have."""
    match os.environ.get(PROMISE, ""):
        case "":
            return False
        case "required":
            return True
        case "where-possible":
            return "DOCKER_HOST" in os.environ or Path(DEFAULT_SOCKET).exists() or engine.impossible() is None
        case other:
            raise SetupError(f"{PROMISE} is {other!r}; it may be 'required' or 'where-possible'")


def _test(words: Sequence[str]) -> int:
    """Run pytest beside an engine. Where there is none, none can be started and none is promised, say so and run nothing."""
    must = promised()
    installation = ensure()
    try:
        found = engine.start(place=installation.home)
    except SetupError as e:
        if must:
            raise SetupError(
                f"the tests in containers cannot run, and {PROMISE}={os.environ[PROMISE]} promises an engine: {e}"
            ) from e
        print(f"icequake: the tests in containers are skipped: {' '.join(str(e).split())}")
        return 0
    with running(installation, found=found) as environment:
        return _command([sys.executable, "-m", "pytest", *words], {**os.environ, **environment})


def main(arguments: Sequence[str]) -> int:
    """Entry point; exit code 255 and one line if it cannot be done, else that of the command."""
    match [word for i, word in enumerate(arguments) if not (i == 1 and word == "--")]:
        case ["run", *words] if words:
            installation = ensure()
            with running(installation, used_by(words)) as environment:
                return _command(words, {**os.environ, **environment, **_called(words)})
        case ["test", *words] if words:
            return _test(words)
        case ["start"]:
            installation = ensure()
            found = engine.start(place=installation.home)
            values = prepare_environment(installation, found.address)
            print("".join(f"export {name}={value}\n" for name, value in sorted(values.items())), end="")
            return 0
        case ["driver"]:
            print(shutil.copy(driver(ensure()), DRIVERS))
            return 0
        case ["--help" | "-h"]:
            print((__doc__ or "").strip())
            return 0
        case ["stop"]:
            print("stopped" if engine.stop() else "no engine of icequake's runs")
            return 0
        case ["compose", *words] if words:
            installation = ensure()
            place = answers()
            if place is None:
                raise SetupError(f"no Docker engine answers; start one by `{engine.typed('start')}`")
            values = {
                **engine.environment(installation.home),
                **prepare_environment(installation, place, used_by(words)),
            }
            return _command([*compose_command(installation.home), *words], values)
        case words:
            print((__doc__ or "").strip(), file=sys.stderr)
            print(f"icequake: not a command of this program: {' '.join(words) or 'nothing'}", file=sys.stderr)
            return USAGE


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (SetupError, RuntimeError) as error:
        print(f"icequake: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(255)
