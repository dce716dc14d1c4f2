"""What the writers achieved, in a few words: the commonest errors, the commits, and what the run could not test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkers.costs import figures
from checkers.evidence import outcome
from checkers.evidence.history import Operation
from checkers.evidence.lenient import integer, mapping, number
from checkers.load import Load
from checkers.verdict import Validity, Verdict
from reports.drawing import words
from reports.drawing.page import Block, Heading, Table, TableColumn, TableRow, Text, bar, counted, joined, muted
from reports.drawing.svg import element
from reports.run.stored import Stored

MOST_ERRORS = 2
"""Errors that are named."""
LONGEST_ERROR = 240
MOST_KINDS = 4
MOST_TABLES = 64


def errors(run: Stored) -> tuple[tuple[str, str], ...]:
    """(``failed`` or ``unknown``, its commonest errors and how many operations had each), for those of the two that occurred.

    Conflicts are no defect, so they are counted apart from the errors that are named.
    """
    found = []
    for label, end in (("failed", "fail"), ("unknown", "info")):
        ended = [o for o in run.operations if o.type == end]
        if ended:
            found.append((label, _said(ended) + _all_the_same(run, ended)))
    return tuple(found)


def _said(ended: list[Operation]) -> str:
    conflicts: Counter[str] = Counter()
    others, stopped = [], 0
    for o in ended:
        name = outcome.conflict_of(o)
        if any(c == outcome.STOPPED for c, *_ in o.error or ()):
            stopped += 1
        elif name is None:
            others.append(o)
        else:
            conflicts[name] += 1
    groups = figures.error_groups(others)
    parts = [f"{words.grouped(g.count)} × {words.shorten(g.text, LONGEST_ERROR)}" for g in groups[:MOST_ERRORS]]
    if more := sum(g.count for g in groups[MOST_ERRORS:]):
        parts.append(f"{words.grouped(more)} with other errors")
    if stopped:
        parts.append(f"{words.grouped(stopped)} under way when the run was stopped")
    if conflicts:
        parts.append(f"{words.grouped(conflicts.total())} refused because of a conflict ({_classes(conflicts)})")
    return "; ".join(parts)


def _all_the_same(run: Stored, ended: list[Operation]) -> str:
    """How many of them were committed, whatever their error says."""
    false = {op for a in run.anomalies if a.name == "false-failure" for op in a.ops[:1]}
    n = sum(o.op in false for o in ended)
    return (
        f"; {words.grouped(n)} of these {'was' if n == 1 else 'were'} committed all the same (false-failure)"
        if n
        else ""
    )


def _classes(conflicts: Counter[str]) -> str:
    if len(conflicts) == 1:
        return next(iter(conflicts))
    return ", ".join(f"{name} {words.grouped(n)}" for name, n in conflicts.most_common(3))


def lines(run: Stored) -> list[tuple[str, str]]:
    """The rows ``commits`` and ``untested`` of the last lines on the terminal, as label and text."""
    attempts = figures.attempts_by_table(run.logs)
    known, retried, every = (sum(getattr(a, n) for a in attempts) for n in ("commits", "retried", "every"))
    text = words.grouped(every)
    if known:
        of = "them" if known == every else f"the {words.grouped(known)} whose attempts are known"
        text += f", {words.grouped(retried)} of {of} retried ({words.share(retried, known)})"
    rows = [("commits", text if attempts else "not known: there is no table log")]
    rows += [("untested", text) for text in untested(run.verdicts, run.valid)]
    return rows


def untested(verdicts: Iterable[Verdict], valid: Validity | None) -> list[str]:
    """What a run was too idle, too broken or too short to show, and what that means for its verdict, a clause each.

    It is what the checker ``load`` says; empty without its verdict.
    """
    verdict = _of_load(verdicts)
    if verdict is None:
        return []
    found, beyond = _idle(verdict), mapping(mapping(verdict.stats).get("out_of_reach"))
    if beyond:
        needs = ", ".join(f"{words.shorten(name, 40)} ({words.grouped(s)} s)" for name, s in beyond.items())
        rest = "; all else was judged" if valid is True and not found else ""
        found.append(f"this run was too short to see {needs}{rest}")
    return found


def idle(verdicts: Iterable[Verdict]) -> list[str]:
    """The same without what the run was too short for, which is every run of a night of short runs."""
    verdict = _of_load(verdicts)
    return [] if verdict is None else _idle(verdict)


def _of_load(verdicts: Iterable[Verdict]) -> Verdict | None:
    return next((v for v in verdicts if v.checker == Load.name), None)


def _idle(verdict: Verdict) -> list[str]:
    stats, found = mapping(verdict.stats), []
    tables = {table: mapping(n) for table, n in mapping(stats.get("tables")).items()}
    idle = [words.shorten(t, 40) for t, n in tables.items() if n.get("writes") and not n.get("committed")]
    if idle and verdict.valid is True:  # if it is unknown, its reason names them
        found.append(f"no write changed {', '.join(idle[:MOST_KINDS])}, so nothing is known of {_it(idle)}")
    if stats.get("commits") and not stats.get("retried") and not stats.get("aborted"):
        found.append(
            "no two commits met (none was retried, none aborted), so nothing is known of conflicts: run longer, or with more writers"
        )
    never = {kind: mapping(n) for kind, n in mapping(stats.get("never_succeeded")).items()}
    if never:
        said = [f"{words.shorten(kind, 40)} ({words.grouped(n.get('operations'))})" for kind, n in never.items()]
        more = f" and {len(said) - MOST_KINDS} more" if len(said) > MOST_KINDS else ""
        found.append(f"{', '.join(said[:MOST_KINDS])}{more} never succeeded, so nothing is known of {_it(said)}")
    return found


def _it(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


# --- the checker's statistics on the page -----------------------------------------------------------------------------


def blocks(stats: Mapping[str, Any]) -> list[Block]:
    """What the run did to each table, which kinds never succeeded, and what it was too short to show."""
    out: list[Block] = []
    counts = [
        (label, integer(stats.get(key)))
        for label, key in (("commits", "commits"), ("retried", "retried"), ("aborted", "aborted"))
    ]
    figures_of = [joined((muted(label), " ", words.grouped(n))) for label, n in counts if n is not None]
    seconds = number(stats.get("seconds"))
    figures_of += [] if seconds is None else [joined((muted("lasted"), " ", words.duration(1000 * seconds)))]
    out += [Text(figures_of, "figures")] if figures_of else []
    if tables := {name: mapping(n) for name, n in mapping(stats.get("tables")).items()}:
        out.append(Table(_TABLES, [_table(name, n) for name, n in list(tables.items())[:MOST_TABLES]], form="fit"))
    if never := {kind: mapping(n) for kind, n in mapping(stats.get("never_succeeded")).items()}:
        rows = [_never(kind, n) for kind, n in list(never.items())[:MOST_TABLES]]
        out += [Heading("Kinds of operations that never succeeded"), Table(_NEVER, rows, form="fit")]
    beyond = {name: number(s) for name, s in mapping(stats.get("out_of_reach")).items()}
    if beyond:
        said = (f"{words.shorten(name, 60)} ({words.duration(1000 * (s or 0.0))})" for name, s in beyond.items())
        out.append(Text([f"Too short to show what takes longer: {', '.join(said)}."], "note"))
    return out


_TABLES = (
    TableColumn("table", mark="name", most=60),
    *(TableColumn(n, right=True) for n in ("operations", "writes", "committed")),
    TableColumn("writes that were committed"),
)
_NEVER = (
    TableColumn("kind", mark="name", most=60),
    TableColumn("operations", right=True),
    TableColumn("commonest error", most=400),
    TableColumn("times", right=True),
)


def _table(name: str, n: Mapping[str, Any]) -> TableRow:
    operations, writes, committed = (integer(n.get(k)) or 0 for k in ("operations", "writes", "committed"))
    level = element("span", bar(min(100, 100 * committed / writes)), class_="level") if writes else "–"
    return TableRow([name, counted(operations), counted(writes), counted(committed), level])


def _never(kind: str, n: Mapping[str, Any]) -> TableRow:
    return TableRow(
        [
            kind,
            counted(integer(n.get("operations")) or 0),
            str(n.get("error") or "–"),
            counted(integer(n.get("count")) or 0),
        ]
    )
