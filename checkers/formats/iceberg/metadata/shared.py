"""What two tables of a run have in common, though nothing may be: a UUID, or files, of which the expiry of one deletes what the other needs.

A table knows its files by their paths. So each table tells the paths that it added (:class:`FilesAdded`), and all tables together show which of
them are the same. Tables that share files on purpose say so by ``gc.enabled`` false: Spark's procedure ``snapshot`` sets it, and Nessie,
whose branches share files. Iceberg then refuses to expire their snapshots, because "deleting files may corrupt other tables"
(``RemoveSnapshots``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from checkers.evidence.history import Operation
from checkers.evidence.paths import normalise
from checkers.formats.iceberg.metadata.rules import BrokenRule
from checkers.formats.iceberg.records import IcebergLog


class Adder(NamedTuple):
    """Who added a file: the snapshot, its operation, and the numbers of that one's events."""

    snapshot: int
    op: str | None
    events: tuple[int, ...]

    def __str__(self) -> str:
        return f"snapshot {self.snapshot} of {'an operation that is not known' if self.op is None else self.op}"


@dataclass(frozen=True)
class FilesAdded:
    """The files that a table added.

    Attributes:
        location: of the table, ending with ``/``.
        inside: path below the location → who added it first.
        outside: those that lie elsewhere, by their whole path.
        keeps: whether the table says that its files may be those of others, too.
        uuid: with which it began; empty if it says none.
    """

    table: str
    location: str
    inside: Mapping[str, Adder]
    outside: Mapping[str, Adder]
    keeps: bool
    uuid: str = ""

    def every(self) -> Iterator[tuple[str, Adder]]:
        """All files by their whole path."""
        yield from self.outside.items()
        yield from ((self.location + path, adder) for path, adder in self.inside.items())


def added(log: IcebergLog, operations: Mapping[str, Operation]) -> FilesAdded:
    """What a table's log says that it added."""
    inside: dict[str, Adder] = {}
    outside: dict[str, Adder] = {}
    for c in log.commits:
        o = operations.get(c.op or "")
        adder = Adder(c.snapshot_id, c.op, () if o is None else o.indices)
        for f in c.added_files:
            if "://" in f.path or f.path.startswith(("/", "file:")):
                outside.setdefault(normalise(f.path), adder)
            else:
                inside.setdefault(f.path, adder)
    keeps = any(str(m.properties.get("gc.enabled")).lower() == "false" for m in log.metadata)
    uuid = str(log.metadata[0].raw.get("table-uuid") or "").lower()
    return FilesAdded(log.table, normalise(log.location).rstrip("/") + "/", inside, outside, keeps, uuid)


class Shared(NamedTuple):
    """A file that a table added although another one has it: the broken rule, and the events of those who added it."""

    rule: BrokenRule
    events: tuple[int, ...]


def shared(tables: Sequence[FilesAdded]) -> dict[str, list[Shared]]:
    """Table → what it has in common with another one: files, and its UUID."""
    found = shared_files(tables)
    first: dict[str, str] = {}
    for t in tables:
        if t.uuid and first.setdefault(t.uuid, t.table) != t.table:
            text = f"the tables {first[t.uuid]} and {t.table} both have the table-uuid {t.uuid}."
            found.setdefault(t.table, []).append(Shared(BrokenRule("shared-uuid", text), ()))
    return found


def shared_files(tables: Sequence[FilesAdded]) -> dict[str, list[Shared]]:
    """Table → the files that it shares with others: each is told of the table outside whose location it lies, else of the later adder's."""
    near = any(
        a.location.startswith(b.location) or b.location.startswith(a.location) for a, b in combinations(tables, 2)
    )
    if len(tables) < 2 or not (near or any(t.outside for t in tables)):
        return {}
    owners: dict[str, list[tuple[FilesAdded, Adder]]] = {}
    for t in tables:
        for path, adder in t.every():
            owners.setdefault(path, []).append((t, adder))
    found: dict[str, list[Shared]] = {}
    for path, holders in owners.items():
        if len(holders) < 2 or any(t.keeps for t, _ in holders):
            continue
        first = min(holders, key=lambda h: (not path.startswith(h[0].location), h[1].events, h[0].table))
        takers = [h for h in holders if h is not first]
        (taker, adder) = takers[0]
        text = (
            f"{adder} added {path} to table {taker.table}, and {first[1]} added it to table {first[0].table}: whichever of the tables drops "
            "its snapshots first deletes a file that the other one needs."
        )
        every = [b for _, b in (*takers, first)]
        ops = tuple(dict.fromkeys(b.op for b in every if b.op is not None))
        rule = BrokenRule("shared-file", text, ops, tuple(dict.fromkeys(b.snapshot for b in every)), (path,))
        found.setdefault(taker.table, []).append(Shared(rule, tuple(i for b in every for i in b.events)))
    return found
