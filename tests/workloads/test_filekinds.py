"""What a file is that was given to the wrong command."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.file import filekinds, workload


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ('{"format":1,"workload":"mixed","seed":1}\n', "a history"),
        ('{"time": 1, "process": 0, "type": "invoke", "f": "read"}\n', "a history"),
        ('[\n {"time": 1, "type": "ok"}]', "a history"),
        ("{:index 0, :type :invoke, :process 0}\n", "a history"),
        ('{\n "format": 1,\n "servers": {}', "a certificate"),
        ('{\n "allowed": [],\n "checkers": []}', "a verdict"),
        ("# what a sweep varies\nworkload: x\nvary: {writers: [1]}\n", "an experiment"),
        ("spark:\n  type: rest\n", "the file of a catalog"),
        ("nonsense", None),
        ("", None),
    ],
)
def test_a_file_is_known_by_its_text(text: str, title: str | None, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    said = filekinds.what(file)
    assert (said is None) if title is None else (said is not None and said.startswith(f"{title}; `icequake "))


def test_all_files_of_the_library_are_known_with_a_command_that_takes_them() -> None:
    files = [p for p in workload.LIBRARY.rglob("*.yaml") if p.parent.name != "claims" and p.stem != "unreached"]
    assert len(files) > 100
    for file in files:
        assert filekinds.what(file), file


def test_a_run_is_known_by_its_folder_and_another_folder_is_nothing(tmp_path: Path) -> None:
    assert filekinds.what(tmp_path) is None and filekinds.what(tmp_path / "absent") is None
    for name in ("plan.yaml", "history.jsonl"):
        (tmp_path / name).touch()
    assert filekinds.refused(tmp_path, "a suite") == (
        f"{tmp_path}: this is the folder of a run, not a suite; `icequake check {tmp_path}` judges it"
    )
