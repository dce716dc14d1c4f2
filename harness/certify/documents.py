"""Certificates in the documents: ``python -m harness.certify.documents certify.json …`` writes what came into them.

Each catalog's page in ``docs/catalogs`` gets what does not hold, ``docs/certify.md`` the matrix of all. Give the certificates of all catalogs,
also several of one: their tries are added.
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
from reports.timetofind import markdown, written

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


def matrix(c: Certificate) -> str:
    """Requirement × catalog in Markdown."""
    by_catalog = {name: c.of(name) for name in c.servers}
    linked = [f"[`{name}`](catalogs/{name}.md)" for name in by_catalog]
    return markdown(["requirement", *linked], _rows(c.questions, list(by_catalog.values())))


def _rows(questions: Sequence[Question], answers: Sequence[Mapping[str, RequirementResult]]) -> Iterator[list[str]]:
    group = ""
    for q in questions:
        if q.group != group:
            group = q.group
            yield [f"**{group}**", *("" for _ in answers)]
        yield [f"`{q.id}`", *(_cell(a.get(q.id)) for a in answers)]


def _cell(a: RequirementResult | None) -> str:
    if a is None:
        return "not asked"
    return f"**{a.effect}**" if a.conclusion is Conclusion.FAIL else str(a.conclusion)


def write(certificates: Sequence[Certificate], root: Path) -> None:
    """Write them into the documents. Raises PageError: a page has no marks."""
    whole = together(certificates)
    parts = [(PAGES / f"{name}.md", PAGE_PART, page(whole, name)) for name in whole.servers]
    for file, name, text in [*parts, (MATRIX, MATRIX_PART, matrix(whole))]:
        path = root / file
        path.write_text(written(path.read_text(encoding="utf-8"), {name: text}, str(file)), encoding="utf-8")


if __name__ == "__main__":
    write([read(Path(name)) for name in sys.argv[1:]], Path())
