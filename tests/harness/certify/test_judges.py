"""What is concluded of exchanges that a server of ours does not make: drawn by hand, each requirement both ways."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from checkers.certificate import Conclusion, Exchange
from harness.certify.exchanges import Exchanges
from harness.certify.requirements import requirements
from harness.certify.unknown import UNKNOWN

FAIL, SOFT, PASS = Conclusion.FAIL, Conclusion.SOFT, Conclusion.PASS
PLACE = "s3://w/t/2.json"


def answer(label: str, status: int, *snapshots: int, **headers: str) -> Exchange:
    """A commit of snapshot 2 or a load that shows these, and its answer."""
    sent = {"updates": [{"action": "add-snapshot", "snapshot": {"snapshot-id": 2, "parent-snapshot-id": 1}}]}
    shown = [{"snapshot-id": s} for s in snapshots]
    metadata = {"snapshots": shown, "current-snapshot-id": snapshots[-1] if snapshots else -1}
    body = {"metadata-location": PLACE, "metadata": metadata}
    return Exchange(label, "POST", "/v1/t", sent, status, headers, body if 200 <= status < 300 else None)


def swapped(held: int, rival: int = 200, case: str = "branch") -> list[Exchange]:
    """The other cases end as they should."""
    cases = {"branch": (409, 200), "schema": (409, 200), "identity": (409, 204)} | {case: (held, rival)}
    return [
        answer(f"{name}:{who}", status)
        for name, (h, r) in cases.items()
        for who, status in (("held", h), ("rival", r), ("end", 200))
    ]


def unknown(status: int, *snapshots: int, after: int = 200, file: int = 200, **headers: str) -> list[Exchange]:
    """One outcome is told so, and the others as they should be."""
    odd, *others = UNKNOWN
    told = [answer(f"commit:{odd}", status, **headers), answer(f"after:{odd}", after, *snapshots)]
    told += [answer(f"file:{odd}", file)] if after == 200 else []
    for name in others:
        told += [answer(f"commit:{name}", 500), answer(f"after:{name}", 200, 1, 2), answer(f"file:{name}", 200)]
    return told


def killed(
    *kept: int, after: int = 200, file: int = 200, again: int = 409, end: tuple[int, ...] = (1, 2)
) -> list[Exchange]:
    first = {"updates": [{"action": "add-snapshot", "snapshot": {"snapshot-id": 1}}]}
    return [
        replace(answer("set-up:0", 200), sent=first),
        answer("commit", 0),
        answer("after", after, *kept),
        answer("file", file),
        answer("again", again),
        answer("end", 200, *end),
    ]


DRAWN: list[tuple[str, Iterable[Exchange], dict[str, Any], Conclusion]] = [
    ("checked-at-the-swap", swapped(409), {}, PASS),
    ("checked-at-the-swap", swapped(200), {}, FAIL),
    ("checked-at-the-swap", swapped(500, case="identity"), {}, FAIL),
    ("checked-at-the-swap", swapped(200, 0, case="schema"), {}, PASS),  # its row lock made the rival wait
    ("unknown-is-5xx", unknown(500, 1, 2), {}, PASS),
    ("unknown-is-5xx", unknown(0, 1, 2), {}, PASS),
    ("unknown-is-5xx", unknown(200, 1, 2), {}, PASS),  # it looked, and found it
    ("unknown-is-5xx", unknown(200, 1), {}, FAIL),
    ("unknown-is-5xx", unknown(409, 1, 2), {}, FAIL),
    ("unknown-is-5xx", unknown(409, 1), {}, PASS),  # it took it back
    ("unknown-is-5xx", unknown(429, 1, 2), {}, FAIL),
    ("unknown-is-5xx", unknown(503, 1, 2), {}, SOFT),
    ("unknown-is-5xx", unknown(503, 1, 2, **{"retry-after": "1"}), {}, FAIL),
    ("unknown-deletes-nothing", unknown(500, 1, 2), {}, PASS),
    ("unknown-deletes-nothing", unknown(500, 1, 2, file=404), {}, FAIL),
    ("unknown-deletes-nothing", unknown(500, after=500), {}, FAIL),
    ("kill-after-apply", killed(1, 2), {}, PASS),
    ("kill-after-apply", killed(1), {}, FAIL),
    ("kill-after-apply", killed(2, end=(2,)), {}, PASS),  # it lists the current snapshot alone
    ("kill-after-apply", killed(3), {}, FAIL),
    ("kill-after-apply", killed(1, 2, file=404), {}, FAIL),
    ("kill-after-apply", killed(after=500), {}, FAIL),
    ("kill-after-apply", killed(1, 2, again=200, end=(1, 2, 2)), {}, FAIL),
    ("kill-after-apply", killed(1, 2, again=200), {}, FAIL),
]


@pytest.mark.parametrize(("id", "exchanges", "notes", "conclusion"), DRAWN)
def test_what_is_seen_is_judged(
    id: str, exchanges: Iterable[Exchange], notes: dict[str, Any], conclusion: Conclusion
) -> None:
    (requirement,) = (r for r in requirements() if r.id == id)
    found = requirement.judge(Exchanges(exchanges, notes))
    assert found.conclusion is conclusion, found
    assert bool(found.wire) is (conclusion is not PASS)
