"""The Hive Metastore, and the two ways to commit through it: under its lock, and without.

The server is the metastore 2.3 out of Spark's own jars, over Derby. Iceberg's commit (``HiveTableOperations``) takes an exclusive lock
on the table, reads the table, compares ``metadata_location`` itself, and writes the table: ``hive``. With
``engine.hive.lock-enabled=false`` it takes no lock and tells the server what it expects (``expected_parameter_key``). A server with
HIVE-26882, which Hive 2.3.10 has, compares: ``hive-cas``. An older server does not know that key: ``hive-nolock`` is this server, configured to
ignore what clients expect.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

from compose.catalogs.catalog import SOCKET_TIMEOUT_MS, Catalog, CatalogServer, Guard, Site, split
from compose.endpoints import Endpoints
from compose.install.installation import Installation, spark_home, version_in_names
from compose.processes.ports import LOOPBACK
from compose.processes.process import LocalProcess, NotReady, base_environment
from compose.processes.service import ServiceError

HIVE_HEAP_MB = 384
LOCK_TIMEOUT_S = 20
"""The server releases the lock of a client after this long without a heartbeat. With Hive's 300 s a dead writer blocks its table for 5 min."""
HEARTBEAT_MS = 5_000


class Metastore(LocalProcess):
    """The server. Its Derby database is in its folder, and survives SIGKILL."""

    role = "catalog"
    stop_seconds = 8.0

    def __init__(self, site: Site) -> None:
        super().__init__(
            "hive",
            run_id=site.run_id,
            ports=site.ports,
            port_names=["hive"],
            folder=site.data / "hive",
            log=site.logs / "hive.log",
        )
        self._java = site.installation.java
        self._classes = site.installation.rest_classes
        self._warehouse = site.warehouse
        self._guard = site.catalog.guard

    @property
    def uri(self) -> str:
        return f"thrift://{LOOPBACK}:{self.port()}"

    def prepare(self) -> None:
        conf = self.folder / "conf"
        conf.mkdir(exist_ok=True)
        values = "".join(
            f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
            for name, value in self._configuration().items()
        )
        (conf / "hive-site.xml").write_text(f"<configuration>\n{values}</configuration>\n")
        (conf / "log4j2.properties").write_text(LOGGING)

    def _configuration(self) -> Mapping[str, str]:
        return {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self.folder / 'database'};create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            "datanucleus.connectionPoolingType": "HikariCP",  # Spark does not ship the classes of the default, so lock() would fail
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": self._warehouse,
            # The server compares only in direct SQL.
            "hive.metastore.try.direct.sql": str(self._guard == "compare-and-swap").lower(),
            "hive.async.log.enabled": "false",
            "hive.in.test": "false",
            "hive.txn.timeout": f"{LOCK_TIMEOUT_S}s",
            "fs.s3.impl": "NoFiles",
            "fs.s3a.impl": "NoFiles",
        }

    def argv(self) -> Sequence[str]:
        opens = [f"--add-opens=java.base/java.{p}=ALL-UNNAMED" for p in ("lang", "util", "net")]
        class_path = [str(self.folder / "conf"), str(self._classes), f"{spark_home() / 'jars'}/*"]
        return [
            *(
                str(self._java),
                f"-Xmx{HIVE_HEAP_MB}m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:-UsePerfData",
            ),
            *(*opens, f"-Dderby.stream.error.file={self.folder / 'derby.log'}"),
            *("-cp", os.pathsep.join(class_path), "MetastoreServer", str(self.port())),
            *(["ignore-expectations"] if self._guard == "none" else []),
        ]

    def environment(self) -> Mapping[str, str]:
        return base_environment()

    def probe(self, timeout: float) -> None:
        try:
            with client(LOOPBACK, self.port(), timeout) as metastore:
                metastore.get_all_databases()
        except ServiceError as e:
            raise NotReady(str(e)) from e


LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


class client:
    """A connection to a metastore, for one ``with``; it yields a ``ThriftHiveMetastore.Client``.

    Raises ServiceError when the metastore does not answer within ``timeout`` seconds, also for calls inside the block.
    """

    def __init__(self, host: str, port: int, timeout: float) -> None:
        from thrift.transport import TSocket, TTransport

        logging.getLogger("thrift.transport.TSocket").disabled = True  # its message is in the error
        socket = TSocket.TSocket(host, port)
        socket.setTimeout(max(50, timeout * 1000))
        self._where = f"{host}:{port}"
        self._transport = TTransport.TBufferedTransport(socket)

    def __enter__(self) -> Any:
        from hive_metastore.ThriftHiveMetastore import Client
        from thrift.protocol import TBinaryProtocol
        from thrift.transport import TTransport

        try:
            self._transport.open()
        except (TTransport.TTransportException, OSError) as e:
            raise ServiceError("hive", f"{self._where} does not answer: {e}") from e
        return Client(TBinaryProtocol.TBinaryProtocol(self._transport))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> Literal[False]:
        from thrift import Thrift

        self._transport.close()
        if isinstance(error, (Thrift.TException, OSError)):
            raise ServiceError("hive", f"{self._where}: {type(error).__name__}: {error}") from error
        return False


def _uri(services: Mapping[str, LocalProcess], _: Path) -> str:
    server = services["hive"]
    assert isinstance(server, Metastore)
    return server.uri


def _properties(endpoints: Endpoints) -> Mapping[str, str]:
    return {"type": "hive", "uri": endpoints.catalog_uri, "warehouse": endpoints.warehouse}


def _session(endpoints: Endpoints, *, lock: bool) -> Mapping[str, str]:
    return {
        "spark.hadoop.iceberg.engine.hive.lock-enabled": str(lock).lower(),
        "spark.hadoop.iceberg.hive.lock-heartbeat-interval-ms": str(HEARTBEAT_MS),
        "spark.hadoop.iceberg.hive.lock-timeout-ms": "60000",
        # With the default, 600 s, a cut connection would block a writer for 10 min.
        "spark.hadoop.hive.metastore.client.socket.timeout": f"{SOCKET_TIMEOUT_MS // 1000}s",
        "spark.hadoop.hive.metastore.client.connect.retry.delay": "1s",
        "spark.hadoop.hive.metastore.failure.retries": "1",
    }


def _pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
    """``get_table``: its parameter ``metadata_location``."""
    from hive_metastore.ttypes import NoSuchObjectException

    parts = split(endpoints.catalog_uri)
    with client(parts.hostname or LOOPBACK, parts.port or 9083, timeout) as metastore:
        try:
            found = metastore.get_table(namespace, table)
        except NoSuchObjectException:
            return None
    location: str | None = found.parameters.get("metadata_location")
    return location


def _version(_: Installation) -> str:
    return version_in_names(r"hive-metastore-([\d.]+)\.jar", (spark_home() / "jars").glob("hive-metastore-*.jar"))


SERVER = CatalogServer("hive", Metastore, _version, ports=("hive",))


def _entry(name: str, summary: str, promise: str, guard: Guard) -> Catalog:
    return Catalog(
        name=name,
        summary=summary,
        promise=promise,
        servers=(SERVER,),
        wire="thrift",
        uri=_uri,
        properties=_properties,
        pointer=_pointer,
        guard=guard,
        pyiceberg=lambda e: {"type": "hive", "uri": e.catalog_uri},
        for_pyiceberg="" if name == SERVER.name else SERVER.name,
        session=partial(_session, lock=guard == "lock"),
    )


HIVE = _entry(
    "hive",
    "Hive Metastore 2.3, with its locks",
    "an exclusive lock of the metastore around reading, comparing and writing the table",
    "lock",
)
HIVE_NOLOCK = _entry(
    "hive-nolock",
    "Hive Metastore 2.3 without locks: broken on purpose",
    "nothing: the client says what it expects, and the server ignores it, like those before HIVE-26882",
    "none",
)
HIVE_CAS = _entry(
    "hive-cas",
    "Hive Metastore 2.3 without locks, with HIVE-26882",
    "the server compares metadata_location with what the client expects, and writes the table, in one transaction",
    "compare-and-swap",
)
