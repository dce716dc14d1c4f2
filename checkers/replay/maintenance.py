"""Anomalies of maintenance: commits that changed rows, and tables replaced by an older state."""

from __future__ import annotations

from contextlib import closing

from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.replay.past import MOST_STATES_BEFORE, EarlierCommits, change_of, evidence_of, files_of
from checkers.timeline import explain
from checkers.timeline.netrows import NetRows
from checkers.timeline.promise import REPLACED
from checkers.verdict import Anomaly
from workloads.tables import State


def overwritten_by_replacement(
    past: EarlierCommits, checker: str, k: int, c: Commit, o: Operation, real: NetRows, state: State
) -> Anomaly | None:
    """A table replaced by its state at an older position; later commits are overwritten."""
    after = state.copy()
    after.apply(*real)
    with closing(past.states_back(state, k - 1, max(0, k - 1 - MOST_STATES_BEFORE))) as states:
        scan = next((j for j, scanned in states if scanned == after), None)
    if scan is None:
        return None
    lost = past.t.main[scan : k - 1]
    makers = [m for x in lost if (m := past.t.everything.get(x.op or "")) is not None]
    when = explain.after(scan).removesuffix(" of main")
    text = (
        f"the {explain.operation(o)} committed {explain.snapshot(c)} with the rows that main had {when}, which it had read. "
        f"{explain.listing(explain.snapshot(x) + ' of ' + explain.maker(x, past.t.everything) for x in lost)} came in between: what "
        f"they did is overwritten, {explain.rows(real.removed)} gone and {explain.rows(real.added)} back. A table is replaced whatever is "
        "there when that commits."
    )
    return Anomaly(
        "lost-update",
        checker,
        past.t.name,
        text,
        ops=tuple(dict.fromkeys((o.op, *(m.op for m in makers)))),
        events=tuple(dict.fromkeys((*o.indices, *(i for m in makers for i in m.indices)))),
        snapshots=(*(x.snapshot_id for x in lost), c.snapshot_id),
        files=files_of(c, (*real.added, *real.removed), past.t),
        keys=explain.keys([*real.removed, *real.added]),
        documented=REPLACED,
        evidence=evidence_of(real, position=k, scan=scan),
    )


def changed_rows(past: EarlierCommits, checker: str, k: int, c: Commit, o: Operation, real: NetRows) -> Anomaly:
    """Rows that maintenance brought back (``resurrected-row``), or changed in any other way (``compaction-changed-rows``)."""
    before = past.removed_before(k, real.added)
    rows = sorted({*real.added, *real.removed}, key=str)
    ops, events, snapshots = [o.op], list(o.indices), [c.snapshot_id]
    if not real.removed and len(before) == len(set(real.added)):
        name = "resurrected-row"
        position = before[real.added[0]]
        remover = past.t.main[position - 1]
        text = (
            f"the {explain.operation(o)} must not change any row, yet its {explain.snapshot(c)} brings back "
            f"{explain.rows(real.added)}, removed before by {explain.maker(remover, past.t.everything)} in {explain.snapshot(remover)}; "
            f"the row lives in {explain.place(change_of(past.t, c, real.added[0]))}."
        )
        snapshots.insert(0, remover.snapshot_id)
        other = past.t.everything.get(remover.op or "")
        if other is not None:
            ops.append(other.op)
            events += other.indices
    else:
        name = "compaction-changed-rows"
        text = (
            f"the {explain.operation(o)} must not change any row, yet its {explain.snapshot(c)} removes {explain.rows(real.removed)} "
            f"and adds {explain.rows(real.added)}."
        )
    return Anomaly(
        name,
        checker,
        past.t.name,
        text,
        ops=tuple(ops),
        events=tuple(events),
        snapshots=tuple(snapshots),
        files=files_of(c, (*real.added, *real.removed), past.t),
        keys=explain.keys(rows),
        evidence=evidence_of(real),
    )
