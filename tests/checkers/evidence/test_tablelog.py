"""The table log's file: a line that is not what the format says is named with file, line and reason, never met later as a crash."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence import tablelog_file
from checkers.evidence.tablelog import TableLogError
from tests.support.drawing import Drawing, row


def written(folder: Path) -> Path:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    path = folder / "t.jsonl"
    tablelog_file.write(d.evidence().logs["t"], path)
    return path


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        ("header", {"table": ["t"]}, "a header: table must be a word, not a list$"),
        ("header", {"identifier": None}, "a header: identifier must be a word, not null$"),
        ("header", {"columns": 3}, "columns must be a list"),
        ("header", {"columns": ["id", "val", "id"]}, "each name once"),
        (
            "commit",
            {"added": [[[1, "a"], "data/1", 0]]},
            "the number of values in a row of added must be 5, one for each column, not 2",
        ),
        ("commit", {"snapshot_id": "x"}, "snapshot_id must be a whole number"),
        ("commit", {"sequence_number": None}, "sequence_number must be a whole number"),
        ("commit", {"metadata": None}, "metadata must be a whole number"),
        ("commit", {"parent_id": "x"}, "parent_id must be a whole number or null"),
        ("commit", {"op": 7}, "op must be a word or null"),
        ("commit", {"shape": 5}, 'a commit has no key "shape"$'),
        ("commit", {"summary": {"a": 1}}, "a commit: summary must be an object of words, not an object$"),
        (
            "commit",
            {"added": [[[1], "f"]]},
            r"an entry of added must be \[row, file, pos\] or \[row, file, pos, by\], not a list$",
        ),
        ("commit", {"added": [[[1], "f", "0"]]}, 'an entry of added: pos must be a whole number, not "0"$'),
        ("commit", {"added_files": [{"path": "f"}]}, "an entry of added_files needs content and records and "),
        ("commit", {"added_files": [7]}, "an entry of added_files must be an object, not 7$"),
        ("commit", {"violations": [7]}, "an entry of violations must be a word, not 7$"),
        ("commit", {"violations": None}, "a commit: violations must be a list of words, not null$"),
        ("commit", {"problems": None}, "a commit: problems must be a list of objects, not null$"),
        ("metadata", {"problems": None}, "a metadata record: problems must be a list of objects, not null$"),
        (
            "commit",
            {"problems": [{"code": "x", "why": "y"}]},
            "an entry of problems: code must be one of missing-file, ",
        ),
        ("commit", {"added": 5}, "a commit: added must be a list of lists or null, not 5$"),
        ("metadata", {"n": "a"}, "n must be a whole number"),
        (
            "metadata",
            {"n": 10**9},
            r"a metadata record: n must be 1, the number of such records .*take the log .*not 1000000000$",
        ),
        ("metadata", {"n": -1}, "a metadata record: n must be 1, the number of such records before it .*, not -1$"),
        (
            "commit",
            {"metadata": -1},
            "a commit: metadata must be the n of a metadata record before it, from 0 to .*, not -1$",
        ),
        (
            "commit",
            {"metadata": 10**9},
            "a commit: metadata must be the n of a metadata record before it, .*, not 1000000000$",
        ),
        ("metadata", {"location": None}, "a metadata record: location must be a word, not null$"),
        ("metadata", {"grown": [1]}, "a metadata record: grown must be an object of objects, not a list$"),
        ("metadata", {"grown": {"a": {"skip": 0}}}, 'a metadata record: grown: "a" needs add$'),
        (
            "metadata",
            {"same": ["nothing"]},
            '"nothing" is said to be that of the metadata record before it, which has none$',
        ),
        ("metadata", {"snapshots": {"drop": []}}, "a metadata record: snapshots needs add$"),
        ("metadata", {"snapshots": ["x"]}, 'an entry of snapshots must be a whole number, not "x"$'),
        (
            "metadata",
            {"snapshots": 1},
            "a metadata record: snapshots must be a list of whole numbers or an object, not 1$",
        ),
        (
            "commit",
            {"op": "b"},
            'a commit: op is "b", but icequake-op of its summary is "a"; no reader writes another',
        ),
        ("commit", {"op": None}, 'a commit: op is null, but icequake-op of its summary is "a"'),
        ("commit", {"summary": {"icequake-op": "b"}}, 'a commit: op is "a", but icequake-op of its summary is "b"'),
        (
            "commit",
            {"attempt": 7},
            'a commit: attempt is 7, but its manifest list is "metadata/snap-1-1-x.avro"; no reader writes another',
        ),
        ("commit", {"attempt": None}, "a commit: attempt is null, but its manifest list"),
        ("end", {"missing": [["f", 7]]}, "an entry of missing: snapshots must be a list of whole numbers, not 7$"),
        ("end", {"\ud800": 1}, 'an end has no key "\N{REPLACEMENT CHARACTER}"$'),
        ("commit", {"summary": {"\ud800": 1}}, "a commit: summary must be an object of words, not an object$"),
        ("end", {"missing": ["f"]}, r'an entry of missing must be \[path, snapshots\], not "f"$'),
        ("capture", {"type": "glance"}, 'type must be one of metadata, commit, capture, problem, end, not "glance"$'),
        ("capture", {"type": []}, "type must be one of metadata, commit, capture, problem, end, not \\[\\]$"),
        ("capture", {"time": "x"}, 'a capture: time must be a whole number, not "x"$'),
        ("capture", {"metadata": 4}, "a capture: metadata must be a word or null, not 4$"),
        ("problem", {}, "a problem needs code and why$"),
    ],
)
def test_a_record_of_another_form_names_file_and_line(
    kind: str, wrong: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = written(tmp_path)
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    if kind == "problem":
        lines.append({"type": "problem"})
    at = max(n for n, r in enumerate(lines) if r["type"] == kind)
    lines[at] |= wrong
    path.write_text("".join(json.dumps(r) + "\n" for r in lines))
    with pytest.raises(TableLogError, match=says) as error:
        tablelog_file.read(path)
    assert f"{path}:{at + 1}: " in str(error.value)


@pytest.mark.parametrize("key", ["table", "identifier", "location", "columns"])
def test_a_header_needs_all_of_its_keys(key: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    header, *rest = path.read_text().splitlines(keepends=True)
    del (short := json.loads(header))[key]
    path.write_text(json.dumps(short) + "\n" + "".join(rest))
    with pytest.raises(TableLogError, match=f":1: a header needs {key}$"):
        tablelog_file.read(path)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    log = tablelog_file.read(written(tmp_path))
    tablelog_file.write(log, tmp_path / "again.jsonl")
    assert tablelog_file.read(tmp_path / "again.jsonl") == log


def test_a_log_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.jsonl")
    with pytest.raises(TableLogError, match=r"t\.jsonl: not a regular file"):
        tablelog_file.read(tmp_path / "t.jsonl")


@pytest.mark.parametrize(
    ("grown", "says"),
    [
        ({"skip": 10**18}, "skip must be from 0 to the number of entries in the record before, which is 2, not 10"),
        ({"skip": -1}, "skip must be from 0 to the number of entries in the record before, which is 2, not -1$"),
        (
            {"skip": 1, "keep": 2},
            "keep must be 1, skip less than the number of entries in the record before, which is 2, not 2$",
        ),
    ],
)
def test_a_list_grows_only_from_entries_that_it_had(grown: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    first, second = (r for r in lines if r["type"] == "metadata")
    first["raw"]["snapshot-log"] = [{}, {}]
    second["grown"] = {"snapshot-log": {"add": [], **grown}}
    path.write_text("".join(json.dumps(r) + "\n" for r in lines))
    with pytest.raises(TableLogError, match=rf':{1 + lines.index(second)}: "snapshot-log", which grew: {says}'):
        tablelog_file.read(path)


def test_only_a_list_can_grow(tmp_path: Path) -> None:
    path = written(tmp_path)
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    first, second = (r for r in lines if r["type"] == "metadata")
    first["raw"]["format-version"] = 2
    second["grown"] = {"format-version": {"skip": 0, "add": []}}
    path.write_text("".join(json.dumps(r) + "\n" for r in lines))
    with pytest.raises(TableLogError, match='"format-version", which grew, must be a list in the record before, not 2'):
        tablelog_file.read(path)


def test_a_first_line_that_was_cut_is_torn_and_a_file_without_one_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    for text, said in (("", "empty: the header is missing"), ('{"format": 1, "tab', ":1: torn: its end is missing")):
        file.write_text(text)
        with pytest.raises(TableLogError, match=said):
            tablelog_file.read(file)
