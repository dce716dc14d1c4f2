"""What each kind of operation means, and what it does to the files of the version that it scanned.

A kind is one of the workload's (``workloads.operations``), with the mode in which it writes. Each is held to the validations that
:func:`checkers.conflicts.validations.spark_rules` names, which also says their methods in Iceberg's code. Left out, because their second
attempt requires what the first one found (two steps): the delete files that a compaction or an overwrite drops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from checkers.conflicts.validations import Attempt, Bounds, Effect, Filter, spark_rules
from checkers.formats.iceberg.model.table import DataFile, EqualityDelete, PositionDeletes, Row, Table
from workloads.engines.engine import Rule
from workloads.file.modelled import AT_COMMIT, BOTH_WAYS, COMPACTION


@dataclass(frozen=True, slots=True)
class Operation:
    """A kind on a key.

    Attributes:
        mode: how it writes; empty for kinds that have one way only.
    """

    kind: str
    key: int
    mode: str = ""

    @property
    def at_commit(self) -> bool:
        """Whether it has no scan of its own."""
        return self.kind in AT_COMMIT

    def __str__(self) -> str:
        mode = f" ({self.mode})" if self.mode else ""
        return f"{self.kind}{mode}" if self.kind == COMPACTION else f"{self.kind}{mode} of key {self.key}"


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation wrote for one version of the table: the new files, and the effect that others are validated against."""

    effect: Effect
    added: Mapping[str, DataFile] = field(default_factory=dict)
    deletes: Mapping[str, PositionDeletes] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    """Names of the delete files that it replaces."""
    equality: tuple[EqualityDelete, ...] = ()


def meaning(o: Operation, rows: Counter[Row], n: int, partitions: int) -> tuple[Counter[Row], Counter[Row]]:
    """The rows that commit n is to remove from these rows, and those that it is to add."""
    mine = Counter({r: c for r, c in rows.items() if r[0] == o.key})
    if o.kind == "insert":
        return Counter(), Counter({(o.key, n, n): 1})
    if o.kind in ("update-register", "merge-upsert"):
        updated = Counter((key, n, born) for key, _, born in mine.elements())
        return mine, updated if mine or o.kind == "update-register" else Counter({(o.key, n, n): 1})
    if o.kind in ("delete", "equality-delete"):
        return mine, Counter()
    if o.kind == "delete-partition":
        return Counter({r: c for r, c in rows.items() if r[0] % partitions == o.key % partitions}), Counter()
    return Counter(), Counter()


def work(o: Operation, table: Table, n: int, partitions: int) -> Work | None:
    """What an operation writes that has scanned ``table`` and may become commit n; None if it has nothing to do."""
    return _WORK[o.kind](o, table, n, o.key % partitions)


def _insert(o: Operation, table: Table, n: int, part: int) -> Work | None:
    if any(key == o.key for key, _, _ in table.rows):
        return None  # a workload inserts no key that is there
    return _written(n, part, [(o.key, n, n)], Effect("append"))


def _written(n: int, part: int, rows: list[Row], effect: Effect, dropped: frozenset[str] = frozenset()) -> Work:
    """A work that writes these rows into one new file, if there are any."""
    if not rows:
        return Work(effect, dropped=dropped)
    new = DataFile(part, tuple(rows), n + 1)
    return Work(_with(effect, added=(new.bounds,)), {f"{n}-{part}": new}, dropped=dropped)


def _with(e: Effect, added: tuple[Bounds, ...]) -> Effect:
    return Effect(e.operation, added, e.removed, e.deletes, e.covered, e.equality, e.merged, e.manifests)


def _row_level(o: Operation, table: Table, n: int, part: int) -> Work | None:
    found = {name: {p for p, row in rows.items() if row[0] == o.key} for name, rows in table.live.items()}
    found = {name: positions for name, positions in found.items() if positions}
    _, new = meaning(o, table.rows, n, 1)
    if not found and not new:
        return None
    made = list(new.elements())
    if not found:  # nothing to replace: an append
        return _written(n, part, made, Effect("append"))
    older = frozenset(d for name in found for d in table.deletes_of(name))
    merged = frozenset(name for name in found if table.deletes_of(name))
    if o.mode == "copy-on-write":
        kept = [row for name in found for p, row in sorted(table.live[name].items()) if p not in found[name]]
        return _written(n, part, kept + made, Effect("overwrite", removed=frozenset(found), merged=merged), older)
    deletes = {}
    for name, positions in found.items():
        before = [table.deletes[d].positions for d in table.deletes_of(name)]
        deletes[f"{n}-{name}-deletes"] = PositionDeletes(name, frozenset(positions).union(*before))
    named = frozenset(found)
    effect = Effect("overwrite" if made else "delete", deletes=named, covered=named, merged=merged)
    done = _written(n, part, made, effect, older)
    return Work(done.effect, done.added, deletes, older)


def _delete_partition(o: Operation, table: Table, n: int, part: int) -> Work | None:
    """Its filter selects the partition's delete files, too (``MergingSnapshotProducer.deleteByRowFilter``)."""
    gone = frozenset(name for name, f in table.files.items() if f.part == part)
    older = frozenset(d for name in gone for d in table.deletes_of(name))
    return Work(Effect("delete", removed=gone), dropped=older) if gone else None


def _equality_delete(o: Operation, table: Table, n: int, part: int) -> Work:
    return Work(
        Effect("delete", equality=(Bounds(part, o.key, o.key),)), equality=(EqualityDelete(part, o.key, n + 1),)
    )


def _compact(o: Operation, table: Table, n: int, part: int) -> Work | None:
    """Rewrites each partition with more than one file, or with deletes, into one file that keeps the sequence number of the scan."""
    added, gone = {}, set[str]()
    for p in sorted({f.part for f in table.files.values()}):
        names = [name for name, f in table.files.items() if f.part == p]
        rows = [row for name in names for _, row in sorted(table.live[name].items())]
        if len(names) < 2 and sum(len(table.files[name].rows) for name in names) == len(rows):
            continue
        gone.update(names)
        if rows:
            added[f"{n}-{p}"] = DataFile(p, tuple(rows), table.sequence)
    if not gone:
        return None
    bounds = tuple(f.bounds for f in added.values())
    older = frozenset(d for name in gone for d in table.deletes_of(name))
    return Work(Effect("replace", bounds, frozenset(gone)), added, dropped=older)


_WORK: Mapping[str, Callable[[Operation, Table, int, int], Work | None]] = {
    **dict(zip(AT_COMMIT, (_insert, _delete_partition, _equality_delete), strict=True)),
    **dict.fromkeys(BOTH_WAYS, _row_level),
    COMPACTION: _compact,
}


def attempt(o: Operation, done: Work, *, serializable: bool, format_version: int, without: frozenset[Rule]) -> Attempt:
    """The operation as its engine validates it.

    Args:
        without: rules that the engine does not have.
    """
    rules = spark_rules(
        o.kind,
        merge_on_read=o.mode == "merge-on-read",
        serializable=serializable,
        format_version=format_version,
        again=False,
    )
    return Attempt(
        done.effect,
        Filter(key=None if o.kind == "merge-upsert" else o.key),
        tuple(r for r in rules if r not in without),
    )


def committed(table: Table, done: Work) -> Table:
    """The next version."""
    files = {name: f for name, f in table.files.items() if name not in done.effect.removed} | dict(done.added)
    deletes = {name: d for name, d in table.deletes.items() if name not in done.dropped} | dict(done.deletes)
    return Table(files, deletes, (*table.equality, *done.equality), table.sequence + 1)
