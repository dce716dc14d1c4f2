"""What the checker ``retries`` measured, in sentences and tables; read leniently, because a stored run may be of another version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkers.evidence.lenient import mapping, mappings, number
from reports.drawing import words
from reports.drawing.page import Block, Heading, Table, TableCell, TableColumn, TableRow, Text, bar, joined
from reports.run import values

MOST_PAIRS = 40
WHY = {
    "named": "the error names its rows or files",
    "rows": "it changed the same rows",
    "part": "it wrote the same partition",
    "time": "it committed meanwhile",
}
"""Why the checker takes one operation for the cause of another's abort → in words."""


def blocks(stats: Mapping[str, Any]) -> list[Block]:
    """The statistics of the checker."""
    out: list[Block] = [Text(said, "list")] if (said := _sentences(stats)) else []
    if pairs := list(mappings(mapping(stats.get("conflicts")).get("pairs"))):
        out += [Heading("What aborted what"), _pairs(pairs)]
    by_kind = {k: mapping(v) for k, v in mapping(mapping(stats.get("spurious")).get("by_kind")).items()}
    if by_kind and (found := values.table(by_kind, "aborted kind", "fit")) is not None:
        out += [Heading("Spurious aborts by kind"), found]
    if writers := mapping(mapping(stats.get("attempts")).get("by_writer")):
        out += [Heading("Commits by the attempts that they needed, of each writer"), _writers(writers)]
    faults = mapping(stats.get("faults"))
    if number(faults.get("windows")):
        out += [Heading("Throughput and latency while a fault was on, and while none was"), _faults(faults)]
    return out


def _sentences(stats: Mapping[str, Any]) -> list[str]:
    metrics, success = mapping(stats.get("metrics")), mapping(stats.get("success"))
    spurious, wasted, backoff = (mapping(stats.get(key)) for key in ("spurious", "wasted", "backoff_ms"))
    out = []
    judged, aborted = _n(spurious, "judged"), _n(spurious, "aborted")
    if judged:
        rest = "" if judged == aborted else f"; {words.grouped(aborted - judged)} more could not be judged"
        found = f"{words.grouped(_n(spurious, 'spurious'))} of {words.plural(judged, 'abort')}"
        out.append(
            f"{found} {'was' if judged == 1 else 'were'} spurious: no commit had changed what it read or wrote{rest}."
        )
    elif aborted:
        out.append(f"Of {words.plural(aborted, 'abort')} none could be judged to be spurious or not.")
    met = _n(success, "aborted") + _n(success, "committed")
    if met:
        share = words.share(_n(success, "committed"), met)
        won = f"{words.grouped(_n(success, 'committed'))} of {words.plural(met, 'operation')}"
        out.append(f"{won} that met a conflict committed in the end ({share}).")
    seconds, attempts = number(wasted.get("seconds")) or 0.0, _n(wasted, "attempts")
    if seconds or attempts:
        part = number(wasted.get("share"))
        of = "" if part is None else f" ({words.share(part, 1)} of all that writers worked)"
        out.append(
            f"Conflicts cost {words.duration(1000 * seconds)} of work{of} and {words.plural(attempts, 'attempt')} of commits."
        )
    waited, in_vain = number(backoff.get("committed")) or 0.0, number(backoff.get("exhausted")) or 0.0
    if waited or in_vain:
        out.append(
            f"Retries waited {words.duration(waited)} before commits that won, and {words.duration(in_vain)} in vain."
        )
    p50, p99 = number(metrics.get("latency_p50_ms")), number(metrics.get("latency_p99_ms"))
    if p50 is not None and p99 is not None:
        out.append(
            f"An acknowledged operation took {words.duration(p50)} in the median, and one of a hundred more than {words.duration(p99)}."
        )
    work = mapping(mapping(stats.get("retry_work")).get("ms"))
    if work:
        said = ", ".join(f"{k} {words.duration(number(v) or 0.0)}" for k, v in work.items())
        out.append(f"A retry worked, beside its wait: {said}.")
    unexplained = _n(mapping(stats.get("conflicts")), "unexplained")
    if unexplained:
        out.append(f"{words.plural(unexplained, 'abort')} no commit of the log can have caused.")
    return out


def _n(said: Mapping[str, Any], key: str) -> int:
    return int(number(said.get(key)) or 0)


def _pairs(pairs: list[Mapping[str, Any]]) -> Table:
    most = max(_n(p, "count") for p in pairs) or 1
    columns = [TableColumn(n) for n in ("aborted", "by", "table", "exception", "why it is taken for the cause")]
    columns += [TableColumn("times", right=True)]
    rows = []
    for p in pairs[:MOST_PAIRS]:
        why = str(p.get("because"))
        said = [str(p.get(key)) for key in ("aborted", "by", "table", "exception")]
        count = joined((words.grouped(_n(p, "count")), bar(100 * _n(p, "count") / most)))
        rows.append(TableRow([*said, WHY.get(why, why), TableCell(count, mark="cell")]))
    return Table(columns, rows, form="fit")


def _writers(writers: Mapping[str, Any]) -> Table:
    found = {w: {n: _n(mapping(counts), n) for n in mapping(counts)} for w, counts in writers.items()}
    numbers = sorted({n for counts in found.values() for n in counts}, key=lambda n: (len(n), n))[:12]
    columns = [TableColumn("writer"), *(TableColumn(n, right=True) for n in numbers)]
    rows = []
    for writer, counts in list(found.items())[: values.MOST_ROWS_SHOWN]:
        most = max(counts.values(), default=0) or 1
        cells = [_bar(counts.get(n, 0), most, n not in ("0", "1")) for n in numbers]
        rows.append(TableRow([words.shorten(writer, 40), *cells]))
    return Table(columns, rows, form="fit")


def _bar(count: int, most: int, again: bool) -> TableCell:
    shown = joined((words.grouped(count), bar(100 * count / most, "again" if again else ""))) if count else "0"
    return TableCell(shown, mark="cell" if count else "cell zero")


def _faults(faults: Mapping[str, Any]) -> Table:
    parts = (
        ("while a fault was on", mapping(faults.get("inside"))),
        ("while none was", mapping(faults.get("outside"))),
    )
    fastest = max((number(p.get("per_second")) or 0.0 for _, p in parts), default=0.0) or 1.0
    quantiles = [(kind, q) for kind in ("read", "write") for q in ("p50", "p90", "p99", "max")]
    columns = [TableColumn(""), *(TableColumn(n, right=True) for n in ("lasted", "acknowledged", "per second"))]
    columns += [TableColumn(f"{kind} {q}", right=True) for kind, q in quantiles]
    rows = []
    for name, part in parts:
        rate, latency = number(part.get("per_second")), mapping(part.get("latency_ms"))
        speed = "–" if rate is None else joined((f"{rate:.2f}", bar(100 * rate / fastest)))
        found = [number(mapping(latency.get(kind)).get(q)) for kind, q in quantiles]
        lasted = words.duration(1000 * (number(part.get("seconds")) or 0.0))
        took = ["–" if v is None else words.duration(v) for v in found]
        rows.append(
            TableRow([name, lasted, words.grouped(_n(part, "acknowledged")), TableCell(speed, mark="cell"), *took])
        )
    return Table(columns, rows, form="fit")
