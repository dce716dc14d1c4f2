"""Every command line that a document shows can be typed, and what cannot be typed is refused with a remedy."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest
import typer
import yaml

from checkers.certificate import Certificate
from checkers.evidence.runfolder import RunFolder
from harness.cli.app import COMMANDS, app
from harness.cli.command import Options
from harness.run.judged import judge_run
from tests.compose.test_own_jar import a_jar
from tests.harness.experiments.shrink.failedrun import failed_run
from tests.support.runs import ROOT, inside
from workloads.file import scenario

NAMES = [options.typed_name() for options in COMMANDS]
FENCE = re.compile(r"^ {0,3}```.*?^ {0,3}```", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"^ *(?:\$ )?(?:\./)?icequake ((?:--?)?[a-z].*)$", re.MULTILINE)
SPAN = re.compile(r"`(?:\./)?icequake ([^`]+)`")
ENDS = re.compile(r" {2,}| +# | \|\| | > ")
"""What follows a command in a line: a remark, or more of the shell."""
JARS = ("build/my.jar", "iceberg/spark/v4.1/spark-runtime/build/libs", "spark/v4.1/spark-runtime/build/libs")
JAR = "iceberg-spark-runtime-4.1_2.13-1.13.0-SNAPSHOT.jar"
OWN_CATALOG = "name: my\nspark: {type: rest, uri: 'http://localhost:1'}\n"
OWN_LAKE = "pyiceberg: {type: rest, uri: 'http://localhost:1'}\n"
APPENDED = (
    "{:type :invoke, :process 0, :f :txn, :value [[:append 1 1] [:r 2 nil]], :index 0}\n"
    "{:type :ok, :process 0, :f :txn, :value [[:append 1 1] [:r 2 []]], :index 1}\n"
)
CELLS = '{"format": 1, "catalog": "rest", "versions": {}}\n'
MEANT = {
    "--engine process|spark [--spark URL]": "--engine spark [--spark URL]",
    "compare WORKLOAD --catalog rest,jdbc [": "compare quick --catalog rest,nessie [",
    "--lake yes|no|my.yaml": "--lake yes|no|lake.yaml",
    "--lake my.yaml": "--lake lake.yaml",
    "prove my.yaml": "prove scenario.yaml",
    " [--keyed|--plain]": "",  # they are for single objects, and FILE is one of lists
    "--against DIR": "--against store/matrix",
    "--catalog C,D": "--catalog rest,nessie",
    "--only ID,GROUP": "--only null-ref,statuses",
    "--against FILE": "--against certificate/certify.json",
    "--explain ID": "--explain null-ref",
    "model [MODEL": "model [undelete",
    "--also DIR": "--also B",
    "--as FORM": "--as register",
    "export shrunk/scenario.yaml --as script": "export scenario.yaml --as script",
    "export store/undelete/latest --as issue": "export undelete --as issue",
    "--key K": "--key t/0/w0-0",
    "--key orders/5/w0-0": "--key t/0/w0-0",
    "--only KIND": "--only delete",
    "DIMENSION=VALUE": "held=refresh",
    "--only NAME": "--only commits",
    "--anomaly NAME": "--anomaly undelete",
    "--op OP": "--op w0-1",
    "--run RUN": "--run 1",
    "--order O,O": "--order free,coverage",
    "--without D,D": "--without undelete",
    "--engine E,E": "--engine spark,duckdb",
    "--engine E": "--engine duckdb",
    "--operations K,K": "--operations insert,read",
    "--session S": "--session fast",
    "--cluster C": "--cluster local",
    "--suite S": "--suite nightly",
    "--catalog C": "--catalog rest",
    "--iceberg R": "--iceberg 1.12.0",
    "--delta R": "--delta 4.4.0",
    "--deltalake R": "--deltalake 1.6.6",
    "--iceberg JAR": f"--iceberg {JAR}",
    "--model M": "--model list-append",
    "--level L": "--level serializable",
    "--verdict V": "--verdict open",
    "--night DATE": "--night 2026-11-22",
    "--doc PAGE": "--doc docs/time-to-find.md",
    "PARAMETER=V,W": "writers=1,2",
    "--json FILE": "--json out.json",
    "--page FILE": "--page page.html",
    "--spark URL": "--spark 'local[2]'",
    "replay RUN": "replay store/quick/latest",
    "[WHAT]": "catalogs",
    "run WORKLOAD": "run quick",
    "run NAME": "run quick",
    "run …": "run quick",
    "compare WORKLOAD": "compare quick --catalog rest,jdbc",
    "EXPERIMENT": "backoff",
    "SUITE": "smoke",
    "DEFECT": "undelete",
    "prove [NAME": "prove [undelete",
    "prove …": "prove undelete",
    "query SQL": "query 'SELECT 1'",
    '"SELECT …"': "'SELECT 1'",
    "FOLDER": "store",
    "STORE": "store",
    "NIGHT": "night1",
    "RUN": "store/snapshot-mor/latest",
    "FILE": "history.edn",
    "DIR": "into",
    " A ": " A1 ",
}
"""What stands for a value in a document → such a value; the first that fits counts."""
BARE = re.compile(r"compare|run|sweep|query|soak|matrix --engine|run --(catalog \S+|docker)")
"""Commands, or options of them, that a sentence names by their beginning."""


def shown(name: str) -> list[str]:
    """The lines of a command that the documents show, without ``icequake``."""
    found: dict[str, None] = {}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text(encoding="utf-8")
        blocks = (TYPED.finditer(block) for block in FENCE.findall(text.replace("\\\n", " ")))
        for match in (*chain.from_iterable(blocks), *SPAN.finditer(FENCE.sub("", text))):
            line = ENDS.split(match[1])[0].strip() if match.re is TYPED else " ".join(match[1].split())
            if line.split()[0] == name and not BARE.fullmatch(line):
                found[line.split(" || ")[0]] = None
    return list(found)


def variants(line: str) -> Iterator[str]:
    """The lines that a synopsis stands for: without what is in brackets, and with each of it alone."""
    groups, depth, begin = [], 0, 0
    for at, char in enumerate(line):
        if char == "[" and (depth or line[at - 1] == " "):
            begin, depth = (at, 1) if depth == 0 else (begin, depth + 1)
        elif char == "]" and depth:
            depth -= 1
            if depth == 0:
                groups.append((begin, at + 1))

    def without(keeps: int) -> str:
        kept = line
        for begin, end in reversed(groups):
            kept = kept[:begin] + (f"\0{begin}\0" if begin == keeps else "") + kept[end:]
        return kept

    yield without(-1)
    for begin, end in groups:
        for one in re.split(r" \| (?![^\[]*\])", line[begin + 1 : end - 1]):
            yield from variants(without(begin).replace(f"\0{begin}\0", one))


def typed(line: str) -> Iterator[list[str]]:
    """The words of all that a line of a document stands for."""
    line = re.sub(r'"\$\(.*?\)"', "2026-11-22", line)
    for placeholder, value in MEANT.items():
        line = line.replace(placeholder, value)
    line = re.sub(r"\bN\b", "3", line)
    for one in variants(line):
        words = [word for word in shlex.split(one) if word != "…"]
        choices = [word.split("|") for word in words]
        for at, several in enumerate(choices):
            for word in several[1:]:
                yield [*words_of(choices[:at]), word, *words_of(choices[at + 1 :])]
        yield words_of(choices)


def words_of(choices: list[list[str]]) -> list[str]:
    return [first for first, *_ in choices]


def files_of_tutorial() -> dict[str, str]:
    """The files that the tutorial tells its reader to save."""
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    named = {"workload: ": "mine.yaml", "suite: ": "night.yaml", "name: ": "own.yaml"}
    return {name: block for block in blocks for key, name in named.items() if block.startswith(key)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the documents' lines name."""
    here = tmp_path_factory.mktemp("typed")
    failed = failed_run(here)
    judge_run(RunFolder(failed), lambda *_: None)
    for run in ("snapshot-mor", "quick", "mixed"):
        shutil.copytree(failed, here / "store" / run / "latest")
    plan = here / "store/quick/latest/plan.yaml"
    plan.write_text(plan.read_text().replace("workload: two", "workload: quick"))
    for folder in ("docs", *JARS, "store/matrix", "store/engine-matrix"):
        (here / folder).mkdir(parents=True, exist_ok=True)
    (here / "store/latest").symlink_to("snapshot-mor/latest")
    shutil.copytree(here / "store/mixed", here / "into/mixed")
    (here / "into/latest").symlink_to("mixed/latest")
    for run in ("toys", "night1/runs/…"):
        shutil.copytree(failed, here / run)
    for history in ("history.edn", "skew.edn"):
        (here / history).write_text(APPENDED)
    for matrix in ("matrix", "engine-matrix"):
        (here / "store" / matrix / "cells.jsonl").write_text(CELLS)
    for own in ("my.yaml", "ice.yaml", "seaweedfs.yaml"):
        (here / own).write_text(OWN_CATALOG)
    for name, text in files_of_tutorial().items():
        (here / name).write_text(text)
    (here / "lake.yaml").write_text(OWN_LAKE)
    (here / "store/shrink/undelete-snapshot-mor-…").mkdir(parents=True)
    (here / "found").mkdir()
    runs = set(
        re.findall(r"icequake (?:check|shrink) (store/\S+)", (ROOT / "docs/tutorial.md").read_text(encoding="utf-8"))
    )
    assert runs, "the tutorial checks a run"
    (here / "certificate").mkdir()
    certificate = Certificate({"rest": "http://localhost:1"}, [], [], "2026-11-27", "1", "icequake certify")
    (here / "certificate/certify.json").write_text(json.dumps(certificate.to_json()))
    for run in runs:
        shutil.copytree(failed, here / run)
    (here / "store/shrink/mine").mkdir()
    for own in (
        "scenario.yaml",
        "found/undelete-undelete.yaml",
        "found/write-skew-kinds-v2-2.yaml",
        "store/shrink/undelete-snapshot-mor-…/scenario.yaml",
        "store/shrink/mine/scenario.yaml",
        "night1/shrinks/…/scenario.yaml",
    ):
        (here / own).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(scenario.LIBRARY / "undelete.yaml", here / own)
    shown_again = here / "store/undelete/latest"
    shutil.copytree(failed, shown_again)
    planned = scenario.load(scenario.LIBRARY / "undelete.yaml").model_dump(mode="json", exclude_defaults=True)
    plan = yaml.safe_load((shown_again / "plan.yaml").read_text())
    versions = {"iceberg": "1.11.0", "spark": "4.1.4"}
    (shown_again / "plan.yaml").write_text(yaml.safe_dump({**plan, "scenario": planned, "versions": versions}))
    (here / "docs/time-to-find.md").write_text("")
    (here / JARS[0]).rmdir()
    a_jar(here / JAR)
    shutil.copy(here / JAR, here / JARS[0])
    for folder in JARS[1:]:
        shutil.copy(here / JAR, here / folder)
    (here / "workloads").symlink_to(ROOT / "workloads")
    (here / "compose").symlink_to(ROOT / "compose")
    return here


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_the_documents_can_be_typed(name: str, place: Path) -> None:
    """It is parsed, and the files that it names are read; nothing is started (``--dry-run``)."""
    refused = []
    for line in shown(name):
        for words in typed(line):
            writes = {"-o", "--scenarios"} & {*words}  # the place has the files that such a line writes
            again = ["--force"] if writes else []
            done = inside(*words, *again, *([] if "--help" in words else ["--dry-run"]), cwd=place)
            lacks = (
                find_spec("boto3") is None and "by boto3, which is not installed" in done.stderr
            )  # it is not icequake's
            if done.returncode != 0 and not lacks:
                refused.append((shlex.join(words), done.stderr.strip().splitlines()[-1:]))
    assert refused == [], "\n".join(map(str, refused))


WRONG = (
    "check no-such-run",
    "check no-such-run --engine process",
    "check broken",
    "check broken.edn",
    "check history.edn --model no-such-model",
    "check history.edn --level no-such-level",
    "check store/latest --level serializable",
    "check store/latest --lake no.yaml",
    "check --engine spark --spark nonsense store",
    "export no-such-run",
    "export broken",
    "export store/latest --as no-such-form",
    "export store/latest --as register --key t/9/none",
    "report no-such-run",
    "setup nessy",
    "setup --iceberg no.jar",
)


@pytest.mark.parametrize("line", WRONG)
def test_a_dry_run_refuses_a_wrong_file_as_the_line_itself_does(line: str, place: Path) -> None:
    broken = place / "broken"
    if not broken.exists():
        shutil.copytree(place / "store/mixed/latest", broken)
        lines = (broken / "history.jsonl").read_text().splitlines()
        (broken / "history.jsonl").write_text("\n".join([*lines[:3], "garbage", *lines[3:]]) + "\n")
        (place / "broken.edn").write_text("{:type :invoke")
    done, dry = inside(*shlex.split(line), cwd=place), inside(*shlex.split(line), "--dry-run", cwd=place)
    assert done.returncode == dry.returncode == 254
    assert done.stderr == dry.stderr and dry.stdout == "" and len(dry.stderr.splitlines()) == 1


def test_the_files_of_the_tutorial_are_read_as_it_shows_them(place: Path) -> None:
    """Its workload, its suite and its catalog; the suite names the workload."""
    assert set(files_of_tutorial()) == {"mine.yaml", "night.yaml", "own.yaml"}
    for words in (["run", "mine.yaml", "--catalog", "own.yaml"], ["soak", "night.yaml"]):
        done = inside(*words, "--dry-run", cwd=place)
        assert done.returncode == 0, done.stderr


def test_the_documents_show_every_command() -> None:
    assert [name for name in NAMES if not shown(name)] == []


def test_a_synopsis_stands_for_each_of_its_lines() -> None:
    assert [" ".join(words) for words in typed("check [FILE | a [--x yes|no]] --store DIR")] == [
        "check --store into",
        "check history.edn --store into",
        "check a --store into",
        "check a --x no --store into",
        "check a --x yes --store into",
    ]


def wrong_values() -> Iterator[tuple[type[Options], list[str], str]]:
    """A word that nobody knows for each option and argument that has known words or a unit."""
    for options in COMMANDS:
        needed = [p.name for p, _, _ in options._fields() if p.param_type_name == "argument" and p.required]
        for param, value, _ in options._fields():
            if not (value.unit or value.choices):
                continue
            if param.param_type_name == "argument":
                yield options, ["no such word"], options.typed_name()
            else:
                yield options, [*("x" for _ in needed), param.opts[0], "no such word"], param.opts[0]


@pytest.mark.parametrize(
    ("options", "words", "names"), [*wrong_values()], ids=lambda x: x.typed_name() if isinstance(x, type) else str(x)
)
def test_a_wrong_value_is_refused_with_the_option_and_the_help(
    options: type[Options], words: list[str], names: str, tmp_path: Path
) -> None:
    done = inside(options.typed_name(), *words, cwd=tmp_path)
    assert done.returncode == 254
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"icequake: {names} ") and line.endswith(f"see `icequake {options.typed_name()} --help`")


@pytest.mark.parametrize("name", NAMES)
def test_an_option_that_does_not_exist_is_refused_with_the_help(name: str, tmp_path: Path) -> None:
    done = inside(name, "--no-such-option", cwd=tmp_path)
    assert done.returncode == 254
    (line,) = done.stderr.splitlines()
    assert "no-such-option" in line and line.endswith(f"see `icequake {name} --help`")


@pytest.mark.parametrize("options", [o for o in COMMANDS if "ctx" not in o._hints()], ids=lambda o: o.typed_name())
def test_a_command_is_repeated_by_the_line_that_it_prints(options: type[Options], tmp_path: Path) -> None:
    """Each option that a line repeats has there the value that it has here."""
    given = {}
    for param, value, _ in options._fields():
        kind = str(options._hints()[param.name]).partition(",")[0]
        if value.repeat != "never" and "bool" not in kind:
            one = tmp_path / "x" if "Path" in kind else 3 if "int" in kind else "x"
            given[param.name] = [one] if "list" in kind else one
    parsed = options(**given).words()[1:]
    command = typer.main.get_command(app).commands[options.typed_name()]  # type: ignore[attr-defined]
    again = command.make_context(options.typed_name(), parsed, resilient_parsing=True).params
    assert {name: again[name] for name in given} == given
