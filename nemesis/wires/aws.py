"""Amazon's JSON protocols (1.0 of DynamoDB, 1.1 of Glue) as the proxies see them: HTTP with the name of the call in ``X-Amz-Target``.

Iceberg's commit is ``UpdateTable`` of Glue (``aws/glue/GlueTableOperations``) and ``UpdateItem`` of a table's item of DynamoDB
(``aws/dynamodb/DynamoDbTableOperations``). An error that a service answers is a 4xx or 5xx with ``__type`` in its body.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

from nemesis.faults.fields import RequestKind
from nemesis.wires.http import END, Head, Http
from nemesis.wires.pipe import Pipe
from nemesis.wires.wire import Request

_KINDS: dict[str, RequestKind] = {
    "UpdateTable": "commit",
    "GetTable": "load",
    "CreateTable": "create",
    "DeleteTable": "drop",
    "GetTables": "list",
    "UpdateItem": "commit",
    "GetItem": "load",
    "PutItem": "create",
    "DeleteItem": "drop",
    "Query": "list",
}
_NAMESPACE_ITEM = b'"NAMESPACE"'
"""The identifier of an item that stands for a namespace instead of a table."""
_LOCATION = re.compile(r"metadata_location$")


class AwsJson(Http):
    """One connection to Glue or DynamoDB."""

    def kind(self, method: str, target: str, head: Head) -> RequestKind:
        return _KINDS.get(head.get("x-amz-target").rpartition(".")[2], "other")

    async def request(self, client: Pipe) -> Request | None:
        request = await super().request(client)
        if request is not None and request.kind == "load" and request.message.complete:
            # All calls are POST /, so the body says what is asked for.
            body = (await request.message.whole()).partition(END)[2]
            request.key = body.decode("utf-8", "replace")
            with contextlib.suppress(ValueError, AttributeError):
                content = json.loads(body)
                item = (content.get("Key") or {}).get("identifier") or {}
                request.table = content.get("Name") or str(item.get("S") or "").rpartition(".")[2] or None
        return request

    def understand(self, request: Request, path: str, raw: bytes, head_length: int) -> None:
        body = raw[head_length:]
        if _NAMESPACE_ITEM in body:
            request.kind = "other"
            return
        try:
            content = json.loads(body)
        except ValueError:
            return  # an unknown body is passed on unread
        with contextlib.suppress(AttributeError, TypeError):  # a body of another form is passed on unread
            if isinstance(content.get("TableInput"), dict):
                self._glue(request, content["TableInput"])
            elif isinstance(content.get("Key"), dict):
                self._dynamodb(request, content)

    def _glue(self, request: Request, table: dict[str, Any]) -> None:
        parameters = table.get("Parameters") or {}
        request.table = table.get("Name")
        request.new = parameters.get("metadata_location")
        request.base = parameters.get("previous_metadata_location")

    def _dynamodb(self, request: Request, content: dict[str, Any]) -> None:
        identifier = (content["Key"].get("identifier") or {}).get("S") or ""
        request.table = identifier.rpartition(".")[2] or None
        names = content.get("ExpressionAttributeNames") or {}
        values = content.get("ExpressionAttributeValues") or {}
        # "SET #k0 = :v0, …": the placeholder of a value leads to its column.
        for name, value in re.findall(r"([#\w.]+)\s*=\s*(:\w+)", content.get("UpdateExpression") or ""):
            column, text = str(names.get(name, name)), (values.get(value) or {}).get("S")
            if column.endswith("previous_metadata_location"):
                request.base = text
            elif _LOCATION.search(column):
                request.new = text

    def error_body(self, status: int, reason: str) -> tuple[str, bytes]:
        kind = "ThrottlingException" if status in (429, 503) else "InternalServiceException"
        return "application/x-amz-json-1.1", json.dumps({"__type": kind, "message": "by the nemesis"}).encode()
