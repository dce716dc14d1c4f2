"""A requirement that held when the server looked may not hold any more when it replaces the metadata."""

from __future__ import annotations

from functools import partial

from harness.certify import rest
from harness.certify.kit import TABLE_SCHEMA, Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, expect, failed, passed

CASES = ("branch", "schema", "identity")


def ask(kit: Kit) -> None:
    table = kit.table()
    base = table.grown(1)[0]
    with kit.held(partial(table.append, "branch:held", base, 2)):
        table.append("branch:rival", base, 2)
    table.load("branch:end")
    column = {"id": 3, "name": "added", "required": False, "type": "int"}
    wider = {**TABLE_SCHEMA, "schema-id": 1, "fields": [*TABLE_SCHEMA["fields"], column]}
    add = {"action": "add-schema", "schema": wider, "last-column-id": 3}
    same = rest.asserted("current-schema-id", current_schema_id=0)
    with kit.held(partial(table.commit, "schema:held", same, rest.properties(p="1"))):
        table.commit("schema:rival", same, add, {"action": "set-current-schema", "schema-id": -1})
    table.load("schema:end")
    old = rest.asserted("table-uuid", uuid=table.uuid)
    with kit.held(partial(table.commit, "identity:held", old, rest.properties(q="1"))):
        kit.send("identity:rival", "DELETE", table.path)
        kit.table(table.namespace, table.name)
    table.load("identity:end")


def judge(seen: Exchanges) -> Judgement:
    for case in CASES:
        held, rival, end = (seen[f"{case}:{x}"] for x in ("held", "rival", "end"))
        if held.ok and rival.ok:
            return failed("409: its requirement no longer holds", f"{case}: both got 2xx", held, rival, end)
        if rival.ok and (failure := expect(held, "its requirement no longer holds", 409)):
            return failure
    return passed(f"{len(CASES)} kinds of requirements hold in this order")


REQUIREMENT = Requirement(
    id="checked-at-the-swap",
    group="one winner and nothing lost",
    sentence="A requirement is checked again if another commit came between its check and the swap.",
    asked=(
        "icequake holds a commit of the server before its database and lets a rival through, three times: an "
        "append on its base, a new column, a DROP with a new table of that name. Then it lets the held one "
        "go. Only for servers that icequake runs."
    ),
    to_do=(
        "Check the requirements on the version that the swap replaces: in one transaction with it, or swap only "
        "on the version that was checked. If the swap lost, load, check once more, and answer 409."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1118",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
)
