"""Bugs that the ``liveness`` checker must find: operations that neither commit nor abort, and a table without progress.

The bounds are the checker's own; to fit a run of two minutes, its operations may take five seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checkers.evidence.history import NS_PER_S, Event, Operation
from checkers.evidence.replace import replace
from checkers.liveness import TIMEOUT, Liveness
from checkers.selftest import edits
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.world import Planted, World
from workloads.operations.kinds import KINDS

OP_TIMEOUT = 5.0
"""Seconds."""
ROOM = int((OP_TIMEOUT + Liveness().slack + 1) * NS_PER_S)
"""Minimum length of the run after an operation's invocation, ns."""
LOCKED = "apache/iceberg#2301: a killed client leaves the metastore's lock"


@dataclass(frozen=True)
class EarlySite:
    """An operation without a commit that began early enough."""

    w: World
    o: Operation

    def others_end(self, before: int) -> bool:
        """Whether enough other operations begin after it and end before a time, ns."""
        ops = (x for x in self.w.operations.values() if x.type == "ok" and x.start > self.o.start)
        return sum(x.end is not None and x.end < before for x in ops) >= 5

    def judged(self, events: Sequence[Event]) -> Planted:
        """The run with these events, whose operations may take :data:`OP_TIMEOUT`."""
        bug = self.w.planted(self.o.op, events=events)
        history = bug.evidence.history
        history = replace(history, header={**history.header, "op_timeout": OP_TIMEOUT})
        return replace(bug, evidence=replace(bug.evidence, history=history))


def early(w: World) -> Iterator[EarlySite]:
    """Operations without a commit that began early enough, while others completed; in random order."""
    applied = {c.op for t in w.tables for c in t.main}
    ops = (o for o in w.operations.values() if o.op not in applied and o.f in KINDS)
    sites = [EarlySite(w, o) for o in ops if o.start + ROOM < w.events[-1].time]
    yield from w.shuffled(s for s in sites if s.others_end(s.o.start + ROOM - NS_PER_S))


def never_ends(s: EarlySite) -> Planted:
    """An operation is invoked and never answered, while others complete."""
    o, new = s.o, edits.fresh(s.w.events)
    kept = [e for e in s.w.events if e.op != o.op or e.type == "invoke"]
    after = o.invoked.index
    return s.judged([replace(e, process=new) if e.process == o.process and e.index > after else e for e in kept])


def gives_up(s: EarlySite) -> Planted | None:
    """The harness gives up on an operation after its full time limit, while others complete."""
    o, limit = s.o, s.o.start + int(OP_TIMEOUT * NS_PER_S) + NS_PER_S
    if not s.others_end(limit):
        return None
    events = [e for e in edits.alone(s.w.events, o.op) if e.op != o.op or e.type == "invoke"]
    index = next(n for n, e in enumerate(events) if e.time > limit)
    info = replace(
        events[index], type="info", process=edits.fresh(s.w.events), f=o.f, table=o.table, value=None, op=o.op
    )
    return s.judged([*events[:index], replace(info, time=limit, error=[[TIMEOUT, "no answer"]]), *events[index:]])


def overdue(s: EarlySite) -> Planted | None:
    """An operation is answered long after its time limit, while others complete."""
    if s.o.completed is None or s.o.type == "info":
        return None
    events = edits.alone(s.w.events, s.o.op)
    done = next(e for e in events if e.op == s.o.op and e.type != "invoke")
    rest = [e for e in events if e is not done]
    index = next(n for n, e in enumerate(rest) if e.time > s.o.start + ROOM)
    return s.judged([*rest[:index], replace(done, time=rest[index].time), *rest[index:]])


def no_progress(w: World) -> Planted | None:
    """Nothing is acknowledged for longer than the bound, though operations are under way."""
    gap = int((Liveness().progress + 100) * NS_PER_S)
    ended = [(o.invoked.index, o.completed.index) for o in w.operations.values() if o.completed is not None]
    index = w.choose(n for n in range(1, len(w.events)) if any(a < n <= b for a, b in ended))
    if index is None:
        return None
    since = w.events[index].time
    events = [replace(e, time=e.time + gap) if e.index >= index else e for e in w.events]
    bug = w.planted(events=events, nobody="nothing came to an end, whoever was under way")
    logs = {}
    for name, log in bug.evidence.logs.items():
        captures = (replace(c, time=c.time + gap) if c.time >= since else c for c in log.captures)
        logs[name] = replace(log, captures=tuple(captures))
    return replace(bug, evidence=replace(bug.evidence, logs=logs))


ENDLESS_PLANTS: Plants = {
    "operation-never-ends": Plant(
        never_ends, seen="no socket timeout in Iceberg's REST client: a held POST hangs for ever"
    ),
    "writer-gives-up": Plant(gives_up, seen=LOCKED),
    "operation-overdue": Plant(
        overdue, "overdue-operation", seen="apache/iceberg#2301: waiting for a lock until it expires"
    ),
    "no-progress": Plant(
        no_progress, "no-progress", where=whole, seen="apache/iceberg#2301; writers that retry in lockstep"
    ),
}

PLANTS = table(ENDLESS_PLANTS, "liveness", names="stuck-operation", where=early, neutral=True)
