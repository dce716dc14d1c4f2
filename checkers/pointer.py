"""The ``pointer`` checker: is every accepted swap of a table's pointer in the pointer's history, and did each one replace the current
version?

An Iceberg commit is a compare-and-swap of one pointer. The proxies in front of the catalog see each swap: the metadata file that it
replaces, the new metadata file, and the catalog's answer. The table log is the pointer's history according to the metadata files (or
the catalog's own log). These anomalies follow, independent of the workload:

* **lost-update**: two swaps that replaced the same metadata file were both accepted. One of the two is lost, although its writer
  got an acknowledgement: the catalog does not compare, or not atomically with the swap. (Lost update, P4 in Berenson et al., "A
  Critique of ANSI SQL Isolation Levels", 1995: here of the pointer.) If writers compete for the new file's name (a rename to the next
  version, the Hadoop catalog): two writers that both wrote that file.
* **lost-swap**: an accepted swap, answered before the history was read last, is not in it. A REST catalog is told snapshots, and makes the
  metadata file itself: then the snapshots of an accepted request are in no version, or main went to its snapshot in none (from the
  snapshot that the request says, if it does not bring the snapshot itself). Branches and tags that a request sets are held to the same.
* **unknown-base**: a swap was accepted that replaced a file which the pointer never named: neither its history has it, nor did another
  accepted swap put it there. (A pointer moves only from its current file: spec, "Metastore Tables".) Or main went to the snapshot of an
  accepted request from another snapshot than the one that the request says main must have.
* **swap-order**: a swap had been answered before the one to an earlier version was asked for. A compare-and-swap takes effect between
  request and answer, so swaps whose times do not overlap are in the history in that order (linearizability, Herlihy and Wing 1990).
* **swap-time**: a swap was asked for before its operation was invoked, or only after the operation was acknowledged. What is
  acknowledged is committed; so such an acknowledgement was given before there was anything to acknowledge.
* **foreign-swap**: the version that a swap put in place shows the snapshot of another operation than the one that asked for it; or a
  request carried the snapshot of another operation.

A request to a REST catalog names no metadata file: what holds for swaps holds for it as a swap to the first version with its snapshot.

All times are of one clock, the orchestrator's. A request that was sent twice, or sent on late, has the time when it first came.

A run without proxies has no swaps and so no verdict on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypedDict

from checkers.evidence.history import Operation
from checkers.evidence.paths import normalise
from checkers.evidence.problem import METADATA
from checkers.evidence.proxylog import AcceptedChange, PointerSwap
from checkers.evidence.replace import replace
from checkers.evidence.tableformat import format_of
from checkers.evidence.tablelog import TableLog
from checkers.timeline import explain
from checkers.timeline.unapplied import Unapplied, lost_refs, moved_again, unapplied
from checkers.unit import Part, TableChecker, Unit
from checkers.verdict import Anomaly, Verdict

LOST_SWAPS = "lost"
"""Key of the evidence of a lost update or swap: the operations whose swaps are lost."""
ENDPOINT, TRANSACTIONS = "endpoint", "transactions"
"""Key of the evidence of a lost swap that came by the REST catalog's endpoint for transactions, and its value."""
ANSWER = "answer"
"""Key of the evidence of a lost swap: what the catalog answered."""
TAKEN = "taken"
"""Key of the evidence of a lost swap that has a rival: whether it was there before the answer; else the catalog forgot what it made."""
MOST_LISTED = 50
"""Number of anomalies per name and table that are listed one by one."""


class PointerTable(TypedDict):
    """Numbers of swaps that the catalog accepted."""

    swaps: int
    compared: int
    """Those that say which metadata file they replace, or fight for the new file's name."""
    by_snapshot: int
    """Accepted requests that say which snapshots the table gets (REST); a swap can be among them."""


class PointerStats(TypedDict):
    """What the checker counted; tables without a swap are not there."""

    tables: dict[str, PointerTable]


class Pointer(TableChecker):
    """Accepted swaps that are lost."""

    name = "pointer"
    stats_type = PointerStats
    names = frozenset({"lost-update", "lost-swap", "unknown-base", "swap-order", "swap-time", "foreign-swap"})

    def part(self, unit: Unit) -> Part | None:
        """Anomalies ``lost-update``, ``lost-swap``, ``unknown-base``, ``swap-order``, ``swap-time``, ``foreign-swap``.

        ``stats``: :class:`PointerStats`.
        """
        table, swaps, accepted = unit.name, unit.requests.swaps, unit.requests.accepted
        if not (swaps or accepted):
            return None
        if unit.log is None:
            return Part(table, notes=(f"{table}: there is no table log to compare its swaps with",), undecided=True)
        unclear = unit.contradicted
        compared = sum(s.base is not None or s.names_place for s in swaps)
        stats: PointerTable = {"swaps": len(swaps), "compared": compared, "by_snapshot": len(accepted)}
        judge = _TableSwaps(self.name, unit.log, swaps, accepted, unit.everything)
        found = [
            *judge.lost_updates(),
            *judge.lost_swaps(),
            *judge.not_applied(accepted),
            *judge.refs_not_set(accepted),
            *judge.unknown_bases(),
            *judge.stale_bases(),
            *judge.other_bases(accepted),
            *([] if unclear else judge.out_of_order()),
            *([] if unclear else judge.out_of_time()),
            *judge.foreign(),
        ]
        notes = []
        if len(found) > MOST_LISTED:
            notes.append(f"{table}: {len(found) - MOST_LISTED} more anomalies are not shown")
        if judge.gap:
            notes.append(f"{table}: its history has gaps, so a swap that is not in it proves nothing")
        return Part(table, tuple(found[:MOST_LISTED]), tuple(notes), stats=stats, more=unclear and bool(swaps))

    def fold(self, parts: Sequence[Part]) -> Verdict:
        """As for any checker of tables; that the history contradicts its clock is said once."""
        verdict = super().fold(parts)
        if not any(p.more for p in parts):
            return verdict
        unclear = "the history contradicts its own clock, so the times of swaps were not compared with it"
        return replace(verdict, notes=(unclear, *verdict.notes))


class _TableSwaps:
    def __init__(
        self,
        checker: str,
        log: TableLog,
        swaps: Sequence[PointerSwap],
        accepted: Sequence[AcceptedChange],
        operations: Mapping[str, Operation],
    ) -> None:
        self._checker = checker
        self._log = log
        self._swaps = swaps
        self._operations = operations
        self._chain = {normalise(m.location): m.n for m in log.metadata}
        places = Counter(normalise(m.location) for m in log.metadata)
        self._once = {place: n for place, n in self._chain.items() if places[place] == 1}
        """Location → version, of those that the pointer named only once."""
        self._reported: set[str] = set()
        problems = [*log.problems, *(p for m in log.metadata for p in m.problems)]
        older = bool(log.metadata) and log.metadata[0].predecessor is not None
        self.gap = older or not log.complete or any(p.code in METADATA for p in problems)
        self._shown: dict[int, list[str | None]] = {}
        """Version → who made the snapshots that it is the first to show."""
        for c in log.commits:
            self._shown.setdefault(c.metadata, []).append(c.op)
        requests = self._requests(accepted)
        self._asked = (*swaps, *requests)
        """The swaps, and the requests of which no swap says that they made a version: as swaps to the first with their snapshot."""
        seen = {normalise(s.new) for s in swaps}
        self._made = (*swaps, *(s for s in requests if normalise(s.new) not in seen and self._is_own(s)))
        """The swaps, and the requests that can have made a version which no swap names."""

    def _requests(self, accepted: Sequence[AcceptedChange]) -> list[PointerSwap]:
        """What accepted requests made, as swaps; those that a swap of the same operation tells of are left out."""
        repeated, known = self._log.committed_again, self._log.by_snapshot()
        seen = {(s.op, normalise(s.new)) for s in self._swaps}
        found: dict[tuple[str | None, str], PointerSwap] = {}
        for c in accepted:
            snapshot = c.main if c.main in c.adds else next(iter(c.adds), None)
            commit = None if snapshot is None or snapshot in repeated else known.get(snapshot)
            if commit is None or not 0 <= commit.metadata < len(self._log.metadata):
                continue
            new = self._log.metadata[commit.metadata].location
            key = (c.op, normalise(new))
            if key in seen:
                continue
            before = found.get(key)  # sent twice: one of the two made it
            start, end = (c.time, c.end) if before is None else (min(c.time, before.time), max(c.end, before.end))
            found[key] = PointerSwap(start, end, c.writer, c.op, None, new, c.answer)
        return list(found.values())

    def _is_own(self, s: PointerSwap) -> bool:
        makers = self._shown.get(self._once.get(normalise(s.new), -1), [])
        return s.op in makers or None in makers

    def lost_updates(self) -> Iterator[Anomaly]:
        """Accepted swaps that replaced the same file."""
        rivals: dict[str, list[PointerSwap]] = {}
        for s in self._swaps:
            place = s.new if s.names_place else s.base
            if place is not None:
                rivals.setdefault(normalise(place), []).append(s)
        for place, swaps in rivals.items():
            if len(swaps) < 2 or (swaps[0].names_place and len({s.op for s in swaps}) < 2):
                continue
            self._reported |= {normalise(s.new) for s in swaps}
            yield self._lost_update(place, swaps)

    def _lost_update(self, place: str, swaps: list[PointerSwap]) -> Anomaly:
        n = self._chain.get(place)
        version = _file(place) if n is None else f"{format_of(self._log).version} {n} ({_file(place)})"
        swaps = sorted(swaps, key=lambda s: s.end)
        answers = explain.listing(f"{self._who(s)}, answered {s.answer} at {explain.s(s.end)}" for s in swaps)
        if swaps[0].names_place:
            lost = swaps[:-1]
            others = "the other was" if len(lost) == 1 else "the others were"
            text = (
                f"a lost update: {len(swaps)} commits wrote the same file, {version}, and each was accepted: {answers}. "
                f"The file holds the last one; what {others} told is committed is gone. A writer looks whether the next version is free, "
                "and then takes it, in two steps: another one came between."
            )
        else:
            kept = [s for s in swaps if normalise(s.new) in self._chain]
            lost = [s for s in swaps if s not in kept] or swaps[:-1]
            names = explain.listing(s.op or "one" for s in lost)
            text = (
                f"a lost update of the table's pointer: {len(swaps)} commits replaced {version}, and the catalog accepted each of them: "
                f"{answers}. A pointer can be moved on from a version once. Its history goes on with "
                f"{explain.listing(_file(s.new) for s in kept) or 'none of the new versions'}, so {names} "
                f"{'is' if len(lost) == 1 else 'are'} lost: the catalog does not compare what it replaces, or not in one step."
            )
        ops = tuple(dict.fromkeys(s.op for s in [*lost, *swaps] if s.op is not None))
        return Anomaly(
            "lost-update",
            self._checker,
            self._log.table,
            text,
            ops=ops,
            events=self._events(ops),
            files=tuple(dict.fromkeys([place, *(s.new for s in swaps)])),
            evidence={
                LOST_SWAPS: [s.op for s in lost if s.op is not None],
                "swaps": [{"op": s.op, "new": s.new, "answer": s.answer} for s in swaps],
            },
        )

    def lost_swaps(self) -> Iterator[Anomaly]:
        """Accepted swaps that the pointer's history does not have."""
        until = self._log.captured_until
        if self.gap or until is None:
            return
        for s in self._swaps:
            if s.end >= until or normalise(s.new) in self._chain or normalise(s.new) in self._reported:
                continue
            base = "" if s.base is None else f" in place of {_file(s.base)}"
            ops = () if s.op is None else (s.op,)
            yield Anomaly(
                "lost-swap",
                self._checker,
                self._log.table,
                f"the catalog accepted {self._who(s)}{base}: it answered {s.answer} at {explain.s(s.end)}. Yet none of the "
                f"{len(self._log.metadata)} versions that the pointer had up to {explain.s(until)} is that file.",
                ops=ops,
                events=self._events(ops),
                files=(s.new,) if s.base is None else (s.base, s.new),
            )

    def not_applied(self, accepted: Sequence[AcceptedChange]) -> Iterator[Anomaly]:
        """Accepted requests whose snapshots the pointer's history does not have."""
        if self.gap:
            return
        reported = {(s.time, s.writer) for s in self._swaps if normalise(s.new) not in self._chain}
        for u in unapplied(self._log, accepted):
            if (u.change.time, u.change.writer) not in reported:
                yield self._not_applied(u)

    def _not_applied(self, u: Unapplied) -> Anomaly:
        c, versions = u.change, len(self._log.metadata)
        on = "" if c.base is None else f" in place of snapshot {c.base}"
        where = "has main there" if u.listed else "has that snapshot"
        if u.been:
            where = f"moves main there from snapshot {c.base} for it"
        assert self._log.captured_until is not None
        text = (
            f"the catalog server answered {c.answer} at {explain.s(c.end)} to {c.what} of {self._owner(c)}, which "
            f"{'adds' if c.main is None else 'puts main at'} snapshot {u.snapshot}{on}. Yet none of the {versions} metadata versions up to "
            f"{explain.s(self._log.captured_until)} {where}: the server acknowledged a commit that it did not make. The client cannot know."
        )
        taken = None if u.rival is None or u.rival is c else u.rival.time <= c.end
        if u.rival is not None and taken is not None:
            rival = self._operations.get(u.rival.op or "")
            other = "another request" if rival is None else f"the {explain.operation(rival)}"
            answered = f"(answered {u.rival.answer} at {explain.s(u.rival.end)})"
            text += f" It accepted {other} in place of the same snapshot, too {answered}, and made "
            text += (
                "that one; it must refuse the other with 409."
                if taken
                else "that one; its request came after that answer: the server had forgotten what it acknowledged."
            )
        ops = tuple(dict.fromkeys(op for op in (c.op, u.rival.op if u.rival is not None else None) if op is not None))
        snapshots = (u.snapshot, *((u.rival.main,) if u.rival is not None and u.rival.main is not None else ()))
        return Anomaly(
            "lost-swap",
            self._checker,
            self._log.table,
            text,
            ops=ops,
            events=self._events(ops),
            snapshots=snapshots,
            evidence={
                LOST_SWAPS: [] if c.op is None else [c.op],
                ANSWER: c.answer,
                **({} if taken is None else {TAKEN: taken}),
                **({ENDPOINT: TRANSACTIONS} if c.by_transaction else {}),
            },
        )

    def refs_not_set(self, accepted: Sequence[AcceptedChange]) -> Iterator[Anomaly]:
        """Accepted requests that set a branch or tag other than main, which the pointer's history does not have."""
        for lost in () if self.gap else lost_refs(self._log, accepted):
            c = lost.change
            until = self._log.captured_until
            assert until is not None
            what = f"moves it there from snapshot {c.base} for it" if lost.before else "has it there"
            ops = () if c.op is None else (c.op,)
            yield Anomaly(
                "lost-swap",
                self._checker,
                self._log.table,
                f"the catalog server answered {c.answer} at {explain.s(c.end)} to {c.what} of {self._owner(c)}, which puts the ref "
                f"{lost.name} at snapshot {lost.snapshot}. Yet none of the {len(self._log.metadata)} metadata versions up to "
                f"{explain.s(until)} {what}: the server acknowledged a commit that it did not make. The client cannot know.",
                ops=ops,
                events=self._events(ops),
                snapshots=(lost.snapshot,),
                evidence={
                    LOST_SWAPS: [*ops],
                    ANSWER: c.answer,
                    **({ENDPOINT: TRANSACTIONS} if c.by_transaction else {}),
                },
            )

    def unknown_bases(self) -> Iterator[Anomaly]:
        """Accepted swaps that replaced what the pointer never named."""
        if self.gap:
            return
        put = {normalise(s.new) for s in self._swaps}
        for s in self._swaps:
            if s.base is None or normalise(s.base) in self._chain or normalise(s.base) in put:
                continue
            if normalise(s.new) not in self._chain:
                continue  # told as lost
            yield self._make(
                "unknown-base",
                f"the catalog accepted {self._who(s)} in place of {_file(s.base)}: it answered {s.answer} at {explain.s(s.end)}. Yet none of "
                f"the {len(self._log.metadata)} versions that the pointer had is {_file(s.base)}, and no accepted swap put it there: what "
                "was replaced is not what the swap was based on.",
                (s,),
            )

    def stale_bases(self) -> Iterator[Anomaly]:
        """Accepted swaps that replaced a version which was not current any more: the pointer had gone on to another one before."""
        if self.gap:
            return
        for s in self._swaps:
            n, base = (
                self._once.get(normalise(s.new)),
                self._once.get(normalise(s.base)) if s.base is not None else None,
            )
            if n is None or base is None or base >= n - 1 or normalise(s.new) in self._reported:
                continue
            last = self._log.metadata[n - 1]
            if normalise(last.location) not in self._once:
                continue
            yield self._make(
                "unknown-base",
                f"the catalog accepted {self._who(s)} in place of {_file(s.base or '')}, version {base}: it answered {s.answer} at "
                f"{explain.s(s.end)}. Yet the new file is version {n}, and before it the pointer named version {last.n}, "
                f"{_file(last.location)}: what the swap replaced was not current any more.",
                (s,),
            )

    def other_bases(self, accepted: Sequence[AcceptedChange]) -> Iterator[Anomaly]:
        """Accepted requests whose snapshot main got in place of another one than they say."""
        if self.gap or all(c.base is None for c in accepted):
            return
        steps = list(pairwise(self._log.metadata))
        taken = {(a.current, b.current) for a, b in steps}
        first = {b.current: (a, b) for a, b in reversed(steps) if a.current != b.current}
        makers, elsewhere = self._log.by_snapshot(), {(c.op, c.main) for c in moved_again(accepted)}
        for c in accepted:
            if (
                c.base is None
                or c.main is None
                or c.main == c.base
                or (c.base, c.main) in taken
                or (c.op, c.main) in elsewhere
            ):
                continue
            made = makers.get(c.main)
            if c.main not in first or (
                made is not None and made.op not in (None, c.op) and made.op in self._operations
            ):
                continue  # told as lost, or as another operation's
            before, after = first[c.main]
            ops = () if c.op is None else (c.op,)
            yield Anomaly(
                "unknown-base",
                self._checker,
                self._log.table,
                f"the catalog accepted {c.what} of {self._owner(c)}, which puts main at snapshot {c.main} in place of snapshot {c.base}: it "
                f"answered {c.answer} at {explain.s(c.end)}. Yet main went to {c.main} from "
                f"{'no snapshot' if before.current is None else f'snapshot {before.current}'}, in metadata version {after.n}: what was "
                "replaced is not what the request was based on.",
                ops=ops,
                events=self._events(ops),
                snapshots=(c.base, c.main),
            )

    def out_of_order(self) -> Iterator[Anomaly]:
        """Swaps to later versions that were answered before the swap to an earlier version was asked for."""
        placed = sorted(
            ((n, s) for s in self._made if (n := self._once.get(normalise(s.new))) is not None and not s.names_place),
            key=lambda p: p[0],
        )
        first: tuple[int, PointerSwap] | None = None  # of the later versions' swaps, the one that was answered first
        for n, s in reversed(placed):
            if first is not None and first[1].end < s.time and first[0] > n:
                m, early = first
                yield self._make(
                    "swap-order",
                    f"the catalog accepted {self._who(early)}, version {m} of the pointer's history, and answered {early.answer} at "
                    f"{explain.s(early.end)}. Only then, at {explain.s(s.time)}, it was asked for {self._who(s)}, and accepted it. Yet that "
                    f"is version {n}, so the pointer was there before.",
                    (early, s),
                )
            if first is None or s.end < first[1].end:
                first = n, s

    def out_of_time(self) -> Iterator[Anomaly]:
        """Swaps that were asked for while their operation was not under way."""
        for s in self._made:
            o = self._operations.get(s.op or "")
            if o is None:
                continue
            start, done = o.invoked.time, o.completed
            early = s.end < start or (s.time < start and s.writer is not None)
            if not early and not (o.type == "ok" and done is not None and s.time > done.time):
                continue
            asked = f"the catalog was asked for {self._who(s)} at {explain.s(s.time)}, and accepted it (it answered {s.answer})"
            if early:
                yield self._make(
                    "swap-time", f"{asked}. Yet the operation was invoked only at {explain.s(o.start)}.", (s,)
                )
            else:
                yield self._make(
                    "swap-time",
                    f"{asked}. Yet the operation had been {explain.outcome(o)}: that was no acknowledgement of this commit.",
                    (s,),
                )

    def foreign(self) -> Iterator[Anomaly]:
        """Swaps to a version that shows another operation's snapshot."""
        for s in self._asked:
            n = self._once.get(normalise(s.new))
            makers = [] if n is None else self._shown.get(n, [])
            if s.op in makers:
                continue
            known = s.op in self._operations and bool(makers) and all(op in self._operations for op in makers)
            if self.gap or not known or normalise(s.new) in self._reported:
                continue
            names = explain.listing(explain.operation(self._operations[op]) for op in makers if op is not None)
            yield self._make(
                "foreign-swap",
                f"the catalog accepted {self._who(s)}: it answered {s.answer} at {explain.s(s.end)}. Yet that file, metadata version {n}, "
                f"adds the snapshot of {names}: one commit, and two operations that made it.",
                (s,),
                tuple(op for op in makers if op is not None),
            )

    def _make(self, name: str, text: str, swaps: tuple[PointerSwap, ...], others: tuple[str, ...] = ()) -> Anomaly:
        ops = tuple(dict.fromkeys((*(s.op for s in swaps if s.op is not None), *others)))
        files = tuple(dict.fromkeys(f for s in swaps for f in (s.base, s.new) if f is not None))
        return Anomaly(name, self._checker, self._log.table, text, ops=ops, events=self._events(ops), files=files)

    def _owner(self, c: AcceptedChange) -> str:
        o = self._operations.get(c.op or "")
        return "nobody's operation" if o is None else f"the {explain.operation(o)}"

    def _who(self, s: PointerSwap) -> str:
        o = self._operations.get(s.op or "")
        maker = "a commit of no known operation" if o is None else f"the {explain.operation(o)}"
        return maker if s.names_place else f"{maker} by {_file(s.new)}"

    def _events(self, ops: Sequence[str]) -> tuple[int, ...]:
        return tuple(i for op in ops if (o := self._operations.get(op)) is not None for i in o.indices)


def _file(location: str) -> str:
    return location.rpartition("/")[2]
