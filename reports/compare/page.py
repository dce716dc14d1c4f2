"""The page of a comparison: one summary table, every number with its spread below it, and links to each run's page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from checkers.costs.comparison import Comparison, Contender, ContenderRun, Spread, requests, summed
from checkers.costs.measures import BY_KEY, FIGURES, FaultMeasured, Figure
from checkers.evidence.replace import replace
from checkers.timeline.metrics import quantile
from checkers.verdict import Validity
from reports.compare import words as comparewords
from reports.drawing import svg, words
from reports.drawing.figures import between, shown
from reports.drawing.page import (
    BANNER_SYMBOLS,
    Banner,
    Block,
    Page,
    Plot,
    Section,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Text,
    badge,
    joined,
    link,
    muted,
    tag,
)
from workloads.tables import DELTA

FILE = "compare"
NO_CATALOG = "no catalog: the object store decides"
"""Of a contender whose tables are Delta's. What is counted as a request to the catalog is the write of a version."""

COMPARED_FIGURES = (
    "commits_per_s",
    "write_p50_ms",
    "write_p99_ms",
    "retried",
    "aborted",
    "unknown",
    "recovery_median_s",
    "catalog_requests",
)
"""Figures of the first table and of the terminal's."""

COMPARED_MARKS = {"better": "▲", "worse": "▼", "noise": "≈", "first": "", "too few": "", "missing": ""}
MEANINGS = {
    "better": "better than the first by more than noise",
    "worse": "worse than the first by more than noise",
    "noise": "no difference from the first beyond noise",
    "first": "the reference for the others",
    "too few": "too few runs to tell a difference from noise",
    "missing": "not measured, or not for the first",
}

_STATUS = {True: "valid", False: "invalid", "unknown": "unknown", None: "incomplete"}
_VERDICTS = {"valid": "valid", "invalid": "anomalies", "unknown": "unknown", "incomplete": "not measured"}


def verdict_class(valid: Validity | None) -> str:
    """The style sheet's class of a verdict; ``incomplete`` if there is none."""
    return _STATUS[valid]


def href_of(ran: ContenderRun) -> str | None:
    """The link to a run's page; None if it has no folder."""
    return None if ran.folder is None else quote(f"{ran.folder}/report.html")


def banner(c: Comparison) -> Banner:
    """The headline and one sentence."""
    verdicts = {x: c.valid(x) for x in c.contenders}
    broken = [c.label(x) for x, v in verdicts.items() if v is False]
    ran = [x for x, v in verdicts.items() if v is not None]
    missing = len(c.contenders) * len(c.seeds) - sum(len(c.measured(x)) for x in c.contenders)
    seeds = words.plural(len(c.seeds), "seed")
    sentence = f"The same operations{_and_faults(c)} on {words.plural(len(ran), 'contender')}, {seeds}."
    if missing:
        sentence += f" {words.plural(missing, 'run')} could not be measured."
    if broken:
        count = f"{len(broken)} of {len(ran)}" if len(ran) > 1 else "the only one"
        return Banner("invalid", f"Anomalies on {count}: {', '.join(broken[:6])}", sentence)
    if not ran:
        return Banner("incomplete", "Nothing was measured", sentence)
    if c.verdict == "unknown":
        return Banner("unknown", "No anomaly was found, but not everything was decided", sentence)
    return Banner("valid", "Valid on every contender", sentence)


def _and_faults(c: Comparison) -> str:
    return " under the same faults" if spec_of(c).get("nemesis") else ""


# --- drawings ---------------------------------------------------------------------------------------------------------

ROW, LEFT, WIDTH, TOP = 34, 170, 900, 26


def latency_plot(c: Comparison, what: str) -> Markup | None:
    """Latency of ``write`` or ``read``: a bar for each contender from the median to p99, a tick at p95, logarithmic axis; None if no data.

    Medians over the seeds; a thin line goes from the lowest median to the highest p99 of all its runs.
    """
    rows: list[tuple[str, Spread, Spread, Spread]] = []
    for x in c.contenders:
        found = [c.spreads.get((f"{what}_p{q}_ms", x)) for q in (50, 95, 99)]
        p50, p95, p99 = found
        if p50 is not None and p95 is not None and p99 is not None:
            rows.append((c.label(x), p50, p95, p99))
    if not rows:
        return None
    low, high = min(r[1].low for r in rows) * 0.9, max(r[3].high for r in rows) * 1.1
    height = TOP + ROW * len(rows) + 40
    frame = svg.PlotArea(WIDTH, height, LEFT, 90, TOP, 40)
    x_of = svg.Scale(max(low, 0.1), max(high, 1), LEFT, frame.x1, log=True)
    labels = [(v, words.duration(v)) for v in svg.log_ticks(x_of.low, x_of.high)]
    parts: list[str] = [svg.axis_x(frame, x_of, labels, "from invocation to acknowledgement")]
    for n, (label, p50, p95, p99) in enumerate(rows):
        y = TOP + ROW * n + ROW / 2
        say = f"{label}: median {words.duration(p50.median)}, p95 {words.duration(p95.median)}, p99 {words.duration(p99.median)}"
        a, b, e = x_of(p50.median), x_of(p95.median), x_of(p99.median)
        parts += [
            svg.text(LEFT - 10, y + 4, words.shorten(label, 26), "lane", "end"),
            svg.line(x_of(p50.low), y, x_of(p99.high), y, "whisker"),
            svg.rect(a, y - 8, max(e - a, 2), 16, "range", svg.title(say), rx=2.0),
            svg.line(a, y - 11, a, y + 11, "median"),
            svg.line(b, y - 8, b, y + 8, "tick95"),
            svg.text(x_of(p99.high) + 6, y + 4, words.duration(p99.median), "tick"),
        ]
    kind = {"write": "writes", "read": "reads"}[what]
    return svg.drawing(
        WIDTH, height, f"Latency of acknowledged {kind}, from the median to p99, of each contender", parts
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def cell_of(f: Figure, s: Spread | None, against: str = "") -> TableCell:
    """A median with the range below it, and with the mark of ``against``, a key of :data:`MEANINGS`, if it has one."""
    if s is None:
        return TableCell("–", title=f.missing)
    values = ", ".join(shown(f, v) for v in s.values)
    title = f"{values}: {MEANINGS[against]}" if against else values
    median, mark = shown(f, s.median), COMPARED_MARKS.get(against, "")
    plain = f"{median} {mark}" if against in ("better", "worse") else median
    text = joined((median, tag("i", mark))) if mark else median
    return TableCell(text, between(f, s), title, against.replace(" ", "-"), s.median, plain)


def verdict_cell(c: Comparison, x: Contender) -> TableCell:
    """The verdict of a contender, its anomalies, and why runs of it are missing."""
    status = verdict_class(c.valid(x))
    found = sum(count for count, _ in c.anomalies(x).values())
    broken = words.plural(found, "anomaly", "anomalies") if found else "not valid"
    plain = {True: "✓ valid", False: f"✕ {broken}", "unknown": "? unknown", None: "– not run"}[c.valid(x)]
    below = [words.shorten(text, 300) for text in (comparewords.anomalies(c, x), c.reason(x)) if text]
    return TableCell(badge(status, _VERDICTS[status]), tuple(below), sort=status, plain=plain)


def runs_cell(c: Comparison, x: Contender) -> str:
    """A link to each run of a contender, by its seed."""
    parts = []
    for r in c.of(x):
        href, status = href_of(r), verdict_class(r.measures.valid if r.measures else None)
        parts.append(muted(f"– {r.seed}") if href is None else link(f"{BANNER_SYMBOLS[status]} {r.seed}", href))
    return joined(parts, " ")


def _glance(c: Comparison) -> Table:
    columns = [
        TableColumn("contender", sort=True, terminal=""),
        TableColumn("verdict", sort=True, terminal="verdict"),
        TableColumn("runs", mark="runs"),
        *(
            TableColumn(name, right=True, sort=True, terminal=name)
            for name in (BY_KEY[key].short for key in COMPARED_FIGURES)
        ),
    ]
    rows = []
    for x in c.contenders:
        label, entry = c.label(x), c.catalog(x)
        decides = NO_CATALOG if ("format", DELTA) in x.varied else "" if entry is None else entry.summary
        summary = (words.shorten(decides, 80),) if decides else ()
        name = TableCell(tag("b", words.shorten(label, 60)), summary, sort=label, plain=label)
        cells = [cell_of(BY_KEY[key], (s := c.cell(BY_KEY[key], x)).spread, s.against) for key in COMPARED_FIGURES]
        rows.append(TableRow([name, verdict_cell(c, x), runs_cell(c, x), *cells]))
    return Table(columns, rows, form="wide")


def _columns(c: Comparison, first: str, found: Sequence[Contender]) -> list[TableColumn]:
    return [TableColumn(first), *(TableColumn(words.shorten(c.label(x), 40), right=True) for x in found)]


def _numbers(c: Comparison, found: Sequence[Contender]) -> Table:
    rows: list[TableRow] = []
    groups: set[str] = set()
    for f in FIGURES:
        if any((f.key, x) in c.spreads for x in found):
            if f.group not in groups:
                groups.add(f.group)
                rows.append(TableRow(head=f.group))
            best = c.best(f)[0] if len(found) > 1 else None
            cells = [_best(cell_of(f, (s := c.cell(f, x)).spread, s.against), x == best) for x in found]
            rows.append(TableRow([TableCell(f.name, (f"{f.better} is better",)), *cells]))
    return Table(_columns(c, "", found), rows, "Nothing was measured.", "wide")


def _best(cell: TableCell, best: bool) -> TableCell:
    return replace(cell, mark=f"{cell.mark} best".strip()) if best else cell


def _by_name(
    c: Comparison,
    first: str,
    found: Sequence[Contender],
    names: Iterable[str],
    cell: Callable[[str, Contender], str | TableCell],
) -> Table:
    """A row for each name in order, a column for each contender."""
    rows = [TableRow([name, *(cell(name, x) for x in found)]) for name in sorted(names)]
    return Table(_columns(c, first, found), rows, form="wide")


def _kinds(c: Comparison, found: Sequence[Contender]) -> Table:
    by_contender = {x: summed(c.measured(x)) for x in found}

    def outcomes(kind: str, x: Contender) -> str:
        if kind not in by_contender[x]:
            return "–"
        ok, fail, info = by_contender[x][kind]
        parts = [tag("span", words.grouped(ok), "o ok")]
        parts += [
            tag("span", words.grouped(n), f"o {o}" if n else "muted") for o, n in (("fail", fail), ("info", info))
        ]
        return joined(parts, " · ")

    return _by_name(c, "kind", found, {k for counts in by_contender.values() for k in counts}, outcomes)


def _requests(c: Comparison, found: Sequence[Contender]) -> Table:
    by_contender = {x: requests(c.measured(x)) for x in found}

    def asked(kind: str, x: Contender) -> TableCell:
        return TableCell(f"{by_contender[x][kind]:.2f}") if kind in by_contender[x] else TableCell("–", mark="zero")

    every = {k for counts in by_contender.values() for k in counts}
    return replace(_by_name(c, "service and kind of request", found, every, asked), empty="None was counted.")


def _faults(c: Comparison, found: Sequence[Contender]) -> Table:
    def struck(fault: str, x: Contender) -> str | TableCell:
        return _fault([m.faults[fault] for m in c.measured(x) if fault in m.faults])

    return _by_name(c, "fault", found, {n for x in found for m in c.measured(x) for n in m.faults}, struck)


def _fault(found: Sequence[FaultMeasured]) -> str | TableCell:
    """What one fault did to a contender in all its runs."""
    if not found:
        return "–"
    back = [r for f in found for r in f.recoveries]
    middle, longest, never = quantile(back, 0.5), quantile(back, 1.0), sum(f.never for f in found)
    below = []
    if middle is not None and longest is not None:
        below.append(f"{words.duration(1000 * middle)}, at most {words.duration(1000 * longest)}")
    below += [f"{never} never"] if never else []
    times, hits = sum(f.times for f in found), sum(f.hits for f in found)
    return TableCell(f"{words.grouped(times)} on, struck {words.grouped(hits)}", tuple(below))


def runs_section(c: Comparison, called: str, label: Callable[[Contender], str]) -> Section:
    """A row for each run, in the order in which they ran, and what ran. ``called``: what a contender is called."""
    columns = [
        *(TableColumn("started", mark="nowrap"), TableColumn(called), TableColumn("seed", right=True)),
        *(TableColumn("verdict", most=400, mark="wrap"), TableColumn("again", most=600, mark="mono wrap")),
    ]
    rows = []
    for r in c.runs:
        status, href = verdict_class(r.measures.valid if r.measures else None), href_of(r)
        judged = href is not None and status != "incomplete"
        verdict = link(badge(status, status), href) if judged else r.reason or "not measured"
        rows.append(TableRow([r.started or "–", label(r.contender), str(r.seed), verdict, r.command or ""]))
    found: dict[str, dict[str, None]] = {}
    for r in c.runs:
        for k, v in r.versions.items():
            found.setdefault(k, {})[v] = None
    versions = [f"{words.shorten(k, 40)} {words.shorten(', '.join(v), 120)}" for k, v in found.items()]
    return Section("Runs", "runs", [Table(columns, rows), Text([" · ".join(versions)], "note")])


# --- the page ---------------------------------------------------------------------------------------------------------


def spec_of(c: Comparison) -> Mapping[str, Any]:
    """The workload that was compared, as its file says it; empty if the header has none."""
    spec = c.header.get("workload")
    return spec if isinstance(spec, Mapping) else {}


def of(c: Comparison, repeat: str | None = None) -> Page:
    """The page. ``repeat``: the command that continues this comparison."""
    spec = spec_of(c)
    found = [x for x in c.contenders if c.measured(x)]
    workload = str(spec.get("workload") or "workload")
    expected = [*(comparewords.expectation(c, x) for x in c.contenders), *comparewords.of_engines(c)]
    return Page(
        FILE,
        f"{workload}, compared",
        banner(c),
        [
            Section("At a glance", "glance", [_glance(c), Text([_glance_note(c)], "note")], terminal=""),
            Section("What to expect", "expect", [Text(expected, "list")], terminal=""),
            Section("What differs", "differences", [Text(comparewords.differences(c), "list")], terminal=""),
            Section("Latency", "latency", _latency(c)),
            *_tables(c, found),
            Section(
                *("What was not tested", "untested", [Text(comparewords.untested(c), "list")]),
                short="Not tested",
                terminal="Not tested:",
            ),
            runs_section(c, "contender", c.label),
        ],
        to_json(c),
        facts=_facts(c, workload, spec, found),
        lead=str(spec.get("description") or ""),
        command=("Continue it, or add seeds and catalogs", repeat) if repeat else None,
        footer=f"Every number comes from the folders of the runs; {FILE}.json has all of them.",
    )


def _facts(c: Comparison, workload: str, spec: Mapping[str, Any], found: Sequence[Contender]) -> list[tuple[str, str]]:
    seconds = sorted(m.seconds for x in found for m in c.measured(x))
    lasted = words.duration(1000 * seconds[len(seconds) // 2]) if seconds else "–"
    writers = spec.get("writers", 4)
    return [
        ("Workload", workload),
        ("Seeds", ", ".join(map(str, c.seeds))),
        ("Each run", joined((lasted, tag("small", "of operations")), " ")),
        ("Writers", words.grouped(len(writers) if isinstance(writers, list) else writers)),
        ("At the same time", words.plural(c.header.get("parallel", 1), "run")),
    ]


def _glance_note(c: Comparison) -> str:
    few = " (needs three seeds)" if len(c.seeds) < 3 else ""
    first = words.shorten(c.label(c.contenders[0]), 60)
    return (
        "The number is the median over the seeds, the range below it goes from the lowest to the highest. Compared with "
        f"{first}: ▲ better, ▼ worse by more than noise, ≈ no difference beyond noise{few}. Speeds are those of this machine and this stack. "
        "Click a column to sort."
    )


def _latency(c: Comparison) -> list[Block]:
    drawn = ((latency_plot(c, what), name) for what, name in (("write", "Acknowledged writes"), ("read", "Reads")))
    note = (
        "The bar goes from the median to p99, with a tick at p95; the thin line from the lowest median to the highest p99 of all runs; the "
        "axis is logarithmic."
    )
    return [*(Plot(drawing, name) for drawing, name in drawn if drawing is not None), Text([note], "note")]


def _tables(c: Comparison, found: Sequence[Contender]) -> list[Section]:
    """The tables with a column for each contender, each with its note."""
    shown_in: tuple[tuple[str, str, str, Table, str], ...] = (
        (
            *("Every number", "numbers", "", _numbers(c, found)),
            "Bold: the best median. Requests of writers pass a proxy; those of a catalog server to the object store do not, and are not "
            "counted. The commit request decides a commit: on a REST catalog it includes the server's write of the metadata file; on others "
            "the writer writes that file before.",
        ),
        (
            *("Outcomes by kind of operation", "kinds", "Outcomes", _kinds(c, found)),
            "Acknowledged · failed for certain · unknown, summed over all seeds.",
        ),
        ("Requests for one commit", "requests", "Requests", _requests(c, found), ""),
        (
            *("Faults", "faults", "", _faults(c, found)),
            "How often it was active, and how many requests, processes or operations it struck; below, the time from its end to the next "
            "acknowledged write of an affected writer, median and longest. It includes the duration of that write.",
        ),
    )
    return [
        Section(title, anchor, [table, Text([note] if note and table.rows else [], "note")], short)
        for title, anchor, short, table, note in shown_in
    ]


def to_json(c: Comparison) -> dict[str, Any]:
    """The whole comparison as JSON values: verdicts, numbers with their spread, texts, runs."""
    return {
        "format": 1,
        "workload": c.header.get("workload"),
        "parallel": c.header.get("parallel", 1),
        "valid": c.verdict,
        "seeds": list(c.seeds),
        "contenders": [contender_json(c, x) for x in c.contenders],
        "differences": comparewords.differences(c),
        "untested": comparewords.untested(c),
        "runs": [r.to_json() for r in c.runs],
    }


def contender_json(c: Comparison, x: Contender) -> dict[str, Any]:
    """A contender as JSON values."""
    figures: dict[str, Any] = {}
    for f in FIGURES:
        cell = c.cell(f, x)
        s = cell.spread
        if s is not None:
            figures[f.key] = {
                "median": s.median,
                "low": s.low,
                "high": s.high,
                "values": list(s.values),
                "unit": f.unit,
                "against_first": cell.against,
            }
    return {
        "name": c.label(x),
        "catalog": x.catalog,
        "iceberg": x.iceberg,
        "engines": list(x.engines),
        **({"varied": dict(x.varied)} if x.varied else {}),
        "valid": c.valid(x),
        "anomalies": {n: {"count": k, "runs": r} for n, (k, r) in c.anomalies(x).items()},
        "kinds": {k: dict(zip(("ok", "fail", "info"), v, strict=True)) for k, v in summed(c.measured(x)).items()},
        "figures": figures,
        "requests_per_commit": requests(c.measured(x)),
        "reason": c.reason(x),
        "expect": comparewords.expectation(c, x),
    }
