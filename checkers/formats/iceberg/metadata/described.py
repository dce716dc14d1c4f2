"""What an entry says of a file that another place says, too: its name, its folder, its neighbours in a Puffin file, its snapshot.

* A **deletion vector** names its data file.
* An **equality delete file** names the columns by which rows are equal, and these exist (logs of earlier releases do not have them).
* **Split offsets** ascend, and are inside the file. Whether they begin with its first row group, only the reader knows.
* The **format** is that of the name's ending, and a deletion vector is in a Puffin file, nothing else is.
* **Deletion vectors of one file** say one size of it, and no two of them overlap. A Puffin file is its blobs, one after the other
  (Puffin spec, "File structure"). Spark's writer leaves no blob out, so behind each vector is the next; other writers may.
* The **folder** has the partition (``LocationProviders``): of tables most of whose files say so. A folder is only a name, so this shows a file
  none of whose rows tells its partition.
* The **snapshot** that adds a file is the entry's.
* A **rewrite** gives a file a data sequence number that scans of what it replaces cannot tell: of data files, that of the snapshot at which
  it began, which is not before theirs (``RewriteDataFiles``); of delete files, the highest of a group (``RewritePositionDeleteFiles``).
* Spark gives **row ids** to new files one after the other, from the snapshot's first on: its new manifests stand before those that it keeps
  (``MergingSnapshotProducer.apply``). Where partition specs changed, manifests have another order.
* A **manifest list** is one snapshot's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from checkers.evidence.paths import normalise
from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.wellformed import nested_ids
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.timeline import explain
from checkers.timeline.timeline import kind_of
from workloads.engines.engines import SPARK

FORMATS = frozenset({"parquet", "avro", "orc", "puffin"})
"""What a file's format can be (spec, "Data File Fields")."""
MAGIC = 4
"""Bytes before the first blob of a Puffin file."""


class RuleBreak(NamedTuple):
    """A broken rule of a commit, as ``metadata.entries`` reports it: name, commit, words after its maker's, files."""

    name: str
    c: Commit
    words: str
    files: Sequence[FileEntry | str]


def described(
    chain: Chain, renumbered: Collection[int], wrong: Collection[tuple[str, int | None]]
) -> Iterator[RuleBreak]:
    """All of them.

    Args:
        renumbered: ``id`` of the commits some of whose files have other numbers than their own.
        wrong: files of which an entry was found wrong before, by path and offset; it may grow meanwhile.
    """
    commits = chain.log.commits
    yield from _manifest_lists(commits)
    lists_one = len(commits) > 1 and all(len(m.snapshots) <= 1 for m in chain.log.metadata)
    one_spec = len({f.spec_id for c in commits for f in c.added_files}) == 1
    for c in commits:
        if not c.added_files:
            continue
        o = chain.by_op.get(c.op or "")
        by_spark = o is not None and o.engine == SPARK
        yield from _formats(c)
        yield from _splits(c)
        if any(f.content == "equality-deletes" for f in c.added_files):
            yield from _equality(chain, c)
        yield from _vectors(c, dense=by_spark)
        if id(c) in renumbered:
            if not lists_one:  # what was committed between the two is in no version
                yield from _foreign(c)
            kind = None if o is None else kind_of(o)
            if c.operation == "replace" and not (kind is not None and kind.changes_rows):
                yield from _rewritten(c)
        if c.first_row_id is not None and by_spark and one_spec:
            yield from _row_ids(c, wrong)
    yield from _folders(commits, wrong)


def _manifest_lists(commits: Sequence[Commit]) -> Iterator[RuleBreak]:
    first: dict[str, Commit] = {}
    for c in commits:
        if not c.manifest_list:
            continue
        other = first.setdefault(normalise(c.manifest_list), c)
        if other.snapshot_id != c.snapshot_id:
            yield RuleBreak(
                "shared-manifest-list",
                c,
                f"has the manifest list {c.manifest_list}, which is that of {explain.snapshot(other)}: one of them has the other's files",
                [c.manifest_list],
            )


def _formats(c: Commit) -> Iterator[RuleBreak]:
    for f in c.added_files:
        puffin = f.format == "puffin"
        ending = f.path.rpartition(".")[2].lower()
        if ending == f.format and puffin == (f.content == "deletion-vector"):
            continue
        why = None
        if f.format not in FORMATS:
            why = f"and a file's format is one of {', '.join(sorted(FORMATS))}"
        elif ending in FORMATS and ending != f.format:
            why = "and its name says another one"
        elif puffin != (f.content == "deletion-vector"):
            why = f"and its content is {f.content.replace('-', ' ')}: deletion vectors are in Puffin files, and nothing else is"
        if why is not None:
            yield RuleBreak("file-format", c, f"added {f.path} as a file of format {f.format}, {why}", [f])


def _splits(c: Commit) -> Iterator[RuleBreak]:
    for f in c.added_files:
        offsets = f.split_offsets
        if offsets and (offsets[-1] >= f.size or any(a >= b for a, b in pairwise(offsets))):
            words = f"added {f.path}, of {f.size} bytes, to be split at bytes {explain.listing(offsets)}"
            yield RuleBreak("split-offsets", c, words, [f])


def _equality(chain: Chain, c: Commit) -> Iterator[RuleBreak]:
    """Equality delete files without columns, or with ids that were never assigned to one."""
    m = chain.log.metadata[c.metadata] if 0 <= c.metadata < len(chain.log.metadata) else None
    last = None if m is None else m.raw.get("last-column-id")
    if m is None or not isinstance(last, int):
        return
    known = {id for schema in m.raw.get("schemas") or () for id in nested_ids(schema)}
    for f in c.added_files:
        if f.content != "equality-deletes":
            continue
        unknown = [id for id in f.equality_ids or () if id not in known and not 0 < id <= last]
        if not f.equality_ids and c.manifests is not None:
            yield RuleBreak("equality-ids", c, f"added the equality deletes {f.path} without equality_ids", [f])
        elif unknown:
            words = f"added the equality deletes {f.path} by the columns {explain.listing(unknown)}, and the table's last-column-id is {last}"
            yield RuleBreak("equality-ids", c, words, [f])


def _vectors(c: Commit, *, dense: bool) -> Iterator[RuleBreak]:
    """``dense``: whether nothing may be between the vectors of a file."""
    by_file: dict[str, list[FileEntry]] = {}
    for f in c.added_files:
        if f.content == "deletion-vector":
            by_file.setdefault(f.path, []).append(f)
            if f.referenced is None:
                yield RuleBreak(
                    "referenced-file", c, f"added a deletion vector in {f.path} that names no data file", [f]
                )
    for path, files in by_file.items():
        if why := _misplaced(files, dense):
            yield RuleBreak("vector-place", c, f"added the deletion vectors of {path}, {why}", files)


def _misplaced(files: list[FileEntry], dense: bool) -> str | None:
    if (nowhere := next((f for f in files if f.offset is None or f.length is None), None)) is not None:
        return f"and the one of {nowhere.referenced} has no {'content_offset' if nowhere.offset is None else 'content_size_in_bytes'}"
    if len({f.size for f in files}) > 1:
        return f"and says {explain.listing(sorted({f.size for f in files}))} bytes of that one file"
    end = MAGIC
    for f in sorted(files, key=lambda f: (f.offset or 0, f.length or 0)):
        offset, length = f.offset or 0, f.length or 0
        if offset < end:
            return f"and the one of {f.referenced} begins at byte {offset}, before byte {end}, where what stands before it ends"
        if dense and offset > end:
            return f"and the one of {f.referenced} begins at byte {offset}; what stands before it ends at byte {end}"
        end = offset + length
        if length <= 0 or end > f.size:
            return f"and the one of {f.referenced} is {length} bytes from byte {offset} on, in a file of {f.size} bytes"
    return None


def _foreign(c: Commit) -> Iterator[RuleBreak]:
    foreign = [f for f in c.added_files if f.snapshot_id not in (None, c.snapshot_id)]
    if foreign:
        what = explain.listing(f"{f.path} (snapshot {f.snapshot_id})" for f in foreign)
        yield RuleBreak("foreign-file", c, f"added {what}, by whose entries another snapshot did", foreign)


def _rewritten(c: Commit) -> Iterator[RuleBreak]:
    """Files of a rewrite that are older than what they replace, or delete files of an age that none of those has."""
    replaced = [f.data_sequence_number for f in c.removed_files if f.content == "data" and f.data_sequence_number]
    ages: dict[tuple[Any, ...], set[int | None]] = {}
    for f in c.removed_files:
        if f.content != "data":
            ages.setdefault((f.spec_id, repr(f.partition)), {c.sequence_number}).add(f.data_sequence_number)
    for f in c.added_files:
        age = f.data_sequence_number
        if age is None or age == c.sequence_number or f.snapshot_id not in (None, c.snapshot_id):
            continue
        if f.content == "data":
            if replaced and age < max(replaced):
                why = f"and replaces a file of {max(replaced)}: scans apply delete files to it that were made before its rows"
                yield RuleBreak(
                    "data-sequence-number", c, f"added {f.path} with data sequence number {age}, {why}", [f]
                )
        elif (due := ages.get((f.spec_id, repr(f.partition)))) and age not in due:
            why = f"and replaces delete files of {explain.listing(sorted(due - {c.sequence_number, None}, key=str))}"
            yield RuleBreak(
                "data-sequence-number", c, f"added the deletes {f.path} with data sequence number {age}, {why}", [f]
            )


def _row_ids(c: Commit, wrong: Collection[tuple[str, int | None]]) -> Iterator[RuleBreak]:
    own = [f for f in c.added_files if f.content == "data" and f.records and f.snapshot_id == c.snapshot_id]
    if any(f.first_row_id is None or (f.path, f.offset) in wrong for f in own):
        return
    due = c.first_row_id or 0
    for f in sorted(own, key=lambda f: f.first_row_id or 0):
        if f.first_row_id != due:
            if (f.first_row_id or 0) > due:  # else two files overlap, which is told as such
                words = f"gives {f.path} the row ids from {f.first_row_id} on, though {due} is the next one"
                yield RuleBreak("file-row-id", c, words, [f])
            return
        due += f.records


def _folders(commits: Sequence[Commit], wrong: Collection[tuple[str, int | None]]) -> Iterator[RuleBreak]:
    """Files in the folder of another partition, where most files of the table are in their own's."""
    balance: Counter[tuple[int | None, str]] = Counter()
    astray: list[tuple[Commit, FileEntry, str, str]] = []
    for c in commits:
        for f in c.added_files:
            if "=" not in f.path or "://" in f.path:  # outside the table, others named the folder
                continue
            for name, value in f.partition.items():
                _, found, rest = f.path.partition(f"/{name}=")
                if not found:
                    continue
                folder = unquote_plus(rest.partition("/")[0])
                if folder == _in_a_name(value):
                    balance[f.spec_id, name] += 1
                else:
                    balance[f.spec_id, name] -= 1
                    astray.append((c, f, name, folder))
    for c, f, name, folder in astray:
        if balance[f.spec_id, name] > 0 and (f.path, f.offset) not in wrong:
            here = f"{name}={_in_a_name(f.partition[name])}"
            words = f"added {f.path} at the partition {here}, but its folder says {folder}, and those of most files are right"
            yield RuleBreak("file-partition", c, words, [f])


def _in_a_name(value: Any) -> str:
    """A partition value as ``PartitionSpec.partitionToPath`` writes it, of the types for which that is certain."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
