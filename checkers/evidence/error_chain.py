"""Summarises a Java exception chain: its most specific class, and its message without ids and numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from checkers.evidence.history import ErrorChain

_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_URI = re.compile(r"\b(?:s3a?|file|hdfs|https?)://?[^\s,\])}'\"]+")
_NUMBER = re.compile(r"(?<![A-Za-z_])-?\d[\d.]*\b")
_NAMED = re.compile(r'(?<=")[^"\s]{1,80}(?=")')
_TWICE = re.compile(r"^([A-Z][\w ]*: )\1+")
"""DuckDB begins some messages twice: ``Binder Error: Binder Error: ``."""
_MANY = re.compile(r"[\[{(](?:[^\[\]{}()]*,)[^\[\]{}()]*[\])}]")

_SPARK, _ABORTED = "org.apache.spark.SparkException", "Job aborted"


def deciding_error(error: ErrorChain | None) -> tuple[str, str]:
    """The most specific (class, message) of a chain: the outermost of Iceberg's own classes, else the outermost.

    That a Spark job was aborted says only that a task failed, so the task's own exception is taken if the chain has it.
    """
    chain = [(e[0], e[1] if len(e) > 1 else "") for e in error or [] if e]
    for name, message in chain:
        if name.startswith("org.apache.iceberg."):
            return name, message
    causes = [(name, message) for name, message in chain if not (name == _SPARK and message.startswith(_ABORTED))]
    return (causes or chain or [("(no error recorded)", "")])[0]


def short_class(name: str) -> str:
    """A Java class without its package."""
    return name.rsplit(".", 1)[-1] or name


def first_line(message: str) -> str:
    """The first line of a message that is not empty, at most 2,000 characters."""
    return _TWICE.sub(r"\1", next((x.strip() for x in message.splitlines() if x.strip()), "")[:2000])


def message_pattern(message: str) -> str:
    """A message with ids, numbers, paths, lists and quoted names replaced by ``…``, its first line only: equal for equal causes."""
    line = first_line(message)
    for pattern in (_UUID, _URI, _MANY, _NAMED, _NUMBER):
        line = pattern.sub("…", line)
    line = re.sub(r"\[?…(?:\s*,\s*…)*\]?", "…", line)  # lists of any length become one …
    return line if len(line) <= 200 else f"{line[:199]}…"


def summary(name: str, message: str) -> str:
    """``IllegalArgumentException: Unsupported compression codec: zstdd``: a class and a message pattern (or a message) in one line."""
    return in_words(name, message_pattern(message))


def in_words(name: str, said: str) -> str:
    """A class and what it says, as it is."""
    return f"{short_class(name)}: {said}" if said else short_class(name)


def commonest(errors: Iterable[ErrorChain | None]) -> tuple[str, int]:
    """The commonest of some errors, as :func:`summary`, and how many are like it; of equally common ones the first by name."""
    counts = Counter(summary(*deciding_error(e)) for e in errors)
    return min(counts.items(), key=lambda c: (-c[1], c[0]), default=("no error", 0))
