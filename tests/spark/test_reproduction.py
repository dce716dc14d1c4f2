"""Scenarios as scripts: five, drawn by the commit's hash, run with ``python -I`` in an environment without a file of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from compose.install import ensure
from compose.install.engines import installed
from compose.install.installation import Installation
from compose.install.releases import DEFAULT
from reports.reproduction.exportable import CATALOGS, DUCKDB, why_not
from reports.reproduction.script import release_for, script
from tests.support.runs import ROOT
from workloads.file.scenario import LIBRARY, Scenario, load

pytestmark = pytest.mark.spark

ALWAYS = "undelete"
"""Each push runs this one, a night those that are drawn, too."""

DRAWN = 5
LONGEST = 300
"""Seconds of one script."""


def _runnable(scenario: Scenario) -> bool:
    """Whether a script needs only what the set-up brings: a catalog that it starts itself, and the newest release's Spark."""
    return why_not(scenario) is None and not CATALOGS[scenario.catalog] and release_for(scenario).spark == DEFAULT.spark


def _drawn() -> list[str]:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    among = [path.stem for path in sorted(LIBRARY.glob("*.yaml")) if _runnable(load(path))]
    return sorted(Random(head.stdout.strip()).sample(among, DRAWN))


@pytest.fixture(scope="module")
def jars(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the jars of the set-up, by their names, as a script looks for them."""
    ensure.ensure(confs=("sqlite",))
    folder = tmp_path_factory.mktemp("jars")
    for conf in ("spark", "rest", "sqlite"):
        for jar in ensure.paths(installation, conf):
            if not (folder / jar.name).exists():
                (folder / jar.name).symlink_to(jar)
    return folder


def environment(folder: Path, engines: set[str]) -> Path:
    """The Python of an environment of its own, with the packages of the set-up and without this checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    sites = [str(Path(pytest.__file__).parents[1]), *(installed(DUCKDB).python_path if DUCKDB in engines else ())]
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "linked.pth").write_text("".join(f"{s}\n" for s in sites))
    return folder / "bin" / "python"


@pytest.mark.parametrize(
    "name", [ALWAYS, *(pytest.param(n, marks=pytest.mark.nightly) for n in _drawn() if n != ALWAYS)]
)
def test_a_script_shows_its_scenario_without_icequake(
    name: str, installation: Installation, jars: Path, tmp_path: Path
) -> None:
    scenario = load(LIBRARY / f"{name}.yaml")
    file = tmp_path / f"{name}.py"
    file.write_text(script(scenario))
    python = environment(tmp_path / "env", set(scenario.by_writer))
    own = "import sys; print(*sys.path, sep='\\n')"
    path = subprocess.run([python, "-I", "-c", own], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert not any(Path(p).is_relative_to(ROOT) for p in path.split())
    given = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "JARS": str(jars),
        "JAVA_HOME": str(installation.java.parents[1]),
    }
    done = subprocess.run(
        [python, "-I", file], cwd=tmp_path, env=given, capture_output=True, text=True, timeout=LONGEST
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert f"REPRODUCED: {scenario.shows}" in done.stdout
