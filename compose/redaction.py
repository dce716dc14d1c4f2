"""Keeping secrets out of what is written down."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HIDDEN = "‹hidden›"
_IN_URL = re.compile(r"(?<=://)([^/\s:@]+):([^/\s@]+)(?=@)")
_PARAMETER = re.compile(r"(?i)\b(password|passwd|secret|token)=([^\s&;\"']+)")


class Redaction:
    """Replaces secrets by ``‹hidden›``: the ones that are known, and what a URL or a parameter calls a password."""

    def __init__(self, secrets: Iterable[str]) -> None:
        words = {form for s in secrets if s for form in (s, json.dumps(s)[1:-1])}
        known = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
        self._known = re.compile(known) if known else None
        self._bytes = re.compile(known.encode()) if known else None

    def text(self, text: str) -> str:
        """The text without secrets."""
        if self._known is None:
            return text
        text = self._known.sub(HIDDEN, text)
        return _PARAMETER.sub(rf"\1={HIDDEN}", _IN_URL.sub(rf"\1:{HIDDEN}", text))

    def value(self, value: Any) -> Any:
        """A JSON value without secrets in its strings."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(v) for v in value]
        return {k: self.value(v) for k, v in value.items()} if isinstance(value, dict) else value

    def folder(self, folder: Path) -> None:
        """Rewrite every file below ``folder`` that holds a known secret, such as a log of a program that is not ours. Raises OSError."""
        if self._bytes is None:
            return
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
            content = path.read_bytes()
            clean = self._bytes.sub(HIDDEN.encode(), content)
            if clean != content:
                new = path.with_name(f".{path.name}.new")
                new.write_bytes(clean)
                os.replace(new, path)
