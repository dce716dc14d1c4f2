"""Which file of the store an address means; nothing outside the store, whatever the address says."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from workloads.file.opened import UnusableFile
from workloads.file.opened import opened as opened_as_it_is

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".xml": "application/xml",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    **dict.fromkeys((".jsonl", ".yaml", ".yml", ".log", ".txt", ".md", ".edn", ".out", ".py"), "text/plain; charset=utf-8"),
}  # fmt: skip
"""Ending of a file's name → its content type; any other file is a download."""
DOWNLOAD = "application/octet-stream"


class Outside(ValueError):
    """An address means nothing in the store."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file that is open for reading; the one who gets it closes it."""

    file: BinaryIO
    size: int
    content_type: str


def within(store: Path, address: str) -> Path:
    """The file or folder that a percent-encoded address means, without links.

    Args:
        store: without links.

    Raises:
        Outside: it leaves the store, directly or by a link; it is hidden; or there is no such file.
    """
    text = unquote(address, errors="strict") if _is_utf8(address) else ""
    parts = [part for part in text.split("/") if part]
    if not _is_utf8(address) or any(p.startswith(".") or "\\" in p or not p.isprintable() for p in parts):
        raise Outside(address)
    try:
        found = store.joinpath(*parts).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise Outside(address) from None
    if not found.is_relative_to(store) or any(p.startswith(".") for p in found.relative_to(store).parts):
        raise Outside(address)
    return found


def _is_utf8(address: str) -> bool:
    try:
        unquote(address, errors="strict")
    except UnicodeDecodeError:
        return False
    return True


def opened(path: Path) -> OpenFile:
    """Open a file that :func:`within` found.

    Raises:
        Outside: it is no regular file, or became a link since.
        OSError: it cannot be read.
    """
    try:
        file = opened_as_it_is(path, follow=False)
    except (FileNotFoundError, IsADirectoryError, UnusableFile):
        raise Outside(str(path)) from None
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise Outside(str(path)) from None
        raise
    return OpenFile(file, os.fstat(file.fileno()).st_size, CONTENT_TYPES.get(path.suffix.lower(), DOWNLOAD))


def listing(store: Path, folder: Path) -> list[tuple[str, bool, int]]:
    """Name, whether it is a folder, and size of what a folder of the store shows, by name; links out of the store are left out."""
    out = []
    for path in sorted(folder.iterdir(), key=lambda p: p.name):
        if path.name.startswith("."):
            continue
        try:
            if not path.resolve(strict=True).is_relative_to(store):
                continue
            out.append((path.name, path.is_dir(), path.stat().st_size))
        except (OSError, RuntimeError):  # a link to nothing, or to itself; or it is gone
            continue
    return out
