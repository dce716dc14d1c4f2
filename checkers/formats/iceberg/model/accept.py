"""Is a real run one that the model allows? Each commit must be one that the validations let through, each abort one that they gave.

The table after a commit is in the log, so what is hidden, the version that an operation had scanned, concerns this commit alone: no search
over the whole run is needed. **A commit** is accepted if there is a version of main, its base or an older one, at which the operation means
what the commit did, and no commit since then breaks a rule of the operation. An older version only adds commits, so the first one that
the rules refuse ends the search. **An abort** is accepted if its message is that of a rule which the operation has, and a commit came since it
began that can have broken it.

What the log does not say is never held against a run (:mod:`checkers.formats.iceberg.model.observed`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypedDict, cast

from checkers.conflicts.validations import (
    BLIND,
    COMPACTIONS,
    MESSAGES,
    OVERWRITING,
    POSITION_DELETES,
    VALIDATED,
    FileEffect,
    PendingCommit,
    RowFilter,
    refusals,
    spark_rules,
)
from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.formats.iceberg.model.observed import MainCommits, op_of
from checkers.formats.iceberg.records import IcebergCommit
from checkers.formats.iceberg.tableformat import Iceberg
from checkers.replay.past import EarlierCommits, ScannedState, compare
from checkers.timeline import explain
from checkers.timeline.promise import at_commit, blind_append, isolation, known
from checkers.timeline.timeline import Timeline, kind_of, meaning
from checkers.unit import Part, TableChecker, Unit, unjudged
from checkers.verdict import Anomaly, Verdict
from workloads.engines.engine import Rule
from workloads.engines.engines import ENGINES, SPARK
from workloads.operations.kind import Kind
from workloads.tables import State

UNVALIDATED, UNEXPLAINED = "unvalidated-commit", "unexplained-abort"


class ModelTable(TypedDict):
    """What was held to the rules, and which rules were met.

    Attributes:
        commits: commits that the rules let through; ``older``: those of an operation that had scanned an older version than its base.
        aborts: aborts that a rule explains; ``rules``: rule → how many of them can be its.
        left_out: kind → commits and aborts that the model does not know.
    """

    commits: int
    older: int
    aborts: int
    rules: dict[str, int]
    left_out: dict[str, int]


class ModelStats(TypedDict):
    """What the checker counted."""

    tables: dict[str, ModelTable]


class AcceptedCommits(TableChecker):
    """Commits that the validations would have refused, and aborts that no validation gives."""

    name = "model"
    stats_type = ModelStats
    names = frozenset({UNVALIDATED, UNEXPLAINED})

    def part(self, unit: Unit) -> Part | None:
        """Anomalies ``unvalidated-commit``, ``unexplained-abort``.

        ``stats``: :class:`ModelStats`.
        """
        t = unit.timeline
        if t is None:
            return unjudged(unit)
        if t.log.table_format != Iceberg.name:
            return None
        if not t.rooted:
            return Part(t.name, notes=(f"{t.name}: main is not known down to its root, so no scan is",), undecided=True)
        judge = TableRun(t, self.name)
        judge.run()
        return Part(t.name, tuple(judge.anomalies), tuple(judge.notes), judge.undecided, judge.stats())


@dataclass
class TableRun:
    """The walk over one table's main, and its aborted operations."""

    t: Timeline
    checker: str
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    undecided: bool = False
    accepted: int = 0
    older: int = 0
    aborts: int = 0
    met: Counter[Rule] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.main = cast("tuple[IcebergCommit, ...]", self.t.main)
        self.past = EarlierCommits(self.t, [self.t.changes(c) for c in self.main])

    def stats(self) -> ModelTable:
        """Counts."""
        return {
            "commits": self.accepted,
            "older": self.older,
            "aborts": self.aborts,
            "rules": dict(sorted(self.met.items())),
            "left_out": dict(sorted(self.left_out.items())),
        }

    def run(self) -> None:
        """Judge every commit of main, and every abort by a validation."""
        self.seen = MainCommits.of(self.t, self.main)
        state = State()
        for k, c in enumerate(self.main, 1):
            change = self.past.changes[k - 1]
            try:
                if change is not None:
                    self._judge(k, c, state)
                    state.apply(*change)
            except KeyError:
                change = None  # it removes a row that is not there by the log itself
            if change is None:
                self.undecided = True
                self.notes.append(
                    f"{self.t.name}: the rows of {explain.snapshot(c)} are not known: no commit is judged from there on"
                )
                break
        for o in self.t.ops:
            self._judge_abort(o)

    # --- commits

    def _judge(self, k: int, c: IcebergCommit, state: State) -> None:
        o = op_of(c, self.t.everything)
        kind = kind_of(o) if o is not None else None
        rules = None if o is None or kind is None else self._rules(o, kind, bool(self._deletes_of(k)))
        if o is None or kind is None or rules is None or o.table != self.t.name:
            self.left_out[o.f if o is not None else "nobody's"] += 1
            return
        if blind_append(self.t.spec, o):
            rules = ()  # an abort can be that of the part of it that is validated
        refused: tuple[Rule, ...] = ()
        oldest = k - 1 if at_commit(self.t.spec, o) else 0
        with closing(self.past.states_back(state, k - 1, oldest)) as states:
            for scan, base in states:
                if scan < k - 1 and (refused := self._refused(o, k, scan, rules, base)):
                    break
                found = self._scan(o, kind, k, base, scan)
                if found is None:
                    self.left_out[o.f] += 1
                    return
                if self._fits(found, k, scan):
                    self.accepted += 1
                    self.older += scan < k - 1
                    return
        if self.t.set_backs or self.t.rollback_in_gap:
            self.left_out[f"{o.f}, beside a rollback"] += 1
            return
        self._accuse(k, c, o, scan, refused)

    def _deletes_of(self, k: int) -> bool:
        e = self.seen.effects[k - 1]
        deletes = any(f.content in ("position-deletes", "deletion-vector") for f in self.main[k - 1].added_files)
        return deletes and not e.removed

    def _scan(self, o: Operation, kind: Kind, k: int, state: State, j: int) -> ScannedState | None:
        real = self.past.changes[k - 1]
        assert real is not None
        if not kind.changes_rows:
            return compare(j, (), (), real)
        return self.past.scan(o, state, real, j)

    def _fits(self, found: ScannedState, k: int, scan: int) -> bool:
        """Whether the commit did what its operation means there. What it did not remove had gone before it committed; and whoever writes
        the rest of a file anew brings back what had."""
        if found.over or found.unmade:
            return False
        since = Counter(row for c in self.past.changes[scan : k - 1] if c is not None for row in c.removed)
        back = Counter(found.made)
        try:
            homes = {self.seen.file_of(row, scan) for row in back}
        except KeyError:  # it cannot have read it
            return False
        return Counter(found.gone) <= since and back <= since and homes <= {None, *self.seen.effects[k - 1].removed}

    def _refused(self, o: Operation, k: int, scan: int, rules: Sequence[Rule], state: State) -> tuple[Rule, ...]:
        """The rules by which the commits since a scan refuse this one."""
        own = self.seen.effects[k - 1]
        if self._deletes_of(k):
            want = meaning(o, state, self.t.spec)
            files = {self.seen.file_of(row, scan) for row in want.removed} if want is not None else set[str | None]()
            own = replace(own, deletes=own.deletes.union(f for f in files if f is not None))
        others = self.seen.effects[scan : k - 1]
        found: dict[Rule, None] = {}
        for selects in _filters(o):
            found |= dict.fromkeys(refusals(PendingCommit(own, selects, tuple(rules)), others, self.seen.live))
        return tuple(found)

    def _rules(self, o: Operation, kind: Kind, deletes: bool) -> tuple[Rule, ...] | None:
        """The rules of an operation's engine, but for what a second attempt requires; None: the model does not know them."""
        if not known(o) or kind.two_tables or not self._known(o, kind):
            return None
        serializable = isolation(self.t.spec, o) != "snapshot"
        if o.engine != SPARK:
            commit = ENGINES[o.engine].commits.get(o.f)
            if commit is None:
                return None
            return tuple(r for r in commit.validates if (serializable or r != "added data") and r != "main")
        if kind.blind_append or kind.verb == "insert":
            return ()
        return spark_rules(
            self._name(o),
            merge_on_read=deletes,
            serializable=serializable,
            format_version=self.t.spec.format_version,
            again=False,
            starting_sequence=not isinstance(o.value, dict) or o.value.get("starting_sequence") is not False,
        )

    def _name(self, o: Operation) -> str:
        """The kind by which the rules know it."""
        if o.f == "delete-partition" and not at_commit(self.t.spec, o):
            return "delete-where"  # the partition's rows are not files of their own
        validated = isinstance(o.value, dict) and o.value.get("validated")
        return f"{o.f}{VALIDATED}" if validated else o.f

    def _known(self, o: Operation, kind: Kind) -> bool:
        if kind.verb == "maintenance":
            return o.f in (*COMPACTIONS, POSITION_DELETES, "rewrite-manifests")
        return kind.verb in ("insert", "update", "delete", "merge") or self._name(o) in (*BLIND, *OVERWRITING)

    def _accuse(self, k: int, c: IcebergCommit, o: Operation, scan: int, refused: Sequence[Rule]) -> None:
        why = (
            f"a scan {explain.after(scan)} or before is refused by: {', '.join(refused)} ({', '.join(map(MESSAGES.__getitem__, refused))})"
            if refused
            else "and there is no older one"
        )
        self.anomalies.append(
            Anomaly(
                UNVALIDATED,
                self.checker,
                self.t.name,
                f"the {explain.operation(o)} committed {explain.snapshot(c)}, which its engine's validations do not let through: at no scan "
                f"{explain.after(scan + 1)} or later does it mean what it did, {why}.",
                ops=(o.op,),
                events=o.indices,
                snapshots=(c.snapshot_id,),
                evidence={"rules": list(refused), "scan": scan},
            )
        )

    # --- aborts

    def _judge_abort(self, o: Operation) -> None:
        kind = kind_of(o)
        text = "\n".join(e[1] for e in o.error or () if len(e) > 1)
        possible = [rule for rule, message in MESSAGES.items() if message in text]
        if o.type != "fail" or kind is None or not possible:
            return
        both = [self._rules(o, kind, deletes) for deletes in (False, True)]
        if None in both or self._of_a_second_attempt(o, possible):
            self.left_out[f"{o.f}, aborted"] += 1
            return
        has = [rule for rule in possible if any(rule in (rules or ()) for rules in both)]
        met = [rule for rule in has if any(_may_break(rule, y) for y in self._meanwhile(o))]
        if met:
            self.aborts += 1
            self.met.update(met)
            return
        why = (
            "which no commit since it began can have broken"
            if has
            else "to which its engine does not hold such an operation on this table"
        )
        self.anomalies.append(
            Anomaly(
                UNEXPLAINED,
                self.checker,
                self.t.name,
                f"the {explain.operation(o)} was aborted by the validation {' or '.join(has or possible)} ({MESSAGES[possible[0]]}), {why}.",
                ops=(o.op,),
                events=o.indices,
                evidence={"rules": list(has or possible)},
            )
        )

    def _of_a_second_attempt(self, o: Operation, rules: Sequence[Rule]) -> bool:
        """Whether it may be of what only a second attempt requires (``ManifestFilterManager``), which the model leaves out."""
        return "replaced delete files" in rules and self._name(o) in (*COMPACTIONS, *OVERWRITING)

    def _meanwhile(self, o: Operation) -> Iterator[FileEffect]:
        """What was committed since it began, on main or not; also by itself, if it took its own commit for another's."""
        first = self.t.settled(o.invoked.index)
        yield from self.seen.effects[first:]
        for c in self.t.log.commits:
            if c.snapshot_id not in self.t.position:
                yield _roughly(cast(IcebergCommit, c))


def _roughly(c: IcebergCommit) -> FileEffect:
    """Of a commit that is not on main, only what :func:`_may_break` asks."""
    return FileEffect(
        c.operation,
        removed=frozenset(f.path for f in c.removed_files if f.content == "data"),
        deletes=frozenset(f.path for f in c.added_files if f.role == "deletes"),
        merged=frozenset(f.path for f in c.removed_files if f.role == "deletes"),
    )


def _may_break(rule: Rule, y: FileEffect) -> bool:
    """Whether a commit can have been the reason: it did what the rule forbids, to whichever files."""
    deletes = bool(y.deletes or y.covered or y.equality) or y.operation in ("delete", "overwrite")
    match rule:
        case "added data":
            return y.operation in ("append", "overwrite")
        case "removed data" | "replaced files" | "referenced files" | "referenced files, rewritten":
            return bool(y.removed)
        case "replaced manifests":
            return True
        case "replaced delete files":
            return bool(y.merged)
        case _:
            return deletes


def _filters(o: Operation) -> list[RowFilter]:
    """What Iceberg gets of an operation's condition: one for each key that it names."""
    kind, value = kind_of(o), o.value if isinstance(o.value, dict) else {}
    part = value.get("part")
    if isinstance(part, int):
        return [RowFilter(part)]
    ids = value.get("ids")
    by_key = kind is not None and kind.verb in ("update", "delete") and not o.f.endswith("by-expression")
    if by_key and isinstance(ids, list):
        return [RowFilter(key=i) for i in ids]
    return [RowFilter()]


@dataclass
class Runs:
    """What several runs were held to."""

    judged: int = 0
    refused: int = 0
    commits: int = 0
    older: int = 0
    aborts: int = 0
    met: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict) -> None:
        """One more run."""
        self.judged += 1
        self.refused += verdict.valid is False
        for t in cast("ModelStats", verdict.stats)["tables"].values() if verdict.stats else ():
            self.commits += t["commits"]
            self.older += t["older"]
            self.aborts += t["aborts"]
            self.met.update(t["rules"])
            self.left_out.update(t["left_out"])

    def lines(self) -> list[str]:
        """In words."""
        met = ", ".join(f"{rule} {n:,}" for rule, n in self.met.most_common())
        never = ", ".join(rule for rule in MESSAGES if rule not in self.met)
        others = ", ".join(f"{what} {n:,}" for what, n in self.left_out.most_common())
        return [
            f"{self.judged:,} runs, {self.refused:,} of them refused: {self.commits:,} commits accepted, {self.older:,} of them with a scan "
            f"older than their base; {self.aborts:,} aborts explained",
            f"rules that aborts met: {met or 'none'}",
            f"rules that no abort met: {never or 'none'}",
            *([f"left out: {others}"] if others else []),
        ]
