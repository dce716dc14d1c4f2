"""A YAML file of the user's with the properties by which Spark and PyIceberg reach something: a catalog, or the lake of all runs.

``${NAME}`` in a value is taken from the environment, so that the file holds no secret; ``$${`` is a plain ``${``. What looks like a secret, by
the name of its key, of its variable or of a parameter in its URL, is never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import BaseModel, BeforeValidator

from compose.redaction import Redaction, forms, is_secret, secrets_of
from workloads.file.yamlfile import FileError, KeyPath, line_of, read_text, validated

SUFFIXES = (".yaml", ".yml")

_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_file(name: str) -> bool:
    """Whether a word of the user's names a file of this kind, not something that icequake knows."""
    return name.endswith(SUFFIXES)


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
    """Where a file's values stand.

    Attributes:
        secrets: words that must not be written to any file or shown, each → the key or the variable whose secret it is.
    """

    path: Path
    lines: Mapping[KeyPath, int]
    secrets: Mapping[str, str]

    def fail(self, at: KeyPath, message: str) -> NoReturn:
        """Raises FileError with the file and the line of a value."""
        raise FileError(f"{self.path}:{line_of(at, self.lines)}: {message}")

    def check_keys(self, spark: Iterable[str], session: Iterable[str]) -> None:
        """Raises FileError for a property of Spark's that stands under the wrong one of ``spark`` and ``session``."""
        for key in spark:
            if key.startswith("spark."):
                message = "give what follows spark.sql.catalog.<name>. here, other properties in session"
                self.fail(("spark", key), f"{key}: {message}")
        for key in session:
            if not key.startswith("spark."):
                self.fail(("session", key), f"{key}: Spark's properties begin with spark.")

    def jars(self, names: Iterable[str]) -> tuple[str, ...]:
        """The paths of the jars that the file names under ``jars``. Raises FileError for one that is not there."""
        out = []
        for i, jar in enumerate(names):
            found = self.path.parent / jar
            if not found.is_file():
                self.fail(("jars", i), f"jars: {found} is not there; give paths from this file's folder")
            out.append(str(found.resolve()))
        return tuple(out)


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
        make: makes of its values what the caller wants; errors that it raises are shown without secrets.
        example: where the user finds complete examples.
        environment: the variables that ``${NAME}`` is taken from; this process's when None.

    Raises:
        FileError: the file cannot be read, a key or value in it is wrong, or a variable is not set.
    """
    secrets: dict[str, str] = {}
    known = os.environ if environment is None else environment

    def prepared(data: Any, lines: Mapping[KeyPath, int]) -> Any:
        return _filled(data, (), lines, str(path), known, secrets)

    try:
        file, lines = validated(model, read_text(path), str(path), example=example, prepare=prepared)
        return make(file, Source(path, lines, secrets))
    except FileError as e:
        raise FileError(Redaction(secrets).text(str(e))) from None


def _filled(
    value: Any, at: KeyPath, lines: Mapping[KeyPath, int], file: str, known: Mapping[str, str], secrets: dict[str, str]
) -> Any:
    """The value with its variables filled in; the secrets in it are added to ``secrets``."""
    if isinstance(value, dict):
        return {k: _filled(v, (*at, k), lines, file, known, secrets) for k, v in value.items()}
    if isinstance(value, list):
        return [_filled(v, (*at, i), lines, file, known, secrets) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value
    key = next((step for step in reversed(at) if isinstance(step, str)), "")

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "${"
        if not _NAME.fullmatch(name):
            raise FileError(
                f"{file}:{line_of(at, lines)}: {key}: ${{{name}}} is not the name of an environment variable"
            )
        if name not in known:
            raise FileError(
                f"{file}:{line_of(at, lines)}: {key}: the environment variable {name} is not set; export {name}=…"
            )
        if is_secret(name, known[name]):
            secrets.update(forms(name, known[name]))
        return known[name]

    whole = _VARIABLE.sub(fill, value)
    secrets.update(secrets_of({key: whole}))
    return whole
