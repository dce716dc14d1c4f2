"""What was acknowledged stays."""

from __future__ import annotations

from functools import partial

from harness.certify import rest
from harness.certify.kit import CLIENTS, Kit, Table
from harness.certify.requirement import Effect, Judgement, Level, Requirement, Seen, failed, passed


def ask(kit: Kit) -> None:
    table = kit.table()
    table.grown(1)
    kit.race(*(partial(_writer, kit, table, n) for n in range(CLIENTS)))
    table.load("end")


def _writer(kit: Kit, table: Table, number: int) -> None:
    """Append as an engine does: load, commit on what was loaded, and again."""
    for _ in range(kit.rounds):
        table.append(f"append:{number}", *table.tip(f"load:{number}"))


def judge(seen: Seen) -> Judgement:
    sent = [e.sent["updates"][0]["snapshot"] for e in seen.all("append")]
    main = rest.main_of(seen["end"].metadata, sent)
    made = [e for e in seen.all("append") if e.ok]
    lost = [e for e in made if e.sent["updates"][0]["snapshot"]["snapshot-id"] not in main]
    if lost:
        return failed("main is built on each acknowledged snapshot", f"not on {len(lost)} of {len(made)}", lost[0])
    if not made:
        return failed("some appends of eight clients are made", "none was", *seen.all("append")[:1])
    return passed(f"{len(made)} acknowledged appends are in the table")


REQUIREMENT = Requirement(
    id="acknowledged-is-kept",
    group="one winner, nothing lost",
    sentence="Every commit that the server acknowledged is in all later versions of the table.",
    level=Level.PROMISE,
    source="what a catalog is for",
    effect=Effect.LOSS,
    ask=ask,
    judge=judge,
    tries=1,
)
