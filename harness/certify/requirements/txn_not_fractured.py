"""How often a reader sees half of a transaction."""

from __future__ import annotations

from functools import partial

from harness.certify import rest
from harness.certify.kit import Kit, KitTable
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, passed, soft


def ask(kit: Kit) -> None:
    space = kit.namespace()
    first, second = kit.table(space, "first"), kit.table(space, "second")
    kit.race(partial(_write, kit, first, second), partial(_read, kit, first, second))


def _write(kit: Kit, *tables: KitTable) -> None:
    for n in range(4 * kit.rounds):
        changes = [t.change(rest.properties(n=str(n))) for t in tables]
        kit.send("transaction", "POST", "transactions/commit", {"table-changes": changes})


def _read(kit: Kit, first: KitTable, second: KitTable) -> None:
    for n in range(4 * kit.rounds):
        first.load(f"first:{n}")
        second.load(f"second:{n}")


def judge(seen: Exchanges) -> Judgement:
    pairs = [(e, seen[f"second:{e.label.partition(':')[2]}"]) for e in seen.all("first")]
    values = [tuple(int(e.metadata.get("properties", {}).get("n", -1)) for e in pair) for pair in pairs]
    torn = [pair for pair, (a, b) in zip(pairs, values, strict=True) if b < a]
    if not torn:
        return passed(f"not seen in {len(pairs)} pairs of loads")
    seen_torn = f"{len(torn)} of {len(pairs)} pairs of loads saw one table new and the next one old"
    return soft("the table that is loaded next is new, too", seen_torn, *torn[0])


REQUIREMENT = Requirement(
    id="txn-not-fractured",
    group="creation and transactions",
    sentence="Who loads one table of a transaction new sees the next one new, too.",
    asked=(
        "One client commits 100 transactions over two tables, while another one loads the first and then the "
        "second table, 100 times."
    ),
    to_do=(
        "Make a transaction visible at one moment: swap all pointers in one transaction of the database, and "
        "renew the caches of all its tables before one of them shows the new version."
    ),
    level=Level.SHOULD,
    source="iceberg#10617: the specification claims no isolation",
    effect=Severity.CONFUSES,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/transactions/commit",),
    tries=1,
)
