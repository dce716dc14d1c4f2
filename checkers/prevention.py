"""What keeps an anomaly from happening again, and what follows for the table: each advice once, for all names of which it is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Prevention:
    """What to do that an anomaly does not happen again.

    Attributes:
        text: the advice.
        repair: what to do now with ``{tables}``, whatever the run; empty: that depends on the run (``checkers.judge.repair``).
        apart: the advice if the operations did not run at the same time; empty: :attr:`text`.
        by_two: whether two operations do it that run at the same time, and no setting keeps them from it at once.
        keeps_apart: whether :attr:`text` says already that these two are not to run at once.
    """

    text: str
    repair: str = ""
    apart: str = ""
    by_two: bool = False
    keeps_apart: bool = False


NOTHING_WRONG: Final = (
    "Nothing is to be stopped or copied: this made no row of {tables} wrong. Trust a query, not what the card names as wrong, and look at that "
    "before expiry, a rewrite or another engine uses it."
)
"""In place of a copy where a file's or a snapshot's metadata is wrong, and no row."""
_APART = (
    "The operations ran one after the other, so keeping them apart or a stricter isolation level does not help: let one engine do both, "
    "and report the statements of this card to the maker of the engine."
)

GUARD: Final = Prevention(
    "Use a catalog that swaps the pointer only on the version that was read (docs/catalogs), or a lock that does not expire.",
    by_two=True,
)
KEEPS: Final = Prevention(
    "Use a catalog that stores a commit for good before it answers, and whose servers all read what the others stored."
)
OR_KEYS: Final = ", or one that honours Idempotency-Key"
"""Of the advice against lost replies what only a REST catalog can do."""
REPLY: Final = Prevention(
    f"Let no proxy answer in place of the catalog, and use a catalog whose client looks for its commit before it gives up{OR_KEYS}; "
    "repeat a write only if the table does not have it. `fault` on the card names the reply that was lost."
)
KEYS: Final = (
    "Neither Iceberg's REST test fixture 1.11.0 nor Nessie 0.99.0 offers Idempotency-Key; no other catalog was asked."
)
"""Behind an advice that asks for a catalog with idempotency keys: what `icequake certify` got for an answer (docs/certify.md)."""
SERIALIZABLE: Final = Prevention(
    "Set `write.delete.isolation-level` (for DELETE), `write.update.isolation-level` (UPDATE) and `write.merge.isolation-level` "
    "(MERGE) to `serializable`, or keep these operations from running at once.",
    apart=_APART,
    keeps_apart=True,
)
VALIDATE: Final = Prevention(
    "Do not run these two kinds at once until the engine validates them; the card has the statements and the releases.",
    apart=_APART,
    by_two=True,
    keeps_apart=True,
)
REBUILD: Final = Prevention(
    "Report the statements of this card to the maker of the engine, and let another engine do that until it is mended.",
    repair="Rewrite the rows that are wrong, which the card names; keep the old snapshots and metadata files until that is done.",
)
DELETED_FILE: Final = Prevention(
    "Find out who deleted the file: the proxy's log has the request if it came by one, the store's own log the others.",
    repair=(
        "If you have a backup (a store that keeps versions is one), restore the file. If you have none: go back to the last state all of whose "
        "files are there if main cannot be read without it; do not go back if only old snapshots or the metadata log name it."
    ),
)
REPORT: Final = Prevention(
    "Report it to whoever made the later of the two versions, and let another client commit to the table until it is mended.",
    repair="Compare the two versions that the card names; repair with a commit by another client before expiry or a rewrite trusts them.",
)
READER: Final = Prevention("Turn the reader's cache off, or ask the catalog again before each read.")
FORMAT: Final = Prevention(
    "Let another engine write to the table until the engine that wrote the files is mended, and report it to its maker.",
    repair=(
        "Copy {tables} with an engine that follows the specification before anybody writes on: make a table of the same schema, partitions and "
        "properties, `INSERT INTO {table}_copy SELECT * FROM {table}`, compare the counts, swap the names; the old snapshots stay wrong."
    ),
)
LOG: Final = Prevention(
    "Report it to the maker of the engine that wrote the versions, and let another one write to the table until it is mended.",
    repair="Compare the versions that the card names; set right what is wrong by a commit of another client.",
)
LOG_STORE: Final = Prevention(
    "Use a log store that lets one writer make a version (docs/formats.md), for every client of the table."
)
ISOLATION: Final = Prevention(
    "The level that the cycle breaks is on the card: raise the level, or order these operations from outside."
)
