"""Processes and containers are the same stack: the same seed has the same operations and faults, and the same verdicts are right."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkers.evidence import runfolder
from checkers.evidence.history import NEMESIS
from checkers.timeline import fault_windows
from checkers.verdict import own_findings
from compose.catalogs import user_file
from compose.external.external import External
from compose.install.installation import Installation
from harness.campaign.campaign import JobAttempt
from harness.experiments.prove import prove_once
from harness.run.bench import Bench
from harness.run.judged import JudgedRun, judge_run
from harness.run.run import Run
from harness.run.settings import Settings
from reports.run import bands
from tests.support.forgetful import forgetful
from tests.support.runs import Silent
from workloads import generator
from workloads.file import scenario, workload_text

pytestmark = pytest.mark.docker

PLACES = {"processes": False, "containers": True}
SEED = 11
CLEAN: dict[str, Any] = {
    "workload": "same",
    "tables": [{"name": "t"}, {"name": "u", "mode": "merge-on-read"}],
    "writers": 2,
    "length": {"ops": 16},
    "operations": {"insert": 3, "update-register": 2, "delete": 1, "read": 2},
}
FORGETS: dict[str, Any] = {
    "workload": "forgets",
    "tables": [{"name": "t", "partitioned": False}],
    "writers": 1,
    "length": {"ops": 9},
    "operations": {"insert": 1},
}
FORGOTTEN = 4
"""The catalog forgets each such commit."""
FAULTS: dict[str, Any] = {
    "interval": "2s",
    "duration": "2s",
    "faults": [  # none of them loses an acknowledgement, so the verdict must not be false
        {"verb": "drop-packets", "target": "store"},
        {"verb": "drop-packets", "target": "catalog", "direction": "requests"},
        {"verb": "reset-connections", "target": "store"},
        {"verb": "lose-packets", "target": "store", "share": 0.2},
        {"verb": "delay-packets", "target": "catalog", "seconds": "200ms"},
    ],
}

Get = Callable[[str, str], Bench]


@pytest.fixture(scope="module")
def benches(
    images: dict[str, str], installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Get]:
    """(place, catalog) → a bench; all share one Spark cluster and its two writers."""
    with contextlib.ExitStack() as stack:
        logs = tmp_path_factory.mktemp("logs")
        made: dict[tuple[str, str], Bench] = {}

        def get(place: str, catalog: str) -> Bench:
            if (place, catalog) not in made:
                on = None if (place, catalog) == ("processes", "rest") else get("processes", "rest")
                one = Bench(
                    installation,
                    2,
                    logs / f"{place}-{catalog}",
                    Silent(),
                    catalog=catalog,
                    docker=PLACES[place],
                    on=on,
                )
                made[place, catalog] = stack.enter_context(one)
            return made[place, catalog]

        yield get


def ran(bench: Bench, spec: Mapping[str, Any], into: Path) -> JudgedRun[None]:
    """A run of a workload, and its verdicts."""
    parsed = workload_text.parse(yaml.safe_dump(dict(spec)))
    folder = runfolder.create(into, parsed.workload)
    bench.run(parsed, folder, generator.operations, command="icequake run", seed=SEED)
    return judge_run(folder, lambda *_: None)


def found(judged: JudgedRun[None]) -> set[str]:
    """The names of the anomalies that no other checker had found before."""
    return {a.name for a in own_findings([a for v in judged.results.verdicts for a in v.anomalies])}


def planned(judged: JudgedRun[None]) -> dict[str, tuple[Any, ...]]:
    """Operation → who was to do what."""
    return {o.op: (o.process, o.f, o.table, o.value) for o in judged.evidence.history.operations()}


def contained(installation: Installation, spec: Mapping[str, Any], into: Path) -> JudgedRun[None]:
    """A run of a workload with all services, Spark and the writers in containers of its own, and its verdicts."""
    parsed = workload_text.parse(yaml.safe_dump(dict(spec)))
    folder = runfolder.create(into, parsed.workload)
    Run(parsed, folder, installation, Settings(SEED, "icequake run --docker", docker=True), watcher=Silent()).execute()
    return judge_run(folder, lambda *_: None)


def test_a_clean_run_has_the_same_operations_and_is_valid(
    benches: Get, installation: Installation, tmp_path: Path
) -> None:
    here = ran(benches("processes", "rest"), CLEAN, tmp_path / "processes")
    there = contained(installation, CLEAN, tmp_path / "containers")
    assert planned(here) == planned(there) and len(planned(here)) >= CLEAN["length"]["ops"]
    assert [(j.results.valid, found(j)) for j in (here, there)] == [(True, set())] * 2


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("name", "catalog", "anomaly"), [("undelete", "rest", "undelete"), ("jdbc-lost-ack", "jdbc", "lost-commit")]
)
def test_a_known_defect_is_shown(
    benches: Get, tmp_path: Path, place: str, name: str, catalog: str, anomaly: str
) -> None:
    (one,) = scenario.find([name])
    assert one.catalog == catalog
    proof = prove_once(benches(place, catalog), one, tmp_path, "icequake prove", lambda *_: None, JobAttempt(Silent()))
    assert (proof.state, proof.why) == ("reproduced", ()) and set(proof.found) == {anomaly}


def test_the_same_operations_on_a_catalog_that_forgets_lose_commits(
    benches: Get, installation: Installation, tmp_path: Path
) -> None:
    judged = []
    for place in PLACES:
        bench = benches(place, "rest")
        with forgetful(bench.endpoints.catalog_uri, FORGOTTEN) as address:
            mine = tmp_path / f"{place}.yaml"
            mine.write_text(f"name: mine\nspark: {{type: rest, uri: '{address}'}}\ncommit: {{wire: http}}\n")
            supplied = External(user_file.load(mine))
            with Bench(installation, 1, tmp_path / place / "logs", Silent(), external=supplied, on=bench) as own:
                judged.append(ran(own, FORGETS, tmp_path / place))
    here, there = judged
    assert planned(here) == planned(there)
    assert [(j.results.valid, "lost-commit" in found(j)) for j in judged] == [(False, True)] * 2


def test_one_schedule_strikes_packets_in_both_places_and_every_fault_heals(benches: Get, tmp_path: Path) -> None:
    struck = []
    for place in PLACES:
        spec = {**CLEAN, "length": {"time": "20s"}, "op_timeout": "30s", "nemesis": FAULTS}
        judged = ran(benches(place, "rest"), spec, tmp_path / place)
        assert judged.results.valid is not False, found(judged)
        events = [e for e in judged.evidence.history.events if e.process == NEMESIS]
        assert all(w.healed for w in fault_windows.windows(events)) and events[-1].f == "heal"
        tally = bands.faults(events)
        assert sum(t.hits.total() for t in tally) >= 2, tally
        if place == "containers":
            named = {e.value.get("struck") for e in events if e.f.startswith("stop-")}
            assert named & {"minio", "rest", "postgres"}, "the packets of containers"
        struck.append([e.value["fault"] for e in events if e.f.startswith("start-")])
    here, there = struck
    common = min(len(here), len(there))
    assert common >= 2 and here[:common] == there[:common]
