"""A defect file: a random workload in which one known defect may show, and the anomalies by which it counts as found.

It is a workload file with a few more keys (``icequake time-to-find``)::

    defect: undelete
    scenarios: [undelete]
    found: [undelete]
    use: snapshot-mor
    length: {time: 15s}

``use`` names a workload file of the library, whose keys hold where the defect file does not give them itself. No scenario fixes an order: the
operations are drawn, and how they overlap is luck or the choice of who decides the order of requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field

from workloads.file import plainyaml, workload_text
from workloads.file import workload as schema
from workloads.file.anomalies import Entries
from workloads.file.meant import suggest, unknown
from workloads.file.workload import LIBRARY as WORKLOADS
from workloads.file.workload import Workload, WorkloadError
from workloads.file.yamlfile import Lines, LookUp, Problem, nothing, read_text, validated

LIBRARY = WORKLOADS / "defects"
"""The folder of the defect files that come with icequake."""
UNREACHED = "unreached.yaml"
"""Name of the file in it that says which scenarios no random workload reaches, and why."""


class Defect(Workload):
    """A whole defect file.

    Attributes:
        defect: its name, and that of its file.
        scenarios: those of the library that show the defect in a fixed order.
        found: anomalies: it is found when the checkers report one of them.
        tables_of: the tables on which they count; all if empty; in a file ``found_on``.
        iceberg: the release of the writers; the newest one if None.
        use: a workload file of the library whose keys hold where this file gives none.
    """

    defect: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
    scenarios: Annotated[tuple[str, ...], Field(min_length=1)]
    found: Annotated[Entries, Field(min_length=1)]
    tables_of: Annotated[tuple[str, ...], Field(alias="found_on")] = ()
    iceberg: str | None = None
    use: str | None = None

    def plain(self) -> Workload:
        """The random workload."""
        return Workload.model_construct(**{k: getattr(self, k) for k in Workload.model_fields})

    @property
    def load(self) -> float:
        """Seconds of load of one run."""
        assert self.length is not None and self.length.time is not None, "checked by problems()"
        return self.length.time


def shape(text: str, file: str, look_up: LookUp = nothing) -> tuple[Defect, Lines]:
    """Parse the text of a defect file and check types but not names; also the line of each key.

    Raises:
        WorkloadError: every problem, each with file, line and key.
    """
    found, lines_of = validated(
        Defect,
        text,
        file,
        example="workloads/defects/undelete.yaml",
        prepare=lambda data, lines: _whole(data, lines, file),
        look_up=lambda data: (*workload_text.names_in(data), *look_up(data)),
    )
    return _quick(found), lines_of


def _whole(data: dict[str, Any], lines: Lines, file: str) -> dict[str, Any]:
    """The data with the keys of the workload that it uses, and with its own name as the workload's."""
    used: dict[str, Any] = {}
    if "workload" in data:
        raise WorkloadError(f"{file}:{lines[('workload',)]}: workload: a defect file has a name already; leave it out")
    if isinstance(name := data.get("use"), str):
        try:
            used = plainyaml.value_of(read_text(schema.find(name)))
        except (WorkloadError, yaml.YAMLError) as e:
            raise WorkloadError(f"{file}:{lines[('use',)]}: use: {e}") from None
        used = {
            k: v for k, v in used.items() if k not in ("workload", "phases", "length", "description", "expect", "allow")
        }
    return {**used, **data, "workload": data.get("defect")}


def _quick(d: Defect) -> Defect:
    """The defect in the quickest mode that its faults allow, where its file does not say another."""
    return d.model_copy(update={k: v for k, v in asdict(d.quick_mode).items() if k not in d.model_fields_set})


def problems(d: Defect) -> Iterator[Problem]:
    """Names that mean nothing. Anomalies, catalogs and releases are not looked up."""
    yield from workload_text.problems(d)
    if d.length is None or d.length.time is None:
        yield ("length",), "length: must be a time, such as {time: 15s}"
    if d.phases:
        yield ("phases",), "phases: a defect file has none; give length: {time: 15s}"
    if d.order is not None:
        yield ("order",), "order: the search decides it; leave it out"
    scenarios = sorted(p.stem for p in (WORKLOADS / "scenarios").glob("*.yaml"))
    for i, name in enumerate(d.scenarios):
        if name not in scenarios:
            yield (
                ("scenarios", i),
                f"scenarios: there is no scenario {name!r}{suggest(name, scenarios)}; see `icequake list scenarios`",
            )
    tables = [t.name for t in d.tables]
    for i, name in enumerate(d.tables_of):
        if name not in tables:
            yield ("found_on", i), f"found_on: {unknown('table', name, tables)}"


def paths() -> list[Path]:
    """The defect files of the library."""
    return [p for p in sorted(LIBRARY.glob("*.yaml")) if p.name != UNREACHED]


def find(name: str) -> Path:
    """The file that ``name`` means: a path, or the name of a defect of the library.

    Raises:
        WorkloadError: there is none; the message lists them.
    """
    path = Path(name)
    if path.is_file():
        return path
    known = [p.stem for p in paths()]
    if name in known:
        return LIBRARY / f"{name}.yaml"
    raise WorkloadError(f"{name}: no such defect{suggest(name, known)}; in the library: {', '.join(known)}")


def unreached() -> dict[str, str]:
    """Scenario → why no random workload of the library reaches its defect."""
    found = plainyaml.value_of(read_text(LIBRARY / UNREACHED))
    return {str(k): " ".join(str(v).split()) for k, v in found.items()}
