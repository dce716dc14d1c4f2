"""A stored run, read leniently from its folder.

A report must also show a run that died, a partly copied folder, and files that another tool wrote. So nothing here
raises for an absent or broken file: the readable content is loaded, and each problem becomes a sentence in
``problems``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from checkers.evidence import history, runfolder, tablelog, tablelog_file
from checkers.evidence.change_requests import ChangeRequest, SnapshotScan, change_requests, scans
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History, Operation
from checkers.evidence.lenient import mapping, strings
from checkers.evidence.own_retries import attempts_by_op, counted
from checkers.evidence.plan import Plan, readable_part
from checkers.evidence.tablelog import Commit, TableLog
from checkers.judge.accepted import NOTHING_ACCEPTED, AcceptedAnomalies
from checkers.judge.runfolder import ran_of, whole, with_makers
from checkers.judge.stories import NOTHING_TOLD, Stories
from checkers.judge.telling import tell
from checkers.names import Harm, meaning
from checkers.verdict import Anomaly, Validity, Verdict
from reports.run.results import accepted_from_json, is_unmet, told_from_json, unmet_expectations


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the run's folder: its path relative to the folder (``/`` between parts) and its size in bytes."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Stored:
    """All that a report needs of one run.

    Attributes:
        plan: ``plan.yaml``, as far as it is valid; ``run``: ``run.json``; both empty if absent.
        results: ``results.json``; None if the run was never checked.
        verdicts: the results' verdicts, as far as they are well-formed.
        problems: what could not be read, one sentence each; ``unread`` of them are about files of the run that are gone or cannot be read.
    """

    folder: Path
    plan: Plan
    run: dict[str, Any]
    results: dict[str, Any] | None
    verdicts: tuple[Verdict, ...]
    header: dict[str, Any]
    events: tuple[Event, ...]
    operations: tuple[Operation, ...]
    logs: dict[str, TableLog]
    files: tuple[StoredFile, ...]
    problems: tuple[str, ...]
    change_requests: dict[str, list[ChangeRequest]] = field(default_factory=dict)
    """Operation id → its change requests."""
    scans: dict[str, list[SnapshotScan]] = field(default_factory=dict)
    """Operation id → the snapshots that it read."""
    accepted: AcceptedAnomalies = NOTHING_ACCEPTED
    """The anomalies that the workload expects or allows, as the results say."""
    told: Stories = NOTHING_TOLD
    """The stories of the anomalies, and the tables that became unreadable."""
    unread: int = 0

    @property
    def workload(self) -> str:
        """The workload's name; the name of the folder's parent if the plan has none."""
        return self.plan.workload or self.folder.resolve().parent.name or "run"

    @property
    def state(self) -> str:
        """The state in ``run.json`` (``complete``, ``failed`` …); ``unknown`` if it has none."""
        return str(self.run.get("state") or "unknown")

    @property
    def complete(self) -> bool:
        """Whether the run was complete; assumed without a ``run.json`` (an imported history)."""
        return self.state == "complete" or not self.run

    @property
    def valid(self) -> Validity | None:
        """The run's verdict; None if it was not checked."""
        if self.results is None:
            return None
        valid = self.results.get("valid")
        return valid if isinstance(valid, bool) else "unknown"

    @property
    def anomalies(self) -> list[Anomaly]:
        """All anomalies, in the order of the checkers; that an expected one did not come is none (:attr:`unmet`)."""
        return [a for v in self.verdicts for a in v.anomalies if not is_unmet(a)]

    @property
    def unmet(self) -> tuple[str, ...]:
        """Names of the anomalies that the workload expects and no checker found."""
        return unmet_expectations(a for v in self.verdicts for a in v.anomalies)

    @property
    def did_not_come(self) -> str:
        """A sentence on the expected anomalies that were not found; empty if there are none."""
        one = "anomaly" if len(self.unmet) == 1 else "anomalies"
        it, names = "it" if len(self.unmet) == 1 else "them", ", ".join(self.unmet)
        what = f"this release does not show {it} ({names})" if self.excused else names
        return f"The expected {one} did not come: {what}." if names else ""

    @property
    def excused(self) -> bool:
        """Whether it is the run of a scenario that this release, by the scenario's file, is not to show."""
        return self.reproduced in ("fixed", "later")

    def mark(self, a: Anomaly) -> str:
        """``expected`` or ``allowed`` if the workload says that the anomaly must, or may, be found; else empty."""
        return self.accepted.mark(a)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person must know of the verdict besides the verdicts, a sentence each."""
        return strings((self.results or {}).get("notes"))

    @property
    def reproduced(self) -> str:
        """What came of the scenario that this run is, such as ``reproduced``; empty for the run of a workload."""
        return str(mapping((self.results or {}).get("scenario")).get("state") or "")

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario that this run is, as its plan has it; empty for the run of a workload."""
        return mapping((self.plan.model_extra or {}).get("scenario"))

    @property
    def scenario_faults(self) -> list[str]:
        """The verbs of the faults that the scenario's operations have, which no nemesis injects, in their order."""
        operations = self.scenario.get("operations")
        faults = [mapping(mapping(o).get("fault")) for o in operations] if isinstance(operations, list) else []
        return [str(fault["verb"]) for fault in faults if "verb" in fault]

    @property
    def resolutions(self) -> dict[str, str]:
        """The resolution of operations of unknown outcome: op id → ``applied``, ….

        Read from the statistics ``resolutions`` of any checker (``commits`` has them).
        """
        out: dict[str, str] = {}
        for v in self.verdicts:
            found = v.stats.get("resolutions")
            if isinstance(found, Mapping):
                out |= {str(op): str(what).replace("-", " ") for op, what in found.items() if isinstance(what, str)}
        return out

    @property
    def command(self) -> str | None:
        """The command that repeats the run."""
        return self.plan.command or None

    @property
    def started(self) -> datetime | None:
        """When the run began, wall clock."""
        for source in (self.run, self.header):
            text = source.get("started")
            if isinstance(text, datetime):
                return text
            if isinstance(text, str):
                try:
                    return datetime.fromisoformat(text)
                except ValueError:
                    continue
        return None

    @property
    def writers(self) -> int:
        """How many writers ran; from the plan, else from the processes in the history."""
        return self.plan.writers or max(1, len({o.process for o in self.operations}))

    @property
    def end_ns(self) -> int:
        """The time of the last event, ns since the start of the run."""
        return max((e.time for e in self.events[-1:]), default=0)

    def requests(self, a: Anomaly) -> list[ChangeRequest]:
        """The requests, by time, of an anomaly's operations and of the makers of its snapshots on its table, as the proxies saw them."""
        made = {c.op for log in self.logs.values() for c in log.commits if c.snapshot_id in set(a.snapshots)}
        ops = {*a.ops, *(op for op in made if op is not None)}
        found = [p for op in sorted(ops) for p in self.change_requests.get(op, ())]
        return sorted((p for p in found if a.table in (None, p.table) or not p.table), key=lambda p: p.time)

    def commits_by_op(self) -> dict[str, list[tuple[str, Commit]]]:
        """Operation id → (table, commit) of every snapshot that it made."""
        out: dict[str, list[tuple[str, Commit]]] = {}
        for table, log in self.logs.items():
            for c in log.commits:
                if c.op is not None:
                    out.setdefault(c.op, []).append((table, c))
        return out


def anomaly_names(anomalies: Iterable[Anomaly]) -> dict[str, int]:
    """Anomaly name → how many, the gravest first, of those the most frequent."""
    counts: dict[str, int] = {}
    for a in anomalies:
        counts[a.name] = counts.get(a.name, 0) + 1
    harms = {name: Harm.PROMISE if (means := meaning(name)) is None else means.harm for name in counts}
    return dict(sorted(counts.items(), key=lambda kv: (harms[kv[0]].gravity, -kv[1], kv[0])))


def confirmed_by(name: str, anomalies: Iterable[Anomaly]) -> str:
    """The checkers that confirm anomalies of a name, and their names for it: ``isolation (lost-update), linearizable``; may be empty."""
    found: dict[str, dict[str, None]] = {}
    for a in anomalies:
        if a.same_as == name:
            found.setdefault(a.checker, {})[a.name] = None
    return ", ".join(
        checker if checker == "linearizable" else f"{checker} ({', '.join(list(names)[:3])})"
        for checker, names in sorted(found.items())[:4]
    )


def allowed(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Anomaly → how many were found that the table's level allows (``stats`` of the checker ``isolation``)."""
    out: dict[str, int] = {}
    for v in verdicts:
        for table in mapping(v.stats.get("tables")).values():
            for name, n in mapping(mapping(table).get("allowed")).items():
                if isinstance(n, int):
                    out[name] = out.get(name, 0) + n
    return dict(sorted(out.items()))


def _read_mapping(path: Path, problems: list[str]) -> dict[str, Any] | None:
    try:
        return mapping(runfolder.mapping_in(path))
    except FileNotFoundError:
        return None
    except runfolder.StoreError as e:
        problems.append(str(e).replace(f"{path.parent}/", ""))
        return None


def files_of(folder: Path) -> tuple[StoredFile, ...]:
    """The files of a run's folder except its page, the most useful first."""
    first = ("plan.yaml", "history.jsonl", "tablelog", "results.json", "run.json", "proxy.jsonl", "junit.xml", "logs")
    found = []
    for path in runfolder.files_below(folder):
        relative = path.relative_to(folder)
        try:
            if path.is_file() and not path.is_symlink() and relative.as_posix() != "report.html":
                found.append(StoredFile(relative.as_posix(), path.stat().st_size))
        except OSError:  # removed meanwhile, such as a writer's log of a running run
            continue

    def rank(f: StoredFile) -> tuple[int, str]:
        top = f.path.split("/")[0]
        return (first.index(top) if top in first else len(first), f.path)

    return tuple(sorted(found, key=rank))


def of(run: Path | Stored) -> Stored:
    """A run that is already loaded, or loaded from a folder: page, summary and JUnit file can share one reading."""
    return run if isinstance(run, Stored) else load(run)


def load(folder: Path, evidence: Evidence | None = None) -> Stored:
    """Read a run's folder; history and table logs only if ``evidence`` of the same folder is not given.

    Raises:
        FileNotFoundError: ``folder`` does not exist.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder of a run")
    problems: list[str] = []
    content = _read_mapping(folder / "plan.yaml", problems) or {}
    plan, unreadable = readable_part(content)
    problems += unreadable
    try:
        runfolder.load_kinds(runfolder.RunFolder(folder), content)
    except runfolder.StoreError as e:
        problems.append(str(e).replace(f"{folder}/", ""))
    run = _read_mapping(folder / "run.json", problems)
    state = runfolder.RunFolder(folder).state()
    if run is not None and run.get("state") == "running":  # or it was killed; then the store calls it incomplete
        run["state"] = state.get("state")
    results = _read_mapping(folder / "results.json", problems)
    if evidence is None:
        told = _history(folder, state, problems)
        attempts = attempts_by_op(told.events)
        logs = {name: counted(log, attempts) for name, log in _logs(folder, problems).items()}
        evidence = with_makers(Evidence(told, logs, plan.promised), folder / "proxy.jsonl")
    told, logs = evidence.history, dict(evidence.logs)
    problems += told.problems
    try:
        operations = tuple(told.operations())
    except history.UnpairedError as e:
        problems.append(str(e))
        operations = ()
    problems = [*dict.fromkeys(problems)]
    unread = len(problems)
    problems += [p.why for log in logs.values() for p in log.problems]
    checked = (results or {}).get("checkers")
    verdicts = [Verdict.from_json(v) for v in (checked if isinstance(checked, list) else []) if isinstance(v, Mapping)]
    return Stored(
        folder,
        plan,
        run or {},
        results,
        tuple(verdicts),
        told.header,
        told.events,
        operations,
        logs,
        files_of(folder),
        tuple(dict.fromkeys(problems)),
        change_requests(folder / "proxy.jsonl"),
        scans(folder / "proxy.jsonl"),
        accepted_from_json(results or {}, plan.tables or ()),
        _told(results, verdicts, evidence, plan),
        unread,
    )


def _told(results: Mapping[str, Any] | None, verdicts: Sequence[Verdict], evidence: Evidence, plan: Plan) -> Stories:
    """What the results tell; of results by an older icequake, which do not, it is told anew."""
    if results is None or "headline" in results or not any(v.anomalies for v in verdicts):
        return told_from_json(results or {})
    return tell(evidence, verdicts, ran_of(plan))


def _history(folder: Path, run: Mapping[str, Any], problems: list[str]) -> History:
    try:
        return whole(history.read(folder / "history.jsonl"), run)
    except history.HistoryError as e:
        problems.append(str(e).replace(f"{folder}/", ""))
        return History({}, ())


def _logs(folder: Path, problems: list[str]) -> dict[str, TableLog]:
    logs: dict[str, TableLog] = {}
    for path in sorted((folder / "tablelog").glob("*.jsonl")):
        try:
            log = tablelog_file.read(path)
            logs[log.table] = log
        except tablelog.TableLogError as e:
            problems.append(str(e).replace(f"{folder}/", ""))
    return logs
