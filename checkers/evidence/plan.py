"""``plan.yaml``: what a run was to do, with all defaults filled in: the workload, versions, seed, and the command that repeats it.

The harness writes it; checkers and reports read it. Format 2 states how the catalog guards against concurrent commits and which
servers it has. Plans of format 1, which have no key ``format``, have only its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from checkers.evidence.record import shown
from workloads.file.anomalies import Entries
from workloads.tables import TableSpec

FORMAT = 2
OVERRIDES = "table-override."
"""Beginning of a catalog's properties that override those of every table that it creates (``CatalogProperties.TABLE_OVERRIDE_PREFIX``)."""
_LEFT_OUT_WHEN_EMPTY = ("engines", "external", "catalog_properties", "clocks", "nemesis", "allow")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True, coerce_numbers_to_str=True)


class PlannedCatalog(_Part):
    """The catalog of a run.

    Attributes:
        name: of the entry in ``compose.catalogs``, or the name in the user's own file.
        summary: one line that describes it; empty if the plan has none.
        guard: how it guards against concurrent commits, such as ``compare-and-swap`` or ``none``; None if the plan does not say.
        type: of Iceberg's client for a user's own catalog, such as ``rest``, or the class that implements it; None of others.
        services: names of its servers that the run started.
    """

    name: str
    type: str | None = None
    summary: str = ""
    guard: str | None = None
    services: tuple[str, ...] = ()


class PlannedPhase(_Part):
    """A phase of the workload; ``operations``: kind → its share of the mix and its options."""

    name: str
    length: dict[str, Any] = {}
    operations: dict[str, dict[str, Any]] = {}
    rate: float | None = None
    writers: int | None = None
    tables: tuple[str, ...] | None = None


def _catalog(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class Plan(_Part):
    """A run's plan. Absent keys are empty or None; keys that this version does not know are kept (``model_extra``).

    Attributes:
        external: user-supplied services: catalog, object store, Spark master.
        engines: the engine of each writer; empty: all are Spark's.
        session, cluster: how Spark ran the statements of its writers (:mod:`workloads.file.mode`).
        keys: how the workload draws shared keys.
        op_timeout: seconds that an operation may take.
        clocks: writer → offset of its clock, such as ``+1h``.
        nemesis: the faults, as the workload file has them.
        expect: anomalies that the workload expects; ``allow``: those that may happen and fail nothing.
        assertions: metric → threshold, such as ``<5%``; ``assert`` in the file.
    """

    format: int = 1
    workload: str = ""
    description: str = ""
    seed: int | None = None
    command: str = ""
    catalog: Annotated[PlannedCatalog | None, BeforeValidator(_catalog)] = None
    external: dict[str, Any] = {}
    catalog_properties: dict[str, str] = {}
    namespace: str = ""
    versions: dict[str, str] = {}
    tables: tuple[TableSpec, ...] | None = None
    writers: Annotated[int | None, Field(ge=1)] = None
    engines: tuple[str, ...] = ()
    session: str | None = None
    cluster: str | None = None
    keys: dict[str, Any] = {}
    op_timeout: float | None = None
    clocks: dict[int, str] = {}
    nemesis: dict[str, Any] = {}
    phases: tuple[PlannedPhase, ...] = ()
    expect: Entries = ()
    allow: Entries = ()
    assertions: Annotated[dict[str, str], Field(alias="assert")] = {}

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        return {k: v for k, v in value.items() if v is not None} if isinstance(value, Mapping) else value

    @property
    def promised(self) -> dict[str, TableSpec]:
        """Its tables by name, with the properties that the catalog's own, which begin with :data:`OVERRIDES`, give every table."""
        own = {k.removeprefix(OVERRIDES): v for k, v in self.catalog_properties.items() if k.startswith(OVERRIDES)}
        tables = self.tables or ()
        return {t.name: t.model_copy(update={"properties": t.properties | own}) if own else t for t in tables}

    def to_yaml(self) -> dict[str, Any]:
        """The content of ``plan.yaml``: the given values in the order of the attributes above, then unknown keys."""
        fields = self.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
        order = [f.alias or name for name, f in Plan.model_fields.items()]
        keys = [*(k for k in order if k in fields), *(k for k in fields if k not in order)]
        return {k: fields[k] for k in keys if fields[k] or k not in _LEFT_OUT_WHEN_EMPTY}


_MUST: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "string": "a word",
    "dict": "a mapping",
    "tuple": "a list",
    "list": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "bool": "true or false",
    "literal_error": "one of {expected}",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "model": "a mapping",
}
"""Kind of error, or the type that its name begins with → what the value must be."""


def wrong_key(error: ValidationError) -> str:
    """A sentence on the first wrong value of a plan: its key, what it must be, and what it is."""
    e = error.errors()[0]
    kind, key = e["type"], ".".join(str(part) for part in e["loc"])
    if kind == "missing":
        where = ".".join(str(part) for part in e["loc"][:-1])
        return f"{where or 'the plan'} needs {e['loc'][-1]}"
    if kind == "extra_forbidden":
        return f"{key}: unknown key"
    if kind == "value_error":  # of icequake's own validators
        return f"{key}: {e['ctx']['error']}"
    words = _MUST.get(kind) or next((w for k, w in _MUST.items() if kind.startswith(f"{k}_")), None)
    if words is None:
        return f"{key}: has a value of another form, {shown(e['input'])}"
    return f"{key}: must be {words.format(**e.get('ctx', {}))}, not {shown(e['input'])}"


def readable_part(content: Mapping[str, Any]) -> tuple[Plan, tuple[str, ...]]:
    """The valid part of a plan, and a sentence for each invalid key; a report must show every run."""
    rest = {str(k): v for k, v in content.items()}
    problems: list[str] = []
    while True:
        try:
            return Plan.model_validate(rest), tuple(problems)
        except ValidationError as e:
            for key in dict.fromkeys(str(error["loc"][0]) for error in e.errors()):
                del rest[key]
                problems.append(f"plan.yaml: {key} has an invalid value, so it is left out")
