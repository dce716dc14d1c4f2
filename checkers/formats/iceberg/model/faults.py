"""The search step by step: writers, a catalog's client and server, one pointer, and a bounded number of faults.

A state is the pointer, what each writer is about, the requests that will arrive late, and which operations were acknowledged, or failed and
cleaned up after themselves. The steps of a writer are ``SnapshotProducer.commit`` (1.11.0):

* **scan**: it takes an operation and reads main.
* **refresh, validate** (:471-475): it loads the table, and validates against what came since its scan, also against its own commit if that is
  there already. Refused by a validation it deletes what it wrote and fails (:507). If the table lists its snapshot (:479) it sets main to
  it; if main is there (:488), it has succeeded.
* **check**, where the client compares itself, perhaps under a lock; **request**: the server compares, or not, and applies.
* refused (``CommitFailedException``) it tries again (:471), until its retries are used up; then it deletes what it wrote and fails.

Reductions, none of which loses a broken promise. Writers are interchangeable, so they are sorted, and only one idle writer begins. Writing
files, sending and receiving are no steps, since nobody sees them. A request that the server will refuse in any case, because the pointer has
moved and never returns to a former file, is refused at once; a fault on it would only leave an operation that changed nothing. A state that
breaks a promise is not continued.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from checkers.conflicts.validations import FileEffect, KeyBounds, refusals
from checkers.evidence.uncollected import uncollected
from checkers.formats.iceberg.model.catalogs import Fault
from checkers.formats.iceberg.model.operations import Work, attempt, committed, work
from checkers.formats.iceberg.model.table import TableVersion, seeded
from checkers.formats.iceberg.model.ways import (
    BY_CATALOG,
    IDLE_WRITER,
    LOST,
    MISSING,
    STUCK,
    TWICE,
    Faulty,
    Meta,
    ModelState,
    ModelWriter,
    Way,
    WaySearchResult,
    WayStep,
)
from workloads.engines.engine import Rule
from workloads.file.modelled import REWRITE_KINDS

Since = tuple[tuple[FileEffect, ...], dict[str, KeyBounds]]
"""What commits did, and the bounds of the files that they name."""
Tell = Callable[[int, int, float], None]
"""Gets how many states there are, how deep the search is, in steps, and how many seconds it has taken."""
REMEMBERED: tuple[Rule, ...] = ("replaced files", "replaced delete files")
"""Rules by which an operation is not refused by its own commit, if that is the last one: ``ManifestFilterManager`` remembers in which
manifests of its own it has deleted the files (``filteredManifestToDeletedFiles``), and finds them there."""


@dataclass
class WaySearch:
    """One search, breadth first, so that the first way to a broken promise is a shortest one."""

    of: Faulty
    out: WaySearchResult = field(default_factory=WaySearchResult)

    def __post_init__(self) -> None:
        self.operations = self.of.operations()
        self.scans = [f"scan of {o}" for o in self.operations]
        self.begun = len(self.of.bound.operations())
        """So many of them are begun; the others are the same, done again."""
        self.start = seeded(self.of.bound.keys, self.of.bound.partitions)
        self.metas = [Meta(0, 0, frozenset())]
        self._meta_ids = {self.metas[0]: 0}
        self.lines: list[tuple[int, int, int, int]] = [(0, -1, -1, 0)]
        """Main's ancestries: the one before, and the last commit: operation's number, operation, ancestry that it has scanned."""
        self._line_ids = {self.lines[0]: 0}
        self._ops = [0]
        self._known: set[tuple[object, ...]] = set()
        """Names of broken promises with the operations and faults of a way to them."""
        # Functions of numbers, asked again and again.
        self.twice: Callable[[int], bool] = cache(self._twice)
        self.work: Callable[[int, int, int], Work | None] = cache(self._work)
        self.table: Callable[[int], TableVersion] = cache(self._table)
        self.effects: Callable[[int, int], Since | None] = cache(self._effects)
        self.verdict: Callable[[int, int, int, int], tuple[Rule, ...] | None] = cache(self._verdict)
        self.moment: Callable[..., WayStep] = cache(WayStep)

    def run(self, most: int = 5_000_000, tell: Tell | None = None, every: float = 0.0) -> WaySearchResult:
        """Search everything within the bound. ``tell`` gets how far it is, every so many seconds.

        Raises:
            MemoryError: there are more than ``most`` states.
        """
        with uncollected():  # millions of states, without a circle: a fifth of the time
            return self._run(most, tell, every)

    def _run(self, most: int, tell: Tell | None, every: float) -> WaySearchResult:
        began, due, looked = time.process_time(), every, 0
        seen: dict[ModelState, tuple[ModelState, WayStep] | None] = {self.first: None}
        todo, taken = deque([(self.first, 0)]), Counter[WayStep]()
        while todo:
            state, depth = todo.popleft()
            looked += 1
            if tell is not None and not looked % 1024 and (seconds := time.process_time() - began) > due:
                due = seconds + every
                tell(len(seen), depth, seconds)
            self.out.depth = max(self.out.depth, depth)
            ended = True
            for moment, after in self.steps(state):
                ended = False
                taken[moment] += 1
                if after in seen:
                    continue
                seen[after] = state, moment
                name = self.broken(after)
                if name is None:
                    todo.append((after, depth + 1))
                else:
                    self._found(name, self._way(seen, after))
            if ended and any(w.stage != "begin" for w in state.writers) and STUCK not in self.out.found:
                self._found(STUCK, self._way(seen, state))
            if len(seen) > most:
                raise MemoryError(f"more than {most:,} states: make the bound smaller")
        for moment, times in taken.items():
            self.out.fired[moment.words.partition(" of ")[0]] += times
            if moment.begins:
                self.out.began[self.operations[moment.operation].name] += times
        self.out.states = len(seen)
        self.out.seconds = time.process_time() - began
        return self.out

    @property
    def first(self) -> ModelState:
        """Where it begins."""
        return ModelState(
            0, (IDLE_WRITER,) * self.of.writers, (), 0, self.of.bound.compactions, 0, self.of.faults, 0, 0
        )

    def _way(self, seen: dict[ModelState, tuple[ModelState, WayStep] | None], state: ModelState) -> Way:
        way = []
        while (before := seen[state]) is not None:
            state, moment = before
            way.append(moment)
        return tuple(reversed(way))

    def _found(self, name: str, way: Way) -> None:
        """Keep it, if it is the first one of its operations and faults."""
        self.out.found.setdefault(name, way)
        what = (name, *sorted(m.operation for m in way if m.begins), *(m.fault for m in way if m.fault is not None))
        if what in self._known:  # nearly all of them; the comparison below is with each mix that there is
            return
        self._known.add(what)
        mix = Counter(self.operations[m.operation].name + self.operations[m.operation].mode for m in way if m.begins)
        mix.update(m.fault for m in way if m.fault is not None)
        if not any(name == other and part <= mix for other, part, _ in self.out.mixes):
            self.out.mixes.append((name, mix, way))

    def broken(self, s: ModelState) -> str | None:
        """An acknowledged commit that main does not have, or a commit of main whose files were deleted."""
        table = self._ops[self.metas[s.pointer].main]
        if s.acknowledged & ~table:
            return LOST
        if s.deleted & table:
            return MISSING
        line = self.metas[s.pointer].main
        return TWICE if self.twice(line) else None

    def _twice(self, line: int) -> bool:
        """Whether a row of a repeated INSERT is there more than once."""
        keys = {self.operations[operation].key for operation in self._repeated(line)}
        return bool(keys) and any(count > 1 for count in Counter(row[0] for row in self.table(line).rows).values())

    def _repeated(self, line: int) -> Iterator[int]:
        while line:
            line, _, operation, _ = self.lines[line]
            if self.operations[operation].again:
                yield operation

    # --- what a commit is

    def _meta(self, m: Meta) -> int:
        if m not in self._meta_ids:
            self._meta_ids[m] = len(self.metas)
            self.metas.append(m)
        return self._meta_ids[m]

    def _line(self, before: int, op: int, operation: int, scan: int) -> int:
        entry = (before, op, operation, scan)
        if entry not in self._line_ids:
            self._line_ids[entry] = len(self.lines)
            self.lines.append(entry)
            self._ops.append(self._ops[before] | 1 << op)
        return self._line_ids[entry]

    def _work(self, operation: int, scan: int, op: int) -> Work | None:
        return work(self.operations[operation], self.table(scan), op + 1, self.of.bound.partitions)

    def _table(self, line: int) -> TableVersion:
        if not line:
            return self.start
        before, op, operation, scan = self.lines[line]
        done = self.work(operation, scan, op)
        assert done is not None, "a commit has something to do"
        return committed(self.table(before), done, vectors=self.of.bound.format_version == 3)

    def _effects(self, line: int, since: int) -> Since | None:
        """What the commits of a line did since another one, and the files that they name; None: it is none of its ancestors."""
        found, live = [], {name: f.bounds for name, f in self.start.files.items()}
        inside = line == since
        while line:
            before, op, operation, scan = self.lines[line]
            done = self.work(operation, scan, op)
            assert done is not None
            live |= {name: f.bounds for name, f in done.added.items()}
            if not inside:
                found.append(done.effect)
            line = before
            inside = inside or line == since
        return (tuple(reversed(found)), live) if inside or not since else None

    def _verdict(self, operation: int, scan: int, op: int, main: int) -> tuple[Rule, ...] | None:
        """The rules that refuse an operation on this main; None: it has nothing to do there."""
        o, b = self.operations[operation], self.of.bound
        base = main if o.at_commit else scan
        done = self.work(operation, base, op)
        if done is None:
            return None
        wanted = attempt(o, done, serializable=b.serializable, format_version=b.format_version, without=b.lacks(o))
        since = self.effects(main, base)
        if since is None:  # "Cannot determine history between starting snapshot": SnapshotUtil.ancestorsBetween
            return wanted.rules
        effects, live, own = since[0], since[1], self._own(main, base, op)
        refused = refusals(wanted, [e for n, e in enumerate(effects) if n != own], live)
        if own is not None:
            last = own == len(effects) - 1  # a later commit drops its manifests, which have no live file
            by_own = refusals(wanted, effects[own : own + 1], live)
            refused += tuple(r for r in by_own if not (last and r in REMEMBERED))
        self.out.refused.update(refused)
        return refused

    def _own(self, line: int, since: int, op: int) -> int | None:
        """The place of an operation's own commit among those since a version."""
        ops = []
        while line and line != since:
            before, made_by, _, _ = self.lines[line]
            ops.append(made_by)
            line = before
        return ops[::-1].index(op) if op in ops else None

    # --- steps

    def steps(self, s: ModelState) -> Iterator[tuple[WayStep, ModelState]]:
        """What can happen next, in words, and what is then."""
        pointer = self.metas[s.pointer]
        for n, w in enumerate(s.writers):  # who will be refused in any case
            if w.stage == "request" and self.of.catalog.compares and self.metas[w.base].file != pointer.file:
                yield self._moment(w, "refused"), self._retry(s, n, w)
                return
        idle = False
        for n, w in enumerate(s.writers):
            if w.stage == "begin":
                if not idle:
                    idle = True
                    yield from self._begins(s, n)
            elif w.stage == "refresh":
                yield from self._refreshes(s, n, w)
            elif w.stage == "check":
                yield from self._checks(s, n, w)
            elif w.stage == "again":
                yield self._does_again(s, n, w)
            else:
                yield from self._requests(s, n, w)
        for base, new in dict.fromkeys(s.late):
            late = list(s.late)
            late.remove((base, new))
            applied = not self.of.catalog.compares or self.metas[base].file == pointer.file
            yield (
                WayStep(BY_CATALOG, BY_CATALOG, "a late request arrives"),
                s._replace(late=tuple(late), pointer=new if applied else s.pointer),
            )

    def _begins(self, s: ModelState, n: int) -> Iterator[tuple[WayStep, ModelState]]:
        writes = s.begun - (self.of.bound.compactions - s.compactions)
        for k, o in enumerate(self.operations[: self.begun]):
            compacts = o.kind in REWRITE_KINDS
            if not (s.compactions if compacts else writes < self.of.bound.writes) or o.key > s.used:
                continue
            main = self.metas[s.pointer].main
            if not o.at_commit and self.work(k, main, s.begun) is None:
                continue
            w = ModelWriter("refresh", s.begun, k, main, 0, 0, 0)
            used = s.used if compacts else max(s.used, min(o.key + 1, self.of.bound.keys - 1))
            after = ModelState._make((*s[:3], s.begun + 1, s.compactions - compacts, used, *s[6:]))
            yield self._moment(w, self.scans[k]), self._with(after, n, w)

    def _does_again(self, s: ModelState, n: int, w: ModelWriter) -> tuple[WayStep, ModelState]:
        """Its client, which was told nothing, looks or does not, and begins once more what it asked for."""
        main = self.metas[s.pointer].main
        if self.of.repeats == "if not found" and self._ops[main] >> w.op & 1:
            return self._moment(w, "looks, finds its commit, acknowledged"), self._done(s, n, w)
        again = self.begun + w.operation
        after = ModelWriter("refresh", s.begun, again, main, 0, 0, 0)
        words = f"{self.scans[again]}, again"
        return self._moment(after, words), self._with(s._replace(begun=s.begun + 1), n, after)

    def _unknown(self, s: ModelState, n: int, w: ModelWriter) -> ModelState:
        """It ends without an answer; what it then does is up to its client."""
        o = self.operations[w.operation]
        if self.of.repeats == "never" or o.again or o.kind in REWRITE_KINDS:
            return self._with(s, n, IDLE_WRITER)
        writes = s.begun - (self.of.bound.compactions - s.compactions)
        if writes >= self.of.bound.writes:
            return self._with(s, n, IDLE_WRITER)
        return self._with(s, n, w._replace(stage="again", base=0, new=0, tried=0))

    def _refreshes(self, s: ModelState, n: int, w: ModelWriter) -> Iterator[tuple[WayStep, ModelState]]:
        pointer = self.metas[s.pointer]
        own = next((line for line in pointer.listed if self.lines[line][1] == w.op), None)
        retried = (
            own is not None and self.operations[w.operation].at_commit
        )  # it validates nothing, and finds its rows there
        refused = () if retried else self.verdict(w.operation, w.scan, w.op, pointer.main)
        if refused is None:
            yield self._moment(w, "nothing to do"), self._with(s, n, IDLE_WRITER)
        elif refused:
            words = "refused by its own commit" if own is not None else "refused by a validation"
            yield self._moment(w, f"{words} of {', '.join(refused)}"), self._failed(s, n, w)
        elif pointer.main == own:
            yield self._moment(w, "its commit is there, acknowledged"), self._done(s, n, w)
        else:
            o = self.operations[w.operation]
            line = (
                own
                if own is not None
                else self._line(pointer.main, w.op, w.operation, pointer.main if o.at_commit else w.scan)
            )
            file = 1 + w.op * (self.of.retries + 1) + w.tried
            new = self._meta(Meta(file, line, pointer.listed | {line}))
            words = "refresh, main is to go back to its commit" if own is not None else "refresh, validate"
            stage = "check" if self.of.catalog.checks else "request"
            ready = ModelWriter(stage, w.op, w.operation, w.scan, w.tried, s.pointer, new)
            yield self._moment(w, words), self._with(s, n, ready)

    def _checks(self, s: ModelState, n: int, w: ModelWriter) -> Iterator[tuple[WayStep, ModelState]]:
        if self.of.catalog.locks and any(x.stage == "request" for x in s.writers):
            return  # another one has the lock; one that has lost it stands at "set"
        if self.metas[w.base].file != self.metas[s.pointer].file:
            yield self._moment(w, "refused by its own check"), self._retry(s, n, w)
        else:
            yield self._moment(w, "check"), self._with(s, n, w._replace(stage="request"))

    def _requests(self, s: ModelState, n: int, w: ModelWriter) -> Iterator[tuple[WayStep, ModelState]]:
        catalog = self.of.catalog
        if w.stage == "set":  # it has lost its lock, and finds out after its request
            yield self._moment(w, "applied without the lock, unknown"), self._unknown(s._replace(pointer=w.new), n, w)
            return
        applied = s._replace(pointer=w.new)  # who would be refused is not here, and without a comparison nobody is
        yield self._moment(w, "applied, acknowledged"), self._done(applied, n, w)
        if not s.faults:
            return
        for fault, reaction in catalog.after.items():
            if self.of.only is not None and fault not in self.of.only:
                continue
            self.out.faults[fault] += 1
            fewer = s._replace(faults=s.faults - 1)
            if fault == "lock expired":
                yield self._moment(w, "the lock expired", "lock expired"), self._with(fewer, n, w._replace(stage="set"))
            elif fault == "late":
                later = fewer._replace(late=tuple(sorted((*s.late, (w.base, w.new)))))
                if reaction == "resend":  # it stands at the same request, and has its lock
                    yield self._moment(w, "error, the request is late, sent again", "late"), later
                    continue
                yield self._moment(w, "error, the request is late", "late"), self._unknown(later, n, w)
            else:
                yield from self._reacts(applied._replace(faults=s.faults - 1), n, w, fault, reaction)

    def _reacts(
        self, s: ModelState, n: int, w: ModelWriter, fault: Fault, reaction: str
    ) -> Iterator[tuple[WayStep, ModelState]]:
        """The request was applied, and the client is not told. What it then does is a step of its own only where it asks again."""
        if reaction == "unknown":
            yield self._moment(w, f"applied, {fault}, unknown", fault), self._unknown(s, n, w)
        elif reaction == "check":  # its file is the table's, or in its log
            yield self._moment(w, f"applied, {fault}, found", fault), self._done(s, n, w)
        elif reaction == "resend, check" or not self.of.catalog.compares:
            yield self._moment(w, f"applied, {fault}, sent again, found", fault), self._done(s, n, w)
        else:  # sent again it is refused, whatever came between: the pointer has left the base
            yield self._moment(w, f"applied, {fault}, sent again, refused", fault), self._retry(s, n, w)

    def _moment(self, w: ModelWriter, words: str, fault: Fault | None = None) -> WayStep:
        return self.moment(w.op, w.operation, words, fault)

    def _retry(self, s: ModelState, n: int, w: ModelWriter) -> ModelState:
        if w.tried == self.of.retries:
            return self._failed(s, n, w)
        return self._with(s, n, ModelWriter("refresh", w.op, w.operation, w.scan, w.tried + 1, 0, 0))

    def _failed(self, s: ModelState, n: int, w: ModelWriter) -> ModelState:
        return self._with(ModelState._make((*s[:8], s.deleted | 1 << w.op)), n, IDLE_WRITER)

    def _done(self, s: ModelState, n: int, w: ModelWriter) -> ModelState:
        return self._with(ModelState._make((*s[:7], s.acknowledged | 1 << w.op, s.deleted)), n, IDLE_WRITER)

    def _with(self, s: ModelState, n: int, w: ModelWriter) -> ModelState:
        # _make takes a third of the time of _replace, of which a search has millions.
        return ModelState._make((s[0], tuple(sorted((*s.writers[:n], w, *s.writers[n + 1 :]))), *s[2:]))


def search(faulty: Faulty, tell: Tell | None = None, every: float = 0.0) -> WaySearchResult:
    """Search everything within the bound. ``tell`` gets how far it is, every so many seconds."""
    return WaySearch(faulty).run(tell=tell, every=every)
