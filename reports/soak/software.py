"""Which software a night ran: of the engines, and of each catalog."""

from __future__ import annotations

from collections.abc import Iterable

from checkers.nights.night import Night
from checkers.nights.record import NightRun
from reports.drawing import words
from workloads.engines.engines import ENGINES

SOFTWARE = {"spark": "Spark", "iceberg": "Iceberg"} | {
    key: title
    for engine in ENGINES.values()
    for title, key in engine.software.items()
    if key not in ("spark", "iceberg")
}
"""A key of a plan's versions → what engines consist of."""
OTHERS = frozenset({"icequake", "java", "python", "system", "iceberg-commit", "iceberg-jar"})
"""Keys of a plan's versions that are of neither engine nor server."""
STORE = "minio"


def facts(night: Night) -> list[tuple[str, str]]:
    """Engines and catalogs with their versions; of a night of an older icequake the releases of Iceberg alone."""
    ran = [x for x in night.lines if x.versions]
    engines = [f"{title} {each}" for key, title in SOFTWARE.items() if (each := _each(ran, key))]
    engines = engines or [f"Iceberg {', '.join(dict.fromkeys(c.iceberg for c in night.cells))}"]
    catalogs = dict.fromkeys(c.catalog for c in night.cells)
    return [
        ("Engines", words.shorten(", ".join(engines), 300)),
        ("Catalogs", words.shorten(", ".join(_catalog(name, ran) for name in catalogs), 600)),
    ]


def _each(ran: Iterable[NightRun], key: str) -> str:
    return ", ".join(dict.fromkeys(x.versions[key] for x in ran if key in x.versions))


def _catalog(name: str, ran: Iterable[NightRun]) -> str:
    """``jdbc (postgres 18.4)``: a catalog with its servers; one without any has the store alone."""
    runs = [x for x in ran if x.cell.catalog == name]
    keys = [k for k in dict.fromkeys(k for x in runs for k in x.versions) if k not in {*SOFTWARE, *OTHERS}]
    servers = [k for k in keys if k != STORE] or keys
    releases = ", ".join(f"{k} {_each(runs, k).removeprefix('RELEASE.').partition('T')[0]}" for k in servers)
    return f"{name} ({releases})" if releases else name
