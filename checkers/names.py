"""Every name of an anomaly: what it says in one sentence, how bad it is, who is usually at fault, and what to do.

One table for all who explain a name to a person: the page of a run, ``icequake explain``, and docs/anomalies.md, which is made from it.
What a name means exactly is decided by the checker that finds it; the specification's sentences that ``metadata`` holds a table to are in
``checkers/formats/iceberg/metadata/rules.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from checkers.prevention import (
    DELETED_FILE,
    FORMAT,
    GUARD,
    ISOLATION,
    LOG,
    LOG_STORE,
    NOTHING_WRONG,
    READER,
    REBUILD,
    REPLY,
    REPORT,
    SERIALIZABLE,
    VALIDATE,
    Prevention,
)


class Harm(StrEnum):
    """How bad an anomaly is, the gravest first."""

    ROWS = "rows lost or wrong"
    """What a query returns is not what the acknowledged operations mean, and no later operation mends it."""
    UNREADABLE = "table unreadable"
    """Readers fail. The rows may still exist."""
    PROMISE = "promise broken, rows right"
    """Somebody was shown or told something wrong for a time; the table itself is what the operations mean."""
    METADATA = "metadata wrong"
    """The rows are right today. Whoever trusts the metadata (a planner, expiry, another engine) may lose or hide some later."""
    COST = "cost"
    """Time, requests or storage; nothing that a query returns."""

    @property
    def rows(self) -> str:
        """What it means for a table's rows, in a sentence; ``{of}`` (`` of orders``) is to fill in."""
        return {
            Harm.ROWS: "Queries{of} return wrong rows.",
            Harm.UNREADABLE: "Queries{of} that need what is gone or broken fail; the rows may still exist.",
            Harm.PROMISE: "The rows{of} are right; whoever was shown or told otherwise may have acted on it.",
            Harm.METADATA: "The rows{of} are right today; who trusts the metadata (a planner, expiry, another engine) may lose some.",
            Harm.COST: "No row is wrong; it cost time or storage.",
        }[self]

    @property
    def gravity(self) -> int:
        """0 for the gravest."""
        return list(Harm).index(self)


class Culprit(StrEnum):
    """Who usually causes an anomaly; the card of each one says who did."""

    CATALOG = "the catalog: it accepted a commit on an old version, answered from a cache, or forgot"
    CLIENT = "the catalog's client in the engine: it sent a request twice, or took a lost reply for a failure"
    ENGINE = "the engine that wrote: its operation did other things than its statement says, or was not validated"
    LEVEL = "the isolation level: the table or the engine promises less than the operations need"
    STORE = "whoever removed or overwrote the file: a clean-up after a failure, expiry, the object store"
    MAKER = "who made this version of the metadata: the engine, or the catalog's server that writes the file"
    LOAD = "the service that was slow or away, or writers that abort each other"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name tells a person.

    Attributes:
        sentence: what was seen, in one sentence.
        harm: how bad it is.
        culprit: who is usually at fault.
        prevention: what to do that it does not happen again; ``remedy``: that in words.
        example: a history of at most three rows that shows it; empty if the sentence needs none.
        counted: what a headline counts, one and many of them.
        headline: what one operation did, with ``{op}`` and ``{ids}`` (`` of id 7``, or empty) to fill in; empty: the sentence says it.
        rows: what it means for the table's rows, as :attr:`Harm.rows`; empty: what its harm says.
    """

    sentence: str
    harm: Harm
    culprit: Culprit
    prevention: Prevention
    example: str = ""
    counted: tuple[str, str] = ("", "")
    headline: str = ""
    rows: str = ""

    @property
    def remedy(self) -> str:
        """What to do that it does not happen again, in words."""
        return self.prevention.text

    @property
    def repair(self) -> str:
        """What to do now with ``{tables}``, whatever the run; empty: that depends on the run (``checkers.judge.repair``)."""
        return NOTHING_WRONG if self.prevention is FORMAT and self.harm is Harm.METADATA else self.prevention.repair


ROWS, UNREADABLE, PROMISE, METADATA, COST = Harm
CATALOG, CLIENT, ENGINE, LEVEL, STORE, MAKER, LOAD = Culprit

_MEANINGS: Mapping[str, Meaning] = {
    # --- commits
    "lost-commit": Meaning(
        "A write was acknowledged, and the table does not have it.",
        ROWS,
        CATALOG,
        GUARD,
        "w1 inserts row 7: ok; w2 inserts row 8: ok; the table has row 8 only",
    ),
    "duplicate-commit": Meaning(
        "One operation is in the table more than once.",
        ROWS,
        CLIENT,
        REPLY,
        "w1 inserts row 7 once: ok; the table has row 7 twice",
    ),
    "false-failure": Meaning(
        "An operation was answered as failed, and the table has its effect.",
        ROWS,
        CLIENT,
        REPLY,
        "w1 inserts row 7: failed; a reader finds row 7; w1 inserts it again, and it is there twice",
    ),
    "unknown-commit": Meaning(
        "The table has a snapshot that the operation it names cannot have made.",
        ROWS,
        CATALOG,
        Prevention(
            "Find out who else writes to the table: the card has the snapshot's summary and the request that carried it."
        ),
        "w1 was refused, or only read; a snapshot names w1 and has new rows",
    ),
    "commit-order": Meaning(
        "Two commits are in the table in the order that real time excludes.",
        PROMISE,
        CATALOG,
        Prevention(
            "Readers of the history (time travel, incremental reads) see the two in the wrong order; look at the catalog's clock and caches."
        ),
        "w1 inserts row 7: ok; afterwards w2 inserts row 8: ok; the table's history has row 8 first",
    ),
    "lost-table": Meaning(
        "The catalog has no table where there was one, and nobody dropped it.",
        UNREADABLE,
        CATALOG,
        Prevention("Register the last metadata file, which the card names, under the table's name again."),
    ),
    "lost-rollback": Meaning(
        "A rollback was acknowledged, and the table never was at the snapshot that it asked for.",
        ROWS,
        CATALOG,
        GUARD,
        "rollback to snapshot 3: ok; the rows of snapshot 5 are still there",
    ),
    "stale-pointer": Meaning(
        "The catalog named an old version of the table after a later commit had been acknowledged.",
        PROMISE,
        CATALOG,
        READER,
    ),
    "wrong-result": Meaning(
        "A procedure answered with numbers that are not those of what it did.",
        PROMISE,
        ENGINE,
        Prevention("Do not decide by the answer; count the files and snapshots in the table's metadata."),
        "rewrite_data_files answers 4 files rewritten; its snapshot removed 2",
    ),
    # --- replay
    "undelete": Meaning(
        "A row that an operation deleted is still in the table: the delete hit an old place of the row.",
        ROWS,
        LEVEL,
        SERIALIZABLE,
        "w1 updates row 7; w2 deletes row 7 and commits last; row 7 is there",
    ),
    "lost-update": Meaning(
        "Two operations changed the same version of a row or of the table, and the effect of one is gone.",
        ROWS,
        CATALOG,
        GUARD,
        "row 7 has the value 0; w1 adds 1 and w2 adds 1, both ok; row 7 has the value 1",
    ),
    "resurrected-row": Meaning(
        "A row that was deleted came back: a later operation or rewrite wrote it again.",
        ROWS,
        ENGINE,
        VALIDATE,
        "w1 deletes row 7: ok; a compaction that had read it commits; row 7 is there",
    ),
    "duplicate-row": Meaning(
        "What was one row is two.",
        ROWS,
        ENGINE,
        VALIDATE,
        "row 7 exists once; w1 and w2 update it at once, both ok; row 7 exists twice",
    ),
    "write-skew": Meaning(
        "An operation committed on what it had read, though another commit had changed that meanwhile.",
        ROWS,
        LEVEL,
        SERIALIZABLE,
        "w1 inserts row 7 if it is absent; w2 does the same; both saw none; row 7 is there twice",
    ),
    "stale-scan": Meaning(
        "An operation worked on a state that was older than its own start.",
        ROWS,
        CATALOG,
        READER,
        "w1 inserts row 7: ok; afterwards w2 deletes all rows; row 7 is left, because w2 did not see it",
    ),
    "vanished-read": Meaning(
        "Rows were read, or an operation was computed from rows, of a commit that is no part of the table's history any more.",
        ROWS,
        CATALOG,
        Prevention(
            "Find the lost commit or the rollback that the card names; what was derived from those rows has to be computed again."
        ),
        "w1 copies what w2 has inserted: ok; the snapshot of w2 is gone; the copy stays",
    ),
    "compaction-changed-rows": Meaning(
        "A rewrite, which may only move rows to other files, changed them.",
        ROWS,
        ENGINE,
        REBUILD,
        "the table has 100 rows; rewrite_data_files; the table has 99",
    ),
    "maintenance-changed-rows": Meaning(
        "A maintenance procedure, which may change no row, changed some (told of tables that are kept as columns only).",
        ROWS,
        ENGINE,
        REBUILD,
    ),
    "wrong-rows": Meaning(
        "An operation added or removed rows other than its statement means, at every state that it can have seen.",
        ROWS,
        ENGINE,
        Prevention(
            "Compare the statement on the card with the rows beside it, and run it alone: if it still does, it is the engine's."
        ),
        "DELETE WHERE id = 7 removes row 8",
    ),
    "missing-file": Meaning(
        "The table's metadata names a file that is not in the store.",
        UNREADABLE,
        STORE,
        DELETED_FILE,
        "w1 is told that its commit failed and deletes its files; the commit had been applied; every scan fails",
    ),
    # --- reads
    "dirty-read": Meaning(
        "A reader saw rows that were never committed.",
        PROMISE,
        ENGINE,
        Prevention(
            "Adya's G1a: read the table by its catalog's pointer only, never by a file's path or a staged snapshot."
        ),
        "w1 inserts row 7 and is refused; a reader returns row 7",
    ),
    "fractured-read": Meaning(
        "A reader saw one part of a change and not the other part, or rows of different states at once.",
        PROMISE,
        LEVEL,
        Prevention(
            "Read several tables at snapshots that were committed together (a branch, a transaction's ids), not one after the other."
        ),
        "a transfer takes 5 from x and adds 5 to y; a reader finds x without the 5 and y without them, too",
    ),
    "phantom-value": Meaning(
        "A reader saw a value that nobody wrote.",
        ROWS,
        ENGINE,
        Prevention(
            "Read the same snapshot with a second engine: if that one agrees, the files are wrong, else the reader is."
        ),
        "the only values written to row 7 are 1 and 2; a reader returns 3",
    ),
    "stale-read": Meaning(
        "A reader saw a state without a write that had been acknowledged before it began.",
        PROMISE,
        CATALOG,
        READER,
        "w1 inserts row 7: ok; a read that begins afterwards does not return it; a later one does",
    ),
    "non-monotonic-read": Meaning(
        "A reader saw an older state than it had seen before.",
        PROMISE,
        CATALOG,
        READER,
        "reader r returns row 7; r reads again and does not find it; nobody deleted it",
    ),
    "read-your-writes": Meaning(
        "A writer did not find its own acknowledged write.",
        PROMISE,
        CATALOG,
        READER,
        "w1 inserts row 7: ok; w1 reads and does not find it",
    ),
    "future-read": Meaning(
        "A reader saw a write that was invoked only after the read had ended.",
        PROMISE,
        CATALOG,
        Prevention("Look at the clocks of the writers first; without a clock's fault the history itself is wrong."),
    ),
    "no-state-read": Meaning(
        "A reader saw rows that are no state of the table (told of tables that are kept as columns only).",
        ROWS,
        ENGINE,
        Prevention("Keep the whole run and check it again: the exact checker names what kind of wrong read it is."),
    ),
    "wrong-time-travel": Meaning(
        "A query for a version or time of the past returned another state than the table had then.",
        ROWS,
        ENGINE,
        Prevention("Ask by snapshot id instead of by time, and compare the snapshot-log on the card."),
        "VERSION AS OF 3 returns the rows of snapshot 4",
    ),
    # --- isolation (Adya's and Elle's names)
    "G0": Meaning(
        "Dirty write: operations overwrote each other in a circle.",
        ROWS,
        CATALOG,
        ISOLATION,
        "w1 overwrites row 7 of w2; w2 overwrites row 8 of w1",
    ),
    "G1a": Meaning(
        "Aborted read: a transaction read what a failed one wrote.",
        PROMISE,
        ENGINE,
        ISOLATION,
        "w1 writes 3 and fails; w2 reads 3",
    ),
    "G1b": Meaning(
        "Intermediate read: a transaction read a value that its writer overwrote before it committed.",
        PROMISE,
        ENGINE,
        ISOLATION,
        "w1 writes 3, then 4, and commits; w2 reads 3",
    ),
    "G1c": Meaning(
        "Circular information flow: operations read or overwrote each other in a circle.",
        ROWS,
        CATALOG,
        ISOLATION,
        "w1 reads what w2 wrote; w2 reads what w1 wrote",
    ),
    "G-single": Meaning(
        "Read skew: a circle of operations in which exactly one overwrote what another had read.",
        ROWS,
        LEVEL,
        ISOLATION,
        "w1 reads row 7; w2 changes rows 7 and 8; w1 reads the new row 8",
    ),
    "G-nonadjacent": Meaning(
        "Long fork: two readers saw two writes in opposite orders; or a longer circle in which operations overwrote what others had read, "
        "never two of these in a row. Snapshot isolation forbids it.",
        ROWS,
        LEVEL,
        ISOLATION,
        "w1 writes x, w2 writes y; w3 reads the new x and the old y, w4 the new y and the old x",
    ),
    "G2-item": Meaning(
        "Write skew: a circle of operations of which some overwrote rows that others had read; serializability forbids it.",
        ROWS,
        LEVEL,
        SERIALIZABLE,
        "w1 reads rows 7 and 8 and changes 7; w2 reads both and changes 8; neither saw the other",
    ),
    "G2": Meaning(
        "Write skew by condition: a circle of operations of which some changed what a condition of others selects.",
        ROWS,
        LEVEL,
        SERIALIZABLE,
        "w1 inserts row 7 WHERE NOT EXISTS row 8; w2 inserts row 8 WHERE NOT EXISTS row 7; both are there",
    ),
    "garbage-read": Meaning("A transaction read what nobody wrote.", ROWS, ENGINE, ISOLATION),
    "duplicate-elements": Meaning(
        "A list has an element twice that was appended once.",
        ROWS,
        CLIENT,
        REPLY,
        "w1 appends 3; a read returns [3, 3]",
    ),
    "incompatible-order": Meaning(
        "Two reads of a list are no versions of one list: neither begins with the other.",
        ROWS,
        CATALOG,
        ISOLATION,
        "one read returns [1, 2], another one [2, 1]",
    ),
    "dirty-update": Meaning(
        "A committed value contains one of a failed transaction.",
        ROWS,
        ENGINE,
        ISOLATION,
        "w1 appends 1 and fails; w2 appends 2: [1, 2]",
    ),
    "internal": Meaning(
        "A transaction read something else than it had read or written itself before.",
        PROMISE,
        ENGINE,
        ISOLATION,
        "w1 writes 3 and reads 2, in one transaction",
    ),
    "causality": Meaning(
        "A transaction read from another one and missed what that one had itself read from.", PROMISE, LEVEL, ISOLATION
    ),
    "session-causality": Meaning(
        "A transaction missed a write that came before it: one of its own process, or of a process that it read from.",
        PROMISE,
        LEVEL,
        ISOLATION,
        "w1 writes x, then y in another transaction; w2 reads the new y and the old x",
    ),
    "non-monotonic-write": Meaning(
        "Two writes of one process took effect in the other order.",
        ROWS,
        CATALOG,
        ISOLATION,
        "w1 writes 1, then 2; the value is 1",
    ),
    "writes-follow-reads": Meaning("A process read a version and then wrote an older one.", ROWS, CATALOG, ISOLATION),
    "wrong-total": Meaning(
        "Two reads of all accounts of a bank add up to different sums, although transfers only move money.",
        ROWS,
        LEVEL,
        ISOLATION,
        "w1 moves 3 from account 0 to 1; a read of {0 10, 1 10} returns {0 7, 1 10}",
    ),
    "wrong-accounts": Meaning(
        "Two reads of all accounts of a bank do not show the same accounts, although transfers only move money.",
        ROWS,
        LEVEL,
        ISOLATION,
        "a read returns {0 10, 1 10}, the next one {0 10}",
    ),
    "nonlinearizable": Meaning(
        "No order of the operations explains what the clients saw.",
        ROWS,
        CATALOG,
        Prevention(
            "The smallest part of the history that still cannot be ordered is on the card; another checker usually names the cause."
        ),
        "w1 inserts row 7: ok; afterwards a read does not return it",
    ),
    # --- other checkers of runs
    "stuck-operation": Meaning(
        "An operation never ended, long after the last fault, while others went on.",
        COST,
        LOAD,
        Prevention(
            "Give the engine and the catalog's client a timeout; look at what it waited for in the proxy's log."
        ),
    ),
    "overdue-operation": Meaning(
        "An operation ended long after its time, while others went on.",
        COST,
        LOAD,
        Prevention(
            "Look at its retries and at the requests that it waited for; lower `commit.retry.total-timeout-ms`."
        ),
    ),
    "no-progress": Meaning(
        "Nothing succeeded for a long time, although operations were under way and no fault was on.",
        COST,
        LOAD,
        Prevention(
            "Fewer writers at one table, more partitions, or longer waits between retries (docs/sweep.md measures them)."
        ),
    ),
    "half-transaction": Meaning(
        "A change of two tables is in one of them for good and not in the other.",
        ROWS,
        CATALOG,
        Prevention(
            "Use a catalog that commits both tables in one transaction; until then repeat or take back the missing half."
        ),
        "a transfer takes 5 from x: ok; y never gets them",
    ),
    # --- pointer
    "lost-swap": Meaning(
        "The catalog accepted a new version of the table, and the pointer's history does not have it.",
        ROWS,
        CATALOG,
        GUARD,
    ),
    "unknown-base": Meaning(
        "The catalog accepted a swap that replaced a version which the pointer did not name.",
        ROWS,
        CATALOG,
        GUARD,
    ),
    "swap-order": Meaning(
        "Two accepted swaps are in the order that real time excludes.",
        PROMISE,
        CATALOG,
        Prevention("Look whether the catalog answers before its database has committed."),
    ),
    "swap-time": Meaning(
        "A swap was asked for outside the time of the operation that it belongs to.",
        PROMISE,
        CLIENT,
        Prevention("A request was sent late or again: look at the client's retries."),
    ),
    "foreign-swap": Meaning(
        "A swap put another operation's version in place than its own.",
        ROWS,
        CATALOG,
        GUARD,
    ),
    # --- metadata: the chain of metadata files
    "metadata-fork": Meaning(
        "A version of the table was made from an old one: what lay between is passed over.",
        ROWS,
        CATALOG,
        GUARD,
        "v4 is made from v3 by w1, v5 from v3 by w2: the table goes on with v5",
    ),
    "missing-metadata-file": Meaning(
        "A metadata file that the pointer or the metadata-log names is not in the store.",
        UNREADABLE,
        STORE,
        DELETED_FILE,
    ),
    "corrupt-metadata-file": Meaning(
        "A metadata file cannot be parsed, or changed after it was written.",
        UNREADABLE,
        STORE,
        Prevention("Point the catalog at the last good version, which the card names."),
    ),
    "metadata-log-mismatch": Meaning(
        "The metadata-log does not list the versions that came before.",
        METADATA,
        MAKER,
        REPORT,
    ),
    "table-uuid-changed": Meaning(
        "The table has another UUID than before: readers take it for another table.",
        METADATA,
        MAKER,
        REPORT,
    ),
    "shared-uuid": Meaning(
        "Two tables of a run have one UUID: a client that caches by it takes the one for the other.",
        METADATA,
        MAKER,
        REPORT,
    ),
    "format-version-decreased": Meaning(
        "The table's format version went down: what only the higher one can say may be ignored.",
        METADATA,
        MAKER,
        REPORT,
    ),
    "counter-decreased": Meaning(
        "A counter that may only grow went down: the next number that it gives may be in use.",
        METADATA,
        MAKER,
        REPORT,
    ),
    # --- metadata: what versions list
    "last-sequence-number": Meaning(
        "The table's last sequence number is below one that is in use.", METADATA, MAKER, REPORT
    ),
    "duplicate-snapshot": Meaning("Two snapshots have one id.", METADATA, MAKER, REPORT),
    "duplicate-sequence-number": Meaning(
        "Two commits have one sequence number: which deletes apply to which rows is undecided.",
        METADATA,
        MAKER,
        REPORT,
    ),
    "sequence-number-order": Meaning(
        "Sequence numbers do not follow the order of the commits: deletes may hide newer rows or miss older ones.",
        METADATA,
        MAKER,
        REPORT,
    ),
    "dangling-ref": Meaning(
        "A branch or tag points at a snapshot that the table does not list.", UNREADABLE, MAKER, REPORT
    ),
    "main-ref": Meaning("The current snapshot and the branch main differ.", METADATA, MAKER, REPORT),
    "snapshot-changed": Meaning("A snapshot says other things than when it was committed.", METADATA, MAKER, REPORT),
    "unknown-parent": Meaning("A snapshot names a parent that was never there before it.", METADATA, MAKER, REPORT),
    "main-not-moved": Meaning("A commit added its snapshot and did not move its branch to it.", ROWS, MAKER, REPORT),
    # --- metadata: what changed
    "schema-changed": Meaning(
        "The schema changed, and no operation that was under way changes it so.", METADATA, MAKER, REPORT
    ),
    "schema-evolution": Meaning(
        "A column changed in a way that the specification forbids: old files cannot be read as the new type.",
        UNREADABLE,
        MAKER,
        REPORT,
    ),
    "partition-spec-changed": Meaning("The partition spec changed, and nobody changed it.", METADATA, MAKER, REPORT),
    "sort-order-changed": Meaning("The sort order changed, and nobody changed it.", METADATA, MAKER, REPORT),
    "property-changed": Meaning("A table property changed, and nobody set it.", METADATA, MAKER, REPORT),
    "ref-changed": Meaning("A tag moved, or a branch moved without a commit to it.", METADATA, MAKER, REPORT),
    "location-changed": Meaning("The table's location changed, and nobody moved it.", METADATA, MAKER, REPORT),
    "format-version-changed": Meaning(
        "The format version was raised, and nobody asked for it: older engines cannot read the table.",
        METADATA,
        MAKER,
        REPORT,
    ),
    "statistics-changed": Meaning(
        "The list of statistics files changed, and nobody computed or removed one.", METADATA, MAKER, REPORT
    ),
    "missing-field": Meaning("A field that the specification requires is missing.", METADATA, MAKER, REPORT),
    "listed-twice": Meaning(
        "A list of the metadata has one id twice: which entry is meant is undecided.", METADATA, MAKER, REPORT
    ),
    "unknown-type": Meaning("A column has a type that the specification does not know.", UNREADABLE, MAKER, REPORT),
    "unknown-format-version": Meaning("The table says a format version that there is not.", UNREADABLE, MAKER, REPORT),
    "not-as-created": Meaning(
        "The first version of the table is not what its creation asked for: other columns, partitions, properties, format or location.",
        METADATA,
        CATALOG,
        Prevention(
            "Compare the CREATE TABLE with the first metadata file; a property that the catalog overrides belongs into its own properties."
        ),
    ),
    "dangling-id": Meaning(
        "A current schema, spec or sort order is named that the table does not list.", UNREADABLE, MAKER, REPORT
    ),
    "field-id": Meaning(
        "Field ids are used twice or lie above the last one: columns may be read as each other.",
        METADATA,
        MAKER,
        REPORT,
    ),
    "snapshot-log": Meaning(
        "The snapshot-log does not say when which snapshot was current: time travel goes wrong.",
        METADATA,
        MAKER,
        REPORT,
    ),
    "timestamp-order": Meaning(
        "Times contradict each other: time travel and expiry by age choose wrong snapshots.",
        METADATA,
        MAKER,
        REPORT,
    ),
    "returned-snapshot": Meaning("A snapshot that was expired is listed again.", METADATA, MAKER, REPORT),
    # --- metadata: what vanished
    "vanished-snapshot": Meaning("A snapshot is gone from the list, and nobody expired it.", METADATA, MAKER, REPORT),
    "retention": Meaning("Expiry removed a snapshot that the table's retention keeps.", METADATA, ENGINE, REPORT),
    "vanished-ref": Meaning("A branch or tag is gone, and nobody dropped it.", METADATA, MAKER, REPORT),
    "vanished-schema": Meaning("A schema is gone that files or snapshots were written with.", METADATA, MAKER, REPORT),
    "vanished-partition-spec": Meaning(
        "A partition spec is gone that files were written with.", METADATA, MAKER, REPORT
    ),
    "vanished-property": Meaning("A table property is gone, and nobody removed it.", METADATA, MAKER, REPORT),
    "lost-metadata-change": Meaning(
        "A change of the schema, of a property or of the format version was acknowledged, and the table does not have it.",
        METADATA,
        CATALOG,
        GUARD,
    ),
    # --- metadata: files
    "corrupt-file": Meaning(
        "A file of the table changed after it was written, or cannot be read.", UNREADABLE, STORE, DELETED_FILE
    ),
    "duplicate-path": Meaning("One file is live twice in a snapshot: its rows are read twice.", ROWS, ENGINE, REBUILD),
    "shared-file": Meaning(
        "Two tables use one file: the expiry of one deletes what the other needs.",
        METADATA,
        ENGINE,
        Prevention("Set `gc.enabled` to false on both, or rewrite the file for one of them."),
    ),
    "several-dvs": Meaning(
        "A data file has two deletion vectors: readers apply one of them or fail.", ROWS, ENGINE, FORMAT
    ),
    "dangling-dv": Meaning(
        "A deletion vector is left of a data file that is not in the table any more.", METADATA, ENGINE, FORMAT
    ),
    "position-deletes-in-v3": Meaning(
        "A position delete file was added to a table of version 3, which knows deletion vectors only.",
        METADATA,
        ENGINE,
        FORMAT,
    ),
    "foreign-file": Meaning("A snapshot has a file that neither it nor its parent added.", ROWS, ENGINE, REBUILD),
    "manifest-count": Meaning(
        "A manifest list counts other files or rows than its manifest has.", METADATA, ENGINE, FORMAT
    ),
    "min-sequence-number": Meaning(
        "A manifest's lowest sequence number is not that of its files: planners skip deletes by it.",
        METADATA,
        ENGINE,
        FORMAT,
    ),
    "sequence-number": Meaning(
        "A file's data sequence number is above its file sequence number.", METADATA, ENGINE, FORMAT
    ),
    "null-sequence-number": Meaning(
        "A kept or removed entry says no sequence number: it would inherit a wrong one.", METADATA, ENGINE, FORMAT
    ),
    "file-sequence-number": Meaning(
        "A file's sequence number is not that of the snapshot that added it.", METADATA, ENGINE, FORMAT
    ),
    "record-count": Meaning(
        "A file has another number of rows than its entry says: counts by metadata are wrong.",
        METADATA,
        ENGINE,
        FORMAT,
    ),
    "delete-position": Meaning("A delete names a position that its data file does not have.", METADATA, ENGINE, FORMAT),
    "data-sequence-number": Meaning(
        "A new file has an older data sequence number than its snapshot, and no rewrite gave it: older deletes hide its rows.",
        ROWS,
        ENGINE,
        FORMAT,
    ),
    "file-partition": Meaning(
        "A file lies in a partition that is not that of its rows: scans of the right partition miss them.",
        ROWS,
        ENGINE,
        REBUILD,
    ),
    "pruned-rows": Meaning(
        "Bounds, counts or a partition summary leave out rows that are in the file: a scan that prunes by them misses these rows.",
        ROWS,
        ENGINE,
        REBUILD,
        "a file has row 1, its entry says lowest id 1000; SELECT WHERE id = 1 returns nothing",
    ),
    "column-count": Meaning(
        "A file's entry counts other values, nulls or NaNs of a column than the file has.", METADATA, ENGINE, FORMAT
    ),
    "misplaced-row": Meaning("A row is said to be where its file has none, or another one.", METADATA, ENGINE, FORMAT),
    "delete-sequence-number": Meaning(
        "A row is hidden by a delete that, by its sequence number, does not apply to it.", METADATA, ENGINE, FORMAT
    ),
    "file-format": Meaning("A file is said to be of another format than it is.", UNREADABLE, ENGINE, FORMAT),
    "file-size": Meaning(
        "A file has another size than its entry says: Java looks for the footer where it is not.",
        UNREADABLE,
        ENGINE,
        FORMAT,
    ),
    "vector-place": Meaning(
        "A deletion vector is said to be at another place of its file than it is: readers fail, or delete other rows.",
        ROWS,
        ENGINE,
        FORMAT,
    ),
    "shared-manifest-list": Meaning(
        "Two snapshots use one manifest list, so one of them has the files of the other.", METADATA, MAKER, REPORT
    ),
    "delete-partition": Meaning(
        "A delete lies in another partition than the file that it means: it does not apply.", ROWS, ENGINE, REBUILD
    ),
    "referenced-file": Meaning(
        "A delete file names another data file than the one whose positions it deletes.", ROWS, ENGINE, REBUILD
    ),
    "equality-ids": Meaning(
        "An equality delete file says no columns by which rows are equal, or columns that no schema has.",
        ROWS,
        ENGINE,
        REBUILD,
    ),
    "split-offsets": Meaning(
        "A data file is said to be split at other places than its row groups begin: a scan does not read the rows before the first.",
        ROWS,
        ENGINE,
        REBUILD,
    ),
    "dv-in-v2": Meaning(
        "A table of version 2 has a deletion vector, which its readers do not know.", METADATA, ENGINE, FORMAT
    ),
    "removed-not-live": Meaning("A snapshot removes a file that the table did not have.", METADATA, ENGINE, FORMAT),
    "entry-changed": Meaning(
        "The entry of a kept or removed file says other things than when the file was added.",
        METADATA,
        ENGINE,
        FORMAT,
    ),
    "wrong-operation": Meaning(
        "A snapshot calls itself another operation than it is: validation of concurrent commits trusts that word.",
        METADATA,
        ENGINE,
        FORMAT,
    ),
    "summary-count": Meaning(
        "The numbers in a snapshot's summary are not those of its files.", METADATA, ENGINE, FORMAT
    ),
    # --- metadata: row lineage
    "first-row-id": Meaning("A snapshot's first row id is not the table's next one.", METADATA, ENGINE, FORMAT),
    "row-id-overlap": Meaning("Two rows have one row id.", METADATA, ENGINE, FORMAT),
    "next-row-id": Meaning("The table's next row id is one that is in use.", METADATA, ENGINE, FORMAT),
    "file-row-id": Meaning(
        "A file's first row id lies outside the range of the snapshot that added it.", METADATA, ENGINE, FORMAT
    ),
    "kept-row-id": Meaning("A file that was kept got another first row id.", METADATA, ENGINE, FORMAT),
    # --- protocol: tables of Delta Lake
    "version-gap": Meaning(
        "A version of the table is not there: readers refuse the table, or skip it.", UNREADABLE, STORE, LOG
    ),
    "version-replaced": Meaning(
        "A version's file was written again with another content: the first writer's commit is gone.",
        ROWS,
        CATALOG,
        LOG_STORE,
        "w1 writes version 7: ok; w2 writes version 7: ok; the table has what w2 wrote",
    ),
    "version-unreadable": Meaning("A version's file cannot be read.", UNREADABLE, STORE, LOG),
    "added-and-removed": Meaning(
        "A version adds and removes the same file: readers differ in what is left.", ROWS, ENGINE, LOG
    ),
    "added-twice": Meaning(
        "A version adds a file that the table has already, as a commit does that was made twice: the change feed has its rows twice, and "
        "rows that were deleted since come back.",
        ROWS,
        CLIENT,
        REPLY,
        "w1 adds file a: its reply is lost, and it commits again; versions 3 and 4 add file a",
    ),
    "removed-twice": Meaning(
        "A version removes or rewrites a file that is no longer in the table: two rewrites of it bring its rows twice.",
        ROWS,
        ENGINE,
        Prevention("Let one client compact the table; the card has the two versions, and the engines that made them."),
        "w1 compacts file a: ok; w2 compacts file a: ok; every row is there twice",
    ),
    "several-vectors": Meaning(
        "A data file is in the table twice, each time with another deletion vector: its rows are read twice.",
        ROWS,
        ENGINE,
        LOG,
    ),
    "vector-too-long": Meaning("A deletion vector marks more rows than its file has.", UNREADABLE, ENGINE, LOG),
    "vector-grows-back": Meaning(
        "A version gives a file a deletion vector that no longer marks a deleted row: the row is back.",
        ROWS,
        ENGINE,
        LOG,
    ),
    "protocol-absent": Meaning("The first version lacks the table's protocol or its metadata.", UNREADABLE, MAKER, LOG),
    "protocol-twice": Meaning(
        "A version says the table's protocol, its metadata or who made it twice.", METADATA, MAKER, LOG
    ),
    "feature-absent": Meaning(
        "The table uses a feature that its protocol does not name: readers that do not know the feature read wrong rows.",
        METADATA,
        ENGINE,
        LOG,
    ),
    "table-id-changed": Meaning(
        "The id of the table changed: another table's log is in its place.", METADATA, MAKER, LOG
    ),
    "column-mapping": Meaning(
        "A column got the id or the physical name of another one, or of one that was dropped: old files show their values in it.",
        METADATA,
        ENGINE,
        LOG,
    ),
    "commit-time-absent": Meaning("A version lacks the time that the table promises for each.", METADATA, ENGINE, LOG),
    "commit-time-order": Meaning(
        "A version says an earlier time than the one before it: time travel by time finds the wrong version.",
        METADATA,
        ENGINE,
        LOG,
    ),
    "row-ids-absent": Meaning("A file of a table with row tracking has no row ids.", METADATA, ENGINE, LOG),
    "row-ids-shared": Meaning("Two files of a table with row tracking share row ids.", METADATA, ENGINE, LOG),
    "row-id-watermark": Meaning(
        "A row id is above the table's high water mark, or the mark went back: ids will be given again.",
        METADATA,
        ENGINE,
        LOG,
    ),
    "operation-unlike": Meaning(
        "A version says that it is another statement than was executed.", METADATA, ENGINE, LOG
    ),
    "metrics-unlike": Meaning("A version counts other rows than it changed.", METADATA, ENGINE, LOG),
    "read-version": Meaning("A version says that it read a version that is not before it.", METADATA, ENGINE, LOG),
    "blind-append": Meaning(
        "A version calls itself a blind append and removes files: conflict checks let it pass.", METADATA, ENGINE, LOG
    ),
    "transaction-twice": Meaning(
        "Two versions are of one transaction, as when the reply of a commit was lost and the client did not look.",
        ROWS,
        CLIENT,
        REPLY,
        "w1 commits version 3, and the reply is lost; it commits version 4 with the same files",
    ),
    "application-version": Meaning(
        "The version of an application went back: what it wrote once may be written again.", ROWS, ENGINE, LOG
    ),
    "checkpoint-unlike": Meaning(
        "A checkpoint has other files than the versions up to it: readers see two histories.", ROWS, CATALOG, LOG_STORE
    ),
    "compacted-unlike": Meaning("A compacted log has other files than its versions.", ROWS, ENGINE, LOG),
    "checksum-unlike": Meaning("A version's checksum counts other files than the table has.", METADATA, ENGINE, LOG),
}

_SAID: Mapping[str, tuple[str, str, str]] = {
    "lost-commit": (
        "acknowledged commit lost",
        "acknowledged commits lost",
        "{op} was acknowledged, and the table does not have it",
    ),
    "duplicate-commit": (
        "operation in the table more than once",
        "operations in the table more than once",
        "{op} is in the table more than once",
    ),
    "false-failure": (
        "operation reported as failed that was committed",
        "operations reported as failed that were committed",
        "{op} was reported as failed, and the table has its effect",
    ),
    "unknown-commit": (
        "snapshot that its operation cannot have made",
        "snapshots that their operations cannot have made",
        "a snapshot names {op}, which cannot have made it",
    ),
    "commit-order": (
        "commit in the wrong order",
        "commits in the wrong order",
        "{op} is at the wrong place of the table's history",
    ),
    "lost-table": ("table lost by the catalog", "tables lost by the catalog", "the catalog has lost the table"),
    "lost-rollback": (
        "acknowledged rollback that did not happen",
        "acknowledged rollbacks that did not happen",
        "{op} was acknowledged, and the table was not set back",
    ),
    "stale-pointer": (
        "answer with an old version of the table",
        "answers with an old version of the table",
        "{op} got an old version of the table from the catalog",
    ),
    "wrong-result": (
        "procedure with wrong numbers",
        "procedures with wrong numbers",
        "{op} answered with wrong numbers",
    ),
    "undelete": ("delete that left its row", "deletes that left their rows", "{op} did not delete{ids}"),
    "lost-update": ("change lost", "changes lost", "{op} wiped out what another operation had written{of_ids}"),
    "resurrected-row": (
        "deleted row came back",
        "deleted rows came back",
        "{op} brought back what had been deleted{ids_named}",
    ),
    "duplicate-row": ("row doubled", "rows doubled", "{op} made two rows of one{ids_named}"),
    "write-skew": (
        "write on rows that had changed meanwhile",
        "writes on rows that had changed meanwhile",
        "{op} committed though what it had read{of_ids} had changed meanwhile",
    ),
    "stale-scan": (
        "write that missed earlier writes",
        "writes that missed earlier writes",
        "{op} did not see a write{of_ids} that had been acknowledged before",
    ),
    "vanished-read": (
        "write or read of rows that the table lost",
        "writes or reads of rows that the table lost",
        "{op} used rows that are no part of the table any more{ids_named}",
    ),
    "compaction-changed-rows": (
        "rewrite that changed rows",
        "rewrites that changed rows",
        "{op} changed rows, and may only move them",
    ),
    "maintenance-changed-rows": (
        "maintenance that changed rows",
        "maintenance runs that changed rows",
        "{op} changed rows, and may change none",
    ),
    "wrong-rows": (
        "statement with wrong rows",
        "statements with wrong rows",
        "{op} changed other rows than its statement says{ids_named}",
    ),
    "missing-file": (
        "commit whose files are gone",
        "commits whose files are gone",
        "files of {op} are gone, and the table needs them",
    ),
    "dirty-read": (
        "read of rows that were never committed",
        "reads of rows that were never committed",
        "{op} saw rows that were never committed{ids_named}",
    ),
    "fractured-read": (
        "read of half a change",
        "reads of half a change",
        "{op} saw one part of a change and not the other{ids_named}",
    ),
    "phantom-value": (
        "read of a value that nobody wrote",
        "reads of values that nobody wrote",
        "{op} returned a value that nobody wrote{ids_named}",
    ),
    "stale-read": ("stale read", "stale reads", "{op} did not see a write that had been acknowledged before"),
    "non-monotonic-read": (
        "read that went back in time",
        "reads that went back in time",
        "{op} saw an older state than its reader had seen before",
    ),
    "read-your-writes": (
        "read without its writer's own write",
        "reads without their writer's own write",
        "{op} did not find what its own writer had written",
    ),
    "future-read": ("read of a later write", "reads of later writes", "{op} saw a write that began only afterwards"),
    "no-state-read": (
        "read of rows that are no state of the table",
        "reads of rows that are no state of the table",
        "{op} saw rows that are no state of the table",
    ),
    "wrong-time-travel": (
        "wrong answer of time travel",
        "wrong answers of time travel",
        "{op} returned another state than the one of the past that it asked for",
    ),
    "G0": ("circle of overwrites", "circles of overwrites", ""),
    "G1a": ("read of a failed write", "reads of failed writes", ""),
    "G1b": ("read of an intermediate value", "reads of intermediate values", ""),
    "G1c": ("circle of reads and writes", "circles of reads and writes", ""),
    "G-single": ("read skew", "read skews", ""),
    "G-nonadjacent": ("circle that snapshot isolation forbids", "circles that snapshot isolation forbids", ""),
    "G2-item": ("write skew", "write skews", ""),
    "G2": ("write skew by condition", "write skews by condition", ""),
    "garbage-read": ("read of what nobody wrote", "reads of what nobody wrote", ""),
    "duplicate-elements": ("list with an element twice", "lists with an element twice", ""),
    "incompatible-order": ("list read in two orders", "lists read in two orders", ""),
    "dirty-update": ("value made of a failed write", "values made of failed writes", ""),
    "internal": ("transaction that contradicts itself", "transactions that contradict themselves", ""),
    "causality": ("read that missed its own cause", "reads that missed their own cause", ""),
    "session-causality": ("read that missed what came before", "reads that missed what came before", ""),
    "non-monotonic-write": ("write in the wrong order", "writes in the wrong order", ""),
    "writes-follow-reads": ("write older than what was read", "writes older than what was read", ""),
    "nonlinearizable": (
        "row whose history no order explains",
        "rows whose history no order explains",
        "no order of the operations explains what {op} did or saw{of_ids}",
    ),
    "stuck-operation": ("operation that never ended", "operations that never ended", "{op} never ended"),
    "overdue-operation": ("operation that ended late", "operations that ended late", "{op} ended long after its time"),
    "no-progress": ("time without progress", "times without progress", ""),
    "half-transaction": (
        "transaction half done",
        "transactions half done",
        "{op} is in one of its two tables, and not in the other",
    ),
    "lost-swap": (
        "commit that the catalog accepted and did not make",
        "commits that the catalog accepted and did not make",
        "the catalog accepted {op} and did not make it",
    ),
    "unknown-base": (
        "commit accepted on a version that was not current",
        "commits accepted on versions that were not current",
        "the catalog accepted {op} on a version that was not the current one",
    ),
    "swap-order": ("swap of the pointer in the wrong order", "swaps of the pointer in the wrong order", ""),
    "swap-time": ("request outside the time of its operation", "requests outside the time of their operation", ""),
    "foreign-swap": (
        "commit with another operation's changes in place of its own",
        "commits with other operations' changes in place of their own",
        "the commit of {op} has another operation's changes in place of its own",
    ),
    "metadata-fork": (
        "fork of the table's versions",
        "forks of the table's versions",
        "{op} made its version from an old one, and what lay between is passed over",
    ),
    "missing-metadata-file": ("metadata file gone", "metadata files gone", ""),
    "corrupt-metadata-file": ("corrupt metadata file", "corrupt metadata files", ""),
    "lost-metadata-change": (
        "change of the schema or of a property lost",
        "changes of the schema or of properties lost",
        "",
    ),
    "dangling-ref": ("branch or tag without its snapshot", "branches or tags without their snapshot", ""),
    "main-not-moved": (
        "commit that did not move its branch",
        "commits that did not move their branch",
        "{op} added its snapshot and did not move its branch to it",
    ),
    "schema-evolution": ("forbidden change of a column", "forbidden changes of columns", ""),
    "unknown-type": ("column of an unknown type", "columns of unknown types", ""),
    "unknown-format-version": ("unknown format version", "unknown format versions", ""),
    "dangling-id": (
        "current schema, spec or order that is not listed",
        "current schemas, specs or orders not listed",
        "",
    ),
    "corrupt-file": ("corrupt file", "corrupt files", ""),
    "duplicate-path": (
        "file that is read twice",
        "files that are read twice",
        "{op} made a file live twice: its rows are read twice",
    ),
    "several-dvs": ("data file with two deletion vectors", "data files with two deletion vectors", ""),
    "foreign-file": ("snapshot with another one's file", "snapshots with other ones' files", ""),
    "data-sequence-number": ("file that older deletes hide", "files that older deletes hide", ""),
    "file-partition": ("file in the wrong partition", "files in the wrong partition", ""),
    "pruned-rows": ("file whose rows scans miss", "files whose rows scans miss", ""),
    "file-format": ("file of another format than its entry says", "files of other formats than their entries say", ""),
    "file-size": ("file of another size than its entry says", "files of other sizes than their entries say", ""),
    "vector-place": ("deletion vector at the wrong place", "deletion vectors at the wrong place", ""),
    "delete-partition": ("delete in the wrong partition", "deletes in the wrong partition", ""),
    "referenced-file": ("delete that names the wrong file", "deletes that name the wrong file", ""),
    "equality-ids": ("equality delete of no column", "equality deletes of no column", ""),
    "split-offsets": ("file whose first rows scans miss", "files whose first rows scans miss", ""),
    "protocol-absent": ("table without a protocol", "tables without a protocol", ""),
    "version-gap": ("version that is not there", "versions that are not there", ""),
    "version-replaced": ("version that was overwritten", "versions that were overwritten", ""),
    "version-unreadable": ("version that nobody can read", "versions that nobody can read", ""),
    "added-and-removed": ("file that a version adds and removes", "files that a version adds and removes", ""),
    "added-twice": ("file that was added twice", "files that were added twice", ""),
    "removed-twice": ("file that was removed twice", "files that were removed twice", ""),
    "several-vectors": (
        "file that is there with two deletion vectors",
        "files that are there with two deletion vectors",
        "",
    ),
    "vector-too-long": ("deletion vector longer than its file", "deletion vectors longer than their files", ""),
    "vector-grows-back": ("deletion vector that lost a row", "deletion vectors that lost rows", ""),
    "transaction-twice": ("transaction that is there twice", "transactions that are there twice", ""),
    "application-version": ("application whose version went back", "applications whose version went back", ""),
    "checkpoint-unlike": ("checkpoint unlike its versions", "checkpoints unlike their versions", ""),
    "compacted-unlike": ("compacted log unlike its versions", "compacted logs unlike their versions", ""),
}
"""Name → what a headline counts, one and many, and what one operation did. Names of wrong metadata are counted together, as ways in which it
is wrong (:mod:`checkers.judge.stories`)."""

_COMPUTED = "What it wrote was computed without that: the rows{of} are those of no order of the two."
_IN_ROWS: Mapping[str, str] = {
    "missing-file": "Reads of the snapshots{of} that need the file fail; those of others do not.",
    "false-failure": "Its rows{of} are there; whoever runs it again writes them twice.",
    "duplicate-commit": "Queries{of} return its rows twice.",
    "undelete": "Queries{of} still return the row that it deleted.",
    "resurrected-row": "Queries{of} return rows that were deleted.",
    "duplicate-row": "Queries{of} return the row twice.",
    "duplicate-path": "Queries{of} return the rows of that file twice.",
    "lost-update": "Of two changes{of} that were acknowledged, one is gone.",
    "write-skew": _COMPUTED,
    "stale-scan": _COMPUTED,
    "vanished-read": "What was made of these rows has no source in the table any more.",
    "half-transaction": "One table has the change and the other one does not: sums over both are wrong.",
}
"""Name → what it means for the table's rows, where its harm says too little."""

_LEVEL_OR_ONE = "Read and write in one operation: a compare-and-set, or a transaction at a level that forbids this."
_SERIALIZABLE_OR_ONE = (
    "Run these transactions at the level that the system calls serializable, lock what they read (SELECT ... FOR UPDATE), or keep them from "
    "running at once."
)
_ALL_AT_ONCE = (
    "Make each transfer, and each read of all accounts, one transaction at a level of at least snapshot isolation; look whether a part of a "
    "transfer can be repeated or lost."
)
OF_HISTORIES: Mapping[str, tuple[str, str]] = {
    "G2-item": (
        "Write skew: transactions read what others of them overwrote, in a circle; serializability forbids it.",
        _SERIALIZABLE_OR_ONE,
    ),
    "G2": (
        "Write skew by condition: transactions changed what a condition of others selects, in a circle; serializability forbids it.",
        _SERIALIZABLE_OR_ONE,
    ),
    "duplicate-elements": (
        "A list has an element twice that was appended once.",
        "Look whether a client, a driver or a proxy sends a request again whose answer was lost; give each request an id by which the system "
        "recognises that it is the same.",
    ),
    "wrong-total": (
        "Two reads of all accounts of a bank add up to different sums, although transfers only move money.",
        _ALL_AT_ONCE,
    ),
    "wrong-accounts": (
        "Two reads of all accounts of a bank do not show the same accounts, although transfers only move money.",
        f"Look first whether each read asked for all accounts, and whether some were made later. {_ALL_AT_ONCE}",
    ),
    "lost-update": (
        "Two operations read the same version of a key and both wrote it: each must have missed the other's write.",
        f"{_LEVEL_OR_ONE} A client that reads, computes and then writes always allows it.",
    ),
    "fractured-read": (
        "A transaction saw one write of another transaction and missed another one of it.",
        _LEVEL_OR_ONE,
    ),
    "non-monotonic-read": (
        "A process read a version of a key, and later an older one.",
        "Let a client stay at one replica, or send it what it has seen last (a session token).",
    ),
    "read-your-writes": (
        "A process wrote a key, and later read an older version of it.",
        "Let a client read where it wrote, or send it what it has written last (a session token).",
    ),
    "future-read": (
        "A transaction read what it wrote itself only later.",
        "This is an error of the system, or of how it was recorded.",
    ),
    "garbage-read": (
        "A transaction read what nobody wrote.",
        "Look first whether the history has all writes, those before its beginning too: at first every key is nil, and a list is empty.",
    ),
    "nonlinearizable": (
        "No order of the operations explains what the clients saw.",
        "Look first whether the history has all writes, those before its beginning too, and whether all clients have one clock. Then look "
        "where reads are answered: at a replica, or from a cache, they may be old.",
    ),
}
"""Name → what it says in the history of another system, which has no tables, and what to do there; of the others :func:`meaning` says both."""

_SUFFIXES: Mapping[str, str] = {
    "predicate": "the circle needs a read by a condition, such as WHERE val > 3: another operation changed which rows fulfil it",
    "process": "the circle needs the order of one writer's own operations",
    "realtime": "the circle needs real time: one operation had ended before the other began",
}
"""Suffix of one of Adya's names → what the circle needs besides the dependencies of the name."""


_EXAMPLES: Mapping[str, str] = {
    "G0-process": "w1 appends 1, then 2; the list is [2, 1]",
    "G0-realtime": "w1 appends 1 and ends; then w2 begins and appends 2; the list is [2, 1]",
    "G1c-process": "w1 reads 3, and only then writes it itself",
    "G1c-realtime": "w1 reads 3 and ends; then w2 begins and writes 3",
    "G-single-process": "w1 changes row 7, then reads row 7 as it was before",
    "G-single-realtime": "w1 changes row 7 and ends; then w2 begins and reads row 7 as it was before (a stale read)",
    "G-single-predicate-process": "w1 inserts row 7, then counts the rows without it",
    "G-single-predicate-realtime": "w1 inserts row 7 and ends; then w2 begins and counts the rows without it",
    "G-nonadjacent-process": "w1 writes x; w2 reads the new x and the old y; w3 writes y, then reads the old x",
    "G-nonadjacent-realtime": "w1 writes x; w2 reads the new x and the old y; w3 writes y and ends; then w4 begins and reads the old x",
    "G-nonadjacent-predicate-process": "w1 inserts row 7; w2 counts the rows, with row 7 and without row 8; w3 inserts row 8, then counts the "
    "rows without row 7",
    "G-nonadjacent-predicate-realtime": "w1 inserts row 7; w2 counts the rows, with row 7 and without row 8; w3 inserts row 8 and ends; then "
    "w4 begins and counts the rows without row 7",
    "G2-item-process": "w1 writes y, then reads the old x; w2, beside both, reads the old y and writes x",
    "G2-item-realtime": "w1 writes y and ends; then w2 begins and reads the old x; w3, beside both, reads the old y and writes x",
    "G2-process": "w1 inserts row 7, then counts the rows without row 8; w2, beside both, counts the rows without row 7 and inserts row 8",
    "G2-realtime": "w1 inserts row 7 and ends; then w2 begins and counts the rows without row 8; w3, beside both, counts the rows without "
    "row 7 and inserts row 8",
}
"""Name of Adya's with the suffix of an order → an example that needs that order; the one of the name alone does not."""


def _named(name: str) -> Meaning | None:
    found, (one, many, headline) = _MEANINGS.get(name), _SAID.get(name, ("", "", ""))
    return (
        found if found is None else replace(found, counted=(one, many), headline=headline, rows=_IN_ROWS.get(name, ""))
    )


def meaning(name: str) -> Meaning | None:
    """What a name tells; None if no checker of icequake has it. A suffix of Adya's names is added to the sentence.

    >>> meaning("G2-item-realtime").sentence.endswith("one operation had ended before the other began).")
    True
    """
    found = _named(name)
    if found is not None or not name.startswith("G"):
        return found
    base, *suffixes = re.split("-(?=predicate|process|realtime)", name)
    found = _named(base)
    if found is None or not all(s in _SUFFIXES for s in suffixes):
        return None
    more = "; ".join(_SUFFIXES[s] for s in suffixes)
    if not more:
        return found
    sentence, example = f"{found.sentence.removesuffix('.')} ({more}).", _EXAMPLES.get(name, found.example)
    return replace(found, sentence=sentence, example=example)


def in_history(name: str) -> tuple[str, str] | None:
    """What a name says in the history of another system, and what to do there; None if none has it."""
    found = meaning(name)
    if found is None or name in OF_HISTORIES:
        return OF_HISTORIES.get(name)
    (base,) = without_suffixes([name])
    return found.sentence, OF_HISTORIES[base][1] if base in OF_HISTORIES else found.remedy


def in_words(name: str) -> str:
    """A name behind what it counts: ``acknowledged commit lost (lost-commit)``; the name alone if it counts nothing."""
    found = meaning(name)
    return f"{found.counted[0]} ({name})" if found is not None and found.counted[0] else name


def without_suffixes(names: Iterable[str]) -> list[str]:
    """The names, those of Adya's that differ only by a suffix once, in the order of the table; then those that nobody explains."""
    bases = dict.fromkeys(re.sub("(-predicate|-process|-realtime)+$", "", n) if n.startswith("G") else n for n in names)
    return [n for n in _MEANINGS if n in bases] + [n for n in bases if n not in _MEANINGS]
