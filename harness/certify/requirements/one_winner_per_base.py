"""Of several commits on one base at most one is applied."""

from __future__ import annotations

from harness.certify.kit import CLIENTS
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed
from harness.certify.rivals import ASKED, rivals_on_one_base


def judge(seen: Exchanges) -> Judgement:
    rounds = {e.label: None for e in seen.all("round")}
    for label in rounds:
        rivals = seen.all(label)
        won = [e for e in rivals if e.ok]
        if len(won) > 1:
            return failed("one 2xx for each base", f"{len(won)} of {len(rivals)} commits on one base got 2xx", *won[:2])
    return passed(f"not seen in {len(rounds)} rounds of {CLIENTS} clients")


REQUIREMENT = Requirement(
    id="one-winner-per-base",
    group="one winner and nothing lost",
    sentence="Of several commits on one base, the server applies at most one.",
    asked=ASKED.format(
        judged="No round may have two commits with 2xx.", others="`refused-is-not-applied` and `raced-conflict-is-409`"
    ),
    to_do=(
        "Make the swap one atomic step that names the version it replaces (UPDATE … WHERE metadata_location = …, "
        "put-if-match), and count what it changed: nothing changed is a 409."
    ),
    level=Level.PROMISE,
    source="rest-catalog-open-api.yaml l.1162",
    effect=Severity.LOSS,
    ask=rivals_on_one_base,
    judge=judge,
    tries=1,
    any_catalog=True,
)
