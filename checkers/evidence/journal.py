"""A journal: a header and lines, in a file that only grows, for work that goes on after it was stopped or killed.

::

    {"format": 1, …}     what all lines share, and which work may go on here
    {…}                  one finished piece of work each

One process writes, any number read meanwhile. A line is on disk before anything is done because of it. The rules for what a reader may find:

* What stands behind the last line end and is no whole object is a **torn tail**: its writer was killed in the middle of a line. A reader
  leaves it out, the next writer cuts it off.
* **Any other line that cannot be read refuses the file**, with its number and the remedy. Nobody drops a record without a word.
* Lines are **never rewritten**. A piece of work that was done again has another line, and the last one counts. So a key that this release
  does not know stays in its line.
* A piece of work that **could not be done** is a line, too, with the reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from checkers.evidence import runfolder
from checkers.evidence.record import learned
from workloads.file.opened import document, too_deep

T = TypeVar("T")
Values = Mapping[str, Any]
"""One line, as JSON values."""

BAD = (ValueError, KeyError, TypeError, AttributeError, IndexError)
"""What a decoder raises for values that are no line of its kind; ``msgspec.ValidationError`` is one of them."""
LONGEST_HEADER_VALUE = 200
"""Characters; a longer value of a header is not shown in a message."""
LOCK = "lock"
"""The file in a journal's folder that its writer locks; it names the process and the machine."""


@dataclass(frozen=True, slots=True)
class JournalFormat(Generic[T]):
    """One kind of journal.

    Attributes:
        subject: what has the lines, in words: ``a soak``.
        line: what a line is, in words: ``a run``.
        decode: the values of a line → the line. Raises one of :data:`BAD` for anything else; ignores keys that it does not know.
        encode: the inverse.
        error: raised with one line: what is wrong, and the remedy.
        version: of the format, as it stands in the header.
        bare: whether there is no header, because the journal lies beside another one that has it.
        options: key of the header → the option that decides it: ``--repeat``. Who typed another value is told which goes on here.
        upgrade: the values of a header, or of a line → what this release would have written.
    """

    subject: str
    line: str
    decode: Callable[[Values], T]
    encode: Callable[[T], Values]
    error: type[Exception]
    version: int = 1
    bare: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    upgrade: Callable[[Values], Values] = lambda values: values


def as_type(kind: type[T]) -> Callable[[Values], T]:
    """A decoder for a dataclass: a field without a value in the line has its default. Raises ``msgspec.ValidationError``."""
    return lambda values: msgspec.convert(values, learned(kind))


def read(path: Path, form: JournalFormat[T]) -> tuple[dict[str, Any], list[T]]:
    """Header and lines; a journal may be read while somebody writes it.

    Raises:
        Exception: ``form.error``: it is no such journal, a line cannot be read, or the file cannot be.
    """
    try:
        data = document(path)
    except OSError as e:
        raise form.error(f"{path}: cannot be read: {e.strerror}") from None
    return _decoded(path, form, data)


def _decoded(path: Path, form: JournalFormat[T], data: bytes) -> tuple[dict[str, Any], list[T]]:
    lines = list(enumerate(data[: _whole(data)].split(b"\n"), 1))
    header = {} if form.bare else _header(path, form, lines.pop(0)[1])
    found = []
    for number, line in lines:
        if not line.strip():
            continue
        try:
            found.append(form.decode(form.upgrade(_values(line))))
        except BAD as e:
            raise form.error(
                f"{path}:{number}: not {form.line} of {form.subject}: {_words(e)}; remove this line to do without it, "
                "or use the release of icequake that wrote it"
            ) from None
    return header, found


def _header(path: Path, form: JournalFormat[T], line: bytes) -> dict[str, Any]:
    try:
        header = dict(form.upgrade(_values(line)))
        if header.get("format") != form.version:
            raise ValueError(f"format {header.get('format')!r} is not known")
    except BAD as e:
        message = f"{path}:1: not the journal of {form.subject}: {_words(e)}"
        raise form.error(f"{message}; give another folder with --into") from None
    return header


def _whole(data: bytes) -> int:
    """How many bytes are not a torn tail. An object that is whole is none, although its line end is missing: an editor may leave that out."""
    end = data.rfind(b"\n") + 1
    with contextlib.suppress(ValueError):
        _values(data[end:])
        return len(data)
    return end


def _values(line: bytes) -> Values:
    if too_deep(line):
        raise ValueError("it is nested too deeply")
    found = json.loads(line.decode("utf-8"))
    if not isinstance(found, dict):
        raise ValueError("a line is an object")
    return found


def _words(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the key {error} is missing"
    return " ".join(str(error).split())


class Journal(Generic[T]):
    """A journal to append to. Use in ``with``; it is made if it does not exist.

    Args:
        header: what must be the same for work to go on here, without the format. A key whose value is None must be absent.
        also: more for the header of a new journal; it may be something else in one that is continued.
        alone: whether to lock its folder. A folder with several journals is locked by one of them.

    Attributes:
        header: the one in the file.
        lines: all of them, in the order of the file.
    """

    def __init__(
        self,
        path: Path,
        form: JournalFormat[T],
        header: Values | None = None,
        *,
        also: Values | None = None,
        alone: bool = True,
    ) -> None:
        self.path = path
        self.lines: list[T] = []
        self.header: dict[str, Any] = {}
        self._form = form
        self._shared = header or {}
        self._also = also or {}
        self._alone = alone
        self._appending = threading.Lock()
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Journal[T]:
        """Lock, then read or begin.

        Raises:
            Exception: ``form.error``: another process writes in the folder, it has the journal of other work, or a line of it cannot be read.
            OSError: the disk is full.
        """
        with contextlib.ExitStack() as stack:
            if self._alone:
                stack.enter_context(alone(self.path.parent, self._form.subject, self._form.error))
            self._begin()
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _begin(self) -> None:
        with _as_error(self.path, self._form.error):
            data = document(self.path) if self.path.exists() else b""
            if not data:
                if not self._form.bare:
                    header = {"format": self._form.version, **self._shared, **self._also}
                    self.header = {k: v for k, v in header.items() if v is not None}
                    runfolder.replace_file(self.path, _line(self.header))
                return
        self.header, self.lines = _decoded(self.path, self._form, data)
        self._check()
        with _as_error(self.path, self._form.error):
            if (whole := _whole(data)) < len(data):
                os.truncate(self.path, whole)
            if data[whole - 1 : whole] != b"\n":
                runfolder.append(self.path, "\n")

    def _check(self) -> None:
        shared = json.loads(json.dumps(self._shared))  # as it stands in a file: a tuple is a list there
        differs = [d for k, v in shared.items() for d in _differences(k, self.header.get(k), v)]
        if not differs:
            return
        options, there = self._form.options, {key: found for key, found, _ in differs}
        what = ", ".join(_told(options.get(key, key), found, here) for key, found, here in differs)
        remedy = "give another one with --into"
        if there.keys() <= options.keys():
            each = (
                f"leave {options[key]} out" if found is None else f"give {options[key]} {shlex.quote(str(found))}"
                for key, found in there.items()
            )
            remedy = f"to go on with it {' and '.join(each)}, or give another folder with --into"
        raise self._form.error(f"{self.path}: this folder has {self._form.subject} with another {what}; {remedy}")

    def append(self, *lines: T) -> None:
        """Add lines and have them on disk; any thread may. If that fails, the file is as before.

        Raises:
            OSError: it cannot be written; names the file.
        """
        with self._appending:
            runfolder.append(self.path, "".join(_line(self._form.encode(x)) for x in lines))
            self.lines += lines


def _line(values: Values) -> str:
    return json.dumps(values, separators=(",", ":")) + "\n"


def _differences(key: str, found: object, wanted: object) -> Iterator[tuple[str, object, object]]:
    """Each key that differs, with the value in the file and that here; of objects ``key.inner``."""
    if found == wanted:
        return
    if isinstance(found, dict) and isinstance(wanted, Mapping):
        for k in dict.fromkeys([*wanted, *found]):
            yield from _differences(f"{key}.{k}", found.get(k), wanted.get(k))
        return
    yield key, found, wanted


def _told(key: str, found: object, wanted: object) -> str:
    """``seed (3 there, 4 here)``."""
    in_file, here = (("none" if x is None else json.dumps(x, ensure_ascii=False, default=str)) for x in (found, wanted))
    return f"{key} ({in_file} there, {here} here)" if max(len(in_file), len(here)) <= LONGEST_HEADER_VALUE else key


@contextlib.contextmanager
def alone(folder: Path, what: str, error: type[Exception]) -> Iterator[None]:
    """Write in a folder alone; it is made if it does not exist. The lock ends with the process, and with what that forked, however they end.

    Args:
        what: writes there, in words: ``a soak``.

    Raises:
        Exception: ``error``: another process writes there, or the folder cannot be made.
        OSError: the disk is full.
    """
    with _as_error(folder, error, "made"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("a+", encoding="utf-8", errors="replace")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            who = lock.readline(200).strip() or "another process"
            raise error(f"{folder}: {who} writes {what} here; stop it, or give another folder with --into") from None
        with _as_error(folder / LOCK, error):
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            lock.flush()
        yield


@contextlib.contextmanager
def _as_error(path: Path, error: type[Exception], done: str = "written") -> Iterator[None]:
    """What cannot be written is one line with a remedy; a full disk stays an OSError, which names the path."""
    try:
        yield
    except OSError as e:
        if e.errno in runfolder.FULL:
            raise OSError(e.errno, e.strerror, str(path)) from None
        raise error(f"{path}: cannot be {done}: {e.strerror}; give another folder with --into") from None
