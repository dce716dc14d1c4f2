"""What certificates come to in the documents."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.certificate import Absent, Certificate, Conclusion, Level, RequirementResult, Severity
from harness.certify import documents
from harness.certify.requirements import requirements
from reports.timetofind import PageError

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").is_file())
MATRIX = re.compile(r"<!-- certificates: begin -->\n(.*)<!-- certificates: end -->", re.DOTALL)


def answer(id: str, conclusion: Conclusion, **fields: object) -> RequirementResult:
    given = RequirementResult("c", id, Level.MUST, Severity.LOSS, conclusion, 1, 1)
    return replace(given, **fields)  # type: ignore[arg-type]


def certificate(*answers: RequirementResult, catalog: str = "c") -> Certificate:
    questions = [r.question for r in requirements()]
    return Certificate({catalog: ""}, questions, [replace(a, catalog=catalog) for a in answers], "", "1", "")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("POST /v1/namespaces/iq_null_ref_0a1b2c3d_0/tables/t: 500", "POST /v1/namespaces/…/tables/t: 500"),
        ("main is at 1795823929732137000", "main is at …"),
        ("s3://warehouse/a/metadata/00001.metadata.json is not", "00001.metadata.json is not"),
        ("file:///home/me/x.avro, which", "x.avro, which"),
        ("HTTPConnectionPool 127.0.0.1:8181", "HTTPConnectionPool …"),
        ("GET /v1/main%7Cs3%3A%2F%2Fw/namespaces/n: 200", "GET /v1/…/namespaces/n: 200"),
        ("not on 3: 1795823929732137000, 1795823929732137001 and 1 more", "not on 3: … and 1 more"),
        ("two\n lines", "two lines"),
    ],
)
def test_a_document_names_nothing_that_one_machine_or_one_try_has(said: str, shown: str) -> None:
    assert documents.plainly(said) == shown


def test_the_tries_of_two_certificates_are_added_and_the_worse_one_counts() -> None:
    held = answer("null-ref", Conclusion.PASS, tries=3, alike=3)
    broke = answer("null-ref", Conclusion.FAIL, tries=3, alike=2, expected="one", actual="two")
    for order in ([held, broke], [broke, held]):
        (found,) = documents.together(map(certificate, order)).answers
        assert (found.conclusion, found.tries, found.alike, found.actual) == (Conclusion.FAIL, 6, 2, "two")


def test_a_page_has_what_does_not_hold_and_why_the_rest_does_not_apply() -> None:
    found = documents.page(
        certificate(
            answer("null-ref", Conclusion.FAIL, expected="409", actual="200"),
            answer("etag-fresh", Conclusion.SOFT, expected="a|b", actual="c"),
            answer("credentials", Conclusion.NOT_APPLICABLE, why=Absent.UNDECLARED.value),
            answer("progress", Conclusion.INFO, actual="3 of 8"),
            answer("plans", Conclusion.PASS),
            answer("overload", Conclusion.ERROR, why="no table can be created"),
        ),
        "c",
    )
    assert "| `null-ref` | **fail** (loses data), 1 of 1 | expected 409; 200 |" in found
    assert "| `etag-fresh` | soft, 1 of 1 | expected a\\|b; c |" in found
    assert "| `overload` | error, 1 of 1 | no table can be created |" in found
    assert f"* n/a, {Absent.UNDECLARED}: `credentials`" in found and "* `progress`: 3 of 8" in found
    assert "plans" not in found


def test_what_is_written_stands_between_the_marks_of_each_page_and_in_the_matrix(tmp_path: Path) -> None:
    (tmp_path / documents.PAGES).mkdir(parents=True)
    for file, part in (
        ("docs/catalogs/a.md", "certificate"),
        ("docs/catalogs/b.md", "certificate"),
        ("docs/certify.md", "certificates"),
    ):
        (tmp_path / file).write_text(f"before\n<!-- {part}: begin -->\nold\n<!-- {part}: end -->\nafter\n")
    both = [
        certificate(answer("null-ref", Conclusion.FAIL, expected="x", actual="y"), catalog="a"),
        certificate(answer("null-ref", Conclusion.PASS), catalog="b"),
    ]
    documents.write(both, tmp_path)
    text = (tmp_path / "docs/certify.md").read_text()
    assert "| `null-ref` | **loses data** | pass |" in text and "| `plans` | not asked | not asked |" in text
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| `null-ref` |" in (tmp_path / "docs/catalogs/a.md").read_text()
    assert "All of them hold." in (tmp_path / "docs/catalogs/b.md").read_text()


def pages(root: Path, **texts: str) -> None:
    """Documents with a page of each of these catalogs, and the matrix."""
    (root / documents.PAGES).mkdir(parents=True)
    for name, text in texts.items():
        (root / documents.PAGES / f"{name}.md").write_text(
            f"<!-- certificate: begin -->\n\n{text}\n<!-- certificate: end -->\n"
        )
    (root / documents.MATRIX).write_text("<!-- certificates: begin -->\n<!-- certificates: end -->\n")


def test_the_column_of_a_catalog_that_is_not_asked_anew_is_what_its_page_says(tmp_path: Path) -> None:
    ids = [r.id for r in requirements()]
    given = dict.fromkeys(ids, Conclusion.PASS) | {
        "null-ref": Conclusion.FAIL,
        "etag-fresh": Conclusion.SOFT,
        "overload": Conclusion.ERROR,
        "progress": Conclusion.INFO,
        "plans": Conclusion.NOT_APPLICABLE,
        "credentials": Conclusion.NOT_APPLICABLE,
    }
    old = certificate(
        *(answer(id, c, why="it is so", expected="409", actual="a `b`: c") for id, c in given.items()), catalog="old"
    )
    new = certificate(answer("null-ref", Conclusion.PASS), catalog="new")
    pages(tmp_path, old="", new="", all="")
    documents.write([old, new, certificate(*(answer(id, Conclusion.PASS) for id in ids), catalog="all")], tmp_path)
    both = (tmp_path / documents.MATRIX).read_text()
    documents.write([new], tmp_path)
    now = (tmp_path / documents.MATRIX).read_text()
    assert both == now
    assert "| `null-ref` | **loses data** | pass | pass |" in now
    assert "| `overload` | error | not asked | pass |" in now


def test_a_page_that_does_not_say_what_was_asked_gives_no_column(tmp_path: Path) -> None:
    some = documents.page(certificate(answer("null-ref", Conclusion.PASS), catalog="some"), "some")
    pages(tmp_path, some=some, new="")
    with pytest.raises(
        PageError, match=r"some\.md: is no whole certificate of 60 requirements; give its certify\.json"
    ):
        documents.write([certificate(answer("null-ref", Conclusion.PASS), catalog="new")], tmp_path)


def test_the_matrix_of_the_documents_has_each_requirement_and_says_what_the_pages_say() -> None:
    (text,) = MATRIX.findall((ROOT / documents.MATRIX).read_text(encoding="utf-8"))
    head, _, *rows = [
        [c.strip() for c in line.strip("|").split("|")] for line in text.split("\n") if line.startswith("|")
    ]
    catalogs = [re.findall(r"`(.*)`", name)[0] for name in head[1:]]
    assert [row[0].strip("`") for row in rows if row[0].startswith("`")] == [r.id for r in requirements()]
    for n, catalog in enumerate(catalogs, 1):
        page = (ROOT / documents.PAGES / f"{catalog}.md").read_text(encoding="utf-8")
        told = dict(re.findall(r"^\| `([a-z0-9-]+)` \| \*\*fail\*\* \(([a-z ]+)\), \d+ of \d+ \|", page, re.MULTILINE))
        assert told == {row[0].strip("`"): row[n].strip("*") for row in rows if row[n].startswith("**")}, catalog
