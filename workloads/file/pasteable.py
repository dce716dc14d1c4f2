"""What one types for the values of a sweep's parameters: Spark's SQL of a table ``t``, or in words what no property of a table says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

_COMMANDS = ("delete", "update", "merge")
SETS = "ALTER TABLE t SET TBLPROPERTIES "
"""How a text begins that sets a table's properties; what follows can stand in a CREATE TABLE."""


def _bucketed(n: str) -> str:
    return (
        f"CREATE TABLE … PARTITIONED BY (bucket({n}, id)); of a table that is there: ALTER TABLE t ADD PARTITION FIELD bucket({n}, id) "
        f"(files that it has keep their partition until they are rewritten); measured with id modulo {n}"
    )


_LAYOUTS = {
    "one-partition": "leave PARTITIONED BY out: all rows lie in one partition",
    "own-partition": (
        "CREATE TABLE … PARTITIONED BY (writer), where the column writer says whose row it is, and each writer changes only its own rows; "
        "of a table that is there: ALTER TABLE t ADD PARTITION FIELD writer (files that it has keep their partition until they are rewritten)"
    ),
    "one-row": "nothing to set: all writers change one row",
    "sorted": "leave PARTITIONED BY out, and give each writer a range of ids of its own, so that its files hold no other writer's",
    "bucketed": _bucketed("16"),
}
_APPENDS = {"fast": "newFastAppend()", "merge": "newAppend()"}


def _per_command(setting: str) -> Callable[[str, Collection[str]], Mapping[str, str]]:
    return lambda value, commands: {f"write.{c}.{setting}": value for c in _COMMANDS if c in commands}


_PROPERTIES: Mapping[str, Callable[[str, Collection[str]], Mapping[str, str]]] = {
    "isolation": _per_command("isolation-level"),
    "mode": _per_command("mode"),
    "format-version": lambda value, _: {"format-version": value},
}
"""Parameter → the properties of a table that it sets, as :func:`workloads.ddl.table_properties` has them."""
_WORDS: Mapping[str, Callable[[str], str]] = {
    "layout": lambda value: _LAYOUTS.get(value, ""),
    "partitions": _bucketed,
    "append": lambda value: (
        f"a program appends by {_APPENDS[value]}; no property of a table says it" if value in _APPENDS else ""
    ),
    "backoff": lambda value: (
        "commit.retry.min-wait-ms and commit.retry.max-wait-ms, by which Iceberg waits itself"
        if value == "iceberg"
        else f"no property of a table: a program that commits by Iceberg's API waits so itself ({value})"
    ),
}


def commands_of(operations: Collection[str]) -> tuple[str, ...]:
    """The statements of Spark's that operations of these kinds are (``update-counter``: an UPDATE); all if no kind is given."""
    starts = {"update" if kind == "transfer" else kind.partition("-")[0] for kind in operations}
    return tuple(c for c in _COMMANDS if c in starts or not operations)


def typed(varied: Sequence[tuple[str, str]], commands: Collection[str] = _COMMANDS) -> list[str]:
    """What one types for these values of parameters: an ALTER TABLE for each that says a table's properties, since each is a choice of its own
    and may be another table's; then a text for each of the others. Empty if they say none.

    Of several values of one parameter the last one counts.

    Args:
        commands: the statements that ran; a property of another one is not said.
    """
    last = dict(varied)
    each = (
        _PROPERTIES[name](value, commands) if name in _PROPERTIES else {name: value} if "." in name else {}
        for name, value in last.items()
    )
    pairs = (
        ", ".join(f"'{name}'='{value}'" for name, value in properties.items()) for properties in each if properties
    )
    found = [f"{SETS}({text})" for text in pairs]
    return [*found, *(text for name, value in last.items() if name in _WORDS and (text := _WORDS[name](value)))]
