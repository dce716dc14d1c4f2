"""The outcome of two concurrent operations according to Iceberg's code: which validation, if any, aborts the one that commits second.

The conflict matrix measures every pair and compares it with this prediction. X scans, then Y commits, then X tries to commit: it is
refused (the pointer has moved), X refreshes, validates against what Y did, and commits at its second attempt, or aborts. Which validations run
is in ``SparkWrite``, ``SparkPositionDeltaWrite`` and the actions; what each of them checks is in ``MergingSnapshotProducer`` and
its subclasses (Iceberg 1.11 and 1.12). The three files of the table are those of :data:`FILES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

FILES = {"A": (0, 2), "B": (4, 6), "C": (9, 11)}
"""Data files of a table in the matrix and their keys; partition = key mod 2."""
PARTITIONS = 2

Mode = Literal["copy-on-write", "merge-on-read"]
Isolation = Literal["serializable", "snapshot"]
Placement = Literal["same row", "same file", "same partition", "other partition"]
PLACEMENTS: dict[Placement, int] = {"same row": 0, "same file": 2, "same partition": 4, "other partition": 9}
"""Placement of Y's key relative to X's, which is 0 → Y's key."""
FRESH = 20
"""Added to a key to get one that is in no file."""

KINDS = (
    "insert",
    "update-register",
    "delete",
    "delete-partition",
    "merge-upsert",
    "merge-insert",
    "rewrite-data-files",
    "rewrite-manifests",
)
EQUALITY = ("equality-delete", "equality-upsert")
"""Kinds that write equality deletes, which Spark's SQL does not. They are measured on request only."""
EVERYWHERE = frozenset({"rewrite-data-files", "rewrite-manifests"})
"""Kinds that affect the whole table, so that their key is irrelevant."""

CONFLICTING_FILES = "Found conflicting files that can contain records matching"
MISSING_TO_DELETE = "Missing required files to delete"
NEW_DELETE = "Cannot commit, found new delete for replaced data file"
NEW_POSITION_DELETE = "Cannot commit, found new position delete for replaced data file"
"""As the one above, of a compaction: it keeps its starting sequence number, so equality deletes still apply."""
MISSING_DATA = "Cannot commit, missing data files"
CONFLICTING_DELETES = "Found new conflicting delete files that can apply to records matching"
CONCURRENT_DV = "Found concurrently added DV for"
MISSING_MANIFEST = "Deleted manifest"


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement of the matrix."""

    first: str
    second: str
    mode: Mode
    format_version: Literal[2, 3]
    isolation: Isolation
    placement: Placement

    @property
    def name(self) -> str:
        """Unique, short."""
        return "/".join((self.first, self.second, self.mode, f"v{self.format_version}", self.isolation, self.placement))


def cells(kinds: tuple[str, ...] = KINDS) -> Iterator[Cell]:
    """Every ordered pair of kinds in every table; for two kinds that affect the whole table, one placement suffices."""
    modes: tuple[Mode, ...] = ("copy-on-write", "merge-on-read")
    levels: tuple[Isolation, ...] = ("serializable", "snapshot")
    versions: tuple[Literal[2, 3], ...] = (2, 3)
    for first in kinds:
        for second in kinds:
            placements = list(PLACEMENTS)
            if first in EVERYWHERE and second in EVERYWHERE:
                placements = placements[:1]
            for mode in modes:
                for version in versions:
                    for isolation in levels:
                        for placement in placements:
                            yield Cell(first, second, mode, version, isolation, placement)


def keys(cell: Cell) -> tuple[int, int]:
    """The keys of X and Y. If one of them only inserts absent keys, the kinds that can insert get an absent key."""
    x, y = 0, PLACEMENTS[cell.placement]
    if "merge-insert" in (cell.first, cell.second):
        x += FRESH if cell.first.startswith(("insert", "merge")) else 0
        y += FRESH if cell.second.startswith(("insert", "merge")) else 0
    return x, y


@dataclass(frozen=True, slots=True)
class Effect:
    """What a committed operation does to files.

    Attributes:
        operation: ``operation`` of its snapshot.
        added: key ranges of its new data files.
        removed: names of data files that it removes.
        deletes: names of data files that it adds position deletes (v3: deletion vectors) for.
        equality: the key in the equality delete file that it adds.
    """

    operation: str
    added: tuple[tuple[int, int], ...] = ()
    removed: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    equality: int | None = None


def _file(key: int) -> str | None:
    return next((name for name, ids in FILES.items() if key in ids), None)


def _may_have(name: str, key: int | None) -> bool:
    """Whether a data file, by its partition and its bounds, may have the rows of a key that an equality delete names."""
    if key is None or FILES[name][0] % PARTITIONS != key % PARTITIONS:
        return False
    low, high = _range(FILES[name])
    return low <= key <= high


def _range(ids: tuple[int, ...]) -> tuple[int, int]:
    return min(ids), max(ids)


def effect(kind: str, key: int, mode: Mode) -> Effect:
    """What ``kind`` on ``key`` does to the files of a fresh table."""
    name = _file(key)
    if kind == "equality-delete":
        return Effect("delete", equality=key)
    if kind == "equality-upsert":
        return Effect("overwrite", ((key, key),), equality=key)
    in_partition = frozenset(n for n, ids in FILES.items() if ids[0] % PARTITIONS == key % PARTITIONS)
    if kind == "delete-partition":
        return Effect("delete", removed=in_partition)
    if kind == "rewrite-data-files":
        return Effect("replace", ((0, 6), (9, 11)), frozenset(FILES))
    if kind == "rewrite-manifests":
        return Effect("replace")
    if kind == "insert" or name is None:
        return Effect("append", ((key, key),))
    if kind == "merge-insert":
        return Effect("append")
    rest = tuple(k for k in FILES[name] if k != key)
    if mode == "merge-on-read":
        if kind == "delete":
            return Effect("delete", deletes=frozenset({name}))
        return Effect("overwrite", ((key, key),), deletes=frozenset({name}))
    left = rest if kind == "delete" else FILES[name]
    return Effect("overwrite", (_range(left),), frozenset({name}))


@dataclass(slots=True)
class Prediction:
    """The predicted outcome of X.

    Attributes:
        outcome: ``retried`` (committed at a later attempt) or ``aborted``.
        reasons: possible beginnings of the error message.
    """

    outcome: Literal["retried", "aborted"] = "retried"
    reasons: list[str] = field(default_factory=list)


def predict(cell: Cell) -> Prediction:
    """Predict the outcome of X."""
    x, y = keys(cell)
    reasons = list(_reasons(cell, x, effect(cell.second, y, cell.mode)))
    return Prediction("aborted" if reasons else "retried", reasons)


def _reasons(cell: Cell, key: int, y: Effect) -> Iterator[str]:
    kind = cell.first
    mine = effect(kind, key, cell.mode)
    if kind in ("insert", "merge-insert", "delete-partition", *EQUALITY):
        return  # a blind append; a metadata delete and an equality delete are evaluated on the base of each attempt
    if kind == "rewrite-manifests":
        if y.removed or cell.second == "rewrite-manifests":
            yield MISSING_MANIFEST  # Y wrote the manifests of these files anew
        return
    if kind == "rewrite-data-files":
        if mine.removed & y.removed:
            yield MISSING_TO_DELETE
        if mine.removed & y.deletes:
            yield NEW_POSITION_DELETE
        return
    # A MERGE's join condition is no filter of its scan: everything may match. A key's column is no partition's.
    matches = [low <= key <= high for low, high in y.added] if kind != "merge-upsert" else [True for _ in y.added]
    if cell.isolation == "serializable" and y.operation in ("append", "overwrite") and any(matches):
        yield CONFLICTING_FILES
    # The bounds of an equality delete file are those of its keys: a filter by key leaves out the files of other keys.
    seen = y.equality is not None and (kind == "merge-upsert" or y.equality == key)
    if cell.mode == "copy-on-write":
        if mine.removed & y.removed:
            yield MISSING_TO_DELETE
        if mine.removed & y.deletes or (seen and any(_may_have(name, y.equality) for name in mine.removed)):
            yield NEW_DELETE
        return
    if mine.deletes & y.removed and (kind != "delete" or y.operation in ("overwrite", "replace")):
        yield MISSING_DATA
    if kind != "delete" and (y.deletes or seen):
        yield CONFLICTING_DELETES  # position deletes have no bounds of the key: all of them may apply
    if cell.format_version == 3 and mine.deletes & y.deletes:
        yield CONCURRENT_DV
