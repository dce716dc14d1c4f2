"""The ``liveness`` checker: does every operation commit or abort in time once faults are over, and is there progress at all?

Safety means that nothing bad ever happens; a table that refuses everything is safe. Liveness is the other half: *operations
eventually commit or abort* (Vanlightly's model states it as ``eventually always``). In a finite history "eventually" needs a bound, and a
bound makes false alarms on slow machines. So a violation is only what a slow machine does not explain:

**An operation.** Its deadline is ``op_timeout + slack`` after its invocation, and again that long after the end of every fault that was
active before the deadline (``checkers.timeline.fault_windows`` says when faults were on)::

    invoke                     fault             heal                    deadline
      │─────────────────────────████████████████████│──── op_timeout + slack ────│

It is *stuck* if it never got an answer (no completion, or the harness gave up waiting after ``op_timeout``:
``icequake.WriterTimeout``) and the table log shows no commit either; *overdue* if the answer came after the deadline. Both
only if others succeeded meanwhile: at least ``witnesses`` operations were invoked after it and acknowledged before its deadline. On a
machine that is merely slow they are slow too.

**The whole.** Between two acknowledgements (any operation, any table) that have no fault between them and at all times some operation
under way, less than ``progress`` seconds pass. Aborts are not progress: writers that abort each other forever are in a livelock.

If witnesses are missing, the run was cut short, or a fault was never healed, the verdict is ``unknown``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypedDict

import numpy as np

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import NS_PER_S, Operation
from checkers.evidence.outcome import STOPPED
from checkers.timeline import explain, fault_windows
from checkers.timeline.operation_columns import OperationColumns
from checkers.timeline.timelines import fates, timelines
from checkers.unit import RunChecker, RunColumns, Unit
from checkers.verdict import Anomaly, Validity, Verdict

TIMEOUT = "icequake.WriterTimeout"
"""The class by which the harness records that it gave up waiting (``harness.run.run``)."""


class LivenessStats(TypedDict):
    """The bounds (see :class:`Liveness`) and what the run showed; times in seconds."""

    op_timeout: float
    slack: float
    progress: float
    slowest: float
    """The longest that an operation took from its invocation to its completion."""
    longest_without_progress: float
    """The longest time without an acknowledgement, outside faults and while something was under way."""
    unanswered: int
    """Operations that never got an answer, or that the harness gave up."""
    faults: int
    """Times in which a fault was on."""


@dataclass(frozen=True)
class LivenessPart:
    """A table's operations that never got an answer: their number, and those whose commit is not on main."""

    unanswered: int
    open: tuple[Operation, ...]


@dataclass(frozen=True)
class Liveness(RunChecker):
    """Operations that neither commit nor abort, and periods without progress.

    Attributes:
        op_timeout: seconds that an operation may take without faults; the history's header overrides it (``op_timeout``).
        slack: additional seconds.
        progress: seconds without an acknowledgement, while operations are under way and no fault is on.
        witnesses: number of operations that must have succeeded meanwhile before one is called stuck or overdue.
    """

    op_timeout: float = 120.0
    slack: float = 60.0
    progress: float = 600.0
    witnesses: int = 3
    name = "liveness"
    stats_type = LivenessStats
    names = frozenset({"stuck-operation", "overdue-operation", "no-progress"})

    def check(self, evidence: Evidence) -> Verdict:
        """Anomalies ``stuck-operation``, ``overdue-operation``, ``no-progress``.

        ``stats``: :class:`LivenessStats`.
        """
        operations = evidence.history.operations()
        events = evidence.history.events
        end = max((e.time for e in events), default=0)
        timeout = self._timeout(evidence.history.header)
        judge = _RunProgress(
            operations, fault_windows.windows(events), int(timeout * NS_PER_S), int(self.slack * NS_PER_S), end
        )
        verdict = _Collected()
        for w in judge.windows:
            if not w.healed:
                verdict.doubt(
                    f"{w.name}, on since {explain.s(w.start)}, was never healed: what came after it cannot be judged"
                )
        for late in judge.late(verdict, evidence):
            others = judge.witnesses(late)
            if not evidence.complete:
                verdict.doubt(f"the {explain.operation(late.op)} took too long, but the run was cut short")
            elif len(others) < self.witnesses:
                verdict.doubt(
                    f"the {explain.operation(late.op)} took too long, but only {len(others)} others went through meanwhile: "
                    "the whole machine may have been slow"
                )
            else:
                verdict.anomalies.append(self._late(late, timeout, others))
        longest = 0
        for stall in judge.stalls():
            longest = max(longest, stall.working)
            if stall.working <= self.progress * NS_PER_S:
                continue
            if stall.end >= end and not evidence.complete:
                verdict.doubt(
                    f"nothing was acknowledged from {explain.s(stall.start)} to the end, where the run was cut short"
                )
            else:
                verdict.anomalies.append(self._stall(stall, judge))
        slowest = max((o.completed.time - o.start for o in operations if o.completed is not None), default=0)
        stats = self._stats(timeout, slowest, longest, sum(map(unanswered, operations)), len(judge.windows))
        valid: Validity = False if verdict.anomalies else "unknown" if verdict.undecided else True
        return Verdict(self.name, valid, tuple(verdict.anomalies), stats, tuple(dict.fromkeys(verdict.notes)))

    def _stats(self, timeout: float, slowest: int, longest: int, unanswered: int, faults: int) -> LivenessStats:
        return {
            "op_timeout": timeout,
            "slack": self.slack,
            "progress": self.progress,
            "slowest": round(slowest / NS_PER_S, 3),
            "longest_without_progress": round(longest / NS_PER_S, 3),
            "unanswered": unanswered,
            "faults": faults,
        }

    def part(self, unit: Unit) -> LivenessPart:
        """The operations of a table that never got an answer."""
        assert unit.timeline is not None
        pending = [o for o in unit.ops if unanswered(o)]
        became = fates([unit.timeline], pending)
        return LivenessPart(len(pending), tuple(o for o in pending if "applied" not in became.get(o.op, {}).values()))

    def whole(self, run: RunColumns, parts: Sequence[LivenessPart]) -> Verdict | None:
        """The verdict of a run without any finding or note; None if there may be one."""
        timeout, columns, windows, end = self._timeout(run.header), run.columns, run.windows, run.end
        bound = int(timeout * NS_PER_S) + int(self.slack * NS_PER_S)
        judge = _RunProgress((), windows, int(timeout * NS_PER_S), int(self.slack * NS_PER_S), end)
        if not len(columns.start) or not all(w.healed for w in windows):
            return None
        for o in (o for p in parts for o in p.open):
            deadline = judge.deadline(o.start)
            if o.completed is None or deadline is None or o.completed.time >= deadline:
                return None
            if judge.waited(o) and not judge.disturbed(o):
                return None
        took = (columns.ended - columns.start)[columns.ended >= 0]
        slow = np.flatnonzero((columns.ended >= 0) & (columns.ended - columns.start > bound))
        for n in slow.tolist():
            deadline = judge.deadline(int(columns.start[n]))
            if deadline is None or columns.ended[n] > deadline:
                return None
        longest = _longest_stall(columns, fault_windows.merged(windows), end)
        if longest > self.progress * NS_PER_S:
            return None
        pending = sum(p.unanswered for p in parts)
        stats = self._stats(timeout, int(took.max(initial=0)), longest, pending, len(windows))
        return Verdict(self.name, True, stats=stats)

    def least_seconds(self, header: Mapping[str, Any]) -> dict[str, float]:
        """Anomaly → seconds that a run must last at least so that it can be found; a shorter run is valid whatever happens in it."""
        timeout = self._timeout(header)
        return {
            "stuck-operation": timeout,
            "overdue-operation": timeout + self.slack,
            "no-progress": self.progress,
        }

    def _timeout(self, header: Mapping[str, Any]) -> float:
        timeout = header.get("op_timeout")
        usable = isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout < 1e7
        return float(timeout) if usable and timeout is not None else self.op_timeout

    def _late(self, late: _Late, timeout: float, others: Sequence[Operation]) -> Anomaly:
        o = late.op
        met = (
            f"{len(others)} operations that were invoked after it were acknowledged in the meantime "
            f"({explain.listing(x.op for x in others)})"
        )
        if late.answered:
            assert o.completed is not None
            text = (
                f"the {explain.operation(o)} was invoked at {explain.s(o.start)} and {explain.outcome(o)}, though it had to end by "
                f"{explain.s(late.deadline)}: {timeout:g} s and {self.slack:g} s of slack after its invocation, or after the last fault "
                f"that can have held it up was healed. {met}, so it is not the machine that was slow."
            )
        else:
            overdue = (
                "there was no answer"
                if o.completed is None
                else f"the harness gave up waiting at {explain.s(o.completed.time)}"
            )
            text = (
                f"the {explain.operation(o)} was invoked at {explain.s(o.start)} and neither committed nor aborted by "
                f"{explain.s(late.deadline)}: {overdue}, and the table log has no snapshot of it. No fault held it up, and {met}."
            )
        return Anomaly(
            "overdue-operation" if late.answered else "stuck-operation",
            self.name,
            o.table,
            text,
            ops=(o.op, *(x.op for x in others[:3])),
            events=(*o.indices, *(i for x in others[:3] for i in x.indices)),
            evidence={"deadline_ms": round(late.deadline / 1e6), "witnesses": len(others)},
        )

    def _stall(self, stall: _Stall, judge: _RunProgress) -> Anomaly:
        ops = [
            o
            for o in judge.operations
            if o.start < stall.end and (o.completed is None or o.completed.time > stall.start)
        ]
        aborted = sum(o.type == "fail" for o in ops)
        return Anomaly(
            "no-progress",
            self.name,
            None,
            f"from {explain.s(stall.start)} to {explain.s(stall.end)} no operation was acknowledged and no fault was on, though for "
            f"{explain.s(stall.working)} of that at least one was under way ({explain.listing(o.op for o in ops)}; {aborted} of "
            f"{len(ops)} failed). That is longer than {self.progress:g} s: the writers are stuck, or keep aborting each other.",
            ops=tuple(o.op for o in ops[:20]),
            events=tuple(i for o in ops[:20] for i in o.indices),
            evidence={"working_ms": round(stall.working / 1e6), "operations": len(ops), "aborted": aborted},
        )


@dataclass
class _Collected:
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    undecided: bool = False

    def doubt(self, note: str) -> None:
        self.undecided = True
        self.notes.append(note)


@dataclass(frozen=True, slots=True)
class _Late:
    """An operation that took too long: its deadline (ns), and whether an answer came later."""

    op: Operation
    deadline: int
    answered: bool


@dataclass(frozen=True, slots=True)
class _Stall:
    """A stretch without acknowledgements and without faults, and how long (ns) something was under way in it."""

    start: int
    end: int
    working: int


def _gave_up(o: Operation) -> bool:
    return o.type == "info" and any(c == TIMEOUT for c, *_ in o.error or ())


def unanswered(o: Operation) -> bool:
    """Whether an operation never got an answer, or the harness gave it up."""
    return o.completed is None or _gave_up(o)


@dataclass(frozen=True)
class _RunProgress:
    operations: Sequence[Operation]
    windows: Sequence[fault_windows.FaultWindow]
    timeout: int
    slack: int
    end: int

    def deadline(self, start: int) -> int | None:
        """The deadline of an operation that was invoked then, ns; None if a fault that was never healed delays it."""
        bound = self.timeout + self.slack
        due = start + bound
        for w in self.windows:  # sorted by start: a later fault moves the deadline only if it begins before it
            if w.end >= start and w.start <= due:
                if not w.healed:
                    return None
                due = max(due, w.end + bound)
        return due

    def late(self, collected: _Collected, evidence: Evidence) -> Iterator[_Late]:
        """Operations that missed their deadline."""
        pending = [o for o in self.operations if unanswered(o)]
        became = fates(timelines(evidence)[0], pending) if pending else {}
        for o in self.operations:
            deadline = self.deadline(o.start)
            if unanswered(o):
                if deadline is None or "applied" in became.get(o.op, {}).values():
                    continue
                if o.completed is None and deadline >= self.end:
                    collected.notes.append(
                        f"the {explain.operation(o)} was still under way when the history ended, before its time was up"
                    )
                    collected.undecided |= not evidence.complete
                elif o.completed is None:
                    yield _Late(o, deadline, False)
                elif o.completed.time >= deadline or (self.waited(o) and not self.disturbed(o)):
                    yield _Late(o, min(deadline, o.completed.time), False)
            elif (
                deadline is not None and o.completed is not None and o.completed.time > deadline and not _driver_died(o)
            ):
                yield _Late(o, deadline, True)

    def waited(self, o: Operation) -> bool:
        """Whether the harness waited the full timeout before it gave up."""
        return o.completed is not None and o.completed.time - o.start >= self.timeout

    def disturbed(self, o: Operation) -> bool:
        """Whether a fault was on at some time between invocation and completion."""
        return o.completed is not None and any(w.overlaps(o.start, o.completed.time) for w in self.windows)

    def witnesses(self, late: _Late) -> list[Operation]:
        """Operations that were invoked after it and acknowledged before its deadline."""
        return [
            o
            for o in self.operations
            if o.type == "ok" and o.start > late.op.start and o.end is not None and o.end <= late.deadline
        ]

    def stalls(self) -> Iterator[_Stall]:
        """Every stretch between two acknowledgements or faults, with the time in it during which something was under way."""
        if not self.operations:
            return
        faulty = fault_windows.merged(self.windows)
        busy: list[tuple[int, int]] = []
        for start, stop in sorted(
            (o.start, self.end if o.completed is None else o.completed.time) for o in self.operations
        ):
            if busy and start <= busy[-1][1]:
                busy[-1] = (busy[-1][0], max(busy[-1][1], stop))
            else:
                busy.append((start, stop))
        working = [part for a, b in busy for part in fault_windows.outside(a, b, faulty)]
        marks = {o.end for o in self.operations if o.type == "ok" and o.end is not None}
        marks |= {t for w in faulty for t in w} | {self.operations[0].start, self.end}
        points = sorted(marks)
        began = 0
        for start, stop in pairwise(points):
            while began < len(working) and working[began][1] <= start:
                began += 1
            total, k = 0, began
            while k < len(working) and working[k][0] < stop:
                total += min(stop, working[k][1]) - max(start, working[k][0])
                k += 1
            yield _Stall(start, stop, total)


def _longest_stall(columns: OperationColumns, faulty: Sequence[tuple[int, int]], end: int) -> int:
    """As the longest of :meth:`_RunProgress.stalls`, ns."""
    order = np.argsort(columns.start, kind="stable")
    starts = columns.start[order]
    stops = np.maximum.accumulate(np.where(columns.ended < 0, end, columns.ended)[order])
    first = np.flatnonzero(np.concatenate([[True], starts[1:] > stops[:-1]]))
    busy = zip(starts[first].tolist(), stops[np.append(first[1:], len(stops)) - 1].tolist(), strict=True)
    working = np.array([part for a, b in busy for part in fault_windows.outside(a, b, faulty)], np.int64).reshape(-1, 2)
    before = np.concatenate([[0], np.cumsum(working[:, 1] - working[:, 0])])
    marks = [columns.ended[columns.ok], np.array([t for w in faulty for t in w], np.int64)]
    first_invoked = columns.start[np.argmin(columns.invoked)]
    points = np.unique(np.concatenate([*marks, [first_invoked, end]]))
    index = np.searchsorted(working[:, 0], points, "right")  # parts that began by then
    last = working[np.maximum(index - 1, 0)] if len(working) else np.zeros((len(points), 2), np.int64)
    over = np.where(index > 0, np.maximum(0, last[:, 1] - points), 0)  # what of the last part is still to come
    return int(np.diff(before[index] - over).max(initial=0))


def _driver_died(o: Operation) -> bool:
    """Whether the death of its driver ended it, or the end of the run; that is neither an answer nor a missed deadline."""
    return any(c in ("icequake.WriterDied", STOPPED) for c, *_ in o.error or ())
