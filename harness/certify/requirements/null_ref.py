"""The first commit to a branch is the first."""

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
    failed,
    first_failure,
)


def ask(kit: Kit) -> None:
    table = kit.table()
    made = table.grown(1)[0]
    for ref, kind in (("b", "branch"), ("t", "tag")):
        table.commit(f"new:{ref}", rest.assert_ref(ref, None), rest.set_ref(ref, made, kind))
        table.commit(f"there:{ref}", rest.assert_ref(ref, None), rest.properties(**{ref: "1"}))
    table.commit("there:main", rest.assert_ref("main", None), rest.properties(main="1"))
    table.load("end")


def judge(seen: Exchanges) -> Judgement:
    kept = seen["end"].metadata.get("properties", {})
    applied = [e for e in seen.all("there") if e.label.partition(":")[2] in kept]
    return first_failure(
        *(failed("nothing is applied", f"{e.label}: the property is set", e, seen["end"]) for e in applied[:1]),
        *(expect(e, "the reference is new", 2) for e in seen.all("new")),
        *(expect(e, "the reference exists", 409) for e in seen.all("there")),
    )


REQUIREMENT = Requirement(
    id="null-ref",
    group="requirements",
    sentence="The requirement that a branch or tag does not exist holds only if it does not.",
    asked=(
        "Commits that require that a branch, a tag or main does not exist: of the branch and the tag before and "
        "after they are created, of main when it exists. A load shows what was applied."
    ),
    to_do=(
        "Read assert-ref-snapshot-id with null, or without snapshot-id, as: this reference must not exist. It "
        "does not mean that nothing is required."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.3712",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    any_catalog=True,
)
