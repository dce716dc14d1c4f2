"""What is concluded of exchanges that a server of ours does not make: drawn by hand, each requirement both ways."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from checkers.certificate import Conclusion, Exchange, Severity
from harness.certify.exchanges import Exchanges
from harness.certify.requirements import requirements
from harness.certify.unknown import UNKNOWN

FAIL, ERROR, SOFT, PASS = Conclusion.FAIL, Conclusion.ERROR, Conclusion.SOFT, Conclusion.PASS
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


def late(append: int, rival: int = 200, shown: int = 3, identity: int = 409, **properties: str) -> list[Exchange]:
    """The rival appended snapshot 3."""
    end = answer("identity:end", 200)
    return [
        answer("append:late", append),
        replace(answer("append:rival", rival), sent={"updates": [{"snapshot": {"snapshot-id": 3}}]}),
        answer("append:end", 200, 1, shown),
        answer("identity:late", identity),
        answer("identity:rival", 204),
        replace(end, body={**end.body, "metadata": {"properties": properties}}),
    ]


def transaction(held: int, *has: bool) -> list[Exchange]:
    """A rival came between its swaps; whether each of its tables has its change."""
    refused = [answer(f"transaction:{n}", 409) for n in range(3)]
    after = [answer(f"after:{n}", 200) for n in range(len(has))]
    made = [
        replace(e, body={"metadata": {"properties": {"h": "1"} if h else {}}}) for e, h in zip(after, has, strict=True)
    ]
    return [*refused, answer("held", held), answer("rival", 200), *made]


def files(*statuses: int) -> list[Exchange]:
    return [answer("round:0", 409), answer("end", 200, 1), *(answer("file", s) for s in statuses)]


def with_key(end: tuple[int, ...] = (2,), **answers: int) -> list[Exchange]:
    return [*(answer(label, status) for label, status in answers.items()), answer("end", 200, *end)]


def with_property(p: str, **answers: int) -> list[Exchange]:
    end = replace(answer("end", 200), body={"metadata": {"properties": {"p": p} if p else {}}})
    return [*(answer(label, status) for label, status in answers.items()), end]


def instances(other: int = 2, *won: int) -> list[Exchange]:
    """Snapshot 2 won at the first server, and the other one shows ``other``."""
    told = [answer("round:0", status) for status in won or (200, 409)]
    return [*told, answer("load:0:first", 200, 1, 2), answer("load:0:other", 200, 1, other), answer("end", 200, 1, 2)]


def busy(status: int, *names: str, **headers: str) -> list[Exchange]:
    """One of two properties is answered so; ``names`` are set in the end."""
    told = [
        replace(answer("set", s, **h), sent={"updates": [{"updates": {name: "1"}}]})
        for name, s, h in (("a", status, headers), ("b", 200, {}))
    ]
    return [*told, replace(answer("end", 200), body={"metadata": {"properties": dict.fromkeys(names, "1")}})]


def vended(given: dict[str, str], dropped: int = 404) -> list[Exchange]:
    body = {"storage-credentials": [{"prefix": "s3://w", "config": given}]}
    return [replace(answer("given", 200), body=body), answer("drop", 204), answer("dropped", dropped)]


def planned(old: str, new: str, expired: int = 404, foreign: int = 404, status: str = "completed") -> list[Exchange]:
    """A letter is a file."""

    def plan(label: str, files: str) -> Exchange:
        tasks = [{"data-file": {"file-path": f"s3://w/t.{f}.parquet"}} for f in files]
        return replace(answer(label, 200), body={"status": status, "file-scan-tasks": tasks})

    gone = replace(answer("expired", expired), body={"status": status} if expired == 200 else None)
    return [plan("old", old), plan("new", new), gone, answer("foreign", foreign)]


TOKEN = {"s3.session-token": "t"}
UNTIL = {**TOKEN, "s3.session-token-expires-at-ms": "1"}
AGAIN = {"retry-after": "1"}

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
    ("unknown-is-5xx", unknown(409, after=503), {}, ERROR),  # nobody knows
    ("unknown-is-5xx", unknown(200, after=503), {}, ERROR),
    ("unknown-is-5xx", unknown(500, after=503), {}, PASS),
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
    ("late-request", late(409), {}, PASS),
    ("late-request", late(200), {}, FAIL),
    ("late-request", late(500), {}, FAIL),
    ("late-request", late(409, shown=2), {}, FAIL),
    (
        "late-request",
        late(200, 409, shown=2),
        {},
        PASS,
    ),  # it locked the table when the request began: the rival is later
    ("late-request", late(409, identity=200), {}, FAIL),
    ("late-request", late(409, late="1"), {}, FAIL),
    ("loser-deletes-its-own", files(200, 200), {}, PASS),
    ("loser-deletes-its-own", files(200, 404), {}, FAIL),
    ("key-forgets-5xx", with_property("1", first=500, again=200), {}, PASS),
    ("key-forgets-5xx", with_property("", first=500, again=500), {}, FAIL),
    ("key-forgets-5xx", with_property("", first=500, again=200), {}, FAIL),
    ("key-forgets-5xx", with_property("1", first=200, again=200), {}, PASS),
    ("key-in-flight", with_key(first=200, second=200), {}, PASS),
    ("key-in-flight", with_key(first=200, second=503), {}, PASS),
    ("key-in-flight", with_key(first=200, second=429), {}, PASS),
    ("key-in-flight", with_key(first=200, second=409), {}, FAIL),
    ("key-in-flight", with_key(first=409, second=200), {}, FAIL),
    ("key-in-flight", with_key((2, 2), first=200, second=200), {}, FAIL),
    ("key-in-flight", with_key((), first=200, second=200), {}, FAIL),
    ("key-survives", with_key(first=200, twin=200, restarted=200), {}, PASS),
    ("key-survives", with_key(first=200, twin=409, restarted=200), {}, SOFT),
    ("key-survives", with_key(first=200, twin=200, restarted=409), {}, SOFT),
    ("key-survives", with_key((2, 2), first=200, twin=200, restarted=200), {}, FAIL),
    ("two-instances", instances(), {}, PASS),
    ("two-instances", instances(2, 200, 200), {}, FAIL),
    ("two-instances", instances(1), {}, FAIL),
    ("retryable-not-applied", busy(503, "b", **AGAIN), {}, PASS),
    ("retryable-not-applied", busy(503, "a", "b", **AGAIN), {}, FAIL),
    ("retryable-not-applied", busy(429, "a", "b"), {}, FAIL),
    ("retryable-not-applied", busy(503, "a", "b"), {}, PASS),  # it says nothing of coming again
    ("retryable-not-applied", [*busy(409, "b"), *unknown(500, 1, 2)], {}, PASS),
    ("retryable-not-applied", [*busy(409, "b"), *unknown(503, 1, 2, **AGAIN)], {}, FAIL),
    ("retryable-not-applied", [*busy(409, "b"), *unknown(503, 1, **AGAIN)], {}, PASS),
    ("auth-before-apply", with_property("", commit=401, drop=401), {}, PASS),
    ("auth-before-apply", with_property("1", commit=401, drop=401), {}, FAIL),
    ("auth-before-apply", with_property("", commit=401, drop=204), {}, FAIL),
    ("auth-before-apply", [answer("commit", 401), answer("drop", 401), answer("end", 404)], {}, FAIL),
    ("auth-before-apply", with_property("", commit=403, drop=403), {}, SOFT),
    ("plans", planned("a", "ba"), {}, PASS),
    ("plans", planned("a", "ab", expired=200, status="failed"), {}, PASS),
    ("plans", planned("ab", "ab"), {}, FAIL),
    ("plans", planned("a", "b"), {}, FAIL),
    ("plans", planned("a", "aab"), {}, FAIL),
    ("plans", planned("a", "ab", expired=200), {}, FAIL),
    ("plans", planned("a", "ab", foreign=200), {}, FAIL),
    ("credentials", vended(UNTIL), {}, PASS),
    ("credentials", vended({"s3.access-key-id": "a"}), {}, PASS),
    ("credentials", vended(TOKEN), {}, FAIL),
    ("credentials", vended(UNTIL, 200), {}, FAIL),
    ("txn-all-or-none", transaction(204, True, True), {}, PASS),
    ("txn-all-or-none", transaction(409, False, False), {}, PASS),
    ("txn-all-or-none", transaction(503, True, True), {}, PASS),
    ("txn-all-or-none", transaction(503, False, False), {}, PASS),
    ("txn-all-or-none", transaction(503, True, False), {}, FAIL),
    ("txn-all-or-none", transaction(409, True, True), {}, FAIL),
    ("txn-all-or-none", transaction(204, False, False), {}, FAIL),
]


@pytest.mark.parametrize(("id", "exchanges", "notes", "conclusion"), DRAWN)
def test_what_is_seen_is_judged(
    id: str, exchanges: Iterable[Exchange], notes: dict[str, Any], conclusion: Conclusion
) -> None:
    (requirement,) = (r for r in requirements() if r.id == id)
    found = requirement.judge(Exchanges(exchanges, notes))
    assert found.conclusion is conclusion, found
    assert bool(found.wire) is (conclusion is not PASS)


@pytest.mark.parametrize(
    ("id", "exchanges"),
    [
        ("acknowledged-is-kept", [answer("append:0", 409), answer("append:0", 500), answer("end", 200, 1)]),
        ("txn-one-table", [answer("transaction:0", 500), answer("end", 200, 1)]),
        ("two-instances", [answer("round:0", 503), answer("end", 200, 1)]),
        ("first-commit-race", [answer("round:0", 503), answer("round:0", 409), answer("end:0", 200)]),
    ],
)
def test_where_nothing_is_acknowledged_nothing_is_lost(id: str, exchanges: Iterable[Exchange]) -> None:
    (requirement,) = (r for r in requirements() if r.id == id)
    found = requirement.judge(Exchanges(exchanges))
    assert (found.conclusion, found.effect) == (FAIL, Severity.BREAKS), found
