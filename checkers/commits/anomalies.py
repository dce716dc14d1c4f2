"""What the anomalies of commits are called, whom they concern, and how they are explained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from checkers.commits.blame import Blame
from checkers.commits.fate import AcknowledgedWrite, is_dml
from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.evidence.tableformat import format_of
from checkers.evidence.tablelog import Capture, Commit, Metadata
from checkers.timeline import explain
from checkers.timeline.captured import StaleCapture
from checkers.timeline.timeline import Timeline, set_back_to
from checkers.timeline.touched import ids_named
from checkers.verdict import Anomaly
from workloads.operations.kinds import KINDS


def anomaly(
    name: str,
    t: Timeline,
    text: str,
    ops: Sequence[Operation | None],
    commits: Sequence[Commit | None] = (),
    **more: Any,
) -> Anomaly:
    """An anomaly of a table that concerns these operations and snapshots; None is nobody."""
    known = [o for o in ops if o is not None]
    return Anomaly(
        name,
        "commits",
        t.name,
        text,
        ops=tuple(o.op for o in known),
        events=tuple(i for o in known for i in o.indices),
        snapshots=tuple(c.snapshot_id for c in commits if c is not None),
        **more,
    )


def keys(t: Timeline, commits: Sequence[Commit]) -> tuple[int, ...]:
    """Of the rows that commits changed."""
    return explain.keys(r for c in commits for part in (t.changes(c) or ()) for r in part)


def duplicate(t: Timeline, o: Operation, on_main: list[Commit]) -> Anomaly:
    """An operation with more than one snapshot on main."""
    which = ", ".join(explain.snapshot(c) for c in on_main)
    text = (
        f"the {explain.operation(o)} was invoked once, at {explain.s(o.start)}, and {explain.outcome(o)}, yet main has "
        f"{len(on_main)} snapshots of it: {which}. A statement commits at most once."
    )
    return anomaly("duplicate-commit", t, text, [o], on_main, keys=keys(t, on_main))


def false_failure(t: Timeline, o: Operation, on_main: list[Commit]) -> Anomaly:
    """A failed operation with a snapshot on main."""
    why = f" ({o.error[0][0]}: {o.error[0][1].splitlines()[0] if o.error[0][1] else ''})" if o.error else ""
    text = (
        f"the {explain.operation(o)} was {explain.outcome(o)}{why}, which says that it certainly had no effect, yet main has its "
        f"{', '.join(explain.snapshot(c) for c in on_main)}.{_with_itself(o, on_main)} A client that repeats the operation does it "
        "twice, and an engine that cleans up after the failure deletes files that the table needs."
    )
    return anomaly("false-failure", t, text, [o], on_main, keys=keys(t, on_main))


def _with_itself(o: Operation, commits: list[Commit]) -> str:
    """That the conflict which an operation gives up for is with its own commit, if the error names a file of that."""
    messages = " ".join(message for _, message, *_ in o.error or ())
    own = any(f.path.rpartition("/")[2] in messages for c in commits for f in c.added_files) if messages else False
    return " The file that the error names is its own: it took its own commit for another's." if own else ""


def dropped(w: AcknowledgedWrite) -> Anomaly:
    """An acknowledged write of which a snapshot was seen that is not on main."""
    t, o, c = w.t, w.o, w.dropped[0]
    text = (
        f"the {explain.operation(o)} was {explain.outcome(o)} and made {explain.snapshot(c)}, first shown by metadata version "
        f"{c.metadata}, yet that snapshot is not in the ancestry of main's last snapshot {t.log.metadata[-1].current}"
    )
    moved = t.dropped_at(c.snapshot_id)
    if moved is None:
        text += ": no metadata version ever had it on main."
        return anomaly("lost-commit", t, text, [o], [c], keys=keys(t, [c]), evidence={"seen": True})
    before, after = moved
    new = t.snapshots.get(after.current) if after.current is not None else None
    mover = t.everything.get(new.op) if new is not None and new.op is not None else None
    where = "no snapshot at all" if after.current is None else f"snapshot {after.current}"
    if new is not None and mover is not None and mover is not o and _of_another_parent(t, new, before, after):
        return _passed_over(w, new, mover, before, after)
    text += (
        f": metadata version {before.n} had main at snapshot {before.current}, version {after.n} moved it to "
        f"{f'{where}.' if new is None else _moved_to(t, new, new.metadata == after.n)}"
    )
    return anomaly(
        "lost-commit",
        t,
        text,
        [o, None if mover is None or mover.op == o.op else mover],
        [c, new],
        files=(before.location, after.location),
        keys=keys(t, [c]) or ids_named(o, t.spec)[: explain.MOST_KEYS],
        evidence={"seen": True},
    )


def _of_another_parent(t: Timeline, new: Commit, before: Metadata, after: Metadata) -> bool:
    """Whether a snapshot was made on what main was before, and only says that its parent is another."""
    if new.metadata != after.n or before.current is None or before.current == new.parent_id:
        return False
    made_on, named = format_of(t.log).made_on, None if new.parent_id is None else t.snapshots.get(new.parent_id)
    if before.current not in t.snapshots or (named is None) != (new.parent_id is None):
        return False
    return made_on(new, t.snapshots[before.current]) is True and made_on(new, named) is False


def _passed_over(w: AcknowledgedWrite, new: Commit, mover: Operation, before: Metadata, after: Metadata) -> Anomaly:
    """A write that is lost because a later snapshot names a parent on which it was not made; that one's operation is named first."""
    t, o, c = w.t, w.o, w.dropped[0]
    parent = "no parent" if new.parent_id is None else f"the parent {new.parent_id}"
    text = (
        f"the {explain.operation(mover)} made {explain.snapshot(new)}, in metadata version {after.n}, on snapshot {before.current}, which "
        f"was main's: its totals are those of that one and of what it changed. Yet it names {parent}, so the {explain.snapshot(c)} of "
        f"the {explain.operation(o)}, {explain.outcome(o)}, is no longer in the ancestry of main."
    )
    files = (before.location, after.location)
    return anomaly(
        "lost-commit", t, text, [mover, o], [c, new], files=files, keys=keys(t, [c]), evidence={"seen": True}
    )


def _moved_to(t: Timeline, new: Commit, just_made: bool) -> str:
    """The snapshot that main moved to when a commit was lost, and who had made it when."""
    who = explain.maker(new, t.everything)
    if just_made:
        parent = "no parent" if new.parent_id is None else f"parent {new.parent_id}"
        return f"{explain.snapshot(new)}, which {who} had just made on {parent}: past the lost commit."
    return (
        f"{explain.snapshot(new)}, which {who} had made earlier, in version {new.metadata}: back below the lost commit, as "
        "when that operation's commit is applied a second time."
    )


def lost_rollback(t: Timeline, o: Operation) -> Anomaly:
    """An acknowledged rollback that had no effect."""
    target = set_back_to(o)
    text = (
        f"the {explain.operation(o)} was invoked at {explain.s(o.start)} and {explain.outcome(o)}, so main was at snapshot {target} "
        f"some time in between; yet in none of the {len(t.log.metadata)} metadata versions that can have been current then it was."
    )
    return replace(anomaly("lost-rollback", t, text, [o]), snapshots=(target,) if target in t.snapshots else ())


def never_seen(w: AcknowledgedWrite, blame: Blame) -> Anomaly:
    """An acknowledged write of which no snapshot was ever seen."""
    t, o = w.t, w.o
    table_format = format_of(t.log)
    inserts = o.f in KINDS and KINDS[o.f].verb == "insert"
    why = (
        f"and {'it had rows to insert' if inserts else 'whatever state it saw, it had rows to change'}"
        if is_dml(o)
        else f"though its answer {json.dumps(o.result)} says that it replaced files"
    )
    text = (
        f"the {explain.operation(o)} was invoked at {explain.s(o.start)} and {explain.outcome(o)}, yet no snapshot of it was ever seen: "
        f"none of the {len(t.log.commits)} snapshots in the {len(t.log.metadata)} {table_format.version}s read up to "
        f"{explain.s(t.seen_until)} {'is its' if o.mixed else 'names it'}, {why}.{blame.words(o, table_format.decides)}"
    )
    ids = ids_named(o, t.spec)[: explain.MOST_KEYS]
    return anomaly("lost-commit", t, text, [o], keys=ids, evidence={"seen": False, **blame.evidence(o)})


def wrong_result(t: Timeline, o: Operation, wrong: list[str]) -> Anomaly:
    """An answer that the log contradicts."""
    commits = t.commits.get(o.op, [])
    made = f" (it made {explain.listing(explain.snapshot(c) for c in commits)})" if commits else ""
    text = (
        f"the {explain.operation(o)}, invoked at {explain.s(o.start)} and {explain.outcome(o)}, answered {json.dumps(o.result)}: "
        f"{'; '.join(wrong)}{made}."
    )
    return anomaly("wrong-result", t, text, [o], commits)


def stale_pointer(t: Timeline, s: StaleCapture) -> Anomaly:
    """The catalog named an older version than it had to."""
    time = explain.s(s.capture.time)
    text = f"the catalog was asked for the table at {time} or later and named metadata version {s.shown.n} ({s.shown.location})"
    if s.operation is not None and s.commit is not None:
        more = f", as {s.more} more commits acknowledged before" if s.more else ""
        text += (
            f", although the {explain.operation(s.operation)} was {explain.outcome(s.operation)} and its {explain.snapshot(s.commit)} is in "
            f"version {s.commit.metadata} and not in that one{more}: the catalog answered with an older state, or it had not committed yet."
        )
    elif s.seen is not None:
        text += f", although it had named the later version {s.seen.n} ({s.seen.location}) before."
    return anomaly("stale-pointer", t, text, [s.operation], [s.commit], files=(s.shown.location,))


def lost_table(t: Timeline, last: Capture) -> Anomaly:
    """The catalog has no table at the end."""
    text = (
        f"the catalog had no table {t.log.identifier} when the table log was read last, at {explain.s(last.time)}, "
        f"though it had pointed at {t.log.metadata[-1].location} before and no operation dropped it."
    )
    return anomaly("lost-table", t, text, [], files=(t.log.metadata[-1].location,))


def without_table(t: Timeline, capture: Capture, found: Capture | None, proof: Operation | None) -> Anomaly:
    """The catalog had no table for a time."""
    reasons = [f"the {explain.operation(proof)} had been {explain.outcome(proof)}"] if proof is not None else []
    reasons += [f"it had pointed at {found.metadata} before"] if found is not None else []
    text = (
        f"the catalog had no table {t.log.identifier} when the table log was read at {explain.s(capture.time)}, though "
        f"{' and '.join(reasons)}; later it had the table again, and no operation dropped it."
    )
    return anomaly(
        "lost-table", t, text, [proof], files=() if found is None or found.metadata is None else (found.metadata,)
    )


def unknown_commit(t: Timeline, c: Commit, o: Operation | None, why: str) -> Anomaly:
    """A snapshot on main that the operation that it names cannot have made."""
    text = f"main has {explain.snapshot(c)}, which says that {c.op} made it, yet {why}."
    return replace(anomaly("unknown-commit", t, text, [o], [c], keys=keys(t, [c])), ops=(str(c.op),))
