"""Retries, conflicts and errors on a run's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from checkers.costs import figures
from checkers.costs.figures import AttemptFigures, ErrorGroup
from checkers.evidence import error_chain, outcome
from reports.drawing import words
from reports.drawing.page import (
    Block,
    BlockGroup,
    Heading,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Text,
    bar,
    counted,
    joined,
    link,
    muted,
    tag,
)
from reports.drawing.svg import element
from reports.run import interleavings
from reports.run.bands import is_write
from reports.run.operations import Shown
from reports.run.stored import Stored

MOST_ERRORS = 40
MOST_ATTEMPTS = 8


def blocks(run: Stored) -> list[Block]:
    """How many attempts the commits needed, and how many writes conflicts aborted."""
    by_table = figures.attempts_by_table(run.logs)
    by_kind = figures.attempts_by_kind(run.logs, {o.op: o.f for o in run.operations})
    writes = [o for o in run.operations if is_write(o.f)]
    parts: list[list[Block]] = []
    for name, head, found in (
        ("Attempts per commit, by table", "table", by_table),
        ("By kind of operation", "kind", by_kind),
    ):
        if any(a.commits or a.unknown for a in found):
            parts.append([Heading(name), _attempts(head, found)])
    if not parts and not writes:
        return [Text(["No commits and no writes are recorded."], "muted")]
    wide = any(len(a.counts) > 5 for a in by_kind)
    out: list[Block] = [Text([_sentence(run, by_table)]), BlockGroup(parts, "single" if wide else "")]
    if (said := interleavings.line(run)) is not None:
        href = interleavings.href(run)
        where = joined((tag("code", "icequake coverage"), " with this folder shows which."))
        which = joined((link("Which", href), ".")) if href else where
        out.append(Text([joined((f"Interleavings: {said} of two operations. ", which))]))
    note = "The attempt number comes from the name of the snapshot's manifest list; only commits that won leave one. "
    return [*out, Text([note + "Aborted statements are counted from the history."], "note")]


def _attempts(head: str, found: list[AttemptFigures]) -> Table:
    """How many commits needed how many attempts, one row for each of ``found``."""
    most = max((n for a in found for n in a.counts), default=1)
    least = min((n for a in found for n in a.counts), default=1)
    numbers = list(range(min(1, least), min(most, MOST_ATTEMPTS) + 1))
    names = [*map(str, numbers), *([f"> {MOST_ATTEMPTS}"] if most > MOST_ATTEMPTS else [])]
    unknown = any(a.unknown for a in found)
    last = [*(["unknown"] if unknown else []), "commits", "retried", "wasted"]
    rows = []
    for a in found:
        cells = [a.counts.get(n, 0) for n in numbers]
        if most > MOST_ATTEMPTS:
            cells.append(sum(k for n, k in a.counts.items() if n > MOST_ATTEMPTS))
        largest = max(cells, default=0) or 1
        bars = [_bar(n, 100 * n / largest, name not in ("0", "1")) for n, name in zip(cells, names, strict=True)]
        total = [*([words.grouped(a.unknown)] if unknown else []), words.grouped(a.commits)]
        rows.append(TableRow([a.name, *bars, *total, words.share(a.retried, a.commits), counted(a.extra)]))
    columns = [TableColumn(head, mark="name", most=60), *(TableColumn(n, right=True) for n in (*names, *last))]
    return Table(columns, rows)


def _bar(count: int, percent: float, again: bool) -> TableCell:
    if not count:
        return TableCell("0", mark="cell zero")
    return TableCell(joined((words.grouped(count), bar(round(percent), "again" if again else ""))), mark="cell")


def _sentence(run: Stored, by_table: list[AttemptFigures]) -> str:
    """How many writes were retried, aborted by a conflict (by exception class), or failed otherwise."""
    writes = [o for o in run.operations if is_write(o.f)]
    aborted: Counter[str] = Counter()
    otherwise: Counter[str] = Counter()
    for o in writes:
        if o.type == "fail":
            conflict = outcome.conflict_of(o)
            if conflict is not None:
                aborted[conflict] += 1
            else:
                otherwise[error_chain.short_class(error_chain.deciding_error(o.error)[0])] += 1
    commits, retried = sum(a.commits for a in by_table), sum(a.retried for a in by_table)
    said = ""
    if commits:
        wasted = words.plural(sum(a.extra for a in by_table), "attempt")
        said += f"{words.grouped(retried)} of {words.plural(commits, 'commit')} ({words.share(retried, commits)}) "
        said += f"needed more than one attempt; {wasted} were wasted. "
    if writes:
        n = aborted.total()
        said += f"{words.grouped(n)} of {words.plural(len(writes), 'write')} ({words.share(n, len(writes))}) "
        said += f"{'was' if n == 1 else 'were'} aborted by a conflict{_listing(aborted)}."
    if otherwise:
        said += f" {words.grouped(otherwise.total())} failed otherwise{_listing(otherwise)}."
    return said


def _listing(counts: Counter[str]) -> str:
    named = ", ".join(f"{words.shorten(name, 80)} {words.grouped(n)}" for name, n in counts.most_common(8))
    return f": {named}" if named else ""


# --- errors -----------------------------------------------------------------------------------------------------------

_ERRORS = (
    TableColumn("exception", most=80),
    TableColumn("message pattern", mark="wrap", most=400),
    TableColumn("failed", right=True),
    TableColumn("unknown", right=True),
    TableColumn("kinds"),
    TableColumn("example", mark="mono nowrap"),
)


def errors(shown: Shown) -> list[Block]:
    """The errors of operations, one row for each group."""
    groups = figures.error_groups(shown.run.operations)
    more = len(groups) - MOST_ERRORS
    rest = [Text([f"and {words.plural(more, 'rarer group')}."], "note")] if more > 0 else []
    return [Table(_ERRORS, [_error(shown, g) for g in groups[:MOST_ERRORS]]), *rest]


def _error(shown: Shown, g: ErrorGroup) -> TableRow:
    name = TableCell(error_chain.short_class(g.name), title=words.shorten(g.name.rpartition(".")[0], 120))
    return TableRow(
        [name, _pattern(g), counted(g.fail), counted(g.info), _kinds(g.kinds), shown.link(g.example_op)],
    )


def _pattern(g: ErrorGroup) -> str:
    """What the messages of a group have in common, and one of them in full."""
    example = "\ncaused by ".join(words.shorten(": ".join(e), 700) for e in (g.example or [])[:6])
    if not example:
        return g.family or "–"
    whole = element("details", tag("summary", "one message in full"), tag("pre", example), class_="more")
    return joined((g.family or "–", whole))


def _kinds(counts: Counter[str]) -> str:
    said: Iterable[str] = (
        joined((words.shorten(k, 40), " ", muted(words.grouped(n)))) for k, n in counts.most_common(4)
    )
    others = [words.plural(len(counts) - 4, "other")] if len(counts) > 4 else []
    return joined((*said, *others), ", ")
