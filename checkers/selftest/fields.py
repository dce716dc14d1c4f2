"""What a wrong value does: by the type of its field, and the fields that are exceptions. The source of docs/evidence.md, with
:mod:`checkers.selftest.redundancies`.

``python -m checkers.selftest.fields > docs/evidence.md`` writes the document. :mod:`checkers.selftest.fieldtrial` tries whether it is true.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from checkers.evidence.replace import replace
from checkers.selftest.mutator import LIST_FIELDS, NULLABLE
from checkers.selftest.redundancies import section
from nemesis.operation_key import OPERATION_KEY

Outcome = Literal["found", "unknown", "refused", "harmless", "not noticed", "failed"]
"""What comes of a wrong value.

``found``: a checker says False, with an anomaly. ``unknown``: the worst verdict is unknown. ``refused``: the reader does not read the file, and
says which line is wrong. ``harmless``: all verdicts are True, and the field's entry says why nothing else could be concluded, or why it harms
nobody. ``not noticed``: all are True, and no entry says why. ``failed``: a checker raised an exception. No field may have the last two.
"""
FIELD_OUTCOMES: tuple[Outcome, ...] = ("found", "unknown", "refused", "harmless", "not noticed")
"""The outcomes that the document shows; the last one is a miss."""
FAILED: Outcome = "failed"


@dataclass(frozen=True)
class WrongValues:
    """What wrong values of a field do. Each text says which values, and why; an empty one: no value does that."""

    found: str = ""
    unknown: str = ""
    refused: str = ""
    harmless: str = ""

    @property
    def texts(self) -> Mapping[Outcome, str]:
        """Outcome → text, of the outcomes that are possible."""
        every = (self.found, self.unknown, self.refused, self.harmless)
        return {o: text for o, text in zip(FIELD_OUTCOMES, every, strict=False) if text}

    @property
    def outcomes(self) -> frozenset[Outcome]:
        """The possible outcomes."""
        return frozenset(self.texts)


# --- by type ------------------------------------------------------------------------------------------------------------

_PAIRS = "the history no longer pairs, so no operation is known"
_OURS = "it only explains; our reader writes it, no table file does, and no verdict rests on it"
_LOST = "an element is lost, doubled or another: the operation's meaning, the summary or another record says so"
_ORDER = "in another order: it is a set, or a multiset"

EXPLAIN = frozenset(
    {
        *("event.phase", "log.identifier", "log.location"),
        *(f"accepted.{name}" for name in ("time", "end", "writer", "what", "answer")),
        *("swap.answer", "summary.engine-name", "summary.engine-version"),
        *("summary.iceberg-version", "summary.app-id", "summary.app-name", "summary.spark.app.id"),
    }
)
"""Fields that only explain."""
LINEAGE = frozenset({"commit.first_row_id", "commit.added_rows", "metadata.next_row_id"})
"""Row lineage."""

DEFAULTS: Mapping[str, tuple[Callable[[str], bool], WrongValues]] = {
    "what only explains": (
        lambda name: name in EXPLAIN,
        WrongValues(
            harmless="any: it groups, counts or explains; no promise concerns it, and what it says is judged elsewhere"
        ),
    ),
    "row lineage": (
        lambda name: name in LINEAGE,
        WrongValues(
            found="any other in a table of version 3: ids overlap or are assigned twice, or files have others",
            harmless="null in a table of version 2 becomes a number: row lineage exists since version 3, readers of older tables ignore it",
        ),
    ),
    "a problem that the reader had": (
        lambda name: name.startswith("problem.") or name.endswith(".problems"),
        WrongValues(
            found="any: the problems that are left still say that a file is missing",
            unknown="any, where no file is missing: something could not be read",
        ),
    ),
    "whether evidence is complete": (
        lambda name: name.endswith(".complete"),
        WrongValues(unknown="any: a run or a log without an end proves less, because what is missing may come"),
    ),
    "a number of a summary": (
        lambda name: name.startswith("summary."),
        WrongValues(
            found="any other number, or a word that is none: the files of the commit, or the live files, are others",
            harmless="absent: the specification makes every metric optional",
        ),
    ),
    "a key of a metadata file": (
        lambda name: name.startswith("raw."),
        WrongValues(
            found="any: missing, the id of nothing, changed though nobody was asked to, or not what the table was created with"
        ),
    ),
    "a list, or null": (
        lambda name: name in LIST_FIELDS and name in NULLABLE,
        WrongValues(found=_LOST, unknown="null: it is not known", harmless=_ORDER),
    ),
    "a list": (lambda name: name in LIST_FIELDS, WrongValues(found=_LOST, harmless=_ORDER)),
    "any other": (lambda name: True, WrongValues(found="any: another record, or the next version, contradicts it")),
}
"""Type of a field → whether a field is of it, and what a wrong value does there; the first that fits counts."""

# --- the exceptions -----------------------------------------------------------------------------------------------------

_UNCOUNTED: dict[str, WrongValues] = {
    **{
        f"summary.spark.merge-into.num-target-rows-{m}": WrongValues(
            harmless="any: Spark's own metric, by which no reader plans; the rows themselves are judged"
        )
        for m in (
            *("copied", "deleted", "inserted", "matched-deleted", "matched-updated", "updated"),
            *("not-matched-by-source-deleted", "not-matched-by-source-updated"),
        )
    },
    **{
        f"summary.{m}": WrongValues(
            harmless="any: no reader plans by it, and the log does not keep the manifests that it counts"
        )
        for m in ("manifests-created", "manifests-kept", "manifests-replaced", "entries-processed")
    },
    "summary.changed-partition-count": WrongValues(
        harmless="any: no reader plans by it; copy-on-write counts partitions whose rows did not change, too"
    ),
}
_TOLD: Mapping[str, str] = {
    "sort_order_id": "it says how the rows are sorted, which nothing here compares",
    "key_metadata": "no file of a run is encrypted",
}
"""What entries say of their files, and the files themselves."""
_RAW: dict[str, WrongValues] = {
    **{
        f"raw.{key}": WrongValues(
            found="any: missing, lower than a field's id, or the counter goes back in the next version",
            unknown="higher than due: it harms nobody, and nobody is known who raises it",
            harmless="too high in the last version: a field that is gone may have had the id, and ids are never scarce",
        )
        for key in ("last-column-id", "last-partition-id")
    },
    **{
        f"raw.{key}": WrongValues(
            found="one is lost, there twice, or another under its id, or the list is null",
        )
        for key in ("schemas", "partition-specs", "sort-orders")
    },
    **{
        f"raw.{key}": WrongValues(harmless="null for an empty list: the specification makes it optional")
        for key in ("statistics", "partition-statistics")
    },
    **{
        f"raw.{key}": WrongValues(
            found="an entry is lost, doubled, exchanged or another",
            harmless="null for an empty list: the specification makes it optional",
        )
        for key in ("snapshot-log", "metadata-log")
    },
    "raw.refs": WrongValues(
        found="type or retention is another though nobody changed refs, or the refs are others than those of which snapshots are told",
        harmless="null: logs of earlier releases do not have it",
    ),
    "raw.properties": WrongValues(
        found="a property that the version's operation was not asked to set, or with which the table was created, is gone, back, or another",
        harmless="another value of a catalog's own, such as Nessie's commit: it is no property of the table",
    ),
}
EXCEPTIONS: Mapping[str, WrongValues] = {
    "history.events": WrongValues(
        found="all events are gone: the table has commits of operations that nobody invoked",
        refused="an event is lost, doubled, exchanged or has another index: indices must be dense",
    ),
    "event.index": WrongValues(refused="any: indices are dense, and the reader says which one it expected"),
    "event.time": WrongValues(
        found="it moves the operation past its own swap, or past what it saw or wrote",
        unknown="earlier than the event before it: one clock stamps all events",
        harmless="it stays between its neighbours: only the order of the events and what was concurrent are concluded from times",
    ),
    "event.type": WrongValues(
        found="an acknowledged write becomes a failed one whose rows are there, or a failed one becomes acknowledged",
        unknown=f"an invocation becomes a completion, or the other way round: {_PAIRS}",
        harmless="a completion becomes info, or that of a read becomes fail: an operation of unknown outcome proves less, and breaks nothing",
    ),
    "event.process": WrongValues(
        unknown=f"the process is busy, or did not invoke the operation: {_PAIRS}",
    ),
    "event.f": WrongValues(
        found="the kind cannot have done what the snapshot of the operation did, as a read that wrote",
        unknown="the completion's kind is not the invocation's, or nobody knows the kind",
    ),
    "event.table": WrongValues(
        found="the snapshot of the operation is in another table than the operation was asked to write",
        unknown="the completion's table is not the invocation's, or the plan does not have it",
    ),
    "event.op": WrongValues(unknown=f"any: {_PAIRS}"),
    "event.value of invoke": WrongValues(
        found="an acknowledged operation with other arguments has changed the wrong rows, or read the wrong ones",
        unknown="a key that the kind needs is missing, or names a table that is not in the plan",
        harmless="the operation failed, or does the same with both arguments: it matches no row, or the argument only steers how it works",
    ),
    "event.value of ok": WrongValues(
        found="a read returned rows, or a procedure counts, that its table did not have",
        unknown="the result has not the form that the kind returns, or names a snapshot that the log does not have",
        harmless="rows in another order (a SELECT without ORDER BY has none), or a result of a statement that returns nothing",
    ),
    "event.value of fail": WrongValues(
        harmless="any: a failed operation returned nothing, and nobody reads a result there"
    ),
    "event.error": WrongValues(
        refused="an entry is not a pair of class and message",
        harmless="any other: the type of the event says the outcome; the error only explains it, and is counted",
    ),
    "event.older_than": WrongValues(
        found="earlier: the expiry removed snapshots that were younger than it was told",
        harmless="later, or no time: an expiry may keep more than it must",
    ),
    "run.swaps": WrongValues(
        found="a swap twice: two replaced one version; or one with another value",
        harmless="a swap is lost or all are, or they are in another order: what proxies did not see accuses nobody, and times give the order",
    ),
    "run.accepted": WrongValues(
        found="one with another value",
        harmless="a request is lost, doubled or all are, or they are in another order: each is only compared with the log",
    ),
    "log.table": WrongValues(
        found="another table's name: its commits are of operations that wrote elsewhere",
        unknown="a name that the plan does not have: nothing is known of what the table promises, and the table of that name has no log",
    ),
    "log.columns": WrongValues(
        found="exchanged columns: the rows are not what the operations wrote",
        unknown="other names: the rows cannot be understood",
        refused="a name twice, or another number of columns than a row has values",
    ),
    "log.metadata": WrongValues(
        found="a version is changed, or the last one lost: the pointer names a file without version",
        refused="a version is lost, doubled or exchanged: versions are numbered from 0 as they stand in the file",
    ),
    "log.commits": WrongValues(
        found="a commit is lost, doubled with another number, or changed",
        unknown="a commit is lost that nothing else needs, or all are: what is listed cannot be judged",
        harmless="in another order: parents and sequence numbers give the order",
    ),
    "log.captures": WrongValues(
        found="in another order, or with another value: the pointer went back",
        unknown="all captures are lost, or the last: what ended later may be missing in the log",
        harmless="one of several is lost or doubled: less evidence accuses nobody",
    ),
    "log.table_format": WrongValues(refused="any: there is no format of that name"),
    "log.missing_files": WrongValues(
        found="a missing file is told twice, or with another path: it is still missing",
        harmless="it is lost: only the reader looks into the store, and says so here alone, so nothing else can be concluded",
    ),
    "log.sizes": WrongValues(
        found="another size than the entry's, or than the object had when it was read",
        harmless="one is lost, or of a path that nothing names: only the reader looks into the store, and says so here alone",
    ),
    "capture.time": WrongValues(
        found="it says of an acknowledged commit that the pointer did not have it yet",
        unknown="the last capture is earlier: what ended later may be missing in the log",
        harmless="no acknowledgement lies between: only what was acknowledged before a capture is concluded",
    ),
    "capture.metadata": WrongValues(
        found="an older version than an acknowledged one, or none at all",
        unknown="a file that is none of the log's versions: what that version showed is not known",
        harmless="a younger version that was under way",
    ),
    "commit.timestamp_ms": WrongValues(
        found="another time than that of the entry that its version adds to the snapshot-log",
        harmless="of one that never became current, or of the log's first version, by less than a minute: clocks differ",
    ),
    "commit.operation": WrongValues(
        found="an operation that the specification does not have, or that the files or the kind contradict",
        harmless="append for an overwrite that only adds data files, or the other way round: Iceberg writes both",
    ),
    "commit.op": WrongValues(refused="any: the summary says another operation, and the reader copies it from there"),
    f"summary.{OPERATION_KEY}": WrongValues(
        refused="another operation than the commit's, which the reader copies from here"
    ),
    "commit.attempt": WrongValues(refused="any: the name of the manifest list says another attempt"),
    "commit.manifest_list": WrongValues(
        found="that of another snapshot",
        refused="one whose name says another attempt than the commit's",
        harmless="a path that no other snapshot has, and whose name says no attempt: a path is only a name",
    ),
    "commit.schema_id": WrongValues(
        found="an id that the version's schemas do not have",
        harmless="null: the specification makes it optional; or another of these schemas: a snapshot that is made before a schema change "
        "can be committed after it, so an old one is legal, and counted (`of_an_older_schema`)",
    ),
    "commit.metadata": WrongValues(
        found="another version: main did not move there, or the version has not the commit's numbers",
        refused="a version that does not stand before it",
        harmless="a version beside it that lists the snapshot, too, and has the same numbers: our reader writes it, no table file does",
    ),
    "commit.manifests": WrongValues(
        found="a length that is not the object's, or another content than that of the entries",
        harmless="another line, or one less: the reader compares each line with its manifest when it reads both",
    ),
    "commit.kept_files": WrongValues(
        found="the entry of a kept file whose statistics leave out values of it",
        harmless="any other: the reader compares copied entries when it reads them, and says what breaks the specification",
    ),
    "commit.violations": WrongValues(found="any: each is an anomaly of the checker metadata"),
    "file.path": WrongValues(
        found="another file's, or that of a file that is removed later or removed here: not live, or live twice",
        harmless="the new path of a file that no later snapshot removes: a path is only a name",
    ),
    "file.size": WrongValues(
        found="where the summary, or the result of the procedure, counts the file: they say another sum",
        harmless="of a deletion vector alone in its file, in a log without the sizes of objects: the summary counts the vector's bytes only",
    ),
    "file.partition": WrongValues(
        found="a partition that is not the rows', the folder's, the data file's, or that of the file's other entry",
        harmless="of a file of which none of these says the partition: nothing else does",
    ),
    "file.data_sequence_number": WrongValues(
        found="not the snapshot's own of a file that is new, or not that of the file's other entry",
        harmless="null: the number is not known; or another one of a compaction's file, which may keep an old one",
    ),
    "file.referenced": WrongValues(
        found="of a delete file: a data file that is not live, has a vector already, or does not hold the deleted rows; null of a vector",
        harmless="of a data file: the field has a meaning for delete files only; null of a position delete file, which may cover several files",
    ),
    "file.equality_ids": WrongValues(
        found="of an equality delete: null, or a column that the table never had",
        harmless="another column of the table: the rows that an equality delete hides are told themselves; or any, of another file",
    ),
    "file.split_offsets": WrongValues(
        found="in another order, or beyond the end of the file; behind the first row group, as the reader compares them with the footer",
        harmless="null, or others in order: planners split the file elsewhere, and only the reader has its row groups",
    ),
    "file.offset": WrongValues(
        found="of a deletion vector: it overlaps another, something is before it that Spark did not write, or it has no place",
        harmless="of another file: only deletion vectors have an offset",
    ),
    "file.length": WrongValues(
        found="of a deletion vector: it overlaps the next, does not reach it, or the summary counts other bytes",
        harmless="of another file: only deletion vectors have a length",
    ),
    "file.first_row_id": WrongValues(
        found="of a data file in version 3: not the next one of its snapshot's range, taken already, missing, or not that of its other entry",
        harmless="of a delete file, or in a table of version 2: neither has row ids",
    ),
    "file.file_sequence_number": WrongValues(
        found="another number: an added file has its snapshot's",
        harmless="null: the number is not known",
    ),
    "file.snapshot_id": WrongValues(
        found="another snapshot than the one that adds it, or than that of the file's other entry",
        harmless="null: the snapshot is not known",
    ),
    "file.spec_id": WrongValues(
        found="a specification that the table does not have",
        harmless="another one whose partition fits as well; null in logs of earlier releases, whose partitions are judged by the default one",
    ),
    "file.stored": WrongValues(found="another size than the entry's", harmless="null: the object was not read"),
    "file.columns": WrongValues(
        found="bounds that are narrower than the values in the file, or another count",
        unknown="words that are none",
        harmless="null: nothing is said, and planners read the file; or bounds that are only wider, which cost time",
    ),
    "file.exact": WrongValues(
        found="values outside the bounds, or another number of them",
        unknown="words that are none",
        harmless="null: the file was not read; or values inside the bounds",
    ),
    **{f"file.{name}": WrongValues(harmless=f"any: {why}") for name, why in _TOLD.items()},
    "file.manifest": WrongValues(
        found="a manifest that is listed as one of other content",
        harmless="another one of the same content, or null: it only explains; our reader writes it, no table file does",
    ),
    "row.row": WrongValues(
        found="another value: not what the operation means",
        refused="another number of values than columns",
    ),
    "row.file": WrongValues(
        found="a file that the snapshot does not change, that nobody added, of another partition, or that another delete file references",
        harmless=f"another one that the snapshot changes, where its position is free: {_OURS}",
    ),
    "row.by": WrongValues(
        found="a delete file that references another data file, that nobody added, or that does not apply by its age",
        harmless=f"another one that applies: {_OURS}",
    ),
    "row.pos": WrongValues(
        found="a position of another row, behind the end of the file, or where another row was told",
        harmless=f"a position that no row of the log has: {_OURS}",
    ),
    "metadata.n": WrongValues(refused="any: versions are numbered from 0 as they stand in the file"),
    "metadata.last_updated_ms": WrongValues(
        found="another time than that of its entry in the next version's metadata-log; of the last, one that no clock of the run can have said",
        harmless="of the last version, and of its snapshot, a time that a clock can have said: nothing repeats it, clocks differ, and a "
        "host's may be set by less than a day while the run lasts",
    ),
    "metadata.last_sequence_number": WrongValues(
        found="lower than a snapshot's, higher than the next version's, or one that no snapshot was given",
    ),
    "swap.time": WrongValues(
        found="outside its operation, or after a later version's swap was answered",
        harmless="inside both: only the order of swaps that do not overlap is concluded",
    ),
    "swap.end": WrongValues(
        found="before its operation was invoked, or before an earlier version's swap was asked for",
        harmless="inside both: only the order of swaps that do not overlap is concluded",
    ),
    "swap.writer": WrongValues(
        found="a writer's own request before its operation was invoked",
        harmless="any other: the operation says who asked",
    ),
    "swap.op": WrongValues(
        found="an operation that was not under way, or whose snapshot the version does not add",
        harmless="null or unknown: a swap without operation is still compared by its files",
    ),
    "swap.base": WrongValues(
        found="a file that was never current, or that another swap replaced",
        harmless="null: the request did not say what it replaces",
    ),
    "swap.names_place": WrongValues(
        found="True: two swaps that replaced one version each, and put one file in place",
        harmless="True, where no other swap has the file: nothing competes for its name",
    ),
    "accepted.op": WrongValues(
        found="an operation whose snapshot the request does not carry",
        harmless="null or unknown: what it asked for is still compared with the log",
    ),
    "accepted.base": WrongValues(
        found="a snapshot from which main did not go to the request's",
        harmless="null: the request did not say where main must be",
    ),
    "accepted.adds": WrongValues(
        found="a snapshot that no version lists, or another operation's",
        harmless="none, fewer, or one twice: each is in the log",
    ),
    "accepted.refs": WrongValues(found="a branch or tag that no version has at that snapshot"),
    "accepted.main": WrongValues(
        found="a snapshot to which main did not go, or not from the request's base",
        harmless="null: the request leaves main alone",
    ),
    "missing.snapshots": WrongValues(found="any: a file that a snapshot needs is not in the store"),
    **_UNCOUNTED,
    **_RAW,
}
"""Field → what a wrong value does there, where that is not what the field's type says.

Arguments and results of events are fields of their own (``event.value of ok``), and so are the keys of summaries (``summary.``) and of the
rest of a metadata file (``raw.``)."""


def type_of(name: str) -> str:
    """The type of a field, as a key of :data:`DEFAULTS`."""
    return next(what for what, (fits, _) in DEFAULTS.items() if fits(name))


def fate(name: str) -> WrongValues:
    """What a wrong value of a field does."""
    found = EXCEPTIONS.get(name) or DEFAULTS[type_of(name)][1]
    refused = found.refused or "null or no word: a summary's values are words"
    return replace(found, refused=refused) if name.startswith("summary.") else found


# --- the document -------------------------------------------------------------------------------------------------------

FIELD_PARTS: Mapping[str, tuple[str, str]] = {
    "history": ("The history", "Events as `history.jsonl` has them ([history](history.md))."),
    "event": ("", ""),
    "run": ("The table log", "What `tablelog/<table>.jsonl` has besides commits and versions."),
    "log": ("", ""),
    "capture": ("", ""),
    "commit": ("Commits", "One snapshot each; its numbers, and lists of rows and files."),
    "file": ("File entries", "The files that a commit added or removed."),
    "row": ("Row changes", "The rows that a commit added or removed."),
    "summary": (
        "Summaries",
        "The keys of a snapshot's summary. The reader refuses a value that is null or no word, whatever the key.",
    ),
    "metadata": ("Metadata versions", "One `metadata.json` each."),
    "raw": ("Metadata versions: other keys", "The keys of a `metadata.json` that the log keeps as they are."),
    "swap": ("Swaps", "Commits that proxies saw a catalog accept (`proxy.jsonl`)."),
    "accepted": (
        "Accepted requests",
        "What accepted requests to a REST catalog asked of a table (`changes` in `proxy.jsonl`).",
    ),
    "problem": ("Problems", "What the reader could not read. Tried in a run that has one of each."),
    "missing": ("Missing files", "Tried in a run that has some."),
}
"""First word of a field's name → headline and sentence of its part; the next words without one belong to the same part."""

FILLED = """
## What engines and catalogs fill as they like

The version that is due says what its predecessor says, and exactly the change that its operation was asked for
([derived.py](../checkers/formats/iceberg/metadata/derived.py)). Of these differences `metadata` says nothing. A higher `last-column-id` or
`last-partition-id` than is due harms nobody and is in no row, so it is unknown, with its name.

| who | field | rule instead |
|---|---|---|
| Nessie's catalogs | properties that begin with `nessie.` | none: they name the catalog's own commit |
| Iceberg's Java library | the property `schema.name-mapping.default` | whoever changes the schema may rewrite it |
| Iceberg's Java library | properties that begin with `write.metadata.metrics.column.` | the same |
| Iceberg's Java library | properties that begin with `write.parquet.bloom-filter-enabled.column.` | the same |
| PyIceberg, and releases of Java | a key that is null, or a list that is empty, such as `identifier-field-ids` | it counts as absent |
| PyIceberg and Java | `source-ids` with one id, for `source-id` | both mean the same |
| any | the comment of a column | it may be missing, where an engine or a catalog keeps none |
| any | `schema-id` of a new schema | any id that is free, or that of an equal schema |
| a replacement (`CREATE OR REPLACE TABLE`) | all parts | only what a snapshot and its version must say |
"""

INTRODUCTION = """# What a wrong value does

The checkers judge what a run leaves behind: the history, the table logs, and what proxies saw. This page says of every field
what a single wrong value in it does. `icequake selftest --fields` tries it: it changes one field of a recorded run to another plausible
value (that of another record, one more or less, null, an element lost or doubled), and judges the run. A value that does something else
than this page says fails the tests. So does a new field, unless a wrong value does what its type says.

| outcome | meaning |
|---|---|
| **found** | a checker says that the run is invalid, and names an anomaly |
| **unknown** | the verdict is unknown: the value makes evidence useless, and the run says so |
| **refused** | the reader does not read the file, and says which line is wrong |
| **harmless** | the verdict stays valid: nothing else could be concluded, or it harms no reader; the entry says why |
| **not noticed** | the verdict stays valid, and no entry says why. The tests fail then, so no field has it |

This page is made from [checkers/selftest/fields.py](../checkers/selftest/fields.py); change it there.

## By the type of the field

The first that fits counts. The tables below have the exceptions; a field that is not there does what its type says.

| the field is | what a wrong value does |
|---|---|
"""


def first_word(name: str) -> str:
    """The first word of a field's name, which says whose field it is."""
    return name.partition(".")[0]


def document() -> str:
    """The text of docs/evidence.md."""

    def line(title: str, found: WrongValues) -> str:
        return f"| {title} | {'<br>'.join(f'**{o}**: {text}' for o, text in found.texts.items())} |\n"

    out = [INTRODUCTION, *(line(what, default) for what, (_, default) in DEFAULTS.items())]
    for first, (headline, sentence) in FIELD_PARTS.items():
        rows = [line(f"`{name}`", found) for name, found in EXCEPTIONS.items() if first_word(name) == first]
        if headline:
            out.append(f"\n## {headline}\n\n{sentence}\n\n")
        if rows and headline:
            out.append("| field | what a wrong value does |\n|---|---|\n")
        out += rows
    return "".join([*out, FILLED, section()])


if __name__ == "__main__":
    sys.stdout.write(document())
