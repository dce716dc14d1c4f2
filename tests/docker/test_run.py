"""``icequake run --docker``: its faults strike the containers, the run is valid, and nothing is left."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkers.evidence import history
from checkers.evidence.plan import Plan
from compose.processes.container import CONTAINER_LABEL, SERVICE, address
from tests.docker.conftest import left
from tests.support.runs import ROOT, command, environment, icequake

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
        ("drop-packets", "database"),
    ],
    "hive": [("kill", "catalog"), ("pause", "catalog")],
    "nessie": [("restart", "catalog"), ("kill", "database")],
}


def run_of(folder: Path) -> str:
    """The id of a run, which its namespace has."""
    return plan_of(folder).namespace.removeprefix("iq_")


@pytest.mark.parametrize("catalog", STRIKES)
def test_a_run_whose_containers_are_struck_is_valid_and_leaves_nothing(
    client: Any, images: dict[str, str], tmp_path: Path, catalog: str
) -> None:
    volumes = {one.name for one in client.volumes.list()}
    faults = [{"verb": verb, "target": target} for verb, target in STRIKES[catalog]]
    file, store = tmp_path / "contained.yaml", tmp_path / "store"
    nemesis = {"interval": "5s", "duration": "1s", "faults": faults}
    file.write_text(yaml.safe_dump({**WORKLOAD, "nemesis": nemesis}))
    words = ("--docker", "--catalog", catalog, "--spark", "local[1]", "--seed", "5", "--store", store)
    done = icequake("run", file, *words, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = (store / "contained" / "latest").resolve()
    plan = plan_of(folder)
    used = {name: image for name, image in plan.versions.items() if name in images}
    assert "minio" in used and used == {name: images[name] for name in used}
    assert "--docker" in plan.command
    struck = {e.f for e in history.read(folder / "history.jsonl").events if e.process == "nemesis"}
    assert struck, "the schedule struck nothing"
    assert left(client, run_of(folder)) == [] and {one.name for one in client.volumes.list()} <= volumes


def plan_of(folder: Path) -> Plan:
    return Plan.model_validate(yaml.safe_load((folder / "plan.yaml").read_text()))


def test_the_readme_s_command_needs_no_other_option(client: Any, images: dict[str, str], tmp_path: Path) -> None:
    """Its store is the default one, a folder of the current one. Fewer operations than by itself."""
    (line,) = re.findall(r"`\./icequake (run [^`]*--docker)`", (ROOT / "README.md").read_text())
    done = icequake(*shlex.split(line), "--ops", "40", "--seed", "5", cwd=tmp_path, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = (tmp_path / "store" / "latest").resolve()
    assert folder.parent == tmp_path / "store" / "quick" and f"{tmp_path}/store/quick/" in done.stdout
    assert left(client, run_of(folder)) == []


def test_the_line_that_is_said_without_an_engine_starts_one_for_any_command(
    client: Any, images: dict[str, str], tmp_path: Path
) -> None:
    """Typed by a user, whose Python has no package of icequake, in a folder of their own; here an engine answers already."""
    nowhere = environment(DOCKER_HOST=f"unix://{tmp_path}/docker.sock")
    said = icequake("run", "quick", "--docker", env=nowhere, cwd=tmp_path)
    assert said.returncode == 255 and not (tmp_path / "store").exists()
    line = (
        said.stderr.partition("stand-in images, by `")[2].partition("`")[0].replace("COMMAND", "printenv DOCKER_HOST")
    )
    of_icequake = ("PYTHONPATH", "VIRTUAL_ENV", "ICEQUAKE_PYTHONPATH", "ICEQUAKE_COMMAND")
    mine = {name: value for name, value in environment().items() if name not in of_icequake}
    mine["PATH"] = os.pathsep.join(
        one for one in mine["PATH"].split(os.pathsep) if Path(one) != Path(sys.prefix, "bin")
    )
    done = subprocess.run(line, shell=True, env=mine, cwd=tmp_path, capture_output=True, text=True, timeout=580)
    assert (done.returncode, done.stdout) == (0, f"{address()}\n"), line + done.stderr


def test_a_full_scratch_disk_and_the_deaths_of_worker_and_driver_strike_and_heal(
    client: Any, images: dict[str, str], tmp_path: Path
) -> None:
    """Spark's master, workers and drivers are containers, too."""
    faults = [
        {"verb": "fill", "target": "spark-worker", "duration": "10s"},
        {"verb": "kill", "target": "spark-worker"},
        {"verb": "kill", "target": "driver"},
    ]
    nemesis = {"interval": "2s", "duration": "4s", "faults": faults}
    spec = {**WORKLOAD, "writers": 2, "length": {"time": "40s"}, "operations": {"insert": 1}}
    file, store = tmp_path / "contained.yaml", tmp_path / "store"
    file.write_text(yaml.safe_dump({**spec, "nemesis": nemesis}))
    done = icequake("run", file, "--docker", "--seed", str(FILLS_FIRST), "--store", store, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = (store / "contained" / "latest").resolve()
    assert plan_of(folder).versions["spark-image"] == images["spark-worker"]
    recorded = history.read(folder / "history.jsonl")
    struck = [e for e in recorded.events if e.process == history.NEMESIS and e.f.startswith("stop-")]
    assert [e.f for e in struck[:3]] == ["stop-fill-spark-worker", "stop-kill-driver", "stop-kill-spark-worker"]
    assert all(e.value["hits"] == {"process": 1} for e in struck)
    operations = recorded.operations()
    (began,) = (e.time for e in recorded.events if e.process == history.NEMESIS and e.f == "start-fill-spark-worker")
    refused = [o for o in operations if o.type == "fail" and o.end is not None and began < o.end < struck[0].time]
    assert any("java.io.IOException" in json.dumps(o.error) for o in refused), "no scratch file had room"
    assert any(o.type == "ok" and o.start > struck[-1].time for o in operations)
    assert left(client, run_of(folder)) == []


FILLS_FIRST = 9
"""A seed whose first three faults are the three."""


def test_a_run_whose_harness_is_killed_leaves_nothing(client: Any, images: dict[str, str], tmp_path: Path) -> None:
    volumes = {one.name for one in client.volumes.list()}
    file, store = tmp_path / "contained.yaml", tmp_path / "store"
    file.write_text(yaml.safe_dump({**WORKLOAD, "length": {"time": "10m"}}))
    words = command("run", file, "--docker", "--seed", "5", "--store", store)
    with subprocess.Popen(words, env=environment(), cwd=tmp_path, stdout=subprocess.DEVNULL) as harness:
        try:
            assert eventually(lambda: acknowledged(store) or harness.poll() is not None, 300)
            assert harness.poll() is None
            run = run_of((store / "contained" / "latest").resolve())
            services = {"minio", "postgres", "rest", "spark-master", "spark-worker-1", "spark-worker-2", "w0"}
            there = client.containers.list(filters={"label": f"{CONTAINER_LABEL}={run}"})
            assert {one.labels[SERVICE] for one in there} == services
            assert len(left(client, run)) == len(services) + 1, "a network, too"
        finally:
            harness.send_signal(signal.SIGKILL)
    assert eventually(lambda: left(client, run) == [], 60), left(client, run)
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


@pytest.mark.parametrize(
    ("catalog", "filled", "killed"),
    [("rest", "store", "store"), ("rest", "database", "database"), ("jdbc", "database", "catalog")],
)
def test_a_disk_in_memory_is_not_combined_with_faults_that_would_lose_it(
    tmp_path: Path, catalog: str, filled: str, killed: str
) -> None:
    file = tmp_path / "contained.yaml"
    faults = [{"verb": "fill", "target": filled}, {"verb": "kill", "target": killed}]
    file.write_text(yaml.safe_dump({**WORKLOAD, "catalog": catalog, "nemesis": {"faults": faults}}))
    done = icequake("run", file, "--docker", "--store", tmp_path / "store")
    assert done.returncode == 254 and f"would be lost by kill of the {filled}: leave one of them out" in done.stderr


def test_an_image_that_strikes_packets_and_cannot_be_had_is_said(
    client: Any, images: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "contained.yaml"
    faults = [{"verb": "reset-connections", "target": "store"}]
    file.write_text(yaml.safe_dump({**WORKLOAD, "nemesis": {"faults": faults}}))
    given = environment(ICEQUAKE_NETWORK_IMAGE="localhost:1/no/such:image")
    done = icequake("run", file, "--docker", "--store", tmp_path / "store", env=given)
    assert done.returncode == 255 and done.stderr.count("\n") == 1
    assert "network: the image localhost:1/no/such:image cannot be pulled" in done.stderr
