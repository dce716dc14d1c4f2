"""The file system of ``hadoop-conditional``: the released S3A on a real MinIO, in a JVM without Spark."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from compose.catalogs.hadoop import HADOOP, HADOOP_CONDITIONAL
from compose.endpoints import Endpoints
from compose.install import ensure
from compose.install.installation import Installation
from compose.processes.ports import Ports
from compose.servers.minio import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, Minio
from compose.stack.sparkconf import spark_conf

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""Options for a JVM that lives for seconds: what the second compiler makes faster, it does not run long enough to gain by."""
RENAMES, STALE_COMMITS = "Renames", "StaleCommits"


@pytest.fixture(scope="module")
def store(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    folder = tmp_path_factory.mktemp("store")
    minio = Minio(
        installation.minio, run_id=folder.name, ports=Ports(), data=folder / "minio", log=folder / "minio.log"
    )
    minio.start()
    try:
        yield minio
    finally:
        minio.stop()


@pytest.fixture(scope="module")
def programs(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The classes of this folder's programs: started from its source, each JVM would compile it again."""
    ensure.provide(installation, HADOOP_CONDITIONAL.jars)
    scratch = tmp_path_factory.mktemp("programs")
    conf = spark_conf(installation, endpoints("hadoop-conditional", "http://127.0.0.1:1"), scratch=scratch)
    javac = installation.java.with_name("javac")
    ensure.compile_folder(Path(__file__).parent, javac, libraries(installation, conf), scratch / "classes")
    return scratch / "classes"


def libraries(installation: Installation, conf: Mapping[str, str]) -> list[Path]:
    """The writers' class path."""
    return [
        *map(Path, conf["spark.driver.extraClassPath"].split(os.pathsep)),
        installation.spark_home / "jars" / "*",
    ]


def endpoints(catalog: str, s3: str) -> Endpoints:
    return Endpoints(
        s3=s3,
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region=REGION,
        bucket=BUCKET,
        catalog=catalog,
        catalog_uri=s3,
        warehouse=f"s3a://{BUCKET}/{catalog}",
        spark_master="local[1]",
    )


def said_by(program: str, programs: Path, installation: Installation, conf: Mapping[str, str]) -> list[str]:
    """What a program says with the writers' class path and S3A's properties, in the catalog's warehouse."""
    folder = conf["spark.sql.catalog.c.warehouse"]
    class_path = os.pathsep.join(map(str, [programs, *libraries(installation, conf)]))
    hadoop = [f"{k.removeprefix('spark.hadoop.')}={v}" for k, v in conf.items() if k.startswith("spark.hadoop.")]
    command = [str(installation.java), *SHORT_LIVED, "-cp", class_path, program, folder, *hadoop]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_only_one_of_several_renames_makes_the_version(
    installation: Installation, programs: Path, store: Minio, tmp_path: Path
) -> None:
    ensure.provide(installation, HADOOP_CONDITIONAL.jars)
    conf = spark_conf(installation, endpoints("hadoop-conditional", store.endpoint), scratch=tmp_path)
    said = said_by(RENAMES, programs, installation, conf)
    assert said[:3] == [
        "onto nothing, true, a, gone",
        "onto another, false, a, left",
        "onto itself, true, a, gone",  # as after S3A's own retry of a request whose reply was lost
    ]
    assert said[3] == "the hint, true, 1, gone"
    assert said[4] == "besides, s3a, true, true", (
        "all else is S3A's, also what Hadoop's FilterFileSystem does not pass on"
    )
    assert said[5:] == ["race, 1, true"] * 5


@pytest.mark.slow
def test_several_renames_of_s3a_make_the_same_version(
    installation: Installation, programs: Path, store: Minio, tmp_path: Path
) -> None:
    """What ``hadoop-conditional`` is for. S3A looks whether the target exists, and then copies."""
    ensure.provide(installation, HADOOP.jars)
    conf = spark_conf(installation, endpoints("hadoop", store.endpoint), scratch=tmp_path)
    said = said_by(RENAMES, programs, installation, conf)
    assert said[1] == "onto another, false, a, left"
    assert max(int(race.split(", ")[1]) for race in said[5:]) > 1, said


@pytest.mark.slow
def test_a_stalled_commit_is_refused_unless_its_version_was_deleted_or_has_another_name(
    installation: Installation, programs: Path, store: Minio, tmp_path: Path
) -> None:
    """Iceberg's HadoopTableOperations: what no file system can prevent (docs/catalogs/hadoop-conditional.md)."""
    ensure.provide(installation, HADOOP_CONDITIONAL.jars)
    conf = spark_conf(installation, endpoints("hadoop-conditional", store.endpoint), scratch=tmp_path)
    assert said_by(STALE_COMMITS, programs, installation, conf) == [
        "another commit: refused, others 1, stalled 0",
        "four commits, old files kept: refused, others 4, stalled 0",
        "four commits, old files deleted: accepted, others 0, stalled 1",
        "another codec: accepted, others 0, stalled 1",
    ]


def test_executors_elsewhere_get_the_class_as_a_jar(installation: Installation) -> None:
    jar = ensure.own_classes(installation)
    with zipfile.ZipFile(jar) as content:
        assert "ConditionalRename.class" in content.namelist()
    assert ensure.own_classes(installation) == jar
