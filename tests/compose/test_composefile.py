"""``compose.yaml`` as icequake reads it: what a run starts, and what is refused."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
import yaml

from compose.catalogs import hive, user_file
from compose.catalogs.registry import CATALOGS
from compose.docker import composefile, images, local, packets, services
from compose.processes.service import ServiceError
from compose.servers.postgres import DATABASE, USER
from tests.support.runs import ROOT, environment

CONTENT = yaml.safe_load(composefile.COMPOSE_FILE.read_text())["services"]
PROFILES = tuple(profile for profile in composefile.profiles() if profile != "spark")
"""Those of catalogs."""


def changed(tmp_path: Path, **keys: Any) -> Path:
    """The file with one service, in which keys were replaced; None takes one away."""
    service = {key: value for key, value in {**CONTENT["postgres"], **keys}.items() if value is not None}
    file = tmp_path / "compose.yaml"
    file.write_text(yaml.safe_dump({"services": {"postgres": service}}))
    return file


@pytest.mark.parametrize("name", CONTENT)
def test_every_image_is_pinned_by_tag_and_a_variable_replaces_it(name: str) -> None:
    variable = re.fullmatch(r"\$\{(\w+):-[\w./-]+:[\w.-]+\}", CONTENT[name]["image"])
    assert variable, CONTENT[name]["image"]
    assert composefile.read({variable[1]: "my/own:1"})[name].image == "my/own:1"
    assert not composefile.read({})[name].image.endswith(":latest")


@pytest.mark.parametrize("name", CONTENT)
def test_every_service_has_limits_a_check_and_ports_on_loopback_only(name: str) -> None:
    spec = composefile.read({})[name]
    assert spec.memory >= 256 * 1024**2 and spec.pids > 0 and spec.healthcheck["test"][0] == "CMD"
    unpublished = name.endswith("-setup") or spec.network == "host"
    assert {host for host, _ in spec.ports.values()} == (set() if unpublished else {"127.0.0.1"})
    if spec.network == "host":  # it listens where it is told to
        assert spec.command is not None and spec.command[spec.command.index("--host") + 1] == "127.0.0.1"
        assert spec.environment["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_each_profile_is_a_catalog_with_all_its_servers() -> None:
    specs = composefile.read({})
    assert PROFILES == ("rest", "jdbc", "hive", "hive4", "nessie", "polaris", "lakekeeper", "gravitino")
    assert composefile.profiles() == (*PROFILES, "spark")
    assert {name for name, spec in specs.items() if "spark" in spec.profiles} == {"spark-master", "spark-worker"}
    for profile in PROFILES:
        members = {name for name, spec in specs.items() if profile in spec.profiles and not name.endswith("-setup")}
        if profile in CATALOGS:  # a run starts these
            assert members == {"minio", *CATALOGS[profile].services}
            assert services.cannot(CATALOGS[profile]) is None
        else:
            assert members == {"minio", "postgres", profile}


@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_has_a_catalog_file_that_leads_to_its_published_ports(profile: str) -> None:
    found = user_file.load(composefile.COMPOSE_FILE.parent / "catalogs" / f"{profile}.yaml")
    specs = composefile.read({})
    published = {port for spec in specs.values() if profile in spec.profiles for _, port in spec.ports.values()}
    uri = urlsplit(found.spark["uri"].removeprefix("jdbc:"))
    assert (uri.hostname, uri.port in published) == ("127.0.0.1", True)
    assert found.s3 == "http://127.0.0.1:9000/warehouse" and 9000 in published
    minio = specs["minio"].environment
    keys = (found.spark["s3.access-key-id"], found.spark["s3.secret-access-key"])
    assert keys == (minio["MINIO_ROOT_USER"], minio["MINIO_ROOT_PASSWORD"])


def test_the_metastore_in_a_container_gives_locks_back_as_the_local_one_does() -> None:
    for folder, key, *how_often in (
        ("hive", "hive.txn.timeout", "hive.timedout.txn.reaper.interval"),
        ("hive4", "metastore.txn.timeout", "metastore.acid.housekeeper.interval"),
    ):
        site = ElementTree.parse(composefile.COMPOSE_FILE.parent / folder / "hive-site.xml")
        values = {p.findtext("name"): p.findtext("value") for p in site.getroot()}
        assert values[key] == f"{hive.LOCK_TIMEOUT_S}s"
        for looks in how_often:  # by default it looks so seldom that a lock may last for minutes
            assert values[looks] == "2s"


def test_a_published_port_is_the_one_of_the_variable() -> None:
    assert composefile.read({"ICEQUAKE_REST_PORT": "23456"})["rest"].ports == {8181: ("127.0.0.1", 23456)}


def test_an_empty_variable_counts_as_missing_as_in_compose() -> None:
    assert composefile.read({"ICEQUAKE_REST_PORT": ""})["rest"].ports == {8181: ("127.0.0.1", 8181)}


def test_two_dollars_are_one() -> None:
    assert "[[ $answer == *200* ]]" in composefile.read({})["minio"].healthcheck["test"][-1]


def test_the_rest_server_finds_its_database_and_store_by_name() -> None:
    specs = composefile.read({})
    environment = specs["rest"].environment
    assert environment["CATALOG_URI"] == f"jdbc:postgresql://postgres:5432/{DATABASE}"
    assert environment["CATALOG_S3_ENDPOINT"] == "http://minio:9000"
    assert specs["postgres"].environment["POSTGRES_USER"] == environment["CATALOG_JDBC_USER"] == USER


def test_the_database_keeps_what_protects_committed_data() -> None:
    command = composefile.read({})["postgres"].command
    assert command is not None and {"synchronous_commit=on", "full_page_writes=on"} <= {*command}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"privileged": True}, r"services\.postgres has keys that icequake does not know: privileged"),
        ({"ports": ["0.0.0.0:5432:5432"]}, r"services\.postgres\.ports is '0\.0\.0\.0:5432:5432', not 127\.0\.0\.1"),
        ({"mem_limit": "much"}, r"services\.postgres\.mem_limit is 'much', not a size such as 512m"),
        ({"volumes": ["./data:/data"]}, r"services\.postgres\.volumes is '\./data:/data', not FOLDER:PATH:ro"),
        ({"stop_grace_period": "soon"}, r"'soon' is no time such as 5s"),
        ({"network_mode": "bridge"}, r"services\.postgres\.network_mode is 'bridge', not host"),
        ({"image": None}, r"compose\.yaml cannot be read: KeyError: 'image'"),
    ],
)
def test_what_a_run_would_not_do_as_compose_does_is_refused(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ServiceError, match=said):
        composefile.read({}, changed(tmp_path, **keys))


def test_every_stand_in_names_a_variable_of_the_file_and_has_a_dockerfile() -> None:
    text = composefile.COMPOSE_FILE.read_text()
    for one in images.STAND_INS:
        assert f"${{{one.variable}:-" in text or one.variable == packets.VARIABLE, "a run's, not a service"
        assert (images.HERE / one.name / "Dockerfile").read_text().count("FROM ${BASE}") == 1


def where_no_engine_answers(tmp_path: Path, promise: str, words: Sequence[str]) -> tuple[int, str, str]:
    """Run a command where ``DOCKER_HOST`` names an engine that does not answer: exit code, standard output, standard error."""
    nowhere = environment(DOCKER_HOST=f"unix://{tmp_path}/docker.sock", ICEQUAKE_DOCKER_TESTS=promise)
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, env=nowhere, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


LOCAL = ("compose.docker.local", "test", "-m", "docker", "tests/docker")


def test_where_no_engine_can_be_had_the_tests_in_containers_are_skipped_in_one_line(tmp_path: Path) -> None:
    code, said, error = where_no_engine_answers(tmp_path, "", LOCAL)
    assert (code, error) == (0, "")
    assert said == (
        "icequake: the tests in containers are skipped: no Docker engine answers at "
        f"DOCKER_HOST=unix://{tmp_path}/docker.sock: unset it, or start one there\n"
    )


@pytest.mark.parametrize("promise", ["required", "where-possible"])
def test_where_an_engine_is_promised_and_none_can_be_had_the_tests_in_containers_fail(
    promise: str, tmp_path: Path
) -> None:
    code, said, error = where_no_engine_answers(tmp_path, promise, LOCAL)
    assert (code, said) == (255, "")
    assert error == (
        f"icequake: the tests in containers cannot run, and ICEQUAKE_DOCKER_TESTS={promise} promises an engine: "
        f"no Docker engine answers at DOCKER_HOST=unix://{tmp_path}/docker.sock: unset it, or start one there\n"
    )
    one = f"{ROOT}/tests/compose/test_container.py::test_its_end_is_seen_as_a_process_s"
    # Nor is a test skipped when the engine has ended meanwhile.
    code, said, _ = where_no_engine_answers(tmp_path, promise, ("pytest", "-n", "0", "-p", "no:cacheprovider", one))
    assert code == pytest.ExitCode.TESTS_FAILED, said


def test_a_promise_that_is_not_known_is_refused(tmp_path: Path) -> None:
    code, _, error = where_no_engine_answers(tmp_path, "yes", LOCAL)
    assert code == 255 and "ICEQUAKE_DOCKER_TESTS is 'yes'; it may be 'required' or 'where-possible'" in error


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.geteuid() != 0, reason="only root can give up rights")
def test_a_container_without_the_rights_of_an_engine_is_not_asked_to_start_one() -> None:
    script = (
        "import os; os.environ.pop('DOCKER_HOST', None)\n"
        "from compose.docker.local import DEFAULT_SOCKET, engine, promised\n"
        "print(promised() == os.path.exists(DEFAULT_SOCKET), engine.impossible())"
    )
    without = ["setpriv", "--bounding-set", "-sys_admin", sys.executable, "-c", script]
    given = environment(ICEQUAKE_DOCKER_TESTS="where-possible")
    done = subprocess.run(without, env=given, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith("True that needs the capabilities ") and "SYS_ADMIN" in done.stdout


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["icequake", "run", "quick", "--docker", "--catalog", "jdbc"], ("postgres", "minio", "spark", "network")),
        (["--profile", "spark", "up", "--wait"], ("spark",)),
        (["--profile", "hive", "up", "--wait"], ("minio", "hive")),
        (["--profile", "hive4", "up", "--wait"], ("postgres", "minio", "hive4")),
        (["--profile", "polaris", "up"], ("postgres", "minio", "python")),
        (["icequake", "run", "quick", "--docker", "--catalog", "nessie-native"], ()),
        (["ps"], ()),
    ],
)
def test_only_the_stand_ins_are_built_that_a_command_uses(words: list[str], names: tuple[str, ...]) -> None:
    assert local.used_by(words) == names


def test_the_commands_that_a_run_beside_its_own_engine_prints_bring_the_engine(tmp_path: Path) -> None:
    """``local run -- ./icequake run quick --docker`` is typed again as such: without it there is no engine, and no image."""
    show = tmp_path / "icequake"
    show.write_text('#!/bin/sh\nprintf "%s" "$ICEQUAKE_COMMAND" > "$0.typed"\n')
    show.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setattr(local, "ensure", lambda: None)
        patch.setattr(local, "running", lambda installation, names: contextlib.nullcontext({}))
        assert local.main(["run", "--", "./icequake", "run", "quick", "--docker"]) == 0
    typed = shlex.split((tmp_path / "icequake.typed").read_text())
    assert typed[-3:] == ["run", "--", str(show)] and "compose.docker.local" in typed


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)])
def test_how_the_command_ended_is_how_it_ends(script: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that a signal ended has the code that a shell gives it."""
    monkeypatch.setattr(local, "ensure", lambda: None)
    monkeypatch.setattr(local, "running", lambda installation, names: contextlib.nullcontext({}))
    assert local.main(["run", "--", "sh", "-c", script]) == code


def test_its_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert local.main(["--help"]) == 0 and "compose.docker.local driver" in capsys.readouterr().out
    assert local.main(["start", "--help"]) == local.USAGE
    assert capsys.readouterr().err.endswith("icequake: not a command of this program: start --help\n")


def test_the_driver_that_some_images_lack_comes_by_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is there, so that Docker does not make it as root's."""
    assert (local.DRIVERS / ".gitignore").is_file()
    jar = tmp_path / "cache" / "postgresql-1.jar"
    jar.parent.mkdir()
    jar.write_text("driver")
    installed = SimpleNamespace(jars={"spark": (tmp_path / "other.jar", jar)})
    monkeypatch.setattr(local, "ensure", lambda: installed)
    monkeypatch.setattr(local, "DRIVERS", tmp_path)
    assert local.main(["driver"]) == 0 and (tmp_path / "postgresql-1.jar").read_text() == "driver"
    lacking = {name for name, one in CONTENT.items() if any(":/drivers" in v for v in one.get("volumes", ()))}
    assert lacking == {"rest", "hive4", "gravitino"}
    head = composefile.COMPOSE_FILE.read_text().partition("\nname:")[0]
    assert "compose.docker.local driver" in head and "rest, hive4 and gravitino" in head


def test_the_catalogs_without_a_container_are_refused_with_those_that_have_one() -> None:
    reason = services.cannot(CATALOGS["glue"])
    assert reason and reason.startswith(
        "--docker has no container for moto of the catalog glue; leave out --docker, or name a catalog that has them: rest, jdbc, "
    )
    assert {"hive", "nessie", "polaris"} <= {*reason.split(": ")[-1].split(", ")} and "hive-cas" not in reason
    assert services.cannot(CATALOGS["hive-nolock"]), "the container's metastore takes locks"
