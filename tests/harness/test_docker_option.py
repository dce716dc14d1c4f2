"""``icequake run --docker``: what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.runs import inside

NOWHERE = "unix:///nowhere/docker.sock"
DATABASE_FAULT = {
    "workload": "w",
    "writers": 1,
    "tables": [{"name": "t"}],
    "operations": {"insert": 1},
    "length": {"operations": 4},
    "nemesis": {"interval": 1, "faults": [{"verb": "refuse", "service": "database", "seconds": 1}]},
}


def test_without_an_engine_one_line_says_so(tmp_path: Path) -> None:
    done = inside("run", "quick", "--docker", cwd=tmp_path, DOCKER_HOST=NOWHERE)
    assert done.returncode == 255
    (line,) = done.stderr.splitlines()
    assert line.startswith("icequake: docker: needs Docker, and no engine answers (no socket); start a Docker engine")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("catalog", ["hive", "glue"])
def test_a_catalog_without_a_container_is_refused(tmp_path: Path, catalog: str) -> None:
    done = inside("run", "quick", "--docker", "--catalog", catalog, cwd=tmp_path, DOCKER_HOST=NOWHERE)
    assert done.returncode == 254 and "--docker has no container for" in done.stderr


def test_a_fault_that_no_proxy_can_carry_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(DATABASE_FAULT))
    done = inside("run", "w.yaml", "--docker", cwd=tmp_path, DOCKER_HOST=NOWHERE)
    assert done.returncode == 254 and "a fault has `service: database`" in done.stderr, done.stderr
