"""``icequake check`` of a run's folder in which somebody put something else in place of a file: it is refused or doubted, and nothing hangs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence.runfolder import EVIDENCE, RunFolder
from checkers.selftest import recorded
from tests.support.runs import inside
from workloads.file.opened import DEPTH, MOST_BYTES

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
"""A list of 9^9 words in 300 bytes."""
REQUEST = '{"time":1,"service":"store","kind":"read","status":"200"}\n'

Change = Callable[[Path], object]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A valid run's folder, for the test alone; ``t.jsonl`` is the log of one of its tables."""
    folder = tmp_path / "run"
    with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / "quick-120.zip") as z:
        z.extractall(folder)
    return folder


def checked(run: Path) -> subprocess.CompletedProcess[str]:
    """The command on it, which must never be an internal error."""
    done = inside("check", run, cwd=run.parent)
    assert done.returncode in (0, 1, 2, 254), (done.stdout, done.stderr)
    return done


def pipe(path: Path) -> None:
    """A pipe that nobody writes to."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    """A link to a file without end."""
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def event(number: int, change: Callable[[dict[str, Any]], object]) -> Change:
    """Change what stands in a line of the history, counted from 1."""

    def made(path: Path) -> None:
        lines = path.read_text().splitlines()
        record = json.loads(lines[number - 1])
        change(record)
        lines[number - 1] = json.dumps(record)
        path.write_text("\n".join(lines) + "\n")

    return made


def long_line(path: Path) -> None:
    """A last line of zeros that takes no place on the disk."""
    lines = path.read_bytes().count(b"\n")
    assert lines == 271
    os.truncate(path, path.stat().st_size + MOST_BYTES + (2 << 20))


def deep(levels: int) -> Any:
    """A list in a list, and so on."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        *((file, change, ": not a regular file") for change in (pipe, device) for file in ("history.jsonl", "tablelog/orders.jsonl")),
        *(("plan.yaml", change, ": cannot be read: not a regular file") for change in (pipe, device)),
        ("plan.yaml", lambda p: p.write_text(BOMB), ":6: stands for more than 600,000 values"),
        ("plan.yaml", lambda p: p.write_text("a: &a [*a]"), ":1: an alias (*) stands for what it lies in"),
        ("plan.yaml", lambda p: p.write_text("[" * 500 + "]" * 500), ":1: nested deeper than 100 levels"),
        ("plan.yaml", lambda p: p.write_text("[" * 50_000), ": nested too deeply"),
        ("plan.yaml", lambda p: p.write_text("a: b\n" * 400_000), ": longer than 1,048,576 characters"),
        ("history.jsonl", long_line, ":272: the line is longer than 268,435,456 bytes"),
        ("history.jsonl", event(5, lambda e: e.update(time=10**4_000)), ":5: time must be whole nanoseconds, fewer than 2^62"),
        ("history.jsonl", event(5, lambda e: e.update(value=deep(DEPTH))), ":5: not a record: its values are nested too deeply"),
        ("history.jsonl", event(5, lambda e: e.update(f="x" * 11_000_000)), ":5: f must be a string of at most 1,000 characters"),
        ("tablelog/orders.jsonl", event(3, lambda r: r.update(raw={"x": deep(DEPTH)})), ":3: not a record: its values are nested too"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_a_run_is_refused_with_its_name_and_line(
    run: Path, file: str, change: Change, says: str
) -> None:
    change(run / file)
    done = checked(run)
    assert done.returncode == 254 and f"{run / file}{says}" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        *(("run.json", change, "run.json: cannot be read: not a regular file") for change in (pipe, device)),
        ("run.json", lambda p: p.write_text('{\n"state": "complete\n'), "run.json:2: not JSON from here on"),
        ("run.json", lambda p: p.write_text("[" * 5_000), "run.json: nested deeper than 100 levels"),
        (
            "history.jsonl",
            event(12, lambda e: e.update(process=77)),
            "events of the history do not pair",
        ),
        *(("proxy.jsonl", change, "proxy.jsonl: cannot be read: not a regular file") for change in (pipe, device)),
        ("proxy.jsonl", lambda p: p.write_bytes(b"\x00garbage\xff\n"), "proxy.jsonl:1: not UTF-8 text"),
        ("proxy.jsonl", lambda p: p.write_text("garbage"), "proxy.jsonl:1: the last line is torn (7 bytes)"),
        ("proxy.jsonl", lambda p: p.write_text('{"format":1}\n'), "proxy.jsonl:1: a request needs time and service"),
        ("proxy.jsonl", lambda p: p.write_text(REQUEST * 3 + "{garbage}\n" + REQUEST), "proxy.jsonl:4: not JSON"),
        ("proxy.jsonl", lambda p: p.write_text(REQUEST * 3 + "[]\n" + REQUEST), "proxy.jsonl:4: must be a JSON object"),
        (
            "proxy.jsonl",
            lambda p: p.write_text(REQUEST + f'{{"a":{"[" * 50_000}{"]" * 50_000}}}\n'),
            "proxy.jsonl:2: not a record",
        ),
    ],
)
def test_what_only_adds_evidence_makes_the_run_unknown_where_it_is_broken(
    run: Path, file: str, change: Change, says: str
) -> None:
    change(run / file)
    done = checked(run)
    told = " ".join(done.stdout.split())
    assert done.returncode == 2 and says in told, (done.stdout, done.stderr)
    problems = [line for line in done.stdout.splitlines() if line.lstrip().startswith("problem ")]
    assert len(problems) == len(set(problems)), "each is said once"


def test_a_run_without_its_state_says_why_nothing_is_known_for_certain(run: Path) -> None:
    (run / "run.json").unlink()
    done = checked(run)
    assert done.returncode == 2 and "run.json: missing, so it is not known whether" in " ".join(done.stdout.split())


def wrote(run: Path, *files: str) -> None:
    """As a run that wrote these files says it in ``run.json``."""
    state = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**state, EVIDENCE: files}))


@pytest.mark.parametrize("file", ["run.json", "proxy.jsonl", "tablelog/orders.jsonl", "kinds/own.py"])
def test_evidence_that_the_run_wrote_and_somebody_removed_is_missed_on_terminal_and_page(run: Path, file: str) -> None:
    (run / "proxy.jsonl").write_text(REQUEST * 3)
    own = run / "kinds" / "own.py"
    own.parent.mkdir()
    own.write_text("# no kind of operations\n")
    assert [*RunFolder(run).evidence] == [
        "proxy.jsonl",
        *(f"tablelog/{table}.jsonl" for table in ("accounts", "events", "orders")),
        "kinds/own.py",
    ]
    wrote(run, *RunFolder(run).evidence)
    assert checked(run).returncode == 0
    (run / file).unlink()
    why = "so it is not known whether the run came to its end" if file == "run.json" else "and the run wrote it"
    says = f"{file}: missing, {why}"
    done = checked(run)
    assert done.returncode == 2 and says in " ".join(done.stdout.split()), (done.stdout, done.stderr)
    done = inside("report", run, cwd=run.parent)
    (said,) = done.stderr.splitlines()
    assert done.returncode == 2 and said.startswith(f"icequake: {says}")
    assert says in (run / "report.html").read_text()


def test_the_page_of_a_run_whose_history_is_garbled_is_written_and_the_terminal_says_what_it_lacks(run: Path) -> None:
    assert checked(run).returncode == 0
    whole = inside("report", run, cwd=run.parent)
    assert (whole.returncode, whole.stderr) == (0, "")
    event(12, lambda e: e.update(time="never"))(run / "history.jsonl")
    done = inside("report", run, cwd=run.parent)
    assert (done.returncode, done.stdout) == (2, whole.stdout)
    assert done.stderr.startswith("icequake: history.jsonl:12: ")


def test_a_run_whose_files_are_links_or_whose_requests_are_good_is_valid(run: Path) -> None:
    for file in [p for p in run.rglob("*") if p.is_file()]:
        elsewhere = run.parent / "elsewhere" / file.relative_to(run)
        elsewhere.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(file, elsewhere)
        file.symlink_to(elsewhere)
    (run / "proxy.jsonl").write_text(REQUEST * 3)
    assert checked(run).returncode == 0


FILES = {
    "run": "workload: x\ntables: [{name: t}]\n",
    "prove": "scenario: x\ntables: [{name: t}]\n",
    "soak": "suite: x\n",
    "sweep": "use: quick\n",
}
"""A command → the beginning of a file that it takes."""


@pytest.mark.parametrize("command", FILES)
@pytest.mark.parametrize(
    ("more", "says"),
    [
        (BOMB, "stands for more than 600,000 values, because aliases (*) repeat each other"),
        ("z: &z [*z]\n", "an alias (*) stands for what it lies in, so the value has no end"),
        (f"z: {'[' * 200}{']' * 200}\n", "nested deeper than 100 levels"),
        ("# " + "x" * (1 << 20), "longer than 1,048,576 characters, the most that is read as YAML"),
    ],
)
def test_a_file_that_a_person_wrote_is_bounded_too(tmp_path: Path, command: str, more: str, says: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(FILES[command] + more)
    done = inside(command, path, cwd=tmp_path)
    assert done.returncode == 254 and f"{path}" in done.stderr and says in done.stderr, done.stderr


@pytest.mark.parametrize("command", FILES)
@pytest.mark.parametrize("change", [pipe, device])
def test_a_pipe_or_a_device_is_no_file_that_a_person_wrote(tmp_path: Path, command: str, change: Change) -> None:
    path = tmp_path / "mine.yaml"
    change(path)
    done = inside(command, path, cwd=tmp_path)
    assert done.returncode == 254 and str(path) in done.stderr, done.stderr
