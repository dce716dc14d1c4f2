"""Which engines can write to which catalog; looked up before anything is started."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from compose.catalogs import user_file
from compose.catalogs.registry import CATALOGS
from compose.endpoints import Endpoints
from workloads.engines.engine import Engine, Foreign
from workloads.engines.engines import ENGINES

_NOWHERE = Endpoints(
    s3="http://127.0.0.1",
    access_key="",
    secret_key="",
    region="",
    bucket="",
    catalog="",
    catalog_uri="http://127.0.0.1",
    warehouse="s3://warehouse",
    spark_master="",
)
"""Addresses that are not used: only the kind of a client is asked for."""


def client_type(catalog: str) -> str:
    """The ``type`` of Iceberg's Java client for a catalog, or its class; of one of ``CATALOGS`` or a user's own file."""
    if user_file.is_file(catalog):
        return user_file.load(Path(catalog)).kind
    properties = CATALOGS[catalog].properties(_NOWHERE)
    return properties.get("type") or properties["catalog-impl"]


def reached(engine: Engine) -> list[str]:
    """The catalogs of ``CATALOGS`` to which an engine can write."""
    able = engine.catalogs if isinstance(engine, Foreign) else None
    return [c for c in CATALOGS if able is None or client_type(c) in able]


def unreachable(engines: Iterable[str], catalog: str) -> str | None:
    """Why some of these engines cannot write to a catalog; None if all can."""
    kind: str | None = None
    for name in dict.fromkeys(engines):
        engine = ENGINES[name]
        if not isinstance(engine, Foreign):
            continue
        if engine.catalogs is None:
            continue
        kind = kind or client_type(catalog)
        if kind not in engine.catalogs:
            return (
                f"{engine.title} cannot reach the catalog {catalog} (type {kind}); it can reach {', '.join(reached(engine))}: "
                f"choose one of these, or leave {name} out of writers"
            )
    return None
