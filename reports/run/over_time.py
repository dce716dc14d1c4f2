"""A run over time: latency, throughput, faults, commits, and the slowest operations."""

from __future__ import annotations

from collections.abc import Sequence

from checkers.costs import figures
from reports.drawing import words
from reports.drawing.page import (
    Block,
    Fold,
    Heading,
    Legend,
    Plot,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Text,
    counted,
    joined,
    muted,
)
from reports.run import faulted, operations, plots
from reports.run.bands import (
    BAND_CLASSES,
    Band,
    FaultTally,
    TableFigures,
    TimeMark,
    faults,
    nemesis,
    operation_class,
    phases,
    table_figures,
)
from reports.run.operations import Shown
from reports.run.plan_view import MOST_TABLES
from reports.run.stored import Stored

MOST_WINDOWS = 200
MOST_SLOWEST = 8
COMMIT_WORDS = dict(zip(plots.COMMIT_STATES, ("first attempt", "retried", "not on main at the end"), strict=True))


def windows(run: Stored) -> tuple[list[Band], list[TimeMark]]:
    """When faults were active, and the phases and other marks by time."""
    bands, marks = nemesis(run.events, run.end_ns / 1e9)
    return bands, sorted([*phases(run.operations), *marks], key=lambda m: m.at)


def blocks(shown: Shown) -> list[Block]:
    """Drawings and tables of operations and faults over time."""
    run, (bands, marks) = shown.run, windows(shown.run)
    end_s = run.end_ns / 1e9
    out: list[Block] = []
    if (latency := plots.latency_over_time(run.operations, bands, marks, end_s)) is not None:
        out += [_marks_of(run), Plot(latency.drawing, "Latency"), Text([_drawn(latency, bool(bands))], "note")]
    if (rate := plots.throughput(run.operations, bands, marks, end_s)) is not None:
        keys = [(plots.legend_area(k), words.OUTCOME_WORDS[k]) for k in ("ok", "info", "fail")]
        note = f"Completions per second, stacked, in buckets of {words.duration(rate[1] * 1000)}."
        out += [Legend(keys), Plot(rate[0], "Throughput"), Text([note], "note")]
    if (quantiles := plots.quantiles_over_time(run.operations, bands, marks, end_s)) is not None:
        note = (
            f"Acknowledged operations, in windows of {words.duration(quantiles[1] * 1000)} by invocation; logarithmic."
        )
        out += [Plot(quantiles[0], "Latency quantiles"), Text([note], "note")]
    nothing = [] if out else [Text(["Nothing to draw."], "muted")]
    if tallies := faults(run.events):
        note = "Requests that a fault changed; for faults that do not strike connections, processes and operations. "
        note += "“Nothing to strike”: the service had refused the request anyway, or no such process was running."
        out += [Heading("Faults"), Table(_FAULTS, [_fault(t) for t in tallies], form="fit"), Text([note], "note")]
    if bands or marks:
        out.append(_windows(bands, marks))
    done = sorted((o for o in run.operations if o.type == "ok"), key=lambda o: -(figures.latency_ms(o) or 0))
    if done:
        out += [Heading("Slowest acknowledged"), operations.table(shown, done[:MOST_SLOWEST], tables=True)]
    return [*out, *nothing]


def _marks_of(run: Stored) -> Legend:
    found = {operation_class(f) for f in {o.f for o in run.operations}}
    outcomes = [(plots.legend_mark("circle", f"pt {k}"), words.OUTCOME_WORDS[k]) for k in ("ok", "fail", "info")]
    return Legend(
        [*outcomes, *((plots.legend_mark(plots.SHAPES[c], "neutral"), c) for c in BAND_CLASSES if c in found)]
    )


def _drawn(latency: plots.Sampled, bands: bool) -> str:
    few, of = words.grouped(latency.shown), words.grouped(latency.of)
    which = (
        f"{few} of {of} completed operations are drawn: the slowest, and evenly spaced ones of each outcome, more of rare outcomes."
        if latency.shown < latency.of
        else f"All {of} completed operations are drawn."
    )
    faults = " Bars at the top are faults." if bands else ""
    return f"One mark for each operation, at its invocation; logarithmic. {which}{faults}"


_FAULTS = (
    TableColumn("fault", most=80),
    *(TableColumn(name, right=True) for name in ("begun", "commits struck", "others struck", "nothing to strike")),
    TableColumn(""),
)


def _fault(t: FaultTally) -> TableRow:
    never = "" if t.hits.total() else "it never struck"
    return TableRow(
        [faulted.named(t.name), words.grouped(t.times), counted(t.commits), counted(t.others), counted(t.missed), never]
    )


def _windows(bands: Sequence[Band], marks: Sequence[TimeMark]) -> Fold:
    names = [words.plural(len(bands), "fault window")] if bands else []
    names += [words.plural(len(marks), "phase or mark", "phases and marks")] if marks else []
    columns = [
        TableColumn("fault or mark", most=80),
        TableColumn("from, s", right=True),
        TableColumn("to, s", right=True),
    ]
    rows = [
        (b.name, words.moment_number(b.start * 1000), words.moment_number(b.end * 1000)) for b in bands[:MOST_WINDOWS]
    ]
    rows += [(m.name, words.moment_number(m.at * 1000), "–") for m in marks[:MOST_WINDOWS]]
    few = max(len(bands), len(marks)) > MOST_WINDOWS
    more = [Text([f"The first {MOST_WINDOWS} of each."], "note")] if few else []
    return Fold(", ".join(names), [Table(columns, [TableRow(row) for row in rows], form="fit"), *more])


# --- commits ----------------------------------------------------------------------------------------------------------

_COMMITS = (
    TableColumn("table", mark="name", most=60),
    TableColumn("snapshots", right=True),
    TableColumn("by operation"),
    *(TableColumn(name, right=True) for name in ("sequence", "data files + / −", "delete files + / −", "rows + / −")),
    TableColumn("live rows, commit by commit"),
)


def commits(shown: Shown) -> list[Block]:
    """The snapshots of each table, drawn and counted."""
    run, (bands, marks) = shown.run, windows(shown.run)
    if not run.logs:
        return [Text(["There is no table log."], "muted")]
    out: list[Block] = []
    drawn = plots.commits_over_time(run.logs, shown.origin_ms, bands, marks, run.end_ns / 1e9)
    if drawn is not None and drawn.bucket_s is None:
        keys = [(plots.legend_mark(shape, "neutral"), name) for name, shape in plots.COMMIT_SHAPES.items()]
        keys += [(plots.legend_mark("square", f"commit {state}"), name) for state, name in COMMIT_WORDS.items()]
        out += [Legend(keys), Plot(drawn.drawing)]
    elif drawn is not None and drawn.bucket_s is not None:
        total = words.grouped(sum(len(log.commits) for log in run.logs.values()))
        note = f"{total} snapshots, counted in buckets of {words.duration(drawn.bucket_s * 1000)}; all tables at the same scale."
        keys = [(plots.legend_area(state), name) for state, name in COMMIT_WORDS.items()]
        out += [Legend(keys), Plot(drawn.drawing), Text([note], "note")]
    rows = [_table(table_figures(log)) for log in list(run.logs.values())[:MOST_TABLES]]
    note = "Rows are net: a row that a rewrite carries over is neither added nor removed. "
    note += "Live rows are those of main at the end of the log; – if a commit's rows could not be read."
    return [*out, Table(_COMMITS, rows), Text([note], "note")]


def _table(t: TableFigures) -> TableRow:
    kinds = (joined((words.shorten(k, 30), "\u00a0", muted(words.grouped(n)))) for k, n in t.by_operation.items())
    ends = "–" if t.captured_s is None else words.duration(t.captured_s * 1000)
    log = [
        *([] if t.complete else [f"its log ends at {ends}"]),
        *([words.plural(t.problems, "problem")] if t.problems else []),
    ]

    def both(added: int | None, removed: int | None) -> str:
        return f"{words.grouped(added)} / {words.grouped(removed)}"

    return TableRow(
        [
            TableCell(words.shorten(t.name, 60), below=(", ".join(log),) if log else ()),
            TableCell(
                words.grouped(t.commits), below=(f"{words.grouped(t.off_main)} not on main",) if t.off_main else ()
            ),
            joined(kinds, ", "),
            f"{words.grouped(t.first_sequence)}–{words.grouped(t.last_sequence)}",
            both(t.data_added, t.data_removed),
            both(t.deletes_added, t.deletes_removed),
            both(t.rows_added, t.rows_removed),
            joined((words.grouped(t.live_rows), plots.sparkline(t.live_by_commit)), " "),
        ]
    )
