"""The operations: for each kind, what a writer executes (SQL) and what it means (rows removed, rows added, result).

One class per kind holds both, so that the semantics exist only once: a writer runs :meth:`Kind.statements`, the
generator draws :meth:`Kind.arguments`, a checker replays :meth:`Kind.writeset`. Arguments are plain JSON values: they are
the ``value`` of the history's ``invoke`` event and, with the operation's id and the table's dimensions, determine everything.

Keys. A *shared* key is one that every writer draws from (``0 … keys-1``). An *own* key belongs to one writer only and lies in
a separate partition (negative partition values), so that no other writer's statement, by key, predicate or partition, ever
touches it. Operations that Iceberg commits as unvalidated appends although they read the table (INSERT … SELECT, MERGE with only
an insert clause) are serializable only on own keys; on shared keys they show a documented anomaly (apache/iceberg#12653).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from workloads.operations.keys import OWN_KEYS, Keys, own_key, part_of
from workloads.tables import COLUMNS, DELTA, ICEBERG, Row, State, TableFormatName, TableSpec

Arguments = dict[str, Any]

ROWS = ", ".join(COLUMNS)
EVERY_FORMAT: frozenset[TableFormatName] = frozenset((ICEBERG, DELTA))
STAGES = "write.wap.enabled"
"""The table property without which a commit cannot be staged (``spark.wap.id`` is then silently ignored)."""


class WriteSet(NamedTuple):
    """What an operation does to a state: equal rows repeated, never both in ``removed`` and ``added``."""

    removed: list[Row]
    added: list[Row]


Verb = Literal["insert", "update", "delete", "overwrite", "merge", "read", "maintenance", "alter"]
VERBS: tuple[Verb, ...] = get_args(Verb)
"""What an operation does, as an SQL verb; ``alter`` changes only the table's metadata."""
Column = Literal["val", "cnt", "log"]
Lost = Literal["snapshot", "ref", "aged ref", "schema", "spec", "property", "column"]
"""What an operation may remove from the table's metadata; ``ref``: a branch or tag other than main; ``aged ref``: one that has an age after
which it expires (``max-ref-age-ms``, or the table's ``history.expire.max-ref-age-ms``); ``column``: the one that its argument
``column`` names, from the current schema."""
Part = Literal["schema", "spec", "sort-order", "property", "ref", "location", "format-version", "statistics", "logs"]
"""A part of the table's metadata. ``ref``: branches and tags other than main; ``logs``: the entries that ``metadata-log`` and
``snapshot-log`` have from the version before."""
PARTS: frozenset[Part] = frozenset(get_args(Part))


class Touches(NamedTuple):
    """Which rows an operation reads or changes, according to its arguments.

    Attributes:
        ids: the ids that it names, in order.
        copied_from: the id whose rows it copies to ``ids``.
        predicate: partition and parity: it selects the rows of that partition whose counter, modulo 2, is the parity.
        parts: the partitions that it names or selects as a whole.
        whole: it selects all rows.
        only_absence: it only tests whether its ids exist.
    """

    ids: tuple[int, ...] = ()
    copied_from: int | None = None
    predicate: tuple[int, int] | None = None
    parts: frozenset[int] = frozenset()
    whole: bool = False
    only_absence: bool = False

    @property
    def named(self) -> tuple[int, ...]:
        """All ids that it names, the id that it copies from first."""
        return self.ids if self.copied_from is None else (self.copied_from, *self.ids)

    @property
    def among(self) -> frozenset[int] | None:
        """The partitions of which it may select any row, besides the ids that it names; None: all."""
        if self.whole:
            return None
        return self.parts if self.predicate is None else self.parts | {self.predicate[0]}


class ProcedureResult(NamedTuple):
    """What a procedure's result says that it did to the table. Sizes are in bytes; None: the result does not say.

    Attributes:
        removed_data, added_data, removed_bytes: data files that it replaced, and those that it made of them; the size of those replaced.
        removed_deletes, added_deletes, added_delete_bytes: delete files, or deletion vectors. A commit may remove more delete files
            than it says: Iceberg drops those that apply to nothing any more (``ManifestFilterManager``).
        replaced_manifests, created_manifests: as in the snapshot's summary.
        dropped_snapshots: snapshots that the table lists no more.
        deleted_files: files that it deleted because no snapshot that is left needs them.
        at_least: the table may have more of it: a commit of the procedure of which it got no answer is not in its result.
    """

    removed_data: int | None = None
    added_data: int | None = None
    removed_bytes: int | None = None
    removed_deletes: int | None = None
    added_deletes: int | None = None
    added_delete_bytes: int | None = None
    replaced_manifests: int | None = None
    created_manifests: int | None = None
    dropped_snapshots: int | None = None
    deleted_files: int | None = None
    at_least: bool = False

    @property
    def needs_snapshot(self) -> bool:
        """Whether it cannot have done so without making a snapshot."""
        made = (self.removed_data, self.added_data, self.removed_deletes, self.added_deletes)
        return any((*made, self.replaced_manifests, self.created_manifests))


NOTHING = Touches()
EVERYTHING = Touches(whole=True)


def named_ids(value: Arguments) -> Touches:
    """What an operation on the ids in ``ids`` touches."""
    return Touches(tuple(value["ids"]))


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement of an operation, or a Java action on the table that ``sql`` names.

    ``{table}`` stands for the qualified name, ``{identifier}`` for the name without catalog (as procedures require).
    ``bind`` names the first column of the last row returned, for later statements of the operation (``{snapshot}``).
    ``result``: its rows are the operation's result. ``{older_than}`` is bound by the orchestrator, which first reads the
    table log (expiry deletes files that the log has not read yet). ``settings``: properties of the session while it runs; they are
    restored afterwards, also after a failure. ``action``: its name and its arguments, as ``harness.writers.session`` defines them.
    """

    sql: str
    bind: str | None = None
    result: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    action: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Draw:
    """What :meth:`Kind.arguments` may use: the writer's own seeded stream, and the workload's keys."""

    rng: Random
    keys: Keys
    writer: int
    table: TableSpec
    own: bool
    options: Mapping[str, Any]
    others: tuple[str, ...] = ()
    """Tables that an operation on two tables may use besides ``table``."""

    def ids(self, n: int = 1) -> list[int]:
        """``n`` distinct keys, ascending: own keys if the operation uses own keys."""
        if self.own:
            return sorted(own_key(self.writer, k) for k in self.rng.sample(range(OWN_KEYS), min(n, OWN_KEYS)))
        return self.keys.draw(self.rng, n)

    def some_ids(self) -> list[int]:
        """1 … ``rows`` (option, default 3) distinct keys."""
        return self.ids(self.rng.randint(1, int(self.options.get("rows", 3))))


def id_list(ids: Iterable[int]) -> str:
    return ", ".join(str(int(i)) for i in ids)


def by_key(ids: Sequence[int]) -> str:
    """The condition of a WHERE that selects the rows of these ids."""
    return f"id = {int(ids[0])}" if len(ids) == 1 else f"id IN ({id_list(ids)})"


def and_part(value: Arguments, table: TableSpec, column: str = "part") -> str:
    """`` AND part = …`` with the partitions of the operation's ids, if its argument ``with_part`` is true; else nothing.

    A row's partition follows from its id and is never updated, so this changes what Iceberg can leave out and not what the operation means.
    """
    if not value.get("with_part"):
        return ""
    parts = sorted({part_of(i, table) for i in value["ids"]})
    return f" AND {column} = {parts[0]}" if len(parts) == 1 else f" AND {column} IN ({id_list(parts)})"


def new_row(id: int, op: str, table: TableSpec) -> Row:
    """The row that an insert of ``id`` by operation ``op`` makes."""
    return Row(id, op, 0, op, part_of(id, table))


def new_rows(value: Arguments, op: str, table: TableSpec) -> list[Row]:
    """The rows that ``op`` makes for the ids that it names."""
    return [new_row(i, op, table) for i in value["ids"]]


def ancestor(back: int) -> Statement:
    """Binds ``{snapshot}`` to main's ancestor so many snapshots before, or the oldest one."""
    return Statement(
        "SELECT snapshot_id FROM {table}.history WHERE is_current_ancestor GROUP BY snapshot_id "
        f"ORDER BY max(made_current_at) DESC LIMIT {back + 1}",
        bind="snapshot",
    )


def row_values(rows: Iterable[Row]) -> str:
    return ", ".join(f"({r.id}L, '{r.val}', {r.cnt}L, '{r.log}', {r.part})" for r in rows)


class Kind(ABC):
    """One kind of operation. Stateless: all methods are functions of their arguments."""

    name: ClassVar[str]
    verb: ClassVar[Verb]
    writes: ClassVar[bool] = True
    """Whether it can leave a snapshot."""
    commits: ClassVar[bool] = True
    """Whether it can change the table at all, its metadata included, so that an error may leave its effect unknown."""
    changes_rows: ClassVar[bool] = True
    """Whether it can change the table's rows; False for reads and maintenance."""
    sets_back: ClassVar[bool] = False
    """Whether it moves main back to an earlier snapshot and so discards later ones on purpose. Its meaning depends on more than the state."""
    restores: ClassVar[bool] = False
    """Whether its commit makes the rows those of an earlier version, which its result names. Who knows that version gives :meth:`writeset`
    its rows, as the argument ``rows``."""
    replaces: ClassVar[bool] = False
    """Whether its snapshot has no parent and replaces the whole content."""
    overwrites: ClassVar[bool] = False
    """Whether a row that it adds is new, rather than a changed version of a removed row with the same id."""
    blind_append: ClassVar[bool] = False
    """Whether Iceberg commits it as an append that validates nothing although it read the table."""
    equality_deletes: ClassVar[bool] = False
    """Whether it writes equality delete files, which no statement of Spark does."""
    means_the_same_everywhere: ClassVar[bool] = False
    """Whether its effect is the same in every state, because it reads nothing."""
    in_spark: ClassVar[bool] = True
    """Whether Spark can execute it; if not, it has no statements, and only other engines' writers get it (``workloads.engines``)."""
    two_tables: ClassVar[bool] = False
    """Whether it also uses a second table, named by its argument ``into`` or ``and``."""
    by_transaction: ClassVar[bool] = False
    """Whether it commits to its one table by ``POST /v1/transactions/commit``, so that it needs a REST catalog that has this endpoint."""
    travels: ClassVar[bool] = False
    """Whether it reads an older snapshot: ``{"snapshot": id, "rows": [...]}`` is its result."""
    signs: ClassVar[bool] = False
    """Whether every row that it changes or makes has the operation's id in ``val`` or ``log`` afterwards, and it removes no row."""
    takes_away: ClassVar[frozenset[Lost]] = frozenset()
    """What it may remove from the table's metadata. Anything else that disappears is reported as lost."""
    may_change: ClassVar[frozenset[Part] | None] = None
    """What it may change in the table's metadata besides what it takes away and what its snapshot brings (the snapshot itself, main, the
    counters, a line of each log). None: nothing, or anything if its verb is ``alter``. A change by anybody else is reported."""
    deletes_files: ClassVar[bool] = False
    """Whether its Spark job deletes files, so that an error of that job does not mean that it had no effect."""
    needs_captured_log: ClassVar[bool] = False
    """Whether it deletes files that the table log has not read yet, so the log is read first; such a kind binds ``{older_than}``."""
    formats: ClassVar[frozenset[TableFormatName]] = frozenset((ICEBERG,))
    """The formats of tables that it can be executed on; it means the same on each."""
    instead: ClassVar[Mapping[TableFormatName, str]] = {}
    """The name of the kind that does for a table of another format what it does for its own."""
    options: ClassVar[tuple[str, ...]] = ()
    """Option names that it accepts in the workload file besides ``weight``, ``keys`` and ``tables``."""

    counts: ClassVar[int] = 0
    """Its result is one row of at least so many counts or sizes, so that none can be negative; 0: it is something else."""
    by_facts: ClassVar[bool] = False
    """Whether :meth:`touches` and the three facts below define its whole meaning (a read returns the rows that it touches).

    If so, tables of any length can be judged without :meth:`writeset` (``checkers.columns``). It is not inherited, because a
    derived class may mean something else.
    """
    sets: ClassVar[frozenset[Column]] = frozenset()
    """What it writes to the rows that it touches: ``val`` becomes the operation's id, ``cnt`` one more, ``log`` gets that id appended."""
    deletes: ClassVar[bool] = False
    """Whether it removes the rows that it touches."""
    inserts: ClassVar[Literal["nothing", "new", "absent", "copies"]] = "nothing"
    """Which rows it makes: one for each of its ids, only for absent ids, or copies of the rows that it copies from."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.by_facts = vars(cls).get("by_facts", False)

    @property
    def goes_back(self) -> bool:
        """Whether it takes the table to an earlier state, so that its meaning depends on more than the state: it sets back, or restores."""
        return self.sets_back or self.restores

    @property
    def changes(self) -> frozenset[Part]:
        """What it may change in the table's metadata: :attr:`may_change`, or by its verb."""
        if self.may_change is not None:
            return self.may_change
        return PARTS if self.verb == "alter" else frozenset()

    @abstractmethod
    def arguments(self, draw: Draw) -> Arguments:
        """Draw the arguments of one operation. Everything random comes from ``draw.rng``."""

    @abstractmethod
    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        """The SQL to run, in order; the last one that writes is the operation's commit. Empty if Spark cannot execute it."""

    @abstractmethod
    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        """What it removes from and adds to ``state`` (which it must not change), net."""

    @abstractmethod
    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        """Which rows it reads or changes. Its effect on an id depends only on the rows of that id and of ``copied_from``.

        An operation on several ids has them in its argument ``ids``, which is filtered when only some ids are examined.
        """

    def expected(self, state: State, value: Arguments) -> list[Row] | None:
        """For reads: the rows it must return in ``state``, sorted. None for operations that return none."""
        return None

    def second(self, value: Arguments) -> str | None:
        """The second table that it uses; None for an operation on one table."""
        return None

    def seen_from(self, value: Arguments, result: Any, second: bool) -> tuple[str, Arguments, Any]:
        """An operation on two tables as one of them sees it: kind, arguments and result. ``second``: as the second one sees it."""
        return self.name, value, result

    def snapshots_read(self, value: Arguments, result: Any, second: bool) -> tuple[int, ...]:
        """The snapshots of one of its tables that its result names as the current ones, in the order in which it saw them; the first one
        is that of its rows. Empty if it names none. ``second``: of its second table.
        """
        return ()

    def claims(self, value: Arguments, result: Any) -> ProcedureResult | None:
        """What the result of a procedure says that it did; None if it says nothing, or has another form."""
        return None

    def understands(self, result: Any) -> bool:
        """Whether a result has the form that the kind's procedure returns, by :attr:`counts`; else any result has it."""
        return not self.counts or whole_numbers(result, least=self.counts) is not None

    def at_commit(self, table: TableSpec) -> bool:
        """Whether it is evaluated on the snapshot that it commits on, at every isolation level, because it scans nothing before."""
        return False


def numbers_of(result: Any, *, least: int) -> tuple[int, ...] | None:
    """The only row of a procedure's result, if it has at least ``least`` columns and all of them are counts; None otherwise."""
    row = whole_numbers(result, least=least)
    return row if row is not None and min(row) >= 0 else None


def whole_numbers(result: Any, *, least: int) -> tuple[int, ...] | None:
    """The only row of a procedure's result, if it has at least ``least`` columns and all of them are integers; None otherwise."""
    if not isinstance(result, list) or len(result) != 1 or not isinstance(result[0], list | tuple):
        return None
    row = tuple(result[0])
    return row if len(row) >= least and all(type(n) is int for n in row) else None


def net(removed: Iterable[Row], added: Iterable[Row]) -> WriteSet:
    removed, added = list(removed), list(added)
    if set(removed).isdisjoint(added):  # nearly always, and counting takes longer than all the rest
        return WriteSet(sorted(removed), sorted(added))
    out, plus = Counter(removed), Counter(added)
    return WriteSet(sorted((out - plus).elements()), sorted((plus - out).elements()))
