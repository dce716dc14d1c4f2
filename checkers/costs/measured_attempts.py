"""How a run's attempts are measured: where they lie in time, what was wasted, who made whom retry.

**Who made whom retry.** The operation whose snapshot was current when an attempt was refused: the last one on main whose commit was
answered before the refusal was; if none was answered since the attempt began, the next one, if it was already under way. The commit
requests in the proxies' log give the times; without one for each attempt, an operation's attempts are laid end to end before its
completion, so that times are off by what happened between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from checkers.costs.attempts import (
    ATTEMPT_COUNTS,
    BY_NOBODY,
    SORTS,
    TIMES,
    Attempt,
    Beaten,
    CommitsMeasured,
    Quantiles,
    Wasted,
    attempts_of,
)
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.outcome import conflict_of
from checkers.evidence.tablelog import Commit
from checkers.retries import RetriesStats

MS, S = 1e6, 1e9


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """A request for a commit that a proxy passed on: when it came and when its answer did, ns since the start of the run."""

    time: int
    end: int


def measure(
    evidence: Evidence,
    operations: Sequence[Operation],
    writes: Sequence[Operation],
    asked: Mapping[str, Sequence[TimedRequest]],
    retries: RetriesStats | None,
) -> CommitsMeasured | None:
    """What the commits of a run cost in attempts; None if nobody tried to write.

    Args:
        operations: of the workload's phases.
        writes: those of them that can commit.
        asked: operation → its commit requests in the proxies' log, by time.
        retries: what the checker of that name says of operations that record no attempts; None if it did not judge the run.

    Raises:
        HistoryError: an operation's attempts are not readable.
    """
    if not writes:
        return None
    run = _Run(evidence, tuple(operations), tuple(writes), asked)
    beaten, between, unexplained = run.beaten()
    if not run.attempts and retries is not None:
        beaten = _guessed(retries)
        unexplained = retries["conflicts"]["unexplained"]
    occupied, window = run.occupied()
    return CommitsMeasured(
        detailed=bool(run.attempts),
        retries=run.retries(),
        met=run.met(),
        aborted=len(run.aborted),
        writers=run.by_writer(),
        busy=round(run.busy(), 6),
        time=run.time(),
        occupied=occupied,
        window_ms=window,
        swaps=run.swaps(),
        taken=run.taken(),
        wasted=run.wasted(),
        beaten=beaten,
        beaten_writers=between,
        unexplained=unexplained,
    )


def _guessed(retries: RetriesStats) -> tuple[Beaten, ...]:
    """Aborted operations by the checker's best guess."""
    found: Counter[tuple[str, str]] = Counter()
    for p in retries["conflicts"]["pairs"]:
        found[p["aborted"], p["by"]] += p["count"]
    return tuple(Beaten(kind, winner, 0, n) for (kind, winner), n in found.most_common())


def writer_of(o: Operation) -> str:
    """The writer of an operation: ``w3`` of ``w3-17``; its process if its id has another form."""
    name, dash, number = o.op.rpartition("-")
    return name if dash and number.isdigit() and name[:1] == "w" and name[1:].isdigit() else str(o.process)


@dataclass(frozen=True, slots=True)
class _Placed:
    """An attempt in time: its begin (refresh; the invocation for the first one), its request to the catalog, and the answer; ns."""

    begin: int
    ask: int
    end: int


@dataclass(frozen=True)
class _Run:
    """One run's operations with their attempts."""

    evidence: Evidence
    operations: tuple[Operation, ...]
    writes: tuple[Operation, ...]
    asked: Mapping[str, Sequence[TimedRequest]]

    @cached_property
    def attempts(self) -> dict[str, tuple[Attempt, ...]]:
        """Operation → its attempts, of those that recorded any."""
        return {o.op: found for o in self.writes if (found := attempts_of(o))}

    @cached_property
    def mains(self) -> dict[str, list[Commit]]:
        """Table → commits on main, oldest first."""
        return {name: log.main() for name, log in self.evidence.logs.items()}

    @cached_property
    def committed(self) -> list[tuple[Operation, Commit]]:
        """Acknowledged writes and the snapshot that each left on main, the last one if there are several."""
        commits = {c.op: c for main in self.mains.values() for c in main if c.op is not None}
        return [(o, commits[o.op]) for o in self.writes if o.type == "ok" and o.op in commits]

    @cached_property
    def aborted(self) -> list[Operation]:
        """Writes that a conflict aborted."""
        return [o for o in self.writes if o.type == "fail" and (conflict_of(o) is not None or self._refused(o))]

    def _refused(self, o: Operation) -> bool:
        found = self.attempts.get(o.op)
        return bool(found) and found is not None and found[-1].outcome in ("refused", "invalid")

    @cached_property
    def seconds(self) -> float:
        """From the first invocation to the last completion."""
        return (max(map(_end, self.operations)) - min(o.start for o in self.operations)) / S

    def retries(self) -> dict[int, int]:
        """Retries → commits."""
        found: Counter[int] = Counter()
        for o, c in self.committed:
            attempts = self.attempts.get(o.op)
            if attempts is not None:
                found[len(attempts) - 1] += 1
            elif c.attempt:
                found[c.attempt - 1] += 1
        return dict(sorted(found.items()))

    def met(self) -> int:
        """Commits that met a conflict before."""
        return sum(
            any(a.in_vain for a in self.attempts[o.op]) if o.op in self.attempts else (c.attempt or 1) > 1
            for o, c in self.committed
        )

    def by_writer(self) -> dict[str, int]:
        """Writer → commits."""
        done = Counter(writer_of(o) for o, _ in self.committed)
        return {w: done[w] for w in sorted({writer_of(o) for o in self.writes}, key=_natural)}

    def busy(self) -> float:
        """Share of the writers' time in operations."""
        of_writer: dict[str, list[Operation]] = {}
        for o in self.operations:
            of_writer.setdefault(writer_of(o), []).append(o)
        present = sum(max(map(_end, found)) - min(o.start for o in found) for found in of_writer.values())
        return min(1.0, sum(_end(o) - o.start for o in self.operations) / present) if present else 0.0

    def time(self) -> dict[str, float]:
        """Seconds of writes with attempts, by phase."""
        found = dict.fromkeys(TIMES, 0.0)
        whole = 0.0
        for o in self.writes:
            for a in self.attempts.get(o.op, ()):
                for name in TIMES:
                    found[name] += a.phase(name) / 1000
            if o.op in self.attempts:
                whole += (_end(o) - o.start) / S
        if not self.attempts:
            return {}
        found["other"] = max(0.0, whole - sum(found.values()))
        return {k: round(v, 4) for k, v in found.items()}

    def swaps(self) -> float | None:
        """Mean number of requests for a commit under way."""
        if not self.attempts or not self.seconds:
            return None
        return round(sum(a.swap_ms for found in self.attempts.values() for a in found) / 1000 / self.seconds, 4)

    def occupied(self) -> tuple[float | None, float | None]:
        """Share of the time that winning attempts cover after their refresh, of the busiest table; and the median of that, ms."""
        of_table: dict[str, list[float]] = {}
        for o, _ in self.committed:
            attempts = self.attempts.get(o.op, ())
            won = [a.work_ms - a.refresh_ms for a in attempts if a.outcome == "committed"]
            of_table.setdefault(o.table or "", []).extend(won[-1:])
        every = [v for found in of_table.values() for v in found]
        if not every or not self.seconds:
            return None, None
        covered = max(sum(found) for found in of_table.values()) / 1000 / self.seconds
        return round(covered, 6), round(median(every), 3)

    def taken(self) -> dict[str, dict[str, Quantiles]]:
        """Distributions of attempts that reached the catalog, by sort."""
        of_sort: dict[str, list[Attempt]] = {}
        for found in self.attempts.values():
            for n, a in enumerate(found):
                if a.outcome in ("committed", "refused", "unknown"):
                    which = "retry" if n else "first"
                    of_sort.setdefault(which, []).append(a)
                    of_sort.setdefault(f"{which} {a.parent}", []).append(a)
        return {sort: _distributions(sort, of_sort[sort]) for sort in SORTS if sort in of_sort}

    def wasted(self) -> Wasted:
        """The price of conflicts."""
        aborted = {o.op for o in self.aborted}
        aborted_s = sum(_end(o) - o.start for o in self.aborted) / S
        if not self.attempts:
            tries = sum(k * n for k, n in self.retries().items())
            return Wasted(attempts=tries, aborted=len(aborted), aborted_s=round(aborted_s, 4))
        vain = [a for found in self.attempts.values() for a in found if a.in_vain]
        waited = sum(a.wait_ms for found in self.attempts.values() for a in found)
        return Wasted(
            len(vain),
            round(sum(a.work_ms for a in vain) / 1000, 4),
            round(waited / 1000, 4),
            len(aborted),
            round(aborted_s, 4),
            sum(a.written_bytes for a in vain),
            sum(a.read_bytes for a in vain),
        )

    # --- who made whom retry

    def _placed(self, o: Operation) -> list[_Placed]:
        """The operation's attempts in time."""
        attempts = self.attempts[o.op]
        out: list[_Placed] = []
        end = _end(o)
        for a in reversed(attempts):
            begin = end - int(a.work_ms * MS)
            out.append(_Placed(begin, end - int(a.swap_ms * MS), end))
            end = begin - int(a.wait_ms * MS)
        out.reverse()
        reached = [n for n, a in enumerate(attempts) if a.outcome != "invalid"]
        seen = self.asked.get(o.op, ())
        if len(seen) == len(reached):
            for n, s in zip(reached, seen, strict=True):
                before = out[n].ask - out[n].begin
                out[n] = _Placed(s.time - before, s.time, s.end)
        if out:
            out[0] = _Placed(o.start, out[0].ask, out[0].end)
        return out

    def beaten(self) -> tuple[tuple[Beaten, ...], dict[str, dict[str, int]], int]:
        """Who made whom retry or abort by kinds and by writers, and refused attempts without a cause in the log."""
        known = {o.op: o for o in self.evidence.history.operations()}
        placed = {o.op: self._placed(o) for o in self.writes if o.op in self.attempts}
        lines = {name: _Swaps.of(main, known, placed, self.asked) for name, main in self.mains.items()}
        attempts: Counter[tuple[str, str]] = Counter()
        aborted: Counter[tuple[str, str]] = Counter()
        between: dict[str, Counter[str]] = {}
        unexplained = 0
        lost = {o.op for o in self.aborted}
        for o in self.writes:
            own = self.attempts.get(o.op, ())
            line = lines.get(o.table or "")
            for n, a in enumerate(own):
                if a.outcome not in ("refused", "invalid"):
                    continue
                winner = None if line is None else line.current(placed[o.op][n], o.op)
                if winner is None:
                    unexplained += 1
                    continue
                maker = known.get(winner.op or "")
                pair = (o.f, BY_NOBODY if maker is None else maker.f)
                attempts[pair] += 1
                aborted[pair] += o.op in lost and n == len(own) - 1
                between.setdefault(writer_of(o), Counter())[BY_NOBODY if maker is None else writer_of(maker)] += 1
        pairs = tuple(Beaten(kind, winner, n, aborted[kind, winner]) for (kind, winner), n in attempts.most_common())
        return pairs, {k: dict(v.most_common()) for k, v in sorted(between.items())}, unexplained


def _end(o: Operation) -> int:
    return o.start if o.completed is None else o.completed.time


def _natural(writer: str) -> tuple[int, str]:
    digits = writer.lstrip("w")
    return (int(digits) if digits.isdigit() else -1, writer)


def _distributions(sort: str, found: Sequence[Attempt]) -> dict[str, Quantiles]:
    times = [
        t for t in TIMES if (t != "data" or sort.startswith("first")) and (t != "wait" or sort.startswith("retry"))
    ]
    values: dict[str, list[float]] = {t: [a.phase(t) for a in found] for t in times}
    values["whole"] = [a.work_ms for a in found]
    values |= {k: [float(getattr(a, k)) for a in found] for k in ATTEMPT_COUNTS}
    return {k: q for k, v in values.items() if (q := Quantiles.of(v)) is not None}


@dataclass(frozen=True)
class _Swaps:
    """One table's commits on main with the time in which each became current.

    ``begun``: when its request was sent at the earliest; ``done``: by when it was current. Both ascend, as main's order is certain.
    """

    commits: tuple[Commit, ...]
    begun: tuple[int, ...]
    done: tuple[int, ...]

    @staticmethod
    def of(
        main: Sequence[Commit],
        known: Mapping[str, Operation],
        placed: Mapping[str, Sequence[_Placed]],
        asked: Mapping[str, Sequence[TimedRequest]],
    ) -> _Swaps:
        """Commits of operations that are not known have the times of their neighbours."""
        begun: list[int] = []
        done: list[int] = []
        for c in main:
            op = c.op or ""
            if own := placed.get(op):
                begun.append(own[-1].ask)
                done.append(own[-1].end)
            elif seen := asked.get(op):
                begun.append(seen[-1].time)
                done.append(seen[-1].end)
            elif (o := known.get(op)) is not None:
                begun.append(o.start)
                done.append(_end(o))
            else:
                begun.append(begun[-1] if begun else 0)
                done.append(1 << 62)
        for n in range(1, len(begun)):
            begun[n] = max(begun[n], begun[n - 1])
        for n in range(len(done) - 2, -1, -1):
            done[n] = min(done[n], done[n + 1])
        return _Swaps(tuple(main), tuple(begun), tuple(done))

    def current(self, attempt: _Placed, op: str) -> Commit | None:
        """The snapshot that refused an attempt; see the module's text. None if no commit can have."""
        k = bisect_right(self.done, attempt.end) - 1
        if k >= 0 and self.done[k] > attempt.begin and self.commits[k].op != op:
            return self.commits[k]
        k += 1
        if k < len(self.commits) and self.begun[k] <= attempt.end and self.commits[k].op != op:
            return self.commits[k]
        return None
