"""Which anomalies a file means: the entries of ``expect``, ``allow`` and ``known``, and of a scenario's ``anomalies``.

::

    undelete                                   every checker's, on every table
    isolation/lost-update                      one checker's
    {name: write-skew, tables: [lax]}          on some tables
    {name: replay/write-skew, tables: [lax]}   both; also {name: write-skew, checker: replay, tables: [lax]}

Which anomalies exist, who finds them, and when a name alone says too little, is known to ``checkers.judge.accepted``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_serializer, model_validator

from workloads.file.meant import unknown
from workloads.file.yamlfile import Problem

ENTRY_FORMS = "a name, CHECKER/NAME, or {name: NAME, checker: CHECKER, tables: [TABLE]}"
CHECKER, TABLES = "checker", "tables"
"""The keys that make an entry say more than a name."""


class AnomalyFacts(Protocol):
    """What an entry looks at in an anomaly (:class:`checkers.verdict.Anomaly`); an older record may lack the checker."""

    @property
    def name(self) -> str: ...
    @property
    def checker(self) -> str | None: ...
    @property
    def table(self) -> str | None: ...
    @property
    def documented(self) -> object: ...
    @property
    def same_as(self) -> str | None: ...


class AnomalyEntry(BaseModel):
    """Some anomalies.

    Attributes:
        checker: who finds them; None: whoever does.
        tables: on which tables; none: on any, and those of no table.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    checker: str | None = None
    tables: Annotated[tuple[str, ...] | None, Field(min_length=1)] = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        if isinstance(value, AnomalyEntry):
            return value
        fields = {"name": value} if isinstance(value, str) else value
        if not isinstance(fields, Mapping):
            raise ValueError(f"must be {ENTRY_FORMS}, not {value!r}")
        name = fields.get("name")
        if not isinstance(name, str) or "/" not in name:
            return fields
        checker, _, rest = name.partition("/")
        if not checker or not rest or "/" in rest:
            raise ValueError(f"must be {ENTRY_FORMS}, not {name!r}")
        if fields.get("checker", checker) != checker:
            raise ValueError(f"{name} names another checker than checker: does; leave one of them out")
        return {**fields, "name": rest, "checker": checker}

    @model_serializer
    def _written(self) -> str | dict[str, Any]:
        name = str(self.model_copy(update={"tables": None}))
        return name if self.tables is None else {"name": name, "tables": list(self.tables)}

    def __str__(self) -> str:
        """As it is written in a file."""
        name = self.name if self.checker is None else f"{self.checker}/{self.name}"
        return name if self.tables is None else f"{{name: {name}, tables: [{', '.join(self.tables)}]}}"

    @property
    def says(self) -> frozenset[str]:
        """What it says besides a name: :data:`CHECKER`, :data:`TABLES`."""
        return frozenset(k for k, v in ((CHECKER, self.checker), (TABLES, self.tables)) if v is not None)

    def named(self, a: AnomalyFacts) -> bool:
        """Whether an anomaly is one of these, whatever its table."""
        return self.name == a.name and (self.checker is None or a.checker in (None, self.checker))

    def finds(self, a: AnomalyFacts) -> bool:
        """Whether an anomaly is one of these."""
        return self._on(a.table) and self.named(a)

    def means(self, a: AnomalyFacts) -> bool:
        """Whether an anomaly, or the one that it confirms (``same_as``), is one of these; the other one says itself who found it."""
        return self._on(a.table) and (self.named(a) or self.name == a.same_as)

    def _on(self, table: str | None) -> bool:
        return self.tables is None or table in self.tables


def _listed(value: object) -> object:
    """One entry stands for a list of it."""
    return value if isinstance(value, list | tuple) else (value,)


Entries = tuple[AnomalyEntry, ...]
SomeEntries = Annotated[tuple[AnomalyEntry, ...], Field(min_length=1), BeforeValidator(_listed)]


def entries_of(*written: str | Mapping[str, Any]) -> Entries:
    """Entries from what a file says. Raises ValueError if one has another form."""
    return tuple(AnomalyEntry.model_validate(w) for w in written)


def tables_problems(key: str, entries: Iterable[AnomalyEntry], tables: Iterable[str]) -> Iterator[Problem]:
    """The tables of entries under a key that there are not."""
    names = list(tables)
    for i, entry in enumerate(entries):
        for name in entry.tables or ():
            if name not in names:
                yield (key, i, TABLES), f"{key}: {unknown('table', name, names)}"
