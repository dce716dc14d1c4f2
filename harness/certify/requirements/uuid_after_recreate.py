"""A table of the same name is another table."""

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
    kit.send("drop", "DELETE", table.path)
    kit.table(table.namespace, table.name)
    table.commit("old", rest.asserted("table-uuid", uuid=table.uuid), rest.properties(p="1"))
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    wrote = "p" in seen["end"].metadata.get("properties", {})
    applied = failed("the new table is not changed", "p is set", seen["old"], seen["end"]) if wrote else None
    return first_failure(applied, expect(seen["drop"], "dropped", 2), expect(seen["old"], "another table", 409))


REQUIREMENT = Requirement(
    id="uuid-after-recreate",
    group="requirements",
    sentence="After a table was dropped and created again, a commit for the old one is a conflict.",
    asked=(
        "A table is dropped, a new one of its name is created, and then a commit arrives that requires the UUID "
        "of the old one."
    ),
    to_do="Give each created table a new UUID, and check assert-table-uuid on the metadata that the swap replaces.",
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.3696",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    any_catalog=True,
)
