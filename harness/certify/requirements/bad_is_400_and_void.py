"""What a server does not know, it refuses as a whole."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import (
    Exchanges,
    Judgement,
    Level,
    Requirement,
    Severity,
    expect,
    failed,
    first_failure,
)


def ask(kit: Kit) -> None:
    table = kit.table()
    table.commit("update", rest.properties(p="1"), {"action": "make-coffee"})
    table.commit("requirement", {"type": "assert-weather", "is": "fine"}, rest.properties(q="1"))
    kit.send("malformed", "POST", table.path, raw='{"requirements": [')
    table.load("load")


def judge(seen: Exchanges) -> Judgement:
    applied = {"p", "q"} & seen["load"].metadata.get("properties", {}).keys()
    void = failed("nothing of a bad commit is applied", f"the properties {sorted(applied)} are set", seen["load"])
    return first_failure(
        void if applied else None,
        *(expect(seen[what], f"a bad {what}", 400) for what in ("update", "requirement", "malformed")),
    )


REQUIREMENT = Requirement(
    id="bad-is-400-and-void",
    group="statuses",
    sentence="An unknown update or requirement is answered with 400, and nothing of its commit is applied.",
    asked=(
        "3 commits: one with a property and an update that does not exist (make-coffee), one with a requirement "
        "that does not exist (assert-weather) and a property, one whose JSON is cut off. A load shows whether a "
        "property was set."
    ),
    to_do=(
        "Parse and check the whole commit before anything of it is applied. Map an unknown action, an unknown "
        "type and bad JSON to 400, not to 500, and never skip what is not known."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1122, l.1559",
    effect=Severity.BREAKS,
    ask=ask,
    judge=judge,
)
