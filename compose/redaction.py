"""Keeps secrets out of files and messages."""

from __future__ import annotations

import base64
import binascii
import contextlib
import html
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from workloads.file.yamlfile import HIDDEN

SECRET_NAMES = (
    r"secret|passw|passphrase|token|credential|private|authorization|cookie|api[-_.]?key|access[.]?key"
    r"|(^|[._-])(pw|pwd|key|sig|signature)$"
)
"""Names of properties, variables and URL parameters whose value is a secret; case is ignored, in Python and in Java."""

SHORTEST_SEARCHED = 8
"""Characters. A shorter secret occurs in too many other words: it is hidden only where it stands alone, or behind its key."""

_SECRET_NAME = re.compile(SECRET_NAMES, re.IGNORECASE)
_SWITCHES = ("true", "false")

# --- what is a secret by the text around it ---------------------------------------------------------------------------
# In each pattern the last group that matches is the secret.

_WORDS = "secret|passw|passphrase|token|credential|(?:api|account|private|sharedaccess)[-_.]?key"
_KEY = rf"(?i:{_WORDS})[\w.-]{{0,40}}"
"""Inside a text, ``key=`` may mean anything; after one of these words it is a secret."""
_NO_SWITCH = r"(?!(?i:true|false|null|none)\b)"
_PLAIN = rf"{HIDDEN}|[^\s&;\"']+"
_QUOTED = r"(\\*[\"'])((?:(?!\1)[^\n]){1,4000})\1"
_BEFORE_PASSWORD = r"(?<=://)(?![A-Za-z]:[\\/])[^/\s:@?#\"'<>\[]*:"
_PORT = r"(?!\d{1,5}(?:[/?#;,\"'\s]|$))"
_AT = r"(?:[^\s\"'<>]{1,1000}(?=@)|\S{1,1000}(?=@))"
_STRUCTURES = tuple(
    re.compile(pattern)
    for pattern in (
        # addresses
        rf"{_BEFORE_PASSWORD}{_PORT}({_AT})",
        r"(?i:jdbc:oracle:\w+:)[^/\s@]*/([^\s@]+)(?=@)",
        # key=value, "key": "value", key = 'value', key={value}
        rf"(?i:{_WORDS}|authorization)[\w.-]{{0,40}}"
        rf"(?:(?:\\*[\"']\s{{0,3}}:|\s{{0,3}}=)\s{{0,3}}{_QUOTED}|(?<!(?i:authorization))={_NO_SWITCH}(?:\{{([^{{}}\n]+)\}}|\\*[\"']?({_PLAIN})))",
        rf"[?&;][\w.-]{{0,40}}(?i:private|authorization|key|pwd?|sig|signature)={_NO_SWITCH}({_PLAIN})",
        r"(?<![A-Za-z0-9])(?i:sig|signature)=([\w%+/=-]{16,})",
        # SQL
        r"(?i:\b(?:password|identified\s+by)\s+(?:to\s+)?)'((?:[^'\n]|'')+)'",
        # headers of requests; a prose "Basic authentication" has neither capital nor digit in its second word
        r"(?i:\bx-[\w-]{0,60}?(?:token|secret|key|password|signature|credential)[\w-]{0,20})\\*[\"']?\s{0,3}[:=][\s\[\"'\\]{0,5}([^\s\"'\],;&]+)",
        r"(?i:authorization\\*[\"']?\s{0,3}[:=][\s\[\"'\\]{0,5}[a-z][\w-]*\s+)(?=[^\s\"']*[0-9A-Z+/=._~])([^\s\"'\],;\\]+)",
        r"\b(?i:bearer)\s+(?=[^\s\d]*\d)([\w.~+/-]{16,}=*)",
        r"\b(?i:basic)\s+(?=[A-Za-z+/]*[0-9=])([A-Za-z0-9+/]{8,}={0,2})(?![\w+/])",
        # JSON web tokens and private keys, wherever they stand
        r"\b(eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]*)?)",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----([A-Za-z0-9+/=\s\\]+)",
    )
)
_ANY_PASSWORD = re.compile(rf"{_BEFORE_PASSWORD}({_AT})")
"""In the value of a property also what may be a port and a path: it is searched for, as each secret is."""


def is_secret(name: str, value: str = "") -> bool:
    """Whether the value of a property with this name is a secret; a switch (``token-refresh-enabled: true``) is not."""
    return value.lower() not in _SWITCHES and _SECRET_NAME.search(name) is not None


def secrets_in(text: str) -> set[str]:
    """The passwords, tokens and signatures in ``text``, a property's value, as written and decoded."""
    found = {m[m.lastindex or 0] for structure in (*_STRUCTURES, _ANY_PASSWORD) for m in structure.finditer(text)}
    return found | {unquote(secret) for secret in found}


def forms(name: str, secret: str) -> dict[str, str]:
    """What to search for when the property ``name`` has a secret: the whole, the second half of ``id:secret``, and what follows ``Basic``.

    Returns:
        Each of them → ``name``. How they are encoded in a text is of no concern: ``Redaction`` finds that.
    """
    found = {secret}
    scheme, _, rest = secret.partition(" ")
    if scheme.lower() in ("basic", "bearer", "token"):
        found.add(rest)
        if scheme.lower() == "basic":
            with contextlib.suppress(binascii.Error, UnicodeDecodeError):
                found.add(base64.b64decode(rest, validate=True).decode())
    halves = {word.partition(":")[2] for word in found}
    found |= {half for half in halves if len(half) >= SHORTEST_SEARCHED or "credential" in name.lower()}
    return {word: name for word in found if word}


def secrets_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The secrets in ``properties``, each → the name of its property: the values of secret names, and the passwords in other values."""
    found: dict[str, str] = {}
    for name, value in properties.items():
        for secret in (value,) if is_secret(name, value) else secrets_in(value):
            found |= forms(name, secret)
    return found


def too_short(secrets: Mapping[str, str]) -> str | None:
    """A sentence for the user that names whose secrets (``forms``) are too short to be searched for; None if none is."""
    names = sorted({name for secret, name in secrets.items() if len(secret) < SHORTEST_SEARCHED})
    if not names:
        return None
    return (
        f"{', '.join(names)}: a secret with fewer than {SHORTEST_SEARCHED} characters is too short to be searched for; "
        "it is hidden only where it stands alone or behind its key; use a longer one"
    )


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties for a file that anybody may read: every name is there, each secret is ``‹hidden›``."""
    return {k: HIDDEN if is_secret(k, v) else Redaction(secrets_in(v)).text(v) for k, v in properties.items()}


class SecretsLeft(RuntimeError):
    """Files that may hold a secret, because they could be neither cleaned nor removed; the message is one line with the remedy.

    Attributes:
        files: their paths, and those of folders that could not be read.
    """

    def __init__(self, problems: Sequence[OSError]) -> None:
        self.files = tuple(Path(str(e.filename)) for e in problems)
        files = ", ".join(f"{e.filename} ({e.strerror})" for e in problems)
        super().__init__(f"may hold a secret, and could be neither cleaned nor removed: {files}; remove it yourself")


class Redaction:
    """Replaces secrets by ``‹hidden›``: the known ones, and what is one by the text around it, such as a password in a URL.

    A known secret is found in every usual encoding: of URLs, JSON, HTML, SQL and base64, whole or in part. One with fewer than
    ``SHORTEST_SEARCHED`` characters is found only where it is no part of a longer word, or behind a key.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        known = sorted({s for s in secrets if s}, key=len, reverse=True)
        self._known = tuple(re.compile(pattern) for secret in known for pattern in _patterns(secret))

    def text(self, text: str) -> str:
        """The text without secrets."""
        return _replaced(text, self._found(text), lambda _: HIDDEN)

    def value(self, value: Any) -> Any:
        """A JSON value without secrets in its strings."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(v) for v in value]
        return {k: self.value(v) for k, v in value.items()} if isinstance(value, dict) else value

    def error(self, error: BaseException) -> None:
        """Take the secrets out of what an error says, and out of the errors that it came from, so that it may be shown and written."""
        seen: set[int] = set()
        cause: BaseException | None = error
        while cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            cause.args = tuple(map(self.value, cause.args))
            if hasattr(cause, "__notes__"):
                cause.__notes__ = self.value(cause.__notes__)
            for name in ("strerror", "filename", "filename2") if isinstance(cause, OSError) else ():
                if isinstance(text := getattr(cause, name), str):
                    setattr(cause, name, self.text(text))
            cause = cause.__cause__ or cause.__context__

    def folder(self, folder: Path) -> list[Path]:
        """Clean every file below ``folder``, such as the logs of a stack that is closed, of the known secrets and of what looks like one.

        Nothing is done without a known secret. Links are not followed. A file with a secret is replaced as a whole: it has its old or its new
        content at any moment. If that fails, as on a full disk, its secrets are overwritten where they stand, with as many asterisks, for
        which no disk needs room. If that fails, too, or if the file cannot be read, the file is removed.

        Returns:
            The files that could not be cleaned and are removed.

        Raises:
            SecretsLeft: some could not even be removed, or a folder could not be read. All others are clean or removed.
        """
        problems: list[OSError] = []
        removed: list[Path] = []
        for place, _, names in os.walk(folder, onerror=problems.append) if self._known else ():
            for path in sorted(Path(place) / name for name in names):
                try:
                    if not self._cleaned(path):
                        removed.append(path)
                except OSError as e:
                    problems.append(OSError(e.errno, e.strerror, str(path)))
        if unread := [e for e in problems if not isinstance(e, FileNotFoundError)]:
            raise SecretsLeft(unread)
        return removed

    def _cleaned(self, path: Path) -> bool:
        """Clean a file; False: it had to be removed. Raises OSError: it may hold a secret."""
        if not stat.S_ISREG(path.lstat().st_mode):
            return True
        try:
            # Every byte, also of what is no UTF-8, has a character and comes back from it.
            text = path.read_bytes().decode(errors="surrogateescape")
            if found := self._found(text):
                try:
                    _replace(path, _bytes(_replaced(text, found, lambda _: HIDDEN)))
                except OSError:
                    _overwrite(path, _bytes(_replaced(text, found, lambda secret: "*" * len(_bytes(secret)))))
        except (OSError, MemoryError):
            path.unlink()
            return False
        return True

    def _found(self, text: str) -> list[tuple[int, int]]:
        """Where the secrets in a text stand, in order."""
        return sorted(
            match.span(match.lastindex or 0)
            for patterns in (self._known, _STRUCTURES)
            for pattern in patterns
            for match in pattern.finditer(text)
        )


def _patterns(secret: str) -> Iterator[str]:
    """What finds a secret: a group, if there is one, is the secret."""
    word = "".join(map(_character, secret))
    if len(secret) < SHORTEST_SEARCHED:
        yield rf"(?<!\w){word}(?!\w)"
        yield rf"{_KEY}(?:%[0-9A-Fa-f]{{2}}|\\u00[0-9a-f]{{2}}|\\[nrt]|[^\w\n]){{1,8}}({word})(?!\w)"
        return
    yield word
    for before in range(3):  # base64 of ``id:secret`` depends on the length of ``id:`` modulo 3
        raw = bytes(before) + secret.encode(errors="surrogatepass")
        sure = base64.b64encode(raw).decode()[-(-before * 8 // 6) : len(raw) * 8 // 6]
        yield f"{''.join(map(_base64_character, sure))}[A-Za-z0-9+/_-]?={{0,2}}"


def _character(c: str) -> str:
    """A pattern for a character as it is written in texts, URLs, JSON (also within JSON), HTML and SQL."""
    if c.isascii() and c.isalnum():
        return c
    percent = "".join(f"%(?:25)*{_any_case(f'{byte:02X}')}" for byte in c.encode(errors="surrogatepass"))
    units = c.encode("utf-16-be", errors="surrogatepass").hex(" ", 2).upper().split()
    escaped = "".join(rf"\\{{1,8}}u{_any_case(unit)}" for unit in units)
    found = [html.escape(c)] if html.escape(c) != c else []
    if c in "\b\f\n\r\t":
        found.append(rf"\\{{1,8}}{json.dumps(c)[2:-1]}")
    found += [escaped, percent, rf"\\{{1,8}}{re.escape(c)}"]
    found += {"'": ["''"], " ": [r"\+"]}.get(c, [])
    return f"(?:{'|'.join((*found, re.escape(c)))})"


def _any_case(digits: str) -> str:
    return "".join(f"[{d}{d.lower()}]" if d.isalpha() else d for d in digits)


def _base64_character(c: str) -> str:
    return {"+": r"(?:[+-]|%2[Bb])", "/": r"(?:\\{0,8}/|_|%2[Ff])"}.get(c, c)


def _replaced(text: str, found: Sequence[tuple[int, int]], make: Callable[[str], str]) -> str:
    """The text with other words in place of what stands at ``found``, in order; what overlaps is one."""
    spans: list[tuple[int, int]] = []
    for start, end in found:
        if spans and start < spans[-1][1]:
            start, end = spans[-1][0], max(end, spans.pop()[1])
        spans.append((start, end))
    out, place = [], 0
    for start, end in spans:
        out += [text[place:start], make(text[start:end])]
        place = end
    return "".join((*out, text[place:]))


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


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
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def _overwrite(path: Path, content: bytes) -> None:
    """Write as many bytes as the file has over them."""
    with path.open("r+b", buffering=0) as file:
        done = 0
        while done < len(content):
            done += file.write(content[done:]) or 0
        os.fsync(file.fileno())
