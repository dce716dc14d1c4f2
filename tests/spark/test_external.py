"""A run in which nothing is ours but the writers: catalog, store and Spark cluster are those of a stack that the test starts outside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from checkers.evidence import history, tablelog_file
from checkers.evidence.runfolder import RunFolder, find
from compose.external.external import External
from compose.install.installation import Installation
from compose.objectstore import ObjectStore
from compose.processes.watchdog import RUN_VARIABLE
from compose.stack.pointers import table_pointer
from compose.stack.stack import Stack
from tests.support.planted import forms_in
from tests.support.runs import environment, icequake
from tests.support.stacks import alone

pytestmark = pytest.mark.spark

LOST = """\
workload: lost
catalog: my.yaml
tables: [{name: t}]
writers: 2
length: {time: 25s}
operations: {insert: 2, update-append: 3, read: 1}
nemesis:
  faults: [{verb: drop-reply, weight: 3}, {verb: kill, target: catalog}, {verb: kill, target: executor}]
  interval: 1s
  duration: 4s
"""
HEADER_SECRET = "what/nobody+may=read:at@all%=="


@dataclass(frozen=True)
class World:
    """What is outside, and the file that describes its catalog."""

    stack: Stack
    run_id: str
    folder: Path

    @property
    def options(self) -> list[str]:
        e = self.stack.endpoints
        return ["--s3", f"{e.s3}/{e.bucket}/theirs", "--spark", e.spark_master]

    @property
    def environment(self) -> dict[str, str]:
        e = self.stack.endpoints
        theirs = {"AWS_ACCESS_KEY_ID": e.access_key, "AWS_SECRET_ACCESS_KEY": e.secret_key}
        return environment(MY_URI=e.catalog_uri, MY_TOKEN=HEADER_SECRET, **theirs)


@pytest.fixture(scope="module")
def world(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A store, a catalog and a Spark cluster, which are not the runs': they must not take them for their own."""
    data = tmp_path_factory.mktemp("world")
    (data / "my.yaml").write_text(
        'name: theirs\nspark: {type: rest, uri: "${MY_URI}", header.x-mine: "${MY_TOKEN}", header.x-key: iq}\ncommit: {wire: http}\n'
    )
    (data / "lost.yaml").write_text(LOST)
    with alone(installation, tmp_path_factory.mktemp("theirs"), External()) as running:
        (run_id,) = {marked()[pid] for pid in pids(running).values() if pid}
        yield World(running, run_id, data)


def pids(stack: Stack) -> dict[str, int | None]:
    return {name: getattr(service, "pid", None) for name, service in stack.services.items()}


def marked() -> dict[int, str]:
    """Processes that belong to some run, and to which."""
    found = {}
    for process in psutil.process_iter():
        try:
            run = process.environ().get(RUN_VARIABLE)
        except psutil.Error:
            continue
        if run is not None:
            found[process.pid] = run
    return found


def everything(folder: RunFolder) -> bytes:
    return b"".join(p.read_bytes() for p in folder.path.rglob("*") if p.is_file())


def only_theirs(world: World, folder: RunFolder) -> None:
    """Of the run nothing is left, and it started no service: it has the logs of writers alone."""
    assert {p.name.partition("-")[0] for p in folder.logs.iterdir()} == {"writer"}
    alive = marked()
    mine = {pid for pid, run in alive.items() if run == world.run_id}
    assert {pid for pid in pids(world.stack).values() if pid} <= mine, "what is theirs still runs"
    namespace = folder.read_plan().namespace
    assert namespace.removeprefix("iq_") not in set(alive.values())
    assert not forms_in(HEADER_SECRET, everything(folder))


def test_the_same_workload_and_checks_on_what_is_not_ours(world: World, tmp_path: Path) -> None:
    before = pids(world.stack)
    where = ["--catalog", world.folder / "my.yaml", *world.options, "--store", tmp_path]
    done = icequake("run", "quick", "--ops", "40", "--writers", "1", *where, env=world.environment)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = find(tmp_path / "quick" / "latest")
    assert pids(world.stack) == before
    only_theirs(world, folder)
    assert not forms_in(HEADER_SECRET, (done.stdout + done.stderr).encode())
    assert "  secrets     header.x-key: a secret with fewer than 8 characters is too short" in done.stdout
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or not forms_in(HEADER_SECRET, path.read_bytes()), path

    e, plan = world.stack.endpoints, folder.read_plan()
    assert plan.catalog is not None and plan.catalog.name == "theirs" and plan.external["spark"] == e.spark_master
    assert not {"rest", "minio", "postgres"} & set(plan.versions)
    results = json.loads(folder.results.read_text())
    assert results["valid"] is True
    assert {"commits", "replay", "reads", "isolation", "linearizable", "metadata"} <= {
        v["checker"] for v in results["checkers"]
    }
    logs = tablelog_file.read_all(folder.tablelog)
    assert set(logs) == {"orders", "events", "accounts"} and all(log.complete for log in logs.values())
    assert len(history.read(folder.history).operations()) == 40 + 3 + 3

    namespace = plan.namespace
    assert f"DROP TABLE theirs.{namespace}.orders PURGE;" in done.stdout
    location = table_pointer(e, namespace, "orders")
    assert location is not None, "the tables stay, as evidence"
    store = ObjectStore(endpoint=e.s3, access_key=e.access_key, secret_key=e.secret_key, region=e.region)
    assert store.exists(location)
    assert store.list(f"s3://{e.bucket}/theirs") == [], "what was written to see whether one may is gone"


def test_lost_acknowledgements_of_a_catalog_that_is_not_ours(world: World, tmp_path: Path) -> None:
    before = pids(world.stack)
    done = icequake(
        "run", world.folder / "lost.yaml", *world.options, "--clean", "--store", tmp_path, env=world.environment
    )
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr
    folder = find(tmp_path / "lost" / "latest")
    assert pids(world.stack) == before, "no fault of processes strikes what is not ours"
    only_theirs(world, folder)
    assert json.loads(folder.results.read_text())["valid"] is not None

    recorded = history.read(folder.history)
    ends = [e for e in recorded.events if e.process == "nemesis" and e.f.startswith("stop-")]
    lost = sum(e.value["hits"].get("commit", 0) for e in ends if e.f.startswith("stop-drop-reply"))
    assert lost > 0, "a commit's answer was lost"
    processes = [e.value for e in ends if e.f.startswith("stop-kill")]
    assert all(v["missed"] == 1 and v["hits"] == {"process": 0} for v in processes)
    proxied = [json.loads(line) for line in folder.proxy.read_text().splitlines()]
    assert any("commit" in str(line) and "drop-reply" in str(line) for line in proxied)

    assert "left" not in done.stdout
    assert table_pointer(world.stack.endpoints, folder.read_plan().namespace, "t") is None, "--clean drops it"


def test_a_store_that_is_not_ours_under_a_catalog_that_is(world: World, tmp_path: Path) -> None:
    e = world.stack.endpoints
    done = icequake(
        *("run", "quick", "--ops", "6", "--writers", "1", "--spark", "local[1]", "--store", tmp_path),
        *("--s3", f"{e.s3}/{e.bucket}/mixed"),
        env=world.environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folder = find(tmp_path / "quick" / "latest")
    assert {p.stem.partition("-")[0] for p in folder.logs.iterdir()} == {"rest", "postgres", "writer"}
    store = ObjectStore(endpoint=e.s3, access_key=e.access_key, secret_key=e.secret_key, region=e.region)
    assert any("/data/" in path for path in store.list(f"s3://{e.bucket}/mixed/rest"))
    assert urlsplit(folder.read_plan().external["store"]).path == f"/{e.bucket}/mixed"
