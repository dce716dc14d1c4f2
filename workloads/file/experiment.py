"""The experiment file: a workload file that also says what to vary in it (``icequake sweep``).

::

    vary:
      writers: [1, 2, 4, 8]
      backoff: [linear, exponential+jitter]
    seeds: 5
    catalogs: [rest, jdbc]

A file without these keys is a workload file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field

from workloads.file import parameters, plainyaml
from workloads.file.filekinds import FILE_KINDS
from workloads.file.meant import suggest
from workloads.file.workload import LIBRARY as WORKLOADS
from workloads.file.workload import Workload, WorkloadError
from workloads.file.workload_text import shape_of
from workloads.file.yamlfile import Lines, Problem

LIBRARY = WORKLOADS / "experiments"
"""The folder of the experiments that come with icequake."""
EXPERIMENT_KEYS = ("vary", "seeds", "catalogs")
MOST_VALUES = 64


def _as_typed(value: object) -> object:
    values = value if isinstance(value, list) else [value]
    if any(isinstance(v, bool | dict | list) or v is None for v in values):
        raise ValueError("must be a list of values, such as [1, 2, 4]")
    return tuple(str(v) for v in values)


Values = Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_VALUES), BeforeValidator(_as_typed)]


class Experiment(Workload):
    """A whole experiment file.

    Attributes:
        vary: parameter → its values as typed.
        seeds: how many runs of each combination.
        catalogs: on which; the workload's own if empty.
    """

    vary: dict[str, Values] = Field(default_factory=dict)
    seeds: Annotated[int, Field(ge=1, le=1000)] = 1
    catalogs: tuple[str, ...] = ()

    def plain(self) -> Workload:
        """The workload without what varies."""
        return Workload.model_construct(**{k: getattr(self, k) for k in Workload.model_fields})


def shape(text: str, file: str) -> tuple[Experiment, Lines]:
    """Parse the text of an experiment file and check types but not names; also the line of each key. Raises WorkloadError."""
    return shape_of(Experiment, text, file)


def combinations(vary: Mapping[str, Sequence[str]]) -> list[tuple[tuple[str, str], ...]]:
    """All combinations of values, the last parameter changing fastest."""
    return [tuple(zip(vary, values, strict=True)) for values in product(*vary.values())]


def problems(experiment: Experiment) -> Iterator[Problem]:
    """Parameters that do not exist, and values that they do not take."""
    workload = experiment.plain()
    for name, values in experiment.vary.items():
        for i, value in enumerate(values):
            try:
                parameters.applied(workload, ((name, value),))
            except parameters.ParameterError as e:
                yield (("vary", name) if not parameters.known(name) else ("vary", name, i), f"vary: {e}")
        if len({*values}) < len(values):
            yield (("vary", name), f"vary: {name}: a value is given twice; keep one")


def find(name: str) -> Path:
    """The file that ``name`` means: a path, or the name of an experiment or a workload of the library.

    Raises:
        WorkloadError: there is none; the message lists the experiments.
    """
    path = Path(name)
    if path.is_file():
        return path
    for folder in (LIBRARY, WORKLOADS):
        if path.parent == Path() and (found := folder / f"{name}.yaml").is_file():
            return found
    known, others = (sorted(p.stem for p in folder.glob("*.yaml")) for folder in (LIBRARY, WORKLOADS))
    meant = suggest(name, [*known, *others])
    raise WorkloadError(
        f"{name}: no such experiment or workload{meant}; experiments: {', '.join(known)}; workloads: {', '.join(others)}"
    )


def is_experiment(text: str) -> bool:
    """Whether the text of a YAML file has keys of an experiment; false if it cannot be read, or is known as a file of another kind."""
    try:
        data: Any = plainyaml.value_of(text)
    except (yaml.YAMLError, ValueError, RecursionError):  # such as a date that does not exist
        return False
    others = FILE_KINDS.keys() - {"workload"}
    return isinstance(data, dict) and not others & data.keys() and any(key in data for key in EXPERIMENT_KEYS)
