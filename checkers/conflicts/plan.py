"""Which cells a conflict matrix has: those that it measures by default, and those that can be asked for.

The ordinary cells (``predicted.cells``) are every pair of kinds in every make of table. A further dimension is varied by itself, only for
kinds where it can matter, and only at the placements that tell whether it does. With everything crossed there would be
ten times as many cells, nearly all of which would repeat another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

from checkers.conflicts import predicted
from checkers.conflicts.predicted import MATRIX_KINDS, PLACEMENTS, TWO_FILES, MatrixCell, Mode, Placement
from checkers.evidence.replace import replace
from workloads.file.meant import unknown
from workloads.operations.kinds import KINDS as OPERATIONS

CORE_KINDS = (
    "insert",
    "update-register",
    "delete",
    "delete-partition",
    "merge-upsert",
    "merge-insert",
    "rewrite-data-files",
    "rewrite-manifests",
)
"""Kinds with which the further dimensions are crossed by default."""
ROW_LEVEL = ("update-register", "delete", "merge-upsert")
"""Kinds whose table property says how they write, each of another SQL command, and whose condition is on a key."""
ONE_KEY = ("update-register", "delete")
"""Those of them whose condition on the key is a filter of their scan, so that the ranges of keys decide."""
SEVERAL_KEYS = ("update-register", "merge-upsert")
"""Those of them that can work on rows of several files."""
BY_COMMAND = (*ROW_LEVEL, *predicted.BY_EXPRESSION, "delete-where")
"""All kinds whose table property says how they write, whatever their condition is on."""
REFRESHED = tuple(
    k for k in (*MATRIX_KINDS, *predicted.ON_REQUEST) if k not in ("delete-partition", *predicted.SCHEMA_KINDS)
)
"""Kinds that write files before they refresh. A metadata delete scans and writes nothing before, so no moment lies between the two; nor does
a schema change."""
MIXED = "mixed"
"""Value of the dimension ``mode``: one operation writes copy-on-write, the other one merge-on-read."""

DIMENSIONS: dict[str, tuple[str, ...]] = {
    "mode": (*get_args(Mode), MIXED),
    "version": ("2", "3"),
    "isolation": get_args(predicted.Isolation),
    "placement": get_args(Placement),
    "held": get_args(predicted.Held),
    "predicate": get_args(predicted.Predicate),
    "ranges": get_args(predicted.Ranges),
    "granularity": get_args(predicted.Granularity),
}
"""Dimension → its values, besides ``first`` and ``second``, whose values are kinds."""
FURTHER = ("held", "predicate", "ranges", "granularity")
"""Dimensions that ordinary cells do not vary."""
PAIR = ("first", "second")


def value(cell: MatrixCell, dimension: str) -> str:
    """The value of a dimension, or of ``first`` or ``second``, in a cell."""
    if dimension == "mode":
        return cell.mode if cell.second_mode in (None, cell.mode) else MIXED
    return str(getattr(cell, {"version": "format_version"}.get(dimension, dimension)))


def sensible(cell: MatrixCell) -> bool:
    """Whether the cell can be measured, and each of its further dimensions can matter to its operations."""
    first, second = cell.first, cell.second
    mixed, two = value(cell, "mode") == MIXED, cell.placement == TWO_FILES
    both_rows = first in BY_COMMAND and second in BY_COMMAND
    # ``delete-where`` selects all rows of its files, so copy-on-write leaves none to write.
    writes = first in REFRESHED and (first, cell.mode) != ("delete-where", "copy-on-write")
    schema = bool({first, second} & {*predicted.SCHEMA_KINDS})
    deletes_rows = cell.modes[1] == "merge-on-read" and cell.format_version == 2
    return all(
        (
            not mixed or (both_rows and OPERATIONS[first].verb != OPERATIONS[second].verb),
            cell.held == "commit" or writes,
            cell.predicate == "id" or (first in ROW_LEVEL and not schema),
            cell.ranges == "apart" or (first in ONE_KEY and second in (*ROW_LEVEL, "insert") and not two),
            not two or (first in ROW_LEVEL and second in SEVERAL_KEYS and deletes_rows),
            cell.granularity == "file" or two,
            two or cell.placement in predicted.placements(first, second),
            predicted.possible(cell),
        )
    )


def _made(
    pairs: Iterable[tuple[str, str]],
    *,
    modes: Sequence[tuple[Mode, Mode | None]] = (("copy-on-write", None), ("merge-on-read", None)),
    versions: Sequence[Literal[2, 3]] = (2, 3),
    placements: Sequence[Placement] = tuple(PLACEMENTS),
    extra: Mapping[str, str] | None = None,
) -> Iterator[MatrixCell]:
    levels = get_args(predicted.Isolation)
    for (first, second), (mode, other), version, level, placement in product(
        list(pairs), modes, versions, levels, placements
    ):
        made = MatrixCell(first, second, mode, version, level, placement, second_mode=other)
        made = replace(made, **(extra or {}))
        if sensible(made):
            yield made


BOTH_WAYS: tuple[tuple[Mode, Mode | None], ...] = (
    ("copy-on-write", "merge-on-read"),
    ("merge-on-read", "copy-on-write"),
)


def further(kinds: Sequence[str] = CORE_KINDS) -> Iterator[MatrixCell]:
    """The cells of the further dimensions that a matrix has by default."""
    core = [k for k in kinds if k in CORE_KINDS]
    pairs = list(product(core, core))
    rows = [(x, y) for x, y in pairs if x in ROW_LEVEL]
    yield from _made(pairs, modes=BOTH_WAYS)
    yield from _made(pairs, placements=("same row", "other partition"), extra={"held": "refresh"})
    yield from _made(rows, placements=("same partition", "other partition"), extra={"predicate": "id and part"})
    yield from _made(pairs, placements=("same partition",), extra={"ranges": "overlapping"})
    for granularity in get_args(predicted.Granularity):
        either: tuple[tuple[Mode, Mode | None], ...] = (BOTH_WAYS[0], ("merge-on-read", None))
        yield from _made(rows, modes=either, versions=(2,), placements=(TWO_FILES,), extra={"granularity": granularity})


def default(kinds: Sequence[str] = MATRIX_KINDS) -> list[MatrixCell]:
    """The cells of a matrix of these kinds: the ordinary ones first."""
    return [*predicted.cells(tuple(kinds)), *further(kinds)]


def every(kinds: Sequence[str], wanted: Mapping[str, frozenset[str]]) -> Iterator[MatrixCell]:
    """All cells of these kinds that can be measured and have the wanted values; a further dimension that is not named stays ordinary."""
    firsts, seconds = ([k for k in kinds if k in wanted.get(d, kinds)] for d in PAIR)
    chosen = {d: [v for v in values if v in wanted.get(d, values)] for d, values in DIMENSIONS.items()}
    for d in FURTHER:
        if d not in wanted:
            chosen[d] = [DIMENSIONS[d][0]]
    if "placement" not in wanted:  # the granularity matters at this placement only
        chosen["placement"] = [p for p in chosen["placement"] if (p == TWO_FILES) == ("granularity" in wanted)]
    modes: list[tuple[Mode, Mode | None]] = []
    for mode in chosen["mode"]:
        if mode == MIXED:
            modes += BOTH_WAYS if "mode" in wanted or "granularity" in wanted else ()
        else:
            modes.append((mode, None))  # type: ignore[arg-type]
    for combined in product(*(chosen[d] for d in FURTHER)):
        for cell in _made(
            product(firsts, seconds),
            modes=modes,
            placements=chosen["placement"],  # type: ignore[arg-type]
            extra=dict(zip(FURTHER, combined, strict=True)),
        ):
            if all(value(cell, d) in wanted[d] for d in ("version", "isolation") if d in wanted):
                yield cell


@dataclass(frozen=True, slots=True)
class Chosen:
    """What ``--only`` says.

    Attributes:
        kinds: of both operations.
        values: dimension → the values that are wanted.
    """

    kinds: tuple[str, ...]
    values: Mapping[str, frozenset[str]]

    def cells(self) -> list[MatrixCell]:
        """The cells. The default ones of the kinds if no dimension is named, else every one that has the named values."""
        return list(every(self.kinds, self.values)) if self.values else default(self.kinds)


def chosen(only: Sequence[str], known: Sequence[str] = (*MATRIX_KINDS, *predicted.ON_REQUEST)) -> Chosen:
    """Read what ``--only`` says: kinds of operations, and ``dimension=value``. Several values of a dimension are alternatives.

    Args:
        known: kinds that may be named; without any, those of :data:`MATRIX_KINDS` are meant.

    Raises:
        ValueError: something is unknown; the message names it and says what is allowed.
    """
    kinds: list[str] = []
    values: dict[str, set[str]] = {}
    for word in only:
        dimension, equals, wanted = word.partition("=")
        if not equals:
            if word not in known:
                raise ValueError(
                    f"--only {word}: {unknown('operation', word, known)}; or a dimension, such as held=refresh"
                )
            kinds.append(word)
            continue
        allowed = known if dimension in PAIR else DIMENSIONS.get(dimension)
        if allowed is None:
            raise ValueError(f"--only {word}: {unknown('dimension', dimension, (*PAIR, *DIMENSIONS))}")
        wanted = wanted.removeprefix("v") if dimension == "version" else wanted
        if wanted not in allowed:
            raise ValueError(f"--only {word}: {unknown(f'value of {dimension}', wanted, allowed)}")
        values.setdefault(dimension, set()).add(wanted)
    named = {*kinds, *values.get("first", ()), *values.get("second", ())}
    whole = kinds or [k for k in known if k in MATRIX_KINDS or k in named]
    return Chosen(tuple(k for k in known if k in whole), {d: frozenset(v) for d, v in values.items()})
