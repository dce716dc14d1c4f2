"""Which pairs a workload can exercise, and how rare a cell's are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from checkers.coverage.pair import PHASES, Pair, Placement
from checkers.coverage.possible import (
    KindByEngine,
    of_table,
    of_workload,
    phases,
    placements,
    possible,
    rarity,
    rarity_of_kinds,
)
from checkers.evidence.plan import Plan
from harness.run.resolve import read_workload
from workloads.engines.engines import ENGINES
from workloads.file import workload
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

TABLE = TableSpec(name="t")
FLAT = TableSpec(name="t", partitioned=False)


def plan(operations: dict[str, Any], **more: Any) -> Plan:
    tables = more.pop("tables", [{"name": "t"}])
    phases = more.pop("phases", [{"name": "main", "operations": operations}])
    return Plan.model_validate({"writers": 4, "tables": tables, "phases": phases, **more})


@pytest.mark.parametrize(
    ("first", "second", "table", "where"),
    [
        ("update-register", "delete", TABLE, ("same row", "same file", "same partition", "other partition")),
        ("update-register", "delete", FLAT, ("same row", "same file", "same partition")),
        ("insert", "insert", TABLE, ("same row", "same partition", "other partition")),
        ("insert", "delete", TABLE, ("same row", "same file", "same partition", "other partition")),
        ("rewrite-data-files", "delete", TABLE, ("same file", "same partition", "other partition")),
        ("rewrite-data-files", "rewrite-data-files", FLAT, ("same file", "same partition")),
        ("rewrite-manifests", "delete", TABLE, ("whole table",)),
        ("add-column", "insert", TABLE, ("whole table",)),
        ("own merge-insert", "update-register", TABLE, ("other partition",)),
        ("own merge-insert", "own merge-insert", FLAT, ("same partition",)),
        ("own merge-insert", "rewrite-data-files", TABLE, ("same file", "same partition", "other partition")),
    ],
)
def test_where_a_second_operation_can_work(
    first: str, second: str, table: TableSpec, where: tuple[Placement, ...]
) -> None:
    x, y = (KindByEngine(KINDS[name.split()[-1]], "spark", name.startswith("own "), 2) for name in (first, second))
    assert placements(x, y, table) == where


def test_who_does_not_retry_has_no_second_attempt() -> None:
    insert, column = KindByEngine(KINDS["insert"], "spark"), KindByEngine(KINDS["add-column"], "spark")
    never = TableSpec(name="t", properties={"commit.retry.num-retries": "0"})
    once = tuple(p for p in PHASES if p not in ("refused", "retry"))
    assert phases(insert, TABLE) == PHASES
    assert phases(column, TABLE) == once and phases(insert, never) == once
    said = {name: dict(e.commits) for name, e in ENGINES.items()}
    assert any(not c.retries for commits in said.values() for c in commits.values())
    for name, commits in said.items():
        for f, commit in commits.items():
            assert phases(KindByEngine(KINDS[f], name), TABLE) == (PHASES if commit.retries else once), (name, f)


def test_the_pairs_of_a_workload_are_its_kinds_with_each_other_on_each_make_of_table() -> None:
    made = possible(plan({"insert": {"weight": 1}, "delete": {"weight": 1}, "read": {"weight": 5}}))
    #        insert-insert 3, insert-delete 4, delete-insert 4, delete-delete 4 placements
    assert len(made) == (3 + 4 + 4 + 4) * len(PHASES)
    twice = [{"name": "t"}, {"name": "u"}, {"name": "v", "isolation": "snapshot"}]
    assert len(possible(plan({"insert": {"weight": 1}}, tables=twice))) == 3 * len(PHASES) * 2


def test_kinds_of_different_phases_never_meet() -> None:
    apart = [{"name": "a", "operations": {"insert": {}}}, {"name": "b", "operations": {"delete": {}}}]
    assert {(p.first, p.second) for p in possible(plan({}, phases=apart))} == {
        ("insert", "insert"),
        ("delete", "delete"),
    }


@pytest.mark.parametrize(
    ("operations", "more", "kinds"),
    [
        ({"insert": {"weight": 0}}, {}, set()),
        ({"insert": {}}, {"writers": 1}, set()),
        ({"insert": {}, "delete": {"tables": ["u"]}}, {}, {("insert", "insert")}),
        ({"insert": {}, "no-such-kind": {}}, {}, {("insert", "insert")}),
        (
            {"insert": {}},
            {"writers": 3, "engines": ["spark", "spark", "duckdb"]},
            {("insert", "insert"), ("insert", "duckdb insert"), ("duckdb insert", "insert")},
        ),
    ],
)
def test_a_pair_needs_two_writers_that_do_both_on_the_table(
    operations: dict[str, Any], more: dict[str, Any], kinds: set[tuple[str, str]]
) -> None:
    assert {(p.first, p.second) for p in possible(plan(operations, **more))} == kinds


@pytest.mark.parametrize("path", sorted(workload.LIBRARY.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_workload_of_the_library_has_pairs(path: Path) -> None:
    """But one whose only writer that commits has nobody beside it."""
    found = of_workload(read_workload(path).workload)
    assert {p.phase for p in found} == (set() if path.stem == "pinned-reader" else set(PHASES))


def test_a_phase_on_other_tables_adds_nothing() -> None:
    elsewhere = [{"name": "a", "operations": {"insert": {}}, "tables": ["u"]}]
    assert not possible(plan({}, phases=elsewhere))


def test_a_cell_is_as_rare_as_its_pairs_on_average() -> None:
    cell = of_table(TABLE, [KindByEngine(KINDS["insert"], "spark", writers=2)])
    assert rarity(cell, Counter()) == 1.0
    assert rarity(cell, dict.fromkeys(cell, 1)) == 0.5
    one = min(cell)
    assert rarity(cell, {one: 3}) == pytest.approx((len(cell) - 0.75) / len(cell))
    assert rarity(cell, dict.fromkeys(cell, 10**9)) < 1e-8
    assert rarity([], {}) == 0.0


def test_what_was_seen_more_often_is_drawn_less() -> None:
    often = of_table(TABLE, [KindByEngine(KINDS["insert"], "spark", writers=2)])
    never = of_table(TABLE, [KindByEngine(KINDS["delete"], "spark", writers=2)])
    seen: Counter[Pair] = Counter(dict.fromkeys(often, 7))
    assert rarity(never, seen) > rarity(often | never, seen) > rarity(often, seen)
    assert rarity_of_kinds(often | never, seen) == {"delete": 1.0, "insert": 0.125}
