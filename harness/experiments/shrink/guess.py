"""The first guesses: which operations of a failed run may be enough to show an anomaly again, the fewest first. Pure.

The checkers know the anomaly's minimal history (:mod:`checkers.judge.minimal`) and its trail. A part of a history can show an anomaly that
the same operations would not make again: a delete must find the row in a file with others. So each guess adds what may have made the
state in which it happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.paths import normalise
from checkers.timeline.touched import touches
from checkers.timeline.two_tables import tables_of
from checkers.verdict import Anomaly
from workloads.operations.kinds import KINDS

MOST_GUESSES = 3
"""Anomalies of one name that are guessed from."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Operations that may be enough, and in words why these."""

    ops: frozenset[str]
    why: str


def guesses(evidence: Evidence, found: Sequence[Anomaly]) -> Iterator[Guess]:
    """The guesses for anomalies of one name, each a larger set than those of the same anomaly before it; each set once."""
    known = {o.op: o for o in evidence.history.operations()}
    ranked = sorted(found, key=lambda a: len(_named(a)))[:MOST_GUESSES]
    seen: set[frozenset[str]] = set()
    by_step = [list(_guesses_of(evidence, a, known)) for a in ranked]
    for step in range(max(map(len, by_step), default=0)):
        for own in by_step:
            if step < len(own) and own[step].ops and own[step].ops not in seen:
                seen.add(own[step].ops)
                yield own[step]
    everything = frozenset(known)
    if everything not in seen:
        yield Guess(everything, "all operations")


def _named(a: Anomaly) -> frozenset[str]:
    return frozenset((*a.ops, *(a.minimal.ops if a.minimal is not None else ())))


def _guesses_of(evidence: Evidence, a: Anomaly, known: dict[str, Operation]) -> Iterator[Guess]:
    """The guesses for one anomaly."""
    ops = frozenset(op for op in _named(a) if op in known)
    yield Guess(ops, "what the anomaly names")
    ends = [o.end for op in _named(a) if (o := known.get(op)) is not None]
    before = {op for op, o in known.items() if any(e is None or o.start <= e for e in ends) or not ends}
    ops |= {op for op in _wrote(evidence, a) if op in before}
    yield Guess(ops, "and what wrote its rows and files before")
    about = {op for op in before if a.table is None or a.table in tables_of(known[op])}
    ops |= {op for op in about if _committed_beside(known[op], [known[n] for n in _named(a) if n in known])}
    yield Guess(ops, "and what may have committed meanwhile")
    ops |= {op for op in about if _may_matter(known[op], a, evidence)}
    yield Guess(ops, "and what may have touched its rows")
    yield Guess(ops | about, "and all before it on its table")
    yield Guess(ops | before, "and all before it")


def _wrote(evidence: Evidence, a: Anomaly) -> frozenset[str]:
    """The operations whose snapshots added or removed rows of the anomaly's ids, or files that it names."""
    files = {normalise(f) for f in a.files}
    keys = {*a.keys}
    out: set[str] = set()
    for name, log in evidence.logs.items():
        if a.table is not None and name != a.table:
            continue
        place = log.columns.index("id") if "id" in log.columns else 0
        for c in log.commits:
            if c.op is None:
                continue
            rows = (*(c.added or ()), *(c.removed or ()))
            paths = [normalise(f.path) for f in (*c.added_files, *c.removed_files)]
            named = any(path == f or path.endswith(f"/{f}") or f.endswith(f"/{path}") for path in paths for f in files)
            if named or any(x.row[place] in keys for x in rows):
                out.add(c.op)
    return frozenset(out)


def _committed_beside(o: Operation, named: Sequence[Operation]) -> bool:
    """Whether an operation may have committed while one of the named ones was under way: it may be why that one was refused."""
    kind = KINDS.get(o.f)
    if kind is None or not kind.commits or o.type == "fail":
        return False
    return any((n.end is None or o.start <= n.end) and (o.end is None or n.start <= o.end) for n in named)


def _may_matter(o: Operation, a: Anomaly, evidence: Evidence) -> bool:
    """Whether an operation may have changed rows of the anomaly's ids, or moved them; all changes if it names no ids."""
    kind = KINDS.get(o.f)
    if kind is None or not kind.commits:
        return False
    spec = evidence.tables.get(o.table or "")
    about = None if spec is None else touches(o, spec)
    if not a.keys or about is None or not kind.changes_rows or about.among is None or about.among:
        return True
    return not {*about.named}.isdisjoint(a.keys)
