"""Telling the stories of a run: which anomalies are one story, what it is named after, and what is said of it in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from checkers import pointer
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation, UnpairedError
from checkers.evidence.replace import replace
from checkers.evidence.tableformat import TableFormat, format_of
from checkers.evidence.tablelog import Row, TableLog
from checkers.judge.causes import MISSING, SECOND_OPINIONS, Facts, events, groups
from checkers.judge.culprits import SERVER, DoneBy, done_by
from checkers.judge.known import KnownDefect, RunFacts, known_defects, of_scenario
from checkers.judge.repair import REPEATS, removed_since, repair
from checkers.judge.repairsteps import RepairStep
from checkers.judge.stories import (
    GRAVEST,
    NOTHING_TOLD,
    ROWS_COUNTED,
    UNREADABLE_STEP,
    Stories,
    Story,
    StoryStep,
    counted,
    harm_of,
)
from checkers.names import Culprit, Harm, meaning
from checkers.prevention import GUARD, KEEPS, KEYS, OR_KEYS, REPLY, Prevention
from checkers.timeline import explain
from checkers.timeline.two_tables import tables_of
from checkers.timeline.unreadable import UnreadableTable, file_words, same_file, unreadable
from checkers.verdict import Anomaly, Verdict
from workloads.operations.kinds import KINDS

CAUSE_ORDER = ("lost-swap", "lost-update", "false-failure", "duplicate-commit", "lost-commit", "missing-file")
"""What comes first in a story: a cause before its effects. Other names follow."""
MOST_KEYS_NAMED = 24
"""Ids of its rows that are kept."""
MOST_OPS_NAMED = 8
"""Operations of a story that are named."""


def tell(
    evidence: Evidence,
    verdicts: Sequence[Verdict],
    ran: RunFacts | None,
    broken: tuple[UnreadableTable, ...] | None = None,
) -> Stories:
    """The stories of a run. Never raises: verdicts are worth more than stories.

    Args:
        ran: what it ran on; without it no defect is looked up.
        broken: the tables that were unreadable at the end, if that is known already.
    """
    try:
        return _tell(evidence, verdicts, ran, unreadable(evidence) if broken is None else broken)
    except UnpairedError:  # said by the verdict of the history
        return NOTHING_TOLD
    except Exception as e:
        return Stories(problem=f"the stories could not be told: {type(e).__name__}: {e}")


def _tell(
    evidence: Evidence, verdicts: Sequence[Verdict], ran: RunFacts | None, broken: tuple[UnreadableTable, ...]
) -> Stories:
    found = [(a, (v.checker, n)) for v in verdicts if v.checker != "expect" for n, a in enumerate(v.anomalies)]
    teller = _Teller(evidence, ran, broken, [a for a, _ in found])
    together = groups([a for a, _ in found], teller.facts)
    ends = {u.table: u for u in teller.unreadable}
    stories: list[Story] = []
    for group in together:
        these = [found[i][0] for i in group]
        stories.append(teller.story(these, tuple(found[i][1] for i in group), teller.end_of(these, ends)))
    stories += [teller.story([], (), u) for u in ends.values()]  # those that no group is about
    documented = {n for n, group in enumerate(together) if all(found[i][0].documented is not None for i in group)}

    def first(place: tuple[int, Story]) -> tuple[bool, int, bool, int, int]:
        n, s = place
        return (not s.unreadable, s.harm.gravity, n in documented, _rank(s.name), n)

    told = [s for _, s in sorted(enumerate(stories), key=first)]
    wrong = {s.table for s in told if s.harm is Harm.ROWS and s.table is not None}
    return Stories(teller.unreadable, tuple(_beside(s) if s.table in wrong else s for s in told))


def _beside(s: Story) -> Story:
    """A story that by itself harms no row, of a table whose rows are wrong by another one: it must not say that they are right."""
    says = {
        Harm.METADATA: "It changes no row by itself, but {of} has wrong rows by the events above; who trusts the metadata may lose more.",
        Harm.PROMISE: "It changes no row by itself, but {of} has wrong rows by the events above.",
    }.get(s.harm)
    return s if says is None else replace(s, consequence=says.format(of=s.table))


def _rank(name: str) -> int:
    return GRAVEST.index(name) if name in GRAVEST else len(GRAVEST)


_ONE_WRITER = "Let one writer at a time change the table."


class _Teller:
    """Tells the stories of one run; what they need of it is looked up once."""

    def __init__(
        self, evidence: Evidence, ran: RunFacts | None, broken: tuple[UnreadableTable, ...], found: Sequence[Anomaly]
    ) -> None:
        self.evidence, self.ran, self.unreadable = evidence, ran, broken
        self.counted = frozenset(map(id, events(found)))
        self.by_table: dict[str | None, list[Anomaly]] = {}
        for a in found:
            self.by_table.setdefault(a.table, []).append(a)
        self.operations = {o.op: o for o in evidence.history.operations()}
        by_table: dict[str | None, list[Operation]] = {}
        for o in self.operations.values():
            for t in tables_of(o):
                by_table.setdefault(t, []).append(o)
        self.facts = lru_cache(None)(lambda table: Facts.of(evidence, table, by_table.get(table, ())))
        self.cleaned = {t for o in self.operations.values() if _deletes_live_files(o) for t in tables_of(o)}
        self._known: dict[object, tuple[KnownDefect, ...]] = {}

    def end_of(self, group: Sequence[Anomaly], ends: dict[str, UnreadableTable]) -> UnreadableTable | None:
        """Takes from ``ends`` the table that became unreadable by a file of the group."""
        gone = [a for a in group if a.name in MISSING and a.table in ends]
        for a in gone:
            if any(same_file(f, ends[a.table].file) for f in a.files):  # type: ignore[index]
                return ends.pop(str(a.table))
        return None

    def story(
        self, group: Sequence[Anomaly], places: tuple[tuple[str, int], ...], end: UnreadableTable | None
    ) -> Story:
        tables = dict.fromkeys(a.table for a in group) or dict.fromkeys([end.table if end is not None else None])
        table = next(iter(tables)) if len(tables) == 1 else None
        facts = self.facts(table)
        names = sorted(
            {a.name for a in group}, key=lambda n: (CAUSE_ORDER.index(n) if n in CAUSE_ORDER else len(CAUSE_ORDER), n)
        )
        failed = {op for a in group if a.name == "false-failure" for op in a.ops[:1]}
        first = _gravest(group)
        name, harm = (UNREADABLE_STEP, Harm.UNREADABLE) if first is None else (first.name, harm_of(first.name))
        steps = [
            replace(
                _step(n, these, facts, self.operations, failed, cleaned=table in self.cleaned),
                most=self._most(n, these, lead=n == name),
            )
            for n in names
            for these in [[a for a in group if a.name == n]]
        ]
        if end is not None:
            steps.append(StoryStep(UNREADABLE_STEP, (), 1, (end.op,), unreadable_words(end)))
        lead = [a for a in group if a.name == name]
        instead = tuple(dict.fromkeys(pair for a in (*lead, *group) for pair in facts.instead(a)))
        raced = (op for pair in instead for op in pair)
        all_ops = (*(op for a in lead for op in a.ops), *raced, *(op for a in group for op in a.ops))
        ops = tuple(dict.fromkeys(all_ops)) or ((end.op,) if end else ())
        log = self.evidence.logs.get(table or "")
        of = TableFormat[Any, Any]() if log is None else format_of(log)
        kind = None if self.ran is None else self.ran.catalog_type

        told = self.evidence.answered
        done = done_by(group, lead, facts, self.operations, kind, of, cleaned=table in self.cleaned, log=log, told=told)
        keys = tuple(dict.fromkeys(k for a in lead for k in a.keys))
        known = self._defects(group, ops, done)
        prevention = self._prevention(name, known or self._shown_by_scenario(group), lead, done, of)
        remedy = prevention.text
        if "Idempotency-Key" in remedy:  # a scenario's own advice names the header, too
            rest = kind is None or kind.type == "rest"
            remedy = f"{remedy} {KEYS}" if rest else remedy.replace(OR_KEYS, "")
        until = "" if end is not None else self._until(lead, log)
        return Story(
            table=table,
            name=name,
            headline=self._headline(name, lead, facts, table, done.who, keys, end),
            consequence=until or _consequence(harm, name, keys, lead, table, end, self._deleted(lead, facts)),
            harm=harm,
            who=done.who,
            engine=done.engine,
            ops=ops[:MOST_OPS_NAMED],
            snapshots=tuple(dict.fromkeys(s for a in (*lead, *group) for s in a.snapshots))[
                : explain.MOST_IN_A_SENTENCE
            ],
            keys=keys[:MOST_KEYS_NAMED],
            count=sum(id(a) in self.counted for a in group) or int(end is not None and not group),
            steps=tuple(steps),
            anomalies=places,
            known=known,
            remedy=remedy,
            instead=instead,
            repairs=self._repair(name, group, lead, facts, table, keys, end, done.who if done.engine else ""),
            how=done.how,
            meanwhile="" if done.client or prevention.keeps_apart else self._meanwhile(name, lead),
        )

    def _repair(
        self,
        name: str,
        group: Sequence[Anomaly],
        lead: Sequence[Anomaly],
        facts: Facts,
        table: str | None,
        keys: Sequence[int],
        end: UnreadableTable | None,
        by: str,
    ) -> tuple[RepairStep, ...]:
        lost = {op for a in lead for op in facts.lost(a)}  # of a lost swap of the pointer, too
        losers = sorted(lost, key=lambda op: (self.operations[op].start if op in self.operations else math.inf, op))
        ops = losers or list(dict.fromkeys(op for a in lead if (op := _first(a, facts)) is not None))
        log = self.evidence.logs.get(table or (end.table if end is not None else ""))
        of = "lost-commit" if losers else name
        own: dict[str, tuple[int, ...]] = {}
        for a in lead:
            for op in facts.lost(a) or {_first(a, facts) if name == "undelete" else facts.victim(a)}:
                own[op or ""] = tuple(dict.fromkeys((*own.get(op or "", ()), *a.keys)))
        return tuple(
            repair(
                *(of, log, self.operations, ops, keys),
                unreadable=end is not None,
                engine=by,
                keys_of=own,
                repeats=sorted({f for a in group if a.name in REPEATS for f in a.files}),
                came_back=[row for a in lead for row in _came_back(a, log)],
            )
        )

    def _most(self, name: str, found: Sequence[Anomaly], *, lead: bool) -> int:
        """How often a headline counts the anomalies of a name; ``lead``: the story is named after them, so they count whoever says them."""
        own = [a for a in found if id(a) in self.counted]
        if not own and not lead:
            return 0
        rows = len({k for a in own or found for k in a.keys}) if name in ROWS_COUNTED else 0
        return max(rows, len(own) or max(Counter(a.checker for a in found).values()))

    def _deleted(self, lead: Sequence[Anomaly], facts: Facts) -> bool:
        """Whether all operations whose commits are lost only delete rows."""
        victims = [self.operations.get(facts.victim(a) or "") for a in lead]
        return bool(victims) and all(o is not None and o.f in KINDS and KINDS[o.f].verb == "delete" for o in victims)

    def _until(self, lead: Sequence[Anomaly], log: TableLog | None) -> str:
        """From when until when queries returned what deletes had left; empty if it is still there, or nobody can say."""
        if log is None or not all(a.name == "undelete" and a.ops for a in lead):
            return ""
        times = [removed_since(log, a.ops[0], a.keys) for a in lead]
        gone = [t for t in times if t is not None]
        if not gone or len(gone) < len(times):
            return ""
        since, last = min(n for n, _ in gone), max(n for _, n in gone)
        op = log.main()[last - 1].op
        by = self._statement(op) if op is not None else "another writer"
        rows = "the row that it had deleted" if len(lead) == 1 else "rows that they had deleted"
        it = "it" if len(lead) == 1 else "the last of them"
        return (
            f"From commit {since} on, queries of {log.table} returned {rows}, until {by} (commit {last}) removed {it}."
        )

    def _prevention(
        self, name: str, known: Sequence[KnownDefect], lead: Sequence[Anomaly], done: DoneBy, of: TableFormat[Any, Any]
    ) -> Prevention:
        """What to do that it does not happen again: never to separate operations that did not overlap, nor to change the catalog when an
        engine is at fault.

        Args:
            done: who did it.
            of: the table's format.
        """
        of_defects = [k.remedy for k in known if k.remedy]
        if of_defects:
            return Prevention(" ".join(dict.fromkeys(of_defects)))
        means = meaning(name)
        if means is None:
            return Prevention("")
        if done.client:  # whatever became of it: the client took a lost reply for a failure
            return REPLY
        if not known and done.forgot:
            return KEEPS
        if of.guard and means.prevention is GUARD:
            return Prevention(of.guard)
        if known and means.culprit is Culprit.CATALOG:  # the catalog's guard is right: the defect is another one
            shown = f"`icequake prove {known[0].scenario}` shows the defect."
            return Prevention(f"No remedy is known but another catalog; {shown}")
        if done.engine and means.culprit is Culprit.CATALOG:
            keep = "keep it from writing to this table, and report the statements to its maker."
            return Prevention(f"{done.who} did it, not the catalog: {keep}")
        apart = means.prevention.apart
        return Prevention(apart) if apart and not any(map(self._at_once, lead)) else means.prevention

    def _meanwhile(self, name: str, lead: Sequence[Anomaly]) -> str:
        """What to do until the remedy is done: run apart what did it, where the run shows that it did it by running at once."""
        means = meaning(name)
        if means is None or not means.prevention.by_two:
            return ""
        pairs = [[self.operations[op] for op in a.ops[:2] if op in self.operations] for a in lead]
        if not pairs or any(
            len(p) < 2 or any(o.end is None for o in p) or not self._at_once(a)
            for p, a in zip(pairs, lead, strict=True)
        ):
            return ""
        alone = dict.fromkeys(o.f for p in pairs for o in p if o.f in KINDS and KINDS[o.f].verb == "maintenance")
        return f"Run {explain.listing(alone)} while nothing else writes." if alone else _ONE_WRITER

    def _at_once(self, a: Anomaly) -> bool:
        """Whether two of an anomaly's operations ran at the same time, or nobody knows."""
        these = sorted((self.operations[op] for op in a.ops if op in self.operations), key=lambda o: o.start)
        if len(these) < 2:
            return True
        return any(o.end is None or o.end >= later.start for o, later in pairwise(these))

    def _shown_by_scenario(self, group: Sequence[Anomaly]) -> tuple[KnownDefect, ...]:
        """The defect of the scenario that the run is, if it is one of the library and shows an anomaly of a group."""
        own = of_scenario(self.ran.workload) if self.ran is not None else None
        return (own,) if own is not None and {a.name for a in group} & {*own.anomalies} else ()

    def _defects(self, group: Sequence[Anomaly], ops: Sequence[str], done: DoneBy) -> tuple[KnownDefect, ...]:
        """The defects that they look like; looked up once for stories that look the same."""
        if (
            done.client and group[0].name == "missing-file"
        ):  # no longer main's, so that nobody says that it was reported as failed
            group = [*group, replace(group[0], name="false-failure", checker="commits", files=())]
        o = self.operations.get(ops[0]) if ops else None
        error = tuple(link[0] for link in (o.error or ()) if link) if o is not None else ()
        looks = (frozenset((a.checker, a.name, a.table, str(a.evidence.get(pointer.ENDPOINT))) for a in group), error)
        if looks not in self._known:
            beside = [a for t in {a.table for a in group} for a in self.by_table.get(t, ())]
            self._known[looks] = known_defects(self.ran, group, self.evidence, beside)
        return self._known[looks]

    def _headline(
        self,
        name: str,
        lead: Sequence[Anomaly],
        facts: Facts,
        table: str | None,
        by: str,
        keys: Sequence[int],
        end: UnreadableTable | None,
    ) -> str:
        if name == UNREADABLE_STEP:
            return f"nobody can read {table}"
        if end is not None:
            rest = self._headline(name, lead, facts, table, by, keys, None)
            return f"nobody can read {end.table}; {rest}"
        if name == "lost-update" and (said := self._instead(lead, facts)):
            return said
        means = meaning(name)
        if name.startswith("G") and means is not None and lead[0].ops:
            return f"{explain.listing(map(self._statement, lead[0].ops))}: {means.counted[0]}"
        if len(lead) > 1 and name == "lost-commit":
            movers = [self._statement(op) for op in dict.fromkeys(op for a in lead for op in sorted(facts.at_fault(a)))]
            why = f"{by} accepted them and did not make them" if by == SERVER else ""
            why = why or (f"{explain.listing(movers)} put the table back to a state before them" if movers else "")
            return counted(name, len(lead)) + (f": {why}" if why else "")
        if means is None:
            return f"{name} on {table}" if table else name
        doers = dict.fromkeys(op for a in lead if (op := _first(a, facts)) is not None)
        doer = explain.listing(map(self._statement, doers))
        if name == "lost-commit":
            doer = self._statement(facts.victim(lead[0]) or next(iter(doers), ""))
        if harm_of(name) is Harm.METADATA or not means.headline or not doer:
            return f"{doer}: {_as_clause(means.sentence)}" if doer else means.sentence.removesuffix(".")
        ids = _ids(keys)
        if len(doers) > 1 and name != "lost-commit":
            return f"{counted(name, len(lead))}{f' ({ids})' if ids else ''}: {doer}"
        return means.headline.format(
            op=doer,
            ids=f" {ids}" if ids else " its row",
            of_ids=f" of {ids}" if ids else "",
            ids_named=f": {ids}" if ids else "",
        )

    def _instead(self, lead: Sequence[Anomaly], facts: Facts) -> str:
        """Whose changes are lost, and which took their place; empty if nobody knows."""
        pairs = dict(pair for a in lead for pair in facts.instead(a))
        lost, won = (explain.listing(map(self._statement, dict.fromkeys(ops))) for ops in (pairs, pairs.values()))
        was, is_, its = ("was", "is", "its") if len(pairs) == 1 else ("were", "are", "their")
        return f"{lost} {was} acknowledged and {is_} lost: {won} took {its} place" if pairs else ""

    def _statement(self, op: str) -> str:
        """``DELETE w2-14``, ``rewrite-data-files w0-3``, ``the read w1-7``."""
        o = self.operations.get(op)
        kind = KINDS.get(o.f) if o is not None else None
        if o is None:
            return f"operation {op}"
        if kind is None or kind.two_tables or kind.verb in ("maintenance", "alter"):
            return f"{o.f} {op}"
        return f"the read {op}" if kind.verb == "read" else f"{kind.verb.upper()} {op}"


def _came_back(a: Anomaly, log: TableLog | None) -> list[Row]:
    """The rows that a ``resurrected-row`` brought back; empty if its operation wrote others with their ids, so that nobody knows which."""
    at = log.columns.index("id") if log is not None and "id" in log.columns else None
    added, removed = ([tuple(r) for r in a.evidence.get(which) or ()] for which in ("added", "removed"))
    if a.name != "resurrected-row" or at is None or {r[at] for r in removed} & {*a.keys}:
        return []
    found = [r for r in added if r[at] in a.keys]
    return found if len(found) == len({*a.keys}) else []


def _gravest(group: Sequence[Anomaly]) -> Anomaly | None:
    """The anomaly that a story is named after: a second opinion only if there is nothing else."""
    own = [a for a in group if a.checker not in SECOND_OPINIONS] or group
    return min(own, key=lambda a: (harm_of(a.name).gravity, _rank(a.name)), default=None)


def _ids(keys: Sequence[int], most: int = explain.MOST_IN_A_SENTENCE) -> str:
    return "" if not keys else f"id{'s' if len(keys) > 1 else ''} {explain.listing(keys, most)}"


def _consequence(
    harm: Harm,
    name: str,
    keys: Sequence[int],
    lead: Sequence[Anomaly],
    table: str | None,
    end: UnreadableTable | None,
    deleted: bool,
) -> str:
    """One sentence: what it means for the rows; ``deleted``: what is lost are deletes."""
    of = f" of {table}" if table else ""
    means = meaning(name)
    if end is not None:
        lost = _consequence(harm, name, keys, lead, table, None, deleted) if name == "lost-commit" else ""
        return f"Nobody can read {end.table} from {end.since / 1e9:.1f} s on: {file_words(end.file)} is gone{_none_of(end)}. {lost}".rstrip()
    if name == "lost-commit" and deleted:
        rows = f"What {'it' if len(lead) == 1 else 'they'} deleted{f', {_ids(keys, MOST_KEYS_NAMED)},' if keys else ''} is still in the table"
        return f"{rows}, and whoever deleted it believes that it is gone."
    if name == "lost-commit":
        what = f"What {'it' if len(lead) == 1 else 'they'} wrote{f' to {_ids(keys, MOST_KEYS_NAMED)}' if keys else ''}"
        return f"{what} is not in the table, and whoever wrote it believes that it is."
    return ((means.rows if means is not None else "") or harm.rows).format(of=of)


def _deletes_live_files(o: Operation) -> bool:
    """Whether it can delete files of running operations; an expiry deletes none that a listed snapshot needs."""
    kind = KINDS.get(o.f)
    return kind is not None and kind.deletes_files and not kind.needs_captured_log


def unreadable_words(u: UnreadableTable) -> str:
    """``unreadable since 9.0 s (file …); none of 565 later operations succeeded``, without the table."""
    return f"unreadable since {u.since / 1e9:.1f} s ({file_words(u.file)}){_none_of(u)}"


def _none_of(u: UnreadableTable) -> str:
    """What became of the operations after a table became unreadable."""
    if not u.later:
        return ""
    return "; the next operation did not succeed" if u.later == 1 else f"; none of {u.later} later operations succeeded"


def _step(
    name: str,
    found: Sequence[Anomaly],
    facts: Facts,
    operations: Mapping[str, Operation],
    failed: Iterable[str],
    *,
    cleaned: bool,
) -> StoryStep:
    ops = tuple(dict.fromkeys(op for a in found if (op := _first(a, facts)) is not None))
    who = explain.listing(_named(ops, operations))
    files = len({f for a in found for f in a.files})
    if name == "false-failure":
        text = f"{who}: reported as failed, but the table has its commit"
    elif name == "missing-file" and ops and {*ops} <= {*failed} and not cleaned:
        text = (
            f"{who}: the client that believed this failure deleted {explain.count(files, 'file')} that the table needs"
        )
    elif name == "missing-file":
        by = f" of {who}" if ops else ""
        text = (
            f"{explain.count(files, 'file')}{by} that the table needs {'is' if files == 1 else 'are'} not in the store"
        )
    elif name == "lost-swap" and all(pointer.ANSWER in a.evidence for a in found):
        answers = explain.listing(dict.fromkeys(str(a.evidence[pointer.ANSWER]) for a in found))
        it = ("the commit", "it") if len(found) == 1 else (f"these {len(found)} commits", "them")
        text = f"{who}: the catalog server answered {answers} and did not make {it[0]}: no metadata version has {it[1]}"
    elif name == "lost-commit":
        victims = explain.listing(_named([v for a in found if (v := facts.victim(a)) is not None], operations))
        movers = explain.listing(_named(sorted({op for a in found for op in facts.at_fault(a)}), operations))
        never = all(a.evidence.get("seen") is False for a in found)
        where = "in no version of the table that was read" if never else "no longer in the table's history"
        text = f"{victims}: acknowledged, but {where}" + (
            f"; {movers} {'took its place' if never else 'set it back'}" if movers else ""
        )
    elif name == "duplicate-commit":
        text = f"{who}: committed more than once"
    else:
        means = meaning(name)
        what = f"found {explain.count(len(found), 'time')}" if means is None else _as_clause(means.sentence)
        text = f"{who}: {what}" if who else what
    return StoryStep(
        name, tuple(dict.fromkeys(a.checker for a in found)), len(found), ops[: explain.MOST_IN_A_SENTENCE], text
    )


def _as_clause(sentence: str) -> str:
    """A sentence behind a colon."""
    return f"{sentence[0].lower()}{sentence[1:].removesuffix('.')}"


def _first(a: Anomaly, facts: Facts) -> str | None:
    at_fault = sorted(facts.at_fault(a))
    return at_fault[0] if at_fault else a.ops[0] if a.ops else None


def _named(ops: Iterable[str], operations: Mapping[str, Operation]) -> Iterator[str]:
    for op in dict.fromkeys(ops):
        yield f"{operations[op].f} {op}" if op in operations else op
