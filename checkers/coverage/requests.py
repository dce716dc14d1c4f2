"""The loads and commit requests of operations, from a run's ``proxy.jsonl``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from checkers.coverage.phases import MetadataLoad
from checkers.evidence.paths import normalise
from checkers.evidence.proxylog import ACCEPTED
from checkers.evidence.record import RecordError, decoded
from workloads.file.opened import lines

_LOADED = re.compile(r"[23]\d\d|SELECT [1-9]\d*|ok")
"""An answer by which the client has the metadata: HTTP's status, also that nothing has changed; PostgreSQL's tag of a row; Thrift's reply."""
_KINDS = (b'"kind":"load"', b'"kind":"commit"')


class CommitRequest(NamedTuple):
    """A request for a commit.

    Attributes:
        time, end: when it came and when its answer did, ns since the start of the run.
        new: the metadata file that it made, in one spelling (``checkers.evidence.paths``); None if the log does not say.
        adds: the snapshots that it adds, if the catalog is told snapshots.
    """

    time: int
    end: int
    accepted: bool
    new: str | None = None
    adds: tuple[int, ...] = ()


@dataclass(frozen=True)
class CommitRequests:
    """Operation → its requests on one table, in the order of the log."""

    loads: Mapping[str, list[MetadataLoad]] = field(default_factory=dict)
    asked: Mapping[str, list[CommitRequest]] = field(default_factory=dict)

    @property
    def seen(self) -> bool:
        """Whether proxies saw the table's commits at all."""
        return bool(self.asked)


def read(path: Path, tables_of: Mapping[str, tuple[str, ...]]) -> dict[str, CommitRequests]:
    """Table → the requests of operations on it; empty without a proxy log. Torn lines are left out.

    Args:
        tables_of: operation → its tables: a request that names no table is about the operation's only one.
    """
    out: dict[str, tuple[dict[str, list[MetadataLoad]], dict[str, list[CommitRequest]]]] = {}
    try:
        for line in lines(path):
            if not any(kind in line for kind in _KINDS):
                continue
            try:
                record = decoded(line.decode(errors="replace").encode())
            except RecordError:
                continue
            for table, op, request in _of(record, tables_of):
                loads, asked = out.setdefault(table, ({}, {}))
                if isinstance(request, MetadataLoad):
                    loads.setdefault(op, []).append(request)
                else:
                    asked.setdefault(op, []).append(request)
    except OSError:
        return {}
    return {table: CommitRequests(loads, asked) for table, (loads, asked) in out.items()}


def _of(
    r: Mapping[str, Any], tables_of: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str, MetadataLoad | CommitRequest]]:
    """Table, operation and request of a line; a commit of several tables is one request of each."""
    time, ms, op = r.get("time"), r.get("ms"), r.get("op")
    if type(time) is not int or not isinstance(ms, int | float) or not math.isfinite(ms) or not isinstance(op, str):
        return
    if r.get("service") != "catalog" or op not in tables_of:
        return
    end, named = time + int(ms * 1e6), r.get("table")
    tables = tables_of[op]
    if r.get("kind") == "load":
        if not _LOADED.fullmatch(str(r.get("status"))):
            return
        for table in (named,) if isinstance(named, str) else tables[: len(tables) == 1]:
            yield table, op, MetadataLoad(time, end)
        return
    accepted = ACCEPTED.fullmatch(str(r.get("status"))) is not None
    found = r.get("changes")
    changes = [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []
    if changes:
        for change in changes:
            adds = tuple(int(s) for s in change.get("adds") or () if str(s).isdecimal())
            where = change.get("table")
            if isinstance(where, str):
                made = r.get("location") if len(changes) == 1 else None
                yield where, op, CommitRequest(time, end, accepted, _file(made), adds)
        return
    for table in (named,) if isinstance(named, str) else tables[: len(tables) == 1]:
        yield table, op, CommitRequest(time, end, accepted, _file(_made(r)))


def _made(r: Mapping[str, Any]) -> object:
    what = str(r.get("what"))
    if r.get("location") is None and r.get("new") is None and what.startswith("PUT /"):
        return "s3://" + what.removeprefix("PUT /")
    return r.get("location") or r.get("new")


def _file(location: object) -> str | None:
    return normalise(location) if isinstance(location, str) and ".metadata.json" in location else None
