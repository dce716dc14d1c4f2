"""A service in a container is a service: it starts, is struck, comes back, and ends however its keeper ends."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from compose.install.installation import Installation
from compose.processes.container import CONTAINER_LABEL, KEEPER, Container, engine
from compose.processes.ports import LOOPBACK, Ports
from compose.processes.process import NotReady, http_get
from compose.processes.service import Service, ServiceError
from compose.processes.watchdog import Watchdog
from tests.docker.conftest import lacking

pytestmark = pytest.mark.docker

IMAGE = "icequake-test/minio:local"
RUN = "container-test"


@pytest.fixture(scope="module")
def docker_engine() -> Iterator[Any]:
    """A client of a Docker engine."""
    try:
        client = engine("the tests")
    except ServiceError as e:
        lacking(f"no Docker engine: {e}")
    yield client
    client.close()


@pytest.fixture(scope="module")
def image(docker_engine: Any, installation: Installation) -> Iterator[str]:
    """MinIO as an image of one file: no registry is needed."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.add(installation.minio, "minio")
    changes = ['CMD ["/minio", "server", "/data"]']
    docker_engine.api.import_image_from_data(content.getvalue(), *IMAGE.split(":"), changes=changes)
    yield IMAGE
    docker_engine.images.remove(IMAGE, force=True)


class Store(Container):
    """The server of the image."""

    name_of_image = IMAGE

    def image(self) -> str:
        return self.name_of_image

    def settings(self) -> Mapping[str, str]:
        return {
            "MINIO_ADDRESS": f"{LOOPBACK}:{self.port()}",
            "MINIO_ROOT_USER": "admin",
            "MINIO_ROOT_PASSWORD": "my secret",
        }

    def probe(self, timeout: float) -> None:
        status, _ = http_get(f"http://{LOOPBACK}:{self.port()}/minio/health/cluster", timeout)
        if status != 200:
            raise NotReady(f"it answers {status}")


def store(tmp_path: Path) -> Store:
    return Store("store", run_id=RUN, ports=Ports(), port_names=["store"], folder=tmp_path, log=tmp_path / "store.log")


@pytest.fixture
def service(tmp_path: Path, image: str) -> Iterator[Store]:
    made = store(tmp_path)
    with made:
        yield made


def containers(client: Any) -> list[Any]:
    return list(client.containers.list(all=True, filters={"label": f"{CONTAINER_LABEL}={RUN}"}))


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def answers(service: Store) -> bool:
    try:
        service.probe(1)
    except (NotReady, OSError):
        return False
    return True


def test_it_answers_prints_into_its_log_and_leaves_nothing(docker_engine: Any, image: str, tmp_path: Path) -> None:
    made = store(tmp_path)
    assert isinstance(made, Service)
    with made:
        (one,) = containers(docker_engine)
        assert one.status in ("running", "created") and one.labels[KEEPER].startswith(f"{made.pid}/")
        assert eventually(lambda: bool(made.logs().read_text()))
        assert (tmp_path / "spec.json").stat().st_mode & 0o077 == 0, "its password is for nobody else"
        assert "my secret" not in " ".join(psutil.Process(made.pid).cmdline())
    assert containers(docker_engine) == [] and not answers(made)


def test_it_is_killed_and_comes_back_on_its_port(docker_engine: Any, service: Store) -> None:
    port = service.port()
    service.kill()
    assert not service.running and containers(docker_engine) == [] and not answers(service)
    service.start()
    service.ready(60)
    assert service.port() == port and answers(service)


def test_it_is_paused_and_goes_on(docker_engine: Any, service: Store) -> None:
    service.pause()
    assert containers(docker_engine)[0].attrs["State"]["Status"] == "paused" and not answers(service)
    service.resume()
    assert eventually(lambda: answers(service))


def test_its_end_is_seen_as_a_process_s(docker_engine: Any, service: Store) -> None:
    containers(docker_engine)[0].kill()
    assert eventually(lambda: not service.running) and eventually(lambda: containers(docker_engine) == [])


def test_the_watchdog_ends_it_when_the_harness_cannot(docker_engine: Any, service: Store) -> None:
    watchdog = Watchdog(RUN)
    watchdog.start()
    watchdog.close()
    # On a busy machine it ends the keeper while the engine is still removing the container.
    assert eventually(lambda: containers(docker_engine) == []) and not answers(service)


def test_what_a_killed_keeper_left_goes_at_the_next_start(docker_engine: Any, service: Store, tmp_path: Path) -> None:
    assert service.pid is not None
    os.kill(service.pid, signal.SIGKILL)
    assert eventually(lambda: not service.running)
    (left,) = containers(docker_engine)
    other = Store(
        "other", run_id=RUN, ports=Ports(), port_names=["other"], folder=tmp_path / "o", log=tmp_path / "o.log"
    )
    with other:
        assert left.id not in {c.id for c in containers(docker_engine)} and len(containers(docker_engine)) == 1


def test_an_image_that_cannot_be_had_is_said(docker_engine: Any, tmp_path: Path) -> None:
    made = store(tmp_path)
    made.name_of_image = "localhost:1/no/such:image"
    with pytest.raises(ServiceError, match=r"store: the image localhost:1/no/such:image cannot be pulled"):
        made.start()
    with contextlib.suppress(FileNotFoundError):
        assert "no/such" not in json.loads((tmp_path / "spec.json").read_text())["image"]
