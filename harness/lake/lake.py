"""The lake itself: its tables, and how the rows of runs get into them.

**A run is added once.** Its rows replace those that a table has of it, in one commit for each table, so that adding it again changes nothing.
Its row in ``runs`` is removed first, if it has one, and written last: a run whose rows are only in some tables is not in ``runs``. Readers do
not see it (``harness.lake.views``), and it is added again like a new one.

**Several writers.** Each commit of a table requires that the table is as it was read. If another commit came first, the change is done again
from the table as it is then: whether the run has rows in it is looked up again, too.
"""

from __future__ import annotations

import contextlib
import logging
import random
import sqlite3
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.expressions import And, BooleanExpression, In
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from checkers.lake.rows import Rows
from checkers.lake.tables import BY_NAME, LAKE_TABLES, LAKE_VERSION, RUNS_TABLE, TableSchema
from compose.redaction import Redaction
from harness.lake.errors import Collision, LakeError, NotWritten, full
from harness.lake.laketable import LakeTable
from harness.lake.place import CATALOG_FILE, Place

T = TypeVar("T")
VERSION_KEY = "icequake.lake.version"
PROPERTIES = {
    "format-version": "2",
    VERSION_KEY: str(LAKE_VERSION),
    "write.parquet.compression-codec": "zstd",
    "write.metadata.metrics.column.run": "full",  # cut to 16 characters, runs of one hour would be the same
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "commit.retry.num-retries": "0",  # Lake.change tries again, and looks again whether the run is there
}
within = cast("Callable[[str, Collection[object]], BooleanExpression]", In)
"""The rows whose column has one of these values."""
MOST_LAKE_TRIES = 20
"""How often a change of one table is tried from the beginning."""
WAIT_S = (0.02, 2.0)
"""Seconds between the first two tries, and the most."""
CONNECT_S = 10
"""Seconds in which a PostgreSQL server must take a connection."""
AGAIN = (CommitFailedException, CommitStateUnknownException, ValidationException)


@dataclass(frozen=True, slots=True)
class LakeRun:
    """A run that is in the lake."""

    run: str
    day: date
    namespace: str | None


@dataclass(frozen=True)
class Lake:
    """An open lake. Several threads and processes may use it; each opens its own."""

    place: Place
    catalog: Catalog

    def table(self, name: str) -> Table:
        """One table, as it is now.

        Raises:
            LakeError: it is not there, or of another version.
        """
        with self.reading(name):
            try:
                found = self.catalog.load_table((self.place.namespace, name))
            except (NoSuchTableError, NoSuchNamespaceError):
                raise LakeError(f"{self.place.name}: no lake is there; make one with `icequake lake init`") from None
        _same_version(found, name, self.place)
        return LakeTable.of(found)

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Say which table cannot be read, without secrets, if what is inside raises an error of PyIceberg or of the table's files.

        Raises:
            LakeError: in place of that error.
        """
        try:
            yield
        except LakeError:
            raise
        except Exception as e:  # whatever PyIceberg raises for a broken file
            raise self._unreadable(name, e) from None

    def held(self, runs: Sequence[str] | None = None) -> dict[str, LakeRun]:
        """The runs in the lake, by name: all, or those of the named ones that it has."""
        scan = self.table(RUNS_TABLE.name).scan(selected_fields=("run", "day", "namespace"))
        with self.reading(RUNS_TABLE.name):
            rows = (scan if runs is None else scan.filter(within("run", {*runs}))).to_arrow()
        columns = [rows[c].to_pylist() for c in ("run", "day", "namespace")]
        return {run: LakeRun(run, day, namespace) for run, day, namespace in zip(*columns, strict=True)}

    def add(self, batch: Sequence[Rows]) -> None:
        """Put runs into the lake; rows that it has of them are replaced.

        Args:
            batch: the rows of each run (``checkers.lake.rows.rows_of``); no run twice.

        Raises:
            Collision: the lake has another run of that name; nothing is changed.
            LakeError: it cannot be written.
        """
        if not batch:
            return
        names = {name: ns for rows in batch for name, ns in _names(rows)}
        held = self.held([*names])
        for name, other in held.items():
            if other.namespace is not None and names[name] is not None and other.namespace != names[name]:
                raise Collision(
                    f"{name}: {self.place.name} has another run of that name (namespace {other.namespace}, not {names[name]}); "
                    "rename the folder of one of them"
                )
        days = {day for rows in batch for day in rows[RUNS_TABLE.name]["day"].to_pylist()} | {
            h.day for h in held.values()
        }
        replaced: BooleanExpression = And(within("day", days), within("run", {*names}))
        if held:
            self.change(RUNS_TABLE.name, lambda t: _delete(t, replaced))
        for schema in LAKE_TABLES:
            rows = pa.concat_tables([r[schema.name] for r in batch])
            self.change(schema.name, lambda t, rows=rows: _replace(t, rows, replaced))  # type: ignore[misc]

    def change(self, name: str, how: Callable[[Table], T]) -> T:
        """Change a table; if another writer was faster, do it again from the table as it is then.

        Raises:
            LakeError: others were faster :data:`MOST_LAKE_TRIES` times, or the catalog does not answer.
        """
        wait = WAIT_S[0]
        for tried in range(1, MOST_LAKE_TRIES + 1):
            try:
                return how(_grown(self.table(name), BY_NAME[name]))
            except AGAIN as e:
                if tried == MOST_LAKE_TRIES:
                    raise NotWritten(
                        f"{self.place.name}: {name}: not written after {MOST_LAKE_TRIES} tries: {self._plain(e)}"
                    ) from None
            except (SQLAlchemyError, OSError) as e:
                if tried == MOST_LAKE_TRIES or "locked" not in str(e):
                    raise self._unwritten(name, e) from None
            except LakeError:
                raise
            except Exception as e:
                raise self._unreadable(name, e) from None
            time.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, WAIT_S[1])
        raise AssertionError("unreachable")

    def _unwritten(self, name: str, error: Exception) -> NotWritten:
        remedy = ""
        if full(error):
            remedy = (
                "; free some space there, and add the runs again with `icequake lake add`: what is in the lake stays"
            )
        return NotWritten(f"{self.place.name}: {name}: cannot be written: {self._plain(error)}{remedy}")

    def _unreadable(self, name: str, error: Exception) -> LakeError:
        remedy = (
            ""
            if self.place.folder is None
            else "; if it stays so, move that folder away, and make it again with `icequake lake add`"
        )
        return LakeError(
            f"{self.place.name}: {name}: cannot be read: {type(error).__name__}: {self._plain(error)}{remedy}"
        )

    def _plain(self, error: Exception) -> str:
        return Redaction(self.place.secrets).text(" ".join(str(error).split()))

    def close(self) -> None:
        """Close the catalog's connections."""
        self.catalog.close()
        engine = getattr(self.catalog, "engine", None)  # of a SQL catalog
        if engine is not None:
            engine.dispose()


@contextlib.contextmanager
def opened(place: Place, *, make: bool = False) -> Iterator[Lake]:
    """A lake, for the time of ``with``.

    Args:
        make: make what is missing of it.

    Raises:
        LakeError: there is none, it is of another version, or its catalog does not answer.
    """
    _quiet()
    if place.folder is not None:
        if make:
            _make_folder(place.folder)
        elif not place.folder.is_dir():
            raise LakeError(
                f"{place.name}: no lake is there; make one with `icequake lake init`, or give --lake my.yaml"
            )
    _same_place(place)
    lake = Lake(place, _catalog(place))
    try:
        if make:
            _make_tables(lake)
        for schema in LAKE_TABLES:
            lake.table(schema.name)
        yield lake
    finally:
        lake.close()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise LakeError(f"{folder}: cannot be made: {e.strerror}; give another --store or --lake my.yaml") from None


def _catalog(place: Place) -> Catalog:
    """PyIceberg's catalog. Two that make the tables of a new SQL catalog at once may collide, so it is tried again."""
    hide = Redaction(place.secrets)
    for tried in range(5):
        try:
            return load_catalog("icequake_lake", **_bounded(place.properties))
        except SQLAlchemyError as e:
            if tried == 4:
                raise LakeError(f"{place.name}: its catalog cannot be opened: {hide.text(_line(e))}") from None
            time.sleep(0.2)
        except Exception as e:  # whatever a client of some catalog raises
            raise LakeError(f"{place.name}: its catalog cannot be opened: {hide.text(_line(e))}") from None
    raise AssertionError("unreachable")


def _bounded(properties: Mapping[str, Any]) -> dict[str, Any]:
    """PyIceberg's properties of a catalog, so that a server which does not answer is no reason to wait without end."""
    found = {**properties}
    uri, impl = str(found.get("uri", "")), "py-catalog-impl"
    if str(found.get("type", "rest" if uri.startswith("http") and impl not in found else "")).lower() == "rest":
        found.pop("type", None)
        found[impl] = "harness.lake.rest.BoundedCatalog"
    elif uri.startswith(("postgresql://", "postgresql+psycopg")) and "connect_timeout" not in make_url(uri).query:
        url = make_url(uri).update_query_dict({"connect_timeout": str(CONNECT_S)})
        found["uri"] = url.render_as_string(hide_password=False)
    return found


def _line(e: Exception) -> str:
    return f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"


def _make_tables(lake: Lake) -> None:
    hide = Redaction(lake.place.secrets)
    try:
        with contextlib.suppress(NamespaceAlreadyExistsError, SQLAlchemyError):  # another process makes it, too
            lake.catalog.create_namespace_if_not_exists(lake.place.namespace)
        for schema in LAKE_TABLES:
            if not lake.catalog.table_exists((lake.place.namespace, schema.name)):
                _make_table(lake, schema)
    except LakeError:
        raise
    except Exception as e:  # whatever a client of some catalog raises
        raise LakeError(f"{lake.place.name}: its tables cannot be made: {hide.text(_line(e))}") from None


def _make_table(lake: Lake, schema: TableSchema) -> None:
    from pyiceberg.io.pyarrow import pyarrow_to_schema
    from pyiceberg.table.name_mapping import MappedField, NameMapping

    ids = _Numbers()
    fields = [ids.of(f.name, f.type) for f in schema.schema]
    mapping = NameMapping([MappedField(**f) for f in fields])
    iceberg = pyarrow_to_schema(schema.schema, name_mapping=mapping)
    day = iceberg.find_field("day").field_id
    spec = PartitionSpec(PartitionField(day, 1000, IdentityTransform(), "day"))
    with contextlib.suppress(TableAlreadyExistsError):
        lake.catalog.create_table(
            (lake.place.namespace, schema.name), iceberg, partition_spec=spec, properties=PROPERTIES
        )


class _Numbers:
    """Gives field ids, depth first."""

    def __init__(self) -> None:
        self._last = 0

    def of(self, name: str, type_: pa.DataType) -> dict[str, Any]:
        self._last += 1
        last = self._last
        inner = [self.of("element", type_.value_type)] if pa.types.is_list(type_) else []
        return {"field-id": last, "names": [name], "fields": inner}


def _same_version(table: Table, name: str, place: Place) -> None:
    found = table.properties.get(VERSION_KEY)
    if found == str(LAKE_VERSION):
        return
    if found is None:
        raise LakeError(f"{place.name}: {place.namespace}.{name} is no table of a lake; give another namespace")
    if found.isdecimal() and int(found) > LAKE_VERSION:
        raise LakeError(
            f"{place.name}: the lake has version {found}, made by a newer icequake; this one knows version {LAKE_VERSION}: use the newer one"
        )
    raise LakeError(
        f"{place.name}: the lake has version {found}, made by an older icequake; this one knows version {LAKE_VERSION}: "
        "move the lake away and make it again from the runs with `icequake lake add`"
    )


def _same_place(place: Place) -> None:
    """An embedded lake that was moved or copied cannot be used: Iceberg's metadata names files by absolute paths."""
    if place.folder is None or not (place.folder / CATALOG_FILE).is_file():
        return
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(str(place.folder / CATALOG_FILE))}?mode=ro", uri=True)
        ) as file:
            found = [str(row[0]) for row in file.execute("SELECT metadata_location FROM iceberg_tables")]
    except sqlite3.Error:  # the catalog says what is wrong
        return
    for location in found:
        if not Path(location.removeprefix("file://")).is_relative_to(place.folder):
            raise LakeError(
                f"{place.name}: its tables name files such as {location}, where the lake was made; move it back, or remove it and make it "
                "again from the runs with `icequake lake add`"
            )


# --- changes of a table -----------------------------------------------------------------------------------------------


def _names(rows: Rows) -> Iterator[tuple[str, str | None]]:
    runs = rows[RUNS_TABLE.name]
    yield from zip(runs["run"].to_pylist(), runs["namespace"].to_pylist(), strict=True)


def _grown(table: Table, schema: TableSchema) -> Table:
    """The table with the columns that came after the lake was made; its earlier rows have null there."""
    if {c.name for c in schema.columns} - {*table.schema().column_names}:
        with table.update_schema() as update:
            update.union_by_name(schema.schema)
    return table


def _delete(table: Table, rows: BooleanExpression) -> None:
    table.delete(rows)


def _replace(table: Table, rows: pa.Table, replaced: BooleanExpression) -> None:
    present = table.scan(row_filter=replaced, selected_fields=("run",), limit=1).to_arrow().num_rows > 0
    if present and rows.num_rows:
        table.overwrite(rows, overwrite_filter=replaced)
    elif present:
        table.delete(replaced)
    elif rows.num_rows:  # the usual case; an overwrite that removes nothing takes twice as long
        table.append(rows)


def _quiet() -> None:
    """Without PyIceberg's notes that there was nothing to delete, and that it commits again."""
    warnings.filterwarnings("ignore", message="Delete operation did not match any records")
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)


def summary(lake: Lake) -> Mapping[str, tuple[int, int, int, int]]:
    """Table → rows, files, bytes and snapshots."""
    out = {}
    for schema in LAKE_TABLES:
        table = lake.table(schema.name)
        with lake.reading(schema.name):
            files = [task.file for task in table.scan().plan_files()]
        rows, size = sum(f.record_count for f in files), sum(f.file_size_in_bytes for f in files)
        out[schema.name] = (rows, len(files), size, len(table.metadata.snapshots))
    return out
