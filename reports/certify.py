"""The page of a certificate: a matrix of requirements and catalogs, and behind each cell what was expected, what came, and the wire."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import NamedTuple

from checkers.certificate import Certificate, Conclusion, Exchange, Question, RequirementResult
from reports.drawing import words
from reports.drawing.page import (
    Banner,
    Block,
    FileText,
    Fold,
    Heading,
    JUnitCase,
    JUnitSuite,
    Page,
    Pairs,
    Section,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Text,
    badge,
    link,
)

FILE = "certify"
CONCLUSION_CLASSES = {
    Conclusion.PASS: "valid",
    Conclusion.FAIL: "invalid",
    Conclusion.SOFT: "unknown",
    Conclusion.ERROR: "unknown",
    Conclusion.INFO: "measured",
    Conclusion.NOT_APPLICABLE: "incomplete",
}
LEGEND = (
    "pass: it held in every try",
    "soft: what is only recommended does not hold; the server conforms",
    "fail: one try showed that it does not hold",
    "info: nobody requires it, and a user wants to know it",
    "error: it could not be asked, which is never a pass",
    "n/a: the server has not what it is about; the reason stands with it",
)
MOST_BODY = 4000
"""Characters of a body on the page: a table's metadata with four snapshots, or the 200 properties of a namespace; the JSON has all of it."""


class Finding(NamedTuple):
    """A document of icequake that tells why servers fail a requirement, and shows it with an engine; ``text``: how its summary begins;
    ``until``: what who runs such a server can do before it is mended, empty if nothing is known."""

    file: str
    text: str
    until: str = ""


FINDINGS = {
    "checked-at-the-swap": Finding(
        "docs/findings/rest-recreated-table.md",
        "A commit stands before the database's swap while somebody drops its table and creates another one of that name. "
        "Iceberg's REST server answers 500 IllegalStateException: Table UUID does not match in place of 409.",
    ),
    "expiry-spares-refs": Finding(
        "docs/findings/expiry-takes-references.md",
        "remove-snapshots of a snapshot that a tag or branch names is answered with 200, and the tag or branch is gone.",
    ),
    "txn-one-table": Finding(
        "docs/findings/rest-one-table-transaction.md",
        "Iceberg's RESTCatalogAdapter answers 204 to POST /v1/transactions/commit and makes nothing of the request, if another "
        "commit to the table comes after it has checked the requirements.",
        "Let clients commit by the table's own endpoint, as Iceberg's Java client does, and DuckDB if it is attached with "
        "DISABLE_MULTI_TABLE_COMMIT.",
    ),
    "unknown-deletes-nothing": Finding(
        "docs/findings/nessie-deleted-metadata.md",
        "Nessie's REST endpoint moves its branch in the database, and the database's reply gets lost. Nessie answers 500, as it "
        "should, and removes the metadata file that it had written.",
    ),
    "unknown-is-5xx": Finding(
        "docs/findings/rest-commit-told-as-conflict.md",
        "Iceberg's REST server on a JDBC catalog makes a commit in its database, the database's reply gets lost, and the server "
        "answers 409 CommitFailedException: Requirement failed: branch main has changed.",
    ),
}
"""Requirement → what tells of it. The page has its words, because who reads a page has no clone."""


def of(c: Certificate, terminal: Collection[str] | None = None) -> Page:
    """The page; its data is ``certify.json``. ``terminal``: the requirements of which a terminal has rows; None: all."""
    asked = {a.id for a in c.answers}
    return Page(
        FILE,
        "certificate",
        _banner(c),
        [
            Section(
                "Requirements",
                "requirements",
                [_matrix(c, asked, asked if terminal is None else terminal)],
                terminal="",
            ),
            Section("What does not hold", "failures", list(_failures(c)) or [Text(["Nothing."])], short="Failures"),
            Section("What was asked", "asked", [_questions(c, asked)], short="Asked"),
            Section("What the verdicts mean", "verdicts", [Text(LEGEND, "list")], short="Verdicts"),
        ],
        c.to_json(),
        facts=[
            *((c.called(n), address) for n, address in c.servers.items()),
            ("made", c.made),
            ("icequake", c.icequake),
        ],
        command=("again", c.command),
        suite=_suite(c),
    )


def _banner(c: Certificate) -> Banner:
    status = {0: "valid", 1: "invalid", 2: "unknown"}[c.exit_code]
    if c.exit_code == 0 and any(map(c.partial, c.servers)):
        status = "incomplete"  # what somebody chose is no certificate of the rest
    if len(c.servers) == 1:
        (name,) = c.servers
        return Banner(status, f"catalog {c.called(name)}: {c.headline(name)}", "")
    return Banner(status, f"{len(c.servers)} catalogs", " ".join(f"{c.called(n)}: {c.headline(n)}." for n in c.servers))


def _matrix(c: Certificate, asked: set[str], terminal: Collection[str]) -> Table:
    by_server = {name: c.of(name) for name in c.servers}
    rows: list[TableRow] = []
    group = ""
    for q in (q for q in c.questions if q.id in asked):
        if q.group != group:
            group = q.group
            rows.append(TableRow(head=group, terminal=any(x.group == group and x.id in terminal for x in c.questions)))
        cells = [_cell(by_server[name].get(q.id)) for name in c.servers]
        rows.append(
            TableRow([TableCell(q.id, title=q.sentence), q.level, *cells], anchor=q.id, terminal=q.id in terminal)
        )
    columns = [TableColumn("requirement", terminal="requirement"), TableColumn("level", terminal="level")]
    return Table([*columns, *(TableColumn(name, terminal=name) for name in c.servers)], rows, form="wide")


def _cell(a: RequirementResult | None) -> TableCell:
    if a is None:
        return TableCell("not asked")
    if a.conclusion in (Conclusion.FAIL, Conclusion.SOFT):
        text = link(badge(CONCLUSION_CLASSES[a.conclusion], a.conclusion), f"#{_anchor(a)}")
        effect = a.effect if a.conclusion is Conclusion.FAIL else ""
        return TableCell(text, (effect, _often(a)), plain=" · ".join(filter(None, (a.conclusion, effect, _often(a)))))
    reason = a.why or a.actual
    return TableCell(
        badge(CONCLUSION_CLASSES[a.conclusion], a.conclusion), (reason,) if reason else (), plain=_plainly(a, reason)
    )


def _plainly(a: RequirementResult, reason: str) -> str:
    return f"{a.conclusion}: {reason}" if a.conclusion is not Conclusion.PASS else a.conclusion


def _often(a: RequirementResult) -> str:
    return f"{a.alike} of {a.tries} tries" if a.tries > 1 else ""


def _anchor(a: RequirementResult) -> str:
    return f"{a.catalog}-{a.id}"


def _failures(c: Certificate) -> Iterator[Block]:
    questions = {q.id: q for q in c.questions}
    shown = [a for a in c.answers if a.conclusion in (Conclusion.FAIL, Conclusion.SOFT, Conclusion.ERROR)]
    for a in sorted(shown, key=lambda a: (list(CONCLUSION_CLASSES).index(a.conclusion), a.catalog)):
        yield Heading(f"{a.catalog}: {a.id}", _anchor(a))
        yield Pairs(_facts(questions[a.id], a))
        if a.wire:
            yield Fold("the wire", [FileText("\n\n".join(map(wire, a.wire)))])


def _facts(q: Question, a: RequirementResult) -> list[tuple[str, str]]:
    facts = [("must hold", q.sentence), ("said by", q.source)]
    facts += [("expected", a.expected), ("actual", a.actual)] if a.expected else [("why", a.why)]
    facts += [("known case", FINDINGS[q.id].text)] if q.id in FINDINGS else []
    facts += [("so it", f"{a.conclusion}s, {q.level}; {q.effect}"), ("tries", _often(a) or "1")]
    facts += [("how it was asked", _asked(q, a))] if q.asked else []
    facts += [("what to do", q.to_do)] if q.to_do else []
    return facts + (
        [("until it is mended", until)] if (until := FINDINGS[q.id].until if q.id in FINDINGS else "") else []
    )


def _asked(q: Question, a: RequirementResult) -> str:
    """How it was asked, all tries together."""
    return q.asked if a.tries == 1 else f"{q.asked} All of this {a.tries} times."


def wire(e: Exchange) -> str:
    """A request and its answer as text."""
    sent = "" if e.sent is None else f"\n{_body(e.sent)}"
    got = f"\n{_body(e.body)}" if e.body is not None else f"\n{e.text}" if e.text else ""
    asked = "".join(f"\n{name}: {value}" for name, value in e.asked.items())
    return words.printable(f"{e.method} {e.path}{asked}{sent}\n→ {e.status or 'no answer'}{got}")


def _body(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MOST_BODY else f"{text[:MOST_BODY]}…"


def _questions(c: Certificate, asked: set[str]) -> Table:
    columns = [TableColumn(name) for name in ("requirement", "must hold", "level", "if not", "said by")]
    rows = [TableRow([q.id, q.sentence, q.level, q.effect, q.source]) for q in c.questions if q.id in asked]
    return Table(columns, rows)


def _suite(c: Certificate) -> JUnitSuite:
    outcome = {Conclusion.FAIL: "failure", Conclusion.ERROR: "error", Conclusion.NOT_APPLICABLE: "skipped"}
    cases = [
        JUnitCase(
            f"{a.catalog} {a.id}",
            outcome.get(a.conclusion, "passed"),  # type: ignore[arg-type]
            a.why or (f"expected {a.expected}; actual {a.actual}" if a.expected else a.actual),
            "\n\n".join(map(wire, a.wire)),
            seconds=f"{a.seconds:.3f}",
        )
        for a in c.answers
    ]
    return JUnitSuite("certify", sum(a.seconds for a in c.answers), {"command": c.command}, cases)


def badge_json(c: Certificate, catalog: str) -> dict[str, object]:
    """What a badge says of a catalog, in the form of shields' endpoints."""
    colour = {0: "yellow" if c.partial(catalog) else "brightgreen", 1: "red", 2: "lightgrey"}[c.code_of(catalog)]
    message = f"{c.asked(catalog)} · {c.counts(catalog)}"
    return {"schemaVersion": 1, "label": "icequake certify", "message": message, "color": colour}


def line_of(a: RequirementResult) -> str:
    """One answer in a line."""
    mark = {Conclusion.PASS: "✓", Conclusion.FAIL: "✕", Conclusion.SOFT: "~", Conclusion.ERROR: "!"}.get(
        a.conclusion, "·"
    )
    answer = f"expected {a.expected}; actual {a.actual}" if a.expected else a.why or a.actual
    return (
        f"{mark} {a.catalog} {a.id}: {a.conclusion}"
        + (f" ({a.effect})" if a.conclusion is Conclusion.FAIL else "")
        + (f": {answer}" if answer else "")
    )
