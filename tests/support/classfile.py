"""The constants of a compiled Java class (The Java Virtual Machine Specification, chapter 4)."""

from __future__ import annotations

from struct import unpack_from
from typing import Any

_SIZES = {7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Tag of an entry of the constant pool → bytes after the tag; numbers and text are read apart."""
_NUMBERS = {3: (">i", 4), 4: (">f", 4), 5: (">q", 8), 6: (">d", 8)}


def constants(data: bytes) -> dict[str, tuple[str, Any]]:
    """The fields with a constant value: name → its type as a descriptor (``I``, ``Ljava/lang/String;``) and its value."""
    pool: dict[int, Any] = {}
    (count,) = unpack_from(">H", data, 8)
    at, index = 10, 1
    while index < count:
        tag = data[at]
        at += 1
        if tag == 1:
            (size,) = unpack_from(">H", data, at)
            pool[index] = data[at + 2 : at + 2 + size].decode()
            at += 2 + size
        elif tag in _NUMBERS:
            form, size = _NUMBERS[tag]
            (pool[index],) = unpack_from(form, data, at)
            at += size
            index += tag in (5, 6)  # these take two indices
        else:
            if tag == 8:
                pool[index] = unpack_from(">H", data, at)  # a string: the index of its text
            at += _SIZES[tag]
        index += 1
    (interfaces,) = unpack_from(">H", data, at + 6)
    at += 8 + 2 * interfaces
    (fields,) = unpack_from(">H", data, at)
    at += 2
    found = {}
    for _ in range(fields):
        _, name, kind, attributes = unpack_from(">HHHH", data, at)
        at += 8
        for _ in range(attributes):
            what, size = unpack_from(">HI", data, at)
            if pool[what] == "ConstantValue":
                (value,) = (pool[i] for i in unpack_from(">H", data, at + 6))
                found[pool[name]] = (pool[kind], pool[value[0]] if isinstance(value, tuple) else value)
            at += 6 + size
    return found
