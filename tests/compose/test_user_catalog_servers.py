"""The servers that run here, as if they were the user's: asked by PyIceberg they say what their own entries say."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from compose.catalogs import user, user_file
from compose.catalogs.registry import CATALOGS
from compose.endpoints import Endpoints
from compose.external.external import External, external
from compose.external.preflight import PreflightError, preflight
from compose.install.installation import Installation
from compose.processes.watchdog import Watchdog
from compose.stack.pointers import pointers, table_pointer
from compose.stack.stack import Stack

pytestmark = pytest.mark.spark

FILES = {
    "rest": 'spark: {{type: rest, uri: "{uri}"}}\ncommit: {{wire: http}}\n',
    "jdbc": 'spark: {{type: jdbc, uri: "{uri}", jdbc.user: iceberg, jdbc.password: unused}}\ncommit: {{wire: postgres}}\n',
    "hive": 'spark: {{type: hive, uri: "{uri}"}}\ncommit: {{wire: thrift}}\nguard: lock\n',
    "nessie-native": 'spark: {{type: nessie, uri: "{uri}", ref: main}}\npyiceberg: {{type: rest, uri: "{root}/iceberg"}}\n',
}


@pytest.fixture(params=FILES)
def theirs(
    request: pytest.FixtureRequest, installation: Installation, tmp_path: Path
) -> Iterator[tuple[Endpoints, Path]]:
    """A store and a catalog server, without Spark, and the file that describes them."""
    data = Path(tempfile.mkdtemp(prefix="icequake-test-"))
    data.chmod(0o755)
    no_spark = External(master="local[1]")
    with Watchdog(data.name, remove=[data]):
        with Stack(
            installation,
            run_id=data.name,
            data=data / "services",
            logs=data / "logs",
            catalog=request.param,
            external=no_spark,
        ) as stack:
            assert not any("spark" in name for name in stack.services)
            uri = stack.endpoints.catalog_uri
            file = tmp_path / "my.yaml"
            file.write_text(FILES[request.param].format(uri=uri, root=uri.removesuffix("/api/v2")))
            yield stack.endpoints, file
    shutil.rmtree(data, ignore_errors=True)


def test_it_answers_and_says_the_same_pointer(theirs: tuple[Endpoints, Path]) -> None:
    e, file = theirs
    mine = user_file.load(file)
    known = {"AWS_ACCESS_KEY_ID": e.access_key, "AWS_SECRET_ACCESS_KEY": e.secret_key}
    parts = external(mine, f"{e.s3}/{e.bucket}/mine", None, known)
    preflight(parts)
    wrong = external(mine, f"{e.s3}/no-such-bucket", None, known)
    with pytest.raises(PreflightError, match="make the bucket no-such-bucket first"):
        preflight(wrong)
    denied = external(mine, f"{e.s3}/{e.bucket}", None, {**known, "AWS_SECRET_ACCESS_KEY": "another one"})
    with pytest.raises(PreflightError, match="are the credentials right") as error:
        preflight(denied)
    assert "another one" not in str(error.value)

    assert mine.pyiceberg is not None
    s3 = {
        "s3.endpoint": e.s3,
        "s3.access-key-id": e.access_key,
        "s3.secret-access-key": e.secret_key,
        "s3.region": e.region,
    }
    catalog = load_catalog(user.SPARK_NAME, **mine.pyiceberg, **s3, warehouse=e.warehouse)
    catalog.create_namespace("ns")
    made = catalog.create_table("ns.t", Schema(NestedField(1, "id", LongType(), required=False)))
    made.append(pyarrow.table({"id": [1]}))
    expected = catalog.load_table("ns.t").metadata_location
    with pointers(Endpoints(**{**e.__dict__, "own": mine.plain()}), "") as asked:
        assert asked("ns", "t", 20) == expected
        assert asked("ns", "u", 20) is None and asked("other", "t", 20) is None
    assert table_pointer(e, "ns", "t") == expected, f"{CATALOGS[e.catalog].name} itself"
