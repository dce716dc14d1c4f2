"""Problems of a table log: a code for checkers, a sentence for people; sentences of format 1 are understood."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.evidence import tablelog_file
from checkers.evidence.problem import Problem, problem_of, upgraded
from checkers.evidence.record import RecordError, converted
from checkers.evidence.replace import replace
from tests.support.drawing import Drawing, row

SENTENCES = [
    ("data file (of snapshot 7) data/b is missing; needed by snapshot 3 (op x)", "missing-file", "data/b", 7),
    ("manifest metadata/m.avro is corrupt: torn; bad; needed by snapshot 3", "corrupt-file", "metadata/m.avro", None),
    ("metadata file s3://w/t/3.json is missing", "missing-metadata", "s3://w/t/3.json", None),
    ("the pointer leads nowhere: metadata file s3://w/t/9.json is corrupt: x", "corrupt-metadata", "s3://w/t/9.json", None),
    ("the pointer was at a (metadata 2); this version does not descend from it, but from b", "fork", None, None),
    ("its metadata-log says that it follows a, the chain says b", "metadata-log", None, None),
    ("tells snapshot -2 differently than the version that first showed it", "snapshot-changed", None, -2),
    ("its parent 99 was never seen; needed by snapshot 4 (op op-4)", "parent", None, 99),
    ("snapshot 5 (op w) is in no version of the metadata chain, only in x", "outside-chain", None, None),
    ("the parent's manifest metadata/m.avro is unreadable", "unreadable-manifest", None, None),
    ("s3://w/t/3.json was written over: metadata 3 is what was in it before", "written-over", None, None),
    ("deletion vector (of snapshot 3) data/v names no data file", "other", None, None),
    ("something that no version ever said", "other", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "code", "file", "snapshot"), SENTENCES)
def test_a_sentence_of_format_1_has_its_code(sentence: str, code: str, file: str | None, snapshot: int | None) -> None:
    found = problem_of(sentence)
    assert (found.code, found.file, found.snapshot, found.why) == (code, file, snapshot, sentence)
    assert converted(json.loads(json.dumps(found.to_json())), Problem, "a problem") == found
    assert converted(upgraded({"type": "problem", "text": sentence}), Problem, "a problem") == found


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (3, "a problem must be an object, not 3"),
        (None, "a problem must be an object, not null"),
        ({"why": "x"}, "a problem needs code"),
        ({"code": "no-such", "why": "x"}, 'a problem: code must be one of missing-file, .*, not "no-such"'),
        ({"code": "fork", "why": 3}, "a problem: why must be a word, not 3"),
        ({"code": "fork", "why": "x", "who": "y"}, 'a problem has no key "who"'),
    ],
)
def test_what_is_no_problem_is_refused(value: object, says: str) -> None:
    with pytest.raises(RecordError, match=f"^{says}$"):
        converted(value, Problem, "a problem")


def test_a_log_of_format_1_is_read_as_the_same_log(tmp_path: Path) -> None:
    """Its header says 1, and its problems are sentences."""
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    log = d.evidence().logs["t"]
    lost, gone = problem_of("its parent 9 was never seen"), problem_of("metadata file x is missing")
    log = replace(
        log,
        commits=tuple(replace(c, problems=(lost,)) for c in log.commits),
        metadata=tuple(replace(m, problems=(gone,)) for m in log.metadata),
        problems=(Problem("other", "odd"), gone),
    )
    now, before = tmp_path / "now.jsonl", tmp_path / "before.jsonl"
    tablelog_file.write(log, now)
    lines = [json.loads(line) for line in now.read_text().splitlines()]
    assert lines[0]["format"] == 3
    for line in lines:
        if line["type"] == "header":
            line["format"] = 1
        elif line["type"] == "problem":
            line |= {"text": line.pop("why")}
            line.pop("code"), line.pop("file", None)
        elif "problems" in line:
            line["problems"] = [p["why"] for p in line["problems"]]
    before.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert tablelog_file.read(now) == log == tablelog_file.read(before)
