"""A rename takes all commits along."""

from __future__ import annotations

from functools import partial

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import (
    Exchange,
    Exchanges,
    Judgement,
    Level,
    Requirement,
    Severity,
    failed,
    misleads,
    passed,
)


def ask(kit: Kit) -> None:
    space = kit.namespace()
    for n in kit.turns(2 * kit.rounds):
        table, other = kit.table(space, f"a{n}"), kit.table(space, f"b{n}")
        kit.race(
            partial(_rename, kit, f"rename:{n}", space, f"a{n}", f"c{n}"),
            partial(_rename, kit, f"rename:{n}", space, f"b{n}", f"c{n}"),
            partial(table.commit, f"commit-a:{n}", rest.properties(p="1")),
            partial(other.commit, f"commit-b:{n}", rest.properties(p="1")),
        )
        for name in (f"a{n}", f"b{n}", f"c{n}"):
            kit.asked(f"end:{n}:{name[0]}", rest.table_path(space, name))
            kit.send(f"drop:{n}", "DELETE", rest.table_path(space, name))


def _rename(kit: Kit, label: str, space: str, old: str, new: str) -> None:
    body = {"source": rest.identifier(space, old), "destination": rest.identifier(space, new)}
    kit.send(label, "POST", "tables/rename", body)


def _name(e: Exchange) -> str:
    """Of the table that it asks."""
    return e.path.partition("?")[0].rpartition("/")[2]


def judge(seen: Exchanges) -> Judgement:
    rounds = {e.label.split(":")[1] for e in seen.all("rename")}
    for n in rounds:
        made = [e for e in seen.all(f"rename:{n}") if e.ok]
        found = [e for e in seen.all(f"end:{n}") if e.ok]
        if len(made) > 1:
            return failed("one rename to a name", f"{len(made)} got 2xx", *made)
        if len(found) != 2:
            shown = found + [e for e in seen.all(f"end:{n}") if not e.ok]
            return failed("two tables", f"{len(found)} are there", *seen.all(f"rename:{n}"), *shown)
        by_location = {e.metadata.get("location"): e for e in found}
        for commit in (e for e in (seen[f"commit-a:{n}"], seen[f"commit-b:{n}"]) if e.ok):
            kept = by_location.get(commit.metadata.get("location"))
            expected = "an acknowledged commit is in its table"
            if kept is None:
                where = " and ".join(_name(e) for e in found)
                return failed(expected, f"{_name(commit)}'s table is gone: {where} are others", commit, *made, *found)
            if "p" not in kept.metadata.get("properties", {}):
                text = f"the property p, set by a commit to {_name(commit)}, is not in {_name(kept)}"
                return failed(expected, text, commit, *made, kept)
    return misleads([*seen.all("rename"), *seen.all("commit-a"), *seen.all("commit-b")]) or passed(
        f"not seen in {len(rounds)} rounds"
    )


REQUIREMENT = Requirement(
    id="rename-keeps-commits",
    group="namespaces and tables and views",
    sentence="A commit beside a rename is in the renamed table, or refused; of two renames to one name one is made.",
    asked=(
        "Up to 50 rounds with two new tables, after 25 for no longer than a minute: both are renamed to one name at "
        "once, while each of them gets a commit. Then all three names are loaded."
    ),
    to_do=(
        "Change the name in the row that commits change, by one atomic update that finds it by the table's "
        "identity. Let a unique key decide between two renames: one is made, the other is 409."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1482",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    endpoints=("POST /v1/{prefix}/tables/rename",),
    tries=1,
    any_catalog=True,
)
