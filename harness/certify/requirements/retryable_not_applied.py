"""What a client sends again, as the server tells it to, was not done."""

from __future__ import annotations

from functools import partial

from harness.certify import rest
from harness.certify.kit import Kit, SetUpError
from harness.certify.requirement import Exchange, Exchanges, Judgement, Level, Requirement, Severity, failed, passed
from harness.certify.requirements.overload import REQUESTS_AT_ONCE
from harness.certify.unknown import UNKNOWN, unknown_outcomes


def ask(kit: Kit) -> None:
    table = kit.table()
    kit.race(*(partial(table.commit, "set", rest.properties(**{f"p{n}": "1"})) for n in range(REQUESTS_AT_ONCE)))
    if not (end := table.load("end")).ok:
        raise SetUpError(f"the table cannot be read afterwards: {end.words()}")
    if kit.server.control is not None:
        unknown_outcomes(kit)


def judge(seen: Exchanges) -> Judgement:
    told = [e for e in seen.all("set") if _again(e)]
    kept, end = seen["end"].metadata.get("properties", {}), seen["end"]
    for e in told:
        if e.sent["updates"][0]["updates"].keys() & kept.keys():
            return failed(f"{e.status}: nothing was done", "the property is set", e, end)
    for name in UNKNOWN if seen.all("commit") else ():
        commit, after = seen[f"commit:{name}"], seen[f"after:{name}"]
        made = commit.sent["updates"][0]["snapshot"]["snapshot-id"]
        if _again(commit):
            told.append(commit)
            if any(s["snapshot-id"] == made for s in after.metadata.get("snapshots", [])):
                return failed(f"{commit.status}: nothing was done", f"{name}: the snapshot is there", commit, after)
    asked = len(seen.all("set")) + len(seen.all("commit"))
    return passed(f"{len(told)} of {asked} were told to come again, and none of them was done")


def _again(e: Exchange) -> bool:
    """Whether Iceberg's client sends the same request again."""
    return e.status == 429 or (e.status == 503 and "retry-after" in e.headers)


REQUIREMENT = Requirement(
    id="retryable-not-applied",
    group="statuses",
    sentence="A commit that is answered with 429, or 503 with Retry-After, was not made.",
    asked=(
        "64 commits at once, each sets a property of its own. Of a server that icequake runs also 4 appends, of "
        "which it drops the database's reply or puts SQLSTATE 40003, 08006 or 57P01 in its place."
    ),
    to_do=(
        "Answer 429, or 503 with Retry-After, only before the commit is begun. Once the swap was sent to the "
        "database and its outcome is not known, answer 500, 502 or 504."
    ),
    level=Level.CLIENTS,
    source="ExponentialHttpRequestRetryStrategy sends the same request again",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    tries=1,
)
