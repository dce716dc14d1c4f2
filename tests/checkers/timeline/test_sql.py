"""The statement of an operation, as a person would type it: never a mere name, and none where there is none to type."""

from __future__ import annotations

from random import Random

import pytest

from checkers.evidence.history import Event, Operation
from checkers.timeline.sql import sql_of
from workloads.operations.keys import Keys
from workloads.operations.kind import Draw
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

TABLES = {name: TableSpec(name=name, partitions=2) for name in ("t", "u")}


def said(kind: str) -> list[str]:
    draw = Draw(Random(1), Keys(5), 0, TABLES["t"], False, {}, ("u",))
    value = KINDS[kind].arguments(draw)
    invoked = Event(0, 0, "invoke", 0, kind, "t", value, "w0-1")
    return sql_of(Operation("w0-1", 0, kind, "t", "info", value, None, None, invoked, None), TABLES)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_statement_is_only_a_tables_name(kind: str) -> None:
    assert [s for s in said(kind) if len(s.split()) < 2] == []


def test_a_statement_sent_to_another_endpoint_is_the_same_statement() -> None:
    for kind in ("insert", "delete", "update-counter", "update-append"):
        (text,) = said(f"{kind}-by-transaction")
        assert [text] == said(kind)
        assert " t " in text and "{" not in text


def test_an_action_without_a_statement_has_none() -> None:
    assert said("transfer") == said("equality-delete") == []
    (text,) = said("read-both")
    assert text.startswith("SELECT 0 AS side")
