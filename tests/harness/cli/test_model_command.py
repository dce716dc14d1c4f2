"""``icequake model``: models of files, and stored runs held to their rules."""

import zipfile
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from checkers import selftest
from checkers.formats.iceberg.model.search import search, usable_cores
from harness.cli.model import bound_of
from tests.support.runs import icequake
from workloads.file import modelled
from workloads.file.scenario import MOST_NAME, load


def model(*arguments: str) -> tuple[int, str]:
    done = icequake("model", *arguments)
    return done.returncode, done.stdout + done.stderr


def _stored(folder: Path, name: str) -> Path:
    with (
        as_file(files(selftest).joinpath("recorded", f"{name}.zip")) as path,
        zipfile.ZipFile(path) as z,
    ):
        z.extractall(folder / name)
    return folder / name


def test_stored_runs_are_held_to_the_rules_of_the_model(tmp_path: Path) -> None:
    _stored(tmp_path, "quick-100")
    _stored(tmp_path, "quick-120")
    code, said = model("--accept", str(tmp_path))
    assert code == 0, said
    assert "2 runs, 0 of them refused: 136 commits accepted" in said
    assert "rules that no abort met: removed data" in said


def test_a_run_whose_table_is_said_to_promise_less_than_spark_validated_is_refused(tmp_path: Path) -> None:
    run = _stored(tmp_path, "quick-100")
    plan = run / "plan.yaml"
    plan.write_text(plan.read_text().replace("isolation: serializable", "isolation: snapshot"))
    code, said = model("--accept", str(run))
    assert code == 1
    assert f"{run}: unexplained-abort: " in said and "by the validation added data" in said


def test_a_folder_without_a_run_answers_nothing(tmp_path: Path) -> None:
    code, said = model("--accept", str(tmp_path))
    assert (code, said.splitlines()[0][:6]) == (1, "0 runs")


def test_a_model_and_stored_runs_are_two_questions() -> None:
    code, said = model("undelete", "--accept", ".")
    assert code != 0
    assert "name no model with it" in said


def test_a_model_answers_its_question() -> None:
    code, said = model("undelete-serializable")
    assert code == 0, said
    assert "every promise holds" in said


def test_a_counterexample_is_drawn(tmp_path: Path) -> None:
    code, said = model("undelete", "--page", "--store", str(tmp_path))
    assert code == 0, said
    page = Path(said.rpartition("page  ")[2].strip())
    text = page.read_text()
    assert "undelete" in text and "<svg" in text and "which has scanned the start" in text


def test_what_never_happened_is_an_error_of_the_search_step_by_step(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(
        "model: m\nquestion: What?\nkinds: {delete: [merge-on-read], rewrite-data-files: []}\nwrites: 1\ncatalog: ideal\nretries: 0\n"
    )
    code, said = model(str(file))
    assert code == 1
    assert "NEVER FIRED: added data" in said and "NEVER BEGAN: rewrite-data-files" in said
    assert "began: delete" in said


ONE_MORE = [
    "undelete-serializable",
    *(
        pytest.param(m.model, marks=pytest.mark.nightly)
        for m in modelled.find([])
        if m.catalog is None and m.engine != "specification"
    ),
]
"""Models without a catalog, in about twelve minutes of one core at night. What the specification asks for is not enough, so that one write more
breaks more (``specification-upkeep``: vectors, too, after an upgrade)."""


@pytest.mark.parametrize("name", ONE_MORE)
def test_one_write_more_finds_nothing_else(name: str) -> None:
    """Only orders that a smaller bound has no room for could be left out by it."""
    (m,) = modelled.find([name])
    bound = bound_of(m)
    found = search(replace(bound, writes=bound.writes + 1), processes=usable_cores())
    assert {*found.found} == {*m.expect}


def test_models_that_begin_alike_do_not_replace_the_scenarios_of_each_other(tmp_path: Path) -> None:
    text = (modelled.LIBRARY / "undelete.yaml").read_text()
    names = [f"{'of-a-table-' * 3}{which}" for which in ("one", "two")]
    paths = [tmp_path / f"{name}.yaml" for name in names]
    for name, path in zip(names, paths, strict=True):
        path.write_text(text.replace("model: undelete", f"model: {name}"))
    code, said = model(*map(str, paths), "--scenarios", str(tmp_path / "made"))
    assert code == 0, said
    written = {load(path).scenario for path in (tmp_path / "made").glob("*.yaml")}
    assert len(written) == said.count("icequake prove") == len(names)
    assert all(name.startswith("undelete-of-a-table-") and len(name) <= MOST_NAME for name in written)
