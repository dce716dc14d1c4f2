"""A key belongs to one request; a server that ignores keys passes."""

from __future__ import annotations

import uuid

from harness.certify import rest
from harness.certify.kit import NEW_TABLE, Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed


def ask(kit: Kit) -> None:
    table = kit.table()
    key = {"Idempotency-Key": str(uuid.uuid4())}
    table.commit("commit", rest.properties(p="1"), headers=key)
    kit.send("drop", "DELETE", table.path, headers=key)
    table.load("after")
    body = {**NEW_TABLE, "name": "other"}
    kit.send("create", "POST", f"{rest.namespace_path(table.namespace)}/tables", body, headers=key)
    kit.asked("other", rest.table_path(table.namespace, "other"))


def judge(seen: Exchanges) -> Judgement:
    if seen["drop"].ok and seen["after"].ok:
        return failed(
            "the table is dropped, or the DROP is refused",
            f"{seen['drop'].status}, and the table is there",
            seen["commit"],
            seen["drop"],
            seen["after"],
        )
    if seen["create"].ok and not seen["other"].ok:
        return failed(
            "the table is made, or refused",
            f"{seen['create'].status}, and it is not there",
            seen["commit"],
            seen["create"],
            seen["other"],
        )
    return passed()


REQUIREMENT = Requirement(
    id="key-of-another-operation",
    group="sent twice or late or lost",
    sentence="A key that was used for another request never acknowledges what is not done.",
    asked=(
        "A commit with an Idempotency-Key; then, with that key, the DROP of its table and the creation of "
        "another one. What gets 2xx must be done. Servers that ignore keys are asked, too."
    ),
    to_do=(
        "Store with a key what it was used for (method, path, hash of the body). Refuse another request with that"
        " key, or do it; never answer it with the stored answer."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.2247",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
)
