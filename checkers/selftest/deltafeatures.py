"""Logs of Delta tables with features that the recorded runs do not have, and changes to what those features add to a version.

The features are column mapping, in-commit timestamps and row tracking. The whole log gets one first, as a correct writer would have written it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from checkers.evidence.replace import replace
from checkers.formats.delta.records import MAPPING, Action, DeltaLog, DeltaMetadata
from checkers.selftest.deltasites import Actions, DeltaSite, Versions
from checkers.selftest.world import Planted

_ID, _PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"
LARGEST_COLUMN = "delta.columnMapping.maxColumnId"


def _mapped(m: DeltaMetadata) -> DeltaMetadata:
    """A version with column mapping: the ids of the columns are their places, from 1."""
    on = {**m.configuration, MAPPING: "name", LARGEST_COLUMN: "100"}

    def with_ids(a: Action) -> Action:
        if "metaData" not in a:
            return a
        schema = json.loads(a["metaData"]["schemaString"])
        for n, f in enumerate(schema["fields"], 1):
            f["metadata"] = {_ID: n, _PHYSICAL: f"col-{f['name']}"}
        return {"metaData": {**a["metaData"], "schemaString": json.dumps(schema), "configuration": on}}

    return replace(m, actions=tuple(map(with_ids, m.actions)), configuration=on)


def at_columns(change: Callable[[list[Any]], None], largest: int | str = 101) -> Callable[[DeltaSite], Planted | None]:
    """Gives a table with column mapping a version whose schema has a new column, the last of its fields, and changes these."""

    def plant(s: DeltaSite) -> Planted | None:
        versions = [*map(_mapped, s.log.metadata)]
        before = [f for m in versions[: s.n] for f in m.of("metaData")]
        if not before:
            return None
        schema = json.loads(before[-1]["schemaString"])
        schema["fields"].append({"name": "new", "type": "long", "metadata": {_ID: 101, _PHYSICAL: "col-new"}})
        change(schema["fields"])
        on = {**versions[s.n].configuration, LARGEST_COLUMN: str(largest)}
        action = {"metaData": {**before[-1], "schemaString": json.dumps(schema), "configuration": on}}
        rest = tuple(a for a in versions[s.n].actions if "metaData" not in a)
        versions[s.n] = replace(versions[s.n], actions=(*rest, action), configuration=on)
        return s.versions(versions)

    return plant


def with_column(n: int, **metadata: Any) -> Callable[[list[Any]], None]:
    """The n-th column gets this in its metadata; a value None takes it away."""

    def change(fields: list[Any]) -> None:
        named = {{"id": _ID, "physical": _PHYSICAL}[k]: v for k, v in metadata.items()}
        fields[n]["metadata"] = {k: v for k, v in {**fields[n]["metadata"], **named}.items() if v is not None}

    return change


def timed(log: DeltaLog) -> Versions:
    """The versions with in-commit timestamps: 10 ms apart."""
    out = []
    for m in log.metadata:
        info = {"commitInfo": {**m.info, "inCommitTimestamp": 1_000 + 10 * m.version}}
        rest = tuple(a for a in m.actions if "commitInfo" not in a)
        on = {**m.configuration, "delta.enableInCommitTimestamps": "true"}
        out.append(replace(m, actions=(info, *rest), configuration=on))
    return tuple(out)


def at_time(change: Callable[[DeltaMetadata], DeltaMetadata]) -> Callable[[DeltaSite], Planted]:
    """Changes a version of a log with in-commit timestamps."""

    def plant(s: DeltaSite) -> Planted:
        versions = timed(s.log)
        return s.versions((*versions[: s.n], change(versions[s.n]), *versions[s.n + 1 :]))

    return plant


def with_time(m: DeltaMetadata, time: int | None) -> DeltaMetadata:
    info = {**m.info, "inCommitTimestamp": time}
    return replace(m, actions=({"commitInfo": info}, *m.actions[1:]))


def tracked(log: DeltaLog) -> Versions:
    """The versions with row tracking: each new file has fresh ids, and the watermark is the last of them."""
    rows = {f.path: f.records for c in log.commits for f in c.added_files if f.role == "data"}
    given: dict[str, int] = {}
    mark, out = -1, []
    for m in log.metadata:
        actions: Actions = []
        for a in m.actions:
            if "add" in a:
                path = a["add"]["path"]
                if path not in given:
                    given[path], mark = mark + 1, mark + rows.get(path, 1)
                a = {"add": {**a["add"], "baseRowId": given[path], "defaultRowCommitVersion": m.version}}
            actions.append(a)
        if any("add" in a for a in actions):
            actions.append(watermark(mark))
        out.append(
            replace(m, actions=tuple(actions), configuration={**m.configuration, "delta.enableRowTracking": "true"})
        )
    return tuple(out)


def watermark(mark: int) -> Action:
    return {
        "domainMetadata": {
            "domain": "delta.rowTracking",
            "configuration": json.dumps({"rowIdHighWaterMark": mark}),
            "removed": False,
        }
    }


def at_rows(change: Callable[[Actions, int], Actions | None]) -> Callable[[DeltaSite], Planted | None]:
    """Changes the actions of a version that adds files, in a log with row tracking; ``change`` is told the watermark before it, too."""

    def plant(s: DeltaSite) -> Planted | None:
        if not s.named("add") or not s.earlier("add"):
            return None
        versions = tracked(s.log)
        marks = [
            json.loads(d["configuration"])["rowIdHighWaterMark"]
            for m in versions[: s.n]
            for d in m.of("domainMetadata")
        ]
        found = change(json.loads(json.dumps(versions[s.n].actions)), marks[-1])
        if found is None:
            return None
        return s.versions((*versions[: s.n], replace(versions[s.n], actions=tuple(found)), *versions[s.n + 1 :]))

    return plant


def _new_file(a: Actions, mark: int) -> dict[str, Any] | None:
    """The first file of these actions that is new, and not an old one with another vector."""
    return next((x["add"] for x in a if "add" in x and x["add"]["baseRowId"] > mark), None)


def with_row_id(base: int | None) -> Callable[[Actions, int], Actions | None]:
    def change(a: Actions, mark: int) -> Actions | None:
        new = _new_file(a, mark)
        if new is None:
            return None
        new["baseRowId"] = base
        return a

    return change
