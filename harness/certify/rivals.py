"""Rivals on one base, round after round: what several requirements are judged by."""

from __future__ import annotations

from functools import partial

from harness.certify.kit import CLIENTS, Kit

ASKED = (
    "Up to 100 rounds, after 25 for no longer than a minute: 8 clients append on one base at once, and the table is loaded after "
    "each round. {judged} It is asked once, together with {others}."
)


def rivals_on_one_base(kit: Kit) -> None:
    """Eight appends ``round:N`` at once on what the table has, and the load ``load:N`` behind them."""
    table = kit.table()
    base = table.grown(1)[0]
    for n in kit.turns(4 * kit.rounds):
        kit.race(*[partial(table.append, f"round:{n}", base, n + 2)] * CLIENTS)
        base = table.load(f"load:{n}").metadata.get("current-snapshot-id", base)
