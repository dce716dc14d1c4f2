"""What the container of a Spark worker is made of: this machine's files at their own paths, and nothing else of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from compose.docker.services import DISK_BYTES
from compose.docker.spark import SparkMasterContainer, SparkWorkerContainer, driver_memory, specs
from compose.install.installation import Installation
from compose.processes.ports import LOOPBACK, Ports
from compose.processes.service import ServiceError
from compose.processes.watchdog import RUN_VARIABLE


@pytest.fixture
def installed(tmp_path: Path) -> Installation:
    """An installation whose files are empty."""
    site, jars = tmp_path / "site-packages", tmp_path / "jars"
    for folder in (site / "pyspark" / "jars", site / "py4j", site / "pandas", jars):
        folder.mkdir(parents=True)
    for jar in ("iceberg.jar", "more.jar"):
        (jars / jar).touch()
    return Installation(
        home=tmp_path / "home",
        java=Path("/nowhere/bin/java"),
        jars={"spark": (jars / "iceberg.jar",)},
        rest_classes=tmp_path,
        minio=tmp_path,
        postgres_bin=tmp_path,
        spark_home=site / "pyspark",
        python=Path("/nowhere/bin/python"),
    )


def worker(installed: Installation, tmp_path: Path, *, small_disk: bool = False) -> SparkWorkerContainer:
    """A worker whose folders are there."""
    ports, more = Ports(), tmp_path / "jars" / "more.jar"
    place: dict[str, Any] = {"run_id": "r", "ports": ports, "jvm_options": ()}
    master = SparkMasterContainer(
        "spark-master", installed, data=tmp_path / "master", log=tmp_path / "logs" / "master.log", **place
    )
    made = SparkWorkerContainer(
        "spark-worker-1",
        installed,
        master=master,
        cores=2,
        memory_mb=2048,
        data=tmp_path / "worker",
        log=tmp_path / "logs" / "worker.log",
        jars=lambda: [installed.jars["spark"][0], more, tmp_path / "absent.jar"],
        small_disk=small_disk,
        **place,
    )
    made.folder.mkdir()
    made.work_dir.mkdir(parents=True)
    return made


def test_it_reads_what_it_runs_and_writes_its_own_folders(installed: Installation, tmp_path: Path) -> None:
    made = worker(installed, tmp_path)
    volumes = {tuple(one.split(":")) for one in made.specification()["volumes"] if "/etc/passwd" not in one}
    read = [installed.spark_home, installed.spark_home.parent / "py4j", *(tmp_path / "jars").iterdir()]
    written = [made.folder, made.work_dir]
    assert volumes == {(str(p), str(p), "ro") for p in read} | {(str(p), str(p)) for p in written}


def test_it_runs_the_same_program_with_the_java_of_the_image(installed: Installation, tmp_path: Path) -> None:
    made = worker(installed, tmp_path)
    how = made.specification()
    assert how["entrypoint"] == ["java"]
    assert (how["network_mode"], how["user"]) == ("host", f"{os.getuid()}:{os.getgid()}")
    words, environment = how["command"], how["environment"]
    assert words[words.index("--host") + 1] == LOOPBACK and str(made.work_dir) in words
    assert environment[RUN_VARIABLE] == "r" and environment["SPARK_LOCAL_IP"] == LOOPBACK
    assert not {"JAVA_HOME", "PATH", "LD_LIBRARY_PATH", "USER"} & environment.keys()
    assert environment["SPARK_LOCAL_DIRS"] == made.disk and "tmpfs" not in how


def test_a_small_disk_is_memory_beyond_the_limit(installed: Installation, tmp_path: Path) -> None:
    how = worker(installed, tmp_path, small_disk=True).specification()
    assert how["tmpfs"] == {f"{tmp_path / 'worker' / 'local'}": f"size={DISK_BYTES}"}
    assert how["mem_limit"] == specs()["spark-worker"].memory + DISK_BYTES


def test_a_user_besides_root_has_a_name_for_hadoop(
    installed: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    how = worker(installed, tmp_path).specification()
    names = next(one.split(":")[0] for one in how["volumes"] if one.endswith(":/etc/passwd:ro"))
    assert how["user"].startswith("12345:") and ":x:12345:" in Path(names).read_text()


def test_an_image_and_limits_come_from_the_variables(
    installed: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICEQUAKE_SPARK_IMAGE", "my/spark:1")
    monkeypatch.setenv("ICEQUAKE_SPARK_WORKER_MEMORY", "3g")
    how = worker(installed, tmp_path).specification()
    assert (how["image"], how["mem_limit"]) == ("my/spark:1", 3 * 1024**3)
    assert driver_memory() == 2 * 1024**3
    monkeypatch.setenv("ICEQUAKE_SPARK_DRIVER_MEMORY", "512m")
    assert driver_memory() == 512 * 1024**2
    monkeypatch.setenv("ICEQUAKE_SPARK_DRIVER_MEMORY", "much")
    with pytest.raises(ServiceError, match="ICEQUAKE_SPARK_DRIVER_MEMORY is 'much', not a size such as 2g"):
        driver_memory()
