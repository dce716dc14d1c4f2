"""A server that does not know what came of a commit keeps its metadata file."""

from __future__ import annotations

from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed
from harness.certify.unknown import UNKNOWN, unknown_outcomes


def judge(seen: Exchanges) -> Judgement:
    for name in UNKNOWN:
        commit, after = seen[f"commit:{name}"], seen[f"after:{name}"]
        if not after.ok:
            return failed("the table can be read", f"{name}: {after.words()}", commit, after)
        file = seen[f"file:{name}"]
        if not file.ok:
            return failed("the current metadata file is there", f"{name}: {file.path} is not", commit, after, file)
    return passed(f"{len(UNKNOWN)} kinds of unknown outcomes")


REQUIREMENT = Requirement(
    id="unknown-deletes-nothing",
    group="statuses",
    sentence="After a commit whose outcome the server cannot know, the table's metadata file is there.",
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1171",
    effect=Severity.LOSS,
    ask=unknown_outcomes,
    judge=judge,
)
