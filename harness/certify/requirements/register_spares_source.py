"""Who is refused deletes nothing of others."""

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
    path = f"{rest.namespace_path(table.namespace)}/register"
    kit.send("exists", "POST", path, {"name": table.name, "metadata-location": place})
    nowhere = f"{rest.namespace_path(kit.names())}/register"
    kit.send("no-namespace", "POST", nowhere, {"name": "t", "metadata-location": place})
    table.load("after")
    table.commit("commit", rest.properties(p="1"))


def judge(seen: Exchanges) -> Judgement:
    same = seen["before"].body == seen["after"].body
    changed = None if same else failed("the table is as before", seen["after"].words(), seen["exists"], seen["after"])
    return first_failure(
        changed,
        expect(seen["exists"], "the name is taken", 409),
        expect(seen["no-namespace"], "there is no such namespace", 404),
        expect(seen["commit"], "the table can be written", 2),
    )


REQUIREMENT = Requirement(
    id="register-spares-source",
    group="namespaces and tables and views",
    sentence="A registration that is refused leaves the table's metadata as it is.",
    asked=(
        "The metadata file of a table is registered under the table's own name, and in a namespace that does not "
        "exist. Both must be refused; then the table is loaded and gets a commit."
    ),
    to_do=(
        "Check name and namespace before anything is written. Let a refused registration delete no file: the "
        "metadata file that it names belongs to a table."
    ),
    level=Level.PROMISE,
    source="what a catalog is for",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/namespaces/{namespace}/register",),
    any_catalog=True,
)
