"""Where a bug is planted in the log of a Delta table, and the edits that plant it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from checkers.evidence.replace import replace
from checkers.formats.delta.records import (
    Action,
    DeltaCommit,
    DeltaLog,
    DeltaMetadata,
    DerivedFile,
    delta_log,
    logical_file,
)
from checkers.selftest.world import Planted, World

CREATION = "the version made the table, and no operation of the run did that"
Versions = tuple[DeltaMetadata, ...]
Actions = list[Action]


@dataclass(frozen=True)
class DeltaSite:
    """The n-th version of a Delta table."""

    w: World
    log: DeltaLog
    n: int

    @property
    def m(self) -> DeltaMetadata:
        """The version."""
        return self.log.metadata[self.n]

    @property
    def c(self) -> DeltaCommit | None:
        """Its commit; None of a creation."""
        return next((c for c in self.log.commits if c.metadata == self.n), None)

    def named(self, name: str) -> list[dict[str, Any]]:
        """Its actions of a name."""
        return [dict(f) for f in self.m.of(name)]

    def earlier(self, name: str) -> list[dict[str, Any]]:
        """The actions of a name in versions before it."""
        return [dict(f) for m in self.log.metadata[: self.n] for f in m.of(name)]

    @property
    def live_before(self) -> list[dict[str, Any]]:
        """The ``add`` of each file that is in the table before it."""
        live: dict[Any, dict[str, Any]] = {}
        for m in self.log.metadata[: self.n]:
            for f in m.of("remove"):
                live.pop(logical_file(f), None)
            live |= {logical_file(f): dict(f) for f in m.of("add")}
        return [*live.values()]

    def planted(self, log: DeltaLog) -> Planted:
        """The run with this log; whoever made the version is the culprit."""
        op = self.c.op if self.c is not None else None
        e = replace(self.w.evidence, logs={**self.w.evidence.logs, log.table: log})
        return Planted(e, frozenset(() if op is None else (op,)), op, CREATION if op is None else "")

    def versions(self, versions: Iterable[DeltaMetadata]) -> Planted:
        """The run with these versions."""
        return self.planted(replace(self.log, metadata=tuple(versions)))

    def put(self, m: DeltaMetadata) -> Planted:
        """The run with this version in its place."""
        return self.versions((*self.log.metadata[: self.n], m, *self.log.metadata[self.n + 1 :]))

    def acting(self, change: Callable[[Actions], Actions | None]) -> Planted | None:
        """The run with changed actions in it; None if the change gives none."""
        found = change(json.loads(json.dumps(self.m.actions)))
        return None if found is None else self.put(replace(self.m, actions=tuple(found)))

    def saying(self, **fields: Any) -> Planted | None:
        """The run in which ``commitInfo`` says this, too."""
        return self.acting(
            lambda a: [{**x, "commitInfo": {**x["commitInfo"], **fields}} if "commitInfo" in x else x for x in a]
        )

    def derived(self, *found: DerivedFile) -> Planted:
        """The run with these files that repeat the log up to it."""
        return self.put(replace(self.m, derived=found))


def every_version(w: World) -> Iterator[DeltaSite]:
    """All versions of all Delta tables but the first ones, in random order."""
    logs = (delta_log(log) for log in w.evidence.logs.values() if log.table_format == "delta")
    yield from w.shuffled(DeltaSite(w, log, n) for log in logs for n in range(1, len(log.metadata)))


def creations(w: World) -> Iterator[DeltaSite]:
    """The first versions."""
    yield from (DeltaSite(w, s.log, 0) for s in every_version(w) if s.n == 1)
