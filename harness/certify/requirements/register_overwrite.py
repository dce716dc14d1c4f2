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
    level=Level.INFO,
    source="rest-catalog-open-api.yaml l.4148 says nothing",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/namespaces/{namespace}/register",),
)
