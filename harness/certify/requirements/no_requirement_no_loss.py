"""Commits that ask for nothing lose nothing of each other."""

from __future__ import annotations

from functools import partial

from harness.certify import rest
from harness.certify.kit import CLIENTS, Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, named, passed


def ask(kit: Kit) -> None:
    table = kit.table()
    for n in range(kit.rounds):
        kit.race(*(partial(table.commit, f"set:{n}", rest.properties(**{f"p{n}-{c}": "x"})) for c in range(CLIENTS)))
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    kept = seen["end"].metadata.get("properties", {})
    made = [e for e in seen.all("set") if e.ok]
    lost = {name: e for e in made for name in e.sent["updates"][0]["updates"] if name not in kept}
    if lost:
        text = f"{len(lost)} of {len(made)} are not: {named(list(lost))}"
        return failed("each acknowledged property is in the table", text, next(iter(lost.values())), seen["end"])
    return passed(f"{len(made)} acknowledged properties are there")


REQUIREMENT = Requirement(
    id="no-requirement-no-loss",
    group="one winner and nothing lost",
    sentence="Commits without requirements that set different properties all stay.",
    asked=(
        "25 rounds: 8 clients set a property of their own on one table at once, by commits without requirements. "
        "A last load must have every acknowledged one."
    ),
    to_do=(
        "A commit without requirements needs the compare-and-set, too. If the swap lost, load the new version and"
        " apply the updates to that one, or answer 409."
    ),
    level=Level.PROMISE,
    source="what a catalog is for",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
