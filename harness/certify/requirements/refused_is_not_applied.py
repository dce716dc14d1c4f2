"""What was refused was not done."""

from __future__ import annotations

from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed
from harness.certify.rivals import ASKED, rivals_on_one_base


def judge(seen: Exchanges) -> Judgement:
    applied = {s["snapshot-id"]: e for e in seen.all("load") for s in e.metadata.get("snapshots", [])}
    refused = [e for e in seen.all("round") if e.refused]
    for e in refused:
        made = e.sent["updates"][0]["snapshot"]["snapshot-id"]
        if made in applied:
            return failed("a refused snapshot is in no version of the table", f"{made} is", e, applied[made])
    return passed(f"{len(refused)} refused commits are in no version")


REQUIREMENT = Requirement(
    id="refused-is-not-applied",
    group="one winner and nothing lost",
    sentence="Nothing that the server answered with 4xx is in the table later.",
    asked=ASKED.format(
        judged="No load may have the snapshot of a commit that got 4xx.",
        others="`one-winner-per-base` and `raced-conflict-is-409`",
    ),
    to_do=(
        "Answer 4xx only if the swap was certainly not made. If an attempt's outcome is not known, look whether "
        "the pointer is at its file before another attempt is made or refused."
    ),
    level=Level.CLIENTS,
    source="SnapshotProducer.commit: after a refusal it deletes the files of its snapshot",
    effect=Severity.LOSS,
    ask=rivals_on_one_base,
    judge=judge,
    tries=1,
    any_catalog=True,
)
