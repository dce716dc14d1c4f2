"""``docker compose`` understands ``compose.yaml`` as icequake does."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from compose.docker import composefile
from compose.docker.local import compose_command
from compose.install import engine

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
        assert service.get("stop_signal") == spec.stop_signal
        volumes = tuple((v["source"], v["target"]) for v in service.get("volumes", ()))
        assert volumes == spec.volumes and all(v["read_only"] for v in service.get("volumes", ()))
