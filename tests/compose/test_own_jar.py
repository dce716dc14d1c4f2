"""A runtime jar of the user's: what it says of itself, which Spark it runs on, and why another file is refused."""

from __future__ import annotations

import json
import shutil
import struct
import zipfile
from pathlib import Path

import pytest
import yaml

from compose.install import installation, jars, own_jar, releases
from compose.install.cache import home
from compose.install.own_jar import OwnJarError
from compose.install.releases import DEFAULT, RELEASES
from harness.cli.options import say_own_jar
from harness.run.versions import versions
from tests.compose.test_releases import cache  # noqa: F401 - a fixture
from tests.support.runs import icequake, inside

NAME = "iceberg-spark-runtime-4.1_2.13-1.13.0-SNAPSHOT.jar"
BUILD = "git.build.version=1.13.0-SNAPSHOT\ngit.commit.id=abc123def4567890\ngit.closest.tag.name=apache-iceberg-1.12.0-rc2\n"
MODULE, CORE = "org/apache/iceberg/spark/SparkCatalog.class", "org/apache/iceberg/rest/RESTCatalog.class"


def class_file(*names: str) -> bytes:
    """As much of a class file as is read: a pool with a long, a text and these classes."""
    pool = [b"\x05" + bytes(8), b"\x01\x00\x02ab"]
    index = 4  # a long takes two places
    for name in names:
        pool += [b"\x01" + struct.pack(">H", len(name)) + name.encode(), b"\x07" + struct.pack(">H", index)]
        index += 2
    return b"\xca\xfe\xba\xbe\x00\x00\x00\x41" + struct.pack(">H", index) + b"".join(pool)


def a_jar(path: Path, build: str = BUILD, *, uses: tuple[str, ...] = (), manifest: str = "", without: str = "") -> Path:
    """A jar with the parts of a runtime that are looked at."""
    with zipfile.ZipFile(path, "w") as jar:
        content: dict[str, bytes | str] = {
            MODULE: class_file(*uses),
            CORE: class_file(),
            "iceberg-build.properties": build,
        }
        content["META-INF/MANIFEST.MF"] = manifest or "Manifest-Version: 1.0\r\n\r\n"
        for name, text in content.items():
            if name != without and text:
                jar.writestr(name, text)
    return path


def test_a_jar_says_its_version_its_commit_and_by_its_name_its_spark(tmp_path: Path) -> None:
    jar = own_jar.read(a_jar(tmp_path / NAME))
    assert (jar.iceberg, jar.commit, jar.tag) == ("1.13.0-SNAPSHOT", "abc123def4567890", "apache-iceberg-1.12.0-rc2")
    assert (jar.spark, jar.scala, jar.sha256) == ("4.1", "2.13", jars.sha256(tmp_path / NAME))
    assert jar.label == f"1.13.0-SNAPSHOT (jar sha256 {jar.sha256[:8]}…)"


def test_what_is_assumed_of_a_jar_whose_name_does_not_say_its_spark_is_said(tmp_path: Path) -> None:
    said: dict[str, list[str]] = {name: [] for name in (NAME, "my-iceberg.jar")}
    for name, lines in said.items():
        say_own_jar(releases.of_jar(own_jar.read(a_jar(tmp_path / name))), lines.append)
    assumed = "its name does not say for which Spark and Scala it was built, so those of the newest release are assumed"
    assert assumed in said["my-iceberg.jar"][1] and not any(assumed in line for line in said[NAME])


def test_a_jar_without_build_properties_says_its_version_in_its_manifest_or_its_name(tmp_path: Path) -> None:
    named = a_jar(
        tmp_path / "any.jar", "", manifest="Manifest-Version: 1.0\r\nImplementation-Version: 1.12.1-\r\n rc0\r\n"
    )
    assert own_jar.read(named).iceberg == "1.12.1-rc0"
    assert (own_jar.read(named).spark, own_jar.read(named).commit) == (None, "")
    assert own_jar.read(a_jar(tmp_path / NAME, "")).iceberg == "1.13.0-SNAPSHOT"
    with pytest.raises(OwnJarError, match="does not say its version"):
        own_jar.read(a_jar(tmp_path / "any.jar", ""))


def test_the_released_jar_in_the_cache_is_read_and_fits_its_own_spark_only() -> None:
    if not releases.in_place(DEFAULT):
        pytest.skip("the default release is not in the cache: icequake setup")
    path = next(j.path(home()) for j in jars.read_lock() if DEFAULT.conf in j.confs and "runtime" in j.artifact)
    jar = own_jar.read(path)
    assert (jar.iceberg, jar.spark, jar.scala) == (DEFAULT.iceberg, "4.1", DEFAULT.scala)
    assert len(jar.commit) == 40
    assert own_jar.absent_classes(path, installation.spark_home()) == []


def test_another_file_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    whole = a_jar(tmp_path / NAME)
    torn = tmp_path / "torn.jar"
    torn.write_bytes(whole.read_bytes()[:-40])
    module = a_jar(tmp_path / "iceberg-spark-4.1_2.13-1.13.0.jar", without=CORE)
    other = a_jar(tmp_path / "jackson-databind-2.21.3.jar", without=MODULE)
    for path, says in (
        (tmp_path / "nowhere.jar", "does not exist; Iceberg's build writes it to spark/v4.1/spark-runtime/build/libs/"),
        (tmp_path, "is a folder; give the jar in it"),
        (torn, "is not a jar, or it is torn"),
        (module, "Iceberg's Spark module alone, without Iceberg's core"),
        (other, "is no Iceberg runtime for Spark: it lacks org.apache.iceberg.spark.SparkCatalog"),
    ):
        done = inside("prove", "undelete", "--iceberg", path, cwd=tmp_path)
        assert done.returncode == 254
        assert says in done.stderr.splitlines()[-1], done.stderr


@pytest.mark.parametrize(
    ("name", "version", "beside", "spark"),
    [
        ("iceberg-spark-runtime-4.1_2.13-x.jar", "1.13.0-SNAPSHOT", "1.12.0", "4.1.4"),
        ("iceberg-spark-runtime-4.1_2.13-x.jar", "1.12.0-SNAPSHOT", "1.12.0", "4.1.4"),
        ("iceberg-spark-runtime-4.1_2.13-x.jar", "1.11.1", "1.11.0", "4.1.4"),
        ("iceberg-spark-runtime-4.0_2.13-x.jar", "1.10.1-rc2", "1.10.1", "4.0.5"),
        ("iceberg-spark-runtime-4.0_2.13-x.jar", "1.13.0", "1.10.2", "4.0.5"),
        ("iceberg-spark-runtime-4.0_2.13-x.jar", "1.9.0", "1.10.0", "4.0.5"),
        ("iceberg-spark-runtime-3.5_2.12-x.jar", "1.10.0", "1.9.2", "3.5.9"),
        ("runtime.jar", "1.13.0", "1.12.0", "4.1.4"),
    ],
)
def test_it_runs_on_the_spark_of_its_name_with_the_jars_of_the_nearest_release(
    name: str, version: str, beside: str, spark: str, tmp_path: Path
) -> None:
    release = releases.find(str(a_jar(tmp_path / name, f"git.build.version={version}\n")))
    assert (release.iceberg, release.beside, release.spark) == (version, beside, spark)
    assert release.newest_format == releases.find(beside).newest_format
    assert [r.beside for r in RELEASES] == [r.iceberg for r in RELEASES]


def test_a_spark_that_is_not_here_is_refused_with_those_that_are(tmp_path: Path) -> None:
    for spark in ("3.4_2.12", "3.5_2.13"):
        with pytest.raises(
            OwnJarError, match=r"icequake has a Spark for 4\.1_2\.13, 4\.0_2\.13, 3\.5_2\.12: build one"
        ):
            releases.find(str(a_jar(tmp_path / f"iceberg-spark-runtime-{spark}-1.12.0.jar")))


def test_its_copy_takes_the_place_of_the_runtime_and_the_plan_says_which_it_was(cache: Path, tmp_path: Path) -> None:  # noqa: F811
    path = a_jar(tmp_path / NAME, uses=("org/apache/spark/sql/SparkSession", "[Lscala/collection/immutable/Seq;"))
    release = releases.find(str(path))
    ready = releases.ensure(release)
    usual = [j.path(cache) for j in jars.of([DEFAULT.conf], jars.read_lock())]
    assert [p.name for p in ready.jars["spark"]] == [NAME if "runtime" in p.name else p.name for p in usual]
    copy = next(p for p in ready.jars["spark"] if p.name == NAME)
    assert copy.is_relative_to(cache) and copy.read_bytes() == path.read_bytes()
    path.write_bytes(b"the next build")
    assert releases.ensure(release).jars == ready.jars, "the copy is there"
    found = versions(ready)
    assert found["iceberg"] == "1.13.0-SNAPSHOT"
    assert found["iceberg-commit"] == "abc123def4567890 (newest tag before it: apache-iceberg-1.12.0-rc2)"
    assert found["iceberg-jar"] == f"sha256:{jars.sha256(copy)}"


@pytest.mark.usefixtures("cache")
def test_a_jar_that_uses_what_its_spark_lacks_is_refused(tmp_path: Path) -> None:
    path = a_jar(tmp_path / NAME, uses=("scala/Serializable", "org/apache/spark/sql/Gone", "java/lang/String", "[I"))
    with pytest.raises(OwnJarError) as said:
        releases.ensure(releases.find(str(path)))
    assert "it uses org.apache.spark.sql.Gone, scala.Serializable, which Spark 4.1.4 with Scala 2.13 lacks" in str(
        said.value
    )


def test_a_jar_that_changes_while_it_is_read_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    path = a_jar(tmp_path / NAME)
    jar = own_jar.read(path)
    a_jar(path, BUILD + "more=1\n")
    with pytest.raises(OwnJarError, match="changed while it was read"):
        own_jar.keep(jar, "4.1", "2.13", tmp_path / "home", 0.0)
    assert list((tmp_path / "home").rglob("*.jar")) == []


def test_copies_that_no_run_uses_are_removed_after_a_week(tmp_path: Path) -> None:
    first, second = (own_jar.read(a_jar(tmp_path / f"{n}.jar", f"{BUILD}n={n}\n")) for n in (1, 2))
    day = 86_400.0
    one = own_jar.keep(first, "4.1", "2.13", tmp_path, 10 * day)
    two = own_jar.keep(second, "4.1", "2.13", tmp_path, 16 * day)
    assert one.exists() and two.exists()
    third = own_jar.read(a_jar(tmp_path / "3.jar", f"{BUILD}n=3\n"))
    own_jar.keep(third, "4.1", "2.13", tmp_path, 18 * day)
    assert not one.exists() and two.exists()


def test_two_jars_are_compared_only_if_they_differ(tmp_path: Path) -> None:
    one, other = a_jar(tmp_path / NAME), tmp_path / "other.jar"
    shutil.copy(one, other)
    done = inside("compare", "quick", "--iceberg", f"{one},{other}", cwd=tmp_path)
    assert done.returncode == 254 and "two of these jars are the same file" in done.stderr


@pytest.mark.spark
def test_the_track_record_is_held_against_a_jar_with_one_command(tmp_path: Path) -> None:
    """The default release under another name stands for a branch that somebody built."""
    released = next(j.path(home()) for j in jars.read_lock() if DEFAULT.conf in j.confs and "runtime" in j.artifact)
    built = tmp_path / "built.jar"
    shutil.copy(released, built)
    output = tmp_path / "proofs.json"
    done = icequake("prove", "undelete", "--iceberg", built, "--store", tmp_path / "store", "--json", output)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(output.read_text())
    sha256 = jars.sha256(released)
    assert said["versions"]["iceberg-jar"] == f"sha256:{sha256}" and said["proofs"][0]["state"] == "reproduced"
    assert f"Iceberg {DEFAULT.iceberg} (jar sha256 {sha256[:8]}…)" in done.stdout
    plan = yaml.safe_load((Path(said["proofs"][0]["folder"]) / "plan.yaml").read_text())
    assert plan["versions"]["iceberg-jar"] == f"sha256:{sha256}" and len(plan["versions"]["iceberg-commit"]) >= 40
    assert plan["command"].endswith(f"prove --iceberg {built} undelete")
