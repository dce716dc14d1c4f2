"""A DROP is no purge."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import Kit
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
    table = kit.table()
    place = table.load("before").body["metadata-location"]
    kit.send("drop", "DELETE", table.path)
    path = f"{rest.namespace_path(table.namespace)}/register"
    kit.send("register", "POST", path, {"name": "again", "metadata-location": place})
    kit.asked("after", rest.table_path(table.namespace, "again"))


def judge(seen: Exchanges) -> Judgement:
    failure = (
        None if seen["register"].ok else failed("its metadata file is there", seen["register"].words(), *seen.exchanges)
    )
    return first_failure(expect(seen["drop"], "dropped", 2), failure, expect(seen["after"], "it can be read", 2))


REQUIREMENT = Requirement(
    id="purge-only-if-asked",
    group="namespaces and tables and views",
    sentence="A DROP without purge keeps the files: the table can be registered again.",
    asked=(
        "A table is dropped without purgeRequested; then its metadata file is registered under another name, and "
        "that table is loaded."
    ),
    to_do=(
        "Remove a table's files only if purgeRequested=true is in the request. Any other DROP removes the table's"
        " entry alone."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1242",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/namespaces/{namespace}/register",),
)
