"""The operations: for each kind, what a writer executes (SQL) and what it means (rows removed, rows added, result).

One class a kind holds both, so that nobody keeps a second copy of the semantics: a writer runs :meth:`Kind.statements`, the
generator draws :meth:`Kind.arguments`, a checker replays :meth:`Kind.writeset`. Arguments are plain JSON values: they are
the ``value`` of the history's ``invoke`` event and, with the operation's id and the table's dimensions, determine everything.

Keys. A *shared* key is one that every writer draws from (``0 … keys-1``). An *own* key belongs to one writer alone and lies in
a partition of its own (negative partition values), so that no other writer's statement, by key, predicate or partition, ever
touches it. Operations that Iceberg commits as unvalidated appends though they read the table (INSERT … SELECT, MERGE with only
an insert clause) are serializable only on own keys; on shared keys they show a documented anomaly (apache/iceberg#12653).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, NamedTuple

from workloads.tables import COLUMNS, Row, State, TableSpec

Arguments = dict[str, Any]

ROWS = ", ".join(COLUMNS)
STAGES = "write.wap.enabled"
"""The table property without which a commit cannot be staged (``spark.wap.id`` is then passed over in silence)."""


class WriteSet(NamedTuple):
    """What an operation does to a state: equal rows repeated, never both in ``removed`` and ``added``."""

    removed: list[Row]
    added: list[Row]


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement of an operation, or a Java action on the table that ``sql`` names.

    ``{table}`` stands for the qualified name, ``{identifier}`` for the name without catalog (procedures want it so).
    ``bind`` names the first column of the last row returned, for later statements of the operation (``{snapshot}``).
    ``result``: its rows are the operation's result. ``{older_than}`` is bound by the orchestrator, which first secures the
    table log (expiry deletes files that the log has yet to read). ``settings``: properties of the session while it runs; they are
    put back afterwards, also when it fails. ``action``: its name and its arguments, as ``harness.writers.session`` knows them.
    """

    sql: str
    bind: str | None = None
    result: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    action: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Keys:
    """How keys are drawn: ``space`` shared keys, Zipf exponent ``skew`` (0 = uniform), ``own_share`` of draws on own keys."""

    space: int
    skew: float = 0.0

    def draw(self, rng: Random, n: int = 1) -> list[int]:
        """``n`` distinct shared keys (fewer when the space is smaller), ascending."""
        n = min(n, self.space)
        if not self.skew:
            return sorted(rng.sample(range(self.space), n))
        weights = [1.0 / (k + 1) ** self.skew for k in range(self.space)]
        drawn: set[int] = set()
        while len(drawn) < n:  # bounded: a drawn key's weight becomes 0
            k = rng.choices(range(self.space), weights)[0]
            weights[k] = 0.0
            drawn.add(k)
        return sorted(drawn)


OWN_KEYS = 8
"""Own keys a writer has."""


def own_key(writer: int, n: int) -> int:
    """The ``n``-th (0 … OWN_KEYS-1) own key of a writer: negative, so never a shared key."""
    return -(writer * OWN_KEYS + n + 1)


def owner(id: int) -> int | None:
    """The writer whose own key this is; None for a shared key."""
    return None if id >= 0 else (-id - 1) // OWN_KEYS


def part_of(id: int, table: TableSpec) -> int:
    """The partition value of a key: ``id mod partitions`` for shared keys, ``-1 - writer`` for own ones."""
    writer = owner(id)
    return table.part(id) if writer is None else -1 - writer


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
    """Tables that an operation on two tables may take beside ``table``."""

    def ids(self, n: int = 1) -> list[int]:
        """``n`` distinct keys, ascending: own ones when the operation is to use own keys."""
        if self.own:
            return sorted(own_key(self.writer, k) for k in self.rng.sample(range(OWN_KEYS), min(n, OWN_KEYS)))
        return self.keys.draw(self.rng, n)

    def some_ids(self) -> list[int]:
        """1 … ``rows`` (option, default 3) distinct keys."""
        return self.ids(self.rng.randint(1, int(self.options.get("rows", 3))))


def _in(ids: Iterable[int]) -> str:
    return ", ".join(str(int(i)) for i in ids)


def _values(ids: Sequence[int], table: TableSpec) -> str:
    return ", ".join(f"({int(i)}L, {part_of(i, table)})" for i in ids)


def new_row(id: int, op: str, table: TableSpec) -> Row:
    """The row that an insert of ``id`` by operation ``op`` makes."""
    return Row(id, op, 0, op, part_of(id, table))


def new_rows(value: Arguments, op: str, table: TableSpec) -> list[Row]:
    """The rows that ``op`` makes of the ids that it names."""
    return [new_row(i, op, table) for i in value["ids"]]


def _rows(rows: Iterable[Row]) -> str:
    return ", ".join(f"({r.id}L, '{r.val}', {r.cnt}L, '{r.log}', {r.part})" for r in rows)


class Kind(ABC):
    """One kind of operation. Stateless: all methods are functions of their arguments."""

    name: ClassVar[str]
    writes: ClassVar[bool] = True
    """Whether it can leave a snapshot."""
    commits: ClassVar[bool] = True
    """Whether it can change the table at all, its metadata included, so that an error may leave its effect unknown."""
    changes_rows: ClassVar[bool] = True
    """Whether it can change the table's rows; False for reads and maintenance."""
    sets_back: ClassVar[bool] = False
    """Whether it takes main back to a snapshot before: what came after is gone on purpose. No state tells what it means."""
    replaces: ClassVar[bool] = False
    """Whether its snapshot has no parent, and takes the place of all there was."""
    overwrites: ClassVar[bool] = False
    """Whether a row that it adds is a new one, and not what it made of a row of that id which it removed."""
    blind_append: ClassVar[bool] = False
    """Whether Iceberg commits it as an append that validates nothing although it read the table."""
    two_tables: ClassVar[bool] = False
    """Whether it is about a second table, too: the one that its argument ``into`` or ``and`` names."""
    options: ClassVar[tuple[str, ...]] = ()
    """Option names it takes in the workload file beside ``weight``, ``keys`` and ``tables``."""

    @abstractmethod
    def arguments(self, draw: Draw) -> Arguments:
        """Draw the arguments of one operation. Everything random comes from ``draw.rng``."""

    @abstractmethod
    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        """The SQL to run, in order; the last one that writes is the operation's commit."""

    @abstractmethod
    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        """What it removes from and adds to ``state`` (which it must not change), net."""

    def expected(self, state: State, value: Arguments) -> list[Row] | None:
        """For reads: the rows it must return in ``state``, sorted. None for operations that return none."""
        return None

    def second(self, value: Arguments) -> str | None:
        """The second table that it is about; None for an operation on one."""
        return None

    def part(self, value: Arguments, result: Any, second: bool) -> tuple[str, Arguments, Any]:
        """What an operation on two tables is to one of them alone: kind, arguments and result. ``second``: to the second one."""
        return self.name, value, result

    def at_commit(self, table: TableSpec) -> bool:
        """Whether it means what it means at the state that it commits on, whatever the isolation level: it scans nothing before."""
        return False

    def whole_parts(self, value: Arguments, table: TableSpec) -> frozenset[int] | None:
        """The partitions of which it takes every row out; None: all there are."""
        return frozenset()


def _net(removed: Iterable[Row], added: Iterable[Row]) -> WriteSet:
    out, plus = Counter(removed), Counter(added)
    return WriteSet(sorted((out - plus).elements()), sorted((plus - out).elements()))


# --- inserts ----------------------------------------------------------------------------------------------------------


class Insert(Kind):
    """``INSERT INTO … VALUES``: new rows, also of keys that are there already (Iceberg knows no unique keys)."""

    name = "insert"
    options = ("rows",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.some_ids()}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"INSERT INTO {{table}} ({ROWS}) VALUES {_rows(new_rows(value, op, table))}")]

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], sorted(new_rows(value, op, table)))


class InsertSelect(Kind):
    """``INSERT … SELECT`` from the table itself: copies one key's rows to another key. Commits as an unvalidated append."""

    name = "insert-select"
    blind_append = True

    def arguments(self, draw: Draw) -> Arguments:
        ids = draw.ids(2)
        draw.rng.shuffle(ids)
        return {"from": ids[0], "to": ids[-1]}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        to = int(value["to"])
        return [
            Statement(
                f"INSERT INTO {{table}} ({ROWS}) SELECT {to}L, '{op}', cnt, concat(log, ',{op}'), {part_of(to, table)} "
                f"FROM {{table}} WHERE id = {int(value['from'])}"
            )
        ]

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        to = value["to"]
        added = [Row(to, op, r.cnt, f"{r.log},{op}", part_of(to, table)) for r in state.by_id(value["from"])]
        return WriteSet([], sorted(added))


# --- updates ----------------------------------------------------------------------------------------------------------


class _Update(Kind):
    """``UPDATE … SET``; subclasses say what is set and which rows it is set on."""

    assignment: ClassVar[str]

    @staticmethod
    @abstractmethod
    def updated(row: Row, op: str) -> Row:
        """The row after the update."""

    def matching(self, state: State, value: Arguments) -> list[Row]:
        """The rows of ``state`` that the statement's WHERE accepts."""
        return [r for i in value["ids"] for r in state.by_id(i)]

    def where(self, value: Arguments) -> str:
        """The statement's WHERE condition."""
        ids = value["ids"]
        return f"id = {int(ids[0])}" if len(ids) == 1 else f"id IN ({_in(ids)})"

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.ids(1)}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"UPDATE {{table}} SET {self.assignment.format(op=op)} WHERE {self.where(value)}")]

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        old = self.matching(state, value)
        return _net(old, [self.updated(r, op) for r in old])


class UpdateRegister(_Update):
    """Sets the register of one key to a value that nobody else writes: the operation's id."""

    name = "update-register"
    assignment = "val = '{op}'"

    @staticmethod
    def updated(row: Row, op: str) -> Row:
        return row._replace(val=op)


class UpdateCounter(_Update):
    """Increments the counter of one key: a lost update leaves it too low."""

    name = "update-counter"
    assignment = "cnt = cnt + 1"

    @staticmethod
    def updated(row: Row, op: str) -> Row:
        return row._replace(cnt=row.cnt + 1)


class UpdateAppend(_Update):
    """Appends the operation's id to the list of one key: the list shows the order of all appends that it survived."""

    name = "update-append"
    assignment = "log = concat(log, ',{op}')"

    @staticmethod
    def updated(row: Row, op: str) -> Row:
        return row._replace(log=f"{row.log},{op}")


class _ByPredicate(Kind):
    """Rows chosen by a condition on a counter's parity in one partition, so that what matches depends on other writers."""

    def arguments(self, draw: Draw) -> Arguments:
        return {"part": draw.rng.randrange(draw.table.partitions), "parity": draw.rng.randrange(2)}

    def where(self, value: Arguments) -> str:
        return f"part = {int(value['part'])} AND pmod(cnt, 2) = {int(value['parity'])}"

    def matching(self, state: State, value: Arguments) -> list[Row]:
        return [r for r in state if r.part == value["part"] and r.cnt % 2 == value["parity"]]


class UpdateRegisterWhere(_ByPredicate, UpdateRegister):
    """Sets the register of all rows that a predicate selects."""

    name = "update-register-where"


class UpdateCounterWhere(_ByPredicate, UpdateCounter):
    """Increments the counter of all rows that a predicate on that counter selects."""

    name = "update-counter-where"


class UpdateAppendWhere(_ByPredicate, UpdateAppend):
    """Appends to the list of all rows that a predicate selects."""

    name = "update-append-where"


# --- deletes ----------------------------------------------------------------------------------------------------------


class Delete(Kind):
    """``DELETE`` by key."""

    name = "delete"

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.ids(1)}

    def where(self, value: Arguments) -> str:
        """The statement's WHERE condition."""
        return f"id = {int(value['ids'][0])}"

    def matching(self, state: State, value: Arguments) -> list[Row]:
        """The rows of ``state`` that the statement's WHERE accepts."""
        return [r for i in value["ids"] for r in state.by_id(i)]

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"DELETE FROM {{table}} WHERE {self.where(value)}")]

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet(sorted(self.matching(state, value)), [])


class DeleteWhere(_ByPredicate, Delete):
    """``DELETE`` by a predicate that depends on what other writers did."""

    name = "delete-where"


class DeletePartition(Delete):
    """``DELETE`` of a whole partition: on a partitioned table a metadata delete, evaluated against the base it commits on."""

    name = "delete-partition"

    def arguments(self, draw: Draw) -> Arguments:
        return {"part": draw.rng.randrange(draw.table.partitions)}

    def where(self, value: Arguments) -> str:
        return f"part = {int(value['part'])}"

    def matching(self, state: State, value: Arguments) -> list[Row]:
        return [r for r in state if r.part == value["part"]]

    def at_commit(self, table: TableSpec) -> bool:
        return table.partitioned

    def whole_parts(self, value: Arguments, table: TableSpec) -> frozenset[int] | None:
        return frozenset([value["part"]])


# --- overwrites -------------------------------------------------------------------------------------------------------


class OverwritePartitions(Kind):
    """``INSERT OVERWRITE`` in dynamic mode: new rows in place of all that is in their partitions, or in a table without partitions.

    Iceberg validates nothing by default and takes the files to replace from the base that each attempt commits on, so it takes
    effect there, like a DELETE of a whole partition. On a table without partitions it takes the own keys of all writers, too.
    """

    name = "overwrite-partitions"
    overwrites = True
    options = ("rows",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.some_ids()}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        rows = _rows(new_rows(value, op, table))
        mode = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
        return [Statement(f"INSERT OVERWRITE {{table}} ({ROWS}) VALUES {rows}", settings=mode)]

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        parts = self.whole_parts(value, table)
        return _net([r for r in state if parts is None or r.part in parts], new_rows(value, op, table))

    def at_commit(self, table: TableSpec) -> bool:
        return True

    def whole_parts(self, value: Arguments, table: TableSpec) -> frozenset[int] | None:
        return frozenset(part_of(i, table) for i in value["ids"]) if table.partitioned else None


class OverwriteWhere(OverwritePartitions):
    """``INSERT OVERWRITE … PARTITION (part = …)``: new rows in place of one partition, or of all rows of a table without partitions.

    The partition may be left with no row at all: ``ids`` may be empty.
    """

    name = "overwrite-where"

    def arguments(self, draw: Draw) -> Arguments:
        ids = draw.some_ids()
        part = part_of(draw.rng.choice(ids), draw.table)
        return {"part": part, "ids": [i for i in ids if part_of(i, draw.table) == part]}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        rows, part = new_rows(value, op, table), int(value["part"])
        if any(r.part != part for r in rows):
            raise ValueError(f"ids must be in partition {part}")
        mode = {"spark.sql.sources.partitionOverwriteMode": "static"}
        partition = f" PARTITION (part = {part})" if table.partitioned else ""
        columns = ", ".join(c for c in COLUMNS if c != "part" or not table.partitioned)
        source = f"VALUES {_rows(rows)} AS v({ROWS})" if rows else "{table}"
        nothing = "" if rows else " WHERE false"
        sql = f"INSERT OVERWRITE {{table}}{partition} ({columns}) SELECT {columns} FROM {source}{nothing}"
        return [Statement(sql, settings=mode)]

    def whole_parts(self, value: Arguments, table: TableSpec) -> frozenset[int] | None:
        return frozenset([value["part"]]) if table.partitioned else None


# --- merges -----------------------------------------------------------------------------------------------------------


class _Merge(Kind):
    """``MERGE`` from a list of keys; subclasses say what happens to matched and to not matched ones."""

    clauses: ClassVar[str]
    options = ("rows",)
    inserts: ClassVar[bool] = False
    updates: ClassVar[bool] = False
    deletes: ClassVar[bool] = False

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.some_ids()}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        sql = (
            f"MERGE INTO {{table}} t USING (SELECT * FROM VALUES {_values(value['ids'], table)} AS v(id, part)) s "
            f"ON t.id = s.id"
        )
        if self.updates:
            sql += f" WHEN MATCHED THEN UPDATE SET val = '{op}', cnt = t.cnt + 1, log = concat(t.log, ',{op}')"
        if self.deletes:
            sql += " WHEN MATCHED THEN DELETE"
        if self.inserts:
            sql += f" WHEN NOT MATCHED THEN INSERT (id, val, cnt, log, part) VALUES (s.id, '{op}', 0L, '{op}', s.part)"
        return [Statement(sql)]

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        removed: list[Row] = []
        added: list[Row] = []
        for i in value["ids"]:
            rows = state.by_id(i)
            if rows and (self.updates or self.deletes):
                removed += rows
                if self.updates:
                    added += [Row(r.id, op, r.cnt + 1, f"{r.log},{op}", r.part) for r in rows]
            if not rows and self.inserts:
                added.append(new_row(i, op, table))
        return _net(removed, added)


class MergeUpsert(_Merge):
    """Updates the keys that are there, inserts the others."""

    name = "merge-upsert"
    updates = True
    inserts = True


class MergeInsert(_Merge):
    """Inserts the keys that are not there. Commits as an unvalidated append (apache/iceberg#12653)."""

    name = "merge-insert"
    inserts = True
    blind_append = True


class MergeUpdate(_Merge):
    """Updates the keys that are there."""

    name = "merge-update"
    updates = True


class MergeDelete(_Merge):
    """Deletes the keys that are there."""

    name = "merge-delete"
    deletes = True


# --- reads ------------------------------------------------------------------------------------------------------------


class Read(Kind):
    """Reads the whole table."""

    name = "read"
    writes = False
    commits = False
    changes_rows = False

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"SELECT {ROWS} FROM {{table}}", result=True)]

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])

    def expected(self, state: State, value: Arguments) -> list[Row] | None:
        return state.rows()


class ReadKey(Read):
    """Reads the rows of one key."""

    name = "read-key"

    def arguments(self, draw: Draw) -> Arguments:
        return {"id": draw.ids(1)[0]}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"SELECT {ROWS} FROM {{table}} WHERE id = {int(value['id'])}", result=True)]

    def expected(self, state: State, value: Arguments) -> list[Row] | None:
        return state.by_id(value["id"])


class ReadSnapshot(Read):
    """Time travel: reads the whole table as of the ``back``-th snapshot before the newest one its writer can see.

    The result is ``{"snapshot": id, "rows": [...]}``: the snapshot that was asked for, and its rows.
    """

    name = "read-snapshot"
    options = ("back",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"back": draw.rng.randint(0, int(draw.options.get("back", 5)))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [
            Statement(
                "SELECT snapshot_id FROM {table}.history WHERE is_current_ancestor "
                f"ORDER BY made_current_at DESC LIMIT {int(value['back']) + 1}",
                bind="snapshot",
            ),
            Statement(f"SELECT {ROWS} FROM {{table}} VERSION AS OF {{snapshot}}", result=True),
        ]


# --- two tables -------------------------------------------------------------------------------------------------------


class _TwoTables(Kind):
    """An operation on its own table and on the one that its argument :attr:`names` says."""

    two_tables = True
    names: ClassVar[str]

    def second(self, value: Arguments) -> str | None:
        return str(value[self.names])

    def other(self, draw: Draw) -> str:
        """Draw the second table."""
        return draw.rng.choice(draw.others) if draw.others else draw.table.name

    def qualified(self, value: Arguments) -> str:
        """The second table's name in a statement."""
        return f"{{catalog}}.{{namespace}}.{_table(value[self.names])}"


class Transfer(_TwoTables):
    """Takes ``amount`` off the counter of a key in its own table and adds it to that of the same key in the table ``into``; both or neither.

    Both rows get the operation's id appended to their lists, so that a plain reader sees which transfers a row has. Where the catalog can
    commit to several tables at once it is one transaction; where it cannot, two statements, one after the other (``harness.writers.two_tables``).
    The result says which. The tables need the property ``write.wap.enabled``, for what is committed together is staged before.
    """

    name = "transfer"
    names = "into"

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.ids(1), "into": self.other(draw), "amount": draw.rng.randint(1, 9)}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        amount, where = int(value["amount"]), f"id IN ({_in(value['ids'])})"
        signs = (("{table}", "-"), (self.qualified(value), "+"))
        parts = [
            [into, f"UPDATE {{{{at}}}} SET cnt = cnt {sign} {amount}, log = concat(log, ',{op}') WHERE {where}"]
            for into, sign in signs
        ]
        action = {"name": "transfer", "op": op, "parts": parts, "needs": STAGES}
        return [Statement("{table}", result=True, action=action)]

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        more = value["amount"] if table.name == value["into"] else -value["amount"]
        old = [r for i in value["ids"] for r in state.by_id(i)]
        return _net(old, [r._replace(cnt=r.cnt + more, log=f"{r.log},{op}") for r in old])


class ReadBoth(_TwoTables):
    """Reads its own table and the table ``and``, each at the snapshot that it had when it was asked.

    Two tables cannot be read at one moment. So the reader asks its own table for its snapshot, then the other, then its own again: when the
    answer is the same, both snapshots were current at one moment. The result is ``{"first": id, "second": id, "again": id, "rows": [[side,
    ...], ...]}``, where side 0 is its own table, 1 the other. To each table alone it is a ``read``.
    """

    name = "read-both"
    names = "and"
    writes = False
    commits = False
    changes_rows = False

    def arguments(self, draw: Draw) -> Arguments:
        return {"and": self.other(draw)}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        both = self.qualified(value)
        ask = {"name": "current-snapshot"}
        return [
            Statement("{table}", bind="first", action=ask),
            Statement(both, bind="second", action=ask),
            Statement("{table}", bind="again", action=ask),
            Statement(
                f"SELECT 0 AS side, {ROWS} FROM {{table}} VERSION AS OF {{first}} UNION ALL "
                f"SELECT 1 AS side, {ROWS} FROM {both} VERSION AS OF {{second}}",
                result=True,
            ),
        ]

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])

    def part(self, value: Arguments, result: Any, second: bool) -> tuple[str, Arguments, Any]:
        rows = result.get("rows") if isinstance(result, Mapping) else None
        if isinstance(rows, list) and all(isinstance(r, list | tuple) and r for r in rows):
            rows = [list(r[1:]) for r in rows if r[0] == int(second)]
        return "read", {}, rows


# --- maintenance ------------------------------------------------------------------------------------------------------


class _Maintenance(Kind):
    """A procedure that must not change any row."""

    changes_rows = False

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])


class RewriteDataFiles(_Maintenance):
    """Compaction by the ``rewrite_data_files`` procedure: bin-pack or sort, all files or those that qualify."""

    name = "rewrite-data-files"
    options = ("strategy", "partial_progress")

    def arguments(self, draw: Draw) -> Arguments:
        strategy = draw.options.get("strategy") or draw.rng.choice(["binpack", "sort"])
        value: Arguments = {"strategy": strategy, "all": draw.rng.random() < 0.5}
        if draw.options.get("partial_progress"):
            value["partial_progress"] = True
        return value

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        options = {"rewrite-all": "true"} if value["all"] else {"min-input-files": "2", "delete-file-threshold": "1"}
        if value.get("partial_progress"):
            options |= {"partial-progress.enabled": "true", "partial-progress.max-commits": "3"}
        pairs = ", ".join(f"'{k}', '{v}'" for k, v in options.items())
        sort = ", strategy => 'sort', sort_order => 'id ASC NULLS LAST'" if value["strategy"] == "sort" else ""
        return [
            Statement(
                f"CALL {{catalog}}.system.rewrite_data_files(table => '{{identifier}}', options => map({pairs}){sort})",
                result=True,
            )
        ]


class RewritePositionDeleteFiles(_Maintenance):
    """Compaction of position delete files, by the procedure of that name."""

    name = "rewrite-position-delete-files"

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [
            Statement(
                "CALL {catalog}.system.rewrite_position_delete_files(table => '{identifier}', "
                "options => map('rewrite-all', 'true'))",
                result=True,
            )
        ]


class RewriteManifests(_Maintenance):
    """Regroups manifests, by the procedure of that name."""

    name = "rewrite-manifests"

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement("CALL {catalog}.system.rewrite_manifests(table => '{identifier}')", result=True)]


class ExpireSnapshots(_Maintenance):
    """Drops old snapshots and deletes the files that only they need. Leaves no snapshot of its own."""

    name = "expire-snapshots"
    writes = False
    options = ("retain_last",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"retain_last": int(draw.options.get("retain_last", 10))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [
            Statement(
                "CALL {catalog}.system.expire_snapshots(table => '{identifier}', "
                f"older_than => TIMESTAMP '{{older_than}}', retain_last => {int(value['retain_last'])})",
                result=True,
            )
        ]


def table_properties(table: TableSpec) -> dict[str, str]:
    """The Iceberg table properties that a table's dimensions mean; its own ``properties`` come last and win."""
    properties = {
        "format-version": str(table.format_version),
        "write.metadata.previous-versions-max": "1000",
    }
    for command in ("delete", "update", "merge"):
        properties[f"write.{command}.mode"] = table.mode
        properties[f"write.{command}.isolation-level"] = table.isolation
    return properties | table.properties


def definition(table: TableSpec, *, without: Sequence[str] = ()) -> str:
    """What follows the columns in the table's DDL; ``without``: properties that are left out."""
    pairs = [(_quote(k), _quote(v)) for k, v in table_properties(table).items() if k not in without]
    partitioning = " PARTITIONED BY (part)" if table.partitioned else ""
    quoted = ", ".join(f"'{k}' = '{v}'" for k, v in pairs)
    return f"USING iceberg{partitioning} TBLPROPERTIES ({quoted})"


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("{", "{{").replace("}", "}}")


class ReplaceTable(_Maintenance):
    """``CREATE OR REPLACE TABLE … AS SELECT``: the same rows in a table of the same make; its snapshot has no parent.

    Iceberg replaces whatever is there when it commits by what the statement had read: what others committed meanwhile is gone. A catalog
    that takes a client's metadata as a whole (JDBC) loses their snapshots, too (apache/iceberg#16232).
    """

    name = "replace-table"
    replaces = True

    def whole_parts(self, value: Arguments, table: TableSpec) -> frozenset[int] | None:
        return None

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        made = definition(table, without=["format-version"])  # which may be higher by now
        return [Statement(f"CREATE OR REPLACE TABLE {{table}} {made} AS SELECT * FROM {{table}}")]


class RemoveOrphanFiles(_Maintenance):
    """Deletes files that no snapshot needs and that are older than ``older_than`` seconds (0 … ; a minute).

    By Iceberg's Java action: the procedure refuses less than a day. With a short age it deletes by design what an operation under way has
    written and not yet committed, and the commit then leaves a table without its files.
    """

    name = "remove-orphan-files"
    writes = False
    options = ("older_than",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"older_than": int(draw.options.get("older_than", 60))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        action = {"name": "remove-orphan-files", "older_than_s": int(value["older_than"])}
        return [Statement("{table}", result=True, action=action)]


class Rollback(_Maintenance):
    """``rollback_to_snapshot``: main goes back to its ``back``-th ancestor (the oldest there is); at least one, unless there is none.

    Iceberg validates only that the snapshot is an ancestor still: what was committed meanwhile is taken out with the rest. The result is
    ``{"snapshot": id, "rows": [...]}``: the snapshot that was asked for, and what the procedure returned.
    """

    name = "rollback"
    writes = False
    sets_back = True
    options = ("back",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"back": draw.rng.randint(1, max(1, int(draw.options.get("back", 3))))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [
            Statement(
                "SELECT snapshot_id FROM {table}.history WHERE is_current_ancestor GROUP BY snapshot_id "
                f"ORDER BY max(made_current_at) DESC LIMIT {int(value['back']) + 1}",
                bind="snapshot",
            ),
            Statement(
                "CALL {catalog}.system.rollback_to_snapshot(table => '{identifier}', snapshot_id => {snapshot})",
                result=True,
            ),
        ]


# --- changes of the metadata -------------------------------------------------------------------------------------------


class _Alter(Kind):
    """``ALTER TABLE``: a new version of the table's metadata, no snapshot; it changes no row."""

    writes = False
    changes_rows = False

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])


def _table(text: object) -> str:
    if not isinstance(text, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", text):
        raise ValueError(f"expected the name of a table, found {text!r}")
    return text


def _word(text: object) -> str:
    if not isinstance(text, str) or not re.fullmatch(r"[a-z][a-z0-9_.-]*", text):
        raise ValueError(f"expected a name such as extra_1, found {text!r}")
    return text


class AddColumn(_Alter):
    """``ALTER TABLE … ADD COLUMN``: one more column, which stays NULL. Its comment names the operation.

    The names are few (``extra_0`` … ``extra_<columns - 1>``), so that the schemas of a long run stay small: it fails for one that is there.
    """

    name = "add-column"
    options = ("columns",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"column": f"extra_{draw.rng.randrange(int(draw.options.get('columns', 8)))}"}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}} ADD COLUMN {_word(value['column'])} INT COMMENT '{op}'")]


class WidenColumn(AddColumn):
    """``ALTER TABLE … ALTER COLUMN … TYPE BIGINT`` of a column that ``add-column`` added; fails when there is none such."""

    name = "widen-column"

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}} ALTER COLUMN {_word(value['column'])} TYPE BIGINT")]


class SetProperty(_Alter):
    """``ALTER TABLE … SET TBLPROPERTIES``: one of a few properties that nobody reads, to the operation's id."""

    name = "set-property"
    options = ("properties",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"property": f"icequake.p{draw.rng.randrange(int(draw.options.get('properties', 4)))}"}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}} SET TBLPROPERTIES ('{_word(value['property'])}' = '{op}')")]


class Upgrade(_Alter):
    """``ALTER TABLE … SET TBLPROPERTIES ('format-version' = '3')``; changes nothing a second time."""

    name = "upgrade"

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement("ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")]


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Insert(),
        InsertSelect(),
        UpdateRegister(),
        UpdateCounter(),
        UpdateAppend(),
        UpdateRegisterWhere(),
        UpdateCounterWhere(),
        UpdateAppendWhere(),
        Delete(),
        DeleteWhere(),
        DeletePartition(),
        OverwritePartitions(),
        OverwriteWhere(),
        MergeUpsert(),
        MergeInsert(),
        MergeUpdate(),
        MergeDelete(),
        Read(),
        ReadKey(),
        ReadSnapshot(),
        Transfer(),
        ReadBoth(),
        RewriteDataFiles(),
        RewritePositionDeleteFiles(),
        RewriteManifests(),
        ExpireSnapshots(),
        RemoveOrphanFiles(),
        ReplaceTable(),
        Rollback(),
        AddColumn(),
        WidenColumn(),
        SetProperty(),
        Upgrade(),
    )
}
"""Every kind by name: the allowed values of ``operations:`` in a workload file."""
