"""What stands in the product's source files, for the tests of layout and names: each file is parsed once in a process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.runs import ROOT

PACKAGES = ("harness", "reports", "checkers", "compose", "workloads", "nemesis")


@dataclass(frozen=True, slots=True)
class Source:
    """One file; its tree is not kept, because those of all files take hundreds of megabytes."""

    path: Path
    texts: tuple[str, ...]
    """Every constant that is a text, as often as it stands there; docstrings too."""
    docstrings: tuple[str, ...]
    known: frozenset[str]
    """Names of classes it defines, names it imports, and names of attributes it reads."""
    classes: tuple[str, ...]
    """Names of its outermost classes."""
    constants: tuple[str, ...]
    """Names in capitals of its outermost assignments; one letter alone is a type variable."""


def paths() -> list[Path]:
    """The product's source files."""
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@cache
def sources() -> tuple[Source, ...]:
    """What stands in each of ``paths``."""
    return tuple(_read(path) for path in paths())


def _read(path: Path) -> Source:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts, docstrings, known = [], [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                texts.append(node.value)
        elif isinstance(node, ast.Attribute):
            known.add(node.attr)
        elif isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                docstrings.append(node.value.value)
        elif isinstance(node, ast.alias):
            known.add((node.asname or node.name).rpartition(".")[2])
        elif isinstance(node, ast.ClassDef):
            known.add(node.name)
    classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return Source(path, tuple(texts), tuple(docstrings), frozenset(known), classes, tuple(_constants(tree)))


def _constants(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and target.id.isupper() and len(target.id) > 1:
                    yield target.id
