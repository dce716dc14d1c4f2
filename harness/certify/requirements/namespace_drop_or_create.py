"""No table without its namespace."""

from __future__ import annotations

from functools import partial

from harness.certify import rest
from harness.certify.kit import NEW_TABLE, Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, misleads, passed


def ask(kit: Kit) -> None:
    for n in kit.turns(4 * kit.rounds):
        space = kit.namespace()
        path = rest.namespace_path(space)
        kit.race(
            partial(kit.send, f"drop:{n}", "DELETE", path),
            partial(kit.send, f"create:{n}", "POST", f"{path}/tables", {**NEW_TABLE, "name": "t"}),
        )
        if kit.seen[f"drop:{n}"].ok and kit.seen[f"create:{n}"].ok:
            kit.send(f"namespace:{n}", "GET", path)
            kit.send(f"table:{n}", "GET", f"{path}/tables/t")
            return


def judge(seen: Exchanges) -> Judgement:
    drops = seen.all("drop")
    for e in drops:
        n = e.label.partition(":")[2]
        if e.ok and seen[f"create:{n}"].ok:
            shown = seen.all(f"namespace:{n}") + seen.all(f"table:{n}")
            statuses = ", ".join(f"{s.path}: {s.status}" for s in shown)
            return failed("one of the two is refused", f"both got 2xx; then {statuses}", e, seen[f"create:{n}"], *shown)
    return misleads([*drops, *seen.all("create")]) or passed(f"not seen in {len(drops)} rounds")


REQUIREMENT = Requirement(
    id="namespace-drop-or-create",
    group="namespaces and tables and views",
    sentence="A namespace is dropped or gets a table, never both.",
    asked=(
        "Up to 100 rounds, each with a new namespace, after 25 for no longer than a minute: one client drops it while "
        "another creates a table in it. It ends after the first round in which both got 2xx."
    ),
    to_do=(
        "Let the creation of a table lock or change the namespace's row, or let a foreign key do it, so that the "
        "two cannot both be committed. The later one gets 404 or 409."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.422",
    effect=Severity.BREAKS,
    ask=ask,
    judge=judge,
    tries=1,
    any_catalog=True,
)
