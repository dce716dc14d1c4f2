"""A cache of the client is never older than its server."""

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


def ask(kit: Kit) -> None:
    table = kit.table()
    tag = table.load("first").headers.get("etag")
    if tag is None:
        raise NotApplicable(Absent.NO_ETAG)
    table.load("same", If_None_Match=tag)
    table.commit("commit", rest.properties(p="1"))
    table.load("committed", If_None_Match=tag)
    kit.send("drop", "DELETE", table.path)
    kit.table(table.namespace, table.name)
    table.load("recreated", If_None_Match=tag)


def judge(seen: Exchanges) -> Judgement:
    for label in ("committed", "recreated"):
        if seen[label].status == 304:
            return failed("200 with the new metadata", f"{label}: 304, so a client keeps what is old", seen[label])
    if seen["same"].status != 304:
        return soft("304 while nothing changed", seen["same"].words(), seen["same"])
    return passed()


REQUIREMENT = Requirement(
    id="etag-fresh",
    group="reads",
    sentence="A 304 is only answered while the table is the one of the ETag.",
    asked=(
        "A load gives an ETag. Three loads send it: at once, after a commit, and after a DROP with a new table of"
        " that name. Only the first of them may get 304."
    ),
    to_do=(
        "Make the ETag of what the answer shows, such as the location of the metadata file, and look that up in "
        "the database at each load. A cache before the server must not answer 304 by itself."
    ),
    level=Level.SHOULD,
    source="rest-catalog-open-api.yaml l.2189; RESTTableCache",
    effect=Severity.CONFUSES,
    ask=ask,
    judge=judge,
)
