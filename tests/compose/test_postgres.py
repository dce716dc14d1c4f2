"""What icequake asks PostgreSQL for itself: on a real server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg2 import OperationalError
from psycopg2.errors import DuplicateDatabase, UndefinedTable

from compose.catalogs.jdbc import JDBC_TABLES
from compose.catalogs.registry import CATALOGS
from compose.endpoints import Endpoints
from compose.install.installation import Installation
from compose.processes.ports import Ports
from compose.processes.process import NotReady
from compose.processes.service import ServiceError
from compose.servers.postgres import Postgres

ODD = r"""o'clock "100 %s" \'; DROP TABLE iceberg_tables; --"""
"""A name that is part of the statement wherever it is not bound to it."""


@pytest.fixture(scope="module")
def postgres(installation: Installation) -> Iterator[Postgres]:
    data = Path(tempfile.mkdtemp(prefix="icequake-test-"))
    data.chmod(0o755)
    server = Postgres(installation.postgres_bin, run_id=data.name, ports=Ports(), data=data / "pg", log=data / "log")
    server.start()
    try:
        server.ready(60)
        for statement in JDBC_TABLES:
            server.execute(statement)
        yield server
    finally:
        server.stop()
        shutil.rmtree(data, ignore_errors=True)


def endpoints(postgres: Postgres) -> Endpoints:
    return Endpoints("http://s:1", "k", "s", "r", "b", "jdbc", postgres.jdbc_url(), "s3://b/w", "spark://m:3")


def test_the_pointer_of_a_table_with_an_odd_name(postgres: Postgres) -> None:
    insert = "INSERT INTO iceberg_tables VALUES ('c', %s, %s, %s, NULL, 'TABLE')"
    postgres.execute(insert, ("ns", ODD, "s3://odd"))
    postgres.execute(insert, (ODD, "t", "s3://other"))
    pointer = CATALOGS["jdbc"].pointer
    assert pointer(endpoints(postgres), "ns", ODD, 5) == "s3://odd"
    assert pointer(endpoints(postgres), ODD, "t", 5) == "s3://other"
    assert pointer(endpoints(postgres), ODD, ODD, 5) is None


def test_a_percent_sign_is_itself_where_nothing_is_bound(postgres: Postgres) -> None:
    assert postgres.execute("SELECT 7 % 4, NULL") == [(3, None)]


def test_what_the_server_refuses_is_said_in_its_words(postgres: Postgres) -> None:
    with pytest.raises(NotReady) as unknown:
        postgres.execute("SELECT * FROM nothing")
    assert isinstance(unknown.value.__cause__, UndefinedTable) and said_by(unknown.value.__cause__) in str(
        unknown.value
    )
    with pytest.raises(NotReady, match="nowhere") as absent:
        postgres.execute("SELECT 1", database="nowhere")
    assert isinstance(absent.value.__cause__, OperationalError) and said_by(absent.value.__cause__) == str(absent.value)
    with pytest.raises(ServiceError, match="cannot create the database iceberg: ") as taken:
        postgres.create_database("iceberg")
    refused = taken.value.__cause__
    assert refused is not None and isinstance(refused.__cause__, DuplicateDatabase)
    assert said_by(refused.__cause__) in str(taken.value)


def said_by(error: BaseException) -> str:
    """What the server said, in one line."""
    return " ".join(str(error).split())


def test_a_paused_server_ends_the_wait(postgres: Postgres) -> None:
    """It still takes connections: only a time limit of ours ends this."""
    postgres.pause()
    try:
        with pytest.raises(TimeoutError):
            postgres.execute("SELECT 1", timeout=0.2)
        with pytest.raises(ServiceError, match=r"no metadata location of ns\.t: TimeoutError"):
            CATALOGS["jdbc"].pointer(endpoints(postgres), "ns", "t", 0.2)
    finally:
        postgres.resume()
    assert postgres.execute("SELECT 1") == [(1,)]
