"""A view loses no version."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.certify import rest
from harness.certify.kit import NEW_TABLE, TABLE_SCHEMA, Kit
from harness.certify.requirement import (
    Exchanges,
    Judgement,
    Level,
    Requirement,
    Severity,
    expect,
    failed,
    first_failure,
)


def ask(kit: Kit) -> None:
    space = kit.namespace()
    path = rest.namespace_path(space)
    body = {"name": "v", "schema": TABLE_SCHEMA, "properties": {}, "view-version": _version(1, "select 1", space)}
    made = kit.send("create", "POST", f"{path}/views", body)
    uuid_of = rest.asserted("view-uuid", uuid=made.metadata.get("view-uuid", ""))
    for label, sql in (("first", "select 2"), ("second", "select 3")):
        parts = ({"action": "add-view-version", "view-version": _version(2, sql, space)}, SET)
        kit.send(f"replace:{label}", "POST", f"{path}/views/v", rest.commit(uuid_of, *parts))
    kit.asked("end", f"{path}/views/v")
    kit.send("table", "POST", f"{path}/tables", {**NEW_TABLE, "name": "v"})


SET = {"action": "set-current-view-version", "view-version-id": -1}


def _version(number: int, sql: str, space: str) -> dict[str, Any]:
    return {
        "version-id": number,
        "schema-id": 0,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "summary": {},
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
        "default-namespace": [space],
    }


def _sql(version: Mapping[str, Any]) -> str:
    return str(version["representations"][0]["sql"])


def judge(seen: Exchanges) -> Judgement:
    listed = {_sql(v) for v in seen["end"].metadata.get("versions", [])}
    made = [e for e in seen.all("replace") if e.ok]
    missing = [e for e in made if _sql(e.sent["updates"][0]["view-version"]) not in listed]
    if missing:
        failure = failed(
            "each acknowledged version is listed", f"{len(missing)} of {len(made)} are not", *missing, seen["end"]
        )
        # The last one is there: a server that lists the current version alone, as Nessie does, has lost nothing that a reader asks for.
        return failure if made[-1] in missing else replace(failure, effect=Severity.CONFUSES)
    return first_failure(expect(seen["create"], "made", 2), expect(seen["table"], "the name is a view's", 409))


REQUIREMENT = Requirement(
    id="views-no-loss",
    group="namespaces and tables and views",
    sentence="Two replacements of a view are both listed, or one is refused; a name is a table or a view.",
    asked=(
        "A view is created and replaced by two commits, one after the other, both made on its first version. It "
        "is loaded, and a table of its name is created."
    ),
    to_do=(
        "Swap a view's metadata by compare-and-set, and give each version that is added the next free id; list "
        "all that version.history.num-entries keeps. Tables and views share one set of names."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1833, l.610",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/namespaces/{namespace}/views",),
)
