"""The checker of ``docs/extending.md``: one file in ``checkers/``, and icequake knows it everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import checkers
from checkers.evidence import tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.judge.check import check
from checkers.judge.registry import VERDICT_ORDER, find
from checkers.judge.runfolder import Promises, load_evidence, write_results
from checkers.selftest import recorded, trial
from checkers.verdict import Checker
from reports.run import junit, page, summary
from tests.support.examples import example, write_example
from tests.support.runs import ROOT
from tests.support.simulator import Simulation, simulate
from workloads.file.anomalies import entries_of
from workloads.tables import TableSpec

SPECS = [
    TableSpec(name="a", mode="merge-on-read", partitions=2, seed_rows=4),
    TableSpec(name="b", format_version=3, partitioned=False, partitions=2, seed_rows=4),
]
HOUR_MS = 3_600_000


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Checker, ...]]:
    """The checkers there are when the example lies in ``checkers/``."""
    folder = tmp_path / "checkers"
    folder.mkdir()
    write_example("my_checker.py", folder)
    monkeypatch.setattr(checkers, "__path__", [*checkers.__path__, str(folder)])
    yield find()
    sys.modules.pop("checkers.my_checker", None)


def one_clock_behind(run: Simulation) -> tuple[Evidence, str]:
    """The run with the last commit of table ``a`` stamped an hour too early, and the operation that made it."""
    e = run.evidence()
    log = e.logs["a"]
    last = log.main()[-1]
    commits = tuple(replace(c, timestamp_ms=c.timestamp_ms - HOUR_MS) if c == last else c for c in log.commits)
    assert last.op is not None
    return replace(e, logs={**e.logs, "a": replace(log, commits=commits)}), last.op


def stored(e: Evidence, folder: Path, expect: list[str]) -> Path:
    """The evidence as the harness stores it."""
    (folder / "tablelog").mkdir(parents=True)
    lines = [json.dumps(x) for x in (e.history.header, *(event.to_json() for event in e.history.events))]
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n")
    for name, log in e.logs.items():
        tablelog_file.write(log, folder / "tablelog" / f"{name}.jsonl")
    tables = [t.model_dump() for t in e.tables.values()]
    (folder / "plan.yaml").write_text(yaml.safe_dump({"workload": "clocks", "tables": tables, "expect": expect}))
    (folder / "run.json").write_text(json.dumps({"state": "complete"}))
    return folder


def test_the_example_is_short_and_found_after_the_checkers_that_there_are(own: tuple[Checker, ...]) -> None:
    assert len(example("my_checker.py").splitlines()) <= 50
    names = [c.name for c in own]
    guests = {*names} - {*VERDICT_ORDER}
    assert "clocks" in guests and names == [*VERDICT_ORDER, *sorted(guests)]


def test_the_example_is_silent_on_clean_runs(own: tuple[Checker, ...]) -> None:
    for seed in range(5):
        results = check(simulate(seed, SPECS, ops=25).evidence(), own)
        verdict = next(v for v in results.verdicts if v.checker == "clocks")
        assert results.valid is True and verdict.valid is True and verdict.anomalies == ()


def test_the_example_speaks_of_a_clock_that_went_back(own: tuple[Checker, ...], tmp_path: Path) -> None:
    e, op = one_clock_behind(simulate(1, SPECS, ops=25))
    folder = stored(e, tmp_path / "clocks" / "run", [])
    results = check(load_evidence(folder), own)
    [a] = [a for v in results.verdicts for a in v.anomalies if v.checker == "clocks"]
    assert results.valid is False and (a.name, a.table, a.ops[0]) == ("clock-went-back", "a", op)
    assert a.minimal is not None and a.minimal.complete and 2 <= len(a.minimal.ops) < len(e.history.operations())
    assert a.trail[0]["op"] == op and a.trail[0]["snapshots"][0]["snapshot"] == a.snapshots[1]
    write_results(results, folder / "results.json")
    shown = page.write(folder).read_text()
    assert "clock-went-back" in shown and "without any one of them it is gone" in shown
    assert "clock-went-back" in "\n".join(summary.lines(folder, colour=False))
    assert "clock-went-back" in junit.render(folder)


def test_the_example_answers_unknown_for_a_table_without_a_log(own: tuple[Checker, ...]) -> None:
    whole = simulate(1, SPECS, ops=25).evidence()
    clocks = next(c for c in own if c.name == "clocks")
    for e in (replace(whole, logs={}), replace(whole, logs={"a": whole.logs["a"]})):
        verdict = clocks.check(e)
        assert verdict.valid == "unknown" and "b: there is no table log to check against" in verdict.notes
    broken, _ = one_clock_behind(simulate(1, SPECS, ops=25))
    assert clocks.check(replace(broken, logs={"a": broken.logs["a"]})).valid is False, "what is there says enough"


def test_the_example_finds_the_bugs_that_the_page_plants_for_it(own: tuple[Checker, ...]) -> None:
    space: dict[str, Any] = {}
    exec(compile(example("wrongclocks.py"), "wrongclocks.py", "exec"), space)
    clocks = next(c for c in own if c.name == "clocks")
    report = trial.run(space["PLANTS"], [clocks], {n: recorded.load(n) for n in recorded.names()}, placements=6)
    assert report.passed and [(s.plant.name, s.detected) for s in report.scores] == [
        ("clock-behind", 6),
        ("clock-ahead", 6),
    ]
    behind, ahead = report.scores
    assert (behind.guilty, behind.accused) == (6, 6), behind.innocents
    assert sum(ahead.nobody.values()) == 6


def test_what_the_example_finds_can_be_expected(own: tuple[Checker, ...]) -> None:
    e, _ = one_clock_behind(simulate(1, SPECS, ops=25))
    names = {a.name for v in check(e, own).verdicts for a in v.anomalies}
    assert check(e, own, Promises(entries_of(*names))).valid is True
    assert check(simulate(1, SPECS, ops=25).evidence(), own, Promises(entries_of("clock-went-back"))).valid is False


def test_the_file_alone_makes_it_a_name_that_workloads_may_expect(tmp_path: Path) -> None:
    """In a process of its own, whose ``checkers/`` has one more link to a file."""
    folder = tmp_path / "checkers"
    folder.mkdir()
    for part in (ROOT / "checkers").iterdir():
        if part.name != "my_checker.py":
            (folder / part.name).symlink_to(part)
    (folder / "my_checker.py").symlink_to(write_example("my_checker.py", tmp_path))
    workload = (
        "workload: small\ntables: [{name: t}]\nlength: {ops: 3}\noperations: {insert: 1}\nexpect: [clock-went-back]\n"
    )
    (tmp_path / "w.yaml").write_text(workload)
    code = (
        "import sys; from pathlib import Path; from checkers.judge.check import ALL, ANOMALIES\n"
        "from harness.run.resolve import read_workload\n"
        "print('clocks' in {c.name for c in ALL}, 'clock-went-back' in ANOMALIES, *read_workload(Path(sys.argv[1])).workload.expect)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "w.yaml")],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stdout == "True True clock-went-back\n", done.stderr


def test_two_checkers_of_one_name_are_refused(own: tuple[Checker, ...], tmp_path: Path) -> None:
    text = example("my_checker.py").replace('name = "clocks"', 'name = "commits"')
    (tmp_path / "checkers" / "another.py").write_text(text)
    try:
        with pytest.raises(ValueError, match=r"two checkers are called 'commits': checkers\.another\.Clocks and"):
            find()
    finally:
        sys.modules.pop("checkers.another", None)
