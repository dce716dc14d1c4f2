"""Engines of tests, with promises that no real engine has: every kind of operation, at one level, without a name in the summary."""

from __future__ import annotations

from types import MappingProxyType
from typing import ClassVar

import pytest

from checkers.evidence import outcome
from checkers.timeline import explain, promise
from tests.support import simulator
from workloads.engines import engines
from workloads.engines.engine import Engine, Promise
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

PAPER = "https://example.org/blind-appends"


class Loose(Engine):
    """Promises snapshot isolation on every table."""

    name = "loose"
    title = "Loose"
    conflicts: ClassVar[frozenset[str]] = frozenset({"loose.Overtaken"})

    def can(self, f: str, table: TableSpec) -> bool:
        return f in KINDS and KINDS[f].verb != "maintenance"

    def promise(self, f: str, table: TableSpec) -> Promise:
        return Promise("snapshot", at_commit=KINDS[f].at_commit(table), blind_append=KINDS[f].blind_append)


class Strict(Loose):
    """Promises serializability on every table, of INSERT … SELECT too."""

    name = "strict"
    title = "Strict"

    def promise(self, f: str, table: TableSpec) -> Promise:
        return Promise("serializable", at_commit=KINDS[f].at_commit(table))


class Blind(Loose):
    """As the table promises, but INSERT … SELECT validates nothing, and says where that is written."""

    name = "blind"
    title = "Blind"

    def promise(self, f: str, table: TableSpec) -> Promise:
        blind = KINDS[f].blind_append
        return Promise(None, at_commit=KINDS[f].at_commit(table), blind_append=blind, source=PAPER if blind else "")


GUESTS: tuple[Engine, ...] = (Loose(), Strict(), Blind())


def admit(patch: pytest.MonkeyPatch) -> None:
    """Let these engines be known beside the real ones."""
    known = MappingProxyType({**engines.ENGINES, **{e.name: e for e in GUESTS}})
    for module in (engines, promise, explain, outcome, simulator):
        patch.setattr(module, "ENGINES", known)
