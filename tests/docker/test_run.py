"""``icequake run --docker``: its faults strike the containers, the run is valid, and nothing is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from checkers.evidence import history
from checkers.evidence.plan import Plan
from compose.processes.container import LABEL
from tests.support.runs import icequake

pytestmark = pytest.mark.docker

WORKLOAD: dict[str, Any] = {
    "workload": "contained",
    "tables": [{"name": "t"}],
    "writers": 1,
    "length": {"time": "30s"},
    "operations": {"insert": 2, "update-register": 2, "read": 1},
}
STRIKES = {
    "rest": [("kill", "catalog"), ("pause", "store"), ("stop", "database"), ("restart", "store")],
    "jdbc": [("kill", "database"), ("stop", "store"), ("pause", "database"), ("restart", "store")],
}


@pytest.mark.parametrize("catalog", STRIKES)
def test_a_run_whose_containers_are_struck_is_valid_and_leaves_nothing(
    client: Any, images: dict[str, str], tmp_path: Path, catalog: str
) -> None:
    faults = [{"verb": verb, "target": target} for verb, target in STRIKES[catalog]]
    file, store = tmp_path / "contained.yaml", tmp_path / "store"
    nemesis = {"interval": "4s", "duration": "2s", "faults": faults}
    file.write_text(yaml.safe_dump({**WORKLOAD, "nemesis": nemesis}))
    done = icequake("run", file, "--docker", "--catalog", catalog, "--seed", "5", "--store", store, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = (store / "contained" / "latest").resolve()
    plan = Plan.model_validate(yaml.safe_load((folder / "plan.yaml").read_text()))
    assert plan.versions["minio"] == images["minio"] and plan.versions["postgres"] == images["postgres"]
    assert "--docker" in plan.command
    struck = {e.f for e in history.read(folder / "history.jsonl").events if e.process == "nemesis"}
    assert struck, "the schedule struck nothing"
    filters = {"label": LABEL}
    left = [
        *client.containers.list(all=True, filters=filters, ignore_removed=True),
        *client.networks.list(filters=filters),
    ]
    assert left == []
