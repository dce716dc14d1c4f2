"""A transaction is whole or not there."""

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
    tables = [kit.table(space, f"t{n}") for n in range(3)]
    for k in range(3):
        changes = [
            t.change(
                rest.asserted("create") if n == k else rest.asserted("table-uuid", uuid=t.uuid),
                rest.properties(**{f"p{k}": "1"}),
            )
            for n, t in enumerate(tables)
        ]
        kit.send(f"transaction:{k}", "POST", "transactions/commit", {"table-changes": changes})
    for t in tables:
        t.load(f"end:{t.name}")


def judge(seen: Exchanges) -> Judgement:
    for e in seen.all("end"):
        half = {"p0", "p1", "p2"} & e.metadata.get("properties", {}).keys()
        if half:
            wrong = seen[f"transaction:{min(half)[1:]}"]
            return failed("no change of a refused transaction is applied", f"{min(half)} is set at {e.path}", wrong, e)
    return first_failure(*(expect(e, "one change fails", 409) for e in seen.all("transaction")))


REQUIREMENT = Requirement(
    id="txn-all-or-none",
    group="creation and transactions",
    sentence="If one change of a transaction fails, none is applied.",
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1547",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/transactions/commit",),
)
