"""The recipes of docs/ci: each is what its system reads, each command in it can be typed, and each runs the whole library every night."""

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

from checkers.nights.night import FEW_OPERATIONS
from checkers.verdict import exit_code
from compose.catalogs import nessie
from compose.catalogs.registry import CATALOGS
from compose.install import ensure, jdk
from harness.cli.app import app
from tests.test_ci import TARGETS
from tests.test_docs import ROOT
from workloads.engines.engine import Foreign
from workloads.engines.engines import ENGINES
from workloads.file import scenario

FOLDER = ROOT / "docs" / "ci"
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
PROGRAM: Any = typer.main.get_command(app)
NIGHT, LIBRARY = "night", "library"
"""The two jobs of a recipe: a soak, and every scenario."""
TREND = "night-trend"
"""A job of Kubernetes; elsewhere the night's own has its command."""
SYSTEMS = ("github", "gitlab", "cron", "kubernetes")
CRON = re.compile(r"^(\S+) (\S+) (\S+) (\S+) (\S+) (.+)$")
OURS = re.compile(r"(?:^|(?<=[ \n]))((?:\./icequake|make) [^|&;>\n]*?)(?= *(?:2>|[|&;>\n]|$))")
"""A command of ours in a script, to what the shell adds."""
NAMED_NIGHTS = ("$night", "$(date -u -d yesterday +%F)")
"""How a recipe names the night of its trend."""
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""Of the five fields of cron."""


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def github() -> dict[Any, Any]:
    found = yaml.safe_load(text("github.yml"))
    assert isinstance(found, dict)
    return found


def gitlab(name: str = NIGHT) -> dict[str, Any]:
    """One of its two jobs, with what it extends."""
    found = yaml.safe_load(text("gitlab.yml"))
    assert set(found) == {".icequake", f"icequake {NIGHT}", f"icequake {LIBRARY}"}
    job = dict(found[f"icequake {name}"])
    return {**found[job.pop("extends")], **job}


def kubernetes() -> tuple[dict[str, Any], ...]:
    """The volume and the jobs."""
    claim, *jobs = yaml.safe_load_all(text("kubernetes.yaml"))
    assert [job["metadata"]["name"] for job in jobs] == [f"icequake-{name}" for name in (NIGHT, TREND, LIBRARY)]
    return claim, *jobs


def pods() -> list[dict[str, Any]]:
    return [job["spec"]["jobTemplate"]["spec"]["template"]["spec"] for job in kubernetes()[1:]]


def crontab() -> list[tuple[tuple[str, ...], str]]:
    """The times and the command of each line."""
    lines = [line for line in text("crontab").splitlines() if line and not line.startswith("#")]
    found = [m for line in lines if "=" not in line.split(" ")[0] and (m := CRON.match(line))]
    return [(m.groups()[:5], m[6].replace(r"\%", "%")) for m in found]


def scripts() -> Iterator[tuple[str, str]]:
    """Where a script stands, and the script."""
    for job in github()["jobs"].values():
        yield from (("github", step["run"]) for step in job["steps"] if "run" in step)
    for job in map(gitlab, (NIGHT, LIBRARY)):
        for part in ("before_script", "script", "after_script"):
            yield from (("gitlab", line) for line in job.get(part, ()))
    yield from (("cron", command) for _, command in crontab())
    yield "cron", text("night.sh")
    for pod in pods():
        for container in (*pod["initContainers"], *pod["containers"]):
            shell = container["command"][:2] == ["sh", "-c"]
            yield "kubernetes", container["command"][2] if shell else shlex.join(container["command"])


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
    typed = [{"$LASTS": "6h", **dict.fromkeys(NAMED_NIGHTS, "2026-11-27")}.get(word, word) for word in words[2:]]
    with PROGRAM.commands[words[1]].make_context(words[1], typed) as context:
        assert not context.args


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_soaks_with_a_bound_and_the_same_store(system: str) -> None:
    (soak,) = [words for where, words in commands() if where == system and words[1] == "soak"]
    assert soak[2] == "nightly" and "--for" in soak and "--keep" in soak and "--store" in soak
    assert soak[soak.index("--lake") + 1] == "yes", "else no night is in the trend"
    assert int(soak[soak.index("--at-least") + 1]) > FEW_OPERATIONS, "else a night that did next to nothing is green"


@pytest.mark.parametrize("system", [s for s in SYSTEMS if s != "kubernetes"])
def test_every_system_with_a_shell_compares_the_night_by_the_date_from_before_it(system: str) -> None:
    lines = "\n".join(script for where, script in scripts() if where == system)
    date, soak, trend = (lines.index(x) for x in ("date -u -d '-12 hours' +%F", "icequake soak", "icequake trend"))
    assert date < soak < trend, "at the end of a long night the last noon is another one"
    (words,) = [words for where, words in commands() if where == system and words[1] == "trend"]
    assert words[words.index("--night") + 1] == "$night" and "--fail-on-regression" in words


def test_the_trend_of_kubernetes_reads_the_lake_of_the_night_on_the_volume_that_both_mount() -> None:
    """Another pod after the night, on the next day; the night's would be the noon before it began."""
    night, trend, _ = (job["spec"]["schedule"].split() for job in kubernetes()[1:])
    assert (int(night[1]), int(night[0])) < (int(trend[1]), int(trend[0])) and int(night[1]) < 12
    words = {words[1]: words for where, words in commands() if where == "kubernetes"}
    assert words["trend"][words["trend"].index("--night") + 1] == NAMED_NIGHTS[1]
    assert "--fail-on-regression" in words["trend"]
    (store,) = {words[name][words[name].index("--store") + 1] for name in ("soak", "trend")}
    for pod in pods()[:2]:
        claims = {v["name"] for v in pod["volumes"] if "persistentVolumeClaim" in v}
        (mounted,) = [m["mountPath"] for m in pod["containers"][0]["volumeMounts"] if m["name"] in claims]
        assert store.startswith(f"{mounted}/"), "else the lake goes with the pod"


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_proves_the_whole_library_with_everything_that_it_needs(system: str) -> None:
    (prove,) = [words[2:] for where, words in commands() if where == system and words[1] == "prove"]
    with PROGRAM.commands["prove"].make_context("prove", prove) as context:
        assert not context.params["names"] and context.params["times"] == 1 and context.params["iceberg"] is None
    setups = [words[2:] for where, words in commands() if where == system and words[1] == "setup"]
    with PROGRAM.commands["setup"].make_context("setup", setups[-1]) as context:
        catalogs, engines = set(context.params["catalogs"]), set(context.params["engine"])
    library = scenario.find([])
    used = [CATALOGS[s.catalog] for s in library]
    assert {jar for entry in used for jar in (*entry.jars, *entry.server_jars)} <= {*catalogs, *ensure.CONFS}
    needed = {needs_of(name) for s in library for name in s.engines.values()} - {None}
    assert needed and needed <= {needs_of(name) for name in engines}


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_runs_every_test(system: str) -> None:
    assert [words for where, words in commands() if where == system].count(["make", "test-all"]) == 1


def needs_of(name: str) -> str | None:
    """What is to be installed for an engine."""
    engine = ENGINES[name]
    return engine.needs if isinstance(engine, Foreign) else None


def test_no_system_passes_over_the_exit_code_of_prove() -> None:
    steps = github()["jobs"][LIBRARY]["steps"]
    assert [s["run"] for s in steps if "prove" in s.get("run", "")] == [
        "./icequake prove --store library --json library/proofs.json"
    ]
    assert not any("continue-on-error" in s for s in steps) and "allow_failure" not in gitlab(LIBRARY)
    begins, proves, tests, ends = gitlab(LIBRARY)["script"]
    assert proves == "./icequake prove --store library --json library/proofs.json || code=$?"
    assert (begins, tests, ends) == ("code=0", "make test-all || code=$?", 'exit "$code"')
    assert pods()[-1]["containers"][0]["command"][:2] == ["./icequake", "prove"]


def test_the_jdk_of_every_system_runs_spark_and_every_server() -> None:
    of_github = [s["with"]["java-version"] for j in github()["jobs"].values() for s in j["steps"] if "java" in str(s)]
    packages = re.findall(r"openjdk-(\d+)-jdk", text("gitlab.yml") + text("Dockerfile"))
    of_cron = re.findall(r"JAVA_HOME=\S*java-(\d+)-", text("crontab"))
    found = {int(v) for v in (*of_github, *packages, *of_cron)}
    assert len(of_github) == 2 and len(packages) == 3 and len(of_cron) == 1
    assert found <= {*jdk.SPARK} & {*nessie.JAVA}


def test_the_workflow_has_what_github_needs() -> None:
    w = github()
    assert {"schedule", "workflow_dispatch"} == set(w[True]), "YAML reads the key `on` as true"
    assert w["permissions"] == {"contents": "read"} and w["concurrency"]["group"]
    assert set(w["jobs"]) == {NIGHT, LIBRARY}
    for job in w["jobs"].values():
        assert job["runs-on"] and 120 < job["timeout-minutes"] < 360
        assert all(("uses" in s) != ("run" in s) for s in job["steps"])
        assert all(re.fullmatch(r"actions/[a-z-]+(/[a-z]+)?@v\d+", s["uses"]) for s in job["steps"] if "uses" in s)
    assert w["jobs"][NIGHT]["timeout-minutes"] > 300
    steps = w["jobs"][NIGHT]["steps"]
    used = [s["uses"].partition("@")[0] for s in steps if "uses" in s]
    assert used.index("actions/cache/restore") < used.index("actions/cache/save")
    kept = [s for s in steps if s.get("uses", "").startswith(("actions/upload-artifact", "actions/cache/save"))]
    assert len(kept) == 2 and all(s["if"] == "always()" for s in kept)
    assert steps[-1]["name"] == "judge" and '*) exit "$code"' in steps[-1]["run"]


def test_the_workflow_keeps_the_same_files_that_it_restores() -> None:
    job = github()["jobs"][NIGHT]
    by_use = {s["uses"].partition("@")[0]: s["with"] for s in job["steps"] if "uses" in s}
    saved, restored = by_use["actions/cache/save"], by_use["actions/cache/restore"]
    assert saved["path"] == restored["path"] and saved["path"].split() == ["store/soak/*/runs.jsonl", "store/lake"]
    assert saved["key"] == restored["key"] and saved["key"].startswith(restored["restore-keys"])
    assert by_use["actions/upload-artifact"]["path"] == job["env"]["NIGHT"]


def test_a_pipe_gives_the_exit_code_of_icequake() -> None:
    """Without ``pipefail``, which GitHub sets for ``shell: bash`` only, it would be that of tee."""
    job = github()["jobs"][NIGHT]
    (soak,) = [s for s in job["steps"] if "icequake soak" in s.get("run", "")]
    assert "| tee" in soak["run"] and "|| code=$?" in soak["run"] and soak["shell"] == "bash"


def test_the_job_has_what_gitlab_needs() -> None:
    job = gitlab()
    known = {
        *("image", "rules", "resource_group", "interruptible", "timeout", "variables", "cache"),
        *("before_script", "script", "after_script", "allow_failure", "artifacts"),
    }
    assert set(job) <= known and set(gitlab(LIBRARY)) <= known
    assert len(job["cache"]) <= 4 and all(c["paths"] for c in job["cache"])
    (files,) = [c["key"]["files"] for c in job["cache"] if isinstance(c["key"], dict)]
    assert len(files) <= 2 and all((ROOT / f).is_file() for f in files), "GitLab takes two files at most"
    assert job["artifacts"]["reports"]["junit"].endswith("/junit.xml") and job["artifacts"]["when"] == "always"
    assert job["artifacts"]["paths"] == ["$NIGHT"] and job["variables"]["NIGHT"].startswith("store/soak/")
    assert job["allow_failure"] == {"exit_codes": [2]}


def test_the_crontab_is_one_that_cron_reads() -> None:
    lines = crontab()
    assert len(lines) == 4
    for times, command in lines:
        for field, (low, high) in zip(times, RANGES, strict=True):
            assert field == "*" or low <= int(field) <= high
        assert shlex.split(command)
    assert len(lines[0][1]) < 100, "what a night is stands in a script that people can read"
    assert not re.search(r"(?m)^[^#\n]*(?<!\\)%", text("crontab")), "cron takes it for a line end"


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock of util-linux")
def test_a_night_that_still_runs_is_no_anomaly_to_cron(tmp_path: Path) -> None:
    """The shell runs the line as cron has it; what it starts here is a program that ends with one code after the other."""
    (_, command), *_ = crontab()
    assert "/opt/icequake" in command
    command = command.replace("/opt/icequake", str(tmp_path))
    (tmp_path / "docs/ci").mkdir(parents=True)
    (tmp_path / "docs/ci/night.sh").write_text(text("night.sh"))
    program = tmp_path / "icequake"
    program.touch(0o755)

    def cron() -> tuple[int, str]:
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    for code in (0, 1, 2, 255):
        program.write_text(f"#!/bin/sh\nexit {code}\n")
        assert cron() == (code, "")
        program.write_text(f'#!/bin/sh\ntest "$1" = trend && exit 7\nexit {code}\n')
        assert cron() == (code or 7, ""), "the trend's counts if the night has no other"
    with (tmp_path / "store.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, said = cron()
        assert code == 75 and code not in {*map(exit_code, (True, False, "unknown")), 254, 255} and "still runs" in said
    shutil.rmtree(tmp_path)
    assert cron()[0] == 255


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock of util-linux")
@pytest.mark.parametrize("code", [0, 1, 255])
def test_cron_mails_that_a_scenario_is_not_reproduced(tmp_path: Path, code: int) -> None:
    (_, command) = crontab()[2]
    program = tmp_path / "icequake"
    program.touch(0o755)
    program.write_text(f'#!/bin/sh\ntest "$1" = setup || exit {code}\n')
    line = ["/bin/sh", "-c", command.replace("/opt/icequake", str(tmp_path))]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (code, f"the library: exit code {code}\n" if code else "")


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock of util-linux")
@pytest.mark.parametrize("code", [0, 2])
def test_cron_mails_what_a_failed_test_said(tmp_path: Path, code: int) -> None:
    (_, command) = crontab()[3]
    (tmp_path / "Makefile").write_text(f"test-all:\n\t@echo 1 failed; exit {code}\n")
    line = ["/bin/sh", "-c", command.replace("/opt/icequake", str(tmp_path))]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == code and ("1 failed" in done.stdout) == ("exit code 2" in done.stdout) == bool(code)


def test_what_cron_removes_is_not_what_the_trend_needs() -> None:
    (_, command) = crontab()[1]
    assert "runs.jsonl" not in command and command.count("-name") == 3
    assert {"runs", "columns", "logs"} == set(re.findall(r"-name (\S+)", command))


def test_the_manifest_has_what_kubernetes_needs() -> None:
    claim, *jobs = kubernetes()
    assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")
    for job, pod in zip(jobs, pods(), strict=True):
        assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
        spec = job["spec"]
        assert CRON.match(spec["schedule"] + " x") and spec["concurrencyPolicy"] == "Forbid"
        assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0 and pod["restartPolicy"] == "Never"
        volumes = {v["name"]: v for v in pod["volumes"]}
        assert volumes["icequake"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        for container in (*pod["initContainers"], *pod["containers"]):
            assert {m["name"] for m in container["volumeMounts"]} <= set(volumes)
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
        (one,) = pod["containers"]
        shell = one["command"][:2] == ["sh", "-c"] and one["command"][2].startswith("exec ./icequake ")
        assert one["command"][0] == "./icequake" or shell, "a shell would not pass SIGTERM on"


def test_the_image_has_the_whole_checkout() -> None:
    """Docker reads the file beside the Dockerfile, not the one in the root, which leaves out what only the pods need."""
    left_out = {line for line in text("Dockerfile.dockerignore").splitlines() if not line.startswith("#")}
    assert (
        left_out == {".git", "build", "store", "**/__pycache__"}
        and "!Makefile" not in (ROOT / ".dockerignore").read_text()
    )


def test_the_image_has_a_user_for_the_pods() -> None:
    docker = text("Dockerfile")
    home = re.findall(r"ICEQUAKE_HOME=(\S+)", docker)
    for pod in pods():
        assert f"--uid {pod['securityContext']['runAsUser']} " in docker
        (mount,) = [m["mountPath"] for m in pod["containers"][0]["volumeMounts"] if m["name"] == "icequake"]
        assert home and home[0].startswith(mount + "/")


def test_the_page_names_every_recipe() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(re.findall(r"\]\(ci/([^)]+)\)", PAGE))
