"""The ``commits`` checker: is every acknowledged write on main exactly once, no failed one, and is their order possible?

An acknowledgement is a promise that the operation's snapshot is on main: what became of it is its *fate* (:mod:`checkers.commits.fate`).
The order of main is :mod:`checkers.commits.order`'s. Each snapshot names its operation (Elle's recoverability).

A procedure's answer says what it did: if that needs a snapshot, the snapshot must be there, and what it says must be what the log shows
(:mod:`checkers.timeline.answers`). The reader's captures are answers of the catalog, too: each must show what was acknowledged before it
was asked (:mod:`checkers.timeline.captured`).

A commit that a rollback removed from main is gone on purpose: if a version sets main back, a concurrent rollback to that snapshot
explains it (``Timeline.set_backs``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from checkers.commits import anomalies
from checkers.commits.blame import Blame
from checkers.commits.fate import AcknowledgedWrite, Fate, fate, is_dml, writes
from checkers.commits.in_run import InRun, in_run, resolved, saw_all, with_silence
from checkers.commits.order import out_of_order
from checkers.evidence.history import Operation
from checkers.evidence.makers import named_by
from checkers.evidence.replace import replace
from checkers.timeline import explain
from checkers.timeline.answers import answering, contradictions, understood
from checkers.timeline.captured import of_no_version, stale_captures, without_table
from checkers.timeline.labels import off_main_without_name
from checkers.timeline.timeline import Timeline, kind_of
from checkers.timeline.timelines import Whole
from checkers.unit import Part, TableChecker, Unit, unjudged
from checkers.verdict import Anomaly, Verdict


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

    def doubt(self, note: str) -> None:
        """Something could not be judged."""
        self.undecided = True
        self.notes.append(note)

    def never_seen(self, write: AcknowledgedWrite, blame: Blame) -> None:
        """Note an acknowledged operation of which no snapshot was seen."""
        if blame.silent(write.o):
            self.silent[len(self.anomalies)] = write.o
        self.anomalies.append(anomalies.never_seen(write, blame))


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
            return unjudged(unit, InRun(saw_all=saw_all(unit)))
        f, counts = _check_table(t, Blame.of(unit.requests))
        notes = tuple(f"{t.name}: {n}" for n in f.notes)
        more = in_run(unit, f.silent)
        return Part(t.name, tuple(f.anomalies), notes, f.undecided, counts, more=more)

    def fold(self, parts: Sequence[Part]) -> Verdict:
        """As for any checker of tables; with what became of operations in all their tables, and whom what proxies did not see blames."""
        in_run: dict[str, InRun] = {p.table: p.more for p in parts if p.more is not None}
        if all(m.saw_all for m in in_run.values()):
            parts = [with_silence(p) for p in parts]
        verdict = super().fold(parts)
        decided = [p.table for p in parts if p.judged]
        if decided and not any(name in in_run and in_run[name].counts for name in decided):
            return verdict
        return replace(verdict, stats={**verdict.stats, "resolutions": resolved(in_run)})


def _check_table(t: Timeline, blame: Blame) -> tuple[_Findings, CommitsTable]:
    f = _Findings()
    f.anomalies += _captured(t, f)
    _known_so_far(t, f)
    f.anomalies += _foreign(t, f)
    # Before what a rollback that says another snapshot leaves unexplained: the commits that it took out of main.
    f.anomalies += [anomalies.lost_rollback(t, o) for o in t.ops if _sets_back(o) and t.without_effect(o)]
    counts, fates = _judge_writes(t, blame, f)
    _say(t, fates, blame, f)
    if counts["undecided"]:
        f.doubt(
            f"{counts['undecided']} acknowledged operations left no snapshot in the log, but the log need not have them: "
            "it ends before they were acknowledged, or begins after, or a rollback may have been in versions that it lacks"
        )
    if counts["left_none"]:
        f.notes.append(f"{counts['left_none']} acknowledged operations left no snapshot, and had nothing to change")
    if odd := [o for o in answering(t.ops) if not understood(o)]:
        f.doubt(
            f"what the {explain.listing(odd, word=explain.operation)} answered has not the form that the procedure returns, so it was "
            "not compared with the log"
        )
    f.anomalies += out_of_order(t)
    return f, counts


def _captured(t: Timeline, f: _Findings) -> Iterator[Anomaly]:
    """What the catalog answered to the reader of the table log, against what it had to answer."""
    last = t.log.captures[-1] if t.log.captures else None
    if last is not None and last.metadata is None:
        yield anomalies.lost_table(t, last)
    elif not t.read_to_pointer:
        f.doubt("the metadata that the catalog points at could not be read; judged up to the last that could")
    for c, found, proof in without_table(t):
        yield anomalies.without_table(t, c, found, proof)
    for stale in stale_captures(t):
        yield anomalies.stale_pointer(t, stale)


def _known_so_far(t: Timeline, f: _Findings) -> None:
    """Say what of the table the log does not show."""
    strange = of_no_version(t)
    if strange:
        f.doubt(
            f"the catalog's pointer named {strange[0].metadata} at {explain.s(strange[0].time)}"
            f"{f' (and {len(strange) - 1} more such files)' if len(strange) > 1 else ''}, which is none of the log's versions: what "
            "that version showed was not judged"
        )
    if not t.rooted:
        start = t.main[0].parent_id if t.main else t.log.metadata[-1].current
        f.doubt(f"main is not known down to its root: snapshot {start} is in no metadata that was read")
    unknown_kinds = sorted({o.f for o in t.ops if kind_of(o) is None})
    if unknown_kinds:
        f.doubt(f"operations of unknown kinds were not judged: {', '.join(unknown_kinds)}")


def _judge_writes(t: Timeline, blame: Blame, f: _Findings) -> tuple[CommitsTable, dict[Fate, list[AcknowledgedWrite]]]:
    """Every operation's answer and snapshots: counts, and the acknowledged writes by fate."""
    fates: dict[Fate, list[AcknowledgedWrite]] = {each: [] for each in Fate}
    acknowledged = duplicate = false_failures = 0
    for o in t.ops:
        wrong = contradictions(t, o)
        if wrong:
            f.anomalies.append(anomalies.wrong_result(t, o, wrong))
        if not writes(o):
            continue
        on_main = t.on_main(o.op)
        if len(on_main) > 1 and is_dml(o):
            duplicate += 1
            f.anomalies.append(anomalies.duplicate(t, o, on_main))
        if o.type == "fail" and on_main:
            false_failures += 1
            f.anomalies.append(anomalies.false_failure(t, o, on_main))
        if o.type != "ok":
            continue
        acknowledged += 1
        write = AcknowledgedWrite(t, o)
        found = fate(write)
        fates[found].append(write)
        if found is Fate.DROPPED:
            f.anomalies.append(anomalies.dropped(write))
        elif found is Fate.NEVER_SEEN:
            f.never_seen(write, blame)
    moves = sum(
        not (b.snapshot in t.snapshots and t.snapshots[b.snapshot].parent_id == a.snapshot)
        for a, b in zip(t.versions, t.versions[1:], strict=False)
    )
    counts: CommitsTable = {
        "snapshots": len(t.log.commits),
        "main": len(t.main),
        "main_set_back": moves,
        "acknowledged": acknowledged,
        "lost": len(fates[Fate.DROPPED]) + len(fates[Fate.NEVER_SEEN]),
        "duplicate": duplicate,
        "false_failures": false_failures,
        "undecided": len(fates[Fate.UNDECIDED]),
        "left_none": len(fates[Fate.LEFT_NONE]),
        "rolled_back": len(fates[Fate.ROLLED_BACK]),
        "named_by": _named_by(t),
    }
    return counts, fates


def _say(t: Timeline, fates: Mapping[Fate, list[AcknowledgedWrite]], blame: Blame, f: _Findings) -> None:
    """Say of which acknowledged writes the log shows too little."""
    _unnamed(t, [w.o.op for w in fates[Fate.PERHAPS_UNNAMED]], f)
    rollbacks = [t.rolled_back(c.snapshot_id) for w in fates[Fate.ROLLED_BACK] for c in w.dropped]
    doubtful = {b.operation.op for b in rollbacks if b is not None and not b.certain and not blame.set_back(b)}
    if doubtful:
        f.doubt(
            f"whether {explain.listing(sorted(doubtful))} set main back, or a commit that was applied twice did, cannot be told apart: "
            "acknowledged commits may be rolled back, or lost"
        )
    unseen = [w.o.op for w in fates[Fate.PERHAPS_ROLLED_BACK]]
    if unseen:
        f.doubt(
            f"the acknowledged commits of {explain.listing(unseen)} are not on main at the end: a rollback may have taken them out of it, "
            "in versions that the log lacks or after the history ends"
        )


def _sets_back(o: Operation) -> bool:
    kind = kind_of(o)
    return kind is not None and kind.sets_back


def _foreign(t: Timeline, f: _Findings) -> Iterator[Anomaly]:
    """Snapshots on main that no operation of the history can have made."""
    for c in t.main:
        if c.op is None:
            continue
        o = t.everything.get(c.op)
        if o is None:
            if not t.complete:
                f.doubt(f"{explain.snapshot(c)} names {c.op}, which the incomplete history does not have")
                continue
            why = "no operation of that id was ever invoked"
        elif o.table != t.name:
            why = f"the {explain.operation(o)} was invoked on {'no table' if o.table is None else f'table {o.table}'}"
        elif kind_of(o) is not None and not writes(o):
            why = f"the {explain.operation(o)} commits nothing"
        else:
            continue
        yield anomalies.unknown_commit(t, c, o, why)


def _unnamed(t: Timeline, perhaps: list[str], f: _Findings) -> None:
    """Say of snapshots that name no operation whose they are, or (``perhaps``) may be; of those off main only if it matters."""
    for snapshot, op in t.labels.made.items() if len(t.labels.made) <= explain.MOST_IN_A_SENTENCE else ():
        f.notes.append(
            f"snapshot {snapshot} names no operation; proxies saw it in a request of {op}"
            if t.labels.how.get(snapshot) == "proxy"
            else f"snapshot {snapshot} names no operation; by its rows only {op} can have made it, and nothing else"
        )
    if len(t.labels.made) > explain.MOST_IN_A_SENTENCE:
        counts = ", ".join(f"{how} {n}" for how, n in _named_by(t).items())
        f.notes.append(f"{len(t.labels.made)} snapshots name no operation; whose they are is known. Named by: {counts}")
    for snapshot, ops in t.labels.shared.items():
        f.notes.append(f"snapshot {snapshot} has the rows of several operations in one commit: {explain.listing(ops)}")
    if t.labels.doubts:
        f.undecided = True
        f.notes += t.labels.doubts
    here, elsewhere = (
        [c.snapshot_id for c in commits if c.snapshot_id not in t.labels.shared]
        for commits in ([c for c in t.main if c.op is None], off_main_without_name(t))
    )
    makers = f"; {explain.listing(perhaps)}, acknowledged without a snapshot, may have made them" if perhaps else ""
    if here:
        f.doubt(f"snapshots on main that name no operation: {explain.listing(here)}{makers}")
    if elsewhere and perhaps:
        f.doubt(f"snapshots that are not on main and name no operation: {explain.listing(elsewhere)}{makers}")


def _named_by(t: Timeline) -> dict[str, int]:
    found = Counter("shared" if c.snapshot_id in t.labels.shared else named_by(c) or "nothing" for c in t.log.commits)
    return {how: found[how] for how in ("summary", "proxy", "rows", "shared", "nothing") if found[how]}
