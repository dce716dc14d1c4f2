"""A file that the user names: it never replaces what the command did not write, and a path that cannot be written is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.costs.comparison import Comparison, Contender
from harness.cli.app import COMMANDS
from harness.cli.options import BadArgument, catalogs_of
from tests.support.runs import inside

MINE = "workload: mine\n"
WRITERS = [
    ["export", "undelete", "--as", "script", "-o"],
    ["export", "undelete", "--as", "issue", "-o"],
    ["claims", "1", "--json"],
    ["claims", "--page"],
    ["coverage", "--json"],
    ["coverage", "--page"],
    ["check", "history.edn", "--json"],
    ["prove", "undelete", "--json"],
    ["compare", "quick", "--catalog", "rest,jdbc", "--json"],
    ["sweep", "writers", "--json"],
    ["certify", "--json"],
    ["trend", "--json"],
    ["shrink", "--json"],
    ["time-to-find", "--json"],
]
INTO = [
    ["certify", "--into"],
    ["compare", "quick", "--catalog", "rest,jdbc", "--into"],
    ["matrix", "--into"],
    ["prove", "undelete", "--into"],
    ["shrink", "--into"],
    ["soak", "nightly", "--into"],
    ["sweep", "writers", "--into"],
    ["time-to-find", "--into"],
    ["trend", "--into"],
]


@pytest.mark.parametrize("arguments", WRITERS, ids=" ".join)
def test_a_file_of_somebody_else_stays_and_nothing_is_started(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE)
    done = inside(*arguments, "mine.yaml", cwd=tmp_path)
    assert done.returncode == 254, done.stdout + done.stderr
    assert f"{arguments[-1].replace('-o', '--output')} {tmp_path}/mine.yaml: there is such a file" in done.stderr
    assert "--force" in done.stderr and len(done.stderr.splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["mine.yaml"] and (tmp_path / "mine.yaml").read_text() == MINE


def test_the_commands_own_json_is_replaced_and_that_of_others_is_not(tmp_path: Path) -> None:
    for _ in range(2):
        assert inside("claims", "1", "--json", "out.json", cwd=tmp_path).returncode == 0
    assert len(json.loads((tmp_path / "out.json").read_text())["claims"]) == 1
    (tmp_path / "package.json").write_text('{"name": "mine"}')
    assert inside("claims", "1", "--json", "package.json", cwd=tmp_path).returncode == 254
    (tmp_path / "list.json").write_text("[]")
    assert inside("claims", "1", "--json", "list.json", cwd=tmp_path).returncode == 254


def test_check_knows_its_own_json_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_text("")
    (tmp_path / "theirs.json").write_text('{"valid": true, "checker": "theirs", "runs": []}')
    done = inside("check", "h.jsonl", "--json", "theirs.json", cwd=tmp_path)
    assert done.returncode == 254 and "theirs.json: there is such a file" in done.stderr and "--force" in done.stderr


def test_what_the_user_forces_or_what_is_empty_is_replaced(tmp_path: Path) -> None:
    for name, force in (("mine.yaml", ["--force"]), ("empty.py", [])):
        (tmp_path / name).write_text(MINE if force else "")
        done = inside("export", "undelete", "--as", "script", "-o", name, *force, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "DELETE FROM c.repro.t" in (tmp_path / name).read_text()


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    assert inside("export", "undelete", "--as", "script", "-o", "a/b/u.py", cwd=tmp_path).returncode == 0
    assert (tmp_path / "a/b/u.py").is_file()
    assert inside("claims", "1", "--json", "c/d.json", "--page", "e/f.md", cwd=tmp_path).returncode == 0
    assert (tmp_path / "c/d.json").is_file() and (tmp_path / "e/f.md").is_file()


@pytest.mark.parametrize("arguments", [*WRITERS, *INTO], ids=" ".join)
def test_a_path_that_cannot_be_written_is_one_line(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "shared.yaml").write_text(MINE)
    place = "shared.yaml" if arguments in INTO else "shared.yaml/out.json"
    done = inside(*arguments, place, cwd=tmp_path)
    assert done.returncode == 254 and len(done.stderr.splitlines()) == 1, done.stdout + done.stderr
    assert f"{tmp_path}/shared.yaml is no folder" in done.stderr


OF_OTHERS = {
    "prove": ("proofs.jsonl", {}),
    "matrix": ("cells.jsonl", {}),
    "time-to-find": ("searches.jsonl", {}),
    "shrink": ("shrink.jsonl", {}),
    "certify": ("requirements.jsonl", {}),
    "run": ("history.jsonl", {}),
    "soak": ("runs.jsonl", {"suite": "nightly"}),
    "compare": ("runs.jsonl", {"workload": {}, "command": "compare"}),
    "sweep": ("runs.jsonl", {"workload": {}, "command": "sweep"}),
    "compare` or `icequake sweep": ("runs.jsonl", {"workload": {}}),
}
"""Whose folder → its journal, and what the header has."""


@pytest.mark.parametrize("arguments", INTO, ids=" ".join)
def test_a_folder_of_another_command_stays_as_it_is_and_its_owner_is_named(
    arguments: list[str], tmp_path: Path
) -> None:
    made = next(c for c in COMMANDS if c.typed_name() == arguments[0])
    for owner, (name, header) in OF_OTHERS.items():
        folder = tmp_path / owner.replace("`", "")
        folder.mkdir()
        (folder / name).write_text(json.dumps({"format": 1, **header}) + "\n{}\n")
        into = next(value for param, value, _ in made._fields() if param.name == "into")
        if arguments[0] in owner.split("`") or arguments[0] in owner.split():
            into.check_path("--into", folder, force=False, command=arguments[0])
            continue
        with pytest.raises(BadArgument) as e:
            into.check_path("--into", folder, force=False, command=arguments[0])
        assert str(e.value) == (
            f"--into {folder}: this is the folder of `icequake {owner}`, which wrote {name} there; "
            f"give `icequake {arguments[0]}` another folder, a new one"
        )


def test_a_night_leaves_the_folder_of_a_comparison_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(text := '{"format": 1, "workload": {}}\n{"contender": 1}\n')
    done = inside("soak", "smoke", "--into", ".", cwd=tmp_path)
    assert done.returncode == 254 and "`icequake compare` or `icequake sweep`" in done.stderr, done.stderr
    assert (tmp_path / "runs.jsonl").read_text() == text and len([*tmp_path.iterdir()]) == 1


def test_a_folder_that_takes_no_file_is_one_line(tmp_path: Path) -> None:
    done = inside("export", "undelete", "--as", "script", "-o", "/proc/undelete.py", cwd=tmp_path)
    assert done.returncode == 254 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "/proc/undelete.py: no file can be made in /proc; give one in another folder" in done.stderr


def test_every_command_that_writes_a_named_file_can_be_forced() -> None:
    for made in COMMANDS:
        for param, value, _ in made._fields():
            assert value.written is None or "force" in made._hints(), made
            assert param.name not in ("into", "output") or value.folder or value.written is not None, made


def test_a_catalogs_file_is_one_catalog_however_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a comparison would else have its runs twice."""
    monkeypatch.chdir(tmp_path)
    for typed in ("my.yaml", "./my.yaml", str(tmp_path / "my.yaml")):
        assert catalogs_of(f"rest,{typed}") == ["rest", str(tmp_path / "my.yaml")]
    with pytest.raises(BadArgument, match="is given twice"):
        catalogs_of("my.yaml,./my.yaml")


def test_a_contender_of_a_file_is_called_as_the_file_unless_two_files_have_the_name() -> None:
    rest, one, other = (Contender(name, "1.12.0") for name in ("rest", "/a/my.yaml", "/b/my.yaml"))
    assert [Comparison({}, (rest, one), (1,), ()).label(c) for c in (rest, one)] == ["rest", "my.yaml"]
    assert [Comparison({}, (one, other), (1,), ()).label(c) for c in (one, other)] == ["/a/my.yaml", "/b/my.yaml"]
