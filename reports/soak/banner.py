"""The answer of a night: whether it failed and why, what was lost, who did it, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from checkers.nights.night import Night
from reports.drawing import words
from reports.drawing.page import (
    Banner,
    Block,
    Fold,
    Pairs,
    Table,
    TableColumn,
    TableRow,
    Text,
    badge,
    joined,
    link,
    outside,
    tag,
)
from reports.drawing.words import OWN_TABLES
from reports.run.statements import asked_as
from reports.soak import kinds as lostkinds
from reports.soak import places
from reports.soak.kinds import FailureKind, Program, with_code
from reports.soak.words import CLASSES, counted

TOLD_FEW = 2
"""Combinations with few operations that the first sentences name."""
TOLD_KINDS = 10
"""Kinds of failure that the answer lists, and of which it says what to do."""


def banner(night: Night) -> Banner:
    """Failed, passed or undecided, and why. What is lost makes it red, also if it is known: a lost row is none the less lost."""
    found = lostkinds.kinds(night)
    new, known = ([k for k in found if k.showed == showed] for showed in ("new", "known"))
    failed, runs = len(night.failures), words.plural(len(night.runs), "run")
    parts = [f"{counted(night)[:1].upper()}{counted(night)[1:]}."]
    if night.stopped is not None:
        parts.append(f"The night stopped: {night.stopped}.")
    parts += [f"{reason[:1].upper()}{reason[1:]}." for reason in night.given_up.values()]
    if known and new:
        first = f"Known besides, in {words.plural(lostkinds.runs_of(known), 'run')}"
        parts.insert(0, f"{first}, which does not fail the night: {lostkinds.lost(known)}.")
    if new:
        parts.insert(0, "New is what no known defect explains; it fails the night.")
    if found:
        parts.insert(len(parts) - 1, f"Who did it: {lostkinds.who(found)}.")
    status, headline = "valid", f"Passed: nothing was lost in {runs}"
    harm = f"Known defects broke {words.grouped(failed)} of {runs}: {lostkinds.lost(found)}"
    if night.verdict is False:
        these = f"{words.grouped(lostkinds.runs_of(new))} of {runs}"
        status, headline = "invalid", f"Failed: new harm in {these}: {lostkinds.lost(new)}"
    elif not night.runs:
        status, headline = "incomplete", "Not done: no run"
    elif night.code not in (0, 1, 2):
        status, headline = "incomplete", "Not done: the night could not do what it was to do"
    elif night.undecided:
        status, headline = "unknown", "Undecided: not every run has a verdict, and nothing new was found"
    elif night.too_few:
        few_of = f"{words.grouped(len(night.too_few))} of {words.plural(len(night.cells), 'combination')}"
        least = words.plural(night.suite.at_least or 0, "operation")
        status, headline = "unknown", f"Could not judge: {few_of} made fewer than {least}, and nothing new was found"
    elif found:
        status, headline = "known", harm
        parts.insert(0, "Nothing is new, so the night passes; what is known does harm none the less.")
    if found and night.verdict == "unknown":
        parts.insert(0, f"{harm}.")
    judged, few = [c for c in night.cells if night.worst(c) != "not run"], [c for c in night.cells if night.few(c)]
    if few:
        named = [f"{places.of(night, c)} ({words.plural(night.operations(c), 'operation')})" for c in few[:TOLD_FEW]]
        more = [f"and {words.plural(len(few) - TOLD_FEW, 'more combination')}"] if len(few) > TOLD_FEW else []
        said = "Too little" if night.too_few else "Next to nothing"
        parts.append(f"{said} was tested of {'; '.join((*named, *more))}.")
    if few and len(few) == len(judged) and not night.too_few:
        headline += ", and next to nothing was tested"
    if status != "invalid" and lostkinds.is_grave(found):
        status = "harmed"
    return Banner(status, headline, " ".join(parts))


def answer(night: Night, found: Sequence[FailureKind], program: Program) -> list[Block]:
    """Below the first sentences: each kind of failure on a line, and what to do about the first; nothing if nothing failed."""
    if not found:
        return []
    columns = [
        TableColumn("", mark="nowrap"),
        TableColumn("what is lost", mark="wrap"),
        TableColumn("who did it", mark="wrap whole"),
    ]
    tables = len({t for k in found for _, h in k.runs for t in h.tables}) > 1  # one name says nothing
    known = any(k.link is not None for k in found)
    columns += [
        TableColumn("where: workload on catalog, faults", mark="wrap whole"),
        *([TableColumn("table", mark="wrap")] if tables else []),
        *([TableColumn("discussed at", mark="wrap")] if known else []),
        TableColumn("in runs", right=True),
    ]
    rows = [_kind(night, k, n, tables=tables, known=known) for n, k in enumerate(found[:TOLD_KINDS], 1)]
    unlisted = len(found) - TOLD_KINDS
    more = [Text([f"and {words.plural(unlisted, 'more kind')}, below"], "note")] if unlisted > 0 else []
    together = lostkinds.runs_of(found)
    if sum(len(k.runs) for k in found) > together:
        more.append(
            Text([f"A run can be on several lines; together they are {words.plural(together, 'run')}."], "note")
        )
    apart = (
        ""
        if len(found) == 1
        else ", in this order; each number is of another table, unless it says that it is the same"
    )
    order = Text([tag("b", f"Do now{apart}")], "answer")
    ops = [op for k in found for op, _ in k.first.statements]
    explained = [OWN_TABLES, *filter(None, [words.operation_name(*ops[:1])])]
    return [Table(columns, rows), *more, order, Text(explained, "note"), *_to_do(night, found, program)]


def _kind(night: Night, k: FailureKind, n: int, *, tables: bool, known: bool) -> TableRow:
    """``tables``: whether it names its tables; ``known``: and where it is discussed."""
    where = dict.fromkeys(places.of(night, line.cell) for line, _ in k.runs)
    names = words.shorten(", ".join(dict.fromkeys(t for _, h in k.runs for t in h.tables)), 120)
    discussed = "nowhere yet" if k.link is None else outside(words.link_label(k.link), words.safe(k.link))
    what = link(lostkinds.losses(k.harmed), f"#{lostkinds.anchor(n)}")
    facts = [what, k.first.by or k.first.who or "nobody knows who", words.shorten("; ".join(where), 200)]
    facts += [*([names] if tables else []), *([discussed] if known else [])]
    return TableRow([joined((f"{n}. ", badge(CLASSES[k.showed], k.showed))), *facts, words.grouped(len(k.runs))])


def _to_do(night: Night, found: Sequence[FailureKind], program: Program) -> list[Block]:
    """What to do today, and that it does not happen again: of the first kind, of the gravest, and of what is mended with it whole; of the
    others folded, in the same order."""
    gravest = min(found, key=lambda k: k.gravity)
    whole = [found[0], gravest, *lostkinds.mended_with(found, gravest)]
    out: list[Block] = []
    told = [n for n, k in enumerate(found) if n < TOLD_KINDS or k in whole]
    for n in told:
        k, rows = found[n], _steps(night, found, n, program)
        title = joined((f"{n + 1}. {lostkinds.losses(k.harmed)}: ", k.first.did or k.first.who))
        if k in whole:
            out += [Text([tag("b", title)], "answer"), Pairs(rows, "about")]
        else:
            out.append(Fold(title, [Pairs(rows, "about")]))
    remaining = len(found) - len(told)
    more = f"What to do about {words.plural(remaining, 'more kind')} is on the cards below." if remaining > 0 else ""
    return [*out, *([Text([more], "note")] if more else [])]


def _steps(night: Night, found: Sequence[FailureKind], n: int, program: Program) -> list[tuple[str, str]]:
    """What to know and to do of the n-th kind, from 0."""
    k, steps, card = found[n], lostkinds.recipes(found)[n], f"#{lostkinds.anchor(n + 1)}"
    now = lostkinds.do_now(night, steps, 1, card)
    if not steps:
        now = lostkinds.same_table(found, k)
    commands = lostkinds.commands(night, k, program) if k.showed == "new" else []
    report = [tag("li", joined((tag("code", command), f" {does}"))) for does, command in commands]
    rows = [
        (asked_as(k.first.name), lostkinds.stated(k)),
        ("provoked by", lostkinds.provoked(k)),
        ("do now", now),
        ("avoid it", with_code(k.first.remedy or lostkinds.NO_REMEDY)),
        ("report it", tag("ul", joined(report)) if report else ""),
        ("known", lostkinds.known_words(k)),
    ]
    return [(name, text) for name, text in rows if text]
