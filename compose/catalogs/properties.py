"""A YAML file of the user's with the properties by which Spark and PyIceberg reach something: a catalog, or the lake of all runs.

``${NAME}`` in a value is taken from the environment, so that the file holds no secret; ``$${`` is a plain ``${``. What looks like a secret, by
the name of its key, of its variable or of a parameter in its URL, is never shown.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError

from compose.redaction import Redaction, forms, is_secret, secrets_of
from workloads.file.meant import nearest
from workloads.file.yamlfile import FileError, KeyPath, Lines, Problem, read_text, refuse, validated

SUFFIXES = (".yaml", ".yml")

_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)(\}|\Z)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_file(name: str) -> bool:
    """Whether a word of the user's names a file of this kind, not something that icequake knows."""
    return name.endswith(SUFFIXES)


def unfilled(value: str) -> bool:
    """Whether a variable of the value is not set, which is told of it, and nothing more."""
    return "${" in value


def _text(value: object) -> object:
    """YAML's booleans and numbers as Java's properties write them."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Properties = dict[str, Annotated[str, BeforeValidator(_text)]]
Model = TypeVar("Model", bound=BaseModel)
Made = TypeVar("Made")


@dataclass(frozen=True)
class Source:
    """A file while it is read: where it is, and what is wrong with it.

    Attributes:
        secrets: words that must not be written to any file or shown, each → the key or the variable whose secret it is.
        problems: what is wrong, all of which is told together.
    """

    path: Path
    secrets: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, key: KeyPath, message: str) -> None:
        """Note a problem of a value."""
        self.problems.append((key, message))

    def check_keys(self, spark: Iterable[str], session: Iterable[str]) -> None:
        """Note each property of Spark's that stands under the wrong one of ``spark`` and ``session``."""
        for key in spark:
            if key.startswith("spark."):
                message = "give what follows spark.sql.catalog.<name>. here, other properties in session"
                self.wrong(("spark", key), f"{key}: {message}")
        for key in session:
            if not key.startswith("spark."):
                self.wrong(("session", key), f"{key}: Spark's properties begin with spark.")

    def jars(self, names: Iterable[str]) -> tuple[str, ...]:
        """The paths of the jars that the file names under ``jars``. One that is not there is noted."""
        found = [self.path.parent / jar for jar in names]
        for i, jar in enumerate(found):
            if not jar.is_file():
                self.wrong(("jars", i), f"jars: {jar} is not there; give paths from this file's folder")
        return tuple(str(jar.resolve()) for jar in found)


_OF_A_CATALOG = ("type", "uri", "catalog-impl", "warehouse")
"""Properties that people write on top of the file, as other tools have them; ``warehouse`` means something there, too, and comes last."""


def load(
    path: Path,
    model: type[Model],
    make: Callable[[Model, Source], Made],
    *,
    example: str,
    environment: Mapping[str, str] | None = None,
) -> Made:
    """Read and validate a file.

    Args:
        make: makes of its values what the caller wants, and notes what is wrong with them.
        example: where the user finds complete examples.
        environment: the variables that ``${NAME}`` is taken from; this process's when None.

    Raises:
        FileError: the file cannot be read, a key or value in it is wrong, or a variable is not set; each problem is a line, without secrets.
    """
    source = Source(path)
    known = os.environ if environment is None else environment

    def prepared(data: Any, lines: Lines) -> Any:
        own = next((key for key in _OF_A_CATALOG if key in data), None)
        if own is not None and "spark" in model.model_fields.keys() - data.keys():
            raise FileError(
                f"{path}:{lines[(own,)]}: {own} is a property of the catalog and belongs below spark: (did you mean "
                f"spark: {{type: rest, uri: …}}?); see {example}"
            )
        return _filled(data, (), source, known)

    def others(data: Any) -> list[Problem]:
        """What is wrong besides the keys and values that the model refuses: of the file without those, if it can be read so."""
        typed = _misspelled(model, data)
        if (rest := _without_errors(model, {typed.get(k, k): v for k, v in data.items()})) is not None:
            make(rest, source)
        as_typed: dict[Any, Any] = {right: wrong for wrong, right in typed.items()}
        return [((as_typed.get(path[0], path[0]), *path[1:]), text) for path, text in source.problems]

    try:
        file, lines = validated(model, read_text(path), str(path), example=example, prepare=prepared, look_up=others)
        made = make(file, source)
        refuse(source.problems, lines, str(path))
        return made
    except FileError as e:
        raise FileError(Redaction(source.secrets).text(str(e))) from None


def _misspelled(model: type[BaseModel], data: Mapping[str, Any]) -> dict[str, str]:
    """Key of the file that means nothing → the key that was probably meant, which is not there."""
    absent = [key for key in model.model_fields if key not in data]
    meant = {key: nearest(key, absent) for key in data if key not in model.model_fields}
    return {wrong: right for wrong, right in meant.items() if right is not None}


def _without_errors(model: type[Model], data: Any) -> Model | None:
    """The file without the keys and values that are wrong, and without what lacks a key; None if it cannot be one without them."""
    rest = copy.deepcopy(data)
    while True:
        try:
            return model.model_validate(rest)
        except ValidationError as e:
            paths = [error["loc"][:-1] if error["type"] == "missing" else error["loc"] for error in e.errors()]
        if not all(path and path[0] in rest for path in paths):
            return None
        for path in paths:
            _remove(rest, path)


def _remove(data: Any, path: KeyPath) -> None:
    """Remove the innermost mapping's entry on a path of plain data."""
    holder, key = None, None
    for step in path:
        if not isinstance(data, dict) or step not in data:
            break
        holder, key, data = data, step, data[step]
    if holder is not None:
        del holder[key]


def _filled(value: Any, key_path: KeyPath, source: Source, known: Mapping[str, str]) -> Any:
    """The value with its variables filled in; the secrets in it are added to those of the file. One that cannot be filled in is noted."""
    if isinstance(value, dict):
        return {k: _filled(v, (*key_path, k), source, known) for k, v in value.items()}
    if isinstance(value, list):
        return [_filled(v, (*key_path, i), source, known) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value
    key = next((step for step in reversed(key_path) if isinstance(step, str)), "")

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "${"
        if not match[2]:  # what stands behind the name may be secret
            begun = "".join(_NAME.findall(name)[:1])
            source.wrong(key_path, f"{key}: ${{{begun} is not closed; write ${{NAME}}, or $${{ for the text ${{ itself")
        elif not _NAME.fullmatch(name):
            source.wrong(key_path, f"{key}: ${{{name}}} is not the name of an environment variable")
        elif name not in known:
            source.wrong(key_path, f"{key}: the environment variable {name} is not set; export it")
        else:
            if is_secret(name, known[name]):
                source.secrets.update(forms(name, known[name]))
            return known[name]
        return match[0]

    whole = _VARIABLE.sub(fill, value)
    given = {
        part: secret for part, secret in secrets_of({key: whole}).items() if "${" not in part
    }  # the message on a variable names it
    source.secrets.update(given)
    return whole
