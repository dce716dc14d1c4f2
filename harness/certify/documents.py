"""Certificates in the documents: ``python -m harness.certify.documents certify.json …`` writes what came into them.

Each catalog's page in ``docs/catalogs`` gets what does not hold, ``docs/certify.md`` the matrix of all. Of several certificates of one catalog
the tries are added. A catalog whose certificate is not given keeps its page, and its column is what that page says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from checkers.certificate import Certificate, Conclusion, Question, RequirementResult
from harness.certify.certify import WORST, read
from reports.timetofind import BEGIN, END, PageError, markdown, written

PAGES, MATRIX = Path("docs/catalogs"), Path("docs/certify.md")
PAGE_PART, MATRIX_PART = "certificate", "certificates"
MOST_OF_A_CELL = 200
"""Characters of an answer in a document; ``certify.json`` has all of it."""
OWN = re.compile(
    r"(?<=/v1/)\S+(?=/namespaces)|iq_[a-z0-9_]+?_[0-9a-f]{8}(?:_\d+)?|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b\d{15,}\b"
)
"""Names and ids that no other try has, and the prefix of a warehouse."""
PLACE = re.compile(r"\b(?:https?|s3a?|file):/+\S*?([^/\s]*)(?=[\s,;)\]]|$)|\b\d+(?:\.\d+){3}:\d+")
"""An address of one machine; of a file its name is kept."""
TOLD_ROW = re.compile(
    r"^\| `(?P<id>[a-z0-9-]+)` \| (?:\*\*)?(?P<verdict>fail|soft|error)(?:\*\* \((?P<effect>[a-z ]+)\))?, \d",
    re.MULTILINE,
)
TOLD_NUMBER = re.compile(r"^\* `([a-z0-9-]+)`: ", re.MULTILINE)
TOLD_ABSENT = re.compile(r"^\* n/a, [^`]*: (.*)$", re.MULTILINE)
TOLD_HEAD = re.compile(r"\b(\d+) of (\d+) asked; ")
"""What a page that :func:`page` wrote says."""
TOLD_COLUMN = re.compile(r"(?<=\| \[`)[a-z0-9-]+(?=`\]\(catalogs/)")
SAME = re.compile(r"…(?:, …)+")


def plainly(text: str) -> str:
    """An answer as a document has it: in one line, not long, and without what only one machine or one try has."""
    plain = SAME.sub("…", OWN.sub("…", PLACE.sub(lambda m: m[1] or "…", " ".join(text.split()))))
    return plain if len(plain) <= MOST_OF_A_CELL else f"{plain[:MOST_OF_A_CELL].rsplit(' ', 1)[0]} …"


def added(one: RequirementResult, more: RequirementResult) -> RequirementResult:
    """Two answers of one requirement: the worse one, with the tries of both."""
    worse = min(one, more, key=lambda a: WORST.index(a.conclusion))
    alike = sum(a.alike for a in (one, more) if a.conclusion is worse.conclusion)
    return replace(worse, tries=one.tries + more.tries, alike=alike)


def together(certificates: Iterable[Certificate]) -> Certificate:
    """One certificate of all catalogs; the questions are those of the last one."""

    def add(one: Certificate, more: Certificate) -> Certificate:
        answers = {(a.catalog, a.id): a for a in one.answers}
        for a in more.answers:
            answers[a.catalog, a.id] = added(answers[a.catalog, a.id], a) if (a.catalog, a.id) in answers else a
        both = {**one.servers, **more.servers}, {**one.software, **more.software}
        return replace(more, servers=both[0], software=both[1], answers=list(answers.values()))

    return reduce(add, certificates)


def page(c: Certificate, catalog: str) -> str:
    """What does not hold on a catalog, what was only told, and why the rest does not apply, in Markdown."""
    results = [a for q in c.questions if (a := c.of(catalog).get(q.id))]
    by = {k: [a for a in results if a.conclusion is k] for k in Conclusion}
    shown = [*by[Conclusion.FAIL], *by[Conclusion.SOFT], *by[Conclusion.ERROR]]
    lines = [f"`{a.id}`: {plainly(a.actual)}" for a in by[Conclusion.INFO]]
    absent: dict[str, list[str]] = {}
    for a in by[Conclusion.NOT_APPLICABLE]:
        absent.setdefault(a.why, []).append(f"`{a.id}`")
    lines += [f"n/a, {why}: {', '.join(ids)}" for why, ids in absent.items()]
    software = f"{c.software[catalog]}, " if catalog in c.software else ""
    head = f"{software}icequake {c.icequake}: {c.headline(catalog)}."
    table = markdown(["requirement", "verdict", "what came"], map(_row, shown)) if shown else "All of them hold.\n"
    return "\n".join([head, "", table, *(f"* {line}" for line in lines)]) + "\n"


def _row(a: RequirementResult) -> list[str]:
    verdict = f"**{a.conclusion}** ({a.effect})" if a.conclusion is Conclusion.FAIL else str(a.conclusion)
    came = f"expected {a.expected}; {a.actual}" if a.expected else a.why or a.actual
    return [f"`{a.id}`", f"{verdict}, {a.alike} of {a.tries}", plainly(came)]


def matrix(questions: Sequence[Question], columns: Mapping[str, Mapping[str, str]]) -> str:
    """Requirement × catalog in Markdown.

    Args:
        columns: catalog → what stands in it for each requirement that was asked, or does not apply.
    """
    linked = [f"[`{name}`](catalogs/{name}.md)" for name in columns]
    return markdown(["requirement", *linked], _rows(questions, list(columns.values())))


def _rows(questions: Sequence[Question], columns: Sequence[Mapping[str, str]]) -> Iterator[list[str]]:
    group = ""
    for q in questions:
        if q.group != group:
            group = q.group
            yield [f"**{group}**", *("" for _ in columns)]
        yield [f"`{q.id}`", *(column.get(q.id, "not asked") for column in columns)]


def _column(c: Certificate, catalog: str) -> dict[str, str]:
    return {
        id: f"**{a.effect}**" if a.conclusion is Conclusion.FAIL else str(a.conclusion)
        for id, a in c.of(catalog).items()
    }


def told(text: str, questions: Sequence[Question], file: str) -> dict[str, str]:
    """The column of a catalog, from its page, which names all but what holds.

    Raises:
        PageError: it does not say of each question whether it was asked, so nobody knows what holds.
    """
    _, _, part = text.partition(BEGIN.format(PAGE_PART))
    part, _, _ = part.partition(END.format(PAGE_PART))
    found = {m["id"]: f"**{m['effect']}**" if m["effect"] else m["verdict"] for m in TOLD_ROW.finditer(part)}
    found |= dict.fromkeys(TOLD_NUMBER.findall(part), str(Conclusion.INFO))
    errors = sum(verdict == Conclusion.ERROR for verdict in found.values())
    absent = {id for line in TOLD_ABSENT.findall(part) for id in re.findall(r"`(.*?)`", line)}
    asked = TOLD_HEAD.search(part)
    if asked is None or int(asked[2]) != len(questions) or int(asked[1]) + errors + len(absent) != len(questions):
        raise PageError(f"{file}: is no whole certificate of {len(questions)} requirements; give its certify.json")
    found |= dict.fromkeys(absent, str(Conclusion.NOT_APPLICABLE))
    return {q.id: found.get(q.id, str(Conclusion.PASS)) for q in questions}


def write(certificates: Sequence[Certificate], root: Path) -> None:
    """Write them into the documents. Raises PageError: a page has no marks, or one of a catalog that is not given does not say all."""
    whole = together(certificates)
    pages = {path.stem: path.read_text(encoding="utf-8") for path in sorted((root / PAGES).glob("*.md"))}
    before = (root / MATRIX).read_text(encoding="utf-8")
    others = [name for name, text in pages.items() if BEGIN.format(PAGE_PART) in text]
    columns = {
        name: _column(whole, name) if name in whole.servers else told(pages[name], whole.questions, f"{name}.md")
        for name in dict.fromkeys([*TOLD_COLUMN.findall(before), *whole.servers, *others])
        if name in whole.servers or name in others
    }
    parts = [(PAGES / f"{name}.md", PAGE_PART, page(whole, name)) for name in whole.servers]
    for file, name, text in [*parts, (MATRIX, MATRIX_PART, matrix(whole.questions, columns))]:
        path = root / file
        path.write_text(written(path.read_text(encoding="utf-8"), {name: text}, str(file)), encoding="utf-8")


if __name__ == "__main__":
    write([read(Path(name)) for name in sys.argv[1:]], Path())
