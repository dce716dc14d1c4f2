"""The example kind of ``docs/extending.md`` on a real table: its SQL does what it says that it means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compose.stack.stack import Stack
from harness.run.tables import CREATE_NAMESPACE, create_table
from harness.writers.session import Session
from harness.writers.slot import request
from tests.support.examples import kinds_of_its_own, write_example
from workloads.file import own_kinds
from workloads.operations.kind import Arguments
from workloads.operations.kinds import KINDS
from workloads.tables import State, TableSpec

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

OPERATIONS: list[tuple[str, Arguments]] = [
    ("insert", {"ids": [0, 1, 2, 2]}),
    ("update-counter", {"ids": [1, 2]}),
    ("multiply", {"ids": [1, 2, 7], "factor": 40}),
    ("multiply", {"ids": [2], "factor": 40}),
    ("multiply", {"ids": [7], "factor": 2}),
]


def test_the_example_kind_means_what_it_says(spark: Any, stack: Stack, tmp_path: Path) -> None:
    write_example("my_kind.py", tmp_path)
    table = TableSpec(name="multiplied", mode="merge-on-read", partitions=2)
    session = Session(spark)
    state = State()
    with kinds_of_its_own():
        own_kinds.load("my_kind:Multiply", tmp_path)
        for statements in (CREATE_NAMESPACE, create_table(table)):
            assert session.execute(request("s", statements, catalog="c", namespace="own", table=table.name))["ok"]
        for n, (f, value) in enumerate(OPERATIONS):
            op = f"w0-{n}"
            statements = KINDS[f].statements(value, op, table)
            answer = session.execute(request(op, statements, catalog="c", namespace="own", table=table.name))
            assert answer["ok"], (f, answer)
            state.apply(*KINDS[f].writeset(state, value, op, table))
            read = KINDS["read"].statements({}, "r", table)
            rows = session.execute(request("r", read, catalog="c", namespace="own", table=table.name))["result"]
            assert sorted(map(tuple, rows)) == state.rows(), f
    assert {r.id: r.cnt for r in state} == {0: 0, 1: 40, 2: 600}
