"""A verb is one file in ``nemesis/faults/verbs``: whatever needs it finds it there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nemesis.faults.fault import Fault
from nemesis.faults.fields import OwnFields
from nemesis.faults.lengths import WRITTEN, Seconds
from nemesis.faults.registry import VERBS, find_verbs
from nemesis.faults.table import row
from tests.support.examples import example, write_example
from tests.support.truncated import REPLY

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happens with a copy of ``nemesis`` that has the example file beside the other verbs."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(ROOT / "nemesis", home / "nemesis", ignore=shutil.ignore_patterns("__pycache__"))
    write_example("truncate.py", home / "nemesis" / "faults" / "verbs")
    argv = [sys.executable, "-m", "tests.support.truncated"]  # the working folder comes before PYTHONPATH
    done = subprocess.run(
        argv, cwd=home, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_example_is_one_short_file() -> None:
    assert len(example("truncate.py").splitlines()) <= 50


def test_the_proxy_carries_the_example_out(seen: dict[str, Any]) -> None:
    proxy = seen["proxy"]
    assert proxy["got"] == [REPLY[:40].decode(), REPLY.decode()]
    assert (proxy["commits"], proxy["hits"], proxy["missed"]) == (2, {"commit": 1}, 0)
    assert proxy["log"] == [["200 (nemesis: not told)", ["truncate of commit"]], ["200", []]]


def test_a_workload_file_takes_the_example_with_its_own_field(seen: dict[str, Any]) -> None:
    assert json.loads(seen["workload"]["verb: truncate, keep: 40"]) == {"verb": "truncate", "keep": 40}


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("verb: truncate", "w.yaml:8: missing key 'keep'"),
        ("verb: truncate, keep: none", "w.yaml:8: keep: "),
        ("verb: truncate, keep: 1, kep: 1", "w.yaml:8: unknown key 'kep'"),
        ("verb: drop-reply, keep: 40", "w.yaml:8: unknown key 'keep'"),
    ],
)
def test_a_workload_file_that_uses_the_example_wrongly_is_refused_with_its_line(
    seen: dict[str, Any], fault: str, complaint: str
) -> None:
    assert seen["workload"][fault].startswith(complaint)


def test_a_scenario_takes_the_example_and_refuses_it_without_its_field(seen: dict[str, Any]) -> None:
    assert seen["scenario"]["verb: truncate, keep: 40"] == "truncate of commit"
    assert seen["scenario"]["verb: truncate"].startswith("s.yaml:7: missing key 'keep'")


def test_the_table_of_verbs_has_the_examples_row(seen: dict[str, Any]) -> None:
    assert seen["row"].startswith("| `truncate` | the service carries out the request; ")
    assert seen["row"].endswith(" | `keep` |")


def test_the_page_on_faults_says_of_each_verb_what_its_class_declares() -> None:
    text = (
        (ROOT / "docs" / "nemesis.md").read_text().partition("## Faults of connections")[2].partition("These keys")[0]
    )
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert len(rows) >= 12
    assert rows == {name: row(VERBS[name]) for name in rows}, "write them anew with: python -m nemesis.faults.table"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """An empty package for verbs."""
    package = ModuleType("some_verbs")
    package.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "some_verbs", package)
    yield package
    for name in [n for n in sys.modules if n.startswith("some_verbs.")]:
        del sys.modules[name]


VERB = """\
from nemesis.faults.verb import Throttling


class Slow(Throttling):
    name = "slow"
    summary = "it is slow"

    def bytes_per_second(self, fault):
        return 1
"""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"a\.py: declares no verb; give it a class"),
        (VERB.replace("    name", "    title_"), r"a\.py: Slow has no name; give it one"),
        (VERB.replace("def bytes", "def kilobytes"), r"a\.py: declares no verb"),
        (
            VERB + '    fields = ("pace",)\n',
            r"a\.py: Slow: no fault has the field 'pace'; allowed: status, .*; declare it",
        ),
    ],
)
def test_a_file_that_declares_no_usable_verb_is_refused(
    package: ModuleType, tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "a.py").write_text(text)
    with pytest.raises(TypeError, match=complaint):
        find_verbs(package)


def test_two_files_cannot_declare_the_same_verb(package: ModuleType, tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(VERB)
    with pytest.raises(TypeError, match=r"b\.py: Slow: another verb has the name 'slow'; choose another name"):
        find_verbs(package)


class _Wait(OwnFields):
    """A field of a verb that someone adds."""

    wait: Seconds


def test_a_time_that_is_a_verb_s_own_needs_a_unit_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(VERBS["cut"]), "own", _Wait)
    assert Fault.model_validate({"verb": "cut", "wait": 2.5}).own(_Wait).wait == 2.5
    assert Fault.model_validate({"verb": "cut", "wait": "2s"}, context={WRITTEN: True}).own(_Wait).wait == 2
    with pytest.raises(ValueError, match=r"2 has no unit of time; write 2s"):
        Fault.model_validate({"verb": "cut", "wait": 2}, context={WRITTEN: True})
