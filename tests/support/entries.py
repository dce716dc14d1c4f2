"""Where the servers of a catalog's entry could run, and the example entry of ``docs/extending.md``."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from compose.catalogs.catalog import Catalog, Site
from compose.install.installation import Installation
from compose.processes.ports import Ports
from compose.servers.postgres import Postgres
from tests.support.examples import write_example


def example_catalog(folder: Path) -> Catalog:
    """The entry of ``my_catalog.py``, imported from a file in ``folder``."""
    file = write_example("my_catalog.py", folder)
    spec = importlib.util.spec_from_file_location("my_catalog", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    entry: Catalog = module.REST_SQLITE
    return entry


def site(folder: Path, entry: Catalog) -> Site:
    """Where the entry's servers could run, if what they need were installed."""
    installation = Installation(
        home=folder,
        java=folder / "java",
        jars={"rest": ()},
        rest_classes=folder,
        minio=folder / "minio",
        postgres_bin=folder,
        spark_home=folder,
        python=folder / "python",
    )
    ports = Ports()
    postgres = Postgres(folder, run_id="r", ports=ports, data=folder / "postgres", log=folder / "postgres.log")
    return Site(
        installation=installation,
        run_id="r",
        ports=ports,
        data=folder,
        logs=folder,
        postgres=postgres,
        database=postgres.jdbc_url,
        store=lambda: "http://s:1",
        client_store=lambda: "http://s:1",
        warehouse="s3://warehouse/w",
        catalog=entry,
    )
