"""Credentials for a table's files end, and are given for tables that are there."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import (
    Absent,
    Exchanges,
    Judgement,
    Level,
    NotApplicable,
    Requirement,
    Severity,
    expect,
    failed,
    first_failure,
)


def ask(kit: Kit) -> None:
    table = kit.table()
    found = kit.send("given", "GET", f"{table.path}/credentials")
    if found.ok and not _given(found.body):
        raise NotApplicable(Absent.NO_CREDENTIALS)
    kit.send("drop", "DELETE", table.path)
    kit.send("dropped", "GET", f"{table.path}/credentials")


def _given(body: object) -> list[dict[str, str]]:
    found = body.get("storage-credentials", []) if isinstance(body, dict) else []
    return [c.get("config", {}) for c in found]


def judge(seen: Exchanges) -> Judgement:
    configs = _given(seen["given"].body)
    endless = [c for c in configs if any("token" in k for k in c) and not any(rest.ENDS in k for k in c)]
    untold = failed("a token with its end", f"{', '.join(endless[0])}", seen["given"]) if endless else None
    return first_failure(
        expect(seen["given"], "the table is there", 2), untold, expect(seen["dropped"], "the table is gone", 404)
    )


REQUIREMENT = Requirement(
    id="credentials",
    group="life of the server",
    sentence="Credentials for a table's files say when they end, and there are none after its DROP.",
    asked="The credentials of a table are asked for; then the table is dropped, and they are asked for once more.",
    to_do=(
        "Send with each token when it ends (a key with expires-at in its name), so that clients fetch new ones in"
        " time. Look up the table first: 404 if it is gone."
    ),
    level=Level.CLIENTS,
    source="VendedCredentialsProvider: it asks again before they end",
    effect=Severity.BREAKS,
    ask=ask,
    judge=judge,
    endpoints=("GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",),
)
