"""How many of eight writers get through."""

from __future__ import annotations

from functools import partial

from harness.certify.kit import CLIENTS, Kit, KitTable
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, informed

COMMITS_EACH = 4
"""As many as Iceberg's own client tries again by default (``commit.retry.num-retries``)."""


def ask(kit: Kit) -> None:
    table = kit.table()
    table.grown(1)
    kit.race(*(partial(_writer, table, n) for n in range(CLIENTS)))


def _writer(table: KitTable, number: int) -> None:
    for _ in range(COMMITS_EACH):
        if table.append(f"writer:{number}", *table.tip(f"load:{number}"))[1].ok:
            return


def judge(seen: Exchanges) -> Judgement:
    done = sum(e.ok for e in seen.all("writer"))
    return informed(f"{done} of {CLIENTS} writers are done after {COMMITS_EACH} tries")


REQUIREMENT = Requirement(
    id="progress",
    group="one winner and nothing lost",
    sentence="Half of the commits of eight writers end within four tries.",
    asked=(
        "8 clients append to one table at once: each loads and commits until a commit of its own is made, at most"
        " 4 times. The answer is a number and cannot fail."
    ),
    to_do=(
        "Nothing has to be mended. More writers get through if the server, after a lost swap, applies a commit to"
        " the new version itself where its requirements still hold."
    ),
    level=Level.INFO,
    source="nothing: it is a number",
    effect=Severity.CONFUSES,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
