"""Every kind of operation by name: those of this folder's files, and those that a workload file adds.

A kind is a class derived from ``Kind``, in any file of this folder: it is found by its ``name``. Helpers' names begin with ``_``. A kind from
elsewhere is named by module and class, as ``my_module:MyKind`` (``workloads.file.own_kinds``), and joins the others here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from types import MappingProxyType

from workloads import operations
from workloads.operations.kind import VERBS, Kind
from workloads.tables import DELTA


class KindError(ValueError):
    """A class is not a kind of operation; the message says what it lacks."""


def made(kind: object) -> Kind:
    """An instance of a kind's class.

    Raises:
        KindError: it is not derived from ``Kind``, or it is incomplete.
    """
    if not (isinstance(kind, type) and issubclass(kind, Kind)):
        raise KindError("is not a class derived from workloads.operations.kind.Kind")
    if isabstract(kind):
        raise KindError(f"lacks the methods {', '.join(sorted(kind.__abstractmethods__))}")
    lacking = [a for a in ("name", "verb") if not isinstance(getattr(kind, a, None), str)]
    if lacking:
        raise KindError(f'lacks {" and ".join(lacking)}, such as {lacking[0]} = "update"')
    if wrong := _misnamed(kind):
        raise KindError(wrong)
    if kind.verb not in VERBS:
        raise KindError(f"has the verb {kind.verb!r}; allowed: {', '.join(VERBS)}")
    return kind()


RENAMED = {"told": "by_facts", "part": "seen_from"}
"""The old name of something that a kind states → its name."""
ALMOST = 0.85
"""Likeness from which a name is taken for a mistyped one: that of ``write`` and ``writes``, but not of ``change`` and ``changes_rows``."""


def _misnamed(kind: type[Kind]) -> str | None:
    """What a class from elsewhere states under a name that nothing reads; what is its own alone begins with ``_`` or is like no such name."""
    ours = [c for c in kind.__mro__ if c.__module__.startswith(f"{operations.__name__}.")]
    read = {n for c in ours for n in vars(c) if not n.startswith("_")}
    for c in kind.__mro__:
        for name in () if c in ours else (n for n in vars(c) if not n.startswith("_") and n not in read):
            meant = next(iter([*filter(None, [RENAMED.get(name)]), *get_close_matches(name, read, 1, ALMOST)]), None)
            if meant is not None:
                return f"states {name}, which nothing reads; it is called {meant} (an own name begins with _)"
    return None


def _of_this_folder() -> Iterator[Kind]:
    for module in iter_modules(operations.__path__, f"{operations.__name__}."):
        if module.name == __name__:
            continue
        for name, found in vars(import_module(module.name)).items():
            own = isinstance(found, type) and found.__module__ == module.name and issubclass(found, Kind)
            if own and found is not Kind and not name.startswith("_"):
                yield made(found)


def _by_name(kinds: list[Kind]) -> dict[str, Kind]:
    out: dict[str, Kind] = {}
    for kind in sorted(kinds, key=lambda k: (VERBS.index(k.verb), k.formats == {DELTA})):
        if kind.name in out:
            raise KindError(
                f"{type(kind).__name__} and {type(out[kind.name]).__name__} have the same name, {kind.name}"
            )
        out[kind.name] = kind
    return out


_KINDS = _by_name(list(_of_this_folder()))

BUILT_IN = frozenset(_KINDS)
"""Names of the kinds of this folder."""
KINDS: Mapping[str, Kind] = MappingProxyType(_KINDS)
"""Every kind by name: the allowed values of ``operations:`` in a workload file."""


def register(kind: Kind) -> None:
    """Add a kind from outside this folder; it replaces an earlier outside kind of the same name.

    Raises:
        KindError: a kind of this folder has its name.
    """
    if kind.name in BUILT_IN:
        raise KindError(f"has the name {kind.name}, which is taken; give it another name")
    _KINDS[kind.name] = kind
