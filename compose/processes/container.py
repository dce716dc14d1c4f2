"""A service in a container: a small local process, its keeper, starts it, passes on what it prints, and ends it.

The keeper is a service like any other. It is marked with the run, so the watchdog ends it when the harness cannot, and the container with it.
If the keeper itself was killed, the next start finds its containers by their label.

Run as a program::

    python -m compose.processes.container spec.json
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from compose.processes.ports import Ports
from compose.processes.process import LocalProcess, base_environment
from compose.processes.service import ServiceError

LABEL = "icequake.run"
KEEPER = "icequake.keeper"
"""Label with the keeper's process id and start time."""
CLIENT_SECONDS = 60
NEEDS_DOCKER = "start a Docker engine"


def engine(service: str, remedy: str = NEEDS_DOCKER) -> Any:
    """A client of the Docker engine. Raises ServiceError, in one line, if none answers."""
    import docker
    from docker.errors import DockerException

    try:
        knock()
        client = docker.from_env(timeout=CLIENT_SECONDS)
        client.ping()
    except (DockerException, OSError) as e:
        raise ServiceError(service, f"needs Docker, and no engine answers ({_short(e)})", remedy=remedy) from e
    return client


def knock(timeout: float = 3.0) -> None:
    """Connect to the engine's Unix socket, and hang up. Raises OSError when no engine listens there.

    Docker's own client leaks the socket of a failed connection. This does not check a remote engine (``DOCKER_HOST=tcp://…``).
    """
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
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
    return text[:200]


class Container(LocalProcess):
    """A server in a container that shares this machine's network, so that its ports are on loopback.

    ``folder`` holds the container's specification, readable by its owner only: it may hold a password.
    """

    remedy = NEEDS_DOCKER

    def __init__(self, name: str, *, run_id: str, ports: Ports, port_names: Sequence[str], folder: Path, log: Path):
        super().__init__(name, run_id=run_id, ports=ports, port_names=port_names, folder=folder, log=log)
        self._container = f"icequake-{run_id}-{name}"

    @abstractmethod
    def image(self) -> str:
        """The image, with tag."""

    @abstractmethod
    def settings(self) -> Mapping[str, str]:
        """The container's environment. Called at every start."""

    def argv(self) -> Sequence[str]:
        return [sys.executable, "-m", "compose.processes.container", str(self.folder / "spec.json")]

    def environment(self) -> Mapping[str, str]:
        docker = {k: v for k, v in os.environ.items() if k.startswith("DOCKER_")}
        return {**base_environment(), **docker, "PYTHONPATH": str(Path(__file__).parents[2])}

    def prepare(self) -> None:
        client = engine(self.name, self.remedy)
        try:
            have(client, self.name, self.image(), self.remedy)
        finally:
            client.close()
        spec = self.folder / "spec.json"
        spec.touch(mode=0o600)
        labels = {LABEL: self._run_id}
        spec.write_text(
            json.dumps(
                {"name": self._container, "image": self.image(), "environment": dict(self.settings()), "labels": labels}
            )
        )

    def kill(self) -> None:
        with self._lock:
            self._tell("kill")
            super().kill()
            self._tell("remove")

    def stop(self) -> None:
        with self._lock:
            was_there = self._process is not None
            super().stop()
            if was_there:
                self._tell("remove")  # normally the keeper has removed it already

    def pause(self) -> None:
        if not self.running:
            raise self.error("cannot be paused: it is not running")
        if not self._tell("pause"):
            raise self.error("cannot be paused: its container is not running")

    def resume(self) -> None:
        self._tell("unpause")

    def _tell(self, what: str) -> bool:
        """Send the engine a command for the container; False if the container does not exist or is in the wrong state."""
        from docker.errors import APIError, NotFound

        client = engine(self.name, self.remedy)
        try:
            container = client.containers.get(self._container)
            if what == "remove":
                container.remove(force=True)
            else:
                getattr(container, what)()
        except (NotFound, APIError):
            return False
        finally:
            client.close()
        return True

    def _check_ports_are_its_own(self, process: Any) -> None:
        """No check: the container owns the ports, and it is not a child of this process."""


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


def _orphans(client: Any) -> None:
    """Remove containers whose keeper is gone."""
    from docker.errors import DockerException

    for container in client.containers.list(all=True, filters={"label": KEEPER}):
        pid, _, began = container.labels[KEEPER].partition("/")
        try:
            lives = abs(psutil.Process(int(pid)).create_time() - float(began)) < 1
        except (psutil.Error, ValueError):
            lives = False
        if not lives:
            try:
                container.remove(force=True)
            except DockerException:
                pass  # another process removed it first


def keep(spec: Mapping[str, Any]) -> int:
    """Run a container until it or this process ends. Returns the container's exit code."""
    from docker.errors import NotFound

    client = engine(str(spec["name"]))
    _orphans(client)
    me = psutil.Process()
    container = client.containers.create(
        spec["image"],
        name=spec["name"],
        environment=spec["environment"],
        labels={**spec["labels"], KEEPER: f"{me.pid}/{me.create_time()}"},
        network_mode="host",
    )

    def end(*_: object) -> None:
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        container.start()
        for part in container.logs(stream=True, follow=True):
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
        return int(container.wait()["StatusCode"])
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        try:
            container.remove(force=True)
        except NotFound:
            pass


def main() -> None:
    """Entry point of the keeper."""
    try:
        sys.exit(keep(json.loads(Path(sys.argv[1]).read_text())))
    except Exception as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
