"""A checker says its part of one table wherever that table is, and the parts together are its verdict on the run."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.evidence import tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.makers import named_by
from checkers.judge.check import ALL
from checkers.judge.runfolder import load_evidence
from checkers.timeline.timelines import named
from checkers.unit import Part, TableChecker, Unit, parts_of, units
from checkers.verdict import Verdict
from tests.support.simulator import Defects, simulate
from workloads.tables import TableSpec

OF_TABLES = [c for c in ALL if isinstance(c, TableChecker)]
SPECS = [
    TableSpec(name="a", mode="merge-on-read", partitions=2, seed_rows=4),
    TableSpec(name="b", format_version=3, isolation="snapshot", partitions=2, seed_rows=4),
]
DEFECTS = (Defects(), Defects(forget=0.3), Defects(stale_read=0.6), Defects(drop_rows=0.7), Defects(false_failure=0.4))


def elsewhere(checker: TableChecker, e: Evidence) -> Verdict:
    """The checker's verdict from parts that were made, each on its own, of units that were sent and sent back."""
    parts = []
    for u in units(e):
        made = pickle.loads(pickle.dumps(checker)).part(pickle.loads(pickle.dumps(u)))
        parts.append(pickle.loads(pickle.dumps(made)))
    return checker.fold([p for p in parts if p is not None])


@pytest.mark.parametrize("checker", OF_TABLES, ids=lambda c: c.name)
def test_units_and_parts_can_be_sent_to_another_process(checker: TableChecker) -> None:
    for seed, defects in enumerate(DEFECTS):
        whole = simulate(seed, SPECS, ops=15, defects=defects).evidence()
        for e in (whole, replace(whole, logs={"a": whole.logs["a"]}), replace(whole, tables={"b": SPECS[1]})):
            assert elsewhere(checker, e) == checker.check(e), (seed, sorted(e.logs), sorted(e.tables))


def test_snapshots_that_name_nobody_can_be_sent_and_written_when_their_operations_are_known(tmp_path: Path) -> None:
    e = named(simulate(5, SPECS, ops=15, engines=("spark", "duckdb", "spark", "duckdb"), proxied=True).evidence())
    assert any(named_by(c) == "proxy" for log in e.logs.values() for c in log.commits)
    for checker in OF_TABLES:
        assert elsewhere(checker, e) == checker.check(e), checker.name
    for name, log in e.logs.items():
        tablelog_file.write(log, tmp_path / name)
        assert [c.op for c in tablelog_file.read(tmp_path / name).commits] == [c.op for c in log.commits]


def test_the_parts_of_a_recorded_run_are_its_verdicts(recorded_run: Path) -> None:
    e = load_evidence(recorded_run)
    for checker in OF_TABLES:
        assert elsewhere(checker, e) == checker.check(e), checker.name


def test_what_a_checker_says_of_a_table_does_not_depend_on_the_others() -> None:
    e = simulate(3, SPECS, ops=20, defects=Defects(forget=0.3)).evidence()
    for checker in OF_TABLES:
        together = {p.table: p for p in parts_of(checker, units(e))}
        for u in reversed(units(e)):
            assert checker.part(u) == together.get(u.name), checker.name


class Counting(TableChecker):
    """The operations of each table."""

    name = "counting"
    names = frozenset({"many"})

    def part(self, unit: Unit) -> Part:
        undecided = not unit.ops
        notes = (f"{unit.name}: no operations",) if undecided else ()
        return Part(unit.name, notes=notes, undecided=undecided, stats={"operations": len(unit.ops)})


def test_a_part_is_all_that_a_checker_of_tables_has_to_say() -> None:
    e = simulate(1, SPECS, ops=10).evidence()
    verdict = Counting().check(e)
    assert verdict.valid is True and verdict.notes == ()
    assert sorted(verdict.stats["tables"]) == ["a", "b"]
    idle = replace(e, tables={**e.tables, "c": TableSpec(name="c")})
    assert Counting().check(idle).valid == "unknown" and Counting().check(idle).notes == ("c: no operations",)
