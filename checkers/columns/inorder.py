"""The screen of a table's commits and reads in the order of events, in one pass that holds only what is under way.

What ``screen`` shows of positions (commits in an order that real time allows; every read at a position not below any commit or read that
had ended before it began nor below what an expiry proves, and below the first commit that was not yet invoked when it ended) needs all
commits and reads, but of the rows only which positions had what a read returned. Of reads of an id the buckets tell that (``bykey``); of
reads of the whole table it follows from the change that each commit made to the hash of its state. The pass reads rows sorted by
``event``. It keeps the commits and reads that have begun and not ended, and the states between the oldest read of the whole table and
now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from checkers.columns.frames import I64, NEVER, U64
from checkers.columns.screen import LOOKED_AT

COMMIT, DELTA, RANGE, WHOLE, TRAVEL, DIFFERENCE, PROOF = range(7)
"""What a row is:

* a commit: ``a`` when it was acknowledged, ``b`` its :data:`DML` and :data:`TOLD`;
* what a commit changed of the hash of the table's state: ``a``;
* a read of an id, and positions at which the id had what it returned, from ``b`` to ``c`` (excluded; -1 and -1: none): ``a`` when it completed.
  There is a row for each range;
* a read of the whole table: ``a`` when it completed, ``b`` the hash of its rows;
* a time travel to ``position``: the same;
* an expiry that proves that main was at ``position``: ``a`` when it was acknowledged;
* what a bucket found of a commit (``screen.Differences``): ``a``, ``b`` of removed rows, ``c``, ``d`` of added ones, count and hash; ``op`` has
  :data:`DOUBTFUL` and :data:`CHANGES_ROWS`.

``event`` is the index of the invocation. It is -1, before all others, for time travels, differences, and commits that a bucket cannot name."""
COLUMNS = ("event", "what", "position", "op", "a", "b", "c", "d")
DML, TOLD = 1, 2
DOUBTFUL, CHANGES_ROWS = 1, 2
CHUNK = 1 << 20
"""Rows that are looked at together."""

Rows = dict[str, I64]


def rows(what: int, event: I64, **columns: I64) -> I64:
    """Rows of one content, shape (:data:`COLUMNS`, rows); columns that are not given are 0."""
    out = np.zeros((len(COLUMNS), len(event)), np.int64)
    for name, values in {"event": event, "what": np.int64(what), **columns}.items():
        out[COLUMNS.index(name)] = values
    return out


def _none(*names: str) -> Rows:
    return {name: np.zeros(0, np.int64) for name in names}


def _join(*parts: Rows) -> Rows:
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def _some(rows: Rows, chosen: npt.NDArray[np.bool_] | I64) -> Rows:
    return {name: column[chosen] for name, column in rows.items()}


_READ = ("op", "invoked", "completed", "low", "whole", "wanted", "first", "ranges")


@dataclass
class InOrder:
    """The pass over one table. Call :meth:`feed` with rows sorted by event, then :meth:`end`.

    Attributes:
        suspects: reason and operations, as found.
    """

    chunk: int = CHUNK
    suspects: list[tuple[str, I64]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._fed: list[I64] = []
        self._waiting = 0
        self._base = 0  # all commits up to this position have been invoked
        self._reached = np.int64(-1)  # when the last of them was
        self._kept = 0  # position of the first state that is kept
        self._states = np.zeros(1, np.uint64)
        self._newest = self._newest_commit = np.int64(0)  # position of what had ended
        self._ahead = _none("position", "invoked")
        self._deltas = _none("position", "a")
        self._answers = _none("position", "when")
        self._proofs = _none("position", "when")
        self._open = _none(*_READ)
        self._ranges = _none("since", "until")
        self._travels = _none("position", "op", "a", "b")
        self._traveled = False
        self._differences = _none("position", "op", "a", "b", "c", "d")
        self._made = _none("position", "op", "b")  # the commits that differences are of

    def feed(self, found: I64) -> None:
        """More rows, of the shape that :func:`rows` returns."""
        self._fed.append(found)
        self._waiting += found.shape[1]
        if self._waiting >= self.chunk:
            self._take(last=False)

    def end(self) -> Iterator[tuple[str, I64]]:
        """No more rows: what could not be proven, as reason and operations; an operation may come more than once."""
        self._take(last=True)
        self._replayed()
        return iter(self.suspects)

    def _take(self, *, last: bool) -> None:
        """Look at all rows but those of the last event, of which more may come."""
        if not self._fed:
            return
        all_rows = np.concatenate(self._fed, axis=1)
        event = all_rows[0]
        n = len(event) if last else int(np.searchsorted(event, event[-1], "left"))
        # What comes before all events comes first, and may fill many chunks.
        self._fed, self._waiting = [all_rows[:, n:].copy()], len(event) - n
        if n:
            now = dict(zip(COLUMNS, all_rows[:, :n], strict=True))
            horizon = NEVER if last else int(event[n - 1])
            self._look({k: _some(now, now["what"] == k) for k in range(PROOF + 1)}, horizon)

    def _suspect(self, reason: str, ops: I64) -> None:
        if len(ops):
            self.suspects.append((reason, np.unique(ops)))

    # --- one chunk --------------------------------------------------------------------------------------------------------

    def _look(self, of: dict[int, Rows], horizon: int) -> None:
        """All events up to the horizon are known now, and none after it."""
        self._traveled = self._traveled or len(of[TRAVEL]["op"]) > 0
        self._travels = _join(self._travels, _only(of[TRAVEL], "position", "op", "a", "b"))
        self._differences = _join(self._differences, _only(of[DIFFERENCE], "position", "op", "a", "b", "c", "d"))
        self._deltas = _join(self._deltas, _only(of[DELTA], "position", "a"))
        commits = of[COMMIT]
        self._know(commits)
        ahead = {"position": commits["position"], "invoked": commits["event"]}
        self._ahead = _join(self._ahead, ahead)
        base, reached = self._advance()

        acknowledged = commits["a"] != NEVER
        answers = {"position": commits["position"][acknowledged], "when": commits["a"][acknowledged]}
        answers = _join(self._answers, answers)
        past = answers["when"] <= horizon
        answered, self._answers = _some(answers, past), _some(answers, ~past)
        floor = _newest(answered["when"], answered["position"], commits["event"], self._newest_commit)
        self._suspect("commit-order", commits["op"][floor > commits["position"]])
        if len(answered["position"]):
            self._newest_commit = max(self._newest_commit, answered["position"].max())
        proofs = _join(self._proofs, {"position": of[PROOF]["position"], "when": of[PROOF]["a"]})
        past = proofs["when"] <= horizon
        answered, self._proofs = _join(answered, _some(proofs, past)), _some(proofs, ~past)

        began = len(self._open["op"])
        reads = _join(self._open, self._begun(of))
        closing = np.flatnonzero(reads["completed"] <= horizon)
        high = base + np.searchsorted(reached, reads["completed"][closing], "left")
        found = self._positions(reads, began, closing, high, answered)
        for when, position in ((answered["when"], answered["position"]), (reads["completed"][closing], found)):
            if len(when):
                self._newest = max(self._newest, position.max())
        self._keep(reads, np.setdiff1d(np.arange(len(reads["op"])), closing))

    def _know(self, commits: Rows) -> None:
        """Remember whose the commits are of which something differs."""
        untold = commits["b"] == DML  # and not TOLD
        self._suspect("not-replayed", commits["op"][untold])
        if len(self._differences["position"]):
            mine = np.isin(commits["position"], self._differences["position"]) & ~untold
            self._made = _join(self._made, _only(_some(commits, mine), "position", "op", "b"))

    def _advance(self) -> tuple[int, I64]:
        """Go on to the newest position of which all up to it are known; the one before, and for each after that when it and all below had been
        invoked."""
        base = self._base
        order = np.argsort(self._ahead["position"])
        ahead = _some(self._ahead, order)
        steps = int((ahead["position"] == base + 1 + np.arange(len(order))).cumprod().sum())
        invoked, self._ahead = ahead["invoked"][:steps], _some(ahead, np.arange(steps, len(order)))
        reached = np.maximum.accumulate(np.concatenate([[self._reached], invoked]))[1:]
        self._base += steps
        self._reached = reached[-1] if steps else self._reached
        now = self._deltas["position"] <= self._base
        mine, self._deltas = _some(self._deltas, now), _some(self._deltas, ~now)
        changes = np.zeros(steps, np.uint64)
        np.add.at(changes, mine["position"] - base - 1, mine["a"].view(np.uint64))
        states = self._states[-1] + np.cumsum(changes, dtype=np.uint64)
        self._travel(base, invoked, states)
        self._states = np.concatenate([self._states, states])
        return base, reached

    def _travel(self, base: int, invoked: I64, states: U64) -> None:
        """Judge the time travels to the positions after ``base``."""
        now = self._travels["position"] <= base + len(states)
        mine, self._travels = _some(self._travels, now), _some(self._travels, ~now)
        at = mine["position"] - base - 1
        there = mine["position"] >= 1
        wrong = ~there
        wrong[there] = (states[at[there]] != mine["b"][there].view(np.uint64)) | (invoked[at[there]] > mine["a"][there])
        self._suspect("wrong-time-travel", mine["op"][wrong])

    def _begun(self, of: dict[int, Rows]) -> Rows:
        """The reads that were invoked; those of ranges with the places of these."""
        ranged, whole = of[RANGE], of[WHOLE]
        order = np.lexsort((ranged["b"], ranged["op"]))
        ranged = _some(ranged, order)
        n = len(order)
        new = np.concatenate([np.ones(min(n, 1), np.bool_), ranged["op"][1:] != ranged["op"][:-1]])
        first = np.flatnonzero(new)
        before = len(self._ranges["since"])
        self._ranges = _join(self._ranges, {"since": ranged["b"], "until": ranged["c"]})
        a = {
            "op": ranged["op"][first],
            "invoked": ranged["event"][first],
            "completed": ranged["a"][first],
            "first": before + first,
            "ranges": np.diff(np.concatenate([first, [n]])),
        }
        b = {"op": whole["op"], "invoked": whole["event"], "completed": whole["a"], "wanted": whole["b"]}
        return _join(*(_read(part, int(number)) for number, part in enumerate((a, b))))

    def _positions(self, reads: Rows, began: int, closing: I64, high: I64, answered: Rows) -> I64:
        """The position of each read that completed; 0 of one that has none. Sets ``low`` of those that were invoked.

        A read's position is the least that is possible above those of the reads before; these may be of the same chunk, so positions are raised
        until none is too low.
        """
        fresh = np.arange(began, len(reads["op"]))
        completed = reads["completed"][closing]

        def floors(positions: I64) -> I64:
            when = np.concatenate([answered["when"], completed])
            what = np.concatenate([answered["position"], positions])
            return _newest(when, what, reads["invoked"][fresh], self._newest)

        reads["low"][fresh] = floors(np.zeros(len(closing), np.int64))
        found, given_up = self._least(_some(reads, closing), high)
        while True:
            reads["low"][fresh] = floors(np.where(found <= high, found, 0))
            low = np.flatnonzero((found < reads["low"][closing]) & (found <= high))
            if not len(low):
                break
            again, undecided = self._least(_some(reads, closing[low]), high[low])
            found[low] = again
            given_up[low] |= undecided
        self._suspect("undecided-read", reads["op"][closing][given_up])
        nowhere = (found > high) & ~given_up
        # As in the screen: beside a time travel nothing is certain.
        self._suspect("undecided-read" if self._traveled else "no-state-read", reads["op"][closing][nowhere])
        return np.where(found <= high, found, 0)

    def _least(self, reads: Rows, high: I64) -> tuple[I64, npt.NDArray[np.bool_]]:
        """For each read the least position from ``low`` to ``high`` that has its rows, above ``high`` if none has; and where it was not looked
        for to the end."""
        out = high + 1
        given_up = np.zeros(len(high), np.bool_)
        left = np.flatnonzero(reads["whole"] == 0)
        at, end = reads["first"][left], (reads["first"] + reads["ranges"])[left]
        while len(left):
            since, until = self._ranges["since"][at], self._ranges["until"][at]
            position = np.maximum(since, reads["low"][left])
            hit = (since >= 0) & (position < until) & (position <= high[left])
            out[left[hit]] = position[hit]
            at = at + 1
            going = ~hit & (at < end)
            left, at, end = left[going], at[going], end[going]

        left = np.flatnonzero((reads["whole"] == 1) & (reads["low"] <= high))
        at = reads["low"][left]
        for _ in range(LOOKED_AT):
            hit = self._states[at - self._kept] == reads["wanted"][left].view(np.uint64)
            out[left[hit]] = at[hit]
            going = ~hit & (at < high[left])
            left, at = left[going], at[going] + 1
            if not len(left):
                break
        given_up[left] = True
        return out, given_up

    def _keep(self, reads: Rows, staying: I64) -> None:
        """Forget the reads that completed, their ranges, and the states that no read will ask for."""
        self._open = _some(reads, staying)
        ranges = self._open["ranges"]
        places = np.repeat(self._open["first"] - (np.cumsum(ranges) - ranges), ranges) + np.arange(ranges.sum())
        self._ranges = _some(self._ranges, places)
        self._open["first"] = np.cumsum(ranges) - ranges
        whole = self._open["whole"] == 1
        oldest = min(self._base, int(self._newest), *_least_of(self._open, whole))
        self._states = self._states[oldest - self._kept :]
        self._kept = oldest

    # --- rows -------------------------------------------------------------------------------------------------------------

    def _replayed(self) -> None:
        """Put together what the buckets found."""
        d = self._differences
        position, group = np.unique(d["position"], return_inverse=True)
        sums = []
        for name in "abcd":
            total = np.zeros(len(position), np.uint64)
            np.add.at(total, group, d[name].view(np.uint64))
            sums.append(total)
        flags = np.zeros(len(position), np.int64)
        np.bitwise_or.at(flags, group, d["op"])
        wrong = np.logical_or.reduce([s != 0 for s in sums]) if len(position) else np.zeros(0, np.bool_)
        made = self._made
        mine = np.searchsorted(position, made["position"])
        dml = made["b"] & DML > 0
        doubtful, changes = flags[mine] & DOUBTFUL > 0, flags[mine] & CHANGES_ROWS > 0
        self._suspect("maintenance-changed-rows", made["op"][~dml & changes])
        self._suspect("not-replayed", made["op"][dml & doubtful])
        self._suspect("wrong-rows", made["op"][dml & ~doubtful & wrong[mine]])


def _least_of(reads: Rows, chosen: npt.NDArray[np.bool_]) -> list[int]:
    """The least position that the chosen reads may have, if there are any."""
    return [int(reads["low"][chosen].min())] if chosen.any() else []


def _only(rows: Rows, *names: str) -> Rows:
    """Some columns."""
    return {name: rows[name] for name in names}


def _read(part: Rows, whole: int) -> Rows:
    """Reads with all of their columns."""
    n = len(part["op"])
    zero = np.zeros(n, np.int64)
    return {name: part.get(name, zero.copy()) for name in _READ} | {"whole": np.full(n, whole, np.int64)}


def _newest(when: I64, position: I64, events: I64, least: np.int64) -> I64:
    """The greatest position reached before each event, at least ``least``."""
    order = np.argsort(when)
    best = np.maximum.accumulate(np.concatenate([[least], position[order]]))
    found: I64 = best[np.searchsorted(when[order], events, "left")]
    return found
