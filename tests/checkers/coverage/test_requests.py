"""The loads and commit requests of operations, as proxies before each sort of catalog log them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.coverage.phases import MetadataLoad
from checkers.coverage.requests import CommitRequest, CommitRequests, read

MADE = "s3://w/t/metadata/00002-a.metadata.json"


def line(**fields: Any) -> str:
    record = {"time": 1_000_000, "writer": 0, "service": "catalog", "op": "w0-1", "status": "200", "ms": 2.0, **fields}
    return json.dumps({k: v for k, v in record.items() if v is not None}, separators=(",", ":")) + "\n"


def asked(tmp_path: Path, *lines: str, tables: tuple[str, ...] = ("t",)) -> dict[str, CommitRequests]:
    path = tmp_path / "proxy.jsonl"
    path.write_text("".join(lines))
    return read(path, {"w0-1": tables})


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        (
            {"table": "t", "what": "POST /v1/namespaces/n/tables/t", "location": MADE, "changes": [{"table": "t", "adds": ["7"]}]},
            CommitRequest(1_000_000, 3_000_000, True, MADE, (7,)),
        ),
        ({"table": "t", "status": "409", "changes": [{"table": "t", "adds": ["7"]}]}, CommitRequest(1_000_000, 3_000_000, False, None, (7,))),
        ({"table": "t", "status": "UPDATE 1", "new": MADE}, CommitRequest(1_000_000, 3_000_000, True, MADE)),
        ({"table": "t", "status": "UPDATE 0", "new": MADE}, CommitRequest(1_000_000, 3_000_000, False, MADE)),
        ({"table": "t", "status": "ok", "new": MADE.replace("s3:", "s3a:")}, CommitRequest(1_000_000, 3_000_000, True, MADE)),
        ({"what": "PUT /w/t/metadata/v2.metadata.json"}, CommitRequest(1_000_000, 3_000_000, True, "s3://w/t/metadata/v2.metadata.json")),
        ({"table": "t", "status": "200 (nemesis: not told)", "new": MADE}, CommitRequest(1_000_000, 3_000_000, True, MADE)),
        ({"table": "t", "new": "12345"}, CommitRequest(1_000_000, 3_000_000, True, None)),
    ],
)  # fmt: skip
def test_a_commit_request_of_each_sort_of_catalog(tmp_path: Path, fields: dict[str, Any], want: CommitRequest) -> None:
    assert asked(tmp_path, line(kind="commit", **fields)) == {"t": CommitRequests({}, {"w0-1": [want]})}


def test_a_load_is_of_the_table_that_it_names_or_of_the_only_one_of_its_operation(tmp_path: Path) -> None:
    lines = line(kind="load", table="t"), line(kind="load", what="POST /api/v2/trees/main/contents")
    load = MetadataLoad(1_000_000, 3_000_000)
    assert asked(tmp_path, *lines)["t"].loads == {"w0-1": [load, load]}
    assert asked(tmp_path, *lines, tables=("t", "u"))["t"].loads == {"w0-1": [load]}


@pytest.mark.parametrize("status", ["200", "304", "SELECT 1", "ok"])
def test_a_load_that_was_answered_counts(tmp_path: Path, status: str) -> None:
    assert len(asked(tmp_path, line(kind="load", table="t", status=status))["t"].loads["w0-1"]) == 1


def test_a_transaction_asks_for_a_commit_of_each_of_its_tables(tmp_path: Path) -> None:
    changes = [{"table": "t", "adds": ["7"]}, {"table": "u", "adds": ["8"]}]
    found = asked(
        tmp_path, line(kind="commit", what="POST /v1/transactions/commit", changes=changes), tables=("t", "u")
    )
    assert {t: r.asked["w0-1"][0].adds for t, r in found.items()} == {"t": (7,), "u": (8,)}


@pytest.mark.parametrize(
    "text",
    [
        line(kind="commit", table="t")[:40],
        line(kind="commit", table="t", op=None),
        line(kind="commit", table="t", op="w9-9"),
        line(kind="commit", table="t", service="database"),
        line(kind="commit", table="t", ms="soon"),
        line(kind="commit", table="t", time=1.5),
        line(kind="other", table="t"),
        line(kind="load", table="t", status="503"),
        line(kind="load", table="t", status="no reply"),
        line(kind="load", table="t", status="exception"),
        line(kind="load", table="t", status="08006 (nemesis)"),
        line(kind="load", table="t", status="SELECT 0"),
        line(kind="load", table="t", status="200 (nemesis: not told)"),
    ],
)
def test_what_says_nothing_of_an_operation_on_a_table_is_left_out(tmp_path: Path, text: str) -> None:
    assert asked(tmp_path, text) == {}


def test_without_a_proxy_log_there_are_none(tmp_path: Path) -> None:
    assert read(tmp_path / "proxy.jsonl", {}) == {}
