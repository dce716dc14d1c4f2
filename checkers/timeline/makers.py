"""Which operation made a snapshot that names none, as far as other evidence says so directly.

Engines that cannot set a snapshot's properties leave out the operation's id. Two kinds of evidence name it all the same:

**The proxy log.** The proxy between a writer and the catalog knows which operation the writer executes. If a request of it carried the
snapshot's id (REST), or put the metadata file in place that is the first to show the snapshot (JDBC, Hive), that operation made it,
whatever the answer was.

**Rows.** An operation of a kind that signs writes its id into every row that it makes or changes. So if all rows that a snapshot
adds bear the id of one operation, and no row that it removes bears that id in the same place, that operation made it. Rows of several
operations that only insert, each without a snapshot of its own, are those of several commits in one: a stream that is restored
commits all its finished checkpoints at once. A snapshot with the same rows as another of the same operation is a second commit of it,
but only if its engine never names itself: elsewhere it may be anybody's who brought rows back.

If proxies and rows name different operations, neither is believed: the snapshot stays without a name, and both are suspects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from checkers.evidence.history import Operation
from checkers.evidence.makers import How
from checkers.evidence.proxylog import Carried, PointerSwap
from checkers.evidence.tablelog import Commit
from checkers.timeline.timeline import Timeline
from checkers.timeline.version_order import place
from workloads.engines.engines import engine_of
from workloads.operations.kinds import KINDS
from workloads.tables import Row


@dataclass
class SnapshotMakers:
    """What proxies and rows say of one table's snapshots that name no operation; see ``checkers.evidence.makers.Labels``."""

    made: dict[int, str] = field(default_factory=dict)
    how: dict[int, How] = field(default_factory=dict)
    shared: dict[int, tuple[str, ...]] = field(default_factory=dict)
    suspects: set[str] = field(default_factory=set)
    doubts: list[str] = field(default_factory=list)
    doubtful: set[int] = field(default_factory=set)
    """Snapshots that nothing else may name."""

    def name(self, snapshot: int, op: str, how: How) -> None:
        """Say who made a snapshot."""
        self.made[snapshot] = op
        self.how[snapshot] = how


def by_strangers(commits: Iterable[Commit], operations: Iterable[Operation]) -> list[Commit]:
    """The snapshots that clients other than the run's writers certainly made: they change rows and name no operation, though each engine
    of the history names its operations.
    """
    found = [c for c in commits if c.op is None and (c.added or c.removed or not c.readable)]
    return found if found and all(engine_of(o.engine).marks for o in operations) else []


def told_by_proxies_and_rows(t: Timeline, carried: Sequence[Carried], swaps: Sequence[PointerSwap]) -> SnapshotMakers:
    """Who made the snapshots that name nobody, as far as requests and rows say so."""
    unnamed = [c for c in t.log.commits if c.op is None]
    out = SnapshotMakers()
    if not unnamed:
        return out
    by_request = _by_request(t, unnamed, carried, swaps)
    signers = {c.snapshot_id: _signers(t, c) for c in unnamed}
    taken = {c.op for c in t.log.commits if c.op is not None}
    rows_of = {op: s for s, ops in signers.items() for op in ops if op not in taken}
    rows_of = {
        op: s for op, s in rows_of.items() if not any(op in by_request.get(x, ()) and op in signers[x] for x in signers)
    }
    first: dict[str, Commit] = {}
    for c in unnamed:
        s = c.snapshot_id
        senders, signed = by_request.get(s, frozenset()), signers[s]
        if not senders:
            continue
        if len(senders) > 1:
            _doubt(out, s, f"proxies saw it in requests of {_words(senders)}", senders)
            continue
        (sender,) = senders
        # Rows of the sender's own kind need not be signed; rows of somebody who has a snapshot already may be brought back by it.
        others = {op for op in signed if op != sender and (op not in taken or KINDS[t.everything[sender].f].signs)}
        if signed and sender not in signed and others:
            words = f"proxies saw it in a request of {sender}, but its rows bear the id of {_words(others)}"
            _doubt(out, s, words, {sender, *others})
        elif not signed and sender in rows_of and (changes := t.changes(c)) is not None and any(changes):
            words = (
                f"proxies saw it in a request of {sender}, but the rows with its id are in snapshot {rows_of[sender]}"
            )
            _doubt(out, s, words, {sender, *by_request.get(rows_of[sender], ())})
        elif len(signed) > 1 and sender in signed and _in_one(t, c, signed, taken):
            out.shared[s] = tuple(op for op in t.everything if op in signed)
            taken |= signed
        else:
            out.name(s, sender, "proxy")
            taken.add(sender)
            first.setdefault(sender, c)
    rest = [c for c in unnamed if c.snapshot_id not in {*out.made, *out.shared, *out.doubtful}]
    for c in rest:  # by one operation's rows, its first snapshot first
        signed = signers[c.snapshot_id]
        if len(signed) != 1 or not all_signed(t, c, next(iter(signed))):
            continue
        (op,) = signed
        if op not in taken:
            out.name(c.snapshot_id, op, "rows")
            taken.add(op)
            first[op] = c
        elif _made_again(t, c, op, first) or _beside(t, c, op, first):
            out.name(c.snapshot_id, op, "rows")
    for c in rest:
        signed = signers[c.snapshot_id]
        if c.snapshot_id not in out.made and len(signed) > 1 and _in_one(t, c, signed, taken):
            out.shared[c.snapshot_id] = tuple(op for op in t.everything if op in signed)
            taken |= signed
    return out


def _words(ops: frozenset[str] | set[str]) -> str:
    return " and ".join(sorted(ops))


def _doubt(out: SnapshotMakers, snapshot: int, words: str, ops: frozenset[str] | set[str]) -> None:
    out.doubts.append(f"snapshot {snapshot} names no operation; {words}, so whose it is remains unknown")
    out.doubtful.add(snapshot)
    out.suspects |= ops


def _by_request(
    t: Timeline, unnamed: Sequence[Commit], carried: Sequence[Carried], swaps: Sequence[PointerSwap]
) -> Mapping[int, frozenset[str]]:
    """Snapshot → the operations whose requests carried it, or put in place the metadata file that is the first to show it."""
    wanted = {c.snapshot_id for c in unnamed}
    writers = {o.op for o in t.ops if (k := KINDS.get(o.f)) is not None and k.writes}
    found: dict[int, set[str]] = {}
    for request in carried:
        if request.op in writers:
            for s in wanted.intersection(request.adds):
                found.setdefault(s, set()).add(request.op)
    if swaps:
        shown: dict[str, list[int]] = {}
        for c in unnamed:
            if 0 <= c.metadata < len(t.log.metadata):
                shown.setdefault(place(t.log.metadata[c.metadata].location), []).append(c.snapshot_id)
        for swap in swaps:
            for s in shown.get(place(swap.new), ()) if swap.op in writers else ():
                if s not in found or swap.op not in found[s]:
                    found.setdefault(s, set()).add(str(swap.op))
    return {s: frozenset(ops) for s, ops in found.items()}


def _last(r: Row) -> str:
    return str(r.log).rpartition(",")[2]


def _signers(t: Timeline, c: Commit) -> frozenset[str]:
    """The operations whose ids the commit's rows have, and the rows that it removes do not have in their place."""
    changes = t.changes(c)
    if changes is None or not changes.added:
        return frozenset()
    vals = Counter(str(r.val) for r in changes.added) - Counter(str(r.val) for r in changes.removed)
    logs = Counter(map(_last, changes.added)) - Counter(map(_last, changes.removed))
    return frozenset(
        op
        for op in {*vals, *logs}
        if (o := t.everything.get(op)) is not None and o.table == t.name and _writes_its_id(o)
    )


def _writes_its_id(o: Operation) -> bool:
    """Whether all rows that an operation adds have its id; it may also remove some, as an upsert does."""
    kind = KINDS.get(o.f)
    return kind is not None and (kind.signs or kind.inserts != "nothing")


def _signed(r: Row, op: str) -> bool:
    return op in (r.val, _last(r))


def all_signed(t: Timeline, c: Commit, op: str) -> bool:
    """Whether all rows that a commit adds bear the id of an operation."""
    changes = t.changes(c)
    return changes is not None and all(_signed(r, op) for r in changes.added)


def _in_one(t: Timeline, c: Commit, signed: frozenset[str], taken: set[str]) -> bool:
    """Whether a commit is several operations' in one: they only insert, each row is of one of them, and none has another snapshot."""
    changes = t.changes(c)
    if changes is None or changes.removed or signed & taken:
        return False
    ops: list[Operation] = [t.everything[op] for op in signed]
    inserts = all(KINDS[o.f].means_the_same_everywhere and KINDS[o.f].changes_rows for o in ops)
    return inserts and all(any(_signed(r, op) for op in signed) for r in changes.added)


def _made_again(t: Timeline, c: Commit, op: str, first: Mapping[str, Commit]) -> bool:
    """Whether a commit adds what another one of the operation, whose engine never names itself, added."""
    before, o = first.get(op), t.everything[op]
    if before is None or engine_of(o.engine).marks:
        return False
    a, b = t.changes(before), t.changes(c)
    return a is not None and b is not None and sorted(a.added) == sorted(b.added) and not b.removed


def _beside(t: Timeline, c: Commit, op: str, first: Mapping[str, Commit]) -> bool:
    """Whether a commit follows another one of the operation in the same metadata version, as its engine can commit (``Engine.several``)."""
    before = first.get(op)
    if before is None or not engine_of(t.everything[op].engine).several:
        return False
    return c.metadata == before.metadata and before.snapshot_id == c.parent_id
