"""What the log of a proxy says of commits to a REST catalog: the snapshots that each one adds to which table, whoever sends it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.peers import Rig, Want

TRANSACTION = "/v1/transactions/commit"
DONE = b"HTTP/1.1 204 No Content\r\n\r\n"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig("http", tmp_path / "proxy.jsonl") as rig:
        yield rig


def requires(snapshot: int | None, ref: str = "main") -> dict[str, Any]:
    return {"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": snapshot}


def adds(snapshot: int, op: str | None = None) -> dict[str, Any]:
    summary = {"operation": "append"} | ({} if op is None else {"icequake-op": op})
    return {"action": "add-snapshot", "snapshot": {"snapshot-id": snapshot, "summary": summary}}


def sets(snapshot: int, ref: str = "main") -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": ref, "type": "branch", "snapshot-id": snapshot}


def change(table: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {
        "identifier": {"namespace": ["db"], "name": table},
        "requirements": [{"type": "assert-table-uuid", "uuid": "x"}, *(p for p in parts if "type" in p and "ref" in p)],
        "updates": [p for p in parts if "action" in p],
    }


def logged(rig: Rig, path: str, body: object) -> dict[str, Any]:
    """The line of the log for a request with this body, which writer 0 sends while it performs ``w0-7``."""
    data = json.dumps(body).encode()
    sent = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
    rig.board.invoked(0, "w0-7")
    rig.talk([sent, Want(DONE)], [Want(sent), DONE])
    (line,) = rig.log()
    return line


def test_a_transaction_over_one_table_says_who_adds_which_snapshot(rig: Rig) -> None:
    """As DuckDB sends it: nothing is staged, and the summary names no operation."""
    line = logged(rig, TRANSACTION, {"table-changes": [change("t", requires(1), adds(2), sets(2))]})
    said = {k: line[k] for k in ("writer", "service", "kind", "what", "op", "table", "base", "new", "status")}
    assert said == {
        "writer": 0,
        "service": "catalog",
        "kind": "commit",
        "what": f"POST {TRANSACTION}",
        "op": "w0-7",
        "table": "t",
        "base": "1",
        "new": "2",
        "status": "204",
    }
    assert line["changes"] == [{"table": "t", "base": "1", "adds": ["2"], "refs": {"main": "2"}}]


def test_a_transaction_over_several_tables_says_it_of_each(rig: Rig) -> None:
    tables = [
        change("a", requires(1), adds(2, "w0-6"), sets(2)),
        change("b", requires(None), adds(9), adds(10), sets(10)),
    ]
    line = logged(rig, TRANSACTION, {"table-changes": tables})
    assert line["changes"] == [
        {"table": "a", "base": "1", "adds": ["2"], "refs": {"main": "2"}},
        {"table": "b", "adds": ["9", "10"], "refs": {"main": "10"}},
    ]
    assert (line["op"], line["table"], line["base"], line["new"]) == ("w0-6", "a", "1", "2")


def test_staged_snapshots_that_become_main_are_no_new_ones(rig: Rig) -> None:
    tables = [change(t, requires(1), sets(2)) for t in ("a", "b")]
    line = logged(rig, "/v1/x/y" + TRANSACTION.removeprefix("/v1"), {"table-changes": tables})
    assert line["changes"] == [{"table": t, "base": "1", "refs": {"main": "2"}} for t in ("a", "b")]
    assert line["new"] == "2"


def test_a_commit_by_the_tables_own_path_says_the_same(rig: Rig) -> None:
    body = {"requirements": [requires(5, "audit")], "updates": [adds(6), sets(6, "audit")]}
    line = logged(rig, "/v1/namespaces/db/tables/t%20x", body)
    assert line["changes"] == [{"table": "t x", "base": "5", "adds": ["6"], "refs": {"audit": "6"}}]
    assert (line["table"], line["base"], line["new"]) == ("t x", "5", "6")


def test_a_commit_without_snapshots_has_no_changes(rig: Rig) -> None:
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert "changes" not in logged(rig, "/v1/namespaces/db/tables/t", body)


@pytest.mark.parametrize(
    "body",
    [
        {"table-changes": 3},
        {"table-changes": [3]},
        {"table-changes": [{"updates": "add-snapshot"}]},
        {"table-changes": [{"identifier": "t", "updates": [adds(1)]}]},
        {"table-changes": [{"updates": [{"action": "add-snapshot", "snapshot": None}]}]},
        {"table-changes": []},
        [],
    ],
)
def test_what_is_no_transaction_passes_unread(rig: Rig, body: object) -> None:
    line = logged(rig, TRANSACTION, body)
    assert line["status"] == "204" and "changes" not in line
