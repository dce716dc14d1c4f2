"""A journal loses no line: whatever a kill, a full disk, a second writer or another release does to it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.evidence import journal, runfolder
from checkers.evidence.journal import Journal, JournalFormat
from checkers.evidence.replace import replace
from tests.support.files import files_of_at_most


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work."""

    key: str
    done: bool
    took: float = 0.0
    more: dict[str, int] = field(default_factory=dict)


class WorkError(ValueError):
    """Says what is wrong with a journal of pieces."""


FORM = JournalFormat("some work", "a piece", journal.as_type(Piece), asdict, WorkError)
BARE = replace(FORM, bare=True)
ONE, OTHER = Piece("a", True, 1.5, {"x": 1}), Piece("b\u2028\x85\r", False)
HEADER = {"seed": 3, "cells": ({"name": "mixed"},)}


def begun(path: Path, *pieces: Piece, form: JournalFormat[Piece] = FORM) -> Path:
    with Journal(path, form, {} if form.bare else HEADER) as j:
        j.append(*pieces)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "work.jsonl"


@pytest.mark.parametrize("form", [FORM, BARE])
def test_what_was_appended_is_there_again(path: Path, form: JournalFormat[Piece]) -> None:
    begun(path, ONE, form=form)
    begun(path, OTHER, form=form)
    header, lines = journal.read(path, form)
    assert lines == [ONE, OTHER]
    assert header == ({} if form.bare else {"format": 1, "seed": 3, "cells": [{"name": "mixed"}]})


@given(cut=st.integers(0, 200), form=st.sampled_from([FORM, BARE]))
def test_a_kill_at_any_byte_of_a_line_loses_that_line_only(cut: int, form: JournalFormat[Piece]) -> None:
    path = Path(os.environ["TMP_JOURNALS"]) / "work.jsonl"
    path.unlink(missing_ok=True)
    begun(path, ONE, form=form)
    before = path.read_bytes()
    begun(path, OTHER, form=form)
    line = path.read_bytes()[len(before) :]
    path.write_bytes(before + line[: cut % len(line)])
    whole = cut % len(line) == len(line) - 1  # all but its line end
    expected = [ONE, OTHER] if whole else [ONE]
    assert journal.read(path, form)[1] == expected
    assert path.read_bytes() == before + line[: cut % len(line)], "a reader cuts nothing"
    begun(path, ONE, form=form)
    assert journal.read(path, form)[1] == [*expected, ONE]
    assert path.read_bytes().endswith(b"\n")


@pytest.fixture(autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMP_JOURNALS", str(tmp_path_factory.mktemp("journals")))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("garbage", r"work\.jsonl:3: not a piece of some work: .*; remove this line to do without it"),
        ('{"key": "c"}', r"work\.jsonl:3: .*`done`"),
        ('{"key": 7, "done": true}', r"work\.jsonl:3: .*`str`, got `int`"),
        ("[1]", r"work\.jsonl:3: .*a line is an object"),
        ('{"key": ' + "[" * 5000 + "]" * 5000 + "}", r"work\.jsonl:3: .*nested too deeply"),
        ('{"key": "c", "do', r"work\.jsonl:3: "),
        ("\udcff", r"work\.jsonl:3: "),
    ],
)
def test_a_line_that_cannot_be_read_refuses_with_its_number_and_nothing_is_changed(
    path: Path, line: str, says: str
) -> None:
    begun(path, ONE)
    with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(line + "\n")
    begun_bytes = path.read_bytes()
    with pytest.raises(WorkError, match=says):
        journal.read(path, FORM)
    with pytest.raises(WorkError, match=says), Journal(path, FORM, HEADER):
        raise AssertionError("it was opened")
    assert path.read_bytes() == begun_bytes


def test_a_line_of_another_release_is_read_and_keeps_what_this_one_does_not_know(path: Path) -> None:
    begun(path, ONE)
    older, newer = {"key": "old", "done": True}, {"key": "new", "done": True, "took": 2, "more": {}, "colour": "red"}
    with path.open("a") as file:
        file.write(json.dumps(older) + "\n" + json.dumps(newer) + "\n")
    begun(path, OTHER)
    assert journal.read(path, FORM)[1] == [ONE, Piece("old", True), Piece("new", True, 2.0), OTHER]
    assert '"colour": "red"' in path.read_text()


def test_a_line_of_an_earlier_form_is_upgraded(path: Path) -> None:
    def upgrade(values: journal.Values) -> journal.Values:
        return {**values, "done": values["ended"] == "well"} if "ended" in values else values

    begun(path)
    with path.open("a") as file:
        file.write('{"key": "c", "ended": "well"}\n')
    assert journal.read(path, replace(FORM, upgrade=upgrade))[1] == [Piece("c", True)]


@pytest.mark.parametrize(
    "text", ["hello\n", "[1]\n", '{"format": 9}\n', '{"key": "a", "done": true}\n', '{"form', "\x00"]
)
def test_a_file_that_is_no_journal_is_refused_and_stays_as_it_is(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(
        WorkError, match=r"work\.jsonl:1: not the journal of some work: .*; give another folder with --into"
    ):
        journal.read(path, FORM)
    with pytest.raises(WorkError, match="not the journal"), Journal(path, FORM, HEADER):
        raise AssertionError("it was opened")
    assert path.read_text() == text


def test_a_file_that_cannot_be_read_is_said(path: Path) -> None:
    with pytest.raises(WorkError, match=r"work\.jsonl: cannot be read: No such file"):
        journal.read(path, FORM)
    path.parent.write_text("a file")
    with pytest.raises(WorkError, match="cannot be made: File exists; give another folder"), Journal(path, FORM):
        raise AssertionError("it was opened")


def test_a_pipe_in_its_place_is_said_and_nobody_waits(path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(WorkError, match=r"work\.jsonl: cannot be read: not a regular file"):
        journal.read(path, FORM)
    with pytest.raises(WorkError, match="not a regular file"), Journal(path, FORM):
        raise AssertionError("it was opened")


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({**HEADER, "seed": 4}, r"another seed \(3 there, 4 here\); give another one with --into"),
        ({**HEADER, "of": "engines"}, r'another of \(none there, "engines" here\)'),
        ({**HEADER, "cells": ()}, r"another cells"),
        ({"seed": 3, "cells": HEADER["cells"], "spec": {"a": 1}}, r"another spec \(none there"),
    ],
)
def test_other_work_in_the_same_folder_is_refused_with_what_differs(
    path: Path, header: dict[str, Any], says: str
) -> None:
    begun(path, ONE)
    with pytest.raises(WorkError, match=says), Journal(path, FORM, header):
        raise AssertionError("it was opened")
    assert journal.read(path, FORM)[1] == [ONE]


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (
            {**HEADER, "seed": 4},
            r"another --seed \(3 there, 4 here\); to go on with it give --seed 3, or give another folder with --into",
        ),
        ({**HEADER, "seed": 4, "of": "x"}, r"another --seed \(3 there, 4 here\), of .*; give another one with --into"),
    ],
)
def test_the_option_that_differs_is_named_with_the_value_that_goes_on(
    path: Path, header: dict[str, Any], says: str
) -> None:
    begun(path, ONE)
    with pytest.raises(WorkError, match=says), Journal(path, replace(FORM, options={"seed": "--seed"}), header):
        raise AssertionError("it was opened")


def test_of_two_objects_the_keys_that_differ_are_named(path: Path) -> None:
    with Journal(path, FORM, {"spec": {"a": 1, "b": {"c": 2}}, "of": None}) as j:
        assert "of" not in j.header
    with (
        pytest.raises(WorkError, match=r"another spec\.b\.c \(2 there, 3 here\), spec\.d \(none there, 1 here\);"),
        Journal(path, FORM, {"spec": {"a": 1, "b": {"c": 3}, "d": 1}}),
    ):
        raise AssertionError("it was opened")


def test_what_may_differ_is_written_once(path: Path) -> None:
    for started in ("monday", "tuesday"):
        with Journal(path, FORM, HEADER, also={"started": started}) as j:
            assert j.header["started"] == "monday"


def test_a_second_writer_is_refused_by_the_name_of_the_first_and_a_reader_is_not(path: Path) -> None:
    with Journal(path, FORM, HEADER) as j:
        j.append(ONE)
        who = f"process {os.getpid()} on {socket.gethostname()}"
        with pytest.raises(WorkError, match=f"folder: {who} writes some work here"), Journal(path, FORM, HEADER):
            raise AssertionError("it was opened")
        assert journal.read(path, FORM)[1] == [ONE]
    begun(path, OTHER)


def test_the_lock_of_a_killed_writer_is_free_again(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.checkers.evidence.test_journal import FORM, HEADER, ONE, Journal\n"
        "with Journal(Path(sys.argv[1]), FORM, HEADER) as j:\n"
        "    j.append(ONE); print('there', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "there\n"
        with pytest.raises(WorkError, match=f"process {writer.pid} on "), Journal(path, FORM, HEADER):
            raise AssertionError("it was opened")
        writer.kill()
    begun(path, OTHER)
    assert journal.read(path, FORM)[1] == [ONE, OTHER]


def test_a_line_that_does_not_fit_on_the_disk_leaves_the_file_as_it_was(
    path: Path,
) -> None:
    with Journal(path, FORM, HEADER) as j:
        j.append(ONE)
        before = path.read_bytes()
        with files_of_at_most(len(before) + 10), pytest.raises(OSError) as error:
            j.append(OTHER)
        assert error.value.errno in runfolder.FULL and error.value.filename == str(path)
        assert path.read_bytes() == before and j.lines == [ONE]
        j.append(OTHER)
    assert journal.read(path, FORM)[1] == [ONE, OTHER]
