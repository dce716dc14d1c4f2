"""A service in a container: a small local process, its keeper, starts it, passes on what it prints, and ends it.

The keeper is a service like any other. It is marked with the run, so the watchdog ends it when the harness cannot, and the container with it.
If the keeper itself was killed, the next start on the same host finds its containers by their labels.

Run as a program::

    python -m compose.processes.container spec.json
    python -m compose.processes.container --sweep RUN
"""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import textwrap
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from compose.processes.ports import Ports
from compose.processes.process import LocalProcess, base_environment
from compose.processes.service import ServiceError
from compose.processes.watchdog import RUN_VARIABLE

CONTAINER_LABEL = "icequake.run"
KEEPER, HARNESS = "icequake.keeper", "icequake.harness"
"""Labels with the process id and the start time of the keeper, and of the process that starts and ends the run's services."""
HOST = "icequake.host"
"""Label that says where those ids are valid (:func:`host`). Engines are shared: by jobs of CI with one socket, by machines with one address."""
SERVICE = "icequake.service"
SWEEP = "--sweep"
CLIENT_SECONDS = 60
REMOVAL_SECONDS = 30
HTTP_CONFLICT = 409
LONGEST_REASON = 400
"""Characters of what an engine says: a refused image has its registry's name twice, and then why."""
NEEDS_DOCKER = "start a Docker engine"


OWN_SOCKET = "/run/icequake-docker/docker.sock"
"""Where an engine listens that icequake itself has started (``compose.install.engine``)."""
DEFAULT_SOCKET = "/var/run/docker.sock"


def address() -> str:
    """Where the engine is: ``DOCKER_HOST``, else the default socket, else the engine that icequake started."""
    named = os.environ.get("DOCKER_HOST")
    if named:
        return named
    own = not Path(DEFAULT_SOCKET).exists() and Path(OWN_SOCKET).exists()
    return f"unix://{OWN_SOCKET if own else DEFAULT_SOCKET}"


def engine(service: str, remedy: str = NEEDS_DOCKER) -> Any:
    """A client of the Docker engine. Raises ServiceError, in one line, if none answers."""
    from docker.errors import DockerException

    try:
        return client_of(address())
    except (DockerException, OSError) as e:
        raise ServiceError(service, f"needs Docker, and no engine answers ({_short(e)})", remedy=remedy) from e


def answers(place: str | None = None, timeout: float = 5.0) -> str | None:
    """The address of the engine, ``place`` or the one of :func:`address`, if it answers within ``timeout`` seconds; else None."""
    from docker.errors import DockerException

    place = place or address()
    try:
        client_of(place, timeout).close()
    except (DockerException, OSError):
        return None
    return place


def client_of(place: str, timeout: float = CLIENT_SECONDS) -> Any:
    """A client of the engine at an address, which has answered. Raises OSError or DockerException."""
    import docker

    knock(place)
    client = docker.from_env(timeout=int(timeout), environment={**os.environ, "DOCKER_HOST": place})
    try:
        client.ping()
    except BaseException:
        client.close()
        raise
    return client


def knock(host: str, timeout: float = 3.0) -> None:
    """Connect to the engine's Unix socket, and hang up. Raises OSError when no engine listens there.

    Docker's own client leaks the socket of a failed connection. This does not check a remote engine (``tcp://…``).
    """
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(host.removeprefix("unix://"))


def _short(error: BaseException) -> str:
    """The innermost reason: Docker wraps a missing socket three times."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    for reason in ("FileNotFoundError", "PermissionError", "Connection refused"):
        if reason in text:
            return {"FileNotFoundError": "no socket", "PermissionError": "no permission to use its socket"}.get(
                reason, "connection refused"
            )
    words = (
        getattr(error, "explanation", None) or text
    )  # an answer of the engine is behind the address that was asked for it
    return textwrap.shorten(str(words), LONGEST_REASON, placeholder=" …")


class KeptContainer(LocalProcess):
    """A server in a container whose keeper is a local process.

    ``folder`` holds the container's specification, readable by its owner only: it may hold a password.
    """

    remedy = NEEDS_DOCKER
    stop_seconds = 30.0  # the keeper waits until the engine has stopped the container

    @property
    def container(self) -> str:
        """The container's name."""
        return f"icequake-{self._run_id}-{self.name}"

    @abstractmethod
    def specification(self) -> Mapping[str, Any]:
        """How to make the container: ``image``, and arguments of ``docker.models.containers.ContainerCollection.create`` besides name and
        labels. ``aliases``: its names in the network. Called at every start."""

    keeps_container = False
    """Whether a stopped or killed container stays with its data, to be started again, until the run's end (:func:`sweep`)."""

    def argv(self) -> Sequence[str]:
        return [sys.executable, "-m", "compose.processes.container", str(self.folder / "spec.json")]

    def environment(self) -> Mapping[str, str]:
        docker = {k: v for k, v in os.environ.items() if k.startswith("DOCKER_")}
        return {**base_environment(), **docker, "PYTHONPATH": str(Path(__file__).parents[2])}

    def prepare(self) -> None:
        how = dict(self.specification())
        client = engine(self.name, self.remedy)
        try:
            have(client, self.name, how["image"], self.remedy)
        finally:
            client.close()
        if self.keeps_container and not self._was_ready:
            self._tell("remove")  # it could not bind its port; the next one gets another
        spec = self.folder / "spec.json"
        spec.touch(mode=0o600)
        labels = {**owned(self._run_id), SERVICE: self.name}
        spec.write_text(
            json.dumps({"name": self.container, "labels": labels, "keeps": self.keeps_container, "how": how})
        )

    def kill(self) -> None:
        with self._lock:
            self._killed = self._killed or self.running  # soon its keeper ends by itself
            self._tell("kill")
            super().kill()
            if not self.keeps_container:
                self._tell("remove")

    def stop(self) -> None:
        with self._lock:
            was_there = self._process is not None
            super().stop()
            if was_there:  # normally the keeper has done it already
                self._tell("stop" if self.keeps_container else "remove")

    def pause(self) -> None:
        if not self.running:
            raise self.error("cannot be paused: it is not running")
        if not self._tell("pause"):
            raise self.error("cannot be paused: its container is not running")

    def resume(self) -> None:
        self._tell("unpause")

    def _tell(self, what: str) -> bool:
        """Send the engine a command for the container; False if the container does not exist or is in the wrong state.

        Raises ServiceError if no engine answers.
        """
        from docker.errors import APIError, DockerException, NotFound

        client = engine(self.name, self.remedy)
        try:
            container = client.containers.get(self.container)
            if what == "remove":
                _remove(client, container)
                return True
            if what in ("kill", "stop") and container.status == "paused":
                if what == "kill":
                    container.kill()  # it is delivered when the container goes on
                container.unpause()
                if what == "kill":
                    return True
            getattr(container, what)()
        except (NotFound, APIError):
            return False
        except (DockerException, OSError) as e:
            raise self.error(f"the Docker engine does not {what} its container: {_short(e)}") from e
        finally:
            client.close()
        return True

    def _check_ports_are_its_own(self, process: Any) -> None:
        """No check: the container owns the ports, and it is not a child of this process."""


def _remove(client: Any, container: Any) -> None:
    """Remove a container; if another process, such as its keeper, has begun to do it, wait until it is gone."""
    from docker.errors import APIError, NotFound

    try:
        container.remove(force=True, v=True)
        return
    except NotFound:
        return
    except APIError as e:
        if e.status_code != HTTP_CONFLICT:
            raise
    deadline = time.monotonic() + REMOVAL_SECONDS
    while time.monotonic() < deadline:
        try:
            client.containers.get(container.id)
        except NotFound:
            return
        time.sleep(0.02)  # the engine tells nobody who asks too late


class Container(KeptContainer):
    """A server in a container that shares this machine's network, so that its ports are on loopback."""

    def __init__(self, name: str, *, run_id: str, ports: Ports, port_names: Sequence[str], folder: Path, log: Path):
        super().__init__(name, run_id=run_id, ports=ports, port_names=port_names, folder=folder, log=log)

    @abstractmethod
    def image(self) -> str:
        """The image, with tag."""

    @abstractmethod
    def settings(self) -> Mapping[str, str]:
        """The container's environment. Called at every start."""

    def specification(self) -> Mapping[str, Any]:
        return {"image": self.image(), "environment": dict(self.settings()), "network_mode": "host"}


def have(client: Any, service: str, image: str, remedy: str = "") -> None:
    """Pull an image if it is missing. Raises ServiceError."""
    from docker.errors import DockerException, ImageNotFound

    try:
        client.images.get(image)
    except ImageNotFound:
        try:
            client.images.pull(image)
        except (DockerException, OSError) as e:
            raise ServiceError(service, f"the image {image} cannot be pulled: {_short(e)}", remedy=remedy) from e


# --- the keeper -------------------------------------------------------------------------------------------------------


def identity(process: psutil.Process) -> str:
    """A process as a label says it: its id and its start time."""
    return f"{process.pid}/{process.create_time()}"


def lives(label: str) -> bool:
    """Whether the process of a label still runs."""
    pid, _, began = label.partition("/")
    try:
        return abs(psutil.Process(int(pid)).create_time() - float(began)) < 1
    except (psutil.Error, ValueError):
        return False


def host() -> str:
    """Where a process id is valid: this start of this machine, and the namespace of process ids in it, which a container has for itself."""
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{start}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:  # no Linux, so no namespaces
        return f"{platform.node()}/{psutil.boot_time():.0f}"


def owned(run_id: str) -> dict[str, str]:
    """The labels of everything that this process has the engine make for a run."""
    return {CONTAINER_LABEL: run_id, HARNESS: identity(psutil.Process()), HOST: host()}


def _everything(client: Any, label: str) -> Iterator[tuple[Mapping[str, str], Any, Mapping[str, bool]]]:
    """What has a label: containers, then volumes and networks; each with all its labels and the arguments of its removal."""
    filters = {"label": label}
    for container in client.containers.list(all=True, filters=filters, ignore_removed=True):
        yield container.labels, container, {"force": True, "v": True}
    for kind in (client.volumes, client.networks):
        for container in kind.list(filters=filters):
            yield container.attrs.get("Labels") or {}, container, {}


def sweep(client: Any, run_id: str | None = None) -> list[str]:
    """Remove what runs left in the engine: containers with their volumes, then volumes and networks.

    Args:
        run_id: of the run whose things are removed, wherever it was made; None: of every run of this host whose harness is gone. Nothing is
            known of other hosts' runs (:func:`others`), so they are left alone.

    Returns:
        The names of what was removed.
    """
    from docker.errors import DockerException

    here, removed = host(), []
    for labels, thing, how in _everything(client, CONTAINER_LABEL if run_id is None else f"{CONTAINER_LABEL}={run_id}"):
        if run_id is None and (
            labels.get(HOST) != here or lives(labels[KEEPER] if KEEPER in labels else labels.get(HARNESS, ""))
        ):
            continue
        try:
            thing.remove(**how)
            removed.append(thing.name)
        except DockerException:
            pass  # another process removes it, or a container of a living run uses it
    return removed


def others(client: Any) -> dict[str, int]:
    """The runs of which nobody here knows whether they go on, each with the number of its things in the engine: of another machine, of another
    container, from before this machine was started again, or of an older release, whose things have no label of a host."""
    here = host()
    return dict(
        Counter(
            labels[CONTAINER_LABEL] for labels, _, _ in _everything(client, CONTAINER_LABEL) if labels.get(HOST) != here
        )
    )


def keep(spec: Mapping[str, Any]) -> int:
    """Run a container until it or this process ends. Returns the container's exit code."""
    from docker.errors import DockerException, NotFound

    client = engine(str(spec["name"]))
    sweep(client)
    container = _made(client, spec)
    labels = spec["labels"]

    def end(*_: object) -> None:
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        since = time.time()  # what it printed before it was killed is in the log already
        container.start()
        for part in container.logs(stream=True, follow=True, since=since):
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
        return int(container.wait()["StatusCode"])
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        try:
            if not lives(labels[HARNESS]):
                _sweep_in_peace(labels[CONTAINER_LABEL])
            elif not spec["keeps"]:
                container.remove(force=True, v=True)
            else:
                container.reload()
                if container.status == "paused":
                    container.unpause()
                container.stop()
                if not lives(labels[HARNESS]):  # it was killed meanwhile, before it could sweep
                    _sweep_in_peace(labels[CONTAINER_LABEL])
        except NotFound:
            pass
        except (DockerException, OSError) as e:
            print(f"the container could not be ended: {_short(e)}", file=sys.stderr)


def _sweep_in_peace(run_id: str) -> None:
    """Sweep in a process of its own: the watchdog, which has just told this one to end, soon kills all that has the run's mark."""
    unmarked = {name: value for name, value in os.environ.items() if name != RUN_VARIABLE}
    subprocess.Popen(
        [sys.executable, "-m", "compose.processes.container", SWEEP, run_id],
        env=unmarked,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # it also ignores SIGTERM and SIGINT, as this process does by now
    )


def sweep_until_gone(run_id: str) -> int:
    """Sweep until nothing is left, for a minute at most: a container may still be starting. Returns the exit code."""
    client = engine("docker")
    deadline = time.monotonic() + CLIENT_SECONDS
    while sweep(client, run_id) and time.monotonic() < deadline:
        time.sleep(0.2)  # the engine finishes what others began
    return 0


def _made(client: Any, spec: Mapping[str, Any]) -> Any:
    """The container of a specification: the one that a previous start left, or a new one."""
    from docker.errors import NotFound

    if spec["keeps"]:
        try:
            return client.containers.get(spec["name"])
        except NotFound:
            pass
    how = dict(spec["how"])
    aliases = how.pop("aliases", None)
    if aliases:
        how["networking_config"] = {how["network"]: client.api.create_endpoint_config(aliases=aliases)}
    if "ports" in how:
        how["ports"] = {port: tuple(published) for port, published in how["ports"].items()}  # a list would mean several
    # Without its keeper a container is an orphan, unless it waits to be started again.
    keeper = {} if spec["keeps"] else {KEEPER: identity(psutil.Process())}
    labels = {**spec["labels"], **keeper}
    return client.containers.create(how.pop("image"), name=spec["name"], labels=labels, **how)


def main() -> None:
    """Entry point of the keeper."""
    try:
        if sys.argv[1] == SWEEP:
            sys.exit(sweep_until_gone(sys.argv[2]))
        sys.exit(keep(json.loads(Path(sys.argv[1]).read_text())))
    except Exception as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
