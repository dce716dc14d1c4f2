"""The section of anomalies: a card for each story, the gravest first, and for each anomaly that no story tells."""

from __future__ import annotations

from collections.abc import Sequence

from checkers.evidence.history import Operation
from checkers.judge.stories import anomalies_of
from reports.drawing import page, words
from reports.drawing.page import Block, Cards, Fold, Text, joined, link
from reports.run import card, over_time, statements, stored, stories_view
from reports.run.anomalies import MOST_CARDS, choose
from reports.run.card import CardSubject
from reports.run.operations import Shown
from reports.run.stored import Stored
from reports.run.stories_view import ShapeView

MOST_LINES = 100
"""Stories that have one line each below those of the same shape."""
MOST_STATED = 1000
"""Statements of what to do now on all cards together."""
MOST_RELATED = 8


def found(run: Stored) -> list[CardSubject]:
    """What has a card, in the order of the page."""
    out: list[CardSubject] = []
    told: set[int] = set()
    for shape in stories_view.shapes(run):
        for view in (*shape.told, *shape.more):
            these = anomalies_of(view.story, run.verdicts)
            told |= set(map(id, these))
            if view in shape.told and len(out) < MOST_CARDS:
                lead = next((a for a in these if a.name == view.story.name), these[0] if these else None)
                out.append(CardSubject(len(out) + 1, lead, tuple(a for a in these if a is not lead), view))
    rest = [a for a in run.anomalies if id(a) not in told]
    return out + [CardSubject(n, a) for n, a in enumerate(choose(rest, MOST_CARDS - len(out)), len(out) + 1)]


def blocks(shown: Shown, cards: Sequence[CardSubject]) -> list[Block]:
    """The section."""
    run, (bands, _) = shown.run, over_time.windows(shown.run)
    sharing: dict[str, list[CardSubject]] = {}
    for f in cards:
        for op in f.ops:
            sharing.setdefault(op, []).append(f)

    def made(f: CardSubject) -> page.Card:
        related = {other.n: other for op in f.ops for other in sharing[op] if other.n != f.n}
        return card.card(shown, f, involved(f, shown), [related[n] for n in sorted(related)[:MOST_RELATED]], bands)

    out: list[Block] = []
    for shape in stories_view.shapes(run):
        out.append(Cards([made(f) for f in cards if f.view is not None and f.view in shape.told]))
        if shape.more:
            lines: list[str] = [stories_view.in_a_line(v) for v in shape.more[:MOST_LINES]]
            more = len(shape.more) - MOST_LINES
            lines += [f"and {words.grouped(more)} more, in results.json"] if more > 0 else []
            again = [op for v in shape.more[:MOST_LINES] for step in v.story.repairs for op in step.ops]
            needed = [shown.operations[op] for op in dict.fromkeys(again) if op in shown.operations]
            said = [Text(lines, "list"), *statements.blocks(run, needed, tables=False)]
            out.append(Fold(shape.alike, said, anchor=below(cards, shape)))
    out.append(Cards([made(f) for f in cards if f.view is None]))
    stated = {f.n: card.stated(shown, f) for f in cards}
    if any(len(these) > card.MOST_OPS for these in stated.values()):
        every = list({o.op: o for these in stated.values() for o in these}.values())
        said = statements.blocks(run, every[:MOST_STATED], tables=False)
        more = len(every) - MOST_STATED
        said += [Text([f"and {words.grouped(more)} more, in history.jsonl"], "note")] if more > 0 else []
        out.append(Fold("All statements of what to do now", said, anchor=card.STATEMENTS))
    return [*out, *_left_out(run, cards)]


def below(cards: Sequence[CardSubject], shape: ShapeView) -> str:
    """The anchor of the stories that stand in a line each below the cards of their shape; empty if it has no card."""
    of_shape = [f.n for f in cards if f.view is not None and f.view in shape.told]
    return f"alike-{of_shape[-1]}" if of_shape and shape.more else ""


def involved(f: CardSubject, shown: Shown) -> list[Operation]:
    """The operations of a card that the history has."""
    return [shown.operations[op] for op in f.ops if op in shown.operations]


def _left_out(run: Stored, cards: Sequence[CardSubject]) -> list[Block]:
    """What is said instead of cards, or of anomalies that no card shows."""
    if not cards:
        none = run.did_not_come or "None."
        return [Text(["The run was not checked." if run.results is None else none], "muted")]
    shown = {id(a) for f in cards for a in f.shown}
    rest = stored.anomaly_names(a for a in run.anomalies if id(a) not in shown)
    if not rest:
        return []
    counts = ", ".join(f"{words.shorten(name, 60)} {words.grouped(n)}" for name, n in list(rest.items())[:30])
    few = len(run.anomalies) - sum(rest.values())
    said = f"{words.grouped(few)} of {words.grouped(len(run.anomalies))} anomalies are shown. Not shown, all in "
    return [Text([joined((said, link("results.json", "results.json"), f": {counts}."))], "note")]


def first_of(name: str, cards: Sequence[CardSubject]) -> str | None:
    """A link to the first card that shows an anomaly of a name; None if none does."""
    return next((f"#{f.anchor}" for f in cards if any(a.name == name for a in f.shown)), None)
