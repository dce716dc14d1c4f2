"""Which anomalies a file accepts: the rule for ``expect``, ``allow``, a scenario's ``anomalies`` and a suite's ``known``.

An entry covers an anomaly that it means (:class:`workloads.file.anomalies.AnomalyEntry`), if it says enough. A name alone always does for what
is documented as possible at the level of its table. For anything else it says too little, and the entry must name

* the checker, if several checkers find anomalies of that name: ``lost-update`` is a cycle of dependencies (``isolation``), a commit that
  overwrote rows (``replay``), and a swap of the pointer that the catalog should have refused (``pointer``);
* the tables, if a name depends on the isolation level (``write-skew`` is legal at snapshot isolation), the workload has tables of both levels,
  and the anomaly is on a serializable one.

So an entry that is meant for one of them never takes another one with it. What confirms an anomaly (``same_as``) is covered with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from checkers.judge.assertions import Assertions
from checkers.judge.registry import find
from checkers.timeline import explain
from checkers.verdict import Anomaly, Checker
from workloads.file.anomalies import CHECKER, TABLES, AnomalyEntry, AnomalyFacts, Entries
from workloads.file.meant import unknown
from workloads.file.suite import KnownAnomalies
from workloads.file.yamlfile import Problem
from workloads.tables import TableSpec

Mark = Literal["expected", "allowed"]
ENTRY_KEYS: Mapping[Mark, str] = {"expected": "expect", "allowed": "allow"}
"""What an anomaly is → the key of the entry that says so."""


def _finders() -> dict[str, tuple[type[Checker], ...]]:
    """Anomaly → the checkers that can find it."""
    every: tuple[type[Checker], ...] = (*map(type, find()), Assertions)
    return {name: tuple(c for c in every if name in c.names) for name in sorted({n for c in every for n in c.names})}


FINDERS: Mapping[str, tuple[type[Checker], ...]] = _finders()
BY_LEVEL = frozenset(name for name, finders in FINDERS.items() if any(name in c.by_level for c in finders))
"""Names of what a table at snapshot isolation may show, and a serializable one may not."""


def stricter(tables: Iterable[TableSpec]) -> frozenset[str]:
    """The tables that promise some operation to be serializable, if there are others that promise none."""

    def levels(t: TableSpec) -> set[str]:
        levels_set = (v for k, v in t.properties.items() if k.startswith("write.") and k.endswith(".isolation-level"))
        return {t.isolation, *(v.lower() for v in levels_set)}

    every = {t.name: "serializable" in levels(t) for t in tables}
    return frozenset(name for name, strict in every.items() if strict and not all(every.values()))


def needed(name: str, a: AnomalyFacts, strict: bool) -> frozenset[str]:
    """What an entry must say besides a name to cover an anomaly by it; ``strict``: whether its table is a stricter one."""
    if a.documented:
        return frozenset()
    several = len(FINDERS.get(name, ())) > 1 and a.checker is not None
    return frozenset(k for k, must in ((CHECKER, several), (TABLES, strict and name in BY_LEVEL)) if must)


def covers(entry: AnomalyEntry, a: AnomalyFacts, strict: bool) -> bool:
    """Whether an entry accepts an anomaly."""
    return entry.means(a) and needed(entry.name, a, strict) <= entry.says


def known_link(known: Iterable[KnownAnomalies], a: AnomalyFacts, strict: bool, story: str | None) -> str | None:
    """Where a known anomaly is discussed; None if it is new. The one rule of a night, its page and the trend.

    Args:
        known: the entries of the suite for the cell of the run (:meth:`KnownAnomalies.of`).
        story: where the defect of the library is discussed that the anomaly's story looks like (:mod:`checkers.judge.known`).
    """
    return next((k.link for k in known if any(covers(e, a, strict) for e in k.anomaly)), story)


def least(a: AnomalyFacts, strict: bool) -> AnomalyEntry:
    """The shortest entry that covers an anomaly, or what it confirms."""
    must = needed(a.name, a, strict)
    tables = (a.table,) if TABLES in must and a.table is not None else None
    return AnomalyEntry(name=a.name, checker=a.checker if CHECKER in must else None, tables=tables)


def everything_named(name: str, tables: Iterable[TableSpec]) -> Entries:
    """Entries that cover every anomaly of a name, whoever finds it on any of these tables."""
    finders = FINDERS.get(name, ())
    all_names = tuple(t.name for t in tables) if name in BY_LEVEL else None
    checkers = [c.name for c in finders] if len(finders) > 1 else [None]
    return tuple(AnomalyEntry(name=name, checker=c, tables=all_names) for c in checkers)


@dataclass(frozen=True, slots=True)
class Swallowed:
    """What an entry covered: so many anomalies of a checker, and where."""

    key: str
    entry: AnomalyEntry
    name: str
    checker: str
    tables: tuple[str, ...]
    count: int

    def __str__(self) -> str:
        where = f" on {', '.join(self.tables)}" if self.tables else ""
        return f"{self.entry} covers {self.count} {self.name} of {self.checker}{where}"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        keys = ("key", "name", "checker", "count")
        return {k: getattr(self, k) for k in keys} | {"entry": self.entry.model_dump(), "tables": list(self.tables)}


@dataclass(frozen=True)
class AcceptedAnomalies:
    """What a workload or a scenario says of anomalies.

    Attributes:
        expect: what must be found; ``allow``: what may be.
        strict: the tables that promise more than others of the workload.
    """

    expect: Entries = ()
    allow: Entries = ()
    strict: frozenset[str] = frozenset()

    @staticmethod
    def of(expect: Entries, allow: Entries, tables: Iterable[TableSpec]) -> AcceptedAnomalies:
        """On these tables."""
        return AcceptedAnomalies(expect, allow, stricter(tables))

    def _each(self) -> Iterable[tuple[Mark, AnomalyEntry]]:
        yield from (("expected", e) for e in self.expect)
        yield from (("allowed", e) for e in self.allow)

    def entry_for(self, a: Anomaly) -> tuple[Mark, AnomalyEntry] | None:
        """The entry that covers an anomaly; None if there is none."""
        return next(((m, e) for m, e in self._each() if covers(e, a, a.table in self.strict)), None)

    def mark(self, a: Anomaly) -> Mark | Literal[""]:
        """``expected`` or ``allowed`` if an entry covers an anomaly."""
        found = self.entry_for(a)
        return "" if found is None else found[0]

    def missing(self, found: Iterable[Anomaly]) -> Entries:
        """The expected entries that mean none of these anomalies."""
        every = [*found]
        return tuple(e for e in self.expect if not any(e.finds(a) for a in every))

    def swallowed(self, found: Iterable[Anomaly]) -> tuple[Swallowed, ...]:
        """What each entry covers of these anomalies."""
        counts: Counter[tuple[str, AnomalyEntry, str, str]] = Counter()
        tables: dict[tuple[str, AnomalyEntry, str, str], set[str]] = {}
        for a in found:
            if (marked := self.entry_for(a)) is not None:
                group = (ENTRY_KEYS[marked[0]], marked[1], a.name, a.checker)
                counts[group] += 1
                tables.setdefault(group, set()).update((a.table,) if a.table is not None else ())
        return tuple(Swallowed(*group, tuple(sorted(tables[group])), n) for group, n in counts.items())

    def too_little(self, found: Iterable[Anomaly], keys: Mapping[Mark, str] = ENTRY_KEYS) -> tuple[str, ...]:
        """A sentence for each kind of anomaly that an entry means and does not cover: why, and what to write under which of the keys."""
        sentences: dict[str, None] = {}
        for a in found:
            meant = next((x for x in self._each() if x[1].finds(a)), None)
            if meant is not None and self.entry_for(a) is None:
                sentences.setdefault(f"{keys[meant[0]]}: {too_little(meant[1], a, a.table in self.strict)}")
        return tuple(sentences)


NOTHING_ACCEPTED = AcceptedAnomalies()


def too_little(entry: AnomalyEntry, a: AnomalyFacts, strict: bool) -> str:
    """Why an entry does not cover an anomaly that it means, and what covers it."""
    must = needed(entry.name, a, strict) - entry.says
    why = []
    if CHECKER in must:
        others = [c.name for c in FINDERS[entry.name]]
        why.append(f"{entry.name} is a name of {explain.listing(others)}, and {a.checker} found this one")
    if TABLES in must:
        why.append(
            f"{a.table} promises to be serializable, other tables promise snapshot isolation, and {entry.name} depends on that"
        )
    wanted = AnomalyEntry(
        name=entry.name,
        checker=a.checker if CHECKER in must else entry.checker,
        tables=(str(a.table),) if TABLES in must else entry.tables,
    )
    where = f" on {a.table}" if a.table else ""
    return (
        f"{entry} does not cover {a.name} of {a.checker}{where}: {'; '.join(why)}. If it may be found, write {wanted}"
    )


def unknown_entries(key: str, entries: Iterable[AnomalyEntry]) -> Iterable[Problem]:
    """Entries under a key whose name no checker finds, or not the one that they name."""
    for i, entry in enumerate(entries):
        finders = [c.name for c in FINDERS.get(entry.name, ())]
        checkers = sorted({c.name for group in FINDERS.values() for c in group})
        if not finders:
            yield (key, i), f"{key}: {unknown('anomaly', entry.name, FINDERS)}"
        elif entry.checker is not None and entry.checker not in checkers:
            yield (key, i), f"{key}: {unknown('checker', entry.checker, finders)}"
        elif entry.checker is not None and entry.checker not in finders:
            allowed = ", ".join(f"{finder}/{entry.name}" for finder in finders)
            yield (key, i), f"{key}: {entry.checker} does not find {entry.name}; allowed: {allowed}"
