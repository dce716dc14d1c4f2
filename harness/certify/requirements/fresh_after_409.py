"""Who lost a race can read who won."""

from __future__ import annotations

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
    table.append("rival", base, 2)
    table.append("late", base, 2)
    table.load("load")


def judge(seen: Exchanges) -> Judgement:
    won = seen["rival"].sent["updates"][0]["snapshot"]["snapshot-id"]
    shown = seen["load"].metadata.get("current-snapshot-id")
    stale = (
        None if shown == won else failed(f"the snapshot {won} is current", f"{shown} is", seen["rival"], seen["load"])
    )
    return first_failure(
        expect(seen["rival"], "the first is made", 2), expect(seen["late"], "its base is gone", 409), stale
    )


REQUIREMENT = Requirement(
    id="fresh-after-409",
    group="one winner and nothing lost",
    sentence="After a 409 a load shows the version that won.",
    asked=(
        "Two appends on one base, one after the other. The second must get 409, and a load right after it must "
        "show the snapshot of the first."
    ),
    to_do=(
        "Answer loads from the database that refused the commit, not from a cache or a replica that may be "
        "behind. Remove the table from the cache at each conflict."
    ),
    level=Level.CLIENTS,
    source="SnapshotProducer.refresh: the next try begins with what is loaded",
    effect=Severity.BREAKS,
    ask=ask,
    judge=judge,
    any_catalog=True,
)
