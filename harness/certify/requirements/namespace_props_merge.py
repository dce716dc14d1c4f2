"""Properties of a namespace are not lost."""

from __future__ import annotations

from functools import partial

from harness.certify import rest
from harness.certify.kit import CLIENTS, Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, named, passed


def ask(kit: Kit) -> None:
    space = kit.namespace()
    path = f"{rest.namespace_path(space)}/properties"
    for n in range(kit.rounds):
        kit.race(
            *(partial(kit.send, f"set:{n}", "POST", path, {"updates": {f"p{n}-{c}": "1"}}) for c in range(CLIENTS))
        )
    kit.asked("end", rest.namespace_path(space))


def judge(seen: Exchanges) -> Judgement:
    made = [e for e in seen.all("set") if e.ok]
    kept = (seen["end"].body or {}).get("properties", {})
    lost = [e for e in made if not e.sent["updates"].keys() <= kept.keys()]
    if lost:
        names = named([name for e in lost for name in e.sent["updates"]])
        text = f"{len(lost)} of {len(made)} are not: {names}"
        return failed("each acknowledged property is there", text, lost[0], seen["end"])
    return passed(f"{len(made)} acknowledged properties are there")


REQUIREMENT = Requirement(
    id="namespace-props-merge",
    group="namespaces and tables and views",
    sentence="Updates of different properties of a namespace all stay.",
    asked=(
        "25 rounds: 8 clients set a property of their own on one namespace at once. A last load must have every "
        "acknowledged one."
    ),
    to_do=(
        "Store each property in a row of its own, or replace all of them by compare-and-set and try once more if "
        "that lost. Do not read all, change one, and write all."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.477",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/namespaces/{namespace}/properties",),
    tries=1,
    any_catalog=True,
)
