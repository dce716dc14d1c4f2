"""What was acknowledged stays."""

from __future__ import annotations

from functools import partial

from harness.certify.kit import CLIENTS, Kit, KitTable
from harness.certify.requirement import Level, Requirement, Severity, keeps_acknowledged


def ask(kit: Kit) -> None:
    table = kit.table()
    table.grown(1)
    kit.race(*(partial(_writer, kit, table, n) for n in range(CLIENTS)))
    table.load("end")


def _writer(kit: Kit, table: KitTable, number: int) -> None:
    """Append as an engine does: load, commit on what was loaded, and again."""
    for _ in range(kit.rounds):
        table.append(f"append:{number}", *table.tip(f"load:{number}"))


REQUIREMENT = Requirement(
    id="acknowledged-is-kept",
    group="one winner and nothing lost",
    sentence="Every commit that the server acknowledged is in all later versions of the table.",
    asked=(
        "8 clients append to one table at once, 25 times each: each loads the table, commits on what it loaded, "
        "and goes on whatever the answer is. A last load must be built on every acknowledged snapshot."
    ),
    to_do=(
        "Swap the metadata pointer by one atomic compare-and-set on the version that the commit was built on, and"
        " answer 2xx only after it. Answer 409 if another commit came between."
    ),
    level=Level.PROMISE,
    source="what a catalog is for",
    effect=Severity.LOSS,
    ask=ask,
    judge=partial(keeps_acknowledged, label="append"),
    tries=1,
    any_catalog=True,
)
