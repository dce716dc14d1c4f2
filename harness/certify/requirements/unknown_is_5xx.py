"""A server that does not know what came of a commit says so."""

from __future__ import annotations

from checkers.certificate import Conclusion
from harness.certify.requirement import Exchange, Exchanges, Judgement, Level, Requirement, Severity, passed
from harness.certify.unknown import UNKNOWN, unknown_outcomes

EXPECTED = "500, 502 or 504: the database has made it, so the client must not clean up or repeat it"


def judge(seen: Exchanges) -> Judgement:
    verdicts: dict[Conclusion, list[str]] = {}
    for name in UNKNOWN:
        verdicts.setdefault(_of_one(seen[f"commit:{name}"], seen[f"after:{name}"]), []).append(name)
    for conclusion, expected in (
        (Conclusion.FAIL, EXPECTED),
        (Conclusion.ERROR, "the table can be read: without that nobody knows whether the commit was made"),
        (Conclusion.SOFT, f"{EXPECTED}; to PyIceberg 503 is not"),
    ):
        if names := verdicts.get(conclusion):
            commit, after = seen[f"commit:{names[0]}"], seen[f"after:{names[0]}"]
            return Judgement(conclusion, expected, f"{', '.join(names)}: {commit.words()}", (commit, after))
    return passed(f"{len(UNKNOWN)} kinds of unknown outcomes")


def _of_one(commit: Exchange, after: Exchange) -> Conclusion:
    made = commit.sent["updates"][0]["snapshot"]["snapshot-id"]
    if not after.ok and (commit.ok or commit.refused or commit.status == 503):
        return Conclusion.ERROR
    applied = any(s["snapshot-id"] == made for s in after.metadata.get("snapshots", []))
    if applied and (commit.refused or (commit.status == 503 and "retry-after" in commit.headers)):
        return Conclusion.FAIL
    if commit.ok and not applied:
        return Conclusion.FAIL
    return Conclusion.SOFT if applied and commit.status == 503 else Conclusion.PASS


REQUIREMENT = Requirement(
    id="unknown-is-5xx",
    group="statuses",
    sentence="A commit whose outcome the server cannot know is answered with 500, 502 or 504.",
    asked=(
        "4 appends, each to a table of its own: icequake drops the database's reply to the commit, or puts "
        "SQLSTATE 40003, 08006 or 57P01 in its place. Then the table is loaded and its metadata file looked for. "
        "It is asked once, together with `unknown-deletes-nothing`. Only for servers that icequake runs."
    ),
    to_do=(
        "Take a lost connection, and SQLSTATE 08…, 40003 and 57P01, in answer to a COMMIT as an unknown outcome: "
        "look whether the pointer moved, or answer 500, 502 or 504. Never 409, nor 503 with Retry-After."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1171",
    effect=Severity.LOSS,
    ask=unknown_outcomes,
    judge=judge,
)
