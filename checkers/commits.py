"""The ``commits`` checker: is every acknowledged write on main exactly once, no failed one, and is their order possible?

An acknowledgement is a promise that the operation's snapshot is on main. What is on main is decided by ancestry, not by presence
in the list of snapshots: after a lost acknowledgement Iceberg can re-apply its *own old* snapshot
(``SnapshotProducer.apply`` takes a snapshot id that the base already has for a rollback), and main moves back below a commit that
stays listed and was acknowledged. Every acknowledged INSERT, UPDATE, DELETE and MERGE leaves exactly one snapshot, also when it
matched no row; a procedure leaves none, one or several.

The order of main is read from the system under test, so it is checked before other checkers build on it: an operation that was
acknowledged before another was invoked must come first in the chain. (Jepsen's ``set-full`` checks the same for a set: lost, duplicated,
stale. Elle's recoverability: each snapshot names its operation.)

A procedure's answer says what it did: if that needs a snapshot, the snapshot must be there, and what it says must be what the log shows
(:mod:`checkers.timeline.answers`). The reader's captures are answers of the catalog, too: each must show what was acknowledged before it
was asked (:mod:`checkers.timeline.captured`).

A commit that a rollback removed from main is gone on purpose: if a version sets main back, a concurrent rollback to that snapshot
explains it (``Timeline.set_backs``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from checkers.evidence.history import Operation
from checkers.evidence.makers import named_by
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, Commit
from checkers.timeline import explain
from checkers.timeline.answers import claims_of, contradictions
from checkers.timeline.captured import Stale, of_no_version, stale_captures, without_table
from checkers.timeline.labels import off_main_without_name
from checkers.timeline.timeline import Resolution, Timeline, Whole, kind_of, meaning, set_back_to, whole_of
from checkers.timeline.touched import ids_named
from checkers.timeline.two_tables import tables_of
from checkers.timeline.version_order import place
from checkers.unit import Part, Requests, TableChecker, Unit, unjudged
from checkers.verdict import Anomaly, Verdict
from workloads.engines.engines import SPARK
from workloads.tables import State


class CommitsTable(TypedDict):
    """Counts of one table.

    ``snapshots`` are all in the table log, and ``main`` those on main at its end. ``main_set_back`` is the number of times that main went
    to a snapshot other than a child of its last one. The others count operations that write:
    """

    snapshots: int
    main: int
    main_set_back: int
    acknowledged: int
    lost: int
    """Acknowledged, and not on main, though nothing explains that."""
    duplicate: int
    """On main by more than one snapshot."""
    false_failures: int
    """On main, though the writer was told that they failed."""
    undecided: int
    """Acknowledged without a snapshot, which the log need not have."""
    left_none: int
    """Acknowledged without a snapshot, with nothing to change."""
    rolled_back: int
    """Acknowledged, and taken out of main by a rollback."""
    named_by: dict[str, int]
    """How it is known who made a snapshot → snapshots: ``summary``, ``proxy``, ``rows``, ``shared`` (several operations' in one), and
    ``nothing`` where it is not known."""


class CommitsStats(TypedDict):
    """What the checker counted."""

    tables: dict[str, CommitsTable]
    resolutions: dict[str, Whole]
    """Id of each operation of unknown outcome → what became of it in all its tables together."""


@dataclass
class _Findings:
    """The findings on one table."""

    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    undecided: bool = False
    silent: dict[int, Operation] = field(default_factory=dict)
    """Number of an anomaly → the operation whose commit no proxy saw a request for."""

    def never_seen(self, t: Timeline, o: Operation, checker: str, blame: Blame) -> None:
        """Note an acknowledged operation of which no snapshot was seen."""
        if blame.silent(o):
            self.silent[len(self.anomalies)] = o
        self.anomalies.append(_never_seen(t, o, checker, blame))


@dataclass(frozen=True)
class InRun:
    """What the whole run decides of one table.

    Attributes:
        saw_all: whether proxies saw a request for every snapshot of the table that another engine than Spark made, or that names nobody.
        silent: number of an anomaly → the operation whose commit no proxy saw a request for. If they saw all, its engine sent none.
        fates: operation of unknown outcome → what became of it here, and all of its tables.
        counts: whether the table's operations of unknown outcome are told of; not if ``checkers.columns`` decided it.
    """

    saw_all: bool
    silent: Mapping[int, Operation] = field(default_factory=dict)
    fates: Mapping[str, tuple[Resolution, tuple[str, ...]]] = field(default_factory=dict)
    counts: bool = True


def in_run(unit: Unit, silent: Mapping[int, Operation]) -> InRun:
    """That of a table with a timeline."""
    t = unit.timeline
    assert t is not None
    unknown = [unit.everything[o.op] for o in t.ops if o.type == "info"]
    fates = {o.op: (t.resolve(o), tables_of(o)) for o in unknown if _writes(o)}
    return InRun(_saw_all(unit), silent, fates)


def _resolved(told: Mapping[str, InRun]) -> dict[str, Whole]:
    """Operation of unknown outcome → what became of it in all its tables together."""

    def fate(op: str, table: str) -> Resolution:
        there = told.get(table)
        return "unknown" if there is None or op not in there.fates else there.fates[op][0]

    return {
        op: whole_of(frozenset(fate(op, table) for table in tables))
        for m in told.values()
        if m.counts
        for op, (_, tables) in m.fates.items()
    }


def _with_silence(p: Part) -> Part:
    """The part whose anomalies say that an engine reported success without asking the catalog."""
    found = list(p.anomalies)
    for n, o in p.more.silent.items() if p.more is not None else ():
        words = (
            f" Proxies saw no request for its commit: {explain.engine(o)} reported success without asking the catalog."
        )
        blamed = {**found[n].evidence, "culprit": "engine", "engine": o.engine}
        found[n] = replace(found[n], explanation=found[n].explanation + words, evidence=blamed)
    return replace(p, anomalies=tuple(found))


class Commits(TableChecker):
    """Acknowledged writes that are lost or duplicated, failed ones that are on main, snapshots out of order or without an operation."""

    name = "commits"
    stats_type = CommitsStats
    reducible = True
    names = frozenset(
        {
            "lost-table",
            "lost-commit",
            "lost-rollback",
            "duplicate-commit",
            "false-failure",
            "unknown-commit",
            "commit-order",
            "stale-pointer",
            "wrong-result",
        }
    )

    def part(self, unit: Unit) -> Part:
        """Anomalies ``lost-commit``, ``duplicate-commit``, ``false-failure``, ``unknown-commit``, ``commit-order``, ``stale-pointer``,
        ``wrong-result``, ``lost-table``, ``lost-rollback``.

        ``stats``: :class:`CommitsStats`.
        """
        t = unit.timeline
        if t is None:
            return unjudged(unit, InRun(saw_all=_saw_all(unit)))
        f, counts = _check_table(t, self.name, Blame.of(unit.requests))
        notes = tuple(f"{t.name}: {n}" for n in f.notes)
        more = in_run(unit, f.silent)
        return Part(t.name, tuple(f.anomalies), notes, f.undecided, counts, more=more)

    def fold(self, parts: Sequence[Part]) -> Verdict:
        """As for any checker of tables; with what became of operations in all their tables, and whom what proxies did not see blames."""
        told: dict[str, InRun] = {p.table: p.more for p in parts if p.more is not None}
        if all(m.saw_all for m in told.values()):
            parts = [_with_silence(p) for p in parts]
        verdict = super().fold(parts)
        decided = [p.table for p in parts if p.judged]
        if decided and not any(name in told and told[name].counts for name in decided):
            return verdict
        return replace(verdict, stats={**verdict.stats, "resolutions": _resolved(told)})


def _writes(o: Operation) -> bool:
    kind = kind_of(o)
    return kind is not None and kind.writes


def _check_table(t: Timeline, checker: str, blame: Blame) -> tuple[_Findings, CommitsTable]:
    f = _Findings()
    last = t.log.captures[-1] if t.log.captures else None
    if last is not None and last.metadata is None:
        f.anomalies.append(
            Anomaly(
                "lost-table",
                checker,
                t.name,
                f"the catalog had no table {t.log.identifier} when the table log was read last, at {explain.ms(last.time)}, "
                f"though it had pointed at {t.log.metadata[-1].location} before and no operation dropped it.",
                files=(t.log.metadata[-1].location,),
            )
        )
    elif not t.read_to_pointer:
        f.undecided = True
        f.notes.append("the metadata that the catalog points at could not be read; judged up to the last that could")
    f.anomalies += [_without_table(t, c, found, proof, checker) for c, found, proof in without_table(t)]
    f.anomalies += [_stale(t, stale, checker) for stale in stale_captures(t)]
    strange = of_no_version(t)
    if strange:
        f.undecided = True
        f.notes.append(
            f"the catalog's pointer named {strange[0].metadata} at {explain.ms(strange[0].time)}"
            f"{f' (and {len(strange) - 1} more such files)' if len(strange) > 1 else ''}, which is none of the log's versions: what "
            "that version showed was not judged"
        )
    if not t.rooted:
        f.undecided = True
        start = t.main[0].parent_id if t.main else t.log.metadata[-1].current
        f.notes.append(f"main is not known down to its root: snapshot {start} is in no metadata that was read")
    unknown_kinds = sorted({o.f for o in t.ops if kind_of(o) is None})
    if unknown_kinds:
        f.undecided = True
        f.notes.append(f"operations of unknown kinds were not judged: {', '.join(unknown_kinds)}")
    f.anomalies += _foreign(t, checker, f)
    empty = Emptiness(t)
    moves = sum(
        not (b.snapshot in t.snapshots and t.snapshots[b.snapshot].parent_id == a.snapshot)
        for a, b in zip(t.versions, t.versions[1:], strict=False)
    )
    counts: CommitsTable = {
        "snapshots": len(t.log.commits),
        "main": len(t.main),
        "main_set_back": moves,
        "acknowledged": 0,
        "lost": 0,
        "duplicate": 0,
        "false_failures": 0,
        "undecided": 0,
        "left_none": 0,
        "rolled_back": 0,
        "named_by": _named_by(t),
    }
    doubtful: set[str] = set()
    unseen: list[str] = []
    unlabelled: list[str] = []
    for o in t.ops:
        wrong = contradictions(t, o)
        if wrong:
            f.anomalies.append(_wrong_result(t, o, wrong, checker))
        if not _writes(o):
            continue
        counts["acknowledged"] += o.type == "ok"
        on_main = t.on_main(o.op)
        if len(on_main) > 1 and _is_dml(o):
            counts["duplicate"] += 1
            f.anomalies.append(_duplicate(t, o, on_main, checker))
        if o.type == "fail" and on_main:
            counts["false_failures"] += 1
            f.anomalies.append(_false_failure(t, o, on_main, checker))
        if o.type != "ok":
            continue
        dropped = [c for c in t.commits.get(o.op, ()) if c.snapshot_id not in t.position]
        dropped = [c for c in dropped if c.snapshot_id in t.ever_current or not on_main]
        by = [t.rolled_back(c.snapshot_id) for c in dropped]
        if dropped and all(by):
            counts["rolled_back"] += 1
            doubtful |= {b.by.op for b in by if b is not None and not b.certain}
            continue
        if dropped and (not on_main or not _is_dml(o)):
            if all(t.perhaps_rolled_back(c.snapshot_id) for c in dropped):
                unseen.append(o.op)
                continue
            shown = any(c.snapshot_id in t.ever_current for c in dropped)
            if not all(t.is_off_main(c.snapshot_id) for c in dropped) or not (shown or _must_be_seen(t, o)):
                counts["undecided"] += 1
                continue
            counts["lost"] += 1
            f.anomalies.append(_dropped(t, o, dropped, checker))
        elif not on_main and o.op in t.labels.perhaps:
            unlabelled.append(o.op)
        elif not on_main and _is_dml(o):
            if not _must_be_seen(t, o):
                counts["undecided"] += 1
            elif not _replaces(o) and empty.at_some_state(o):
                counts["left_none"] += 1
            else:
                counts["lost"] += 1
                f.never_seen(t, o, checker, blame)
        elif not on_main and (said := claims_of(o)) is not None and said.needs_snapshot:
            if not _must_be_seen(t, o):
                counts["undecided"] += 1
            else:
                counts["lost"] += 1
                f.never_seen(t, o, checker, blame)
    _unnamed(t, unlabelled, f)
    if doubtful:
        f.undecided = True
        f.notes.append(
            f"whether {explain.listing(sorted(doubtful))} set main back, or a commit that was applied twice did, cannot be told apart: "
            "acknowledged commits may be rolled back, or lost"
        )
    if unseen:
        f.undecided = True
        f.notes.append(
            f"the acknowledged commits of {explain.listing(unseen)} are not on main at the end: a rollback may have taken them out of it, "
            "in versions that the log lacks or after the history ends"
        )
    f.anomalies += [_lost_rollback(t, o, checker) for o in t.ops if _sets_back(o) and t.without_effect(o)]
    if counts["undecided"]:
        f.undecided = True
        f.notes.append(
            f"{counts['undecided']} acknowledged operations left no snapshot in the log, but the log need not have them: "
            "it ends before they were acknowledged, or begins after, or a rollback may have been in versions that it lacks"
        )
    if counts["left_none"]:
        f.notes.append(f"{counts['left_none']} acknowledged operations left no snapshot, and had nothing to change")
    f.anomalies += _out_of_order(t, checker)
    return f, counts


def _is_dml(o: Operation) -> bool:
    """Whether it leaves exactly one snapshot; procedures leave any number."""
    kind = kind_of(o)
    return kind is not None and kind.writes and (kind.changes_rows or kind.replaces)


def _replaces(o: Operation) -> bool:
    kind = kind_of(o)
    return kind is not None and kind.replaces


def _sets_back(o: Operation) -> bool:
    kind = kind_of(o)
    return kind is not None and kind.sets_back


def _must_be_seen(t: Timeline, o: Operation) -> bool:
    """Whether the log must have the operation's snapshot if it ever was on main."""
    assert o.completed is not None
    if o.completed.time >= t.seen_until or t.rollback_in_gap:
        return False
    return t.rooted or t.settled(o.invoked.index) > 0


class Emptiness:
    """Whether an operation had nothing to change in some state that it may have seen. Iceberg then need not commit."""

    def __init__(self, t: Timeline) -> None:
        self._t = t

    def at_some_state(self, o: Operation) -> bool:
        """Also False if the states are unknown. An operation of unknown outcome may have seen any state after its invocation."""
        t = self._t
        if not t.rooted:
            return False
        first = t.settled(o.invoked.index)
        last = self._reached(o.completed.index) if o.completed is not None and o.type != "info" else len(t.main)
        state = State()
        for k in range(last + 1):
            if k:
                changes = t.changes(t.main[k - 1])
                if changes is None:
                    return False
                try:
                    state.apply(*changes)
                except KeyError:
                    return False
            if k >= first and meaning(o, state, t.spec) == ([], []):
                return True
        return False

    def _reached(self, event: int) -> int:
        """The greatest position that may have been reached before an event: the operations of all commits so far were invoked."""
        t = self._t
        for k, c in enumerate(t.main):
            if c.op is not None and c.op in t.everything and t.everything[c.op].invoked.index > event:
                return k
        return len(t.main)


def _keys(t: Timeline, commits: list[Commit]) -> tuple[int, ...]:
    return explain.keys(r for c in commits for part in (t.changes(c) or ()) for r in part)


def _duplicate(t: Timeline, o: Operation, on_main: list[Commit], checker: str) -> Anomaly:
    which = ", ".join(explain.snapshot(c) for c in on_main)
    return Anomaly(
        "duplicate-commit",
        checker,
        t.name,
        f"the {explain.operation(o)} was invoked once, at {explain.ms(o.start)}, and {explain.outcome(o)}, yet main has "
        f"{len(on_main)} snapshots of it: {which}. A statement commits at most once.",
        ops=(o.op,),
        events=o.indices,
        snapshots=tuple(c.snapshot_id for c in on_main),
        keys=_keys(t, on_main),
    )


def _false_failure(t: Timeline, o: Operation, on_main: list[Commit], checker: str) -> Anomaly:
    why = f" ({o.error[0][0]}: {o.error[0][1].splitlines()[0] if o.error[0][1] else ''})" if o.error else ""
    return Anomaly(
        "false-failure",
        checker,
        t.name,
        f"the {explain.operation(o)} was {explain.outcome(o)}{why}, which says that it certainly had no effect, yet main has its "
        f"{', '.join(explain.snapshot(c) for c in on_main)}. A client that repeats the operation does it twice, and an engine that cleans "
        "up after the failure deletes files that the table needs.",
        ops=(o.op,),
        events=o.indices,
        snapshots=tuple(c.snapshot_id for c in on_main),
        keys=_keys(t, on_main),
    )


def _dropped(t: Timeline, o: Operation, dropped: list[Commit], checker: str) -> Anomaly:
    c = dropped[0]
    text = (
        f"the {explain.operation(o)} was {explain.outcome(o)} and made {explain.snapshot(c)}, first shown by metadata version "
        f"{c.metadata}, yet that snapshot is not in the ancestry of main's last snapshot {t.log.metadata[-1].current}"
    )
    ops, snapshots, files, events = [o.op], [c.snapshot_id], [], list(o.indices)
    moved = t.dropped_at(c.snapshot_id)
    if moved is None:
        text += ": no metadata version ever had it on main."
    else:
        before, after = moved
        files = [before.location, after.location]
        new = t.snapshots.get(after.current) if after.current is not None else None
        text += f": metadata version {before.n} had main at snapshot {before.current}, version {after.n} moved it to "
        if new is None:
            text += f"{'no snapshot at all' if after.current is None else f'snapshot {after.current}'}."
        else:
            who = explain.maker(new, t.everything)
            if new.metadata == after.n:
                parent = "no parent" if new.parent_id is None else f"parent {new.parent_id}"
                text += f"{explain.snapshot(new)}, which {who} had just made on {parent}: past the lost commit."
            else:
                text += (
                    f"{explain.snapshot(new)}, which {who} had made earlier, in version {new.metadata}: back below the lost commit, as "
                    "when that operation's commit is applied a second time."
                )
            snapshots.append(new.snapshot_id)
            mover = t.everything.get(new.op) if new.op is not None else None
            if mover is not None and mover.op != o.op:
                ops.append(mover.op)
                events += mover.indices
    return Anomaly(
        "lost-commit",
        checker,
        t.name,
        text,
        ops=tuple(ops),
        events=tuple(events),
        snapshots=tuple(snapshots),
        files=tuple(files),
        keys=_keys(t, [c]),
        evidence={"seen": True},
    )


def _lost_rollback(t: Timeline, o: Operation, checker: str) -> Anomaly:
    target = set_back_to(o)
    return Anomaly(
        "lost-rollback",
        checker,
        t.name,
        f"the {explain.operation(o)} was invoked at {explain.ms(o.start)} and {explain.outcome(o)}, so main was at snapshot {target} "
        f"some time in between; yet in none of the {len(t.log.metadata)} metadata versions that can have been current then it was.",
        ops=(o.op,),
        events=o.indices,
        snapshots=() if target is None else (target,),
    )


def _never_seen(t: Timeline, o: Operation, checker: str, blame: Blame) -> Anomaly:
    why = (
        "and at every state that it can have seen it had rows to change"
        if _is_dml(o)
        else f"though its answer {json.dumps(o.result)} says that it replaced files"
    )
    return Anomaly(
        "lost-commit",
        checker,
        t.name,
        f"the {explain.operation(o)} was invoked at {explain.ms(o.start)} and {explain.outcome(o)}, yet no snapshot of it was ever seen: "
        f"none of the {len(t.log.commits)} snapshots in the {len(t.log.metadata)} metadata versions read up to "
        f"{explain.ms(t.seen_until)} {'is its' if o.mixed else 'names it'}, {why}.{blame.words(o)}",
        ops=(o.op,),
        events=o.indices,
        keys=ids_named(o, t.spec)[: explain.MOST_KEYS],
        evidence={"seen": False, **blame.evidence(o)},
    )


def _wrong_result(t: Timeline, o: Operation, wrong: list[str], checker: str) -> Anomaly:
    commits = t.commits.get(o.op, [])
    made = f" (it made {explain.listing(explain.snapshot(c) for c in commits)})" if commits else ""
    return Anomaly(
        "wrong-result",
        checker,
        t.name,
        f"the {explain.operation(o)}, invoked at {explain.ms(o.start)} and {explain.outcome(o)}, answered {json.dumps(o.result)}: "
        f"{'; '.join(wrong)}{made}.",
        ops=(o.op,),
        events=o.indices,
        snapshots=tuple(c.snapshot_id for c in commits),
    )


def _stale(t: Timeline, s: Stale, checker: str) -> Anomaly:
    at = explain.ms(s.capture.time)
    text = f"the catalog was asked for the table at {at} or later and named metadata version {s.shown.n} ({s.shown.location})"
    if s.operation is not None and s.commit is not None:
        more = f", as {s.more} more commits acknowledged before" if s.more else ""
        text += (
            f", although the {explain.operation(s.operation)} was {explain.outcome(s.operation)} and its {explain.snapshot(s.commit)} is in "
            f"version {s.commit.metadata} and not in that one{more}: the catalog answered with an older state, or it had not committed yet."
        )
    elif s.seen is not None:
        text += f", although it had named the later version {s.seen.n} ({s.seen.location}) before."
    return Anomaly(
        "stale-pointer",
        checker,
        t.name,
        text,
        ops=() if s.operation is None else (s.operation.op,),
        events=() if s.operation is None else s.operation.indices,
        snapshots=() if s.commit is None else (s.commit.snapshot_id,),
        files=(s.shown.location,),
    )


def _without_table(
    t: Timeline, capture: Capture, found: Capture | None, proof: Operation | None, checker: str
) -> Anomaly:
    reasons = [f"the {explain.operation(proof)} had been {explain.outcome(proof)}"] if proof is not None else []
    reasons += [f"it had pointed at {found.metadata} before"] if found is not None else []
    why = " and ".join(reasons)
    return Anomaly(
        "lost-table",
        checker,
        t.name,
        f"the catalog had no table {t.log.identifier} when the table log was read at {explain.ms(capture.time)}, though {why}; "
        "later it had the table again, and no operation dropped it.",
        ops=() if proof is None else (proof.op,),
        events=() if proof is None else proof.indices,
        files=() if found is None or found.metadata is None else (found.metadata,),
    )


def _foreign(t: Timeline, checker: str, f: _Findings) -> Iterator[Anomaly]:
    """Snapshots on main that no operation of the history can have made."""
    for c in t.main:
        if c.op is None:
            continue
        o = t.everything.get(c.op)
        if o is None:
            if not t.complete:
                f.undecided = True
                f.notes.append(f"{explain.snapshot(c)} names {c.op}, which the incomplete history does not have")
                continue
            why = "no operation of that id was ever invoked"
        elif o.table != t.name:
            why = f"the {explain.operation(o)} was invoked on {'no table' if o.table is None else f'table {o.table}'}"
        elif kind_of(o) is not None and not _writes(o):
            why = f"the {explain.operation(o)} commits nothing"
        else:
            continue
        yield Anomaly(
            "unknown-commit",
            checker,
            t.name,
            f"main has {explain.snapshot(c)}, which says that {c.op} made it, yet {why}.",
            ops=(c.op,),
            events=() if o is None else o.indices,
            snapshots=(c.snapshot_id,),
            keys=_keys(t, [c]),
        )


def _unnamed(t: Timeline, perhaps: list[str], f: _Findings) -> None:
    """Say of snapshots that name no operation whose they are, or (``perhaps``) may be; of those off main only if it matters."""
    for snapshot, op in t.labels.made.items() if len(t.labels.made) <= explain.MOST else ():
        f.notes.append(
            f"snapshot {snapshot} names no operation; proxies saw it in a request of {op}"
            if t.labels.how.get(snapshot) == "proxy"
            else f"snapshot {snapshot} names no operation; by its rows only {op} can have made it, and nothing else"
        )
    if len(t.labels.made) > explain.MOST:
        counts = ", ".join(f"{how} {n}" for how, n in _named_by(t).items())
        f.notes.append(f"{len(t.labels.made)} snapshots name no operation; whose they are is known. Named by: {counts}")
    for snapshot, ops in t.labels.shared.items():
        f.notes.append(f"snapshot {snapshot} has the rows of several operations in one commit: {explain.listing(ops)}")
    if t.labels.doubts:
        f.undecided = True
        f.notes += t.labels.doubts
    unnamed = [c for c in t.main if c.op is None and c.snapshot_id not in t.labels.shared]
    if unnamed:
        f.undecided = True
        note = f"snapshots on main that name no operation: {explain.listing(c.snapshot_id for c in unnamed)}"
        if perhaps:
            note += f"; {explain.listing(perhaps)}, acknowledged without a snapshot, may have made them"
        f.notes.append(note)
    off_main = [c for c in off_main_without_name(t) if c.snapshot_id not in t.labels.shared]
    if off_main and perhaps:
        f.undecided = True
        f.notes.append(
            f"snapshots that are not on main and name no operation: {explain.listing(c.snapshot_id for c in off_main)}; "
            f"{explain.listing(perhaps)}, acknowledged without a snapshot, may have made them"
        )


def _named_by(t: Timeline) -> dict[str, int]:
    found = Counter("shared" if c.snapshot_id in t.labels.shared else named_by(c) or "nothing" for c in t.log.commits)
    return {how: found[how] for how in ("summary", "proxy", "rows", "shared", "nothing") if found[how]}


@dataclass(frozen=True)
class Blame:
    """Whose fault it is that an acknowledged commit is in no version, as far as proxies saw it.

    A server that accepts a commit and does not keep it is at fault, not the engine that believes it. An engine that reports success
    without having sent a commit is itself at fault.

    Attributes:
        accepted: operation → what the catalog answered to the request that it accepted, and when, ns; the last one.
        sent: operations of which proxies saw a request for a commit, whatever came of it.
        proxied: whether proxies would have seen it, if they saw the requests of all snapshots of other engines than Spark (:class:`InRun`).
            A log of theirs that is cut off or has gaps blames nobody.
    """

    accepted: Mapping[str, tuple[str, int]]
    sent: frozenset[str]
    proxied: bool

    @staticmethod
    def of(requests: Requests) -> Blame:
        """What proxies saw of one table."""
        accepted: dict[str, tuple[str, int]] = {}
        for s in requests.swaps:
            if s.op is not None:
                accepted[s.op] = s.answer, s.end
        for a in requests.accepted:
            if a.op is not None and a.adds:
                accepted[a.op] = a.answer, a.end
        sent = frozenset(accepted) | {c.op for c in requests.carried}
        # Without any request of this table nobody knows whether proxies can read this catalog's.
        return Blame(accepted, sent, requests.proxied and bool(sent))

    def silent(self, o: Operation) -> bool:
        """Whether its engine sent no request for its commit, if proxies saw all."""
        return self.proxied and o.op not in self.accepted and o.op not in self.sent

    def words(self, o: Operation) -> str:
        """A sentence, with a space before it; empty if nothing is known."""
        if o.op in self.accepted:
            answer, at = self.accepted[o.op]
            return (
                f" Its commit was sent, and the catalog server answered {answer} at {explain.ms(at)}: the server acknowledged a commit "
                f"that no version has, and {explain.engine(o)} could not know."
            )
        return ""

    def evidence(self, o: Operation) -> dict[str, str]:
        """``culprit``: the ``server``, and the engine's name; empty if nothing is known."""
        return {"culprit": "server", "engine": o.engine} if o.op in self.accepted else {}


def _saw_all(unit: Unit) -> bool:
    """See :class:`InRun`."""
    requests, log = unit.requests, unit.log
    if log is None:
        return True
    asked = {s for c in requests.carried for s in c.adds} | {s for a in requests.accepted for s in a.adds}
    placed = {place(s.new) for s in requests.swaps}
    for c in log.commits:
        o = unit.everything.get(c.op) if c.op is not None else None
        theirs = c.op is None or (o is not None and o.engine != SPARK)
        if not theirs or c.snapshot_id in asked:
            continue
        if not 0 <= c.metadata < len(log.metadata) or place(log.metadata[c.metadata].location) not in placed:
            return False
    return True


def _out_of_order(t: Timeline, checker: str) -> Iterator[Anomaly]:
    """Pairs of operations whose order on main contradicts real time; one anomaly per late commit, with its first victim.

    Walks the chain from its end with the earliest acknowledgement so far: the operation at position k must not have been invoked after
    an operation at a later position was acknowledged.

    One of the two is named first. The snapshots' timestamps ascend along main, unless a commit was put before others that were there
    already: then it is that commit, else the acknowledgement that came too early. If they are equal, it is the one that contradicts more of
    the others.
    """
    earliest: tuple[int, Commit, Operation] | None = None
    pairs: dict[str, tuple[Commit, Operation, Commit, Operation, int]] = {}
    for c in reversed(t.main):
        o = t.everything.get(c.op) if c.op is not None else None
        if o is None or o.table != t.name:
            continue
        if earliest is not None and earliest[0] < o.invoked.index:
            _, late, first = earliest
            pairs[first.op] = (c, o, late, first, pairs[first.op][4] + 1 if first.op in pairs else 1)
        if c not in t.at_acknowledgement(o):
            continue
        if o.type == "ok" and o.completed is not None and (earliest is None or o.completed.index < earliest[0]):
            earliest = o.completed.index, c, o
    for early, second, late, first, count in sorted(pairs.values(), key=lambda p: t.position[p[0].snapshot_id]):
        behind = sum(1 for _ in _acknowledged_behind(t, early, second, count + 1))
        inserted = (early.timestamp_ms, behind) > (late.timestamp_ms, count)
        both = (second, first) if inserted else (first, second)
        told = (
            f"main has {explain.snapshot(early)} of the {explain.operation(second)} before {explain.snapshot(late)} of the "
            f"{explain.operation(first)}; yet the latter was {explain.outcome(first)}, before the former was invoked at "
            f"{explain.ms(second.start)}, so its snapshot must come first."
            if inserted
            else f"the {explain.operation(first)} was {explain.outcome(first)}, before the {explain.operation(second)} was invoked at "
            f"{explain.ms(second.start)}, so its snapshot must come first; yet main has {explain.snapshot(early)} of the second "
            f"before {explain.snapshot(late)} of the first."
        )
        more = f" The same holds of {count - 1} more operations between the two." if count > 1 else ""
        yield Anomaly(
            "commit-order",
            checker,
            t.name,
            f"{told}{more}",
            ops=tuple(o.op for o in both),
            events=tuple(i for o in both for i in o.indices),
            snapshots=(early.snapshot_id, late.snapshot_id),
            evidence={"pairs": count},
        )


def _acknowledged_behind(t: Timeline, c: Commit, o: Operation, most: int) -> Iterator[Operation]:
    """Operations, at most so many, whose commits come after ``c`` of ``o`` though they were acknowledged before ``o`` was invoked."""
    found: set[str] = set()
    for later in t.main[t.position[c.snapshot_id] :]:
        x = t.everything.get(later.op) if later.op is not None else None
        if x is None or x.table != t.name or x.op in found or x.type != "ok" or x.completed is None:
            continue
        if x.completed.index < o.invoked.index and later in t.at_acknowledgement(x):
            found.add(x.op)
            yield x
            if len(found) == most:
                return
