"""S3 at the proxies: which request is the Hadoop catalog's commit."""

from __future__ import annotations

from pathlib import Path

import pytest

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
