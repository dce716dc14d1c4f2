"""The Dockerfile of the harness: it copies all that icequake imports, and its last stage runs as a user without rights."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import harness
from compose.catalogs import nessie
from compose.catalogs.moto import MOTO_LOCK
from compose.catalogs.registry import CATALOGS
from compose.install import jdk
from compose.setup import needed
from workloads.file import suite

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "compose" / "docker" / "harness" / "Dockerfile").read_text()
LAST = TEXT[TEXT.rindex("\nFROM ") :]


def test_it_copies_every_package_and_nothing_that_the_context_leaves_out() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    copied = {word for line in re.findall(r"^COPY (?!--from)(.+) \S+$", TEXT, re.M) for word in line.split()}
    assert {one.removesuffix("*") for one in packages} <= copied
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {one.replace("see[d]", "seed") for one in copied} == allowed
    assert all((ROOT / one).exists() for one in copied if not one.startswith("build/"))


def test_a_clean_checkout_has_something_of_each_copy() -> None:
    """Docker's classic builder refuses a COPY whose patterns match nothing, and build/seed is nobody's but who made one."""
    copies = [line.split() for line in re.findall(r"^COPY (?!--from)(.+) \S+$", TEXT, re.M)]
    assert copies and all(any("[" not in one and (ROOT / one).exists() for one in sources) for sources in copies)


def test_its_jdk_runs_spark_and_every_server() -> None:
    (version,) = re.findall(r"^ARG JDK=(\d+)$", TEXT, re.M)
    assert int(version) in {*jdk.SPARK} & {*nessie.JAVA}
    assert TEXT.count("openjdk-${JDK}-jdk-headless") == 2 and "openjdk-1" not in TEXT
    assert LAST.index("ARG JDK") < LAST.index("${JDK}"), "an argument is known in the stage that names it"


def test_a_night_in_it_downloads_nothing() -> None:
    """The documents say that a run needs no network: what the catalogs of `nightly` need is in the image."""
    (setup,) = re.findall(r"bootstrap.py setup (.+?) \\$", TEXT, re.M)
    confs, locks = needed(word for word in setup.split() if not word.startswith("--"))
    nightly = [CATALOGS[c] for c in suite.parse(suite.locate("nightly").read_text())[0].cells.catalogs]
    assert "dynamodb" in {c.name for c in nightly} and MOTO_LOCK in locks
    assert {j for c in nightly for j in (*c.jars, *c.server_jars)} <= {*confs} and {"hadoop", "nessie"} <= {*confs}


def test_the_commands_that_it_prints_are_typed_outside() -> None:
    (typed,) = re.findall(r'^ENV ICEQUAKE_COMMAND="(.+)"$', LAST, re.M)
    assert typed == f"docker run --rm -v icequake-store:/store icequake:{harness.__version__}"


def test_its_last_stage_has_no_compiler_s_work_and_runs_as_another_user_than_root() -> None:
    assert TEXT.count("\nFROM ") == 2 and "COPY --from=build" in LAST
    assert re.search(r"^USER 10001:10001$", LAST, re.M) and "useradd --uid 10001" in LAST
    assert LAST.index("USER 10001") < LAST.index("ENTRYPOINT")


def test_its_name_has_the_version_of_icequake() -> None:
    assert set(re.findall(r"icequake:(\d[\w.]*)", TEXT)) == {harness.__version__}
