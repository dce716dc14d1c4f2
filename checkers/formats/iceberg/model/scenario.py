"""A log of the model as a scenario file: gates force real Spark into its order.

Each operation has a writer of its own. One that has scanned an older version than its base is held at its commit until the commit before it
is there; whoever commits next after its scan waits until it is held. So one gate an operation is enough.
"""

from __future__ import annotations

from typing import Any

import yaml

from checkers.conflicts.validations import VALIDATED
from checkers.formats.iceberg.model.explore import Bound, Log
from checkers.formats.iceberg.model.operations import Operation
from checkers.formats.iceberg.model.table import Table
from workloads.file.modelled import COMPACTION, REWRITES

MOST_WRITERS = 8
"""Writers of a scenario file."""
LINK = "https://iceberg.apache.org/docs/latest/reliability/"
_MODE_OF = {"update-register": "update", "delete": "delete", "merge-upsert": "merge"}


def scenario(bound: Bound, log: Log, anomaly: str, final: Table, name: str) -> tuple[str, str]:
    """The text of a scenario file that shows ``anomaly``; or an empty text, and why no file can say it.

    Args:
        final: the table at the end of the log.
    """
    if len(log) > MOST_WRITERS:
        return "", f"it needs {len(log)} writers, a scenario has at most {MOST_WRITERS}"
    modes = {(_MODE_OF[o.kind], o.mode) for o in (e.operation for e in log) if o.mode}
    if len({kind for kind, _ in modes}) < len(modes):
        return "", "a kind of operation writes in both modes, a table has one for each"
    if bound.without:
        return "", f"it needs an engine without the validations {', '.join(sorted(bound.without))}"
    names = [f"{e.operation.kind}-{n}" for n, e in enumerate(log, 1)]
    level = "serializable" if bound.serializable else "snapshot"
    properties = {"commit.retry.min-wait-ms": "10"} | {f"write.{kind}.mode": mode for kind, mode in sorted(modes)}
    steps = []
    for n, e in enumerate(log, 1):
        held = e.scan < n - 1
        # Whoever has scanned the version before this commit, and commits later, is at its gate before this commit comes.
        scanned = {names[m - 1]: "held" for m, later in enumerate(log, 1) if m > n and later.scan == n - 1}
        before = {names[n - 2]: "completed"} if n > 1 else {}
        after = {names[e.scan - 1]: "completed"} if e.scan else {}
        step: dict[str, Any] = {"name": names[n - 1], "writer": n - 1, "do": kind_of(e.operation)}
        step["value"] = argument(e.operation, bound.partitions)
        if held:
            step |= {"after": after} if after else {}
            step["hold"] = before | scanned
        elif after | scanned:
            step["after"] = after | scanned
        steps.append(step)
    data = {
        "scenario": name,
        "description": f"A log of the model: {'; '.join(said(log))}.",
        "link": LINK,
        "affected": "found by the model",
        "tables": [
            {
                "name": "t",
                "isolation": level,
                "format_version": bound.format_version,
                "partitions": bound.partitions,
                "seed_rows": bound.keys + bound.partitions,
                "properties": properties,
            }
        ],
        "operations": steps,
        "anomalies": [anomaly],
        "final": {"t": sorted(key for key, _, _ in final.rows.elements())},
    }
    return yaml.safe_dump(data, sort_keys=False, width=140, default_flow_style=None), ""


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
        return {"strategy": "binpack", "all": True} if o.kind == COMPACTION else {}
    value: dict[str, Any] = {} if o.kind == "delete-partition" else {"ids": [o.key]}
    if o.kind.startswith(("delete-partition", "overwrite-where")):
        value["part"] = o.key % partitions
    return value | ({"validated": True} if o.kind.endswith(VALIDATED) else {})
