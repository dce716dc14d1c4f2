"""The example files of ``docs/extending.md``: the tests run what the page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workloads.operations import kinds

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
PLACES = {"my_experiment.py": "harness/experiments", "my_command.py": "harness/cli"}
"""Where the page tells to save what another example imports."""
_BLOCK = re.compile(r"^```\w+\n# (?P<name>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def example(name: str) -> str:
    """The text of the block whose first line is ``# name``.

    Raises:
        LookupError: the page has no such block, or several.
    """
    found = [m["text"] for m in _BLOCK.finditer(PAGE.read_text(encoding="utf-8")) if m["name"] == name]
    if len(found) != 1:
        raise LookupError(f"{PAGE.name}: {len(found)} blocks begin with `# {name}`; there must be one")
    return found[0]


def examples() -> tuple[str, ...]:
    """The names of all files that the page shows."""
    return tuple(m["name"] for m in _BLOCK.finditer(PAGE.read_text(encoding="utf-8")))


def write_example(name: str, folder: Path) -> Path:
    """Write the file of that name into ``folder``; its path."""
    path = folder / name
    path.write_text(example(name), encoding="utf-8")
    return path


def write_in_place(name: str, folder: Path) -> Path:
    """Write the file of that name where the page tells to save it, in a checkout that is ``folder``; its path."""
    place = folder / PLACES.get(name, "")
    place.mkdir(parents=True, exist_ok=True)
    for package in (p for p in (place, *place.parents) if p.is_relative_to(folder) and p != folder):
        (package / "__init__.py").touch()
    return write_example(name, place)


@contextmanager
def kinds_of_its_own() -> Iterator[None]:
    """Kinds of operations that are registered inside are gone after."""
    before = dict(kinds._KINDS)
    try:
        yield
    finally:
        kinds._KINDS.clear()
        kinds._KINDS.update(before)
