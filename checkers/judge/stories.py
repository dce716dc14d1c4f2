"""Stories: what happened in a run, each with all anomalies that say it, the gravest first.

A client whose commit was applied but not acknowledged may believe that it failed (``false-failure``), then delete the files of its commit
(``missing-file``); then nobody can read the table (:mod:`checkers.timeline.unreadable`). Three findings, one cause
(:mod:`checkers.judge.causes`), one story. Every anomaly is in exactly one story; a single one is a story, too.

Page, terminal and JUnit file say the same of a run, because it is said here: the headline, who did it, and the words of each story.
Nothing here is a verdict: anomalies are judged as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from checkers.judge.culprits import NOBODY
from checkers.judge.known import KnownDefect
from checkers.judge.repairsteps import Repair, RepairStep, repair_words
from checkers.names import Harm, meaning
from checkers.timeline import explain
from checkers.timeline.unreadable import UnreadableTable
from checkers.verdict import Anomaly, Verdict

UNREADABLE_STEP = "unreadable"
"""Name of the last step of a story about a table that nobody can read any more."""
GRAVEST = ("lost-commit", "lost-table", "half-transaction", "resurrected-row", "undelete")
"""Of names with the same harm, those that a story is named after first; the others in the order of their anomalies."""
ROWS_COUNTED = frozenset({"resurrected-row", "duplicate-row", "nonlinearizable"})
"""Names of which a headline counts the rows."""
LOSSES = ("lost-commit", "lost-update")
"""Names of which a headline says what kinds of operations are lost."""
_OF_LOST = (Repair.BRING_BACK, Repair.LEAVE, Repair.RUN_AGAIN)
"""What one does with a lost commit."""
ALIKE = 3
"""Stories of one shape that are told in full."""


@dataclass(frozen=True, slots=True)
class StoryStep:
    """Anomalies of one name in a story, or (``unreadable``) what became of the table.

    Attributes:
        checkers: that found it.
        count: number of anomalies.
        most: the number in a headline: of those that count, or of their rows (:data:`ROWS_COUNTED`); 0 if another step says it already.
        ops: the operations at fault, at most four.
        text: one sentence without full stop.
    """

    name: str
    checkers: tuple[str, ...]
    count: int
    ops: tuple[str, ...]
    text: str
    most: int = 1

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Story:
    """What happened once, with all anomalies that say it.

    Attributes:
        table: None if it concerns none, or several.
        name: of the gravest anomaly, or ``unreadable``.
        headline: what happened, in plain words, without full stop.
        consequence: one sentence: what that means for the rows.
        who: who did it (:mod:`checkers.judge.culprits`); ``how``: what that one did, in a sentence that begins with a verb, if the headline
            does not say it.
        engine: name of the engine that it is, or is a part of (``workloads.engines``); empty for none.
        ops: the operations involved, that at fault first, then those that took the place of others, at most eight.
        snapshots, keys: those of what it is named after first, at most four snapshots and 24 keys.
        count: number of its anomalies that count (:func:`checkers.judge.causes.events`).
        steps: the anomalies by name, a cause before its effects.
        anomalies: each one's checker, and its place among the anomalies of that checker's verdict.
        known: the defects that they look like.
        instead: of each lost commit its operation, and the one whose commit took its place.
        repairs: what to do now with the table, as far as the evidence says (:mod:`checkers.judge.repair`).
        remedy: what to do that it does not happen again: that of the scenario that the run is, or of the known defects, else what the name
            says, unless the run shows that it would not have helped.
        meanwhile: what to do until that is done; empty: nothing is known to help.
    """

    table: str | None
    name: str
    headline: str
    consequence: str
    harm: Harm
    who: str
    engine: str
    ops: tuple[str, ...]
    snapshots: tuple[int, ...]
    keys: tuple[int, ...]
    count: int
    steps: tuple[StoryStep, ...]
    anomalies: tuple[tuple[str, int], ...]
    known: tuple[KnownDefect, ...] = ()
    remedy: str = ""
    instead: tuple[tuple[str, str], ...] = ()
    repairs: tuple[RepairStep, ...] = ()
    how: str = ""
    meanwhile: str = ""

    @property
    def repair(self) -> str:
        """What to do now, in the words of its card; empty if the evidence does not say."""
        return repair_words(self.repairs)

    @property
    def lost(self) -> tuple[str, ...]:
        """The operations whose changes are lost, if it is named after that."""
        if self.name not in LOSSES:
            return ()
        mended = (op for s in self.repairs if s.does in _OF_LOST for op in s.ops)
        return tuple(dict.fromkeys(mended if self.name == "lost-commit" else (loser for loser, _ in self.instead)))

    @property
    def concerned(self) -> tuple[str, ...]:
        """The operations whose statements say what it is about: those that are lost, else the first one at fault."""
        return self.lost or self.ops[:1]

    @property
    def unreadable(self) -> bool:
        """Whether nobody can read its table any more."""
        return any(s.name == UNREADABLE_STEP for s in self.steps)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            **asdict(self),
            "harm": self.harm.name.lower(),
            "steps": [s.to_json() for s in self.steps],
            "known": [k.to_json() for k in self.known],
        }


@dataclass(frozen=True, slots=True)
class Shape:
    """Stories of one shape: the same name, the same one who did it. ``told`` are told in full, of ``more`` one line each."""

    told: tuple[Story, ...]
    more: tuple[Story, ...]

    @property
    def alike(self) -> str:
        """``12 more like this``; empty for none."""
        return f"{len(self.more)} more like this" if self.more else ""


@dataclass(frozen=True, slots=True)
class Stories:
    """What happened in a run.

    Attributes:
        unreadable: tables that were unreadable at the end, by time.
        stories: those of tables that nobody can read, then the gravest first; of the same harm, what is documented as possible last.
        problem: why there are no stories, if telling them failed; else empty.
    """

    unreadable: tuple[UnreadableTable, ...] = ()
    stories: tuple[Story, ...] = ()
    problem: str = ""

    @property
    def known(self) -> tuple[KnownDefect, ...]:
        """The known defects that the stories look like, each once."""
        return tuple(dict.fromkeys(k for s in self.stories for k in s.known))

    def to_json(self) -> dict[str, Any]:
        """The keys of ``results.json``."""
        return {
            **({"stories_problem": self.problem} if self.problem else {}),
            "unreadable": [u.to_json() for u in self.unreadable],
            "stories": [s.to_json() for s in self.stories],
            "headline": list(headline(self.stories)),
            "who": who(self.stories),
        }


NOTHING_TOLD = Stories()
"""A run without findings."""


# --- a run's headline, its culprits, and the shapes of its stories


def headline(stories: Sequence[Story], verbs: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
    """What happened to data, counted: first what nobody can read, then the gravest: ``17 acknowledged commits lost``.

    A name that a story is told by is counted in all stories, as often as its anomalies count (:func:`checkers.judge.causes.events`). Of
    wrong metadata its names are: ``metadata that DuckDB wrote is wrong in 5 ways``.

    Args:
        verbs: operation → what it is; of losses the headline says how many of each: ``3 changes lost (1 ALTER, 2 INSERTs)``.
    """
    told, ways = countable(stories), dict[str, set[str]]()
    for s in told:
        for step in s.steps:
            if step.most and step.name != UNREADABLE_STEP and harm_of(step.name) is Harm.METADATA:
                ways.setdefault(s.who, set()).add(step.name)
    forgotten = {by for by, names in ways.items() if names == {"lost-metadata-change"}}
    counts = tally(told)
    gone = counts.pop(UNREADABLE_STEP, 0)
    said = [(harm_of(name).gravity, counted(name, n) + _kinds(told, name, n, verbs)) for name, n in counts.items()]
    wrong = [
        f"metadata {f'that {by} wrote is ' if by != NOBODY else ''}wrong in {explain.count(len(names), 'way')}"
        for by, names in ways.items()
        if by not in forgotten
    ]
    n = sum(step.most for s in told if s.who in forgotten for step in s.steps if step.name == "lost-metadata-change")
    wrong += [f"{explain.count(n, 'acknowledged change')} of the schema or of properties lost"] if n else []
    said += [(Harm.METADATA.gravity, text) for text in wrong]
    return (
        *([counted(UNREADABLE_STEP, gone)] if gone else []),
        *(text for _, text in sorted(said, key=lambda s: s[0])),
    )


def _kinds(stories: Iterable[Story], name: str, n: int, verbs: Mapping[str, str]) -> str:
    """What is lost, by kind; empty unless that is known of each of ``n``."""
    lost = Counter(verbs.get(op, "") for s in stories if s.name == name for op in s.lost)
    if lost.total() != n or "" in lost:
        return ""
    return f" ({', '.join(explain.count(k, verb) for verb, k in lost.most_common())})"


def countable(stories: Sequence[Story]) -> Sequence[Story]:
    """The stories that count: without those that only say again what another one says, if there are others."""
    return [s for s in stories if s.count] or stories


def tally(stories: Sequence[Story]) -> dict[str, int]:
    """What a headline counts but wrong metadata: how often each name that a story is told by, and tables that nobody can read."""
    counts = {s.name: 0 for s in stories if s.name != UNREADABLE_STEP and s.harm is not Harm.METADATA}
    for step in (step for s in stories for step in s.steps):
        if step.name in counts and harm_of(step.name) is not Harm.METADATA:
            counts[step.name] += step.most
    return {name: n for name, n in {UNREADABLE_STEP: sum(s.unreadable for s in stories), **counts}.items() if n}


def counted(name: str, n: int) -> str:
    """``17 acknowledged commits lost``; of a name that nobody explains ``3 × name``."""
    if name == UNREADABLE_STEP:
        return explain.count(n, "table that nobody can read", "tables that nobody can read")
    means = meaning(name)
    one, many = means.counted if means is not None else ("", "")
    return explain.count(n, one, many) if one else f"{n} × {name}"


def who(stories: Iterable[Story]) -> dict[str, int]:
    """Who did it: how many findings of each, the most first: ``{"DuckDB": 57, "the catalog server": 2}``."""
    counts: Counter[str] = Counter()
    for s in stories:
        counts[s.who] += s.count
    return dict(sorted((+counts).items(), key=lambda kv: (-kv[1], kv[0])))


def who_words(stories: Iterable[Story]) -> str:
    """``DuckDB 57, the catalog server 2``; empty for no story."""
    return ", ".join(f"{name} {n}" for name, n in who(stories).items())


def anomalies_of(story: Story, verdicts: Iterable[Verdict]) -> list[Anomaly]:
    """The anomalies of a story."""
    by = {v.checker: v.anomalies for v in verdicts}
    return [by[checker][n] for checker, n in story.anomalies if 0 <= n < len(by.get(checker, ()))]


def unaccepted(stories: Iterable[Story], verdicts: Sequence[Verdict], mark: Callable[[Anomaly], str]) -> list[Story]:
    """The stories that a workload does not expect or allow: ``mark`` says nothing of one of their anomalies."""
    return [s for s in stories if not (s.anomalies and all(map(mark, anomalies_of(s, verdicts))))]


def shapes(stories: Iterable[Story]) -> tuple[Shape, ...]:
    """The stories by shape, in their order: :data:`ALIKE` of each in full."""
    alike: dict[tuple[str, str], list[Story]] = {}
    for s in stories:
        alike.setdefault((s.name, s.who), []).append(s)
    return tuple(Shape(tuple(these[:ALIKE]), tuple(these[ALIKE:])) for these in alike.values())


def harm_of(name: str) -> Harm:
    """How bad a name is; one that nobody explains breaks a promise."""
    means = meaning(name)
    return Harm.PROMISE if means is None else means.harm
