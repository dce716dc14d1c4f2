"""The times that a table's metadata says: ``last-updated-ms``, a snapshot's ``timestamp-ms``, and those of the entries of both logs.

The clocks of writers and catalogs differ, and on REST one stamps the snapshot and another the version. So times of two makers are
compared only as ``TableMetadata`` does: it refuses a file whose logs are not sorted by time, or whose ``last-updated-ms`` is before the last
entry of a log, by more than a minute each. But most of these times are copies of another one, and a copy needs no clock:

* an entry that the predecessor has says the same time;
* the entry of the predecessor in ``metadata-log`` has the predecessor's ``last-updated-ms`` (``TableMetadata.addPreviousFile``);
* the entry of a snapshot that the version adds has the snapshot's time (``TableMetadata.Builder.setRef``; PyIceberg likewise), also
  where a server writes the entry: the snapshot comes with the request. The specification demands ``last-updated-ms`` there, which older
  releases set to the snapshot's time.


An engine most of whose entries are no such copies stamps them itself, and is not judged by the last two. What is no copy is stamped while
an operation is under way: a version and the snapshot that it adds are apart by no more than that, and than the clocks are
(:meth:`Times.of_snapshots`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from checkers.evidence.history import Operation
from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.logs import entries_of, place_in, snapshot_in
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline.version_order import place

ONE_MINUTE = 60_000
"""What clocks may differ by, in ms (``TableMetadata.ONE_MINUTE``)."""
A_DAY = 24 * 60 * ONE_MINUTE
"""Clocks of a run are set by less while it lasts. A host whose clock differs by minutes may have made one version only."""
FEWEST_VERSIONS = 8
"""Versions that show how far the clocks of writers and catalogs are apart."""


class Times(Judging):
    """The times of one table. What was wrong once is told once: whoever copies it, or the right time again, does what is due."""

    def step(self, step: Step) -> None:
        """Judge one version."""
        before = None if step.gap else step.before
        if before is not None:
            self._of_new_snapshot(step)
            self._of_predecessor(step, before)
        self._in_order(step)
        if before is not None and not self.lists_one:
            self._same_times("metadata-log", step, before, place_in)
            self._same_times("snapshot-log", step, before, snapshot_in)

    def last(self) -> None:
        """The ``last-updated-ms`` of the last version, which no later one repeats: no clock of the run can have said so late a time.

        The clocks are those of which the log has times of known operations: a clock says its time at most as long after the start of the run
        as its operation had taken by then. A version that a writer of none of them can have made is not judged.
        """
        step = next((s for s in reversed(self.chain.steps) if not s.repeated), None)
        if step is None or not step.after.last_updated_ms or step.after.problems:
            return
        m, ops = step.after, self.makers.accused(step)
        made = [self.chain.by_op[op] for op in ops if op in self.chain.by_op]
        writers = {_writer(c.op) for c, _ in self._made}
        if not made or len(made) < len(ops) or any(_writer(op) not in writers for op in ops):
            return
        ends = [c.time for c in self.chain.log.captures] + [o.end or o.start for o in self.chain.of_table]
        until = max(o.end if o.type == "ok" and o.end is not None else max(ends) for o in made)
        latest = self._furthest(m) + _ms(min(until, step.latest, max(ends))) + A_DAY
        if m.last_updated_ms <= latest:
            return
        self._strange.add(("metadata-log", place(m.location), m.last_updated_ms))  # told once
        self.found(
            "timestamp-order",
            f"version {m.n} ({m.location}), {self.makers.made_by(m)}, the last, says in its last-updated-ms {m.last_updated_ms} (ms since "
            f"1970). By the other times of the log, the clock that is furthest ahead, and a day more, it was made at {latest} at the latest: "
            f"{_apart(m.last_updated_ms, latest)}. Readers refuse the next version, which comes before it.",
            ops=ops,
            files=(m.location,),
        )

    @cached_property
    def _made(self) -> list[tuple[Commit, Operation]]:
        """The commits of operations that are known."""
        return [(c, o) for c in self.chain.log.commits if (o := self.chain.by_op.get(c.op or "")) is not None]

    def _furthest(self, m: Metadata) -> int:
        """What the clock that is furthest ahead says at the start of the run, at most, by all times of the log but those of one version."""
        versions = self.chain.log.metadata
        times = [(c.timestamp_ms, o) for c, o in self._made]
        times += [
            (v.last_updated_ms, o) for c, o in self._made for v in versions[c.metadata : c.metadata + 1] if v is not m
        ]
        return max(time - _ms(o.start) for time, o in times)

    def of_snapshots(self) -> None:
        """The one version that is of another day than the snapshot that it adds, where all others are of theirs; to be called after all steps.

        Both are stamped while the operation is under way, by two clocks on REST, else by one. How far the clocks are apart is what most
        versions of the table show. A clock that jumped shows in several versions, and is not told.
        """
        found: list[tuple[Step, Commit, int]] = []
        for step in self.chain.steps:
            made, ms = self.chain.commits_of.get(step.after.n, ()), step.after.last_updated_ms
            if step.repeated or len(made) != 1 or not ms:
                continue
            (c,) = made
            o = self.chain.by_op.get(c.op or "")
            if o is not None and o.end is not None and c.timestamp_ms:
                found.append((step, c, ms - c.timestamp_ms))
        if len(found) < FEWEST_VERSIONS:
            return
        usual = sorted(apart for _, _, apart in found)[len(found) // 2]
        others = [(step, c) for step, c, apart in found if abs(apart - usual) > A_DAY]
        if len(others) != 1:
            return
        (step, c) = others[0]
        m, where = step.after, place(step.after.location)
        reported = {("metadata-log", where, m.last_updated_ms), ("snapshot-log", c.snapshot_id, c.timestamp_ms)}
        if where in self._early or reported & self._strange or self.makers.explained(step, "logs"):
            return
        self.found(
            "timestamp-order",
            f"version {m.n} ({m.location}), {self.makers.made_by(m)}, says in its last-updated-ms {m.last_updated_ms} (ms since 1970), and "
            f"that snapshot {c.snapshot_id}, which it adds, is of {c.timestamp_ms}: {_apart(m.last_updated_ms, c.timestamp_ms)}. In all other "
            f"versions the two are {abs(usual) / 1000:,.3f} s apart, but for less than a day.",
            ops=self.makers.accused(step),
            snapshots=(c.snapshot_id,),
            files=(m.location,),
        )

    @cached_property
    def _strange(self) -> set[tuple[str, Any, int]]:
        """(log, what an entry names, a time) of entries whose time was found wrong: that time, and the one that was due."""
        return set()

    @cached_property
    def _early(self) -> set[str]:
        """Places of versions that were found to be before the last entry of a log."""
        return set()

    @cached_property
    def _updated(self) -> dict[str, int]:
        """Place of a version → its ``last-updated-ms``, which its entry in ``metadata-log`` repeats."""
        return {place(m.location): m.last_updated_ms for m in self.chain.log.metadata}

    # --- copies

    def _of_new_snapshot(self, step: Step) -> None:
        """The last entry of the ``snapshot-log``, of a snapshot that the version adds, has the snapshot's time."""
        m = step.after
        new = self._new_snapshot(m)
        if new is None:
            return
        c, time = new
        if time == c.timestamp_ms or not c.timestamp_ms or self.makers.explained(step, "logs"):
            return
        if not self._copies(self._own_times, m):
            return
        self._strange |= {("snapshot-log", c.snapshot_id, t) for t in (time, c.timestamp_ms)}
        self.found(
            "timestamp-order",
            f"version {m.n} ({m.location}), {self.makers.made_by(m)}, adds snapshot {c.snapshot_id}, whose timestamp-ms is {c.timestamp_ms} "
            f"(ms since 1970), and says in its snapshot-log that it became current at {time}: {_apart(c.timestamp_ms, time)}. Its "
            f"last-updated-ms is {m.last_updated_ms}.",
            ops=self.makers.accused(step),
            snapshots=(c.snapshot_id,),
            files=(m.location,),
        )

    def _new_snapshot(self, m: Metadata) -> tuple[Commit, int] | None:
        """The current snapshot of the version that is the first to show it, and the time of its entry."""
        entries = entries_of(m, "snapshot-log")
        time = _time(entries[-1]) if entries else None
        if time is None or snapshot_in(entries[-1]) != m.current:
            return None
        c = next((c for c in self.chain.commits_of.get(m.n, ()) if c.snapshot_id == m.current), None)
        return None if c is None else (c, time)

    @cached_property
    def _own_times(self) -> Counter[str | None]:
        """As :meth:`_copies` needs it, for the entry of a new snapshot and its time."""
        found: Counter[str | None] = Counter()
        for m in self.chain.log.metadata:
            if (new := self._new_snapshot(m)) is not None:
                c, time = new
                found[self._engine(m)] += 1 if time == c.timestamp_ms else -1
        return found

    @cached_property
    def _times_before(self) -> Counter[str | None]:
        """As :meth:`_copies` needs it, for the entry of the version before and its ``last-updated-ms``."""
        found: Counter[str | None] = Counter()
        for m in self.chain.log.metadata:
            entries = entries_of(m, "metadata-log")
            own = self._updated.get(place_in(entries[-1])) if entries else None
            if own is not None and (time := _time(entries[-1])) is not None:
                found[self._engine(m)] += 1 if time == own else -1
        return found

    def _copies(self, balance: Counter[str | None], m: Metadata) -> bool:
        """Whether the engine that made a version, or each that can have, copies a time.

        Args:
            balance: engine (None: not known) → in how many more versions the time is a copy than not.
        """
        engine = self._engine(m)
        if engine is not None:
            return balance[engine] > 0
        return balance.total() > 0 and all(n > 0 for e, n in balance.items() if e is not None)

    def _engine(self, m: Metadata) -> str | None:
        """The engine that made a version; None: not known."""
        return next((o.engine for op in self.chain.makers(m) if (o := self.chain.by_op.get(op)) is not None), None)

    def _of_predecessor(self, step: Step, before: Metadata) -> None:
        """The last entry of the ``metadata-log``, of the version's predecessor, has the predecessor's ``last-updated-ms``."""
        m, log = step.after, "metadata-log"
        entries = entries_of(m, log)
        time = _time(entries[-1]) if entries else None
        where, own = place(before.location), before.last_updated_ms
        if time is None or not own or time == own or place_in(entries[-1]) != where or where in self._early:
            return
        if (
            m.problems
            or before.problems
            or self.makers.explained(step, "logs")
            or not self._copies(self._times_before, m)
        ):
            return
        self._strange |= {(log, where, t) for t in (time, own)}
        # Nothing copies a last-updated-ms but this entry: whoever wrote the time that does not lie between the two versions is wrong.
        low = max(
            (t for name in ("metadata-log", "snapshot-log") for x in entries_of(before, name)[-1:] if (t := _time(x))),
            default=own,
        )
        off_own, off_time = (max(low - t, t - m.last_updated_ms, 0) for t in (own, time))
        made, copied = self.makers.accused(self._step_of[where]), self.makers.accused(step)
        here = f"version {m.n} ({m.location}), {self.makers.made_by(m)}, says in its metadata-log"
        subject = f"version {before.n} ({before.location}), {self.makers.made_by(before)}, says in its last-updated-ms"
        if off_own > off_time:
            ops = (*made, *copied)
            text = f"{subject} {own} (ms since 1970), and {here} that it is of {time}: {_apart(own, time)}."
        else:
            ops = (*copied, *made)
            text = (
                f"{here} that the one before it is of {time} (ms since 1970), and {subject} {own}: {_apart(time, own)}."
            )
        files = (before.location, m.location)
        self.found("timestamp-order", text, ops=tuple(dict.fromkeys(ops)), files=files)

    @cached_property
    def _step_of(self) -> Mapping[str, Step]:
        """Place of a version → its step, the first."""
        return {place(s.after.location): s for s in reversed(self.chain.steps)}

    def _same_times(self, log: str, step: Step, before: Metadata, name: Callable[[Any], Any]) -> None:
        """An entry that the predecessor has says the same time."""
        old, new = entries_of(before, log), entries_of(step.after, log)
        skip = max(0, len(old) + 1 - len(new)) if log == "metadata-log" else 0
        if new[: len(old) - skip] == old[skip:] or (new and new == old[-len(new) :]):
            return  # nothing but the oldest entries is gone
        times: dict[Any, set[int]] = {}
        for x in old:
            if (time := _time(x)) is not None:
                times.setdefault(name(x), set()).add(time)
        seen: set[Any] = set()
        for x in new:
            known, time = times.get(name(x)), _time(x)
            repeated = name(x) in seen or (
                x is new[-1] and step.after.current != before.current
            )  # main's again: an entry of its own
            seen.add(name(x))
            if known is None or time is None or time in known or repeated or (log, name(x), time) in self._strange:
                continue
            if time == self._updated.get(name(x)):
                continue  # the entry was wrong before, and is right now
            self._strange |= {(log, name(x), t) for t in (*known, time)}
            if self.makers.explained(step, "logs"):
                continue
            m, was = step.after, max(known)
            self.found(
                "timestamp-order",
                f"version {m.n} ({m.location}), {self.makers.made_by(m)}, says in its {log} that {name(x)} is of {time} (ms since 1970). "
                f"Version {before.n} ({before.location}), from which it was made, says {was}, and entries are copied as they are.",
                ops=self.makers.accused(step),
                files=(before.location, m.location),
            )

    def _in_order(self, step: Step) -> None:
        """The last entries of the logs, and the version itself, are not older than what came before."""
        m, before = step.after, step.before
        for log in ("snapshot-log", "metadata-log"):
            entries = entries_of(m, log)
            last = _time(entries[-1]) if entries else None
            if last is None or (before is not None and entries == entries_of(before, log)):
                continue
            earlier, oldest = (_time(entries[-n]) if len(entries) >= n else None for n in (2, 3))
            name = place_in if log == "metadata-log" else snapshot_in
            if (log, name(entries[-1]), last) in self._strange:
                continue
            if earlier is not None and (log, name(entries[-2]), earlier) in self._strange:
                earlier = None
            for what, time, than, words, fits, subject in (
                (f"the last entry of its {log}", last, earlier, "the one before it", oldest, -2),
                (
                    "the version itself, by its last-updated-ms,",
                    m.last_updated_ms,
                    last,
                    f"the last entry of its {log}",
                    earlier,
                    -1,
                ),
            ):
                if than is not None and time and time < than - ONE_MINUTE:
                    # What is in order without the entry before it shows that that one is wrong.
                    late = fits is not None and time >= fits - ONE_MINUTE
                    ahead = self._step_with(log, name(entries[subject])) if late else None
                    if ahead is not None and ahead is not step:
                        self._too_late(step, ahead, what, time, than, words)
                        continue
                    if than is last:
                        self._early.add(place(m.location))
                    self.found(
                        "timestamp-order",
                        f"in version {m.n} ({m.location}), {self.makers.made_by(m)}, {what} is of {time} (ms since 1970), "
                        f"{(than - time) / 1000:,.3f} s before {words}: a reader refuses the file.",
                        ops=self.makers.accused(step),
                        files=(m.location,),
                    )

    def _step_with(self, log: str, named: Any) -> Step | None:
        """The step to the version that an entry of ``metadata-log`` names, or that is the first to show the snapshot of an entry."""
        if log == "metadata-log":
            return self._step_of.get(named)
        c = self.chain.snapshots.get(named)
        versions = self.chain.log.metadata
        if c is None or not 0 <= c.metadata < len(versions) or versions[c.metadata].current != named:
            return None
        return self._step_of.get(place(versions[c.metadata].location))

    def _too_late(self, step: Step, ahead: Step, what: str, time: int, than: int, words: str) -> None:
        """A time that does not fit to what came before it, nor to what follows."""
        m, late = step.after, ahead.after
        self.found(
            "timestamp-order",
            f"version {late.n} ({late.location}), {self.makers.made_by(late)}, is of {than} (ms since 1970), by {words} in version {m.n} "
            f"({m.location}), {self.makers.made_by(m)}. There {what} is of {time}, {(than - time) / 1000:,.3f} s earlier, and is in order with "
            "what came before the two: a reader refuses the file.",
            ops=tuple(dict.fromkeys((*self.makers.accused(ahead), *self.makers.accused(step)))),
            files=(late.location, m.location),
        )


def _time(entry: Any) -> int | None:
    milliseconds = entry.get("timestamp-ms") if isinstance(entry, Mapping) else None
    return milliseconds if isinstance(milliseconds, int) else None


def _ms(ns: int) -> int:
    return ns // 1_000_000


def _writer(op: str | None) -> str:
    """The writer whose operation an id names: ``w1`` of ``w1-3``."""
    return (op or "").rpartition("-")[0]


def _apart(time: int, than: int) -> str:
    """How far a time is from another one, both in ms."""
    return f"the former is {abs(time - than) / 1000:,.3f} s {'before' if time < than else 'after'} the latter"
