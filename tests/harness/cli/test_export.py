"""``icequake export``: its own file is judged as the run is, and its other forms are what Elle and Knossos read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.clients import history_files
from checkers.clients.derived import HISTORY_FORMS
from checkers.clients.models import ModelError, judge
from checkers.evidence import history
from checkers.judge.runfolder import load_evidence
from checkers.linearizable.checker import Linearizable
from tests.support.runs import inside


def test_a_run_comes_back_from_its_file_and_gets_the_same_answer(recorded_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    done = inside("export", recorded_run, "-o", file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told, back = history.read(recorded_run / "history.jsonl"), history_files.load(file)
    assert back.events == told.events
    assert {k: v for k, v in back.header.items() if k != "tables"} == told.header

    of_run, of_file = Linearizable().check(load_evidence(recorded_run)), judge(back)
    assert (of_file.valid, of_file.anomalies, of_file.notes) == (of_run.valid, of_run.anomalies, of_run.notes)
    assert of_file.stats["model"] == "rows" and of_file.stats["keys"] > 10
    checked = inside("check", file, cwd=tmp_path)
    assert checked.returncode == 0 and "model rows, as-promised" in checked.stdout, checked.stdout + checked.stderr


def test_what_is_wrong_in_the_history_is_wrong_in_its_file(recorded_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    assert inside("export", recorded_run, "-o", file, cwd=tmp_path).returncode == 0
    told = history.read(recorded_run / "history.jsonl")
    read = next(e for e in reversed(told.events) if e.type == "ok" and e.f == "read" and e.value)
    row = read.value[0]
    lines = file.read_text().splitlines()
    lines[1 + read.index] = lines[1 + read.index].replace(f"[{row[0]} {json.dumps(row[1])}", f'[{row[0]} "nobody"', 1)
    file.write_text("\n".join(lines) + "\n")
    done = inside("check", file, cwd=tmp_path)
    assert done.returncode == 1 and "nonlinearizable" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("form", HISTORY_FORMS)
def test_a_form_of_other_tools_is_written_and_can_be_checked(form: str, recorded_run: Path, tmp_path: Path) -> None:
    file = tmp_path / f"{form}.edn"
    done = inside("export", recorded_run, "--as", form, "-o", file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(file) and " keys" in done.stderr
    assert ("strict-serializable" in done.stderr) == (form != "register")
    level = done.stderr.partition("for icequake check: ")[2].split()
    assert (level[:1] == ["--level"]) == (form != "register")
    checked = inside("check", file, *level, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert form in checked.stdout and "Valid" in checked.stdout


def test_wrong_forms_and_keys_are_answered_with_those_there_are(recorded_run: Path, tmp_path: Path) -> None:
    for arguments, says in (
        (["--as", "rw-registers"], ("--as rw-registers", "allowed: list-append, rw-register, register")),
        (["--as", "register", "--key", "nobody"], ("no key 'nobody'; there are",)),
        (["--key", "nobody"], ("give --as register with it",)),
    ):
        done = inside("export", recorded_run, *arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (254, "")
        assert all(s in done.stderr for s in says), done.stderr


def test_a_history_without_its_tables_says_what_to_give(recorded_run: Path) -> None:
    with pytest.raises(ModelError, match="give the run's folder, or a file that `icequake export"):
        judge(history.read(recorded_run / "history.jsonl"))
