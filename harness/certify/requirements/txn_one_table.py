"""An acknowledged transaction over one table is made."""

from __future__ import annotations

from functools import partial
from typing import Any

from harness.certify import rest
from harness.certify.kit import CLIENTS, Kit, Table
from harness.certify.requirement import Effect, Exchange, Judgement, Level, Requirement, Seen, failed, passed


def ask(kit: Kit) -> None:
    table = kit.table()
    for n in range(kit.rounds):
        kit.race(*(partial(_transact, kit, table, n, c) for c in range(CLIENTS)))
    table.load("end")


def _transact(kit: Kit, table: Table, n: int, client: int) -> None:
    base, sequence = table.tip(f"load:{n}")
    made = table.snapshot(base, sequence)
    parts = (rest.assert_ref("main", base), rest.add_snapshot(made), rest.set_ref("main", made["snapshot-id"]))
    kit.send(f"transaction:{n}", "POST", "transactions/commit", {"table-changes": [table.change(*parts)]})


def _snapshot(e: Exchange) -> dict[str, Any]:
    found: dict[str, Any] = e.sent["table-changes"][0]["updates"][0]["snapshot"]
    return found


def judge(seen: Seen) -> Judgement:
    main = rest.main_of(seen["end"].metadata, map(_snapshot, seen.all("transaction")))
    made = [e for e in seen.all("transaction") if e.ok]
    lost = [e for e in made if _snapshot(e)["snapshot-id"] not in main]
    if lost:
        return failed("each acknowledged transaction is made", f"{len(lost)} of {len(made)} are not", lost[0])
    if not made:
        return failed("some transactions are made", "none was", *seen.all("transaction")[:1])
    return passed(f"{len(made)} acknowledged transactions are made")


REQUIREMENT = Requirement(
    id="txn-one-table",
    group="creation and transactions",
    sentence="A transaction over one table that was acknowledged is made.",
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1547",
    effect=Effect.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/transactions/commit",),
    tries=1,
)
