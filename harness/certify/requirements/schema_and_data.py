"""Data and schema do not undo each other."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import TABLE_SCHEMA, Kit, KitTable
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
    for order in ("append", "column"):
        table = kit.table(space, order)
        base = table.grown(1)[0]
        for act in (order, "column" if order == "append" else "append"):
            if act == "append":
                table.append(f"{order}:append", base, 2)
            else:
                _add_column(table, f"{order}:column")
        table.load(f"end:{order}")


def _add_column(table: KitTable, label: str) -> None:
    fields = [*TABLE_SCHEMA["fields"], {"id": 3, "name": "w", "required": False, "type": "int"}]
    added = {
        "action": "add-schema",
        "schema": {"type": "struct", "schema-id": 1, "fields": fields},
        "last-column-id": 3,
    }
    table.commit(
        label,
        rest.asserted("last-assigned-field-id", last_assigned_field_id=2),
        added,
        {"action": "set-current-schema", "schema-id": -1},
    )


def judge(seen: Exchanges) -> Judgement:
    for order in ("append", "column"):
        end = seen[f"end:{order}"].metadata
        made = seen[f"{order}:append"].sent["updates"][0]["snapshot"]["snapshot-id"]
        names = [
            f["name"]
            for s in end.get("schemas", [])
            if s["schema-id"] == end.get("current-schema-id")
            for f in s["fields"]
        ]
        if seen[f"{order}:column"].ok and "w" not in names:
            return failed(
                "the column is there", f"{order} first: {names}", seen[f"{order}:column"], seen[f"end:{order}"]
            )
        if seen[f"{order}:append"].ok and end.get("current-snapshot-id") != made:
            return failed(
                "the append is there", f"{order} first: {made} is not", seen[f"{order}:append"], seen[f"end:{order}"]
            )
    return first_failure(
        *(expect(e, "they do not conflict", 2) for order in ("append", "column") for e in seen.all(order))
    )


REQUIREMENT = Requirement(
    id="schema-and-data",
    group="metadata kept",
    sentence="An append beside an added column: both are there, in either order.",
    asked=(
        "Two tables: one gets an append and then a new column, the other a new column and then an append, each "
        "made on the version before both. Both commits must be made, and be there."
    ),
    to_do=(
        "Apply a commit's updates to the current metadata, not to the version that its client saw. An append then"
        " takes no column away, and a new column no snapshot."
    ),
    level=Level.PROMISE,
    source="what a catalog is for",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    any_catalog=True,
)
