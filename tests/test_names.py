"""What docstrings and documents name exists: exceptions, dotted names, options of the commands."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

import pytest
import typer

from harness.cli.app import app
from tests.support.sources import PACKAGES, paths, sources
from tests.test_docs import DOCUMENTS, ROOT

DOTTED = re.compile(rf"`+~?((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`+")
RAISED = re.compile(r"\bRaises ([A-Z]\w+(?:(?:,| or| and) [A-Z]\w+)*)[ .]")
RAISED_LINE = re.compile(r"^ *([A-Z]\w+(?:, [A-Z]\w+)*): ", re.MULTILINE)
EXAMPLES = {"checkers.my_checker"}
"""Files that a reader of docs/extending.md is told to write."""
THEIRS = {"Py4JJavaError"}
"""Exceptions of libraries that pass through code which does not name them."""


def _classes() -> set[str]:
    """Names of all exceptions that the code defines, imports or has without importing."""
    return {name for name, value in vars(builtins).items() if isinstance(value, type)}.union(
        *(source.known for source in sources())
    )


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
        f"{source.path.relative_to(ROOT)}: {name}"
        for source in sources()
        for docstring in source.docstrings
        for name in _raised(docstring)
        if name not in known
    ]
    assert gone == []


def test_every_dotted_name_in_docstrings_and_documents_exists() -> None:
    named = {
        (str(path.relative_to(ROOT)), match[1])
        for path in (*paths(), *DOCUMENTS)
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


def _defined() -> Iterator[tuple[str, str, str]]:
    """Sort, name and file of each public class and constant of the product."""
    for source in sources():
        file = source.path.relative_to(ROOT).as_posix()
        yield from (("class", name, file) for name in source.classes)
        yield from (("constant", name, file) for name in source.constants)


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
