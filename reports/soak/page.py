"""The page of a night: what is lost, who did it and what to do now; then its runs, the combinations that it ran, and the trend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import quote

from checkers.costs.comparison import Spread
from checkers.costs.measures import BY_KEY
from checkers.judge.known import asks
from checkers.names import in_words
from checkers.nights import trend
from checkers.nights.finds import Find
from checkers.nights.night import STATUS_ORDER, Night
from checkers.nights.record import NightRun
from checkers.nights.trend import CellNight, EarlierNight
from reports.drawing import words
from reports.drawing.figures import shown
from reports.drawing.page import (
    Block,
    Fold,
    JUnitCase,
    JUnitSuite,
    Legend,
    Page,
    Plot,
    Plots,
    Section,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Text,
    badge,
    joined,
    link,
    outside,
    tag,
)
from reports.shrunk import PAGE as SHRUNK
from reports.soak import drawings, kinds, places, software
from reports.soak import words as soakwords
from reports.soak.banner import answer, banner
from reports.soak.kinds import PROGRAM, Program
from reports.soak.words import CLASSES, SYMBOLS
from workloads.file.sizes import written
from workloads.file.suite import Cell, KnownAnomalies

FILE = "soak"
MOST_FAILURES = 500
"""Failures that the page shows; soak.json has all."""
MOST_TOLD = 20
"""Runs that one case for a CI server names."""
LITTLE = "few operations"
OF_THE_LOAD = "of the load; a run's page and `check` count its set-up, its maintenance and its final reads, too"
"""What is said beside the verdict of a combination that tested next to nothing."""
MARKS = {"better": "▲", "regression": "▼", "noise": "≈", "too few": "", "no number": "no number"}


def filled(t: Table) -> Table:
    """A table without the columns in which no row has a value."""
    has = [any(row.cells and _valued(row.cells[n]) for row in t.rows) or not t.rows for n in range(len(t.columns))]
    rows = [replace(row, cells=[c for c, filled_in in zip(row.cells, has, strict=True) if filled_in]) for row in t.rows]
    return replace(t, columns=[c for c, filled_in in zip(t.columns, has, strict=True) if filled_in], rows=rows)


def _valued(c: str | TableCell) -> bool:
    return bool(c.below) or c.text not in ("", "–") if isinstance(c, TableCell) else c not in ("", "–")


def _figure(key: str, s: Spread | None) -> str:
    return shown(BY_KEY[key], None if s is None else s.median)


def _verdict(shown: str) -> str:
    """What a run or a cell showed, with its symbol and colour."""
    return badge(CLASSES[shown], f"{SYMBOLS[shown]} {shown}")


def _cells(night: Night) -> list[Block]:
    """A row for each combination; a terminal has those that ran, each by its whole name."""
    dimensions = places.varied(night)
    columns = [
        TableColumn(
            places.named(d),
            sort=True,
            terminal=places.pattern(night) if n == 0 else None,
            mark="nowrap" if n < 3 else "",
        )
        for n, d in enumerate(dimensions)
    ]
    columns += [
        TableColumn("verdict", sort=True, terminal="verdict"),
        TableColumn("runs", right=True, sort=True),
        TableColumn("their verdicts", terminal="runs", mark="nowrap"),
        TableColumn("operations", right=True, sort=True, title=OF_THE_LOAD),
        TableColumn("commits/s", right=True, terminal=BY_KEY["commits_per_s"].short),
        TableColumn(
            "retried", right=True, terminal=BY_KEY["retried"].short, title="commits that needed another attempt"
        ),
        TableColumn("what was lost", terminal="what was lost", most=300, mark="wrap"),
    ]
    legend = " · ".join(f"{symbol} {text}" for text, symbol in SYMBOLS.items())
    alike = places.alike(night)
    note = f"{legend}. Commits and retries: the median over the runs. Click a column to sort."
    all_ = f"All of them: {', '.join(alike)}. " if alike else ""
    rows = [_cell(night, cell, dimensions) for cell in night.cells]
    return [
        Text(
            [
                f"{all_}{places.WHAT}, and commands and files write it as {places.pattern(night)}.",
                *places.disturbs(night.cells),
            ],
            "note",
        ),
        filled(Table(columns, rows)),
        Text([note], "note"),
    ]


def _cell(night: Night, cell: Cell, dimensions: Sequence[str]) -> TableRow:
    """A row of the table; ``dimensions``: the dimensions that tell the combinations apart."""
    counts, worst, lines = night.counts(cell), night.worst(cell), night.by_cell[cell]
    p = trend.point(night.lines, cell)
    first, *others = (getattr(cell, d) for d in dimensions)
    seen = [(s, counts[s]) for s in STATUS_ORDER if counts[s]]
    each = joined((tag("span", f"{SYMBOLS[s]} {words.grouped(n)}", title=s) for s, n in seen), " ")
    runs, done = sum(x.counts for x in lines), sum(x.operations for x in lines)
    return TableRow(
        [
            TableCell(first, plain=cell.name),
            *(v or "–" for v in others),
            _judged(night, cell),
            TableCell(words.grouped(runs), sort=runs),
            TableCell(each, plain=" ".join(f"{SYMBOLS[s]}{n}" for s, n in seen) or "–"),
            TableCell(words.grouped(done), sort=done),
            _figure("commits_per_s", None if p is None else p.throughput),
            _figure("retried", None if p is None else p.retries),
            kinds.losses(kinds.harmed(h for x in lines for h in x.by_kind)) or "–",
        ],
        terminal=worst != "not run",
    )


def _judged(night: Night, cell: Cell) -> TableCell:
    """What a combination showed, and what it did not test."""
    worst, few = night.worst(cell), night.few(cell)
    silent = tuple(f"untested: {text}" for text in night.untested(cell))
    label = joined((_verdict(worst), badge("unknown", LITTLE) if few else ""), " ")
    return TableCell(
        label, silent, mark="wrap" if silent else "", sort=worst, plain=f"{SYMBOLS[worst]} {LITTLE}" if few else None
    )


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts by name, added up."""
    out: Counter[str] = Counter()
    for count in counts:
        out.update(count)
    return dict(out)


def _runs(night: Night, lines: Sequence[NightRun]) -> list[Block]:
    """A row for each run, and below it the command that repeats it."""
    columns = [
        *(TableColumn("run", mark="wrap"), TableColumn("what happened", most=600, mark="wrap"), TableColumn("how bad")),
        *(TableColumn("table"), TableColumn("who did it", mark="wrap"), TableColumn("its page", mark="nowrap")),
    ]
    rows = []
    tables = len({t for x in lines for h in x.by_kind for t in h.tables}) > 1  # one name says nothing
    for x in lines[:MOST_FAILURES]:
        kept = x.folder is not None and (night.folder / x.folder).is_dir()
        gone = ("its folder was removed to make room",) if x.ended == "invalid" and not kept else ()
        seed = "" if x.seed is None else f"seed {x.seed}, "
        what, *others = _happened(night, x) or [words.shorten(x.reason or "no reason given", 600)]
        href = kinds.href_of(night, x)
        rows.append(
            TableRow(
                [
                    TableCell(places.of(night, x.cell), (f"{seed}{x.started[:19].replace('T', ' ')}",)),
                    TableCell(what, (*others, *gone)),
                    soakwords.harm(x),
                    words.shorten(", ".join(dict.fromkeys(t for h in x.by_kind for t in h.tables)) * tables, 120),
                    words.shorten(", ".join(dict.fromkeys(h.who for h in x.by_kind if h.who)), 120),
                    "not kept" if href is None else link("open", href),
                ],
                below=joined(("again: ", tag("code", words.shorten(x.command, 800)))) if x.command else "",
            )
        )
    more = len(lines) - MOST_FAILURES
    more_runs = [Text([f"and {words.plural(more, 'more run')}, in {FILE}.json"], "note")] if more > 0 else []
    return [filled(Table(columns, rows)), *more_runs]


def _happened(night: Night, x: NightRun) -> list[str]:
    """What a run lost, of each kind on a line with the link to its card, the gravest first; behind it the names."""
    out: list[str] = []
    for h in sorted(x.by_kind, key=lambda h: min(map(kinds.gravity, (h.name, *h.harmed)))):
        known = night.known_kind(h, x)
        showed = "new" if known is None else "known"
        names = tag("span", ", ".join(h.names), "muted")
        href = kinds.card_of(night, x, h)
        parts = [badge(CLASSES[showed], showed), link(kinds.losses(h.harmed), href), names]
        out.append(joined((*parts, *([] if known is None else [_discussed(known)])), " "))
    return out


def _failures(night: Night) -> list[Section]:
    """The runs that are not valid, apart: with something new, with known defects alone, and without a verdict."""
    new = [x for x in night.failures if night.showed(x) == "new"]
    known = [x for x in night.failures if night.showed(x) == "known"]
    open_ = [x for x in night.lines if x.ended in ("error", "unknown")]
    apart = [
        ("Runs that showed something new", "new", new, "New"),
        ("Runs that showed known defects", "seen", known, "Known"),
        ("Runs without a verdict", "open", open_, "Without a verdict"),
    ]
    return [Section(title, anchor, _runs(night, lines), short) for title, anchor, lines, short in apart if lines]


def _found(night: Night, f: Find, program: Program) -> str:
    """What became of a new anomaly, with a link to its page; of one without a scenario how its run becomes an issue."""
    page = f"{f.folder}/{SHRUNK}"
    has_page = f.folder is not None and (night.folder / page).exists()
    said = link(words.shorten(soakwords.find_of(f, places.of(night, f.cell)), 900), quote(page) if has_page else None)
    if f.scenario is not None or not (night.folder / f.run).is_dir() or not _is_new(night, f):
        return said
    whole = kinds.issue_line(night, f.run, f.anomaly, program)
    return joined((said, ". For the maintainers, with the workload and the seed of the run: ", tag("code", whole)))


def _is_new(night: Night, f: Find) -> bool:
    """Whether it is new today: a later version of the library, or of the suite, may know what the night replayed."""
    return any(f.anomaly in night.new_of(x) for x in night.lines if x.folder == f.run)


def _finds(night: Night, program: Program, *, over: bool) -> list[str]:
    """What became of each new anomaly, one line each; nothing if the night is to follow none."""
    waiting = soakwords.waiting(night) if night.finds or night.suite.shrink is not None else []
    unfollowed = [soakwords.unfollowed(x, name, places.of(night, x.cell), over=over) for x, name in waiting]
    return [*(_found(night, f, program) for f in night.finds), *unfollowed]


def _knowns(night: Night) -> list[Block]:
    """How often what is known showed, so that one sees when it no longer does."""
    columns = [
        TableColumn("anomaly", mark="wrap"),
        TableColumn("where it is known", most=400, mark="wrap"),
        TableColumn("runs there", right=True, title="runs of the combinations in which it is known"),
        TableColumn("showed it", right=True, title="runs that showed it"),
        TableColumn("discussed at", mark="wrap"),
    ]
    rows = []
    for known in night.suite.known:
        affected, seen = [x for x in night.runs if known.of(x.cell)], len(night.runs_with(known))
        gone = any(m.known is known for m in night.missing)
        where = f"{soakwords.where(known) or 'everywhere'}, as the suite says"
        rows.append(TableRow([known.name, where, *map(words.grouped, (len(affected), seen)), _why(known, gone)]))
    of_suite = {known.link for known in night.suite.known}
    shown = [(x, s, link_) for x in night.runs for s in x.kinds if (link_ := night.known_of(s, x.cell)) is not None]
    for link_ in dict.fromkeys(link_ for *_, link_ in shown if link_ not in of_suite):
        these = [(x, s) for x, s, its in shown if its == link_]
        cells = {x.cell for x, _ in these}
        ran, showed = sum(x.cell in cells for x in night.runs), len({id(x) for x, _ in these})
        names = ", ".join(map(in_words, sorted({s.name for _, s in these})))
        scenarios = dict.fromkeys(n for x, _ in these for h in x.by_kind if h.link == link_ for n in h.scenarios)
        rules = dict.fromkeys(rule for n in scenarios if (rule := asks(n)))
        where = "; ".join(rules) or "as a scenario of the library shows it"
        rows.append(TableRow([names, where, *map(words.grouped, (ran, showed)), _discussed(link_)]))
    return [filled(Table(columns, rows, "None was seen, and the suite names none."))]


def _discussed(link_: str) -> str:
    return outside(words.link_label(link_), words.safe(link_))


def _why(known: KnownAnomalies, gone: bool) -> str:
    """Where a known anomaly is described, and whether it no longer shows."""
    parts = [_discussed(known.link)]
    note = f": {words.shorten(known.note, 300)}" if known.note else ""
    lost = [badge("unknown", "no longer seen")] if gone else []
    return joined((joined((*parts, note)), *lost), " ")


def _time(night: Night) -> list[Block]:
    drawn = drawings.timeline(night, lambda line: kinds.href_of(night, line))
    if drawn is None:
        return [Text(["No run."], "muted")]
    named = (
        ("", "valid"),
        ("invalid", "something new"),
        ("known", "known defects alone"),
        ("unknown", "undecided"),
        ("incomplete", "error"),
    )
    note = (
        "A bar is a run with its judgement; before the first run of a stack the stack starts. A bar of a run that is kept links to its page. "
        "Time is what the night has used: a pause between two sessions is left out."
    )
    return [Legend([(tag("i", "", f"ran {k}".strip()), text) for k, text in named]), Plot(drawn), Text([note], "note")]


def _resources(night: Night) -> list[Block]:
    """Memory and disk, folded: they matter if the memory grew, which opens them."""
    drawn = [Plot(d, name) for d, name in ((drawings.memory(night), "Memory"), (drawings.disk(night), "Disk")) if d]
    limit = f"The memory of the soak's own process must not grow from run to run. The night's folder may have {written(night.suite.keep)}."
    if not drawn:
        return [Text(["No sample was taken."], "muted")]
    grown = "" if night.grown is None else ": it grew"
    return [
        Fold(f"Memory of the soak's own process{grown}, and disk", [Plots(drawn), Text([limit], "note")], bool(grown))
    ]


def _trend(night: Night, past: Sequence[EarlierNight], unread: Sequence[str]) -> list[Block]:
    """A row for each combination that had a turn in this night, and a run that was judged in it or in an earlier one: its points."""
    left_out = Text([f"A night is left out: {words.shorten(why, 300)}" for why in unread], "note")
    rows = []
    for cell in night.cells:
        now = trend.point(night.lines, cell)
        before = [trend.point(p.lines, cell) for p in past]
        earlier = [b for b in before if b is not None]
        if now is None and not (earlier and night.by_cell[cell]):
            continue
        speed, retries = (None, None) if now is None else (now.throughput, now.retries)
        faster = trend.against(speed, (b.throughput for b in earlier), BY_KEY["commits_per_s"])
        fewer = trend.against(retries, (b.retries for b in earlier), BY_KEY["retried"])
        rows.append(TableRow([places.of(night, cell), *map(_point, (*before, now)), MARKS[faster], MARKS[fewer]]))
    if not rows or not past:
        return [left_out, Text(["There is no earlier night of these combinations beside this one."], "muted")]
    nights = [
        *(TableColumn(p.started[:16].replace("T", " "), mark="wrap", title=p.name) for p in past),
        TableColumn("this night", mark="wrap"),
    ]
    columns = [TableColumn("combination"), *nights]
    note = (
        "Commits a second and the share of commits that needed another attempt, medians over the runs of a night; below, in how many runs "
        "something was lost, and what. ▲ better, ▼ worse: the median is off that of the nights shown before by more than three times their "
        "noise (the standard deviation of those that are no outliers) and more than a tenth of it (a share: more than 0.02), with five such "
        "nights or more; ≈ no difference beyond noise; no number: though an earlier night has one."
    )
    return [
        left_out,
        filled(Table([*columns, TableColumn("commits"), TableColumn("retries")], rows, form="wide")),
        Text([note], "note"),
    ]


def _point(p: CellNight | None) -> str | TableCell:
    if p is None:
        return "–"
    lost = kinds.losses(p.harmed)
    failed = (f"in {p.failed} of {words.plural(p.runs, 'run')}: {words.shorten(lost, 120)}",) if p.failed else ()
    below = (f"{_figure('retried', p.retries)} retried", *failed)
    return TableCell(_figure("commits_per_s", p.throughput), below, lost)


def of(
    night: Night,
    repeat: str,
    past: Sequence[EarlierNight] = (),
    unread: Sequence[str] = (),
    program: Program = PROGRAM,
    more: str | None = None,
) -> Page:
    """The page.

    Args:
        repeat: the command that continues the night.
        past: earlier nights, oldest first; ``unread``: why others cannot be read.
        more: the command that adds to a night that is over, or makes another one; None: it goes on.
    """
    notes, finds = soakwords.notes(night), _finds(night, program, over=more is not None)
    known = [Section("What to know", "notes", [Text(notes, "list", 1000)], terminal="To know:")] if notes else []
    followed = [Section("What was replayed", "finds", [Text(finds, "list")], "Replayed", "Replayed:")]
    found = kinds.kinds(night)
    harm = kinds.blocks(night, found, program)
    return Page(
        FILE,
        f"{night.suite.suite}, soaked",
        banner(night),
        [
            Section("What is lost, who did it, and what to do now", "lost", harm, "What is lost"),
            *known,
            *(followed if finds else []),
            *_failures(night),
            Section("All combinations", "cells", _cells(night), terminal=""),
            Section("How often known defects showed", "known", _knowns(night), "Known defects"),
            Section("The night in time", "time", _time(night)),
            Section("Trend", "trend", _trend(night, past, unread)),
            Section("Memory and disk", "resources", _resources(night)),
        ],
        to_json(night),
        facts=_facts(night),
        lead=night.suite.description or "",
        command=("Continue it", repeat) if more is None else ("It is over: add to it, or make it again", more),
        footer=f"Every number comes from runs.jsonl; {FILE}.json has all runs.",
        suite=_suite(night, repeat),
        told=answer(night, found, program),
    )


def _facts(night: Night) -> list[tuple[str, str]]:
    peak = max((x.peak_memory for x in night.lines), default=0)
    load = joined((f"{words.grouped(night.suite.length)} s", tag("small", "of load")), " ")
    return [
        ("Runs", words.grouped(len(night.runs))),
        ("Combinations", words.grouped(len(night.cells))),
        (
            "Operations",
            joined((words.grouped(sum(x.operations for x in night.runs)), tag("small", "of the load")), " "),
        ),
        ("Each run", load),
        ("Took", words.duration(1000 * night.used)),
        ("Seed of the night", str(night.seed)),
        ("Most memory", words.size(peak) if peak else "–"),
        *software.facts(night),
    ]


# --- for CI servers ---------------------------------------------------------------------------------------------------


def _suite(night: Night, repeat: str) -> JUnitSuite:
    """A case for each cell. What is known stands in its output."""
    properties = {"verdict": banner(night).headline, "seed": night.seed, "command": repeat, "runs": len(night.runs)}
    cases = [*(_case(night, cell) for cell in night.cells)]
    cases += [JUnitCase(c.name, "skipped", f"cannot run: {why}") for c, why in night.left_out.items()]
    return JUnitSuite(f"icequake.soak.{night.suite.suite}", night.used, properties, cases)


def _case(night: Night, cell: Cell) -> JUnitCase:
    """A new anomaly is a failure, a cell whose runs were all errors is an error, one without a verdict is skipped."""
    runs, counts, worst = night.by_cell.get(cell, []), night.counts(cell), night.worst(cell)
    lines = [text for x in runs if (text := soakwords.line_of(night, x)) is not None][:MOST_TOLD]
    case = JUnitCase(cell.name, seconds=f"{sum(x.took for x in runs):.3f}")
    reason = next((x.reason for x in runs if x.reason), "no reason given")
    if worst == "new":
        names = words.tally(_summed(night.new_of(x) for x in runs))
        text = "\n".join([*lines, *(soakwords.find_of(f) for x in runs for f in soakwords.finds_of(night, x))])
        return replace(case, outcome="failure", message=f"{names} in {counts['new']} of {len(runs)} runs", text=text)
    if counts["error"] and counts["error"] == len(runs):
        return replace(case, outcome="error", message=reason, text="\n".join(lines))
    if cell in night.too_few and worst == "valid":
        many = (
            f"{words.plural(night.too_few[cell], 'operation')} of at least {words.grouped(night.suite.at_least or 0)}"
        )
        case = replace(case, outcome="skipped", message=f"could not judge: {many}")
    elif worst == "not run":
        case = replace(case, outcome="skipped", message="the night ended before its turn")
    elif worst in ("unknown", "error") and not counts["valid"]:
        case = replace(case, outcome="skipped", message=f"unknown: {reason}")
    return replace(case, out="\n".join((*lines, *(f"untested: {text}" for text in night.untested(cell)))))


# --- JSON -------------------------------------------------------------------------------------------------------------


def to_json(night: Night) -> dict[str, Any]:
    """The night as JSON values."""
    return {
        "format": 1,
        "suite": night.suite.suite,
        "seed": night.seed,
        "valid": night.verdict,
        "exit": night.code,
        "seconds": round(night.used, 1),
        "stopped": night.stopped,
        "cells": [{**_cell_json(night, c), "name": c.name} for c in night.cells],
        "left_out": {c.name: why for c, why in night.left_out.items()},
        "missing": [
            {"anomaly": [e.model_dump() for e in m.known.anomaly], "link": m.known.link, "runs": m.runs}
            for m in night.missing
        ],
        "runs": [{**asdict(x), "showed": night.showed(x)} for x in night.lines],
        "finds": [asdict(f) for f in night.finds],
    }


def _cell_json(night: Night, cell: Cell) -> dict[str, Any]:
    known = {"showed": night.worst(cell), "runs": dict(night.counts(cell)), "untested": [*night.untested(cell)]}
    return {**cell.to_json(), **known}
