"""A request that comes again while the first one is under way is not refused."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

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
)

ANSWERS_S = 2.0
"""Who has not answered by then waits for the first request, as a server may."""
TOO_MANY = 429


def ask(kit: Kit) -> None:
    if not kit.server.keys:
        raise NotApplicable(Absent.NO_KEYS)
    table = kit.table()
    made = table.snapshot()
    parts = rest.append(made, None)
    send = partial(table.commit, headers={"Idempotency-Key": str(uuid.uuid4())})
    with ThreadPoolExecutor(1) as pool, kit.held(partial(send, "first", *parts)):
        wait([pool.submit(send, "second", *parts)], ANSWERS_S)
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    first, second, end = seen["first"], seen["second"], seen["end"]
    made = first.sent["updates"][0]["snapshot"]["snapshot-id"]
    times = sum(s["snapshot-id"] == made for s in end.metadata.get("snapshots", []))
    if times > 1:
        return failed("its snapshot is in the table once", f"{times} times", first, second, end)
    if times and (refused := [e for e in (first, second) if e.refused and e.status != TOO_MANY]):
        return failed("it waits, or gets 5xx: it is made", f"{refused[0].label}: {refused[0].words()}", *refused, end)
    if (first.ok or second.ok) and not times:
        return failed("what is acknowledged is in the table", "it is not", first, second, end)
    return passed(f"{first.status} and {second.status}")


REQUIREMENT = Requirement(
    id="key-in-flight",
    group="sent twice or late or lost",
    sentence="A request that comes again with its key while the first is under way is made once and not refused.",
    asked=(
        "icequake holds an append with an Idempotency-Key before the database and sends it again with its key. "
        "After an answer, or 2 seconds, it lets the first one go. Only for servers that icequake runs and that "
        "advertise keys."
    ),
    to_do=(
        "Note the key as under way before the work begins. Let the second request wait for the first one's "
        "answer, or answer 429 or 5xx; another 4xx would say that nothing was made."
    ),
    level=Level.CLIENTS,
    source="SnapshotProducer.commit: after a refusal it deletes the files of its snapshot",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
)
