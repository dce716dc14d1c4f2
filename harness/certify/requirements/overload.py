"""A server that has too much to do says so."""

from __future__ import annotations

from collections import Counter
from functools import partial

from harness.certify import rest
from harness.certify.kit import Kit, KitTable
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, passed, soft

REQUESTS_AT_ONCE = 64
"""Several for each connection to a database in the pool of a server (HikariCP's default is 10), so that some must wait."""


def ask(kit: Kit) -> None:
    table = kit.table()
    table.grown(1)
    kit.race(*(partial(_writer, kit, table, n) for n in range(REQUESTS_AT_ONCE)))


def _writer(kit: Kit, table: KitTable, number: int) -> None:
    for n in range(kit.rounds // 5):
        table.commit(f"set:{number}", rest.properties(**{f"p{number}": str(n)}))


def judge(seen: Exchanges) -> Judgement:
    statuses = Counter(e.status for e in seen.all("set"))
    wrong = [e for e in seen.all("set") if not e.ok and e.status not in (409, 429, 503)]
    shown = ", ".join(f"{s or 'no answer'}: {n}" for s, n in sorted(statuses.items()))
    if wrong:
        return soft("2xx, 409, 429 or 503", shown, *wrong[:2])
    return passed(shown)


REQUIREMENT = Requirement(
    id="overload",
    group="life of the server",
    sentence="With 64 clients each answer is 2xx, 409, 429 or 503, and each comes.",
    asked=(
        "64 clients at once, each sets a property of its own on one table 5 times. Every answer must come, and be"
        " 2xx, 409, 429 or 503."
    ),
    to_do=(
        "Bound how many requests are under way. Answer 429 or 503 to the others before they are begun, and so "
        "also if no connection of a pool is free; do not answer 500, and let none wait for ever."
    ),
    level=Level.SHOULD,
    source="rest-catalog-open-api.yaml, the 503 of each operation",
    effect=Severity.BREAKS,
    ask=ask,
    judge=judge,
    tries=1,
)
