"""``icequake prove`` on real Spark: the promise kept, the promise broken, the lost acknowledgement, and a script that did not happen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.judge.releases import newer
from compose.install.installation import Installation
from harness.cli.publish import publish
from harness.experiments.prove import SCENARIOS_AT_ONCE, alone, prove
from harness.run.bench import Bench
from tests.support.runs import Silent, icequake
from workloads.file import scenario

pytestmark = pytest.mark.spark

SHOWN = ("undelete", "rest-503-lost-commit", "rest-503-unreadable")
CATALOGS = ("rest", "jdbc")
"""The others' scenarios are shown where each catalog is tested; so are those of other engines than Spark, and of Delta tables."""

NEVER_HELD = """\
scenario: never-held
description: A compaction of a table that has nothing to compact makes no commit.
link: https://iceberg.apache.org/docs/latest/maintenance/
affected: none
tables:
  - {name: t, partitioned: false, seed_rows: 2}
operations:
  - {name: rewrite, writer: 0, do: rewrite-position-delete-files, hold: {insert: completed}}
  - {name: insert, writer: 1, do: insert, value: {ids: [7]}, after: {rewrite: held}}
final: {t: [0, 1, 7]}
"""


def test_known_defects_are_shown_and_their_runs_can_be_judged_again(tmp_path: Path) -> None:
    (tmp_path / "never-held.yaml").write_text(NEVER_HELD)
    store, output = tmp_path / "store", tmp_path / "proofs.json"
    done = icequake("prove", *SHOWN, tmp_path / "never-held.yaml", "--store", store, "--json", output)
    assert done.returncode == 1, done.stdout + done.stderr
    proofs = {p["scenario"]: p for p in json.loads(output.read_text())["proofs"]}
    assert {n: (proofs[n]["state"], proofs[n]["why"]) for n in SHOWN} == {n: ("reproduced", []) for n in SHOWN}
    never = proofs["never-held"]
    assert never["state"] == "not reproduced", "its operations and rows were as it says, but nothing was ever held"
    assert never["why"] == ["no commit of rewrite came to the gate"]

    for name, code in (("undelete", 0), ("rest-503-lost-commit", 0), ("rest-503-unreadable", 2)):
        again = icequake("check", proofs[name]["folder"])
        assert again.returncode == code, again.stdout + again.stderr
    undelete = json.loads((Path(proofs["undelete"]["folder"]) / "results.json").read_text())
    found = [a for c in undelete["checkers"] for a in c["anomalies"] if a["same_as"] is None]
    (anomaly,) = found  # but for the second opinions on it
    assert (anomaly["name"], anomaly["ops"][0], anomaly["keys"]) == ("undelete", "w0-1", [1])
    assert anomaly["documented"] and "w1-0" in anomaly["explanation"]
    assert all(str(s) in anomaly["explanation"] for s in anomaly["snapshots"])
    page = (Path(proofs["rest-503-lost-commit"]["folder"]) / "report.html").read_text()
    assert "lost-commit" in page and "w1-0" in page


def test_all_known_defects_of_the_rest_and_jdbc_catalogs_are_shown_two_at_a_time(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    library = scenario.find([])
    assert "polaris" not in {s.catalog for s in library}, "nobody shows it"
    mine = [s for s in library if s.catalog in CATALOGS and not s.engines and s.workload().delta_guard is None]
    assert len(bench.groups) == SCENARIOS_AT_ONCE and {alone(s) for s in mine} == {True, False}
    proofs, _ = prove(mine, installation, tmp_path / "store", Silent(), publish, on=bench)
    fixed = {s.scenario for s in mine if s.fixed and newer(bench.versions["iceberg"], s.fixed)}
    assert {p.scenario: p.state for p in proofs} == {
        s.scenario: "fixed" if s.scenario in fixed else "reproduced" for s in mine
    }, [(p.scenario, p.why) for p in proofs]


def test_a_stack_that_does_not_come_up_is_a_reason_and_no_verdict(tmp_path: Path, installation: Installation) -> None:
    broken = replace(installation, minio=tmp_path / "no-such-program")
    (proof,), _ = prove(scenario.find(["undelete"]), broken, tmp_path / "store", Silent(), publish)
    assert (proof.state, proof.as_said, proof.folder) == ("not run", False, None)
    assert "no-such-program" in proof.why[0]
