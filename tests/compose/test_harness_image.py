"""The Dockerfile of the harness: it copies all that icequake imports, and its last stage runs as a user without rights."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import harness
from compose.catalogs import nessie
from compose.install import jdk

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


def test_its_last_stage_has_no_compiler_s_work_and_runs_as_another_user_than_root() -> None:
    assert TEXT.count("\nFROM ") == 2 and "COPY --from=build" in LAST
    assert re.search(r"^USER 10001:10001$", LAST, re.M) and "useradd --uid 10001" in LAST
    assert LAST.index("USER 10001") < LAST.index("ENTRYPOINT")


def test_its_name_has_the_version_of_icequake() -> None:
    assert set(re.findall(r"icequake:(\d[\w.]*)", TEXT)) == {harness.__version__}
