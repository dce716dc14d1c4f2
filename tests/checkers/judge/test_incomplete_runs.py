"""Absence proves nothing: a run whose history lost its end, or that ended early, is ``unknown`` and never a failed promise."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
import yaml

from checkers.evidence import tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import TableLog
from checkers.judge.check import check
from checkers.judge.runfolder import Promises, load_evidence
from checkers.selftest import recorded
from tests.support.drawing import Drawing, row
from workloads.file.anomalies import entries_of


def drawn() -> Evidence:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.read("r", [row(1, "a")])
    return d.evidence()


def stored(folder: Path) -> Path:
    """A complete run of two operations, as the harness stores it."""
    e = drawn()
    (folder / "tablelog").mkdir(parents=True)
    lines = [json.dumps(e.history.header), *(json.dumps(x.to_json()) for x in e.history.events)]
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n")
    tablelog_file.write(e.logs["t"], folder / "tablelog" / "t.jsonl")
    (folder / "plan.yaml").write_text(yaml.safe_dump({"workload": "drawn", "tables": [e.tables["t"].model_dump()]}))
    (folder / "run.json").write_text(json.dumps({"state": "complete", "operations": 2}))
    return folder


def test_a_whole_history_is_judged(tmp_path: Path) -> None:
    results = check(load_evidence(stored(tmp_path / "run")))
    assert results.valid is True and results.complete


@pytest.mark.parametrize(
    ("keep", "why"),
    [
        (-9, "the last line is torn"),
        (-1, "the last line is torn"),
        (None, "1 operations completed, but the run counted 2"),
    ],
)
def test_a_complete_run_whose_history_lost_its_end_is_unknown_and_says_why(
    tmp_path: Path, keep: int | None, why: str
) -> None:
    folder = stored(tmp_path / "run")
    path = folder / "history.jsonl"
    text = path.read_bytes()
    path.write_bytes(text[:keep] if keep is not None else text[: text.rindex(b"\n", 0, -1) + 1])
    results = check(load_evidence(folder))
    assert results.valid == "unknown" and not results.complete
    assert any(why in note for v in results.verdicts for note in v.notes)


def test_an_expected_anomaly_may_be_in_what_an_incomplete_run_did_not_record() -> None:
    results = check(replace(drawn(), complete=False), promises=Promises(expect=entries_of("undelete")))
    assert results.valid == "unknown"
    assert not [a for v in results.verdicts for a in v.anomalies]
    assert "undelete" in results.verdicts[-1].notes[0]
    assert check(drawn(), promises=Promises(expect=entries_of("undelete"))).valid is False


def test_a_threshold_is_not_broken_by_a_run_that_ended_before_it_was_due() -> None:
    promises = Promises(thresholds={"operations": ">=200"})
    assert check(replace(drawn(), complete=False), promises=promises).valid == "unknown"
    assert check(drawn(), promises=promises).valid is False


def cut(log: TableLog, rng: Random, into: Path) -> TableLog:
    """The log of a run that was killed while it was written: up to any byte after its header."""
    lines = [tablelog_file.dump(r) for r in tablelog_file.records(log)]
    whole = b"".join(lines)
    into.write_bytes(whole[: rng.randrange(len(lines[0]), len(whole))])
    return tablelog_file.read(into)


@pytest.mark.parametrize("seed", range(8))
def test_a_table_log_that_ends_anywhere_accuses_nobody(seed: int, tmp_path: Path) -> None:
    e, rng = recorded.load("quick-120"), Random(seed)
    logs = {name: cut(log, rng, tmp_path / f"{name}.jsonl") for name, log in e.logs.items()}
    results = check(replace(e, logs=logs, complete=False))
    assert results.valid == "unknown"
    assert not [a for v in results.verdicts for a in v.anomalies]


def test_an_anomaly_that_is_certain_is_found_in_a_run_that_was_killed(tmp_path: Path) -> None:
    """The read saw a row that nobody wrote; no later event could explain it."""
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.read("r", [row(1, "a"), row(2, "nobody")])
    e = d.evidence()
    log = replace(e.logs["t"], complete=False)
    results = check(replace(e, logs={"t": log}, complete=False))
    assert results.valid is False
