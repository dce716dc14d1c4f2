"""Scenarios as scripts: five, drawn by the commit's hash, run with ``python -I`` in an environment without a file of this checkout."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from compose.install import ensure
from compose.install.engines import installed
from compose.install.installation import Installation
from compose.install.releases import DEFAULT
from reports.reproduction.exportable import DUCKDB, EXPORTABLE_CATALOGS, why_not
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
    return (
        why_not(scenario) is None
        and not EXPORTABLE_CATALOGS[scenario.catalog]
        and release_for(scenario).spark == DEFAULT.spark
    )


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


def begun(folder: Path) -> dict[int, str]:
    """The processes whose home is ``folder``, and their command lines."""
    found = {}
    for proc in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"HOME={folder}".encode() in (proc / "environ").read_bytes().split(b"\0"):
                found[int(proc.name)] = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def until(question: Callable[[], bool]) -> bool:
    """Whether the answer becomes yes while the longest script could run."""
    return next((True for _ in range(LONGEST * 20) if question() or time.sleep(0.05)), False)


@pytest.fixture
def written(installation: Installation, jars: Path, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start the script of a scenario, with some of its keys changed, in an environment of its own, at home in ``tmp_path``."""

    def start(name: str, *options: str, **changed: object) -> subprocess.Popen[str]:
        scenario = load(LIBRARY / f"{name}.yaml").model_copy(update=changed)
        file = tmp_path / f"{name}.py"
        file.write_text(script(scenario))
        python = environment(tmp_path / "env", set(scenario.by_writer))
        own = "import sys; print(*sys.path, sep='\\n')"
        path = subprocess.run([python, "-I", "-c", own], capture_output=True, text=True, check=True, cwd=tmp_path)
        assert not any(Path(p).is_relative_to(ROOT) for p in path.stdout.split())
        given = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path),
            "JARS": str(jars),
            "JAVA_HOME": str(installation.java.parents[1]),
        }
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [python, "-I", file, *options], cwd=tmp_path, env=given, stdout=pipe, stderr=pipe, text=True
        )

    return start


@pytest.mark.parametrize(
    "name", [ALWAYS, *(pytest.param(n, marks=pytest.mark.nightly) for n in _drawn() if n != ALWAYS)]
)
def test_a_script_shows_its_scenario_without_icequake_and_ends_what_it_started(
    name: str, written: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    with written(name) as running:
        out, err = running.communicate(timeout=LONGEST)
    assert running.returncode == 0, out + err[-3000:]
    assert f"REPRODUCED: {load(LIBRARY / f'{name}.yaml').shows}" in out
    assert out.startswith("Tests Iceberg ") and ", catalog: Iceberg's" in out
    assert f"\n  with Apache Iceberg {release_for(load(LIBRARY / f'{name}.yaml')).iceberg} (commit " in out
    assert begun(tmp_path) == {} and not [*tmp_path.glob("iceberg-*")]


@pytest.mark.parametrize(
    ("name", "options", "changed", "code", "says"),
    [
        # The same operations by Spark leave the same rows, and a summary that is right.
        (
            "duckdb-summary-count",
            (),
            {"engines": {}},
            1,
            ("ok    ids in t: [0, 1, 2, 3]", "(summary-count): in none of ", "expected and found agree"),
        ),
        # Serializable isolation refuses the DELETE: the rows are those of the defect, and right.
        pytest.param(
            ALWAYS,
            ("--expect", "fixed"),
            {"tables": load(LIBRARY / "undelete-serializable.yaml").tables},
            0,
            ("other delete: ", "the defect does not show: it is fixed there"),
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_a_script_says_so_if_the_defect_is_absent(
    name: str,
    options: tuple[str, ...],
    changed: dict[str, object],
    code: int,
    says: tuple[str, ...],
    written: Callable[..., subprocess.Popen[str]],
) -> None:
    with written(name, *options, **changed) as running:
        out, err = running.communicate(timeout=LONGEST)
    assert running.returncode == code, out + err[-3000:]
    for words in ("NOT REPRODUCED", *says):
        assert words in out


@pytest.mark.parametrize(
    ("sign", "code", "kept"),
    [
        pytest.param(signal.SIGINT, 130, False, marks=pytest.mark.nightly),
        (signal.SIGTERM, 143, False),
        pytest.param(signal.SIGKILL, -9, True, marks=pytest.mark.nightly),
    ],
)
def test_a_script_that_is_stopped_ends_what_it_started(
    sign: signal.Signals, code: int, kept: bool, written: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    """``kept``: the files of a script that was killed stay."""
    with written(ALWAYS) as running:
        assert until(lambda: any("org.apache.spark.deploy" in c for c in begun(tmp_path).values()))
        assert any("RESTCatalogServer" in c for c in begun(tmp_path).values())
        running.send_signal(sign)
        _, err = running.communicate(timeout=LONGEST)
    assert running.returncode == code, err[-3000:]
    assert until(lambda: not begun(tmp_path)), begun(tmp_path)
    assert bool([*tmp_path.glob("iceberg-*")]) is kept
