"""What an overwriting registration does to commits."""

from __future__ import annotations

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, informed


def ask(kit: Kit) -> None:
    table = kit.table()
    place = table.load("before").body["metadata-location"]
    table.commit("commit", rest.properties(p="1"))
    path = f"{rest.namespace_path(table.namespace)}/register"
    kit.send("register", "POST", path, {"name": table.name, "metadata-location": place, "overwrite": True})
    table.load("after")


def judge(seen: Exchanges) -> Judgement:
    kept = "p" in seen["after"].metadata.get("properties", {})
    done = seen["register"].words()
    return informed(f"{done}; the commit before it {'stays' if kept else 'is gone'}", seen["register"])


REQUIREMENT = Requirement(
    id="register-overwrite",
    group="namespaces and tables and views",
    sentence="A registration that overwrites, beside commits.",
    asked=(
        "A table gets a commit; then its metadata file of before that commit is registered over it with "
        "overwrite, and it is loaded. The answer says what came of it and cannot fail."
    ),
    to_do=(
        "Nothing has to be mended. Tell users that a registration with overwrite undoes every commit that was "
        "made after that file."
    ),
    level=Level.INFO,
    source="rest-catalog-open-api.yaml l.4148 says nothing",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/namespaces/{namespace}/register",),
)
