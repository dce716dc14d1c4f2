"""What is declared is there."""

from __future__ import annotations

from harness.certify.kit import NO_ROUTE, Kit
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
)


def ask(kit: Kit) -> None:
    if kit.server.declared is None:
        raise NotApplicable(Absent.UNDECLARED)
    table = kit.table()
    values = {
        "{prefix}/": kit.server.prefix,
        "{namespace}": table.namespace,
        "{table}": table.name,
        "{view}": "no_view",
    }
    values |= {"{plan-id}": "no-plan"}
    for endpoint in sorted(kit.server.declared):
        method, _, path = endpoint.partition(" ")
        if method != "DELETE":  # a DELETE would remove an existing object
            for name, value in values.items():
                path = path.replace(name, value)
            kit.send(f"probe:{endpoint}", method, path, None if method in ("GET", "HEAD") else {})


def judge(seen: Exchanges) -> Judgement:
    for e in seen.exchanges:
        absent = e.status in NO_ROUTE and not e.error_type and e.method != "HEAD"
        if e.status in (405, 501) or absent:
            return failed(f"{e.label.removeprefix('probe:')} is served", e.words(), e)
    return passed(f"{len(seen.exchanges)} endpoints")


REQUIREMENT = Requirement(
    id="declared-is-served",
    group="statuses",
    sentence="The server serves each endpoint that it declares.",
    asked=(
        "Each endpoint that GET /v1/config declares is asked once, but those of DELETE, with an empty body and "
        "names that fit. A 405, a 501, or a 404 without the error model means that it is not served."
    ),
    to_do=(
        "Declare only what is routed: make the list of endpoints from the server's own routes. Answer with the "
        "error model where the thing that is asked for is missing."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.2306",
    effect=Severity.CONFUSES,
    ask=ask,
    judge=judge,
    tries=1,
)
