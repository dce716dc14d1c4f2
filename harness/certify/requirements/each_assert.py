"""Each kind of requirement is looked at."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, expect, failed, passed


def ask(kit: Kit) -> None:
    table = kit.table()
    made = table.grown(1)[0]
    now = table.created
    both = {
        "uuid": [rest.asserted("table-uuid", uuid=u) for u in (table.uuid, "00000000-0000-4000-8000-000000000000")],
        "ref": [rest.assert_ref("main", s) for s in (made, 1)],
        "last-field": [
            rest.asserted("last-assigned-field-id", last_assigned_field_id=i) for i in (now["last-column-id"], 99)
        ],
        "schema": [rest.asserted("current-schema-id", current_schema_id=i) for i in (now["current-schema-id"], 99)],
        "last-partition": [
            rest.asserted("last-assigned-partition-id", last_assigned_partition_id=i)
            for i in (now["last-partition-id"], 1)
        ],
        "spec": [rest.asserted("default-spec-id", default_spec_id=i) for i in (now["default-spec-id"], 99)],
        "order": [
            rest.asserted("default-sort-order-id", default_sort_order_id=i) for i in (now["default-sort-order-id"], 99)
        ],
    }
    for name, (true, false) in both.items():
        table.commit(f"true:{name}", true, rest.properties(**{f"true-{name}": "1"}))
        table.commit(f"false:{name}", false, rest.properties(**{f"false-{name}": "1"}))
    table.commit("false:create", rest.asserted("create"), rest.properties(**{"false-create": "1"}))
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    kept = seen["end"].metadata.get("properties", {})
    for e in [*seen.all("true"), *seen.all("false")]:
        (name,) = e.sent["updates"][0]["updates"]
        holds = e.label.startswith("true")
        if (name in kept) != holds:
            text = f"{e.label}: {'not ' if holds else ''}applied"
            return failed("true: applied; false: not", text, e, seen["end"])
        if (wrong := expect(e, "a true requirement" if holds else "a false one", 2 if holds else 409)) is not None:
            return wrong
    return passed()


REQUIREMENT = Requirement(
    id="each-assert",
    group="requirements",
    sentence="Each kind of requirement passes if it is true; if it is false, the server answers 409 and changes nothing.",
    asked=(
        "Each of 7 kinds of requirements once true and once false, each with a property of its own, and a false "
        "assert-create. A load shows which properties were set."
    ),
    to_do=(
        "Check every kind of requirement that the specification has on the current metadata, all of them before "
        "the first update is applied. A false one is 409; leave none out silently."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.3685–3800",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    any_catalog=True,
)
