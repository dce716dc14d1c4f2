"""The ``retries`` checker: what conflicts cost, on histories and table logs drawn by hand, on simulated and on real ones.

A drawing is one table of rows ``0 … 7`` (four partitions) and operations that each say when they ran and what they committed. The rows of
a commit follow from its operation's meaning at the state before it, so that drawings cannot contradict themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History
from checkers.evidence.proxylog import Carried
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, RowChange, TableLog
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.judge.runfolder import load_evidence
from checkers.retries import Retries, conflicts
from checkers.timeline.metrics import measure
from checkers.verdict import Verdict
from tests.support.simulator import MIX, UPSERTING, simulate
from workloads.operations.kinds import KINDS
from workloads.tables import COLUMNS, State, TableSpec

S = 1_000_000_000
VALIDATION = "org.apache.iceberg.exceptions.ValidationException"
FAILED = "org.apache.iceberg.exceptions.CommitFailedException"


@dataclass
class Drawing:
    """Operations in the order of their commits; ``run`` draws one that commits, ``abort`` one that does not."""

    spec: TableSpec = field(default_factory=lambda: TableSpec(name="t"))
    properties: Mapping[str, str] = field(default_factory=dict)
    lines: list[tuple[float, str, int, str, Any, str, Any, str]] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    state: State = field(default_factory=State)

    def __post_init__(self) -> None:
        self.run("insert", {"ids": list(range(8))}, "seed", 0.0, 0.5, phase="setup")

    def run(
        self,
        f: str,
        value: Any,
        op: str,
        start: float,
        end: float,
        *,
        attempt: int = 1,
        process: int = 0,
        phase: str = "main",
    ) -> str:
        """Commits; returns the path of the file that it adds."""
        want = KINDS[f].writeset(self.state, value, op, self.spec)
        path = f"data/{op}-0001.parquet"
        parts = sorted({r.part for r in (*want.removed, *want.added)})
        n = len(self.commits)
        self.commits.append(
            Commit(
                n + 1,
                n or None,
                n + 1,
                0,
                "overwrite",
                op,
                attempt,
                n + 1,
                tuple(RowChange(tuple(r), path, k) for k, r in enumerate(want.added)),
                tuple(RowChange(tuple(r), "data/old.parquet", k) for k, r in enumerate(want.removed)),
                summary={},
                manifest_list=f"snap-{n + 1}-{attempt}-x.avro",
                schema_id=0,
                added_files=tuple(
                    FileEntry(path, "data", 1, 100, {"part": p}, format="parquet", data_sequence_number=n + 1)
                    for p in parts
                ),
                removed_files=(),
            )
        )
        self.state.apply(*want)
        self._line(f, value, op, start, end, "ok", None, process, phase)
        return path

    def abort(
        self, f: str, value: Any, op: str, start: float, end: float, error: str, message: str = "no", process: int = 1
    ) -> None:
        """Fails."""
        self._line(f, value, op, start, end, "fail", [[error, message]], process, "main")

    def nemesis(self, at: float, f: str) -> None:
        self.lines.append((at, "info", -1, f, None, "", None, ""))

    def _line(
        self, f: str, value: Any, op: str, start: float, end: float, type: str, error: Any, process: int, phase: str
    ) -> None:
        self.lines.append((start, "invoke", process, f, value, op, None, phase))
        self.lines.append((end, type, process, f, None, op, error, phase))

    def evidence(self) -> Evidence:
        events = []
        for n, (at, type, process, f, value, op, error, phase) in enumerate(sorted(self.lines, key=lambda x: x[0])):
            if process < 0:
                events.append(Event(n, int(at * S), "info", "nemesis", f))
            else:
                extra = {"phase": phase} if type == "invoke" else {}
                events.append(Event(n, int(at * S), type, process, f, "t", value, op, error, extra))  # type: ignore[arg-type]
        ids = tuple(range(1, len(self.commits) + 1))
        raw = {"properties": dict(self.properties)}
        versions = [
            Metadata(0, "0", 0, None, (), {}, format_version=2, last_sequence_number=0, next_row_id=None, raw=raw)
        ]
        versions += [
            Metadata(
                n,
                str(n),
                0,
                n,
                ids[:n],
                {"main": n},
                format_version=2,
                last_sequence_number=n,
                next_row_id=None,
                raw=raw,
            )
            for n in ids
        ]
        end = int((max(x[0] for x in self.lines) + 1) * S)
        log = TableLog(
            "t",
            "c.t",
            "s3://w/t",
            COLUMNS,
            tuple(versions),
            tuple(self.commits),
            (Capture(end, versions[-1].location),),
            True,
        )
        return Evidence(History({"writers": 2}, tuple(events)), {"t": log}, {"t": self.spec})

    def check(self) -> Verdict:
        v = Retries().check(self.evidence())
        assert v.valid is True and not v.anomalies
        json.dumps(v.to_json(), allow_nan=False)
        return v


def pairs(v: Verdict) -> list[tuple[Any, ...]]:
    return [
        tuple(p[k] for k in ("aborted", "by", "exception", "because", "count")) for p in v.stats["conflicts"]["pairs"]
    ]


def test_attempts_are_counted_by_table_kind_and_writer() -> None:
    d = Drawing()
    d.run("insert", {"ids": [20]}, "a", 1, 2, attempt=1, process=0)
    d.run("insert", {"ids": [21]}, "b", 1, 3, attempt=3, process=1)
    d.run("update-counter", {"ids": [1]}, "c", 4, 5, attempt=3, process=3)
    a = d.check().stats["attempts"]
    assert a["total"] == {"1": 1, "3": 2}
    assert a["by_table"] == {"t": {"1": 1, "3": 2}}
    assert a["by_kind"] == {"insert": {"1": 1, "3": 1}, "update-counter": {"3": 1}}
    assert a["by_writer"] == {"w0": {"1": 1}, "w1": {"3": 2}}


def test_the_conflict_is_with_the_commit_whose_file_the_error_names() -> None:
    d = Drawing()
    d.run("insert", {"ids": [30]}, "before", 1, 2)
    path = d.run("update-counter", {"ids": [4]}, "winner", 3, 5)
    d.run("update-counter", {"ids": [1]}, "same-key", 3, 5, process=2)
    d.abort("update-register", {"ids": [1]}, "loser", 3, 6, VALIDATION, f"Found conflicting files: [s3://w/t/{path}]")
    assert pairs(d.check()) == [("update-register", "update-counter", "ValidationException", "named", 1)]


@pytest.mark.parametrize(
    ("winner", "why"),
    [
        ((("update-counter", {"ids": [1]}),), "rows"),
        ((("update-counter", {"ids": [5]}), ("insert", {"ids": [1]})), "rows"),
        ((("update-counter", {"ids": [5]}),), "part"),
        ((("update-counter", {"ids": [2]}),), "time"),
        ((), None),
    ],
)
def test_else_it_is_guessed_by_rows_partitions_and_time(winner: tuple[tuple[str, Any], ...], why: str | None) -> None:
    d = Drawing()
    d.run("update-register", {"ids": [1]}, "long before", 0.6, 0.9)
    for n, (f, value) in enumerate(winner):
        d.run(f, value, f"w{n}", 1 + n / 10, 2 + n / 10, process=0 if not n else 2)
    d.abort("update-register", {"ids": [1]}, "loser", 1, 3, FAILED)
    v = d.check()
    assert [p[3] for p in pairs(v)] == ([] if why is None else [why])
    assert v.stats["conflicts"]["unexplained"] == (why is None)


def test_a_table_without_partitions_has_none_in_common() -> None:
    d = Drawing(spec=TableSpec(name="t", partitioned=False))
    d.run("update-counter", {"ids": [5]}, "w", 1, 2)
    d.abort("update-register", {"ids": [1]}, "loser", 1, 3, FAILED)
    assert pairs(d.check())[0][3] == "time"


@pytest.mark.parametrize(
    ("winner", "loser", "needless"),
    [
        (("update-counter", {"ids": [1]}), ("update-register", {"ids": [1]}), False),
        (("update-counter", {"ids": [5]}), ("update-register", {"ids": [1]}), True),
        (("delete", {"ids": [1]}), ("delete", {"ids": [1]}), False),
        (("delete", {"ids": [99]}), ("delete", {"ids": [1]}), True),
        (("insert", {"ids": [1]}), ("merge-upsert", {"ids": [1]}), False),
        (("rewrite-data-files", {"strategy": "binpack", "all": True}), ("update-register", {"ids": [1]}), True),
        (("update-counter", {"ids": [1]}), ("update-counter-where", {"part": 1, "parity": 0}), False),
        (("update-counter", {"ids": [2]}), ("update-counter-where", {"part": 1, "parity": 0}), True),
        (("update-counter", {"ids": [1]}), ("rewrite-data-files", {"strategy": "sort", "all": True}), None),
    ],
)
def test_an_abort_is_spurious_when_the_meaning_never_changed(
    winner: tuple[str, Any], loser: tuple[str, Any], needless: bool | None
) -> None:
    d = Drawing()
    d.run(*winner, "winner", 1, 2)
    d.abort(*loser, "loser", 1, 3, VALIDATION)
    s = d.check().stats["spurious"]
    assert (s["aborted"], s["judged"], s["spurious"]) == (1, int(needless is not None), int(bool(needless)))


def test_success_waste_and_backoff() -> None:
    d = Drawing(
        properties={"commit.retry.min-wait-ms": "10", "commit.retry.max-wait-ms": "30", "commit.retry.num-retries": "5"}
    )
    d.run("insert", {"ids": [20]}, "a", 1, 2, attempt=5)
    d.abort("update-counter", {"ids": [1]}, "b", 2, 4, FAILED)
    d.abort("update-counter", {"ids": [1]}, "c", 4.5, 5.5, VALIDATION)
    d.abort("update-counter", {"ids": [1]}, "d", 6, 7, "java.io.IOException")
    s = d.check().stats
    assert s["success"] == {"committed": 1, "aborted": 2, "rate": round(1 / 3, 6)}
    assert s["backoff_ms"] == {
        "committed": round(1.05 * (10 + 20 + 30 + 30), 1),
        "exhausted": round(1.05 * (10 + 20 + 30 * 3), 1),
    }
    assert s["wasted"] == {"seconds": 3.0, "share": 0.6, "attempts": 4, "bytes": None}
    assert s["conflicts"]["aborted"] == {"CommitFailedException": 1, "ValidationException": 1}


def test_an_operation_whose_retries_ended_by_their_time_waited_no_longer_than_it_took() -> None:
    d = Drawing(properties={"commit.retry.min-wait-ms": "1000", "commit.retry.num-retries": "900"})
    d.abort("insert", {"ids": [20]}, "a", 1, 3.5, FAILED)
    assert d.check().stats["backoff_ms"]["exhausted"] == 2500.0


def test_the_work_of_a_retry_is_from_the_refusal_to_the_next_request_without_the_wait() -> None:
    d = Drawing(properties={"commit.retry.min-wait-ms": "100", "commit.retry.max-wait-ms": "150"})
    d.run("insert", {"ids": [20]}, "a", 1, 4, attempt=3)
    d.run("insert", {"ids": [21]}, "b", 1, 4, attempt=2, process=1)

    def sent(at_ms: int, op: str, snapshot: int, accepted: bool, ms: float | None = 30.0) -> Carried:
        return Carried(at_ms * 1_000_000, 0, op, (snapshot,), accepted, "200" if accepted else "409", ms)

    requests = (
        sent(1000, "a", 2, False),
        sent(1200, "a", 2, False),  # 200 - 30 of the request - 105 of the wait
        sent(1300, "a", 9, True),  # another snapshot of the operation, such as a compaction's second commit
        sent(1500, "a", 2, True),  # 300 - 30 - 1.05 * 150
        sent(1000, "b", 3, False, None),  # nobody knows when its answer came
        sent(1900, "b", 3, True),
    )
    work = Retries().check(replace(d.evidence(), carried={"t": requests})).stats["retry_work"]
    assert work["retries"] == 2
    assert {n: round(v, 1) for n, v in work["ms"].items()} == {"p50": 65.0, "p90": 112.5, "p99": 112.5, "max": 112.5}
    assert d.check().stats["retry_work"] == {"retries": 0, "ms": {}}


def test_latency_and_throughput_inside_and_outside_faults() -> None:
    d = Drawing()
    for n in range(4):
        d.run("insert", {"ids": [20 + n]}, f"a{n}", 1 + n, 1.5 + n)
    d.nemesis(5, "start-partition")
    d.run("insert", {"ids": [30]}, "slow", 4.9, 8)
    d.nemesis(9, "heal")
    d.run("insert", {"ids": [31]}, "after", 10, 11)
    f = d.check().stats["faults"]
    assert f["windows"] == 1
    assert (f["inside"]["seconds"], f["inside"]["acknowledged"], f["inside"]["per_second"]) == (4.0, 1, 0.25)
    assert (f["outside"]["seconds"], f["outside"]["acknowledged"]) == (6.0, 5)
    assert f["inside"]["latency_ms"]["write"]["p50"] == 3100.0
    assert f["outside"]["latency_ms"]["write"]["max"] == 1000.0


def test_an_empty_run_has_nothing_to_measure() -> None:
    v = Retries().check(Evidence(History({}, ()), {}, {}))
    json.dumps(v.to_json(), allow_nan=False)
    assert v.valid is True
    assert v.stats["success"]["rate"] is None and v.stats["faults"]["outside"]["per_second"] is None


def test_rows_that_are_not_known_are_said() -> None:
    d = Drawing()
    d.run("update-counter", {"ids": [1]}, "w", 1, 2)
    d.abort("update-register", {"ids": [1]}, "loser", 1, 3, VALIDATION)
    e = d.evidence()
    log = e.logs["t"]
    blind = TableLog(
        *(
            tuple(_blind(c) for c in v) if k == "commits" else v
            for k, v in ((k, getattr(log, k)) for k in log.__dataclass_fields__)
        )
    )
    v = Retries().check(Evidence(e.history, {"t": blind}, e.tables))
    assert v.stats["spurious"]["judged"] == 0 and pairs(v)[0][3] == "time"
    assert "guessed by time" in v.notes[0]


def _blind(c: Commit) -> Commit:
    return Commit(**{k: None if k in ("added", "removed") else getattr(c, k) for k in Commit.__struct_fields__})


# --- whole runs -------------------------------------------------------------------------------------------------------


def test_simulated_runs_are_measured_the_same_twice() -> None:
    tables = [TableSpec(name="a", mode="merge-on-read"), TableSpec(name="b", isolation="snapshot", partitioned=False)]
    judged = 0
    for seed in range(15):
        e = simulate(seed, tables).evidence()
        first, second = Retries().check(e), Retries().check(simulate(seed, tables).evidence())
        assert first.to_json() == second.to_json()
        assert first.valid is True
        s = first.stats
        assert s["metrics"]["retried"] == measure(e)["retried"] == s["success"]["committed"]
        assert s["metrics"]["aborted"] == s["success"]["aborted"] == sum(s["conflicts"]["aborted"].values())
        assert s["spurious"]["judged"] <= s["spurious"]["aborted"]
        judged += s["spurious"]["judged"]
    assert judged > 20


def test_an_operation_means_the_same_until_rows_change_that_it_reads_or_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mix = {f: 1 for f, kind in KINDS.items() if kind.by_facts and kind.writes and f in {**MIX, **UPSERTING}} | {
        "read": 1
    }
    tables = [TableSpec(name="a", mode="merge-on-read", partitions=2), TableSpec(name="b", partitioned=False)]
    never = 0
    for seed in range(25):
        e = simulate(seed, tables, mix=mix, keys=6).evidence()
        told = Retries().check(e).stats
        for concerned in (True, False):
            with monkeypatch.context() as m:
                m.setattr(conflicts, "_concerned", lambda asked, changes, to=concerned: to)
                found = Retries().check(replace(e)).stats
            if concerned:
                assert (found["conflicts"], found["spurious"]) == (told["conflicts"], told["spurious"])
            else:
                never += found["spurious"] != told["spurious"]
    assert never > 5


def test_the_simulator_aborts_nobody_for_nothing_but_for_compaction() -> None:
    mix = {f: w for f, w in MIX.items() if not f.startswith("rewrite")}
    judged = 0
    for seed in range(15):
        s = (
            Retries()
            .check(simulate(seed, [TableSpec(name="a", mode="merge-on-read")], mix=mix).evidence())
            .stats["spurious"]
        )
        judged += s["judged"]
        assert s["spurious"] == 0
    assert judged > 20


def test_recorded_runs_are_measured(recorded_run: Path) -> None:
    v = Retries().check(load_evidence(recorded_run))
    json.dumps(v.to_json(), allow_nan=False)
    assert v.valid is True
