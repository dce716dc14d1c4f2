"""How a file that somebody else wrote is opened: only a regular one, and never more of it at once than a bound.

A run's folder may come from another machine, and a person may name any path. A pipe in place of a file would be waited for without end,
``/dev/zero`` read until memory ends, and values that are nested too deeply end a parser, or what works with them later. So every such file is
opened by :func:`opened`, and read by :func:`document` or :func:`lines`.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import shlex
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 1 << 28
"""Bytes of a document that is parsed as a whole, and of a line of any other file: 256 MiB.

Legal runs have long lines: the commit of an insert of 100,000 rows (``seed_rows``, at most) is 25 MB of a table log, and the read of a table of
1,000,000 rows (``keys: space``, at most) 50 MB of the history. To read up to the limit takes 0.2 s.
"""
MOST_UNPACKED = 1 << 32
"""Bytes that are unpacked of one file, 4 GiB: a few kilobytes can say that they are a terabyte."""
BLOCK = 1 << 18
"""Bytes of lines that are read together."""
DEPTH = 100
"""Levels of values in values. The deepest in a run, a schema of nested columns in a table's metadata, has about ten."""

_END = ord("\n")
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(sorted({*range(256)} - {*b"[]{}"}))
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class UnusableFile(OSError):
    """A file that is not read. ``strerror`` says why, as in other errors of the system; the text is that behind the file and the line."""

    def __init__(self, path: Path, why: str, line: int | None = None) -> None:
        super().__init__(errno.EINVAL, why, str(path))
        self.line = line

    def __str__(self) -> str:
        return f"{self.filename}{'' if self.line is None else f':{self.line}'}: {self.strerror}"


def opened(path: Path, *, follow: bool = True) -> BinaryIO:
    """A regular file, open for reading; the one who gets it closes it. Never waits.

    Args:
        follow: a link to a regular file is as good as the file.

    Raises:
        UnusableFile: it is a pipe, a device or a socket.
        OSError: it cannot be read, such as FileNotFoundError and IsADirectoryError.
    """
    more = 0 if follow else os.O_NOFOLLOW
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | more)
    except OSError as e:
        if e.errno == errno.ENXIO:  # a socket
            raise UnusableFile(path, "not a regular file") from None
        raise
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise UnusableFile(path, "not a regular file")
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def whole(path: Path) -> bytes:
    """The content of a regular file of any length. Raises OSError, as :func:`opened` does."""
    with opened(path) as file:
        return file.read()


def unpacked(path: Path) -> bytes:
    """As :func:`whole`; of a file of gzip what is packed in it.

    Raises:
        UnusableFile: it is no whole file of gzip, or has more than :data:`MOST_UNPACKED`.
        OSError: as :func:`whole`.
    """
    content = whole(path)
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            text = file.read(MOST_UNPACKED + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as e:
        raise UnusableFile(path, f"gzip cannot unpack it: {e}; {_whole_again(path)}") from None
    if len(text) > MOST_UNPACKED:
        raise UnusableFile(path, f"unpacked it is longer than {MOST_UNPACKED:,} bytes, the most that is read")
    return text


def _whole_again(path: Path) -> str:
    name = shlex.quote(str(path))
    return f"copy or pack it again, or judge what can be unpacked: gzip -dc < {name} > part-{shlex.quote(path.stem)}"


def document(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file that is parsed as a whole; ``most``: bytes that it may have.

    Raises:
        UnusableFile: it is no regular file, or too long.
        OSError: it cannot be read.
    """
    with opened(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UnusableFile(path, f"longer than {most:,} bytes, the most that is read")
    return content


def blocks(path: Path) -> Iterator[bytes]:
    """The lines of a file, some thousand at a time. The last one has no end if it is torn.

    Raises:
        UnusableFile: it is no regular file, or a line, which it names, is longer than :data:`MOST_BYTES`.
        OSError: it cannot be read.
    """
    number = 0
    with opened(path) as file:
        while block := file.read(BLOCK):
            if block[-1] != _END:
                block += file.readline(MOST_BYTES)
                if block[-1] != _END and len(block) > MOST_BYTES:
                    number += block.count(b"\n") + 1
                    raise UnusableFile(
                        path, f"the line is longer than {MOST_BYTES:,} bytes, the most that is read", number
                    )
            number += block.count(b"\n")
            yield block


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, each with its end; the last one has none if it is torn.

    Raises: as :func:`blocks`.
    """
    for block in blocks(path):
        yield from io.BytesIO(block)


def too_deep(json: bytes) -> bool:
    """Whether the values of a text of JSON are nested deeper than :data:`DEPTH`."""
    if len(json) <= 2 * DEPTH or json.count(b"[") + json.count(b"{") <= DEPTH:
        return False
    return _deep(json) and _deep(_STRING.sub(b"", json))


def _deep(json: bytes) -> bool:
    """As :func:`too_deep`, as if there were no strings. Each pass removes the innermost level."""
    brackets = json.translate(_BRACKETS, _OTHERS)
    for _ in range(DEPTH):
        if b"[]" not in brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    return brackets.count(b"[") > DEPTH or b"[]" in brackets
