"""A dropped table stays dropped."""

from __future__ import annotations

from functools import partial

from harness.certify import rest
from harness.certify.kit import Kit, KitTable
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, misleads, passed


def ask(kit: Kit) -> None:
    space = kit.namespace()
    for n in range(kit.rounds):
        table = kit.table(space, f"t{n}")
        table.commit(f"before:{n}", rest.properties(p="0"))  # a catalog that commits nothing is noticed before the drop
        kit.race(
            partial(_drop, kit, table, n),
            *(partial(table.commit, f"beside:{n}", rest.properties(p="1")) for _ in range(3)),
        )
        table.load(f"end:{n}")


def _drop(kit: Kit, table: KitTable, n: int) -> None:
    kit.send(f"drop:{n}", "DELETE", table.path)
    table.commit(f"after:{n}", rest.properties(q="1"))


def judge(seen: Exchanges) -> Judgement:
    for drop in (e for e in seen.all("drop") if e.ok):
        n = drop.label.partition(":")[2]
        for e in (seen[f"after:{n}"], seen[f"end:{n}"]):
            if e.ok:
                return failed("404 after the drop", f"{e.label}: {e.words()}", drop, e)
    return misleads(seen.exchanges) or passed(f"{len(seen.all('drop'))} rounds")


REQUIREMENT = Requirement(
    id="drop-ends-commits",
    group="namespaces and tables and views",
    sentence="After a DROP was acknowledged no commit is, and no table comes back.",
    asked=(
        "25 rounds, each with a new table that has one commit: one client drops it and then commits to it, while 3 others "
        "send it one same commit. Afterwards a load must find no table."
    ),
    to_do=(
        "Let a commit update the table's entry that it read, in one transaction with the swap, and never insert "
        "one. If the entry is gone, answer 404."
    ),
    level=Level.PROMISE,
    source="what a catalog is for",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
