"""The Spark standalone cluster from the pyspark wheel, and the environment that a driver needs to use it.

The daemons are started without ``spark-class``: that script runs a JVM only to print the command line of the next one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compose.processes.ports import LOOPBACK, Ports
from compose.processes.process import LocalProcess, NotReady, base_environment, http_get
from compose.servers.minio import AWS_ENVIRONMENT

DAEMON_HEAP_MB = 256
SMALL_JVM = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    # With the first compiler alone the JVM keeps 48 MB for compiled code. A driver that has its tasks fills them in 110 statements, and
    # then compiles again and again what it has thrown away: 0.26 s of processor time a statement from there on, and 0.13 s with more room.
    "-XX:ReservedCodeCacheSize=192m",
)

# What org.apache.spark.launcher.JavaModuleOptions (Spark 4.1) adds to every JVM, as far as the daemons need it.
_MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
            *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
            *("sun.security.action", "sun.util.calendar"),
        )
    ),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "--enable-native-access=ALL-UNNAMED",
)


def spark_environment(*, java: Path, spark_home: Path, python: Path) -> dict[str, str]:
    """The environment of Spark's processes: daemons and drivers."""
    return {
        **base_environment(),
        "JAVA_HOME": str(java.parent.parent),
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_SCALA_VERSION": scala_of(spark_home),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "PYTHONUNBUFFERED": "1",
        **AWS_ENVIRONMENT,
    }


def scala_of(spark_home: Path) -> str:
    """The Scala version of a Spark, read from the names of its jars: 2.12 before Spark 4, 2.13 since."""
    for jar in (spark_home / "jars").glob("spark-core_*.jar"):
        return jar.name.removeprefix("spark-core_").partition("-")[0]
    return "2.13"


class SparkDaemon(LocalProcess):
    """The common part of master and workers."""

    main_class = ""

    def __init__(
        self,
        name: str,
        *,
        java: Path,
        spark_home: Path,
        python: Path,
        class_path: str,
        jvm_options: Sequence[str] = (),
        run_id: str,
        ports: Ports,
        data: Path,
        log: Path,
    ):
        super().__init__(name, run_id=run_id, ports=ports, port_names=[name, f"{name}-ui"], folder=data, log=log)
        self._java = java
        self._class_path = class_path
        self._jvm_options = tuple(jvm_options)
        self._environment = spark_environment(java=java, spark_home=spark_home, python=python)

    @property
    def ui_port(self) -> int:
        return self.port(f"{self.name}-ui")

    def properties(self) -> Mapping[str, str]:
        """Spark properties of the daemon itself."""
        return {"spark.port.maxRetries": "0"}  # use the given port or fail

    def arguments(self) -> Sequence[str]:
        return ["--host", LOOPBACK, "--port", str(self.port()), "--webui-port", str(self.ui_port)]

    def argv(self) -> Sequence[str]:
        return [
            *(str(self._java), f"-Xmx{DAEMON_HEAP_MB}m", *SMALL_JVM, *self._jvm_options, *_MODULES),
            *(f"-D{key}={value}" for key, value in self.properties().items()),
            *("-cp", self._class_path, self.main_class, *self.arguments()),
        ]

    def environment(self) -> Mapping[str, str]:
        return self._environment

    def status(self, timeout: float = 5.0) -> dict[str, Any]:
        """Its own status; the master's includes workers and applications (``/json/`` of its user interface).

        Raises NotReady, OSError or http.client.HTTPException.
        """
        code, body = http_get(f"http://{LOOPBACK}:{self.ui_port}/json/", timeout)
        if code != 200:
            raise NotReady(f"/json/ answers {code}")
        try:
            return dict(json.loads(body))
        except ValueError as error:
            raise NotReady(f"/json/ is not JSON: {error}") from error


class SparkMaster(SparkDaemon):
    """The standalone master. Its recovery folder keeps workers and applications across a kill."""

    role = "spark-master"
    main_class = "org.apache.spark.deploy.master.Master"

    @property
    def url(self) -> str:
        return f"spark://{LOOPBACK}:{self.port()}"

    def properties(self) -> Mapping[str, str]:
        return {
            **super().properties(),
            "spark.master.rest.enabled": "false",  # a fixed port (6066) that two clusters would fight for
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(self.folder / "recovery"),
            # Keep applications whose executors faults kill again and again.
            "spark.deploy.maxExecutorRetries": "-1",
        }

    def probe(self, timeout: float) -> None:
        status = self.status(timeout)
        if status.get("url") != self.url:
            raise NotReady(f"port {self.ui_port} is the user interface of {status.get('url')}")
        if status.get("status") != "ALIVE":
            raise NotReady(f"the master is {status.get('status')}")


class SparkWorker(SparkDaemon):
    """A worker. It is ready when it answers and the master lists it as alive. Its executors are its children."""

    role = "spark-worker"
    main_class = "org.apache.spark.deploy.worker.Worker"

    def __init__(
        self,
        name: str,
        *,
        master: SparkMaster,
        cores: int,
        memory_mb: int,
        java: Path,
        spark_home: Path,
        python: Path,
        class_path: str,
        jvm_options: Sequence[str] = (),
        run_id: str,
        ports: Ports,
        data: Path,
        log: Path,
    ):
        """``cores`` and ``memory_mb`` limit what executors may request; they reserve nothing."""
        super().__init__(
            name,
            java=java,
            spark_home=spark_home,
            python=python,
            class_path=class_path,
            jvm_options=jvm_options,
            run_id=run_id,
            ports=ports,
            data=data,
            log=log,
        )
        self._master = master
        self._cores = cores
        self._memory_mb = memory_mb

    def properties(self) -> Mapping[str, str]:
        return {**super().properties(), "spark.worker.cleanup.enabled": "false"}  # keep the executors' logs

    @property
    def work_dir(self) -> Path:
        """Where executors write their logs: ``<application>/<executor>/stderr``."""
        return self.logs().with_suffix("")

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "SPARK_LOCAL_DIRS": str(self.folder / "local")}

    def prepare(self) -> None:
        (self.folder / "local").mkdir(exist_ok=True)
        self.work_dir.mkdir(parents=True, exist_ok=True)

    def arguments(self) -> Sequence[str]:
        return [
            *super().arguments(),
            *("--cores", str(self._cores), "--memory", f"{self._memory_mb}m", "--work-dir", str(self.work_dir)),
            self._master.url,
        ]

    def probe(self, timeout: float) -> None:
        me = self.status(timeout).get("id")
        known = {worker.get("id"): worker.get("state") for worker in self._master.status(timeout).get("workers", [])}
        if known.get(me) != "ALIVE":
            raise NotReady(
                f"the master lists it as {known[me]}" if me in known else "it has not registered with the master yet"
            )


def join_class_path(jars: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, jars))
