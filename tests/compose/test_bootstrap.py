"""The set-up of catalog servers: Lakekeeper's, against a server that answers as its specification says; and the program around it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.catalogs import bootstrap
from compose.docker import composefile
from tests.support.specified import Lakekeeper, serving


@pytest.fixture
def server() -> Iterator[tuple[Lakekeeper, str]]:
    """Such a server, and its address."""
    specified = Lakekeeper()

    with serving(specified.answer) as address:
        yield specified, address


def set_up(uri: str, warehouse: str = "s3://warehouse/lakekeeper") -> None:
    bootstrap.lakekeeper(uri, warehouse, "http://minio:9000", "us-east-1", "admin", "password")


def test_it_bootstraps_the_server_and_makes_the_warehouse(server: tuple[Lakekeeper, str]) -> None:
    specified, uri = server
    set_up(uri)
    assert specified.bootstrapped and [one["name"] for one in specified.warehouses] == ["icequake"]
    profile = specified.warehouses[0]["storage-profile"]
    assert (profile["bucket"], profile["key-prefix"]) == ("warehouse", "lakekeeper")
    assert profile["endpoint"] == "http://minio:9000" and profile["path-style-access"] is True


def test_a_second_call_changes_nothing(server: tuple[Lakekeeper, str]) -> None:
    specified, uri = server
    set_up(uri)
    specified.calls.clear()
    set_up(uri)
    assert specified.calls == ["GET /management/v1/info", "GET /management/v1/warehouse"]


def test_a_set_up_that_was_cut_off_after_the_first_call_is_completed(server: tuple[Lakekeeper, str]) -> None:
    specified, uri = server
    specified.bootstrapped = True
    set_up(uri)
    assert len(specified.warehouses) == 1


def test_a_warehouse_at_another_place_is_not_taken(server: tuple[Lakekeeper, str]) -> None:
    _, uri = server
    set_up(uri)
    with pytest.raises(bootstrap.UnexpectedAnswer, match="a warehouse icequake at another place than s3://other/place"):
        set_up(uri, "s3://other/place")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("info", "asked for its state it answers 500"),
        ("bootstrap", "asked to bootstrap it answers 500"),
        ("warehouse", "asked for its warehouses it answers 500"),
    ],
)
def test_another_answer_is_said(server: tuple[Lakekeeper, str], path: str, says: str) -> None:
    specified, uri = server
    specified.broken[f"/management/v1/{path}"] = 500
    with pytest.raises(bootstrap.UnexpectedAnswer, match=says):
        set_up(uri)


# --- the program, as the containers run it ----------------------------------------------------------------------------


def program(*words: str, **given: str) -> subprocess.CompletedProcess[str]:
    file = str(Path(bootstrap.__file__))
    command = [sys.executable, "-I", "-S", file, *words]  # -S: without any package
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=60)


def test_the_program_of_the_compose_file_makes_the_catalog(server: tuple[Lakekeeper, str]) -> None:
    specified, uri = server
    spec = composefile.read({})["lakekeeper-setup"]
    assert spec.entrypoint == ("python3", "/icequake/bootstrap.py") and spec.command == ("lakekeeper", "--keep")
    assert Path(spec.volumes[0][0]).resolve() == Path(bootstrap.__file__).resolve()
    done = program("lakekeeper", **{**spec.environment, "URI": uri})
    assert done.returncode == 0 and done.stdout == "lakekeeper: the catalog icequake is there\n", done.stderr
    assert len(specified.warehouses) == 1


@pytest.mark.parametrize("name", bootstrap.BOOTSTRAPPED)
def test_the_compose_file_gives_the_program_all_that_it_needs(name: str) -> None:
    given = {**composefile.read({})[f"{name}-setup"].environment, "URI": "http://127.0.0.1:1", "START_SECONDS": "0"}
    done = program(name, **given)
    assert done.returncode == 255 and os.strerror(errno.ECONNREFUSED) in done.stderr and done.stderr.count("\n") == 1
    del given["REGION"]
    done = program(name, **given)
    assert (done.returncode, done.stderr) == (254, f"{name}: the variable REGION is missing\n")


def test_a_server_without_a_set_up_is_said_with_the_usage() -> None:
    done = program("gravitino")
    assert done.returncode == 254 and "python bootstrap.py lakekeeper" in done.stderr
