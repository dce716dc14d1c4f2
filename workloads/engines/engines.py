"""Every engine by name: one for each file of this folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from types import MappingProxyType

from workloads import engines
from workloads.engines.engine import Engine, Foreign

SPARK = "spark"
"""The engine that does what no other engine of a run can."""


def _of_this_folder() -> Iterator[Engine]:
    for module in iter_modules(engines.__path__, f"{engines.__name__}."):
        if module.name == __name__:
            continue
        for found in vars(import_module(module.name)).values():
            own = isinstance(found, type) and found.__module__ == module.name and issubclass(found, Engine)
            if own and "name" in vars(found) and not isabstract(found):
                yield found()


ENGINES: Mapping[str, Engine] = MappingProxyType(
    {e.name: e for e in sorted(_of_this_folder(), key=lambda e: (isinstance(e, Foreign), e.name))}
)
"""Spark first."""


def engine_of(name: str) -> Engine:
    """The engine of that name; Spark for a name that this version does not know, as in an older run's history."""
    return ENGINES.get(name, ENGINES[SPARK])


def in_words(engines: Sequence[str]) -> str:
    """The writers in words: ``4 writers``, or ``4 writers (3 spark, 1 duckdb)``."""
    counts = Counter(engines)
    counted = "" if {*counts} <= {SPARK} else f" ({', '.join(f'{n} {name}' for name, n in counts.items())})"
    return f"{len(engines)} writer{'s' if len(engines) != 1 else ''}{counted}"
