"""What each kind of operation means, and what it does to the files of the version that it scanned.

A kind is one of the workload's (``workloads.operations``), with the mode in which it writes. Each is held to the validations that
:func:`checkers.conflicts.validations.spark_rules` names, which also says their methods in Iceberg's code. A second
attempt also requires what the first one found to drop (the delete files of a compaction, or of an overwrite). That refuses more and allows
nothing new: the same log comes of an operation whose first refresh is its last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from checkers.conflicts.validations import (
    OVERWRITING,
    POSITION_DELETES,
    FileEffect,
    KeyBounds,
    PendingCommit,
    RowFilter,
    spark_rules,
)
from checkers.evidence.replace import replace
from checkers.formats.iceberg.model.table import DataFile, EqualityDeleteFile, PositionDeletes, Row, TableVersion
from workloads.engines.engine import CommitRules, Rule
from workloads.engines.engines import ENGINES, SPARK
from workloads.file.modelled import (
    AT_COMMIT,
    BOTH_WAYS,
    COMPACTION,
    OF_A_KEY,
    OWN_SEQUENCE,
    REWRITE_KINDS,
    TRANSFER,
    UPKEEP,
    UPSERT,
    VALIDATED_OVERWRITES,
)
from workloads.tables import TableSpec


@dataclass(frozen=True, slots=True)
class ModelOperation:
    """A kind on a key.

    Attributes:
        mode: how it writes; empty for kinds that have one way only.
        engine: who executes it, and validates its commit (``workloads.engines``).
        again: whether its client does it once more, so that an INSERT does not ask whether its row is there.
    """

    kind: str
    key: int
    mode: str = ""
    engine: str = SPARK
    again: bool = False

    @property
    def at_commit(self) -> bool:
        """Whether it has no scan of its own."""
        return self.kind in AT_COMMIT or self.kind == UPSERT

    @property
    def name(self) -> str:
        """Its kind, as a model's file says it."""
        return self.kind if self.engine == SPARK else f"{self.engine} {self.kind}"

    @property
    def commit(self) -> CommitRules | None:
        """How an engine other than Spark commits it."""
        return None if self.engine == SPARK else ENGINES[self.engine].commits[self.kind]

    @property
    def asks_mode(self) -> bool:
        """Whether its engine writes as the table's mode says."""
        return self.commit is None or self.commit.writes == "position deletes"

    @property
    def at_base(self) -> bool:
        """Whether it chooses what it removes on the base of its commit."""
        return self.at_commit or self.kind in VALIDATED_OVERWRITES

    @property
    def whole(self) -> bool:
        """Whether it is of the whole table, so that its key says nothing."""
        return self.kind in (*REWRITE_KINDS, TRANSFER) or (self.kind in UPKEEP and self.kind not in OF_A_KEY)

    def __str__(self) -> str:
        mode = f" ({self.mode})" if self.mode else ""
        mode = mode if self.engine == SPARK else f" by {self.engine}"
        return f"{self.kind}{mode}" if self.whole else f"{self.kind}{mode} of key {self.key}"


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation wrote for one version of the table: the new files, and the effect that others are validated against."""

    effect: FileEffect
    added: Mapping[str, DataFile] = field(default_factory=dict)
    deletes: Mapping[str, PositionDeletes] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    """Names of the delete files that it replaces."""
    equality: tuple[EqualityDeleteFile, ...] = ()
    by_filter: bool = False
    """Whether it says by a filter which files it removes, and names none."""


def meaning(o: ModelOperation, rows: Counter[Row], n: int, partitions: int) -> tuple[Counter[Row], Counter[Row]]:
    """The rows that commit n is to remove from these rows, and those that it is to add."""
    own = Counter({r: c for r, c in rows.items() if r[0] == o.key})
    if o.kind == "insert" or (o.kind == "merge-insert" and not own):
        return Counter(), Counter({(o.key, n, n): 1})
    if o.kind == UPSERT:
        return own, Counter({(o.key, n, n): 1})
    if o.kind in ("update-register", "merge-upsert"):
        updated = Counter((key, n, born) for key, _, born in own.elements())
        return own, updated if own or o.kind == "update-register" else Counter({(o.key, n, n): 1})
    if o.kind in ("delete", "equality-delete"):
        return own, Counter()
    of_partition = Counter({r: c for r, c in rows.items() if r[0] % partitions == o.key % partitions})
    if o.kind == "delete-partition":
        return of_partition, Counter()
    if o.kind in OVERWRITING:
        return of_partition, Counter({(o.key, n, n): 1})
    return Counter(), Counter()


def work(o: ModelOperation, table: TableVersion, n: int, partitions: int) -> Work | None:
    """What an operation writes that has scanned ``table`` and may become commit n; None if it has nothing to do, or cannot read the table."""
    if table.equality and not o.at_commit and not _reads_equality_deletes(o.engine):
        return None
    return _WORK[o.kind](o, table, n, o.key % partitions)


@cache
def _reads_equality_deletes(engine: str) -> bool:
    return engine == SPARK or ENGINES[engine].reads_equality_deletes(TableSpec(name="t"))


def _insert(o: ModelOperation, table: TableVersion, n: int, part: int) -> Work | None:
    if not o.again and any(key == o.key for key, _, _ in table.rows):
        return None  # a workload inserts no key that is there
    return _written(n, part, [(o.key, n, n)], FileEffect("append"))


def _written(n: int, part: int, rows: list[Row], effect: FileEffect, dropped: frozenset[str] = frozenset()) -> Work:
    """A work that writes these rows into one new file, if there are any."""
    if not rows:
        return Work(effect, dropped=dropped)
    new = DataFile(part, tuple(rows), n + 1)
    return Work(_with(effect, added=(new.bounds,)), {f"{n}-{part}": new}, dropped=dropped)


def _with(e: FileEffect, added: tuple[KeyBounds, ...]) -> FileEffect:
    return FileEffect(e.operation, added, e.removed, e.deletes, e.covered, e.equality, e.merged, e.manifests)


def _row_level(o: ModelOperation, table: TableVersion, n: int, part: int) -> Work | None:
    found = {name: {p for p, row in rows.items() if row[0] == o.key} for name, rows in table.live.items()}
    found = {name: positions for name, positions in found.items() if positions}
    _, new = meaning(o, table.rows, n, 1)
    if not found and not new:
        return None
    made = list(new.elements())
    if not found:  # nothing to replace: an append
        return _written(n, part, made, FileEffect("append"))
    older = frozenset(d for name in found for d in table.deletes_of(name))
    merged = _with_deletes(table, found)
    if o.mode == "copy-on-write":
        kept = [row for name in found for p, row in sorted(table.live[name].items()) if p not in found[name]]
        return _written(n, part, kept + made, FileEffect("overwrite", removed=frozenset(found), merged=merged), older)
    deletes = {}
    for name, positions in found.items():
        before = [table.deletes[d].positions for d in table.deletes_of(name)]
        deletes[f"{n}-{name}-deletes"] = PositionDeletes(name, frozenset(positions).union(*before))
    named = frozenset(found)
    effect = FileEffect("overwrite" if made else "delete", deletes=named, covered=named, merged=merged)
    done = _written(n, part, made, effect, older)
    return Work(done.effect, done.added, deletes, older)


def _delete_partition(o: ModelOperation, table: TableVersion, n: int, part: int) -> Work | None:
    """Its filter selects the partition's delete files, too (``MergingSnapshotProducer.deleteByRowFilter``)."""
    removed = frozenset(name for name, f in table.files.items() if f.part == part)
    older = frozenset(d for name in removed for d in table.deletes_of(name))
    return (
        Work(FileEffect("delete", removed=removed, merged=_with_deletes(table, removed)), dropped=older, by_filter=True)
        if removed
        else None
    )


def _with_deletes(table: TableVersion, files: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in files if table.deletes_of(name))


def _overwrite(o: ModelOperation, table: TableVersion, n: int, part: int) -> Work:
    """It replaces the files that a DELETE of the partition removes."""
    work = _delete_partition(o, table, n, part) or Work(FileEffect("append"))
    effect = FileEffect("overwrite", removed=work.effect.removed, merged=work.effect.merged)
    return replace(_written(n, part, [(o.key, n, n)], effect, work.dropped), by_filter=True)


def _merge_insert(o: ModelOperation, table: TableVersion, n: int, part: int) -> Work | None:
    """A MERGE that has no row to update: what it scanned as absent it appends, and Spark asks for no validation."""
    return _insert(o, table, n, part)


def _equality_delete(o: ModelOperation, table: TableVersion, n: int, part: int) -> Work:
    return Work(
        FileEffect("delete", equality=(KeyBounds(part, o.key, o.key),)),
        equality=(EqualityDeleteFile(part, o.key, n + 1),),
    )


def _compact(o: ModelOperation, table: TableVersion, n: int, part: int) -> Work | None:
    """Rewrites each partition with more than one file, or with deletes, into one file, which has the sequence number of the scan, or its
    own one (``use-starting-sequence-number``)."""
    added, removed = {}, set[str]()
    sequence = n + 1 if o.mode == OWN_SEQUENCE else table.sequence
    for p in sorted({f.part for f in table.files.values()}):
        names = [name for name, f in table.files.items() if f.part == p]
        rows = [row for name in names for _, row in sorted(table.live[name].items())]
        if len(names) < 2 and sum(len(table.files[name].rows) for name in names) == len(rows):
            continue
        removed.update(names)
        if rows:
            added[f"{n}-{p}"] = DataFile(p, tuple(rows), sequence)
    if not removed:
        return None
    bounds = tuple(f.bounds for f in added.values())
    older = frozenset(d for name in removed for d in table.deletes_of(name))
    return Work(FileEffect("replace", bounds, frozenset(removed)), added, dropped=older)


def _compact_deletes(o: ModelOperation, table: TableVersion, n: int, part: int) -> Work | None:
    """Writes one position delete file for each data file that has some, and leaves out those of a file that is gone."""
    if not table.deletes:
        return None
    covered = {d.data_file for d in table.deletes.values()}
    new = {
        f"{n}-{name}-deletes": PositionDeletes(
            name, frozenset().union(*(table.deletes[d].positions for d in table.deletes_of(name)))
        )
        for name in sorted(covered & {*table.files})
    }
    return Work(FileEffect("replace", merged=frozenset(covered)), deletes=new, dropped=frozenset(table.deletes))


def _rewrite_manifests(o: ModelOperation, table: TableVersion, n: int, part: int) -> Work:
    return Work(FileEffect("replace", manifests=True))


def _upsert(o: ModelOperation, table: TableVersion, n: int, part: int) -> Work:
    """An equality delete of the key, and its new row, in one commit."""
    done = _written(n, part, [(o.key, n, n)], FileEffect("overwrite", equality=(KeyBounds(part, o.key, o.key),)))
    return replace(done, equality=(EqualityDeleteFile(part, o.key, n + 1),))


_WORK: Mapping[str, Callable[[ModelOperation, TableVersion, int, int], Work | None]] = {
    "insert": _insert,
    "delete-partition": _delete_partition,
    "equality-delete": _equality_delete,
    "merge-insert": _merge_insert,
    UPSERT: _upsert,
    **dict.fromkeys(OVERWRITING, _overwrite),
    **dict.fromkeys(BOTH_WAYS, _row_level),
    COMPACTION: _compact,
    POSITION_DELETES: _compact_deletes,
    "rewrite-manifests": _rewrite_manifests,
}


def rules_of_kind(
    o: ModelOperation, *, serializable: bool, format_version: int, again: bool = False
) -> tuple[Rule, ...]:
    """The validations that an operation's engine holds it to."""
    if o.commit is not None:
        return tuple(r for r in o.commit.validates if r != "added data" or serializable)
    return spark_rules(
        o.kind,
        merge_on_read=o.mode == "merge-on-read",
        serializable=serializable,
        format_version=format_version,
        again=again,
        starting_sequence=o.mode != OWN_SEQUENCE,
    )


def attempt(
    o: ModelOperation,
    done: Work,
    *,
    serializable: bool,
    format_version: int,
    without: frozenset[Rule],
    partitions: int = 1,
    again: bool = False,
) -> PendingCommit:
    """The operation as its engine validates it.

    Args:
        without: rules that the engine does not have.
        again: whether it was refused before, so that it also requires what its first attempt found to drop.
    """
    rules = rules_of_kind(o, serializable=serializable, format_version=format_version, again=again)
    selects = RowFilter(key=None if o.kind in ("merge-upsert", *REWRITE_KINDS) else o.key)
    if o.kind in OVERWRITING:
        selects = RowFilter(part=o.key % partitions)
    return PendingCommit(done.effect, selects, tuple(r for r in rules if r not in without))


def committed(table: TableVersion, done: Work, *, vectors: bool) -> TableVersion:
    """The next version; ``vectors``: the table is of version 3.

    Who removes data files looks through all delete manifests, and drops from them what is older than every data file that it leaves; its own
    new files do not count (``MergingSnapshotProducer.apply``: ``dropDeleteFilesOlderThan``). Who names the delete files that it removes
    looks through the manifests of these only, and drops nothing else (``ManifestFilterManager.canTrustManifestReferences``): a row-level
    operation that replaces its delete files, a rewrite of them, and in version 3 whoever removes data files with their vectors.
    """
    left = {name: f for name, f in table.files.items() if name not in done.effect.removed}
    equality = table.equality
    if done.effect.removed and not (done.dropped and vectors and not done.by_filter):
        least = min((table.sequence, *(f.sequence for f in left.values())))
        equality = tuple(e for e in equality if e.sequence >= least)
    files = left | dict(done.added)
    deletes = {name: d for name, d in table.deletes.items() if name not in done.dropped} | dict(done.deletes)
    return TableVersion(files, deletes, (*equality, *done.equality), table.sequence + 1)
