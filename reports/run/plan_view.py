"""What a run's page says of the plan: tables, operations, phases, versions, timings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compose.redaction import masked
from reports.drawing import words
from reports.run.stored import Stored

MOST_KINDS = 80


MOST_TABLES = 64


def table_specs(run: Stored) -> list[dict[str, Any]]:
    """The plan's tables as mappings; a list of mappings or a mapping by name."""
    tables = run.plan.get("tables")
    if isinstance(tables, Mapping):
        tables = [{"name": k, **(v if isinstance(v, Mapping) else {})} for k, v in tables.items()]
    return (
        [{str(k): v for k, v in t.items()} for t in tables if isinstance(t, Mapping)]
        if isinstance(tables, list)
        else []
    )


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


def _weights(mix: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(kind): spec.get("weight", 1) if isinstance(spec, Mapping) else spec for kind, spec in mix.items()}


def mix_of(run: Stored) -> list[dict[str, str]]:
    phases = run.plan.get("phases")
    mixes = [p.get("operations") for p in phases if isinstance(p, Mapping)] if isinstance(phases, list) else []
    mix = run.plan.get("operations") or next((m for m in mixes if m), None)
    if not isinstance(mix, Mapping):
        return []
    weights = {k: float(w) if isinstance(w, int | float) else 0.0 for k, w in _weights(mix).items()}
    total = sum(weights.values())
    out = []
    for kind, spec in list(mix.items())[:MOST_KINDS]:
        rest = {k: v for k, v in spec.items() if k != "weight" and v is not None} if isinstance(spec, Mapping) else {}
        if rest.get("keys") == "shared":
            del rest["keys"]
        out.append(
            {
                "kind": str(kind),
                "weight": f"{weights[str(kind)]:g}",
                "share": words.share(weights[str(kind)], total),
                "options": words.arguments(rest, 160),
            }
        )
    return out


def phases_of(run: Stored) -> dict[str, Any] | None:
    phases = run.plan.get("phases")
    if not isinstance(phases, list):
        return None
    items: list[dict[str, Any]] = []
    first = None
    for p in phases:
        if isinstance(p, Mapping):
            item = {str(k): v for k, v in p.items() if v is not None}
            mix = item.get("operations")
            if isinstance(mix, Mapping):
                first = first or mix
                item["operations"] = "the mix below" if mix == first else words.arguments(_weights(mix), 240)
            items.append(item)
    return table_of(items)


_SHOWN_ELSEWHERE = frozenset(
    (
        "workload",
        "name",
        "description",
        "tables",
        "operations",
        "phases",
        "versions",
        "command",
        "catalog",
        "seed",
        "writers",
    )
)


def _without_secrets(key: str, value: Any) -> Any:
    """What the plan says under ``key``; an older plan may have its catalog's secrets in it."""
    if key != "catalog_properties" or not isinstance(value, Mapping):
        return value
    return masked({str(k): str(v) for k, v in value.items()})


def plan_rest(run: Stored) -> list[tuple[str, str]]:
    return [
        (k.replace("_", " "), cell(_without_secrets(k, v)))
        for k, v in list(run.plan.items())[:40]
        if k not in _SHOWN_ELSEWHERE and v not in (None, {}, [])
    ]


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
            # Sums over stages would be counted twice among the bars.
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
