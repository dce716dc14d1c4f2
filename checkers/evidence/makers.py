"""Who made the snapshots that name no operation, and how that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, cast

import msgspec

from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit, TableLog

How = Literal["summary", "proxy", "rows"]
"""How a snapshot's operation is known: its summary names it; proxies saw the request that carried it; its rows tell."""


@cache
def _named(kind: type[Commit]) -> Callable[..., Commit]:
    """Commits of a format whose operation their summary does not name. ``named_by``: what names it."""
    made: Any = msgspec.defstruct(
        "NamedCommit",
        [("named_by", How, "rows")],
        bases=(kind,),
        namespace={"__reduce__": lambda c: (_rebuilt, (kind, msgspec.structs.asdict(c)))},
        frozen=True,
        kw_only=True,
    )
    return cast(Callable[..., Commit], made)


def _rebuilt(kind: type[Commit], values: Mapping[str, Any]) -> Commit:
    """One that came from another process, which made the class for itself."""
    return _named(kind)(**values)


@dataclass(frozen=True)
class Labels:
    """What is known of one table's snapshots that name no operation.

    Attributes:
        made: snapshot id → the operation that made it.
        how: snapshot id → how that is known.
        shared: snapshot id → the operations whose rows it has, several in one commit.
        perhaps: operations that can have made one of the others, on main or not: a rollback takes snapshots out of main, too.
        doubts: snapshots of which the evidence contradicts itself, one sentence each.
        tries: operation → the commit requests that proxies saw of it, for snapshots whose files do not count attempts.
    """

    made: Mapping[int, str] = field(default_factory=dict)
    how: Mapping[int, How] = field(default_factory=dict)
    shared: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    perhaps: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()
    tries: Mapping[str, int] = field(default_factory=dict)


NONE = Labels()


def named_by(c: Commit) -> How | None:
    """How a snapshot's operation is known; None if it is not."""
    if c.op is None:
        return None
    how: How = getattr(c, "named_by", "summary")
    return how


def labelled(log: TableLog, labels: Labels) -> TableLog:
    """The log whose snapshots name the operations that made them, with the attempts that proxies counted."""
    if not labels.made and not labels.tries:
        return log
    return replace(log, commits=tuple(_labelled(c, labels) for c in log.commits))


def _labelled(c: Commit, labels: Labels) -> Commit:
    if c.op is None and c.snapshot_id in labels.made:
        values = msgspec.structs.asdict(c) | {"op": labels.made[c.snapshot_id]}
        c = _named(type(c))(**values, named_by=labels.how.get(c.snapshot_id, "rows"))
    # Iceberg's Java library counts from 1; others do not count, or write 0 every time.
    if not c.attempt and c.op is not None and c.op in labels.tries:
        c = replace(c, attempt=labels.tries[c.op])
    return c
