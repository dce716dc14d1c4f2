"""A log of the model as a scenario file: gates force real Spark into its order.

Each operation has a writer of its own. One that has scanned an older version than its base is held at its commit until the commit before it
is there; whoever commits next after its scan waits until it is held. So one gate an operation is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from checkers.conflicts.validations import MESSAGES, VALIDATED
from checkers.formats.iceberg.model.catalogs import MODEL_CATALOGS, Fault
from checkers.formats.iceberg.model.logtree import Bound, Log, LogEntry
from checkers.formats.iceberg.model.operations import ModelOperation
from checkers.formats.iceberg.model.table import TableVersion
from checkers.formats.iceberg.model.ways import BY_CATALOG, MISSING, Faulty, Way
from workloads.engines.engine import Rule
from workloads.engines.engines import SPARK
from workloads.file.modelled import COMPACTION, OWN_SEQUENCE, REWRITE_KINDS
from workloads.operations.kinds import KINDS

MERGE_ON_READ = "merge-on-read"
MOST_WRITERS = 8
"""Writers of a scenario file."""
LINK = "https://iceberg.apache.org/docs/latest/reliability/"
_MODE_OF = {"update-register": "update", "delete": "delete", "merge-upsert": "merge"}


def scenario(
    bound: Bound,
    log: Log,
    anomaly: str | None,
    final: TableVersion | None,
    name: str,
    refused: Sequence[tuple[LogEntry, Rule]] = (),
) -> tuple[str, str]:
    """The text of a scenario file that shows ``anomaly``, or none; or an empty text, and why no file can say it.

    Args:
        final: the table at the end of the log; None: there is no main any more.
        refused: operations that are refused after the log, each by a rule.
    """
    every = [*log, *(entry for entry, _ in refused)]
    if len(every) > MOST_WRITERS:
        return "", f"it needs {len(every)} writers, a scenario has at most {MOST_WRITERS}"
    operations = [e.operation for e in every]
    modes = {(_MODE_OF[o.kind], o.mode) for o in operations if o.kind in _MODE_OF and o.mode and o.asks_mode}
    if len({kind for kind, _ in modes}) < len(modes):
        return "", "a kind of operation writes in both modes, a table has one for each"
    unsaid = sorted({o.kind for o in operations if kind_of(o) not in KINDS})
    if unsaid:
        return "", f"no workload has the operation {', '.join(unsaid)}"
    if bound.rule_set == "specification":
        return "", "no release validates only what the specification asks for"
    if bound.without:
        return "", f"it needs an engine without the validations {', '.join(sorted(bound.without))}"
    properties = {"commit.retry.min-wait-ms": "10"} | {f"write.{kind}.mode": mode for kind, mode in sorted(modes)}
    steps = [_step(n, every, min(n, len(log) + 1), bound) for n in range(1, len(every) + 1)]
    for step, (_, rule) in zip(steps[len(log) :], refused, strict=True):
        step["expect"] = {"type": "fail", "error": "ValidationException", "message": MESSAGES[rule]}
    end = [f"refused: {e.operation}, by {rule}" for e, rule in refused]
    data = {
        "scenario": name,
        "description": f"A log of the model: {'; '.join([*steps_text(log), *end])}.",
        "link": LINK,
        "affected": "found by the model" if anomaly is not None else "none; a promise",
        **({} if bound.compares == "requirements" else {"catalog": "jdbc"}),
        "tables": [
            {
                "name": "t",
                # Spark asks the table's property, a committer its mode.
                **({"mode": MERGE_ON_READ} if any(o.asks_mode and o.commit for o in operations) else {}),
                "isolation": "serializable" if bound.serializable else "snapshot",
                "format_version": bound.format_version,
                "partitions": bound.partitions,
                "seed_rows": bound.keys + bound.partitions,
                "properties": properties,
            }
        ],
        **({"engines": engines} if (engines := _engines(every)) else {}),
        "operations": steps,
        "anomalies": [] if anomaly is None else [_SAID_BY_CHECKERS.get(anomaly, anomaly)],
        "allow": _BESIDE_NAME.get(anomaly or "", []),
        "final": {"t": _FINAL.get(anomaly or "", _ids(final))},
    }
    data = {key: value for key, value in data.items() if value != [] or key == "anomalies"}
    return yaml.safe_dump(data, sort_keys=False, width=140, default_flow_style=None), ""


def _ids(final: TableVersion | None) -> list[int]:
    return [] if final is None else sorted(key for key, _, _ in final.rows.elements())


def _engines(every: Sequence[LogEntry]) -> dict[str, str]:
    """Writer → engine, of those that are not Spark's."""
    return {str(n): e.operation.engine for n, e in enumerate(every) if e.operation.engine != SPARK}


def _step(n: int, every: Sequence[LogEntry], place: int, bound: Bound) -> dict[str, Any]:
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


def _unheld(runs: Sequence[_Course]) -> str | None:
    """Why the gates of a scenario cannot hold these operations apart; None if they can."""
    if any(r.scans < x.applied < r.begins for r in runs for x in runs):
        return "an operation scans before and refreshes after another commit, which no gate at a commit holds apart"
    if any(later < x.applied < request for r in runs for later, request in r.later for x in runs):
        return "another one commits during the second attempt of an operation, and a scenario has one gate for each"
    if any(r.late_fault for r in runs):
        return "the fault is at the second commit of an operation, and a scenario has one gate for each"
    return None


def _way_step(
    o: ModelOperation, r: _Course, runs: Sequence[_Course], names: Mapping[int, str], partitions: int
) -> dict[str, Any]:
    """An operation of a scenario that goes its course ``r``."""
    after = {names[x.n]: "completed" if x.resent else "held" for x in runs if x is not r and x.holds(r)}
    after |= {names[x.n]: "completed" for x in runs if x.ends < r.begins and not r.holds(x)}
    hold = {names[x.n]: "completed" for x in runs if x is not r and r.holds(x)}
    step: dict[str, Any] = {"name": names[r.n], "writer": runs.index(r), "do": kind_of(o)}
    step["value"] = argument(o, partitions)
    step |= {"after": after} if after else {}
    step |= {"hold": hold} if hold else {}
    step |= {"fault": _ASKED[r.fault]} if r.fault is not None else {}
    if r.fault == "late" and not hold:
        step["hold"] = {names[r.n]: "completed"}
    return step | ({"expect": r.outcome} if r.outcome != "ok" else {})


def of_way(faulty: Faulty, called: str, anomaly: str, way: Way) -> tuple[str, str]:
    """The text of a scenario file that goes a way of the search step by step; or an empty text, and why no file can say it.

    An operation with a fault is held where its request was applied and is not answered (or, if the request is late, was answered and is not
    applied); another one is held at its commit. Whoever commits meanwhile waits until it is held, and lets it go.
    """
    catalog = next((name for model, name in _OURS.items() if MODEL_CATALOGS[model] is faulty.catalog), None)
    if catalog is None:
        return "", "no real catalog is like that"
    if any(m.fault == "lock expired" for m in way):
        return "", "no gate stands between the check of a lock and the request"
    every = faulty.operations()
    if any(m.op != BY_CATALOG and every[m.operation].again for m in way):
        return "", "no writer of a scenario does an operation again"
    runs = [r for n in range(1 + max(m.op for m in way)) if (r := _Course(n, way, every)).asks]
    if (reason := _unheld(runs)) is not None:
        return "", reason
    operations = [every[r.operation] for r in runs]
    modes = {(_MODE_OF[o.kind], o.mode) for o in operations if o.kind in _MODE_OF and o.mode}
    if len({kind for kind, _ in modes}) < len(modes):
        return "", "a kind of operation writes in both modes, a table has one for each"
    names = {r.n: f"{o.kind}-{r.n + 1}" for o, r in zip(operations, runs, strict=True)}
    steps = [_way_step(o, r, runs, names, faulty.bound.partitions) for o, r in zip(operations, runs, strict=True)]
    # Who does not compare overwrites what came between; who has sent its request twice sets the table back to what it was told is there.
    kept = faulty.catalog.compares or any(r.resent for r in runs)
    named = "replay/missing-file" if anomaly == MISSING else anomaly if kept else "pointer/lost-update"
    properties = {"commit.retry.min-wait-ms": "10", "commit.retry.num-retries": str(faulty.retries)}
    properties |= {f"write.{kind}.mode": mode for kind, mode in sorted(modes)}
    data = {
        "scenario": called,
        "description": f"A way of the model: {'; '.join(map(str, way))}.",
        "link": LINK,
        "affected": "found by the model",
        "catalog": catalog,
        "tables": [
            {
                "name": "t",
                "isolation": "serializable" if faulty.bound.serializable else "snapshot",
                "format_version": faulty.bound.format_version,
                "partitions": faulty.bound.partitions,
                "seed_rows": faulty.bound.keys + faulty.bound.partitions,
                "properties": properties,
            }
        ],
        "operations": steps,
        "anomalies": [named],
        "allow": [name for name in _BESIDE if name != named],
        "final": {"t": "unreadable" if anomaly == MISSING else "unchecked"},
    }
    return yaml.safe_dump(data, sort_keys=False, width=140, default_flow_style=None), ""


_SAID_BY_CHECKERS = {
    MISSING: "replay/missing-file",
    "lost-tag": "vanished-ref",
    "compaction-changed-rows": "resurrected-row",  # all that a compaction under Iceberg's validations does to rows
}
"""Promise of the model → what the checkers call it, if that is another name."""
_FINAL: Mapping[str, str] = {MISSING: "unreadable", "position-deletes-in-v3": "unchecked"}
"""What a broken promise leaves, where the model does not have the rows: who reads version 3 takes a file's vector, and no position deletes
beside it."""
_BESIDE_NAME: Mapping[str, list[str]] = {
    MISSING: ["metadata/missing-file"],
    "lost-commit": ["retention", "vanished-ref"],
    "lost-tag": ["retention"],
    "compaction-changed-rows": ["compaction-changed-rows", "nonlinearizable", "wrong-rows"],
    "position-deletes-in-v3": ["wrong-rows", "nonlinearizable"],
}
"""What the checkers may say of the same events."""
_UPKEEP_ARGUMENTS: Mapping[str, dict[str, Any]] = {
    "expire-snapshots": {"retain_last": 1},
    "rollback": {"back": 1},
    "create-tag": {"tag": "icequake-0", "back": 1},
    "add-column": {"column": "extra_1"},
    "upgrade": {},
    "remove-orphan-files": {"older_than": 0},
}
_OURS = {"jdbc": "jdbc", "rest": "rest", "hive": "hive", "glue-blind": "glue", "none": "hadoop"}
"""A catalog of the model → the one of the library whose client it is."""
_ASKED: Mapping[Fault, dict[str, Any]] = {
    "reply lost": {"verb": "drop-reply"},
    "503 after it was applied": {"status": 503, "retry_after": "1s"},
    "sent twice": {"verb": "duplicate"},
    "late": {"verb": "late", "status": 504},
}
_BESIDE = (
    *("lost-commit", "false-failure", "duplicate-commit", "nonlinearizable", "lost-swap"),
    *("replay/missing-file", "metadata/missing-file", "pointer/lost-update", "replay/lost-update"),
    *("snapshot-log", "timestamp-order", "vanished-snapshot"),
)
"""What the checkers may say of the same events."""


class _Course:
    """An operation on a way: where it begins, asks, is free to go on, and ends, as places of moments."""

    def __init__(self, n: int, way: Way, operations: Sequence[ModelOperation]) -> None:
        self.n = n
        own = [(place, m) for place, m in enumerate(way) if m.op == n]
        self.operation, self.scans, self.ends = own[0][1].operation, own[0][0], own[-1][0]
        asks = [k for k, (_, m) in enumerate(own) if m.words.startswith(("applied", "error, ", "refused"))]
        asked = asks[0] if asks else len(own) - 1
        self.asks = bool(asks)
        self.later = [(own[k][0], own[k + 1][0]) for k in range(asked + 1, len(own) - 1)]
        """Its second attempt: refresh and request."""
        self.fault = own[asked][1].fault
        self.late_fault = any(m.fault is not None for _, m in own[asked + 1 :])
        if self.fault is None:  # at its commit, from its refresh on
            self.held, self.free = own[max(asked - 1, 0)][0], own[asked][0]
        else:
            later = [place for place, _ in own[asked + 1 :]] or [p for p, m in enumerate(way) if m.op == BY_CATALOG]
            self.held, self.free = own[asked][0], later[0] if later else len(way)
        again = [place for place, m in own[asked + 1 :] if m.words.startswith("applied")]
        self.resent = self.fault == "late" and bool(again)
        """Whether its client sends the request again at once, and has an answer to that while the first copy is under way."""
        self.applied = again[0] if self.resent else own[asked][0]
        if self.resent:
            self.free = next((place for place, m in enumerate(way) if m.op == BY_CATALOG), len(way))
        self.begins = own[min(1, len(own) - 1)][0]  # its refresh
        if operations[self.operation].at_commit:  # it has no scan of its own
            self.scans = self.begins
        last = own[-1][1].words
        self.outcome = "info" if "unknown" in last or "late" in last else "fail" if "refused" in last else "ok"

    def holds(self, other: _Course) -> bool:
        """Whether the other one commits while this one is held."""
        return self.held < other.applied < self.free


def steps_text(log: Log) -> list[str]:
    """A log in words, a part for each commit."""
    return [
        f"{n}. {e.operation}"
        + ("" if e.scan == n - 1 else f", which has scanned {f'commit {e.scan}' if e.scan else 'the start'}")
        for n, e in enumerate(log, 1)
    ]


def kind_of(o: ModelOperation) -> str:
    """The workload's name of its kind, where ``validated`` is an option."""
    return o.kind.removesuffix(VALIDATED)


def argument(o: ModelOperation, partitions: int) -> dict[str, Any]:
    """The operation's ``value``, as a workload draws it."""
    if o.kind in _UPKEEP_ARGUMENTS:
        return dict(_UPKEEP_ARGUMENTS[o.kind])
    if o.kind in REWRITE_KINDS:
        # Not all files, but as the model: those of a partition with two, and those with deletes.
        own = {"starting_sequence": False} if o.mode == OWN_SEQUENCE else {}
        return {"strategy": "binpack", "all": False} | own if o.kind == COMPACTION else {}
    value: dict[str, Any] = {} if o.kind == "delete-partition" else {"ids": [o.key]}
    if o.kind.startswith(("delete-partition", "overwrite-where")):
        value["part"] = o.key % partitions
    return value | ({"validated": True} if o.kind.endswith(VALIDATED) else {})
