"""Keeps secrets out of files and messages."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from workloads.file.yamlfile import HIDDEN

SECRET_NAMES = r"secret|passw|passphrase|token|credential|private|authorization|api[-_.]?key|access[.]?key|(^|[._-])(pw|pwd|key|sig|signature)$"
"""Names of properties, variables and URL parameters whose value is a secret; case is ignored, in Python and in Java."""

_SECRET_NAME = re.compile(SECRET_NAMES, re.IGNORECASE)
_SHORTEST_SECRET = 4
"""A shorter secret occurs in too many other words to be replaced everywhere."""
_SWITCHES = ("true", "false")
_IN_URL = r"(?<=://)([^/\s:@]*:)([^/\s]+)(?=@)"
_PARAMETER = (
    r"(?i)(\b[\w.-]{0,40}(?:secret|passw|passphrase|token|credential|api[-_.]?key)[\w.-]{0,40}=|"
    r"[?&;][\w.-]{0,40}(?:private|authorization|key|pwd?|sig|signature)=)([^\s&;\"']+)"
)
"""Inside a text, ``key=`` may mean anything; in a URL it is a secret."""
_STRUCTURES = (re.compile(_IN_URL), re.compile(_PARAMETER))
_BYTE_STRUCTURES = (re.compile(_IN_URL.encode()), re.compile(_PARAMETER.encode()))


def is_secret(name: str, value: str = "") -> bool:
    """Whether the value of a property with this name is a secret; a switch (``token-refresh-enabled: true``) is not."""
    return value.lower() not in _SWITCHES and _SECRET_NAME.search(name) is not None


def secrets_in(text: str) -> set[str]:
    """The passwords in URLs and parameters in ``text``, as written and decoded."""
    found = {match[2] for structure in _STRUCTURES for match in structure.finditer(text)}
    return found | {unquote(secret) for secret in found}


def forms(secret: str) -> set[str]:
    """The forms in which a secret may appear: alone, the second half of ``id:secret``, and URL-encoded."""
    halves = {secret, secret.partition(":")[2]}
    return {s for half in halves for s in (half, quote(half, safe="")) if len(s) >= _SHORTEST_SECRET}


def secrets_of(properties: Mapping[str, str]) -> set[str]:
    """The secrets in ``properties``: the values of secret names, and the passwords in other values."""
    found: set[str] = set()
    for name, value in properties.items():
        found |= {value} if is_secret(name, value) else secrets_in(value)
    return {form for secret in found for form in forms(secret)}


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties for a file that anybody may read: every name is there, each secret is ``‹hidden›``."""
    hide = Redaction(())
    return {k: HIDDEN if is_secret(k, v) else hide.text(v) for k, v in properties.items()}


class Redaction:
    """Replaces secrets by ``‹hidden›``: the known ones, and passwords in URLs and parameters."""

    def __init__(self, secrets: Iterable[str]) -> None:
        words = {form for s in secrets if s for form in (s, json.dumps(s)[1:-1])}
        known = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
        self._known = re.compile(known) if known else None
        self._bytes = re.compile(known.encode()) if known else None

    def text(self, text: str) -> str:
        """The text without secrets."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for structure in _STRUCTURES:
            text = structure.sub(rf"\1{HIDDEN}", text)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value without secrets in its strings."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(v) for v in value]
        return {k: self.value(v) for k, v in value.items()} if isinstance(value, dict) else value

    def folder(self, folder: Path) -> None:
        """Rewrite every file below ``folder`` that holds a known secret, such as a log of another program.

        Each file has its old or its new content at any moment, also after a crash. Raises OSError; then the new content of the failed file is
        removed, and the files before it stay redacted.
        """
        if self._bytes is None:
            return
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
            content = path.read_bytes()
            clean = self._bytes.sub(HIDDEN.encode(), content)
            for structure in _BYTE_STRUCTURES:
                clean = structure.sub(rb"\1" + HIDDEN.encode(), clean)
            if clean != content:
                _replace(path, clean)


def _replace(path: Path, content: bytes) -> None:
    """Replace the file ``path``, keeping its permissions: the new file is complete on disk before it gets the name."""
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("wb") as file:
            os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
