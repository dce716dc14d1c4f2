"""Of several commits on one base at most one is applied."""

from __future__ import annotations

from functools import partial

from harness.certify.kit import CLIENTS, Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed


def ask(kit: Kit) -> None:
    table = kit.table()
    base = table.grown(1)[0]
    for n in range(kit.rounds):
        kit.race(*[partial(table.append, f"round:{n}", base, n + 2)] * CLIENTS)
        won = [e for e in kit.seen.all(f"round:{n}") if e.ok]
        if len(won) != 1:
            table.load(f"after:{n}")
            return
        base = won[0].sent["updates"][0]["snapshot"]["snapshot-id"]
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    for n in range(len(seen.all("round"))):
        rivals = seen.all(f"round:{n}")
        won = [e for e in rivals if e.ok]
        if len(won) > 1:
            return failed("one 2xx for each base", f"{len(won)} of {len(rivals)} commits on one base got 2xx", *won[:2])
    rounds = len({e.label for e in seen.all("round")})
    return passed(f"not seen in {rounds} rounds of {CLIENTS} clients")


REQUIREMENT = Requirement(
    id="one-winner-per-base",
    group="one winner and nothing lost",
    sentence="Of several commits on one base, the server applies at most one.",
    asked=(
        "25 rounds: 8 clients append on one base at once, and the winner's snapshot is the next base. It ends "
        "after the first round that has not exactly one winner."
    ),
    to_do=(
        "Make the swap one atomic step that names the version it replaces (UPDATE … WHERE metadata_location = …, "
        "put-if-match), and count what it changed: nothing changed is a 409."
    ),
    level=Level.PROMISE,
    source="rest-catalog-open-api.yaml l.1162",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
