"""Of several first commits one is made, whether they come at one moment or one after the other."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harness.certify.kit import CLIENTS, Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed


def ask(kit: Kit) -> None:
    space = kit.namespace()
    for n in range(kit.rounds):
        table = kit.table(space, f"t{n}")
        kit.race(*[partial(table.append, f"round:{n}")] * CLIENTS)
        table.append(f"round:{n}")  # one more, behind the race: servers that let nobody in between may still take it
        table.load(f"end:{n}")


def judge(seen: Exchanges) -> Judgement:
    rounds = {e.label.partition(":")[2] for e in seen.all("end")}
    for n in rounds:
        made = [e for e in seen.all(f"round:{n}") if e.ok]
        snapshots = seen[f"end:{n}"].metadata.get("snapshots", [])
        if len(made) != 1 or len(snapshots) != 1:
            text = f"{len(made)} got 2xx, {len(snapshots)} are there"
            failure = failed("one of the first commits is made", text, *made[:2], seen[f"end:{n}"])
            return failure if made or snapshots else replace(failure, effect=Severity.BREAKS)
    return passed(f"not seen in {len(rounds)} rounds of {CLIENTS} clients")


REQUIREMENT = Requirement(
    id="first-commit-race",
    group="requirements",
    sentence="Of several first commits to an empty table, the server applies one.",
    asked=(
        "25 rounds, each with a new table: 8 clients append its first snapshot at once, and one more does so after "
        "them; each requires that main does not exist. A load shows how many snapshots are there."
    ),
    to_do=(
        "Check the requirement that a branch does not exist at the swap, too. The version without snapshots is "
        "compared like any other."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.3712",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
