"""A transaction is whole or not there."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import (
    Exchange,
    Exchanges,
    Judgement,
    Level,
    NotApplicable,
    Requirement,
    Severity,
    expect,
    failed,
    first_failure,
    named,
)


def ask(kit: Kit) -> None:
    space = kit.namespace()
    tables = [kit.table(space, f"t{n}") for n in range(3)]
    for k in range(3):
        changes = [
            t.change(
                rest.asserted("create") if n == k else rest.asserted("table-uuid", uuid=t.uuid),
                rest.properties(**{f"p{k}": "1"}),
            )
            for n, t in enumerate(tables)
        ]
        kit.send(f"transaction:{k}", "POST", "transactions/commit", {"table-changes": changes})
    for t in tables:
        t.load(f"end:{t.name}")
    with contextlib.suppress(NotApplicable):  # of others' servers the canned requests say what can be said
        _between_swaps(kit)


def _between_swaps(kit: Kit) -> None:
    """A rival moves the second table while the swap of the first one waits."""
    space = kit.namespace()
    tables = [kit.table(space, name) for name in ("first", "second")]
    bases = [t.grown(1)[0] for t in tables]
    changes = [
        t.change(rest.assert_ref("main", base), rest.properties(h="1")) for t, base in zip(tables, bases, strict=True)
    ]
    act = partial(kit.send, "held", "POST", "transactions/commit", {"table-changes": changes})
    with kit.held(act):
        tables[1].append("rival", bases[1], 2)
    for t in tables:
        t.load(f"after:{t.name}")


def judge(seen: Exchanges) -> Judgement:
    for e in seen.all("end"):
        half = {"p0", "p1", "p2"} & e.metadata.get("properties", {}).keys()
        if half:
            wrong = seen[f"transaction:{min(half)[1:]}"]
            return failed("no change of a refused transaction is applied", f"{min(half)} is set at {e.path}", wrong, e)
    if seen.all("rival") and (failure := _half(seen["held"], seen["rival"], seen.all("after"))):
        return failure
    return first_failure(*(expect(e, "one change fails", 409) for e in seen.all("transaction")))


def _half(held: Exchange, rival: Exchange, after: Sequence[Exchange]) -> Judgement | None:
    has = ["h" in e.metadata.get("properties", {}) for e in after]
    told = None if held.status >= 500 or held.status == 0 else held.ok  # an unknown outcome may be made or not
    if not all(e.ok for e in after) or (len({*has}) == 1 and told in (None, has[0])):
        return None
    which = named([e.path for e, there in zip(after, has, strict=True) if there] or ["no table"])
    return failed("all changes are made or none is", f"{held.words()}, and h is set at {which}", held, rival, *after)


REQUIREMENT = Requirement(
    id="txn-all-or-none",
    group="creation and transactions",
    sentence="If one change of a transaction fails, none is applied.",
    asked=(
        "3 transactions over 3 tables; in each, one change has a false requirement. Where icequake runs the "
        "server, it also holds a transaction before the database while a rival moves the second of its tables."
    ),
    to_do=(
        "Check all requirements and swap all pointers in one transaction of the database. If one of them lost, "
        "roll back all and answer 409. Do not commit one table after the other."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1547",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/transactions/commit",),
)
