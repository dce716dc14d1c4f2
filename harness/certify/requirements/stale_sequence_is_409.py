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
    table.commit("stale", rest.assert_ref("b", None), rest.add_snapshot(made), rest.set_ref("b", made["snapshot-id"]))
    table.load("load")


def judge(seen: Exchanges) -> Judgement:
    present = "b" in seen["load"].metadata.get("refs", {})
    applied = failed("nothing is applied", "the branch is there", seen["stale"], seen["load"]) if present else None
    return first_failure(applied, expect(seen["stale"], "the sequence number is behind the table's", 409))


REQUIREMENT = Requirement(
    id="stale-sequence-is-409",
    group="statuses",
    sentence="A commit with a sequence number that the table has passed is a conflict.",
    level=Level.CLIENTS,
    source="RetryableValidationException; SnapshotProducer",
    effect=Severity.BREAKS,
    ask=ask,
    judge=judge,
)
