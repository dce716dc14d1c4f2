"""The tables of a sweep: its points at a glance and with every number, attempts taken apart, retries, fairness, what was predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checkers.costs import curves
from checkers.costs.attempts import ATTEMPT_PHASES, SORTS, CommitsMeasured, merged
from checkers.costs.comparison import Comparison, Contender, Spread, varied_label
from checkers.costs.curves import Predicted, Varied
from checkers.costs.measures import BY_KEY, FIGURES, Figure
from checkers.evidence.replace import replace
from reports.compare import page as comparing
from reports.drawing import words
from reports.drawing.figures import shown, spread
from reports.drawing.page import Block, Legend, Plot, Table, TableCell, TableColumn, TableRow, Text, bar, joined, tag
from reports.sweep import choice, drawings, sentences

PLOTTED = (
    "commits_per_s",
    "retried",
    "retries_mean",
    "retries_8",
    "write_p50_ms",
    "write_p95_ms",
    "retry_ms",
    "aborted",
    "fairness",
)
"""Figures whose curves the page shows at once; those of the others are folded."""

SWEPT_FIGURES = (
    "commits_per_s",
    "write_p50_ms",
    "write_p95_ms",
    "retried",
    "retries_mean",
    "retries_8",
    "aborted",
    "retry_ms",
    "fairness",
)
"""Figures of the terminal's table."""

BUCKETS = (
    ("0", 0, 0),
    ("1", 1, 1),
    ("2", 2, 2),
    ("3", 3, 3),
    ("4", 4, 4),
    ("5–7", 5, 7),
    ("8–15", 8, 15),
    ("16 …", 16, 1 << 30),
)
"""Columns of the distribution of retries: name, least, greatest."""

APART = 6
"""Points that are taken apart on the page; the JSON has all."""


def anchor(n: int) -> str:
    """Where the page has the n-th point."""
    return f"point-{n}"


def ordered() -> list[Figure]:
    """All figures, those first that the page draws at once."""
    return [BY_KEY[k] for k in PLOTTED] + [f for f in FIGURES if f.key not in PLOTTED]


def points(c: Comparison) -> list[Block]:
    """A row for each point: what it is, its runs, all figures that any point has."""
    columns = [
        TableColumn("point", sort=True),
        TableColumn("verdict", sort=True),
        TableColumn("runs", mark="runs"),
        *(TableColumn(f.title, right=True, sort=True) for f in figures(c)),
    ]
    rows = []
    for n, x in enumerate(c.contenders):
        label = TableCell(tag("b", words.shorten(sentences.point(c, x), 80)), sort=n)
        cells = [comparing.cell_of(f, c.spreads.get((f.key, x))) for f in figures(c)]
        rows.append(TableRow([label, comparing.verdict_cell(c, x), comparing.runs_cell(c, x), *cells], anchor(n)))
    note = (
        "The number is the median over the seeds, the range below it goes from the lowest to the highest. Speeds are those of this machine and "
        "this stack. Click a column to sort."
    )
    return [Table(columns, rows, form="wide"), Text([note], "note")]


def glance(c: Comparison) -> Table:
    """The points by what varies, the figures of :data:`SWEPT_FIGURES`, without ranges, and which point to choose."""
    best = choice.chosen(c)
    params = [name for name, values in curves.parameters(c.contenders).items() if len(values) > 1]
    bare = {x: replace(x, varied=()) for x in c.contenders}
    rest = {x: curves.label(bare[x], list(bare.values())) for x in c.contenders}
    named = any(rest.values())
    columns = [TableColumn("contender", terminal="")] if named else []
    columns += [TableColumn(name, right=True, terminal=name) for name in params]
    columns += [TableColumn("verdict", terminal="verdict")]
    columns += [TableColumn(name, right=True, terminal=name) for name in (BY_KEY[k].short for k in SWEPT_FIGURES)]
    columns += [TableColumn("", terminal="")] if best else []
    rows = []
    for n, x in enumerate(c.contenders):
        values = [str(dict(x.varied).get(name, "")) for name in params]
        verdict = replace(comparing.verdict_cell(c, x), below=())
        cells = [replace(comparing.cell_of(BY_KEY[k], c.spreads.get((k, x))), below=()) for k in SWEPT_FIGURES]
        first = [tag("a", rest[x] or "–", href=f"#{anchor(n)}")] if named else []
        marked = [TableCell(f"← {best[x]}" if x in best else "", mark="best")] if best else []
        rows.append(TableRow([*first, *values, verdict, *cells, *marked]))
    return Table(columns, rows)


def figures(c: Comparison) -> list[Figure]:
    """The figures that any point has."""
    return [f for f in ordered() if any((f.key, x) in c.spreads for x in c.contenders)]


def committed(c: Comparison) -> dict[Contender, CommitsMeasured]:
    """Point → what its runs together measured of their commits; points without it are left out."""
    return {x: merged(found) for x in c.contenders if (found := curves.committing(c, x))}


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "–" if value is None else words.share(value, 1)


def retries(c: Comparison, measured: Mapping[Contender, CommitsMeasured]) -> list[Block]:
    """The distribution of retries: columns up to the last one that any point fills."""
    filled = max(
        (n for m in measured.values() for n, (_, low, _) in enumerate(BUCKETS) if any(k >= low for k in m.retries)),
        default=0,
    )
    buckets = BUCKETS[: filled + 1]
    titles = ("commits", "retried", "retries a commit", "of those that retried", "8 or more", "most", "success")
    columns = [TableColumn("point")]
    columns += [TableColumn(name, right=True, mark="cell") for name, _, _ in buckets]
    columns += [TableColumn(name, right=True) for name in titles]
    rows = []
    for x, m in measured.items():
        counts = [sum(n for k, n in m.retries.items() if low <= k <= high) for _, low, high in buckets]
        cells = [_bucket(n, m.commits, repeated=k > 0) for k, n in enumerate(counts)]
        retried = words.share(m.retried or 0.0, 1) if m.commits else "–"
        means = (_number(m.retries_mean), _number(m.retries_of_retried), _share(m.many))
        most = words.grouped(max(m.retries, default=0))
        rows.append(
            TableRow(
                [sentences.point(c, x), *cells, words.grouped(m.commits), retried, *means, most, _share(m.success)]
            )
        )
    note = (
        "Commits by the number of retries that they needed, summed over the seeds. Success: of the operations that committed or that a "
        "conflict aborted."
    )
    return [Table(columns, rows, "None was counted."), Text([note] if rows else [], "note")]


def _bucket(n: int, total: int, repeated: bool) -> TableCell:
    if not n:
        return TableCell("0", mark="zero")
    return TableCell(joined((words.grouped(n), bar(100 * n / total if total else 0.0, "again" if repeated else ""))))


def apart(c: Comparison, measured: Mapping[Contender, CommitsMeasured]) -> list[Block]:
    """One commit, taken apart: its phases as bars, and a row for each sort of attempt of the points that are taken apart."""
    drawn = drawings.apart(
        [(sentences.point(c, contender), measured[contender]) for contender in taken_apart(c, measured)]
    )
    if drawn is None:
        return [Text(["The writers of this sweep do not record their attempts; only their number is known."], "muted")]
    named = {"data": "data files", "wait": "backoff before it", "swap": "swap (the catalog’s answer)"}
    heads = (
        "attempts",
        "data files",
        "backoff",
        "refresh",
        "validate",
        "manifests",
        "metadata",
        "swap",
        "refresh to answer",
    )
    columns = [TableColumn("point"), TableColumn("attempt", mark="nowrap")]
    columns += [TableColumn(name, right=True) for name in (*heads, "read", "written")]
    rows = []
    for x in taken_apart(c, measured):
        for sort in SORTS[2:]:
            whole = measured[x].phase(sort, "whole")
            if whole is not None:
                cells = [_phase(measured[x], sort, name) for name in ("data", "wait", *ATTEMPT_PHASES, "whole")]
                asked = [_size(measured[x], sort, name) for name in ("read_bytes", "written_bytes")]
                texts = [sentences.point(c, x), sort.replace(" ", ", parent "), words.grouped(whole.count)]
                rows.append(TableRow([*texts, *cells, *asked]))
    note = (
        "Of attempts that reached the catalog: the bars are means, which add up; the table has medians, and p95 below. Parent cold: the "
        "refresh found metadata that this client had not read before, as another one had committed; hot: it found what it knew. Metadata is 0 "
        "where the catalog's server writes the file. sweep.json has all deciles of every point."
    )
    legend = Legend([(drawings.part_key(name), named.get(name, name)) for name in drawings.BAR_PARTS])
    return [legend, Plot(drawn), Table(columns, rows, form="wide"), Text([note], "note")]


def _phase(m: CommitsMeasured, sort: str, name: str) -> TableCell:
    q = m.phase(sort, name)
    if q is None:
        return TableCell("–")
    deciles = f"deciles: {', '.join(words.duration(v) for v in q.deciles)}"
    return TableCell(words.duration(q.median), (f"p95 {words.duration(q.p95)}",), deciles)


def _size(m: CommitsMeasured, sort: str, name: str) -> str:
    q = m.phase(sort, name)
    return "–" if q is None else words.size(q.median)


def taken_apart(c: Comparison, measured: Mapping[Contender, CommitsMeasured]) -> list[Contender]:
    """The points to take apart: both ends of the lines, at most :data:`APART`; in a sweep of names the first ones."""
    x = curves.axis(c.contenders)
    measurable = [contender for contender in c.contenders if contender in measured and measured[contender].taken]
    if x is None or len(measurable) <= APART:
        return measurable[:APART]
    lines = [[contender for contender in found if contender in measurable] for _, found in curves.groups(c, x)]
    ends = [e for found in lines if found for e in (found[-1], found[0])]
    chosen = list(dict.fromkeys([*(found[-1] for found in lines if found), *ends]))[:APART]
    return [contender for contender in measurable if contender in chosen]


def fairness(c: Comparison, measured: Mapping[Contender, CommitsMeasured]) -> list[Block]:
    """Commits of each writer of a point, and how even they are."""
    columns = [TableColumn("point"), TableColumn("commits of each writer")]
    columns += [TableColumn(name, right=True) for name in ("Jain's index", "fewest", "most", "time in operations")]
    rows = []
    for x, m in measured.items():
        if m.writers:
            s = c.spreads.get(("fairness", x))
            index = "–" if s is None else spread(BY_KEY["fairness"], s)
            ends = (words.grouped(min(m.writers.values())), words.grouped(max(m.writers.values())))
            bars = drawings.shares(m) or "–"
            rows.append(TableRow([sentences.point(c, x), bars, index, *ends, words.share(m.busy, 1)]))
    note = (
        "Jain's index is 1 if all writers have as many commits, and 1/n if one of n has all; median over the seeds. The bars are summed over "
        "the seeds, the dashed line is an even share. Writers whose operations differ need not be even."
    )
    return [Table(columns, rows, "Nobody wrote."), Text([note] if rows else [], "note")]


def refusals(c: Comparison, measured: Mapping[Contender, CommitsMeasured]) -> list[Block]:
    """Who was refused by whose commit, and what it cost; then the matrix of writers of the point with the most refusals."""
    heads = ("attempts in vain", "time in them", "backoff", "written in vain", "aborted operations", "time in them")
    columns = [TableColumn("point"), TableColumn("refused, by whose commit", most=400)]
    columns += [TableColumn(name, right=True) for name in heads]
    rows = []
    for x, m in measured.items():
        w = m.wasted
        if m.beaten or m.unexplained or w.attempts or w.aborted:
            took = [words.duration(1000 * seconds) for seconds in (w.attempts_s, w.waited_s)]
            lost = "–" if w.written_bytes is None else words.size(w.written_bytes)
            ended = [words.grouped(w.aborted), words.duration(1000 * w.aborted_s)]
            rows.append(TableRow([sentences.point(c, x), _beaten(m), words.grouped(w.attempts), *took, lost, *ended]))
    out: list[Block] = [Table(columns, rows, "Nobody made anybody retry.")]
    refused = {x: sum(n for w in m.beaten_writers.values() for n in w.values()) for x, m in measured.items()}
    most = max(refused, key=lambda x: refused[x], default=None)
    drawn = drawings.refusal_grid(measured[most]) if most is not None else None
    if most is not None and drawn is not None:
        note = "A row for each writer that was refused, a column for each writer whose commit was current then; the darker, the more often."
        out += [Plot(drawn, f"Writer by writer, {sentences.point(c, most)}"), Text([note], "note")]
    return out


def _beaten(m: CommitsMeasured) -> TableCell:
    parts = []
    for b in m.beaten[:4]:
        aborted = f"{words.grouped(b.aborted)} aborted"
        times = f"×{words.grouped(b.attempts)}" + (f", {aborted}" if b.aborted else "") if b.attempts else f"×{aborted}"
        parts.append(f"{words.shorten(b.kind, 40)} by {words.shorten(b.by, 40)} {times}")
    more = f" and {words.plural(len(m.beaten) - 4, 'other pair')}" if len(m.beaten) > 4 else ""
    why = f"{words.grouped(m.unexplained)} without a commit that can be the cause"
    return TableCell("; ".join(parts) + more, (why,) if m.unexplained else ())


def foretold(c: Comparison, predicted: Sequence[Predicted]) -> list[Block]:
    """A row for each predicted point, a column for each figure that any of them has."""
    by_varied: dict[Varied, Contender] = {}
    for x in c.contenders:
        by_varied.setdefault(curves.place(x, c.contenders), x)
    figures = [f for f in ordered() if any(f.key in p.figures for p in predicted)]
    rows = []
    for p in predicted:
        below = [*([] if p.measured else ["not measured"]), *([words.shorten(p.reason, 400)] if p.reason else [])]
        measured = {f: c.spreads.get((f.key, by_varied[p.varied])) if p.varied in by_varied else None for f in figures}
        cells = [_against(f, p, measured[f]) for f in figures]
        rows.append(TableRow([TableCell(words.shorten(varied_label(p.varied), 80), tuple(below)), *cells]))
    note = (
        "Predicted value; below it the median that was measured, and (predicted − measured) / measured. Points far to the right of the "
        "measured ones are not drawn above."
    )
    columns = [TableColumn("point"), *(TableColumn(f.title, right=True) for f in figures)]
    return [Table(columns, rows, form="wide"), Text([note], "note")]


def _against(f: Figure, p: Predicted, s: Spread | None) -> TableCell:
    """A predicted value beside what was measured."""
    e = p.error.get(f.key)
    below = [] if s is None else [f"measured {shown(f, s.median)}"]
    below += [] if e is None else [f"{100 * e:+.1f} %"]
    return TableCell(shown(f, p.figures.get(f.key)), tuple(below), "" if s is None else spread(f, s))
