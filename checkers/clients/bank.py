"""The bank: transfers between accounts, and reads of all balances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkers.clients.microops import shortened
from checkers.clients.stats import ClientStats
from checkers.evidence.history import EventError, Operation
from checkers.verdict import Anomaly, Verdict
from workloads.file.meant import nearest

BANK = "bank"
TOTALS_BREAK = "snapshot-isolation"
"""The level of a bank: a wrong total breaks it, and no total says anything of the order of sessions or of real time."""
MOST_EXPLAINED_OF_A_NAME = 10
"""How many anomalies of one name are explained; all are counted."""
TRANSFERRED = ("from", "to", "amount")
"""What the value of a bank's transfer must have."""
A_TRANSFER = '{"from": "A", "to": "B", "amount": 5}'
SOME_BALANCES = '{"A": 10, "B": 12}'
ONLY_TOTALS = (
    "only sums of balances were compared: order, direction and staleness are not judged, so a transfer that was acknowledged and is not "
    "there, or was made twice or the wrong way round, is not found"
)
"""Note on every bank."""


def check_bank(operations: Sequence[Operation], level: str) -> Verdict:
    """Every read shows all accounts at one moment, so all reads show the same accounts and the same total: transfers only move money
    (Jepsen's ``bank``, without a given total). Only defects that change a total are found."""
    reads = []
    named: dict[str, list[tuple[Operation, str]]] = {}
    for o in operations:
        if o.f == "transfer":
            for key, account in _transfer(o).items():
                named.setdefault(account, []).append((o, key))
            continue
        if o.f not in ("read", "r"):
            raise EventError(o.invoked.index, f"{o.f} is no operation of bank: it has read and transfer")
        if o.type == "ok" and o.completed is not None:
            reads.append((o, _balances(o.result, o.completed.index)))
    totals = Counter(sum(b.values()) for _, b in reads)
    accounts = Counter(frozenset(b) for _, b in reads)
    anomalies: list[Anomaly] = []
    counts: Counter[str] = Counter()
    if reads:
        # The first read of the most common total serves as the reference; that two differ is wrong whichever is right.
        usual, everyone = max(totals, key=lambda t: totals[t]), max(accounts, key=lambda a: accounts[a])
        whole = next((o for o, b in reads if sum(b.values()) == usual and frozenset(b) == everyone), reads[0][0])
        for o, balances in reads:
            total = sum(balances.values())
            if frozenset(balances) != everyone:
                name = "wrong-accounts"
                odd = ", ".join(sorted(everyone ^ frozenset(balances))[:5])
                why = f"the read {o.op} and the read {whole.op} do not show the same accounts (one lacks {odd})"
            elif total != usual:
                name = "wrong-total"
                why = (
                    f"the balances that the read {o.op} (process {o.process}) saw add up to {total}, those of the read "
                    f"{whole.op} (process {whole.process}) to {usual} (in {totals[usual]} of {len(reads)} reads). Transfers "
                    "only move money, so at most one of the two shows a single moment: a read saw part of a transfer, or one was partly lost"
                )
            else:
                continue
            counts[name] += 1
            if counts[name] <= MOST_EXPLAINED_OF_A_NAME:
                events = (*o.indices, *whole.indices)
                anomalies.append(
                    Anomaly(name, BANK, None, f"{why}.\n{level} forbids {name}.", (o.op, whole.op), events)
                )
    negative = sum(any(n < 0 for n in b.values()) for _, b in reads)
    notes = [ONLY_TOTALS, *_unread(named, {account for _, b in reads for account in b})]
    if negative:
        notes.append(f"{negative} reads show a negative balance; whether these are allowed is unknown")
    stats: ClientStats = {
        "reads": len(reads),
        "totals": {str(t): n for t, n in sorted(totals.items())},
        "found": dict(counts),
    }
    return Verdict(BANK, not anomalies, tuple(anomalies), stats, tuple(notes))


def _balances(v: Any, event: int) -> dict[str, int]:
    if isinstance(v, Mapping):
        odd = next(((account, n) for account, n in v.items() if type(n) is not int), None)
        if odd is None:
            return dict(v)
        raise EventError(
            event, f"the balance of the account {shortened(odd[0])} must be a whole number, found {shortened(odd[1])}"
        )
    raise EventError(event, f"expected balances such as {SOME_BALANCES}, found {shortened(v)}")


def _transfer(o: Operation) -> dict[str, str]:
    """``from`` and ``to`` of a transfer → the account, as the balances of a read name it.

    Raises:
        EventError: one of them or ``amount`` is missing, or has a wrong type.
    """
    asked = o.result if o.value is None and isinstance(o.result, Mapping) else o.value
    if not isinstance(asked, Mapping):
        raise EventError(o.invoked.index, f"expected a transfer such as {A_TRANSFER}, found {shortened(asked)}")
    if missing := [key for key in TRANSFERRED if key not in asked]:
        hints = ((k, nearest(k, missing)) for k in asked if k not in TRANSFERRED)
        meant = "".join(f"; {shortened(k)} is perhaps {key}" for k, key in hints if key is not None)
        words = " and ".join(map(repr, missing))
        raise EventError(
            o.invoked.index, f"a transfer needs {words}, found {shortened(asked)}{meant}; write {A_TRANSFER}"
        )
    for key in TRANSFERRED:
        whole, value = key == "amount", asked[key]
        if type(value) is not int and (whole or not isinstance(value, str)):
            must = (
                "a whole number (count the smallest unit, such as cents)"
                if whole
                else "the name or number of an account"
            )
            raise EventError(o.invoked.index, f"{key!r} of a transfer must be {must}, found {shortened(value)}")
    return {key: str(asked[key]) for key in TRANSFERRED if key != "amount"}


def _unread(named: Mapping[str, Sequence[tuple[Operation, str]]], read: Iterable[str]) -> list[str]:
    """What a note says of accounts that no read shows although transfers name them; none if there is no read.

    Raises:
        EventError: a transfer of such an account was acknowledged, so that reads leave out money that was moved.
    """
    shows = frozenset(read)
    unread = {account: uses for account, uses in named.items() if shows and account not in shows}
    for o, key in (use for uses in unread.values() for use in uses):
        if o.type == "ok":
            raise EventError(
                o.invoked.index,
                f"{key!r} of this transfer, which was acknowledged, is the account {str((o.value or o.result)[key])!r}, and no read shows it "
                f"({', '.join(sorted(shows)[:5])}); correct the name, or record the balances of all accounts in each read",
            )
    accounts = ", ".join(sorted(unread)[:5])
    return [f"no read shows the accounts {accounts}, which only transfers without an acknowledgement name"] * bool(
        unread
    )
