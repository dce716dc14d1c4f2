"""The ``atomicity`` checker: is a transfer in both of its tables or in neither, and does no reader see half of one?

A transfer (``workloads.operations.two_tables.Transfer``) is one operation with a commit in each of two tables. Each
table's log says by itself whether it has its part: the snapshot that names the operation is in main's ancestry or not. So comparing
two logs finds a permanent half (``half-transaction``), whatever answer the writer got: both or neither is right for every outcome.

**Readers.** No statement reads two tables at one moment, and two reads at two moments prove nothing. ``ReadBoth`` asks for the snapshot
of its own table x, then of y, then of x again::

    x     first ─────────────────── again        main of x went from first to again while y was asked, so when y was at
    y                   second                   *second*, x was at a snapshot between the two: at *first* if they are the same

A state of x between the two that has the same transfers as *second* explains the read. If there is none, the reader saw half of a transfer
that other readers see whole: a ``fractured-read`` (Bailis et al., "Scalable Atomic Visibility with RAMP Transactions", 2014). Ancestors of a
snapshot are its past, so which transfers it has follows from the logs alone. A permanent half is reported once, not for every reader.

Conservation of the sum, as in Jepsen's bank, follows: the ``replay`` checker compares each part with the rows that it should change.

Undecidable are: reads during which main of x did not move forward (a rollback, a lost commit), snapshots of unknown ancestry, and
transfers that one table's log cannot decide. A transfer that a rollback removed from a table is left out, because that was intended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from checkers.commits import Emptiness
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.timeline import explain
from checkers.timeline.timeline import Resolution, Timeline, kind_of
from checkers.timeline.timelines import timelines
from checkers.timeline.touched import ids_named
from checkers.timeline.two_tables import second_of, seen_from
from checkers.unit import RunChecker, RunColumns
from checkers.verdict import Anomaly, Validity, Verdict

MOST_STATES_BETWEEN = 200
"""Snapshots of the first table between the two times it was asked, up to which a read is judged."""
OTHER_FORM = "a table that cannot be judged, or a result of another form"
NOT_IN_THE_LOG = "a snapshot that the log does not have"
UNKNOWN_REASONS = (OTHER_FORM, NOT_IN_THE_LOG)
"""Reasons that make the verdict unknown; the others are inherent in such reads."""
MOST_LISTED = 100
"""Number of anomalies per name that are listed one by one."""


class TransferReads(TypedDict, total=False):
    """Numbers of reads of two tables; empty in a run without operations on two tables."""

    judged: int
    stable: int
    """Judged ones during which their first table stayed at one snapshot."""
    undecided: int
    saw_half: int
    """How often one saw a transfer that stays half: one read counts once for each such transfer."""


class AtomicityStats(TypedDict):
    """What the checker counted."""

    transfers: dict[str, int]
    """What became of transfers (``both``, ``neither``, ``half``, ``undecided``, ``rolled_back``) → how many."""
    committed: NotRequired[dict[str, int]]
    """How the acknowledged ones were committed, as their writers say → how many; absent without operations on two tables."""
    reads: TransferReads


class Atomicity(RunChecker):
    """Transfers that are in one table and not in the other, permanently or as one reader saw it."""

    name = "atomicity"
    stats_type = AtomicityStats
    names = frozenset({"half-transaction", "fractured-read"})

    def check(self, evidence: Evidence) -> Verdict:
        """Anomalies ``half-transaction``, ``fractured-read``.

        ``stats``: :class:`AtomicityStats`.
        """
        operations = [o for o in evidence.history.operations() if second_of(o.f, o.value) not in (None, o.table)]
        if not operations:
            return self._untouched()
        found, notes = timelines(evidence)
        judge = _Transfers({t.name: t for t in found}, operations, self.name)
        judge.run()
        notes += [f"{n} {why}" for why, n in sorted((judge.undecided + judge.remarks).items())]
        for name, n in sorted(judge.found.items()):
            if n > MOST_LISTED:
                notes.append(f"{n - MOST_LISTED} more {name} are not shown")
        undecided = bool(judge.undecided)
        valid: Validity = False if judge.anomalies else "unknown" if undecided else True
        return Verdict(self.name, valid, tuple(judge.anomalies), judge.stats(), tuple(notes))

    def whole(self, run: RunColumns, parts: Sequence[None]) -> Verdict:
        """As :meth:`check`: there are no operations on two tables."""
        return self._untouched()

    def _untouched(self) -> Verdict:
        return Verdict(self.name, True, stats=AtomicityStats(transfers={}, reads={}))


@dataclass(frozen=True)
class _Transfer:
    """One transfer: its two tables, and its fate in each."""

    operation: Operation
    fates: Mapping[str, Resolution]

    @property
    def half(self) -> bool:
        """Whether one of the two has it and the other has not."""
        return "applied" in self.fates.values() and bool({"not-applied", "dropped"} & set(self.fates.values()))

    @property
    def whole(self) -> str:
        """Its overall result in one word."""
        fates = set(self.fates.values())
        return (
            "half"
            if self.half
            else "undecided"
            if "unknown" in fates
            else "both"
            if fates == {"applied"}
            else "neither"
        )


@dataclass
class _Transfers:
    tables: Mapping[str, Timeline]
    operations: list[Operation]
    checker: str
    anomalies: list[Anomaly] = field(default_factory=list)
    found: Counter[str] = field(default_factory=Counter)
    undecided: Counter[str] = field(default_factory=Counter)
    """Unknown for lack of evidence; a more complete log could decide it."""
    remarks: Counter[str] = field(default_factory=Counter)
    """Undecidable with any log."""
    fates: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    stable: int = 0
    undecided_reads: int = 0

    def __post_init__(self) -> None:
        self._halves: set[str] = set()
        self._seers: dict[str, list[Operation]] = {}
        self._known: dict[tuple[str, frozenset[str]], npt.NDArray[np.int64]] = {}
        self._emptiness = {name: Emptiness(t) for name, t in self.tables.items()}
        self._left_out: set[str] = set()

    def stats(self) -> AtomicityStats:
        ways = Counter(how for o in self.operations if o.type == "ok" and (how := _how(o)) is not None)
        return {
            "transfers": dict(sorted(self.fates.items())),
            "committed": dict(sorted(ways.items())),
            "reads": {
                "judged": self.judged,
                "stable": self.stable,
                "undecided": self.undecided_reads,
                "saw_half": sum(map(len, self._seers.values())),
            },
        }

    def run(self) -> None:
        """Judge transfers first, because reads of permanent halves are reported with them."""
        halves: list[_Transfer] = []
        for o in self.operations:
            if not _transfers(o):
                continue
            t = self._transfer(o)
            if t is None:
                continue
            self.fates[t.whole] += 1
            if t.half:
                halves.append(t)
                self._halves.add(o.op)
            elif t.whole == "undecided" and "applied" in t.fates.values():
                self.undecided["transfers are in one table, and the log of the other does not tell"] += 1
        fractured = [a for o in self.operations if not _transfers(o) and o.type == "ok" for a in self._read(o)]
        for a in (*map(self._half, halves), *fractured):
            self.found[a.name] += 1
            if self.found[a.name] <= MOST_LISTED:
                self.anomalies.append(a)

    # --- transfers

    def _transfer(self, o: Operation) -> _Transfer | None:
        """None if it is left out."""
        pair = _pair(o)
        if any(name not in self.tables for name in pair):
            self.fates["undecided"] += 1
            self.undecided["transfers are on a table that cannot be judged"] += 1
            return None
        fates: dict[str, Resolution] = {}
        for name in pair:
            t, here = self.tables[name], seen_from(o, name)
            fates[name] = t.resolve(here)
            dropped = [c for c in t.commits.get(o.op, ()) if c.snapshot_id in t.ever_current]
            if fates[name] == "dropped" and dropped and all(t.rolled_back(c.snapshot_id) for c in dropped):
                self.fates["rolled_back"] += 1
                self._left_out.add(o.op)
                return None
            if fates[name] == "not-applied" and self._emptiness[name].at_some_state(here):
                fates[name] = "unknown"  # there may have been nothing to change
        found = _Transfer(o, fates)
        if "applied" in fates.values() and "unknown" in fates.values():
            self._left_out.add(o.op)
        return found

    def _half(self, x: _Transfer) -> Anomaly:
        o = x.operation
        has = next(n for n, fate in x.fates.items() if fate == "applied")
        lacks = next(n for n, fate in x.fates.items() if n != has)
        commits = self.tables[has].on_main(o.op)
        t = self.tables[lacks]
        traces = [c for c in t.commits.get(o.op, ()) if c.snapshot_id not in t.position]
        text = (
            f"the {explain.operation(o)} was invoked at {explain.s(o.start)} and {explain.outcome(o)}{_why(o)}. Main of {has} has its "
            f"{', '.join(map(explain.snapshot, commits))}, and main of {lacks} has nothing of it"
        )
        if traces and x.fates[lacks] == "dropped":
            text += f" any more: it had {explain.listing(map(explain.snapshot, traces))}, and lost it"
        elif traces:
            text += f": its {explain.listing(map(explain.snapshot, traces))} was staged there and never became main"
        text += f", in none of the {len(t.log.metadata)} metadata versions up to the last one"
        how = _how(o)
        text += ". A transfer is in both tables or in neither, whatever its writer was told."
        if how is not None:
            text += f" It was committed as {how}."
        seers = self._seers.get(o.op, [])
        if seers:
            text += f" {len(seers)} reads of both tables saw half of it ({explain.listing(s.op for s in seers)})."
        shown = seers[:3]
        return Anomaly(
            "half-transaction",
            self.checker,
            lacks,
            text,
            ops=(o.op, *(s.op for s in shown)),
            events=(*o.indices, *(i for s in shown for i in s.indices)),
            snapshots=tuple(dict.fromkeys(c.snapshot_id for c in (*commits, *traces))),
            keys=self._keys(o),
            evidence={"has": has, "lacks": lacks, "seen_by": len(seers)},
        )

    # --- reads

    def _read(self, o: Operation) -> Iterator[Anomaly]:
        own, other = _pair(o)
        pair = frozenset((own, other))
        line, why = self._between(o, own)
        seen = self._has(other, pair, o.result["second"]) if not why else None
        past = [p for s in line if (p := self._has(own, pair, s)) is not None]
        if seen is None or len(past) < len(line):
            self.undecided_reads += 1
            unknown = not why or why in UNKNOWN_REASONS
            (self.undecided if unknown else self.remarks)[
                f"reads of two tables could not be judged: {why or 'the past of a snapshot is not known'}"
            ] += 1
            return
        self.judged += 1
        self.stable += len(line) == 1
        names = self._between_tables[pair]
        best: tuple[int, list[str]] | None = None
        for snapshot, here in zip(line, past, strict=True):
            apart = [names[n] for n in np.flatnonzero(here ^ seen).tolist()]
            broken = [op for op in apart if op not in self._halves and op not in self._left_out]
            if best is None or len(broken) < len(best[1]):
                best = snapshot, broken
            if len(line) == 1:
                for op in apart:
                    if op in self._halves:
                        self._seers.setdefault(op, []).append(o)
        if best is not None and best[1]:
            yield self._fractured(o, line, *best)

    def _between(self, o: Operation, own: str) -> tuple[list[int], str]:
        """The snapshots at which a read's own table can have been when it asked the other, or why they are unknown."""
        t, result = self.tables.get(own), o.result
        if t is None or not isinstance(result, dict):
            return [], OTHER_FORM
        first, last = result.get("first"), result.get("again")
        if type(result.get("second")) is not int:
            return [], OTHER_FORM
        if any(type(x) is not int or x not in t.snapshots for x in (first, last)):
            return [], NOT_IN_THE_LOG
        assert isinstance(first, int) and isinstance(last, int)
        if any(self._current[own][x] > 1 for x in (first, last)):
            return [], "main came back to the snapshot that was read"
        if first == last:
            return [first], ""
        if first not in t.position or last not in t.position or t.position[first] > t.position[last]:
            return [], "main did not go forward while it was read"
        if any(s not in t.position for s in t.ever_current):  # it may have been at one of these
            return [], "main changed while it was read, and has lost snapshots"
        line = [c.snapshot_id for c in t.main[t.position[first] - 1 : t.position[last]]]
        return (
            (line, "")
            if len(line) <= MOST_STATES_BETWEEN
            else ([], f"more than {MOST_STATES_BETWEEN} commits while it was read")
        )

    @cached_property
    def _current(self) -> dict[str, Counter[int | None]]:
        """Table → snapshot → how often it became current."""
        return {name: Counter(v.snapshot for v in t.versions) for name, t in self.tables.items()}

    @cached_property
    def _between_tables(self) -> dict[frozenset[str], tuple[str, ...]]:
        """Two tables → the transfers between them, in invocation order."""
        out: dict[frozenset[str], list[str]] = {}
        for o in self.operations:
            out.setdefault(frozenset(_pair(o)), []).extend([o.op] if _transfers(o) else [])
        return {pair: tuple(ops) for pair, ops in out.items()}

    def _positions(self, table: str, pair: frozenset[str]) -> npt.NDArray[np.int64]:
        """The position on a table's main of each transfer of a pair of tables; far beyond its end for transfers that it does not have."""
        if (table, pair) not in self._known:
            t = self.tables[table]
            first = [t.on_main(op)[:1] for op in self._between_tables[pair]]
            places = [t.position[c[0].snapshot_id] if c else len(t.main) + 1 for c in first]
            self._known[table, pair] = np.array(places, np.int64)
        return self._known[table, pair]

    def _has(self, table: str, pair: frozenset[str], snapshot: object) -> npt.NDArray[np.bool_] | None:
        """Which transfers of a pair of tables a snapshot has; None if its ancestry is not known down to the root."""
        t = self.tables.get(table)
        if t is None or not isinstance(snapshot, int):
            return None
        if t.rooted and snapshot in t.position:
            return self._positions(table, pair) <= t.position[snapshot]
        line = list(t.ancestors(snapshot))
        if not line or line[-1].parent_id is not None:
            return None
        past = {c.op for c in line}
        return np.array([op in past for op in self._between_tables[pair]], np.bool_)

    def _fractured(self, o: Operation, line: list[int], snapshot: int, broken: list[str]) -> Anomaly:
        own, other = _pair(o)
        x, y = self.tables[own], self.tables[other]
        seen = o.result["second"]
        name = broken[0]
        transfer = next(p for p in self.operations if p.op == name)
        has, lacks = (own, other) if any(c.op == name for c in x.ancestors(snapshot)) else (other, own)
        commits = {t: [c for c in self.tables[t].commits.get(name, ()) if self._is_main(t, c)] for t in (has, lacks)}
        later = explain.listing(map(explain.snapshot, commits[lacks])) or "none that was ever current"
        found = (
            f"{own} at {explain.snapshot(x.snapshots[snapshot])} before and after it found {other} at "
            f"{explain.snapshot(y.snapshots[seen])}, so both were current at one moment"
            if len(line) == 1
            else f"{own} at {explain.snapshot(x.snapshots[line[0]])}, then {other} at {explain.snapshot(y.snapshots[seen])}, then {own} at "
            f"{explain.snapshot(x.snapshots[line[-1]])}; of the {len(line)} snapshots that {own} had from the one to the other the nearest "
            f"is {explain.snapshot(x.snapshots[snapshot])}"
        )
        more = f" It saw half of {len(broken) - 1} more ({explain.listing(broken[1:])})." if len(broken) > 1 else ""
        return Anomaly(
            "fractured-read",
            self.checker,
            other,
            f"the {explain.operation(o)} of {own} was invoked at {explain.s(o.start)} and found {found}. Yet {has} has there the "
            f"{explain.operation(transfer)}, {explain.listing(map(explain.snapshot, commits[has]))}, and {lacks} has not: its part of it is "
            f"{later}. A transfer is one operation: who sees it in one table must see it in the other.{more}",
            ops=(o.op, *broken[:8]),
            events=tuple(dict.fromkeys((*o.indices, *(i for op in broken[:8] for i in x.everything[op].indices)))),
            snapshots=tuple(
                dict.fromkeys((snapshot, seen, *(c.snapshot_id for t in (has, lacks) for c in commits[t])))
            ),
            keys=self._keys(transfer),
            evidence={"has": has, "lacks": lacks, "transfers": len(broken), "stable": len(line) == 1},
        )

    def _keys(self, o: Operation) -> tuple[int, ...]:
        return ids_named(o, self.tables[str(o.table)].spec)[: explain.MOST_KEYS]

    def _is_main(self, table: str, c: Commit) -> bool:
        return c.snapshot_id in self.tables[table].ever_current


def _transfers(o: Operation) -> bool:
    """Whether an operation on two tables writes to them, rather than reads both."""
    kind = kind_of(o)
    return kind is not None and kind.changes_rows


def _pair(o: Operation) -> tuple[str, str]:
    """An operation's two tables, its own first."""
    return str(o.table), str(second_of(o.f, o.value))


def _how(o: Operation) -> str | None:
    """How a transfer was committed, according to its writer."""
    try:
        return str(o.result[0][0]) if _transfers(o) else None
    except (TypeError, IndexError, KeyError):
        return None


def _why(o: Operation) -> str:
    if not o.error:
        return ""
    return f" ({o.error[0][0]}: {o.error[0][1].splitlines()[0] if o.error[0][1] else ''})"
