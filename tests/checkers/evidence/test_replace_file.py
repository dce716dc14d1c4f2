"""A file of results is the old one until the new one is whole: a disk that is full and a process that is killed lose nothing."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from checkers.evidence.runfolder import replace_file
from tests.support.runs import ROOT, environment

OLD = '{"old": "measured for hours"}\n' * 100
LIMIT = len(OLD) + 1000
"""Bytes; a file cannot get longer, as on a disk that gets full."""

# Each replaces the file argv[1] by more than the disk takes; what the file has already is the old content.
WRITERS = {
    "replace_file": "from checkers.evidence.runfolder import replace_file; replace_file(path, 'x' * 100_000)",
    "run.json": "from checkers.evidence.runfolder import RunFolder; RunFolder(path.parent).write_state({'x': 'x' * 100_000})",
    "plan.yaml": "from checkers.evidence.plan import Plan; from checkers.evidence.runfolder import RunFolder; "
    "RunFolder(path.parent).write_plan(Plan(workload='x' * 100_000))",
    "results.json": (
        "from types import SimpleNamespace; from checkers.judge.runfolder import write_results\n"
        "write_results(SimpleNamespace(to_json=lambda: {'x': 'x' * 100_000}), path)"
    ),
    "compare.json": (
        "from reports.drawing import page, render\n"
        "told = page.Page('compare', '', page.Banner('valid', '', ''), [], {'x': 'x' * 100_000})\n"
        "render.write(told, path.parent)"
    ),
    "report.html": (
        "import reports.run.page as page; page.stored.of = lambda f: f; page.render = lambda r: 'x' * 100_000\n"
        "from types import SimpleNamespace; page.write(SimpleNamespace(folder=path.parent))"
    ),
}
LIMITED = """
import errno, resource, signal, sys
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then the write fails with an OSError
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
path = Path(sys.argv[1])
try:
    {write}
except OSError as e:
    assert e.errno == errno.EFBIG, e
    print(e.filename)
else:
    sys.exit("it was written")
"""


@pytest.mark.parametrize("what", WRITERS)
def test_a_write_that_fails_midway_leaves_the_old_file_whole_and_no_litter(what: str, tmp_path: Path) -> None:
    path = tmp_path / (what if "." in what else "file")
    path.write_text(OLD)
    write = WRITERS[what].replace("\n", "\n    ")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(limit=LIMIT, write=write), str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert path.read_text() == OLD and os.listdir(tmp_path) == [path.name]
    assert done.stdout.strip() == str(path), "the error names the file that a person knows"


WATCHED = """
import os, sys
from pathlib import Path
from tests.checkers.evidence.test_journal import FORM, HEADER, ONE, begun, Journal
path = begun(Path(sys.argv[1]), ONE)
whole = path.read_bytes()
path.write_bytes(whole + b'{"torn')
def watch(event, arguments):
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        opened.append(str(arguments[0]))
opened = []
sys.addaudithook(watch)
with Journal(path, FORM, HEADER):
    assert str(path) not in opened, opened
assert path.read_bytes() == whole
"""


def test_what_goes_on_never_opens_its_journal_for_writing(tmp_path: Path) -> None:
    """Opening the file to write it anew empties it: whoever is killed then has lost hours."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(tmp_path / "into" / "work.jsonl")],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr


def test_a_file_is_replaced_whole_in_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a"
    replace_file(path, "größer ‹x›\n")
    assert path.read_bytes() == "größer ‹x›\n".encode()
    replace_file(path, b"\xff")
    assert path.read_bytes() == b"\xff" and os.listdir(tmp_path) == ["a"]


def test_a_new_file_has_its_mode_from_the_first_byte_on(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        replace_file(tmp_path / "a", "x")
        replace_file(tmp_path / "b", "x", mode=0o600)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"]
    assert modes == [0o644, 0o600]


def test_a_folder_in_the_way_is_named_and_left(tmp_path: Path) -> None:
    (tmp_path / "results.json").mkdir()
    with pytest.raises(IsADirectoryError) as e:
        replace_file(tmp_path / "results.json", "x")
    assert e.value.filename == str(tmp_path / "results.json") and os.listdir(tmp_path) == ["results.json"]


def test_ctrl_c_while_writing_leaves_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text(OLD)
    monkeypatch.setattr("os.fsync", lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        replace_file(path, "new")
    assert path.read_text() == OLD and os.listdir(tmp_path) == ["a"]
