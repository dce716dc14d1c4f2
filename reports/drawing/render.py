"""The one renderer of pages: HTML without network and, but for sorting, without scripts; a terminal's lines; JUnit; JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree as ET

from jinja2 import Template
from markupsafe import Markup
from rich import table as rich
from rich.text import Text as Line

from checkers.evidence.runfolder import replace_file
from reports.drawing import words
from reports.drawing.page import (
    BANNER_SYMBOLS,
    Cards,
    Form,
    Heading,
    JUnitSuite,
    Page,
    Pairs,
    Section,
    Table,
    TableCell,
    Text,
)
from reports.drawing.templates import TEMPLATES, environment

JUNIT = "junit.xml"
NARROWEST = 104
"""Columns of the terminal's lines."""
LISTED = 40
"""Lines of a list on the terminal; the page has all."""
_UNIT = re.compile(r"(?<=\d) (?=(?:ms|s|min|h)\b|%)")


def write(page: Page, into: Path, *more: Path) -> Path:
    """Write HTML, JSON and, of a page with cases, JUnit into a folder, and the JSON to ``more`` files, too; return the HTML's path.

    Raises:
        OSError: one cannot be written.
    """
    for path in (into / f"{page.file}.json", *more) if page.data is not None else ():
        replace_file(path, data(page))
    if page.suite is not None:
        replace_file(into / JUNIT, junit(page.suite))
    written = into / f"{page.file}.html"
    replace_file(written, html(page))
    return written


def data(page: Page) -> str:
    """The page's values as JSON."""
    return json.dumps(page.data, indent=None if page.dense else 1, ensure_ascii=False, default=str) + "\n"


def html(page: Page) -> str:
    """The page as one file that asks nothing of any other."""
    asks = sorts = opens = False
    for block in page.blocks:
        asks |= isinstance(block, Form)
        sorts |= isinstance(block, Table) and any(c.sort for c in block.columns)
        opens |= isinstance(block, Cards)
    template, style, sort, cards = _made()
    script = sort * sorts + cards * opens
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return words.printable(
        template.render(
            page=page, style=style, script=Markup(script), script_hash=f"sha256-{digest}", opens=opens, asks=asks
        )
    )


@cache
def _made() -> tuple[Template, Markup, str, str]:
    """The template, the style, and the scripts of tables and of cards: read once, because a server shows many pages."""
    files = ("page.css", "document.css", "sort.js", "page.js")
    style, more, sort, cards = ((TEMPLATES / name).read_text("utf-8") for name in files)
    template = environment(cell=cell, plain=plain, symbols=BANNER_SYMBOLS).get_template("document.html")
    return template, Markup(style + more), sort, cards


def cell(value: str | TableCell) -> TableCell:
    """A cell of a row, also of one that is only a text."""
    return value if isinstance(value, TableCell) else TableCell(value)


# --- the terminal -----------------------------------------------------------------------------------------------------


def terminal(page: Page, *, tables: bool = True) -> list[str | rich.Table]:
    """What a terminal shows, from top to bottom: the banner, then the sections that are for it. ``tables``: whether theirs are shown."""
    banner = page.banner
    out: list[str | rich.Table] = [*wrapped(f"{banner.headline}. {banner.sentence}".strip(), "", "")]
    for section in sorted(page.sections, key=lambda s: s.last):
        if section.terminal is not None:
            out += _section(section, section.terminal, tables)
    return [words.printable(line) if isinstance(line, str) else line for line in out]


def _section(section: Section, head: str, tables: bool) -> Iterator[str | rich.Table]:
    """A section on the terminal; nothing if it has nothing to show there."""
    paragraphs = []
    for block in section.blocks:
        if isinstance(block, Table) and tables and block.rows:
            if any(c.terminal is not None for c in block.columns):
                yield ""
                yield table(block)
        elif isinstance(block, Heading):
            yield from ("", plain(block.name))
        elif isinstance(block, Pairs):
            wide = max((len(name) for name, _ in block.rows), default=0)
            yield from (f"  {name:<{wide}}  {plain(value)}" for name, value in block.rows)
        elif isinstance(block, Text) and block.form in ("plain", "list"):
            paragraphs += [plain(p) for p in block.paragraphs]
    if head and paragraphs:
        yield from ("", f"  {head}")
    for paragraph in paragraphs[:LISTED]:
        yield from wrapped(f"* {paragraph}", "  ", "    ") if head else ("", *wrapped(paragraph))
    if len(paragraphs) > LISTED:
        yield f"  … and {len(paragraphs) - LISTED} more on the page"


def table(shown: Table) -> rich.Table:
    """The columns of a table that are for the terminal."""
    out = rich.Table(box=None, pad_edge=False)
    chosen = [(n, c, c.terminal) for n, c in enumerate(shown.columns) if c.terminal is not None]
    for n, (_, column, name) in enumerate(chosen):
        folds = n == 0 or (not column.right and column.most > 160)
        justify: Literal["left", "right"] = "right" if column.right else "left"
        out.add_column(words.printable(name), justify=justify, no_wrap=not folds, overflow="fold")
    for row in (r for r in shown.rows if r.terminal):
        cells = [cell(value) for value in row.cells]
        if row.head:
            out.add_row(Line(words.printable(row.head)))
        else:
            out.add_row(*(Line(words.printable(_plainly(cells[n], c.most))) for n, c, _ in chosen))
    return out


def _plainly(found: TableCell, most: int) -> str:
    return words.shorten(plain(found.text), most) if found.plain is None else found.plain


def plain(text: str) -> str:
    """A text without its marks."""
    return text.striptags() if isinstance(text, Markup) else text


def wrapped(text: str, first: str = "  ", others: str = "  ") -> list[str]:
    """Wrapped lines that keep each number next to its unit. ``first``, ``others``: what the first and the other lines begin with."""
    kept = _UNIT.sub("\u00a0", text)
    lines = textwrap.wrap(
        kept, NARROWEST, initial_indent=first, subsequent_indent=others, break_on_hyphens=False, break_long_words=False
    )
    return [line.replace("\u00a0", " ") for line in lines]


# --- JUnit ------------------------------------------------------------------------------------------------------------


def junit(suite: JUnitSuite) -> str:
    """The cases for CI servers, by Jenkins' schema (junit-10.xsd)."""
    counts = {what: sum(c.outcome == what for c in suite.cases) for what in ("failure", "error", "skipped")}
    total = {"tests": len(suite.cases), "failures": counts["failure"], "errors": counts["error"]}
    shared = {"time": f"{suite.seconds:.3f}", **{k: str(v) for k, v in total.items()}}
    root = ET.Element("testsuites", {"name": "icequake", **shared})
    name = words.printable(suite.name)
    within = ET.SubElement(root, "testsuite", {"name": name, **shared, "skipped": str(counts["skipped"])})
    if suite.started is not None:
        within.set("timestamp", suite.started.strftime("%Y-%m-%dT%H:%M:%S"))
    properties = ET.SubElement(within, "properties")
    for key, value in suite.properties.items():
        if value is not None:
            ET.SubElement(properties, "property", name=key, value=words.printable(str(value)))
    for c in suite.cases:
        case = ET.SubElement(within, "testcase", name=words.printable(c.name), classname=name, time=c.seconds)
        if c.outcome != "passed":
            attributes = {"message": words.printable(words.shorten(c.message, 500))}
            attributes |= {} if c.type is None else {"type": words.printable(words.shorten(c.type, 200))}
            ET.SubElement(case, c.outcome, attributes).text = words.printable(c.text)
        if c.out:
            ET.SubElement(case, "system-out").text = words.printable(c.out)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
