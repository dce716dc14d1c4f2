"""S3 at the proxies: which request is the commit of the Hadoop catalog, and which that of a Delta table."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.faults.fault import Fault
from tests.support.peers import Rig, Want

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
COPY, ABSENT = "x-amz-copy-source: /w/db/t/metadata/f0.metadata.json", "If-None-Match: *"
FOLDER = "/w/db/t/metadata"


@pytest.mark.parametrize(
    ("method", "name", "field", "kind"),
    [
        ("PUT", "v3.metadata.json", COPY, "commit"),
        ("PUT", "v3.gz.metadata.json", COPY, "commit"),
        ("PUT", "v3.metadata.json", ABSENT, "commit"),
        ("PUT", "v3.gz.metadata.json", ABSENT, "commit"),
        ("PUT", "f0.metadata.json", ABSENT, "write"),  # the temporary file, if S3A is told to create so
        ("PUT", "v3.metadata.json", "x: y", "write"),
        ("PUT", "version-hint.text", COPY, "write"),
        ("PUT", "version-hint.text", ABSENT, "write"),
        ("GET", "v3.metadata.json", ABSENT, "read"),
    ],
)
def test_a_commit_copies_to_the_next_version_or_writes_what_must_be_absent(
    tmp_path: Path, method: str, name: str, field: str, kind: str
) -> None:
    request = f"{method} {FOLDER}/{name} HTTP/1.1\r\nHost: x\r\n{field}\r\nContent-Length: 0\r\n\r\n".encode()
    with Rig("s3", tmp_path / "proxy.jsonl") as rig:
        rig.talk([request, Want(OK)], [Want(request), OK])
        (record,) = rig.log()
    assert (record["kind"], record["what"]) == (kind, f"{method} {FOLDER}/{name}")


@pytest.mark.parametrize(
    ("method", "name", "kind"),
    [
        ("PUT", "00000000000000000007.json", "commit"),
        ("PUT", "00000000000000000010.checkpoint.parquet", "write"),
        ("PUT", ".00000000000000000007.crc.0a-1b.tmp", "write"),
        ("PUT", "_last_checkpoint", "write"),
        ("HEAD", "00000000000000000007.json", "read"),
    ],
)
def test_a_commit_to_a_delta_table_is_the_write_of_a_version_and_names_table_and_operation(
    tmp_path: Path, method: str, name: str, kind: str
) -> None:
    body = b'{"commitInfo":{"operation":"WRITE","userMetadata":"w1-7","txnId":"x"}}\n' if method == "PUT" else b""
    head = f"{method} /w/db/t/_delta_log/{name} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    request = head.encode() + body
    with Rig("s3", tmp_path / "proxy.jsonl") as rig:
        rig.talk([request, Want(OK)], [Want(request), OK])
        (record,) = rig.log()
    assert record["kind"] == kind
    assert (record.get("table") == "t") is (kind == "commit")


def test_a_store_that_refuses_says_so_as_s3_does_and_a_head_gets_no_body(tmp_path: Path) -> None:
    head, get = (f"{method} /w/a HTTP/1.1\r\nHost: x\r\n\r\n".encode() for method in ("HEAD", "GET"))
    with Rig("s3", tmp_path / "proxy.jsonl") as rig:
        rig.board.arm(Fault(verb="reject", request="any", status=403))
        client, _ = rig.connection()
        client.sendall(head)
        assert client.recv(1 << 16).endswith(b"\r\n\r\n")
        client.sendall(get)
        got = client.recv(1 << 16)
    assert got.startswith(b"HTTP/1.1 403 Forbidden\r\n") and b"<Code>AccessDenied</Code>" in got
