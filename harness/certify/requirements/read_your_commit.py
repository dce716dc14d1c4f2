"""Reads are as new as what was acknowledged, and never go back."""

from __future__ import annotations

import itertools
from functools import partial

from harness.certify import rest
from harness.certify.kit import CLIENTS, Kit, KitTable
from harness.certify.requirement import Exchange, Exchanges, Judgement, Level, Requirement, Severity, failed, passed


def ask(kit: Kit) -> None:
    table = kit.table()
    kit.race(partial(_write, kit, table), *(partial(_read, kit, table, n) for n in range(CLIENTS - 1)))


def _write(kit: Kit, table: KitTable) -> None:
    for n in kit.turns(4 * kit.rounds):
        table.commit(f"set:{n}", rest.properties(n=str(n)))
        table.load(f"own:{n}")


def _read(kit: Kit, table: KitTable, reader: int) -> None:
    for _ in kit.turns(4 * kit.rounds):
        table.load(f"reader:{reader}")


def judge(seen: Exchanges) -> Judgement:
    def shown(e: Exchange) -> int:
        return int(e.metadata.get("properties", {}).get("n", -1))

    for e in seen.all("own"):
        n = int(e.label.partition(":")[2])
        if seen[f"set:{n}"].ok and e.ok and shown(e) < n:
            return failed(f"n is {n}", f"the load after the commit shows {shown(e)}", seen[f"set:{n}"], e)
    for reader in range(CLIENTS - 1):
        loads = [e for e in seen.all(f"reader:{reader}") if e.ok]
        for before, after in itertools.pairwise(loads):
            if shown(after) < shown(before):
                return failed("a reader never goes back", f"{shown(before)}, then {shown(after)}", before, after)
    return passed(f"{len(seen.all('own'))} commits, {len(seen.all('reader'))} loads")


REQUIREMENT = Requirement(
    id="read-your-commit",
    group="reads",
    sentence="After a commit was acknowledged, every load shows it or what came later.",
    asked=(
        "One client commits up to 100 times and loads after each commit, while 7 others load as often each; after 25 "
        "times for no longer than a minute. A load after a commit must show it, and no reader may see an older "
        "version than before."
    ),
    to_do=(
        "Answer loads from the database that commits go to. Where there is a cache or a replica, renew it before "
        "the commit is acknowledged, on all servers."
    ),
    level=Level.PROMISE,
    source="RESTTableOperations.reconcileOnSimpleUpdate",
    effect=Severity.CONFUSES,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
