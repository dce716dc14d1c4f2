"""What to do now about a table that an anomaly has harmed: only what the run's own evidence says is possible.

Whether a file is there, the table log says: it was compared with the store when the run ended (``TableLog.missing_files``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from checkers.evidence.history import Operation
from checkers.evidence.tableformat import format_of
from checkers.evidence.tablelog import Commit, Metadata, TableLog
from checkers.timeline import explain
from workloads.operations.kinds import KINDS


def repair(
    name: str,
    log: TableLog | None,
    operations: Mapping[str, Operation],
    ops: Sequence[str],
    keys: Sequence[int],
    *,
    unreadable: bool,
) -> str:
    """What to do now, in sentences; empty if the evidence does not say.

    Args:
        name: of the story.
        ops: whose commits are lost, or that did it.
        keys: ids of the rows.
        unreadable: nobody can read the table any more.
    """
    said = [*(_set_back(log) if unreadable and log is not None else ())]
    if name == "lost-commit":
        said += _again(log, operations, ops)
    elif name == "false-failure" and not unreadable:
        said.append(f"Do not run {explain.listing(ops)} again: the table has {_its(ops)} rows.")
    elif name in _AGAIN:
        said.append(_AGAIN[name].format(op=explain.listing(ops), ids=_ids(keys)))
    return " ".join(said)


_AGAIN: Mapping[str, str] = {
    "undelete": "Run {op} again while nothing else writes{ids}: its row is still there.",
    "resurrected-row": "Delete the rows again{ids}.",
    "duplicate-commit": "Remove what {op} wrote a second time{ids}.",
    "duplicate-row": "Remove the second copy of the row{ids}.",
}
"""Name → what mends it: what is in the table says that it is so."""


def _ids(keys: Sequence[int]) -> str:
    return f" ({'id' if len(keys) == 1 else 'ids'} {explain.listing(keys)})" if keys else ""


def _its(ops: Sequence[str]) -> str:
    return "its" if len(ops) == 1 else "their"


def _gone(log: TableLog) -> frozenset[int]:
    """The snapshots of which the store has lost a file."""
    return frozenset(s for f in log.missing_files for s in f.snapshots)


def _set_back(log: TableLog) -> Iterator[str]:
    """To which state the table can be set back, and what is not in that one."""
    found = last_readable(log)
    if found is None:
        return
    c, m = found
    lost = [x.op for x in _since(log, c) if x.op is not None]
    then = f" It lacks what {explain.listing(lost)} wrote." if lost else ""
    state = f"snapshot {c.snapshot_id} ({c.label})"
    yield f"The last state that can be read is {state}, which {_file(m.location)} has: {format_of(log).set_back(c, m)}.{then}"


def last_readable(log: TableLog) -> tuple[Commit, Metadata] | None:
    """The last state of main all of whose files are in the store, and the version of the table that has it; None: nobody knows."""
    commits, gone = log.by_snapshot(), _gone(log)
    away = {p.file for p in log.problems if p.code == "missing-metadata"}
    listed = set(log.metadata[-1].snapshots) if log.metadata else set()
    for m in reversed(log.metadata):
        c = commits.get(m.current) if m.current is not None else None
        if c is not None and c.snapshot_id in listed - gone and m.location not in away:
            return c, m
    return None


def _since(log: TableLog, c: Commit) -> Iterator[Commit]:
    """What main has had since a state that it had, the oldest first."""
    commits = log.by_snapshot()
    seen = {c.snapshot_id}
    at = max(n for n, m in enumerate(log.metadata) if m.current == c.snapshot_id)
    for m in log.metadata[at + 1 :]:
        if m.current not in seen and m.current in commits:
            seen.add(m.current)
            yield commits[m.current]


def _again(log: TableLog | None, operations: Mapping[str, Operation], ops: Sequence[str]) -> Iterator[str]:
    """For each lost commit, whether its snapshot can be brought back or its statement has to be run again."""
    run = []
    for op in ops:
        back = None if log is None else _brought_back(log, op)
        if back is not None:
            yield f"The files of {op} are all there: {back}."
        elif op in operations and operations[op].f in KINDS:
            run.append(op)
    if run:
        how = "its statement is" if len(run) == 1 else "their statements are"
        yield f"Run {explain.listing(run)} again: {how} on this card, and the table has nothing of {'it' if len(run) == 1 else 'them'}."


def _brought_back(log: TableLog, op: str) -> str | None:
    """How the rows of a lost commit come back without its statement; None if a file of it may be gone, or its format has no way."""
    listed = set(log.metadata[-1].snapshots) if log.metadata else set()
    made = [c for c in log.commits if c.op == op]
    if not made or made[-1].snapshot_id not in listed - _gone(log) or not log.complete:
        return None
    return format_of(log).brought_back(made[-1], log.identifier)


def _file(location: str) -> str:
    return location.rpartition("/")[2]
