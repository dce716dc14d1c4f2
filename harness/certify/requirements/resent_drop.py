"""What a repeated DROP does to the next table."""

from __future__ import annotations

import uuid

from harness.certify.kit import Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, informed


def ask(kit: Kit) -> None:
    table = kit.table()
    key = {"Idempotency-Key": str(uuid.uuid4())} if kit.server.keys else {}
    kit.note(key=bool(key))
    kit.send("drop", "DELETE", table.path, headers=key)
    kit.table(table.namespace, table.name)
    kit.send("again", "DELETE", table.path, headers=key)
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    lives = seen["end"].ok
    if seen.notes["key"] and not lives:
        return failed("with its key, a repeated DROP leaves the new table", "it dropped it", seen["again"], seen["end"])
    return informed(
        "the new table stays" if lives else "the new table is dropped: a client must not repeat a DROP", seen["again"]
    )


REQUIREMENT = Requirement(
    id="resent-drop",
    group="sent twice or late or lost",
    sentence="A DROP that is sent again after the table was created again.",
    asked=(
        "A DROP, a new table of that name, and the same DROP again; both with one Idempotency-Key if the server "
        "advertises keys. Without keys the answer says what came of it and cannot fail."
    ),
    to_do=(
        "Honour Idempotency-Key for DROP, too. Without keys a server cannot know which table was meant, and its "
        "documents must say that a client must not repeat a DROP."
    ),
    level=Level.INFO,
    source="HTTPClient: DELETE is idempotent in HTTP, so a client may send it twice",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
)
