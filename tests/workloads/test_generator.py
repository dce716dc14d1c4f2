"""The same seed generates the same operations, writer by writer; what is generated means something."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import generator
from workloads.file import workload as schema
from workloads.file import workload_text
from workloads.file.workload import Phase, Workload
from workloads.operations.keys import OWN_KEYS, Keys, own_key, owner, part_of
from workloads.operations.kinds import KINDS


def quick() -> tuple[Workload, Phase]:
    workload = workload_text.load(schema.find("quick"))
    return workload, workload.resolved_phases()[0]


def drawn(seed: int, writer: int, n: int = 200) -> list[tuple[str, str, object]]:
    workload, phase = quick()
    return [(p.f, p.table.name, p.value) for p in islice(generator.operations(workload, phase, writer, seed), n)]


def test_the_same_seed_generates_the_same_operations_per_writer() -> None:
    for writer in range(4):
        assert drawn(7, writer) == drawn(7, writer)


def test_other_seeds_and_other_writers_generate_others() -> None:
    assert drawn(7, 0) != drawn(8, 0)
    assert drawn(7, 0) != drawn(7, 1)


def test_a_phase_of_n_operations_has_n_operations() -> None:
    workload, phase = quick()
    assert phase.length.ops is not None
    lengths = [len(list(generator.operations(workload, phase, w, 1))) for w in range(4)]
    assert sum(lengths) == phase.length.ops
    assert max(lengths) - min(lengths) <= 1


def test_an_engine_writes_no_table_that_the_run_upgrades_to_a_version_it_cannot_write() -> None:
    engines = ("spark", "spark", "duckdb", "duckdb", "pyiceberg")
    mixed = workload_text.load(schema.find("mixed")).model_copy(update={"engines": engines})
    (phase,) = mixed.resolved_phases()

    def writes(engine: str) -> set[str]:
        planned = islice(generator.operations(mixed, phase, engines.index(engine), 3), 3000)
        return {p.table.name for p in planned if p.f not in ("read", "read-key", "read-snapshot")}

    assert writes("pyiceberg") == {"v2_cow", "v2_mor", "v2_cow_flat", "v2_mor_flat"}
    assert "v2_to_v3" in writes("spark") & writes("duckdb")


def test_weights_are_kept() -> None:
    workload, phase = quick()
    endless = phase.model_copy(update={"length": schema.Length(time=60)})
    counts = Counter(p.f for p in islice(generator.operations(workload, endless, 0, 3), 5000))
    assert set(counts) == set(workload.operations)
    assert counts["update-counter"] > 3 * counts["update-counter-where"]


def test_operations_stay_on_the_tables_they_are_meant_for() -> None:
    tables = {t for w in range(4) for f, t, _ in drawn(5, w) if f == "rewrite-position-delete-files"}
    assert tables <= {"orders", "events"}


@given(st.integers(2, 50), st.floats(0, 3), st.integers(0, 2**31), st.integers(1, 10))
def test_keys_are_distinct_and_of_their_space(space: int, skew: float, seed: int, n: int) -> None:
    from random import Random

    keys = Keys(space, skew).draw(Random(seed), n)
    assert len(set(keys)) == len(keys) == min(n, space)
    assert all(0 <= k < space for k in keys) and keys == sorted(keys)


@given(st.integers(0, 63), st.integers(0, OWN_KEYS - 1))
def test_an_own_key_belongs_to_one_writer_and_lies_in_no_shared_partition(writer: int, n: int) -> None:
    key = own_key(writer, n)
    table = quick()[0].tables[0]
    assert owner(key) == writer
    assert part_of(key, table) < 0


@pytest.mark.parametrize("f", ["insert-select", "merge-insert"])
def test_own_keys_are_used_where_the_workload_says_so(f: str) -> None:
    for kind, _, value in drawn(11, 2, 2000):
        if kind == f:
            ids = value["ids"] if "ids" in value else [value["from"], value["to"]]  # type: ignore[index,operator]
            assert {owner(i) for i in ids} == {2}


def test_an_operation_on_two_tables_takes_another_one_of_its_own() -> None:
    workload = workload_text.load(schema.find("atomicity"))
    phase = workload.resolved_phases()[0]
    planned = [p for w in range(4) for p in generator.operations(workload, phase, w, 1)]
    pairs = {(p.table.name, KINDS[p.f].second(p.value)) for p in planned if KINDS[p.f].two_tables}
    names = {t.name for t in workload.tables}
    assert pairs == {(a, b) for a in names for b in names if a != b}


def test_a_read_of_a_snapshot_goes_back_by_the_number_itself_if_it_is_told_exactly() -> None:
    def back(**options: object) -> set[int]:
        operations = {"read-snapshot": {"weight": 1, "back": 7, **options}}
        text = {
            "workload": "w",
            "tables": [{"name": "t"}],
            "length": {"ops": 400},
            "writers": 1,
            "operations": operations,
        }
        w = Workload.model_validate(text)
        drawn = generator.operations(w, w.resolved_phases()[0], 0, 1)
        return {int(o.value["back"]) for o in drawn}

    assert back() == set(range(8))
    assert back(exactly=True) == {7}
