"""Is what an operation did or saw right at some state that it can have scanned? Answered from a table's last states.

Each function raises :class:`NotJudged` where the last states do not answer it.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import TableLog
from checkers.online.window import TOO_LONG, NotJudged, StateWindow
from checkers.reads.judge import rows_of
from checkers.replay.past import compare
from checkers.replay.walk import TableReplay
from checkers.timeline.netrows import NetRows
from checkers.timeline.timeline import Timeline, meaning
from checkers.timeline.touched import touches
from checkers.verdict import Anomaly
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec


def idle(w: StateWindow, spec: TableSpec, o: Operation) -> bool:
    """Whether an acknowledged write had nothing to change at some state that it can have scanned, so that it need not have committed."""
    first = w.reached(o.invoked.index)
    if not KINDS[o.f].changes_rows:
        return False
    return any(meaning(o, state, spec) == ([], []) for state in w.back(first))


def read_at(w: StateWindow, spec: TableSpec, o: Operation, first: int) -> int:
    """The lowest position from ``first`` on whose rows a read returned; if there is none, the newest before."""
    rows, about = rows_of(o.result), touches(o, spec)
    if rows is None or about is None:
        raise NotJudged("reads whose result is not a list of rows")
    key = None if about.whole else about.ids[0]
    seen = min(w.equal(rows, key, first), default=None)
    if seen is None:
        seen = next(w.equal(rows, key, w.base), None)
    if seen is None:
        raise NotJudged("reads of rows that no state has had so far")
    return seen


def anomalies_of(
    w: StateWindow, spec: TableSpec, log: TableLog, ops: Mapping[str, Operation], changes: NetRows
) -> list[Anomaly]:
    """What the full check's ``replay`` says of main's next commit, by that commit and those that its operation can have missed.

    Args:
        log: the version that shows the commit first, and the commit.
        ops: the operations that are known, at least its own.
    """
    (c,) = log.commits
    o = ops[c.op or ""]
    if KINDS[o.f].changes_rows:
        want = meaning(o, w.state, spec)
        if want is not None and compare(w.top, want.removed, want.added, changes).exact:
            return []
    elif not (changes.removed or changes.added):
        return []
    since = w.commits(w.reached(o.invoked.index))
    names = {x.op or "" for x in (*since, c)}
    if not names <= ops.keys():
        raise NotJudged(TOO_LONG)
    shown = replace(log.metadata[0], n=0, problems=())
    log = replace(log, metadata=(shown,), commits=(*since, c))
    walk = TableReplay(Timeline(spec, log, {op: ops[op] for op in names}, (), False), "replay")
    walk.state = w.state
    walk.judge(len(since) + 1, c, changes)
    if walk.unchecked:
        raise NotJudged("; ".join(walk.notes))
    return walk.anomalies
