"""What the operations mean: the algebra that every checker relies on."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.operations.inserts import Insert
from workloads.operations.keys import Keys, part_of
from workloads.operations.kind import PARTS, Arguments, Draw, Kind, WriteSet, net, new_row
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State, TableSpec

TABLE = TableSpec(name="t", partitions=2)


def row(id: int, val: str = "s", cnt: int = 0, log: str = "s") -> Row:
    return Row(id, val, cnt, log, id % 2)


def _drawn(kind: Kind) -> Arguments:
    return kind.arguments(Draw(Random(1), Keys(5), 0, TABLE, False, {}, ("u",)))


START = State([row(0), row(1, cnt=1), row(1, cnt=1), row(2, "x", 3, "s,x")])
"""Key 0 once, key 1 twice and alike, key 2 with a history, key 3 not there."""


@pytest.mark.parametrize(
    ("kind", "value", "removed", "added"),
    [
        ("insert", {"ids": [0, 3]}, [], [row(0, "o", 0, "o"), row(3, "o", 0, "o")]),
        ("insert-select", {"from": 2, "to": 3}, [], [row(3, "o", 3, "s,x,o")]),
        ("insert-select", {"from": 1, "to": 0}, [], [row(0, "o", 1, "s,o")] * 2),
        ("insert-select", {"from": 3, "to": 0}, [], []),
        ("update-register", {"ids": [1]}, [row(1, cnt=1)] * 2, [row(1, "o", 1)] * 2),
        ("update-counter", {"ids": [2]}, [row(2, "x", 3, "s,x")], [row(2, "x", 4, "s,x")]),
        ("update-append", {"ids": [0]}, [row(0)], [row(0, log="s,o")]),
        ("update-append", {"ids": [3]}, [], []),
        ("update-register-where", {"part": 0, "parity": 0}, [row(0)], [row(0, "o")]),
        ("update-counter-where", {"part": 1, "parity": 1}, [row(1, cnt=1)] * 2, [row(1, cnt=2)] * 2),
        ("update-append-where", {"part": 1, "parity": 0}, [], []),
        ("update-counter-by-expression", {"ids": [1]}, [row(1, cnt=1)] * 2, [row(1, cnt=2)] * 2),
        ("delete-by-expression", {"ids": [1]}, [row(1, cnt=1)] * 2, []),
        ("delete", {"ids": [1]}, [row(1, cnt=1)] * 2, []),
        ("delete-where", {"part": 0, "parity": 1}, [row(2, "x", 3, "s,x")], []),
        ("delete-partition", {"part": 0}, [row(0), row(2, "x", 3, "s,x")], []),
        ("overwrite-partitions", {"ids": [4]}, [row(0), row(2, "x", 3, "s,x")], [row(4, "o", 0, "o")]),
        ("overwrite-partitions", {"ids": [0, 3]}, [*START], [row(0, "o", 0, "o"), row(3, "o", 0, "o")]),
        ("overwrite-where", {"part": 1, "ids": [1]}, [row(1, cnt=1)] * 2, [row(1, "o", 0, "o")]),
        ("overwrite-where", {"part": 0, "ids": []}, [row(0), row(2, "x", 3, "s,x")], []),
        ("overwrite-where", {"part": 1, "ids": [1], "validated": True}, [row(1, cnt=1)] * 2, [row(1, "o", 0, "o")]),
        ("drop-column", {"column": "extra_1"}, [], []),
        ("equality-delete", {"ids": [1, 3]}, [row(1, cnt=1)] * 2, []),
        ("equality-upsert", {"ids": [1, 3]}, [row(1, cnt=1)] * 2, [row(1, "o", 0, "o"), row(3, "o", 0, "o")]),
        ("replace-where", {"part": 1, "ids": [1]}, [row(1, cnt=1)] * 2, [row(1, "o", 0, "o")]),
        ("replace-where", {"part": 0, "ids": []}, [row(0), row(2, "x", 3, "s,x")], []),
        ("stream-append", {"ids": [0, 3], "again": True}, [], [row(0, "o", 0, "o"), row(3, "o", 0, "o")]),
        ("restore", {"back": 1, "rows": [row(0), row(1, cnt=1)]}, [row(1, cnt=1), row(2, "x", 3, "s,x")], []),
        ("restore", {"back": 1, "rows": []}, [*START], []),
        ("reorg-purge", {}, [], []),
        ("delta-add-column", {"column": "extra_1"}, [], []),
        ("delta-rename-column", {"column": "extra_1", "to": "extra_2"}, [], []),
        ("delta-drop-column", {"column": "extra_1"}, [], []),
        ("read-changes", {"back": 1, "since": 1}, [], []),
        ("merge-upsert", {"ids": [0, 3]}, [row(0)], [row(0, "o", 1, "s,o"), row(3, "o", 0, "o")]),
        ("merge-insert", {"ids": [0, 3]}, [], [row(3, "o", 0, "o")]),
        ("merge-update", {"ids": [1, 3]}, [row(1, cnt=1)] * 2, [row(1, "o", 2, "s,o")] * 2),
        ("merge-delete", {"ids": [0, 3]}, [row(0)], []),
        ("transfer", {"ids": [2], "into": "u", "amount": 4}, [row(2, "x", 3, "s,x")], [row(2, "x", -1, "s,x,o")]),
        ("transfer", {"ids": [2], "into": "t", "amount": 4}, [row(2, "x", 3, "s,x")], [row(2, "x", 7, "s,x,o")]),
        ("transfer", {"ids": [3], "into": "u", "amount": 4}, [], []),
        ("read", {}, [], []),
        ("read-both", {"and": "u"}, [], []),
        ("rewrite-data-files", {"strategy": "sort", "all": True}, [], []),
    ],
)
def test_writeset(kind: str, value: dict[str, object], removed: list[Row], added: list[Row]) -> None:
    before = START.copy()
    writeset = KINDS[kind].writeset(START, value, "o", TABLE)
    assert Counter(writeset.removed) == Counter(removed)
    assert Counter(writeset.added) == Counter(added)
    assert before == START, "a meaning must not change the state it is asked about"


rows = st.builds(row, st.integers(0, 4), st.sampled_from(["s", "x"]), st.integers(0, 2))


@given(st.sampled_from(sorted(KINDS)), st.lists(rows, max_size=8), st.integers(0, 2**31), st.booleans())
def test_a_writeset_applies_to_its_state_and_is_net(kind: str, initial: list[Row], seed: int, own: bool) -> None:
    draw = Draw(Random(seed), Keys(5), 1, TABLE, own, {})
    value = KINDS[kind].arguments(draw)
    state = State(initial)
    removed, added = KINDS[kind].writeset(state, value, "w1-0", TABLE)
    assert not Counter(removed) & Counter(added)
    after = state.copy()
    after.apply(removed, added)  # raises where a removed row is not there
    assert len(after) == len(state) - len(removed) + len(added)
    if not KINDS[kind].changes_rows:
        assert after == state


@given(st.sampled_from(sorted(KINDS)), st.integers(0, 2**31))
def test_statements_name_the_table_and_carry_no_free_text(kind: str, seed: int) -> None:
    value = KINDS[kind].arguments(Draw(Random(seed), Keys(5), 0, TABLE, False, {}, ("u", "v")))
    for s in KINDS[kind].statements(value, "w0-1", TABLE):
        names = {
            "table": "c.n.t",
            "identifier": "n.t",
            "catalog": "c",
            "namespace": "n",
            "snapshot": 1,
            "first": 1,
            "second": 2,
            "older_than": "2026-01-01 00:00:00.000",
            "since": 1,
            "time": "2026-01-01 00:00:00.000",
        }
        sql = s.sql.format_map(names)
        assert ("n.t" in sql or f"c.n.{KINDS[kind].second(value)}" in sql) and "{" not in sql


@pytest.mark.parametrize(
    ("kind", "value", "condition"),
    [
        ("delete", {"ids": [5]}, "WHERE id = 5 AND part = 1"),
        ("update-register", {"ids": [5]}, "WHERE id = 5 AND part = 1"),
        ("update-counter", {"ids": [4, 5]}, "WHERE id IN (4, 5) AND part IN (0, 1)"),
        ("update-append", {"ids": [4, 6]}, "WHERE id IN (4, 6) AND part = 0"),
        ("merge-upsert", {"ids": [5]}, "ON t.id = s.id AND t.part = 1 WHEN MATCHED"),
    ],
)
def test_a_condition_can_name_the_partition_and_means_the_same(
    kind: str, value: dict[str, object], condition: str
) -> None:
    table, more = TABLE.model_copy(update={"partitions": 2}), {**value, "with_part": True}
    (statement,) = KINDS[kind].statements(more, "w0-1", table)
    (plain,) = KINDS[kind].statements(value, "w0-1", table)
    assert condition in statement.sql and "part =" not in plain.sql and "part IN" not in plain.sql
    assert KINDS[kind].touches(more, table) == KINDS[kind].touches(value, table)
    assert KINDS[kind].writeset(START, more, "o", table) == KINDS[kind].writeset(START, value, "o", table)


@pytest.mark.parametrize(
    "kind", sorted(k for k, kind in KINDS.items() if "ids" in (v := _drawn(kind)) and kind.statements(v, "o", TABLE))
)
def test_the_statements_name_every_key_that_the_operation_has(kind: str) -> None:
    value = {**_drawn(KINDS[kind]), "ids": [4100, 4202, 4304], "part": 0}
    text = str(KINDS[kind].statements(value, "o", TABLE))
    assert [i for i in value["ids"] if str(i) not in text] == []


def test_a_transfer_takes_from_one_table_what_it_adds_to_the_other() -> None:
    value = KINDS["transfer"].arguments(Draw(Random(1), Keys(3), 0, TABLE, False, {}, ("u",)))
    assert KINDS["transfer"].second(value) == "u"
    other = TableSpec(name="u", partitions=2)
    full = State(row(i, cnt=2) for i in range(3))
    minus, plus = (KINDS["transfer"].writeset(full, value, "o", t) for t in (TABLE, other))
    assert minus.removed == plus.removed and len(minus.added) == 1
    assert (minus.added[0].cnt, plus.added[0].cnt) == (2 - value["amount"], 2 + value["amount"])
    names = {"table": "c.n.t", "catalog": "c", "namespace": "n"}
    [statement] = KINDS["transfer"].statements(value, "w0-1", TABLE)
    assert statement.action is not None
    said = [(t.format_map(names), sql.format_map(names)) for t, sql in statement.action["parts"]]
    assert [t for t, _ in said] == ["c.n.t", "c.n.u"]
    assert [
        ("UPDATE {at} SET" in sql, f"cnt {sign} {value['amount']}" in sql)
        for (t, sql), sign in zip(said, "-+", strict=True)
    ] == [
        (True, True),
        (True, True),
    ]


def test_an_operation_by_transaction_runs_and_means_what_the_ordinary_one_does() -> None:
    kinds = [k for k in KINDS if KINDS[k].by_transaction]
    assert kinds == [f"{k.removesuffix('-by-transaction')}-by-transaction" for k in kinds] and len(kinds) == 4
    for name in kinds:
        other, ordinary = KINDS[name], KINDS[name.removesuffix("-by-transaction")]
        value = ordinary.arguments(Draw(Random(3), Keys(5), 1, TABLE, False, {}))
        assert value == other.arguments(Draw(Random(3), Keys(5), 1, TABLE, False, {}))
        assert ordinary.writeset(START, value, "o", TABLE) == other.writeset(START, value, "o", TABLE)
        (asked,), (plain,) = other.statements(value, "o", TABLE), ordinary.statements(value, "o", TABLE)
        assert asked.action == {"name": "by-transaction", "statement": plain.sql} and asked.sql == "{table}"
        assert other.by_facts and other.signs == ordinary.signs


def test_an_overwrite_validates_from_the_snapshot_that_was_there_when_it_began_at_the_level_of_the_table() -> None:
    for name in ("overwrite-partitions", "overwrite-where"):
        kind, draw = KINDS[name], Draw(Random(3), Keys(5), 1, TABLE, False, {"validated": True})
        value = kind.arguments(draw)
        assert value == {**kind.arguments(Draw(Random(3), Keys(5), 1, TABLE, False, {})), "validated": True}
        for table in (TABLE, TABLE.model_copy(update={"isolation": "snapshot"})):
            first, last = kind.statements(value, "w0-0", table)
            assert first.bind == "snapshot" and "'validate-from-snapshot-id' = '{snapshot}'" in last.sql
            assert f"'isolation-level' = '{table.isolation}'" in last.sql
        (plain,) = kind.statements({**value, "validated": False}, "w0-0", TABLE)
        assert "isolation-level" not in plain.sql and plain.settings == last.settings


def test_only_columns_that_no_row_has_a_value_in_are_renamed_or_dropped() -> None:
    for kind, value in (
        ("drop-column", {"column": "val"}),
        ("rename-column", {"column": "cnt", "to": "extra_1"}),
        ("rename-column", {"column": "extra_1", "to": "log"}),
        ("rename-column", {"column": "extra_1; --", "to": "extra_2"}),
    ):
        with pytest.raises(ValueError, match="expected a column such as extra_1"):
            KINDS[kind].statements(value, "w0-0", TABLE)


def test_a_column_is_added_with_the_type_that_was_drawn() -> None:
    kind, types = KINDS["add-column"], ("int", "string")
    drawn = [kind.arguments(Draw(Random(n), Keys(5), 1, TABLE, False, {"types": types}))["type"] for n in range(9)]
    assert {*drawn} == {*types}
    (plain,), (text,) = (kind.statements({"column": "extra_1", **t}, "o", TABLE) for t in ({}, {"type": "string"}))
    assert " extra_1 INT " in plain.sql and " extra_1 STRING " in text.sql
    with pytest.raises(ValueError, match="expected a type of int, bigint, string, double, found 'array<int>'"):
        kind.statements({"column": "extra_1", "type": "array<int>"}, "o", TABLE)


@pytest.mark.parametrize(("strategy", "order"), [("binpack", None), ("sort", "id ASC"), ("zorder", "zorder(id, cnt)")])
def test_a_compaction_sorts_as_its_strategy_says(strategy: str, order: str | None) -> None:
    kind = KINDS["rewrite-data-files"]
    value = kind.arguments(Draw(Random(1), Keys(5), 0, TABLE, False, {"strategy": strategy}))
    (statement,) = kind.statements(value, "o", TABLE)
    assert value["strategy"] == strategy and ("sort_order" in statement.sql) == (order is not None)
    assert order is None or order in statement.sql


@pytest.mark.parametrize("into", ["x y", "u; DROP TABLE t", "", None, "U"])
def test_a_second_table_is_a_name(into: object) -> None:
    for kind, value in (("transfer", {"ids": [1], "into": into, "amount": 1}), ("read-both", {"and": into})):
        with pytest.raises(ValueError, match="expected the name of a table"):
            KINDS[kind].statements(value, "w0-1", TABLE)


def test_a_read_of_both_is_a_read_of_each() -> None:
    result = {"first": 1, "second": 2, "again": 1, "rows": [[0, *row(1)], [1, *row(2)], [0, *row(3)]]}
    assert KINDS["read-both"].seen_from({"and": "u"}, result, False) == ("read", {}, [[*row(1)], [*row(3)]])
    assert KINDS["read-both"].seen_from({"and": "u"}, result, True) == ("read", {}, [[*row(2)]])
    assert KINDS["read-both"].seen_from({"and": "u"}, None, True) == ("read", {}, None)


def test_a_state_is_a_multiset() -> None:
    state = State([row(1), row(1)])
    state.remove(row(1))
    assert state.rows() == [row(1)] and 1 in state
    state.remove(row(1))
    assert len(state) == 0 and 1 not in state
    with pytest.raises(KeyError):
        state.remove(row(1))


def test_an_insert_stamps_the_operation() -> None:
    assert new_row(3, "w2-5", TABLE) == Row(3, "w2-5", 0, "w2-5", 1)


# --- what a kind says of itself ---------------------------------------------------------------------------------------


def touched(kind: Kind, state: State, value: Arguments) -> list[Row]:
    """The rows of a state that an operation takes, by what it says that it touches."""
    about = kind.touches(value, TABLE)
    if about.whole:
        return state.rows()
    if about.parts:
        return [r for r in state if r.part in about.parts]
    if about.predicate is not None:
        return [r for r in state if (r.part, r.cnt % 2) == about.predicate]
    return [r for i in about.ids for r in state.by_id(i)]


def told(kind: Kind, state: State, value: Arguments, op: str) -> WriteSet:
    """The meaning of an operation by its kind's facts alone."""
    about = kind.touches(value, TABLE)
    old = touched(kind, state, value) if kind.sets or kind.deletes else []
    added = []
    if kind.sets:
        changed = {"val": lambda r: op, "cnt": lambda r: r.cnt + 1, "log": lambda r: f"{r.log},{op}"}
        added += [r._replace(**{c: changed[c](r) for c in kind.sets}) for r in old]
    if kind.inserts == "copies":
        assert about.copied_from is not None
        rows = state.by_id(about.copied_from)
        added += [Row(i, op, r.cnt, f"{r.log},{op}", part_of(i, TABLE)) for i in about.ids for r in rows]
    elif kind.inserts != "nothing":
        added += [new_row(i, op, TABLE) for i in about.ids if kind.inserts == "new" or not state.by_id(i)]
    return net(old, added)


TOLD = sorted(k for k, kind in KINDS.items() if kind.by_facts and kind.changes_rows)


@given(st.sampled_from(TOLD), st.lists(rows, max_size=8), st.integers(0, 2**31))
def test_facts_that_tell_a_meaning_tell_the_meaning(name: str, initial: list[Row], seed: int) -> None:
    kind, state = KINDS[name], State(initial)
    value = kind.arguments(Draw(Random(seed), Keys(5), 1, TABLE, False, {}))
    assert told(kind, state, value, "w1-0") == kind.writeset(state, value, "w1-0", TABLE)


@given(st.sampled_from(sorted(KINDS)), st.lists(rows, max_size=8), st.integers(0, 2**31))
def test_what_changes_is_touched_and_signed_as_the_kind_says(name: str, initial: list[Row], seed: int) -> None:
    kind, state = KINDS[name], State(initial)
    value = kind.arguments(Draw(Random(seed), Keys(5), 1, TABLE, False, {}, ("u",)))
    about = kind.touches(value, TABLE)
    removed, added = kind.writeset(state, value, "w1-0", TABLE)
    for r in (*removed, *added):
        assert r.id in about.ids or about.among is None or r.part in about.among
    if kind.signs:
        assert all("w1-0" in (r.val, *r.log.split(",")) for r in added)
        assert len(added) >= len(removed)
    if kind.means_the_same_everywhere:
        assert (removed, added) == kind.writeset(State(), value, "w1-0", TABLE)


def test_a_kind_derived_from_another_does_not_inherit_that_its_facts_tell_all() -> None:
    class Twice(Insert):
        name = "twice"

    assert Insert.by_facts and not Twice.by_facts and Twice.signs


def test_a_kind_says_what_it_may_change_in_the_metadata() -> None:
    changing = {name: kind.changes for name, kind in KINDS.items() if kind.changes}
    assert changing == {
        "add-column": {"schema"},
        "widen-column": {"schema"},
        "rename-column": {"schema"},
        "drop-column": {"schema"},
        "set-property": {"property"},
        "create-tag": {"ref"},
        "upgrade": {"format-version"},
        "replace-table": PARTS,
        "delta-add-column": {"schema"},
        "delta-rename-column": {"schema"},
        "delta-drop-column": {"schema"},
        "delta-set-property": {"property"},
    }


def test_a_kind_that_alters_and_does_not_say_what_may_change_anything() -> None:
    class Alters(type(KINDS["add-column"])):  # type: ignore[misc]
        name = "alters"
        may_change = None

    assert Alters().changes == PARTS
