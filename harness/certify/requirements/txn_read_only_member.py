"""A transaction may rely on what it only read."""

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
    space = kit.namespace()
    read, written = kit.table(space, "read"), kit.table(space, "written")
    changes = [
        read.change(rest.asserted("current-schema-id", current_schema_id=99)),
        written.change(rest.properties(p="1")),
    ]
    kit.send("transaction", "POST", "transactions/commit", {"table-changes": changes})
    written.load("end")


def judge(seen: Exchanges) -> Judgement:
    if "p" in seen["end"].metadata.get("properties", {}):
        return failed("nothing is applied", "p is set in the other table", seen["transaction"], seen["end"])
    return first_failure(expect(seen["transaction"], "a requirement does not hold", 409))


REQUIREMENT = Requirement(
    id="txn-read-only-member",
    group="creation and transactions",
    sentence="A table that a transaction only reads is checked, too.",
    asked=(
        "One transaction over two tables: of the first only a requirement, which is false, and of the second a "
        "property. The second must not be changed."
    ),
    to_do=(
        "Check the requirements of each table of a transaction, also of those without updates, in the database's "
        "transaction that swaps the others."
    ),
    level=Level.SHOULD,
    source="rest-catalog-open-api.yaml l.1554",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/transactions/commit",),
)
