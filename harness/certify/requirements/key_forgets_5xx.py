"""A key does not keep an error of the server's."""

from __future__ import annotations

import uuid
from functools import partial

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import (
    Absent,
    Exchanges,
    Judgement,
    Level,
    NotApplicable,
    Requirement,
    Severity,
    failed,
    passed,
)


def ask(kit: Kit) -> None:
    if not kit.server.keys:
        raise NotApplicable(Absent.NO_KEYS)
    table = kit.table()
    key = {"Idempotency-Key": str(uuid.uuid4())}
    send = partial(table.commit, headers=key)
    with kit.held(partial(send, "first", rest.properties(p="1")), "reject", sqlstate="53100"):  # its disk is full
        pass
    send("again", rest.properties(p="1"))
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    first, again, end = seen["first"], seen["again"], seen["end"]
    if first.status >= 500 and not again.ok:
        return failed("the request is made", again.words(), first, again, end)
    if again.ok and end.metadata.get("properties", {}).get("p") != "1":
        return failed("what is acknowledged is in the table", "it is not", first, again, end)
    return passed(f"{first.status}, then {again.status}")


REQUIREMENT = Requirement(
    id="key-forgets-5xx",
    group="sent twice or late or lost",
    sentence="A request that was answered with 5xx is made when it comes again with its idempotency key.",
    asked=(
        "icequake lets the database refuse a commit with an Idempotency-Key once (SQLSTATE 53100, its disk is "
        "full), and sends the same commit with its key again. Only for servers that icequake runs and that "
        "advertise keys."
    ),
    to_do=(
        "Store the answer of a key only if it is final (2xx or 4xx). After a 5xx set the key free, so that the "
        "request is done when it comes once more."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.2243",
    effect=Severity.BREAKS,
    ask=ask,
    judge=judge,
)
