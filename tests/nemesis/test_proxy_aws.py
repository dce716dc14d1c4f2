"""Amazon's JSON protocols at the proxies: which call is a commit, and what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemesis.faults.fault import Fault
from tests.support.peers import Rig, Want

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def call(target: str, body: Any) -> bytes:
    text = json.dumps(body).encode()
    head = f"POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: {target}\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


def update_table(new: str, base: str | None = None) -> bytes:
    """Glue's, as ``GlueTableOperations`` sends it."""
    parameters = {"metadata_location": new, **({} if base is None else {"previous_metadata_location": base})}
    table = {"Name": "t", "TableType": "EXTERNAL_TABLE", "Parameters": parameters}
    return call("AWSGlue.UpdateTable", {"DatabaseName": "d", "TableInput": table, "VersionId": "3"})


def update_item(identifier: str, new: str, base: str) -> bytes:
    """DynamoDB's, as ``DynamoDbTableOperations`` sends it."""
    return call(
        "DynamoDB_20120810.UpdateItem",
        {
            "TableName": "iceberg",
            "Key": {"identifier": {"S": identifier}, "namespace": {"S": "d"}},
            "UpdateExpression": "SET #a = :2,#b = :3,updated_at = :1,v = :4",
            "ExpressionAttributeNames": {"#a": "p.metadata_location", "#b": "p.previous_metadata_location"},
            "ExpressionAttributeValues": {":1": {"N": "1"}, ":2": {"S": new}, ":3": {"S": base}, ":4": {"S": "id"}},
            "ConditionExpression": "v = :5",
        },
    )


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig("aws", tmp_path / "proxy.jsonl") as rig:
        yield rig


def exchange(rig: Rig, *requests: bytes) -> list[dict[str, Any]]:
    """Each on a connection of its own; the proxies' log."""
    for request in requests:
        rig.talk([request, Want(OK)], [Want(request), OK])
    return rig.log()


def test_a_commit_of_glue_says_its_table_and_both_locations(rig: Rig) -> None:
    first, second = exchange(rig, update_table("s3://new", "s3://old"), update_table("s3://new"))
    assert {k: first.get(k) for k in ("kind", "table", "base", "new", "status")} == {
        "kind": "commit",
        "table": "t",
        "base": "s3://old",
        "new": "s3://new",
        "status": "200",
    }
    assert "base" not in second


def test_a_commit_of_dynamodb_is_the_update_of_a_tables_item(rig: Rig) -> None:
    table, namespace = exchange(
        rig, update_item("d.t", "s3://new", "s3://old"), update_item("NAMESPACE", "s3://x", "s3://y")
    )
    assert (table["kind"], table["table"], table["base"], table["new"]) == ("commit", "t", "s3://old", "s3://new")
    assert namespace["kind"] == "other"


@pytest.mark.parametrize(
    ("target", "body", "kind", "table"),
    [
        ("AWSGlue.GetTable", {"DatabaseName": "d", "Name": "t"}, "load", "t"),
        ("DynamoDB_20120810.GetItem", {"Key": {"identifier": {"S": "d.t"}, "namespace": {"S": "d"}}}, "load", "t"),
        ("AWSGlue.CreateTable", {"TableInput": {"Name": "t"}}, "create", None),
        ("AWSGlue.DeleteTable", {}, "drop", None),
        ("DynamoDB_20120810.Query", {}, "list", None),
        ("AWSGlue.GetDatabase", {"Name": "d"}, "other", None),
        ("AWSGlue.UpdateTable", ["odd"], "commit", None),
        ("", {}, "other", None),
    ],
)
def test_a_call_is_what_its_target_says(rig: Rig, target: str, body: Any, kind: str, table: str | None) -> None:
    (record,) = exchange(rig, call(target, body))
    assert (record["kind"], record.get("table")) == (kind, table)


def test_an_older_answer_is_of_the_same_question(rig: Rig) -> None:
    """All calls are POST /: the question is in the body."""

    def ask(name: str) -> bytes:
        return call("AWSGlue.GetTable", {"DatabaseName": "d", "Name": name})

    def answer(text: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + text

    rig.board.remembers = True
    for name, text in (("t", b"1"), ("u", b"9"), ("t", b"2")):
        rig.talk([ask(name), Want(answer(text))], [Want(ask(name)), answer(text)])
    rig.board.arm(Fault(verb="stale", request="load"))
    rig.talk([ask("t"), Want(answer(b"1"))], [])


def test_a_rejected_call_is_told_as_the_service_would(rig: Rig) -> None:
    rig.board.arm(Fault(verb="reject", request="commit", status=503))
    body = b'{"__type": "ThrottlingException", "message": "by the nemesis"}'
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    rig.talk([update_table("s3://new"), Want(head.encode() + body)], [])
