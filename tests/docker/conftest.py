"""The engine and the stand-in images that ``make test-docker`` has started and built."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from compose.docker import local, packets, services
from compose.external.external import External
from compose.install.installation import Installation
from compose.processes.container import CONTAINER_LABEL, engine
from compose.processes.service import ServiceError
from compose.processes.watchdog import Watchdog
from compose.stack.stack import Stack


def lacking(what: str) -> NoReturn:
    """Skip the test; fail it where an engine is promised (``compose.docker.local``)."""
    if local.promised():
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A client of the engine."""
    try:
        found = engine("the tests")
    except ServiceError as e:
        lacking(f"{e} (make test-docker)")
    yield found
    found.close()


@pytest.fixture(scope="session")
def images(client: Any) -> dict[str, str]:
    """The images of the services that are tried here."""
    from docker.errors import ImageNotFound

    if not os.environ.get("ICEQUAKE_MINIO_IMAGE"):
        lacking("no images are named by ICEQUAKE_MINIO_IMAGE and others: make test-docker")
    wanted = services.images(dict.fromkeys(("minio", "postgres", "rest", "hive", "nessie", "spark-worker")))
    for image in (*wanted.values(), packets.image()):
        try:
            client.images.get(image)
        except ImageNotFound:
            lacking(f"the engine has no image {image} (make test-docker builds stand-ins)")
    return wanted


Make = Callable[..., Stack]


@contextmanager
def maker(installation: Installation, logs: Path) -> Iterator[Make]:
    """Stacks in containers without a Spark cluster; their data folder goes at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="icequake-test-docker-") as name:
        data = Path(name)

        def stack(**settings: Any) -> Stack:
            return Stack(
                installation,
                run_id=data.name,
                data=data / "services",
                logs=logs,
                external=External(master="local[1]"),
                docker=True,
                **settings,
            )

        with Watchdog(data.name):
            yield stack


@pytest.fixture
def make(images: dict[str, str], installation: Installation, tmp_path: Path) -> Iterator[Make]:
    """Stacks for one test."""
    with maker(installation, tmp_path / "logs") as stack:
        yield stack


@pytest.fixture(scope="module")
def stack(
    images: dict[str, str], installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """A running stack that the tests of a file share; each leaves it as it was."""
    with maker(installation, tmp_path_factory.mktemp("logs")) as make, make() as running:
        yield running


def left(client: Any, run_id: str) -> list[str]:
    """The names of everything that a run has in the engine."""
    filters = {"label": f"{CONTAINER_LABEL}={run_id}"}
    found = [c.name for c in client.containers.list(all=True, filters=filters, ignore_removed=True)]
    return found + [one.name for kind in (client.volumes, client.networks) for one in kind.list(filters=filters)]
