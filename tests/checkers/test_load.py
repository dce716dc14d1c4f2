"""The ``load`` checker: what happened too little, or not at all, is not valid. The histories are drawn by hand, one operation a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkers.evidence.error_chain import commonest, deciding_error
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import ErrorChain, Event, History
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import TableLog
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.judge.check import check
from checkers.judge.runfolder import load_evidence
from checkers.load import Load, LoadStats
from checkers.verdict import Verdict
from tests.support.judging import UNREDUCED
from tests.support.simulator import ALTERING, simulate
from workloads.tables import COLUMNS, TableSpec

S = 1_000_000_000
CODEC: ErrorChain = [
    ["org.apache.spark.SparkException", "Job aborted due to stage failure: Task 0 in stage 2.0 failed 4 times"],
    ["java.lang.IllegalArgumentException", "Unsupported compression codec: zstdd"],
]
CONFLICT: ErrorChain = [["org.apache.iceberg.exceptions.ValidationException", "Found conflicting files: [a]"]]
FILE = FileEntry("data/a.parquet", "data", 1, 100, {}, format="parquet", data_sequence_number=1)


def op(id: str, type: str = "ok", f: str = "insert", *, table: str = "t", phase: str = "main", **more: Any) -> Any:
    """An operation: ``error`` is that of its completion, ``value`` its arguments."""
    return id, type, f, table, phase, more.get("error"), more.get("value")


def commit(op: str, *, files: bool = True, attempt: int = 1) -> Commit:
    """A snapshot that an operation made; without ``files`` it changes nothing."""
    return Commit(
        hash(op) % 10**9,
        None,
        1,
        0,
        "append",
        op,
        attempt,
        0,
        (),
        (),
        summary={},
        manifest_list="m",
        schema_id=0,
        added_files=(FILE,) if files else (),
        removed_files=(),
    )


def judged(*ops: Any, commits: dict[str, list[Commit]] | None = None, complete: bool = True) -> Verdict:
    """The verdict on operations, a second each, one after the other; ``commits``: table → its snapshots."""
    events: list[Event] = []
    for n, (id, type, f, table, phase, error, value) in enumerate(ops):
        for at, kind in ((n, "invoke"), (n + 1, type)):
            mine = error if kind == type else None
            extra = {"phase": phase} if kind == "invoke" else {}
            events.append(Event(len(events), at * S, kind, n, f, table, value, id, mine, extra))  # type: ignore[arg-type]
    logs = {t: TableLog(t, f"c.n.{t}", "", COLUMNS, (), tuple(c), (), True) for t, c in (commits or {}).items()}
    tables = {t: TableSpec(name=t) for t in logs}
    return Load().check(Evidence(History({}, tuple(events)), logs, tables, complete))


def stats(v: Verdict) -> LoadStats:
    return v.stats_as(LoadStats)


# --- unknown ----------------------------------------------------------------------------------------------------------


def test_a_table_on_which_every_write_failed_is_unknown_and_the_reason_quotes_the_error() -> None:
    failed = [op(f"w0-{n}", "fail", error=CODEC) for n in range(13)]
    v = judged(*failed, op("w0-13", f="read", phase="final-reads"), commits={"t": []})
    assert v.valid == "unknown" and v.anomalies == ()
    assert v.notes[0] == (
        "t: none of 13 writes changed anything (13 failed), so nothing was tested there; the commonest error, 13 times: "
        "IllegalArgumentException: Unsupported compression codec: zstdd"
    )
    assert stats(v)["tables"] == {"t": {"operations": 13, "writes": 13, "committed": 0}}


def test_a_healthy_table_does_not_vouch_for_the_one_beside_it() -> None:
    ops = [op("w0-0"), op("w0-1", "fail", table="u", error=CODEC)]
    v = judged(*ops, commits={"t": [commit("w0-0")], "u": []})
    assert v.valid == "unknown" and v.notes[0].startswith("u: the only write changed nothing")


def test_the_commit_of_the_set_up_is_none_of_the_workloads() -> None:
    ops = [op("w0-0", phase="setup"), op("w0-1", "info", error=CODEC)]
    v = judged(*ops, commits={"t": [commit("w0-0")]})
    assert v.valid == "unknown" and "1 of unknown outcome" in v.notes[0]
    assert stats(v)["commits"] == 0


def test_a_commit_without_files_changed_nothing() -> None:
    """Iceberg commits an UPDATE that finds no row: on an empty table, all that a writer does."""
    ops = [op("w0-0", "fail", error=CODEC), op("w0-1", f="update-register")]
    v = judged(*ops, commits={"t": [commit("w0-1", files=False)]})
    assert v.valid == "unknown" and "1 failed, 1 acknowledged without a change" in v.notes[0]


def test_writes_that_found_nothing_to_change_are_told_and_not_unknown() -> None:
    v = judged(op("w0-0", f="update-register"), commits={"t": [commit("w0-0", files=False)]})
    assert v.valid is True
    assert v.notes[0] == (
        "t: the only write changed nothing (1 acknowledged without a change), so nothing was tested there"
    )


def test_a_change_of_metadata_does_not_vouch_for_the_rows() -> None:
    v = judged(op("w0-0", "fail", error=CODEC), op("w0-1", f="add-column"), commits={"t": []})
    assert v.valid == "unknown"


def test_a_workload_that_invoked_nothing_is_unknown() -> None:
    v = judged(op("w0-0", phase="setup"), op("w0-1", f="read", phase="final-reads"), commits={"t": [commit("w0-0")]})
    assert v.valid == "unknown" and v.notes[0] == "the workload invoked no operation, so nothing was tested"


def test_a_run_whose_only_flaw_is_its_load_is_unknown_as_a_whole() -> None:
    """Its only write fails; reads of the empty table agree with that, so no other checker has anything to say."""
    run = simulate(3, [TableSpec(name="a", seed_rows=0)], ops=30, mix={"read": 1}).evidence()
    alone = [e for e in run.history.events if e.f == "read"]
    assert check(replace(run, history=History(run.history.header, tuple(alone))), UNREDUCED).valid is True
    failed = [Event(0, 0, "invoke", 99, "insert", "a", {"ids": [1]}, "w9-0")]
    failed.append(Event(1, alone[-1].time, "fail", 99, "insert", "a", None, "w9-0", CODEC))
    events = tuple(replace(e, index=n) for n, e in enumerate([failed[0], *alone, failed[1]]))
    results = check(replace(run, history=History(run.history.header, events)), UNREDUCED)
    assert {v.checker: v.valid for v in results.verdicts if v.valid is not True} == {"load": "unknown"}
    assert results.valid == "unknown"


# --- legitimate runs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ops", "commits"),
    [
        ([op("w0-0", f="read"), op("w0-1", "fail", f="read", error=CODEC)], []),
        ([op("w0-0", f="rewrite-data-files"), op("w0-1", "fail", f="rewrite-manifests", error=CONFLICT)], []),
        ([op("w0-0", "fail", phase="nemesis", error=CODEC), op("w0-1", f="read")], []),
        ([op("w0-0", f="add-column"), op("w0-1", "fail", f="add-column", error=CONFLICT)], []),
        ([op("w0-0", "fail", error=CONFLICT)], [commit("w0-0")]),
        ([op("w0-0", "info", error=CODEC)], [commit("w0-0")]),
        ([op("w0-0"), *(op(f"w0-{n}", "fail", error=CONFLICT) for n in range(1, 9))], [commit("w0-0")]),
    ],
    ids=["read-only", "maintenance-only", "nemesis", "metadata-only", "false-failure", "late-commit", "one-success"],
)
def test_what_did_little_for_a_reason_stays_valid(ops: list[Any], commits: list[Commit]) -> None:
    assert judged(*ops, commits={"t": commits}).valid is True


def test_a_commit_that_cannot_be_read_is_a_commit() -> None:
    made = replace(commit("w0-0", files=False), added=None, removed=None)
    assert judged(op("w0-0"), commits={"t": [made]}).valid is True


def test_half_a_transfer_is_no_lack_of_load() -> None:
    ops = [op("w0-0", "info", f="transfer", value={"ids": [0], "into": "u", "amount": 1}, error=CODEC)]
    assert judged(*ops, commits={"t": [commit("w0-0")], "u": []}).valid is True
    neither = judged(*ops, commits={"t": [], "u": []})
    assert neither.valid == "unknown" and neither.notes[0].startswith("t, u: the only write changed nothing")


def test_a_table_without_a_log_goes_by_what_writers_were_told() -> None:
    events = [
        Event(n, n * S, t, 0, "insert", "t", None, "w0-0")  # type: ignore[arg-type]
        for n, t in enumerate(("invoke", "ok"))
    ]
    told = Evidence(History({}, tuple(events)), {}, {"t": TableSpec(name="t")})
    assert Load().check(told).valid is True


def test_a_history_without_tables_has_no_table_that_lacks_load() -> None:
    assert Load().check(Evidence(History({}, ()), {}, {})).valid is True


def test_recorded_and_simulated_runs_have_enough_load(recorded_run: Path) -> None:
    assert Load().check(load_evidence(recorded_run)).valid is True
    specs = [TableSpec(name="a", mode="merge-on-read"), TableSpec(name="b", format_version=3)]
    for seed in range(5):
        assert Load().check(simulate(seed, specs, ops=40, mix=ALTERING).evidence()).valid is True


# --- what is told -----------------------------------------------------------------------------------------------------


def test_kinds_of_which_none_succeeded_are_told_with_their_commonest_error() -> None:
    ops = [
        op("w0-0"),
        op("w0-1", "fail", f="delete", error=CODEC),
        op("w0-2", "fail", f="delete", error=CONFLICT),
        op("w0-3", "fail", f="delete", error=CODEC),
        op("w0-4", "fail", f="merge-upsert", error=CODEC),
        op("w0-5", f="merge-upsert"),
    ]
    v = judged(*ops, commits={"t": [commit("w0-0"), commit("w0-5", attempt=2)]})
    error = "IllegalArgumentException: Unsupported compression codec: zstdd"
    assert v.valid is True
    assert stats(v)["never_succeeded"] == {"delete": {"operations": 3, "error": error, "count": 2}}
    assert v.notes[0] == f"delete: none of 3 operations succeeded; the commonest error, 2 times: {error}"
    assert (stats(v)["commits"], stats(v)["retried"], stats(v)["aborted"]) == (2, 1, 1)
    assert not any("met a conflict" in n for n in v.notes)


def test_a_run_without_a_conflict_says_so() -> None:
    v = judged(op("w0-0"), commits={"t": [commit("w0-0")]})
    assert any(n.startswith("no commit met a conflict") for n in v.notes) and v.valid is True


def test_a_table_that_is_not_written_is_named() -> None:
    v = judged(op("w0-0"), op("w0-1", f="read", table="u"), commits={"t": [commit("w0-0")], "u": []})
    assert "the workload has no write operation on u" in v.notes


@pytest.mark.parametrize(
    ("operations", "beyond"),
    [
        (20, {"stuck-operation": 120.0, "overdue-operation": 180.0, "no-progress": 600.0}),
        (120, {"overdue-operation": 180.0, "no-progress": 600.0}),
        (600, {}),
    ],
)
def test_what_a_run_is_too_short_to_show_is_told(operations: int, beyond: dict[str, float]) -> None:
    v = judged(
        *(op(f"w0-{n}") for n in range(operations)), commits={"t": [commit(f"w0-{n}") for n in range(operations)]}
    )
    assert stats(v)["seconds"] == operations and stats(v)["out_of_reach"] == beyond
    assert any("no-progress (at least 600 s)" in n for n in v.notes) == bool(beyond)


# --- the cause of an error --------------------------------------------------------------------------------------------


def test_the_cause_of_an_aborted_job_is_the_exception_of_its_task() -> None:
    assert deciding_error(CODEC) == ("java.lang.IllegalArgumentException", "Unsupported compression codec: zstdd")
    assert deciding_error(CODEC[:1]) == (CODEC[0][0], CODEC[0][1]), "there is nothing else"


def test_of_equally_common_errors_the_first_by_name_is_the_commonest() -> None:
    assert commonest([CONFLICT, CODEC, None]) == ("(no error recorded)", 1)
    assert commonest([CONFLICT, CODEC, CODEC]) == ("IllegalArgumentException: Unsupported compression codec: zstdd", 2)
    assert commonest([]) == ("no error", 0)
