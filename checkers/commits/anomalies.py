"""What the anomalies of commits are called, whom they concern, and how they are explained."""

from __future__ import annotations

import json

from checkers.commits.blame import Blame
from checkers.commits.fate import is_dml
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Capture, Commit
from checkers.timeline import explain
from checkers.timeline.captured import Stale
from checkers.timeline.timeline import Timeline, set_back_to
from checkers.timeline.touched import ids_named
from checkers.verdict import Anomaly


def keys(t: Timeline, commits: list[Commit]) -> tuple[int, ...]:
    return explain.keys(r for c in commits for part in (t.changes(c) or ()) for r in part)


def duplicate(t: Timeline, o: Operation, on_main: list[Commit], checker: str) -> Anomaly:
    which = ", ".join(explain.snapshot(c) for c in on_main)
    return Anomaly(
        "duplicate-commit",
        checker,
        t.name,
        f"the {explain.operation(o)} was invoked once, at {explain.ms(o.start)}, and {explain.outcome(o)}, yet main has "
        f"{len(on_main)} snapshots of it: {which}. A statement commits at most once.",
        ops=(o.op,),
        events=o.indices,
        snapshots=tuple(c.snapshot_id for c in on_main),
        keys=keys(t, on_main),
    )


def false_failure(t: Timeline, o: Operation, on_main: list[Commit], checker: str) -> Anomaly:
    why = f" ({o.error[0][0]}: {o.error[0][1].splitlines()[0] if o.error[0][1] else ''})" if o.error else ""
    return Anomaly(
        "false-failure",
        checker,
        t.name,
        f"the {explain.operation(o)} was {explain.outcome(o)}{why}, which says that it certainly had no effect, yet main has its "
        f"{', '.join(explain.snapshot(c) for c in on_main)}. A client that repeats the operation does it twice, and an engine that cleans "
        "up after the failure deletes files that the table needs.",
        ops=(o.op,),
        events=o.indices,
        snapshots=tuple(c.snapshot_id for c in on_main),
        keys=keys(t, on_main),
    )


def dropped(t: Timeline, o: Operation, dropped: list[Commit], checker: str) -> Anomaly:
    c = dropped[0]
    text = (
        f"the {explain.operation(o)} was {explain.outcome(o)} and made {explain.snapshot(c)}, first shown by metadata version "
        f"{c.metadata}, yet that snapshot is not in the ancestry of main's last snapshot {t.log.metadata[-1].current}"
    )
    ops, snapshots, files, events = [o.op], [c.snapshot_id], [], list(o.indices)
    moved = t.dropped_at(c.snapshot_id)
    if moved is None:
        text += ": no metadata version ever had it on main."
    else:
        before, after = moved
        files = [before.location, after.location]
        new = t.snapshots.get(after.current) if after.current is not None else None
        text += f": metadata version {before.n} had main at snapshot {before.current}, version {after.n} moved it to "
        if new is None:
            text += f"{'no snapshot at all' if after.current is None else f'snapshot {after.current}'}."
        else:
            who = explain.maker(new, t.everything)
            if new.metadata == after.n:
                parent = "no parent" if new.parent_id is None else f"parent {new.parent_id}"
                text += f"{explain.snapshot(new)}, which {who} had just made on {parent}: past the lost commit."
            else:
                text += (
                    f"{explain.snapshot(new)}, which {who} had made earlier, in version {new.metadata}: back below the lost commit, as "
                    "when that operation's commit is applied a second time."
                )
            snapshots.append(new.snapshot_id)
            mover = t.everything.get(new.op) if new.op is not None else None
            if mover is not None and mover.op != o.op:
                ops.append(mover.op)
                events += mover.indices
    return Anomaly(
        "lost-commit",
        checker,
        t.name,
        text,
        ops=tuple(ops),
        events=tuple(events),
        snapshots=tuple(snapshots),
        files=tuple(files),
        keys=keys(t, [c]),
        evidence={"seen": True},
    )


def lost_rollback(t: Timeline, o: Operation, checker: str) -> Anomaly:
    target = set_back_to(o)
    return Anomaly(
        "lost-rollback",
        checker,
        t.name,
        f"the {explain.operation(o)} was invoked at {explain.ms(o.start)} and {explain.outcome(o)}, so main was at snapshot {target} "
        f"some time in between; yet in none of the {len(t.log.metadata)} metadata versions that can have been current then it was.",
        ops=(o.op,),
        events=o.indices,
        snapshots=() if target is None else (target,),
    )


def never_seen(t: Timeline, o: Operation, checker: str, blame: Blame) -> Anomaly:
    why = (
        "and at every state that it can have seen it had rows to change"
        if is_dml(o)
        else f"though its answer {json.dumps(o.result)} says that it replaced files"
    )
    return Anomaly(
        "lost-commit",
        checker,
        t.name,
        f"the {explain.operation(o)} was invoked at {explain.ms(o.start)} and {explain.outcome(o)}, yet no snapshot of it was ever seen: "
        f"none of the {len(t.log.commits)} snapshots in the {len(t.log.metadata)} metadata versions read up to "
        f"{explain.ms(t.seen_until)} {'is its' if o.mixed else 'names it'}, {why}.{blame.words(o)}",
        ops=(o.op,),
        events=o.indices,
        keys=ids_named(o, t.spec)[: explain.MOST_KEYS],
        evidence={"seen": False, **blame.evidence(o)},
    )


def wrong_result(t: Timeline, o: Operation, wrong: list[str], checker: str) -> Anomaly:
    commits = t.commits.get(o.op, [])
    made = f" (it made {explain.listing(explain.snapshot(c) for c in commits)})" if commits else ""
    return Anomaly(
        "wrong-result",
        checker,
        t.name,
        f"the {explain.operation(o)}, invoked at {explain.ms(o.start)} and {explain.outcome(o)}, answered {json.dumps(o.result)}: "
        f"{'; '.join(wrong)}{made}.",
        ops=(o.op,),
        events=o.indices,
        snapshots=tuple(c.snapshot_id for c in commits),
    )


def stale(t: Timeline, s: Stale, checker: str) -> Anomaly:
    at = explain.ms(s.capture.time)
    text = f"the catalog was asked for the table at {at} or later and named metadata version {s.shown.n} ({s.shown.location})"
    if s.operation is not None and s.commit is not None:
        more = f", as {s.more} more commits acknowledged before" if s.more else ""
        text += (
            f", although the {explain.operation(s.operation)} was {explain.outcome(s.operation)} and its {explain.snapshot(s.commit)} is in "
            f"version {s.commit.metadata} and not in that one{more}: the catalog answered with an older state, or it had not committed yet."
        )
    elif s.seen is not None:
        text += f", although it had named the later version {s.seen.n} ({s.seen.location}) before."
    return Anomaly(
        "stale-pointer",
        checker,
        t.name,
        text,
        ops=() if s.operation is None else (s.operation.op,),
        events=() if s.operation is None else s.operation.indices,
        snapshots=() if s.commit is None else (s.commit.snapshot_id,),
        files=(s.shown.location,),
    )


def lost_table(t: Timeline, last: Capture, checker: str) -> Anomaly:
    """The catalog has no table at the end."""
    return Anomaly(
        "lost-table",
        checker,
        t.name,
        f"the catalog had no table {t.log.identifier} when the table log was read last, at {explain.ms(last.time)}, "
        f"though it had pointed at {t.log.metadata[-1].location} before and no operation dropped it.",
        files=(t.log.metadata[-1].location,),
    )


def without_table(
    t: Timeline, capture: Capture, found: Capture | None, proof: Operation | None, checker: str
) -> Anomaly:
    reasons = [f"the {explain.operation(proof)} had been {explain.outcome(proof)}"] if proof is not None else []
    reasons += [f"it had pointed at {found.metadata} before"] if found is not None else []
    why = " and ".join(reasons)
    return Anomaly(
        "lost-table",
        checker,
        t.name,
        f"the catalog had no table {t.log.identifier} when the table log was read at {explain.ms(capture.time)}, though {why}; "
        "later it had the table again, and no operation dropped it.",
        ops=() if proof is None else (proof.op,),
        events=() if proof is None else proof.indices,
        files=() if found is None or found.metadata is None else (found.metadata,),
    )
