"""``icequake claims``: lists the claims, shows them in full, measures them again, and stops in order."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from harness.cli import claims as command
from harness.cli.app import app
from reports import claims as shown
from tests.support.runs import ROOT, environment, inside
from workloads.file import claims

PROGRAM = typer.main.get_command(app)
ENOUGH = 60.0
"""Seconds after which a test gives up on what never comes."""

MINE = """\
document: {title: A post, by: somebody, link: https://example.org/post}
claims:
  -
    number: 1
    claim: Operations are listed.
    section: Lists
    commands: [[list, operations]]
    verdict: holds
    outcome: they are
    measured: {date: 2026-11-22, versions: Iceberg 1.12.0}
  - number: 2
    claim: Faults are not.
    section: Lists
    commands: [{words: [list, faults], exit: 1}]
    verdict: does not hold
    outcome: they are
    measured: {date: 2026-11-22, versions: Iceberg 1.12.0}
    why: nobody hides them.
  - {number: 3, claim: Nobody knows., section: Else, verdict: open, why: nothing measures it.}
"""
MORE = MINE.split("  -\n")[1].split("  - number: 2")[0]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of five claims, whose commands end at once."""
    folder = tmp_path / "claims"
    folder.mkdir()
    again = MORE.replace("number: 1", "number: 4").replace("are listed", "are listed again")
    without = MORE.replace("number: 1", "number: 5").replace("list, operations", "list, runs")
    (folder / "post.yaml").write_text(f"{MINE}  -\n{again}  -\n{without}")
    monkeypatch.setattr(claims, "LIBRARY", folder)


def test_every_command_of_the_library_can_be_typed() -> None:
    claims.load(lambda words: command.wrong_command(PROGRAM, words))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["prove", "undelete", "--times", "3"], None),
        (["prov", "undelete"], r"unknown command 'prov' \(did you mean prove\?\)"),
        (["claims", "1"], "unknown command 'claims'"),
        (["prove", "undelete", "--often", "3"], "prove: .*--often"),
        (["prove", "undelete", "--times", "often"], "prove: .*--times"),
        (["run"], "run: .*workload"),
        (["list", "songs"], "list: list songs: unknown value"),
    ],
)
def test_what_cannot_be_typed_is_no_command_of_a_claim(words: list[str], says: str | None) -> None:
    found = command.wrong_command(PROGRAM, words)
    assert found is None if says is None else found is not None and bool(re.match(says, found))


def test_the_page_in_the_documents_is_that_of_the_claims() -> None:
    """Write it again: icequake claims --page docs/claims.md --force."""
    assert (ROOT / "docs" / "claims.md").read_text(encoding="utf-8") == shown.page(claims.load())


def test_the_claims_are_listed_with_their_counts(tmp_path: Path) -> None:
    done = inside("claims", cwd=tmp_path)
    assert done.returncode == 0 and not done.stderr
    head, *rows, total = done.stdout.splitlines()
    assert head.split() == ["claim", "verdict", "measured", "by"]
    assert [row.split()[0] for row in rows] == [str(n) for n in range(1, 94)]
    assert total == shown.total(claims.load().all) and total.startswith("93 claims: ")


def test_claims_with_one_verdict_are_listed_alone(tmp_path: Path) -> None:
    done = inside("claims", "--verdict", "does not hold", "--json", "out.json", cwd=tmp_path)
    *rows, total = done.stdout.splitlines()[1:]
    written = json.loads((tmp_path / "out.json").read_text())
    assert {c["verdict"] for c in written["claims"]} == {"does not hold"}
    assert len(rows) == written["counts"]["does not hold"] == len(written["claims"])
    assert re.fullmatch(rf"{len(rows)} claims: {len(rows)} do not hold", total)
    assert all(c["sources"][0]["link"].startswith("https://") for c in written["claims"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--verdict", "perhaps"], "--verdict perhaps: unknown verdict 'perhaps'; allowed: holds, holds in part, does not hold, open, later"),
        (["99"], "there is no claim 99; the claims are 1 to 93"),
        (["one"], "must be a whole number"),
        (["--again"], "--again: give the numbers of the claims to measure, such as claims 23 35 --again"),
    ],
)  # fmt: skip
def test_what_is_no_claim_is_refused(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = inside("claims", *arguments, cwd=tmp_path)
    assert done.returncode == 254 and says in done.stderr


def test_a_claim_is_shown_in_full_and_nothing_runs(tmp_path: Path) -> None:
    done = inside("claims", "23", "17", "--store", "runs", cwd=tmp_path)
    assert done.returncode == 0 and not list(tmp_path.iterdir())
    assert done.stdout.startswith("23. ") and "\n17. " in done.stdout
    assert f"    icequake prove undelete --times 20 --store {tmp_path}/runs\n" in done.stdout
    assert re.search(rf"    icequake matrix .* --into {tmp_path}/runs/claims/matrix-\d{{8}}T\d{{6}}Z\n", done.stdout), (
        "it begins anew"
    )
    assert done.stdout.splitlines()[-1] == (
        f"measuring again takes about 12 minutes: icequake claims 23 17 --again --store {tmp_path}/runs"
    )
    assert "Jack Vanlightly" in done.stdout and "Verdict: holds. 2026-11-21, Spark 4.1.4" in done.stdout


def test_how_long_a_claim_takes_is_said_as_it_was_measured(tmp_path: Path) -> None:
    """docs/sweep.md: 50 runs in 22 minutes; docs/matrix.md: all cells in 45."""
    for number, minutes in (("65", 22), ("21", 46)):
        last = inside("claims", number, cwd=tmp_path).stdout.splitlines()[-1]
        assert last == f"measuring again takes about {minutes} minutes: icequake claims {number} --again"


def test_how_long_it_takes_is_known_of_every_command_of_the_library() -> None:
    every = [given.words for c in claims.load().all for given in c.commands]
    assert [words for words in every if not command._takes(PROGRAM, words)] == []


@pytest.mark.usefixtures("mine")
def test_what_came_out_stands_beside_what_is_recorded(tmp_path: Path) -> None:
    done = inside("claims", "1", "4", "--again", "--json", "out.json", cwd=tmp_path)
    assert done.returncode == 0
    assert (
        done.stdout.splitlines()[0] == "measuring 2 claims again takes an unknown time"
    )  # `list` says nothing of its time
    ran = [line for line in done.stdout.splitlines() if ": icequake " in line]
    assert ran == ["claim 1: icequake list operations"], "one command runs once"
    _, _, end = done.stdout.partition("claim 1, holds: Operations are listed.\n")
    assert "  recorded  2026-11-22, Iceberg 1.12.0: they are\n  now       exit code 0, as recorded, in " in end
    assert "claim 4, holds: Operations are listed again.\n" in end
    first, second = json.loads((tmp_path / "out.json").read_text())["claims"]
    assert first["again"] == second["again"] and first["again"][0]["typed"] == "icequake list operations"
    assert first["again"][0]["said"][-1].startswith("Each operation also takes")


@pytest.mark.usefixtures("mine")
def test_a_command_that_ends_otherwise_than_recorded_is_told(tmp_path: Path) -> None:
    done = inside("claims", "1", "2", "--again", cwd=tmp_path)
    assert done.returncode == 1
    assert "now       exit code 0, as recorded, in" in done.stdout
    assert "now       exit code 0, recorded was 1, in" in done.stdout


@pytest.mark.usefixtures("mine")
def test_a_claim_without_a_command_leaves_it_undecided(tmp_path: Path) -> None:
    done = inside("claims", "3", "--again", cwd=tmp_path)
    assert done.returncode == 2
    assert (
        "recorded  nothing yet. nothing measures it." in done.stdout
        and "now       no command measures it" in done.stdout
    )


@pytest.mark.usefixtures("mine")
def test_a_command_that_fails_does_not_keep_the_others_from_running(tmp_path: Path) -> None:
    done = inside("claims", "5", "1", "--again", cwd=tmp_path)
    assert done.returncode == 255
    assert "there is no store" in done.stderr
    assert (
        "now       exit code 254, recorded was 0, in" in done.stdout and "exit code 0, as recorded, in" in done.stdout
    )


# Two claims: the command of the second one waits until the user stops it.
STOPPED = """
import sys
from pathlib import Path
from threading import Event
from harness.cli import app, stopping
from workloads.file import claims

@app.app.command("wait")
def wait() -> int:
    stopping.current().way_on = lambda: "never said"
    try:
        print("begun", flush=True)
        Event().wait(60)
    except KeyboardInterrupt as e:
        if OWN_LINE:
            raise stopping.Stopped(OWN_LINE) from e
        raise
    return 0

claims.LIBRARY = Path(sys.argv[1])
OWN_LINE = sys.argv[2]
sys.argv = ["icequake", "claims", "1", "2", "3", "--again", "--store", "runs"]
app.main()
"""


@pytest.mark.parametrize(
    ("number", "code", "name", "own"),
    [(signal.SIGINT, 130, "Ctrl-C", ""), (signal.SIGTERM, 143, "SIGTERM", "go on with: icequake wait")],
)
def test_a_stopped_command_shows_what_is_done_and_names_the_claims_that_are_left(
    number: signal.Signals, code: int, name: str, own: str, tmp_path: Path
) -> None:
    (tmp_path / "post.yaml").write_text(MINE.replace("{words: [list, faults], exit: 1}", "[wait]"))
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path), own],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(ICEQUAKE_COMMAND="icequake"),
        cwd=tmp_path,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line == "begun\n":
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=ENOUGH)
    assert process.returncode == code
    assert "claim 1, holds: Operations are listed.\n" in out and "claim 2" not in out
    assert err.splitlines()[-1] == (
        f"icequake: stopped by {name}; {own + '; ' * bool(own)}1 of 3 claims are measured; measure the others with: "
        f"icequake claims 2 3 --again --store {tmp_path}/runs"
    )
