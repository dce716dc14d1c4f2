"""The metadata.json files behind a catalog's pointer: a version lists its predecessors, and the oldest of these lists its own.

A version's ``metadata-log`` has at most ``write.metadata.previous-versions-max`` entries, so a long chain is walked
from log to log. The walk ends at the first known version, at one without a log, or at one that is
missing or corrupt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.evidence.paths import normalise
from checkers.evidence.problem import Problem
from compose.objectstore import ObjectStore
from harness.tablefiles.iceberg.metadata_json import CorruptFile, read_metadata

LONGEST_CHAIN = 1_000_000
"""Bound of walks along a chain, whatever the files contain."""
_BATCH = 32
"""Files read at once: all their texts are in memory until they are parsed."""
_METADATA_FILE = re.compile(r"\.metadata\.json(\.gz)?$")

Snapshot = Mapping[str, Any]
"""A snapshot as in metadata.json."""


def folder(location: str) -> str:
    """The folder that a file is in."""
    return location.rpartition("/")[0]


def parse(location: str, raw: bytes | None, problems: list[Problem]) -> dict[str, Any] | None:
    """A metadata.json; None, with a new problem, when it is missing (``raw`` None) or corrupt."""
    if raw is None:
        problems.append(Problem("missing-metadata", f"metadata file {location} is missing", location))
        return None
    try:
        return read_metadata(raw)
    except CorruptFile as e:
        why = f"metadata file {location} is corrupt: {e}"
        problems.append(Problem("corrupt-metadata", why, location, cause=str(e)))
        return None


def predecessors(content: Mapping[str, Any]) -> list[str]:
    """The locations in ``metadata-log``, oldest first."""
    return [e["metadata-file"] for e in content.get("metadata-log") or () if e.get("metadata-file")]


@dataclass(slots=True)
class Trace:
    """The result of following a pointer.

    Attributes:
        locations: new versions, oldest first, the pointer's own last.
        base: the number of the known version from which they descend; None: no such version.
        contents: of the locations that were read on the way.
        problems: why the walk ended, if it ended at a file that cannot be read.
    """

    locations: list[str]
    base: int | None = None
    contents: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def trace(store: ObjectStore, pointer: str, known: Mapping[str, int]) -> Trace:
    """Walk back from ``pointer`` to a version in ``known`` (normalised location → its number).

    A pointer at an already known version was set back: that version is recorded again, after its predecessor.

    Raises:
        TableReadError: the store cannot be read.
    """
    if normalise(pointer) in known:
        n = known[normalise(pointer)]
        return Trace([pointer], n - 1 if n else None)
    out = Trace([pointer])  # newest first, reversed at the end
    seen = {normalise(pointer)}
    current: str | None = pointer
    for _ in range(LONGEST_CHAIN):
        if current is None:
            break
        content = parse(current, store.read_many([current])[current], out.problems)
        if content is None:
            break
        out.contents[current] = content
        current = None
        for location in reversed(predecessors(content)):
            place = normalise(location)
            if place in known:
                out.base = known[place]
                break
            if place not in seen:
                seen.add(place)
                out.locations.append(location)
                current = location
        if out.base is not None:
            break
    out.locations.reverse()
    return out


def recorded(pointer: str, history: Sequence[str], known: Mapping[str, int]) -> Trace | None:
    """The pointer's path according to the catalog's own log; None when the log lacks the pointer.

    Args:
        history: every location, oldest first; commits made after asking for the pointer are left out.
    """
    places = [normalise(location) for location in history]
    if normalise(pointer) not in places:
        return None
    end = len(places) - 1 - places[::-1].index(normalise(pointer))
    begin = next((n for n in range(end - 1, -1, -1) if places[n] in known), None)
    first = 0 if begin is None else begin + 1
    return Trace(list(history[first : end + 1]), None if begin is None else known[places[begin]])


def metadata_files(store: ObjectStore, folder: str) -> list[str]:
    """Every metadata.json in a folder.

    Raises:
        TableReadError: the store cannot be read.
    """
    return [p for p in store.list(folder) if _METADATA_FILE.search(p)]


class OutsideTheChain:
    """Snapshots listed only in metadata files outside the chain: each file is read once, and only when a parent is
    missing.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._listed = False
        self._read: set[str] = set()
        self._snapshots: dict[int, tuple[Snapshot, str]] = {}

    def look_again(self) -> None:
        """Allow for new files: the next search lists the folder again."""
        self._listed = False

    def find(self, snapshot_id: int, beside: str, chain: Mapping[str, int]) -> tuple[Snapshot, str] | None:
        """The snapshot and the file that lists it, in the folder of ``beside``.

        Raises:
            TableReadError: the store cannot be read.
        """
        if not self._listed:
            files = metadata_files(self._store, folder(beside))
            unread = [p for p in files if normalise(p) not in chain and p not in self._read]
            for start in range(0, len(unread), _BATCH):
                for location, raw in self._store.read_many(unread[start : start + _BATCH]).items():
                    content = parse(location, raw, []) or {}
                    self._read.add(location)
                    for s in content.get("snapshots") or ():
                        self._snapshots.setdefault(s["snapshot-id"], (s, location))
            self._listed = True
        return self._snapshots.get(snapshot_id)
