"""A catalog of the user's: its file, its secrets, and what is said when it, its store or its Spark cluster does not answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from compose.catalogs import user, user_file
from compose.catalogs.addresses import masters, spark_master
from compose.catalogs.probe import Probe, ProbeError
from compose.catalogs.registry import catalog_of
from compose.endpoints import Endpoints
from compose.external import preflight as preflight_module
from compose.external.external import External, ExternalError, Store, driver_host, external, store
from compose.external.preflight import PreflightError, preflight
from compose.redaction import HIDDEN, Redaction
from compose.stack.pointers import table_pointer
from compose.stack.sparkconf import spark_conf
from compose.stack.stack import Stack
from tests.support.runs import inside
from workloads.file.yamlfile import FileError

SECRET = "s3cr3t of the owl"
REST = """\
name: my-rest
spark:
  type: rest
  uri: http://localhost:8181
  credential: "me:${MY_SECRET}"
  rest.client.socket-timeout-ms: 5000
commit: {wire: http}
"""


def described(tmp_path: Path, text: str, **variables: str) -> user_file.UserCatalogFile:
    file = tmp_path / "my.yaml"
    file.write_text(text)
    return user_file.load(file, {"MY_SECRET": SECRET, **variables})


# --- the file ---------------------------------------------------------------------------------------------------------


def test_a_class_may_call_its_address_as_it_likes(tmp_path: Path) -> None:
    own = REST.replace("type: rest\n  uri:", "catalog-impl: com.example.Catalog\n  url:").partition("commit:")[0]
    loaded = described(tmp_path, own + "pyiceberg: {type: rest, uri: 'http://localhost:8181'}\n")
    assert loaded.spark["url"] == "http://localhost:8181"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("spark:", "sparc:"), ":2: unknown key 'sparc' (did you mean spark?); allowed: spark, name, summary"),
        (
            ("spark:\n  type: rest\n", "type: rest\nmore:\n"),
            ":2: type is a property of the catalog and belongs below spark: (did you mean",
        ),
        (("spark:", "properties:"), ":2: unknown key 'properties' (did you mean spark?)"),
        (("  type: rest\n", ""), ":2: spark: needs type (rest, hive, jdbc, glue, nessie, hadoop) or catalog-impl"),
        (("MY_SECRET", "MY_SECRT"), ":5: credential: the environment variable MY_SECRT is not set; export it"),
        (
            ("MY_SECRET}", "MY_SECRET"),
            ":5: credential: ${MY_SECRET is not closed; write ${NAME}, or $${ for the text ${ itself",
        ),
        (("MY_SECRET", "CREDENTIAL"), ":5: credential: the environment variable CREDENTIAL is not set; export it"),
        (("${MY_SECRET}", "${MY SECRET}"), ":5: credential: ${MY SECRET} is not the name of an environment variable"),
        (
            ("wire: http", "wire: smoke"),
            ":7: wire: 'smoke' is not allowed; allowed: http, aws, postgres, thrift",
        ),
        (("wire: http", "wire: http, property: url"), ":7: commit: spark has no key 'url'; name by property:"),
        (
            ("http://localhost", "https://localhost"),
            ":7: commit: a proxy cannot read encrypted requests; give address:",
        ),
        (
            ("http://localhost:8181", "there:81"),
            ":4: uri: 'there:81' does not begin with http:// or https://; write http://there:81",
        ),
        (("  uri:", "  url:"), ":4: url: did you mean uri?"),
        (("type: rest\n  uri:", "type: hive\n  url:"), ":4: url: did you mean uri?"),
        (("  uri: http://localhost:8181\n", ""), ":2: spark: type rest needs uri, the address of its server"),
        (("  uri: http://localhost:8181", "  uri: ''"), ":2: spark: type rest needs uri, the address of its server"),
        (("  type: rest", "  type: rset"), ":3: type: unknown type 'rset' (did you mean rest?); allowed: rest, hive"),
        (("  type: rest", "  spark.type: rest"), ":3: spark.type: give what follows spark.sql.catalog.<name>. here"),
        (
            ("  type: rest", "  duckdb.attach.purge_request: 'true'\n  type: rest"),
            ":3: unknown property of DuckDB 'duckdb.attach.purge_request' (did you mean duckdb.attach.purge_requested?)",
        ),
        (("  type: rest", "  s3.endpoint: http://x\n  type: rest"), ":3: s3.endpoint: name the store by s3: http"),
        (
            ("  type: rest", "  type: nessie"),
            ":2: pyiceberg: missing, and cannot be derived from spark: PyIceberg has no nessie",
        ),
        (("commit: ", "jars: [mine.jar]\ncommit: "), "jars: [mine.jar]"),
        (("commit: ", "session: {fs.s3a.x: 1}\ncommit: "), ":7: fs.s3a.x: Spark's properties begin with spark."),
        ((REST, ""), ":1: the file is empty; start from docs/own-catalog.md"),
        (("name: my-rest", "name: [my"), "the [ of this line is not closed by ]"),
    ],
)
def test_a_bad_file_names_file_line_key_and_remedy(change: tuple[str, str], says: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as error:
        described(tmp_path, REST.replace(*change))
    expected = says if "mine.jar" not in says else f":7: jars: {tmp_path / 'mine.jar'} is not there"
    assert expected in str(error.value) and str(tmp_path / "my.yaml") in str(error.value)
    assert "\n" not in str(error.value) and SECRET not in str(error.value)


def test_what_stands_below_a_wrong_key_is_told_with_it(tmp_path: Path) -> None:
    """A key that was misspelled is read as it was meant, and one value that is wrong hides no other."""
    with pytest.raises(FileError) as error:
        described(tmp_path, "sparc:\n  type: rset\ns4: http://h/b\ncommit: {wire: https}\njars: [a.jar]\n")
    told = [line.removeprefix(f"{tmp_path}/my.yaml:") for line in str(error.value).splitlines()]
    assert [line.replace(";", "").split(" ")[:4] for line in told] == [
        ["1:", "unknown", "key", "'sparc'"],
        ["2:", "type:", "unknown", "type"],
        ["3:", "unknown", "key", "'s4'"],
        ["4:", "wire:", "'https'", "is"],
        ["5:", "jars:", f"{tmp_path / 'a.jar'}", "is"],
    ]


MANY = """\
spark:
  uri: https://lake
  credential: ${NOBODY}
  spark.x: y
session: {x: "1"}
commit: {wire: http}
jars: [a.jar, b.jar]
foo: 1
guard: lok
"""


def test_all_that_is_wrong_with_a_file_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileError) as error:
        described(tmp_path, MANY)
    told = [line.removeprefix(f"{tmp_path}/my.yaml:") for line in str(error.value).splitlines()]
    assert [line.split(": ")[:2] for line in told] == [
        ["1", "spark"],
        ["3", "credential"],
        ["4", "spark.x"],
        ["5", "x"],
        ["6", "commit"],
        ["7", "jars"],
        ["7", "jars"],
        ["8", "unknown key 'foo'; allowed"],
        ["9", "guard"],
    ]


@pytest.mark.parametrize(
    "text",
    ["spark: {type: rest, uri: ${X}}", "spark: {uri: http://${X}/a, type: rest}", "spark:\n  {uri: ${X},\n type: a}"],
)
def test_a_variable_on_a_line_in_braces_is_told_to_be_quoted(text: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r'a variable between \{ and \} must be put in quotes: "\$\{NAME\}"'):
        described(tmp_path, text)
    quoted = "spark: {type: rest, uri: '${X}'}"
    assert described(tmp_path, quoted, X="http://lake").uri == "http://lake"


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    file = tmp_path / "the lake.yml"
    file.write_text("spark: {type: rest, uri: http://lake, rest.sigv4-enabled: false}")
    lake = user_file.load(file)
    assert (lake.name, lake.wire, lake.secrets, lake.guard) == ("the-lake", None, {}, "compare-and-swap")
    assert lake.pyiceberg == {"type": "rest", "uri": "http://lake", "rest.sigv4-enabled": "false"}
    assert user_file.is_file("my.yaml") and user_file.is_file("a/my.yml") and not user_file.is_file("rest")


@pytest.mark.parametrize(
    ("spark", "expected"),
    [
        (
            {"type": "rest", "uri": "http://h", "credential": "a:b", "scope": "ALL", "rest.client.x": "1", "s3.x": "1"},
            {"type": "rest", "uri": "http://h", "credential": "a:b", "scope": "ALL"},
        ),
        ({"type": "hive", "uri": "thrift://h:9083", "warehouse": "s3://b"}, {"type": "hive", "uri": "thrift://h:9083"}),
        (
            {"type": "jdbc", "uri": "jdbc:postgresql://h:5432/db?ssl=true", "jdbc.user": "me", "jdbc.password": "p@ss"},
            {"type": "sql", "uri": "postgresql+psycopg2://me:p%40ss@h:5432/db"},
        ),
        (
            {"type": "jdbc", "uri": "jdbc:postgresql://h/db?user=me&password=pw"},
            {"type": "sql", "uri": "postgresql+psycopg2://me:pw@h/db"},
        ),
        ({"type": "jdbc", "uri": "jdbc:sqlite:/tmp/c.db?x=1"}, {"type": "sql", "uri": "sqlite:////tmp/c.db"}),
        ({"type": "glue", "client.region": "eu-west-1"}, {"type": "glue", "glue.region": "eu-west-1"}),
    ],
)
def test_pyiceberg_is_told_what_spark_is_told(spark: dict[str, str], expected: dict[str, str]) -> None:
    assert user_file.derived(spark) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{header.x: "", scope: B}', {"type": "rest", "uri": "http://h", "scope": "B", "header.x": ""}),
        ("{}", {"type": "rest", "uri": "http://h", "scope": "A"}),
        ("{type: rest, header.x: y}", {"type": "rest", "header.x": "y"}),
        ("{uri: http://i}", {"uri": "http://i"}),
    ],
)
def test_what_stands_under_pyiceberg_is_added_unless_it_says_which_catalog_it_is(
    tmp_path: Path, text: str, expected: dict[str, str]
) -> None:
    mine = described(tmp_path, f"spark: {{type: rest, uri: http://h, scope: A}}\npyiceberg: {text}")
    assert mine.pyiceberg == expected


@pytest.mark.parametrize(
    "spark", [{"type": "nessie"}, {"catalog-impl": "x.Y"}, {"type": "jdbc", "uri": "jdbc:mysql://h/d"}]
)
def test_what_pyiceberg_cannot_be_told_is_asked_for(spark: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="give "):
        user_file.derived(spark)


# --- what becomes of it -----------------------------------------------------------------------------------------------


def endpoints(catalog: user_file.UserCatalogFile) -> Endpoints:
    return Endpoints(
        s3="http://store:9000",
        access_key="a",
        secret_key="b",
        region="r",
        bucket="w",
        catalog=catalog.name,
        catalog_uri=catalog.uri,
        warehouse="s3://w/p",
        spark_master="spark://far:7077",
        own=catalog.plain(),
        driver_host="10.0.0.7",
        ship_jars=True,
    )


def test_a_proxy_stands_where_the_file_says(tmp_path: Path) -> None:
    e = endpoints(described(tmp_path, REST))
    entry = catalog_of(Endpoints.from_json(e.to_json()))
    assert entry.wire == "http" and entry.address(e) == ("localhost", 8181)
    assert entry.properties(entry.through(e, "127.0.0.1", 9))["uri"] == "http://127.0.0.1:9"

    far = described(
        tmp_path,
        REST.replace("http://localhost:8181", "https://lake/api").replace("http}", 'http, address: "inner:80"}'),
    )
    e = endpoints(far)
    assert catalog_of(e).address(e) == ("inner", 80)
    assert catalog_of(e).properties(catalog_of(e).through(e, "127.0.0.1", 9))["uri"] == "http://127.0.0.1:9/api"


def test_the_writers_get_the_users_properties_and_the_stores_address(tmp_path: Path, installation: Any) -> None:
    text = REST.replace("  type: rest", "  type: rest\n  s3.path-style-access: false")
    conf = spark_conf(installation, endpoints(described(tmp_path, text)), scratch=tmp_path)
    c = "spark.sql.catalog.c"
    assert conf[f"{c}.credential"] == f"me:{SECRET}" and conf[f"{c}.uri"] == "http://localhost:8181"
    assert conf[f"{c}.rest.client.socket-timeout-ms"] == "5000", "the user's, not ours"
    assert conf[f"{c}.s3.endpoint"] == "http://store:9000" and conf[f"{c}.s3.path-style-access"] == "false"
    assert f"{c}.warehouse" not in conf, "a REST server's warehouse is a name that only its owner knows"
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "10.0.0.7"
    assert "spark.executor.extraClassPath" not in conf and "iceberg-spark-runtime" in conf["spark.jars"]
    assert "credential" in conf["spark.redaction.regex"]


def test_the_users_jars_stand_behind_the_runtime_whose_classes_win(tmp_path: Path, installation: Any) -> None:
    (tmp_path / "mine.jar").write_bytes(b"")
    e = endpoints(described(tmp_path, REST.replace("commit: ", "jars: [mine.jar]\ncommit: ", 1)))
    shipped = [Path(jar).name for jar in spark_conf(installation, e, scratch=tmp_path)["spark.jars"].split(",")]
    assert shipped[-1] == "mine.jar" and any("iceberg-spark-runtime" in jar for jar in shipped[:-1])
    driver = spark_conf(installation, e, scratch=tmp_path)["spark.driver.extraClassPath"].split(":")
    assert [Path(jar).name for jar in driver] == shipped


@pytest.mark.parametrize(
    ("parts", "ours"),
    [
        ({}, {"minio", "postgres", "rest", "spark-master", "spark-worker-1"}),
        ({"master": "spark://h:1"}, {"minio", "postgres", "rest"}),
        ({"store": Store("http://h", "b", "p", "a", "s", "r")}, {"postgres", "rest", "spark-master", "spark-worker-1"}),
        ({"catalog": "my"}, {"minio", "spark-master", "spark-worker-1"}),
        ({"catalog": "my", "master": "local[2]", "store": Store("http://h", "b", "", "a", "s", "r")}, set()),
    ],
)
def test_only_what_is_not_the_users_is_started(
    parts: dict[str, Any], ours: set[str], tmp_path: Path, installation: Any
) -> None:
    if "catalog" in parts:
        parts = {**parts, "catalog": described(tmp_path, REST)}
    stack = Stack(
        installation, run_id="x", data=tmp_path / "d", logs=tmp_path / "l", workers=1, external=External(**parts)
    )
    assert set(stack.services) == ours
    if not ours:
        with stack:  # nothing to do, and nothing to end
            found = stack.endpoints
        assert (found.s3, found.bucket, found.warehouse) == ("http://h", "b", "s3://b/my-rest")
        assert (found.access_key, found.secret_key, found.spark_master, found.ship_jars) == (
            "a",
            "s",
            "local[2]",
            False,
        )


# --- store and Spark --------------------------------------------------------------------------------------------------

KEYS = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": SECRET}


def test_a_store_is_an_address_and_the_environments_credentials() -> None:
    found = store("http://h:9000/bucket/a/b/", {}, {**KEYS, "AWS_REGION": "eu-west-1"})
    assert found == Store("http://h:9000", "bucket", "a/b", "me", SECRET, "eu-west-1")
    assert found.shown == "http://h:9000/bucket/a/b"
    of_file = {"s3.access-key-id": "its", "s3.secret-access-key": "own", "client.region": "x"}
    assert store("https://h/b", of_file, {}) == Store("https://h", "b", "", "its", "own", "x")


@pytest.mark.parametrize(
    ("url", "known", "says"),
    [
        ("http://h:9000", KEYS, "give http://host:9000/bucket"),
        ("s3://bucket", KEYS, "give http://host:9000/bucket"),
        ("http://h:port/b", KEYS, "give http://host:9000/bucket"),
        ("http://me:pw@h/b", KEYS, "not in the address"),
        ("http://h/b", {}, "the store http://h/b: the environment variable AWS_ACCESS_KEY_ID is not set; export "),
        ("http://h/b", {}, "AWS_ACCESS_KEY_ID=…, or give s3.access-key-id under spark: of your catalog file"),
        ("http://h/b", {"AWS_ACCESS_KEY_ID": "x"}, "AWS_SECRET_ACCESS_KEY is not set"),
    ],
)
def test_a_bad_store_is_said(url: str, known: dict[str, str], says: str) -> None:
    with pytest.raises(ExternalError) as error:
        store(url, {}, known)
    assert says in str(error.value) and "pw@" not in str(error.value)


def test_a_bad_store_of_the_file_is_said_with_its_line_and_with_all_else_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FileError) as error:
        described(tmp_path, REST.replace("commit:", "comit:") + "s3: htp://a/b\nmaster: spark://far\n")
    told = [line.removeprefix(f"{tmp_path}/my.yaml:") for line in str(error.value).splitlines()]
    assert [line.partition(";")[0] for line in told] == [
        "7: unknown key 'comit' (did you mean commit?)",
        "8: s3: htp://a/b: give http://host:9000/bucket or http://host:9000/bucket/prefix",
        "9: master: spark://far: no Spark master",
    ]


@pytest.mark.parametrize("wrong", ["127.0.0.1:7077", "sprk://h:7077", "localhost:7077", "spark://h", "yarn-client"])
def test_what_is_no_master_is_told_of_the_file_as_of_the_option(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as error:
        described(tmp_path, REST.replace("commit:", "comit:") + f"master: {wrong}\n")
    says = f"{wrong}: no Spark master; give spark://host:7077, several separated by commas, local[4], yarn or k8s://https://host:port"
    assert str(error.value).splitlines()[1:] == [f"{tmp_path}/my.yaml:8: master: {says}"], "with all else that is wrong"
    done = inside("run", "quick", "--spark", wrong, "--dry-run", cwd=tmp_path)
    assert done.returncode == 254 and f"--spark {says}" in done.stderr


@pytest.mark.parametrize("right", ["spark://a:1,b:2", "local[2,4]", "local", "yarn", "k8s://https://a:1"])
def test_each_kind_of_master_is_one(right: str, tmp_path: Path) -> None:
    assert described(tmp_path, REST + f'master: "{right}"\n').master == spark_master(right) == right


@pytest.mark.parametrize("far", ["spark://far:7077", "spark://127.0.0.1:7077,far:7077", "yarn", "k8s://https://a:1"])
def test_executors_elsewhere_need_a_store_that_they_reach(far: str) -> None:
    with pytest.raises(ExternalError, match="give one with --s3"):
        external(None, None, far)
    given = external(None, "http://store:9000/lake", far, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
    assert given.master == far and given.store is not None
    for here in ("local[2]", "spark://localhost:7077"):
        assert external(None, None, here).master == here
    with pytest.raises(ExternalError, match="give spark://host:7077"):
        external(None, None, "spark://far")


@pytest.mark.parametrize("key", ["uri", "s3", "master", "type"])
def test_of_a_variable_that_is_not_set_only_that_is_said(key: str, tmp_path: Path) -> None:
    text = REST.replace("http://localhost:8181", "${MY_PLACE}") if key == "uri" else REST + f"{key}: ${{MY_PLACE}}\n"
    if key == "type":
        text = REST.replace("type: rest", "type: ${MY_PLACE}")
    with pytest.raises(FileError) as error:
        described(tmp_path, text.replace("master: $", "master: spark://$"))
    assert str(error.value).endswith(f"{key}: the environment variable MY_PLACE is not set; export it")
    assert len(str(error.value).splitlines()) == 1


def test_the_options_win_over_the_file(tmp_path: Path) -> None:
    mine = described(tmp_path, REST + "s3: http://a/b\nmaster: spark://c:1\n")
    found = external(mine, None, None, KEYS)
    assert found.store is not None and (found.store.endpoint, found.master) == ("http://a", "spark://c:1")
    found = external(mine, "http://x/y", "local[2]", KEYS)
    assert found.store is not None and (found.store.endpoint, found.master) == ("http://x", "local[2]")
    assert found.plain == {"catalog": mine.file, "store": "http://x/y", "spark": "local[2]"}
    assert SECRET in found.secrets


def test_masters_and_the_address_at_which_they_reach_us() -> None:
    assert masters("spark://a:1,b:2") == [("a", 1), ("b", 2)]
    assert masters("local[4]") == masters("k8s://x") == masters("spark://a:1,b") == []
    assert driver_host("spark://127.0.0.1:7077") == driver_host("local[4]") == "127.0.0.1"


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_what_looks_like_a_secret_is_known_as_one(tmp_path: Path) -> None:
    text = REST.replace("  type: rest", '  type: rest\n  token: "a.b.c"\n  header.x: "${HOST} ${API_TOKEN}"')
    secrets = described(tmp_path, text, HOST="plain", API_TOKEN="t0ken").secrets
    assert {f"me:{SECRET}", SECRET, "a.b.c", "t0ken"} <= set(secrets)
    assert "plain" not in secrets and "rest" not in secrets


def test_secrets_are_hidden_in_texts_values_and_files(tmp_path: Path) -> None:
    hide = Redaction(['we"ird'])
    assert hide.text('a we"ird b') == f"a {HIDDEN} b"
    assert hide.value([["X", 'we"ird'], {"k": ('we"ird', 3)}]) == [["X", HIDDEN], {"k": [HIDDEN, 3]}]
    assert hide.text("postgresql://me:pw@h/d?password=pw&x=1") == f"postgresql://me:{HIDDEN}@h/d?password={HIDDEN}&x=1"
    (tmp_path / "a.log").write_bytes(b'\xff we"ird ' + json.dumps('we"ird').encode())
    (tmp_path / "b.log").write_text("fine")
    before = (tmp_path / "b.log").stat()
    hide.folder(tmp_path)
    assert (tmp_path / "a.log").read_bytes() == f' {HIDDEN} "{HIDDEN}"'.encode().join([b"\xff", b""])
    assert (tmp_path / "b.log").stat().st_ino == before.st_ino
    assert Redaction([]).text("postgresql://me:pw@h") == f"postgresql://me:{HIDDEN}@h", "also when no secret is known"


# --- servers that fail the check ----------------------------------------------------------------------------------------

Answer = Callable[[str, Mapping[str, str]], tuple[int, bytes]]


@contextmanager
def server(answer: Answer) -> Iterator[int]:
    """An HTTP server that answers every request so; its port."""

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            status, body = answer(self.path, self.headers)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = reply

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        try:
            yield running.server_address[1]
        finally:
            running.shutdown()
            thread.join()


@contextmanager
def black_hole() -> Iterator[int]:
    """Takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield listener.getsockname()[1]


@contextmanager
def nobody() -> Iterator[int]:
    """A port at which nobody listens, and nobody else will."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def error(kind: str, code: int) -> bytes:
    return json.dumps({"error": {"message": "no", "type": kind, "code": code}}).encode()


def denies(status: int) -> Answer:
    return lambda path, _: (status, error("NotAuthorizedException" if status == 401 else "ForbiddenException", status))


def asks_for_a_token(path: str, _: Mapping[str, str]) -> tuple[int, bytes]:
    return 401, b'{"error": "invalid_client", "error_description": "unknown me"}'


def catalog_at(tmp_path: Path, port: int, credential: bool = False) -> External:
    text = f'name: mine\nspark: {{type: rest, uri: "http://127.0.0.1:{port}"'
    text += ', credential: "me:${MY_SECRET}"}' if credential else "}"
    return External(catalog=described(tmp_path, text))


def store_at(tmp_path: Path, port: int, _: bool = False) -> External:
    return External(store=Store(f"http://127.0.0.1:{port}", "bucket", "p", "me", SECRET, "us-east-1"))


def children() -> set[int]:
    return {p.pid for p in psutil.Process().children(recursive=True)}


S3_DENIED = b"<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Whoever asks waits: a busy machine is slow, and no broken part."""
    monkeypatch.setattr(preflight_module, "PROBE_SECONDS", 300.0)
    monkeypatch.setattr(preflight_module, "ANSWER_SECONDS", 300.0)
    return monkeypatch


def test_all_parts_are_asked_within_30_s() -> None:
    assert preflight_module.PROBE_SECONDS + preflight_module.ANSWER_SECONDS < 30
    assert preflight_module.MASTERS_SECONDS < 30


@pytest.mark.parametrize(
    ("made", "place", "credential", "says"),
    [
        (catalog_at, nobody, False, "connection refused; is it up, and is the address right?"),
        (catalog_at, black_hole, False, "no answer within 1 s; is the address right, and does a firewall drop"),
        (catalog_at, lambda: server(lambda *_: (500, b"")), False, "see the server's own log"),
        (catalog_at, lambda: server(lambda *_: (500, b"<html>")), False, "see the server's own log"),
        (catalog_at, lambda: server(denies(401)), False, "are the credentials right, and do they permit this?"),
        (catalog_at, lambda: server(denies(403)), False, "are the credentials right, and do they permit this?"),
        (catalog_at, lambda: server(asks_for_a_token), True, "invalid_client: unknown me; are the credentials right"),
        (catalog_at, lambda: server(lambda *_: (200, b"hello")), False, "are the properties right?"),
        (store_at, nobody, False, "connection refused; is it up, and is the address right?"),
        (store_at, black_hole, False, "; is the address right, and does a firewall drop"),
        (
            store_at,
            lambda: server(lambda *_: (403, S3_DENIED)),
            False,
            "do they permit this? If bucket is a bucket of tables, it takes no other object: give another bucket",
        ),
        (store_at, lambda: server(lambda *_: (500, b"")), False, "written, read and deleted"),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_a_part_that_does_not_do_is_one_line_and_leaves_nothing(
    made: Any, place: Any, credential: bool, says: str, tmp_path: Path, patient: pytest.MonkeyPatch
) -> None:
    if place is black_hole:
        patient.setattr(preflight_module, "ANSWER_SECONDS", 1.0)
    before = children()
    with place() as port:
        with pytest.raises(PreflightError) as e:
            preflight(made(tmp_path, port, credential))
    text = str(e.value)
    assert says in text and f"127.0.0.1:{port}" in text
    assert "\n" not in text and SECRET not in text and "Traceback" not in text
    assert children() == before


def test_every_part_that_does_not_do_is_named(tmp_path: Path) -> None:
    with nobody() as one, nobody() as two, nobody() as three:
        parts = replace(
            catalog_at(tmp_path, one), store=store_at(tmp_path, two).store, master=f"spark://127.0.0.1:{three}"
        )
        with pytest.raises(PreflightError) as e:
            preflight(parts)
    assert [p.partition(" ")[0] for p in e.value.problems] == ["catalog", "store", "Spark"]
    assert f"127.0.0.1:{three}: connection refused" in str(e.value)


def test_one_of_several_masters_is_enough(tmp_path: Path) -> None:
    with nobody() as down, black_hole() as up:
        preflight(External(master=f"spark://127.0.0.1:{down},127.0.0.1:{up}"))
    with pytest.raises(PreflightError, match="no such host"):
        preflight(External(master="spark://no-such-host.invalid:7077"))


def test_the_command_line_says_it_and_leaves_no_run(tmp_path: Path, patient: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my.yaml"
    with server(lambda *_: (500, b"")) as port:
        file.write_text(f'spark: {{type: rest, uri: "http://127.0.0.1:{port}", credential: "${{MY_SECRET}}"}}')
        run = ("run", "quick", "--store", tmp_path / "store", "--catalog", file)
        patient.delenv("MY_SECRET", raising=False)
        bad = inside(*run, cwd=tmp_path)
        assert (
            bad.returncode == 254
            and f"{file}:1: credential: the environment variable MY_SECRET is not set" in bad.stderr
        )
        broken = inside(*run, cwd=tmp_path, MY_SECRET=SECRET)
    assert broken.returncode == 255 and broken.stderr.startswith("icequake: catalog my at http://127.0.0.1")
    assert broken.stderr.count("\n") == 1 and SECRET not in broken.stderr + broken.stdout
    assert not (tmp_path / "store").exists()


# --- asking -----------------------------------------------------------------------------------------------------------


def test_the_pointer_is_what_the_catalog_says_though_its_file_cannot_be_read(tmp_path: Path) -> None:
    import sqlite3

    from compose.catalogs.jdbc import JDBC_TABLES

    file = tmp_path / "c.db"
    with sqlite3.connect(file) as database:
        for statement in JDBC_TABLES:
            database.execute(statement)
        row = ("c", "ns", "t", "s3://nowhere/metadata/7.json", None, "TABLE")
        database.execute("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, ?, ?)", row)
        database.execute("INSERT INTO iceberg_namespace_properties VALUES ('c', 'ns', 'exists', 'true')")
    database.close()
    mine = described(tmp_path, f'spark: {{type: jdbc, uri: "jdbc:sqlite:{file}"}}')
    preflight(External(catalog=mine))
    with user.probe(mine) as asked:
        assert asked.pointer("ns", "t", 300) == "s3://nowhere/metadata/7.json"
        assert asked.pointer("ns", "u", 300) is None and asked.pointer("other", "t", 300) is None
    assert table_pointer(endpoints(mine), "ns", "t") == "s3://nowhere/metadata/7.json"


def test_an_asker_that_was_ended_asks_anew(tmp_path: Path) -> None:
    with black_hole() as port, Probe("x", {"c": {"type": "rest", "uri": f"http://127.0.0.1:{port}"}}) as asked:
        for _ in range(2):
            with pytest.raises(ProbeError) as e:
                asked.ask({"namespaces": True}, 0.5)
            assert e.value.kind == "silent"
    assert not children()


def test_an_asker_ends_with_its_input_also_in_the_middle_of_a_question() -> None:
    with black_hole() as port:
        asked = Probe("x", {"c": {"type": "rest", "uri": f"http://127.0.0.1:{port}"}})
        with pytest.raises(ProbeError):
            asked.ask({"pointer": ["no"]}, 300)  # it is up
        child = asked._child
        assert child is not None and child.stdin is not None
        child.stdin.write(b'{"namespaces": true}\n')
        child.stdin.close()
        assert child.wait(300) == 0
        asked.close()
