"""Writers that record the attempts of their commits: drawn by hand, or simulated on one pointer, where it is known who made whom retry."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from checkers.costs.comparison import Contender, ContenderRun
from checkers.costs.measures import Measures, measure
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, EventType, History
from checkers.evidence.tablelog import Capture, TableLog
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.judge.check import check
from checkers.retries import Retries
from workloads.tables import COLUMNS, TableSpec

MS = 1_000_000
FAILED = [["org.apache.iceberg.exceptions.CommitFailedException", "metadata location has changed"]]


def attempt(outcome: str = "committed", parent: str = "hot", **more: Any) -> dict[str, Any]:
    """One attempt as the history records it: 20 ms from refresh to answer and 3,000 bytes written, unless said otherwise."""
    usual: dict[str, Any] = {
        "wait_ms": 0,
        "refresh_ms": 2,
        "validate_ms": 1,
        "manifests_ms": 5,
        "metadata_ms": 4,
        "swap_ms": 8,
        "reads": 2,
        "read_bytes": 1000,
        "writes": 3,
        "written_bytes": 3000,
    }
    return {**usual, "parent": parent, "outcome": outcome, **more}


@dataclass
class Committers:
    """A run, operation by operation; the order of acknowledgements is main's. Times are ms since its start."""

    writers: int = 3
    _raw: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)
    _won: list[tuple[float, str, int]] = field(default_factory=list)

    def did(
        self,
        op: str,
        start: float,
        end: float,
        attempts: Sequence[Mapping[str, Any]] | None,
        *,
        f: str = "insert",
        type: EventType = "ok",
        tries: int = 1,
        current: float | None = None,
    ) -> None:
        """An operation; an acknowledged one leaves a snapshot on main.

        Args:
            attempts: None: its engine does not record them, and ``tries`` is in the name of its manifest list.
            current: when its snapshot became main's, for the order of main; its end by default.
        """
        process = int(op[1:].partition("-")[0])
        both = {"process": process, "f": f, "table": "t", "op": op}
        self._raw.append((start, 1, {**both, "type": "invoke", "extra": {"phase": "main"}}))
        extra = {} if attempts is None else {"attempts": [dict(a) for a in attempts]}
        error = FAILED if type == "fail" else None
        self._raw.append((end, 0, {**both, "type": type, "error": error, "extra": extra}))
        if type == "ok" and f != "read":
            self._won.append((end if current is None else current, op, tries))

    def evidence(self) -> Evidence:
        """What the run left behind."""
        self._raw.sort(key=lambda r: r[:2])
        events = tuple(Event(n, int(at * MS), **r) for n, (at, _, r) in enumerate(self._raw))
        history = History({"format": 1, "writers": self.writers}, events)
        return Evidence(history, {"t": self._log()}, {"t": TableSpec(name="t")})

    def measures(self, passed: Sequence[Mapping[str, Any]] = ()) -> Measures:
        """As they are measured of a run."""
        evidence = self.evidence()
        return measure(evidence, check(evidence, [Retries()]), passed)

    def _log(self) -> TableLog:
        commits = []
        for n, (at, op, tries) in enumerate(sorted(self._won), 1):
            name = f"metadata/snap-{n}-{tries}-u.avro"
            commits.append(
                Commit(
                    n,
                    n - 1 or None,
                    n,
                    int(at),
                    "append",
                    op,
                    tries,
                    n,
                    (),
                    (),
                    summary={},
                    manifest_list=name,
                    schema_id=0,
                    added_files=(),
                    removed_files=(),
                )
            )
        ids = tuple(c.snapshot_id for c in commits)
        last = Metadata(
            1,
            "m.json",
            0,
            ids[-1] if ids else None,
            ids,
            {},
            format_version=2,
            last_sequence_number=len(ids),
            next_row_id=None,
            raw={},
        )
        return TableLog("t", "db.t", "s3://b/t", COLUMNS, (last,), tuple(commits), (Capture(9, "m"),), True)


@dataclass
class Simulated:
    """What happened when writers raced for one pointer.

    ``retries``: retries → commits; ``beaten``: (refused writer, writer whose snapshot was current) → how often.
    """

    run: Committers
    retries: Counter[int]
    beaten: Counter[tuple[str, str]]


def simulated(seed: int, writers: int, commits: int, *, swap: float = 8, budget: int = 50) -> Simulated:
    """Writers that commit one after the other and retry; the catalog decides at the end of each request, which all take ``swap`` ms.

    Every writer has a slightly different speed, so that no two requests end at the same moment.
    """
    random = Random(seed)
    run = Committers(writers)
    retries: Counter[int] = Counter()
    beaten: Counter[tuple[str, str]] = Counter()
    current, owner = 0, ""
    base: dict[int, int] = {}
    doing: dict[int, tuple[str, float, list[dict[str, Any]]]] = {}
    queue: list[tuple[float, int]] = []  # when a request ends

    def begin(w: int, at: float, op: int) -> None:
        doing[w] = (f"w{w}-{op}", at, [])
        go(w, at, 0.0)

    def go(w: int, at: float, wait: float) -> None:
        times: dict[str, Any] = {
            k: round(random.uniform(1, 9), 3) for k in ("refresh_ms", "validate_ms", "manifests_ms")
        }
        refreshed = at + wait + times["refresh_ms"]
        end = at + wait + sum(times.values()) + swap
        heapq.heappush(queue, (end, w))
        doing[w][2].append(attempt("unknown", wait_ms=wait, metadata_ms=0, swap_ms=swap, **times))
        waiting.append((refreshed, w))

    waiting: list[tuple[float, int]] = []
    for w in range(writers):
        begin(w, round(random.uniform(0, 5), 3), 0)
    done: Counter[int] = Counter()
    while queue:
        end, w = heapq.heappop(queue)
        for refreshed, other in sorted(waiting):
            if refreshed <= end:  # nothing was committed since: requests are handled in order of their ends
                base[other] = current
        waiting = [(r, o) for r, o in waiting if r > end]
        op, start, attempts = doing[w]
        if base[w] == current:
            current, owner = current + 1, f"w{w}"
            attempts[-1]["outcome"] = "committed"
            run.did(op, start, end, attempts)
            retries[len(attempts) - 1] += 1
            done[w] += 1
            if done[w] < commits:
                begin(w, end + round(random.uniform(0, 20), 3), done[w])
        else:
            attempts[-1]["outcome"] = "refused"
            beaten[f"w{w}", owner] += 1
            if len(attempts) < budget:
                go(w, end, round(random.uniform(0, 30), 3))
            else:
                run.did(op, start, end, attempts, type="fail")
    return Simulated(run, retries, beaten)


def point(seed: int, measures: Measures | None, *varied: tuple[str, str], **more: Any) -> ContenderRun:
    """A run of one point of a sweep on the catalog ``rest``."""
    contender = Contender("rest", "1.12.0", (), varied)
    name = "-".join(v for _, v in varied).replace("+", "-")
    return ContenderRun(contender, seed, f"2026-01-01T00:00:{seed:02d}+00:00", f"../w/{name}-{seed}", measures, **more)
