"""How the operations of a run ended, by kind, table and phase, and their errors."""

from __future__ import annotations

from checkers.costs import figures
from checkers.costs.figures import OUTCOMES, Tally
from reports.drawing import words
from reports.drawing.page import Block, Heading, Table, TableCell, TableColumn, TableRow, Text, bar, counted
from reports.drawing.svg import element
from reports.run import conflicts_view
from reports.run.operations import Shown
from reports.run.plan_view import MOST_KINDS, MOST_TABLES

_NOTE = (
    "ok: it took effect. failed: it certainly did not. unknown: no answer came, so it may have taken effect or not. After that a writer goes "
    "on as a new process, as Jepsen's do: its old number plus the number of writers. Latency covers acknowledged operations, from invocation "
    "to answer."
)


def blocks(shown: Shown) -> list[Block]:
    """The section of operations."""
    found = shown.run.operations
    if not found:
        return [Text(["The history has no operations."], "muted")]
    by_kind = sorted(figures.tallies(found, lambda o: o.f), key=lambda t: t.name)[:MOST_KINDS]
    by_table = sorted(figures.tallies(found, lambda o: o.table or "(none)"), key=lambda t: t.name)[:MOST_TABLES]
    by_phase = figures.tallies(found, lambda o: str(o.invoked.extra.get("phase") or "(none)"))[:MOST_KINDS]
    total = figures.tally("all", found)
    out: list[Block] = [
        Text([_NOTE], "note"),
        table("kind", by_kind, total),
        Heading("By table"),
        table("table", by_table),
    ]
    out += [Heading("By phase"), table("phase", by_phase)] if len(by_phase) > 1 else []
    return [*out, Heading("Errors"), *conflicts_view.errors(shown)]


def table(head: str, tallies: list[Tally], total: Tally | None = None) -> Table:
    """How the operations of each group ended, and how long those that were acknowledged took."""
    names = ("operations", *words.OUTCOME_WORDS.values(), "ok share")
    columns = [
        TableColumn(head, mark="name", most=60),
        *(TableColumn(name, right=True) for name in names),
        TableColumn("outcomes"),
        *(TableColumn(name, right=True) for name in ("median, ms", "p95", "p99", "max")),
    ]
    rows = [_row(t) for t in tallies]
    return Table(columns, rows if total is None else [*rows, _row(total, "sum")])


def _row(t: Tally, mark: str = "") -> TableRow:
    counts = {k: getattr(t, k) for k in OUTCOMES}
    said = words.outcomes(t.ok, t.fail, t.info)
    parts = [bar(round(100 * n / t.count, 2), k) for k, n in counts.items() if n]
    q = t.latency
    latency: list[str | TableCell] = [TableCell("–", mark="zero")] * 4
    if q is not None:
        latency = [words.milliseconds(v) for v in (q.median, q.p95, q.p99, q.max)]
    return TableRow(
        [
            t.name,
            words.grouped(t.count),
            *map(counted, counts.values()),
            words.share(t.ok, t.count),
            element("span", *parts, class_="mix", title=said),
            *latency,
        ],
        mark=mark,
    )
