"""A request that arrives when its client has given up, and its table has moved on."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, expect, failed, passed


def ask(kit: Kit) -> None:
    table = kit.table()
    base = table.grown(1)[0]
    made = table.snapshot(base, 2)
    append = rest.append(made, base)
    with kit.late(table, "append:late", *append):
        table.append("append:rival", base, 2)
    table.load("append:end")
    old = rest.asserted("table-uuid", uuid=table.uuid)
    with kit.late(table, "identity:late", old, rest.properties(late="1")):
        kit.send("identity:rival", "DELETE", table.path)
        kit.table(table.namespace, table.name)
    table.load("identity:end")


def judge(seen: Exchanges) -> Judgement:
    for case in ("append", "identity"):
        late, rival, end = (seen[f"{case}:{x}"] for x in ("late", "rival", "end"))
        if late.ok and rival.ok:
            return failed("409: the table has moved on", f"{case}: {late.words()}", rival, late, end)
        if rival.ok and (failure := expect(late, "the table has moved on", 409)):
            return failure
    won = seen["append:rival"].sent["updates"][0]["snapshot"]["snapshot-id"]
    shown = seen["append:end"].metadata.get("current-snapshot-id")
    if seen["append:rival"].ok and shown != won:
        return failed(f"the snapshot {won} is current", f"{shown} is", seen["append:late"], seen["append:end"])
    if "late" in seen["identity:end"].metadata.get("properties", {}):
        return failed("the new table is as it was", "it was changed", seen["identity:late"], seen["identity:end"])
    return passed()


REQUIREMENT = Requirement(
    id="late-request",
    group="sent twice or late or lost",
    sentence="A commit that began before another one and arrives after it is refused.",
    asked=(
        "Two commits are begun, and their last byte is sent when the table has moved on: one after a rival's "
        "append on its base, one after a DROP with a new table of that name."
    ),
    to_do=(
        "Check requirements when a commit is applied, on the metadata of that moment, not of the moment at which "
        "the request began. Both of these are then 409."
    ),
    level=Level.PROMISE,
    source="what a catalog is for",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
)
