"""A late copy of a commit undoes nothing."""

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
    base = table.grown(1)[0]
    made = table.snapshot(base, 2)
    parts = rest.append(made, base)
    table.commit("commit", *parts)
    rival, _ = table.append("rival", made["snapshot-id"], 3)
    kit.note(rival=rival)
    table.commit("again", *parts)
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    current = seen["end"].metadata.get("current-snapshot-id")
    failure = (
        None
        if current == seen.notes["rival"]
        else failed("the rival's snapshot is current", f"{current} is", seen["again"], seen["end"])
    )
    return first_failure(expect(seen["rival"], "made", 2), failure, expect(seen["again"], "its base is gone", 409))


REQUIREMENT = Requirement(
    id="resend-after-rival",
    group="sent twice or late or lost",
    sentence="A commit that arrives again after another one does not undo that one.",
    asked=(
        "An append, a rival's append on it, and then the first one again, unchanged. The rival's snapshot must "
        "stay the current one."
    ),
    to_do=(
        "Check assert-ref-snapshot-id on the metadata of that moment each time that a request arrives. That an "
        "earlier copy of it was made allows nothing."
    ),
    level=Level.CLIENTS,
    source="ExponentialHttpRequestRetryStrategy",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    any_catalog=True,
)
