"""``docker compose`` understands ``compose.yaml`` as icequake does, and its profiles come up."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hive_metastore.ttypes import (
    CheckLockRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    UnlockRequest,
)
from pyiceberg.catalog import Catalog, load_catalog

from compose.catalogs import hive
from compose.docker import composefile
from compose.docker.local import compose_command
from compose.install import engine
from compose.servers.minio import ACCESS_KEY, BUCKET, REGION, SECRET_KEY
from compose.servers.postgres import DATABASE, USER
from tests.docker.conftest import lacking
from tests.support import specified

pytestmark = pytest.mark.docker

VARIABLES = {"ICEQUAKE_REST_PORT": "23456", "ICEQUAKE_MINIO_IMAGE": "my/minio:1", "ICEQUAKE_JDBC_DRIVER": "/somewhere"}


@pytest.fixture(scope="module")
def plugin() -> list[str]:
    """The command, if this machine has the plugin."""
    command = compose_command()
    if subprocess.run([*command, "version"], env=engine.environment(), capture_output=True).returncode != 0:
        pytest.skip("this machine has no `docker compose` (make test-docker brings one where it starts the engine)")
    return command


@pytest.mark.parametrize("profile", composefile.profiles())
def test_compose_and_a_run_read_the_same(plugin: list[str], profile: str) -> None:
    clean = {name: value for name, value in engine.environment().items() if not name.startswith("ICEQUAKE_")}
    done = subprocess.run(
        [*plugin, "--profile", profile, "config", "--format", "json"],
        env={**clean, **VARIABLES},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    theirs: dict[str, Any] = json.loads(done.stdout)["services"]
    ours = {name: spec for name, spec in composefile.read(VARIABLES).items() if profile in spec.profiles}
    assert theirs.keys() == ours.keys()
    for name, spec in ours.items():
        service = theirs[name]
        assert service["image"] == spec.image
        assert service["environment"] == spec.environment
        ports = {int(p["target"]): (p["host_ip"], int(p["published"])) for p in service.get("ports", ())}
        assert ports == spec.ports
        assert int(service["mem_limit"]) == spec.memory and int(service["pids_limit"]) == spec.pids
        # compose doubles the dollars again, so that its output can be its input
        words = [
            None if part is None else [w.replace("$$", "$") for w in part]
            for part in (service["command"], service["entrypoint"])
        ]
        assert words == [None if part is None else [*part] for part in (spec.command, spec.entrypoint)]
        assert [w.replace("$$", "$") for w in service["healthcheck"]["test"]] == spec.healthcheck["test"]
        assert service["healthcheck"]["retries"] == spec.healthcheck["retries"]
        assert (service.get("stop_signal"), service.get("network_mode")) == (spec.stop_signal, spec.network)
        volumes = tuple((v["source"], v["target"]) for v in service.get("volumes", ()))
        assert volumes == spec.volumes and all(v["read_only"] for v in service.get("volumes", ()))


SPECIFIED = Path(specified.__file__)
HEALTHY = {"test": ["CMD", "python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8181/made')"]}


@pytest.mark.parametrize("server", ["polaris", "lakekeeper"])
def test_up_waits_until_the_set_up_service_has_made_the_catalog_and_down_leaves_nothing(
    client: Any, images: dict[str, str], plugin: list[str], tmp_path: Path, server: str
) -> None:
    """The server answers as its specification says, in a container in place of its image; all else is the file's."""
    variables = engine.environment()
    python = variables.get("ICEQUAKE_PYTHON_IMAGE")
    if not python:
        lacking("no image is named by ICEQUAKE_PYTHON_IMAGE: make test-docker")
    override = tmp_path / "override.yaml"
    stands_in: dict[str, Any] = {
        "image": python,
        "entrypoint": ["python3", "/specified.py", server],
        "command": [],
        "volumes": [f"{SPECIFIED}:/specified.py:ro"],
        **({"healthcheck": HEALTHY} if server == "lakekeeper" else {}),
    }
    override.write_text(yaml.safe_dump({"services": {server: stands_in}}))
    ports = {
        f"ICEQUAKE_{name}_PORT": str(free_port())
        for name in ("MINIO", "POSTGRES", server.upper(), "POLARIS_MANAGEMENT")
    }
    project = f"icequake-test-{server}"
    compose = [*plugin, "-f", str(override), "-p", project, "--profile", server]

    def run(*words: str) -> None:
        done = subprocess.run(
            [*compose, *words], env={**variables, **ports}, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr

    try:
        run("up", "--wait")
        address = f"http://127.0.0.1:{ports[f'ICEQUAKE_{server.upper()}_PORT']}/made"
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert json.loads(answer.read()) == ["icequake"]
        run("up", "--wait", "--force-recreate", "--no-deps", f"{server}-setup")  # a second time it takes what is there
    finally:
        run("down", "--volumes")
    mine = {"label": f"com.docker.compose.project={project}"}
    assert client.containers.list(all=True, filters=mine) == client.volumes.list(filters=mine) == []
    assert client.networks.list(filters=mine) == []


@pytest.fixture(scope="module")
def hive4(client: Any, images: dict[str, str], plugin: list[str]) -> Iterator[Hive4]:
    """The profile ``hive4``, up; after its tests it is taken down, and nothing may be left."""
    variables = engine.environment()
    image = variables.get("ICEQUAKE_HIVE4_IMAGE")
    if not image or not client.images.list(image):
        lacking("no image is named by ICEQUAKE_HIVE4_IMAGE: make test-docker")
    ports = {name: free_port() for name in ("MINIO", "POSTGRES", "HIVE4")}
    project = "icequake-test-hive4"
    environment = {**variables, **{f"ICEQUAKE_{name}_PORT": str(port) for name, port in ports.items()}}
    running = Hive4([*plugin, "-p", project, "--profile", "hive4"], environment, ports)
    try:
        running.compose("up", "--wait")
        yield running
    finally:
        running.compose("down", "--volumes")
    mine = {"label": f"com.docker.compose.project={project}"}
    assert client.containers.list(all=True, filters=mine) == client.volumes.list(filters=mine) == []
    assert client.networks.list(filters=mine) == []


@dataclass(frozen=True)
class Hive4:
    """``docker compose`` on the profile, with its environment. ``ports``: service → its published port."""

    command: list[str]
    environment: dict[str, str]
    ports: dict[str, int]

    def compose(self, *words: str) -> str:
        done = subprocess.run(
            [*self.command, *words], env=self.environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def catalog(self) -> Catalog:
        return load_catalog(
            "lake",
            **{
                "type": "hive",
                "uri": f"thrift://127.0.0.1:{self.ports['HIVE4']}",
                "s3.endpoint": f"http://127.0.0.1:{self.ports['MINIO']}",
                "s3.access-key-id": ACCESS_KEY,
                "s3.secret-access-key": SECRET_KEY,
                "s3.region": REGION,
            },
        )

    def schema(self) -> str:
        """The row that ``schematool`` writes: id and version of the schema, and the comment with the time of its making."""
        select = 'SELECT * FROM "VERSION"'
        return self.compose(
            "exec", "-T", "postgres", "psql", "-h", "127.0.0.1", "-U", USER, "-tAc", select, DATABASE
        ).strip()

    def metastore(self) -> hive.client:
        return hive.client("127.0.0.1", self.ports["HIVE4"], 60)


def test_hive_4_keeps_its_tables_when_it_is_killed_and_takes_the_schema_that_it_made(hive4: Hive4) -> None:
    lake = hive4.catalog()
    lake.create_namespace("kept")
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table = lake.create_table("kept.t", rows.schema)
    table.append(rows)
    assert table.location().startswith(f"s3://{BUCKET}/hive4/kept.db/")  # metastore.warehouse.external.dir
    schema = hive4.schema()
    hive4.compose("kill", "hive4")
    hive4.compose("up", "--wait")
    assert schema and hive4.schema() == schema, "it was made once, and neither upgraded nor made again"
    again = hive4.catalog().load_table("kept.t")
    assert again.metadata_location == table.metadata_location
    again.append(rows)
    assert again.scan().to_arrow().num_rows == 6


def test_hive_4_makes_the_folder_of_a_database_in_the_store_by_s3a_and_the_mounted_configuration(hive4: Hive4) -> None:
    hive4.catalog().create_namespace("folder")
    found = hive4.compose("exec", "-T", "minio", "ls", f"/data/{BUCKET}/hive4")
    assert "folder.db__XLDIR__" in found.split()  # MinIO's name on the disk for the object `folder.db/`


def test_hive_4_gives_the_exclusive_lock_of_a_table_to_one_of_two(hive4: Hive4) -> None:
    with hive4.metastore() as metastore:
        first, second = (metastore.lock(exclusive("locks", "t", user)) for user in ("first", "second"))
        assert (first.state, second.state) == (LockState.ACQUIRED, LockState.WAITING)
        metastore.unlock(UnlockRequest(lockid=first.lockid))
        assert metastore.check_lock(CheckLockRequest(lockid=second.lockid)).state == LockState.ACQUIRED
        metastore.unlock(UnlockRequest(lockid=second.lockid))


def exclusive(database: str, table: str, user: str) -> LockRequest:
    """A request for the lock that Iceberg's client takes for a commit."""
    component = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, dbname=database, tablename=table)
    return LockRequest(component=[component], user=user, hostname="localhost")


def test_spark_comes_up_on_loopback_and_goes_without_a_trace(plugin: list[str], client: Any) -> None:
    variables = engine.environment()
    if not os.environ.get("ICEQUAKE_SPARK_IMAGE"):
        lacking("no image is named by ICEQUAKE_SPARK_IMAGE: make test-docker")
    ports = {f"ICEQUAKE_SPARK_{name}_PORT": str(free_port()) for name in ("MASTER", "MASTER_UI", "WORKER_UI")}
    compose = [*plugin, "-p", "icequake-test-spark", "--profile", "spark"]

    def run(*words: str) -> None:
        done = subprocess.run(
            [*compose, *words], env={**variables, **ports}, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr

    def workers() -> list[str]:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{ports['ICEQUAKE_SPARK_MASTER_UI_PORT']}/json/", timeout=30
        ) as a:
            return [one["host"] for one in json.loads(a.read())["workers"] if one["state"] == "ALIVE"]

    try:
        run("up", "--wait")
        deadline = time.monotonic() + 60
        while not workers() and time.monotonic() < deadline:
            time.sleep(0.2)
        assert workers() == ["127.0.0.1"]
        mine = client.containers.list(filters={"label": "com.docker.compose.project=icequake-test-spark"})
        assert {one.attrs["HostConfig"]["NetworkMode"] for one in mine} == {"host"} and len(mine) == 2
    finally:
        run("down", "--volumes")
    assert client.containers.list(all=True, filters={"label": "com.docker.compose.project=icequake-test-spark"}) == []


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])
