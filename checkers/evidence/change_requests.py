"""The requests of a run's ``proxy.jsonl`` that asked for a change of a table, whatever the answer, and the faults that struck them; and
the snapshots that operations read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from checkers.evidence.record import decoded
from workloads.file.opened import lines


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A request that asked a service for a change of a table: a commit, a creation or a drop.

    Attributes:
        time: ns since the start of the run; ``ms``: how long it took.
        base: what the commit builds on, ``new``: what replaces it: snapshot ids, or metadata files.
        faults: that struck it.
        held: whether it waited on its way, as the script of a scenario or the chosen order said.
    """

    time: int
    ms: float
    writer: int | None
    service: str
    kind: str
    table: str
    op: str
    base: str
    new: str
    status: str
    faults: tuple[str, ...]
    held: bool = False


_CHANGES = (b'"kind":"commit"', b'"kind":"create"', b'"kind":"drop"')


def change_requests(path: Path) -> dict[str, list[ChangeRequest]]:
    """Operation id → its requests for a change, in the order of the log; lines that cannot be read are left out."""
    out: dict[str, list[ChangeRequest]] = {}
    try:
        for line in lines(path):
            if not any(c in line for c in _CHANGES):
                continue
            try:
                r = decoded(line.decode(errors="replace").encode())
                known = ChangeRequest(
                    int(r["time"]),
                    float(r["ms"]),
                    r.get("writer"),
                    str(r["service"]),
                    str(r["kind"]),
                    str(r.get("table") or ""),
                    str(r.get("op") or ""),
                    _last_part(r.get("base")),
                    _last_part(r.get("new")),
                    str(r["status"]),
                    tuple(map(str, faults)) if isinstance(faults := r.get("faults"), list) else (),
                    r.get("held") is True,
                )
            except (ValueError, KeyError, TypeError, OverflowError):
                continue
            out.setdefault(known.op, []).append(known)
    except OSError:
        pass
    return out


class SnapshotScan(NamedTuple):
    """When an operation first read the manifest list of a snapshot: ns since the start of the run, and the snapshot's id."""

    time: int
    snapshot: int


_SCAN = re.compile(rb'"time":(\d{1,19}),.*"what":"(?:GET|HEAD) [^"]*/snap-(\d{1,19})-[^"]*\.avro","op":"([^"\\]+)"')


def scans(path: Path) -> dict[str, list[SnapshotScan]]:
    """Operation id → the snapshots whose manifest lists it read from the object store, each once, in the order of the log.

    The first is the one that it scanned, unless it is its own. Without a proxy before the store there are none.
    """
    out: dict[str, dict[int, SnapshotScan]] = {}
    try:
        for line in lines(path):
            if b"/snap-" in line and (found := _SCAN.search(line)) is not None:
                scan = SnapshotScan(int(found[1]), int(found[2]))
                out.setdefault(found[3].decode(errors="replace"), {}).setdefault(scan.snapshot, scan)
    except OSError:
        pass
    return {op: list(read.values()) for op, read in out.items()}


def _last_part(value: object) -> str:
    return "" if value is None else str(value).rpartition("/")[2]
