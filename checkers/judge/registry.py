"""All checkers: every class in ``checkers/`` that inherits from :class:`checkers.verdict.Checker`.

A checker is a file of ``checkers/``, or a folder whose ``__init__.py`` names its class; one that judges the files of a single table format
stands in the folder of that format. It needs no other registration: the verdicts of every run, the names that a workload may expect, and
``icequake list checks`` use this list.
"""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from types import ModuleType

import checkers
from checkers import formats
from checkers.verdict import Checker

NO_CHECKERS = frozenset(
    {
        "clients",
        "columns",
        "conflicts",
        "costs",
        "evidence",
        "formats",
        "judge",
        "lake",
        "online",
        "selftest",
        "timeline",
        "unit",
        "verdict",
    }
)
"""Modules and packages of ``checkers/`` without a checker of runs."""
VERDICT_ORDER = (
    "commits",
    "replay",
    "reads",
    "isolation",
    "linearizable",
    "metadata",
    "protocol",
    "liveness",
    "atomicity",
    "pointer",
    "retries",
    "load",
)
"""The order of verdicts. Verdicts of checkers not listed here follow, sorted by name."""


def find() -> tuple[Checker, ...]:
    """One checker of each class, in the order of their verdicts.

    Raises:
        ValueError: two checkers have the same name; the message names both classes.
    """
    own = f"{checkers.__name__}."
    parts = [own + m.name for m in pkgutil.iter_modules(checkers.__path__) if m.name not in NO_CHECKERS]
    parts += [m.name for m in pkgutil.walk_packages(formats.__path__, f"{formats.__name__}.") if m.ispkg]
    found = [c for part in sorted(parts) for c in _classes(import_module(part))]
    by_name: dict[str, type[Checker]] = {}
    for c in found:
        if (other := by_name.setdefault(c.name, c)) is not c:
            places = f"{other.__module__}.{other.__qualname__} and {c.__module__}.{c.__qualname__}"
            raise ValueError(f"two checkers are called {c.name!r}: {places}; give one of them another name")
    place = {name: n for n, name in enumerate(VERDICT_ORDER)}
    return tuple(by_name[name]() for name in sorted(by_name, key=lambda n: (place.get(n, len(VERDICT_ORDER)), n)))


def _classes(module: ModuleType) -> list[type[Checker]]:
    """The checkers that a module defines, or a package imports from its own modules."""
    out: list[type[Checker]] = []
    for c in vars(module).values():
        own = inspect.isclass(c) and f"{c.__module__}.".startswith(f"{module.__name__}.")
        if own and Checker in c.__mro__:
            out.append(c)
    return out
