"""A run's folder as a recording: its operations, the order of their requests, and what its faults struck.

The order is that of the answers. Where two requests were under way at the same time, their answers can come in another order than the
catalog served them. So what they say of the table decides: a load follows the commit that made the metadata file that it got, and a refused
commit the one that replaced its base. A read of a file that found it came before its deletion, one that did not find it came after.

Requests to the object store have no place in the order, but for those of metadata files that an operation deleted while another one could
still read them: a writer that takes its commit for failed deletes files of the table, and who meets that is not decided by the catalog.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from checkers.evidence import history as histories
from checkers.evidence import runfolder
from checkers.evidence.history import NEMESIS, Event, HistoryError
from checkers.evidence.plan import Plan
from checkers.evidence.proxylog import ACCEPTED
from checkers.evidence.record import RecordError, decoded
from checkers.evidence.runfolder import RunFolder, StoreError, load_kinds
from harness.run.errors import RunError
from harness.run.hidden import revealed
from nemesis.faults.fault import Fault
from nemesis.faults.fields import RequestKind, Service
from nemesis.faults.verb import ConnectionVerb
from nemesis.order.moment import POLLS, Moment
from workloads.file import recording as recordings
from workloads.file.opened import lines
from workloads.file.order import FREE
from workloads.file.recording import RecordedFault, RecordedOperation, Recording
from workloads.file.workload import Workload
from workloads.operations.kinds import KINDS

AHEAD = 64
"""How many later requests can have been under way together with one."""
METADATA = "/metadata/"
"""Part of the paths of a table's metadata files, its manifest lists and manifests among them."""
AROUND = ("setup", "final-reads")
"""The phases that belong to the workload, not to a recording."""
_WRITER = re.compile(r"w(\d+)-\d+")
_AGAIN = ": sent"
"""In the ``faults`` of a line, of logs without the key ``again``."""


def recordable(workload: Workload) -> Workload:
    """The workload with its order of requests recorded, so that each of its runs can be replayed.

    A run with faults or an order is recorded in any case.
    """
    if workload.nemesis is not None or workload.order is not None:
        return workload
    return workload.model_copy(update={"order": FREE})


@dataclass(frozen=True, slots=True)
class _Request:
    """A line of the proxy log. Times in ns.

    Attributes:
        made: the metadata file that a commit put in place, or the one that a load got.
        base, new: of a commit: what it builds on, and what replaces it.
        resent: the proxy sent the request once more, or later.
        file: of a request to the object store: the path of what it reads or deletes.
    """

    moment: Moment
    start: int
    end: int
    table: str
    accepted: bool
    made: str | None
    base: str | None
    new: str | None
    faults: tuple[str, ...]
    resent: bool
    file: str = ""


@dataclass(slots=True)
class _Window:
    """A fault as the history has it; ``end`` in ns, or after everything if it was still on at the end."""

    fault: Fault
    start: int
    end: int
    struck: str | None = None


def recording_of(folder: RunFolder) -> Recording:
    """The recording of a stored run, from ``plan.yaml``, ``history.jsonl`` and ``proxy.jsonl``. Its workload hides what the plan hides.

    Raises:
        RunError: it has no proxy log, or a file cannot be used.
    """
    try:
        plan = folder.read_plan()
        load_kinds(folder, plan.model_extra or {})
        history = histories.read(folder.history)
        operations = history.operations()
    except (StoreError, HistoryError) as e:
        raise RunError(str(e)) from None
    workload = workload_of(plan, folder)
    writers = {o.op: n for o in operations if (n := _writer(o.op)) is not None}
    kept = [
        o for o in operations if o.op in writers and o.invoked.extra.get("phase") not in AROUND and o.table is not None
    ]
    ends = {o.op: o.completed.time for o in kept if o.completed is not None}
    requests = [*_requests(folder, {o.op for o in kept})]
    windows = [*_windows(history.events)]
    began = {o.op: o.start for o in kept}
    placed = [*(r for r in requests if r.moment.ordered), *_of_deleted_files(requests, began)]
    ordered = _served([r for r in placed if r.start <= ends.get(r.moment.op, r.start)])
    last = max((e.time for e in history.events), default=0)
    return Recording(
        workload,
        plan.seed or 0,
        workload.catalog,
        tuple(
            RecordedOperation(
                o.op,
                writers[o.op],
                o.f,
                str(o.table),
                o.value if isinstance(o.value, dict) else {},
                str(o.invoked.extra.get("phase", "main")),
                after,
            )
            for o, after in zip(kept, _before(kept, writers), strict=True)
        ),
        tuple(r.moment for r in ordered),
        tuple(_faults(windows, requests, ordered, kept, last)),
    )


def recording_at(path: Path) -> Recording:
    """The recording that a path means: a run's folder, a ``latest`` link, a file in a run's folder, or a ``recording.json``.

    Raises:
        RunError, StoreError: there is no run, or it cannot be replayed.
        FileError: the file is no recording.
    """
    if path.is_file() and path.name not in ("plan.yaml", "history.jsonl", "proxy.jsonl", "run.json", "results.json"):
        recording = recordings.read(path)
        revealed(recording.workload.catalog_properties, str(path))
        return recording
    folder = runfolder.find(path)
    recording = recording_of(folder)
    _can_be_replayed(recording, folder)
    return recording


def _can_be_replayed(recording: Recording, folder: RunFolder) -> None:
    """Raises RunError for a run whose files do not belong together, in which nothing happened, or whose secrets nobody gives."""
    revealed(recording.workload.catalog_properties, str(folder.plan))
    if not recording.operations:
        raise RunError(f"{folder.path}: no operation was recorded, so there is nothing to replay; name another run")
    w = recording.workload
    tables, most = {t.name for t in w.tables}, w.writers + 1  # the nemesis's own writer comes after the workload's
    for o in recording.operations:
        wrong = ""
        if o.f not in KINDS:
            wrong = f"the kind {o.f}, which this icequake does not know"
        elif o.table not in tables:
            wrong = f"the table {o.table}, which {folder.plan.name} does not have"
        elif o.writer >= most:
            wrong = f"the writer w{o.writer}, and {folder.plan.name} has {w.writers}"
        if wrong:
            raise RunError(f"{folder.history}: {o.op} has {wrong}; name the folder of a run as it was recorded")
    if not recording.order:
        raise RunError(
            f"{folder.proxy}: no request of the run's operations is in it, so its order is not known; name another run, or record one with "
            "--order free"
        )


def _writer(op: str) -> int | None:
    found = _WRITER.fullmatch(op)
    return None if found is None else int(found[1])


def workload_of(plan: Plan, folder: RunFolder) -> Workload:
    """The workload of a run's plan, which hides what the plan hides. Raises RunError: the plan does not say all of it."""
    more = plan.model_extra or {}
    phases = [p.model_dump(exclude_none=True, exclude={"writers"}) for p in plan.phases]
    mix: dict[str, Any] = {}
    for p in phases:
        mix |= {k: v for k, v in p["operations"].items() if k not in mix}
    fields: dict[str, Any] = {
        "workload": plan.workload,
        "description": plan.description,
        "catalog": "" if plan.catalog is None else plan.catalog.name,
        "catalog_properties": plan.catalog_properties,
        "tables": [t.model_dump() for t in plan.tables or ()],
        "writers": plan.engines or plan.writers,
        "keys": plan.keys,
        "op_timeout": plan.op_timeout,
        "session": plan.session,
        "cluster": plan.cluster,
        "nemesis": plan.nemesis or None,
        "clocks": plan.clocks,
        "expect": plan.expect,
        "allow": plan.allow,
        "assert": plan.assertions,
        "operations": mix,
        **{k: more[k] for k in ("stop_when", "seed_own_keys", "backoff", "swap_latency", "guard") if k in more},
    }
    plain = len(phases) == 1 and phases[0]["name"] == "main" and phases[0].keys() <= {"name", "length", "operations"}
    fields |= {"length": phases[0]["length"]} if plain else {"phases": phases}
    try:
        return Workload.model_validate({k: v for k, v in fields.items() if v is not None})
    except ValidationError as e:
        where = ".".join(str(part) for part in e.errors()[0]["loc"])
        raise RunError(
            f"{folder.plan}: {where}: {e.errors()[0]['msg']}; the plan does not say the whole workload"
        ) from None


def _before(operations: Sequence[histories.Operation], writers: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """For each operation the last one of each other writer that had completed when it was invoked."""
    completed = sorted((o.completed.index, o.op) for o in operations if o.completed is not None)
    last: dict[int, str] = {}
    n = 0
    for o in operations:
        while n < len(completed) and completed[n][0] < o.invoked.index:
            last[writers[completed[n][1]]] = completed[n][1]
            n += 1
        yield tuple(op for writer, op in sorted(last.items()) if writer != writers[o.op])


# -- requests ------------------------------------------------------------------------------------------------------------


def _requests(folder: RunFolder, ops: set[str]) -> Iterator[_Request]:
    """The requests of these operations, in the order in which they came. Lines that are torn are left out."""
    found: list[dict[str, Any]] = []
    try:
        for line in lines(folder.proxy):
            with contextlib.suppress(RecordError):
                if (r := decoded(line)).get("op") in ops:
                    found.append(r)
    except FileNotFoundError:
        raise RunError(
            f"{folder.path}: the run has no proxy log, so its order is not known; record it with --order free"
        ) from None
    except OSError as e:
        raise RunError(f"{folder.proxy}: cannot be read: {e.strerror}; its order is not known") from None
    numbers: Counter[tuple[str, str, str]] = Counter()
    for r in sorted(found, key=lambda r: r["time"] if isinstance(r.get("time"), int) else 0):
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            faults = tuple(str(f) for f in r.get("faults") or ())
            repeated = bool(r.get("again")) or any(_AGAIN in f for f in faults)
            if (
                r.get("what") in POLLS
                or r["service"] not in get_args(Service)
                or r["kind"] not in get_args(RequestKind)
            ):
                continue
            key = (str(r["op"]), str(r["service"]), str(r["kind"]))
            numbers[key] += not repeated
            time = int(r["time"])
            yield _Request(
                Moment(key[0], r["service"], r["kind"], int(r.get("nth") or max(1, numbers[key]))),
                time + int(float(r.get("waited_ms", 0)) * 1e6),
                time + int(float(r["ms"]) * 1e6),
                str(r.get("table") or ""),
                ACCEPTED.fullmatch(str(r["status"])) is not None,
                r.get("location") or (r.get("new") if ".metadata.json" in str(r.get("new")) else None),
                r.get("base"),
                r.get("new"),
                faults,
                repeated,
                str(r.get("what")).partition(" ")[2].partition("?")[0] if r["service"] == "store" else "",
            )


def _of_deleted_files(requests: Sequence[_Request], began: Mapping[str, int]) -> Iterator[_Request]:
    """The requests that decide who met the deletion of a metadata file: the deletions, and the reads of operations that had begun before.

    Args:
        began: an operation's id → when it was invoked, in ns.
    """
    files: dict[str, list[_Request]] = defaultdict(list)
    for r in requests:
        if METADATA in r.file and r.moment.can_be_ordered:
            files[r.file].append(r)
    for asked in files.values():
        deletes = [r for r in asked if r.moment.kind == "delete" and r.accepted]
        last = max((r.end for r in deletes), default=0)
        reads = [r for r in asked if r.moment.kind == "read" and began[r.moment.op] <= last]
        if {r.moment.op for r in reads} - {r.moment.op for r in deletes}:
            yield from (*deletes, *reads)


def _served(requests: Sequence[_Request]) -> list[_Request]:
    """The requests in the order in which the catalog served them; a second sending that directly follows the first is left out."""
    order = sorted(requests, key=lambda r: (r.end, r.start))
    made = {r.made: r.end for r in order if r.moment.kind == "commit" and r.accepted and r.made}
    for i in range(len(order)):
        for _ in range(AHEAD):  # what contradicts itself would go round and round
            ahead = range(i + 1, min(i + AHEAD, len(order)))
            j = next((j for j in ahead if order[j].start < order[i].end and _first(order[j], order[i], made)), None)
            if j is None:
                break
            order.insert(i, order.pop(j))
            if j == i + 1 and _first(order[j], order[i], made):
                break
    late = {r.moment for r in order if r.resent and any(f.startswith("late") for f in r.faults)}
    return [r for r in order if not r.resent or r.moment in late]


def _first(request: _Request, other: _Request, made: Mapping[str, int]) -> bool:
    """Whether the catalog, or the store, must have served ``request`` before ``other``."""
    if request.file or other.file:
        read, deleted = request.moment.kind == "read", request.moment.kind == "delete"
        if request.file != other.file:
            return False
        return (read and request.accepted and other.moment.kind == "delete") or (deleted and not other.accepted)
    if request.table != other.table:
        return False
    commit, load = (
        request.moment.kind == "commit" and request.accepted,
        request.moment.kind == "load" and request.made is not None,
    )
    if other.moment.kind == "load":
        return commit and other.made is not None and other.made == request.made
    if other.moment.kind != "commit":
        return False
    if not other.accepted:
        return commit and request.base is not None and request.base == other.base
    if commit:
        return request.new is not None and request.new == other.base
    return load and request.made != other.made and made.get(str(request.made), -1) <= other.end


# -- faults --------------------------------------------------------------------------------------------------------------


def _windows(events: Sequence[Event]) -> Iterator[_Window]:
    """The faults of the history, in the order in which they began."""
    on: dict[str, _Window] = {}
    found: list[_Window] = []
    for e in events:
        if e.process != NEMESIS or not isinstance(e.value, dict):
            continue
        name = str(e.value.get("name"))
        if e.f.startswith("start-") and isinstance(e.value.get("fault"), dict):
            with contextlib.suppress(ValidationError):
                on[name] = _Window(Fault.model_validate(e.value["fault"]), e.time, 1 << 62)
                found.append(on[name])
        elif e.f.startswith("stop-") and name in on:
            window = on.pop(name)
            window.end = e.time
            window.struck = str(e.value["struck"]) if e.value.get("struck") else None
    yield from found


def _faults(
    windows: Sequence[_Window],
    requests: Sequence[_Request],
    ordered: Sequence[_Request],
    operations: Sequence[histories.Operation],
    last: int,
) -> Iterator[RecordedFault]:
    """The faults with what they struck; faults of requests that struck none are left out."""
    by_window: dict[int, list[Moment]] = defaultdict(list)
    for r in requests:
        if r.resent:
            continue
        for name in r.faults:
            on = [n for n, w in enumerate(windows) if w.fault.name == name and w.start <= r.end]
            if on:
                by_window[on[-1]].append(r.moment)
    for n, w in enumerate(windows):
        lasted = round((min(w.end, last) - w.start) / 1e9, 3)
        fault, verb = w.fault.model_copy(update={"duration": max(0.001, lasted)}), w.fault.action
        shuts = isinstance(verb, ConnectionVerb) and (verb.shuts(fault, "requests") or verb.shuts(fault, "replies"))
        if fault.on_connections and not shuts:
            if by_window[n]:
                yield RecordedFault(fault, struck=tuple(by_window[n]))
            continue
        after = next((r.moment for r in reversed(ordered) if r.end <= w.start), None)
        target = w.struck
        if fault.verb == "maintain":
            done = [o for o in operations if o.invoked.extra.get("phase") == "nemesis" and w.start <= o.start <= w.end]
            target = done[0].op if done else None
        yield RecordedFault(fault, after=after, target=target)


def describe(recording: Recording) -> str:
    """A recording in a few words: ``218 operations, 668 requests, 3 faults``."""
    counts = (
        (len(recording.operations), "operation"),
        (len(recording.order), "request"),
        (len(recording.faults), "fault"),
    )
    return ", ".join(f"{n:,} {word}{'s' * (n != 1)}" for n, word in counts)
