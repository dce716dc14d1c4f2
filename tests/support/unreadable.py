"""A recorded run in which a client believed that its commit failed and deleted the commit's files: from then on nobody reads the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit, MissingFile
from checkers.selftest import recorded
from checkers.timeline.unreadable import NO_SUCH_KEY
from workloads.operations.kinds import KINDS

NOT_FOUND = "org.apache.iceberg.exceptions.NotFoundException"
REFUSED = "org.apache.iceberg.exceptions.ValidationException"


@dataclass(frozen=True)
class Broken:
    """The damaged run.

    Attributes:
        culprit: the operation that was reported as failed though its commit is main's last.
        file: main's last manifest list, which is gone, as errors name it.
    """

    evidence: Evidence
    table: str
    culprit: Operation
    commit: Commit
    file: str


def broken(
    name: str = "quick-240", fails: Callable[[Operation], bool] = lambda o: True, *, named: bool = True
) -> Broken:
    """A recorded run, damaged.

    ``fails``: which of the later operations on the table fail (the others keep their outcome); ``named``: whether their errors name the file.
    """
    good = recorded.load(name)
    operations = {o.op: o for o in good.history.operations()}

    def last(table: str) -> Commit:
        return good.logs[table].main()[-1]

    def usable(table: str) -> bool:
        o = operations.get(last(table).op or "")
        return o is not None and o.type == "ok" and KINDS[o.f].changes_rows

    table = next(t for t in sorted(good.logs) if usable(t))
    log, commit = good.logs[table], last(table)
    culprit = operations[commit.op or ""]
    assert culprit.completed is not None
    file = (
        f"{log.location.rstrip('/')}/{commit.manifest_list}"
        if "://" not in commit.manifest_list
        else commit.manifest_list
    )
    later = {
        o.op
        for o in operations.values()
        if o.table == table and o.completed is not None and o.completed.index > culprit.completed.index and fails(o)
    }

    def damaged(e: Event) -> Event:
        if e.op is None or e.type == "invoke":
            return e
        if e.op == culprit.op:
            return replace(e, type="fail", value=None, error=[[REFUSED, "Found conflicting files"]])
        if e.op in later:
            quoted = f"Job aborted due to stage failure: {NOT_FOUND}: Location does not exist: {file}\n\tat x.y"
            if not named:
                return replace(e, type="fail", value=None, error=[[NO_SUCH_KEY, "(Service: S3, Status Code: 404)"]])
            return replace(e, type="fail", value=None, error=[["org.apache.spark.SparkException", quoted]])
        return e

    history = replace(good.history, events=tuple(map(damaged, good.history.events)))
    gone = MissingFile(commit.manifest_list, (commit.snapshot_id,))
    logs = {**good.logs, table: replace(log, missing_files=(gone,))}
    return Broken(replace(good, history=history, logs=logs, swaps={}), table, culprit, commit, file)
