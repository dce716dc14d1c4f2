"""A scenario as a script for those who have no icequake, and as the text of an issue: what they hold, and which scenarios can be a script."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from checkers.evidence.journal import Journal
from checkers.evidence.runfolder import RunFolder
from checkers.judge.proof import Proof
from checkers.nights.finds import FILE, FINDS, Find
from checkers.verdict import Anomaly
from harness.cli import exported
from harness.cli.exported import export_command, reproduction
from harness.cli.options import BadArgument
from harness.run.judged import judge_run
from harness.run.recorded import workload_of
from reports.proofs import story
from reports.reproduction.expected import afterwards
from reports.reproduction.exportable import why_not
from reports.reproduction.issue import NOWHERE, issue, seen_of
from reports.reproduction.script import NotExportable, release_for, script
from reports.reproduction.table import table
from tests.harness.experiments.shrink.failedrun import failed_run
from tests.support.runs import ROOT, inside
from workloads.file.scenario import LIBRARY, Scenario, ScenarioStep, load
from workloads.file.suite import Cell
from workloads.file.workload_text import parse

SCENARIOS = {path.stem: load(path) for path in sorted(LIBRARY.glob("*.yaml"))}
EXPORTABLE = [name for name, s in SCENARIOS.items() if why_not(s) is None]
OTHERS = ("duckdb", "py4j", "pyarrow", "pyiceberg", "pyspark")
"""What a script may import besides the standard library."""


def test_at_least_sixty_scenarios_are_scripts_and_the_others_say_why() -> None:
    assert len(EXPORTABLE) >= 60
    for scenario in SCENARIOS.values():
        if (why := why_not(scenario)) is not None:
            with pytest.raises(NotExportable, match=r"cannot be exported as a script: (it|the moment) "):
                script(scenario)
            assert why in issue(scenario)


@pytest.mark.parametrize("name", EXPORTABLE)
def test_a_script_is_python_that_imports_nothing_of_icequake(name: str) -> None:
    tree = ast.parse(script(SCENARIOS[name]))
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert {i.partition(".")[0] for i in imported} <= {*sys.stdlib_module_names, *OTHERS}
    used = {n.value.id for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}
    known = {i.partition(".")[0] for i in imported}
    known |= {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
    assert used & sys.stdlib_module_names <= known
    told = [
        ast.literal_eval(d.args[0])
        for n in tree.body
        if isinstance(n, ast.FunctionDef)
        for d in n.decorator_list
        if isinstance(d, ast.Call)
    ]
    assert told == [s.name for s in SCENARIOS[name].operations]


def test_a_script_pins_a_release_that_shows_the_defect() -> None:
    assert release_for(SCENARIOS["rest-502-retried"]).iceberg == "1.8.1"
    assert release_for(SCENARIOS["rest-502-unknown"]).iceberg == "1.10.2"
    assert release_for(SCENARIOS["undelete"]).iceberg == "1.12.0"
    assert "pip install pyspark==4.0.5" in script(SCENARIOS["rest-502-unknown"])


@pytest.mark.parametrize(
    ("name", "must", "comes"),
    [
        (
            "undelete",
            "Table t has the rows with the ids 0, 2, 3: what the acknowledged operations leave, one after the other in any order.",
            "Table t has the rows with the ids 0, 1, 2, 3. A row that an operation deleted is still in the table",
        ),
        (
            "duckdb-summary-count",
            "Table t has the rows with the ids 0, 1, 2, 3. The summary's metrics are the numbers of files and records",
            "Table t has the rows with the ids 0, 1, 2, 3. The numbers in a snapshot's summary are not those of its files.",
        ),
        ("rest-503-no-rival", "Table t has the rows with the ids 0, 1, 10: what", "Nobody can read table t."),
        (
            "duckdb-502-unreadable",
            "Table t can be read.",
            "Update ends with an error that leaves it open with TransactionException. Spark fails. Nobody can read table t.",
        ),
        ("cached-stale-read", "It must not be that a reader saw a state", "A reader saw a state without a write"),
        (
            "undelete-v3",
            "Delete fails with ValidationException (Found concurrently added DV). Table t has the rows with the ids 0, 1, 2, 3.",
            "Delete fails with ValidationException (Found concurrently added DV). Table t has the rows with the ids 0, 1, 2, 3.",
        ),
        (
            "rest-502-unknown",
            "Table t has the rows with the ids 0, 1, 10. Insert is acknowledged, because it took effect.",
            "Insert ends with an error that leaves it open with CommitStateUnknownException. Table t has the rows with the ids 0, 1, 10.",
        ),
    ],
)
def test_a_script_says_in_words_what_must_come_and_what_comes(name: str, must: str, comes: str) -> None:
    told = " ".join((ast.get_docstring(ast.parse(script(SCENARIOS[name]))) or "").split())
    assert f"What must come: {must}" in told and f"What comes: {comes}" in told


def test_a_script_holds_and_orders_as_its_scenario() -> None:
    text = script(SCENARIOS["undelete"])
    assert 'hold={"update": "completed"}' in text and "DELETE FROM c.repro.t WHERE id = 1" in text


def test_an_issue_about_delta_names_its_software_and_who_made_the_version() -> None:
    text = issue(SCENARIOS["delta-lost-reply-insert"])
    assert "* Delta Lake 4.4.0, Apache Spark" in text and "* log store: icequake's class ConditionalLogStore" in text
    assert (
        "the object store applies the write of its version" in text and "where `{since}` is an earlier version" in text
    )
    assert "Apache Iceberg" not in text and "catalog:" not in text


def test_reads_must_return_what_had_been_acknowledged() -> None:
    text = script(SCENARIOS["read-half-write"])
    assert '"before", writer=1, after={"merge": "held"}, reads=[0, 1, 2, 3]' in text
    assert '"after", writer=1, after={"merge": "completed"}, reads=[0, 1, 2, 3, 10, 11]' in text


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_issue_has_what_a_maintainer_asks_for_first(name: str) -> None:
    text = issue(SCENARIOS[name])
    for heading in ("Versions", "Affected", "Steps", "Expected", "Actual", "Reproduction"):
        assert f"\n## {heading}\n" in text
    assert "no report found" not in text
    for step in SCENARIOS[name].operations:
        assert f"**{step.name}** (writer {step.writer}, " in text


@pytest.mark.parametrize("said", ["undelete with 2 operations", "undelete, rarely, with 3 operations"])
def test_a_name_that_only_icequake_knows_is_no_headline(said: str) -> None:
    small = SCENARIOS["undelete"].model_copy(update={"headline": said})
    for text in (issue(small), script(small)):
        assert "A row that an operation deleted is still in the table" in text.splitlines()[0]


def test_the_page_lists_every_scenario_as_the_code_does() -> None:
    page = (ROOT / "docs" / "exported.md").read_text()
    assert table(SCENARIOS.values()) in page, "write it again: python -m reports.reproduction.table"


def test_the_command_writes_a_script_or_an_issue_of_a_scenario(tmp_path: Path) -> None:
    file = tmp_path / "undelete.py"
    done = inside("export", "undelete", "--as", "script", "-o", file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert file.read_text() == script(SCENARIOS["undelete"])
    done = inside("export", LIBRARY / "undelete.yaml", "--as", "issue", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == issue(SCENARIOS["undelete"])


def test_a_script_calls_itself_by_the_name_of_its_file_and_the_issue_by_its_own(tmp_path: Path) -> None:
    for form, ending in (("script", "py"), ("issue", "md")):
        done = inside("export", "undelete", "--as", form, "-o", tmp_path / f"my own.{ending}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    text = (tmp_path / "my own.py").read_text()
    ast.parse(text)
    assert "python -I 'my own.py'" in text and "undelete.py" not in text
    told = (tmp_path / "my own.md").read_text()
    assert "`icequake export undelete --as script -o 'my own.py'`" in told and "python -I 'my own.py'" in told


def test_a_shell_takes_no_bracket_of_a_package_for_a_pattern() -> None:
    for text in (script(SCENARIOS["pyiceberg-retry"]), issue(SCENARIOS["pyiceberg-retry"])):
        assert "pip install pyspark==4.1.4 'pyiceberg[pyarrow,sql-sqlite]==0.12.0'" in text


def test_an_extension_of_ones_own_takes_the_place_of_duckdb_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    client = SimpleNamespace(execute=loaded.append)
    duckdb = SimpleNamespace(connect=lambda config: client, __file__=str(tmp_path / "duckdb/__init__.py"))
    found: dict[str, Any] = {"os": os, "Path": Path, "sys": sys, "duckdb": duckdb, "DUCKDB_SETTINGS": ()}
    exec(resources.files("reports").joinpath("templates/reproduction/duckdb.txt").read_text(), found)
    own = tmp_path / "iceberg.duckdb_extension"
    monkeypatch.setenv("DUCKDB_ICEBERG", str(own))
    with pytest.raises(SystemExit, match=r"DUCKDB_ICEBERG: .* is no file"):
        found["open_duckdb"](None, "http://x")
    own.touch()
    loaded.clear()
    found["open_duckdb"](None, "http://x")
    assert loaded[:3] == ["INSTALL httpfs; LOAD httpfs", "INSTALL avro; LOAD avro", f"LOAD '{own}'"]


def test_what_cannot_be_a_script_is_refused_with_a_reason(recorded_run: Path, tmp_path: Path) -> None:
    for what, says in (
        ("jdbc-lost-ack", "it needs a proxy of PostgreSQL's protocol"),
        (
            recorded_run,
            "is the run of a workload, and a script shows a scenario; reduce it to one with: icequake shrink",
        ),
    ):
        done = inside("export", what, "--as", "script", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (254, "")
        assert says in " ".join(done.stderr.split()), done.stderr


@pytest.mark.parametrize(("name", "form"), [("undelete", "script"), ("jdbc-lost-ack", "issue")])
def test_what_is_given_away_has_no_secret_of_its_scenario(name: str, form: str, tmp_path: Path) -> None:
    plain, file = (LIBRARY / f"{name}.yaml").read_text(), tmp_path / "mine.yaml"
    secrets = {
        "token": "tok-8f2a6c1d",
        "oauth2-server-uri": "https://me:hunter2-hunter2@host/t",
        "cache-enabled": "false",
    }
    given = {**yaml.safe_load(plain).get("catalog_properties", {}), **secrets}
    file.write_text(yaml.safe_dump({**yaml.safe_load(plain), "scenario": "mine", "catalog_properties": given}))
    done = inside("export", file, "--as", form, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "cache-enabled" in done.stdout and "oauth2-server-uri" in done.stdout
    assert "8f2a6c1d" not in done.stdout and "hunter2" not in done.stdout


def test_a_scenario_of_ones_own_catalog_is_no_script() -> None:
    own = SCENARIOS["undelete"].model_copy(update={"catalog": "mine.yaml"})
    assert isinstance(own, Scenario) and why_not(own) == "it needs a catalog of your own"


def test_what_should_be_is_what_serial_orders_leave_that_real_time_allows() -> None:
    assert afterwards(SCENARIOS["undelete"]) == {"t": [[0, 2, 3]]}
    assert afterwards(SCENARIOS["merge-insert-duplicates"]) == {"t": [[0, 1, 7]]}
    assert afterwards(SCENARIOS["rest-503-unreadable"]) == {"t": [[0, 1]]}, "what is reported as failed has no effect"
    assert afterwards(SCENARIOS["undelete-serializable"]) == {}, "what came is one of them"
    assert afterwards(SCENARIOS["insert-select-skew"]) == {"t": [[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]]}


def test_the_line_that_exports_names_the_form_that_there_is() -> None:
    assert export_command(SCENARIOS["undelete"], "undelete").endswith(" export undelete --as script -o undelete.py")
    assert export_command(SCENARIOS["jdbc-lost-ack"], "/x y/jdbc.yaml").endswith(
        " export '/x y/jdbc.yaml' --as issue -o jdbc-lost-ack.md"
    )


@pytest.mark.parametrize("program", ["docker run --rm image", "kubectl exec pod -- /opt/icequake"])
def test_a_container_s_file_is_written_by_the_shell_that_calls_it(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No folder of the container can be written and outlives it."""
    monkeypatch.setenv("ICEQUAKE_COMMAND", program)
    line = export_command(SCENARIOS["jdbc-lost-ack"], "/x y/jdbc.yaml")
    assert line == f"{program} export '/x y/jdbc.yaml' --as issue > jdbc-lost-ack.md"


OWN_RUN = {
    "iceberg": "1.13.0-SNAPSHOT",
    "spark": "4.1.4",
    "iceberg-commit": "0a1b2c (newest tag before it: apache-iceberg-1.12.0)",
    "iceberg-jar": "sha256:feed",
}


def test_script_and_issue_of_a_run_name_its_release() -> None:
    ran = {"iceberg": "1.11.0", "spark": "4.1.4"}
    text = script(SCENARIOS["undelete"], ran)
    assert "iceberg-spark-runtime-4.1_2.13:1.11.0" in text and "1.12.0" not in text
    assert "Apache Iceberg 1.11.0, Apache Spark 4.1.4" in issue(SCENARIOS["undelete"], ran)
    older = {"iceberg": "1.10.2", "spark": "4.0.5"}
    assert "pip install pyspark==4.0.5" in issue(SCENARIOS["undelete"], older)
    assert "pip install pyspark==4.0.5" in script(SCENARIOS["undelete"], older)
    oldest = {"iceberg": "1.9.2", "spark": "3.5.9"}
    with pytest.raises(NotExportable, match=r"it needs Spark 3\.5\.9"):
        script(SCENARIOS["undelete"], oldest)
    assert "it needs Spark 3.5.9" in issue(SCENARIOS["undelete"], oldest)


def test_a_build_of_ones_own_is_named_and_the_script_wants_its_jar() -> None:
    said = "a build of one's own of commit 0a1b2c (newest tag before it: apache-iceberg-1.12.0), its jar has the SHA-256 feed"
    text, told = script(SCENARIOS["undelete"], OWN_RUN), issue(SCENARIOS["undelete"], OWN_RUN)
    ast.parse(text)
    assert f"Apache Iceberg 1.13.0-SNAPSHOT ({said})" in told and "ICEBERG_JAR=FILE python -I undelete.py" in told
    assert said in " ".join(text.split()) and "iceberg-spark-runtime-4.1_2.13:1.13.0-SNAPSHOT" in text
    assert 'if "ICEBERG_JAR" not in os.environ:' in text
    assert 'if "ICEBERG_JAR" not in os.environ:' not in script(SCENARIOS["undelete"])


def test_a_jar_of_ones_own_takes_the_place_of_the_runtime_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = tmp_path / "my.jar", "org.xerial:sqlite-jdbc:3.1"
    own.touch()
    (tmp_path / "sqlite-jdbc-3.1.jar").touch()
    monkeypatch.setenv("JARS", str(tmp_path))
    monkeypatch.setenv("ICEBERG_JAR", str(own))
    found: dict[str, Any] = {"os": os, "Path": Path, "sys": sys}
    exec(resources.files("reports").joinpath("templates/reproduction/jars.txt").read_text(), found)
    wanted = ["org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", other]
    assert found["jars"](wanted) == [str(own), str(tmp_path / "sqlite-jdbc-3.1.jar")]
    own.unlink()
    with pytest.raises(SystemExit, match="is no file"):
        found["jars"](wanted)


def test_an_issue_says_what_a_name_means_what_was_seen_and_which_request_is_held() -> None:
    text = issue(SCENARIOS["row-ids-renumbered"], seen={"kept-row-id": "row 3 had the id 3 and has 7"})
    assert "A file that was kept got another first row id. (icequake's name: `kept-row-id`)\n\n  <details>" in text
    assert "one run of it</summary>\n\n  row 3 had" in text
    first, *others = SCENARIOS["undelete"].operations
    held = [o.model_copy(update={"nth": 2, "at": "load"}) if o.hold else o for o in (first, *others)]
    second = SCENARIOS["undelete"].model_copy(update={"operations": tuple(held)})
    assert "its second load of the table is held until" in issue(second)


def test_an_issue_of_a_shrunk_scenario_names_its_file_and_a_work_around() -> None:
    small = SCENARIOS["undelete"].model_copy(update={"scenario": "undelete-small", "remedy": ""})
    text = issue(small, typed="shrunk/a b.yaml")
    assert "`icequake export 'shrunk/a b.yaml' --as script -o undelete-small.py`" in text
    assert "## Work-around\n\nSet `write.delete.isolation-level` (for DELETE), " in text


@pytest.mark.parametrize(
    ("catalog", "told"),
    [("rest", "answered 503"), ("jdbc", "answered by PostgreSQL's error 08006"), ("hive", "answered by an exception")],
)
def test_an_issue_says_which_error_the_writer_gets(catalog: str, told: str) -> None:
    fault = {"status": 503, "sqlstate": "08006"}
    first, *others = SCENARIOS["jdbc-last-attempt"].operations
    struck = ScenarioStep.model_validate({**first.model_dump(exclude_defaults=True), "fault": fault})
    scenario = SCENARIOS["jdbc-last-attempt"].model_copy(update={"operations": (struck, *others), "catalog": catalog})
    assert f"and the writer is {told}" in issue(scenario)


def test_an_issue_of_what_is_no_script_has_the_whole_scenario(tmp_path: Path) -> None:
    name = next(n for n, s in SCENARIOS.items() if why_not(s) is not None)
    mine = tmp_path / "mine.yaml"
    mine.write_text((LIBRARY / f"{name}.yaml").read_text())
    told = issue(SCENARIOS[name], typed=str(mine))
    assert f"```yaml\n{mine.read_text().rstrip()}\n```" in told
    assert "`icequake prove mine.yaml` shows it" in told and str(tmp_path) not in told, "no folder of a disk"
    assert "```yaml" not in issue(SCENARIOS[name])


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("undelete", "With `ICEBERG_JAR=FILE` and"),
        ("duckdb-delete-other-vector", "With `DUCKDB_ICEBERG=FILE` and"),
        ("pyiceberg-upsert-duplicates", "With the fix installed and"),
    ],
)
def test_an_issue_says_how_its_script_tests_a_fix_of_the_engine_at_fault(name: str, how: str) -> None:
    assert how in issue(SCENARIOS[name])


def own_folder(night: Path) -> RunFolder:
    """A failed run of a workload in a night's folder, judged."""
    run = RunFolder(failed_run(night / "runs"))
    judge_run(run, lambda *_: None)
    return run


def test_the_issue_of_a_failed_run_has_its_workload_its_seed_its_statements_and_why_it_is_not_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = own_folder(tmp_path)
    with monkeypatch.context() as nobody_knows_it:
        nobody_knows_it.setattr(exported, "stories_view", SimpleNamespace(shapes=lambda _: []))
        text = reproduction(tmp_path, run.path, "issue", print)
        assert "Nobody has made the run small; `icequake shrink` of its folder tries that." in text
    text = reproduction(tmp_path, run.path, "issue", print)
    assert (
        text.startswith("# 1 ") and "`icequake export undelete --as issue` is the same defect in a fixed order." in text
    )
    file = re.search(r"```yaml\n(.*?)\n```", text, re.DOTALL)
    assert file is not None and parse(file[1]) == workload_of(run.read_plan(), run)
    plan = run.read_plan()
    assert f"`icequake run {plan.workload}.yaml --seed {plan.seed} --iceberg 1.12.0`" in text
    first = json.loads(run.results.read_text())["checkers"]
    why = next(a["explanation"] for v in first for a in v["anomalies"] if a["name"] == "undelete")
    for said in ("* Apache Iceberg 1.12.0", "* catalog rest", "## Expected", "CREATE TABLE", "DELETE FROM", why):
        assert said in text, said
    cell = Cell("two", "rest", "none", "1.12.0", "")
    find = Find(cell, 1, run.path.relative_to(tmp_path).as_posix(), "undelete", "failed", reason="no gate")
    with Journal(tmp_path / FILE, FINDS) as journal:
        journal.append(find)
    assert "undelete was not shrunk: no gate." in reproduction(tmp_path, run.path, "issue", print)


@pytest.mark.parametrize(
    ("order", "written", "said"),
    [("priority(3)", "priority(3)", "and `order` mostly"), ("free", None, "not"), ("replay /home/me/run", None, "not")],
)
def test_the_issue_of_a_run_has_the_order_that_its_user_chose(
    tmp_path: Path, order: str, written: str | None, said: str
) -> None:
    run = own_folder(tmp_path)
    run.plan.write_text(re.sub(r"^order: .*\n", "", run.plan.read_text(), flags=re.MULTILINE) + f"order: {order}\n")
    text = reproduction(tmp_path, run.path, "issue", print)
    file = re.search(r"```yaml\n(.*?)\n```", text, re.DOTALL)
    assert file is not None and parse(file[1]).order == written
    assert f"statements and faults come, {said} which of two writers is first" in text


def test_the_issue_of_a_run_of_a_workload_without_an_anomaly_is_refused(tmp_path: Path) -> None:
    run = own_folder(tmp_path)
    results = json.loads(run.results.read_text())
    run.results.write_text(json.dumps({**results, "valid": True, "checkers": []}))
    with pytest.raises(BadArgument, match="no checker found an anomaly, so there is nothing to report"):
        reproduction(tmp_path, run.path, "issue", print)
    run.results.write_text(json.dumps(results))
    plan = yaml.safe_load(run.plan.read_text())
    run.plan.write_text(yaml.safe_dump({**plan, "phases": []}))
    with pytest.raises(BadArgument, match="the plan does not say the whole workload, so nobody could make the run"):
        reproduction(tmp_path, run.path, "issue", print)
    run.plan.write_text(yaml.safe_dump(plan))
    run.results.unlink()
    with pytest.raises(BadArgument, match="was not judged; judge it with"):
        reproduction(tmp_path, run.path, "issue", print)


def judged_run(folder: Path, name: str, state: str, found: list[dict[str, str]]) -> Path:
    """The folder of a judged run of a scenario."""
    folder.mkdir()
    plan = {"workload": name, "versions": {"iceberg": "1.11.0", "spark": "4.1.4"}}
    planned = SCENARIOS[name].model_dump(mode="json", exclude_defaults=True)
    (folder / "plan.yaml").write_text(yaml.safe_dump({**plan, "scenario": planned}))
    (folder / "run.json").write_text('{"state": "complete"}')
    results = {"scenario": {"state": state}, "checkers": [{"checker": "replay", "anomalies": found}]}
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def test_the_export_of_a_run_has_its_release_and_what_was_seen(tmp_path: Path) -> None:
    where = "https://iceberg.apache.org/x"
    found = [
        {"name": "undelete", "explanation": "the delete of id 1.", "documented": where},
        {"name": "undelete", "explanation": "another"},
    ]
    folder = judged_run(tmp_path / "run", "undelete", "reproduced", found)
    told = reproduction(tmp_path, folder, "issue", print)
    assert "Apache Iceberg 1.11.0" in told and "another" not in told
    assert f"the delete of id 1. It is documented as possible: {where}" in told
    assert "`icequake export run --as script -o undelete.py`" in told and str(tmp_path) not in told, (
        "no folder of a disk"
    )
    assert ":1.11.0" in reproduction(tmp_path, folder, "script", print)
    in_store = tmp_path / "store" / "undelete" / "20261128T141719.331Z"
    in_store.parent.mkdir(parents=True)
    folder.rename(in_store)
    told = reproduction(tmp_path, in_store, "issue", print)
    assert "`icequake export store/undelete/20261128T141719.331Z --as script" in told, (
        "it can be typed beside the store"
    )


def test_a_script_without_its_packages_says_what_to_install_and_tests_nothing(tmp_path: Path) -> None:
    file = tmp_path / "undelete.py"
    file.write_text(script(SCENARIOS["undelete"]).replace("import pyspark\n", "import no_such_package\n", 1))
    done = subprocess.run([sys.executable, "-I", file], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "NOT TESTED: No module named 'no_such_package': pip install pyspark==4.1.4\n"


def test_a_run_that_was_not_judged_is_to_be_judged_first(tmp_path: Path) -> None:
    folder = judged_run(tmp_path / "run", "undelete", "reproduced", [])
    (folder / "results.json").unlink()
    done = inside("export", folder, "--as", "issue", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (254, "")
    assert f"{folder} was not judged; judge it with: " in done.stderr and f"check {folder}" in done.stderr


@pytest.mark.parametrize(
    ("name", "state", "found"),
    [
        ("undelete", "fixed", "expected-not-found"),
        ("undelete", "not reproduced", "expected-not-found"),
        ("undelete", "not reproduced", "lost-update"),
        ("undelete", "later", ""),
        ("undelete-serializable", "reproduced", ""),
    ],
)
def test_a_run_that_did_not_show_it_is_nothing_to_report(tmp_path: Path, name: str, state: str, found: str) -> None:
    seen = [{"name": found, "explanation": "It was seen."}] if found else []
    folder = judged_run(tmp_path / "run", name, state, seen)
    done = inside("export", folder, "--as", "issue", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (254, "")
    assert "this run did not show it: nothing to report; export the scenario by its name, or a run that showed it" in (
        " ".join(done.stderr.split())
    )
    done = inside("export", folder, "--as", "script", cwd=tmp_path)
    assert done.returncode == 0 and "def " in done.stdout
    assert ("this run did not show it" in done.stderr) == (name == "undelete"), "a promise that was kept is as written"


def test_a_run_that_shows_it_among_other_things_is_reported(tmp_path: Path) -> None:
    folder = judged_run(tmp_path / "run", "undelete", "not reproduced", [{"name": "undelete", "explanation": "id 1"}])
    done = inside("export", folder, "--as", "issue", cwd=tmp_path)
    assert done.returncode == 0 and "id 1" in done.stdout and "did not show" not in done.stderr


def test_a_fixed_defect_needs_no_remedy() -> None:
    scenario = SCENARIOS["jdbc-no-rival"]
    found = {"expected-not-found": "what it was written to show is no longer there"}
    told = "\n".join(story(scenario, Proof(scenario.scenario, "fixed", found=found)))
    assert "This version has the fix, which came with 1.10.2" in told
    assert "Remedy" not in told and "no longer there" not in told
    assert "Remedy: Upgrade" in "\n".join(story(scenario, Proof(scenario.scenario, "reproduced")))


def test_an_issue_of_metadata_has_the_rule_the_numbers_the_snapshot_and_the_file() -> None:
    small = SCENARIOS["duckdb-summary-count"]
    said = "the summary of snapshot 7 does not match what the snapshot did: removed-delete-files is 0, its manifests have 1."
    seen = seen_of([Anomaly("summary-count", "metadata", "t", said, snapshots=(7, 8), files=("s3://b/v.puffin",))])
    for text in (issue(small, seen=seen), issue(small.model_copy(update={"seen": seen}))):
        expected = text.partition("## Expected")[2].partition("## Actual")[0]
        assert "`summary-count`" not in expected, "it says what should be, not what went wrong"
        assert "* The summary's metrics are the numbers of files and records" in expected
        assert "https://iceberg.apache.org/spec/#optional-snapshot-summary-fields" in expected
        actual = text.partition("## Actual")[2]
        assert said in " ".join(actual.split()) and "It is about snapshot 8, file s3://b/v.puffin." in actual


@pytest.mark.parametrize(
    ("name", "link", "where"),
    [
        ("duckdb-summary-count", "", "See https://github.com/duckdb/duckdb-iceberg/issues/1121"),
        ("duckdb-summary-count", NOWHERE, "The tracker of this code: https://github.com/duckdb/duckdb-iceberg/issues"),
        ("duckdb-merge-row-ids", "", "The tracker of this code: https://github.com/duckdb/duckdb-iceberg/issues"),
        ("pyiceberg-upsert-race", NOWHERE, "The tracker of this code: https://github.com/apache/iceberg-python/issues"),
        ("delta-rs-lost-reply", NOWHERE, "The tracker of this code: https://github.com/delta-io/delta-rs/issues"),
        ("nessie-first-commit", NOWHERE, "The tracker of this code: https://github.com/projectnessie/nessie/issues"),
        ("undelete", NOWHERE, "The tracker of this code: https://github.com/apache/iceberg/issues"),
    ],
)
def test_an_issue_names_the_tracker_of_the_code_that_it_is_about(name: str, link: str, where: str) -> None:
    scenario = SCENARIOS[name]
    affected = issue(scenario.model_copy(update={"link": link or scenario.link})).partition("## Affected")[2]
    affected = affected.partition("## Steps")[0]
    assert where in affected and NOWHERE not in affected
