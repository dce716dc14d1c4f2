"""YAML as plain data. What aliases repeat is counted as often as they do: a text of 300 bytes can stand for billions of values."""

from __future__ import annotations

import re
from typing import Any

import yaml

from workloads.file.opened import DEPTH

LONGEST_TEXT = 1 << 20
"""Characters of a text. A workload file has some thousand, a plan with all tables and phases that there can be 300,000."""
MOST_NODES = 600_000
"""Keys and values of a text, those that aliases repeat counted each time. A text of :data:`LONGEST_TEXT` without aliases has fewer."""

_NESTED = 1_000
_INDENTED = re.compile(rf"^[ ?:-]{{{_NESTED // 2}}}", re.MULTILINE)


class TooMuch(yaml.MarkedYAMLError):
    """A text that stands for too many values, or for values without end; ``problem`` says so in words of its own."""

    def __init__(self, problem: str, mark: yaml.Mark | None = None) -> None:
        super().__init__(None, None, problem, mark)


def value_of(text: str, *, words: bool = False) -> Any:
    """The only document of a text.

    Args:
        words: numbers, dates and the like stay words. To recognise them takes half the time.

    Raises:
        TooMuch: it is too long, too deep, or has too many aliases.
        yaml.YAMLError, ValueError: it is no YAML, or has a value that does not exist, such as a date of the 13th month.
    """
    _not_too_long(text)
    reader = _loader(text, words)(text)
    try:
        node = composed(reader)
        return None if node is None else reader.construct_document(node)
    except RecursionError:
        raise TooMuch("nested too deeply") from None
    finally:
        reader.dispose()


def _loader(text: str, words: bool) -> Any:
    """The loader in C, which is ten times as fast and not everywhere; or the other one: that in C ends the process at some thousand levels.

    A level needs a bracket, or one more sign at the beginning of a line, which may be that of two levels.
    """
    python: Any = yaml.BaseLoader if words else yaml.SafeLoader
    if text.count("[") + text.count("{") > _NESTED or _INDENTED.search(text):
        return python
    return getattr(yaml, f"C{python.__name__}", python)


def _not_too_long(text: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise TooMuch(f"longer than {LONGEST_TEXT:,} characters, the most that is read as YAML")


def reader_of(text: str, *, wordy: bool = False) -> Any:
    """A loader for :func:`composed`, which tells where a value is; the caller disposes of it.

    Args:
        wordy: it says what is wrong in the words of PyYAML, and where; the loader in C has words of its own.

    Raises:
        TooMuch: the text is too long.
        yaml.YAMLError: it has a character that YAML does not allow.
    """
    _not_too_long(text)
    return yaml.SafeLoader(text) if wordy else _loader(text, words=False)(text)


def composed(reader: Any) -> yaml.Node | None:
    """The only document that a loader reads; None if there is none.

    Raises:
        TooMuch: it is too deep, or has too many values.
        yaml.YAMLError: it is no YAML.
    """
    node: yaml.Node | None = reader.get_single_node()
    if node is not None:
        _size(node, 0, {})
    return node


def _size(node: yaml.Node, depth: int, known: dict[int, int | None]) -> int:
    """The number of values in a node; ``known``: of those that were counted, None while one is."""
    if depth > DEPTH:
        raise TooMuch(f"nested deeper than {DEPTH} levels", node.start_mark)
    if isinstance(node, yaml.ScalarNode):
        return 1
    size = known.get(id(node), 0)
    if size is None:
        raise TooMuch("an alias (*) stands for what it lies in, so the value has no end", node.start_mark)
    if size:
        return size
    known[id(node)] = None
    parts = (n for pair in node.value for n in pair) if isinstance(node, yaml.MappingNode) else iter(node.value)
    size = 1
    for part in parts:
        size += _size(part, depth + 1, known)
        if size > MOST_NODES:
            raise TooMuch(
                f"stands for more than {MOST_NODES:,} values, because aliases (*) repeat each other; write them out",
                part.start_mark,
            )
    known[id(node)] = size
    return size
