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
    level=Level.PROMISE,
    source="what a catalog is for",
    effect=Severity.LOSS,
    ask=ask,
    judge=partial(keeps_acknowledged, label="append"),
    tries=1,
    any_catalog=True,
)
