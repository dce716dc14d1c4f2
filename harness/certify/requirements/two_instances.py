"""Two servers on one database are one catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from harness.certify import rest
from harness.certify.kit import CLIENTS, Kit, KitTable
from harness.certify.requirement import (
    Exchange,
    Exchanges,
    Judgement,
    Level,
    Requirement,
    Severity,
    failed,
    keeps_acknowledged,
)


def ask(kit: Kit) -> None:
    table = kit.table()
    base = table.grown(1)[0]
    with kit.twin() as other:
        for n in range(kit.rounds):
            sides = (kit.send, other)
            kit.race(*(partial(_append, sides[c % 2], table, f"round:{n}", base, n + 2) for c in range(CLIENTS)))
            won = [e for e in kit.seen.all(f"round:{n}") if e.ok]
            for side, send in zip(("first", "other"), sides, strict=True):
                send(f"load:{n}:{side}", "GET", table.path, query={"snapshots": "all"})
            if len(won) != 1:
                break
            base = won[0].sent["updates"][0]["snapshot"]["snapshot-id"]
    table.load("end")


def _append(send: Callable[..., Exchange], table: KitTable, label: str, base: int, number: int) -> None:
    made = table.snapshot(base, number)
    parts = rest.append(made, base)
    send(label, "POST", table.path, rest.commit(*parts))


def judge(seen: Exchanges) -> Judgement:
    for label in {e.label: None for e in seen.all("round")}:
        won = [e for e in seen.all(label) if e.ok]
        if len(won) > 1:
            return failed("one 2xx for each base, of both servers", f"{len(won)}", *won[:2], seen["end"])
        for load in seen.all(label.replace("round", "load")) if won else ():
            made = won[0].sent["updates"][0]["snapshot"]["snapshot-id"]
            if (shown := load.metadata.get("current-snapshot-id")) != made:
                old = failed(f"both servers show {made}", f"{load.label}: {shown}", won[0], load)
                return replace(old, effect=Severity.CONFUSES)
    return keeps_acknowledged(seen, "round")


REQUIREMENT = Requirement(
    id="two-instances",
    group="one winner and nothing lost",
    sentence="Through two servers on one database there is one winner, nothing is lost, and both show it.",
    asked=(
        "icequake starts a second server on the database. 25 rounds: 8 clients append on one base at once, 4 of "
        "them through each server, and both load the table. It ends after the first round that has not one "
        "winner. Only for servers that icequake runs."
    ),
    to_do=(
        "Let the database decide the swap, not a lock in the memory of one server, and let no cache of a server "
        "outlive the commit of another one."
    ),
    level=Level.PROMISE,
    source="what a catalog is for",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    tries=1,
)
