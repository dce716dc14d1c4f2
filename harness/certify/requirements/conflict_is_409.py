"""A requirement that does not hold is a conflict, and says so."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, expect, first_failure


def ask(kit: Kit) -> None:
    table = kit.table()
    table.grown(1)
    for name, requirement in FALSE.items():
        for _ in range(5):
            table.commit(name, requirement, rest.properties(p=name))


FALSE = {
    "uuid": rest.asserted("table-uuid", uuid="00000000-0000-4000-8000-000000000000"),
    "ref": rest.assert_ref("main", 1),
    "last-field": rest.asserted("last-assigned-field-id", last_assigned_field_id=99),
    "schema": rest.asserted("current-schema-id", current_schema_id=99),
    "last-partition": rest.asserted("last-assigned-partition-id", last_assigned_partition_id=1),
    "spec": rest.asserted("default-spec-id", default_spec_id=99),
    "order": rest.asserted("default-sort-order-id", default_sort_order_id=99),
    "create": rest.asserted("create"),
}
"""One false requirement of each kind that the specification has."""


def judge(seen: Exchanges) -> Judgement:
    return first_failure(*(expect(e, "the requirement does not hold", 409) for name in FALSE for e in seen.all(name)))


REQUIREMENT = Requirement(
    id="conflict-is-409",
    group="statuses",
    sentence="A commit whose requirement does not hold is answered with 409, each time.",
    asked=(
        "8 commits, each with one false requirement of another kind (UUID, branch, last column id, schema, last "
        "partition id, spec, sort order, create). The same one is sent 5 times, one after the other."
    ),
    to_do=(
        "Map the failure of every kind of requirement to 409 CommitFailedException, also where the server finds "
        "it in an attempt of its own, and never to 400 or 500."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1162, l.1591",
    effect=Severity.BREAKS,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
