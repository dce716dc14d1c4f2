"""Every link in the documents points at something that exists, README.md stays short enough to be read, and numbers and names are true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from checkers.judge.check import ALL as CHECKERS
from checkers.selftest import ALL as PLANTED
from compose.servers import minio
from harness.cli.lists import WHAT
from tests.support.examples import examples, write_in_place

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").is_file())
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
DOCUMENTS = [ROOT / name for name in TOP] + sorted((ROOT / "docs").rglob("*.md"))
README_LINES = 150

LINK = re.compile(r"\[[^\]]*\]\(<?([^()\s>]+(?:\([^()\s]*\))?)>?(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$", re.MULTILINE)


def links(text: str) -> Iterator[str]:
    """The targets of the links of a Markdown text, in order; what stands in code is no link."""
    for match in LINK.finditer(CODE.sub("code", FENCE.sub("", text))):
        yield match[1]


@cache
def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a Markdown text: lower case, no punctuation, hyphens for spaces.

    A heading that repeats gets ``-1``, ``-2``, … behind it.
    """
    found: set[str] = set()
    seen: dict[str, int] = {}
    for match in HEADING.finditer(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(f"{anchor}-{count}" if count else anchor)
    return found


def broken(document: Path, root: Path) -> list[str]:
    """One sentence for each relative link of a document that points at nothing."""
    complaints = []
    for link in links(document.read_text(encoding="utf-8")):
        url = urlsplit(link)
        if url.scheme or url.netloc:
            continue
        target = (document.parent / unquote(url.path)).resolve() if url.path else document
        where = f"{document.relative_to(root)}: the link {link}"
        if not target.is_relative_to(root):
            complaints.append(f"{where} leaves the project")
        elif not target.exists():
            complaints.append(f"{where} points at a file that does not exist")
        elif url.fragment and unquote(url.fragment) not in anchors(target.read_text(encoding="utf-8")):
            complaints.append(f"{where} points at a heading that does not exist")
    return complaints


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_points_at_a_file_and_a_heading(document: Path) -> None:
    assert broken(document, ROOT) == []


def test_the_readme_is_at_most_150_lines() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= README_LINES, f"README.md has {len(lines)} lines; move a section to docs/"


def test_the_readme_states_no_number_of_checkers() -> None:
    """It differs from run to run, because not every checker applies to every run, and it grows."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"(?:\b\d+|\b(?:eight|nine|ten|eleven|twelve)) checkers\b", text) == []


def test_the_documents_name_every_checker_and_what_it_finds() -> None:
    """Those of ``isolation`` are told as patterns."""
    text = (ROOT / "docs/checkers.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[`([a-z]+)`\]", text, re.MULTILINE) == [c.name for c in CHECKERS]
    found = dict(re.findall(r"^\| `([a-z]+)` \| (.*) \|$", text, re.MULTILINE))
    for c in CHECKERS:
        if c.names and c.name != "isolation":
            assert {*re.findall(r"`([a-z0-9-]+)`", found[c.name])} == c.names, c.name


def test_the_readme_begins_with_a_demonstration() -> None:
    first = re.search(r"^\$ (.*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert first is not None and first[1] == "./icequake prove undelete"


def test_the_readme_lists_what_can_be_listed() -> None:
    (line,) = re.findall(
        r"^\./icequake list \[WHAT\] +(.*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert tuple(line.split(", ")) == WHAT


def test_the_servers_of_up_have_the_keys_and_the_bucket_of_the_page() -> None:
    text = (ROOT / "docs" / "own-catalog.md").read_text(encoding="utf-8")
    assert f"AWS_ACCESS_KEY_ID={minio.ACCESS_KEY} AWS_SECRET_ACCESS_KEY={minio.SECRET_KEY}\n" in text
    assert f"the bucket `{minio.BUCKET}`" in text


def test_the_readme_counts_the_planted_bugs() -> None:
    for name in ("README.md", "docs/checkers.md"):
        (count,) = re.findall(r"plants more than (\d+) known bugs", (ROOT / name).read_text(encoding="utf-8"))
        assert int(count) < len(PLANTED) <= int(count) + 100


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_a_table_ends_with_an_empty_line(document: Path) -> None:
    """Markdown takes the line below a table for its next row."""
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    assert re.findall(r"^\|.*\|[ \t]*\n(?!\|)(.*\S.*)$", text, re.MULTILINE) == []


def test_the_examples_pass_mypy(tmp_path: Path) -> None:
    files = [str(write_in_place(name, tmp_path)) for name in examples()]
    assert len(files) >= 7
    strict = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--strict", *files]
    done = subprocess.run(strict, cwd=ROOT, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_document_is_reachable_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    queue = list(reached)
    while queue:
        document = queue.pop()
        for link in links(document.read_text(encoding="utf-8")):
            url = urlsplit(link)
            target = (document.parent / unquote(url.path)).resolve()
            if not url.scheme and target.suffix == ".md" and target.is_file() and target not in reached:
                reached.add(target)
                queue.append(target)
    assert [str(d.relative_to(ROOT)) for d in DOCUMENTS if d not in reached] == []


@pytest.mark.parametrize(
    ("link", "complaint"),
    [
        ("[a](there.md)", None),
        ("[a](there.md#what-is-measured)", None),
        ("[a](there.md#what-is-measured-1)", None),
        ("[a](there.md#rest-icebergs-server)", None),
        ("[a](there.md#in-a-fence)", "points at a heading that does not exist"),
        ("[a](there.md#what-is-lost)", "points at a heading that does not exist"),
        ("[a](not-there.md)", "points at a file that does not exist"),
        ("[`a`](not-there.md)", "points at a file that does not exist"),
        ("[a](../outside.md)", "leaves the project"),
        ("[a](#here)", None),
        ("[a](#nowhere)", "points at a heading that does not exist"),
        ("[a](https://iceberg.apache.org/spec/#nowhere)", None),
        ("`[a](not-there.md)`", None),
        ("```\n[a](not-there.md)\n```", None),
    ],
)
def test_a_link_to_nothing_is_named(tmp_path: Path, link: str, complaint: str | None) -> None:
    there = "# `rest`: Iceberg's server\n\n## What is measured\n\n## What is measured\n\n```\n# in a fence\n```\n"
    (tmp_path / "there.md").write_text(there)
    here = tmp_path / "here.md"
    here.write_text(f"# Here\n\n{link}\n")
    found = broken(here, tmp_path.resolve())
    assert len(found) == (complaint is not None)
    assert not complaint or complaint in found[0]
