"""What a server cleans up after a refusal is the loser's alone."""

from __future__ import annotations

from functools import partial

from harness.certify.kit import CLIENTS, Kit
from harness.certify.requirement import Exchanges, Judgement, Level, Requirement, Severity, failed, passed


def ask(kit: Kit) -> None:
    _ = kit.control  # before anything is made on a server of somebody else
    table = kit.table()
    base = table.grown(1)[0]
    for n in range(kit.rounds):
        kit.race(*[partial(table.append, f"round:{n}", base, n + 2)] * CLIENTS)
        base = table.load(f"load:{n}").metadata.get("current-snapshot-id", base)
    end = table.load("end")
    named = [entry["metadata-file"] for entry in end.metadata.get("metadata-log", [])]
    made = [e.body["metadata-location"] for e in kit.seen.exchanges if e.metadata]
    for place in sorted({*named, *made}):
        if not place.startswith("http"):  # Nessie names its own answers
            kit.file("file", place)


def judge(seen: Exchanges) -> Judgement:
    files, refused = seen.all("file"), [e for e in seen.all("round") if e.refused]
    if gone := [e for e in files if not e.ok]:
        (*_, last) = refused or [seen["end"]]
        return failed(f"{len(files)} metadata files are there", f"{gone[0].path} is not", last, seen["end"], *gone[:2])
    return passed(f"{len(files)} metadata files are there after {len(refused)} refusals")


REQUIREMENT = Requirement(
    id="loser-deletes-its-own",
    group="one winner and nothing lost",
    sentence="After a refusal every metadata file that a version names is there.",
    asked=(
        "25 rounds: 8 clients append on one base at once. Then each metadata file that an answer or the "
        "metadata-log named is looked for in the store. Only for servers that icequake runs."
    ),
    to_do=(
        "After a lost race delete only the metadata file that this attempt wrote. Name files by a UUID, so that "
        "no two attempts share one."
    ),
    level=Level.PROMISE,
    source="what a catalog is for",
    effect=Severity.LOSS,
    ask=ask,
    judge=judge,
    tries=1,
)
