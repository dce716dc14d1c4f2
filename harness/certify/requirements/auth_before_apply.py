"""Who may not do something has not done it."""

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
    failed,
    passed,
    soft,
)

NOBODY = {"Authorization": "Bearer icequake-no-token"}


def ask(kit: Kit) -> None:
    if "Authorization" not in kit.server.headers:
        raise NotApplicable(Absent.NO_LOGIN)
    table = kit.table()
    table.commit("commit", rest.properties(p="1"), headers=NOBODY)
    kit.send("drop", "DELETE", table.path, headers=NOBODY)
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    commit, drop, end = (seen[x] for x in ("commit", "drop", "end"))
    if not end.ok or "p" in end.metadata.get("properties", {}):
        return failed("nothing is done", f"commit: {commit.status}, drop: {drop.status}; done", commit, drop, end)
    for e in (commit, drop):
        if e.ok:
            return failed("401", f"{e.label}: {e.words()}", e)
        if e.status != 401:
            return soft("401: a client gets a new token for that", f"{e.label}: {e.words()}", e)
    return passed()


REQUIREMENT = Requirement(
    id="auth-before-apply",
    group="statuses",
    sentence="A request with a token that is not valid is answered with 401, and nothing of it is done.",
    asked=(
        "A commit and a DROP with a token that no server gave; then the table is loaded with the right one. It "
        "does not apply if the catalog's file has no login."
    ),
    to_do=(
        "Check the token before anything of the request is done, in a filter before all endpoints, and answer 401"
        " for one that is unknown or has ended."
    ),
    level=Level.SHOULD,
    source="rest-catalog-open-api.yaml l.5528, l.5652",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
)
