"""``icequake run --docker``: what is refused before anything starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from docker.errors import APIError, ImageNotFound

from compose.processes import container
from compose.processes.service import ServiceError
from tests.support.runs import environment, inside

NOWHERE = "unix:///nowhere/docker.sock"
DATABASE_FAULT = {
    "workload": "w",
    "writers": 1,
    "tables": [{"name": "t"}],
    "operations": {"insert": 1},
    "length": {"ops": 4},
    "nemesis": {"interval": "1s", "faults": [{"verb": "refuse", "service": "database"}]},
}

UNREACHED = (
    'Get "https://registry.example.org/v2/": dial tcp: lookup registry.example.org on 192.168.65.7:53: no such host'
)
SCRATCH = {"faults": [{"verb": "fill", "target": "spark-worker"}]}


def test_without_an_engine_one_line_says_so(tmp_path: Path) -> None:
    done = inside("run", "quick", "--docker", cwd=tmp_path, DOCKER_HOST=NOWHERE)
    assert done.returncode == 255
    (line,) = done.stderr.splitlines()
    assert line.startswith("icequake: docker: needs Docker, and no engine answers (no socket); start a Docker engine")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("command", ["soak", "prove", "compare", "certify"])
def test_other_commands_than_run_say_where_containers_are_described(tmp_path: Path, command: str) -> None:
    done = inside(command, "--docker", cwd=tmp_path)
    assert done.returncode == 254 and "--docker; only `run` has it. docs/docker.md has" in done.stderr


@pytest.mark.parametrize("catalog", ["hive-nolock", "glue"])
def test_a_catalog_without_a_container_is_refused(tmp_path: Path, catalog: str) -> None:
    done = inside("run", "quick", "--docker", "--catalog", catalog, cwd=tmp_path, DOCKER_HOST=NOWHERE)
    assert done.returncode == 254 and "--docker has no container for" in done.stderr


def test_a_fault_that_no_proxy_can_carry_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(DATABASE_FAULT))
    done = inside("run", "w.yaml", "--docker", cwd=tmp_path, DOCKER_HOST=NOWHERE)
    assert done.returncode == 254 and "a fault has `service: database`" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "keys", "said"),
    [
        (["--on-host", "drivers"], {}, "--on-host drivers: without --docker all of Spark runs on this machine"),
        (
            ["--docker", "--on-host", "driver"],
            {},
            "--on-host driver: unknown value 'driver' (did you mean drivers?); allowed: drivers, spark",
        ),
        (
            ["--docker", "--on-host", "spark", "--spark", "local[1]"],
            {},
            "--on-host spark: --spark names a master of your own; --on-host drivers keeps the drivers on this machine",
        ),
        (["--docker"], {"clocks": {"0": "-2h"}}, "keep the drivers on this machine by --on-host drivers"),
        (["--docker", "--on-host", "spark"], {"nemesis": SCRATCH}, "leave out --on-host spark, or the fault"),
        (["--docker", "--spark", "local[1]"], {"nemesis": SCRATCH}, "and cluster: local has none; write cluster: sta"),
        ([], {"nemesis": SCRATCH}, "fill spark-worker strikes containers only: run with --docker, or leave it out"),
    ],
)
def test_what_of_spark_cannot_be_so_is_one_line(
    tmp_path: Path, words: list[str], keys: dict[str, object], said: str
) -> None:
    given = {key: value for key, value in {**DATABASE_FAULT, **keys}.items() if key != "nemesis" or key in keys}
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(given))
    done = inside("run", "w.yaml", *words, cwd=tmp_path, DOCKER_HOST=NOWHERE)
    assert done.returncode == 254 and done.stderr.count("\n") == 1 and said in done.stderr, done.stderr
    assert not (tmp_path / "store").exists()


FORBIDDEN = """
import os, sys
import docker, psutil, requests.adapters
from compose.processes import container, service
os.setegid(65534)
os.seteuid(65534)
try:
    container.engine("docker")
except service.ServiceError as e:
    print(e)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_without_permission_one_line_says_so() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/docker.sock")
        Path(folder, "docker.sock").chmod(0o600)
        Path(folder).chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", FORBIDDEN],
            env=environment(DOCKER_HOST=f"unix://{folder}/docker.sock"),
            capture_output=True,
            text=True,
        )
    said = "docker: needs Docker, and no engine answers (no permission to use its socket); start a Docker engine"
    assert done.stdout.strip() == said, done.stderr


class NoRegistry:
    """An engine without any image, which reaches no registry."""

    images: NoRegistry

    def __init__(self) -> None:
        self.images = self

    def get(self, image: str) -> None:
        raise ImageNotFound(image)

    def pull(self, image: str) -> None:
        address = f"http+docker://localhost/v1.47/images/create?tag=latest&fromImage={image}"
        raise APIError(f"500 Server Error for {address}: Internal Server Error", explanation=UNREACHED)


def test_why_an_image_cannot_be_pulled_is_said_whole() -> None:
    with pytest.raises(ServiceError) as e:
        container.have(NoRegistry(), "spark", "example/spark:4.1.4-scala2.13-java17-python3-ubuntu")
    assert UNREACHED in str(e.value)
