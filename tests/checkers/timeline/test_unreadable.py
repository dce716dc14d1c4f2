"""When is a table unreadable for certain: only then a run says so, ends its load, or tells a story of it."""

from __future__ import annotations

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import ErrorChain
from checkers.evidence.replace import replace
from checkers.selftest import recorded
from checkers.timeline.unreadable import NOT_THERE, Watch, missing_file, unreadable
from tests.support.unreadable import NOT_FOUND, Broken, broken

FILE = "s3://warehouse/iq/accounts/metadata/snap-7-1-x.avro"
GONE: ErrorChain = [["org.apache.spark.SparkException", "Job aborted"], [NOT_FOUND, f"Location does not exist: {FILE}"]]


@pytest.mark.parametrize(
    ("error", "file"),
    [
        (GONE, FILE),
        (
            [
                [
                    "org.apache.spark.SparkException",
                    f"Lost task 0.0: {NOT_FOUND}: Location does not exist: {FILE}\n\tat a.b",
                ]
            ],
            FILE,
        ),
        (
            [[NOT_FOUND, "Failed to open input stream for file: /tmp/warehouse/t/data/a.parquet"]],
            "/tmp/warehouse/t/data/a.parquet",
        ),
        (
            [["java.io.FileNotFoundException", "No such file or directory: s3a://b/t/metadata/v2.metadata.json"]],
            "s3a://b/t/metadata/v2.metadata.json",
        ),
        (
            [["java.io.FileNotFoundException", "File file:/w/t/data/a.parquet does not exist"]],
            "file:/w/t/data/a.parquet",
        ),
        ([[NOT_FOUND, "Table does not exist"]], None),
        ([["org.apache.iceberg.exceptions.ValidationException", f"Cannot find {FILE}"]], None),
        ([["software.amazon.awssdk.services.glue.model.EntityNotFoundException", FILE]], None),
        ([[NOT_FOUND]], None),
        ([["software.amazon.awssdk.services.s3.model.NoSuchKeyException", "(Service: S3, Status Code: 404)"]], ""),
        (
            [
                ["software.amazon.awssdk.services.s3.model.NoSuchKeyException", "404"],
                [NOT_FOUND, f"Location does not exist: {FILE}"],
            ],
            FILE,
        ),
        ([[]], None),
        (None, None),
    ],
)
def test_a_missing_file_is_named_by_the_class_that_says_so(error: ErrorChain | None, file: str | None) -> None:
    assert missing_file(error) == file


# --- while the run goes on --------------------------------------------------------------------------------------------


def test_two_writers_must_fail_after_the_first_failure() -> None:
    watch = Watch(3)
    assert not watch.completed("t", "w0-1", 5, 10, "info", GONE, reads=True)
    assert not watch.completed("t", "w1-1", 8, 11, "fail", GONE, reads=True), "it began before the first failure"
    assert not watch.completed("t", "w1-2", 12, 13, "fail", GONE, reads=True)
    assert not watch.completed("t", "w1-3", 14, 15, "fail", GONE, reads=True), (
        "one writer may have an old snapshot in its cache"
    )
    assert watch.completed("t", "w2-1", 12, 16, "fail", GONE, reads=True)
    assert watch.suspicion("t") == (10, (FILE,), "w0-1")


def test_any_success_takes_the_suspicion_back() -> None:
    watch = Watch(2)
    watch.completed("t", "w0-1", 1, 2, "fail", GONE, reads=True)
    watch.completed("t", "w0-2", 3, 4, "fail", GONE, reads=True)
    watch.completed("t", "w1-1", 1, 5, "ok", None, reads=True)
    assert watch.suspicion("t") is None
    assert not watch.completed("t", "w1-2", 6, 7, "fail", GONE, reads=True)


def test_other_errors_and_other_tables_say_nothing() -> None:
    watch = Watch(1)
    for n in range(9):
        assert not watch.completed(
            "t", f"w0-{n}", n, n, "fail", [["java.lang.IllegalStateException", FILE]], reads=True
        )
    assert not watch.completed("u", "w0-9", 10, 11, "fail", GONE, reads=True)
    assert not watch.witnessed("t") and watch.suspicion("t") is None


def test_the_only_writer_is_enough() -> None:
    watch = Watch(1)
    assert not watch.completed("t", "w0-1", 1, 2, "fail", GONE, reads=True)
    assert watch.completed("t", "w0-2", 3, 4, "fail", GONE, reads=True)


# --- afterwards -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", recorded.names())
def test_no_table_of_a_good_run_is_unreadable(name: str) -> None:
    assert unreadable(recorded.load(name)) == ()


def test_a_table_that_lost_a_file_of_its_last_snapshot_is_unreadable_from_the_first_failure_on() -> None:
    b = broken()
    (u,) = unreadable(b.evidence)
    failed = [
        o for o in b.evidence.history.operations() if missing_file(o.error) is not None and o.completed is not None
    ]
    first = min(failed, key=lambda o: o.completed.index if o.completed is not None else 0)
    assert first.completed is not None
    assert (u.table, u.file, u.op, u.since) == (b.table, b.file, first.op, first.completed.time)
    later = [o for o in b.evidence.history.operations() if o.table == b.table and o.start >= u.since]
    assert u.later == len(later) > 0 and not any(o.type == "ok" for o in later)


def test_an_error_that_names_no_file_is_completed_from_the_table_log() -> None:
    b = broken(named=False)
    (u,) = unreadable(b.evidence)
    assert (u.table, u.file) == (b.table, b.commit.manifest_list)
    logs = {**b.evidence.logs, b.table: replace(b.evidence.logs[b.table], missing_files=())}
    assert unreadable(replace(b.evidence, logs=logs)) == ()


def test_a_table_that_somebody_still_uses_is_not() -> None:
    final = [
        o for o in recorded.load("quick-240").history.operations() if o.invoked.extra.get("phase") == "final-reads"
    ]
    assert unreadable(broken(fails=lambda o: o.op != final[-1].op and o.op not in {x.op for x in final}).evidence) == ()


def test_a_complete_log_that_has_the_file_overrules_the_errors() -> None:
    b = broken()
    logs = {**b.evidence.logs, b.table: replace(b.evidence.logs[b.table], missing_files=())}
    assert unreadable(replace(b.evidence, logs=logs)) == ()


def test_a_file_that_only_an_old_snapshot_needs_makes_nothing_unreadable() -> None:
    b = broken()
    log = b.evidence.logs[b.table]
    old = tuple(replace(f, snapshots=(log.main()[0].snapshot_id,)) for f in log.missing_files)
    logs = {**b.evidence.logs, b.table: replace(log, missing_files=old)}
    assert unreadable(replace(b.evidence, logs=logs)) == ()


def test_without_a_complete_log_two_writers_must_say_it() -> None:
    def cut(b_fails: bool) -> tuple[str, ...]:
        b = broken(fails=lambda o: b_fails or o.op.startswith("w0-") or o.invoked.extra.get("phase") != "final-reads")
        log = replace(b.evidence.logs[b.table], complete=False, missing_files=())
        found = unreadable(replace(b.evidence, logs={**b.evidence.logs, b.table: log}, complete=False))
        return tuple(u.table for u in found)

    assert cut(True) == (broken().table,)
    assert cut(False) == ()


NEED_NO_ROWS = (
    "insert",
    "set-property",
    "add-column",
    "create-tag",
    "rewrite-data-files",
    "expire-snapshots",
    "overwrite-partitions",
    "delete-partition",
    "equality-delete",
    "read-snapshot",
)


def _one_succeeds(b: Broken, kind: str) -> Evidence:
    """The run in which one of the later operations was of another kind, and succeeded."""
    succeeded = [o for o in b.evidence.history.operations() if o.error is not None and o.table == b.table][-2].op
    events = tuple(
        replace(e, f=kind, type=e.type if e.type == "invoke" else "ok", error=None) if e.op == succeeded else e
        for e in b.evidence.history.events
    )
    tables = {t: spec.model_copy(update={"partitioned": True}) for t, spec in b.evidence.tables.items()}
    return replace(b.evidence, history=replace(b.evidence.history, events=events), tables=tables)


@pytest.mark.parametrize("kind", NEED_NO_ROWS)
def test_what_needs_no_data_file_of_the_current_state_does_not_end_an_outage(kind: str) -> None:
    b = broken()
    (before,) = unreadable(b.evidence)
    (after,) = unreadable(_one_succeeds(b, kind))
    assert (after.since, after.op) == (before.since, before.op)
    assert after.later == before.later - 1, "one succeeded"


@pytest.mark.parametrize("kind", ["read", "read-key", "update-counter", "delete-where", "merge-upsert"])
def test_what_has_to_read_data_files_of_the_current_state_ends_an_outage(kind: str) -> None:
    b = broken()
    (before,) = unreadable(b.evidence)
    (after,) = unreadable(_one_succeeds(b, kind))
    assert after.since > before.since and after.op != before.op, "only what failed after it"


def test_a_first_error_that_names_another_file_does_not_hide_the_one_that_main_needs() -> None:
    """A client that believed in a failure deletes several files, and each reader names the one that it wanted, or none."""
    b = broken(named=False)
    (u,) = unreadable(b.evidence)
    log = b.evidence.logs[b.table]
    assert log.location
    other = ((NOT_THERE[0], f"Location does not exist: {log.location}/metadata/other-m2.avro"),)
    events = tuple(
        replace(e, error=other) if e.op == u.op and e.type != "invoke" else e for e in b.evidence.history.events
    )
    misled = replace(b.evidence, history=replace(b.evidence.history, events=events))
    (found,) = unreadable(misled)
    assert (found.table, found.since, found.op, found.file) == (u.table, u.since, u.op, b.commit.manifest_list)
