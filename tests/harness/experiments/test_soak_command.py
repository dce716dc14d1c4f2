"""What ``icequake soak`` refuses before it starts anything, what it shows of a suite, and what ``run`` takes of its commands."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from checkers.nights.happened import Happened
from checkers.nights.night import Night
from checkers.nights.record import AnomalyCount, NightRun
from harness.cli.app import app
from harness.cli.options import BadArgument
from harness.cli.soak import SoakOptions, _end, _so_far
from harness.run.resolve import read_workload
from nemesis.faults.packages import PACKAGES
from reports.soak import kinds, page
from tests.support.soaks import SUITE
from workloads.file import suite
from workloads.file.changes import ChangeError, Changes
from workloads.file.workload import LIBRARY, WorkloadError


def refused(tmp_path: Path, *arguments: str, text: str = SUITE) -> str:
    path = tmp_path / "tiny.yaml"
    path.write_text(text)
    done = CliRunner().invoke(app, ["soak", str(path), "--store", str(tmp_path / "store"), *arguments])
    assert isinstance(done.exception, BadArgument | WorkloadError), done.output
    assert not (tmp_path / "store").exists(), "nothing was started"
    return str(done.exception).replace(str(path), "tiny.yaml")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--for", "soon"), "--for soon: must be a length of time"),
        (("--for", "500ms"), "--for 500ms: it must be at least as long as one run, 1s (length in tiny)"),
        (("--keep", "20"), "--keep 20: must be an amount of storage such as 500MB or 20GB"),
        (("--keep-up",), "--keep-up: give --stop-on-anomaly, too"),
    ],
)
def test_what_is_wrong_with_an_option_is_said_at_once(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert refused(tmp_path, *arguments).startswith(says)


def test_a_suite_that_does_not_say_how_long_needs_an_option(tmp_path: Path) -> None:
    assert "say how long: --for 6h, --runs 100, or for: in the file" in refused(
        tmp_path, text=SUITE.replace("for: 1h\n", "")
    )


def test_what_is_wrong_with_the_file_is_said_with_its_line(tmp_path: Path) -> None:
    assert refused(tmp_path, text=SUITE.replace("[rest, jdbc]", "[rest, jbdc]")).startswith(
        "tiny.yaml:6: catalogs: unknown"
    )


def test_a_dry_run_shows_the_cells_and_starts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(SUITE.replace("[2]", "[2, {spark: 1, duckdb: 1}]"))
    done = CliRunner().invoke(app, ["soak", str(path), "--dry-run", "--store", str(tmp_path / "store")])
    assert done.exception is None and not (tmp_path / "store").exists()
    *rows, last = done.output.splitlines()
    assert rows[0].split() == [*suite.DIMENSIONS, "Spark", "writers"]
    assert "contention rest none 1.12.0 2 – – – 2" in [" ".join(r.split()) for r in rows]
    assert (
        last
        == "no lake: for `trend`, put this night into one afterwards by `icequake lake add`, or make one now by --lake yes"
    )
    assert any(r.startswith("left out: quick/jdbc/none/1.12.0/spark=1,duckdb=1: ") for r in rows)
    assert "combinations on 2 stacks, 1 s of load each: a round has " in rows[-1] and rows[-1].endswith(
        "1:00:00 in all"
    )


@pytest.mark.parametrize("option", [(), ("--lake", "no"), ("--lake", "yes")])
def test_a_night_says_nothing_of_a_lake_that_is_there_or_that_nobody_wants(
    tmp_path: Path, option: tuple[str, ...]
) -> None:
    (tmp_path / "tiny.yaml").write_text(SUITE)
    if not option:
        (tmp_path / "lake").mkdir()
        (tmp_path / "lake" / "catalog.sqlite").write_bytes(b"")
    typed = ["soak", str(tmp_path / "tiny.yaml"), "--dry-run", "--store", str(tmp_path), *option]
    assert "no lake" not in CliRunner().invoke(app, typed).output


def test_a_lake_that_was_moved_is_said_before_the_night_with_what_the_night_keeps_for_it(tmp_path: Path) -> None:
    CliRunner().invoke(app, ["lake", "init", "--store", str(tmp_path / "before")])
    (tmp_path / "before" / "lake").rename(tmp_path / "lake")
    night = tmp_path / "soak" / "night"
    said = SoakOptions(suite="tiny.yaml", store=tmp_path)._unusable_lake(night)
    assert said is not None and "where the lake was made; move it back, or remove it" in said
    assert said.endswith(f"once it works: icequake lake add {night} --store {tmp_path}")
    assert SoakOptions(suite="tiny.yaml", store=tmp_path, lake="no")._unusable_lake(night) is None
    assert SoakOptions(suite="tiny.yaml", store=tmp_path / "new", lake="yes")._unusable_lake(night) is None


@pytest.mark.parametrize(("runs", "said"), [(1, "1 run is done"), (2, "2 runs are done")])
def test_the_runs_of_a_night_are_counted_in_words(tmp_path: Path, runs: int, said: str) -> None:
    whole: Any = SimpleNamespace(stopped=True, into=tmp_path, night=SimpleNamespace(runs=[None] * runs))
    shown: Any = None
    assert _so_far(whole, shown) == said
    (tmp_path / "soak.html").touch()
    assert _so_far(whole, shown) == f"{said}; page: {tmp_path / 'soak.html'}"


def test_a_dry_run_needs_no_length_of_the_night_and_says_that_the_night_does(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(SUITE.replace("for: 1h\n", ""))
    typed = ["soak", str(tmp_path / "tiny.yaml"), "--dry-run", "--store", str(tmp_path)]
    done = CliRunner().invoke(app, typed)
    assert done.exit_code == 0 and "of load; say how long by --for or --runs" in done.output, done.output
    assert "of load; 3 runs" in CliRunner().invoke(app, [*typed, "--runs", "3"]).output


def test_the_suites_of_the_library_are_listed() -> None:
    done = CliRunner().invoke(app, ["list", "suites"])
    assert done.exception is None
    for path in suite.LIBRARY.glob("*.yaml"):
        assert path.stem in done.output


def test_a_run_takes_the_faults_of_packages_in_place_of_the_files() -> None:
    file = read_workload(LIBRARY / "lost-acks.yaml")
    found = file.with_(Changes(faults="crashes,partition")).nemesis
    assert (found.packages, found.faults) == (("crashes", "partition"), ())
    assert read_workload(LIBRARY / "quick.yaml").with_(Changes(faults="all")).nemesis
    with pytest.raises(ChangeError, match=f"unknown package 'crash'.*allowed: {', '.join(PACKAGES)}"):
        file.with_(Changes(faults="crash"))
    with pytest.raises(ChangeError, match=r"unknown package 'stale': it is a fault; in the package flaky-catalog$"):
        file.with_(Changes(faults="stale"))
    with pytest.raises(ChangeError, match=r"it is a fault; in the packages flaky-catalog, slow-store$"):
        file.with_(Changes(faults="delay"))
    with pytest.raises(ChangeError, match="--faults and --no-nemesis: give one of them"):
        file.with_(Changes(no_nemesis=True, faults="crashes"))


def ends(path: Path, night: Night, *, stop_on_anomaly: bool = False, **options: str | int) -> dict[str, list[str]]:
    """What a night that went on as long as it should says that one may type then: the words of each command."""
    typed = SoakOptions(suite=str(path), store=path.parent, stop_on_anomaly=stop_on_anomaly, **options)  # type: ignore[arg-type]
    return {name: shlex.split(command) for name, command in typed._ends(night, 7, path.parent / "night").items()}


def test_a_night_that_is_over_says_how_it_is_made_again_and_how_it_gets_more_time(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(SUITE)
    night = Night(tmp_path / "night", suite.parse(SUITE)[0], 7, (), ())
    after = ends(path, night)
    more, again = after["more"], after["again"]
    assert "--into" not in again and again[again.index("--seed") + 1] == "7", "a night of its own, with the same seed"
    assert more[more.index("--into") + 1] == str(tmp_path / "night") and more[more.index("--for") + 1] == "7200s"
    more = ends(path, night, runs=4)["more"]
    assert more[more.index("--runs") + 1] == "8" and "--for" not in more
    for commands in (after, ends(path, night, runs=4)):
        for words in commands.values():
            done = CliRunner().invoke(app, [*words[1:], "--dry-run"])
            assert done.exit_code == 0, done.output


def test_the_operations_that_are_asked_of_each_combination_are_the_files_or_those_that_are_typed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(f"{SUITE}at_least: 40\n")
    assert SoakOptions(suite=str(path))._suite.at_least == 40
    typed = SoakOptions(suite=str(path), at_least=7)
    assert typed._suite.at_least == 7 and "--at-least 7" in typed.again()


def test_a_night_that_the_first_new_anomaly_ended_gets_no_more_time(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(SUITE)
    tiny = suite.parse(SUITE)[0]
    cell = suite.cells_of(tiny, "1.12.0")[0]
    wrong = NightRun(cell, 0, 1, "2026-11-22T18:00:00", "invalid", {"lost-commit": 1})
    assert [*ends(path, Night(tmp_path, tiny, 7, (cell,), (wrong,)), stop_on_anomaly=True)] == ["again"]


def test_a_quiet_night_ends_with_what_a_mail_must_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = suite.parse(SUITE)[0]
    cell = suite.cells_of(tiny, "1.12.0")[0]
    link = "https://github.com/apache/iceberg/pull/10140"
    seen = Happened("undelete", "Spark", {"undelete": 1}, ("undelete",), (), "Use serializable.", ("undelete",), link)
    known = AnomalyCount("undelete", "rows", "t", known=link)
    run = NightRun(cell, 0, 1, "2026-11-22T18:00:00", "invalid", {"undelete": 1}, seen=(known,), happened=(seen,))
    night, program = Night(tmp_path, tiny, 7, (cell,), (run,)), kinds.Program("./icequake")
    mailed = kinds.mailed(night, kinds.kinds(night), program)
    assert _end(night, page.of(night, "again"), tmp_path, {}, "again", mailed) == 0
    first, show, difference = capsys.readouterr().out.splitlines()[-3:]
    assert difference == kinds.NEW_OR_KNOWN_SAYS
    assert first.startswith("undelete (known: iceberg#10140) in ") and first.endswith("; avoid: Use serializable.")
    assert show == "  show ./icequake prove undelete"


def test_a_night_that_had_to_stop_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(SUITE)
    after = ends(path, Night(tmp_path, suite.parse(SUITE)[0], 7, (), (), stopped="the disk is full"))
    assert [*after] == ["go on"] and "--into" in after["go on"]
