"""Two columns never get one id."""

from __future__ import annotations

from functools import partial
from typing import Any

from harness.certify import rest
from harness.certify.kit import CLIENTS, Kit, KitTable
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed


def ask(kit: Kit) -> None:
    table = kit.table()
    for n in range(kit.rounds):
        now = table.load(f"load:{n}").metadata
        kit.race(*(partial(_add, table, n, c, now) for c in range(CLIENTS)))
    table.load("end")


def _add(table: KitTable, n: int, client: int, now: dict[str, Any]) -> None:
    last = now["last-column-id"]
    schema = max(now["schemas"], key=lambda s: s["schema-id"])
    column = {"id": last + 1, "name": f"c{n}_{client}", "required": False, "type": "int"}
    wider = {"type": "struct", "schema-id": schema["schema-id"] + 1, "fields": [*schema["fields"], column]}
    table.commit(
        f"add:{n}",
        rest.asserted("last-assigned-field-id", last_assigned_field_id=last),
        {"action": "add-schema", "schema": wider, "last-column-id": last + 1},
        {"action": "set-current-schema", "schema-id": -1},
    )


def judge(seen: Exchanges) -> Judgement:
    for n in {e.label for e in seen.all("add")}:
        made = [e for e in seen.all(n) if e.ok]
        if len(made) > 1:
            return failed("one 2xx for each base", f"{len(made)}", *made[:2])
    names: dict[int, set[str]] = {}
    for schema in seen["end"].metadata.get("schemas", []):
        for f in schema["fields"]:
            names.setdefault(f["id"], set()).add(f["name"])
    twice = [n for n in names.values() if len(n) > 1]
    if twice:
        return failed("one name for each column id", f"{sorted(twice[0])} have one id", seen["end"])
    return passed(f"{sum(e.ok for e in seen.all('add'))} columns added")


REQUIREMENT = Requirement(
    id="field-id-once",
    group="requirements",
    sentence="Of several ADD COLUMN on one base one is made, and no two columns get one id.",
    asked=(
        "25 rounds: 8 clients add a column at once, each with the next column id, and with "
        "assert-last-assigned-field-id of one load. Afterwards all schemas are compared."
    ),
    to_do=(
        "Check assert-last-assigned-field-id at the swap, on the version that is replaced: one ADD COLUMN wins, "
        "the others get 409."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.3733",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
