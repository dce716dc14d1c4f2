"""The outcome of two concurrent operations according to Iceberg's code: which validation, if any, aborts the one that commits second.

The conflict matrix measures every pair and compares it with this prediction. X scans, then Y commits, then X tries to commit: it is
refused (the pointer has moved), X refreshes, validates against what Y did, and commits at its second attempt, or aborts. If Y commits before
X's first refresh, the same validations find it there, and X commits at its first attempt, or aborts. Which validations an operation meets
says :mod:`checkers.conflicts.validations`; this module says what X and Y do to the files of a cell, which are those of
:attr:`MatrixCell.files`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from checkers.conflicts.validations import (
    COMPACTIONS,
    DELETE_KINDS,
    EQUALITY,
    MESSAGE_SOURCES,
    MESSAGES,
    OVERWRITES,
    OVERWRITING,
    POSITION_DELETES,
    REFRESH,
    VALIDATED,
    Compares,
    FileEffect,
    KeyBounds,
    PendingCommit,
    RowFilter,
    metadata_rules,
    refusals,
    spark_rules,
)
from checkers.evidence.replace import replace
from workloads.engines.engine import CommitRules, Writes
from workloads.engines.engines import ENGINES, SPARK
from workloads.tables import TableSpec

Files = dict[str, tuple[int, ...]]
"""Name of a data file → its keys."""
KEYS_OF_FILE: Files = {"A": (0, 2), "B": (4, 6), "C": (9, 11)}
"""Data files of a table in the matrix and their keys; partition = key mod 2."""
OVERLAPPING: Files = {"A": (0, 4), "B": (2, 6, 8), "C": (9, 11)}
"""Files of a table where the range of keys of B, also of what is left of it, includes a key of A."""
FOUR: Files = {"A": (0, 2), "B": (4, 6), "C": (9, 11), "D": (8, 10)}
"""Files of a table where Y works on two files of X's partition that X does not touch."""
PARTITIONS = 2
"""The fewest with which two operations can meet in one partition, or in two."""

Mode = Literal["copy-on-write", "merge-on-read"]
Isolation = Literal["serializable", "snapshot"]
Placement = Literal["same row", "same file", "same partition", "other partition", "two other files"]
PLACEMENTS: dict[Placement, int] = {"same row": 0, "same file": 2, "same partition": 4, "other partition": 9}
"""Placement of Y's key relative to X's, which is 0 → Y's key."""
OVERLAPPING_PLACEMENTS: dict[Placement, int] = {
    "same row": 4,
    "same file": 0,
    "same partition": 6,
    "other partition": 9,
}
"""The same in files of overlapping ranges, where X's key is 4."""
TWO_FILES: Placement = "two other files"
"""Placement of two keys of Y, in two files of X's partition that X does not touch."""
Held = Literal["commit", "refresh"]
"""Where X waits for Y: at its commit, after its first check; or at the refresh before, so that its first check sees Y."""
Predicate = Literal["id", "id and part"]
"""Columns that X's condition names: the key, or also the partition."""
Ranges = Literal["apart", "overlapping"]
"""Whether the ranges of keys of two files of a partition overlap."""
Granularity = Literal["file", "partition"]
"""``write.delete.granularity``: whether a position delete file is for one data file, as Spark does it, or for a partition."""
FRESH = 20
"""Added to a key to get one that is in no file."""

MATRIX_KINDS = (
    "insert",
    "update-register",
    "delete",
    "delete-partition",
    "merge-upsert",
    "merge-insert",
    "rewrite-data-files",
    "rewrite-manifests",
)
BY_EXPRESSION = ("update-counter-by-expression", "delete-by-expression")
"""Kinds with a condition that Iceberg does not get, so that its filter is true."""
SCHEMA_KINDS = ("add-column", "widen-column", "rename-column", "drop-column")
"""Kinds that change the schema and make no snapshot. The key says the column."""
ON_REQUEST = (
    *EQUALITY,
    *OVERWRITING,
    *BY_EXPRESSION,
    "delete-where",
    *SCHEMA_KINDS,
    *COMPACTIONS[1:],
    POSITION_DELETES,
)
"""Kinds that are measured on request only, because each doubles the number of pairs."""
EVERYWHERE = frozenset({*COMPACTIONS, "rewrite-manifests", POSITION_DELETES})
"""Kinds that affect the whole table, so that their key is irrelevant."""

RETRIES = "SnapshotProducer.commit"
"""What commits again if no validation fails."""
REQUIREMENTS = "UpdateRequirements.forUpdateTable"
"""What a REST catalog is asked to compare: main for a snapshot; the schema and the last column for a schema change. Nothing else."""
REFRESHES = "SnapshotProducer.apply"
"""What loads the table before each attempt, the first one, too, and validates against what it has loaded."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One measurement of the matrix.

    Attributes:
        mode: how X's command writes; also Y's, unless ``second_mode`` says otherwise.
        first_engine, second_engine: those of X and Y.
        compares: what the catalog compares; told of cells with a schema change only.
    """

    first: str
    second: str
    mode: Mode
    format_version: Literal[2, 3]
    isolation: Isolation
    placement: Placement
    first_engine: str = SPARK
    second_engine: str = SPARK
    second_mode: Mode | None = None
    held: Held = "commit"
    predicate: Predicate = "id"
    ranges: Ranges = "apart"
    granularity: Granularity = "file"
    compares: Compares = "requirements"

    @property
    def modes(self) -> tuple[Mode, Mode]:
        """How X's command writes, and how Y's does."""
        return self.mode, self.second_mode or self.mode

    @property
    def files(self) -> Files:
        """The data files of its table and their keys."""
        if self.placement == TWO_FILES:
            return FOUR
        return KEYS_OF_FILE if self.ranges == "apart" else OVERLAPPING

    @property
    def said_mode(self) -> str:
        """The mode, or those of X and Y."""
        return self.mode if self.second_mode is None else f"{self.mode} then {self.second_mode}"

    @property
    def more(self) -> tuple[str, ...]:
        """What is unlike an ordinary cell, besides the mode."""
        given = (
            ("held at refresh", self.held == "refresh"),
            ("by id and part", self.predicate != "id"),
            ("overlapping ranges", self.ranges != "apart"),
            ("delete files by partition", self.granularity != "file"),
            (f"the catalog compares the {self.compares}", self.compares != "requirements"),
        )
        return tuple(words for words, differs in given if differs)

    @property
    def name(self) -> str:
        """Unique, short."""
        both = ((self.first_engine, self.first), (self.second_engine, self.second))
        words = (kind if engine == SPARK else f"{engine} {kind}" for engine, kind in both)
        table = (self.said_mode, f"v{self.format_version}", self.isolation, self.placement)
        return "/".join((*words, *table, *self.more))

    @property
    def has_deletes(self) -> bool:
        """Whether each of its three files has a position delete file before the operations begin: of keys 2, 6 and 11, in this order."""
        return POSITION_DELETES in (self.first, self.second)


def placements(first: str, second: str) -> list[Placement]:
    """The placements that differ for a pair. Of two schema changes: the same column, another one."""
    every = list(PLACEMENTS)
    changes = {first, second} & {*SCHEMA_KINDS}
    if {first, second} <= {*SCHEMA_KINDS}:
        return [every[0], every[-1]]
    return every[:1] if changes or {first, second} <= EVERYWHERE else every


def on(compares: Compares, chosen: Iterable[MatrixCell]) -> list[MatrixCell]:
    """These cells on a catalog that compares this: it matters beside a schema change only."""
    return [replace(c, compares=compares) if {c.first, c.second} & {*SCHEMA_KINDS} else c for c in chosen]


def possible(cell: MatrixCell) -> bool:
    """Whether the operations of an ordinary cell have something to do on its table."""
    return POSITION_DELETES not in (cell.first, cell.second) or (cell.modes, cell.format_version) == (
        ("merge-on-read", "merge-on-read"),
        2,
    )


def cells(kinds: tuple[str, ...] = MATRIX_KINDS) -> Iterator[MatrixCell]:
    """Every ordered pair of kinds in every table."""
    modes: tuple[Mode, ...] = ("copy-on-write", "merge-on-read")
    levels: tuple[Isolation, ...] = ("serializable", "snapshot")
    versions: tuple[Literal[2, 3], ...] = (2, 3)
    for first in kinds:
        for second in kinds:
            for mode in modes:
                for version in versions:
                    for isolation in levels:
                        for placement in placements(first, second):
                            made = MatrixCell(first, second, mode, version, isolation, placement)
                            if possible(made):
                                yield made


ENGINE_KINDS = ("insert", "update-counter", "upsert", "delete", "rewrite-data-files")
"""Kinds of the engine matrix: of each engine those that it can do. A lost increment shows in the counter."""
ENGINE_PLACEMENTS: tuple[Placement, ...] = ("same row", "other partition")


def engine_kinds(engine: str, kinds: tuple[str, ...] = ENGINE_KINDS) -> tuple[str, ...]:
    """Those kinds that an engine can do on the tables of the engine matrix."""
    table = TableSpec(name="t", mode="merge-on-read", partitions=PARTITIONS)
    return tuple(k for k in kinds if ENGINES[engine].can(k, table))


def levels(engine: str, kind: str) -> tuple[Isolation, ...]:
    """The isolation levels of a table between which an operation's validations differ; only the first if they do not."""
    if engine == SPARK:
        differ = kind not in ("insert", *EVERYWHERE)
    else:
        commit = ENGINES[engine].commits.get(kind)
        differ = commit is not None and "added data" in commit.validates
    return ("serializable", "snapshot") if differ else ("serializable",)


def engine_cells(engines: tuple[str, ...], kinds: tuple[str, ...] = ENGINE_KINDS) -> Iterator[MatrixCell]:
    """The engine matrix: every ordered pair of operations of these engines, at each level of the first one.

    The pairs come diagonal by diagonal, so that any stretch of them has operations of many engines on both sides.
    """
    operations = [(engine, kind) for engine in engines for kind in engine_kinds(engine, kinds)]
    both: tuple[Isolation, ...] = ("serializable", "snapshot")
    for placement in ENGINE_PLACEMENTS:
        for isolation in both:
            for offset in range(len(operations)):
                for n, (engine, first) in enumerate(operations):
                    other, second = operations[(n + offset) % len(operations)]
                    if placement != ENGINE_PLACEMENTS[0] and {first, second} <= EVERYWHERE:
                        continue  # both are about the whole table, so one placement is enough
                    if isolation in levels(engine, first):
                        yield MatrixCell(first, second, "merge-on-read", 2, isolation, placement, engine, other)


def keys(cell: MatrixCell) -> tuple[int, int]:
    """The keys of X and Y. If one of them only inserts absent keys, the kinds that can insert get an absent key."""
    x, y = 0, 0
    if cell.ranges == "overlapping":
        x, y = OVERLAPPING_PLACEMENTS["same row"], OVERLAPPING_PLACEMENTS[cell.placement]
    elif cell.placement == TWO_FILES:
        y = FOUR["B"][0]
    else:
        y = PLACEMENTS[cell.placement]
    if "merge-insert" in (cell.first, cell.second):
        x += FRESH if cell.first.startswith(("insert", "merge")) else 0
        y += FRESH if cell.second.startswith(("insert", "merge")) else 0
    return x, y


def other_keys(cell: MatrixCell) -> tuple[int, ...]:
    """All keys of Y: one, or of two files."""
    y = keys(cell)[1]
    return (y, FOUR["D"][0]) if cell.placement == TWO_FILES else (y,)


def _file(key: int, files: Files) -> str | None:
    return next((name for name, ids in files.items() if key in ids), None)


def _part(name: str, files: Files) -> int:
    """The partition of a data file."""
    return files[name][0] % PARTITIONS


def _bounds(keys: Iterable[int]) -> KeyBounds:
    """The bounds of a file with these keys, which are of one partition."""
    ids = tuple(keys)
    return KeyBounds(ids[0] % PARTITIONS, min(ids), max(ids))


def effect(kind: str, key: int, writes: Writes, files: Files = KEYS_OF_FILE, has_deletes: bool = False) -> FileEffect:
    """What ``kind`` on ``key`` does to the files of a fresh table, if its engine writes changes in this way.

    Args:
        has_deletes: whether each file has a position delete file (:attr:`MatrixCell.has_deletes`).
    """
    done = _effect(kind.removesuffix(VALIDATED), key, writes, files)
    if not has_deletes:
        return done
    if kind in COMPACTIONS:
        # Its files have the data sequence number of its base, as the last delete file has: the others apply to nothing.
        return replace(done, merged=frozenset({"A", "B"}))
    if kind == POSITION_DELETES:
        return replace(done, merged=frozenset(files))
    # Spark writes one delete file for each data file, with the positions of the older one; who takes a partition takes its delete files.
    return replace(done, merged=done.deletes | done.removed)


def _effect(kind: str, key: int, writes: Writes, files: Files) -> FileEffect:
    name = _file(key, files)
    if kind == "equality-delete":
        return FileEffect("delete", equality=(_bounds([key]),))
    if kind == "equality-upsert":
        return FileEffect("overwrite", (_bounds([key]),), equality=(_bounds([key]),))
    in_partition = frozenset(n for n in files if _part(n, files) == key % PARTITIONS)
    if kind == "delete-partition":
        return FileEffect("delete", removed=in_partition)
    if kind in OVERWRITES:
        return FileEffect("overwrite", (_bounds([key]),), in_partition)
    if kind in COMPACTIONS:
        parts = [[k for ids in files.values() for k in ids if k % PARTITIONS == p] for p in range(PARTITIONS)]
        return FileEffect("replace", tuple(map(_bounds, parts)), frozenset(files))
    if kind in ("rewrite-manifests", POSITION_DELETES):
        return FileEffect("replace", manifests=kind == "rewrite-manifests")
    if kind in SCHEMA_KINDS:
        return FileEffect("none")
    if kind == "delete-where":
        # All counters are 0: it selects the whole partition, and Iceberg gets the partition only.
        if writes == "position deletes":
            return FileEffect("delete", deletes=in_partition)
        return FileEffect("delete", removed=in_partition)
    if kind == "insert" or name is None:
        return FileEffect("append", (_bounds([key]),))
    if kind == "merge-insert":
        return FileEffect("append")
    return _on_one_row(kind, key, name, writes, files)


def _on_one_row(kind: str, key: int, name: str, writes: Writes, files: Files) -> FileEffect:
    """What a statement does that changes or deletes the row ``key`` of the file ``name``."""
    rest = tuple(k for k in files[name] if k != key)
    if writes == "equality deletes":
        if kind in DELETE_KINDS:
            return FileEffect("delete", equality=(_bounds([key]),))
        return FileEffect("overwrite", (_bounds([key]),), equality=(_bounds([key]),))
    if writes == "position deletes":
        if kind in DELETE_KINDS:
            return FileEffect("delete", deletes=frozenset({name}))
        return FileEffect("overwrite", (_bounds([key]),), deletes=frozenset({name}))
    remaining = rest if kind in DELETE_KINDS else files[name]
    return FileEffect("overwrite", (_bounds(remaining),), frozenset({name}))


def _of_all(kind: str, keys: tuple[int, ...], writes: Writes, files: Files, has_deletes: bool = False) -> FileEffect:
    """What ``kind`` does on several keys, each in another file."""
    each = [effect(kind, key, writes, files, has_deletes) for key in keys]
    return FileEffect(
        each[0].operation,
        tuple(dict.fromkeys(bounds for e in each for bounds in e.added)),
        frozenset().union(*(e.removed for e in each)),
        frozenset().union(*(e.deletes for e in each)),
        equality=tuple(dict.fromkeys(bounds for e in each for bounds in e.equality)),
        merged=frozenset().union(*(e.merged for e in each)),
        manifests=any(e.manifests for e in each),
    )


def _covered(cell: MatrixCell, done: FileEffect) -> frozenset[str]:
    """Data files to which the new position deletes apply, as ``DeleteFileIndex`` finds them: by path if all of a delete file's rows are of
    one data file (its bounds of ``file_path`` say so), else every file of its partition. A deletion vector is of one data file."""
    covered = set(done.deletes)
    if cell.granularity == "partition" and cell.format_version == 2:
        for part in range(PARTITIONS):
            if sum(_part(name, cell.files) == part for name in done.deletes) > 1:
                covered |= {name for name in cell.files if _part(name, cell.files) == part}
    return frozenset(covered)


def _commit(engine: str, kind: str, mode: Mode) -> CommitRules | None:
    """How an engine commits; of Spark, only how it writes. None: its file does not say."""
    if engine == SPARK:
        return CommitRules("position deletes" if mode == "merge-on-read" else "rewritten files")
    return ENGINES[engine].commits.get(kind)


@dataclass(slots=True)
class Prediction:
    """The predicted outcome of X.

    Attributes:
        outcome: ``committed`` at the first attempt, ``retried`` (committed at a later one), ``aborted``, or ``open``: an engine's file
            does not say how it commits.
        reasons: possible words of the error message.
        source: class and method, or function, of the engine's code that decides it.
        requests: how many commits X asks the catalog for, the refused ones included; None: not predicted.
    """

    outcome: Literal["committed", "retried", "aborted", "open"] = "retried"
    reasons: list[str] = field(default_factory=list)
    source: str = ""
    requests: int | None = None


def predict(cell: MatrixCell) -> Prediction:
    """Predict the outcome of X."""
    x, files = keys(cell)[0], cell.files
    first = _commit(cell.first_engine, cell.first, cell.modes[0])
    second = _commit(cell.second_engine, cell.second, cell.modes[1])
    if first is None or second is None:
        return Prediction("open")
    if {cell.first, cell.second} & {*SCHEMA_KINDS}:
        return _with_schema_change(cell)
    done = _of_all(cell.second, other_keys(cell), second.writes, files, cell.has_deletes)
    done = replace(done, covered=_covered(cell, done))
    live = {name: _bounds(ids) for name, ids in files.items()}
    if cell.first_engine != SPARK:
        rules = tuple(r for r in first.validates if r != "added data" or cell.isolation == "serializable")
        attempt = PendingCommit(effect(cell.first, x, first.writes, files), RowFilter(key=x), rules)
        reasons = [first.validates[rule] for rule in refusals(attempt, [done], live)]
        return Prediction("aborted" if reasons or not first.retries else "retried", reasons, first.source)
    first_check = cell.held == "refresh"
    rules = spark_rules(
        cell.first,
        merge_on_read=cell.mode == "merge-on-read",
        serializable=cell.isolation == "serializable",
        format_version=cell.format_version,
        again=not first_check,
    )
    attempt = PendingCommit(effect(cell.first, x, first.writes, files, cell.has_deletes), _filter(cell, x), rules)
    reasons = [MESSAGES[rule] for rule in refusals(attempt, [done], live)]
    commits = REFRESHES if first_check else RETRIES
    source = "; ".join(dict.fromkeys(MESSAGE_SOURCES[r] for r in reasons)) or commits
    # The catalog refuses the commit of a first operation that was held there. One held before finds Y at its first check.
    refused = 0 if first_check else 1
    if reasons:
        return Prediction("aborted", reasons, source, refused)
    return Prediction("committed" if first_check else "retried", reasons, source, refused + 1)


def _with_schema_change(cell: MatrixCell) -> Prediction:
    """A pair of which one or both change the schema.

    A REST catalog compares main for a snapshot and the schema for a schema change: the one does not hinder the other. Elsewhere every commit
    refuses the next one, and a refused schema change is not made again.
    """
    if cell.held == "refresh":
        return Prediction("committed", source=REFRESHES, requests=1)
    if cell.first in SCHEMA_KINDS:
        attempt = PendingCommit(FileEffect("none"), RowFilter(), metadata_rules("add-column", cell.compares))
        if refusals(attempt, [FileEffect("none", schema=cell.second in SCHEMA_KINDS)], {}):
            return Prediction("aborted", [REFRESH], MESSAGE_SOURCES[REFRESH], 1)
    if cell.compares == "requirements":
        return Prediction("committed", source=REQUIREMENTS, requests=1)
    return Prediction(source=RETRIES, requests=2)


def _filter(cell: MatrixCell, key: int) -> RowFilter:
    """What Iceberg gets of the condition of Spark's X. ``id`` is no column of a partition, so a filter by it leaves all partitions in."""
    part = key % PARTITIONS
    if cell.first in (*OVERWRITING, "delete-where"):
        return RowFilter(part)
    # A MERGE's join condition is no filter of its scan, but for what it says of the target alone, nor is an expression that Iceberg does
    # not know: any key may match.
    any_key = cell.first in ("merge-upsert", *BY_EXPRESSION)
    return RowFilter(None if cell.predicate == "id" else part, None if any_key else key)
