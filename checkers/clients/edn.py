"""EDN, the data notation of Clojure programs (https://github.com/edn-format/edn): a reader and a writer.

Jepsen's histories are EDN. The reader covers the whole specification, and what Clojure's ``prn`` writes beyond it: ratios (``1/3``), the
floats ``##Inf``, ``##-Inf`` and ``##NaN``, records (``#jepsen.history.Op{…}``), maps with a namespace (``#:a{:b 1}``), hexadecimal
numbers, and metadata (``^{…} x``, which is dropped). It never evaluates what it reads.

===================== ==============================================================
EDN                   here
===================== ==============================================================
``nil true false``    ``None``, ``True``, ``False``
``1 1N 0x1F``         ``int``
``1.5 1e3``, ``1.5M`` ``float``; ``decimal.Decimal``
``1/3``               ``fractions.Fraction``
``"a"``, ``\\a``        ``str``; :class:`Char`
``:a``, ``a``         :class:`Keyword`, :class:`Symbol`
``[1 2]``, ``(1 2)``  ``tuple``; :class:`List`
``{:a 1}``, ``#{1}``  :class:`Map`, :class:`Set`: in the order of the text
``#inst "…"``         :class:`Tagged`
===================== ==============================================================

All values are immutable and hashable. ``1``, ``1.0`` and ``true`` are different in EDN and equal in Python, which is why maps and sets
are not ``dict`` and ``set``.

The input may be anything: a torn file, a hundred thousand brackets, a number of a million digits. The reader keeps its own stack, accepts
:data:`MAX_DEPTH` levels and numbers of :data:`MAX_DIGITS` digits; every defect is an :class:`EdnError` that names file, line and column,
what was expected and what was found.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

MAX_DEPTH = 128
"""Collections, tags and discards that may be open at once."""
MAX_DIGITS = 1000
"""The most characters of a number."""

Value = Any
"""Any value of the table above."""


class EdnError(ValueError):
    """Not EDN, or not a value that EDN can express; the message names file, line, column and the problem."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """``:name``, or ``:namespace/name``; without the colon."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """``name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Char:
    """One character."""

    value: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """``#tag value``."""

    tag: str
    value: Value


@dataclass(frozen=True, slots=True)
class List:
    """``(…)``."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Set:
    """``#{…}``, in the order of the text."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """``{…}``, in the order of the text. ``offset``: its offset in the text, in characters."""

    entries: tuple[tuple[Value, Value], ...]
    offset: int = field(default=0, compare=False)

    def named(self) -> dict[str, Value]:
        """The entries whose keys are keywords or strings, by name."""
        return {k.name if isinstance(k, Keyword) else k: v for k, v in self.entries if isinstance(k, Keyword | str)}


# --- reading ----------------------------------------------------------------------------------------------------------

_SPACE = re.compile(r"(?:[\s,]++|;[^\n]*+)*+")
_STRING = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "\\": "\\"}
_CHAR = re.compile(r"\\(newline|space|tab|return|formfeed|backspace|u[0-9a-fA-F]{4}|o[0-7]{1,3}|.)", re.DOTALL)
_CHARS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r", "formfeed": "\f", "backspace": "\b"}
_CHAR_NAMES = {v: k for k, v in _CHARS.items()}
_TOKEN = re.compile(r'[^\s,"()\[\]{};\\^@`~]+')
_INTEGERS = re.compile(r"\[([\s,]*+(?:(?:0|-?[1-9][0-9]{0,17})(?:[\s,]++|(?=\])))*+)\]")
_NUMBER = re.compile(r"[+-]?\d")
_INT = re.compile(r"([+-]?(?:0|[1-9]\d*))N?\Z")
_HEX = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]+)N?\Z")
_RATIO = re.compile(r"([+-]?\d+)/(\d+)\Z")
_FLOAT = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,6})?)(M?)\Z")
_NAME = re.compile(r"[^\s,\"()\[\]{};\\^@`~:#\d'/][^\s,\"()\[\]{};\\^@`~]*\Z|/\Z")
_KEYWORD = re.compile(r"[^\s,\"()\[\]{};\\^@`~:/][^\s,\"()\[\]{};\\^@`~]*\Z")
_CLOSERS = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_WORDS: Mapping[str, Value] = {"nil": None, "true": True, "false": False}
_FLOATS = {"Inf": math.inf, "-Inf": -math.inf, "NaN": math.nan}


@dataclass(slots=True)
class _Open:
    """An open form: a collection, or a prefix that waits for its form."""

    kind: str
    offset: int
    tag: str = ""
    items: list[tuple[int, Value]] = field(default_factory=list)


class Reader:
    """Reads one text, form by form.

    Attributes:
        end: the offset behind the last form that :meth:`forms` yielded.
    """

    def __init__(self, text: str, file: str = "<edn>") -> None:
        self.end = 0
        self._text = text
        self._file = file
        self._lines: list[int] | None = None
        self._stack: list[_Open] = []
        self._known: dict[str, Keyword] = {}

    def fail(self, offset: int, message: str) -> EdnError:
        """An error at an offset in the text."""
        if self._lines is None:
            self._lines = [0, *(m.end() for m in re.finditer("\n", self._text))]
        line = bisect_right(self._lines, offset)
        return EdnError(f"{self._file}:{line}:{offset - self._lines[line - 1] + 1}: {message}")

    def forms(self, offset: int = 0) -> Iterator[tuple[int, Value]]:
        """Every top-level form from an offset on, with its own.

        Raises:
            EdnError: raised when the reader reaches the defect.
        """
        text, end = self._text, len(self._text)
        self._stack = []
        while True:
            offset = self.space(offset)
            if offset >= end:
                break
            c = text[offset]
            if c in ")]}":
                start, value = self._close(offset, c)
                offset += 1
            elif c == "[" and (plain := _INTEGERS.match(text, offset)) is not None and len(self._stack) < MAX_DEPTH:
                start, offset = offset, plain.end()  # most forms in a history of lists
                value = tuple(map(int, plain[1].replace(",", " ").split()))
            elif c in "([{" or text.startswith("#{", offset):
                kind = c if c != "#" else "#{"
                self._open(_Open(kind, offset))
                offset += len(kind)
                continue
            elif c == "^":
                self._open(_Open("^", offset))
                offset += 1
                continue
            elif c == "#" and (prefix := self._prefix(offset)) is not None:
                self._open(prefix[0])
                offset = prefix[1]
                continue
            else:
                start = offset
                value, offset = self._atom(offset)
            if self._stack and (top := self._stack[-1]).kind in _CLOSERS:
                top.items.append((start, value))
            else:
                self.end = offset
                yield from self._done(start, value)
        if self._stack:
            unfinished = self._stack[-1]
            raise self.fail(unfinished.offset, f"{_begun(unfinished)} is never finished: the text ends first")

    def space(self, offset: int) -> int:
        """The offset behind space and comments."""
        match = _SPACE.match(self._text, offset)
        return match.end() if match is not None else offset

    def _open(self, what: _Open) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise self.fail(what.offset, f"nested more than {MAX_DEPTH} deep")
        self._stack.append(what)

    def _prefix(self, offset: int) -> tuple[_Open, int] | None:
        """``#_``, ``#:name{`` and ``#tag``; None for ``##Inf``. ``#{`` is handled elsewhere."""
        text = self._text
        if text.startswith("##", offset):
            return None
        if text.startswith("#_", offset):
            return _Open("#_", offset), offset + 2
        token = _TOKEN.match(text, offset + 1)
        name = token[0] if token is not None else ""
        end = offset + 1 + len(name)
        if name.startswith(":") and _KEYWORD.match(name[1:]) and text.startswith("{", end):
            return _Open("{", offset, name[1:]), end + 1
        if not _NAME.match(name):
            found = text[offset : end + 1]
            raise self.fail(offset, f"expected a tag, #{{, #_ or ## after #, found {_shown(found)}")
        return _Open("#", offset, name), end

    def _done(self, offset: int, value: Value) -> Iterator[tuple[int, Value]]:
        """A form is complete: pass it to what waits for it; yield it if nothing does."""
        while self._stack:
            top = self._stack[-1]
            if top.kind in _CLOSERS:
                top.items.append((offset, value))
                return
            if top.kind == "^" and not top.items:
                top.items.append((offset, value))  # the metadata itself: the form it describes comes next
                return
            self._stack.pop()
            if top.kind == "#_":
                return
            if top.kind == "#":
                offset, value = top.offset, Tagged(top.tag, value)
        yield offset, value

    def _close(self, offset: int, c: str) -> tuple[int, Value]:
        if not self._stack:
            raise self.fail(offset, f"{c} closes nothing")
        top = self._stack[-1]
        if top.kind not in _CLOSERS:
            raise self.fail(offset, f"expected a form after {_begun(top)}, found {c}")
        if _CLOSERS[top.kind] != c:
            raise self.fail(offset, f"expected {_CLOSERS[top.kind]} to close {_begun(top)}, found {c}")
        self._stack.pop()
        items = top.items
        if top.kind == "[":
            return top.offset, tuple(v for _, v in items)
        if top.kind == "(":
            return top.offset, List(tuple(v for _, v in items))
        if top.kind == "#{":
            self._distinct(items, "element")
            return top.offset, Set(tuple(v for _, v in items))
        if len(items) % 2:
            raise self.fail(items[-1][0], "a key without a value: a map has an even number of forms")
        keys = [(a, _qualified(k, top.tag)) for a, k in items[::2]]
        self._distinct(keys, "key")
        return top.offset, Map(tuple((k, v) for (_, k), (_, v) in zip(keys, items[1::2], strict=True)), top.offset)

    def _distinct(self, items: list[tuple[int, Value]], what: str) -> None:
        seen: set[Value] = set()
        for offset, value in items:
            key = value if isinstance(value, Keyword | Symbol | str) else (type(value), write(value))
            if key in seen:
                raise self.fail(offset, f"{what} {_shown(write(value))} is there twice")
            seen.add(key)

    # --- atoms

    def _atom(self, offset: int) -> tuple[Value, int]:
        text = self._text
        c = text[offset]
        if c == '"':
            return self._string(offset)
        if c == "\\":
            return self._char(offset)
        token = _TOKEN.match(text, offset)
        if token is None:
            raise self.fail(offset, f"expected a form, found {_shown(c)}")
        word, end = token[0], token.end()
        if word in self._known:
            return self._known[word], end
        if word in _WORDS:
            return _WORDS[word], end
        if word.startswith("##"):
            if word[2:] not in _FLOATS:
                raise self.fail(offset, f"expected ##Inf, ##-Inf or ##NaN, found {_shown(word)}")
            return _FLOATS[word[2:]], end
        if word.startswith(":"):
            if not _KEYWORD.match(word[1:]):
                raise self.fail(offset, f"expected a keyword such as :name, found {_shown(word)}")
            self._known[word] = Keyword(word[1:])
            return self._known[word], end
        if _NUMBER.match(word):
            return self._number(offset, word), end
        if not _NAME.match(word):
            raise self.fail(offset, f"expected a form, found {_shown(word)}")
        return Symbol(word), end

    def _number(self, offset: int, word: str) -> Value:
        if len(word) > MAX_DIGITS:
            raise self.fail(offset, f"a number of {len(word)} characters; at most {MAX_DIGITS} are read")
        if (match := _INT.match(word)) is not None:
            return int(match[1])
        if (match := _HEX.match(word)) is not None:
            return int(match[1] + match[2], 16)
        if (match := _RATIO.match(word)) is not None:
            if not int(match[2]):
                raise self.fail(offset, f"{_shown(word)} divides by zero")
            return Fraction(int(match[1]), int(match[2]))
        match = _FLOAT.match(word)
        if match is None or (word.lstrip("+-").isdigit() and word.lstrip("+-").startswith("0")):
            raise self.fail(offset, f"expected a number such as 1, -2.5, 1e3 or 1/3, found {_shown(word)}")
        if match[2]:
            try:
                return Decimal(match[1])
            except InvalidOperation:
                raise self.fail(offset, f"{_shown(word)} is not a decimal number") from None
        return float(match[1])

    def _string(self, offset: int) -> tuple[str, int]:
        match = _STRING.match(self._text, offset)
        if match is None:
            raise self.fail(offset, 'a string is never finished: expected " before the text ends')
        raw = match[1]
        if "\\" not in raw:
            return raw, match.end()

        def unescaped(m: re.Match[str]) -> str:
            code = m[1]
            if code in _ESCAPES:
                return _ESCAPES[code]
            if code[0] == "u" and len(code) == 5:
                return chr(int(code[1:], 16))
            if code[0] in "01234567" and int(code, 8) <= 0xFF:
                return chr(int(code, 8))
            raise self.fail(
                offset + 1 + m.start(),
                f'{_shown(m[0])} is no escape of a string: expected \\n, \\t, \\", \\\\ or \\uXXXX',
            )

        text = _ESCAPE.sub(unescaped, raw)
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16"), match.end()
        except UnicodeDecodeError:
            raise self.fail(offset, "a string with half a surrogate pair") from None

    def _char(self, offset: int) -> tuple[Value, int]:
        match = _CHAR.match(self._text, offset)
        end = match.end() if match is not None else offset + 1
        rest = _TOKEN.match(self._text, end)
        if match is None or (rest is not None and rest.start() == end and (match[1].isalnum() or len(match[1]) > 1)):
            word = self._text[offset : rest.end() if rest is not None else end]
            raise self.fail(offset, f"expected a character such as \\a, \\newline or \\u0041, found {_shown(word)}")
        name = match[1]
        if name in _CHARS:
            return Char(_CHARS[name]), end
        if len(name) == 1:
            return Char(name), end
        code = int(name[1:], 16 if name[0] == "u" else 8)
        if 0xD800 <= code <= 0xDFFF or (name[0] == "o" and code > 0xFF):
            raise self.fail(offset, f"{_shown(match[0])} is no character")
        return Char(chr(code)), end


def _begun(what: _Open) -> str:
    return f"#{what.tag}" if what.kind == "#" else f"#:{what.tag}{{" if what.tag else what.kind


def _qualified(key: Value, namespace: str) -> Value:
    """A key of a map with a namespace: ``:a`` is ``:namespace/a``, ``:_/a`` is ``:a``."""
    if not namespace or not isinstance(key, Keyword):
        return key
    if key.name.startswith("_/"):
        return Keyword(key.name[2:])
    return key if "/" in key.name else Keyword(f"{namespace}/{key.name}")


def _shown(word: str) -> str:
    return repr(word if len(word) <= 40 else word[:37] + "...")


def read_all(text: str, file: str = "<edn>") -> Iterator[tuple[int, Value]]:
    """Every form of a text, with its offset in characters, as they are read.

    Raises:
        EdnError: raised when the reader reaches the defect.
    """
    return Reader(text, file).forms()


def read(text: str, file: str = "<edn>") -> Value:
    """The only form of a text.

    Raises:
        EdnError: it is not EDN, or has no form, or more than one.
    """
    reader = Reader(text, file)
    forms = list(reader.forms())
    if len(forms) != 1:
        offset = forms[1][0] if forms else len(text)
        raise reader.fail(offset, "expected one form, found " + ("none" if not forms else "another"))
    return forms[0][1]


def error_at(text: str, file: str, offset: int, message: str) -> EdnError:
    """An error about a form's content, at the form's offset."""
    return Reader(text, file).fail(offset, message)


# --- writing ----------------------------------------------------------------------------------------------------------

_UNSAFE = re.compile(r'["\\\x00-\x1f\x7f\u2028\u2029]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def write(value: Value) -> str:
    """A value as EDN on one line; ``list`` and ``dict`` are written as vector and map.

    Raises:
        EdnError: a value that EDN cannot express, or nested too deeply.
    """
    return _write(value, 0)


def _write(v: Value, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise EdnError(f"nested more than {MAX_DEPTH} deep")
    if v is None or isinstance(v, bool):
        return {None: "nil", True: "true", False: "false"}[v]
    if isinstance(v, int):
        return str(v) if abs(v) < 1 << 3000 else _refused(v)
    if isinstance(v, float):
        return repr(v) if math.isfinite(v) else "##NaN" if math.isnan(v) else "##Inf" if v > 0 else "##-Inf"
    if isinstance(v, str):
        return '"' + _UNSAFE.sub(lambda m: _SHORT.get(m[0], f"\\u{ord(m[0]):04x}"), v) + '"'
    if isinstance(v, Keyword):
        return f":{v.name}" if _KEYWORD.match(v.name) else _refused(v)
    if isinstance(v, Symbol):
        return v.name if _NAME.match(v.name) and v.name not in _WORDS and not _NUMBER.match(v.name) else _refused(v)
    if isinstance(v, Char):
        return _write_char(v)
    if isinstance(v, Fraction):
        return f"{v.numerator}/{v.denominator}"
    if isinstance(v, Decimal):
        return f"{v}M" if v.is_finite() else _refused(v)
    if isinstance(v, Tagged):
        return f"#{v.tag} {_write(v.value, depth + 1)}" if _NAME.match(v.tag) else _refused(v)
    if isinstance(v, Map | Mapping):
        entries = v.entries if isinstance(v, Map) else v.items()
        return "{" + ", ".join(f"{_write(k, depth + 1)} {_write(x, depth + 1)}" for k, x in entries) + "}"
    for kind, before, after in ((tuple, "[", "]"), (list, "[", "]"), (List, "(", ")"), (Set, "#{", "}")):
        if isinstance(v, kind):
            items = v.items if isinstance(v, List | Set) else v
            return before + " ".join(_write(x, depth + 1) for x in items) + after
    return _refused(v)


def _write_char(v: Char) -> str:
    if v.value in _CHAR_NAMES:
        return f"\\{_CHAR_NAMES[v.value]}"
    if len(v.value) != 1 or (ord(v.value) > 0xFFFF and not v.value.isprintable()):
        return _refused(v)
    if v.value.isprintable() and not v.value.isspace():
        return f"\\{v.value}"
    return f"\\u{ord(v.value):04x}" if not 0xD800 <= ord(v.value) <= 0xDFFF else _refused(v)


def _refused(v: Value) -> str:
    raise EdnError(
        f"EDN cannot say {_shown(repr(v) if not isinstance(v, int) else 'a number of more than 900 digits')}"
    )
