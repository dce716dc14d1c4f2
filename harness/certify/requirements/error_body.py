"""An error can be read by a program."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed, soft


def ask(kit: Kit) -> None:
    table = kit.table()
    kit.send("missing", "GET", rest.table_path(table.namespace, "gone"))
    table.commit("conflict", rest.asserted("create"), rest.properties(p="1"))
    kit.send("malformed", "POST", table.path, raw="{")
    kit.send("exists", "POST", "namespaces", {"namespace": [table.namespace], "properties": {}})
    kit.send("full", "DELETE", rest.namespace_path(table.namespace))
    table.load("fine")


def judge(seen: Exchanges) -> Judgement:
    for e in seen.exchanges:
        error = e.body.get("error") if isinstance(e.body, dict) else None
        fields = error if isinstance(error, dict) else {}
        whole = {"message", "type", "code"} <= fields.keys()
        if e.ok and error is not None:
            return failed("no error in an answer that is none", e.words(), e)
        if not e.ok and not whole:
            return failed("an error with message, type and code", f"{e.label}: {e.words()}", e)
        if not e.ok and whole and fields["code"] != e.status:
            return soft(f"the code {e.status} in the body, too", f"{e.label}: {fields['code']}", e)
    return passed()


REQUIREMENT = Requirement(
    id="error-body",
    group="statuses",
    sentence="Every answer that is an error has the error model as its body, and no other answer has one.",
    asked=(
        "5 requests that must fail (a missing table, a false requirement, cut-off JSON, a namespace that exists, "
        "the DROP of a namespace with a table), and a load that must not."
    ),
    to_do=(
        "Give every failure the body {error: {message, type, code}} with the code of the HTTP status, by one "
        "handler for all exceptions, those of the framework too. No other answer has that key."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.5576",
    effect=Severity.CONFUSES,
    ask=ask,
    judge=judge,
)
