"""Stories: the anomalies of a run that have one cause, the cause first, and the known defects that they look like.

A client whose commit was applied but not acknowledged may believe that it failed (``false-failure``), then delete the files of its commit
(``missing-file``); then nobody can read the table (:mod:`checkers.timeline.unreadable`). Three findings, one cause. Anomalies of one table
belong together if

* the operation at fault is the same. It is the one that a ``false-failure`` or ``duplicate-commit`` names first, the one that wrote a missing
  file, and the one that removed another's commit from main (``lost-commit``); or
* the same file is missing; or
* one is a lost commit, and the other is about rows of that commit and names its operation; or
* both are requests that the catalog server accepted and did not carry out.

Who wrote a manifest or manifest list, its name says (``SnapshotProducer``: ``<commit UUID>-m0.avro`` and
``snap-<snapshot>-<attempt>-<commit UUID>.avro``); later snapshots use the same manifests. Of other files it is the operation that the
``missing-file`` names first. Nothing here is a verdict: anomalies are counted and judged as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers import pointer
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation, UnpairedError
from checkers.evidence.tableformat import format_of
from checkers.judge.known import Known, Ran, known_defects
from checkers.timeline import explain
from checkers.timeline.two_tables import tables_of
from checkers.timeline.unreadable import Unreadable, file_words, same_file, unreadable
from checkers.verdict import Anomaly, Verdict
from workloads.operations.kinds import KINDS

UNREADABLE = "unreadable"
"""Name of the last step of a story about a table that nobody can read any more."""
AT_FAULT = ("false-failure", "duplicate-commit")
"""Anomalies whose first operation is the one at fault."""
ORDER = ("lost-swap", "lost-update", "false-failure", "duplicate-commit", "lost-commit", "missing-file")
"""What comes first in a story: a cause before its effects. Other names follow."""
MOST = 20
"""Stories per run."""


@dataclass(frozen=True, slots=True)
class Step:
    """Anomalies of one name in a story, or (``unreadable``) what became of the table.

    Attributes:
        checkers: that found it.
        count: number of anomalies.
        ops: the operations at fault, at most four.
        text: one sentence without full stop.
    """

    name: str
    checkers: tuple[str, ...]
    count: int
    ops: tuple[str, ...]
    text: str

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "checkers": list(self.checkers),
            "count": self.count,
            "ops": list(self.ops),
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Story:
    """Findings on one table that have one cause, the cause first; ``known``: the defects that they look like."""

    table: str
    steps: tuple[Step, ...]
    known: tuple[Known, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "table": self.table,
            "steps": [s.to_json() for s in self.steps],
            "known": [k.to_json() for k in self.known],
        }


@dataclass(frozen=True, slots=True)
class Told:
    """What the findings of a run have in common.

    Attributes:
        unreadable: tables that were unreadable at the end, by time.
        stories: of two findings or more, the first anomaly's first.
        known: defects that the anomalies outside the stories look like.
        problem: why there are no stories, if telling them failed; else empty.
    """

    unreadable: tuple[Unreadable, ...] = ()
    stories: tuple[Story, ...] = ()
    known: tuple[Known, ...] = ()
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """The keys of ``results.json``."""
        return {
            **({"stories_problem": self.problem} if self.problem else {}),
            "unreadable": [u.to_json() for u in self.unreadable],
            "stories": [s.to_json() for s in self.stories],
            "known": [k.to_json() for k in self.known],
        }


NOTHING_TOLD = Told()
"""A run without findings."""


def tell(evidence: Evidence, verdicts: Sequence[Verdict], ran: Ran | None) -> Told:
    """The stories of a run. ``ran``: what it ran on; without it no defect is looked up. Never raises: verdicts are worth more than stories."""
    try:
        return _tell(evidence, verdicts, ran)
    except UnpairedError:  # said by the verdict of the history
        return NOTHING_TOLD
    except Exception as e:
        return Told(problem=f"the stories could not be told: {type(e).__name__}: {e}")


def _tell(evidence: Evidence, verdicts: Sequence[Verdict], ran: Ran | None) -> Told:
    broken = unreadable(evidence)
    found = [a for v in verdicts for a in v.anomalies if a.same_as is None]
    operations = {o.op: o for o in evidence.history.operations()}
    stories: list[Story] = []
    single: list[Anomaly] = [a for a in found if a.table is None]
    for table in sorted({*(a.table for a in found if a.table is not None), *(u.table for u in broken)}):
        mine = [a for a in found if a.table == table]
        end = next((u for u in broken if u.table == table), None)
        groups = _groups(mine, _Facts.of(evidence, table))
        last = _group_of(end, groups) if end is not None else None
        for group in groups:
            if len(group) == 1 and group is not last:
                single += group
                continue
            stories.append(_story(table, group, end if group is last else None, operations, evidence, ran))
        if end is not None and last is None:
            stories.append(_story(table, [], end, operations, evidence, ran))
    names = dict.fromkeys(a.name for a in single)
    known = [k for name in names for k in known_defects(ran, [a for a in single if a.name == name], evidence)]
    return Told(broken, tuple(stories[:MOST]), tuple(dict.fromkeys(known)))


@dataclass(frozen=True, slots=True)
class _Facts:
    """Snapshot → its operation, and what names a commit's files → its operation, of one table."""

    makers: Mapping[int, str]
    commits: Mapping[str, str]
    maker_of: Callable[[str], str | None]

    @staticmethod
    def of(evidence: Evidence, table: str) -> _Facts:
        log = evidence.logs.get(table)
        if log is None:
            return _Facts({}, {}, lambda _: None)
        made = [(c, c.op) for c in log.commits if c.op is not None]
        maker_of = format_of(log).maker_of
        by_files = {who: op for c, op in made for f in c.own_files if (who := maker_of(f)) is not None}
        return _Facts({c.snapshot_id: op for c, op in made}, by_files, maker_of)

    def victim(self, a: Anomaly) -> str | None:
        """The operation whose commit a ``lost-commit`` says is lost: the maker of its first snapshot, or the only operation."""
        made = self.makers.get(a.snapshots[0]) if a.snapshots else None
        return made or (a.ops[0] if a.ops else None)

    def at_fault(self, a: Anomaly) -> frozenset[str]:
        """The operations at fault."""
        if a.name in AT_FAULT:
            return frozenset(a.ops[:1])
        if a.name == "missing-file":
            wrote = {self.commits.get(self.maker_of(f) or "") for f in a.files} - {None}
            return frozenset(op for op in wrote if op is not None) or frozenset(a.ops[:1])
        if a.name == "lost-commit":
            return frozenset(a.ops) - {self.victim(a)}
        return frozenset()

    def lost(self, a: Anomaly) -> frozenset[str]:
        """The operations whose commits are lost."""
        if a.name == "lost-commit":
            return frozenset(op for op in (self.victim(a),) if op is not None)
        if a.name in ("lost-update", "lost-swap") and a.checker == pointer.Pointer.name:
            return frozenset(map(str, a.evidence.get(pointer.LOST, ())))
        return frozenset()


def _linked(a: Anomaly, b: Anomaly, facts: _Facts) -> bool:
    """Whether two anomalies of one table have one cause."""
    if facts.at_fault(a) & facts.at_fault(b):
        return True
    if a.name == b.name == "missing-file" and any(same_file(x, y) or same_file(y, x) for x in a.files for y in b.files):
        return True
    if a.name == b.name == "lost-swap" and pointer.ANSWER in a.evidence and pointer.ANSWER in b.evidence:
        return True
    if facts.lost(a) and facts.lost(b):
        return bool(facts.lost(a) & facts.lost(b))
    for lost, other in ((a, b), (b, a)):
        gone = facts.lost(lost)
        if gone & set(other.ops) and not facts.at_fault(other) and set(lost.keys) & set(other.keys):
            return True
    return False


def _groups(found: Sequence[Anomaly], facts: _Facts) -> list[list[Anomaly]]:
    """The anomalies in groups of one cause, in the order of their first one."""
    groups: list[list[Anomaly]] = []
    for a in found:
        near = [g for g in groups if any(_linked(a, b, facts) for b in g)]
        joined = [*(b for g in near for b in g), a]
        groups = [g for g in groups if not any(g is n for n in near)]
        groups.append(joined)
    place = {id(a): n for n, a in enumerate(found)}
    return sorted(groups, key=lambda g: min(place[id(a)] for a in g))


def _group_of(end: Unreadable, groups: Sequence[list[Anomaly]]) -> list[Anomaly] | None:
    """The group in which the file is missing that made the table unreadable."""
    for group in groups:
        if any(a.name == "missing-file" and any(same_file(f, end.file) for f in a.files) for a in group):
            return group
    return None


def _story(
    table: str,
    group: Sequence[Anomaly],
    end: Unreadable | None,
    operations: Mapping[str, Operation],
    evidence: Evidence,
    ran: Ran | None,
) -> Story:
    facts = _Facts.of(evidence, table)
    names = sorted({a.name for a in group}, key=lambda n: (ORDER.index(n) if n in ORDER else len(ORDER), n))
    cleaned = any(table in tables_of(o) and _deletes_live_files(o) for o in operations.values())
    failed = {op for a in group if a.name == "false-failure" for op in a.ops[:1]}
    steps = [
        _step(name, [a for a in group if a.name == name], facts, operations, failed, cleaned=cleaned) for name in names
    ]
    if end is not None:
        steps.append(Step(UNREADABLE, (), 1, (end.op,), unreadable_words(end)))
    return Story(table, tuple(steps), known_defects(ran, group, evidence))


def _deletes_live_files(o: Operation) -> bool:
    """Whether it can delete files of running operations; an expiry deletes none that a listed snapshot needs."""
    kind = KINDS.get(o.f)
    return kind is not None and kind.deletes_files and not kind.needs_captured_log


def unreadable_words(u: Unreadable) -> str:
    """``accounts: unreadable since 9.0 s (file …); 565 later operations say nothing``, without the table."""
    later = "" if not u.later else f"; {u.later} later operation{' says' if u.later == 1 else 's say'} nothing"
    return f"unreadable since {u.since / 1e9:.1f} s ({file_words(u.file)}){later}"


def _step(
    name: str,
    found: Sequence[Anomaly],
    facts: _Facts,
    operations: Mapping[str, Operation],
    failed: Iterable[str],
    *,
    cleaned: bool,
) -> Step:
    ops = tuple(dict.fromkeys(op for a in found if (op := _first(a, facts)) is not None))
    who = explain.listing(_named(ops, operations))
    files = len({f for a in found for f in a.files})
    if name == "false-failure":
        text = f"{who}: reported as failed, but the commit is on main"
    elif name == "missing-file" and ops and {*ops} <= {*failed} and not cleaned:
        text = f"{who}: the client that believed this failure deleted {explain.count(files, 'file')} that main needs"
    elif name == "missing-file":
        by = f" of {who}" if ops else ""
        text = f"{explain.count(files, 'file')}{by} that main needs {'is' if files == 1 else 'are'} not in the store"
    elif name == "lost-swap" and all(pointer.ANSWER in a.evidence for a in found):
        answers = explain.listing(dict.fromkeys(str(a.evidence[pointer.ANSWER]) for a in found))
        it = ("the commit", "it") if len(found) == 1 else (f"these {len(found)} commits", "them")
        text = f"{who}: the catalog server answered {answers} and did not make {it[0]}: no metadata version has {it[1]}"
    elif name == "lost-commit":
        victims = explain.listing(_named([v for a in found if (v := facts.victim(a)) is not None], operations))
        movers = explain.listing(_named(sorted({op for a in found for op in facts.at_fault(a)}), operations))
        where = "never" if all(a.evidence.get("seen") is False for a in found) else "no longer"
        text = f"{victims}: acknowledged, but {where} on main" + (f", moved off it by {movers}" if movers else "")
    elif name == "duplicate-commit":
        text = f"{who}: committed more than once"
    else:
        text = f"{explain.count(len(found), 'anomaly', 'anomalies')}" + (f" of {who}" if who else "")
    return Step(name, tuple(dict.fromkeys(a.checker for a in found)), len(found), ops[: explain.MOST], text)


def _first(a: Anomaly, facts: _Facts) -> str | None:
    at_fault = sorted(facts.at_fault(a))
    return at_fault[0] if at_fault else a.ops[0] if a.ops else None


def _named(ops: Iterable[str], operations: Mapping[str, Operation]) -> Iterator[str]:
    for op in dict.fromkeys(ops):
        yield f"{operations[op].f} {op}" if op in operations else op
