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
    asked=(
        "4 appends, each to a table of its own: icequake drops the database's reply to the commit, or puts "
        "SQLSTATE 40003, 08006 or 57P01 in its place. Then the table is loaded and its metadata file looked for. "
        "It is asked once, together with `unknown-is-5xx`. Only for servers that icequake runs."
    ),
    to_do=(
        "Delete a new metadata file only if the database says that the swap was not made. If that is not known, "
        "keep the file, and answer 500, 502 or 504."
    ),
    level=Level.MUST,
    source="rest-catalog-open-api.yaml l.1171",
    effect=Severity.LOSS,
    ask=unknown_outcomes,
    judge=judge,
)
