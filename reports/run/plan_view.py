"""The plan on a run's page: tables, operations, phases, versions, timings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from compose.redaction import masked
from reports.drawing import words
from reports.run.stored import Stored

MOST_KINDS = 80


MOST_TABLES = 64


def table_specs(run: Stored) -> list[dict[str, Any]]:
    """The tables of the plan."""
    return [t.model_dump(exclude_unset=True) for t in run.plan.tables or ()]


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value in ({}, [], ()):
        return "–"
    if isinstance(value, Mapping):
        return words.arguments(value, 240)
    if isinstance(value, list | tuple) and all(isinstance(v, str | int | float) for v in value):
        return words.shorten(", ".join(map(str, value)), 240)
    return words.grouped(value) if isinstance(value, int | float) else words.compact(value, 240).strip('"')


def table_of(items: list[dict[str, Any]]) -> dict[str, Any] | None:
    columns = list(dict.fromkeys(k for item in items for k in item))[:16]
    if not columns:
        return None
    rows = [[cell(item.get(c)) for c in columns] for item in items[:MOST_TABLES]]
    return {"columns": [c.replace("_", " ") for c in columns], "rows": rows, "more": max(0, len(items) - MOST_TABLES)}


def _weight(spec: Mapping[str, Any]) -> float:
    weight = spec.get("weight", 1)
    return float(weight) if isinstance(weight, int | float) else 0.0


def mix_of(run: Stored) -> list[dict[str, str]]:
    """The mix of the first phase that has one."""
    mix = next((p.operations for p in run.plan.phases if p.operations), {})
    total = sum(map(_weight, mix.values()))
    out = []
    for kind, spec in list(mix.items())[:MOST_KINDS]:
        rest = {k: v for k, v in spec.items() if k != "weight" and v is not None}
        if rest.get("keys") == "shared":
            del rest["keys"]
        out.append(
            {
                "kind": kind,
                "weight": f"{_weight(spec):g}",
                "share": words.share(_weight(spec), total),
                "options": words.arguments(rest, 160),
            }
        )
    return out


def phases_of(run: Stored) -> dict[str, Any] | None:
    """The phases as a table; None if the plan has none."""
    first = next((p.operations for p in run.plan.phases if p.operations), {})
    items: list[dict[str, Any]] = []
    for p in run.plan.phases:
        item = p.model_dump(exclude_unset=True, exclude_none=True)
        if p.operations:
            weights = {kind: _weight(spec) for kind, spec in p.operations.items()}
            item["operations"] = "the mix below" if p.operations == first else words.arguments(weights, 240)
        items.append(item)
    return table_of(items)


_SHOWN_ELSEWHERE = frozenset(
    (
        "format",
        "workload",
        "description",
        "tables",
        "phases",
        "versions",
        "command",
        "catalog",
        "seed",
        "writers",
        "engines",
        "scenario",
    )
)


def plan_rest(run: Stored) -> list[tuple[str, str]]:
    """The other values of the plan; an older plan may contain its catalog's secrets."""
    said = run.plan.to_yaml()
    if run.plan.catalog_properties:
        said["catalog_properties"] = masked(run.plan.catalog_properties)
    return [
        (k.replace("_", " "), cell(v))
        for k, v in list(said.items())[:40]
        if k not in _SHOWN_ELSEWHERE and v not in (None, {}, [], ())
    ]


def engines_of(run: Stored) -> str:
    """How many writers each engine has: ``2 spark · 1 duckdb``; empty if all are Spark's."""
    return " · ".join(f"{n} {name}" for name, n in Counter(run.plan.engines).items())


def timings_of(run: Stored) -> list[dict[str, Any]]:
    timings = run.run.get("timings")
    if not isinstance(timings, Mapping):
        return []
    found = {
        str(k): float(v)
        for k, v in timings.items()
        if isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v < 1e9
    }
    whole = found.get("total") or sum(found.values()) or 1
    return [
        {
            "stage": k,
            "took": words.duration(v * 1000),
            # Sums over stages would count twice among the bars.
            "percent": None if k in ("total", "first operation") else round(min(100, 100 * v / whole), 1),
        }
        for k, v in list(found.items())[:40]
    ]


def run_rest(run: Stored) -> list[tuple[str, str]]:
    out = []
    for key, value in list(run.run.items())[:40]:
        if key in ("started", "timings", "command", "operations", "pid", "pid_started"):
            continue
        if key.endswith("_bytes") and isinstance(value, int | float):
            out.append((key.removesuffix("_bytes").replace("_", " "), words.size(float(value))))
        elif key.endswith(("_seconds", "_s")) and isinstance(value, int | float):
            out.append((key.rsplit("_", 1)[0].replace("_", " "), words.duration(float(value) * 1000)))
        else:
            out.append((key.replace("_", " "), words.shorten(cell(value), 600)))
    return out
