"""A sequence number that another branch has passed."""

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
    first, _ = table.grown(2)
    made = table.snapshot(first, 1)
    table.commit("stale", *rest.append(made, None, "b"))
    table.load("load")


def judge(seen: Exchanges) -> Judgement:
    present = "b" in seen["load"].metadata.get("refs", {})
    applied = failed("nothing is applied", "the branch is there", seen["stale"], seen["load"]) if present else None
    return first_failure(applied, expect(seen["stale"], "the sequence number is behind the table's", 409))


REQUIREMENT = Requirement(
    id="stale-sequence-is-409",
    group="statuses",
    sentence="A commit with a sequence number that the table has passed is a conflict.",
    asked=(
        "A table of 2 snapshots; then a commit makes a branch with a new snapshot on the first, whose sequence "
        "number, 1, the table has passed."
    ),
    to_do=(
        "Refuse a snapshot whose sequence number is not above last-sequence-number with 409 (Iceberg throws "
        "RetryableValidationException), so that its client makes the commit anew. 400 or 500 would end it."
    ),
    level=Level.CLIENTS,
    source="RetryableValidationException; SnapshotProducer",
    effect=Severity.BREAKS,
    ask=ask,
    judge=judge,
)
