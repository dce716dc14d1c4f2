"""Catalog properties that are for one engine alone, such as ``duckdb.attach.purge_requested``: is there one of that name?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from workloads.engines.engines import ENGINES
from workloads.file.meant import unknown
from workloads.file.yamlfile import Problem


def property_problem(key: str) -> str | None:
    """Why no engine reads a catalog property that begins with an engine's name; None if one reads it, or if it is of the catalog."""
    engine = ENGINES.get(key.partition(".")[0])
    if engine is None or not engine.properties:
        return None
    beginnings = [k for k in engine.properties if k.endswith(".")]
    if key.lower() in engine.properties.difference(beginnings) or any(
        key.startswith(k) and key != k for k in beginnings
    ):
        return None
    allowed = [f"{k}…" if k in beginnings else k for k in sorted(engine.properties)]
    return unknown(f"property of {engine.title}", key, allowed)


def property_problems(properties: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with the ``catalog_properties`` of a workload or a scenario."""
    for key, value in properties.items():
        if "${" in value:
            yield (
                ("catalog_properties", key),
                f"catalog_properties: {key}: variables (${{…}}) are filled in only in a catalog file; write the property there, below spark:, "
                "and name the file with --catalog (docs/own-catalog.md)",
            )
        if (message := property_problem(key)) is not None:
            yield (("catalog_properties", key), f"catalog_properties: {message}")
