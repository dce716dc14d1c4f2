"""A table's history is kept."""

from __future__ import annotations

from harness.certify.kit import Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed

STEPS = 10
"""Far fewer than the 100 old versions that Iceberg keeps by default, so a log that lacks one has not dropped it for its age."""


def ask(kit: Kit) -> None:
    table = kit.table()
    table.load("start")
    kit.note(snapshots=table.grown(STEPS))
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    end = seen["end"].metadata
    logged = [entry["snapshot-id"] for entry in end.get("snapshot-log", [])]
    if logged != seen.notes["snapshots"]:
        return failed(f"{STEPS} steps in snapshot-log", f"{len(logged)}", seen["end"])
    if len(end.get("metadata-log", [])) < STEPS:
        return failed(f"{STEPS} versions in metadata-log", f"{len(end.get('metadata-log', []))}", seen["end"])
    numbers = [s["sequence-number"] for s in sorted(end["snapshots"], key=lambda s: s["snapshot-id"])]
    if numbers != sorted({*numbers}):
        return failed("sequence numbers grow", f"{numbers}", seen["end"])
    return passed(f"{STEPS} steps")


REQUIREMENT = Requirement(
    id="logs-kept",
    group="metadata kept",
    sentence="Both logs have each step, and sequence numbers only grow.",
    asked=(
        "10 appends, one after the other. A load must have these 10 in snapshot-log, at least 10 versions in "
        "metadata-log, and growing sequence numbers."
    ),
    to_do=(
        "Build each version from the whole of the one before. Shorten metadata-log only by "
        "write.metadata.previous-versions-max (100 by default), and no log by a rule of the server's own."
    ),
    level=Level.PROMISE,
    source="Table spec, metadata-log and snapshot-log",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
