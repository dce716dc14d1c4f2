"""Which Iceberg release the writers run: its jars, its Spark, its environment; and nothing of it for the default."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from compose import setup
from compose.install import bootstrap, installation, jars, releases
from compose.install import ensure as install
from compose.install.cache import SetupError
from compose.install.installation import Installation
from compose.install.releases import DEFAULT, RELEASES, Release, UnknownRelease
from compose.servers.spark import scala_of
from harness.run.versions import versions
from nemesis.wires.http import CatalogHttp
from nemesis.wires.pipe import Pipe
from nemesis.wires.wire import Request
from tests.support.runs import ROOT, icequake

EACH = pytest.mark.parametrize("release", RELEASES, ids=lambda r: r.iceberg)


# --- the table -------------------------------------------------------------------------------------------------------


def test_the_newest_comes_first_and_none_twice() -> None:
    numbers = [tuple(map(int, r.iceberg.split("."))) for r in RELEASES]
    assert numbers == sorted(set(numbers), reverse=True)
    assert releases.find(None) == DEFAULT == RELEASES[0]


@EACH
def test_its_jars_are_locked_and_are_those_of_its_spark(release: Release) -> None:
    found = jars.of([release.conf], jars.read_lock())
    runtime = f"iceberg-spark-runtime-{release.spark.rpartition('.')[0]}_{release.scala}"
    assert [j.version for j in found if j.artifact == runtime] == [release.iceberg]
    assert sorted(j.artifact for j in found) == ["iceberg-aws-bundle", runtime, "postgresql"]


@EACH
def test_its_spark_is_pinned(release: Release) -> None:
    assert releases.find(release.iceberg) == release
    if release.lock is None:
        assert (
            f"pyspark=={release.spark}"
            in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        )
    else:
        names = re.findall(r"^(\S+?)==(\S+)", release.lock.read_text(), re.MULTILINE)
        assert ("pyspark", release.spark) in names
        assert {name for name, _ in names} == {"pyspark", "py4j", "setuptools"}, "what builds it is pinned as well"


def test_an_unknown_release_is_answered_with_those_there_are() -> None:
    with pytest.raises(UnknownRelease) as said:
        releases.find("1.10")
    assert (
        str(said.value)
        == f"no Iceberg release '1.10' (did you mean 1.10.2?); allowed: {', '.join(r.iceberg for r in RELEASES)}, or the path of a runtime jar"
    )


def test_the_default_wants_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(install, "ensure", lambda **given: asked.append(given))
    monkeypatch.setattr(releases, "environment", lambda *_: pytest.fail("an environment of its own"))
    releases.ensure(DEFAULT)
    assert asked == [{"progress": None}]
    wanted = {conf for jar in jars.of(install.CONFS, jars.read_lock()) for conf in jar.confs} & set(install.CONFS)
    assert wanted == {"spark", "rest"} and DEFAULT.conf in wanted


# --- the installation ------------------------------------------------------------------------------------------------


def made_environment(environment: Path, spark: str, scala: str = "2.13") -> None:
    """What ``pip install pyspark`` leaves, as far as it is looked at."""
    here = environment / "lib" / "python3.11" / "site-packages" / "pyspark" / "jars"
    here.mkdir(parents=True)
    (here / f"spark-core_{scala}-{spark}.jar").touch()


def an_installation(place: Path, confs: tuple[str, ...]) -> Installation:
    return Installation(
        home=place,
        java=place / "java",
        jars={conf: install.class_path(conf, jars.read_lock(), place) for conf in confs},
        rest_classes=place,
        minio=place / "minio",
        postgres_bin=place,
        spark_home=installation.spark_home(),
        python=Path("/ours/python"),
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which the common parts are there, and environments are made of nothing."""
    place = tmp_path / "home"
    monkeypatch.setenv("ICEQUAKE_HOME", str(place))

    def ensure(*, confs: tuple[str, ...], progress: object = None) -> Installation:
        return an_installation(place, (*confs, "rest"))

    def create(environment: Path) -> None:
        (environment / "bin").mkdir()
        (environment / "bin" / "python").touch()

    def fill(python: Path, lock: Path) -> None:
        spark = lock.stem.removeprefix("pyspark-")
        made_environment(python.parent.parent, spark, "2.12" if spark.startswith("3") else "2.13")

    monkeypatch.setattr(install, "ensure", ensure)
    monkeypatch.setattr(bootstrap, "create", create)
    monkeypatch.setattr(bootstrap, "install", fill)
    return place


@pytest.mark.parametrize("release", RELEASES[1:], ids=lambda r: r.iceberg)
def test_writers_get_its_jars_its_spark_and_its_python(release: Release, cache: Path) -> None:
    ready = releases.ensure(release)
    assert ready.jars["spark"] == tuple(j.path(cache) for j in jars.of([release.conf], jars.read_lock()))
    found = versions(ready)
    assert (found["iceberg"], found["spark"]) == (release.iceberg, release.spark)
    assert found["rest"] == "1.11.0", "the catalog server stays"
    assert (ready.python == Path("/ours/python")) == (release.spark == DEFAULT.spark)
    assert ready.python.parent.parent in ready.spark_home.parents or release.spark == DEFAULT.spark
    assert scala_of(ready.spark_home) == release.scala


def test_releases_of_one_spark_share_its_environment(cache: Path) -> None:
    one, other, older = (releases.ensure(releases.find(n)).spark_home for n in ("1.10.1", "1.10.2", "1.9.2"))
    assert one == other != older
    assert len(list(cache.glob("pyspark-*"))) == 2


def test_an_environment_that_failed_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = releases.find("1.10.1")
    whole = bootstrap.install

    def fails(*_: object) -> None:
        raise bootstrap.BootstrapError("no network")

    monkeypatch.setattr(bootstrap, "install", fails)
    with pytest.raises(SetupError, match="no network"):
        releases.ensure(release)
    assert [p.name for p in cache.iterdir()] == ["install.lock"]
    monkeypatch.setattr(bootstrap, "install", whole)
    python = releases.ensure(release).python
    python.unlink()
    python.symlink_to("/usr/bin/no-such-python")  # as after an upgrade of the system
    assert releases.ensure(release).python == python
    assert python.is_file()


@pytest.mark.usefixtures("cache")
def test_the_class_data_archive_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Installation] = []
    monkeypatch.setattr(setup, "share_class_data", made.append)
    monkeypatch.setattr(jars, "in_place", lambda *_: True)
    for _ in range(3):
        setup.ensure_release(releases.find("1.10.1"))
    assert [versions(i)["iceberg"] for i in made] == ["1.10.1"]


def test_the_offer_of_tls_by_an_old_client_is_no_reason_to_look_away() -> None:
    """What Iceberg 1.8.1 sends (Apache HttpClient 5.4.1), shortened: with the offer unread, no fault could reach it."""

    async def understood() -> Request | None:
        client = Pipe()
        client.data_received(
            b"GET /v1/namespaces/n/tables/t?snapshots=all HTTP/1.1\r\nHost: 127.0.0.1:1\r\n"
            b"Upgrade: TLS/1.2\r\nConnection: Upgrade\r\n\r\n"
        )
        return await CatalogHttp().request(client)

    request = asyncio.run(understood())
    assert request is not None
    assert (request.kind, request.table) == ("load", "t")


def test_a_spark_says_its_scala_in_the_names_of_its_jars(tmp_path: Path) -> None:
    made_environment(tmp_path, "3.5.9", "2.12")
    assert scala_of(next(tmp_path.glob("lib/*/*/pyspark"))) == "2.12"


# --- the real thing --------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_an_older_release_shows_what_it_has_and_the_newest_has_not(tmp_path: Path) -> None:
    if not releases.in_place(releases.find("1.10.1")):
        pytest.skip("1.10.1 is not in the cache: icequake setup --iceberg 1.10.1")
    output = tmp_path / "proofs.json"
    names = ("rest-503-no-rival", "rest-503-alone", "row-ids-renumbered")
    done = icequake("prove", *names, "--iceberg", "1.10.1", "--store", tmp_path / "store", "--json", output)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(output.read_text())
    assert (said["versions"]["iceberg"], said["versions"]["spark"]) == ("1.10.1", "4.0.5")
    proofs = {p["scenario"]: p for p in said["proofs"]}
    assert [proofs[n]["state"] for n in names] == ["reproduced", "later", "reproduced"]
    plan = yaml.safe_load((Path(proofs["rest-503-no-rival"]["folder"]) / "plan.yaml").read_text())
    assert plan["versions"]["iceberg"] == "1.10.1" and plan["versions"]["rest"] == "1.11.0"
    assert plan["command"].endswith("prove --iceberg 1.10.1 rest-503-no-rival")
