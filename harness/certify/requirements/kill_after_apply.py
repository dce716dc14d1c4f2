"""A server that ends between its database's commit and its answer."""

from __future__ import annotations

from functools import partial

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
    named,
    passed,
)


def ask(kit: Kit) -> None:
    _ = kit.control  # before anything is made on a server of somebody else
    table = kit.table()
    base = table.grown(1)[0]
    with kit.held(partial(table.append, "commit", base, 2), "drop-reply"):
        kit.control.kill()
    kit.control.start()
    after = table.load("after")
    if after.ok:
        kit.file("file", after.body["metadata-location"])
        kit.send("again", "POST", table.path, kit.seen["commit"].sent)
        table.load("end")


def judge(seen: Exchanges) -> Judgement:
    commit, after = seen["commit"], seen["after"]
    if failure := expect(after, "the table can be read", 2):
        return failed(failure.expected, failure.actual, commit, after)
    if not seen["file"].ok:
        return failed("the current metadata file is there", f"{after.body['metadata-location']} is not", commit, after)
    sent = [e.sent["updates"][0]["snapshot"] for e in (*seen.all("set-up"), commit)]
    if lost := {s["snapshot-id"] for s in sent} - rest.main_of(after.metadata, sent):
        return failed("main is built on what the database has made", f"not on {named(sorted(lost))}", commit, after)
    if after.metadata.get("snapshots") != seen["end"].metadata.get("snapshots"):
        return failed("the table is as before", "it is not", commit, seen["again"], seen["end"])
    return expect(seen["again"], "its base is gone", 409) or passed()


REQUIREMENT = Requirement(
    id="kill-after-apply",
    group="life of the server",
    sentence="A server that was killed after its database's commit starts with what was made, and makes it once.",
    asked=(
        "icequake keeps the database's reply to an append from the server, kills the server, and starts it. Then "
        "it loads the table, looks for its metadata file, and sends the append again. Only for servers that "
        "icequake runs."
    ),
    to_do=(
        "Write the metadata file before the swap. Delete it neither at the end nor at the start of a server, "
        "unless the database says that the swap was not made."
    ),
    level=Level.PROMISE,
    source="what a catalog is for",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
)
