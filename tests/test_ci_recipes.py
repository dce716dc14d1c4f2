"""The recipes of docs/ci: each is what its system reads, and each command in it can be typed."""

from __future__ import annotations

import fcntl
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from checkers.verdict import exit_code
from harness.cli.app import app
from tests.test_ci import TARGETS
from tests.test_docs import ROOT

FOLDER = ROOT / "docs" / "ci"
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
PROGRAM: Any = typer.main.get_command(app)
CRON = re.compile(r"^(\S+) (\S+) (\S+) (\S+) (\S+) (.+)$")
OURS = re.compile(r"(?:^|(?<=[ \n]))((?:\./icequake|make) [^|&;>\n]*?)(?= *(?:2>|[|&;>\n]|$))")
"""A command of ours in a script, to what the shell adds."""
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""Of the five fields of cron."""


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def github() -> dict[Any, Any]:
    found = yaml.safe_load(text("github.yml"))
    assert isinstance(found, dict)
    return found


def gitlab() -> dict[str, Any]:
    found = yaml.safe_load(text("gitlab.yml"))
    assert isinstance(found, dict)
    (job,) = found.values()
    assert isinstance(job, dict)
    return job


def kubernetes() -> tuple[dict[str, Any], dict[str, Any]]:
    claim, job = yaml.safe_load_all(text("kubernetes.yaml"))
    return claim, job


def pod() -> dict[str, Any]:
    spec = kubernetes()[1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def crontab() -> list[tuple[tuple[str, ...], str]]:
    """The times and the command of each line."""
    lines = [line for line in text("crontab").splitlines() if line and not line.startswith("#")]
    found = [m for line in lines if "=" not in line.split(" ")[0] and (m := CRON.match(line))]
    return [(m.groups()[:5], m[6]) for m in found]


def scripts() -> Iterator[tuple[str, str]]:
    """Where a script stands, and the script."""
    for job in github()["jobs"].values():
        yield from (("github", step["run"]) for step in job["steps"] if "run" in step)
    for part in ("before_script", "script", "after_script"):
        yield from (("gitlab", line) for line in gitlab()[part])
    yield from (("cron", command) for _, command in crontab())
    for container in (*pod()["initContainers"], *pod()["containers"]):
        yield "kubernetes", shlex.join(container["command"])


def commands() -> list[tuple[str, list[str]]]:
    """Where each command of ours stands, and its words."""
    found = ((where, m[1]) for where, script in scripts() for m in OURS.finditer(script))
    return [(where, shlex.split(command)) for where, command in found]


@pytest.mark.parametrize(("where", "words"), commands(), ids=lambda x: x if isinstance(x, str) else " ".join(x))
def test_every_command_can_be_typed(where: str, words: list[str]) -> None:
    if words[0] == "make":
        assert set(words[1:]) <= TARGETS
        return
    assert words[1] in PROGRAM.commands
    typed = [re.sub(r"^\$LASTS$", "6h", word) for word in words[2:]]
    with PROGRAM.commands[words[1]].make_context(words[1], typed) as context:
        assert not context.args


@pytest.mark.parametrize("system", ["github", "gitlab", "cron", "kubernetes"])
def test_every_system_soaks_with_a_bound_and_the_same_store(system: str) -> None:
    (soak,) = [words for where, words in commands() if where == system and words[1] == "soak"]
    assert soak[2] == "nightly" and "--for" in soak and "--keep" in soak and "--store" in soak


def test_the_workflow_has_what_github_needs() -> None:
    w = github()
    assert {"schedule", "workflow_dispatch"} == set(w[True]), "YAML reads the key `on` as true"
    assert w["permissions"] == {"contents": "read"} and w["concurrency"]["group"]
    (job,) = w["jobs"].values()
    assert job["runs-on"] and 300 < job["timeout-minutes"] < 360
    steps = job["steps"]
    assert all(("uses" in s) != ("run" in s) for s in steps)
    assert all(re.fullmatch(r"actions/[a-z-]+(/[a-z]+)?@v\d+", s["uses"]) for s in steps if "uses" in s)
    used = [s["uses"].partition("@")[0] for s in steps if "uses" in s]
    assert used.index("actions/cache/restore") < used.index("actions/cache/save")
    kept = [s for s in steps if s.get("uses", "").startswith(("actions/upload-artifact", "actions/cache/save"))]
    assert len(kept) == 2 and all(s["if"] == "always()" for s in kept)
    assert steps[-1]["name"] == "judge" and '*) exit "$code"' in steps[-1]["run"]


def test_the_workflow_keeps_the_same_files_that_it_restores() -> None:
    (job,) = github()["jobs"].values()
    by_use = {s["uses"].partition("@")[0]: s["with"] for s in job["steps"] if "uses" in s}
    saved, restored = by_use["actions/cache/save"], by_use["actions/cache/restore"]
    assert saved["path"] == restored["path"] == "store/soak/*/runs.jsonl"
    assert saved["key"] == restored["key"] and saved["key"].startswith(restored["restore-keys"])
    assert by_use["actions/upload-artifact"]["path"] == job["env"]["NIGHT"]


def test_a_pipe_gives_the_exit_code_of_icequake() -> None:
    """Without ``pipefail``, which GitHub sets for ``shell: bash`` only, it would be that of tee."""
    (job,) = github()["jobs"].values()
    (soak,) = [s for s in job["steps"] if "icequake soak" in s.get("run", "")]
    assert "| tee" in soak["run"] and "|| code=$?" in soak["run"] and soak["shell"] == "bash"


def test_the_job_has_what_gitlab_needs() -> None:
    job = gitlab()
    known = {
        *("image", "rules", "resource_group", "interruptible", "timeout", "variables", "cache"),
        *("before_script", "script", "after_script", "allow_failure", "artifacts"),
    }
    assert set(job) <= known
    assert len(job["cache"]) <= 4 and all(c["paths"] for c in job["cache"])
    (files,) = [c["key"]["files"] for c in job["cache"] if isinstance(c["key"], dict)]
    assert len(files) <= 2 and all((ROOT / f).is_file() for f in files), "GitLab takes two files at most"
    assert job["artifacts"]["reports"]["junit"].endswith("/junit.xml") and job["artifacts"]["when"] == "always"
    assert job["artifacts"]["paths"] == ["$NIGHT"] and job["variables"]["NIGHT"].startswith("store/soak/")
    assert job["allow_failure"] == {"exit_codes": [2]}


def test_the_crontab_is_one_that_cron_reads() -> None:
    lines = crontab()
    assert len(lines) == 2
    for times, command in lines:
        for field, (low, high) in zip(times, RANGES, strict=True):
            assert field == "*" or low <= int(field) <= high
        assert "%" not in command, "cron takes it for a line end"
        assert shlex.split(command)


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock of util-linux")
def test_a_night_that_still_runs_is_no_anomaly_to_cron(tmp_path: Path) -> None:
    """The shell runs the line as cron has it; what it starts here is a program that ends with one code after the other."""
    (_, command), *_ = crontab()
    assert "/opt/icequake" in command
    command = command.replace("/opt/icequake", str(tmp_path))
    program = tmp_path / "icequake"
    program.touch(0o755)

    def cron() -> tuple[int, str]:
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    for code in (0, 1, 2, 255):
        program.write_text(f"#!/bin/sh\nexit {code}\n")
        assert cron() == (code, "")
    with (tmp_path / "store.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, said = cron()
        assert code == 75 and code not in {*map(exit_code, (True, False, "unknown")), 254, 255} and "still runs" in said
    shutil.rmtree(tmp_path)
    assert cron()[0] == 255


def test_what_cron_removes_is_not_what_the_trend_needs() -> None:
    (_, command) = crontab()[1]
    assert "runs.jsonl" not in command and command.count("-name") == 3
    assert {"runs", "columns", "logs"} == set(re.findall(r"-name (\S+)", command))


def test_the_manifest_has_what_kubernetes_needs() -> None:
    claim, job = kubernetes()
    assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    spec = job["spec"]
    assert CRON.match(spec["schedule"] + " x") and spec["concurrencyPolicy"] == "Forbid"
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0 and pod()["restartPolicy"] == "Never"
    volumes = {v["name"]: v for v in pod()["volumes"]}
    assert volumes["icequake"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    for container in (*pod()["initContainers"], *pod()["containers"]):
        assert {m["name"] for m in container["volumeMounts"]} <= set(volumes)
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
    (night,) = pod()["containers"]
    assert night["command"][0] == "./icequake", "a shell would not pass SIGTERM on"


def test_the_image_has_a_user_for_the_pod() -> None:
    docker = text("Dockerfile")
    assert f"--uid {pod()['securityContext']['runAsUser']} " in docker
    home = re.findall(r"ICEQUAKE_HOME=(\S+)", docker)
    (mount,) = [m["mountPath"] for m in pod()["containers"][0]["volumeMounts"] if m["name"] == "icequake"]
    assert home and home[0].startswith(mount + "/")


def test_the_page_names_every_recipe() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(re.findall(r"\]\(ci/([^)]+)\)", PAGE))
