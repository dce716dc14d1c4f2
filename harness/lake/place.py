"""Where a lake is: in the store of the runs, or in the user's own catalog, which a file describes.

The embedded lake is the folder ``lake`` of the store: PyIceberg's catalog in a SQLite file, and the tables as local files. A file of the user's
has PyIceberg's properties of a catalog, and, if Spark cannot read the tables' files by their paths, Spark's properties of the same catalog::

    pyiceberg: {type: rest, uri: "http://catalog:8181", warehouse: "s3://lake/"}
    spark: {type: rest, uri: "http://catalog:8181", warehouse: "s3://lake/"}

``${NAME}`` is taken from the environment, as in the file of a run's catalog (``compose.catalogs.user_file``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from compose.catalogs.user_file import Properties, filled, is_file
from compose.redaction import Redaction
from workloads.file.meant import suggest
from workloads.file.yamlfile import FileError, KeyPath, line_of, read_text, validated

FOLDER, NAMESPACE = "lake", "icequake"
CATALOG = "catalog.sqlite"
BUSY_S = 60
"""Seconds that a writer waits for the catalog's file."""
WORDS = ("yes", "no")


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    pyiceberg: dict[str, Any]
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")] = NAMESPACE
    spark: Properties = {}
    session: Properties = {}
    jars: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where a lake is.

    Attributes:
        name: what to call it in messages: the folder or the file.
        folder: of an embedded lake; None for the user's own catalog.
        properties: of ``pyiceberg.catalog.load_catalog``.
        spark: what follows ``spark.sql.catalog.<name>.``; empty: Spark reads the tables by their metadata files.
        session: other Spark properties.
        jars: more jars for Spark.
        secrets: words that must not be shown.
    """

    name: str
    folder: Path | None
    properties: Mapping[str, Any]
    namespace: str = NAMESPACE
    spark: Mapping[str, str] = field(default_factory=dict)
    session: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def embedded(store: Path) -> Place:
    """The lake of a store; it need not exist."""
    from sqlalchemy import URL

    folder = Path(os.path.abspath(store)) / FOLDER
    address = URL.create("sqlite", database=str(folder / CATALOG), query={"timeout": str(BUSY_S)})
    properties = {"type": "sql", "uri": address.render_as_string(hide_password=False), "warehouse": str(folder)}
    return Place(str(folder), folder, properties)


def exists(store: Path) -> bool:
    """Whether a store has a lake."""
    return (store / FOLDER / CATALOG).is_file()


def load(path: Path, environment: Mapping[str, str] | None = None) -> Place:
    """The place that a file of the user's describes.

    Args:
        environment: the variables that ``${NAME}`` is taken from; this process's when None.

    Raises:
        FileError: the file cannot be read, a key or value in it is wrong, or a variable is not set.
    """
    secrets: set[str] = set()
    known = os.environ if environment is None else environment
    try:
        return _load(path, known, secrets)
    except FileError as e:
        raise FileError(Redaction(secrets).text(str(e))) from None


def _load(path: Path, known: Mapping[str, str], secrets: set[str]) -> Place:
    where = str(path)

    def prepared(data: Any, lines: Mapping[KeyPath, int]) -> Any:
        return filled(data, (), lines, where, known, secrets)

    file, lines = validated(
        _File, read_text(path), where, example="docs/lake.md, which has complete examples", prepare=prepared
    )

    def fail(at: KeyPath, message: str) -> None:
        raise FileError(f"{where}:{line_of(at, lines)}: {message}")

    if not {"type", "py-catalog-impl", "uri"} & {*file.pyiceberg}:
        fail(
            ("pyiceberg",), "pyiceberg: needs type (sql, rest, hive, glue, dynamodb), uri or py-catalog-impl (a class)"
        )
    for key, value in file.pyiceberg.items():
        if not isinstance(value, str | int | float | bool):
            fail(("pyiceberg", key), f"pyiceberg: {key}: must be a word, a number, true or false")
    for key in file.spark:
        if key.startswith("spark."):
            fail(
                ("spark", key), f"{key}: give what follows spark.sql.catalog.<name>. here, other properties in session"
            )
    for key in file.session:
        if not key.startswith("spark."):
            fail(("session", key), f"{key}: Spark's properties begin with spark.")
    jars = []
    for i, jar in enumerate(file.jars):
        found = path.parent / jar
        if not found.is_file():
            fail(("jars", i), f"jars: {found} is not there; give paths from this file's folder")
        jars.append(str(found.resolve()))
    properties = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in file.pyiceberg.items()}
    hidden = tuple(sorted(secrets, key=len, reverse=True))
    return Place(where, None, properties, file.namespace, dict(file.spark), dict(file.session), tuple(jars), hidden)


def chosen(option: str | None, store: Path) -> Place | None:
    """The lake that ``--lake`` means for runs of a store; None: they are not kept in one.

    Args:
        option: ``yes``, ``no`` or the path of a file; None: the store's lake if it has one.

    Raises:
        FileError: as :func:`load`, or the option is none of these.
    """
    if option is None:
        return embedded(store) if exists(store) else None
    if option == "no":
        return None
    if option == "yes":
        return embedded(store)
    if is_file(option):
        return load(Path(option))
    raise FileError(
        f"--lake {option}: unknown{suggest(option, WORDS)}; allowed: yes, no, or a file of your own, my.yaml"
    )
