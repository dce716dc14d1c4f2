"""The plan on a run's page: tables, operations, phases, versions, timings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from checkers.evidence.lenient import mapping
from compose.redaction import masked
from reports.drawing import words
from reports.drawing.page import Block, BlockGroup, Heading, Pairs, Table, TableColumn, TableRow, Text, bar
from reports.drawing.svg import element
from reports.run import values
from reports.run.stored import Stored

MOST_KINDS = 80


MOST_TABLES = 64
LONG_VALUE = 40
"""Characters of a cell whose column is kept wide."""


def table_specs(run: Stored) -> list[dict[str, Any]]:
    """The tables of the plan."""
    return [t.model_dump(exclude_unset=True) for t in run.plan.tables or ()]


def cell(value: Any) -> str:
    """A value of a plan or of statistics in words."""
    return words.grouped(value) if isinstance(value, int) and not isinstance(value, bool) else words.plainly(value)


def table_of(items: list[dict[str, Any]], *, fit: bool = False) -> Table | None:
    """Mappings as rows, below their keys."""
    columns = list(dict.fromkeys(k for item in items for k in item))[:16]
    if not columns:
        return None
    rows = [TableRow([cell(item.get(c)) for c in columns]) for item in items[:MOST_TABLES]]
    long = {c for c in columns for item in items[:MOST_TABLES] if len(cell(item.get(c))) > LONG_VALUE}
    heads = [
        TableColumn(words.shorten(c.replace("_", " "), 40), mark="wrap" if c in long else "", most=300) for c in columns
    ]
    return Table(heads, rows, form="fit" if fit else "")


def _weight(spec: Mapping[str, Any]) -> float:
    weight = spec.get("weight", 1)
    return float(weight) if isinstance(weight, int | float) else 0.0


_MIX = (
    TableColumn("kind", mark="name", most=60),
    TableColumn("weight", right=True),
    TableColumn("share", right=True),
    TableColumn("options", mark="mono wrap"),
)


def mix_of(run: Stored) -> Table | None:
    """The mix of the first phase that has one."""
    mix = next((p.operations for p in run.plan.phases if p.operations), {})
    total = sum(map(_weight, mix.values()))
    rows = []
    for kind, spec in list(mix.items())[:MOST_KINDS]:
        rest = {k: v for k, v in spec.items() if k != "weight" and v is not None}
        if rest.get("keys") == "shared":
            del rest["keys"]
        weight = _weight(spec)
        rows.append(TableRow([kind, f"{weight:g}", words.share(weight, total), words.arguments(rest, 160)]))
    return Table(_MIX, rows) if rows else None


def phases_of(run: Stored) -> Table | None:
    """The phases as a table; None if the plan has none."""
    first = next((p.operations for p in run.plan.phases if p.operations), {})
    items: list[dict[str, Any]] = []
    for p in run.plan.phases:
        item = p.model_dump(exclude_unset=True, exclude_none=True)
        if p.operations:
            weights = {kind: _weight(spec) for kind, spec in p.operations.items()}
            item["operations"] = "the mix below" if p.operations == first else words.arguments(weights, 240)
        items.append(item)
    return table_of(items, fit=True)


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
        (values.term(k), cell(v))
        for k, v in list(said.items())[:40]
        if k not in _SHOWN_ELSEWHERE and v not in (None, {}, [], ())
    ]


def engines_of(run: Stored) -> str:
    """How many writers each engine has: ``2 spark · 1 duckdb``; empty if all are Spark's."""
    return " · ".join(f"{n} {name}" for name, n in Counter(run.plan.engines).items())


def timings_of(run: Stored) -> Table | None:
    """How long each stage of the run took."""
    timings = mapping(run.run.get("timings"))
    found = {
        str(k): float(v)
        for k, v in timings.items()
        if isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v < 1e9
    }
    whole = found.get("total") or sum(found.values()) or 1
    rows = []
    for k, v in list(found.items())[:40]:
        # Sums over stages would count twice among the bars.
        share = None if k in ("total", "first operation") else round(min(100, 100 * v / whole), 1)
        level = "" if share is None else element("span", bar(share), class_="level")
        rows.append(TableRow([k, words.duration(v * 1000), level]))
    return (
        Table([TableColumn("stage", most=40), TableColumn("took", right=True), TableColumn("")], rows) if rows else None
    )


MOST_VALUES = 40
_SAID = frozenset(("started", "timings", "command", "operations", "pid", "pid_started"))
"""Keys of ``run.json`` that the page has elsewhere, or that say nothing to a person."""


def run_rest(run: Stored) -> list[tuple[str, str]]:
    """The single values of ``run.json``."""
    out = []
    for key, value in list(run.run.items())[:MOST_VALUES]:
        if key in _SAID or (isinstance(value, Mapping) and value):
            continue
        if key.endswith("_bytes") and isinstance(value, int | float):
            out.append((key.removesuffix("_bytes").replace("_", " "), words.size(float(value))))
        elif key.endswith(("_seconds", "_s")) and isinstance(value, int | float):
            out.append((key.rsplit("_", 1)[0].replace("_", " "), words.duration(float(value) * 1000)))
        else:
            out.append((values.term(key), words.shorten(cell(value), 600)))
    return out


def blocks(run: Stored) -> list[Block]:
    """What ran: the description, the tables, the phases, the mix, the versions, and how long it took."""
    specs = table_specs(run)
    out: list[Block] = [Text([words.shorten(run.plan.description, 2000)])] if run.plan.description else []
    if (tables := table_of(specs)) is not None:
        out += [Heading("Tables"), tables]
        more = len(specs) - MOST_TABLES
        out += [Text([f"and {words.plural(more, 'more table')}, in plan.yaml."], "note")] if more > 0 else []
    if (phases := phases_of(run)) is not None:
        out += [Heading("Phases"), phases]
    mix, rest = mix_of(run), _rest(run)
    parts: list[list[Block]] = [[Heading("Operation mix"), mix]] if mix is not None else []
    parts += [rest] if rest else []
    out += [BlockGroup(parts)] if parts else []
    return out or [Text(["plan.yaml and run.json are empty or missing."], "muted")]


def _rest(run: Stored) -> list[Block]:
    versions = [(words.shorten(k, 60), cell(v)) for k, v in run.plan.versions.items()]
    timings = timings_of(run)
    parts: list[tuple[str, Block]] = [("Versions", Pairs(versions))] if versions else []
    parts += [("Rest of the plan", Pairs(plan))] if (plan := plan_rest(run)) else []
    parts += [("Time by stage", timings)] if timings is not None else []
    parts += [("The run itself", Pairs(said))] if (said := run_rest(run)) else []
    for key, value in list(run.run.items())[:MOST_VALUES]:
        if isinstance(value, Mapping) and value and key not in _SAID:
            parts += [(words.shorten(key.replace("_", " "), 60), block) for block in values.blocks(value)[:1]]
            parts += [("", block) for block in values.blocks(value)[1:]]
    return [block for name, shown in parts for block in ([Heading(name), shown] if name else [shown])]
