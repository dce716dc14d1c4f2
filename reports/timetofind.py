"""What a measurement of the time to find leaves: its JSON, its table on the terminal, and the tables of a Markdown page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from checkers.costs.defectsearch import DefectSearch, DefectSearches, together
from checkers.evidence.runfolder import replace_file
from reports.drawing import words
from reports.drawing.page import Table, plain_table
from workloads.engines.engines import SPARK
from workloads.file.defect import Defect

JSON, PAGE = "time-to-find.json", "time-to-find.md"
FORMAT = 1
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"
"""Around what the tool writes into a page: ``definitions``, ``unreached`` and ``results``."""


class PageError(ValueError):
    """A page has no place for the tables; the message is one line with a remedy."""


def dumped(searches: Sequence[DefectSearch], budget: float) -> str:
    """All searches, and what they say together, as JSON."""
    value = {
        "format": FORMAT,
        "budget": budget,
        "found": [f.to_json() for f in together(searches)],
        "searches": [asdict(s) for s in searches],
    }
    return json.dumps(value, indent=1) + "\n"


def orders_of(found: Iterable[DefectSearches]) -> list[str]:
    """The orders, each once."""
    return list(dict.fromkeys(f.order for f in found))


def cell(f: DefectSearches | None) -> str:
    """``5 of 5, 34 operations, 6.1 s``; the numbers only if more than half of the searches found it."""
    if f is None:
        return "–"
    if not f.searches:
        return "could not run"
    share = f"{f.found} of {f.searches}"
    if f.operations is None or f.seconds is None:
        return share
    return f"{share}, {words.grouped(round(f.operations))} op, {words.grouped(round(f.seconds, 1))} s"


def _grid(found: Sequence[DefectSearches]) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of the table."""
    orders = orders_of(found)
    by_defect = {(f.defect, f.order): f for f in found}
    rows = [[d, *(cell(by_defect.get((d, o))) for o in orders)] for d in dict.fromkeys(f.defect for f in found)]
    return ["defect", *orders], [*rows, ["all", *(_all([f for f in found if f.order == o]) for o in orders)]]


def _all(found: Sequence[DefectSearches]) -> str:
    """Over all defects: searches that found theirs, and defects of which all searches did."""
    ran = [f for f in found if f.searches]
    always = sum(f.found == f.searches for f in ran)
    return (
        f"{sum(f.found for f in ran)} of {sum(f.searches for f in ran)} searches; always {always} of {len(ran)} defects"
    )


def table(found: Sequence[DefectSearches]) -> Table:
    """A row for each defect, a column for each order."""
    return plain_table(*_grid(found))


def line_of(s: DefectSearch) -> str:
    """One search in one line."""
    who = f"{s.defect}, {s.order}, seed {s.seed}"
    if s.reason is not None:
        return f"! {who}: cannot be run: {s.reason}"
    many = f"{words.plural(s.operations, 'operation')}, {s.seconds:.1f} s of load in {words.plural(s.runs, 'run')}, {s.wall:.0f} s in all"
    others = ", ".join(f"{name} ×{n}" for name, n in s.anomalies.items())
    if s.found:
        return f"✓ {who}: found after {many} ({others}); {s.command}"
    return f"– {who}: not found in {many}" + (f"; other anomalies: {others}" if others else "")


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines) + "\n"


def results(searches: Sequence[DefectSearch], budget: float) -> str:
    """The results in Markdown."""
    found = together(searches)
    head, rows = _grid(found)
    seeds = sorted({s.seed for s in searches})
    lead = f"Budget {budget:g} s of load; seeds {', '.join(map(str, seeds))}.\n\n"
    rates = [
        [
            f.defect,
            f.order,
            _number(f.runs),
            _number(f.operations),
            _number(f.seconds),
            _number(f.wall),
            _number(f.pairs),
        ]
        for f in found
    ]
    names = ["defect", "order", "runs", "operations", "load, s", "wall, s", "interleavings/1,000 op"]
    absent = [f"* {f.defect}, {f.order}: {f.reason}" for f in found if f.reason is not None]
    why = "\nCould not be run:\n\n" + "\n".join(absent) + "\n" if absent else ""
    return f"{lead}{markdown(head, rows)}\nThe medians:\n\n{markdown(names, rates)}{why}"


def _number(value: float | None) -> str:
    return words.grouped(None if value is None else round(value, 1))


def definitions(defects: Iterable[Defect]) -> str:
    """The defects in Markdown: their workloads, and the anomalies that count."""
    head = ["defect", "scenarios", "catalog", "Iceberg", "writers", "operations", "faults", "counts as found"]
    return markdown(head, map(_definition, defects))


def _definition(d: Defect) -> list[str]:
    engines = (
        ", ".join(f"{d.engines.count(e)} {e}" for e in dict.fromkeys(d.engines)) if {*d.engines} != {SPARK} else ""
    )
    verbs = [] if d.nemesis is None else [*d.nemesis.packages, *(f.name for f in d.nemesis.faults)]
    kinds = ", ".join(k for k, s in d.operations.items() if s.weight)
    shown = ", ".join(f"`{a}`" for a in d.found)
    link = f"[{d.defect}](../workloads/defects/{d.defect}.yaml)"
    return [
        link,
        ", ".join(d.scenarios),
        d.catalog,
        d.iceberg or "newest",
        engines or str(d.writers),
        kinds,
        ", ".join(verbs) or "none",
        shown + (f" on {', '.join(d.tables_of)}" if d.tables_of else ""),
    ]


def reasons(why: Mapping[str, str]) -> str:
    """The scenarios that no random workload reaches, in Markdown."""
    return markdown(["scenario", "reason"], why.items())


def written(text: str, parts: Mapping[str, str], file: str) -> str:
    """The text of a page with its parts written anew.

    Args:
        parts: name → what stands between its two marks.

    Raises:
        PageError: the page has no marks of a part.
    """
    for name, part in parts.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise PageError(f"{file}: has no place for {name}; add the lines {begin} and {end}")
        text = f"{before}{begin}\n\n{part}\n{end}{after}"
    return text


def write(searches: Sequence[DefectSearch], budget: float, into: Path) -> Path:
    """Write the JSON and the Markdown of a measurement into its folder; return the latter's path."""
    replace_file(into / JSON, dumped(searches, budget))
    replace_file(into / PAGE, f"# Time to find\n\n{results(searches, budget)}")
    return into / PAGE
