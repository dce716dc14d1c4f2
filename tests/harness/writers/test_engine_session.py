"""The process of a writer of another engine: requests in, answers out."""

from __future__ import annotations

from typing import Any

import pytest

from harness.writers.engine_session import EngineSession, chain
from harness.writers.slot import guest_request, outcome
from workloads.engines.engine import GuestError
from workloads.engines.engines import ENGINES
from workloads.generator import PlannedOperation
from workloads.operations.kind import Arguments
from workloads.tables import TableSpec

TABLE = TableSpec(name="t", partitioned=False)


class Client:
    """Answers with what it was asked, or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[Any] = []

    def execute(self, op: str, f: str, value: Arguments, table: TableSpec, identifier: tuple[str, str]) -> Any:
        self.asked.append((op, f, value, table, identifier))
        if self.error is not None:
            raise self.error
        return [[1, "x"]]

    def alive(self) -> bool:
        return True

    def close(self) -> None:
        pass


def asked(client: Client) -> dict[str, Any]:
    planned = PlannedOperation("delete", TABLE, {"ids": [3]})
    return EngineSession(client).execute(guest_request("w1-4", planned, "ns"))


def test_an_operation_reaches_the_client_as_it_was_planned() -> None:
    client = Client()
    assert asked(client) == {"ok": True, "result": [[1, "x"]], "bound": {}}
    assert client.asked == [("w1-4", "delete", {"ids": [3]}, TABLE, ("ns", "t"))]


def test_an_error_is_a_chain_outermost_first() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as outer:
        client = Client(outer)
    assert asked(client)["error"] == [["builtins.ValueError", "outer"], ["builtins.KeyError", "'inner'"]]


def test_an_engine_may_bring_the_chain_of_another_process() -> None:
    error = GuestError([["org.x.Refused", "no"], ["org.x.Conflict", "moved"]])
    assert chain(error) == [["org.x.Refused", "no"], ["org.x.Conflict", "moved"]]
    assert str(error) == "org.x.Refused: no; org.x.Conflict: moved"


def test_a_chain_that_goes_in_circles_ends() -> None:
    error = ValueError("a")
    error.__cause__ = other = ValueError("b")
    other.__cause__ = error
    assert 2 <= len(chain(error)) <= 30


@pytest.mark.parametrize("name", [n for n in ENGINES if n != "spark"])
def test_the_engine_says_what_its_errors_mean(name: str) -> None:
    answer = {"ok": False, "error": [["org.apache.iceberg.exceptions.NeverHeardOf", "x"]]}
    assert outcome("insert", {}, answer, ENGINES[name]) == "info"
    assert outcome("insert", {}, {"ok": True}, ENGINES[name]) == "ok"
