"""A log of the model as a scenario file: gates force real Spark into its order.

Each operation has a writer of its own. One that has scanned an older version than its base is held at its commit until the commit before it
is there; whoever commits next after its scan waits until it is held. So one gate an operation is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from checkers.conflicts.validations import MESSAGES, VALIDATED
from checkers.formats.iceberg.model.explore import Bound, Entry, Log
from checkers.formats.iceberg.model.operations import Operation
from checkers.formats.iceberg.model.table import Table
from workloads.engines.engine import Rule
from workloads.engines.engines import SPARK
from workloads.file.modelled import COMPACTION, REWRITES

MOST_WRITERS = 8
"""Writers of a scenario file."""
LINK = "https://iceberg.apache.org/docs/latest/reliability/"
_MODE_OF = {"update-register": "update", "delete": "delete", "merge-upsert": "merge"}


def scenario(
    bound: Bound,
    log: Log,
    anomaly: str | None,
    final: Table,
    name: str,
    refused: Sequence[tuple[Entry, Rule]] = (),
) -> tuple[str, str]:
    """The text of a scenario file that shows ``anomaly``, or none; or an empty text, and why no file can say it.

    Args:
        final: the table at the end of the log.
        refused: operations that are refused after the log, each by a rule.
    """
    every = [*log, *(entry for entry, _ in refused)]
    if len(every) > MOST_WRITERS:
        return "", f"it needs {len(every)} writers, a scenario has at most {MOST_WRITERS}"
    modes = {
        (_MODE_OF[o.kind], o.mode) for o in (e.operation for e in every) if o.mode and o.engine in (SPARK, "duckdb")
    }
    if len({kind for kind, _ in modes}) < len(modes):
        return "", "a kind of operation writes in both modes, a table has one for each"
    if bound.without:
        return "", f"it needs an engine without the validations {', '.join(sorted(bound.without))}"
    properties = {"commit.retry.min-wait-ms": "10"} | {f"write.{kind}.mode": mode for kind, mode in sorted(modes)}
    steps = [_step(n, every, min(n, len(log) + 1), bound) for n in range(1, len(every) + 1)]
    for step, (_, rule) in zip(steps[len(log) :], refused, strict=True):
        step["expect"] = {"type": "fail", "error": "ValidationException", "message": MESSAGES[rule]}
    end = [f"refused: {e.operation}, by {rule}" for e, rule in refused]
    data = {
        "scenario": name,
        "description": f"A log of the model: {'; '.join([*said(log), *end])}.",
        "link": LINK,
        "affected": "found by the model" if anomaly is not None else "none; a promise",
        "tables": [
            {
                "name": "t",
                "isolation": "serializable" if bound.serializable else "snapshot",
                "format_version": bound.format_version,
                "partitions": bound.partitions,
                "seed_rows": bound.keys + bound.partitions,
                "properties": properties,
            }
        ],
        **({"engines": engines} if (engines := _engines(every)) else {}),
        "operations": steps,
        "anomalies": [] if anomaly is None else [anomaly],
        "final": {"t": sorted(key for key, _, _ in final.rows.elements())},
    }
    return yaml.safe_dump(data, sort_keys=False, width=140, default_flow_style=None), ""


def _engines(every: Sequence[Entry]) -> dict[int, str]:
    """Writer → engine, of those that are not Spark's."""
    return {n: e.operation.engine for n, e in enumerate(every) if e.operation.engine != SPARK}


def _step(n: int, every: Sequence[Entry], place: int, bound: Bound) -> dict[str, Any]:
    """The n-th operation, whose commit comes at a place of the log, or would come there if it were not refused."""
    names = [f"{e.operation.kind}-{m}" for m, e in enumerate(every, 1)]
    e = every[n - 1]
    # Whoever has scanned the version before this commit, and commits later, is at its gate before this commit comes.
    later = {names[m - 1]: "held" for m, other in enumerate(every, 1) if m > n and other.scan == n - 1 and place == n}
    before = {names[place - 2]: "completed"} if place > 1 else {}
    after = {names[e.scan - 1]: "completed"} if e.scan else {}
    step: dict[str, Any] = {"name": names[n - 1], "writer": n - 1, "do": kind_of(e.operation)}
    step["value"] = argument(e.operation, bound.partitions)
    if e.scan < place - 1:
        return step | ({"after": after} if after else {}) | {"hold": before | later}
    return step | ({"after": after | later} if after | later else {})


def said(log: Log) -> list[str]:
    """A log in words, a part for each commit."""
    return [
        f"{n}. {e.operation}"
        + (
            ""
            if e.operation.at_commit or e.scan == n - 1
            else f", which has scanned {f'commit {e.scan}' if e.scan else 'the start'}"
        )
        for n, e in enumerate(log, 1)
    ]


def kind_of(o: Operation) -> str:
    """The workload's name of its kind, where ``validated`` is an option."""
    return o.kind.removesuffix(VALIDATED)


def argument(o: Operation, partitions: int) -> dict[str, Any]:
    """The operation's ``value``, as a workload draws it."""
    if o.kind in REWRITES:
        # Not all files, but as the model: those of a partition with two, and those with deletes.
        return {"strategy": "binpack", "all": False} if o.kind == COMPACTION else {}
    value: dict[str, Any] = {} if o.kind == "delete-partition" else {"ids": [o.key]}
    if o.kind.startswith(("delete-partition", "overwrite-where")):
        value["part"] = o.key % partitions
    return value | ({"validated": True} if o.kind.endswith(VALIDATED) else {})
