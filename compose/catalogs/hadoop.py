"""The Hadoop catalog: no server; a commit is the rename of a file to the next version's name. On S3A a rename is a copy.

``HadoopTableOperations`` checks that ``vN.metadata.json`` does not exist, then renames its file to that name. The two steps are not atomic, and
S3A overwrites an existing file, so two writers can both succeed with the same version. ``hadoop-conditional`` lets the object store refuse
that; ``hadoop-locked`` takes Iceberg's lock in DynamoDB around the two steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from compose.catalogs import moto
from compose.catalogs.catalog import Catalog
from compose.endpoints import Endpoints
from compose.processes.process import LocalProcess
from compose.processes.service import ServiceError

LOCK_TABLE = "iceberg_locks"
_VERSION = re.compile(r"/v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?$")


def s3a(endpoints: Endpoints) -> Mapping[str, str]:
    """Hadoop's S3A file system, as Spark properties."""
    plain = urlsplit(endpoints.s3).scheme == "http"
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoints.s3,
        "spark.hadoop.fs.s3a.endpoint.region": endpoints.region,
        "spark.hadoop.fs.s3a.access.key": endpoints.access_key,
        "spark.hadoop.fs.s3a.secret.key": endpoints.secret_key,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": str(not plain).lower(),
        # A store that is down must fail the operation, not the run: with the defaults S3A tries for minutes.
        "spark.hadoop.fs.s3a.attempts.maximum": "3",
        "spark.hadoop.fs.s3a.retry.limit": "3",
        "spark.hadoop.fs.s3a.connection.timeout": "30s",
        "spark.hadoop.fs.s3a.connection.establish.timeout": "5s",
    }


def pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
    """The metadata file with the highest version: what ``HadoopTableOperations`` finds when ``version-hint.text`` is old or lost."""
    from compose.objectstore import ObjectStore, TableReadError

    store = ObjectStore(
        endpoint=endpoints.s3,
        access_key=endpoints.access_key,
        secret_key=endpoints.secret_key,
        region=endpoints.region,
        timeout=timeout,
    )
    folder = "/".join([endpoints.warehouse, *namespace.split("."), table, "metadata"])
    try:
        versions = {int(m[1]): path for path in store.list(folder) if (m := _VERSION.search(path))}
    except TableReadError as e:
        raise ServiceError(endpoints.catalog, f"no metadata location of {namespace}.{table}: {e}") from e
    return versions[max(versions)] if versions else None


HADOOP = Catalog(
    name="hadoop",
    summary="Hadoop catalog on S3A: no server, the object store's files are the catalog",
    promise="nothing: a check that the next version's file does not exist, then a copy to its name",
    wire="s3",
    uri=lambda services, data: getattr(services["minio"], "endpoint", ""),
    properties=lambda e: {"type": "hadoop", "warehouse": e.warehouse},
    pointer=pointer,
    guard="none",
    session=s3a,
    jars=("hadoop",),
    # S3A uses the AWS SDK of Iceberg's bundle, and the jars of its configuration are of the same release of the SDK.
    releases=("1.12.0",),
    scheme="s3a",
    own_io=True,
    overwrites=True,
)

HADOOP_CONDITIONAL = replace(
    HADOOP,
    name="hadoop-conditional",
    summary="Hadoop catalog on S3A whose rename writes with If-None-Match (icequake's class ConditionalRename)",
    promise="one winner for every version: the object store refuses to write vN.metadata.json if it exists",
    guard="compare-and-swap",
    session=lambda e: {**s3a(e), "spark.hadoop.fs.s3a.impl": "ConditionalRename"},
    own_classes=True,
)


def _prepare_lock(services: Mapping[str, LocalProcess], _: Path) -> None:
    """Make the lock's table: drivers that start together would race (``DynamoDbLockManager.ensureLockTableExistsOrCreate``)."""
    moto.make_table(
        services,
        {
            "TableName": LOCK_TABLE,
            "AttributeDefinitions": [{"AttributeName": "entityId", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "entityId", "KeyType": "HASH"}],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )


HADOOP_LOCKED = replace(
    HADOOP,
    name="hadoop-locked",
    summary="Hadoop catalog on S3A with Iceberg's DynamoDB lock (lock-impl), on moto",
    promise="one committer for every version, as long as its heartbeats arrive",
    servers=moto.SERVERS,
    prepare=_prepare_lock,
    uri=moto.uri,
    properties=lambda e: {
        **HADOOP.properties(e),
        "lock-impl": "org.apache.iceberg.aws.dynamodb.DynamoDbLockManager",
        "lock.table": LOCK_TABLE,
        "dynamodb.endpoint": e.catalog_uri,
        "client.region": e.region,
    },
    guard="lock",
)
