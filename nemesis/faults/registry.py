"""All verbs, by name: those of the files in ``nemesis/faults/verbs``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from nemesis.faults import verbs
from nemesis.faults.fields import VERB_FIELDS
from nemesis.faults.verb import Verb


def _verbs_of(module: ModuleType) -> list[type[Verb]]:
    classes = [c for _, c in inspect.getmembers(module, inspect.isclass) if c.__module__ == module.__name__]
    return [c for c in classes if issubclass(c, Verb) and not inspect.isabstract(c)]


def find_verbs(package: ModuleType) -> dict[str, Verb]:
    """The verbs of every file of a package, in the order of their names.

    Raises:
        TypeError: a file declares no verb, or one that cannot be used; the message names file and remedy.
    """
    found: dict[str, Verb] = {}
    for file in iter_modules(package.__path__):
        module = import_module(f"{package.__name__}.{file.name}")
        classes = _verbs_of(module)
        if not classes:
            raise TypeError(f"{module.__file__}: declares no verb; give it a class that derives from one of verb.py")
        for verb in classes:
            where = f"{module.__file__}: {verb.__name__}"
            if missing := [key for key in ("name", "summary") if not hasattr(verb, key)]:
                raise TypeError(f"{where} has no {missing[0]}; give it one")
            if verb.name in found:
                raise TypeError(f"{where}: another verb has the name {verb.name!r}; choose another name")
            if strange := sorted({*verb.fields, *verb.needs} - {*VERB_FIELDS}):
                allowed = ", ".join(VERB_FIELDS)
                raise TypeError(
                    f"{where}: no fault has the field {strange[0]!r}; allowed: {allowed}; declare it in `own`"
                )
            found[verb.name] = verb()
    return dict(sorted(found.items()))


VERBS: Mapping[str, Verb] = find_verbs(verbs)
