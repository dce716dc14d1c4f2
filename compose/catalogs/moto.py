"""Amazon's catalogs, Glue and DynamoDB, on moto: a server with their interfaces, which keeps its changes in a journal.

Iceberg's GlueCatalog commits by UpdateTable with the VersionId that it read. The real service refuses another VersionId than the table's. moto
does not compare, like earlier versions of Glue and some other servers with its interface: ``glue``. ``glue-cas`` is the same server
with the comparison added (``compose/catalogs/moto_server.py``).
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compose.catalogs.catalog import Catalog, CatalogServer, Guard, Site, split
from compose.endpoints import Endpoints
from compose.install import releases
from compose.install.installation import UNKNOWN_VERSION, Installation
from compose.processes.ports import LOOPBACK
from compose.processes.process import LocalProcess, NotReady, base_environment
from compose.processes.service import ServiceError
from compose.servers.minio import AWS_ENVIRONMENT

MOTO_LOCK = Path(__file__).with_name("moto.lock")
SERVER = Path(__file__).with_name("moto_server.py")
DYNAMODB_TABLE = "iceberg"


class Moto(LocalProcess):
    """The server. Its journal holds what it acknowledged, so SIGKILL loses nothing."""

    role = "catalog"

    def __init__(self, site: Site) -> None:
        super().__init__(
            "moto",
            run_id=site.run_id,
            ports=site.ports,
            port_names=["moto"],
            folder=site.data / "moto",
            log=site.logs / "moto.log",
        )
        self._home = site.installation.home
        self._compare = site.catalog.guard == "compare-and-swap"
        self._region = "us-east-1"

    @property
    def uri(self) -> str:
        return f"http://{LOOPBACK}:{self.port()}"

    def provide(self) -> None:
        releases.environment(self._home, MOTO_LOCK)

    def argv(self) -> Sequence[str]:
        python = releases.environment(self._home, MOTO_LOCK)
        more = ["compare"] if self._compare else []
        return [str(python), "-I", str(SERVER), str(self.port()), str(self.folder / "journal.jsonl"), *more]

    def environment(self) -> Mapping[str, str]:
        return {**base_environment(), **AWS_ENVIRONMENT, "AWS_DEFAULT_REGION": self._region}

    def probe(self, timeout: float) -> None:
        ask(self.uri, "AWSGlue.GetDatabases", {}, timeout)


def _version(_: Installation) -> str:
    found = re.search(r"^moto==(\S+)", MOTO_LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else UNKNOWN_VERSION


SERVERS = (CatalogServer("moto", Moto, _version, ports=("moto",), lock=MOTO_LOCK),)


def ask(uri: str, target: str, question: Mapping[str, Any], timeout: float) -> tuple[int, Any]:
    """One call of AWS JSON 1.0/1.1, with the only part of a signature that moto reads: the name of the service.

    Raises NotReady for an answer that cannot be read, OSError when there is no answer.
    """
    parts = split(uri)
    service = "dynamodb" if target.startswith("DynamoDB") else "glue"
    connection = http.client.HTTPConnection(parts.hostname or LOOPBACK, parts.port, timeout=max(timeout, 0.05))
    headers = {
        "Content-Type": f"application/x-amz-json-1.{'0' if service == 'dynamodb' else '1'}",
        "X-Amz-Target": target,
        "Authorization": f"AWS4-HMAC-SHA256 Credential=admin/20260101/us-east-1/{service}/aws4_request, "
        "SignedHeaders=host, Signature=0",
    }
    try:
        connection.request("POST", "/", json.dumps(question).encode(), headers)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body)
    except (http.client.HTTPException, ValueError) as e:
        raise NotReady(f"{target}: {type(e).__name__}: {e}") from e
    finally:
        connection.close()


def _asked(
    endpoints: Endpoints, what: str, target: str, question: Mapping[str, Any], timeout: float
) -> tuple[int, Any]:
    try:
        return ask(endpoints.catalog_uri, target, question, timeout)
    except (OSError, NotReady) as e:
        raise ServiceError(endpoints.catalog, f"no metadata location of {what}: {type(e).__name__}: {e}") from e


def _glue_pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
    question = {"DatabaseName": namespace, "Name": table}
    status, answer = _asked(endpoints, f"{namespace}.{table}", "AWSGlue.GetTable", question, timeout)
    if status == 200:
        return str(answer["Table"]["Parameters"]["metadata_location"])
    if "EntityNotFoundException" in str(answer.get("__type")):
        return None
    raise ServiceError(endpoints.catalog, f"asked for {namespace}.{table} it answers {status}: {str(answer)[:200]}")


def _dynamodb_pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
    question = {
        "TableName": DYNAMODB_TABLE,
        "ConsistentRead": True,
        "Key": {"identifier": {"S": f"{namespace}.{table}"}, "namespace": {"S": namespace}},
    }
    status, answer = _asked(endpoints, f"{namespace}.{table}", "DynamoDB_20120810.GetItem", question, timeout)
    if status != 200:
        raise ServiceError(endpoints.catalog, f"asked for {namespace}.{table} it answers {status}: {str(answer)[:200]}")
    return str(answer["Item"]["p.metadata_location"]["S"]) if "Item" in answer else None


def _server(services: Mapping[str, LocalProcess]) -> Moto:
    server = services["moto"]
    assert isinstance(server, Moto)
    return server


def uri(services: Mapping[str, LocalProcess], _: Path) -> str:
    """The server's address."""
    return _server(services).uri


def make_table(services: Mapping[str, LocalProcess], table: Mapping[str, Any]) -> None:
    """Make a table of DynamoDB if it is not there; ``table``: a request CreateTable. Raises ServiceError."""
    server = _server(services)
    try:
        status, answer = ask(server.uri, "DynamoDB_20120810.CreateTable", table, 10)
    except (OSError, NotReady) as e:
        raise server.error(f"cannot make the table {table['TableName']}: {type(e).__name__}: {e}") from e
    if status != 200 and "ResourceInUseException" not in str(answer.get("__type")):  # it is there already
        raise server.error(f"cannot make the table {table['TableName']}: {answer}")


def _prepare_dynamodb(services: Mapping[str, LocalProcess], _: Path) -> None:
    """Make the catalog's table if it is not there. Raises ServiceError.

    Drivers that start together would race to make it: aws/dynamodb/DynamoDbCatalog.ensureCatalogTableExistsOrCreate.
    """
    key = [("identifier", "HASH"), ("namespace", "RANGE")]
    by_namespace = [("namespace", "HASH"), ("identifier", "RANGE")]
    table = {
        "TableName": DYNAMODB_TABLE,
        "AttributeDefinitions": [{"AttributeName": n, "AttributeType": "S"} for n, _ in key],
        "KeySchema": [{"AttributeName": n, "KeyType": t} for n, t in key],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": "namespace-identifier",
                "KeySchema": [{"AttributeName": n, "KeyType": t} for n, t in by_namespace],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }
    make_table(services, table)


def _keys(endpoints: Endpoints) -> Mapping[str, str]:
    """The drivers' own credentials, for Glue's client (the object store's properties are S3's alone)."""
    return {"client.region": endpoints.region}


def _python(e: Endpoints) -> Mapping[str, str]:
    """Where PyIceberg asks and by which keys: without them boto3 takes those of the user, and may ask Amazon."""
    return {**_keys(e), "client.access-key-id": e.access_key, "client.secret-access-key": e.secret_key}


def _glue(name: str, summary: str, promise: str, guard: Guard) -> Catalog:
    return Catalog(
        name=name,
        summary=summary,
        promise=promise,
        servers=SERVERS,
        wire="aws",
        uri=uri,
        properties=lambda e: {
            "type": "glue",
            "glue.endpoint": e.catalog_uri,
            "glue.skip-name-validation": "true",
            "warehouse": e.warehouse,
            **_keys(e),
        },
        pointer=_glue_pointer,
        guard=guard,
        pyiceberg=lambda e: {"type": "glue", "glue.endpoint": e.catalog_uri, **_python(e)},
    )


GLUE = _glue(
    "glue",
    "Glue's interface on moto, whose UpdateTable does not compare: broken",
    "nothing: the writer sends the version that it read, and the server ignores it",
    "none",
)
GLUE_CAS = _glue(
    "glue-cas",
    "Glue's interface on moto, with the comparison that Amazon's service makes",
    "UpdateTable with the VersionId that the writer read: another one is refused",
    "compare-and-swap",
)
DYNAMODB = Catalog(
    name="dynamodb",
    summary="Iceberg's DynamoDB catalog on moto",
    promise="UpdateItem on the condition that the item's version is the one that the writer read",
    servers=SERVERS,
    prepare=_prepare_dynamodb,
    wire="aws",
    uri=uri,
    properties=lambda e: {
        "catalog-impl": "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog",
        "dynamodb.endpoint": e.catalog_uri,
        "dynamodb.table-name": DYNAMODB_TABLE,
        "warehouse": e.warehouse,
        **_keys(e),
    },
    pointer=_dynamodb_pointer,
    pyiceberg=lambda e: {
        "py-catalog-impl": "compose.catalogs.dynamodbclient.DynamoDbAt",
        "dynamodb.endpoint": e.catalog_uri,
        "table-name": DYNAMODB_TABLE,
        **_python(e),
    },
)
