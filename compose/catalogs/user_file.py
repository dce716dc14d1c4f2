"""A user-supplied catalog: a YAML file with the properties by which Spark and PyIceberg reach it. ``docs/own-catalog.md`` is its reference.

``${NAME}`` in a value is taken from the environment, so that the file holds no secret; ``$${`` is a plain ``${``. What looks like a secret, by
the name of its key, of its variable or of a parameter in its URL, is never written into a run's folder (``secrets``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from compose.catalogs.catalog import Guard, Wire, split
from compose.redaction import Redaction, forms, is_secret, secrets_of
from workloads.file.yamlfile import FileError, KeyPath, line_of, read_text, validated

SUFFIXES = (".yaml", ".yml")

_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_file(name: str) -> bool:
    """Whether ``catalog: NAME`` names a file of this kind, not a catalog of ``compose.catalogs.registry``."""
    return name.endswith(SUFFIXES)


def _text(value: object) -> object:
    """YAML's booleans and numbers as Java's properties write them."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Properties = dict[str, Annotated[str, BeforeValidator(_text)]]


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
        secrets: words that must not be written to any file or shown.
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
    secrets: tuple[str, ...]

    @property
    def kind(self) -> str:
        """``rest``, ``hive``, …, or the class that implements it."""
        return self.spark.get("type") or self.spark.get("catalog-impl", "")

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
        return cls(**{**plain, "jars": tuple(plain["jars"]), "secrets": tuple(plain["secrets"])})


def load(path: Path, environment: Mapping[str, str] | None = None) -> UserCatalogFile:
    """Read and validate a catalog's file.

    Args:
        environment: the variables that ``${NAME}`` is taken from; this process's when None.

    Raises:
        FileError: the file cannot be read, a key or value in it is wrong, or a variable is not set.
    """
    secrets: set[str] = set()
    try:
        return _load(path, os.environ if environment is None else environment, secrets)
    except FileError as e:
        raise FileError(Redaction(secrets).text(str(e))) from None


def _load(path: Path, known: Mapping[str, str], secrets: set[str]) -> UserCatalogFile:
    """As :func:`load`, with unredacted errors; the secrets are added to ``secrets``."""
    where = str(path)

    def prepared(data: Any, lines: Mapping[KeyPath, int]) -> Any:
        return filled(data, (), lines, where, known, secrets)

    file, lines = validated(
        _File, read_text(path), where, example="docs/own-catalog.md, which has complete examples", prepare=prepared
    )

    def fail(location: KeyPath, message: str) -> None:
        raise FileError(f"{where}:{line_of(location, lines)}: {message}")

    _check(file, fail)
    jars = []
    for i, jar in enumerate(file.jars):
        found = path.parent / jar
        if not found.is_file():
            fail(("jars", i), f"jars: {found} is not there; give paths from this file's folder")
        jars.append(str(found.resolve()))
    pyiceberg = file.pyiceberg
    if pyiceberg is None and file.spark.get("type") != "hadoop":
        try:
            pyiceberg = derived(file.spark)
        except ValueError as e:
            fail(("spark",), f"pyiceberg: missing, and cannot be derived from spark: {e}")
    return UserCatalogFile(
        name=file.name or re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem),
        file=where,
        summary=file.summary,
        spark=dict(file.spark),
        session=dict(file.session),
        pyiceberg=pyiceberg,
        wire=None if file.commit is None else file.commit.wire,
        key="uri" if file.commit is None else file.commit.property,
        address=None if file.commit is None else file.commit.address,
        warehouse=file.warehouse or "",
        guard=file.guard,
        jars=tuple(jars),
        s3=file.s3,
        master=file.master,
        secrets=tuple(sorted(secrets, key=len, reverse=True)),
    )


def filled(
    value: Any, at: KeyPath, lines: Mapping[KeyPath, int], file: str, known: Mapping[str, str], secrets: set[str]
) -> Any:
    """The value with its variables filled in; the secrets in it are added to ``secrets``."""
    if isinstance(value, dict):
        return {k: filled(v, (*at, k), lines, file, known, secrets) for k, v in value.items()}
    if isinstance(value, list):
        return [filled(v, (*at, i), lines, file, known, secrets) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value
    key = next((step for step in reversed(at) if isinstance(step, str)), "")

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "${"
        if not _NAME.fullmatch(name):
            raise FileError(
                f"{file}:{line_of(at, lines)}: {key}: ${{{name}}} is not the name of an environment variable"
            )
        if name not in known:
            raise FileError(
                f"{file}:{line_of(at, lines)}: {key}: the environment variable {name} is not set; export {name}=…"
            )
        if is_secret(name, known[name]):
            secrets.update(forms(known[name]))
        return known[name]

    whole = _VARIABLE.sub(fill, value)
    secrets.update(secrets_of({key: whole}))
    return whole


def _check(file: _File, fail: Any) -> None:
    spark, commit = file.spark, file.commit
    for key in spark:
        if key.startswith("spark."):
            fail(
                ("spark", key), f"{key}: give what follows spark.sql.catalog.<name>. here, other properties in session"
            )
    if "type" not in spark and "catalog-impl" not in spark:
        fail(("spark",), "spark: needs type (rest, hive, jdbc, glue, nessie, hadoop) or catalog-impl (a class)")
    if "s3.endpoint" in spark:
        fail(
            ("spark", "s3.endpoint"),
            "s3.endpoint: name the store by s3: http://host:port/bucket (or --s3), because icequake reads it too",
        )
    for key in file.session:
        if not key.startswith("spark."):
            fail(("session", key), f"{key}: Spark's properties begin with spark.")
    if commit is None or commit.wire == "s3":
        return
    if commit.property not in spark:
        fail(("commit",), f"commit: spark has no key {commit.property!r}; name by property: the one with the address")
    uri = spark[commit.property]
    if commit.address is None and uri.startswith("https:"):
        fail(
            ("commit",),
            f"commit: a proxy cannot read encrypted requests; give address: host:port, where the server of {uri} answers in plain HTTP, or "
            "leave commit out, and no fault of connections strikes the catalog",
        )
    try:
        known = split(uri).port is not None or split(uri).scheme in ("http", "postgresql", "thrift")
    except ValueError:
        known = False
    if commit.address is None and (not known or "," in uri):
        fail(("commit",), f"commit: {uri!r} names no single host and port; give address: host:port")


def derived(spark: Mapping[str, str]) -> dict[str, Any]:
    """PyIceberg's properties of the catalog that ``spark`` describes.

    Raises:
        ValueError: PyIceberg has no such catalog, or needs other properties.
    """
    kind, uri = spark.get("type"), spark.get("uri", "")
    if kind == "rest":
        return {k: v for k, v in spark.items() if not k.startswith(("s3.", "client.", "rest.client.", "io-impl"))}
    if kind == "hive":
        return {"type": "hive", "uri": uri}
    if kind == "jdbc":
        return {"type": "sql", "uri": _sqlalchemy(uri, spark.get("jdbc.user"), spark.get("jdbc.password"))}
    if kind == "glue":
        kept = {k: v for k, v in spark.items() if k.startswith("glue.")}
        region = {"glue.region": spark["client.region"]} if "client.region" in spark else {}
        return {"type": "glue", **region, **kept}
    raise ValueError(
        f"PyIceberg has no {kind or spark.get('catalog-impl')} catalog; give the properties of one by which it reaches the same tables"
    )


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
