"""Where bugs can be planted: selectors that rows share, and the edits that are easy there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from checkers.evidence.history import Event, Operation
from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergLog as TableLog
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.selftest import edits
from checkers.selftest.goodtable import Change, GoodTable, acked
from checkers.selftest.world import Planted, World
from workloads.operations.kind import WriteSet
from workloads.tables import Row

UPDATES = ("update-register", "update-counter", "update-append", "merge-update", "merge-upsert")
"""Kinds that change rows by key."""


class InWorld(Protocol):
    """A site."""

    @property
    def w(self) -> World:
        """The run."""


P = TypeVar("P", bound=InWorld)
X = TypeVar("X")


def pick(among: Callable[[P], Iterable[X]], change: Callable[[P, X], Planted | None]) -> Callable[[P], Planted | None]:
    """The change with one of several things at the site; None where there is none."""

    def changed(p: P) -> Planted | None:
        item = p.w.choose(among(p))
        return None if item is None else change(p, item)

    changed.__doc__ = change.__doc__  # a plant is described by it
    return changed


@dataclass(frozen=True)
class CommitSite:
    """A commit of a table: position k on main."""

    w: World
    t: GoodTable
    k: int

    @property
    def c(self) -> Commit:
        """The commit."""
        return self.t.main[self.k - 1]

    @property
    def o(self) -> Operation:
        """The operation that made it."""
        return self.t.op(self.k)

    @property
    def n(self) -> int:
        """Index of the version that shows it first."""
        return self.t.version_of(self.k)

    @property
    def m(self) -> Metadata:
        """That version."""
        return self.t.log.metadata[self.n]

    @property
    def parent(self) -> Commit:
        """The commit before it on main."""
        return self.t.main[self.k - 2]

    @property
    def last(self) -> bool:
        """Whether no commit follows."""
        return self.k == len(self.t.main)

    @cached_property
    def now(self) -> WriteSet:
        """What its operation means at its parent."""
        return self.t.meaning(self.o, self.k - 1)

    def planted(self, *others: str, log: TableLog | None = None, events: Sequence[Event] | None = None) -> Planted:
        """The run with another log or history; the operation is the culprit, and the other ones may be named, too."""
        return self.w.planted(self.o.op, *others, log=log, events=events)

    def changed(self, **fields: Any) -> Planted:
        """The run in which the commit has other fields."""
        return self.planted(log=self.t.with_commit(self.k, **fields))

    def versions(self, change: Change, *, until: int | None = None) -> Planted:
        """The run with changed versions from the commit's on; ``until`` says the last that is changed."""
        last = len(self.t.log.metadata) if until is None else until
        return self.planted(log=self.t.with_versions(self.n, last, change))

    def version(self, change: Change) -> Planted:
        """The run in which only the version that shows the commit first is changed."""
        return self.versions(change, until=self.n)

    def added_files(self, f: FileEntry, **fields: Any) -> Planted:
        """The run in which the entry of a file that the commit adds has other fields."""
        return self.changed(added_files=tuple(replace(x, **fields) if x is f else x for x in self.c.added_files))

    def did(self, removed: Iterable[Row], added: Iterable[Row], *, since: int | None = None) -> Planted | None:
        """The run in which the commit did this instead; None when that is correct, or impossible.

        ``since``: its operation was invoked before anything after this position was acknowledged.
        """
        minus, plus = net(removed, added)
        if (minus, plus) == net(*self.now) or Counter(minus) - Counter(self.t.states[self.k - 1]):
            return None
        events = None if since is None else self._under_way_since(since)
        log, after = self.w.with_rows(self.t, self.k, minus, plus, events)
        return self.planted(log=log, events=after)

    def _under_way_since(self, j: int) -> Sequence[Event]:
        ends = [end for i in self.t.positions if i > j and i != self.k and (end := acked(self.t.op(i))) is not None]
        if not ends or min(ends) >= self.o.invoked.index:
            return self.w.events
        return edits.moved(self.w.events, self.o.op, invoked_before=min(ends))

    def often(self) -> int | None:
        """The last version to change: all that follow, or the commit's only."""
        return self.n if self.w.rng.random() < 0.5 else None


def net(removed: Iterable[Row], added: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """The changes without the rows on both sides."""
    minus, plus = Counter(removed), Counter(added)
    return sorted((minus - plus).elements(), key=str), sorted((plus - minus).elements(), key=str)


def minus(found: Iterable[Row], row: Row) -> list[Row]:
    """The rows without one of them."""
    rest = list(found)
    rest.remove(row)
    return rest


Where = Callable[[World], Iterator[CommitSite]]


def commits(
    positions: Callable[[GoodTable], Iterable[int]], when: Callable[[CommitSite], object] = lambda p: True
) -> Where:
    """Commits at positions of a table, in random order; ``when`` says which can have the bug."""

    def where(w: World) -> Iterator[CommitSite]:
        return (p for t, k in w.each(positions) if when(p := CommitSite(w, t, k)))

    return where


def later(when: Callable[[CommitSite], object] = lambda p: True) -> Where:
    """Commits after the first."""
    return commits(lambda t: t.positions[1:], when)


def statements(t: GoodTable) -> Iterable[int]:
    """Positions of acknowledged statements of the main phase."""
    return (k for k in t.positions if k > 1 and t.kind(k).changes_rows and t.op(k).type == "ok")


def maintenance(t: GoodTable) -> Iterable[int]:
    """Positions of acknowledged procedures."""
    return t.maintenance


def of_kinds(*kinds: str) -> Callable[[GoodTable], Iterable[int]]:
    """Positions of statements of these kinds, or of those that begin so (``delete*``)."""
    return lambda t: (k for k in statements(t) if any(is_kind(t.op(k).f, kind) for kind in kinds))


def is_kind(f: str, wanted: str) -> bool:
    """Whether a kind has this name, or begins so (``delete*``)."""
    return f.startswith(wanted[:-1]) if wanted.endswith("*") else f == wanted


@dataclass(frozen=True)
class VersionSite:
    """A metadata version of a table."""

    w: World
    t: GoodTable
    n: int

    @property
    def before(self) -> str:
        """Where the version before it is."""
        return self.t.log.metadata[self.n - 1].location

    def changed(self, change: Change, *, last: int | None = None) -> Planted:
        """The run with changed versions from this one on; ``last`` says which is the last of them."""
        last = len(self.t.log.metadata) if last is None else last
        return self.w.by_maker(self.t, self.n, self.t.with_versions(self.n, last, change))


def a_version(w: World) -> Iterator[VersionSite]:
    """A version after the first."""
    t = w.choose(t for t in w.tables if len(t.log.metadata) > 2)
    if t is not None:
        yield VersionSite(w, t, w.rng.randrange(1, len(t.log.metadata)))


def quiet_version(*needs: str) -> Callable[[World], Iterator[VersionSite]]:
    """A version after the second of a table without expiry whose last version has these keys."""

    def where(w: World) -> Iterator[VersionSite]:
        quiet = [(t, t.log.metadata) for t in undisturbed(w)]
        chosen = w.choose(t for t, ms in quiet if len(ms) > 2 and all(ms[-1].raw.get(key) for key in needs))
        if chosen is not None:
            yield VersionSite(w, chosen, w.rng.randrange(2, len(chosen.log.metadata)))

    return where


def has(*keys: str) -> Callable[[CommitSite], object]:
    """Whether the commit's version has these keys."""
    return lambda p: all(p.m.raw.get(k) is not None for k in keys)


def undisturbed(w: World) -> list[GoodTable]:
    """Tables without expiry, in random order."""
    busy = {o.table for o in w.operations.values() if o.f == "expire-snapshots"}
    quiet = [t for t in w.tables if t.name not in busy]
    return w.rng.sample(quiet, k=len(quiet))


def raw(change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> Change:
    """A change of the part of a version that the log keeps unparsed."""
    return lambda m: replace(m, raw={**m.raw, **change(m.raw)})


def with_ref(name: str, snapshot: int) -> Change:
    """A change in which a branch or tag is at a snapshot."""
    return lambda m: replace(m, refs={**m.refs, name: snapshot})


def live(among: Iterable[Commit]) -> dict[tuple[str, str | None], FileEntry]:
    """The files of a table after these commits, by path and by what they reference (a Puffin file holds several vectors)."""
    out: dict[tuple[str, str | None], FileEntry] = {}
    for c in among:
        for f in c.removed_files:
            out.pop((f.path, f.referenced), None)
        out |= {(f.path, f.referenced): f for f in c.added_files}
    return out
