"""Bugs that the ``liveness`` checker must find: operations that neither commit nor abort, and a table without progress.

The bounds are the checker's own; to fit a run of two minutes, its operations may take five seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from checkers.evidence.history import Event, Operation
from checkers.evidence.replace import replace
from checkers.liveness import TIMEOUT, Liveness, S
from checkers.selftest.mutation import Mutation, mutation
from checkers.selftest.world import Planted, World, alone, fresh, renumbered
from workloads.operations.kinds import KINDS

OP_TIMEOUT = 5.0
"""Seconds."""

ROOM = int((OP_TIMEOUT + Liveness().slack + 1) * S)
"""Minimum length of the run after an operation's invocation, ns."""


def _early(w: World) -> list[Operation]:
    """Operations without a commit that began early enough, while others completed; in random order."""
    end = w.events[-1].time
    ops = list(w.operations.values())
    applied = {c.op for t in w.tables for c in t.main}
    found = []
    for o in ops:
        others = [
            x for x in ops if x.type == "ok" and x.start > o.start and x.end is not None and x.end < o.start + ROOM - S
        ]
        if o.op not in applied and o.start + ROOM < end and len(others) >= 5 and o.f in KINDS:
            found.append(o)
    w.rng.shuffle(found)
    return found


def _judged(w: World, o: Operation, events: Sequence[Event]) -> Planted:
    """The run with these events, whose operations may take :data:`OP_TIMEOUT`."""
    bug = w.planted(o.op, events=events)
    history = bug.evidence.history
    history = replace(history, header={**history.header, "op_timeout": OP_TIMEOUT})
    return replace(bug, evidence=replace(bug.evidence, history=history))


@mutation(
    "operation-never-ends",
    "liveness",
    "stuck-operation",
    seen="no socket timeout in Iceberg's REST client: a held POST hangs for ever",
)
def never_ends(w: World) -> Planted | None:
    """An operation is invoked and never answered, while others complete."""
    for o in _early(w):
        new = fresh(w.events)
        kept = [e for e in w.events if e.op != o.op or e.type == "invoke"]
        later = [replace(e, process=new) if e.process == o.process and e.index > o.invoked.index else e for e in kept]
        return _judged(w, o, later)
    return None


@mutation(
    "writer-gives-up",
    "liveness",
    "stuck-operation",
    seen="https://github.com/apache/iceberg/issues/2301: a killed client leaves the metastore's lock",
)
def gives_up(w: World) -> Planted | None:
    """The harness gives up on an operation after its full time limit, while others complete."""
    for o in _early(w):
        limit = o.start + int(OP_TIMEOUT * S) + S
        events = [e for e in alone(w.events, o.op) if e.op != o.op or e.type == "invoke"]
        at = next(n for n, e in enumerate(events) if e.time > limit)
        info = replace(events[at], type="info", process=fresh(w.events), f=o.f, table=o.table, value=None, op=o.op)
        info = replace(info, time=limit, error=[[TIMEOUT, "no answer"]])
        late = [
            x
            for x in w.operations.values()
            if x.type == "ok" and x.start > o.start and x.end is not None and x.end < limit
        ]
        if len(late) >= 5:
            return _judged(w, o, [*events[:at], info, *events[at:]])
    return None


@mutation(
    "operation-overdue",
    "liveness",
    "overdue-operation",
    seen="https://github.com/apache/iceberg/issues/2301: waiting for a lock until it expires",
)
def overdue(w: World) -> Planted | None:
    """An operation is answered long after its time limit, while others complete."""
    for o in _early(w):
        if o.completed is None or o.type == "info":
            continue
        events = alone(w.events, o.op)
        done = next(e for e in events if e.op == o.op and e.type != "invoke")
        rest = [e for e in events if e is not done]
        at = next(n for n, e in enumerate(rest) if e.time > o.start + ROOM)
        return _judged(w, o, [*rest[:at], replace(done, time=rest[at].time), *rest[at:]])
    return None


@mutation(
    "no-progress",
    "liveness",
    "no-progress",
    seen="https://github.com/apache/iceberg/issues/2301; writers that retry in lockstep",
)
def no_progress(w: World) -> Planted | None:
    """Nothing is acknowledged for longer than the bound, though operations are under way."""
    gap = int((Liveness().progress + 100) * S)
    busy = [n for n in range(1, len(w.events)) if _under_way(w, n)]
    at = w.choose(busy)
    if at is None:
        return None
    since = w.events[at].time
    events = renumbered([replace(e, time=e.time + gap) if e.index >= at else e for e in w.events])
    bug = w.planted(events=events, nobody="nothing came to an end, whoever was under way")
    logs = {
        name: replace(
            log, captures=tuple(replace(c, time=c.time + gap) if c.time >= since else c for c in log.captures)
        )
        for name, log in bug.evidence.logs.items()
    }
    return replace(bug, evidence=replace(bug.evidence, logs=logs))


def _under_way(w: World, n: int) -> bool:
    return any(
        o.invoked.index < n and o.completed is not None and o.completed.index >= n for o in w.operations.values()
    )


MUTATIONS: tuple[Mutation, ...] = (never_ends, gives_up, overdue, no_progress)
"""In the order of the file."""
