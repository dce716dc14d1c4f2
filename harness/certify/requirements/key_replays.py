"""A key makes a repeated request safe."""

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
    table = kit.table()
    made = table.snapshot()
    append = rest.append(made, None)
    for label, parts in (("made", append), ("refused", (rest.asserted("create"), rest.properties(p="1")))):
        key = {"Idempotency-Key": str(uuid.uuid4())}
        for _ in range(2):
            table.commit(label, *parts, headers=key)
    key = {"Idempotency-Key": str(uuid.uuid4())}
    for _ in range(2):
        kit.send("dropped", "DELETE", table.path, headers=key)


def judge(seen: Exchanges) -> Judgement:
    for label in ("made", "dropped", "refused"):
        first, second = seen.all(label)
        if first.status // 100 != second.status // 100:
            verdict = soft if label == "refused" else failed
            return verdict(f"{first.status} again", f"{label}: {second.words()}", first, second)
    return passed()


REQUIREMENT = Requirement(
    id="key-replays",
    group="sent twice or late or lost",
    sentence="A request that is repeated with its idempotency key gets the same answer and has no second effect.",
    asked=(
        "An append, a commit that must be refused, and a DROP, each sent twice with an Idempotency-Key of its "
        "own. The second answer must be of the same class (2xx, 4xx) as the first."
    ),
    to_do=(
        "Store the final answer with its key in the transaction of the change. Answer the second request with it "
        "and change nothing, as long as the lifetime of keys that the server advertises."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.2235–2241",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
)
