"""No change of a transaction is forgotten."""

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
    changes = [table.change(rest.properties(p="1")), table.change(rest.properties(q="1"))]
    kit.send("transaction", "POST", "transactions/commit", {"table-changes": changes})
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    made = {"p", "q"} & seen["end"].metadata.get("properties", {}).keys()
    sent = seen["transaction"]
    if sent.ok and len(made) < 2:
        return failed("both changes are made", f"{sent.status}, and only {sorted(made)} is set", sent, seen["end"])
    if sent.refused and made:
        return failed(
            "a refused transaction changes nothing", f"{sent.status}, and {sorted(made)} is set", sent, seen["end"]
        )
    return first_failure(expect(sent, "made, or refused", 2, 400, 409, 422))


REQUIREMENT = Requirement(
    id="txn-same-table-twice",
    group="creation and transactions",
    sentence="A transaction that names a table twice is refused, or both changes are made.",
    asked="One transaction with two changes of one table; each sets a property of its own.",
    to_do=(
        "Refuse a transaction that names a table twice (400), or apply both changes, one after the other, to one "
        "new version. Do not keep the last one alone."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1547",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/transactions/commit",),
)
