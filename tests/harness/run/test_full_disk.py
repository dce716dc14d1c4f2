"""A full disk: one line with the path and the remedy, exit code 255, and nothing lost that was written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from checkers.coverage import ledger
from checkers.coverage.coverage import Coverage
from checkers.evidence import history
from checkers.evidence.recorder import Recorder
from checkers.evidence.runfolder import FULL, RunFolder, StoreError, append, create
from harness.experiments.shrink.log import FILE, Trial, journal_of, trials
from harness.lake.errors import QueryError
from harness.lake.folders import keep
from harness.lake.lake import opened
from harness.lake.place import embedded
from harness.lake.views import failed
from harness.run import disk
from harness.run.errors import RunError
from nemesis.proxy.board import Board
from reports.serve.server import StoreServer
from tests.checkers.columns.test_dataset import SPECS
from tests.checkers.judge.test_check import stored
from tests.harness.run.test_stop_when import executed
from tests.support.files import disk_of, files_of_at_most, fill
from tests.support.lakes import copied
from tests.support.runs import environment, icequake, inside
from tests.support.simulator import simulate

MINIO = "Storage backend has reached its minimum free drive threshold. Please delete a few objects to proceed. (Service: S3, Status Code: 507)"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with disk_of("6m", tmp_path / "disk") as place:
        yield place


def run_on(place: Path) -> RunFolder:
    return RunFolder(
        stored(simulate(1, SPECS[:1], writers=2, ops=5), place / "store" / "simulated" / "20260101T000000.000Z")
    )


def test_results_that_do_not_fit_name_the_file_and_the_old_ones_stay(small: Path, tmp_path: Path) -> None:
    folder = run_on(small)
    assert inside("check", folder.path, cwd=tmp_path).returncode == 0
    before = folder.results.read_bytes()
    filling = fill(small)
    done = inside("check", folder.path, cwd=tmp_path)
    assert done.returncode == 255
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"icequake: {folder.path}/") and "the disk is full; free some space there, or give" in line
    assert "--store" in line and folder.results.read_bytes() == before
    assert not [p.name for p in folder.path.iterdir() if p.name.endswith(".new")]
    many = inside("check", small / "store", "--engine", "process", cwd=tmp_path)
    assert many.returncode == 2 and "not judged: " in many.stdout and "the disk is full; free some space" in many.stdout
    filling.unlink()
    assert inside("check", folder.path, cwd=tmp_path).returncode == 0


def test_a_file_that_the_user_named_is_whole_or_as_it_was(small: Path, tmp_path: Path) -> None:
    folder, out = run_on(small), small / "out.json"
    out.write_text("old")
    filling = fill(small)
    done = inside("export", folder.path, "-o", out, "--force", cwd=tmp_path)
    assert done.returncode == 255 and done.stderr.startswith(f"icequake: {out}: the disk is full")
    assert out.read_text() == "old" and len(done.stderr.splitlines()) == 1
    filling.unlink()
    assert (
        inside("export", folder.path, "-o", out, "--force", cwd=tmp_path).returncode == 0
        and len(out.read_text()) > 1000
    )
    assert inside("export", folder.path, "-o", "/dev/null", cwd=tmp_path).returncode == 0


def test_a_run_cannot_begin_on_a_full_disk(tmp_path: Path) -> None:
    with disk_of("4m,nr_inodes=30", tmp_path / "disk") as place, pytest.raises(OSError) as error:
        for _ in range(100):
            create(place / "store", "w")
    assert error.value.errno in FULL and str(tmp_path / "disk" / "store") in str(error.value.filename)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=f"cannot be made: {os.strerror(errno.ENOTDIR)}"):
        create(tmp_path / "file", "w")


def test_the_history_names_its_file_and_keeps_what_it_has(small: Path) -> None:
    path = small / "history.jsonl"
    fill(small, left=1 << 16)
    with Recorder(path, {}) as recorder:
        with pytest.raises(OSError) as error:
            while True:
                recorder.record("invoke", 0, "read", value="x" * 1000)
        assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(path))
    events = history.read(path).events
    assert len(events) > 10 and all(e.value == "x" * 1000 for e in events)


def test_a_proxy_log_that_does_not_fit_disturbs_no_request_and_is_told(small: Path) -> None:
    path = small / "proxy.jsonl"
    filling = fill(small, left=1 << 16)
    board = Board()
    board.begin(time.monotonic_ns, path)
    for n in range(2000):
        board.log({"n": n, "text": "x" * 100})
    board.finish()
    why = board.unwritten
    assert why is not None and (why.errno, why.filename) == (errno.ENOSPC, str(path))
    whole = [json.loads(line)["n"] for line in path.read_text().split("\n")[:-1]]
    assert whole == [*range(len(whole))] and len(whole) > 100
    filling.unlink()
    board.begin(time.monotonic_ns, small / "next.jsonl")
    board.log({"n": 0})
    board.finish()
    assert not board.unwritten and (small / "next.jsonl").read_text() == '{"n":0}\n'


def test_lines_are_appended_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with files_of_at_most(5), pytest.raises(OSError) as error:
        append(path, "too long\n")
    assert error.value.filename == str(path) and not path.exists()
    append(path, "a\n")
    with files_of_at_most(5), pytest.raises(OSError):
        append(path, "too long\n")
    assert path.read_text() == "a\n"


def test_a_coverage_and_a_shrink_go_on_when_there_is_room_again(tmp_path: Path) -> None:
    trial = Trial("key", "what", True, ("lost-commit",))
    with journal_of(tmp_path, {"run": "r"}) as log:
        with files_of_at_most(40), pytest.raises(OSError) as error:
            log.append(trial)
        assert error.value.filename == str(tmp_path / FILE)
        log.append(trial)
    assert [t.key for t in trials(tmp_path)] == ["key"]
    path, nothing = tmp_path / "coverage.jsonl", Coverage()
    with files_of_at_most(4), pytest.raises(OSError), ledger.Ledger(path):
        raise AssertionError("it was made")
    with ledger.Ledger(path) as book:
        book.append("w/1", nothing)
    assert [*ledger.read(path)] == ["w/1"]


def test_a_lake_without_room_keeps_what_it_has_and_takes_the_run_again(
    small: Path, recorded_run: Path, tmp_path: Path
) -> None:
    first = copied(recorded_run, tmp_path / "store", "20260101T000000.000Z")
    second = copied(recorded_run, tmp_path / "store", "20260102T000000.000Z")
    for folder in (first, second):
        assert inside("check", folder.path, cwd=tmp_path).returncode in (0, 1, 2)
    store = small / "store"
    keep(embedded(store), first)
    filling = fill(small, left=1 << 15)
    done = inside("lake", "add", second.path, "--store", store, "--quiet", cwd=tmp_path)
    assert done.returncode == 255, done.stderr
    assert "cannot be written: " in done.stderr and "free some space there, and add the runs again" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    filling.unlink()
    with opened(embedded(store)) as lake:
        assert [*lake.held()] == ["quick/20260101T000000.000Z"]
    assert inside("lake", "add", second.path, "--store", store, "--quiet", cwd=tmp_path).returncode == 0
    with opened(embedded(store)) as lake:
        assert len(lake.held()) == 2


def test_a_question_for_which_spark_has_no_disk_is_no_wrong_question() -> None:
    full = failed(RuntimeError("Job aborted: java.io.IOException: No space left on device"))
    assert isinstance(full, OSError) and disk.words(full).startswith(f"{disk.temporary()}: the disk is full")
    assert isinstance(failed(RuntimeError("[UNRESOLVED_COLUMN] nothing")), QueryError)


def test_a_store_on_a_full_disk_can_be_browsed(small: Path, tmp_path: Path) -> None:
    folder = run_on(small)
    assert inside("check", folder.path, cwd=tmp_path).returncode == 0
    fill(small)
    said: list[str] = []
    with StoreServer(small / "store", say=said.append) as server:
        thread = Thread(target=server.serve)
        thread.start()
        try:
            for path in ("", f"store/{folder.path.relative_to(small / 'store').as_posix()}/report.html"):
                with urllib.request.urlopen(server.url + path, timeout=60) as answer:
                    assert answer.status == 200 and b"simulated" in answer.read()
        finally:
            server.stop()
            thread.join()
    assert not said


@pytest.mark.parametrize(
    "text", [MINIO, "[SQLITE_FULL] database or disk is full", "could not extend file: No space left on device"]
)
def test_a_run_ends_when_an_operation_had_no_disk_and_keeps_its_history(tmp_path: Path, text: str) -> None:
    """What a table promises is not judged by operations that a full disk refused."""
    with pytest.raises(RunError) as error:
        executed(tmp_path, "", then=json.dumps([["java.lang.RuntimeException", "commit"], ["x.S3Exception", text]]))
    said = str(error.value)
    assert f"{disk.temporary()}: the disk is full; free some space there, or set TMPDIR" in said and text in said
    operations = history.read(tmp_path / "history.jsonl").operations()
    assert 4 <= len(operations) < 20 and operations[0].completed is not None


def test_a_disk_that_a_fault_fills_ends_no_run(tmp_path: Path) -> None:
    full = json.dumps([["org.apache.spark.SparkException", "java.io.IOException: No space left on device"]])
    fills = "nemesis: {faults: [{verb: fill, target: spark-worker}]}\n"
    operations, _, ended = executed(tmp_path, fills, then=full)
    assert ended is None and {o.type for o in operations} > {"ok"}


def test_a_fault_that_answers_507_is_no_full_disk() -> None:
    assert (
        disk.full_message([["S3Exception", "by the nemesis (Service: S3, Status Code: 507, Request ID: null)"]]) is None
    )
    assert disk.full_message(None) is None and disk.full_message([["a", "b"]]) is None


def test_the_remedy_is_that_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary, home = tmp_path / "tmp", tmp_path / "home"
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("ICEQUAKE_HOME", str(home))
    for path, remedy in (
        (temporary / "icequake-a" / "b", "TMPDIR"),
        (temporary / "s", "--store"),
        (home / "b", "ICEQUAKE_HOME"),
        (tmp_path / "store", "--store"),
    ):
        line = disk.words(OSError(errno.ENOSPC, "No space left on device", str(path)))
        assert line.startswith(f"{path}: the disk is full; free some space there, or ") and remedy in line
    assert "the quota" in disk.words(OSError(errno.EDQUOT, "", "x")) and "ulimit -f" in disk.words(
        OSError(errno.EFBIG, "", "x")
    )
    nowhere = disk.words(OSError(errno.ENOSPC, "No space left on device"))
    assert "--store" in nowhere and "TMPDIR" in nowhere


def test_without_any_folder_for_temporary_files_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    assert disk.temporary() is None
    assert "--store" in disk.words(OSError(errno.ENOSPC, "No space left on device", str(tmp_path)))


@pytest.mark.slow
def test_a_proof_whose_services_have_no_disk_says_so_below_its_table(tmp_path: Path) -> None:
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)  # a server of another user writes there
    with disk_of("6m", place / "disk") as small:
        fill(small, 64 << 10)  # with none at all, Python takes another folder
        done = icequake("prove", "undelete", "--store", tmp_path / "store", env={**environment(), "TMPDIR": str(small)})
    shutil.rmtree(place)
    assert done.returncode == 255 and "could not run here" in done.stdout and "report.html" not in done.stdout
    line = done.stderr.splitlines()[-1]
    assert line.startswith("icequake: the disk is full; free some space, or use other disks: --store for runs, TMPDIR")
