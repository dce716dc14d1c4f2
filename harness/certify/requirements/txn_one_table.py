"""An acknowledged transaction over one table is made."""

from __future__ import annotations

from functools import partial

from harness.certify import rest
from harness.certify.kit import CLIENTS, Kit, KitTable
from harness.certify.requirement import Level, Requirement, Severity, keeps_acknowledged


def ask(kit: Kit) -> None:
    table = kit.table()
    for n in range(kit.rounds):
        kit.race(*(partial(_transact, kit, table, n, c) for c in range(CLIENTS)))
    table.load("end")


def _transact(kit: Kit, table: KitTable, n: int, client: int) -> None:
    base, sequence = table.tip(f"load:{n}")
    made = table.snapshot(base, sequence)
    parts = rest.append(made, base)
    kit.send(f"transaction:{n}", "POST", "transactions/commit", {"table-changes": [table.change(*parts)]})


REQUIREMENT = Requirement(
    id="txn-one-table",
    group="creation and transactions",
    sentence="A transaction over one table that was acknowledged is made.",
    asked=(
        "25 rounds: 8 clients at once, each loads the table and appends to it by a transaction over this table "
        "alone. A last load must be built on each acknowledged snapshot."
    ),
    to_do=(
        "Treat a transaction over one table like a commit: check its requirements on the version that the swap "
        "replaces, and answer 409 if another commit came first."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1547",
    effect=Severity.LOSS,
    ask=ask,
    judge=partial(keeps_acknowledged, label="transaction"),
    endpoints=("POST /v1/{prefix}/transactions/commit",),
    tries=1,
)
