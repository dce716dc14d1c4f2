"""What is missing is said to be missing."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import (
    Exchanges,
    Judgement,
    Level,
    Requirement,
    Severity,
    expect,
    first_failure,
    passed,
    soft,
)


def ask(kit: Kit) -> None:
    space = kit.namespace()
    missing = rest.table_path(space, "gone")
    kit.send("NoSuchTableException:load", "GET", missing)
    kit.send("NoSuchTableException:commit", "POST", missing, rest.commit(rest.properties(p="1")))
    kit.send("NoSuchTableException:drop", "DELETE", missing)
    names = {"source": rest.identifier(space, "gone"), "destination": rest.identifier(space, "other")}
    kit.send("NoSuchTableException:rename", "POST", "tables/rename", names)
    nowhere = rest.namespace_path(kit.names())
    kit.send("NoSuchNamespaceException:load", "GET", nowhere)
    kit.send("NoSuchNamespaceException:drop", "DELETE", nowhere)
    kit.send("NoSuchNamespaceException:list", "GET", f"{nowhere}/tables")


def judge(seen: Exchanges) -> Judgement:
    wrong = first_failure(*(expect(e, "it is missing", 404) for e in seen.exchanges))
    if wrong.wire:
        return wrong
    for e in seen.exchanges:
        if e.error_type != e.label.partition(":")[0]:
            return soft(f"the type {e.label.partition(':')[0]}", f"{e.method} {e.path}: {e.words()}", e)
    return passed()


REQUIREMENT = Requirement(
    id="missing-is-404",
    group="statuses",
    sentence="What is missing is answered with 404 and the right type.",
    asked=(
        "7 requests for what is not there: load, commit, DROP and rename of a table; load, DROP and list of a "
        "namespace."
    ),
    to_do=(
        "Answer 404 with the type NoSuchTableException or NoSuchNamespaceException at every endpoint, also where "
        "a commit or a rename finds that something is missing."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml, the 404 of each operation",
    effect=Severity.BREAKS,
    ask=ask,
    judge=judge,
)
