"""How files that others wrote are read: line by line whatever the blocks, and never deeper than a bound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.file import opened
from workloads.file.opened import DEPTH, UnusableFile, blocks, document, lines, too_deep


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("text", [b"", b"\n", b"a\n", b"a\nbb\n\nccc", b"\n\n", b"a\rb\r\nc\n", b"no end"])
def test_lines_are_those_of_the_file_whatever_the_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, text: bytes
) -> None:
    monkeypatch.setattr(opened, "BLOCK", size)
    path = tmp_path / "a.jsonl"
    path.write_bytes(text)
    assert [*lines(path)] == text.splitlines(keepends=True) or b"\r" in text
    assert b"".join(blocks(path)) == b"".join(lines(path)) == text
    assert all(b.endswith(b"\n") for b in [*blocks(path)][:-1])


def test_a_line_and_a_document_that_are_too_long_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "BLOCK", 8)
    monkeypatch.setattr(opened, "MOST_BYTES", 10)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"12345\n12345\n" + b"1" * 9 + b"\n" + b"1" * 30 + b"\n")
    with pytest.raises(UnusableFile, match=r"a\.jsonl:4: the line is longer than 10 bytes"):
        print(*lines(path))
    size = path.stat().st_size
    assert len(document(path, size)) == size
    with pytest.raises(UnusableFile, match=rf"a\.jsonl: longer than {size - 1} bytes"):
        document(path, size - 1)


VALUES = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\,:a'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}"\\'), inner),
)


@given(VALUES, st.integers(0, DEPTH + 3), st.booleans())
def test_the_depth_is_that_of_values_not_of_brackets_in_texts(value: object, more: int, named: bool) -> None:
    def levels(v: object) -> int:
        if isinstance(v, list | dict):
            return 1 + max(map(levels, v.values() if isinstance(v, dict) else v), default=0)
        return 0

    for _ in range(more):
        value = {"[[": value, "{": "]"} if named else ["[" * 150, value]
    assert too_deep(json.dumps(value).encode()) == (levels(value) > DEPTH)
