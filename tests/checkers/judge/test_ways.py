"""Whatever way a run is judged, the same damage has the same anomalies: exactly, by columns, by sent tables, from EDN, in the lake's rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from checkers.clients.history_files import load
from checkers.clients.jepsen import to_edn
from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.judge.check import Results, check
from checkers.judge.runfolder import write_results
from checkers.lake.rows import RunContents, rows_of
from checkers.unit import TableChecker
from tests.checkers.test_unit import elsewhere
from tests.support.bugs import broken_runs
from tests.support.judging import UNREDUCED

Broken = Sequence[tuple[Path, Evidence, Results]]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Broken:
    found = [(run, e, check(e, UNREDUCED)) for run, e in broken_runs(tmp_path_factory.mktemp("store"))]
    assert len(found) >= 10 and sum(r.valid is False for _, _, r in found) >= 8
    return found


def anomalies(r: Results) -> list[dict[str, Any]]:
    return [a for v in r.verdicts for a in json.loads(json.dumps(v.to_json()))["anomalies"]]


def test_columns_find_what_the_exact_checkers_find(broken: Broken) -> None:
    for run, e, exact in broken:
        assert anomalies(check(e, UNREDUCED, engine="columns")) == anomalies(exact), run


def test_tables_that_are_sent_to_other_processes_say_the_same(broken: Broken) -> None:
    for run, e, exact in broken:
        said = {v.checker: v for v in exact.verdicts}
        for checker in UNREDUCED:
            if isinstance(checker, TableChecker) and checker.name in said:  # that of another table format says nothing
                there = {a.name for a in elsewhere(checker, e).anomalies}
                assert there == {a.name for a in said[checker.name].anomalies}, (run, checker.name)


def test_a_history_that_was_exported_to_edn_is_judged_as_its_json_lines(broken: Broken, tmp_path: Path) -> None:
    for run, e, exact in broken:
        path = tmp_path / "history.edn"
        path.write_text(to_edn(e.history), encoding="utf-8")
        again = replace(e, history=replace(load(path), problems=e.history.problems))
        assert anomalies(check(again, UNREDUCED)) == anomalies(exact), run


def test_the_lake_has_the_anomalies_of_results_json(broken: Broken, tmp_path: Path) -> None:
    keys = ("name", "checker", "table", "explanation", "ops", "snapshots", "files")
    for run, e, exact in broken:
        write_results(exact, tmp_path / "results.json")
        written = [a for v in json.loads((tmp_path / "results.json").read_text())["checkers"] for a in v["anomalies"]]
        folder = RunFolder(run)
        told = RunContents(run, folder.read_plan(), folder.state(), e, exact, None)
        rows = rows_of(told, datetime(2026, 1, 3, tzinfo=UTC))["anomalies"].to_pylist()
        assert [{k: x[k] for k in keys} for x in rows] == [{k: x.get(k) or empty(k) for k in keys} for x in written], (
            run
        )


def empty(key: str) -> Any:
    return None if key == "table" else []
