"""The pages: the list of runs, two runs side by side, a folder, an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment

from checkers.evidence.lenient import mapping
from checkers.verdict import Verdict
from reports.drawing import words
from reports.drawing.templates import environment
from reports.serve.index import STATUSES, Entry, Filter, Status, values

EACH = 100
"""Runs on a page of the list."""
SYMBOLS: dict[Status, str] = {"valid": "✓", "anomalies": "✕", "unknown": "?", "not checked": "–", "broken": "!"}


def address(path: str) -> str:
    """Where a file or folder of the store is served; a folder's ends with ``/``."""
    return f"/store/{quote(path)}"


@cache
def _templates() -> Environment:
    """Compiled once: a server shows many pages."""
    return environment(address=address, symbols=SYMBOLS)


def _page(template: str, **view: Any) -> str:
    return words.printable(_templates().get_template(template).render(**view))


def runs(entries: Sequence[Entry], chosen: Filter, number: int, store: str) -> str:
    """A page of the list of runs.

    Args:
        entries: all runs, in the order of the list; ``chosen``: which of them are shown.
        number: of the page, from 1; one past the last is the last.
        store: the store's name.
    """
    shown = [e for e in entries if chosen(e)]
    last = max(1, -(-len(shown) // EACH))
    number = min(max(1, number), last)
    asked = {"workload": chosen.workload, "catalog": chosen.catalog, "verdict": chosen.status, "q": chosen.text}

    def at(page: int) -> str:
        return "/?" + urlencode({k: v for k, v in asked.items() if v} | ({"page": str(page)} if page > 1 else {}))

    return _page(
        "serve_runs.html",
        store=store,
        total=len(entries),
        count=len(shown),
        entries=shown[EACH * (number - 1) : EACH * number],
        chosen=chosen,
        workloads=values(entries, "workload"),
        catalogs=values(entries, "catalog"),
        statuses=STATUSES,
        tally={s: sum(e.status == s for e in shown) for s in STATUSES},
        number=number,
        last=last,
        previous=at(number - 1) if number > 1 else None,
        next=at(number + 1) if number < last else None,
        when=words.when,
    )


def folder(path: str, files: Sequence[tuple[str, bool, int]], run: Entry | None) -> str:
    """A folder of the store.

    Args:
        path: in the store; empty: the store itself.
        files: name, whether it is a folder, and size of each.
        run: the run that it is, if it is one.
    """
    above = path.rpartition("/")[0]
    shown = [
        (name + "/" if is_folder else name, None if is_folder else words.size(size)) for name, is_folder, size in files
    ]
    return _page("serve_folder.html", path=path, above=above, files=shown, run=run)


def error(code: int, title: str, text: str) -> str:
    """The page of an error."""
    return _page("serve_error.html", code=code, title=title, text=text)


@dataclass(frozen=True, slots=True)
class Line:
    """What two runs have of one thing."""

    name: str
    one: str
    other: str

    @property
    def differs(self) -> bool:
        """Whether they are not the same."""
        return self.one != self.other


def side_by_side(one: Entry, other: Entry) -> str:
    """Two runs, line by line."""
    return _page("serve_pair.html", one=one, other=other, groups=compared(one, other))


def compared(one: Entry, other: Entry) -> dict[str, list[Line]]:
    """What two runs were to do, what they did, and what the checkers say; lines that both lack are left out."""
    made = {
        "Verdict": (_verdict(one), _verdict(other)),
        "Anomalies": (_counts(one.anomalies), _counts(other.anomalies)),
        "Checkers": ({v.checker: _said(v) for v in one.verdicts}, {v.checker: _said(v) for v in other.verdicts}),
        "Figures": (_figures(one), _figures(other)),
        "What was to run": (_plan(one), _plan(other)),
        "Versions": (_words(one.plan.get("versions")), _words(other.plan.get("versions"))),
        "Tables": (_tables(one), _tables(other)),
        "Mix": (_mix(one), _mix(other)),
    }
    out = {}
    for group, (a, b) in made.items():
        lines = [Line(name, a.get(name, "–"), b.get(name, "–")) for name in dict.fromkeys((*a, *b))]
        if lines:
            out[group] = lines
    return out


def _verdict(e: Entry) -> dict[str, str]:
    return {
        "verdict": e.verdict,
        "state": e.state,
        "started": words.when(e.started) or "–",
        **({"cannot be read": "; ".join(e.broken)} if e.broken else {}),
    }


def _counts(found: Mapping[str, int]) -> dict[str, str]:
    return {name: words.grouped(n) for name, n in found.items()}


def _said(v: Verdict) -> str:
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


def _figures(e: Entry) -> dict[str, str]:
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


def _plan(e: Entry) -> dict[str, str]:
    out = {"workload": e.workload, "catalog": e.catalog or "–"}
    for key in ("seed", "writers", "engines", "keys", "op_timeout", "nemesis", "expect", "allow", "command"):
        if (value := e.plan.get(key)) not in (None, [], {}, ""):
            out[key] = _value(value)
    for phase in _list(e.plan.get("phases")):
        out[f"length of {phase.get('name')}"] = _value(phase.get("length"))
    return out


def _tables(e: Entry) -> dict[str, str]:
    return {
        str(t.get("name")): words.arguments({k: v for k, v in t.items() if k != "name"}, 400)
        for t in _list(e.plan.get("tables"))
    }


def _mix(e: Entry) -> dict[str, str]:
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
