"""What docstrings and documents name exists: exceptions, dotted names, options of the commands."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from harness.cli.app import app
from tests.test_docs import DOCUMENTS, ROOT

PACKAGES = ("harness", "reports", "checkers", "compose", "workloads", "nemesis")
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
DOTTED = re.compile(rf"`+~?((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`+")
RAISED = re.compile(r"\bRaises ([A-Z]\w+(?:(?:,| or| and) [A-Z]\w+)*)[ .]")
RAISED_LINE = re.compile(r"^ *([A-Z]\w+(?:, [A-Z]\w+)*): ", re.MULTILINE)
EXAMPLES = {"checkers.my_checker"}
"""Files that a reader of docs/extending.md is told to write."""
THEIRS = {"Py4JJavaError"}
"""Exceptions of libraries that pass through code which does not name them."""


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def _classes() -> set[str]:
    """Names of all exceptions that the code defines, imports or has without importing."""
    found = {name for name, value in vars(builtins).items() if isinstance(value, type)}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.alias):
                found.add((node.asname or node.name).rpartition(".")[2])
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
    return found


def _raised(docstring: str) -> Iterator[str]:
    for match in RAISED.finditer(docstring):
        yield from re.findall(r"[A-Z]\w+", match[1])
    _, _, section = docstring.partition("Raises:\n")
    for match in RAISED_LINE.finditer(section.partition("\n\n")[0]):
        yield from match[1].split(", ")


def _exists(name: str) -> bool:
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            there = find_spec(".".join(parts[:n])) is not None
        except ModuleNotFoundError:
            continue
        if there:
            thing: object = import_module(".".join(parts[:n]))
            for part in parts[n:]:
                fields = getattr(thing, "__annotations__", {})
                if not hasattr(thing, part):
                    return part in fields
                thing = getattr(thing, part)
            return True
    return False


def test_every_exception_that_a_docstring_names_exists() -> None:
    known = _classes() | THEIRS
    gone = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for docstring in _docstrings(ast.parse(path.read_text(encoding="utf-8")))
        for name in _raised(docstring)
        if name not in known
    ]
    assert gone == []


def test_every_dotted_name_in_docstrings_and_documents_exists() -> None:
    named = {
        (str(path.relative_to(ROOT)), match[1])
        for path in (*MODULES, *DOCUMENTS)
        for match in DOTTED.finditer(path.read_text(encoding="utf-8"))
        if path.name != "CHANGELOG.md" and match[1] not in EXAMPLES and not match[1].endswith((".py", ".yaml"))
    }
    assert len(named) > 20
    assert sorted(f"{file}: {name}" for file, name in named if not _exists(name)) == []


COMMANDS = typer.main.get_command(app)


@pytest.mark.parametrize("name", sorted(COMMANDS.commands))  # type: ignore[attr-defined]
def test_every_command_and_option_is_in_the_documents(name: str) -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    options = {
        option
        for parameter in COMMANDS.commands[name].params  # type: ignore[attr-defined]
        for option in parameter.opts
        if option.startswith("--") and option != "--help"
    }
    assert re.search(rf"`{name}\b", text), f"docs/commands.md does not name the command {name}"
    assert sorted(o for o in options if not re.search(rf"(?<![\w-]){o}(?![\w-])", text)) == []


REGISTERED = {
    "FILE": "the file that the module writes",
    "FORM": "the form of the module's journal",
    "FORMAT": "the version of the module's file format",
    "LIBRARY": "the folder of the module's files that come with icequake",
    "PLANTS": "the bugs of one file, which checkers.selftest collects",
    "REQUIREMENT": "the requirement of one file, which harness.certify collects",
}
"""Constants that mean the same thing in each file that has one."""


@cache
def _defined() -> tuple[tuple[str, str, str], ...]:
    """Sort, name and file of each public class and constant of the product."""
    return tuple(found for path in MODULES for found in _defined_in(path))


def _defined_in(path: Path) -> Iterator[tuple[str, str, str]]:
    file = path.relative_to(ROOT).as_posix()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield "class", node.name, file
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and target.id.isupper() and len(target.id) > 1:  # no type variables
                    yield "constant", target.id, file


def _places(sort: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for s, name, file in _defined():
        if s == sort and not name.startswith("_"):
            found.setdefault(name, set()).add(file)
    return found


def test_a_class_name_means_one_thing() -> None:
    assert {name: files for name, files in _places("class").items() if len(files) > 1} == {}


def test_a_constant_name_is_in_at_most_two_files() -> None:
    assert {n: files for n, files in _places("constant").items() if len(files) > 2 and n not in REGISTERED} == {}


def test_the_glossary_s_words_are_where_it_says() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z ]+) \| (.+) \| \[`(\w+)`\]\(\.\./([\w/]+\.py)\) \|$", text, re.MULTILINE)
    assert len(rows) >= 40 and len(rows) == text.count("](../")
    defined = set(_defined())
    assert [word for word, _, name, file in rows if ("class", name, file) not in defined] == []
