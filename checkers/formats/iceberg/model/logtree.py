"""The tree of logs: all logs of commits that the rules allow, for any number of writers.

The state is the log itself: which operations committed, in which order, and what each had scanned. Where the catalog compares before it swaps
the pointer, no reply is lost, and a client retries until it is refused, an attempt from refresh to swap is one step: a swap that succeeds saw
an unchanged base, so nothing can come between its validation and it; a swap that is refused changes nothing. Writers need no state
either: whoever commits on version b with a scan s ≤ b is some writer that began before s + 1 was there. So the logs form a tree, which
is searched depth first without a set of visited states. A test holds that a search with writers, step by step, finds the same logs.

Keys are interchangeable if they are in one file at the start, and the same is true of partitions: a log uses key k only after k - 1. That
holds for two keys; with three, a file's bounds tell the middle one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from checkers.conflicts.validations import Compares, KeyBounds, lacking, refusals
from checkers.formats.iceberg.model import properties
from checkers.formats.iceberg.model.operations import ModelOperation, Work, attempt, committed, rules_of_kind, work
from checkers.formats.iceberg.model.table import TableVersion, seeded
from workloads.engines.engine import Rule
from workloads.engines.engines import SPARK
from workloads.file.modelled import OF_A_KEY, REWRITE_KINDS, TRANSFER, UPKEEP


@dataclass(frozen=True)
class Bound:
    """What is explored.

    Attributes:
        kinds: kinds of operations, with the mode in which each writes; of an engine other than Spark ``pyiceberg delete``.
        writes: most commits but compactions of a log.
        compactions: most compactions.
        keys: how many keys; key k is in partition k modulo ``partitions``.
        upkeep: most operations that change the metadata or the store (``checkers.formats.iceberg.model.upkeep``).
        compares: what the catalog compares before it swaps the pointer.
        rule_set: the validations of Spark's operations (``checkers.conflicts.validations.LACKING``).
        without: validations that the engine does not have besides.
    """

    kinds: tuple[tuple[str, str], ...]
    writes: int
    compactions: int = 0
    keys: int = 1
    partitions: int = 1
    serializable: bool = True
    format_version: int = 2
    without: frozenset[Rule] = frozenset()
    upkeep: int = 0
    compares: Compares = "requirements"
    rule_set: str = "iceberg-1.12"

    def lacks(self, o: ModelOperation) -> frozenset[Rule]:
        """The validations that the operation's engine does not have."""
        return self.without | lacking(self.rule_set, o.kind) if o.engine == SPARK else self.without

    def operations(self) -> list[ModelOperation]:
        """Every operation; of kinds that work on the whole table or partition one for each that differs."""
        out = []
        for name, mode in self.kinds:
            engine, _, kind = name.rpartition(" ")
            whole = kind in (*REWRITE_KINDS, TRANSFER) or (kind in UPKEEP and kind not in OF_A_KEY)
            keys = 1 if whole else self.partitions if kind == "delete-partition" else self.keys
            out += [ModelOperation(kind, key, mode, engine or SPARK) for key in range(keys)]
        return out


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A commit of a log: the operation, and the number of the commit whose version it has scanned (0: the table at the start)."""

    operation: ModelOperation
    scan: int


Log = tuple[LogEntry, ...]
Mix = tuple[tuple[str, str], ...]
"""The kinds and modes of a log's operations, sorted."""


@dataclass
class Explored:
    """What a search found.

    Attributes:
        logs: how many logs; the empty one is none.
        mixes: name of a broken promise and a mix of operations → the shortest log that shows it, as far as the search went.
        fired: validation → how often it refused an attempt.
        committed: kind → how many commits of it are in the tree.
    """

    logs: int = 0
    mixes: dict[tuple[str, Mix], Log] = field(default_factory=dict)
    fired: Counter[Rule] = field(default_factory=Counter)
    committed: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def count(self, log: Log, name: str | None) -> None:
        """One more log, and the promise that it breaks."""
        self.logs += 1
        self.committed[log[-1].operation.name] += 1
        if name is not None:
            self.add(name, log)

    def merge(self, other: Explored) -> None:
        """What a search of a part found."""
        self.logs += other.logs
        self.fired.update(other.fired)
        self.committed.update(other.committed)
        self.seconds += other.seconds
        for (name, mix), log in other.mixes.items():
            self._keep(name, mix, log)

    def add(self, name: str, log: Log) -> None:
        """Keep the shorter log of a mix."""
        mix = tuple(sorted((f"{e.operation.engine} {e.operation.kind}", e.operation.mode) for e in log))
        self._keep(name, mix, log)

    def _keep(self, name: str, mix: Mix, log: Log) -> None:
        if (name, mix) not in self.mixes or len(log) < len(self.mixes[name, mix]):
            self.mixes[name, mix] = log

    @property
    def found(self) -> dict[str, Log]:
        """Name of a broken promise → the shortest log that shows it."""
        out: dict[str, Log] = {}
        for (name, _), log in self.mixes.items():
            if name not in out or len(log) < len(out[name]):
                out[name] = log
        return out

    def each(self) -> list[tuple[str, Log]]:
        """A log for every mix of operations that breaks a promise, but those of which a part breaks it, too; the shortest first."""
        mixes = [(name, Counter(mix), log) for (name, mix), log in self.mixes.items()]
        least = [
            (name, log) for name, mix, log in mixes if not any(name == other and part < mix for other, part, _ in mixes)
        ]
        return sorted(least, key=lambda x: (x[0], len(x[1])))


def goes_on(name: str | None) -> bool:
    """Whether logs are continued after one that breaks this promise."""
    return name in (None, properties.DANGLING)


def logs(
    bound: Bound, out: Explored | None = None, prefix: Log = (), deepest: int | None = None
) -> Iterator[tuple[Log, str | None]]:
    """All logs within the bound that go on from a prefix, each with the promise that its last commit breaks.

    Args:
        out: counts what is refused, but not within the prefix.
        deepest: most entries of a log; None: those of the bound.
    """
    start = seeded(bound.keys, bound.partitions)
    live = {name: f.bounds for name, f in start.files.items()}
    branch = _Branch(bound, bound.operations(), Explored(), [start], [], [], live, deepest)
    writes, compactions, used = bound.writes, bound.compactions, 0
    for e in prefix:
        done = branch.allowed(e.operation, e.scan)
        assert done is not None, "a prefix has only commits"
        branch.entries.append(e)
        branch.push(committed(branch.versions[-1], done, vectors=bound.format_version == 3), done)
        compacts = e.operation.kind in REWRITE_KINDS
        writes, compactions = writes - (not compacts), compactions - compacts
        used = used if compacts else max(used, e.operation.key + 1)
    branch.out = out or branch.out
    if writes + compactions:
        yield from branch.below(writes, compactions, used)


@dataclass
class _Branch:
    """The path from the root to the log at hand: its versions and works, and the bounds of every file that there ever was."""

    bound: Bound
    operations: list[ModelOperation]
    out: Explored
    versions: list[TableVersion]
    works: list[Work]
    entries: list[LogEntry]
    live: dict[str, KeyBounds]
    deepest: int | None = None

    def below(self, writes: int, compactions: int, used: int) -> Iterator[tuple[Log, str | None]]:
        """The logs that go on from here. ``used``: how many keys the log has used."""
        base = len(self.works)
        for o in self.operations:
            compacts = o.kind in REWRITE_KINDS
            if not (compactions if compacts else writes) or o.key > used:
                continue
            for scan in range(base if o.at_commit else 0, base + 1):
                done = self.allowed(o, scan)
                if done is None:
                    continue
                after = committed(self.versions[base], done, vectors=self.bound.format_version == 3)
                self.entries.append(LogEntry(o, scan))
                name = properties.broken(
                    [*self.versions, after],
                    [e.operation for e in self.entries],
                    [e.scan for e in self.entries],
                    done,
                    serializable=self.bound.serializable,
                    format_version=self.bound.format_version,
                    partitions=self.bound.partitions,
                )
                yield tuple(self.entries), name
                if goes_on(name) and writes + compactions > 1 and len(self.entries) != self.deepest:
                    self.push(after, done)
                    yield from self.below(
                        writes - (not compacts), compactions - compacts, used if compacts else max(used, o.key + 1)
                    )
                    self._pop(done)
                self.entries.pop()

    def allowed(self, o: ModelOperation, scan: int) -> Work | None:
        """What the operation commits; None if it has nothing to do, or is refused."""
        base = len(self.works)
        done = work(o, self.versions[base if o.at_base else scan], base + 1, self.bound.partitions)
        if done is None:
            return None
        wanted = attempt(
            o,
            done,
            serializable=self.bound.serializable,
            format_version=self.bound.format_version,
            without=self.bound.lacks(o),
            partitions=self.bound.partitions,
        )
        refused = refusals(wanted, [w.effect for w in self.works[scan:]], self.live)
        self.out.fired.update(refused)
        return None if refused else done

    def push(self, after: TableVersion, done: Work) -> None:
        self.versions.append(after)
        self.works.append(done)
        self.live.update((name, f.bounds) for name, f in done.added.items())

    def _pop(self, done: Work) -> None:
        self.versions.pop()
        self.works.pop()
        for name in done.added:
            del self.live[name]


def rules_of(bound: Bound) -> set[Rule]:
    """The validations that some operation within the bound meets."""
    return {
        rule
        for o in bound.operations()
        for rule in rules_of_kind(o, serializable=bound.serializable, format_version=bound.format_version)
        if rule not in bound.lacks(o)
    }


def version_after(bound: Bound, log: Log) -> TableVersion:
    """The table at the end of a log."""
    versions = [seeded(bound.keys, bound.partitions)]
    for n, entry in enumerate(log, 1):
        done = work(entry.operation, versions[-1 if entry.operation.at_base else entry.scan], n, bound.partitions)
        assert done is not None, "the log has only commits"
        versions.append(committed(versions[-1], done, vectors=bound.format_version == 3))
    return versions[-1]
