"""A race that is lost inside the server is a conflict, too."""

from __future__ import annotations

from collections import Counter

from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed
from harness.certify.rivals import ASKED, rivals_on_one_base


def judge(seen: Exchanges) -> Judgement:
    lost = [e for e in seen.all("round") if not e.ok]
    wrong = [e for e in lost if e.status != 409]
    if wrong:
        statuses = ", ".join(f"{s}: {n}" for s, n in sorted(Counter(e.status for e in lost).items()))
        return failed("409 for each commit that lost", f"of {len(lost)} ({statuses})", *wrong[:2])
    return passed(f"{len(lost)} commits lost a race, each got 409")


REQUIREMENT = Requirement(
    id="raced-conflict-is-409",
    group="statuses",
    sentence="Also a commit that loses inside the server is answered with 409.",
    asked=ASKED.format(
        judged="Every commit that is not made must get 409.",
        others="`one-winner-per-base` and `refused-is-not-applied`",
    ),
    to_do=(
        "Map what a database says of a race that was lost (no row changed, a serialization failure, a violated "
        "key, a lock that was not got) to 409 CommitFailedException, not to 500."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1162",
    effect=Severity.BREAKS,
    ask=rivals_on_one_base,
    judge=judge,
    tries=1,
    any_catalog=True,
)
