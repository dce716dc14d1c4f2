"""How many of eight writers get through."""

from __future__ import annotations

from functools import partial

from harness.certify.kit import CLIENTS, Kit, Table
from harness.certify.requirement import Effect, Judgement, Level, Requirement, Seen, informed

TRIES = 4


def ask(kit: Kit) -> None:
    table = kit.table()
    table.grown(1)
    kit.race(*(partial(_writer, table, n) for n in range(CLIENTS)))


def _writer(table: Table, number: int) -> None:
    for _ in range(TRIES):
        if table.append(f"writer:{number}", *table.tip(f"load:{number}"))[1].ok:
            return


def judge(seen: Seen) -> Judgement:
    done = sum(e.ok for e in seen.all("writer"))
    return informed(f"{done} of {CLIENTS} writers are done after {TRIES} tries")


REQUIREMENT = Requirement(
    id="progress",
    group="one winner and nothing lost",
    sentence="Half of the commits of eight writers end within four tries.",
    level=Level.INFO,
    source="nothing: it is a number",
    effect=Effect.CONFUSES,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
