"""Kinds of operations that are no part of icequake: ``my_module:MyKind`` in a workload file, and in the folder of a run that had them.

The module is a file ``my_module.py`` (of a package: ``folder/my_module.py`` for ``folder.my_module``), looked for beside the workload file and
on PYTHONPATH. Its text goes into the run's folder, so that the run can be judged when the file is gone or another.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from workloads.file.opened import document
from workloads.operations.kinds import KindError, made, register

SEPARATOR = ":"
"""Between module and class."""
ASKED_FOR = "ICEQUAKE_PYTHONPATH"
"""The user's PYTHONPATH: icequake itself runs with another."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a kind is from: ``module:Class``, and the text of the module's file."""

    where: str
    text: str

    @property
    def file(self) -> Path:
        """The module's file, from the folder in which it is looked for."""
        return _file(self.where.partition(SEPARATOR)[0])


_MODULES: dict[tuple[str, str], ModuleType] = {}
"""Name and text of a module → the module: the same text is the same module, wherever its file is."""
_ORIGINS: dict[str, Origin] = {}
"""Kind from elsewhere → where it is from, of those of one name the last."""


def load(where: str, folder: Path) -> str:
    """Import a kind and add it to ``workloads.operations.kinds``; its name.

    Raises:
        KindError: there is no such module or class, it is no kind, or its name is that of a kind of icequake's.
    """
    module, _, name = where.partition(SEPARATOR)
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        raise KindError("must be a module and a class in it, such as my_module:MyKind")
    path = _found(module, folder)
    try:
        text = document(path).decode()
    except (OSError, UnicodeDecodeError) as e:
        raise KindError(f"{path} cannot be read: {e}") from None
    classes = vars(_module(module, path, text))
    if name not in classes:
        defined = [n for n, c in classes.items() if isinstance(c, type) and c.__module__ == classes["__name__"]]
        raise KindError(f"{path} has no class {name}; it has {', '.join(defined) or 'none'}")
    try:
        kind = made(classes[name])
        register(kind)
    except KindError as e:
        raise KindError(f"{name} of {path} {e}") from None
    _ORIGINS[kind.name] = Origin(where, text)
    return kind.name


def origins(names: Iterable[str]) -> dict[str, Origin]:
    """Of these kinds those from elsewhere, by name."""
    return {name: _ORIGINS[name] for name in sorted(set(names)) if name in _ORIGINS}


def load_recorded(kinds: Mapping[str, str], folder: Path) -> None:
    """Import the kinds that a run had.

    Args:
        kinds: name → ``module:Class``.
        folder: where the run kept their files.

    Raises:
        KindError: one cannot be imported; begins with its name.
    """
    for name, where in kinds.items():
        try:
            found = load(where, folder)
        except KindError as e:
            raise KindError(f"{name}: {e}") from None
        if found != name:
            raise KindError(f"{name}: {where} has the name {found}")


def _file(module: str) -> Path:
    return Path(*module.split(".")).with_suffix(".py")


def _places(folder: Path) -> Iterator[Path]:
    yield folder
    for variable in (ASKED_FOR, "PYTHONPATH"):
        yield from map(Path, filter(None, os.environ.get(variable, "").split(os.pathsep)))


def _found(module: str, folder: Path) -> Path:
    for place in _places(folder):
        if (path := place / _file(module)).is_file():
            return path
    raise KindError(f"there is no {_file(module)} in {folder}, nor on PYTHONPATH; give its folder by PYTHONPATH")


def _module(name: str, path: Path, text: str) -> ModuleType:
    if (name, text) in _MODULES:
        return _MODULES[name, text]
    unique = name if name not in sys.modules else f"{name}_{len(_MODULES)}"
    spec = spec_from_file_location(unique, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = module_from_spec(spec)
    sys.modules[unique] = module  # where dataclasses look for it
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        del sys.modules[unique]
        raise KindError(f"{path} cannot be imported: {type(e).__name__}: {e}") from e
    _MODULES[name, text] = module
    return module
