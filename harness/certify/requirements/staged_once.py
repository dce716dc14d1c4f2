"""A staged table comes to be once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.certify import rest
from harness.certify.kit import NEW_TABLE, NO_ROUTE, Kit
from harness.certify.requirement import (
    Exchanges,
    Judgement,
    Level,
    Requirement,
    Severity,
    expect,
    failed,
    first_failure,
    informed,
)


def ask(kit: Kit) -> None:
    space = kit.namespace()
    path = f"{rest.namespace_path(space)}/tables"
    for label in ("first", "second"):
        kit.send(f"stage:{label}", "POST", path, {**NEW_TABLE, "name": "t", "stage-create": True})
    kit.send("early", "GET", rest.table_path(space, "t"))
    for label in ("first", "second"):
        _create(kit, label, space, kit.seen[f"stage:{label}"].metadata)
    kit.asked("end", rest.table_path(space, "t"))


def _create(kit: Kit, label: str, space: str, staged: Mapping[str, Any]) -> None:
    if not staged:
        return
    spec = staged["partition-specs"][0]
    order = staged["sort-orders"][0]
    parts = [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": staged["format-version"]},
        {"action": "add-schema", "schema": staged["schemas"][0], "last-column-id": staged["last-column-id"]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
        rest.properties(made_by=label),
    ]
    kit.send(f"create:{label}", "POST", rest.table_path(space, "t"), rest.commit(rest.asserted("create"), *parts))


def judge(seen: Exchanges) -> Judgement:
    unwilling = [expect(e, "a table is staged", 2) for e in seen.all("stage")]
    if any(unwilling) and all(e.status in NO_ROUTE or e.status == 406 for e in seen.all("stage")):
        return informed("tables cannot be staged", *seen.all("stage")[:1])
    if any(unwilling):
        return first_failure(*unwilling)
    maker = seen["end"].metadata.get("properties", {}).get("made_by")
    wrong = failed("the first one's table", f"made by {maker}", seen["end"]) if maker != "first" else None
    return first_failure(
        expect(seen["early"], "a staged table is not there", 404),
        expect(seen["create:first"], "the first commit creates it", 2),
        expect(seen["create:second"], "it exists", 409),
        wrong,
    )


REQUIREMENT = Requirement(
    id="staged-once",
    group="creation and transactions",
    sentence="A staged table is invisible until its first commit, and of two first commits one is made.",
    asked=(
        "The same table is staged twice (stage-create) and loaded; then both stagings are committed with "
        "assert-create, one after the other, and it is loaded once more."
    ),
    to_do=(
        "Enter nothing into the catalog for a staged table. Create it at its first commit, by a put-if-absent, "
        "and answer 409 to a second one."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.575, l.1133",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
)
