"""``icequake run --docker``: its faults strike the containers, the run is valid, and nothing is left."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkers.evidence import history
from checkers.evidence.plan import Plan
from compose.processes.container import LABEL
from tests.support.runs import command, environment, icequake

pytestmark = pytest.mark.docker

WORKLOAD: dict[str, Any] = {
    "workload": "contained",
    "tables": [{"name": "t"}],
    "writers": 1,
    "length": {"ops": 12},
    "operations": {"insert": 2, "update-register": 2, "read": 1},
}
STRIKES = {
    "rest": [
        ("kill", "catalog"),
        ("disconnect", "database"),
        ("fill", "store"),
        ("pause", "store"),
        ("stop", "database"),
    ],
    "jdbc": [("kill", "database"), ("stop", "store"), ("disconnect", "store"), ("restart", "store")],
    "hive": [("kill", "catalog"), ("pause", "catalog")],
    "nessie": [("restart", "catalog"), ("kill", "database")],
}


def left(client: Any) -> list[str]:
    """The names of everything in the engine that has the label of a run."""
    filters = {"label": LABEL}
    found = client.containers.list(all=True, filters=filters, ignore_removed=True)
    return [one.name for one in (*found, *client.networks.list(filters=filters), *client.volumes.list(filters=filters))]


@pytest.mark.parametrize("catalog", STRIKES)
def test_a_run_whose_containers_are_struck_is_valid_and_leaves_nothing(
    client: Any, images: dict[str, str], tmp_path: Path, catalog: str
) -> None:
    volumes = {one.name for one in client.volumes.list()}
    faults = [{"verb": verb, "target": target} for verb, target in STRIKES[catalog]]
    file, store = tmp_path / "contained.yaml", tmp_path / "store"
    nemesis = {"interval": "5s", "duration": "1s", "faults": faults}
    file.write_text(yaml.safe_dump({**WORKLOAD, "nemesis": nemesis}))
    done = icequake("run", file, "--docker", "--catalog", catalog, "--seed", "5", "--store", store, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = (store / "contained" / "latest").resolve()
    plan = Plan.model_validate(yaml.safe_load((folder / "plan.yaml").read_text()))
    used = {name: image for name, image in plan.versions.items() if name in images}
    assert "minio" in used and used == {name: images[name] for name in used}
    assert "--docker" in plan.command
    struck = {e.f for e in history.read(folder / "history.jsonl").events if e.process == "nemesis"}
    assert struck, "the schedule struck nothing"
    assert left(client) == [] and {one.name for one in client.volumes.list()} <= volumes


def test_a_run_whose_harness_is_killed_leaves_nothing(client: Any, images: dict[str, str], tmp_path: Path) -> None:
    volumes = {one.name for one in client.volumes.list()}
    file, store = tmp_path / "contained.yaml", tmp_path / "store"
    file.write_text(yaml.safe_dump({**WORKLOAD, "length": {"time": "10m"}}))
    words = command("run", file, "--docker", "--seed", "5", "--store", store)
    with subprocess.Popen(words, env=environment(), cwd=tmp_path, stdout=subprocess.DEVNULL) as harness:
        try:
            assert eventually(lambda: acknowledged(store) or harness.poll() is not None, 300)
            assert harness.poll() is None and len(left(client)) == 4, "three containers and a network"
        finally:
            harness.send_signal(signal.SIGKILL)
    assert eventually(lambda: left(client) == [], 60), left(client)
    done = icequake("down")
    assert done.returncode == 0 and "removed from the Docker engine" not in done.stdout, done.stdout
    assert {one.name for one in client.volumes.list()} <= volumes


def acknowledged(store: Path) -> bool:
    """Whether an operation of the run has ended well."""
    lines = [line for file in store.glob("contained/*/history.jsonl") for line in file.read_text().splitlines(True)]
    return any(json.loads(line).get("type") == "ok" for line in lines if line.endswith("\n"))


def eventually(condition: Any, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.2)
    return bool(condition())


def test_faults_of_containers_need_containers(tmp_path: Path) -> None:
    file = tmp_path / "contained.yaml"
    file.write_text(yaml.safe_dump({**WORKLOAD, "nemesis": {"faults": [{"verb": "fill", "target": "store"}]}}))
    done = icequake("run", file, "--store", tmp_path / "store")
    assert done.returncode == 254
    assert "the fault fill store strikes containers only: run with --docker, or leave it out" in done.stderr


def test_a_disk_in_memory_is_not_combined_with_faults_that_would_lose_it(tmp_path: Path) -> None:
    file = tmp_path / "contained.yaml"
    faults = [{"verb": "fill", "target": "store"}, {"verb": "kill", "target": "store"}]
    file.write_text(yaml.safe_dump({**WORKLOAD, "nemesis": {"faults": faults}}))
    done = icequake("run", file, "--docker", "--store", tmp_path / "store")
    assert done.returncode == 254 and "would be lost by kill of the store: leave one of them out" in done.stderr
