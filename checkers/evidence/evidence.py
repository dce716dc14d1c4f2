"""All that a checker may look at: what was seen, what the files say, and what each table promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkers.evidence.history import History
from checkers.evidence.makers import Labels
from checkers.evidence.proxylog import AcceptedChange, Carried, PointerSwap
from checkers.evidence.tablelog import TableLog
from workloads.tables import TableSpec


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a checker may look at: what was seen, what the files say, and what each table promises.

    ``complete`` is False when the run ended early: the end of the history or of a table log may be missing, so absence
    proves nothing after the last capture. ``swaps``: table → the commits that proxies saw the catalog accept; empty without proxies.
    ``carried``: table → the requests that carried new snapshots of it (REST), whatever the answer; ``proxied``: whether proxies stood before
    the catalog, so that what they did not see was not sent. ``labels``: table → who made its snapshots that name no operation, if that
    was looked for (``checkers.timeline.timelines.named``); ``logs`` has those names already.
    ``accepted``: table → what accepted requests asked of it, where the catalog is told snapshots in place of metadata files (REST).
    ``answered``: operation → the answer to its commit of no snapshot (REST), such as a property's, which the catalog accepted; empty: it has
    other accepted commits, too.
    """

    history: History
    logs: Mapping[str, TableLog]
    tables: Mapping[str, TableSpec]
    complete: bool = True
    swaps: Mapping[str, tuple[PointerSwap, ...]] = field(default_factory=dict)
    accepted: Mapping[str, tuple[AcceptedChange, ...]] = field(default_factory=dict)
    carried: Mapping[str, tuple[Carried, ...]] = field(default_factory=dict)
    proxied: bool = False
    answered: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Labels] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What several checkers need of this evidence, once it is known, by the name of the part that computes it."""
