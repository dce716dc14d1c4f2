"""What a script tests of the anomalies that it is about, and which of them it cannot test.

A script that tests less than what it is about would say “reproduced” of a table without the defect. So each name that a scenario must show
is tested by what the script compares: the ids of the rows, what a read returned, whether the table can be read, its columns, or the numbers
in its metadata. Where none of these tells, there is no script, and :func:`untested` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from checkers.judge.accepted import FINDERS
from checkers.names import Harm, meaning
from reports.reproduction.expected import afterwards, read_by, unknown_afterwards
from workloads.file.scenario import Scenario

IN_METADATA: Final[Mapping[str, str]] = {
    name: name.replace("-", "_")
    for name in (
        "dangling-dv",
        "duplicate-path",
        "file-row-id",
        "first-row-id",
        "next-row-id",
        "position-deletes-in-v3",
        "removed-not-live",
        "row-id-overlap",
        "several-dvs",
        "snapshot-log",
        "summary-count",
    )
}
"""Name → the function of ``templates/reproduction/metadata.txt`` that compares what the table's files say of it."""
BY_COLUMN = frozenset({"vanished-schema", "schema-changed"})
"""Names that the loss of an added column tells."""
KEPT_ROW_ID = "kept-row-id"
"""Told by the row ids before and after the last step."""
_OF_ROWS = frozenset({"commits", "replay", "reads", "isolation", "linearizable", "atomicity"})
"""Checkers of what the rows were and who saw which."""
_OF_CLIENTS = frozenset({"reads", "isolation", "linearizable"})
"""Checkers of what clients saw: of another anomaly of a scenario it follows."""
_WHY_NOT: Final[Mapping[str, str]] = {
    "protocol": "is a name of Delta Lake, whose log no script reads",
    "pointer": "is seen in what the catalog answered to each request, and a script does not keep that",
    "liveness": "is a matter of time, and a script measures none",
    "metadata": "no script tests",
}


def untested(scenario: Scenario) -> str | None:
    """Why a script cannot test all that a scenario shows, as a clause; None if it can.

    What clients saw follows from the other anomalies of a scenario, if one of these is tested.
    """
    names = list(dict.fromkeys(a.name for a in scenario.anomalies))
    found = {name: why for name in names if (why := _untested(scenario, name)) is not None}
    follows = {name for name in found if {c.name for c in FINDERS.get(name, ())} <= _OF_CLIENTS}
    left = [name for name in found if name not in follows or len(found) == len(names)]
    return found[left[0]] if left else None


def _untested(scenario: Scenario, name: str) -> str | None:
    """Why a script cannot test one of its anomalies."""
    unreadable = "unreadable" in scenario.final.values()
    found_by = {c.name for c in FINDERS.get(name, ())}
    if name in IN_METADATA or name == KEPT_ROW_ID:
        return "it can read no metadata of a table that nobody can read" if unreadable else None
    if (means := meaning(name)) is not None and means.harm is Harm.UNREADABLE:
        return None if unreadable else f"it shows {name}, and a script can only try to read the table, which succeeds"
    if name in BY_COLUMN:
        added = any(s.do == "add-column" and s.expect.type == "ok" for s in scenario.operations)
        return (
            None
            if added and not unreadable
            else f"it shows {name}, and a script only looks for columns that were added"
        )
    if found_by & _OF_ROWS:
        if found_by <= _OF_CLIENTS and _reads_tell(scenario):
            return None
        tells = bool(afterwards(scenario)) or unknown_afterwards(scenario)
        return (
            None
            if tells
            else f"it shows {name}, but leaves the ids of a table without it, and a script compares ids alone"
        )
    why = next((_WHY_NOT[c] for c in sorted(found_by) if c in _WHY_NOT), "is found in histories of other systems")
    return f"it shows {name}, which {why}"


def _reads_tell(scenario: Scenario) -> bool:
    """Whether a script compares what a read returned."""
    return any(read_by(scenario, s) is not None and s.expect.type == "ok" for s in scenario.operations)
