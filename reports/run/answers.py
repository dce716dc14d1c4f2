"""What a person asks first of a run: what is lost, who did it and how, and what to do now. The first screen of its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from checkers.evidence.history import Operation
from checkers.judge import repair, stories
from checkers.judge.stories import Story
from checkers.names import Harm, meaning
from checkers.timeline import explain
from reports.drawing import words
from reports.drawing.page import Block, Pairs, Text, joined, link, outside, tag
from reports.run import bands, faulted, stories_view
from reports.run.card import CardSubject, with_code
from reports.run.stored import Stored
from reports.run.stories_view import KnownLine, StoryView
from workloads.operations.kinds import KINDS

_NOT_KNOWN = "no: icequake has no scenario that shows it under these conditions"
MOST_ANSWERS = 3
"""Answers that are told in full; of others a line."""
MOST_PLACES = 8
"""Tables of an answer."""
_ROWS_STAND = "No row is wrong by this yet; who trusts the metadata (a planner, expiry, another engine) may lose some."
MOST_IDS = 12
"""Ids of one table's rows."""


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """Stories of one kind, done by one; wrong metadata is one kind. ``cards``: number and anchor of those that tell them."""

    views: tuple[StoryView, ...]
    cards: tuple[tuple[int, str], ...]

    @property
    def stories(self) -> list[Story]:
        """Its stories."""
        return [v.story for v in self.views]

    @property
    def headline(self) -> str:
        """What happened, in plain words."""
        if len(self.views) == 1:
            return self.stories[0].headline
        return "; ".join(stories.headline(self.stories))


def answers(run: Stored, found: Sequence[CardSubject]) -> list[RunAnswer]:
    """What the stories of a run that the workload does not accept say, the gravest first."""
    told = stories_view.unmarked(run)
    cards = {id(f.view.story): (f.n, f.anchor) for f in found if f.view is not None}
    kinds: dict[tuple[object, ...], list[StoryView]] = {}
    for shape in stories_view.shapes(run):
        for v in (*shape.told, *shape.more):
            s = v.story
            kind = s.harm if s.harm is Harm.METADATA else s.name
            if any(s is t for t in told):
                kinds.setdefault((s.unreadable, kind, s.who), []).append(v)
    return [
        RunAnswer(tuple(views), tuple(cards[id(v.story)] for v in views if id(v.story) in cards))
        for views in kinds.values()
    ]


def blocks(run: Stored, found: Sequence[CardSubject]) -> list[Block]:
    """The answers; nothing for a run without stories."""
    every = answers(run, found)
    out: list[Block] = []
    for n, a in enumerate(every[:MOST_ANSWERS], 1):
        name = tag("b", f"{n}. {_capital(a.headline)}")  # a single one is the headline of the page
        out += [Text([joined((name, " ", _cards(a)))], "answer")] if len(every) > 1 else []
        cards = [("shown on", _cards(a))] if len(every) == 1 else []
        out += [Pairs([(name, said) for name, said in (*_facts(run, a), *cards) if said], "about")]
    more = [
        joined((a.headline, f", by {words.shorten(a.views[0].who, 120)}", " ", _cards(a))) for a in every[MOST_ANSWERS:]
    ]
    out += [Text([joined(("besides: ", joined(more, "; ")))], "note")] if more else []
    order = "Stop what did it, then mend in this order. " if len(every) > 1 else ""
    return out + ([Text([f"{order}{words.OWN_TABLES}"], "note")] if every else [])


def _cards(a: RunAnswer) -> str:
    """A link to its cards; empty if it has none."""
    if not a.cards:
        return ""
    return link(_numbered([n for n, _ in a.cards]), f"#{a.cards[0][1]}")


def _numbered(cards: Sequence[int]) -> str:
    """``card 4``, ``cards 1–3``."""
    return f"card {cards[0]}" if len(cards) == 1 else f"cards {_numbers(cards)}"


def _numbers(found: Sequence[int]) -> str:
    """``1–7``, or ``1, 4 and 9 more``."""
    together = [*found] == [*range(found[0], found[-1] + 1)]
    return f"{found[0]}–{found[-1]}" if together else explain.listing(found)


def _facts(run: Stored, a: RunAnswer) -> list[tuple[str, str]]:
    first = a.views[0]
    remedies = dict.fromkeys(s.remedy for s in a.stories if s.remedy)
    known = dict.fromkeys(k for v in a.views for k in v.known)
    pairs = [
        *_damage(run, a),
        ("who did it", words.shorten(f"{_capital(stories_view.who_and_how(first))}.", 600)),
        ("provoked by", _provoked(run, a)),
        ("do now", _now(run, a)),
        ("avoid it", with_code(next(iter(remedies), ""))),
        ("known", joined(map(_known, known), "; ") or ("" if run.scenario else _NOT_KNOWN)),
    ]
    return [(name, said) for name, said in pairs if said]


def _known(k: KnownLine) -> str:
    """``an UPDATE reported as failed was committed: iceberg#10140; `icequake prove jdbc-unreadable` shows it``."""
    shows = joined((tag("code", k.command), " shows it"))
    return joined((f"{k.headline}: " if k.headline else "", outside(k.label, k.href), "; ", shows))


# --- where ------------------------------------------------------------------------------------------------------------


def _damage(run: Stored, a: RunAnswer) -> list[tuple[str, str]]:
    """What is damaged: tables that nobody can read, lost statements, rows, or what is wrong in the metadata of which tables."""
    first, tables = a.stories[0], dict.fromkeys(s.table for s in a.stories if s.table)
    if first.unreadable:
        return [("unreadable", _few(_gone(run, t) for t in tables))]
    if first.name == "lost-commit":
        return [("lost", _few(_lost(run, a)))]
    if first.harm is Harm.METADATA:
        return [
            ("wrong", _few(_ways(run, a))),
            ("tables", _few(tables)),
            (
                "rows",
                _ROWS_STAND,
            ),
        ]
    return [("rows" if first.harm is Harm.ROWS else "tables", _few(_rows(run, a)))]


def _few(items: Iterable[str]) -> str:
    found = list(items)
    more = [f"and {words.grouped(len(found) - MOST_PLACES)} more"] if len(found) > MOST_PLACES else []
    return joined((*found[:MOST_PLACES], *more), "; ")


def _gone(run: Stored, table: str) -> str:
    """``orders from 9.0 s on (none of 12 later operations succeeded)``."""
    end = next((u for u in run.told.unreadable if u.table == table), None)
    later = (
        f" (none of {words.plural(end.later, 'later operation')} succeeded)" if end is not None and end.later else ""
    )
    return words.shorten(table, 60) + (f" from {end.since / 1e9:.1f} s on{later}" if end is not None else "")


def _lost(run: Stored, a: RunAnswer) -> Iterator[str]:
    """``INSERT w2-190 (orders, id 1, card 1)``, in the order of the history."""
    ops = {op for s in a.stories for step in s.repairs for op in step.ops} or {
        op for s in a.stories for op in s.ops[:1]
    }
    found = [o for o in run.operations if o.op in ops]
    of_op = {op: card for v, card in zip(a.views, a.cards, strict=False) for s in v.story.repairs for op in s.ops}
    for o in found:
        asked = explain.arguments(o.value).removeprefix("of ")
        verb = f"{kind.verb.upper()} " if (kind := KINDS.get(o.f)) is not None and kind.changes_rows else ""
        where = [
            words.shorten(o.table or "", 60),
            asked,
            link(f"card {of_op[o.op][0]}", f"#{of_op[o.op][1]}") if o.op in of_op else "",
        ]
        yield joined((f"{verb}{words.shorten(o.op, 40)} (", joined(filter(None, where), ", "), ")"))
    yield from sorted(ops - {o.op for o in found})


def _ways(run: Stored, a: RunAnswer) -> Iterator[str]:
    """``the numbers in a snapshot's summary are not those of its files (49 times)``, the most frequent first, also inside other stories."""
    names = {step.name for s in a.stories for step in s.steps if step.most}
    counts: Counter[str] = Counter()
    for s in (s for s in stories_view.unmarked(run) if s.who == a.stories[0].who):
        counts.update({step.name: step.count for step in s.steps if step.name in names})
    for name, n in counts.most_common():
        means = meaning(name)
        what = f"{means.sentence[0].lower()}{means.sentence[1:].removesuffix('.')}" if means is not None else name
        yield f"{what} ({words.plural(n, 'time')})"


def _rows(run: Stored, a: RunAnswer) -> Iterator[str]:
    """Per table the ids, or what an operation was to change if nobody knows them."""
    operations = {o.op: o for o in run.operations}
    keys: dict[str, dict[int, None]] = {}
    others: dict[str, dict[str, None]] = {}
    for s in a.stories:
        table = words.shorten(s.table or "", 60)
        keys.setdefault(table, {}).update(dict.fromkeys(s.keys))
        if s.harm is Harm.ROWS and not s.keys:
            others.setdefault(table, {})[_asked(operations.get(s.ops[0]) if s.ops else None)] = None
    for table, found in keys.items():
        ids = [f"{'id' if len(found) == 1 else 'ids'} {explain.listing([*found], MOST_IDS)}"] if found else []
        what = ", and ".join((*ids, *others.get(table, ())))
        yield f"{table}: {what}" if what and table else what or table


def _asked(o: Operation | None) -> str:
    """The rows that an operation was about, in the words of its arguments."""
    asked = explain.arguments(o.value) if o is not None else ""
    return f"what {o.op} was to change, {asked}" if o is not None and asked else "rows whose ids are not known"


# --- what provoked it -------------------------------------------------------------------------------------------------


def _provoked(run: Stored, a: RunAnswer) -> str:
    """What icequake did on purpose to the requests of the operations, and what does the same in production; or that it did nothing."""
    struck = [line for v in a.views for line in v.struck]
    requests = [r for s in a.stories for op in s.ops for r in run.change_requests.get(op, ())]
    if struck:
        verbs = (faulted.verb(name) for r in requests for name in r.faults)
        like = next((v.production for v in verbs if v is not None and v.production), "")
        more = f"; {words.plural(len(struck) - 1, 'more fault')} had the same effect" if len(struck) > 1 else ""
        does = f" icequake did that on purpose; in production {like} does the same." if like else ""
        return f"{_capital(struck[0])}{more}.{does}"
    if a.stories[0].harm is Harm.METADATA:
        return ""
    if held := sum(r.held for r in requests):
        return f"icequake held {words.plural(held, 'request')}, so that the operations overlapped; in production that happens by chance."
    return "No fault: icequake only ran ordinary operations." if requests and not bands.faults(run.events) else ""


# --- what to do -------------------------------------------------------------------------------------------------------


def _now(run: Stored, a: RunAnswer) -> str:
    """What to do now for all its stories together; where they differ, that of the first."""
    order = {o.op: n for n, o in enumerate(run.operations)}
    told = [s.repairs for s in a.stories]
    first = a.stories[0]
    alike = {step.text for step in first.repairs} == {step.text for steps in told for step in steps}
    steps = repair.merged(step for steps in (told if alike else told[:1]) for step in steps)
    cards = _numbered([n for n, _ in a.cards]) if a.cards else "the page"
    more = len(a.stories) - len(a.cards)
    where = f"{cards} and below {'it' if len(a.cards) == 1 else 'them'}" if more and alike else cards
    said = [repair.in_order(step, order).words(where) for step in steps]
    tables = {v.story.table: n for v, (n, _) in zip(a.views[1:], a.cards[1:], strict=False) if v.story.repairs}
    others = [f"{words.shorten(t, 60)} see card {n}" for t, n in tables.items() if t]
    said += [f"For {', for '.join(others)}."] if others and not alike else []
    return with_code(" ".join(filter(None, said)))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
