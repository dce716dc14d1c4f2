"""How a command ends when the user stops it: the exit code of the signal, and a last line that says how to go on."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from checkers.evidence.runfolder import RunFolder
from checkers.judge.proof import Proof
from checkers.judge.runfolder import State
from compose import setup
from compose.install.delta import DELTA_RELEASES
from compose.install.installation import Installation
from harness.cli import check, stopping
from harness.cli.experiments import ProveOptions
from harness.cli.frame import framed
from harness.cli.options import command
from harness.cli.stopping import Stopped
from harness.experiments import prove
from harness.experiments.compare import Compare
from harness.experiments.matrix import Matrix
from reports import proofs
from tests.support.runs import ROOT, environment, inside
from workloads.engines.delta_rs import RELEASE_PROPERTY
from workloads.file import scenario
from workloads.file.scenario import Scenario

NOWHERE = Path("/nowhere")
IN_PLACE = Installation(NOWHERE, NOWHERE, {}, NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE)
ENOUGH = 60.0
"""Seconds after which a test gives up on what never comes."""

# A command that says where it is; it ends in order only when its standard input does.
COMMAND = """
import sys
from harness.cli import app, stopping

@app.app.command("wait")
def wait() -> int:
    stopping.current().way_on = lambda: "go on with: icequake wait"
    try:
        print("begun", flush=True)
        stopping.signal.pause()
    finally:
        print("ending", flush=True)
        sys.stdin.read()
    return 0

sys.argv = ["icequake", "wait"]
app.main()
"""


# Both commands cannot do what is asked; the signal comes while they say so.
WHILE_IT_IS_SAID = """
import sys
from harness.cli import app, stopping

app.explain = lambda *_: stopping.signal.raise_signal(stopping.signal.SIGTERM)
sys.argv = ["icequake", *sys.argv[1:]]
app.main()
"""


@pytest.mark.parametrize("words", [["check", "/nowhere/store"], ["trend", "--store", "/nowhere/store"]])
def test_a_signal_while_an_error_is_said_ends_in_one_line(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHILE_IT_IS_SAID, *words], text=True, capture_output=True, env=environment(), cwd=ROOT
    )
    assert done.returncode == 143
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == "icequake: stopped by SIGTERM; run the same command again"


def begun(words: list[str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=ROOT,
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize(("number", "code", "name"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")])
def test_a_signal_ends_a_command_in_order_with_its_code_and_the_way_on(
    number: signal.Signals, code: int, name: str
) -> None:
    process = begun([sys.executable, "-c", COMMAND])
    process.send_signal(number)
    out, err = process.communicate("", timeout=ENOUGH)
    assert process.returncode == code and out == "ending\n"
    assert err.splitlines() == [
        f"icequake: {name}: stopping; a second one ends at once",
        f"icequake: stopped by {name}; go on with: icequake wait",
    ]


def test_the_second_signal_ends_at_once() -> None:
    process = begun([sys.executable, "-c", COMMAND])
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None and process.stdout.readline() == "ending\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(ENOUGH) == 130  # while its standard input is open
    assert process.stderr is not None
    said = process.stderr.read()
    assert said.splitlines()[-1] == "icequake: stopped by Ctrl-C at once; go on with: icequake wait"
    process.communicate()


def test_an_interrupt_that_the_caller_ignores_stays_ignored() -> None:
    process = begun(["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", COMMAND])
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate("", timeout=ENOUGH)
    assert process.returncode == 143 and "Ctrl-C" not in err


def a_run(recorded_run: Path, into: Path, state: str) -> RunFolder:
    folder = RunFolder(Path(shutil.copytree(recorded_run, into)))
    folder.results.unlink(missing_ok=True)
    folder.write_state({**folder.state(), "state": state})
    return folder


def test_a_run_that_is_stopped_gives_its_verdict_so_far_and_the_command_that_judges_it(
    recorded_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_run(recorded_run, tmp_path / "a run", "interrupted")
    with pytest.raises(stopping.Stopped) as stopped, check.verdict_if_stopped(folder):
        raise KeyboardInterrupt
    assert (
        stopped.value.line == f"what it recorded is judged above; to see that again: {command()} check '{folder.path}'"
    )
    assert folder.results.exists() and "Incomplete" in capsys.readouterr().out


def test_a_run_that_is_stopped_while_it_is_judged_is_not_judged_again(recorded_run: Path, tmp_path: Path) -> None:
    folder = a_run(recorded_run, tmp_path / "run", "complete")
    with (
        pytest.raises(stopping.Stopped, match=r"^judge the run with: .*icequake check"),
        check.verdict_if_stopped(folder),
    ):
        raise KeyboardInterrupt
    assert not folder.results.exists()


def test_a_run_that_is_stopped_before_its_first_operation_has_nothing_to_judge(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.history.write_text('{"format": 1}\n')
    with pytest.raises(stopping.Stopped, match="before the first operation"), check.verdict_if_stopped(folder):
        raise KeyboardInterrupt


def test_check_says_that_a_run_ended_before_its_first_operation(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("tables: [{name: t}]\n")
    done = inside("check", tmp_path, cwd=tmp_path)
    assert done.returncode == 254 and done.stderr == (
        f"icequake: {tmp_path}: the run has no history.jsonl, as one that ended before its first operation: "
        "there is nothing to judge\n"
    )


@pytest.mark.parametrize("command", ["check", "report"])
def test_a_history_that_was_removed_is_missed(command: str, recorded_run: Path, tmp_path: Path) -> None:
    folder = a_run(recorded_run, tmp_path / "run", "complete")
    folder.write_state({**folder.state(), "operations": 45})
    assert inside(command, folder.path, cwd=tmp_path).returncode in (0, 1, 2)
    folder.history.unlink()
    done = inside(command, folder.path, cwd=tmp_path)
    assert done.returncode == 254 and done.stdout == ""
    assert done.stderr.startswith(f"icequake: {folder.history}: missing, but run.json counts 45 operations: ")


def test_another_error_of_a_run_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), check.verdict_if_stopped(RunFolder(tmp_path)):
        raise ZeroDivisionError


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiments below end before they need anything that is installed."""
    monkeypatch.setattr(setup, "ensure_release", lambda release: None)
    monkeypatch.setenv("ICEQUAKE_COMMAND", "icequake")


@pytest.mark.usefixtures("installed")
def test_a_stopped_prove_shows_what_is_done_and_names_the_scenarios_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, finished: Callable[[Proof], object], **__: object) -> NoReturn:
        finished(Proof("undelete", "reproduced"))
        raise KeyboardInterrupt

    monkeypatch.setattr(prove, "prove", stopped)
    own = tmp_path / "my own.yaml"
    shutil.copy(scenario.LIBRARY / "rest-503-alone.yaml", own)
    done = inside("prove", "undelete", "rest-503-lost-commit", own.name, "--store", "runs", cwd=tmp_path)
    assert done.returncode == 130
    assert done.stdout.splitlines()[1].startswith("undelete") and len(done.stdout.splitlines()) == 2
    assert done.stderr.splitlines()[-1] == (
        f"icequake: stopped by Ctrl-C; 1 of 3 scenarios are done, their runs are in {tmp_path}/runs; run the others with: "
        f"icequake prove rest-503-lost-commit '{own}' --store {tmp_path}/runs"
    )


@pytest.mark.usefixtures("installed")
def test_a_prove_of_several_releases_ends_with_a_table_of_them_and_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[list[State]] = [["not reproduced", "not reproduced"], ["not run", "not run"], ["fixed", "reproduced"]]

    def proven(*_: object, **__: object) -> tuple[list[Proof], dict[str, str]]:
        return [Proof("undelete", s) for s in states.pop()], {"spark": "4.0.5"}

    monkeypatch.setattr(prove, "prove", proven)
    releases = ["--iceberg", "1.10.1,1.8.1,1.12.0"]
    done = inside("prove", "undelete", *releases, "--times", "2", "--json", "all.json", "--quiet", cwd=tmp_path)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "undelete 1.10.1 found 1 of 2" in lines
    assert "undelete 1.8.1 could not run" in lines
    assert "undelete 1.12.0 found 0 of 2" in lines
    assert lines[-3] == "undelete occurs in 1.10.1, not in 1.12.0; could not be run in 1.8.1."
    assert lines[-1] == "2 runs of each: so few can miss it; more with --times 20."
    told = json.loads((tmp_path / "all.json").read_text())
    assert [p["release"] for p in told["proofs"]] == ["1.10.1"] * 2 + ["1.8.1"] * 2 + ["1.12.0"] * 2
    assert done.returncode == 1


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "state", "exports"),
    [
        ("undelete", "reproduced", True),
        ("undelete", "fixed", False),
        ("undelete", "not run", False),
        ("undelete-serializable", "reproduced", False),
    ],
)
def test_the_line_that_exports_is_of_a_run_that_showed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, state: State, exports: bool
) -> None:
    monkeypatch.setattr(prove, "prove", lambda *_, **__: ([Proof(name, state, folder="runs/x")], {"spark": "4.0.5"}))
    done = inside("prove", name, cwd=tmp_path)
    assert "runs/x/report.html" in done.stdout and (" export " in done.stdout) == exports


@pytest.mark.usefixtures("installed")
def test_a_stopped_prove_of_several_releases_names_those_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(prove, "prove", stopped)
    done = inside("prove", "undelete", "--iceberg", "1.9.2,1.10.1", cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].endswith(
        "run the others with: icequake prove undelete --iceberg 1.9.2; then the other releases with: "
        "icequake prove undelete --iceberg 1.10.1"
    )
    # In a folder of proofs the same command goes on: with other releases the folders would be others.
    done = inside("prove", "undelete", "--iceberg", "1.9.2,1.10.1", "--into", "all", cwd=tmp_path)
    assert done.stderr.splitlines()[-1].endswith(
        f"then the other releases with: icequake prove undelete --iceberg 1.9.2,1.10.1 --into {tmp_path}/all"
    )


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("option", "releases", "title", "names"),
    [
        ("--delta", ("4.4.0", "4.3.1"), "Delta Lake", "delta-lost-commit"),
        ("--deltalake", ("1.6.6", "1.6.3"), "deltalake", "delta-rs-lost-reply"),
    ],
)
def test_a_prove_of_several_releases_of_deltas_software_is_one_of_icebergs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, releases: tuple[str, str], title: str, names: str
) -> None:
    """It ends with the same table, sentence and JSON, and each release is that of the writers."""
    ran: list[tuple[str | None, str | None]] = []

    def proven(scenarios: Sequence[Scenario], installation: Installation, *_: object, **__: object) -> object:
        (s,) = scenarios
        ran.append((installation.delta, s.catalog_properties.get(RELEASE_PROPERTY)))
        return [Proof(s.scenario, "reproduced" if len(ran) == 1 else "not reproduced")], {"spark": "4.1.4"}

    monkeypatch.setattr(setup, "ensure_release", lambda release: IN_PLACE)
    monkeypatch.setattr(prove, "prove", proven)
    done = inside("prove", names, option, ",".join(releases), "--json", "all.json", "--quiet", cwd=tmp_path)
    assert ran == (
        [(DELTA_RELEASES[r], None) for r in releases] if option == "--delta" else [(None, r) for r in releases]
    )
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert [x for x in lines if x.startswith(title)] == [f"{title} {r}:" for r in releases]
    assert f"{names} {releases[0]} found 1 of 1" in lines and f"{names} {releases[1]} found 0 of 1" in lines
    assert lines[-3] == f"{names} occurs in {releases[0]}, not in {releases[1]}."
    assert lines[-1] == "1 run of each: so few can miss it; more with --times 20."
    told = json.loads((tmp_path / "all.json").read_text())
    assert [p["release"] for p in told["proofs"]] == [*releases]
    assert [told["versions"][r][option.removeprefix("--")] for r in releases] == [*releases]


@pytest.mark.parametrize(
    ("options", "has", "without"),
    [
        (
            {"deltalake": "1.6.6,1.6.3"},
            {"delta-rs-compactions"},
            {"undelete", "delta-rs-compactions-refused", "delta-lost-commit"},
        ),
        ({"delta": "4.4.0,4.3.1"}, {"delta-lost-commit", "delta-rs-overwritten"}, {"undelete", "delta-rs-compactions"}),
        ({"iceberg": "1.12.0,1.11.0"}, {"undelete", "delta-lost-commit"}, set()),
        ({"delta": "4.3.1"}, {"undelete", "delta-rs-compactions"}, set()),
    ],
)
def test_without_names_several_releases_are_of_the_scenarios_that_run_on_them(
    options: dict[str, str], has: set[str], without: set[str]
) -> None:
    for one in ProveOptions(**options)._each:
        names = {s.scenario for s in one._scenarios}
        assert has <= names and not without & names


@pytest.mark.usefixtures("installed")
def test_a_stopped_prove_of_several_releases_of_delta_names_the_scenarios_and_the_releases_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(setup, "ensure_release", lambda release: IN_PLACE)
    monkeypatch.setattr(prove, "prove", stopped)
    done = inside("prove", "--deltalake", "1.6.6,1.6.3", cwd=tmp_path)
    runs_on = "delta-rs-compactions delta-rs-lost-reply delta-rs-overwritten"
    assert done.stderr.splitlines()[-1].endswith(
        f"run the others with: icequake prove {runs_on} --deltalake 1.6.6; then the other releases with: "
        f"icequake prove {runs_on} --deltalake 1.6.3"
    )


def proof(name: str, state: State, *found: str) -> Proof:
    return Proof(name, state, found=dict.fromkeys(found, "It was seen."))


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ({"1.10.1": "reproduced", "1.9.2": "back", "1.12.0": "fixed"}, "occurs in 1.9.2 and 1.10.1, not in 1.12.0."),
        ({"1.12.0": "reproduced", "1.9.2": "fixed", "1.10.1": "back"}, "occurs in 1.10.1 and 1.12.0, not in 1.9.2."),
        ({"1.8.1": "later", "1.9.2": "later"}, "does not occur in 1.8.1 or 1.9.2."),
        ({"1.8.1": "reproduced", "1.9.2": "not run"}, "occurs in 1.8.1; could not be run in 1.9.2."),
        ({"1.9.2": "not run", "1.8.1": "not run"}, "could not be run in 1.8.1 or 1.9.2."),
    ],
)
def test_the_sentence_lists_the_releases_that_were_run(states: dict[str, State], says: str) -> None:
    (undelete,) = scenario.find(["undelete"])
    proven = {release: [proof("undelete", state)] for release, state in states.items()}
    assert proofs.occurs(undelete, proven) == f"undelete {says}"


def test_a_scenario_without_anomalies_holds_and_does_not_occur() -> None:
    (promise,) = scenario.find(["undelete-serializable"])
    states: dict[str, list[State]] = {
        "1.8.1": ["not reproduced"],
        "1.9.2": ["reproduced", "not reproduced"],
        "1.10.1": ["reproduced", "not run"],
        "1.12.0": ["back"],
    }
    proven = {release: [proof(promise.scenario, s) for s in each] for release, each in states.items()}
    assert proofs.occurs(promise, proven) == "undelete-serializable holds in 1.10.1 and 1.12.0, not in 1.8.1 or 1.9.2."
    assert [row.cells[2] for row in proofs.releases([promise], proven).rows] == [
        "kept 0 of 1",
        "kept 1 of 2",
        "kept 1 of 1",
        "kept 1 of 1",
    ]
    broken = {"1.8.1": proven["1.8.1"]}
    assert proofs.occurs(promise, broken) == "undelete-serializable does not hold in 1.8.1."


def test_a_scenario_occurs_if_its_anomaly_was_found_whatever_else_was() -> None:
    (undelete,) = scenario.find(["undelete"])
    proven = {
        "1.8.1": [proof("undelete", "later", "undelete", "lost-commit")],
        "1.9.2": [proof("undelete", "not reproduced", "undelete", proofs.MISSING)],
        "1.10.1": [proof("undelete", "reproduced", "undelete")],
        "1.11.0": [proof("undelete", "not reproduced", "lost-commit", proofs.MISSING)],
    }
    says = "undelete occurs in 1.8.1 (and something else), 1.9.2 and 1.10.1, not in 1.11.0."
    assert proofs.occurs(undelete, proven) == says
    assert [row.cells[2] for row in proofs.releases([undelete], proven).rows] == [
        "found 1 of 1, and something else",
        "found 1 of 1",
        "found 1 of 1",
        "found 0 of 1",
    ]


def test_releases_have_folders_of_their_own_also_if_their_jars_have_one_name(tmp_path: Path) -> None:
    def folders(*iceberg: str) -> list[Path | None]:
        return [one.into for one in ProveOptions(iceberg=",".join(iceberg), into=tmp_path)._each]

    assert folders("1.9.2", "a/x.jar") == [tmp_path / "1.9.2", tmp_path / "x.jar"]
    assert folders("a/x.jar", "1.9.2", "b/x.jar") == [tmp_path / n for n in ("1-x.jar", "2-1.9.2", "3-x.jar")]
    assert folders("1.9.2") == [tmp_path]


def test_a_command_that_is_stopped_says_what_is_done_and_how_to_go_on(tmp_path: Path) -> None:
    def stopped(so_far: Callable[[], str] | None) -> str:
        with pytest.raises(Stopped) as e, framed(tmp_path, "continue with: it", quiet=True) as frame:
            frame.so_far = so_far
            raise KeyboardInterrupt
        return e.value.line

    assert stopped(None) == "continue with: it"
    assert stopped(lambda: "2 of 3 runs are made") == "2 of 3 runs are made; continue with: it"


@pytest.mark.usefixtures("installed")
def test_a_stopped_matrix_names_the_command_that_continues_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(Matrix, "measure", stopped)
    done = inside("matrix", "--only", "delete", "--limit", "5", "--into", "m", cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == (
        "icequake: stopped by Ctrl-C; 0 of 5 cells are measured; the same command continues: "
        f"icequake matrix --only delete --limit 5 --into {tmp_path}/m --catalog rest"
    )
    done = inside("matrix", "--engine", "duckdb,spark", "--limit", "5", cwd=tmp_path)
    assert done.stderr.splitlines()[-1].endswith(
        f"icequake matrix --engine spark,duckdb --limit 5 --into {tmp_path}/store/engine-matrix --catalog rest"
    )


@pytest.mark.usefixtures("installed")
def test_a_stopped_comparison_names_the_command_that_continues_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(Compare, "measure", stopped)
    words = ("compare", "quick", "--catalog", "rest,jdbc", "--seed", "7", "--into", tmp_path / "c")
    done = inside(*words, cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].startswith(
        "icequake: stopped by Ctrl-C; 0 of 2 runs are measured; continue with: icequake compare quick --catalog rest,jdbc"
    )


@pytest.mark.parametrize(
    ("state", "cut", "after"),
    [
        ({"state": "complete"}, False, {"state": "complete"}),
        ({"state": "interrupted"}, True, {"state": "interrupted"}),
        ({"state": "failed", "error": "RunError: undelete was stopped"}, True, {"state": "interrupted"}),
    ],
)
def test_a_scenario_that_is_cut_short_is_an_interrupted_run_and_one_that_ended_counts(
    state: dict[str, str], cut: bool, after: dict[str, str], tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    folder.write_state(state)
    assert prove._cut_short(folder) is cut
    assert folder.state() == after
