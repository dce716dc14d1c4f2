"""Where a lake is: in the store of the runs, or in the user's own catalog, which a file describes.

The embedded lake is the folder ``lake`` of the store: PyIceberg's catalog in a SQLite file, and the tables as local files. A file of the user's
has PyIceberg's properties of a catalog, and, if Spark cannot read the tables' files by their paths, Spark's properties of the same catalog::

    pyiceberg: {type: rest, uri: "http://catalog:8181", warehouse: "s3://lake/"}
    spark: {type: rest, uri: "http://catalog:8181", warehouse: "s3://lake/"}

``${NAME}`` is taken from the environment, as in the file of a run's catalog (:mod:`compose.catalogs.properties`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from compose.catalogs import properties
from compose.catalogs.properties import Properties, Source, is_file
from workloads.file.meant import suggest
from workloads.file.yamlfile import FileError

FOLDER, NAMESPACE = "lake", "icequake"
CATALOG_FILE = "catalog.sqlite"
BUSY_S = 60
"""Seconds that a writer waits for the catalog's file."""
BOOLEAN_WORDS = ("yes", "no")


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
    address = URL.create("sqlite", database=str(folder / CATALOG_FILE), query={"timeout": str(BUSY_S)})
    properties = {"type": "sql", "uri": address.render_as_string(hide_password=False), "warehouse": str(folder)}
    return Place(str(folder), folder, properties)


def exists(store: Path) -> bool:
    """Whether a store has a lake."""
    return (store / FOLDER / CATALOG_FILE).is_file()


def load(path: Path, environment: Mapping[str, str] | None = None) -> Place:
    """The place that a file of the user's describes.

    Args:
        environment: the variables that ``${NAME}`` is taken from; this process's when None.

    Raises:
        FileError: the file cannot be read, a key or value in it is wrong, or a variable is not set.
    """
    example = "docs/lake.md, which has complete examples"
    return properties.load(path, _File, _made, example=example, environment=environment)


def _made(file: _File, source: Source) -> Place:
    if not {"type", "py-catalog-impl", "uri"} & {*file.pyiceberg}:
        message = "needs type (sql, rest, hive, glue, dynamodb), uri or py-catalog-impl (a class)"
        source.wrong(("pyiceberg",), f"pyiceberg: {message}")
    for key, value in file.pyiceberg.items():
        if not isinstance(value, str | int | float | bool):
            source.wrong(("pyiceberg", key), f"pyiceberg: {key}: must be a word, a number, true or false")
    source.check_keys(file.spark, file.session)
    properties = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in file.pyiceberg.items()}
    jars = source.jars(file.jars)
    return Place(
        str(source.path),
        None,
        properties,
        file.namespace,
        dict(file.spark),
        dict(file.session),
        jars,
        tuple(source.secrets),
    )


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
        f"--lake {option}: unknown{suggest(option, BOOLEAN_WORDS)}; allowed: yes, no, or a file of your own, my.yaml"
    )
