"""The same commit twice is made once."""

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
    table.load("before")
    table.commit("again", *parts)
    table.load("after")


def judge(seen: Exchanges) -> Judgement:
    same = seen["before"].metadata.get("snapshots") == seen["after"].metadata.get("snapshots")
    changed = (
        None
        if same and seen["after"].ok
        else failed("the table is as before", "it is not", seen["again"], seen["after"])
    )
    return first_failure(expect(seen["commit"], "made", 2), changed, expect(seen["again"], "its base is gone", 409))


REQUIREMENT = Requirement(
    id="duplicate-commit",
    group="sent twice or late or lost",
    sentence="A commit that arrives twice is refused the second time, and nothing is changed or deleted.",
    asked=(
        "An append is sent, the table is loaded, the same append is sent again, and the table is loaded: its "
        "snapshots must be the same as before."
    ),
    to_do=(
        "Check assert-ref-snapshot-id on the metadata of that moment: a second arrival is a 409. Do not delete on"
        " that way what the first one made: each attempt writes files with names of its own."
    ),
    level=Level.CLIENTS,
    source="ExponentialHttpRequestRetryStrategy: a client may send a request twice",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    any_catalog=True,
)
