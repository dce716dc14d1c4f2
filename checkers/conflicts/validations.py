"""What a commit is validated against, rule by rule: the one place that says which concurrent commits an engine refuses.

A rule is a named predicate over what the operation does to files, what it selects, and what another commit did since its scan. Which rules
a kind of operation has is a table: :func:`spark_rules` for Spark (``SparkWrite``, ``SparkPositionDeltaWrite`` and the actions of Iceberg
1.11 and 1.12), ``workloads.engines.engine.CommitRules.validates`` for the other engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from workloads.engines.engine import Rule

VALIDATED = "-validated"
"""Ends the name of an overwrite that asks Iceberg to validate, at the level of the table (option ``validated``)."""
OVERWRITES = ("overwrite-partitions", "overwrite-where")
"""Kinds that replace all rows of a partition."""
OVERWRITING = (*OVERWRITES, *(f"{kind}{VALIDATED}" for kind in OVERWRITES))
EQUALITY = ("equality-delete", "equality-upsert")
"""Kinds that write equality deletes, which Spark's SQL does not."""
POSITION_DELETES = "rewrite-position-delete-files"
COMPACTIONS = ("rewrite-data-files", "rewrite-data-files-sort", "rewrite-data-files-zorder")
DELETE_KINDS = ("delete", "delete-by-expression", "delete-where")
BLIND = ("insert", "merge-insert", "delete-partition", *EQUALITY, *OVERWRITES)
"""Kinds that Spark commits without validation: a blind append; a metadata delete, an equality delete and an overwrite, which are evaluated on
the base of each attempt."""

CONFLICTING_FILES = "Found conflicting files that can contain records matching"
MISSING_TO_DELETE = "Missing required files to delete"
NEW_DELETE = "Cannot commit, found new delete for replaced data file"
NEW_POSITION_DELETE = "Cannot commit, found new position delete for replaced data file"
"""As the one above, of a compaction: it keeps its starting sequence number, so equality deletes still apply."""
MISSING_DATA = "Cannot commit, missing data files"
CONFLICTING_DELETES = "Found new conflicting delete files that can apply to records matching"
CONCURRENT_DV = "Found concurrently added DV for"
MISSING_MANIFEST = "Deleted manifest"
DELETED_FILES = "Found conflicting deleted files that can"
REFRESH = "Table metadata refresh is required"
"""``UpdateSchema`` keeps the base with which it was made, and its transaction takes no other one at a second attempt."""

MESSAGES: Mapping[Rule, str] = {
    "added data": CONFLICTING_FILES,
    "removed data": DELETED_FILES,
    "new deletes": CONFLICTING_DELETES,
    "replaced files": MISSING_TO_DELETE,
    "deletes of replaced files": NEW_DELETE,
    "position deletes of replaced files": NEW_POSITION_DELETE,
    "replaced delete files": MISSING_TO_DELETE,
    "referenced files": MISSING_DATA,
    "referenced files, rewritten": MISSING_DATA,
    "replaced manifests": MISSING_MANIFEST,
    "deletion vectors": CONCURRENT_DV,
}
"""Rule → how Iceberg's message begins."""
METADATA_MESSAGES: Mapping[Rule, str] = {
    "history": "Cannot determine history between starting snapshot",
    "scanned snapshot": "is not an ancestor of",
    "format version": "Must use DVs for position deletes in V",
    "row ids": "Cannot add a snapshot: first-row-id is null",
    "target snapshot": "to unknown snapshot",
    "not published": "Cannot cherrypick snapshot",
    "retained refs": "Still referenced by refs",
    "schema": REFRESH,
    "metadata": REFRESH,
}
"""The same of the rules about a table's metadata; some messages begin with a name."""
MESSAGE_SOURCES: Mapping[str, str] = {
    CONFLICTING_FILES: "MergingSnapshotProducer.validateAddedDataFiles",
    MISSING_TO_DELETE: "ManifestFilterManager.validateRequiredDeletes",
    NEW_DELETE: "MergingSnapshotProducer.validateNoNewDeletesForDataFiles",
    NEW_POSITION_DELETE: "MergingSnapshotProducer.validateNoNewDeletesForDataFiles",
    MISSING_DATA: "MergingSnapshotProducer.validateDataFilesExist",
    CONFLICTING_DELETES: "MergingSnapshotProducer.validateNoNewDeleteFiles",
    CONCURRENT_DV: "MergingSnapshotProducer.validateAddedDVs",
    MISSING_MANIFEST: "BaseRewriteManifests.validateDeletedManifests",
    DELETED_FILES: "MergingSnapshotProducer.validateDeletedDataFiles",
    REFRESH: "BaseTransaction.TransactionTableOperations.commit",
    METADATA_MESSAGES["history"]: "MergingSnapshotProducer.validationHistory",
    METADATA_MESSAGES["scanned snapshot"]: "BaseRowDelta.validate",
    METADATA_MESSAGES["format version"]: "MergingSnapshotProducer.validateDeleteFilesForVersion",
    METADATA_MESSAGES["row ids"]: "TableMetadata.Builder.addSnapshot",
    METADATA_MESSAGES["target snapshot"]: "TableMetadata.Builder.setRef",
    METADATA_MESSAGES["not published"]: "CherryPickOperation.validateNonAncestor",
    METADATA_MESSAGES["retained refs"]: "RemoveSnapshots.internalApply",
}
"""Beginning of a message → the method of Iceberg's core that says it."""


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """What a file's entry says of its rows: its partition, and the lowest and the highest key."""

    part: int
    low: int
    high: int

    def overlaps(self, other: KeyBounds) -> bool:
        """Whether both may have a row of one partition and key."""
        return self.part == other.part and self.low <= other.high and other.low <= self.high


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The condition that Iceberg gets of an operation, as far as it selects files; None: every partition, every key."""

    part: int | None = None
    key: int | None = None

    def reads(self, part: int) -> bool:
        """Whether it leaves a partition in."""
        return self.part is None or part == self.part

    def selects(self, bounds: KeyBounds) -> bool:
        """Whether a file with these bounds may have a row that it selects."""
        return self.reads(bounds.part) and (self.key is None or bounds.low <= self.key <= bounds.high)


@dataclass(frozen=True, slots=True)
class FileEffect:
    """What a committed operation does to files.

    Attributes:
        operation: ``operation`` of its snapshot.
        added: bounds of its new data files.
        removed: names of data files that it removes.
        deletes: names of data files that it adds position deletes (v3: deletion vectors) for.
        covered: names of data files to which these apply, as ``DeleteFileIndex`` finds them: also others of the partition, if a delete file
            is for more than one data file.
        equality: bounds of the equality delete files that it adds.
        merged: names of data files whose older position delete files it removes.
        manifests: whether it writes the manifests of older files anew.
        expired: snapshots that it removes from the metadata; ``discarded``: those to which main no longer leads back.
        referenced: the snapshot to which it points main or a tag.
        published: the staged snapshot that it brings to main.
        schema, version: whether it changes the schema, or raises the format version.
    """

    operation: str
    added: tuple[KeyBounds, ...] = ()
    removed: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    covered: frozenset[str] = frozenset()
    equality: tuple[KeyBounds, ...] = ()
    merged: frozenset[str] = frozenset()
    manifests: bool = False
    expired: frozenset[int] = frozenset()
    discarded: frozenset[int] = frozenset()
    referenced: int | None = None
    published: int | None = None
    schema: bool = False
    version: bool = False


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """An operation that wants to commit: what it does, what it selects, the rules that its engine holds it to, and main when it scanned."""

    effect: FileEffect
    selects: RowFilter
    rules: tuple[Rule, ...]
    scanned: int | None = None


Live = Mapping[str, KeyBounds]
"""Name of a data file → its bounds; it has all files that an effect names."""


def _added_data(x: PendingCommit, y: FileEffect, live: Live) -> bool:
    return y.operation in ("append", "overwrite") and any(x.selects.selects(b) for b in y.added)


def _removed_data(x: PendingCommit, y: FileEffect, live: Live) -> bool:
    return any(x.selects.selects(live[name]) for name in y.removed)


def _new_deletes(x: PendingCommit, y: FileEffect, live: Live) -> bool:
    # Position deletes have no bounds of the key, so all of the partition may apply; those of an equality delete file are its keys'.
    return any(x.selects.reads(live[name].part) for name in y.deletes) or any(x.selects.selects(b) for b in y.equality)


def _replaced_files(x: PendingCommit, y: FileEffect, live: Live) -> bool:
    return bool(x.effect.removed & y.removed)


def _position_deletes_of_replaced_files(x: PendingCommit, y: FileEffect, live: Live) -> bool:
    return bool(x.effect.removed & y.covered)


def _deletes_of_replaced_files(x: PendingCommit, y: FileEffect, live: Live) -> bool:
    by_equality = [b for b in y.equality if x.selects.selects(b)]
    return _position_deletes_of_replaced_files(x, y, live) or any(
        live[name].overlaps(b) for name in x.effect.removed for b in by_equality
    )


def _referenced_files(x: PendingCommit, y: FileEffect, live: Live) -> bool:
    return bool(x.effect.deletes & y.removed)


_BROKEN: Mapping[Rule, Callable[[PendingCommit, FileEffect, Live], bool]] = {
    "main": lambda x, y, live: True,
    "added data": _added_data,
    "removed data": _removed_data,
    "new deletes": _new_deletes,
    "replaced files": _replaced_files,
    "deletes of replaced files": _deletes_of_replaced_files,
    "position deletes of replaced files": _position_deletes_of_replaced_files,
    "replaced delete files": lambda x, y, live: bool(x.effect.merged & y.merged),
    "referenced files": _referenced_files,
    "referenced files, rewritten": lambda x, y, live: (
        y.operation in ("overwrite", "replace") and _referenced_files(x, y, live)
    ),
    "replaced manifests": lambda x, y, live: bool(y.removed) or y.manifests,
    "deletion vectors": lambda x, y, live: bool(x.effect.deletes & y.deletes),
    "history": lambda x, y, live: x.scanned in y.discarded,
    "scanned snapshot": lambda x, y, live: x.scanned in y.expired,
    "format version": lambda x, y, live: y.version and bool(x.effect.deletes),
    "row ids": lambda x, y, live: y.version,
    "target snapshot": lambda x, y, live: x.effect.referenced in y.expired,
    "not published": lambda x, y, live: x.effect.published is not None and x.effect.published == y.published,
    "retained refs": lambda x, y, live: y.referenced in x.effect.expired,
    "schema": lambda x, y, live: y.schema,
    "metadata": lambda x, y, live: True,
}


def refusals(x: PendingCommit, others: Iterable[FileEffect], live: Live) -> tuple[Rule, ...]:
    """The rules that refuse an attempt, in the order in which its engine asks them.

    Args:
        others: what was committed since its scan.
        live: the data files that it and the others name.
    """
    effects = tuple(others)
    return tuple(rule for rule in x.rules if any(_BROKEN[rule](x, y, live) for y in effects))


def spark_rules(
    kind: str,
    *,
    merge_on_read: bool,
    serializable: bool,
    format_version: int,
    again: bool,
    starting_sequence: bool = True,
) -> tuple[Rule, ...]:
    """The rules of Spark for a kind, in the order in which Iceberg asks them: first ``validate`` of ``BaseRowDelta``, ``BaseOverwriteFiles`` or
    ``BaseRewriteFiles``, then what is to be deleted must be there (``MergingSnapshotProducer.apply``: data files, then delete files).

    Args:
        merge_on_read: whether the table's mode for the kind is merge-on-read; else copy-on-write.
        again: whether this attempt follows a refused one. What the first attempt found to drop, the second one requires
            (``ManifestFilterManager.filterManifests`` adds it to what was asked for): a compaction and an overwrite by filter drop delete
            files that apply to nothing any more, and then need them.
        starting_sequence: whether a compaction gives its files the sequence number of its scan, so that later equality deletes apply to them.
    """
    rules: tuple[Rule, ...]
    if kind in BLIND:
        rules = ()
    elif kind in OVERWRITING:
        rules = ("added data", "new deletes", "removed data")
        if again and kind.startswith("overwrite-where"):  # ``ReplacePartitions`` does not ask for them
            rules = (*rules, "replaced delete files")
    elif kind == POSITION_DELETES:
        rules = ("replaced delete files",)
    elif kind == "rewrite-manifests":
        rules = ("replaced manifests",)
    elif kind in COMPACTIONS:
        rules = ("position deletes of replaced files", "replaced files")
        if not starting_sequence:
            rules = ("deletes of replaced files", "replaced files")
        if again:
            rules = (*rules, "replaced delete files")
    elif not merge_on_read:
        rules = ("added data", "deletes of replaced files", "replaced files")
    else:
        vectors: tuple[Rule, ...] = ("deletion vectors",) if format_version == 3 else ()
        rules = ("referenced files", "added data", "new deletes", *vectors, "replaced delete files")
        if kind in DELETE_KINDS:  # it may find what it deletes deleted, but not rewritten
            rules = ("referenced files, rewritten", "added data", *vectors)
    return tuple(rule for rule in rules if serializable or rule != "added data")


Compares = Literal["requirements", "location"]
"""What a catalog compares before it swaps a table's pointer: the requirements that a client of the REST protocol sends with its changes, or
the location of the metadata that the client has read."""
_OF_METADATA: Mapping[str, Mapping[Compares, tuple[Rule, ...]]] = {
    "add-column": {"requirements": ("schema",), "location": ("metadata",)},
    "create-tag": {"requirements": ("target snapshot",), "location": ("metadata",)},
    "rollback": {"requirements": ("target snapshot",), "location": ("target snapshot",)},
    "publish": {"requirements": ("not published", "target snapshot"), "location": ("not published", "target snapshot")},
    "expire-snapshots": {"requirements": (), "location": ("retained refs",)},
    "stage": {"requirements": (), "location": ()},
    "restart-stream": {"requirements": (), "location": ()},
    "upgrade": {"requirements": (), "location": ()},
    "remove-orphan-files": {"requirements": (), "location": ()},
}


def metadata_rules(kind: str, compares: Compares) -> tuple[Rule, ...]:
    """The rules of Iceberg for a kind that changes a table's metadata or its store.

    ``UpdateRequirements`` asks a REST catalog to compare the ref that a change sets and the schema; to remove snapshots it asks for nothing, so
    the server removes them also if a ref has come to one of them (``TableMetadata.Builder.removeSnapshots`` drops that ref). Where the
    location is compared, ``RemoveSnapshots`` is refused, and its second attempt still removes what the first one chose. ``SchemaUpdate`` and
    ``UpdateSnapshotReferencesOperation`` do not try again; ``SetSnapshotOperation``, ``PropertiesUpdate`` and ``CherryPickOperation`` do. The
    last one says of a staged snapshot that is gone only that it is null (``WapUtil.stagedWapId``).
    """
    return _OF_METADATA[kind][compares]


def rules_beside_metadata(rules: tuple[Rule, ...], *, merge_on_read: bool, format_version: int) -> tuple[Rule, ...]:
    """The rules of a row-level operation with ``rules`` beside changes of the metadata: who validates must know what came since its scan, then
    its delete files must fit the version (``MergingSnapshotProducer.apply``)."""
    version: tuple[Rule, ...] = ("format version",) if merge_on_read and format_version == 2 else ()
    history: tuple[Rule, ...] = ("history", *(("scanned snapshot",) if merge_on_read else ())) if rules else ()
    return (*history, *version, *rules)


def rules_of_server(compares: Compares) -> tuple[Rule, ...]:
    """What a catalog that puts a client's changes into the metadata itself asks of a new snapshot, beside its requirements. It has not seen
    what came since the client's last attempt; where the location is compared, nothing came."""
    return ("row ids",) if compares == "requirements" else ()


LACKING: Mapping[str, Mapping[Rule, tuple[str, ...]]] = {
    "iceberg-1.8": {
        "format version": (),
        "replaced delete files": ("update-register", "merge-upsert"),
    },
    "iceberg-1.10": {"format version": ()},
    "iceberg-1.12": {},
    "specification": dict.fromkeys(
        (
            *("added data", "removed data", "new deletes", "deletes of replaced files"),
            *("position deletes of replaced files", "referenced files", "referenced files, rewritten"),
            *("history", "scanned snapshot", "not published"),
        ),
        (),
    ),
}
"""Rule set → the rules that Spark does not have with it, each of these kinds; of all, if none is named.

* ``iceberg-1.8``: 1.8.1. ``BaseRowDelta.validate`` does not call ``failMissingDeletePaths`` yet (apache/iceberg#12861, in 1.10.0).
* ``iceberg-1.10``: 1.10.1 and before; 1.10.2 has ``validateDeleteFilesForVersion`` (apache/iceberg#16146).
* ``iceberg-1.12``: 1.11.0 and 1.12.0, which have the same.
* ``specification``: what "Commit Conflict Resolution and Retry" asks of a commit (that the files which it deletes are still there, and that the
  schema has not changed), and what a table must be: one deletion vector a data file, no position deletes in version 3, refs that are listed.
"""


def lacking(rule_set: str, kind: str) -> frozenset[Rule]:
    """The rules that a rule set does not hold operations of this kind to."""
    return frozenset(rule for rule, kinds in LACKING[rule_set].items() if not kinds or kind in kinds)
