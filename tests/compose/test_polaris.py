"""Polaris: the calls that set it up, against a server that answers as its specification says; and what is said without Docker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pyiceberg.catalog import load_catalog

from compose.catalogs import polaris, user, user_file
from compose.catalogs.registry import CATALOGS
from compose.docker.composefile import COMPOSE_FILE
from compose.endpoints import Endpoints
from compose.processes.container import engine
from compose.processes.process import NotReady
from compose.processes.service import ServiceError
from tests.support.runs import environment, icequake
from tests.support.specified import Polaris, serving
from tests.test_docs import ROOT


@pytest.fixture
def server() -> Iterator[tuple[Polaris, str]]:
    """Such a server, and the address of its catalog API."""
    specified = Polaris()

    with serving(specified.answer) as address:
        yield specified, f"{address}/api/catalog"


def set_up(uri: str) -> None:
    polaris.set_up(uri, "s3://warehouse/polaris", "http://127.0.0.1:1", "http://127.0.0.1:2", "us-east-1")


def test_it_makes_the_catalog_and_grants_the_work_with_its_content(server: tuple[Polaris, str]) -> None:
    specified, uri = server
    set_up(uri)
    storage = specified.catalogs["icequake"]["storageConfigInfo"]
    assert (storage["endpoint"], storage["endpointInternal"]) == ("http://127.0.0.1:1", "http://127.0.0.1:2")
    assert storage["pathStyleAccess"] is True and storage["stsUnavailable"] is True
    assert specified.grants == [("icequake", "catalog_admin", "CATALOG_MANAGE_CONTENT")]


def test_a_catalog_that_is_there_already_is_taken(server: tuple[Polaris, str]) -> None:
    specified, uri = server
    set_up(uri)
    set_up(uri)
    assert list(specified.catalogs) == ["icequake"] and len(specified.grants) == 1


@pytest.mark.parametrize(
    ("method", "says"), [("POST", "asked for a token it answers 500"), ("PUT", "asked to grant CATALOG_MANAGE_CONTENT")]
)
def test_another_answer_is_said(server: tuple[Polaris, str], method: str, says: str) -> None:
    specified, uri = server
    specified.broken[method] = 500
    with pytest.raises(NotReady, match=says):
        set_up(uri)


def test_the_pointer_is_asked_with_a_token(server: tuple[Polaris, str]) -> None:
    specified, uri = server
    e = Endpoints("http://s", "a", "b", "r", "w", "polaris", uri, "s3://w/polaris", "spark://m")
    specified.tables["icequake", "a\x1fb", "t"] = "s3://w/polaris/a/b/t/metadata/1.json"
    pointer = CATALOGS["polaris"].pointer
    assert pointer(e, "a.b", "t", 5) == "s3://w/polaris/a/b/t/metadata/1.json"
    assert pointer(e, "a.b", "u", 5) is None
    specified.broken["GET"] = 503
    with pytest.raises(ServiceError, match=r"asked for a\.b\.t it answers 503"):
        pointer(e, "a.b", "t", 5)


def files() -> dict[str, str]:
    """The text of each file that describes a Polaris to a user: the example of the page, and the file for containers."""
    page = (ROOT / "docs" / "own-catalog.md").read_text(encoding="utf-8")
    (example,) = [text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "name: polaris\n" in text]
    return {
        "page": example,
        "containers": (COMPOSE_FILE.parent / "catalogs" / "polaris.yaml").read_text(encoding="utf-8"),
    }


def asked(tmp_path: Path, text: str, uri: str) -> str | None:
    """Where the table a.t is, as icequake asks the server for it by a user's file."""
    mine = yaml.safe_load(text)
    mine["spark"] |= {"uri": uri, "warehouse": "icequake"}
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(mine))
    with user.probe(user_file.load(tmp_path / "my.yaml", {"POLARIS_CREDENTIAL": "root:s3cr3t"})) as probe:
        return probe.pointer("a", "t", 300)


@pytest.mark.parametrize("name", files())
def test_a_table_is_found_by_each_file_that_describes_polaris(
    server: tuple[Polaris, str], tmp_path: Path, name: str
) -> None:
    specified, uri = server
    specified.tables["icequake", "a", "t"] = "s3://w/polaris/a/t/metadata/1.json"
    assert asked(tmp_path, files()[name], uri) == "s3://w/polaris/a/t/metadata/1.json"


def test_the_refusal_to_hand_out_credentials_says_what_to_write_where(
    server: tuple[Polaris, str], tmp_path: Path
) -> None:
    specified, uri = server
    specified.tables["icequake", "a", "t"] = "s3://w/polaris/a/t/metadata/1.json"
    without = {k: v for k, v in yaml.safe_load(files()["page"]).items() if k != "pyiceberg"}
    with pytest.raises(ServiceError, match="Credential vending was requested") as error:
        asked(tmp_path, yaml.safe_dump(without), uri)
    line = 'write header.X-Iceberg-Access-Delegation: "" below pyiceberg: in ' + str(tmp_path / "my.yaml")
    assert str(error.value).endswith(line)


def test_the_writers_name_the_catalog_and_bring_credentials() -> None:
    e = Endpoints("http://s", "a", "b", "r", "w", "polaris", "http://h:1/api/catalog", "s3://w/polaris", "spark://m")
    entry = CATALOGS["polaris"]
    found = entry.properties(entry.through(e, "127.0.0.1", 9))
    assert found["uri"] == "http://127.0.0.1:9/api/catalog" and found["warehouse"] == "icequake"
    assert found["credential"] == "root:s3cr3t" and found["scope"] == "PRINCIPAL_ROLE:ALL"


def test_pyiceberg_as_a_writer_does_not_want_credentials(server: tuple[Polaris, str]) -> None:
    specified, uri = server
    specified.tables["icequake", "a", "t"] = "s3://w/polaris/a/t/metadata/1.json"
    e = Endpoints("http://s", "a", "b", "r", "w", "polaris", uri, "s3://w/polaris", "spark://m")
    told = CATALOGS["polaris"].pyiceberg
    assert told is not None
    assert load_catalog("c", **told(e)).load_table(("a", "t")).metadata_location.endswith("/1.json")


def test_without_docker_one_line_says_so_and_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = f"unix://{tmp_path}/docker.sock"
    done = icequake(
        "run", "quick", "--catalog", "polaris", "--store", tmp_path / "store", env=environment(DOCKER_HOST=nowhere)
    )
    assert done.returncode == 255 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(
        "icequake: polaris: needs Docker, and no engine answers (no socket); start a Docker engine "
    )
    assert "--catalog my.yaml" in done.stderr
    assert not (tmp_path / "store").exists()
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(ServiceError, match=r"x: needs Docker, and no engine answers \(connection refused\)"):
        engine("x")
