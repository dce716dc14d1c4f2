"""A user-supplied catalog: a YAML file with the properties by which Spark and PyIceberg reach it. ``docs/own-catalog.md`` is its reference.

Variables are filled in as in all such files (:mod:`compose.catalogs.properties`); secrets are never written into a run's folder (``secrets``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, Field

from compose.catalogs import properties
from compose.catalogs.addresses import AddressError, spark_master, store_address
from compose.catalogs.catalog import CONNECT_TIMEOUT_MS, SOCKET_TIMEOUT_MS, Guard, Wire, split
from compose.catalogs.properties import Properties, Source, unfilled
from workloads.file.engineproperties import property_problem
from workloads.file.meant import nearest, unknown

is_file = properties.is_file
"""Whether ``catalog: NAME`` names a file of this kind, not a catalog of ``compose.catalogs.registry``."""


_NAMES_A_CATALOG = frozenset({"type", "uri", "py-catalog-impl"})
"""Keys of ``pyiceberg:`` that say which catalog it is; without one, what stands there is added to what follows from ``spark:``."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Commit(_Model):
    wire: Wire
    property: str = "uri"
    address: Annotated[str, Field(pattern=r"^[^\s:/]+:\d{1,5}$")] | None = None


class _File(_Model):
    spark: Properties
    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")] | None = None
    summary: str = ""
    session: Properties = {}
    pyiceberg: dict[str, Any] | None = None
    commit: _Commit | None = None
    warehouse: str | None = None
    guard: Guard = "compare-and-swap"
    jars: tuple[str, ...] = ()
    s3: str | None = None
    master: str | None = None


@dataclass(frozen=True)
class UserCatalogFile:
    """What the file of a user's catalog says, in plain values.

    Attributes:
        file: the path of the file.
        spark: what follows ``spark.sql.catalog.<name>.``.
        session: other Spark properties.
        pyiceberg: the properties of ``pyiceberg.catalog.load_catalog``; None for a Hadoop catalog, which is files.
        wire, key, address: of the place where commits are decided; no wire: no proxy can stand there.
        warehouse: where tables are, ``s3://…``; empty: the store's.
        jars: more jars for drivers and executors.
        s3, master: the store and the Spark cluster that the file names.
        secrets: words that must not be written to any file or shown, each → the key or the variable whose secret it is.
    """

    name: str
    file: str
    summary: str
    spark: dict[str, str]
    session: dict[str, str]
    pyiceberg: dict[str, Any] | None
    wire: Wire | None
    key: str
    address: str | None
    warehouse: str
    guard: Guard
    jars: tuple[str, ...]
    s3: str | None
    master: str | None
    secrets: dict[str, str]

    @property
    def kind(self) -> str:
        """``rest``, ``hive``, …, or the class that implements it."""
        return self.spark.get("type") or self.spark.get("catalog-impl", "")

    @property
    def of_type(self) -> UserCatalogType:
        """What is known of its kind."""
        return TYPES.get(self.kind) or _CLASSES.get(self.kind, _UNKNOWN)

    @property
    def uri(self) -> str:
        """Address of the place where commits are decided; empty when it is not known."""
        return self.spark.get(self.key if self.wire else "uri", "")

    def plain(self) -> dict[str, Any]:
        """For ``Endpoints.own``."""
        return asdict(self)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> UserCatalogFile:
        """The inverse of ``plain``, also after a way through JSON."""
        return cls(**{**plain, "jars": tuple(plain["jars"])})


def load(path: Path, environment: Mapping[str, str] | None = None) -> UserCatalogFile:
    """Read and validate a catalog's file.

    Args:
        environment: the variables that ``${NAME}`` is taken from; this process's when None.

    Raises:
        FileError: the file cannot be read, a key or value in it is wrong, or a variable is not set.
    """
    example = "docs/own-catalog.md, which has complete examples"
    return properties.load(path, _File, _made, example=example, environment=environment)


def _made(file: _File, source: Source) -> UserCatalogFile:
    _check(file, source)
    jars = source.jars(file.jars)
    pyiceberg = file.pyiceberg
    complete = pyiceberg is not None and not _NAMES_A_CATALOG.isdisjoint(pyiceberg)
    says = file.spark.get("type") in TYPES or "catalog-impl" in file.spark
    if says and not complete and not TYPES.get(file.spark.get("type", ""), _UNKNOWN).files:
        try:
            pyiceberg = {**derived(file.spark), **(pyiceberg or {})}
        except ValueError as e:
            source.wrong(("spark",), f"pyiceberg: missing, and cannot be derived from spark: {e}")
    return UserCatalogFile(
        name=file.name or re.sub(r"[^A-Za-z0-9_-]+", "-", source.path.stem),
        file=str(source.path),
        summary=file.summary,
        spark=dict(file.spark),
        session=dict(file.session),
        pyiceberg=pyiceberg,
        wire=None if file.commit is None else file.commit.wire,
        key="uri" if file.commit is None else file.commit.property,
        address=None if file.commit is None else file.commit.address,
        warehouse=file.warehouse or "",
        guard=file.guard,
        jars=jars,
        s3=file.s3,
        master=file.master,
        secrets=dict(source.secrets),
    )


def _check(file: _File, source: Source) -> None:
    spark, commit, wrong = file.spark, file.commit, source.wrong
    source.check_keys(spark, file.session)
    for key in spark:
        if (message := property_problem(key)) is not None:
            wrong(("spark", key), message)
    if file.s3 is not None and not unfilled(file.s3):
        try:
            store_address(file.s3)
        except AddressError as e:
            wrong(("s3",), f"s3:{e}")
    if file.master is not None and not unfilled(file.master):
        try:
            spark_master(file.master)
        except AddressError as e:
            wrong(("master",), f"master: {file.master}: {e}")
    if not any(key.removeprefix("spark.") in ("type", "catalog-impl") for key in spark):
        wrong(("spark",), f"spark: needs type ({', '.join(TYPES)}) or catalog-impl (a class)")
    elif (given := spark.get("type")) is not None and given not in TYPES and not unfilled(given):
        wrong(("spark", "type"), f"type: {unknown('type', given, TYPES)}, or catalog-impl: a class in place of type")
    if "s3.endpoint" in spark:
        wrong(
            ("spark", "s3.endpoint"),
            "s3.endpoint: name the store by s3: http://host:port/bucket (or --s3), because icequake reads it too",
        )
    uri = spark.get("uri", "")
    meant = next((key for key in spark if nearest(key, ["uri"])), None)
    has_uri = spark.get("type") in TYPES and (
        commit is None or commit.property == "uri"
    )  # a class may have any other key
    if has_uri and meant not in (None, "uri") and "uri" not in spark:
        wrong(("spark", meant), f"{meant}: did you mean uri?")
        return
    if unfilled(uri):
        return
    if not uri and TYPES.get(spark.get("type", ""), _UNKNOWN).http:
        wrong(("spark",), f"spark: type {spark['type']} needs uri, the address of its server")
        return
    if TYPES.get(spark.get("type", ""), _UNKNOWN).http and uri and not uri.startswith(("http://", "https://")):
        wrong(("spark", "uri"), f"uri: {uri!r} does not begin with http:// or https://; write http://{uri}")
        return
    if commit is None or commit.wire == "s3":
        return
    if commit.property not in spark:
        wrong(("commit",), f"commit: spark has no key {commit.property!r}; name by property: the one with the address")
    elif commit.address is None and (message := _no_address(spark[commit.property])) is not None:
        wrong(("commit",), f"commit: {message}")


def _no_address(uri: str) -> str | None:
    """Why a proxy cannot stand before this address; None if it can."""
    if uri.startswith("https:"):
        return (
            f"a proxy cannot read encrypted requests; give address: host:port, where the server of {uri} answers in plain HTTP, or "
            "leave commit out, and no fault of connections strikes the catalog"
        )
    try:
        known = split(uri).port is not None or split(uri).scheme in ("http", "postgresql", "thrift")
    except ValueError:
        known = False
    return None if known and "," not in uri else f"{uri!r} names no single host and port; give address: host:port"


def derived(spark: Mapping[str, str]) -> dict[str, Any]:
    """PyIceberg's properties of the catalog that ``spark`` describes.

    Raises:
        ValueError: PyIceberg has no such catalog, or needs other properties.
    """
    kind = spark.get("type", "")
    found = TYPES.get(kind, _UNKNOWN).pyiceberg
    if found is None:
        raise ValueError(
            f"PyIceberg has no {kind or spark.get('catalog-impl')} catalog; give the properties of one by which it reaches the same tables"
        )
    return found(spark)


def _rest(spark: Mapping[str, str]) -> dict[str, Any]:
    return {k: v for k, v in spark.items() if not k.startswith(("s3.", "client.", "rest.client.", "io-impl"))}


def _jdbc(spark: Mapping[str, str]) -> dict[str, Any]:
    uri = _sqlalchemy(spark.get("uri", ""), spark.get("jdbc.user"), spark.get("jdbc.password"))
    return {"type": "sql", "uri": uri}


def _glue(spark: Mapping[str, str]) -> dict[str, Any]:
    kept = {k: v for k, v in spark.items() if k.startswith("glue.")}
    region = {"glue.region": spark["client.region"]} if "client.region" in spark else {}
    return {"type": "glue", **region, **kept}


def _rest_limits(spark: Mapping[str, str]) -> dict[str, str]:
    return {
        "rest.client.socket-timeout-ms": str(SOCKET_TIMEOUT_MS),
        "rest.client.connection-timeout-ms": str(CONNECT_TIMEOUT_MS),
    }


def _postgres_limits(spark: Mapping[str, str]) -> dict[str, str]:
    if not spark.get("uri", "").startswith("jdbc:postgresql:"):
        return {}
    return {
        "jdbc.socketTimeout": str(SOCKET_TIMEOUT_MS // 1000),
        "jdbc.connectTimeout": str(CONNECT_TIMEOUT_MS // 1000),
    }


def _sqlalchemy(uri: str, user: str | None, password: str | None) -> str:
    plain = uri.removeprefix("jdbc:")
    if plain.startswith("sqlite:"):
        return f"sqlite:///{plain.removeprefix('sqlite:').partition('?')[0]}"
    if not plain.startswith("postgresql://"):
        raise ValueError(f"{uri!r} is not PostgreSQL or SQLite; give SQLAlchemy's address: {{type: sql, uri: …}}")
    parts = urlsplit(plain)
    query = dict(pair.partition("=")[::2] for pair in parts.query.split("&") if pair)
    user, password = user or query.get("user"), password or query.get("password")
    who = "" if not user else quote(user, safe="") + (f":{quote(password, safe='')}" if password else "") + "@"
    return f"postgresql+psycopg2://{who}{parts.netloc.rpartition('@')[2]}{parts.path}"


@dataclass(frozen=True)
class UserCatalogType:
    """What icequake knows of all catalogs of one type.

    Attributes:
        http: its address is one of HTTP.
        over_rest: Spark reaches it over Iceberg's REST protocol.
        files: it has no server: its tables are files of the store.
        needs_warehouse: it must be told where tables are.
        limits: (properties of ``spark:``) → those that limit how long a request waits. They have no default: one that is never answered
            would wait forever.
        pyiceberg: (properties of ``spark:``) → those of ``pyiceberg.catalog.load_catalog``; None: it has no such catalog.
    """

    http: bool = False
    over_rest: bool = False
    files: bool = False
    needs_warehouse: bool = True
    limits: Callable[[Mapping[str, str]], Mapping[str, str]] = field(default=lambda spark: {})
    pyiceberg: Callable[[Mapping[str, str]], dict[str, Any]] | None = None


TYPES: Mapping[str, UserCatalogType] = {
    "rest": UserCatalogType(http=True, over_rest=True, needs_warehouse=False, limits=_rest_limits, pyiceberg=_rest),
    "hive": UserCatalogType(pyiceberg=lambda spark: {"type": "hive", "uri": spark.get("uri", "")}),
    "jdbc": UserCatalogType(limits=_postgres_limits, pyiceberg=_jdbc),
    "glue": UserCatalogType(pyiceberg=_glue),
    "nessie": UserCatalogType(http=True),
    "hadoop": UserCatalogType(files=True),
}
"""Types that Iceberg's ``CatalogUtil`` knows in every release that writers run."""

_UNKNOWN = UserCatalogType(needs_warehouse=False)
_CLASSES = {"org.apache.iceberg.rest.RESTCatalog": replace(_UNKNOWN, over_rest=True)}
"""Classes of ``catalog-impl`` of which more is known."""
