"""The manifests for Kubernetes: the API takes them, they agree with one another, and icequake takes their commands."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import harness
from compose.catalogs import user_file
from compose.install import releases
from compose.install.cache import SetupError, home
from tests.support.runs import inside

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "compose" / "k8s"
KUSTOMIZATION = FOLDER / "kustomization.yaml"
FILES = sorted({*FOLDER.glob("*.yaml")} - {KUSTOMIZATION})
RELEASES = ("1.29", "1.37")
"""The oldest release of Kubernetes for which the manifests are checked, and the newest that the schemas have."""


def documents() -> list[dict[str, Any]]:
    return [one for file in FILES for one in yaml.safe_load_all(file.read_text())]


def pods(node: Any) -> Iterator[dict[str, Any]]:
    """Every specification of a pod."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        node = [*node.values()]
    if isinstance(node, list):
        for value in node:
            yield from pods(value)


@pytest.fixture(scope="module")
def python() -> Path:
    """A Python with the schemas of Kubernetes' API."""
    try:
        return releases.environment(home(), FOLDER / "kubernetes-validate.lock")
    except SetupError as e:
        pytest.skip(f"the schemas of Kubernetes cannot be had: {e}")


@pytest.mark.parametrize("release", RELEASES)
def test_the_schemas_of_the_api_take_every_manifest(python: Path, release: str) -> None:
    done = validated(python, release, *FILES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" passed for resource ") == len(documents()) == 11


def test_a_key_that_the_api_does_not_know_is_found(python: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "run.yaml"
    wrong.write_text((FOLDER / "run.yaml").read_text().replace("backoffLimit", "backOffLimit"))
    done = validated(python, RELEASES[-1], wrong)
    assert done.returncode != 0 and "backOffLimit" in done.stdout + done.stderr


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


def validated(python: Path, release: str, *files: Path) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "kubernetes_validate", "--strict", "-k", release, *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_no_pod_runs_as_root_or_gains_rights() -> None:
    found = list(pods(documents()))
    assert len(found) == 6
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
        assert pod["restartPolicy"] == "Never"
        for container in containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]
            assert container["image"] == f"icequake:{harness.__version__}"


def test_all_that_a_manifest_names_is_made_by_one_of_them() -> None:
    made = {(one["kind"], one["metadata"]["name"]) for one in documents()}
    for pod in pods(documents()):
        assert pod.get("automountServiceAccountToken") is False or ("ServiceAccount", pod["serviceAccountName"]) in made
        volumes = {one["name"]: one for one in pod["volumes"]}
        mounted = {mount["name"] for container in containers(pod) for mount in container["volumeMounts"]}
        assert mounted == set(volumes)
        for volume in volumes.values():
            if claim := volume.get("persistentVolumeClaim"):
                assert ("PersistentVolumeClaim", claim["claimName"]) in made
            if configured := volume.get("configMap"):
                assert ("ConfigMap", configured["name"]) in made


def test_the_image_and_the_namespace_of_every_manifest_are_changed_in_one_place() -> None:
    assert {FOLDER / name for name in yaml.safe_load(KUSTOMIZATION.read_text())["resources"]} == {*FILES}


def test_icequake_takes_the_commands(tmp_path: Path) -> None:
    called = [c for pod in pods(documents()) for c in containers(pod) if "command" not in c]
    assert len(called) == 4
    for container in called:
        told = inside(container["args"][0], "--help", cwd=tmp_path).stdout
        options = [word for word in container["args"] if word.startswith("--")]
        assert options and all(option in told for option in options), (container["args"], told)


def test_the_commands_that_are_printed_run_in_a_pod_with_the_memory_of_a_run() -> None:
    found = {one["metadata"]["name"]: next(pods(one)) for one in documents() if [*pods(one)]}
    (run,), (again,) = found["icequake-run"]["containers"], found["icequake-again"]["containers"]
    assert again["resources"] == run["resources"] and again["command"][-2:] == ["sleep", "infinity"]
    typed = {
        v["value"]
        for pod in found.values()
        for c in containers(pod)
        for v in c.get("env", ())
        if v["name"] == "ICEQUAKE_COMMAND"
    }
    assert typed == {"kubectl exec icequake-again -- /opt/icequake/app/icequake"}


def test_the_trend_reads_the_lake_that_the_night_fills_on_the_same_volume(tmp_path: Path) -> None:
    """The shell gives the words to a program in icequake's place, and icequake takes its options."""
    night, trend = (one for one in documents() if one["kind"] == "CronJob")
    ((soak_pod,), (pod,)) = pods(night), pods(trend)
    ((soak,), (one,)) = soak_pod["containers"], pod["containers"]
    claims = [[v for v in p["volumes"] if "persistentVolumeClaim" in v] for p in (soak_pod, pod)]
    mounts = [[m for m in c["volumeMounts"] if m["name"] == "store"] for c in (soak, one)]
    assert claims[0] == claims[1] and mounts[0] == mounts[1]
    program = tmp_path / "icequake"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    script = one["args"][0].replace("/opt/icequake/app/icequake", str(program))
    assert one["command"] == ["sh", "-c"] and script.startswith("exec "), "a shell would not pass SIGTERM on"
    said = subprocess.run([*one["command"], script], capture_output=True, text=True, check=True, timeout=60)
    name, *words = said.stdout.split()
    given = dict(zip(words[:-1:2], words[1::2], strict=True))
    assert (name, words[-1]) == ("trend", "--fail-on-regression")
    assert given["--store"] == soak["args"][soak["args"].index("--store") + 1] == mounts[0][0]["mountPath"]
    assert given["--suite"] == soak["args"][1] and re.fullmatch(r"\d{4}-\d\d-\d\d", given["--night"])
    told = inside(name, "--help", cwd=tmp_path).stdout
    assert all(option in told for option in (*given, words[-1]))


def test_old_evidence_goes_before_a_night_and_the_rest_stays(tmp_path: Path) -> None:
    (night, _) = [one for one in documents() if one["kind"] == "CronJob"]
    (pod,) = pods(night)
    (room,), (soak,) = pod["initContainers"], pod["containers"]
    assert soak["args"][soak["args"].index("--lake") + 1] == "yes", "`trend` needs it"
    command = [*room["command"], room["args"][0].replace("/store", str(tmp_path / "store"))]
    subprocess.run(command, check=True, timeout=60)  # before the first night there is nothing
    kept, gone = [], []
    for name, days in (("old", 9), ("new", 1)):
        place = tmp_path / "store" / "soak" / name
        for part in ("runs", "columns", "logs", "shrinks"):
            (place / part).mkdir(parents=True)
            (gone if days > 8 and part != "shrinks" else kept).append(place / part)
        (place / "runs.jsonl").touch()
        kept.append(place / "runs.jsonl")
        for one in place.iterdir():
            subprocess.run(["touch", "-d", f"{days} days ago", str(one)], check=True, timeout=60)
    subprocess.run(command, check=True, timeout=60)
    assert all(one.exists() for one in kept) and not any(one.exists() for one in gone)


def test_the_executors_image_has_the_spark_of_the_drivers_everywhere() -> None:
    places = [FOLDER / "spark.yaml", ROOT / "compose" / "docker" / "compose.yaml", ROOT / "docs" / "docker.md"]
    for place in places:
        found = set(re.findall(r"apache/spark:([\d.]+)-", place.read_text()))
        assert found == {releases.DEFAULT.spark}, place


def test_no_two_nights_have_one_name() -> None:
    """Who applies the recipe of docs/ci, too, would replace the one by the other."""
    others = yaml.safe_load_all((ROOT / "docs" / "ci" / "kubernetes.yaml").read_text())
    named = [(one["kind"], one["metadata"]["name"]) for one in [*documents(), *others]]
    assert len(set(named)) == len(named)


def test_icequake_takes_the_catalog_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (job,) = [pod for pod in pods(documents()) if pod.get("serviceAccountName")]
    fields = {
        v["name"]: v["valueFrom"]["fieldRef"]["fieldPath"] for v in job["containers"][0]["env"] if "valueFrom" in v
    }
    for name, value in {"LAKE_CREDENTIAL": "id:secret", **fields}.items():
        monkeypatch.setenv(name, value)
    (configured,) = [one for one in documents() if one["kind"] == "ConfigMap"]
    (tmp_path / "lake.yaml").write_text(configured["data"]["lake.yaml"])
    found = user_file.load(tmp_path / "lake.yaml")
    assert found.session["spark.kubernetes.namespace"] == "metadata.namespace"
    assert found.session["spark.kubernetes.driver.pod.name"] == "metadata.name"
    assert found.master == "k8s://https://kubernetes.default.svc" and found.spark["credential"] == "id:secret"
