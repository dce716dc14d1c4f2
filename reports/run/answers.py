"""What a person asks first of a run: what is lost, who did it and how, and what to do now. The first screen of its page."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from checkers.evidence.history import Operation
from checkers.judge import repairsteps, stories
from checkers.judge.known import of_scenario
from checkers.judge.stories import Story
from checkers.names import Harm, meaning
from checkers.timeline import explain
from reports.drawing import words
from reports.drawing.page import Block, Pairs, Text, in_numbers, joined, link, muted, outside, tag
from reports.run import bands, cards, faulted, statements, stories_view
from reports.run.card import CardSubject
from reports.run.repairs import repair_steps, with_code
from reports.run.stored import Stored
from reports.run.stories_view import StoryView
from workloads.operations.kinds import KINDS

_NOT_KNOWN = "not to icequake: none of its scenarios shows it under these conditions"
MOST_ANSWERS = 3
"""Answers that are told in full; of others a line."""
MOST_PLACES = 8
"""Tables of an answer."""
_ROWS_STAND = "No row is wrong by this yet; who trusts the metadata (a planner, expiry, another engine) may lose some."
MOST_IDS = 12
"""Ids of one table's rows."""
MOST_STATEMENTS = 3
"""Operations whose statements stand on the first screen."""
MOST_STEPS = 12
"""Steps of what to do now."""


@dataclass(frozen=True, slots=True)
class StoryPlace:
    """Where a story is told: on card ``n``, or in a line ``below`` it."""

    n: int
    anchor: str
    below: bool = False

    @property
    def link(self) -> str:
        """``card 3``, ``below card 3``."""
        return link(f"{'below ' if self.below else ''}card {self.n}", f"#{self.anchor}")


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """Stories of one kind, done by one, each with its place if it has one; wrong metadata is one kind."""

    found: tuple[tuple[StoryView, StoryPlace | None], ...]

    @property
    def views(self) -> list[StoryView]:
        """Its stories, as a page shows them."""
        return [v for v, _ in self.found]

    @property
    def places(self) -> list[StoryPlace]:
        """Where they are told."""
        return [p for _, p in self.found if p is not None]

    @property
    def stories(self) -> list[Story]:
        """Its stories."""
        return [v.story for v in self.views]

    def title(self, run: Stored) -> str:
        """The headline, as it begins a line."""
        return _capital(self.headline(run))

    def headline(self, run: Stored) -> str:
        """What happened, in plain words."""
        if len(self.found) == 1:
            return self.stories[0].headline
        return "; ".join(stories.headline(self.stories, stories_view.verbs(run)))


def answers(run: Stored, found: Sequence[CardSubject]) -> list[RunAnswer]:
    """What the stories of a run that the workload does not accept say, the gravest first."""
    told = stories_view.unmarked(run)
    on_card = {id(f.view.story): StoryPlace(f.n, f.anchor) for f in found if f.view is not None}
    kinds: dict[tuple[object, ...], list[tuple[StoryView, StoryPlace | None]]] = {}
    for shape in stories_view.shapes(run):
        told_on = [p for v in shape.told if (p := on_card.get(id(v.story))) is not None]
        below = StoryPlace(told_on[-1].n, cards.below(found, shape), below=True) if told_on else None
        for v in (*shape.told, *shape.more):
            s = v.story
            kind = s.harm if s.harm is Harm.METADATA else s.name
            if any(s is t for t in told):
                kinds.setdefault((s.unreadable, kind, s.who), []).append((v, on_card.get(id(s), below)))
    return [RunAnswer(tuple(these)) for these in kinds.values()]


def mark(run: Stored, found: Sequence[CardSubject]) -> str:
    """How many of the answers are known, and how many are not; of a single one what is known of it."""
    said = [standing(run, a) for a in answers(run, found)]
    new = sum(stories_view.NEW in x for x in said)
    counts = filter(None, (f"{len(said) - new} known" if new < len(said) else "", f"{new} new" if new else ""))
    return said[0] if len(said) == 1 else f"{', '.join(counts)} to icequake" if said else ""


def standing(run: Stored, a: RunAnswer) -> str:
    """Whether its stories are known: ``known: iceberg#10720``."""
    return "; ".join(dict.fromkeys(stories_view.standing(run, s) for s in a.stories))


def blocks(run: Stored, found: Sequence[CardSubject]) -> list[Block]:
    """The answers; nothing for a run without stories."""
    every = answers(run, found)
    steps = recipe(run, every)
    out: list[Block] = []
    told: list[tuple[str, str]] = []
    for n, a in enumerate(every[:MOST_ANSWERS], 1):
        facts = [fact for fact in _facts(run, a, first=n == 1) if fact[0] != _PROVOKED or fact not in told]
        told += facts
        if len(every) > 1:  # a single one is the headline of the page
            line = (tag("b", f"{n}. {a.title(run)}"), tag("span", standing(run, a), "tag"), _shown(a))
            out += [Text([joined(line, " ")], "answer")]
        else:
            facts += [
                ("do now", in_numbers(steps)),
                ("avoid it", _remedy(a)),
                ("until then", _meanwhile(a)),
                ("known", _known(run, a)),
                ("shown on", _shown(a)),
            ]
        out += [Pairs([(name, said) for name, said in facts if said], "about")]
    more = [
        joined((a.headline(run), f", by {words.shorten(a.views[0].who, 120)}", " ", _told_on(a.places)))
        for a in every[MOST_ANSWERS:]
    ]
    out += [Text([joined(("besides: ", joined(more, "; ")))], "note")] if more else []
    if len(every) > 1 and steps:
        out += [Text([tag("b", "Do now, in this order")], "answer"), Text(steps, "steps")]
    if len(every) > 1:
        known = [joined(("Known: ", said)) if (said := _known(run, a)) else "" for a in every[:MOST_ANSWERS]]
        until = [f"Until then: {said}" if (said := _meanwhile(a)) else "" for a in every]
        avoided = [
            joined(filter(None, (_remedy(a), *more)), Markup("<br>"))
            for a, *more in zip(every, until, known, strict=False)
        ]
        out += [Text([tag("b", "Avoid it; what is known of it")], "answer")]
        first = {said: n for n, said in reversed([*enumerate(avoided, 1)])}
        pairs = [
            (f"{n}.", said if first[said] == n else f"as for {first[said]}")
            for n, said in enumerate(avoided, 1)
            if said
        ]
        out += [Pairs(pairs, "about")]
    return out + ([Text([words.OWN_TABLES], "note")] if every else [])


def _shown(a: RunAnswer) -> str:
    """``cards 1–3, found by 2 checkers: commits, linearizable``."""
    by = dict.fromkeys(checker for s in a.stories for step in s.steps for checker in step.checkers)
    found = f"found by {f'{len(by)} checkers: ' if len(by) > 1 else ''}{explain.listing(by, len(by))}" if by else ""
    return joined(filter(None, (_told_on(a.places), found)), ", ")


def _told_on(places: Iterable[StoryPlace]) -> str:
    """``card 4``, ``cards 1–3 and below card 3``, ``cards 1–7 and below them``, as links; empty for none."""
    found = dict.fromkeys(places)
    on, below = [p for p in found if not p.below], [p for p in found if p.below]
    numbers = [p.n for p in on]
    named = f"card {numbers[0]}" if len(on) == 1 else f"cards {_numbers(numbers)}" if on else ""
    links = [link(named, f"#{on[0].anchor}")] if on else []
    links += [below[0].link if len(below) == 1 else link("below them", f"#{below[0].anchor}")] if below else []
    return joined(links, " and ")


def _numbers(found: Sequence[int]) -> str:
    """``1–7``, or ``1, 4 and 9 more``."""
    together = [*found] == [*range(found[0], found[-1] + 1)]
    return f"{found[0]}–{found[-1]}" if together else explain.listing(found)


_PROVOKED = "provoked by"


def _facts(run: Stored, a: RunAnswer, *, first: bool) -> list[tuple[str, str]]:
    """What is damaged, and by whom; the ``first`` one says how operations are named."""
    who = words.shorten(f"{_capital(stories_view.who_and_how(a.views[0]))}.", 600)
    return [*_damage(run, a, legend=first), ("who did it", who), (_PROVOKED, _provoked(run, a))]


def remedies(a: RunAnswer) -> list[str]:
    """What to do that none of its stories happens again, a sentence each, none twice."""
    return list(dict.fromkeys(x for s in a.stories for x in words.sentences(s.remedy)))


def _remedy(a: RunAnswer) -> str:
    return with_code(" ".join(remedies(a)))


def _meanwhile(a: RunAnswer) -> str:
    """What helps all its stories until the remedy is done."""
    said = {s.meanwhile for s in a.stories}
    return said.pop() if len(said) == 1 else ""


def _known(run: Stored, a: RunAnswer) -> str:
    known = dict.fromkeys(k for v in a.views for k in v.known)
    who = a.views[0].who
    if known or not run.scenario:
        said = (stories_view.known_words(k, stories_view.affected_release(run, k, who)) for k in known)
        return joined(said, " ") or _documented(run, a)
    own = of_scenario(run.workload)
    thread = run.scenario.get("link")
    if own is not None:
        line = replace(stories_view.known_line(own), headline="", command="")
        return stories_view.known_words(line, stories_view.affected_release(run, line, who))
    return outside(words.link_label(thread), words.safe(thread)) if isinstance(thread, str) else ""


def _documented(run: Stored, a: RunAnswer) -> str:
    """Where the documents say that what no scenario shows is possible."""
    found = (x.documented for s in a.stories for x in stories.anomalies_of(s, run.verdicts))
    link_of = next((x for x in found if x), "") if stories_view.NEW not in standing(run, a) else ""
    said = outside(words.link_label(link_of), href) if (href := words.safe(link_of)) else words.shorten(link_of, 200)
    return joined(("as possible: ", said)) if link_of else _NOT_KNOWN


# --- where ------------------------------------------------------------------------------------------------------------


def _damage(run: Stored, a: RunAnswer, *, legend: bool) -> list[tuple[str, str]]:
    """What is damaged: tables that nobody can read, lost statements, rows, or what is wrong in the metadata of which tables."""
    first, tables = a.stories[0], dict.fromkeys(s.table for s in a.stories if s.table)
    asked = ("lost" if first.lost else statements.asked_as(first.name), _statements(run, a, legend=legend))
    if first.unreadable:
        return [("unreadable", _few(_gone(run, t) for t in tables)), asked]
    if first.lost or first.name == "lost-commit":
        return [asked]
    if first.harm is Harm.METADATA:
        return [("wrong", _few(_ways(run, a))), ("tables", f"{'; '.join(tables)}. {_ROWS_STAND}")]
    return [("rows" if first.harm is Harm.ROWS else "tables", _few(_rows(run, a))), asked]


def damaged(run: Stored, a: RunAnswer) -> str:
    """What is damaged, in a sentence without links or statements."""
    first, tables = a.stories[0], dict.fromkeys(s.table for s in a.stories if s.table)
    if first.harm is Harm.METADATA:
        ways = [*_ways(run, a)]
        more = f"; and {len(ways) - MOST_ANSWERS} more" if len(ways) > MOST_ANSWERS else ""
        return f"No row is wrong by it. {explain.listing(tables, MOST_PLACES)}: {'; '.join(ways[:MOST_ANSWERS])}{more}."
    if len(a.stories) == 1:
        return first.consequence
    if first.unreadable:
        return f"Nobody can read {_few(_gone(run, t) for t in tables)}."
    if first.lost or first.name == "lost-commit":
        operations = {o.op: o for o in run.operations}
        ops = dict.fromkeys(op for s in a.stories for op in s.concerned)
        return f"Lost: {_few(_operation(operations.get(op), op, None) for op in ops)}."
    return f"{str(first.harm).capitalize()}: {_few(_rows(run, a)) or explain.listing(tables, MOST_PLACES)}."


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


_NAME = re.compile(r"w(\d+)-(\d+)")


def _statements(run: Stored, a: RunAnswer, *, legend: bool) -> str:
    """What its operations were asked, in the order of the history: some with their statements, the others named."""
    place = {op: p for v, p in a.found if p is not None for op in v.story.concerned}
    order = {o.op: n for n, o in enumerate(run.operations)}
    ops = sorted(
        dict.fromkeys(op for s in a.stories for op in s.concerned), key=lambda op: (order.get(op, math.inf), op)
    )
    named = {op: _operation(run.operations[order[op]] if op in order else None, op, place.get(op)) for op in ops}
    asked = statements.asked(run, (run.operations[order[op]] for op in ops[:MOST_STATEMENTS] if op in order))
    said = [
        joined((named[op], ": ", statements.statement(asked[op]))) if op in asked else named[op]
        for op in ops[:MOST_STATEMENTS]
    ]
    if legend and ops and (m := _NAME.fullmatch(ops[0])):
        said[0] = joined((said[0], " ", muted(f"{m[0]}: operation {m[2]} of writer {m[1]}")))
    others = [named[op] for op in ops[MOST_STATEMENTS:]]
    said += [joined((f"and {words.grouped(len(others))} more: ", _few(others)))] if others else []
    return tag("ul", joined(tag("li", x) for x in said)) if len(said) > 1 else joined(said)


def _operation(o: Operation | None, op: str, place: StoryPlace | None) -> str:
    """``INSERT w2-190 (orders, id 1, card 1)``."""
    if o is None:
        return op
    kind = KINDS.get(o.f)
    verb = f"{kind.verb.upper()} " if kind is not None and (kind.changes_rows or kind.verb == "alter") else ""
    asked = explain.arguments(o.value).removeprefix("of ")
    where = [words.shorten(o.table or "", 60), asked, place.link if place is not None else ""]
    return joined((f"{verb}{words.shorten(o.op, 40)} (", joined(filter(None, where), ", "), ")"))


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
    if known := [v for name in dict.fromkeys(run.scenario_faults) if (v := faulted.verb(name)) is not None]:
        return f"The scenario's fault, {'; '.join(f'{v.name}: {v.summary}' for v in known)}."
    if held := sum(r.held for r in requests):
        return f"icequake held {words.plural(held, 'request')}, so that the operations overlapped; in production that happens by chance."
    return "No fault: icequake only ran ordinary operations." if requests and not bands.faults(run.events) else ""


# --- what to do -------------------------------------------------------------------------------------------------------


def recipe(run: Stored, every: Sequence[RunAnswer]) -> list[str]:
    """What to do now for all the answers together, in the order in which it is done."""
    order = {o.op: n for n, o in enumerate(run.operations)}
    told_on: dict[str, list[StoryPlace]] = {}
    for v, place in (pair for a in every for pair in a.found):
        for s in v.story.repairs:
            told_on.setdefault(s.text, []).extend([place] if place is not None else [])
    steps = repairsteps.merged((s for a in every for story in a.stories for s in story.repairs), order)
    blamed = explain.listing(dict.fromkeys(s.who for a in every for s in a.stories if _wrote_wrong(s)))
    by = f" Let another engine than {blamed} do that." if blamed else ""
    more = len(steps) - MOST_STEPS
    few = [
        replace(s, text=s.text + by)
        if s.does is repairsteps.Repair.RUN_AGAIN and repairsteps.ALONE not in s.text
        else s
        for s in steps[:MOST_STEPS]
    ]
    asked = statements.asked(run, (o for o in run.operations if any(o.op in s.ops for s in few)))
    said = repair_steps(few, lambda s: _told_on(told_on[s.text.removesuffix(by)]) or "this page", asked)
    return said + ([f"and {words.plural(more, 'more step')}, on the cards"] if more > 0 else [])


def _wrote_wrong(s: Story) -> bool:
    """Whether an engine by itself, and not its catalog's client, made rows or metadata wrong."""
    return bool(s.engine) and s.who == explain.title(s.engine) and s.harm in (Harm.ROWS, Harm.METADATA)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
