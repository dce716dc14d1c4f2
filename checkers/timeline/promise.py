"""What an operation was promised: by the table, and by the engine that executed it.

Several engines write to one table, and each promises its own operations something else (``workloads.engines``). So every checker asks here,
operation by operation: the engine says at which level it executes a kind on a table; where it says none, the table's own properties do.
What an engine that this version does not know promises is unknown: nothing is guessed, and nobody is accused by it.
"""

from __future__ import annotations

from collections.abc import Iterable

from checkers.evidence.history import Operation
from checkers.timeline.timeline import kind_of
from workloads.engines.engine import Engine, Promise
from workloads.engines.engines import ENGINES, SPARK
from workloads.tables import TableSpec

ROW_DELTA = "https://github.com/apache/iceberg/blob/main/api/src/main/java/org/apache/iceberg/RowDelta.java"
"""``validateNoConflictingDeleteFiles``: Iceberg does not require it for DELETE."""


BLIND_APPEND = "https://github.com/apache/iceberg/issues/12653"
"""MERGE with only an insert clause commits as an append that validates nothing."""


REPLACED = "https://github.com/apache/iceberg/issues/16232"
"""CREATE OR REPLACE TABLE replaces the table, whatever was committed since it read it."""


def known(o: Operation) -> bool:
    """Whether this version knows the engine that executed an operation, and so what was promised."""
    return o.engine in ENGINES


def unknown_engines(operations: Iterable[Operation]) -> tuple[str, ...]:
    """The engines of operations that this version does not know, by name."""
    return tuple(sorted({o.engine for o in operations if not known(o)}))


def not_known(engines: Iterable[str]) -> str:
    """What to say of engines that this version does not know."""
    return (
        f"this version does not know what these engines promise: {', '.join(engines)} (it knows {', '.join(ENGINES)}); "
        "judge the run with the version that recorded it, or a newer one"
    )


def engine_of(o: Operation) -> Engine:
    """The engine that executed an operation; Spark for one that this version does not know (see :func:`known`)."""
    return ENGINES.get(o.engine, ENGINES[SPARK])


def promise(table: TableSpec, o: Operation) -> Promise:
    """What its engine promises an operation on a table; of an engine that is not known nothing is promised: ``snapshot``."""
    return ENGINES[o.engine].promise(o.f, table) if known(o) else Promise("snapshot")


def isolation(table: TableSpec, o: Operation) -> str:
    """The isolation level that an operation was promised: ``serializable`` or ``snapshot``.

    The engine's own, or that of the table: ``write.<command>.isolation-level`` in the table's own properties overrides its ``isolation``;
    Iceberg ignores its case (``IsolationLevel.fromName``). What is evaluated on the base that it commits on is so at every level:
    serializable.
    """
    made = promise(table, o)
    if made.at_commit:
        return "serializable"
    if made.level is not None:
        return made.level
    return table.properties.get(f"write.{command_of(o)}.isolation-level", table.isolation).lower()


def at_commit(table: TableSpec, o: Operation) -> bool:
    """Whether an operation is evaluated on the snapshot that it commits on, because it scans nothing before."""
    return promise(table, o).at_commit


def blind_append(table: TableSpec, o: Operation) -> bool:
    """Whether an operation commits as an append that validates nothing although it read the table."""
    return promise(table, o).blind_append


def source_of_blind_append(table: TableSpec, o: Operation) -> str | None:
    """Where it is documented that an operation is such an append; None for one that is none."""
    made = promise(table, o)
    if not made.blind_append:
        return None
    return made.source if made.source.startswith("https://") else BLIND_APPEND


def command_of(o: Operation) -> str:
    """The SQL command that it is to Iceberg; of an unknown kind the first word of its name."""
    kind = kind_of(o)
    return o.f.partition("-")[0] if kind is None else kind.verb
