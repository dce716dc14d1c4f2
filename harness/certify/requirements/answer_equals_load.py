"""What a commit answers is what is there."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, expect, failed, passed


def ask(kit: Kit) -> None:
    table = kit.table()
    for n in range(5):
        table.commit(f"commit:{n}", rest.properties(n=str(n)))
        table.load(f"load:{n}")


def judge(seen: Exchanges) -> Judgement:
    places = []
    for n in range(5):
        answer, loaded = seen[f"commit:{n}"], seen[f"load:{n}"]
        if (wrong := expect(answer, "made", 2)) is not None:
            return wrong
        for key in ("metadata-location", "metadata"):
            if answer.body.get(key) != loaded.body.get(key):
                return failed(f"the same {key}", f"differs after commit {n}", answer, loaded)
        places.append(loaded.body.get("metadata-location"))
    if len({*places}) < len(places):
        return failed("a new location for each version", f"{places}", *seen.all("load")[:2])
    return passed()


REQUIREMENT = Requirement(
    id="answer-equals-load",
    group="reads",
    sentence="The answer to a commit has the metadata and the location that a load has, and no location comes twice.",
    asked=(
        "5 commits, one after the other, each sets a property; after each one the table is loaded and compared "
        "with the commit's answer."
    ),
    to_do=(
        "Answer a commit with the very metadata that was written and its location, not with what the request "
        "asked for. Write each version to a new file name, such as one with a UUID."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.5778",
    effect=Severity.CONFUSES,
    ask=ask,
    judge=judge,
)
