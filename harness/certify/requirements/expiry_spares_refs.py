"""Three requests that empty a table, each of them answered with 200 by Iceberg's own server."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed


def ask(kit: Kit) -> None:
    space = kit.namespace()
    tagged = kit.table(space, "tagged")
    old, _ = tagged.grown(2)
    tagged.commit("tag", rest.assert_ref("t", None), rest.set_ref("t", old, "tag"))
    tagged.commit("expiry:tag", rest.remove_snapshots(old))
    tagged.load("end:tag")
    emptied = kit.table(space, "emptied")
    old, new = emptied.grown(2)
    emptied.commit("rollback", rest.assert_ref("main", new), rest.set_ref("main", old))
    emptied.commit("expiry:rollback", rest.remove_snapshots(old))
    emptied.load("end:rollback")


def judge(seen: Exchanges) -> Judgement:
    tagged, emptied = seen["end:tag"].metadata, seen["end:rollback"].metadata
    if seen["tag"].ok and "t" not in tagged.get("refs", {}):
        return failed(
            "the tag lives, or the expiry is refused",
            "the tag is gone",
            seen["tag"],
            seen["expiry:tag"],
            seen["end:tag"],
        )
    if seen["rollback"].ok and emptied.get("current-snapshot-id") in (None, -1):
        text = f"current-snapshot-id is {emptied.get('current-snapshot-id')}: the table is empty"
        return failed("main keeps its snapshot", text, seen["rollback"], seen["expiry:rollback"], seen["end:rollback"])
    return passed()


REQUIREMENT = Requirement(
    id="expiry-spares-refs",
    group="metadata kept",
    sentence="An expiry does not take the snapshot of a branch or a tag, nor the current one.",
    asked=(
        "Two tables of 2 snapshots: one gets a tag on its old snapshot, main of the other is rolled back to it. "
        "Then a commit without requirements removes that snapshot, and both are loaded."
    ),
    to_do=(
        "Refuse (409) to remove a snapshot that a branch or tag is at when the commit is applied, or keep it. "
        "TableMetadata.Builder removes the reference instead, so check before it builds."
    ),
    level=Level.CLIENTS,
    source="TableMetadata.removeSnapshots drops references that dangle; UpdateRequirements asks nothing for it",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    any_catalog=True,
)
