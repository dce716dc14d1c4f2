"""Damage to the evidence of a run, one kind a function: what a broken catalog, engine or harness could leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, Commit, Metadata, TableLog

Damage = Callable[[Evidence, Random], Evidence | None]
"""Damages a random place; None if there is none."""


def _events(e: Evidence, events: Sequence[Event]) -> Evidence:
    numbered = tuple(replace(x, index=n) for n, x in enumerate(events))
    return replace(e, history=History(e.history.header, numbered))


def _log(e: Evidence, rng: Random, damage: Callable[[TableLog], TableLog | None]) -> Evidence | None:
    name = rng.choice(sorted(e.logs))
    log = damage(e.logs[name])
    return None if log is None else replace(e, logs={**e.logs, name: log})


def _completion(e: Evidence, rng: Random, *types: str) -> int | None:
    found = [n for n, x in enumerate(e.history.events) if x.op is not None and x.type in types]
    return rng.choice(found) if found else None


def _retyped(e: Evidence, n: int | None, **more: object) -> Evidence | None:
    if n is None:
        return None
    events = list(e.history.events)
    events[n] = replace(events[n], **more)  # type: ignore[arg-type]
    return _events(e, events)


def outcome_unknown(e: Evidence, rng: Random) -> Evidence | None:
    """An acknowledgement that nobody got: the writer goes on as a new process."""
    n = _completion(e, rng, "ok")
    if n is None:
        return None
    events = list(e.history.events)
    process = events[n].process
    new = 1 + max(x.process for x in events if isinstance(x.process, int))
    events[n] = replace(events[n], type="info", value=None)
    events[n + 1 :] = [replace(x, process=new) if x.process == process else x for x in events[n + 1 :]]
    return _events(e, events)


def false_failure(e: Evidence, rng: Random) -> Evidence | None:
    """An acknowledgement that is told as a failure."""
    return _retyped(e, _completion(e, rng, "ok"), type="fail", value=None)


def false_acknowledgement(e: Evidence, rng: Random) -> Evidence | None:
    """A failure that is told as an acknowledgement."""
    return _retyped(e, _completion(e, rng, "fail", "info"), type="ok")


def late_completion(e: Evidence, rng: Random) -> Evidence | None:
    """A completion that comes later, before the process goes on."""
    n = _completion(e, rng, "ok", "fail", "info")
    if n is None:
        return None
    events = list(e.history.events)
    x = events.pop(n)
    end = next((k for k in range(n, len(events)) if events[k].process == x.process), len(events))
    at = rng.randint(n, end)
    events.insert(at, replace(x, time=max(x.time, events[at - 1].time)))
    return _events(e, events)


def read_of_another(e: Evidence, rng: Random) -> Evidence | None:
    """A read that returns what another read returned, of another table perhaps."""
    reads = [n for n, x in enumerate(e.history.events) if x.type == "ok" and x.f == "read"]
    if len(reads) < 2:
        return None
    a, b = rng.sample(reads, 2)
    return _retyped(e, a, value=e.history.events[b].value)


def read_lacks_a_row(e: Evidence, rng: Random) -> Evidence | None:
    """A read that leaves a row out."""
    reads = [n for n, x in enumerate(e.history.events) if x.type == "ok" and x.f == "read" and x.value]
    if not reads:
        return None
    n = rng.choice(reads)
    rows = list(e.history.events[n].value)
    del rows[rng.randrange(len(rows))]
    return _retyped(e, n, value=rows)


def _commit(e: Evidence, rng: Random, edit: Callable[[Commit], Commit | None]) -> Evidence | None:
    def damage(log: TableLog) -> TableLog | None:
        if not log.commits:
            return None
        n = rng.randrange(len(log.commits))
        made = edit(log.commits[n])
        return None if made is None else replace(log, commits=(*log.commits[:n], made, *log.commits[n + 1 :]))

    return _log(e, rng, damage)


def no_name(e: Evidence, rng: Random) -> Evidence | None:
    """A snapshot that names no operation."""
    return _commit(e, rng, lambda c: replace(c, op=None))


def another_name(e: Evidence, rng: Random) -> Evidence | None:
    """A snapshot that names another operation, or one of nobody."""
    ops = [x.op for x in e.history.events if x.op is not None]
    return _commit(e, rng, lambda c: replace(c, op=rng.choice([*ops, "w9-99"])))


def row_lost(e: Evidence, rng: Random) -> Evidence | None:
    """A commit that lacks a row that it added."""
    return _commit(e, rng, lambda c: replace(c, added=c.added[1:]) if c.added else None)


def rows_twice(e: Evidence, rng: Random) -> Evidence | None:
    """A commit that adds its rows twice."""
    return _commit(e, rng, lambda c: replace(c, added=2 * c.added) if c.added else None)


def rows_unknown(e: Evidence, rng: Random) -> Evidence | None:
    """A commit whose rows could not be read."""
    return _commit(e, rng, lambda c: replace(c, added=None))


def lost_base(e: Evidence, rng: Random) -> Evidence | None:
    """A commit on the parent, or grandparent, of its base."""

    def damage(log: TableLog) -> TableLog | None:
        if len(log.commits) < 3:
            return None
        n = rng.randrange(2, len(log.commits))
        parent = log.commits[n - rng.choice([2, min(3, n)])].snapshot_id
        made = replace(log.commits[n], parent_id=parent)
        return replace(log, commits=(*log.commits[:n], made, *log.commits[n + 1 :]))

    return _log(e, rng, damage)


def _inserted(log: TableLog, m: Metadata) -> TableLog:
    """The log with a version more."""
    later = (replace(x, n=x.n + 1) for x in log.metadata[m.n :])
    commits = tuple(replace(c, metadata=c.metadata + (c.metadata >= m.n)) for c in log.commits)
    return replace(log, metadata=(*log.metadata[: m.n], m, *later), commits=commits)


def set_back(e: Evidence, rng: Random) -> Evidence | None:
    """A version with main at an older snapshot, or at none; main comes back if later commits stand on the version before."""

    def damage(log: TableLog) -> TableLog:
        at = rng.choice(log.metadata)
        ids = [None, *(c.snapshot_id for c in log.commits if c.metadata <= at.n)]
        current = rng.choice(ids[-4:])
        refs = {} if current is None else {"main": current}
        return _inserted(log, replace(at, n=at.n + 1, location=at.location + ".back", current=current, refs=refs))

    return _log(e, rng, damage)


def beside(e: Evidence, rng: Random) -> Evidence | None:
    """A version that names an older snapshot in place of its own."""

    def damage(log: TableLog) -> TableLog:
        at = rng.choice(log.metadata)
        ids = [None, *(c.snapshot_id for c in log.commits if c.metadata < at.n)]
        made = replace(at, current=rng.choice(ids[-4:]))
        return replace(log, metadata=(*log.metadata[: at.n], made, *log.metadata[at.n + 1 :]))

    return _log(e, rng, damage)


def two_in_one(e: Evidence, rng: Random) -> Evidence | None:
    """A version that the log lacks: the next one shows its snapshot, too."""

    def damage(log: TableLog) -> TableLog | None:
        if len(log.metadata) < 4:
            return None
        n = rng.randrange(1, len(log.metadata) - 1)
        metadata = tuple(replace(m, n=m.n - (m.n > n)) for m in log.metadata if m.n != n)
        commits = tuple(replace(c, metadata=c.metadata - (c.metadata > n)) for c in log.commits)
        return replace(log, metadata=metadata, commits=commits)

    return _log(e, rng, damage)


def old_answer(e: Evidence, rng: Random) -> Evidence | None:
    """A capture that names some other version."""

    def damage(log: TableLog) -> TableLog | None:
        if not log.captures:
            return None
        n = rng.randrange(len(log.captures))
        made = replace(log.captures[n], metadata=rng.choice(log.metadata).location)
        return replace(log, captures=(*log.captures[:n], made, *log.captures[n + 1 :]))

    return _log(e, rng, damage)


def no_table(e: Evidence, rng: Random) -> Evidence | None:
    """A capture that finds no table, or a version of which nothing is known."""

    def damage(log: TableLog) -> TableLog:
        at = rng.randrange(1 + max((x.time for x in e.history.events), default=0))
        new = Capture(at, rng.choice([None, "s3://nowhere/1.metadata.json"]))
        return replace(log, captures=tuple(sorted((*log.captures, new), key=lambda c: c.time)))

    return _log(e, rng, damage)


def few_captures(e: Evidence, rng: Random) -> Evidence | None:
    """Captures that the log lacks, the last one perhaps."""
    return _log(e, rng, lambda log: replace(log, captures=tuple(c for c in log.captures if rng.random() < 0.3)))


def stopped(e: Evidence, rng: Random) -> Evidence | None:
    """A run that was stopped before its end."""
    return replace(e, complete=False)


DAMAGES: dict[str, Damage] = {
    f.__name__: f
    for f in (
        outcome_unknown,
        false_failure,
        false_acknowledgement,
        late_completion,
        read_of_another,
        read_lacks_a_row,
        no_name,
        another_name,
        row_lost,
        rows_twice,
        rows_unknown,
        lost_base,
        set_back,
        beside,
        two_in_one,
        old_answer,
        no_table,
        few_captures,
        stopped,
    )
}
