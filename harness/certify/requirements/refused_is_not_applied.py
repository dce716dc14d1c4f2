"""What was refused was not done."""

from __future__ import annotations

from functools import partial

from harness.certify.kit import CLIENTS, Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed


def ask(kit: Kit) -> None:
    table = kit.table()
    base = table.grown(1)[0]
    for n in range(kit.rounds):
        kit.race(*[partial(table.append, f"round:{n}", base, n + 2)] * CLIENTS)
        base = table.load(f"load:{n}").metadata.get("current-snapshot-id", base)


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
    asked=(
        "25 rounds: 8 clients append on one base at once, and the table is loaded after each round. No load may "
        "have the snapshot of a commit that got 4xx."
    ),
    to_do=(
        "Answer 4xx only if the swap was certainly not made. If an attempt's outcome is not known, look whether "
        "the pointer is at its file before another attempt is made or refused."
    ),
    level=Level.CLIENTS,
    source="SnapshotProducer.commit: after a refusal it deletes the files of its snapshot",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
