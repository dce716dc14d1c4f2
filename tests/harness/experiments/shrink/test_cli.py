"""``icequake shrink``: what it refuses, and what it says then. Nothing is started."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from checkers.evidence.journal import alone
from checkers.evidence.runfolder import RunFolder
from harness.cli import shrink
from harness.cli.options import BadArgument
from harness.cli.stopping import Stopped
from harness.experiments.shrink.log import ShrinkError
from harness.experiments.shrink.shown import SCENARIO
from harness.experiments.shrink.shrink import failed
from tests.harness.experiments.shrink.byrule import ByRule, needs_both
from tests.harness.experiments.shrink.failedrun import failed_run
from tests.support.runs import inside
from workloads.file import scenario
from workloads.file.yamlfile import HIDDEN


def broken_plan(run: Path) -> None:
    (run / "plan.yaml").write_text("a: [1\n")


def broken_history(run: Path) -> None:
    (run / "history.jsonl").write_text("{\n" + (run / "history.jsonl").read_text())


def without_proxies(run: Path) -> None:
    (run / "proxy.jsonl").unlink()


def without_history(run: Path) -> None:
    (run / "history.jsonl").unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (broken_plan, "plan.yaml:2: not YAML from here on"),
        (broken_history, "history.jsonl"),
        (without_proxies, "the run has no proxy log, so the order of its requests is not known"),
        (without_history, "history.jsonl: missing, but run.json counts 5 operations"),
    ],
)
def test_a_broken_run_is_refused_and_the_file_is_named(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    run = failed_run(tmp_path)
    spoil(run)
    done = inside("shrink", run, cwd=tmp_path)
    assert done.returncode == 254
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--anomaly", "undelet"], "--anomaly undelet: unknown anomaly 'undelet' (did you mean undelete?)"),
        (["--anomaly", "lost-commit"], "nothing to shrink, it did not find lost-commit; it found undelete"),
        (["--op", "w9-9"], "nothing to shrink, no anomaly that it found is about operation w9-9"),
        (["--budget", "10"], "--budget 10: "),
        (["--catalog", "reast"], "--catalog reast: unknown"),
        (["--catalog", "my.yaml"], "my.yaml"),
        (["--iceberg", "0.1"], "--iceberg: "),
        (["--tries", "0"], "must be at least 1"),
    ],
)
def test_a_bad_argument_is_refused(tmp_path: Path, options: list[str], said: str) -> None:
    done = inside("shrink", failed_run(tmp_path), *options, cwd=tmp_path)
    assert done.returncode == 254
    assert said in done.stderr


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    done = inside("shrink", tmp_path / "nowhere", cwd=tmp_path)
    assert (done.returncode, "no such run" in done.stderr) == (254, True)
    done = inside("shrink", tmp_path, cwd=tmp_path)
    assert (done.returncode, "not the folder of a run" in done.stderr) == (254, True)
    done = inside("shrink", cwd=tmp_path)
    assert (done.returncode, "there is no store" in done.stderr) == (254, True)


def test_a_valid_run_has_nothing_to_shrink(tmp_path: Path) -> None:
    """A run whose workload allows what it found is valid."""
    done = inside("shrink", failed_run(tmp_path, allow=["undelete"]), cwd=tmp_path)
    assert done.returncode == 254
    assert "nothing to shrink, no checker found an anomaly that may not be; it found undelete" in done.stderr


@pytest.mark.parametrize("recorded_run", ["quick-100"], indirect=True)
def test_the_answers_of_shrink_and_export_to_a_valid_run_do_not_lead_to_each_other(
    recorded_run: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(recorded_run, tmp_path / "run")
    assert inside("check", run, cwd=tmp_path).returncode == 0
    for typed in (["shrink", run], ["export", run, "--as", "script"]):
        done = inside(*typed, cwd=tmp_path)
        assert done.returncode == 254 and len(done.stderr.splitlines()) == 1, done.stderr
        assert "there is nothing to reproduce" in done.stderr, done.stderr
        assert "run the workload again, with another seed or for longer, or take a run that failed" in done.stderr
        assert "shrink /" not in done.stderr


def test_a_valid_run_that_shows_what_it_may_is_exported_by_way_of_that_anomaly(tmp_path: Path) -> None:
    run = failed_run(tmp_path, allow=["undelete"])
    assert inside("check", run, cwd=tmp_path).returncode == 0
    done = inside("export", run, "--as", "script", cwd=tmp_path)
    assert f"icequake shrink {run} --anomaly undelete" in done.stderr


def test_a_run_with_a_hidden_property_is_refused_and_the_variable_is_named(tmp_path: Path) -> None:
    run = failed_run(tmp_path, catalog_properties={"token": HIDDEN})
    done = inside("shrink", run, cwd=tmp_path)
    assert done.returncode == 254
    assert f"{run / 'plan.yaml'}: catalog_properties: token is a secret that was not stored" in done.stderr
    assert (
        "set the environment variable ICEQUAKE_CATALOG_TOKEN to" in done.stderr and len(done.stderr.splitlines()) == 1
    )


def test_the_folder_of_another_shrink_is_refused(tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    (into / "shrink.jsonl").write_text('{"format": 1, "run": "/another", "anomaly": "undelete"}\n')
    done = inside("shrink", failed_run(tmp_path), "--into", into, cwd=tmp_path)
    assert done.returncode == 254
    assert 'this folder has a shrink with another run ("/another" there, ' in done.stderr


def test_two_shrinks_do_not_write_into_one_folder(tmp_path: Path) -> None:
    into = tmp_path / "into"
    with alone(into, "a shrink", ShrinkError):
        done = inside("shrink", failed_run(tmp_path), "--into", into, cwd=tmp_path)
    assert done.returncode == 254
    who = f"process {os.getpid()} on {socket.gethostname()}"
    assert f"{into}: {who} writes a shrink here; stop it, or give another folder with --into" in done.stderr


def test_the_catalog_is_that_of_the_run_also_if_it_is_the_users_own(tmp_path: Path) -> None:
    own = tmp_path / "my.yaml"
    own.write_text("catalog: my\ntype: rest\nspark: {uri: 'http://localhost:1'}\n")
    run = failed(RunFolder(failed_run(tmp_path)), None)
    assert shrink.catalog_of(run, None) == "rest"
    assert shrink.catalog_of(run, "jdbc") == "jdbc"
    theirs = failed_run(tmp_path / "theirs", command=f"icequake run two.yaml --catalog={own}", catalog={"name": "my"})
    with pytest.raises(
        BadArgument, match=r"the catalog's file .*gone\.yaml is not there any more; give it with --catalog"
    ):
        shrink.catalog_of(
            failed(
                RunFolder(
                    failed_run(tmp_path / "g", command="icequake run x --catalog gone.yaml", catalog={"name": "my"})
                ),
                None,
            ),
            None,
        )
    with pytest.raises(BadArgument, match=r"catalog my is your own; give its file with --catalog my\.yaml"):
        shrink.catalog_of(failed(RunFolder(failed_run(tmp_path / "n", catalog={"name": "my"})), None), None)
    assert shrink.option_of(failed(RunFolder(theirs), None).folder.read_plan().command, "--catalog") == str(own)


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("icequake run w --catalog a.yaml", "a.yaml"),
        ("icequake run w --catalog=a.yaml --x", "a.yaml"),
        ("icequake run w --catalog", None),
        ("icequake run 'w", None),
        ("", None),
    ],
)
def test_an_option_is_read_from_a_command(command: str, value: str | None) -> None:
    assert shrink.option_of(command, "--catalog") == value


def test_the_release_is_that_of_the_run(tmp_path: Path) -> None:
    run = failed(RunFolder(failed_run(tmp_path)), None)
    assert shrink.recorded_release(run) == "1.12.0"
    built = failed_run(tmp_path / "own", versions={"iceberg": "1.13.0-SNAPSHOT", "iceberg-jar": "sha256:1"})
    with pytest.raises(BadArgument, match="the run had a runtime jar of your own"):
        shrink.recorded_release(failed(RunFolder(built), None))


def test_the_replay_of_the_smallest_takes_the_runs_workload_file(tmp_path: Path) -> None:
    run = RunFolder(failed_run(tmp_path))
    assert shrink.replay_command(run, Path("/r.json"), "rest", None).endswith(
        "run two.yaml --catalog rest --order 'replay /r.json'"
    )


def test_the_folder_of_a_shrink_has_the_operation_that_it_is_about_and_lies_in_the_store(tmp_path: Path) -> None:
    run = failed_run(tmp_path)
    history = (run / "history.jsonl").read_text()
    (run / "history.jsonl").write_text(history.replace("w0-1", "w0-1/../../x"))
    log = (run / "tablelog" / "t.jsonl").read_text()
    (run / "tablelog" / "t.jsonl").write_text(log.replace("w0-1", "w0-1/../../x"))
    store = tmp_path / "store"
    for op, ends in (("w1-0", "-w1-0"), ("w0-1/../../x", "-w0-1-..-..-x"), (None, run.name.lower())):
        into = shrink.ShrinkOptions(run=run, op=op, store=store)._into
        assert into.parent == store / "shrink" and into.name.endswith(ends)


def test_what_a_shrink_prints_has_the_release_of_the_run_and_the_store(tmp_path: Path) -> None:
    run = failed_run(tmp_path, versions={"iceberg": "1.11.0"})
    options = shrink.ShrinkOptions(run=run, into=tmp_path / "small", store=tmp_path / "own")
    for command in (options._proves, options._replays(tmp_path / "r.json")):
        assert "--iceberg 1.11.0" in command and f"--store {tmp_path / 'own'}" in command


def test_a_shrink_that_is_stopped_leaves_the_scenario_of_the_smallest_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, into = failed_run(tmp_path), tmp_path / "small"

    class Bench(ByRule, contextlib.AbstractContextManager["Bench"]):
        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(shrink.ShrinkOptions, "_runner", lambda *_: Bench(into, run, needs_both, stops=2))
    with pytest.raises(Stopped) as stopped:
        shrink.ShrinkOptions(run=run, into=into, store=tmp_path, quiet=True).execute()
    said = stopped.value.line
    assert "2 runs so far; the smallest has 2 operations, 2 writers, 1 table" in said
    assert f": {into / SCENARIO}; go on with: icequake shrink {run}" in said, said
    assert sorted(o.do for o in scenario.load(into / SCENARIO).operations) == ["delete", "update-register"]
    assert "its scenario was not run as a whole: the time ended first" in (into / "shrink.html").read_text()
