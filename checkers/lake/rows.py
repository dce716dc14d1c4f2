"""A run as rows of the lake's tables (``checkers.lake.tables``), computed from what its folder holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from checkers.costs.attempts import attempts_of
from checkers.costs.measures import FIGURES, NOT_THE_WORKLOADS, Measures, measure
from checkers.evidence.error_chain import deciding_error, message_pattern, short_class
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import NEMESIS, Event, Operation
from checkers.evidence.outcome import conflict_of
from checkers.evidence.plan import Plan
from checkers.evidence.tablelog import Commit, TableLog
from checkers.judge.accepted import known_link
from checkers.judge.runfolder import Results
from checkers.lake.requests import measured
from checkers.lake.tables import (
    ANOMALIES,
    ATTEMPTS,
    COMMITS_TABLE,
    FAULTS,
    METRICS_TABLE,
    OPERATIONS_TABLE,
    REQUESTS,
    RUNS_TABLE,
    TableSchema,
    array_of,
)
from checkers.timeline import fault_windows
from workloads.engines.engines import SPARK
from workloads.file.mode import AS_USERS
from workloads.file.suite import KnownAnomalies
from workloads.operations.kinds import KINDS

MS, S = 1e6, 1e9
TIME = "%Y%m%dT%H%M%S.%fZ"
"""Of a run's folder."""
VERDICTS = {True: "valid", False: "invalid", "unknown": "unknown"}
Rows = Mapping[str, pa.Table]
"""Name of a table → rows of it."""


class NotARun(ValueError):
    """What a folder holds is no run that the lake can have; the message says why."""


@dataclass(frozen=True)
class RunContents:
    """What a run's folder holds.

    Attributes:
        folder: its path; the last two parts name the run.
        state: ``run.json``.
        results: None if the run is not judged.
        requests: ``proxy.jsonl`` as :func:`requests_of` reads it; None without proxies.
        stories: anomaly, by its checker and its place in that one's verdict → where the known defect is discussed that its story looks like.
    """

    folder: Path
    plan: Plan
    state: Mapping[str, Any]
    evidence: Evidence
    results: Results | None
    requests: pa.Table | None
    stories: Mapping[tuple[str, int], str] = field(default_factory=dict)


def name_of(folder: Path) -> str:
    """The name of the run in a folder."""
    return f"{folder.parent.name}/{folder.name}"


def started_of(folder: Path, state: Mapping[str, Any]) -> datetime:
    """When a run started.

    Raises:
        NotARun: neither ``run.json`` nor the folder's name says it.
    """
    for text, form in ((state.get("started"), None), (folder.name, TIME)):
        try:
            found = datetime.fromisoformat(str(text)) if form is None else datetime.strptime(str(text), form)
        except ValueError:
            continue
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)
    raise NotARun(f"{folder}: neither run.json (started) nor the folder's name says when the run started")


def night_of(started: datetime, given: object = None) -> date:
    """The night of a run: the date that was given, else that of the last noon (UTC) before it started.

    Raises:
        NotARun: what was given is no date.
    """
    if given is None:
        return (started - timedelta(hours=12)).date()
    if isinstance(given, date) and not isinstance(given, datetime):
        return given
    try:
        return date.fromisoformat(str(given))
    except ValueError:
        raise NotARun(f"plan.yaml: night: must be a date, such as 2026-11-22, not {given!r}") from None


def rows_of(contents: RunContents, added: datetime) -> Rows:
    """The rows of a run, for every table.

    Args:
        added: when it is added, UTC.

    Raises:
        NotARun: it has no time.
        HistoryError: its history does not pair, or records attempts of another form.
    """
    started = started_of(contents.folder, contents.state)
    keys = (name_of(contents.folder), started.date())
    ops = contents.evidence.history.operations()
    passed = () if contents.requests is None else measured(contents.requests)
    results = contents.results or Results((), "unknown", contents.evidence.complete)
    measures = measure(contents.evidence, results, passed)
    made: dict[str, Mapping[str, Sequence[Any]]] = {
        OPERATIONS_TABLE.name: _operations(contents.evidence, ops),
        ATTEMPTS.name: _attempts(ops),
        COMMITS_TABLE.name: _commits(contents.evidence.logs, {o.op: o.f for o in ops}),
        ANOMALIES.name: _anomalies(contents, results),
        FAULTS.name: _faults(contents.evidence.history.events),
        METRICS_TABLE.name: _metrics(measures),
        RUNS_TABLE.name: _run(contents, measures, ops, started, added),
    }
    out = {name: _arrow(BY[name], keys, columns) for name, columns in made.items()}
    requests = REQUESTS.schema.empty_table() if contents.requests is None else contents.requests
    return {**out, REQUESTS.name: _keyed(REQUESTS, keys, requests)}


BY = {t.name: t for t in (OPERATIONS_TABLE, ATTEMPTS, COMMITS_TABLE, ANOMALIES, FAULTS, METRICS_TABLE, RUNS_TABLE)}


def _arrow(table: TableSchema, keys: tuple[str, date], columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """The rows of a table from its columns without the keys."""
    arrays = {c.name: array_of(columns[c.name], c.type) for c in table.columns[2:]}
    return _keyed(table, keys, pa.table(arrays))


def _keyed(table: TableSchema, keys: tuple[str, date], rows: pa.Table) -> pa.Table:
    n = rows.num_rows
    own = {k: pa.repeat(pa.scalar(v, table.schema.field(k).type), n) for k, v in zip(("run", "day"), keys, strict=True)}
    arrays = [own[c.name] if c.name in own else rows[c.name] for c in table.columns]
    return pa.table(arrays, schema=table.schema)


# --- the tables -------------------------------------------------------------------------------------------------------


def _run(
    contents: RunContents, m: Measures, ops: Sequence[Operation], started: datetime, added: datetime
) -> dict[str, list[Any]]:
    plan, state, results, more = contents.plan, contents.state, contents.results, contents.plan.model_extra or {}
    outcomes = Counter(o.type for o in ops if _of_workload(o))
    own = None if results is None else sum(m.anomalies.values())
    scenario, suite = more.get("scenario"), more.get("suite")
    row = {
        "night": night_of(started, more.get("night")),
        "started": started,
        "finished": _moment(state.get("finished")),
        "seconds": m.seconds,
        "suite": None if suite is None else str(suite),
        "workload": plan.workload or contents.folder.parent.name,
        "scenario": None if scenario is None else _scenario(scenario),
        "catalog": None if plan.catalog is None else plan.catalog.name,
        "guard": None if plan.catalog is None else plan.catalog.guard,
        "seed": plan.seed,
        "writers": plan.writers,
        "engines": _engines(plan),
        "faults": ",".join(_nemesis(plan.nemesis)),
        "setup": setup_of(plan),
        **{k: plan.versions.get(k) for k in ("iceberg", "spark", "java", "icequake")},
        "iceberg_commit": plan.versions.get("iceberg-commit"),
        "state": str(state.get("state", "incomplete")),
        "verdict": None if results is None else VERDICTS[results.valid],
        "outcome": None if results is None or results.scenario is None else results.scenario.state,
        "operations": m.operations,
        "ok": outcomes["ok"],
        "failed": outcomes["fail"],
        "unknown": outcomes["info"],
        "commits": m.commits,
        "anomalies": own,
        "undocumented": None if results is None or own is None else own - _documented(results),
        "namespace": plan.namespace or None,
        "folder": str(contents.folder),
        "command": plan.command or None,
        "added": added,
    }
    return {k: [v] for k, v in row.items()}


_WORK = {"tables", "writers", "engines", "keys", "op_timeout", "clocks", "nemesis", "phases", "catalog_properties"}
"""Keys of a plan that say what a run was to do."""


def setup_of(plan: Plan) -> str:
    """A hash of what a run was to do: runs with the same one did the same work, but for the seed and the versions."""
    fields = plan.model_dump(mode="json", include=_WORK, exclude_none=True)
    fields |= {k: given for k, v in asdict(AS_USERS).items() if (given := getattr(plan, k)) not in (None, v)}
    return blake2b(json.dumps(fields, sort_keys=True, default=str).encode(), digest_size=6).hexdigest()


def _documented(results: Results) -> int:
    every = [a for v in results.verdicts for a in v.anomalies]
    names = {a.name for a in every if a.same_as is None}
    return sum(a.documented is not None for a in every if a.same_as not in names)


def _scenario(value: object) -> str:
    return str(value.get("name") or value.get("scenario") or "") if isinstance(value, Mapping) else str(value)


def _moment(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _engines(plan: Plan) -> str | None:
    if not plan.engines:
        return None if plan.writers is None else f"{SPARK}={plan.writers}"
    return ",".join(f"{name}={n}" for name, n in sorted(Counter(plan.engines).items()))


def _nemesis(fields: Mapping[str, Any]) -> list[str]:
    packages, faults = fields.get("packages"), fields.get("faults")
    names = [str(p) for p in packages] if isinstance(packages, list | tuple) else []
    verbs = {str(f.get("verb")) for f in faults if isinstance(f, Mapping)} if isinstance(faults, list | tuple) else ()
    return [*names, *sorted(verbs)]


def _of_workload(o: Operation) -> bool:
    return o.invoked.extra.get("phase") not in NOT_THE_WORKLOADS


def _writer(op: str) -> int | None:
    head = op.partition("-")[0]
    return int(head[1:]) if head[:1] == "w" and head[1:].isdecimal() else None


def _commits_of(f: str) -> bool:
    kind = KINDS.get(f)
    return kind is None or kind.commits


def _operations(evidence: Evidence, ops: Sequence[Operation]) -> dict[str, Sequence[Any]]:
    on_main = {c.op for log in evidence.logs.values() for c in log.main()}
    by_files: dict[str, int] = {}
    for log in evidence.logs.values():
        for c in log.commits:
            if c.op is not None and c.attempt:
                by_files[c.op] = max(by_files.get(c.op, 0), c.attempt)
    faulty = fault_windows.merged(fault_windows.windows(evidence.history.events))
    last = max((e.time for e in evidence.history.events), default=0)
    ends = [None if o.completed is None else o.completed.time for o in ops]
    errors = [None if o.type == "ok" or o.completed is None else deciding_error(o.error) for o in ops]
    kinds = {f: _commits_of(f) for f in {o.f for o in ops}}
    return {
        "op": [o.op for o in ops],
        "process": [str(o.process) for o in ops],
        "writer": [_writer(o.op) for o in ops],
        "engine": [o.engine for o in ops],
        "f": [o.f for o in ops],
        "table": [o.table for o in ops],
        "phase": [_text(o.invoked.extra.get("phase")) for o in ops],
        "workload": [_of_workload(o) for o in ops],
        "writes": [kinds[o.f] for o in ops],
        "invoke_ns": [o.start for o in ops],
        "complete_ns": ends,
        "latency_ms": [None if end is None else (end - o.start) / MS for o, end in zip(ops, ends, strict=True)],
        "outcome": [o.type for o in ops],
        "error": [None if e is None else short_class(e[0]) for e in errors],
        "message": [None if e is None else message_pattern(e[1]) for e in errors],
        "conflict": [conflict_of(o) for o in ops],
        "attempts": [len(attempts_of(o)) or by_files.get(o.op) for o in ops],
        "committed": [o.op in on_main for o in ops],
        "in_fault": [
            any(a <= (last if end is None else end) and o.start <= b for a, b in faulty)
            for o, end in zip(ops, ends, strict=True)
        ],
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _attempts(ops: Iterable[Operation]) -> dict[str, Sequence[Any]]:
    found = [(o.op, n, a) for o in ops for n, a in enumerate(attempts_of(o), 1)]
    names = [c.name for c in ATTEMPTS.columns[4:]]
    return {
        "op": [op for op, _, _ in found],
        "attempt": [n for _, n, _ in found],
        **{name: [getattr(a, name) for _, _, a in found] for name in names},
    }


def _commits(logs: Mapping[str, TableLog], kinds: Mapping[str, str]) -> dict[str, Sequence[Any]]:
    every: list[tuple[str, Commit, bool]] = []
    for table, log in logs.items():
        main = {c.snapshot_id for c in log.main()}
        every += [(table, c, c.snapshot_id in main) for c in log.commits]
    commits = [c for _, c, _ in every]
    data = [(_data(c.added_files), _data(c.removed_files)) for c in commits]
    return {
        "table": [table for table, _, _ in every],
        "snapshot": [c.snapshot_id for c in commits],
        "parent": [c.parent_id for c in commits],
        "sequence_number": [c.sequence_number for c in commits],
        "committed": pa.array([c.timestamp_ms for c in commits], pa.timestamp("ms", "UTC")).cast(
            COMMITS_TABLE.schema.field("committed").type
        ),
        "operation": [c.operation for c in commits],
        "op": [c.op for c in commits],
        "f": [None if c.op is None else kinds.get(c.op) for c in commits],
        "attempts": [c.attempt or None for c in commits],
        "main": [on_main for _, _, on_main in every],
        "metadata": [c.metadata for c in commits],
        "added_data_files": [added for added, _ in data],
        "removed_data_files": [removed for _, removed in data],
        "added_delete_files": [len(c.added_files) - n for c, (n, _) in zip(commits, data, strict=True)],
        "removed_delete_files": [len(c.removed_files) - n for c, (_, n) in zip(commits, data, strict=True)],
        "added_rows": [None if c.added is None else len(c.added) for c in commits],
        "removed_rows": [None if c.removed is None else len(c.removed) for c in commits],
        "added_bytes": [sum(f.size for f in c.added_files) for c in commits],
    }


def _data(files: Iterable[Any]) -> int:
    return sum(f.role == "data" for f in files)


def _anomalies(contents: RunContents, results: Results) -> dict[str, Sequence[Any]]:
    found = [a for v in results.verdicts for a in v.anomalies]
    stories = [contents.stories.get((v.checker, n)) for v in results.verdicts for n, _ in enumerate(v.anomalies)]
    of_suite, strict = known_entries(contents.plan), results.accepted.strict
    lists = ("ops", "snapshots", "keys", "files")
    return {
        **{
            k: [getattr(a, k) for a in found]
            for k in ("name", "checker", "table", "explanation", "documented", "same_as")
        },
        **{mark: [results.accepted.mark(a) == mark for a in found] for mark in ("expected", "allowed")},
        **{k: [list(getattr(a, k)) for a in found] for k in lists},
        "known": [known_link(of_suite, a, a.table in strict, s) for a, s in zip(found, stories, strict=True)],
    }


def known_entries(plan: Plan) -> list[KnownAnomalies]:
    """What the suite of a night knows of the run's cell, by its plan; an entry of another form is left out."""
    out, said = list[KnownAnomalies](), (plan.model_extra or {}).get("known")
    for entry in said if isinstance(said, list) else ():
        with suppress(ValidationError):
            out.append(KnownAnomalies.model_validate(entry))
    return out


def _faults(events: Sequence[Event]) -> dict[str, Sequence[Any]]:
    found = fault_windows.windows(events)
    words: dict[tuple[str, int], Mapping[str, Any]] = {}
    stopped: dict[tuple[str, int], Mapping[str, Any]] = {}
    for e in events:
        if e.process == NEMESIS and isinstance(e.value, Mapping):
            name, _, rest = e.f.partition("-")
            if name == "start":
                words[rest, e.time] = e.value
            elif name == "stop":
                stopped[rest, e.time] = e.value
    begun = [words.get((w.name, w.start), {}) for w in found]
    ended = [stopped.get((w.name, w.end), {}) for w in found]
    plain = [f if isinstance(f := b.get("fault"), Mapping) else {} for b in begun]
    hits = [h if isinstance(h := e.get("hits"), Mapping) else None for e in ended]
    return {
        "name": [w.name for w in found],
        "start_ns": [w.start for w in found],
        "end_ns": [w.end for w in found],
        "ended": [w.healed for w in found],
        "verb": [_text(f.get("verb")) for f in plain],
        "target": [_text(f.get("target")) for f in plain],
        "hits": [None if h is None else sum(n for n in h.values() if isinstance(n, int)) for h in hits],
        "missed": [n if isinstance(n := e.get("missed"), int) else None for e in ended],
    }


def _metrics(m: Measures) -> dict[str, Sequence[Any]]:
    found: list[tuple[str, float, str, str, str | None, str | None, str | None]] = []
    for f in FIGURES:
        value = m.figures.get(f.key)
        if value is not None:
            found.append((f.key, value, f.unit, f.better, None, None, None))
    for name, n in m.requests.items():
        service, _, kind = name.rpartition(" ")
        found.append(("requests", n, "count", "less", service, kind, None))
    for b in () if m.attempts is None else m.attempts.beaten:
        found.append(("conflicts", float(b.attempts + b.aborted), "count", "less", None, b.kind, b.by))
    return (
        dict(zip((c.name for c in METRICS_TABLE.columns[2:]), zip(*found, strict=True), strict=True))
        if found
        else {c.name: [] for c in METRICS_TABLE.columns[2:]}
    )


# --- the proxy log ----------------------------------------------------------------------------------------------------
