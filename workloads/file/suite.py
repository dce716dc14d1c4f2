"""The suite file: which cells a nightly soak runs (``icequake soak``), how long each run is, and which anomalies are known.

::

    suite: nightly
    for: 6h
    length: 60s
    cells:
      workloads: [contention, mixed]
      catalogs: [rest, jdbc]
      faults: [none, lost-acks]
    known:
      - {anomaly: lost-commit, catalog: rest, faults: lost-acks, link: "https://github.com/apache/iceberg/issues/1"}

Each value of a list under ``cells`` goes with each value of the others. Names of catalogs, anomalies and releases are looked up by
``harness.run.resolve``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from nemesis.faults.lengths import Seconds
from nemesis.faults.packages import PACKAGES
from workloads.engines.engines import ENGINES
from workloads.file import filekinds, parameters
from workloads.file import order as orders
from workloads.file.anomalies import SomeEntries
from workloads.file.changes import AND, NONE, OWN, Changes, with_faults
from workloads.file.meant import suggest, unknown, unknown_package
from workloads.file.mode import Cluster, Session
from workloads.file.sizes import Bytes
from workloads.file.workload import LIBRARY as WORKLOADS
from workloads.file.workload import MOST_WRITERS, Length, Workload, WorkloadError, find
from workloads.file.workload_text import problems
from workloads.file.yamlfile import Lines, LookUp, Problem, entries, nothing, validated

LIBRARY = WORKLOADS / "suites"
"""The folder of the suites that come with icequake."""

MOST_CELLS = 10_000
MODE = ("session", "cluster")
"""The dimensions of :class:`workloads.file.mode.Mode`."""
DIMENSIONS = ("workload", "catalog", "faults", "iceberg", "writers", "order", "session", "cluster")


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One combination: what a run of a soak runs, but for its seed.

    Attributes:
        workload: its name.
        faults: packages, joined by ``+``; ``none``, or ``own`` for those of the workload file.
        iceberg: the release of the writers.
        writers: as ``--writers`` takes them: ``3``, ``spark=2,duckdb=1``; empty: the workload file's.
        order: who decides the order of requests (:mod:`workloads.file.order`); empty: the workload file's.
        session, cluster: how Spark runs the writers' statements (:mod:`workloads.file.mode`); empty: the workload file's.
    """

    workload: str
    catalog: str
    faults: str
    iceberg: str
    writers: str
    order: str = ""
    session: str = ""
    cluster: str = ""

    @property
    def name(self) -> str:
        """``mixed/rest/lost-acks/1.12.0``, with the writers, the order, the session and the cluster if they are given."""
        return "/".join(part for part in self.values() if part)

    @property
    def stack(self) -> tuple[str, ...]:
        """The catalog, the release, and session and cluster if they are given: runs with the same ones share a warm stack."""
        return tuple(part for part in (self.catalog, self.iceberg, self.session, self.cluster) if part)

    def values(self) -> tuple[str, ...]:
        """The values, in the order of :data:`DIMENSIONS`."""
        return tuple(getattr(self, d) for d in DIMENSIONS)

    def to_json(self) -> dict[str, str]:
        """As JSON values, without session and cluster if they are not given: those of nights that know none."""
        return {k: v for k, v in asdict(self).items() if v or k not in MODE}

    @staticmethod
    def from_json(r: Mapping[str, Any]) -> Cell:
        """The inverse. Raises KeyError or TypeError for anything else."""
        workload, catalog, faults, iceberg, writers = (str(r[d]) for d in DIMENSIONS if d not in ("order", *MODE))
        return Cell(workload, catalog, faults, iceberg, writers, *(str(r.get(d, "")) for d in ("order", *MODE)))


def _word(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be a name, not {value!r}")
    return str(value)


def _team(value: object) -> str:
    """The writers of a cell: a number, or a number for each engine."""
    if isinstance(value, Mapping):
        counts = {str(name): n for name, n in value.items()}
        for name, n in counts.items():
            if name not in ENGINES:
                raise ValueError(unknown("engine", name, ENGINES))
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise ValueError(f"{name}: must be a whole number from 1 to {MOST_WRITERS}, not {n!r}")
        if not 1 <= sum(counts.values()) <= MOST_WRITERS:
            raise ValueError(f"must be 1 to {MOST_WRITERS} in all")
        return ",".join(f"{name}={n}" for name, n in counts.items())
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_WRITERS:
        raise ValueError(
            f"must be a number from 1 to {MOST_WRITERS}, or how many of each engine, {{spark: 2, duckdb: 1}}, not {value!r}"
        )
    return str(value)


def _order(value: object) -> str:
    """Who decides the order of requests; a suite's runs are new, so it replays none."""
    allowed = f"free, priority(D) with D from 1 to {orders.DEEPEST}, or coverage"
    if not isinstance(value, str):
        raise ValueError(f"must be {allowed}, not {value!r}")
    found = orders.parse(value)
    if found.kind == "replay":
        raise ValueError(f"must be {allowed}, not {value!r}: only `icequake run` replays a run")
    return str(found)


def _listed(value: object) -> object:
    """One value stands for a list of it."""
    return value if isinstance(value, list | tuple) else (value,)


def _mode(values: object) -> Callable[[object], str]:
    """One of the values of a session or a cluster."""
    allowed = get_args(values)

    def mode_word(value: object) -> str:
        if value not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}, not {value!r}")
        return str(value)

    return mode_word


Word = Annotated[str, BeforeValidator(_word)]
SessionWord = Annotated[str, BeforeValidator(_mode(Session))]
ClusterWord = Annotated[str, BeforeValidator(_mode(Cluster))]
Team = Annotated[str, BeforeValidator(_team)]
OrderWord = Annotated[str, BeforeValidator(_order)]
Words = Annotated[tuple[Word, ...], Field(min_length=1), BeforeValidator(_listed)]
Teams = Annotated[tuple[Team, ...], Field(min_length=1), BeforeValidator(_listed)]
Orders = Annotated[tuple[OrderWord, ...], Field(min_length=1), BeforeValidator(_listed)]
Sessions = Annotated[tuple[SessionWord, ...], Field(min_length=1), BeforeValidator(_listed)]
Clusters = Annotated[tuple[ClusterWord, ...], Field(min_length=1), BeforeValidator(_listed)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Condition(_Model):
    """Some cells: those that have one of the values in every dimension that is given."""

    workload: Words | None = None
    catalog: Words | None = None
    faults: Words | None = None
    iceberg: Words | None = None
    writers: Teams | None = None
    order: Orders | None = None
    session: Sessions | None = None
    cluster: Clusters | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Condition:
        if all(getattr(self, d) is None for d in DIMENSIONS):
            raise ValueError(f"needs at least one of: {', '.join(DIMENSIONS)}")
        return self

    def holds(self, cell: Cell) -> bool:
        """Whether a cell is one of them."""
        return all(wanted is None or getattr(cell, d) in wanted for d in DIMENSIONS for wanted in (getattr(self, d),))


class KnownAnomalies(_Model):
    """Anomalies that are known, and do not fail a night, on the cells that the other keys describe; all cells if there are none.

    Attributes:
        anomaly: one, or several if one defect shows as any of them.
        link: where it is discussed.
        runs: so many runs of these cells without any of them are worth a line.
    """

    anomaly: SomeEntries
    workload: Words | None = None
    catalog: Words | None = None
    faults: Words | None = None
    iceberg: Words | None = None
    link: Annotated[str, Field(pattern=r"^https?://\S+$")]
    note: str = ""
    runs: Annotated[int, Field(ge=1, le=100_000)] = 5

    def of(self, cell: Cell) -> bool:
        """Whether it is known on a cell."""
        dimensions = ("workload", "catalog", "faults", "iceberg")
        return all(wanted is None or getattr(cell, d) in wanted for d in dimensions for wanted in (getattr(self, d),))

    @property
    def name(self) -> str:
        """``lost-commit``; ``lost-commit, missing-file`` for several."""
        return ", ".join(map(str, self.anomaly))


class Cells(_Model):
    """Lists of which each value goes with each value of the others.

    Attributes:
        workloads: names of the library, or files relative to the suite's.
        iceberg: releases; the newest one if empty.
        writers: the workload file's if empty; so are ``order``, ``session`` and ``cluster``.
        only: a cell must be in one of these, if there are any.
        exclude: and in none of these.
    """

    workloads: Words
    catalogs: Words
    faults: Words = (OWN,)
    iceberg: Annotated[tuple[Word, ...], BeforeValidator(_listed)] = ()
    writers: Annotated[tuple[Team, ...], BeforeValidator(_listed)] = ()
    order: Annotated[tuple[OrderWord, ...], BeforeValidator(_listed)] = ()
    session: Annotated[tuple[SessionWord, ...], BeforeValidator(_listed)] = ()
    cluster: Annotated[tuple[ClusterWord, ...], BeforeValidator(_listed)] = ()
    only: tuple[Condition, ...] = ()
    exclude: tuple[Condition, ...] = ()

    def of(self, dimension: str) -> tuple[str, ...]:
        """The values of a dimension as the file lists them."""
        found: tuple[str, ...] = getattr(self, _KEYS[dimension])
        return found


_KEYS = {
    "workload": "workloads",
    "catalog": "catalogs",
    "faults": "faults",
    "iceberg": "iceberg",
    "writers": "writers",
    "order": "order",
    "session": "session",
    "cluster": "cluster",
}
"""Dimension → its key under ``cells``."""


class Shrinking(_Model):
    """How a night replays and shrinks what it finds.

    Attributes:
        budget: seconds for all anomalies of a night together.
        each: seconds for one of them; none: 10 minutes, or the budget if that is less.
        replays: of the whole run, to see how often it shows the anomaly again.
    """

    budget: Seconds = 3600.0
    each: Seconds | None = None
    replays: Annotated[int, Field(ge=0, le=100)] = 3

    @model_validator(mode="after")
    def _each_fits(self) -> Shrinking:
        if self.each is not None and self.each > self.budget:
            raise ValueError(f"each: {self.each:g}s is more than the budget of the night, {self.budget:g}s")
        return self

    @property
    def longest(self) -> float:
        """Seconds that one anomaly may take."""
        return min(self.budget, EACH) if self.each is None else self.each


EACH = 600.0
"""Seconds for one anomaly, unless a suite says otherwise."""


def _shrinking(value: object) -> object:
    """``true``: as by default; ``false``: not at all."""
    if isinstance(value, bool):
        return Shrinking() if value else None
    if not isinstance(value, Mapping | Shrinking):
        raise ValueError(f"must be true, false, or {{budget: 1h, each: 10m, replays: 3}}, not {value!r}")
    return value


class Suite(_Model):
    """A whole suite file. See ``docs/soak.md``.

    Attributes:
        lasts: seconds that a night takes unless ``--for`` or ``--runs`` says otherwise; in a file ``for``.
        length: seconds of load of each run.
        turns: the order of stacks and cells: drawn anew in each round, as listed, or ``rare``: cells
            whose interleavings are still rare have more runs.
        keep: bytes that a night's folder may have.
        free: bytes that must stay free on the disk; with less the soak stops.
        at_least: operations that each cell must have made, in all its runs, or the night cannot be judged; None: it is judged in any case.
        stop_on_anomaly: whether the first new anomaly ends the night.
        shrink: how new anomalies are replayed and shrunk; None: not at all.
    """

    suite: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
    description: str = ""
    lasts: Annotated[Seconds | None, Field(alias="for")] = None
    length: Seconds = 60.0
    turns: Literal["drawn", "listed", "rare"] = "drawn"
    cells: Cells
    known: tuple[KnownAnomalies, ...] = ()
    keep: Bytes = 20 * 10**9
    free: Bytes = 2 * 10**9
    at_least: Annotated[int, Field(ge=1, le=10**9)] | None = None
    stop_on_anomaly: bool = False
    shrink: Annotated[Shrinking | None, BeforeValidator(_shrinking)] = Shrinking()

    def known_of(self, cell: Cell) -> list[KnownAnomalies]:
        """What is known on a cell, in the order of the file."""
        return [k for k in self.known if k.of(cell)]


def parse(text: str, file: str = "<suite>", look_up: LookUp = nothing) -> tuple[Suite, Lines]:
    """Parse the text of a suite file and check types but not names; also the line of each key.

    Args:
        look_up: called if something is wrong, so that names of what is no package are reported with it.

    Raises:
        WorkloadError: every problem, each with file, line and key.
    """
    return validated(
        Suite,
        text,
        file,
        example="workloads/suites/nightly.yaml",
        look_up=lambda data: [*names_in(data), *look_up(data)],
    )


def names_in(data: Any) -> Iterator[Problem]:
    """Names of packages in the plain data of a suite file that mean nothing, whatever else is wrong with it."""
    for key, name in entries(data, "cells", "faults", "*"):
        if isinstance(name, str):
            yield from ((key, f"faults: {message}") for message in _wrong_faults(name))


def _wrong_faults(value: str) -> Iterator[str]:
    if value in (NONE, OWN):
        return
    packages = value.split(AND)
    for name in packages:
        if name in (NONE, OWN):
            yield f"{name} goes with no package; write it alone"
        elif name not in PACKAGES:
            yield unknown_package(name, (NONE, OWN, *PACKAGES))
    if len({*packages}) < len(packages):
        yield f"{value}: a package is given twice; keep one"


def wrong_names(suite: Suite) -> Iterator[Problem]:
    """Packages that do not exist, values given twice, and conditions on what no cell has. Files, catalogs and releases are not looked up."""
    cells = suite.cells
    for i, value in enumerate(cells.faults):
        yield from ((("cells", "faults", i), f"faults: {message}") for message in _wrong_faults(value))
    for dimension, key in _KEYS.items():
        values = cells.of(dimension)
        if twice := [v for v in dict.fromkeys(values) if values.count(v) > 1]:
            yield (("cells", key), f"{key}: {twice[0]} is given twice; keep one")
    for where in ("only", "exclude"):
        for i, condition in enumerate(getattr(cells, where)):
            for d in DIMENSIONS:
                for value in getattr(condition, d) or ():
                    yield from _absent(("cells", where, i, d), d, value, cells)
    for i, known in enumerate(suite.known):
        for d in ("workload", "catalog", "faults"):
            for value in getattr(known, d) or ():
                yield from _absent(("known", i, d), d, value, cells)


def _absent(key: tuple[str | int, ...], dimension: str, value: str, cells: Cells) -> Iterator[Problem]:
    """A value that no cell has in a dimension."""
    values = [Path(v).stem if dimension == "workload" else v for v in cells.of(dimension)]
    if dimension in ("iceberg", "writers", "order", *MODE) and not values:
        yield key, f"{dimension}: cells: has no {_KEYS[dimension]}; list them there, or leave this out"
    elif value not in values:
        yield key, f"{dimension}: no cell has {value!r}{suggest(value, values)}; allowed: {', '.join(values)}"


def cells_of(suite: Suite, newest: str) -> list[Cell]:
    """The cells of a suite, in the order of its lists, the last dimension changing fastest.

    Args:
        newest: the release of cells of which the file names none.
    """
    c = suite.cells
    workloads = [Path(w).stem for w in c.workloads]
    own = (c.writers, c.order, c.session, c.cluster)
    every = product(workloads, c.catalogs, c.faults, c.iceberg or (newest,), *(values or ("",) for values in own))
    found = (Cell(*values) for values in every)
    return [
        cell
        for cell in found
        if (not c.only or any(o.holds(cell) for o in c.only)) and not any(e.holds(cell) for e in c.exclude)
    ]


def workload_path(name: str, suite: Path) -> Path:
    """The workload file that a suite file names: one relative to the suite's folder, or of the library.

    Raises:
        WorkloadError: there is none.
    """
    beside = suite.parent / name
    return beside if beside.suffix and beside.is_file() else find(name)


def workload_of(file: Workload, cell: Cell, length: float) -> Workload:
    """The workload of a cell's runs, which take ``length`` seconds.

    Raises:
        ValueError: the cell's values do not go together with the file; the message is one line.
    """
    number = (("writers", cell.writers),) if cell.writers.isdecimal() else ()
    teams = None if number else cell.writers or None
    try:
        base = file.model_copy(update={"length": Length(time=length), "phases": ()})
        base = with_faults(parameters.applied(base, number), cell.faults)
    except parameters.ParameterError as e:
        raise ValueError(str(e)) from None
    found = Changes(teams, session=cell.session or None, cluster=cell.cluster or None).on(base)
    if wrong := [message for _, message in problems(found)]:
        raise ValueError(wrong[0])
    return found.model_copy(update={"catalog": cell.catalog} | ({"order": cell.order} if cell.order else {}))


def locate(name: str) -> Path:
    """The file that ``name`` means: a path, or the name of a suite of the library, with or without ``suites/`` and ``.yaml``.

    Raises:
        WorkloadError: there is none; the message lists the suites.
    """
    path = Path(name)
    if path.is_file():
        return path
    plain = path.name.removesuffix(".yaml")
    if path.parent in (Path(), Path("suites")) and (found := LIBRARY / f"{plain}.yaml").is_file():
        return found
    for folder, what, verb in ((WORKLOADS / "scenarios", "a scenario", "prove"), (WORKLOADS, "a workload", "run")):
        if (folder / f"{name}.yaml").is_file():
            raise WorkloadError(f"{name} is {what}, not a suite; `icequake {verb} {name}` runs it")
    if (other := filekinds.refused(Path(name), "a suite")) is not None:
        raise WorkloadError(other)
    names = library()
    raise WorkloadError(f"{name}: no such suite{suggest(plain, names)}; in the library: {', '.join(names)}")


def library() -> list[str]:
    """The names of the suites of the library."""
    return sorted(p.stem for p in LIBRARY.glob("*.yaml"))


def as_header(suite: Suite, cells: Iterable[Cell]) -> dict[str, Any]:
    """What all runs of a night share, as JSON: another one is another night."""
    return {"suite": suite.suite, "length": suite.length, "cells": [c.to_json() for c in cells]}
