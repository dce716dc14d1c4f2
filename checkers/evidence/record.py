"""A line of JSON as a record whose fields have the right types; what is wrong is said in one sentence, in words of the format.

A record is a ``msgspec.Struct`` that is decoded straight from its line. What the decoder refuses is looked at once more, as ``json`` reads it:
as :func:`converted` it is a record after all, or an error that says what is wrong. A reader puts the file and the line before it:
``tablelog/orders.jsonl:3: a commit needs sequence_number``.
"""

from __future__ import annotations

import json
import threading
import types
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from workloads.file.opened import DEPTH, too_deep

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder of ``msgspec.json`` raises at a line that is not JSON, or not of its type; it may also be text that only ``json`` reads."""
_UNFIT = (msgspec.ValidationError, UnicodeEncodeError)
"""What ``msgspec.convert`` raises at values that are not of a type; the last one at a key with half a character, which no format has."""
T = TypeVar("T")
_ANY = msgspec.json.Decoder()
MOST_SHOWN = 40
"""Characters of a wrong value that are shown."""


class RecordError(ValueError):
    """A line is no record of its format; one sentence without file and line."""


def decoded(line: bytes) -> dict[str, Any]:
    """The JSON object on a line.

    Raises:
        RecordError: it is torn, not UTF-8, not JSON, nested too deeply, or another value.
    """
    shallow(line)
    try:
        value = _ANY.decode(line)  # as json reads it, or not at all
    except DECODE_ERRORS:
        pass
    else:
        if type(value) is dict:
            return value
    try:
        text = line.decode("utf-8-sig")
        value = json.loads(text)
    except UnicodeDecodeError as e:
        raise RecordError(f"not UTF-8 text: byte {e.start + 1} is no part of a character") from None
    except json.JSONDecodeError as e:
        raise RecordError(_not_json(e)) from None
    except RecursionError:
        raise RecordError("not a record: its values are nested too deeply") from None
    except ValueError:
        raise RecordError("not a record: it has a number of more than 4,300 digits") from None
    if not isinstance(value, dict):
        raise RecordError(f"must be a JSON object, not {shown(value)}")
    return value


def shallow(line: bytes) -> None:
    """Refuse a line whose values are nested deeper than any format's.

    Raises:
        RecordError: they are.
    """
    if too_deep(line):
        raise RecordError(f"not a record: its values are nested too deeply, in more than {DEPTH} levels")


def _not_json(e: json.JSONDecodeError) -> str:
    rest = e.doc[e.pos :].strip()
    if not e.doc.strip():
        return "the line is empty"
    if not rest or (rest.startswith('"') and '"' not in rest[1:]):
        return f"the line is torn: its JSON ends in column {len(e.doc.rstrip())}, in the middle of a value"
    return f"not JSON: column {e.colno} has {_cut(rest[:1])}"


def shown(value: object) -> str:
    """A value as JSON, shortened."""
    if isinstance(value, dict | list) and value:
        return "an object" if isinstance(value, dict) else "a list"
    try:
        return _cut(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return "a value that is not JSON"


def _cut(text: str) -> str:
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return line if len(line) <= MOST_SHOWN else line[: MOST_SHOWN - 1] + "…"


def needs(record: Mapping[str, Any], what: str, *keys: str) -> None:
    """Refuse a record without one of the keys; ``what`` it is: ``a commit``.

    Raises:
        RecordError: keys are missing; names all of them.
    """
    missing = [k for k in keys if k not in record]
    if missing:
        raise RecordError(f"{what} needs {' and '.join(missing)}")


def must(good: bool, key: str, words: str, value: object) -> None:
    """Refuse a value that is not good.

    Raises:
        RecordError: names key, what it must be, and the value.
    """
    if not good:
        raise RecordError(f"{key} must be {words}, not {shown(value)}")


_LEARNING = threading.Lock()


def learned(kind: Any) -> Any:
    """The type, which several threads may decode from now on.

    msgspec 0.22.0 learns a type when it first meets it. A second thread that meets the type meanwhile finds a half-made description, and
    a NULL pointer in it ends the process. So msgspec meets each type under a lock.
    """
    _learn(kind)
    return kind


@cache
def _learn(kind: Hashable) -> None:
    with _LEARNING:
        msgspec.json.Decoder(kind)


def converted(values: Any, kind: type[T], what: str) -> T:
    """JSON values as the record that they are.

    Args:
        what: it is: ``a commit``.

    Raises:
        RecordError: it is none; says what is wrong first.
    """
    try:
        return msgspec.convert(values, learned(kind))  # type: ignore[no-any-return]
    except _UNFIT:
        raise RecordError(_wrong(values, kind, what)) from None


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except _UNFIT:
        return False
    return True


def _options(kind: Any) -> tuple[Any, ...]:
    """The types of which a value that is there may have one."""
    options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return tuple(o for o in options if o is not msgspec.UnsetType)


def _wrong(value: Any, kind: Any, what: str, part: str = "an entry") -> str:
    """Why a value is not of a type; ``part``: what one of its parts is, if it has some."""
    options = _options(kind)
    for option in options:
        args = get_args(option)
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            fields = msgspec.structs.fields(option)
            if isinstance(value, dict) and not option.__struct_config__.array_like:
                return _wrong_record(value, option, what)
            if isinstance(value, list) and sum(f.required for f in fields) <= len(value) <= len(fields):
                return _wrong_field(dict(zip((f.name for f in fields), value, strict=False)), fields, what)
        elif get_origin(option) in (tuple, list) and isinstance(value, list):
            return _wrong(next(v for v in value if not _fits(v, args[0])), args[0], part)
        elif get_origin(option) is dict and isinstance(value, dict) and _is_record(args[1]):
            key, inner = next((k, v) for k, v in value.items() if not _fits(v, args[1]))
            return _wrong(inner, args[1], f"{what}: {shown(key)}")
    return f"{what} must be {' or '.join(map(_words, options))}, not {shown(value)}"


def _wrong_record(value: Mapping[str, Any], kind: type[msgspec.Struct], what: str) -> str:
    """Why an object is no record: its keys, then their values."""
    fields, config = msgspec.structs.fields(kind), kind.__struct_config__
    if missing := [f.name for f in fields if f.required and f.name not in value]:
        return f"{what} needs {' and '.join(missing)}"
    known = {*kind.__struct_fields__, config.tag_field}
    unknown = sorted(k for k in value.keys() - known if config.forbid_unknown_fields or not _whole(k))
    if unknown:
        return f"{what} has no key {' and no key '.join(map(shown, unknown))}"
    if config.tag_field and value.get(config.tag_field, config.tag) != config.tag:
        return f"{what}: {config.tag_field} must be {config.tag}, not {shown(value[config.tag_field])}"
    return _wrong_field(value, fields, what)


def _wrong_field(value: Mapping[str, Any], fields: tuple[FieldInfo, ...], what: str) -> str:
    f = next(f for f in fields if f.name in value and not _fits(value[f.name], f.type))
    return _wrong(value[f.name], f.type, f"{what}: {f.name}", f"an entry of {f.name}")


def _whole(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


_WORDS: Mapping[Any, str] = {int: "a whole number", str: "a word", types.NoneType: "null"}
_MANY: Mapping[Any, str] = {int: " of whole numbers", str: " of words", Any: ""}


def _words(kind: Any) -> str:
    """What a value of one type is, in words of the format."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(args)}"
    if origin in (tuple, list):
        return f"a list{_many(args[0])}"
    if origin is dict:
        return f"an object{_many(args[1])}"
    if not _is_record(kind):
        return _WORDS[kind]
    if not kind.__struct_config__.array_like:
        return "an object"
    fields = msgspec.structs.fields(kind)
    forms = dict.fromkeys(", ".join(f.name for f in fields if f.required or more) for more in (False, True))
    return " or ".join(f"[{form}]" for form in forms)


def _many(kind: Any) -> str:
    if _is_record(kind):
        return " of lists" if kind.__struct_config__.array_like else " of objects"
    return _MANY[kind]
