"""Scenario files: what is accepted, what is refused and how it is said, and what is decided of what was seen."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest

from checkers.evidence.history import History, read
from checkers.evidence.plan import Plan
from checkers.evidence.recorder import Recorder
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.judge.proof import PLANNED, PROBLEMS, Proof, decide, proof_of, strange_ends
from checkers.judge.releases import newer, surely_has
from checkers.judge.runfolder import Results, ScenarioOutcome
from checkers.verdict import Anomaly, Validity, Verdict
from harness.experiments.prove import ScenarioScript, alone
from harness.run.errors import RunError
from nemesis.proxy.board import Board
from reports.proofs import exit_code, rows
from workloads.file import scenario
from workloads.file.anomalies import entries_of
from workloads.file.mode import AS_USERS, QUICK
from workloads.file.scenario import Scenario
from workloads.file.workload import WorkloadError

FILE = """\
scenario: undelete
description: a delete that does not
link: https://example.org/1
affected: all
tables:
  - {name: t, seed_rows: 2}
operations:
  - name: delete
    writer: 0
    do: delete
    value: {ids: [1]}
    hold: {update: completed}
  - name: update
    writer: 1
    do: update-register
    value: {ids: [1]}
    after: {delete: held}
anomalies: [undelete]
final: {t: [0, 1]}
"""


def given(*changes: tuple[str, str]) -> str:
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def test_the_library_is_valid_and_every_file_is_named_like_its_scenario() -> None:
    files = sorted(scenario.LIBRARY.glob("*.yaml"))
    assert files
    for path in files:
        assert scenario.load(path).scenario == path.stem
    assert [s.scenario for s in scenario.find([])] == [p.stem for p in files]


def test_every_scenario_has_a_headline_that_can_follow_a_colon() -> None:
    for s in scenario.find([]):
        assert s.headline and not s.headline.endswith(".") and s.shows == s.headline, s.scenario
        first = s.headline.split()[0]
        assert first.islower() or not first[1:].islower(), f"{s.scenario}: begins like a sentence"
        assert not s.remedy or s.remedy.endswith("."), s.scenario
        if s.fixed is not None and s.anomalies:
            assert s.fixed in s.remedy, f"{s.scenario}: the release without the defect is a remedy"


@pytest.mark.parametrize("path", sorted(scenario.LIBRARY.glob("*.yaml")), ids=lambda p: p.stem)
def test_what_a_scenario_says_is_understood_without_knowing_another(path: Path) -> None:
    """Its sentences go into the text for a tracker, whose readers do not know the library."""
    told, others = scenario.load(path), [p.stem for p in scenario.LIBRARY.glob("*.yaml") if p.stem != path.stem]
    text = " ".join((told.headline, told.description, told.affected, told.remedy, told.state or ""))
    named = [name for name in others if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]
    assert not named, f"say what {', '.join(named)} does in place of its name"
    assert not re.search(r"\bcontrol\b|^As |^The (operations|sequence) of ", told.description, re.I)


def test_without_a_headline_a_scenario_shows_the_first_sentence_of_its_description() -> None:
    s = scenario.parse(given(("description: ", "description: It breaks. Then more. ")))
    assert s.headline == "" and s.shows == "It breaks"


def test_a_scenario_is_quick_unless_it_says_otherwise() -> None:
    s = scenario.parse(FILE)
    assert s.mode == s.workload().mode == QUICK
    other = scenario.parse(f"{FILE}session: spark\ncluster: standalone\n")
    assert other.mode == other.workload().mode == AS_USERS


def test_a_plan_holds_a_scenario_as_it_is() -> None:
    for s in scenario.find([]):
        assert Scenario.model_validate(json.loads(json.dumps(s.model_dump(mode="json", exclude_defaults=True)))) == s


def test_operation_ids_count_the_seeding_inserts_of_their_writer() -> None:
    s = scenario.parse(FILE)
    assert (s.op("delete"), s.op("update")) == ("w0-1", "w1-0")
    more = scenario.parse(
        given(("  - {name: t, seed_rows: 2}", "  - {name: t}\n  - {name: e, seed_rows: 0}\n  - {name: u}"))
    )
    assert (more.op("delete"), more.op("update")) == ("w0-1", "w1-1")


LATE = "fault: {verb: late, status: 504}\n    hold: {delete: completed}\n"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("affected: all", "afected: all")], "<scenario>:4: unknown key 'afected' (did you mean affected?)"),
        ([("    writer: 0", "    writters: 0")], "<scenario>:9: unknown key 'writters' (did you mean writer?)"),
        ([("hold: {update: completed}", "hold: {update: soon}")], "<scenario>:12: update: 'soon' is not allowed"),
        ([("hold: {update: completed}", "hold: {updat: completed}")], "<scenario>:12: hold: no other operation 'updat'"),
        ([("hold: {update: completed}", "hold: {delete: completed}")], "hold: no other operation 'delete'"),
        ([("hold: {update: completed}", "hold: {update: held}")], "hold: update has no hold, fault or kill"),
        ([("do: delete", "do: delet")], "<scenario>:10: do: unknown operation 'delet' (did you mean delete?)"),
        (
            [("value: {ids: [1]}", "value: {id: 1}")],
            "<scenario>:11: value: not the arguments of delete: ids is missing; write such as value: {ids: [",
        ),
        (
            [
                ("tables:", 'engines: {"0": duckdb}\ntables:'),
                ("do: delete\n    value: {ids: [1]}\n", "do: set-property\n"),
            ],
            ": value: not the arguments of set-property: property is missing; write such as value: {property: icequake.p",
        ),
        (
            [("do: delete", "do: rename-column"), ("{ids: [1]}", "{column: extra_1}")],
            "<scenario>:11: value: not the arguments of rename-column: to is missing; write such as value: {column: extra_",
        ),
        ([("name: update\n", "name: delete\n")], "<scenario>:13: operation 'delete' is defined twice"),
        ([("final: {t:", "final: {u:")], "<scenario>:19: final: unknown table 'u'; allowed: t"),
        ([("after: {delete: held}", "after: {delete: completed}")], "delete, update can never end"),
        ([("hold: {update: completed}", "fault: {status: 200}")], "<scenario>:12: status:"),
        ([("hold: {update: completed}", "fault: {verb: late, status: 504}")], "late: needs hold, such as {delete: completed}"),
        ([("hold: {update: completed}", f"{LATE}    kill: true")], "kill: late answers delete"),
        ([("hold: {update: completed}", "kill: always")], "<scenario>:12: kill: must be true or false"),
        ([("link: https:", "link: ftp:")], "<scenario>:3: link: 'ftp://example.org/1' must be an address"),
        ([("final: {t: [0, 1]}", "")], "missing key 'final'"),
        ([("writer: 0", "writer: 9")], "<scenario>:9: writer:"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_line_and_key(changes: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(WorkloadError) as e:
        scenario.parse(given(*changes))
    assert said in str(e.value)
    assert "\n" not in str(e.value)


def test_a_late_commit_may_wait_for_the_answer_that_its_own_writer_gets() -> None:
    late = ("    hold: {update: completed}\n", f"    {LATE}")
    assert scenario.parse(given(late)).operations[0].gated


def test_an_operation_whose_writer_is_killed_waits_at_the_gate_until_then() -> None:
    s = scenario.parse(given(("    hold: {update: completed}", "    kill: true")))
    assert s.operations[0].gated and s.operations[0].hold is None


def test_a_name_that_is_not_there_says_what_was_meant_and_what_lists_all() -> None:
    with pytest.raises(WorkloadError) as e:
        scenario.find(["undelet"])
    says = "undelet: no such scenario (did you mean undelete?); `icequake list scenarios` has all"
    assert str(e.value) == says
    for missing in ("shrinks/undelete/scenario.yaml", "undelete.yaml"):
        with pytest.raises(WorkloadError, match=f"^{missing}: no such file; `icequake list scenarios` has the names"):
            scenario.find([missing])


@pytest.mark.parametrize(
    "typed",
    [
        "15511",
        "#15511",
        "iceberg#15511",
        "apache/iceberg#15511",
        "https://github.com/apache/iceberg/pull/15511",
        "https://www.github.com/apache/iceberg/pull/15511/",
        "https://github.com/apache/iceberg/issues/15511#issuecomment-3",
        "github.com/apache/iceberg/pull/15511/files",
    ],
)
def test_the_number_or_address_of_an_issue_leads_to_its_scenarios(typed: str) -> None:
    of_it = {s.scenario for s in scenario.find([]) if s.link.endswith("/pull/15511")}
    assert of_it and {s.scenario for s in scenario.of_issue(typed)} == of_it
    with pytest.raises(WorkloadError) as e:
        scenario.find([typed])
    assert str(e.value) == f"{typed} is no scenario but an issue: icequake prove {' '.join(sorted(of_it))}"


@pytest.mark.parametrize(
    "typed", ["5511", "delta#15511", "berg#15511", "apache/iceberg-python#15511", "iceberg", "", "#"]
)
def test_what_is_no_issue_of_a_scenario_leads_nowhere(typed: str) -> None:
    assert scenario.of_issue(typed) == []


def test_the_key_of_another_tracker_is_an_issue() -> None:
    assert {"HIVE-26882" in s.link for s in scenario.of_issue("HIVE-26882")} == {True}


# --- decide -----------------------------------------------------------------------------------------------------------

REFUSED = [["org.apache.iceberg.exceptions.ValidationException", "Found conflicting files"]]


def told(path: Path, s: Scenario, ids: list[int] | None, delete: str = "ok") -> History:
    """The history of a run: seeding, both operations, a final read that returns ``ids`` or fails."""
    with Recorder(path / "history.jsonl", {"workload": s.scenario}) as r:
        steps = [("insert", "w0-0", 0, {"ids": [0, 1]}), ("delete", "w0-1", 0, {"ids": [1]})]
        for f, op, process, value in [*steps, ("update-register", "w1-0", 1, {"ids": [1]})]:
            kind = delete if op == "w0-1" else "ok"
            r.record("invoke", process, f, table="t", value=value, op=op, phase="main")
            r.record(kind, process, f, table="t", op=op, error=None if kind == "ok" else REFUSED)  # type: ignore[arg-type]
        r.record("invoke", 1, "read", table="t", value={}, op="w1-1", phase="final-reads")
        found = [[i, "v", 0, "v", 0] for i in ids or ()]
        r.record("fail" if ids is None else "ok", 1, "read", table="t", value=found, op="w1-1")
    return read(path / "history.jsonl")


def found(*names: str, valid: Validity = False, same_as: str | None = None) -> Results:
    anomalies = tuple(Anomaly(n, "replay", "t", "why", same_as=same_as) for n in names)
    return Results((Verdict("replay", valid, anomalies),), valid)


def test_it_is_reproduced_when_outcomes_anomalies_and_rows_are_as_the_scenario_says(tmp_path: Path) -> None:
    s = scenario.parse(FILE)
    assert decide(s, told(tmp_path, s, [0, 1]), found("undelete"), "1.12.0") == ("reproduced", ())


def test_what_a_scenario_allows_may_be_found_too(tmp_path: Path) -> None:
    s = scenario.parse(given(("anomalies: [undelete]", "anomalies: [undelete]\nallow: [stale-read]")))
    history = told(tmp_path, s, [0, 1])
    assert decide(s, history, found("undelete", "stale-read"), "1.12.0")[0] == "reproduced"
    assert decide(s, history, found("undelete"), "1.12.0")[0] == "reproduced"
    assert decide(s, history, found("stale-read"), "1.12.0")[0] == "not reproduced"
    assert s.workload().allow == entries_of("stale-read")


def test_a_run_folder_tells_what_came_of_its_scenario(tmp_path: Path) -> None:
    s = scenario.parse(FILE)
    history = told(tmp_path, s, [0, 1])
    folder = RunFolder(tmp_path)
    plan = {"workload": "undelete", "versions": {"iceberg": "1.12.0"}}
    folder.write_plan(Plan.model_validate({**plan, PLANNED: s.model_dump(mode="json", exclude_defaults=True)}))
    folder.write_state({"state": "complete"})
    assert proof_of(folder, history, found("undelete")) == ScenarioOutcome("reproduced")
    assert proof_of(folder, history, found(valid=True)) == ScenarioOutcome("not reproduced", ("did not find undelete",))
    folder.write_state({"state": "complete", PROBLEMS: ["delete never reached the gate"]})
    assert proof_of(folder, history, found("undelete")) == ScenarioOutcome(
        "not reproduced", ("delete never reached the gate",)
    )
    folder.write_plan(Plan.model_validate(plan))
    assert proof_of(folder, history, found("undelete")) is None, "the run of a workload"


@pytest.mark.parametrize(("deltalake", "state"), [("1.6.3", "later"), ("1.6.6", "not reproduced")])
def test_versions_are_those_of_the_software_that_a_scenario_is_about(
    tmp_path: Path, deltalake: str, state: str
) -> None:
    s = scenario.parse(given(("anomalies: [undelete]", "anomalies: [undelete]\nsoftware: deltalake\nsince: 1.6.6")))
    folder, plan = RunFolder(tmp_path), {"versions": {"iceberg": "1.12.0", "deltalake": deltalake}}
    kept = {"workload": "undelete", **plan, PLANNED: s.model_dump(mode="json", exclude_defaults=True)}
    folder.write_plan(Plan.model_validate(kept))
    folder.write_state({"state": "complete"})
    said = proof_of(folder, told(tmp_path, s, [0, 1]), found(valid=True))
    assert said is not None and said.state == state


@pytest.mark.parametrize(
    ("ids", "delete", "results", "why"),
    [
        ([0, 1], "fail", found("undelete"), "delete ended fail (ValidationException: Found conflicting files), not ok"),
        ([0, 1], "ok", found(valid=True), "did not find undelete"),
        ([0, 1], "ok", found("undelete", "lost-commit"), "found lost-commit (replay), which it does not expect"),
        ([0, 1], "ok", found("undelete", valid="unknown"), "replay could not decide"),
        ([0, 1], "ok", replace(found("undelete"), complete=False), "the run did not come to its end"),
        ([0], "ok", found("undelete"), "t at the end: [0] as read by w1-1, not [0, 1]"),
        ([0, 1, 1], "ok", found("undelete"), "t at the end: [0, 1, 1]"),
        (None, "ok", found("undelete"), "t at the end: unreadable"),
    ],
)
def test_anything_else_is_not_and_says_what(
    tmp_path: Path, ids: list[int] | None, delete: str, results: Results, why: str
) -> None:
    s = scenario.parse(FILE)
    state, reasons = decide(s, told(tmp_path, s, ids, delete), results, "1.12.0")
    assert state == "not reproduced"
    assert any(why in r for r in reasons), reasons


def test_what_second_opinions_make_of_the_expected_anomaly_is_expected(tmp_path: Path) -> None:
    s = scenario.parse(FILE)
    both = found("undelete").verdicts + found("lost-update", same_as="undelete").verdicts
    assert decide(s, told(tmp_path, s, [0, 1]), Results(both, False), "1.12.0")[0] == "reproduced"


@pytest.mark.parametrize(
    ("unexplained", "more", "state"),
    [
        (["w0-0"], (), "reproduced"),
        (["w1-0"], (), "not reproduced"),
        (["w0-0"], ("t: another reason",), "not reproduced"),
    ],
)
def test_isolation_may_be_undecided_about_the_operations_of_the_expected_anomaly_alone(
    tmp_path: Path, unexplained: list[str], more: tuple[str, ...], state: str
) -> None:
    s = scenario.parse(FILE)
    anomaly = Anomaly("undelete", "replay", "t", "why", ops=("w0-0",))
    stats = {"tables": {"t": {"unexplained_ops": unexplained}}}
    isolation = Verdict("isolation", "unknown", (), stats, ("t: 1 operations are explained by no state", *more))
    results = Results((Verdict("replay", False, (anomaly,)), isolation), False)
    assert decide(s, told(tmp_path, s, [0, 1]), results, "1.12.0")[0] == state


def test_checkers_may_be_undecided_where_nobody_can_read(tmp_path: Path) -> None:
    s = scenario.parse(given(("final: {t: [0, 1]}", "final: {t: unreadable}")))
    assert decide(s, told(tmp_path, s, None), found("undelete", valid="unknown"), "1.12.0") == ("reproduced", ())


@pytest.mark.parametrize(("version", "state"), [("1.11.9", "not reproduced"), ("1.12.0", "fixed"), ("1.13", "fixed")])
def test_a_defect_that_is_gone_is_fixed_from_the_version_that_the_scenario_names(
    tmp_path: Path, version: str, state: str
) -> None:
    s = scenario.parse(given(("affected: all", "affected: some\nfixed: 1.12.0")))
    assert decide(s, told(tmp_path, s, [0], "fail"), found(valid=True), version)[0] == state


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("1.10.1", "later"),
        ("1.9", "later"),
        ("1.10.2", "not reproduced"),
        ("1.11", "not reproduced"),
        ("unknown", "not reproduced"),
    ],
)
def test_a_promise_is_asked_of_versions_from_the_one_that_gave_it(tmp_path: Path, version: str, state: str) -> None:
    s = scenario.parse(given(("affected: all", "affected: none\nsince: 1.10.2"), ("anomalies: [undelete]\n", "")))
    history = told(tmp_path, s, [0, 1])
    assert decide(s, history, found("undelete"), version)[0] == state
    assert decide(s, history, found(valid=True), version) == ("reproduced", ())
    assert Proof("s", "later", ("why",)).as_said


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("1.11.0", "reproduced"),
        ("1.12.0-SNAPSHOT", "reproduced"),
        ("1.12.0-rc1", "reproduced"),
        ("1.12.0", "back"),
        ("1.13.0-SNAPSHOT", "back"),
        ("1.12.1-rc0", "back"),
    ],
)
def test_a_fixed_defect_that_shows_again_is_not_as_expected(tmp_path: Path, version: str, state: str) -> None:
    s = scenario.parse(given(("affected: all", "affected: some\nfixed: 1.12.0")))
    found_state, why = decide(s, told(tmp_path, s, [0, 1]), found("undelete"), version)
    assert found_state == state
    assert Proof("s", found_state, why).as_said == (state == "reproduced")
    assert why == (() if state == "reproduced" else (f"it is fixed since 1.12.0, and this {version} shows it",))


def test_a_build_before_a_release_surely_has_what_the_release_before_it_brought() -> None:
    """The build of Iceberg names a commit after the tag 1.10.1, on whatever branch, 1.11.0-SNAPSHOT."""
    assert surely_has("1.11.0-SNAPSHOT", "1.10.0") and not surely_has("1.11.0-SNAPSHOT", "1.10.1")
    assert not surely_has("1.11.0-SNAPSHOT", "1.11.0") and not surely_has("2.0.0-SNAPSHOT", "1.12.0")
    assert surely_has("1.10.1-rc2", "1.10.0") and not surely_has("1.10.1-rc2", "1.10.1")
    assert surely_has("1.10.1", "1.10.1") and not surely_has("unknown", "1.0")
    assert (
        newer("1.10.1-rc2", "1.10.1") and newer("1.11.0-SNAPSHOT", "1.10.2") and not newer("1.11.0-SNAPSHOT", "1.12.0")
    )


def test_one_that_is_still_there_in_part_is_not_fixed(tmp_path: Path) -> None:
    s = scenario.parse(given(("affected: all", "affected: some\nfixed: 1.12.0")))
    assert decide(s, told(tmp_path, s, [0]), found("undelete"), "1.12.0")[0] == "not reproduced"


def test_an_error_must_be_of_the_class_and_say_what_the_scenario_says(tmp_path: Path) -> None:
    expect = (
        "hold: {update: completed}",
        "hold: {update: completed}\n    expect: {type: fail, error: %s, message: %s}",
    )
    for error, message, state in [
        ("ValidationException", "conflicting", "reproduced"),
        ("ValidationException", "missing", "not reproduced"),
        ("CommitFailedException", "conflicting", "not reproduced"),
    ]:
        s = scenario.parse(given((expect[0], expect[1] % (error, message))))
        (tmp_path / error / message).mkdir(parents=True)
        history = told(tmp_path / error / message, s, [0, 1], "fail")
        assert decide(s, history, found("undelete"), "1.12.0")[0] == state


def test_an_unknown_version_has_no_fix() -> None:
    assert newer("1.12.0", "1.9.2") and not newer("1.9.2", "1.12.0") and not newer("unknown", "1.0")
    assert newer("1.12", "1.12.0") and newer("1.12.0-SNAPSHOT", "1.12") and not newer("1.12.0", "1.12.1")


@pytest.mark.parametrize(
    ("proof", "gone"),
    [
        (
            Proof(
                "undelete",
                "not reproduced",
                ("did not find undelete",),
                found={"expected-not-found": "It is not there."},
            ),
            True,
        ),
        (Proof("undelete", "fixed"), True),
        (Proof("undelete", "reproduced", found={"undelete": "It was seen."}), False),
        (
            Proof(
                "undelete", "not reproduced", found={"lost-commit": "It was seen."}, problems=("update was not held",)
            ),
            False,
        ),
        (Proof("undelete", "not reproduced", problems=("the commit of update was not held",)), None),
        (Proof("undelete", "not reproduced", ("replay could not decide: a file is gone",)), None),
        (Proof("undelete", "not reproduced", ("the run did not come to its end",)), None),
        (Proof("undelete", "not run", ("no Java",)), None),
    ],
)
def test_a_defect_is_gone_only_if_the_run_tells_so(proof: Proof, gone: bool | None) -> None:
    s = scenario.parse(FILE)
    assert proof.gone(s) is gone
    code, why = exit_code([s], [proof], fixed=True)
    assert code == {True: 0, False: 1, None: 2}[gone] and "undelete" in why
    assert exit_code([s], [proof], fixed=False)[0] == (0 if proof.as_said else 1)


def test_an_end_that_no_fix_explains_is_said(tmp_path: Path) -> None:
    """A refusal because of another commit is what a fix may bring; a jar that breaks is not."""
    s = scenario.parse(FILE)
    assert list(strange_ends(s, told(tmp_path, s, [0, 1]))) == []
    (tmp_path / "refused").mkdir()
    refused = told(tmp_path / "refused", s, [0, 1], "fail")
    assert list(strange_ends(s, refused)) == []
    lines = (
        (tmp_path / "refused" / "history.jsonl").read_text().replace(REFUSED[-1][0], "java.lang.NoClassDefFoundError")
    )
    (tmp_path / "history.jsonl").write_text(lines)
    [said] = strange_ends(s, read(tmp_path / "history.jsonl"))
    assert said.startswith("delete ended fail (java.lang.NoClassDefFoundError")


def test_the_table_counts_and_shows_the_worst() -> None:
    s = scenario.parse(FILE)
    proofs = [Proof("undelete", "reproduced"), Proof("undelete", "not reproduced", ("because",))]
    assert rows([s], proofs) == [("undelete", "not reproduced", "1 of 2", "because")]
    assert rows([s], proofs[:1]) == [("undelete", "reproduced", "1 of 1", "undelete")]


def test_a_wait_of_a_script_ends_when_all_are_stopped() -> None:
    (one,) = scenario.find(["undelete"])
    stopped = threading.Event()
    with ScenarioScript(one, Board(), stopped) as script:
        waiting = next(s for s in one.operations if s.after)
        stream = script.operations(one.workload(), one.workload().resolved_phases()[0], waiting.writer, 0)
        stopped.set()
        with pytest.raises(RunError, match=f"undelete was stopped: {waiting.name} waits for"):
            next(stream)


def test_what_concerns_a_servers_database_has_it_to_itself() -> None:
    names = {s.scenario for s in scenario.find([]) if alone(s)}
    assert {"rest-database-lost-ack", "rest-half-transaction"} <= names and "undelete" not in names
