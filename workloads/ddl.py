"""The DDL of a table under test: its properties and the clauses after the columns."""

from __future__ import annotations

from collections.abc import Container, Sequence

from workloads.tables import DELTA, TableSpec


def table_properties(table: TableSpec) -> dict[str, str]:
    """The table properties for a table's dimensions; its own ``properties`` come last and override them."""
    if table.format == DELTA:
        vectors = str(table.mode == "merge-on-read").lower()
        return {"delta.enableDeletionVectors": vectors} | table.properties
    properties = {
        "format-version": str(table.format_version),
        "write.metadata.previous-versions-max": "1000",
    }
    for command in COMMANDS:
        properties[f"write.{command}.mode"] = table.mode
        properties[f"write.{command}.isolation-level"] = table.isolation
    return properties | table.properties


COMMANDS = ("delete", "update", "merge")
"""Those of Iceberg's ``write.<command>.mode`` and ``write.<command>.isolation-level``."""


def defaults(table: TableSpec, commands: Container[str]) -> list[str]:
    """The properties of a table's dimensions that change nothing for these commands.

    They are Iceberg's defaults (https://iceberg.apache.org/docs/latest/configuration/), or about a command that is not among them, or about a
    length of the metadata log that no few commits reach (its default is 100).
    """
    if table.format == DELTA:
        return []
    found = ["write.metadata.previous-versions-max"]
    for c in COMMANDS:
        found += [f"write.{c}.mode"] if table.mode == "copy-on-write" or c not in commands else []
        found += [f"write.{c}.isolation-level"] if table.isolation == "serializable" or c not in commands else []
    return found


def definition(table: TableSpec, *, without: Sequence[str] = ()) -> str:
    """The clauses after the columns in the table's DDL; ``without``: properties to leave out."""
    pairs = [(_quote(k), _quote(v)) for k, v in table_properties(table).items() if k not in without]
    partitioning = " PARTITIONED BY (part)" if table.partitioned else ""
    quoted = ", ".join(f"'{k}' = '{v}'" for k, v in pairs)
    return f"USING {table.format}{partitioning} TBLPROPERTIES ({quoted})"


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("{", "{{").replace("}", "}}")
