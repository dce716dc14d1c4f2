"""What PyYAML and pydantic say of a file, in plain words: what is wrong, in which line, and what to write instead.

What is said of a file that is no YAML never quotes it: in such a file a secret cannot be told from other text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml
from pydantic_core import ErrorDetails

from workloads.file.meant import nearest
from workloads.file.plainyaml import TooMuch

TABS = "this line is indented with a tab; use spaces, not tabs"
NO_KEY = "this line has no key and value; write key: value, with a space after the colon"

_BARE_VARIABLE = re.compile(r"""[:,\[{]\s*[^\s"',\[{]*\$\{""")
"""A variable in a value without quotes: YAML takes its brace for that of a mapping."""
_CLOSES = {"sequence": ("[", "]"), "mapping": ("{", "}")}


def of_yaml(error: yaml.YAMLError, text: str) -> tuple[int | None, str]:
    """The line of an error of PyYAML, from 1 (None: it names none), and what is wrong there.

    Args:
        text: the whole file.
    """
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return line, f"a character that no text file should have (U+{_code(error.character):04X}); remove it"
    if isinstance(error, TooMuch):
        return None if error.problem_mark is None else error.problem_mark.line + 1, str(error.problem)
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return None, f"not YAML: {error}"
    line = error.problem_mark.line + 1
    began = line if error.context_mark is None else error.context_mark.line + 1
    lines = text.splitlines()
    return _placed(error, line, error.problem_mark.column, began, lines)


def _code(character: str | int) -> int:
    return character if isinstance(character, int) else ord(character)


_ALIAS = "a value that begins with * means another place of the file in YAML; put it in quotes"
_MESSAGES = (
    (
        "expected chomping or indentation indicators",
        "",
        '> and | begin a block of text in YAML; put the value in quotes, such as ">=200"',
    ),
    ("expected the node content", "", "a value is missing here, or a comma or bracket is too many"),
    ("found undefined alias", "", _ALIAS),
    ("", "while scanning an alias", _ALIAS),
    (
        "could not determine a constructor for the tag",
        "",
        "a value that begins with ! is not allowed; put it in quotes",
    ),
    ("but found another document", "", "a second document begins here (---); a file has only one"),
    (
        "found unknown escape character",
        "",
        "a backslash in double quotes must be written twice; or use single quotes",
    ),
    ("found unhashable key", "", "a key must be a word, not a list or a mapping"),
)
"""How PyYAML's problem and its context begin → what to say."""


def _placed(error: yaml.MarkedYAMLError, line: int, column: int, began: int, lines: list[str]) -> tuple[int, str]:
    problem, context = error.problem or "", error.context or ""
    here = lines[line - 1] if line <= len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())]:
        return line, TABS
    if match := re.match(r"expected ',' or '[\]}]'", problem):
        opening, closing = _CLOSES["sequence" if match[0].endswith("]'") else "mapping"]
        if _BARE_VARIABLE.search("\n".join(lines[began - 1 : line])):
            return line, f'a variable between {opening} and {closing} must be put in quotes: "${{NAME}}"'
        return (
            began,
            f"the {opening} of this line is not closed by {closing}, or a comma or quotes are missing before line {line}",
        )
    if problem == "found unexpected end of stream" and "quoted" in context:
        return began, "the quote that begins in this line is not closed"
    if problem == "could not find expected ':'" and context == "while scanning a simple key":
        return began, NO_KEY
    if problem == "mapping values are not allowed here" and ":" in here[:column].rstrip():
        return line, 'a value with ": " in it must be put in quotes'
    if problem.startswith("expected <block end>") and column > _indent(here):
        return line, _behind(here, column)
    if problem.startswith(
        ("mapping values are not allowed here", "expected <block end>", "expected '<document start>'")
    ):
        return _not_in_order(line, began, here, lines)
    if problem.startswith("found character"):
        return line, _strange(problem, here)
    for problem_begins, context_begins, message in _MESSAGES:
        if problem.startswith(problem_begins) and context.startswith(context_begins):
            return line, message
    if context.startswith("found duplicate anchor"):
        return line, f"the name {context.split()[3].rstrip(';')} after & is given twice; give each its own"
    return line, f"not YAML: {f'{context}: ' if context else ''}{problem}"


def _behind(here: str, column: int) -> str:
    """What stands behind a value that is complete."""
    if here[column] in "]}":
        return f"this line has one {here[column]} too many"
    if re.search(r"""['"]""", here[:column]):
        return "something stands behind the closing quote; quote the whole value, and double a quote inside it"
    return "something stands behind a complete value; put the whole value in quotes"


def _not_in_order(line: int, began: int, here: str, lines: list[str]) -> tuple[int, str]:
    """A line that does not fit the one before it: by its indentation, by its dash, or because that one has no key."""
    before = next(
        (n for n in range(line - 1, 0, -1) if lines[n - 1].strip() and not lines[n - 1].lstrip().startswith("#")), 0
    )
    above = lines[before - 1] if before else ""
    if before and _indent(here) != _indent(above):
        return line, (
            f"line {line} is indented differently from line {before}; "
            "give the keys of one mapping, and the entries of one list, the same indentation"
        )
    if before and here.lstrip().startswith("-") != above.lstrip().startswith("-"):
        return line, f"line {line} and line {before} must both be entries of a list (- …) or both keys of a mapping"
    if before and not re.search(r":(\s|$)", above):
        return before, NO_KEY
    return line, f"this does not continue what begins in line {began}; look for a missing key, quote or bracket"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _strange(problem: str, here: str) -> str:
    if "'\\t'" in problem:
        return "has a tab where a value should begin; use spaces, not tabs"
    sign = problem.split("'")[1] if "'" in problem else here.strip()[:1]
    return f'a value cannot begin with {sign} in YAML; put it in quotes, such as "{sign}…"'


def shown(value: Any) -> str:
    """A value as people write it in a file; a long one is cut."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


_TYPES = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "mapping_type": "must be a mapping",
    "none_required": "must have no value",
}
_LIMITS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"\^\[a-z\]\[a-z0-9-\]", "a name of a-z, 0-9 and -, beginning with a letter"),
    (r"\^\[a-z\]\[a-z0-9_\]", "a name of a-z, 0-9 and _, beginning with a letter"),
    (r"\^\[\+-\]", "a shift of the clock such as +1h or -30s"),
    (r"\^https", "an address that begins with https://"),
    (r"\^\\d\+\(", "a release such as 1.10.1, in quotes if it has one point"),
    (r"\^\[0-9A-Z\]\{5\}", 'five letters and digits, such as "40001"'),
)
"""The beginning of a pattern in the models → what it means."""


def of_value(error: ErrorDetails) -> str:
    """What is wrong with a value, and what is allowed."""
    kind, value = error["type"], error["input"]
    details: Mapping[str, Any] = error.get("ctx", {})
    if kind in _TYPES:
        return f"{_TYPES[kind]}, not {shown(value)}"
    if kind in _LIMITS:
        words, name = _LIMITS[kind]
        limit = details[name]
        return f"must be {words} {f'{limit:g}' if isinstance(limit, float) else limit}, not {shown(value)}"
    if kind == "string_type":
        if isinstance(value, int | float):
            return f'must be text, not {shown(value)}; write it in quotes: "{shown(value)}"'
        return f"must be text, not {shown(value)}"
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'|(\d+)", details["expected"])
        words_of = [a or b for a, b in allowed]
        near = nearest(value, words_of) if isinstance(value, str) else None
        meant = "" if near is None else f" (did you mean {near}?)"
        return f"{shown(value)} is not allowed{meant}; allowed: {', '.join(words_of)}"
    if kind == "string_pattern_mismatch":
        pattern = details["pattern"]
        meaning = next((words for start, words in _PATTERNS if re.match(start, pattern)), None)
        return f"{shown(value)} must be {meaning}" if meaning else f"{shown(value)} must match {pattern}"
    if kind in ("too_short", "string_too_short"):
        return (
            "is empty; give at least one"
            if details["min_length"] == 1
            else f"has too few: at least {details['min_length']}"
        )
    if kind in ("too_long", "string_too_long"):
        return f"has too many: at most {details['max_length']}"
    return f"{error['msg'][0].lower()}{error['msg'][1:]}, not {shown(value)}"
