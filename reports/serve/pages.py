"""The pages: the list of runs, two runs side by side, a folder, an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from checkers.evidence.lenient import mapping
from checkers.verdict import Verdict
from reports.drawing import words
from reports.drawing.page import (
    Banner,
    Block,
    Choice,
    Form,
    Page,
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
)
from reports.drawing.render import html
from reports.serve.index import STATUSES, RunEntry, RunFilter, Status, values

EACH = 100
"""Runs on a page of the list."""
STATUS_SYMBOLS: dict[Status, str] = {"valid": "✓", "anomalies": "✕", "unknown": "?", "not checked": "–", "broken": "!"}
STATUS_CLASSES: dict[Status, str] = {
    "valid": "valid",
    "anomalies": "invalid",
    "unknown": "unknown",
    "not checked": "incomplete",
    "broken": "invalid",
}
"""Status of a run → its class of the style sheet."""


def address(path: str) -> str:
    """Where a file or folder of the store is served; a folder's ends with ``/``."""
    return f"/store/{quote(path)}"


def _page(name: str, banner: Banner, title: str, blocks: Sequence[Block], *ways: str) -> str:
    """A page with one section; ``ways``: links to others, besides the list of runs."""
    crumb = joined((name, link("runs", "/"), *ways), " · ")
    return html(Page("", crumb, banner, [Section(title, "here", blocks)] if blocks else []))


def _verdict(e: RunEntry) -> Markup:
    return badge(STATUS_CLASSES[e.status], f"{STATUS_SYMBOLS[e.status]} {words.shorten(e.verdict, 160)}")


def runs(entries: Sequence[RunEntry], chosen: RunFilter, number: int, store: str) -> str:
    """A page of the list of runs.

    Args:
        entries: all runs, in the order of the list; ``chosen``: which of them are shown.
        number: of the page, from 1; one past the last is the last.
        store: the store's name.
    """
    shown = [e for e in entries if chosen(e)]
    last = max(1, -(-len(shown) // EACH))
    number = min(max(1, number), last)
    tally = Counter(e.status for e in shown)
    counts = " · ".join(f"{STATUS_SYMBOLS[s]} {words.grouped(tally[s])} {s}" for s in STATUSES if tally[s])
    found = [words.plural(len(shown), "run"), *([counts] if counts else [])]
    banner = Banner("measured", f"{words.plural(len(entries), 'run')} in {words.shorten(store, 60)}", " · ".join(found))
    turn = [Text([_turn(chosen, number, last)])] if last > 1 else []
    table = _runs(shown[EACH * (number - 1) : EACH * number])
    asked = Text(["Of the two runs that are ticked."], "muted")
    empty = Text(["No run is like this." if entries else "There is no run yet."], "muted")
    blocks: list[Block] = [_filter(entries, chosen)]
    blocks += [*turn, Form("/compare", (), "Side by side", (asked, table)), *turn] if table.rows else [empty]
    return _page(f"runs of {words.shorten(store, 60)}", banner, "Runs", blocks, link("all files", "/store/"))


def _filter(entries: Sequence[RunEntry], chosen: RunFilter) -> Form:
    def one_of(found: Iterable[str]) -> tuple[tuple[str, str], ...]:
        return (("", "all"), *((value, value) for value in found))

    choices = (
        Choice("Name, anomaly or date", "q", chosen.text),
        Choice("Workload", "workload", chosen.workload, one_of(values(entries, "workload"))),
        Choice("Catalog", "catalog", chosen.catalog, one_of(values(entries, "catalog"))),
        Choice(
            "Verdict", "verdict", chosen.status, (("", "all"), *((s, f"{s}: {text}") for s, text in STATUSES.items()))
        ),
    )
    return Form("/", choices, "Show")


def _turn(chosen: RunFilter, number: int, last: int) -> Markup:
    """The pages before and after this one."""
    asked = {"workload": chosen.workload, "catalog": chosen.catalog, "verdict": chosen.status, "q": chosen.text}

    def link_to(page: int) -> str:
        return "/?" + urlencode({k: v for k, v in asked.items() if v} | ({"page": str(page)} if page > 1 else {}))

    parts = [link("newer", link_to(number - 1))] if number > 1 else []
    parts += [muted(f"page {words.grouped(number)} of {words.grouped(last)}")]
    return joined((*parts, *([link("older", link_to(number + 1))] if number < last else [])), " ")


def _runs(entries: Sequence[RunEntry]) -> Table:
    names = ("", "run", "started", "catalog", "state", "operations", "verdict", "")
    rows = []
    for e in entries:
        tick = Markup('<input type="checkbox" name="run" value="{0}" aria-label="{0}">').format(e.path)
        few = ", ".join(words.tally({name: n}) for name, n in list(e.anomalies.items())[:4])
        below = [*([few] if few else []), *(words.shorten(b, 200) for b in e.broken)]
        cells = (tick, link(words.shorten(e.path, 160), f"{address(e.path)}/"), words.when(e.started) or "–")
        verdict = TableCell(_verdict(e), tuple(below))
        files = link("files", f"{address(e.path)}/?files")
        rows.append(TableRow([*cells, e.catalog, e.state, words.grouped(e.operations), verdict, files]))
    return Table([TableColumn(name, right=name == "operations", most=60) for name in names], rows)


def folder(path: str, files: Sequence[tuple[str, bool, int]], run: RunEntry | None) -> str:
    """A folder of the store.

    Args:
        path: in the store; empty: the store itself.
        files: name, whether it is a folder, and size of each.
        run: the run that it is, if it is one.
    """
    above = path.rpartition("/")[0]
    rows = []
    for name, is_folder, size in files:
        shown = name + "/" if is_folder else name
        target = link(words.shorten(shown, 160), address(f"{path}/{shown}" if path else shown))
        rows.append(TableRow([target, "" if is_folder else words.size(size)]))
    name = words.shorten(path, 200) or "The store"
    banner, facts = Banner("measured", name, words.plural(len(files), "file or folder", "files and folders")), []
    if run is not None:
        own = "" if run.has_page else " It has no page: icequake check with this folder judges it and writes one."
        banner = Banner(STATUS_CLASSES[run.status], name, f"{run.verdict}, {run.state}.{own}")
        facts = [*([link("its page", f"{address(path)}/")] if run.has_page else []), *run.broken]
    table = Table([TableColumn("file"), TableColumn("size", right=True)], rows, "It is empty.")
    up = [link("folder above", address(above + "/" if above else ""))] if path else []
    return _page(words.shorten(path, 80) or "the store", banner, "Files", [Text(facts), table], *up)


def error(code: int, title: str, text: str) -> str:
    """The page of an error."""
    return _page(title, Banner("unknown", f"{code} {title}", text), "", [])


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """What two runs have of one thing."""

    name: str
    first: str
    second: str

    @property
    def differs(self) -> bool:
        """Whether they are not the same."""
        return self.first != self.second


def side_by_side(left_run: RunEntry, right_run: RunEntry) -> str:
    """Two runs, line by line."""
    rows = []
    for group, lines in compared(left_run, right_run).items():
        rows.append(TableRow(head=group))
        rows += [TableRow([x.name, x.first, x.second], mark="unlike" if x.differs else "") for x in lines]
    columns = [TableColumn(""), *(TableColumn(words.shorten(e.path, 160), most=600) for e in (left_run, right_run))]
    runs = [joined((link(e.path, f"{address(e.path)}/"), _verdict(e)), " ") for e in (left_run, right_run)]
    banner = Banner("measured", "Two runs side by side", "Lines that differ are marked.")
    return _page("two runs side by side", banner, "Line by line", [Text(runs, "list"), Table(columns, rows)])


def compared(left_run: RunEntry, right_run: RunEntry) -> dict[str, list[ComparedLine]]:
    """What two runs were to do, what they did, and what the checkers say; lines that both lack are left out."""
    made = {
        "Verdict": (_state(left_run), _state(right_run)),
        "Anomalies": (_counts(left_run.anomalies), _counts(right_run.anomalies)),
        "Checkers": (
            {v.checker: _verdict_text(v) for v in left_run.verdicts},
            {v.checker: _verdict_text(v) for v in right_run.verdicts},
        ),
        "Figures": (_figures(left_run), _figures(right_run)),
        "What was to run": (_plan(left_run), _plan(right_run)),
        "Versions": (_words(left_run.plan.get("versions")), _words(right_run.plan.get("versions"))),
        "Tables": (_tables(left_run), _tables(right_run)),
        "Mix": (_mix(left_run), _mix(right_run)),
    }
    out = {}
    for group, (a, b) in made.items():
        lines = [ComparedLine(name, a.get(name, "–"), b.get(name, "–")) for name in dict.fromkeys((*a, *b))]
        if lines:
            out[group] = lines
    return out


def _state(e: RunEntry) -> dict[str, str]:
    return {
        "verdict": e.verdict,
        "state": e.state,
        "started": words.when(e.started) or "–",
        **({"cannot be read": "; ".join(e.broken)} if e.broken else {}),
    }


def _counts(found: Mapping[str, int]) -> dict[str, str]:
    return {name: words.grouped(n) for name, n in found.items()}


def _verdict_text(v: Verdict) -> str:
    if v.valid == "unknown":
        return "unknown"
    return "valid" if v.valid else "anomalies found"


_METRICS = {
    "ok_rate": "acknowledged",
    "abort_rate": "aborted by a conflict",
    "unknown_rate": "of unknown outcome",
    "retry_rate": "commits that were retried",
    "latency_p50_ms": "latency, median",
    "latency_p99_ms": "latency, p99",
}


def _figures(e: RunEntry) -> dict[str, str]:
    stats = {v.checker: mapping(v.stats) for v in e.verdicts}
    out = {"operations": words.grouped(e.operations)} if e.operations is not None else {}
    load = stats.get("load", {})
    if isinstance(load.get("seconds"), int | float):
        out["lasted"] = words.duration(1000 * load["seconds"])
    if isinstance(load.get("commits"), int):
        out["commits"] = words.grouped(load["commits"])
    metrics = mapping(stats.get("retries", {}).get("metrics"))
    for key, name in _METRICS.items():
        value = metrics.get(key)
        if isinstance(value, int | float):
            out[name] = words.duration(value) if key.endswith("_ms") else words.share(value, 1)
    peak = e.run.get("peak_memory_bytes")
    if isinstance(peak, int):
        out["peak memory"] = words.size(peak)
    return out


def _plan(e: RunEntry) -> dict[str, str]:
    out = {"workload": e.workload, "catalog": e.catalog or "–"}
    for key in ("seed", "writers", "engines", "keys", "op_timeout", "nemesis", "expect", "allow", "command"):
        if (value := e.plan.get(key)) not in (None, [], {}, ""):
            out[key] = _value(value)
    for phase in _list(e.plan.get("phases")):
        out[f"length of {phase.get('name')}"] = _value(phase.get("length"))
    return out


def _tables(e: RunEntry) -> dict[str, str]:
    return {
        str(t.get("name")): words.arguments({k: v for k, v in t.items() if k != "name"}, 400)
        for t in _list(e.plan.get("tables"))
    }


def _mix(e: RunEntry) -> dict[str, str]:
    out = {}
    for phase in _list(e.plan.get("phases")):
        for kind, options in mapping(phase.get("operations")).items():
            out[f"{phase.get('name')}: {kind}"] = words.arguments(options, 200)
    return out


def _words(value: object) -> dict[str, str]:
    return {str(k): _value(v) for k, v in mapping(value).items()}


def _list(value: object) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _value(value: object) -> str:
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        counts = Counter(value)
        value = ", ".join(v if n == 1 else f"{v} ×{n}" for v, n in counts.items())
    return words.shorten(value, 400) if isinstance(value, str) else words.arguments(value, 400)
