"""A list in pages hides nothing."""

from __future__ import annotations

from collections import Counter

from harness.certify import rest
from harness.certify.kit import Kit
from harness.certify.requirement import (
    Absent,
    Exchanges,
    Judgement,
    Level,
    NotApplicable,
    Requirement,
    Severity,
    failed,
    passed,
)

SIZE, TABLES = 7, 40
"""40 is no multiple of 7: the last page is not full."""


def ask(kit: Kit) -> None:
    space = kit.namespace()
    names = [f"t{n:02}" for n in range(TABLES)]
    for name in names:
        kit.table(space, name)
    kept = [n for i, n in enumerate(names) if i % 4]
    kit.note(kept=kept)
    path, token = f"{rest.namespace_path(space)}/tables", ""
    for page in range(TABLES):
        answer = kit.send(f"page:{page}", "GET", path, query={"pageSize": SIZE, "pageToken": token})
        token = (answer.body or {}).get("next-page-token") or ""
        if not page and not token:
            raise NotApplicable(Absent.NO_PAGES)
        if not token:
            break
        if 4 * page < TABLES:
            kit.send("drop", "DELETE", rest.table_path(space, names[4 * page]))


def judge(seen: Exchanges) -> Judgement:
    listed = Counter(i["name"] for e in seen.all("page") if e.ok for i in e.body.get("identifiers", []))
    absent = [n for n in seen.notes["kept"] if not listed[n]]
    twice = [n for n in seen.notes["kept"] if listed[n] > 1]
    if absent or twice:
        return failed("each table once", f"not listed: {absent}; twice: {twice}", *seen.all("page")[:2])
    if (seen.all("page")[-1].body or {}).get("next-page-token"):
        return failed(
            "the pages end", f"{len(seen.all('page'))} pages of {SIZE} and a further token", seen.all("page")[-1]
        )
    return passed(f"{len(seen.all('page'))} pages")


REQUIREMENT = Requirement(
    id="pages-complete",
    group="reads",
    sentence="A list in pages has what is there all the time exactly once, while other tables come and go.",
    asked=(
        "40 tables are listed in pages of 7, and one table is dropped after each page. Every table that stays "
        "must be listed once."
    ),
    to_do=(
        "Let the token name the last table of the page, and go on behind that name (WHERE name > … ORDER BY "
        "name). An offset shifts when a table is dropped. Send no token with the last page."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.2385–2388",
    effect=Severity.CONFUSES,
    ask=ask,
    judge=judge,
    tries=1,
)
