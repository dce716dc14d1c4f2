"""The location that a table's pointer holds, and held before, according to the catalog itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from compose.catalogs import user, user_file
from compose.catalogs.registry import catalog_of
from compose.endpoints import Endpoints


def table_pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float = 10.0) -> str | None:
    """The location of a table's current metadata.json, read from the catalog.

    Returns None if the table or the namespace does not exist (``namespace`` separates its levels by dots). Raises
    ServiceError if the catalog does not answer within ``timeout`` seconds.
    """
    return catalog_of(endpoints).pointer(endpoints, namespace, table, timeout)


@contextlib.contextmanager
def pointers(endpoints: Endpoints, run_id: str) -> Iterator[Callable[[str, str, float], str | None]]:
    """``table_pointer`` of these endpoints, for many calls: (namespace, table, timeout in s) → location."""
    described = None if endpoints.own is None else user_file.UserCatalogFile.of(endpoints.own)
    if described is None or described.pyiceberg is None:
        yield partial(table_pointer, endpoints)
        return
    with user.probe(described, run_id) as asked:
        yield asked.pointer


def table_history(endpoints: Endpoints, namespace: str, table: str, timeout: float = 10.0) -> Sequence[str] | None:
    """Every location that a table's pointer had, oldest first, from the catalog's own log; None if it keeps none.

    Raises ServiceError if the catalog does not answer within ``timeout`` seconds.
    """
    asked = catalog_of(endpoints).history
    return None if asked is None else asked(endpoints, namespace, table, timeout)
