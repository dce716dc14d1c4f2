"""A key is known after a restart, and on another server."""

from __future__ import annotations

import uuid

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import (
    Absent,
    Exchanges,
    Judgement,
    Level,
    NotApplicable,
    Requirement,
    Severity,
    failed,
    passed,
    soft,
)


def ask(kit: Kit) -> None:
    if not kit.server.keys:
        raise NotApplicable(Absent.NO_KEYS)
    _ = kit.control  # before anything is made on a server of somebody else
    table = kit.table()
    made = table.snapshot()
    parts = rest.append(made, None)
    key = {"Idempotency-Key": str(uuid.uuid4())}
    table.commit("first", *parts, headers=key)
    with kit.twin() as send:
        send("twin", "POST", table.path, rest.commit(*parts), headers=key)
    kit.control.kill()
    kit.control.start()
    table.commit("restarted", *parts, headers=key)
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    first, end = seen["first"], seen["end"]
    if first.ok and len(end.metadata.get("snapshots", [])) != 1:
        return failed("its snapshot is in the table once", f"{end.words()}", first, end)
    for label in ("twin", "restarted"):
        if seen[label].status // 100 != first.status // 100:
            return soft(f"{first.status} again", f"{label}: {seen[label].words()}", first, seen[label])
    return passed()


REQUIREMENT = Requirement(
    id="key-survives",
    group="sent twice or late or lost",
    sentence="A key is known after a restart of the server, and to another server on its database.",
    asked=(
        "An append with an Idempotency-Key; the same request goes to a second server on its database, and again "
        "to the first one after it was killed and started. Only for servers that icequake runs and that advertise"
        " keys."
    ),
    to_do="Keep the keys in the database, in the transaction of the change, and not in the memory of one server.",
    level=Level.SHOULD,
    source="rest-catalog-open-api.yaml l.2248",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
)
