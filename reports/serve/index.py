"""The runs of a store in a few words each, read once and again when their files change.

Nothing of a run is executed: its own kinds of operations, which are Python modules in its folder, are not imported.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from checkers.evidence import runfolder
from checkers.evidence.lenient import mapping
from checkers.evidence.runfolder import RunFolder
from checkers.verdict import Anomaly, Verdict, own_findings
from reports.run.results import verdict_words

STAMP = "%Y%m%dT%H%M%S.%fZ"
"""How the store names the folder of a run."""

Status = Literal["valid", "anomalies", "unknown", "not checked", "broken"]
STATUSES: dict[Status, str] = {
    "valid": "nothing is wrong",
    "anomalies": "an anomaly was found, or an expected one was not",
    "unknown": "something could not be decided",
    "not checked": "it has no verdict yet",
    "broken": "a file of it cannot be read",
}


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run.

    Attributes:
        path: of its folder in the store, with ``/``.
        verdict: in a few words, as ``icequake list runs`` shows it.
        anomalies: name → how many, without those that only confirm another.
        broken: what cannot be read, a sentence each.
        plan: ``plan.yaml``; ``run``: ``run.json``; both as far as they can be read. ``verdicts``: of the checkers.
    """

    path: str
    workload: str
    catalog: str
    status: Status
    verdict: str
    state: str
    started: datetime | None
    operations: int | None
    anomalies: Mapping[str, int] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    has_page: bool = False

    @property
    def text(self) -> str:
        """What the filter by text looks in, in lower case."""
        words = (self.path, self.workload, self.catalog, self.verdict, self.state, *self.anomalies, *self.broken)
        return " ".join((*words, str(self.plan.get("description") or ""))).lower()

    @property
    def key(self) -> tuple[str, str]:
        """By which runs are sorted: the newest has the greatest."""
        began = self.started
        return ("" if began is None else began.astimezone(UTC).strftime(STAMP), self.path)


def entry(folder: Path, path: str) -> RunEntry:
    """A run in a few words; what is missing or broken in it is said, and never raised."""
    broken: list[str] = []
    run = RunFolder(folder)
    plan = _mapping(run.plan, broken, needed=True)
    state = _mapping(run.run, broken, needed=False)
    results = _mapping(run.results, broken, needed=False)
    if not run.history.is_file():
        broken.append("history.jsonl: missing")
    state_text = str(run.state().get("state")) if state else "incomplete"
    checked = results.get("checkers")
    verdicts = tuple(
        Verdict.from_json(v) for v in (checked if isinstance(checked, list) else []) if isinstance(v, dict)
    )
    found: Sequence[Anomaly] = own_findings([a for v in verdicts for a in v.anomalies])
    count = state.get("operations")
    return RunEntry(
        path,
        str(plan.get("workload") or folder.parent.name),
        _catalog(plan.get("catalog")),
        _status(results, broken),
        "broken" if broken else verdict_words(results),
        state_text,
        _started(state, folder.name),
        count if type(count) is int else None,
        dict(Counter(a.name for a in found).most_common()),
        tuple(broken),
        plan,
        state,
        verdicts,
        run.report.is_file(),
    )


def _status(results: Mapping[str, Any], broken: Sequence[str]) -> Status:
    if broken:
        return "broken"
    if not results:
        return "not checked"
    valid = results.get("valid")
    return "valid" if valid is True else "anomalies" if valid is False else "unknown"


def _catalog(value: object) -> str:
    name = mapping(value).get("name") if isinstance(value, dict) else value
    return name if isinstance(name, str) else ""


def _started(state: Mapping[str, Any], name: str) -> datetime | None:
    for text, read in ((state.get("started"), datetime.fromisoformat), (name, _stamp)):
        try:
            began = read(text) if isinstance(text, str) else None
        except ValueError:
            continue
        if began is not None:
            return began if began.tzinfo else began.replace(tzinfo=UTC)
    return None


def _stamp(name: str) -> datetime:
    return datetime.strptime(name, STAMP)


def _mapping(path: Path, broken: list[str], *, needed: bool) -> dict[str, Any]:
    """A file of YAML or JSON as a mapping; empty, and a sentence more in ``broken``, if it is none."""
    try:
        return {str(k): v for k, v in runfolder.mapping_in(path, words=True).items()}
    except FileNotFoundError:
        if needed:
            broken.append(f"{path.name}: missing")
    except runfolder.StoreError as e:
        broken.append(str(e).replace(f"{path.parent}/", ""))
    return {}


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to show; an empty word shows all.

    Attributes:
        text: every word of it is in the run's :attr:`RunEntry.text`.
    """

    workload: str = ""
    catalog: str = ""
    status: str = ""
    text: str = ""

    def __call__(self, e: RunEntry) -> bool:
        """Whether it shows a run."""
        return (
            self.workload in ("", e.workload)
            and self.catalog in ("", e.catalog)
            and self.status in ("", e.status)
            and all(word in e.text for word in self.text.lower().split())
        )


Seen = tuple[tuple[int, int] | None, ...]
_WATCHED = ("plan.yaml", "run.json", "results.json", "history.jsonl", "report.html")


class Index:
    """The runs of a store, the newest first; any thread may ask. A run is read again when one of its files has changed.

    Args:
        store: an existing folder.
    """

    def __init__(self, store: Path) -> None:
        self.store = store.resolve()
        self._known: dict[str, tuple[Seen, RunEntry]] = {}
        self._lock = threading.Lock()

    def entries(self) -> list[RunEntry]:
        """All runs as they are now."""
        with self._lock:
            found: dict[str, tuple[Seen, RunEntry]] = {}
            for run in runfolder.below(self.store):
                path = run.path.relative_to(self.store).as_posix()
                found[path] = self._entry(run.path, path)
            self._known = found
            return sorted((e for _, e in found.values()), key=lambda e: e.key, reverse=True)

    def find(self, path: str) -> RunEntry | None:
        """The run in a folder of the store, given with ``/`` and without links; None if it is no run."""
        folder = self.store / path
        if not any((folder / name).is_file() for name in ("plan.yaml", "history.jsonl")):
            return None
        with self._lock:
            self._known[path] = self._entry(folder, path)
            return self._known[path][1]

    def _entry(self, folder: Path, path: str) -> tuple[Seen, RunEntry]:
        now = _stamps(folder)
        known = self._known.get(path)
        # Whether a running process still lives is not in a file.
        if known is not None and known[0] == now and known[1].state != "running":
            return known
        return now, entry(folder, path)


def _stamps(folder: Path) -> Seen:
    """Time of the last change and size of each file that an entry is made from; of the history only whether it is there."""
    out: list[tuple[int, int] | None] = []
    for name in _WATCHED:
        try:
            seen = (folder / name).stat()
        except OSError:
            out.append(None)
        else:
            out.append((0, 0) if name == "history.jsonl" else (seen.st_mtime_ns, seen.st_size))
    return tuple(out)


def values(entries: Iterable[RunEntry], key: Literal["workload", "catalog"]) -> list[str]:
    """The workloads or catalogs of some runs, by name."""
    return sorted({v for e in entries if (v := str(getattr(e, key)))})
