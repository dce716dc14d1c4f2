"""What is created twice is created once."""

from __future__ import annotations

from functools import partial

from harness.certify import rest
from harness.certify.kit import CLIENTS, NEW_TABLE, Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed


def ask(kit: Kit) -> None:
    space = kit.namespace()
    for n in range(kit.rounds):
        body = {**NEW_TABLE, "name": f"t{n}"}
        path = f"{rest.namespace_path(space)}/tables"
        kit.race(*[partial(kit.send, f"table:{n}", "POST", path, body)] * CLIENTS)
        new = {"namespace": [kit.names()], "properties": {}}
        kit.race(*[partial(kit.send, f"namespace:{n}", "POST", "namespaces", new)] * CLIENTS)


def judge(seen: Exchanges) -> Judgement:
    for label in dict.fromkeys(e.label for e in seen.exchanges):
        rivals = seen.all(label)
        made = [e for e in rivals if e.ok]
        wrong = [e for e in rivals if not e.ok and e.status != 409]
        if len(made) != 1:
            return failed("one is made", f"{label}: {len(made)} got 2xx", *(made or rivals)[:2])
        if wrong:
            return failed("409 for the others", f"{label}: {wrong[0].words()}", wrong[0])
    return passed(f"not seen in {len({e.label for e in seen.exchanges})} rounds of {CLIENTS} clients")


REQUIREMENT = Requirement(
    id="create-once",
    group="creation and transactions",
    sentence="Of several creations of one table or namespace one is made, and the others get 409.",
    asked="25 rounds: 8 clients send the same creation of a table at once, and then the same creation of a namespace.",
    to_do=(
        "Let a unique key of the database, or a put-if-absent, decide who creates, and map its violation to 409, "
        "not to 500. Do not look first and write later."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.610",
    effect=Severity.BREAKS,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
